//! The machine half of [`crate::requests`]: vectors, local APICs, and what goes with a request, which lies in the asked core's [`Parcel`].

use super::apic;
use super::cpu;
use super::descriptors;
use super::float::{self, FloatState};
use super::memory::PAGE;
use crate::arch::Frame;
use crate::cores::MOST;
use crate::lock::TicketLock;
use crate::requests::{Requests, Wires, ENTER_AT, EVERYTHING, FETCH, FLUSH, PASS, USE_ROOT};
use cairn_abi::state::Registers;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Vectors: come in as by any interrupt; look into your mailbox.
pub const COME_IN_VECTOR: u8 = 0x3d;
pub const REQUEST_VECTOR: u8 = 0xf0;
/// Task priority that keeps all others away.
const REQUESTS_ONLY: u64 = REQUEST_VECTOR as u64 / 16 - 1;

/// What goes with requests. [`Requests`] orders its writing and reading.
struct Parcel {
    /// The core's local APIC.
    id: AtomicU32,
    float: AtomicPtr<FloatState>,
    registers: AtomicPtr<Registers>,
    root: AtomicU32,
    entry: AtomicU64,
}

static PARCELS: [Parcel; MOST] = [const {
    Parcel {
        id: AtomicU32::new(0),
        float: AtomicPtr::new(core::ptr::null_mut()),
        registers: AtomicPtr::new(core::ptr::null_mut()),
        root: AtomicU32::new(0),
        entry: AtomicU64::new(0),
    }
}; MOST];

/// That of a core; they are numbered below [`MOST`].
#[inline(always)]
fn parcel(core: usize) -> &'static Parcel {
    &PARCELS[core % MOST]
}

static REQUESTS: Requests = Requests::new();

/// XCR0, for those who store float registers without the lock.
static XSAVE_MASK: AtomicU64 = AtomicU64::new(0);

pub fn init(xsave_mask: u64) {
    XSAVE_MASK.store(xsave_mask, Relaxed);
}

/// The processors' own.
struct Apics;

impl Wires for Apics {
    fn looks(&self) -> u32 {
        200
    }

    fn kick(&self, core: usize) {
        apic::send(parcel(core).id.load(Relaxed), COME_IN_VECTOR);
    }

    fn alert(&self, core: usize) {
        apic::send(parcel(core).id.load(Relaxed), REQUEST_VECTOR);
    }

    fn alerts_only(&self, only: bool) {
        cpu::set_task_priority(if only { REQUESTS_ONLY } else { 0 });
    }

    fn sleep(&self) {
        cpu::sleep();
    }

    fn pause(&self) {
        core::hint::spin_loop();
    }

    #[cold]
    fn obey(&self, core: usize, wanted: u32) {
        let parcel = parcel(core);
        if wanted & FLUSH != 0 {
            cpu::forget_translations();
        }
        if wanted & EVERYTHING != 0 {
            cpu::forget_everything();
        }
        if wanted & USE_ROOT != 0 {
            // SAFETY: the one that asks has the template's root there, which maps the nucleus like all others.
            unsafe { cpu::load_root(parcel.root.load(Relaxed) as u64 * PAGE) };
        }
        if wanted & PASS != 0 {
            cpu::serialize();
        }
        if wanted & ENTER_AT != 0 {
            // SAFETY: the one that asks has one of the two entries there.
            unsafe { cpu::write_msr(cpu::LSTAR, parcel.entry.load(Relaxed)) };
        }
        if wanted & FETCH != 0 {
            let (registers, state) = (parcel.registers.load(Relaxed), parcel.float.load(Relaxed));
            // SAFETY: both belong to a thread object that the one that asks has borrowed and leaves to this core until the bit is cleared.
            let (registers, state) = unsafe { (&mut *registers, &mut *state) };
            registers.fs_base = cpu::fs_base();
            registers.gs_base = cpu::user_gs_base();
            float::save(state, XSAVE_MASK.load(Relaxed));
        }
    }
}

/// This core comes into the nucleus, the registers of its thread stored, and has the lock afterwards.
pub fn come_in(lock: &TicketLock, core: usize) {
    REQUESTS.come_in(&Apics, lock, core);
}

/// It is done, and lets others in. Interrupts are off.
pub fn go_out(lock: &TicketLock, core: usize) {
    REQUESTS.go_out(&Apics, lock, core);
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
    REQUESTS.serve(&Apics, unsafe { (*descriptors::own()).core });
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
        parcel(core).id.store(id, Relaxed);
        self.count = self.count.max(core + 1);
    }

    pub fn kick(&self, core: usize) {
        Apics.kick(core);
    }

    /// Wait until the core is in the nucleus: from then on it waits for the lock.
    pub fn bring_in(&self, core: usize) {
        REQUESTS.bring_in(&Apics, core);
    }

    pub fn fetch(&self, core: usize, registers: &mut Registers, state: &mut FloatState) {
        parcel(core).registers.store(registers, Relaxed);
        parcel(core).float.store(state, Relaxed);
        REQUESTS.ask(&Apics, core, FETCH);
    }

    pub fn use_root(&self, core: usize, root: Frame) {
        parcel(core).root.store(root, Relaxed);
        REQUESTS.ask(&Apics, core, USE_ROOT);
    }

    /// All but core `here` take `syscall` at this entry from now on.
    pub fn enter_at(&self, here: usize, entry: u64) {
        for core in (0..self.count).filter(|&core| core != here) {
            parcel(core).entry.store(entry, Relaxed);
            REQUESTS.ask(&Apics, core, ENTER_AT);
        }
    }

    /// All but this core have been interrupted, or were waiting for the lock, and fetch their instructions anew.
    pub fn pass(&self) {
        self.ask_all(PASS);
    }

    /// No core has any translations, also those that are global and the same for all.
    pub fn forget_everything(&self) {
        cpu::forget_everything();
        self.ask_all(EVERYTHING);
    }

    /// All but this core, also those that have nothing to do.
    #[inline(never)]
    fn ask_all(&self, wanted: u32) {
        // SAFETY: GS leads to this processor's data.
        let here = unsafe { (*descriptors::own()).core };
        for core in (0..self.count).filter(|&core| core != here) {
            REQUESTS.ask(&Apics, core, wanted);
        }
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
            REQUESTS.shoot_down(&Apics, core::mem::take(&mut self.stale));
        }
    }
}
