//! Key rings of processes (docs/keys.md): whose they are. What is in them only their server knows, which has the role KEYS.
//!
//! A process has two numbers of that server's, each with a portal that is closed when nobody has the number any more: so the server hears of it, whatever a
//! process died of.
//! * The session's is inherited by fork and kept by exec.
//! * The program's (for process and thread key rings) is a process's own, and goes with the program that it runs.

use crate::credentials::{ATTENDED_IN_ALL, ATTENDED_OF_USERS};
use crate::dispatch::Outcome;
use crate::manager::Manager;
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::errno::{EINVAL, ENOMEM, EPERM};
use cairn_idl::proc::KeyRings;
use cairn_rt::{Portal, Received};

/// What the server calls them, and how it hears that nobody has them.
#[derive(Debug)]
pub struct Session {
    number: u64,
    portal: Portal,
    /// For whom it counts.
    uid: u32,
}

/// Most of one user beside user 0.
const OF_ONE: u32 = 2048;

impl<S: System> Manager<S> {
    /// KEYS_OF
    pub(crate) fn keys_of(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let slot = self.by_domain(message.words[1])?;
        let process = &self.processes[slot];
        let creds = &process.creds;
        let count = creds.group_count as usize;
        let room = (message.in_len / 4).min(count);
        let groups = creds.groups[..room].iter();
        let groups: Vec<u8> = groups.flat_map(|id| id.to_le_bytes()).collect();
        let session = |slot: Slot| {
            let session = self.processes[slot].session_keys.as_ref();
            session.map_or(0, |session| session.number)
        };
        let program = process.program_keys.as_ref();
        let above = match process.parent {
            NONE => 0,
            parent => session(parent),
        };
        let words = [
            count as u64,
            session(slot),
            program.map_or(0, |program| program.number),
            creds.ruid.into(),
            process.pid.into(),
            above,
            creds.rgid.into(),
        ];
        self.answer(message, &groups)?;
        Ok(Outcome::words(&words))
    }

    /// KEYS_SET
    pub(crate) fn keys_set(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [_, domain, whose, number, ..] = message.words;
        let whose = KeyRings::from_word(whose).ok_or(EINVAL)?;
        if message.portals != 1 || number == 0 {
            return Err(EINVAL);
        }
        let by = self.by_domain(domain)?;
        let slot = match whose {
            KeyRings::Parent => self.parent_for_keys(by)?,
            KeyRings::Session | KeyRings::Program => by,
        };
        let most = match self.processes[by].creds.euid {
            0 => ATTENDED_IN_ALL,
            _ => ATTENDED_OF_USERS,
        };
        let creds = &self.processes[by].creds;
        let (uid, is_root) = (creds.ruid, creds.euid == 0);
        let of_user = self.key_rings_of.get(&uid).copied().unwrap_or(0);
        if self.attended >= most || of_user >= OF_ONE && !is_root {
            return Err(ENOMEM);
        }
        self.system.keep()?;
        self.attended += 1;
        *self.key_rings_of.entry(uid).or_default() += 1;
        let keys = Session {
            number,
            portal: Portal(message.words[7] as u32),
            uid,
        };
        match whose {
            KeyRings::Program => {
                self.leave_program_keys(slot);
                self.processes[slot].program_keys = Some(keys);
            }
            KeyRings::Session | KeyRings::Parent => {
                self.leave_session_keys(slot);
                self.processes[slot].session_keys = Some(Rc::new(keys));
            }
        }
        Ok(Outcome::Kept(0))
    }

    /// The parent, if it may be given the process's session.
    fn parent_for_keys(&self, by: Slot) -> Result<Slot, Errno> {
        let parent = self.processes[by].parent;
        if parent == NONE || self.is_first(parent) {
            return Err(EPERM);
        }
        let [child, of] = [by, parent].map(|slot| &self.processes[slot]);
        let (uid, gid) = (child.creds.euid, child.creds.egid);
        let creds = &of.creds;
        let users = [creds.ruid, creds.euid, creds.suid];
        let groups = [creds.rgid, creds.egid, creds.sgid];
        let same = users.iter().all(|id| *id == uid) && groups.iter().all(|id| *id == gid);
        match same && of.alive() && of.threads.len() == 1 {
            true => Ok(parent),
            false => Err(EPERM),
        }
    }

    /// The process has no session's key rings any more.
    pub(crate) fn leave_session_keys(&mut self, slot: Slot) {
        let session = self.processes[slot].session_keys.take();
        if let Some(session) = session.and_then(Rc::into_inner) {
            self.let_go_keys(session);
        }
    }

    /// Nor its program's.
    pub(crate) fn leave_program_keys(&mut self, slot: Slot) {
        if let Some(program) = self.processes[slot].program_keys.take() {
            self.let_go_keys(program);
        }
    }

    fn let_go_keys(&mut self, keys: Session) {
        self.attended -= 1;
        let count = self.key_rings_of.entry(keys.uid).or_default();
        *count -= 1;
        if *count == 0 {
            self.key_rings_of.remove(&keys.uid);
        }
        self.system.drop_kept(keys.portal);
    }
}
