//! The conversation between `./cairn exec` on the development host and `guest-init` in the guest, over the second serial port.
//!
//! Both directions carry *frames*: one byte kind, two bytes payload length (little-endian), payload. The guest begins with [`MAGIC`]
//! (so that the host can skip whatever a boot loader may have printed) and a HELLO frame; from then on the line carries frames only.
//!
//! Flow control: a serial port has a small input buffer and nobody who says "wait". So the host may only send as many bytes (whole
//! frames, heads included) as the guest has granted: [`WINDOW`] with HELLO, more with every CREDIT frame. The guest may always send, because the
//! host always reads.
//!
//! One connection runs any number of commands, one after another:
//! ```text
//! host:  SPEC… RUN  STDIN… STDIN_END          TREE path        CLEAN path        POWER_OFF
//! guest:            OUT… ERR… EXIT | REFUSED            LISTING… LISTING_END   CLEANED
//! ```
#![forbid(unsafe_code)]

mod frame;
mod spec;

pub use frame::{encode, Decoder, Frame, Malformed, HEAD, PAYLOAD_MAX};
pub use spec::{Ended, Spec, SpecError};

/// Precedes the first frame of the guest.
pub const MAGIC: &[u8] = b"\x02cairn-hostlink-1\n";
/// Bytes that the host may send before the first CREDIT. Smaller than the input buffer of any terminal driver in question (Linux: 4,096).
pub const WINDOW: u32 = 1024;
/// Most payload that the host puts into one frame, so that a frame fits well into the window.
pub const HOST_PAYLOAD: usize = 256;
/// Most payload that the guest puts into one frame.
pub const GUEST_PAYLOAD: usize = 4096;

/// Kinds of frames that the guest sends.
pub mod guest {
    /// Payload: credit granted at first, u32; the processor's time stamp when the first process began, u64.
    pub const HELLO: u8 = 1;
    /// Payload: further bytes that the host may send, u32.
    pub const CREDIT: u8 = 2;
    /// Standard output of the command.
    pub const OUT: u8 = 3;
    /// Standard error of the command.
    pub const ERR: u8 = 4;
    /// The command ended: [`crate::Ended`], 2 bytes. All its output has been sent before.
    pub const EXIT: u8 = 5;
    /// The command could not be started: errno as u32, then a text.
    pub const REFUSED: u8 = 6;
    /// A piece of a tree listing.
    pub const LISTING: u8 = 7;
    /// End of a listing; payload: errno as u32 (0 = complete).
    pub const LISTING_END: u8 = 8;
    /// Answer to CLEAN; payload: errno as u32 (0 = gone).
    pub const CLEANED: u8 = 9;
    /// A program of the guest asked for the machine's end (`poweroff`), which comes now. Not while a command runs.
    pub const ENDING: u8 = 10;
}

/// Kinds of frames that the host sends.
pub mod host {
    /// A piece of an encoded [`crate::Spec`].
    pub const SPEC: u8 = 65;
    /// The spec is complete: start it.
    pub const RUN: u8 = 66;
    /// A piece of the command's standard input.
    pub const STDIN: u8 = 67;
    /// End of standard input.
    pub const STDIN_END: u8 = 68;
    /// Send a signal to the command's process group; payload: its number, one byte.
    pub const SIGNAL: u8 = 69;
    /// List a tree; payload: path.
    pub const TREE: u8 = 70;
    /// Kill every process that is left and remove a tree; payload: path (empty: remove nothing).
    pub const CLEAN: u8 = 71;
    /// Switch the machine off.
    pub const POWER_OFF: u8 = 72;
}
