//! Who waits: a record for each request that cannot be answered yet, in the line of what it waits for, in order of arrival. A record leaves its line when its result is known, when its time is over, or when its caller is gone; each takes the same time however many wait.

use crate::sem::Operation;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use cairn_slab::Slab;

pub const NONE: u32 = u32::MAX;

/// First and last record of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub first: u32,
    pub last: u32,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            first: NONE,
            last: NONE,
        }
    }
}

impl Line {
    pub fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

/// What a record waits for, by index of the queue or set.
#[derive(Debug)]
pub enum For {
    /// A message that [`crate::msg::Wanted`] fits.
    Message(u32, crate::msg::Wanted),
    /// Room in a queue.
    Room(u32),
    /// The same of a POSIX queue.
    Taken(u32),
    Put(u32),
    /// That all of these operations can be carried out: on one semaphore alone, or on several.
    Operations {
        set: u32,
        list: Vec<Operation>,
        pid: u32,
        /// The record of the process that undoes them.
        undo: Option<u32>,
        /// The semaphore that it waits for, and whether that it becomes zero.
        at: (u16, bool),
        /// In the line of that semaphore; otherwise in the set's.
        single: bool,
    },
}

#[derive(Debug)]
pub struct Waiter {
    pub what: For,
    next: u32,
    previous: u32,
    /// It is in a line.
    linked: bool,
    /// 0: for ever.
    deadline: u64,
    /// What is to be answered.
    pub result: Option<i64>,
}

#[derive(Default)]
pub struct Waiters {
    all: Slab<Waiter>,
    times: BTreeSet<(u64, u32)>,
    /// Keys to be woken.
    pub woken: Vec<u64>,
}

/// What the framework knows the wait of a record by.
pub fn key(waiter: u32) -> u64 {
    1 << 40 | u64::from(waiter)
}

impl Waiters {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A record at the end of this line. None: there is no memory.
    pub fn add(&mut self, line: &mut Line, what: For, deadline: u64) -> Option<u32> {
        if self.woken.try_reserve(self.all.len() + 1).is_err() {
            return None;
        }
        let at = self.all.insert(Waiter {
            what,
            next: NONE,
            previous: line.last,
            linked: true,
            deadline,
            result: None,
        })?;
        match self.all.get_mut(line.last) {
            Some(last) => last.next = at,
            None => line.first = at,
        }
        line.last = at;
        if deadline != 0 {
            self.times.insert((deadline, at));
        }
        Some(at)
    }

    pub fn get(&self, at: u32) -> Option<&Waiter> {
        self.all.get(at)
    }

    pub fn get_mut(&mut self, at: u32) -> Option<&mut Waiter> {
        self.all.get_mut(at)
    }

    /// The record behind this one.
    pub fn next(&self, at: u32) -> u32 {
        self.all.get(at).map_or(NONE, |waiter| waiter.next)
    }

    /// Take it out of its line, if it is in one.
    pub fn unlink(&mut self, line: &mut Line, at: u32) {
        let Some(waiter) = self.all.get_mut(at).filter(|waiter| waiter.linked) else {
            return;
        };
        waiter.linked = false;
        let (next, previous) = (waiter.next, waiter.previous);
        (waiter.next, waiter.previous) = (NONE, NONE);
        match self.all.get_mut(previous) {
            Some(other) => other.next = next,
            None => line.first = next,
        }
        match self.all.get_mut(next) {
            Some(other) => other.previous = previous,
            None => line.last = previous,
        }
    }

    /// Its request runs again, with what is to be answered.
    pub fn finish(&mut self, line: &mut Line, at: u32, result: i64) {
        self.unlink(line, at);
        if let Some(waiter) = self.all.get_mut(at) {
            waiter.result = Some(result);
            self.woken.push(key(at));
        }
    }

    /// Its request runs again, and tries.
    pub fn wake(&mut self, at: u32) {
        self.woken.push(key(at));
    }

    /// All of a line: what they waited for is gone.
    pub fn finish_all(&mut self, line: &mut Line, result: i64) {
        while !line.is_empty() {
            self.finish(line, line.first, result);
        }
    }

    /// The record is not needed any more. (It is in no line.)
    pub fn remove(&mut self, at: u32) -> Option<Waiter> {
        let waiter = self.all.remove(at)?;
        if waiter.deadline != 0 {
            self.times.remove(&(waiter.deadline, at));
        }
        Some(waiter)
    }

    /// The next record whose time is over, and when that of the first one will be.
    pub fn next_over(&mut self, now: u64) -> Option<u32> {
        let &(time, at) = self.times.first()?;
        if time > now {
            return None;
        }
        self.times.pop_first();
        Some(at)
    }

    pub fn deadline(&self) -> Option<u64> {
        self.times.first().map(|&(time, _)| time)
    }
}
