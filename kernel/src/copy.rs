//! Long messages: the parts of a blocked caller, copied once from space to space, at most [`SHARE`] bytes per entry.
//!
//! A copy that is not finished leaves its progress in the copying thread's registers and the thread before its `syscall`, like `rep movs`. Memory that is
//! not there is a fault for the pager of the space it belongs to; the copying thread waits for that as if it had called.

use crate::arch::{Arch, CopyFault};
use crate::pool::{ChannelRef, ThreadRef};
use crate::thread::Sending;
use crate::{plain, Answer, Kernel, Stop};
use cairn_abi::state::Registers;
use cairn_abi::{flag, Error, Part, MAX_VECTOR};
use core::slice::{from_mut, from_ref};

/// Most bytes that one entry copies, and most pieces of them that lie in one part on either side.
pub const SHARE: u64 = 8192;
const PIECES: usize = 16;
/// A copy lets interrupts in after about so many bytes, if there are more and its thread may be taken for interrupted.
pub const OPENING: u64 = 2048;
/// After so many pieces an interrupt that waits is let in, even if that has to be asked for.
const PIECES_AT_ONCE: usize = 2;
/// Most parts of vectors that one entry looks at.
const WALK: u64 = 20;
/// Parts that are read from their owner's memory at once.
const AHEAD: u64 = 8;
const PART_BYTES: usize = core::mem::size_of::<Part>();
/// The number of parts in a reply's r15.
const COUNT: u64 = 0xffff;

/// A place in a vector: a part, and how many bytes come before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub index: u32,
    pub before: u32,
}

/// A few parts of a vector, as they were in its owner's memory.
struct Ahead {
    bytes: [u8; AHEAD as usize * PART_BYTES],
    first: u64,
    len: u64,
}

impl Ahead {
    const NOTHING: Ahead = Ahead {
        bytes: [0; AHEAD as usize * PART_BYTES],
        first: 0,
        len: 0,
    };

    fn part(&self, index: u64) -> Option<Part> {
        let at = index.checked_sub(self.first).filter(|&at| at < self.len)?;
        let (parts, _) = self.bytes.as_chunks::<PART_BYTES>();
        let both = u128::from_le_bytes(*parts.get(at as usize)?);
        Some(Part {
            base: both as u64,
            len: (both >> 64) as u64,
        })
    }
}

/// One side of a copy: bytes of one thread's memory, in one part or in those of a vector.
struct Side {
    owner: ThreadRef,
    /// Address and number of the vector's parts; None: there is only the part below.
    vector: Option<(u64, u64)>,
    /// The part where it stands, its number, and how many of its bytes are done.
    part: Part,
    index: u64,
    offset: u64,
    ahead: Ahead,
}

impl Side {
    fn one(owner: ThreadRef, base: u64, len: u64) -> Side {
        Side {
            owner,
            vector: None,
            part: Part { base, len },
            index: 0,
            offset: 0,
            ahead: Ahead::NOTHING,
        }
    }

    /// A vector, to go on at byte `offset` of part `index`.
    fn parts(
        owner: ThreadRef,
        address: u64,
        count: u64,
        (index, offset): (u64, u64),
    ) -> Result<Side, Error> {
        if count > MAX_VECTOR as u64 {
            return Err(Error::BadArgument);
        }
        Ok(Side {
            owner,
            vector: Some((address, count)),
            part: Part::default(),
            index,
            offset,
            ahead: Ahead::NOTHING,
        })
    }
}

/// Why a copy ended where it did.
enum End {
    /// All bytes that were asked for are done.
    Done,
    /// The share is, the rest is for the next entry.
    Share,
    /// A side has no more bytes: the copying thread's (true), or the caller's.
    Short(bool),
    /// Memory of this thread was not there.
    Fault(ThreadRef, CopyFault),
}

/// Why a place in a caller's part was not found.
enum Lost {
    /// Not yet: the cursor has come nearer.
    Share,
    /// The parts no longer are what they were when the call was made.
    Changed,
    Fault(CopyFault),
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
        let read = self.arch.read_user(root, address, into);
        read.map_err(|fault| self.copy_fault(t, t, fault))
    }

    /// Write the calling thread's own memory; as above.
    pub(crate) fn write_own(
        &mut self,
        t: ThreadRef,
        address: u64,
        from: &[u8],
    ) -> Result<(), Stop> {
        let root = self.root_of(t);
        let written = self.arch.write_user(root, address, from);
        written.map_err(|fault| self.copy_fault(t, t, fault))
    }

    /// Write registers to `t`'s memory.
    #[inline(never)]
    pub(crate) fn write_own_registers(
        &mut self,
        t: ThreadRef,
        address: u64,
        registers: Registers,
    ) -> Result<(), Stop> {
        self.write_own(t, address, plain::bytes(from_ref(&registers)))
    }

    /// `target` gets the registers that lie there in `t`'s memory.
    #[inline(never)]
    pub(crate) fn read_own_registers(
        &mut self,
        t: ThreadRef,
        address: u64,
        target: ThreadRef,
    ) -> Result<(), Stop> {
        let mut registers = Registers::default();
        self.read_own(t, address, plain::bytes_mut(from_mut(&mut registers)))?;
        self.arch.sanitize(&mut registers);
        if self.dispatch.owner == Some(target) {
            // Nobody of its kind ran since it did.
            self.arch.load_bases(&registers);
        }
        let thread = &mut self.threads[target];
        thread.registers = registers;
        thread.full = true;
        thread.measuring = false;
        Ok(())
    }

    /// Where `t`'s out (or in) part is described: address, count, and whether that is a vector.
    pub(crate) fn described(&self, t: ThreadRef, out: bool) -> (u64, u64, bool) {
        let r = &self.threads[t].registers;
        if out {
            (r.r14, r.r15, r.rax & flag::OUT_VECTOR != 0)
        } else {
            (r.rbx, r.rbp, r.rax & flag::IN_VECTOR != 0)
        }
    }

    /// Address of a blocked caller's out (or in) part; 0 if it has none, or several.
    pub(crate) fn part_address(&self, caller: ThreadRef, out: bool) -> u64 {
        let (address, _, vector) = self.described(caller, out);
        if self.threads[caller].part_len(out) == 0 || vector {
            0
        } else {
            address
        }
    }

    /// Part `index` of a vector of `count` parts at `address` of the owner's memory.
    fn part_of(
        &mut self,
        owner: ThreadRef,
        (address, count): (u64, u64),
        index: u64,
        ahead: &mut Ahead,
    ) -> Result<Part, CopyFault> {
        if let Some(part) = ahead.part(index) {
            return Ok(part);
        }
        let len = AHEAD.min(count.saturating_sub(index));
        let root = self.root_of(owner);
        let at = address.wrapping_add(index * PART_BYTES as u64);
        let bytes = &mut ahead.bytes[..len as usize * PART_BYTES];
        self.arch.read_user(root, at, bytes)?;
        (ahead.first, ahead.len) = (index, len);
        Ok(ahead.part(index).unwrap_or_default())
    }

    /// Lengths of the calling thread's parts, as a receiver is told them.
    pub(crate) fn measure_parts(&mut self, t: ThreadRef) -> Result<u64, Stop> {
        let registers = &self.threads[t].registers;
        if registers.rax & (flag::OUT_VECTOR | flag::IN_VECTOR) == 0 {
            let most = u32::MAX as u64;
            return Ok(registers.r15.min(most) | registers.rbp.min(most) << 32);
        }
        let thread = &mut self.threads[t];
        if !core::mem::replace(&mut thread.measuring, true) {
            thread.cursors = [Cursor::default(); 2];
        }
        let measured = self.measure_vectors(t);
        if measured.is_ok() {
            // The cursors stand at the ends: it goes on from there.
            self.open(t);
        }
        if !matches!(measured, Err(Stop::Restart | Stop::Left)) {
            let thread = &mut self.threads[t];
            thread.measuring = false;
            thread.cursors = [Cursor::default(); 2];
        }
        measured
    }

    fn measure_vectors(&mut self, t: ThreadRef) -> Result<u64, Stop> {
        let mut walk = WALK;
        let mut lengths = [0; 2];
        for (direction, out) in [true, false].into_iter().enumerate() {
            let (address, count, vector) = self.described(t, out);
            if !vector {
                lengths[direction] = count.min(u32::MAX as u64);
                continue;
            }
            if count > MAX_VECTOR as u64 {
                return Err(Error::BadArgument.into());
            }
            let (mut ahead, mut cursor) = (Ahead::NOTHING, self.threads[t].cursors[direction]);
            let vector = (t, address, count);
            let walked = self.walk(vector, &mut ahead, &mut cursor, None, &mut walk);
            self.threads[t].cursors[direction] = cursor;
            walked.map_err(|lost| self.lost(t, t, lost))?;
            lengths[direction] = cursor.before as u64;
        }
        Ok(lengths[0] | lengths[1] << 32)
    }

    /// Go over an owner's vector (its address and number of parts) to the part with byte `offset`, or to its end, which is told by None. At most so many parts are looked at.
    fn walk(
        &mut self,
        (owner, address, count): (ThreadRef, u64, u64),
        ahead: &mut Ahead,
        cursor: &mut Cursor,
        offset: Option<u64>,
        walk: &mut u64,
    ) -> Result<Option<Part>, Lost> {
        while (cursor.index as u64) < count {
            if *walk == 0 {
                return Err(Lost::Share);
            }
            *walk -= 1;
            let part = self.part_of(owner, (address, count), cursor.index as u64, ahead);
            let part = part.map_err(Lost::Fault)?;
            let before = cursor.before as u64;
            if offset.is_some_and(|offset| offset - before < part.len) {
                return Ok(Some(part));
            }
            cursor.before = part.len.saturating_add(before).min(u32::MAX as u64) as u32;
            cursor.index += 1;
        }
        Ok(None)
    }

    /// The caller's side of a copy, at byte `offset` of its part, which has so many.
    fn seek(&mut self, caller: ThreadRef, out: bool, offset: u64) -> Result<Side, Lost> {
        let (address, count, vector) = self.described(caller, out);
        if !vector {
            // How long it is was noted when the call was made.
            let mut side = Side::one(caller, address, u64::MAX);
            side.offset = offset;
            return Ok(side);
        }
        let mut side = Side::parts(caller, address, count, (0, 0)).map_err(|_| Lost::Changed)?;
        let mut cursor = self.threads[caller].cursors[!out as usize];
        if cursor.before as u64 > offset {
            cursor = Cursor::default();
        }
        let vector = (caller, address, count);
        let walk = &mut { WALK };
        let found = self.walk(vector, &mut side.ahead, &mut cursor, Some(offset), walk);
        self.threads[caller].cursors[!out as usize] = cursor;
        side.part = found?.ok_or(Lost::Changed)?;
        side.index = cursor.index as u64;
        side.offset = offset - cursor.before as u64;
        Ok(side)
    }

    /// Copy up to `most` bytes between a caller's part, from byte `offset` on, and the calling thread's side: how many, and why not more.
    fn copy_part_of(
        &mut self,
        caller: ThreadRef,
        out: bool,
        offset: u64,
        ours: &mut Side,
        most: u64,
    ) -> Result<(u64, End), Stop> {
        let t = ours.owner;
        if most == 0 {
            return Ok((0, End::Done));
        }
        let (base, _, vector) = self.described(caller, out);
        if !vector && ours.vector.is_none() {
            let (base, share) = (base.wrapping_add(offset), most.min(SHARE));
            let (done, fault) = self.copy_piece(caller, t, out, base, ours.part.base, share);
            ours.offset = done;
            return Ok(match fault {
                Some((owner, fault)) => (done, End::Fault(owner, fault)),
                None if done == most => (done, End::Done),
                None => (done, End::Share),
            });
        }
        let theirs = self.seek(caller, out, offset);
        let mut theirs = theirs.map_err(|lost| self.lost(t, caller, lost))?;
        // The cursor stands there from now on.
        self.open(t);
        let (done, end) = self.copy_sides(&mut theirs, ours, out, most);
        if vector {
            // The next copy will most likely begin where this one ended.
            self.threads[caller].cursors[!out as usize] = Cursor {
                index: theirs.index as u32,
                before: (offset + done - theirs.offset) as u32,
            };
        }
        match end {
            End::Short(false) => Err(Error::BadAddress.into()),
            end => Ok((done, end)),
        }
    }

    /// How many bytes the side has from where it stands; passes over parts that are used up. 0: none at all. None: the share of parts is used up.
    fn bytes_ahead(&mut self, side: &mut Side, walk: &mut u64) -> Result<Option<u64>, CopyFault> {
        let Some((address, count)) = side.vector else {
            return Ok(Some(side.part.len.saturating_sub(side.offset)));
        };
        while side.index < count {
            if *walk == 0 {
                return Ok(None);
            }
            side.part = self.part_of(side.owner, (address, count), side.index, &mut side.ahead)?;
            if side.offset < side.part.len {
                return Ok(Some(side.part.len - side.offset));
            }
            *walk -= 1;
            side.index += 1;
            side.offset = 0;
        }
        Ok(Some(0))
    }

    /// Copy up to `most` bytes (of which a share is done at once) from where the two sides stand, and move them on; `out`: away from the caller.
    fn copy_sides(
        &mut self,
        theirs: &mut Side,
        ours: &mut Side,
        out: bool,
        most: u64,
    ) -> (u64, End) {
        let share = most.min(SHARE);
        let (mut done, mut walk) = (0, WALK);
        for number in 0..PIECES {
            if done == most {
                return (done, End::Done);
            }
            if done == share || number != 0 && self.lets_in(ours.owner, number) {
                break;
            }
            let mut piece = share - done;
            for (side, own) in [(&mut *ours, true), (&mut *theirs, false)] {
                match self.bytes_ahead(side, &mut walk) {
                    Ok(Some(0)) => return (done, End::Short(own)),
                    Ok(Some(bytes)) => piece = piece.min(bytes),
                    Ok(None) => return (done, End::Share),
                    Err(fault) => return (done, End::Fault(side.owner, fault)),
                }
            }
            let base = theirs.part.base.wrapping_add(theirs.offset);
            let address = ours.part.base.wrapping_add(ours.offset);
            let (moved, fault) =
                self.copy_piece(theirs.owner, ours.owner, out, base, address, piece);
            theirs.offset += moved;
            ours.offset += moved;
            done += moved;
            if let Some((owner, fault)) = fault {
                return (done, End::Fault(owner, fault));
            }
        }
        (done, if done == most { End::Done } else { End::Share })
    }

    /// Interrupts are let in before piece `number` of `t`'s copy, which then begins anew. True: the entry has to end for that.
    #[inline(always)]
    fn lets_in(&mut self, t: ThreadRef, number: usize) -> bool {
        if number.is_multiple_of(PIECES_AT_ONCE) {
            return self.let_in(t);
        }
        self.open(t);
        false
    }

    /// Copy one piece between `own`'s memory at `address` and the caller's at `base`: how many bytes were copied, and whose memory was not there.
    #[inline]
    fn copy_piece(
        &mut self,
        caller: ThreadRef,
        own: ThreadRef,
        out: bool,
        base: u64,
        address: u64,
        len: u64,
    ) -> (u64, Option<(ThreadRef, CopyFault)>) {
        let (theirs, ours) = (self.root_of(caller), self.root_of(own));
        let (source, destination) = if out {
            ((theirs, base), (ours, address))
        } else {
            ((ours, address), (theirs, base))
        };
        self.counters.bytes_copied += len;
        let open = self.open_for(own);
        match self.arch.copy(source, destination, len as usize, open) {
            Ok(()) => (len, None),
            Err((done, fault)) => {
                let owner = if fault.destination == out {
                    own
                } else {
                    caller
                };
                ((done as u64).min(len), Some((owner, fault)))
            }
        }
    }

    /// READ (out) and WRITE: w0 token, w1 offset, w2 own address, w3 length, w4 done so far; with a vector of one's own w2 its address, w3 the number of its
    /// parts, w5 and w6 where in it to go on: a part, and how many bytes of it are done.
    pub(crate) fn transfer(&mut self, t: ThreadRef, c: ChannelRef, out: bool) -> Answer {
        let registers = &self.threads[t].registers;
        let (rax, w) = (registers.rax, registers.words());
        let caller = self.caller(w[0], c)?;
        if self.threads[caller].sending != Sending::Message {
            return Err(Error::BadToken.into());
        }
        let room = self.threads[caller].part_len(out).saturating_sub(w[1]);
        let vector = if out {
            flag::IN_VECTOR
        } else {
            flag::OUT_VECTOR
        };
        let vector = rax & vector != 0;
        let (mut ours, most) = if vector {
            (Side::parts(t, w[2], w[3], (w[5], w[6]))?, room)
        } else {
            (Side::one(t, w[2], w[3]), w[3].min(room))
        };
        let (done, end) = self.copy_part_of(caller, out, w[1], &mut ours, most)?;
        let all = w[4].wrapping_add(done);
        if let End::Done | End::Short(_) = end {
            self.answer(t, 0, all);
            return Ok(());
        }
        self.answer(t, 1, w[1].wrapping_add(done));
        self.answer(t, 4, all);
        if vector {
            self.answer(t, 5, ours.index);
            self.answer(t, 6, ours.offset);
        } else {
            self.answer(t, 2, w[2].wrapping_add(done));
            self.answer(t, 3, most - done);
        }
        Err(self.go_on(t, end))
    }

    /// The copy that ended there goes on in another entry.
    fn go_on(&mut self, t: ThreadRef, end: End) -> Stop {
        match end {
            End::Fault(owner, fault) => self.copy_fault(t, owner, fault),
            _ => Stop::Restart,
        }
    }

    fn lost(&mut self, t: ThreadRef, caller: ThreadRef, lost: Lost) -> Stop {
        match lost {
            Lost::Share => Stop::Restart,
            Lost::Changed => Error::BadAddress.into(),
            Lost::Fault(fault) => self.copy_fault(t, caller, fault),
        }
    }

    /// [`Kernel::reply_data`] for one share into one part. False: take the general way, which goes on behind what was copied before memory was not there.
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
        if self.arch.copy_near(source, destination, len as usize) {
            return true;
        }
        // (Not all that a thread needs which begins anew is stored on this way.)
        let copied = self.arch.copy(source, destination, len as usize, false);
        let Err((done, _)) = copied else {
            return true;
        };
        let done = (done as u64).min(len);
        let registers = &mut self.threads[t].registers;
        registers.r14 = address.wrapping_add(done);
        registers.r15 = len - done;
        registers.rbx = offset + done;
        false
    }

    /// The data of a reply: r14/r15 of `t` to offset rbx of the caller's in part. Progress moves these registers on; in a vector r15 tells in bits 16.. how many
    /// bytes of the first part are done.
    pub(crate) fn reply_data(&mut self, t: ThreadRef, caller: ThreadRef) -> Answer {
        let registers = &self.threads[t].registers;
        let (address, len, offset) = (registers.r14, registers.r15, registers.rbx);
        let own_vector = registers.rax & flag::OUT_VECTOR != 0;
        let room = self.threads[caller].parts >> 32;
        if offset > room || !own_vector && len > room - offset {
            return Err(Error::BadArgument.into());
        }
        let room = room - offset;
        let mut ours = if own_vector {
            Side::parts(t, address, len & COUNT, (0, len >> COUNT.count_ones()))?
        } else {
            Side::one(t, address, len)
        };
        let most = if own_vector { room } else { len };
        let (done, mut end) = self.copy_part_of(caller, false, offset, &mut ours, most)?;
        if let End::Done = end {
            // No room is left: neither may there be more data.
            end = match self.bytes_ahead(&mut ours, &mut { WALK }) {
                Ok(Some(0)) => return Ok(()),
                Ok(Some(_)) => return Err(Error::BadArgument.into()),
                Ok(None) => End::Share,
                Err(fault) => End::Fault(t, fault),
            };
        }
        if let End::Short(_) = end {
            return Ok(());
        }
        let registers = &mut self.threads[t].registers;
        registers.rbx = offset + done;
        if own_vector {
            registers.r14 = address.wrapping_add(ours.index * PART_BYTES as u64);
            registers.r15 = ((len & COUNT) - ours.index) | (ours.offset << COUNT.count_ones());
        } else {
            registers.r14 = address.wrapping_add(done);
            registers.r15 = len - done;
        }
        Err(self.go_on(t, end))
    }
}
