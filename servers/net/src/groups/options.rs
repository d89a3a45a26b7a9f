//! Options about groups (ip(7), ipv6(7), RFC 3678): the structures of programs, checked whole before anything changes. Errors are Linux's.

use super::sources::Filter;
use super::{SOURCES_V4, SOURCES_V6};
use crate::address::Address;
use crate::server::{fail, Net};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::net::{INET, INET6};
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;

/// Options of IP.
mod ip {
    pub const MULTICAST_IF: u32 = 32;
    pub const ADD: u32 = 35;
    pub const DROP: u32 = 36;
    pub const UNBLOCK_SOURCE: u32 = 37;
    pub const BLOCK_SOURCE: u32 = 38;
    pub const ADD_SOURCE: u32 = 39;
    pub const DROP_SOURCE: u32 = 40;
    pub const MSFILTER: u32 = 41;
}

/// Options of IPv6.
mod ipv6 {
    pub const JOIN: u32 = 20;
    pub const LEAVE: u32 = 21;
}

/// Options of both.
mod mcast {
    pub const JOIN_GROUP: u32 = 42;
    pub const BLOCK_SOURCE: u32 = 43;
    pub const UNBLOCK_SOURCE: u32 = 44;
    pub const LEAVE_GROUP: u32 = 45;
    pub const JOIN_SOURCE_GROUP: u32 = 46;
    pub const LEAVE_SOURCE_GROUP: u32 = 47;
    pub const MSFILTER: u32 = 48;
}

/// Bytes of `struct sockaddr_storage`; of `struct group_req`, `struct group_source_req`; of `struct group_filter` and `struct ip_msfilter` without sources.
const STORAGE: usize = 128;
const GROUP_REQ: usize = 8 + STORAGE;
const SOURCE_REQ: usize = 8 + 2 * STORAGE;
const GROUP_FILTER: usize = 16 + STORAGE;
const IP_FILTER: usize = 16;
/// A filter is no longer (net.core.optmem_max).
const OPTION_MEMORY: usize = 131_072;

/// What is done with a source: it is named, or not any more, of those that are wanted, or of those that are not.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Step {
    exclude: bool,
    adds: bool,
}

const BLOCK: Step = Step {
    exclude: true,
    adds: true,
};
const UNBLOCK: Step = Step {
    exclude: true,
    adds: false,
};
const JOIN_SOURCE: Step = Step {
    exclude: false,
    adds: true,
};
const LEAVE_SOURCE: Step = Step {
    exclude: false,
    adds: false,
};

/// Where a group is: by an interface's number, by an address of it, or (both 0) where the routes lead.
#[derive(Clone, Copy)]
struct Place {
    group: Address,
    number: u32,
    address: Address,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn v4(bytes: &[u8], at: usize) -> Address {
    Address::v4(word(bytes, at).to_ne_bytes())
}

/// The address of a `struct sockaddr`, and its family.
fn named(bytes: &[u8], v4_wanted: bool) -> (u64, Address) {
    let family = u64::from(word(bytes, 0) as u16);
    let address = match v4_wanted {
        true => v4(bytes, 4),
        false => {
            let address = bytes.get(8..).and_then(|bytes| bytes.first_chunk());
            Address(address.copied().unwrap_or_default())
        }
    };
    (family, address)
}

/// Is a group of the family that the option is of?
fn is_group(group: &Address, v4: bool) -> bool {
    group.is_multicast() && group.is_v4() == v4
}

impl Net {
    /// Is this an option whose value is a structure about groups?
    pub(crate) fn is_about_groups(level_is_v4: bool, number: u32) -> bool {
        match level_is_v4 {
            true => matches!(number, ip::MULTICAST_IF | ip::ADD..=mcast::MSFILTER),
            false => {
                matches!(
                    number,
                    ipv6::JOIN | ipv6::LEAVE | mcast::JOIN_GROUP..=mcast::MSFILTER
                )
            }
        }
    }

    pub(crate) fn set_group_option(
        &mut self,
        cx: &mut Context,
        index: u32,
        (is_v4, number): (bool, u32),
    ) -> Answer<()> {
        let socket = self.socket(index)?;
        let (stream, family) = (socket.is_stream(), socket.family);
        if !is_v4 && family == INET {
            return fail(ENOPROTOOPT);
        }
        let length = cx.request.out_len;
        let mut bytes = [0; SOURCE_REQ];
        let known = length.min(SOURCE_REQ);
        let least = match (is_v4, number) {
            (true, ip::MULTICAST_IF) => 4,
            (true, ip::ADD | ip::DROP) => 8,
            (true, ip::UNBLOCK_SOURCE..=ip::DROP_SOURCE) => 12,
            (true, ip::MSFILTER) => IP_FILTER,
            (false, ipv6::JOIN | ipv6::LEAVE) => 20,
            (_, mcast::JOIN_GROUP | mcast::LEAVE_GROUP) => GROUP_REQ,
            (_, mcast::MSFILTER) => GROUP_FILTER,
            _ => SOURCE_REQ,
        };
        let exact = matches!(least, 12 | SOURCE_REQ);
        let plain = matches!(number, ip::ADD | ip::DROP | ipv6::JOIN | ipv6::LEAVE);
        if stream && (plain || matches!(number, mcast::JOIN_GROUP | mcast::LEAVE_GROUP)) {
            return fail(EPROTO);
        }
        if length < least || exact && is_v4 && length != least || stream && least == 4 {
            return fail(EINVAL);
        }
        if matches!(number, ip::MSFILTER | mcast::MSFILTER) && length > OPTION_MEMORY {
            return fail(ENOBUFS);
        }
        cx.fetch(0, &mut bytes[..known])?;
        let bytes = &bytes[..known];
        match (is_v4, number) {
            (true, ip::MULTICAST_IF) => self.set_multicast_if(index, bytes),
            (true, ip::ADD | ip::DROP) => {
                let place = Place {
                    group: v4(bytes, 0),
                    // (`struct ip_mreq` has no number.)
                    number: if length >= 12 { word(bytes, 8) } else { 0 },
                    address: v4(bytes, 4),
                };
                match number {
                    ip::ADD => self.join_place(cx, index, (true, place), Filter::any()),
                    _ => self.leave_place(cx, index, true, place),
                }
            }
            (true, ip::UNBLOCK_SOURCE..=ip::DROP_SOURCE) => {
                let place = Place {
                    group: v4(bytes, 0),
                    number: 0,
                    address: v4(bytes, 4),
                };
                let step = match number {
                    ip::UNBLOCK_SOURCE => UNBLOCK,
                    ip::BLOCK_SOURCE => BLOCK,
                    ip::ADD_SOURCE => JOIN_SOURCE,
                    _ => LEAVE_SOURCE,
                };
                self.step(cx, index, (true, place), v4(bytes, 8), step)
            }
            (true, ip::MSFILTER) => {
                let place = Place {
                    group: v4(bytes, 0),
                    number: 0,
                    address: v4(bytes, 4),
                };
                let count = word(bytes, 12) as usize;
                if count > SOURCES_V4 {
                    return fail(ENOBUFS);
                }
                if IP_FILTER + 4 * count > length {
                    return fail(EINVAL);
                }
                let mut all = [0; 4 * SOURCES_V4];
                let all = &mut all[..4 * count];
                cx.fetch(IP_FILTER, all)?;
                let sources: [Address; SOURCES_V4] = core::array::from_fn(|at| v4(all, 4 * at));
                let mode = word(bytes, 8);
                self.set_filter_of(cx, index, (true, place), mode, &sources[..count])
            }
            (false, ipv6::JOIN | ipv6::LEAVE) => {
                let group = bytes.first_chunk().copied().unwrap_or_default();
                let place = Place {
                    group: Address(group),
                    number: word(bytes, 16),
                    address: Address::ANY,
                };
                match number {
                    ipv6::JOIN => self.join_place(cx, index, (false, place), Filter::any()),
                    _ => self.leave_place(cx, index, false, place),
                }
            }
            (_, mcast::MSFILTER) => self.set_group_filter(cx, index, is_v4, bytes),
            _ => self.set_any(cx, index, (is_v4, number), bytes),
        }
    }

    /// MCAST_JOIN_GROUP and those with a source.
    fn set_any(
        &mut self,
        cx: &mut Context,
        index: u32,
        (is_v4, number): (bool, u32),
        bytes: &[u8],
    ) -> Answer<()> {
        let wanted = if is_v4 { INET } else { INET6 };
        let (family, group) = named(&bytes[8..], is_v4);
        let place = Place {
            group,
            number: word(bytes, 0),
            address: group.wildcard(),
        };
        let whole = matches!(number, mcast::JOIN_GROUP | mcast::LEAVE_GROUP);
        if family != wanted {
            return fail(if whole && is_v4 {
                EINVAL
            } else {
                EADDRNOTAVAIL
            });
        }
        if whole {
            return match number {
                mcast::JOIN_GROUP => self.join_place(cx, index, (is_v4, place), Filter::any()),
                _ => self.leave_place(cx, index, is_v4, place),
            };
        }
        let (family, source) = named(&bytes[8 + STORAGE..], is_v4);
        if family != wanted {
            return fail(EADDRNOTAVAIL);
        }
        let step = match number {
            mcast::BLOCK_SOURCE => BLOCK,
            mcast::UNBLOCK_SOURCE => UNBLOCK,
            mcast::JOIN_SOURCE_GROUP => JOIN_SOURCE,
            mcast::LEAVE_SOURCE_GROUP => LEAVE_SOURCE,
            _ => return fail(ENOPROTOOPT),
        };
        self.step(cx, index, (is_v4, place), source, step)
    }

    /// MCAST_MSFILTER
    fn set_group_filter(
        &mut self,
        cx: &mut Context,
        index: u32,
        is_v4: bool,
        bytes: &[u8],
    ) -> Answer<()> {
        let (mode, count) = (word(bytes, 8 + STORAGE), word(bytes, 12 + STORAGE) as usize);
        let most = if is_v4 { SOURCES_V4 } else { SOURCES_V6 };
        if count > most {
            return fail(ENOBUFS);
        }
        if GROUP_FILTER + STORAGE * count > cx.request.out_len {
            return fail(EINVAL);
        }
        let (family, group) = named(&bytes[8..], is_v4);
        let wanted = if is_v4 { INET } else { INET6 };
        if is_v4 && family != wanted {
            return fail(EINVAL);
        }
        let mut sources = [Address::ANY; SOURCES_V6];
        for (at, source) in sources[..count].iter_mut().enumerate() {
            let mut one = [0; 28];
            cx.fetch(GROUP_FILTER + STORAGE * at, &mut one)?;
            let (family, address) = named(&one, is_v4);
            if is_v4 && family != wanted {
                return fail(EADDRNOTAVAIL);
            }
            *source = address;
        }
        let place = Place {
            group,
            number: word(bytes, 0),
            address: group.wildcard(),
        };
        self.set_filter_of(cx, index, (is_v4, place), mode, &sources[..count])
    }

    /// The interface that is meant.
    fn interface_for(&self, place: &Place) -> Answer<u32> {
        let number = match place.number {
            0 if !place.address.is_any() => self.interface_with(&place.address),
            0 => {
                let way = self.way_to_group(&place.group, 0);
                way.map(|way| way.interface)
            }
            number => self.interfaces.get(number).map(|of| of.number),
        };
        number.map_or_else(|| fail(ENODEV), Ok)
    }

    /// The interface that has an address.
    fn interface_with(&self, address: &Address) -> Option<u32> {
        let mut all = self.interfaces.all.iter();
        let found = all.find(|of| of.addresses().iter().any(|own| own.address == *address));
        match found {
            Some(interface) => Some(interface.number),
            None => address.is_loopback().then_some(crate::interface::LOOPBACK),
        }
    }

    fn join_place(
        &mut self,
        cx: &mut Context,
        index: u32,
        (is_v4, place): (bool, Place),
        filter: Filter,
    ) -> Answer<()> {
        if !is_group(&place.group, is_v4) {
            return fail(EINVAL);
        }
        // Of IPv6 "any interface" is where it is already.
        if !is_v4 && place.number == 0 && self.groups.first(index, &place.group).is_some() {
            return fail(EADDRINUSE);
        }
        let interface = self.interface_for(&place)?;
        self.join(cx, index, (interface, place.group), filter)
    }

    /// The membership that is meant.
    fn member_at(&self, index: u32, is_v4: bool, place: &Place) -> Answer<Option<u32>> {
        Ok(match (is_v4, place.number) {
            (false, 0) => self.groups.first(index, &place.group),
            // (One that is gone has no members.)
            (false, number) => self.groups.membership(index, &place.group, number),
            (true, _) => {
                let interface = match self.interface_for(place) {
                    Ok(interface) => interface,
                    Err(_) if place.number != 0 || !place.address.is_any() => return Ok(None),
                    Err(failure) => return Err(failure),
                };
                self.groups.membership(index, &place.group, interface)
            }
        })
    }

    fn leave_place(
        &mut self,
        cx: &mut Context,
        index: u32,
        is_v4: bool,
        place: Place,
    ) -> Answer<()> {
        if !is_v4 && !is_group(&place.group, false) {
            return fail(EINVAL);
        }
        match self.member_at(index, is_v4, &place)? {
            Some(at) => self.leave(cx, at),
            None => return fail(EADDRNOTAVAIL),
        }
        Ok(())
    }

    /// One source more or less.
    fn step(
        &mut self,
        cx: &mut Context,
        index: u32,
        (is_v4, place): (bool, Place),
        source: Address,
        step: Step,
    ) -> Answer<()> {
        if !is_group(&place.group, is_v4) {
            return fail(EINVAL);
        }
        let interface = self.interface_for(&place)?;
        let group = place.group;
        let found = match is_v4 {
            true => self.groups.membership(index, &group, interface),
            false => self.member_at(index, false, &place)?,
        };
        let Some(at) = found else {
            // Who wants one source may come with it.
            if step != JOIN_SOURCE {
                return fail(EINVAL);
            }
            let Some(filter) = Filter::of(false, &[source]) else {
                return fail(ENOBUFS);
            };
            return self.join(cx, index, (interface, group), filter);
        };
        let Some(membership) = self.groups.memberships.get(at) else {
            return fail(EINVAL);
        };
        let (known, exclude) = (&membership.filter.sources, membership.filter.exclude);
        // One that names nobody may change its mind.
        if exclude != step.exclude && membership.filter.fixed {
            return fail(EINVAL);
        }
        let place = known.iter().position(|of| *of == source);
        let most = if is_v4 { SOURCES_V4 } else { SOURCES_V6 };
        match (step.adds, place) {
            (false, None) => {
                // (The other mode stays.)
                if exclude != step.exclude {
                    let filter = Filter::of(step.exclude, &[]);
                    if let Some(filter) = filter {
                        self.change_filter(cx, at, filter)?;
                    }
                }
                return fail(EADDRNOTAVAIL);
            }
            (false, Some(_)) if known.len() == 1 && !exclude => {
                self.leave(cx, at);
                return Ok(());
            }
            (true, _) if known.len() >= most => return fail(ENOBUFS),
            (true, Some(_)) => return fail(EADDRNOTAVAIL),
            _ => {}
        }
        let mut sources = Vec::new();
        if sources.try_reserve_exact(known.len() + 1).is_err() {
            return fail(ENOBUFS);
        }
        sources.extend_from_slice(known);
        match place {
            Some(place) => _ = sources.remove(place),
            None => sources.push(source),
        }
        let filter = Filter {
            exclude: step.exclude,
            sources,
            fixed: true,
        };
        self.change_filter(cx, at, filter)
    }

    /// All sources at once.
    fn set_filter_of(
        &mut self,
        cx: &mut Context,
        index: u32,
        (is_v4, place): (bool, Place),
        mode: u32,
        sources: &[Address],
    ) -> Answer<()> {
        if !is_group(&place.group, is_v4) || mode > 1 {
            return fail(EINVAL);
        }
        let interface = self.interface_for(&place)?;
        let exclude = mode == 0;
        if !exclude && sources.is_empty() {
            return self.leave_place(cx, index, is_v4, place);
        }
        let found = match is_v4 {
            true => self.groups.membership(index, &place.group, interface),
            false => self.member_at(index, false, &place)?,
        };
        let Some(at) = found else {
            return fail(EINVAL);
        };
        match Filter::of(exclude, sources) {
            Some(filter) => self.change_filter(cx, at, filter),
            None => fail(ENOBUFS),
        }
    }

    /// IP_MSFILTER and MCAST_MSFILTER: the program's structure says of which group, and how many sources there is room for.
    pub(crate) fn get_group_filter(
        &mut self,
        cx: &mut Context,
        index: u32,
        (is_v4, number): (bool, u32),
    ) -> Answer<()> {
        let old = is_v4 && number == ip::MSFILTER;
        if !old && number != mcast::MSFILTER {
            return fail(ENOPROTOOPT);
        }
        if !is_v4 && self.socket(index)?.is_v4() {
            return fail(ENOPROTOOPT);
        }
        let head = if old { IP_FILTER } else { GROUP_FILTER };
        if cx.request.out_len < head {
            return fail(EINVAL);
        }
        let mut bytes = [0; GROUP_FILTER];
        let bytes = &mut bytes[..head];
        cx.fetch(0, bytes)?;
        let place = match old {
            true => Place {
                group: v4(bytes, 0),
                number: 0,
                address: v4(bytes, 4),
            },
            false => {
                let (family, group) = named(&bytes[8..], is_v4);
                if family != if is_v4 { INET } else { INET6 } {
                    return fail(if is_v4 { EINVAL } else { EADDRNOTAVAIL });
                }
                Place {
                    group,
                    number: word(bytes, 0),
                    address: group.wildcard(),
                }
            }
        };
        if !is_group(&place.group, is_v4) {
            return fail(EINVAL);
        }
        let at = match old || !is_v4 {
            true => {
                let interface = self.interface_for(&place)?;
                match is_v4 {
                    true => self.groups.membership(index, &place.group, interface),
                    false => self.member_at(index, false, &place)?,
                }
            }
            false => self.groups.membership(index, &place.group, place.number),
        };
        let Some(membership) = at.and_then(|at| self.groups.memberships.get(at)) else {
            return fail(EADDRNOTAVAIL);
        };
        let filter = &membership.filter;
        let mode = u32::from(!filter.exclude).to_ne_bytes();
        let count = (filter.sources.len() as u32).to_ne_bytes();
        let room = word(bytes, head - 4) as usize;
        bytes[head - 8..head - 4].copy_from_slice(&mode);
        bytes[head - 4..].copy_from_slice(&count);
        if self
            .scratch
            .try_reserve(head + room.min(SOURCES_V6) * STORAGE)
            .is_err()
        {
            return fail(ENOBUFS);
        }
        self.scratch.extend_from_slice(bytes);
        for source in filter.sources.iter().take(room) {
            let start = self.scratch.len();
            match (old, source.as_v4()) {
                (true, Some(bytes)) => self.scratch.extend_from_slice(&bytes),
                (_, Some(bytes)) if is_v4 => {
                    let family = (INET as u16).to_ne_bytes();
                    self.scratch
                        .extend_from_slice(&[family[0], family[1], 0, 0]);
                    self.scratch.extend_from_slice(&bytes);
                    self.scratch.resize(start + STORAGE, 0);
                }
                _ => {
                    let family = (INET6 as u16).to_ne_bytes();
                    self.scratch.extend_from_slice(&family);
                    self.scratch.resize(start + 8, 0);
                    self.scratch.extend_from_slice(&source.0);
                    self.scratch.resize(start + STORAGE, 0);
                }
            }
        }
        Ok(())
    }

    /// IP_MULTICAST_IF: `struct in_addr`, `struct ip_mreq` or `struct ip_mreqn`.
    fn set_multicast_if(&mut self, index: u32, bytes: &[u8]) -> Answer<()> {
        let (address, number) = match bytes.len() {
            12.. => (v4(bytes, 4), word(bytes, 8)),
            8.. => (v4(bytes, 4), 0),
            _ => (v4(bytes, 0), 0),
        };
        let found = match number {
            0 if address.is_any() => Some(0),
            0 => self.interface_with(&address),
            number => self.interfaces.get(number).map(|of| of.number),
        };
        let Some(found) = found else {
            return fail(EADDRNOTAVAIL);
        };
        let options = &mut self.socket_mut(index)?.options;
        if options.device != 0 && found != options.device && found != 0 {
            return fail(EINVAL);
        }
        (options.multicast_if, options.multicast_from) = (found, address);
        Ok(())
    }

    /// IPV6_MULTICAST_IF.
    pub(crate) fn set_multicast_if6(&mut self, index: u32, number: u32) -> Answer<()> {
        let known = number == 0 || self.interfaces.get(number).is_some();
        let socket = self.socket_mut(index)?;
        let options = &mut socket.options;
        if number != 0 && options.device != 0 && options.device != number {
            return fail(EINVAL);
        }
        if !known {
            return fail(ENODEV);
        }
        options.multicast_if6 = number;
        Ok(())
    }
}
