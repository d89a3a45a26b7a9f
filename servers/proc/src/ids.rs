//! Process numbers. One space of numbers serves processes, threads, groups and sessions; a number is free when nobody bears it.

use crate::pid_spaces::Pids;
use crate::table::{Slot, NONE};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;

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
    pub fn is_free(&self) -> bool {
        self.owner == NONE && self.group == NONE && self.session == NONE
    }
}

/// Numbers of one block: what is kept is as much as is in use, however far the numbers have run on.
const BLOCK: usize = 256;

#[derive(Debug)]
struct Block {
    entries: [Number; BLOCK],
    /// Entries that are not free.
    used: usize,
}

#[derive(Debug)]
pub struct Numbers {
    blocks: [Option<Box<Block>>; LIMIT as usize / BLOCK],
    last: u32,
    /// The PID name spaces of those that have another number in one.
    spaces: BTreeMap<u32, Pids>,
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers {
            blocks: [const { None }; LIMIT as usize / BLOCK],
            last: 0,
            spaces: BTreeMap::new(),
        }
    }
}

impl Numbers {
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Anything may be asked for, also what a program sent.
    pub fn get(&self, number: u64) -> Number {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        match self.blocks.get(index / BLOCK) {
            Some(Some(block)) => block.entries[index % BLOCK],
            _ => FREE,
        }
    }

    /// The process with this number.
    pub fn process(&self, number: u64) -> Option<Slot> {
        let entry = self.get(number);
        (entry.owner != NONE && !entry.thread).then_some(entry.owner)
    }

    /// The first process with this number or a higher one: its number and record.
    pub fn next_process(&self, from: u64) -> Option<(u32, Slot)> {
        let mut number = usize::try_from(from).ok()?;
        while let Some(block) = self.blocks.get(number / BLOCK) {
            let end = (number / BLOCK + 1) * BLOCK;
            if block.is_some() {
                for candidate in number..end {
                    if let Some(slot) = self.process(candidate as u64) {
                        return Some((candidate as u32, slot));
                    }
                }
            }
            number = end;
        }
        None
    }

    /// Change who bears a number. Numbers come from [`Numbers::allocate`] and are therefore in range.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Number)) {
        let index = number as usize;
        let Some(place) = self.blocks.get_mut(index / BLOCK) else {
            return;
        };
        let block = place.get_or_insert_with(|| {
            Box::new(Block {
                entries: [FREE; BLOCK],
                used: 0,
            })
        });
        let entry = &mut block.entries[index % BLOCK];
        let before = entry.is_free();
        change(entry);
        let after = entry.is_free();
        match (before, after) {
            (true, false) => block.used += 1,
            (false, true) => block.used -= 1,
            _ => {}
        }
        // The block that numbers are given out of stays: otherwise it would be made anew with each short-lived process.
        if block.used == 0 && index / BLOCK != self.last as usize / BLOCK {
            *place = None;
        }
        if after && !self.spaces.is_empty() {
            if let Some(Some(space)) = self.spaces.remove(&number) {
                space.forget(number);
            }
        }
    }

    /// This number, if nobody has it.
    pub fn allocate_this(&mut self, number: u32, owner: Slot) -> bool {
        if number >= LIMIT || !self.get(number.into()).is_free() {
            return false;
        }
        self.change(number, |entry| entry.owner = owner);
        true
    }

    /// The next free number upwards, which has one in this PID name space and those above it as well.
    pub fn allocate_in(&mut self, owner: Slot, thread: bool, space: &Pids) -> Option<u32> {
        let number = self.allocate(owner, thread)?;
        if let Some(its) = space {
            if !its.give(number) {
                self.release(number);
                return None;
            }
            self.spaces.insert(number, space.clone());
        }
        Some(number)
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
                self.change(candidate, |entry| {
                    entry.owner = owner;
                    entry.thread = thread;
                });
                let before = core::mem::replace(&mut self.last, candidate);
                self.drop_if_empty(before);
                return Some(candidate);
            }
        }
        None
    }

    fn drop_if_empty(&mut self, number: u32) {
        let index = number as usize / BLOCK;
        if index != self.last as usize / BLOCK {
            self.blocks[index].take_if(|block| block.used == 0);
        }
    }

    /// The process or thread no longer bears it.
    pub fn release(&mut self, number: u32) {
        self.change(number, |entry| {
            entry.owner = NONE;
            entry.thread = false;
        });
    }

    /// The group with this number, or [`NONE`].
    pub fn set_group(&mut self, number: u32, group: Slot) {
        self.change(number, |entry| entry.group = group);
    }

    /// The session with this number, or [`NONE`].
    pub fn set_session(&mut self, number: u32, session: Slot) {
        self.change(number, |entry| entry.session = session);
    }

    #[cfg(test)]
    pub fn set_last(&mut self, last: u32) {
        let before = core::mem::replace(&mut self.last, last);
        self.drop_if_empty(before);
    }

    #[cfg(test)]
    pub fn blocks(&self) -> usize {
        self.blocks.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_avoid_what_is_in_use() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.allocate(7, false), Some(1));
        numbers.set_session(300, 3);
        numbers.set_group(302, 3);
        numbers.set_last(LIMIT - 2);
        assert_eq!(numbers.allocate(8, false), Some(LIMIT - 1));
        assert_eq!(numbers.allocate(8, true), Some(301));
        assert_eq!(numbers.allocate(8, true), Some(303));
        assert_eq!(numbers.process(301), None);
        assert_eq!(numbers.process(1), Some(7));
        assert_eq!(numbers.process(u64::MAX), None);
    }

    #[test]
    fn a_number_can_be_chosen_once() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.allocate(7, false), Some(1));
        assert!(!numbers.allocate_this(1, 8), "somebody has it");
        assert!(!numbers.allocate_this(LIMIT, 8), "there is none such");
        assert!(numbers.allocate_this(2, 8));
        assert_eq!(numbers.process(2), Some(8));
        assert_eq!(numbers.allocate(9, false), Some(3));
        numbers.release(2);
        assert!(numbers.allocate_this(2, 9));
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

    #[test]
    fn memory_follows_what_is_in_use() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.allocate(1, false), Some(1));
        for _ in 0..100_000 {
            let number = numbers.allocate(2, false).unwrap();
            assert!(numbers.blocks() <= 2);
            numbers.release(number);
        }
        numbers.set_last(20_000);
        numbers.allocate(3, false);
        numbers.allocate(4, true);
        assert_eq!(numbers.next_process(0), Some((1, 1)));
        assert_eq!(numbers.next_process(2), Some((20_001, 3)));
        assert_eq!(numbers.next_process(20_002), None);
        assert_eq!(numbers.next_process(u64::MAX), None);
        assert_eq!(numbers.blocks(), 2);
    }
}
