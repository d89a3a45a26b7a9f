//! Random games on a range of real memory, with frames that are counted, poisoned when they go, and refused at will.

use super::*;
use std::alloc::{alloc_zeroed, dealloc};
use std::vec::Vec;

const PAGES: usize = 4096;

/// The pages of a range: which ones have frames.
struct Fake {
    start: usize,
    there: Vec<bool>,
    most: usize,
    calls: usize,
    /// Frames are not taken back.
    keep: bool,
}

impl Frames for Fake {
    fn populate(&mut self, address: usize, bytes: usize, _: bool) -> bool {
        self.calls += 1;
        let pages = (address - self.start) / PAGE..(address + bytes - self.start) / PAGE;
        let resident = self.there.iter().filter(|there| **there).count();
        if resident + pages.len() > self.most {
            return false;
        }
        for page in pages {
            assert!(!self.there[page], "populated twice");
            self.there[page] = true;
        }
        true
    }

    fn release(&mut self, address: usize, bytes: usize) -> bool {
        self.calls += 1;
        if self.keep {
            return false;
        }
        for page in (address - self.start) / PAGE..(address + bytes - self.start) / PAGE {
            assert!(self.there[page], "released without a frame");
            self.there[page] = false;
        }
        // SAFETY: pages of the test's own range, which nothing is in.
        unsafe { (address as *mut u8).write_bytes(0xee, bytes) };
        true
    }
}

struct Game {
    heap: PageHeap<Fake>,
    memory: (*mut u8, Layout),
    live: Vec<(NonNull<u8>, Layout, u8)>,
    random: u64,
}

impl Game {
    fn new(most: usize) -> Game {
        let layout = Layout::from_size_align(range_for(PAGES), PAGE).unwrap();
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let mut heap = PageHeap::new(Fake {
            start: memory as usize,
            there: std::vec![false; layout.size() / PAGE],
            most,
            calls: 0,
            keep: false,
        });
        // SAFETY: the memory is that large and nobody else's.
        unsafe { heap.set_range(memory as usize, PAGES) };
        Game {
            heap,
            memory: (memory, layout),
            live: Vec::new(),
            random: 88_172_645_463_325_252,
        }
    }

    fn next(&mut self, most: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 8) as usize % most
    }

    fn allocate(&mut self, layout: Layout) -> bool {
        let Some(at) = NonNull::new(self.heap.allocate(layout)) else {
            return false;
        };
        let start = at.as_ptr() as usize;
        assert_eq!(start % layout.align(), 0);
        let fake = &self.heap.frames;
        let pages = (start - fake.start) / PAGE..=(start + layout.size() - 1 - fake.start) / PAGE;
        assert!(fake.there[pages].iter().all(|there| *there));
        let mark = self.next(256) as u8;
        // SAFETY: allocated just now.
        unsafe { at.as_ptr().write_bytes(mark, layout.size()) };
        self.live.push((at, layout, mark));
        true
    }

    fn check(&self, (at, layout, mark): (NonNull<u8>, Layout, u8)) {
        // SAFETY: it is live.
        let bytes = unsafe { core::slice::from_raw_parts(at.as_ptr(), layout.size()) };
        assert!(bytes.iter().all(|byte| *byte == mark), "overwritten");
    }

    fn free(&mut self, index: usize) {
        let object = self.live.swap_remove(index);
        self.check(object);
        // SAFETY: allocated here, and forgotten.
        unsafe { self.heap.free(object.0) };
    }

    fn resize(&mut self, index: usize, size: usize) {
        let (at, layout, mark) = self.live[index];
        // SAFETY: allocated here with this layout.
        if unsafe { self.heap.resize(at, layout, size) } {
            let layout = Layout::from_size_align(size, layout.align()).unwrap();
            self.check((
                at,
                Layout::from_size_align(size.min(self.live[index].1.size()), 1).unwrap(),
                mark,
            ));
            // SAFETY: it is that large now.
            unsafe { at.as_ptr().write_bytes(mark, size) };
            self.live[index].1 = layout;
        }
    }

    fn audit(&mut self) {
        let (used, warm) = self.heap.resident();
        let described = self.heap.described.div_ceil(PER_PAGE) as usize;
        let there = self.heap.frames.there.iter().filter(|t| **t).count();
        assert_eq!(there, used + warm + described);
        assert!(warm <= WARM);
    }
}

impl Drop for Game {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.memory.0, self.memory.1) };
    }
}

fn play(most: usize, steps: usize) {
    let mut game = Game::new(most);
    let mut refused = 0;
    for step in 0..steps {
        let grows = step / 4000 % 2 == 0;
        match game.next(10) {
            0 if !game.live.is_empty() => {
                let index = game.next(game.live.len());
                let size = 1 + game.next(3 * game.live[index].1.size());
                game.resize(index, size);
            }
            action if game.live.is_empty() || action < if grows { 7 } else { 3 } => {
                let size = match game.next(20) {
                    0 => 1 + game.next(100_000),
                    1..=4 => 1 + game.next(5000),
                    _ => 1 + game.next(300),
                };
                let align = 1
                    << match game.next(30) {
                        0 => game.next(15),
                        _ => game.next(5),
                    };
                refused += !game.allocate(Layout::from_size_align(size, align).unwrap()) as usize;
            }
            _ => {
                let index = game.next(game.live.len());
                game.free(index);
            }
        }
        if step % 64 == 0 {
            game.audit();
        }
    }
    while !game.live.is_empty() {
        game.free(game.live.len() - 1);
    }
    game.audit();
    let (used, warm) = game.heap.resident();
    assert!(used <= CLASSES.len(), "{used} pages are kept");
    assert!(warm <= WARM);
    assert_eq!(refused != 0, most < PAGES);
}

#[test]
fn objects_keep_their_bytes_and_everything_comes_back() {
    play(usize::MAX, 60_000);
}

#[test]
fn where_frames_run_out_it_says_so_and_goes_on() {
    play(300, 60_000);
}

#[test]
fn what_a_flood_took_goes_back() {
    let mut game = Game::new(usize::MAX);
    let small = Layout::from_size_align(4096, 1).unwrap();
    for _ in 0..3000 {
        assert!(game.allocate(small));
    }
    let calls = game.heap.frames.calls;
    assert!(calls < 300, "{calls} calls for 3000 pages");
    while !game.live.is_empty() {
        let index = game.next(game.live.len());
        game.free(index);
    }
    let (used, warm) = game.heap.resident();
    assert!(used == 0 && warm <= LEAST, "{used} used, {warm} warm");
    // Also where a heap used many to and fro before.
    let large = Layout::from_size_align(40 * PAGE, 1).unwrap();
    for _ in 0..4 {
        assert!(game.allocate(large));
        game.free(0);
    }
    assert!(game.heap.resident().1 >= 40, "{:?}", game.heap.resident());
    for _ in 0..3000 {
        assert!(game.allocate(small));
    }
    while !game.live.is_empty() {
        let index = game.next(game.live.len());
        game.free(index);
    }
    let (used, warm) = game.heap.resident();
    assert!(used == 0 && warm <= LEAST, "{used} used, {warm} warm");
}

#[test]
fn pages_to_and_fro_ask_nobody() {
    let mut game = Game::new(usize::MAX);
    let page = Layout::from_size_align(PAGE, 1).unwrap();
    let large = Layout::from_size_align(40 * PAGE, 1).unwrap();
    for layout in [page, large] {
        // The bound is found first.
        for _ in 0..4 {
            game.allocate(layout);
            game.free(0);
        }
        let calls = game.heap.frames.calls;
        for _ in 0..1000 {
            game.allocate(layout);
            game.free(0);
        }
        assert_eq!(game.heap.frames.calls, calls);
    }
}

#[test]
fn frames_that_nobody_takes_back_are_used_again() {
    let mut game = Game::new(usize::MAX);
    game.heap.frames.keep = true;
    let page = Layout::from_size_align(PAGE, 1).unwrap();
    for round in 0..3 {
        for _ in 0..2 * WARM {
            assert!(game.allocate(page));
        }
        while !game.live.is_empty() {
            game.free(0);
        }
        assert_eq!(game.heap.resident(), (0, 2 * WARM), "round {round}");
    }
    game.heap.frames.keep = false;
    assert!(game.allocate(page));
    game.free(0);
    game.audit();
}

#[test]
fn objects_take_what_is_said_of_them() {
    for size in [1, 16, 17, 328, 360, 1345, 2048, 2049, 5000] {
        let mut game = Game::new(usize::MAX);
        for _ in 0..100 {
            assert!(game.allocate(Layout::from_size_align(size, 8).unwrap()));
        }
        let pages = game.heap.resident().0;
        let said = (100 * footprint(size)).div_ceil(PAGE);
        assert!(
            pages <= said + 1 && said <= pages + 1,
            "{size}: {pages}, {said}"
        );
    }
}

#[test]
fn room_is_made_beforehand() {
    let mut game = Game::new(40);
    assert!(game.heap.prepare(16));
    assert!(game.heap.resident().1 >= 16);
    assert!(!game.heap.prepare(60));
    for class in CLASSES {
        assert!(game.allocate(Layout::from_size_align(class.into(), 1).unwrap()));
    }
}
