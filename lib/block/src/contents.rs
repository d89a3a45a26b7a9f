//! What lies on a disk or partition, by its superblock: the number and the label by which file systems and swap spaces are found (`/dev/disk/by-uuid`, `by-label`). In the words of libblkid; only what this system serves, or its tools make.
//!
//! What is there is not believed: it is told from other things by its magic and by numbers that must fit, and who looks like two things is none.

use crate::partition::Unreadable;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Empty: it has none.
    pub uuid: String,
    /// Bytes as they are there, most often UTF-8.
    pub label: Vec<u8>,
}

/// What reads bytes of the disk or partition, from byte `at` on.
pub trait Bytes {
    fn bytes(&mut self, at: u64, into: &mut [u8]) -> Result<(), Unreadable>;
}

/// Pages of a swap space.
const PAGE: u64 = 4096;
/// As much of FAT's root folder is looked through for its label.
const FOLDER: usize = 4096;

/// What one of them has there, if it is that.
type Look<R> = fn(&mut R) -> Result<Option<Contents>, Unreadable>;

/// What lies on a part of `bytes` bytes; None: nothing that is known.
pub fn contents(bytes: u64, read: &mut impl Bytes) -> Result<Option<Contents>, Unreadable> {
    fn looks<R: Bytes>() -> [(u64, Look<R>); 4] {
        [(4096, ext), (2 * PAGE, swap), (36_864, iso), (4096, fat)]
    }
    let mut found = None;
    for (least, look) in looks() {
        if bytes < least {
            continue;
        }
        if let Some(contents) = look(read)? {
            if found.is_some() {
                return Ok(None);
            }
            found = Some(contents);
        }
    }
    Ok(found)
}

fn short(bytes: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    short(bytes, at) | short(bytes, at + 2) << 16
}

fn uuid(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| *byte == 0) {
        return String::new();
    }
    let mut text = String::new();
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

/// Up to the first NUL, without blanks behind it.
fn label(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes[..end.unwrap_or(bytes.len())]
        .trim_ascii_end()
        .to_vec()
}

/// ext2 to ext4.
fn ext<R: Bytes>(read: &mut R) -> Result<Option<Contents>, Unreadable> {
    let mut block = [0; 256];
    read.bytes(1024, &mut block)?;
    Ok((short(&block, 56) == 0xef53).then(|| Contents {
        uuid: uuid(&block[104..120]),
        label: label(&block[120..136]),
    }))
}

fn swap<R: Bytes>(read: &mut R) -> Result<Option<Contents>, Unreadable> {
    let (mut magic, mut header) = ([0; 10], [0; 44]);
    read.bytes(PAGE - 10, &mut magic)?;
    if magic != *b"SWAPSPACE2" {
        return Ok(None);
    }
    read.bytes(1024, &mut header)?;
    // The version, in this machine's order.
    Ok((word(&header, 0) == 1).then(|| Contents {
        uuid: uuid(&header[12..28]),
        label: label(&header[28..44]),
    }))
}

/// ISO 9660: its number is the time when it was changed, or made.
fn iso<R: Bytes>(read: &mut R) -> Result<Option<Contents>, Unreadable> {
    let mut block = vec![0; 2048];
    read.bytes(32_768, &mut block)?;
    if block[1..6] != *b"CD001" || block[0] != 1 {
        return Ok(None);
    }
    let time = |at: usize| {
        let digits = core::str::from_utf8(&block[at..at + 16]).ok()?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        if !plain || digits.bytes().all(|byte| byte == b'0') {
            return None;
        }
        let mut text = String::from(&digits[..4]);
        for at in (4..16).step_by(2) {
            text = text + "-" + &digits[at..at + 2];
        }
        Some(text)
    };
    Ok(Some(Contents {
        uuid: time(830).or_else(|| time(813)).unwrap_or_default(),
        label: label(&block[40..72]),
    }))
}

/// FAT: the label in its root folder goes before that in its first block.
fn fat<R: Bytes>(read: &mut R) -> Result<Option<Contents>, Unreadable> {
    let mut block = [0; 512];
    read.bytes(0, &mut block)?;
    let (sector, cluster) = (short(&block, 11), u64::from(block[13]));
    let (reserved, tables, entries) = (short(&block, 14), u64::from(block[16]), short(&block, 17));
    let sane = matches!(block[0], 0xeb | 0xe9)
        && block[510..] == [0x55, 0xaa]
        && matches!(sector, 512 | 1024 | 2048 | 4096)
        && cluster.is_power_of_two()
        && reserved > 0
        && (1..=2).contains(&tables)
        && (block[21] >= 0xf8 || block[21] == 0xf0);
    if !sane {
        return Ok(None);
    }
    // Only FAT32 has no length of its tables here, and its root folder among the clusters.
    let (large, length) = match short(&block, 22) {
        0 => (true, word(&block, 36)),
        length => (false, length),
    };
    let (number, text, magic) = if large { (67, 71, 82) } else { (39, 43, 54) };
    if length == 0 || large != (entries == 0) || block[magic..magic + 3] != *b"FAT" {
        return Ok(None);
    }
    let (first, bytes) = match large {
        true => {
            let into = word(&block, 44).checked_sub(2).ok_or(Unreadable)?;
            (into * cluster * sector, cluster * sector)
        }
        false => (0, entries * 32),
    };
    let mut folder = vec![0; FOLDER.min(bytes as usize)];
    read.bytes((reserved + tables * length) * sector + first, &mut folder)?;
    let named = folder
        .chunks_exact(32)
        .take_while(|entry| entry[0] != 0)
        // A volume's label, and no part of a long name.
        .find(|entry| entry[0] != 0xe5 && entry[11] & 0x3f & !0x20 == 0x08);
    let own = named.map_or(&block[text..text + 11], |entry| &entry[..11]);
    Ok(Some(Contents {
        uuid: match word(&block, number) {
            0 => String::new(),
            id => format!("{:04X}-{:04X}", id >> 16, id & 0xffff),
        },
        label: match own {
            b"NO NAME    " => Vec::new(),
            own => label(own),
        },
    }))
}

#[cfg(test)]
#[path = "contents_tests.rs"]
mod tests;
