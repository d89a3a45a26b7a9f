//! Pages of an object that are taken away from all its mappings, or the right to write them: nobody keeps who maps which object, so the regions of all spaces
//! that may show it are looked through ([`Regions::may_show`]).
//!
//! What takes long is done in parts ([`PART`]): the maker is answered EAGAIN and asks again, and others are served in between. Until all is done nothing may
//! come back where it has been taken away: who touches such a page waits, and new mappings show nothing of the object at once. A fork or a move can bring pages
//! to where the search has been: then it begins anew ([`ROUNDS`]).
//!
//! [`Regions::may_show`]: crate::region::Regions::may_show

use crate::nucleus::Nucleus;
use crate::pages::Kinds;
use crate::region::Region;
use crate::slab::Handle;
use crate::space::{hardware, Errno, Vm, BATCH};
use cairn_abi::layout::PAGE;
use cairn_idl::errno::{EAGAIN, ENOMEM};

/// What one request does: regions that are looked at, and pages that are taken away.
const PART: u64 = if cfg!(test) { 40 } else { 8192 };
/// A region with pages to take away counts as so many.
const WITH_PAGES: u64 = if cfg!(test) { 8 } else { 16 };
/// Spaces that cannot show the object are passed over, so many for one.
const PASSED: u64 = 4;
/// After so many searches that others have spoiled, the next is done whole.
const ROUNDS: u32 = 8;
/// Objects of which this is done in parts at a time.
const MOST: usize = 64;
/// How long its maker may take until it asks again (nanoseconds).
const PATIENCE: u64 = 1_000_000_000;

/// Pages of an object.
type Range = (u64, u64);

/// What goes from the mappings of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// All that is shown of the first range, with what programs wrote privately; of the second what shows the object's own pages.
    Pages(Range, Range),
    /// The right to write shared pages: the next write is noted.
    Writing(Range),
}

impl What {
    fn ranges(&self) -> [Range; 2] {
        match *self {
            What::Pages(cut, replaced) => [cut, replaced],
            What::Writing(range) => [range, (0, 0)],
        }
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.ranges()
            .iter()
            .any(|range| (range.0..range.1).contains(&number))
    }
}

/// An object from whose mappings something is going.
pub(crate) struct Taken {
    object: Handle,
    maker: Handle,
    pub(crate) what: What,
    /// Space and page from which on is still to be looked.
    next: (usize, u64),
    /// [`Vm::moves`] when this search began, and how many there were before.
    moves: u64,
    rounds: u32,
    /// Unless its maker asks again before, it is given up.
    until: u64,
}

/// The pages of a space where a region shows pages `from..to` of its object.
pub(crate) fn places(region: &Region, (from, to): Range) -> (u64, u64) {
    let end = to.saturating_sub(region.offset).min(region.pages());
    let start = from.saturating_sub(region.offset).min(end);
    (region.start + start, region.start + end)
}

impl<N: Nucleus> Vm<N> {
    /// What is going from the mappings of an object, if it takes several requests.
    pub(crate) fn going_from(&self, object: Handle) -> Option<What> {
        let mut all = self.taken.iter();
        all.find(|taken| taken.object == object).map(|t| t.what)
    }

    /// The same by the object's number.
    #[inline]
    pub(crate) fn going(&self, object: u32) -> Option<What> {
        match self.taken.is_empty() {
            true => None,
            false => self.going_from(self.objects.get(object as usize)?.handle),
        }
    }

    /// All of this goes from the mappings of an object. EAGAIN: some of it has; ENOMEM: it stays (what has gone comes back by faults).
    pub(crate) fn take_away(&mut self, number: u32, what: What) -> Result<(), Errno> {
        let Some(object) = self.objects.get(number as usize) else {
            return Ok(());
        };
        let (object, maker, mapped) = (object.handle, object.maker, object.mapped);
        let at = self.taken.iter().position(|taken| taken.object == object);
        let before = at.map(|at| self.taken.swap_remove(at));
        if let Some(other) = before.as_ref().filter(|taken| taken.what != what) {
            let other = other.what;
            self.try_again(object, |number| other.has(number));
        }
        if mapped == 0 || what.ranges().iter().all(|range| range.0 >= range.1) {
            return Ok(());
        }
        let moves = self.moves;
        let mut taken = before.filter(|taken| taken.what == what).unwrap_or(Taken {
            object,
            maker,
            what,
            next: (0, 0),
            moves,
            rounds: 0,
            until: 0,
        });
        let done = self.take_part(number, &mut taken);
        match done {
            Ok(true) => Ok(()),
            Ok(false) => {
                taken.until = self.nucleus.now() + PATIENCE;
                self.taken.push(taken);
                Err(EAGAIN)
            }
            Err(errno) => {
                self.try_again(object, |number| what.has(number));
                Err(errno)
            }
        }
    }

    /// It comes to nothing: what has gone comes back by faults, and who waited for it goes on.
    pub(crate) fn give_up_taking(&mut self, number: u32) {
        if let Some(object) = self
            .objects
            .get(number as usize)
            .map(|object| object.handle)
        {
            self.drop_taken(|taken| taken.object == object);
        }
    }

    /// Who took something away has ended.
    pub(crate) fn forget_taken(&mut self, maker: Handle) {
        self.drop_taken(|taken| taken.maker == maker);
    }

    /// So did the program for which it was done.
    pub(crate) fn late_takings(&mut self, now: u64) {
        self.drop_taken(|taken| taken.until <= now);
    }

    /// When the first of them is late.
    pub(crate) fn takings_deadline(&self) -> Option<u64> {
        self.taken.iter().map(|taken| taken.until).min()
    }

    fn drop_taken(&mut self, which: impl Fn(&Taken) -> bool) {
        while let Some(at) = self.taken.iter().position(&which) {
            let taken = self.taken.swap_remove(at);
            self.try_again(taken.object, |number| taken.what.has(number));
        }
    }

    /// False: that was a part.
    fn take_part(&mut self, number: u32, taken: &mut Taken) -> Result<bool, Errno> {
        // Objects that have gone leave what was begun.
        self.taken
            .retain(|taken| self.objects.resolve(taken.object).is_some());
        let room = self.taken.len() < MOST && self.taken.try_reserve(1).is_ok();
        let mut left = PART;
        loop {
            let whole = !room || taken.rounds >= ROUNDS;
            let found = self.next_shown(number, taken, (!whole).then_some(&mut left));
            match found {
                Search::Part => return Ok(false),
                Search::Found(index, region) => {
                    let most = if whole { u64::MAX } else { left };
                    let (done, cost) = self.take_from(index, region, taken, most)?;
                    left = left.saturating_sub(WITH_PAGES + cost);
                    taken.next = (index, done);
                }
                Search::End if taken.moves == self.moves => return Ok(true),
                Search::End => {
                    taken.next = (0, 0);
                    taken.moves = self.moves;
                    taken.rounds += 1;
                }
            }
        }
    }

    /// The next region that shows some of it where pages are resident.
    fn next_shown(&self, number: u32, taken: &mut Taken, mut left: Option<&mut u64>) -> Search {
        let ranges = taken.what.ranges();
        let mut passed = 0;
        for index in taken.next.0..self.spaces.end() {
            let first = if index == taken.next.0 {
                taken.next.1
            } else {
                0
            };
            let Some(space) = self.spaces.get(index) else {
                continue;
            };
            if !space.regions.may_show(number) {
                passed += 1;
                if passed % PASSED != 0 {
                    continue;
                }
                if is_spent(&mut left) {
                    taken.next = (index + 1, 0);
                    return Search::Part;
                }
                continue;
            }
            for region in space.regions.overlapping(first, u64::MAX) {
                if is_spent(&mut left) {
                    taken.next = (index, region.start.max(first));
                    return Search::Part;
                }
                if region.object != number {
                    continue;
                }
                let shows = ranges.iter().any(|&range| {
                    let (start, end) = places(region, range);
                    !space.pages.is_empty_in(start.max(first), end)
                });
                if shows {
                    taken.next = (index, first);
                    return Search::Found(index, *region);
                }
            }
        }
        Search::End
    }

    /// Take it from one region, at most so many pages of each range → up to which page, and how many pages that were.
    fn take_from(
        &mut self,
        index: usize,
        region: Region,
        taken: &Taken,
        most: u64,
    ) -> Result<(u64, u64), Errno> {
        let (mut reached, mut cost) = (region.end, 0);
        let first = if taken.next.0 == index {
            taken.next.1
        } else {
            0
        };
        for (at, &range) in taken.what.ranges().iter().enumerate() {
            let (start, end) = places(&region, range);
            let start = start.max(first);
            let Some(space) = self.spaces.get(index).filter(|_| start < end) else {
                continue;
            };
            // (A chunk at least, so that it goes on.)
            let stop = space.pages.first_of(start, end, most.max(64));
            reached = if stop < end {
                reached.min(stop)
            } else {
                reached
            };
            cost += space.pages.count(start, stop);
            let growth = space
                .pages
                .growth(space.pages.overlapping(start, stop).count());
            if !self.heap_has(growth) {
                return Err(ENOMEM);
            }
            match (taken.what, at) {
                (What::Pages(..), 0) => self.drop_pages(index, start, stop),
                (What::Pages(..), _) if region.shared() => self.drop_pages(index, start, stop),
                (What::Pages(..), _) => self.drop_file_pages(index, start, stop),
                (What::Writing(_), _) => self.take_writing(index, &region, (start, stop)),
            }
        }
        Ok((reached, cost))
    }

    /// The next write to these pages of a region is noted.
    fn take_writing(&mut self, index: usize, region: &Region, (start, end): (u64, u64)) {
        let Some(space) = self.spaces.get_mut(index).filter(|_| region.shared()) else {
            return;
        };
        let (nucleus, slot) = (&mut self.nucleus, space.slot);
        let bits = hardware(region.prot, true);
        space.pages.runs(start, end, 0, BATCH, Kinds::Cow, |run| {
            // Without any right nothing is mapped.
            if !run.marked && bits != 0 {
                let _ = nucleus.protect(slot, run.page * PAGE, run.pages, bits);
            }
        });
        space.pages.set_marked(&mut self.frames, start, end, true);
    }

    /// Drop the pages of a range that show what their object has there.
    fn drop_file_pages(&mut self, index: usize, start: u64, end: u64) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let (nucleus, frames, slot) = (&mut self.nucleus, &mut self.frames, space.slot);
        let mut at = start;
        while let Some((from, to)) = space.pages.next_file(at, end) {
            space.pages.runs(from, to, 0, BATCH, Kinds::One, |run| {
                let _ = nucleus.unmap(slot, run.page * PAGE, run.pages);
            });
            space.pages.drain(frames, from, to);
            at = to;
        }
    }
}

enum Search {
    Found(usize, Region),
    /// This request has done its part.
    Part,
    End,
}

/// One more was looked at: whether that was the last.
#[inline]
fn is_spent(left: &mut Option<&mut u64>) -> bool {
    let Some(left) = left else { return false };
    if **left == 0 {
        return true;
    }
    **left -= 1;
    false
}
