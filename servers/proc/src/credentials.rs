//! User and group ids. The effective ones are kept as the domain's label in the nucleus, which shows it to every server.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::system::{Errno, System};
use crate::table::Slot;
use alloc::vec::Vec;
use cairn_idl::errno::{EFAULT, EINVAL, EPERM};
use cairn_idl::proc::Credentials;
use cairn_rt::Received;

/// Bytes of [`Credentials`]: seven words and 32 groups.
const WORDS: usize = 7 + 32;
const BYTES: usize = WORDS * 4;

pub fn encode(creds: &Credentials) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let head = [
        creds.ruid,
        creds.euid,
        creds.suid,
        creds.rgid,
        creds.egid,
        creds.sgid,
        creds.group_count,
    ];
    for (chunk, word) in bytes
        .chunks_exact_mut(4)
        .zip(head.iter().chain(creds.groups.iter()))
    {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

pub fn decode(bytes: &[u8]) -> Result<Credentials, Errno> {
    if bytes.len() != BYTES {
        return Err(EFAULT);
    }
    let mut words = [0u32; WORDS];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = chunk.try_into().map(u32::from_le_bytes).unwrap_or(0);
    }
    let mut groups = [0; 32];
    groups.copy_from_slice(&words[7..]);
    let creds = Credentials {
        ruid: words[0],
        euid: words[1],
        suid: words[2],
        rgid: words[3],
        egid: words[4],
        sgid: words[5],
        group_count: words[6],
        groups,
    };
    if creds.group_count as usize > groups.len() {
        return Err(EINVAL);
    }
    Ok(creds)
}

/// The rules of setresuid, setresgid and setgroups: without privilege each id must be one of the three that the process has.
pub fn check(own: &Credentials, wish: &Credentials) -> Result<(), Errno> {
    if own.euid == 0 {
        return Ok(());
    }
    let users = [own.ruid, own.euid, own.suid];
    let groups = [own.rgid, own.egid, own.sgid];
    let listed = |c: &Credentials| -> Vec<u32> { c.groups[..c.group_count as usize].to_vec() };
    let fair = [wish.ruid, wish.euid, wish.suid]
        .iter()
        .all(|id| users.contains(id))
        && [wish.rgid, wish.egid, wish.sgid]
            .iter()
            .all(|id| groups.contains(id))
        && listed(own) == listed(wish);
    if fair {
        Ok(())
    } else {
        Err(EPERM)
    }
}

impl<S: System> Manager<S> {
    /// Take on these ids; the label follows.
    pub(crate) fn assume(&mut self, slot: Slot, creds: Credentials) {
        let old = self.processes[slot].label();
        let before = core::mem::replace(&mut self.processes[slot].creds, creds).ruid;
        let label = self.processes[slot].label();
        if label != old {
            let domain = self.processes[slot].domain;
            self.system.set_label(domain, label);
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
        }
    }

    /// GETCREDS
    pub(crate) fn getcreds(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let bytes = encode(&self.processes[slot].creds);
        self.answer(message, &bytes)?;
        done(0)
    }

    /// SETCREDS
    pub(crate) fn setcreds(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let wish = decode(&self.bytes(message, 0, BYTES)?)?;
        check(&self.processes[slot].creds, &wish)?;
        self.assume(slot, wish);
        done(0)
    }

    /// GROUPS_OF
    pub(crate) fn groups_of(&mut self, message: &Received, domain: u64) -> Result<Outcome, Errno> {
        let slot = self.by_domain(domain)?;
        let creds = &self.processes[slot].creds;
        let room = (message.in_len / 4).min(creds.group_count as usize);
        let bytes: Vec<u8> = creds.groups[..room]
            .iter()
            .flat_map(|id| id.to_le_bytes())
            .collect();
        let count = creds.group_count;
        self.answer(message, &bytes)?;
        done(count as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(check(&ids(0, 0, 0), &ids(5, 6, 7)), Ok(()));
        assert_eq!(check(&ids(5, 6, 7), &ids(7, 5, 6)), Ok(()));
        assert_eq!(check(&ids(5, 6, 7), &ids(5, 0, 7)), Err(EPERM));
        let mut more = ids(5, 6, 7);
        more.group_count = 1;
        assert_eq!(check(&ids(5, 6, 7), &more), Err(EPERM));
        let mut gid = ids(5, 6, 7);
        gid.egid = 9;
        assert_eq!(check(&ids(5, 6, 7), &gid), Err(EPERM));
    }

    #[test]
    fn coding_keeps_everything_and_refuses_too_many_groups() {
        let mut creds = ids(1, 2, 3);
        creds.group_count = 32;
        for (n, group) in creds.groups.iter_mut().enumerate() {
            *group = n as u32 * 1000;
        }
        assert_eq!(decode(&encode(&creds)), Ok(creds));
        creds.group_count = 33;
        assert_eq!(decode(&encode(&creds)), Err(EINVAL));
        assert_eq!(decode(&[0; 12]), Err(EFAULT));
    }
}
