//! A buffer on the stack for what servers answer: not cleared before use, since that would cost more than many a call. Servers tell how much they wrote; what they
//! claim beyond the buffer is cut. (A server that claims more than it wrote shows the process some of its own old stack, nothing else.)

use super::request::Request;
use super::user::{self, UserRange};
use crate::errno::Result;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

pub struct Buffer<const N: usize> {
    bytes: MaybeUninit<[u8; N]>,
    len: usize,
}

/// The same on the heap: the answer to a request that says in its first word how much of `length` bytes it has written.
pub fn receive_vec(length: usize, request: Request, slot: u32) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    // SAFETY: as in [`Buffer::receive`].
    let room = unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr(), length) };
    let words = request.input(room).call(slot)?;
    // SAFETY: within the capacity, and any bytes are bytes.
    unsafe { bytes.set_len(length.min(words[0] as usize)) };
    Ok(bytes)
}

impl<const N: usize> Default for Buffer<N> {
    fn default() -> Self {
        Buffer::new()
    }
}

impl<const N: usize> Buffer<N> {
    pub fn new() -> Buffer<N> {
        Buffer {
            bytes: MaybeUninit::uninit(),
            // Not a constant to the compiler, which would clear the whole structure then.
            len: core::hint::black_box(0),
        }
    }

    /// Keep these bytes (at most N).
    pub fn set(&mut self, bytes: &[u8]) {
        self.len = 0;
        self.append(bytes);
    }

    pub fn append(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(N - self.len);
        // SAFETY: `len + count` is at most N; the source cannot overlap a buffer that is borrowed mutably.
        unsafe {
            let target = self.bytes.as_mut_ptr().cast::<u8>().add(self.len);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), target, count);
        }
        self.len += count;
    }

    /// Make this buffer the request's in part.
    pub fn receive<'a>(&'a mut self, request: Request<'a>) -> Request<'a> {
        // SAFETY: the slice is written by the nucleus only; nobody reads it before `filled` says how much is there.
        request.input(unsafe { core::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), N) })
    }

    /// Make the first `len` bytes of this buffer (at most all) the request's in part.
    pub fn receive_first<'a>(&'a mut self, len: u64, request: Request<'a>) -> Request<'a> {
        let len = (len as usize).min(N);
        // SAFETY: as in `receive`.
        request
            .input(unsafe { core::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), len) })
    }

    /// Add memory of the program, as far as there is room: EFAULT, and nothing is added.
    pub fn gather(&mut self, range: UserRange) -> Result<()> {
        let count = (range.len() as usize).min(N - self.len);
        // SAFETY: `len + count` is at most N; the slice is written only, and counted when it has been.
        let place = unsafe {
            let first = self.bytes.as_mut_ptr().cast::<u8>().add(self.len);
            core::slice::from_raw_parts_mut(first, count)
        };
        user::read_bytes(range.base(), place)?;
        self.len += count;
        Ok(())
    }

    /// The server wrote `len` bytes.
    pub fn filled(&mut self, len: u64) {
        self.len = (len as usize).min(N);
    }

    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the first `len` bytes were written (by `append`, or by the server that said so).
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_and_cuts() {
        let mut b = Buffer::<8>::new();
        b.set(b"abc");
        b.append(b"defghijk");
        assert_eq!(b.as_bytes(), b"abcdefgh");
        b.set(b"x");
        assert_eq!(b.as_bytes(), b"x");
    }
}
