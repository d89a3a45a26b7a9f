//! All keys: by serial number, by what they are called, in which rings; quotas; what goes, and when.
//!
//! What always holds:
//! * a key is there as long as somebody holds it: a ring, a process, a user's own record ([`Key::holders`]);
//! * what is in a ring is found by the ring's number of content and the key's name, so no two keys of a ring have the same type and description, and each key
//!   knows its rings;
//! * no ring is in itself, however deep;
//! * a ring that is cleared or goes leaves its content to [`Store::sweep`], which takes it apart in pieces, and so are keys taken out of many rings: nothing
//!   that a request does grows with a ring.

use crate::key::{Kept, Key, Kind, State};
use crate::limits::Limits;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_resmgr::{Context, Failure};
use cairn_slab::Slab;

/// What indexes have of a key, beside its record; and a link with its entries.
const KEY_COST: usize = size_of::<Key>() + 384;
const LINK_COST: usize = 192;
/// What a link counts for the quota of the ring's owner.
const LINK_BYTES: u64 = 4;

/// How a key counts for its owner's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    In,
    /// It counts, and is made even if that is too much.
    Beyond,
    Out,
}

/// A key to be made.
pub struct Wish {
    pub kind: Kind,
    pub description: Vec<u8>,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    pub payload: Vec<u8>,
    pub quota: Quota,
}

#[derive(Debug, Default)]
pub struct User {
    /// All keys; those that its quota counts, and their bytes.
    pub keys: u32,
    pub counted: u64,
    pub bytes: u64,
    /// Its own ring, its session's, and the persistent one.
    pub rings: [Option<u32>; 3],
}

pub const OWN: usize = 0;
pub const SESSION: usize = 1;
pub const PERSISTENT: usize = 2;

/// A type and description that keys have.
#[derive(Debug)]
struct Name {
    text: Rc<Vec<u8>>,
    kind: Kind,
    keys: u32,
}

/// Types and descriptions by number.
#[derive(Debug, Default)]
pub struct Names {
    all: Slab<Name>,
    numbers: BTreeMap<(Kind, Rc<Vec<u8>>), u32>,
}

impl Names {
    pub fn find(&self, kind: Kind, text: &Rc<Vec<u8>>) -> Option<u32> {
        self.numbers.get(&(kind, text.clone())).copied()
    }

    fn take(&mut self, kind: Kind, text: Vec<u8>) -> Result<u32, i64> {
        let text = Rc::new(text);
        if let Some(number) = self.find(kind, &text) {
            if let Some(name) = self.all.get_mut(number) {
                name.keys += 1;
            }
            return Ok(number);
        }
        let name = Name {
            text: text.clone(),
            kind,
            keys: 1,
        };
        let number = self.all.insert(name).ok_or(ENOMEM)?;
        self.numbers.insert((kind, text), number);
        Ok(number)
    }

    fn drop(&mut self, number: u32) {
        let Some(name) = self.all.get_mut(number) else {
            return;
        };
        name.keys -= 1;
        if name.keys == 0 {
            if let Some(name) = self.all.remove(number) {
                self.numbers.remove(&(name.kind, name.text));
            }
        }
    }

    pub fn text(&self, number: u32) -> &[u8] {
        self.all.get(number).map_or(&[], |name| &name.text)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub key: u32,
    /// Who pays for it.
    payer: u32,
}

#[derive(Debug, Default)]
pub struct Store {
    pub keys: Slab<Key>,
    pub names: Names,
    pub limits: Limits,
    pub users: BTreeMap<u32, User>,
    pub serials: BTreeMap<i32, u32>,
    /// By content and name.
    pub links: BTreeMap<(u64, u32), Link>,
    /// The same by key and content.
    pub(crate) rings_of: BTreeSet<(u32, u64)>,
    /// Those of them that are rings, by content and key.
    pub inner: BTreeSet<(u64, u32)>,
    /// The ring of a content.
    pub(crate) contents: BTreeMap<u64, u32>,
    last_content: u64,
    /// Rings that may be joined, by name and owner.
    pub named: BTreeSet<(u32, u32, u32)>,
    /// Keys by when they go.
    due: BTreeSet<(u64, u32)>,
    /// What is to be taken apart: contents, and keys that no ring is to have.
    left: BTreeSet<u64>,
    leaving: BTreeSet<u32>,
    pub(crate) searches: u64,
}

pub fn errno(failure: Failure) -> i64 {
    match failure {
        Failure::Errno(number) => number,
        _ => ENOMEM,
    }
}

impl Store {
    pub fn get(&self, key: u32) -> Result<&Key, i64> {
        self.keys.get(key).ok_or(ENOKEY)
    }

    pub fn get_mut(&mut self, key: u32) -> Result<&mut Key, i64> {
        self.keys.get_mut(key).ok_or(ENOKEY)
    }

    pub fn text_of(&self, key: &Key) -> &[u8] {
        self.names.text(key.name)
    }

    /// The key with a serial number.
    pub fn with_serial(&self, serial: i32) -> Result<u32, i64> {
        let at = *self.serials.get(&serial).ok_or(ENOKEY)?;
        match self.get(at)?.state {
            State::Invalid => Err(ENOKEY),
            _ => Ok(at),
        }
    }

    // ---- quotas

    /// So many keys and bytes more count for a user.
    fn count(&mut self, uid: u32, keys: u64, bytes: u64, checked: bool) -> Result<(), i64> {
        let (most, most_bytes) = self.limits.of(uid);
        let (counted, used) = self
            .users
            .get(&uid)
            .map_or((0, 0), |user| (user.counted, user.bytes));
        let fits = counted + keys <= most && used.saturating_add(bytes) <= most_bytes;
        if checked && !fits {
            return Err(EDQUOT);
        }
        let user = self.users.entry(uid).or_default();
        user.counted += keys;
        user.bytes += bytes;
        Ok(())
    }

    fn uncount(&mut self, uid: u32, keys: u64, bytes: u64) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.counted = user.counted.saturating_sub(keys);
            user.bytes = user.bytes.saturating_sub(bytes);
        }
    }

    /// A key counts so many bytes from now on, of which the description and the links are the first.
    fn recount(&mut self, at: u32, bytes: u64) -> Result<(), i64> {
        let key = self.get(at)?;
        let (uid, had, counted) = (key.uid, key.bytes, key.counted);
        match bytes.checked_sub(had) {
            _ if !counted => {}
            Some(more) => self.count(uid, 0, more, more != 0)?,
            None => self.uncount(uid, 0, had - bytes),
        }
        self.get_mut(at)?.bytes = bytes;
        Ok(())
    }

    fn forget_user(&mut self, uid: u32) {
        let gone = |user: &User| user.keys == 0 && user.rings == [None; 3];
        if self.users.get(&uid).is_some_and(gone) {
            self.users.remove(&uid);
        }
    }

    // ---- keys

    /// A key that nobody holds yet: the caller links or holds it, or lets it go.
    pub fn make(
        &mut self,
        cx: &mut Context,
        payer: u32,
        wish: Wish,
        mut random: impl FnMut() -> u64,
    ) -> Result<u32, i64> {
        let length = wish.description.len();
        let bytes = length as u64 + 1 + wish.kind.counts(wish.payload.len());
        let kept = Kept {
            payer,
            bytes: KEY_COST + length + wish.payload.len(),
        };
        let counted = wish.quota != Quota::Out;
        if counted {
            self.count(wish.uid, 1, bytes, wish.quota == Quota::In)?;
        }
        let made = cx.charge(payer, kept.bytes).map_err(errno).and_then(|()| {
            match self.names.take(wish.kind, wish.description) {
                Ok(name) => Ok(name),
                Err(error) => {
                    cx.refund(payer, kept.bytes);
                    Err(error)
                }
            }
        });
        let name = match made {
            Ok(name) => name,
            Err(error) => {
                if counted {
                    self.uncount(wish.uid, 1, bytes);
                    self.forget_user(wish.uid);
                }
                return Err(error);
            }
        };
        let serial = loop {
            let serial = (random() & 0x7fff_ffff) as i32;
            if serial > 2 && !self.serials.contains_key(&serial) {
                break serial;
            }
        };
        self.last_content += 1;
        let content = self.last_content;
        let key = Key {
            serial,
            kind: wish.kind,
            name,
            uid: wish.uid,
            gid: wish.gid,
            mode: wish.mode,
            state: State::Live,
            expiry: 0,
            due: 0,
            holders: 0,
            counted,
            bytes,
            payload: wish.payload,
            kept,
            content,
            count: 0,
            restricted: false,
            home: None,
            seen: 0,
            depth: 0,
            next: 0,
        };
        let is_ring = key.is_ring();
        let Some(at) = self.keys.insert(key) else {
            self.names.drop(name);
            cx.refund(payer, kept.bytes);
            if counted {
                self.uncount(wish.uid, 1, bytes);
            }
            self.forget_user(wish.uid);
            return Err(ENOMEM);
        };
        self.users.entry(wish.uid).or_default().keys += 1;
        self.serials.insert(serial, at);
        if is_ring {
            self.contents.insert(content, at);
            if !matches!(self.names.text(name).first(), None | Some(b'.')) {
                self.named.insert((name, wish.uid, at));
            }
        }
        Ok(at)
    }

    /// Somebody more holds a key.
    pub fn hold(&mut self, at: u32) {
        if let Some(key) = self.keys.get_mut(at) {
            key.holders += 1;
        }
    }

    /// And no more.
    pub fn release(&mut self, cx: &mut Context, at: u32) {
        let Some(key) = self.keys.get_mut(at) else {
            return;
        };
        key.holders -= 1;
        self.let_go(cx, at);
    }

    /// A key goes if nobody holds it.
    pub fn let_go(&mut self, cx: &mut Context, at: u32) {
        if self.keys.get(at).is_none_or(|key| key.holders != 0) {
            return;
        }
        let Some(key) = self.keys.remove(at) else {
            return;
        };
        self.serials.remove(&key.serial);
        self.due.remove(&(key.due, at));
        if key.is_ring() {
            self.named.remove(&(key.name, key.uid, at));
            self.contents.remove(&key.content);
            if key.count != 0 {
                self.left.insert(key.content);
            }
        }
        self.names.drop(key.name);
        if key.counted {
            self.uncount(key.uid, 1, key.bytes);
        }
        if let Some(user) = self.users.get_mut(&key.uid) {
            user.keys -= 1;
        }
        self.forget_user(key.uid);
        cx.refund(key.kept.payer, key.kept.bytes);
    }

    /// A key's payload is another.
    pub fn replace(&mut self, cx: &mut Context, at: u32, payload: Vec<u8>) -> Result<(), i64> {
        let key = self.get(at)?;
        let (had, has, kind) = (key.payload.len(), payload.len(), key.kind);
        let bytes = key.bytes - kind.counts(had) + kind.counts(has);
        let (before, kept) = (key.bytes, key.kept);
        self.recount(at, bytes)?;
        if let Some(more) = has.checked_sub(had) {
            if let Err(failure) = cx.charge(kept.payer, more) {
                self.recount(at, before)?;
                return Err(errno(failure));
            }
        } else {
            cx.refund(kept.payer, had - has);
        }
        let key = self.get_mut(at)?;
        key.kept.bytes = kept.bytes + has - had;
        key.payload = payload;
        Ok(())
    }

    /// A key is another user's and group's.
    pub fn give(&mut self, at: u32, uid: u32, gid: u32) -> Result<(), i64> {
        let key = self.get(at)?;
        let (old, bytes, counted) = (key.uid, key.bytes, key.counted);
        let place = (key.name, at);
        if uid != old {
            if counted {
                self.count(uid, 1, bytes, true)?;
                self.uncount(old, 1, bytes);
            }
            self.users.entry(uid).or_default().keys += 1;
            if let Some(user) = self.users.get_mut(&old) {
                user.keys -= 1;
            }
            self.forget_user(old);
            if self.named.remove(&(place.0, old, at)) {
                self.named.insert((place.0, uid, at));
            }
        }
        let key = self.get_mut(at)?;
        (key.uid, key.gid) = (uid, gid);
        Ok(())
    }

    /// It expires then; 0: never.
    pub fn expires(&mut self, at: u32, when: u64) -> Result<(), i64> {
        self.get_mut(at)?.expiry = when;
        let due = match when {
            0 => 0,
            when => when.saturating_add(self.limits.gc_delay).max(1),
        };
        self.goes(at, due)
    }

    fn goes(&mut self, at: u32, due: u64) -> Result<(), i64> {
        let key = self.keys.get_mut(at).ok_or(ENOKEY)?;
        self.due.remove(&(key.due, at));
        key.due = due;
        if due != 0 {
            self.due.insert((due, at));
        }
        Ok(())
    }

    /// A key is of no use any more: its payload or content goes at once, the key after a while.
    pub fn revoke(&mut self, cx: &mut Context, at: u32, now: u64) -> Result<(), i64> {
        if self.get(at)?.state != State::Live {
            return Ok(());
        }
        match self.get(at)?.is_ring() {
            true => self.clear(at)?,
            false => self.replace(cx, at, Vec::new())?,
        }
        self.get_mut(at)?.state = State::Revoked;
        self.goes(at, now.saturating_add(self.limits.gc_delay).max(1))
    }

    /// A key is not found any more, and leaves all rings.
    pub fn invalidate(&mut self, at: u32) -> Result<(), i64> {
        let key = self.get_mut(at)?;
        if key.state == State::Invalid {
            return Ok(());
        }
        key.state = State::Invalid;
        self.goes(at, 0)?;
        self.hold(at);
        self.leaving.insert(at);
        Ok(())
    }

    // ---- rings

    /// The ring's content is left behind.
    pub fn clear(&mut self, ring: u32) -> Result<(), i64> {
        let (content, count, bytes) = {
            let key = self.get(ring)?;
            (key.content, key.count, key.bytes)
        };
        if count == 0 {
            return Ok(());
        }
        self.recount(ring, bytes - LINK_BYTES * count)?;
        self.contents.remove(&content);
        self.left.insert(content);
        self.last_content += 1;
        let content = self.last_content;
        self.contents.insert(content, ring);
        let key = self.get_mut(ring)?;
        (key.content, key.count) = (content, 0);
        Ok(())
    }

    /// The key of this name in a ring.
    pub fn entry(&self, ring: u32, name: u32) -> Option<u32> {
        let content = self.keys.get(ring)?.content;
        Some(self.links.get(&(content, name))?.key)
    }

    /// A key comes into a ring, in the place of the one that is called the same.
    pub fn link(&mut self, cx: &mut Context, payer: u32, ring: u32, at: u32) -> Result<(), i64> {
        let key = self.get(at)?;
        let (name, is_ring) = (key.name, key.is_ring());
        let of = self.get(ring)?;
        let (content, bytes) = (of.content, of.bytes);
        let old = self.links.get(&(content, name)).map(|link| link.key);
        if old == Some(at) {
            return Ok(());
        }
        cx.charge(payer, LINK_COST).map_err(errno)?;
        if old.is_none() {
            if let Err(error) = self.recount(ring, bytes + LINK_BYTES) {
                cx.refund(payer, LINK_COST);
                return Err(error);
            }
        }
        self.hold(at);
        if old.is_some() {
            self.take_out(cx, content, name, true);
        }
        self.links.insert((content, name), Link { key: at, payer });
        self.rings_of.insert((at, content));
        if is_ring {
            self.inner.insert((content, at));
        }
        self.get_mut(ring)?.count += 1;
        Ok(())
    }

    /// A key leaves a ring.
    pub fn unlink(&mut self, cx: &mut Context, ring: u32, at: u32) -> Result<(), i64> {
        let name = self.get(at)?.name;
        if self.entry(ring, name) != Some(at) {
            return Err(ENOENT);
        }
        let content = self.get(ring)?.content;
        self.take_out(cx, content, name, false);
        Ok(())
    }

    /// A link goes; `replaced`: another takes its place in the quota.
    fn take_out(&mut self, cx: &mut Context, content: u64, name: u32, replaced: bool) {
        let Some(link) = self.links.remove(&(content, name)) else {
            return;
        };
        self.rings_of.remove(&(link.key, content));
        self.inner.remove(&(content, link.key));
        if let Some(&ring) = self.contents.get(&content) {
            let bytes = self.keys.get_mut(ring).map(|ring| {
                ring.count -= 1;
                ring.bytes
            });
            if let (Some(bytes), false) = (bytes, replaced) {
                let _ = self.recount(ring, bytes - LINK_BYTES);
            }
        }
        cx.refund(link.payer, LINK_COST);
        self.release(cx, link.key);
    }

    // ---- what goes

    /// Keys whose time has come leave all rings.
    pub fn collect(&mut self, now: u64) {
        // (Each costs a few steps; the sweep does the rest.)
        for _ in 0..PIECE {
            match self.due.first() {
                Some(&(due, at)) if due <= now => {
                    if self.invalidate(at).is_err() {
                        self.due.remove(&(due, at));
                    }
                }
                _ => break,
            }
        }
    }

    /// Go on taking apart what was left → whether there is more.
    pub fn sweep(&mut self, cx: &mut Context) -> bool {
        for _ in 0..PIECE {
            if let Some(&content) = self.left.first() {
                let next = self.links.range((content, 0)..=(content, u32::MAX)).next();
                match next.map(|((_, name), _)| *name) {
                    Some(name) => self.take_out(cx, content, name, false),
                    None => drop(self.left.remove(&content)),
                }
            } else if let Some(&at) = self.leaving.first() {
                let next = self.rings_of.range((at, 0)..=(at, u64::MAX)).next();
                match (next, self.keys.get(at).map(|key| key.name)) {
                    (Some(&(_, content)), Some(name)) => self.take_out(cx, content, name, false),
                    _ => {
                        self.leaving.remove(&at);
                        self.leave_home(cx, at);
                        self.release(cx, at);
                    }
                }
            } else {
                return false;
            }
        }
        true
    }

    /// A user's own ring is its own no more.
    pub fn leave_home(&mut self, cx: &mut Context, at: u32) {
        let home = self.keys.get_mut(at).and_then(|key| key.home.take());
        let Some((uid, place)) = home else {
            return;
        };
        // (It may have a successor, if it is a long time leaving.)
        if let Some(user) = self.users.get_mut(&uid) {
            if user.rings[place] == Some(at) {
                user.rings[place] = None;
            }
        }
        self.release(cx, at);
        self.forget_user(uid);
    }

    /// A ring is a user's own from now on.
    pub fn settle(&mut self, at: u32, uid: u32, place: usize) {
        self.hold(at);
        if let Some(key) = self.keys.get_mut(at) {
            key.home = Some((uid, place));
        }
        self.users.entry(uid).or_default().rings[place] = Some(at);
    }

    pub fn ring_of_user(&self, uid: u32, place: usize) -> Option<u32> {
        let at = self.users.get(&uid)?.rings[place]?;
        // (One that is leaving is found no more.)
        let found = self.keys.get(at)?;
        (found.state != State::Invalid).then_some(at)
    }

    /// When the next key goes, in seconds.
    pub fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Nothing is being taken apart.
    pub fn is_settled(&self) -> bool {
        self.left.is_empty() && self.leaving.is_empty()
    }
}

/// What is done of such work at a time.
const PIECE: usize = 128;
