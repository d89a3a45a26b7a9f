//! Builds a component's start-up block (`cairn_abi::state::Startup`): header, named portals, arguments.

use alloc::string::String;
use alloc::vec::Vec;
use cairn_abi::state::STARTUP_MAGIC;

/// What does not fit into the one page of the block.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// Bytes of the block.
pub const SIZE: usize = 4096;

fn padded(name: &str) -> [u8; 24] {
    let mut bytes = [0; 24];
    let len = name.len().min(23);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    bytes
}

/// The block for component `name` with its named portals (name, slot), arguments, and the lengths of the archive and of its keepsake if it gets them.
pub fn build(
    name: &str,
    portals: &[(&str, u32)],
    arguments: &[String],
    (archive_len, keepsake_len): (u64, u64),
) -> Result<Vec<u8>, TooLong> {
    let mut text = Vec::new();
    for argument in arguments {
        text.extend(argument.as_bytes());
        text.push(0);
    }
    let mut block = Vec::with_capacity(SIZE);
    block.extend(STARTUP_MAGIC.to_le_bytes());
    block.extend((text.len() as u32).to_le_bytes());
    block.extend((portals.len() as u32).to_le_bytes());
    block.extend(archive_len.to_le_bytes());
    block.extend(keepsake_len.to_le_bytes());
    block.extend(padded(name));
    for (name, slot) in portals {
        block.extend(padded(name));
        block.extend(slot.to_le_bytes());
        block.extend([0; 4]);
    }
    block.extend(text);
    if block.len() > SIZE {
        return Err(TooLong);
    }
    block.resize(SIZE, 0);
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_abi::state::{NamedPortal, Startup};
    use core::mem::size_of;

    #[test]
    fn the_block_has_the_layout_of_the_abi() {
        let block = build(
            "tty",
            &[("proc", 8), ("uart0", 9)],
            &["rows=25".into()],
            (77, 78),
        )
        .unwrap();
        let portals = size_of::<Startup>();
        let arguments = portals + 2 * size_of::<NamedPortal>();
        assert_eq!(block[..8], STARTUP_MAGIC.to_le_bytes());
        assert_eq!(block[8..16], [8, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!((block[16], block[24]), (77, 78));
        assert_eq!(&block[32..36], b"tty\0");
        assert_eq!(&block[portals..portals + 5], b"proc\0");
        assert_eq!(block[portals + 24], 8);
        assert_eq!(&block[arguments..arguments + 8], b"rows=25\0");
        assert_eq!(block.len(), SIZE);
    }

    #[test]
    fn too_many_arguments_are_refused() {
        assert_eq!(build("x", &[], &["y".repeat(5000)], (0, 0)), Err(TooLong));
    }
}
