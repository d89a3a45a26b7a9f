//! A disk for the tests: a virtio device (`cairn_virtio::fake`) whose requests are those of disks.

use cairn_device::Memory;
use std::ops::Deref;

pub use cairn_virtio::fake::{FakeQueue, State};

/// A request as the device finds it.
#[derive(Clone, Debug)]
pub struct Found {
    pub queue: usize,
    pub tag: u16,
    pub kind: u32,
    pub sector: u64,
    /// Data: address, length, whether the device writes.
    pub data: Vec<(u64, u32, bool)>,
    end: u64,
}

pub const FEATURES: u64 =
    1 << 32 | 1 << 28 | 1 << 13 | 1 << 9 | 1 << 6 | 1 << 2 | 1 << 29 | 1 << 40;

/// The device's registers.
pub type Registers = cairn_virtio::fake::FakeDevice;

#[derive(Clone)]
pub struct FakeDevice(Registers);

impl Deref for FakeDevice {
    type Target = Registers;
    fn deref(&self) -> &Registers {
        &self.0
    }
}

impl FakeDevice {
    pub fn new() -> FakeDevice {
        FakeDevice::with(1)
    }

    pub fn with(queues: usize) -> FakeDevice {
        let config = [
            (0, 8192),
            (12, 254),
            (20, 512),
            (34, queues as u32),
            (36, 100),
        ];
        let pieces = crate::device::PIECES;
        FakeDevice(Registers::new(FEATURES, &config, queues, pieces))
    }

    pub fn registers(&self) -> Registers {
        self.0.clone()
    }

    /// What was made available since.
    pub fn take(&self) -> Vec<Found> {
        let taken = self.0.take().into_iter();
        let found = taken.map(|taken| {
            let pieces = taken.pieces;
            assert!(pieces.len() > 1, "indirect");
            let (header, end) = (pieces[0], pieces[pieces.len() - 1]);
            assert_eq!((header.1, header.2, end.1, end.2), (16, false, 1, true));
            let header = self.at(header.0);
            Found {
                queue: taken.queue,
                tag: taken.tag,
                kind: self.memory.read32(header),
                sector: self.memory.read64(header + 8),
                data: pieces[1..pieces.len() - 1].to_vec(),
                end: end.0,
            }
        });
        found.collect()
    }

    /// The range of a discard.
    pub fn range(&self, found: &Found) -> (u64, u32) {
        let at = self.at(found.data[0].0);
        assert_eq!((found.data[0].1, found.data[0].2), (16, false));
        (self.memory.read64(at), self.memory.read32(at + 8))
    }

    /// Say that a request is done, with this status.
    pub fn finish(&self, found: &Found, status: u8) {
        self.memory.write8(self.at(found.end), status);
        self.use_up(found.queue, u32::from(found.tag));
    }

    pub fn use_up(&self, queue: usize, tag: u32) {
        self.0.use_up(queue, tag, 1);
    }
}
