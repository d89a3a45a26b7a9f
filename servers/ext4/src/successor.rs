//! The server's death and what its successor does: open files go on (the framework keeps them: [`cairn_resmgr::keep`]), and whose data was lost is told.
//!
//! What dies with the server is what a cut of power would take: pages that were not written, and transactions that were not committed. The successor replays the log; a file that is there
//! with its generation goes on, also without a name. Data is marked as *not safe* when it changes, and safe again when it is seen to be on the disk: after fsync, and once a second.

use crate::memory::Memory;
use crate::server::Ext4;
use cairn_block::Device;
use cairn_ext4::Error;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Failure;

impl<M: Memory, D: Device> Ext4<M, D> {
    /// The data of a file was changed.
    #[inline]
    pub(crate) fn note_changed(&mut self, ino: u32) {
        if let Some(node) = self.nodes.get_mut(ino) {
            if !core::mem::replace(&mut node.unsafe_data, true) {
                self.changed.push(ino);
                self.mark(ino);
            }
        }
    }

    /// Somebody has it open, or nobody any more.
    #[inline]
    pub(crate) fn opens_changed(&mut self, ino: u32) {
        if self.nodes.get(ino).is_some_and(|node| node.unsafe_data) {
            self.mark(ino);
        }
    }

    /// A file whose data is not safe is marked as long as there is somebody to be told.
    #[cold]
    fn mark(&mut self, ino: u32) {
        let Some(node) = self.nodes.get_mut(ino) else {
            return;
        };
        match (node.unsafe_data && node.opens != 0, node.mark) {
            (true, None) => node.mark = self.marks.add(node.identity()),
            (false, Some(mark)) => {
                self.marks.remove(mark);
                node.mark = None;
            }
            _ => {}
        }
    }

    /// Whose data is on the disk now needs no mark.
    pub(crate) fn note_safe(&mut self) {
        let mut index = 0;
        while let Some(&ino) = self.changed.get(index) {
            match self.is_safe(ino) {
                true => {
                    self.changed.swap_remove(index);
                    if let Some(node) = self.nodes.get_mut(ino) {
                        node.unsafe_data = false;
                    }
                    self.mark(ino);
                }
                false => index += 1,
            }
        }
    }

    /// The same for one file, which was just written out.
    pub(crate) fn note_synced(&mut self, ino: u32) {
        let unsafe_data = self.nodes.get(ino).is_some_and(|node| node.unsafe_data);
        if !unsafe_data || !self.is_safe(ino) {
            return;
        }
        if let Some(node) = self.nodes.get_mut(ino) {
            node.unsafe_data = false;
        }
        self.changed.retain(|other| *other != ino);
        self.mark(ino);
    }

    fn is_safe(&self, ino: u32) -> bool {
        let Some(node) = self.nodes.get(ino) else {
            return true;
        };
        let written = node
            .file
            .is_none_or(|file| self.cache.pending(file, 0, u64::MAX) == (false, false));
        written && self.fs.unsynced(ino, true).is_none()
    }

    /// Find what a predecessor had open (as often as it had), before anything is freed. `wait` as in [`Ext4::open`].
    pub(crate) fn find_open(&mut self, open: &[u64], wait: &mut impl FnMut(&mut M, &mut D)) {
        let lost = self.marks.left();
        for &identity in open {
            let Some(ino) = self.until_there(wait, |server| server.find_again(identity)) else {
                continue;
            };
            if let Some(node) = self.nodes.get_mut(ino) {
                node.opens += 1;
                self.found.insert(identity, lost.contains(&identity));
            }
        }
    }

    /// Something that may lack metadata is tried until it does not; None: it cannot be had.
    pub(crate) fn until_there<R>(
        &mut self,
        wait: &mut impl FnMut(&mut M, &mut D),
        mut what: impl FnMut(&mut Self) -> Answer<R>,
    ) -> Option<R> {
        loop {
            match what(self) {
                Ok(done) => return Some(done),
                Err(Failure::Wait(_)) => {
                    self.go_on();
                    if self.requests.idle() {
                        continue;
                    }
                    wait(self.cache.memory(), self.requests.device());
                    self.go_on();
                }
                Err(_) => return None,
            }
        }
    }

    /// The framework has what was found: the marks begin anew. (Whoever is still to be told is remembered with its open file.)
    pub fn recovered(&mut self) {
        self.found.clear();
        self.marks.clear();
    }

    /// An inode that there should be, if it is the same still. What is asked for may be nonsense: nothing is damaged if it is not found.
    fn find_again(&mut self, identity: u64) -> Answer<u32> {
        let (ino, generation) = (identity as u32, (identity >> 32) as u32);
        match self.fs.inode(ino) {
            Err(error @ Error::Need { .. }) => self.act(|_| Err(error)),
            Ok(inode) if inode.generation == generation => {
                self.load(ino)?;
                // It may have been cut when the server died.
                if inode.links == 0 && inode.is_regular() && self.fs.is_writable() {
                    let now = self.now;
                    while !self.act(|fs| fs.cut_rest(ino, now))? {}
                }
                Ok(ino)
            }
            _ => Err(Failure::Errno(cairn_idl::errno::ENOENT)),
        }
    }
}
