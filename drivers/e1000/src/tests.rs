//! The driver against a chip in memory: what the chip finds, what it can do to the driver.

use crate::device::Device;
use crate::fake::{Fake, Found, MAC};
use crate::registers::{self as at, cause, ring, status, Model, Trouble};
use cairn_device::fake::FakeMemory;
use cairn_device::registers::Registers;
use cairn_device::Memory;
use cairn_link::{Chip, Filled, Offload, Told};

const OLD: Model = Model::I82540;
const NEW: Model = Model::I82574 { msix: true };
const PLAIN: Offload = Offload {
    sum: false,
    sum_start: 0,
    sum_at: 0,
    cut: cairn_link::Cut::No,
    segment: 0,
    headers: 0,
};
/// Done, and a frame's end.
const WHOLE: u8 = 3;

fn both() -> [(Fake, Device<Fake, FakeMemory>); 2] {
    [(OLD, Told::Line), (NEW, Told::Messages(1))].map(|(model, told)| {
        let fake = Fake::new(model);
        let device = fake.device(told).expect("fit");
        (fake, device)
    })
}

#[test]
fn a_chip_is_reset_and_set_up() {
    assert_eq!(Model::of(0x100e_8086, false), Some(OLD));
    assert_eq!(Model::of(0x10d3_8086, true), Some(NEW));
    assert_eq!(Model::of(0x100f_8086, false), None);
    for (fake, device) in both() {
        let info = device.info();
        assert_eq!((info.mac, info.mtu, info.up), (MAC, 1500, true));
        assert!(info.sums_in && info.sums_out && info.segments == [false; 2]);
        assert_eq!((info.head, info.buffers), (0, 255));
        let mut registers = fake.clone();
        assert_eq!(fake.state.borrow().resets, 1);
        assert_eq!(fake.get(at::MASK_SET), 0, "it is silent until it is armed");
        for (first, bytes) in [(at::RECEIVE_RING, 4096), (at::TRANSMIT_RING, 32768)] {
            let base = u64::from(registers.read(first + ring::BASE));
            assert!(fake.memory.place(base).is_some() && base % 128 == 0);
            assert_eq!(registers.read(first + ring::BYTES), bytes);
        }
        // On; strips the frame's own sum; all stations and groups.
        assert_eq!(
            registers.read(at::RECEIVE),
            1 << 1 | 1 << 3 | 1 << 4 | 1 << 15 | 1 << 26
        );
        assert_eq!(registers.read(at::TRANSMIT) & 0xa, 0xa);
        assert_eq!(registers.read(at::CONTROL) & (1 << 26 | 1 << 2), 0);
    }
    let messages = Fake::new(NEW);
    messages.device(Told::Messages(1)).expect("fit");
    assert_eq!(messages.get(at::VECTORS), at::ALL_BY_FIRST);
    let line = Fake::new(NEW);
    line.device(Told::Line).expect("fit");
    assert_eq!(line.get(at::VECTORS), 0);
}

#[test]
fn what_cannot_be_is_refused() {
    for model in [OLD, NEW] {
        let stuck = Fake::new(model);
        stuck.state.borrow_mut().stuck = true;
        assert_eq!(stuck.device(Told::Line).err(), Some(Trouble::Stuck));
        let gone = Fake::new(model);
        gone.state.borrow_mut().gone = true;
        assert_eq!(gone.device(Told::Line).err(), Some(Trouble::Stuck));
    }
}

#[test]
fn an_address_that_the_chip_has_not_read_is_read_from_its_eeprom() {
    for (model, reading) in [(OLD, (8, 1 << 4)), (NEW, (2, 1 << 1))] {
        let fake = Fake::new(model);
        let told = |words: [u16; 3], high: u32| {
            let mut state = fake.state.borrow_mut();
            (state.eeprom, state.reading) = (words, reading);
            state.set(at::ADDRESS + 4, high);
            drop(state);
            at::address(&mut fake.clone(), model)
        };
        let words = [0x0402, 0x0806, 0x0c0a];
        assert_eq!(told(words, 0x8000_5634), Ok(MAC));
        assert_eq!(told(words, 0x5634), Ok([2, 4, 6, 8, 10, 12]));
        assert_eq!(fake.get(at::ADDRESS), 0x0806_0402);
        assert_eq!(fake.get(at::ADDRESS + 4), 0x8000_0c0a);
        for wrong in [[0; 3], [1, 0, 0], [0xffff; 3]] {
            assert_eq!(told(wrong, 0), Err(Trouble::NoAddress));
        }
        fake.state.borrow_mut().reading.1 = 0;
        fake.state.borrow_mut().set(at::ADDRESS + 4, 0);
        assert_eq!(
            at::address(&mut fake.clone(), model),
            Err(Trouble::NoAddress)
        );
    }
}

#[test]
fn buffers_are_filled_round_and_round() {
    for (fake, mut device) in both() {
        assert_eq!(fake.fill(60, WHOLE, 0), None, "there is none yet");
        let mut next = 0;
        while device.lend(next, u64::from(next) << 11) {
            next += 1;
        }
        assert_eq!((next, device.room(), device.with_device()), (255, 0, 255));
        assert_eq!(fake.fill(60, WHOLE, 0), None, "it was not told");
        device.kick();
        let mut expected = 0;
        for round in 0..40u32 {
            for _ in 0..round % 30 {
                let address = fake.fill(60 + round as u16, WHOLE, 0);
                assert_eq!(address, Some(u64::from(expected) << 11));
                expected += 1;
            }
            for buffer in expected - round % 30..expected {
                let filled = Filled {
                    buffer,
                    length: 60 + round,
                    right: false,
                };
                assert_eq!(device.filled(), Some(filled));
                assert!(device.lend(next, u64::from(next) << 11));
                next += 1;
            }
            assert_eq!(device.filled(), None);
            device.kick();
        }
    }
}

#[test]
fn only_what_is_whole_is_a_frame_and_only_seen_sums_are_right() {
    for (fake, mut device) in both() {
        for buffer in 0..100 {
            device.lend(buffer, 0);
        }
        device.kick();
        let mut come = |length, status, errors| {
            fake.fill(length, status, errors).expect("a buffer");
            let filled = device.filled().expect("it is done");
            (filled.length, filled.right)
        };
        assert_eq!(come(60, WHOLE, 0), (60, false));
        // TCP's sum was looked at, and IP's: right; not to be believed; each of them wrong.
        assert_eq!(come(60, WHOLE | 1 << 5 | 1 << 6, 0), (60, true));
        assert_eq!(come(60, WHOLE | 1 << 5 | 1 << 2, 0), (60, false));
        assert_eq!(come(60, WHOLE | 1 << 5 | 1 << 6, 1 << 5), (60, false));
        assert_eq!(come(60, WHOLE | 1 << 5 | 1 << 6, 1 << 6), (60, false));
        assert_eq!(come(60, WHOLE | 1 << 6, 0), (60, false));
        for error in [0, 1, 2, 4, 7] {
            assert_eq!(come(60, WHOLE | 1 << 5, 1 << error), (0, false));
        }
        // One that goes over three buffers, and then one that does not.
        assert_eq!(come(2048, 1, 0), (0, false));
        assert_eq!(come(2048, 1, 0), (0, false));
        assert_eq!(come(700, WHOLE, 0), (0, false));
        assert_eq!(come(700, WHOLE, 0), (700, false));
        // Lengths that cannot be: whoever takes it looks.
        assert_eq!(come(0xffff, WHOLE, 0), (0xffff, false));
        assert_eq!(come(0, WHOLE, 0), (0, false));
    }
}

#[test]
fn frames_leave_with_what_was_asked_for() {
    for (fake, mut device) in both() {
        let sum = Offload {
            sum: true,
            sum_start: 34,
            sum_at: 16,
            ..PLAIN
        };
        let udp = Offload { sum_at: 6, ..sum };
        let pieces = [(0x5000, 66), (0x9000, 1000), (0xb000, 100)];
        assert!(device.send(200, &sum, &pieces));
        assert!(!device.send(200, &sum, &pieces), "the chip has it");
        assert!(device.send(7, &udp, &pieces[..1]));
        assert!(device.send(255, &PLAIN, &pieces[..2]));
        for (number, offload, pieces) in [
            (256, PLAIN, &pieces[..]),
            (1, PLAIN, &[]),
            (1, PLAIN, &[(0, 20_000)]),
            (
                1,
                Offload {
                    sum_start: 250,
                    ..sum
                },
                &pieces,
            ),
            (
                1,
                Offload {
                    sum_start: 0xffff,
                    ..sum
                },
                &pieces,
            ),
        ] {
            assert!(!device.send(number, &offload, pieces));
        }
        assert_eq!(fake.send(), None, "it was not told");
        device.kick();
        let found = |sum, pieces: &[(u64, u32)]| Found {
            sum,
            pieces: pieces.to_vec(),
        };
        assert_eq!(fake.send(), Some(found(Some((34, 50, true)), &pieces)));
        assert_eq!(device.sent(), Some(200));
        assert_eq!(
            fake.send(),
            Some(found(Some((34, 40, false)), &pieces[..1]))
        );
        assert_eq!(fake.send(), Some(found(None, &pieces[..2])));
        assert_eq!(fake.send(), None);
        assert_eq!(device.on_the_way(), 2);
        assert_eq!([(); 3].map(|()| device.sent()), [Some(7), Some(255), None]);
    }
}

#[test]
fn a_full_ring_takes_no_more_until_something_has_left() {
    for (fake, mut device) in both() {
        let many = [(0x1000, 40); 30];
        let mut numbers = 0..256;
        while device.takes() {
            assert!(device.send(numbers.next().expect("full before"), &PLAIN, &many));
        }
        assert_eq!((numbers.start, device.on_the_way()), (68, 68));
        device.kick();
        assert_eq!(fake.send().map(|found| found.pieces.len()), Some(30));
        assert_eq!((device.sent(), device.takes()), (Some(0), true));
        while device.on_the_way() > 0 {
            fake.send().expect("a frame");
            device.sent().expect("it has left");
        }
        // Round and round, with descriptors on both sides of the end.
        for round in 0..1000 {
            let count = round % 30 + 1;
            assert!(device.send(round % 2, &PLAIN, &many[..count]), "{round}");
            device.kick();
            assert_eq!(fake.send().map(|found| found.pieces.len()), Some(count));
            assert_eq!(device.sent(), Some(round % 2));
        }
    }
}

#[test]
fn a_chip_that_writes_nonsense_harms_nobody() {
    let mut seed = 1u64;
    let mut random = || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        seed >> 33
    };
    for (fake, mut device) in both() {
        // The chip has nothing, whatever it says.
        (0..36864)
            .step_by(8)
            .for_each(|i| fake.memory.write64(i, u64::MAX));
        assert_eq!((device.filled(), device.sent()), (None, None));
        // What the driver holds it can get once, whatever stands in memory.
        let (mut lent, mut sending) = (0, 0);
        for round in 0..3000 {
            while device.lend(lent, 0x1000) {
                lent += 1;
            }
            if device.takes() && device.send(round % 256, &PLAIN, &[(0x1000, 60); 3]) {
                sending += 1;
            }
            device.kick();
            for _ in 0..200 {
                let place = (random() as usize % (4096 + 32768)) & !7;
                fake.memory.write64(place, random() << 32 | random());
            }
            let (with, on) = (device.with_device(), device.on_the_way());
            let filled = core::iter::from_fn(|| device.filled()).count();
            let sent = core::iter::from_fn(|| device.sent()).count();
            assert!(filled <= with && sent <= on);
            assert_eq!(device.with_device(), with - filled);
            assert_eq!(device.on_the_way(), on - sent);
            let mut state = fake.state.borrow_mut();
            for register in [at::CAUSES, at::STATUS, at::RECEIVE_RING + ring::HEAD] {
                state.set(register, random() as u32);
            }
            drop(state);
            device.arm(round % 2 == 0, (round % 3) as u16);
            device.hush();
            device.has_changed();
        }
        assert!(sending > 200);
    }
}

#[test]
fn a_restart_forgets_everything() {
    for (fake, mut device) in both() {
        for buffer in 0..10 {
            device.lend(buffer, 0x1000);
        }
        device.send(0, &PLAIN, &[(0x1000, 60); 5]);
        device.kick();
        fake.fill(60, WHOLE, 0);
        assert!(device.restart());
        assert_eq!((device.with_device(), device.on_the_way()), (0, 0));
        assert_eq!((fake.fill(60, WHOLE, 0), fake.send()), (None, None));
        assert_eq!((device.filled(), device.sent()), (None, None));
        assert!((0..36864).step_by(8).all(|i| fake.memory.read64(i) == 0));
        assert!(device.lend(77, 0x7000) && device.send(0, &PLAIN, &[(0x1000, 60)]));
        device.kick();
        assert_eq!(fake.fill(60, WHOLE, 0), Some(0x7000));
        assert_eq!(device.filled().map(|filled| filled.buffer), Some(77));
        assert!(fake.send().is_some());
        fake.state.borrow_mut().stuck = true;
        assert!(!device.restart());
    }
}

#[test]
fn interrupts_come_for_what_is_asked_and_for_nothing_that_was_seen() {
    for (fake, mut device) in both() {
        let (came, left) = match fake.model {
            OLD => (cause::RECEIVED, cause::TRANSMITTED),
            _ => (cause::QUEUE_IN, cause::QUEUE_OUT),
        };
        device.lend(0, 0x1000);
        device.lend(1, 0x1000);
        device.send(3, &PLAIN, &[(0x1000, 60)]);
        device.kick();
        // What was taken without an interrupt makes none.
        fake.fill(60, WHOLE, 0);
        fake.state.borrow_mut().cause(came);
        assert!(device.filled().is_some());
        assert!(!device.arm(true, 0) && !fake.state.borrow().interrupts());
        // Armed as it is already: nothing is written.
        fake.state.borrow_mut().accesses = 0;
        assert!(!device.arm(true, 0));
        assert_eq!(fake.state.borrow().accesses, 0);
        // One comes, and is silent when it was heard.
        fake.fill(60, WHOLE, 0);
        fake.state.borrow_mut().cause(came);
        assert!(fake.state.borrow().interrupts());
        assert!(device.arm(true, 0), "it is so already");
        device.hush();
        assert!(!fake.state.borrow().interrupts());
        assert!(device.arm(true, 0) && device.filled().is_some());
        // What leaves is told of only if that is wanted.
        fake.state.borrow_mut().cause(left);
        assert!(!fake.state.borrow().interrupts());
        assert!(!device.arm(false, 1));
        fake.state.borrow_mut().cause(came);
        assert!(!fake.state.borrow().interrupts());
        fake.send();
        fake.state.borrow_mut().cause(left);
        assert!(fake.state.borrow().interrupts() && device.arm(false, 1));
        device.disarm();
        assert!(!fake.state.borrow().interrupts());
    }
    // The carrier changed while nobody listened; and without buffers nothing is to be heard.
    for (fake, mut device) in both() {
        fake.state.borrow_mut().cause(cause::LINK);
        device.arm(true, 0);
        assert_eq!(fake.get(at::MASK_SET), 0);
        device.lend(0, 0x1000);
        device.arm(true, 0);
        assert!(fake.state.borrow().interrupts());
        device.hush();
        device.arm(true, 0);
        assert!(!fake.state.borrow().interrupts());
    }
    let fake = Fake::new(OLD);
    let mut device = fake.device(Told::Nothing).expect("fit");
    device.arm(true, 1);
    assert_eq!(fake.get(at::MASK_SET), 0);
}

#[test]
fn a_carrier_that_is_lost_is_noticed_once() {
    for (fake, mut device) in both() {
        assert!(!device.has_changed());
        let on = fake.get(at::STATUS);
        fake.state
            .borrow_mut()
            .set(at::STATUS, on & !status::LINK_UP);
        assert!(device.has_changed() && !device.has_changed());
        assert!(!device.info().up && !device.is_broken());
        fake.state.borrow_mut().set(at::STATUS, on);
        assert!(device.has_changed() && device.info().up);
        fake.state.borrow_mut().gone = true;
        assert!(device.is_broken());
    }
}
