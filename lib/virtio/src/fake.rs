//! A device for tests of drivers on the host: registers as the specification has them, and queues in memory; it does its requests when and in what order a test wants.

use crate::transport::Registers;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_device::fake::FakeMemory;
use cairn_device::Memory;
use core::cell::RefCell;

/// A request as the device finds it: the queue, the tag, and pieces of memory: address, length, whether the device writes.
#[derive(Clone, Debug)]
pub struct Taken {
    pub queue: usize,
    pub tag: u16,
    pub pieces: Vec<(u64, u32, bool)>,
}

/// A queue as it was set up, and how far the device is with it.
#[derive(Default)]
pub struct FakeQueue {
    pub size: u16,
    pub vector: u16,
    pub places: [u64; 3],
    enabled: bool,
    pub notified: u32,
    seen: u16,
    used: u16,
}

pub struct State {
    pub features: u64,
    pub accepted: u64,
    pub status: u8,
    pub queue_max: u16,
    pub queues: Vec<FakeQueue>,
    select: usize,
    selects: [u32; 2],
    config: BTreeMap<usize, u32>,
    /// Of the configuration, and whose message tells that it has changed.
    pub generation: u8,
    pub config_vector: u16,
    /// Messages beyond these there are none.
    pub messages: u16,
    pub stuck: bool,
}

impl State {
    /// A register of the device's own.
    pub fn set(&mut self, at: usize, value: u32) {
        self.config.insert(at, value);
    }

    /// What a reset does.
    pub fn forget(&mut self) {
        self.accepted = 0;
        for queue in &mut self.queues {
            *queue = FakeQueue::default();
        }
    }

    /// Notifications of all queues.
    pub fn notified(&self) -> u32 {
        self.queues.iter().map(|queue| queue.notified).sum()
    }
}

#[derive(Clone)]
pub struct FakeDevice {
    pub state: Rc<RefCell<State>>,
    pub memory: FakeMemory,
}

impl FakeDevice {
    /// With these features, registers of its own (by place), so many queues and pieces of memory.
    pub fn new(features: u64, config: &[(usize, u32)], queues: usize, pieces: usize) -> FakeDevice {
        let state = State {
            features,
            accepted: 0,
            status: 15,
            queue_max: 256,
            queues: (0..queues).map(|_| FakeQueue::default()).collect(),
            select: 0,
            selects: [0; 2],
            config: config.iter().copied().collect(),
            generation: 7,
            config_vector: 0,
            messages: 16,
            stuck: false,
        };
        FakeDevice {
            state: Rc::new(RefCell::new(state)),
            memory: FakeMemory::new(pieces),
        }
    }

    /// Where in the memory an address is.
    pub fn at(&self, address: u64) -> usize {
        self.memory.place(address).expect("memory of the driver's")
    }

    /// What was made available since.
    pub fn take(&self) -> Vec<Taken> {
        let mut list = Vec::new();
        for (number, queue) in self.state.borrow_mut().queues.iter_mut().enumerate() {
            if !queue.enabled {
                continue;
            }
            let [descriptors, available, _] = queue.places.map(|place| self.at(place));
            while queue.seen != self.memory.read16(available + 2) {
                let place = (queue.seen % queue.size) as usize;
                let tag = self.memory.read16(available + 4 + 2 * place);
                queue.seen = queue.seen.wrapping_add(1);
                let at = descriptors + 16 * tag as usize;
                let pieces = match self.memory.read16(at + 12) {
                    4 => {
                        let count = self.memory.read32(at + 8) / 16;
                        self.chain(self.at(self.memory.read64(at)), count as usize)
                    }
                    _ => self.chain(at, 1),
                };
                list.push(Taken {
                    queue: number,
                    tag,
                    pieces,
                });
            }
        }
        list
    }

    fn chain(&self, table: usize, count: usize) -> Vec<(u64, u32, bool)> {
        let descriptors = (0..count).map(|i| {
            let at = table + 16 * i;
            let flags = self.memory.read16(at + 12);
            assert_eq!(flags & 1 == 1, i + 1 < count, "a chain of all");
            if i + 1 < count {
                assert_eq!(self.memory.read16(at + 14) as usize, i + 1);
            }
            (
                self.memory.read64(at),
                self.memory.read32(at + 8),
                flags & 2 != 0,
            )
        });
        descriptors.collect()
    }

    /// Say that a request is done, and how many bytes were written.
    pub fn use_up(&self, queue: usize, tag: u32, length: u32) {
        let queue = &mut self.state.borrow_mut().queues[queue];
        let used = self.at(queue.places[2]);
        let place = (queue.used % queue.size) as usize;
        self.memory.write32(used + 4 + 8 * place, tag);
        self.memory.write32(used + 8 + 8 * place, length);
        queue.used = queue.used.wrapping_add(1);
        self.memory.write16(used + 2, queue.used);
    }

    /// Whether the device wants to be told of new requests.
    pub fn quiet(&self, quiet: bool) {
        let used = self.at(self.state.borrow().queues[0].places[2]);
        self.memory.write16(used, quiet as u16);
    }

    /// Counts that cannot be.
    pub fn jump(&self, by: u16) {
        let queue = &mut self.state.borrow_mut().queues[0];
        queue.used = queue.used.wrapping_add(by);
        let used = self.at(queue.places[2]);
        self.memory.write16(used + 2, queue.used);
    }
}

impl Registers for FakeDevice {
    fn common8(&mut self, at: usize) -> u8 {
        match at {
            20 => self.state.borrow().status,
            21 => self.state.borrow().generation,
            _ => panic!("register {at}"),
        }
    }
    fn common16(&mut self, at: usize) -> u16 {
        let state = self.state.borrow();
        match at {
            24 if state.select >= state.queues.len() => 0,
            24 => state.queue_max,
            26 => state.queues[state.select].vector,
            30 => 3 + state.select as u16,
            _ => panic!("register {at}"),
        }
    }
    fn common32(&mut self, at: usize) -> u32 {
        assert_eq!(at, 4);
        let state = self.state.borrow();
        (state.features >> (32 * state.selects[0])) as u32
    }
    fn set_common8(&mut self, at: usize, value: u8) {
        assert_eq!(at, 20);
        let mut state = self.state.borrow_mut();
        if value == 0 && state.stuck {
            return;
        }
        let unknown = state.accepted & !state.features != 0;
        state.status = if unknown { value & !8 } else { value };
    }
    fn set_common16(&mut self, at: usize, value: u16) {
        let mut state = self.state.borrow_mut();
        if at == 22 {
            state.select = value.into();
            return;
        }
        let messages = state.messages;
        let select = state.select;
        if at == 16 {
            state.config_vector = value;
            return;
        }
        let queue = &mut state.queues[select];
        match at {
            24 => queue.size = value,
            26 => queue.vector = if value < messages { value } else { 0xffff },
            28 => {
                assert!(value == 1 && queue.places.iter().all(|&place| place != 0));
                queue.enabled = true;
            }
            _ => panic!("register {at}"),
        }
    }
    fn set_common32(&mut self, at: usize, value: u32) {
        let mut state = self.state.borrow_mut();
        match at {
            0 => state.selects[0] = value,
            8 => state.selects[1] = value,
            12 => {
                let shift = 32 * state.selects[1];
                state.accepted |= u64::from(value) << shift;
            }
            32..56 => {
                let i = (at - 32) / 8;
                let shift = (at - 32) % 8 * 8;
                let select = state.select;
                state.queues[select].places[i] |= u64::from(value) << shift;
            }
            _ => panic!("register {at}"),
        }
    }
    fn device8(&mut self, at: usize) -> u8 {
        self.state.borrow().config.get(&at).copied().unwrap_or(0) as u8
    }
    fn device16(&mut self, at: usize) -> u16 {
        self.state.borrow().config.get(&at).copied().unwrap_or(0) as u16
    }
    fn device32(&mut self, at: usize) -> u32 {
        self.state.borrow().config.get(&at).copied().unwrap_or(0)
    }
    fn notify(&mut self, place: u16, number: u16) {
        assert_eq!(place, 3 + number);
        self.state.borrow_mut().queues[number as usize].notified += 1;
    }
    fn pause(&mut self) {}
}
