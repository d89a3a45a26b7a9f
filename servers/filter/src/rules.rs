//! Rules: what they are made of, what they say of a packet, and how they are shown. The text that they come from is [`crate::parse`]'s.
//!
//! A rule's items are gone through in their order, as nft(8) has it: a packet that does not match one of them is none of the rule's. So a counter in front of a
//! match counts more than one behind it.

use crate::log::Log;
use crate::tuple::{self, Address, Tuple};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// Bounds of a text.
pub const TEXT: usize = 65_536;
pub const TABLES: usize = 16;
pub const CHAINS: usize = 64;
pub const RULES: usize = 1024;
pub const ITEMS: usize = 16;
pub const SETS: usize = 64;
/// Chains that a packet is in at once, and rules that it goes through in all chains of a hook, at most.
pub const DEPTH: usize = 16;
pub const STEPS: usize = 4096;
pub const NAME: usize = 31;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Inet,
    Ip,
    Ip6,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    Input = 0,
    Forward = 1,
    Output = 2,
    Prerouting = 3,
    Postrouting = 4,
}

pub const HOOKS: usize = 5;

impl Hook {
    pub fn name(self) -> &'static str {
        ["input", "forward", "output", "prerouting", "postrouting"][self as usize]
    }
}

/// Bits of a connection's state, as `ct state` names them.
pub mod state {
    pub const NEW: u8 = 1;
    pub const ESTABLISHED: u8 = 2;
    pub const RELATED: u8 = 4;
    pub const INVALID: u8 = 8;
    pub const UNTRACKED: u8 = 16;
    pub const NAMES: [(&str, u8); 5] = [
        ("new", NEW),
        ("established", ESTABLISHED),
        ("related", RELATED),
        ("invalid", INVALID),
        ("untracked", UNTRACKED),
    ];
}

/// How a refused packet's sender is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Port,
    Prohibited,
    Host,
    Net,
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Accept,
    Drop,
    Reject(Refusal),
}

/// What a named set has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    V4,
    V6,
    Port,
    Protocol,
}

impl Kind {
    pub const NAMES: [(&'static str, Kind); 4] = [
        ("ipv4_addr", Kind::V4),
        ("ipv6_addr", Kind::V6),
        ("inet_service", Kind::Port),
        ("inet_proto", Kind::Protocol),
    ];
}

#[derive(Debug, PartialEq, Eq)]
pub struct Set {
    pub name: String,
    pub kind: Kind,
    pub all: Ranges,
}

/// Ports or addresses that lie in one of these, which are in order and do not touch; or in those of a named set.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ranges(pub Vec<(u128, u128)>, pub Option<Rc<Set>>);

impl Ranges {
    pub fn contains(&self, number: u128) -> bool {
        let all = self.1.as_ref().map_or(&self.0, |set| &set.all.0);
        let at = all.partition_point(|of| of.1 < number);
        all.get(at).is_some_and(|of| of.0 <= number)
    }

    /// In their order, joined.
    pub fn settle(&mut self) {
        self.0.sort_unstable();
        self.0.dedup_by(|next, kept| {
            let touches = next.0 <= kept.1.saturating_add(1);
            if touches {
                kept.1 = kept.1.max(next.1);
            }
            touches
        });
    }
}

/// Names of interfaces; one that ends in `*` stands for all that begin so.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Names {
    pub names: Vec<String>,
    /// Which of the interfaces have one of them, by their places.
    pub places: [u64; 2],
}

impl Names {
    fn has(&self, place: Option<u8>) -> bool {
        let of = |place: u8| self.places[usize::from(place >> 6) & 1] >> (place & 63) & 1 != 0;
        place.is_some_and(of)
    }

    fn is_one(&self, name: &[u8]) -> bool {
        self.names.iter().any(|own| match own.strip_suffix('*') {
            Some(start) => name.starts_with(start.as_bytes()),
            None => own.as_bytes() == name,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Source,
    Destination,
}

/// So many in a time, on the average, and at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub over: bool,
    pub rate: u64,
    /// Its name, and nanoseconds.
    pub unit: (&'static str, u64),
    pub burst: u64,
    /// What has come together, in nanoseconds, at that time.
    pub credit: u64,
    pub since: u64,
}

impl Limit {
    /// Is the packet within the rate?
    fn takes(&mut self, now: u64) -> bool {
        let each = self.unit.1 / self.rate.max(1);
        let most = each.saturating_mul(self.burst);
        let come = now.saturating_sub(self.since);
        self.credit = self.credit.saturating_add(come).min(most);
        self.since = now;
        let within = self.credit >= each;
        if within {
            self.credit -= each;
        }
        within
    }
}

/// Which ports of a translation: from the first one to the last one.
pub type Ports = Option<(u16, u16)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// By which interface it came or leaves.
    In(bool, Names),
    Out(bool, Names),
    Address(Side, Family, bool, Ranges),
    /// Of this protocol; none: of any that has ports.
    Port(Side, Option<u8>, bool, Ranges),
    Protocol(bool, Ranges),
    /// Types of ICMP or ICMPv6.
    Icmp(u8, bool, Ranges),
    State(bool, u8),
    Limit(Limit),
    Counter(u64, u64),
    /// Flags of TCP: those of the mask are these; or, without any, one of the mask is there.
    Flags {
        mask: u8,
        not: bool,
        are: Option<u8>,
    },
    /// A line for the log, which begins so; and how grave it is.
    Log {
        prefix: String,
        level: Option<&'static str>,
    },
    Comment(String),
    Verdict(Verdict),
    /// On with a chain of this table, which is found when all are there. `goto`: without coming back.
    Jump {
        goto: bool,
        name: String,
        to: u16,
    },
    Return,
    Masquerade(Ports),
    SourceTo(Address, Ports),
    DestinationTo(Option<Address>, Option<u16>),
}

pub struct Rule {
    pub items: Vec<Item>,
}

/// Where a chain begins by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Base {
    pub nat: bool,
    pub hook: Hook,
    pub priority: i32,
}

pub struct Chain {
    pub name: String,
    /// None: others jump to it.
    pub base: Option<Base>,
    pub policy: Verdict,
    pub rules: Vec<Rule>,
}

pub struct Table {
    pub family: Family,
    pub name: String,
    pub sets: Vec<Rc<Set>>,
    pub chains: Vec<Chain>,
}

/// All of it.
#[derive(Default)]
pub struct Rules {
    pub tables: Vec<Table>,
    pub log: Log,
    /// Chains of each hook by their priority: table and chain.
    order: [Vec<(u16, u16)>; HOOKS],
    names_loopback: bool,
}

/// A packet as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub tuple: Tuple,
    pub v4: bool,
    /// Places of interfaces.
    pub came_by: Option<u8>,
    pub leaves_by: Option<u8>,
    /// Of TCP its flags, of ICMP its type.
    pub kind: u8,
    pub length: u16,
    pub state: u8,
}

/// What a chain of translations says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Translation {
    None,
    Masquerade(Ports),
    Source(Address, Ports),
    Destination(Option<Address>, Option<u16>),
    Drop,
}

/// A text's chains lead through too many rules.
pub fn too_many() -> String {
    alloc::format!("a packet would go through more than {STEPS} rules")
}

enum Outcome {
    Verdict(Verdict),
    Translation(Translation),
    Jump { goto: bool, to: u16 },
    Return,
}

impl Table {
    /// Where jumps lead to → how many rules a packet goes through at most. What is wrong: the place of its chain, and why.
    pub fn link(&mut self) -> Result<usize, (usize, String)> {
        let own: Vec<(String, bool)> = self
            .chains
            .iter()
            .map(|of| (of.name.clone(), of.base.is_some()))
            .collect();
        for (at, chain) in self.chains.iter_mut().enumerate() {
            for item in chain.rules.iter_mut().flat_map(|of| &mut of.items) {
                let Item::Jump { name, to, .. } = item else {
                    continue;
                };
                match own.iter().position(|of| of.0 == *name) {
                    Some(found) if own[found].1 => {
                        let what =
                            alloc::format!("the chain `{name}` has a hook, so nothing jumps to it");
                        return Err((at, what));
                    }
                    Some(found) => *to = found as u16,
                    None => {
                        return Err((
                            at,
                            alloc::format!("there is no chain `{name}` in this table"),
                        ))
                    }
                }
            }
        }
        self.check_ways()
    }

    /// No way leads back to a chain that a packet is in, or is too long: so each packet goes through so many rules at most, whatever they say.
    fn check_ways(&self) -> Result<usize, (usize, String)> {
        // Of each chain: rules on the longest way through it, and chains.
        let mut known: Vec<Option<(usize, usize)>> = alloc::vec![None; self.chains.len()];
        loop {
            let (mut left, mut found) = (None, false);
            for (at, chain) in self.chains.iter().enumerate() {
                if known[at].is_some() {
                    continue;
                }
                let mut way = Some((chain.rules.len(), 1));
                for item in chain.rules.iter().flat_map(|of| &of.items) {
                    if let (Item::Jump { to, .. }, Some((rules, depth))) = (item, way) {
                        let on = known[usize::from(*to)];
                        way = on.map(|on| (rules.saturating_add(on.0), depth.max(on.1 + 1)));
                    }
                }
                match way {
                    None => left = left.or(Some(at)),
                    Some((rules, _)) if rules > STEPS => return Err((at, too_many())),
                    Some((_, depth)) if depth > DEPTH => {
                        let what = alloc::format!(
                            "a packet would be in {depth} chains at once, {DEPTH} are the most"
                        );
                        return Err((at, what));
                    }
                    way => (known[at], found) = (way, true),
                }
            }
            match left {
                None => {
                    let ways = known.iter().zip(&self.chains);
                    let begin = ways.filter(|(_, chain)| chain.base.is_some());
                    return Ok(begin.map(|(way, _)| way.map_or(0, |of| of.0)).sum());
                }
                Some(at) if !found => return Err((at, "the chain leads back to itself".into())),
                Some(_) => {}
            }
        }
    }

    /// What a chain says, with those that it leads to.
    fn judge(&mut self, base: u16, seen: &Seen, now: u64, log: &mut Log) -> Option<Outcome> {
        // (Numbers of rules and chains are below 2^16.)
        let mut back = [(0u16, 0u16); DEPTH];
        let mut depth = 0;
        let (mut chain, mut rule) = (base, 0u16);
        loop {
            let rules = &mut self.chains.get_mut(usize::from(chain))?.rules;
            let mut on = None;
            for next in rules.iter_mut().skip(rule.into()) {
                rule += 1;
                match next.judge(seen, now, log) {
                    None => {}
                    Some(Outcome::Jump { goto, to }) => {
                        on = Some((goto, to));
                        break;
                    }
                    Some(Outcome::Return) => break,
                    said => return said,
                }
            }
            match on {
                Some((goto, to)) => {
                    if !goto {
                        // (No way is longer: it was looked at when the text came.)
                        *back.get_mut(depth)? = (chain, rule);
                        depth += 1;
                    }
                    (chain, rule) = (to, 0);
                }
                None => {
                    depth = depth.checked_sub(1)?;
                    (chain, rule) = back[depth];
                }
            }
        }
    }
}

impl Rule {
    /// What it says of the packet, if it is its own and says something.
    fn judge(&mut self, seen: &Seen, now: u64, log: &mut Log) -> Option<Outcome> {
        let tuple = &seen.tuple;
        for item in &mut self.items {
            let matches = match item {
                Item::In(not, names) => names.has(seen.came_by) != *not,
                Item::Out(not, names) => names.has(seen.leaves_by) != *not,
                Item::Address(side, family, not, ranges) => {
                    let address = match side {
                        Side::Source => tuple.source,
                        Side::Destination => tuple.destination,
                    };
                    let here = seen.v4 == (*family == Family::Ip);
                    here && ranges.contains(tuple::number(&address)) != *not
                }
                Item::Port(side, protocol, not, ranges) => {
                    use tuple::protocol::*;
                    let port = match side {
                        Side::Source => tuple.source_port,
                        Side::Destination => tuple.destination_port,
                    };
                    let here = match protocol {
                        Some(protocol) => tuple.protocol == *protocol,
                        None => [TCP, UDP, SCTP, UDP_LITE].contains(&tuple.protocol),
                    };
                    here && ranges.contains(port.into()) != *not
                }
                Item::Protocol(not, ranges) => ranges.contains(tuple.protocol.into()) != *not,
                Item::Icmp(protocol, not, ranges) => {
                    tuple.protocol == *protocol && ranges.contains(seen.kind.into()) != *not
                }
                Item::State(not, mask) => (seen.state & *mask != 0) != *not,
                Item::Limit(limit) => limit.takes(now) != limit.over,
                Item::Counter(packets, bytes) => {
                    *packets = packets.saturating_add(1);
                    *bytes = bytes.saturating_add(seen.length.into());
                    true
                }
                Item::Flags { mask, not, are } => {
                    let found = seen.kind & *mask;
                    let right = are.map_or(found != 0, |are| found == are);
                    tuple.protocol == tuple::protocol::TCP && right != *not
                }
                Item::Log { prefix, .. } => {
                    log.put(prefix, seen, now);
                    true
                }
                Item::Comment(_) => true,
                Item::Verdict(verdict) => return Some(Outcome::Verdict(*verdict)),
                Item::Jump { goto, to, .. } => {
                    return Some(Outcome::Jump {
                        goto: *goto,
                        to: *to,
                    })
                }
                Item::Return => return Some(Outcome::Return),
                Item::Masquerade(ports) => {
                    return Some(Outcome::Translation(Translation::Masquerade(*ports)))
                }
                Item::SourceTo(address, ports) => {
                    if tuple::is_v4(address) == seen.v4 {
                        let to = Translation::Source(*address, *ports);
                        return Some(Outcome::Translation(to));
                    }
                    false
                }
                Item::DestinationTo(address, port) => {
                    if address.is_none_or(|to| tuple::is_v4(&to) == seen.v4) {
                        let to = Translation::Destination(*address, *port);
                        return Some(Outcome::Translation(to));
                    }
                    false
                }
            };
            if !matches {
                return None;
            }
        }
        None
    }
}

impl Rules {
    /// The order of chains is found; after this nothing is put in.
    pub fn settle(&mut self) {
        let mut order: [Vec<(i32, u16, u16)>; HOOKS] = Default::default();
        for (i, table) in self.tables.iter().enumerate() {
            for (j, chain) in table.chains.iter().enumerate() {
                if let Some(base) = chain.base {
                    order[base.hook as usize].push((base.priority, i as u16, j as u16));
                }
            }
        }
        for (to, mut from) in self.order.iter_mut().zip(order) {
            from.sort_unstable();
            *to = from.into_iter().map(|of| (of.1, of.2)).collect();
        }
        let mut loopback = false;
        self.for_names(|names| loopback |= names.is_one(b"lo"));
        self.names_loopback = loopback;
    }

    fn for_names(&mut self, mut what: impl FnMut(&mut Names)) {
        let chains = self.tables.iter_mut().flat_map(|of| &mut of.chains);
        for item in chains
            .flat_map(|of| &mut of.rules)
            .flat_map(|of| &mut of.items)
        {
            if let Item::In(_, names) | Item::Out(_, names) = item {
                what(names);
            }
        }
    }

    /// The interfaces are these, each at its place.
    pub fn learn(&mut self, interfaces: &[Vec<u8>]) {
        self.log.interfaces = interfaces.to_vec();
        self.for_names(|names| {
            names.places = [0; 2];
            for (place, name) in interfaces.iter().enumerate().take(128) {
                if names.is_one(name) {
                    names.places[place >> 6] |= 1 << (place & 63);
                }
            }
        });
    }

    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub fn has(&self, hook: Hook) -> bool {
        !self.order[hook as usize].is_empty()
    }

    /// Does a rule name the interface `lo`?
    pub fn names_loopback(&self) -> bool {
        self.names_loopback
    }

    fn is_of(family: Family, v4: bool) -> bool {
        match family {
            Family::Inet => true,
            Family::Ip => v4,
            Family::Ip6 => !v4,
        }
    }

    /// What all chains of a hook say: the first one that does not accept has the last word.
    pub fn judge(&mut self, hook: Hook, seen: &Seen, now: u64) -> Verdict {
        for &(table, chain) in &self.order[hook as usize] {
            let table = &mut self.tables[usize::from(table)];
            if !Self::is_of(table.family, seen.v4) {
                continue;
            }
            let said = match table.judge(chain, seen, now, &mut self.log) {
                Some(Outcome::Verdict(verdict)) => verdict,
                _ => table.chains[usize::from(chain)].policy,
            };
            match said {
                Verdict::Accept => {}
                other => return other,
            }
        }
        Verdict::Accept
    }

    /// How a new connection is translated: the first chain that says something has it.
    pub fn translate(&mut self, hook: Hook, seen: &Seen, now: u64) -> Translation {
        for &(table, chain) in &self.order[hook as usize] {
            let table = &mut self.tables[usize::from(table)];
            if !Self::is_of(table.family, seen.v4) {
                continue;
            }
            let said = table.judge(chain, seen, now, &mut self.log);
            let policy = table.chains[usize::from(chain)].policy;
            match said.unwrap_or(Outcome::Verdict(policy)) {
                Outcome::Translation(translation) => return translation,
                Outcome::Verdict(Verdict::Accept) | Outcome::Jump { .. } | Outcome::Return => {}
                Outcome::Verdict(_) => return Translation::Drop,
            }
        }
        Translation::None
    }

    /// As a text that can be read again.
    pub fn show(&self, to: &mut String) {
        for table in &self.tables {
            let family = match table.family {
                Family::Inet => "inet",
                Family::Ip => "ip",
                Family::Ip6 => "ip6",
            };
            let _ = writeln!(to, "table {family} {} {{", table.name);
            for set in &table.sets {
                set.show(to);
            }
            for chain in &table.chains {
                let _ = writeln!(to, "\tchain {} {{", chain.name);
                if let Some(Base {
                    nat,
                    hook,
                    priority,
                }) = chain.base
                {
                    let kind = if nat { "nat" } else { "filter" };
                    let policy = match chain.policy {
                        Verdict::Accept => "accept",
                        _ => "drop",
                    };
                    let hook = hook.name();
                    let _ = write!(to, "\t\ttype {kind} hook {hook} priority {priority}; ");
                    let _ = writeln!(to, "policy {policy};");
                }
                for rule in &chain.rules {
                    to.push('\t');
                    for item in &rule.items {
                        to.push(if to.ends_with('\t') { '\t' } else { ' ' });
                        item.show(to);
                    }
                    to.push('\n');
                }
                to.push_str("\t}\n");
            }
            to.push_str("}\n");
        }
    }
}

/// An address as it is written.
pub fn show_address(to: &mut impl Write, address: &Address) {
    let _ = match address.last_chunk::<4>() {
        Some(&v4) if tuple::is_v4(address) => write!(to, "{}", core::net::Ipv4Addr::from(v4)),
        _ => write!(to, "{}", core::net::Ipv6Addr::from(*address)),
    };
}

fn show_range(to: &mut String, (first, last): (u128, u128), addresses: bool) {
    if !addresses {
        let _ = match first == last {
            true => write!(to, "{first}"),
            false => write!(to, "{first}-{last}"),
        };
        return;
    }
    let [from, end] = [first, last].map(u128::to_be_bytes);
    show_address(to, &from);
    let bits = (first ^ last).leading_zeros();
    let host = u128::MAX.checked_shr(bits).unwrap_or(0);
    let prefix = first & host == 0 && last & host == host;
    let mapped = if tuple::is_v4(&from) { 96 } else { 0 };
    if first == last {
    } else if prefix && bits >= mapped {
        let _ = write!(to, "/{}", bits - mapped);
    } else {
        to.push('-');
        show_address(to, &end);
    }
}

/// One, or several in braces.
fn show_several<T>(to: &mut String, not: bool, all: &[T], mut one: impl FnMut(&mut String, &T)) {
    if not {
        to.push_str("!= ");
    }
    match all {
        [only] => one(to, only),
        _ => {
            to.push_str("{ ");
            for (i, of) in all.iter().enumerate() {
                if i != 0 {
                    to.push_str(", ");
                }
                one(to, of);
            }
            to.push_str(" }");
        }
    }
}

/// A set's name, or what stands there.
fn show_ranges(
    to: &mut String,
    not: bool,
    of: &Ranges,
    one: impl FnMut(&mut String, &(u128, u128)),
) {
    match &of.1 {
        None => show_several(to, not, &of.0, one),
        Some(set) => {
            let not = if not { "!= " } else { "" };
            let _ = write!(to, "{not}@{}", set.name);
        }
    }
}

impl Set {
    fn show(&self, to: &mut String) {
        let mut names = Kind::NAMES.iter();
        let kind = names.find(|of| of.1 == self.kind).map_or("", |of| of.0);
        let _ = writeln!(to, "\tset {} {{", self.name);
        let _ = writeln!(to, "\t\ttype {kind}");
        let _ = writeln!(to, "\t\tflags interval");
        for (i, range) in self.all.0.iter().enumerate() {
            to.push_str(if i == 0 { "\t\telements = { " } else { ", " });
            match self.kind {
                Kind::Protocol => show_named(to, *range, &PROTOCOLS),
                kind => show_range(to, *range, kind != Kind::Port),
            }
        }
        to.push_str(if self.all.0.is_empty() {
            "\t}\n"
        } else {
            " }\n\t}\n"
        });
    }
}

fn show_ports(to: &mut String, ports: &Ports) {
    match ports {
        Some((first, last)) if first == last => _ = write!(to, ":{first}"),
        Some((first, last)) => _ = write!(to, ":{first}-{last}"),
        None => {}
    }
}

/// An address in front of ports.
fn show_target(to: &mut String, address: &Address, ports: bool) {
    let brackets = ports && !tuple::is_v4(address);
    if brackets {
        to.push('[');
    }
    show_address(to, address);
    if brackets {
        to.push(']');
    }
}

/// Names of TCP's flags.
pub const FLAGS: [(&str, u8); 8] = [
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ecn", 64),
    ("cwr", 128),
];

/// How grave a line of the log is.
pub const LEVELS: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warn", "notice", "info", "debug",
];

/// Names of protocols.
pub const PROTOCOLS: [(&str, u8); 6] = [
    ("icmp", 1),
    ("tcp", 6),
    ("udp", 17),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("sctp", 132),
];

/// Names of types of ICMP, and of ICMPv6.
pub const ICMP_TYPES: [(&str, u8); 9] = [
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];
pub const ICMP_V6_TYPES: [(&str, u8); 11] = [
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
];

/// Numbers that have names; a range has none.
fn show_named(to: &mut String, range: (u128, u128), names: &[(&str, u8)]) {
    let mut known = names.iter();
    match known.find(|of| range == (of.1.into(), of.1.into())) {
        Some((name, _)) => to.push_str(name),
        None => show_range(to, range, false),
    }
}

impl Item {
    fn show(&self, to: &mut String) {
        match self {
            Item::In(not, names) | Item::Out(not, names) => {
                to.push_str(match self {
                    Item::In(..) => "iifname ",
                    _ => "oifname ",
                });
                show_several(to, *not, &names.names, |to, name| {
                    let _ = write!(to, "\"{name}\"");
                });
            }
            Item::Address(side, family, not, ranges) => {
                to.push_str(if *family == Family::Ip { "ip" } else { "ip6" });
                to.push_str(if *side == Side::Source {
                    " saddr "
                } else {
                    " daddr "
                });
                show_ranges(to, *not, ranges, |to, of| show_range(to, *of, true));
            }
            Item::Port(side, protocol, not, ranges) => {
                let known = |of: &&(&str, u8)| Some(of.1) == *protocol;
                to.push_str(PROTOCOLS.iter().find(known).map_or("th", |of| of.0));
                to.push_str(if *side == Side::Source {
                    " sport "
                } else {
                    " dport "
                });
                show_ranges(to, *not, ranges, |to, of| show_range(to, *of, false));
            }
            Item::Protocol(not, ranges) => {
                to.push_str("meta l4proto ");
                show_ranges(to, *not, ranges, |to, of| show_named(to, *of, &PROTOCOLS));
            }
            Item::Icmp(protocol, not, ranges) => {
                let v4 = *protocol == tuple::protocol::ICMP;
                to.push_str(if v4 { "icmp type " } else { "icmpv6 type " });
                let names: &[_] = if v4 { &ICMP_TYPES } else { &ICMP_V6_TYPES };
                show_ranges(to, *not, ranges, |to, of| show_named(to, *of, names));
            }
            Item::State(not, mask) => {
                to.push_str(if *not { "ct state != " } else { "ct state " });
                let mut first = true;
                for (name, bit) in state::NAMES {
                    if mask & bit != 0 {
                        if !core::mem::take(&mut first) {
                            to.push(',');
                        }
                        to.push_str(name);
                    }
                }
            }
            Item::Limit(of) => {
                let over = if of.over { "over " } else { "" };
                let (rate, unit, burst) = (of.rate, of.unit.0, of.burst);
                let _ = write!(to, "limit rate {over}{rate}/{unit} burst {burst} packets");
            }
            Item::Counter(packets, bytes) => {
                let _ = write!(to, "counter packets {packets} bytes {bytes}");
            }
            Item::Flags { mask, not, are } => {
                let list = |to: &mut String, bits: u8| {
                    let mut all = FLAGS.iter().filter(|of| bits & of.1 != 0).peekable();
                    if all.peek().is_none() {
                        to.push('0');
                    }
                    while let Some((name, _)) = all.next() {
                        to.push_str(name);
                        if all.peek().is_some() {
                            to.push('|');
                        }
                    }
                };
                to.push_str("tcp flags & (");
                list(to, *mask);
                // (One of them is there: they are not nothing.)
                to.push_str(if *not == are.is_some() {
                    ") != "
                } else {
                    ") == "
                });
                list(to, are.unwrap_or(0));
            }
            Item::Log { prefix, level } => {
                to.push_str("log");
                if !prefix.is_empty() {
                    let _ = write!(to, " prefix \"{prefix}\"");
                }
                if let Some(level) = level {
                    let _ = write!(to, " level {level}");
                }
            }
            Item::Comment(text) => _ = write!(to, "comment \"{text}\""),
            Item::Verdict(Verdict::Accept) => to.push_str("accept"),
            Item::Jump { goto, name, .. } => {
                let verb = if *goto { "goto" } else { "jump" };
                let _ = write!(to, "{verb} {name}");
            }
            Item::Return => to.push_str("return"),
            Item::Verdict(Verdict::Drop) => to.push_str("drop"),
            Item::Verdict(Verdict::Reject(how)) => to.push_str(match how {
                Refusal::Port => "reject",
                Refusal::Prohibited => "reject with icmpx type admin-prohibited",
                Refusal::Host => "reject with icmpx type host-unreachable",
                Refusal::Net => "reject with icmpx type no-route",
                Refusal::Reset => "reject with tcp reset",
            }),
            Item::Masquerade(ports) => {
                to.push_str("masquerade");
                if ports.is_some() {
                    to.push_str(" to ");
                    show_ports(to, ports);
                }
            }
            Item::SourceTo(address, ports) => {
                to.push_str("snat to ");
                show_target(to, address, ports.is_some());
                show_ports(to, ports);
            }
            Item::DestinationTo(address, port) => {
                to.push_str("dnat to ");
                if let Some(address) = address {
                    show_target(to, address, port.is_some());
                }
                show_ports(to, &port.map(|port| (port, port)));
            }
        }
    }
}
