//! The page slots of a fork's child: what it shares with its parent, what it gets a copy of at once, and what is left to faults.

use crate::frames::Frames;
use crate::pages::{mask, own, Chunk, Pages, CHUNK};
use crate::region::{Region, WIPED};
use crate::space::BATCH;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::{prot as access, Fill, Row};
use cairn_idl::vm::prot;

/// What the nucleus has to do for a copy of a space. The lists never grow: rows are handed on when there are many.
#[derive(Default)]
pub struct Plan {
    /// Mappings to copy.
    pub rows: Vec<Row>,
    /// Pages to copy.
    pub fills: Vec<Fill>,
}

/// Rows are handed on when there are more than this. A chunk makes as many at most.
const MANY_ROWS: usize = CHUNK as usize;
/// Chunks for which a new program's list has room at once: lists that grow are copied.
pub const PROGRAM_CHUNKS: usize = 32;
/// Most pages that are copied at once.
pub const EAGER: usize = 24;

/// How a space is copied.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Pages of objects come by faults, unless earlier copies asked for them.
    pub lazy: bool,
    /// A program begins with the copy: it gets room for more of its own.
    pub begins: bool,
    /// Most pages that are copied at once: those that were written soon after earlier forks, on which both sides would fault.
    pub eager: usize,
    /// Frames that must stay free when pages are copied.
    pub reserve: usize,
}

/// What the regions say of the pages of a chunk.
#[derive(Clone, Copy, Default)]
struct Masks {
    private: u64,
    shared: u64,
    writable: u64,
}

impl Masks {
    /// Of the chunk at `first`; `last` is how many regions may overlap it, counted down as chunks are looked at from the top.
    fn of(first: u64, regions: &[Region], last: &mut usize) -> Masks {
        let end = first + CHUNK;
        while *last > 0 && regions[*last - 1].start >= end {
            *last -= 1;
        }
        let mut masks = Masks::default();
        for region in regions[..*last].iter().rev() {
            if region.end <= first {
                break;
            }
            if region.marks & WIPED != 0 {
                continue;
            }
            let pages = mask(first, region.start, region.end);
            if region.shared() {
                masks.shared |= pages;
                continue;
            }
            masks.private |= pages;
            if u64::from(region.prot) & prot::WRITE != 0 {
                masks.writable |= pages;
            }
        }
        masks
    }
}

impl Plan {
    pub fn new() -> Plan {
        Plan {
            rows: Vec::with_capacity(2 * MANY_ROWS),
            fills: Vec::with_capacity(EAGER),
        }
    }

    /// Rows for the pages `which` of the chunk at `first`. Pages that are not resident lie within a row, but none of `barred`.
    /// `above` is the row that begins where the chunk ends, if it is of this kind; the one that begins with the chunk comes back.
    fn add_rows(
        &mut self,
        first: u64,
        which: u64,
        barred: u64,
        read_only: bool,
        above: Option<usize>,
    ) -> Option<usize> {
        let mut left = which;
        let mut begins = None;
        while left != 0 {
            let from = left.trailing_zeros();
            let reach = (!((which | !barred) >> from)).trailing_zeros();
            let part = left & (u64::MAX >> (64 - reach.min(64 - from))) << from;
            left &= !part;
            let pages = 64 - part.leading_zeros() - from;
            let address = (first + u64::from(from)) * PAGE;
            let joined = above.and_then(|at| Some((at, self.rows.get_mut(at)?)));
            let at = match joined {
                Some((at, row))
                    if from + pages == CHUNK as u32 && u64::from(row.pages + pages) <= BATCH =>
                {
                    row.address = address;
                    row.pages += pages;
                    at
                }
                _ => {
                    self.rows.push(Row {
                        address,
                        pages,
                        read_only: u32::from(read_only),
                    });
                    self.rows.len() - 1
                }
            };
            if from == 0 {
                begins = Some(at);
            }
        }
        begins
    }
}

impl Pages {
    /// The slots of a copy that has these regions (those of the space, or whole parts of it that end where chunks end), as far as they lie in these chunks.
    /// Private pages are copied before they are written from now on, on both sides; chunks that are the same are shared. What the nucleus has to do is added to
    /// the plan; `full` empties its rows.
    pub fn fork(
        &mut self,
        frames: &mut Frames,
        regions: &[Region],
        (start, end): (u64, u64),
        manner: Manner,
        plan: &mut Plan,
        mut full: impl FnMut(&mut Frames, &mut Vec<Row>),
    ) -> Pages {
        let (from, to) = self.between(start, end);
        let all = to - from == self.chunks();
        let least = match manner.begins && all {
            true => PROGRAM_CHUNKS,
            false => 0,
        };
        let mut copy = Pages::with_capacity((to - from).max(least));
        let mut eager = manner.eager.min(EAGER);
        let mut last = match all {
            true => regions.len(),
            false => regions.partition_point(|region| region.start < end),
        };
        // The rows that begin where the last chunk did: private, shared.
        let (mut below, mut above) = (u64::MAX, [None; 2]);
        // From the top down: stack and personality come first, if not all can be copied at once.
        for chunk in self.chunks_mut()[from..to].iter_mut().rev() {
            let first = chunk.first;
            let masks = Masks::of(first, regions, &mut last);
            let within = chunk.resident & (masks.private | masks.shared);
            if within == 0 {
                continue;
            }
            let skipped = if manner.lazy {
                within & chunk.file & !chunk.wanted
            } else {
                0
            };
            // What is still the object's own goes on changing: it is not copied before it must be.
            let mut wish = within & chunk.hot & !chunk.file & masks.writable;
            let (start, mut taken) = (plan.fills.len(), 0);
            while wish != 0 && eager > 0 {
                let bit = 63 - wish.leading_zeros();
                wish &= !(1 << bit);
                let Some(frame) = frames.alloc(manner.reserve) else {
                    eager = 0;
                    break;
                };
                eager -= 1;
                taken |= 1 << bit;
                plan.fills.push(Fill {
                    address: (first + u64::from(bit)) * PAGE + (access::READ | access::WRITE),
                    frame,
                    source: chunk.frames[bit as usize],
                });
            }
            // The parent goes on writing what the child has its own copy of.
            let cow = chunk.cow | within & masks.private & !taken;
            if cow != chunk.cow {
                own(chunk, frames).cow = cow;
            }
            let mask = within & !skipped;
            if mask == 0 {
                continue;
            }
            if mask == chunk.resident && chunk.hot == 0 {
                copy.push_below(Rc::clone(chunk));
            } else {
                let mut new = Chunk {
                    resident: mask,
                    cow: cow & mask & !taken,
                    hot: taken,
                    file: chunk.file & mask,
                    skipped,
                    ..**chunk
                };
                chunk.each(mask & !taken, |f| frames.retain(f));
                for fill in &plan.fills[start..] {
                    new.frames[(fill.address / PAGE % CHUNK) as usize] = fill.frame;
                }
                copy.push_below(frames.chunks.like(new));
            }
            if plan.rows.len() > MANY_ROWS {
                full(frames, &mut plan.rows);
                below = u64::MAX;
            }
            if first + CHUNK != below {
                above = [None; 2];
            }
            below = first;
            let kinds = [(masks.private & !taken, true), (masks.shared, false)];
            for (above, (kind, read_only)) in above.iter_mut().zip(kinds) {
                let which = mask & kind;
                let barred = chunk.resident & !which;
                *above = plan.add_rows(first, which, barred, read_only, *above);
            }
        }
        copy.in_order();
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::ANONYMOUS;
    use cairn_idl::vm::flags;

    fn region(start: u64, end: u64, bits: u64, flags: u64) -> Region {
        Region {
            start,
            end,
            prot: bits as u8,
            most: 7,
            flags: flags as u8,
            marks: 0,
            object: ANONYMOUS,
            offset: 0,
        }
    }

    struct World {
        frames: Frames,
        pages: Pages,
    }

    impl World {
        fn new(resident: impl IntoIterator<Item = u64>) -> World {
            let mut world = World {
                frames: Frames::new(&[(1, 4000)], &[]),
                pages: Pages::default(),
            };
            for page in resident {
                let frame = world.frames.alloc(0).unwrap();
                world.pages.set(&mut world.frames, page, frame, false);
            }
            world
        }

        /// Child, rows (page, pages, read-only) in ascending order, pages copied at once.
        fn fork(
            &mut self,
            regions: &[Region],
            lazy: bool,
        ) -> (Pages, Vec<(u64, u32, u32)>, Vec<u64>) {
            let manner = Manner {
                lazy,
                begins: !lazy,
                eager: EAGER,
                reserve: 0,
            };
            let mut plan = Plan::new();
            let mut rows = Vec::new();
            let capacity = plan.rows.capacity();
            let frames = &mut self.frames;
            let copy = self.pages.fork(
                frames,
                regions,
                (0, u64::MAX),
                manner,
                &mut plan,
                |_, full| {
                    rows.append(full);
                },
            );
            assert_eq!(plan.rows.capacity(), capacity);
            rows.append(&mut plan.rows);
            rows.sort_by_key(|row| row.address);
            let rows = rows
                .iter()
                .map(|row| (row.address / PAGE, row.pages, row.read_only))
                .collect();
            let fills = plan.fills.iter().map(|fill| fill.address / PAGE).collect();
            (copy, rows, fills)
        }
    }

    const RW: u64 = prot::READ | prot::WRITE;

    #[test]
    fn chunks_are_shared_until_one_side_changes_them() {
        let mut w = World::new(0..70);
        let all = [region(0, 100, RW, 0)];
        let (mut q, rows, _) = w.fork(&all, false);
        assert_eq!((q.resident(), rows), (70, vec![(0, 70, 1)]));
        let (mut part, rows, _) = w.fork(&[region(64, 66, RW, 0)], false);
        assert_eq!((part.resident(), rows), (2, vec![(64, 2, 1)]));
        let f = &mut w.frames;
        // The whole copy shares its chunks, the part has references of its own.
        let seen = q.get(3).unwrap().frame;
        assert_eq!(f.references(seen), 1);
        assert_eq!(f.references(w.pages.get(65).unwrap().frame), 2);
        assert_eq!(q.shared(f), 70);
        assert!(w.pages.get(3).unwrap().cow && q.get(3).unwrap().cow);
        let fresh = f.alloc(0).unwrap();
        assert_eq!(q.set(f, 3, fresh, false), Some(seen));
        assert_eq!(f.references(seen), 2);
        f.release(seen);
        assert_eq!(w.pages.get(3).unwrap().frame, seen);
        for pages in [&mut w.pages, &mut q, &mut part] {
            pages.drain(f, 0, 100);
        }
        assert_eq!(f.free(), 4000);
    }

    #[test]
    fn rows_go_over_gaps_but_not_over_other_kinds() {
        // Two regions that touch, a shared one between others, holes.
        let mut w = World::new((10..20).chain(40..50).chain(60..130).chain(600..610));
        let regions = [
            region(0, 45, RW, 0),
            region(45, 46, RW, flags::SHARED),
            region(46, 140, prot::READ, 0),
            region(600, 610, RW, 0),
        ];
        let (mut child, rows, _) = w.fork(&regions, false);
        let expected = [(10, 35, 1), (45, 1, 0), (46, 84, 1), (600, 10, 1)];
        assert_eq!(rows, expected);
        assert!(!child.get(45).unwrap().cow && child.get(46).unwrap().cow);
        child.drain(&mut w.frames, 0, 1000);
        // Many rows are handed on before there are too many; long ones are cut.
        let mut w = World::new((0..400).filter(|page| page % 2 == 0).chain(1024..2624));
        let regions: Vec<Region> = (0..200)
            .map(|i| region(2 * i, 2 * i + 1, RW, (i % 2) * flags::SHARED))
            .chain([region(1024, 3000, RW, 0)])
            .collect();
        let (_, rows, _) = w.fork(&regions, false);
        assert_eq!(rows.len(), 200 + 4);
        assert_eq!(rows.iter().map(|row| row.1).sum::<u32>(), 200 + 1600);
        assert!(rows.iter().all(|row| row.1 <= 512));
    }

    #[test]
    fn lazy_copies_leave_out_what_a_fault_would_bring() {
        let mut w = World::new((0..40).filter(|page| page % 2 == 1));
        for page in (0..40).filter(|page| page % 2 == 0) {
            let frame = w.frames.alloc(0).unwrap();
            w.pages.set_file(&mut w.frames, page, frame, true);
        }
        // `set_file` takes its own reference over.
        let all = [region(0, 100, RW, 0)];
        w.pages.mark_wanted(&mut w.frames, 0, 8);
        let (q, rows, _) = w.fork(&all, true);
        assert_eq!(q.resident(), 20 + 4);
        assert!(q.get(6).is_some() && q.get(8).is_none() && q.get(9).is_some());
        assert_eq!(rows[..3], [(0, 8, 1), (9, 1, 1), (11, 1, 1)]);
        w.pages.forget_wanted(&mut w.frames);
        assert_eq!(w.fork(&all, true).0.resident(), 20);
        // A page of one's own stays.
        w.pages.clear_cow(&mut w.frames, 10);
        assert_eq!(w.fork(&all, true).0.resident(), 21);
    }

    #[test]
    fn hot_pages_are_copied_from_the_top() {
        let mut w = World::new([3, 63, 64, 127, 200, 201]);
        for page in [3, 63, 127, 200, 201] {
            w.pages.mark_hot(&mut w.frames, page);
        }
        let regions = [
            region(0, 100, RW, 0),
            region(100, 201, RW, 0),
            region(201, 300, RW, flags::SHARED),
        ];
        let (mut child, rows, fills) = w.fork(&regions, true);
        assert_eq!(fills, [200, 127, 63, 3]);
        assert_eq!(rows, [(64, 1, 1), (201, 1, 0)]);
        for page in [3, 63, 127, 200] {
            let (here, there) = (w.pages.get(page).unwrap(), child.get(page).unwrap());
            assert!(here.frame != there.frame && !here.cow && !there.cow);
        }
        child.drain(&mut w.frames, 0, 1000);
        assert_eq!(w.frames.free(), 4000 - 6);
        w.pages.cool_down(&mut w.frames);
        assert!(w.fork(&regions, true).2.is_empty());
    }
}
