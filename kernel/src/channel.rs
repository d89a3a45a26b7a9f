//! Channels: where servers receive. The operations of a receive right, and the end of a channel.
//!
//! What always holds: while a receiver waits, neither senders nor pulses wait; `server` is the thread whose `serving` names this channel.

use crate::arch::Arch;
use crate::pool::{ChannelRef, DomainRef, Handle, SignatureRef, ThreadRef};
use crate::portal::table::Target;
use crate::pulse::PulseQueue;
use crate::queue::{List, PriorityQueue};
use crate::thread::Sending;
use crate::{Answer, Kernel, Stop};
use cairn_abi::service::receive;
use cairn_abi::{rights, Error, PortalKind};

// The large array last, as in other objects: what lies in the first 128 bytes is reached with a short displacement.
#[repr(C)]
pub struct Channel {
    pub pulses: PulseQueue,
    pub receivers: List,
    /// Callers whose messages were received and that wait for the reply, but for the one that `server` works for now.
    pub held: List,
    /// Who received here last: callers that queue lift it.
    pub server: Option<ThreadRef>,
    /// The domain whose table got the receive right last, or that received last.
    pub home: Option<DomainRef>,
    /// Receive rights.
    pub holders: u32,
    /// Who keeps its number: portals, watched domains, spaces whose pager it is.
    pub references: u32,
    /// The last receive right is being closed.
    pub dying: bool,
    /// The partition whose scheduler receives here, counted from 1; 0: none does ([`crate::partition`]).
    pub partition: u8,
    /// Who waits here with nothing unusual about it, as one number ([`crate::quick`]); 0: nobody, or something is unusual.
    pub plain: u64,
    /// What is asked of calls.
    pub signature: Option<SignatureRef>,
    pub senders: PriorityQueue,
}

/// How many waiting callers of a dying channel one entry lets go, or pulses it drops; and windows of a caller that close are a share for themselves.
const SHARE: usize = 2;

/// Portal objects that are looked at before interrupts are let in.
const LOOKS: u32 = 32;

impl<A: Arch> Kernel<A> {
    pub(crate) fn channel_create(&mut self) -> Result<ChannelRef, Error> {
        self.channels
            .insert(Channel {
                senders: PriorityQueue::new(),
                pulses: PulseQueue::default(),
                receivers: List::default(),
                held: List::default(),
                server: None,
                home: None,
                holders: 0,
                references: 0,
                dying: false,
                partition: 0,
                plain: 0,
                signature: None,
            })
            .ok_or(Error::NoMemory)
    }

    /// Let everybody go who waits at a channel whose last receive right is closed. False: there are more, come again.
    pub(crate) fn channel_drain(&mut self, c: ChannelRef) -> bool {
        if !self.channels[c].dying {
            self.channels[c].dying = true;
            // Portals to it are stale from here on.
            self.channels.retire(c);
            if let Some(signature) = self.channels[c].signature.take() {
                self.signatures.remove(signature);
            }
        }
        for _ in 0..SHARE {
            let channel = &self.channels[c];
            let next = channel
                .receivers
                .first()
                .or(channel.senders.first())
                .or(self.held_by(c));
            if let Some(t) = next {
                if self.close_window_first(t) {
                    return false;
                }
                self.detach(t);
                self.fail(t, Error::Dead);
            } else if let Some(member) = self.member_of(c) {
                self.leave_partition(member);
            } else if !self.drop_pulse(c) {
                if let Some(server) = self.channels[c].server {
                    self.stop_serving(server);
                    self.refresh(server);
                }
                return true;
            }
        }
        false
    }

    /// Let a share of the held callers go. False: there may be more. Who receives from the channel next shall not hear that calls were interrupted which are over.
    /// A caller is told by which token the dead server knew the call: so the next one can tell whether what its predecessor did last was that call.
    pub(crate) fn drop_held(&mut self, c: ChannelRef) -> bool {
        for _ in 0..SHARE {
            let Some(t) = self.held_by(c) else {
                return true;
            };
            if self.close_window_first(t) {
                return false;
            }
            self.detach(t);
            self.settle_interruption(t);
            let thread = &mut self.threads[t];
            if thread.sending == Sending::Message {
                thread.registers.rdi = thread.token;
            }
            self.fail(t, Error::Dead);
        }
        false
    }

    /// One of the callers that wait for a reply: put off, or being worked for.
    #[inline(never)]
    fn held_by(&self, c: ChannelRef) -> Option<ThreadRef> {
        let channel = &self.channels[c];
        let served = || self.threads[channel.server?].client;
        channel.held.first().or_else(served)
    }

    /// Code of a receive right.
    #[inline(always)]
    pub(crate) fn receive_traversal(&mut self, c: ChannelRef, t: ThreadRef) -> Answer {
        let answer = match self.operation(t) {
            receive::REPLY_RECEIVE => self.reply_receive(t, c),
            receive::RECEIVE => self.receive(t, c),
            receive::REPLY => return self.reply(t, c),
            receive::DISPATCH => self.dispatch_member(t, c),
            receive::READ => return self.transfer(t, c, true),
            receive::WRITE => return self.transfer(t, c, false),
            receive::MAKE_PORTAL => return self.make_portal(t, c),
            receive::SIGN => return self.sign(t, c),
            receive::CALLER => return self.tell_caller(t, c),
            receive::NEXT_BADGE => return self.next_badge(t, c),
            _ => return Err(Error::BadOperation.into()),
        };
        self.disarm_on_error(t, answer)
    }

    /// NEXT_BADGE: w0 where to go on. Interrupts come in between every few looks.
    #[inline(never)]
    fn next_badge(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        let number = self.channels.id(c);
        let from = u32::try_from(self.threads[t].registers.rdi);
        let mut index = from.map_err(|_| Error::BadArgument)?;
        loop {
            for _ in 0..LOOKS {
                index = index.saturating_add(1);
                let Some(r) = self.portals.nth(index) else {
                    self.answers(t, &[0, 0]);
                    return Ok(());
                };
                // What was given back is unheld as well.
                let portal = &self.portals[r];
                if portal.channel == number && !self.is_unheld(r) {
                    let badge = portal.badge;
                    self.answers(t, &[index as u64, badge]);
                    return Ok(());
                }
            }
            self.answer(t, 0, index as u64);
            if self.let_in(t) {
                return Err(Stop::Restart);
            }
        }
    }

    /// CALLER: w0 token.
    #[inline(never)]
    fn tell_caller(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        let caller = self.caller(self.threads[t].registers.rdi, c)?;
        let thread = &self.threads[caller];
        if thread.sending != Sending::Message {
            return Err(Error::BadToken.into());
        }
        let told = [
            self.threads.id(caller) as u64,
            self.domains[thread.domain].id as u64,
            thread.effective as u64,
            self.part_address(caller, true),
            self.part_address(caller, false),
        ];
        if self.threads[t].registers.rsi == receive::RESUME
            && self.threads[t].client != Some(caller)
        {
            self.resume_for(t, caller);
        }
        self.answers(t, &told);
        Ok(())
    }

    /// `t` works for `caller` from now on: whom it worked for is put off, and who worked for that caller does so no longer.
    #[inline(never)]
    fn resume_for(&mut self, t: ThreadRef, caller: ThreadRef) {
        self.end_service(t);
        if let Some(other) = self.threads[caller].server {
            let priority = self.threads[caller].unfallen();
            self.end_service(other);
            self.threads[other].behalf = priority;
            self.refresh(other);
        }
        self.threads[caller].server = Some(t);
        let server = &mut self.threads[t];
        server.client = Some(caller);
        server.behalf = u8::MAX;
        self.refresh(t);
    }

    #[inline]
    pub(crate) fn disarm_on_error(&mut self, t: ThreadRef, answer: Answer) -> Answer {
        if let Err(Stop::Error(_)) = answer {
            self.disarm(t);
        }
        answer
    }

    #[inline(never)]
    fn make_portal(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        let w = self.threads[t].registers.words();
        let d = self.threads[t].domain;
        let own = self.domains[d].table.target(w[2]);
        let possible = rights::DEFAULT | rights::CLOEXEC | rights::ONCE | rights::OPEN;
        let opens = w[1] & u64::from(rights::OPEN) != 0;
        if w[1] & !u64::from(possible) != 0
            || opens && w[0] as u32 != 0
            || own.is_some_and(|o| o.kind() == PortalKind::Receive && o.object() == c.number())
        {
            return Err(Error::BadArgument.into());
        }
        let parent = if w[3] == 0 {
            None
        } else {
            let parent = self.own_object(t, w[3], PortalKind::Channel, 0)?;
            if w[2] == w[3] || self.channels.lookup(self.portals[parent].channel) != Some(c) {
                return Err(Error::BadArgument.into());
            }
            self.may_derive(parent)?;
            Some(parent)
        };
        if self.channels[c].dying {
            return Err(Error::Dead.into());
        }
        if !self.portals.room(1) {
            return Err(Error::NoMemory.into());
        }
        let slot = self.make_place(d, w[2])?;
        let portal = self.portal_create(c, w[0], parent, true)?;
        let target = Target::to(PortalKind::Channel, portal, w[1] as u16);
        self.place_made(t, slot, target);
        Ok(())
    }
}
