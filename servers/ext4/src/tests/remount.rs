//! REMOUNT: read only and back again.

use super::common::{make, must_be_clean};
use super::machine::{Machine, Shape, USUAL};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o};
use cairn_idl::mounts::mount::{NO_ACCESS_TIMES, READ_ONLY};
use std::format;

impl Machine {
    pub fn remount(&mut self, flags: u64) -> i64 {
        self.result(0, &[fs::REMOUNT, flags], b"")
    }

    fn is_clean(&mut self) {
        let image = self.disk.borrow().bytes.clone();
        must_be_clean(&image);
    }
}

#[test]
fn read_only_is_clean_and_goes_on_afterwards() {
    for seed in 1..4 {
        let mut machine = Machine::new(make(4096, 32, &[], None), USUAL, seed);
        for round in 0..6_u8 {
            let name = format!("f{}", round % 4);
            let made = o::CREAT | o::RDWR;
            let file = machine.open_file(name.as_bytes(), made, 0o640).unwrap();
            let bytes = [round; 9000];
            assert_eq!(
                machine.write_at(file, u64::from(round) * 1000, &bytes),
                9000
            );
            assert_eq!(machine.remount(READ_ONLY), -EBUSY);
            machine.bench.close(file);
            if round == 4 {
                assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"f1"), 0);
            }
            assert_eq!(machine.remount(READ_ONLY), 0);
            machine.is_clean();
            assert_eq!(machine.open_file(b"f0", o::WRONLY, 0).err(), Some(-EROFS));
            assert_eq!(machine.result(0, &[fs::MKDIR, 0o755], b"d"), -EROFS);
            assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"f0"), -EROFS);
            assert_eq!(machine.result(0, &[fs::CHMOD, 0o600], b"f0"), -EROFS);
            assert_eq!(machine.result(0, &[fs::TRUNCATE, 0], b"f0"), -EROFS);
            let data = machine.read(name.as_bytes()).unwrap();
            assert!(data[usize::from(round) * 1000..] == bytes);
            // Nobody notes that.
            machine.wait();
            machine.is_clean();
            assert_eq!(machine.remount(READ_ONLY | NO_ACCESS_TIMES), 0);
            assert_eq!(machine.remount(0), 0);
        }
        let image = machine.close();
        must_be_clean(&image);
        let mut machine = Machine::new(image, USUAL, seed);
        assert_eq!(machine.read(b"f3").unwrap()[3000..], [3; 9000]);
    }
}

#[test]
fn what_was_mounted_read_only_can_be_written_later() {
    let shape = Shape {
        read_only: true,
        ..USUAL
    };
    let mut machine = Machine::new(make(4096, 32, &[], None), shape, 3);
    let made = o::CREAT | o::RDWR;
    assert_eq!(machine.open_file(b"f", made, 0o640).err(), Some(-EROFS));
    assert_eq!(machine.remount(0), 0);
    let file = machine.open_file(b"f", made, 0o640).unwrap();
    assert_eq!(machine.write_at(file, 0, b"late"), 4);
    machine.bench.close(file);
    let image = machine.close();
    must_be_clean(&image);
    assert_eq!(Machine::new(image, USUAL, 3).read(b"f").unwrap(), b"late");
}

#[test]
fn a_log_that_was_not_emptied_keeps_it_read_only() {
    let mut machine = Machine::new(make(4096, 32, &[], None), USUAL, 3);
    assert_eq!(machine.result(0, &[fs::MKDIR, 0o755], b"d"), 0);
    assert_eq!(machine.result(0, &[fs::SYNC, 0], b""), 0);
    let shape = Shape {
        read_only: true,
        ..USUAL
    };
    let mut machine = Machine::new(machine.kill(), shape, 3);
    assert_eq!(machine.remount(0), -EROFS);
    assert_eq!(machine.remount(READ_ONLY), 0);
    let shape = Shape {
        protected: true,
        ..shape
    };
    let mut machine = Machine::new(make(4096, 32, &[], None), shape, 3);
    assert_eq!(machine.remount(0), -EACCES);
}

#[test]
fn who_would_write_in_vain_holds_it_up() {
    let mut machine = Machine::new(make(4096, 32, &[], None), USUAL, 3);
    let made = o::CREAT | o::RDWR;
    let file = machine.open_file(b"f", made, 0o640).unwrap();
    assert_eq!(machine.write_at(file, 0, &[7; 5000]), 5000);
    // Mapped shared and writable, and closed.
    let object = machine.map(file);
    machine.bench.close(file);
    assert_eq!(machine.remount(READ_ONLY), -EBUSY);
    machine.unmap(object);
    assert_eq!(machine.remount(READ_ONLY), 0);
    assert_eq!(machine.remount(0), 0);
    // Open without a name, if only to be read.
    let file = machine.open_file(b"f", o::RDONLY, 0).unwrap();
    assert_eq!(machine.result(0, &[fs::UNLINK, 0], b"f"), 0);
    assert_eq!(machine.remount(READ_ONLY), -EBUSY);
    machine.bench.close(file);
    assert_eq!(machine.remount(READ_ONLY), 0);
    machine.is_clean();
    // Who may.
    assert_eq!(machine.result(0, &[fs::REMOUNT, 1 << 40], b""), -EINVAL);
    machine.bench.label = 7;
    assert_eq!(machine.remount(0), -EPERM);
}

#[test]
fn nothing_is_begun_while_it_becomes_read_only() {
    let mut machine = Machine::new(make(4096, 32, &[], None), USUAL, 3);
    let made = o::CREAT | o::RDWR;
    let file = machine.open_file(b"f", made, 0o640).unwrap();
    assert_eq!(machine.write_at(file, 0, &[7; 50_000]), 50_000);
    machine.bench.close(file);
    let token = machine.bench.send(0, &[fs::REMOUNT, READ_ONLY], b"", 0);
    assert!(
        machine.bench.answer(token).is_none(),
        "the disk is waited for"
    );
    assert_eq!(machine.open_file(b"f", o::WRONLY, 0).err(), Some(-EROFS));
    assert_eq!(machine.result(0, &[fs::MKDIR, 0o755], b"d"), -EROFS);
    assert_eq!(machine.finish(token).result(), 0);
    machine.is_clean();
    assert_eq!(machine.remount(0), 0);
    // Who asked is killed meanwhile: others can write.
    assert_eq!(machine.result(0, &[fs::MKDIR, 0o755], b"d"), 0);
    let token = machine.bench.send(0, &[fs::REMOUNT, READ_ONLY], b"", 0);
    machine.bench.die(token);
    assert_eq!(machine.result(0, &[fs::MKDIR, 0o755], b"e"), 0);
}

#[test]
fn a_disk_that_fails_then_is_written_no_more() {
    let mut machine = Machine::new(make(4096, 32, &[], None), USUAL, 3);
    assert_eq!(machine.result(0, &[fs::MKDIR, 0o755], b"d"), 0);
    machine.disk.borrow_mut().fail_writes = true;
    assert_eq!(machine.remount(READ_ONLY), -EIO);
    machine.disk.borrow_mut().fail_writes = false;
    assert_eq!(machine.remount(READ_ONLY), 0);
    assert_eq!(machine.remount(0), -EROFS);
}
