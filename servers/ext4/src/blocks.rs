//! Metadata from the device: the core says which blocks it lacks, they come through staging pages, and whoever waited for them begins again.

use crate::keys;
use crate::memory::{Memory, PAGE};
use crate::server::{Ext4, Purpose};
use alloc::vec::Vec;
use cairn_block::{Device, Kind};
use cairn_cache::Slot;

/// Most blocks of one read.
const MOST: u32 = 32;

/// Blocks on their way in.
pub(crate) struct Reading {
    count: u32,
    pages: Vec<Slot>,
    /// Blocks that a step writes meanwhile: what comes may be older.
    stale: Vec<u64>,
}

impl<M: Memory, D: Device> Ext4<M, D> {
    /// The core lacks these blocks.
    pub(crate) fn want_block(&mut self, block: u64, count: u32) {
        let before = self.reading.range(..=block).next_back();
        let coming =
            before.is_some_and(|(first, reading)| block < first + u64::from(reading.count));
        if !coming && !self.wanted.iter().any(|(first, _)| *first == block) {
            self.wanted.push_back((block, count.clamp(1, MOST)));
            self.begin_reads();
        }
    }

    pub(crate) fn begin_reads(&mut self) {
        while let Some(&(first, count)) = self.wanted.front() {
            let bytes = u64::from(count) * self.block_size();
            let Some(left) = self
                .staging
                .len()
                .checked_sub(bytes.div_ceil(PAGE as u64) as usize)
            else {
                return;
            };
            self.wanted.pop_front();
            let pages = self.staging.split_off(left);
            let group = self.requests.open();
            let at = first * self.block_size();
            self.requests.add(group, Kind::Read, at, bytes, &pages, 0);
            self.requests.seal(group);
            self.purposes.insert(group, Purpose::Blocks(first));
            let reading = Reading {
                count,
                pages,
                stale: Vec::new(),
            };
            self.reading.insert(first, reading);
        }
    }

    pub(crate) fn blocks_read(&mut self, first: u64, well: bool) {
        let Some(reading) = self.reading.remove(&first) else {
            return;
        };
        let size = self.fs.shape().block_size;
        for (index, block) in (first..).take(reading.count as usize).enumerate() {
            let at = index * size;
            let page = reading.pages[at / PAGE];
            if !well {
                self.unreadable.insert(block);
            } else if !reading.stale.contains(&block) {
                let bytes = self.cache.memory().bytes(page, at % PAGE, size);
                self.fs.supply(block, bytes);
            }
            self.wakes.push(keys::block(block));
        }
        self.staging.extend(reading.pages);
    }

    /// These blocks are about to be written: what is being read of them is not handed in.
    pub(crate) fn overtake(&mut self, block: u64) {
        if let Some((first, reading)) = self.reading.range_mut(..=block).next_back() {
            if block < first + u64::from(reading.count) {
                reading.stale.push(block);
            }
        }
    }
}
