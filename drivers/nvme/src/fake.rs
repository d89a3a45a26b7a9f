//! A controller for the tests: registers and the commands of its setup as the specification has them; commands to the namespace wait until a test finishes them.

use crate::controller::PIECES;
use cairn_block::chip::{Memory, Registers};
use cairn_device::fake::FakeMemory;
use std::cell::RefCell;
use std::rc::Rc;

/// A command as the device finds it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    pub number: u16,
    pub operation: u8,
    pub namespace: u32,
    pub data: [u64; 2],
    pub words: [u32; 3],
}

#[derive(Default)]
struct Line {
    submissions: usize,
    completions: usize,
    entries: usize,
    /// Seen of the one, put into the other, and how far the driver took those.
    head: usize,
    put: usize,
    taken: usize,
}

pub struct State {
    configuration: u32,
    admin: [u64; 2],
    /// For the controller, and for the namespace.
    lines: [Line; 2],
    pub found: Vec<Found>,
    pub capabilities: [u32; 2],
    /// Log2 of pages of a request; of bytes of a block; metadata.
    pub most: u8,
    pub shift: u32,
    pub metadata: u32,
    pub blocks: u64,
    pub stuck: bool,
    pub refuses: u8,
    pub interrupts: bool,
    pub dead: bool,
}

#[derive(Clone)]
pub struct Fake {
    pub state: Rc<RefCell<State>>,
    pub memory: FakeMemory,
}

impl Fake {
    pub fn new() -> Fake {
        let state = State {
            configuration: 1,
            admin: [0; 2],
            lines: Default::default(),
            found: Vec::new(),
            // 1,024 entries, doorbells 8 bytes apart, the command set of disks.
            capabilities: [1023, 1 | 1 << 5],
            most: 7,
            shift: 9,
            metadata: 0,
            blocks: 100_000,
            stuck: false,
            refuses: 0xff,
            interrupts: false,
            dead: false,
        };
        Fake {
            state: Rc::new(RefCell::new(state)),
            memory: FakeMemory::new(PIECES),
        }
    }

    fn at(&self, address: u64) -> usize {
        self.memory.place(address).expect("memory of the driver's")
    }

    /// The list of a request's pages.
    pub fn list(&self, address: u64, count: usize) -> Vec<u64> {
        let at = self.at(address);
        assert!(at % 4096 + count * 8 <= 4096, "within a page");
        (0..count).map(|i| self.memory.read64(at + 8 * i)).collect()
    }

    /// The range of a discard: blocks, first.
    pub fn range(&self, address: u64) -> (u32, u64) {
        let at = self.at(address);
        (self.memory.read32(at + 4), self.memory.read64(at + 8))
    }

    fn doorbell(&self, bell: usize, value: usize) {
        let mut state = self.state.borrow_mut();
        let line = &mut state.lines[bell / 2];
        assert!(value < line.entries, "bell {bell}: {value}");
        if bell % 2 == 1 {
            line.taken = value;
            return;
        }
        let mut found = Vec::new();
        while line.head != value {
            let at = line.submissions + 64 * line.head;
            line.head = (line.head + 1) % line.entries;
            let first = self.memory.read32(at);
            found.push(Found {
                number: (first >> 16) as u16,
                operation: first as u8,
                namespace: self.memory.read32(at + 4),
                data: [24, 32].map(|place| self.memory.read64(at + place)),
                words: [40, 44, 48].map(|place| self.memory.read32(at + place)),
            });
        }
        drop(state);
        for command in found {
            match bell {
                0 => self.perform(&command),
                _ => self.state.borrow_mut().found.push(command),
            }
        }
    }

    /// A command to the controller.
    fn perform(&self, command: &Found) {
        let mut state = self.state.borrow_mut();
        let refused = state.refuses == command.operation;
        match command.operation {
            6 => {
                let at = self.at(command.data[0]);
                if command.words[0] == 1 {
                    self.memory.write8(at + 77, state.most);
                    self.memory.write8(at + 520, 4);
                    self.memory.write8(at + 525, 1);
                } else {
                    assert_eq!(command.namespace, 1);
                    self.memory.write64(at, state.blocks);
                    self.memory.write8(at + 26, 2);
                    let format = state.metadata | state.shift << 16;
                    self.memory.write32(at + 128 + 8, format);
                }
            }
            9 => assert_eq!((command.words[0], command.words[1]), (7, 0)),
            5 => {
                assert_eq!(command.words[0] & 0xffff, 1);
                state.lines[1].completions = self.at(command.data[0]);
                state.interrupts = command.words[1] & 2 != 0;
            }
            1 => {
                assert_eq!(command.words[1], 1 << 16 | 1);
                state.lines[1].submissions = self.at(command.data[0]);
                state.lines[1].entries = (command.words[0] >> 16) as usize + 1;
            }
            other => panic!("command {other}"),
        }
        drop(state);
        self.complete(0, command.number, u16::from(refused));
    }

    fn complete(&self, line: usize, number: u16, status: u16) {
        let mut state = self.state.borrow_mut();
        let line = &mut state.lines[line];
        let phase = (line.put / line.entries).is_multiple_of(2);
        let at = line.completions + 16 * (line.put % line.entries);
        line.put += 1;
        assert_ne!(line.put % line.entries, line.taken, "overrun");
        let word = u32::from(number) | u32::from(phase) << 16 | u32::from(status) << 17;
        self.memory.write32(at + 12, word);
    }

    /// Commands to the namespace that came since.
    pub fn take(&self) -> Vec<Found> {
        std::mem::take(&mut self.state.borrow_mut().found)
    }

    pub fn finish(&self, number: u16, status: u16) {
        self.complete(1, number, status);
    }
}

impl Registers for Fake {
    fn read(&mut self, at: usize) -> u32 {
        let state = self.state.borrow();
        match at {
            0 => state.capabilities[0],
            4 => state.capabilities[1],
            0x14 => state.configuration,
            0x1c if state.dead => 2,
            0x1c => state.configuration & u32::from(!state.stuck),
            _ => panic!("register {at:#x}"),
        }
    }

    fn write(&mut self, at: usize, value: u32) {
        let mut state = self.state.borrow_mut();
        match at {
            0x0c => {}
            0x14 => {
                state.configuration = value;
                let [submissions, completions] = state.admin;
                if value & 1 == 1 {
                    assert_eq!(value, 6 << 16 | 4 << 20 | 1);
                    let line = &mut state.lines[0];
                    line.submissions = self.memory.place(submissions).expect("memory");
                    line.completions = self.memory.place(completions).expect("memory");
                }
            }
            0x24 => {
                assert_eq!(value & 0xfff, value >> 16);
                state.lines[0].entries = (value & 0xfff) as usize + 1;
            }
            0x28..0x38 => {
                let shift = at % 8 * 8;
                state.admin[(at - 0x28) / 8] |= u64::from(value) << shift;
            }
            _ => {
                drop(state);
                assert_eq!((at - 0x1000) % 8, 0);
                self.doorbell((at - 0x1000) / 8, value as usize);
            }
        }
    }

    fn rest(&mut self, _: u64) {}
    fn pause(&mut self) {}
}
