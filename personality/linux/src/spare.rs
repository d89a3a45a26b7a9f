//! A portal that is used again: of one file that was closed the portal is kept (CLOSE), and the next file that is opened at the same manager gets it. So opening and closing are a message each, and the nucleus makes and ends no portal.
//!
//! Only of a handle that is this process's alone; it goes before a fork, so that no other process has it.

use crate::descriptors::{OpenFile, NO_SLOT};
use crate::machine::area::process;
use crate::machine::gate;
use crate::machine::request::Request;
use alloc::sync::Arc;
use cairn_idl::fs::{self, kind, KEPT_LIFE_SHIFT, KEPT_SLOT_SHIFT};

/// A portal that leads to nothing now.
#[derive(Clone, Copy, Debug)]
pub struct Spare {
    pub slot: u32,
    home: u32,
    badge: u64,
}

impl Spare {
    /// What names it in w1 and w2 of OPEN.
    pub fn named(&self) -> [u64; 2] {
        let (slot, generation) = (self.badge as u32 as u64, self.badge >> 32);
        [slot << KEPT_SLOT_SHIFT, generation << KEPT_LIFE_SHIFT]
    }
}

/// Of two managers at most.
#[derive(Debug, Default)]
pub struct Spares([Option<Spare>; 2]);

impl Spares {
    /// The one of this manager, to be used or put back.
    #[inline(always)]
    pub fn take(&mut self, home: u32) -> Option<Spare> {
        let mut all = self.0.iter_mut();
        all.find(|spare| spare.is_some_and(|spare| spare.home == home))?
            .take()
    }

    #[inline(always)]
    pub fn has(&self, home: u32) -> bool {
        let mut all = self.0.iter().flatten();
        all.any(|spare| spare.home == home)
    }

    /// Keep one. What comes back is to be closed: one of the same manager, or the one that was put longer ago.
    fn put(&mut self, spare: Spare) -> Option<Spare> {
        if self.has(spare.home) {
            return Some(spare);
        }
        let [older, newer] = &mut self.0;
        let moved = newer.replace(spare);
        match older {
            Some(_) if moved.is_none() => None,
            _ => core::mem::replace(older, moved),
        }
    }
}

/// A file is closed for good if this was its last descriptor. [`Spares::has`] none of its manager: its portal may be kept.
pub fn close(mut file: Arc<OpenFile>, wanted: bool) {
    if let (true, Some(file)) = (wanted, Arc::get_mut(&mut file)) {
        let may = file.home != NO_SLOT && file.kind & kind::SEEKABLE != 0;
        if may && file.frames.is_young() {
            keep(file);
        }
    }
}

fn keep(file: &mut OpenFile) {
    let (slot, home) = (file.slot(), file.home);
    // Otherwise the file's end closes it.
    if let Ok(words) = Request::new(&[fs::CLOSE]).call(slot) {
        file.without_portal();
        let badge = words[1];
        put(Spare { slot, home, badge });
    }
}

/// Keep it for the next file.
pub fn put(spare: Spare) {
    let over = process().state().spares.put(spare);
    if let Some(over) = over {
        gate::close(over.slot);
    }
}

/// Another process is about to have all portals, or has them: these shall not be among them.
pub fn give_up() {
    let spares = core::mem::take(&mut process().state().spares);
    for spare in spares.0.into_iter().flatten() {
        gate::close(spare.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(slot: u32, home: u32) -> Spare {
        let badge = 0;
        Spare { slot, home, badge }
    }

    #[test]
    fn one_of_each_of_two_managers() {
        let mut spares = Spares::default();
        assert!(spares.put(spare(1, 8)).is_none());
        assert!(spares.put(spare(2, 9)).is_none());
        assert!(spares.has(8) && spares.has(9) && !spares.has(10));
        assert_eq!(spares.put(spare(3, 9)).map(|spare| spare.slot), Some(3));
        // The one that was put first goes.
        assert_eq!(spares.put(spare(4, 10)).map(|spare| spare.slot), Some(1));
        assert!(spares.take(8).is_none());
        assert_eq!(spares.take(9).map(|spare| spare.slot), Some(2));
        assert!(spares.put(spare(5, 11)).is_none());
        assert_eq!(spares.take(10).map(|spare| spare.slot), Some(4));
        assert_eq!(spares.take(11).map(|spare| spare.slot), Some(5));
        assert!(spares.take(11).is_none());
    }
}
