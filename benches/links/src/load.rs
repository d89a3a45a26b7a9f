//! What the reader asks of the sender, in words of a message, and where a frame says when it came.

/// Request: begin a load, whose words follow. Answer: 0.
pub const BEGIN: u64 = 1;
/// Request: count anew from here on. Answer: 0.
pub const MARK: u64 = 3;
/// Request: end the load. Answer: the words of [`Sent`].
pub const END: u64 = 2;

/// A load: `burst` hundredths of a frame on average each time, which is every `period` nanoseconds on average.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub burst: u64,
    pub period: u64,
    /// Bytes of a frame.
    pub length: u64,
    /// The sender does all that it does for a load, and gives its device nothing.
    pub dry: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Frames that were to be sent, and those that the device had room for.
    pub offered: u64,
    pub given: u64,
    /// How often the sender woke, and the nanoseconds that it ran.
    pub wakes: u64,
    pub ran: u64,
}

/// From the notification to the frame in the receiver's memory, in nanoseconds (QEMU's `x-txtimer` in benches/links.toml).
pub const DELAY: u64 = 5_000;

/// Where a frame has the time of its notification and its number, from its first byte on.
pub const STAMP: usize = 20;
pub const NUMBER: usize = 28;
