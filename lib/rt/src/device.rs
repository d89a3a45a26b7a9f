//! Device registers that the manifest gave (`device-memory = { NAME = [address, length] }`).

use crate::startup;
use cairn_abi::layout;

/// A range of registers. What a device returns is not to be trusted: it may change at any time and need not be what was written.
#[derive(Debug)]
pub struct Registers {
    base: *mut u8,
    len: usize,
}

fn number(text: &str) -> Option<usize> {
    usize::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

impl Registers {
    /// The range of this name.
    pub fn named(name: &str) -> Option<Registers> {
        let (base, len) = startup::argument(name)?.split_once(':')?;
        let (base, len) = (number(base)?, number(len)?);
        // Nothing but what `init` maps there lies in that part of the layout.
        if (base as u64) < cairn_abi::layout::DEVICES {
            return None;
        }
        Some(Registers {
            base: base as *mut u8,
            len,
        })
    }

    /// A range that another component (the bus's) had shown at this address; None where no device registers can be.
    pub fn shown(address: u64, len: u64) -> Option<Registers> {
        let end = address.checked_add(len)?;
        let devices = layout::DEVICES..layout::NATIVE_STACK_TOP - layout::NATIVE_STACK_SIZE;
        (devices.contains(&address) && end <= devices.end).then_some(Registers {
            base: address as *mut u8,
            len: len as usize,
        })
    }

    /// Where they begin, for the nucleus ([`cairn_abi::hasty::More`]).
    pub fn address(&self) -> u64 {
        self.base as u64
    }

    /// The register of this type at byte `offset`; `None` outside of the range or if it is not aligned.
    fn at<T>(&self, offset: usize) -> Option<*mut T> {
        let size = size_of::<T>();
        let inside = offset.is_multiple_of(size) && offset.checked_add(size)? <= self.len;
        // Device memory has no objects of the language in it, so the pointer is computed as a number.
        inside.then(|| self.base.wrapping_add(offset).cast())
    }

    /// Memory that is shown there for a device and this program: its cache line goes to memory, for a device that does not look into the processor's caches.
    pub fn write_back(&self, offset: usize) {
        if let Some(place) = self.at::<u64>(offset) {
            // SAFETY: as in `read32`; the instruction changes nothing that a program can see.
            unsafe {
                core::arch::asm!("clflush [{}]", "mfence", in(reg) place, options(nostack, preserves_flags));
            }
        }
    }

    /// All ones outside of the range, as where no device answers.
    pub fn read64(&self, offset: usize) -> u64 {
        match self.at::<u64>(offset) {
            // SAFETY: as in `read32`.
            Some(register) => unsafe { register.read_volatile() },
            None => u64::MAX,
        }
    }

    /// All ones outside of the range, as where no device answers.
    pub fn read32(&self, offset: usize) -> u32 {
        match self.at::<u32>(offset) {
            // SAFETY: within the part of the layout where nothing but device memory is ever mapped, for as long as this domain lives, and aligned; where none is, the domain ends.
            Some(register) => unsafe { register.read_volatile() },
            None => u32::MAX,
        }
    }

    pub fn read16(&self, offset: usize) -> u16 {
        match self.at::<u16>(offset) {
            // SAFETY: as in `read32`.
            Some(register) => unsafe { register.read_volatile() },
            None => u16::MAX,
        }
    }

    pub fn read8(&self, offset: usize) -> u8 {
        match self.at::<u8>(offset) {
            // SAFETY: as in `read32`.
            Some(register) => unsafe { register.read_volatile() },
            None => u8::MAX,
        }
    }

    pub fn write64(&self, offset: usize, value: u64) {
        if let Some(register) = self.at::<u64>(offset) {
            // SAFETY: as in `write32`.
            unsafe { register.write_volatile(value) };
        }
    }

    pub fn write32(&self, offset: usize, value: u32) {
        if let Some(register) = self.at::<u32>(offset) {
            // SAFETY: as in `read32`; the range holds registers only, nobody's memory.
            unsafe { register.write_volatile(value) };
        }
    }

    pub fn write16(&self, offset: usize, value: u16) {
        if let Some(register) = self.at::<u16>(offset) {
            // SAFETY: as in `write32`.
            unsafe { register.write_volatile(value) };
        }
    }

    pub fn write8(&self, offset: usize, value: u8) {
        if let Some(register) = self.at::<u8>(offset) {
            // SAFETY: as in `write32`.
            unsafe { register.write_volatile(value) };
        }
    }
}
