//! When a component that died is started again: at once, unless it dies again and again.

/// Who lived so long (nanoseconds) did not die at once.
const LIFE: u64 = 1_000_000_000;
/// So many deaths in a row cost no time; from then on each costs twice as much, up to a second; so many are enough.
const FREE: u32 = 8;
const SHORTEST: u64 = 10_000_000;
const LONGEST: u64 = 1_000_000_000;
const ENOUGH: u32 = 40;

/// What is known of one component.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaths {
    started: u64,
    in_a_row: u32,
}

impl Deaths {
    pub fn started(&mut self, now: u64) {
        self.started = now;
    }

    /// It died: when it is started again. None: never.
    pub fn died(&mut self, now: u64) -> Option<u64> {
        if now.saturating_sub(self.started) >= LIFE {
            self.in_a_row = 0;
        }
        self.in_a_row += 1;
        let slow = self.in_a_row.saturating_sub(FREE);
        match slow {
            0 => Some(now),
            _ if self.in_a_row < ENOUGH => {
                Some(now + (SHORTEST << (slow - 1).min(10)).min(LONGEST))
            }
            _ => None,
        }
    }

    pub fn in_a_row(&self) -> u32 {
        self.in_a_row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_dies_again_and_again_is_given_up() {
        let (mut deaths, mut now, mut waited) = (Deaths::default(), 5, Vec::new());
        while let Some(when) = deaths.died(now) {
            waited.push(when - now);
            now = when + 1000;
            deaths.started(when);
        }
        assert_eq!(waited.len(), ENOUGH as usize - 1);
        assert!(waited[..8].iter().all(|wait| *wait == 0));
        assert_eq!(waited[8..11], [SHORTEST, 2 * SHORTEST, 4 * SHORTEST]);
        assert_eq!(waited.last(), Some(&LONGEST));
    }

    #[test]
    fn who_lives_for_a_while_is_started_at_once() {
        let mut deaths = Deaths::default();
        for death in 0..1000 {
            deaths.started(death * 2 * LIFE);
            let now = death * 2 * LIFE + LIFE;
            assert_eq!(deaths.died(now), Some(now));
        }
    }
}
