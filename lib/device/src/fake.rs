//! For tests of drivers on the host: memory that driver and device both see, each by its own addresses.

use crate::Memory;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

const PIECE: usize = 65536;
/// Where the first piece is for the device; two pieces' length is between any two of them.
const START: u64 = 0x10_0000;

#[derive(Clone)]
pub struct FakeMemory(Rc<RefCell<Vec<u8>>>);

impl FakeMemory {
    pub fn new(pieces: usize) -> FakeMemory {
        FakeMemory(Rc::new(RefCell::new(vec![0; pieces * PIECE])))
    }

    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        assert!(at.is_multiple_of(N));
        let bytes = self.0.borrow();
        core::array::from_fn(|i| bytes[at + i])
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(bytes.len()));
        self.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// What the device reads as 64 bits.
    pub fn read64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.get(at))
    }

    /// Where in the memory an address of the device is.
    pub fn place(&self, address: u64) -> Option<usize> {
        let from = address.checked_sub(START)? as usize;
        let at = from / (3 * PIECE) * PIECE + from % (3 * PIECE);
        (from % (3 * PIECE) < PIECE && at < self.0.borrow().len()).then_some(at)
    }
}

impl Memory for FakeMemory {
    fn physical(&self, at: usize) -> u64 {
        START + (at / PIECE * 3 * PIECE + at % PIECE) as u64
    }
    fn read8(&self, at: usize) -> u8 {
        self.get::<1>(at)[0]
    }
    fn read16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.get(at))
    }
    fn read32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.get(at))
    }
    fn write8(&self, at: usize, value: u8) {
        self.put(at, &[value]);
    }
    fn write16(&self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }
    fn write32(&self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }
    fn write64(&self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }
    fn barrier(&self) {}
}
