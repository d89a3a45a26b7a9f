//! Timers (timerfd), and which expires first. Times are monotonic ns.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, Default)]
pub struct Timer {
    /// Next expiration, 0 = stopped.
    pub next: u64,
    pub interval: u64,
    /// Absolute times are of the real-time clock.
    pub real: bool,
    /// The next expiration is a time of that clock, and follows it.
    pub follows: bool,
    /// If that clock is set, who reads is to know; it was.
    pub cancels: bool,
    pub cancelled: bool,
    /// As its maker calls its clock, and how it was set.
    pub clock: u8,
    pub how: u8,
    /// Who pays for it.
    pub payer: u32,
}

/// Timers that have not expired, as a heap: none comes before the one at half its place.
#[derive(Default)]
pub struct Coming {
    heap: Vec<(u64, u32)>,
    /// Of each timer, where it is in the heap; OUT: nowhere.
    places: Vec<u32>,
}

const OUT: u32 = u32::MAX;

impl Coming {
    /// Room for timers with numbers below `count`, so that [`Coming::set`] cannot fail. False: there is no memory.
    pub fn reserve(&mut self, count: usize) -> bool {
        let missing = count.saturating_sub(self.places.len());
        let more = count.saturating_sub(self.heap.len());
        if self.places.try_reserve(missing).is_err() || self.heap.try_reserve(more).is_err() {
            return false;
        }
        self.places.resize(self.places.len() + missing, OUT);
        true
    }

    pub fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().copied()
    }

    /// The timer expires then; 0: it does not come.
    pub fn set(&mut self, timer: u32, at: u64) {
        let Some(&place) = self.places.get(timer as usize) else {
            return;
        };
        let mut place = place as usize;
        match (place == OUT as usize, at) {
            (true, 0) => return,
            (true, _) => {
                place = self.heap.len();
                self.heap.push((at, timer));
            }
            (false, 0) => {
                self.places[timer as usize] = OUT;
                self.heap.swap_remove(place);
            }
            (false, _) => self.heap[place].0 = at,
        }
        self.settle(place);
    }

    /// What lies here goes where it belongs.
    fn settle(&mut self, mut place: usize) {
        if place >= self.heap.len() {
            return;
        }
        while place > 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            self.exchange(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            match children.min_by_key(|&child| self.heap[child]) {
                Some(child) if self.heap[child] < self.heap[place] => {
                    self.exchange(place, child);
                    place = child;
                }
                _ => break,
            }
        }
        self.places[self.heap[place].1 as usize] = place as u32;
    }

    fn exchange(&mut self, place: usize, other: usize) {
        self.heap.swap(place, other);
        self.places[self.heap[place].1 as usize] = place as u32;
        self.places[self.heap[other].1 as usize] = other as u32;
    }
}

impl Timer {
    pub fn has_expired(&self, now: u64) -> bool {
        self.next != 0 && self.next <= now
    }

    /// Expirations up to now.
    pub fn expired(&self, now: u64) -> u64 {
        match self.interval {
            _ if !self.has_expired(now) => 0,
            0 => 1,
            interval => (now - self.next) / interval + 1,
        }
    }

    /// So many of them are used up.
    pub fn take(&mut self, count: u64) {
        self.next = match self.interval {
            0 => 0,
            interval => self.next.saturating_add(count * interval),
        };
    }

    /// How long it is till the next expiration; 0 = none comes.
    pub fn left(&self, now: u64) -> u64 {
        if !self.has_expired(now) {
            return self.next.saturating_sub(now);
        }
        match self.interval {
            0 => 0,
            interval => interval - (now - self.next) % interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_count_missed_expirations() {
        let mut t = Timer {
            next: 100,
            interval: 50,
            ..Timer::default()
        };
        assert_eq!((t.expired(99), t.expired(100)), (0, 1));
        t.take(1);
        assert_eq!((t.left(260), t.expired(260), t.next), (40, 3, 150));
        t.take(3);
        assert_eq!(t.next, 300);
        t.interval = 0;
        assert_eq!(t.expired(400), 1);
        t.take(1);
        assert_eq!((t.next, t.expired(500)), (0, 0));
    }

    #[test]
    fn the_first_of_many_is_known() {
        let mut coming = Coming::default();
        let mut plain = alloc::collections::BTreeSet::new();
        let mut times = [0u64; 100];
        assert!(coming.reserve(times.len()));
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let timer = (state >> 33) as usize % times.len();
            let at = (state >> 45) % 50;
            plain.remove(&(times[timer], timer as u32));
            if at != 0 {
                plain.insert((at, timer as u32));
            }
            times[timer] = at;
            coming.set(timer as u32, at);
            assert_eq!(coming.first(), plain.first().copied());
        }
    }
}
