//! What is left to a successor besides the framework's own ([`cairn_resmgr::Keepsake`]): which files were open, by path, and what told each apart, so that
//! another file that has the path by then is not taken for it.
//!
//! A record's first word says that it is one. It is written last and taken away first; what makes no sense is no record.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

const WORDS: usize = 72;
type Words = [AtomicU64; WORDS];
const MARK: u64 = 0x3970_6f70_656e_0001;
/// First bytes of the path.
const HEAD: usize = 3;
/// Longer paths are not kept.
const LONGEST: usize = (WORDS - HEAD) * 8;

#[derive(Default)]
pub struct Left {
    records: &'static [Words],
    free: Vec<u32>,
}

impl Left {
    /// Records that none of these open files has are free.
    pub fn new(memory: &'static [AtomicU64], open: &[u64]) -> Left {
        let (records, _) = memory.as_chunks::<WORDS>();
        let mut left = Left {
            records,
            free: Vec::new(),
        };
        for place in (0..records.len() as u32).rev() {
            let identity = u64::from(place) + 1;
            if !open.contains(&identity) {
                left.remove(identity);
            }
        }
        left
    }

    fn record(&self, identity: u64) -> Option<&'static Words> {
        self.records
            .get(usize::try_from(identity).ok()?.checked_sub(1)?)
    }

    /// The file with this `path` on the other side, which is called so: its identity. None: there is no room, or the name is too long.
    pub fn add(&mut self, path: u64, name: &[u8]) -> Option<u64> {
        if name.len() > LONGEST {
            return None;
        }
        let identity = u64::from(self.free.pop()?) + 1;
        self.write(identity, path, name);
        Some(identity)
    }

    fn write(&self, identity: u64, path: u64, name: &[u8]) {
        let Some(record) = self.record(identity) else {
            return;
        };
        record[0].store(0, Release);
        record[1].store(path, Relaxed);
        record[2].store(name.len() as u64, Relaxed);
        for (word, bytes) in record[HEAD..].iter().zip(name.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Relaxed);
        }
        record[0].store(MARK, Release);
    }

    /// The file has another name now, or none that is known or fits.
    pub fn rename(&self, identity: u64, path: u64, name: Option<&[u8]>) {
        match name.filter(|name| name.len() <= LONGEST) {
            Some(name) => self.write(identity, path, name),
            None => {
                if let Some(record) = self.record(identity) {
                    record[0].store(0, Release);
                }
            }
        }
    }

    /// Nobody has it open any more.
    pub fn remove(&mut self, identity: u64) {
        if let Some(record) = self.record(identity) {
            record[0].store(0, Release);
            self.free.push(identity as u32 - 1);
        }
    }

    /// What a predecessor had open as this.
    pub fn get(&self, identity: u64) -> Option<(u64, Vec<u8>)> {
        let record = self.record(identity)?;
        if record[0].load(Relaxed) != MARK {
            return None;
        }
        let length = usize::try_from(record[2].load(Relaxed)).ok()?;
        if length > LONGEST {
            return None;
        }
        let bytes = record[HEAD..].iter();
        let mut name: Vec<u8> = bytes.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect();
        name.truncate(length);
        Some((record[1].load(Relaxed), name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    #[test]
    fn records_are_found_again_or_are_none() {
        let memory: &'static [AtomicU64] =
            Box::leak((0..3 * WORDS + 5).map(|_| AtomicU64::new(7)).collect());
        let mut left = Left::new(memory, &[]);
        assert_eq!(left.add(1, &[b'x'; LONGEST + 1]), None);
        let all: Vec<u64> = [&b"a"[..], b"dir/file", b""]
            .into_iter()
            .map(|name| left.add(9, name).unwrap())
            .collect();
        assert_eq!((all.len(), left.add(1, b"b")), (3, None));
        left.rename(all[0], 9, Some(&[b'y'; LONGEST]));
        left.rename(all[2], 9, None);
        let left = Left::new(memory, &all);
        assert_eq!(left.get(all[0]), Some((9, [b'y'; LONGEST].to_vec())));
        assert_eq!(left.get(all[1]), Some((9, b"dir/file".to_vec())));
        for none in [all[2], 0, 4, u64::MAX] {
            assert_eq!(left.get(none), None);
        }
        // Words of chance.
        for value in [0, MARK, u64::MAX, LONGEST as u64 + 1] {
            memory.iter().for_each(|word| word.store(value, Relaxed));
            memory[0].store(MARK, Relaxed);
            let left = Left::new(memory, &[1]);
            assert!(left.get(1).is_none_or(|(_, name)| name.len() <= LONGEST));
        }
    }
}
