//! Free blocks for devices that want to hear that they are not needed any more: those that a commit has freed (`-o discard`), and those that are free where somebody looks (FITRIM).
//!
//! What is handed out here is free in what is durable, and nobody gets it before the device has done with it ([`Fs::discarded`]): a discard destroys whatever is there, and may do so late.

use crate::allocate::next_bit;
use crate::error::Error;
use crate::fs::{Fs, Run};
use alloc::vec::Vec;

impl Fs {
    /// Whether blocks that were freed are kept from everybody until the device was told of them ([`Fs::freed`]).
    pub fn set_discards(&mut self, on: bool) {
        self.discards = on;
        if !on {
            let freed = self.freed();
            self.discarded(&freed);
        }
    }

    /// What commits have freed since somebody asked last: to be discarded.
    pub fn freed(&mut self) -> Vec<Run> {
        core::mem::take(&mut self.freed)
    }

    pub fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// The device has done with these.
    pub fn discarded(&mut self, runs: &[Run]) {
        for run in runs {
            self.no_longer_busy(*run);
        }
    }

    /// The free runs of at least so many blocks in `from..end`, as far as they lie in the first group of it, and where to go on: to be discarded.
    pub fn trim(&mut self, from: u64, end: u64, least: u32) -> Result<(Vec<Run>, u64), Error> {
        if !self.writable {
            return Err(Error::ReadOnly);
        }
        let from = from.max(self.shape.first_data);
        let end = end.min(self.shape.blocks);
        let mut runs = Vec::new();
        if from >= end {
            return Ok((runs, end));
        }
        let number = self.shape.group_of(from);
        let start = self.shape.group_start(number);
        let last = end.min(start + u64::from(self.shape.group_len(number)));
        let upto = (last - start) as u32;
        let map = self.map_of(number)?;
        let mut at = (from - start) as u32;
        while at < upto {
            at = next_bit(&map, at, upto, false);
            let stop = next_bit(&map, at, upto, true);
            let (mut free, stop) = (start + u64::from(at), start + u64::from(stop));
            at = (stop - start) as u32;
            // What of it is busy is left out.
            while free < stop {
                let (busy, behind) = self.busy.next(free).unwrap_or((stop, stop));
                let len = (busy.min(stop).saturating_sub(free)) as u32;
                let run = Run { start: free, len };
                if len >= least.max(1) && self.zones.free_of(free, u64::from(len)) {
                    runs.push(run);
                }
                free = behind.max(free + u64::from(len)).max(free + 1);
            }
        }
        for run in &runs {
            self.busy.insert(*run);
        }
        Ok((runs, last))
    }
}
