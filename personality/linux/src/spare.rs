//! A portal that is used again: of one file that was closed the portal is kept (CLOSE), and the next file that is opened at the same manager gets it. So opening and closing are a message each, and the nucleus makes and ends no portal.
//!
//! Only of a handle that is this process's alone; it goes before a fork, so that no other process has it.

use crate::descriptors::{OpenFile, NO_SLOT};
use crate::frames::Frames;
use crate::machine::area::process;
use crate::machine::request;
use alloc::sync::Arc;
use cairn_idl::fs::{self, kind, KEPT_LIFE_SHIFT, KEPT_SLOT_SHIFT};

/// An open file whose portal leads to nothing now; dropping it closes the portal.
#[derive(Debug)]
pub struct Spare {
    file: Arc<OpenFile>,
    badge: u64,
}

impl Spare {
    /// What names it in w1 and w2 of OPEN.
    pub fn named(&self) -> [u64; 2] {
        let (slot, generation) = (self.badge as u32 as u64, self.badge >> 32);
        [slot << KEPT_SLOT_SHIFT, generation << KEPT_LIFE_SHIFT]
    }

    /// It is open again, through the same portal.
    #[inline(always)]
    pub fn opened(mut self, kind: u64, mode: u32, path_only: bool) -> Arc<OpenFile> {
        // Nobody else has it (`close`).
        if let Some(file) = Arc::get_mut(&mut self.file) {
            file.kind = kind;
            file.renew();
            file.mode = mode;
            file.path_only = path_only;
            file.mapped = Default::default();
        }
        self.file
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
        all.find(|spare| spare.as_ref().is_some_and(|spare| spare.file.home == home))?
            .take()
    }

    #[inline(always)]
    pub fn has(&self, home: u32) -> bool {
        let mut all = self.0.iter().flatten();
        all.any(|spare| spare.file.home == home)
    }

    /// Keep one. What comes back is to be closed: one of the same manager, or the one that was put longer ago.
    fn put(&mut self, spare: Spare) -> Option<Spare> {
        if self.has(spare.file.home) {
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

/// A file that is no descriptor is closed for good.
pub fn close_own(file: Arc<OpenFile>) {
    let wanted = !process().state().spares.has(file.home);
    close(file, wanted);
}

/// A file is closed for good if this was its last descriptor. `wanted`: [`Spares::has`] none of its manager, so its portal may be kept.
pub fn close(mut file: Arc<OpenFile>, wanted: bool) {
    if !wanted || file.home == NO_SLOT || file.kind & kind::SEEKABLE == 0 {
        return;
    }
    if Arc::get_mut(&mut file).is_some_and(|file| file.frames.is_young()) {
        // Otherwise the file's end closes it.
        let answer = request::exchange(file.slot(), [fs::CLOSE, 0, 0, 0, 0, 0, 0, 0]);
        if let (Some([0, badge, ..]), Some(closed)) = (answer, Arc::get_mut(&mut file)) {
            // What is mapped of the file would keep its file system from being unmounted.
            closed.frames = Frames::new(true);
            put(Spare { file, badge });
        }
    }
}

/// Keep it for the next file.
pub fn put(spare: Spare) {
    let over = process().state().spares.put(spare);
    drop(over);
}

/// Another process is about to have all portals, or has them: these shall not be among them.
pub fn give_up() {
    let spares = core::mem::take(&mut process().state().spares);
    drop(spares);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;

    fn spare(badge: u64, home: u32) -> Spare {
        let mut file = OpenFile::portal(NO_SLOT, 0, 0);
        file.home = home;
        let file = Arc::new(file);
        Spare { file, badge }
    }

    #[test]
    fn one_of_each_of_two_managers() {
        let badge = |spare: Option<Spare>| spare.map(|spare| spare.badge);
        let mut spares = Spares::default();
        assert!(spares.put(spare(1, 8)).is_none());
        assert!(spares.put(spare(2, 9)).is_none());
        assert!(spares.has(8) && spares.has(9) && !spares.has(10));
        assert_eq!(badge(spares.put(spare(3, 9))), Some(3));
        // The one that was put first goes.
        assert_eq!(badge(spares.put(spare(4, 10))), Some(1));
        assert!(spares.take(8).is_none());
        assert_eq!(badge(spares.take(9)), Some(2));
        assert!(spares.put(spare(5, 11)).is_none());
        assert_eq!(badge(spares.take(10)), Some(4));
        assert_eq!(badge(spares.take(11)), Some(5));
        assert!(spares.take(11).is_none());
    }

    #[test]
    fn what_is_opened_again_is_a_new_file() {
        let mut kept = spare(1, 8);
        let file = Arc::get_mut(&mut kept.file).unwrap();
        file.path_only = true;
        *file.mapped.0.get_mut() = 5;
        let file = kept.opened(kind::SEEKABLE, 0o100644, false);
        assert_eq!((file.kind, file.mode), (kind::SEEKABLE, 0o100644));
        assert!(!file.path_only && file.frames.is_young() && file.home == 8);
        assert_eq!(file.mapped.0.load(Ordering::Relaxed), 0);
    }
}
