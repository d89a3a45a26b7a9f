//! Process numbers. One space of numbers serves processes, threads, groups and sessions; a number is free when nobody bears it.

use crate::table::{Slot, NONE};
use alloc::vec::Vec;

/// Numbers are below this.
pub const LIMIT: u32 = 32768;
/// After a wrap the search begins here, so that the system's first processes keep memorable numbers for themselves.
const AFTER_WRAP: u32 = 300;

/// Who bears a number.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// The process, or the process of the thread.
    pub owner: Slot,
    /// It is a further thread of the owner, not its process number.
    pub thread: bool,
    pub group: Slot,
    pub session: Slot,
}

const FREE: Number = Number {
    owner: NONE,
    thread: false,
    group: NONE,
    session: NONE,
};

impl Number {
    fn is_free(&self) -> bool {
        self.owner == NONE && self.group == NONE && self.session == NONE
    }
}

#[derive(Debug, Default)]
pub struct Numbers {
    table: Vec<Number>,
    last: u32,
}

impl Numbers {
    pub fn last(&self) -> u32 {
        self.last
    }

    /// One more than the highest number ever given out.
    pub fn end(&self) -> u32 {
        self.table.len() as u32
    }

    /// Anything may be asked for, also what a program sent.
    pub fn get(&self, number: u64) -> Number {
        usize::try_from(number)
            .ok()
            .and_then(|n| self.table.get(n))
            .copied()
            .unwrap_or(FREE)
    }

    /// The process with this number.
    pub fn process(&self, number: u64) -> Option<Slot> {
        let entry = self.get(number);
        (entry.owner != NONE && !entry.thread).then_some(entry.owner)
    }

    /// The record of a number that is in use.
    pub fn at(&mut self, number: u32) -> &mut Number {
        let index = number as usize;
        if index >= self.table.len() {
            self.table.resize(index + 1, FREE);
        }
        &mut self.table[index]
    }

    /// The next free number upwards.
    pub fn allocate(&mut self, owner: Slot, thread: bool) -> Option<u32> {
        let mut candidate = self.last;
        for _ in 0..LIMIT {
            candidate += 1;
            if candidate >= LIMIT {
                candidate = AFTER_WRAP;
            }
            if self.get(candidate as u64).is_free() {
                *self.at(candidate) = Number {
                    owner,
                    thread,
                    ..FREE
                };
                self.last = candidate;
                return Some(candidate);
            }
        }
        None
    }

    /// The process or thread no longer bears it.
    pub fn release(&mut self, number: u32) {
        let entry = self.at(number);
        entry.owner = NONE;
        entry.thread = false;
    }

    #[cfg(test)]
    pub fn set_last(&mut self, last: u32) {
        self.last = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_avoid_what_is_in_use() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.allocate(7, false), Some(1));
        numbers.at(300).session = 3;
        numbers.at(302).group = 3;
        numbers.set_last(LIMIT - 2);
        assert_eq!(numbers.allocate(8, false), Some(LIMIT - 1));
        assert_eq!(numbers.allocate(8, true), Some(301));
        assert_eq!(numbers.allocate(8, true), Some(303));
        assert_eq!(numbers.process(301), None);
        assert_eq!(numbers.process(1), Some(7));
        assert_eq!(numbers.process(u64::MAX), None);
    }

    #[test]
    fn numbers_can_run_out() {
        let mut numbers = Numbers::default();
        let mut count = 0;
        while numbers.allocate(5, true).is_some() {
            count += 1;
        }
        assert_eq!(count, LIMIT - 1);
        numbers.release(4711);
        assert_eq!(numbers.allocate(1, false), Some(4711));
    }
}
