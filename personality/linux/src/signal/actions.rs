//! What the process does at each signal. Most signals have the default, so only the others are kept: exec and vfork, which go through all of them, are short.

use super::{bit, Action, SIG_IGN};
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// Signals with another action than the default, which lie in `list` in their order.
    set: u64,
    list: Vec<Action>,
}

impl Actions {
    pub const fn new() -> Actions {
        Actions {
            set: 0,
            list: Vec::new(),
        }
    }

    fn place(&self, signal: u32) -> usize {
        match self.set >> (signal - 1) {
            // Programs that set many do so in their order.
            0 => self.list.len(),
            _ => (self.set & (bit(signal) - 1)).count_ones() as usize,
        }
    }

    pub fn get(&self, signal: u32) -> Action {
        match self.set & bit(signal) {
            0 => Action::default(),
            _ => self.list[self.place(signal)],
        }
    }

    pub fn set(&mut self, signal: u32, action: Action) {
        let place = self.place(signal);
        match (self.set & bit(signal) != 0, action == Action::default()) {
            (true, true) => {
                self.list.remove(place);
                self.set &= !bit(signal);
            }
            (true, false) => self.list[place] = action,
            (false, true) => {}
            (false, false) => {
                match place == self.list.len() {
                    true => self.list.push(action),
                    false => self.list.insert(place, action),
                }
                self.set |= bit(signal);
            }
        }
    }

    /// The signals, as a mask, with an action that is not the default and of this kind.
    pub fn which(&self, is: impl Fn(&Action) -> bool) -> u64 {
        let (mut left, mut found) = (self.set, 0);
        for action in &self.list {
            let lowest = left & left.wrapping_neg();
            left ^= lowest;
            if is(action) {
                found |= lowest;
            }
        }
        found
    }

    /// exec: caught signals go back to the default, ignored ones stay.
    pub fn reset_for_exec(&mut self) {
        self.set = self.which(|action| action.handler == SIG_IGN);
        self.list.retain(|action| action.handler == SIG_IGN);
        for action in &mut self.list {
            *action = Action {
                handler: SIG_IGN,
                ..Action::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::SIGNALS;

    #[test]
    fn as_a_table_of_all() {
        let (mut actions, mut table) = (Actions::new(), [Action::default(); SIGNALS + 1]);
        let mut random = 1u64;
        for round in 0..20_000 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let signal = (random >> 33) as u32 % 64 + 1;
            let action = Action {
                handler: random >> 50 & 3,
                flags: random >> 48 & 1,
                ..Action::default()
            };
            actions.set(signal, action);
            table[signal as usize] = action;
            if round % 300 == 299 {
                actions.reset_for_exec();
                for action in &mut table {
                    *action = Action {
                        handler: if action.handler == SIG_IGN {
                            SIG_IGN
                        } else {
                            0
                        },
                        ..Action::default()
                    };
                }
            }
            assert!((1..=64).all(|signal| actions.get(signal) == table[signal as usize]));
            let changed = (1..=64).filter(|&signal| table[signal as usize] != Action::default());
            let mask = changed.fold(0, |mask, signal| mask | bit(signal));
            assert_eq!(actions.which(|_| true), mask);
            for kind in [SIG_IGN, 2] {
                let signals = (1..=64).filter(|&signal| table[signal as usize].handler == kind);
                let mask = signals.fold(0, |mask, signal| mask | bit(signal));
                assert_eq!(actions.which(|action| action.handler == kind), mask);
            }
        }
    }
}
