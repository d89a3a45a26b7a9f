//! Pipes, socket pairs and eventfd: made by the pipe manager.

use crate::descriptors::OpenFile;
use crate::errno::{Result, EAFNOSUPPORT, EINVAL, EISCONN, ENOPROTOOPT, EOPNOTSUPP, EPIPE};
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
    let words = Request::new(&words).brings(2).call(scheme(MANAGER)?)?;
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
    let words = Request::new(&words).brings(2).call(scheme(MANAGER)?)?;
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

const DONT_WAIT: u64 = 0x40;
const PEEK: u64 = 2;
const NO_SIGNAL: u64 = 0x4000;
const WAIT_ALL: u64 = 0x100;
/// RWF_NOWAIT of READ and WRITE.
const NOWAIT: u64 = 8;

fn flags_of(given: u64, allowed: u64) -> Result<u64> {
    if given & 0xffff_ffff & !(allowed | DONT_WAIT | NO_SIGNAL) != 0 {
        return Err(EOPNOTSUPP);
    }
    let nowait = if given & DONT_WAIT != 0 { NOWAIT } else { 0 };
    Ok(nowait | if given & PEEK != 0 { fs::PEEK } else { 0 })
}

pub fn sendto(f: &mut Frame) -> Result<u64> {
    let file = socket_end(f)?;
    if f.arg(4) != 0 {
        return Err(EISCONN);
    }
    let range = user::range(f.arg(1), f.arg(2))?;
    let flags = flags_of(f.arg(3), 0)?;
    let request = Request::new(&[fs::WRITE, fs::POSITION, flags]).out_user(range);
    sent(request.wait(file.slot()), f.arg(3))
}

fn sent(result: Result<[u64; 8]>, flags: u64) -> Result<u64> {
    if result == Err(EPIPE) && flags & NO_SIGNAL == 0 {
        crate::signal::calls::broken_pipe();
    }
    result.map(|w| w[0])
}

pub fn recvfrom(f: &mut Frame) -> Result<u64> {
    let file = socket_end(f)?;
    let range = user::range(f.arg(1), f.arg(2))?;
    let flags = flags_of(f.arg(3), PEEK | WAIT_ALL)?;
    let request = Request::new(&[fs::READ, fs::POSITION, flags]).input_user(range);
    let count = request.wait(file.slot())?[0];
    if f.arg(5) != 0 {
        // The other end of a pair has no name.
        user::write(f.arg(5), &0u32)?;
    }
    Ok(count)
}

/// `struct msghdr`: name, its length, iovec, count, control, its length, flags.
struct Header {
    pieces: crate::machine::request::Vector,
    control: u64,
}

fn header(address: u64) -> Result<Header> {
    let [_name, _length, pieces, count, _control, control, _flags] =
        user::read::<[u64; 7]>(address)?;
    Ok(Header {
        pieces: super::io::vector(pieces, count)?,
        control,
    })
}

/// sendmsg without descriptors to pass: those would need portals of another process.
pub fn sendmsg(f: &mut Frame) -> Result<u64> {
    let file = socket_end(f)?;
    let header = header(f.arg(1))?;
    if header.control != 0 {
        return Err(EOPNOTSUPP);
    }
    let words = [fs::WRITE, fs::POSITION, flags_of(f.arg(2), 0)?];
    let request = Request::new(&words).out_vector(&header.pieces);
    sent(request.wait(file.slot()), f.arg(2))
}

pub fn recvmsg(f: &mut Frame) -> Result<u64> {
    const CLOEXEC: u64 = 0x4000_0000;
    let file = socket_end(f)?;
    let header = header(f.arg(1))?;
    let words = [
        fs::READ,
        fs::POSITION,
        flags_of(f.arg(2) & !CLOEXEC, PEEK | WAIT_ALL)?,
    ];
    let request = Request::new(&words).input_vector(&header.pieces);
    let count = request.wait(file.slot())?[0];
    // No name, no control data, no flags.
    user::write(f.arg(1).wrapping_add(8), &0u32)?;
    user::write(f.arg(1).wrapping_add(40), &[0u64, 0])?;
    Ok(count)
}

pub fn shutdown(f: &mut Frame) -> Result<u64> {
    let file = socket_end(f)?;
    if f.arg(1) > 2 {
        return Err(EINVAL);
    }
    Request::new(&[fs::SHUTDOWN, f.arg(1)])
        .call(file.slot())
        .map(|_| 0)
}

/// Options of a pair's end: it has no error waiting and is of stream kind; nothing else is known.
pub fn getsockopt(f: &mut Frame) -> Result<u64> {
    const SOCKET: u64 = 1;
    const TYPE: u64 = 3;
    const ERROR: u64 = 4;
    socket_end(f)?;
    let value: u32 = match (f.arg(1), f.arg(2)) {
        (SOCKET, TYPE) => 1,
        (SOCKET, ERROR) => 0,
        _ => return Err(ENOPROTOOPT),
    };
    let length: u32 = user::read(f.arg(4))?;
    let bytes = value.to_le_bytes();
    let count = (length as usize).min(4);
    user::write_bytes(f.arg(3), &bytes[..count])?;
    user::write(f.arg(4), &(count as u32))?;
    Ok(0)
}

/// Both names of a pair's ends are empty: the family only.
pub fn getsockname(f: &mut Frame) -> Result<u64> {
    const UNIX: u16 = 1;
    socket_end(f)?;
    let length: u32 = user::read(f.arg(2))?;
    let count = (length as usize).min(2);
    user::write_bytes(f.arg(1), &UNIX.to_le_bytes()[..count])?;
    user::write(f.arg(2), &2u32)?;
    Ok(0)
}
