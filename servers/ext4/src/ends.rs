//! The end of files: nobody names them and nobody has them open. Their pages go, then their blocks and inodes, in steps that may wait for the journal.

use crate::keys;
use crate::memory::Memory;
use crate::server::Ext4;
use cairn_block::Device;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Failure;

impl<M: Memory, D: Device> Ext4<M, D> {
    /// A node may have lost its last name or its last handle.
    pub(crate) fn drop_unused(&mut self, ino: u32) {
        let Some(node) = self.nodes.get_mut(ino) else {
            return;
        };
        if node.opens != 0 || node.links != 0 || self.ending.contains(&ino) {
            return;
        }
        // It is heard of when the last mapping goes.
        if self.is_mapped(ino) {
            return;
        }
        if let Some(file) = self.nodes.get(ino).and_then(|node| node.file) {
            if !self.mapped.close(file) {
                return;
            }
        }
        self.ending.push(ino);
        self.run_ends();
    }

    /// All that is to be freed goes on.
    pub(crate) fn run_ends(&mut self) {
        let mut index = 0;
        while index < self.cuts.len() {
            match self.finish_cut(self.cuts[index]) {
                Err(Failure::Wait(_)) => index += 1,
                _ => {
                    self.cuts.swap_remove(index);
                    self.wakes.push(keys::ENDS);
                }
            }
        }
        let mut index = 0;
        while index < self.ending.len() {
            let ino = self.ending[index];
            match self.end(ino) {
                Err(Failure::Wait(_)) => index += 1,
                // What cannot be freed stays an orphan of the image.
                _ => {
                    self.ending.swap_remove(index);
                    self.wakes.push(keys::ENDS);
                }
            }
        }
    }

    fn end(&mut self, ino: u32) -> Answer<()> {
        if let Some(file) = self.nodes.get(ino).and_then(|node| node.file) {
            self.cache.remove(file, 0, u64::MAX);
            self.break_promises(ino, 0, u64::MAX);
            if self.cache.pending(file, 0, u64::MAX).1 {
                return Err(Failure::Wait(keys::pages(ino)));
            }
        }
        let now = self.now;
        while !self.act(|fs| fs.finish(ino, now))? {}
        self.forget(ino);
        Ok(())
    }
}
