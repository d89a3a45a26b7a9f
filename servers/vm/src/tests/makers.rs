//! Which files mappings show is asked of who made their objects.

use super::*;
use cairn_idl::errno::*;
use cairn_idl::vm::{flags, MapEntry, BADGE_INSPECT, OF_BREAK};

const P: u64 = 0x1000;
const PAGES: u64 = 8;

fn names(w: &mut World, sender: Id, slot: u32, portals: usize) -> i64 {
    let answer = w.request(Request {
        words: [vm::NAMES, 0, 0, 0, 0, 0, 0, slot.into()],
        sender,
        portals,
        ..Request::default()
    });
    answer.1.expect("an answer").words[0] as i64
}

fn maps(w: &mut World, id: Id) -> Vec<MapEntry> {
    w.vm.nucleus.input = vec![0; 40 * MapEntry::BYTES];
    let told = w.call_badge(INIT, BADGE_INSPECT, &[vm::MAPS, id.into(), 0]);
    let bytes = &w.vm.nucleus.input[..told.words[0] as usize * MapEntry::BYTES];
    let (entries, _) = bytes.as_chunks();
    entries.iter().map(MapEntry::from_bytes).collect()
}

/// The portal that is told of a maker.
fn namer(w: &mut World, maker: u64) -> Result<Option<Pass>, i64> {
    let answer = w.call_badge(INIT, BADGE_INSPECT, &[vm::NAMER, maker]);
    match answer.words[0] as i64 {
        0 => Ok(answer.pass),
        errno => Err(errno),
    }
}

#[test]
fn who_made_an_object_says_what_it_shows() {
    let mut w = World::new(4096);
    let maker = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let program = w.create();
    assert_eq!(names(&mut w, program, 70, 1), -EPERM, "no program does");
    assert_eq!(names(&mut w, maker, 70, 0), -EINVAL);
    assert_eq!(names(&mut w, maker, 70, 1), 0);
    w.map(maker, P, PAGES);
    w.vm.nucleus.out = (P * PAGE).to_le_bytes().to_vec();
    let made = w.call_badge(maker, 0, &[vm::OBJECT_CREATE, 1, 0, 0x55]);
    let Some(Pass::Mint(object)) = made.pass else {
        panic!("{made:?}");
    };
    w.vm.nucleus.out.clear();
    let read = cairn_idl::vm::prot::READ;
    for (at, flags) in [(0x2000, 0), (0x3000, flags::SHARED)] {
        let words = [
            vm::OBJECT_MAP,
            at * PAGE,
            PAGE,
            read,
            flags | flags::FIXED,
            0,
        ];
        assert_eq!(w.call_badge(program, object, &words).words[0], at * PAGE);
    }
    let shared = flags::SHARED | flags::FIXED;
    w.call(program, &[vm::MAP, 0x4000 * PAGE, PAGE, RW, shared]);
    w.call(program, &[vm::MAP, 0x5000 * PAGE, PAGE, RW, flags::FIXED]);
    let called = |map: &MapEntry| (map.maker, map.tag);
    let told: Vec<_> = maps(&mut w, program).iter().map(called).collect();
    let [(it, 0x55), again, (0, number), (0, 0)] = told[..] else {
        panic!("{told:x?}");
    };
    assert!(again == (it, 0x55) && it != 0 && number != 0, "{told:x?}");
    assert_eq!(namer(&mut w, it), Ok(Some(Pass::Copy(70))));
    for other in [0, it + 1, it - 1, u64::MAX] {
        assert_eq!(namer(&mut w, other), Err(-ENOENT), "{other:x}");
    }
    // Another portal of its own takes the place of the first; the object's portals are not what it goes by.
    assert_eq!(names(&mut w, maker, 71, 1), 0);
    assert!(w.vm.nucleus.closed.contains(&70));
    w.close_object(object);
    assert_eq!(called(&maps(&mut w, program)[0]), (it, 0x55));
    assert_eq!(namer(&mut w, it), Ok(Some(Pass::Copy(71))));
    w.destroy(maker);
    assert!(w.vm.nucleus.closed.contains(&71));
    assert_eq!(namer(&mut w, it), Err(-ENOENT));
    assert_eq!(called(&maps(&mut w, program)[0]), (it, 0x55));
    w.audit();
}

#[test]
fn of_so_many_makers_there_is_room() {
    let mut w = World::new(4096);
    for number in 0..65 {
        let maker = w.made(&[vm::CREATE, 0, 0]).unwrap();
        let told = names(&mut w, maker, 100 + number, 1);
        assert_eq!(told, if number < 64 { 0 } else { -ENOMEM });
        assert_eq!(
            names(&mut w, maker, 300 + number, 1),
            told,
            "the same again"
        );
    }
}

#[test]
fn stacks_and_breaks_are_shown_as_far_as_they_were_touched() {
    let mut w = World::new(4096);
    let a = w.create();
    let reserve = flags::FIXED | flags::NO_RESERVE | flags::BREAK;
    let stack = flags::FIXED | flags::STACK;
    w.call(a, &[vm::MAP, 0x1000 * PAGE, 1000 * PAGE, RW, reserve]);
    w.call(a, &[vm::MAP, 0x8000 * PAGE, 1000 * PAGE, RW, stack]);
    w.call(a, &[vm::MAP, 0x9000 * PAGE, PAGE, RW, flags::FIXED]);
    let ranges = |w: &mut World| -> Vec<_> {
        let maps = maps(w, a);
        let range = |map: &MapEntry| (map.start / PAGE, map.end / PAGE);
        maps.iter().map(range).collect()
    };
    // (A stack has its last two pages from the beginning.)
    let top = 0x8000 + 1000;
    assert_eq!(ranges(&mut w), [(top - 2, top), (0x9000, 0x9001)]);
    for page in [0x1003, 0x1101, 0x8000 + 200, 0x8000 + 999] {
        w.write(a, page, 1).unwrap();
    }
    let all = [
        (0x1000, 0x1102),
        (0x8000 + 200, 0x8000 + 1000),
        (0x9000, 0x9001),
    ];
    assert_eq!(ranges(&mut w), all);
    let kinds = maps(&mut w, a);
    assert_eq!((kinds[0].resident, kinds[1].resident), (2, 3));
    assert!(u64::from(kinds[0].flags) & OF_BREAK != 0);
    assert!(u64::from(kinds[1].flags) & flags::STACK != 0);
    // What is asked for from within or behind such a range goes on behind it.
    for (from, rest) in [
        (0x1101, 3),
        (0x1102, 2),
        (0x1200, 2),
        (0x8000, 2),
        (0x83e8, 1),
    ] {
        w.vm.nucleus.input = vec![0; 40 * MapEntry::BYTES];
        assert_eq!(w.call(a, &[vm::MAPS, 0, from * PAGE]), rest, "{from:x}");
    }
}
