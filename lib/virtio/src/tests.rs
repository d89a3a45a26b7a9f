//! A queue against a device in memory.

use crate::fake::FakeDevice;
use crate::queue::{bytes, Queue};
use crate::transport::{begin, feature, negotiate, queue, reset, Trouble};
use cairn_device::Memory;

const FEATURES: u64 = feature::VERSION_1 | feature::INDIRECT | feature::EVENT_INDEX;

/// A queue of four words of tags behind a page that is something else's.
fn made(fake: &FakeDevice, wanted: u64) -> Queue<4> {
    let mut registers = fake.clone();
    reset(&mut registers).expect("it does nothing");
    let features = negotiate(&mut registers, wanted, feature::VERSION_1).expect("features");
    let made = queue::<4>(&mut registers, &fake.memory, 0, 4096, 1, features).expect("a queue");
    begin(&mut registers);
    assert!(made.interrupts);
    assert_eq!(made.queue.size(), 256);
    made.queue
}

#[test]
fn parts_of_queues_have_room() {
    assert_eq!((bytes(1), bytes(4)), (4096, 8192));
    let fake = FakeDevice::new(FEATURES, &[], 1, 1);
    let queue = made(&fake, FEATURES);
    let [descriptors, available, used] = queue.places(&fake.memory);
    assert_eq!(available - descriptors, 16 * 256);
    assert!(used - available >= 6 + 2 * 256 && used - descriptors + 6 + 8 * 256 <= 8192);
}

#[test]
fn what_is_needed_is_insisted_upon() {
    let fake = FakeDevice::new(feature::INDIRECT, &[], 1, 1);
    let mut registers = fake.clone();
    reset(&mut registers).expect("it does nothing");
    let found = negotiate(&mut registers, FEATURES, feature::VERSION_1);
    assert_eq!(found, Err(Trouble::Unfit));
    assert_eq!(fake.state.borrow().status & 128, 128);
}

#[test]
fn many_pieces_come_back_with_lengths_in_any_order() {
    let fake = FakeDevice::new(FEATURES, &[], 1, 1);
    let (mut queue, memory) = (made(&fake, FEATURES), &fake.memory);
    for tag in 0..256 {
        assert_eq!(queue.free(), Some(tag));
        assert!(queue.lend(memory, tag, (0x1000 * tag as u64, 2048)));
        assert!(!queue.lend(memory, tag, (0, 1)), "the device has it");
    }
    assert_eq!((queue.free(), queue.under_way()), (None, 256));
    assert!(!queue.lend(memory, 256, (0, 1)), "there is no such tag");
    let taken = fake.take();
    assert_eq!(taken.len(), 256);
    assert_eq!(taken[200].pieces, [(0x1000 * 200, 2048, true)]);
    fake.use_up(0, 200, 60);
    // What it does not have, and what there is not.
    fake.use_up(0, 200, 61);
    fake.use_up(0, 256, 62);
    fake.use_up(0, 3, 63);
    assert_eq!(queue.used_with_length(memory), Some((200, 60)));
    assert_eq!(queue.used_with_length(memory), Some((3, 63)));
    assert_eq!(queue.used_with_length(memory), None);
    assert_eq!((queue.free(), queue.under_way()), (Some(3), 254));
}

#[test]
fn events_spare_notifications_and_interrupts() {
    let fake = FakeDevice::new(FEATURES, &[], 1, 1);
    let (mut queue, memory) = (made(&fake, FEATURES), &fake.memory);
    let [_, available, used] = queue.places(memory).map(|place| fake.at(place));
    let (wants, told_to) = (used + 4 + 8 * 256, available + 4 + 2 * 256);
    // It wants to hear of the first one, and has not said that it wants to hear of more.
    queue.lend(memory, 0, (0x1000, 64));
    assert!(queue.must_notify(memory) && !queue.must_notify(memory));
    queue.lend(memory, 1, (0x2000, 64));
    assert!(!queue.must_notify(memory));
    // Of the fourth: the third does not do, the fourth and fifth together do.
    memory.write16(wants, 3);
    queue.lend(memory, 2, (0x3000, 64));
    assert!(!queue.must_notify(memory));
    queue.lend(memory, 3, (0x4000, 64));
    queue.lend(memory, 4, (0x5000, 64));
    assert!(queue.must_notify(memory));
    assert!(!queue.arm(memory, 1));
    assert_eq!(memory.read16(told_to), 0, "with the first one");
    assert!(!queue.arm(memory, 2));
    assert_eq!(memory.read16(told_to), 1, "with the second one");
    fake.use_up(0, 0, 64);
    assert!(!queue.arm(memory, 2) && queue.arm(memory, 1));
    assert_eq!(queue.used(memory), Some(0));
    queue.disarm(memory);
    assert_eq!(memory.read16(told_to), 0, "which is past");
}

#[test]
fn without_events_there_are_flags() {
    let fake = FakeDevice::new(FEATURES, &[], 1, 1);
    let wanted = FEATURES & !feature::EVENT_INDEX;
    let (mut queue, memory) = (made(&fake, wanted), &fake.memory);
    let available = fake.at(queue.places(memory)[1]);
    queue.lend(memory, 0, (0x1000, 64));
    assert!(queue.must_notify(memory));
    fake.quiet(true);
    queue.lend(memory, 1, (0x1000, 64));
    assert!(!queue.must_notify(memory));
    queue.disarm(memory);
    assert_eq!(memory.read16(available), 1);
    assert!(!queue.arm(memory, 1));
    assert_eq!(memory.read16(available), 0);
    fake.use_up(0, 1, 1);
    assert!(queue.arm(memory, 1));
}
