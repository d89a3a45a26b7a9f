//! What cores ask of each other. The one that asks has the nucleus lock, so there is one at a time; the one that is asked answers in an interrupt of its own
//! vector, without the lock, wherever it is: in a program, idle, or while it waits for the lock itself. Then its interrupts are off, and it looks here again and again; after a while
//! it sleeps, for this one vector only, until it is its turn or somebody asks. (A core that waits is soon served on a machine of its own, but not on one whose processors are threads of a busy host.)
//!
//! Everything that is handed over lies in the asked core's [`Mailbox`], written before the request's bit is set and read after it was seen. A bit is set by the
//! one that asks and cleared, when all is done, by the one that was asked; who asks waits for that before anything else.

use super::apic;
use super::cpu;
use super::descriptors;
use super::float::{self, FloatState};
use super::memory::PAGE;
use crate::arch::Frame;
use crate::cores::MOST;
use crate::lock::TicketLock;
use cairn_abi::state::Registers;
use core::arch::naked_asm;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};

/// Vectors: come in as by any interrupt; look into your mailbox.
pub const COME_IN_VECTOR: u8 = 0x3d;
pub const REQUEST_VECTOR: u8 = 0xf0;
/// Task priority that keeps all others away.
const REQUESTS_ONLY: u64 = REQUEST_VECTOR as u64 / 16 - 1;
/// How often a core looks before it sleeps.
const LOOKS: u32 = 200;

/// Forget the translations of the space in use.
pub const FLUSH: u32 = 1;
/// Store the float registers and bases.
const FETCH: u32 = 2;
/// Use the tables of `Mailbox::root`.
const USE_ROOT: u32 = 4;

/// No ticket.
const AWAKE: u64 = u64::MAX;

struct Mailbox {
    /// The core is in the nucleus: its thread's registers are stored, and it does nothing before it has the lock.
    inside: AtomicBool,
    wanted: AtomicU32,
    /// The ticket with which it sleeps before the lock.
    asleep: AtomicU64,
    /// Its local APIC.
    id: AtomicU32,
    float: AtomicPtr<FloatState>,
    registers: AtomicPtr<Registers>,
    root: AtomicU32,
}

static MAILBOXES: [Mailbox; MOST] = [const {
    Mailbox {
        inside: AtomicBool::new(false),
        wanted: AtomicU32::new(0),
        asleep: AtomicU64::new(AWAKE),
        id: AtomicU32::new(0),
        float: AtomicPtr::new(core::ptr::null_mut()),
        registers: AtomicPtr::new(core::ptr::null_mut()),
        root: AtomicU32::new(0),
    }
}; MOST];

/// XCR0, for those who store float registers without the lock.
static XSAVE_MASK: AtomicU64 = AtomicU64::new(0);

pub fn init(xsave_mask: u64) {
    XSAVE_MASK.store(xsave_mask, Relaxed);
}

/// This core has come into the nucleus, and has left it.
pub fn inside(core: usize, inside: bool) {
    MAILBOXES[core].inside.store(inside, SeqCst);
}

/// How many sleep before the lock.
static SLEEPERS: AtomicU32 = AtomicU32::new(0);

/// What a core does while it waits for the lock, the `times`-th time.
pub fn wait_before(lock: &TicketLock, ticket: u32, core: usize, times: u32) {
    serve(core);
    if times >= LOOKS {
        sleep_before(lock, ticket, core);
    }
}

#[cold]
fn sleep_before(lock: &TicketLock, ticket: u32, core: usize) {
    SLEEPERS.fetch_add(1, SeqCst);
    MAILBOXES[core].asleep.store(ticket as u64, SeqCst);
    cpu::set_task_priority(REQUESTS_ONLY);
    while !lock.is_turn(ticket) {
        cpu::sleep();
    }
    cpu::set_task_priority(0);
    MAILBOXES[core].asleep.store(AWAKE, SeqCst);
    SLEEPERS.fetch_sub(1, SeqCst);
}

/// It is this ticket's turn: wake who sleeps with it. The lock is not held any more; interrupts are off.
#[inline]
pub fn wake(ticket: u32) {
    if SLEEPERS.load(SeqCst) != 0 {
        wake_sleeper(ticket);
    }
}

#[cold]
fn wake_sleeper(ticket: u32) {
    let sleeps = |mailbox: &&Mailbox| mailbox.asleep.load(SeqCst) == ticket as u64;
    if let Some(mailbox) = MAILBOXES.iter().find(sleeps) {
        apic::send(mailbox.id.load(Relaxed), REQUEST_VECTOR);
    }
}

/// Do what others want of this core.
#[inline]
pub fn serve(core: usize) {
    let mailbox = &MAILBOXES[core];
    let wanted = mailbox.wanted.load(Acquire);
    if wanted != 0 {
        answer(mailbox, wanted);
    }
    core::hint::spin_loop();
}

#[cold]
fn answer(mailbox: &Mailbox, wanted: u32) {
    if wanted & FLUSH != 0 {
        cpu::forget_translations();
    }
    if wanted & USE_ROOT != 0 {
        // SAFETY: the one that asks has the template's root there, which maps the nucleus like all others.
        unsafe { cpu::load_root(mailbox.root.load(Relaxed) as u64 * PAGE) };
    }
    if wanted & FETCH != 0 {
        let (registers, state) = (mailbox.registers.load(Relaxed), mailbox.float.load(Relaxed));
        // SAFETY: both belong to a thread object that the one that asks has borrowed and leaves to this core until the bit is cleared.
        let (registers, state) = unsafe { (&mut *registers, &mut *state) };
        registers.fs_base = cpu::fs_base();
        registers.gs_base = cpu::user_gs_base();
        float::save(state, XSAVE_MASK.load(Relaxed));
    }
    mailbox.wanted.fetch_and(!wanted, Release);
}

/// The way in for a spurious interrupt: nothing happened.
///
/// # Safety
/// Reached by the processor only.
#[unsafe(naked)]
pub unsafe extern "C" fn spurious_entry() {
    naked_asm!("iretq")
}

/// What this core answers to [`REQUEST_VECTOR`].
///
/// # Safety
/// Called by [`request_entry`].
unsafe extern "C" fn on_request() {
    // SAFETY: GS leads to this processor's data.
    serve(unsafe { (*descriptors::own()).core });
    apic::end_of_interrupt();
}

/// The way in for [`REQUEST_VECTOR`]: from a program or from the idle loop, and back to it. Only what the function may change is put aside.
///
/// # Safety
/// Reached by the processor only.
#[unsafe(naked)]
pub unsafe extern "C" fn request_entry() {
    naked_asm!(
        "test byte ptr [rsp + 8], 3",
        "jz 2f",
        "swapgs",
        "2:",
        "cld",
        "clac",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "call {on_request}",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "test byte ptr [rsp + 8], 3",
        "jz 3f",
        "swapgs",
        "3:",
        "iretq",
        on_request = sym on_request,
    )
}

/// Who asks: the cores by number, and the way to reach them. The nucleus lock is held.
pub struct Others {
    pub count: usize,
    /// Those that have to forget translations before this core leaves.
    stale: u32,
}

impl Others {
    /// Core 0 alone.
    pub const fn new() -> Others {
        Others { count: 1, stale: 0 }
    }

    /// Core number `core` is the one with this local APIC.
    pub fn add(&mut self, core: usize, id: u32) {
        MAILBOXES[core].id.store(id, Relaxed);
        self.count = self.count.max(core + 1);
    }

    pub fn kick(&self, core: usize) {
        apic::send(MAILBOXES[core].id.load(Relaxed), COME_IN_VECTOR);
    }

    /// Wait until the core is in the nucleus: from then on it waits for the lock.
    pub fn bring_in(&self, core: usize) {
        let inside = &MAILBOXES[core].inside;
        if !inside.load(SeqCst) {
            self.kick(core);
            while !inside.load(SeqCst) {
                core::hint::spin_loop();
            }
        }
    }

    fn ask(&self, core: usize, wanted: u32) {
        MAILBOXES[core].wanted.fetch_or(wanted, AcqRel);
        apic::send(MAILBOXES[core].id.load(Relaxed), REQUEST_VECTOR);
    }

    fn wait_for(&self, core: usize) {
        while MAILBOXES[core].wanted.load(Acquire) != 0 {
            core::hint::spin_loop();
        }
    }

    pub fn fetch(&self, core: usize, registers: &mut Registers, state: &mut FloatState) {
        MAILBOXES[core].registers.store(registers, Relaxed);
        MAILBOXES[core].float.store(state, Relaxed);
        self.ask(core, FETCH);
        self.wait_for(core);
    }

    pub fn use_root(&self, core: usize, root: Frame) {
        MAILBOXES[core].root.store(root, Relaxed);
        self.ask(core, USE_ROOT);
        self.wait_for(core);
    }

    /// These cores (a bit each) may hold translations that are not true any more.
    #[inline(always)]
    pub fn stale(&mut self, cores: u32) {
        self.stale |= cores;
    }

    /// Have them forgotten; nothing that was changed may be handed on before.
    #[inline]
    pub fn settle(&mut self) {
        if self.stale != 0 {
            self.shoot_down();
        }
    }

    #[cold]
    fn shoot_down(&mut self) {
        let stale = core::mem::take(&mut self.stale);
        let cores = || (0..self.count).filter(|core| stale & 1 << core != 0);
        for core in cores() {
            self.ask(core, FLUSH);
        }
        for core in cores() {
            self.wait_for(core);
        }
    }
}
