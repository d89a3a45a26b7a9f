//! Sets, timers, descriptors of signals and processes, and queues of notices for the framework. What the framework asks the event server is answered here as
//! well: a set can be watched like any other file.

use crate::contexts::Contexts;
use crate::lives::Lives;
use crate::queues::Queues;
use crate::sets::{self, Sets, Wish};
use crate::signallers::Signallers;
use crate::timer::{Coming, Timer};
use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::event::{self, object};
use cairn_idl::fs::{kind, o, poll, s, NAME_MAX};
use cairn_resmgr::server::Answer;
use cairn_resmgr::transport::FOLLOWED;
use cairn_resmgr::{
    Context, Data, Direct, Failure, Handle, Handles, Later, Meta, Opened, Readiness, Server,
};
use cairn_rt::channel::Reply;
use cairn_rt::Received;

/// `struct epoll_event`.
const EVENT: usize = 12;
/// Most events of one answer: others wait so long.
const EVENTS_MAX: usize = 16 * 1024;
/// Events that are written at once.
const EVENTS_AT_ONCE: usize = 1024;

const FIONREAD: u64 = 0x541b;

/// Most processes of which a signal descriptor remembers what waits in them.
const TELLERS_MAX: usize = 1024;

/// What is charged for a timer, a signal descriptor, and a process that it remembers.
const TIMER_COST: usize = size_of::<Timer>() + 32;
const SIGNALS_COST: usize = size_of::<Signals>() + 4;
const TELLER_COST: usize = 16;

/// What a handle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A mount portal, by its badge.
    Root(u64),
    Set(u32),
    Timer(u32),
    Signals(u32),
    Queue(u32),
    Process(u32),
    Context(u32),
}

#[derive(Default)]
struct Signals {
    mask: u64,
    /// What waits in which process, as far as it says.
    waiting: Vec<(Id, u64)>,
    payer: u32,
}

impl Signals {
    fn place(&self, id: Id) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&id, |teller| teller.0)
    }

    fn of(&self, id: Id) -> u64 {
        self.place(id).map_or(0, |at| self.waiting[at].1)
    }
}

/// Bits of TIMER_SET's w3.
const ABSOLUTE: u64 = 1;
const CANCELS: u64 = 2;
/// Most bytes that one INTERESTS tells.
const TOLD_MOST: usize = 4096;
/// Timers that expire when their time comes, and in a piece of what is left.
const AT_ONCE: usize = 4;
const AT_A_TIME: usize = 64;
/// ns that a clock may have been slewed by.
const SAME: u64 = 100_000;

#[derive(Default)]
pub struct Events {
    pub sets: Sets,
    pub queues: Queues,
    pub lives: Lives,
    pub contexts: Contexts,
    pub signallers: Signallers,
    timers: Vec<Timer>,
    free_timers: Vec<u32>,
    /// The background is at timers whose time has come.
    is_late: bool,
    /// Timers that have not expired, by their time.
    coming: Coming,
    signals: Vec<Signals>,
    free_signals: Vec<u32>,
    scratch: Vec<u8>,
    /// How long leases last, once it was set.
    lease_seconds: Option<u32>,
    /// The real-time clock at monotonic time 0, as it was when absolute times were last reckoned by it.
    began: u64,
}

fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

fn key(node: Node) -> u64 {
    match node {
        Node::Root(_) => 0,
        Node::Set(index) => (index as u64) << 3 | 1,
        Node::Timer(index) => (index as u64) << 3 | 2,
        Node::Signals(index) => (index as u64) << 3 | 3,
        Node::Queue(index) => (index as u64) << 3 | 4,
        Node::Process(index) => (index as u64) << 3 | 5,
        Node::Context(index) => (index as u64) << 3 | 6,
    }
}

/// Which of the six numbers that ALIVE and MARKS ask for are still there, as bits.
fn which(words: &[u64; 8], mut is_there: impl FnMut(u64) -> bool) -> i64 {
    let asked = words[1..7].iter().enumerate();
    asked.fold(0, |bits, (at, number)| {
        bits | i64::from(is_there(*number)) << at
    })
}

/// A place in a table of default values.
fn place<T: Default>(table: &mut Vec<T>, free: &mut Vec<u32>) -> Answer<u32> {
    if let Some(index) = free.pop() {
        table[index as usize] = T::default();
        return Ok(index);
    }
    let count = table.len() + 1;
    if table.try_reserve(1).is_err() || free.try_reserve(count).is_err() {
        return fail(ENOMEM);
    }
    table.push(T::default());
    Ok(count as u32 - 1)
}

impl Events {
    fn node(cx: &Context, handles: &mut Handles<Self>) -> Answer<Node> {
        match handles.get(cx.request.badge) {
            // It keeps nothing: the object may be gone, and its place another's.
            Some(handle) if handle.flags & o::PATH != 0 => fail(EBADF),
            Some(handle) => Ok(handle.node),
            None if cx.request.badge >> 32 == 0 => Ok(Node::Root(cx.request.badge)),
            None => fail(EBADF),
        }
    }

    /// A handle, for which there is room.
    fn make<'a>(
        cx: &mut Context,
        node: Node,
        flags: u64,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let mode = match node {
            Node::Queue(_) => o::RDONLY,
            _ => o::RDWR,
        };
        let kind = match node {
            Node::Root(_) => 0,
            Node::Set(_) => object::SET,
            Node::Timer(_) => object::TIMER,
            Node::Signals(_) => object::SIGNALS,
            Node::Queue(_) => object::NOTICES,
            Node::Process(_) => object::PROCESS,
            Node::Context(_) => object::CONTEXT,
        };
        let badge = handles.insert(cx, node, mode | flags & o::NONBLOCK, kind, ())?;
        Ok(Reply::new(&[0]).mint(badge))
    }

    /// Processes of which signal descriptors remember something.
    pub fn tellers(&self) -> usize {
        self.signals
            .iter()
            .map(|signals| signals.waiting.len())
            .sum()
    }

    /// May the set of this CTL have one interest more than before?
    #[inline]
    fn adds(request: &Received) -> bool {
        request.words[1] as u32 as u64 == sets::ADD
    }

    fn change(
        &mut self,
        request: &Received,
        set: u32,
        mut wake: impl FnMut(u64),
    ) -> Result<(u64, bool), i64> {
        let [_, what, file, events, data, ..] = request.words;
        let wish = Wish {
            fd: (what >> 32) as u32,
            file,
            events,
            data,
            maker: request.sender,
        };
        let changed = self.sets.change(set, what as u32 as u64, &wish)?;
        if changed.1 && self.sets.has_ready(set) {
            // Nobody will tell what it is ready for: it is known.
            wake(key(Node::Set(set)));
        }
        Ok(changed)
    }

    /// At most so many events in the words of an answer; if there are more than fit, none.
    fn collect_words(&mut self, set: u32, most: usize) -> [u64; 6] {
        let mut words = [0; 6];
        let mut count = 0;
        for event in self.sets.look(set).take(most) {
            let (bits, data) = (event.bits as u64, event.data);
            match count {
                0 => (words[1], words[2]) = (bits, data),
                1 => (words[1], words[3]) = (words[1] | bits << 32, data),
                2 => (words[4], words[5]) = (bits, data),
                _ => return [event::MORE, 0, 0, 0, 0, 0],
            }
            count += 1;
        }
        self.sets.reported(set, count);
        words[0] = (count * EVENT) as u64;
        words
    }

    fn wait<'a>(&mut self, cx: &mut Context, set: u32) -> Answer<Reply<'a>> {
        let [_, most, wait, ..] = cx.request.words;
        if !self.sets.has_ready(set) && wait != 0 {
            if cx.progress == 0 {
                cx.progress = set as u64 + 1;
                self.sets.begin_wait(set);
            }
            return Err(Failure::Wait(key(Node::Set(set))));
        }
        if cx.progress != 0 {
            self.sets.end_wait(set);
        }
        let answer = self.collect(cx, set, most as usize);
        answer.map(|words| Reply::new(&words))
    }

    fn collect(&mut self, cx: &mut Context, set: u32, most: usize) -> Answer<[u64; 6]> {
        if cx.request.in_len == 0 {
            return Ok(self.collect_words(set, most));
        }
        let most = most.min(cx.request.in_len / EVENT).min(EVENTS_MAX);
        // What was reported and stays is behind the others: nothing is reported twice.
        let ready = self.sets.look(set).take(most).count();
        let mut count = 0;
        while count < ready {
            let now = (ready - count).min(EVENTS_AT_ONCE);
            self.scratch.clear();
            for event in self.sets.look(set).take(now) {
                self.scratch.extend_from_slice(&event.bits.to_le_bytes());
                self.scratch.extend_from_slice(&event.data.to_le_bytes());
            }
            // Nothing is reported that does not arrive.
            match cx.store(count * EVENT, &self.scratch) {
                Err(_) if count > 0 => break,
                stored => stored?,
            }
            self.sets.reported(set, now);
            count += now;
        }
        Ok([(count * EVENT) as u64, 0, 0, 0, 0, 0])
    }

    fn told(&mut self, words: &[u64; 8], mut wake: impl FnMut(u64)) -> i64 {
        let [operation, number, watcher, ready, how, ..] = *words;
        if operation != event::TELL {
            return which(words, |number| self.sets.is_alive(number));
        }
        match self.sets.tell(number, watcher as Id, ready, how) {
            Ok((set, true)) => {
                wake(key(Node::Set(set)));
                self.sets.has_waiters(set) as i64
            }
            Ok((set, false)) => {
                if !self.sets.has_ready(set) {
                    // What watches this set is to know.
                    wake(key(Node::Set(set)));
                }
                0
            }
            Err(number) => -number,
        }
    }

    /// The same where signals may come of it.
    fn told_all(&mut self, cx: &mut Context, words: &[u64; 8]) -> i64 {
        let signaller = match words[0] {
            event::TELL => self.sets.signaller_of(words[1]),
            _ => None,
        };
        let answer = self.told(words, |key| cx.wake(key));
        if let Some((set, at)) = signaller.filter(|_| answer >= 0) {
            let event = self.sets.look(set).next();
            self.sets.reported(set, event.is_some().into());
            self.signallers.told(cx, at, event);
        }
        answer
    }

    /// What files' servers say of marks.
    fn noticed(&mut self, cx: &mut Context) -> i64 {
        let words = cx.request.words;
        if words[0] == event::MARKS {
            return which(&words, |number| self.queues.is_there(number));
        }
        if words[0] == event::MARKED {
            let marked = self.queues.marked(cx, &words);
            return marked.unwrap_or_else(|number| -number);
        }
        let mut name = [0; NAME_MAX];
        let length = cx.request.out_len;
        let Some(name) = name.get_mut(..length) else {
            return -ENAMETOOLONG;
        };
        if cx.fetch(0, name).is_err() {
            return -EFAULT;
        }
        match self.queues.notice(cx, &words, name) {
            Ok(Some(queue)) => {
                match self.queues.signaller(queue) {
                    Some(signaller) => self.signallers.notified(cx, signaller),
                    None => cx.wake(key(Node::Queue(queue))),
                }
                // The mark may have gone by this.
                match self.queues.is_there(words[1]) {
                    true => 0,
                    false => -ESTALE,
                }
            }
            Ok(None) => 0,
            Err(number) => -number,
        }
    }

    fn next_alarm(&self, cx: &mut Context) {
        let first = self.coming.first().filter(|_| !self.is_late);
        cx.wake_at(first.map(|(at, _)| at));
    }

    /// Some timers whose time has come. Are there more?
    fn some_expire(&mut self, cx: &mut Context, most: usize) -> bool {
        let now = cx.transport.monotonic();
        for left in (0..=most).rev() {
            match self.coming.first() {
                Some((at, index)) if at <= now => {
                    if left == 0 {
                        return true;
                    }
                    self.coming.set(index, 0);
                    cx.wake(key(Node::Timer(index)));
                }
                _ => break,
            }
        }
        false
    }

    fn set_timer<'a>(&mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        let [_, value, interval, absolute, ..] = cx.request.words;
        let now = cx.transport.monotonic();
        self.clock_set(cx);
        let began = self.began;
        let timer = &mut self.timers[index as usize];
        let old = *timer;
        let next = match (value, absolute) {
            (0, _) => 0,
            (value, 0) => now.saturating_add(value),
            (value, how) if how & ABSOLUTE != 0 && old.real => value.saturating_sub(began).max(1),
            (value, _) => value,
        };
        (timer.next, timer.interval) = (next, interval);
        timer.follows = old.real && absolute & ABSOLUTE != 0;
        timer.cancels = timer.follows && absolute & CANCELS != 0;
        timer.cancelled = false;
        timer.how = (absolute & (ABSOLUTE | CANCELS)) as u8;
        self.coming.set(index, next);
        self.next_alarm(cx);
        cx.wake(key(Node::Timer(index)));
        Ok(Reply::new(&[0, old.left(now), old.interval]))
    }

    /// CLOCK_SET, and before a time of the real-time clock is reckoned.
    fn clock_set(&mut self, cx: &mut Context) {
        let began = cx.transport.wall();
        let before = core::mem::replace(&mut self.began, began);
        if before == 0 {
            return;
        }
        // (A clock that is only slewed was not set.)
        if before.abs_diff(began) < SAME {
            self.began = before;
            return;
        }
        for (index, timer) in self.timers.iter_mut().enumerate() {
            if !timer.follows {
                continue;
            }
            let index = index as u32;
            if timer.cancels {
                timer.cancelled = true;
            }
            if timer.next != 0 {
                timer.next = timer
                    .next
                    .saturating_add(before)
                    .saturating_sub(began)
                    .max(1);
                self.coming.set(index, timer.next);
            }
            cx.wake(key(Node::Timer(index)));
        }
        self.next_alarm(cx);
    }

    fn signal_waits(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let [_, waiting, ..] = cx.request.words;
        let signals = &mut self.signals[index as usize];
        let sender = cx.request.sender;
        let old = signals.of(sender);
        match (signals.place(sender), waiting) {
            (Ok(at), 0) => {
                signals.waiting.remove(at);
                cx.refund(signals.payer, TELLER_COST);
            }
            (Ok(at), _) => signals.waiting[at].1 = waiting,
            (Err(_), 0) => {}
            (Err(_), _) => {
                let room = signals.waiting.len() < TELLERS_MAX
                    && signals.waiting.try_reserve(1).is_ok()
                    && cx.charge(signals.payer, TELLER_COST).is_ok();
                // Nobody says when a process has ended: one is forgotten until it says something again.
                if !room && signals.waiting.pop().is_none() {
                    return fail(ENOMEM);
                }
                let at = signals.place(sender).unwrap_or_else(|at| at);
                signals.waiting.insert(at, (sender, waiting));
            }
        }
        if old != waiting {
            cx.wake(key(Node::Signals(index)));
        }
        Ok(())
    }
}

impl Server for Events {
    type Node = Node;
    type State = ();

    fn root(&mut self, badge: u64) -> Node {
        Node::Root(badge)
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        Ok(match node {
            Node::Root(_) => Meta {
                mode: s::IFDIR | 0o555,
                ino: 1,
                ..Meta::default()
            },
            node => Meta {
                mode: 0o600,
                ino: key(node),
                ..Meta::default()
            },
        })
    }

    fn label(&mut self, node: Node, into: &mut [u8]) -> Option<usize> {
        let name: &[u8] = match node {
            Node::Root(_) => return None,
            Node::Set(_) => b"anon_inode:[eventpoll]",
            Node::Timer(_) => b"anon_inode:[timerfd]",
            Node::Signals(_) => b"anon_inode:[signalfd]",
            Node::Queue(_) => b"anon_inode:inotify",
            Node::Process(_) => b"anon_inode:[pidfd]",
            Node::Context(_) => b"anon_inode:[fscontext]",
        };
        into.get_mut(..name.len())?.copy_from_slice(name);
        Some(name.len())
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let index = match handle.node {
            Node::Timer(index) => index,
            Node::Queue(index) if self.queues.bytes(index) == 0 => {
                return Err(Failure::Wait(key(handle.node)));
            }
            Node::Queue(index) => {
                let found = self.queues.look(index, length, &mut self.scratch);
                let records = found.map_err(Failure::Errno)?;
                cx.store(0, &self.scratch)?;
                self.queues.take(cx, index, records);
                return Ok(Data::stored(self.scratch.len()));
            }
            _ => return fail(EINVAL),
        };
        if length < 8 {
            return fail(EINVAL);
        }
        let now = cx.transport.monotonic();
        let timer = &mut self.timers[index as usize];
        if core::mem::take(&mut timer.cancelled) {
            return fail(ECANCELED);
        }
        let count = timer.expired(now);
        if count == 0 {
            return Err(Failure::Wait(key(handle.node)));
        }
        cx.store(0, &count.to_le_bytes())?;
        timer.take(count);
        if timer.next != 0 {
            self.coming.set(index, timer.next);
        }
        self.next_alarm(cx);
        Ok(Data::stored(8))
    }

    fn write(&mut self, _: &mut Context, _: &mut Handle<Self>, _: u64, _: usize) -> Answer<usize> {
        fail(EINVAL)
    }

    /// Timers whose time has come. (This goes before all programs, so if there are many the rest does not.)
    fn tick(&mut self, cx: &mut Context) {
        let more = self.some_expire(cx, AT_ONCE);
        self.is_late = cx.leave(more, |cx| self.some_expire(cx, AT_A_TIME));
        self.next_alarm(cx);
    }

    fn background(&mut self, cx: &mut Context) -> bool {
        if self.is_late {
            self.is_late = self.some_expire(cx, AT_A_TIME);
            self.next_alarm(cx);
            return true;
        }
        !(self.sets.some_go(cx) & self.queues.some_go(cx))
    }

    fn poll(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<Readiness> {
        let ready = match handle.node {
            Node::Root(_) => false,
            Node::Set(index) => self.sets.has_ready(index),
            Node::Timer(index) => {
                let now = cx.transport.monotonic();
                let timer = &self.timers[index as usize];
                timer.cancelled || timer.has_expired(now)
            }
            Node::Signals(index) => {
                let signals = &self.signals[index as usize];
                signals.of(cx.request.sender) & signals.mask != 0
            }
            Node::Queue(index) => self.queues.bytes(index) != 0,
            Node::Process(index) => self.lives.has_ended(index),
            // Messages do not make it readable, as on Linux, which says it always is.
            Node::Context(_) => {
                return Ok(Readiness {
                    ready: poll::IN | poll::RDNORM | poll::OUT | poll::WRNORM,
                    keys: [key(handle.node); 2],
                })
            }
        };
        Ok(Readiness {
            ready: if ready { poll::IN | poll::RDNORM } else { 0 },
            keys: [key(handle.node); 2],
        })
    }

    fn ioctl<'a>(
        &'a mut self,
        _: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        _: u64,
    ) -> Answer<Reply<'a>> {
        match (request, handle.node) {
            (FIONREAD, Node::Queue(index)) => {
                let count = self.queues.bytes(index) as u32;
                self.scratch.clear();
                self.scratch.extend_from_slice(&count.to_le_bytes());
                Ok(Reply::result(0).data(&self.scratch))
            }
            _ => fail(ENOTTY),
        }
    }

    /// Nothing of it is opened a second time, through /proc/self/fd: an object goes with its one handle.
    fn open(&mut self, _: &mut Context, node: Node, _: u64, _: &mut ()) -> Answer<Opened<Node>> {
        match node {
            Node::Root(_) => Ok(Opened {
                node,
                kind: kind::DIRECTORY,
            }),
            _ => fail(ENXIO),
        }
    }

    fn watched(&mut self, cx: &mut Context, node: Node, interest: u64) -> Answer<()> {
        match node {
            Node::Set(inner) => {
                let nested = self.sets.nest(interest, cx.request.sender, inner);
                nested.map_err(Failure::Errno)
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, cx: &mut Context, words: &[u64; 8]) -> i64 {
        self.told_all(cx, words)
    }

    fn special_direct(
        &mut self,
        node: Option<Node>,
        request: &mut Received,
        later: &mut Later,
    ) -> Direct {
        let [operation, most, wait, ..] = request.words;
        match (operation, node) {
            (event::TELL, None)
                if request.badge == event::SERVER && self.sets.signaller_of(most).is_none() =>
            {
                request.words[0] = self.told(&request.words, |key| later.wake(key)) as u64;
            }
            (event::WAIT, Some(Node::Set(set))) if wait == 0 || self.sets.has_ready(set) => {
                let words = self.collect_words(set, most as usize);
                request.words[..6].copy_from_slice(&words);
            }
            (event::CTL, Some(Node::Set(set)))
                if !(Events::adds(request) && self.sets.is_full(set)) =>
            {
                match self.change(request, set, |key| later.wake(key)) {
                    Ok((number, known)) => {
                        request.words[..3].copy_from_slice(&[0, number, known as u64])
                    }
                    Err(error) => request.words[0] = -error as u64,
                }
            }
            _ => return Direct::Ordinary,
        }
        Direct::Done(0)
    }

    fn cancelled(&mut self, cx: &mut Context) {
        if let (event::WAIT, 1..) = (cx.request.words[0], cx.progress) {
            self.sets.end_wait((cx.progress - 1) as u32);
        }
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        if handle.flags & o::PATH != 0 {
            return;
        }
        match handle.node {
            Node::Root(_) => {}
            Node::Set(index) => {
                if let Some(signaller) = self.sets.signaller(index) {
                    self.signallers.remove(cx, signaller);
                }
                let gone = self.sets.remove_set(cx, index);
                cx.leave(!gone, |cx| !self.sets.some_go(cx));
            }
            Node::Timer(index) => {
                let timer = core::mem::take(&mut self.timers[index as usize]);
                self.coming.set(index, 0);
                self.free_timers.push(index);
                cx.refund(timer.payer, TIMER_COST);
                self.next_alarm(cx);
            }
            Node::Signals(index) => {
                let gone = core::mem::take(&mut self.signals[index as usize]);
                self.free_signals.push(index);
                let tellers = gone.waiting.len() * TELLER_COST;
                cx.refund(gone.payer, SIGNALS_COST + tellers);
            }
            Node::Queue(index) => {
                if let Some(signaller) = self.queues.signaller(index) {
                    self.signallers.remove(cx, signaller);
                }
                let gone = self.queues.remove(cx, index);
                cx.leave(!gone, |cx| !self.queues.some_go(cx));
            }
            Node::Process(index) => self.lives.close(cx, index),
            Node::Context(index) => self.contexts.remove(cx, index),
        }
    }

    /// A process that is followed has ended.
    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        if pulse.badge >= FOLLOWED {
            let index = pulse.badge as u32;
            self.lives.ended(cx, index);
            cx.wake(key(Node::Process(index)));
        }
    }

    fn special<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let node = Events::node(cx, handles)?;
        let [operation, first, second, third, ..] = cx.request.words;
        match (operation, node) {
            (event::TELL | event::ALIVE, Node::Root(event::SERVER)) => {
                let words = cx.request.words;
                Ok(Reply::result(self.told_all(cx, &words)))
            }
            (event::TELL | event::ALIVE, _) => fail(EPERM),
            (event::LEASE_TIME, Node::Root(event::SERVER)) => {
                if first == 1 {
                    let seconds = i32::try_from(second).map_err(|_| Failure::Errno(EINVAL))?;
                    self.lease_seconds = Some(seconds as u32);
                }
                let seconds = self.lease_seconds.map_or(event::LEASE_SECONDS, u64::from);
                Ok(Reply::result(seconds as i64))
            }
            (event::LEASE_TIME, _) => fail(EPERM),
            (event::WAIT, Node::Set(set)) => self.wait(cx, set),
            (event::CTL, Node::Set(set)) => {
                if Events::adds(cx.request) && self.sets.is_full(set) {
                    self.sets.widen(cx, set)?;
                }
                let request = cx.request;
                let changed = self.change(request, set, |key| cx.wake(key));
                let (number, known) = changed.map_err(Failure::Errno)?;
                Ok(Reply::new(&[0, number, known as u64]))
            }
            (event::INTERESTS, Node::Set(set)) => {
                let most = cx.request.in_len.min(TOLD_MOST) / event::Told::BYTES;
                let mut bytes = [0; TOLD_MOST];
                let (count, next) = self.sets.told_of(set, first, most, |at, told| {
                    let place = at * event::Told::BYTES;
                    bytes[place..][..event::Told::BYTES].copy_from_slice(&told.to_bytes());
                });
                cx.store(0, &bytes[..count * event::Told::BYTES])?;
                Ok(Reply::new(&[count as u64, next]))
            }
            (event::WATCHES, Node::Queue(queue)) => {
                let most = cx.request.in_len.min(TOLD_MOST) / event::Seen::BYTES;
                let mut bytes = [0; TOLD_MOST];
                let (count, next) = self.queues.watches(queue, first, most, |at, seen| {
                    let place = at * event::Seen::BYTES;
                    bytes[place..][..event::Seen::BYTES].copy_from_slice(&seen.to_bytes());
                });
                cx.store(0, &bytes[..count * event::Seen::BYTES])?;
                Ok(Reply::new(&[count as u64, next]))
            }
            (event::SET, Node::Root(_)) => {
                handles.room(cx, 1)?;
                let set = self.sets.add_set(cx)?;
                Events::make(cx, Node::Set(set), 0, handles)
            }
            (event::SIGNALLER, Node::Root(_)) => {
                handles.room(cx, 1)?;
                let signaller = self.signallers.add(cx)?;
                let set = self.sets.add_set(cx);
                let Ok(set) = set else {
                    self.signallers.remove(cx, signaller);
                    return fail(ENOMEM);
                };
                self.sets.set_signaller(set, signaller);
                Events::make(cx, Node::Set(set), 0, handles)
            }
            (event::TIMER, Node::Root(_)) => {
                handles.room(cx, 1)?;
                // (A place that is not charged stays free.)
                let index = place(&mut self.timers, &mut self.free_timers)?;
                let payer = cx.payer();
                let room = self.coming.reserve(self.timers.len());
                if !room || cx.charge(payer, TIMER_COST).is_err() {
                    self.free_timers.push(index);
                    return fail(ENOMEM);
                }
                let timer = &mut self.timers[index as usize];
                (timer.real, timer.payer) = (second != 0, payer);
                timer.clock = third as u8;
                Events::make(cx, Node::Timer(index), first, handles)
            }
            (event::TIMER_SET, Node::Timer(index)) => self.set_timer(cx, index),
            (event::TIMER_GET, Node::Timer(index)) => {
                let now = cx.transport.monotonic();
                let timer = &self.timers[index as usize];
                let (clock, how) = (timer.clock.into(), timer.how.into());
                let ticks = timer.expired(now);
                Ok(Reply::new(&[
                    0,
                    timer.left(now),
                    timer.interval,
                    clock,
                    how,
                    ticks,
                ]))
            }
            (event::CLOCK_SET, Node::Root(_)) => {
                self.clock_set(cx);
                Ok(Reply::new(&[0]))
            }
            (event::SIGNALS, Node::Root(_)) => {
                handles.room(cx, 1)?;
                let index = place(&mut self.signals, &mut self.free_signals)?;
                let payer = cx.payer();
                if cx.charge(payer, SIGNALS_COST).is_err() {
                    self.free_signals.push(index);
                    return fail(ENOMEM);
                }
                let signals = &mut self.signals[index as usize];
                (signals.mask, signals.payer) = (first, payer);
                Events::make(cx, Node::Signals(index), second, handles)
            }
            (event::SIGNALS_MASK, Node::Signals(index)) => {
                let signals = &mut self.signals[index as usize];
                if first != 0 {
                    signals.mask = second;
                    cx.wake(key(node));
                }
                let handle = handles.get(cx.request.badge);
                let nonblocking = handle.is_some_and(|handle| handle.flags & o::NONBLOCK != 0);
                Ok(Reply::new(&[0, signals.mask, nonblocking as u64]))
            }
            (event::SIGNALS_NOW, Node::Signals(index)) => {
                self.signal_waits(cx, index)?;
                Ok(Reply::result(0))
            }
            (event::QUEUE, Node::Root(_)) => {
                handles.room(cx, 1)?;
                let queue = self.queues.add(cx, None).map_err(Failure::Errno)?;
                Events::make(cx, Node::Queue(queue), first, handles)
            }
            (event::MARK, Node::Queue(queue)) => {
                let number = self.queues.mark(cx, queue, (first, second));
                Ok(Reply::new(&[0, number.map_err(Failure::Errno)?]))
            }
            (event::UNMARK, Node::Queue(queue)) => {
                let gone = match first {
                    0 => self.queues.take_back(cx, queue, second),
                    2 if !self.queues.end_marks(cx, queue) => return Err(cx.goes_on()),
                    2 => Ok(()),
                    _ => self.queues.end_watch(cx, queue, second),
                };
                cx.wake(key(node));
                gone.map_err(Failure::Errno)?;
                Ok(Reply::result(0))
            }
            (event::MARKED | event::NOTICE | event::MARKS, Node::Root(event::SERVER)) => {
                Ok(Reply::result(self.noticed(cx)))
            }
            (event::MARKED | event::NOTICE | event::MARKS, _) => fail(EPERM),
            (event::PROCESS, Node::Root(_)) => {
                handles.room(cx, 1)?;
                let index = self.lives.open(cx, first, third).map_err(Failure::Errno)?;
                Events::make(cx, Node::Process(index), second, handles)
            }
            (event::PROCESS_LIFE, Node::Process(index)) => {
                let handle = handles.get(cx.request.badge);
                let nonblocking = handle.is_some_and(|handle| handle.flags & o::NONBLOCK != 0);
                Ok(Reply::new(&[0, self.lives.life(index), nonblocking as u64]))
            }
            (event::NOTIFIER, Node::Root(_)) => {
                handles.room(cx, 1)?;
                let signaller = self.signallers.add(cx)?;
                let queue = self.queues.add(cx, Some(signaller));
                let queue = queue.map_err(|number| {
                    self.signallers.remove(cx, signaller);
                    Failure::Errno(number)
                })?;
                Events::make(cx, Node::Queue(queue), 0, handles)
            }
            (event::NOTIFIER_OWNER, Node::Queue(queue)) => {
                let signaller = self.queues.signaller(queue);
                let at = signaller.ok_or(Failure::Errno(EINVAL))?;
                let changed = self.signallers.change(at, first, second);
                changed.map_err(Failure::Errno)?;
                Ok(Reply::result(0))
            }
            (event::CONTEXT, Node::Root(_)) => {
                handles.room(cx, 1)?;
                let index = self.contexts.add(cx).map_err(Failure::Errno)?;
                Events::make(cx, Node::Context(index), 0, handles)
            }
            (event::CONTEXT_TEXT, Node::Context(index)) if first == 0 => {
                let (text, version) = self.contexts.get(index).map_err(Failure::Errno)?;
                if cx.request.in_len < text.len() {
                    return fail(ERANGE);
                }
                Ok(Reply::new(&[text.len() as u64, version]).data(text))
            }
            (event::CONTEXT_TEXT, Node::Context(index)) => {
                let version = self.contexts.set(cx, index, second);
                Ok(Reply::new(&[0, version.map_err(Failure::Errno)?]))
            }
            (event::SET..=event::SIGNALLER | event::CONTEXT..=event::WATCHES, _) => fail(EINVAL),
            _ => fail(ENOSYS),
        }
    }
}
