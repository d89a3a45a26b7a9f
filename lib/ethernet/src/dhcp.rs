//! An address for this machine: the client of RFC 2131, from DHCPDISCOVER to renewal. Messages of UDP's payload come in and go out; who calls it puts headers around them.

use crate::{Ip, Mac, NEVER, SECOND};
use alloc::vec;
use alloc::vec::Vec;
use smoltcp::wire::{DhcpMessageType as Kind, DhcpPacket, DhcpRepr, EthernetAddress, Ipv4Address};

/// UDP's ports.
pub const SERVER_PORT: u16 = 67;
pub const CLIENT_PORT: u16 = 68;

/// Options that are asked for: mask, router, name servers, lease, renewal, rebinding.
const ASKED: [u8; 6] = [1, 3, 6, 51, 58, 59];
const SIZE: u16 = 1432;
/// How long the first message waits for an answer; each further one twice as long, at most so many times (4.1).
const FIRST: u64 = 2 * SECOND;
const DOUBLES: u32 = 4;
/// Requests for what was offered, before everything begins anew.
const TRIES: u32 = 4;
/// Shortest lease that is believed.
const LEASE_LEAST: u64 = 30;
const LEASE: u64 = 3600;
/// Name servers that are kept.
pub const NAME_SERVERS: usize = 3;

/// What the machine was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub address: Ip,
    /// Bits of the network's prefix.
    pub bits: u32,
    pub router: Option<Ip>,
    pub name_servers: Vec<Ip>,
    server: Ip,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is a lease, or it says something else than before.
    Configured(Lease),
    /// It is over.
    Lost,
}

/// A message to be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// None: there is no address yet (0.0.0.0).
    pub source: Option<Ip>,
    /// None: to everybody.
    pub destination: Option<Ip>,
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Discovering,
    Requesting { offer: Ip, server: Ip },
    Bound { lease: Lease, rebind: u64, end: u64 },
}

pub struct Client {
    mac: Mac,
    number: u32,
    state: State,
    tries: u32,
    due: u64,
    /// When this began, which messages say in seconds.
    begun: u64,
}

impl Client {
    pub fn new(mac: Mac, now: u64) -> Client {
        Client {
            mac,
            number: 0,
            state: State::Discovering,
            tries: 0,
            due: now,
            begun: now,
        }
    }

    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Bound { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// When [`Client::due`] is to be called.
    pub fn deadline(&self) -> u64 {
        self.due
    }

    /// The carrier is back: the lease is asked about soon.
    pub fn carrier(&mut self, now: u64) {
        self.tries = 0;
        self.due = now;
    }

    fn begin_anew(&mut self, now: u64) {
        (self.state, self.tries) = (State::Discovering, 0);
        (self.begun, self.due) = (now, now);
    }

    /// What is to be done by now: a message to be sent, and whether the lease is over. `random` is what nobody can guess.
    pub fn due(&mut self, now: u64, random: u32) -> (Option<Message>, Option<Event>) {
        if now < self.due {
            return (None, None);
        }
        let mut event = None;
        match &self.state {
            State::Bound { end, .. } if now >= *end => {
                event = Some(Event::Lost);
                self.begin_anew(now);
            }
            State::Requesting { .. } if self.tries >= TRIES => self.begin_anew(now),
            _ => {}
        }
        if self.tries == 0 && !matches!(self.state, State::Requesting { .. }) {
            // One number for all that belongs together (4.4.1): a request has that of its offer.
            self.number = random;
            self.begun = now;
        }
        let wait = FIRST << self.tries.min(DOUBLES);
        // Not all machines of a building at once: up to a second more or less.
        let wait = wait - SECOND / 2 + u64::from(random) % SECOND;
        self.tries += 1;
        self.due = now + wait;
        (Some(self.message(now)), event)
    }

    fn message(&mut self, now: u64) -> Message {
        let any = Ipv4Address::UNSPECIFIED;
        let mac = EthernetAddress(self.mac);
        let mut repr = DhcpRepr {
            message_type: Kind::Discover,
            transaction_id: self.number,
            secs: (now.saturating_sub(self.begun) / SECOND).min(65_535) as u16,
            client_hardware_address: mac,
            client_ip: any,
            your_ip: any,
            server_ip: any,
            router: None,
            subnet_mask: None,
            relay_agent_ip: any,
            broadcast: false,
            requested_ip: None,
            client_identifier: Some(mac),
            server_identifier: None,
            parameter_request_list: Some(&ASKED),
            dns_servers: None,
            max_size: Some(SIZE),
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        };
        let (mut source, mut destination) = (None, None);
        match &self.state {
            State::Discovering => {}
            State::Requesting { offer, server } => {
                repr.message_type = Kind::Request;
                repr.requested_ip = Some(Ipv4Address::from(*offer));
                repr.server_identifier = Some(Ipv4Address::from(*server));
            }
            State::Bound {
                lease, rebind, end, ..
            } => {
                repr.message_type = Kind::Request;
                repr.client_ip = Ipv4Address::from(lease.address);
                source = Some(lease.address);
                if now < *rebind {
                    destination = Some(lease.server);
                }
                // Half of what is left, but not more often than once a minute (4.4.5).
                let next = if now < *rebind { *rebind } else { *end };
                let half = (next.saturating_sub(now) / 2).max(60 * SECOND);
                self.due = (now + half).min(next.max(now + SECOND)).min(*end);
            }
        }
        let mut bytes = vec![0; repr.buffer_len()];
        let emitted = repr.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]));
        debug_assert!(emitted.is_ok());
        Message {
            source,
            destination,
            bytes,
        }
    }

    /// A message that came for port [`CLIENT_PORT`].
    pub fn arrives(&mut self, now: u64, bytes: &[u8]) -> Option<Event> {
        let packet = DhcpPacket::new_checked(bytes).ok()?;
        let told = DhcpRepr::parse(&packet).ok()?;
        let mine = told.client_hardware_address.0 == self.mac
            && told.transaction_id == self.number
            && self.tries > 0;
        if !mine {
            return None;
        }
        let server = told.server_identifier.map(|server| server.octets());
        let usable = |ip: Ip| {
            let ip = Ipv4Address::from(ip);
            !(ip.is_unspecified() || ip.is_broadcast() || ip.is_multicast() || ip.is_loopback())
        };
        let offered = told.your_ip.octets();
        match (&self.state, told.message_type) {
            (State::Discovering, Kind::Offer) if usable(offered) => {
                self.state = State::Requesting {
                    offer: offered,
                    server: server?,
                };
                (self.tries, self.due) = (0, now);
                None
            }
            (State::Requesting { server: asked, .. }, Kind::Ack)
                if usable(offered) && server == Some(*asked) =>
            {
                Some(self.bind(now, offered, server?, &told))
            }
            (State::Bound { lease, .. }, Kind::Ack) if offered == lease.address => {
                let before = lease.clone();
                let event = self.bind(now, offered, server.unwrap_or(before.server), &told);
                (self.lease() != Some(&before)).then_some(event)
            }
            (State::Requesting { server: asked, .. }, Kind::Nak) if server == Some(*asked) => {
                self.begin_anew(now);
                None
            }
            (State::Bound { .. }, Kind::Nak) => {
                self.begin_anew(now);
                Some(Event::Lost)
            }
            _ => None,
        }
    }

    fn bind(&mut self, now: u64, address: Ip, server: Ip, told: &DhcpRepr) -> Event {
        let mask = told
            .subnet_mask
            .map(|mask| u32::from_be_bytes(mask.octets()));
        // A mask with holes is none; without one the machine knows its router only.
        let bits = mask.map_or(24, |mask| mask.leading_ones());
        let servers = told.dns_servers.iter().flatten();
        let lease = Lease {
            address,
            bits: bits.clamp(1, 32),
            router: told.router.map(|router| router.octets()),
            name_servers: servers
                .take(NAME_SERVERS)
                .map(|server| server.octets())
                .collect(),
            server,
        };
        let length = u64::from(told.lease_duration.unwrap_or(LEASE as u32)).max(LEASE_LEAST);
        let half = told
            .renew_duration
            .map_or(length / 2, u64::from)
            .min(length);
        let most = told
            .rebind_duration
            .map_or(length * 7 / 8, u64::from)
            .clamp(half, length);
        let at = |seconds: u64| now.saturating_add(seconds * SECOND);
        let forever = told.lease_duration == Some(u32::MAX);
        let when = |seconds: u64| if forever { NEVER } else { at(seconds) };
        self.state = State::Bound {
            lease: lease.clone(),
            rebind: when(most),
            end: when(length),
        };
        (self.tries, self.due) = (0, when(half));
        Event::Configured(lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
    const SERVER: Ip = [10, 0, 2, 2];
    const OFFER: Ip = [10, 0, 2, 15];

    /// What a server sees of a message: kind, number, address that is asked for, own address.
    fn seen(message: &Message) -> (Kind, u32, Option<Ip>, Ip) {
        let packet = DhcpPacket::new_checked(&message.bytes[..]).unwrap();
        let repr = DhcpRepr::parse(&packet).unwrap();
        assert_eq!(repr.client_hardware_address.0, MAC);
        (
            repr.message_type,
            repr.transaction_id,
            repr.requested_ip.map(|ip| ip.octets()),
            repr.client_ip.octets(),
        )
    }

    fn answer(kind: Kind, number: u32, change: impl FnOnce(&mut DhcpRepr)) -> Vec<u8> {
        let any = Ipv4Address::UNSPECIFIED;
        let mut repr = DhcpRepr {
            message_type: kind,
            transaction_id: number,
            secs: 0,
            client_hardware_address: EthernetAddress(MAC),
            client_ip: any,
            your_ip: Ipv4Address::from(OFFER),
            server_ip: Ipv4Address::from(SERVER),
            router: Some(Ipv4Address::from(SERVER)),
            subnet_mask: Some(Ipv4Address::new(255, 255, 255, 0)),
            relay_agent_ip: any,
            broadcast: false,
            requested_ip: None,
            client_identifier: None,
            server_identifier: Some(Ipv4Address::from(SERVER)),
            parameter_request_list: None,
            dns_servers: None,
            max_size: None,
            lease_duration: Some(1000),
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        };
        change(&mut repr);
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]))
            .unwrap();
        bytes
    }

    fn bound() -> (Client, u64) {
        let mut client = Client::new(MAC, 0);
        let (message, _) = client.due(0, 77);
        assert_eq!(seen(&message.unwrap()), (Kind::Discover, 77, None, [0; 4]));
        assert_eq!(client.arrives(10, &answer(Kind::Offer, 77, |_| ())), None);
        let (message, _) = client.due(10, 99);
        assert_eq!(
            seen(&message.unwrap()),
            (Kind::Request, 77, Some(OFFER), [0; 4])
        );
        let event = client.arrives(20, &answer(Kind::Ack, 77, |_| ()));
        let lease = client.lease().unwrap().clone();
        assert_eq!(event, Some(Event::Configured(lease.clone())));
        assert_eq!(
            (lease.address, lease.bits, lease.router),
            (OFFER, 24, Some(SERVER))
        );
        (client, 20)
    }

    #[test]
    fn a_lease_is_had_and_renewed() {
        let (mut client, now) = bound();
        assert_eq!(client.deadline(), now + 500 * SECOND);
        assert_eq!(client.due(now + 499 * SECOND, 5), (None, None));
        let (message, event) = client.due(client.deadline(), 5);
        let message = message.unwrap();
        assert_eq!(seen(&message), (Kind::Request, 5, None, OFFER));
        assert_eq!(
            (message.source, message.destination, event),
            (Some(OFFER), Some(SERVER), None)
        );
        // It says the same: nothing is to be done.
        let later = now + 501 * SECOND;
        assert_eq!(client.arrives(later, &answer(Kind::Ack, 5, |_| ())), None);
        assert_eq!(client.deadline(), later + 500 * SECOND);
        let (message, _) = client.due(client.deadline(), 6);
        assert!(message.is_some());
        let other = answer(Kind::Ack, 6, |repr| repr.router = None);
        assert!(matches!(
            client.arrives(later, &other),
            Some(Event::Configured(lease)) if lease.router.is_none()
        ));
    }

    #[test]
    fn without_answers_the_lease_ends() {
        let (mut client, now) = bound();
        let (mut alone, mut everybody) = (0, 0);
        let lost = loop {
            let due = client.deadline();
            let (message, event) = client.due(due, 5);
            if event.is_some() {
                break due;
            }
            match message.unwrap().destination {
                Some(_) => alone += 1,
                None => everybody += 1,
            }
            assert!(client.deadline() > due && alone + everybody < 100);
        };
        assert_eq!(lost, now + 1000 * SECOND);
        assert!(alone >= 2 && everybody >= 1, "{alone} {everybody}");
        assert_eq!(client.lease(), None);
    }

    #[test]
    fn a_server_that_says_nothing_is_asked_more_and_more_seldom() {
        let mut client = Client::new(MAC, 0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let now = client.deadline();
            assert!(client.due(now, 0x8000_0000).0.is_some());
            waits.push((client.deadline() - now) / SECOND);
        }
        assert!(waits.windows(2).all(|two| two[0] <= two[1]), "{waits:?}");
        assert!(waits[0] <= 3 && (30..=33).contains(&waits[7]), "{waits:?}");
        // An offer that nobody confirms.
        client.arrives(0, &answer(Kind::Offer, 0x8000_0000, |_| ()));
        for _ in 0..TRIES {
            let (message, _) = client.due(client.deadline(), 1);
            assert_eq!(seen(&message.unwrap()).0, Kind::Request);
        }
        let (message, _) = client.due(client.deadline(), 1);
        assert_eq!(seen(&message.unwrap()).0, Kind::Discover);
    }

    #[test]
    fn what_is_not_for_this_machine_changes_nothing() {
        let mut client = Client::new(MAC, 0);
        client.due(0, 77);
        let wrong = [
            answer(Kind::Offer, 78, |_| ()),
            answer(Kind::Offer, 77, |repr| {
                repr.client_hardware_address = EthernetAddress([2; 6]);
            }),
            answer(Kind::Offer, 77, |repr| repr.server_identifier = None),
            answer(Kind::Offer, 77, |repr| {
                repr.your_ip = Ipv4Address::new(224, 0, 0, 1);
            }),
            answer(Kind::Ack, 77, |_| ()),
            answer(Kind::Nak, 77, |_| ()),
        ];
        for bytes in &wrong {
            assert_eq!(client.arrives(1, bytes), None);
            assert!(matches!(client.state, State::Discovering));
        }
        let good = answer(Kind::Offer, 77, |_| ());
        for cut in 0..good.len() {
            client.arrives(1, &good[..cut.min(239)]);
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            Client::new(MAC, 0).arrives(1, &bad);
        }
        // Another server's answer to the request; then a refusal.
        client.arrives(1, &good);
        client.due(1, 99);
        let other = answer(Kind::Ack, 77, |repr| {
            repr.server_identifier = Some(Ipv4Address::new(10, 9, 9, 9));
        });
        assert_eq!(client.arrives(2, &other), None);
        assert_eq!(client.arrives(2, &answer(Kind::Nak, 77, |_| ())), None);
        let (message, _) = client.due(2, 100);
        assert_eq!(seen(&message.unwrap()), (Kind::Discover, 100, None, [0; 4]));
        let (mut client, now) = bound();
        client.due(client.deadline(), 5);
        let event = client.arrives(now, &answer(Kind::Nak, 5, |_| ()));
        assert_eq!(event, Some(Event::Lost));
    }
}
