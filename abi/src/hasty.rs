//! Hasty handlers ([`crate::service::interrupt::INSTALL`]): the steps that the nucleus takes for a driver when its interrupt arrives.

/// Most steps of a handler, most rounds through them in one interrupt, and bytes of its ring.
pub const STEPS: usize = 32;
pub const ROUNDS: u64 = 16;
pub const RING: usize = 2048;

/// What INSTALL's w7 may lead to: more than ports and a ring in the nucleus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct More {
    /// A page of device memory as the driver sees it, or 0: steps marked [`REGISTERS`] reach it.
    pub registers: u64,
    /// A page of the driver's own memory, or 0: the ring lies there ([`shared`]) and not in the nucleus.
    pub ring: u64,
    /// The handler's place on the threads' scale: while a more important thread runs, it waits. Without `More` it is 255: nothing puts it off.
    pub priority: u64,
}

/// A step with this bit in its operation means bytes of the page of registers where it says ports. They must be aligned.
pub const REGISTERS: u8 = 0x80;

/// A ring in the driver's memory. Both numbers count modulo 2^32, little-endian; byte n lies at `BYTES + n % RING`.
pub mod shared {
    /// Bytes that were appended so far: the nucleus writes it, behind the bytes.
    pub const HEAD: u64 = 0;
    /// Bytes that were taken so far: the driver writes it, when it has read them. If there is no sense in it the ring counts as full.
    pub const TAIL: u64 = 64;
    pub const BYTES: u64 = 2048;
}

/// One step. Fields that an operation does not name are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Step {
    /// One of [`operation`], with [`REGISTERS`] or without.
    pub operation: u8,
    /// Bytes of an access: 1, 2 or 4.
    pub width: u8,
    pub count: u8,
    /// Index of a later step; one past the last is the end.
    pub to: u8,
    /// A port, or where in the page of registers.
    pub port: u16,
    /// A second one.
    pub status: u16,
    pub mask: u32,
    pub value: u32,
}

impl Step {
    pub const NONE: Step = Step {
        operation: 0,
        width: 0,
        count: 0,
        to: 0,
        port: 0,
        status: 0,
        mask: 0,
        value: 0,
    };

    /// A step with nothing but its operation.
    pub const fn plain(operation: u8) -> Step {
        Step {
            operation,
            ..Step::NONE
        }
    }
}

/// The closed set. Behind the last step the device counts as served, as by DONE.
pub mod operation {
    /// `last` = what `port` gives.
    pub const READ: u8 = 1;
    /// `value` to `port`.
    pub const WRITE: u8 = 2;
    /// `last & mask | value` to `port`.
    pub const KEEP: u8 = 3;
    /// If `last & mask == value`, go on at step `to`.
    pub const TEST: u8 = 4;
    /// The low byte of `last` goes into the ring. Without room in the ring this and the next two hand over.
    pub const APPEND: u8 = 5;
    /// `count` bytes from `port` go into the ring.
    pub const TAKE: u8 = 6;
    /// Bytes from `port` go into the ring while `status & mask` is not 0, at most `count`.
    pub const TAKE_WHILE: u8 = 7;
    /// Count; wake the driver when `value` is reached, and begin anew.
    pub const COUNT: u8 = 8;
    /// Wake the driver; `value` is bits of [`super::reason::OWN`].
    pub const WAKE: u8 = 9;
    /// The device is served.
    pub const DONE: u8 = 10;
    /// The driver must serve the device and acknowledge.
    pub const HAND_OVER: u8 = 11;
    /// From the first step again; after the last round this hands over.
    pub const AGAIN: u8 = 12;
}

/// Why a driver with a handler was woken (w2 of its INTERRUPT pulse; w3 is the value read last).
pub mod reason {
    /// A byte of the set arrived.
    pub const BYTE: u64 = 1;
    /// As many bytes wait as were asked for.
    pub const THRESHOLD: u64 = 2;
    /// Bytes wait and none came for the time that was asked for.
    pub const PAUSE: u64 = 4;
    /// A COUNT was reached.
    pub const COUNT: u64 = 8;
    /// The device is not served: the driver must do it, and acknowledge.
    pub const HANDED_OVER: u64 = 16;
    /// What WAKE may say.
    pub const OWN: u64 = 0xff00;
}
