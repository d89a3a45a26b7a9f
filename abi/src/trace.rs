//! Records of the trace ([`crate::service::trace`]), and failures on request.

/// One entry of the nucleus, 40 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Monotonic nanoseconds when it began.
    pub time: u64,
    /// Nanoseconds that it took.
    pub length: u32,
    /// One of [`kind`], below 16.
    pub kind: u8,
    /// The core that made it, below 16.
    pub core: u8,
    /// SYSCALL: operation and kind of portal ([`crate::PortalKind`]).
    pub operation: u8,
    pub portal: u8,
    /// SYSCALL: error code with which the caller goes on (0 if it does not, or without error).
    pub error: u8,
    /// Thread and domain that ran before, 0: none.
    pub thread: u32,
    pub domain: u32,
    /// Thread and domain that run afterwards, 0: none.
    pub next_thread: u32,
    pub next_domain: u32,
    /// SYSCALL on a channel: low half the channel's id, high half the low half of the badge; on a receive right: the channel's id. PAGE_FAULT: address.
    /// EXCEPTION: vector. INTERRUPT: number of the source.
    pub detail: u64,
}

/// Bytes of a record.
pub const SIZE: usize = 40;

impl Record {
    pub fn from_bytes(bytes: &[u8; SIZE]) -> Record {
        let word = |at: usize| {
            bytes[at..at + 8]
                .iter()
                .rev()
                .fold(0u64, |sum, &byte| sum << 8 | byte as u64)
        };
        let (what, before, after) = (word(8), word(16), word(24));
        Record {
            time: word(0),
            length: what as u32,
            kind: (what >> 32) as u8 & 15,
            core: (what >> 36) as u8 & 15,
            operation: (what >> 40) as u8,
            portal: (what >> 48) as u8,
            error: (what >> 56) as u8,
            thread: before as u32,
            domain: (before >> 32) as u32,
            next_thread: after as u32,
            next_domain: (after >> 32) as u32,
            detail: word(32),
        }
    }

    pub fn to_words(self) -> [u64; SIZE / 8] {
        let what = (self.length as u64)
            | ((self.kind & 15) as u64) << 32
            | ((self.core & 15) as u64) << 36
            | (self.operation as u64) << 40
            | (self.portal as u64) << 48
            | (self.error as u64) << 56;
        [
            self.time,
            what,
            self.thread as u64 | (self.domain as u64) << 32,
            self.next_thread as u64 | (self.next_domain as u64) << 32,
            self.detail,
        ]
    }
}

/// What an entry was.
pub mod kind {
    pub const SYSCALL: u8 = 1;
    pub const PAGE_FAULT: u8 = 2;
    pub const EXCEPTION: u8 = 3;
    pub const INTERRUPT: u8 = 4;
    pub const TIMER: u8 = 5;
    /// Another core had something for this one, or a device of nobody's interrupted.
    pub const COME_IN: u8 = 6;
}

/// What [`crate::service::trace::INJECT`] does at the n-th entry that fits.
pub mod inject {
    pub const NOTHING: u64 = 0;
    /// The service is not done and ends with the error w2: NoMemory, NoTable or NoSlot, where it could.
    pub const FAIL: u64 = 1;
    /// The domain that makes the entry dies.
    pub const KILL: u64 = 2;
    /// The interrupt of source w2 is lost.
    pub const DROP: u64 = 3;
    /// w3, w4, w5: any domain, kind of portal, operation.
    pub const ANY: u64 = u32::MAX as u64;
}
