//! Queues in order of rank for objects of which there are few queues' worth of heads to spare: a semaphore's waiting threads, a thread's contended mutexes, and, all of one rank,
//! the queued calls through a portal.
//! [`crate::queue::PriorityQueue`] takes 2 KiB; this one takes a word.
//!
//! Members of one rank form a *group*, a list in order of arrival; the first of each group is linked to the first of the groups above and below. There are
//! 256 ranks, so joining, and leaving as the last of a group, look at no more than 256 groups; everything else takes constant time.
//!
//! What always holds: groups are in order of falling rank; the first of a group knows the last (`previous`), and the last has no `next`.

use crate::pool::{Pool, SemaphoreRef, ThreadRef};
use crate::semaphore::Semaphore;
use crate::thread::Thread;

/// A member's place.
#[derive(Clone, Copy, Debug)]
pub struct Place<R> {
    previous: Option<R>,
    next: Option<R>,
    /// The first of the neighbouring groups; of a group's first only.
    above: Option<R>,
    below: Option<R>,
    rank: u8,
}

impl<R> Place<R> {
    /// Where portal code finds these. Of one that waits alone `previous` is itself and `below` nothing.
    #[cfg(target_os = "none")]
    pub(crate) const PREVIOUS: usize = core::mem::offset_of!(Self, previous);
    #[cfg(target_os = "none")]
    pub(crate) const BELOW: usize = core::mem::offset_of!(Self, below);
    #[cfg(target_os = "none")]
    pub(crate) const RANK: usize = core::mem::offset_of!(Self, rank);

    pub const fn new() -> Place<R> {
        Place {
            previous: None,
            next: None,
            above: None,
            below: None,
            rank: 0,
        }
    }

    /// In a queue?
    pub fn is_queued(&self) -> bool {
        self.previous.is_some()
    }

    pub fn rank(&self) -> u8 {
        self.rank
    }
}

impl<R> Default for Place<R> {
    fn default() -> Self {
        Place::new()
    }
}

/// Where members keep their places.
pub trait Places<R> {
    fn place(&self, r: R) -> &Place<R>;
    fn place_mut(&mut self, r: R) -> &mut Place<R>;
}

impl<F> Places<ThreadRef> for Pool<ThreadRef, Thread<F>> {
    fn place(&self, r: ThreadRef) -> &Place<ThreadRef> {
        &self[r].place
    }
    fn place_mut(&mut self, r: ThreadRef) -> &mut Place<ThreadRef> {
        &mut self[r].place
    }
}

impl Places<SemaphoreRef> for Pool<SemaphoreRef, Semaphore> {
    fn place(&self, r: SemaphoreRef) -> &Place<SemaphoreRef> {
        &self[r].place
    }
    fn place_mut(&mut self, r: SemaphoreRef) -> &mut Place<SemaphoreRef> {
        &mut self[r].place
    }
}

/// A queue.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Ranked<R> {
    head: Option<R>,
}

impl<R> Ranked<R> {
    pub const fn new() -> Ranked<R> {
        Ranked { head: None }
    }
}

impl<R> Default for Ranked<R> {
    fn default() -> Self {
        Ranked::new()
    }
}

impl<R: Copy + Eq> Ranked<R> {
    /// Of the highest rank the one that came first.
    #[inline]
    pub fn first(&self) -> Option<R> {
        self.head
    }

    /// Behind all of the same rank.
    pub fn push(&mut self, places: &mut impl Places<R>, r: R, rank: u8) {
        let (mut above, mut below) = (None, self.head);
        while let Some(first) = below {
            let place = *places.place(first);
            if place.rank == rank {
                let last = places.place_mut(first).previous.replace(r);
                if let Some(last) = last {
                    places.place_mut(last).next = Some(r);
                }
                *places.place_mut(r) = Place {
                    previous: last,
                    next: None,
                    above: None,
                    below: None,
                    rank,
                };
                return;
            }
            if place.rank < rank {
                break;
            }
            above = below;
            below = place.below;
        }
        *places.place_mut(r) = Place {
            previous: Some(r),
            next: None,
            above,
            below,
            rank,
        };
        self.join(places, above, below, Some(r));
    }

    /// `between` (or nothing) is what the groups `above` and `below` find next to them.
    #[inline(never)]
    fn join(
        &mut self,
        places: &mut impl Places<R>,
        above: Option<R>,
        below: Option<R>,
        between: Option<R>,
    ) {
        match above {
            Some(above) => places.place_mut(above).below = between.or(below),
            None => self.head = between.or(below),
        }
        if let Some(below) = below {
            places.place_mut(below).above = between.or(above);
        }
    }

    /// Take a member out.
    #[inline(never)]
    pub fn remove(&mut self, places: &mut impl Places<R>, r: R) {
        let place = core::mem::take(places.place_mut(r));
        let Some(previous) = place.previous else {
            return;
        };
        // The first of a group is the one whose `previous` has no `next`.
        let first = previous == r || places.place(previous).next.is_none();
        if !first {
            places.place_mut(previous).next = place.next;
            match place.next {
                Some(next) => places.place_mut(next).previous = Some(previous),
                None => self.last_left(places, r, previous, place.rank),
            }
            return;
        }
        if let Some(next) = place.next {
            // The group stays: its second becomes the first.
            let only = places.place(next).next.is_none();
            let heir = places.place_mut(next);
            heir.previous = Some(if only { next } else { previous });
            heir.above = place.above;
            heir.below = place.below;
            self.join(places, place.above, place.below, Some(next));
        } else {
            self.join(places, place.above, place.below, None);
        }
    }

    /// The last of the group of `rank` is gone: its first learns who is the last now.
    fn last_left(&mut self, places: &mut impl Places<R>, gone: R, last: R, rank: u8) {
        let mut first = self.head;
        while let Some(at) = first {
            let place = places.place_mut(at);
            if place.rank == rank {
                debug_assert!(place.previous == Some(gone));
                place.previous = Some(last);
                return;
            }
            first = place.below;
        }
    }
}

#[cfg(any(test, feature = "sim"))]
impl<R: Copy + Eq + core::fmt::Debug> Ranked<R> {
    /// All members in order, with everything checked that always holds.
    pub fn members(&self, places: &impl Places<R>) -> std::vec::Vec<R> {
        let mut found = std::vec::Vec::new();
        let (mut above, mut group) = (None, self.head);
        let mut rank = 256;
        while let Some(first) = group {
            let place = places.place(first);
            assert_eq!(place.above, above);
            assert!((place.rank as u16) < rank, "groups in order");
            rank = place.rank as u16;
            let (mut last, mut member) = (first, Some(first));
            while let Some(at) = member {
                assert!(found.len() < 10_000, "a ring");
                assert_eq!(places.place(at).rank, place.rank);
                assert!(at == first || places.place(at).previous == Some(last));
                found.push(at);
                last = at;
                member = places.place(at).next;
            }
            assert_eq!(place.previous, Some(last));
            above = group;
            group = place.below;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Places<usize> for std::vec::Vec<Place<usize>> {
        fn place(&self, r: usize) -> &Place<usize> {
            &self[r]
        }
        fn place_mut(&mut self, r: usize) -> &mut Place<usize> {
            &mut self[r]
        }
    }

    proptest! {
        #[test]
        fn is_a_list_sorted_by_rank_and_arrival(steps in prop::collection::vec((0usize..12, 0u8..5), 1..200)) {
            let mut places: std::vec::Vec<Place<usize>> = (0..12).map(|_| Place::new()).collect();
            let mut queue = Ranked::default();
            let mut model: std::vec::Vec<(usize, u8)> = std::vec::Vec::new();
            for (who, rank) in steps {
                if let Some(at) = model.iter().position(|m| m.0 == who) {
                    queue.remove(&mut places, who);
                    model.remove(at);
                    prop_assert!(!places[who].is_queued());
                } else {
                    let rank = rank * 63;
                    queue.push(&mut places, who, rank);
                    let at = model.iter().position(|m| m.1 < rank).unwrap_or(model.len());
                    model.insert(at, (who, rank));
                }
                let expected: std::vec::Vec<usize> = model.iter().map(|m| m.0).collect();
                prop_assert_eq!(queue.members(&places), expected);
                prop_assert_eq!(queue.first(), model.first().map(|m| m.0));
            }
        }
    }
}
