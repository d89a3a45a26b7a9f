//! Writable code: programs may have it, until they or the manifest say otherwise; components never.

use super::*;
use cairn_idl::errno::*;
use cairn_idl::vm::{exec_gain, flags};

const CODE: u64 = prot::READ | prot::EXECUTE;
const ALL: u64 = RW | prot::EXECUTE;
const P: u64 = 0x400;
const REFUSED: u64 = exec_gain::REFUSED;
const NOT_INHERITED: u64 = exec_gain::NOT_INHERITED;

fn map(w: &mut World, id: Id, page: u64, prot: u64) -> i64 {
    let words = [vm::MAP, page * PAGE, 2 * PAGE, prot, flags::FIXED];
    w.call(id, &words).min(0)
}

fn protect(w: &mut World, id: Id, page: u64, prot: u64) -> i64 {
    w.call(id, &[vm::PROTECT, page * PAGE, PAGE, prot])
}

fn gain(w: &mut World, id: Id, wanted: u64) -> i64 {
    w.call(id, &[vm::EXEC_GAIN, wanted])
}

/// What the hardware allows.
fn rights(w: &mut World, id: Id, page: u64) -> u64 {
    let space = w.vm.nucleus.domain_of(id).space;
    w.vm.nucleus.spaces[&space].maps[&page].1
}

#[test]
fn a_program_writes_code_and_its_copies_write_their_own() {
    let mut w = World::new(2048);
    let id = w.create();
    assert_eq!(map(&mut w, id, P, ALL), 0);
    w.write(id, P, 1).unwrap();
    assert_eq!(
        rights(&mut w, id, P),
        access::READ | access::WRITE | access::EXECUTE
    );
    let child = w.fork(id).unwrap();
    // Both execute what is there, and write to a copy.
    for who in [id, child] {
        assert_eq!(rights(&mut w, who, P), access::READ | access::EXECUTE);
    }
    w.write(child, P, 2).unwrap();
    w.write(id, P, 3).unwrap();
    assert_eq!((w.read(id, P), w.read(child, P)), (Ok(3), Ok(2)));
    for who in [id, child] {
        assert_eq!(
            rights(&mut w, who, P),
            access::READ | access::WRITE | access::EXECUTE
        );
    }
    // To and fro, as compilers do.
    for (prot, bits) in [(CODE, 5), (RW, 3), (prot::READ, 1), (ALL, 7), (CODE, 5)] {
        assert_eq!(protect(&mut w, id, P, prot), 0);
        assert_eq!(rights(&mut w, id, P), bits);
        assert_eq!(w.write(id, P, 4).is_ok(), prot & prot::WRITE != 0);
    }
    w.audit();
}

#[test]
fn an_object_is_written_here_and_executed_there() {
    let mut w = World::new(2048);
    let id = w.create();
    let answer = w.call_badge(
        id,
        0,
        &[vm::OBJECT_CREATE, 2, vm::making::FRESH | vm::making::SHARED],
    );
    let Some(Pass::Mint(badge)) = answer.pass else {
        panic!("no object")
    };
    for (page, prot) in [(P, RW), (P + 16, CODE), (P + 32, ALL)] {
        let kind = flags::FIXED | flags::SHARED;
        let words = [vm::OBJECT_MAP, page * PAGE, PAGE, prot, kind, 0];
        assert_eq!(w.call_badge(id, badge, &words).words[0], page * PAGE);
    }
    w.write(id, P, 7).unwrap();
    assert_eq!((w.read(id, P + 16), w.read(id, P + 32)), (Ok(7), Ok(7)));
    w.write(id, P + 32, 8).unwrap();
    assert_eq!(w.read(id, P + 16), Ok(8));
    w.audit();
}

#[test]
fn a_component_executes_only_what_it_was_built_with() {
    let mut w = World::new(2048);
    let native = w.made(&[vm::CREATE, 0, 0]).unwrap();
    let into = |page: u64, prot| {
        let (at, len) = (page * PAGE, 2 * PAGE);
        [vm::MAP_INTO, u64::from(native), at, len, prot, flags::FIXED]
    };
    assert_eq!(w.control(&into(P, CODE)), (P * PAGE) as i64);
    assert_eq!(w.control(&into(P + 8, ALL)), -EACCES);
    assert_eq!(map(&mut w, native, P + 8, RW), 0);
    for prot in [CODE, ALL, prot::EXECUTE] {
        assert_eq!(map(&mut w, native, P + 16, prot), -EACCES);
        assert_eq!(protect(&mut w, native, P + 8, prot), -EACCES);
        // Nor what it was built with, once more.
        assert_eq!(protect(&mut w, native, P, prot), -EACCES);
    }
    w.write(native, P + 8, 1).unwrap();
    let badge = w.object(native, &[P + 8], true).unwrap();
    for kind in [flags::FIXED, flags::FIXED | flags::SHARED] {
        let words = [vm::OBJECT_MAP, (P + 16) * PAGE, PAGE, CODE, kind, 0];
        assert_eq!(w.call_badge(native, badge, &words).words[0] as i64, -EACCES);
    }
    let part = 1 << 20 | CODE << 61;
    let words = [vm::OBJECT_MAP_PARTS, (P + 16) * PAGE, 1, part];
    assert_eq!(w.call_badge(native, badge, &words).words[0] as i64, -EACCES);
    let words = [
        vm::OBJECT_MAP,
        (P + 16) * PAGE,
        PAGE,
        prot::READ,
        flags::FIXED,
        0,
    ];
    assert!(w.call_badge(native, badge, &words).words[0] as i64 > 0);
    let (at, like) = ((P + 24) * PAGE, (P + 16) * PAGE);
    let words = [vm::MAP_ALIKE, at, PAGE, CODE, flags::FIXED, 0, like];
    assert_eq!(w.call(native, &words), -EACCES);
    assert_eq!(gain(&mut w, native, REFUSED), -EPERM);
    assert_eq!(gain(&mut w, native, 0), 0);
    w.audit();
}

#[test]
fn what_a_program_gave_up_does_not_come_back() {
    let mut w = World::new(2048);
    let id = w.create();
    for (page, prot) in [(P, RW), (P + 8, CODE), (P + 16, ALL)] {
        assert_eq!(map(&mut w, id, page, prot), 0);
    }
    assert_eq!(gain(&mut w, id, NOT_INHERITED), -EINVAL);
    assert_eq!(gain(&mut w, id, 4 | REFUSED), -EINVAL);
    assert_eq!(gain(&mut w, id, REFUSED), REFUSED as i64);
    assert_eq!(gain(&mut w, id, REFUSED | NOT_INHERITED), -EPERM);
    let mut child = w.fork(id).unwrap();
    // Exec, alone and from a space that is shared (vfork).
    for round in 0..3 {
        assert_eq!(gain(&mut w, child, 0), REFUSED as i64, "{round}");
        let refused = [(P + 24, ALL, -EACCES), (P + 24, CODE, 0), (P + 26, RW, 0)];
        for (page, prot, result) in refused {
            assert_eq!(map(&mut w, child, page, prot), result);
        }
        assert_eq!(protect(&mut w, child, P + 26, CODE), -EACCES);
        assert_eq!(protect(&mut w, child, P + 24, ALL), -EACCES);
        // What can be executed stays so, and what lost it does not get it back.
        assert_eq!(protect(&mut w, child, P + 24, CODE), 0);
        assert_eq!(protect(&mut w, child, P + 24, RW), 0);
        assert_eq!(protect(&mut w, child, P + 24, CODE), -EACCES);
        if round == 1 {
            child = w.made(&[vm::FORK, u64::from(child), 1]).unwrap();
        }
        let reset = [vm::RESET, u64::from(child), PAGE, 2 * PAGE, 0, 0];
        assert_eq!(w.control(&reset), 0);
    }
    // What was there before stays as it was mapped.
    assert_eq!(protect(&mut w, id, P + 16, CODE), 0);
    assert_eq!(protect(&mut w, id, P, prot::READ), 0);
    w.audit();
}

#[test]
fn what_is_not_inherited_ends_with_the_program() {
    let mut w = World::new(2048);
    let id = w.create();
    let both = REFUSED | NOT_INHERITED;
    assert_eq!(gain(&mut w, id, both), both as i64);
    assert_eq!(map(&mut w, id, P, ALL), -EACCES);
    let child = w.fork(id).unwrap();
    assert_eq!(gain(&mut w, child, 0), 0);
    assert_eq!(map(&mut w, child, P, ALL), 0);
    let reset = [vm::RESET, u64::from(id), PAGE, 2 * PAGE, 0, 0];
    assert_eq!(w.control(&reset), 0);
    assert_eq!(map(&mut w, id, P, ALL), 0);
    w.audit();
}

#[test]
fn the_manifest_forbids_it_for_all() {
    let mut w = World::new(2048);
    w.vm.code = crate::code::Code::of_programs(false);
    let id = w.create();
    assert_eq!(gain(&mut w, id, 0), REFUSED as i64);
    assert_eq!(gain(&mut w, id, REFUSED | NOT_INHERITED), -EPERM);
    assert_eq!(map(&mut w, id, P, ALL), -EACCES);
    let child = w.fork(id).unwrap();
    assert_eq!(map(&mut w, child, P, ALL), -EACCES);
    w.audit();
}

#[test]
fn a_program_that_begins_in_a_copy_has_what_held_before() {
    let mut w = World::new(2048);
    let (pristine, old) = (w.create(), w.create());
    let begin = |w: &mut World, before: Id| {
        w.made(&[vm::FORK, u64::from(pristine), 0, 6, 0, u64::from(before)])
    };
    let new = begin(&mut w, old).unwrap();
    assert_eq!(gain(&mut w, new, 0), 0);
    assert!(gain(&mut w, old, REFUSED | NOT_INHERITED) >= 0);
    let new = begin(&mut w, old).unwrap();
    assert_eq!(gain(&mut w, new, 0), 0);
    let strict = w.create();
    assert!(gain(&mut w, strict, REFUSED) >= 0);
    let new = begin(&mut w, strict).unwrap();
    assert_eq!(gain(&mut w, new, 0), REFUSED as i64);
    assert_eq!(map(&mut w, new, P, ALL), -EACCES);
    assert_eq!(begin(&mut w, 9999), Err(-ESRCH));
    w.audit();
}
