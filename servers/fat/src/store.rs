//! The disk as the library sees it: bytes. What was used last is kept in lines of 64 KiB; what was changed is written when its line is needed for something else, and when [`Store::sync`] says so.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use fatfs::{IoBase, IoError, Read, Seek, SeekFrom, Write};

/// Bytes of a line, and of its parts, which are written by themselves.
pub const LINE: usize = 65_536;
const PART: usize = 4096;

/// The disk failed, or there is none at that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl IoError for Failed {
    fn is_interrupted(&self) -> bool {
        false
    }
    fn new_unexpected_eof_error() -> Failed {
        Failed
    }
    fn new_write_zero_error() -> Failed {
        Failed
    }
}

type Result<T> = core::result::Result<T, Failed>;

/// The disk, and memory for some lines of it. All wait until it is done; false: it failed.
pub trait Lines {
    /// Bytes of the disk.
    fn bytes(&self) -> u64;
    /// How many lines there is memory for.
    fn slots(&self) -> usize;
    fn memory(&mut self, slot: usize) -> &mut [u8];
    /// So many bytes of the disk from byte `at` on (both multiples of what the disk takes), to the beginning of a slot.
    fn load(&mut self, slot: usize, at: u64, bytes: usize) -> bool;
    /// The same number of bytes from `from` on in the slot to the disk.
    fn save(&mut self, slot: usize, from: usize, at: u64, bytes: usize) -> bool;
    fn flush(&mut self) -> bool;
}

#[derive(Clone, Copy, Default)]
struct Slot {
    line: u64,
    /// When it was used last; 0: never.
    used: u64,
    /// Parts that the disk does not have, a bit for each.
    changed: u16,
}

struct Inner<L> {
    lines: L,
    /// Accesses that are left of what is begun.
    left: u64,
    slots: Vec<Slot>,
    /// Where a line is.
    places: BTreeMap<u64, usize>,
    clock: u64,
}

/// All clones are the same disk; each has a position of its own.
pub struct Store<L> {
    inner: Rc<RefCell<Inner<L>>>,
    at: u64,
}

impl<L> Clone for Store<L> {
    fn clone(&self) -> Store<L> {
        Store {
            inner: self.inner.clone(),
            at: 0,
        }
    }
}

impl<L: Lines> Inner<L> {
    /// Bytes of a line that are on the disk.
    fn length(&self, line: u64) -> usize {
        let left = self.lines.bytes().saturating_sub(line * LINE as u64);
        left.min(LINE as u64) as usize
    }

    /// Write what was changed in a slot; runs of parts go together.
    fn clean(&mut self, index: usize) -> Result<()> {
        let Slot { line, changed, .. } = self.slots[index];
        let mut part = 0;
        while changed >> part != 0 {
            part += (changed >> part).trailing_zeros() as usize;
            let run = (changed >> part).trailing_ones() as usize;
            let from = part * PART;
            let bytes = (run * PART).min(self.length(line) - from);
            let at = line * LINE as u64 + from as u64;
            if !self.lines.save(index, from, at, bytes) {
                return Err(Failed);
            }
            part += run;
            if part >= LINE / PART {
                break;
            }
        }
        self.slots[index].changed = 0;
        Ok(())
    }

    /// Where byte `at` is: its line's slot, where in it, and how many bytes there are from there; None: behind the end.
    fn place(&mut self, at: u64) -> Result<Option<(usize, usize, usize)>> {
        self.left = self.left.checked_sub(1).ok_or(Failed)?;
        let (line, from) = (at / LINE as u64, (at % LINE as u64) as usize);
        let left = self.length(line).saturating_sub(from);
        if left == 0 {
            return Ok(None);
        }
        Ok(Some((self.slot(line)?, from, left)))
    }

    /// The slot where a line is, read if it was nowhere.
    fn slot(&mut self, line: u64) -> Result<usize> {
        self.clock += 1;
        let index = match self.places.get(&line) {
            Some(&index) => index,
            None => {
                let slots = self.slots.iter().enumerate();
                let oldest = slots.min_by_key(|(_, slot)| slot.used);
                let index = oldest.map(|(index, _)| index).ok_or(Failed)?;
                self.clean(index)?;
                if self.slots[index].used != 0 {
                    self.places.remove(&self.slots[index].line);
                }
                self.slots[index] = Slot::default();
                if !self
                    .lines
                    .load(index, line * LINE as u64, self.length(line))
                {
                    return Err(Failed);
                }
                self.slots[index].line = line;
                self.places.insert(line, index);
                index
            }
        };
        self.slots[index].used = self.clock;
        Ok(index)
    }
}

impl<L: Lines> Store<L> {
    pub fn new(lines: L) -> Store<L> {
        let slots = vec![Slot::default(); lines.slots()];
        Store {
            inner: Rc::new(RefCell::new(Inner {
                lines,
                left: u64::MAX,
                slots,
                places: BTreeMap::new(),
                clock: 0,
            })),
            at: 0,
        }
    }

    /// From now on so many accesses, then errors: the library follows rings of clusters for ever.
    pub fn allow(&self, accesses: u64) {
        self.inner.borrow_mut().left = accesses;
    }

    /// Everything that was changed is on the disk, for good.
    pub fn sync(&self) -> Result<()> {
        let mut inner = self.inner.borrow_mut();
        let mut any = false;
        // In the order of the disk.
        let all: Vec<usize> = inner.places.values().copied().collect();
        for index in all {
            any |= inner.slots[index].changed != 0;
            inner.clean(index)?;
        }
        match !any || inner.lines.flush() {
            true => Ok(()),
            false => Err(Failed),
        }
    }
}

impl<L> IoBase for Store<L> {
    type Error = Failed;
}

impl<L: Lines> Read for Store<L> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let inner = &mut *self.inner.borrow_mut();
        let Some((slot, from, left)) = inner.place(self.at)? else {
            return Ok(0);
        };
        let count = left.min(into.len());
        into[..count].copy_from_slice(&inner.lines.memory(slot)[from..from + count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl<L: Lines> Write for Store<L> {
    fn write(&mut self, from: &[u8]) -> Result<usize> {
        let inner = &mut *self.inner.borrow_mut();
        let Some((slot, start, left)) = inner.place(self.at)? else {
            return Ok(0);
        };
        let count = left.min(from.len());
        inner.lines.memory(slot)[start..start + count].copy_from_slice(&from[..count]);
        for part in start / PART..(start + count).div_ceil(PART) {
            inner.slots[slot].changed |= 1 << part;
        }
        self.at += count as u64;
        Ok(count)
    }

    /// The library flushes for each entry; [`Store::sync`] is what counts.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<L: Lines> Seek for Store<L> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => {
                let end = self.inner.borrow().lines.bytes();
                end.checked_add_signed(by)
            }
        };
        self.at = at.ok_or(Failed)?;
        Ok(self.at)
    }
}
