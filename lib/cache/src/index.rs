//! The pages of one file by their numbers, in leaves of 64 with a mask for each state, so that a sparse file costs what it contains and a run of pages in one
//! state is a few instructions.

use crate::slots::Slot;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Pages of a leaf.
pub const LEAF: u64 = 64;

/// 64 pages in a row. A page is `there` (its slot has its content), or `loading` (its slot is being filled), or neither.
pub struct Leaf {
    slots: [Slot; LEAF as usize],
    pub there: u64,
    pub loading: u64,
    /// Subset of `there`: changed since it was last given to the device.
    pub dirty: u64,
    /// Subset of `there`: the device has it now. It may be dirty again.
    pub writing: u64,
    /// Subset of `there`: programs may have it mapped.
    pub shown: u64,
}

/// One of the masks.
pub type State = fn(&Leaf) -> u64;

impl Leaf {
    /// Where pages `from..to` of the leaf are, and their bits, if all are there and lie in a row in the arena.
    #[inline]
    pub fn row(&self, from: u64, to: u64) -> Option<(Slot, u64)> {
        let (at, count) = (from % LEAF, to.checked_sub(from)?);
        if count == 0 || count > LEAF - at {
            return None;
        }
        let wanted = (u64::MAX >> (LEAF - count)) << at;
        let row = &self.slots[at as usize..(at + count) as usize];
        let in_a_row = row.windows(2).all(|two| two[1] == two[0] + 1);
        (self.there & wanted == wanted && in_a_row).then_some((row[0], wanted))
    }

    fn held(&self) -> u64 {
        self.there | self.loading
    }
}

/// Bit of a page in its leaf.
#[inline]
pub fn bit(page: u64) -> u64 {
    1 << (page % LEAF)
}

/// Bits of the leaf that begins at page `first` within `from..to`.
fn mask(first: u64, from: u64, to: u64) -> u64 {
    let low = from.saturating_sub(first).min(LEAF);
    let high = to.saturating_sub(first).min(LEAF);
    if high <= low {
        return 0;
    }
    (u64::MAX >> (LEAF - (high - low))) << low
}

#[derive(Default)]
pub struct Index {
    /// With their numbers (page / 64), ascending; none is empty.
    leaves: Vec<(u64, Box<Leaf>)>,
}

impl Index {
    /// Where the leaf with this number is, or would be. In a file without large holes that is its own number.
    #[inline]
    fn place(&self, number: u64) -> Result<usize, usize> {
        match self.leaves.get(number as usize) {
            Some(&(found, _)) if found == number => Ok(number as usize),
            _ => self.leaves.binary_search_by_key(&number, |leaf| leaf.0),
        }
    }

    #[inline]
    pub fn leaf(&self, page: u64) -> Option<&Leaf> {
        Some(&self.leaves[self.place(page / LEAF).ok()?].1)
    }

    #[inline]
    pub fn leaf_mut(&mut self, page: u64) -> Option<&mut Leaf> {
        let at = self.place(page / LEAF).ok()?;
        Some(&mut self.leaves[at].1)
    }

    /// The slot of a page whose content is there.
    #[inline]
    pub fn get(&self, page: u64) -> Option<Slot> {
        let leaf = self.leaf(page)?;
        (leaf.there & bit(page) != 0).then(|| leaf.slots[(page % LEAF) as usize])
    }

    /// The slot of a page, whatever its state.
    pub fn slot(&self, page: u64) -> Option<Slot> {
        let leaf = self.leaf(page)?;
        (leaf.held() & bit(page) != 0).then(|| leaf.slots[(page % LEAF) as usize])
    }

    /// Give a page that has none a slot. Its state is the caller's to set.
    pub fn insert(&mut self, page: u64, slot: Slot) -> &mut Leaf {
        let number = page / LEAF;
        let at = self.place(number).unwrap_or_else(|at| {
            let leaf = Leaf {
                slots: [0; LEAF as usize],
                there: 0,
                loading: 0,
                dirty: 0,
                writing: 0,
                shown: 0,
            };
            self.leaves.insert(at, (number, Box::new(leaf)));
            at
        });
        let leaf = &mut self.leaves[at].1;
        debug_assert_eq!(leaf.held() & bit(page), 0);
        leaf.slots[(page % LEAF) as usize] = slot;
        leaf
    }

    /// Take a page out, whatever its state → slot and the masks' bits before, in the order of [`Leaf`].
    pub fn remove(&mut self, page: u64) -> Option<Removed> {
        let at = self.place(page / LEAF).ok()?;
        let leaf = &mut self.leaves[at].1;
        let bit = bit(page);
        if leaf.held() & bit == 0 {
            return None;
        }
        let removed = Removed {
            slot: leaf.slots[(page % LEAF) as usize],
            dirty: leaf.dirty & bit != 0,
            loading: leaf.loading & bit != 0,
            writing: leaf.writing & bit != 0,
        };
        for mask in [
            &mut leaf.there,
            &mut leaf.loading,
            &mut leaf.dirty,
            &mut leaf.writing,
            &mut leaf.shown,
        ] {
            *mask &= !bit;
        }
        if leaf.held() == 0 {
            self.leaves.remove(at);
        }
        Some(removed)
    }

    /// The first page of `from..to` in this state.
    pub fn first(&self, from: u64, to: u64, state: State) -> Option<u64> {
        let start = self.place(from / LEAF).unwrap_or_else(|at| at);
        for (number, leaf) in &self.leaves[start..] {
            let first = number * LEAF;
            if first >= to {
                break;
            }
            let found = state(leaf) & mask(first, from, to);
            if found != 0 {
                return Some(first + u64::from(found.trailing_zeros()));
            }
        }
        None
    }

    /// How many pages from `from` on are in this state in a row, at most `most`.
    pub fn run(&self, from: u64, most: u64, state: State) -> u64 {
        let mut count = 0;
        while count < most {
            let page = from + count;
            let Some(leaf) = self.leaf(page) else { break };
            let at = page % LEAF;
            let here = u64::from((!(state(leaf) >> at)).trailing_zeros()).min(LEAF - at);
            count += here;
            if here < LEAF - at {
                break;
            }
        }
        count.min(most)
    }

    /// The first page of `from..to` that is neither there nor loading.
    pub fn first_missing(&self, from: u64, to: u64) -> Option<u64> {
        let page = from + self.run(from, to.saturating_sub(from), Leaf::held);
        (page < to).then_some(page)
    }

    /// Any page of `from..to` that has a slot, the first of them.
    pub fn first_held(&self, from: u64, to: u64) -> Option<u64> {
        self.first(from, to, Leaf::held)
    }

    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }
}

/// A page that was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    pub slot: Slot,
    pub dirty: bool,
    /// A transfer still uses the slot: it is being filled, or written.
    pub loading: bool,
    pub writing: bool,
}
