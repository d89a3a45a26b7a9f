//! The device hears of blocks that are not needed any more: after each commit of those that it has freed (`-o discard`), and of all that are free when somebody asks for it (FITRIM).

use crate::keys;
use crate::memory::Memory;
use crate::server::{fail, Ext4, Purpose};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_block::{Device, Kind};
use cairn_ext4::Run;
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// ioctl(2): its argument has start, length and the shortest run, in bytes; the length becomes what was discarded.
pub(crate) const FITRIM: u64 = 0xc018_5879;
pub(crate) const RANGE: usize = 24;

/// A FITRIM under way, in blocks.
struct Trim {
    next: u64,
    end: u64,
    least: u32,
    discarded: u64,
    /// The device has some of it.
    waits: bool,
}

#[derive(Default)]
pub(crate) struct Discards {
    /// Groups of requests that the device has.
    under_way: usize,
    trims: BTreeMap<Token, Trim>,
}

impl Discards {
    /// Who asked is gone; what the device has goes on.
    pub fn cancelled(&mut self, token: Token) {
        self.trims.remove(&token);
    }
}

impl<M: Memory, D: Device> Ext4<M, D> {
    pub(crate) fn may_discard(&self) -> bool {
        let info = self.requests.info();
        info.discards && !info.read_only
    }

    /// As it is mounted, and as the device can.
    pub(crate) fn choose_discards(&mut self) {
        let on = self.options.discard && self.may_discard();
        self.fs.set_discards(on);
    }

    /// Free blocks are on their way to be free for everybody.
    pub(crate) fn is_discarding(&self) -> bool {
        self.discards.under_way > 0 || self.fs.has_freed()
    }

    /// What commits have freed goes to the device.
    pub(crate) fn discard_freed(&mut self) {
        if self.fs.has_freed() {
            let freed = self.fs.freed();
            self.discard(freed, None);
        }
    }

    fn discard(&mut self, runs: Vec<Run>, whose: Option<Token>) {
        let size = self.block_size();
        let block = u64::from(self.requests.info().block).max(1);
        let mut sorted = runs.clone();
        sorted.sort();
        let group = self.requests.open();
        let beside = |a: &Run, b: &Run| a.start + u64::from(a.len) == b.start;
        for row in sorted.chunk_by(beside) {
            let blocks: u64 = row.iter().map(|run| u64::from(run.len)).sum();
            // Whole blocks of the device.
            let from = (row[0].start * size).next_multiple_of(block);
            let to = (row[0].start + blocks) * size / block * block;
            if from < to {
                let bytes = to - from;
                self.requests.add(group, Kind::Discard, from, bytes, &[], 0);
            }
        }
        self.requests.seal(group);
        self.discards.under_way += 1;
        self.purposes.insert(group, Purpose::Discard(runs, whose));
    }

    /// The device has done with these. (What it did not discard is free all the same.)
    pub(crate) fn discard_moved(&mut self, runs: &[Run], whose: Option<Token>) {
        self.fs.discarded(runs);
        self.discards.under_way -= 1;
        if let Some(trim) = whose.and_then(|token| self.discards.trims.get_mut(&token)) {
            trim.waits = false;
        }
        self.wakes.push(keys::DISCARDS);
    }

    /// FITRIM, group by group: the bytes that were discarded.
    pub(crate) fn trim(&mut self, cx: &mut Context) -> Answer<u64> {
        let token = cx.request.token;
        if !self.discards.trims.contains_key(&token) {
            let trim = self.begin_trim(cx)?;
            self.discards.trims.insert(token, trim);
            cx.progress = 1;
        }
        let done = self.go_on_trimming(cx, token);
        if !matches!(done, Err(Failure::Wait(_))) {
            self.discards.trims.remove(&token);
        }
        done
    }

    fn begin_trim(&mut self, cx: &mut Context) -> Answer<Trim> {
        if !label::has(cx.request.label, label::SYSTEM) {
            return fail(EPERM);
        }
        if !self.may_discard() {
            return fail(EOPNOTSUPP);
        }
        if !self.may_write() {
            return fail(EROFS);
        }
        let mut range = [0; RANGE];
        cx.fetch(0, &mut range)?;
        let long = |at| u64::from_le_bytes(core::array::from_fn(|i| range[at + i]));
        let size = self.block_size();
        let (start, length, least) = (long(0) / size, long(8) / size, long(16) / size);
        let shape = self.fs.shape();
        if least > u64::from(shape.group_blocks) || start >= shape.blocks || length == 0 {
            return fail(EINVAL);
        }
        Ok(Trim {
            next: start,
            end: start.saturating_add(length).min(shape.blocks),
            least: least as u32,
            discarded: 0,
            waits: false,
        })
    }

    fn go_on_trimming(&mut self, cx: &mut Context, token: Token) -> Answer<u64> {
        loop {
            self.settle(cx);
            let Some(trim) = self.discards.trims.get(&token) else {
                return fail(EIO);
            };
            if trim.waits {
                return Err(Failure::Wait(keys::DISCARDS));
            }
            if trim.next >= trim.end {
                return Ok(trim.discarded * self.block_size());
            }
            let (from, end, least) = (trim.next, trim.end, trim.least);
            let (runs, next) = self.act(|fs| fs.trim(from, end, least))?;
            let blocks: u64 = runs.iter().map(|run| u64::from(run.len)).sum();
            if let Some(trim) = self.discards.trims.get_mut(&token) {
                trim.next = next;
                trim.discarded += blocks;
                trim.waits = blocks > 0;
            }
            if blocks > 0 {
                self.discard(runs, Some(token));
            }
        }
    }
}
