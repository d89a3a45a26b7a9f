//! Names and attributes over the server's death: whatever was answered is there, whatever was asked is done once, whether the server died before it did it or before it could say so.

use super::common::{make, must_be_clean, Random};
use super::machine::{keepsake, Kept, Machine, USUAL};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, at, o, AGAIN, STAT_WORDS};
use std::collections::BTreeMap;

const KEEP: usize = 4 << 20;

fn start(image: Vec<u8>, seed: u64, kept: Kept) -> Machine {
    let opened = Machine::follow(image, USUAL, seed, kept);
    let (machine, _) = opened.unwrap_or_else(|(refused, _)| panic!("{refused:?}"));
    machine
}

/// What names lead to. Things are numbered as they are made; 0 is a directory.
#[derive(Clone, Default)]
struct Tree {
    names: BTreeMap<String, u64>,
    modes: BTreeMap<u64, u64>,
    values: BTreeMap<u64, Vec<u8>>,
    made: u64,
}

impl Tree {
    fn make(&mut self, name: &str, mode: u64) {
        self.made += 1;
        self.names.insert(name.into(), self.made);
        self.modes.insert(self.made, mode);
    }

    fn links(&self, thing: u64) -> u64 {
        self.names.values().filter(|other| **other == thing).count() as u64
    }

    fn is_empty(&self, dir: &str) -> bool {
        let inside = format!("{dir}/");
        !self.names.keys().any(|name| name.starts_with(&inside))
    }

    fn has_above(&self, name: &str) -> bool {
        name.split_once('/')
            .is_none_or(|(dir, _)| self.names.contains_key(dir))
    }
}

/// A request: its words, what it carries, and what must come of it.
struct Asked {
    words: Vec<u64>,
    out: Vec<u8>,
    result: i64,
}

fn two(first: &str, second: &[u8]) -> Vec<u8> {
    [first.as_bytes(), b"\0", second].concat()
}

/// Something at random, which the tree knows as done from now on.
fn something(tree: &mut Tree, random: &mut Random) -> Asked {
    let mut name = || match random.below(3) {
        0 => format!("n{}", random.below(6)),
        dir => format!("d{dir}/n{}", random.below(6)),
    };
    let (one, other) = (name(), name());
    let dir = format!("d{}", 1 + random.below(2));
    let asked = |words: &[u64], out: Vec<u8>, result| Asked {
        words: words.to_vec(),
        out,
        result,
    };
    let is = tree.names.get(&one).copied();
    let free = match (tree.has_above(&one), is) {
        (false, _) => -ENOENT,
        (true, Some(_)) => -EEXIST,
        (true, None) => 0,
    };
    let there = is.map_or(-ENOENT, |_| 0);
    match random.below(11) {
        0 | 1 => {
            if free == 0 {
                tree.make(&one, 0o100_640);
            }
            let flags = o::CREAT | o::EXCL | o::RDWR;
            asked(&[fs::OPEN, flags, 0o640], one.into(), free)
        }
        2 => {
            if free == 0 {
                tree.make(&one, 0o010_600);
            }
            asked(&[fs::MKNOD, 0o010_600, 0], one.into(), free)
        }
        3 => {
            if free == 0 {
                tree.make(&one, 0o120_777);
            }
            asked(&[fs::SYMLINK], two(&"t".repeat(90), one.as_bytes()), free)
        }
        4 => {
            let result = match tree.names.contains_key(&dir) {
                true => -EEXIST,
                false => 0,
            };
            if result == 0 {
                tree.names.insert(dir.clone(), 0);
            }
            asked(&[fs::MKDIR, 0o755], dir.into(), result)
        }
        5 => {
            let result = match (tree.names.contains_key(&dir), tree.is_empty(&dir)) {
                (false, _) => -ENOENT,
                (true, false) => -ENOTEMPTY,
                (true, true) => 0,
            };
            if result == 0 {
                tree.names.remove(&dir);
            }
            asked(&[fs::UNLINK, at::REMOVEDIR], dir.into(), result)
        }
        6 => {
            tree.names.remove(&one);
            asked(&[fs::UNLINK, 0], one.into(), there)
        }
        7 => {
            let to = tree.names.get(&other).copied();
            let result = match (is, tree.has_above(&other), to) {
                (None, ..) | (_, false, _) => -ENOENT,
                (_, _, Some(_)) => -EEXIST,
                _ => 0,
            };
            if let (Some(thing), 0) = (is, result) {
                tree.names.insert(other.clone(), thing);
            }
            asked(&[fs::LINK, 0], two(&one, other.as_bytes()), result)
        }
        8 | 9 => {
            const EXCHANGE: u64 = 2;
            let exchange = random.below(2) == 0;
            let to = tree.names.get(&other).copied();
            let result = match (is, tree.has_above(&other), to) {
                (None, ..) | (_, false, _) => -ENOENT,
                (_, _, None) if exchange => -ENOENT,
                _ => 0,
            };
            if let (Some(thing), 0, true) = (is, result, is != to) {
                match to.filter(|_| exchange) {
                    Some(to) => tree.names.insert(one.clone(), to),
                    None => tree.names.remove(&one),
                };
                tree.names.insert(other.clone(), thing);
            }
            let flags = u64::from(exchange) * EXCHANGE;
            asked(&[fs::RENAME, flags], two(&one, other.as_bytes()), result)
        }
        _ => {
            const SET: u64 = 1;
            const CREATE: u64 = 1;
            // A link or FIFO has none of these.
            let file = is.filter(|thing| tree.modes[thing] == 0o100_640);
            let result = match file {
                None => return asked(&[fs::STAT], b"missing".to_vec(), -ENOENT),
                Some(thing) if tree.values.contains_key(&thing) => -EEXIST,
                Some(_) => 0,
            };
            let value = vec![random.below(256) as u8; random.below(100) as usize];
            if let (Some(thing), 0) = (file, result) {
                tree.values.insert(thing, value.clone());
            }
            let out = [&two(&one, b"user.mark")[..], b"\0", &value].concat();
            asked(&[fs::XATTR, SET, CREATE], out, result)
        }
    }
}

fn must_be(machine: &mut Machine, tree: &Tree, when: &str) {
    let dirs = ["", "d1/", "d2/"];
    let names = dirs
        .iter()
        .flat_map(|dir| (0..6).map(move |n| format!("{dir}n{n}")));
    let mut inodes = BTreeMap::new();
    for name in names.chain(["d1".into(), "d2".into()]) {
        let words = [fs::STAT, STAT_WORDS | at::SYMLINK_NOFOLLOW];
        let stat = machine.call(0, &words, name.as_bytes(), 4096);
        let Some(&thing) = tree.names.get(&name) else {
            assert_eq!(stat.result(), -ENOENT, "{when}: {name}");
            continue;
        };
        assert!(stat.result() > 0, "{when}: {name}: {}", stat.result());
        if thing == 0 {
            assert_eq!(stat.words[2] & 0xffff, 0o040_755, "{when}: {name}");
            continue;
        }
        assert_eq!(stat.words[2] & 0xffff, tree.modes[&thing], "{when}: {name}");
        let links = stat.words[2] >> 32 & 0xffff;
        assert_eq!(links, tree.links(thing), "{when}: {name}");
        let ino = *inodes.entry(thing).or_insert(stat.words[1]);
        assert_eq!(stat.words[1], ino, "{when}: {name}");
        if let Some(value) = tree.values.get(&thing) {
            let out = [&two(&name, b"user.mark")[..], b"\0"].concat();
            let answer = machine.call(0, &[fs::XATTR, 0, 0], &out, 4096);
            assert_eq!(answer.bytes(), value, "{when}: {name}");
        }
    }
}

#[test]
fn names_are_there_and_requests_done_once() {
    for seed in 1..=10 {
        game(seed);
    }
}

fn game(seed: u64) {
    let kept = keepsake(KEEP);
    let mut random = Random(seed);
    let block = [1024, 4096][seed as usize % 2];
    let mut image = make(block, 16, &[], None);
    let (mut tree, mut thread) = (Tree::default(), 1000);
    for life in 0..12 {
        let when = format!("seed {seed}, life {life}");
        let mut m = start(image, seed * 100 + life, kept);
        for _ in 0..random.below(40) {
            let asked = something(&mut tree, &mut random);
            let answer = m.call(0, &asked.words, &asked.out, 4096);
            assert_eq!(answer.result(), asked.result, "{when}: {:?}", asked.words);
            answer.minted.iter().for_each(|badge| m.bench.close(*badge));
            match random.below(10) {
                0 => m.wait(),
                1 | 2 => drop(m.turn()),
                3 if random.below(5) == 0 => assert_eq!(m.sync(), 0),
                _ => {}
            }
        }
        // One request it dies with, done or not; others are made before it is made again.
        thread += 1;
        let mut asked = something(&mut tree, &mut random);
        if life % 3 == 0 {
            // (With nothing in memory it has to wait, and does nothing.)
            image = m.kill();
            m = start(image, seed, kept);
        }
        m.bench.fake.next_caller(thread);
        m.bench.send(0, &asked.words, &asked.out, 4096);
        let lives = 1 + random.below(2);
        for _ in 0..lives {
            image = m.kill();
            m = start(image, seed + life, kept);
            if random.below(2) == 0 {
                m.bench.fake.next_caller(5);
                assert_eq!(m.result(0, &[fs::UNLINK, 0], b"never"), -ENOENT);
            }
        }
        asked.words[0] |= AGAIN;
        m.bench.fake.next_caller(thread | 7 << 32);
        let answer = m.call(0, &asked.words, &asked.out, 4096);
        assert_eq!(
            answer.result(),
            asked.result,
            "{when}: again {:?}",
            asked.words
        );
        answer.minted.iter().for_each(|badge| m.bench.close(*badge));
        must_be(&mut m, &tree, &when);
        image = m.kill();
    }
    let mut m = start(image, seed, kept);
    must_be(&mut m, &tree, "at the end");
    must_be_clean(&m.close());
}

/// With little memory to keep changes in, who changes much waits for commits, and nothing is lost either.
#[test]
fn what_has_no_room_waits_for_a_commit() {
    let kept = keepsake(2 << 20);
    let mut m = start(make(4096, 32, &[], None), 1, kept);
    for number in 0..2500 {
        let name = format!("name-{number}-{}", "long".repeat(40));
        assert_eq!(m.result(0, &[fs::MKNOD, 0o100_644, 0], name.as_bytes()), 0);
        let moved = format!("moved-{number}");
        assert_eq!(
            m.result(0, &[fs::RENAME, 0], &two(&name, moved.as_bytes())),
            0
        );
    }
    let mut m = start(m.kill(), 2, kept);
    for number in 0..2500 {
        let moved = format!("moved-{number}");
        assert_eq!(
            m.result(0, &[fs::UNLINK, 0], moved.as_bytes()),
            0,
            "{moved}"
        );
    }
    let mut m = start(m.kill(), 3, kept);
    assert_eq!(m.result(0, &[fs::UNLINK, 0], b"moved-7"), -ENOENT);
    must_be_clean(&m.close());
}
