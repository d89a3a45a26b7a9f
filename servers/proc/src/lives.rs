//! Lives: what names a process and never another one that has its number later. Descriptors of processes (pidfd_open(2)) are the event server's; it asks here for the life behind a
//! number, and hears of the life's end by the close of a portal.
//!
//! A life is no right: who knows one may do by it what it may do by the process's number.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::pid_spaces::is_within;
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use cairn_idl::errno::{EINVAL, ESRCH};
use cairn_rt::Received;

impl<S: System> Manager<S> {
    pub(crate) fn life(&self, slot: Slot) -> u64 {
        self.processes[slot].watch_badge(slot)
    }

    /// The process with this life, which may be a zombie.
    pub(crate) fn living(&self, life: u64) -> Option<Slot> {
        let slot = life as u32;
        let process = self.processes.get(slot)?;
        (process.used && process.watch_badge(slot) == life).then_some(slot)
    }

    /// Has the one process a number for the other?
    pub(crate) fn knows(&self, slot: Slot, other: Slot) -> bool {
        is_within(&self.processes[other].pids, &self.processes[slot].pids)
    }

    /// LIFE_NUMBER
    pub(crate) fn life_number(&self, slot: Slot, life: u64) -> Result<Outcome, Errno> {
        let of = self.living(life).ok_or(ESRCH)?;
        done(self.as_seen(slot, self.processes[of].pid).into())
    }

    /// LIFE_OF
    pub(crate) fn life_of(&self, domain: u64, pid: u64) -> Result<Outcome, Errno> {
        let by = self.by_domain(domain)?;
        let pid = match &self.processes[by].pids {
            Some(space) => space.outside(pid),
            None => pid,
        };
        let bearer = self.numbers.get(pid);
        match (bearer.owner, bearer.thread) {
            (NONE, _) => Err(ESRCH),
            (_, true) => Err(EINVAL),
            (slot, false) => Ok(Outcome::words(&[0, self.life(slot)])),
        }
    }

    /// FOLLOW
    pub(crate) fn follow(&mut self, message: &Received) -> Result<Outcome, Errno> {
        if message.portals != 1 {
            return Err(EINVAL);
        }
        let of = self.living(message.words[1]).ok_or(ESRCH)?;
        if !self.processes[of].alive() {
            return Err(ESRCH);
        }
        self.keep_until_its_end(message, of)?;
        Ok(Outcome::Kept(0))
    }
}
