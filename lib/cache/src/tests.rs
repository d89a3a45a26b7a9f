//! The cache against a plain model: random readers and writers, a device that answers in any order and fails, memory that comes and goes.

mod mapped;

use crate::index::LEAF;
use crate::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }
}

/// Frames behind the arena. What has none may not be touched.
#[derive(Default)]
struct Arena {
    content: BTreeMap<Slot, u64>,
    frames: u32,
    /// What nobody else has.
    only: BTreeMap<Slot, (File, u64)>,
}

#[derive(Clone)]
struct Shared(Rc<RefCell<Arena>>);

impl Memory for Shared {
    fn populate(&mut self, first: Slot, count: u32) -> bool {
        let mut arena = self.0.borrow_mut();
        if arena.content.len() as u32 + count > arena.frames {
            return false;
        }
        for slot in first..first + count {
            assert!(arena.content.insert(slot, 0).is_none(), "had a frame");
        }
        true
    }
    fn release(&mut self, first: Slot, count: u32) {
        let mut arena = self.0.borrow_mut();
        for slot in first..first + count {
            assert!(arena.content.remove(&slot).is_some(), "had no frame");
        }
    }
    fn only_here(&mut self, slot: Slot, file: File, page: u64) {
        self.0.borrow_mut().only.insert(slot, (file, page));
    }
    fn not_only_here(&mut self, slot: Slot) {
        self.0.borrow_mut().only.remove(&slot);
    }
}

fn cache(slots: u32, frames: u32) -> (Cache<Shared>, Shared) {
    let shared = Shared(Rc::new(RefCell::new(Arena {
        frames,
        ..Arena::default()
    })));
    (Cache::new(shared.clone(), slots), shared)
}

impl Shared {
    fn get(&self, slot: Slot) -> u64 {
        self.0.borrow().content[&slot]
    }
    fn set(&self, slot: Slot, value: u64) {
        *self.0.borrow_mut().content.get_mut(&slot).expect("a frame") = value;
    }
}

/// A transfer at the device; a write carries what was in the pages when it began.
enum Transfer {
    Read(Io),
    Write(Io, Vec<u64>),
}

/// A file of the model: what it is, and what the device has of it.
#[derive(Clone, Default)]
struct Known {
    file: Option<File>,
    now: BTreeMap<u64, u64>,
    device: BTreeMap<u64, u64>,
}

struct Game {
    cache: Cache<Shared>,
    arena: Shared,
    files: Vec<Known>,
    transfers: Vec<Transfer>,
    shown: BTreeSet<(File, u64)>,
    time: u64,
    value: u64,
}

const PAGES: u64 = 200;

impl Game {
    fn new(slots: u32, frames: u32) -> Game {
        let (mut cache, arena) = cache(slots, frames);
        let files = (0..4)
            .map(|_| Known {
                file: Some(cache.open()),
                ..Known::default()
            })
            .collect();
        Game {
            cache,
            arena,
            files,
            transfers: Vec::new(),
            shown: BTreeSet::new(),
            time: 0,
            value: 0,
        }
    }

    fn step(&mut self, random: &mut Random) {
        self.time += random.below(100);
        let which = random.below(self.files.len() as u64) as usize;
        let file = self.files[which].file.expect("open");
        let page = random.below(PAGES);
        let to = page + 1 + random.below(40);
        match random.below(20) {
            0..=3 => {
                if let Ok(Some(io)) = self.cache.load(file, page, to, 1 + random.below(32)) {
                    assert!(io.first >= page && io.first + io.slots.len() as u64 <= to);
                    self.transfers.push(Transfer::Read(io));
                }
            }
            4 => {
                let to = page + 1 + random.below(4);
                let slots: Vec<_> = (page..to).map(|p| self.cache.slot(file, p)).collect();
                let row = (0..).zip(&slots).all(|(at, slot)| {
                    slot.is_some() && *slot == slots[0].and_then(|s| s.checked_add(at))
                });
                let first = self.cache.overwrite(file, page, to, self.time);
                let simple = row && page / LEAF == (to - 1) / LEAF;
                assert_eq!(first, slots[0].filter(|_| simple));
                for (page, slot) in (page..to).zip(first.into_iter().flat_map(|first| first..)) {
                    self.value += 1;
                    self.arena.set(slot, self.value);
                    self.files[which].now.insert(page, self.value);
                }
            }
            5..=8 => match self.cache.put(file, page) {
                Ok(Put::There(slot) | Put::Fresh(slot)) => {
                    self.value += 1;
                    self.arena.set(slot, self.value);
                    assert!(self.cache.mark_dirty(file, page, self.time));
                    self.files[which].now.insert(page, self.value);
                }
                Ok(Put::Loading) => assert!(self.cache.is_loading(file, page, page + 1)),
                Err(Full) => {}
            },
            9 | 10 => {
                if let Some(io) = self.cache.collect(file, page, to, 1 + random.below(32)) {
                    self.give(io);
                }
            }
            11..=13 if !self.transfers.is_empty() => {
                let at = random.below(self.transfers.len() as u64) as usize;
                let transfer = self.transfers.swap_remove(at);
                self.end(transfer, random.below(8) != 0);
            }
            14 => {
                let wanted = random.below(60) as u32;
                let (shown, arena) = (&self.shown, &self.arena);
                let refuse = random.below(2) == 0;
                let mut hidden = Vec::new();
                self.cache.shrink(wanted, |_, file, page, slot| {
                    assert!(shown.contains(&(file, page)));
                    let _ = arena.get(slot);
                    if !refuse {
                        hidden.push((file, page));
                    }
                    !refuse
                });
                for page in hidden {
                    self.shown.remove(&page);
                }
            }
            15 => {
                self.cache.remove(file, page, to);
                let known = &mut self.files[which];
                // As a file system does it: what is cut reads as nothing, also on the device.
                known.now.retain(|p, _| !(page..to).contains(p));
                known.device.retain(|p, _| !(page..to).contains(p));
                self.shown
                    .retain(|(f, p)| *f != file || !(page..to).contains(p));
            }
            16 if random.below(4) == 0 => {
                self.cache.close(file);
                assert_eq!(self.cache.get(file, page), None);
                self.shown.retain(|(f, _)| *f != file);
                self.files[which] = Known {
                    file: Some(self.cache.open()),
                    ..Known::default()
                };
            }
            17 => {
                if self.cache.get(file, page).is_some() {
                    let show = random.below(3) != 0;
                    self.cache.set_shown(file, page, show);
                    match show {
                        true => self.shown.insert((file, page)),
                        false => self.shown.remove(&(file, page)),
                    };
                }
            }
            18 => self.arena.0.borrow_mut().frames = 40 + random.below(100) as u32,
            _ => {
                let policy = Policy::for_pages(100);
                if let Some(file) = self.cache.due(self.time, &policy) {
                    let io = self.cache.collect(file, 0, u64::MAX, policy.request);
                    self.give(io.expect("something was due"));
                }
            }
        }
    }

    fn give(&mut self, io: Io) {
        let content = io.slots.iter().map(|&slot| self.arena.get(slot)).collect();
        self.transfers.push(Transfer::Write(io, content));
    }

    fn end(&mut self, transfer: Transfer, well: bool) {
        match transfer {
            Transfer::Read(io) => {
                let known = self.files.iter().find(|k| k.file == Some(io.file));
                for (page, &slot) in (io.first..).zip(&io.slots) {
                    // The device writes into the frames even if nobody wants it any more.
                    let value = known.and_then(|k| k.device.get(&page)).copied();
                    self.arena.set(slot, value.unwrap_or(0));
                }
                self.cache.loaded(io, well);
            }
            Transfer::Write(io, content) => {
                let known = self.files.iter_mut().find(|k| k.file == Some(io.file));
                if let (true, Some(known)) = (well, known) {
                    for (page, value) in (io.first..).zip(content) {
                        // What was cut meanwhile reads as nothing.
                        if known.now.contains_key(&page) {
                            known.device.insert(page, value);
                        }
                    }
                }
                self.cache.written(io, well, self.time);
            }
        }
    }

    /// Whatever is there is what was written last; what is not dirty and not at the device is on it.
    fn check(&mut self) {
        let mut used = 0;
        let mut slots = BTreeSet::new();
        let mut dirty = 0;
        for known in &self.files {
            let file = known.file.expect("open");
            for page in 0..PAGES + 50 {
                let wanted = known.now.get(&page).copied().unwrap_or(0);
                match self.cache.get(file, page) {
                    Some(slot) => {
                        assert!(slots.insert(slot), "slot {slot} has two pages");
                        assert_eq!(self.arena.get(slot), wanted, "page {page}");
                        used += 1;
                    }
                    None => {
                        let device = known.device.get(&page).copied().unwrap_or(0);
                        if !self.cache.is_loading(file, page, page + 1) {
                            assert_eq!(device, wanted, "page {page} was lost");
                        }
                    }
                }
                let (is_dirty, writing) = self.cache.pending(file, page, page + 1);
                dirty += u64::from(is_dirty);
                if let Some(slot) = self.cache.slot(file, page) {
                    let only = self.arena.0.borrow().only.get(&slot).copied();
                    match only {
                        Some(what) => assert!(what == (file, page) && (is_dirty || writing)),
                        None => assert!(!is_dirty),
                    }
                }
                if !is_dirty && !writing {
                    let device = known.device.get(&page).copied().unwrap_or(0);
                    assert_eq!(device, wanted, "page {page} is clean");
                }
            }
        }
        let under_way: usize = self
            .transfers
            .iter()
            .map(|transfer| match transfer {
                Transfer::Read(io) => io.slots.len(),
                Transfer::Write(io, _) => {
                    io.slots.iter().filter(|slot| !slots.contains(slot)).count()
                }
            })
            .sum();
        let (all, warm, counted) = self.cache.usage();
        let only = self.arena.0.borrow().only.clone();
        assert!(only.keys().all(|slot| slots.contains(slot)));
        assert_eq!(all as usize, used + under_way);
        assert_eq!(counted, dirty);
        assert_eq!(
            self.arena.0.borrow().content.len() as u32,
            all + warm,
            "every frame is used or free"
        );
    }
}

#[test]
fn pages_are_what_was_written_whatever_happens() {
    for seed in 1..=60 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        let mut game = Game::new(128, 100);
        for step in 0..1500 {
            game.step(&mut random);
            if step % 7 == 0 {
                game.check();
            }
        }
        // Everything ends: then the device has all of it, and all memory can go.
        while let Some(transfer) = game.transfers.pop() {
            game.end(transfer, true);
        }
        for which in 0..game.files.len() {
            let file = game.files[which].file.expect("open");
            while let Some(io) = game.cache.collect(file, 0, u64::MAX, 64) {
                game.give(io);
                let transfer = game.transfers.pop().expect("given");
                game.end(transfer, true);
            }
            assert_eq!(game.cache.pending(file, 0, u64::MAX), (false, false));
            assert_eq!(game.files[which].now, game.files[which].device);
        }
        game.cache.shrink(u32::MAX, |_, _, _, _| true);
        assert_eq!(game.cache.usage(), (0, 0, 0));
        assert!(game.arena.0.borrow().content.is_empty());
    }
}

#[test]
fn what_was_asked_for_stays_longest() {
    let (mut cache, _) = cache(64, 64);
    let file = cache.open();
    let io = cache.load(file, 0, 64, 64).unwrap().unwrap();
    cache.loaded(io, true);
    for page in (0..64).step_by(4) {
        cache.get(file, page);
    }
    let shrunk = cache.shrink(40, |_, _, _, _| false);
    assert_eq!(shrunk.released, 40);
    for page in (0..64).step_by(4) {
        assert!(cache.get(file, page).is_some(), "page {page}");
    }
}

#[test]
fn dirty_pages_go_in_large_requests_and_never_twice_at_a_time() {
    let (mut cache, arena) = cache(600, 600);
    let file = cache.open();
    for page in (0..500).rev() {
        let Ok(Put::Fresh(slot)) = cache.put(file, page) else {
            panic!("no page");
        };
        arena.set(slot, page);
        cache.mark_dirty(file, page, 5);
    }
    let policy = Policy::for_pages(100_000);
    assert_eq!(cache.due(2_000_000_000, &policy), None);
    assert_eq!(cache.due(2_000_000_005, &policy), Some(file));
    let sizes: Vec<usize> =
        core::iter::from_fn(|| cache.collect(file, 0, u64::MAX, policy.request))
            .map(|io| {
                let size = io.slots.len();
                core::mem::forget(io);
                size
            })
            .collect();
    assert_eq!(sizes, [256, 244]);
    // Changed while it is under way: dirty again, but not given out before the first has ended.
    assert!(cache.mark_dirty(file, 3, 9));
    assert_eq!(cache.collect(file, 0, 10, 10), None);
    assert_eq!(cache.pending(file, 0, 10), (true, true));
    assert_eq!(
        cache.due(u64::MAX, &policy),
        None,
        "it waits for the device"
    );
}

#[test]
fn what_cannot_be_written_is_told_once_and_tried_again_later() {
    let (mut cache, _) = cache(8, 8);
    let file = cache.open();
    assert!(matches!(cache.put(file, 0), Ok(Put::Fresh(_))));
    cache.mark_dirty(file, 0, 0);
    let policy = Policy::for_pages(8);
    let io = cache.collect(file, 0, 1, 1).expect("dirty");
    cache.written(io, false, 100);
    assert!(cache.take_error(file));
    assert!(!cache.take_error(file));
    assert_eq!(cache.due(200, &policy), None, "not at once");
    assert_eq!(cache.due(100 + policy.patience, &policy), Some(file));
    let io = cache.collect(file, 0, 1, 1).expect("dirty still");
    cache.written(io, true, 300);
    assert_eq!(cache.pending(file, 0, 1), (false, false));
}

#[test]
fn a_full_cache_makes_room_by_itself_but_loses_nothing() {
    let (mut cache, arena) = cache(32, 32);
    let file = cache.open();
    for page in 0..32 {
        let Ok(Put::Fresh(slot)) = cache.put(file, page) else {
            panic!("no page");
        };
        arena.set(slot, page + 100);
        if page < 30 {
            cache.mark_dirty(file, page, 0);
        }
    }
    // Two are clean.
    assert!(matches!(cache.put(file, 40), Ok(Put::Fresh(_))));
    cache.mark_dirty(file, 40, 0);
    assert!(matches!(cache.put(file, 41), Ok(Put::Fresh(_))));
    cache.mark_dirty(file, 41, 0);
    assert_eq!(cache.put(file, 42), Err(Full));
    assert_eq!(cache.load(file, 50, 60, 10), Err(Full));
    let shrunk = cache.shrink(4, |_, _, _, _| true);
    assert_eq!(shrunk.released, 0);
    assert!(shrunk.dirty >= 32);
    for page in 0..30 {
        let slot = cache.get(file, page).expect("dirty pages stay");
        assert_eq!(arena.get(slot), page + 100);
    }
}

#[test]
fn pages_are_adopted_where_they_are() {
    let (mut cache, arena) = cache(200, 200);
    let (one, other) = (cache.open(), cache.open());
    let pages = [(one, 3, 150), (other, 0, 0), (one, 4, 7)];
    for (_, page, slot) in pages {
        arena.0.borrow_mut().content.insert(slot, 100 + page);
    }
    cache.adopt(&pages);
    assert_eq!(
        (cache.get(one, 3), cache.get(other, 0)),
        (Some(150), Some(0))
    );
    assert_eq!(cache.usage(), (3, 0, 0));
    // Nobody else gets these slots, and they can go like others.
    for page in 0..64 {
        let slot = cache.put(other, 10 + page);
        assert!(matches!(slot, Ok(Put::Fresh(slot)) if ![0, 7, 150].contains(&slot)));
    }
    assert!(cache.mark_dirty(one, 4, 0));
    assert_eq!(arena.0.borrow().only.get(&7), Some(&(one, 4)));
    cache.shrink(u32::MAX, |_, _, _, _| true);
    assert_eq!(cache.usage(), (1, 0, 1));
}
