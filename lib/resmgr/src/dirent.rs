//! Packing of `linux_dirent64` records: ino u64, next position u64, record length u16, type u8, name, NUL, padding to 8.

use crate::server::Answer;
use cairn_idl::fs::s;

/// Records being packed for one READDIR.
pub struct Dirents<'a> {
    buffer: &'a mut [u8],
    used: usize,
    refused: bool,
}

impl<'a> Dirents<'a> {
    pub fn new(buffer: &'a mut [u8]) -> Dirents<'a> {
        Dirents {
            buffer,
            used: 0,
            refused: false,
        }
    }

    /// Add one entry. `next` is the position that reading goes on with behind this entry; `mode` gives the type. `false`: no room, stop here.
    pub fn add(&mut self, ino: u64, next: u64, mode: u32, name: &[u8]) -> bool {
        let length = (19 + name.len() + 1).next_multiple_of(8);
        let Some(record) = self.buffer.get_mut(self.used..self.used + length) else {
            self.refused = true;
            return false;
        };
        record[0..8].copy_from_slice(&ino.to_le_bytes());
        record[8..16].copy_from_slice(&next.to_le_bytes());
        record[16..18].copy_from_slice(&(length as u16).to_le_bytes());
        record[18] = ((mode & s::IFMT) >> 12) as u8;
        record[19..19 + name.len()].copy_from_slice(name);
        record[19 + name.len()..].fill(0);
        self.used += length;
        true
    }

    /// A directory that is listed whole: its entries from this position on (inode, mode, name), as far as there is room; where reading goes on.
    pub fn add_from<'n>(
        &mut self,
        mut position: u64,
        entries: impl Iterator<Item = Answer<(u64, u32, &'n [u8])>>,
    ) -> Answer<u64> {
        for entry in entries.skip(position as usize) {
            let (ino, mode, name) = entry?;
            if !self.add(ino, position + 1, mode, name) {
                break;
            }
            position += 1;
        }
        Ok(position)
    }

    pub fn len(&self) -> usize {
        self.used
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// An entry did not fit.
    pub fn full(&self) -> bool {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_packed_and_bounded() {
        let mut buffer = [0xffu8; 56];
        let mut dirents = Dirents::new(&mut buffer);
        assert!(dirents.add(7, 1, s::IFDIR | 0o755, b"."));
        assert!(dirents.add(8, 2, s::IFREG, b"12345"));
        assert!(!dirents.add(9, 3, s::IFREG, b"x"));
        assert!(dirents.full());
        assert_eq!(dirents.len(), 24 + 32);
        assert_eq!(buffer[16], 24);
        assert_eq!(buffer[18], 4);
        assert_eq!(&buffer[19..24], b".\0\0\0\0");
        assert_eq!(buffer[24 + 16], 32);
        assert_eq!(buffer[24 + 18], 8);
        assert_eq!(&buffer[43..49], b"12345\0");
    }
}
