//! Robust mutexes (set_robust_list(2)) of threads that end without walking their lists themselves: of a process that SIGKILL ends, and the others of one that a
//! thread ends. The mutexes get the mark that their owner died, and who waits for one in another process is woken (Documentation/locking/robust-futex-ABI).
//!
//! The lists are the process's memory, and whatever it likes: only words with a thread's own number are changed, as that thread could, and no more is looked at
//! than [`MOST`].

use crate::manager::Manager;
use crate::signal::SIGKILL;
use crate::system::{Domain, System};
use crate::table::Slot;
use cairn_idl::proc::{LOCK_OWNER, LOCK_OWNER_DIED, LOCK_WAITERS, THREAD_ROBUST, THREAD_TID};

/// Places of a process's memory that are looked at when it ends.
const MOST: u32 = 512;

/// How far the walk is.
struct Walk {
    domain: Domain,
    left: u32,
}

impl<S: System> Manager<S> {
    /// The process ends with this status.
    pub(crate) fn release_robust(&mut self, slot: Slot, status: u32) {
        let process = &self.processes[slot];
        let threads = process.threads.len();
        if status & 0x7f != SIGKILL && threads < 2 {
            return;
        }
        let domain = process.domain;
        // (It never runs again.)
        self.system.stop(domain);
        let mut walk = Walk { domain, left: MOST };
        for at in 0..threads {
            let Some(thread) = self.processes[slot].threads.get(at) else {
                break;
            };
            let id = thread.id;
            let registers = self.system.registers(domain, id);
            let area = registers.map_or(0, |registers| registers.gs_base);
            if area != 0 && self.release_list(&mut walk, area).is_none() && walk.left == 0 {
                break;
            }
        }
    }

    fn look<const N: usize>(&mut self, walk: &mut Walk, address: u64) -> Option<[u8; N]> {
        walk.left = walk.left.checked_sub(1)?;
        self.bytes_of(walk.domain.id, address)
    }

    fn release_list(&mut self, walk: &mut Walk, area: u64) -> Option<()> {
        const BYTES: usize = (THREAD_ROBUST + 8 - THREAD_TID) as usize;
        let about: [u8; BYTES] = self.look(walk, area.checked_add(THREAD_TID)?)?;
        let tid = u32::from_le_bytes(*about.first_chunk()?);
        let head = u64::from_le_bytes(*about.last_chunk()?);
        if head == 0 {
            return Some(());
        }
        let bytes: [u8; 24] = self.look(walk, head)?;
        let (words, _) = bytes.as_chunks::<8>();
        let [first, offset, pending] = [0, 1, 2].map(|n| u64::from_le_bytes(words[n]));
        let mut entry = first;
        while entry & !1 != head {
            // Before the mark: another process that has the mutex then puts it on a list of its own.
            let next = self.look(walk, entry & !1);
            self.owner_died(walk, (entry & !1).wrapping_add(offset), tid)?;
            entry = u64::from_le_bytes(next?);
        }
        match pending {
            0 => Some(()),
            _ => self.owner_died(walk, (pending & !1).wrapping_add(offset), tid),
        }
    }

    fn owner_died(&mut self, walk: &mut Walk, word: u64, tid: u32) -> Option<()> {
        let old = u32::from_le_bytes(self.look(walk, word)?);
        if old & LOCK_OWNER != tid || !word.is_multiple_of(4) {
            return Some(());
        }
        let new = old & LOCK_WAITERS | LOCK_OWNER_DIED;
        let id = walk.domain.id;
        // Who has said meanwhile that he waits finds another word than he expects, and looks again.
        let written = self.system.write_for_tracer(id, word, &new.to_le_bytes());
        if written == Ok(4) {
            if let Some(key) = self.system.shared_key(id, word) {
                self.futex_wake(key, 1);
            }
        }
        Some(())
    }
}
