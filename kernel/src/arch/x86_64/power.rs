//! Ending: power off, reset, leave QEMU with a code. Each tries what the machine offered, then what machines usually have, then stops the processor.

use super::acpi::{Acpi, Register};
use super::cpu;
use super::ports::{in16, in8, out16, out32, out8};

/// QEMU's isa-debug-exit.
const DEBUG_EXIT: u16 = 0xf4;
/// PM1a control of QEMU's PC machines without tables.
const QEMU_PM1A: u16 = 0x604;
const SLEEP_ENABLE: u16 = 1 << 13;
/// A fraction of a second in ticks.
const PATIENCE: u64 = 500_000_000;
const SLEEP_TYPE_MASK: u16 = 7 << 10;

/// What the machine offers; memory registers are already mapped.
#[derive(Clone, Copy, Default)]
pub struct Power {
    pub pm1_control: [Option<u16>; 2],
    pub sleep_type: u8,
    pub sleep_control: Option<Mapped>,
    pub reset: Option<(Mapped, u8)>,
}

/// A byte-wide register.
#[derive(Clone, Copy)]
pub enum Mapped {
    Port(u16),
    Memory(*mut u8),
}

impl Mapped {
    fn write(self, value: u8) {
        match self {
            Mapped::Port(port) => out8(port, value),
            // SAFETY: the register was mapped at start and belongs to no memory.
            Mapped::Memory(pointer) => unsafe { pointer.write_volatile(value) },
        }
    }
}

impl Power {
    /// `map` shows a physical register byte.
    pub fn new(acpi: &Acpi, mut map: impl FnMut(u64) -> Option<*mut u8>) -> Power {
        let mut mapped = |register| match register {
            Register::Port(port) => Some(Mapped::Port(port)),
            Register::Memory(address) => map(address).map(Mapped::Memory),
        };
        Power {
            pm1_control: acpi.pm1_control,
            sleep_type: acpi.sleep_type,
            sleep_control: acpi.sleep_control.and_then(&mut mapped),
            reset: acpi
                .reset
                .and_then(|(register, value)| Some((mapped(register)?, value))),
        }
    }

    pub fn off(&self) -> ! {
        let sleep = (self.sleep_type as u16 & 7) << 10 | SLEEP_ENABLE;
        for port in self.pm1_control.into_iter().flatten() {
            out16(port, in16(port) & !SLEEP_TYPE_MASK | sleep);
        }
        if let Some(control) = self.sleep_control {
            control.write((self.sleep_type & 7) << 2 | 1 << 5);
        }
        wait();
        out16(QEMU_PM1A, SLEEP_ENABLE);
        wait();
        exit(0);
        cpu::halt()
    }

    pub fn reset(&self) -> ! {
        if let Some((register, value)) = self.reset {
            register.write(value);
            wait();
        }
        // Chipset reset control, then the keyboard controller.
        out8(0xcf9, 2);
        out8(0xcf9, 6);
        wait();
        let mut patience = 100_000;
        while in8(0x64) & 2 != 0 && patience > 0 {
            patience -= 1;
        }
        out8(0x64, 0xfe);
        cpu::halt()
    }
}

/// Machines end some time after they were told to: let that happen before anything else is tried.
fn wait() {
    let start = cpu::read_tsc();
    while cpu::read_tsc().wrapping_sub(start) < PATIENCE {
        core::hint::spin_loop();
    }
}

/// Leave QEMU, if its device is there: its exit status is `code * 2 + 1`.
pub fn exit(code: u64) {
    out32(DEBUG_EXIT, code as u32);
}
