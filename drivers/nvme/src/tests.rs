//! The driver against a controller in memory: its setup, what it finds of requests, what comes out, and what one that misbehaves can do.

use crate::controller::{reset, Controller, Trouble, REQUESTS};
use crate::fake::{Fake, State};
use cairn_block::chip::{Chip, Frames};
use cairn_block::{Kind, Outcome};
use cairn_device::fake::FakeMemory;

const PAGE: u64 = 4096;

fn controller(fake: &Fake) -> Result<Controller<Fake, FakeMemory>, Trouble> {
    let mut registers = fake.clone();
    reset(&mut registers)?;
    Controller::new(registers, fake.memory.clone(), true)
}

fn data(frames: &[u32], offset: u32) -> Frames<'_> {
    Frames { frames, offset }
}

#[test]
fn a_controller_is_set_up_as_it_says_that_it_is() {
    let fake = Fake::new();
    let info = controller(&fake).expect("fit").info();
    assert_eq!(
        (info.sectors, info.block, info.most_pages),
        (100_000, 512, 128)
    );
    assert_eq!(info.most_requests, REQUESTS as u32);
    assert!(info.caches_writes && info.discards && fake.state.borrow().interrupts);
    let fake = Fake::new();
    fake.state.borrow_mut().shift = 12;
    fake.state.borrow_mut().most = 0;
    fake.state.borrow_mut().capabilities[0] = 7;
    let info = controller(&fake).expect("fit").info();
    assert_eq!(
        (info.sectors, info.block, info.most_pages),
        (800_000, 4096, 256)
    );
    assert_eq!(info.most_requests, 7);
}

#[test]
fn what_cannot_be_driven_is_refused() {
    let refused = |change: fn(&mut State), why| {
        let fake = Fake::new();
        change(&mut fake.state.borrow_mut());
        assert_eq!(controller(&fake).map(|_| ()), Err(why));
    };
    refused(|s| s.capabilities[1] |= 1 << 16, Trouble::Unfit);
    refused(|s| s.capabilities[1] &= !(1 << 5), Trouble::Unfit);
    refused(|s| s.capabilities[0] = 0, Trouble::Unfit);
    refused(|s| s.shift = 13, Trouble::Unfit);
    refused(|s| s.metadata = 8, Trouble::Unfit);
    refused(|s| s.blocks = 0, Trouble::Unfit);
    refused(|s| s.dead = true, Trouble::Stuck);
    refused(|s| s.stuck = true, Trouble::Stuck);
    refused(|s| s.refuses = 1, Trouble::Refused);
    refused(|s| s.refuses = 6, Trouble::Refused);
}

#[test]
fn requests_have_their_pages_in_two_words_or_in_a_list() {
    let fake = Fake::new();
    let mut chip = controller(&fake).expect("fit");
    assert!(chip.start(9, Kind::Write, 1 << 33, 512, data(&[7], 1024)));
    assert!(chip.start(3, Kind::Read, 8, 2 * PAGE, data(&[7, 9], 0)));
    let frames: Vec<u32> = (100..228).collect();
    assert!(chip.start(63, Kind::Read, 16, 128 * PAGE, data(&frames, 0)));
    assert!(chip.start(0, Kind::Flush, 5, 0, data(&[], 0)));
    assert!(chip.start(1, Kind::Discard, 40, 5 * PAGE, data(&[], 0)));
    assert!(
        !chip.start(9, Kind::Flush, 0, 0, data(&[], 0)),
        "it has that one"
    );
    assert!(!chip.start(64, Kind::Flush, 0, 0, data(&[], 0)));
    assert!(fake.take().is_empty(), "not told yet");
    chip.kick();
    let found = fake.take();
    assert_eq!(found.len(), 5);
    assert!(found.iter().all(|f| f.namespace == 1));
    assert_eq!((found[0].operation, found[0].number), (1, 9));
    assert_eq!(found[0].data, [7 * PAGE + 1024, 0]);
    assert_eq!(found[0].words, [0, 2, 0]);
    assert_eq!(found[1].data, [7 * PAGE, 9 * PAGE]);
    assert_eq!((found[1].operation, found[1].words), (2, [8, 0, 15]));
    assert_eq!(found[2].data[0], 100 * PAGE);
    let list: Vec<u64> = (101..228).map(|frame| frame * PAGE).collect();
    assert_eq!(fake.list(found[2].data[1], 127), list);
    assert_eq!(found[3].operation, 0);
    assert_eq!((found[4].operation, found[4].words), (9, [0, 4, 0]));
    assert_eq!(fake.range(found[4].data[0]), (40, 40));
    // In another order, with an error.
    fake.finish(0, 0);
    fake.finish(63, 0x281);
    assert_eq!(chip.completed(), Some((0, Outcome::Done)));
    assert_eq!(chip.completed(), Some((63, Outcome::Failed)));
    assert_eq!(chip.completed(), None);
    for number in [9, 3, 1] {
        fake.finish(number, 0);
        assert_eq!(chip.completed(), Some((number as usize, Outcome::Done)));
    }
}

#[test]
fn the_queue_goes_round_and_its_phase_with_it() {
    let fake = Fake::new();
    fake.state.borrow_mut().capabilities[0] = 4;
    let mut chip = controller(&fake).expect("fit");
    for round in 0..40 {
        for tag in 0..4 {
            assert!(chip.start(tag, Kind::Read, round, PAGE, data(&[5], 0)));
        }
        assert!(!chip.start(4, Kind::Read, 0, PAGE, data(&[5], 0)), "full");
        chip.kick();
        let found = fake.take();
        assert_eq!(found.len(), 4);
        for command in found.iter().rev() {
            assert_eq!(command.words[0], round as u32);
            fake.finish(command.number, 0);
        }
        let out: Vec<usize> = std::iter::from_fn(|| chip.completed().map(|out| out.0)).collect();
        assert_eq!(out, [3, 2, 1, 0]);
    }
}

#[test]
fn a_controller_that_tells_nonsense_is_not_believed() {
    let fake = Fake::new();
    let mut chip = controller(&fake).expect("fit");
    assert!(chip.start(3, Kind::Flush, 0, 0, data(&[], 0)));
    chip.kick();
    for number in [4, 64, 0xffff] {
        fake.finish(number, 0);
    }
    assert_eq!(chip.completed(), None);
    fake.finish(3, 0);
    fake.finish(3, 0);
    assert_eq!(chip.completed(), Some((3, Outcome::Done)));
    assert_eq!(chip.completed(), None, "once");
    assert!(!chip.is_broken());
    fake.state.borrow_mut().dead = true;
    assert!(chip.is_broken());
}
