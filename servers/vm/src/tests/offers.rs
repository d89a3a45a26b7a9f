//! Pages that are given away: death at every step loses none and leaks none, and nobody changes what another has taken.

use super::*;
use cairn_idl::errno::*;
use cairn_idl::vm::{flags, Giving, OFFER_MAX};

const HERE: u64 = 0x400;
const THERE: u64 = 0x9000;

struct Two {
    world: World,
    giver: Id,
    taker: Id,
}

fn two(frames: u32) -> Two {
    let mut world = World::new(frames);
    let (giver, taker) = (world.create(), world.create());
    world.map(giver, HERE, 200);
    Two {
        world,
        giver,
        taker,
    }
}

impl Two {
    fn offer(&mut self, pages: u64, how: Giving, receiver: Id) -> Result<u64, i64> {
        let (address, len) = (HERE * PAGE, pages * PAGE);
        let words = [vm::OFFER, address, len, how as u64, u64::from(receiver)];
        let answer = self.world.call_badge(self.giver, 0, &words);
        self.world.audit();
        match (answer.words[0] as i64, answer.pass) {
            (0, Some(Pass::Mint(badge))) => Ok(badge),
            (errno, _) => Err(-errno),
        }
    }

    fn take(&mut self, who: Id, badge: u64, most: u64) -> i64 {
        let answer = self
            .world
            .take(who, badge, THERE * PAGE, most * PAGE, flags::FIXED);
        self.world.audit();
        answer.words[0] as i64
    }

    fn fill(&mut self, pages: u64) {
        for i in 0..pages {
            self.world
                .write(self.giver, HERE + i, i as u8 + 1)
                .expect("mapped");
        }
    }
}

#[test]
fn what_is_moved_is_the_other_sides_alone() {
    let mut t = two(4000);
    t.fill(150);
    let frames: Vec<Frame> = (0..150)
        .map(|i| t.world.touch(t.giver, HERE + i, false).unwrap())
        .collect();
    let free = t.world.vm.frames.free();
    let badge = t.offer(200, Giving::Move, t.taker).unwrap();
    let copied = t.world.vm.nucleus.count.clone();
    assert_eq!(t.take(t.taker, badge, 200), (THERE * PAGE) as i64);
    for i in 0..150 {
        assert_eq!(
            t.world.touch(t.taker, THERE + i, true),
            Ok(frames[i as usize])
        );
        assert_eq!(t.world.read(t.taker, THERE + i), Ok(i as u8 + 1));
    }
    // All were mapped at once, in three rows.
    let rows = t.world.vm.nucleus.count["map_list"] - copied.get("map_list").unwrap_or(&0);
    assert_eq!(rows, 3);
    assert_eq!(t.world.vm.nucleus.count.get("map"), copied.get("map"));
    // Nothing was copied; page tables of the new place aside all memory is where it was.
    assert!(free - t.world.vm.frames.free() <= 3);
    // The giver has zeroes, of its own.
    assert_eq!(t.world.read(t.giver, HERE + 3), Ok(0));
    assert_ne!(t.world.touch(t.giver, HERE + 3, true), Ok(frames[3]));
    assert_eq!(t.take(t.taker, badge, 200), -EBADF);
}

#[test]
fn what_is_shared_is_copied_by_who_writes() {
    let mut t = two(2000);
    t.fill(3);
    let badge = t.offer(4, Giving::Copy, 0).unwrap();
    t.world.write(t.giver, HERE, 77).unwrap();
    assert_eq!(t.take(t.taker, badge, 4), (THERE * PAGE) as i64);
    assert_eq!(t.world.read(t.taker, THERE), Ok(1));
    assert_eq!(
        t.world.touch(t.taker, THERE + 1, false),
        t.world.touch(t.giver, HERE + 1, false)
    );
    t.world.write(t.taker, THERE + 1, 88).unwrap();
    assert_eq!(t.world.read(t.giver, HERE + 1), Ok(2));
    t.world.write(t.giver, HERE + 2, 99).unwrap();
    assert_eq!(t.world.read(t.taker, THERE + 2), Ok(3));
    assert_eq!(t.world.read(t.taker, THERE + 3), Ok(0));
    t.world.audit();
}

#[test]
fn what_a_memory_object_shows_is_not_given_away_with_it() {
    for how in [Giving::Move, Giving::Copy] {
        let mut t = two(2000);
        t.fill(2);
        let object = t.world.object(t.giver, &[HERE, HERE + 1], true).unwrap();
        let words = [
            vm::OBJECT_MAP,
            0x5000 * PAGE,
            2 * PAGE,
            RW,
            flags::FIXED | flags::SHARED,
            0,
        ];
        let other = t.world.create();
        t.world.call_badge(other, object, &words);
        let badge = t.offer(2, how, 0).unwrap();
        assert_eq!(t.take(t.taker, badge, 2), (THERE * PAGE) as i64);
        t.world.write(other, 0x5000, 66).unwrap();
        assert_eq!(t.world.read(t.taker, THERE), Ok(1));
        // The object goes on showing what its maker keeps.
        let kept = if how == Giving::Copy { 66 } else { 0 };
        assert_eq!(t.world.read(t.giver, HERE), Ok(kept));
        t.world.audit();
    }
}

#[test]
fn a_child_keeps_what_its_parent_gives_away() {
    for how in [Giving::Move, Giving::Copy] {
        let mut t = two(3000);
        t.fill(100);
        let child = t.world.fork(t.giver).unwrap();
        let badge = t.offer(100, how, 0).unwrap();
        assert_eq!(t.take(t.taker, badge, 100), (THERE * PAGE) as i64);
        for i in 0..100 {
            t.world.write(t.taker, THERE + i, 200).unwrap();
            assert_eq!(t.world.read(child, HERE + i), Ok(i as u8 + 1));
        }
        t.world.audit();
    }
}

#[test]
fn death_at_every_step_loses_nothing_and_leaks_nothing() {
    for how in [Giving::Move, Giving::Copy] {
        for step in 0..5 {
            let mut t = two(3000);
            t.fill(70);
            let badge = t.offer(70, how, t.taker).unwrap();
            match step {
                // The giver dies before anybody takes; the portal's end comes later.
                0 => {
                    t.world.destroy(t.giver);
                    assert_eq!(t.take(t.taker, badge, 70), -EBADF);
                    t.world.close_object(badge);
                    t.world.destroy(t.taker);
                }
                // The receiver dies: its portal is closed.
                1 => {
                    t.world.destroy(t.taker);
                    t.world.close_object(badge);
                    t.world.destroy(t.giver);
                }
                // Or the giver has a portal as well, and takes its pages back.
                2 => {
                    t.world.destroy(t.taker);
                    assert_eq!(t.take(t.giver, badge, 70), (THERE * PAGE) as i64);
                    assert_eq!(t.world.read(t.giver, THERE + 69), Ok(70));
                    t.world.destroy(t.giver);
                }
                // Taken, and then one of them dies.
                3 => {
                    assert_eq!(t.take(t.taker, badge, 70), (THERE * PAGE) as i64);
                    t.world.destroy(t.giver);
                    assert_eq!(t.world.read(t.taker, THERE + 69), Ok(70));
                    t.world.destroy(t.taker);
                }
                _ => {
                    assert_eq!(t.take(t.taker, badge, 70), (THERE * PAGE) as i64);
                    t.world.destroy(t.taker);
                    let kept = if how == Giving::Copy { 70 } else { 0 };
                    assert_eq!(t.world.read(t.giver, HERE + 69), Ok(kept));
                    t.world.destroy(t.giver);
                }
            }
            t.world.audit();
            let nucleus = t.world.vm.nucleus.owned.len();
            assert_eq!(t.world.vm.frames.free(), 3000 - 1 - nucleus);
        }
    }
}

#[test]
fn an_offer_that_cannot_be_delivered_is_undone() {
    for how in [Giving::Move, Giving::Copy] {
        let mut t = two(2000);
        t.fill(70);
        t.world.vm.nucleus.refuse_replies = true;
        let words = [vm::OFFER, HERE * PAGE, 70 * PAGE, how as u64, 0];
        let answer = t.world.call_badge(t.giver, 0, &words);
        assert_eq!(answer.words[0] as i64, -ENFILE);
        t.world.audit();
        for i in 0..70 {
            assert_eq!(t.world.read(t.giver, HERE + i), Ok(i as u8 + 1));
            t.world.write(t.giver, HERE + i, 9).unwrap();
        }
        assert_eq!(t.world.vm.offers.iter().count(), 0);
    }
}

#[test]
fn without_memory_for_copies_nothing_has_happened() {
    let mut t = two(2000);
    t.fill(60);
    let child = t.world.fork(t.giver).unwrap();
    // Everything but a few frames is gone.
    let mut hoard = Vec::new();
    let reserve = t.world.vm.reserve;
    while t.world.vm.frames.free() > reserve + 20 {
        hoard.push(t.world.vm.frames.alloc(0).unwrap());
    }
    let words = [vm::OFFER, HERE * PAGE, 60 * PAGE, Giving::Move as u64, 0];
    assert_eq!(t.world.call(t.giver, &words), -ENOMEM);
    for frame in hoard {
        t.world.vm.frames.release(frame);
    }
    for i in 0..60 {
        assert_eq!(t.world.read(t.giver, HERE + i), Ok(i as u8 + 1));
        assert_eq!(t.world.read(child, HERE + i), Ok(i as u8 + 1));
    }
    t.world.audit();
}

#[test]
fn requests_are_judged() {
    let mut t = two(2000);
    t.fill(4);
    let offer = |t: &mut Two, words: &[u64]| t.world.call(t.giver, words);
    let (address, len) = (HERE * PAGE, 4 * PAGE);
    assert_eq!(offer(&mut t, &[vm::OFFER, address, 0, 0, 0]), -EINVAL);
    assert_eq!(offer(&mut t, &[vm::OFFER, address, 100, 0, 0]), -EINVAL);
    assert_eq!(offer(&mut t, &[vm::OFFER, address + 8, len, 0, 0]), -EINVAL);
    assert_eq!(offer(&mut t, &[vm::OFFER, address, len, 2, 0]), -EINVAL);
    let huge = [vm::OFFER, address, OFFER_MAX + PAGE, 0, 0];
    assert_eq!(offer(&mut t, &huge), -EINVAL);
    assert_eq!(
        offer(&mut t, &[vm::OFFER, address, 201 * PAGE, 0, 0]),
        -EFAULT
    );
    // What may be read only can be shared, not moved.
    let protect = [vm::PROTECT, address, PAGE, prot::READ];
    assert_eq!(t.world.call(t.giver, &protect), 0);
    assert_eq!(t.offer(4, Giving::Move, 0), Err(EACCES));
    assert!(t.offer(4, Giving::Copy, 0).is_ok());
    // Shared memory is nobody's own.
    let shared = flags::FIXED | flags::SHARED;
    let words = [vm::MAP, 0x7000 * PAGE, PAGE, RW, shared];
    assert!(t.world.call(t.giver, &words) > 0);
    let words = [vm::OFFER, 0x7000 * PAGE, PAGE, 1, 0];
    assert_eq!(t.world.call(t.giver, &words), -EACCES);

    let badge = t.offer(2, Giving::Copy, t.taker).unwrap();
    let stranger = t.world.create();
    assert_eq!(t.take(stranger, badge, 2), -EPERM);
    assert_eq!(t.take(t.taker, badge, 1), -EFBIG);
    let answer = t
        .world
        .take(t.taker, badge, THERE * PAGE, 2 * PAGE, flags::SHARED);
    assert_eq!(answer.words[0] as i64, -EINVAL);
    // Without a portal, or through the offer's own.
    let words = [vm::TAKE, THERE * PAGE, 2 * PAGE, 0];
    assert_eq!(t.world.call(t.taker, &words), -EINVAL);
    let answer = t.world.call_badge(t.taker, badge, &words);
    assert_eq!(answer.words[0] as i64, -EINVAL);
    // An offer's portal is for nothing else, and another portal no offer's.
    for (other, errno) in [
        (vm::OBJECT_MAP, EBADF),
        (vm::MAP, EINVAL),
        (vm::CREATE, EINVAL),
    ] {
        let words = [other, 0, PAGE, 1, 0, 0];
        let answer = t.world.call_badge(t.taker, badge, &words);
        assert_eq!(answer.words[0] as i64, -errno);
    }
    assert_eq!(t.take(t.taker, 0, 2), -EBADF);
    assert_eq!(t.take(t.taker, badge, 2), (THERE * PAGE) as i64);
    t.world.audit();
}

#[test]
fn offers_are_the_givers_to_pay_for() {
    let mut t = two(2000);
    t.fill(50);
    let limit = [vm::LIMIT, u64::from(t.giver), 250];
    assert_eq!(t.world.control(&limit), 0);
    let first = t.offer(50, Giving::Move, 0).unwrap();
    t.fill(50);
    assert_eq!(t.offer(50, Giving::Move, 0), Err(ENOMEM));
    // Who hoards offers is the largest.
    t.world.map(t.taker, HERE, 100);
    for i in 0..80 {
        t.world.write(t.taker, HERE + i, 1).unwrap();
    }
    assert_eq!(t.world.vm.largest(), Some(t.giver));
    assert_eq!(t.take(t.taker, first, 50), (THERE * PAGE) as i64);
    assert!(t.offer(50, Giving::Move, 0).is_ok());
}
