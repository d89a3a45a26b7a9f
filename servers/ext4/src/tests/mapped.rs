//! Files that programs have mapped: pages come when they are touched, what is written through a mapping gets to the image, and files that are mapped are not freed.

use super::common::{make, must_be_clean};
use super::machine::{Machine, Shape, USUAL};
use super::plain::{pattern, tree};
use crate::{Memory, PAGES};
use cairn_abi::pulse;
use cairn_cache::fake::Vm;
use cairn_cache::mapped::{Objects, Refused};
use cairn_cache::Slot;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o};
use cairn_rt::paging::Request;
use cairn_rt::Portal;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

#[derive(Default)]
pub struct FakeVm {
    pub vm: Vm,
    pub asked: VecDeque<Request>,
    pub synced: Vec<(u64, i64)>,
    /// Parts that are to be asked for before a file is cut for all who map it.
    pub parts: u32,
    /// Pages that were taken out of what was left of the cache.
    pub taken: BTreeSet<u64>,
}

/// `vm`'s side of what is mapped.
#[derive(Clone, Default)]
pub struct FakeObjects(pub Rc<RefCell<FakeVm>>);

impl FakeObjects {
    fn with<R>(&self, run: impl FnOnce(&mut Vm) -> R) -> R {
        run(&mut self.0.borrow_mut().vm)
    }
}

impl Objects for FakeObjects {
    type Object = Portal;

    fn make(&mut self, pages: u64, tag: u64) -> Option<Portal> {
        Some(Portal(self.with(|vm| vm.make(pages, tag))))
    }
    fn reader(&mut self, object: Portal) -> Option<Portal> {
        Some(Portal(self.with(|vm| vm.reader(object.0))))
    }
    fn change(
        &mut self,
        object: Portal,
        first: u64,
        slots: &[Option<Slot>],
        pages: u64,
    ) -> Result<u64, Refused> {
        if object == super::machine::LEFT {
            let mut fake = self.0.borrow_mut();
            let gone = (first..).zip(slots).filter(|(_, slot)| slot.is_none());
            fake.taken.extend(gone.map(|(page, _)| page));
            return Ok(0);
        }
        self.with(|vm| vm.change(object.0, first, slots, pages))
    }
    fn cut(&mut self, object: Portal, pages: u64) -> bool {
        let left = self.0.borrow().parts;
        self.0.borrow_mut().parts = left.saturating_sub(1);
        if left == 0 {
            // What is refused is refused by the next change as well.
            let _ = self.change(object, pages, &[], pages);
        }
        left == 0
    }
    fn refuse(&mut self, tag: u64, first: u64, pages: u64) {
        self.with(|vm| vm.refuse(tag, first, pages));
    }
    fn written(
        &mut self,
        object: Portal,
        first: u64,
        pages: u64,
        runs: &mut [(u64, u64)],
    ) -> Option<(usize, u64, bool)> {
        self.with(|vm| vm.written(object.0, first, pages, runs))
    }
    fn close(&mut self, portal: Portal) {
        if portal == super::machine::LEFT {
            return;
        }
        self.with(|vm| vm.close(portal.0));
    }
}

impl Machine {
    /// mmap, shared and writable → the object.
    pub fn map(&mut self, file: u64) -> u32 {
        let answer = self.call(file, &[fs::MMAP, 0, 4096, 1], b"", 0);
        assert!(answer.result() > 0);
        let vm = self.vm();
        let number = *vm.borrow().vm.objects.keys().next_back().unwrap();
        vm.borrow_mut().vm.object(number).mapped = 100;
        number
    }

    /// Nobody has it mapped any more, and the server hears so.
    pub fn unmap(&mut self, object: u32) {
        let vm = self.vm();
        vm.borrow_mut().vm.object(object).mapped = 0;
        let tag = vm.borrow().vm.objects[&object].tag;
        self.ask(Request::Unused { tag });
    }

    fn vm(&mut self) -> Rc<RefCell<FakeVm>> {
        self.bench.server.memory().objects.0.clone()
    }

    fn ask(&mut self, request: Request) {
        self.vm().borrow_mut().asked.push_back(request);
        self.bench.pulse(pulse::NOTIFY, 1, PAGES);
    }

    /// A program touches a page, and waits until it is there.
    fn touch(&mut self, object: u32, page: u64, write: bool) -> Option<Slot> {
        let vm = self.vm();
        let tag = vm.borrow().vm.objects[&object].tag;
        for round in 0..50 {
            let found = vm.borrow().vm.objects[&object].has.get(&page).copied();
            if let Some(slot) = found {
                if write {
                    vm.borrow_mut().vm.object(object).written.insert(page);
                }
                return Some(slot);
            }
            if vm.borrow_mut().vm.refused.contains(&page) {
                return None;
            }
            if round == 0 {
                let (first, pages) = (page, 1);
                self.ask(Request::Pages { tag, first, pages });
            }
            if !self.turn() {
                self.wait();
            }
        }
        panic!("page {page} never comes");
    }

    fn see(&mut self, object: u32, page: u64, length: usize) -> Vec<u8> {
        let slot = self.touch(object, page, false).expect("a page");
        self.bench.server.memory().bytes(slot, 0, length).to_vec()
    }

    fn put(&mut self, object: u32, page: u64, bytes: &[u8]) {
        let slot = self.touch(object, page, true).expect("a page");
        let memory = self.bench.server.memory();
        memory
            .bytes_mut(slot, 0, bytes.len())
            .copy_from_slice(bytes);
    }
}

#[test]
fn pages_come_when_they_are_touched_and_what_is_written_gets_to_the_image() {
    let (folder, files) = tree();
    let image = make(4096, 16, &[], Some(&folder.0));
    let mut machine = Machine::new(image, USUAL, 11);
    let file = machine.open_file(b"odd", o::RDWR, 0).unwrap();
    let object = machine.map(file);
    assert!(machine.vm().borrow().vm.objects[&object].has.is_empty());
    let bytes = &files[3].1;
    assert!(machine.see(object, 3, 4096) == bytes[3 * 4096..4 * 4096]);
    assert!(machine.see(object, 17, 4096)[..70_001 - 17 * 4096] == bytes[17 * 4096..]);
    // Written through the mapping, read by a call, and there after fsync.
    machine.put(object, 5, &pattern(99, 4096));
    assert!(machine.read_at(file, 5 * 4096, 4096).unwrap() == pattern(99, 4096));
    assert_eq!(machine.result(file, &[fs::SYNC, 0], b""), 0);
    assert!(machine.disk.borrow().write_requests > 0);
    // By msync.
    machine.put(object, 6, &pattern(98, 4096));
    let tag = machine.vm().borrow().vm.objects[&object].tag;
    machine.ask(Request::Sync {
        tag,
        first: 6,
        pages: 1,
        ticket: 5,
    });
    for _ in 0..200 {
        if !machine.vm().borrow().synced.is_empty() {
            break;
        }
        if !machine.turn() {
            machine.wait();
        }
    }
    assert_eq!(machine.vm().borrow().synced, [(5, 0)]);
    // By nobody's asking.
    machine.put(object, 7, &pattern(97, 4096));
    for _ in 0..20 {
        machine.wait();
        while machine.turn() {}
    }
    machine.bench.close(file);
    let image = machine.close();
    must_be_clean(&image);
    let mut machine = Machine::new(image, USUAL, 12);
    let found = machine.read(b"odd").unwrap();
    for (page, seed) in [(5, 99), (6, 98), (7, 97)] {
        assert!(
            found[page * 4096..][..4096] == pattern(seed, 4096),
            "{page}"
        );
    }
    assert!(found[..5 * 4096] == bytes[..5 * 4096] && found[8 * 4096..] == bytes[8 * 4096..]);
    must_be_clean(&machine.close());
}

#[test]
fn holes_are_filled_cut_and_punched_under_a_mapping() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 13);
    let file = machine
        .open_file(b"sparse", o::RDWR | o::CREAT, 0o644)
        .unwrap();
    assert_eq!(
        machine.result(file, &[fs::TRUNCATE, 100 * 4096 + 10], b""),
        0
    );
    let object = machine.map(file);
    assert!(machine.see(object, 50, 4096).iter().all(|b| *b == 0));
    for page in [10, 11, 60, 100] {
        machine.put(object, page, &pattern(page, 4096));
    }
    // What lies behind the end is no part of the file when it grows.
    assert_eq!(machine.result(file, &[fs::TRUNCATE, 120 * 4096], b""), 0);
    let tail = machine.see(object, 100, 4096);
    assert!(tail[..10] == pattern(100, 4096)[..10] && tail[10..].iter().all(|b| *b == 0));
    // It is mapped very often.
    machine.vm().borrow_mut().parts = 3;
    assert_eq!(machine.result(file, &[fs::TRUNCATE, 20 * 4096], b""), 0);
    assert_eq!(machine.vm().borrow().parts, 0);
    assert_eq!(machine.vm().borrow().vm.objects[&object].pages, 20);
    assert!(machine.vm().borrow().vm.objects[&object]
        .has
        .range(20..)
        .next()
        .is_none());
    assert_eq!(machine.result(file, &[fs::TRUNCATE, 120 * 4096], b""), 0);
    assert!(machine.see(object, 60, 4096).iter().all(|b| *b == 0));
    let punch = [fs::ALLOCATE, 3, 10 * 4096, 4096];
    assert_eq!(machine.result(file, &punch, b""), 0);
    assert!(machine.see(object, 10, 4096).iter().all(|b| *b == 0));
    assert!(machine.see(object, 11, 4096) == pattern(11, 4096));
    // A program that runs is neither cut nor opened for writing.
    let vm = machine.vm();
    vm.borrow_mut().vm.object(object).executed = true;
    let cut = machine.result(file, &[fs::TRUNCATE, 4096], b"");
    assert_eq!(cut, -ETXTBSY);
    assert_eq!(machine.open_file(b"sparse", o::RDWR, 0), Err(-ETXTBSY));
    vm.borrow_mut().vm.object(object).executed = false;
    machine.bench.close(file);
    let mut machine = Machine::new(machine.close(), USUAL, 14);
    let found = machine.read(b"sparse").unwrap();
    assert_eq!(found.len(), 120 * 4096);
    assert!(found[11 * 4096..12 * 4096] == pattern(11, 4096));
    assert!(found[12 * 4096..].iter().all(|b| *b == 0));
    must_be_clean(&machine.close());
}

#[test]
fn more_is_mapped_than_there_is_memory_for() {
    let (folder, files) = tree();
    let shape = Shape {
        pages: 200,
        frames: 120,
        ..USUAL
    };
    let image = make(4096, 16, &[], Some(&folder.0));
    let mut machine = Machine::new(image, shape, 15);
    let file = machine.open_file(b"dir/large", o::RDWR, 0).unwrap();
    let object = machine.map(file);
    let mut bytes = files[4].1.clone();
    for round in 0..3u64 {
        for page in 0..768 {
            let at = page as usize * 4096;
            assert!(
                machine.see(object, page, 4096) == bytes[at..at + 4096],
                "{page}"
            );
            if page % 5 == round {
                let new = pattern(page * 7 + round, 4096);
                machine.put(object, page, &new);
                bytes[at..at + 4096].copy_from_slice(&new);
            }
        }
        // Calls need room as well.
        assert!(machine.read_at(file, 1 << 20, 100_000).unwrap() == bytes[1 << 20..][..100_000]);
    }
    machine.bench.close(file);
    let mut machine = Machine::new(machine.close(), USUAL, 16);
    assert!(machine.read(b"dir/large").unwrap() == bytes);
    must_be_clean(&machine.close());
}

#[test]
fn what_cannot_be_read_is_refused_and_what_is_mapped_is_not_freed() {
    let (folder, _) = tree();
    let image = make(4096, 16, &[], Some(&folder.0));
    let mut machine = Machine::new(image, USUAL, 17);
    let file = machine.open_file(b"dir/large", o::RDWR, 0).unwrap();
    let object = machine.map(file);
    machine.see(object, 0, 1);
    machine.disk.borrow_mut().fail_reads = true;
    // (What lies around the first page is there.)
    assert_eq!(machine.touch(object, 100, false), None);
    machine.disk.borrow_mut().fail_reads = false;
    machine.vm().borrow_mut().vm.refused.clear();
    assert!(machine.touch(object, 100, false).is_some());
    assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"dir/large"), 0);
    machine.bench.close(file);
    for _ in 0..10 {
        machine.wait();
        while machine.turn() {}
    }
    machine.put(object, 2, &pattern(4, 100));
    assert!(machine.see(object, 2, 100) == pattern(4, 100));
    let vm = machine.vm();
    vm.borrow_mut().vm.object(object).mapped = 0;
    let tag = vm.borrow().vm.objects[&object].tag;
    machine.ask(Request::Unused { tag });
    for _ in 0..10 {
        machine.wait();
        while machine.turn() {}
    }
    assert!(vm.borrow().vm.objects.is_empty());
    // Somebody asks for what is no more.
    machine.ask(Request::Pages {
        tag,
        first: 0,
        pages: 1,
    });
    assert_eq!(vm.borrow().vm.refused, [0]);
    must_be_clean(&machine.close());
}
