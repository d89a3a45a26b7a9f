//! Start of the other processors (Intel SDM volume 3, 9.4; MultiProcessor Specification 1.4, appendix B.4): one after the other is woken in real mode on a page below
//! 1 MiB, goes to long mode with the tables of the first instructions, and comes to [`start_other`] on its own nucleus stack. It loads what the first one has
//! loaded, has its clock compared, and waits ([`super::boot_end`]) until the first one says go.

use super::apic;
use super::boot32;
use super::boot_end;
use super::clock::Clock;
use super::cpu::{self, read_tsc};
use super::descriptors::{self, PER_CPU};
use super::entry::syscall_entry;
use super::memory::{DIRECT_MAP, PAGE};
use super::pvh::{BootInfo, Kind, Range};
use super::Machine;
use crate::cores::MOST;
use crate::queue::Lists;
use crate::Kernel;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// The page on which they begin.
const START_PAGE: u64 = 8;

/// Number of the core that may start now; the one that starts takes it away.
static EXPECTED: AtomicUsize = AtomicUsize::new(0);
/// How far it is, and times that it and the first one tell each other.
static STAGE: AtomicUsize = AtomicUsize::new(0);
static TICKS: AtomicU64 = AtomicU64::new(0);
/// Root of the nucleus's tables.
static ROOT: AtomicU64 = AtomicU64::new(0);

/// Stages of a start.
const ALIVE: usize = 1;
const ASKED: usize = 2;
const TOLD: usize = 3;
const SETTLED: usize = 4;

/// How long to wait: after INIT, after the first start message, and until a core that was started twice has come.
const AFTER_INIT_NS: u64 = 10_000_000;
const AFTER_START_NS: u64 = 200_000;
const PATIENCE_NS: u64 = 200_000_000;

/// Put the first instructions of the others into their page, as long as all memory may be written. False: that page is not memory.
pub fn prepare(info: &BootInfo) -> bool {
    let page = START_PAGE * PAGE;
    let inside = |(range, kind): &(Range, Kind)| {
        *kind == Kind::Usable && range.start <= page && page + PAGE <= range.end
    };
    if !info.map().iter().any(inside) {
        return false;
    }
    let (code, len) = boot32::others();
    // SAFETY: the page is memory that nobody uses (what lies below 1 MiB is given to nobody), shown by the first tables; the code is shorter than a page.
    unsafe { core::ptr::copy_nonoverlapping(code, (DIRECT_MAP + page) as *mut u8, len) };
    true
}

fn wait(clock: &Clock, ns: u64, until: impl Fn() -> bool) -> bool {
    let start = clock.now();
    loop {
        if until() {
            return true;
        }
        if clock.now().saturating_sub(start) > ns {
            return false;
        }
        core::hint::spin_loop();
    }
}

/// Start the processors with these local APICs, as far as there is room; `lists` are for their ready queues. How many came.
///
/// # Safety
/// Once, before interrupts or user mode, after [`prepare`] with success. Each of `lists` must be nobody else's, and empty.
pub unsafe fn start(
    kernel: &mut Kernel<Machine>,
    ids: &[u32],
    lists: impl Iterator<Item = &'static mut Lists>,
) -> usize {
    let clock = kernel.arch.clock();
    let own = kernel.arch.apic.id();
    ROOT.store(kernel.arch.template_root() as u64 * PAGE, Relaxed);
    let mut started = 0;
    for (&id, lists) in ids.iter().filter(|&&id| id != own).zip(lists) {
        let core = started + 1;
        if core == MOST {
            break;
        }
        if start_one(&clock, core, id) {
            if kernel.add_core(lists) != Some(core) {
                break;
            }
            kernel.arch.add_core(core, id);
            started += 1;
        }
    }
    started
}

fn start_one(clock: &Clock, core: usize, id: u32) -> bool {
    STAGE.store(0, SeqCst);
    boot32::OTHER_STACK.store(descriptors::stack_end(core), Relaxed);
    EXPECTED.store(core, SeqCst);
    let stage = |wanted| move || STAGE.load(Acquire) >= wanted;
    apic::send_init(id);
    wait(clock, AFTER_INIT_NS, || false);
    apic::send_start(id, START_PAGE as u8);
    if !wait(clock, AFTER_START_NS, stage(ALIVE)) {
        apic::send_start(id, START_PAGE as u8);
        if !wait(clock, PATIENCE_NS, stage(ALIVE)) && EXPECTED.swap(0, SeqCst) != 0 {
            // It may not come later, when nobody expects it.
            apic::send_init(id);
            return false;
        }
    }
    wait(clock, u64::MAX, stage(ALIVE));
    // Its clock must lie between two readings of this one's.
    let before = read_tsc();
    STAGE.store(ASKED, Release);
    wait(clock, u64::MAX, stage(TOLD));
    let (its, after) = (TICKS.load(Relaxed), read_tsc());
    let off = if (before..=after).contains(&its) {
        0
    } else {
        (before + (after - before) / 2).wrapping_sub(its)
    };
    TICKS.store(off, Relaxed);
    STAGE.store(SETTLED, Release);
    true
}

fn stage(wanted: usize) {
    while STAGE.load(Acquire) != wanted {
        core::hint::spin_loop();
    }
}

/// Called by the first instructions of another core, on its nucleus stack, with interrupts off.
pub extern "C" fn start_other() -> ! {
    let core = EXPECTED.swap(0, SeqCst);
    let (true, Ok(features)) = (core != 0, cpu::init()) else {
        cpu::halt();
    };
    // SAFETY: the nucleus's tables, which map the image and this stack.
    unsafe { cpu::load_root(ROOT.load(Relaxed)) };
    descriptors::init(core, syscall_entry as *const () as u64);
    apic::join(features.tsc_deadline);
    STAGE.store(ALIVE, Release);
    stage(ASKED);
    TICKS.store(read_tsc(), Relaxed);
    STAGE.store(TOLD, Release);
    stage(SETTLED);
    let off = TICKS.load(Relaxed);
    if off != 0 {
        // SAFETY: the time stamp counter is nobody's but the nucleus's.
        unsafe { cpu::write_msr(cpu::TIME_STAMP_COUNTER, read_tsc().wrapping_add(off)) };
    }
    debug_assert!(core < PER_CPU.len());
    // SAFETY: everything that belongs to this processor is loaded.
    unsafe { boot_end::take_part() }
}
