//! Routes, which say by which interface a packet leaves, and the set of this machine's own addresses. Both are found by bisection, however many there are: a
//! lookup takes one for each length of prefix that is in use.

use crate::address::Address;
use alloc::vec::Vec;

/// Who made a route (RTPROT_ of rtnetlink(7)).
pub mod origin {
    pub const KERNEL: u8 = 2;
    pub const BOOT: u8 = 3;
    pub const RA: u8 = 9;
    pub const DHCP: u8 = 16;
}

/// How far away what it leads to is (RT_SCOPE_).
pub mod scope {
    pub const UNIVERSE: u8 = 0;
    pub const SITE: u8 = 200;
    pub const LINK: u8 = 253;
    pub const HOST: u8 = 254;
}

/// A route: what it is for, and where it leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Route {
    pub prefix: Address,
    /// Of 128, also for IPv4.
    pub bits: u32,
    pub interface: u32,
    /// None: the destination is a neighbour.
    pub gateway: Option<Address>,
    pub metric: u32,
    /// Where packets come from, unless their sender says so.
    pub source: Option<Address>,
    pub origin: u8,
    pub scope: u8,
    /// Whose account it is on.
    pub payer: Option<u32>,
}

impl Route {
    /// The longest prefix first, then the least metric.
    fn order(&self) -> (u32, Address, u32) {
        (128 - self.bits.min(128), self.prefix, self.metric)
    }
}

/// All routes, in their order.
#[derive(Default)]
pub struct Routes {
    all: Vec<Route>,
    /// Lengths of prefixes that are in use, of IPv6 and of IPv4: the longest first, with how many there are.
    lengths: [Vec<(u32, u32)>; 2],
}

impl Routes {
    pub fn all(&self) -> &[Route] {
        &self.all
    }

    /// False: there is no memory.
    pub fn add(&mut self, route: Route) -> bool {
        let lengths = &mut self.lengths[usize::from(route.prefix.is_v4())];
        let at = lengths.partition_point(|of| of.0 > route.bits);
        let known = lengths.get(at).is_some_and(|of| of.0 == route.bits);
        if self.all.try_reserve(1).is_err() || !known && lengths.try_reserve(1).is_err() {
            return false;
        }
        match known {
            true => lengths[at].1 += 1,
            false => lengths.insert(at, (route.bits, 1)),
        }
        let order = route.order();
        let at = self.all.partition_point(|of| of.order() <= order);
        self.all.insert(at, route);
        true
    }

    /// Take out those that this is said of, and tell of each.
    pub fn remove(&mut self, which: impl Fn(&Route) -> bool, mut gone: impl FnMut(&Route)) {
        let lengths = &mut self.lengths;
        self.all.retain(|route| {
            let goes = which(route);
            if goes {
                gone(route);
                let lengths = &mut lengths[usize::from(route.prefix.is_v4())];
                let at = lengths.partition_point(|of| of.0 > route.bits);
                if let Some(of) = lengths.get_mut(at) {
                    of.1 -= 1;
                    if of.1 == 0 {
                        lengths.remove(at);
                    }
                }
            }
            !goes
        });
    }

    /// Those for exactly this.
    pub fn of_prefix(&self, prefix: &Address, bits: u32) -> &[Route] {
        let key = (128 - bits.min(128), *prefix);
        let order = |route: &Route| (route.order().0, route.prefix);
        let from = self.all.partition_point(|of| order(of) < key);
        let count = self.all[from..].partition_point(|of| order(of) == key);
        &self.all[from..from + count]
    }

    /// The best one to an address that this is said of.
    pub fn find(&self, to: &Address, takes: impl Fn(&Route) -> bool) -> Option<&Route> {
        let lengths = &self.lengths[usize::from(to.is_v4())];
        lengths.iter().find_map(|(bits, _)| {
            let same = self.of_prefix(&to.masked(*bits), *bits);
            same.iter().find(|route| takes(route))
        })
    }
}

/// Addresses, each as often as it was put in.
#[derive(Default)]
pub struct Addresses(Vec<(Address, u32)>);

impl Addresses {
    pub fn contains(&self, address: &Address) -> bool {
        self.0.binary_search_by_key(address, |of| of.0).is_ok()
    }

    /// False: there is no memory.
    pub fn add(&mut self, address: Address) -> bool {
        match self.0.binary_search_by_key(&address, |of| of.0) {
            Ok(at) => self.0[at].1 += 1,
            Err(_) if self.0.try_reserve(1).is_err() => return false,
            Err(at) => self.0.insert(at, (address, 1)),
        }
        true
    }

    pub fn remove(&mut self, address: &Address) {
        if let Ok(at) = self.0.binary_search_by_key(address, |of| of.0) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_thousands_is_found() {
        let mut routes = Routes::default();
        let v4 = Address::v4;
        for i in 0..4000u32 {
            let [.., a, b] = i.to_be_bytes();
            let route = |bits: u32, interface: u32| Route {
                prefix: v4([10, a, b, 0]),
                bits: 96 + bits,
                interface,
                ..Route::default()
            };
            assert!(routes.add(route(24, i)));
        }
        let all = Route {
            prefix: Address::ANY_V4,
            bits: 96,
            interface: 9999,
            ..Route::default()
        };
        assert!(
            routes.add(all)
                && routes.add(Route {
                    metric: 5,
                    interface: 7,
                    ..all
                })
        );
        let found = |to| routes.find(&to, |_| true).map(|route| route.interface);
        assert_eq!(found(v4([10, 3, 4, 5])), Some(3 << 8 | 4));
        assert_eq!(found(v4([11, 3, 4, 5])), Some(9999));
        assert_eq!(found(Address::LOOPBACK), None);
        let by = |to, number| routes.find(&to, |route: &Route| route.interface == number);
        assert!(by(v4([10, 3, 4, 5]), 7).is_some_and(|route| route.bits == 96));
        assert_eq!(routes.of_prefix(&Address::ANY_V4, 96).len(), 2);
        let mut count = 0;
        routes.remove(|route| route.bits == 120, |_| count += 1);
        assert_eq!((count, routes.all().len()), (4000, 2));
        assert_eq!(routes.lengths[1], [(96, 2)]);
    }

    #[test]
    fn addresses_are_counted() {
        let mut set = Addresses::default();
        let one = Address::v4([10, 0, 0, 1]);
        assert!(set.add(one) && set.add(one) && set.add(Address::LOOPBACK));
        set.remove(&one);
        assert!(set.contains(&one) && !set.contains(&Address::ANY));
        set.remove(&one);
        set.remove(&one);
        assert!(!set.contains(&one) && set.contains(&Address::LOOPBACK));
    }
}
