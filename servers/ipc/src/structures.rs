//! What commands answer, byte for byte as Linux x86-64 has it.

use crate::registry::Owner;

/// A structure being written.
pub struct Bytes {
    bytes: [u8; 128],
    length: usize,
}

impl Bytes {
    pub fn new(length: usize) -> Bytes {
        Bytes {
            bytes: [0; 128],
            length: length.min(128),
        }
    }

    pub fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub fn put64(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// `struct ipc64_perm` at the beginning.
pub fn with_owner(length: usize, owner: &Owner) -> Bytes {
    let mut bytes = Bytes::new(length);
    bytes.put32(0, owner.key);
    bytes.put32(4, owner.uid);
    bytes.put32(8, owner.gid);
    bytes.put32(12, owner.cuid);
    bytes.put32(16, owner.cgid);
    bytes.put32(20, owner.mode);
    bytes.put32(24, owner.id >> 15 & 0xffff);
    bytes
}

/// Commands that all three have.
pub const IPC_RMID: u32 = 0;
pub const IPC_SET: u32 = 1;
pub const IPC_STAT: u32 = 2;
pub const IPC_INFO: u32 = 3;
