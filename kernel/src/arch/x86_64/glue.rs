//! Between the entry code and the portable part: the one nucleus, and what each vector means to it.

use super::apic::TIMER_VECTOR;
use super::cpu;
use super::descriptors::{self, Single};
use super::interrupts::{source_of, Arrival};
use super::requests::{self, COME_IN_VECTOR};
use super::Machine;
use crate::lock::TicketLock;
use crate::portal::table::Target;
use crate::{Kernel, Resume};
use cairn_abi::fault;
use cairn_abi::layout::USER_TOP;
use cairn_abi::trace::kind;
use core::arch::asm;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// Whoever is in the nucleus has this lock, if there are several cores.
pub(super) static LOCK: TicketLock = TicketLock::new();

/// Where the templates for several cores take it.
pub fn busy() -> u64 {
    &raw const LOCK as u64 + TicketLock::BUSY as u64
}

static SEVERAL: AtomicBool = AtomicBool::new(false);

pub(super) static KERNEL: Single<MaybeUninit<Kernel<Machine>>> = Single::new(MaybeUninit::uninit());

const DEBUG: u64 = 1;
const NON_MASKABLE: u64 = 2;
const PAGE_FAULT: u64 = 14;
const MACHINE_CHECK: u64 = 18;
const EXCEPTIONS: u64 = 32;
/// x86's error code of a page fault.
const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const FETCH: u64 = 16;

/// Put the nucleus where the entry code finds it, and give it back to be started.
///
/// # Safety
/// Once, before the first entry.
pub unsafe fn install(kernel: Kernel<Machine>) -> &'static mut Kernel<Machine> {
    // SAFETY: by the contract nobody else has a reference yet.
    unsafe { (*KERNEL.get()).write(kernel) }
}

/// The nucleus.
///
/// # Safety
/// Only from the entry functions below: they run one at a time, each to its end, after `install`.
pub(super) unsafe fn kernel() -> &'static mut Kernel<Machine> {
    // SAFETY: by the contract.
    unsafe { (*KERNEL.get()).assume_init_mut() }
}

/// There are several cores from now on, and this one is in the nucleus until [`out`].
pub fn several() {
    LOCK.acquire(|_| {});
    SEVERAL.store(true, Relaxed);
    asks(SEVERAL_CORES, true);
}

/// Was that said?
pub fn is_several() -> bool {
    SEVERAL.load(Relaxed)
}

/// An entry with several cores: this one comes in, the registers of its thread stored, waits for its turn, and lets others in when it is done.
///
/// # Safety
/// As an entry, when everything of this core is loaded.
#[cold]
#[inline(never)]
unsafe fn in_turn(a: u64, b: u64, entry: Entry) -> Resume {
    // SAFETY: GS leads to this processor's data.
    let core = unsafe { (*descriptors::own()).core };
    requests::come_in(&LOCK, core);
    // SAFETY: the lock is held; each of these references ends before the next is made.
    unsafe {
        kernel().come_in(core);
        let resume = entry(a, b);
        out(kernel());
        resume
    }
}

/// What an entry does, with two words that tell more. It is not given the nucleus: while no function is that is called by its address, the compiler knows that every reference to the
/// nucleus is the address of [`KERNEL`], and neither hands it on nor keeps it in a register (4,000 bytes of text).
type Entry = unsafe fn(u64, u64) -> Resume;

/// The entry is over: others may come in. Nothing to do with one core.
pub fn out(kernel: &mut Kernel<Machine>) {
    if SEVERAL.load(Relaxed) {
        kernel.arch.settle();
        requests::go_out(&LOCK, kernel.cores.here);
    }
}

/// Another core takes part from now on.
///
/// # Safety
/// Once on each, when everything of it is loaded and [`several`] was said.
pub unsafe fn join() -> Resume {
    // SAFETY: by the contract.
    unsafe { in_turn(0, 0, |_, _| kernel().resume()) }
}

/// `syscall` that was not turned round.
///
/// # Safety
/// Called by the entry code.
pub unsafe extern "C" fn on_syscall() -> Resume {
    if SEVERAL.load(Relaxed) {
        // SAFETY: by the contract.
        return unsafe { in_turn(0, 0, |_, _| kernel().syscall()) };
    }
    // SAFETY: by the contract.
    unsafe { kernel() }.syscall()
}

/// A `syscall` where the entry code has found the entry: this is its target.
///
/// # Safety
/// Called by the entry code.
pub unsafe extern "C" fn on_traversal(target: Target) -> Resume {
    if SEVERAL.load(Relaxed) {
        // SAFETY: by the contract.
        return unsafe { in_turn(0, 0, |_, _| kernel().syscall()) };
    }
    // SAFETY: by the contract.
    let kernel = unsafe { kernel() };
    match kernel.dispatch.current {
        Some(t) => kernel.traversal(t, target),
        None => kernel.syscall(),
    }
}

/// The same for an entry that leads to a channel. Not with several cores, for which [`super::portal_code::general_only`] has told all entries.
///
/// # Safety
/// Called by the entry code.
pub unsafe extern "C" fn on_channel(target: Target) -> Resume {
    // SAFETY: by the contract.
    unsafe { kernel() }.channel_right(target)
}

/// The same for the memory manager's.
///
/// # Safety
/// As for [`on_channel`].
pub unsafe extern "C" fn on_memory(target: Target) -> Resume {
    // SAFETY: by the contract.
    unsafe { kernel() }.memory_right(target)
}

/// UPCALL_RETURN to the saved registers, of a thread that is in an upcall.
///
/// # Safety
/// Called by the portal code: nothing of the thread needs to be stored.
pub unsafe extern "C" fn on_upcall_over() -> Resume {
    // SAFETY: by the contract.
    unsafe { kernel() }.upcall_over()
}

/// A `syscall` through a receive right, of the channel with this number. Not with several cores.
///
/// # Safety
/// Called by the entry and the portal code.
pub unsafe extern "C" fn on_receive_right(channel: u32) -> Resume {
    // SAFETY: by the contract.
    unsafe { kernel() }.receive_right(channel)
}

/// Somebody comes into the nucleus, or to code that looks at objects, with quick calls under way. (With several cores that is seen to when it is this one's turn: [`Kernel::come_in`].)
///
/// # Safety
/// Called by the entry code, with all of the running thread's registers stored that the nucleus may look at.
pub unsafe extern "C" fn settle() {
    if SEVERAL.load(Relaxed) {
        return;
    }
    // SAFETY: by the contract, and per-CPU data of this processor.
    unsafe { kernel().settle((*descriptors::own()).registers as usize) }
}

/// A `syscall` with several cores by an entry that was used so often that it shall have code of its own.
///
/// # Safety
/// Called by the entry code.
pub unsafe extern "C" fn on_counted() -> Resume {
    unsafe fn counted(_: u64, _: u64) -> Resume {
        // SAFETY: by the contract.
        let kernel = unsafe { kernel() };
        if let Some(t) = kernel.dispatch.current {
            kernel.compile(t);
        }
        kernel.syscall()
    }
    // SAFETY: by the contract.
    unsafe { in_turn(0, 0, counted) }
}

/// An entry of the running thread's table was used so often that it shall have code of its own.
///
/// # Safety
/// As for [`settle`].
pub unsafe extern "C" fn compile() {
    // SAFETY: by the contract.
    let kernel = unsafe { kernel() };
    // SAFETY: per-CPU data of this processor.
    let registers = unsafe { (*descriptors::own()).registers as usize };
    let settled = kernel
        .threads
        .at_address(registers)
        .is_some_and(|t| kernel.dispatch.current == Some(t));
    if !settled {
        kernel.settle(registers);
    }
    if let Some(t) = kernel.dispatch.current {
        kernel.compile(t);
    }
}

/// No value of `rax` after a reply, no length.
const GENERAL: u64 = u64::MAX;

/// What comes with a plain reply beside words, for the portal code: numbers of the server's and the caller's thread and of the channel. Returns the caller's
/// `rax`; all ones: the general path must do it.
///
/// # Safety
/// Called by the portal code.
pub unsafe extern "C" fn reply_extras(server: u32, caller: u32, channel: u32) -> u64 {
    // SAFETY: by the contract.
    let kernel = unsafe { kernel() };
    let (server, caller) = (kernel.threads.handle(server), kernel.threads.handle(caller));
    let channel = kernel.channels.handle(channel);
    kernel
        .reply_extras(server, caller, channel)
        .unwrap_or(GENERAL)
}

/// A vector from user mode, or an interrupt while idle.
///
/// # Safety
/// Called by the entry code.
pub unsafe extern "C" fn on_trap(vector: u64, error: u64) -> Resume {
    if SEVERAL.load(Relaxed) {
        // SAFETY: by the contract.
        return unsafe {
            in_turn(vector, error, |vector, error| {
                trapped(kernel(), vector, error)
            })
        };
    }
    // SAFETY: by the contract.
    trapped(unsafe { kernel() }, vector, error)
}

#[inline(never)]
fn trapped(kernel: &mut Kernel<Machine>, vector: u64, error: u64) -> Resume {
    if vector >= EXCEPTIONS {
        return on_interrupt(kernel, vector as u8);
    }
    match vector {
        PAGE_FAULT => {
            let address = cpu::fault_address();
            // What is mapped in the nucleus's half is no program's business.
            let error = if address < USER_TOP {
                error
            } else {
                error & !PRESENT
            };
            let mut bits = 0;
            if error & PRESENT != 0 {
                bits |= fault::PRESENT;
            }
            if error & WRITE != 0 {
                bits |= fault::WRITE;
            }
            if error & FETCH != 0 {
                bits |= fault::EXECUTE;
            }
            kernel.page_fault(address, bits)
        }
        NON_MASKABLE => {
            cpu::take_non_maskable_again();
            kernel.called()
        }
        MACHINE_CHECK => panic!("machine check"),
        DEBUG => {
            cpu::clear_debug_status();
            kernel.exception(vector, error, 0)
        }
        _ => kernel.exception(vector, error, 0),
    }
}

/// [`on_syscall`] while tracing or failures on request are on.
///
/// # Safety
/// Called by the entry code.
pub unsafe extern "C" fn on_traced_syscall() -> Resume {
    if SEVERAL.load(Relaxed) {
        // SAFETY: by the contract.
        return unsafe { in_turn(0, 0, |_, _| kernel().traced_syscall()) };
    }
    // SAFETY: by the contract.
    unsafe { kernel() }.traced_syscall()
}

/// [`on_trap`] while they are on.
///
/// # Safety
/// Called by the entry code.
pub unsafe extern "C" fn on_traced_trap(vector: u64, error: u64) -> Resume {
    if SEVERAL.load(Relaxed) {
        // SAFETY: by the contract.
        return unsafe {
            in_turn(vector, error, |vector, error| {
                traced(kernel(), vector, error)
            })
        };
    }
    // SAFETY: by the contract.
    traced(unsafe { kernel() }, vector, error)
}

fn traced(kernel: &mut Kernel<Machine>, vector: u64, error: u64) -> Resume {
    const TIMER: u64 = TIMER_VECTOR as u64;
    let source = source_of(vector as u8).filter(|_| vector >= EXCEPTIONS);
    let (kind, detail) = match (source, vector) {
        (Some(source), _) => (kind::INTERRUPT, source as u64),
        (None, TIMER) => (kind::TIMER, vector),
        (None, EXCEPTIONS..) => (kind::COME_IN, vector),
        (None, PAGE_FAULT) => (kind::PAGE_FAULT, cpu::fault_address()),
        (None, _) => (kind::EXCEPTION, vector),
    };
    if let Some(source) = source {
        if kernel.loses_interrupt(source) {
            kernel.arch.apic.end_of_interrupt();
            return kernel.called();
        }
    }
    kernel.traced(kind, detail, |kernel| trapped(kernel, vector, error))
}

#[inline(never)]
fn on_interrupt(kernel: &mut Kernel<Machine>, vector: u8) -> Resume {
    if vector == TIMER_VECTOR {
        kernel.arch.apic.end_of_interrupt();
        return kernel.timer();
    }
    if vector == COME_IN_VECTOR {
        kernel.arch.apic.end_of_interrupt();
        return kernel.called();
    }
    if let Some(source) = source_of(vector) {
        if let Arrival::Deliver(source) = kernel.arch.interrupt_arrived(source) {
            return kernel.interrupt(source);
        }
    }
    // Nothing happened.
    kernel.called()
}

/// [`let_in`] does not: there are several cores, entries go through the twins, or stretches are measured.
static ASKS: AtomicU8 = AtomicU8::new(0);
pub const SEVERAL_CORES: u8 = 1;
pub const TWINS: u8 = 2;
pub const MEASURED: u8 = 4;

/// One of these reasons begins or ends.
pub fn asks(reason: u8, on: bool) {
    let others = ASKS.load(Relaxed) & !reason;
    ASKS.store(others | if on { reason } else { 0 }, Relaxed);
}

/// May an entry let interrupts in that is whole and need not come back?
#[inline(always)]
pub fn opens() -> bool {
    ASKS.load(Relaxed) == 0
}

/// The same, but that stretches may be measured: for [`open_or_note`].
#[inline(always)]
pub fn opens_or_notes() -> bool {
    ASKS.load(Relaxed) & !MEASURED == 0
}

/// Let them in. One of them finds the running thread by its registers and sets it back before its `syscall`; the stack is abandoned, on which nothing needs an end.
///
/// # Safety
/// The portable part says that the running thread may be taken for one that was interrupted before its `syscall`: all objects are as between two entries. `nucleus` is a pointer to
/// all or a part of the nucleus, from which everybody's references come that changed something in it: so the compiler has changed it, too.
#[inline(always)]
pub unsafe fn open<T>(nucleus: *mut T) {
    // SAFETY: whoever interrupts either comes back with every register unchanged, or not at all.
    unsafe {
        asm!(
            "sti",
            "nop",
            "cli",
            "/* {nucleus} */",
            nucleus = in(reg) nucleus,
            options(preserves_flags),
        );
    }
}

/// See [`crate::arch::Arch::let_in`].
#[inline(always)]
pub fn let_in(kernel: &mut Kernel<Machine>) -> bool {
    if !opens() {
        // SAFETY: called in an entry.
        return unsafe { interrupt_waits() };
    }
    // SAFETY: by the contract of that.
    unsafe { open(core::ptr::from_mut(kernel)) }
    false
}

/// See [`crate::arch::Arch::open`].
#[inline(always)]
pub fn let_in_if_open(kernel: &mut Kernel<Machine>) {
    // SAFETY: by the contract of that.
    unsafe { open_or_note(core::ptr::from_mut(kernel)) }
}

/// As [`open`], where [`opens`]; a stretch ends here, too.
///
/// # Safety
/// As for [`open`], in an entry.
#[inline(always)]
pub unsafe fn open_or_note<T>(nucleus: *mut T) {
    // SAFETY: by the contract.
    unsafe {
        match ASKS.load(Relaxed) {
            0 => open(nucleus),
            MEASURED => {
                interrupt_waits();
            }
            _ => {}
        }
    }
}

/// An interrupt waits to be let in, or the 8259s are in use, which would have to be asked slowly. A function of its own: [`super::stretch`] has a twin.
///
/// # Safety
/// Called within an entry.
#[inline(never)]
pub unsafe extern "C" fn interrupt_waits() -> bool {
    // SAFETY: by the contract; nothing is changed.
    let machine = unsafe { &kernel().arch };
    machine.lines.by_pic() || machine.apic.asked()
}
