//! Interrupt sources: lines through the I/O APIC where ACPI shows one, else the sixteen legacy ones through the two 8259s; and message-signalled interrupts, which a
//! device raises by a write to the local APIC's address. Which vector a source has says [`vector`]: the legacy lines come first, and behind the nucleus's own vectors the others.
//!
//! A message cannot be masked here, so it is masked in software: what arrives meanwhile is remembered as one, and unmasking raises it again.
//! An edge-triggered line of the I/O APIC loses an edge that comes while it is masked in the hardware. Such a line is therefore masked in software first: an edge
//! that arrives meanwhile is remembered (and then the hardware is masked, which bounds the cost of a chattering device), and unmasking raises it again.

use super::acpi::{Acpi, LineRoute};
use super::apic::LocalApic;
use super::ports::{in8, out8};
use crate::interrupt;

/// Vectors of line 0 and of what comes after the legacy lines.
pub const FIRST_LINE: u8 = 0x20;
pub const FIRST_OTHER: u8 = 0x40;
pub const LEGACY: u32 = 16;
/// Lines that the 8259s and the I/O APIC can have.
const LINES: u32 = interrupt::LINES as u32;
const SOURCES: u32 = interrupt::SOURCES as u32;
/// The vectors in use end here.
pub const VECTORS_END: usize = FIRST_OTHER as usize + (SOURCES - LEGACY) as usize;

/// The vector at which a source arrives, and the source of a vector that is one's.
pub const fn vector(source: u32) -> u8 {
    if source < LEGACY {
        FIRST_LINE + source as u8
    } else {
        FIRST_OTHER + (source - LEGACY) as u8
    }
}

pub fn source_of(vector: u8) -> Option<u32> {
    if vector >= FIRST_OTHER {
        let source = (vector - FIRST_OTHER) as u32 + LEGACY;
        return (source < SOURCES).then_some(source);
    }
    let line = vector.wrapping_sub(FIRST_LINE) as u32;
    (line < LEGACY).then_some(line)
}

/// Where messages are written (Intel SDM volume 3, 11.11): this and the destination's number.
const MESSAGES: u64 = 0xfee0_0000;

const MASKED: u32 = 1 << 16;

/// An I/O APIC (Intel 82093AA): two windows, an index and the data.
struct IoApic {
    registers: *mut u32,
    first_global: u32,
    entries: u32,
    destination: u8,
}

impl IoApic {
    fn read(&self, index: u32) -> u32 {
        // SAFETY: `registers` shows the I/O APIC's page: index at 0, data at 0x10.
        unsafe {
            self.registers.write_volatile(index);
            self.registers.add(4).read_volatile()
        }
    }

    fn write(&mut self, index: u32, value: u32) {
        // SAFETY: as for `read`; the entries name vectors of the nucleus.
        unsafe {
            self.registers.write_volatile(index);
            self.registers.add(4).write_volatile(value);
        }
    }

    fn set(&mut self, line: u32, route: LineRoute, masked: bool) {
        let Some(entry) = route
            .global
            .checked_sub(self.first_global)
            .filter(|&entry| entry < self.entries)
        else {
            return;
        };
        let mut low = vector(line) as u32;
        if route.low_active {
            low |= 1 << 13;
        }
        if route.level {
            low |= 1 << 15;
        }
        if masked {
            low |= MASKED;
        }
        self.write(0x10 + 2 * entry + 1, (self.destination as u32) << 24);
        self.write(0x10 + 2 * entry, low);
    }
}

/// The two 8259s of a PC.
const PICS: [u16; 2] = [0x20, 0xa0];

/// Give the 8259s harmless vectors and mask all lines but the cascade. To be done while the local APIC still hears them as the firmware left it:
/// a request that is pending there must be able to go away.
pub fn silence_pics() {
    for (i, port) in PICS.into_iter().enumerate() {
        out8(port, 0x11);
        out8(port + 1, FIRST_LINE + 8 * i as u8);
        out8(port + 1, if i == 0 { 4 } else { 2 });
        out8(port + 1, 1);
        out8(port + 1, if i == 0 { 0xfb } else { 0xff });
    }
}

#[derive(Clone, Copy, Default)]
struct Line {
    masked: bool,
    masked_in_hardware: bool,
    /// An edge came while masked.
    pending: bool,
}

/// What to do with an arrived line interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    Deliver(u32),
    Nothing,
}

pub struct Lines {
    io_apic: Option<IoApic>,
    routes: [LineRoute; LINES as usize],
    sources: [Line; SOURCES as usize],
}

impl Lines {
    /// All lines masked. `registers` is where the I/O APIC's page is mapped, if there is one.
    pub fn new(acpi: &Acpi, registers: Option<*mut u32>, apic: &LocalApic) -> Lines {
        let io_apic = registers.zip(acpi.io_apic).map(|(registers, found)| {
            let mut io_apic = IoApic {
                registers,
                first_global: found.first_global,
                entries: 0,
                destination: apic.id() as u8,
            };
            io_apic.entries = (io_apic.read(1) >> 16 & 0xff) + 1;
            for entry in 0..io_apic.entries {
                io_apic.write(
                    0x10 + 2 * entry,
                    MASKED | super::apic::SPURIOUS_VECTOR as u32,
                );
            }
            io_apic
        });
        if io_apic.is_some() {
            for port in PICS {
                out8(port + 1, 0xff);
            }
        }
        Lines {
            io_apic,
            // What ACPI's table does not speak of is PCI's.
            routes: core::array::from_fn(|line| {
                let pci = LineRoute {
                    global: line as u32,
                    level: true,
                    low_active: true,
                };
                acpi.lines.get(line).copied().unwrap_or(pci)
            }),
            sources: [Line {
                masked: true,
                masked_in_hardware: true,
                pending: false,
            }; SOURCES as usize],
        }
    }

    /// True if the 8259s are in use.
    pub fn by_pic(&self) -> bool {
        self.io_apic.is_none()
    }

    /// How many lines there are.
    pub fn count(&self) -> u32 {
        match &self.io_apic {
            Some(io_apic) => (io_apic.first_global + io_apic.entries).clamp(LEGACY, LINES),
            None => LEGACY,
        }
    }

    /// How a line shows an interrupt. The 8259s know it by themselves.
    pub fn set_trigger(&mut self, line: u32, level: bool, low_active: bool) {
        if let Some(route) = self.routes.get_mut(line as usize) {
            route.level = level;
            route.low_active = low_active;
        }
    }

    /// Address and word of a message-signalled source.
    pub fn message(&self, source: u32) -> Option<(u64, u32)> {
        let io_apic = self.io_apic.as_ref()?;
        let address = MESSAGES | (io_apic.destination as u64) << 12;
        (LINES..SOURCES)
            .contains(&source)
            .then(|| (address, vector(source) as u32))
    }

    fn set_hardware(&mut self, line: u32, masked: bool) {
        self.sources[line as usize].masked_in_hardware = masked;
        match &mut self.io_apic {
            Some(io_apic) => {
                // A message has no entry.
                if let Some(&route) = self.routes.get(line as usize) {
                    io_apic.set(line, route, masked);
                }
            }
            None => {
                let port = PICS[line as usize / 8] + 1;
                let bit = 1 << (line % 8);
                let mask = in8(port);
                out8(port, if masked { mask | bit } else { mask & !bit });
            }
        }
    }

    /// Arrives once, and again only after another event.
    fn edge(&self, source: u32) -> bool {
        let level = |route: &LineRoute| route.level;
        self.io_apic.is_some() && !self.routes.get(source as usize).is_some_and(level)
    }

    /// Where it says whether a source that arrives once is masked.
    pub fn masked_edge(&mut self, source: u32) -> Option<*mut bool> {
        let edge = source < SOURCES && self.edge(source);
        edge.then(|| &raw mut self.sources[source as usize].masked)
    }

    /// Mask or unmask; see the head of this file.
    pub fn mask(&mut self, source: u32, masked: bool, apic: &mut LocalApic) {
        if source >= if self.by_pic() { LEGACY } else { SOURCES } {
            return;
        }
        let edge = self.edge(source);
        let state = &mut self.sources[source as usize];
        state.masked = masked;
        if masked {
            if !edge {
                self.set_hardware(source, true);
            }
            return;
        }
        let pending = core::mem::take(&mut state.pending);
        if state.masked_in_hardware {
            self.set_hardware(source, false);
        }
        if pending {
            apic.interrupt_self(vector(source));
        }
    }

    /// Unmasking this source, whose interrupt was not served whole, shall raise it once more. (A level is there still.) False: the 8259s cannot.
    pub fn raise_again(&mut self, source: u32) -> bool {
        if self.edge(source) {
            self.sources[source as usize].pending = true;
        }
        !self.by_pic()
    }

    /// A source's vector arrived: acknowledge it at the controller and say whether to tell the nucleus.
    pub fn arrived(&mut self, source: u32, apic: &mut LocalApic) -> Arrival {
        if self.by_pic() {
            return self.arrived_by_pic(source);
        }
        let state = &mut self.sources[source as usize];
        if state.masked {
            state.pending = true;
            if !state.masked_in_hardware {
                self.set_hardware(source, true);
            }
            apic.end_of_interrupt();
            return Arrival::Nothing;
        }
        if !self.edge(source) {
            // A level stays until the driver has served the device.
            self.sources[source as usize].masked = true;
            self.set_hardware(source, true);
        }
        apic.end_of_interrupt();
        Arrival::Deliver(source)
    }

    fn arrived_by_pic(&mut self, line: u32) -> Arrival {
        if line >= LEGACY {
            return Arrival::Nothing;
        }
        let pic = PICS[line as usize / 8];
        if line % 8 == 7 {
            // Possibly spurious: the in-service register knows. A spurious one of the second 8259 was a real one for the first.
            out8(pic, 0x0b);
            if in8(pic) & 0x80 == 0 {
                if line >= 8 {
                    out8(PICS[0], 0x20);
                }
                return Arrival::Nothing;
            }
        }
        self.sources[line as usize].masked = true;
        self.set_hardware(line, true);
        if line >= 8 {
            out8(PICS[1], 0x20);
        }
        out8(PICS[0], 0x20);
        Arrival::Deliver(line)
    }
}
