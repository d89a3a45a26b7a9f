//! Pulses: small messages that need no memory, because every source carries its own node.
//!
//! Sources are portals (NOTIFY, CLOSED), callers (UNBLOCK, GONE), interrupt bindings, domains (DEATH) and members of partitions (MEMBER). A channel's pulse queue is a
//! doubly linked list through these objects. What always holds: a node is in at most one queue, that of the channel in its [`PulseLink`].

use crate::arch::Arch;
use crate::pool::{ChannelRef, DomainRef, PortalRef, ThreadRef};
use crate::thread::State;
use crate::Kernel;
use cairn_abi::state::Registers;
use cairn_abi::{priority, pulse, received};

/// A source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Node {
    #[default]
    None,
    Portal(PortalRef),
    Thread(ThreadRef),
    /// A member of a partition, for its scheduler.
    Member(ThreadRef),
    Binding(u32),
    Domain(DomainRef),
}

impl Node {
    #[inline]
    fn is_none(self) -> bool {
        matches!(self, Node::None)
    }
}

/// A source's place in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct PulseLink {
    pub channel: Option<ChannelRef>,
    previous: Node,
    next: Node,
    /// Who takes it works at this priority, or at its own if that is lower.
    pub(crate) priority: u8,
}

impl PulseLink {
    pub const fn new() -> PulseLink {
        PulseLink {
            channel: None,
            previous: Node::None,
            next: Node::None,
            priority: 0,
        }
    }

    #[inline]
    pub fn is_queued(&self) -> bool {
        self.channel.is_some()
    }
}

/// The queue in a channel.
#[derive(Clone, Copy, Debug, Default)]
pub struct PulseQueue {
    pub(crate) head: Node,
    tail: Node,
    /// The highest of those that came since none waited; 0 if none waits.
    pub(crate) priority: u8,
}

impl PulseQueue {
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.head.is_none()
    }
}

/// A receive that gave a pulse, as the receiver sees it.
#[inline]
pub(crate) fn set_pulse(registers: &mut Registers, badge: u64, words: [u64; 4]) {
    registers.set_words([words[0], words[1], words[2], words[3], 0, 0, 0, 0]);
    registers.rax = (received::kind::PULSE as u64) << received::KIND_SHIFT;
    registers.rbx = badge;
    registers.rbp = 0;
    registers.r14 = 0;
    registers.r15 = 0;
}

impl<A: Arch> Kernel<A> {
    #[inline(never)]
    fn pulse_link(&mut self, node: Node) -> &mut PulseLink {
        match node {
            Node::Portal(r) => &mut self.portals[r].pulse,
            Node::Thread(r) => &mut self.threads[r].pulse,
            Node::Member(r) => &mut self.threads[r].news,
            Node::Domain(r) => &mut self.domains[r].pulse,
            Node::Binding(index) => &mut self.interrupts.bindings[index as usize].pulse,
            // Of nobody there is none, and nobody asks.
            Node::None => &mut self.interrupts.bindings[0].pulse,
        }
    }

    /// Into the queue; or only to this higher priority, if it is there.
    fn pulse_push(&mut self, c: ChannelRef, node: Node, priority: u8) {
        let queue = &mut self.channels[c].pulses;
        queue.priority = queue.priority.max(priority);
        let tail = queue.tail;
        let link = self.pulse_link(node);
        if link.is_queued() {
            link.priority = priority;
            return;
        }
        *link = PulseLink {
            channel: Some(c),
            previous: tail,
            next: Node::None,
            priority,
        };
        if tail.is_none() {
            self.channels[c].pulses.head = node;
        } else {
            self.pulse_link(tail).next = node;
        }
        self.channels[c].pulses.tail = node;
    }

    /// Take a node out of whatever queue it is in.
    fn pulse_unlink(&mut self, node: Node) {
        let link = *self.pulse_link(node);
        let Some(c) = link.channel else {
            return;
        };
        if link.previous.is_none() {
            self.channels[c].pulses.head = link.next;
        } else {
            self.pulse_link(link.previous).next = link.next;
        }
        if link.next.is_none() {
            self.channels[c].pulses.tail = link.previous;
        } else {
            self.pulse_link(link.next).previous = link.previous;
        }
        *self.pulse_link(node) = PulseLink::new();
        let queue = &mut self.channels[c].pulses;
        if !queue.is_waiting() {
            queue.priority = 0;
        }
    }

    /// Who has something to tell channel `c`, the oldest first, for checks.
    #[cfg(any(test, feature = "sim"))]
    pub fn pulse_sources(&mut self, c: ChannelRef) -> impl Iterator<Item = Node> + '_ {
        let mut next = self.channels[c].pulses.head;
        core::iter::from_fn(move || {
            let node = next;
            if node.is_none() {
                return None;
            }
            next = self.pulse_link(node).next;
            Some(node)
        })
    }

    /// Take back what has not been received. A server that was lifted for it is lifted no longer.
    pub(crate) fn pulse_withdraw(&mut self, node: Node) {
        let Some(c) = self.pulse_link(node).channel else {
            return;
        };
        self.pulse_unlink(node);
        let channel = &self.channels[c];
        if let (Some(server), false) = (channel.server, channel.pulses.is_waiting()) {
            self.refresh(server);
        }
    }

    /// The source has something to tell channel `c`: queue it, or hand it to a waiting receiver.
    pub(crate) fn pulse_post(&mut self, c: ChannelRef, node: Node) {
        // What a caller brings about is for nobody but that one, and an end is not more urgent than what brought it about. (Of a portal's end who closed it
        // finds all done: its server goes before it.) What a program tells is as urgent as that program. All else somebody more important may wait for.
        let priority = match node {
            Node::Thread(t) => self.threads[t].unfallen(),
            Node::Domain(d) => self.domains[d].death_priority,
            Node::Portal(r) if !self.portals[r].notified || self.by_program() => self.of_close(),
            _ => u8::MAX,
        };
        let link = self.pulse_link(node);
        if link.priority >= priority && link.is_queued() {
            return;
        }
        let channel = &self.channels[c];
        let Some(receiver) = channel.receivers.first() else {
            let server = channel.server;
            self.pulse_push(c, node, priority);
            if let Some(server) = server {
                self.refresh(server);
            }
            return;
        };
        // Where a receiver waits no pulse does, so this one need not queue.
        self.remove_receiver(c, receiver);
        self.threads[receiver].channel = None;
        self.deliver_pulse(receiver, node, priority);
        if priority != u8::MAX {
            self.threads[receiver].effective = self.deserved(receiver);
        }
        self.disarm(receiver);
        self.wake(receiver);
    }

    /// Is it a program that runs?
    fn by_program(&self) -> bool {
        let by = self.dispatch.current;
        by.is_some_and(|t| self.domains[self.threads[t].domain].is_program())
    }

    /// The priority of what is to be done about a last close, or about what a program tells: one more than who does that has by itself, or by its client.
    /// Who works on such a pulse brings about others that are as urgent, and not more: else they would climb.
    fn of_close(&self) -> u8 {
        let by = self.dispatch.current.map_or(0, |t| {
            let thread = &self.threads[t];
            match thread.client {
                Some(client) => self.threads[client].unfallen(),
                None if thread.behalf < thread.base => thread.behalf.saturating_sub(1),
                None => thread.assigned,
            }
        });
        by.max(priority::NORMAL).saturating_add(1)
    }

    /// [`Kernel::pulse_post`] of an interrupt, as the last thing that an entry does: a waiting receiver that is more important than all others runs at
    /// once, without a turn in the ready queue. The thread that was current need not be any more.
    pub(crate) fn pulse_post_last(&mut self, c: ChannelRef, node: Node) {
        if !self.pulse_short(c, node) {
            self.pulse_post(c, node);
        }
    }

    /// False: nothing was done.
    #[inline]
    fn pulse_short(&mut self, c: ChannelRef, node: Node) -> bool {
        let (Some(receiver), Some(current)) =
            (self.channels[c].receivers.first(), self.dispatch.current)
        else {
            return false;
        };
        let (to, from) = (&self.threads[receiver], &self.threads[current]);
        let most = self.dispatch.ready.top().max(from.effective as i16);
        if to.effective as i16 <= most
            || to.poked
            || self.dispatch.preempt
            || !self.short_way
            || self.is_stopped(receiver)
            || self.is_stopped(current)
            || self.pulse_link(node).is_queued()
        {
            return false;
        }
        self.remove_receiver(c, receiver);
        self.deliver_pulse(receiver, node, u8::MAX);
        self.disarm(receiver);
        self.charge();
        self.set_back(current);
        let to = &mut self.threads[receiver];
        to.channel = None;
        to.state = State::Running;
        self.dispatch.current = Some(receiver);
        self.dispatch.slice_end = 0;
        true
    }

    /// Deliver the oldest pulse of the channel into the receiver's registers.
    pub(crate) fn take_pulse(&mut self, receiver: ThreadRef, c: ChannelRef) {
        let node = self.channels[c].pulses.head;
        let priority = self.pulse_link(node).priority;
        self.deliver_pulse(receiver, node, priority);
    }

    /// Tell the receiver what a source has to say, and at which priority to work for it. The source leaves the queue, if it is in one (but for a portal
    /// with two things to say).
    fn deliver_pulse(&mut self, receiver: ThreadRef, node: Node, priority: u8) {
        let (badge, words) = match node {
            Node::Portal(r) => {
                let portal = &mut self.portals[r];
                let badge = portal.badge;
                if portal.notified {
                    let value = core::mem::take(&mut portal.value);
                    portal.notified = false;
                    if !self.end_is_due(r) {
                        self.pulse_unlink(node);
                        self.portal_unheld(r);
                    }
                    (badge, [pulse::NOTIFY, value, 0, 0])
                } else {
                    // Its last holder is gone or it was revoked, and now everybody knows.
                    self.pulse_unlink(node);
                    self.portal_told(r);
                    (badge, [pulse::CLOSED, 0, 0, 0])
                }
            }
            Node::Thread(r) => {
                self.pulse_unlink(node);
                let thread = &self.threads[r];
                let code = if thread.pulse_gone {
                    pulse::GONE
                } else {
                    pulse::UNBLOCK
                };
                let told = (thread.pulse_badge, [code, thread.pulse_token, 0, 0]);
                self.release_thread_object(r);
                told
            }
            Node::Member(r) => {
                self.pulse_unlink(node);
                let thread = &self.threads[r];
                let words = [
                    pulse::MEMBER,
                    thread.standing as u64,
                    self.threads.id(r) as u64,
                    self.arch.ticks_to_ns(thread.ticks),
                ];
                let badge = thread.member_badge;
                self.release_thread_object(r);
                (badge, words)
            }
            Node::Binding(index) => {
                self.pulse_unlink(node);
                let binding = &mut self.interrupts.bindings[index as usize];
                let count = core::mem::take(&mut binding.count);
                let (badge, handler) = (binding.badge, binding.handler);
                let mut words = [pulse::INTERRUPT, count, 0, 0];
                if let Some(index) = handler.checked_sub(1) {
                    let handler = &mut self.handlers[index as usize];
                    words[2] = core::mem::take(&mut handler.reasons);
                    words[3] = handler.last as u64;
                }
                (badge, words)
            }
            Node::Domain(r) => {
                self.pulse_unlink(node);
                let domain = &self.domains[r];
                let told = (
                    domain.watch_badge,
                    [
                        pulse::DEATH,
                        domain.id as u64,
                        domain.death_reason,
                        domain.death_detail,
                    ],
                );
                self.release_domain_object(r);
                told
            }
            Node::None => return,
        };
        let receiver = &mut self.threads[receiver];
        receiver.behalf = priority;
        set_pulse(&mut receiver.registers, badge, words);
    }

    /// Throw away the oldest pulse of a channel that goes. False if there is none.
    pub(crate) fn drop_pulse(&mut self, c: ChannelRef) -> bool {
        let node = self.channels[c].pulses.head;
        if node.is_none() {
            return false;
        }
        self.pulse_withdraw(node);
        match node {
            Node::Portal(r) => {
                self.portals[r].notified = false;
                self.portal_told(r);
            }
            Node::Thread(r) | Node::Member(r) => self.release_thread_object(r),
            Node::Domain(r) => self.release_domain_object(r),
            _ => {}
        }
        true
    }

    /// A caller that channel `c` holds was poked.
    pub(crate) fn caller_interrupted(&mut self, t: ThreadRef) {
        if let (State::Held, Some(c)) = (self.threads[t].state, self.threads[t].channel) {
            self.tell_of_caller(t, c, false);
        }
    }

    /// A caller that channel `c` held is not there any more.
    pub(crate) fn caller_gone(&mut self, t: ThreadRef, c: ChannelRef) {
        self.tell_of_caller(t, c, true);
    }

    /// The call of `t` is over: an UNBLOCK that the server has not read is settled.
    pub(crate) fn settle_interruption(&mut self, t: ThreadRef) {
        let thread = &self.threads[t];
        if thread.pulse.is_queued() && !thread.pulse_gone {
            self.pulse_withdraw(Node::Thread(t));
        }
    }

    /// A thread has one node. If an older notice still waits (at a server that has not read its pulses), the newer one takes its place.
    fn tell_of_caller(&mut self, t: ThreadRef, c: ChannelRef, gone: bool) {
        self.pulse_withdraw(Node::Thread(t));
        let token = self.threads[t].token;
        let thread = &mut self.threads[t];
        thread.pulse_token = token;
        thread.pulse_badge = thread.badge;
        thread.pulse_gone = gone;
        if self.channels[c].dying {
            return;
        }
        self.pulse_post(c, Node::Thread(t));
    }
}
