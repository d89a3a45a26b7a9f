//! Open files of a process as others see them: pidfd_getfd(2) and the folders `fd` and `fdinfo` of /proc.
//!
//! A process's descriptors are its own business: `proc` knows of none. Its personality lists which portals they are, in its own memory. What stands there is
//! believed as far as it goes: a portal is taken from that process, by who may look into it, and is none that every process begins with.

use crate::dispatch::Outcome;
use crate::manager::Manager;
use crate::process::Beginning;
use crate::system::{Errno, System};
use crate::table::Slot;
use alloc::vec::Vec;
use cairn_abi::layout::RESERVED_SLOTS;
use cairn_abi::service::thread;
use cairn_abi::Id;
use cairn_idl::errno::{EBADF, ENOMEM, EPERM, ESRCH};
use cairn_idl::proc::*;
use cairn_rt::{Portal, Received};

/// Where INFO of a thread has the cores that it may run on.
const AFFINITY: usize = 6;
/// Bytes that are read at once.
const PIECE: usize = 4096;

/// What a personality lists.
struct Listed {
    at: u64,
    count: u64,
    cwd: u32,
    umask: u32,
}

impl<S: System> Manager<S> {
    /// FILE_OF
    pub(crate) fn file_of(&mut self, by: Slot, words: &[u64; 8]) -> Result<Outcome, Errno> {
        let [_, pid, life, descriptor, ..] = *words;
        let of = match life {
            0 => self.numbers.process(pid),
            life => self.living(life),
        };
        let of = of.filter(|of| self.processes[*of].alive()).ok_or(ESRCH)?;
        if self.processes[of].beginning != Beginning::Over || !self.may_trace(by, of) {
            return Err(EPERM);
        }
        let listed = self.listed(of)?;
        let word = match descriptor {
            FILE_CWD => listed.cwd,
            descriptor if descriptor < listed.count => {
                let at = listed.at.checked_add(4 * descriptor).ok_or(EBADF)?;
                let domain = self.processes[of].domain.id;
                u32::from_le_bytes(self.bytes_of(domain, at).ok_or(EBADF)?)
            }
            _ => return Err(EBADF),
        };
        let slot = word & FILE_SLOT;
        if slot < RESERVED_SLOTS {
            return Err(EBADF);
        }
        let domain = self.processes[of].domain;
        let taken = self.system.take(domain, slot)?;
        Ok(Outcome::Taken(taken, u64::from(word & FILE_CLOEXEC != 0)))
    }

    /// FILES_OF
    pub(crate) fn files_of(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [_, pid, first, ..] = message.words;
        let of = self.numbers.process(pid).ok_or(ESRCH)?;
        let process = &self.processes[of];
        if !process.alive() || process.beginning != Beginning::Over {
            return Err(ESRCH);
        }
        let domain = process.domain.id;
        let listed = self.listed(of)?;
        let room = message.in_len.min(PIECE) / 4;
        let mut found: Vec<u32> = Vec::new();
        found.try_reserve_exact(room).map_err(|_| ENOMEM)?;
        let end = listed.count.min(first.saturating_add(FILES_LOOKED_AT));
        let mut at = first;
        while at < end && found.len() < room {
            let mut bytes = [0; PIECE];
            let most = ((end - at) as usize).min(PIECE / 4);
            let address = listed.at.saturating_add(4 * at);
            let read = self
                .system
                .read_from(domain, address, &mut bytes[..4 * most]);
            let read = read.unwrap_or(0).min(4 * most) / 4;
            for word in &bytes.as_chunks::<4>().0[..read] {
                if found.len() == room {
                    break;
                }
                if u32::from_le_bytes(*word) & FILE_SLOT != 0 {
                    found.push(at as u32);
                }
                at += 1;
            }
            if read == 0 {
                at = listed.count;
            }
        }
        let next = if at < listed.count { at } else { 0 };
        let count = found.len() as u64;
        self.answer_list(message, &found)?;
        Ok(Outcome::words(&[count, next]))
    }

    /// KEPT_OF. (What a thread does not tell, as it is not known where, is 0.)
    pub(crate) fn kept_of(&mut self, pid: u64, tid: u64) -> Result<Outcome, Errno> {
        let of = self.numbers.process(pid).ok_or(ESRCH)?;
        let process = &self.processes[of];
        if !process.alive() || process.beginning != Beginning::Over {
            return Err(ESRCH);
        }
        let domain = process.domain;
        let thread = process.threads.iter().find(|it| u64::from(it.tid) == tid);
        let thread = thread.or(process.threads.first()).ok_or(ESRCH)?.id;
        let info = self.system.control(domain, thread, thread::INFO, [0; 3]);
        let cores = info.map_or(0, |words| words[AFFINITY]);
        let umask = self.listed(of)?.umask;
        let blocked = self.blocked(of, thread).unwrap_or(0);
        Ok(Outcome::words(&[0, umask.into(), cores, blocked]))
    }

    /// Where a thread's personality has what is its own.
    fn area(&mut self, of: Slot, thread: Id) -> Result<u64, Errno> {
        let domain = self.processes[of].domain;
        let registers = match self.system.registers(domain, thread) {
            Some(registers) => Some(registers),
            None => {
                // It runs on another core.
                self.system.stop(domain);
                let registers = self.system.registers(domain, thread);
                self.system.resume(domain);
                registers
            }
        };
        Ok(registers.ok_or(EBADF)?.gs_base)
    }

    /// The signals that a thread blocks.
    fn blocked(&mut self, of: Slot, thread: Id) -> Result<u64, Errno> {
        let at = self.area(of, thread)?.checked_add(THREAD_MASK);
        let domain = self.processes[of].domain.id;
        let bytes = self.bytes_of(domain, at.ok_or(EBADF)?).ok_or(EBADF)?;
        let mask = self.bytes_of(domain, u64::from_le_bytes(bytes));
        Ok(u64::from_le_bytes(mask.ok_or(EBADF)?))
    }

    fn listed(&mut self, of: Slot) -> Result<Listed, Errno> {
        let process = &self.processes[of];
        let (domain, thread) = (process.domain, process.threads.first().ok_or(ESRCH)?.id);
        let area = self.area(of, thread)?;
        let at = area.checked_add(THREAD_FILES).ok_or(EBADF)?;
        let bytes: [u8; 8] = self.bytes_of(domain.id, at).ok_or(EBADF)?;
        let head: [u8; 24] = self
            .bytes_of(domain.id, u64::from_le_bytes(bytes))
            .ok_or(EBADF)?;
        let (words, _) = head.as_chunks::<8>();
        let [at, count, cwd] = [0, 1, 2].map(|n| u64::from_le_bytes(words[n]));
        Ok(Listed {
            at,
            count,
            cwd: cwd as u32,
            umask: (cwd >> 32) as u32 & 0o777,
        })
    }

    pub fn close(&mut self, portal: Portal) {
        self.system.close(portal);
    }
}
