//! What the boot loader says, in the PVH protocol (Xen's `arch-x86/hvm/start_info.h`): memory map, modules, command line. Every address is physical.
//! The loader is trusted as far as the machine's owner trusts it, but every structure is read with bounds, through a [`Memory`].

/// Physical memory as far as it can be read now.
pub trait Memory {
    /// `len` bytes at a physical address, None if they cannot be reached.
    fn bytes(&self, address: u64, len: usize) -> Option<&'static [u8]>;

    fn u32(&self, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(address, 4)?.try_into().ok()?))
    }

    fn u64(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(address, 8)?.try_into().ok()?))
    }
}

const MAGIC: u32 = 0x336e_c578;
/// Longest command line.
pub const COMMAND_LINE_MAX: usize = 4095;
const MAP_MAX: usize = 64;

/// A range of physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Usable,
    Other,
}

/// The start information, read.
pub struct BootInfo {
    map: [(Range, Kind); MAP_MAX],
    map_len: usize,
    /// The first module: the boot archive.
    pub archive: Option<Range>,
    pub command_line: &'static [u8],
    /// 0 if the loader does not know.
    pub rsdp: u64,
    /// Where the information itself lies.
    pub itself: Range,
}

impl BootInfo {
    /// Read the structure at `address`.
    pub fn read(memory: &impl Memory, address: u64) -> Option<BootInfo> {
        if memory.u32(address)? != MAGIC {
            return None;
        }
        let version = memory.u32(address + 4)?;
        let modules = memory.u32(address + 12)?;
        let module_list = memory.u64(address + 16)?;
        let command_line = memory.u64(address + 24)?;
        let rsdp = memory.u64(address + 32)?;
        let mut info = BootInfo {
            map: [(Range::default(), Kind::Other); MAP_MAX],
            map_len: 0,
            archive: None,
            command_line: &[],
            rsdp,
            itself: Range {
                start: address,
                end: address + 64,
            },
        };
        if modules > 0 {
            let start = memory.u64(module_list)?;
            let size = memory.u64(module_list + 8)?;
            info.archive = Some(Range {
                start,
                end: start.checked_add(size)?,
            });
        }
        if command_line != 0 {
            info.command_line = string(memory, command_line);
        }
        // The memory map came with version 1; without it there is no way to know what is memory.
        if version < 1 {
            return None;
        }
        let map = memory.u64(address + 40)?;
        let entries = memory.u32(address + 48)? as usize;
        for i in 0..entries.min(MAP_MAX) {
            let at = map + 24 * i as u64;
            let start = memory.u64(at)?;
            let end = start.saturating_add(memory.u64(at + 8)?);
            let kind = if memory.u32(at + 16)? == 1 {
                Kind::Usable
            } else {
                Kind::Other
            };
            info.map[info.map_len] = (Range { start, end }, kind);
            info.map_len += 1;
        }
        Some(info)
    }

    pub fn map(&self) -> &[(Range, Kind)] {
        &self.map[..self.map_len]
    }

    /// The words of the command line.
    pub fn words(&self) -> impl Iterator<Item = &'static [u8]> {
        self.command_line
            .split(|b| b.is_ascii_whitespace())
            .filter(|word| !word.is_empty())
    }
}

fn string(memory: &impl Memory, address: u64) -> &'static [u8] {
    let mut len = 0;
    while len < COMMAND_LINE_MAX
        && memory
            .bytes(address + len as u64, 1)
            .is_some_and(|b| b[0] != 0)
    {
        len += 1;
    }
    memory.bytes(address, len).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake(&'static [u8]);

    impl Memory for Fake {
        fn bytes(&self, address: u64, len: usize) -> Option<&'static [u8]> {
            self.0
                .get(address as usize..(address as usize).checked_add(len)?)
        }
    }

    fn image(words: &[(usize, u64)], text: (usize, &[u8])) -> Fake {
        let mut bytes = vec![0u8; 512];
        for &(at, word) in words {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[text.0..text.0 + text.1.len()].copy_from_slice(text.1);
        Fake(bytes.leak())
    }

    fn good() -> Vec<(usize, u64)> {
        vec![
            (0, MAGIC as u64 | 1 << 32),
            (8, 1 << 32),
            (16, 128),
            (24, 192),
            (32, 0xf5000),
            (40, 256),
            (48, 2),
            (128, 0x100_0000),
            (136, 0x5000),
            (256, 0x10_0000),
            (264, 0x700_0000),
            (272, 1),
            (280, 0xfff0_0000),
            (288, 0x10_0000),
            (296, 2),
        ]
    }

    #[test]
    fn reads_everything() {
        let info = BootInfo::read(&image(&good(), (192, b"a  b=c")), 0).unwrap();
        assert_eq!(
            info.archive,
            Some(Range {
                start: 0x100_0000,
                end: 0x100_5000
            })
        );
        assert_eq!(info.rsdp, 0xf5000);
        assert_eq!(info.words().collect::<Vec<_>>(), [&b"a"[..], b"b=c"]);
        assert_eq!(info.map().len(), 2);
        assert_eq!(info.map()[0].1, Kind::Usable);
        assert_eq!(info.map()[1].0.start, 0xfff0_0000);
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        let mut words = good();
        words[0].1 += 1;
        assert!(BootInfo::read(&image(&words, (192, b"")), 0).is_none());
        let mut words = good();
        words[5].1 = 500;
        assert!(BootInfo::read(&image(&words, (192, b"")), 0).is_none());
        let mut words = good();
        words[2].1 = u64::MAX - 3;
        assert!(BootInfo::read(&image(&words, (192, b"")), 0).is_none());
    }
}
