//! What the process does at each signal. Most signals have the default, so only the others are kept: exec and vfork, which go through all of them, are short.
//!
//! A C library that sets a signal to the default says where handlers would return to all the same, and posix_spawn(3) sets all signals so before exec: of these
//! a mask is kept, and the place once.

use super::{bit, sa, Action, SIG_DFL, SIG_IGN};
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// Signals with another action than the default, which lie in `list` in their order.
    set: u64,
    list: Vec<Action>,
    /// Signals with the default and this `restorer`, in no list.
    restored: u64,
    restorer: u64,
}

impl Actions {
    pub const fn new() -> Actions {
        Actions {
            set: 0,
            list: Vec::new(),
            restored: 0,
            restorer: 0,
        }
    }

    fn place(&self, signal: u32) -> usize {
        match self.set >> (signal - 1) {
            // Programs that set many do so in their order.
            0 => self.list.len(),
            _ => (self.set & (bit(signal) - 1)).count_ones() as usize,
        }
    }

    #[inline]
    pub fn get(&self, signal: u32) -> Action {
        if self.restored & bit(signal) != 0 {
            return Action {
                flags: sa::RESTORER,
                restorer: self.restorer,
                ..Action::default()
            };
        }
        match self.set & bit(signal) {
            0 => Action::default(),
            _ => self.list[self.place(signal)],
        }
    }

    #[inline]
    pub fn set(&mut self, signal: u32, action: Action) {
        let restored = (action.handler, action.flags, action.mask) == (SIG_DFL, sa::RESTORER, 0);
        let kept = self.restored & !bit(signal);
        if restored && (kept == 0 || self.restorer == action.restorer) {
            (self.restored, self.restorer) = (kept | bit(signal), action.restorer);
            if self.set & bit(signal) != 0 {
                self.set_listed(signal, Action::default());
            }
            return;
        }
        self.restored = kept;
        self.set_listed(signal, action);
    }

    #[inline(never)]
    fn set_listed(&mut self, signal: u32, action: Action) {
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

    /// The signals, as a mask, with another handler than the default, or other flags or masks of it, and an action of this kind.
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
        self.restored = 0;
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
                flags: [0, 1, sa::RESTORER, sa::RESTORER][(random >> 48 & 3) as usize],
                restorer: random >> 46 & 1,
                mask: u64::from(random >> 40 & 7 == 0),
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
            let changed = (1..=64).filter(|&signal| table[signal as usize].handler != SIG_DFL);
            let mask = changed.fold(0, |mask, signal| mask | bit(signal));
            assert_eq!(actions.which(|action| action.handler != SIG_DFL), mask);
            for kind in [SIG_IGN, 2] {
                let signals = (1..=64).filter(|&signal| table[signal as usize].handler == kind);
                let mask = signals.fold(0, |mask, signal| mask | bit(signal));
                assert_eq!(actions.which(|action| action.handler == kind), mask);
            }
        }
    }
}
