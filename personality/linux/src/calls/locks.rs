//! Record locks (fcntl) and whole-file locks (flock).

use super::io::usable;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EINVAL, EOVERFLOW};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use cairn_idl::fs;
use core::sync::atomic::{AtomicBool, Ordering};

/// Has this process ever set a record lock? Only then closing must drop them.
static USED: AtomicBool = AtomicBool::new(false);

const GETLK: u64 = 5;
const SETLK: u64 = 6;
const OFD_FIRST: u64 = 36;
const UNLOCK: u64 = 2;

/// `struct flock`: type and whence in the first word, start, length, pid.
pub fn fcntl(file: &OpenFile, command: u64, address: u64) -> Result<u64> {
    if file.object.is_some() {
        return Err(EINVAL);
    }
    let [kinds, start, length, pid] = user::read::<[u64; 4]>(address)?;
    let (kind, whence) = (kinds & 0xffff, kinds >> 16 & 0xffff);
    // (Whether nothing is locked is no question.)
    if kind > UNLOCK || kind == UNLOCK && command == GETLK {
        return Err(EINVAL);
    }
    // A lock of the open file is no process's.
    if command >= OFD_FIRST && pid as u32 != 0 {
        return Err(EINVAL);
    }
    let base = match whence {
        0 => 0,
        1 => {
            crate::frames::settle(file);
            Request::new(&[fs::SEEK, 0, 1]).call(file.slot())?[0]
        }
        2 => super::status::stat_handle(file)?.size as u64,
        _ => return Err(EINVAL),
    };
    let mut first = (base as i64).checked_add(start as i64).ok_or(EOVERFLOW)?;
    let mut length = length as i64;
    if length < 0 {
        first = first.checked_add(length).ok_or(EOVERFLOW)?;
        length = -length;
    }
    if first < 0 {
        return Err(EINVAL);
    }
    first.checked_add((length - 1).max(0)).ok_or(EOVERFLOW)?;
    let (command, owner) = if command >= OFD_FIRST {
        (command - OFD_FIRST + GETLK, 0)
    } else {
        USED.store(true, Ordering::Relaxed);
        (command, process().pid() as u64)
    };
    let what = command - GETLK;
    let words = [fs::LOCK, what, kind, first as u64, length as u64, owner];
    let words = Request::new(&words).wait(file.slot())?;
    if command == GETLK {
        let answer = [words[1] & 0xffff, words[2], words[3], words[4]];
        // A free range keeps the caller's fields but for the type.
        if answer[0] == UNLOCK {
            user::write(address, &(UNLOCK as u16))?;
        } else {
            user::write(address, &answer)?;
        }
    }
    Ok(0)
}

/// POSIX: closing any descriptor of a file drops the process's record locks on it.
pub fn closing(file: &OpenFile) {
    if USED.load(Ordering::Relaxed) && file.object.is_none() {
        let owner = process().pid() as u64;
        let words = [fs::LOCK, SETLK - GETLK, UNLOCK, 0, 0, owner];
        let _ = Request::new(&words).call(file.slot());
    }
}

pub fn flock(f: &mut Frame) -> Result<u64> {
    // (LOCK_MAND, which did nothing for years, still does nothing.)
    const MANDATORY: u64 = 32;
    let operation = f.arg(1) & 0xffff_ffff;
    if operation & MANDATORY != 0 {
        return Ok(0);
    }
    let file = usable(f.arg(0))?;
    if !matches!(operation & !4, 1 | 2 | 8) || file.object.is_some() {
        return Err(EINVAL);
    }
    Request::new(&[fs::FLOCK, operation, process().pid().into()])
        .wait(file.slot())
        .map(|_| 0)
}
