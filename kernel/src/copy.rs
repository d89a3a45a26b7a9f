//! Long messages: the parts of a blocked caller, copied once from space to space, at most [`SHARE`] bytes per entry.
//!
//! A copy that is not finished leaves its progress in the copying thread's registers and the thread before its `syscall`, like `rep movs`. Memory that is
//! not there is a fault for the pager of the space it belongs to; the copying thread waits for that as if it had called.

use crate::arch::{Arch, CopyFault};
use crate::pool::{ChannelRef, ThreadRef};
use crate::thread::Sending;
use crate::{Answer, Kernel, Stop};
use cairn_abi::state::Registers;
use cairn_abi::{flag, Error, Part, MAX_VECTOR};

/// Most bytes that one entry copies.
pub const SHARE: u64 = 8192;
const PART_BYTES: usize = core::mem::size_of::<Part>();
const REGISTERS: usize = core::mem::size_of::<Registers>() / 8;

/// A list of parts as it was read from its owner's memory.
struct Vector {
    bytes: [u8; MAX_VECTOR * PART_BYTES],
    len: usize,
}

impl Vector {
    fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        self.bytes[..self.len * PART_BYTES]
            .chunks_exact(PART_BYTES)
            .map(|part| {
                let word = |at: usize| {
                    let mut bytes = [0; 8];
                    bytes.copy_from_slice(&part[at..at + 8]);
                    u64::from_le_bytes(bytes)
                };
                Part {
                    base: word(0),
                    len: word(8),
                }
            })
    }
}

/// Where a copy stopped: bytes done, and whose memory was not there.
struct Interrupted {
    done: u64,
    owner: ThreadRef,
    fault: CopyFault,
}

/// Why parts could not be copied.
enum PartError {
    Fault(Interrupted),
    /// The parts no longer are what they were when the call was made.
    Changed,
}

impl<A: Arch> Kernel<A> {
    pub(crate) fn root_of(&self, t: ThreadRef) -> A::Root {
        self.domains[self.threads[t].domain].root
    }

    /// Read the calling thread's own memory. The operation starts again after a fault, so nothing may have changed yet.
    pub(crate) fn read_own(
        &mut self,
        t: ThreadRef,
        address: u64,
        into: &mut [u8],
    ) -> Result<(), Stop> {
        let root = self.root_of(t);
        match self.arch.read_user(root, address, into) {
            Ok(()) => Ok(()),
            Err(fault) => Err(self.copy_fault(t, t, fault)),
        }
    }

    /// Write the calling thread's own memory; as above.
    pub(crate) fn write_own(
        &mut self,
        t: ThreadRef,
        address: u64,
        from: &[u8],
    ) -> Result<(), Stop> {
        let root = self.root_of(t);
        match self.arch.write_user(root, address, from) {
            Ok(()) => Ok(()),
            Err(fault) => Err(self.copy_fault(t, t, fault)),
        }
    }

    pub(crate) fn write_own_registers(
        &mut self,
        t: ThreadRef,
        address: u64,
        registers: &Registers,
    ) -> Result<(), Stop> {
        let r = registers;
        let words: [u64; REGISTERS] = [
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12,
            r.r13, r.r14, r.r15, r.rip, r.rflags, r.rsp, r.fs_base, r.gs_base,
        ];
        let mut bytes = [0; REGISTERS * 8];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.write_own(t, address, &bytes)
    }

    pub(crate) fn read_own_registers(
        &mut self,
        t: ThreadRef,
        address: u64,
    ) -> Result<Registers, Stop> {
        let mut bytes = [0; REGISTERS * 8];
        self.read_own(t, address, &mut bytes)?;
        let mut words = bytes.chunks_exact(8).map(|chunk| {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        let mut next = || words.next().unwrap_or(0);
        Ok(Registers {
            rax: next(),
            rbx: next(),
            rcx: next(),
            rdx: next(),
            rsi: next(),
            rdi: next(),
            rbp: next(),
            r8: next(),
            r9: next(),
            r10: next(),
            r11: next(),
            r12: next(),
            r13: next(),
            r14: next(),
            r15: next(),
            rip: next(),
            rflags: next(),
            rsp: next(),
            fs_base: next(),
            gs_base: next(),
        })
    }

    /// Where `t`'s out (or in) part is described: address, count, and whether that is a vector.
    fn described(&self, t: ThreadRef, out: bool) -> (u64, u64, bool) {
        let r = &self.threads[t].registers;
        if out {
            (r.r14, r.r15, r.rax & flag::OUT_VECTOR != 0)
        } else {
            (r.rbx, r.rbp, r.rax & flag::IN_VECTOR != 0)
        }
    }

    /// Address of a blocked caller's out (or in) part; 0 if it has none, or several.
    pub(crate) fn part_address(&self, caller: ThreadRef, out: bool) -> u64 {
        let parts = self.threads[caller].parts;
        let len = if out {
            parts & 0xffff_ffff
        } else {
            parts >> 32
        };
        let (address, _, vector) = self.described(caller, out);
        if len == 0 || vector {
            0
        } else {
            address
        }
    }

    fn read_vector(
        &mut self,
        owner: ThreadRef,
        address: u64,
        count: u64,
    ) -> Result<Vector, PartError> {
        let mut vector = Vector {
            bytes: [0; MAX_VECTOR * PART_BYTES],
            len: (count as usize).min(MAX_VECTOR),
        };
        let root = self.root_of(owner);
        let bytes = vector.len * PART_BYTES;
        match self
            .arch
            .read_user(root, address, &mut vector.bytes[..bytes])
        {
            Ok(()) => Ok(vector),
            Err(fault) => Err(PartError::Fault(Interrupted {
                done: 0,
                owner,
                fault,
            })),
        }
    }

    /// Lengths of the calling thread's parts, as a receiver is told them.
    pub(crate) fn measure_parts(&mut self, t: ThreadRef) -> Result<u64, Stop> {
        let mut lengths = [0u64; 2];
        for (length, out) in lengths.iter_mut().zip([true, false]) {
            let (address, count, vector) = self.described(t, out);
            *length = if !vector {
                count
            } else if count > MAX_VECTOR as u64 {
                return Err(Error::BadArgument.into());
            } else {
                match self.read_vector(t, address, count) {
                    Ok(vector) => vector
                        .parts()
                        .fold(0u64, |sum, part| sum.saturating_add(part.len)),
                    Err(PartError::Fault(i)) => return Err(self.copy_fault(t, i.owner, i.fault)),
                    Err(PartError::Changed) => return Err(Error::BadAddress.into()),
                }
            };
        }
        let [out, input] = lengths.map(|length| length.min(u32::MAX as u64));
        Ok(out | input << 32)
    }

    /// Copy `len` bytes (at most [`SHARE`]) between `own`'s memory at `address` and offset `offset` of the caller's part.
    fn copy_part(
        &mut self,
        caller: ThreadRef,
        own: ThreadRef,
        out: bool,
        offset: u64,
        address: u64,
        len: u64,
    ) -> Result<(), PartError> {
        let (base, count, vector) = self.described(caller, out);
        if !vector {
            let base = base.wrapping_add(offset);
            return self.copy_piece(caller, own, out, base, address, len, 0);
        }
        let vector = self.read_vector(caller, base, count)?;
        let (mut skip, mut done) = (offset, 0);
        for part in vector.parts() {
            if skip >= part.len {
                skip -= part.len;
                continue;
            }
            let piece = (part.len - skip).min(len - done);
            let base = part.base.wrapping_add(skip);
            self.copy_piece(
                caller,
                own,
                out,
                base,
                address.wrapping_add(done),
                piece,
                done,
            )?;
            done += piece;
            skip = 0;
            if done == len {
                return Ok(());
            }
        }
        Err(PartError::Changed)
    }

    #[allow(clippy::too_many_arguments)] // one copy: two threads, a direction, two addresses, a length, and what went before
    #[inline]
    fn copy_piece(
        &mut self,
        caller: ThreadRef,
        own: ThreadRef,
        out: bool,
        base: u64,
        address: u64,
        len: u64,
        before: u64,
    ) -> Result<(), PartError> {
        let (theirs, ours) = (self.root_of(caller), self.root_of(own));
        let (source, destination) = if out {
            ((theirs, base), (ours, address))
        } else {
            ((ours, address), (theirs, base))
        };
        self.counters.bytes_copied += len;
        match self.arch.copy(source, destination, len as usize) {
            Ok(()) => Ok(()),
            Err((done, fault)) => Err(PartError::Fault(Interrupted {
                done: before + (done as u64).min(len),
                owner: if fault.destination == out {
                    own
                } else {
                    caller
                },
                fault,
            })),
        }
    }

    /// READ (out) and WRITE: w0 token, w1 offset, w2 own address, w3 length, w4 done so far.
    pub(crate) fn transfer(&mut self, t: ThreadRef, c: ChannelRef, out: bool) -> Answer {
        let w = self.threads[t].registers.words();
        let caller = self.caller(w[0], c)?;
        if self.threads[caller].sending != Sending::Message {
            return Err(Error::BadToken.into());
        }
        let parts = self.threads[caller].parts;
        let total = if out {
            parts & 0xffff_ffff
        } else {
            parts >> 32
        };
        let len = w[3].min(total.saturating_sub(w[1]));
        let share = len.min(SHARE);
        let mut done = share;
        let mut stop = None;
        if share != 0 {
            match self.copy_part(caller, t, out, w[1], w[2], share) {
                Ok(()) => {}
                Err(PartError::Changed) => return Err(Error::BadAddress.into()),
                Err(PartError::Fault(i)) => {
                    done = i.done;
                    stop = Some((i.owner, i.fault));
                }
            }
        }
        if stop.is_none() && done == len {
            self.answer(t, 0, w[4].wrapping_add(done));
            return Ok(());
        }
        self.answer(t, 1, w[1].wrapping_add(done));
        self.answer(t, 2, w[2].wrapping_add(done));
        self.answer(t, 3, len - done);
        self.answer(t, 4, w[4].wrapping_add(done));
        match stop {
            Some((owner, fault)) => Err(self.copy_fault(t, owner, fault)),
            None => Err(Stop::Restart),
        }
    }

    /// [`Kernel::reply_data`] for one share into one part. False: take the general way; copying twice does no harm.
    pub(crate) fn reply_data_short(&mut self, t: ThreadRef, caller: ThreadRef) -> bool {
        let (from, to) = (&self.threads[t], &self.threads[caller]);
        let (address, len, offset) = (from.registers.r14, from.registers.r15, from.registers.rbx);
        let room = to.parts >> 32;
        if from.registers.rax & flag::OUT_VECTOR != 0
            || to.registers.rax & flag::IN_VECTOR != 0
            || len > SHARE
            || offset > room
            || len > room - offset
        {
            return false;
        }
        let source = (self.root_of(t), address);
        let destination = (self.root_of(caller), to.registers.rbx.wrapping_add(offset));
        self.counters.bytes_copied += len;
        self.arch.copy(source, destination, len as usize).is_ok()
    }

    /// The data of a reply: r14/r15 of `t` to offset rbx of the caller's in part. Progress moves these registers on.
    pub(crate) fn reply_data(&mut self, t: ThreadRef, caller: ThreadRef) -> Answer {
        let registers = &self.threads[t].registers;
        let (address, len, offset) = (registers.r14, registers.r15, registers.rbx);
        if registers.rax & flag::OUT_VECTOR != 0 {
            return Err(Error::BadArgument.into());
        }
        let room = self.threads[caller].parts >> 32;
        if offset > room || len > room - offset {
            return Err(Error::BadArgument.into());
        }
        let share = len.min(SHARE);
        if share == 0 {
            return Ok(());
        }
        let (done, stop) = match self.copy_part(caller, t, false, offset, address, share) {
            Ok(()) => (share, None),
            Err(PartError::Changed) => return Err(Error::BadAddress.into()),
            Err(PartError::Fault(i)) => (i.done, Some((i.owner, i.fault))),
        };
        if stop.is_none() && done == len {
            return Ok(());
        }
        let registers = &mut self.threads[t].registers;
        registers.r14 = address.wrapping_add(done);
        registers.r15 = len - done;
        registers.rbx = offset + done;
        match stop {
            Some((owner, fault)) => Err(self.copy_fault(t, owner, fault)),
            None => Err(Stop::Restart),
        }
    }
}
