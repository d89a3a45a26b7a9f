//! Random operations against a model in memory. `CAIRN_EXT4_GAMES` says how many games are played.

mod common;

use common::world::World;
use common::{cases, make, must_be_clean, Caller, Disk, Random};
use std::collections::BTreeSet;

fn game(block_size: u32, seed: u64, steps: u32, mib: u64, cache: usize) {
    let image = make(block_size, mib, &["-N", "300"], None);
    let mut caller = Caller::open_with(Disk::new(image), true, cache).unwrap();
    let mut world = World::new();
    let mut random = Random(seed);
    for step in 0..steps {
        world.step(&mut caller, &mut random);
        // The journal works while operations go on.
        match random.below(6) {
            0 => caller.fs.commit(),
            1 => caller.fs.checkpoint(),
            2 | 3 => drop(caller.one_step().unwrap()),
            _ => {}
        }
        if step % 150 == 149 {
            let read = World::read(&mut caller).unwrap();
            assert_eq!(
                world.difference(&read, &BTreeSet::new()),
                None,
                "seed {seed}, step {step}"
            );
        }
        if random.below(200) == 0 {
            let disk = caller.close();
            must_be_clean(&disk.bytes);
            caller = Caller::open_with(disk, true, cache).unwrap();
        }
    }
    let read = World::read(&mut caller).unwrap();
    assert_eq!(
        world.difference(&read, &BTreeSet::new()),
        None,
        "seed {seed}"
    );
    must_be_clean(&caller.close().bytes);
}

#[test]
fn games() {
    for seed in 0..cases("CAIRN_EXT4_GAMES", 6) {
        println!("seed {seed}");
        let block_size = [1024, 4096][seed as usize % 2];
        game(
            block_size,
            seed,
            700,
            if block_size == 1024 { 8 } else { 24 },
            [64, 2048][seed as usize / 2 % 2],
        );
    }
}

#[test]
fn a_game_where_room_is_short() {
    for seed in 100..100 + cases("CAIRN_EXT4_GAMES", 2) {
        println!("seed {seed}");
        game(1024, seed, 900, 3, 256);
    }
}
