//! The threads of a process, in the order in which they were made, and found by the nucleus's number without walking when they are many.

use crate::process::Thread;
use alloc::vec::Vec;
use cairn_abi::{Id, Token};
use core::ops::{Deref, DerefMut};

/// So few are searched through.
const FEW: usize = 16;

#[derive(Debug, Default)]
pub struct Threads {
    list: Vec<Thread>,
    /// For each in the list the number that it got when it was made: ascending.
    made: Vec<u64>,
    next: u64,
    /// When there are more than [`FEW`]: by the nucleus's number, and the number in `made`.
    index: Vec<(Id, u64)>,
}

impl Threads {
    /// See that the next [`Threads::push`] does not fail. False: there is no memory.
    pub fn reserve(&mut self) -> bool {
        // (The index begins when there are more than a few.)
        let indexed = match self.list.len() {
            ..FEW => 0,
            FEW => FEW + 1,
            _ => 1,
        };
        self.index.try_reserve(indexed).is_ok()
            && self.list.try_reserve(1).is_ok()
            && self.made.try_reserve(1).is_ok()
    }

    pub fn push(&mut self, thread: Thread) {
        if self.index.is_empty() && self.list.len() == FEW {
            let ids = self.list.iter().map(|thread| thread.id);
            self.index.extend(ids.zip(self.made.iter().copied()));
            self.index.sort_unstable();
        }
        if !self.index.is_empty() {
            let entry = (thread.id, self.next);
            let place = self.index.partition_point(|other| *other < entry);
            self.index.insert(place, entry);
        }
        self.list.push(thread);
        self.made.push(self.next);
        self.next += 1;
    }

    pub fn remove(&mut self, at: usize) -> Thread {
        let (thread, made) = (self.list.remove(at), self.made.remove(at));
        if let Ok(place) = self.index.binary_search(&(thread.id, made)) {
            self.index.remove(place);
        }
        if self.list.len() <= FEW / 2 {
            self.index = Vec::new();
        }
        thread
    }

    pub fn clear(&mut self) {
        *self = Threads {
            next: self.next,
            ..Threads::default()
        };
    }

    /// Where the thread is whose call this is, if it is held.
    pub fn place_of(&self, token: Token) -> Option<usize> {
        let place = self.place(token as u32)?;
        (self.list[place].token == token).then_some(place)
    }

    /// Where the thread with this number is.
    pub fn place(&self, id: Id) -> Option<usize> {
        if self.index.is_empty() {
            return self.list.iter().position(|thread| thread.id == id);
        }
        let place = self.index.partition_point(|entry| entry.0 < id);
        let (found, made) = *self.index.get(place)?;
        match found == id {
            true => self.made.binary_search(&made).ok(),
            false => None,
        }
    }
}

impl Deref for Threads {
    type Target = [Thread];
    fn deref(&self) -> &[Thread] {
        &self.list
    }
}

impl DerefMut for Threads {
    fn deref_mut(&mut self) -> &mut [Thread] {
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Scheduling;

    #[test]
    fn agrees_with_a_list() {
        let mut random = 9u64;
        let mut next = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 8) % most
        };
        let (mut threads, mut model) = (Threads::default(), Vec::new());
        for step in 0..40_000u64 {
            let more = next(20) < if step / 4000 % 2 == 0 { 12 } else { 7 };
            if more || model.is_empty() {
                // Numbers in no order, none twice.
                let id = (step as u32).wrapping_mul(0x9e37_79b1);
                threads.push(Thread::new(id, 1, Scheduling::default()));
                model.push(id);
            } else {
                let at = next(model.len() as u64) as usize;
                assert_eq!(threads.remove(at).id, model.remove(at));
            }
            assert!(threads
                .iter()
                .map(|thread| thread.id)
                .eq(model.iter().copied()));
            if let Some(at) = model
                .len()
                .checked_sub(1)
                .map(|last| next(last as u64 + 1) as usize)
            {
                assert_eq!(threads.place(model[at]), Some(at));
            }
            assert_eq!(threads.place(7), None);
        }
        threads.push(Thread::new(3, 1, Scheduling::default()));
        assert!(threads.place(3).is_some());
        threads.clear();
        assert!(threads.is_empty() && threads.place(3).is_none());
    }
}
