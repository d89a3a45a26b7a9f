//! Watches: who at the event server is interested in what a handle is ready for ([`fs::WATCH`]). The event server is told of each change before the request is answered that made it, so whoever has the answer finds it there.
//!
//! A watch is found by the keys that its handle's readiness depends on, by the handle, and by its interest: nothing is walked. What wakes a key *touches* the watches that have it; touched ones are looked at before the next answer ([`Manager::tell`]).
//!
//! Interests end at the event server without word to anybody here. A watch whose interest is gone goes when the next change is told, when the interest's place
//! is given to another one, or when watches have become twice as many as the last time that all were asked for, some with each new one.
//!
//! A file may have very many. Of those that a request touches [`TOLD`] are told of before its answer, and the rest in pieces in the background, where others
//! are served between. So it is with watches of a handle that is closed.

use crate::chains::Chains;
use crate::context::{Context, Failure, Later};
use crate::manager::{Core, Manager};
use crate::server::{Answer, Readiness, Server};
use crate::shrink::Shrink;
use crate::transport::Transport;
use crate::waiting::NOBODY;
use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_idl::errno::{EBADF, ENOSPC, ENOSYS};
use cairn_idl::event::{self, flags, told};
use cairn_idl::fs::{o, poll};
use cairn_rt::channel::Reply;

/// Most watches at one manager.
const WATCHES_MAX: usize = 1 << 18;
/// Fewer are not worth asking for.
const FEW: usize = 256;
/// How many ALIVE asks for at a time, and how often that is done for a new watch.
const ASKED: usize = 6;
const ASKS: usize = 8;
/// Watches of which the event server is told before an answer, and in a piece of what nobody waits for.
const TOLD: usize = 1024;
const PIECE: usize = 256;

/// What the first and the second of a handle's keys tell.
const INPUT: u64 = poll::IN | poll::RDNORM | poll::PRI | poll::RDHUP;
const OUTPUT: u64 = poll::OUT | poll::WRNORM;
const ALWAYS: u64 = poll::ERR | poll::HUP;

struct Watch {
    badge: u64,
    interest: u64,
    watcher: Id,
    wanted: u64,
    keys: [u64; 2],
    /// What the event server knows.
    told: u64,
    /// Which keys were woken (bits), or that the handle was used.
    touched: u8,
    /// Its place among those that are touched, if it is.
    at: u32,
    used: bool,
}

const USED: u8 = 4;

/// An interest's place at the event server, which it has alone while it lives ([`event::CTL`]).
fn place(interest: u64) -> u64 {
    interest as u32 as u64
}

/// How many watches there are for the numbers that share a remainder: most requests find none and end here.
#[derive(Default)]
struct Marks([u32; MARKS]);

const MARKS: usize = 32;

impl Marks {
    #[inline]
    fn of(&mut self, number: u64) -> &mut u32 {
        &mut self.0[number as usize % MARKS]
    }

    #[inline]
    fn has(&self, number: u64) -> bool {
        self.0[number as usize % MARKS] != 0
    }
}

/// All watches of a manager.
pub(crate) struct Watches {
    all: Vec<Watch>,
    free: Vec<u32>,
    len: usize,
    /// Links of watch `i`: `2 i` and (if its keys differ) `2 i + 1`.
    keys: Chains,
    badges: Chains,
    /// By their interests' places.
    interests: Chains,
    woken: Marks,
    handles: Marks,
    /// Watches to look at. The last of them, so many, wait for nothing; those before are left to the background.
    touched: Vec<u32>,
    now: usize,
    /// Handles that were closed, with watches that are still to go.
    closed: Vec<u64>,
    /// Ask which are alive when there are so many, from this one on.
    many: usize,
    asked: usize,
    shrink: Shrink,
}

impl Default for Watches {
    fn default() -> Watches {
        Watches {
            all: Vec::new(),
            free: Vec::new(),
            len: 0,
            keys: Chains::default(),
            badges: Chains::growing_early(4),
            interests: Chains::growing_early(2),
            woken: Marks::default(),
            handles: Marks::default(),
            touched: Vec::new(),
            now: 0,
            closed: Vec::new(),
            many: FEW,
            asked: 0,
            shrink: Shrink::default(),
        }
    }
}

impl Watches {
    #[inline]
    pub fn touched(&self) -> bool {
        self.now != 0
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One to look at, and how it was touched.
    pub fn next_touched(&mut self) -> Option<(u32, u8)> {
        match self.touched() {
            true => self.take_touched(self.touched.len() - 1),
            false => None,
        }
    }

    /// One that was left to the background.
    fn next_left(&mut self) -> Option<(u32, u8)> {
        self.take_touched((self.touched.len() - self.now).checked_sub(1)?)
    }

    fn take_touched(&mut self, at: usize) -> Option<(u32, u8)> {
        let index = *self.touched.get(at)?;
        let how = self.all[index as usize].touched;
        self.unnote(index);
        Some((index, how))
    }

    /// May the handle have one?
    #[inline]
    pub fn may_have(&self, badge: u64) -> bool {
        self.handles.has(badge)
    }

    fn has_some_left(&self) -> bool {
        self.touched.len() != self.now || !self.closed.is_empty()
    }

    /// What is touched now is looked at in the background. False: nothing works there.
    #[cold]
    fn leave(&mut self, transport: &mut dyn Transport) -> bool {
        let left = transport.begin_background();
        if left {
            self.now = 0;
        }
        left
    }

    /// The same for what watches a handle that is closed.
    #[cold]
    fn leave_closed(&mut self, transport: &mut dyn Transport, badge: u64) -> bool {
        let left = self.closed.try_reserve(1).is_ok() && transport.begin_background();
        if left {
            self.closed.push(badge);
        }
        left
    }

    fn note(&mut self, index: u32, how: u8) {
        let watch = &mut self.all[index as usize];
        if watch.touched == 0 {
            watch.at = self.touched.len() as u32;
            // There is room for all watches.
            self.touched.push(index);
            self.now += 1;
        }
        watch.touched |= how;
    }

    /// It is not touched any more.
    #[inline(never)]
    fn unnote(&mut self, index: u32) {
        let watch = &mut self.all[index as usize];
        watch.touched = 0;
        let mut hole = watch.at as usize;
        let left = self.touched.len() - self.now;
        if hole < left {
            // The last that is left to the background takes its place.
            self.set_touched(hole, self.touched[left - 1]);
            hole = left - 1;
        } else {
            self.now -= 1;
        }
        let last = self.touched.pop().unwrap_or(index);
        if hole < self.touched.len() {
            self.set_touched(hole, last);
        }
    }

    fn set_touched(&mut self, at: usize, index: u32) {
        self.touched[at] = index;
        self.all[index as usize].at = at as u32;
    }

    /// A key was woken.
    #[inline]
    pub fn touch(&mut self, key: u64) {
        if self.woken.has(key) {
            self.touch_watches(key);
        }
    }

    #[inline(never)]
    fn touch_watches(&mut self, key: u64) {
        let mut next = self.keys.first(key);
        while let Some(link) = next {
            let keys = self.all[link as usize / 2].keys;
            let how = match keys[0] == keys[1] {
                true => 3,
                false => 1 << (link % 2),
            };
            self.note(link / 2, how);
            next = self.keys.next(link);
        }
    }

    /// The handle was used: it may be ready for less.
    #[inline]
    pub fn touch_handle(&mut self, badge: u64) {
        if self.handles.has(badge) {
            self.touch_watches_of(badge);
        }
    }

    #[inline(never)]
    fn touch_watches_of(&mut self, badge: u64) {
        let mut next = self.badges.first(badge);
        while let Some(index) = next {
            self.note(index, USED);
            next = self.badges.next(index);
        }
    }

    fn add(&mut self, later: &mut Later, watch: Watch) -> Option<u32> {
        let index = match self.free.last() {
            Some(&index) => index,
            None => {
                let count = self.all.len() + 1;
                let room = self.all.try_reserve(1).is_ok()
                    && self.free.try_reserve(count).is_ok()
                    && self.touched.try_reserve(count).is_ok();
                if count > WATCHES_MAX || !room {
                    return None;
                }
                count as u32 - 1
            }
        };
        let count = self.all.len().max(index as usize + 1);
        let room = self.keys.reserve(2 * count)
            && self.badges.reserve(count)
            && self.interests.reserve(count);
        if !room {
            return None;
        }
        let Watch {
            badge,
            interest,
            keys,
            ..
        } = watch;
        match self.free.pop() {
            Some(index) => self.all[index as usize] = watch,
            None => self.all.push(watch),
        }
        self.shrink.one_came(index as usize);
        self.badges.insert(index, badge);
        *self.handles.of(badge) += 1;
        self.interests.insert(index, place(interest));
        self.link(later, index, keys);
        self.len += 1;
        Some(index)
    }

    /// In place of what was watched for an interest in the same place. False: there is no room.
    fn renew(&mut self, later: &mut Later, watch: Watch) -> bool {
        while let Some(index) = self.interests.first(place(watch.interest)) {
            let old = &mut self.all[index as usize];
            if (old.badge, old.keys, old.touched) == (watch.badge, watch.keys, 0) {
                *old = watch;
                return true;
            }
            self.remove(later, index);
        }
        self.add(later, watch).is_some()
    }

    fn link(&mut self, later: &mut Later, index: u32, keys: [u64; 2]) {
        later.begin(keys);
        for key in keys {
            *self.woken.of(key) += 1;
        }
        self.keys.insert(2 * index, keys[0]);
        if keys[0] != keys[1] {
            self.keys.insert(2 * index + 1, keys[1]);
        }
    }

    fn unlink(&mut self, later: &mut Later, index: u32) {
        let keys = self.all[index as usize].keys;
        later.end(keys);
        for key in keys {
            *self.woken.of(key) -= 1;
        }
        self.keys.remove(2 * index);
        self.keys.remove(2 * index + 1);
    }

    fn set_keys(&mut self, later: &mut Later, index: u32, keys: [u64; 2]) {
        if self.all[index as usize].keys != keys {
            self.unlink(later, index);
            self.all[index as usize].keys = keys;
            self.link(later, index, keys);
        }
    }

    fn remove(&mut self, later: &mut Later, index: u32) {
        self.unlink(later, index);
        self.badges.remove(index);
        *self.handles.of(self.all[index as usize].badge) -= 1;
        self.interests.remove(index);
        if self.all[index as usize].touched != 0 {
            self.unnote(index);
        }
        self.all[index as usize].used = false;
        self.free.push(index);
        self.len -= 1;
        self.shrink.one_went();
    }

    /// Places behind the last one in use are given back once most are free.
    fn shrink(&mut self) {
        let all = &self.all;
        let is_used = |at: usize| all[at].used;
        let Some(used) = self.shrink.keep(FEW, self.len, all.len(), is_used) else {
            return;
        };
        self.all.truncate(used);
        self.all.shrink_to_fit();
        self.free.retain(|index| (*index as usize) < used);
        // These have room for all of them.
        self.free.shrink_to(used);
        self.touched.shrink_to(used);
        self.keys.shrink(2 * used);
        self.badges.shrink(used);
        self.interests.shrink(used);
    }
}

/// May this be told to the event server in an interest's name?
fn tell<S: Server>(
    server: &mut S,
    cx: &mut Context,
    (interest, watcher): (u64, Id),
    ready: u64,
    how: u64,
) -> i64 {
    let words = [event::TELL, interest, watcher as u64, ready, how, 0, 0, 0];
    server.event(cx, &words)
}

impl<S: Server> Core<S> {
    fn readiness(&mut self, server: &mut S, cx: &mut Context, badge: u64) -> Answer<Readiness> {
        let handle = self.handles.get(badge).ok_or(Failure::Errno(EBADF))?;
        server.poll(cx, handle)
    }

    pub fn watch<'a>(
        &'a mut self,
        server: &mut S,
        cx: &mut Context,
        watches: &mut Watches,
    ) -> Answer<Reply<'a>> {
        let [_, interest, wanted, ..] = cx.request.words;
        let (badge, watcher) = (cx.request.badge, cx.request.sender);
        let handle = self.handle(cx.request)?;
        if handle.flags & o::PATH != 0 {
            return Err(Failure::Errno(EBADF));
        }
        let node = handle.node;
        server.watched(cx, node, interest)?;
        let readiness = self.readiness(server, cx, badge)?;
        let ready = readiness.ready & (wanted | ALWAYS);
        if watches.len >= watches.many {
            sweep(server, cx, watches);
        }
        // The first telling also finds out whether the interest is the caller's.
        let answer = tell(server, cx, (interest, watcher), ready, told::AGAIN);
        if answer < 0 {
            return Err(Failure::Errno(-answer));
        }
        // It is the caller's, and the only one in its place. It is in one file: two sets that it was in could lie in each other, and wake each other for ever.
        let new = Watch {
            badge,
            interest,
            watcher,
            wanted,
            keys: readiness.keys,
            told: ready,
            touched: 0,
            at: 0,
            used: true,
        };
        if watches.renew(cx.later, new) {
            Ok(Reply::result(ready as i64))
        } else {
            tell(server, cx, (interest, watcher), 0, told::GONE);
            Err(Failure::Errno(ENOSPC))
        }
    }
}

/// Drop watches whose interests are gone, among some of all.
#[cold]
fn sweep<S: Server>(server: &mut S, cx: &mut Context, watches: &mut Watches) {
    // Until all were asked for.
    watches.many = 0;
    for _ in 0..ASKS {
        let mut words = [event::ALIVE, 0, 0, 0, 0, 0, 0, 0];
        let mut asked = [0; ASKED];
        let mut count = 0;
        while count < ASKED && watches.asked < watches.all.len() {
            if watches.all[watches.asked].used {
                asked[count] = watches.asked as u32;
                words[1 + count] = watches.all[watches.asked].interest;
                count += 1;
            }
            watches.asked += 1;
        }
        let alive = server.event(cx, &words);
        for (bit, &index) in asked[..count].iter().enumerate() {
            if alive >= 0 && alive >> bit & 1 == 0 {
                watches.remove(cx.later, index);
            }
        }
        if watches.asked >= watches.all.len() {
            watches.asked = 0;
            watches.many = (2 * watches.len).max(FEW);
            return;
        }
    }
}

/// Exclusive ones go on already for these keys.
type Served = Vec<[u64; 2]>;

impl<S: Server> Core<S> {
    /// Look at a watch that was touched so, and tell the event server what has changed.
    fn look(
        &mut self,
        server: &mut S,
        (transport, later): (&mut dyn Transport, &mut Later),
        watches: &mut Watches,
        (index, touched): (u32, u8),
        served: &mut Served,
    ) {
        let watch = &watches.all[index as usize];
        let (badge, wanted, before) = (watch.badge, watch.wanted, watch.told);
        let name = (watch.interest, watch.watcher);
        // Who watches may matter (a signal descriptor).
        let mut parked = NOBODY;
        parked.request.sender = name.1;
        let mut cx = crate::event::context(transport, later, &parked);
        if self.handles.get(badge).is_none() {
            return end(server, &mut cx, watches, index);
        }
        let readiness = match self.readiness(server, &mut cx, badge) {
            Ok(readiness) => readiness,
            Err(_) => Readiness {
                ready: poll::ERR,
                keys: [0; 2],
            },
        };
        watches.set_keys(cx.later, index, readiness.keys);
        let ready = readiness.ready & (wanted | ALWAYS);
        let again = wanted & flags::EDGE != 0
            && (touched & 1 != 0 && ready & INPUT != 0 || touched & 2 != 0 && ready & OUTPUT != 0);
        let rises = again || ready & !before != 0;
        let exclusive = wanted & flags::EXCLUSIVE != 0;
        if ready == before && !rises || exclusive && rises && served.contains(&readiness.keys) {
            return;
        }
        watches.all[index as usize].told = ready;
        let how = if rises { told::AGAIN } else { 0 };
        let answer = tell(server, &mut cx, name, ready, how);
        if answer < 0 {
            watches.remove(cx.later, index);
        } else if answer == 1 && exclusive {
            served.push(readiness.keys);
        }
    }

    /// A piece of what is left of closed handles' watches, and of those that were touched. False: nothing is left.
    pub(crate) fn some_watches(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        watches: &mut Watches,
    ) -> bool {
        if !watches.has_some_left() {
            return false;
        }
        let mut served = Served::new();
        for _ in 0..PIECE {
            let (transport, later) = (&mut *cx.transport, &mut *cx.later);
            if let Some(&badge) = watches.closed.last() {
                match watches.badges.first(badge) {
                    Some(index) => {
                        let mut cx = crate::event::context(transport, later, &NOBODY);
                        end(server, &mut cx, watches, index);
                    }
                    None => {
                        watches.closed.pop();
                        watches.shrink();
                    }
                }
            } else if let Some(touched) = watches.next_left() {
                self.look(server, (transport, later), watches, touched, &mut served);
            }
        }
        true
    }
}

/// The watch's handle is closed: whoever watches it hears so.
fn end<S: Server>(server: &mut S, cx: &mut Context, watches: &mut Watches, index: u32) {
    let watch = &watches.all[index as usize];
    let name = (watch.interest, watch.watcher);
    watches.remove(cx.later, index);
    tell(server, cx, name, 0, told::GONE);
}

impl<S: Server> Manager<S> {
    /// Look at the watches that were touched, and tell the event server what has changed.
    #[inline(never)]
    pub(crate) fn tell(&mut self, server: &mut S, transport: &mut dyn Transport) {
        self.tell_of(TOLD, server, transport);
    }

    /// The same after a pulse, which has nobody's priority.
    pub(crate) fn tell_after_pulse(&mut self, server: &mut S, transport: &mut dyn Transport) {
        if self.waiting.busy() && self.waiting.watches.touched() {
            self.tell_of(PIECE, server, transport);
        }
    }

    fn tell_of(&mut self, most: usize, server: &mut S, transport: &mut dyn Transport) {
        let mut served = Served::new();
        for count in 0.. {
            let watches = &mut self.waiting.watches;
            if count >= most && watches.touched() && watches.leave(transport) {
                return;
            }
            let Some(touched) = self.waiting.next_touched() else {
                return;
            };
            let (watches, later) = (&mut self.waiting.watches, &mut self.waiting.later);
            self.core
                .look(server, (transport, later), watches, touched, &mut served);
        }
    }

    /// A handle is closed: whoever watches it hears so.
    pub(crate) fn end_watches(
        &mut self,
        server: &mut S,
        transport: &mut dyn Transport,
        badge: u64,
    ) {
        let (watches, later) = (&mut self.waiting.watches, &mut self.waiting.later);
        for count in 0.. {
            let Some(index) = watches.badges.first(badge) else {
                break;
            };
            if count >= PIECE && watches.leave_closed(transport, badge) {
                return;
            }
            let mut cx = crate::event::context(transport, later, &NOBODY);
            end(server, &mut cx, watches, index);
        }
        watches.shrink();
    }
}

/// A manager without an event server: nothing of it can be watched.
pub(crate) const NO_EVENTS: i64 = -ENOSYS;
