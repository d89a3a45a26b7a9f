//! A controller for the tests: registers as the specification has them, and a disk at port 2 whose commands wait until a test finishes them.

use crate::command::PIECES;
use cairn_block::chip::{Memory, Registers};
use cairn_device::fake::FakeMemory;
use std::cell::RefCell;
use std::rc::Rc;

const PORT: usize = 0x100 + 2 * 0x80;

/// A command as the device finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub slot: usize,
    pub code: u8,
    pub features: u16,
    pub block: u64,
    pub count: u16,
    pub reads_memory: bool,
    /// Places of its data: address and bytes.
    pub data: Vec<(u64, u64)>,
}

pub struct State {
    pub capabilities: u32,
    pub signature: u32,
    /// What it tells of itself.
    pub identity: [u16; 256],
    pub found: Vec<Found>,
    control: u32,
    addresses: [u32; 4],
    interrupts: u32,
    interrupts_on: u32,
    command: u32,
    link_control: u32,
    queued: u32,
    issued: u32,
    pub resets: u32,
    pub links: u32,
    /// Does not come out of its reset; its link does not come up again; nobody answers any more.
    pub stuck: bool,
    pub unlinked: bool,
    pub gone: bool,
    pub refuses_identify: bool,
}

#[derive(Clone)]
pub struct Fake {
    pub state: Rc<RefCell<State>>,
    pub memory: FakeMemory,
}

impl Fake {
    pub fn new() -> Fake {
        let mut identity = [0; 256];
        (identity[75], identity[76]) = (31, 1 << 8);
        (identity[83], identity[85]) = (1 << 14 | 1 << 10 | 1 << 13, 1 << 5);
        (identity[100], identity[101]) = (0x86a0, 1);
        identity[169] = 1;
        let state = State {
            // 32 commands, queues, addresses of 64 bits.
            capabilities: 31 << 8 | 1 << 30 | 1 << 31,
            signature: 0x101,
            identity,
            found: Vec::new(),
            control: 0,
            addresses: [0; 4],
            interrupts: 0,
            interrupts_on: 0,
            // As a driver left it that is dead.
            command: 1 | 1 << 4,
            link_control: 0,
            queued: 0,
            issued: 0,
            resets: 0,
            links: 0,
            stuck: false,
            unlinked: false,
            gone: false,
            refuses_identify: false,
        };
        Fake {
            state: Rc::new(RefCell::new(state)),
            memory: FakeMemory::new(PIECES),
        }
    }

    fn at(&self, address: u64) -> usize {
        self.memory.place(address).expect("memory of the driver's")
    }

    fn command(&self, slot: usize) -> Found {
        let [low, high, ..] = self.state.borrow().addresses;
        let at = self.at(u64::from(low) | u64::from(high) << 32) + 32 * slot;
        let head = self.memory.read32(at);
        assert_eq!(head & 31, 5);
        let table = self.memory.read64(at + 8);
        assert_eq!(table % 128, 0);
        let table = self.at(table);
        let word = |i: usize| self.memory.read32(table + 4 * i);
        assert_eq!(word(0) & 0xffff, 0x27 | 1 << 15);
        assert_eq!(word(1) >> 24, 0x40);
        let place = |i: usize| {
            let at = table + 128 + 16 * i;
            let bytes = u64::from(self.memory.read32(at + 12) & 0x3f_ffff) + 1;
            (self.memory.read64(at), bytes)
        };
        Found {
            slot,
            code: (word(0) >> 16) as u8,
            features: (word(0) >> 24 | word(2) >> 24 << 8) as u16,
            block: u64::from(word(1) & 0xff_ffff) | u64::from(word(2) & 0xff_ffff) << 24,
            count: word(3) as u16,
            reads_memory: head >> 6 & 1 == 1,
            data: (0..head as usize >> 16).map(place).collect(),
        }
    }

    fn issue(&self, slots: u32) {
        assert_eq!(self.state.borrow().command & 17, 17, "it runs");
        for slot in (0..32).filter(|slot| slots >> slot & 1 == 1) {
            let found = self.command(slot);
            let mut state = self.state.borrow_mut();
            assert_eq!(state.issued >> slot & 1, 0, "it has that one");
            state.issued |= 1 << slot;
            let queued = matches!(found.code, 0x60 | 0x61);
            assert_eq!(state.queued >> slot & 1 == 1, queued);
            assert!(state.queued == 0 || queued, "not beside queued ones");
            if found.code != 0xec {
                state.found.push(found);
                continue;
            }
            let at = self.at(found.data[0].0);
            assert_eq!(found.data[0].1, 512);
            for (i, &word) in state.identity.iter().enumerate() {
                self.memory.write16(at + 2 * i, word);
            }
            let refuses = state.refuses_identify;
            drop(state);
            match refuses {
                true => self.fail(),
                false => self.finish(slot),
            }
        }
    }

    /// Commands that came since.
    pub fn take(&self) -> Vec<Found> {
        std::mem::take(&mut self.state.borrow_mut().found)
    }

    pub fn range(&self, found: &Found, i: usize) -> (u64, u64) {
        let word = self.memory.read64(self.at(found.data[0].0) + 8 * i);
        (word & 0xffff_ffff_ffff, word >> 48)
    }

    pub fn finish(&self, slot: usize) {
        let mut state = self.state.borrow_mut();
        state.issued &= !(1 << slot);
        state.queued &= !(1 << slot);
        state.interrupts |= 8;
    }

    /// An error: what the device has stays with it.
    pub fn fail(&self) {
        self.state.borrow_mut().interrupts |= 1 << 30;
    }

    pub fn interrupts(&self) -> bool {
        let state = self.state.borrow();
        state.control & 2 != 0 && state.interrupts & state.interrupts_on != 0
    }
}

impl Registers for Fake {
    fn read(&mut self, at: usize) -> u32 {
        let state = self.state.borrow();
        if state.gone {
            return u32::MAX;
        }
        let runs = state.command & 1 == 1;
        let receives = state.command >> 4 & 1 == 1;
        match at {
            0 => state.capabilities,
            0x04 => state.control,
            // Ports 1 and 2.
            0x0c => 6,
            0x24 => 1,
            // The firmware gave it up.
            0x28 => 2,
            _ if (0x180..0x200).contains(&at) => 0,
            _ => match at - PORT {
                0x10 => state.interrupts,
                0x18 => state.command | (runs as u32) << 15 | (receives as u32) << 14,
                0x20 if receives => 0x50,
                0x20 => 0x7f,
                0x24 => state.signature,
                0x28 if state.unlinked && state.links > 0 => 0,
                0x28 => 0x113,
                0x2c => state.link_control,
                0x34 => state.queued,
                0x38 => state.issued,
                other => panic!("register {other:#x}"),
            },
        }
    }

    fn write(&mut self, at: usize, value: u32) {
        let mut state = self.state.borrow_mut();
        match at {
            0x04 if value & 1 == 1 => {
                assert!(value >> 31 == 1);
                state.resets += 1;
                state.control = state.stuck as u32;
                state.command = 0;
            }
            0x04 => state.control = value,
            0x08 | 0x28 => {}
            _ if (0x180..0x200).contains(&at) => {}
            _ => match at - PORT {
                register @ (0..0x10) => {
                    assert_eq!(state.command & 17, 0, "it stands still");
                    state.addresses[register / 4] = value;
                }
                0x10 => state.interrupts &= !value,
                0x14 => state.interrupts_on = value,
                0x18 => {
                    if value & 1 == 0 {
                        (state.issued, state.queued) = (0, 0);
                    }
                    state.command = value;
                }
                0x2c => {
                    if state.link_control & 15 == 1 && value & 15 == 0 {
                        state.links += 1;
                        state.interrupts = 0;
                    }
                    state.link_control = value;
                }
                0x30 => {}
                0x34 => state.queued |= value,
                0x38 => {
                    drop(state);
                    self.issue(value);
                }
                other => panic!("register {other:#x}"),
            },
        }
    }

    fn rest(&mut self, _: u64) {}
    fn pause(&mut self) {}
}
