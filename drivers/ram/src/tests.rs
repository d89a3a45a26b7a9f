//! Orders of all forms on an arena in memory.

use super::*;
use std::vec;
use std::vec::Vec;

/// One arena, number 5, whose page 9 is not there; copies of at most 1,000 bytes.
struct Fake(Vec<u8>);

impl Fake {
    fn place(&self, arena: u32, at: u64, length: usize) -> Option<std::ops::Range<usize>> {
        assert!(arena == 5 && length <= Self::MOST);
        let at = at as usize;
        let missing = 9 * PAGE..10 * PAGE;
        let hits = at < missing.end && missing.start < at + length;
        (!hits && at + length <= self.0.len()).then_some(at..at + length)
    }
}

impl Arenas for Fake {
    const MOST: usize = 1000;
    fn read(&mut self, arena: u32, at: u64, into: &mut [u8]) -> bool {
        let place = self.place(arena, at, into.len());
        place
            .map(|place| into.copy_from_slice(&self.0[place]))
            .is_some()
    }
    fn write(&mut self, arena: u32, at: u64, from: &[u8]) -> bool {
        let place = self.place(arena, at, from.len());
        place
            .map(|place| self.0[place].copy_from_slice(from))
            .is_some()
    }
}

fn order(kind: Kind, sector: u64, bytes: u64, pages: &[u32], offset: u32) -> Order<'_> {
    Order {
        kind,
        sector,
        bytes,
        arena: 5,
        pages,
        offset,
        kept: 0,
    }
}

#[test]
fn what_is_written_is_read_again() {
    let mut memory = vec![0; 64 * 512];
    let arena: Vec<u8> = (0..12 * PAGE).map(|i| (i / 512 + 1) as u8).collect();
    let mut ram = Ram::new(&mut memory, Fake(arena));
    assert_eq!(ram.info().sectors, 64);
    // Pages 3, 4 and 1, from byte 512 of the first on.
    let bytes = 2 * PAGE as u64 + 1024;
    assert!(ram.start(7, &order(Kind::Write, 8, bytes, &[3, 4, 1], 512)));
    assert_eq!(ram.completed(), Some((7, Outcome::Done)));
    assert_eq!(ram.completed(), None);
    let sectors: Vec<u8> = ram.memory.chunks(512).map(|s| s[511]).collect();
    let expected: Vec<u8> = (25 + 1..33).chain(33..41).chain(9..12).collect();
    assert_eq!(sectors[8..8 + 18], expected[..18]);
    assert!(sectors[..8].iter().chain(&sectors[26..]).all(|&s| s == 0));
    assert!(ram.start(1, &order(Kind::Read, 9, 512, &[0], 1024)));
    assert_eq!(ram.arenas.0[1024..1536], [27; 512]);
    assert_eq!((ram.arenas.0[1023], ram.arenas.0[1536]), (2, 4));
    assert!(ram.start(2, &order(Kind::Flush, 0, 0, &[], 0)));
}

#[test]
fn what_cannot_be_fails() {
    let mut memory = vec![0; 64 * 512];
    let mut ram = Ram::new(&mut memory, Fake(vec![1; 12 * PAGE]));
    let page = PAGE as u64;
    for bad in [
        order(Kind::Write, 0, page, &[9], 0),
        order(Kind::Read, 0, page, &[9], 0),
        order(Kind::Read, 0, page, &[12], 0),
        order(Kind::Read, 63, page, &[0], 0),
        order(Kind::Read, u64::MAX, page, &[0], 0),
        order(Kind::Read, 0, 2 * page, &[0], 0),
        order(Kind::Read, 0, page, &[0], 5000),
        order(Kind::Read, 0, 2 * page, &[u32::MAX, 0], 0),
        order(Kind::Discard, 0, page, &[], 0),
    ] {
        assert!(!ram.start(1, &bad), "{bad:?}");
    }
    assert_eq!(ram.completed(), None);
}
