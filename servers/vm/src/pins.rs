//! How often a driver has pinned each frame.
//!
//! Counts lie in tables of [`ROW`] frames, and frames in a row are counted together, so that pinning and unpinning neighbours takes a few instructions for each. A table that was once needed stays until the driver lets go of everything: 1 KiB for 2 MiB.

use crate::nucleus::Frame;
use crate::stat::EVERY_REQUEST;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use cairn_idl::vm::PIN_FEW;

/// Frames of a table.
const ROW: u32 = 512;
/// Heap that a table takes.
pub const TABLE_BYTES: usize = 1024 + 256;
/// Tables for few frames fit into what every request has.
const _: () = assert!(PIN_FEW as usize * TABLE_BYTES < EVERY_REQUEST);

/// 16 bits are enough: a driver pins fewer than 65,536 pages in all.
type Table = Box<[u16; ROW as usize]>;

#[derive(Default)]
pub struct Pins {
    tables: BTreeMap<u32, Table>,
    total: usize,
}

/// How many of these at the beginning are one behind the other.
pub fn row(numbers: &[u32]) -> usize {
    let Some(&first) = numbers.first() else {
        return 0;
    };
    let expected = (0..).map(|i| first.wrapping_add(i));
    let row = numbers.iter().zip(expected);
    row.take_while(|(number, expected)| **number == *expected)
        .count()
}

/// Cut into such rows.
pub fn in_rows(mut frames: &[Frame]) -> impl Iterator<Item = &[Frame]> {
    core::iter::from_fn(move || {
        let row;
        (row, frames) = frames.split_at_checked(row_or_end(frames)?)?;
        Some(row)
    })
}

fn row_or_end(frames: &[Frame]) -> Option<usize> {
    Some(row(frames)).filter(|&length| length > 0)
}

impl Pins {
    /// Pins in all.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Most heap that it takes to [`Pins::add`] these.
    pub fn growth(&self, frames: &[Frame]) -> usize {
        let tables = in_rows(frames).flat_map(|row| row[0] / ROW..=row[row.len() - 1] / ROW);
        let new = |number: &u32| !self.tables.contains_key(number);
        tables.filter(new).count() * TABLE_BYTES
    }

    /// Frames in a row.
    pub fn add(&mut self, row: &[Frame]) {
        self.total += row.len();
        let mut rest = row;
        while let Some(first) = rest.first() {
            let table = self.tables.entry(first / ROW);
            let table = table.or_insert_with(|| Box::new([0; ROW as usize]));
            let counts = &mut table[(first % ROW) as usize..];
            let length = rest.len().min(counts.len());
            counts[..length].iter_mut().for_each(|count| *count += 1);
            rest = &rest[length..];
        }
    }

    /// One pin less of each; the list gets another order. How many of them were pinned, which come first, and how many of those are not pinned any more, first of all.
    pub fn take(&mut self, list: &mut [Frame]) -> (usize, usize) {
        let (mut known, mut last, mut next) = (0, 0, 0);
        while let Some(&first) = list.get(next) {
            let number = first / ROW;
            let mut table = self.tables.get_mut(&number);
            // Most often all are known, each is pinned once, and nothing moves.
            while let (true, Some(table)) = (next == last, &mut table) {
                let Some(&frame) = list.get(next).filter(|&frame| frame / ROW == number) else {
                    break;
                };
                let behind = &table[(frame % ROW) as usize..];
                let row = list[next..].iter().zip(frame..).zip(behind);
                let row = row.take_while(|((&a, b), count)| a == *b && **count == 1);
                let length = row.count();
                if length == 0 {
                    break;
                }
                table[(frame % ROW) as usize..][..length].fill(0);
                next += length;
                (known, last) = (next, next);
            }
            while let Some(&frame) = list.get(next).filter(|&frame| frame / ROW == number) {
                let count = table
                    .as_mut()
                    .map(|table| &mut table[(frame % ROW) as usize]);
                if let Some(count) = count.filter(|count| **count > 0) {
                    *count -= 1;
                    let gone = *count == 0;
                    if next != known {
                        list.swap(next, known);
                    }
                    if gone {
                        if known != last {
                            list.swap(known, last);
                        }
                        last += 1;
                    }
                    known += 1;
                }
                next += 1;
            }
        }
        self.total -= known;
        (known, last)
    }

    /// Pinned frames from this one on, and how often.
    pub fn from(&self, first: Frame) -> impl Iterator<Item = (Frame, u16)> + '_ {
        let tables = self.tables.range(first / ROW..);
        let each = |(number, table): (&u32, &'_ Table)| (number * ROW, **table);
        tables
            .map(each)
            .flat_map(|(base, table)| (base..).zip(table))
            .filter(move |&(frame, count)| count > 0 && frame >= first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn pins_are_counted_and_given_back_once() {
        let mut pins = Pins::default();
        let frames = [700, 701, 5, 701, 100_000];
        assert_eq!(pins.growth(&frames), 4 * TABLE_BYTES, "at most");
        in_rows(&frames).for_each(|row| pins.add(row));
        assert_eq!(pins.growth(&frames), 0);
        assert_eq!(pins.total(), 5);
        let held: Vec<_> = pins.from(6).collect();
        assert_eq!(held, [(700, 1), (701, 2), (100_000, 1)]);
        let mut list = [6, 701, 100_001, 9_000_000, 5, 700, 700];
        let (known, last) = pins.take(&mut list);
        assert_eq!((known, last), (3, 2));
        assert_eq!(list[2], 701, "still pinned once");
        let mut gone = [list[0], list[1]];
        gone.sort_unstable();
        assert_eq!(gone, [5, 700]);
        assert_eq!(pins.total(), 2);
        assert_eq!(pins.take(&mut [701, 100_000, 701]), (2, 2));
        // In a row, over the end of a table; one of them twice.
        let frames: Vec<Frame> = (1000..1100).collect();
        pins.add(&frames);
        pins.add(&[1050]);
        let mut list = frames.clone();
        assert_eq!(pins.take(&mut list), (100, 99));
        assert_eq!(list[99], 1050);
        assert_eq!(pins.take(&mut [1049, 1050]), (1, 1));
        assert_eq!((pins.total(), pins.from(0).count()), (0, 0));
    }
}
