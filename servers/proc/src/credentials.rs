//! User and group ids. The effective ones are kept as the domain's label in the nucleus, which shows it to every server.

use crate::capabilities::follow_ids;
use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::system::{Errno, System};
use crate::table::Slot;
use crate::user_spaces::{is_mapped, may_set_groups, user_0, Above};
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, MAX_SLOTS};
use cairn_idl::capability::{IPC_LOCK, SETGID, SETUID, SYS_PTRACE};
use cairn_idl::errno::{EACCES, EFAULT, EINVAL, ENOMEM, EPERM, ESRCH};
use cairn_idl::label;
use cairn_idl::proc::Credentials;
use cairn_idl::vm::GROUP_FIRST;
use cairn_rt::{Portal, Received};

pub fn decode(bytes: &[u8]) -> Result<Credentials, Errno> {
    let bytes = bytes.try_into().map_err(|_| EFAULT)?;
    let creds = Credentials::from_bytes(bytes);
    let too_large = |gid: &u32| *gid > label::GID_MAX;
    if creds.group_count as usize > creds.groups.len()
        || [creds.rgid, creds.egid, creds.sgid].iter().any(too_large)
        // What is above are groups of processes.
        || [creds.ruid, creds.euid, creds.suid]
            .iter()
            .any(|uid| *uid >= GROUP_FIRST)
    {
        return Err(EINVAL);
    }
    Ok(creds)
}

/// The rules of setresuid, setresgid and setgroups: without the capability each id must be one of the three that the process has; with it, one that its user name space knows.
pub fn check(own: &Credentials, wish: &Credentials, space: &Above) -> Result<(), Errno> {
    let users = [own.ruid, own.euid, own.suid];
    let groups = [own.rgid, own.egid, own.sgid];
    let listed = |c: &Credentials| -> Vec<u32> { c.groups[..c.group_count as usize].to_vec() };
    let same_users = [wish.ruid, wish.euid, wish.suid]
        .iter()
        .all(|id| users.contains(id));
    let same_groups = [wish.rgid, wish.egid, wish.sgid]
        .iter()
        .all(|id| groups.contains(id));
    let same_list = listed(own) == listed(wish);
    let known = |groups: bool, own: &[u32], ids: &[u32]| {
        let mut ids = ids.iter();
        ids.all(|id| own.contains(id) || is_mapped(space, groups, *id))
    };
    let may_user =
        own.has_inside(SETUID) && known(false, &users, &[wish.ruid, wish.euid, wish.suid]);
    let may_group =
        own.has_inside(SETGID) && known(true, &groups, &[wish.rgid, wish.egid, wish.sgid]);
    let may_list =
        own.has_inside(SETGID) && may_set_groups(space) && known(true, &[], &listed(wish));
    if (same_users || may_user) && (same_groups || may_group) && (same_list || may_list) {
        Ok(())
    } else {
        Err(EPERM)
    }
}

/// Linux's ptrace access check for reading, between two processes: what one shows in /proc of its memory, files and places to the other.
/// `capable`: of CAP_SYS_PTRACE in the other's user name space.
pub fn may_look_into(by: &Credentials, of: &Credentials, dumpable: bool, capable: bool) -> bool {
    let users = [of.ruid, of.euid, of.suid];
    let groups = [of.rgid, of.egid, of.sgid];
    let same = users.iter().all(|id| *id == by.euid) && groups.iter().all(|id| *id == by.egid);
    let no_more = by.user_space == of.user_space && of.permitted & !by.effective == 0;
    same && dumpable && no_more || capable
}

/// The ids of `wish`, and what follows from them.
pub fn with_ids(own: &Credentials, wish: &Credentials, user_0: Option<u32>) -> Credentials {
    let mut new = Credentials {
        secure: own.secure,
        effective: own.effective,
        permitted: own.permitted,
        inheritable: own.inheritable,
        bounding: own.bounding,
        ambient: own.ambient,
        user_space: own.user_space,
        ..*wish
    };
    follow_ids(own, &mut new, user_0);
    new
}

impl<S: System> Manager<S> {
    /// Take on these ids and capabilities; the label follows.
    pub(crate) fn assume(&mut self, slot: Slot, creds: Credentials) {
        let old = self.processes[slot].label();
        let had = core::mem::replace(&mut self.processes[slot].creds, creds);
        let before = had.ruid;
        if had.euid != creds.euid {
            let domain = self.processes[slot].domain.id;
            let account = self.account(slot);
            self.system.set_account(domain, account, creds.euid == 0);
        }
        self.follow_lock_right(slot, had.has(IPC_LOCK));
        let label = self.processes[slot].label();
        if label != old {
            let domain = self.processes[slot].domain;
            self.system.set_label(domain, label);
            self.follow_privilege(slot, old);
            self.processes[slot].dumpable = 0;
            self.processes[slot].death_signal = 0;
        }
        if before != creds.ruid {
            // The user's count is of processes and threads.
            let further = self.processes[slot]
                .threads
                .iter()
                .filter(|t| t.tid != self.processes[slot].pid)
                .count() as i32;
            self.count_user(before, -(further + 1));
            self.count_user(creds.ruid, further + 1);
            let timers = self.processes[slot].posix_timers as i32;
            self.count_timers(before, -timers);
            self.count_timers(creds.ruid, timers);
        }
    }

    /// The log is for who has the privilege SYSTEM: the portal goes with it, and comes back. (Without memory for it the process has none: it is for what goes wrong only.)
    fn follow_privilege(&mut self, slot: Slot, old: u64) {
        let process = &self.processes[slot];
        let (domain, label) = (process.domain, process.label());
        let [had, has] = [old, label].map(|label| label::has(label, label::SYSTEM));
        if had && !has {
            self.system.remove(domain, linux_slot::LOG);
        } else if has && !had {
            let log = self.gifts.log;
            let _ = self.system.put(domain, log, linux_slot::LOG);
        }
    }

    /// GETCREDS
    pub(crate) fn getcreds(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let bytes = self.processes[slot].creds.to_bytes();
        self.answer(message, &bytes)?;
        done(0)
    }

    /// SETCREDS
    pub(crate) fn setcreds(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let wish = decode(&self.bytes(message, 0, Credentials::BYTES)?)?;
        let own = self.processes[slot].creds;
        let space = &self.processes[slot].user;
        check(&own, &wish, space)?;
        let new = with_ids(&own, &wish, user_0(space));
        self.assume(slot, new);
        Ok(Outcome::words(&[0, new.effective, new.permitted]))
    }

    /// GROUPS_OF
    pub(crate) fn groups_of(&mut self, message: &Received, domain: u64) -> Result<Outcome, Errno> {
        let slot = self.by_domain(domain)?;
        self.answer_groups(message, slot)?;
        done(self.processes[slot].creds.group_count as i64)
    }

    /// As many as there is room for.
    pub(crate) fn answer_groups(&mut self, message: &Received, slot: Slot) -> Result<(), Errno> {
        let creds = &self.processes[slot].creds;
        let room = (message.in_len / 4).min(creds.group_count as usize);
        let bytes: Vec<u8> = creds.groups[..room]
            .iter()
            .flat_map(|id| id.to_le_bytes())
            .collect();
        self.answer(message, &bytes)
    }

    /// REAL_LABEL
    pub(crate) fn real_label(&self, domain: u64) -> Result<Outcome, Errno> {
        let creds = &self.processes[self.by_domain(domain)?].creds;
        let capabilities = match (creds.ruid, creds.user_space) {
            (0, 0) => creds.permitted,
            _ => 0,
        };
        let label = label::with(creds.ruid, creds.rgid, capabilities);
        Ok(Outcome::words(&[0, label]))
    }

    /// PTRACE_ACCESS
    pub(crate) fn ptrace_access(&self, domain: u64, pid: u64) -> Result<Outcome, Errno> {
        let by = self.by_domain(domain)?;
        let of = self.numbers.process(pid).ok_or(ESRCH)?;
        match self.may_trace(by, of) {
            true => done(0),
            false => Err(EACCES),
        }
    }

    /// May one process look into the other and change it, as far as their ids and capabilities go?
    pub(crate) fn may_trace(&self, by: Slot, of: Slot) -> bool {
        let dumpable = self.processes[of].dumpable == 1;
        let [by_creds, of_creds] = [by, of].map(|slot| &self.processes[slot].creds);
        let capable = self.is_capable(by, &self.processes[of].user, SYS_PTRACE);
        by == of || may_look_into(by_creds, of_creds, dumpable, capable)
    }

    /// ATTEND
    pub(crate) fn attend(&mut self, message: &Received) -> Result<Outcome, Errno> {
        if message.portals != 1 {
            return Err(EINVAL);
        }
        let slot = self.by_domain(message.words[1])?;
        self.keep_until_its_end(message, slot)?;
        Ok(Outcome::Kept(u64::from(self.processes[slot].pid)))
    }

    /// The portal that came with this message is closed when the process ends.
    pub(crate) fn keep_until_its_end(
        &mut self,
        message: &Received,
        slot: Slot,
    ) -> Result<(), Errno> {
        let process = &mut self.processes[slot];
        let most = match process.creds.euid {
            0 => ATTENDED_IN_ALL,
            _ => ATTENDED_OF_USERS,
        };
        if process.attended.len() >= ATTENDED_MOST || self.attended >= most {
            return Err(ENOMEM);
        }
        process.attended.try_reserve(1).map_err(|_| ENOMEM)?;
        self.system.keep()?;
        self.attended += 1;
        let process = &mut self.processes[slot];
        process.attended.push(Portal(message.words[7] as u32));
        Ok(())
    }
}

/// Servers that wait for one process's end; waits in all, which leave room in the portal table for all processes, and those of users other than 0.
const ATTENDED_MOST: usize = 256;
pub(crate) const ATTENDED_IN_ALL: u32 = 8192;
pub(crate) const ATTENDED_OF_USERS: u32 = 6144;
const _: () =
    assert!(ATTENDED_IN_ALL + 2 * crate::life::TASKS_OF_ROOT + crate::life::TASKS_MOST < MAX_SLOTS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::first;

    fn ids(ruid: u32, euid: u32, suid: u32) -> Credentials {
        Credentials {
            ruid,
            euid,
            suid,
            ..Credentials::default()
        }
    }

    #[test]
    fn only_root_takes_ids_that_it_does_not_have() {
        assert_eq!(check(&first(), &ids(5, 6, 7), &None), Ok(()));
        assert_eq!(check(&ids(0, 0, 0), &ids(5, 6, 7), &None), Err(EPERM));
        assert_eq!(check(&ids(5, 6, 7), &ids(7, 5, 6), &None), Ok(()));
        assert_eq!(check(&ids(5, 6, 7), &ids(5, 0, 7), &None), Err(EPERM));
        let mut more = ids(5, 6, 7);
        more.group_count = 1;
        assert_eq!(check(&ids(5, 6, 7), &more, &None), Err(EPERM));
        let mut gid = ids(5, 6, 7);
        gid.egid = 9;
        assert_eq!(check(&ids(5, 6, 7), &gid, &None), Err(EPERM));
    }

    #[test]
    fn looking_into_a_process_takes_all_of_its_ids_or_the_capability() {
        let user = |uid| Credentials {
            rgid: 9,
            egid: 9,
            sgid: 9,
            ..ids(uid, uid, uid)
        };
        let (own, root) = (user(5), first());
        assert!(may_look_into(&own, &user(5), true, false));
        assert!(!may_look_into(&own, &user(5), false, false));
        assert!(!may_look_into(&own, &user(6), true, false));
        assert!(!may_look_into(&own, &root, true, false));
        assert!(may_look_into(&root, &own, false, true));
        for other in [(5, 0, 0), (0, 5, 5), (5, 5, 0), (5, 6, 5)] {
            let changed = Credentials {
                ruid: other.0,
                euid: other.1,
                suid: other.2,
                ..own
            };
            assert!(!may_look_into(&own, &changed, true, false), "{other:?}");
        }
        let other_group = Credentials { sgid: 8, ..own };
        assert!(!may_look_into(&own, &other_group, true, false));
        let more = Credentials {
            permitted: 1 << SETUID,
            ..own
        };
        assert!(!may_look_into(&own, &more, true, false));
        // User 0 without the capability is a user like others.
        let bare = Credentials {
            effective: 0,
            permitted: 0,
            ..root
        };
        assert!(!may_look_into(&bare, &own, true, false));
        assert!(!may_look_into(&bare, &root, true, false));
        assert!(may_look_into(&root, &bare, true, true));
    }

    #[test]
    fn what_is_wished_for_must_fit() {
        let mut creds = ids(1, 2, 3);
        creds.group_count = 32;
        for (n, group) in creds.groups.iter_mut().enumerate() {
            *group = n as u32 * 1000;
        }
        creds.sgid = label::GID_MAX;
        assert_eq!(decode(&creds.to_bytes()), Ok(creds));
        creds.sgid += 1;
        assert_eq!(decode(&creds.to_bytes()), Err(EINVAL));
        creds.sgid = 0;
        creds.group_count = 33;
        assert_eq!(decode(&creds.to_bytes()), Err(EINVAL));
        assert_eq!(decode(&[0; 12]), Err(EFAULT));
    }
}
