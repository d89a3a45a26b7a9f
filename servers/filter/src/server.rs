//! The manager of `filter:`: files for programs, and what is asked for each packet ([`cairn_idl::filter`]).
//!
//! * `rules` is the text of the rules, with their counters. What is written there are other rules: they hold as a whole, from the write on with which a table
//!   ends, or not at all. (A write of whole blocks of 4,096 bytes may have more behind it, and is looked at again when the file is closed.)
//! * `connections` says how many there are, and shows the first of them; `error` what was wrong with the text that was written last.
//!
//! Who may: whoever has CAP_NET_ADMIN, to read as well. What is kept for connections is on the account of who wrote the rules.

use crate::connections::{Direction, COST};
use crate::judge::{Answer as Said, Filter, Interface, Packet, Say};
use crate::keep::Keep;
use crate::parse::{parse, Wrong};
use crate::rules::{show_address, Hook, Refusal, TEXT};
use crate::tuple::{is_v4, Tuple};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use cairn_idl::capability::NET_ADMIN;
use cairn_idl::errno::*;
use cairn_idl::filter::{self, about, page, said};
use cairn_idl::fs::{o, s};
use cairn_idl::proc;
use cairn_resmgr::layout;
use cairn_resmgr::server::{put, Answer, Direct};
use cairn_resmgr::transport::Page;
use cairn_resmgr::{
    Access, Context, Data, Dirents, Failure, Handle, Handles, Later, Meta, Opened, Server, Snapshot,
};
use cairn_rt::channel::Reply;
use cairn_rt::{Message, Portal, Received};
use core::fmt::Write;
use core::sync::atomic::Ordering::Release;

/// Most writes that one text may come in, each of which has it looked at.
const WRITES: usize = 64;
/// A write of such blocks may have more behind it.
const BLOCK: usize = 4096;
/// What a text and what is made of it are charged as, beside its bytes.
const TEXT_COST: usize = 16_384;
/// What rules are charged as: for each byte of their text, and with the places in which connections are found.
const EACH: usize = 32;
const RULES_COST: usize = 65_536 + 4 * crate::connections::MOST;
/// Most connections that are shown, and how many are looked at for that.
const SHOWN: usize = 1000;
const LOOKED_AT: u32 = 16_384;
/// So many connections are paid for at a time.
const BATCH: usize = 64;
/// How often connections are looked at when no packet comes.
const LOOK: u64 = 30_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Node {
    /// The mount portal, and the folder that /proc/net has.
    Root,
    Folder,
    Rules,
    Connections,
    Error,
}

const FILES: [(&str, Node); 3] = [
    ("rules", Node::Rules),
    ("connections", Node::Connections),
    ("error", Node::Error),
];

/// A text on its way.
#[derive(Default)]
struct Draft {
    text: Vec<u8>,
    writes: usize,
    /// It holds as it is, as soon as nothing more can come.
    waits: bool,
    refused: bool,
    payer: u32,
    charged: usize,
}

/// Of an open file.
#[derive(Default)]
pub struct Open {
    shown: Snapshot,
    draft: Draft,
}

pub struct Manager {
    pub filter: Filter,
    keep: Keep,
    /// Who wrote the rules, and how many connections are paid for.
    payer: u32,
    paid: usize,
    /// What the rules are charged as.
    charged: usize,
    error: String,
    page: Option<(Page, Portal)>,
    proc: Option<Portal>,
    clock: fn() -> u64,
    /// The next look is set.
    looks: bool,
}

fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

impl Manager {
    /// Where lines of `log` go.
    pub fn log_to(&mut self, sink: fn(&str)) {
        self.filter.rules.log.sink = sink;
    }

    /// With the rules that a predecessor left.
    pub fn new(
        proc: Option<Portal>,
        keep: Keep,
        clock: fn() -> u64,
        random: fn() -> u64,
        most: usize,
    ) -> Manager {
        let mut manager = Manager {
            filter: Filter::new(random, most),
            keep,
            payer: 0,
            paid: 0,
            charged: 0,
            error: String::new(),
            page: None,
            proc,
            clock,
            looks: false,
        };
        if let Some((text, payer)) = manager.keep.load() {
            match parse(&text) {
                Ok(rules) => {
                    manager.filter.replace(rules);
                    manager.payer = payer;
                    if payer != 0 {
                        manager.filter.connections.allowed = 0;
                    }
                }
                Err(wrong) => manager.error = wrong.text(),
            }
        }
        manager
    }

    fn word(&self) -> u64 {
        let mut word = page::LIVES;
        if self.filter.is_active() {
            word |= page::ASKS;
        }
        if self.filter.rules.names_loopback() {
            word |= page::LOOPBACK;
        }
        word
    }

    fn publish(&self) {
        if let Some((words, _)) = &self.page {
            words[0].store(self.word(), Release);
        }
    }

    fn may(&self, cx: &mut Context) -> bool {
        let Some(proc) = self.proc else { return false };
        let message = Message::new(&[proc::IDS_OF, u64::from(cx.request.sender)]);
        let pid = match cx.transport.call(proc, message) {
            Ok(words) if (words[0] as i64) > 0 => words[0],
            // No process: a component, which has what its manifest line gives it.
            _ => return cx.request.label == 0,
        };
        let mut bytes = [0; proc::Status::BYTES];
        let message = Message::new(&[proc::STATUS, pid]).input(&mut bytes);
        match cx.transport.call(proc, message) {
            Ok([0, ..]) => proc::Status::from_bytes(&bytes).creds.has(NET_ADMIN),
            _ => false,
        }
    }

    // ---- rules

    /// These rules hold from now on.
    fn replace(&mut self, cx: &mut Context, text: &[u8], payer: u32) -> Result<(), Wrong> {
        let rules = parse(text)?;
        let none = rules.is_empty();
        let no_memory = Wrong {
            line: 1,
            column: 1,
            what: "there is no memory for these rules".into(),
            unfinished: false,
        };
        let cost = match none {
            true => 0,
            false => RULES_COST + EACH * text.len(),
        };
        if cx.charge(payer, cost).is_err() {
            return Err(no_memory);
        }
        if !self.filter.replace(rules) {
            cx.refund(payer, cost);
            return Err(no_memory);
        }
        cx.refund(self.payer, core::mem::replace(&mut self.charged, cost));
        // (A text that fits here fits there.)
        self.keep.save(text, payer);
        if none || payer != self.payer {
            cx.refund(self.payer, self.paid * COST);
            (self.payer, self.paid) = (payer, 0);
        }
        self.filter.connections.allowed = match payer {
            0 => self.filter.connections.most(),
            _ => self.paid,
        };
        self.error.clear();
        self.publish();
        Ok(())
    }

    fn write_rules(
        &mut self,
        cx: &mut Context,
        draft: &mut Draft,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        if offset == 0 {
            Self::end_draft(cx, draft);
        }
        let start = draft.text.len();
        if draft.refused || offset != start as u64 {
            return fail(EINVAL);
        }
        if start + length > TEXT {
            draft.refused = true;
            self.error = "the text is longer than 65536 bytes\n".into();
            return fail(EFBIG);
        }
        if draft.charged == 0 {
            draft.payer = cx.payer();
            cx.charge(draft.payer, TEXT + TEXT_COST)?;
            draft.charged = TEXT + TEXT_COST;
        }
        if draft.text.try_reserve(length).is_err() {
            return fail(ENOMEM);
        }
        draft.text.resize(start + length, 0);
        if let Err(failure) = cx.fetch(0, &mut draft.text[start..]) {
            draft.text.truncate(start);
            return Err(failure);
        }
        draft.writes += 1;
        if draft.writes > WRITES {
            draft.refused = true;
            self.error = "the text comes in more than 64 writes\n".into();
            return fail(EINVAL);
        }
        let blocks = length != 0 && length.is_multiple_of(BLOCK);
        let payer = draft.payer;
        let done = match blocks {
            true => parse(&draft.text).map(|_| ()),
            false => self.replace(cx, &draft.text, payer),
        };
        draft.waits = blocks || done.is_err();
        match done {
            Ok(()) => {}
            Err(wrong) if wrong.unfinished => self.error = wrong.text(),
            Err(wrong) => {
                self.error = wrong.text();
                draft.refused = true;
                return fail(EINVAL);
            }
        }
        Ok(length)
    }

    fn end_draft(cx: &mut Context, draft: &mut Draft) {
        cx.refund(draft.payer, draft.charged);
        *draft = Draft::default();
    }

    // ---- packets

    fn hook(word: u64) -> Option<Hook> {
        match filter::Hook::from_word(word & 3)? {
            filter::Hook::Input => Some(Hook::Input),
            filter::Hook::Forward => Some(Hook::Forward),
            filter::Hook::Output => Some(Hook::Output),
        }
    }

    /// What words say of a packet.
    fn packet(words: &[u64; 8], quoted: Option<&[u8; filter::QUOTED_BYTES]>) -> Option<Packet> {
        let [_, word, source_low, source_high, to_low, to_high, ports, _] = *words;
        let byte = |at: u64| (word >> at) as u8;
        let place = |at: u64| Some(byte(at)).filter(|place| u64::from(*place) != filter::NOWHERE);
        let address =
            |low: u64, high: u64| (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        let quoted = match quoted {
            None => None,
            Some(bytes) => Some(Tuple {
                source: *bytes.first_chunk()?,
                destination: *bytes[16..].first_chunk()?,
                source_port: u16::from_le_bytes([bytes[32], bytes[33]]),
                destination_port: u16::from_le_bytes([bytes[34], bytes[35]]),
                protocol: bytes[36],
            }),
        };
        Some(Packet {
            hook: Self::hook(word)?,
            came_by: place(filter::CAME_BY),
            leaves_by: place(filter::LEAVES_BY),
            tuple: Tuple {
                source: address(source_low, source_high),
                destination: address(to_low, to_high),
                source_port: ports as u16,
                destination_port: (ports >> 16) as u16,
                protocol: byte(filter::PROTOCOL),
            },
            kind: byte(filter::KIND),
            length: (word >> filter::LENGTH) as u16,
            inside: word & about::INSIDE != 0,
            quoted,
            again: (word & about::AGAIN != 0).then_some((ports >> 32) as u32),
        })
    }

    fn told(answer: &Said) -> [u64; 8] {
        let (say, number) = match answer.say {
            Say::Drop => (filter::Say::Drop, 0),
            Say::Accept => (filter::Say::Accept, 0),
            Say::Again(number) => (filter::Say::Again, number.into()),
            Say::Reject(how) => {
                let how = match how {
                    Refusal::Port => filter::Refusal::Port,
                    Refusal::Prohibited => filter::Refusal::Prohibited,
                    Refusal::Host => filter::Refusal::Host,
                    Refusal::Net => filter::Refusal::Net,
                    Refusal::Reset => filter::Refusal::Reset,
                };
                (filter::Say::Reject, how as u64)
            }
        };
        let mut words = [say as u64, 0, 0, 0, 0, 0, 0, number];
        if answer.as_end {
            words[1] |= said::AS_END;
        }
        if let Some(tuple) = answer.tuple {
            words[1] |= said::REWRITTEN;
            let halves = |bytes: [u8; 16]| {
                let number = u128::from_le_bytes(bytes);
                [number as u64, (number >> 64) as u64]
            };
            words[2..4].copy_from_slice(&halves(tuple.source));
            words[4..6].copy_from_slice(&halves(tuple.destination));
            words[6] = u64::from(tuple.source_port) | u64::from(tuple.destination_port) << 16;
        }
        words
    }

    /// Is a connection more paid for?
    fn is_paid(&self) -> bool {
        self.payer == 0 || self.filter.connections.len() < self.filter.connections.allowed
    }

    fn pay(&mut self, cx: &mut Context) {
        if !self.is_paid() && cx.charge(self.payer, BATCH * COST).is_ok() {
            self.paid += BATCH;
            self.filter.connections.allowed = self.paid;
        }
    }

    /// What is not in use any more is not paid for.
    fn give_back(&mut self, cx: &mut Context) {
        let used = self.filter.connections.len().next_multiple_of(BATCH);
        if self.payer != 0 && self.paid > used + BATCH {
            cx.refund(self.payer, (self.paid - used) * COST);
            self.paid = used;
            self.filter.connections.allowed = used;
        }
    }

    fn look_later(&mut self, cx: &mut Context) {
        self.looks = !self.filter.connections.is_empty();
        if self.looks {
            let now = cx.transport.monotonic();
            cx.wake_by(now + LOOK);
        }
    }

    fn judge<'a>(&mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let quotes = cx.request.words[1] & about::QUOTES != 0;
        let mut bytes = [0; filter::QUOTED_BYTES];
        if quotes {
            cx.fetch(0, &mut bytes)?;
        }
        let packet = Self::packet(&cx.request.words, quotes.then_some(&bytes));
        let packet = packet.ok_or(Failure::Errno(EINVAL))?;
        self.pay(cx);
        let answer = self.filter.judge(&packet, (self.clock)());
        if !self.looks {
            self.look_later(cx);
        }
        Ok(Reply::new(&Self::told(&answer)))
    }

    fn learn<'a>(&mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let length = cx.request.out_len;
        let most = filter::INTERFACES_MOST * filter::INTERFACE_BYTES;
        if length > most || !length.is_multiple_of(filter::INTERFACE_BYTES) {
            return fail(EINVAL);
        }
        let mut bytes = Vec::new();
        let count = length / filter::INTERFACE_BYTES;
        let mut all: Vec<Interface> = Vec::new();
        if bytes.try_reserve_exact(length).is_err() || all.try_reserve_exact(count).is_err() {
            return fail(ENOMEM);
        }
        bytes.resize(length, 0);
        if length != 0 {
            cx.fetch(0, &mut bytes)?;
        }
        for of in bytes.as_chunks::<{ filter::INTERFACE_BYTES }>().0 {
            let (name, addresses) = of.split_at(filter::NAME_MAX);
            let end = name.iter().position(|byte| *byte == 0);
            let (addresses, _) = addresses.as_chunks::<16>();
            let known = |at: usize| Some(addresses[at]).filter(|of| *of != [0; 16]);
            all.push(Interface {
                name: name[..end.unwrap_or(name.len())].into(),
                addresses: [known(0).filter(is_v4), known(1).filter(|of| !is_v4(of))],
            });
        }
        self.filter.learn(all);
        Ok(Reply::result(0))
    }

    fn attach<'a>(&mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        if self.page.is_none() {
            self.page = cx.transport.publish();
        }
        self.publish();
        match &self.page {
            Some((_, portal)) => Ok(Reply::result(0).portal(*portal, false)),
            None => fail(ENOMEM),
        }
    }

    // ---- what is shown

    fn text(&mut self, node: Node) -> Vec<u8> {
        let mut text = String::new();
        match node {
            Node::Rules => self.filter.rules.show(&mut text),
            Node::Connections => self.show_connections(&mut text),
            Node::Error => text.push_str(&self.error),
            Node::Root | Node::Folder => {}
        }
        text.into_bytes()
    }

    fn show_connections(&mut self, to: &mut String) {
        let now = (self.clock)();
        self.filter.connections.time_passes(now);
        let Filter {
            connections,
            full,
            no_port,
            ..
        } = &self.filter;
        let (len, most) = (connections.len(), connections.most());
        let _ = writeln!(
            to,
            "{len} of {most}, dropped: {full} full, {no_port} without a port"
        );
        let all = (0..connections.end().min(LOOKED_AT)).filter_map(|at| connections.get(at));
        for of in all.take(SHOWN) {
            let name = match of.original.protocol {
                1 => "icmp".to_string(),
                6 => "tcp".to_string(),
                17 => "udp".to_string(),
                58 => "icmpv6".to_string(),
                number => number.to_string(),
            };
            let left = of.ends.saturating_sub(now) / 1_000_000_000;
            let class = match of.replied {
                true if of.class.name() == "UNREPLIED" => "REPLIED",
                _ => of.class.name(),
            };
            let _ = write!(to, "{name} {left} {class}");
            for direction in [Direction::Original, Direction::Reply] {
                let tuple = of.tuple(direction);
                to.push_str(" src=");
                show_address(to, &tuple.source);
                to.push_str(" dst=");
                show_address(to, &tuple.destination);
                let (from, into) = (tuple.source_port, tuple.destination_port);
                let _ = write!(to, " sport={from} dport={into}");
            }
            to.push('\n');
        }
    }
}

impl Server for Manager {
    type Node = Node;
    type State = Open;

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let mode = match node {
            Node::Root | Node::Folder => s::IFDIR | 0o555,
            Node::Rules => s::IFREG | 0o600,
            Node::Connections | Node::Error => s::IFREG | 0o400,
        };
        Ok(Meta {
            mode,
            ino: node as u64 + 1,
            ..Meta::default()
        })
    }

    /// (Who may is looked at when a file is opened.)
    fn access(&mut self, node: Node) -> Answer<Access> {
        let mode = match node {
            Node::Root | Node::Folder => s::IFDIR | 0o555,
            Node::Rules => s::IFREG | 0o666,
            Node::Connections | Node::Error => s::IFREG | 0o444,
        };
        Ok(Access {
            mode,
            ..Access::default()
        })
    }

    fn lookup(&mut self, _: &mut Context, dir: Node, name: &[u8]) -> Answer<Node> {
        match (dir, name) {
            (Node::Root, b"filter") => Ok(Node::Folder),
            (Node::Folder, name) => {
                let known = FILES.iter().find(|of| of.0.as_bytes() == name);
                known.map(|of| of.1).ok_or(Failure::Errno(ENOENT))
            }
            (Node::Root, _) => fail(ENOENT),
            _ => fail(ENOTDIR),
        }
    }

    fn parent(&mut self, cx: &mut Context, dir: Node) -> Answer<Node> {
        match dir {
            Node::Folder => Err(cx.redirect(b"/proc/net")),
            _ => Ok(Node::Root),
        }
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let mut all = Vec::from([(handle.node, "."), (Node::Root, "..")]);
        match handle.node {
            Node::Root => all.push((Node::Folder, "filter")),
            Node::Folder => all.extend(FILES.iter().map(|of| (of.1, of.0))),
            _ => return fail(ENOTDIR),
        }
        let entries = all.into_iter().map(|(node, name)| {
            let Meta { ino, mode, .. } = self.meta(node)?;
            Ok((ino, mode, name.as_bytes()))
        });
        into.add_from(position, entries)
    }

    fn label(&mut self, node: Node, into: &mut [u8]) -> Option<usize> {
        let name: &[u8] = match node {
            Node::Root => return None,
            Node::Folder => b"/proc/net/filter",
            Node::Rules => b"/proc/net/filter/rules",
            Node::Connections => b"/proc/net/filter/connections",
            Node::Error => b"/proc/net/filter/error",
        };
        put(name, into).ok()
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: Node,
        flags: u64,
        _: &mut Open,
    ) -> Answer<Opened<Node>> {
        let meta = self.meta(node)?;
        let file = !meta.access().is_directory();
        if file && flags & o::ACCMODE != o::RDONLY && node != Node::Rules {
            return fail(EACCES);
        }
        if file && !self.may(cx) {
            return fail(EACCES);
        }
        let kind = layout::default_kind(meta.mode);
        Ok(Opened { node, kind })
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let node = handle.node;
        if matches!(node, Node::Root | Node::Folder) {
            return fail(EISDIR);
        }
        let text = || Ok(self.text(node));
        handle.state.shown.read(cx, offset, length, text)
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        match handle.node {
            Node::Rules => self.write_rules(cx, &mut handle.state.draft, offset, length),
            _ => fail(EBADF),
        }
    }

    /// (The rules that there are stay until others come.)
    fn truncate(&mut self, _: &mut Context, node: Node, _: u64) -> Answer<()> {
        match node {
            Node::Rules => Ok(()),
            _ => fail(EINVAL),
        }
    }

    fn close(&mut self, cx: &mut Context, mut handle: Handle<Self>) {
        handle.state.shown.end(cx);
        let mut draft = core::mem::take(&mut handle.state.draft);
        if draft.waits && !draft.refused {
            let payer = draft.payer;
            if let Err(wrong) = self.replace(cx, &draft.text, payer) {
                self.error = wrong.text();
            }
        }
        Self::end_draft(cx, &mut draft);
    }

    fn special_direct(
        &mut self,
        node: Option<Node>,
        request: &mut Received,
        _: &mut Later,
    ) -> Direct {
        let right = (request.words[0], request.badge, node.is_none())
            == (filter::JUDGE, filter::ROUTER, true);
        if !right || request.words[1] & about::QUOTES != 0 || !self.looks || !self.is_paid() {
            return Direct::Ordinary;
        }
        let Some(packet) = Self::packet(&request.words, None) else {
            return Direct::Ordinary;
        };
        let answer = self.filter.judge(&packet, (self.clock)());
        request.words = Self::told(&answer);
        Direct::Done(0)
    }

    fn special<'a>(&'a mut self, cx: &mut Context, _: &mut Handles<Self>) -> Answer<Reply<'a>> {
        let operation = cx.request.words[0];
        if cx.request.badge != filter::ROUTER {
            return fail(if operation == filter::JUDGE {
                EPERM
            } else {
                ENOSYS
            });
        }
        match operation {
            filter::ATTACH => self.attach(cx),
            filter::INTERFACES => self.learn(cx),
            filter::JUDGE => self.judge(cx),
            _ => fail(ENOSYS),
        }
    }

    fn tick(&mut self, cx: &mut Context) {
        self.filter.connections.next_look = 0;
        self.filter.connections.time_passes((self.clock)());
        self.give_back(cx);
        self.look_later(cx);
    }
}
