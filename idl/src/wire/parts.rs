//! What a server may do with the parts of a request: bytes that a caller sends along ([`Out`]), room for bytes to it, which may be filled from several pieces ([`deliver_pieces`]), and whole pages of
//! either that are shown in place of being copied ([`View`], see docs/services/windows.md). Bounds are those of the definition and of what the caller has, whatever the caller says.

use super::{Caller, Errno, Part, Shown};
use crate::errno;
use cairn_abi::layout::PAGE;
use cairn_abi::service::window;
use cairn_abi::{Error, Token};
use core::sync::atomic::AtomicU64;

/// The bytes that a caller sends along, as far as the interface allows.
#[derive(Debug)]
pub struct Out<'c, C> {
    caller: &'c C,
    len: usize,
    shown: Shown,
}

impl<'c, C: Caller> Out<'c, C> {
    /// The part of a request that was admitted.
    #[inline]
    pub fn of(caller: &'c C, part: &Part) -> Out<'c, C> {
        Out {
            caller,
            len: caller.out_len().min(part.most),
            shown: part.shown,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copy from `offset` on, as much as there is and fits; how much. EFAULT if the caller's memory is not there.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<usize, Errno> {
        let rest = self.len.saturating_sub(offset).min(into.len());
        match into.get_mut(..rest) {
            None | Some([]) => Ok(0),
            Some(into) => self
                .caller
                .read(offset, into)
                .map(|count| count.min(rest))
                .map_err(|_| errno::EFAULT),
        }
    }

    /// All of it into a buffer, which is EMSGSIZE if it has too little room.
    pub fn all<'b>(&self, into: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let into = into.get_mut(..self.len).ok_or(errno::EMSGSIZE)?;
        match self.read(0, into)? {
            count if count == into.len() => Ok(into),
            _ => Err(errno::EFAULT),
        }
    }

    /// Copy from `offset` on into several pieces, one behind the other, with one entry of the nucleus; how much.
    pub fn read_pieces(&self, offset: usize, into: &mut [&mut [u8]]) -> Result<usize, Errno> {
        if self.len.saturating_sub(offset) < super::room(into) {
            // The caller may have more than counts here.
            return super::piecewise(into, |done, piece| self.read(offset + done, piece));
        }
        self.caller
            .read_pieces(offset, into)
            .map_err(|_| errno::EFAULT)
    }

    /// Whole pages of it, from `offset` on, in a window of the server's, until the reply; with `kept` until the caller unmaps or revokes them. EOPNOTSUPP where it cannot be
    /// (they do not begin at a page of the caller's; too many are shown; the definition does not say so): copying is always possible.
    pub fn show<'v>(
        &self,
        view: &'v impl View,
        offset: usize,
        pages: usize,
        kept: bool,
    ) -> Result<&'v [AtomicU64], Errno> {
        show(
            self.caller,
            view,
            (self.len, self.shown),
            offset,
            pages,
            if kept { window::KEEP } else { 0 },
        )
    }

    /// The same, and a page that the server writes becomes its own copy.
    pub fn show_copied<'v>(
        &self,
        view: &'v impl View,
        offset: usize,
        pages: usize,
    ) -> Result<&'v [AtomicU64], Errno> {
        show(
            self.caller,
            view,
            (self.len, self.shown),
            offset,
            pages,
            window::COPY,
        )
    }
}

/// Room at a caller that lets it be shown.
#[derive(Debug)]
pub struct Room<'c, C> {
    caller: &'c C,
    len: usize,
    shown: Shown,
}

impl<'c, C: Caller> Room<'c, C> {
    #[inline]
    pub fn of(caller: &'c C, part: &Part) -> Room<'c, C> {
        Room {
            caller,
            len: caller.in_len().min(part.most),
            shown: part.shown,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// As [`Out::show`]; what is stored there the caller has.
    pub fn show<'v>(
        &self,
        view: &'v impl View,
        offset: usize,
        pages: usize,
        kept: bool,
    ) -> Result<&'v [AtomicU64], Errno> {
        let flags = window::IN | if kept { window::KEEP } else { 0 };
        show(
            self.caller,
            view,
            (self.len, self.shown),
            offset,
            pages,
            flags,
        )
    }
}

/// Where a server sees pages of its callers: a window of its own, at its channel.
pub trait View {
    /// Flags of [`window`]. What is seen is the caller's and may change at any time.
    fn open(
        &self,
        token: Token,
        offset: u64,
        pages: u64,
        flags: u64,
    ) -> Result<&[AtomicU64], Error>;
}

fn show<'v, C: Caller>(
    caller: &C,
    view: &'v impl View,
    (len, shown): (usize, Shown),
    offset: usize,
    pages: usize,
    flags: u64,
) -> Result<&'v [AtomicU64], Errno> {
    let agreed = match shown {
        Shown::No => false,
        Shown::Call => flags & window::KEEP == 0,
        Shown::Kept => true,
    };
    let end = (pages as u64)
        .checked_mul(PAGE)
        .and_then(|bytes| bytes.checked_add(offset as u64));
    if !agreed || end.is_none_or(|end| end > len as u64) {
        return Err(errno::EOPNOTSUPP);
    }
    view.open(caller.token(), offset as u64, pages as u64, flags)
        .map_err(|_| errno::EOPNOTSUPP)
}

/// What a server has for room that may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled<'s> {
    Bytes(&'s [u8]),
    /// So many bytes are there already, by a window.
    Shown(usize),
}

impl<'s> Filled<'s> {
    /// No more than the caller has room for.
    pub fn within(self, room: usize) -> Filled<'s> {
        match self {
            Filled::Bytes(bytes) => Filled::Bytes(super::within(bytes, room)),
            Filled::Shown(length) => Filled::Shown(length.min(room)),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Filled::Bytes(bytes) => bytes.len(),
            Filled::Shown(length) => *length,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the reply carries.
    pub fn bytes(self) -> &'s [u8] {
        match self {
            Filled::Bytes(bytes) => bytes,
            Filled::Shown(_) => &[],
        }
    }
}

/// Pieces, one behind the other, into the caller's in part, at most `room` bytes; how many.
pub fn deliver_pieces<const N: usize>(
    caller: &impl Caller,
    mut pieces: [&[u8]; N],
    mut room: usize,
) -> Result<usize, Errno> {
    let mut length = 0;
    for piece in &mut pieces {
        *piece = super::within(piece, room);
        room -= piece.len();
        length += piece.len();
    }
    if length == 0 {
        return Ok(0);
    }
    match caller.write_pieces(0, &pieces) {
        Ok(count) if count == length => Ok(length),
        _ => Err(errno::EFAULT),
    }
}
