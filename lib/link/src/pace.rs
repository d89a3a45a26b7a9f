//! When a driver looks at its device (A5 to A7 of the design): upon interrupts, by a clock, or by either as the load is. Pure logic: times come in, a decision goes out.
//!
//! Per-event interrupts cost C for each event on top of the work α, the clock costs C for each tick, whatever comes: it is the better one from about β events a second on. So the hybrid goes over to the clock when a look finds two frames or more a tick on average, and back when some ticks in a row found nothing.

use cairn_idl::link::Way;

/// Ticks in a row without work after which the hybrid waits for an interrupt again.
const QUIET: u32 = 4;
const SECOND: u64 = 1_000_000_000;

/// How to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub interrupts: bool,
    /// Until then at the latest, if anything.
    pub until: Option<u64>,
}

#[derive(Debug)]
pub struct Pace {
    way: Way,
    /// Nanoseconds from tick to tick.
    period: u64,
    next: u64,
    /// The hybrid's, at present.
    clocked: bool,
    quiet: u32,
    /// Work since the window began in which load is measured.
    work: u64,
    begun: u64,
    ticks: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            way: Way::Interrupts,
            period: SECOND,
            next: 0,
            clocked: false,
            quiet: 0,
            work: 0,
            begun: 0,
            ticks: 0,
        }
    }
}

impl Pace {
    pub fn set(&mut self, way: Way, hertz: u32) {
        let ticks = self.ticks;
        *self = Pace {
            way,
            period: SECOND / u64::from(hertz.max(1)),
            ticks,
            ..Pace::default()
        };
    }

    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    fn is_clocked(&self) -> bool {
        self.way == Way::Clock || self.way == Way::Hybrid && self.clocked
    }

    /// A look at the device is over that found so much, and now the driver would sleep.
    pub fn sleep(&mut self, now: u64, work: usize) -> Wait {
        self.work += work as u64;
        if self.way == Way::Hybrid {
            self.follow(now, work);
        }
        if !self.is_clocked() {
            return Wait {
                interrupts: true,
                until: None,
            };
        }
        if now >= self.next {
            // Ticks that were missed are not made up for.
            self.next = now - now % self.period + self.period;
            self.ticks += 1;
        }
        Wait {
            interrupts: false,
            until: Some(self.next),
        }
    }

    /// The hybrid's choice.
    fn follow(&mut self, now: u64, work: usize) {
        if self.clocked {
            // Once for each tick.
            if now >= self.next {
                self.quiet = if work > 0 || self.work > 0 {
                    0
                } else {
                    self.quiet + 1
                };
                self.work = 0;
                if self.quiet >= QUIET {
                    (self.clocked, self.quiet, self.begun) = (false, 0, now);
                }
            }
            return;
        }
        let passed = now.saturating_sub(self.begun);
        if passed >= self.period {
            // Two frames in each period make the clock worth its while.
            if self.work >= 2 * (passed / self.period) {
                (self.clocked, self.quiet, self.next) = (true, 0, now);
            }
            (self.work, self.begun) = (0, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const INTERRUPT: Wait = Wait {
        interrupts: true,
        until: None,
    };

    #[test]
    fn interrupts_need_no_clock() {
        let mut pace = Pace::default();
        assert_eq!(pace.sleep(5, 1000), INTERRUPT);
        assert_eq!(pace.ticks(), 0);
    }

    #[test]
    fn the_clock_ticks_whatever_comes() {
        let mut pace = Pace::default();
        pace.set(Way::Clock, 1000);
        let wait = |at| Wait {
            interrupts: false,
            until: Some(at),
        };
        assert_eq!(pace.sleep(10 * MS + 7, 0), wait(11 * MS));
        // Woken by something else in between: no tick.
        assert_eq!(pace.sleep(10 * MS + 9, 5), wait(11 * MS));
        assert_eq!(pace.sleep(11 * MS, 5), wait(12 * MS));
        // Late: those that were missed are left out.
        assert_eq!(pace.sleep(15 * MS + 1, 5), wait(16 * MS));
        assert_eq!(pace.ticks(), 3);
    }

    #[test]
    fn the_hybrid_follows_the_load() {
        let mut pace = Pace::default();
        pace.set(Way::Hybrid, 1000);
        // One frame in a tick's time now and then.
        for i in 1..20 {
            assert_eq!(pace.sleep(i * MS, 1), INTERRUPT);
        }
        // Ten.
        let mut clocked = false;
        for i in 200..220 {
            clocked |= pace.sleep(i * MS / 10, 1) != INTERRUPT;
        }
        assert!(clocked);
        // Nothing for a while.
        let mut now = 22 * MS;
        for _ in 0..10 {
            let wait = pace.sleep(now, 0);
            now = wait.until.unwrap_or(now + MS);
        }
        assert_eq!(pace.sleep(now, 0), INTERRUPT);
    }
}
