//! The longest stretch with interrupts off, measured (`nucleus.stretch` on the command line; worth something in QEMU's deterministic mode, where ticks are instructions).
//!
//! The option turns every call of the portable part's functions into one of its timed twin here: the calls are found and changed in the nucleus's code at boot, so that without
//! the option nothing is there. What machine code does before and behind these calls, at most [`AROUND`] instructions, is added. Ways that are machine code alone are not
//! looked at: they have no loop and are shorter. Work in shares that looks for interrupts between them, and ends its entry if one waits, is a stretch from look to look.
//! Where quick calls are settled before an entry, its stretch begins with that.

use super::cpu;
use super::descriptors;
use super::glue::{
    self, interrupt_waits, on_channel, on_memory, on_receive_right, on_syscall, on_traced_syscall,
    on_traced_trap, on_trap, on_traversal, on_upcall_over, reply_extras, settle,
};
use super::memory::{IMAGE_BASE, PAGE};
use super::parts_code::{read_quick, write_quick, MachineThread};
use super::tables::Image;
use super::traced::ON_TRAP;
use crate::log::Line;
use crate::portal::table::Target;
use crate::Resume;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Instructions before and behind a timed call: storing and loading a thread's registers.
const AROUND: u64 = 70;
/// Opcodes of a call and (as a function's last deed) a jump with a relative address, and their length.
const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
const LENGTH: usize = 5;
/// In what an entry was: a vector; otherwise portal kind and operation.
const VECTOR: u64 = 1 << 16;

/// The longest of each portal kind and operation, and of each vector; the log hears of one above [`LOUD`], and again when it has grown by [`STEP`].
static EACH: [AtomicU64; 32 * OPERATIONS as usize] =
    [const { AtomicU64::new(LOUD - STEP) }; 32 * OPERATIONS as usize];
const OPERATIONS: u64 = 64;
/// Stand for the making of an entry's code, for calls being settled, and for what machine code has the portable part do: copies to and from a caller's parts, what comes with a reply, one
/// page mapped or unmapped, an upcall's end. No portal has such operations.
const COMPILE: u64 = 63;
const SETTLE: u64 = 62;
const TRANSFER: u64 = 61;
const EXTRAS: u64 = 60;
const UPCALL_OVER: u64 = 58;
const LOUD: u64 = 1200;
const STEP: u64 = 100;

/// When the present stretch began, and in which entry. (One core is measured: the others would share these.)
static BEGIN: AtomicU64 = AtomicU64::new(0);
static DOING: AtomicU64 = AtomicU64::new(0);

/// When calls were settled last: from when to when. What begins up to [`AROUND`] ticks later is of the same stretch.
static SETTLED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

static LONGEST: AtomicU64 = AtomicU64::new(0);
static WHAT: AtomicU64 = AtomicU64::new(0);

/// Ticks of the longest stretch so far, and in which entry.
pub fn longest() -> (u64, u64) {
    (LONGEST.load(Relaxed), WHAT.load(Relaxed))
}

/// What vectors call while nothing is traced.
pub fn ordinary_trap() -> unsafe extern "C" fn(u64, u64) -> Resume {
    match LONGEST.load(Relaxed) {
        0 => on_trap,
        _ => trap,
    }
}

/// What they call while something is.
pub fn traced_trap() -> unsafe extern "C" fn(u64, u64) -> Resume {
    match LONGEST.load(Relaxed) {
        0 => on_traced_trap,
        _ => recorded_trap,
    }
}

/// Time all calls from now on.
///
/// # Safety
/// At boot, with one processor running.
pub unsafe fn begin() {
    glue::asks(glue::MEASURED, true);
    // SAFETY: by the contract.
    unsafe { *ON_TRAP.get() = trap };
    let twins = [
        (interrupt_waits as *const (), looks as *const ()),
        (on_syscall as *const (), syscall as *const ()),
        (on_traced_syscall as *const (), recorded as *const ()),
        (on_traversal as *const (), traversal as *const ()),
        (on_channel as *const (), channel as *const ()),
        (on_receive_right as *const (), receive_right as *const ()),
        (glue::compile as *const (), compile as *const ()),
        (settle as *const (), settling as *const ()),
        (read_quick as *const (), reading as *const ()),
        (write_quick as *const (), writing as *const ()),
        (reply_extras as *const (), replying as *const ()),
        (on_memory as *const (), memory as *const ()),
        (on_upcall_over as *const (), upcall_over as *const ()),
    ]
    .map(|(function, twin)| (function as usize, twin as usize));
    let text = Image::new().text;
    let start = (IMAGE_BASE + text.first as u64 * PAGE) as *mut u8;
    let length = text.count() as usize * PAGE as usize;
    // SAFETY: the nucleus's text is mapped there, and write protection is off while it is changed: only the target of calls, from one function to another of the same
    // signature, none of them in progress but on the way to this one.
    unsafe {
        cpu::write_protection(false);
        for at in 0..length - LENGTH {
            let place = start.add(at);
            if !matches!(place.read(), CALL | JUMP) {
                continue;
            }
            let distance = place.add(1).cast::<i32>();
            let next = place as usize + LENGTH;
            let target = next.wrapping_add_signed(distance.read_unaligned() as isize);
            if let Some((_, twin)) = twins.iter().find(|(function, _)| *function == target) {
                distance.write_unaligned(twin.wrapping_sub(next) as i32);
            }
        }
        cpu::write_protection(true);
    }
}

// The twins call through addresses: a plain call would be turned as well.

/// A twin of a function, and what it does.
macro_rules! timed {
    ($twin:ident: $function:path, ($($argument:ident: $type:ty),*) -> $result:ty, $what:expr) => {
        unsafe extern "C" fn $twin($($argument: $type),*) -> $result {
            start($what);
            // SAFETY: called as the function itself.
            let result = unsafe {
                black_box($function as unsafe extern "C" fn($($type),*) -> $result)($($argument),*)
            };
            note(BEGIN.load(Relaxed), DOING.load(Relaxed));
            result
        }
    };
}

timed!(syscall: on_syscall, () -> Resume, asked());
timed!(traversal: on_traversal, (target: Target) -> Resume, asked());
timed!(channel: on_channel, (target: Target) -> Resume, asked());
timed!(receive_right: on_receive_right, (channel: u32) -> Resume, asked());
timed!(recorded: on_traced_syscall, () -> Resume, asked());
timed!(trap: on_trap, (vector: u64, error: u64) -> Resume, VECTOR | vector);
timed!(recorded_trap: on_traced_trap, (vector: u64, error: u64) -> Resume, VECTOR | vector);
timed!(reading: read_quick, (client: *const MachineThread, offset: u64, address: u64, len: u64, server: *const MachineThread) -> u64, TRANSFER);
timed!(writing: write_quick, (client: *const MachineThread, offset: u64, address: u64, len: u64, server: *const MachineThread) -> u64, TRANSFER);
timed!(replying: reply_extras, (server: u32, caller: u32, channel: u32) -> u64, EXTRAS);
timed!(memory: on_memory, (target: Target) -> Resume, asked());
timed!(upcall_over: on_upcall_over, () -> Resume, UPCALL_OVER);

/// A stretch begins.
fn start(what: u64) {
    let now = cpu::read_tsc();
    let settled = now.wrapping_sub(SETTLED[1].load(Relaxed)) < AROUND;
    DOING.store(what, Relaxed);
    BEGIN.store(
        if settled {
            SETTLED[0].load(Relaxed)
        } else {
            now
        },
        Relaxed,
    );
}

/// Calls are settled, and mostly something else follows.
unsafe extern "C" fn settling() {
    let begin = cpu::read_tsc();
    // SAFETY: called as the function itself.
    unsafe { black_box(settle as unsafe extern "C" fn())() }
    note(begin, SETTLE);
    SETTLED[0].store(begin, Relaxed);
    SETTLED[1].store(cpu::read_tsc(), Relaxed);
}

/// The traversal that needed it begins anew afterwards: a stretch of its own, counted as one of operation [`COMPILE`].
unsafe extern "C" fn compile() {
    let begin = cpu::read_tsc();
    // SAFETY: called as the function itself.
    unsafe { black_box(glue::compile as unsafe extern "C" fn())() }
    note(begin, (asked() & !0xff) | COMPILE);
}

/// Where work that goes on in shares looks for interrupts, one stretch ends and the next begins.
unsafe extern "C" fn looks() -> bool {
    note(BEGIN.load(Relaxed), DOING.load(Relaxed));
    BEGIN.store(cpu::read_tsc(), Relaxed);
    // SAFETY: called as the function itself.
    unsafe { black_box(interrupt_waits as unsafe extern "C" fn() -> bool)() }
}

/// Kind of the portal and operation that the thread asks for.
fn asked() -> u64 {
    // SAFETY: at the beginning of an entry: the registers are those of the thread that entered, and nobody else has the nucleus.
    unsafe {
        let rax = (*(*descriptors::own()).registers).rax;
        let kind = glue::kernel().kind_of(rax as u32);
        (kind as u64) << 8 | rax >> 32 & 0xff
    }
}

fn note(begin: u64, what: u64) {
    let ticks = cpu::read_tsc().wrapping_sub(begin) + AROUND;
    if ticks > LONGEST.load(Relaxed) {
        LONGEST.store(ticks, Relaxed);
        WHAT.store(what, Relaxed);
    }
    let (upper, lower) = (what >> 8 & 0xff, what & 0xff);
    let kind = if what & VECTOR == 0 { upper } else { 0 };
    let of_kind = &EACH[(kind * OPERATIONS + lower) as usize % EACH.len()];
    if ticks < of_kind.load(Relaxed) + STEP {
        return;
    }
    of_kind.store(ticks, Relaxed);
    let mut line = Line::new();
    line.number("nucleus: stretch of ", ticks);
    if what & VECTOR != 0 {
        line.number(" in vector ", lower);
    } else {
        line.number(" in portal kind ", upper);
        line.number(" operation ", lower);
    }
    // SAFETY: the entry is done but for its way out; nobody else has the nucleus.
    unsafe { glue::kernel() }.log(&line);
}
