//! All states of the model of messages, up to stated bounds; and the proof that the rules can be broken.
//!
//! The bounds of the usual run are such that it takes seconds. `cargo test --release -p cairn-models -- --ignored` goes further.

use cairn_models::explore::explore;
use cairn_models::messages::{Fault, Setup};

/// Threads of these priorities and domains; every domain may receive from every channel.
fn setup(threads: &[(u8, u8)], channels: usize, calls: u16, interruptions: bool) -> Setup {
    let mut domains: Vec<u8> = threads.iter().map(|&(_, d)| d).collect();
    domains.dedup();
    Setup {
        threads: threads.to_vec(),
        channels,
        receivers: vec![domains; channels],
        calls,
        interruptions,
        fault: None,
    }
}

fn all_states(setup: &Setup, most: usize) {
    match explore(setup, most) {
        Ok(seen) => println!(
            "{} threads, {} channels, {} deliveries each{}: {seen:?}",
            setup.threads.len(),
            setup.channels,
            setup.calls,
            if setup.interruptions {
                ", interruptions"
            } else {
                ""
            },
        ),
        Err(broken) => panic!("{}\n{:#?}", broken.rule, broken.way),
    }
}

/// One domain per thread.
const TWO: [(u8, u8); 2] = [(10, 0), (20, 1)];
const THREE: [(u8, u8); 3] = [(10, 0), (20, 1), (30, 2)];
const FOUR: [(u8, u8); 4] = [(10, 0), (20, 1), (30, 2), (40, 3)];

#[test]
fn two_threads_and_two_channels_with_interruptions() {
    all_states(&setup(&TWO, 2, 2, true), 6_000_000);
}

#[test]
fn three_threads_and_one_channel_with_interruptions() {
    all_states(&setup(&THREE, 1, 1, true), 6_000_000);
}

#[test]
fn three_threads_and_two_channels() {
    all_states(&setup(&THREE, 2, 1, false), 6_000_000);
}

#[test]
#[ignore = "takes minutes"]
fn three_threads_and_two_channels_with_interruptions() {
    all_states(&setup(&THREE, 2, 1, true), 60_000_000);
}

#[test]
#[ignore = "takes minutes"]
fn four_threads_and_two_channels() {
    all_states(&setup(&FOUR, 2, 1, false), 60_000_000);
}

/// Each mistake that one can make is found by a rule.
#[test]
fn every_fault_is_found() {
    for fault in Fault::ALL {
        let setups = [
            setup(&TWO, 2, 2, true),
            setup(&THREE, 2, 1, false),
            setup(&THREE, 1, 1, true),
            setup(&FOUR, 2, 1, false),
        ];
        let found = setups.into_iter().find_map(|setup| {
            let broken = Setup {
                fault: Some(fault),
                ..setup
            };
            explore(&broken, 2_000_000).err()
        });
        match found {
            Some(broken) => {
                assert!(!broken.way.is_empty(), "{fault:?}: {}", broken.rule);
                println!("{fault:?}: {} after {:?}", broken.rule, broken.way);
            }
            None => panic!("{fault:?} breaks no rule"),
        }
    }
}
