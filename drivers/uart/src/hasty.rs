//! The part of the driver that the nucleus executes at the interrupt ([`cairn_abi::hasty`]): received bytes go into a ring, and the driver is woken when a
//! line ends, when many wait, or when the line pauses, which a person's keystroke does after four characters' time. Everything else (sending, breaks,
//! errors) is handed over.

use crate::registers::{identity, status, DATA, INTERRUPT_IDENTITY, LINE_STATUS};
use cairn_abi::hasty::{operation, reason, Step};

/// Bytes that are there at the least when the chip says that it received: its trigger level.
const TRIGGER: u8 = 8;
pub const ROUNDS: u64 = 5;
/// So many bytes wake the driver in any case: a quarter of the ring, so that it has time.
pub const THRESHOLD: u64 = 512;
/// If the chip's own time-out finds nothing because all its bytes were taken.
pub const PAUSE_NS: u64 = 1_000_000;
/// What WAKE says when the chip's time-out came.
const CHIP_PAUSED: u32 = 0x100;
const _: () = assert!(CHIP_PAUSED as u64 & !reason::OWN == 0);

/// Ends of lines, and what a terminal acts upon at once: interrupt, quit, suspend, end of file, stop and start.
const BYTES: [u8; 8] = [b'\n', b'\r', 0x03, 0x04, 0x11, 0x13, 0x1a, 0x1c];

/// A bit for each of them.
pub fn significant() -> [u64; 4] {
    let mut set = [0; 4];
    for byte in BYTES {
        set[byte as usize / 64] |= 1 << (byte % 64);
    }
    set
}

/// The list for a chip at this port.
pub fn steps(base: u16) -> [Step; 11] {
    let test = |mask: u8, value: u8, to| Step {
        operation: operation::TEST,
        to,
        mask: mask as u32,
        value: value as u32,
        ..Step::NONE
    };
    let data = Step {
        port: base + DATA,
        status: base + LINE_STATUS,
        mask: status::READY as u32,
        ..Step::NONE
    };
    [
        Step {
            operation: operation::READ,
            width: 1,
            port: base + INTERRUPT_IDENTITY,
            ..Step::NONE
        },
        test(identity::NONE, identity::NONE, 5),
        test(identity::CAUSE, identity::RECEIVED, 6),
        test(identity::CAUSE, identity::TIMEOUT, 8),
        Step::plain(operation::HAND_OVER),
        Step::plain(operation::DONE),
        // 6: the trigger level was reached.
        Step {
            operation: operation::TAKE,
            count: TRIGGER,
            ..data
        },
        Step::plain(operation::AGAIN),
        // 8: fewer wait, and the line pauses.
        Step {
            operation: operation::TAKE_WHILE,
            count: 16,
            ..data
        },
        Step {
            operation: operation::WAKE,
            value: CHIP_PAUSED,
            ..Step::NONE
        },
        Step::plain(operation::AGAIN),
    ]
}
