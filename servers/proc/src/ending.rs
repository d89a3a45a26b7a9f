//! When processes end that are to end: a few with the message that wanted it, of many the others in pieces, at the highest priority of an ordinary program.
//!
//! Until its turn comes such a process runs on, but nothing is done for it here ([`alive`](crate::process::Process::alive)): it makes no others. One with a
//! real-time
//! thread does not wait for its turn, as it might go before whoever ends it.

use crate::dispatch::Outcome;
use crate::manager::Manager;
use crate::priority::policy_of;
use crate::system::System;
use cairn_abi::policy;

/// So many end with one message.
pub(crate) const PIECE: usize = 8;

impl<S: System> Manager<S> {
    /// Called when a message has been dealt with, so that nobody loses the ground under his feet.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.doomed.len() > self.backlog {
            self.finish_doomed();
        }
    }

    /// Those of the present message, and whoever ends because of them.
    #[inline(never)]
    fn finish_doomed(&mut self) {
        let mut at = self.backlog;
        let mut done = 0;
        while at < self.doomed.len() {
            if done >= PIECE && !self.has_real_time_thread(at) && self.system.begin_background() {
                at += 1;
                continue;
            }
            if let Some((slot, status)) = self.doomed.remove(at) {
                self.finish(slot, status);
            }
            done += 1;
        }
        self.backlog = self.doomed.len();
    }

    fn has_real_time_thread(&self, at: usize) -> bool {
        let threads = self
            .doomed
            .get(at)
            .map(|(slot, _)| &self.processes[*slot].threads);
        threads.is_some_and(|threads| {
            threads
                .iter()
                .any(|t| policy_of(&t.scheduling) != policy::ADAPTIVE)
        })
    }

    /// A piece of the backlog; whether there is more of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn background(&mut self) -> Outcome {
        for _ in 0..PIECE.min(self.backlog) {
            self.backlog -= 1;
            if let Some((slot, status)) = self.doomed.pop_front() {
                self.finish(slot, status);
            }
        }
        self.settle();
        if self.backlog == 0 {
            self.system.end_background();
            if core::mem::take(&mut self.exhausted) {
                self.memory_exhausted();
            }
        }
        Outcome::result((self.backlog > 0) as i64)
    }
}
