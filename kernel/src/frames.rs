//! The frame table: what each frame of physical memory is, and how often programs have it mapped.
//!
//! What always holds: a nucleus frame is mapped by nobody; a frame that is mapped cannot become the nucleus's. A count that is full stays full: such a frame is never free again.

use crate::arch::Frame;

/// What the nucleus thinks of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Not memory.
    Absent = 0,
    /// Memory that `vm` may map, give, copy.
    User = 1,
    /// Nucleus image, pools, tables.
    Nucleus = 2,
    /// The system page: may be mapped for reading only.
    System = 3,
}

const COUNT_MASK: u32 = 0x00ff_ffff;
/// The word of a user frame that is mapped nowhere.
const USER: u32 = (FrameKind::User as u32) << 24;

/// One word per frame: kind in bits 24..32, number of mappings below.
pub struct FrameTable {
    words: &'static mut [u32],
    nucleus: u64,
}

impl FrameTable {
    pub fn new(words: &'static mut [u32]) -> FrameTable {
        FrameTable { words, nucleus: 0 }
    }

    #[inline]
    pub fn kind(&self, frame: Frame) -> FrameKind {
        match self.words.get(frame as usize).map_or(0, |w| w >> 24) {
            1 => FrameKind::User,
            2 => FrameKind::Nucleus,
            3 => FrameKind::System,
            _ => FrameKind::Absent,
        }
    }

    /// Is it memory that programs may have?
    #[inline]
    pub fn is_user(&self, frame: Frame) -> bool {
        self.words
            .get(frame as usize)
            .is_some_and(|w| w >> 24 == FrameKind::User as u32)
    }

    /// How often programs have it mapped.
    pub fn mappings(&self, frame: Frame) -> u32 {
        self.words.get(frame as usize).map_or(0, |w| w & COUNT_MASK)
    }

    /// Declare a frame; its count starts at 0.
    #[inline(never)]
    pub fn set(&mut self, frame: Frame, kind: FrameKind) {
        if self.kind(frame) == FrameKind::Nucleus {
            self.nucleus -= 1;
        }
        if let Some(word) = self.words.get_mut(frame as usize) {
            *word = (kind as u32) << 24;
            if kind == FrameKind::Nucleus {
                self.nucleus += 1;
            }
        }
    }

    /// May the nucleus take it?
    pub fn is_free(&self, frame: Frame) -> bool {
        self.kind(frame) == FrameKind::User && self.mappings(frame) == 0
    }

    pub fn nucleus_frames(&self) -> u64 {
        self.nucleus
    }

    /// One mapping more. False if the count is full.
    #[inline]
    pub fn mapped(&mut self, frame: Frame) -> bool {
        match self.words.get_mut(frame as usize) {
            // One comparison for: a user frame whose count is not full.
            Some(word) if word.wrapping_sub(USER) < COUNT_MASK => {
                *word += 1;
                true
            }
            Some(word) => *word != USER | COUNT_MASK,
            None => true,
        }
    }

    /// Count one mapping more of a frame that programs may have. False: it is none.
    #[inline(always)]
    pub fn map_user(&mut self, frame: Frame) -> bool {
        match self.words.get_mut(frame as usize) {
            Some(word) if word.wrapping_sub(USER) < COUNT_MASK => {
                *word += 1;
                true
            }
            // A full count stays.
            Some(word) => *word == USER | COUNT_MASK,
            None => false,
        }
    }

    /// `frame` was mapped in the place of `old`.
    #[inline]
    pub fn replaced(&mut self, frame: Frame, old: Option<Frame>) {
        self.mapped(frame);
        if let Some(old) = old {
            self.unmapped(old);
        }
    }

    /// One mapping less.
    #[inline]
    pub fn unmapped(&mut self, frame: Frame) {
        if let Some(word) = self.words.get_mut(frame as usize) {
            // As above: a user frame whose count is neither 0 nor full. A full one says nothing any more about how many there are, so it stays for ever.
            if word.wrapping_sub(USER + 1) < COUNT_MASK - 1 {
                *word -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_mappings_of_user_frames_only() {
        let mut table = FrameTable::new(vec![0; 4].leak());
        table.set(1, FrameKind::User);
        table.set(2, FrameKind::Nucleus);
        table.set(3, FrameKind::System);
        for frame in 0..5 {
            assert!(table.mapped(frame));
            assert_eq!(table.is_user(frame), table.kind(frame) == FrameKind::User);
            assert_eq!(table.map_user(frame), table.is_user(frame));
            table.unmapped(frame);
        }
        let counts: Vec<u32> = (0..5).map(|frame| table.mappings(frame)).collect();
        assert_eq!(counts, [0, 1, 0, 0, 0]);
        assert!(!table.is_free(1));
        for _ in 0..3 {
            (0..5).for_each(|frame| table.unmapped(frame));
        }
        assert!(table.is_free(1));
        assert_eq!(table.kind(1), FrameKind::User);
        assert_eq!(table.nucleus_frames(), 1);
    }

    #[test]
    fn a_full_count_stays() {
        let mut table = FrameTable::new(vec![USER | COUNT_MASK].leak());
        assert!(!table.mapped(0) && table.map_user(0));
        assert_eq!(table.mappings(0), COUNT_MASK);
        table.unmapped(0);
        assert!(!table.mapped(0));
        assert_eq!(table.mappings(0), COUNT_MASK);
        // One below it is a number like all others.
        let mut table = FrameTable::new(vec![USER | (COUNT_MASK - 1)].leak());
        table.unmapped(0);
        assert_eq!(table.mappings(0), COUNT_MASK - 2);
    }

    #[test]
    fn a_full_count_never_says_free() {
        let mut table = FrameTable::new(vec![USER | COUNT_MASK].leak());
        // One mapping more than can be counted, and then all go but that one.
        assert!(!table.mapped(0));
        (0..COUNT_MASK).for_each(|_| table.unmapped(0));
        assert!(!table.is_free(0), "somebody still has it mapped");
    }
}
