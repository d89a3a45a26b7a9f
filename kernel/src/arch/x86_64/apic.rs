//! The local APIC (Intel SDM volume 3, chapter 11): the timer and the end-of-interrupt signal. Registers in memory, or in model-specific
//! registers if the firmware has already chosen that mode.

use super::clock::Clock;
use super::cpu::{read_msr, read_tsc, write_msr, APIC_BASE, TSC_DEADLINE};
use crate::cores;
use core::arch::asm;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

const ID: u32 = 0x20;
const TASK_PRIORITY: u32 = 0x80;
/// Which of vectors 32 to 159 are asked for: all that the nucleus takes and more.
const ASKED: [u32; 4] = [0x210, 0x220, 0x230, 0x240];
pub const END_OF_INTERRUPT: u32 = 0xb0;
const SPURIOUS: u32 = 0xf0;
const COMMAND: u32 = 0x300;
const DESTINATION: u32 = 0x310;
const LVT_TIMER: u32 = 0x320;
const LVT_THERMAL: u32 = 0x330;
const LVT_PERFORMANCE: u32 = 0x340;
const LVT_LINT0: u32 = 0x350;
const LVT_LINT1: u32 = 0x360;
const LVT_ERROR: u32 = 0x370;
const INITIAL_COUNT: u32 = 0x380;
const CURRENT_COUNT: u32 = 0x390;
const DIVIDE: u32 = 0x3e0;

const MASKED: u32 = 1 << 16;
/// In a command: still on its way; asserted; what it is.
const PENDING: u32 = 1 << 12;
const ASSERT: u32 = 1 << 14;
const INIT: u32 = 5 << 8;
const START: u32 = 6 << 8;
const EXTERNAL: u32 = 7 << 8;
const NON_MASKABLE: u32 = 4 << 8;
const TIMER_DEADLINE: u32 = 2 << 17;
const ENABLED_IN_MSR: u64 = 1 << 11;
const X2_IN_MSR: u64 = 1 << 10;

/// How long the counter's rate is measured.
const MEASURE_NS: u64 = 500_000;

/// Vector of the timer interrupt and of spurious ones.
pub const TIMER_VECTOR: u8 = 0x30;
pub const SPURIOUS_VECTOR: u8 = 0x3f;

/// The mapped registers for those who do not have the nucleus lock; null: model-specific registers.
pub static REGISTERS: AtomicPtr<u32> = AtomicPtr::new(core::ptr::null_mut());

/// The interrupt that this processor is in has been seen to.
#[inline(never)]
pub fn end_of_interrupt() {
    let registers = REGISTERS.load(Relaxed);
    if registers.is_null() {
        // SAFETY: ends an interrupt.
        unsafe { write_msr(0x800 + (END_OF_INTERRUPT >> 4), 0) };
    } else {
        // SAFETY: `registers` shows the APIC's page, at the same address on each processor.
        unsafe {
            registers
                .add(END_OF_INTERRUPT as usize / 4)
                .write_volatile(0)
        };
    }
}

/// Send a command to another processor. What was written before is seen by what it brings about. Interrupts must be off.
#[inline(never)]
fn command(id: u32, command: u32) {
    let registers = REGISTERS.load(Relaxed);
    if registers.is_null() {
        // This register, unlike mapped ones, is written without waiting for stores before it.
        // SAFETY: fences; sends a message to another processor.
        unsafe {
            asm!("mfence", "lfence", options(nostack, preserves_flags));
            write_msr(0x800 + (COMMAND >> 4), (id as u64) << 32 | command as u64);
        }
    } else {
        // SAFETY: `registers` shows the APIC's page, at the same address on each processor; sends a message to another one.
        unsafe {
            let low = registers.add(COMMAND as usize / 4);
            wait_until_sent(low);
            registers
                .add(DESTINATION as usize / 4)
                .write_volatile(id << 24);
            low.write_volatile(command);
        }
    }
}

/// The command before this one is on its way no longer; this is its register.
///
/// # Safety
/// `low` must be the register of commands.
unsafe fn wait_until_sent(low: *mut u32) {
    // SAFETY: by the contract.
    while unsafe { low.read_volatile() } & PENDING != 0 {
        core::hint::spin_loop();
    }
}

/// Switch on that of another processor, on it, before anything is sent to it.
pub fn join(deadline_mode: bool) {
    let registers = REGISTERS.load(Relaxed);
    let mode = read_msr(APIC_BASE) | ENABLED_IN_MSR;
    // All in the same mode. INIT leaves an APIC off or as it was; to come from mapped registers to the others is allowed.
    let x2 = if registers.is_null() { X2_IN_MSR } else { 0 };
    // SAFETY: switches the APIC on, at the place where it is.
    unsafe {
        write_msr(APIC_BASE, mode);
        write_msr(APIC_BASE, mode | x2);
    }
    let mut apic = LocalApic {
        registers: (!registers.is_null()).then_some(registers),
        deadline_mode,
        rate: 0,
        armed: false,
        away: [false; cores::MOST],
    };
    apic.prepare(false);
}

/// Interrupt another processor.
pub fn send(id: u32, vector: u8) {
    command(id, ASSERT | vector as u32);
}

/// Have a processor wait for its start.
pub fn send_init(id: u32) {
    command(id, ASSERT | INIT);
}

/// Start it at the beginning of this page.
pub fn send_start(id: u32, page: u8) {
    command(id, ASSERT | START | page as u32);
}

/// The local APIC of the processor that is in the nucleus: its registers are at the same place on each.
pub struct LocalApic {
    /// Mapped registers; None: model-specific registers.
    registers: Option<*mut u32>,
    deadline_mode: bool,
    /// Counts in a nanosecond without deadline mode, times 2³², rounded up.
    rate: u64,
    /// The timer of the core that is in the nucleus is set.
    armed: bool,
    /// The same of the others.
    away: [bool; cores::MOST],
}

/// Physical address of the registers, from the processor.
pub fn base() -> u64 {
    read_msr(APIC_BASE) & 0x000f_ffff_ffff_f000
}

impl LocalApic {
    /// Switch it on. `registers` is where its page is mapped (uncached). With `external` the 8259s are heard through it.
    pub fn new(registers: *mut u32, deadline_mode: bool, external: bool) -> LocalApic {
        let mode = read_msr(APIC_BASE);
        // SAFETY: switches the APIC on, at the place where it is.
        unsafe { write_msr(APIC_BASE, mode | ENABLED_IN_MSR) };
        let mut apic = LocalApic {
            registers: (mode & X2_IN_MSR == 0).then_some(registers),
            deadline_mode,
            rate: 0,
            armed: false,
            away: [false; cores::MOST],
        };
        if let Some(registers) = apic.registers {
            REGISTERS.store(registers, Relaxed);
        }
        apic.prepare(external);
        apic
    }

    fn prepare(&mut self, external: bool) {
        self.write(TASK_PRIORITY, 0);
        self.write(SPURIOUS, 0x100 | SPURIOUS_VECTOR as u32);
        self.write(LVT_LINT0, if external { EXTERNAL } else { MASKED });
        self.write(LVT_LINT1, NON_MASKABLE);
        for unused in [LVT_THERMAL, LVT_PERFORMANCE, LVT_ERROR] {
            self.write(unused, MASKED | SPURIOUS_VECTOR as u32);
        }
        self.write(DIVIDE, 0xb);
        let mode = if self.deadline_mode {
            TIMER_DEADLINE
        } else {
            0
        };
        self.write(LVT_TIMER, mode | TIMER_VECTOR as u32);
        // The mode has come before the first deadline does: neither mapped registers nor these are written in order with TSC_DEADLINE (Intel SDM volume 3, 11.5.4.1).
        // SAFETY: fences.
        unsafe { asm!("mfence", "lfence", options(nostack, preserves_flags)) };
    }

    fn read(&self, register: u32) -> u32 {
        match self.registers {
            // SAFETY: `registers` shows the APIC's page; every register is a 32-bit word in it.
            Some(base) => unsafe { base.add(register as usize / 4).read_volatile() },
            None => read_msr(0x800 + (register >> 4)) as u32,
        }
    }

    fn write(&mut self, register: u32, value: u32) {
        match self.registers {
            // SAFETY: as for `read`; the values written here set up the timer and vectors of the nucleus.
            Some(base) => unsafe { base.add(register as usize / 4).write_volatile(value) },
            // SAFETY: as above.
            None => unsafe { write_msr(0x800 + (register >> 4), value as u64) },
        }
    }

    /// Destination for I/O APIC entries.
    pub fn id(&self) -> u32 {
        let value = self.read(ID);
        if self.registers.is_some() {
            value >> 24
        } else {
            value
        }
    }

    /// Measure the timer's rate against the clock.
    pub fn calibrate(&mut self, clock: &Clock) {
        if self.deadline_mode {
            return;
        }
        self.write(LVT_TIMER, MASKED | TIMER_VECTOR as u32);
        self.write(INITIAL_COUNT, u32::MAX);
        let start = read_tsc();
        let first = self.read(CURRENT_COUNT);
        while clock.to_ns(read_tsc().wrapping_sub(start)) < MEASURE_NS {
            core::hint::spin_loop();
        }
        let last = self.read(CURRENT_COUNT);
        let ns = clock.to_ns(read_tsc().wrapping_sub(start)).max(1);
        self.write(INITIAL_COUNT, 0);
        self.write(LVT_TIMER, TIMER_VECTOR as u32);
        // At least 1 kHz.
        let counts = (first.wrapping_sub(last) as u64).max(1 + ns / 1_000_000);
        self.rate = (((counts as u128) << 32).div_ceil(ns as u128)) as u64;
    }

    /// Another core is in the nucleus; the registers are its own.
    pub fn exchange(&mut self, from: usize, to: usize) {
        self.away[from % cores::MOST] = self.armed;
        self.armed = self.away[to % cores::MOST];
    }

    /// One interrupt at `deadline` (or earlier if the counter does not reach so far: the portable part asks again), or none.
    pub fn set_timer(&mut self, clock: &Clock, deadline: Option<u64>) {
        let Some(deadline) = deadline else {
            if self.armed {
                self.armed = false;
                self.stop();
            }
            return;
        };
        self.armed = true;
        if self.deadline_mode {
            // 0 would disarm; a tick in the past fires at once.
            // SAFETY: arms the timer.
            unsafe { write_msr(TSC_DEADLINE, clock.tick_at(deadline).max(1)) };
        } else {
            let ns = deadline.saturating_sub(clock.now());
            let counts = ((ns as u128 * self.rate as u128) >> 32) + 1;
            self.write(INITIAL_COUNT, u32::try_from(counts).unwrap_or(u32::MAX));
        }
    }

    fn stop(&mut self) {
        if self.deadline_mode {
            // SAFETY: disarms the timer.
            unsafe { write_msr(TSC_DEADLINE, 0) };
        } else {
            self.write(INITIAL_COUNT, 0);
        }
    }

    pub fn end_of_interrupt(&mut self) {
        end_of_interrupt();
    }

    /// Some vector is asked for and not taken yet.
    #[inline(always)]
    pub fn asked(&self) -> bool {
        ASKED.iter().fold(0, |all, &word| all | self.read(word)) != 0
    }

    /// A vector other than this one is.
    pub fn asked_beside(&self, vector: u8) -> bool {
        ASKED.iter().zip(0..).any(|(&word, index)| {
            let own = (vector / 32 == index) as u32 * (1 << (vector % 32));
            self.read(word) & !own != 0
        })
    }

    /// Send a vector to this processor itself.
    #[inline(never)]
    pub fn interrupt_self(&mut self, vector: u8) {
        if let Some(registers) = self.registers {
            // SAFETY: `registers` shows the APIC's page.
            unsafe { wait_until_sent(registers.add(COMMAND as usize / 4)) };
        }
        // Shorthand "self", edge, assert.
        self.write(COMMAND, 1 << 18 | 1 << 14 | vector as u32);
    }
}
