//! Internet sockets: addresses and control messages between the structures that programs have and the words of `net.idl`. What neither has an address nor a control message nor a flag goes as a read or write, as for all sockets.

use super::io;
use super::messages::{put_control, Header};
use super::socket_options::TYPE as SO_TYPE;
use super::socket_options::{memory_info, narrowed, wide_value, width};
use super::socket_options::{COOKIE, MAX_PACING_RATE, MEMINFO, MEMINFO_SIZE, TXTIME};
use super::sockets::{give, Passing};
use crate::descriptors::OpenFile;
use crate::errno::*;
use crate::filter;
use crate::machine::request::{Request, Vector};
use crate::machine::user::{self, UserRange};
use crate::path::{make_room, scheme};
use alloc::vec::Vec;
use cairn_idl::fs::{self, kind, o};
use cairn_idl::net::{self, msg, with, INET, INET6, NETLINK, PACKET};

const MANAGER: &[u8] = b"net:";
/// `struct sockaddr_storage`; `sockaddr_in`; `sockaddr_in6` without and with its scope.
pub const STORAGE: usize = 128;
const V4: usize = 16;
const V6_OLD: usize = 24;
const V6: usize = 28;
/// `struct sockaddr_nl`
const NL: usize = 12;
/// `struct sockaddr_ll`; without the hardware's address.
const LL: usize = 20;
const LL_HEAD: usize = 12;
/// Protocols of IP have numbers below.
const PROTOCOLS: u64 = 263;

/// Does this descriptor's server speak `net.idl`?
pub fn is_internet(file: &OpenFile) -> bool {
    file.is(kind::INTERNET)
}

pub fn socket(family: u64, kind: u64, protocol: u64, flags: u64) -> Result<u64> {
    if protocol >= PROTOCOLS && !matches!(family, NETLINK | PACKET) {
        return Err(EINVAL);
    }
    make_room()?;
    let words = [net::SOCKET, family, kind, protocol, flags & o::NONBLOCK];
    let words = Request::new(&words).brings(1).call(scheme(MANAGER)?)?;
    give(words[7] as u32, flags, kind::INTERNET).map(u64::from)
}

/// A socket for one question.
pub fn asker() -> Result<Passing> {
    make_room()?;
    let words = [net::SOCKET, INET, 2, 0, 0];
    let words = Request::new(&words).brings(1).call(scheme(MANAGER)?)?;
    Ok(Passing(words[7] as u32))
}

/// An address as `net.idl` has it: two words, and port, family and scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(pub [u64; 3]);

fn word(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// An address of IPv4 is its mapped one.
fn mapped(v4: &[u8]) -> [u64; 2] {
    let mut high = [0, 0, 0xff, 0xff, 0, 0, 0, 0];
    high[4..].copy_from_slice(&v4[..4]);
    [0, u64::from_le_bytes(high)]
}

fn parse(bytes: &[u8]) -> Result<Name> {
    let family = bytes.first_chunk().ok_or(EINVAL)?;
    let family = u64::from(u16::from_ne_bytes(*family));
    let port = |bytes: &[u8]| u64::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    match family {
        INET6 if bytes.len() < V6_OLD => Err(EINVAL),
        INET6 => {
            let scope = match bytes.get(24..V6) {
                Some(scope) => scope.first_chunk().map_or(0, |b| u32::from_ne_bytes(*b)),
                None => 0,
            };
            let word2 = port(bytes) | INET6 << 16 | u64::from(scope) << 32;
            Ok(Name([word(&bytes[8..16]), word(&bytes[16..24]), word2]))
        }
        NETLINK if bytes.len() < NL => Err(EINVAL),
        NETLINK => Ok(Name([word(&bytes[4..NL]), 0, NETLINK << 16])),
        PACKET if bytes.len() < LL => Err(EINVAL),
        PACKET => Ok(Name([
            word(&bytes[4..LL_HEAD]),
            word(&bytes[LL_HEAD..LL]),
            port(bytes) | PACKET << 16,
        ])),
        0 if bytes.len() < V4 => Ok(Name([0, 0, 0])),
        _ if bytes.len() < V4 => Err(EINVAL),
        _ => {
            let [low, high] = mapped(&bytes[4..8]);
            Ok(Name([low, high, port(bytes) | family << 16]))
        }
    }
}

/// Take a `struct sockaddr` of the program's.
pub fn take_name(address: u64, length: u64) -> Result<Name> {
    let length = length as u32 as usize;
    if length > STORAGE {
        return Err(EINVAL);
    }
    let mut bytes = [0; STORAGE];
    user::read_bytes(address, &mut bytes[..length])?;
    parse(&bytes[..length])
}

/// The `struct sockaddr` of an address, and its length.
fn structure(Name([low, high, word]): Name) -> ([u8; V6], usize) {
    let mut bytes = [0; V6];
    let family = (word >> 16) as u16;
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    if u64::from(family) == NETLINK {
        bytes[4..NL].copy_from_slice(&low.to_le_bytes());
        return (bytes, NL);
    }
    if u64::from(family) == PACKET {
        bytes[2..4].copy_from_slice(&(word as u16).to_be_bytes());
        bytes[4..LL_HEAD].copy_from_slice(&low.to_le_bytes());
        bytes[LL_HEAD..LL].copy_from_slice(&high.to_le_bytes());
        return (bytes, LL);
    }
    bytes[2..4].copy_from_slice(&(word as u16).to_be_bytes());
    if u64::from(family) == INET {
        bytes[4..8].copy_from_slice(&high.to_le_bytes()[4..]);
        return (bytes, V4);
    }
    bytes[8..16].copy_from_slice(&low.to_le_bytes());
    bytes[16..24].copy_from_slice(&high.to_le_bytes());
    bytes[24..].copy_from_slice(&((word >> 32) as u32).to_ne_bytes());
    (bytes, V6)
}

/// Give the program a `struct sockaddr`, as far as there is room for it.
pub fn write_name(address: u64, length: u64, name: Name) -> Result<()> {
    let (bytes, count) = structure(name);
    write_structure(address, length, &bytes[..count])
}

fn write_structure(address: u64, length: u64, bytes: &[u8]) -> Result<()> {
    let room: u32 = user::read(length)?;
    if (room as i32) < 0 {
        return Err(EINVAL);
    }
    user::write_bytes(address, &bytes[..bytes.len().min(room as usize)])?;
    user::write(length, &(bytes.len() as u32))
}

fn put_name(address: u64, room: usize, name: Name) -> Result<usize> {
    let (bytes, count) = structure(name);
    user::write_bytes(address, &bytes[..count.min(room)])?;
    Ok(count)
}

pub fn bind(file: &OpenFile, address: u64, length: u64) -> Result<()> {
    take_name(address, length)
        .and_then(|Name([low, high, word])| {
            Request::new(&[net::BIND, low, high, word]).call(file.slot())
        })
        .map(|_| ())
        .map_err(|error| refused(file, Use::Bind, address, length, error))
}

pub fn connect(file: &OpenFile, address: u64, length: u64) -> Result<()> {
    take_name(address, length)
        .and_then(|Name([low, high, word])| {
            Request::new(&[net::CONNECT, low, high, word]).wait(file.slot())
        })
        .map(|_| ())
        .map_err(|error| refused(file, Use::Connect, address, length, error))
}

/// Something is sent to an address. A stream takes none, whatever it is; one of no family means the peer, of datagrams of IPv6.
pub fn send_to(
    file: &OpenFile,
    (address, length): (u64, u64),
    mut send: impl FnMut(Option<Name>) -> Result<[u64; 8]>,
) -> Result<[u64; 8]> {
    let sent = take_name(address, length).and_then(|name| send(Some(name)));
    let error = match sent {
        Err(error @ (EINVAL | EAFNOSUPPORT)) => error,
        other => return other,
    };
    let (length, stream) = (length as u32 as usize, number(file, SO_TYPE) == Ok(STREAM));
    if length <= STORAGE && stream {
        return send(None);
    }
    let v6 = || number(file, SO_DOMAIN) == Ok(INET6) && number(file, SO_TYPE) == Ok(2);
    if length >= 2 && user::read::<u16>(address) == Ok(0) && v6() {
        return send(None);
    }
    Err(refused(file, Use::Send, address, length as u64, error))
}

/// An option of SOL_SOCKET that is one number.
pub fn number(file: &OpenFile, option: u64) -> Result<u64> {
    let request = Request::new(&[net::GET_OPTION, 1 << 32 | option, 0]);
    Ok(request.input(&mut [0; 8]).call(file.slot())?[1])
}

/// What an address is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Bind,
    Connect,
    Send,
}

const STREAM: u64 = 1;
const RAW: u64 = 3;
const SO_DOMAIN: u64 = 39;

/// What is wrong with an address that was refused, in the order in which Linux looks: each family, and each kind of socket, has its own.
fn refused(file: &OpenFile, what: Use, address: u64, length: u64, error: Errno) -> Errno {
    if !matches!(error, EINVAL | EAFNOSUPPORT) {
        return error;
    }
    let (Ok(own), Ok(kind)) = (number(file, SO_DOMAIN), number(file, SO_TYPE)) else {
        return error;
    };
    let length = length as u32 as usize;
    let family = match user::read::<u16>(address) {
        Ok(family) if length >= 2 => u64::from(family),
        _ => return error,
    };
    why_refused(what, (own, kind), (family, length)).unwrap_or(error)
}

fn why_refused(
    what: Use,
    (own, kind): (u64, u64),
    (family, length): (u64, usize),
) -> Option<Errno> {
    let least = match own {
        INET => V4,
        INET6 => V6_OLD,
        _ => return None,
    };
    let (short, other) = (length < least, family != own);
    let v6_datagram = own == INET6 && kind != STREAM && kind != RAW;
    match what {
        _ if length > STORAGE => None,
        Use::Connect if own == INET6 && kind == RAW && other && family != 0 => Some(EAFNOSUPPORT),
        // One of IPv4 will do.
        Use::Connect | Use::Send if v6_datagram && family == INET => {
            (length < V4).then_some(EINVAL)
        }
        _ if short => Some(EINVAL),
        Use::Bind if own == INET6 && kind == RAW && other => Some(EINVAL),
        Use::Send if v6_datagram && other => Some(EINVAL),
        _ if other && (family != 0 || what == Use::Bind) => Some(EAFNOSUPPORT),
        _ => None,
    }
}

/// The socket's own name, or (1) its peer's.
pub fn tell_name(file: &OpenFile, whose: u64, address: u64, length: u64) -> Result<()> {
    let words = Request::new(&[net::NAME, whose]).call(file.slot())?;
    let (bytes, mut count) = structure(Name([words[1], words[2], words[3]]));
    if words[3] >> 16 & 0xffff == PACKET {
        // As long as the hardware's address (sll_halen).
        count = (LL_HEAD + (words[1] >> 56) as usize).min(LL);
    }
    write_structure(address, length, &bytes[..count])
}

pub const SIOCGIFCONF: u64 = 0x8912;

/// Its argument leads to the place where interfaces are to be listed (netdevice(7)).
pub fn configurations(slot: u32, argument: u64) -> Result<u64> {
    let length: i32 = user::read(argument)?;
    let place: u64 = user::read(argument.wrapping_add(8))?;
    let room = match place {
        0 => 0,
        _ => u64::try_from(length).map_err(|_| EINVAL)?.min(65_536),
    };
    let request = Request::new(&[fs::IOCTL, SIOCGIFCONF, argument, 0]);
    let request = match room {
        0 => request,
        _ => request.input_user(user::range(place, room)?),
    };
    let count = request.wait(slot)?[0];
    let count = if place != 0 && room == 0 { 0 } else { count };
    user::write(argument, &(count as u32)).map(|()| 0)
}

// ---- sending

/// Flags that make a SEND of what would be a write.
const SENT: u64 = msg::OOB | msg::MORE | msg::ZEROCOPY;

/// Can it go as a write?
pub fn is_plain(flags: u64) -> bool {
    flags & SENT == 0
}

/// The words of a SEND.
pub fn sending(to: Option<Name>, flags: u64, control: &Control) -> [u64; 8] {
    let mut bits = flags & (SENT | msg::DONTWAIT);
    let Name([low, high, port]) = to.unwrap_or(Name([0; 3]));
    if to.is_some() {
        bits |= with::ADDRESS;
    }
    let mut more = u64::from(control.interface);
    if let Some(ttl) = control.ttl {
        bits |= with::TTL;
        more |= u64::from(ttl) << 32;
    }
    if let Some(tos) = control.tos {
        bits |= with::TOS;
        more |= u64::from(tos) << 40;
    }
    if !control.notes.is_empty() {
        bits |= with::HEADERS;
        more |= (control.notes.len() as u64 / 8) << 48;
    }
    let from = control.from.unwrap_or([0; 2]);
    if control.from.is_some() {
        bits |= with::SOURCE;
    }
    [net::SEND, bits, low, high, port, from[0], from[1], more]
}

/// What control messages say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Control {
    from: Option<[u64; 2]>,
    interface: u32,
    ttl: Option<u8>,
    tos: Option<u8>,
    /// What the server itself reads, as it lies in front of the data: a multiple of 8 bytes.
    pub notes: Vec<u8>,
}

const SOL_SOCKET: i32 = 1;
const IP: i32 = 0;
const IPV6: i32 = 41;
const IP_TOS: i32 = 1;
const IP_TTL: i32 = 2;
const IP_PKTINFO: i32 = 8;
const IP_RECVERR: i32 = 11;
const IPV6_RECVERR: i32 = 25;
/// `struct sock_extended_err`
const EXTENDED: usize = 16;
/// SO_EE_ORIGIN_LOCAL, SO_EE_ORIGIN_ZEROCOPY.
const ORIGIN_LOCAL: u8 = 1;
const ORIGIN_ZEROCOPY: u8 = 5;
const IPV6_PKTINFO: i32 = 50;
const IPV6_HOPLIMIT: i32 = 52;
const IPV6_TCLASS: i32 = 67;
/// IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR, IPV6_DSTOPTS.
const IPV6_HOPOPTS: i32 = 54;
const IPV6_RTHDRDSTOPTS: i32 = 55;
const IPV6_RTHDR: i32 = 57;
const IPV6_DSTOPTS: i32 = 59;
const SO_MARK: i32 = 36;
const SO_TIMESTAMPING: i32 = 37;
const SO_TIMESTAMPING_NEW: i32 = 65;
const UDP: i32 = 17;
const HEAD: usize = 16;

/// Is this address of IPv6 one of IPv4?
fn is_mapped(address: &[u8]) -> bool {
    address.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
}

impl Control {
    pub fn parse(mut bytes: &[u8]) -> Result<Control> {
        let mut control = Control::default();
        while bytes.len() >= HEAD {
            let length = word(bytes) as usize;
            if length < HEAD || length > bytes.len() {
                return Err(EINVAL);
            }
            let int = |at: usize| {
                let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
                bytes.map(|bytes| i32::from_ne_bytes(*bytes))
            };
            let (level, number) = (int(8).unwrap_or(0), int(12).unwrap_or(0));
            let data = &bytes[HEAD..length];
            let value = int(HEAD).filter(|_| data.len() == 4);
            match (level, number, value, data) {
                // What is plain goes in words; whether it means anything, and all else, the server says, who knows where it goes.
                (IP, IP_PKTINFO, ..) if data.len() == 12 => {
                    control.interface = int(HEAD).unwrap_or(0) as u32;
                    control.from = Some(mapped(&data[4..8]));
                }
                (IPV6, IPV6_PKTINFO, ..) if data.len() >= 20 && !is_mapped(data) => {
                    control.from = Some([word(data), word(&data[8..])]);
                    control.interface = int(HEAD + 16).unwrap_or(0) as u32;
                }
                (IP, IP_TTL, Some(value @ 1..=255), _) => control.ttl = Some(value as u8),
                (IP, IP_TOS, Some(value @ 0..=255), _) => control.tos = Some(value as u8),
                (IP, IP_TOS, _, [value]) => control.tos = Some(*value),
                (SOL_SOCKET, SO_MARK | SO_TIMESTAMPING | SO_TIMESTAMPING_NEW, ..)
                | (IP | IPV6 | UDP, ..) => control.note(level, number, data),
                // Descriptors and credentials mean nothing here.
                (SOL_SOCKET, 1 | 2, ..) => {}
                (SOL_SOCKET, ..) => return Err(EINVAL),
                _ => {}
            }
            bytes = &bytes[length.next_multiple_of(8).min(bytes.len())..];
        }
        Ok(control)
    }

    /// (There are at most [`super::messages::CONTROL_MAX`] bytes of control messages.)
    fn note(&mut self, level: i32, number: i32, data: &[u8]) {
        for word in [data.len() as u32, level as u32, number as u32, 0] {
            self.notes.extend_from_slice(&word.to_ne_bytes());
        }
        self.notes.extend_from_slice(data);
        let end = self.notes.len().next_multiple_of(8);
        self.notes.resize(end, 0);
    }
}

// ---- receiving

/// Flags that RECEIVE knows.
const RECEIVED: u64 =
    msg::OOB | msg::PEEK | msg::TRUNC | msg::DONTWAIT | msg::WAITALL | msg::ERRQUEUE;

pub fn receive(file: &OpenFile, vector: &Vector, flags: u64) -> Result<[u64; 8]> {
    Request::new(&[net::RECEIVE, flags & RECEIVED])
        .input_vector(vector)
        .wait(file.slot())
}

/// Nobody's address: its length is 0.
pub fn no_name(length: u64) -> Result<()> {
    let room: u32 = user::read(length)?;
    match room as i32 {
        ..0 => Err(EINVAL),
        _ => user::write(length, &0u32),
    }
}

/// recvfrom(2).
pub fn receive_from(file: &OpenFile, vector: &Vector, flags: u64, name: [u64; 2]) -> Result<u64> {
    let words = receive(file, vector, flags)?;
    if name[0] != 0 {
        match words[1] & with::ADDRESS {
            0 => no_name(name[1])?,
            _ => write_name(name[0], name[1], Name([words[2], words[3], words[4]]))?,
        }
    }
    Ok(words[0])
}

/// The first control message that is told: its level, number and data, and what is behind it.
fn first_note(bytes: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let int = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let length = usize::try_from(int(0)?)
        .ok()
        .filter(|length| *length != 0)?;
    let data = bytes.get(16..16 + length)?;
    let next = bytes.get(16 + length.next_multiple_of(8)..)?;
    Some((int(4)?, int(8)?, data, next))
}

/// recvmsg(2), for this `struct msghdr` at `address`.
pub(super) fn receive_message(
    file: &OpenFile,
    header: &Header,
    address: u64,
    flags: u64,
) -> Result<u64> {
    let mut vector = io::vector(header.pieces, header.count)?;
    // (Also without room for them: the program is told that they were cut.)
    let control = match flags & msg::ERRQUEUE {
        0 => with::CONTROL,
        _ => 0,
    };
    let mut words = Request::new(&[net::RECEIVE, flags & RECEIVED | control])
        .input_vector(&vector)
        .wait(file.slot())?;
    let mut notes = Vec::new();
    let noted = words[1] & with::NOTES != 0 && control != 0;
    if noted {
        notes.resize(net::NOTES_BYTES, 0);
        words = Request::new(&[net::RECEIVE, flags & RECEIVED | with::NOTES])
            .input_behind(&mut notes, &mut vector)?
            .wait(file.slot())?;
    }
    let mut bits =
        words[1] & (msg::TRUNC | msg::OOB | msg::ERRQUEUE) | flags & super::messages::CMSG_CLOEXEC;
    if header.name != 0 {
        let length = match words[1] & with::ADDRESS {
            0 => 0,
            _ => {
                let name = Name([words[2], words[3], words[4]]);
                put_name(header.name, header.name_length as usize, name)?
            }
        };
        user::write(address.wrapping_add(8), &(length as u32))?;
    }
    let room = match header.control {
        0 => 0,
        _ => header.control_length,
    };
    let mut used = 0;
    let mut put = |level: i32, number: i32, data: &[u8]| {
        let place = header.control.wrapping_add(used);
        let (count, cut) = put_control(place, room - used, level, number, data)?;
        used += count;
        bits |= if cut { msg::CTRUNC } else { 0 };
        Ok::<(), Errno>(())
    };
    let mut rest = &notes[..];
    while let Some((level, number, data, next)) = first_note(rest) {
        put(level, number, data)?;
        rest = next;
    }
    let (interface, ttl, tos) = (
        words[7] as u32,
        (words[7] >> 32) as u8,
        (words[7] >> 40) as u8,
    );
    let specific = words[1] & with::SPECIFIC != 0;
    let v4 = (words[5] == 0 || specific) && words[6] as u32 == 0xffff_0000;
    if words[1] & msg::ERRQUEUE != 0 {
        // `struct sock_extended_err`, and who says so.
        let mut data = [0; EXTENDED + V6];
        let [info @ .., kind, code, number, origin] = words[7].to_le_bytes();
        data[..4].copy_from_slice(&u32::from(number).to_ne_bytes());
        data[4..7].copy_from_slice(&[origin, kind, code]);
        data[8..12].copy_from_slice(&info);
        let family = if v4 { INET } else { INET6 };
        let (offender, length) = structure(Name([words[5], words[6], family << 16]));
        if origin == ORIGIN_ZEROCOPY {
            data[12..EXTENDED].copy_from_slice(&(words[2] as u32).to_ne_bytes());
        }
        // (Nobody, if this machine itself says so.)
        if !matches!(origin, ORIGIN_LOCAL | ORIGIN_ZEROCOPY) {
            data[EXTENDED..].copy_from_slice(&offender);
        }
        match v4 {
            true => put(IP, IP_RECVERR, &data[..EXTENDED + length])?,
            false => put(IPV6, IPV6_RECVERR, &data[..EXTENDED + length])?,
        }
    }
    if words[1] & with::UNREAD != 0 {
        put(TCP as i32, TCP_INQ, &(words[2] as u32).to_ne_bytes())?;
    }
    if words[1] & with::AUXDATA != 0 {
        // `struct tpacket_auxdata`, whose tags of virtual networks there are none of.
        let mut data = [0; 20];
        data[..8].copy_from_slice(&words[5].to_le_bytes());
        data[8..16].copy_from_slice(&words[6].to_le_bytes());
        put(PACKET_LEVEL as i32, PACKET_AUXDATA as i32, &data)?;
    }
    if words[1] & with::SOURCE != 0 {
        let (mut data, own) = ([0; 20], words[5].to_le_bytes());
        match v4 && words[1] & with::MAPPED == 0 {
            true => {
                let address = words[6].to_le_bytes();
                data[..4].copy_from_slice(&interface.to_ne_bytes());
                data[4..8].copy_from_slice(match specific {
                    true => &own[..4],
                    false => &address[4..],
                });
                data[8..12].copy_from_slice(&address[4..]);
                put(IP, IP_PKTINFO, &data[..12])?;
            }
            false => {
                if !v4 {
                    data[..8].copy_from_slice(&own);
                }
                data[8..16].copy_from_slice(&words[6].to_le_bytes());
                data[16..].copy_from_slice(&interface.to_ne_bytes());
                put(IPV6, IPV6_PKTINFO, &data)?;
            }
        }
    }
    if words[1] & with::TTL != 0 {
        let (level, number) = if v4 {
            (IP, IP_TTL)
        } else {
            (IPV6, IPV6_HOPLIMIT)
        };
        put(level, number, &i32::from(ttl).to_ne_bytes())?;
    }
    if words[1] & with::TOS != 0 {
        match v4 {
            true => put(IP, IP_TOS, &[tos])?,
            false => put(IPV6, IPV6_TCLASS, &i32::from(tos).to_ne_bytes())?,
        }
    }
    user::write(address.wrapping_add(40), &used)?;
    user::write(address.wrapping_add(48), &(bits as u32))?;
    Ok(words[0])
}

/// recv(2) of little, with no flags, goes as a read.
pub fn is_read(flags: u64, length: u64) -> bool {
    flags & RECEIVED == 0 && (1..=fs::INLINE_MAX as u64).contains(&length)
}

// ---- options

const SO_LINGER: u64 = 13;
const SO_RCVTIMEO: u64 = 20;
const SO_SNDTIMEO: u64 = 21;
const SO_BINDTODEVICE: u64 = 25;
const TCP: u64 = 6;
/// TCP_CM_INQ, which has the option's number.
const TCP_INQ: i32 = 36;
const TCP_CONGESTION: u64 = 13;
const ICMP_V6: u64 = 58;
const ICMP6_FILTER: u64 = 1;
const SO_ATTACH_FILTER: u64 = 26;
const SO_DETACH_FILTER: u64 = 27;
const SO_ATTACH_REUSEPORT_CBPF: u64 = 51;
/// `struct sock_filter`, in bytes.
const INSTRUCTION: u64 = 8;
const PACKET_LEVEL: u64 = 263;
const PACKET_ADD_MEMBERSHIP: u64 = 1;
const PACKET_DROP_MEMBERSHIP: u64 = 2;
const PACKET_RX_RING: u64 = 5;
const PACKET_AUXDATA: u64 = 8;
const PACKET_HDRLEN: u64 = 11;
const IP_OPTIONS: u64 = 4;
const IP_LEVEL: u64 = 0;
const IPV6_LEVEL: u64 = 41;
const IP_MULTICAST_IF: u64 = 32;
const IP_ADD_MEMBERSHIP: u64 = 35;
const IP_MSFILTER: u64 = 41;
const IPV6_JOIN_GROUP: u64 = 20;
const IPV6_LEAVE_GROUP: u64 = 21;
const MCAST_JOIN_GROUP: u64 = 42;
const MCAST_MSFILTER: u64 = 48;
/// More is refused (net.core.optmem_max), which the server says.
const GROUP_OPTION: u64 = 131_073;

/// More is refused, which the server says.
const HEADER_OPTION: u64 = 4096;

/// Is its value options of IPv4, or a header of IPv6?
fn is_about_headers(level: u64, number: u64) -> bool {
    match level {
        IP_LEVEL => number == IP_OPTIONS,
        IPV6_LEVEL => {
            [IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR, IPV6_DSTOPTS].contains(&(number as i32))
        }
        _ => false,
    }
}

/// Is its value a structure about groups, which the server takes as it is?
fn is_about_groups(level: u64, number: u64) -> bool {
    match level {
        IP_LEVEL => matches!(number, IP_MULTICAST_IF | IP_ADD_MEMBERSHIP..=MCAST_MSFILTER),
        _ => matches!(
            number,
            IPV6_JOIN_GROUP | IPV6_LEAVE_GROUP | MCAST_JOIN_GROUP..=MCAST_MSFILTER
        ),
    }
}

/// `struct icmp6_filter`
const FILTER: usize = 32;

pub fn get_option(
    file: &OpenFile,
    (level, number): (u64, u64),
    address: u64,
    length: u64,
) -> Result<()> {
    let room: u32 = user::read(length)?;
    if (room as i32) < 0 {
        return Err(EINVAL);
    }
    if matches!(
        (level, number),
        (IP_LEVEL, IP_MSFILTER | MCAST_MSFILTER) | (IPV6_LEVEL, MCAST_MSFILTER)
    ) {
        let value = user::range(address, u64::from(room).min(GROUP_OPTION))?;
        let request = Request::new(&[net::GET_OPTION, level << 32 | number]);
        let request = request.out_user(value).input_user(value);
        // (A request with nothing is one for another option.)
        let words = match room {
            0 => return Err(EINVAL),
            _ => request.call(file.slot())?,
        };
        return user::write(length, &(words[0] as u32));
    }
    if (level, number) == (1, COOKIE) && room < 8 {
        return Err(EINVAL);
    }
    if (level, number) == (1, MEMINFO) {
        let ask = |number: u64| -> Result<u64> {
            let request = Request::new(&[net::GET_OPTION, level << 32 | number, 0]);
            Ok(request.input(&mut [0; 8]).call(file.slot())?[1])
        };
        let bytes = memory_info(ask(8)?, ask(7)?);
        let count = MEMINFO_SIZE.min(room as usize);
        user::write_bytes(address, &bytes[..count])?;
        return user::write(length, &(count as u32));
    }
    if (level, number) == (1, SO_ATTACH_FILTER) {
        return get_filter(file, address, length, room);
    }
    let mut bytes = [0; net::OPTION_MAX];
    let given = match (level, number) {
        (PACKET_LEVEL, PACKET_HDRLEN) if room < 4 => return Err(EINVAL),
        (PACKET_LEVEL, PACKET_HDRLEN) => user::read::<u32>(address)?.into(),
        _ => 0,
    };
    let request = Request::new(&[net::GET_OPTION, level << 32 | number, given]);
    let words = request.input(&mut bytes).call(file.slot())?;
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let count = match (level, number) {
        _ if words[0] != 0 => (words[0] as usize).min(net::OPTION_MAX),
        (1, SO_LINGER) => {
            put(0, &(words[1] as u32).to_ne_bytes());
            put(4, &(words[2] as u32).to_ne_bytes());
            8
        }
        (1, SO_RCVTIMEO | SO_SNDTIMEO) => {
            put(0, &(words[1] / 1_000_000_000).to_ne_bytes());
            put(8, &(words[1] % 1_000_000_000 / 1000).to_ne_bytes());
            16
        }
        // There are none, and `sshd` ends a connection that has some.
        (1, SO_BINDTODEVICE) => 0,
        (level, number) if is_about_headers(level, number) => 0,
        (1, number) if width(number, room) == 8 => {
            put(0, &words[1].to_ne_bytes());
            8
        }
        (1, number) => {
            put(0, &(narrowed(number, words[1], 4) as u32).to_ne_bytes());
            4
        }
        // A byte, for who has room for no more.
        (0, _) if (1..4).contains(&room) && words[1] < 256 => {
            put(0, &[words[1] as u8]);
            1
        }
        _ => {
            put(0, &(words[1] as u32).to_ne_bytes());
            4
        }
    };
    let count = count.min(room as usize);
    user::write_bytes(address, &bytes[..count])?;
    user::write(length, &(count as u32))
}

pub fn set_option(
    file: &OpenFile,
    (level, number): (u64, u64),
    address: u64,
    length: i32,
) -> Result<()> {
    let mut words = [net::SET_OPTION, level << 32 | number, 0, 0];
    if length < 0 {
        return Err(EINVAL);
    }
    match (level, number) {
        (IP_LEVEL | IPV6_LEVEL, number) if is_about_groups(level, number) => {
            let value = match length {
                0 => UserRange::EMPTY,
                length => user::range(address, u64::from(length as u32).min(GROUP_OPTION))?,
            };
            return Request::new(&words)
                .out_user(value)
                .call(file.slot())
                .map(|_| ());
        }
        (level, number) if is_about_headers(level, number) => {
            let value = match length {
                0 => UserRange::EMPTY,
                length => user::range(address, u64::from(length as u32).min(HEADER_OPTION))?,
            };
            let request = Request::new(&words).out_user(value);
            return request.call(file.slot()).map(|_| ());
        }
        (1, SO_ATTACH_FILTER | SO_ATTACH_REUSEPORT_CBPF) => {
            let request = match number {
                SO_ATTACH_FILTER => Request::new(&[net::FILTER]),
                _ => Request::new(&words),
            };
            let request = request.out_user(program(address, length)?);
            return request.call(file.slot()).map(|_| ());
        }
        (1, SO_DETACH_FILTER) if length < 4 => return Err(EINVAL),
        (1, SO_DETACH_FILTER) => return Request::new(&[net::FILTER]).call(file.slot()).map(|_| ()),
        (PACKET_LEVEL, PACKET_ADD_MEMBERSHIP | PACKET_DROP_MEMBERSHIP | PACKET_RX_RING) => {
            // `struct packet_mreq`, `struct tpacket_req`
            if length < 16 {
                return Err(EINVAL);
            }
            let mut bytes = [0; 16];
            user::read_bytes(address, &mut bytes)?;
            let request = Request::new(&words).out(&bytes);
            return request.call(file.slot()).map(|_| ());
        }
        (1, SO_BINDTODEVICE) | (TCP, TCP_CONGESTION) => {
            let length = (length as usize).min(16);
            if length == 0 && level == TCP {
                return Err(EINVAL);
            }
            let mut bytes = [0; 16];
            user::read_bytes(address, &mut bytes[..length])?;
            let request = Request::new(&words).out(&bytes[..length]);
            return request.call(file.slot()).map(|_| ());
        }
        (ICMP_V6, ICMP6_FILTER) => {
            let length = (length as usize).min(FILTER);
            let mut bytes = [0; FILTER];
            user::read_bytes(address, &mut bytes[..length])?;
            let request = Request::new(&words).out(&bytes[..length]);
            return request.call(file.slot()).map(|_| ());
        }
        (1, SO_LINGER) if length < 8 => return Err(EINVAL),
        (1, SO_LINGER) => {
            let [on, seconds] = user::read::<[i32; 2]>(address)?;
            (words[2], words[3]) = (u64::from(on != 0), u64::from(seconds.max(0) as u32));
        }
        (1, MAX_PACING_RATE | TXTIME) => {
            words[2] = wide_value(number, address, length).unwrap_or(Err(EINVAL))?;
        }
        (1, SO_RCVTIMEO | SO_SNDTIMEO) if length < 16 => return Err(EINVAL),
        (1, SO_RCVTIMEO | SO_SNDTIMEO) => {
            words[2] = super::socket_options::timeout(user::read(address)?)?;
        }
        (0, _) if (1..4).contains(&length) => {
            let [byte] = user::read::<[u8; 1]>(address)?;
            words[2] = u64::from(byte);
        }
        _ if length < 4 => return Err(EINVAL),
        // (Negative values mean something to some.)
        _ => words[2] = user::read::<i32>(address)? as u32 as u64,
    }
    Request::new(&words).call(file.slot()).map(|_| ())
}

/// Where a program of BPF lies, as `struct sock_fprog` says it.
fn program(address: u64, length: i32) -> Result<UserRange> {
    if length != 16 {
        return Err(EINVAL);
    }
    let (place, size) = filter::named(address)?;
    if place == 0 {
        return Err(EINVAL);
    }
    user::range(place, size as u64)
}

/// SO_GET_FILTER: lengths are told in instructions.
fn get_filter(file: &OpenFile, address: u64, length: u64, room: u32) -> Result<()> {
    let words = [net::GET_OPTION, 1 << 32 | SO_ATTACH_FILTER, 0];
    let count = Request::new(&words).input(&mut [0; 4]).call(file.slot())?[1];
    if count != 0 && room != 0 {
        if u64::from(room) < count {
            return Err(EINVAL);
        }
        let value = user::range(address, count * INSTRUCTION)?;
        Request::new(&words).input_user(value).call(file.slot())?;
    }
    user::write(length, &(count as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_there_and_back() {
        let v4 = [2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let name = parse(&v4).unwrap();
        assert_eq!(name, Name([0, 0x0100_007f_ffff_0000, 8080 | 2 << 16]));
        assert_eq!(structure(name).0[..16], v4);
        let mut v6 = [0; V6];
        (v6[0], v6[3], v6[8], v6[23], v6[24]) = (10, 80, 0xfe, 1, 3);
        let name = parse(&v6).unwrap();
        assert_eq!(name.0[2], 80 | 10 << 16 | 3 << 32);
        assert_eq!(structure(name), (v6, V6));
        assert_eq!(parse(&v4[..15]), Err(EINVAL));
        assert_eq!(parse(&v6[..23]), Err(EINVAL));
        assert!(parse(&v6[..24]).is_ok());
        assert_eq!(parse(&[0, 0]), Ok(Name([0; 3])));
        assert_eq!(parse(&[0]), Err(EINVAL));
        let netlink = [16, 0, 0, 0, 7, 0, 0, 0, 0x11, 0, 0, 0];
        let name = parse(&netlink).unwrap();
        assert_eq!(name, Name([7 | 0x11 << 32, 0, 16 << 16]));
        assert_eq!(
            (&structure(name).0[..NL], structure(name).1),
            (&netlink[..], NL)
        );
        assert_eq!(parse(&netlink[..11]), Err(EINVAL));
        let packet = [
            17, 0, 8, 6, 2, 0, 0, 0, 1, 0, 4, 6, 0x52, 0x54, 0, 1, 2, 3, 0, 0,
        ];
        let name = parse(&packet).unwrap();
        assert_eq!(
            name,
            Name([0x0604_0001_0000_0002, 0x0302_0100_5452, 0x806 | 17 << 16])
        );
        assert_eq!(structure(name).0[..LL], packet);
        assert_eq!(parse(&packet[..19]), Err(EINVAL));
    }

    #[test]
    fn control_messages() {
        let message = |level: i32, kind: i32, data: &[u8]| {
            let mut bytes = (HEAD + data.len()).to_ne_bytes().to_vec();
            bytes.extend(level.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes
        };
        let mut bytes = message(IP, IP_TTL, &9i32.to_ne_bytes());
        bytes.extend(message(IP, IP_TOS, &[4]));
        let control = Control::parse(&bytes).unwrap();
        assert_eq!((control.ttl, control.tos), (Some(9), Some(4)));
        let info = message(IP, IP_PKTINFO, &[1, 0, 0, 0, 127, 0, 0, 2, 0, 0, 0, 0]);
        let control = Control::parse(&info).unwrap();
        assert_eq!(control.from, Some([0, 0x0200_007f_ffff_0000]));
        assert_eq!(control.interface, 1);
        for bad in [
            message(SOL_SOCKET, 77, &[0; 4]),
            message(SOL_SOCKET, 12, &[0; 4]),
        ] {
            assert_eq!(Control::parse(&bad), Err(EINVAL));
        }
        // The server's to judge.
        for other in [
            message(IP, IP_TTL, &0i32.to_ne_bytes()),
            message(IP, IP_TTL, &[]),
            message(IP, 99, &[0; 4]),
            message(IPV6, 52, &[0; 4]),
            message(SOL_SOCKET, SO_MARK, &[0; 4]),
        ] {
            let control = Control::parse(&other).unwrap();
            assert!(control.ttl.is_none() && control.notes.len() >= 16);
        }
        let unknown = Control::parse(&message(99, 1, &[0; 4])).unwrap();
        assert_eq!(unknown, Control::default());
        for length in [0u64, 15, 1000, u64::MAX] {
            let mut bytes = info.clone();
            bytes[..8].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(Control::parse(&bytes), Err(EINVAL), "{length}");
        }
    }
}
