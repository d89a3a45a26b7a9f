//! Games of file operations, and what a file system may look like after a cut of power in one of them.
//!
//! Two promises are checked. *Names*: the tree is what it was after some number of operations, none of those that were made durable missing (ext4's journal keeps operations whole and
//! in order). *Contents*: every byte of a file is what was durable there or what a later write brought; zero only where nothing durable was or a cut of the file came
//! later; its size lies between those that it had since it was durable. Anything else, old contents of other files too, is wrong.

use std::collections::BTreeMap;

/// One operation, as the guest's program takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Create(String),
    Write {
        name: String,
        offset: u32,
        length: u32,
        seed: u32,
    },
    Truncate(String, u32),
    Rename(String, String),
    Link(String, String),
    Unlink(String),
    Mkdir(String),
    Rmdir(String),
    Fsync(String),
    Datasync(String),
    Sync,
}

impl Op {
    pub fn line(&self) -> String {
        match self {
            Op::Create(name) => format!("c {name}\n"),
            Op::Write {
                name,
                offset,
                length,
                seed,
            } => format!("w {name} {offset} {length} {seed}\n"),
            Op::Truncate(name, length) => format!("t {name} {length}\n"),
            Op::Rename(old, new) => format!("r {old} {new}\n"),
            Op::Link(old, new) => format!("l {old} {new}\n"),
            Op::Unlink(name) => format!("u {name}\n"),
            Op::Mkdir(name) => format!("d {name}\n"),
            Op::Rmdir(name) => format!("x {name}\n"),
            Op::Fsync(name) => format!("f {name}\n"),
            Op::Datasync(name) => format!("F {name}\n"),
            Op::Sync => "s\n".to_string(),
        }
    }

    /// Does it promise something, so that it is answered?
    pub fn promises(&self) -> bool {
        matches!(self, Op::Fsync(_) | Op::Datasync(_) | Op::Sync)
    }
}

/// What stands at a place of a file that was written with this seed (`tests/powercut/work.c` has the same): never zero.
pub fn pattern(seed: u32, at: u32) -> u8 {
    let h = at
        .wrapping_mul(2_654_435_761)
        .wrapping_add(seed.wrapping_mul(40_503));
    (h ^ h >> 15) as u8 | 1
}

/// Pseudo-random numbers, the same for the same seed (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as u32;
        high % bound.max(1)
    }
}

/// Behind a name: a folder, or the file of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Folder,
    File(usize),
}

type Names = BTreeMap<String, Node>;

#[derive(Clone, Copy, Debug)]
enum Change {
    Write { offset: u32, length: u32, seed: u32 },
    Truncate(u32),
}

/// All that ever happened to one file. Numbers of operations count from 1: after so many it is so.
#[derive(Clone, Debug, Default)]
struct File {
    changes: Vec<(usize, Change)>,
    /// Operations that changed its names.
    named: Vec<usize>,
}

/// A game: its operations, and what is true after each number of them.
pub struct Game {
    pub ops: Vec<Op>,
    names: Vec<Names>,
    files: Vec<File>,
    /// Which file an operation made durable; `None` for everything.
    kept: BTreeMap<usize, Option<usize>>,
}

/// What was found on a disk: contents of files, nothing for folders.
pub type Found = BTreeMap<String, Option<Vec<u8>>>;

const FOLDERS: u32 = 4;
const NAMES: u32 = 12;
/// Longest file.
const LONGEST: u32 = 200_000;

impl Game {
    pub fn new(seed: u64, length: usize) -> Game {
        let mut game = Game {
            ops: Vec::new(),
            names: vec![Names::new()],
            files: Vec::new(),
            kept: BTreeMap::new(),
        };
        let mut random = Random::new(seed);
        while game.ops.len() < length {
            if let Some(op) = game.propose(&mut random) {
                game.play(op);
            }
        }
        game
    }

    /// An operation that will succeed.
    fn propose(&self, random: &mut Random) -> Option<Op> {
        let names = self.names.last()?;
        let files: Vec<&String> = names
            .iter()
            .filter(|(_, node)| matches!(node, Node::File(_)))
            .map(|(name, _)| name)
            .collect();
        let some = |random: &mut Random| {
            let at = random.below(files.len() as u32) as usize;
            files.get(at).map(|name| name.to_string())
        };
        let folder = format!("d{}", random.below(FOLDERS));
        let mut new = format!("f{}", random.below(NAMES));
        if random.below(2) == 0 && names.contains_key(&folder) {
            new = format!("{folder}/{new}");
        }
        let free = !names.contains_key(&new);
        let longest = [100, 5_000, LONGEST / 2][random.below(3) as usize];
        Some(match random.below(20) {
            0..=2 if free => Op::Create(new),
            3..=7 => Op::Write {
                name: some(random)?,
                offset: random.below(LONGEST / 2) & !(random.below(2) * 4095),
                length: 1 + random.below(longest),
                seed: random.below(1 << 30),
            },
            8 => Op::Truncate(some(random)?, random.below(LONGEST)),
            9..=10 => Some(some(random)?)
                .filter(|old| self.target_fits(old, &new))
                .map(|old| Op::Rename(old, new))?,
            11 if free => Op::Link(some(random)?, new),
            12 => Op::Unlink(some(random)?),
            13 if !names.contains_key(&folder) => Op::Mkdir(folder),
            14 if names.contains_key(&folder) => {
                let inside = format!("{folder}/");
                if names.keys().any(|name| name.starts_with(&inside)) {
                    return None;
                }
                Op::Rmdir(folder)
            }
            15..=16 => Op::Fsync(some(random)?),
            17 => Op::Datasync(some(random)?),
            18 => Op::Sync,
            _ => return None,
        })
    }

    /// Renaming a file over another name of its own does nothing, which the model leaves out.
    fn target_fits(&self, old: &str, new: &str) -> bool {
        let names = self.names.last();
        names.is_some_and(|names| names.get(old) != names.get(new))
    }

    fn play(&mut self, op: Op) {
        let number = self.ops.len() + 1;
        let mut names = self.names.last().cloned().unwrap_or_default();
        let file = |names: &Names, name: &str| match names.get(name) {
            Some(Node::File(file)) => Some(*file),
            _ => None,
        };
        let mut named = None;
        match &op {
            Op::Create(name) => {
                self.files.push(File::default());
                names.insert(name.clone(), Node::File(self.files.len() - 1));
                named = Some(self.files.len() - 1);
            }
            Op::Write {
                name,
                offset,
                length,
                seed,
            } => {
                let change = Change::Write {
                    offset: *offset,
                    length: *length,
                    seed: *seed,
                };
                if let Some(file) = file(&names, name) {
                    self.files[file].changes.push((number, change));
                }
            }
            Op::Truncate(name, length) => {
                if let Some(file) = file(&names, name) {
                    let change = Change::Truncate(*length);
                    self.files[file].changes.push((number, change));
                }
            }
            Op::Rename(old, new) => {
                named = file(&names, old);
                if let Some(node) = names.remove(old) {
                    names.insert(new.clone(), node);
                }
            }
            Op::Link(old, new) => {
                named = file(&names, old);
                if let Some(node) = names.get(old).copied() {
                    names.insert(new.clone(), node);
                }
            }
            Op::Unlink(name) | Op::Rmdir(name) => {
                names.remove(name);
            }
            Op::Mkdir(name) => {
                names.insert(name.clone(), Node::Folder);
            }
            Op::Fsync(name) | Op::Datasync(name) => {
                self.kept.insert(number, file(&names, name));
            }
            Op::Sync => {
                self.kept.insert(number, None);
            }
        }
        if let Some(file) = named {
            self.files[file].named.push(number);
        }
        self.ops.push(op);
        self.names.push(names);
    }

    /// May the disk be like this, if the first `done` operations were answered and none after the first `issued` begun? If not, why.
    pub fn judge(&self, found: &Found, done: usize, issued: usize) -> Result<(), String> {
        let mut floor = 0;
        let mut durable = vec![0; self.files.len()];
        for (&number, kept) in self.kept.range(..=done) {
            match kept {
                None => {
                    floor = number;
                    durable.fill(number);
                }
                Some(file) => {
                    durable[*file] = number;
                    let data_only = matches!(self.ops[number - 1], Op::Datasync(_));
                    let mut named = self.files[*file].named.iter();
                    // What was only linked or renamed is not needed to read the data.
                    let name = match data_only {
                        true => named.next(),
                        false => named.rfind(|&&named| named <= number),
                    };
                    floor = floor.max(name.copied().unwrap_or(0));
                }
            }
        }
        let mut why = None;
        for after in (floor..=issued).rev() {
            match self.fits(found, after, issued, &durable) {
                Ok(()) => return Ok(()),
                // A wrong content says more than a wrong name.
                Err((weight, text)) if why.as_ref().is_none_or(|(w, _)| *w < weight) => {
                    why = Some((weight, text));
                }
                Err(_) => {}
            }
        }
        let why = why.map_or("no state is allowed".to_string(), |(_, text)| text);
        Err(format!(
            "operations {floor} to {issued} may show, {done} are promised: {why}"
        ))
    }

    fn fits(
        &self,
        found: &Found,
        after: usize,
        issued: usize,
        durable: &[usize],
    ) -> Result<(), (u8, String)> {
        let names = &self.names[after];
        for (name, node) in names {
            match (node, found.get(name)) {
                (Node::Folder, Some(None)) | (Node::File(_), Some(Some(_))) => {}
                _ => return Err((0, format!("after {after}, {name} is missing"))),
            }
        }
        if let Some(more) = found.keys().find(|name| !names.contains_key(*name)) {
            return Err((0, format!("after {after}, {more} is too much")));
        }
        for (name, node) in names {
            if let (Node::File(file), Some(Some(bytes))) = (node, found.get(name)) {
                self.files[*file]
                    .may_be(bytes, durable[*file], issued)
                    .map_err(|text| (1, format!("{name}: {text}")))?;
            }
        }
        Ok(())
    }
}

impl File {
    /// Contents after so many operations.
    fn after(&self, number: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (_, change) in self.changes.iter().filter(|(n, _)| *n <= number) {
            change.apply(&mut bytes);
        }
        bytes
    }

    fn may_be(&self, found: &[u8], durable: usize, issued: usize) -> Result<(), String> {
        let kept = self.after(durable);
        let later: Vec<Change> = self
            .changes
            .iter()
            .filter(|(number, _)| (durable + 1..=issued).contains(number))
            .map(|(_, change)| *change)
            .collect();
        let (mut least, mut most) = (kept.len(), kept.len());
        let mut now = kept.clone();
        let mut shortest = usize::MAX;
        for change in &later {
            change.apply(&mut now);
            least = least.min(now.len());
            most = most.max(now.len());
            if let Change::Truncate(length) = change {
                shortest = shortest.min(*length as usize);
            }
        }
        if found.len() < least || found.len() > most {
            return Err(format!(
                "{} bytes, {least} to {most} are allowed",
                found.len()
            ));
        }
        for (at, &byte) in found.iter().enumerate() {
            let written = || {
                later.iter().any(|change| match *change {
                    Change::Write {
                        offset,
                        length,
                        seed,
                    } => {
                        let inside = (offset..offset + length).contains(&(at as u32));
                        inside && byte == pattern(seed, at as u32)
                    }
                    Change::Truncate(_) => false,
                })
            };
            let zero = byte == 0 && (at >= kept.len() || at >= shortest);
            if kept.get(at) != Some(&byte) && !zero && !written() {
                return Err(format!(
                    "byte {at} is {byte}, {:?} was durable and no later write brought it",
                    kept.get(at)
                ));
            }
        }
        Ok(())
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match *self {
            Change::Write {
                offset,
                length,
                seed,
            } => {
                let end = (offset + length) as usize;
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                for at in offset..offset + length {
                    bytes[at as usize] = pattern(seed, at);
                }
            }
            Change::Truncate(length) => bytes.resize(length as usize, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(ops: &[Op]) -> Game {
        let mut game = Game::new(0, 0);
        ops.iter().for_each(|op| game.play(op.clone()));
        game
    }

    fn name() -> String {
        "f".to_string()
    }

    fn write(offset: u32, seed: u32) -> Op {
        let (name, length) = (name(), 4);
        Op::Write {
            name,
            offset,
            length,
            seed,
        }
    }

    fn bytes(offset: u32, seed: u32) -> Vec<u8> {
        (offset..offset + 4).map(|at| pattern(seed, at)).collect()
    }

    fn found(content: &[u8]) -> Found {
        Found::from([(name(), Some(content.to_vec()))])
    }

    #[test]
    fn what_was_durable_must_be_there() {
        let game = game(&[
            Op::Create(name()),
            write(0, 1),
            Op::Fsync(name()),
            write(2, 2),
        ]);
        let (old, new) = (bytes(0, 1), bytes(2, 2));
        let both = [&old[..2], &new[..]].concat();
        assert_eq!(game.judge(&Found::new(), 0, 4), Ok(()));
        assert!(game.judge(&Found::new(), 3, 4).is_err());
        assert_eq!(game.judge(&found(&[]), 0, 4), Ok(()));
        assert!(game.judge(&found(&[]), 3, 4).is_err());
        assert_eq!(game.judge(&found(&old), 3, 4), Ok(()));
        assert_eq!(game.judge(&found(&both), 3, 4), Ok(()));
        // Before the write was begun it cannot show.
        assert!(game.judge(&found(&both), 3, 3).is_err());
        // Zeros where something durable was; bytes of nobody.
        assert!(game.judge(&found(&[0; 4]), 3, 4).is_err());
        assert_eq!(game.judge(&found(&[0; 4]), 0, 4), Ok(()));
        assert!(game.judge(&found(&[2; 4]), 0, 4).is_err());
    }

    #[test]
    fn names_are_those_of_one_moment() {
        let (a, b) = ("a".to_string(), "b".to_string());
        let ops = [
            Op::Create(a.clone()),
            Op::Rename(a.clone(), b.clone()),
            Op::Sync,
            Op::Create(a.clone()),
        ];
        let game = game(&ops);
        let tree = |names: &[&String]| -> Found {
            names
                .iter()
                .map(|n| (n.to_string(), Some(vec![])))
                .collect()
        };
        assert_eq!(game.judge(&tree(&[&a]), 0, 2), Ok(()));
        // Neither both nor none after a rename.
        assert!(game.judge(&tree(&[&a, &b]), 0, 3).is_err());
        assert_eq!(game.judge(&tree(&[&a, &b]), 0, 4), Ok(()));
        assert!(game.judge(&tree(&[&a]), 3, 4).is_err());
        assert!(game.judge(&Found::new(), 3, 4).is_err());
    }

    #[test]
    fn a_cut_file_may_show_zeros_behind_the_cut() {
        let game = game(&[
            Op::Create(name()),
            write(0, 1),
            Op::Sync,
            Op::Truncate(name(), 2),
            Op::Truncate(name(), 4),
        ]);
        let old = bytes(0, 1);
        assert_eq!(game.judge(&found(&[old[0], old[1], 0, 0]), 3, 5), Ok(()));
        assert_eq!(game.judge(&found(&old[..2]), 3, 5), Ok(()));
        assert!(game.judge(&found(&[old[0], 0, 0, 0]), 3, 5).is_err());
        assert!(game.judge(&found(&old[..1]), 3, 5).is_err());
    }

    #[test]
    fn games_are_long_and_mixed() {
        let game = Game::new(7, 400);
        let count = |kind: fn(&Op) -> bool| game.ops.iter().filter(|op| kind(op)).count();
        assert!(count(Op::promises) > 20);
        assert!(count(|op| matches!(op, Op::Rename(..))) > 5);
        assert!(count(|op| matches!(op, Op::Write { .. })) > 50);
        // The end of a game is one of its own states.
        let last = game.names.last().unwrap();
        let found: Found = last
            .iter()
            .map(|(name, node)| match node {
                Node::Folder => (name.clone(), None),
                Node::File(file) => (name.clone(), Some(game.files[*file].after(400))),
            })
            .collect();
        assert_eq!(game.judge(&found, 400, 400), Ok(()));
    }
}
