//! The operations for the framework: add_key(2), request_key(2), keyctl(2), and the limits.

use crate::caller::{Caller, Found, Holder, Need, Process};
use crate::key::{Kind, State, LINK, MODE, READ, SEARCH, SETATTR, VIEW, WRITE};
use crate::lines::group;
use crate::search::Target;
use crate::store::{errno, Quota, Store, Wish};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_abi::{pulse, Id};
use cairn_idl::errno::*;
use cairn_idl::fs::s;
use cairn_idl::keys::{self, Command, Limits as Which, Listing};
use cairn_idl::label;
use cairn_idl::proc::KeyRings;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Handles, Meta, Server};
use cairn_rt::channel::Reply;
use cairn_rt::Received;
use core::fmt::Write;

/// `proc`, and chance.
pub trait Outside {
    /// The process that lives in a domain.
    fn process(&mut self, domain: Id) -> Option<Process>;
    /// `proc` keeps this number for the process, and closes a portal with it when nobody has it any more ([`NUMBERED`]).
    fn keep(&mut self, domain: Id, whose: KeyRings, number: u64) -> Result<(), i64>;
    fn random(&mut self) -> u64;
}

/// What the badges of portals begin with that tell of numbers' ends.
pub const NUMBERED: u64 = cairn_resmgr::transport::FOLLOWED;

pub struct Keys<O> {
    pub outside: O,
    pub store: Store,
    pub holders: BTreeMap<u64, Holder>,
    pub last_holder: u64,
    /// The text of an answer.
    pub text: String,
}

const NONE: u32 = u32::MAX;

fn id(word: u64) -> i32 {
    word as i32
}

impl<O: Outside> Keys<O> {
    pub fn new(outside: O) -> Keys<O> {
        Keys {
            outside,
            store: Store::default(),
            holders: BTreeMap::new(),
            last_holder: 0,
            text: String::new(),
        }
    }

    /// Bytes of the caller's part.
    fn fetch(cx: &mut Context, at: u64, length: u64) -> Result<Vec<u8>, i64> {
        let end = at.checked_add(length).ok_or(EINVAL)?;
        if end > cx.request.out_len as u64 {
            return Err(EINVAL);
        }
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(length as usize);
        room.map_err(|_| ENOMEM)?;
        bytes.resize(length as usize, 0);
        cx.fetch(at as usize, &mut bytes).map_err(errno)?;
        Ok(bytes)
    }

    /// Type and description at the part's begin.
    fn fetch_names(
        cx: &mut Context,
        kind: u64,
        description: u64,
    ) -> Result<(Option<Kind>, Vec<u8>), i64> {
        if kind == 0 || kind >= keys::KIND_MAX || description >= keys::DESCRIPTION_MAX {
            return Err(EINVAL);
        }
        let kind_text = Self::fetch(cx, 0, kind)?;
        let description = Self::fetch(cx, kind, description)?;
        if kind_text[0] == b'.' {
            return Err(EPERM);
        }
        if kind_text.contains(&0) || description.contains(&0) {
            return Err(EINVAL);
        }
        Ok((Kind::of(&kind_text), description))
    }

    fn serial(&self, at: u32) -> Result<u64, i64> {
        Ok(self.store.get(at)?.serial as u64)
    }

    /// It is a ring that takes keys, and this one.
    fn may_link(&mut self, ring: u32, at: u32, now: u64) -> Result<(), i64> {
        let key = self.store.get(ring)?;
        if !key.is_ring() {
            return Err(ENOTDIR);
        }
        key.check(now)?;
        self.store.may_contain(ring, at)?;
        match self.store.get(ring)?.restricted {
            true => Err(EPERM),
            false => Ok(()),
        }
    }

    fn link(&mut self, cx: &mut Context, caller: &Caller, ring: u32, at: u32) -> Result<(), i64> {
        self.may_link(ring, at, caller.now)?;
        self.store.link(cx, caller.payer, ring, at)
    }

    /// ADD
    fn add(&mut self, cx: &mut Context, caller: &mut Caller) -> Result<u64, i64> {
        let [_, ring, kind_length, length, ..] = cx.request.words;
        let (kind, description) = Self::fetch_names(cx, kind_length, length)?;
        if kind == Some(Kind::Keyring) && description.first() == Some(&b'.') {
            return Err(EPERM);
        }
        let at = kind_length + length;
        let rest = (cx.request.out_len as u64).checked_sub(at).ok_or(EINVAL)?;
        if rest > keys::PAYLOAD_MAX {
            return Err(EINVAL);
        }
        let payload = Self::fetch(cx, at, rest)?;
        let (ring, possessed) = self.lookup(cx, caller, id(ring), true, Need::All(WRITE))?;
        let kind = kind.ok_or(ENODEV)?;
        if !self.store.get(ring)?.is_ring() {
            return Err(ENOTDIR);
        }
        if description.is_empty() || !kind.takes(payload.len()) || !kind.describes(&description) {
            return Err(EINVAL);
        }
        let description = Rc::new(description);
        let name = self.store.names.find(kind, &description);
        let there = name.and_then(|name| self.store.entry(ring, name));
        if self.store.get(ring)?.restricted {
            return Err(EPERM);
        }
        if let (Some(at), true) = (there, kind != Kind::Keyring) {
            let key = self.store.get(at)?;
            if key.state == State::Live {
                if !key.allows(&caller.who, possessed, WRITE) {
                    return Err(EACCES);
                }
                self.update(cx, at, payload)?;
                return self.serial(at);
            }
        }
        let wish = Wish {
            kind,
            description: Rc::into_inner(description).ok_or(ENOMEM)?,
            uid: caller.who.uid,
            gid: caller.who.gid,
            mode: kind.mode(),
            payload,
            quota: Quota::In,
        };
        let outside = &mut self.outside;
        let at = self
            .store
            .make(cx, caller.payer, wish, || outside.random())?;
        if let Err(error) = self.store.link(cx, caller.payer, ring, at) {
            self.store.let_go(cx, at);
            return Err(error);
        }
        self.serial(at)
    }

    fn update(&mut self, cx: &mut Context, at: u32, payload: Vec<u8>) -> Result<(), i64> {
        let kind = self.store.get(at)?.kind;
        if kind == Kind::Keyring {
            return Err(EOPNOTSUPP);
        }
        if !kind.takes(payload.len()) {
            return Err(EINVAL);
        }
        self.store.replace(cx, at, payload)?;
        self.store.expires(at, 0)
    }

    /// REQUEST
    fn request(&mut self, cx: &mut Context, caller: &mut Caller) -> Result<u64, i64> {
        let [_, ring, kind_length, length, ..] = cx.request.words;
        let (kind, description) = Self::fetch_names(cx, kind_length, length)?;
        let ring = match id(ring) {
            0 => None,
            ring => Some(self.lookup(cx, caller, ring, true, Need::All(WRITE))?.0),
        };
        let target = self.called(kind.ok_or(ENOKEY)?, description, true);
        let found = self.search_own(caller, target).map_err(absent)?;
        if let Some(ring) = ring {
            // (What was found by a search is possessed.)
            let key = self.store.get(found)?;
            if !key.allows(&caller.who, true, LINK) {
                return Err(EACCES);
            }
            self.link(cx, caller, ring, found)?;
        }
        self.serial(found)
    }

    fn called(&self, kind: Kind, description: Vec<u8>, passes_expired: bool) -> Target {
        Target {
            name: self.store.names.find(kind, &Rc::new(description)),
            exact: None,
            passes_expired,
        }
    }

    /// CONTROL
    fn control(&mut self, cx: &mut Context, caller: &mut Caller) -> Result<u64, i64> {
        let [_, command, first, second, third, fourth, ..] = cx.request.words;
        let command = Command::from_word(command).ok_or(EOPNOTSUPP)?;
        let own = id(first);
        match command {
            Command::GetKeyringId => {
                let create = id(second) != 0;
                let (ring, _) = self.lookup(cx, caller, own, create, Need::All(SEARCH))?;
                self.serial(ring)
            }
            Command::JoinSessionKeyring => {
                let ring = match first {
                    0 => self.new_session(cx, caller)?,
                    _ => {
                        let length = cx.request.out_len as u64;
                        if length == 0 || length >= keys::DESCRIPTION_MAX {
                            return Err(EINVAL);
                        }
                        let name = Self::fetch(cx, 0, length)?;
                        if name[0] == b'.' {
                            return Err(EPERM);
                        }
                        if name.contains(&0) {
                            return Err(EINVAL);
                        }
                        self.join_session(cx, caller, name)?
                    }
                };
                self.serial(ring)
            }
            Command::Update => {
                let length = cx.request.out_len as u64;
                if length > keys::UPDATE_MAX {
                    return Err(EINVAL);
                }
                let payload = Self::fetch(cx, 0, length)?;
                let (at, _) = self.lookup(cx, caller, own, false, Need::All(WRITE))?;
                self.update(cx, at, payload).map(|()| 0)
            }
            Command::Revoke => {
                let writes = self.lookup(cx, caller, own, false, Need::All(WRITE));
                let (at, _) = match writes {
                    Err(EACCES) => self.lookup(cx, caller, own, false, Need::All(SETATTR))?,
                    found => found?,
                };
                self.store.revoke(cx, at, caller.now).map(|()| 0)
            }
            Command::Invalidate => {
                let (at, _) = self.lookup(cx, caller, own, false, Need::All(SEARCH))?;
                self.store.invalidate(at).map(|()| 0)
            }
            Command::Chown => self.chown(cx, caller, own, second as u32, third as u32),
            Command::Setperm => {
                let mode = second as u32;
                if mode & !MODE != 0 {
                    return Err(EINVAL);
                }
                let (at, _) = self.lookup(cx, caller, own, true, Need::All(SETATTR))?;
                let may = caller.privileged;
                let key = self.store.get_mut(at)?;
                if !may && key.uid != caller.who.uid {
                    return Err(EACCES);
                }
                key.mode = mode;
                Ok(0)
            }
            Command::Describe => self.describe(cx, caller, own),
            Command::Clear => {
                let (ring, _) = self.lookup(cx, caller, own, true, Need::All(WRITE))?;
                if !self.store.get(ring)?.is_ring() {
                    return Err(ENOTDIR);
                }
                self.store.clear(ring).map(|()| 0)
            }
            Command::Link => {
                let (ring, _) = self.lookup(cx, caller, id(second), true, Need::All(WRITE))?;
                let (at, _) = self.lookup(cx, caller, own, true, Need::All(LINK))?;
                self.link(cx, caller, ring, at).map(|()| 0)
            }
            Command::Unlink => {
                let (ring, _) = self.lookup(cx, caller, id(second), false, Need::All(WRITE))?;
                let (at, _) = self.lookup(cx, caller, own, false, Need::Unlink)?;
                if !self.store.get(ring)?.is_ring() {
                    return Err(ENOTDIR);
                }
                self.store.unlink(cx, ring, at).map(|()| 0)
            }
            Command::Search => self.search(cx, caller),
            Command::Read => self.read_key(cx, caller, own),
            Command::SetTimeout => {
                let (at, _) = self.lookup(cx, caller, own, true, Need::All(SETATTR))?;
                let when = match second as u32 {
                    0 => 0,
                    seconds => caller.now.saturating_add(seconds.into()),
                };
                self.store.expires(at, when).map(|()| 0)
            }
            Command::GetSecurity => {
                self.lookup(cx, caller, own, false, Need::All(VIEW))?;
                self.tell(cx, b"\0")
            }
            Command::SessionToParent => self.session_to_parent(cx, caller).map(|()| 0),
            Command::GetPersistent => self.get_persistent(cx, caller, own as u32, id(second)),
            Command::RestrictKeyring => self.restrict(cx, caller, own, third, fourth),
            Command::Move => {
                let flags = fourth as u32;
                self.move_key(cx, caller, own, (id(second), id(third)), flags)
            }
            Command::AssumeAuthority => match own {
                ..0 => Err(EINVAL),
                0 => Ok(0),
                // Nobody is asked to make keys.
                _ => Err(ENOKEY),
            },
            Command::Instantiate | Command::InstantiateIov | Command::Negate | Command::Reject => {
                Err(EPERM)
            }
            // These are the personality's.
            Command::SetReqkeyKeyring | Command::Capabilities => Err(EOPNOTSUPP),
        }
    }

    fn chown(
        &mut self,
        cx: &mut Context,
        caller: &mut Caller,
        own: i32,
        uid: u32,
        gid: u32,
    ) -> Result<u64, i64> {
        if uid == NONE && gid == NONE {
            return Ok(0);
        }
        let (at, _) = self.lookup(cx, caller, own, true, Need::All(SETATTR))?;
        let key = self.store.get(at)?;
        let user = if uid == NONE { key.uid } else { uid };
        let group = if gid == NONE { key.gid } else { gid };
        if !caller.privileged {
            let joins = group != key.gid && !caller.who.is_member(group);
            if user != key.uid || joins {
                return Err(EACCES);
            }
        }
        self.store.give(at, user, group).map(|()| 0)
    }

    /// The text goes into the part if it has room for all of it → its length.
    fn tell(&mut self, cx: &mut Context, text: &[u8]) -> Result<u64, i64> {
        if cx.request.in_len >= text.len() && !text.is_empty() {
            cx.store(0, text).map_err(errno)?;
        }
        Ok(text.len() as u64)
    }

    fn describe(&mut self, cx: &mut Context, caller: &mut Caller, own: i32) -> Result<u64, i64> {
        let (at, _) = self.lookup(cx, caller, own, false, Need::All(VIEW))?;
        let key = self.store.get(at)?;
        let mut text = core::mem::take(&mut self.text);
        text.clear();
        let (uid, gid) = (key.uid, group(key.gid));
        let kind = key.kind.name();
        let written = write!(text, "{kind};{uid};{gid};{:08x};", key.mode);
        written.map_err(|_| ENOMEM)?;
        let mut bytes = core::mem::take(&mut text).into_bytes();
        let description = self.store.text_of(key);
        let room = bytes.try_reserve_exact(description.len() + 1);
        room.map_err(|_| ENOMEM)?;
        bytes.extend_from_slice(description);
        bytes.push(0);
        self.tell(cx, &bytes)
    }

    fn search(&mut self, cx: &mut Context, caller: &mut Caller) -> Result<u64, i64> {
        let [_, _, ring, kind, length, into, ..] = cx.request.words;
        let (kind, description) = Self::fetch_names(cx, kind, length)?;
        let (ring, possessed) = self.lookup(cx, caller, id(ring), false, Need::All(SEARCH))?;
        let into = match id(into) {
            0 => None,
            into => Some(self.lookup(cx, caller, into, true, Need::All(WRITE))?.0),
        };
        let kind = kind.ok_or(ENOKEY)?;
        if !self.store.get(ring)?.is_ring() {
            return Err(ENOTDIR);
        }
        let target = self.called(kind, description, false);
        let (who, now) = (&caller.who, caller.now);
        let found = self.store.search(ring, possessed, target, who, now);
        let found = found.map_err(absent)?;
        if let Some(into) = into {
            if !self.store.get(found)?.allows(who, possessed, LINK) {
                return Err(EACCES);
            }
            self.link(cx, caller, into, found)?;
        }
        self.serial(found)
    }

    fn read_key(&mut self, cx: &mut Context, caller: &mut Caller, own: i32) -> Result<u64, i64> {
        let found = self.lookup(cx, caller, own, false, Need::Later);
        let (at, possessed): Found = found.map_err(|_| ENOKEY)?;
        let key = self.store.get(at)?;
        if !key.allows(&caller.who, possessed, READ) && !possessed {
            return Err(EACCES);
        }
        if !key.kind.is_read() {
            return Err(EOPNOTSUPP);
        }
        key.check(caller.now)?;
        if !key.is_ring() {
            let length = key.payload.len();
            if cx.request.in_len >= length && length != 0 {
                cx.store(0, &key.payload).map_err(errno)?;
            }
            return Ok(length as u64);
        }
        let (content, length) = (key.content, 4 * key.count);
        if (cx.request.in_len as u64) < length {
            return Ok(length);
        }
        // (In pieces: there is no buffer for all of it.)
        let mut piece = [0; 1024];
        let (mut filled, mut stored) = (0, 0);
        let links = self.store.links.range((content, 0)..=(content, NONE));
        for link in links.map(|(_, link)| link) {
            let serial = self.store.get(link.key)?.serial;
            piece[filled..filled + 4].copy_from_slice(&serial.to_le_bytes());
            filled += 4;
            if filled == piece.len() {
                cx.store(stored, &piece).map_err(errno)?;
                stored += filled;
                filled = 0;
            }
        }
        if filled != 0 {
            cx.store(stored, &piece[..filled]).map_err(errno)?;
        }
        Ok(length)
    }

    fn get_persistent(
        &mut self,
        cx: &mut Context,
        caller: &mut Caller,
        uid: u32,
        into: i32,
    ) -> Result<u64, i64> {
        let uid = match uid {
            NONE => caller.uid,
            uid if uid == caller.uid || uid == caller.who.uid || caller.privileged => uid,
            _ => return Err(EPERM),
        };
        let (into, _) = self.lookup(cx, caller, into, true, Need::All(WRITE))?;
        if !self.store.get(into)?.is_ring() {
            return Err(ENOTDIR);
        }
        let ring = self.persistent(cx, caller, uid)?;
        if !self.store.get(ring)?.allows(&caller.who, true, LINK) {
            return Err(EACCES);
        }
        // (One that has just been made and cannot be linked stays, and goes when its time is over.)
        let expiry = caller.now + self.store.limits.persistent_expiry;
        self.store.expires(ring, expiry.max(1))?;
        self.link(cx, caller, into, ring)?;
        self.serial(ring)
    }

    fn restrict(
        &mut self,
        cx: &mut Context,
        caller: &mut Caller,
        own: i32,
        kind: u64,
        restriction: u64,
    ) -> Result<u64, i64> {
        let (ring, _) = self.lookup(cx, caller, own, false, Need::All(SETATTR))?;
        // Lengths are told one too long, so that 0 is none.
        let kind = match kind {
            0 if restriction != 0 => return Err(EINVAL),
            0 => None,
            _ if restriction == 0 => return Err(EINVAL),
            length => Some(Self::fetch(cx, 0, length - 1)?),
        };
        let key = self.store.get_mut(ring)?;
        if !key.is_ring() {
            return Err(ENOTDIR);
        }
        match kind {
            // No type here knows restrictions.
            Some(kind) if Kind::of(&kind).is_some() => Err(ENOENT),
            Some(_) => Err(ENOKEY),
            None if key.restricted => Err(EEXIST),
            None => {
                key.restricted = true;
                Ok(0)
            }
        }
    }

    fn move_key(
        &mut self,
        cx: &mut Context,
        caller: &mut Caller,
        own: i32,
        (from, to): (i32, i32),
        flags: u32,
    ) -> Result<u64, i64> {
        const EXCLUSIVE: u32 = 1;
        if flags & !EXCLUSIVE != 0 {
            return Err(EINVAL);
        }
        let (at, _) = self.lookup(cx, caller, own, true, Need::All(LINK))?;
        let (from, _) = self.lookup(cx, caller, from, false, Need::All(WRITE))?;
        let (to, _) = self.lookup(cx, caller, to, true, Need::All(WRITE))?;
        let name = self.store.get(at)?.name;
        if !self.store.get(from)?.is_ring() || !self.store.get(to)?.is_ring() {
            return Err(ENOTDIR);
        }
        if from == to {
            return Ok(0);
        }
        if self.store.entry(from, name) != Some(at) {
            return Err(ENOENT);
        }
        if flags & EXCLUSIVE != 0 && self.store.entry(to, name).is_some() {
            return Err(EEXIST);
        }
        self.link(cx, caller, to, at)?;
        self.store.unlink(cx, from, at).map(|()| 0)
    }

    /// LIMIT
    fn limit(&mut self, cx: &mut Context) -> Result<u64, i64> {
        let [_, which, set, value, ..] = cx.request.words;
        let which = Which::from_word(which).ok_or(EINVAL)?;
        let was = self.store.limits.get(which);
        if set != 0 {
            if !cx.has(label::SYSTEM) {
                return Err(EPERM);
            }
            if !self.store.limits.set(which, value) {
                return Err(EINVAL);
            }
        }
        Ok(was)
    }

    /// LIST
    fn listed(&mut self, cx: &mut Context) -> Result<u64, i64> {
        let [_, what, domain, label, first, ..] = cx.request.words;
        if cx.request.badge != keys::READER {
            return Err(EPERM);
        }
        let what = Listing::from_word(what).ok_or(EINVAL)?;
        // Who is no process (any more) sees nothing.
        let domain = Id::try_from(domain).map_err(|_| EINVAL)?;
        let caller = match what {
            Listing::Users => None,
            Listing::Keys => match self.caller(cx, domain, label, 0) {
                Ok(caller) => Some(caller),
                Err(_) => {
                    self.text.clear();
                    return Ok(0);
                }
            },
        };
        self.list(caller.as_ref(), what, first)
    }

    /// Some of what was left is taken apart; the rest goes in the background, and what is not due yet in time.
    fn sweep(&mut self, cx: &mut Context) {
        let left = self.sweep_piece(cx);
        cx.leave(left, |cx| self.sweep_piece(cx));
    }

    /// Is anything left for now?
    fn sweep_piece(&mut self, cx: &mut Context) -> bool {
        let now = cx.transport.realtime();
        self.store.collect(now / 1_000_000_000);
        let more = self.store.sweep(cx);
        let monotonic = cx.transport.monotonic();
        let next = match self.store.next_due() {
            None => None,
            // (The clock may be set meanwhile: it is looked at again in time.)
            Some(due) => {
                let left = due.saturating_mul(1_000_000_000).saturating_sub(now);
                Some(monotonic.saturating_add(left.clamp(1_000_000, 60_000_000_000)))
            }
        };
        cx.wake_at(next);
        more
    }
}

/// That a key is not there is said so in the end.
fn absent(error: i64) -> i64 {
    match error {
        EAGAIN => ENOKEY,
        error => error,
    }
}

impl<O: Outside> Server for Keys<O> {
    type Node = ();
    type State = ();

    fn root(&mut self, _: u64) {}

    fn meta(&mut self, _: ()) -> Answer<Meta> {
        Ok(Meta {
            mode: s::IFDIR | 0o555,
            ino: 1,
            ..Meta::default()
        })
    }

    fn special<'a>(&'a mut self, cx: &mut Context, _: &mut Handles<Self>) -> Answer<Reply<'a>> {
        let Received {
            sender,
            label,
            token,
            badge,
            ..
        } = *cx.request;
        let answer = match cx.request.words[0] {
            keys::LIMIT => {
                let was = self.limit(cx);
                return was.map(|was| Reply::new(&[0, was])).map_err(Failure::Errno);
            }
            keys::LIST => {
                let next = self.listed(cx).map_err(Failure::Errno)?;
                let text = self.text.as_bytes();
                if text.len() > cx.request.in_len {
                    return Err(Failure::Errno(EINVAL));
                }
                return Ok(Reply::new(&[text.len() as u64, next]).data(text));
            }
            keys::ADD | keys::REQUEST | keys::CONTROL | keys::THREAD_ENDS if badge == 0 => {
                let caller = self.caller(cx, sender, label, token as u32);
                caller.and_then(|mut caller| match cx.request.words[0] {
                    keys::ADD => self.add(cx, &mut caller),
                    keys::REQUEST => self.request(cx, &mut caller),
                    keys::CONTROL => self.control(cx, &mut caller),
                    _ => {
                        self.thread_ends(cx, &caller);
                        Ok(0)
                    }
                })
            }
            _ => Err(ENOSYS),
        };
        self.sweep(cx);
        let value = answer.map_err(Failure::Errno)?;
        Ok(Reply::result(value as i64))
    }

    fn pulse(&mut self, cx: &mut Context, event: &Received) {
        if event.words[0] == pulse::CLOSED && event.badge >= NUMBERED {
            self.nobody_has(cx, event.badge & !NUMBERED);
            self.sweep(cx);
        }
    }

    fn tick(&mut self, cx: &mut Context) {
        // (Here it would go before all programs.)
        if !cx.begin_background() {
            self.sweep(cx);
        }
    }

    fn background(&mut self, cx: &mut Context) -> bool {
        self.sweep_piece(cx)
    }
}
