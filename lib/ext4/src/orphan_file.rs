//! The orphan file of newer systems: an array of inode numbers instead of the list through inodes. What another system left in it after a cut of power is moved to the list, which is
//! what we keep ourselves; every system that knows the file knows the list too.

use crate::bytes::le32;
use crate::cache::Kind;
use crate::error::{damaged, Error};
use crate::extent::Place;
use crate::fs::Fs;
use crate::inode::Inode;
use cairn_crc32c::crc32c;

const MAGIC: u32 = 0x0B10_CA04;
/// Behind the numbers: magic and sum.
const TAIL: usize = 8;
/// Moved by one operation.
const SOME: usize = 8;

pub(crate) fn sum(seed: u32, block: u64, data: &[u8]) -> u32 {
    let crc = crc32c(seed, &block.to_le_bytes());
    crc32c(crc, &data[..data.len() - TAIL])
}

pub(crate) fn check(seed: u32, block: u64, data: &[u8], sums: bool) -> Result<(), Error> {
    let tail = data.len() - TAIL;
    if le32(data, tail) != MAGIC || sums && le32(data, tail + 4) != sum(seed, block, data) {
        return damaged("block of the orphan file", block);
    }
    Ok(())
}

impl Fs {
    /// An orphan from before this mount, to be finished with [`Fs::finish`]; to be asked until there is none before anything else is done.
    /// Files without names that are `kept` are still open for somebody: only what they have behind their ends is finished, by [`Fs::cut_rest`].
    pub fn leftover(&mut self, kept: impl Fn(u32) -> bool) -> Result<Option<u32>, Error> {
        while let Some(ino) = self.orphan_file {
            if self.change(|fs| fs.adopt(ino))? {
                self.orphan_file = None;
            }
        }
        for &ino in self.orphans.iter().rev() {
            if !kept(ino) || self.inode(ino)?.links != 0 {
                return Ok(Some(ino));
            }
        }
        Ok(None)
    }

    /// Moves some numbers. True when there are none.
    fn adopt(&mut self, ino: u32) -> Result<bool, Error> {
        let file = self.inode(ino)?;
        let blocks = (file.size >> self.shape.block_bits).min(1 << 16) as u32;
        let mut moved = 0;
        for at in 0..blocks {
            let Place::Written(block) = self.find(&file, at)?.place else {
                return damaged("orphan file", u64::from(ino));
            };
            let data = self.checked(block, Kind::Orphans(file.seed))?;
            let numbers: alloc::vec::Vec<(usize, u32)> = data[..data.len() - TAIL]
                .chunks_exact(4)
                .map(|number| le32(number, 0))
                .enumerate()
                .filter(|(_, number)| *number != 0)
                .take(SOME - moved)
                .collect();
            for (place, number) in numbers {
                if number < self.shape.first_inode || number == ino {
                    return damaged("number in the orphan file", u64::from(number));
                }
                let mut inode = Inode::read(&self.shape, number, self.raw_inode(number)?);
                self.add_orphan(&mut inode)?;
                self.put_inode(&inode, true)?;
                self.cache.write(block, 4 * place, &[0; 4])?;
                moved += 1;
            }
            if moved == SOME {
                return Ok(false);
            }
        }
        // The superblock says so from this transaction on.
        Ok(moved == 0)
    }
}
