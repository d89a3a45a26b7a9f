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
const ZEROCOPY: u64 = 60;
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
const NUMBERS: [(u64, u32); 6] = [
    (PRIORITY, 0),
    (RCVLOWAT, 1),
    (MARK, 0),
    (BUSY_POLL, 0),
    (MAX_PACING_RATE, u32::MAX),
    (INCOMING_CPU, u32::MAX),
];
/// A priority that needs no privilege.
const PRIORITY_MAX: u32 = 6;
/// Linux takes twice what is asked for, of at most this (net.core.wmem_max).
const ASKED_MAX: u64 = CAPACITY_MAX as u64 / 2;

/// A number that is remembered, if this option has one.
fn number(socket: &Socket, option: u64) -> Option<u32> {
    let kept = socket.numbers.iter().find(|kept| kept.0 == option);
    let usual = || NUMBERS.iter().find(|known| known.0 == option);
    kept.or_else(usual).map(|found| found.1)
}

fn remember(socket: &mut Socket, option: u64, value: u32) -> Answer<()> {
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
    pub(crate) fn get_option<'a>(&mut self, option: u64, index: u32) -> Answer<Reply<'a>> {
        let socket = self.socket_mut(index)?;
        let value = match option {
            TYPE => socket.kind,
            ERROR => socket.take_error().unwrap_or(0) as u64,
            SNDBUF | SNDBUFFORCE => socket.send_limit as u64,
            RCVBUF | RCVBUFFORCE => socket.receive_limit,
            PASSCRED => socket.wants_credentials as u64,
            PEERCRED => {
                let (pid, ids) = match socket.peer_credentials {
                    Some(of) => (of.pid, u64::from(of.uid) | u64::from(of.gid) << 32),
                    None => (0, u64::MAX),
                };
                return Ok(Reply::new(&[0, u64::from(pid), ids]));
            }
            RCVTIMEO => socket.limits.receive,
            SNDTIMEO => socket.limits.send,
            LINGER => {
                let seconds = number(socket, LINGER).unwrap_or(0);
                return Ok(Reply::new(&[
                    0,
                    socket.switches >> LINGER & 1,
                    u64::from(seconds),
                ]));
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
            PROTOCOL | BSDCOMPAT | ZEROCOPY => 0,
            option if option < 64 && SWITCHES >> option & 1 != 0 => socket.switches >> option & 1,
            option => match number(socket, option) {
                Some(number) => number.into(),
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
                    remember(socket, LINGER, further as u32)?;
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
            RCVLOWAT if signed < 0 => remember(socket, option, i32::MAX as u32)?,
            RCVLOWAT => remember(socket, option, (value as u32).max(1))?,
            PRIORITY if value as u32 > PRIORITY_MAX && !privileged => return fail(EPERM),
            MARK if !privileged => return fail(EPERM),
            BUSY_POLL if signed < 0 => return fail(EINVAL),
            option if NUMBERS.iter().any(|known| known.0 == option) => {
                remember(socket, option, value as u32)?
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
