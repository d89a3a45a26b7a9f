//! Memory objects that change under those who have them mapped.

use super::model::Random;
use super::*;
use cairn_idl::errno::*;
use cairn_idl::vm::flags;

const ARENA: u64 = 0x10_0000;
const AT: u64 = 0x5000;
const SHARED: u64 = flags::SHARED;
/// What an access beyond the end of an object is refused with.
const BEYOND: u64 = 2;

struct File {
    world: World,
    server: Id,
    object: u64,
}

/// A server with an arena of 400 pages, page i of it full of i + 1 (modulo 256), and an object of the first `pages`.
fn file(pages: u64) -> File {
    let mut world = World::new(6000);
    let server = world.made(&[vm::CREATE, 0, 0]).unwrap();
    world.map(server, ARENA, 400);
    for i in 0..400 {
        world.write(server, ARENA + i, (i + 1) as u8).unwrap();
    }
    let list: Vec<u64> = (ARENA..ARENA + pages).collect();
    let object = world.object(server, &list, true).unwrap();
    File {
        world,
        server,
        object,
    }
}

impl File {
    fn user(&mut self, how: u64, pages: u64) -> Id {
        let id = self.world.create();
        self.map(id, how, pages);
        id
    }

    fn map(&mut self, id: Id, how: u64, pages: u64) {
        self.map_at(id, AT, how, pages);
    }

    fn map_at(&mut self, id: Id, at: u64, how: u64, pages: u64) {
        let words = [
            vm::OBJECT_MAP,
            at * PAGE,
            pages * PAGE,
            RW,
            flags::FIXED | how,
            0,
        ];
        let answer = self.world.call_badge(id, self.object, &words);
        assert_eq!(answer.words[0], at * PAGE);
    }

    fn change_by(&mut self, who: Id, first: u64, pages: &[u64], length: u64) -> i64 {
        for _ in 0..10_000 {
            match self.change_part(who, first, pages, length) {
                result if result == -EAGAIN => {}
                result => return result,
            }
        }
        panic!("it never ends");
    }

    fn change_part(&mut self, who: Id, first: u64, pages: &[u64], length: u64) -> i64 {
        const PASSED: u32 = 78;
        self.world.vm.nucleus.passed.insert(PASSED, self.object);
        let address = |p: &u64| (p * PAGE).to_le_bytes();
        self.world.vm.nucleus.out = pages.iter().flat_map(address).collect();
        let words = [vm::OBJECT_CHANGE, first, length, 0, 0, 0, 0, 78];
        let (_, answer) = self.world.request(Request {
            words,
            sender: who,
            portals: 1,
            out_len: pages.len() * 8,
            ..Request::default()
        });
        self.world.vm.nucleus.out.clear();
        self.world.audit();
        answer.expect("an answer").words[0] as i64
    }

    fn change(&mut self, first: u64, pages: &[u64], length: u64) {
        assert_eq!(self.change_by(self.server, first, pages, length), 0);
    }

    fn read(&mut self, id: Id, page: u64) -> Result<u8, u64> {
        self.world.read(id, AT + page)
    }
}

#[test]
fn what_is_cut_leaves_all_mappings() {
    let mut f = file(200);
    let (shared, private) = (f.user(SHARED, 300), f.user(0, 300));
    for page in 0..200 {
        assert_eq!(f.read(shared, page), Ok((page + 1) as u8));
        assert_eq!(f.read(private, page), Ok((page + 1) as u8));
    }
    f.world.write(private, AT + 150, 77).unwrap();
    f.world.write(private, AT + 10, 78).unwrap();
    let child = f.world.fork(private).unwrap();
    f.change(0, &[], 100);
    for id in [shared, private, child] {
        assert_eq!(f.read(id, 99), Ok(100));
        for page in [100, 150, 199, 299] {
            assert_eq!(f.read(id, page), Err(BEYOND), "page {page}");
        }
    }
    assert_eq!(f.read(private, 10), Ok(78));
    assert_eq!(f.read(child, 10), Ok(78));
    // Longer again: holes, not what was there.
    f.change(0, &[], 200);
    for id in [private, child] {
        assert_eq!(f.read(id, 150), Ok(0));
    }
    // What would be written there would not be in the file.
    assert_eq!(f.read(shared, 150), Err(BEYOND));
    assert_eq!(f.world.write(shared, AT + 150, 1), Err(BEYOND));
    f.change(150, &[ARENA + 150], 200);
    assert_eq!(f.read(shared, 150), Ok(151));
    // Given up by a program: zeroes in the same page.
    let words = [vm::ADVISE, (AT + 150) * PAGE, PAGE, vm::advice::REMOVE];
    assert_eq!(f.world.call(shared, &words), 0);
    assert_eq!(f.read(shared, 150), Ok(0));
    assert_eq!(f.world.read(f.server, ARENA + 150), Ok(0));
    f.world.audit();
}

#[test]
fn what_is_added_is_seen_by_mappings_that_were_there_before() {
    let mut f = file(1);
    let (shared, private) = (f.user(SHARED, 100), f.user(0, 100));
    assert_eq!(f.read(shared, 5), Err(BEYOND));
    let list: Vec<u64> = (ARENA + 1..ARENA + 80).collect();
    f.change(1, &list, 80);
    for id in [shared, private] {
        for page in 0..80 {
            assert_eq!(f.read(id, page), Ok((page + 1) as u8));
        }
        assert_eq!(f.read(id, 80), Err(BEYOND));
    }
    // It is the same memory, in both directions.
    f.world.write(shared, AT + 40, 99).unwrap();
    assert_eq!(f.world.read(f.server, ARENA + 40), Ok(99));
    f.world.write(f.server, ARENA + 41, 98).unwrap();
    assert_eq!(f.read(shared, 41), Ok(98));
    f.change(0, &[], 0);
    assert_eq!(f.read(shared, 0), Err(BEYOND));
}

#[test]
fn what_is_replaced_is_replaced_everywhere_but_in_private_copies() {
    let mut f = file(100);
    let (shared, private) = (f.user(SHARED, 100), f.user(0, 100));
    let late = f.world.create();
    for page in 0..100 {
        f.read(shared, page).unwrap();
        f.read(private, page).unwrap();
    }
    f.world.write(private, AT + 60, 77).unwrap();
    let child = f.world.fork(private).unwrap();
    // Page 60 and 61 are others now, 62 is a hole, 63 stays.
    f.change(60, &[ARENA + 300, ARENA + 301, 0, ARENA + 63], 100);
    f.map(late, 0, 100);
    let expected = |own: u8| [60, own, 46, 64, 65];
    for (id, own) in [(shared, 45), (private, 77), (child, 77), (late, 45)] {
        let pages = [59, 60, 61, 63, 64];
        let seen = pages.map(|page| f.read(id, page).unwrap());
        assert_eq!(seen, expected(own), "of {id}");
        let hole = if id == shared { Err(BEYOND) } else { Ok(0) };
        assert_eq!(f.read(id, 62), hole);
    }
    // A frame that is in no object any more is the server's alone.
    f.world.write(f.server, ARENA + 61, 200).unwrap();
    assert_eq!(f.read(shared, 61), Ok(46));
    let free = f.world.vm.frames.free();
    let words = [vm::ADVISE, (ARENA + 61) * PAGE, PAGE, vm::advice::DONT_NEED];
    assert_eq!(f.world.call(f.server, &words), 0);
    assert_eq!(f.world.vm.frames.free(), free + 1);
}

#[test]
fn a_program_that_runs_is_not_cut() {
    let mut f = file(10);
    let runs = f.user(flags::PROGRAM, 10);
    f.read(runs, 9).unwrap();
    assert_eq!(f.change_by(f.server, 0, &[], 5), -ETXTBSY);
    assert_eq!(f.read(runs, 9), Ok(10));
    // Longer it may become.
    f.change(10, &[ARENA + 10], 11);
    f.world.destroy(runs);
    f.change(0, &[], 5);
    // A library may be cut.
    let mut f = file(10);
    let library = f.user(flags::LIBRARY, 10);
    f.change(0, &[], 5);
    assert_eq!(f.read(library, 9), Err(BEYOND));
}

#[test]
fn only_the_maker_changes_it_and_errors_change_nothing() {
    let mut f = file(10);
    let shared = f.user(SHARED, 10);
    let other = f.world.made(&[vm::CREATE, 0, 0]).unwrap();
    assert_eq!(f.change_by(other, 0, &[], 5), -EPERM);
    assert_eq!(f.change_by(shared, 0, &[], 5), -EPERM);
    let server = f.server;
    assert_eq!(f.change_by(server, 8, &[ARENA, ARENA, ARENA], 10), -EINVAL);
    assert_eq!(f.change_by(server, u64::MAX, &[ARENA], 10), -EINVAL);
    assert_eq!(f.change_by(server, 0, &[], 1 << 40), -EINVAL);
    assert_eq!(f.change_by(server, 0, &[ARENA + 11, 0x999], 3), -EFAULT);
    for page in 0..10 {
        assert_eq!(f.read(shared, page), Ok((page + 1) as u8));
    }
    // Without a portal, or with one that leads elsewhere.
    let words = [vm::OBJECT_CHANGE, 0, 5];
    assert_eq!(f.world.call(server, &words), -EINVAL);
    f.world.destroy(server);
    assert_eq!(f.change_by(other, 0, &[], 5), -EPERM);
    f.world.destroy(other);
}

#[test]
fn its_maker_and_nobody_else_hears_whether_it_is_mapped() {
    let mut f = file(10);
    let ask = |f: &mut File, who: Id, badge: u64| {
        f.world.vm.nucleus.passed.insert(78, badge);
        let (_, answer) = f.world.request(Request {
            words: [vm::OBJECT_MAPPED, 0, 0, 0, 0, 0, 0, 78],
            sender: who,
            portals: 1,
            ..Request::default()
        });
        answer.expect("an answer").words[0] as i64
    };
    let (server, object) = (f.server, f.object);
    assert_eq!(ask(&mut f, server, object), 0);
    let user = f.user(SHARED, 10);
    assert_eq!(ask(&mut f, server, object), 10);
    assert_eq!(ask(&mut f, user, object), -EPERM);
    assert_eq!(ask(&mut f, server, object + (1 << 31)), -EBADF);
    assert_eq!(f.world.call(server, &[vm::OBJECT_MAPPED]), -EINVAL);
    f.world.destroy(user);
    assert_eq!(ask(&mut f, server, object), 0);
}

#[test]
fn all_of_it_is_free_in_the_end() {
    let mut f = file(300);
    let users: Vec<Id> = (0..10)
        .map(|i| f.user(if i % 2 == 0 { SHARED } else { 0 }, 300))
        .collect();
    let children: Vec<Id> = users
        .iter()
        .map(|&id| {
            for page in (0..300).step_by(7) {
                f.read(id, page).unwrap();
            }
            f.world.fork(id).unwrap()
        })
        .collect();
    for round in 0..40u64 {
        let first = round * 37 % 200;
        let list: Vec<u64> = (0..50).map(|i| ARENA + (first + i * 13) % 400).collect();
        f.change(first, &list, 260 + round % 3 * 20);
        for (i, &id) in users.iter().chain(&children).enumerate() {
            let page = (round * 11 + i as u64) % 260;
            let shared = i % 2 == 0;
            let Ok(seen) = f.read(id, page) else {
                assert!(shared && page >= 260, "a hole");
                continue;
            };
            if shared && (first..first + 50).contains(&page) {
                let wanted = (first + (page - first) * 13) % 400 + 1;
                assert_eq!(seen, wanted as u8);
            }
        }
    }
    for id in users.into_iter().chain(children) {
        f.world.destroy(id);
    }
    f.world.close_object(f.object);
    f.world.destroy(f.server);
    f.world.audit();
    let nucleus = f.world.vm.nucleus.owned.len();
    assert_eq!(f.world.vm.frames.free(), 6000 - 1 - nucleus);
}

/// Where users of [`often`] have it whole.
const WHOLE: u64 = 200;

/// A file of 4 pages that `users` map `times` times each, one mapping in each other page, all of them touched.
/// Before their spaces there is room for some more.
fn often(users: usize, times: u64) -> (File, Vec<Id>) {
    let mut f = file(4);
    let before = [0; 3].map(|_| f.world.create());
    let ids = (0..users).map(|_| f.world.create()).collect::<Vec<_>>();
    before.iter().for_each(|id| f.world.destroy(*id));
    f.world.do_all_pieces();
    for &id in &ids {
        for at in 0..times {
            let address = (AT + 2 * at) * PAGE;
            let flag = flags::FIXED | if at % 3 == 0 { 0 } else { SHARED };
            let words = [vm::OBJECT_MAP, address, PAGE, RW, flag, at % 4 * PAGE];
            assert_eq!(f.world.call_badge(id, f.object, &words).words[0], address);
            assert_eq!(f.read(id, 2 * at), Ok((at % 4 + 1) as u8));
        }
    }
    (f, ids)
}

/// Of what many mappings show a part is taken away at a time. Who touches it waits until all of it has gone, and what others do is done meanwhile.
#[test]
fn what_is_mapped_often_is_cut_in_parts() {
    let (mut f, ids) = often(3, 40);
    let (mut parts, mut waits) = (0, 0);
    while f.change_part(f.server, 2, &[], 2) != 0 {
        parts += 1;
        assert!(parts < 100);
        // What has gone does not come back.
        match f.read(ids[0], 2 * 2) {
            Err(WAITS) => waits += 1,
            other => assert_eq!(other, Ok(3)),
        }
        // Pages that stay can be touched, and what is mapped now shows nothing of what goes.
        assert_eq!(f.read(ids[2], 2 * 5), Ok(2));
        f.map(ids[1], SHARED, 1);
        assert_eq!(f.read(ids[1], 0), Ok(1));
        f.world.audit();
    }
    assert!(parts > 5, "{parts}");
    assert!(waits > 0);
    let replies = std::mem::take(&mut f.world.vm.nucleus.replies);
    assert_eq!(replies.len(), waits);
    for (_, answer) in replies {
        assert_eq!(answer.words[..2], [cairn_abi::fault::REFUSED, BEYOND]);
    }
    for &id in &ids {
        for at in 1..40 {
            let expected = match at % 4 {
                0 | 1 => Ok((at % 4 + 1) as u8),
                _ => Err(BEYOND),
            };
            assert_eq!(f.read(id, 2 * at), expected, "{at}");
        }
    }
    assert!(f.world.vm.taken.is_empty());
}

/// Its maker begins with a cut and does not go on: asks for something else, is late, ends. Who waits goes on.
#[test]
fn what_is_not_taken_away_to_the_end_comes_back() {
    for how in 0..3 {
        let (mut f, ids) = often(3, 40);
        let server = f.server;
        assert_eq!(f.change_part(server, 0, &[], 0), -EAGAIN);
        assert_eq!(f.read(ids[0], 2), Err(WAITS));
        match how {
            0 => f.change(1, &[ARENA + 20], 4),
            1 => {
                f.world.vm.nucleus.time += 999_000_000;
                f.world.vm.late();
                assert!(f.world.vm.nucleus.replies.is_empty());
                f.world.vm.nucleus.time += 2_000_000;
                f.world.vm.late();
            }
            _ => {
                f.world.destroy(server);
                f.world.do_all_pieces();
            }
        }
        f.world.audit();
        let replies = std::mem::take(&mut f.world.vm.nucleus.replies);
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].1.words[0], cairn_abi::fault::RESOLVED, "{how}");
        let expected = if how == 0 { 21 } else { 2 };
        assert_eq!(f.read(ids[0], 2), Ok(expected));
        assert!(f.world.vm.taken.is_empty());
    }
}

/// Forks, moves, ends of programs and new mappings between the parts: in the end nobody sees what has gone.
#[test]
fn what_goes_is_gone_whatever_others_do_meanwhile() {
    let mut random = Random(77);
    for round in 0..60 {
        let (mut f, mut ids) = often(3, 30);
        let server = f.server;
        // Whole, shared and private.
        for &id in &ids {
            f.map_at(id, AT + WHOLE, SHARED, 4);
            f.map_at(id, AT + WHOLE + 5, 0, 4);
            for page in 0..9 {
                let _ = f.read(id, WHOLE + page);
            }
        }
        let mut parts = 0;
        let (first, list, length): (u64, &[u64], u64) = match round % 3 {
            0 => (2, &[], 2),
            1 => (0, &[ARENA + 50, 0], 4),
            _ => (1, &[ARENA + 60, ARENA + 2], 3),
        };
        while f.change_part(server, first, list, length) != 0 {
            parts += 1;
            assert!(parts < 500);
            let id = ids[random.below(ids.len() as u64) as usize];
            let at = random.below(30);
            match random.below(8) {
                5 => f.map_at(id, AT + WHOLE + 20 + 5 * random.below(8), 0, 4),
                6 => {
                    let _ = f.read(id, WHOLE + random.below(9));
                }
                0 | 1 if ids.len() < 8 => ids.extend(f.world.fork(id)),
                2 | 3 => {
                    // From the top to the bottom, where the search has been, or back.
                    let (low, high) = ((AT - 100 + at) * PAGE, (AT + 2 * at) * PAGE);
                    for (from, to) in [(high, low), (low, high)] {
                        let words = [vm::REMAP, from, PAGE, PAGE, 3, to];
                        if f.world.call(id, &words) > 0 {
                            break;
                        }
                    }
                }
                4 if ids.len() > 2 => {
                    f.world.destroy(id);
                    ids.retain(|&other| other != id);
                }
                _ => {
                    let _ = f.world.write(id, AT + 2 * at, 99);
                }
            }
            f.world.audit();
        }
        f.world.vm.nucleus.replies.clear();
        assert!(f.world.vm.taken.is_empty());
        for &id in &ids {
            for page in (AT - 100)..(AT + WHOLE + 60) {
                let Ok(seen) = f.world.read(id, page) else {
                    continue;
                };
                let gone = match round % 3 {
                    0 => seen == 3 || seen == 4,
                    1 => seen == 1,
                    _ => seen == 2 || seen == 4,
                };
                assert!(!gone, "round {round}: {seen} at {page:#x}");
            }
        }
        f.world.audit();
    }
}
