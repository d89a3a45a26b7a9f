//! Start of the other processors (Intel SDM volume 3, 9.4; MultiProcessor Specification 1.4, appendix B.4): one after the other is woken in real mode on a page below
//! 1 MiB, goes to long mode with the tables of the first instructions, and comes to [`start_other`] on its own nucleus stack. It loads what the first one has
//! loaded, has its clock compared, and waits ([`super::boot_end`]) until the first one says go.
//!
//! A processor that does not come in time is given up, but may come later: its host has kept it from running, and INIT and the start messages become one when it runs again. So
//! only the one that is expected leaves the first page, once, and with the stack ([`boot32::expected`]); all others wait there for ever, also when boot's code is gone.

use super::apic;
use super::boot32;
use super::boot_end;
use super::clock::Clock;
use super::console;
use super::cpu::{self, read_tsc};
use super::descriptors::{self, PER_CPU};
use super::entry::syscall_entry;
use super::memory::{DIRECT_MAP, PAGE};
use super::pvh::{BootInfo, Kind, Range};
use super::Machine;
use crate::arch::Frame;
use crate::boot::memory::Frames;
use crate::cores::MOST;
use crate::log::Line;
use crate::queue::Lists;
use crate::Kernel;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// The page on which they begin.
const START_PAGE: u64 = 8;

/// Number of the core that starts now.
static STARTING: AtomicUsize = AtomicUsize::new(0);
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
const DONE: usize = 5;

/// How long to wait, in ns: after INIT, after the first start message, and until a core that was started twice has come.
pub struct Waits {
    after_init: u64,
    after_start: u64,
    patience: u64,
}

pub const WAITS: Waits = Waits {
    after_init: 10_000_000,
    after_start: 200_000,
    patience: 1_000_000_000,
};

/// For a test (`nucleus.hurry` on the command line): so short that cores come late.
pub const HURRY: Waits = Waits {
    after_init: 1_000,
    after_start: 1_000,
    patience: 50_000,
};

/// The page on which they begin. It stays theirs, and has to be shown in the direct map.
pub fn page() -> Frames {
    Frames {
        first: START_PAGE as Frame,
        end: START_PAGE as Frame + 1,
    }
}

/// The number of the local APIC that is expected.
fn expected() -> &'static AtomicU32 {
    let address = DIRECT_MAP + START_PAGE * PAGE + boot32::expected() as u64;
    // SAFETY: an aligned word in the page of the first instructions, which is nobody else's and shown for good; all that use it use it so.
    unsafe { &*(address as *const AtomicU32) }
}

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
/// Once, before interrupts or user mode, after [`prepare`] with success and with [`page`] in the direct map. Each of `lists` must be nobody else's, and empty.
pub unsafe fn start(
    kernel: &mut Kernel<Machine>,
    ids: &[u32],
    waits: &Waits,
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
        if start_one(&clock, core, id, waits) {
            if kernel.add_core(lists) != Some(core) {
                break;
            }
            kernel.arch.add_core(core, id);
            started += 1;
        } else {
            let mut line = Line::new();
            line.number("nucleus: the processor with local APIC ", id.into());
            line.text(" did not start\n");
            console::write(line.as_bytes());
        }
    }
    started
}

fn start_one(clock: &Clock, core: usize, id: u32, waits: &Waits) -> bool {
    // The processor finds out the last eight bits only.
    let number = id & 0xff;
    STAGE.store(0, SeqCst);
    boot32::OTHER_STACK.store(descriptors::stack_end(core), Relaxed);
    STARTING.store(core, Relaxed);
    expected().store(number, SeqCst);
    let stage = |wanted| move || STAGE.load(Acquire) >= wanted;
    apic::send_init(id);
    wait(clock, waits.after_init, || false);
    apic::send_start(id, START_PAGE as u8);
    if !wait(clock, waits.after_start, stage(ALIVE)) {
        apic::send_start(id, START_PAGE as u8);
        if !wait(clock, waits.patience, stage(ALIVE))
            && expected().swap(boot32::NOBODY, SeqCst) == number
        {
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
    // Before it has seen that the next one's start may not begin.
    wait(clock, u64::MAX, stage(DONE));
    true
}

fn stage(wanted: usize) {
    while STAGE.load(Acquire) != wanted {
        core::hint::spin_loop();
    }
}

/// Called by the first instructions of another core, on its nucleus stack, with interrupts off.
pub extern "C" fn start_other() -> ! {
    let core = STARTING.load(Relaxed);
    let Ok(features) = cpu::init() else {
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
    STAGE.store(DONE, Release);
    if off != 0 {
        // SAFETY: the time stamp counter is nobody's but the nucleus's.
        unsafe { cpu::write_msr(cpu::TIME_STAMP_COUNTER, read_tsc().wrapping_add(off)) };
    }
    debug_assert!(core < PER_CPU.len());
    // SAFETY: everything that belongs to this processor is loaded.
    unsafe { boot_end::take_part() }
}
