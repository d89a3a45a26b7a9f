//! What drivers get: each the function that its portal's badge names, and of that only what this file gives.
//!
//! A driver whose device may be bus master can make it write anywhere, unless there is an IOMMU: `vm` is told whose device it is and shows it its driver's memory only. Messages are no wall: a device can send whichever it likes.

use crate::config::*;
use alloc::vec::Vec;
use cairn_abi::layout::{DEVICES, DEVICE_RANGE, PAGE};
use cairn_idl::errno::*;
use cairn_idl::pci::{self, Bar, Function, WindowAnswer, ALL, BARS, REGISTERS, WINDOW_MAX};
use cairn_idl::wire::{Caller, Errno};

/// What the server needs of the system.
pub trait Outside {
    /// Show device memory at this address of a domain's space, or (None) of the server's own.
    fn show(
        &mut self,
        domain: Option<u32>,
        address: u64,
        physical: u64,
        length: u64,
    ) -> Result<(), Errno>;
    /// Write a word to device memory that was shown to the server.
    fn write(&mut self, address: u64, value: u32);
    /// Where and what a device must write to raise the interrupt that this portal leads to; None if it is none of that sort.
    fn message(&mut self, interrupt: u32) -> Option<(u64, u32)>;
    /// From now on a function is for this domain to use.
    fn attach(&mut self, domain: u32, function: Address) -> Result<(), Errno>;
    fn close(&mut self, portal: u32);
}

pub struct Bus<C, O> {
    config: C,
    outside: O,
    functions: Vec<Function>,
}

/// Ranges of the layout that `init` uses for the manifest's device memory; the windows come behind them.
const FIRST_RANGE: u64 = 64;
/// Bytes of an entry of MSI-X's table.
const ENTRY: u64 = 16;
/// In its last word: no message is sent.
const ENTRY_MASKED: u32 = 1;

impl<C: Config, O: Outside> Bus<C, O> {
    pub fn new(mut config: C, outside: O) -> Bus<C, O> {
        let functions = crate::scan::scan(&mut config);
        Bus {
            config,
            outside,
            functions,
        }
    }

    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function that this badge is for.
    fn of(&self, badge: u64) -> Result<(usize, Address), Errno> {
        let (identity, nth) = (badge as u32, (badge >> 32) as usize);
        let mut alike = self.functions.iter().enumerate();
        alike
            .by_ref()
            .filter(|(_, function)| function.identity == identity)
            .nth(nth)
            .map(|(index, function)| (index, function.address as Address))
            .ok_or(ENODEV)
    }

    /// Set and clear bits of the command register; the status bits stay.
    fn command(&mut self, at: Address, set: u32, clear: u32) {
        let before = self.config.read(at, COMMAND) & !command::STATUS;
        self.config.write(at, COMMAND, before & !clear | set);
    }

    /// Address and length of a memory register that has an address.
    fn memory(&self, index: usize, bar: usize) -> Option<(u64, u64)> {
        let function = self.functions.get(index)?;
        let memory = *function.kinds.get(bar)? == Bar::Memory.word();
        let (base, length) = (*function.bases.get(bar)?, *function.lengths.get(bar)?);
        let sane = base != 0 && base.checked_add(length).is_some();
        (memory && sane).then_some((base, length))
    }

    /// Where a window is shown, and the whole pages that it is in.
    fn place(index: usize, bar: usize, (base, length): (u64, u64)) -> (u64, u64, u64) {
        let range = FIRST_RANGE + (index * 8 + bar) as u64;
        let first = base & !(PAGE - 1);
        let pages = (base + length - first).next_multiple_of(PAGE);
        (DEVICES + range * DEVICE_RANGE, first, pages)
    }

    pub fn show_window(&mut self, badge: u64, domain: u32, bar: u32) -> Result<(u64, u64), Errno> {
        let (index, at) = self.of(badge)?;
        let bar = bar as usize;
        let (base, length) = self.memory(index, bar).ok_or(ENXIO)?;
        if length > WINDOW_MAX {
            return Err(EFBIG);
        }
        let (address, first, pages) = Self::place(index, bar, (base, length));
        let others = (0..self.functions.len()).filter(|&other| other != index);
        let mut theirs = others.flat_map(|other| (0..BARS).map(move |bar| (other, bar)));
        if theirs.any(|(other, bar)| {
            self.memory(other, bar)
                .is_some_and(|(base, length)| base < first + pages && base + length > first)
        }) {
            return Err(EACCES);
        }
        self.outside.show(Some(domain), address, first, pages)?;
        self.command(at, command::MEMORY, 0);
        Ok((address + base % PAGE, length))
    }

    pub fn set_message(&mut self, badge: u64, vector: u32, interrupt: u32) -> Result<(), Errno> {
        let (index, at) = self.of(badge)?;
        let (to, what) = self.outside.message(interrupt).ok_or(EINVAL)?;
        let function = self.functions.get(index).ok_or(ENODEV)?;
        let (msix, count, msi) = (function.msix as u8, function.msix_count, function.msi as u8);
        if msix != 0 && vector < count {
            let entry = self.table_entry(index, at, msix, vector)?;
            for (i, value) in [ENTRY_MASKED, to as u32, (to >> 32) as u32, what, 0]
                .into_iter()
                .zip([12, 0, 4, 8, 12])
                .map(|(value, place)| (place, value))
            {
                self.outside.write(entry + i, value);
            }
            // Enabled, and not masked as a whole.
            let control = self.config.read(at, msix);
            self.config.write(at, msix, control & !(1 << 30) | 1 << 31);
        } else if msix == 0 && msi != 0 && vector == 0 {
            let control = self.config.read(at, msi);
            let wide = (control >> 23 & 1) as u8;
            self.config.write(at, msi + 4, to as u32);
            if wide == 1 {
                self.config.write(at, msi + 8, (to >> 32) as u32);
            }
            self.config.write(at, msi + 8 + 4 * wide, what);
            // One message, enabled.
            self.config.write(at, msi, control & !(7 << 20) | 1 << 16);
        } else {
            return Err(ENXIO);
        }
        self.command(at, command::NO_LINE, 0);
        Ok(())
    }

    /// Where the server sees an entry of a function's table of messages; the function decodes its memory from now on.
    fn table_entry(
        &mut self,
        index: usize,
        at: Address,
        msix: u8,
        vector: u32,
    ) -> Result<u64, Errno> {
        let table = self.config.read(at, msix.checked_add(4).ok_or(ENXIO)?);
        let bar = (table & 7) as usize;
        let (base, length) = self.memory(index, bar).ok_or(ENXIO)?;
        let offset = (table & !7) as u64 + vector as u64 * ENTRY;
        if offset + ENTRY > length {
            return Err(ENXIO);
        }
        let (address, ..) = Self::place(index, bar, (base, length));
        let (page, within) = ((base + offset) & !(PAGE - 1), (base + offset) % PAGE);
        self.outside.show(None, address, page, PAGE)?;
        self.command(at, command::MEMORY, 0);
        Ok(address + within)
    }

    pub fn set_master(&mut self, badge: u64, domain: u32, on: bool) -> Result<(), Errno> {
        let (_, at) = self.of(badge)?;
        match on {
            true => {
                self.outside.attach(domain, at)?;
                self.command(at, command::MASTER, 0);
            }
            false => self.command(at, 0, command::MASTER),
        }
        Ok(())
    }

    pub fn describe(&self, badge: u64, index: u32) -> Result<Function, Errno> {
        let index = match badge {
            ALL => index as usize,
            _ => self.of(badge)?.0,
        };
        let mut function = *self.functions.get(index).ok_or(ENODEV)?;
        function.count = self.functions.len() as u32;
        Ok(function)
    }
}

impl<C: Config, O: Outside> pci::Server for Bus<C, O> {
    fn info<K: Caller>(&mut self, caller: &K, index: u32) -> Result<Function, Errno> {
        self.describe(caller.badge(), index)
    }

    fn read<K: Caller>(&mut self, caller: &K, register: u32) -> Result<u32, Errno> {
        let (_, at) = self.of(caller.badge())?;
        if register >= REGISTERS || !register.is_multiple_of(4) {
            return Err(EINVAL);
        }
        Ok(self.config.read(at, register as u8))
    }

    fn window<K: Caller>(&mut self, caller: &K, bar: u32) -> Result<WindowAnswer, Errno> {
        let (address, length) = self.show_window(caller.badge(), caller.sender(), bar)?;
        Ok(WindowAnswer { address, length })
    }

    fn raise<K: Caller>(&mut self, caller: &K, vector: u32, interrupt: u32) -> Result<(), Errno> {
        let done = self.set_message(caller.badge(), vector, interrupt);
        self.outside.close(interrupt);
        done
    }

    fn master<K: Caller>(&mut self, caller: &K, on: bool) -> Result<(), Errno> {
        self.set_master(caller.badge(), caller.sender(), on)
    }
}

#[cfg(test)]
#[path = "bus_tests.rs"]
mod tests;
