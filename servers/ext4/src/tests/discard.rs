//! FITRIM and `-o discard`: who may, what comes of it, and when.

use super::common::{make, must_be_clean};
use super::machine::{Machine, Shape, USUAL};
use super::plain::pattern;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o};
use cairn_idl::mounts::mount::{DISCARD, READ_ONLY};

const MIB: u64 = 1 << 20;
const DISCARDS: Shape = Shape {
    discards: true,
    ..USUAL
};

fn discarded(machine: &Machine) -> u64 {
    machine.disk.borrow().discarded as u64
}

#[test]
fn what_is_free_is_discarded_when_somebody_asks() {
    let mut machine = Machine::new(make(4096, 32, &[], None), DISCARDS, 1);
    let data = pattern(3, 5_000_000);
    let badge = machine.open_file(b"a", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(machine.write_at(badge, 0, &data), 5_000_000);
    let all = machine.trim(0, u64::MAX, 0).unwrap();
    let space = machine.bench.server.fs.space();
    let free = space.free * u64::from(space.block_size);
    assert!(all > 20 * MIB && all == discarded(&machine), "{all}");
    // What was only promised for delayed data is free as yet.
    assert!(all >= free && all <= free + 6 * MIB, "{all} {free}");
    assert_eq!(machine.read(b"a").unwrap(), data);
    assert_eq!(machine.sync(), 0);
    // Parts, and what is too short to be worth it.
    let part = machine.trim(20 * MIB, MIB, 0).unwrap();
    assert_eq!(part, MIB);
    let whole = machine.trim(0, u64::MAX, 100 * MIB).unwrap();
    assert_eq!(whole, 0);
    let range = |machine: &mut Machine, start, length, least| machine.trim(start, length, least);
    assert_eq!(range(&mut machine, 32 * MIB, MIB, 0), Err(-EINVAL));
    assert_eq!(range(&mut machine, 0, 4095, 0), Err(-EINVAL));
    assert_eq!(range(&mut machine, 0, MIB, 1 << 40), Err(-EINVAL));
    machine.bench.label = 1000;
    assert_eq!(machine.trim(0, MIB, 0), Err(-EPERM));
    machine.bench.label = 0;
    assert_eq!(machine.remount(READ_ONLY), -EBUSY);
    machine.bench.close(badge);
    assert_eq!(machine.remount(READ_ONLY), 0);
    assert_eq!(machine.trim(0, MIB, 0), Err(-EROFS));
    assert_eq!(machine.remount(0), 0);
    // Who asks and goes leaves nothing behind.
    let handle = machine.open_file(b"", o::DIRECTORY, 0).unwrap();
    let words = [0, u64::MAX, 0].map(u64::to_le_bytes);
    let request = [fs::IOCTL, 0xc018_5879, 0];
    let token = machine
        .bench
        .send(handle, &request, words.as_flattened(), 24);
    machine.bench.die(token);
    let badge = machine.open_file(b"b", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(machine.write_at(badge, 0, &data), 5_000_000);
    assert_eq!(machine.read(b"b").unwrap(), data);
    assert_eq!(
        machine.result(handle, &[fs::IOCTL, 0x5401, 0], b""),
        -ENOTTY
    );
    must_be_clean(&machine.close());
    let mut machine = Machine::new(make(4096, 32, &[], None), USUAL, 1);
    assert_eq!(machine.trim(0, MIB, 0), Err(-EOPNOTSUPP));
}

#[test]
fn what_a_commit_has_freed_is_discarded_then_and_not_before() {
    let shape = Shape {
        discard: true,
        ..DISCARDS
    };
    let mut machine = Machine::new(make(4096, 32, &[], None), shape, 2);
    for round in 0..2 {
        let badge = machine.open_file(b"a", o::CREAT | o::RDWR, 0o644).unwrap();
        assert_eq!(machine.write_at(badge, 0, &pattern(3, 4 << 20)), 4 << 20);
        assert_eq!(machine.sync(), 0);
        machine.bench.close(badge);
        let before = discarded(&machine);
        assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"a"), 0);
        while machine.turn() {}
        assert_eq!(discarded(&machine), before, "it may come back");
        assert_eq!(machine.sync(), 0);
        while machine.turn() {}
        let after = discarded(&machine) - before;
        let expected = if round == 0 { 4 * MIB } else { 0 };
        assert!((expected..expected + MIB).contains(&after), "{after}");
        // No longer; and a device that cannot is not asked.
        assert_eq!(machine.remount(0), 0);
    }
    assert_eq!(machine.remount(DISCARD), 0);
    must_be_clean(&machine.close());
    let cannot = Shape {
        discards: false,
        ..shape
    };
    let mut machine = Machine::new(make(4096, 32, &[], None), cannot, 2);
    let badge = machine.open_file(b"a", o::CREAT | o::RDWR, 0o644).unwrap();
    assert_eq!(machine.write_at(badge, 0, &pattern(3, 4 << 20)), 4 << 20);
    assert_eq!(machine.result(badge, &[fs::TRUNCATE, 0], b""), 0);
    must_be_clean(&machine.close());
}
