//! A program's parts, mapped by one request: the same as one after the other, and nothing at all if one of them is wrong. And the zeroes behind a library's data.

use super::*;
use cairn_idl::errno::*;
use cairn_idl::vm::flags;

const P: u64 = 0x400;
const AT: u64 = 0x1000;
const READ: u64 = prot::READ;
const CODE: u64 = prot::READ | prot::EXECUTE;

fn part(page: u64, pages: u64, shown: u64, prot: u64) -> u64 {
    page | pages << 20 | shown << 40 | prot << 61
}

/// A world with a file of 100 pages: its server, and its badge.
fn file() -> (World, Id, u64) {
    let mut w = World::new(4096);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    w.map(server, P, 100);
    for page in 0..100 {
        w.write(server, P + page, page as u8).unwrap();
    }
    let pages: Vec<u64> = (P..P + 100).collect();
    let badge = w.object(server, &pages, false).unwrap();
    (w, server, badge)
}

fn map(w: &mut World, id: Id, badge: u64, start: u64, pages: u64, parts: &[u64]) -> i64 {
    let mut words = vec![vm::OBJECT_MAP_PARTS, start * PAGE, pages];
    words.extend(parts);
    w.call_badge(id, badge, &words).words[0] as i64
}

/// As a linker makes them: headers, code, constants, and data whose first page is shown twice.
fn program() -> [u64; 4] {
    [
        part(0, 2, 0, READ),
        part(2, 60, 2, CODE),
        part(62, 20, 62, READ),
        part(82, 5, 81, RW),
    ]
}

#[test]
fn the_next_program_is_shown_all_its_parts_at_once() {
    let (mut w, _, badge) = file();
    let first = w.create();
    assert_eq!(
        map(&mut w, first, badge, AT, 100, &program()),
        (AT * PAGE) as i64
    );
    for (page, byte) in [(0, 0), (30, 30), (81, 81), (82, 81), (86, 85)] {
        assert_eq!(w.read(first, AT + page), Ok(byte));
    }
    w.write(first, AT + 82, 200).unwrap();
    assert!(w.write(first, AT + 81, 1).is_err() && w.read(first, AT + 87).is_err());
    // Anywhere: the answer says where.
    let second = w.create();
    w.vm.nucleus.count.clear();
    let start = map(&mut w, second, badge, 0, 100, &program()) as u64 / PAGE;
    // (What was mapped along with these was not asked for.)
    assert_eq!(w.vm.nucleus.count["fill"], 1);
    w.vm.nucleus.count.clear();
    for (page, byte) in [(0, 0), (30, 30), (81, 81), (82, 81)] {
        assert_eq!(w.read(second, start + page), Ok(byte));
    }
    w.write(second, start + 82, 99).unwrap();
    assert!(w.vm.nucleus.count.is_empty());
    assert_eq!(w.read(first, AT + 82), Ok(200));
    w.audit();
    // Once more over it.
    assert!(map(&mut w, second, badge, start, 100, &program()) > 0);
    assert_eq!(w.read(second, start + 82), Ok(81));
    w.destroy(first);
    w.destroy(second);
    w.audit();
}

#[test]
fn nothing_is_mapped_if_a_part_is_wrong() {
    let (mut w, _, badge) = file();
    let client = w.create();
    let refused = vm::exec_gain::REFUSED;
    assert_eq!(w.call(client, &[vm::EXEC_GAIN, refused]), refused as i64);
    let good = part(0, 2, 0, READ);
    let wrong = [
        (AT, 10, vec![], EINVAL),
        (AT, 10, vec![good, part(1, 2, 0, READ)], EINVAL),
        (AT, 10, vec![part(4, 2, 0, READ), good], EINVAL),
        (AT, 10, vec![good, part(4, 0, 0, READ)], EINVAL),
        (AT, 10, vec![good, part(4, 7, 0, READ)], EINVAL),
        (AT, 10, vec![good, part(4, 1, 0, 7)], EACCES),
        (0, 1 << 60, vec![good], ENOMEM),
        (AT, 1 << 60, vec![good], ENOMEM),
        (1, 10, vec![good], EPERM),
        ((1 << 35) - 9, 10, vec![good], ENOMEM),
    ];
    for (i, (start, pages, parts, errno)) in wrong.into_iter().enumerate() {
        let got = map(&mut w, client, badge, start, pages, &parts);
        assert_eq!(got, -errno, "{i}");
        assert!(w.read(client, AT).is_err(), "{i}");
    }
    let words = [vm::OBJECT_MAP_PARTS, AT * PAGE + 1, 10, good];
    assert_eq!(w.call_badge(client, badge, &words).words[0] as i64, -EINVAL);
    let words = [vm::OBJECT_MAP_PARTS, AT * PAGE, 10, good];
    assert_eq!(
        w.call_badge(client, badge + 1000, &words).words[0] as i64,
        -EBADF
    );
    // Behind the object's end there is nothing.
    assert!(map(&mut w, client, badge, AT, 10, &[part(0, 10, 95, READ)]) > 0);
    assert_eq!(w.read(client, AT + 4), Ok(99));
    assert!(w.read(client, AT + 5).is_err());
    w.audit();
}

/// What a loader does with a library's data: file, then zeroes right behind it.
fn data_and_zeroes(w: &mut World, id: Id, object: u64, flags: u64) {
    let data = [vm::OBJECT_MAP, AT * PAGE, 2 * PAGE, RW, flags::FIXED, 0];
    assert_eq!(w.call_badge(id, object, &data).words[0], AT * PAGE);
    let zeroes = [
        vm::MAP,
        (AT + 2) * PAGE,
        100 * PAGE,
        RW,
        flags::FIXED | flags,
    ];
    assert_eq!(w.call(id, &zeroes) as u64, (AT + 2) * PAGE);
}

#[test]
fn zeroes_that_a_program_touched_are_there_for_the_next() {
    let mut w = World::new(4096);
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    w.map(server, P, 2);
    for page in P..P + 2 {
        w.write(server, page, 1).unwrap();
    }
    let object = w.object(server, &[P, P + 1], false).unwrap();
    let zeroes = |w: &World, id: Id| -> Vec<u64> {
        let slot = w.vm.nucleus.domain_of(id).space;
        let maps = &w.vm.nucleus.spaces[&slot].maps;
        let mut there: Vec<u64> = maps
            .keys()
            .filter(|&&p| (AT + 2..AT + 102).contains(&p))
            .map(|p| p - AT - 2)
            .collect();
        there.sort();
        there
    };
    let first = w.create();
    data_and_zeroes(&mut w, first, object, 0);
    assert_eq!(zeroes(&w, first), []);
    for (page, write) in [(1, true), (40, true), (7, false), (90, true)] {
        if write {
            w.write(first, AT + 2 + page, 5).unwrap();
        } else {
            assert_eq!(w.read(first, AT + 2 + page), Ok(0));
        }
    }
    // Also while the first program lives, and only memory like it.
    let second = w.create();
    data_and_zeroes(&mut w, second, object, 0);
    assert_eq!(zeroes(&w, second), [1, 7, 40]);
    for page in 0..100 {
        assert_eq!(w.read(second, AT + 2 + page), Ok(0));
    }
    let third = w.create();
    data_and_zeroes(&mut w, third, object, flags::NO_RESERVE);
    assert_eq!(zeroes(&w, third), []);
    w.write(third, AT + 2, 5).unwrap();
    // All was asked for meanwhile, and some is enough.
    let fourth = w.create();
    data_and_zeroes(&mut w, fourth, object, 0);
    assert_eq!(zeroes(&w, fourth), (0..16).collect::<Vec<u64>>());
    w.audit();
}

#[test]
fn what_a_loader_leaves_of_the_whole_library_is_shown_with_its_second_part() {
    let (mut w, _, badge) = file();
    // All of it to be read, then the code over the second part.
    let load = |w: &mut World, id: Id, badge: u64| {
        let library = flags::LIBRARY;
        let whole = [vm::OBJECT_MAP, AT * PAGE, 100 * PAGE, READ, library, 0];
        assert_eq!(w.call_badge(id, badge, &whole).words[0], AT * PAGE);
        assert_eq!(there(w, id), []);
        let (at, offset) = ((AT + 10) * PAGE, 10 * PAGE);
        let code = [
            vm::OBJECT_MAP,
            at,
            50 * PAGE,
            CODE,
            library | flags::FIXED,
            offset,
        ];
        assert_eq!(w.call_badge(id, badge, &code).words[0], at);
    };
    fn there(w: &World, id: Id) -> Vec<u64> {
        let slot = w.vm.nucleus.domain_of(id).space;
        let maps = &w.vm.nucleus.spaces[&slot].maps;
        maps.keys()
            .filter(|p| (AT..AT + 100).contains(p))
            .map(|p| p - AT)
            .collect()
    }
    let first = w.create();
    load(&mut w, first, badge);
    assert_eq!(there(&w, first), []);
    for page in [4, 30, 80] {
        assert_eq!(w.read(first, AT + page), Ok(page as u8));
    }
    let second = w.create();
    load(&mut w, second, badge);
    assert_eq!(there(&w, second), [4, 30]);
    assert_eq!(w.read(second, AT + 5), Ok(5));
    // What is shown already is not shown once more with the next part.
    let (at, offset) = ((AT + 60) * PAGE, 60 * PAGE);
    let kind = flags::LIBRARY | flags::FIXED;
    let data = [vm::OBJECT_MAP, at, 40 * PAGE, READ, kind, offset];
    assert_eq!(w.call_badge(second, badge, &data).words[0], at);
    assert!(there(&w, second).contains(&80));
    w.audit();
}
