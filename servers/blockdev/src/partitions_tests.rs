//! Partitions that are read again, or changed.

use super::*;

const REREAD: [u64; 3] = [fs::IOCTL, 0x125f, 0];

impl World {
    /// A table of primary partitions: number, first sector, sectors.
    fn write_table(&mut self, whole: u64, table: &[(u32, u32, u32)]) {
        let mut block = vec![0; 512];
        block[510..].copy_from_slice(&[0x55, 0xaa]);
        for &(number, first, sectors) in table {
            let at = 446 + 16 * (number as usize - 1);
            block[at + 4] = 0x83;
            block[at + 8..at + 12].copy_from_slice(&first.to_le_bytes());
            block[at + 12..at + 16].copy_from_slice(&sectors.to_le_bytes());
        }
        assert_eq!(self.write(whole, 0, &block), 512);
    }

    fn change(&mut self, handle: u64, what: u64, number: u64, start: u64, length: u64) -> i64 {
        let words = [what, start, length, number].map(u64::to_le_bytes);
        let request = [fs::IOCTL, 0x1269, 0];
        self.call(handle, &request, words.as_flattened(), 0).0
    }

    /// First sector and length by name.
    fn parts(&self) -> Vec<(String, u64, u64)> {
        let parts = self.bench.server.disks().there();
        let all = parts.map(|(_, it)| (it.name.clone(), it.first, it.sectors));
        let mut all: Vec<_> = all.collect();
        all.sort();
        all.remove(0);
        all
    }
}

fn part(name: &str, first: u64, sectors: u64) -> (String, u64, u64) {
    (name.into(), first, sectors)
}

#[test]
fn a_table_is_read_again_when_nobody_has_a_partition() {
    let mut w = world();
    let whole = w.open(b"vda");
    w.write_table(whole, &[(2, 50, 60), (3, 2000, 90)]);
    let old = w.open(b"vda3");
    assert_eq!(w.call(old, &REREAD, b"", 0).0, -EINVAL, "no disk");
    assert_eq!(w.call(whole, &REREAD, b"", 0).0, -EBUSY, "open");
    w.bench.close(old);
    w.disk.0.borrow_mut().mounted = true;
    assert_eq!(w.call(whole, &REREAD, b"", 0).0, -EBUSY, "mounted");
    assert_eq!(w.parts(), [part("vda1", 100, 1000), part("vda3", 2000, 9)]);
    w.disk.0.borrow_mut().mounted = false;
    assert_eq!(w.call(whole, &REREAD, b"", 0).0, 0);
    assert_eq!(w.parts(), [part("vda2", 50, 60), part("vda3", 2000, 90)]);
    let told = w.disk.0.borrow().tables.last().cloned();
    assert_eq!(told, Some((true, vec![(2, 50, 60), (3, 2000, 90)])));
    assert_eq!(w.bench.open(b"vda1", o::RDONLY, 0), Err(-ENOENT));
    let new = w.open(b"vda2");
    let expected = w.on_disk(50 * 512, 60 * 512);
    assert_eq!(w.read(new, 0, 100_000), Ok(expected));
    w.bench.close(new);
    // Without a table there is none; who asks for less than he may has asked for nothing.
    assert_eq!(w.write(whole, 0, &[0; 512]), 512);
    w.bench.label = 1000;
    assert_eq!(w.call(whole, &REREAD, b"", 0).0, -EACCES);
    w.bench.label = 0;
    assert_eq!(w.call(whole, &REREAD, b"", 0).0, 0);
    assert_eq!(w.parts(), []);
}

#[test]
fn partitions_are_changed_one_by_one() {
    let mut w = world();
    let (add, remove, resize) = (1, 2, 3);
    let whole = w.open(b"vda");
    let held = w.open(b"vda1");
    assert_eq!(w.change(whole, add, 2, 1200 * 512, 512 * 100), 0);
    for (what, number, start, length, expected) in [
        (add, 2, 1300, 5, EBUSY),
        (add, 4, 1299, 5, EBUSY),
        (add, 0, 1300, 5, EINVAL),
        (add, 16, 1300, 5, EINVAL),
        (add, 4, 1300, 0, EINVAL),
        (add, 4, 4000, 97, EINVAL),
        (add, 4, u64::MAX / 512, 5, EINVAL),
        (remove, 1, 0, 0, EBUSY),
        (remove, 4, 0, 0, ENXIO),
        (resize, 4, 1300, 5, ENXIO),
        (resize, 2, 1201, 5, EINVAL),
        (resize, 2, 1200, 801, EBUSY),
        (7, 2, 1200, 5, EINVAL),
    ] {
        let result = w.change(whole, what, number, start * 512, length * 512);
        assert_eq!(result, -expected, "{what} {number} {start} {length}");
    }
    assert_eq!(w.change(held, add, 4, 1300 * 512, 512), -EINVAL);
    assert_eq!(w.change(whole, add, 4, 1300 * 512 + 1, 512), -EINVAL);
    assert_eq!(w.change(whole, resize, 1, 100 * 512, 512 * 1100), 0, "held");
    assert_eq!(w.bench.result(held, &[fs::SEEK, 0, 2], b""), 1100 * 512);
    assert_eq!(w.change(whole, remove, 3, 0, 0), 0);
    let expected = [part("vda1", 100, 1100), part("vda2", 1200, 100)];
    assert_eq!(w.parts(), expected);
    assert!(w.disk.0.borrow().tables.iter().all(|(alone, _)| !alone));
}

#[test]
fn a_disk_that_has_grown_is_as_long_as_it_is() {
    let mut w = world();
    let whole = w.open(b"vda");
    w.disk.0.borrow_mut().sectors = SECTORS - 96;
    w.turn();
    let end = (SECTORS - 96) * 512;
    assert_eq!(w.bench.result(whole, &[fs::SEEK, 0, 2], b""), end as i64);
    assert_eq!(w.read(whole, end - 5, 100).map(|bytes| bytes.len()), Ok(5));
    w.disk.0.borrow_mut().sectors = SECTORS;
    w.turn();
    assert_eq!(
        w.read(whole, end - 5, 100).map(|bytes| bytes.len()),
        Ok(100)
    );
}
