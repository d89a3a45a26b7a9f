//! Groups (multicast): which sockets are members of which, by which interface, and what that means for packets.
//!
//! * [`options`] how programs join and leave; [`sources`] of whom they want to hear; [`deliver`] what is sent to a group, and what comes;
//! * [`wire`] messages of IGMP and MLD; [`report`] when routers are told; [`table`] what /proc/net shows.
//!
//! What always holds: a group is found by its interface and address, a membership by its socket and group; nothing goes through all of them. A membership,
//! with its part of the group's record, is on the account of who made the socket, and ends with the socket. A machine is in the groups of all nodes anyway;
//! in those that its addresses of IPv6 need it is without a socket ([`Net::hold_group`]). A packet for one machine costs nothing here.

mod deliver;
mod options;
mod report;
pub mod sources;
mod table;
#[cfg(test)]
mod tests;
pub mod wire;

pub(crate) use deliver::{ALL_V4, ALL_V6};

use crate::address::Address;
use crate::hash::{Key, Map};
use crate::interface::LOOPBACK;
use crate::server::{fail, Net};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;
use cairn_slab::Slab;
use report::{Line, Pending};
use sources::{Change, Filter, Wanted};
use wire::ALL_SYSTEMS;

/// Most memberships of a socket: of IPv4 (igmp_max_memberships), and of IPv6, where Linux says it in bytes.
pub const MOST_V4: u32 = 20;
const MOST_V6: u32 = 2048;
/// Most sources of a membership: igmp_max_msf, mld_max_msf.
pub const SOURCES_V4: usize = 10;
pub const SOURCES_V6: usize = 64;

const ALL_NODES: Address = Address([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
const ALL_NODES_HERE: Address = Address([0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// What a membership costs: itself, a group's record, their places in the tables, and a timer.
const COST: usize = size_of::<Membership>() + GROUP_COST + 128;
const GROUP_COST: usize = size_of::<Group>() + 192;
/// What an address costs, with the group that it may need.
pub(crate) const ADDRESS_COST: usize = size_of::<crate::interface::Own>() + GROUP_COST;
/// What each of its sources costs, here and in the group's record.
const SOURCE_COST: usize = 96;

const NOTHING: u32 = u32::MAX;

/// A group that somebody at this machine is in, by one interface; or that nobody is in any more, until routers know.
struct Group {
    interface: u32,
    address: Address,
    /// Sockets, and addresses of this machine.
    users: u32,
    wanted: Wanted,
    /// Where it stands among those of its interface.
    place: usize,
    pending: Pending,
}

/// That a socket is in a group.
struct Membership {
    socket: u32,
    group: u32,
    filter: Filter,
    /// Among those of its socket.
    next: u32,
    previous: u32,
    /// The same socket and group by another interface.
    also: u32,
}

/// What a socket is in.
#[derive(Clone, Copy)]
struct Set {
    first: u32,
    v4: u32,
    v6: u32,
}

/// Everything about groups.
pub struct Groups {
    groups: Slab<Group>,
    places: Map<(u32, Address), u32>,
    memberships: Slab<Membership>,
    /// The first membership of a socket in a group; the others are behind it.
    by_socket: Map<(u32, Address), u32>,
    sets: Map<u32, Set>,
    /// Interfaces that have groups (there are few interfaces: they are walked).
    lines: Vec<Line>,
}

impl Groups {
    pub fn new(key: impl Fn() -> Key) -> Groups {
        Groups {
            groups: Slab::new(),
            places: Map::new(key()),
            memberships: Slab::new(),
            by_socket: Map::new(key()),
            sets: Map::new(key()),
            lines: Vec::new(),
        }
    }

    /// Groups of sockets; groups in all.
    pub fn counts(&self) -> (usize, usize) {
        (self.memberships.len(), self.groups.len())
    }

    fn group(&self, interface: u32, address: &Address) -> Option<&Group> {
        let at = self.places.get(&(interface, *address))?;
        self.groups.get(*at)
    }

    /// A socket's membership, by one interface.
    fn membership(&self, socket: u32, address: &Address, interface: u32) -> Option<u32> {
        let mut at = self.first(socket, address)?;
        while let Some(membership) = self.memberships.get(at) {
            let group = self.groups.get(membership.group)?;
            if group.interface == interface {
                return Some(at);
            }
            at = membership.also;
        }
        None
    }

    fn first(&self, socket: u32, address: &Address) -> Option<u32> {
        self.by_socket.get(&(socket, *address)).copied()
    }

    fn interface_of(&self, membership: u32) -> Option<u32> {
        let membership = self.memberships.get(membership)?;
        Some(self.groups.get(membership.group)?.interface)
    }

    /// Is a packet to a group, which came by this interface, for this machine?
    pub(crate) fn takes(&self, interface: u32, group: &Address, source: &Address) -> bool {
        if is_everybody(group) {
            return true;
        }
        let group = self.group(interface, group);
        group.is_some_and(|group| group.users != 0 && group.wanted.allows(source))
    }

    /// Shall a socket have it? (`all`: also if it is not in the group itself: IP_MULTICAST_ALL.)
    fn allows(
        &self,
        socket: u32,
        interface: u32,
        (group, source): (&Address, &Address),
        all: bool,
    ) -> bool {
        if self.memberships.is_empty() {
            return all;
        }
        // Of IPv6 it is not asked by which interface, as on Linux.
        let found = match group.is_v4() {
            true => self.membership(socket, group, interface),
            false => self.first(socket, group),
        };
        let found = found.and_then(|at| self.memberships.get(at));
        found.map_or(all, |it| it.filter.allows(source))
    }

    /// The record of a group; a new one if there is none. None: there is no memory.
    fn open(&mut self, interface: u32, address: Address) -> Option<u32> {
        if let Some(at) = self.places.get(&(interface, address)) {
            return Some(*at);
        }
        let line = match self.lines.iter().position(|of| of.interface == interface) {
            Some(line) => line,
            None => {
                self.lines.try_reserve(1).ok()?;
                self.lines.push(Line::new(interface));
                self.lines.len() - 1
            }
        };
        let members = &mut self.lines[line].groups;
        members.try_reserve(1).ok()?;
        let group = Group {
            interface,
            address,
            users: 0,
            wanted: Wanted::default(),
            place: members.len(),
            pending: Pending::default(),
        };
        let at = self.groups.insert(group)?;
        if !self.places.insert((interface, address), at) {
            self.groups.remove(at);
            return None;
        }
        self.lines[line].groups.push(at);
        Some(at)
    }

    /// It goes, if nobody is in it.
    fn forget(&mut self, at: u32) -> Option<Group> {
        self.groups.get(at).filter(|group| group.users == 0)?;
        let group = self.groups.remove(at)?;
        self.places.remove(&(group.interface, group.address));
        let mut lines = self.lines.iter_mut();
        if let Some(line) = lines.find(|of| of.interface == group.interface) {
            line.groups.swap_remove(group.place);
            let moved = line.groups.get(group.place).copied();
            if let Some(moved) = moved.and_then(|moved| self.groups.get_mut(moved)) {
                moved.place = group.place;
            }
        }
        Some(group)
    }

    /// A membership comes to those of its socket. False: there is no memory.
    fn list(&mut self, at: u32, socket: u32, address: &Address) -> bool {
        let set = self.sets.get(&socket).copied();
        let mut set = set.unwrap_or(Set {
            first: NOTHING,
            v4: 0,
            v6: 0,
        });
        let also = self.first(socket, address).unwrap_or(NOTHING);
        if !self.by_socket.insert((socket, *address), at) {
            return false;
        }
        let next = core::mem::replace(&mut set.first, at);
        match address.is_v4() {
            true => set.v4 += 1,
            false => set.v6 += 1,
        }
        if !self.sets.insert(socket, set) {
            self.relink(socket, address, at, also);
            return false;
        }
        if let Some(next) = self.memberships.get_mut(next) {
            next.previous = at;
        }
        if let Some(membership) = self.memberships.get_mut(at) {
            (membership.next, membership.also) = (next, also);
        }
        true
    }

    /// What leads to this membership by its group leads to another one, or nowhere.
    fn relink(&mut self, socket: u32, address: &Address, from: u32, to: u32) {
        let Some(mut at) = self.first(socket, address) else {
            return;
        };
        if at == from {
            match to {
                NOTHING => _ = self.by_socket.remove(&(socket, *address)),
                _ => {
                    if let Some(first) = self.by_socket.get_mut(&(socket, *address)) {
                        *first = to;
                    }
                }
            }
            return;
        }
        while let Some(membership) = self.memberships.get_mut(at) {
            at = membership.also;
            if at == from {
                membership.also = to;
                return;
            }
        }
    }

    /// And goes from them.
    fn unlist(&mut self, at: u32) -> Option<Membership> {
        let membership = self.memberships.get(at)?;
        let (socket, next, previous) = (membership.socket, membership.next, membership.previous);
        let also = membership.also;
        let address = self.groups.get(membership.group)?.address;
        self.relink(socket, &address, at, also);
        if let Some(next) = self.memberships.get_mut(next) {
            next.previous = previous;
        }
        if let Some(previous) = self.memberships.get_mut(previous) {
            previous.next = next;
        }
        if let Some(set) = self.sets.get_mut(&socket) {
            if set.first == at {
                set.first = next;
            }
            match address.is_v4() {
                true => set.v4 -= 1,
                false => set.v6 -= 1,
            }
            if set.first == NOTHING {
                self.sets.remove(&socket);
            }
        }
        self.memberships.remove(at)
    }
}

/// All nodes: everybody is in it.
fn is_everybody(group: &Address) -> bool {
    *group == ALL_SYSTEMS || *group == ALL_NODES || *group == ALL_NODES_HERE
}

fn cost(filter: &Filter) -> usize {
    COST + filter.sources.len() * SOURCE_COST
}

impl Net {
    /// A socket comes into a group.
    fn join(
        &mut self,
        cx: &mut Context,
        socket: u32,
        (interface, address): (u32, Address),
        filter: Filter,
    ) -> Answer<()> {
        if self
            .groups
            .membership(socket, &address, interface)
            .is_some()
        {
            return fail(EADDRINUSE);
        }
        let v4 = address.is_v4();
        let set = self.groups.sets.get(&socket);
        match set {
            Some(set) if v4 && set.v4 >= MOST_V4 => return fail(ENOBUFS),
            Some(set) if !v4 && set.v6 >= MOST_V6 => return fail(ENOMEM),
            _ => {}
        }
        let payer = self.socket(socket)?.payer;
        let cost = cost(&filter);
        cx.charge(payer, cost)?;
        if self.put_member(cx, socket, (interface, address), filter) {
            return Ok(());
        }
        cx.refund(payer, cost);
        fail(ENOMEM)
    }

    fn put_member(
        &mut self,
        cx: &mut Context,
        socket: u32,
        (interface, address): (u32, Address),
        filter: Filter,
    ) -> bool {
        let groups = &mut self.groups;
        let Some(group) = groups.open(interface, address) else {
            return false;
        };
        let membership = Membership {
            socket,
            group,
            filter,
            next: NOTHING,
            previous: NOTHING,
            also: NOTHING,
        };
        let at = groups.memberships.insert(membership);
        let listed = at.filter(|at| groups.list(*at, socket, &address));
        let changed = listed.and_then(|at| {
            let filter = &groups.memberships.get(at)?.filter;
            let group = groups.groups.get_mut(group)?;
            group.wanted.change(None, Some(filter))
        });
        match (at, listed, changed) {
            (_, _, Some(change)) => {
                self.comes(cx, group, change);
                true
            }
            (_, Some(at), None) => {
                self.groups.unlist(at);
                self.end_group(cx, group);
                false
            }
            (at, None, None) => {
                if let Some(at) = at {
                    self.groups.memberships.remove(at);
                }
                self.end_group(cx, group);
                false
            }
        }
    }

    /// One more is in it.
    fn comes(&mut self, cx: &mut Context, at: u32, change: Change) {
        if let Some(group) = self.groups.groups.get_mut(at) {
            group.users += 1;
        }
        self.group_changes(cx, at, change);
    }

    /// One fewer is in it.
    fn goes(&mut self, cx: &mut Context, at: u32, change: Change, payer: Option<u32>) {
        let Some(group) = self.groups.groups.get_mut(at) else {
            return;
        };
        group.users -= 1;
        match group.users {
            0 => self.group_empties(cx, at, change, payer),
            _ => self.group_changes(cx, at, change),
        }
    }

    /// A membership ends.
    fn leave(&mut self, cx: &mut Context, at: u32) {
        let Some(membership) = self.groups.unlist(at) else {
            return;
        };
        let payer = self.sockets.get(membership.socket).map(|of| of.payer);
        if let Some(payer) = payer {
            cx.refund(payer, cost(&membership.filter));
        }
        let group = self.groups.groups.get_mut(membership.group);
        let change = group.map(|group| {
            let change = group.wanted.change(Some(&membership.filter), None);
            // (Without memory for it all is told.)
            change.unwrap_or(Change {
                all: true,
                ..Change::default()
            })
        });
        if let Some(change) = change {
            self.goes(cx, membership.group, change, payer);
        }
    }

    /// What a membership wants is something else now.
    fn change_filter(&mut self, cx: &mut Context, at: u32, filter: Filter) -> Answer<()> {
        let Some(membership) = self.groups.memberships.get_mut(at) else {
            return fail(EADDRNOTAVAIL);
        };
        let (socket, group) = (membership.socket, membership.group);
        let payer = self.sockets.get(socket).map_or(0, |of| of.payer);
        let (before, after) = (cost(&membership.filter), cost(&filter));
        if after > before {
            cx.charge(payer, after - before)?;
        }
        let of = self.groups.groups.get_mut(group);
        let change = of.and_then(|of| of.wanted.change(Some(&membership.filter), Some(&filter)));
        let Some(change) = change else {
            cx.refund(payer, after.saturating_sub(before));
            return fail(ENOBUFS);
        };
        membership.filter = filter;
        cx.refund(payer, before.saturating_sub(after));
        self.group_changes(cx, group, change);
        Ok(())
    }

    /// Nobody has the socket any more.
    pub(crate) fn leave_all_groups(&mut self, cx: &mut Context, socket: u32) {
        while let Some(set) = self.groups.sets.get(&socket) {
            let first = set.first;
            self.leave(cx, first);
        }
    }

    /// This machine itself is in a group, because of an address of its own. False: there is no memory.
    pub(crate) fn hold_group(&mut self, cx: &mut Context, interface: u32, own: &Address) -> bool {
        if own.is_v4() || interface == LOOPBACK {
            return true;
        }
        let Some(at) = self.groups.open(interface, solicited(own)) else {
            return false;
        };
        let group = self.groups.groups.get_mut(at);
        let change = group.and_then(|of| of.wanted.change(None, Some(&Filter::any())));
        match change {
            Some(change) => self.comes(cx, at, change),
            None => self.end_group(cx, at),
        }
        self.groups.group(interface, &solicited(own)).is_some()
    }

    pub(crate) fn release_group(&mut self, cx: &mut Context, interface: u32, own: &Address) {
        if own.is_v4() || interface == LOOPBACK {
            return;
        }
        let place = (interface, solicited(own));
        let Some(at) = self.groups.places.get(&place).copied() else {
            return;
        };
        let group = self.groups.groups.get_mut(at);
        let change = group.and_then(|of| of.wanted.change(Some(&Filter::any()), None));
        let whole = Change {
            all: true,
            ..Change::default()
        };
        self.goes(cx, at, change.unwrap_or(whole), None);
    }

    /// An interface is no more, nor what is in groups by it.
    pub(crate) fn forget_groups(&mut self, cx: &mut Context, interface: u32) {
        for at in 0..self.groups.memberships.end() {
            if self.groups.interface_of(at) == Some(interface) {
                self.leave(cx, at);
            }
        }
        self.end_line(cx, interface);
    }
}

/// The group that is asked for the station with this address.
fn solicited(own: &Address) -> Address {
    Address(cairn_ethernet::autoconf::solicited_group(&own.0))
}
