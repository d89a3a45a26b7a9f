//! The longest stretch with interrupts off, measured (`nucleus.stretch` on the command line; worth something in QEMU's deterministic mode, where ticks are instructions).
//!
//! The option turns every call of the general path's functions into one of its timed twin here: the calls are found and changed in the nucleus's code at boot, so that without
//! the option nothing is there. What machine code does before and behind these calls, at most [`AROUND`] instructions, is added. Ways that are machine code alone are not
//! looked at: they have no loop and are shorter. Work in shares that looks for interrupts between them, and ends its entry if one waits, is a stretch from look to look.

use super::cpu;
use super::descriptors;
use super::glue::{
    self, interrupt_waits, on_channel, on_receive_right, on_syscall, on_trap, on_traversal,
};
use super::memory::{IMAGE_BASE, PAGE};
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
/// Stands for the making of an entry's code: no portal has such an operation.
const COMPILE: u64 = 63;
const LOUD: u64 = 1200;
const STEP: u64 = 100;

/// When the present stretch began, and in which entry. (One core is measured: the others would share these.)
static BEGIN: AtomicU64 = AtomicU64::new(0);
static DOING: AtomicU64 = AtomicU64::new(0);

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

/// Time all calls from now on.
///
/// # Safety
/// At boot, with one processor running.
pub unsafe fn begin() {
    glue::asks(glue::MEASURED, true);
    // SAFETY: by the contract.
    unsafe { *ON_TRAP.get() = trap };
    let twins: [(usize, usize); 6] = [
        (
            interrupt_waits as *const () as usize,
            looks as *const () as usize,
        ),
        (
            on_syscall as *const () as usize,
            syscall as *const () as usize,
        ),
        (
            on_traversal as *const () as usize,
            traversal as *const () as usize,
        ),
        (
            on_channel as *const () as usize,
            channel as *const () as usize,
        ),
        (
            on_receive_right as *const () as usize,
            receive_right as *const () as usize,
        ),
        (
            glue::compile as *const () as usize,
            compile as *const () as usize,
        ),
    ];
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

unsafe extern "C" fn syscall() -> Resume {
    DOING.store(asked(), Relaxed);
    BEGIN.store(cpu::read_tsc(), Relaxed);
    // SAFETY: called as the function itself.
    let resume = unsafe { black_box(on_syscall as unsafe extern "C" fn() -> Resume)() };
    note(BEGIN.load(Relaxed), DOING.load(Relaxed));
    resume
}

unsafe extern "C" fn traversal(target: Target) -> Resume {
    DOING.store(asked(), Relaxed);
    BEGIN.store(cpu::read_tsc(), Relaxed);
    // SAFETY: called as the function itself.
    let resume =
        unsafe { black_box(on_traversal as unsafe extern "C" fn(Target) -> Resume)(target) };
    note(BEGIN.load(Relaxed), DOING.load(Relaxed));
    resume
}

unsafe extern "C" fn channel(target: Target) -> Resume {
    DOING.store(asked(), Relaxed);
    BEGIN.store(cpu::read_tsc(), Relaxed);
    // SAFETY: called as the function itself.
    let resume = unsafe { black_box(on_channel as unsafe extern "C" fn(Target) -> Resume)(target) };
    note(BEGIN.load(Relaxed), DOING.load(Relaxed));
    resume
}

unsafe extern "C" fn receive_right(channel: u32) -> Resume {
    DOING.store(asked(), Relaxed);
    BEGIN.store(cpu::read_tsc(), Relaxed);
    // SAFETY: called as the function itself.
    let resume =
        unsafe { black_box(on_receive_right as unsafe extern "C" fn(u32) -> Resume)(channel) };
    note(BEGIN.load(Relaxed), DOING.load(Relaxed));
    resume
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

/// What vectors call, through [`ON_TRAP`].
unsafe extern "C" fn trap(vector: u64, error: u64) -> Resume {
    DOING.store(VECTOR | vector, Relaxed);
    BEGIN.store(cpu::read_tsc(), Relaxed);
    // SAFETY: called as the function itself.
    let resume =
        unsafe { black_box(on_trap as unsafe extern "C" fn(u64, u64) -> Resume)(vector, error) };
    note(BEGIN.load(Relaxed), DOING.load(Relaxed));
    resume
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
