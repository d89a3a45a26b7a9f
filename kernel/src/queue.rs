//! Queues of threads. A thread is in at most one of them at a time, so one pair of links in the thread serves all:
//! the ready queue, a channel's waiting senders, its held callers, its receivers, and a domain's stopped threads.

use crate::pool::{Pool, ThreadRef};
use crate::thread::Thread;
use core::borrow::BorrowMut;

/// The links of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Link {
    pub previous: Option<ThreadRef>,
    pub next: Option<ThreadRef>,
}

impl Link {
    pub const NONE: Link = Link {
        previous: None,
        next: None,
    };

    /// Of whoever is linked with these links: is nobody else in the list?
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.previous.is_none() && self.next.is_none()
    }
}

/// A doubly linked list.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct List {
    pub(crate) head: Option<ThreadRef>,
    pub(crate) tail: Option<ThreadRef>,
}

type Threads<F> = Pool<ThreadRef, Thread<F>>;

impl List {
    /// Nobody is in it.
    pub const NEW: List = List {
        head: None,
        tail: None,
    };

    #[inline]
    pub fn first(&self) -> Option<ThreadRef> {
        self.head
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The empty list becomes that of `t` alone.
    #[inline]
    pub fn set_only<F>(&mut self, thread: &mut Thread<F>, t: ThreadRef) {
        thread.link = Link::default();
        *self = List {
            head: Some(t),
            tail: Some(t),
        };
    }

    pub fn push_back<F>(&mut self, threads: &mut Threads<F>, t: ThreadRef) {
        threads[t].link = Link {
            previous: self.tail,
            next: None,
        };
        match self.tail {
            Some(last) => threads[last].link.next = Some(t),
            None => self.head = Some(t),
        }
        self.tail = Some(t);
    }

    #[inline(never)]
    pub fn push_front<F>(&mut self, threads: &mut Threads<F>, t: ThreadRef) {
        threads[t].link = Link {
            previous: None,
            next: self.head,
        };
        match self.head {
            Some(first) => threads[first].link.previous = Some(t),
            None => self.tail = Some(t),
        }
        self.head = Some(t);
    }

    #[inline(never)]
    pub fn remove<F>(&mut self, threads: &mut Threads<F>, t: ThreadRef) {
        let link = threads[t].link;
        match link.previous {
            Some(p) => threads[p].link.next = link.next,
            None => self.head = link.next,
        }
        match link.next {
            Some(n) => threads[n].link.previous = link.previous,
            None => self.tail = link.previous,
        }
    }
}

/// One list per priority.
pub type Lists = [List; 256];

/// Empty lists.
pub const LISTS: Lists = [List::NEW; 256];

/// The greatest number whose bit is set, −1 if none is.
#[inline(never)]
fn highest(occupied: &[u64; 4]) -> i16 {
    let in_word = |i: i16, word: u64| i * 64 + 63 - word.leading_zeros() as i16;
    match *occupied {
        [0, 0, 0, 0] => -1,
        [word, 0, 0, 0] => in_word(0, word),
        [_, word, 0, 0] => in_word(1, word),
        [_, _, word, 0] => in_word(2, word),
        [_, _, _, word] => in_word(3, word),
    }
}

/// A list per priority, in the queue itself or elsewhere; all operations take constant time.
// The lists last, as in [`crate::channel::Channel`].
#[repr(C)]
pub struct PriorityQueue<L = Lists> {
    pub(crate) occupied: [u64; 4],
    /// Highest occupied priority, −1 if all lists are empty; but never below `floor`.
    pub(crate) top: i16,
    /// Something that is no thread waits here as if one of this priority did (−1: nothing does).
    floor: i16,
    pub(crate) lists: L,
}

impl PriorityQueue {
    pub const fn new() -> PriorityQueue {
        PriorityQueue::over(LISTS)
    }
}

impl<L> PriorityQueue<L> {
    /// Of lists that are empty.
    pub const fn over(lists: L) -> PriorityQueue<L> {
        PriorityQueue {
            lists,
            occupied: [0; 4],
            top: -1,
            floor: -1,
        }
    }
}

impl<L: BorrowMut<Lists>> PriorityQueue<L> {
    /// Highest priority of a queued thread, −1 when empty; or the floor.
    #[inline]
    pub fn top(&self) -> i16 {
        self.top
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top < 0
    }

    /// The first of the most important threads; `None` also if nothing but the floor is at the top.
    #[inline]
    pub fn first(&self) -> Option<ThreadRef> {
        if self.top < 0 {
            return None;
        }
        self.lists.borrow()[self.top as u8 as usize].head
    }

    /// Is a thread queued at exactly this priority?
    pub fn occupied(&self, priority: u8) -> bool {
        self.occupied[priority as usize >> 6] & 1 << (priority & 63) != 0
    }

    #[inline]
    fn mark(&mut self, priority: u8) {
        self.occupied[priority as usize >> 6] |= 1 << (priority & 63);
        self.top = self.top.max(priority as i16);
    }

    pub fn push_back<F>(&mut self, threads: &mut Threads<F>, t: ThreadRef, priority: u8) {
        self.lists.borrow_mut()[priority as usize].push_back(threads, t);
        self.mark(priority);
    }

    #[inline(never)]
    pub fn push_front<F>(&mut self, threads: &mut Threads<F>, t: ThreadRef, priority: u8) {
        self.lists.borrow_mut()[priority as usize].push_front(threads, t);
        self.mark(priority);
    }

    /// `priority` is the one it was pushed with.
    #[inline(never)]
    pub fn remove<F>(&mut self, threads: &mut Threads<F>, t: ThreadRef, priority: u8) {
        let list = &mut self.lists.borrow_mut()[priority as usize];
        list.remove(threads, t);
        if list.head.is_none() {
            self.occupied[priority as usize >> 6] &= !(1 << (priority & 63));
            if self.top == priority as i16 {
                self.top = self.highest().max(self.floor);
            }
        }
    }

    /// Highest priority of a queued thread whatever the floor, −1 when there is none.
    pub fn highest(&self) -> i16 {
        highest(&self.occupied)
    }

    /// The first of the most important threads whatever the floor.
    pub fn foremost(&self) -> Option<ThreadRef> {
        let priority = u8::try_from(self.highest()).ok()?;
        self.lists.borrow()[priority as usize].head
    }

    /// The first of each priority, the most important first.
    pub fn heads(&self) -> impl Iterator<Item = ThreadRef> + '_ {
        let mut occupied = self.occupied;
        core::iter::from_fn(move || {
            let priority = u8::try_from(highest(&occupied)).ok()?;
            occupied[priority as usize >> 6] &= !(1 << (priority & 63));
            self.lists.borrow()[priority as usize].head
        })
    }

    /// From now on `top` is at least this (−1: no such thing).
    pub fn set_floor(&mut self, floor: i16) {
        self.floor = floor;
        self.top = self.highest().max(floor);
    }

    /// The same, unless that is less than it is.
    pub fn raise_floor(&mut self, floor: i16) {
        self.floor = self.floor.max(floor);
        self.top = self.top.max(floor);
    }

    #[cfg(any(test, feature = "sim"))]
    pub fn list(&self, priority: u8) -> &List {
        &self.lists.borrow()[priority as usize]
    }
}

impl Default for PriorityQueue {
    fn default() -> Self {
        PriorityQueue::new()
    }
}
