//! An IOMMU: which memory each device may reach. Intel's (VT-d, specification 4.1, its legacy tables); see docs/iommu.md.
//!
//! [`Iommu`] is the whole of it: domains (one for each driver), what frames each may reach, and the devices (PCI functions) that belong to them. [`dmar`] finds the units, [`unit`] works one.
//!
//! What always holds:
//! - a device that nobody attached reaches nothing, but for memory that the firmware reserved for it;
//! - an address that a device uses is the memory's own: a domain shows frame n at n, or nothing there;
//! - after [`Iommu::unmap`] and [`Iommu::detach`] no access is under way to what they took away, or they said that this is not sure.
#![cfg_attr(not(any(test, feature = "fake")), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod dmar;
pub mod unit;

#[cfg(any(test, feature = "fake"))]
pub mod fake;
#[cfg(test)]
mod tests;

use crate::dmar::{Dmar, Reserved};
pub use crate::unit::Fault;
use crate::unit::Unit;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A frame of physical memory (address / 4096).
pub type Frame = u32;
const PAGE: u64 = 4096;
/// Pages of registers that a unit has at most.
pub const REGISTER_PAGES: u64 = 8;

/// Numbers of domains are below this; every unit has as many. 0 is none's, and 1 is for what the firmware reserved.
pub const DOMAINS: usize = 16;
const FIRMWARE: usize = 1;
/// Words of a table. (Entries of root and context tables have two.)
const WORDS: usize = 512;
/// Table entries: present, of root and context tables; of page tables: the device may read, write, and does not go past the processor's caches.
const PRESENT: u64 = 1;
const READ_WRITE: u64 = 3;
const SNOOP: u64 = 1 << 11;
/// In a context entry: faults are not recorded.
const UNRECORDED: u64 = 2;
/// Faults of a device that are told before it is listened to no more.
const TOLD: u32 = 32;

/// What the library needs of the machine.
pub trait Hardware {
    /// Show registers of a unit, of which fewer may be shown already.
    fn show(&mut self, unit: usize, address: u64, length: u64) -> bool;
    fn register(&mut self, unit: usize, at: usize) -> u32;
    fn set_register(&mut self, unit: usize, at: usize, value: u32);
    /// Word `index` of a table.
    fn word(&mut self, table: Frame, index: usize) -> u64;
    fn set_word(&mut self, table: Frame, index: usize, value: u64);
    /// Bring the cache line of this word to memory.
    fn write_back(&mut self, table: Frame, index: usize);
    /// What was written before is seen by devices before what is written later.
    fn barrier(&mut self);
    /// Whether this is no memory that anybody here uses.
    fn is_apart(&mut self, frame: Frame) -> bool;
    /// Monotonic nanoseconds.
    fn time(&mut self) -> u64;
}

/// Where and what a unit writes to tell of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub address: u64,
    pub word: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There are no registers where the firmware says.
    Registers,
    /// A unit without a queue of invalidations.
    NoQueue,
    /// The units have no size of page tables in common.
    NoLevels,
    /// A device cannot say so large an address.
    TooHigh,
    NoMemory,
    /// It does not answer. What it did is not known; nothing is asked of it any more.
    Stuck,
}

#[derive(Debug)]
pub struct Iommu {
    units: Vec<Unit>,
    /// Of segment 0.
    root: Frame,
    levels: u32,
    /// Frames below this can be reached.
    end: u64,
    coherent: bool,
    remembers_absence: bool,
    leaf: u64,
    /// Each domain's uppermost page table, once it has one.
    domains: [Option<Frame>; DOMAINS],
    /// Whose a device is.
    functions: BTreeMap<u16, usize>,
    reserved: Vec<Reserved>,
    /// Faults of each device since it was attached or detached.
    faults: BTreeMap<u16, u32>,
    stuck: bool,
}

impl Iommu {
    /// Find the units and switch them on: from now on no device reaches anything. `take` gives zeroed frames that nobody else has, for good; `message` is what tells of faults.
    pub fn start<H: Hardware>(
        hardware: &mut H,
        dmar: Dmar,
        message: Option<Message>,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
    ) -> Result<Iommu, Trouble> {
        let mut units = Vec::new();
        for (number, place) in dmar.units.iter().enumerate() {
            units.push(Unit::find(hardware, number, place.registers, take)?);
        }
        let all = |can: fn(&Unit) -> bool| units.iter().all(can);
        let levels = units.iter().fold(0b110, |both, u| both & u.levels());
        let levels = match levels {
            0 => return Err(Trouble::NoLevels),
            0b010 => 3,
            _ => 4,
        };
        let width = units.iter().map(Unit::width).min().unwrap_or(0);
        let mut iommu = Iommu {
            root: take(hardware).ok_or(Trouble::NoMemory)?,
            levels,
            end: 1 << (width.min(12 + 9 * u64::from(levels))).saturating_sub(12),
            coherent: all(Unit::is_coherent),
            remembers_absence: units.iter().any(Unit::remembers_absence),
            leaf: if all(Unit::can_snoop) { SNOOP } else { 0 } | READ_WRITE,
            units,
            domains: [None; DOMAINS],
            functions: BTreeMap::new(),
            reserved: dmar.reserved,
            faults: BTreeMap::new(),
            stuck: false,
        };
        iommu.clear(hardware, iommu.root);
        iommu.show_reserved(hardware, take)?;
        // Nobody has devices of other segments.
        let mut others = None;
        for (number, place) in dmar.units.iter().enumerate() {
            let root = match (place.segment, others) {
                (0, _) => iommu.root,
                (_, Some(root)) => root,
                (_, None) => {
                    let root = take(hardware).ok_or(Trouble::NoMemory)?;
                    iommu.clear(hardware, root);
                    *others.insert(root)
                }
            };
            iommu.units[number].enable(hardware, root, message)?;
        }
        Ok(iommu)
    }

    pub fn units(&self) -> usize {
        self.units.len()
    }

    /// The firmware's devices keep what it reserved for them, if that is nobody's memory.
    fn show_reserved<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
    ) -> Result<(), Trouble> {
        let end = self.end;
        self.reserved.retain(|r| {
            u64::from(r.last) < end && (r.first..=r.last).all(|frame| hardware.is_apart(frame))
        });
        for reserved in self.reserved.clone() {
            for function in reserved.functions {
                self.show(hardware, take, FIRMWARE, reserved.first..=reserved.last)?;
                self.enter(hardware, take, FIRMWARE, function)?;
            }
        }
        Ok(())
    }

    /// The devices of a domain reach these frames. After an error they reach none that they did not before.
    pub fn map<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
        domain: usize,
        frames: &[Frame],
    ) -> Result<(), Trouble> {
        self.working()?;
        self.show(hardware, take, domain, frames.iter().copied())?;
        let shown = self.shown(hardware, domain, frames);
        if shown.is_err() {
            self.hide(hardware, domain, frames);
        }
        self.settle(shown)
    }

    /// Entries for frames; tables first, so that nothing is half done.
    fn show<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
        domain: usize,
        frames: impl Iterator<Item = Frame> + Clone,
    ) -> Result<(), Trouble> {
        let mut made = None;
        for frame in frames.clone() {
            if u64::from(frame) >= self.end {
                return Err(Trouble::TooHigh);
            }
            if made != Some(chunk(frame)) {
                self.make_tables(hardware, take, domain, frame)?;
                made = Some(chunk(frame));
            }
        }
        self.fill(hardware, domain, frames, |frame| address(frame) | self.leaf);
        Ok(())
    }

    fn hide<H: Hardware>(&mut self, hardware: &mut H, domain: usize, frames: &[Frame]) {
        self.fill(hardware, domain, frames.iter().copied(), |_| 0);
    }

    /// Entries of frames, where there are tables for them.
    fn fill<H: Hardware>(
        &self,
        hardware: &mut H,
        domain: usize,
        frames: impl Iterator<Item = Frame>,
        entry: impl Fn(Frame) -> u64,
    ) {
        // The table that was used last.
        let mut known = None;
        for frame in frames {
            let table = match known {
                Some((of, table)) if of == chunk(frame) => table,
                _ => self.table(hardware, domain, frame),
            };
            known = Some((chunk(frame), table));
            if let Some(table) = table {
                self.set(hardware, table, index(frame, 0), entry(frame));
            }
        }
    }

    /// The units see new entries.
    fn shown<H: Hardware>(
        &mut self,
        hardware: &mut H,
        domain: usize,
        frames: &[Frame],
    ) -> Result<(), Trouble> {
        for unit in &mut self.units {
            if self.remembers_absence {
                unit.forget(hardware, domain, frames)?;
            }
            unit.flush_writes(hardware)?;
        }
        Ok(())
    }

    /// The devices of a domain do not reach these frames any more. After an error nobody may be given them.
    pub fn unmap<H: Hardware>(
        &mut self,
        hardware: &mut H,
        domain: usize,
        frames: &[Frame],
    ) -> Result<(), Trouble> {
        self.hide(hardware, domain, frames);
        self.working()?;
        let forgotten = self.forget(hardware, domain, frames);
        self.settle(forgotten)
    }

    fn forget<H: Hardware>(
        &mut self,
        hardware: &mut H,
        domain: usize,
        frames: &[Frame],
    ) -> Result<(), Trouble> {
        for unit in &mut self.units {
            unit.flush_writes(hardware)?;
            unit.forget(hardware, domain, frames)?;
        }
        Ok(())
    }

    /// The device belongs to a domain, whoever had it before.
    pub fn attach<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
        domain: usize,
        function: u16,
    ) -> Result<(), Trouble> {
        self.working()?;
        for reserved in self.reserved.clone() {
            if reserved.functions.contains(&function) {
                self.show(hardware, take, domain, reserved.first..=reserved.last)?;
            }
        }
        self.enter(hardware, take, domain, function)?;
        self.functions.insert(function, domain);
        self.forget_all(hardware)
    }

    /// The devices of a domain reach nothing any more, but what the firmware reserved for them.
    pub fn detach<H: Hardware>(&mut self, hardware: &mut H, domain: usize) -> Result<(), Trouble> {
        let of = |(&function, &whose)| (whose == domain).then_some(function);
        let gone: Vec<u16> = self.functions.iter().filter_map(of).collect();
        for &function in &gone {
            self.functions.remove(&function);
            self.faults.remove(&function);
            let keeps = self
                .reserved
                .iter()
                .any(|r| r.functions.contains(&function));
            if let Some(place) = self.context(hardware, function) {
                let domain = if keeps { FIRMWARE } else { 0 };
                self.set_context(hardware, place, domain);
            }
        }
        match gone.is_empty() {
            true => Ok(()),
            false => self.forget_all(hardware),
        }
    }

    fn forget_all<H: Hardware>(&mut self, hardware: &mut H) -> Result<(), Trouble> {
        self.working()?;
        let mut forget = || {
            for unit in &mut self.units {
                unit.flush_writes(hardware)?;
                unit.forget_all(hardware)?;
            }
            Ok(())
        };
        let forgotten = forget();
        self.settle(forgotten)
    }

    /// The next access that was refused, and whether it is the last that is told of its device until that is attached again: one that does nothing else would keep everybody busy.
    pub fn fault<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
    ) -> Option<(Fault, bool)> {
        let fault = self
            .units
            .iter_mut()
            .find_map(|unit| unit.fault(hardware))?;
        let count = self.faults.entry(fault.function).or_default();
        *count += 1;
        let last = *count >= TOLD;
        if last {
            if let Ok((table, index)) = self.make_context(hardware, take, fault.function) {
                let word = hardware.word(table, index) | UNRECORDED;
                self.set(hardware, table, index, word);
                // If not, more is told.
                let _ = self.forget_all(hardware);
            }
        }
        Some((fault, last))
    }

    fn working(&self) -> Result<(), Trouble> {
        match self.stuck {
            true => Err(Trouble::Stuck),
            false => Ok(()),
        }
    }

    /// Who does not answer once is asked no more: each time would hold everybody up.
    fn settle(&mut self, result: Result<(), Trouble>) -> Result<(), Trouble> {
        self.stuck |= result == Err(Trouble::Stuck);
        result
    }

    /// A device's context entry says that it belongs to this domain; `forget_all` is due.
    fn enter<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
        domain: usize,
        function: u16,
    ) -> Result<(), Trouble> {
        self.top(hardware, take, domain)?;
        let place = self.make_context(hardware, take, function)?;
        self.set_context(hardware, place, domain);
        self.faults.remove(&function);
        Ok(())
    }

    fn set_context<H: Hardware>(
        &mut self,
        hardware: &mut H,
        (table, index): (Frame, usize),
        domain: usize,
    ) {
        self.set(hardware, table, index, 0);
        let Some(top) = self.domains.get(domain).copied().flatten() else {
            return;
        };
        // 1 for three levels, 2 for four (9.3).
        let high = (domain as u64) << 8 | u64::from(self.levels - 2);
        self.set(hardware, table, index + 1, high);
        self.set(hardware, table, index, address(top) | PRESENT);
    }

    /// Where a device's context entry is: a table and the word in it.
    fn context<H: Hardware>(&self, hardware: &mut H, function: u16) -> Option<(Frame, usize)> {
        let (of_bus, within) = places(function);
        let table = below(hardware.word(self.root, of_bus), PRESENT)?;
        Some((table, within))
    }

    fn make_context<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
        function: u16,
    ) -> Result<(Frame, usize), Trouble> {
        if let Some(place) = self.context(hardware, function) {
            return Ok(place);
        }
        let table = self.new_table(hardware, take)?;
        let (of_bus, within) = places(function);
        let entry = address(table) | PRESENT;
        self.set(hardware, self.root, of_bus, entry);
        Ok((table, within))
    }

    /// A domain's uppermost page table.
    fn top<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
        domain: usize,
    ) -> Result<Frame, Trouble> {
        if let Some(top) = self.domains[domain] {
            return Ok(top);
        }
        let top = self.new_table(hardware, take)?;
        self.domains[domain] = Some(top);
        Ok(top)
    }

    /// The page table that shows a frame, if it is there.
    fn table<H: Hardware>(&self, hardware: &mut H, domain: usize, frame: Frame) -> Option<Frame> {
        let mut table = self.domains[domain]?;
        for level in (1..self.levels).rev() {
            let entry = hardware.word(table, index(frame, level));
            table = below(entry, READ_WRITE)?;
        }
        Some(table)
    }

    fn make_tables<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
        domain: usize,
        frame: Frame,
    ) -> Result<(), Trouble> {
        let mut table = self.top(hardware, take, domain)?;
        for level in (1..self.levels).rev() {
            let at = index(frame, level);
            table = match below(hardware.word(table, at), READ_WRITE) {
                Some(next) => next,
                None => {
                    let next = self.new_table(hardware, take)?;
                    self.set(hardware, table, at, address(next) | READ_WRITE);
                    next
                }
            };
        }
        Ok(())
    }

    fn new_table<H: Hardware>(
        &mut self,
        hardware: &mut H,
        take: &mut impl FnMut(&mut H) -> Option<Frame>,
    ) -> Result<Frame, Trouble> {
        let table = take(hardware).ok_or(Trouble::NoMemory)?;
        self.clear(hardware, table);
        Ok(table)
    }

    /// The zeroes of a new table are in memory.
    fn clear<H: Hardware>(&self, hardware: &mut H, table: Frame) {
        if !self.coherent {
            (0..WORDS)
                .step_by(8)
                .for_each(|line| hardware.write_back(table, line));
        }
    }

    fn set<H: Hardware>(&self, hardware: &mut H, table: Frame, index: usize, word: u64) {
        hardware.set_word(table, index, word);
        if !self.coherent {
            hardware.write_back(table, index);
        }
    }
}

/// What one page table shows.
fn chunk(frame: Frame) -> Frame {
    frame / WORDS as Frame
}

fn address(frame: Frame) -> u64 {
    u64::from(frame) * PAGE
}

/// Which word of a table of this level (0 is the lowest) leads to a frame.
fn index(frame: Frame, level: u32) -> usize {
    frame.checked_shr(9 * level).unwrap_or(0) as usize % WORDS
}

/// The words of the root table and of its bus's context table where a function's entries begin.
fn places(function: u16) -> (usize, usize) {
    (
        2 * usize::from(function >> 8),
        2 * usize::from(function & 0xff),
    )
}

/// The table that an entry leads to, if it has one of these bits.
fn below(entry: u64, bits: u64) -> Option<Frame> {
    (entry & bits != 0).then_some((entry / PAGE) as Frame)
}
