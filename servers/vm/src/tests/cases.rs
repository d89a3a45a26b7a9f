//! Single rules, each by its own small story.

use super::*;
use crate::pages::{Chunk, CHUNK};
use cairn_abi::layout::{ARCHIVE, LINUX_TOP, PERSONALITY, PERSONALITY_HEAP, USER_TOP};
use cairn_abi::service::memory::pool;
use cairn_idl::errno::*;
use cairn_idl::vm::{advice, flags, prot};

const P: u64 = 0x4000;

#[test]
fn a_thousand_forks_leave_no_frame_behind() {
    let mut w = World::new(4096);
    let parent = w.create();
    w.map(parent, P, 80);
    for page in P..P + 70 {
        w.write(parent, page, page as u8).unwrap();
    }
    // The first ones fill pools and caches.
    for _ in 0..40 {
        let first = w.fork(parent).unwrap();
        w.destroy(first);
    }
    let free = w.vm.frames.free();
    for round in 0..1000 {
        let child = w.fork(parent).unwrap();
        for page in P..P + 10 {
            assert_eq!(w.read(child, page), Ok(page as u8));
            w.write(child, page, round as u8).unwrap();
        }
        w.destroy(child);
        assert_eq!(w.vm.frames.free(), free, "round {round}");
    }
    for page in P..P + 70 {
        assert_eq!(w.read(parent, page), Ok(page as u8));
    }
    w.audit();
}

#[test]
fn a_fork_is_a_few_operations() {
    let mut w = World::new(4096);
    let parent = w.create();
    w.map(parent, P, 40);
    w.map(parent, P + 60, 40);
    w.map(parent, 0x7ffe_0000, 30);
    for page in (P..P + 40)
        .chain(P + 60..P + 100)
        .chain(0x7ffe_0000..0x7ffe_001e)
    {
        w.write(parent, page, 1).unwrap();
    }
    w.vm.nucleus.count.clear();
    w.vm.later.whole = true;
    w.fork(parent).unwrap();
    assert_eq!(w.vm.nucleus.count["share"], 1);
    w.audit();
}

#[test]
fn what_is_written_after_forks_is_copied_at_once() {
    let mut w = World::new(4096);
    let parent = w.create();
    // Both write three pages, the child one more.
    let round = |w: &mut World, value: u8| {
        let child = w.fork(parent).unwrap();
        w.vm.nucleus.count.clear();
        for page in [P, P + 7, P + 8] {
            w.write(parent, page, value).unwrap();
            w.write(child, page, value + 1).unwrap();
        }
        w.write(child, P + 30, value).unwrap();
        assert_eq!(w.read(parent, P + 30), Ok(1));
        assert_eq!(w.read(parent, P + 7), Ok(value));
        assert_eq!(w.read(child, P + 7), Ok(value + 1));
        w.audit();
        w.destroy(child);
        w.vm.nucleus.count.get("map").copied().unwrap_or(0)
    };
    // Another program begins from the start.
    for program in 0..2 {
        w.map(parent, P, 40);
        for page in P..P + 40 {
            w.write(parent, page, 1).unwrap();
        }
        let faults: Vec<u32> = (0..66).map(|i| round(&mut w, i)).collect();
        // The first round's, and where it is looked at anew: with the fourth fork, and each 64th.
        let expected = |i: usize| if [0, 3, 63].contains(&i) { 7 } else { 0 };
        assert!(
            (0..66).all(|i| faults[i] == expected(i)),
            "{program}: {faults:?}"
        );
        let reset = [vm::RESET, u64::from(parent), PERSONALITY, USER_TOP];
        assert_eq!(w.control(&reset), 0);
    }
    w.destroy(parent);
    w.audit();
}

#[test]
fn who_writes_page_after_page_faults_seldom() {
    let mut w = World::new(4096);
    let a = w.create();
    w.map(a, P, 400);
    let faults = |w: &World| {
        let count = &w.vm.nucleus.count;
        count.get("map").unwrap_or(&0) + count.get("fill").unwrap_or(&0)
    };
    w.vm.nucleus.count.clear();
    for page in P..P + 64 {
        w.write(a, page, page as u8).unwrap();
    }
    assert!(faults(&w) <= 12, "{}", faults(&w));
    // Downwards, as a stack grows.
    w.vm.nucleus.count.clear();
    for page in (P + 128..P + 192).rev() {
        w.write(a, page, page as u8).unwrap();
    }
    assert!(faults(&w) <= 12, "{}", faults(&w));
    // Here and there: nothing that was not asked for.
    for page in (P + 200..P + 400).step_by(7) {
        w.write(a, page, 1).unwrap();
    }
    w.audit();
    let space = w.vm.spaces.get(w.vm.domain(a).unwrap().space).unwrap();
    assert_eq!(space.pages.count(P + 199, P + 400), 29);
    let child = w.fork(a).unwrap();
    for page in P..P + 64 {
        w.write(child, page, 0).unwrap();
        assert_eq!(w.read(a, page), Ok(page as u8));
    }
    w.audit();
}

#[test]
fn the_last_holder_of_a_page_writes_without_a_copy() {
    let mut w = World::new(512);
    let parent = w.create();
    w.map(parent, P, 1);
    w.write(parent, P, 5).unwrap();
    let child = w.fork(parent).unwrap();
    w.destroy(parent);
    let before = w.touch(child, P, false).unwrap();
    assert_eq!(w.touch(child, P, true), Ok(before));
    assert_eq!(w.read(child, P), Ok(5));
    w.audit();
}

#[test]
fn the_heap_is_asked_before_records_grow() {
    const CHUNKS: u64 = 5000;
    let mut w = World::new(4 * CHUNKS as u32);
    let parent = w.create();
    let area = 2 * P;
    let bytes = CHUNKS * CHUNK * PAGE;
    let kind = flags::FIXED | flags::NO_RESERVE;
    assert!(w.call(parent, &[vm::MAP, area * PAGE, bytes, RW, kind]) > 0);
    let pages = || (0..CHUNKS).map(|i| area + i * CHUNK);
    let records = CHUNKS as usize * core::mem::size_of::<Chunk>();
    for page in pages() {
        w.write(parent, page, 1).unwrap();
    }
    let lists = w.vm.nucleus.heap_asked;
    assert!(lists >= 4096 * 16, "{lists}");
    w.fork(parent).unwrap();
    for page in pages() {
        w.write(parent, page, 2).unwrap();
    }
    // Each chunk was written after a fork, so none is shared by the next.
    w.vm.nucleus.heap_asked = 0;
    w.fork(parent).unwrap();
    assert!(w.vm.nucleus.heap_asked >= records);
    w.vm.nucleus.heap_asked = 0;
    let to = area + 2 * CHUNKS * CHUNK;
    let moved = w.call(
        parent,
        &[vm::REMAP, area * PAGE, bytes, bytes, 3, to * PAGE],
    );
    assert_eq!(moved as u64, to * PAGE);
    assert!(w.vm.nucleus.heap_asked >= records);
}

#[test]
fn vfork_shares_until_reset() {
    let mut w = World::new(1024);
    let parent = w.create();
    let own = PERSONALITY / PAGE;
    w.map(parent, P, 2);
    w.map(parent, own, 2);
    w.write(parent, P, 1).unwrap();
    w.write(parent, own, 2).unwrap();
    let answer = w.call_badge(INIT, BADGE_CONTROL, &[vm::FORK, u64::from(parent), 1]);
    let child = answer.words[1] as Id;
    w.write(child, P, 9).unwrap();
    assert_eq!(w.read(parent, P), Ok(9));
    let reset = [vm::RESET, u64::from(child), PERSONALITY, USER_TOP];
    assert_eq!(w.control(&reset), 0);
    assert_eq!(w.read(child, P), Err(0));
    assert_eq!(w.read(child, own), Ok(2));
    w.write(child, own, 3).unwrap();
    assert_eq!(w.read(parent, own), Ok(2));
    assert_eq!(w.read(parent, P), Ok(9));
    w.audit();
    // Alone in its space: emptied in place.
    w.map(child, P, 1);
    assert_eq!(w.control(&reset), 0);
    assert_eq!(w.read(child, P), Err(0));
    assert_eq!(w.read(child, own), Ok(3));
    w.destroy(parent);
    w.audit();
    w.destroy(child);
    w.audit();
    assert!(w.vm.nucleus.owned.len() as u64 == w.vm.pools.frames);
    assert_eq!(w.vm.table_frames, 0);
}

#[test]
fn what_the_heap_gives_back_is_free() {
    let mut w = World::new(200);
    let free = w.vm.frames.free();
    for _ in 0..5 {
        let frame = w.vm.frames.alloc(0).unwrap();
        w.vm.nucleus.heap_rest.push(frame);
        w.vm.heap_frames += 1;
    }
    w.vm.heap_may_rest();
    // In pieces, at an ordinary program's priority.
    let mut pieces = 0;
    while let Some(level) = w.vm.later() {
        assert_eq!(level, Some(cairn_abi::priority::NORMAL));
        w.vm.do_piece();
        pieces += 1;
    }
    assert_eq!((w.vm.frames.free(), w.vm.heap_frames), (free, 0));
    assert_eq!(pieces, 2);
}

#[test]
fn a_shared_space_goes_with_its_last_domain() {
    let mut w = World::new(512);
    let parent = w.create();
    w.map(parent, P, 2);
    let answer = w.call_badge(INIT, BADGE_CONTROL, &[vm::FORK, u64::from(parent), 1]);
    let child = answer.words[1] as Id;
    w.destroy(parent);
    w.write(child, P, 4).unwrap();
    assert_eq!(w.read(child, P), Ok(4));
    w.destroy(child);
    assert_eq!(w.vm.nucleus.spaces.len(), 1);
    w.audit();
}

#[test]
fn arguments_are_judged_like_linux_does() {
    let mut w = World::new(512);
    let a = w.create();
    w.map(a, P, 4);
    let page = P * PAGE;
    let fixed = flags::FIXED;
    let cases: &[(&[u64], i64)] = &[
        (&[vm::MAP, 0, 0, RW, 0], -EINVAL),
        (&[vm::MAP, 0, u64::MAX, RW, 0], -ENOMEM),
        (&[vm::MAP, 0, 1 << 62, RW, flags::NO_RESERVE], -ENOMEM),
        (&[vm::MAP, 0, 600 * PAGE, RW, 0], -ENOMEM),
        (&[vm::MAP, 0, PAGE, 8, 0], -EINVAL),
        (&[vm::MAP, page + 1, PAGE, RW, fixed], -EINVAL),
        (&[vm::MAP, 0, PAGE, RW, fixed], -EPERM),
        (&[vm::MAP, USER_TOP, PAGE, RW, fixed], -ENOMEM),
        (&[vm::MAP, SYSTEM_PAGE, PAGE, RW, fixed], -EINVAL),
        (&[vm::MAP, u64::MAX - PAGE + 1, PAGE, RW, fixed], -ENOMEM),
        (&[vm::MAP, page, PAGE, RW, flags::FIXED_NOREPLACE], -EEXIST),
        (&[vm::UNMAP, page + 1, PAGE], -EINVAL),
        (&[vm::UNMAP, page, 0], -EINVAL),
        (&[vm::UNMAP, page, u64::MAX], -EINVAL),
        (&[vm::PROTECT, page, 5 * PAGE, 1], -ENOMEM),
        (&[vm::PROTECT, page + 1, PAGE, 1], -EINVAL),
        (&[vm::PROTECT, page, u64::MAX, 1], -ENOMEM),
        (&[vm::PROTECT, page, 0, 1], 0),
        (&[vm::REMAP, page, 0, PAGE, 1, 0], -EINVAL),
        (&[vm::REMAP, page, PAGE, 0, 1, 0], -EINVAL),
        (&[vm::REMAP, page, 5 * PAGE, 6 * PAGE, 1, 0], -EFAULT),
        (&[vm::REMAP, page, PAGE, 2 * PAGE, 5, 0], -EINVAL),
        (&[vm::REMAP, page, PAGE, PAGE, 4, 0], -EINVAL),
        (&[vm::REMAP, page, PAGE, PAGE, 2, 0], -EINVAL),
        (&[vm::REMAP, page, 2 * PAGE, PAGE, 3, page + PAGE], -EINVAL),
        (&[vm::REMAP, page, PAGE, 2 * PAGE, 0, 0], -ENOMEM),
        (&[vm::REMAP, page, PAGE, u64::MAX, 1, 0], -EINVAL),
        (&[vm::ADVISE, page, 9 * PAGE, advice::DONT_NEED], -ENOMEM),
        (&[vm::ADVISE, page, PAGE, 77], -EINVAL),
        (&[vm::OBJECT_CREATE, 0, 0], -EINVAL),
        (&[vm::OBJECT_MAP, 0, PAGE, RW, 0, 0], -EBADF),
        (&[vm::RESIDENT, page, 5 * PAGE], -ENOMEM),
        (&[vm::CREATE, 0, 0], -EPERM),
        (&[vm::MAPS, u64::from(INIT), 0], -EPERM),
        (&[vm::FORK, u64::from(a), 0], -EPERM),
        (&[999], -EINVAL),
    ];
    for (words, expected) in cases {
        assert_eq!(w.call(a, words), *expected, "{words:x?}");
        w.audit();
    }
    assert_eq!(w.call(77, &[vm::MAP, 0, PAGE, RW, 0]), -ESRCH);
    assert_eq!(w.control(&[vm::FORK, 77, 0]), -ESRCH);
    assert_eq!(w.control(&[vm::DESTROY, 0]), -ESRCH);
    assert_eq!(
        w.control(&[vm::MAP_INTO, 1 << 40, page, PAGE, RW, 0]),
        -ESRCH
    );
}

#[test]
fn device_registers_are_shown_to_native_components_only_and_where_nothing_else_is() {
    use cairn_abi::layout::{DEVICES, NATIVE_HEAP};
    let mut w = World::new(512);
    let linux = w.create();
    let native = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let id = u64::from(native);
    let at = 0xd000_0000;
    assert_eq!(
        w.call(native, &[vm::DEVICE_INTO, id, DEVICES, at, PAGE]),
        -EPERM
    );
    for words in [
        [u64::from(linux), DEVICES, at, PAGE],
        [id, NATIVE_HEAP, at, PAGE],
        [id, DEVICES + 8, at, PAGE],
        [id, DEVICES, at + 1, PAGE],
        [id, DEVICES, at, 0],
        [id, DEVICES, at, 17 << 20],
        [id, !4095, at, 2 * PAGE],
        [id, DEVICES, 1 << 44, PAGE],
    ] {
        let words = [&[vm::DEVICE_INTO], &words[..]].concat();
        assert_eq!(w.control(&words), -EINVAL, "{words:x?}");
        w.audit();
    }
    assert_eq!(w.control(&[vm::DEVICE_INTO, 99, DEVICES, at, PAGE]), -ESRCH);
    assert_eq!(
        w.control(&[vm::DEVICE_INTO, id, DEVICES + PAGE, at, 3 * PAGE]),
        0
    );
}

#[test]
fn places_go_down_for_linux_and_up_for_native() {
    let mut w = World::new(512);
    let a = w.create();
    let first = w.call(a, &[vm::MAP, 0, 3 * PAGE, RW, 0]) as u64;
    assert_eq!(first, LINUX_TOP - 3 * PAGE);
    let second = w.call(a, &[vm::MAP, 0, PAGE, RW, 0]) as u64;
    assert_eq!(second, first - PAGE);
    let own = w.call(a, &[vm::MAP, 0, PAGE, RW, flags::PERSONALITY]) as u64;
    assert_eq!(own, PERSONALITY_HEAP);
    let hinted = w.call(a, &[vm::MAP, 0x5000_0123, PAGE, RW, 0]) as u64;
    assert_eq!(hinted, 0x5000_0000);
    let native = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let first = w.call(native, &[vm::MAP, 0, PAGE, RW, 0]) as u64;
    assert_eq!(first, cairn_abi::layout::NATIVE_HEAP);
    w.audit();
}

#[test]
fn protection_is_kept_and_comes_back() {
    let mut w = World::new(512);
    let a = w.create();
    w.map(a, P, 3);
    w.write(a, P + 1, 7).unwrap();
    let protect = |w: &mut World, bits| w.call(a, &[vm::PROTECT, P * PAGE, 3 * PAGE, bits]);
    assert_eq!(protect(&mut w, 1), 0);
    assert_eq!(w.write(a, P + 1, 8), Err(1));
    assert_eq!(protect(&mut w, 0), 0);
    assert_eq!(w.read(a, P + 1), Err(1));
    w.audit();
    assert_eq!(protect(&mut w, RW), 0);
    assert_eq!(w.read(a, P + 1), Ok(7));
    w.write(a, P + 1, 9).unwrap();
    assert_eq!(w.read(a, P + 5), Err(0));
    w.audit();
}

#[test]
fn shared_anonymous_memory_stays_shared_over_fork() {
    let mut w = World::new(1024);
    let a = w.create();
    let words = [
        vm::MAP,
        P * PAGE,
        4 * PAGE,
        RW,
        flags::FIXED | flags::SHARED,
    ];
    assert!(w.call(a, &words) > 0);
    w.write(a, P, 1).unwrap();
    let b = w.fork(a).unwrap();
    w.write(b, P, 2).unwrap();
    // Touched only after the fork, by both.
    w.write(b, P + 2, 3).unwrap();
    assert_eq!(w.read(a, P), Ok(2));
    assert_eq!(w.read(a, P + 2), Ok(3));
    w.audit();
    w.destroy(a);
    assert_eq!(w.read(b, P + 2), Ok(3));
    w.destroy(b);
    w.audit();
    assert_eq!(w.vm.objects.iter().count(), 0);
}

#[test]
fn objects_show_their_makers_pages() {
    let mut w = World::new(1024);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let client = w.create();
    w.map(server, P, 8);
    w.write(server, P, 10).unwrap();
    w.write(server, P + 1, 11).unwrap();
    let badge = w.object(server, &[P, P + 1, 0, P + 3], true).unwrap();
    let map = |w: &mut World, at: u64, pages: u64, flag: u64| {
        let words = [
            vm::OBJECT_MAP,
            at * PAGE,
            pages * PAGE,
            RW,
            flag | flags::FIXED,
            0,
        ];
        w.call_badge(client, badge, &words).words[0] as i64
    };
    assert_eq!(map(&mut w, 0x100, 6, flags::SHARED), 0x100 * PAGE as i64);
    assert_eq!(map(&mut w, 0x200, 6, 0), 0x200 * PAGE as i64);
    assert_eq!(w.read(client, 0x100), Ok(10));
    assert_eq!(w.read(client, 0x101), Ok(11));
    assert_eq!(w.read(client, 0x202), Ok(0));
    assert_eq!(w.read(client, 0x203), Ok(0));
    assert_eq!(w.read(client, 0x204), Err(2));
    w.audit();
    w.write(client, 0x100, 20).unwrap();
    assert_eq!(w.read(server, P), Ok(20));
    assert_eq!(w.read(client, 0x200), Ok(20));
    w.write(server, P + 3, 13).unwrap();
    assert_eq!(w.read(client, 0x103), Ok(13));
    w.write(client, 0x200, 99).unwrap();
    assert_eq!(w.read(server, P), Ok(20));
    w.write(client, 0x202, 5).unwrap();
    assert_eq!(w.read(client, 0x202), Ok(5));
    w.audit();
    w.close_object(badge);
    assert_eq!(w.read(client, 0x101), Ok(11));
    assert_eq!(
        w.call_badge(client, badge, &[vm::OBJECT_MAP, 0, PAGE, 1, 0, 0])
            .words[0] as i64,
        0x7fff_0000_0000 - PAGE as i64,
        "mapped regions keep the object itself alive"
    );
    w.destroy(client);
    w.audit();
    assert_eq!(w.vm.objects.iter().count(), 0);
    assert_eq!(
        w.call_badge(server, badge, &[vm::OBJECT_MAP, 0, PAGE, 1, 0, 0])
            .words[0] as i64,
        -EBADF
    );
    assert_eq!(w.read(server, P), Ok(20));
}

#[test]
fn a_page_that_goes_with_its_maker_is_zero_then() {
    let mut w = World::new(1024);
    let client = w.made(&[vm::CREATE, 0, 1]).unwrap();
    for ended in [false, true] {
        let maker = w.made(&[vm::CREATE, 0, 0]).unwrap();
        w.map(maker, 0x100, 2);
        w.write(maker, 0x100, 7).unwrap();
        let make = |w: &mut World, how: u64, pages: &[u64]| {
            let bytes = pages.iter().flat_map(|page| (page * PAGE).to_le_bytes());
            w.vm.nucleus.out = bytes.collect();
            let made = w.call_badge(maker, 0, &[vm::OBJECT_CREATE, 0, how]);
            w.vm.nucleus.out.clear();
            made
        };
        let how = vm::making::WITH_MAKER;
        for (how, pages) in [
            (how, &[0x100, 0x101][..]),
            (how | vm::making::SHARED, &[0x100]),
        ] {
            assert_eq!(make(&mut w, how, pages).words[0] as i64, -EINVAL);
        }
        let Some(Pass::Mint(badge)) = make(&mut w, how, &[0x100]).pass else {
            panic!("no object");
        };
        // Where a Linux program's frames of files are: its children do not have them.
        let window = cairn_abi::layout::FRAMES;
        let words = [
            vm::OBJECT_MAP,
            window,
            PAGE,
            1,
            flags::SHARED | flags::FIXED,
            0,
        ];
        assert_eq!(w.call_badge(client, badge, &words).words[0], window);
        assert_eq!(w.read(client, window / PAGE), Ok(7));
        let child = w.fork(client).unwrap();
        assert!(w.read(child, window / PAGE).is_err());
        w.destroy(child);
        w.write(maker, 0x100, 8).unwrap();
        assert_eq!(w.read(client, window / PAGE), Ok(8));
        match ended {
            true => w.destroy(maker),
            false => w.close_object(badge),
        }
        assert_eq!(w.read(client, window / PAGE), Ok(0));
        w.audit();
    }
}

#[test]
fn a_fresh_object_outlives_its_maker() {
    let mut w = World::new(1024);
    let maker = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let how = vm::making::SHARED | vm::making::FRESH;
    for words in [
        [vm::OBJECT_CREATE, 0, how],
        [vm::OBJECT_CREATE, 4, how | vm::making::WATCHED],
        [vm::OBJECT_CREATE, 1 << 40, how],
    ] {
        assert_eq!(w.call(maker, &words), -EINVAL);
    }
    let made = w.call_badge(maker, 0, &[vm::OBJECT_CREATE, 1000, how]);
    let Some(Pass::Mint(badge)) = made.pass else {
        panic!("no object: {made:?}");
    };
    let map = |w: &mut World, id: Id, prot: u64| {
        let how = flags::SHARED | flags::FIXED;
        let words = [vm::OBJECT_MAP, 0x100 * PAGE, 1000 * PAGE, prot, how, 0];
        w.call_badge(id, badge, &words).words[0] as i64
    };
    let free = w.vm.frames.free();
    assert_eq!(map(&mut w, maker, RW), 0x100 * PAGE as i64);
    assert!(
        w.vm.frames.free() + 8 > free,
        "it takes memory as it is used"
    );
    w.write(maker, 0x105, 7).unwrap();
    assert_eq!(w.read(maker, 0x106), Ok(0));
    w.destroy(maker);
    w.audit();
    let next = w.made(&[vm::CREATE, 0, 0]).unwrap();
    assert_eq!(map(&mut w, next, RW), 0x100 * PAGE as i64);
    assert_eq!(w.read(next, 0x105), Ok(7));
    w.write(next, 0x4e7, 8).unwrap();
    w.destroy(next);
    w.close_object(badge);
    w.audit();
    assert_eq!(w.vm.objects.iter().count(), 0);
}

#[test]
fn read_only_objects_stay_so() {
    let mut w = World::new(1024);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let client = w.create();
    w.map(server, P, 1);
    let badge = w.object(server, &[P], false).unwrap();
    let shared = flags::SHARED | flags::FIXED;
    let mut map = |bits| {
        let words = [vm::OBJECT_MAP, 0x100 * PAGE, PAGE, bits, shared, 0];
        w.call_badge(client, badge, &words).words[0] as i64
    };
    assert_eq!(map(RW), -EACCES);
    assert!(map(1) > 0);
    assert_eq!(
        w.call(client, &[vm::PROTECT, 0x100 * PAGE, PAGE, RW]),
        -EACCES
    );
    assert_eq!(w.object(client, &[0x100], true), Err(-EACCES));
    assert_eq!(w.object(client, &[0x900], false), Err(-EFAULT));
    w.audit();
}

#[test]
fn one_fault_brings_the_neighbours_of_an_object_along() {
    let mut w = World::new(1024);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let client = w.create();
    w.map(server, P, 40);
    let pages: Vec<u64> = (P..P + 40).collect();
    let badge = w.object(server, &pages, false).unwrap();
    let words = [vm::OBJECT_MAP, 0x100 * PAGE, 40 * PAGE, 1, flags::FIXED, 0];
    w.call_badge(client, badge, &words);
    w.vm.nucleus.count.clear();
    for page in 0x100..0x128 {
        assert_eq!(w.read(client, page), Ok(0));
    }
    // 16 pages, and when those behind them are asked for as well all the others.
    assert_eq!(w.vm.nucleus.count["fill"], 2);
    w.audit();
}

#[test]
fn a_program_finds_what_the_one_before_it_asked_for() {
    let mut w = World::new(2048);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    w.map(server, P, 100);
    let pages: Vec<u64> = (P..P + 100).collect();
    for page in P..P + 100 {
        w.write(server, page, page as u8).unwrap();
    }
    let badge = w.object(server, &pages, false).unwrap();
    let map = |w: &mut World, kind: u64| {
        let client = w.create();
        let kind = kind | flags::FIXED;
        let words = [vm::OBJECT_MAP, 0x101 * PAGE, 99 * PAGE, RW, kind, PAGE];
        w.call_badge(client, badge, &words);
        client
    };
    let first = map(&mut w, flags::PROGRAM);
    assert_eq!(w.read(first, 0x120), Ok((P + 0x20) as u8));
    w.write(first, 0x122, 200).unwrap();
    w.write(first, 0x150, 201).unwrap();
    let faults = |w: &mut World, client, page: u64| {
        w.vm.nucleus.count.clear();
        let seen = w.read(client, page).unwrap();
        (seen, w.vm.nucleus.count.is_empty())
    };
    let second = map(&mut w, flags::LIBRARY);
    for (page, there) in [(0x120, true), (0x122, true), (0x150, true), (0x140, false)] {
        assert_eq!(
            faults(&mut w, second, page),
            ((P + page - 0x100) as u8, there)
        );
    }
    // Copies of its own where the first wrote, and what that one wrote is not seen.
    w.vm.nucleus.count.clear();
    w.write(second, 0x150, 99).unwrap();
    assert!(w.vm.nucleus.count.is_empty());
    assert_eq!(w.read(first, 0x150), Ok(201));
    // Other private mappings go on seeing the object until they write themselves.
    let third = map(&mut w, 0);
    w.write(server, P + 0x50, 77).unwrap();
    assert_eq!(w.read(third, 0x150), Ok(77));
    w.audit();
}

#[test]
fn a_library_mapped_to_be_read_shows_what_is_wanted_nearby_at_its_first_fault() {
    let mut w = World::new(2048);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    w.map(server, P, 64);
    let pages: Vec<u64> = (P..P + 64).collect();
    let badge = w.object(server, &pages, false).unwrap();
    let client = w.create();
    let map = |w: &mut World, at: u64, prot: u64, kind: u64| {
        let words = [vm::OBJECT_MAP, at * PAGE, 64 * PAGE, prot, kind, 0];
        w.vm.nucleus.count.clear();
        assert_eq!(w.call_badge(client, badge, &words).words[0], at * PAGE);
        w.vm.nucleus.count.contains_key("fill")
    };
    let fault = |w: &mut World, page: u64| {
        w.vm.nucleus.count.clear();
        w.read(client, page).unwrap();
        w.vm.nucleus.count.contains_key("fill")
    };
    // Code: few pages at a fault, and again at once.
    let code = prot::READ | prot::EXECUTE;
    assert!(!map(&mut w, 0x100, code, flags::FIXED));
    for (page, brings) in [(0x103, true), (0x107, false), (0x108, true)] {
        assert_eq!(fault(&mut w, page), brings);
    }
    // What was mapped along is not what was asked for.
    assert!(map(&mut w, 0x200, code, flags::FIXED));
    for (page, brings) in [(0x203, false), (0x208, false), (0x20f, true)] {
        assert_eq!(fault(&mut w, page), brings, "{page:x}");
    }
    // The whole of it, to be read, wherever there is room: nothing yet; with the first fault what those wanted.
    assert!(!map(&mut w, 0x300, prot::READ, 0));
    assert!(fault(&mut w, 0x330));
    for page in [0x303, 0x308, 0x30f, 0x33f] {
        assert!(!fault(&mut w, page), "{page:x}");
    }
    // Also where it lies in two of the pieces in which pages are recorded.
    for (at, first, rest) in [(0x430, 0x435, 0x460), (0x530, 0x565, 0x533)] {
        assert!(!map(&mut w, at, prot::READ, 0));
        assert!(fault(&mut w, first));
        assert!(!fault(&mut w, rest), "{rest:x}");
    }
    w.audit();
}

#[test]
fn a_file_is_mapped_once_more_by_what_is_mapped_of_it() {
    let mut w = World::new(1024);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let client = w.create();
    w.map(server, P, 8);
    for page in 0..8 {
        w.write(server, P + page, 10 + page as u8).unwrap();
    }
    let pages: Vec<u64> = (P..P + 8).collect();
    let badge = w.object(server, &pages, true).unwrap();
    let words = [vm::OBJECT_MAP, 0x100 * PAGE, 4 * PAGE, 1, flags::FIXED, 0];
    assert!(w.call_badge(client, badge, &words).words[0] as i64 > 0);
    w.close_object(badge);
    let alike = |w: &mut World, at: u64, pages: u64, flag: u64, first: u64, like: u64| {
        let (at, length, offset) = (at * PAGE, pages * PAGE, first * PAGE);
        let words = [vm::MAP_ALIKE, at, length, RW, flag, offset, like * PAGE];
        w.call(client, &words)
    };
    // Over all that keeps the object; then behind it.
    assert_eq!(
        alike(&mut w, 0x100, 6, flags::FIXED, 1, 0x103),
        (0x100 * PAGE) as i64
    );
    assert_eq!(w.read(client, 0x100), Ok(11));
    assert!(alike(&mut w, 0, 1, 0, 7, 0x105) > 0);
    assert!(alike(&mut w, 0x200, 1, flags::FIXED, 7, 0x105) > 0);
    w.write(client, 0x200, 99).unwrap();
    assert_eq!(w.read(client, 0x200), Ok(99));
    assert_eq!(w.read(server, P + 7), Ok(17));
    // Private only, whole pages only, and of nothing else.
    let wrong = [
        (flags::SHARED, 0, 0x100, -EINVAL),
        (flags::FIXED_NOREPLACE, 0, 0x100, -EEXIST),
        (0, 0, 0x300, -EBADF),
        (0, 0, 1 << 50, -EBADF),
    ];
    for (flag, first, like, error) in wrong {
        assert_eq!(alike(&mut w, 0x200, 1, flag, first, like), error);
    }
    let words = [vm::MAP_ALIKE, 0, PAGE, RW, 0, 1, 0x100 * PAGE];
    assert_eq!(w.call(client, &words), -EINVAL);
    w.map(client, 0x300, 1);
    assert_eq!(alike(&mut w, 0, 1, 0, 0, 0x300), -EBADF);
    let words = [
        vm::OBJECT_MAP,
        0x400 * PAGE,
        PAGE,
        RW,
        flags::SHARED | flags::FIXED,
        0,
    ];
    let badge = w.object(server, &pages, true).unwrap();
    assert!(w.call_badge(client, badge, &words).words[0] as i64 > 0);
    assert_eq!(alike(&mut w, 0, 1, 0, 0, 0x400), -EBADF);
    w.audit();
}

#[test]
fn small_memory_comes_whole() {
    let mut w = World::new(1024);
    let a = w.create();
    let resident = |w: &World| w.vm.spaces.get(1).unwrap().pages.resident();
    for (first, pages, there) in [(P, 1, 0), (P + 0x100, 4, 4), (P + 0x200, 5, 0)] {
        let before = resident(&w);
        w.map(a, first, pages);
        assert_eq!(resident(&w) - before, there);
    }
    // Given back it comes whole with the first write.
    let words = [vm::ADVISE, (P + 0x100) * PAGE, 4 * PAGE, advice::DONT_NEED];
    assert_eq!(w.call(a, &words), 0);
    for (first, there) in [(P + 0x100, 3), (P + 0x200, 1)] {
        let before = resident(&w);
        w.write(a, first + 1, 1).unwrap();
        assert_eq!(resident(&w) - before, there);
    }
    w.audit();
}

#[test]
fn a_range_comes_into_the_child_as_zeroes_or_not_at_all() {
    let mut w = World::new(1024);
    let a = w.create();
    w.map(a, P, 8);
    for page in P..P + 8 {
        w.write(a, page, 7).unwrap();
    }
    let advise = |w: &mut World, id, page: u64, pages: u64, what: u64| {
        w.call(id, &[vm::ADVISE, page * PAGE, pages * PAGE, what])
    };
    assert_eq!(advise(&mut w, a, P + 2, 2, advice::WIPE_ON_FORK), 0);
    assert_eq!(advise(&mut w, a, P + 5, 1, advice::DONT_FORK), 0);
    let b = w.fork(a).unwrap();
    w.audit();
    let seen: Vec<_> = (P..P + 8).map(|page| w.read(b, page).ok()).collect();
    assert_eq!(seen[..5], [Some(7), Some(7), Some(0), Some(0), Some(7)]);
    assert_eq!(seen[5..], [None, Some(7), Some(7)]);
    // The parent keeps them, and need not copy what the child does not share.
    let before = w.touch(a, P + 2, false);
    w.write(a, P + 2, 8).unwrap();
    assert_eq!(w.touch(a, P + 2, false), before);
    // The child's children have zeroes too; what is kept again comes as it is.
    w.write(b, P + 2, 5).unwrap();
    w.write(b, P + 3, 5).unwrap();
    assert_eq!(advise(&mut w, b, P + 3, 1, advice::KEEP_ON_FORK), 0);
    let c = w.fork(b).unwrap();
    assert_eq!((w.read(c, P + 2), w.read(c, P + 3)), (Ok(0), Ok(5)));
    assert_eq!(advise(&mut w, a, P, 8, advice::DO_FORK), 0);
    let d = w.fork(a).unwrap();
    assert_eq!((w.read(d, P + 5), w.read(d, P + 2)), (Ok(7), Ok(0)));
    // Locks and marks are apart.
    assert_eq!(w.call(a, &[vm::LOCK, P * PAGE, 8 * PAGE, 1]), 0);
    let e = w.fork(a).unwrap();
    assert_eq!(w.read(e, P + 3), Ok(0));
    // Not of what is shared, and up to there.
    let shared = [
        vm::MAP,
        (P + 8) * PAGE,
        PAGE,
        RW,
        flags::FIXED | flags::SHARED,
    ];
    assert_eq!(w.call(a, &shared), ((P + 8) * PAGE) as i64);
    assert_eq!(advise(&mut w, a, P, 9, advice::WIPE_ON_FORK), -EINVAL);
    assert_eq!(advise(&mut w, a, P + 9, 1, advice::WIPE_ON_FORK), -ENOMEM);
    let f = w.fork(a).unwrap();
    assert_eq!(w.read(f, P), Ok(0));
    for id in [a, b, c, d, e, f] {
        w.audit();
        w.destroy(id);
    }
}

#[test]
fn the_archive_is_adopted_from_init_and_freed_at_last() {
    let mut w = World::new(1024);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let first = ARCHIVE / PAGE;
    let badge = w
        .object(INIT, &[first, first + 1, first + 2], true)
        .unwrap();
    w.vm.nucleus.passed.insert(55, badge);
    let request = Request {
        words: [
            vm::OBJECT_MAP_INTO,
            u64::from(server),
            ARCHIVE,
            3 * PAGE,
            RW,
            flags::SHARED,
            0,
            55,
        ],
        badge: BADGE_CONTROL,
        sender: INIT,
        portals: 1,
        ..Request::default()
    };
    assert_eq!(w.request(request).1.unwrap().words[0], ARCHIVE);
    assert_eq!(w.vm.nucleus.closed.pop(), Some(55));
    w.close_object(badge);
    assert_eq!(w.read(server, first + 1), Ok(501u32 as u8));
    w.write(server, first + 1, 77).unwrap();
    w.audit();
    assert_eq!(
        w.call(
            INIT,
            &[vm::UNMAP, ARCHIVE, u64::from(ARCHIVE_FRAMES) * PAGE]
        ),
        0
    );
    assert_eq!(w.vm.frames.references(503), u32::MAX, "free");
    assert_eq!(w.read(server, first + 1), Ok(77));
    let words = [vm::ADVISE, ARCHIVE, PAGE, advice::REMOVE];
    assert_eq!(w.call(server, &words), 0);
    assert_eq!(w.vm.frames.references(500), u32::MAX, "free");
    assert_eq!(w.read(server, first), Ok(0));
}

#[test]
fn a_tracer_writes_text_but_not_what_others_share() {
    let mut w = World::new(1024);
    let a = w.create();
    w.map(a, P, 2);
    assert_eq!(w.call(a, &[vm::PROTECT, P * PAGE, 2 * PAGE, 1]), 0);
    let how = flags::SHARED | flags::FIXED;
    let words = [vm::MAP, (P + 2) * PAGE, PAGE, prot::READ, how];
    assert_eq!(w.call(a, &words), ((P + 2) * PAGE) as i64);
    w.vm.nucleus.out = vec![1; 10];
    let write = |w: &mut World, address: u64, guarded: u64| {
        w.control(&[vm::WRITE_INTO, u64::from(a), address, guarded])
    };
    assert_eq!(write(&mut w, P * PAGE, 1), 10);
    let shared = (P + 2) * PAGE;
    assert_eq!(write(&mut w, shared, 1), -EFAULT);
    assert_eq!(write(&mut w, shared - 5, 1), -EFAULT, "none of it");
    assert_eq!(write(&mut w, shared, 0), 10);
    let words = [vm::PROTECT, shared, PAGE, prot::READ | prot::WRITE];
    assert_eq!(w.call(a, &words), 0);
    assert_eq!(write(&mut w, shared, 1), 10);
    w.audit();
}

#[test]
fn bytes_go_in_and_out_of_other_spaces() {
    let mut w = World::new(1024);
    let a = w.create();
    w.map(a, P, 40);
    assert_eq!(w.call(a, &[vm::PROTECT, P * PAGE, 40 * PAGE, 1]), 0);
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    w.vm.nucleus.out = bytes.clone();
    let address = P * PAGE + 100;
    assert_eq!(w.control(&[vm::WRITE_INTO, u64::from(a), address]), 100_000);
    w.audit();
    let child = w.fork(a).unwrap();
    w.vm.nucleus.out = vec![1; 10];
    assert_eq!(w.control(&[vm::WRITE_INTO, u64::from(a), address]), 10);
    w.vm.nucleus.out.clear();
    w.vm.nucleus.input = vec![0xff; 100_000];
    assert_eq!(
        w.control(&[vm::READ_FROM, u64::from(child), address]),
        100_000
    );
    assert!(w.vm.nucleus.input == bytes);
    assert_eq!(w.control(&[vm::READ_FROM, u64::from(a), address]), 100_000);
    assert_eq!(w.vm.nucleus.input[..11], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 10]);
    // Up to the end of what is mapped, and not beyond.
    let near_end = (P + 40) * PAGE - 10;
    assert_eq!(w.control(&[vm::READ_FROM, u64::from(a), near_end]), 10);
    assert_eq!(w.control(&[vm::READ_FROM, u64::from(a), 0x10]), -EFAULT);
    assert_eq!(
        w.control(&[vm::READ_FROM, u64::from(a), u64::MAX - 5]),
        -EFAULT
    );
    w.audit();
}

#[test]
fn parts_of_callers_are_made_present() {
    let mut w = World::new(1024);
    let a = w.create();
    w.map(a, P, 8);
    w.vm.nucleus.input = vec![0; 56];
    w.vm.nucleus.copy_faults = 1;
    w.vm.nucleus.part_addresses = (0, P * PAGE + 100);
    assert_eq!(w.call(a, &[vm::MAPS, 0, 0]), 1);
    assert_eq!(w.vm.spaces.get(1).unwrap().pages.resident(), 1);
    let start = u64::from_le_bytes(w.vm.nucleus.input[..8].try_into().unwrap());
    assert_eq!(start, P * PAGE);
    // Memory that is not there stays an error.
    w.vm.nucleus.copy_faults = 1;
    w.vm.nucleus.part_addresses = (0, 0x900 * PAGE);
    assert_eq!(w.call(a, &[vm::MAPS, 0, 0]), -EFAULT);
    w.audit();
}

/// The words of [`vm::Usage`].
fn usage(w: &mut World, of: Id, first: u64, end: u64) -> [u64; 10] {
    w.vm.nucleus.input = vec![9; vm::Usage::BYTES];
    assert_eq!(w.call(of, &[vm::USAGE, 0, first * PAGE, end * PAGE]), 0);
    let bytes = w.vm.nucleus.input.as_chunks::<8>().0;
    core::array::from_fn(|at| u64::from_le_bytes(bytes[at]))
}

#[test]
fn usage_tells_who_shows_the_pages_of_a_range() {
    let mut w = World::new(40_000);
    let a = w.create();
    w.map(a, P, 100);
    for page in [P, P + 63, P + 64, P + 99] {
        w.write(a, page, 1).unwrap();
    }
    let whole = 4 * 4096;
    assert_eq!(
        usage(&mut w, a, P, P + 100),
        [0, 0, 4, 0, 0, 4, whole, whole, whole, 0]
    );
    // Three are shared with the child, which has written one.
    let b = w.fork(a).unwrap();
    w.write(b, P, 2).unwrap();
    let share = 2 * 4096 / 2 + 2 * 4096;
    let told = usage(&mut w, b, P, P + 65);
    assert_eq!(told[1] + told[2], 1);
    assert_eq!(told[3] + told[4], 2);
    assert_eq!(told[6], 4096 + 4096);
    let told = usage(&mut w, b, 0, u64::MAX / PAGE);
    assert_eq!((told[2], told[4], told[5]), (1, 3, 4));
    assert_eq!(told[6], share - 4096 / 2);
    // Much memory is told of in parts.
    w.map(a, P + 0x10_0000, 20_000);
    for chunk in 0..300 {
        w.write(a, P + 0x10_0000 + 64 * chunk, 1).unwrap();
    }
    let told = usage(&mut w, a, P + 0x10_0000, P + 0x10_0000 + 20_000);
    assert_eq!((told[0] / PAGE - P - 0x10_0000) / 64, 256);
    assert_eq!(told[2], 256);
    let told = usage(&mut w, a, told[0] / PAGE, P + 0x10_0000 + 20_000);
    assert_eq!((told[0], told[2]), (0, 44));
    assert_eq!(w.call(a, &[vm::USAGE, 4711, 0, PAGE]), -EPERM);
}

#[test]
fn residency_and_statistics_are_told() {
    let mut w = World::new(1024);
    let a = w.create();
    w.map(a, P, 100);
    for page in [P, P + 63, P + 64, P + 99] {
        w.write(a, page, 1).unwrap();
    }
    let b = w.fork(a).unwrap();
    w.write(b, P, 2).unwrap();
    w.vm.nucleus.input = vec![9; 100];
    assert_eq!(w.call(a, &[vm::RESIDENT, P * PAGE, 100 * PAGE]), 0);
    let there: Vec<_> = (0..100).filter(|&i| w.vm.nucleus.input[i] == 1).collect();
    assert_eq!(there, [0, 63, 64, 99]);
    let stat = w.call_badge(b, 0, &[vm::SPACE_STAT, 0, 0]).words;
    assert_eq!(stat[..4], [0, 4, 100, 3]);
    // What the personality reserves for itself is not the program's.
    let rights = vm::prot::READ | vm::prot::WRITE;
    let words = [vm::MAP, 0, 50 * PAGE, rights, vm::flags::PERSONALITY];
    assert!(w.call(b, &words) >= cairn_abi::layout::PERSONALITY as i64);
    // Nor is what was only reserved, but for what is used of it.
    let words = [vm::MAP, 0, 500 * PAGE, rights, vm::flags::NO_RESERVE];
    let reserve = w.call(b, &words) as u64 / PAGE;
    w.write(b, reserve + 7, 1).unwrap();
    let stat = w.call_badge(b, 0, &[vm::SPACE_STAT, 0, 0]).words;
    assert_eq!(stat[2], 101);
    let stat = w.call_badge(b, 0, &[vm::MEMORY_STAT]).words;
    assert_eq!(stat[1], 1024 + u64::from(ARCHIVE_FRAMES));
    assert_eq!(stat[2], w.vm.frames.free() as u64);
    // Six pages and the common page of zeroes.
    assert_eq!(stat[5], 7);
}

#[test]
fn remap_moves_contents_and_keeps_sharing() {
    let mut w = World::new(2048);
    let a = w.create();
    w.map(a, P, 200);
    for page in 0..200 {
        w.write(a, P + page, page as u8).unwrap();
    }
    let b = w.fork(a).unwrap();
    w.write(a, P + 3, 100).unwrap();
    w.map(a, P + 200, 1);
    w.call(a, &[vm::PROTECT, (P + 200) * PAGE, PAGE, 1]);
    let words = [vm::REMAP, P * PAGE, 200 * PAGE, 300 * PAGE, 1, 0];
    let moved = w.call(a, &words) as u64 / PAGE;
    w.audit();
    assert_ne!(moved, P);
    assert_eq!(w.read(a, P), Err(0));
    for page in 0..200 {
        let expected = if page == 3 { 100 } else { page as u8 };
        assert_eq!(w.read(a, moved + page), Ok(expected));
        w.write(a, moved + page, 1).unwrap();
        assert_eq!(w.read(b, P + page), Ok(page as u8));
    }
    assert_eq!(w.read(a, moved + 299), Ok(0));
    // Smaller, to a fixed place.
    let words = [
        vm::REMAP,
        moved * PAGE,
        300 * PAGE,
        2 * PAGE,
        3,
        0x200 * PAGE,
    ];
    assert_eq!(w.call(a, &words), 0x200 * PAGE as i64);
    assert_eq!(w.read(a, 0x201), Ok(1));
    assert_eq!(w.read(a, 0x202), Err(0));
    assert_eq!(w.read(a, moved + 4), Err(0));
    w.audit();
}

#[test]
fn what_is_shared_is_mapped_a_second_time() {
    let mut w = World::new(2048);
    let a = w.create();
    let shared = vm::flags::SHARED;
    let first = w.call(a, &[vm::MAP, 0, 4 * PAGE, RW, shared]) as u64 / PAGE;
    w.write(a, first + 1, 7).unwrap();
    let again = |w: &mut World, at: u64, pages: u64, how: u64, to: u64| {
        w.call(a, &[vm::REMAP, at * PAGE, 0, pages * PAGE, how, to * PAGE])
    };
    let second = again(&mut w, first + 1, 2, 1, 0) as u64 / PAGE;
    w.audit();
    assert_ne!(second, first + 1);
    assert_eq!(w.read(a, second), Ok(7));
    w.write(a, second + 1, 8).unwrap();
    assert_eq!(w.read(a, first + 2), Ok(8));
    assert_eq!(w.call(a, &[vm::UNMAP, first * PAGE, 4 * PAGE]), 0);
    assert_eq!(w.read(a, second), Ok(7));
    // At a place, over what was there.
    assert_eq!(again(&mut w, second, 1, 3, 0x200), 0x200 * PAGE as i64);
    assert_eq!(w.read(a, 0x200), Ok(7));
    assert_eq!(
        again(&mut w, second, 3, 3, second - 1),
        -EINVAL,
        "over itself"
    );
    assert_eq!(again(&mut w, second, 1, 0, 0), -ENOMEM);
    assert_eq!(again(&mut w, second + 50, 1, 1, 0), -EFAULT);
    assert_eq!(again(&mut w, second, 1 << 40, 1, 0), -ENOMEM);
    w.map(a, P, 2);
    assert_eq!(again(&mut w, P, 1, 1, 0), -EINVAL, "private");
    w.audit();
}

#[test]
fn limits_hold() {
    let mut w = World::new(512);
    let a = w.create();
    assert_eq!(w.control(&[vm::LIMIT, u64::from(a), 10]), 0);
    w.map(a, P, 8);
    assert_eq!(w.call(a, &[vm::MAP, 0, 3 * PAGE, RW, 0]), -ENOMEM);
    w.map(a, P + 2, 8);
    let words = [vm::REMAP, P * PAGE, 10 * PAGE, 11 * PAGE, 1, 0];
    assert_eq!(w.call(a, &words), -ENOMEM);
    let b = w.fork(a).unwrap();
    assert_eq!(w.call(b, &[vm::MAP, 0, PAGE, RW, 0]), -ENOMEM);
    w.audit();
}

#[test]
fn exhausted_memory_waits_for_a_victim() {
    let mut w = World::new(800);
    let a = w.create();
    let b = w.create();
    w.map(a, P, 790);
    w.map(b, P, 10);
    w.write(b, P, 1).unwrap();
    let watch = Request {
        words: [vm::WATCH_EXHAUSTED, 0, 0, 0, 0, 0, 0, 60],
        badge: BADGE_CONTROL,
        sender: INIT,
        portals: 1,
        ..Request::default()
    };
    assert_eq!(w.request(watch).1.unwrap().words[0], 0);
    assert!(!w.vm.nucleus.closed.contains(&60));
    let mut page = P;
    while w.write(a, page, 3).is_ok() {
        page += 1;
    }
    assert!(page > P + 500);
    assert_eq!(w.vm.nucleus.notified, 1);
    assert_eq!(w.touch(b, P + 1, true), Err(99), "waits");
    assert_eq!(w.vm.nucleus.notified, 1);
    assert_eq!(w.fork(b), Err(-ENOMEM));
    w.audit();
    // Native components still get memory.
    let native = w.made(&[vm::CREATE, 0, 0]).unwrap();
    w.map(native, P, 2);
    w.write(native, P, 1).unwrap();
    let victim = w.call_badge(INIT, BADGE_CONTROL, &[vm::EXHAUSTED]).words[1];
    assert_eq!(victim, u64::from(a));
    w.vm.nucleus.replies.clear();
    w.destroy(a);
    // The fault in a's space is refused, since a server may have made it while it copied; b's is resolved.
    assert_eq!(w.vm.nucleus.replies.len(), 2);
    assert_eq!(w.vm.nucleus.replies[0].1.words[0], fault::REFUSED);
    assert_eq!(w.vm.nucleus.replies[1].1.words[0], fault::RESOLVED);
    assert_eq!(w.read(b, P + 1), Ok(0));
    w.audit();
}

#[test]
fn who_ends_processes_never_waits_for_memory_itself() {
    let mut w = World::new(800);
    let (a, b) = (w.create(), w.create());
    let manager = w.made(&[vm::CREATE, 0, 0]).unwrap();
    w.map(a, P, 790);
    w.map(b, P, 400);
    let watch = Request {
        words: [vm::WATCH_EXHAUSTED, 0, 0, 0, 0, 0, 0, 60],
        badge: BADGE_CONTROL,
        sender: manager,
        portals: 1,
        ..Request::default()
    };
    assert_eq!(w.request(watch).1.unwrap().words[0], 0);
    let exhausted = (P..P + 790).find(|&page| w.write(a, page, 3).is_err());
    assert!(exhausted.is_some());
    // A server that copies to b waits until somebody is ended; the manager does not, as long as there is anything at all.
    let copy = |w: &mut World, page: u64, waits: Id| {
        let badge =
            w.vm.spaces
                .get(w.vm.domain(b).unwrap().space)
                .unwrap()
                .handle;
        let request = Request {
            kind: received::kind::FAULT,
            words: [
                page * PAGE,
                fault::WRITE | fault::COPY,
                0,
                0,
                u64::from(waits),
                0,
                0,
                0,
            ],
            badge,
            sender: b,
            token: page,
            ..Request::default()
        };
        w.request(request).1.map(|answer| answer.words[0])
    };
    assert_eq!(copy(&mut w, P, manager + 1), None);
    assert_eq!(copy(&mut w, P + 1, manager), Some(fault::RESOLVED));
    let end = (P + 2..P + 400).find_map(|page| match copy(&mut w, page, manager) {
        Some(fault::RESOLVED) => None,
        other => Some(other),
    });
    assert_eq!(end, Some(Some(fault::REFUSED)));
    assert!(w.vm.frames.free() > 0);
    w.destroy(a);
    assert_eq!(copy(&mut w, P + 399, manager), Some(fault::RESOLVED));
    w.audit();
}

#[test]
fn page_tables_of_a_program_leave_something_for_others() {
    let mut w = World::new(1200);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let hostile = w.create();
    let quiet = w.create();
    w.map(server, P, 1);
    let badge = w.object(server, &[P], false).unwrap();
    // One page of an object in every 2 MiB: no frame for data, but one for each page table.
    let mut places = 0;
    let end = loop {
        let at = (P + 512 * places) * PAGE;
        let words = [vm::OBJECT_MAP, at, PAGE, 1, flags::FIXED | flags::SHARED, 0];
        let mapped = w.call_badge(hostile, badge, &words).words[0] as i64;
        if mapped < 0 {
            break mapped;
        }
        if w.read(hostile, P + 512 * places).is_err() {
            break 0;
        }
        places += 1;
    };
    assert!(end == 0 || end == -ENOMEM);
    assert!(places > 900);
    assert!(w.vm.frames.free() >= w.vm.frames.floor());
    // Whom it would hit is who did it.
    assert_eq!(w.vm.largest(), Some(hostile));
    let native = w.call(server, &[vm::MAP, 0, PAGE, RW, 0]);
    assert!(native > 0);
    w.write(server, native as u64 / PAGE, 1).unwrap();
    assert_eq!(w.call(quiet, &[vm::MAP, 0, PAGE, RW, 0]), -ENOMEM);
    w.destroy(hostile);
    assert!(w.call(quiet, &[vm::MAP, 0, PAGE, RW, 0]) > 0);
    w.audit();
}

#[test]
fn without_a_watcher_exhaustion_is_refused() {
    let mut w = World::new(300);
    let a = w.create();
    w.map(a, P, 290);
    let refusal = (P..P + 290).find_map(|page| w.write(a, page, 3).err());
    assert_eq!(refusal, Some(2));
    w.destroy(a);
    w.audit();
}

#[test]
fn answers_that_cannot_be_delivered_are_undone() {
    let mut w = World::new(1024);
    let a = w.create();
    w.map(a, P, 4);
    w.write(a, P, 1).unwrap();
    let free = w.vm.frames.free();
    w.vm.nucleus.refuse_replies = true;
    assert_eq!(w.fork(a), Err(-ENFILE));
    assert_eq!(w.made(&[vm::CREATE, 0, 1]), Err(-ENFILE));
    assert_eq!(w.object(a, &[P], false), Err(-ENFILE));
    assert_eq!(w.vm.frames.free(), free);
    w.audit();
}

#[test]
fn a_domain_that_still_lives_is_ended_first() {
    let mut w = World::new(1024);
    let a = w.create();
    let b = w.create();
    w.map(a, P, 4);
    w.write(a, P, 1).unwrap();
    // Dead, but not taken apart when we hear of it: then that is done here.
    assert_eq!(w.control(&[vm::DESTROY, u64::from(a)]), 0);
    assert_eq!(w.vm.nucleus.spaces.len(), 2);
    w.destroy(b);
    assert!(w.vm.leaving.is_empty());
    assert_eq!(w.vm.nucleus.spaces.len(), 1);
    w.audit();
}

/// Each of them needs a page table, for which the nucleus asks when it comes to it.
#[test]
fn a_fork_of_pages_that_lie_far_apart_shares_none_of_them_many_times() {
    let mut w = World::new(2000);
    let parent = w.create();
    let (pages, apart) = (100, 512);
    let flags = flags::FIXED | flags::NO_RESERVE;
    let words = [vm::MAP, P * PAGE, pages * apart * PAGE, 3, flags];
    assert_eq!(w.call(parent, &words), (P * PAGE) as i64);
    for page in 0..pages {
        w.write(parent, P + page * apart, page as u8).unwrap();
    }
    w.vm.nucleus.count.clear();
    let child = w.fork(parent).unwrap();
    let shared = w.vm.nucleus.count["shared row"];
    assert!(shared <= 3 * pages as u32, "{shared}");
    for page in 0..pages {
        assert_eq!(w.read(child, P + page * apart), Ok(page as u8));
    }
    w.audit();
}

#[test]
fn a_program_populates_by_many_short_requests_and_a_component_by_one() {
    let mut w = World::new(6000);
    let resident = |w: &World, id: Id| {
        w.vm.spaces
            .get(w.vm.domain(id).unwrap().space)
            .unwrap()
            .pages
            .resident()
    };
    let step = vm::POPULATED / PAGE;
    let pages = 2 * step + 10;
    for (made, whole) in [([vm::CREATE, 0, 1], false), ([vm::CREATE, 0, 0], true)] {
        let id = w.made(&made).unwrap();
        w.map(id, P, pages);
        for (left, got) in [(pages, step), (pages - step, 2 * step), (10, pages)] {
            let from = P + pages - left;
            let words = [vm::ADVISE, from * PAGE, left * PAGE, advice::POPULATE_WRITE];
            let answer = w.call(id, &words);
            match whole {
                true => assert_eq!((answer, resident(&w, id)), (0, pages)),
                false => {
                    assert_eq!(answer, ((left.saturating_sub(step)) * PAGE) as i64);
                    assert_eq!(resident(&w, id), got);
                }
            }
        }
        assert_eq!(w.call(id, &[vm::UNMAP, P * PAGE, pages * PAGE]), 0);
        let flags = flags::FIXED | flags::POPULATE;
        let words = [vm::MAP, P * PAGE, pages * PAGE, 3, flags];
        assert_eq!(w.call(id, &words), (P * PAGE) as i64);
        let expected = if whole { pages } else { step };
        assert_eq!(resident(&w, id), expected);
        assert_eq!(w.call(id, &[vm::UNMAP, P * PAGE, pages * PAGE]), 0);
    }
    w.audit();
}

#[test]
fn population_takes_few_operations_and_leaves_the_reserve() {
    let mut w = World::new(800);
    let native = w.made(&[vm::CREATE, 0, 0]).unwrap();
    w.map(native, P, 780);
    w.write(native, P + 20, 7).unwrap();
    w.vm.nucleus.count.clear();
    let populate = |w: &mut World, first: u64, pages: u64| {
        let words = [
            vm::ADVISE,
            first * PAGE,
            pages * PAGE,
            advice::POPULATE_WRITE,
        ];
        w.call(native, &words)
    };
    assert_eq!(populate(&mut w, P, 64), 0);
    assert!(w.vm.nucleus.count["fill"] <= 10);
    assert_eq!(w.read(native, P + 20), Ok(7));
    assert_eq!(w.read(native, P + 63), Ok(0));
    assert_eq!(w.read(native, P + 19), Ok(0));
    w.audit();
    assert_eq!(populate(&mut w, P, 780), -ENOMEM);
    assert!(w.vm.frames.free() > w.vm.reserve - 8);
    w.audit();
}

#[test]
fn objects_are_paid_for_by_the_component_that_asks() {
    let mut w = World::new(4096);
    let native = w.made(&[vm::CREATE, 64, 0]).unwrap();
    let other = w.made(&[vm::CREATE, 64, 0]).unwrap();
    // It takes all that it gets, so each time more must be given.
    let mut got = 0;
    loop {
        let (used, capacity) = &mut w.vm.nucleus.pools[4];
        *used = *capacity;
        match w.call(native, &[vm::MORE_OBJECTS, 4]) {
            0 => got += 1,
            error => break assert_eq!(error, -ENOMEM),
        }
        assert!(got < 1000);
    }
    assert!(got > 0);
    assert_eq!(w.call(native, &[vm::MAP, 0, 2 * PAGE, 3, 0]), -ENOMEM);
    assert_eq!(w.call(other, &[vm::MORE_OBJECTS, 4]), 0);
    assert_eq!(w.call(native, &[vm::MORE_OBJECTS, 4]), -ENOMEM);
    w.destroy(native);
    w.destroy(other);
    w.audit();
}

#[test]
fn programs_get_semaphores_by_the_number_of_threads() {
    let mut w = World::new(4096);
    let a = w.create();
    let more = [vm::MORE_OBJECTS, pool::SEMAPHORE];
    let mut got = 0;
    loop {
        let (used, capacity) = &mut w.vm.nucleus.pools[pool::SEMAPHORE as usize];
        *used = *capacity;
        match w.call(a, &more) {
            0 => got += 1,
            error => break assert_eq!(error, -ENOMEM),
        }
        assert!(got < 1000);
    }
    let [(_, threads), (_, semaphores)] =
        [pool::THREAD, pool::SEMAPHORE].map(|kind| w.vm.nucleus.pools[kind as usize]);
    assert!(
        got > 0 && semaphores > 2 * threads,
        "{got} {semaphores} {threads}"
    );
    // More threads, more semaphores.
    w.vm.nucleus.pools[pool::THREAD as usize].1 += 10_000;
    assert_eq!(w.call(a, &more), 0);
    w.destroy(a);
    w.audit();
}

#[test]
fn portal_tables_grow_for_everybody() {
    let mut w = World::new(1024);
    let a = w.create();
    for _ in 0..20 {
        assert_eq!(w.call(a, &[vm::GROW_TABLE, 0]), 0);
    }
    assert_eq!(w.call(a, &[vm::GROW_TABLE, u64::from(a)]), -EPERM);
    assert_eq!(w.control(&[vm::MORE_OBJECTS, 4]), 0);
    assert_eq!(w.control(&[vm::MORE_OBJECTS, 9]), -EINVAL);
    assert_eq!(w.call(a, &[vm::MORE_OBJECTS, 4]), -EPERM);
    let native = w.made(&[vm::CREATE, 0, 0]).unwrap();
    assert_eq!(w.call(native, &[vm::MORE_OBJECTS, 4]), 0);
    w.destroy(native);
    w.destroy(a);
    w.audit();
}

#[test]
fn portals_that_nobody_asked_for_are_closed() {
    let mut w = World::new(512);
    let a = w.create();
    w.request(Request {
        words: [vm::MEMORY_STAT, 0, 0, 0, 0, 0, 31, 32],
        sender: a,
        portals: 2,
        ..Request::default()
    });
    assert_eq!(w.vm.nucleus.closed, [31, 32]);
}

#[test]
fn five_hundred_live_forks_of_forks() {
    let mut w = World::new(16 * 1024);
    let first = w.create();
    w.map(first, P, 20);
    for page in P..P + 20 {
        w.write(first, page, 1).unwrap();
    }
    let mut all = vec![first];
    for i in 0..500 {
        let child = w.fork(all[i / 2]).unwrap();
        w.write(child, P + i as u64 % 20, i as u8).unwrap();
        all.push(child);
    }
    w.audit();
    for id in all {
        w.destroy(id);
    }
    w.audit();
    assert_eq!(w.vm.nucleus.spaces.len(), 1);
}

#[test]
fn requests_at_random_never_hurt() {
    let mut w = World::new(600);
    let mut state = 12345u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state >> 33
    };
    let mut live = vec![w.create()];
    for round in 0..30_000 {
        let id = live[random() as usize % live.len()];
        let mut words = [0; 8];
        words[0] = random() % 13;
        for word in &mut words[1..] {
            *word = match random() % 6 {
                0 => random() % 8,
                1 => (P + random() % 32) * PAGE,
                2 => (random() % 16) * PAGE,
                3 => u64::MAX - random() % 5000,
                4 => random() << (random() % 40),
                _ => 0,
            };
        }
        // Some that would have to walk everything a test machine cannot hold.
        words[2] = match words[0] {
            vm::MAP | vm::OBJECT_MAP => words[2],
            _ => words[2] % (64 * PAGE),
        };
        if words[2] > 64 * PAGE {
            // As much as there is would be made resident.
            words[4] &= !vm::flags::LOCKED;
        }
        w.vm.nucleus.out = vec![random() as u8; random() as usize % 64];
        w.vm.nucleus.input = vec![0; random() as usize % 200];
        w.request(Request {
            words,
            sender: id,
            badge: [0, 0, 0, 16, 17, 1 << 40][random() as usize % 6],
            out_len: w.vm.nucleus.out.len(),
            in_len: w.vm.nucleus.input.len(),
            ..Request::default()
        });
        w.vm.nucleus.replies.clear();
        let _ = w.touch(id, P + random() % 32, random() % 2 == 0);
        if round % 500 == 0 {
            w.vm.nucleus.out.clear();
            if live.len() > 3 {
                w.destroy(live.remove(0));
            }
            live.push(w.create());
        }
    }
    for id in live {
        w.destroy(id);
    }
}

/// What the nucleus's pools got for many domains comes back after their ends, in time, but for what lies before an object that stays.
#[test]
fn pools_give_back_what_many_domains_needed() {
    let mut w = World::new(40_000);
    let first = w.create();
    let rest = |w: &mut World| {
        while let Some(at) = w.vm.pools.rest_at {
            // (No alarm: that would be more important than programs, and so would be what `vm` does just then.)
            assert_eq!(w.vm.deadline(), None);
            w.vm.nucleus.time = at;
            let before = w.vm.pools.frames;
            let words = [vm::ADVISE, P * PAGE, PAGE, advice::DONT_NEED];
            w.request(Request {
                words: Answer::new(&words).words,
                sender: first,
                ..Request::default()
            });
            assert_eq!(w.vm.pools.frames, before);
            w.do_all_pieces();
        }
    };
    let many = |w: &mut World| -> Vec<_> { (0..1000).map(|_| w.fork(first).unwrap()).collect() };
    let domains = many(&mut w);
    let most = w.vm.pools.frames;
    assert!(most > 100, "{most}");
    w.vm.nucleus.pinned = true;
    for id in domains {
        w.destroy(id);
    }
    assert!(w.vm.pools.rest_at.is_some());
    rest(&mut w);
    assert_eq!(w.vm.pools.frames, most);
    // It stays no longer, and somebody else ends.
    w.vm.nucleus.pinned = false;
    let last = w.fork(first).unwrap();
    w.destroy(last);
    rest(&mut w);
    w.audit();
    assert!(w.vm.pools.frames < most / 2, "{}", w.vm.pools.frames);
    // They grow again.
    for id in many(&mut w) {
        w.destroy(id);
    }
    w.audit();
}
