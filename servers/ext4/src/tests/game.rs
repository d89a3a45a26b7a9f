//! Games: many files changed at random by several programs at a time, against a model; cuts of the power in between.
//!
//! The model knows what every file holds, and what it held when it was last synced. After a cut at any write, with any part of what was not flushed, the image is sound once its log is replayed, and every file
//! that was synced and not touched since is there with its bytes.

use super::common::{make, must_be_clean, with_tool};
use super::machine::{Event, Machine, Shape, USUAL};
use super::plain::pattern;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o};
use std::collections::BTreeMap;

#[derive(Clone, Default, PartialEq)]
struct File {
    bytes: Vec<u8>,
    badge: Option<u64>,
    /// What is there after a cut: as it was synced, unless it was changed since.
    synced: Option<Vec<u8>>,
}

struct Game {
    block: u64,
    machine: Machine,
    files: BTreeMap<String, File>,
    /// What must be there after each mark.
    marks: Vec<BTreeMap<String, Vec<u8>>>,
    open: Vec<(u64, Vec<u8>)>,
}

impl Game {
    fn new(block: u32, mib: u64, shape: Shape, seed: u64) -> Game {
        Game {
            block: block.into(),
            machine: Machine::new(make(block, mib, &[], None), shape, seed),
            files: BTreeMap::new(),
            marks: Vec::new(),
            open: Vec::new(),
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.machine.random.below(end)
    }

    fn any(&mut self) -> Option<String> {
        let index = self.below(self.files.len() as u64) as usize;
        self.files.keys().nth(index).cloned()
    }

    fn handle(&mut self, name: &str) -> u64 {
        if let Some(badge) = self.files[name].badge {
            return badge;
        }
        let badge = self.machine.open_file(name.as_bytes(), o::RDWR, 0).unwrap();
        self.files.get_mut(name).unwrap().badge = Some(badge);
        badge
    }

    fn changed(&mut self, name: &str) -> &mut Vec<u8> {
        let file = self.files.get_mut(name).unwrap();
        file.synced = None;
        &mut file.bytes
    }

    /// Something was synced: from here on it must survive.
    fn mark(&mut self) {
        let synced = self.files.iter();
        let synced = synced.filter_map(|(name, file)| Some((name.clone(), file.synced.clone()?)));
        self.marks.push(synced.collect());
        let number = self.marks.len();
        self.machine
            .disk
            .borrow_mut()
            .events
            .push(Event::Mark(number));
    }

    /// FITRIM, of all or a part.
    fn trim(&mut self) {
        let (start, length) = match self.below(2) {
            0 => (0, u64::MAX),
            _ => (self.below(8 << 20), self.below(8 << 20) + 4096),
        };
        let least = self.below(3) * 8192;
        assert!(self.machine.trim(start, length, least).is_ok());
    }

    fn step(&mut self) {
        if self.machine.shape.discards && self.below(25) == 0 {
            self.trim();
        }
        let name = match self.any() {
            Some(name) if self.below(8) != 0 => name,
            _ => {
                let name = format!("f{}", self.below(60));
                if self.files.contains_key(&name) {
                    return;
                }
                // What is being made may be there after a cut or not.
                self.mark();
                let flags = o::CREAT | o::EXCL | o::RDWR;
                match self.machine.open_file(name.as_bytes(), flags, 0o644) {
                    Ok(badge) => {
                        let file = File {
                            badge: Some(badge),
                            ..File::default()
                        };
                        self.files.insert(name, file);
                    }
                    refused => assert_eq!(refused, Err(-ENOSPC)),
                }
                return;
            }
        };
        let badge = self.handle(&name);
        let length = self.files[&name].bytes.len() as u64;
        match self.below(22) {
            0..=6 => {
                let at = match self.below(3) {
                    0 => length,
                    1 => self.below(length + 1),
                    _ => self.below(400_000),
                };
                let count = match self.below(3) {
                    0 => self.below(60) + 1,
                    1 => self.below(9000) + 1,
                    _ => self.below(150_000) + 1,
                };
                let seed = self.below(u64::MAX);
                let data = pattern(seed, count as usize);
                self.changed(&name);
                self.mark();
                let done = self.machine.write_at(badge, at, &data);
                if done < 0 {
                    assert_eq!(done, -ENOSPC);
                    return;
                }
                let end = (at + done as u64) as usize;
                let bytes = self.changed(&name);
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[at as usize..end].copy_from_slice(&data[..done as usize]);
            }
            7..=9 => {
                let at = self.below(length + 1);
                let count = self.below(200_000) + 1;
                let end = (at + count).min(length);
                let got = self.machine.read_at(badge, at, count as usize).unwrap();
                let wanted = &self.files[&name].bytes[at as usize..end as usize];
                assert!(got == wanted, "{name} from {at}");
            }
            10 | 11 => {
                let size = match self.below(2) {
                    0 => self.below(length + 1),
                    _ => self.below(500_000),
                };
                self.changed(&name);
                self.mark();
                let done = self.machine.result(badge, &[fs::TRUNCATE, size], b"");
                assert_eq!(done, 0);
                self.changed(&name).resize(size as usize, 0);
            }
            12 => {
                let (at, count) = (self.below(length + 1), self.below(100_000) + 1);
                self.changed(&name);
                self.mark();
                let words = [fs::ALLOCATE, 3, at, count];
                assert_eq!(self.machine.result(badge, &words, b""), 0);
                let end = (at + count).min(length);
                self.changed(&name)[at as usize..end as usize].fill(0);
            }
            13 => {
                let (at, count) = (self.below(300_000), self.below(100_000) + 1);
                let (keep, zero) = (self.below(2), 16 * self.below(2));
                self.changed(&name);
                self.mark();
                let words = [fs::ALLOCATE, keep | zero, at, count];
                match self.machine.result(badge, &words, b"") {
                    0 => {
                        let bytes = self.changed(&name);
                        if zero != 0 && at < length {
                            bytes[at as usize..(at + count).min(length) as usize].fill(0);
                        }
                        if keep == 0 && at + count > length {
                            bytes.resize((at + count) as usize, 0);
                        }
                    }
                    result => assert_eq!(result, -ENOSPC),
                }
            }
            20 | 21 => {
                let block = self.block;
                let (at, count) = (
                    self.below(length / block + 1) * block,
                    (self.below(9) + 1) * block,
                );
                let goes = self.below(2) == 0;
                self.changed(&name);
                self.mark();
                let mode = if goes { 8 } else { 32 };
                let words = [fs::ALLOCATE, mode, at, count];
                let done = self.machine.result(badge, &words, b"");
                let refused = match goes {
                    true => at + count >= length,
                    false => at >= length,
                };
                match done {
                    0 => assert!(!refused),
                    errno if errno == -ENOSPC => assert!(!goes),
                    errno => assert!(errno == -EINVAL && refused, "{errno}"),
                }
                let (at, count) = (at as usize, count as usize);
                let bytes = self.changed(&name);
                match goes {
                    _ if done != 0 => {}
                    true => drop(bytes.drain(at..at + count)),
                    false => drop(bytes.splice(at..at, vec![0; count])),
                }
            }
            14 => {
                let file = self.files.remove(&name).unwrap();
                self.mark();
                assert_eq!(self.machine.result(0, &[fs::UNLINK, 0], name.as_bytes()), 0);
                match self.below(2) {
                    0 => self.machine.bench.close(badge),
                    // It stays open without a name.
                    _ => self.open.push((badge, file.bytes)),
                }
            }
            15 => {
                let other = format!("f{}", self.below(60));
                if other == name {
                    return;
                }
                let mut file = self.files.remove(&name).unwrap();
                let gone = self.files.remove(&other);
                file.synced = None;
                self.mark();
                let both = format!("{name}\0{other}");
                let done = self.machine.result(0, &[fs::RENAME, 0], both.as_bytes());
                assert_eq!(done, 0);
                if let Some(badge) = gone.and_then(|gone| gone.badge) {
                    self.machine.bench.close(badge);
                }
                self.files.insert(other, file);
            }
            16 | 17 => {
                assert_eq!(
                    self.machine
                        .result(badge, &[fs::SYNC, self.marks.len() as u64 % 2], b""),
                    0
                );
                let file = self.files.get_mut(&name).unwrap();
                file.synced = Some(file.bytes.clone());
                self.mark();
            }
            18 => {
                self.machine.bench.close(badge);
                self.files.get_mut(&name).unwrap().badge = None;
                if let Some((badge, bytes)) = self.open.pop() {
                    let got = self.machine.read_at(badge, 0, bytes.len() + 10).unwrap();
                    assert!(got == bytes, "an open file without a name");
                    self.machine.bench.close(badge);
                }
            }
            _ => match self.below(3) {
                0 => self.machine.wait(),
                1 => {
                    for _ in 0..6 {
                        self.machine.wait();
                    }
                }
                _ => {
                    self.machine.turn();
                }
            },
        }
        if self.below(4) == 0 {
            self.machine.turn();
        }
    }

    fn compare(&mut self) {
        let names: Vec<String> = self.files.keys().cloned().collect();
        for name in names {
            let got = self.machine.read(name.as_bytes()).unwrap();
            assert!(got == self.files[&name].bytes, "{name}");
        }
    }
}

fn play(block: u32, mib: u64, shape: Shape, seed: u64, steps: usize) {
    let mut game = Game::new(block, mib, shape, seed);
    for step in 0..steps {
        game.step();
        if step % 100 == 99 {
            game.compare();
        }
    }
    for (badge, _) in core::mem::take(&mut game.open) {
        game.machine.bench.close(badge);
    }
    let Game { machine, files, .. } = game;
    let image = machine.close();
    must_be_clean(&image);
    let mut machine = Machine::new(image, shape, seed);
    for (name, file) in &files {
        assert!(
            machine.read(name.as_bytes()).unwrap() == file.bytes,
            "{name}"
        );
    }
}

#[test]
fn files_are_as_the_model_has_them() {
    let small = Shape {
        frames: 150,
        metadata: 64,
        most_pages: 8,
        most_requests: 3,
        ..USUAL
    };
    play(4096, 64, USUAL, 1, 700);
    play(1024, 32, USUAL, 2, 700);
    play(4096, 64, small, 3, 500);
    play(1024, 32, small, 4, 500);
    let plain = Shape {
        caches_writes: false,
        ..USUAL
    };
    play(2048, 32, plain, 5, 300);
}

#[test]
fn files_on_a_disk_that_is_nearly_full() {
    for seed in 6..10 {
        play(4096, 10, USUAL, seed, 700);
        play(1024, 7, USUAL, seed + 1, 700);
    }
}

/// The image as a cut would leave it before event `at`: everything before the last flush, and any part of the rest.
fn cut(before: &[u8], events: &[Event], at: usize, random: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let flushed = events[..at]
        .iter()
        .rposition(|event| matches!(event, Event::Flush))
        .unwrap_or(0);
    let mut image = before.to_vec();
    for (index, event) in events[..at].iter().enumerate() {
        if let Event::Write(place, data) = event {
            for (part, bytes) in data.chunks(4096).enumerate() {
                if index < flushed || random(2) == 0 {
                    let place = *place as usize + part * 4096;
                    image[place..place + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
    }
    image
}

/// The first thing that is wrong after any of so many cuts.
fn cuts(shape: Shape, block: u32, seed: u64, samples: usize, lazy: bool) -> Option<String> {
    let image = make(block, 16, &[], None);
    let mut game = Game {
        block: block.into(),
        machine: Machine::new(image.clone(), shape, seed),
        files: BTreeMap::new(),
        marks: Vec::new(),
        open: Vec::new(),
    };
    // Opening has written already.
    let before = game.machine.disk.borrow().bytes.clone();
    {
        let mut disk = game.machine.disk.borrow_mut();
        disk.events.clear();
        disk.lazy = lazy;
    }
    for _ in 0..250 {
        game.step();
    }
    let events = core::mem::take(&mut game.machine.disk.borrow_mut().events);
    let mut value = seed;
    let mut random = |end: u64| {
        value = value
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (value >> 33) % end
    };
    for _ in 0..samples {
        let at = random(events.len() as u64 + 1) as usize;
        let image = cut(&before, &events, at, &mut random);
        let mark = events[..at].iter().rev().find_map(|event| match event {
            Event::Mark(number) => Some(*number),
            _ => None,
        });
        let mut machine = match Machine::open(image, shape, seed) {
            Ok(machine) => machine,
            Err((refused, _)) => return Some(format!("{refused:?}")),
        };
        if let Some(mark) = mark {
            for (name, bytes) in &game.marks[mark - 1] {
                match machine.read(name.as_bytes()) {
                    Ok(got) if got == *bytes => {}
                    Ok(got) => {
                        let (got, wanted) = (got.len(), bytes.len());
                        return Some(format!("{name}: {got} bytes for {wanted}, or others"));
                    }
                    Err(number) => return Some(format!("{name}: {number}")),
                }
            }
        }
        let image = machine.close();
        let (_, text) = with_tool(&image, "e2fsck", &["-fn"], &[0, 1, 4, 8, 12]);
        if text.contains("WARNING") || text.contains("Fix?") || text.contains("ignored") {
            return Some(text);
        }
    }
    None
}

#[test]
fn what_was_synced_survives_cuts_of_the_power() {
    for (block, seed) in [(4096, 11), (1024, 12), (4096, 13)] {
        assert_eq!(cuts(USUAL, block, seed, 12, false), None);
    }
}

/// The device fills what was discarded with rubbish.
const DISCARDS: Shape = Shape {
    discards: true,
    discard: true,
    ..USUAL
};

#[test]
fn what_is_discarded_is_nobody_s() {
    let asked_for = Shape {
        discard: false,
        ..DISCARDS
    };
    for (seed, shape) in [(31, DISCARDS), (32, asked_for)] {
        play(4096, 32, shape, seed, 500);
        play(1024, 16, shape, seed, 500);
        // Nearly full: what is being discarded is waited for.
        play(4096, 10, shape, seed, 500);
    }
}

#[test]
fn discards_and_cuts_of_the_power_harm_nothing_that_was_synced() {
    for (block, seed) in [(4096, 41), (1024, 42), (4096, 43)] {
        assert_eq!(cuts(DISCARDS, block, seed, 12, false), None);
    }
}

#[test]
fn a_device_that_does_not_flush_is_found_out() {
    let found = (20..26).any(|seed| cuts(USUAL, 4096, seed, 8, true).is_some());
    assert!(found);
}
