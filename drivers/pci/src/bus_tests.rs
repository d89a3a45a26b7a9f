//! The bus with devices that hold what is written.

use super::*;
use crate::fake::{Device, Fake};
use std::vec;

const DISK: u32 = 0x1042_1af4;
const TEACHER: u32 = 0x11e8_1234;

#[derive(Default)]
struct Told {
    shown: Vec<(Option<u32>, u64, u64, u64)>,
    written: Vec<(u64, u32)>,
    closed: Vec<u32>,
    attached: Vec<(u32, Address)>,
    refuses: bool,
}

impl Outside for Told {
    fn show(&mut self, domain: Option<u32>, to: u64, from: u64, len: u64) -> Result<(), Errno> {
        self.shown.push((domain, to, from, len));
        Ok(())
    }
    fn write(&mut self, address: u64, value: u32) {
        self.written.push((address, value));
    }
    fn message(&mut self, interrupt: u32) -> Option<(u64, u32)> {
        (interrupt == 9).then_some((0xfee0_1000, 0x77))
    }
    fn attach(&mut self, domain: u32, function: Address) -> Result<(), Errno> {
        if self.refuses {
            return Err(EIO);
        }
        self.attached.push((domain, function));
        Ok(())
    }
    fn close(&mut self, portal: u32) {
        self.closed.push(portal);
    }
}

fn bus() -> Bus<Fake, Told> {
    let mut fake = Fake::default();
    let mut disk = Device::new(DISK, 0x0100_0001);
    disk.bar(1, 0xfebd_1000, 0xffff_f000);
    disk.bar(4, 0xfe00_0000, 0xffff_c000);
    disk.words[1] = command::CAPABILITIES;
    disk.words[0x34 / 4] = 0x40;
    disk.words[0x40 / 4] = 0x0003_0011;
    disk.words[0x44 / 4] = 0x0800 | 1;
    fake.add(0x20, disk.clone());
    disk.bar(1, 0, 0xffff_f000);
    disk.bar(4, 0xfe00_4000, 0xffff_c000);
    fake.add(0x28, disk);
    let mut teacher = Device::new(TEACHER, 0x00ff_0010);
    teacher.bar(0, 0xfd00_0000, 0xfff0_0000);
    teacher.bar(1, 0xfe10_0100, 0xffff_ff00);
    teacher.words[1] = command::CAPABILITIES;
    teacher.words[0x34 / 4] = 0x50;
    teacher.words[0x50 / 4] = 0x0080_0005;
    fake.add(0x30, teacher);
    let mut neighbour = Device::new(0x1, 0);
    neighbour.bar(0, 0xfe10_0200, 0xffff_ff00);
    fake.add(0x38, neighbour);
    Bus::new(fake, Told::default())
}

#[test]
fn a_badge_leads_to_one_function_and_nowhere_else() {
    let bus = bus();
    let address = |badge| bus.describe(badge, 3).map(|function| function.address);
    assert_eq!(address(DISK as u64), Ok(0x20));
    assert_eq!(address(DISK as u64 | 1 << 32), Ok(0x28));
    assert_eq!(address(DISK as u64 | 2 << 32), Err(ENODEV));
    assert_eq!(address(0), Err(ENODEV));
    assert_eq!(address(ALL), Ok(0x38));
    assert_eq!(bus.describe(ALL, 4), Err(ENODEV));
    assert_eq!(bus.describe(ALL, 0).map(|f| f.count), Ok(4));
}

#[test]
fn a_window_is_shown_to_its_driver_and_decoded() {
    let mut bus = bus();
    let (address, length) = bus.show_window(DISK as u64, 77, 4).unwrap();
    assert_eq!(length, 0x4000);
    assert_eq!(
        bus.outside.shown,
        vec![(Some(77), address, 0xfe00_0000, 0x4000)]
    );
    assert!(address >= DEVICES + 64 * DEVICE_RANGE);
    assert_eq!(bus.config.device(0x20).words[1] & 0xffff, command::MEMORY);
    assert_eq!(bus.config.device(0x28).words[1] & 0xffff, 0);
    // Nothing without an address, nothing that is no register.
    for (badge, bar) in [
        (DISK as u64 | 1 << 32, 1),
        (DISK as u64, 0),
        (DISK as u64, 6),
    ] {
        assert_eq!(bus.show_window(badge, 77, bar), Err(ENXIO));
    }
    // Another function's registers are in the same page.
    assert_eq!(bus.show_window(TEACHER as u64, 77, 1), Err(EACCES));
    assert_eq!(bus.outside.shown.len(), 1);
}

#[test]
fn messages_go_into_the_table() {
    let mut bus = bus();
    assert_eq!(bus.set_message(DISK as u64, 2, 9), Ok(()));
    let (domain, address, physical, length) = bus.outside.shown[0];
    assert_eq!((domain, physical, length), (None, 0xfebd_1000, PAGE));
    let entry = address + 0x800 + 32;
    let expected = [
        (entry + 12, 1),
        (entry, 0xfee0_1000),
        (entry + 4, 0),
        (entry + 8, 0x77),
        (entry + 12, 0),
    ];
    assert_eq!(bus.outside.written, expected);
    let words = bus.config.device(0x20).words;
    assert_eq!(words[0x40 / 4] >> 30, 2);
    assert_eq!(words[1] & 0xffff, command::MEMORY | command::NO_LINE);
    assert_eq!(
        bus.set_message(DISK as u64, 4, 9),
        Err(ENXIO),
        "it has four"
    );
    assert_eq!(
        bus.set_message(DISK as u64, 0, 8),
        Err(EINVAL),
        "no such interrupt"
    );
    // Its table is nowhere.
    assert_eq!(bus.set_message(DISK as u64 | 1 << 32, 0, 9), Err(ENXIO));
}

#[test]
fn who_may_be_master_belongs_to_the_driver_first() {
    let mut bus = bus();
    bus.outside.refuses = true;
    assert_eq!(bus.set_master(DISK as u64, 77, true), Err(EIO));
    assert_eq!(bus.config.device(0x20).words[1] & command::MASTER, 0);
    bus.outside.refuses = false;
    assert_eq!(bus.set_master(DISK as u64, 77, true), Ok(()));
    assert_eq!(bus.outside.attached, [(77, 0x20)]);
    assert_ne!(bus.config.device(0x20).words[1] & command::MASTER, 0);
    assert_eq!(bus.set_master(DISK as u64, 77, false), Ok(()));
    assert_eq!(bus.config.device(0x20).words[1] & command::MASTER, 0);
    assert_eq!(bus.set_master(1 << 40, 77, true), Err(ENODEV));
}

#[test]
fn a_function_with_one_message_has_it_in_its_registers() {
    let mut bus = bus();
    assert_eq!(bus.set_message(TEACHER as u64, 1, 9), Err(ENXIO));
    assert_eq!(bus.set_message(TEACHER as u64, 0, 9), Ok(()));
    let words = bus.config.device(0x30).words;
    assert_eq!(words[0x54 / 4], 0xfee0_1000);
    assert_eq!((words[0x58 / 4], words[0x5c / 4]), (0, 0x77));
    assert_eq!(words[0x50 / 4] >> 16, 0x81);
}
