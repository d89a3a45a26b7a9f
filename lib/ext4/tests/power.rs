//! Cuts of power. A game is played on a disk that remembers its writes and flushes. Then, for every flush and for samples in between, the disk is made as it may be found after
//! the cut: everything before the last flush is there, and of what came after it any part. It must open, hold exactly what the last or the next sync held, and be clean for e2fsck.
//! `CAIRN_EXT4_GAMES` says how many games; `CAIRN_EXT4_SAMPLES` how many disks are tried between two flushes.

mod common;

use common::world::World;
use common::{cases, make, with_tool, Caller, Disk, Event, Random, CACHE};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

struct Recording {
    base: Vec<u8>,
    events: Vec<Event>,
    /// What every mark stands for, and whose bytes changed in place between it and the next.
    states: Vec<World>,
    /// Whose bytes changed in place after the last of them.
    last: BTreeSet<u32>,
}

/// With `deaths`, whoever runs the library dies now and then, and a successor that has what was kept goes on.
fn play(
    block_size: u32,
    seed: u64,
    steps: u32,
    without: Option<&'static str>,
    deaths: bool,
) -> Recording {
    let base = make(
        block_size,
        if block_size == 1024 { 6 } else { 20 },
        &["-N", "200"],
        None,
    );
    let mut disk = Disk::new(base.clone());
    disk.events = Some(Vec::new());
    disk.without = without;
    let words: Vec<AtomicU64> = (0..400_000).map(|_| AtomicU64::new(0)).collect();
    let kept: &'static [AtomicU64] = match deaths {
        true => words.leak(),
        false => &[],
    };
    let mut caller = Caller::follow(disk, true, CACHE, kept).unwrap();
    let mut world = World::new();
    let mut random = Random(seed);
    // The state that each transaction closes with, from the one before the first; a mark when it is durable.
    let first = caller.first;
    let mut states = vec![world.clone()];
    let note = |states: &mut Vec<World>, world: &mut World, caller: &Caller| {
        while caller.fs.transaction().wrapping_sub(first) >= states.len() as u32 {
            if let Some(last) = states.last_mut() {
                last.in_place = std::mem::take(&mut world.in_place);
            }
            states.push(world.clone());
        }
        states.clone()
    };
    caller.disk.events.as_mut().unwrap().push(Event::Mark(0));
    let mut recorded = (0, Vec::new());
    for _ in 0..5 * steps {
        world.step(&mut caller, &mut random);
        // What an operation did before it asked for a commit is no state of the model: the game ends before.
        if caller.forced != 0 {
            break;
        }
        note(&mut states, &mut world, &caller);
        // Operations go on while the journal works.
        match random.below(8) {
            0 | 1 => caller.fs.commit(),
            2 if random.below(4) == 0 => caller.fs.checkpoint(),
            _ => {}
        }
        if random.below(2) == 0 {
            caller.one_step().unwrap();
            note(&mut states, &mut world, &caller);
        }
        if random.below(12) == 0 {
            caller.sync().unwrap();
        }
        if deaths && random.below(15) == 0 {
            let (first, disk) = (caller.first, caller.disk);
            caller = Caller::follow(disk, true, CACHE, kept).unwrap();
            caller.first = first;
            // What was closed and not committed is in the transaction that is collected now.
            let durable = caller.fs.transaction().wrapping_sub(first) as usize;
            for undone in &states[durable..] {
                world.in_place.extend(&undone.in_place);
            }
            states.truncate(durable + 1);
        }
        let all = note(&mut states, &mut world, &caller);
        recorded = (caller.disk.events.as_ref().map_or(0, Vec::len), all);
    }
    if caller.forced == 0 {
        caller.fs.close();
        caller.steps().unwrap();
        let all = note(&mut states, &mut world, &caller);
        recorded = (caller.disk.events.as_ref().map_or(0, Vec::len), all);
    }
    let (len, states) = recorded;
    let mut events = caller.disk.events.take().unwrap();
    events.truncate(len);
    Recording {
        base,
        events,
        last: world.in_place,
        states,
    }
}

/// One disk as it was found.
fn judge(
    image: Vec<u8>,
    recording: &Recording,
    mark: usize,
    other_replay: bool,
) -> Result<(), String> {
    let image = if other_replay {
        // e2fsck replays; whatever else it would mend is wrong (orphans it frees without a word of error).
        let (image, text) = with_tool(&image, "e2fsck", &["-fp"], &[0, 1, 4, 8, 12]);
        if text.contains("UNEXPECTED INCONSISTENCY") || text.contains("FIXED") {
            return Err(text);
        }
        image
    } else {
        image
    };
    let mut caller = Caller::open(Disk::new(image), !other_replay)
        .map_err(|error| format!("does not open: {error:?}"))?;
    let found = World::read(&mut caller).map_err(|error| format!("cannot be read: {error:?}"))?;
    let state = &recording.states[mark];
    // Bytes may have changed in place since this one closed: the next may be closed as well, but not the one after it.
    let mut free = state.in_place.clone();
    let next = recording.states.get(mark + 1);
    free.extend(next.iter().flat_map(|next| &next.in_place));
    // Whatever changed after the last state that is known.
    free.extend(&recording.last);
    let first = state.difference(&found, &free);
    let second = next.map(|next| next.difference(&found, &free));
    if let (Some(first), None | Some(Some(_))) = (&first, &second) {
        return Err(format!(
            "neither what was synced ({first}) nor the next ({second:?})"
        ));
    }
    if !other_replay {
        let disk = caller.close();
        let (_, text) = with_tool(&disk.bytes, "e2fsck", &["-fn"], &[0, 1, 4, 8, 12]);
        if text.contains("No") && text.contains("? no") || text.contains("WARNING") {
            return Err(text);
        }
    }
    Ok(())
}

/// Number of disks tried, or what was wrong with one.
fn campaign(recording: &Recording, seed: u64, samples: u64) -> Result<u32, String> {
    let mut random = Random(seed);
    let mut disk = Disk::new(recording.base.clone());
    let mut mark = None;
    let mut tried = 0;
    let mut since: Vec<(u64, std::rc::Rc<[u8]>)> = Vec::new();
    for (number, event) in recording.events.iter().enumerate() {
        match event {
            Event::Write(at, data) => since.push((*at, data.clone())),
            Event::Mark(state) => {
                mark = Some(*state);
            }
            Event::Flush => {}
        }
        let Some(mark) = mark else {
            if matches!(event, Event::Flush) {
                since.drain(..).for_each(|(at, data)| disk.write(at, &data));
            }
            continue;
        };
        // Before a flush any part of what came since the last one may be there; behind a mark nothing else need be.
        let told = |what: &str, error| format!("event {number} ({what}), state {mark}: {error}");
        if matches!(event, Event::Flush | Event::Mark(_)) {
            for sample in 0..samples {
                let mut image = disk.bytes.clone();
                // All that was begun, or the beginning of it; of that each write or not.
                let len = since.len() as u64;
                let end = if random.below(2) == 0 {
                    len
                } else {
                    random.below(len + 1)
                } as usize;
                let (keep, of) = [(1, 2), (9, 10), (1, 10)][sample as usize % 3];
                for (at, data) in &since[..end] {
                    if random.below(of) < keep {
                        image[*at as usize..*at as usize + data.len()].copy_from_slice(data);
                    }
                }
                tried += 1;
                let other = random.below(4) == 0;
                judge(image, recording, mark, other).map_err(|error| told("sample", error))?;
            }
        }
        if matches!(event, Event::Flush) {
            since.drain(..).for_each(|(at, data)| disk.write(at, &data));
            tried += 1;
            judge(disk.bytes.clone(), recording, mark, tried % 4 == 0)
                .map_err(|error| told("flush", error))?;
        }
    }
    Ok(tried)
}

#[test]
fn nothing_is_lost() {
    for seed in 0..cases("CAIRN_EXT4_GAMES", 2) {
        let recording = play([1024, 4096][seed as usize % 2], seed, 10, None, false);
        let tried = campaign(&recording, seed, cases("CAIRN_EXT4_SAMPLES", 2));
        println!("seed {seed}: {tried:?} disks");
        assert!(tried.unwrap() > 40, "seed {seed}");
    }
}

/// The same where whoever runs the library dies before, and a successor goes on.
#[test]
fn nothing_is_lost_after_deaths() {
    for seed in 50..50 + cases("CAIRN_EXT4_GAMES", 2) {
        let recording = play([1024, 4096][seed as usize % 2], seed, 14, None, true);
        let tried = campaign(&recording, seed, cases("CAIRN_EXT4_SAMPLES", 2));
        println!("seed {seed}: {tried:?} disks");
        assert!(tried.unwrap() > 40, "seed {seed}");
    }
}

/// Whatever part of what opening writes is there, `e2fsck` has nothing to ask.
#[test]
fn opening_is_in_order() {
    let mut disk = Disk::new(make(4096, 8, &[], None));
    let mut base = disk.bytes.clone();
    disk.events = Some(Vec::new());
    let opened = Caller::open(disk, true).unwrap();
    let mut since: Vec<(u64, std::rc::Rc<[u8]>)> = Vec::new();
    for event in opened.disk.events.unwrap() {
        match event {
            Event::Write(at, data) => since.push((at, data)),
            _ => {
                for there in 0..1u32 << since.len() {
                    let mut image = base.clone();
                    for (number, (at, data)) in since.iter().enumerate() {
                        if there >> number & 1 != 0 {
                            image[*at as usize..][..data.len()].copy_from_slice(data);
                        }
                    }
                    let (_, text) = with_tool(&image, "e2fsck", &["-fp"], &[0, 1, 4]);
                    assert!(!text.contains("UNEXPECTED"), "{text}");
                }
                for (at, data) in since.drain(..) {
                    base[at as usize..][..data.len()].copy_from_slice(&data);
                }
            }
        }
    }
}

#[test]
fn a_missing_flush_is_found() {
    for without in ["log", "commit block", "home"] {
        let caught = (0..12).any(|seed| {
            let recording = play(1024, seed, 10, Some(without), false);
            let found = campaign(&recording, seed, 3);
            println!("without the flush of '{without}', seed {seed}: {found:?}");
            found.is_err()
        });
        assert!(caught, "the flush of '{without}' is not missed");
    }
}
