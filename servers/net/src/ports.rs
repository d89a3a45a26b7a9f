//! Who may have which port. Each address and port in use has counts, and each port has them for all its addresses together, so that a question is answered by two looks, however many have it.

use crate::address::{Address, Endpoint};
use crate::hash::{Key, Map};

/// Ephemeral ports (net.ipv4.ip_local_port_range).
pub const FIRST: u16 = 32_768;
pub const LAST: u16 = 60_999;
const COUNT: u32 = (LAST - FIRST) as u32 + 1;
/// Ports below need a capability.
pub const PRIVILEGED: u16 = 1024;

/// What somebody has, or wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    pub protocol: u8,
    pub at: Endpoint,
    /// `::` that means addresses of IPv4 as well.
    pub dual: bool,
    /// SO_REUSEADDR, by one that does not listen.
    pub reuse: bool,
    /// SO_REUSEPORT.
    pub share: bool,
    /// By bind(2); otherwise a connection has it.
    pub bound: bool,
    pub uid: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Use {
    total: u32,
    /// Without SO_REUSEADDR, or listening.
    firm: u32,
    /// Without SO_REUSEPORT.
    alone: u32,
    /// By bind(2).
    bound: u32,
    uid: u32,
    /// Of several users.
    mixed: bool,
}

impl Use {
    fn refuses(&self, claim: &Claim) -> bool {
        let by_address = claim.reuse && self.firm == 0;
        let by_port = claim.share && self.alone == 0 && !self.mixed && self.uid == claim.uid;
        self.total != 0 && !by_address && !by_port
    }
}

/// An address, or all that are in use of a family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Place {
    protocol: u8,
    all: bool,
    at: Endpoint,
}

pub struct Ports {
    uses: Map<Place, Use>,
}

/// The families that a claim is about: its address there.
fn families(claim: &Claim) -> impl Iterator<Item = Address> {
    let also = (claim.dual && claim.at.address == Address::ANY).then_some(Address::ANY_V4);
    [Some(claim.at.address), also].into_iter().flatten()
}

impl Ports {
    pub fn new(key: Key) -> Ports {
        Ports {
            uses: Map::new(key),
        }
    }

    fn place(claim: &Claim, address: Address, all: bool) -> Place {
        Place {
            protocol: claim.protocol,
            all,
            at: Endpoint::new(address, claim.at.port),
        }
    }

    fn refuses(&self, place: Place, claim: &Claim) -> bool {
        self.uses.get(&place).is_some_and(|of| of.refuses(claim))
    }

    /// May somebody have that?
    pub fn is_free(&self, claim: &Claim) -> bool {
        families(claim).all(|address| {
            let wildcard = address.wildcard();
            match address == wildcard {
                true => !self.refuses(Ports::place(claim, wildcard, true), claim),
                false => {
                    !self.refuses(Ports::place(claim, address, false), claim)
                        && !self.refuses(Ports::place(claim, wildcard, false), claim)
                }
            }
        })
    }

    /// Has nobody anything of this port?
    pub fn is_unused(&self, claim: &Claim) -> bool {
        families(claim).all(|address| {
            let place = Ports::place(claim, address.wildcard(), true);
            self.uses.get(&place).is_none_or(|of| of.total == 0)
        })
    }

    /// Do only connections have something of this port, so that one to another peer may have it too?
    pub fn is_unbound(&self, claim: &Claim) -> bool {
        families(claim).all(|address| {
            let place = Ports::place(claim, address.wildcard(), true);
            self.uses.get(&place).is_none_or(|of| of.bound == 0)
        })
    }

    /// Somebody has it. False, and nothing has happened, if there is no memory.
    pub fn add(&mut self, claim: &Claim) -> bool {
        let mut done = [None; 4];
        let places = families(claim).flat_map(|address| {
            [
                Ports::place(claim, address, false),
                Ports::place(claim, address.wildcard(), true),
            ]
        });
        for (place, slot) in places.zip(&mut done) {
            if !self.uses.contains(&place) && !self.uses.insert(place, Use::default()) {
                for place in done.into_iter().flatten() {
                    self.change(place, claim, false);
                }
                return false;
            }
            self.change(place, claim, true);
            *slot = Some(place);
        }
        true
    }

    fn change(&mut self, place: Place, claim: &Claim, more: bool) {
        let Some(of) = self.uses.get_mut(&place) else {
            return;
        };
        let step = |count: &mut u32, counts: bool| match (counts, more) {
            (false, _) => {}
            (true, true) => *count += 1,
            (true, false) => *count = count.saturating_sub(1),
        };
        if more && of.total == 0 {
            (of.uid, of.mixed) = (claim.uid, false);
        }
        of.mixed |= of.uid != claim.uid;
        step(&mut of.total, true);
        step(&mut of.firm, !claim.reuse);
        step(&mut of.alone, !claim.share);
        step(&mut of.bound, claim.bound);
        if of.total == 0 {
            self.uses.remove(&place);
        }
    }

    /// Has nobody any port?
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// It is had no more.
    pub fn remove(&mut self, claim: &Claim) {
        for address in families(claim) {
            self.change(Ports::place(claim, address, false), claim, false);
            self.change(Ports::place(claim, address.wildcard(), true), claim, false);
        }
    }

    /// An ephemeral port that `good` takes: any of them as likely as any other. None: there is none.
    pub fn ephemeral(random: u64, mut good: impl FnMut(u16) -> bool) -> Option<u16> {
        let start = (random % u64::from(COUNT)) as u32;
        // A step that has no divisor in common with the count reaches all.
        let step = 2 * ((random >> 32) as u32 % (COUNT / 2)) + 1;
        let step = if COUNT.is_multiple_of(step.max(2)) || gcd(step, COUNT) != 1 {
            1
        } else {
            step
        };
        (0..COUNT)
            .map(|at| {
                let at = (u64::from(start) + u64::from(at) * u64::from(step)) % u64::from(COUNT);
                FIRST + at as u16
            })
            .find(|port| good(*port))
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(address: Address, port: u16) -> Claim {
        Claim {
            protocol: 6,
            at: Endpoint::new(address, port),
            dual: false,
            reuse: false,
            share: false,
            bound: true,
            uid: 1000,
        }
    }

    #[test]
    fn addresses_and_wildcards_exclude_each_other() {
        let mut ports = Ports::new(Key(1, 2));
        let own = claim(Address::LOOPBACK_V4, 80);
        assert!(ports.is_free(&own) && ports.add(&own));
        assert!(!ports.is_free(&own));
        assert!(ports.is_free(&claim(Address::v4([127, 0, 0, 2]), 80)));
        assert!(ports.is_free(&claim(Address::LOOPBACK_V4, 81)));
        assert!(!ports.is_free(&claim(Address::ANY_V4, 80)));
        assert!(ports.is_free(&claim(Address::ANY, 80)));
        let dual = Claim {
            dual: true,
            ..claim(Address::ANY, 80)
        };
        assert!(!ports.is_free(&dual));
        ports.remove(&own);
        assert!(ports.is_free(&dual) && ports.add(&dual));
        assert!(!ports.is_free(&own) && !ports.is_free(&claim(Address::LOOPBACK, 80)));
        ports.remove(&dual);
        assert!(ports.is_free(&own) && ports.uses.is_empty());
    }

    #[test]
    fn who_shares_must_agree() {
        let mut ports = Ports::new(Key(1, 2));
        let reuse = Claim {
            reuse: true,
            ..claim(Address::ANY_V4, 80)
        };
        assert!(ports.add(&reuse) && ports.is_free(&reuse));
        assert!(!ports.is_free(&claim(Address::ANY_V4, 80)));
        ports.remove(&reuse);
        let share = Claim {
            share: true,
            ..claim(Address::ANY_V4, 80)
        };
        assert!(ports.add(&share) && ports.is_free(&share));
        assert!(!ports.is_free(&reuse));
        // Another user cannot take part of somebody's connections.
        assert!(!ports.is_free(&Claim { uid: 1001, ..share }));
    }

    #[test]
    fn every_ephemeral_port_is_found() {
        for random in [0, 1, u64::MAX, 0x1234_5678_9abc_def0, 27 << 32 | 5] {
            let mut seen = std::collections::BTreeSet::new();
            assert_eq!(Ports::ephemeral(random, |port| !seen.insert(port)), None);
            assert_eq!(seen.len(), COUNT as usize);
            assert!(seen.iter().all(|port| (FIRST..=LAST).contains(port)));
        }
    }
}
