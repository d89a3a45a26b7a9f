//! Portal objects: a right to call one channel, with the badge that the server chose. Many table entries, of many domains, may hold one object; the
//! server hears of the last of them going. Entries of the other kinds lead straight to their object.

pub mod code;
pub mod table;

use crate::arch::Arch;
use crate::pool::{DomainRef, PortalRef, ThreadRef};
use crate::pulse::{Node, PulseLink};
use crate::queue::List;
use crate::ranked::Ranked;
use crate::revoke::Lineage;
use crate::{Kernel, Stop};
use cairn_abi::service::AUTO;
use cairn_abi::{Error, PortalKind};
use table::Target;

pub struct Portal {
    /// Table entries that lead here, and calls in `callers`.
    pub holders: u32,
    /// Who called through it and was not received yet.
    pub callers: Ranked<ThreadRef>,
    /// Who waits by it at the semaphore that it leads to.
    pub waiting: List,
    /// Id of the channel; stale when the channel is gone, 0 if it was revoked or leads elsewhere.
    pub channel: u32,
    pub badge: u64,
    pub pulse: PulseLink,
    /// What NOTIFY gathered since the last receive, and whether there was one.
    pub value: u64,
    pub notified: bool,
    /// What it leads to, if not to a channel.
    pub under: Target,
    pub lineage: Lineage,
    /// The server is to hear of its end.
    pub tells: bool,
    pub revoked: bool,
}

impl<A: Arch> Kernel<A> {
    /// NOTIFY.
    pub(crate) fn notify(&mut self, r: PortalRef, value: u64) -> Result<(), Error> {
        let channel = self.portals[r].channel;
        let Some(c) = self.channels.lookup(channel) else {
            return Err(self.why_stale(r));
        };
        let portal = &mut self.portals[r];
        portal.value |= value;
        portal.notified = true;
        self.pulse_post(c, Node::Portal(r));
        Ok(())
    }

    /// What slot `slot` of the thread's own table leads to.
    #[inline(always)]
    pub(crate) fn own_target(&self, t: ThreadRef, slot: u64) -> Result<Target, Error> {
        self.resolve(self.own_entry(t, slot)?)
    }

    /// The entry itself, for what copies, passes or closes it.
    #[inline(always)]
    pub(crate) fn own_entry(&self, t: ThreadRef, slot: u64) -> Result<Target, Error> {
        self.entry_of(t, slot).ok_or(Error::BadPortal)
    }

    #[inline(never)]
    fn entry_of(&self, t: ThreadRef, slot: u64) -> Option<Target> {
        self.domains[self.threads[t].domain].table.target(slot)
    }

    /// [`Kernel::own_target`], for one kind of portal.
    #[inline(always)]
    pub(crate) fn own_target_of(
        &self,
        t: ThreadRef,
        slot: u64,
        kind: PortalKind,
    ) -> Result<Target, Error> {
        let target = self.own_target(t, slot)?;
        if target.kind() != kind {
            return Err(Error::BadPortal);
        }
        Ok(target)
    }

    /// How many entries lead to the object, where somebody counts.
    pub(crate) fn holders(&mut self, target: Target) -> Option<&mut u32> {
        Some(match target.kind() {
            PortalKind::Channel | PortalKind::Derived => &mut self.portals.at_mut(target).holders,
            PortalKind::Receive => &mut self.channels.at_mut(target).holders,
            PortalKind::Domain => &mut self.domains.at_mut(target).holders,
            PortalKind::Space => &mut self.spaces.at_mut(target).holders,
            PortalKind::Thread => &mut self.threads.at_mut(target).holders,
            PortalKind::Semaphore => &mut self.semaphores.at_mut(target).holders,
            PortalKind::Window => &mut self.windows.at_mut(target).holders,
            PortalKind::Interrupt => {
                &mut self.interrupts.bindings[target.object() as usize].holders
            }
            _ => return None,
        })
    }

    /// One holder more.
    pub(crate) fn acquire(&mut self, target: Target) {
        if let Some(holders) = self.holders(target) {
            *holders += 1;
        }
    }

    /// One holder less. A channel's last receive right has been prepared by [`Kernel::close`].
    pub(crate) fn release(&mut self, target: Target) {
        let Some(holders) = self.holders(target) else {
            return;
        };
        *holders -= 1;
        if *holders != 0 {
            return;
        }
        match target.kind() {
            PortalKind::Channel => self.portal_unheld(self.portals.of(target)),
            PortalKind::Derived => {
                // What was derived from it holds on its own.
                let under =
                    core::mem::replace(&mut self.portals.at_mut(target).under, Target::EMPTY);
                self.release(under);
                self.portal_unheld(self.portals.of(target));
            }
            PortalKind::Receive => {
                let c = self.channels.of(target);
                if self.channels[c].references == 0 {
                    self.channels.remove(c);
                }
            }
            PortalKind::Domain => self.release_domain_object(self.domains.of(target)),
            PortalKind::Space => self.release_space_object(self.spaces.of(target)),
            PortalKind::Thread => self.release_thread_object(self.threads.of(target)),
            PortalKind::Semaphore => self.semaphores.remove(self.semaphores.of(target)),
            PortalKind::Window => self.window_remove(self.windows.of(target)),
            PortalKind::Interrupt => self.binding_unheld(target.object()),
            _ => {}
        }
    }

    /// Empty an occupied slot. `Restart`: a share of a dying channel's callers was let go, come again.
    pub(crate) fn close(&mut self, d: DomainRef, slot: u32, target: Target) -> Result<(), Stop> {
        if target.kind() == PortalKind::Receive {
            let c = self.channels.of(target);
            let home = self.channels[c].home == Some(d);
            if self.channels[c].holders == 1 || home && self.domains[d].dead {
                self.unbind_channel(c);
            }
            if self.channels[c].holders == 1 && !self.channel_drain(c) {
                return Err(Stop::Restart);
            }
            if home {
                // A channel that outlives its server (somebody keeps it for the next one): who was received by the dead one hears of it.
                if self.domains[d].dead && !self.channels[c].dying && !self.drop_held(c) {
                    return Err(Stop::Restart);
                }
                self.channels[c].home = None;
            }
        }
        let last = match target.kind() {
            PortalKind::Derived if self.portals.at(target).holders == 1 => {
                self.portals.at(target).under
            }
            _ => target,
        };
        if last.kind() == PortalKind::Interrupt && self.domains[d].dead {
            let id = self.domains[d].id;
            self.unbind_dead(last.object(), id);
        }
        if last.kind() == PortalKind::Semaphore {
            let s = self.semaphores.of(last);
            if self.semaphores[s].holders == 1 {
                self.unbind_semaphore(s);
            }
            if !self.semaphore_close(last) {
                return Err(Stop::Restart);
            }
        }
        if target.kind() == PortalKind::Window {
            let w = self.windows.of(target);
            if self.windows[w].holders == 1 && self.windows[w].view.is_some() {
                self.window_close(w);
                return Err(Stop::Restart);
            }
        }
        self.empty(d, slot);
        self.release(target);
        Ok(())
    }

    /// Find the slot for a new entry: the one that was asked for, emptied, or a free one. Everything else must have been checked before.
    #[inline(never)]
    pub(crate) fn make_place(&mut self, d: DomainRef, slot: u64) -> Result<u32, Stop> {
        let table = &self.domains[d].table;
        if slot == AUTO {
            return table.next_free().ok_or(Error::NoSlot.into());
        }
        if slot == 0 || slot >= table.entries() as u64 {
            return Err(Error::BadArgument.into());
        }
        if let Some(target) = table.target(slot) {
            self.close(d, slot as u32, target)?;
        }
        Ok(slot as u32)
    }

    /// Put a new holder of `target` into an empty slot.
    pub(crate) fn place(&mut self, d: DomainRef, slot: u32, target: Target) {
        self.acquire(target);
        self.domains[d].table.install(slot, target);
        if target.kind() == PortalKind::Receive {
            self.channels.at_mut(target).home = Some(d);
        }
    }

    /// A number that is equal for equal objects.
    pub(crate) fn object_id(&self, target: Target) -> u64 {
        let object = match target.kind() {
            PortalKind::Channel | PortalKind::Derived => self.portals.id(self.portals.of(target)),
            PortalKind::Receive => self.channels.id(self.channels.of(target)),
            PortalKind::Domain => self.domains.id(self.domains.of(target)),
            PortalKind::Space => self.spaces.id(self.spaces.of(target)),
            PortalKind::Thread => self.threads.id(self.threads.of(target)),
            PortalKind::Semaphore => self.semaphores.id(self.semaphores.of(target)),
            PortalKind::Window => self.windows.id(self.windows.of(target)),
            _ => target.object(),
        };
        (target.number() as u64) << 32 | object as u64
    }
}

/// Longest run of slots that one share looks at, and most entries that it closes.
pub const SLOT_SHARE: u32 = 256;
pub const CLOSE_SHARE: u32 = 64;

/// Kinds that only ever exist in the table they were put in first.
pub fn is_bound(kind: PortalKind) -> bool {
    kind == PortalKind::Current
}
