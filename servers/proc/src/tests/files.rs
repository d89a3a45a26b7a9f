//! Open files of others.

use super::invariants::check;
use crate::fake::World;
use cairn_idl::errno::*;
use cairn_idl::proc::*;

const AREA: u64 = 0x7fff_8100_0000;
const HEAD: u64 = 0x7fff_8200_0000;
const LIST: u64 = 0x7fff_8300_0000;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Every process lists these words as its descriptors, and this one as its working directory.
fn list(w: &mut World, count: u64, descriptors: &[u32], cwd: u32) {
    let system = &mut w.m.system;
    system.registers.gs_base = AREA;
    let list = descriptors.iter().flat_map(|word| word.to_le_bytes());
    system.memory = vec![
        (AREA + THREAD_FILES, words(&[HEAD])),
        (HEAD, words(&[LIST, count, cwd.into()])),
        (LIST, list.collect()),
    ];
}

fn files_of(w: &mut World, pid: u64, first: u64) -> (i64, u64, Vec<u8>) {
    let answer = w.component(role::INSPECT, b"", &[FILES_OF, pid, first]);
    (answer.result(), answer.words()[1], w.m.system.input.clone())
}

#[test]
fn the_mask_of_modes_and_the_cores_are_told() {
    let mut w = World::new();
    let a = w.fork(1);
    list(&mut w, 0, &[], 0);
    w.m.system.memory[1].1 = words(&[LIST, 0, 0o27 << 32]);
    let [thread, ..] = w.call(a, &[THREAD_CREATE, 1]).words();
    for tid in [a, thread, 0] {
        let told = w.component(role::INSPECT, b"", &[KEPT_OF, a, tid]);
        assert_eq!(told.words()[..3], [0, 0o27, 0b101]);
    }
    // What a process says is a mask all the same.
    w.m.system.memory[1].1 = words(&[LIST, 0, u64::MAX]);
    let told = w.component(role::INSPECT, b"", &[KEPT_OF, a, a]);
    assert_eq!(told.words()[1], 0o777);
    for pid in [0, 9999] {
        let told = w.component(role::INSPECT, b"", &[KEPT_OF, pid, a]);
        assert_eq!(told.result(), -ESRCH);
    }
    // The mask of signals lies where the thread says.
    let mask = 0x8000_0000_0000_0002;
    w.m.system.memory.push((AREA + THREAD_MASK, words(&[LIST])));
    w.m.system.memory[2].1 = words(&[mask]);
    let told = w.component(role::INSPECT, b"", &[KEPT_OF, a, a]);
    assert_eq!(told.words()[3], mask);
    check(&w);
}

#[test]
fn a_descriptor_is_for_who_may_look_into_its_process() {
    let mut w = World::new();
    let (a, b) = (w.fork(1), w.fork(1));
    for pid in [a, b] {
        assert_eq!(w.set_ids(pid, [9, 9, 9]), 0);
    }
    assert_eq!(w.call(a, &[PRCTL, 4, 1]).result(), 0);
    list(&mut w, 3, &[70, 0, 71 | FILE_CLOEXEC], 72);
    let domain = w.domain(a);
    w.m.system.of(domain).slots.extend([70, 71, 72]);
    let file = |w: &mut World, by, pid, life, which| {
        let answer = w.call(by, &[FILE_OF, pid, life, which]);
        (answer.result() == 0)
            .then(|| (answer.words()[1], answer.words()[7]))
            .ok_or(answer.result())
    };
    assert_eq!(file(&mut w, 1, a, 0, 0), Ok((0, 5070)));
    assert_eq!(file(&mut w, b, a, 0, 2), Ok((1, 5071)));
    assert_eq!(file(&mut w, a, a, 0, FILE_CWD), Ok((0, 5072)));
    for none in [1, 3, FILE_CWD + 1, u64::MAX] {
        assert_eq!(file(&mut w, b, a, 0, none), Err(-EBADF));
    }
    // What a life names is that process alone.
    let answer = w.component(role::LIVES, b"", &[LIFE_OF, domain.id.into(), a]);
    let life = answer.words()[1];
    assert_eq!(file(&mut w, b, 0, life, 0), Ok((0, 5070)));
    // Others', and those that do not want to be seen.
    assert_eq!(file(&mut w, b, 1, 0, 0), Err(-EPERM));
    assert_eq!(w.call(a, &[PRCTL, 4, 0]).result(), 0);
    assert_eq!(file(&mut w, b, a, 0, 0), Err(-EPERM));
    assert_eq!(file(&mut w, 1, a, 0, 0), Ok((0, 5070)));
    assert_eq!(file(&mut w, b, 4000, 0, 0), Err(-ESRCH));
    w.exit(a, 0);
    assert_eq!(file(&mut w, 1, a, 0, 0), Err(-ESRCH));
    assert_eq!(file(&mut w, 1, 0, life, 0), Err(-ESRCH));
    assert!(w.m.system.taken.is_empty());
    check(&w);
}

#[test]
fn what_a_process_lists_is_looked_at() {
    let mut w = World::new();
    let a = w.fork(1);
    let domain = w.domain(a);
    // Portals that every process begins with, and those that are not there, are none of its files.
    list(&mut w, 4, &[2, 63, 64, FILE_SLOT], 0);
    w.m.system.of(domain).slots.extend([2, 63]);
    for which in [0, 1, 2, 3, FILE_CWD] {
        let answer = w.call(1, &[FILE_OF, a, 0, which]);
        assert_eq!(answer.result(), -EBADF, "{which}");
    }
    // Lists that lead nowhere.
    for head in [
        [u64::MAX, u64::MAX, 0],
        [u64::MAX - 2, 1 << 60, 0],
        [0, 0, 0],
    ] {
        w.m.system.memory[1].1 = words(&head);
        for which in [0, 5, u64::MAX >> 3, (1 << 60) - 1] {
            let answer = w.call(1, &[FILE_OF, a, 0, which]);
            assert_eq!(answer.result(), -EBADF, "{head:?} {which}");
        }
        let _ = files_of(&mut w, a, u64::MAX - 3);
    }
    w.m.system.absent = Some(AREA + THREAD_FILES);
    assert_eq!(w.call(1, &[FILE_OF, a, 0, 0]).result(), -EBADF);
    assert_eq!(files_of(&mut w, a, 0).0, -EBADF);
    check(&w);
}

#[test]
fn descriptors_are_listed_piece_by_piece() {
    let mut w = World::new();
    let a = w.fork(1);
    let mut all = vec![0; 40_000];
    let there = [0, 1, 2, 1023, 1024, 16_383, 16_384, 39_999];
    for at in there {
        all[at] = 70;
    }
    list(&mut w, 40_000, &all, 0);
    let mut found = Vec::new();
    let (mut first, mut rounds) = (0, 0);
    w.room = 4 * 4;
    loop {
        let (count, next, bytes) = files_of(&mut w, a, first);
        assert_eq!(bytes.len(), 4 * count as usize);
        let numbers = bytes.as_chunks::<4>().0.iter();
        found.extend(numbers.map(|number| u32::from_le_bytes(*number) as usize));
        rounds += 1;
        if next == 0 {
            break;
        }
        assert!(next > first);
        first = next;
    }
    assert_eq!((&found[..], rounds), (&there[..], 4));
    let refused = w.call(a, &[FILES_OF, a, 0]);
    assert_eq!(refused.result(), -EPERM);
    check(&w);
}
