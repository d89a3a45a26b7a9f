//! Stopping and continuing, and telling the parent about it.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::{Held, Report};
use crate::signal::{bit, code, SIGCONT, SIGSTOP, STOPS};
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use cairn_idl::errno::EINVAL;
use cairn_rt::Received;

/// A signal that stops.
pub(crate) fn stop_signal(signal: u64) -> Result<u32, Errno> {
    let signal = crate::kill::number(signal)?;
    match signal != 0 && bit(signal) & STOPS != 0 {
        true => Ok(signal),
        false => Err(EINVAL),
    }
}

impl<S: System> Manager<S> {
    /// Stop all threads of a live process.
    pub(crate) fn stop(&mut self, slot: Slot, signal: u32) {
        if self.processes[slot].stopped.is_some() || !self.processes[slot].alive() {
            return;
        }
        let (domain, group, parent) = {
            let p = &mut self.processes[slot];
            p.stopped = Some(signal);
            (p.domain, p.group, p.parent)
        };
        self.processes[slot].frozen = true;
        self.system.stop(domain);
        self.groups[group].stopped += 1;
        self.set_report(slot, Report::Stopped(signal));
        self.announce(slot, parent, code::STOPPED, signal);
    }

    /// Undo it. Calls of STOP_SELF return.
    pub(crate) fn resume(&mut self, slot: Slot) {
        if self.processes[slot].stopped.take().is_none() {
            return;
        }
        let (domain, group, parent) = {
            let p = &self.processes[slot];
            (p.domain, p.group, p.parent)
        };
        self.groups[group].stopped -= 1;
        if core::mem::take(&mut self.processes[slot].frozen) {
            self.system.resume(domain);
        } else {
            self.trace_continued(slot);
        }
        for at in 0..self.processes[slot].threads.len() {
            if self.processes[slot].threads[at].held == Held::Continue {
                self.release(slot, at, [0; 8]);
            }
        }
        self.set_report(slot, Report::Continued);
        self.announce(slot, parent, code::CONTINUED, SIGCONT);
    }

    pub(crate) fn announce(&mut self, slot: Slot, parent: Slot, code: i32, status: u32) {
        if parent == NONE {
            return;
        }
        let mut info = self.processes[slot].child_info(code, status);
        if self.processes[parent].dispositions.no_stop_signal {
            info.signal = 0;
        }
        self.tell_news(parent, info);
    }

    /// Change what the parent has yet to be told; its count of such children follows.
    pub(crate) fn set_report(&mut self, slot: Slot, report: Report) {
        if self.processes[slot].report == report {
            return;
        }
        self.kin_leaves(slot);
        let process = &mut self.processes[slot];
        let before = core::mem::replace(&mut process.report, report) != Report::Nothing;
        let after = report != Report::Nothing;
        let parent = process.parent;
        self.kin_enters(slot);
        if parent != NONE {
            let reports = &mut self.processes[parent].reports;
            *reports = *reports + after as u32 - before as u32;
        }
    }

    /// A stop signal was taken whose action is the default one: is the process to stop?
    pub(crate) fn stop_is_due(&mut self, slot: Slot, signal: u32) -> bool {
        let process = &mut self.processes[slot];
        process.stop_taken = false;
        let cancelled = core::mem::take(&mut process.stop_cancelled);
        let group = process.group;
        !cancelled
            && !self.first_is_immune(slot, signal)
            && (signal == SIGSTOP || !self.is_orphaned(group))
    }

    /// STOP_SELF
    pub(crate) fn stop_self(
        &mut self,
        message: &Received,
        slot: Slot,
        signal: u64,
    ) -> Result<Outcome, Errno> {
        let signal = stop_signal(signal)?;
        if !self.stop_is_due(slot, signal) || !self.hold(slot, message.token, Held::Continue) {
            return done(0);
        }
        self.stop(slot, signal);
        Ok(Outcome::Later)
    }
}
