//! The journal's steps: blocks that the core wants written, in shares that fit the staging pages, then the flush.

use crate::keys;
use crate::memory::{Memory, PAGE};
use crate::server::{Ext4, Purpose};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_block::{Device, Kind};
use cairn_cache::Slot;
use cairn_ext4::{Error, Step};

/// A step under way.
pub(crate) struct Work {
    /// In the order of their places.
    writes: Vec<(u64, Rc<[u8]>)>,
    next: usize,
    flush: bool,
    /// The flush was begun; its number.
    flushing: Option<u64>,
    pages: Vec<Slot>,
    well: bool,
}

impl<M: Memory, D: Device> Ext4<M, D> {
    /// The journal's next step is begun, if there is one.
    pub(crate) fn run_journal(&mut self) {
        if self.step.is_some() {
            // It may have had to wait for staging pages.
            if let Some(work) = &self.step {
                if work.pages.is_empty() && work.flushing.is_none() {
                    self.continue_step();
                }
            }
            return;
        }
        match self.fs.step(self.now) {
            Ok(Some(step)) => self.begin_step(step),
            Ok(None) => {}
            Err(Error::Need { block, .. }) if self.unreadable.remove(&block) => {
                self.damaged("metadata cannot be read", block);
            }
            Err(Error::Need { block, count }) => self.want_block(block, count),
            Err(Error::Damaged(what, at)) => self.damaged(what, at),
            Err(_) => self.damaged("journal", 0),
        }
    }

    pub(crate) fn begin_step(&mut self, step: Step) {
        let mut writes = step.writes;
        writes.sort_by_key(|(block, _)| *block);
        for (block, _) in &writes {
            self.overtake(*block);
        }
        self.step = Some(Work {
            writes,
            next: 0,
            flush: step.flush,
            flushing: None,
            pages: Vec::new(),
            well: true,
        });
        self.continue_step();
    }

    /// The next share, or the flush, or the end.
    fn continue_step(&mut self) {
        let size = self.fs.shape().block_size;
        let Some(work) = &mut self.step else { return };
        if work.well && work.next < work.writes.len() {
            if self.staging.is_empty() {
                return;
            }
            let group = self.requests.open();
            while work.next < work.writes.len() && !self.staging.is_empty() {
                // A run of blocks beside each other, as many as there are pages for.
                let (first, _) = work.writes[work.next];
                let most = self.staging.len() * PAGE / size;
                let count = work.writes[work.next..]
                    .iter()
                    .zip(first..)
                    .take(most)
                    .take_while(|((block, _), wanted)| block == wanted)
                    .count();
                let needed = (count * size).div_ceil(PAGE);
                let pages = self.staging.split_off(self.staging.len() - needed);
                for (index, (_, data)) in work.writes[work.next..][..count].iter().enumerate() {
                    let at = index * size;
                    let memory = self.cache.memory();
                    memory
                        .bytes_mut(pages[at / PAGE], at % PAGE, size)
                        .copy_from_slice(data);
                }
                let (at, bytes) = (first * size as u64, (count * size) as u64);
                self.requests.add(group, Kind::Write, at, bytes, &pages, 0);
                work.next += count;
                work.pages.extend(pages);
            }
            self.requests.seal(group);
            self.purposes.insert(group, Purpose::Step);
            return;
        }
        if work.well && work.flush && work.flushing.is_none() {
            self.flush_begun += 1;
            work.flushing = Some(self.flush_begun);
            let group = self.requests.flush();
            self.purposes.insert(group, Purpose::Step);
            return;
        }
        let (well, flushed) = (work.well, work.flushing);
        self.step = None;
        if let Some(number) = flushed {
            let place = match well {
                true => &mut self.flush_done,
                false => &mut self.flush_failed,
            };
            *place = number.max(*place);
            self.wakes.push(keys::FLUSH);
        }
        if !well && self.fs.is_writable() {
            let log = self.options.log;
            log(format_args!(
                "the journal could not be written: nothing is written any more"
            ));
        }
        self.fs.stepped(well);
        self.wakes.push(keys::JOURNAL);
        self.run_journal();
    }

    pub(crate) fn step_moved(&mut self, well: bool) {
        let Some(work) = &mut self.step else { return };
        work.well &= well;
        self.staging.append(&mut work.pages);
        self.continue_step();
    }
}
