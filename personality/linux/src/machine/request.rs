//! A call to a server: words, parts, portals. Parts are either borrowed memory of the personality or a [`UserRange`] of the program, which the nucleus checks when it copies.

use super::gate::{self, errno_of, selector, Gate};
use super::user::{self, bytes_of_mut, Plain, UserRange};
use crate::errno::{check, Errno, Result, EFAULT, EINTR, EINVAL, EIO, ENOMEM, ETIMEDOUT, RESTART};
use crate::signal::deliver;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_abi::service::log;
use cairn_abi::{flag, op, received, Error, Part, MAX_PORTALS, MAX_VECTOR};
use cairn_gate::traverse_words;
use cairn_idl::fs;
use core::marker::PhantomData;

/// A request in the making. Nothing is sent before [`Request::call`] or [`Request::wait`].
pub struct Request<'a> {
    gate: Gate,
    flags: u64,
    /// `rax` of an answer as it is wanted: no error, and so many portals.
    wanted: u64,
    memory: PhantomData<&'a mut [u8]>,
}

/// Put a path into the words of an operation, if it is short and the operation takes it so.
#[inline(always)]
pub fn put_path(request: &mut [u64; 8], path: &[u8]) -> bool {
    let operation = request[0];
    if path.is_empty()
        || path.len() > fs::INLINE_MAX
        || operation >= 64
        || fs::SHORT_PATHS >> operation & 1 == 0
    {
        return false;
    }
    request[2] |= fs::INLINE | (path.len() as u64) << fs::INLINE_SHIFT;
    let (whole, rest) = path.as_chunks();
    let [_, _, _, words @ ..] = request;
    for (at, word) in words.iter_mut().enumerate() {
        *word = whole.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    }
    if let (Some(word), false) = (words.get_mut(whole.len()), rest.is_empty()) {
        *word = match path.last_chunk() {
            Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
            None => rest
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | byte as u64),
        };
    }
    true
}

/// A call of words alone, whatever signals come; `None` if anything but words without a portal came back: the ordinary way will say what.
#[inline(always)]
pub fn exchange(slot: u32, words: [u64; 8]) -> Option<[u64; 8]> {
    match exchange_perhaps(slot, words) {
        Ok((answer, false)) => Some(answer),
        Ok((answer, true)) => {
            gate::close(answer[7] as u32);
            None
        }
        Err(_) => None,
    }
}

/// The same where a portal may come, in w7, and whether one came. Otherwise what marks the request when it is made in the ordinary way ([`fs::AGAIN`] if the server died with it).
#[inline(always)]
pub fn exchange_perhaps(slot: u32, words: [u64; 8]) -> core::result::Result<([u64; 8], bool), u64> {
    const ONE: u64 = 1 << received::PORTALS_SHIFT;
    // SAFETY: a call to a channel without parts touches no memory of the caller.
    let (rax, answer) = unsafe { traverse_words(selector(slot, op::CALL, 0), words) };
    match rax {
        0 => Ok((answer, false)),
        ONE => Ok((answer, true)),
        _ => {
            // Portals that nobody asked for are closed.
            let mut answer = answer;
            let _ = unwanted(rax, &mut answer);
            Err(if rax as u8 == Error::Dead as u8 {
                again_mark(answer[0])
            } else {
                0
            })
        }
    }
}

/// What marks a request that a server died with, which had received it with this token.
#[inline(always)]
pub fn again_mark(token: u64) -> u64 {
    fs::AGAIN | token >> 32 << fs::AGAIN_SHIFT
}

/// [`Request::brings_any`]; the nucleus never says that.
const ANY: u64 = u64::MAX;
/// Pieces that lie on the stack. More than so many are rare: those get memory of their own.
const PIECES: usize = 64;

/// How often a request is made again because memory was missing.
const TRIES: u32 = 8;
/// How often it is made again because its server died: one that dies of the request itself must not take for ever.
const LIVES: u32 = 3;
/// Results above this are −errno.
const LAST_VALUE: u64 = -4096i64 as u64;

fn part_of(range: UserRange) -> Part {
    Part {
        base: range.base(),
        len: range.len(),
    }
}

/// Pieces of a scattered part, at most [`MAX_VECTOR`].
pub struct Vector {
    few: [Part; PIECES],
    /// All of them, as soon as they are more than `few` holds.
    many: Vec<Part>,
    count: usize,
}

impl Default for Vector {
    fn default() -> Self {
        Vector::new()
    }
}

impl Vector {
    pub fn new() -> Vector {
        Vector {
            few: [Part::default(); PIECES],
            many: Vec::new(),
            count: 0,
        }
    }

    /// One piece.
    pub fn of(range: UserRange) -> Vector {
        let mut vector = Vector::new();
        vector.few[0] = part_of(range);
        vector.count = usize::from(!range.is_empty());
        vector
    }

    /// Add memory of the program.
    pub fn push(&mut self, range: UserRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        if self.count == MAX_VECTOR {
            return Err(EINVAL);
        }
        self.put(part_of(range))
    }

    #[inline]
    fn put(&mut self, part: Part) -> Result<()> {
        if self.count < PIECES {
            self.few[self.count] = part;
        } else {
            self.put_many(part)?;
        }
        self.count += 1;
        Ok(())
    }

    #[cold]
    fn put_many(&mut self, part: Part) -> Result<()> {
        if self.many.is_empty() {
            self.many.try_reserve(2 * PIECES).map_err(|_| ENOMEM)?;
            self.many.extend_from_slice(&self.few);
        }
        self.many.try_reserve(1).map_err(|_| ENOMEM)?;
        self.many.push(part);
        Ok(())
    }

    /// A piece before the others. (If they are as many as there can be the last one is left out.)
    fn put_first(&mut self, part: Part) -> Result<()> {
        match self.count {
            MAX_VECTOR => {}
            _ => self.put(part)?,
        }
        let parts = match self.many.is_empty() {
            true => &mut self.few[..self.count],
            false => &mut self.many[..],
        };
        parts.rotate_right(1);
        parts[0] = part;
        Ok(())
    }

    fn parts(&self) -> &[Part] {
        match self.many.is_empty() {
            true => &self.few[..self.count],
            false => &self.many,
        }
    }

    /// The pieces, none of them empty.
    pub fn pieces(&self) -> impl Iterator<Item = UserRange> + '_ {
        self.parts().iter().map(UserRange::of_part)
    }

    /// The only piece (an empty one if there is none); `None` if there are several.
    pub fn single(&self) -> Option<UserRange> {
        match self.count {
            0 => Some(UserRange::EMPTY),
            1 => self.pieces().next(),
            _ => None,
        }
    }

    pub fn total(&self) -> u64 {
        self.parts().iter().map(|p| p.len).sum()
    }
}

impl<'a> Request<'a> {
    #[inline(always)]
    pub fn new(words: &[u64]) -> Request<'a> {
        let mut gate = Gate::default();
        gate.words[..words.len()].copy_from_slice(words);
        Request {
            gate,
            flags: 0,
            wanted: 0,
            memory: PhantomData,
        }
    }

    /// What the server may read.
    pub fn out(mut self, bytes: &'a [u8]) -> Self {
        self.flags |= flag::PARTS;
        self.gate.r14 = bytes.as_ptr() as u64;
        self.gate.r15 = bytes.len() as u64;
        self
    }

    /// A path: in words if it is short and the operation takes it so ([`fs::SHORT_PATHS`]), which saves the server fetching it.
    #[inline(always)]
    pub fn path(mut self, path: &'a [u8]) -> Self {
        match put_path(&mut self.gate.words, path) {
            true => self,
            false => self.out(path),
        }
    }

    pub fn out_user(mut self, range: UserRange) -> Self {
        self.flags |= flag::PARTS;
        self.gate.r14 = range.base();
        self.gate.r15 = range.len();
        self
    }

    pub fn out_vector(mut self, vector: &'a Vector) -> Self {
        self.flags |= flag::PARTS | flag::OUT_VECTOR;
        self.gate.r14 = vector.parts().as_ptr() as u64;
        self.gate.r15 = vector.count as u64;
        self
    }

    /// Where the server may write.
    pub fn input(mut self, bytes: &'a mut [u8]) -> Self {
        self.flags |= flag::PARTS;
        self.gate.rbx = bytes.as_mut_ptr() as u64;
        self.gate.rbp = bytes.len() as u64;
        self
    }

    /// What the server may read, and write as well.
    pub fn exchange(mut self, bytes: &'a mut [u8]) -> Self {
        self.flags |= flag::PARTS;
        self.gate.rbx = bytes.as_mut_ptr() as u64;
        self.gate.rbp = bytes.len() as u64;
        self.gate.r14 = self.gate.rbx;
        self.gate.r15 = self.gate.rbp;
        self
    }

    pub fn input_value<T: Plain>(self, value: &'a mut T) -> Self {
        self.input(bytes_of_mut(value))
    }

    pub fn input_user(mut self, range: UserRange) -> Self {
        self.flags |= flag::PARTS;
        self.gate.rbx = range.base();
        self.gate.rbp = range.len();
        self
    }

    pub fn input_vector(mut self, vector: &'a Vector) -> Self {
        self.flags |= flag::PARTS | flag::IN_VECTOR;
        self.gate.rbx = vector.parts().as_ptr() as u64;
        self.gate.rbp = vector.count as u64;
        self
    }

    /// The same with a buffer before the pieces.
    pub fn input_behind(self, head: &'a mut [u8], vector: &'a mut Vector) -> Result<Self> {
        vector.put_first(Part {
            base: head.as_mut_ptr() as u64,
            len: head.len() as u64,
        })?;
        Ok(self.input_vector(vector))
    }

    /// Pass a portal of this table (in w7).
    pub fn pass(mut self, slot: u32) -> Self {
        self.gate.words[7] = slot as u64;
        self.flags |= flag::portals(1);
        self
    }

    /// Pass these portals of this table (at most [`MAX_PORTALS`]), in the last words.
    pub fn pass_all(mut self, slots: &[u32]) -> Self {
        let first = 8 - slots.len().min(MAX_PORTALS);
        for (word, slot) in self.gate.words[first..].iter_mut().zip(slots) {
            *word = u64::from(*slot);
        }
        self.flags |= flag::portals((8 - first) as u64);
        self
    }

    /// However many portals come with the answer are wanted. How many these are, by the nucleus's count, is in the top byte of w1 then.
    pub fn brings_any(mut self) -> Self {
        self.wanted = ANY;
        self
    }

    /// So many portals come with the answer, in the last words; with an error as many or none, and then w7 is 0. Another number of them is EIO, also if it is none: a server cannot pass a slot of this table off as a portal that it gave.
    #[inline(always)]
    pub fn brings(mut self, portals: u64) -> Self {
        self.wanted = portals << received::PORTALS_SHIFT;
        self
    }

    /// Did what was wanted come?
    #[inline(always)]
    fn came(&self, rax: u64, words: &mut [u64; 8]) -> Result<()> {
        match rax == self.wanted {
            true => Ok(()),
            false if self.wanted == ANY => counted(rax, words),
            false => unwanted(rax, words),
        }
    }

    /// Send and wait, whatever signals come. All answer words, or the error in w0.
    #[inline(always)]
    pub fn call(self, slot: u32) -> Result<[u64; 8]> {
        if self.flags & flag::PARTS != 0 {
            return self.call_with_parts(slot);
        }
        // SAFETY: a call to a channel without parts touches no memory of the caller.
        let (rax, mut words) =
            unsafe { traverse_words(selector(slot, op::CALL, self.flags), self.gate.words) };
        match self.came(rax, &mut words) {
            Err(_) if rax as u8 == Error::Dead as u8 => return self.call_again(slot, words[0]),
            came => came?,
        }
        check(words[0])?;
        Ok(words)
    }

    #[cold]
    #[inline(never)]
    fn call_again(mut self, slot: u32, token: u64) -> Result<[u64; 8]> {
        match self.again(slot, &mut 1, token) {
            true => self.call_with_parts(slot),
            false => Err(EIO),
        }
    }

    #[inline(never)]
    fn call_with_parts(self, slot: u32) -> Result<[u64; 8]> {
        let (result, words) = self.call_words(slot);
        result.map(|()| words)
    }

    /// The server died with the request, which had this token (those that it had not received yet wait for its successor): true if it is worth being made
    /// again, marked as such.
    #[cold]
    #[inline(never)]
    fn again(&mut self, slot: u32, lives: &mut u32, token: u64) -> bool {
        // Without `vm` or `proc` there is no machine.
        if slot < linux_slot::MOUNTS || *lives == 0 {
            return false;
        }
        *lives -= 1;
        // The number that counts is that of the first time.
        if self.gate.words[0] & fs::AGAIN == 0 {
            self.gate.words[0] |= again_mark(token);
        }
        true
    }

    /// The same; with −errno in w0 the other words are still wanted (redirects).
    pub fn call_words(mut self, slot: u32) -> (Result<()>, [u64; 8]) {
        let (mut tries, mut lives) = (TRIES, LIVES);
        loop {
            let mut gate = self.gate;
            gate.rax = selector(slot, op::CALL, self.flags);
            // SAFETY: the parts are borrowed by the request, or the program's own memory.
            let result = unsafe { gate.traverse() };
            if result == Err(Error::Dead) && self.again(slot, &mut lives, gate.words[0]) {
                continue;
            }
            let result = result.map_err(errno_of);
            let result = result.and_then(|()| self.came(gate.rax, &mut gate.words));
            let result = result.and_then(|()| check(gate.words[0]).map(|_| ()));
            if result != Err(EFAULT) || !self.touched(&mut tries) {
                return (result, gate.words);
            }
        }
    }

    /// A server says that memory is bad, but it may only be missing: a page of a mapped file that the server could not wait for, because it was itself, or would have waited for itself.
    /// The program waits for it here. True: all of it is there now, and the request is worth another try.
    #[cold]
    #[inline(never)]
    fn touched(&self, tries: &mut u32) -> bool {
        if self.flags & flag::PARTS == 0 || *tries == 0 {
            return false;
        }
        *tries -= 1;
        let gate = &self.gate;
        let mut any = false;
        for (base, len, vector, write) in [
            (gate.r14, gate.r15, flag::OUT_VECTOR, false),
            (gate.rbx, gate.rbp, flag::IN_VECTOR, true),
        ] {
            let one = [Part { base, len }];
            let parts = match self.flags & vector {
                0 => &one,
                // SAFETY: a vector is borrowed by the request, with so many parts.
                _ => unsafe { core::slice::from_raw_parts(base as *const Part, len as usize) },
            };
            // What is not the program's is there.
            let own = |part: &Part| user::range(part.base, part.len).ok();
            for range in parts.iter().filter_map(own).filter(|r| !r.is_empty()) {
                if !user::touch(range, write) {
                    return false;
                }
                any = true;
            }
        }
        any
    }

    /// Send and wait; a signal that has something to do ends it with [`RESTART`].
    #[inline(never)]
    pub fn wait(self, slot: u32) -> Result<[u64; 8]> {
        self.wait_here(slot)
    }

    /// The same, for the calls that are made all the time.
    #[inline(always)]
    pub fn wait_here(self, slot: u32) -> Result<[u64; 8]> {
        let words = self.wait_words(slot, None)?;
        check(words[0])?;
        Ok(words)
    }

    /// The same until a deadline (absolute monotonic ns): ETIMEDOUT.
    #[inline(never)]
    pub fn wait_until(self, slot: u32, deadline: Option<u64>) -> Result<[u64; 8]> {
        self.wait_words(slot, deadline).and_then(|words| {
            check(words[0])?;
            Ok(words)
        })
    }

    /// The same; with −errno in w0 the other words are still wanted.
    #[inline(always)]
    pub fn wait_words(mut self, slot: u32, deadline: Option<u64>) -> Result<[u64; 8]> {
        let (mut tries, mut lives) = (TRIES, LIVES);
        loop {
            let mut gate = self.gate;
            gate.rax = selector(slot, op::CALL, self.flags | flag::INTERRUPTIBLE);
            if let Some(at) = deadline {
                gate::deadline(at);
            }
            // SAFETY: as in `call`.
            let result = unsafe { gate::traverse_interruptible(&mut gate) };
            let ended = match result {
                Err(Error::Interrupted) => true,
                Err(Error::TimedOut) => return Err(ETIMEDOUT),
                Err(Error::BadAddress) if self.touched(&mut tries) => continue,
                Err(Error::Dead) if self.again(slot, &mut lives, gate.words[0]) => continue,
                Err(error) => return Err(errno_of(error)),
                Ok(()) => {
                    self.came(gate.rax, &mut gate.words)?;
                    match gate.words[0] {
                        ..=LAST_VALUE => false,
                        word if word == EFAULT.value() && self.touched(&mut tries) => continue,
                        word => interrupted(word as i64),
                    }
                }
            };
            if !ended {
                return Ok(gate.words);
            }
            if deliver::pending() {
                return match result {
                    Err(_) if deliver::only_handlers() => self.prompt(slot),
                    _ => Err(RESTART),
                };
            }
        }
    }

    /// A signal came before the server had the request. As on Linux, what can be done without waiting is done before the handler runs: only a wait is interrupted.
    #[cold]
    #[inline(never)]
    fn prompt(mut self, slot: u32) -> Result<[u64; 8]> {
        let mut gate = self.gate;
        gate.rax = selector(slot, op::CALL, self.flags | flag::PROMPT);
        // SAFETY: as in `call`.
        let result = unsafe { gate.traverse() };
        if result == Err(Error::Dead) && self.again(slot, &mut 1, gate.words[0]) {
            // The successor is waited for before the handler runs: made anew after it, the request would have lost its mark.
            return self.call_with_parts(slot);
        }
        result.map_err(errno_of)?;
        self.came(gate.rax, &mut gate.words)?;
        match gate.words[0] as i64 {
            word if interrupted(word) => Err(RESTART),
            _ => Ok(gate.words),
        }
    }
}

/// How many portals came, for a request that takes any number of them.
#[cold]
fn counted(rax: u64, words: &mut [u64; 8]) -> Result<()> {
    const COUNT: u32 = 56;
    if let Some(error) = Error::from_code(rax as u8) {
        return Err(errno_of(error));
    }
    words[1] = words[1] << (64 - COUNT) >> (64 - COUNT) | (received::portals(rax) as u64) << COUNT;
    Ok(())
}

/// An error of the gate's, an error of the server's without portals (which is as it should be), or portals that nobody asked for: these are closed.
#[cold]
#[inline(never)]
fn unwanted(rax: u64, words: &mut [u64; 8]) -> Result<()> {
    if let Some(error) = Error::from_code(rax as u8) {
        return Err(errno_of(error));
    }
    let arrived = received::portals(rax).min(MAX_PORTALS);
    words[8 - arrived..]
        .iter()
        .for_each(|slot| gate::close(*slot as u32));
    // No slot is passed off as one that came with an error.
    words[7] = 0;
    match (words[0] as i64) < 0 {
        true => Ok(()),
        false => Err(EIO),
    }
}

/// Is this a server's answer to a caller that it was asked to let go?
fn interrupted(word: i64) -> bool {
    word == -(EINTR.0 as i64) || word == -(RESTART.0 as i64)
}

/// Make an interrupted call's error the kind that a handler always turns into EINTR.
pub fn without_handler(error: Errno) -> Errno {
    if error == RESTART {
        crate::errno::RESTART_NO_HANDLER
    } else {
        error
    }
}

/// A piece of the nucleus log from `offset` on: bytes and the next offset.
pub fn read_log(offset: u64, into: &mut [u8]) -> Result<(usize, u64)> {
    let mut gate = Gate {
        rax: selector(linux_slot::LOG, log::READ, 0),
        ..Gate::default()
    };
    gate.words[..3].copy_from_slice(&[into.as_mut_ptr() as u64, into.len() as u64, offset]);
    // SAFETY: the nucleus writes to the borrowed buffer during the traversal only.
    unsafe { gate.traverse() }.map_err(errno_of)?;
    Ok(((gate.words[0] as usize).min(into.len()), gate.words[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_paths_go_in_words() {
        let text = b"/a/path/that/is/a/little/longer/than/what/fits";
        for length in 0..text.len() {
            let request = Request::new(&[fs::OPEN, 7, 0o644]).path(&text[..length]);
            let words = request.gate.words;
            if length == 0 || length > fs::INLINE_MAX {
                assert_eq!((request.gate.r15, words[2]), (length as u64, 0o644));
                continue;
            }
            let bytes: Vec<u8> = words[3..].iter().flat_map(|w| w.to_le_bytes()).collect();
            assert_eq!(bytes[..length], text[..length]);
            assert!(bytes[length..].iter().all(|&byte| byte == 0));
            let flags = fs::INLINE | (length as u64) << fs::INLINE_SHIFT;
            assert_eq!((words[1], words[2]), (7, 0o644 | flags));
            assert_eq!((request.flags, request.gate.r15), (0, 0));
        }
        let request = Request::new(&[fs::TRUNCATE, 7]).path(b"x");
        assert_eq!((request.gate.r15, request.gate.words[2]), (1, 0));
    }

    #[test]
    fn a_vector_has_as_many_pieces_as_a_message_takes() {
        let piece =
            |at: usize| user::range(0x10_0000 + 64 * at as u64, 1 + at as u64 % 60).unwrap();
        let mut vector = Vector::new();
        for at in 0..MAX_VECTOR {
            assert_eq!(vector.push(UserRange::EMPTY), Ok(()));
            assert_eq!(vector.push(piece(at)), Ok(()));
            assert_eq!((vector.parts().len(), vector.count), (at + 1, at + 1));
            assert_eq!(vector.pieces().last(), Some(piece(at)));
        }
        assert!(vector.pieces().eq((0..MAX_VECTOR).map(piece)));
        assert_eq!(vector.push(UserRange::EMPTY), Ok(()));
        assert_eq!(vector.push(piece(0)), Err(EINVAL));
    }

    #[test]
    fn room_before_the_pieces_goes_first() {
        let piece = |at: usize| user::range(0x10_0000 + 64 * at as u64, 8).unwrap();
        for count in [
            0,
            1,
            PIECES - 1,
            PIECES,
            PIECES + 1,
            MAX_VECTOR - 1,
            MAX_VECTOR,
        ] {
            let (mut vector, mut head) = (Vector::new(), [0; 5]);
            (0..count).for_each(|at| vector.push(piece(at)).unwrap());
            let request = Request::new(&[0])
                .input_behind(&mut head, &mut vector)
                .unwrap();
            assert_eq!(request.gate.rbp as usize, (count + 1).min(MAX_VECTOR));
            assert_eq!(vector.parts()[0].len, 5);
            assert!(vector
                .pieces()
                .skip(1)
                .eq((0..count).map(piece).take(MAX_VECTOR - 1)));
        }
    }
}
