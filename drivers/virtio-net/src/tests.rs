//! The driver against a device in memory: what the device finds, what it can do to the driver.

use crate::device::{Device, PIECES};
use cairn_device::fake::FakeMemory;
use cairn_device::Memory;
use cairn_link::{Chip, Cut, Filled, Offload, Told, BUFFER};
use cairn_virtio::fake::FakeDevice;
use cairn_virtio::transport::{reset, Trouble};

/// VERSION_1, EVENT_IDX, INDIRECT, STATUS, MRG_RXBUF, HOST_TSO4, MAC, MTU, CSUM; and some that the driver does not know (GUEST_TSO4, CTRL_VQ).
const FEATURES: u64 =
    1 << 32 | 1 << 29 | 1 << 28 | 1 << 16 | 1 << 15 | 1 << 11 | 1 << 5 | 1 << 3 | 1;
const UNKNOWN: u64 = 1 << 7 | 1 << 17;

fn fake() -> FakeDevice {
    let config = [
        (0, 0x52),
        (1, 0x54),
        (2, 0),
        (3, 0x12),
        (4, 0x34),
        (5, 0x56),
        (6, 1),
        (10, 1400),
    ];
    FakeDevice::new(FEATURES | UNKNOWN, &config, 3, PIECES)
}

fn device(fake: &FakeDevice) -> Result<Device<FakeDevice, FakeMemory>, Trouble> {
    let mut registers = fake.clone();
    reset(&mut registers)?;
    Device::new(registers, fake.memory.clone(), 2)
}

#[test]
fn a_device_is_set_up_as_it_says_that_it_is() {
    let fake = fake();
    let device = device(&fake).expect("fit");
    let info = device.info();
    assert_eq!(info.mac, [0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    assert_eq!((info.mtu, info.up, info.buffers), (1400, true, 256));
    assert!(info.sums_out && !info.sums_in && device.interrupts() == Told::Messages(2));
    assert_eq!(info.segments, [true, false]);
    let state = fake.state.borrow();
    assert_eq!((state.status, state.accepted), (15, FEATURES));
    assert_eq!((state.queues[0].vector, state.queues[1].vector), (0, 1));
}

#[test]
fn what_is_not_offered_is_not_used() {
    let bare = fake();
    bare.state.borrow_mut().features = 1 << 32 | 1 << 28;
    let info = device(&bare).expect("fit").info();
    assert!(info.up && !info.sums_out && info.segments == [false; 2]);
    assert_eq!((info.mtu, info.mac[0]), (1500, 2));
    let old = fake();
    old.state.borrow_mut().features = 1 << 28;
    assert_eq!(device(&old).err(), Some(Trouble::Unfit));
    let stuck = fake();
    stuck.state.borrow_mut().stuck = true;
    assert_eq!(device(&stuck).err(), Some(Trouble::Stuck));
    let short = fake();
    short.state.borrow_mut().queues.truncate(1);
    assert_eq!(device(&short).err(), Some(Trouble::Unfit));
}

fn filled(buffer: u32, length: u32) -> Filled {
    Filled {
        buffer,
        length,
        right: false,
    }
}

#[test]
fn buffers_are_filled_where_they_lie() {
    let fake = fake();
    let mut device = device(&fake).expect("fit");
    for buffer in 0..256 {
        assert!(device.lend(1000 + buffer, u64::from(buffer) << 12));
    }
    assert!(!device.lend(1, 0) && device.room() == 0);
    device.kick();
    assert_eq!(fake.state.borrow().queues[0].notified, 1);
    let taken = fake.take();
    assert_eq!(taken.len(), 256);
    assert_eq!(taken[9].pieces, [(9 << 12, BUFFER as u32, true)]);
    // Twice, and what there is not.
    fake.use_up(0, 9, 74);
    fake.use_up(0, 9, 74);
    fake.use_up(0, 9000, 74);
    fake.use_up(0, 3, 5000);
    assert_eq!(device.filled(), Some(filled(1009, 74)));
    assert_eq!(
        device.filled(),
        Some(filled(1003, 5000)),
        "whoever takes it looks"
    );
    assert_eq!((device.filled(), device.room()), (None, 2));
}

#[test]
fn frames_leave_with_what_was_asked_for() {
    let fake = fake();
    let mut device = device(&fake).expect("fit");
    let offload = Offload {
        sum: true,
        sum_start: 34,
        sum_at: 16,
        cut: Cut::Tcp4,
        segment: 1348,
        headers: 66,
    };
    let pieces = [(0x5000, 66), (0x9000, 4096), (0xb000, 100)];
    assert!(device.send(200, &offload, &pieces));
    assert!(!device.send(200, &offload, &pieces), "the device has it");
    assert!(!device.send(256, &offload, &pieces));
    assert!(!device.send(3, &offload, &[(0, 60); 31]));
    assert!(device.send(4, &Offload::default(), &[(0x7000, 60); 30]));
    device.kick();
    assert_eq!(fake.state.borrow().queues[1].notified, 1);
    let taken = fake.take();
    let header = taken[0].pieces[0];
    assert_eq!((header.1, header.2), (12, false));
    let at = fake.at(header.0);
    let bytes: Vec<u8> = (0..12).map(|i| fake.memory.read8(at + i)).collect();
    assert_eq!(bytes, [1, 1, 66, 0, 0x44, 5, 34, 0, 16, 0, 0, 0]);
    assert_eq!(taken[0].pieces[2], (0x9000, 4096, false));
    assert_eq!((taken[0].pieces.len(), taken[1].pieces.len()), (4, 31));
    let at = fake.at(taken[1].pieces[0].0);
    assert!((0..12).all(|i| fake.memory.read8(at + i) == 0));
    fake.use_up(1, 4, 0);
    assert_eq!((device.sent(), device.sent()), (Some(4), None));
    assert_eq!(device.on_the_way(), 1);
}

#[test]
fn a_restart_forgets_everything() {
    let fake = fake();
    let mut device = device(&fake).expect("fit");
    for buffer in 0..10 {
        device.lend(buffer, 0x1000);
    }
    device.send(0, &Offload::default(), &[(0x1000, 60)]);
    fake.state.borrow_mut().forget();
    assert!(device.restart());
    assert_eq!((device.with_device(), device.on_the_way()), (0, 0));
    assert!(fake.take().is_empty());
    assert!(device.lend(0, 0x1000));
    assert_eq!(fake.take().len(), 1);
    fake.state.borrow_mut().stuck = true;
    assert!(!device.restart());
}

#[test]
fn a_carrier_that_is_lost_is_noticed_once() {
    let fake = fake();
    let mut device = device(&fake).expect("fit");
    assert!(!device.has_changed());
    fake.state.borrow_mut().set(6, 0);
    fake.state.borrow_mut().generation += 1;
    assert!(device.has_changed() && !device.has_changed());
    assert!(!device.info().up);
    fake.state.borrow_mut().status |= 64;
    assert!(device.is_broken());
}
