//! The driver against a device in memory: what the device finds, in what order things come out, what a device that misbehaves can do.

use crate::device::Device;
use crate::fake::{FakeDevice, FakeQueue, Registers, FEATURES};
use cairn_block::chip::{Chip, Frames};
use cairn_block::pinned::{Pinned, Pins};
use cairn_block::serve::{Backend, Order};
use cairn_block::{Kind, Outcome};
use cairn_device::fake::FakeMemory;
use cairn_virtio::transport::{reset, Trouble};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const PAGE: u64 = 4096;

fn device(fake: &FakeDevice) -> Result<Device<Registers, FakeMemory>, Trouble> {
    let mut registers = fake.registers();
    reset(&mut registers)?;
    Device::new(registers, fake.memory.clone(), 4, 4)
}

fn data(frames: &[u32], offset: u32) -> Frames<'_> {
    Frames { frames, offset }
}

#[test]
fn a_device_is_set_up_as_it_says_that_it_is() {
    let fake = FakeDevice::new();
    let device = device(&fake).expect("fit");
    let info = device.info();
    assert_eq!(
        (info.sectors, info.block, info.most_pages),
        (8192, 512, 254)
    );
    assert!(info.caches_writes && info.discards && !info.read_only && device.interrupts());
    assert_eq!(info.most_requests, 64);
    let state = fake.state.borrow();
    assert_eq!(state.status, 15);
    assert_eq!(state.accepted & !FEATURES, 0);
    assert_eq!(
        state.accepted >> 40,
        0,
        "what it does not know it does not take"
    );
    assert_eq!((state.queues[0].size, state.queues[0].vector), (64, 0));
}

#[test]
fn another_size_is_noticed_once() {
    let fake = FakeDevice::new();
    let mut device = device(&fake).expect("fit");
    assert_eq!(fake.state.borrow().config_vector, 0, "it tells of that");
    assert!(!device.has_changed());
    fake.state.borrow_mut().set(0, 16_384);
    fake.state.borrow_mut().generation += 1;
    assert!(device.has_changed() && !device.has_changed());
    assert_eq!(device.info().sectors, 16_384);
    // Something else of it has changed.
    fake.state.borrow_mut().generation += 1;
    assert!(!device.has_changed());
}

#[test]
fn what_cannot_be_driven_is_refused() {
    let refused = |change: fn(&mut crate::fake::State), why| {
        let fake = FakeDevice::new();
        change(&mut fake.state.borrow_mut());
        assert_eq!(device(&fake).map(|_| ()), Err(why));
    };
    refused(|s| s.features &= !(1 << 28), Trouble::Unfit);
    refused(|s| s.features &= !(1 << 32), Trouble::Unfit);
    refused(|s| s.queue_max = 0, Trouble::Unfit);
    refused(|s| s.set(20, 65536), Trouble::Unfit);
    refused(|s| s.set(12, 0), Trouble::Unfit);
    refused(|s| s.stuck = true, Trouble::Stuck);
    let fake = FakeDevice::new();
    fake.state.borrow_mut().queue_max = 5;
    assert_eq!(device(&fake).expect("fit").info().most_requests, 4);
    let fake = FakeDevice::new();
    fake.state.borrow_mut().features &= !(1 << 9 | 1 << 13);
    fake.state.borrow_mut().features |= 1 << 5;
    let info = device(&fake).expect("fit").info();
    assert!(info.read_only && !info.caches_writes && !info.discards);
}

#[test]
fn requests_are_chains_with_frames_in_a_row_as_one_piece() {
    let fake = FakeDevice::new();
    let mut device = device(&fake).expect("fit");
    assert!(device.start(9, Kind::Write, 100, 3 * PAGE, data(&[7, 8, 40], 0)));
    assert!(device.start(2, Kind::Read, 5, 1536, data(&[50, 51], 3584)));
    assert!(device.start(0, Kind::Flush, 77, 0, data(&[], 0)));
    assert!(
        !device.start(9, Kind::Flush, 0, 0, data(&[], 0)),
        "it has that one"
    );
    assert!(!device.start(64, Kind::Flush, 0, 0, data(&[], 0)));
    device.kick();
    device.kick();
    assert_eq!(fake.state.borrow().notified(), 1);
    let found = fake.take();
    assert_eq!((found[0].tag, found[0].kind, found[0].sector), (9, 1, 100));
    let pieces = [(7 * PAGE, 8192, false), (40 * PAGE, 4096, false)];
    assert_eq!(found[0].data, pieces);
    assert_eq!((found[1].kind, found[1].sector), (0, 5));
    assert_eq!(found[1].data, [(50 * PAGE + 3584, 1536, true)]);
    assert_eq!((found[2].kind, found[2].sector), (4, 0));
    // In another order, with an error.
    fake.finish(&found[2], 0);
    fake.finish(&found[0], 1);
    assert_eq!(device.completed(), Some((0, Outcome::Done)));
    assert_eq!(device.completed(), Some((9, Outcome::Failed)));
    assert_eq!(device.completed(), None);
    fake.finish(&found[1], 2);
    assert_eq!(device.completed(), Some((2, Outcome::Failed)));
    fake.quiet(true);
    assert!(device.start(1, Kind::Flush, 0, 0, data(&[], 0)));
    device.kick();
    assert_eq!(fake.state.borrow().notified(), 1, "it looks by itself");
}

/// A device that has several queues.
fn of_several(queues: usize) -> FakeDevice {
    let fake = FakeDevice::with(queues);
    fake.state.borrow_mut().features |= 1 << 12;
    fake
}

fn of_queues<T>(fake: &FakeDevice, what: impl Fn(&FakeQueue) -> T) -> Vec<T> {
    fake.state.borrow().queues.iter().map(what).collect()
}

#[test]
fn it_has_a_queue_for_each_core_and_each_its_message() {
    let fake = of_several(16);
    assert_eq!(device(&fake).expect("fit").queues(), 4);
    let vectors = of_queues(&fake, |q| q.vector);
    assert_eq!(vectors[..5], [0, 1, 2, 3, 0]);
    assert_eq!(device(&of_several(2)).expect("fit").queues(), 2);
    // One that has several and does not say so by its features, or says so and has none.
    assert_eq!(device(&FakeDevice::with(4)).expect("fit").queues(), 1);
    let fake = of_several(4);
    fake.state.borrow_mut().set(34, 0);
    assert_eq!(device(&fake).expect("fit").queues(), 1);
    let fake = of_several(2);
    fake.state.borrow_mut().set(34, 4);
    assert_eq!(
        device(&fake).map(|_| ()),
        Err(Trouble::Unfit),
        "two of four are not there"
    );
    // Few messages: the last one is for all that remain; the device refuses one: it is looked at.
    let make = |fake: &FakeDevice, messages| {
        let mut registers = fake.registers();
        reset(&mut registers).expect("reset");
        Device::new(registers, fake.memory.clone(), messages, 4).expect("fit")
    };
    let fake = of_several(4);
    assert!(make(&fake, 2).interrupts());
    let vectors = of_queues(&fake, |q| q.vector);
    assert_eq!(vectors, [0, 1, 1, 1]);
    let fake = of_several(4);
    fake.state.borrow_mut().messages = 2;
    assert!(!make(&fake, 4).interrupts());
    assert!(!make(&of_several(4), 0).interrupts());
}

#[test]
fn what_is_told_together_is_in_one_queue_and_what_comes_later_in_an_idle_one() {
    let fake = of_several(4);
    let mut device = device(&fake).expect("fit");
    let begin = |device: &mut Device<_, _>, tag| {
        assert!(device.start(tag, Kind::Read, 8 * tag as u64, PAGE, data(&[50], 0)));
    };
    for tag in 0..3 {
        begin(&mut device, tag);
    }
    device.kick();
    begin(&mut device, 3);
    device.kick();
    assert!(
        !device.start(3, Kind::Flush, 0, 0, data(&[], 0)),
        "another queue has it"
    );
    device.kick();
    let first = fake.take();
    let queues: Vec<usize> = first.iter().map(|found| found.queue).collect();
    assert_eq!(queues, [0, 0, 0, 1]);
    let told = of_queues(&fake, |q| q.notified);
    assert_eq!(told, [1, 1, 0, 0]);
    // Very many at once are for several queues.
    for tag in 4..64 {
        begin(&mut device, tag);
    }
    device.kick();
    let mut all = fake.take();
    for queue in 0..4 {
        let its = all.iter().filter(|found| found.queue == queue).count();
        assert!((12..=16).contains(&its), "{its}");
    }
    assert_eq!(fake.state.borrow().notified(), 6);
    // They come out whichever queue's the device does first; each once.
    all.extend(first);
    all.reverse();
    for found in &all {
        assert_eq!(found.sector, 8 * u64::from(found.tag));
        fake.finish(found, 0);
        fake.finish(found, 0);
        // Another queue's word for it is none.
        fake.use_up((found.queue + 1) % 4, found.tag.into());
    }
    let mut tags: Vec<usize> = std::iter::from_fn(|| device.completed().map(|out| out.0)).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..64).collect::<Vec<_>>());
}

#[test]
fn the_longest_request_has_all_its_pieces_in_every_slot() {
    let fake = FakeDevice::new();
    let mut device = device(&fake).expect("fit");
    let frames: Vec<u32> = (0..256).map(|i| 1000 + 2 * i).collect();
    for round in 0..5 {
        for tag in 0..64 {
            let bytes = 256 * PAGE - 3584;
            assert!(device.start(tag, Kind::Read, round, bytes, data(&frames, 512)));
        }
        let found = fake.take();
        assert_eq!(found.len(), 64);
        for found in &found {
            let lengths: u64 = found.data.iter().map(|piece| u64::from(piece.1)).sum();
            assert_eq!((found.data.len(), lengths), (256, 256 * PAGE - 3584));
            assert_eq!(found.data[0].0, 1000 * PAGE + 512);
            assert_eq!(found.data[255].1, 1024);
            fake.finish(found, 0);
        }
        assert_eq!(std::iter::from_fn(|| device.completed()).count(), 64);
    }
}

#[test]
fn a_piece_is_no_longer_than_the_device_takes() {
    let fake = FakeDevice::new();
    fake.state.borrow_mut().features |= 1 << 1;
    fake.state.borrow_mut().set(8, 8192);
    let mut device = device(&fake).expect("fit");
    assert!(device.start(0, Kind::Write, 0, 5 * PAGE, data(&[1, 2, 3, 4, 5], 0)));
    let lengths: Vec<u32> = fake.take()[0].data.iter().map(|piece| piece.1).collect();
    assert_eq!(lengths, [8192, 8192, 4096]);
}

#[test]
fn a_long_discard_goes_in_several_steps_and_comes_out_once() {
    let fake = FakeDevice::new();
    let mut device = device(&fake).expect("fit");
    assert!(device.start(3, Kind::Discard, 10, 250 * 512, data(&[], 0)));
    let mut ranges = Vec::new();
    for _ in 0..3 {
        assert_eq!(device.completed(), None);
        let found = fake.take().remove(0);
        assert_eq!(found.kind, 11);
        ranges.push(fake.range(&found));
        fake.finish(&found, 0);
    }
    assert_eq!(ranges, [(10, 100), (110, 100), (210, 50)]);
    assert_eq!(device.completed(), Some((3, Outcome::Done)));
    // An error ends it.
    assert!(device.start(3, Kind::Discard, 10, 250 * 512, data(&[], 0)));
    fake.finish(&fake.take()[0], 1);
    assert_eq!(device.completed(), Some((3, Outcome::Failed)));
    assert!(fake.take().is_empty());
}

#[test]
fn a_device_that_tells_nonsense_is_not_believed() {
    let fake = FakeDevice::new();
    let mut device = device(&fake).expect("fit");
    assert!(device.start(3, Kind::Flush, 0, 0, data(&[], 0)));
    for tag in [4, 64, u32::MAX] {
        fake.use_up(0, tag);
    }
    assert_eq!(device.completed(), None);
    let found = fake.take().remove(0);
    fake.finish(&found, 0);
    fake.finish(&found, 0);
    assert_eq!(device.completed(), Some((3, Outcome::Done)));
    assert_eq!(device.completed(), None, "once");
    fake.jump(40_000);
    for _ in 0..3 {
        assert_eq!(device.completed(), None);
    }
}

/// Frames are pages of an arena, times ten; all pins are counted.
#[derive(Clone, Default)]
struct FakePins(Rc<RefCell<BTreeMap<u32, i32>>>);

impl Pins for FakePins {
    fn pin(&mut self, arena: u32, pages: &[u32], frames: &mut [u32], done: &[u32]) -> bool {
        assert_eq!(arena, 5);
        self.unpin(done);
        if pages.contains(&13) {
            return false;
        }
        for (frame, page) in frames.iter_mut().zip(pages) {
            *frame = page * 10;
            *self.0.borrow_mut().entry(*frame).or_default() += 1;
        }
        true
    }

    fn unpin(&mut self, frames: &[u32]) {
        for frame in frames {
            let mut pins = self.0.borrow_mut();
            let count = pins.get_mut(frame).expect("pinned");
            *count -= 1;
            if *count == 0 {
                pins.remove(frame);
            }
        }
    }
}

type Backed = Pinned<Device<Registers, FakeMemory>, FakePins>;

fn pinned() -> (FakeDevice, FakePins, Backed) {
    let (fake, pins) = (FakeDevice::new(), FakePins::default());
    let backend = Pinned::new(device(&fake).expect("fit"), pins.clone());
    (fake, pins, backend)
}

const READ: Order = Order {
    kind: Kind::Read,
    sector: 0,
    bytes: 2 * PAGE,
    arena: 5,
    pages: &[4, 6],
    offset: 0,
    kept: 0,
};

#[test]
fn pages_are_pinned_for_as_long_as_the_device_has_them() {
    let (fake, pins, mut backend) = pinned();
    let order = READ;
    assert!(backend.start(1, &order));
    assert!(!backend.start(1, &order), "it waits for its pins");
    assert!(pins.0.borrow().is_empty());
    // All pages of what waits are pinned at once; if some are not there, each order's alone.
    let missing = Order {
        pages: &[4, 13],
        ..order
    };
    assert!(backend.start(2, &missing));
    assert!(backend.begin(), "one came to nothing");
    assert_eq!(backend.completed(), Some((2, Outcome::Failed)));
    assert!(!backend.start(1, &order), "the device has it");
    assert_eq!(
        pins.0.borrow().iter().collect::<Vec<_>>(),
        [(&40, &1), (&60, &1)]
    );
    assert!(backend.start(2, &order));
    assert!(!backend.begin());
    let found = fake.take();
    assert_eq!(
        found[1].data,
        [(40 * PAGE, 4096, true), (60 * PAGE, 4096, true)]
    );
    fake.finish(&found[0], 0);
    assert_eq!(backend.completed(), Some((1, Outcome::Done)));
    assert_eq!(pins.0.borrow().len(), 2);
    fake.finish(&found[1], 1);
    assert_eq!(backend.completed(), Some((2, Outcome::Failed)));
    assert!(backend.holds());
    backend.let_go();
    assert!(!backend.holds());
    assert!(pins.0.borrow().is_empty());
    let flush = Order {
        kind: Kind::Flush,
        bytes: 0,
        pages: &[],
        ..order
    };
    assert!(backend.start(0, &flush));
    fake.finish(&fake.take()[0], 0);
    assert_eq!(backend.completed(), Some((0, Outcome::Done)));
}

#[test]
fn what_a_client_keeps_stays_pinned_until_nobody_asks_for_it() {
    let (fake, pins, mut backend) = pinned();
    let order = Order {
        bytes: 3 * PAGE,
        pages: &[4, 5, 6],
        kept: 7,
        ..READ
    };
    let run = |backend: &mut Pinned<_, _>, order: &Order| {
        assert!(backend.start(1, order));
        backend.begin();
        let found = fake.take();
        fake.finish(&found[0], 0);
        assert_eq!(backend.completed(), Some((1, Outcome::Done)));
        found[0]
            .data
            .iter()
            .map(|data| data.0 / PAGE)
            .collect::<Vec<_>>()
    };
    let held = || pins.0.borrow().keys().copied().collect::<Vec<_>>();
    assert_eq!(run(&mut backend, &order), [40, 50, 60]);
    backend.let_go();
    assert_eq!(held(), [40, 50, 60]);
    // A part of it, by the same name; by another name they are other pages.
    let part = Order {
        bytes: 2 * PAGE,
        pages: &[5, 6],
        ..order
    };
    assert_eq!(run(&mut backend, &part), [50, 60]);
    assert_eq!(held(), [40, 50, 60], "nothing was pinned");
    assert_eq!(run(&mut backend, &Order { kept: 0, ..part }), [50, 60]);
    assert_eq!(pins.0.borrow()[&50], 2);
    backend.let_go();
    assert_eq!(pins.0.borrow()[&50], 1);
    // Asked for since it was looked at last, then not; not while the device has it.
    backend.look();
    assert_eq!(held(), [40, 50, 60]);
    assert!(backend.start(2, &part));
    backend.look();
    backend.look();
    backend.let_go_of_all();
    assert_eq!(held(), [40, 50, 60]);
    fake.finish(&fake.take()[0], 0);
    assert_eq!(backend.completed(), Some((2, Outcome::Done)));
    backend.look();
    assert!(!backend.holds() && held().is_empty());
    // As many as there is room for; those that were not asked for go first.
    for name in 1..=20 {
        let page = [100 + name];
        let one = Order {
            bytes: PAGE,
            pages: &page,
            kept: name,
            ..order
        };
        assert_eq!(run(&mut backend, &one), [u64::from(page[0]) * 10]);
        assert!(held().len() <= 8);
    }
    // The session ends, also before its orders are begun.
    assert!(backend.start(2, &order));
    backend.unfix(5);
    assert!(held().is_empty());
    backend.begin();
    fake.finish(&fake.take()[0], 0);
    assert_eq!(backend.completed(), Some((2, Outcome::Done)));
    backend.let_go();
    assert!(held().is_empty());
}

#[test]
fn fixed_pages_are_pinned_once_for_a_session_and_its_last_request() {
    let (fake, pins, mut backend) = pinned();
    // With a page that is not there nothing is fixed, and nothing stays pinned.
    backend.fix(5, 14);
    backend.fix(5, 0);
    backend.fix(5, 5000);
    assert!(pins.0.borrow().is_empty());
    backend.fix(5, 9);
    assert_eq!(pins.0.borrow().len(), 9);
    let order = Order {
        kind: Kind::Write,
        pages: &[8, 6],
        ..READ
    };
    assert!(backend.start(1, &order));
    assert!(!backend.start(1, &order), "the device has it");
    // Beyond what is fixed pages are pinned as ever.
    let beyond = Order {
        pages: &[8, 9],
        ..order
    };
    assert!(backend.start(2, &beyond));
    assert!(!backend.begin());
    let pinned = |frame: u32| pins.0.borrow().get(&frame).copied();
    assert_eq!((pinned(80), pinned(90)), (Some(2), Some(1)));
    let found = fake.take();
    let pieces = [(80 * PAGE, 4096, false), (60 * PAGE, 4096, false)];
    assert_eq!(found[0].data, pieces);
    fake.finish(&found[1], 0);
    assert_eq!(backend.completed(), Some((2, Outcome::Done)));
    backend.let_go();
    assert_eq!(pins.0.borrow().len(), 9);
    // The session ends before its request; another one's arena has the same number.
    backend.unfix(5);
    backend.unfix(5);
    assert_eq!(pins.0.borrow().len(), 9);
    backend.fix(5, 1);
    assert_eq!(pinned(0), Some(2));
    fake.finish(&found[0], 0);
    assert_eq!(backend.completed(), Some((1, Outcome::Done)));
    assert_eq!(pins.0.borrow().len(), 1);
    backend.unfix(5);
    assert!(pins.0.borrow().is_empty());
}
