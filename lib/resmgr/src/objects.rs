//! `vm`'s watched objects as [`cairn_cache::Mapped`] needs them, for a cache whose arena lies at one place of this component.

use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_cache::mapped::{Objects, Refused};
use cairn_cache::Slot;
use cairn_rt::{paging, Portal, Receiver};

/// Runs of written pages taken from `vm` at a time, and bytes of one.
const RUNS: usize = 64;
const RUN: usize = 16;

/// The badge by which FILE_OF comes: of no handle.
pub const NAMES: u64 = 1 << 63 | 1 << 32;

/// From now on this component says which files its memory objects show ([`crate::Server::shown`]). Where that cannot be, /proc/PID/maps shows no names.
pub fn tell_names(receiver: Receiver) {
    if let Ok(portal) = receiver.make_portal(NAMES) {
        let _ = paging::names(portal);
    }
}

/// The objects of a component whose arena begins at this address. (It must have said [`paging::watch`].)
#[derive(Clone, Copy, Debug)]
pub struct NativeObjects {
    pub arena: u64,
}

impl Objects for NativeObjects {
    type Object = Portal;

    fn make(&mut self, pages: u64, tag: u64) -> Option<Portal> {
        paging::object(pages, tag).ok()
    }

    fn reader(&mut self, object: Portal) -> Option<Portal> {
        paging::reader(object).ok()
    }

    fn change(
        &mut self,
        object: Portal,
        first: u64,
        slots: &[Option<Slot>],
        pages: u64,
    ) -> Result<u64, Refused> {
        let mut addresses = Vec::new();
        addresses
            .try_reserve_exact(slots.len() * 8)
            .map_err(|_| Refused::Failed)?;
        for slot in slots {
            let address = slot.map_or(0, |slot| self.arena + u64::from(slot) * PAGE);
            addresses.extend_from_slice(&address.to_le_bytes());
        }
        paging::change(object, first, &addresses, pages).map_err(|refused| match refused {
            paging::Refused::Executed => Refused::Executed,
            paging::Refused::Failed => Refused::Failed,
        })
    }

    fn cut(&mut self, object: Portal, pages: u64) -> bool {
        cairn_rt::memory::hide(object, pages, 0, pages).unwrap_or(true)
    }

    fn refuse(&mut self, tag: u64, first: u64, pages: u64) {
        paging::refuse(tag, first, pages);
    }

    fn written(
        &mut self,
        object: Portal,
        first: u64,
        pages: u64,
        runs: &mut [(u64, u64)],
    ) -> Option<(usize, u64, bool)> {
        let mut bytes = [0; RUNS * RUN];
        let room = runs.len().min(RUNS);
        let told = paging::written(object, first, pages, &mut bytes[..room * RUN])?;
        let (words, _) = bytes.as_chunks::<8>();
        let words = words.chunks_exact(2).take(told.runs.min(room));
        for (place, word) in runs.iter_mut().zip(words) {
            *place = (u64::from_le_bytes(word[0]), u64::from_le_bytes(word[1]));
        }
        Some((told.runs.min(room), told.mapped, told.executed))
    }

    fn close(&mut self, portal: Portal) {
        portal.close();
    }
}
