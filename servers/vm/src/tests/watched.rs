//! Watched objects: their makers bring the pages that are wanted, and hear of those that were written.

use super::*;
use crate::fake::random;
use crate::wanted::PATIENCE;
use cairn_idl::errno::*;
use cairn_idl::vm::{advice, flags, making, Wanted, BADGE_READER};
use std::collections::BTreeMap;

const ARENA: u64 = 0x10_0000;
const ARENA_PAGES: u64 = 64;
const AT: u64 = 0x5000;
const SHARED: u64 = flags::SHARED;
const WATCHER: u32 = 70;
const PASSED: u32 = 78;
const TAG: u64 = 0x77;
/// How `World::touch` says that the fault waits.
const WAITS: Result<u8, u64> = Err(super::WAITS);
const BEYOND: u64 = 2;

/// Ask until all is done of what is done in parts.
fn again(ask: impl FnMut() -> u64) -> u64 {
    let all = std::iter::repeat_with(ask).take(10_000);
    let mut done = all.skip_while(|&result| result == (-EAGAIN) as u64);
    done.next().expect("an end")
}

/// A file server whose disk is in this test: page `p` of the file is full of `disk[p]`.
struct Server {
    world: World,
    id: Id,
    object: u64,
    disk: Vec<u8>,
    /// Pages that the cache has, by number in the file, and where they lie in the arena.
    cached: BTreeMap<u64, u64>,
    free: Vec<u64>,
}

fn pass(world: &mut World, sender: Id, words: [u64; 8], badge: u64) -> Answer {
    world.vm.nucleus.passed.insert(PASSED, badge);
    let words = [&words[..7], &[u64::from(PASSED)]].concat();
    let (token, answer) = world.request(Request {
        words: Answer::new(&words).words,
        sender,
        portals: 1,
        out_len: world.vm.nucleus.out.len(),
        in_len: world.vm.nucleus.input.len(),
        ..Request::default()
    });
    answer.unwrap_or_else(|| {
        let (to, answer) = world.vm.nucleus.replies.pop().expect("a reply");
        assert_eq!(to, token);
        answer
    })
}

fn watch(world: &mut World, id: Id, slot: u32) -> i64 {
    let words = [vm::OBJECT_WATCH, 0, 0, 0, 0, 0, 0, u64::from(slot)];
    let request = Request {
        words,
        sender: id,
        portals: 1,
        ..Request::default()
    };
    world.request(request).1.expect("an answer").words[0] as i64
}

fn create(world: &mut World, id: Id, pages: u64, tag: u64) -> Result<u64, i64> {
    let how = making::SHARED | making::WATCHED;
    let answer = world.call_badge(id, 0, &[vm::OBJECT_CREATE, pages, how, tag]);
    match (answer.words[0] as i64, answer.pass) {
        (0, Some(Pass::Mint(badge))) => Ok(badge),
        (error, _) => Err(error),
    }
}

impl Server {
    fn new(pages: u64) -> Server {
        let mut world = World::new(6000);
        let id = world.made(&[vm::CREATE, 0, 0]).unwrap();
        world.map(id, ARENA, ARENA_PAGES);
        assert_eq!(create(&mut world, id, pages, TAG), Err(-EPERM));
        assert_eq!(watch(&mut world, id, WATCHER), 0);
        let object = create(&mut world, id, pages, TAG).unwrap();
        Server {
            world,
            id,
            object,
            disk: (0..pages).map(|page| (page + 1) as u8).collect(),
            cached: BTreeMap::new(),
            free: (ARENA..ARENA + ARENA_PAGES).collect(),
        }
    }

    fn user(&mut self, how: u64) -> Id {
        let id = self.world.create();
        assert_eq!(self.map(id, how, self.object), (AT * PAGE) as i64);
        id
    }

    fn map(&mut self, id: Id, how: u64, badge: u64) -> i64 {
        let pages = self.disk.len() as u64 + 10;
        let how = flags::FIXED | how;
        let words = [vm::OBJECT_MAP, AT * PAGE, pages * PAGE, RW, how, 0];
        self.world.call_badge(id, badge, &words).words[0] as i64
    }

    fn read(&mut self, id: Id, page: u64) -> Result<u8, u64> {
        self.world.read(id, AT + page)
    }

    fn write(&mut self, id: Id, page: u64, value: u8) -> Result<(), u64> {
        self.world.write(id, AT + page, value)
    }

    fn told(&self) -> usize {
        let all = &self.world.vm.nucleus.notifications;
        all.iter().filter(|told| **told == WATCHER).count()
    }

    /// What may be told later is told.
    fn later(&mut self) {
        self.world.vm.nucleus.time += crate::wanted::REST;
        self.world.vm.late();
    }

    /// What is wanted: what, tag, first, pages, ticket.
    fn wanted(&mut self) -> [u64; 5] {
        let answer = self.world.call_badge(self.id, 0, &[vm::OBJECT_WANTED]);
        let mut words = [0; 5];
        words.copy_from_slice(&answer.words[..5]);
        words
    }

    fn change(&mut self, first: u64, places: &[u64]) -> u64 {
        again(|| self.change_part(first, places))
    }

    fn change_part(&mut self, first: u64, places: &[u64]) -> u64 {
        let address = |p: &u64| (p * PAGE).to_le_bytes();
        self.world.vm.nucleus.out = places.iter().flat_map(address).collect();
        let length = self.disk.len() as u64;
        let words = [vm::OBJECT_CHANGE, first, length, 0, 0, 0, 0, 0];
        let answer = pass(&mut self.world, self.id, words, self.object);
        self.world.vm.nucleus.out.clear();
        self.world.audit();
        answer.words[0]
    }

    /// Read a page from the disk, and show it.
    fn bring(&mut self, page: u64) {
        if !self.cached.contains_key(&page) {
            let place = self.free.pop().expect("room in the arena");
            let value = self.disk[page as usize];
            self.world.write(self.id, place, value).unwrap();
            self.cached.insert(page, place);
        }
        let place = self.cached[&page];
        self.change(page, &[place]);
    }

    /// Take a page out of the object, write it to the disk if need be, and forget it.
    fn give_up(&mut self, page: u64) {
        let Some(place) = self.cached.remove(&page) else {
            return;
        };
        let written = self.change(page, &[0]);
        assert!(written <= 1);
        let value = self.world.read(self.id, place).unwrap();
        if written == 1 {
            self.disk[page as usize] = value;
        } else {
            assert_eq!(value, self.disk[page as usize], "written unnoticed");
        }
        self.free.push(place);
    }

    fn refuse(&mut self, first: u64, pages: u64) {
        let words = [vm::OBJECT_REFUSE, TAG, first, pages];
        assert_eq!(self.world.call(self.id, &words), 0);
    }

    /// Runs of written pages, at most `room`.
    fn written(&mut self, first: u64, pages: u64, room: usize) -> Vec<(u64, u64)> {
        self.world.vm.nucleus.input = vec![0; room * 16];
        let words = [vm::OBJECT_WRITTEN, first, pages, 0, 0, 0, 0, 0];
        let mut answer = Answer::default();
        again(|| {
            answer = pass(&mut self.world, self.id, words, self.object);
            answer.words[0]
        });
        self.world.audit();
        let bytes = std::mem::take(&mut self.world.vm.nucleus.input);
        let count = answer.words[0] as usize;
        assert!(count <= room, "{:x}", answer.words[0]);
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap());
        let runs = bytes.chunks(16).take(count);
        runs.map(|r| (word(&r[..8]), word(&r[8..]))).collect()
    }

    /// Do what is wanted until nothing is.
    fn serve(&mut self) {
        loop {
            match self.wanted() {
                [0, ..] => return,
                [1 | 2, TAG, first, pages, _] => {
                    for page in first..first + pages {
                        self.bring(page);
                    }
                }
                _ => {}
            }
        }
    }

    /// (token, resolved, detail) of the faults that were answered since.
    fn answers(&mut self) -> Vec<(u64, u64)> {
        let replies = std::mem::take(&mut self.world.vm.nucleus.replies);
        replies
            .iter()
            .map(|(_, a)| (a.words[0], a.words[1]))
            .collect()
    }

    fn gone(&mut self, token: u64) {
        let pulse = Request {
            kind: received::kind::PULSE,
            words: Answer::new(&[cairn_abi::pulse::GONE, token]).words,
            ..Request::default()
        };
        assert!(self.world.request(pulse).1.is_none());
    }

    /// A fault that another domain makes while it copies.
    fn copy_fault(&mut self, space_of: Id, by: Id, page: u64) -> Option<Answer> {
        let slot = self.world.vm.nucleus.domain_of(space_of).space;
        let badge = self.world.vm.nucleus.spaces[&slot].badge;
        let words = [(AT + page) * PAGE, fault::COPY, 0, 0, u64::from(by)];
        let request = Request {
            kind: received::kind::FAULT,
            words: Answer::new(&words).words,
            badge,
            sender: space_of,
            ..Request::default()
        };
        self.world.request(request).1
    }
}

const RESOLVED: (u64, u64) = (fault::RESOLVED, 0);
const REFUSED: (u64, u64) = (fault::REFUSED, BEYOND);

#[test]
fn who_touches_a_missing_page_waits_until_it_is_there() {
    let mut s = Server::new(40);
    let (shared, private) = (s.user(SHARED), s.user(0));
    assert_eq!(s.read(shared, 5), WAITS);
    assert_eq!(s.read(private, 5), WAITS);
    assert_eq!(s.read(private, 6), WAITS);
    assert_eq!(s.write(private, 20, 9), Err(99));
    assert_eq!(s.told(), 1, "once until it came");
    assert_eq!(s.wanted(), [1, TAG, 5, 2, 0]);
    assert_eq!(s.wanted(), [1, TAG, 20, 1, 0]);
    assert_eq!(s.wanted()[0], 0);
    s.bring(6);
    assert_eq!(s.answers(), [RESOLVED]);
    s.bring(5);
    assert_eq!(s.answers(), [RESOLVED; 2]);
    s.bring(20);
    assert_eq!(s.answers(), [RESOLVED]);
    for id in [shared, private] {
        assert_eq!(s.read(id, 5), Ok(6));
        assert_eq!(s.read(id, 6), Ok(7));
    }
    s.write(private, 20, 9).unwrap();
    assert_eq!(s.read(shared, 20), Ok(21));
    // What the object has is mapped along with what was asked for.
    for page in 0..16 {
        s.bring(page);
    }
    assert_eq!(s.read(shared, 1), Ok(2));
    let slot = s.world.vm.nucleus.domain_of(shared).space;
    let mapped = |page| {
        s.world.vm.nucleus.spaces[&slot]
            .maps
            .contains_key(&(AT + page))
    };
    assert!((0..16).all(mapped));
    assert_eq!(s.read(shared, 39), WAITS);
    assert_eq!(s.read(shared, 40), Err(BEYOND));
    assert_eq!(s.told(), 2);
}

#[test]
fn who_waits_can_be_refused_killed_or_left_alone() {
    let mut s = Server::new(40);
    let (a, b) = (s.user(SHARED), s.user(0));
    for page in [3, 9] {
        assert_eq!(s.read(a, page), WAITS);
    }
    s.refuse(3, 1);
    assert_eq!(s.answers(), [REFUSED]);
    s.refuse(4, 30);
    assert_eq!(s.answers(), [REFUSED]);
    // Asked again it is wanted again.
    assert_eq!(s.read(a, 3), WAITS);
    let token = s.world.token;
    assert_eq!(s.wanted(), [1, TAG, 3, 1, 0]);
    s.gone(token);
    s.bring(3);
    assert_eq!(s.answers(), []);
    // Cut while somebody waits.
    assert_eq!(s.read(a, 39), WAITS);
    s.disk.truncate(30);
    s.change(0, &[]);
    assert_eq!(s.answers(), [REFUSED]);
    // The process ends.
    assert_eq!(s.read(b, 20), WAITS);
    s.world.destroy(b);
    s.answers();
    assert_eq!(s.wanted()[0], 0);
    s.bring(20);
    assert_eq!(s.answers(), []);
    // Others cannot refuse, ask, or change.
    assert_eq!(s.read(a, 21), WAITS);
    assert_eq!(s.world.call(a, &[vm::OBJECT_REFUSE, TAG, 0, 100]), -EINVAL);
    assert_eq!(s.world.call(a, &[vm::OBJECT_WANTED]), -EINVAL);
    let other = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    assert_eq!(watch(&mut s.world, other, 71), 0);
    assert_eq!(s.world.call(other, &[vm::OBJECT_REFUSE, TAG, 0, 99]), 0);
    assert_eq!(s.answers(), []);
    let words = [vm::OBJECT_WRITTEN, 0, 9, 0, 0, 0, 0, 0];
    let answer = pass(&mut s.world, other, words, s.object);
    assert_eq!(answer.words[0] as i64, -EPERM);
    // A program cannot be one.
    assert_eq!(watch(&mut s.world, a, 72), -EPERM);
    // The maker ends: what is there stays, what is not is refused, now and later.
    let server = s.id;
    s.world.destroy(server);
    assert_eq!(s.answers(), [REFUSED]);
    assert_eq!(s.read(a, 3), Ok(4));
    assert_eq!(s.read(a, 22), Err(BEYOND));
    let badge = s.object;
    s.world.close_object(badge);
    assert_eq!(s.read(a, 23), Err(BEYOND));
    assert_eq!(s.write(a, 3, 1), Ok(()));
    s.world.audit();
}

#[test]
fn a_closed_object_lets_nobody_wait() {
    let mut s = Server::new(10);
    let a = s.user(SHARED);
    assert_eq!(s.read(a, 1), WAITS);
    let badge = s.object;
    s.world.close_object(badge);
    assert_eq!(s.answers(), [REFUSED]);
    assert_eq!(s.read(a, 1), Err(BEYOND));
}

#[test]
fn who_copies_for_a_program_does_not_wait_for_its_pages() {
    let mut s = Server::new(10);
    let (a, b) = (s.user(SHARED), s.user(SHARED));
    let pipe = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    let answer = s.copy_fault(a, pipe, 4);
    assert_eq!(answer.map(|a| (a.words[0], a.words[1])), Some(REFUSED));
    assert_eq!((s.told(), s.vm_deadline()), (0, None));
    // A program that copies (its own, or one that it debugs) waits as for its own.
    assert_eq!(s.copy_fault(a, b, 4), None);
    assert_eq!(s.vm_deadline(), None);
    s.bring(4);
    assert_eq!(s.answers(), [RESOLVED]);
}

#[test]
fn components_wait_for_a_while_and_pagers_never() {
    let mut s = Server::new(10);
    let program = s.user(SHARED);
    let a = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    assert_eq!(s.map(a, SHARED, s.object), (AT * PAGE) as i64);
    let pipe = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    let other = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    assert_eq!(watch(&mut s.world, other, 71), 0);
    let refusal = |answer: Option<Answer>| answer.map(|a| (a.words[0], a.words[1]));
    let (server, now) = (s.id, s.world.vm.nucleus.time);
    assert_eq!(refusal(s.copy_fault(a, server, 4)), Some(REFUSED));
    assert_eq!(refusal(s.copy_fault(a, other, 4)), Some(REFUSED));
    assert_eq!(s.told(), 0);
    assert_eq!(s.copy_fault(a, pipe, 4), None);
    assert_eq!(s.vm_deadline(), Some(now + PATIENCE));
    assert_eq!(s.wanted(), [1, TAG, 4, 1, 0]);
    s.bring(4);
    assert_eq!(s.answers(), [RESOLVED]);
    assert_eq!(s.vm_deadline(), None);
    // A page that does not come: the component goes on, the program waits.
    assert_eq!(s.copy_fault(a, pipe, 5), None);
    assert_eq!(s.read(program, 5), WAITS);
    s.world.vm.nucleus.time = now + PATIENCE;
    s.world.vm.late();
    assert_eq!(s.answers(), [REFUSED]);
    s.serve();
    assert_eq!(s.answers(), [RESOLVED]);
}

impl Server {
    fn vm_deadline(&self) -> Option<u64> {
        self.world.vm.deadline()
    }
}

#[test]
fn what_is_written_is_noted_once_until_the_maker_asks() {
    let mut s = Server::new(40);
    let (a, b, private) = (s.user(SHARED), s.user(SHARED), s.user(0));
    for page in 0..40 {
        s.bring(page);
    }
    for page in 0..16 {
        assert_eq!(s.read(a, page), Ok((page + 1) as u8));
    }
    assert_eq!(s.written(0, 40, 8), []);
    for page in [3, 4, 5, 9, 30] {
        s.write(a, page, 100).unwrap();
    }
    s.write(b, 5, 101).unwrap();
    s.write(private, 12, 102).unwrap();
    let child = s.world.fork(a).unwrap();
    s.write(child, 16, 103).unwrap();
    s.world.audit();
    assert_eq!(s.written(0, 9, 8), [(3, 3)]);
    // Without room for all of them the rest comes next time.
    assert_eq!(s.written(0, 40, 1), [(9, 1)]);
    assert_eq!(s.written(0, 40, 0), []);
    assert_eq!(s.written(0, 40, 8), [(16, 1), (30, 1)]);
    assert_eq!(s.written(0, 40, 8), []);
    // The right is gone everywhere, and what is written again is noted again.
    for (id, value) in [(a, 102), (b, 103), (child, 104)] {
        assert_eq!(s.read(id, 5), Ok(value - 1));
        s.write(id, 5, value).unwrap();
        assert_eq!(s.written(0, 40, 8), [(5, 1)]);
    }
    // Also after the protection was changed to and fro, and the mapping moved.
    s.write(a, 9, 105).unwrap();
    for bits in [prot::READ, 0, RW] {
        let words = [vm::PROTECT, AT * PAGE, 20 * PAGE, bits];
        assert_eq!(s.world.call(a, &words), 0);
        s.world.audit();
    }
    assert_eq!(s.written(0, 40, 8), [(9, 1)]);
    s.write(a, 9, 106).unwrap();
    assert_eq!(s.written(0, 40, 8), [(9, 1)]);
    let to = AT + 0x1000;
    let words = [vm::REMAP, AT * PAGE, 20 * PAGE, 20 * PAGE, 3, to * PAGE];
    assert_eq!(s.world.call(a, &words), (to * PAGE) as i64);
    s.world.audit();
    s.world.write(a, to + 9, 107).unwrap();
    assert_eq!(s.written(0, 40, 8), [(9, 1)]);
    assert_eq!(s.world.read(a, to + 5), Ok(104));
    assert_eq!(s.read(private, 12), Ok(102));
    assert_eq!(s.read(b, 12), Ok(13));
    // vm itself writes for somebody.
    s.world.vm.nucleus.out = vec![1; 8];
    let words = [vm::WRITE_INTO, u64::from(b), (AT + 7) * PAGE];
    assert_eq!(s.world.control(&words), 8);
    s.world.vm.nucleus.out.clear();
    assert_eq!(s.written(0, 40, 8), [(7, 1)]);
}

#[test]
fn a_page_that_is_taken_out_says_whether_it_was_written() {
    let mut s = Server::new(10);
    let (a, b) = (s.user(SHARED), s.user(0));
    s.bring(4);
    s.bring(5);
    s.write(a, 4, 44).unwrap();
    assert_eq!(s.read(a, 5), Ok(6));
    assert_eq!(s.read(b, 4), Ok(44));
    assert_eq!(s.read(b, 5), Ok(6));
    s.give_up(4);
    s.give_up(5);
    assert_eq!(s.disk[4], 44);
    for id in [a, b] {
        assert_eq!(s.read(id, 4), WAITS);
        assert_eq!(s.read(id, 5), WAITS);
    }
    s.serve();
    for id in [a, b] {
        assert_eq!(s.read(id, 4), Ok(44));
    }
}

#[test]
fn readers_cannot_map_for_writing() {
    let mut s = Server::new(10);
    let words = [vm::OBJECT_READER, 0, 0, 0, 0, 0, 0, 0];
    let answer = pass(&mut s.world, s.id, words, s.object);
    let Some(Pass::Mint(reader)) = answer.pass else {
        panic!("a portal");
    };
    assert_ne!(reader & BADGE_READER, 0);
    let a = s.world.create();
    assert_eq!(s.map(a, SHARED, reader), -EACCES);
    assert_eq!(s.map(a, 0, reader), (AT * PAGE) as i64);
    s.bring(0);
    assert_eq!(s.read(a, 0), Ok(1));
    s.write(a, 0, 7).unwrap();
    assert_eq!(s.written(0, 10, 4), []);
    let read = [vm::OBJECT_MAP, 0, PAGE, prot::READ, SHARED, 0];
    let place = s.world.call_badge(a, reader, &read).words[0];
    let words = [vm::PROTECT, place, PAGE, RW];
    assert_eq!(s.world.call(a, &words), -EACCES);
    // It keeps nothing alive, and leads nowhere in the end.
    s.world.close_object(reader);
    assert_eq!(s.map(a, 0, reader), (AT * PAGE) as i64);
    s.world.destroy(a);
    let badge = s.object;
    s.world.close_object(badge);
    let b = s.world.create();
    assert_eq!(s.map(b, 0, reader), -EBADF);
    assert_eq!(s.map(b, 0, badge), -EBADF);
    s.world.audit();
}

#[test]
fn the_maker_hears_when_nobody_has_it_mapped() {
    let mut s = Server::new(10);
    let a = s.user(SHARED);
    let b = s.world.fork(a).unwrap();
    s.world.destroy(a);
    assert_eq!(s.told(), 0);
    s.world.destroy(b);
    assert_eq!(s.told(), 1);
    assert_eq!(s.wanted(), [4, TAG, 0, 0, 0]);
    assert_eq!(s.wanted()[0], 0);
    let words = [vm::UNMAP, AT * PAGE, PAGE];
    // Mapped again meanwhile it is in use.
    let c = s.user(0);
    let words = [words[0], words[1], 20 * PAGE];
    assert_eq!(s.world.call(c, &words), 0);
    s.later();
    assert_eq!(s.told(), 2);
    assert_eq!(s.map(c, 0, s.object), (AT * PAGE) as i64);
    assert_eq!(s.wanted()[0], 0);
    assert_eq!(s.world.call(c, &words), 0);
    s.later();
    assert_eq!(s.wanted(), [4, TAG, 0, 0, 0]);
}

#[test]
fn msync_waits_for_the_maker() {
    let mut s = Server::new(10);
    let (a, b) = (s.user(SHARED), s.user(0));
    let sync = |s: &mut Server, id, address: u64, pages: u64| {
        let words = [vm::SYNC, address * PAGE, pages * PAGE];
        let request = Request {
            words: Answer::new(&words).words,
            sender: id,
            ..Request::default()
        };
        s.world.request(request).1.map(|a| a.words[0] as i64)
    };
    // Private memory and what is not mapped at all.
    assert_eq!(sync(&mut s, b, AT, 5), Some(((AT + 5) * PAGE) as i64));
    assert_eq!(sync(&mut s, b, AT + 15, 6), Some(-ENOMEM));
    assert_eq!(sync(&mut s, a, AT + 2, 3), None);
    assert_eq!(sync(&mut s, a, AT + 2, 4), None);
    let first = s.wanted();
    assert_eq!(first[..4], [3, TAG, 2, 3]);
    let second = s.wanted();
    assert_eq!(second[..4], [3, TAG, 2, 4]);
    assert_ne!(first[4], second[4]);
    assert_eq!(s.wanted()[0], 0);
    let server = s.id;
    let done =
        |s: &mut Server, ticket, error| s.world.call(server, &[vm::OBJECT_SYNCED, ticket, error]);
    assert_eq!(done(&mut s, second[4], EIO as u64), 0);
    assert_eq!(s.answers()[0].0 as i64, -EIO);
    assert_eq!(done(&mut s, first[4], 0), 0);
    assert_eq!(s.answers()[0].0, (AT + 5) * PAGE);
    assert_eq!(done(&mut s, first[4], 0), -EINVAL);
    // Who is gone is forgotten; who waits when the maker ends hears of it.
    assert_eq!(sync(&mut s, a, AT, 1), None);
    let token = s.world.token;
    s.gone(token);
    assert_eq!(s.wanted()[0], 0);
    assert_eq!(sync(&mut s, a, AT, 1), None);
    s.world.destroy(server);
    assert_eq!(s.answers()[0].0 as i64, -EIO);
}

#[test]
fn what_will_be_needed_is_told_and_nobody_waits() {
    let mut s = Server::new(40);
    let a = s.user(0);
    s.bring(0);
    let words = [vm::ADVISE, AT * PAGE, 20 * PAGE, advice::WILL_NEED];
    assert_eq!(s.world.call(a, &words), 0);
    assert_eq!(s.wanted(), [2, TAG, 1, 19, 0]);
    assert_eq!(s.wanted()[0], 0);
    let words = [vm::ADVISE, AT * PAGE, 30 * PAGE, advice::POPULATE_READ];
    assert_eq!(s.world.call(a, &words), -EAGAIN);
    s.serve();
    assert_eq!(s.world.call(a, &words), 0);
    // Beyond its end there is nothing to be had.
    let words = [vm::ADVISE, AT * PAGE, 45 * PAGE, advice::WILL_NEED];
    assert_eq!(s.world.call(a, &words), 0);
    assert_eq!(s.wanted(), [2, TAG, 30, 10, 0]);
    s.world.audit();
}

#[test]
fn programs_see_one_file_whatever_comes_and_goes() {
    const PAGES: u64 = 24;
    for seed in 1..40u64 {
        let mut random = random(seed);
        let mut s = Server::new(PAGES);
        let mut file: Vec<u8> = s.disk.clone();
        // Who lives, whether shared, and what it wrote privately.
        let mut users: Vec<(Id, bool, BTreeMap<u64, u8>)> = Vec::new();
        for step in 0..300 {
            if users.is_empty() || users.len() < 4 && random(20) == 0 {
                let shared = random(2) == 0;
                let id = s.user(if shared { SHARED } else { 0 });
                users.push((id, shared, BTreeMap::new()));
            }
            let at = random(users.len() as u64) as usize;
            let page = random(PAGES);
            let (id, shared, mut own) = users[at].clone();
            match random(100) {
                0..40 => {
                    let expected = own.get(&page).copied().unwrap_or(file[page as usize]);
                    let mut seen = s.read(id, page);
                    if seen == WAITS {
                        s.serve();
                        seen = s.read(id, page);
                    }
                    assert_eq!(seen, Ok(expected), "seed {seed} step {step} page {page}");
                }
                40..70 => {
                    let value = random(200) as u8 + 30;
                    if s.write(id, page, value).is_err() {
                        s.serve();
                        s.write(id, page, value).unwrap();
                    }
                    match shared {
                        true => file[page as usize] = value,
                        false => {
                            own.insert(page, value);
                        }
                    }
                    users[at].2 = own;
                }
                70..85 => s.give_up(page),
                85..90 => {
                    // Write-behind.
                    for (first, pages) in s.written(0, PAGES, 3) {
                        for page in first..first + pages {
                            let value = s.world.read(s.id, s.cached[&page]).unwrap();
                            s.disk[page as usize] = value;
                        }
                    }
                }
                90..94 if users.len() < 5 => {
                    let child = s.world.fork(id).unwrap();
                    users.push((child, shared, own));
                }
                94..97 => {
                    let words = [vm::ADVISE, (AT + page) * PAGE, PAGE, advice::DONT_NEED];
                    assert_eq!(s.world.call(id, &words), 0);
                    users[at].2.remove(&page);
                }
                97..99 => {
                    s.world.destroy(id);
                    users.remove(at);
                }
                _ => s.bring(page),
            }
            s.world.audit();
        }
        for (id, ..) in users {
            s.world.destroy(id);
        }
        for page in 0..PAGES {
            s.give_up(page);
        }
        assert_eq!(s.disk, file, "seed {seed}: all of it is on the disk");
        assert_eq!(Wanted::Unused as u64, 4);
        let (badge, server) = (s.object, s.id);
        s.world.close_object(badge);
        s.world.destroy(server);
        s.world.audit();
        let nucleus = s.world.vm.nucleus.owned.len();
        assert_eq!(s.world.vm.frames.free(), 6000 - 1 - nucleus);
    }
}

#[test]
fn who_made_a_fresh_object_hears_when_nobody_has_it_mapped() {
    let mut s = Server::new(4);
    let how = making::SHARED | making::FRESH | making::TOLD;
    let words = [vm::OBJECT_CREATE, 3, how, 77];
    let other = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    let refused = s.world.call_badge(other, 0, &words).words[0] as i64;
    assert_eq!(refused, -EPERM, "it does not listen");
    let no = [vm::OBJECT_CREATE, 3, making::TOLD, 77];
    assert_eq!(s.world.call_badge(s.id, 0, &no).words[0] as i64, -EINVAL);
    let Some(Pass::Mint(badge)) = s.world.call_badge(s.id, 0, &words).pass else {
        panic!("no object");
    };
    let ask = |world: &mut World, id: Id, operation: u64| {
        let words = [operation, 0, 0, 0, 0, 0, 0, 0];
        pass(world, id, words, badge).words[0] as i64
    };
    let map = |s: &mut Server, id: Id, badge: u64, prot: u64| {
        let words = [
            vm::OBJECT_MAP,
            AT * PAGE,
            3 * PAGE,
            prot,
            flags::FIXED | SHARED,
            0,
        ];
        s.world.call_badge(id, badge, &words).words[0] as i64
    };
    let (a, b) = (s.world.create(), s.world.create());
    assert_eq!(map(&mut s, a, badge, RW), (AT * PAGE) as i64);
    assert_eq!(map(&mut s, b, badge, RW), (AT * PAGE) as i64);
    let child = s.world.fork(a).unwrap();
    s.world.write(a, AT, 9).unwrap();
    assert_eq!(s.world.read(child, AT), Ok(9));
    assert_eq!(ask(&mut s.world, s.id, vm::OBJECT_MAPPED), 9);
    assert_eq!(ask(&mut s.world, other, vm::OBJECT_MAPPED), -EPERM);
    assert_eq!(map(&mut s, b, BADGE_READER | badge, RW), -EACCES);
    for id in [a, b] {
        s.world.destroy(id);
    }
    assert_eq!(
        (ask(&mut s.world, s.id, vm::OBJECT_MAPPED), s.told()),
        (3, 0)
    );
    s.world.destroy(child);
    assert_eq!((s.told(), s.wanted()), (1, [4, 77, 0, 0, 0]));
    assert_eq!(s.wanted()[0], 0);
    s.world.close_object(badge);
    s.world.audit();
}

#[test]
fn what_was_only_read_is_told_after_a_while_if_nobody_has_it_mapped_again() {
    let mut s = Server::new(4);
    let map = |s: &mut Server, how: u64, prot: u64| {
        let id = s.world.create();
        let words = [vm::OBJECT_MAP, AT * PAGE, PAGE, prot, flags::FIXED | how, 0];
        let mapped = s.world.call_badge(id, s.object, &words).words[0];
        assert_eq!(mapped, AT * PAGE);
        id
    };
    let unused = [Wanted::Unused as u64, TAG];
    let told = |s: &mut Server| s.wanted()[..2].to_vec();
    // Programs that begin and end: nothing is told as long as one comes after the other.
    for _ in 0..3 {
        let id = map(&mut s, 0, prot::READ);
        s.world.destroy(id);
        assert_eq!((s.told(), s.wanted()[0]), (0, 0));
        let next = map(&mut s, 0, prot::READ);
        s.later();
        assert_eq!((s.told(), s.world.vm.deadline()), (0, None));
        s.world.destroy(next);
        assert!(s.world.vm.deadline().is_some());
    }
    s.world.vm.late();
    assert_eq!(s.told(), 0, "it is not late yet");
    s.later();
    assert_eq!((s.told(), told(&mut s)), (1, unused.to_vec()));
    assert_eq!((s.wanted()[0], s.world.vm.deadline()), (0, None));
    // What may have been written is told at once, also if it rests.
    let id = map(&mut s, 0, prot::READ);
    s.world.destroy(id);
    let id = map(&mut s, SHARED, RW);
    s.world.destroy(id);
    assert_eq!((s.told(), told(&mut s)), (2, unused.to_vec()));
    assert_eq!(s.wanted()[0], 0);
    s.later();
    assert_eq!((s.told(), s.wanted()[0]), (2, 0), "once");
    // And it rests again when it was only read since.
    let id = map(&mut s, 0, prot::READ);
    s.world.destroy(id);
    assert_eq!((s.told(), s.wanted()[0]), (2, 0));
    s.later();
    assert_eq!((s.told(), told(&mut s)), (3, unused.to_vec()));
    s.world.audit();
}

#[test]
fn several_that_nobody_has_mapped_are_told_at_once() {
    let mut s = Server::new(4);
    let how = making::SHARED | making::FRESH | making::TOLD;
    let objects: Vec<u64> = (0..6)
        .map(|n| {
            let words = [vm::OBJECT_CREATE, 1, how, 100 + n];
            match s.world.call_badge(s.id, 0, &words).pass {
                Some(Pass::Mint(badge)) => badge,
                _ => panic!("no object"),
            }
        })
        .collect();
    let map_all = |s: &mut Server, objects: &[u64]| {
        let id = s.world.create();
        for (n, object) in objects.iter().enumerate() {
            let at = (AT + n as u64) * PAGE;
            let words = [vm::OBJECT_MAP, at, PAGE, RW, flags::FIXED | SHARED, 0];
            let mapped = s.world.call_badge(id, *object, &words).words[0];
            assert_eq!(mapped, at);
        }
        id
    };
    let ask = |s: &mut Server| {
        let words = s.world.call_badge(s.id, 0, &[vm::OBJECT_WANTED]).words;
        let mut tags = words[1..2 + words[5] as usize].to_vec();
        tags.sort_unstable();
        (words[0], tags, words[6])
    };
    let unused = Wanted::Unused as u64;
    // Those that fit, and then the rest, after which it need not ask.
    let id = map_all(&mut s, &objects);
    s.world.destroy(id);
    assert_eq!(s.told(), 1);
    let (what, mut tags, last) = ask(&mut s);
    assert_eq!((what, tags.len(), last), (unused, 4, 0));
    let (what, rest, last) = ask(&mut s);
    assert_eq!((what, rest.len(), last), (unused, 2, 1));
    tags.extend(rest);
    tags.sort_unstable();
    assert_eq!(tags, [100, 101, 102, 103, 104, 105]);
    // It is notified again without having asked in vain, and one that is mapped anew is not told.
    let id = map_all(&mut s, &objects[..2]);
    s.world.destroy(id);
    assert_eq!(s.told(), 2);
    let id = map_all(&mut s, &objects[1..2]);
    assert_eq!(ask(&mut s), (unused, vec![100], 1));
    s.world.destroy(id);
    assert_eq!(s.told(), 3);
    assert_eq!(ask(&mut s), (unused, vec![101], 1));
    objects
        .iter()
        .for_each(|&object| s.world.close_object(object));
    s.world.audit();
}

/// A FRESH object of `init`'s, mapped where a component has its keepsake.
fn keepsake(world: &mut World, id: Id, object: Option<u64>) -> u64 {
    let object = object.unwrap_or_else(|| {
        let words = [vm::OBJECT_CREATE, 1, making::SHARED | making::FRESH];
        match world.call_badge(INIT, 0, &words).pass {
            Some(Pass::Mint(badge)) => badge,
            _ => panic!("no object"),
        }
    });
    show_keepsake(world, id, object);
    object
}

fn show_keepsake(world: &mut World, id: Id, object: u64) {
    world.vm.nucleus.passed.insert(PASSED, object);
    let (at, how) = (cairn_abi::layout::KEEPSAKE, flags::FIXED | SHARED);
    let mut words = [vm::OBJECT_MAP_INTO, u64::from(id), at, PAGE, RW, how, 0, 0];
    words[7] = u64::from(PASSED);
    let (_, answer) = world.request(Request {
        words,
        sender: INIT,
        badge: cairn_idl::vm::BADGE_CONTROL,
        portals: 1,
        ..Request::default()
    });
    assert_eq!(answer.expect("an answer").words[0], at);
}

fn inherit(world: &mut World, id: Id) -> Result<([u64; 3], u64), i64> {
    let answer = world.call_badge(id, 0, &[vm::OBJECT_INHERIT]);
    match (answer.words[0] as i64, answer.pass) {
        (0, Some(Pass::Mint(badge))) => {
            Ok(([answer.words[1], answer.words[2], answer.words[3]], badge))
        }
        (error, _) => Err(error),
    }
}

/// A server with a keepsake.
fn lasting(pages: u64) -> (Server, u64) {
    let mut s = Server::new(pages);
    let (world, object) = (&mut s.world, s.object);
    world.close_object(object);
    world.destroy(s.id);
    s.id = world.made(&[vm::CREATE, 0, 0]).unwrap();
    world.map(s.id, ARENA, ARENA_PAGES);
    let kept = keepsake(world, s.id, None);
    assert_eq!(watch(world, s.id, WATCHER), 0);
    s.object = create(world, s.id, pages, TAG).unwrap();
    (s, kept)
}

/// The server's domain ends, and its portals later; the next one has an arena of its own.
fn succeed(s: &mut Server, kept: u64) -> Result<(), i64> {
    s.world.destroy(s.id);
    s.world.audit();
    s.id = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    s.world.map(s.id, ARENA, ARENA_PAGES);
    keepsake(&mut s.world, s.id, Some(kept));
    s.cached.clear();
    s.free = (ARENA..ARENA + ARENA_PAGES).collect();
    assert_eq!(watch(&mut s.world, s.id, WATCHER), 0);
    let ([tag, ..], badge) = inherit(&mut s.world, s.id)?;
    assert_eq!(tag, TAG);
    s.object = badge;
    Ok(())
}

#[test]
fn a_successor_goes_on_with_its_predecessors_objects() {
    let (mut s, kept) = lasting(40);
    let (shared, private) = (s.user(SHARED), s.user(0));
    s.bring(1);
    s.bring(2);
    s.write(shared, 1, 99).unwrap();
    s.write(private, 2, 77).unwrap();
    assert_eq!(s.read(shared, 5), WAITS);
    assert_eq!(s.wanted(), [1, TAG, 5, 1, 0]);
    s.world.destroy(s.id);
    s.world.close_object(s.object);
    // In between what is there stays, and who touches what is not waits.
    assert_eq!(s.read(shared, 1), Ok(99));
    assert_eq!(s.read(private, 6), WAITS);
    assert_eq!(s.answers(), []);
    let old = s.id;
    s.id = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    s.world.map(s.id, ARENA, ARENA_PAGES);
    assert_ne!(s.id, old);
    keepsake(&mut s.world, s.id, Some(kept));
    assert_eq!(inherit(&mut s.world, s.id), Err(-ENOENT), "not yet");
    assert_eq!(watch(&mut s.world, s.id, WATCHER), 0);
    let (told, badge) = inherit(&mut s.world, s.id).unwrap();
    assert_eq!(told, [TAG, 40, 1]);
    assert_eq!(inherit(&mut s.world, s.id), Err(-ENOENT));
    s.object = badge;
    s.cached.clear();
    s.free = (ARENA..ARENA + ARENA_PAGES).collect();
    // All that is there is told as written, and can be taken out.
    assert_eq!(s.written(0, 40, 9), [(1, 2)]);
    s.disk[1] = 99;
    s.change(1, &[0, 0]);
    assert_eq!(s.read(shared, 1), WAITS);
    assert_eq!(s.read(private, 2), Ok(77), "its own copy");
    s.serve();
    assert_eq!(s.answers(), [RESOLVED; 3]);
    assert_eq!((s.read(shared, 1), s.read(shared, 5)), (Ok(99), Ok(6)));
    // The old portal's end, told late, ends nothing; and it works again and again.
    let late = s.object;
    succeed(&mut s, kept).unwrap();
    s.world.close_object(late);
    assert_eq!(s.read(shared, 7), WAITS);
    s.serve();
    assert_eq!(s.answers(), [RESOLVED]);
    s.world.audit();
}

fn adopt(s: &mut Server, page: u64, address: u64) -> i64 {
    let words = [vm::OBJECT_ADOPT, page, address, 0, 0, 0, 0, 0];
    pass(&mut s.world, s.id, words, s.object).words[0] as i64
}

#[test]
fn portals_of_a_predecessor_may_end_at_any_time() {
    // Before its successor is known, before that one asks for its objects, afterwards; and before `vm` hears that it has ended, as in a restart by hand.
    for when in 0..4 {
        let (mut s, kept) = lasting(40);
        let user = s.user(SHARED);
        assert_eq!(s.read(user, 5), WAITS);
        let (old, late) = (s.object, |s: &mut Server, now, old| {
            if when == now {
                s.world.close_object(old);
            }
        });
        if when == 3 {
            s.world.vm.nucleus.kill(s.id);
            s.world.close_object(old);
            assert_eq!(s.world.control(&[vm::DESTROY, u64::from(s.id)]), 0);
        } else {
            s.world.destroy(s.id);
        }
        s.id = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
        s.world.map(s.id, ARENA, ARENA_PAGES);
        keepsake(&mut s.world, s.id, Some(kept));
        late(&mut s, 0, old);
        assert_eq!(watch(&mut s.world, s.id, WATCHER), 0);
        late(&mut s, 1, old);
        assert_eq!(s.answers(), [], "it waits still ({when})");
        (_, s.object) = inherit(&mut s.world, s.id).unwrap();
        late(&mut s, 2, old);
        s.serve();
        assert_eq!(s.answers(), [RESOLVED]);
        assert_eq!(s.read(user, 5), Ok(6));
        s.world.audit();
    }
}

#[test]
fn a_successor_adopts_pages_under_those_who_write_to_them() {
    let (mut s, kept) = lasting(40);
    let user = s.user(SHARED);
    s.bring(1);
    s.bring(2);
    s.write(user, 1, 99).unwrap();
    s.write(user, 2, 98).unwrap();
    succeed(&mut s, kept).unwrap();
    assert_eq!(s.written(0, 40, 9), [(1, 2)]);
    // Somebody writes in the meantime, which is noted.
    s.write(user, 1, 77).unwrap();
    let place = |n: u64| (ARENA + n) * PAGE;
    let free = s.world.vm.frames.free();
    assert_eq!(adopt(&mut s, 1, place(0)), 0);
    assert_eq!(s.world.vm.frames.free(), free, "nothing was there");
    assert_eq!(s.world.read(s.id, ARENA), Ok(77));
    s.write(user, 1, 55).unwrap();
    assert_eq!(s.world.read(s.id, ARENA), Ok(55), "it is the same page");
    // In place of a page that was there.
    s.world.write(s.id, ARENA + 1, 1).unwrap();
    assert_eq!(adopt(&mut s, 2, place(1)), 0);
    assert_eq!(s.world.vm.frames.free(), free);
    assert_eq!(s.world.read(s.id, ARENA + 1), Ok(98));
    s.world.audit();
    assert_eq!(s.written(0, 40, 9), [(1, 1)]);
    // What it is not for.
    assert_eq!(adopt(&mut s, 5, place(2)), -ENOENT);
    assert_eq!(adopt(&mut s, 1, place(2) + 8), -EINVAL);
    assert_eq!(adopt(&mut s, 1, place(ARENA_PAGES)), -EFAULT);
    let maker = core::mem::replace(&mut s.id, user);
    assert_eq!(adopt(&mut s, 1, place(0)), -EPERM);
    s.id = maker;
    // The maker's copy goes, the object's stays, and the other way round.
    assert_eq!(s.world.call(s.id, &[vm::UNMAP, place(0), PAGE]), 0);
    assert_eq!(s.read(user, 1), Ok(55));
    s.change(2, &[0]);
    assert_eq!(s.world.read(s.id, ARENA + 1), Ok(98));
    s.world.audit();
}

#[test]
fn without_a_successor_pages_are_refused() {
    let (mut s, kept) = lasting(40);
    let user = s.user(SHARED);
    assert_eq!(s.read(user, 5), WAITS);
    s.world.destroy(s.id);
    s.world.close_object(s.object);
    assert_eq!(s.answers(), []);
    // A stranger, with a keepsake of its own, is none.
    let other = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    keepsake(&mut s.world, other, None);
    assert_eq!(watch(&mut s.world, other, 71), 0);
    assert_eq!(inherit(&mut s.world, other), Err(-ENOENT));
    // `init` gives up.
    s.world.close_object(kept);
    assert_eq!(s.answers(), [REFUSED]);
    assert_eq!(s.read(user, 6), Err(BEYOND));
    s.world.audit();
}

/// What its predecessor's cache had is one more object of the successor's, and goes when nobody comes.
#[test]
fn a_successor_inherits_the_cache() {
    let (mut s, kept) = lasting(10);
    let lend = |s: &mut Server| {
        let (address, len) = (ARENA * PAGE, ARENA_PAGES * PAGE);
        let words = [vm::CACHE, address, len, 0, 0, 0, 0, u64::from(WATCHER)];
        let request = Request {
            words,
            sender: s.id,
            portals: 1,
            ..Request::default()
        };
        let (_, answer) = s.world.request(request);
        assert_eq!(answer.expect("an answer").words[0], 0);
    };
    for round in 0..3 {
        lend(&mut s);
        for page in [0, 3, ARENA_PAGES - 1] {
            s.world.write(s.id, ARENA + page, 50 + page as u8).unwrap();
        }
        s.world.destroy(s.id);
        s.world.close_object(s.object);
        s.world.audit();
        s.id = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
        s.world.map(s.id, ARENA, ARENA_PAGES);
        keepsake(&mut s.world, s.id, Some(kept));
        assert_eq!(watch(&mut s.world, s.id, WATCHER), 0);
        let (told, left) = inherit(&mut s.world, s.id).unwrap();
        assert_eq!(told, [vm::CACHE_LEFT, ARENA_PAGES, 0], "round {round}");
        assert_eq!(inherit(&mut s.world, s.id), Err(-ENOENT));
        s.object = left;
        assert_eq!(adopt(&mut s, 3, (ARENA + 7) * PAGE), 0);
        assert_eq!(adopt(&mut s, 4, (ARENA + 8) * PAGE), -ENOENT);
        assert_eq!(s.world.read(s.id, ARENA + 7), Ok(53));
        s.world.close_object(left);
        s.world.audit();
        assert_eq!(s.world.read(s.id, ARENA + 7), Ok(53));
        s.object = create(&mut s.world, s.id, 10, TAG).unwrap();
    }
    // It goes as well when memory is wanted.
    lend(&mut s);
    s.world.write(s.id, ARENA, 1).unwrap();
    s.world.destroy(s.id);
    s.world.close_object(s.object);
    let free = s.world.vm.frames.free();
    assert!(s.world.vm.lenders_may_give() && !s.world.vm.lenders_may_give());
    assert!(s.world.vm.frames.free() > free);
    s.world.audit();
    s.id = s.world.made(&[vm::CREATE, 0, 0]).unwrap();
    s.world.map(s.id, ARENA, ARENA_PAGES);
    keepsake(&mut s.world, s.id, Some(kept));
    assert_eq!(watch(&mut s.world, s.id, WATCHER), 0);
    assert_eq!(inherit(&mut s.world, s.id), Err(-ENOENT));
    s.object = create(&mut s.world, s.id, 10, TAG).unwrap();
    lend(&mut s);
    s.world.write(s.id, ARENA, 1).unwrap();
    s.world.destroy(s.id);
    s.world.close_object(s.object);
    s.world.audit();
    assert!(s.world.vm.objects.iter().count() > 1);
    s.world.close_object(kept);
    s.world.audit();
    assert_eq!(s.world.vm.objects.iter().count(), 0, "nobody came");
}

#[test]
fn faults_are_counted_by_whether_they_waited() {
    let mut s = Server::new(20);
    let user = s.user(SHARED);
    let stat = |s: &mut Server| {
        let words = s.world.call_badge(user, 0, &[vm::SPACE_STAT, 0, 0]).words;
        (words[6], words[7])
    };
    let (minor, major) = stat(&mut s);
    assert_eq!(major, 0);
    assert_eq!(s.read(user, 3), WAITS);
    assert_eq!(stat(&mut s).1, 1);
    s.serve();
    assert_eq!(s.read(user, 3), Ok(s.disk[3]));
    assert_eq!(stat(&mut s), (minor, 1));
    // What the server has already brings no waiting.
    s.bring(9);
    assert_eq!(s.read(user, 9), Ok(s.disk[9]));
    let (more, major) = stat(&mut s);
    assert!(more > minor && major == 1, "{minor} {more}");
    let words = [vm::DESTROY, user.into()];
    let told = s.world.call_badge(INIT, BADGE_CONTROL, &words).words;
    assert_eq!(told[..3], [0, more, 1]);
}

#[test]
fn parts_of_a_shared_mapping_show_other_pages() {
    let mut s = Server::new(20);
    let user = s.user(SHARED);
    let private = s.user(0);
    let remap = |s: &mut Server, id: Id, at: u64, pages: u64, first: u64| {
        let words = [vm::REMAP_PAGES, (AT + at) * PAGE, pages * PAGE, first];
        let result = s.world.call(id, &words);
        s.world.audit();
        result
    };
    for page in 0..6 {
        s.bring(page);
    }
    assert_eq!(remap(&mut s, user, 0, 2, 4), 0);
    assert_eq!(remap(&mut s, user, 5, 1, 0), 0);
    let seen: Vec<u8> = (0..6).map(|page| s.read(user, page).unwrap()).collect();
    let expected = [4, 5, 2, 3, 4, 0].map(|page: usize| s.disk[page]);
    assert_eq!(seen, expected);
    // What is there in several pieces is one mapping for it; nothing else is.
    assert_eq!(remap(&mut s, user, 0, 6, 0), 0);
    assert_eq!(s.read(user, 5), Ok(s.disk[5]));
    assert_eq!(remap(&mut s, private, 0, 1, 1), -EINVAL);
    assert_eq!(remap(&mut s, user, 29, 2, 0), -EINVAL, "its end is within");
    assert_eq!(remap(&mut s, user, 100, 1, 0), -EINVAL);
    assert_eq!(remap(&mut s, user, 0, 2, u64::MAX), -EINVAL);
    let protect = [vm::PROTECT, (AT + 3) * PAGE, PAGE, vm::prot::READ];
    assert_eq!(s.world.call(user, &protect), 0);
    assert_eq!(remap(&mut s, user, 2, 2, 0), -EINVAL);
    assert_eq!(remap(&mut s, user, 3, 1, 1), 0);
    assert_eq!(s.read(user, 3), Ok(s.disk[1]));
    assert_eq!(s.write(user, 3, 9), Err(1), "it is still only for reading");
}

/// A file that is mapped very often: what was written is told when the right to write has been taken away everywhere, a part at a time. No write is lost.
#[test]
fn writes_to_what_is_mapped_often_are_told_in_parts() {
    const TIMES: u64 = 30;
    let mut s = Server::new(4);
    (0..4).for_each(|page| s.bring(page));
    let users = [0; 3].map(|_| s.world.create());
    for &id in &users {
        for at in 0..TIMES {
            let address = (AT + 2 * at) * PAGE;
            let words = [
                vm::OBJECT_MAP,
                address,
                PAGE,
                RW,
                SHARED | flags::FIXED,
                at % 4 * PAGE,
            ];
            assert_eq!(s.world.call_badge(id, s.object, &words).words[0], address);
        }
    }
    for round in 0..20 {
        for &id in &users {
            (0..TIMES).for_each(|at| s.write(id, 2 * at, 7 + at as u8 % 4).unwrap());
        }
        let (mut parts, mut waits) = (0, 0);
        s.world.vm.nucleus.input = vec![0; 4 * 16];
        let told = loop {
            let words = [vm::OBJECT_WRITTEN, 0, 4, 0, 0, 0, 0, 0];
            let answer = pass(&mut s.world, s.id, words, s.object);
            s.world.audit();
            if answer.words[0] != (-EAGAIN) as u64 {
                break answer.words[0];
            }
            parts += 1;
            let at = (round + parts * 11) % TIMES;
            match s.write(users[(parts % 3) as usize], 2 * at, 7 + at as u8 % 4) {
                Err(super::WAITS) => waits += 1,
                other => assert_eq!(other, Ok(())),
            }
            s.world.audit();
        };
        assert_eq!((told, parts > 3), (1, true), "{parts}");
        assert!(waits > 0);
        assert_eq!(s.world.vm.nucleus.input[8], 4);
        // Who waited has written since.
        let replies = std::mem::take(&mut s.world.vm.nucleus.replies);
        assert_eq!(replies.len(), waits);
        assert!(replies.iter().all(|(_, a)| a.words[0] == 0));
        assert!(!s.written(0, 4, 4).is_empty());
        assert_eq!(s.written(0, 4, 4), []);
    }
}
