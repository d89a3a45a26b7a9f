//! Addresses of IPv6 on a link without asking anybody for them (RFC 4862): one for the link itself, and one for each prefix that a router announces (RFC 4861),
//! each used only when nobody else was found to have it.
//!
//! What always holds: at most [`MOST`] addresses and one router; what is not from this link (a hop limit other than 255 is the caller's to refuse) or not
//! well-formed changes nothing.

use crate::{Mac, NEVER, SECOND};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub type Ip6 = [u8; 16];

/// Most addresses.
pub const MOST: usize = 16;
/// How long an answer to the question whether somebody has an address is waited for.
const PROBE: u64 = SECOND;
/// Questions for routers, and how far apart.
const QUESTIONS: u32 = 3;
const APART: u64 = 4 * SECOND;
/// An announcement that nobody vouches for does not shorten a life below this.
const TWO_HOURS: u64 = 7200 * SECOND;

pub const ALL_NODES: Ip6 = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub const ALL_ROUTERS: Ip6 = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const NOBODY: Ip6 = [0; 16];

/// Types of messages.
pub mod kind {
    pub const ROUTER_SOLICITATION: u8 = 133;
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    pub const SOLICITATION: u8 = 135;
    pub const ADVERTISEMENT: u8 = 136;
    pub const REDIRECT: u8 = 137;
}

/// The group that is asked for the station with this address.
pub fn solicited_group(of: &Ip6) -> Ip6 {
    let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
    group[13..].copy_from_slice(&of[13..]);
    group
}

pub fn is_link_local(address: &Ip6) -> bool {
    address[0] == 0xfe && address[1] & 0xc0 == 0x80
}

/// A message of ICMPv6 to be sent with a hop limit of 255; its checksum is not made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub source: Ip6,
    pub destination: Ip6,
    pub bytes: [u8; 32],
    pub length: usize,
}

impl Message {
    fn new(kind: u8, source: Ip6, destination: Ip6) -> Message {
        let mut bytes = [0; 32];
        bytes[0] = kind;
        Message {
            source,
            destination,
            bytes,
            length: 8,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Who has this address? From nobody: because this machine would like to have it. `to`: only this station is asked.
    pub fn solicitation(source: Ip6, target: Ip6, to: Option<Ip6>, mac: Mac) -> Message {
        let destination = to.unwrap_or(solicited_group(&target));
        let mut message = Message::new(kind::SOLICITATION, source, destination);
        message.push(&target);
        if source != NOBODY {
            message.push(&[1, 1]);
            message.push(&mac);
        }
        message
    }

    /// This machine has it. To who asked, or (None) to all.
    pub fn advertisement(target: Ip6, to: Option<Ip6>, mac: Mac) -> Message {
        let mut message = Message::new(kind::ADVERTISEMENT, target, to.unwrap_or(ALL_NODES));
        // Solicited, and it counts more than what is known.
        message.bytes[4] = if to.is_some() { 0x60 } else { 0x20 };
        message.push(&target);
        message.push(&[2, 1]);
        message.push(&mac);
        message
    }

    fn question(source: Ip6, mac: Mac) -> Message {
        let mut message = Message::new(kind::ROUTER_SOLICITATION, source, ALL_ROUTERS);
        message.push(&[1, 1]);
        message.push(&mac);
        message
    }

    pub fn body(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The link-layer address in the options of a message, which begin there: of its source (1) or its target (2).
pub fn hardware_in(options: &[u8], which: u8) -> Option<Mac> {
    let mut found = None;
    each_option(options, |kind, body| {
        if kind == which {
            found = body.first_chunk::<6>().copied();
        }
    });
    found
}

/// False: they are not well-formed, so the message is none.
fn each_option(mut options: &[u8], mut take: impl FnMut(u8, &[u8])) -> bool {
    while let [kind, length, ..] = options {
        let length = usize::from(*length) * 8;
        if length == 0 || length > options.len() {
            return false;
        }
        take(*kind, &options[2..length]);
        options = &options[length..];
    }
    options.is_empty()
}

/// What became of the link's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It may be used, until then ([`NEVER`]: for ever). `near`: the others with this prefix are on the link. Said again when a time changes.
    Address {
        address: Ip6,
        bits: u8,
        near: bool,
        preferred: u64,
        valid: u64,
    },
    Gone {
        address: Ip6,
        bits: u8,
    },
    Router(Option<Ip6>),
}

struct Own {
    address: Ip6,
    near: bool,
    /// Nobody was found to have it.
    unique: bool,
    asked: bool,
    /// When something is to be done about it, until it is unique.
    due: u64,
    preferred: u64,
    valid: u64,
}

pub struct Autoconf {
    mac: Mac,
    own: Vec<Own>,
    router: Option<(Ip6, u64)>,
    /// Questions that were asked, and when the next one is.
    questions: u32,
    next: u64,
    pub events: VecDeque<Event>,
    pub messages: VecDeque<Message>,
}

/// The lower half of an address, made of the station's (RFC 4291, appendix A).
fn with_station(prefix: &[u8], mac: Mac) -> Ip6 {
    let [a, b, c, d, e, f] = mac;
    let mut address = [0; 16];
    address[..8].copy_from_slice(&prefix[..8]);
    address[8..].copy_from_slice(&[a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    address
}

fn until(now: u64, seconds: u32) -> u64 {
    match seconds {
        u32::MAX => NEVER,
        seconds => now + u64::from(seconds) * SECOND,
    }
}

impl Autoconf {
    pub fn new(mac: Mac) -> Autoconf {
        Autoconf {
            mac,
            own: Vec::new(),
            router: None,
            questions: QUESTIONS,
            next: NEVER,
            events: VecDeque::new(),
            messages: VecDeque::new(),
        }
    }

    fn link_local(&self) -> Ip6 {
        with_station(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0], self.mac)
    }

    /// There is a carrier: from the beginning.
    pub fn start(&mut self, now: u64) {
        self.stop();
        let address = self.link_local();
        self.bring(now, address, true, NEVER, NEVER);
    }

    /// Nothing of it counts any more.
    pub fn stop(&mut self) {
        for own in core::mem::take(&mut self.own) {
            self.gone(&own);
        }
        if self.router.take().is_some() {
            self.events.push_back(Event::Router(None));
        }
        (self.questions, self.next) = (QUESTIONS, NEVER);
    }

    fn gone(&mut self, own: &Own) {
        if own.unique {
            let address = own.address;
            self.events.push_back(Event::Gone { address, bits: 64 });
        }
    }

    fn bring(&mut self, now: u64, address: Ip6, near: bool, preferred: u64, valid: u64) {
        if self.own.len() < MOST && self.own.try_reserve(1).is_ok() {
            self.own.push(Own {
                address,
                near,
                unique: false,
                asked: false,
                due: now,
                preferred,
                valid,
            });
        }
    }

    fn tell(&mut self, at: usize) {
        let Own {
            address,
            near,
            preferred,
            valid,
            ..
        } = self.own[at];
        self.events.push_back(Event::Address {
            address,
            bits: 64,
            near,
            preferred,
            valid,
        });
    }

    /// What is to be done by now.
    pub fn due(&mut self, now: u64) {
        let mut at = 0;
        while at < self.own.len() {
            let own = &mut self.own[at];
            if own.valid <= now {
                let own = self.own.remove(at);
                self.gone(&own);
                continue;
            }
            if !own.unique && own.due <= now {
                let target = own.address;
                match core::mem::replace(&mut own.asked, true) {
                    false => {
                        own.due = now + PROBE;
                        let probe = Message::solicitation(NOBODY, target, None, self.mac);
                        self.messages.push_back(probe);
                    }
                    true => {
                        own.unique = true;
                        self.tell(at);
                        if target == self.link_local() {
                            (self.questions, self.next) = (0, now);
                        }
                    }
                }
            }
            at += 1;
        }
        if self.next <= now {
            let question = Message::question(self.link_local(), self.mac);
            self.messages.push_back(question);
            self.questions += 1;
            self.next = match self.questions < QUESTIONS {
                true => now + APART,
                false => NEVER,
            };
        }
        if self.router.is_some_and(|(_, end)| end <= now) {
            self.router = None;
            self.events.push_back(Event::Router(None));
        }
    }

    pub fn deadline(&self) -> u64 {
        let own = self.own.iter().map(|own| match own.unique {
            true => own.valid,
            false => own.due.min(own.valid),
        });
        let router = self.router.map_or(NEVER, |(_, end)| end);
        own.min().unwrap_or(NEVER).min(self.next).min(router)
    }

    /// Somebody has, or would like to have, this address.
    pub fn claimed(&mut self, address: &Ip6) {
        // (What is used already is defended by an answer.)
        self.own.retain(|own| own.unique || own.address != *address);
    }

    /// A router announces itself, from this address.
    pub fn announced(&mut self, now: u64, source: &Ip6, message: &[u8]) {
        let (Some(head), true) = (message.first_chunk::<16>(), is_link_local(source)) else {
            return;
        };
        if !each_option(&message[16..], |_, _| {}) {
            return;
        }
        self.next = NEVER;
        let life = u16::from_be_bytes([head[6], head[7]]);
        let known = self.router.map(|(router, _)| router);
        match (life, known) {
            (0, Some(router)) if router == *source => {
                self.router = None;
                self.events.push_back(Event::Router(None));
            }
            (0, _) => {}
            (_, Some(router)) if router != *source => {}
            _ => {
                self.router = Some((*source, until(now, u32::from(life))));
                if known.is_none() {
                    self.events.push_back(Event::Router(Some(*source)));
                }
            }
        }
        each_option(&message[16..], |kind, body| {
            if let (3, Some(body)) = (kind, body.first_chunk::<30>()) {
                self.prefix(now, body);
            }
        });
    }

    fn prefix(&mut self, now: u64, body: &[u8; 30]) {
        let word =
            |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        let (bits, flags, valid, preferred) = (body[0], body[1], word(2), word(6));
        let prefix = &body[14..30];
        let near = flags & 0x80 != 0;
        let odd = prefix[0] == 0xff || is_link_local(&with_station(prefix, self.mac));
        let mapped = prefix[..8] == [0; 8];
        if flags & 0x40 == 0 || bits != 64 || preferred > valid || odd || mapped {
            return;
        }
        let address = with_station(prefix, self.mac);
        let (new, preferred) = (until(now, valid), until(now, preferred));
        let known = self.own.iter().position(|own| own.address == address);
        let Some(at) = known else {
            if valid > 0 {
                self.bring(now, address, near, preferred, new);
            }
            return;
        };
        let own = &mut self.own[at];
        let left = own.valid.saturating_sub(now);
        own.preferred = preferred;
        if new > own.valid || new - now > TWO_HOURS {
            own.valid = new;
        } else if left > TWO_HOURS {
            own.valid = now + TWO_HOURS;
        }
        if own.unique {
            self.tell(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
    const ROUTER: Ip6 = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    const LOCAL: Ip6 = [
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x12, 0x34, 0x56,
    ];

    fn announcement(life: u16, flags: u8, valid: u32, preferred: u32) -> Vec<u8> {
        let mut bytes = vec![134, 0, 0, 0, 64, 0];
        bytes.extend(life.to_be_bytes());
        bytes.extend([0; 8]);
        bytes.extend([3, 4, 64, flags]);
        bytes.extend(valid.to_be_bytes());
        bytes.extend(preferred.to_be_bytes());
        bytes.extend([
            0, 0, 0, 0, 0xfe, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ]);
        bytes
    }

    fn started() -> Autoconf {
        let mut all = Autoconf::new(MAC);
        all.start(0);
        assert_eq!(all.deadline(), 0);
        all.due(0);
        let probe = all.messages.pop_front().unwrap();
        assert_eq!(
            (probe.source, probe.destination),
            (NOBODY, solicited_group(&LOCAL))
        );
        assert_eq!((probe.length, &probe.bytes[8..24]), (24, &LOCAL[..]));
        all
    }

    #[test]
    fn a_router_gives_a_prefix() {
        let mut all = started();
        assert_eq!(all.deadline(), PROBE);
        all.due(PROBE);
        assert!(matches!(
            all.events.pop_front(),
            Some(Event::Address { address: LOCAL, .. })
        ));
        let question = all.messages.pop_front().unwrap();
        assert_eq!((question.bytes[0], question.source), (133, LOCAL));
        all.announced(PROBE, &ROUTER, &announcement(1800, 0xc0, 86_400, 14_400));
        assert_eq!(all.events.pop_front(), Some(Event::Router(Some(ROUTER))));
        all.due(PROBE);
        all.due(2 * PROBE);
        let Some(Event::Address {
            address,
            near,
            valid,
            ..
        }) = all.events.pop_front()
        else {
            panic!("no address");
        };
        assert_eq!(
            (address[..2].to_vec(), &address[8..]),
            (vec![0xfe, 0xc0], &LOCAL[8..])
        );
        assert!(near && valid == PROBE + 86_400 * SECOND);
        // Nobody ends it at once; two hours are left.
        all.announced(3 * PROBE, &ROUTER, &announcement(0, 0xc0, 0, 0));
        assert_eq!(all.events.pop_front(), Some(Event::Router(None)));
        assert!(
            matches!(all.events.pop_front(), Some(Event::Address { valid, .. }) if valid == 3 * PROBE + TWO_HOURS)
        );
        all.due(3 * PROBE + TWO_HOURS);
        assert_eq!(
            all.events.pop_front(),
            Some(Event::Gone { address, bits: 64 })
        );
        all.stop();
        assert_eq!(
            all.events.pop_front(),
            Some(Event::Gone {
                address: LOCAL,
                bits: 64
            })
        );
        assert_eq!(all.deadline(), NEVER);
    }

    #[test]
    fn an_address_that_somebody_has_is_not_used() {
        let mut all = started();
        all.claimed(&LOCAL);
        all.due(5 * PROBE);
        assert!(all.events.is_empty() && all.messages.is_empty() && all.deadline() == NEVER);
        let mut all = started();
        all.due(PROBE);
        all.events.clear();
        all.claimed(&LOCAL);
        assert!(all.events.is_empty() && all.own.len() == 1);
    }

    #[test]
    fn what_is_announced_is_bounded_and_looked_at() {
        let mut all = started();
        for prefix in 0..5000u32 {
            let mut message = announcement(1800, 0xc0, 86_400, 14_400);
            message[34..38].copy_from_slice(&prefix.to_be_bytes());
            all.announced(1, &ROUTER, &message);
            all.due(1);
        }
        assert!(all.own.len() == MOST && all.messages.len() <= MOST);
        let mut all = started();
        let whole = announcement(1800, 0xc0, 86_400, 14_400);
        for short in 0..whole.len() {
            all.announced(1, &ROUTER, &whole[..short]);
            assert!(all.own.len() == 1, "{short}");
        }
        let mut bad = whole.clone();
        bad[17] = 0;
        all.announced(1, &ROUTER, &bad);
        bad[17] = 9;
        all.announced(1, &ROUTER, &bad);
        let mut far = ROUTER;
        far[0] = 0x20;
        all.announced(1, &far, &whole);
        for (flags, valid, preferred) in [(0x80, 9, 9), (0xc0, 9, 10), (0xc0, 0, 0)] {
            all.announced(1, &ROUTER, &announcement(0, flags, valid, preferred));
        }
        assert_eq!(all.own.len(), 1);
        assert_eq!(
            hardware_in(&[1, 1, 2, 0, 0, 0, 0, 9], 1),
            Some([2, 0, 0, 0, 0, 9])
        );
        assert_eq!(hardware_in(&[1, 0, 2, 0, 0, 0, 0, 9], 1), None);
    }
}
