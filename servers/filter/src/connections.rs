//! Connections as a filter knows them: both directions, what state they are in, and when they are forgotten.
//!
//! What always holds: each connection is found by both of its tuples, and no two have one in common. There are [`MOST`] at most. The buckets are made once, so
//! no table is ever moved. The time that a connection has left depends on its [`Class`] alone: those of a class lie in the order in which they end, and
//! nothing goes through all of them.

use crate::tuple::{protocol, Tuple};
use alloc::vec::Vec;
use cairn_slab::Slab;

/// Most connections.
pub const MOST: usize = 131_072;
/// What is asked of memory for one.
pub const COST: usize = size_of::<Option<Connection>>() + 16;
/// Nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// So many are forgotten at a time.
const ROUND: usize = 256;
const NONE: u32 = u32::MAX;

/// What decides how long a connection is kept that nothing is heard of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Class {
    /// A packet is on its way that is translated and was not accepted yet.
    Pending,
    SynSent,
    SynReceived,
    Established,
    /// One side has ended.
    Finishing,
    /// Both have.
    TimeWait,
    /// By RST.
    Closed,
    /// Its beginning was not seen, and no answer yet.
    PickedUp,
    Datagram,
    /// With an answer.
    Stream,
    Echo,
    Other,
}

/// How many classes there are.
const CLASSES: usize = 12;

/// Seconds that a connection of each class is kept, as Linux has them.
pub const SECONDS: [u64; CLASSES] = [10, 120, 60, 432_000, 120, 120, 10, 300, 30, 120, 30, 600];

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::Pending => "PENDING",
            Class::SynSent => "SYN_SENT",
            Class::SynReceived => "SYN_RECV",
            Class::Established => "ESTABLISHED",
            Class::Finishing => "FIN_WAIT",
            Class::TimeWait => "TIME_WAIT",
            Class::Closed => "CLOSE",
            Class::PickedUp => "PICKED_UP",
            Class::Datagram | Class::Echo | Class::Other => "UNREPLIED",
            Class::Stream => "ASSURED",
        }
    }
}

/// In which direction of a connection a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Original = 0,
    Reply = 1,
}

impl Direction {
    pub fn other(self) -> Direction {
        match self {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        }
    }
}

pub struct Connection {
    /// What who began it sends, and what is sent back to this machine: without a translation its inverse.
    pub original: Tuple,
    pub reply: Tuple,
    pub class: Class,
    /// Something came back.
    pub replied: bool,
    /// Who has ended: bits of [`Direction`].
    ended: u8,
    /// When it is forgotten.
    pub ends: u64,
    /// The next one in the bucket of either tuple: its number, twice, and its direction.
    chained: [u32; 2],
    /// Its neighbours among those of its class.
    before: u32,
    behind: u32,
}

impl Connection {
    pub fn tuple(&self, direction: Direction) -> &Tuple {
        match direction {
            Direction::Original => &self.original,
            Direction::Reply => &self.reply,
        }
    }

    /// A packet in this direction as it leaves the machine.
    pub fn leaves(&self, direction: Direction) -> Tuple {
        match direction {
            Direction::Original => self.reply.inverse(),
            Direction::Reply => self.original.inverse(),
        }
    }

    /// The same when only where it goes to was translated.
    pub fn passes(&self, direction: Direction) -> Tuple {
        let (comes, leaves) = (*self.tuple(direction), self.leaves(direction));
        Tuple {
            source: comes.source,
            source_port: comes.source_port,
            ..leaves
        }
    }
}

/// What a packet says of its connection beyond its tuple.
pub mod tcp {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const ACK: u8 = 16;
}

/// May a packet be the first of a connection that is seen? With the class of it.
pub fn begins(tuple: &Tuple, kind: u8) -> Option<Class> {
    match tuple.protocol {
        protocol::TCP => match kind & (tcp::SYN | tcp::ACK | tcp::RST | tcp::FIN) {
            tcp::SYN => Some(Class::SynSent),
            // (The filter may have been started again, or have had no rules.)
            tcp::ACK => Some(Class::PickedUp),
            _ => None,
        },
        protocol::UDP | protocol::UDP_LITE => Some(Class::Datagram),
        protocol::ICMP => (kind == 8).then_some(Class::Echo),
        protocol::ICMP_V6 => (kind == 128).then_some(Class::Echo),
        _ => Some(Class::Other),
    }
}

pub struct Connections {
    all: Slab<Connection>,
    buckets: Vec<u32>,
    key: [u64; 2],
    /// The first and the last one of each class.
    lists: [(u32, u32); CLASSES],
    /// When to look for those that end, at the earliest.
    pub next_look: u64,
    most: usize,
    /// How many are paid for.
    pub allowed: usize,
}

impl Connections {
    pub fn new(key: [u64; 2], most: usize) -> Connections {
        Connections {
            all: Slab::new(),
            buckets: Vec::new(),
            key,
            lists: [(NONE, NONE); CLASSES],
            next_look: 0,
            most,
            allowed: most,
        }
    }

    /// Make the buckets, if there are none. False: there is no memory.
    pub fn prepare(&mut self) -> bool {
        let count = self.most.next_power_of_two();
        if self.buckets.is_empty() {
            if self.buckets.try_reserve_exact(count).is_err() {
                return false;
            }
            self.buckets.resize(count, NONE);
        }
        true
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.all.len() >= self.most.min(self.allowed)
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// Numbers are below this.
    pub fn end(&self) -> u32 {
        self.all.end()
    }

    pub fn get(&self, at: u32) -> Option<&Connection> {
        self.all.get(at)
    }

    fn bucket(&self, tuple: &Tuple) -> usize {
        tuple.keyed(self.key) as usize & (self.buckets.len() - 1)
    }

    /// Which connection has this tuple, and as which of its two.
    pub fn find(&self, tuple: &Tuple) -> Option<(u32, Direction)> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut link = self.buckets[self.bucket(tuple)];
        while link != NONE {
            let connection = self.all.get(link >> 1)?;
            let direction = match link & 1 {
                0 => Direction::Original,
                _ => Direction::Reply,
            };
            if connection.tuple(direction) == tuple {
                return Some((link >> 1, direction));
            }
            link = connection.chained[direction as usize];
        }
        None
    }

    /// How many are looked at until this one is found.
    #[cfg(test)]
    pub fn looks(&self, tuple: &Tuple) -> usize {
        let mut link = self.buckets[self.bucket(tuple)];
        let mut count = 0;
        while link != NONE {
            count += 1;
            let connection = self.all.get(link >> 1).unwrap();
            let tuples = [&connection.original, &connection.reply];
            if tuples[link as usize & 1] == tuple {
                break;
            }
            link = connection.chained[link as usize & 1];
        }
        count
    }

    /// One more, of which neither tuple is known. None: there is no room.
    pub fn insert(&mut self, original: Tuple, reply: Tuple, class: Class, now: u64) -> Option<u32> {
        if self.is_full() || self.buckets.is_empty() {
            return None;
        }
        let places = [self.bucket(&original), self.bucket(&reply)];
        let at = self.all.insert(Connection {
            original,
            reply,
            class,
            replied: false,
            ended: 0,
            ends: 0,
            chained: [NONE; 2],
            before: NONE,
            behind: NONE,
        })?;
        for (i, place) in places.into_iter().enumerate() {
            let next = core::mem::replace(&mut self.buckets[place], at << 1 | i as u32);
            if let Some(connection) = self.all.get_mut(at) {
                connection.chained[i] = next;
            }
        }
        self.append(at, class, now);
        Some(at)
    }

    /// The reply's tuple is another one: nobody has it.
    pub fn set_reply(&mut self, at: u32, reply: Tuple) {
        self.unchain(at, Direction::Reply);
        let place = self.bucket(&reply);
        let next = self.buckets[place];
        if let Some(connection) = self.all.get_mut(at) {
            connection.reply = reply;
            connection.chained[1] = next;
            self.buckets[place] = at << 1 | 1;
        }
    }

    fn unchain(&mut self, at: u32, direction: Direction) {
        let Some(connection) = self.all.get(at) else {
            return;
        };
        let next = connection.chained[direction as usize];
        let own = at << 1 | direction as u32;
        let place = self.bucket(connection.tuple(direction));
        let mut link = self.buckets[place];
        if link == own {
            self.buckets[place] = next;
            return;
        }
        while link != NONE {
            let Some(connection) = self.all.get_mut(link >> 1) else {
                return;
            };
            let chained = &mut connection.chained[link as usize & 1];
            if *chained == own {
                *chained = next;
                return;
            }
            link = *chained;
        }
    }

    /// The last of its class from now on.
    fn append(&mut self, at: u32, class: Class, now: u64) {
        let (_, last) = self.lists[class as usize];
        if let Some(connection) = self.all.get_mut(at) {
            connection.class = class;
            connection.ends = now.saturating_add(SECONDS[class as usize] * SECOND);
            (connection.before, connection.behind) = (last, NONE);
        }
        match self.all.get_mut(last) {
            Some(connection) => connection.behind = at,
            None => self.lists[class as usize].0 = at,
        }
        self.lists[class as usize].1 = at;
    }

    fn take_out(&mut self, at: u32) {
        let Some(connection) = self.all.get(at) else {
            return;
        };
        let (before, behind, class) = (connection.before, connection.behind, connection.class);
        match self.all.get_mut(before) {
            Some(connection) => connection.behind = behind,
            None => self.lists[class as usize].0 = behind,
        }
        match self.all.get_mut(behind) {
            Some(connection) => connection.before = before,
            None => self.lists[class as usize].1 = before,
        }
    }

    pub fn remove(&mut self, at: u32) {
        self.take_out(at);
        self.unchain(at, Direction::Original);
        self.unchain(at, Direction::Reply);
        self.all.remove(at);
    }

    /// Its time begins again, in this class.
    pub fn refresh(&mut self, at: u32, class: Class, now: u64) {
        let Some(connection) = self.all.get(at) else {
            return;
        };
        let ends = now.saturating_add(SECONDS[class as usize] * SECOND);
        // (Within a second it stays where it is.)
        if connection.class == class && ends < connection.ends.saturating_add(SECOND) {
            return;
        }
        self.take_out(at);
        self.append(at, class, now);
    }

    /// An accepted packet went in this direction.
    pub fn passed(&mut self, at: u32, direction: Direction, kind: u8, now: u64) {
        let Some(connection) = self.all.get_mut(at) else {
            return;
        };
        let reply = direction == Direction::Reply;
        connection.replied |= reply;
        let replied = connection.replied;
        let class = match connection.original.protocol {
            protocol::TCP => {
                use Class::*;
                let old = connection.class;
                let begins = kind & (tcp::SYN | tcp::ACK) == tcp::SYN;
                if kind & tcp::RST != 0 {
                    Closed
                } else if begins && !reply && matches!(old, Closed | TimeWait) {
                    (connection.ended, connection.replied) = (0, false);
                    SynSent
                } else if kind & tcp::FIN != 0 {
                    connection.ended |= 1 << direction as u8;
                    if connection.ended == 3 {
                        TimeWait
                    } else {
                        Finishing
                    }
                } else {
                    match old {
                        Pending => SynSent,
                        SynSent if reply && kind & tcp::SYN != 0 => SynReceived,
                        SynReceived if !reply && kind & tcp::ACK != 0 => Established,
                        PickedUp if replied => Established,
                        // (What is said behind an end prolongs nothing.)
                        Closed | TimeWait => return,
                        old => old,
                    }
                }
            }
            protocol::UDP | protocol::UDP_LITE if replied => Class::Stream,
            protocol::UDP | protocol::UDP_LITE => Class::Datagram,
            protocol::ICMP | protocol::ICMP_V6 => Class::Echo,
            _ => Class::Other,
        };
        self.refresh(at, class, now);
    }

    /// Forget those whose time is over, some at a time.
    pub fn time_passes(&mut self, now: u64) {
        if now < self.next_look {
            return;
        }
        let mut left = ROUND;
        for class in 0..CLASSES {
            while let Some(first) = self.all.get(self.lists[class].0) {
                if first.ends > now {
                    break;
                }
                if left == 0 {
                    return;
                }
                left -= 1;
                self.remove(self.lists[class].0);
            }
        }
        self.next_look = now.saturating_add(SECOND);
    }

    /// All of them, and the buckets: there are no rules any more.
    pub fn clear(&mut self) {
        let (key, most, allowed) = (self.key, self.most, self.allowed);
        *self = Connections::new(key, most);
        self.allowed = allowed;
    }
}
