//! What the C library is told of POSIX message queues by a socket of NETLINK_ROUTE (mq_notify(3) by SIGEV_THREAD): 32 bytes that it chose (a *cookie*), of
//! which the last says what happened.
//!
//! COOKIE makes a portal that is good for this only. Whoever has it, which is the queue's server, notifies it: that never waits, and this server learns nothing
//! of queues. Its badge is the cookie's number behind [`FIRST`]; a cookie is there until its portal is closed.

use crate::server::{fail, Net};
use cairn_abi::pulse;
use cairn_idl::errno::*;
use cairn_idl::net::{COOKIE_BYTES, COOKIE_REMOVED, COOKIE_WOKEN};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_rt::channel::Reply;
use cairn_rt::Received;

/// Badges of cookies begin here, and end where those of handles begin.
pub const FIRST: u64 = 1 << 30;
const END: u64 = 1 << 32;
/// What one is charged as.
const COST: usize = 128;
/// The socket is gone.
const NONE: u32 = u32::MAX;

pub struct Cookie {
    socket: u32,
    payer: u32,
    bytes: [u8; COOKIE_BYTES],
}

impl Net {
    /// COOKIE
    pub(crate) fn make_cookie<'a>(&mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        if self.netlink(index).is_err() {
            return fail(EINVAL);
        }
        let mut bytes = [0; COOKIE_BYTES];
        if cx.request.out_len != bytes.len() {
            return fail(EINVAL);
        }
        cx.fetch(0, &mut bytes)?;
        let payer = self.socket(index)?.payer;
        cx.charge(payer, COST)?;
        let cookie = Cookie {
            socket: index,
            payer,
            bytes,
        };
        let made = self.cookies.insert(cookie).map(|at| FIRST + u64::from(at));
        match made.filter(|badge| *badge < END) {
            Some(badge) => Ok(Reply::result(0).mint(badge)),
            None => {
                cx.refund(payer, COST);
                Err(Failure::Errno(ENOMEM))
            }
        }
    }

    /// The socket is gone, and perhaps another one has its number soon.
    pub(crate) fn forget_socket_of_cookies(&mut self, index: u32) {
        for at in 0..self.cookies.end() {
            if let Some(cookie) = self.cookies.get_mut(at).filter(|of| of.socket == index) {
                cookie.socket = NONE;
            }
        }
    }

    /// A pulse of a portal that COOKIE made. False: it is none of these.
    pub(crate) fn cookie_pulse(&mut self, cx: &mut Context, event: &Received) -> bool {
        if !(FIRST..END).contains(&event.badge) {
            return false;
        }
        let at = (event.badge - FIRST) as u32;
        if event.words[0] == pulse::CLOSED {
            if let Some(cookie) = self.cookies.remove(at) {
                cx.refund(cookie.payer, COST);
            }
            return true;
        }
        let (socket, mut bytes) = match self.cookies.get(at) {
            Some(cookie) => (cookie.socket, cookie.bytes),
            None => return true,
        };
        let told = event.words[1];
        let known =
            event.words[0] == pulse::NOTIFY && [COOKIE_WOKEN, COOKIE_REMOVED].contains(&told);
        let mut copy = alloc::vec::Vec::new();
        if !known || self.netlink(socket).is_err() || copy.try_reserve_exact(bytes.len()).is_err() {
            return true;
        }
        bytes[COOKIE_BYTES - 1] = told as u8;
        copy.extend_from_slice(&bytes);
        self.give_netlink(cx, socket, copy, super::endpoint(0, 0));
        true
    }
}
