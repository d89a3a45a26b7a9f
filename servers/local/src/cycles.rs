//! Sockets that are on their way in each other's queues, and that nobody can receive any more, are found and their queues emptied; then their portals close, and they end in the ordinary way.
//!
//! A round marks what is in use: sockets that somebody holds (the nucleus tells how many table entries lead to a socket; more than lie in queues here), and what lies in the queues of marked ones, from one to the next. What is on its way and not marked after that is garbage.
//! A round works in small shares in the background, where others are served between. What is sent or received meanwhile is marked as it goes
//! ([`Sockets::in_use`]), so no share need know what the last one saw. Nothing tells this server that somebody closes a socket that is also on its way, so
//! there is a round now and then as long as sockets are on their way.

use crate::server::Sockets;
use crate::socket::State;
use alloc::vec::Vec;
use cairn_resmgr::{Context, Leads, Transport};
use cairn_rt::Portal;

/// Sockets looked at in one share.
const SHARE: u32 = 64;
/// Between rounds, ns.
const PAUSE: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Rest,
    /// Marking; sockets from this one on have not been looked at.
    Mark(u32),
    /// Looking for those without a mark, behind this one.
    Sweep(u32),
}

#[derive(Default)]
pub struct Cycles {
    round: u64,
    phase: Phase,
    /// Marked, and what lies in their queues is not yet.
    grey: Vec<u32>,
    /// When the next round begins.
    next: u64,
    /// Sockets whose queues were emptied, ever.
    pub freed: u64,
}

impl Cycles {
    /// A round should begin soon.
    pub fn want(&mut self) {
        self.next = 0;
    }
}

impl Sockets {
    /// The socket is somebody's, or lies in a queue that may be.
    #[inline]
    pub(crate) fn in_use(&mut self, index: u32) {
        if self.cycles.phase != Phase::Rest {
            self.mark(index);
        }
    }

    fn mark(&mut self, index: u32) {
        let round = self.cycles.round;
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        if socket.seen == round {
            return;
        }
        if self.cycles.grey.try_reserve(1).is_err() {
            // Without room to remember it this round can say nothing.
            self.cycles.phase = Phase::Rest;
            return;
        }
        socket.seen = round;
        self.cycles.grey.push(index);
    }

    /// Somebody has a portal to the socket, beside those in queues.
    fn is_held(&self, transport: &mut dyn Transport, index: u32) -> bool {
        let Some(socket) = self.sockets.get(index) else {
            return false;
        };
        if let Some(listener) = socket.embryo_of {
            return self.is_held(transport, listener);
        }
        let mut slots = self.in_flight.sockets.range((index, 0)..=(index, u32::MAX));
        let Some(&(_, slot)) = slots.next() else {
            return true;
        };
        match transport.leads_to(Portal(slot)) {
            Leads::Own { holders, .. } => holders > u64::from(socket.in_flight),
            _ => true,
        }
    }

    /// What lies in the queues of a marked socket is marked.
    fn follow(&mut self, index: u32) {
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        let mut queues = Vec::new();
        if let State::Listening { waiting, .. } = &socket.state {
            if queues.try_reserve_exact(waiting.len()).is_err() {
                self.cycles.phase = Phase::Rest;
                return;
            }
            queues.extend(waiting.iter().copied());
        }
        let mut at = 0;
        let mut queue = index;
        loop {
            let mut segment = 0;
            while let Some(rights) = self.rights_at(queue, segment) {
                for right in 0..rights {
                    let found = self.sockets.get(queue);
                    let passed = found.and_then(|s| s.queue.segments[segment].rights[right].socket);
                    passed.into_iter().for_each(|socket| self.mark(socket));
                }
                segment += 1;
            }
            match queues.get(at) {
                Some(&next) => queue = next,
                None => return,
            }
            at += 1;
        }
    }

    fn rights_at(&self, queue: u32, segment: usize) -> Option<usize> {
        let queue = &self.sockets.get(queue)?.queue;
        Some(queue.segments.get(segment)?.rights.len())
    }

    /// A share of the work, if it is time; when the next one is due.
    pub(crate) fn find_cycles(&mut self, cx: &mut Context) -> Option<u64> {
        if self.cycles.phase == Phase::Rest {
            if self.in_flight.sockets.is_empty() {
                return None;
            }
            let now = cx.transport.monotonic();
            if now < self.cycles.next {
                return Some(self.cycles.next);
            }
            self.cycles.round += 1;
            self.cycles.grey.clear();
            self.cycles.phase = Phase::Mark(0);
        }
        for _ in 0..SHARE {
            self.find_further(cx);
            if self.cycles.phase == Phase::Rest {
                let now = cx.transport.monotonic();
                self.cycles.next = now + PAUSE;
                return (!self.in_flight.sockets.is_empty()).then_some(self.cycles.next);
            }
        }
        Some(0)
    }

    /// Is a round under way, or to begin?
    pub(crate) fn are_cycles_due(&self, cx: &mut Context) -> bool {
        let waits = !self.in_flight.sockets.is_empty();
        self.cycles.phase != Phase::Rest || waits && self.cycles.next <= cx.transport.monotonic()
    }

    /// When there should be a look, if none is under way.
    pub(crate) fn find_cycles_later(&mut self, cx: &mut Context) -> Option<u64> {
        if self.cycles.phase != Phase::Rest {
            return None;
        }
        let now = cx.transport.monotonic();
        Some(self.cycles.next.max(now))
    }

    fn find_further(&mut self, cx: &mut Context) {
        if let Some(marked) = self.cycles.grey.pop() {
            return self.follow(marked);
        }
        match self.cycles.phase {
            Phase::Rest => {}
            Phase::Mark(at) if at < self.sockets.end() => {
                self.cycles.phase = Phase::Mark(at + 1);
                let carries = self.sockets.get(at).is_some_and(|socket| {
                    socket.seen != self.cycles.round && !socket.queue.is_empty()
                });
                if carries && self.is_held(cx.transport, at) {
                    self.mark(at);
                }
            }
            Phase::Mark(_) => self.cycles.phase = Phase::Sweep(0),
            Phase::Sweep(from) => {
                let found = self.in_flight.sockets.range((from, 0)..).next().copied();
                let Some((index, _)) = found else {
                    self.cycles.phase = Phase::Rest;
                    return;
                };
                self.cycles.phase = Phase::Sweep(index + 1);
                let seen = self
                    .sockets
                    .get(index)
                    .is_none_or(|s| s.seen == self.cycles.round);
                if seen {
                    return;
                }
                match self.is_held(cx.transport, index) {
                    true => self.mark(index),
                    false => self.empty(cx, index),
                }
            }
        }
    }

    /// Nobody can receive what lies there.
    fn empty(&mut self, cx: &mut Context, index: u32) {
        let mut queues = Vec::new();
        let mut room = queues.try_reserve(1);
        if let Some(State::Listening { waiting, .. }) = self.sockets.get(index).map(|s| &s.state) {
            room = queues.try_reserve_exact(waiting.len() + 1);
            if room.is_ok() {
                queues.extend(waiting.iter().copied());
            }
        }
        if room.is_err() {
            // Another round finds it again.
            self.cycles.phase = Phase::Rest;
            return;
        }
        queues.push(index);
        self.cycles.freed += 1;
        for queue in queues {
            let Some(socket) = self.sockets.get_mut(queue) else {
                continue;
            };
            for segment in socket.queue.clear(&mut self.buffers) {
                // Those without a mark are garbage as well, and stay so.
                self.unqueued_unmarked(&segment.rights);
                self.drop_rights(cx, &segment.rights);
            }
            self.unpay(cx, queue);
        }
    }
}
