//! Errors of the gate and of the nucleus services.

/// Why a portal traversal failed (bits 0..8 of `rax`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Error {
    /// The index names no portal, or a portal of the wrong kind for this argument.
    BadPortal = 1,
    /// The portal has no such operation.
    BadOperation = 2,
    /// The portal lacks the right for this operation.
    NoRight = 3,
    /// An argument is out of range or misaligned.
    BadArgument = 4,
    /// User memory of one of the two sides could not be read or written.
    BadAddress = 5,
    /// The thread was poked while it waited.
    Interrupted = 6,
    /// The deadline passed.
    TimedOut = 7,
    /// The other side is gone: its channel was destroyed or its domain died.
    Dead = 8,
    /// The object pool is empty: `vm` must give more.
    NoMemory = 9,
    /// The receiving portal table is full.
    NoSlot = 10,
    /// The token names no caller that waits at this channel.
    BadToken = 11,
    /// The object is in a state that forbids the operation.
    Busy = 12,
    /// The call would close a cycle of domains that wait for each other.
    Cycle = 13,
    /// A page-table page is missing: give the space frames first.
    NoTable = 14,
    /// A bounded operation did its share: call again with the returned words.
    Again = 15,
    /// The mutex is the caller's now; its owner before died and left what it guards as it was.
    OwnerDead = 16,
    /// What the portal was derived from took it back ([`crate::service::current::PORTAL_REVOKE`]).
    Revoked = 17,
}

impl Error {
    /// The error with this code, if there is one.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Error> {
        if code == 0 {
            return None;
        }
        Some(match code {
            1 => Error::BadPortal,
            2 => Error::BadOperation,
            3 => Error::NoRight,
            4 => Error::BadArgument,
            5 => Error::BadAddress,
            6 => Error::Interrupted,
            7 => Error::TimedOut,
            8 => Error::Dead,
            9 => Error::NoMemory,
            10 => Error::NoSlot,
            11 => Error::BadToken,
            12 => Error::Busy,
            13 => Error::Cycle,
            14 => Error::NoTable,
            15 => Error::Again,
            16 => Error::OwnerDead,
            17 => Error::Revoked,
            _ => return None,
        })
    }
}
