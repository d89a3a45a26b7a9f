//! The driver against a controller in memory: its setup, what the disk finds of requests, what comes out, errors, and what one that misbehaves can do.

use crate::disk::Disk;
use crate::fake::{Fake, Found, State};
use crate::port::{reset, Trouble};
use cairn_block::chip::{Chip, Frames};
use cairn_block::{Kind, Outcome};
use cairn_device::fake::FakeMemory;

const PAGE: u64 = 4096;

fn disk(fake: &Fake) -> Result<Disk<Fake, FakeMemory>, Trouble> {
    let mut registers = fake.clone();
    reset(&mut registers)?;
    Disk::new(registers, fake.memory.clone(), true)
}

fn data(frames: &[u32], offset: u32) -> Frames<'_> {
    Frames { frames, offset }
}

fn codes(found: &[Found]) -> Vec<(usize, u8)> {
    found.iter().map(|f| (f.slot, f.code)).collect()
}

#[test]
fn a_disk_is_set_up_as_it_says_that_it_is() {
    let fake = Fake::new();
    let chip = disk(&fake).expect("fit");
    let info = chip.info();
    assert_eq!(
        (info.sectors, info.block, info.most_pages),
        (100_000, 512, 256)
    );
    assert_eq!(info.most_requests, 32);
    assert!(info.caches_writes && info.discards && chip.interrupts());
    assert_eq!(fake.state.borrow().resets, 1);
    // Blocks of 4,096 bytes, a short queue, no TRIM.
    let fake = Fake::new();
    let set = |i: usize, word| fake.state.borrow_mut().identity[i] = word;
    set(106, 1 << 14 | 1 << 12);
    set(117, 2048);
    set(75, 7);
    set(169, 0);
    let info = disk(&fake).expect("fit").info();
    assert_eq!((info.sectors, info.block), (800_000, 4096));
    assert_eq!((info.most_requests, info.discards), (8, false));
}

#[test]
fn what_cannot_be_driven_is_refused() {
    let refused = |change: fn(&mut State), why| {
        let fake = Fake::new();
        change(&mut fake.state.borrow_mut());
        assert_eq!(disk(&fake).map(|_| ()), Err(why));
    };
    refused(|s| s.stuck = true, Trouble::Stuck);
    refused(|s| s.signature = 0xeb14_0101, Trouble::NoDisk);
    refused(|s| s.identity[83] = 1 << 10, Trouble::Unfit);
    refused(|s| s.identity[83] = 1 << 14, Trouble::Unfit);
    refused(|s| s.identity[100..104].fill(0), Trouble::Unfit);
    refused(|s| s.identity[103] = 0xffff, Trouble::Unfit);
    refused(
        |s| (s.identity[106], s.identity[117]) = (1 << 14 | 1 << 12, 3),
        Trouble::Unfit,
    );
    refused(|s| s.refuses_identify = true, Trouble::Refused);
}

#[test]
fn reads_and_writes_are_queued_with_frames_in_a_row_as_one_place() {
    let fake = Fake::new();
    let mut chip = disk(&fake).expect("fit");
    assert!(chip.start(9, Kind::Write, 1 << 33, 512, data(&[7], 1024)));
    assert!(chip.start(31, Kind::Read, 8, 3 * PAGE, data(&[7, 8, 40], 0)));
    assert!(
        !chip.start(9, Kind::Flush, 0, 0, data(&[], 0)),
        "it has that one"
    );
    assert!(!chip.start(32, Kind::Flush, 0, 0, data(&[], 0)));
    assert!(fake.take().is_empty(), "not told yet");
    chip.kick();
    let write = Found {
        slot: 9,
        code: 0x61,
        features: 1,
        block: 1 << 33,
        count: 9 << 3,
        reads_memory: true,
        data: vec![(7 * PAGE + 1024, 512)],
    };
    let read = Found {
        slot: 31,
        code: 0x60,
        features: 24,
        block: 8,
        count: 31 << 3,
        reads_memory: false,
        data: vec![(7 * PAGE, 2 * PAGE), (40 * PAGE, PAGE)],
    };
    assert_eq!(fake.take(), [write, read]);
    assert!(!fake.interrupts());
    fake.finish(31);
    assert!(fake.interrupts());
    assert_eq!(chip.completed(), Some((31, Outcome::Done)));
    assert!(!fake.interrupts(), "acknowledged");
    assert_eq!(chip.completed(), None);
    fake.finish(9);
    assert_eq!(chip.completed(), Some((9, Outcome::Done)));
    // Every tag with as many places as there can be, within its own table.
    let frames: Vec<u32> = (0..256).map(|i| 1000 + 2 * i).collect();
    for tag in 0..32 {
        let bytes = 256 * PAGE - 512;
        assert!(chip.start(tag, Kind::Read, 64, bytes, data(&frames, 512)));
    }
    chip.kick();
    for found in fake.take() {
        let bytes: u64 = found.data.iter().map(|place| place.1).sum();
        assert_eq!((found.data.len(), bytes), (256, 256 * PAGE - 512));
        assert_eq!((found.features, found.data[255].0), (2047, 1510 * PAGE));
    }
}

#[test]
fn what_has_the_device_alone_waits_for_the_others_and_they_for_it() {
    let fake = Fake::new();
    let mut chip = disk(&fake).expect("fit");
    let page = data(&[5], 0);
    assert!(chip.start(0, Kind::Write, 0, PAGE, page));
    assert!(chip.start(1, Kind::Write, 8, PAGE, page));
    assert!(chip.start(2, Kind::Flush, 0, 0, data(&[], 0)));
    assert!(chip.start(3, Kind::Read, 0, PAGE, page));
    assert!(chip.start(4, Kind::Read, 0, PAGE, page));
    assert!(chip.start(5, Kind::Flush, 0, 0, data(&[], 0)));
    chip.kick();
    assert_eq!(codes(&fake.take()), [(0, 0x61), (1, 0x61)]);
    fake.finish(0);
    assert_eq!(chip.completed(), Some((0, Outcome::Done)));
    assert!(fake.take().is_empty());
    fake.finish(1);
    assert_eq!(chip.completed(), Some((1, Outcome::Done)));
    assert_eq!(codes(&fake.take()), [(2, 0xea)]);
    fake.finish(2);
    assert_eq!(chip.completed(), Some((2, Outcome::Done)));
    assert_eq!(codes(&fake.take()), [(3, 0x60), (4, 0x60)]);
    fake.finish(4);
    fake.finish(3);
    assert_eq!(chip.completed(), Some((3, Outcome::Done)));
    assert_eq!(chip.completed(), Some((4, Outcome::Done)));
    assert_eq!(codes(&fake.take()), [(5, 0xea)]);
    fake.finish(5);
    assert_eq!(chip.completed(), Some((5, Outcome::Done)));
    assert_eq!(chip.completed(), None);
}

#[test]
fn a_disk_without_a_queue_does_one_after_the_other() {
    let fake = Fake::new();
    fake.state.borrow_mut().identity[76] = 0;
    let mut chip = disk(&fake).expect("fit");
    for tag in [7, 3] {
        assert!(chip.start(tag, Kind::Read, 16, 2 * PAGE, data(&[5, 9], 0)));
    }
    chip.kick();
    let found = fake.take();
    assert_eq!(codes(&found), [(7, 0x25)]);
    assert_eq!((found[0].count, found[0].features), (16, 0));
    fake.finish(7);
    assert_eq!(chip.completed(), Some((7, Outcome::Done)));
    assert_eq!(codes(&fake.take()), [(3, 0x25)]);
}

#[test]
fn a_long_discard_goes_in_several_steps_and_comes_out_once() {
    let fake = Fake::new();
    let mut chip = disk(&fake).expect("fit");
    let blocks = 64 * 0xffff + 100;
    assert!(chip.start(3, Kind::Discard, 10, blocks * 512, data(&[], 0)));
    chip.kick();
    let found = fake.take().remove(0);
    assert_eq!((found.code, found.features, found.count), (6, 1, 1));
    assert!(found.reads_memory && found.data[0].1 == 512);
    assert_eq!(fake.range(&found, 0), (10, 0xffff));
    assert_eq!(fake.range(&found, 63), (10 + 63 * 0xffff, 0xffff));
    fake.finish(3);
    assert_eq!(chip.completed(), None);
    let found = fake.take().remove(0);
    assert_eq!(fake.range(&found, 0), (10 + 64 * 0xffff, 100));
    assert_eq!(fake.range(&found, 1).1, 0, "no range");
    fake.finish(3);
    assert_eq!(chip.completed(), Some((3, Outcome::Done)));
}

#[test]
fn after_an_error_each_is_done_once_more_and_alone() {
    let fake = Fake::new();
    let mut chip = disk(&fake).expect("fit");
    for tag in 0..4 {
        assert!(chip.start(tag, Kind::Read, 8 * tag as u64, PAGE, data(&[5], 0)));
    }
    chip.kick();
    assert_eq!(fake.take().len(), 4);
    // One had come out before.
    fake.finish(2);
    fake.fail();
    assert_eq!(chip.completed(), Some((2, Outcome::Done)));
    assert_eq!(fake.state.borrow().links, 1);
    let found = fake.take();
    assert_eq!(codes(&found), [(0, 0x25)]);
    assert_eq!((found[0].block, found[0].count), (0, 8));
    fake.finish(0);
    assert_eq!(chip.completed(), Some((0, Outcome::Done)));
    assert_eq!(codes(&fake.take()), [(1, 0x25)]);
    fake.fail();
    assert_eq!(chip.completed(), Some((1, Outcome::Failed)));
    assert_eq!(fake.state.borrow().links, 2);
    assert_eq!(codes(&fake.take()), [(3, 0x25)]);
    fake.finish(3);
    assert_eq!(chip.completed(), Some((3, Outcome::Done)));
    // And queued as before.
    assert!(chip.start(1, Kind::Read, 0, PAGE, data(&[5], 0)));
    chip.kick();
    assert_eq!(codes(&fake.take()), [(1, 0x60)]);
    // Nobody has the device any more.
    fake.state.borrow_mut().unlinked = true;
    fake.fail();
    assert_eq!(chip.completed(), None);
    assert!(chip.is_broken());
}

#[test]
fn a_controller_that_tells_nonsense_is_not_believed() {
    let fake = Fake::new();
    let mut chip = disk(&fake).expect("fit");
    fake.finish(7);
    assert_eq!(chip.completed(), None, "nobody asked for that");
    fake.fail();
    assert_eq!(chip.completed(), None);
    assert!(!chip.is_broken());
    assert!(chip.start(3, Kind::Flush, 0, 0, data(&[], 0)));
    assert_eq!(chip.completed(), None);
    fake.finish(3);
    fake.finish(3);
    assert_eq!(chip.completed(), Some((3, Outcome::Done)));
    assert_eq!(chip.completed(), None, "once");
    fake.state.borrow_mut().gone = true;
    assert_eq!(chip.completed(), None);
    assert!(chip.is_broken());
}
