//! Pipes and eventfd: made by the pipe manager.

use crate::descriptors::OpenFile;
use crate::errno::{Result, EINVAL};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use crate::path::{make_room, scheme};
use alloc::sync::Arc;
use cairn_idl::fs::{self, o, s};

pub const MANAGER: &[u8] = b"pipe:";

pub fn pipe(f: &mut Frame) -> Result<u64> {
    make_pipe(f.arg(0), 0)
}

pub fn pipe2(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(1) & 0xffff_ffff;
    if flags & !(o::CLOEXEC | o::NONBLOCK | o::DIRECT) != 0 {
        return Err(EINVAL);
    }
    make_pipe(f.arg(0), flags)
}

fn make_pipe(target: u64, flags: u64) -> Result<u64> {
    user::range(target, 8)?;
    make_room()?;
    let words = [fs::PIPE, flags & !o::CLOEXEC];
    let words = Request::new(&words).brings(2).call(scheme(MANAGER)?)?;
    let mode = s::IFIFO | 0o600;
    give_two(target, flags, words[6] as u32, words[7] as u32, mode)
}

/// Two new descriptors for two portals; both or none.
pub(super) fn give_two(target: u64, flags: u64, first: u32, second: u32, mode: u32) -> Result<u64> {
    let cloexec = flags & o::CLOEXEC != 0;
    let make = |slot| Arc::new(OpenFile::portal(slot, 0, mode));
    let (first, second) = (make(first), make(second));
    let process = process();
    let mut state = process.state();
    let a = state.files.insert(first, cloexec, 0)?;
    let b = match state.files.insert(second, cloexec, 0) {
        Ok(b) => b,
        Err(error) => {
            let _ = state.files.remove(a);
            return Err(error);
        }
    };
    drop(state);
    if let Err(error) = user::write(target, &[a, b]) {
        let mut state = process.state();
        let _ = (state.files.remove(a), state.files.remove(b));
        return Err(error);
    }
    Ok(0)
}

pub fn eventfd(f: &mut Frame) -> Result<u64> {
    make_event(f.arg(0), 0)
}

pub fn eventfd2(f: &mut Frame) -> Result<u64> {
    make_event(f.arg(0), f.arg(1) & 0xffff_ffff)
}

fn make_event(value: u64, flags: u64) -> Result<u64> {
    if flags & !(o::CLOEXEC | o::NONBLOCK | 1) != 0 {
        return Err(EINVAL);
    }
    process().state().files.check_room()?;
    make_room()?;
    let words = [fs::EVENTFD, value & 0xffff_ffff, flags & !o::CLOEXEC];
    let words = Request::new(&words).brings(1).call(scheme(MANAGER)?)?;
    let slot = words[7] as u32;
    let file = Arc::new(OpenFile::portal(slot, 0, 0o600));
    let cloexec = flags & o::CLOEXEC != 0;
    process()
        .state()
        .files
        .insert(file, cloexec, 0)
        .map(u64::from)
}
