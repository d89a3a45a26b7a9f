//! A serial line driver, called by `tty`.

/// w7 portal to NOTIFY with [`INPUT`] / [`DRAINED`] bits → 0.
pub const ATTACH: u64 = 1;
/// In part: received bytes → w0 count (at most 4096), w1 bits: 1 = some were lost, 2 = a break was seen.
pub const READ: u64 = 2;
/// Out part: bytes to send → w0 how many were taken into the driver's ring, at most 4096 (0 if it is full: wait for DRAINED, which comes when half of it is free).
pub const WRITE: u64 = 3;
/// w1 baud rate, w2 data bits, w3 1 = two stop bits, w4 parity (0 none, 1 odd, 2 even) → 0.
pub const CONFIGURE: u64 = 4;
/// → 0 when everything has left the line (deferred).
pub const DRAIN: u64 = 5;
/// Throw away: w1 bit 0 received, bit 1 unsent.
pub const FLUSH: u64 = 6;
/// → w0 bytes that have not left yet: those in the driver's ring, and 1 if the chip is still sending.
pub const UNSENT: u64 = 7;

/// NOTIFY bits.
pub const INPUT: u64 = 1;
pub const DRAINED: u64 = 2;
