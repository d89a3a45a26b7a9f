//! Sessions and process groups, and the rule of orphaned groups (POSIX.1-2017, 3.264): a group is orphaned when no member has a parent in
//! another group of the same session. A stopped member of such a group could never be continued by a shell, so it is hung up and continued.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::signal::{Info, SIGCONT, SIGHUP};
use crate::signal::{SIGTTIN, SIGTTOU};
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use alloc::vec::Vec;
use cairn_idl::errno::{EACCES, EINVAL, ENOMEM, EPERM, ESRCH};
use cairn_rt::{Portal, Received};

#[derive(Debug, Default)]
pub struct Group {
    pub pgid: u32,
    pub session: Slot,
    /// Zombies stay members until they are waited for.
    pub members: Vec<Slot>,
    /// Members that are stopped.
    pub stopped: u32,
}

#[derive(Debug, Default)]
pub struct Session {
    pub sid: u32,
    /// Groups in it.
    pub groups: u32,
    /// Device number of its terminal, 0 without one.
    pub terminal: u32,
    /// Foreground group of the terminal, as it was told last.
    pub foreground: u32,
    /// Notified when the leader ends.
    pub watcher: Option<Portal>,
    /// The leader, while it lives.
    pub leader: Slot,
}

impl<S: System> Manager<S> {
    /// A new session with the process as its leader and only member. (There is room: the records were reserved.)
    pub(crate) fn new_session(&mut self, slot: Slot) {
        let pid = self.processes[slot].pid;
        let session = self.sessions.take().unwrap_or(NONE);
        self.sessions[session] = Session {
            sid: pid,
            leader: slot,
            ..Session::default()
        };
        self.numbers.set_session(pid, session);
        self.processes[slot].has_left_terminal = false;
        self.new_group(slot, session);
    }

    /// A new group of that session with the process as its first member.
    fn new_group(&mut self, slot: Slot, session: Slot) {
        let pid = self.processes[slot].pid;
        let group = self.groups.take().unwrap_or(NONE);
        let record = &mut self.groups[group];
        record.pgid = pid;
        record.session = session;
        record.members.clear();
        record.stopped = 0;
        self.sessions[session].groups += 1;
        self.numbers.set_group(pid, group);
        self.join(slot, group);
    }

    /// Become a member; the group of before is left.
    pub(crate) fn join(&mut self, slot: Slot, group: Slot) {
        self.kin_leaves(slot);
        let old = self.processes[slot].group;
        let at = self.groups[group].members.len() as u32;
        self.groups[group].members.push(slot);
        self.groups[group].stopped += self.processes[slot].stopped.is_some() as u32;
        let old_at = core::mem::replace(&mut self.processes[slot].group_at, at);
        self.processes[slot].group = group;
        self.kin_enters(slot);
        if old != NONE {
            self.strike(slot, old, old_at);
        }
    }

    /// Leave the group for good.
    pub(crate) fn leave(&mut self, slot: Slot) {
        self.kin_leaves(slot);
        let group = core::mem::replace(&mut self.processes[slot].group, NONE);
        let at = self.processes[slot].group_at;
        self.strike(slot, group, at);
    }

    fn strike(&mut self, slot: Slot, group: Slot, at: u32) {
        let stopped = self.processes[slot].stopped.is_some() as u32;
        let record = &mut self.groups[group];
        record.stopped -= stopped;
        record.members.swap_remove(at as usize);
        if let Some(moved) = record.members.get(at as usize) {
            self.processes[*moved].group_at = at;
        }
        let record = &self.groups[group];
        if !record.members.is_empty() {
            return;
        }
        let (pgid, session) = (record.pgid, record.session);
        self.numbers.set_group(pgid, NONE);
        self.groups.give(group);
        self.sessions[session].groups -= 1;
        if self.sessions[session].groups == 0 {
            let sid = self.sessions[session].sid;
            self.numbers.set_session(sid, NONE);
            if let Some(watcher) = self.sessions[session].watcher.take() {
                self.system.drop_kept(watcher);
            }
            self.sessions.give(session);
        }
    }

    pub(crate) fn session_of(&self, slot: Slot) -> Slot {
        self.groups[self.processes[slot].group].session
    }

    /// Does this process connect its group to the rest of the session?
    fn connects(&self, slot: Slot) -> bool {
        self.processes[slot].alive() && self.parent_connects(slot)
    }

    /// Is its parent in another group of the session?
    pub(crate) fn parent_connects(&self, slot: Slot) -> bool {
        let process = &self.processes[slot];
        let parent = process.parent;
        parent != NONE
            && !self.is_first(parent)
            && self.processes[parent].alive()
            && self.processes[parent].group != process.group
            && self.session_of(parent) == self.session_of(slot)
    }

    pub(crate) fn is_orphaned(&self, group: Slot) -> bool {
        !self.groups[group].members.iter().any(|m| self.connects(*m))
    }

    /// A member or a parent of one has ended: if it was this group's last connection, stopped members are hung up and continued.
    /// (POSIX has this for the end of a process only, not for changes of group or session.)
    pub(crate) fn check_orphaned(&mut self, group: Slot) {
        if self.groups[group].stopped == 0 || !self.is_orphaned(group) {
            return;
        }
        for signal in [SIGHUP, SIGCONT] {
            self.signal_members(
                group,
                Info {
                    signal,
                    code: crate::signal::code::KERNEL,
                    ..Info::default()
                },
            );
        }
    }

    /// To every member; no permission is asked.
    pub(crate) fn signal_members(&mut self, group: Slot, info: Info) {
        let mut at = 0;
        while let Some(member) = self.groups[group].members.get(at).copied() {
            let _ = self.send(member, None, info);
            at += 1;
        }
    }

    /// The leader of a session has ended: its terminal is told and no longer controls the session.
    pub(crate) fn leader_ended(&mut self, slot: Slot) {
        let session = self.session_of(slot);
        if self.sessions[session].leader != slot {
            return;
        }
        let record = &mut self.sessions[session];
        record.leader = NONE;
        record.terminal = 0;
        if let Some(watcher) = record.watcher.take() {
            self.system.notify(watcher, 1);
            self.system.drop_kept(watcher);
        }
    }

    // Operations.

    /// IDS
    pub(crate) fn ids(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let target = self.named(slot, message.words[1])?;
        let tid = if target == slot {
            let id = message.token as u32;
            self.processes[slot].thread(id).map_or(0, |t| t.tid)
        } else {
            self.processes[target].pid
        };
        Ok(self.ids_words(target, tid))
    }

    /// IDS by a component of the system.
    pub(crate) fn ids_of_number(&mut self, pid: u64) -> Result<Outcome, Errno> {
        let slot = self.numbers.process(pid).ok_or(ESRCH)?;
        Ok(self.ids_words(slot, self.processes[slot].pid))
    }

    fn ids_words(&self, slot: Slot, tid: u32) -> Outcome {
        let process = &self.processes[slot];
        let group = &self.groups[process.group];
        let session = &self.sessions[group.session];
        let parent = match process.parent {
            NONE => 0,
            parent => self.processes[parent].pid,
        };
        Outcome::words(&[
            process.pid as u64,
            parent as u64,
            group.pgid as u64,
            session.sid as u64,
            self.terminal_of(slot).into(),
            tid as u64,
        ])
    }

    /// SETPGID
    pub(crate) fn setpgid(&mut self, slot: Slot, pid: u64, pgid: u64) -> Result<Outcome, Errno> {
        if pgid > i32::MAX as u64 {
            return Err(EINVAL);
        }
        let target = self.named(slot, pid)?;
        let process = &self.processes[target];
        if target != slot && process.parent != slot {
            return Err(ESRCH);
        }
        if process.ended.is_some() {
            return Err(ESRCH);
        }
        let session = self.session_of(slot);
        if target != slot {
            if self.session_of(target) != session {
                return Err(EPERM);
            }
            if process.executed {
                return Err(EACCES);
            }
        }
        if self.sessions[self.session_of(target)].sid == process.pid {
            return Err(EPERM);
        }
        let pgid = if pgid == 0 { process.pid as u64 } else { pgid };
        let own = pgid == process.pid as u64;
        let left = process.group;
        match self.numbers.get(pgid).group {
            group if group == left => return done(0),
            NONE if own && !self.groups.reserve() => return Err(ENOMEM),
            NONE if own => self.new_group(target, session),
            NONE => return Err(EPERM),
            group if self.groups[group].session == session => {
                let members = &mut self.groups[group].members;
                members.try_reserve(1).map_err(|_| ENOMEM)?;
                self.join(target, group)
            }
            _ => return Err(EPERM),
        }
        done(0)
    }

    /// SETSID
    pub(crate) fn setsid(&mut self, slot: Slot) -> Result<Outcome, Errno> {
        let pid = self.processes[slot].pid;
        if self.numbers.get(pid as u64).group != NONE {
            return Err(EPERM);
        }
        if !self.groups.reserve() || !self.sessions.reserve() {
            return Err(ENOMEM);
        }
        self.new_session(slot);
        done(pid as i64)
    }

    /// IDS_OF
    pub(crate) fn ids_of(
        &mut self,
        message: &Received,
        domain: u64,
        thread: u64,
    ) -> Result<Outcome, Errno> {
        let slot = self.by_domain(domain)?;
        if message.in_len != 0 {
            self.answer_groups(message, slot)?;
        }
        let process = &self.processes[slot];
        let at = u32::try_from(thread)
            .ok()
            .and_then(|id| process.threads.place(id));
        let its = at.and_then(|at| process.threads.get(at));
        let tid = its.map_or(0, |thread| thread.tid);
        let group = &self.groups[process.group];
        let session = &self.sessions[group.session];
        let ignored = process.dispositions.ignored;
        let mut bits = 0;
        if ignored & crate::signal::bit(SIGTTIN) != 0 {
            bits |= 1;
        }
        if ignored & crate::signal::bit(SIGTTOU) != 0 {
            bits |= 2;
        }
        if self.is_orphaned(process.group) {
            bits |= 4;
        }
        if session.leader == slot {
            bits |= 8;
        }
        Ok(Outcome::words(&[
            process.pid as u64,
            group.pgid as u64,
            session.sid as u64,
            self.terminal_of(slot).into(),
            bits,
            tid.into(),
            process.creds.group_count.into(),
        ]))
    }

    /// Device number of a process's terminal, 0 without one.
    pub(crate) fn terminal_of(&self, slot: Slot) -> u32 {
        let process = &self.processes[slot];
        match process.has_left_terminal {
            true => 0,
            false => self.sessions[self.groups[process.group].session].terminal,
        }
    }

    pub(crate) fn by_domain(&self, domain: u64) -> Result<Slot, Errno> {
        let id = u32::try_from(domain).map_err(|_| ESRCH)?;
        let slot = self.domains.get(id);
        if slot != NONE && self.processes[slot].domain.id == id {
            Ok(slot)
        } else {
            Err(ESRCH)
        }
    }

    /// SIGNAL_GROUP
    pub(crate) fn signal_group(&mut self, pgid: u64, signal: u64) -> Result<Outcome, Errno> {
        let signal = crate::kill::number(signal)?;
        match self.numbers.get(pgid).group {
            NONE => Err(ESRCH),
            _ if signal == 0 => done(0),
            group => {
                self.signal_members(
                    group,
                    Info {
                        signal,
                        code: crate::signal::code::KERNEL,
                        ..Info::default()
                    },
                );
                done(0)
            }
        }
    }

    /// SET_TERMINAL. Says whether the passed portal was kept.
    pub(crate) fn set_terminal(
        &mut self,
        (sid, device, member): (u64, u64, u64),
        watcher: Option<Portal>,
    ) -> Result<bool, Errno> {
        let session = match self.numbers.get(sid).session {
            NONE => return Err(ESRCH),
            session => session,
        };
        if member != 0 {
            let member = self.numbers.process(member).ok_or(ESRCH)?;
            if device != 0 || self.session_of(member) != session {
                return Err(EINVAL);
            }
            self.processes[member].has_left_terminal = true;
            return Ok(false);
        }
        let device = u32::try_from(device).map_err(|_| EINVAL)?;
        let record = &mut self.sessions[session];
        if device != 0 && record.terminal != 0 && record.terminal != device {
            return Err(EPERM);
        }
        let watcher = if device == 0 { None } else { watcher };
        let kept = watcher.is_some();
        if kept {
            self.system.keep()?;
        }
        record.terminal = device;
        if let Some(old) = core::mem::replace(&mut record.watcher, watcher) {
            self.system.drop_kept(old);
        }
        Ok(kept)
    }
}
