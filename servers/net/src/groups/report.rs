//! When routers are told of groups (RFC 3376, 5; RFC 3810, 6): at once what changes, and once more a while later; and when a router asks, within the time
//! that it gives, each link at a moment of its own.
//!
//! What always holds: of a link's groups a few are told of at a time, then others have their turn, so no question makes the server busy for long. A group
//! that nobody is in any more stays until that was told twice, on the account of who left it.

use super::wire::{self, Kind, Message, Query, Report, Version};
use super::{is_everybody, Change, GROUP_COST};
use crate::address::Address;
use crate::interface::{flag, Way};
use crate::internet::Arrived;
use crate::packet::Packet;
use crate::server::Net;
use crate::timers::Owner;
use alloc::vec::Vec;
use cairn_ethernet::fragments::checksum as plain_checksum;
use cairn_resmgr::Context;
use cairn_tcp::time::Time;

/// How often a change is told (the robustness variable), and (µs) how far apart at most.
const TOLD: u8 = 2;
const APART: u64 = 1_000_000;
const MILLISECOND: u64 = 1000;
/// How long an older version is spoken after a router of it was heard: twice the time between questions, and the time for answers.
const OLDER: u64 = 260 * 1_000_000;
/// Groups that are told of at a time, and (µs) how long it is until the next ones.
const SHARE: usize = 64;
const PAUSE: u64 = 10_000;

/// What is still to be told of a group.
#[derive(Default)]
pub(super) struct Pending {
    timer: Option<u32>,
    /// A change is told so often yet, and when next.
    again: u8,
    again_at: u64,
    change: Change,
    /// When a question is answered (0: there is none), which was of these sources only, if there are any.
    answer_at: u64,
    asked: Vec<Address>,
    asked_at: u64,
    /// When somebody else said that he is a member, in an older version: then it need not be said again.
    heard_at: u64,
    /// Nobody is in it: who pays until that was told, and how much.
    payer: Option<(u32, usize)>,
}

/// What is to be told of all groups of an interface, of one family.
#[derive(Default)]
struct Answer {
    /// When (0: there is no question), when that came, and of which next: from the last one down.
    at: u64,
    asked_at: u64,
    next: Option<usize>,
    /// Until then routers speak only these.
    first_until: u64,
    second_until: u64,
}

impl Answer {
    fn version(&self, now: u64) -> Version {
        match now {
            now if now < self.first_until => Version::First,
            now if now < self.second_until => Version::Second,
            _ => Version::Present,
        }
    }
}

/// An interface that has groups.
pub(super) struct Line {
    pub(super) interface: u32,
    pub(super) groups: Vec<u32>,
    timer: Option<u32>,
    v4: Answer,
    v6: Answer,
}

impl Line {
    pub(super) fn new(interface: u32) -> Line {
        Line {
            interface,
            groups: Vec::new(),
            timer: None,
            v4: Answer::default(),
            v6: Answer::default(),
        }
    }

    fn answer(&mut self, v4: bool) -> &mut Answer {
        match v4 {
            true => &mut self.v4,
            false => &mut self.v6,
        }
    }

    /// Of IPv4, as /proc/net/igmp has it.
    pub(super) fn version(&self, now: Time) -> Version {
        self.v4.version(now.0)
    }
}

/// Routers do not care about groups of all nodes, nor about those that do not leave the machine.
fn is_told_of(group: &Address) -> bool {
    !is_everybody(group) && (group.is_v4() || group.0[1] & 15 > 1)
}

impl Net {
    fn line(&mut self, interface: u32) -> Option<&mut Line> {
        let mut lines = self.groups.lines.iter_mut();
        lines.find(|of| of.interface == interface)
    }

    /// The version that is spoken by an interface.
    fn spoken(&mut self, interface: u32, v4: bool) -> Version {
        let now = self.time.0;
        let line = self.line(interface);
        line.map_or(Version::Present, |line| line.answer(v4).version(now))
    }

    fn tells(&self, interface: u32) -> bool {
        let found = self.interfaces.get(interface);
        found.is_some_and(|of| of.flags & flag::UP != 0 && of.flags & flag::LOOPBACK == 0)
    }

    /// Where what is said of groups of a family comes from.
    fn speaker(&self, interface: u32, v4: bool) -> Address {
        let found = self.interfaces.get(interface);
        let mut all = found.into_iter().flat_map(|of| of.addresses());
        let own = all.find(|own| match v4 {
            true => own.address.is_v4(),
            false => own.address.is_link_local() && !own.address.is_v4(),
        });
        let nobody = if v4 { Address::ANY_V4 } else { Address::ANY };
        own.map_or(nobody, |own| own.address)
    }

    fn say(&mut self, cx: &mut Context, interface: u32, made: Option<(Packet, Address)>) {
        let Some((packet, next_hop)) = made else {
            return;
        };
        let way = Way {
            interface,
            next_hop,
            source: next_hop,
            mtu: u32::MAX,
        };
        self.output(cx, packet, &way);
    }

    // ---- changes

    /// Somebody comes, goes or wants other sources, and others are in the group still.
    pub(super) fn group_changes(&mut self, cx: &mut Context, at: u32, change: Change) {
        let Some(group) = self.groups.groups.get(at) else {
            return;
        };
        let (interface, address, payer) = (group.interface, group.address, group.pending.payer);
        // It was left, and is not any more.
        if let Some((payer, cost)) = payer {
            cx.refund(payer, cost);
            if let Some(group) = self.groups.groups.get_mut(at) {
                (group.pending.payer, group.pending.again) = (None, 0);
            }
        }
        if change.is_none() || !is_told_of(&address) || !self.tells(interface) {
            return;
        }
        self.now(cx);
        let v4 = address.is_v4();
        match self.spoken(interface, v4) {
            Version::Present => self.tell_group_change(cx, at, &change),
            version => {
                let source = self.speaker(interface, v4);
                let made = wire::old_message(version, &address, false, source);
                self.say(cx, interface, made);
            }
        }
        self.tell_again(at, change);
    }

    /// The last one goes, and `payer` had it.
    pub(super) fn group_empties(
        &mut self,
        cx: &mut Context,
        at: u32,
        change: Change,
        payer: Option<u32>,
    ) {
        let Some(group) = self.groups.groups.get(at) else {
            return;
        };
        let (interface, address) = (group.interface, group.address);
        if !is_told_of(&address) || !self.tells(interface) {
            return self.end_group(cx, at);
        }
        self.now(cx);
        let v4 = address.is_v4();
        let version = self.spoken(interface, v4);
        match version {
            Version::Present => self.tell_group_change(cx, at, &change),
            version => {
                let source = self.speaker(interface, v4);
                let made = wire::old_message(version, &address, true, source);
                self.say(cx, interface, made);
            }
        }
        let cost = GROUP_COST + change.memory();
        let stays =
            version == Version::Present && payer.is_none_or(|payer| cx.charge(payer, cost).is_ok());
        match self.groups.groups.get_mut(at) {
            Some(group) if stays => group.pending.payer = payer.map(|payer| (payer, cost)),
            _ => return self.end_group(cx, at),
        }
        if !self.tell_again(at, change) {
            self.end_group(cx, at);
        }
    }

    /// The change that was told is told again. False: there is no memory for that.
    fn tell_again(&mut self, at: u32, change: Change) -> bool {
        let (now, random) = (self.time.0, self.random_word());
        let Some(group) = self.groups.groups.get_mut(at) else {
            return false;
        };
        // Of two changes that are told together the whole state is; what the last one takes with him is all that there was.
        group.pending.change = match group.pending.again {
            0 => change,
            _ if group.users == 0 => change,
            _ => Change {
                all: true,
                ..Change::default()
            },
        };
        group.pending.again = TOLD - 1;
        group.pending.again_at = now + random % APART + 1;
        self.set_group_timer(at)
    }

    fn set_group_timer(&mut self, at: u32) -> bool {
        let Some(group) = self.groups.groups.get_mut(at) else {
            return false;
        };
        let pending = &mut group.pending;
        let mut first = u64::MAX;
        if pending.again != 0 {
            first = pending.again_at;
        }
        if pending.answer_at != 0 {
            first = first.min(pending.answer_at);
        }
        if pending.timer.is_none() && first != u64::MAX {
            pending.timer = self.timers.add(Owner::Group(at));
        }
        let Some(timer) = pending.timer else {
            return first == u64::MAX;
        };
        self.timers.set(timer, Time(first));
        true
    }

    /// A group's record goes, if nobody is in it.
    pub(super) fn end_group(&mut self, cx: &mut Context, at: u32) {
        let Some(group) = self.groups.forget(at) else {
            return;
        };
        if let Some(timer) = group.pending.timer {
            self.timers.remove(timer);
        }
        if let Some((payer, cost)) = group.pending.payer {
            cx.refund(payer, cost);
        }
        let line = self.line(group.interface);
        if line.is_some_and(|line| line.groups.is_empty() && line.timer.is_none()) {
            self.groups
                .lines
                .retain(|of| of.interface != group.interface);
        }
    }

    /// An interface is no more; nor are the groups that nobody is in.
    pub(super) fn end_line(&mut self, cx: &mut Context, interface: u32) {
        while let Some(at) = self
            .line(interface)
            .and_then(|of| of.groups.last().copied())
        {
            // (Its addresses are gone, so nobody is in it.)
            if let Some(group) = self.groups.groups.get_mut(at) {
                group.users = 0;
            }
            self.end_group(cx, at);
        }
        if let Some(timer) = self.line(interface).and_then(|line| line.timer.take()) {
            self.timers.remove(timer);
        }
        self.groups.lines.retain(|of| of.interface != interface);
    }

    // ---- records

    /// What is wanted of a group: as a change, or as an answer, then perhaps of some sources only.
    fn tell_state(&mut self, cx: &mut Context, at: u32, changed: bool, asked: &[Address]) {
        let Some(group) = self.groups.groups.get(at) else {
            return;
        };
        let (interface, address) = (group.interface, group.address);
        let mtu = self.interfaces.get(interface).map_or(0, |of| of.mtu);
        let wanted = &group.wanted;
        let mut reports: [Option<Report>; 4] = [None, None, None, None];
        let (mut skipped, total) = (0, wanted.listed().count());
        for report in &mut reports {
            let Some(mut new) = Report::new(address.is_v4(), mtu) else {
                break;
            };
            let taken = match (asked, wanted.exclude(), changed) {
                ([], true, true) => new.add(Kind::ToExclude, &address, wanted.listed()),
                ([], true, false) => new.add(Kind::IsExclude, &address, wanted.listed()),
                ([], false, true) => {
                    new.add(Kind::ToInclude, &address, wanted.listed().skip(skipped))
                }
                ([], false, false) => {
                    new.add(Kind::IsInclude, &address, wanted.listed().skip(skipped))
                }
                (some, ..) => {
                    let those = some.iter().filter(|source| wanted.allows(source)).copied();
                    match those.clone().next() {
                        Some(_) => new.add(Kind::IsInclude, &address, those),
                        // None of them is wanted.
                        None => None,
                    }
                }
            };
            let Some(taken) = taken else { break };
            *report = Some(new);
            skipped += taken;
            // Of all but some what does not fit is left out (RFC 3376, 4.2.16).
            if wanted.exclude() || skipped >= total || !asked.is_empty() {
                break;
            }
        }
        let source = self.speaker(interface, address.is_v4());
        for report in reports.into_iter().flatten() {
            self.say(cx, interface, report.packet(source));
        }
    }

    fn tell_group_change(&mut self, cx: &mut Context, at: u32, change: &Change) {
        match change.all {
            true => self.tell_state(cx, at, true, &[]),
            false => self.tell_sources(cx, at, change),
        }
    }

    /// Sources that are wanted now, and those that are not any more.
    fn tell_sources(&mut self, cx: &mut Context, at: u32, change: &Change) {
        let Some(group) = self.groups.groups.get(at) else {
            return;
        };
        let (interface, address) = (group.interface, group.address);
        let mtu = self.interfaces.get(interface).map_or(0, |of| of.mtu);
        let source = self.speaker(interface, address.is_v4());
        for (kind, mut rest) in [
            (Kind::Allow, &change.allowed[..]),
            (Kind::Block, &change.blocked[..]),
        ] {
            while !rest.is_empty() {
                let Some(mut report) = Report::new(address.is_v4(), mtu) else {
                    return;
                };
                match report.add(kind, &address, rest.iter().copied()) {
                    Some(taken @ 1..) => rest = &rest[taken..],
                    _ => return,
                }
                self.say(cx, interface, report.packet(source));
            }
        }
    }

    // ---- questions

    /// A message of IGMP.
    pub(crate) fn igmp_arrives(&mut self, cx: &mut Context, arrived: &Arrived) {
        let bytes = arrived.packet.payload(arrived.payload);
        // It has not come through a router.
        if arrived.header.ttl != 1 || plain_checksum(bytes) != 0 {
            return;
        }
        if let Some(message) = wire::parse_v4(bytes) {
            self.heard(cx, arrived, message);
        }
    }

    /// A message of MLD, whose checksum was looked at.
    pub(crate) fn mld_arrives(&mut self, cx: &mut Context, arrived: &Arrived) {
        let header = &arrived.header;
        let near = header.source.is_link_local() || header.source.is_any();
        if header.ttl != 1 || !near {
            return;
        }
        if let Some(message) = wire::parse_v6(arrived.packet.payload(arrived.payload)) {
            self.heard(cx, arrived, message);
        }
    }

    fn heard(&mut self, cx: &mut Context, arrived: &Arrived, message: Message) {
        let interface = arrived.interface;
        self.now(cx);
        if !self.tells(interface) {
            return;
        }
        let own = self.interfaces.is_own(&arrived.header.source);
        match message {
            // Somebody else has said it.
            Message::Report(group) if !own => {
                let at = self.groups.places.get(&(interface, group)).copied();
                let group = at.and_then(|at| self.groups.groups.get_mut(at));
                if let Some(group) = group {
                    group.pending.heard_at = self.time.0;
                }
            }
            Message::Query(query) if !own => self.asked(cx, arrived, query),
            _ => {}
        }
    }

    fn asked(&mut self, cx: &mut Context, arrived: &Arrived, query: Query) {
        let interface = arrived.interface;
        let v4 = arrived.header.is_v4();
        let (now, random) = (self.now(cx).0, self.random_word());
        let Some(line) = self.line(interface) else {
            return;
        };
        let answer = line.answer(v4);
        match query.version {
            Version::First => answer.first_until = now + OLDER,
            Version::Second => answer.second_until = now + OLDER,
            Version::Present => {}
        }
        let within = (query.within * MILLISECOND).max(1);
        let due = now + random % within + 1;
        let Some(group) = query.group else {
            // Who asks of all groups asks all nodes.
            if !is_everybody(&arrived.header.destination) {
                return;
            }
            // One that is to be answered sooner has its answer.
            if answer.at == 0 || due < answer.at {
                (answer.at, answer.next, answer.asked_at) = (due, None, now);
            }
            self.set_line_timer(interface);
            return;
        };
        let Some(at) = self.groups.places.get(&(interface, group)).copied() else {
            return;
        };
        let Some(group) = self.groups.groups.get_mut(at) else {
            return;
        };
        if group.users == 0 || !is_told_of(&group.address) {
            return;
        }
        let pending = &mut group.pending;
        // A question of some sources adds to those asked of before; one of all, or too many, makes it all.
        let whole = pending.answer_at != 0 && pending.asked.is_empty();
        let more = query.sources.len();
        match !whole && more != 0 && pending.asked.len() + more <= 64 {
            true if pending.asked.try_reserve(more).is_ok() => {
                let mut new = query.sources;
                new.retain(|source| !pending.asked.contains(source));
                pending.asked.append(&mut new);
            }
            _ => pending.asked.clear(),
        }
        if pending.answer_at == 0 || due < pending.answer_at {
            (pending.answer_at, pending.asked_at) = (due, now);
        }
        self.set_group_timer(at);
    }

    fn set_line_timer(&mut self, interface: u32) {
        let Some(line) = self.line(interface) else {
            return;
        };
        let due = |answer: &Answer| match answer.at {
            0 => u64::MAX,
            at => at,
        };
        let first = due(&line.v4).min(due(&line.v6));
        let timer = match line.timer {
            None if first == u64::MAX => return,
            None => self.timers.add(Owner::Groups(interface)),
            known => known,
        };
        if let Some(line) = self.line(interface) {
            line.timer = timer;
        }
        if let Some(timer) = timer {
            self.timers.set(timer, Time(first));
        }
    }

    /// An interface is up again: routers there may be others.
    pub(crate) fn tell_all_groups(&mut self, cx: &mut Context, interface: u32) {
        let (now, random) = (self.now(cx).0, self.random_word());
        let Some(line) = self.line(interface) else {
            return;
        };
        for answer in [&mut line.v4, &mut line.v6] {
            *answer = Answer::default();
            answer.at = now + random % APART + 1;
        }
        self.set_line_timer(interface);
    }

    /// It is time to tell of a group.
    pub(crate) fn group_time_passes(&mut self, cx: &mut Context, at: u32) {
        let now = self.time.0;
        let Some(group) = self.groups.groups.get_mut(at) else {
            return;
        };
        let (interface, address, users) = (group.interface, group.address, group.users);
        let pending = &mut group.pending;
        let again = pending.again != 0 && pending.again_at <= now;
        let answers = pending.answer_at != 0 && pending.answer_at <= now;
        pending.again -= u8::from(again);
        let change = match again {
            true => core::mem::take(&mut pending.change),
            false => Change::default(),
        };
        let asked = match answers {
            true => core::mem::take(&mut pending.asked),
            false => Vec::new(),
        };
        if answers {
            pending.answer_at = 0;
        }
        let answered = pending.heard_at >= pending.asked_at;
        if self.tells(interface) && (again || answers) {
            let v4 = address.is_v4();
            match self.spoken(interface, v4) {
                Version::Present if again => self.tell_group_change(cx, at, &change),
                Version::Present => self.tell_state(cx, at, false, &asked),
                version if users != 0 && (again || !answered) => {
                    let source = self.speaker(interface, v4);
                    let made = wire::old_message(version, &address, false, source);
                    self.say(cx, interface, made);
                }
                _ => {}
            }
        }
        if users == 0
            && self
                .groups
                .groups
                .get(at)
                .is_some_and(|of| of.pending.again == 0)
        {
            return self.end_group(cx, at);
        }
        self.set_group_timer(at);
    }

    /// It is time to tell of all groups of an interface: of some of them.
    pub(crate) fn groups_time_passes(&mut self, cx: &mut Context, interface: u32) {
        let now = self.time.0;
        for v4 in [true, false] {
            let Some(line) = self.line(interface) else {
                return;
            };
            let last = line.groups.len();
            let answer = line.answer(v4);
            if answer.at == 0 || answer.at > now {
                continue;
            }
            let from = answer.next.unwrap_or(last).min(last);
            let to = from.saturating_sub(SHARE);
            (answer.at, answer.next) = match to {
                0 => (0, None),
                to => (now + PAUSE, Some(to)),
            };
            let what = (v4, answer.version(now), answer.asked_at);
            if self.tells(interface) {
                self.tell_some(cx, interface, what, to..from);
            }
        }
        self.set_line_timer(interface);
    }

    fn tell_some(
        &mut self,
        cx: &mut Context,
        interface: u32,
        (v4, version, asked_at): (bool, Version, u64),
        places: core::ops::Range<usize>,
    ) {
        let source = self.speaker(interface, v4);
        let mtu = self.interfaces.get(interface).map_or(0, |of| of.mtu);
        let mut report: Option<Report> = None;
        for place in places.rev() {
            let mut lines = self.groups.lines.iter();
            let line = lines.find(|of| of.interface == interface);
            let Some(at) = line.and_then(|of| of.groups.get(place).copied()) else {
                continue;
            };
            let Some(group) = self.groups.groups.get(at) else {
                continue;
            };
            let address = group.address;
            if address.is_v4() != v4 || group.users == 0 || !is_told_of(&address) {
                continue;
            }
            if version != Version::Present {
                if group.pending.heard_at < asked_at {
                    let made = wire::old_message(version, &address, false, source);
                    self.say(cx, interface, made);
                }
                continue;
            }
            let count = group.wanted.listed().take(SHARE + 1).count();
            // Many sources have reports of their own.
            if count > SHARE {
                self.tell_state(cx, at, false, &[]);
                continue;
            }
            if report.as_ref().is_some_and(|report| !report.fits(count)) {
                let full = report.take().and_then(|report| report.packet(source));
                self.say(cx, interface, full);
            }
            let Some(group) = self.groups.groups.get(at) else {
                continue;
            };
            let kind = match group.wanted.exclude() {
                true => Kind::IsExclude,
                false => Kind::IsInclude,
            };
            if report.is_none() {
                report = Report::new(v4, mtu);
            }
            if let Some(report) = &mut report {
                report.add(kind, &address, group.wanted.listed());
            }
        }
        let rest = report.and_then(|report| report.packet(source));
        self.say(cx, interface, rest);
    }
}
