//! A unit in memory: registers, tables and queue as the specification has them, and caches that forget only what they are told to. So a forgotten invalidation shows: a device goes on reaching what was taken away.

use crate::dmar::Physical;
use crate::{Frame, Hardware, PAGE};
use std::collections::{BTreeMap, HashMap};

pub const REGISTERS: u64 = 0xfed9_0000;
/// Four levels, domains for 256, invalidation by page, records of faults at 0x220, one of them, drains.
pub const CAPABILITY: u64 = 0xc0_0080_222f_0402;
/// Coherent, with a queue.
pub const EXTENDED: u64 = 0b11;

/// Where the firmware's tables are.
pub const ROOT: u64 = 0xf_5000;
const LIST: u64 = 0xf_6000;
const TABLE: u64 = 0xf_7000;

/// A table of the firmware's with a right checksum.
pub fn sealed(signature: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 36];
    bytes[..4].copy_from_slice(signature);
    bytes.extend(content);
    let length = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    bytes[9] = bytes.iter().fold(0u8, |sum, b| sum.wrapping_sub(*b));
    bytes
}

pub struct Fake {
    pub(crate) registers: HashMap<usize, u32>,
    pub words: HashMap<(Frame, usize), u64>,
    /// What the unit sees of memory, where it is not coherent.
    pub(crate) written: HashMap<(Frame, usize), u64>,
    pub capability: u64,
    pub extended: u64,
    /// Device → its domain and page table; domain and page → whether it is there.
    pub(crate) contexts: BTreeMap<u16, (u64, u64, u64)>,
    pub(crate) pages: BTreeMap<(u64, u64), bool>,
    pub(crate) head: u64,
    /// It takes no more invalidations.
    pub dead: bool,
    pub submitted: usize,
    pub clock: u64,
    pub memory: std::ops::Range<Frame>,
}

impl Default for Fake {
    fn default() -> Fake {
        Fake {
            registers: HashMap::new(),
            words: HashMap::new(),
            written: HashMap::new(),
            capability: CAPABILITY,
            extended: EXTENDED,
            contexts: BTreeMap::new(),
            pages: BTreeMap::new(),
            head: 0,
            dead: false,
            submitted: 0,
            clock: 0,
            memory: 0..0x4_0000,
        }
    }
}

impl Fake {
    fn value(&self, at: usize) -> u32 {
        let wide = |value: u64| match at % 8 {
            0 => value as u32,
            _ => (value >> 32) as u32,
        };
        match at {
            0x8 | 0xc => wide(self.capability),
            0x10 | 0x14 => wide(self.extended),
            _ => self.registers.get(&at).copied().unwrap_or(0),
        }
    }

    fn value64(&self, at: usize) -> u64 {
        u64::from(self.value(at + 4)) << 32 | u64::from(self.value(at))
    }

    /// As the unit sees it.
    fn seen(&self, address: u64) -> u64 {
        let place = ((address / PAGE) as Frame, (address % PAGE / 8) as usize);
        let memory = match self.extended & 1 {
            0 => &self.written,
            _ => &self.words,
        };
        memory.get(&place).copied().unwrap_or(0)
    }

    fn run(&mut self) {
        let (base, tail) = (self.value64(0x90) & !(PAGE - 1), self.value64(0x88));
        while self.head != tail && !self.dead {
            let (low, high) = (self.seen(base + self.head), self.seen(base + self.head + 8));
            self.head = (self.head + 16) % PAGE;
            self.submitted += 1;
            let domain = low >> 16 & 0xffff;
            match (low & 15, low >> 4 & 3) {
                (1, 1) => self.contexts.clear(),
                (2, 1) => self.pages.clear(),
                (2, 2) => self.pages.retain(|page, _| page.0 != domain),
                (2, 3) => {
                    self.pages.remove(&(domain, high / PAGE));
                }
                (5, 2) => {
                    let place = ((high / PAGE) as Frame, (high % PAGE / 8) as usize);
                    self.words.insert(place, low >> 32);
                }
                _ => panic!("descriptor {low:#x} {high:#x}"),
            }
        }
    }

    /// A device's access to this frame: whether it succeeds. Faults are recorded.
    pub fn access(&mut self, function: u16, frame: Frame, write: bool) -> bool {
        if self.value(0x1c) >> 31 == 0 {
            return true;
        }
        let (reason, quiet) = match self.translate(function, u64::from(frame)) {
            Ok(()) => return true,
            Err(why) => why,
        };
        if !quiet && self.value(0x22c) >> 31 == 0 {
            self.registers
                .insert(0x220, (u64::from(frame) * PAGE) as u32);
            self.registers.insert(0x224, frame >> 20);
            self.registers.insert(0x228, u32::from(function));
            let kind = if write { 0 } else { 1 << 30 };
            self.registers.insert(0x22c, 1 << 31 | kind | reason);
            self.registers.insert(0x34, 2);
        }
        false
    }

    fn translate(&mut self, function: u16, page: u64) -> Result<(), (u32, bool)> {
        let absent = self.capability >> 7 & 1 != 0;
        if !self.contexts.contains_key(&function) {
            let root = self.value64(0x20) & !(PAGE - 1);
            let entry = self.seen(root + u64::from(function >> 8) * 16);
            if entry & 1 == 0 {
                return Err((1, false));
            }
            let at = (entry & !(PAGE - 1)) + u64::from(function & 0xff) * 16;
            let (low, high) = (self.seen(at), self.seen(at + 8));
            if low & 1 == 0 {
                return Err((2, low & 2 != 0));
            }
            let context = (high >> 8 & 0xffff, low, high & 7);
            self.contexts.insert(function, context);
        }
        let (domain, low, width) = self.contexts[&function];
        let quiet = low & 2 != 0;
        let there = match self.pages.get(&(domain, page)) {
            Some(there) => *there,
            None => {
                let mut table = low & !(PAGE - 1);
                let mut there = true;
                for level in (0..width + 2).rev() {
                    let entry = self.seen(table + (page >> (9 * level) & 511) * 8);
                    there &= entry & 3 == 3;
                    table = entry & 0xf_ffff_ffff_f000;
                }
                assert!(!there || table == page * PAGE, "another frame");
                if there || absent {
                    self.pages.insert((domain, page), there);
                }
                there
            }
        };
        match there {
            true => Ok(()),
            false => Err((5, quiet)),
        }
    }
}

impl Hardware for Fake {
    fn show(&mut self, unit: usize, address: u64, length: u64) -> bool {
        unit == 0 && address == REGISTERS && length.is_multiple_of(PAGE)
    }

    fn register(&mut self, _: usize, at: usize) -> u32 {
        self.value(at)
    }

    fn set_register(&mut self, _: usize, at: usize, value: u32) {
        match at {
            // One-shot commands are done at once; the write buffer's status goes off.
            0x18 => {
                self.registers.insert(0x1c, value & !(1 << 27));
            }
            0x34 => {}
            0x22c => {
                assert_eq!(value, 1 << 31);
                self.registers.insert(0x22c, 0);
                self.registers.insert(0x34, 0);
            }
            _ => {
                self.registers.insert(at, value);
            }
        }
        if at == 0x88 {
            self.run();
        }
    }

    fn word(&mut self, table: Frame, index: usize) -> u64 {
        *self.words.get(&(table, index)).unwrap_or(&0)
    }

    fn set_word(&mut self, table: Frame, index: usize, value: u64) {
        self.words.insert((table, index), value);
    }

    fn write_back(&mut self, table: Frame, index: usize) {
        for i in index & !7..(index & !7) + 8 {
            let word = self.word(table, i);
            self.written.insert((table, i), word);
        }
    }

    fn barrier(&mut self) {}

    fn is_apart(&mut self, frame: Frame) -> bool {
        !self.memory.contains(&frame)
    }

    fn time(&mut self) -> u64 {
        self.clock += 1_000_000;
        self.clock
    }
}

impl Physical for Fake {
    /// The way to this one unit.
    fn peek(&mut self, address: u64, into: &mut [u8]) -> bool {
        let mut pointer = b"RSD PTR \0CAIRN \x02".to_vec();
        pointer.resize(24, 0);
        pointer.extend(LIST.to_le_bytes());
        pointer.extend([0; 4]);
        let mut unit = vec![0; 12];
        unit.extend([0, 0, 16, 0, 1, 0, 0, 0]);
        unit.extend(REGISTERS.to_le_bytes());
        let tables = [
            (ROOT, pointer),
            (LIST, sealed(b"XSDT", &TABLE.to_le_bytes())),
            (TABLE, sealed(b"DMAR", &unit)),
        ];
        let found = tables.iter().find(|(start, _)| *start == address);
        let bytes = found.and_then(|(_, bytes)| bytes.get(..into.len()));
        bytes.map(|bytes| into.copy_from_slice(bytes)).is_some()
    }
}
