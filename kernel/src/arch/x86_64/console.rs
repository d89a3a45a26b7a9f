//! Where log lines go that need no driver: QEMU's debug console and (when the command line asks for it) COM1.

use super::descriptors::Single;
use super::ports::{in8, out8};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// QEMU's debug console.
const DEBUG_CONSOLE: u16 = 0xe9;
/// First 16550 of a PC.
const COM1: u16 = 0x3f8;

static DEBUG_CONSOLE_THERE: AtomicBool = AtomicBool::new(false);
static LOG_TO_COM1: AtomicBool = AtomicBool::new(false);
/// COM1 has queues.
static QUEUED: AtomicBool = AtomicBool::new(false);

/// Find out where log lines can go.
pub fn init() {
    // QEMU's device answers with its own port number; without it the bus floats.
    DEBUG_CONSOLE_THERE.store(in8(DEBUG_CONSOLE) == 0xe9, Relaxed);
}

/// Send log lines to COM1 as well.
pub fn to_com1() {
    // Asked this once: to read it takes an interrupt's cause away from a driver.
    out8(QUEUES, QUEUES_ON);
    QUEUED.store(in8(QUEUES) & HAS_QUEUES == HAS_QUEUES, Relaxed);
    LOG_TO_COM1.store(true, Relaxed);
}

#[inline(never)]
pub fn write(bytes: &[u8]) {
    if DEBUG_CONSOLE_THERE.load(Relaxed) {
        // SAFETY: reads exactly the slice; the direction flag is clear in the nucleus.
        unsafe {
            asm!("rep outsb", in("dx") DEBUG_CONSOLE, inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _,
                options(readonly, nostack, preserves_flags));
        }
    }
    if LOG_TO_COM1.load(Relaxed) {
        for &byte in bytes {
            keep(byte);
        }
    }
}

/// What COM1 has not taken yet. Nobody waits for it with interrupts off: it gets what it has room for, again and again ([`goes_on`]). If more is said than it can send, that is
/// not on it (but in the log).
struct Waiting {
    bytes: [u8; WAITING],
    put: usize,
    taken: usize,
}

const WAITING: usize = 16384;
/// What a 16550 takes at once when it has sent everything; one without queues takes a byte.
const QUEUE: usize = 16;
const LINE_STATUS: u16 = COM1 + 5;
const SENT: u8 = 0x20;
/// Written: have queues; read: whether there are.
const QUEUES: u16 = COM1 + 2;
const QUEUES_ON: u8 = 1;
const HAS_QUEUES: u8 = 0xc0;

static WAITS: Single<Waiting> = Single::new(Waiting {
    bytes: [0; WAITING],
    put: 0,
    taken: 0,
});

#[inline(never)]
fn keep(byte: u8) {
    // SAFETY: whoever says something is in the nucleus, or the only one that is left.
    let waits = unsafe { &mut *WAITS.get() };
    if waits.put - waits.taken < WAITING {
        waits.bytes[waits.put % WAITING] = byte;
        waits.put += 1;
    }
}

/// Give COM1 what it has room for. True: there is more.
#[inline(never)]
pub fn goes_on() -> bool {
    // SAFETY: as above.
    let waits = unsafe { &mut *WAITS.get() };
    if waits.put == waits.taken {
        return false;
    }
    if in8(LINE_STATUS) & SENT != 0 {
        let room = if QUEUED.load(Relaxed) { QUEUE } else { 1 };
        for _ in 0..room.min(waits.put - waits.taken) {
            out8(COM1, waits.bytes[waits.taken % WAITING]);
            waits.taken += 1;
        }
    }
    waits.put != waits.taken
}

/// The machine ends: wait for COM1 this once. (Bounded: a port that is not there must not hang the nucleus.)
pub fn flush() {
    let mut patience = 10_000_000;
    while goes_on() && patience > 0 {
        patience -= 1;
    }
}
