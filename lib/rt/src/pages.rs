//! Whole pages that go to another domain without a copy: one side offers them and passes a portal in an ordinary message or reply, the other one takes them.
//! See docs/services/windows.md for when that is worth while.

use crate::portal::{Message, Portal};
use cairn_abi::layout::native_slot;
use cairn_abi::Id;
use cairn_idl::vm::{self, Giving};
use cairn_idl::wire::{Answer, Failure, Pages};
use core::ops::{Deref, DerefMut};

const VM: Portal = Portal(native_slot::VM);
/// For [`give`] and [`share`]: whoever has the portal.
pub const ANYBODY: Id = 0;

/// Give whole pages of one's own away; they read as zeroes afterwards. The portal is for the one who shall have them: only domain `receiver` can take them (and this
/// one, which so takes back what was not taken). What nobody took is lost when the last portal is closed.
pub fn give(pages: &mut [u8], receiver: Id) -> Result<Portal, Failure> {
    offer(pages, Giving::Move, receiver)
}

/// The same, but they stay here as well: each side that writes to a page gets its own copy of that page.
pub fn share(pages: &[u8], receiver: Id) -> Result<Portal, Failure> {
    offer(pages, Giving::Copy, receiver)
}

fn offer(pages: &[u8], how: Giving, receiver: Id) -> Result<Portal, Failure> {
    let (address, length) = (pages.as_ptr() as u64, pages.len() as u64);
    let given = vm::Client(&VM).offer(address, length, how, receiver)?;
    Ok(Portal(given.slot()))
}

/// Pages that were taken; they go with this value.
pub struct Taken(&'static mut [u8]);

impl Deref for Taken {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl DerefMut for Taken {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let (address, length) = (self.0.as_ptr() as u64, self.0.len() as u64);
        let _ = vm::Client(&VM).unmap(address, length);
    }
}

/// Take what a portal from a message offers, if it is `most` bytes at most; the portal is closed then. Whatever the portal leads to, `vm` is asked, not it.
pub fn take(offered: Portal, most: usize) -> Result<Taken, Failure> {
    let answer = vm::Client(&VM).take(0, most as u64, 0, offered.0)?;
    offered.close();
    let (start, length) = (answer.start as *mut u8, answer.length as usize);
    // SAFETY: `vm` says that these addresses are mapped for this domain from now on, readable and writable, with pages that nobody else can change, until `drop` unmaps them.
    Ok(Taken(unsafe {
        core::slice::from_raw_parts_mut(start, length)
    }))
}

/// Take what a request brought by its interface, which says how much that may be.
pub fn accept(pages: Pages) -> Result<Taken, Failure> {
    take(Portal(pages.slot), pages.most as usize)
}

/// Take it into the first of these pages (whole ones, of this domain's own), in the place of what is there; the portal is closed then. → bytes
pub fn take_into(offered: Portal, place: &mut [u8]) -> Result<usize, Failure> {
    let (address, most) = (place.as_mut_ptr() as u64, place.len() as u64);
    let answer = vm::Client(&VM).take(address, most, vm::flags::FIXED, offered.0)?;
    offered.close();
    Ok(answer.length as usize)
}

/// A call that gives pages along, with their portal in w7 of the message; portals may come back. If it fails, what the server had not taken is here again.
pub fn call_giving(server: Portal, words: &[u64], pages: &mut [u8]) -> Result<Answer, Failure> {
    let offered = give(pages, ANYBODY)?;
    let answer = server.ask(Message::new(words).portal(offered));
    if answer.is_err() && take_into(offered, pages).is_ok() {
        return answer.map_err(Failure::Gate);
    }
    offered.close();
    answer.map_err(Failure::Gate)
}
