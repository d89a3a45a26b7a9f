//! Where portals come from, and how they are taken back.
//!
//! A portal object may be *derived* from another one: it leads to the same place, and it can be revoked with all that was derived from it. Copies of an entry, in whatever
//! table, share one object and so are dead together at once. A portal to anything but a channel is derived by an object in between
//! (kind `Derived` in the entry), which every use resolves.
//!
//! What always holds: an object lives while entries or queued calls (its `callers`) hold it, somebody waits by it at a semaphore, several derived from it live, or its pulse waits or will. One that a single derived one would keep gives that to its own parent and goes, so nothing that ends
//! takes a line of others along. What is derived is unlinked from its parent before it goes. No server receives a call through what is revoked. Whatever keeps a channel's number (portals, watched domains, spaces with a pager) counts in its `references`, and its place is not
//! used for another channel before the last of them is gone: a number can never come to mean somebody else's channel. No line of descent is longer than [`DEPTH`].

use crate::arch::Arch;
use crate::pool::{ChannelRef, PortalRef, ThreadRef};
use crate::portal::table::Target;
use crate::portal::{is_bound, Portal};
use crate::pulse::{Node, PulseLink};
use crate::queue::List;
use crate::ranked::Ranked;
use crate::{Answer, Kernel, Stop};
use cairn_abi::service::semaphore;
use cairn_abi::{rights, Error, PortalKind};

/// Longest line of descent.
pub const DEPTH: u8 = 16;
/// Work of one entry that revokes, in some hundred instructions: all of it, to cut a portal of whose end the server hears, to end a call through it, to take it out of its family.
const SHARE: u32 = 20;
const CUT_WORK: u32 = 2;
const CALL_WORK: u32 = 10;
const LEAVE_WORK: u32 = 2;

/// An object's place among those that were derived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lineage {
    parent: Option<PortalRef>,
    /// The first of those derived from it, and neighbours among those with the same parent.
    child: Option<PortalRef>,
    previous: Option<PortalRef>,
    next: Option<PortalRef>,
    depth: u8,
}

impl Lineage {
    pub fn parent(&self) -> Option<PortalRef> {
        self.parent
    }
}

impl<A: Arch> Kernel<A> {
    /// A portal object without holders, to channel `c`. `parent`: what it is derived from. `tells`: the server hears of its end.
    pub(crate) fn portal_create(
        &mut self,
        c: ChannelRef,
        badge: u64,
        parent: Option<PortalRef>,
        tells: bool,
    ) -> Result<PortalRef, Error> {
        let r = self.portal_insert(self.channels.id(c), badge, Target::EMPTY, parent, tells)?;
        self.channels[c].references += 1;
        Ok(r)
    }

    #[inline(never)]
    fn portal_insert(
        &mut self,
        channel: u32,
        badge: u64,
        under: Target,
        parent: Option<PortalRef>,
        tells: bool,
    ) -> Result<PortalRef, Error> {
        let portal = Portal {
            holders: 0,
            callers: Ranked::new(),
            waiting: List::NEW,
            channel,
            badge,
            pulse: PulseLink::new(),
            value: 0,
            notified: false,
            under,
            lineage: Lineage::default(),
            tells,
            revoked: false,
        };
        let r = self.portals.insert(portal).ok_or(Error::NoMemory)?;
        if let Some(parent) = parent {
            self.adopt(parent, r);
        }
        Ok(r)
    }

    fn adopt(&mut self, parent: PortalRef, r: PortalRef) {
        let family = &mut self.portals[parent].lineage;
        let depth = family.depth + 1;
        let next = family.child.replace(r);
        self.portals[r].lineage = Lineage {
            parent: Some(parent),
            child: None,
            previous: None,
            next,
            depth,
        };
        if let Some(next) = next {
            self.portals[next].lineage.previous = Some(r);
        }
    }

    /// Out of the family. Returns the parent.
    #[inline(never)]
    fn leave_family(&mut self, r: PortalRef) -> Option<PortalRef> {
        let Lineage {
            parent,
            previous,
            next,
            ..
        } = self.portals[r].lineage;
        let parent = parent?;
        match previous {
            Some(previous) => self.portals[previous].lineage.next = next,
            None => self.portals[parent].lineage.child = next,
        }
        if let Some(next) = next {
            self.portals[next].lineage.previous = previous;
        }
        let lineage = &mut self.portals[r].lineage;
        lineage.parent = None;
        lineage.previous = None;
        lineage.next = None;
        Some(parent)
    }

    /// May something be derived from this object now?
    pub(crate) fn may_derive(&self, r: PortalRef) -> Result<(), Error> {
        let portal = &self.portals[r];
        if portal.revoked {
            return Err(Error::Revoked);
        }
        if portal.lineage.depth >= DEPTH {
            return Err(Error::Busy);
        }
        Ok(())
    }

    /// `current::PORTAL_OPEN`: w0 slot, w1 slot or AUTO, w2 rights, w3 number. The exporter's delegate makes a portal with a badge of its own.
    pub(crate) fn portal_open(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let source = self.own_entry(t, w[0])?;
        if source.kind() != PortalKind::Channel || !source.may(rights::OPEN) {
            return Err(Error::NoRight.into());
        }
        let number = u32::try_from(w[3]).map_err(|_| Error::BadArgument)?;
        if number == 0 {
            return Err(Error::BadArgument.into());
        }
        self.portal_derive(t, w, Some(number))
    }

    /// `current::PORTAL_DERIVE`: w0 slot, w1 slot or AUTO, w2 rights. `number`: what is opened adds it to the badge.
    pub(crate) fn portal_derive(
        &mut self,
        t: ThreadRef,
        w: [u64; 8],
        number: Option<u32>,
    ) -> Answer {
        let d = self.threads[t].domain;
        let source = self.own_entry(t, w[0])?;
        if is_bound(source.kind())
            || source.kind() == PortalKind::Receive
            || source.may(rights::ONCE)
            || w[0] == w[1]
        {
            return Err(Error::NoRight.into());
        }
        let added = rights::CLOEXEC | self.once_for(source.kind());
        let mut kept = source.rights() & w[2] as u16 | w[2] as u16 & added;
        if number.is_some() {
            // Its badge is one of many: nothing can be added to it.
            kept &= !rights::OPEN;
        }
        let parent = match source.kind() {
            PortalKind::Channel | PortalKind::Derived => {
                let parent = self.portals.of(source);
                self.may_derive(parent)?;
                Some(parent)
            }
            _ => None,
        };
        if source.kind() == PortalKind::Channel
            && self
                .channels
                .lookup(self.portals.at(source).channel)
                .is_none()
        {
            return Err(Error::Dead.into());
        }
        if !self.portals.room(1) {
            return Err(Error::NoMemory.into());
        }
        // What is emptied must not be the last of what is derived from: it is held meanwhile.
        self.acquire(source);
        let slot = match self.make_place(d, w[1]) {
            Ok(slot) => slot,
            Err(stop) => {
                self.release(source);
                return Err(stop);
            }
        };
        let made = self.derive(source, parent, number);
        let placed = made.map(|(kind, r)| {
            self.place(d, slot, Target::to(kind, r, kept));
        });
        self.release(source);
        placed?;
        self.answer(t, 0, slot as u64);
        Ok(())
    }

    /// The object for what is derived from `source`, which was checked.
    fn derive(
        &mut self,
        source: Target,
        parent: Option<PortalRef>,
        number: Option<u32>,
    ) -> Result<(PortalKind, PortalRef), Error> {
        if source.kind() == PortalKind::Channel {
            let portal = self.portals.at(source);
            let badge = portal.badge | u64::from(number.unwrap_or(0));
            let c = self.channels.lookup(portal.channel).ok_or(Error::Dead)?;
            let r = self.portal_create(c, badge, parent, number.is_some())?;
            return Ok((PortalKind::Channel, r));
        }
        let under = self.resolve(source)?;
        let r = self.portal_insert(0, 0, under, parent, false)?;
        self.acquire(under);
        Ok((PortalKind::Derived, r))
    }

    /// Rights that copying an entry of this kind may add for single use: only calls of servers are counted.
    pub(crate) fn once_for(&self, kind: PortalKind) -> u16 {
        if kind == PortalKind::Channel {
            rights::ONCE
        } else {
            0
        }
    }

    /// What a use of the entry leads to.
    #[inline(never)]
    pub(crate) fn resolve(&self, target: Target) -> Result<Target, Error> {
        if target.kind() != PortalKind::Derived {
            return Ok(target);
        }
        let portal = self.portals.at(target);
        if portal.revoked {
            return Err(Error::Revoked);
        }
        Ok(portal.under.with(target.rights()))
    }

    /// Why a portal whose channel is not found fails.
    #[cold]
    pub(crate) fn why_stale(&self, r: PortalRef) -> Error {
        if self.portals[r].revoked {
            Error::Revoked
        } else {
            Error::Dead
        }
    }

    /// `current::PORTAL_REVOKE`: w0 slot. One share of what was derived from it, and of the calls through that which wait to be received.
    pub(crate) fn portal_revoke(&mut self, t: ThreadRef, slot: u64) -> Answer {
        let target = self.own_entry(t, slot)?;
        if !matches!(target.kind(), PortalKind::Channel | PortalKind::Derived) {
            return Err(Error::BadArgument.into());
        }
        let r = self.portals.of(target);
        let (mut at, mut work) = (r, 0);
        loop {
            // Down to one from which nothing is derived; all on the way are dead from now on.
            if let Some(child) = self.portals[at].lineage.child {
                if !self.portals[child].revoked {
                    if work >= SHARE {
                        return Err(Stop::Restart);
                    }
                    self.cut(child);
                    work += CUT_WORK;
                }
                at = child;
                continue;
            }
            if at == r {
                return Ok(());
            }
            if work >= SHARE {
                return Err(Stop::Restart);
            }
            if let Some(caller) = self.waits_through(at) {
                work += CALL_WORK;
                // It may be all that keeps the object, which has to leave its family first.
                self.portals[at].holders += 1;
                self.detach(caller);
                self.fail(caller, Error::Revoked);
                self.portals[at].holders -= 1;
                if self.waits_through(at).is_some() {
                    continue;
                }
            }
            work += LEAVE_WORK;
            let parent = self.leave_family(at);
            self.portal_unheld(at);
            if let Some(parent) = parent {
                self.portal_unheld(parent);
            }
            at = r;
        }
    }

    /// The object leads nowhere from now on. (A semaphore that it led to is kept by what it is derived from.)
    fn cut(&mut self, r: PortalRef) {
        let portal = &mut self.portals[r];
        portal.revoked = true;
        let under = core::mem::replace(&mut portal.under, Target::EMPTY);
        let (channel, tells) = (core::mem::take(&mut portal.channel), portal.tells);
        self.release(under);
        if channel != 0 {
            match self.channels.lookup(channel) {
                Some(c) if tells => self.pulse_post(c, Node::Portal(r)),
                Some(_) => {}
                None => self.pulse_withdraw(Node::Portal(r)),
            }
            self.channel_forget(channel);
        }
    }

    /// One whose call through it, or whose wait by it, is not over.
    fn waits_through(&self, r: PortalRef) -> Option<ThreadRef> {
        let portal = &self.portals[r];
        portal.callers.first().or(portal.waiting.first())
    }

    /// The number of a channel, for somebody who keeps it and calls [`Kernel::channel_forget`] in the end.
    pub(crate) fn channel_refer(&mut self, c: ChannelRef) -> u32 {
        self.channels[c].references += 1;
        self.channels.id(c)
    }

    /// Such a number is kept no longer. A dead channel goes with the last one.
    #[inline(never)]
    pub(crate) fn channel_forget(&mut self, id: u32) {
        let Some(c) = self.channels.place_of(id) else {
            return;
        };
        let channel = &mut self.channels[c];
        channel.references -= 1;
        if channel.references == 0 && channel.holders == 0 {
            self.channels.remove(c);
        }
    }

    /// Nobody can use the object any more, and nothing is derived from it.
    #[inline]
    pub(crate) fn is_unheld(&self, r: PortalRef) -> bool {
        let portal = &self.portals[r];
        portal.holders == 0 && portal.lineage.child.is_none() && portal.waiting.is_empty()
    }

    /// Has the server to be told that the object's end has come?
    #[inline]
    pub(crate) fn end_is_due(&self, r: PortalRef) -> bool {
        let portal = &self.portals[r];
        portal.tells && (portal.revoked || self.is_unheld(r))
    }

    /// The object may be unheld now, or kept by one that was derived from it and nothing else: its server is told, or it goes. What it was derived from may be so then, and is never more than told or
    /// replaced by another one: that takes constant time.
    pub(crate) fn portal_unheld(&mut self, r: PortalRef) {
        let mut next = Some(r);
        while let Some(r) = next {
            if let Some(child) = self.only_child(r) {
                self.replace_by(r, child);
                return;
            }
            if !self.is_unheld(r) {
                return;
            }
            let portal = &self.portals[r];
            if let Some(c) = self.channels.lookup(portal.channel) {
                if portal.tells {
                    self.pulse_post(c, Node::Portal(r));
                    return;
                }
                if portal.notified {
                    return;
                }
            } else if portal.revoked && portal.pulse.is_queued() {
                // It goes when that is read.
                return;
            } else {
                self.pulse_withdraw(Node::Portal(r));
            }
            next = self.portal_remove(r);
        }
    }

    /// What alone keeps the object, if that is one derived from it: nobody can name the object, and nobody is to hear of its end.
    #[inline]
    pub(crate) fn only_child(&self, r: PortalRef) -> Option<PortalRef> {
        let portal = &self.portals[r];
        let child = portal.lineage.child?;
        let silent = !portal.tells && !portal.notified && !portal.pulse.is_queued();
        let alone = portal.holders == 0 && portal.waiting.is_empty();
        (silent && alone && self.portals[child].lineage.next.is_none()).then_some(child)
    }

    /// The object goes, and its only child takes its place in the family.
    #[inline(never)]
    fn replace_by(&mut self, r: PortalRef, child: PortalRef) {
        let Lineage {
            parent,
            previous,
            next,
            ..
        } = self.portals[r].lineage;
        let place = &mut self.portals[child].lineage;
        (place.parent, place.previous, place.next) = (parent, previous, next);
        match (previous, parent) {
            (Some(previous), _) => self.portals[previous].lineage.next = Some(child),
            (None, Some(parent)) => self.portals[parent].lineage.child = Some(child),
            (None, None) => {}
        }
        if let Some(next) = next {
            self.portals[next].lineage.previous = Some(child);
        }
        self.channel_forget(self.portals[r].channel);
        self.portals.remove(r);
    }

    /// The object's pulse was read, or thrown away with its channel: it goes, if nothing else keeps it.
    pub(crate) fn portal_told(&mut self, r: PortalRef) {
        self.portals[r].tells = false;
        self.portal_unheld(r);
    }

    /// Free the object. Returns its parent, which may be unheld now.
    #[inline]
    pub(crate) fn portal_remove(&mut self, r: PortalRef) -> Option<PortalRef> {
        self.channel_forget(self.portals[r].channel);
        let parent = self.leave_family(r);
        self.portals.remove(r);
        parent
    }

    /// `t`'s call through `r` waits in its channel's queue from now on. It holds the object until that is over, whatever becomes of the entry, so that the server does not
    /// hear of the end before the call.
    pub(crate) fn join_callers(&mut self, t: ThreadRef, r: PortalRef) {
        self.threads[t].through = Some(r);
        let portal = &mut self.portals[r];
        portal.holders += 1;
        portal.callers.push(&mut self.threads, t, 0);
    }

    /// What `t` sends, by a call or after a fault, waits in the queue no longer. `Revoked`: it was a call through what is revoked.
    pub(crate) fn leave_callers(&mut self, t: ThreadRef) -> Result<(), Error> {
        let Some(r) = self.threads[t].through.take() else {
            return Ok(());
        };
        let portal = &mut self.portals[r];
        portal.callers.remove(&mut self.threads, t);
        portal.holders -= 1;
        let revoked = portal.revoked;
        if portal.holders == 0 {
            self.portal_unheld(r);
        }
        if revoked {
            return Err(Error::Revoked);
        }
        Ok(())
    }

    /// `t`, the current thread, waits at a semaphore from now on; if by a derived portal that knows it, and is there until the wait is over. It does not keep the semaphore.
    pub(crate) fn join_waiting(&mut self, t: ThreadRef) {
        let registers = &self.threads[t].registers;
        let slot = match (registers.rax >> 32) as u8 {
            semaphore::V_THEN_P => registers.rdi,
            _ => registers.rax as u32 as u64,
        };
        let Ok(entry) = self.own_entry(t, slot) else {
            return;
        };
        if entry.kind() == PortalKind::Derived {
            let r = self.portals.of(entry);
            self.threads[t].through = Some(r);
            self.portals[r].waiting.push_back(&mut self.threads, t);
        }
    }

    #[cold]
    pub(crate) fn leave_waiting(&mut self, t: ThreadRef, r: PortalRef) {
        self.portals[r].waiting.remove(&mut self.threads, t);
        self.portal_unheld(r);
    }

    /// The current thread used a portal for single use.
    pub(crate) fn use_up(&mut self, t: ThreadRef, slot: u32, target: Target) {
        let d = self.threads[t].domain;
        if self.domains[d].table.target(slot as u64) != Some(target) {
            return;
        }
        self.empty(d, slot);
        self.release(target);
    }
}

/// For checks: the number of objects that say they were derived from `r` must be that of its list.
#[cfg(any(test, feature = "sim"))]
pub fn children<A: Arch>(k: &Kernel<A>, r: PortalRef) -> std::vec::Vec<PortalRef> {
    use crate::pool::Handle;
    let mut found = std::vec::Vec::new();
    let (mut previous, mut next) = (None, k.portals[r].lineage.child);
    while let Some(child) = next {
        let lineage = k.portals[child].lineage;
        assert_eq!(lineage.parent, Some(r));
        assert_eq!(lineage.previous, previous);
        assert!(lineage.depth <= DEPTH && lineage.depth > k.portals[r].lineage.depth);
        assert!(found.len() < 100_000, "a ring at {}", r.number());
        found.push(child);
        previous = next;
        next = lineage.next;
    }
    found
}
