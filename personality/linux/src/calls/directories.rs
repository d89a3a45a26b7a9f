//! Reading directories. The list of a process's own descriptors is known to the personality only and made here.

use super::io::usable;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EINVAL};
use crate::event::Object;
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_idl::fs::{self, o};

pub fn getdents64(f: &mut Frame) -> Result<u64> {
    let file = usable(f.arg(0))?;
    let room = f.arg(2) & 0xffff_ffff;
    if room > i32::MAX as u64 {
        return Err(EINVAL);
    }
    let range = user::range(f.arg(1), room)?;
    match &file.object {
        Some(Object::Descriptors(position)) => {
            let mut at = position.lock();
            let (bytes, next) = list(*at, range.len() as usize)?;
            user::write_bytes(range.base(), &bytes)?;
            *at = next;
            Ok(bytes.len() as u64)
        }
        None => Request::new(&[fs::READDIR])
            .input_user(range)
            .call(file.slot())
            .map(|w| w[0]),
    }
}

/// getdents(2) of old: the same records in the same room, but the type is the last byte and the name a byte further in front.
pub fn getdents(f: &mut Frame) -> Result<u64> {
    const HEADER: usize = 18;
    let length = getdents64(f)?;
    let mut at = 0;
    while at < length {
        let address = f.arg(1) + at;
        let size = user::read::<u16>(address + 16)? as usize;
        // What another thread wrote there meanwhile is its own affair.
        if size <= HEADER || at + size as u64 > length {
            break;
        }
        let mut record = alloc::vec![0; size];
        user::read_bytes(address, &mut record)?;
        let kind = record[HEADER];
        record.copy_within(HEADER + 1.., HEADER);
        record[size - 1] = kind;
        user::write_bytes(address, &record)?;
        at += size as u64;
    }
    Ok(length)
}

/// Open /proc/self/fd itself.
pub fn open_list(flags: u64) -> Result<u64> {
    let mut file = OpenFile::own(Object::Descriptors(crate::machine::lock::Lock::new(0)));
    file.mode = fs::s::IFDIR | 0o500;
    let cloexec = flags & o::CLOEXEC != 0;
    process()
        .state()
        .files
        .insert(Arc::new(file), cloexec, 0)
        .map(u64::from)
}

/// `linux_dirent64` records from a position on: `.`, `..`, then the descriptors in use.
fn list(position: u64, room: usize) -> Result<(Vec<u8>, u64)> {
    let numbers: Vec<u32> = process().state().files.numbers().collect();
    let mut bytes = Vec::new();
    let mut next = position;
    let mut add = |offset: u64, name: &[u8], kind: u8| {
        let size = (19 + name.len() + 1).next_multiple_of(8);
        if bytes.len() + size > room {
            return false;
        }
        let start = bytes.len();
        bytes.resize(start + size, 0);
        let record = &mut bytes[start..];
        record[..8].copy_from_slice(&(offset + 2).to_le_bytes());
        record[8..16].copy_from_slice(&offset.to_le_bytes());
        record[16..18].copy_from_slice(&(size as u16).to_le_bytes());
        record[18] = kind;
        record[19..19 + name.len()].copy_from_slice(name);
        next = offset;
        true
    };
    const DIRECTORY: u8 = 4;
    const LINK: u8 = 10;
    let mut room_left = true;
    if position < 1 {
        room_left = add(1, b".", DIRECTORY);
    }
    if position < 2 && room_left {
        room_left = add(2, b"..", DIRECTORY);
    }
    for number in numbers {
        let offset = number as u64 + 3;
        if offset <= position || !room_left {
            continue;
        }
        let mut line = crate::text::Line::new();
        line.number(number as u64);
        room_left = add(offset, line.bytes(), LINK);
    }
    if bytes.is_empty() && !room_left {
        return Err(EINVAL);
    }
    Ok((bytes, next))
}
