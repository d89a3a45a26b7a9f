//! Whoever runs the library dies, at any moment, while the machine lives: what operations have changed is in memory that stays, and a successor must have all of it, committed or not.
//! `CAIRN_EXT4_GAMES` says how many games are played.

mod common;

use cairn_ext4::{Error, New, Place, ROOT};
use common::world::World;
use common::{cases, make, must_be_clean, Caller, Disk, Random};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type Kept = &'static [AtomicU64];

fn memory(bytes: usize) -> Kept {
    let words: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
    words.leak()
}

fn follow(disk: Disk, cache: usize, kept: Kept) -> Caller {
    Caller::follow(disk, true, cache, kept).unwrap()
}

fn must_be(world: &World, caller: &mut Caller, when: &str) {
    let read = World::read(caller).unwrap();
    assert_eq!(world.difference(&read, &BTreeSet::new()), None, "{when}");
}

/// It dies with a step of the journal under way: some of its writes are done, or all, and nobody was told.
fn die(mut caller: Caller, random: &mut Random) -> Disk {
    let now = caller.now;
    if random.below(2) == 0 {
        if let Ok(Some(step)) = caller.fs.step(now) {
            let chance = random.below(3);
            for (block, data) in &step.writes {
                if chance == 2 || random.below(2) < chance {
                    caller.disk.write(block * caller.size as u64, data);
                }
            }
        }
    }
    caller.disk
}

fn game(block_size: u32, seed: u64, cache: usize, kept: Kept) {
    let mib = if block_size == 1024 { 8 } else { 24 };
    let mut disk = Disk::new(make(block_size, mib, &["-N", "300"], None));
    let mut world = World::new();
    let mut random = Random(seed);
    for life in 0..cases("CAIRN_EXT4_LIVES", 25) {
        let mut caller = follow(disk, cache, kept);
        caller.now.sec += life as i64;
        must_be(&world, &mut caller, &format!("seed {seed}, life {life}"));
        // Sometimes the successor dies as well, before it has done anything, or while it commits.
        for _ in 0..[0, 3, 40, 150][random.below(4) as usize] {
            world.step(&mut caller, &mut random);
            match random.below(12) {
                0 => caller.fs.commit(),
                1 if random.below(4) == 0 => caller.fs.checkpoint(),
                2 | 3 => drop(caller.one_step().unwrap()),
                _ => {}
            }
        }
        if random.below(4) == 0 {
            caller.fs.commit();
            for _ in 0..random.below(4) {
                caller.one_step().unwrap();
            }
        }
        disk = die(caller, &mut random);
        if random.below(6) == 0 {
            let mut caller = follow(disk, cache, kept);
            must_be(&world, &mut caller, &format!("seed {seed}, after {life}"));
            disk = caller.close();
            must_be_clean(&disk.bytes);
        }
    }
    let mut caller = follow(disk, cache, kept);
    must_be(&world, &mut caller, &format!("seed {seed}, the end"));
    must_be_clean(&caller.close().bytes);
}

#[test]
fn nothing_is_lost() {
    for seed in 0..cases("CAIRN_EXT4_GAMES", 8) {
        println!("seed {seed}");
        let block_size = [1024, 4096][seed as usize % 2];
        let cache = [512, 2048][seed as usize / 2 % 2];
        // In the smaller one operations often have to wait for a commit.
        let bytes = [1_300_000, 4 << 20][seed as usize / 4 % 2];
        game(block_size, seed, cache, memory(bytes));
    }
}

fn about(now: cairn_ext4::Time) -> New {
    New {
        mode: 0o100_644,
        uid: 1,
        gid: 2,
        device: (0, 0),
        now,
    }
}

fn named(caller: &mut Caller, name: &[u8]) -> bool {
    caller.act(|fs| fs.lookup(ROOT, name)).is_ok()
}

/// A death before the ring's end has moved: there is no record, and no operation.
#[test]
fn half_a_record_is_none() {
    let kept = memory(2 << 20);
    let mut caller = follow(Disk::new(make(4096, 8, &[], None)), 2048, kept);
    let new = about(caller.now);
    caller.act(|fs| fs.create(ROOT, b"whole", &new)).unwrap();
    let before: Vec<u64> = kept[..8].iter().map(|word| word.load(Relaxed)).collect();
    caller.fs.set_asker(7);
    caller.act(|fs| fs.create(ROOT, b"half", &new)).unwrap();
    let disk = caller.disk;
    // As far as the end: all but that, and who asked.
    kept[3].store(before[3], Relaxed);
    let mut caller = follow(disk, 2048, kept);
    assert!(named(&mut caller, b"whole") && !named(&mut caller, b"half"));
    assert!(!caller.fs.asks(7, |who| who == 7));
    caller.act(|fs| fs.create(ROOT, b"half", &new)).unwrap();
    let mut caller = follow(caller.disk, 2048, kept);
    assert!(named(&mut caller, b"whole") && named(&mut caller, b"half"));
    must_be_clean(&caller.close().bytes);
}

#[test]
fn whose_operation_was_the_last_is_known_until_it_was_answered() {
    let kept = memory(2 << 20);
    let mut caller = follow(Disk::new(make(4096, 8, &[], None)), 2048, kept);
    let new = about(caller.now);
    caller.fs.set_asker(7);
    caller.act(|fs| fs.create(ROOT, b"a", &new)).unwrap();
    // Nobody's, and a commit: it is still the last that somebody asked for.
    caller.act(|fs| fs.create(ROOT, b"b", &new)).unwrap();
    caller.sync().unwrap();
    const OTHER: u64 = 9;
    let mut caller = follow(caller.disk, 2048, kept);
    // Others come first; it may have to ask more than once.
    assert!(!caller.fs.asks(OTHER, |who| who == OTHER) && !caller.fs.asks(OTHER, |_| false));
    assert!(caller.fs.asks(7, |who| who == 7));
    caller.fs.set_asker(OTHER);
    caller.act(|fs| fs.create(ROOT, b"c", &new)).unwrap();
    let mut caller = follow(caller.disk, 2048, kept);
    assert!(caller.fs.asks(7, |who| who == 7) && caller.fs.asks(OTHER, |who| who == OTHER));
    assert!(
        !caller.fs.asks(7 | 1 << 32, |who| who == 7 | 1 << 32),
        "something else"
    );
    assert!(!caller.fs.asks(7, |who| who == 7) && caller.fs.asks(OTHER, |who| who == OTHER));
    // Answered: it asks for the next thing.
    assert!(!caller.fs.asks(OTHER, |_| false));
    let mut caller = follow(caller.disk, 2048, kept);
    assert!(!caller.fs.asks(7, |who| who == 7) && !caller.fs.asks(OTHER, |who| who == OTHER));
    // Who asks for something after that was answered.
    caller.fs.set_asker(7);
    caller.act(|fs| fs.create(ROOT, b"d", &new)).unwrap();
    assert!(!caller.fs.asks(OTHER, |_| false));
    let mut caller = follow(caller.disk, 2048, kept);
    assert!(!caller.fs.asks(7, |who| who == 7));
}

/// Whatever somebody who went wrong wrote there: what cannot be right is dropped, and nothing else happens to the image.
#[test]
fn nonsense_is_dropped() {
    let image = make(1024, 8, &["-N", "300"], None);
    for seed in 0..30 {
        let mut random = Random(seed);
        let kept = memory(1_300_000);
        let mut caller = follow(Disk::new(image.clone()), 2048, kept);
        let mut world = World::new();
        for _ in 0..40 {
            world.step(&mut caller, &mut random);
        }
        let disk = caller.disk;
        for _ in 0..1 + random.below(3) {
            let at = match random.below(2) {
                0 => random.below(8),
                _ => random.below(2000),
            };
            let value = match random.below(3) {
                0 => random.below(100),
                1 => random.next(),
                _ => kept[at as usize].load(Relaxed) ^ 1 << random.below(64),
            };
            kept[at as usize].store(value, Relaxed);
        }
        let mut caller = follow(disk, 2048, kept);
        for _ in 0..20 {
            let new = about(caller.now);
            let _ = caller.act(|fs| fs.create(ROOT, b"new", &new));
        }
        must_be_clean(&caller.close().bytes);
    }
}

/// Somebody else's memory, or of a state that the image is not in.
#[test]
fn what_does_not_fit_is_dropped() {
    let kept = memory(2 << 20);
    let first = make(4096, 8, &[], None);
    let mut caller = follow(Disk::new(first.clone()), 2048, kept);
    let new = about(caller.now);
    for round in 0..5 {
        let name = format!("n{round}");
        caller
            .act(|fs| fs.create(ROOT, name.as_bytes(), &new))
            .unwrap();
        caller.sync().unwrap();
    }
    caller.act(|fs| fs.create(ROOT, b"last", &new)).unwrap();
    // The image as it was long before.
    let mut caller = follow(Disk::new(first), 2048, kept);
    assert!(!named(&mut caller, b"last"));
    must_be_clean(&caller.close().bytes);
    let mut caller = follow(Disk::new(make(4096, 8, &[], None)), 2048, kept);
    assert!(!named(&mut caller, b"last"));
    must_be_clean(&caller.close().bytes);
}

/// A cut of power would bring the freed file back, so a successor gives its blocks to nobody before its commit either.
#[test]
fn freed_blocks_stay_free_until_the_commit() {
    let kept = memory(2 << 20);
    let mut caller = follow(Disk::new(make(4096, 8, &[], None)), 2048, kept);
    let (new, now) = (about(caller.now), caller.now);
    let old = caller.act(|fs| fs.create(ROOT, b"old", &new)).unwrap();
    while !caller
        .act(|fs| fs.preallocate(old, 0, 100, None, now))
        .unwrap()
    {}
    let pieces = caller.act(|fs| fs.map(old, 0, 100)).unwrap();
    let mut blocks = BTreeSet::new();
    for piece in pieces {
        if let Place::Unwritten(start) = piece.place {
            blocks.extend(start..start + u64::from(piece.len));
        }
    }
    assert_eq!(blocks.len(), 100);
    caller.sync().unwrap();
    caller.act(|fs| fs.unlink(ROOT, b"old", now)).unwrap();
    caller.finish(old).unwrap();
    let free = caller.fs.space().free;
    let mut caller = follow(caller.disk, 2048, kept);
    assert_eq!(caller.fs.space().free, free);
    let other = caller.act(|fs| fs.create(ROOT, b"new", &new)).unwrap();
    // All that can be had now.
    let all = |caller: &mut Caller| {
        let mut had = BTreeSet::new();
        loop {
            match caller.fs.reserve(other, 0, 1000) {
                Ok(run) => had.extend(run.start..run.start + u64::from(run.len)),
                Err(Error::Need { block, .. }) => caller.supply(block),
                Err(Error::CommitFirst | Error::NoSpace) => return had,
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    let had = all(&mut caller);
    assert!(had.len() > 500 && had.is_disjoint(&blocks));
    caller.sync().unwrap();
    assert!(all(&mut caller).is_superset(&blocks));
}
