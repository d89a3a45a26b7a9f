//! NETLINK_SOCK_DIAG of local sockets (unix_diag), as `ss -x` reads it: what the server `local` knows of them, some at a time. One that is asked for by its
//! number is looked for in the same way, so that no request takes long, however many there are.

use super::diag::{BY_FAMILY, DESTROY};
use super::message::{flag, word, Builder, Message, HEADER};
use super::{endpoint, Dump, Outcome, To, What};
use crate::server::Net;
use alloc::boxed::Box;
use cairn_idl::errno::*;
use cairn_idl::local::{Known, ICONS, NAME_MAX};
use cairn_resmgr::Context;

/// Asks `local` for the sockets from a place on, in these states or with this number → where to go on, and bytes of [`Known`].
pub type List = Box<dyn Fn((u64, u64, u64), &mut [u8]) -> Option<(u64, usize)>>;

/// `struct unix_diag_req`.
const REQUEST: usize = 24;
const LOCAL: u8 = 1;
/// `udiag_show`: NAME, PEER, ICONS, RQLEN, MEMINFO, UID.
const SHOW_NAME: u32 = 1;
const SHOW_PEER: u32 = 4;
const SHOW_ICONS: u32 = 8;
const SHOW_QUEUES: u32 = 0x10;
const SHOW_MEMORY: u32 = 0x20;
const SHOW_UID: u32 = 0x40;
/// Attributes.
const NAME: u16 = 0;
const PEER: u16 = 2;
const ICON_LIST: u16 = 3;
const QUEUES: u16 = 4;
const MEMORY: u16 = 5;
const SHUTDOWN: u16 = 6;
const UID: u16 = 7;
const LISTEN: u32 = 10;
/// `local` is asked for so much at a time.
const ROOM: usize = 4096;
const _: () = assert!(Known::BYTES + NAME_MAX + 4 * ICONS <= ROOM);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    states: u32,
    show: u32,
    /// 0: all.
    number: u32,
    cookie: u64,
}

/// A question that is answered later: its first bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted {
    bytes: [u8; Quoted::MOST],
    length: usize,
}

impl Quoted {
    const MOST: usize = HEADER + REQUEST + 24;

    fn of(message: &Message) -> Quoted {
        let length = message.whole.len().min(Quoted::MOST);
        let mut bytes = [0; Quoted::MOST];
        bytes[..length].copy_from_slice(&message.whole[..length]);
        Quoted { bytes, length }
    }

    fn message(&self) -> Message<'_> {
        let whole = &self.bytes[..self.length];
        Message {
            kind: BY_FAMILY,
            flags: super::message::half(whole, 6),
            seq: word(whole, 8),
            whole,
        }
    }
}

impl Net {
    pub(super) fn local_message(&mut self, message: &Message) -> Result<Outcome, i64> {
        let body = message.body();
        if self.local.is_none() {
            return Err(ENOENT);
        }
        if message.kind == DESTROY {
            return Err(EOPNOTSUPP);
        }
        if body.len() < REQUEST {
            return Err(EINVAL);
        }
        let mut asked = Asked {
            states: word(body, 4),
            show: word(body, 12),
            number: 0,
            cookie: u64::from(word(body, 16)) | u64::from(word(body, 20)) << 32,
        };
        if message.flags & flag::DUMP != 0 {
            return Ok(Outcome::Dump(What::Local(asked)));
        }
        asked.number = word(body, 8);
        match asked.number {
            0 => Err(EINVAL),
            _ => Ok(Outcome::Dump(What::LocalOne(asked, Quoted::of(message)))),
        }
    }

    /// A piece of what is told, from a place on. None: that was all.
    pub(super) fn put_local(
        &self,
        builder: &mut Builder,
        to: To,
        asked: &Asked,
        place: u64,
    ) -> Option<u64> {
        let mut bytes = [0; ROOM];
        let question = (place, u64::from(asked.states), u64::from(asked.number));
        let (next, length) = self.local.as_ref()?(question, &mut bytes)?;
        let mut rest = &bytes[..length.min(ROOM)];
        while let Some((known, behind)) = rest.split_first_chunk() {
            let known = Known::from_bytes(known);
            let (name, behind) = behind.split_at_checked(known.name as usize)?;
            let (waiting, behind) = behind.split_at_checked(4 * known.waiting as usize)?;
            rest = behind;
            let put = |to: &mut Builder| put_one(to, asked.show, &known, name, waiting);
            let flags = if asked.number == 0 { to.flags } else { 0 };
            if !builder.message((BY_FAMILY, flags, to.seq, to.port), put) {
                return Some(u64::from(known.place));
            }
        }
        (next != 0 && next > place).then_some(next)
    }

    /// What became of a question for one socket, which was looked for up to a place.
    pub(super) fn tell_one(
        &mut self,
        cx: &mut Context,
        index: u32,
        quoted: &Quoted,
        place: Option<u64>,
        builder: Builder,
    ) {
        let message = quoted.message();
        let Ok((netlink, _)) = self.netlink(index) else {
            return;
        };
        if let (Some(place), true, Some(dump)) = (place, builder.bytes.is_empty(), netlink.dump) {
            netlink.dump = Some(Dump { place, ..dump });
            return;
        }
        let asked = match netlink.dump.take().map(|dump| dump.what) {
            Some(What::LocalOne(asked, _)) => asked,
            _ => return,
        };
        if builder.bytes.is_empty() {
            return self.acknowledge(cx, index, &message, -(ENOENT as i32));
        }
        let cookie = u64::from(word(&builder.bytes, HEADER + 8))
            | u64::from(word(&builder.bytes, HEADER + 12)) << 32;
        if asked.cookie != u64::MAX && asked.cookie != cookie {
            return self.acknowledge(cx, index, &message, -(ESTALE as i32));
        }
        self.give_netlink(cx, index, builder.bytes, endpoint(0, 0));
        if message.flags & flag::ACK != 0 {
            self.acknowledge(cx, index, &message, 0);
        }
    }
}

fn put_one(to: &mut Builder, show: u32, known: &Known, name: &[u8], waiting: &[u8]) {
    to.put(&[LOCAL, known.kind as u8, known.state as u8, 0]);
    to.put(&(known.number as u32).to_ne_bytes());
    to.put(&known.number.to_ne_bytes());
    let words = |to: &mut Builder, kind, words: &[u32]| {
        let mut bytes = [0; 36];
        for (place, word) in bytes.chunks_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        to.attribute(kind, &bytes[..4 * words.len()]);
    };
    if show & SHOW_NAME != 0 && !name.is_empty() {
        to.attribute(NAME, name);
    }
    if show & SHOW_PEER != 0 && known.met != 0 {
        to.number(PEER, known.peer as u32);
    }
    if show & SHOW_ICONS != 0 && known.state == LISTEN {
        to.attribute(ICON_LIST, waiting);
    }
    if show & SHOW_QUEUES != 0 {
        words(to, QUEUES, &[known.received, known.sent]);
    }
    if show & SHOW_MEMORY != 0 {
        let (receives, sends) = (known.receive_limit, known.send_limit);
        let all = [known.received, receives, known.sent, sends, 0, 0, 0, 0, 0];
        words(to, MEMORY, &all);
    }
    to.attribute(SHUTDOWN, &[known.shut as u8]);
    if show & SHOW_UID != 0 {
        to.number(UID, known.uid);
    }
}
