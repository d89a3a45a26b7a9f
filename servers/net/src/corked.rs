//! Datagrams of UDP that several sends make together (MSG_MORE, UDP_CORK), and sends that make several (UDP_SEGMENT): udp(7).
//!
//! What is held is charged to the socket's payer, and is less than a datagram's most.

use crate::datagram::{HEADER, MOST};
use crate::headers::Headers;
use crate::server::{fail, Net, Sent};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// Most datagrams that one send makes.
const SEGMENTS: usize = 128;

/// The beginning of a datagram, and where it goes: the first send says that.
pub struct Held {
    bytes: Vec<u8>,
    sent: Sent,
    headers: Option<Rc<Headers>>,
    charged: usize,
}

impl Net {
    /// A send that makes no datagram of its own alone.
    #[cold]
    pub(crate) fn send_in_pieces(
        &mut self,
        cx: &mut Context,
        index: u32,
        length: usize,
        sent: &Sent,
        more: bool,
    ) -> Answer<usize> {
        let socket = self.socket_mut(index)?;
        let (corked, payer) = (socket.options.cork, socket.payer);
        let held = socket.held.take();
        if held.is_none() {
            // Who cannot be reached is told at once.
            self.sending(cx, index, sent)?;
        }
        let noted = self.noted.clone().filter(|_| sent.skipped != 0);
        let noted = noted.filter(|_| held.is_none());
        let cost = noted.as_ref().map_or(0, |headers| headers.cost());
        cx.charge(payer, cost)?;
        let mut held = held.unwrap_or_else(|| {
            Box::new(Held {
                bytes: Vec::new(),
                sent: *sent,
                headers: noted,
                charged: cost,
            })
        });
        // What fails takes with it what was held.
        let added = take_in(cx, payer, &mut held, (sent.skipped as usize, length));
        if more || corked {
            match added {
                Ok(()) => {
                    self.socket_mut(index)?.held = Some(held);
                    return Ok(length);
                }
                Err(failure) => {
                    cx.refund(payer, held.charged);
                    return Err(failure);
                }
            }
        }
        let done = added.and_then(|()| self.send_held(cx, index, &held));
        cx.refund(payer, held.charged);
        done.map(|()| length)
    }

    fn send_held(&mut self, cx: &mut Context, index: u32, held: &Held) -> Answer<()> {
        let bytes = &held.bytes[..];
        self.noted = held.headers.clone();
        let size = match (held.sent.segment, self.socket(index)?.options.segment) {
            (0, 0) => bytes.len().max(1),
            (0, size) | (size, _) => size.into(),
        };
        // (As on Linux, whose sums of segments are made by devices, which know nothing of this.)
        let segments = self.socket(index)?.options.segment | held.sent.segment != 0;
        if segments && self.socket(index)?.is_lite() {
            return fail(EIO);
        }
        if bytes.len() <= size {
            return self.send_whole(cx, index, Some(bytes), bytes.len(), &held.sent);
        }
        let way = self.sending(cx, index, &held.sent)?.2;
        if size + HEADER > way.mtu as usize || bytes.len() > size * SEGMENTS {
            return fail(EINVAL);
        }
        for piece in bytes.chunks(size) {
            self.send_whole(cx, index, Some(piece), piece.len(), &held.sent)?;
        }
        Ok(())
    }

    /// UDP_CORK is taken away: what is held goes.
    pub(crate) fn uncork(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let socket = self.socket_mut(index)?;
        let payer = socket.payer;
        let Some(held) = socket.held.take() else {
            return Ok(());
        };
        // Nobody waits for the result of this.
        let _ = self.send_held(cx, index, &held);
        cx.refund(payer, held.charged);
        self.pump(cx);
        Ok(())
    }

    /// The socket goes, and what it held.
    pub(crate) fn drop_held(&mut self, cx: &mut Context, index: u32) {
        if let Some(socket) = self.sockets.get_mut(index) {
            let payer = socket.payer;
            if let Some(held) = socket.held.take() {
                cx.refund(payer, held.charged);
            }
        }
    }
}

/// More of the datagram, from the caller.
fn take_in(
    cx: &mut Context,
    payer: u32,
    held: &mut Held,
    (skipped, length): (usize, usize),
) -> Answer<()> {
    let before = held.bytes.len();
    if length > MOST - before {
        return fail(EMSGSIZE);
    }
    cx.charge(payer, length)?;
    held.charged += length;
    let room = held.bytes.try_reserve_exact(length);
    room.map_err(|_| Failure::Errno(ENOBUFS))?;
    held.bytes.resize(before + length, 0);
    cx.fetch(skipped, &mut held.bytes[before..])
}
