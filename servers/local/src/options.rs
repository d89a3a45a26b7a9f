//! Socket options of SOL_SOCKET, as numbers and words.

use crate::queue::{CAPACITY_MAX, CAPACITY_MIN};
use crate::server::{fail, Sockets};
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;
use cairn_rt::channel::Reply;

const REUSEADDR: u64 = 2;
const TYPE: u64 = 3;
const ERROR: u64 = 4;
const DONTROUTE: u64 = 5;
const BROADCAST: u64 = 6;
const SNDBUF: u64 = 7;
const RCVBUF: u64 = 8;
const KEEPALIVE: u64 = 9;
const OOBINLINE: u64 = 10;
const PRIORITY: u64 = 12;
const REUSEPORT: u64 = 15;
const PASSCRED: u64 = 16;
const PEERCRED: u64 = 17;
const RCVLOWAT: u64 = 18;
const SNDLOWAT: u64 = 19;
const RCVTIMEO: u64 = 20;
const SNDTIMEO: u64 = 21;
const ACCEPTCONN: u64 = 30;
const SNDBUFFORCE: u64 = 32;
const RCVBUFFORCE: u64 = 33;
const PROTOCOL: u64 = 38;
const DOMAIN: u64 = 39;
const UNIX: u64 = 1;
/// Options that are remembered and mean nothing here.
const SWITCHES: u64 = 1 << REUSEADDR
    | 1 << DONTROUTE
    | 1 << BROADCAST
    | 1 << KEEPALIVE
    | 1 << OOBINLINE
    | 1 << REUSEPORT;
/// Linux takes twice what is asked for, of at most this (net.core.wmem_max).
const ASKED_MAX: u64 = CAPACITY_MAX as u64 / 2;

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
            ACCEPTCONN => socket.is_listening() as u64,
            DOMAIN => UNIX,
            RCVLOWAT | SNDLOWAT => 1,
            PROTOCOL | PRIORITY => 0,
            option if option < 64 && SWITCHES >> option & 1 != 0 => socket.switches >> option & 1,
            _ => return fail(ENOPROTOOPT),
        };
        Ok(Reply::new(&[0, value]))
    }

    pub(crate) fn set_option<'a>(&mut self, cx: &Context, index: u32) -> Answer<Reply<'a>> {
        let privileged = cx.has(label::SYSTEM);
        let [_, option, value, ..] = cx.request.words;
        let socket = self.socket_mut(index)?;
        match option {
            SNDBUF => socket.send_limit = size(value) as usize,
            RCVBUF => socket.receive_limit = size(value),
            SNDBUFFORCE | RCVBUFFORCE if !privileged => return fail(EPERM),
            SNDBUFFORCE => socket.send_limit = size(value) as usize,
            RCVBUFFORCE => socket.receive_limit = size(value),
            PASSCRED => socket.wants_credentials = value != 0,
            RCVTIMEO => socket.limits.receive = value,
            SNDTIMEO => socket.limits.send = value,
            RCVLOWAT | PRIORITY => {}
            option if option < 64 && SWITCHES >> option & 1 != 0 => {
                socket.switches =
                    socket.switches & !(1 << option) | u64::from(value != 0) << option;
            }
            _ => return fail(ENOPROTOOPT),
        }
        Ok(Reply::result(0))
    }
}
