//! Hasty handlers ([`crate::service::interrupt::INSTALL`]): the steps that the nucleus takes for a driver when its interrupt arrives.

/// Most steps of a handler, most rounds through them in one interrupt, and bytes of its ring.
pub const STEPS: usize = 32;
pub const ROUNDS: u64 = 16;
pub const RING: usize = 2048;

/// One step. Fields that an operation does not name are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Step {
    /// One of [`operation`].
    pub operation: u8,
    /// Bytes of a port access: 1, 2 or 4.
    pub width: u8,
    pub count: u8,
    /// Index of a later step; one past the last is the end.
    pub to: u8,
    pub port: u16,
    /// A second port.
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
