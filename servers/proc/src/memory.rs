//! What one process sees of another from outside: its memory, for process_vm_readv(2) and the files of /proc, the system call that a thread waits in, and the
//! threads of a process that leaves a core file.
//!
//! Who may is decided here. The right to a memory file is looked at when it is opened, as on Linux, and holds for the program that the process runs then: a
//! process is named by its life and by how many programs it has executed, so nobody finds another one behind an old file.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::{Beginning, Thread};
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use cairn_abi::layout::PERSONALITY;
use cairn_abi::service::thread;
use cairn_abi::state::Registers;
use cairn_abi::Id;
use cairn_idl::errno::{EACCES, EFAULT, EINVAL, EPERM, ESRCH};
use cairn_idl::proc::{CALL_BYTES, CORE_FILTER_ALL, CORE_THREAD, THREAD_FRAME};
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
        put_words(&mut bytes, words);
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
        let frame = self.frame_of(domain.id, &registers)?;
        let [number, rip, rsp] = [15, 17, 20].map(|at| frame[at]);
        if number == u64::MAX {
            return Some(none(rsp, rip));
        }
        let [a, b, c, d, e, f] = [14, 13, 12, 7, 9, 8].map(|at| frame[at]);
        Some([number, a, b, c, d, e, f, rsp, rip])
    }

    /// The program's registers behind a thread that is in its personality: that one's word, as all that a program says of itself.
    fn frame_of(&mut self, domain: Id, registers: &Registers) -> Option<[u64; FRAME]> {
        let own = registers.gs_base.checked_add(THREAD_FRAME)?;
        let frame = u64::from_le_bytes(self.bytes_of(domain, own)?);
        let bytes: [u8; 8 * FRAME] = self.bytes_of(domain, frame)?;
        let mut words = [0; FRAME];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(words)
    }

    /// CORE
    pub(crate) fn core(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let process = &mut self.processes[slot];
        // (Once: it takes as long as there are threads.)
        if process.dumpable != 1 || core::mem::replace(&mut process.leaves_core, true) {
            return Err(EPERM);
        }
        let caller = message.token as u32;
        let domain = self.processes[slot].domain;
        let mut told = 0;
        let mut count = 0;
        // All of them first: none sees another one gone.
        for at in 0..self.processes[slot].threads.len() {
            let id = self.processes[slot].threads[at].id;
            if id != caller {
                let _ = self.system.control(domain, id, thread::STOP, [0; 3]);
            }
        }
        for at in 0..self.processes[slot].threads.len() {
            let Thread { id, tid, .. } = self.processes[slot].threads[at];
            if id == caller {
                continue;
            }
            count += 1;
            if told + CORE_THREAD as usize > message.in_len {
                continue;
            }
            let Some(registers) = self.system.registers(domain, id) else {
                continue;
            };
            let mut bytes = [0; CORE_THREAD as usize];
            let own = match registers.rip < PERSONALITY {
                true => None,
                false => self.frame_of(domain.id, &registers),
            };
            let words = user_registers(&registers, own.as_ref());
            let tid = u64::from(self.as_seen(slot, tid));
            put_words(&mut bytes, core::iter::once(tid).chain(words));
            let put = self.system.write(message.token, told as u64, &bytes);
            put.map_err(|_| EFAULT)?;
            told += bytes.len();
        }
        let filter = self.processes[slot].core_filter;
        Ok(Outcome::words(&[count as u64, filter.into()]))
    }

    /// SET_CORE_FILTER
    pub(crate) fn set_core_filter(
        &mut self,
        domain: u64,
        pid: u64,
        filter: u64,
    ) -> Result<Outcome, Errno> {
        self.by_domain(domain)?;
        let slot = self.numbers.process(pid).ok_or(ESRCH)?;
        let process = &mut self.processes[slot];
        if process.ended.is_some() {
            return Err(ESRCH);
        }
        process.core_filter = filter as u32 & CORE_FILTER_ALL;
        done(0)
    }

    pub(crate) fn bytes_of<const N: usize>(&mut self, domain: Id, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let read = self.system.read_from(domain, address, &mut bytes);
        (read == Ok(N)).then_some(bytes)
    }
}

fn put_words(bytes: &mut [u8], words: impl IntoIterator<Item = u64>) {
    for (chunk, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *chunk = word.to_le_bytes();
    }
}

/// `struct user_regs_struct` of a thread, from its personality's frame if it is in there.
fn user_registers(r: &Registers, frame: Option<&[u64; FRAME]>) -> [u64; 27] {
    const CS: u64 = 0x33;
    const SS: u64 = 0x2b;
    if let Some(f) = frame {
        let mut words = [0; 27];
        // (Both have the first 15 in one order.)
        words[..16].copy_from_slice(&f[..16]);
        words[16..21].copy_from_slice(&[f[17], CS, f[19] | 2, f[20], SS]);
        words[21] = r.fs_base;
        return words;
    }
    [
        r.r15,
        r.r14,
        r.r13,
        r.r12,
        r.rbp,
        r.rbx,
        r.r11,
        r.r10,
        r.r9,
        r.r8,
        r.rax,
        r.rcx,
        r.rdx,
        r.rsi,
        r.rdi,
        u64::MAX,
        r.rip,
        CS,
        r.rflags,
        r.rsp,
        SS,
        r.fs_base,
        0,
        0,
        0,
        0,
        0,
    ]
}
