//! Sockets: made by their manager, named, connected. What is sent and received is in [`super::messages`]; what Internet sockets have of their own in [`super::internet`], the rest is of local ones.
//!
//! A path leads to a socket by its *address*, a portal that the file server keeps with the node: bind(2) leaves it there, connect(2) and sendto(2) get it from there.

use super::internet::{self, is_internet};
use super::io;
use super::pipes::give_two;
use crate::descriptors::OpenFile;
use crate::errno::*;
use crate::machine::area::{process, Frame};
use crate::machine::buffer::Buffer;
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user;
use crate::path::{self, make_room, scheme, AT_FDCWD};
use alloc::sync::Arc;
use cairn_idl::capability::NET_RAW;
use cairn_idl::fs::{self, o, s};
use cairn_idl::local::{self, NAME_MAX};
use cairn_idl::net::{INET, INET6, NETLINK, PACKET};

const MANAGER: &[u8] = b"local:";
const UNIX: u16 = 1;
const FLAGS: u64 = o::CLOEXEC | o::NONBLOCK;
/// `sa_family_t`, and `struct sockaddr_un`.
const FAMILY: usize = 2;
const ADDRESS: usize = 110;
/// `struct sockaddr_storage`: of no family is more looked at.
const STORAGE: usize = 128;
const MODE: u32 = s::IFSOCK | 0o777;
/// Not among the errors that servers answer.
const ESOCKTNOSUPPORT: Errno = Errno(94);

/// The manager's mount portal.
pub fn manager() -> Result<u32> {
    scheme(MANAGER)
}

/// A descriptor that is a socket.
pub fn socket_of(argument: u64) -> Result<Arc<OpenFile>> {
    as_socket(io::file(argument)?)
}

fn as_socket(file: Arc<OpenFile>) -> Result<Arc<OpenFile>> {
    if file.path_only {
        return Err(EBADF);
    }
    match file.mode & s::IFMT == s::IFSOCK && file.object.is_none() {
        true => Ok(file),
        false => Err(ENOTSOCK),
    }
}

const RAW: u64 = 3;

/// Type and flags of a new socket.
fn split(f: &Frame) -> Result<(u64, u64)> {
    let kind = f.arg(1) & 0xffff_ffff;
    let (kind, flags) = (kind & 0xf, kind & !0xf);
    match flags & !FLAGS != 0 || kind > 10 {
        true => Err(EINVAL),
        false => Ok((kind, flags)),
    }
}

/// The same of a local one.
fn kind_and_flags(f: &Frame) -> Result<(u64, u64)> {
    let (family, protocol) = (f.arg(0) as u32, f.arg(2) as u32);
    let (kind, flags) = split(f)?;
    if family != u32::from(UNIX) {
        return Err(EAFNOSUPPORT);
    }
    if protocol > 1 {
        return Err(EPROTONOSUPPORT);
    }
    match kind {
        local::STREAM | local::DATAGRAM | local::SEQPACKET => Ok((kind, flags)),
        RAW => Ok((local::DATAGRAM, flags)),
        _ => Err(ESOCKTNOSUPPORT),
    }
}

pub fn socket(f: &mut Frame) -> Result<u64> {
    let family = f.arg(0) & 0xffff_ffff;
    if family == PACKET {
        // What kinds there are is said only to who may have one.
        let (kind, flags) = split(f)?;
        process().state().files.check_room()?;
        return internet::socket(family, kind, f.arg(2) & 0xffff_ffff, flags);
    }
    if matches!(family, INET | INET6 | NETLINK) {
        let (kind, flags) = split(f)?;
        let stream = kind == local::STREAM && family != NETLINK;
        if !stream && !matches!(kind, local::DATAGRAM | RAW) {
            return Err(ESOCKTNOSUPPORT);
        }
        process().state().files.check_room()?;
        return internet::socket(family, kind, f.arg(2) & 0xffff_ffff, flags);
    }
    let (kind, flags) = kind_and_flags(f)?;
    process().state().files.check_room()?;
    make_room()?;
    let words = [local::SOCKET, kind, flags & o::NONBLOCK];
    let words = Request::new(&words).brings(1).call(manager()?)?;
    give(words[7] as u32, flags, 0).map(u64::from)
}

/// A descriptor for a new socket.
pub fn give(slot: u32, flags: u64, kind: u64) -> Result<u32> {
    let file = Arc::new(OpenFile::portal(slot, kind, MODE));
    let cloexec = flags & o::CLOEXEC != 0;
    process().state().files.insert(file, cloexec, 0)
}

pub fn socketpair(f: &mut Frame) -> Result<u64> {
    let (kind, _) = split(f)?;
    if !user::touch(user::range(f.arg(3), 8)?, true) {
        return Err(EFAULT);
    }
    match f.arg(0) & 0xffff_ffff {
        NETLINK if !matches!(kind, local::DATAGRAM | RAW) => return Err(ESOCKTNOSUPPORT),
        PACKET if !process().is_capable(NET_RAW) => return Err(EPERM),
        PACKET if !matches!(kind, local::DATAGRAM | RAW) => return Err(ESOCKTNOSUPPORT),
        INET | INET6 | NETLINK | PACKET => return Err(EOPNOTSUPP),
        _ => {}
    }
    let (kind, flags) = kind_and_flags(f)?;
    make_room()?;
    let words = [local::PAIR, kind, flags & o::NONBLOCK];
    let words = Request::new(&words).brings(2).call(manager()?)?;
    give_two(f.arg(3), flags, words[6] as u32, words[7] as u32, MODE)
}

/// What a `struct sockaddr` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// AF_UNSPEC.
    Nobody,
    /// The family only.
    Automatic,
    /// What follows the NUL.
    Abstract(&'a [u8]),
    Path(&'a [u8]),
}

fn parse(bytes: &[u8]) -> Result<Name<'_>> {
    let (family, name) = bytes.split_first_chunk::<FAMILY>().ok_or(EINVAL)?;
    match (u16::from_ne_bytes(*family), name) {
        (0, _) => Ok(Name::Nobody),
        (UNIX, []) => Ok(Name::Automatic),
        (UNIX, [0, name @ ..]) => Ok(Name::Abstract(name)),
        (UNIX, name) => {
            let end = name.iter().position(|byte| *byte == 0);
            Ok(Name::Path(&name[..end.unwrap_or(name.len())]))
        }
        _ => Err(EINVAL),
    }
}

/// Take a `struct sockaddr` of the program's, and do something with what it means; the errors of both are `told`.
fn with_name_told<R>(
    address: u64,
    length: u64,
    work: impl FnOnce(Name) -> Result<R>,
    told: impl FnOnce(Errno) -> Errno,
) -> Result<R> {
    let length = length as u32 as usize;
    if length > STORAGE {
        return Err(EINVAL);
    }
    let mut bytes = [0; STORAGE];
    user::read_bytes(address, &mut bytes[..length])?;
    let name = match length > ADDRESS {
        false => parse(&bytes[..length]),
        true => Err(EINVAL),
    };
    name.and_then(work).map_err(told)
}

pub fn with_name<R>(address: u64, length: u64, work: impl FnOnce(Name) -> Result<R>) -> Result<R> {
    with_name_told(address, length, work, |errno| errno)
}

/// With the name that something is sent to. A stream takes none, whatever it is.
pub fn with_receiver<R>(
    file: &OpenFile,
    address: u64,
    length: u64,
    work: impl FnOnce(Name) -> Result<R>,
) -> Result<R> {
    with_name_told(address, length, work, |errno| {
        match option(file, super::socket_options::TYPE) {
            Ok(local::STREAM) => {}
            _ => return errno,
        }
        let mut peer: Buffer<NAME_MAX> = Buffer::new();
        let request = Request::new(&[local::NAME, 1]);
        match peer.receive(request).call(file.slot()) {
            Ok(_) => EISCONN,
            Err(_) => EOPNOTSUPP,
        }
    })
}

/// Give the program a `struct sockaddr`, as far as there is room for it: `name` is `sun_path`.
pub fn write_name(address: u64, length: u64, name: &[u8]) -> Result<()> {
    let room: u32 = user::read(length)?;
    if (room as i32) < 0 {
        return Err(EINVAL);
    }
    let count = put_name(address, room as usize, name)?;
    user::write(length, &(count as u32))
}

/// The same; how long it is.
pub fn put_name(address: u64, room: usize, name: &[u8]) -> Result<usize> {
    let mut bytes = [0; FAMILY + NAME_MAX];
    let count = FAMILY + name.len().min(NAME_MAX);
    bytes[..FAMILY].copy_from_slice(&UNIX.to_ne_bytes());
    bytes[FAMILY..count].copy_from_slice(&name[..count - FAMILY]);
    user::write_bytes(address, &bytes[..count.min(room)])?;
    Ok(count)
}

/// A portal that is closed when it has been used.
pub struct Passing(pub u32);

impl Drop for Passing {
    fn drop(&mut self) {
        gate::close(self.0);
    }
}

pub fn bind(f: &mut Frame) -> Result<u64> {
    let file = socket_of(f.arg(0))?;
    if is_internet(&file) {
        return internet::bind(&file, f.arg(1), f.arg(2)).map(|()| 0);
    }
    with_name(f.arg(1), f.arg(2), |name| match name {
        Name::Nobody => Err(EINVAL),
        Name::Automatic => Request::new(&[local::BIND]).call(file.slot()),
        Name::Abstract(name) => abstractly(&file, name),
        Name::Path(path) => bind_path(&file, path),
    })?;
    Ok(0)
}

/// (An abstract name may be empty, which BIND has another meaning for.)
fn abstractly(file: &OpenFile, name: &[u8]) -> Result<[u64; 8]> {
    if name.is_empty() {
        return Err(EINVAL);
    }
    Request::new(&[local::BIND]).out(name).call(file.slot())
}

fn bind_path(file: &OpenFile, path: &[u8]) -> Result<[u64; 8]> {
    make_room()?;
    let request = Request::new(&[local::BIND_PATH]).out(path).brings(1);
    let words = match request.call(file.slot()) {
        // The socket has a name; Linux looks at the path first.
        Err(EINVAL) => return Err(taken(path).unwrap_or(EINVAL)),
        other => other?,
    };
    let address = Passing(words[7] as u32);
    let umask = u64::from(process().state().files.umask());
    // Its own permissions, which fchmod(2) may have made fewer.
    let own = super::status::stat_handle(file)?.mode;
    let mode = u64::from(s::IFSOCK | own & 0o7777) & !umask;
    let made = path::walk(AT_FDCWD, path, |start, answer| {
        let request = Request::new(&[fs::MKNOD, mode, 0]).path(&start.rest);
        path::send(request.pass(address.0), start.slot, answer)
    });
    if let Err(error) = made {
        // It has no name after all.
        Request::new(&[local::UNBIND]).call(file.slot())?;
        return Err(match error {
            EEXIST => EADDRINUSE,
            error => error,
        });
    }
    Ok(words)
}

/// EADDRINUSE if there is something of this name.
fn taken(path: &[u8]) -> Option<Errno> {
    let flags = fs::at::SYMLINK_NOFOLLOW;
    let found = path::walk(AT_FDCWD, path, |start, answer| {
        let request = Request::new(&[fs::STAT, flags]).path(&start.rest);
        path::send(request, start.slot, answer)
    });
    found.is_ok().then_some(EADDRINUSE)
}

/// The address that a name means, for a socket of this type.
pub fn address_of(file: &OpenFile, name: Name) -> Result<Passing> {
    make_room()?;
    match name {
        Name::Nobody | Name::Automatic => Err(EINVAL),
        Name::Abstract(name) => {
            let kind = option(file, super::socket_options::TYPE)?;
            let request = Request::new(&[local::RESOLVE, kind]).out(name).brings(1);
            request.call(manager()?).map(|w| Passing(w[7] as u32))
        }
        Name::Path(path) => path::walk(AT_FDCWD, path, |start, answer| {
            let request = Request::new(&[fs::ADDRESS]).path(&start.rest).brings(1);
            path::send(request, start.slot, answer).map(|w| Passing(w[7] as u32))
        }),
    }
}

/// An option of SOL_SOCKET that is one word.
pub fn option(file: &OpenFile, number: u64) -> Result<u64> {
    let words = Request::new(&[local::GET_OPTION, number]).call(file.slot())?;
    Ok(words[1])
}

/// Does it carry bytes, and no messages?
pub fn is_stream(file: &OpenFile) -> bool {
    kind_of(file) == Ok(local::STREAM)
}

/// SO_TYPE
fn kind_of(file: &OpenFile) -> Result<u64> {
    match is_internet(file) {
        true => internet::number(file, super::socket_options::TYPE),
        false => option(file, super::socket_options::TYPE),
    }
}

pub fn listen(f: &mut Frame) -> Result<u64> {
    let file = socket_of(f.arg(0))?;
    Request::new(&[local::LISTEN, f.arg(1) & 0xffff_ffff])
        .call(file.slot())
        .map(|_| 0)
}

pub fn connect(f: &mut Frame) -> Result<u64> {
    let file = socket_of(f.arg(0))?;
    if is_internet(&file) {
        return internet::connect(&file, f.arg(1), f.arg(2)).map(|()| 0);
    }
    with_name(f.arg(1), f.arg(2), |name| {
        let request = Request::new(&[local::CONNECT]);
        if name == Name::Nobody {
            return request.call(file.slot());
        }
        let address = address_of(&file, name)?;
        request.pass(address.0).wait(file.slot())
    })?;
    Ok(0)
}

pub fn accept(f: &mut Frame) -> Result<u64> {
    accept_with(f, 0)
}

pub fn accept4(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(3) & 0xffff_ffff;
    accept_with(f, flags)
}

fn accept_with(f: &mut Frame, flags: u64) -> Result<u64> {
    let file = io::file(f.arg(0))?;
    if flags & !FLAGS != 0 {
        return Err(EINVAL);
    }
    let file = as_socket(file)?;
    process().state().files.check_room()?;
    make_room()?;
    let request = Request::new(&[local::ACCEPT, flags & o::NONBLOCK]).brings(1);
    let words = request.wait(file.slot())?;
    let new = Arc::new(OpenFile::portal(words[7] as u32, file.kind, MODE));
    if f.arg(1) != 0 {
        tell_name(&new, 1, f.arg(1), f.arg(2))?;
    }
    let cloexec = flags & o::CLOEXEC != 0;
    let fd = process().state().files.insert(new, cloexec, 0)?;
    Ok(u64::from(fd))
}

pub fn shutdown(f: &mut Frame) -> Result<u64> {
    let file = socket_of(f.arg(0))?;
    if f.arg(1) as u32 > 2 {
        return Err(EINVAL);
    }
    Request::new(&[local::SHUTDOWN, f.arg(1) & 3])
        .call(file.slot())
        .map(|_| 0)
}

/// The socket's own name, or (1) its peer's.
fn tell_name(file: &OpenFile, whose: u64, address: u64, length: u64) -> Result<()> {
    if is_internet(file) {
        return internet::tell_name(file, whose, address, length);
    }
    let mut name: Buffer<NAME_MAX> = Buffer::new();
    let request = Request::new(&[local::NAME, whose]);
    let words = name.receive(request).call(file.slot())?;
    name.filled(words[0]);
    write_name(address, length, name.as_bytes())
}

pub fn getsockname(f: &mut Frame) -> Result<u64> {
    tell_name(&*socket_of(f.arg(0))?, 0, f.arg(1), f.arg(2)).map(|()| 0)
}

pub fn getpeername(f: &mut Frame) -> Result<u64> {
    tell_name(&*socket_of(f.arg(0))?, 1, f.arg(1), f.arg(2)).map(|()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_they_are_written() {
        assert_eq!(parse(b"\x01\0"), Ok(Name::Automatic));
        assert_eq!(parse(b"\x01\0/tmp/x\0y"), Ok(Name::Path(b"/tmp/x")));
        assert_eq!(parse(b"\x01\0/tmp/x"), Ok(Name::Path(b"/tmp/x")));
        assert_eq!(parse(b"\x01\0\0ab\0"), Ok(Name::Abstract(b"ab\0")));
        assert_eq!(parse(b"\0\0"), Ok(Name::Nobody));
        assert_eq!(parse(b"\x02\0abc"), Err(EINVAL));
        assert_eq!(parse(b"\x01"), Err(EINVAL));
    }
}
