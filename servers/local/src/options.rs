//! Socket options of SOL_SOCKET, as numbers and words.

use crate::queue::{CAPACITY_MAX, CAPACITY_MIN};
use crate::server::{fail, Sockets};
use crate::socket::{Socket, Stamps};
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_idl::local::LAST_STAMP;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_rt::channel::Reply;

const DEBUG: u64 = 1;
const REUSEADDR: u64 = 2;
const TYPE: u64 = 3;
const ERROR: u64 = 4;
const DONTROUTE: u64 = 5;
const BROADCAST: u64 = 6;
const SNDBUF: u64 = 7;
const RCVBUF: u64 = 8;
const KEEPALIVE: u64 = 9;
const OOBINLINE: u64 = 10;
const NO_CHECK: u64 = 11;
const PRIORITY: u64 = 12;
const LINGER: u64 = 13;
const BSDCOMPAT: u64 = 14;
const REUSEPORT: u64 = 15;
const PASSCRED: u64 = 16;
const PEERCRED: u64 = 17;
const PEERGROUPS: u64 = 59;
const RCVLOWAT: u64 = 18;
const SNDLOWAT: u64 = 19;
const RCVTIMEO: u64 = 20;
const SNDTIMEO: u64 = 21;
const TIMESTAMP: u64 = 29;
const ACCEPTCONN: u64 = 30;
const SNDBUFFORCE: u64 = 32;
const RCVBUFFORCE: u64 = 33;
const PASSSEC: u64 = 34;
const TIMESTAMPNS: u64 = 35;
const MARK: u64 = 36;
const PROTOCOL: u64 = 38;
const DOMAIN: u64 = 39;
const RXQ_OVFL: u64 = 40;
const WIFI_STATUS: u64 = 41;
const PEEK_OFF: u64 = 42;
const NOFCS: u64 = 43;
const LOCK_FILTER: u64 = 44;
const SELECT_ERR_QUEUE: u64 = 45;
const BUSY_POLL: u64 = 46;
const MAX_PACING_RATE: u64 = 47;
const INCOMING_CPU: u64 = 49;
const LOCKS: [u64; 3] = [DETACH_FILTER, ATTACH_BPF, ATTACH_REUSEPORT_EBPF];
const ATTACH_FILTER: u64 = 26;
const DETACH_FILTER: u64 = 27;
const ATTACH_BPF: u64 = 50;
const ATTACH_REUSEPORT_CBPF: u64 = 51;
const ATTACH_REUSEPORT_EBPF: u64 = 52;
const BPF_EXTENSIONS: u64 = 48;
const INCOMING_NAPI_ID: u64 = 56;
const COOKIE: u64 = 57;
const ZEROCOPY: u64 = 60;
const TXTIME: u64 = 61;
const BINDTOIFINDEX: u64 = 62;
const PREFER_BUSY_POLL: u64 = 69;
const BUSY_POLL_BUDGET: u64 = 70;
const NETNS_COOKIE: u64 = 71;
const BUF_LOCK: u64 = 72;
const RESERVE_MEM: u64 = 73;
const TXREHASH: u64 = 74;
const RCVMARK: u64 = 75;
const UNIX: u64 = 1;
/// Options that are remembered and mean nothing here.
const SWITCHES: u64 = 1 << DEBUG
    | 1 << REUSEADDR
    | 1 << DONTROUTE
    | 1 << BROADCAST
    | 1 << KEEPALIVE
    | 1 << OOBINLINE
    | 1 << NO_CHECK
    | 1 << REUSEPORT
    | 1 << PASSSEC
    | 1 << RXQ_OVFL
    | 1 << WIFI_STATUS
    | 1 << NOFCS
    | 1 << LOCK_FILTER
    | 1 << SELECT_ERR_QUEUE;
/// Numbers that are remembered as well, and what they are at first.
const NUMBERS: [(u64, u64); 11] = [
    (PRIORITY, 0),
    (RCVLOWAT, 1),
    (MARK, 0),
    (BUSY_POLL, 0),
    (MAX_PACING_RATE, u64::MAX),
    (INCOMING_CPU, u32::MAX as u64),
    (TXTIME, 0),
    (PREFER_BUSY_POLL, 0),
    (BUF_LOCK, 0),
    (TXREHASH, 0),
    (RCVMARK, 0),
];
/// How many offsets beyond the packet Linux's filters know.
const FILTER_EXTENSIONS: u64 = 64;
const CLOCK_MONOTONIC: u32 = 1;
/// A priority that needs no privilege.
const PRIORITY_MAX: u32 = 6;
/// Linux takes twice what is asked for, of at most this (net.core.wmem_max).
const ASKED_MAX: u64 = CAPACITY_MAX as u64 / 2;

/// A number that is remembered, if this option has one.
fn number(socket: &Socket, option: u64) -> Option<u64> {
    let kept = socket.numbers.iter().find(|kept| kept.0 == option);
    let usual = || NUMBERS.iter().find(|known| known.0 == option);
    kept.or_else(usual).map(|found| found.1)
}

fn remember(socket: &mut Socket, option: u64, value: u64) -> Answer<()> {
    if let Some(kept) = socket.numbers.iter_mut().find(|kept| kept.0 == option) {
        kept.1 = value;
        return Ok(());
    }
    let room = socket.numbers.try_reserve(1);
    room.map_err(|_| Failure::Errno(ENOBUFS))?;
    socket.numbers.push((option, value));
    Ok(())
}

fn size(asked: u64) -> u64 {
    (asked.min(ASKED_MAX) * 2).max(CAPACITY_MIN as u64)
}

impl Sockets {
    pub(crate) fn get_option<'a>(&'a mut self, option: u64, index: u32) -> Answer<Reply<'a>> {
        let socket = self.socket_mut(index)?;
        let value = match option {
            TYPE => socket.kind,
            ERROR => socket.take_error().unwrap_or(0) as u64,
            SNDBUF => socket.send_limit as u64,
            RCVBUF => socket.receive_limit,
            PASSCRED => socket.wants_credentials as u64,
            PEERCRED => {
                let (pid, ids) = match socket.peer_credentials {
                    Some(of) => (of.pid, u64::from(of.uid) | u64::from(of.gid) << 32),
                    None => (0, u64::MAX),
                };
                return Ok(Reply::new(&[0, u64::from(pid), ids]));
            }
            PEERGROUPS if socket.peer_credentials.is_none() => return fail(ENODATA),
            PEERGROUPS => {
                let groups = &socket.peer_groups;
                return Ok(Reply::new(&[0, groups.len() as u64 / 4]).data(groups));
            }
            RCVTIMEO => socket.limits.receive,
            SNDTIMEO => socket.limits.send,
            LINGER => {
                let seconds = number(socket, LINGER).unwrap_or(0);
                return Ok(Reply::new(&[0, socket.switches >> LINGER & 1, seconds]));
            }
            TIMESTAMP => socket.stamps.is_some_and(|stamps| !stamps.nanoseconds) as u64,
            TIMESTAMPNS => socket.stamps.is_some_and(|stamps| stamps.nanoseconds) as u64,
            LAST_STAMP => {
                let stamps = socket.stamps.unwrap_or_default();
                return Ok(Reply::new(&[0, stamps.last, u64::from(stamps.nanoseconds)]));
            }
            PEEK_OFF => socket.peek_from.map_or(u64::MAX, |from| from as u64),
            ACCEPTCONN => socket.is_listening() as u64,
            DOMAIN => UNIX,
            SNDLOWAT => 1,
            PROTOCOL | BSDCOMPAT | ZEROCOPY | INCOMING_NAPI_ID | BINDTOIFINDEX | RESERVE_MEM => 0,
            BPF_EXTENSIONS => FILTER_EXTENSIONS,
            NETNS_COOKIE => 1,
            COOKIE => socket.ino,
            option if option < 64 && SWITCHES >> option & 1 != 0 => socket.switches >> option & 1,
            option => match number(socket, option) {
                Some(number) => number,
                None => return fail(ENOPROTOOPT),
            },
        };
        Ok(Reply::new(&[0, value]))
    }

    pub(crate) fn set_option<'a>(&mut self, cx: &Context, index: u32) -> Answer<Reply<'a>> {
        let privileged = cx.has(label::SYSTEM);
        let [_, option, value, further, ..] = cx.request.words;
        let socket = self.socket_mut(index)?;
        let signed = value as u32 as i32;
        match option {
            SNDBUF => socket.send_limit = size(value) as usize,
            RCVBUF => socket.receive_limit = size(value),
            SNDBUFFORCE | RCVBUFFORCE if !privileged => return fail(EPERM),
            SNDBUFFORCE => socket.send_limit = size(signed.max(0) as u64) as usize,
            RCVBUFFORCE => socket.receive_limit = size(signed.max(0) as u64),
            PASSCRED => socket.wants_credentials = value != 0,
            RCVTIMEO => socket.limits.receive = value,
            SNDTIMEO => socket.limits.send = value,
            LINGER => {
                socket.switches = socket.switches & !(1 << LINGER) | (value & 1) << LINGER;
                if value & 1 != 0 {
                    remember(socket, LINGER, further)?;
                }
            }
            TIMESTAMP | TIMESTAMPNS => {
                socket.stamps = (value != 0).then_some(Stamps {
                    nanoseconds: option == TIMESTAMPNS,
                    last: 0,
                });
            }
            PEEK_OFF => socket.peek_from = usize::try_from(signed).ok(),
            BSDCOMPAT => {}
            ZEROCOPY => return fail(EOPNOTSUPP),
            RCVLOWAT if signed < 0 => remember(socket, option, i32::MAX as u64)?,
            RCVLOWAT => remember(socket, option, value.max(1))?,
            // The flags of `struct sock_txtime`; a clock that others' time depends on is for the administrator.
            TXTIME if value >> 32 > 3 => return fail(EINVAL),
            TXTIME if value as u32 != CLOCK_MONOTONIC && !privileged => return fail(EPERM),
            PREFER_BUSY_POLL if value != 0 && !privileged => return fail(EPERM),
            BUSY_POLL_BUDGET if !privileged => return fail(EPERM),
            BUSY_POLL_BUDGET if !(0..=0xffff).contains(&signed) => return fail(EINVAL),
            BUSY_POLL_BUDGET => {}
            BUF_LOCK if value > 3 => return fail(EINVAL),
            TXREHASH if !(-1..=1).contains(&signed) => return fail(EINVAL),
            TXREHASH if signed == -1 => remember(socket, option, 1)?,
            RESERVE_MEM => return fail(EOPNOTSUPP),
            PREFER_BUSY_POLL | RCVMARK => remember(socket, option, u64::from(value != 0))?,
            _ if LOCKS.contains(&option) && socket.switches >> LOCK_FILTER & 1 != 0 => {
                return fail(EPERM)
            }
            PRIORITY if value as u32 > PRIORITY_MAX && !privileged => return fail(EPERM),
            MARK if !privileged => return fail(EPERM),
            BUSY_POLL if signed < 0 => return fail(EINVAL),
            BUSY_POLL if !privileged && value > number(socket, BUSY_POLL).unwrap_or(0) => {
                return fail(EPERM)
            }
            // (A filter has more than one word.)
            ATTACH_FILTER | ATTACH_REUSEPORT_CBPF => return fail(EINVAL),
            option if NUMBERS.iter().any(|known| known.0 == option) => {
                remember(socket, option, value)?
            }
            DEBUG if value != 0 && !privileged => return fail(EACCES),
            // It stays locked.
            LOCK_FILTER if value == 0 && socket.switches >> LOCK_FILTER & 1 != 0 => {
                return fail(EPERM)
            }
            option if option < 64 && SWITCHES >> option & 1 != 0 => {
                socket.switches =
                    socket.switches & !(1 << option) | u64::from(value != 0) << option;
            }
            _ => return fail(ENOPROTOOPT),
        }
        Ok(Reply::result(0))
    }
}
