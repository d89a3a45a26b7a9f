//! Windows: a server sees whole pages of a caller that has agreed ([`cairn_abi::flag::WINDOWS`]), without a copy. See docs/services/windows.md.

use crate::channel::Receiver;
use crate::portal::{Message, Portal};
use cairn_abi::layout::{native_slot, PAGE};
use cairn_abi::service::{current, window, AUTO};
use cairn_abi::{Error, Token};
use cairn_idl::{vm, wire};
use core::sync::atomic::AtomicU64;

/// A place for pages of callers. Where nothing is shown there are pages of this component's own.
pub struct Window {
    portal: Portal,
    words: &'static [AtomicU64],
}

impl Window {
    /// Of so many pages (at most [`window::MAX_PAGES`]); they stay this component's for ever.
    pub fn make(pages: u64) -> Result<Window, Error> {
        let (length, prot) = (pages * PAGE, vm::prot::READ | vm::prot::WRITE);
        let request = [vm::MAP, 0, length, prot, vm::flags::POPULATE];
        let vm = Portal(native_slot::VM);
        let address = vm.call(Message::new(&request))?[0];
        if address as i64 <= 0 {
            return Err(Error::NoMemory);
        }
        let made = Portal::CURRENT.service(current::WINDOW_CREATE, &[address, pages, AUTO]);
        match made {
            Ok(words) => Ok(Window {
                portal: Portal(words[0] as u32),
                // SAFETY: `vm` says that these addresses are mapped for this domain, readable and writable, and nothing here unmaps them. Pages of others that appear there may change at any
                // time, as atomics may; they are perhaps not writable, which only a store would notice.
                words: unsafe {
                    core::slice::from_raw_parts(address as *const AtomicU64, length as usize / 8)
                },
            }),
            Err(error) => {
                let _ = vm.call(Message::new(&[vm::UNMAP, address, length]));
                Err(error)
            }
        }
    }

    /// Show `pages` pages from byte `offset` of the caller's out part on (of its in part with [`window::IN`]); `flags` of [`window`]. What is seen may change, and may be this component's own pages again, at any time.
    pub fn open(
        &self,
        channel: Receiver,
        token: Token,
        offset: u64,
        pages: u64,
        flags: u64,
    ) -> Result<&[AtomicU64], Error> {
        let slot = channel.0 .0 as u64;
        let words = [slot, token, offset, pages, flags];
        let words = self.portal.service(window::OPEN, &words)?;
        Ok(&self.words[..(words[0] * PAGE / 8) as usize])
    }

    /// The words there, whoever's pages they are.
    pub fn words(&self) -> &[AtomicU64] {
        self.words
    }

    pub fn is_open(&self) -> bool {
        self.portal
            .service(window::INFO, &[])
            .is_ok_and(|words| words[0] == 1)
    }

    pub fn close(&self) {
        let _ = self.portal.service(window::CLOSE, &[]);
    }
}

/// A window for the callers of one channel, as generated servers want it ([`cairn_idl::wire::Out::show`], [`cairn_idl::wire::Room::show`]).
pub struct View {
    window: Window,
    channel: Receiver,
}

impl Window {
    pub fn on(self, channel: Receiver) -> View {
        View {
            window: self,
            channel,
        }
    }
}

impl wire::View for View {
    fn open(
        &self,
        token: Token,
        offset: u64,
        pages: u64,
        flags: u64,
    ) -> Result<&[AtomicU64], Error> {
        self.window.open(self.channel, token, offset, pages, flags)
    }
}
