//! How much the pipes of each user can hold together, as Linux counts it (`/proc/sys/fs/pipe-user-pages-soft`): beyond the limit a user's new pipes are small and none gets larger.
//! It bounds what a user's pipes may come to; what they do hold is charged to the user as memory.

use crate::ATOMIC;
use alloc::collections::BTreeMap;

const PAGE: usize = 4096;
/// Linux's default: 1,024 pipes of the ordinary size.
pub const SOFT_PAGES: usize = 16384;
/// What a pipe beyond it can hold.
pub const CAPACITY_BEYOND: usize = 2 * ATOMIC;

/// Pages by user. User 0 is not counted.
#[derive(Default)]
pub struct Capacities {
    pages: BTreeMap<u32, usize>,
}

impl Capacities {
    /// Would so many bytes more be within the limit?
    pub fn fits(&self, uid: u32, more: usize) -> bool {
        let has = self.pages.get(&uid).copied().unwrap_or(0);
        has + more / PAGE <= SOFT_PAGES
    }

    /// A pipe of this user can hold `now` bytes; before it was `before`.
    pub fn change(&mut self, uid: u32, before: usize, now: usize) {
        if uid == 0 || before == now {
            return;
        }
        let pages = self.pages.entry(uid).or_default();
        *pages = *pages + now / PAGE - before / PAGE;
        if *pages == 0 {
            self.pages.remove(&uid);
        }
    }

    /// Pages that a user's pipes can hold.
    pub fn of(&self, uid: u32) -> usize {
        self.pages.get(&uid).copied().unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}
