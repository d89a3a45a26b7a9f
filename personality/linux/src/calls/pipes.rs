//! Pipes, socket pairs and eventfd: made by the pipe manager.

use crate::descriptors::OpenFile;
use crate::errno::{Result, EAFNOSUPPORT, EINVAL, EOPNOTSUPP};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use crate::path::{make_room, scheme};
use alloc::sync::Arc;
use cairn_idl::fs::{self, o, s};

const MANAGER: &[u8] = b"pipe:";

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
    let words = Request::new(&words).call(scheme(MANAGER)?)?;
    let mode = s::IFIFO | 0o600;
    give_two(target, flags, words[6] as u32, words[7] as u32, mode)
}

/// Two new descriptors for two portals; both or none.
fn give_two(target: u64, flags: u64, first: u32, second: u32, mode: u32) -> Result<u64> {
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

pub fn socketpair(f: &mut Frame) -> Result<u64> {
    const UNIX: u64 = 1;
    const FLAGS: u64 = o::CLOEXEC | o::NONBLOCK;
    let (family, kind, protocol) = (f.arg(0), f.arg(1) & 0xffff_ffff, f.arg(2));
    if family != UNIX {
        return Err(EAFNOSUPPORT);
    }
    let (kind, flags) = (kind & !FLAGS, kind & FLAGS);
    // Stream, datagram, sequenced packets.
    if !matches!(kind, 1 | 2 | 5) || protocol > 1 {
        return Err(EOPNOTSUPP);
    }
    user::range(f.arg(3), 8)?;
    make_room()?;
    let words = [fs::SOCKETPAIR, kind, flags & !o::CLOEXEC];
    let words = Request::new(&words).call(scheme(MANAGER)?)?;
    let mode = s::IFSOCK | 0o777;
    give_two(f.arg(3), flags, words[6] as u32, words[7] as u32, mode)
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
    let words = Request::new(&words).call(scheme(MANAGER)?)?;
    let slot = words[7] as u32;
    let file = Arc::new(OpenFile::portal(slot, 0, 0o600));
    let cloexec = flags & o::CLOEXEC != 0;
    process()
        .state()
        .files
        .insert(file, cloexec, 0)
        .map(u64::from)
}

/// There is no network yet.
pub fn socket(_: &mut Frame) -> Result<u64> {
    Err(EAFNOSUPPORT)
}

/// Calls on sockets: of a socket pair's ends only shutdown, sending and receiving without addresses make sense.
pub fn not_a_socket(f: &mut Frame) -> Result<u64> {
    let file = super::io::usable(f.arg(0))?;
    if file.mode & s::IFMT == s::IFSOCK {
        Err(EOPNOTSUPP)
    } else {
        Err(crate::errno::ENOTSOCK)
    }
}

fn socket_end(f: &Frame) -> Result<Arc<OpenFile>> {
    let file = super::io::usable(f.arg(0))?;
    if file.mode & s::IFMT != s::IFSOCK {
        return Err(crate::errno::ENOTSOCK);
    }
    Ok(file)
}

pub fn sendto(f: &mut Frame) -> Result<u64> {
    let file = socket_end(f)?;
    if f.arg(4) != 0 {
        return Err(EOPNOTSUPP);
    }
    let range = user::range(f.arg(1), f.arg(2))?;
    super::io::write_at(&file, range, fs::POSITION, 0)
}

pub fn recvfrom(f: &mut Frame) -> Result<u64> {
    let file = socket_end(f)?;
    let range = user::range(f.arg(1), f.arg(2))?;
    if f.arg(5) != 0 {
        user::write(f.arg(5), &0u32)?;
    }
    super::io::read_at(&file, range, fs::POSITION, 0)
}
