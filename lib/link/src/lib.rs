//! A network link: frames between a reader (the network's server, or a program of its own) and a device, by a driver that passes control along and never sees a byte of them.
//!
//! The bytes lie in the reader's *arena*, pages of its own that are pinned for the device as long as the session lasts. Its first part is receive buffers, which travel from the reader to the device and come back filled; what is sent lies anywhere in it.
//! Between reader and driver are the rings of [`rings`], with [`client`] on one side and [`serve`] on the other; who sleeps is woken by a pulse, and nobody else. Each side treats the other's words as hostile.
//!
//! A component has a link by way of [`native`]; a driver's program is [`program`], around a [`Chip`]; when it looks at its device is [`pace`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub use cairn_device::Told;

pub mod client;
pub mod native;
pub mod pace;
pub mod program;
pub mod rings;
pub mod serve;

#[cfg(test)]
mod tests;

/// Bytes of a page of the arena.
pub const PAGE: usize = 4096;
/// Bytes of a receive buffer.
pub const BUFFER: usize = cairn_idl::link::BUFFER as usize;
/// Bytes in front of a frame in its first buffer, at most; see [`head`].
pub const HEAD: usize = 12;
/// Of a frame's bytes: where a sum is that the device computes, and where the headers end of what it cuts. (Devices have eight bits for them.)
pub const HEADERS: usize = 256;
/// Of Ethernet: addresses, a VLAN's tag, kind.
pub const ETHERNET: usize = 18;

/// What is known of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pub mac: [u8; 6],
    pub mtu: u32,
    pub up: bool,
    /// The device computes checksums of what is sent, and says which of what came are right.
    pub sums_out: bool,
    pub sums_in: bool,
    /// It cuts long TCP segments of IPv4 and IPv6 into frames.
    pub segments: [bool; 2],
    /// Bytes in front of a frame in its first buffer: none (then each frame is in one buffer), or [`HEAD`].
    pub head: u32,
    /// Most receive buffers that the device has at a time.
    pub buffers: u32,
}

/// What the device is to do with a frame before it leaves. All zeroes: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The sum of everything from byte `sum_start` of the frame on is to be put `sum_at` bytes behind that, where the sum of the pseudo-header is.
    pub sum: bool,
    pub sum_start: u16,
    pub sum_at: u16,
    /// It is a TCP segment to be cut into such with so many bytes of data each.
    pub cut: Cut,
    pub segment: u16,
    /// Bytes of the frame's headers, TCP's included.
    pub headers: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    #[default]
    No,
    Tcp4,
    Tcp6,
}

/// A buffer that the device has filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    pub buffer: u32,
    /// Bytes in it; 0: no frame, or one that was damaged on its way.
    pub length: u32,
    /// The device found that the sums of what is inside are right. (One that writes a [`head`] says it there.)
    pub right: bool,
}

impl Info {
    /// Whether a frame of so many bytes can leave, with this to be done to it.
    pub fn allows(&self, length: usize, offload: &Offload) -> bool {
        let sums = !offload.sum
            || self.sums_out
                && offload.sum_start as usize + offload.sum_at as usize + 2 <= length.min(HEADERS);
        let most = match offload.cut {
            Cut::No => self.mtu as usize + ETHERNET,
            Cut::Tcp4 | Cut::Tcp6 => 65_535 + ETHERNET,
        };
        let cut = match offload.cut {
            Cut::No => true,
            Cut::Tcp4 => self.segments[0],
            Cut::Tcp6 => self.segments[1],
        };
        let whole = offload.cut == Cut::No
            || offload.sum
                && offload.segment > 0
                && (offload.headers as usize) < length.min(HEADERS);
        (14..=most).contains(&length) && sums && cut && whole
    }
}

/// What stands in front of a frame that came (Virtual I/O Device 1.2, 5.1.6): whether its sums are right, and in how many buffers it is. The device wrote it, and is not believed.
pub mod head {
    use super::HEAD;

    /// The sum is not there yet, as in what never was on a wire; or it was found right.
    const SUM_MISSING: u8 = 1;
    const SUM_RIGHT: u8 = 2;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Head {
        /// The sums of what is inside need not be looked at.
        pub right: bool,
        /// The transport's sum is that of the pseudo-header alone: who passes the frame on has to make it.
        pub missing: bool,
        pub buffers: u16,
    }

    pub fn parse(bytes: &[u8; HEAD]) -> Head {
        let missing = bytes[0] & SUM_MISSING != 0;
        Head {
            right: missing || bytes[0] & SUM_RIGHT != 0,
            missing,
            buffers: u16::from_le_bytes([bytes[10], bytes[11]]),
        }
    }
}

/// A device, to its driver. Addresses are those by which the device reaches memory.
pub trait Chip {
    fn info(&self) -> Info;
    /// The device forgets what it was given, and begins anew with nothing. False: it does not come back.
    fn restart(&mut self) -> bool;
    /// How many more buffers, and how many it has.
    fn room(&self) -> usize;
    fn with_device(&self) -> usize;
    /// The device is to fill a buffer ([`BUFFER`] bytes). False: there is no room.
    fn lend(&mut self, buffer: u32, address: u64) -> bool;
    /// A buffer that it has filled.
    fn filled(&mut self) -> Option<Filled>;
    /// Whether any frame can be given to it now, however many pieces it has. False: when one has left.
    fn takes(&self) -> bool;
    /// The device is to send a frame that was checked. False: it has that number still, or the pieces are too many.
    fn send(&mut self, number: usize, offload: &Offload, pieces: &[(u64, u32)]) -> bool;
    /// One that it is done with.
    fn sent(&mut self) -> Option<usize>;
    fn on_the_way(&self) -> usize;
    /// Tell the device of what it was given.
    fn kick(&mut self);
    /// Before sleeping: interrupt when a buffer is filled, and when so many more are sent (0: not for that). True: it is so already.
    fn arm(&mut self, filled: bool, sent: u16) -> bool;
    /// No interrupts.
    fn disarm(&mut self);
    /// An interrupt has come, and is acknowledged after this: a device on a line is silent then, until it is armed again.
    fn hush(&mut self);
    /// How it tells.
    fn interrupts(&self) -> Told;
    /// It has given up, and has to be reset.
    fn is_broken(&mut self) -> bool;
    /// [`Chip::info`] says something else from now on.
    fn has_changed(&mut self) -> bool;
}
