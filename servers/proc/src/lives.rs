//! Lives: what names a process and never another one that has its number later. Descriptors of processes (pidfd_open(2)) are the event server's; it asks here
//! for the life behind a
//! number, and hears of the life's end by the close of a portal.
//!
//! A life is no right: who knows one may do by it what it may do by the process's number.

use crate::dispatch::Outcome;
use crate::kill::number;
use crate::manager::{done, Manager};
use crate::pid_spaces::is_within;
use crate::process::Process;
use crate::signal::{Full, Info};
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use cairn_idl::errno::{EAGAIN, EINVAL, ESRCH};
use cairn_idl::proc::{Owner, OWNER_SHIFT};
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
        if pid == 0 {
            return Ok(Outcome::words(&[0, self.life(by)]));
        }
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

    /// The process that asked for a signal, as long as it is in the domain that it had.
    fn asker(&self, life: u64, domain: u64) -> Result<Slot, Errno> {
        let of = self.living(life).ok_or(ESRCH)?;
        let process = &self.processes[of];
        match process.alive() && u64::from(process.domain.id) == domain {
            true => Ok(of),
            false => Err(ESRCH),
        }
    }

    /// SIGNAL_OWNER
    pub(crate) fn signal_owner(&mut self, words: &[u64; 8]) -> Result<Outcome, Errno> {
        let [_, life, domain, signal, si_code, descriptor, band, owner] = *words;
        let by = self.asker(life, domain)?;
        let kind = Owner::from_word(owner >> OWNER_SHIFT).ok_or(EINVAL)?;
        // The number is the asker's own.
        let id = match &self.processes[by].pids {
            None => owner & u64::from(u32::MAX),
            Some(space) => space.outside(owner & u64::from(u32::MAX)),
        };
        let info = Info {
            signal: number(signal)?,
            code: si_code as i32,
            sender: band,
            value: descriptor,
        };
        self.signal_by(by, kind, id, info)
    }

    /// SIGNAL_FOR
    pub(crate) fn signal_for(&mut self, words: &[u64; 8]) -> Result<Outcome, Errno> {
        let [_, life, domain, signal, si_code, value, by, _] = *words;
        let of = self.asker(life, domain)?;
        let sender = self.by_domain(by).map_or(0, |by| {
            let Process { pid, creds, .. } = &self.processes[by];
            u64::from(*pid) | u64::from(creds.ruid) << 32
        });
        let info = Info {
            signal: number(signal)?,
            code: si_code as i32,
            sender,
            value,
        };
        self.send(of, None, info).map_err(|Full| EAGAIN)?;
        done(0)
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
