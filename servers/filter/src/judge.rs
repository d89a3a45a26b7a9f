//! What becomes of a packet: whose connection it belongs to, what the rules say, and how it is translated.
//!
//! Whoever routes asks once for each packet: when it is known to be for this machine ([`Hook::Input`]), when it is known by which interface it would go on
//! ([`Hook::Forward`]), and when this machine sends one ([`Hook::Output`]). Where the destination is translated the answer is [`Say::Again`]: the packet is
//! rewritten, routed, and asked for once more with the number that came with the answer.
//!
//! What always holds: no two connections have a tuple in common, so each reply belongs to one of them. A connection is made when its first packet is accepted.
//! When there is no room for another one its packet is dropped, and those that are there stay.

use crate::connections::{begins, Class, Connections, Direction};
use crate::rules::{state, Hook, Ports, Refusal, Rules, Seen, Translation, Verdict};
use crate::tuple::{is_v4, protocol, Address, Tuple};
use alloc::vec::Vec;

/// So many ports are tried for a translation.
const TRIES: u32 = 512;

/// A packet that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub hook: Hook,
    /// Places of the interfaces, as [`Filter::learn`] was told them.
    pub came_by: Option<u8>,
    pub leaves_by: Option<u8>,
    pub tuple: Tuple,
    /// Of TCP its flags, of ICMP its type.
    pub kind: u8,
    pub length: u16,
    /// It does not leave the machine.
    pub inside: bool,
    /// What an error of ICMP quotes.
    pub quoted: Option<Tuple>,
    /// The number of [`Say::Again`], if it was asked for before.
    pub again: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Say {
    Accept,
    Drop,
    Reject(Refusal),
    /// Rewrite it, look where it goes now, and ask once more, with this number.
    Again(u32),
}

/// What is said of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    pub say: Say,
    /// What it is rewritten to; of an error, what it quotes is, and where it goes to is the source of that.
    pub tuple: Option<Tuple>,
    /// Of an error: it comes from where what it quotes went to.
    pub as_end: bool,
}

impl Answer {
    fn plain(say: Say) -> Answer {
        Answer {
            say,
            tuple: None,
            as_end: false,
        }
    }
}

/// An interface of the machine.
#[derive(Clone, Default, Debug)]
pub struct Interface {
    pub name: Vec<u8>,
    /// What packets that leave by it come from: of IPv4, of IPv6.
    pub addresses: [Option<Address>; 2],
}

pub struct Filter {
    pub rules: Rules,
    pub connections: Connections,
    interfaces: Vec<Interface>,
    random: fn() -> u64,
    /// Packets that began a connection for which there was no room; for which no port was free.
    pub full: u64,
    pub no_port: u64,
}

impl Filter {
    pub fn new(random: fn() -> u64, most: usize) -> Filter {
        Filter {
            rules: Rules::default(),
            connections: Connections::new([random(), random()], most),
            interfaces: Vec::new(),
            random,
            full: 0,
            no_port: 0,
        }
    }

    /// Other rules from now on. Connections stay, unless there are no rules at all. False: there is no memory, and nothing changes.
    pub fn replace(&mut self, mut rules: Rules) -> bool {
        if rules.is_empty() {
            self.connections.clear();
        } else if !self.connections.prepare() {
            return false;
        }
        rules.log.goes_on(core::mem::take(&mut self.rules.log));
        Self::learn_names(&mut rules, &self.interfaces);
        self.rules = rules;
        true
    }

    fn learn_names(rules: &mut Rules, interfaces: &[Interface]) {
        let names: Vec<Vec<u8>> = interfaces.iter().map(|of| of.name.clone()).collect();
        rules.learn(&names);
    }

    /// The interfaces are these from now on.
    pub fn learn(&mut self, interfaces: Vec<Interface>) {
        self.interfaces = interfaces;
        Self::learn_names(&mut self.rules, &self.interfaces);
    }

    /// Whether there is anything to ask for: what goes both ways has to be known, whichever hook has rules.
    pub fn is_active(&self) -> bool {
        !self.rules.is_empty()
    }

    pub fn judge(&mut self, packet: &Packet, now: u64) -> Answer {
        self.connections.time_passes(now);
        match packet.quoted {
            Some(quoted) => self.judge_error(packet, &quoted, now),
            None => self.judge_packet(packet, now),
        }
    }

    fn seen(packet: &Packet, tuple: &Tuple, state: u8) -> Seen {
        Seen {
            tuple: *tuple,
            v4: tuple.is_v4(),
            came_by: packet.came_by,
            leaves_by: packet.leaves_by,
            kind: packet.kind,
            length: packet.length,
            state,
        }
    }

    fn verdict(&mut self, packet: &Packet, tuple: &Tuple, state: u8, now: u64) -> Say {
        let seen = Self::seen(packet, tuple, state);
        match self.rules.judge(packet.hook, &seen, now) {
            Verdict::Accept => Say::Accept,
            Verdict::Drop => Say::Drop,
            Verdict::Reject(how) => Say::Reject(how),
        }
    }

    /// The connection and direction that a number of [`Say::Again`] stands for, if it is the packet's.
    fn of_number(&self, number: u32, tuple: &Tuple) -> Option<(u32, Direction)> {
        let direction = match number & 1 {
            0 => Direction::Original,
            _ => Direction::Reply,
        };
        let connection = self.connections.get(number >> 1)?;
        (connection.passes(direction) == *tuple).then_some((number >> 1, direction))
    }

    fn judge_packet(&mut self, packet: &Packet, now: u64) -> Answer {
        let tuple = packet.tuple;
        let known = match packet.again {
            Some(number) => match self.of_number(number, &tuple) {
                Some(known) => Some(known),
                None => return Answer::plain(Say::Drop),
            },
            None => self.connections.find(&tuple),
        };
        let Some((at, direction)) = known else {
            return self.judge_new(packet, now);
        };
        let Some(connection) = self.connections.get(at) else {
            return Answer::plain(Say::Drop);
        };
        let (passes, leaves) = (connection.passes(direction), connection.leaves(direction));
        let pending = connection.class == Class::Pending;
        if packet.again.is_none() && packet.hook != Hook::Output && passes != tuple {
            return Answer {
                say: Say::Again(at << 1 | direction as u32),
                tuple: Some(passes),
                as_end: false,
            };
        }
        if pending {
            return self.judge_first(packet, at, now);
        }
        // (A connection that begins again is a new one.)
        let again = matches!(connection.class, Class::Closed | Class::TimeWait)
            && direction == Direction::Original
            && begins(&tuple, packet.kind) == Some(Class::SynSent);
        let state = match connection.replied && !again || direction == Direction::Reply {
            true => state::ESTABLISHED,
            false => state::NEW,
        };
        if packet.hook == Hook::Forward && packet.leaves_by.is_none() {
            return Answer::plain(Say::Accept);
        }
        let say = self.verdict(packet, &passes, state, now);
        if say != Say::Accept {
            return Answer::plain(say);
        }
        self.connections.passed(at, direction, packet.kind, now);
        let rewritten = packet.hook != Hook::Input && leaves != tuple;
        Answer {
            say,
            tuple: rewritten.then_some(leaves),
            as_end: false,
        }
    }

    /// Nobody knows its connection.
    fn judge_new(&mut self, packet: &Packet, now: u64) -> Answer {
        let tuple = packet.tuple;
        let Some(class) = begins(&tuple, packet.kind) else {
            let untracked = tuple.protocol == protocol::ICMP_V6 && packet.kind >= 130;
            let state = match untracked {
                true => state::UNTRACKED,
                false => state::INVALID,
            };
            return Answer::plain(self.verdict(packet, &tuple, state, now));
        };
        if packet.hook != Hook::Output && self.rules.has(Hook::Prerouting) && !packet.inside {
            let seen = Self::seen(packet, &tuple, state::NEW);
            match self.rules.translate(Hook::Prerouting, &seen, now) {
                Translation::Destination(address, port) => {
                    let ports = [protocol::TCP, protocol::UDP].contains(&tuple.protocol);
                    let to = Tuple {
                        destination: address.unwrap_or(tuple.destination),
                        destination_port: port.filter(|_| ports).unwrap_or(tuple.destination_port),
                        ..tuple
                    };
                    if to != tuple {
                        return self.begin_translated(&tuple, &to, now);
                    }
                }
                Translation::Drop => return Answer::plain(Say::Drop),
                _ => {}
            }
        }
        if packet.hook == Hook::Forward && packet.leaves_by.is_none() {
            return Answer::plain(Say::Accept);
        }
        let say = self.verdict(packet, &tuple, state::NEW, now);
        if say != Say::Accept {
            return Answer::plain(say);
        }
        let reply = match self.translated(packet, &tuple, tuple.inverse(), now) {
            Ok(reply) => reply,
            Err(answer) => return answer,
        };
        if self.connections.is_full() {
            self.connections.next_look = 0;
            self.connections.time_passes(now);
        }
        let Some(at) = self.connections.insert(tuple, reply, class, now) else {
            self.full += 1;
            return Answer::plain(Say::Drop);
        };
        self.answer_first(packet, at)
    }

    /// Its first packet goes elsewhere than it says: the connection waits for its way.
    fn begin_translated(&mut self, tuple: &Tuple, to: &Tuple, now: u64) -> Answer {
        let Some(reply) = self.free_reply(to.inverse(), None, tuple) else {
            self.no_port += 1;
            return Answer::plain(Say::Drop);
        };
        match self.connections.insert(*tuple, reply, Class::Pending, now) {
            Some(at) => Answer {
                say: Say::Again(at << 1),
                tuple: Some(*to),
                as_end: false,
            },
            None => {
                self.full += 1;
                Answer::plain(Say::Drop)
            }
        }
    }

    /// The first packet of such a connection has its way.
    fn judge_first(&mut self, packet: &Packet, at: u32, now: u64) -> Answer {
        let Some(connection) = self.connections.get(at) else {
            return Answer::plain(Say::Drop);
        };
        let (original, old) = (connection.original, connection.reply);
        let passes = connection.passes(Direction::Original);
        let nowhere = packet.hook == Hook::Forward && packet.leaves_by.is_none();
        let say = match nowhere {
            true => Say::Accept,
            false => self.verdict(packet, &passes, state::NEW, now),
        };
        let class = begins(&original, packet.kind);
        let (Say::Accept, Some(class), false) = (say, class, nowhere) else {
            self.connections.remove(at);
            return Answer::plain(say);
        };
        match self.translated(packet, &passes, old, now) {
            Ok(reply) if reply == old => {}
            Ok(reply) => self.connections.set_reply(at, reply),
            Err(answer) => {
                self.connections.remove(at);
                return answer;
            }
        }
        self.connections.refresh(at, class, now);
        self.answer_first(packet, at)
    }

    fn answer_first(&self, packet: &Packet, at: u32) -> Answer {
        let connection = self.connections.get(at);
        let leaves = connection.map(|of| of.leaves(Direction::Original));
        Answer {
            say: Say::Accept,
            tuple: leaves.filter(|of| packet.hook != Hook::Input && *of != packet.tuple),
            as_end: false,
        }
    }

    /// The tuple of replies to a packet that leaves, by the rules and by which are free. `reply`: the one without a translation of the source.
    fn translated(
        &mut self,
        packet: &Packet,
        passes: &Tuple,
        reply: Tuple,
        now: u64,
    ) -> Result<Tuple, Answer> {
        let mut said = Translation::None;
        if packet.hook != Hook::Input && !packet.inside && self.rules.has(Hook::Postrouting) {
            let seen = Self::seen(packet, passes, state::NEW);
            said = self.rules.translate(Hook::Postrouting, &seen, now);
        }
        let (source, ports) = match said {
            Translation::Drop => return Err(Answer::plain(Say::Drop)),
            Translation::Masquerade(ports) => match self.own_address(packet, passes) {
                Some(own) => (own, ports),
                None => return Err(Answer::plain(Say::Drop)),
            },
            Translation::Source(address, ports) => (address, ports),
            _ => (reply.destination, None),
        };
        let wanted = Tuple {
            destination: source,
            ..reply
        };
        // What cannot be translated keeps its port. (Within the machine it goes without a connection: its own end may be both.)
        let kept = wanted != *passes && self.connections.find(&wanted).is_none();
        let pending = passes != &packet.tuple || packet.again.is_some();
        let free = match packet.hook {
            // (It has this one already.)
            _ if pending && wanted == reply => Some(reply),
            _ if packet.inside && !kept => return Err(Answer::plain(Say::Accept)),
            _ if packet.inside => Some(wanted),
            Hook::Input => kept.then_some(wanted),
            _ => self.free_reply(wanted, ports, passes),
        };
        free.ok_or_else(|| {
            self.no_port += 1;
            Answer::plain(Say::Drop)
        })
    }

    fn own_address(&self, packet: &Packet, passes: &Tuple) -> Option<Address> {
        let interface = self.interfaces.get(usize::from(packet.leaves_by?))?;
        interface.addresses[usize::from(!is_v4(&passes.destination))]
    }

    /// This tuple of replies, or one with another port of who began, that nobody has. The port stays if it can; others are of the same kind (below 512, below
    /// 1024, or above).
    fn free_reply(&mut self, wanted: Tuple, ports: Ports, passes: &Tuple) -> Option<Tuple> {
        let port = wanted.destination_port;
        let within = |(first, last): (u16, u16)| (first..=last).contains(&port);
        // (A connection's own two tuples are different as well, or it would be found as either.)
        let own = |reply: &Tuple| reply == passes;
        let is_free =
            |filter: &Self, reply: &Tuple| !own(reply) && filter.connections.find(reply).is_none();
        if ports.is_none_or(within) && is_free(self, &wanted) {
            return Some(wanted);
        }
        if !wanted.has_ports() {
            return None;
        }
        let (first, last) = ports.unwrap_or(match port {
            0..512 => (1, 511),
            512..1024 => (600, 1023),
            _ => (1024, u16::MAX),
        });
        let count = u32::from(last - first) + 1;
        let start = (self.random)() as u32 % count;
        (0..count.min(TRIES)).find_map(|i| {
            let reply = Tuple {
                destination_port: first + ((start + i) % count) as u16,
                ..wanted
            };
            is_free(self, &reply).then_some(reply)
        })
    }

    /// An error about a packet of a connection belongs to it, and is translated with it.
    fn judge_error(&mut self, packet: &Packet, quoted: &Tuple, now: u64) -> Answer {
        if packet.again.is_some() {
            return Answer::plain(self.verdict(packet, &packet.tuple, state::RELATED, now));
        }
        let by_way_back = self.connections.find(&quoted.inverse());
        let known = by_way_back.and_then(|(at, direction)| {
            let connection = self.connections.get(at)?;
            // The quoted packet went the other way, and is quoted as it left; it came as this.
            Some((at, direction, *connection.tuple(direction.other())))
        });
        let Some((at, direction, came)) = known else {
            // Quoted as it came: this machine refused it, or it is not translated.
            let state = match self.connections.find(quoted) {
                Some(_) => state::RELATED,
                None => state::INVALID,
            };
            return Answer::plain(self.verdict(packet, &packet.tuple, state, now));
        };
        let end = packet.tuple.source == quoted.destination;
        let changes = came != *quoted;
        // What goes back through a translation of the source goes to who has it.
        if changes && direction == Direction::Reply && packet.hook != Hook::Output {
            return Answer {
                say: Say::Again(at << 1 | 1),
                tuple: Some(came),
                as_end: end,
            };
        }
        let say = self.verdict(packet, &packet.tuple, state::RELATED, now);
        let changes = changes && say == Say::Accept;
        Answer {
            say,
            tuple: changes.then_some(came),
            as_end: changes && packet.hook == Hook::Forward,
        }
    }
}
