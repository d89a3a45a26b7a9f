//! Small settings: prctl, the host's name, power.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::signal::LAST;
use crate::system::{Errno, System};
use crate::table::Slot;
use cairn_idl::capability::{SYS_ADMIN, SYS_NICE};
use cairn_idl::errno::{EINVAL, EPERM, ESRCH};
use cairn_rt::Received;

const SET_PDEATHSIG: u64 = 1;
const GET_PDEATHSIG: u64 = 2;
const GET_DUMPABLE: u64 = 3;
const SET_DUMPABLE: u64 = 4;
const SET_NAME: u64 = 15;
const GET_NAME: u64 = 16;
const SET_TIMERSLACK: u64 = 29;
const GET_TIMERSLACK: u64 = 30;
const SET_CHILD_SUBREAPER: u64 = 36;
const GET_CHILD_SUBREAPER: u64 = 37;
const SET_NO_NEW_PRIVS: u64 = 38;
const GET_NO_NEW_PRIVS: u64 = 39;

impl<S: System> Manager<S> {
    /// PRCTL. What Linux would store through a pointer comes back in w1.
    pub(crate) fn prctl(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, option, value, ..] = message.words;
        match option {
            SET_NAME => {
                let name = self.name_in(message)?;
                let process = &mut self.processes[slot];
                let pid = process.pid;
                match process.thread(message.token as u32) {
                    Some(thread) if thread.tid != pid => thread.comm = name,
                    _ => process.comm = name,
                }
                return done(0);
            }
            GET_NAME => {
                let comm = self.processes[slot].comm_of(message.token as u32);
                self.answer(message, &comm[..message.in_len.min(16)])?;
                return done(0);
            }
            _ => {}
        }
        if let Some(answer) = self.capability_option(slot, &message.words) {
            return answer;
        }
        let process = &mut self.processes[slot];
        match option {
            SET_PDEATHSIG if value <= LAST as u64 => process.death_signal = value as u32,
            GET_PDEATHSIG => return Ok(Outcome::words(&[0, process.death_signal as u64])),
            GET_DUMPABLE => return done(process.dumpable as i64),
            SET_DUMPABLE if value <= 1 => process.dumpable = value as u32,
            SET_CHILD_SUBREAPER => {
                let before = core::mem::replace(&mut process.subreaper, value != 0);
                self.subreapers = self.subreapers + (value != 0) as u32 - before as u32;
            }
            // Timers are exact, whatever is said.
            SET_TIMERSLACK => process.slack.set(value),
            GET_TIMERSLACK => return done(process.slack.now as i64),
            GET_CHILD_SUBREAPER => return Ok(Outcome::words(&[0, process.subreaper as u64])),
            SET_NO_NEW_PRIVS if value == 1 => process.no_new_privileges = true,
            GET_NO_NEW_PRIVS => return done(process.no_new_privileges as i64),
            _ => return Err(EINVAL),
        }
        done(0)
    }

    /// TIMER_SLACK
    pub(crate) fn timer_slack(&mut self, words: &[u64; 8]) -> Result<Outcome, Errno> {
        let [_, domain, pid, set, new, ..] = *words;
        let by = self.by_domain(domain)?;
        let slot = self.numbers.process(pid).ok_or(ESRCH)?;
        if self.processes[slot].ended.is_some() {
            return Err(ESRCH);
        }
        let may = by == slot || self.is_capable(by, &self.processes[slot].user, SYS_NICE);
        if !may {
            return Err(EPERM);
        }
        let slack = &mut self.processes[slot].slack;
        if set != 0 {
            slack.set(new);
        }
        Ok(Outcome::words(&[0, slack.now]))
    }

    /// A thread's name, of at most 15 bytes that are not 0.
    fn name_in(&mut self, message: &Received) -> Result<[u8; 16], Errno> {
        let name = self.bytes(message, 0, message.out_len.min(15))?;
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        let mut comm = [0; 16];
        comm[..end].copy_from_slice(&name[..end]);
        Ok(comm)
    }

    /// SET_COMM
    pub(crate) fn set_comm(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [_, domain, pid, tid, ..] = message.words;
        let by = self.by_domain(domain)?;
        let slot = self.numbers.process(pid).ok_or(ESRCH)?;
        if slot != by {
            return Err(EINVAL);
        }
        let name = self.name_in(message)?;
        *self.processes[slot].comm_by_tid(tid).ok_or(ESRCH)? = name;
        done(0)
    }

    /// SETHOSTNAME
    pub(crate) fn sethostname(
        &mut self,
        message: &Received,
        by_role: bool,
    ) -> Result<Outcome, Errno> {
        let [_, which, domain, ..] = message.words;
        if message.out_len > 64 || which > 1 {
            return Err(EINVAL);
        }
        let slot = match by_role {
            true => self.by_domain(domain)?,
            false => self.caller(message)?,
        };
        let name = self.bytes(message, 0, message.out_len)?;
        let host = self.processes[slot].host.clone();
        let owner = host.as_ref().and_then(|host| host.owner.clone());
        if !by_role && !self.is_capable(slot, &owner, SYS_ADMIN) {
            return Err(EPERM);
        }
        match host {
            Some(host) => *host.names[which as usize].borrow_mut() = name,
            None => self.prefixes.set_host_text(which as usize, &name),
        }
        done(0)
    }

    /// POWER
    pub(crate) fn power(&mut self, how: u64, code: u64) -> Result<Outcome, Errno> {
        if how > 2 {
            return Err(EINVAL);
        }
        self.system.power(how, code & 0xff);
        Err(EPERM)
    }
}
