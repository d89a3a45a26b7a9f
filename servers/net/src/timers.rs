//! When something happens by itself: a heap of timers, each of which knows its place. A timer that is set to later stays where it is and is looked at once too early, because that is what most do: a connection's moves with each segment.

use alloc::vec::Vec;
use cairn_slab::Slab;
use cairn_tcp::time::Time;

/// Whose time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    Stream(u32),
    /// Half a connection.
    Half(u32),
    /// A record in TIME-WAIT.
    Wait(u32),
    /// An interface.
    Interface(u32),
    /// A socket of AF_PACKET whose ring is to be looked at.
    Ring(u32),
    /// A group that is to be told of, and all those of an interface.
    Group(u32),
    Groups(u32),
}

struct Timer {
    owner: Owner,
    /// Where in the heap; what it is sorted by there, and when it is to be told.
    place: usize,
    sorted: Time,
    wanted: Time,
}

#[derive(Default)]
pub struct Timers {
    timers: Slab<Timer>,
    heap: Vec<u32>,
}

impl Timers {
    /// A timer that is not set. None: there is no memory.
    pub fn add(&mut self, owner: Owner) -> Option<u32> {
        self.heap.try_reserve(1).ok()?;
        let timer = self.timers.insert(Timer {
            owner,
            place: self.heap.len(),
            sorted: Time::NEVER,
            wanted: Time::NEVER,
        })?;
        self.heap.push(timer);
        Some(timer)
    }

    /// Whose it is, if that was not known when it was made.
    pub fn belongs_to(&mut self, timer: u32, owner: Owner) {
        if let Some(it) = self.timers.get_mut(timer) {
            it.owner = owner;
        }
    }

    fn sorted(&self, place: usize) -> Time {
        let timer = self
            .heap
            .get(place)
            .and_then(|timer| self.timers.get(*timer));
        timer.map_or(Time::NEVER, |timer| timer.sorted)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            if let Some(timer) = self.timers.get_mut(self.heap[place]) {
                timer.place = place;
            }
        }
    }

    fn up(&mut self, mut place: usize) {
        while place > 0 && self.sorted(place) < self.sorted((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn down(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            let least = match self.sorted(left + 1) < self.sorted(left) {
                true => left + 1,
                false => left,
            };
            if least >= self.heap.len() || self.sorted(place) <= self.sorted(least) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    #[inline]
    pub fn set(&mut self, timer: u32, at: Time) {
        let Some(it) = self.timers.get_mut(timer) else {
            return;
        };
        it.wanted = at;
        if at < it.sorted {
            it.sorted = at;
            let place = it.place;
            self.up(place);
        }
    }

    pub fn remove(&mut self, timer: u32) {
        let Some(gone) = self.timers.remove(timer) else {
            return;
        };
        let last = self.heap.len() - 1;
        if gone.place != last {
            self.heap.swap(gone.place, last);
            if let Some(moved) = self.timers.get_mut(self.heap[gone.place]) {
                moved.place = gone.place;
            }
        }
        self.heap.pop();
        if gone.place < self.heap.len() {
            self.up(gone.place);
            self.down(gone.place);
        }
        if self.heap.capacity() > 1024 && self.heap.len() < self.heap.capacity() / 8 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// When to look again.
    #[inline]
    pub fn first(&self) -> Time {
        self.sorted(0)
    }

    /// Somebody whose time has come; not set any more.
    pub fn due(&mut self, now: Time) -> Option<Owner> {
        loop {
            let timer = *self.heap.first()?;
            let it = self.timers.get_mut(timer)?;
            if it.sorted > now {
                return None;
            }
            let due = it.wanted <= now;
            if due {
                it.wanted = Time::NEVER;
            }
            it.sorted = it.wanted;
            let owner = it.owner;
            self.down(0);
            if due {
                return Some(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn timers_are_told_in_order_whatever_they_were_set_to() {
        let mut timers = Timers::default();
        let mut plain: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
        let mut random = 7u64;
        let mut any = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 8) % below
        };
        let mut now = 0;
        for round in 0..20_000u32 {
            match any(4) {
                0 if plain.len() < 300 => {
                    let timer = timers.add(Owner::Stream(round)).unwrap();
                    plain.insert(timer, (round, u64::MAX));
                }
                1 => {
                    let at = any(plain.len() as u64 + 1) as usize;
                    if let Some((&timer, _)) = plain.iter().nth(at) {
                        timers.remove(timer);
                        plain.remove(&timer);
                    }
                }
                2 => {
                    let (at, when) = (any(plain.len() as u64 + 1) as usize, now + any(500));
                    if let Some((&timer, it)) = plain.iter_mut().nth(at) {
                        timers.set(timer, Time(when));
                        it.1 = when;
                    }
                }
                _ => {
                    now += any(50);
                    while let Some(owner) = timers.due(Time(now)) {
                        let it = plain.values_mut().find(|it| Owner::Stream(it.0) == owner);
                        let it = it.unwrap();
                        assert!(it.1 <= now);
                        it.1 = u64::MAX;
                    }
                    assert!(plain.values().all(|it| it.1 > now));
                    let first = plain.values().map(|it| it.1).min().unwrap_or(u64::MAX);
                    assert!(timers.first().0 <= first);
                }
            }
        }
    }
}
