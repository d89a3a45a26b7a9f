//! What the ways to some destinations carry whole, as routers told (RFC 1191, RFC 8201). Datagrams are cut to it, or refused if they must not be cut.
//! Connections keep their own.
//!
//! It is believed of a packet that a socket may have sent, down to a bound, and for a while. There is room for a fixed number; the oldest goes.

use crate::address::Address;
use alloc::vec::Vec;
use cairn_tcp::time::{Micros, Time, SECOND};

/// Most destinations.
pub const MOST: usize = 256;
/// How long a router's word holds.
pub const LASTS: Micros = 600 * SECOND;
/// No way is taken for narrower. (Of IPv4 this is Linux's bound: packets that still fit may be cut by routers.)
pub const LEAST_V4: u32 = 552;
pub const LEAST_V6: u32 = 1280;

struct Path {
    to: Address,
    mtu: u32,
    until: Time,
}

/// In the order of their addresses.
#[derive(Default)]
pub struct Paths(Vec<Path>);

impl Paths {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A router's word. One that names no MTU (RFC 1191, 5) is none.
    pub fn learn(&mut self, to: Address, mtu: u32, now: Time) {
        if mtu == 0 {
            return;
        }
        let least = match to.is_v4() {
            true => LEAST_V4,
            false => LEAST_V6,
        };
        let (mtu, until) = (mtu.max(least), now.after(LASTS));
        if let Ok(at) = self.find(&to) {
            let path = &mut self.0[at];
            // A wider one is not what a router tells of.
            if path.until <= now || mtu <= path.mtu {
                *path = Path { to, mtu, until };
            }
            return;
        }
        if self.0.len() >= MOST {
            let oldest = self.0.iter().enumerate();
            if let Some((at, _)) = oldest.min_by_key(|(_, path)| path.until) {
                self.0.remove(at);
            }
        }
        // Without memory packets are lost on this way as before.
        if self.0.try_reserve(1).is_ok() {
            let at = self.find(&to).unwrap_or_else(|at| at);
            self.0.insert(at, Path { to, mtu, until });
        }
    }

    /// What the way to a destination carries whole, whose link carries `mtu`.
    pub fn narrowed(&self, to: &Address, mtu: u32, now: Time) -> u32 {
        match self.find(to).map(|at| &self.0[at]) {
            Ok(path) if path.until > now => path.mtu.min(mtu),
            _ => mtu,
        }
    }

    fn find(&self, to: &Address) -> Result<usize, usize> {
        self.0.binary_search_by(|path| path.to.0.cmp(&to.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routers_word_narrows_a_way_for_a_while() {
        let (a, b) = (Address::v4([10, 0, 0, 1]), Address([0x20; 16]));
        let mut paths = Paths::default();
        let at = Time(7 * SECOND);
        paths.learn(a, 0, at);
        assert!(paths.is_empty());
        paths.learn(a, 1000, at);
        paths.learn(b, 100, at);
        assert_eq!(paths.narrowed(&a, 1500, at), 1000);
        assert_eq!(paths.narrowed(&a, 900, at), 900);
        assert_eq!(paths.narrowed(&b, 1500, at), LEAST_V6);
        paths.learn(a, 1400, at);
        assert_eq!(paths.narrowed(&a, 1500, at), 1000);
        paths.learn(a, 68, at);
        assert_eq!(paths.narrowed(&a, 1500, at), LEAST_V4);
        let later = at.after(LASTS);
        assert_eq!(paths.narrowed(&a, 1500, later), 1500);
        paths.learn(a, 1400, later);
        assert_eq!(paths.narrowed(&a, 1500, later), 1400);
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut paths = Paths::default();
        let to = |i: usize| Address::v4([10, 0, (i * 7) as u8, (i >> 8) as u8]);
        for i in 0..=MOST {
            paths.learn(to(i), 1000, Time(i as u64));
        }
        assert_eq!(paths.0.len(), MOST);
        let now = Time(1000);
        assert_eq!(paths.narrowed(&to(0), 1500, now), 1500);
        assert!((1..=MOST).all(|i| paths.narrowed(&to(i), 1500, now) == 1000));
    }
}
