//! A timer (timerfd). Times are monotonic ns.

#[derive(Clone, Copy, Debug, Default)]
pub struct Timer {
    /// Next expiration, 0 = stopped.
    pub next: u64,
    pub interval: u64,
    /// Absolute times are of the real-time clock.
    pub real: bool,
}

impl Timer {
    pub fn has_expired(&self, now: u64) -> bool {
        self.next != 0 && self.next <= now
    }

    /// Expirations up to now, which are then used up.
    pub fn take(&mut self, now: u64) -> u64 {
        if !self.has_expired(now) {
            return 0;
        }
        if self.interval == 0 {
            self.next = 0;
            return 1;
        }
        let count = (now - self.next) / self.interval + 1;
        self.next = self.next.saturating_add(count * self.interval);
        count
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
            real: false,
        };
        assert_eq!(t.take(99), 0);
        assert_eq!(t.take(100), 1);
        assert_eq!(t.left(260), 40);
        assert_eq!(t.take(260), 3);
        assert_eq!(t.next, 300);
        t.interval = 0;
        assert_eq!((t.take(400), t.next, t.take(500)), (1, 0, 0));
    }
}
