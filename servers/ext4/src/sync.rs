//! fsync and sync: data to the device, its blocks to the file, the transaction to the log, and the device's own cache to the disk.

use crate::keys;
use crate::memory::Memory;
use crate::node::Node;
use crate::server::{fail, Ext4};
use alloc::vec::Vec;
use cairn_block::Device;
use cairn_idl::errno::*;
use cairn_idl::mounts::mount;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// In `cx.progress`: everything is written and the transaction in the low bits is awaited.
const COMMITTING: u64 = 1 << 62;
/// Everything is written and the flush in the low bits is awaited.
const FLUSHING: u64 = 1 << 61;
/// Everything that is dirty was asked to be written.
const STARTED: u64 = 1 << 60;
const LOW: u64 = STARTED - 1;

impl<M: Memory, D: Device> Ext4<M, D> {
    /// Until what was written to the file before will be there after a cut of power. With `data_only` times need not be.
    pub(crate) fn sync_file(&mut self, cx: &mut Context, ino: u32, data_only: bool) -> Answer<()> {
        self.load(ino)?;
        match cx.progress {
            0 => {
                self.write_out(cx, ino)?;
                if !data_only {
                    self.put_times(ino)?;
                }
                if let Some(transaction) = self.fs.unsynced(ino, data_only) {
                    cx.progress = COMMITTING | u64::from(transaction);
                    return self.await_transaction(cx, transaction);
                }
                let wanted = match self.nodes.get(ino) {
                    Some(node) => node.flush.max(self.flush_forgotten),
                    None => self.flush_forgotten,
                };
                if self.flush_done >= wanted {
                    return Ok(());
                }
                let number = match self.flush_begun < wanted {
                    true => self.begin_flush(),
                    false => wanted,
                };
                cx.progress = FLUSHING | number;
                self.await_flush(cx, number)
            }
            progress if progress & COMMITTING != 0 => {
                self.await_transaction(cx, (progress & LOW) as u32)
            }
            progress => self.await_flush(cx, progress & LOW),
        }
    }

    /// Until no page of a file is dirty or under way; what could not be written is told once.
    pub(crate) fn write_out(&mut self, cx: &mut Context, ino: u32) -> Answer<()> {
        let Some(file) = self.nodes.get(ino).and_then(|node| node.file) else {
            return Ok(());
        };
        if self.cache.take_error(file) {
            self.node(ino)?.syncing = false;
            return fail(EIO);
        }
        if self.cache.pending(file, 0, u64::MAX) == (false, false) {
            return Ok(());
        }
        if !self.fs.is_writable() {
            self.node(ino)?.syncing = false;
            return fail(EIO);
        }
        self.node(ino)?.syncing = true;
        self.urgent.push(ino);
        self.settle(cx);
        match self.cache.pending(file, 0, u64::MAX) {
            (false, false) => Ok(()),
            _ => Err(Failure::Wait(keys::pages(ino))),
        }
    }

    /// Looked at last, after the journal went on: a step that ended in between wakes nobody who does not wait yet.
    fn await_transaction(&mut self, cx: &mut Context, number: u32) -> Answer<()> {
        if !self.fs.is_durable(number) && self.fs.is_writable() {
            self.fs.commit();
            self.committed = self.clock;
            self.settle(cx);
        }
        match self.fs.is_durable(number) {
            true => Ok(()),
            false if !self.fs.is_writable() => fail(EIO),
            false => Err(Failure::Wait(keys::JOURNAL)),
        }
    }

    fn await_flush(&mut self, cx: &mut Context, number: u64) -> Answer<()> {
        self.settle(cx);
        if self.flush_done >= number {
            Ok(())
        } else if self.flush_failed >= number {
            fail(EIO)
        } else {
            Err(Failure::Wait(keys::FLUSH))
        }
    }

    /// The same after a write through a handle with O_SYNC or O_DSYNC: begun again until there is nothing left to wait for.
    pub(crate) fn sync_write(&mut self, cx: &mut Context, ino: u32, data_only: bool) -> Answer<()> {
        self.write_out(cx, ino)?;
        if !data_only {
            self.put_times(ino)?;
        }
        if self.fs.unsynced(ino, data_only).is_some() {
            if !self.fs.is_writable() {
                return fail(EIO);
            }
            self.fs.commit();
            self.settle(cx);
            if self.fs.unsynced(ino, data_only).is_some() {
                return Err(Failure::Wait(keys::JOURNAL));
            }
        }
        let wanted = self.node(ino)?.flush;
        if self.flush_done >= wanted {
            return Ok(());
        }
        if self.flush_failed >= wanted {
            return fail(EIO);
        }
        if self.flush_begun < wanted {
            self.begin_flush();
        }
        self.await_flush(cx, wanted)
    }

    /// Everything that was written before.
    pub(crate) fn sync_everything(&mut self, cx: &mut Context) -> Answer<()> {
        if cx.progress == 0 {
            if !self.fs.is_writable() {
                return Ok(());
            }
            self.look_at_clock(cx);
            self.note_all_mapped();
            self.everything = true;
            cx.progress = STARTED;
        }
        if cx.progress == STARTED {
            self.settle(cx);
            if self.everything || !self.jobs.is_empty() {
                return Err(Failure::Wait(keys::ROOM));
            }
            while let Some(ino) = self.touched.pop() {
                if let Err(Failure::Wait(key)) = self.put_times(ino) {
                    self.touched.push(ino);
                    return Err(Failure::Wait(key));
                }
            }
            // Also if nothing is left to commit: what is on its way there is awaited, and a flush made.
            let number = self.begin_flush();
            if self.fs.has_changes() {
                cx.progress = COMMITTING | u64::from(self.fs.transaction());
            } else if !self.fs.is_durable(self.fs.transaction().wrapping_sub(1)) {
                cx.progress = COMMITTING | u64::from(self.fs.transaction().wrapping_sub(1));
            } else {
                cx.progress = FLUSHING | number;
            }
        }
        match cx.progress & COMMITTING != 0 {
            true => self.await_transaction(cx, (cx.progress & LOW) as u32),
            false => self.await_flush(cx, cx.progress & LOW),
        }
    }

    /// REMOUNT: read only from now on, or no longer.
    pub(crate) fn change_mount(&mut self, cx: &mut Context, flags: u64) -> Answer<()> {
        if flags & mount::READ_ONLY != 0 {
            self.be_read_only(cx)?;
        } else {
            self.be_writable(cx)?;
        }
        self.options.no_access_times = flags & mount::NO_ACCESS_TIMES != 0;
        self.options.discard = flags & mount::DISCARD != 0;
        self.options.gives_ids = flags & mount::NO_SET_ID == 0;
        self.choose_discards();
        Ok(())
    }

    fn be_read_only(&mut self, cx: &mut Context) -> Answer<()> {
        if !self.fs.is_writable() {
            self.closing = false;
            // If it was to be, but what was left could not be written.
            return match cx.progress == 0 || self.fs.is_closed() {
                true => Ok(()),
                false => fail(EIO),
            };
        }
        if !self.closing {
            // What has no name could not be freed any more when it is closed.
            let nameless = |node: &Node| node.links == 0 && node.opens != 0;
            if self.nodes.all().any(nameless) || self.is_mapped_to_write() {
                return fail(EBUSY);
            }
            self.closing = true;
        }
        let done = self.close(cx);
        if !matches!(done, Err(Failure::Wait(_))) {
            self.closing = false;
        }
        done
    }

    fn be_writable(&mut self, cx: &mut Context) -> Answer<()> {
        if self.may_write() {
            return Ok(());
        }
        if self.requests.info().read_only {
            return fail(EACCES);
        }
        if cx.progress == 0 {
            self.look_at_clock(cx);
            self.act(|fs| fs.reopen())?;
            cx.progress = STARTED;
        }
        self.settle(cx);
        match (self.fs.is_writable(), self.fs.is_opening()) {
            (true, _) => Ok(()),
            (_, true) => Err(Failure::Wait(keys::JOURNAL)),
            _ => fail(EIO),
        }
    }

    /// Nothing more will be written: the log is emptied and the image declared clean. True when that is done.
    pub fn close(&mut self, cx: &mut Context) -> Answer<()> {
        self.sync_everything(cx)?;
        if !self.fs.is_writable() {
            return Ok(());
        }
        // Files without names end, whoever has them open.
        let nameless = self.nodes.all().filter(|node| node.links == 0);
        let nameless: Vec<u32> = nameless.map(|node| node.ino).collect();
        for ino in nameless {
            if !self.ending.contains(&ino) {
                self.ending.push(ino);
            }
        }
        self.settle(cx);
        if !self.ending.is_empty() || !self.cuts.is_empty() {
            return Err(Failure::Wait(keys::ENDS));
        }
        self.fs.close();
        self.settle(cx);
        match self.fs.is_writable() {
            // Whoever has the disk next must find it as it will stay.
            false if self.is_discarding() => Err(Failure::Wait(keys::DISCARDS)),
            false => Ok(()),
            true => Err(Failure::Wait(keys::JOURNAL)),
        }
    }
}
