//! Mapped files: programs write straight into the cache's pages, the cache gives pages up, writes them and loads them again, and nothing is lost.

use super::*;
use crate::fake::Vm;
use crate::mapped::{Mapped, Objects, Refused};

#[derive(Clone)]
struct SharedVm(Rc<RefCell<Vm>>);

impl SharedVm {
    fn with<R>(&self, run: impl FnOnce(&mut Vm) -> R) -> R {
        run(&mut self.0.borrow_mut())
    }

    fn touch(&self, object: u32, page: u64, write: bool) -> Option<Slot> {
        self.with(|vm| vm.touch(object, page, write))
    }
}

impl Objects for SharedVm {
    type Object = u32;

    fn make(&mut self, pages: u64, tag: u64) -> Option<u32> {
        Some(self.with(|vm| vm.make(pages, tag)))
    }
    fn reader(&mut self, object: u32) -> Option<u32> {
        Some(self.with(|vm| vm.reader(object)))
    }
    fn change(
        &mut self,
        object: u32,
        first: u64,
        slots: &[Option<Slot>],
        pages: u64,
    ) -> Result<u64, Refused> {
        self.with(|vm| vm.change(object, first, slots, pages))
    }
    fn refuse(&mut self, tag: u64, first: u64, pages: u64) {
        self.with(|vm| vm.refuse(tag, first, pages));
    }
    fn written(
        &mut self,
        object: u32,
        first: u64,
        pages: u64,
        runs: &mut [(u64, u64)],
    ) -> Option<(usize, u64, bool)> {
        self.with(|vm| vm.written(object, first, pages, runs))
    }
    fn close(&mut self, portal: u32) {
        self.with(|vm| vm.close(portal));
    }
}

struct Server {
    cache: Cache<Shared>,
    arena: Shared,
    vm: SharedVm,
    mapped: Mapped<SharedVm>,
    file: File,
    object: u32,
    disk: Vec<u64>,
    /// Loads under way.
    loads: Vec<Io>,
}

impl Server {
    fn new(pages: u64, slots: u32) -> Server {
        let (mut cache, arena) = cache(slots, slots);
        let vm = SharedVm(Rc::new(RefCell::new(Vm::default())));
        let mut mapped = Mapped::new(vm.clone());
        let file = cache.open();
        let object = mapped.map(file, pages, true).unwrap();
        vm.with(|vm| vm.object(object).mapped = pages);
        Server {
            cache,
            arena,
            vm,
            mapped,
            file,
            object,
            disk: (0..pages).map(|page| page + 1).collect(),
            loads: Vec::new(),
        }
    }

    /// What a server does when pages are wanted.
    fn page_in(&mut self) {
        self.mapped.show(&mut self.cache, self.file);
        let mut from = 0;
        while let Some((first, count)) = self.mapped.missing(self.file, from) {
            from = first + count;
            loop {
                match self.cache.load(self.file, first, first + count, 16) {
                    Ok(Some(io)) => self.loads.push(io),
                    Ok(None) => break,
                    Err(Full) => {
                        if !self.make_room() {
                            break;
                        }
                    }
                }
            }
        }
    }

    fn make_room(&mut self) -> bool {
        let mapped = &mut self.mapped;
        let hide = |cache: &mut Cache<Shared>, file, page, _| mapped.hide(cache, file, page, 0);
        let shrunk = self.cache.shrink(4, hide);
        if shrunk.released == 0 {
            self.write_behind();
        }
        shrunk.released > 0
    }

    fn finish_loads(&mut self) {
        for io in std::mem::take(&mut self.loads) {
            for (page, &slot) in (io.first..).zip(&io.slots) {
                self.arena.set(slot, self.disk[page as usize]);
            }
            self.cache.loaded(io, true);
        }
        self.mapped.show(&mut self.cache, self.file);
    }

    fn write_behind(&mut self) {
        let all = (0, u64::MAX);
        self.mapped.collect(&mut self.cache, self.file, all, 0);
        while let Some(io) = self.cache.collect(self.file, 0, u64::MAX, 7) {
            for (page, &slot) in (io.first..).zip(&io.slots) {
                self.disk[page as usize] = self.arena.get(slot);
            }
            self.cache.written(io, true, 0);
        }
    }

    /// An access of a program, which waits as long as need be.
    fn access(&mut self, page: u64, write: Option<u64>) -> u64 {
        for _ in 0..50 {
            if let Some(slot) = self.vm.touch(self.object, page, write.is_some()) {
                if let Some(value) = write {
                    self.arena.set(slot, value);
                }
                return self.arena.get(slot);
            }
            self.mapped.want(self.file, page, 1);
            self.page_in();
            self.finish_loads();
        }
        panic!("page {page} never came");
    }

    /// What an object has is what the cache has there, and shown.
    fn audit(&mut self) {
        let has = self.vm.with(|vm| vm.objects[&self.object].has.clone());
        for (&page, &slot) in &has {
            assert_eq!(self.cache.slot(self.file, page), Some(slot));
            let shown = self.cache.first_shown(self.file, page, page + 1);
            assert_eq!(shown, Some(page), "page {page} is not known to be shown");
        }
    }
}

#[test]
fn programs_write_what_the_disk_gets_whatever_is_given_up_meanwhile() {
    for seed in 1..60 {
        let mut random = Random(seed);
        let pages = 40;
        let mut s = Server::new(pages, 16);
        let mut model: Vec<u64> = s.disk.clone();
        for step in 0..400 {
            let page = random.below(model.len() as u64);
            match random.below(20) {
                0..8 => {
                    let seen = s.access(page, None);
                    assert_eq!(seen, model[page as usize], "seed {seed} step {step}");
                }
                8..14 => {
                    let value = 1000 + random.below(1 << 30);
                    s.access(page, Some(value));
                    model[page as usize] = value;
                }
                14 => s.write_behind(),
                15..18 => {
                    s.make_room();
                }
                18 => {
                    // Cut and grown again: zeroes.
                    let file = s.file;
                    let old = model.len() as u64;
                    s.mapped.resize(&mut s.cache, file, page + 1).unwrap();
                    s.cache.remove(file, page + 1, u64::MAX);
                    s.disk.truncate(page as usize + 1);
                    s.disk.resize(old as usize, 0);
                    model.truncate(page as usize + 1);
                    model.resize(old as usize, 0);
                    s.mapped.resize(&mut s.cache, file, old).unwrap();
                }
                _ => {
                    let file = s.file;
                    let range = (page, page + random.below(9));
                    s.mapped.take_out(&mut s.cache, file, range, 0).unwrap();
                }
            }
            s.audit();
        }
        s.write_behind();
        assert_eq!(s.disk, model, "seed {seed}");
    }
}

#[test]
fn what_is_there_is_shown_around_and_only_the_rest_is_loaded() {
    let mut s = Server::new(200, 200);
    assert_eq!(s.access(70, None), 71);
    for page in 64..100 {
        s.mapped.want(s.file, page, 1);
    }
    s.mapped.show(&mut s.cache, s.file);
    assert_eq!(s.mapped.missing(s.file, 0), Some((64, 6)));
    assert_eq!(s.mapped.missing(s.file, 70), Some((71, 29)));
    assert_eq!(s.mapped.missing(s.file, 100), None);
    s.page_in();
    s.finish_loads();
    assert_eq!(s.mapped.missing(s.file, 0), None);
    // Two groups of 64 pages, one change for each.
    let before = s.vm.with(|vm| vm.changes);
    assert_eq!(s.access(99, None), 100);
    assert_eq!(s.vm.with(|vm| vm.changes), before);
    // No memory: they wait, and get it later.
    s.vm.with(|vm| vm.full = true);
    s.vm.touch(s.object, 150, false);
    s.mapped.want(s.file, 150, 1);
    s.page_in();
    s.finish_loads();
    assert_eq!(s.vm.touch(s.object, 150, false), None);
    s.vm.with(|vm| vm.full = false);
    s.mapped.again(&mut s.cache);
    assert!(s.vm.touch(s.object, 150, false).is_some());
}

#[test]
fn what_cannot_be_had_is_refused() {
    let mut s = Server::new(10, 20);
    let object = s.object;
    for page in [3, 4] {
        assert_eq!(s.vm.touch(object, page, false), None);
        s.mapped.want(s.file, page, 1);
    }
    s.page_in();
    for io in std::mem::take(&mut s.loads) {
        let (first, count) = (io.first, io.slots.len() as u64);
        s.cache.loaded(io, false);
        s.mapped.refuse(s.file, first, count);
    }
    assert_eq!(s.vm.with(|vm| vm.objects[&object].refused.clone()), [3, 4]);
    assert_eq!(s.mapped.missing(s.file, 0), None);
    // What the server does not know (any more).
    let other = s.cache.open();
    s.mapped.want(other, 0, 1);
    assert_eq!(File::with_tag(other.tag()), other);
}

#[test]
fn readers_get_another_portal_and_all_of_them_are_closed() {
    let mut s = Server::new(10, 20);
    let reader = s.mapped.map(s.file, 10, false).unwrap();
    assert_ne!(reader, s.object);
    assert_eq!(s.mapped.map(s.file, 10, false), Some(reader));
    assert_eq!(s.mapped.map(s.file, 10, true), Some(s.object));
    s.vm.with(|vm| vm.object(s.object).executed = true);
    assert_eq!(s.mapped.use_of(s.file), (10, true));
    let cut = s.mapped.resize(&mut s.cache, s.file, 5);
    assert_eq!(cut, Err(Refused::Executed));
    s.access(3, Some(7));
    s.vm.with(|vm| vm.object(s.object).mapped = 0);
    s.access(4, None);
    s.mapped.collect(&mut s.cache, s.file, (0, u64::MAX), 0);
    s.mapped.unused(s.file);
    assert_eq!(s.cache.pending(s.file, 0, 10), (true, false));
    // It keeps its pages for who maps it next; when one must go the others go with it, but not what has to be written.
    assert_eq!(s.cache.first_shown(s.file, 0, 10), Some(3));
    assert!(s.mapped.hide(&mut s.cache, s.file, 4, 0));
    assert_eq!(s.cache.first_shown(s.file, 0, 10), None);
    assert!(!s.mapped.hide(&mut s.cache, s.file, 3, 0));
    // What grew meanwhile is known when it is mapped again.
    s.mapped.map(s.file, 12, false);
    assert_eq!(s.vm.with(|vm| vm.objects[&s.object].pages), 12);
    s.vm.with(|vm| vm.full = true);
    assert!(!s.mapped.close(s.file), "it has pages still");
    s.vm.with(|vm| (vm.full, vm.object(s.object).executed) = (false, false));
    assert!(s.mapped.close(s.file));
    assert!(s.vm.with(|vm| vm.objects.is_empty()));
    assert_eq!(s.mapped.use_of(s.file), (0, false));
}
