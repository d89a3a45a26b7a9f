//! A chip in memory: registers as the manuals have them, and rings of which it takes and fills what a test says.

use crate::device::{Device, PIECES};
use crate::registers::{self as at, control, ring, status, Model, Trouble};
use cairn_device::fake::FakeMemory;
use cairn_device::registers::Registers;
use cairn_device::Memory;
use cairn_link::Told;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

#[derive(Default)]
pub struct State {
    pub registers: BTreeMap<usize, u32>,
    pub eeprom: [u16; 3],
    /// Bits of an EEPROM's answer: where the word's number is, and that it is done.
    pub reading: (u32, u32),
    pub resets: u32,
    /// It does not come out of a reset; it is not there any more.
    pub stuck: bool,
    pub gone: bool,
    /// Accesses since a test looked.
    pub accesses: u32,
}

#[derive(Clone)]
pub struct Fake {
    pub state: Rc<RefCell<State>>,
    pub memory: FakeMemory,
    pub model: Model,
}

/// A frame as the chip finds it: the sum's begin and place, pieces.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub sum: Option<(u8, u8, bool)>,
    pub pieces: Vec<(u64, u32)>,
}

impl State {
    fn get(&self, at: usize) -> u32 {
        self.registers.get(&at).copied().unwrap_or(0)
    }

    pub fn set(&mut self, at: usize, value: u32) {
        self.registers.insert(at, value);
    }

    /// Something has happened.
    pub fn cause(&mut self, causes: u32) {
        let now = self.get(at::CAUSES);
        self.set(at::CAUSES, now | causes);
    }

    pub fn interrupts(&self) -> bool {
        self.get(at::CAUSES) & self.get(at::MASK_SET) != 0
    }

    /// What a reset does.
    fn begin(&mut self) {
        let causes = self.get(at::CAUSES);
        self.registers.clear();
        self.set(at::CAUSES, causes);
        let mac = |i: usize| u32::from(MAC[i]);
        let low = mac(0) | mac(1) << 8 | mac(2) << 16 | mac(3) << 24;
        self.set(at::ADDRESS, low);
        self.set(at::ADDRESS + 4, mac(4) | mac(5) << 8 | 1 << 31);
        self.set(at::STATUS, status::LINK_UP | status::MASTER_ON);
    }
}

impl Fake {
    pub fn new(model: Model) -> Fake {
        let mut state = State {
            reading: (8, 1 << 4),
            ..State::default()
        };
        state.begin();
        // As a driver before this one left it.
        state.set(at::RECEIVE, 0xffff);
        state.set(at::MASK_SET, 0xffff);
        Fake {
            state: Rc::new(RefCell::new(state)),
            memory: FakeMemory::new(PIECES),
            model,
        }
    }

    pub fn device(&self, told: Told) -> Result<Device<Fake, FakeMemory>, Trouble> {
        let mut registers = self.clone();
        at::reset(&mut registers, self.model)?;
        Device::new(registers, self.model, self.memory.clone(), told)
    }

    pub fn get(&self, at: usize) -> u32 {
        self.state.borrow().get(at)
    }

    /// Where the descriptor at a ring's head is; None: it has none.
    fn head(&self, first: usize) -> Option<usize> {
        let head = self.get(first + ring::HEAD);
        if head == self.get(first + ring::TAIL) {
            return None;
        }
        let place = self.memory.place(u64::from(self.get(first + ring::BASE)));
        Some(place.expect("memory of the driver's") + 16 * head as usize)
    }

    fn forward(&self, first: usize) {
        let entries = self.get(first + ring::BYTES) / 16;
        let head = (self.get(first + ring::HEAD) + 1) % entries;
        self.state.borrow_mut().set(first + ring::HEAD, head);
    }

    /// A buffer is filled. Where it is, if there was one.
    pub fn fill(&self, length: u16, status: u8, errors: u8) -> Option<u64> {
        let at = self.head(at::RECEIVE_RING)?;
        let address = self.memory.read64(at);
        self.memory.write16(at + 8, length);
        self.memory.write8(at + 13, errors);
        self.memory.write8(at + 12, status);
        self.forward(at::RECEIVE_RING);
        Some(address)
    }

    /// The next frame to be sent; it has left.
    pub fn send(&self) -> Option<Found> {
        let mut found = Found {
            sum: None,
            pieces: Vec::new(),
        };
        let mut context = None;
        loop {
            let at = self.head(at::TRANSMIT_RING)?;
            let (address, third) = (self.memory.read64(at), self.memory.read32(at + 8));
            let fourth = self.memory.read32(at + 12);
            assert_eq!(third >> 29 & 1, 1, "typed");
            if third >> 20 & 15 == 0 {
                let offsets = (address >> 32) as u32;
                assert_eq!(offsets >> 16, 0, "to the end");
                context = Some((offsets as u8, (offsets >> 8) as u8, third >> 24 & 1 == 1));
            } else {
                if found.pieces.is_empty() && fourth >> 9 & 1 == 1 {
                    found.sum = context;
                    assert!(context.is_some());
                }
                found.pieces.push((address, third & 0xf_ffff));
            }
            self.forward(at::TRANSMIT_RING);
            if third >> 27 & 1 == 1 {
                assert_eq!(third >> 24 & 3, 3, "the end of a frame, with a CRC");
                self.memory.write8(at + 12, 1);
                return Some(found);
            }
        }
    }
}

impl Registers for Fake {
    fn read(&mut self, at: usize) -> u32 {
        let mut state = self.state.borrow_mut();
        state.accesses += 1;
        if state.gone {
            return u32::MAX;
        }
        let value = state.get(at);
        if at == at::CAUSES && state.get(at::MASK_SET) == 0 {
            state.set(at, 0);
        }
        value
    }

    fn write(&mut self, at: usize, value: u32) {
        let mut state = self.state.borrow_mut();
        state.accesses += 1;
        match at {
            at::CONTROL => {
                let on = if value & control::MASTER_OFF != 0 {
                    0
                } else {
                    status::MASTER_ON
                };
                let now = state.get(at::STATUS) & !status::MASTER_ON | on;
                state.set(at::STATUS, now);
                if value & control::RESET != 0 {
                    let off = state.get(at::RECEIVE) | state.get(at::TRANSMIT) & 2;
                    assert_eq!((off, on == 0), (0, self.model.is_82574()));
                    state.resets += 1;
                    state.begin();
                }
                let kept = if state.stuck {
                    value
                } else {
                    value & !control::RESET
                };
                state.set(at, kept);
            }
            at::CAUSE_SET => state.cause(value),
            at::MASK_SET => {
                let now = state.get(at::MASK_SET);
                state.set(at, now | value);
            }
            at::MASK_CLEAR => {
                let now = state.get(at::MASK_SET);
                state.set(at::MASK_SET, now & !value);
            }
            at::EEPROM_READ => {
                let (shift, done) = state.reading;
                let word = state.eeprom.get((value >> shift) as usize).copied();
                let answer = u32::from(word.unwrap_or(0)) << 16 | done;
                state.set(at, answer);
            }
            _ => state.set(at, value),
        }
    }

    fn pause(&mut self) {}
    fn rest(&mut self, _: u64) {}
}
