//! Damaged and hostile images: a clear answer, never a panic, an endless walk or a write outside the image (the disk of these tests refuses it).
//! `CAIRN_EXT4_CASES=100000 cargo test --release -p cairn-ext4 --test damage` is the long campaign.

mod common;

use cairn_ext4::{Error, New, Rename, ROOT};
use common::world::World;
use common::{cases, make, Caller, Disk, Random};
use std::collections::BTreeSet;

/// An image with something of everything, and the blocks that are not file data.
fn image(block_size: u32, options: &[&str], open: bool) -> (Vec<u8>, Vec<usize>) {
    let base = make(
        block_size,
        if block_size == 1024 { 4 } else { 16 },
        options,
        None,
    );
    let mut disk = Disk::new(base);
    disk.events = Some(Vec::new());
    let mut caller = Caller::open(disk, true).unwrap();
    let mut world = World::new();
    let mut random = Random(11);
    for _ in 0..300 {
        world.step(&mut caller, &mut random);
    }
    let now = caller.now;
    let new = New {
        mode: 0o100_600,
        uid: 0,
        gid: 0,
        device: (0, 0),
        now,
    };
    let dir = New {
        mode: 0o040_700,
        ..new
    };
    let dir = caller.act(|fs| fs.create(ROOT, b"indexed", &dir)).unwrap();
    for number in 0..60 {
        let name = format!("{number}{}", "name".repeat(10));
        let done = caller.act(|fs| fs.create(dir, name.as_bytes(), &new));
        assert!(done.is_ok() || done == Err(Error::NoSpace));
    }
    caller.act(|fs| fs.create_nameless(dir, &new)).ok();
    caller.sync().unwrap();
    // What the log has seen is metadata; the rest of the interesting places are at the beginning.
    let size = block_size as usize;
    let mut blocks: BTreeSet<usize> = (0..(60 * 1024 / size).max(12)).collect();
    let disk = if open { caller.disk } else { caller.close() };
    for block in disk.events.iter().flatten() {
        if let common::Event::Write(at, _) = block {
            blocks.insert(*at as usize / size);
        }
    }
    (disk.bytes, blocks.into_iter().collect())
}

fn damage(bytes: &mut [u8], blocks: &[usize], size: usize, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let block = blocks[random.below(blocks.len() as u64) as usize];
        let at = block * size + random.below(size as u64) as usize;
        let Some(place) = bytes.get_mut(at..(at + 4).min(block * size + size)) else {
            continue;
        };
        match random.below(6) {
            0 => place[0] ^= 1 << random.below(8),
            1 => place.fill(0),
            2 => place.fill(0xFF),
            3 => place[0] = random.next() as u8,
            4 => place[0] = place[0].wrapping_add(1),
            _ => {
                for byte in place {
                    *byte = random.next() as u8;
                }
            }
        }
    }
}

/// What a program might do; every answer is right.
fn use_it(bytes: Vec<u8>, random: &mut Random) -> Result<(), Error> {
    let write = random.below(3) != 0;
    let mut caller = Caller::open_with(Disk::new(bytes), write, 256)?;
    let mut inodes = vec![ROOT];
    let mut names = Vec::new();
    let mut at = 0;
    while at < inodes.len() && at < 200 {
        let ino = inodes[at];
        at += 1;
        let Ok(inode) = caller.act(|fs| fs.inode(ino)) else {
            continue;
        };
        caller.act(|fs| fs.attribute_names(ino)).ok();
        if inode.is_directory() {
            let mut from = 0;
            while let Ok(some) = caller.act(|fs| fs.read_directory(ino, from)) {
                let Some(last) = some.last() else { break };
                from = last.next;
                for one in some {
                    if names.len() < 2000 {
                        caller.act(|fs| fs.lookup(ino, &one.name)).ok();
                        inodes.push(one.ino);
                        names.push((ino, one.name));
                    }
                }
                if names.len() >= 2000 {
                    break;
                }
            }
        } else if inode.is_symlink() {
            caller.act(|fs| fs.read_link(ino)).ok();
        } else if inode.size < 1 << 20 {
            caller.read(ino).ok();
        } else {
            caller.act(|fs| fs.map(ino, 0, 1 << 20)).ok();
        }
    }
    if !write {
        return Ok(());
    }
    let now = caller.now;
    let new = New {
        mode: 0o100_600,
        uid: 0,
        gid: 0,
        device: (0, 0),
        now,
    };
    for turn in 0..40u64 {
        let ino = inodes[random.below(inodes.len() as u64) as usize];
        let (dir, name) = match names.get(random.below(names.len() as u64) as usize) {
            Some((dir, name)) => (*dir, name.clone()),
            None => (ROOT, b"x".to_vec()),
        };
        let fresh = format!("fresh {turn}").into_bytes();
        let result = match random.below(9) {
            0 => caller.act(|fs| fs.create(dir, &fresh, &new)).map(|_| ()),
            1 => caller.act(|fs| fs.unlink(dir, &name, now)).map(|gone| {
                if gone.last {
                    finish(&mut caller, gone.ino);
                }
            }),
            2 => caller
                .act(|fs| fs.remove_directory(dir, &name, now))
                .map(|gone| finish(&mut caller, gone.ino)),
            3 => caller
                .act(|fs| fs.rename((dir, &name), (ROOT, &fresh), Rename::Replace, now))
                .map(|_| ()),
            4 => caller.write(ino, random.below(100_000), &[1; 3000]),
            5 => truncate(&mut caller, ino, random.below(50_000)),
            6 => caller.act(|fs| fs.punch(ino, 3, 40, now)).map(|_| ()),
            7 => caller.act(|fs| fs.set_attribute(ino, b"user.new", Some(&[5; 90]), None, now)),
            _ => caller
                .act(|fs| fs.preallocate(ino, 10, 30, None, now))
                .map(|_| ()),
        };
        if turn % 10 == 9 && result != Err(Error::ReadOnly) {
            caller.sync()?;
        }
    }
    caller.fs.close();
    caller.steps()
}

fn finish(caller: &mut Caller, ino: u32) {
    let now = caller.now;
    for _ in 0..100_000 {
        if caller.act(|fs| fs.finish(ino, now)) != Ok(false) {
            return;
        }
    }
    panic!("freeing a file does not end");
}

fn truncate(caller: &mut Caller, ino: u32, size: u64) -> Result<(), Error> {
    let now = caller.now;
    let mut done = caller.act(|fs| fs.set_size(ino, size, now))?;
    for _ in 0..100_000 {
        if done {
            return Ok(());
        }
        done = caller.act(|fs| fs.cut_rest(ino, now))?;
    }
    panic!("cutting a file does not end");
}

fn campaign(block_size: u32, options: &[&str], open: bool, seed: u64) {
    let (bytes, blocks) = image(block_size, options, open);
    let mut random = Random(seed);
    let mut opened = 0;
    let count = cases("CAIRN_EXT4_CASES", 1500) / 6;
    for case in 0..count {
        let seed = random.next();
        let mut random = Random(seed);
        let mut bytes = bytes.clone();
        damage(&mut bytes, &blocks, block_size as usize, &mut random);
        let result = std::panic::catch_unwind(move || use_it(bytes, &mut random));
        match result {
            Ok(result) => opened += u64::from(result.is_ok()),
            Err(_) => panic!("case {case}, seed {seed}, blocks of {block_size}, {options:?}"),
        }
    }
    println!("{opened} of {count} could be used to the end");
    assert!(opened * 50 > count, "nearly none was read");
}

const PLAIN: &[&str] = &["-O", "^metadata_csum"];

#[test]
fn without_sums() {
    campaign(1024, PLAIN, false, 1);
    campaign(4096, PLAIN, false, 2);
}

#[test]
fn with_sums() {
    campaign(1024, &[], false, 3);
    campaign(4096, &[], false, 4);
}

#[test]
fn with_a_log_to_replay() {
    campaign(1024, PLAIN, true, 5);
    campaign(1024, &[], true, 6);
}
