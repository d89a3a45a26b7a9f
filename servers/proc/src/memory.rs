//! What one process sees of another from outside: its memory, for process_vm_readv(2) and the files of /proc, and the system call that a thread waits in.
//!
//! Who may is decided here. The right to a memory file is looked at when it is opened, as on Linux, and holds for the program that the process runs then: a
//! process is named by its life and by how many programs it has executed, so nobody finds another one behind an old file.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::Beginning;
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use cairn_abi::layout::PERSONALITY;
use cairn_abi::service::thread;
use cairn_abi::Id;
use cairn_idl::errno::{EACCES, EFAULT, EINVAL, EPERM, ESRCH};
use cairn_idl::proc::{CALL_BYTES, THREAD_FRAME};
use cairn_rt::Received;

/// Bytes of one message.
const MOST: usize = 4096;
/// INFO's state of a thread that runs.
const RUNS: u64 = 0;
/// Words of a personality's frame.
const FRAME: usize = 22;

impl<S: System> Manager<S> {
    /// TRACE_MEMORY
    pub(crate) fn trace_memory(
        &mut self,
        message: &Received,
        slot: Slot,
    ) -> Result<Outcome, Errno> {
        let [_, pid, address, write, ..] = message.words;
        let (of, _) = self.thread_of(pid).ok_or(ESRCH)?;
        if of != slot && !self.may_attach(slot, of) {
            return Err(EPERM);
        }
        self.move_memory(message, slot, of, address, write != 0)
    }

    /// MEMORY_OPEN
    pub(crate) fn memory_open(&self, domain: u64, pid: u64) -> Result<Outcome, Errno> {
        let by = self.by_domain(domain)?;
        let of = self.numbers.process(pid).ok_or(ESRCH)?;
        let process = &self.processes[of];
        if !process.alive() {
            return Err(ESRCH);
        }
        if process.beginning != Beginning::Over || !self.may_trace(by, of) {
            return Err(EACCES);
        }
        Ok(Outcome::words(&[
            0,
            self.life(of),
            u64::from(process.programs),
        ]))
    }

    /// MEMORY
    pub(crate) fn memory(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [_, life, program, address, write, by, ..] = message.words;
        let of = self.living(life).filter(|of| {
            let process = &self.processes[*of];
            process.alive() && u64::from(process.programs) == program
        });
        let Some(of) = of else {
            return done(0);
        };
        // (Without one there is nobody who would bring a page.)
        let by = self.by_domain(by).unwrap_or(NONE);
        self.move_memory(message, by, of, address, write != 0)
    }

    fn move_memory(
        &mut self,
        message: &Received,
        by: Slot,
        of: Slot,
        address: u64,
        write: bool,
    ) -> Result<Outcome, Errno> {
        let domain = self.processes[of].domain.id;
        let room = |length: usize| {
            let left = PERSONALITY.saturating_sub(address);
            length.min(MOST).min(left as usize)
        };
        if write {
            let bytes = self.bytes(message, 0, room(message.out_len))?;
            return match self.system.write_for_tracer(domain, address, &bytes) {
                Ok(written) => done(written as i64),
                Err(error) => Err(self.trace_touch_any(by, of, address).unwrap_or(error)),
            };
        }
        let mut bytes = [0; MOST];
        let bytes = &mut bytes[..room(message.in_len)];
        let count = self.system.read_from(domain, address, bytes).unwrap_or(0);
        let count = count.min(bytes.len());
        if count == 0 {
            return Err(self.trace_touch_any(by, of, address).unwrap_or(EFAULT));
        }
        self.answer(message, &bytes[..count])?;
        done(count as i64)
    }

    /// CALL_OF
    pub(crate) fn call_of(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [_, domain, tid, ..] = message.words;
        let by = self.by_domain(domain)?;
        let (of, at) = self.thread_of(tid).ok_or(ESRCH)?;
        if !self.may_trace(by, of) {
            return Err(EACCES);
        }
        let Some(words) = self.call_under_way(of, at) else {
            return done(0);
        };
        let mut bytes = [0; CALL_BYTES as usize];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *chunk = word.to_le_bytes();
        }
        if message.in_len < bytes.len() {
            return Err(EINVAL);
        }
        self.answer(message, &bytes)?;
        done(1)
    }

    /// The call that a thread waits in: number, six arguments, stack pointer, address. None: it runs.
    fn call_under_way(&mut self, of: Slot, at: usize) -> Option<[u64; CALL_BYTES as usize / 8]> {
        let process = &self.processes[of];
        let (domain, id) = (process.domain, process.threads[at].id);
        let info = self.system.control(domain, id, thread::INFO, [0; 3]).ok()?;
        if info[1] == RUNS || process.beginning != Beginning::Over {
            return None;
        }
        let registers = self.system.registers(domain, id)?;
        let none = |sp, address| [u64::MAX, 0, 0, 0, 0, 0, 0, sp, address];
        if registers.rip < PERSONALITY {
            return Some(none(registers.rsp, registers.rip));
        }
        // Its personality's word, as all that a program says of itself.
        let own = registers.gs_base.checked_add(THREAD_FRAME)?;
        let frame = u64::from_le_bytes(self.words_of(domain.id, own)?);
        let frame: [u8; 8 * FRAME] = self.words_of(domain.id, frame)?;
        let word = |at: usize| u64::from_le_bytes(frame.as_chunks().0[at]);
        let [number, rip, rsp] = [15, 17, 20].map(word);
        if number == u64::MAX {
            return Some(none(rsp, rip));
        }
        let [a, b, c, d, e, f] = [14, 13, 12, 7, 9, 8].map(word);
        Some([number, a, b, c, d, e, f, rsp, rip])
    }

    fn words_of<const N: usize>(&mut self, domain: Id, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let read = self.system.read_from(domain, address, &mut bytes);
        (read == Ok(N)).then_some(bytes)
    }
}
