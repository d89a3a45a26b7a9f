//! What has arrived out of order (RFC 9293, 3.10.7.4; RFC 2018, 4): ranges beyond RCV.NXT, of which only so many are kept, and which of them arrived last. The bytes are the caller's.
//!
//! What always holds: ranges are not empty, lie in order, and do not touch each other.

use crate::segment::Block;
use crate::seq::Seq;

/// Ranges that are kept. A segment that would make one more is not taken, and is sent again.
pub const RANGES: usize = 16;
/// How many of the last arrivals are remembered for the order of SACK blocks.
const RECENT: usize = 4;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Reassembly {
    ranges: [Block; RANGES],
    recent: [Seq; RECENT],
    count: u8,
    recent_count: u8,
    unused: [u8; 2],
}

/// What became of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// It is new, at least in part.
    New,
    /// All of it was there.
    Duplicate,
    /// There are too many ranges.
    NoRoom,
}

impl Reassembly {
    pub const EMPTY: Reassembly = Reassembly {
        ranges: [(Seq(0), Seq(0)); RANGES],
        recent: [Seq(0); RECENT],
        count: 0,
        recent_count: 0,
        unused: [0; 2],
    };

    /// In order of sequence numbers.
    pub fn ranges(&self) -> &[Block] {
        &self.ranges[..usize::from(self.count).min(RANGES)]
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Add a range that is not empty.
    pub fn insert(&mut self, start: Seq, end: Seq) -> Inserted {
        let ranges = self.ranges();
        // Those from `first` to before `last` overlap or touch the new one.
        let first = ranges
            .iter()
            .take_while(|range| range.1.before(start))
            .count();
        let touching = ranges[first..]
            .iter()
            .take_while(|range| range.0.at_or_before(end))
            .count();
        let last = first + touching;
        if touching == 0 {
            if ranges.len() == RANGES {
                return Inserted::NoRoom;
            }
            let count = ranges.len();
            self.ranges.copy_within(first..count, first + 1);
            self.ranges[first] = (start, end);
            self.count += 1;
        } else {
            let (low, high) = (ranges[first].0, ranges[last - 1].1);
            if touching == 1 && low.at_or_before(start) && end.at_or_before(high) {
                self.remember(start);
                return Inserted::Duplicate;
            }
            let count = ranges.len();
            self.ranges[first] = (low.earlier(start), high.later(end));
            self.ranges.copy_within(last..count, first + 1);
            self.count -= (touching - 1) as u8;
        }
        self.remember(start);
        Inserted::New
    }

    fn remember(&mut self, start: Seq) {
        self.recent.copy_within(..RECENT - 1, 1);
        self.recent[0] = start;
        self.recent_count = (self.recent_count + 1).min(RECENT as u8);
    }

    /// RCV.NXT, moved over all that is there without a gap; what lies before it goes.
    pub fn advance(&mut self, mut next: Seq) -> Seq {
        let mut gone = 0;
        for range in self.ranges() {
            if range.0.after(next) {
                break;
            }
            next = next.later(range.1);
            gone += 1;
        }
        if gone > 0 {
            let count = self.ranges().len();
            self.ranges.copy_within(gone..count, 0);
            self.count -= gone as u8;
        }
        next
    }

    /// The range with this number, if any.
    fn containing(&self, seq: Seq) -> Option<Block> {
        self.ranges()
            .iter()
            .copied()
            .find(|range| range.0.at_or_before(seq) && seq.before(range.1))
    }

    /// Ranges as SACK blocks: that of the segment that arrived last comes first, then those that were reported most recently (RFC 2018, 4).
    pub fn report(&self, mut add: impl FnMut(Block) -> bool) {
        if self.ranges().is_empty() {
            return;
        }
        let mut told = [(Seq(0), Seq(0)); RANGES];
        let mut count = 0;
        let recent = &self.recent[..usize::from(self.recent_count).min(RECENT)];
        let latest = recent.iter().filter_map(|seq| self.containing(*seq));
        for block in latest.chain(self.ranges().iter().copied()) {
            if told[..count].contains(&block) {
                continue;
            }
            if count == RANGES || !add(block) {
                return;
            }
            told[count] = block;
            count += 1;
        }
    }

    /// Does everything hold that always holds? Of memory that a server finds again.
    pub fn holds(&self) -> bool {
        usize::from(self.count) <= RANGES
            && usize::from(self.recent_count) <= RECENT
            && self.ranges().iter().all(|range| range.0.before(range.1))
            && self
                .ranges()
                .windows(2)
                .all(|pair| pair[0].1.before(pair[1].0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a set of bytes, wherever in the circle.
        #[test]
        fn is_a_set_of_bytes(base: u32, inserts in prop::collection::vec((1..400u32, 1..40u32), 1..60)) {
            let base = Seq(base);
            let mut reassembly = Reassembly::EMPTY;
            let mut bytes = [false; 500];
            for (start, length) in inserts {
                let range = start as usize..(start + length) as usize;
                match reassembly.insert(base + start, base + start + length) {
                    Inserted::New => {
                        prop_assert!(bytes[range.clone()].contains(&false));
                        bytes[range].fill(true);
                    }
                    Inserted::Duplicate => prop_assert!(!bytes[range].contains(&false)),
                    Inserted::NoRoom => prop_assert_eq!(reassembly.ranges().len(), RANGES),
                }
                prop_assert!(reassembly.holds());
                let mut seen = [false; 500];
                for (start, end) in reassembly.ranges() {
                    seen[start.since(base) as usize..end.since(base) as usize].fill(true);
                }
                prop_assert_eq!(seen, bytes);
                let mut told = 0;
                reassembly.report(|_| { told += 1; true });
                prop_assert_eq!(told, reassembly.ranges().len());
            }
            let next = reassembly.advance(base + 1);
            let expected = 1 + bytes[1..].iter().take_while(|there| **there).count() as u32;
            prop_assert_eq!(next.since(base), expected);
            prop_assert!(reassembly.holds());
        }
    }

    #[test]
    fn the_last_arrival_is_reported_first() {
        let mut reassembly = Reassembly::EMPTY;
        for start in [10, 30, 20] {
            reassembly.insert(Seq(start), Seq(start + 5));
        }
        let mut order = [0; 3];
        let mut count = 0;
        reassembly.report(|block| {
            order[count] = block.0 .0;
            count += 1;
            true
        });
        assert_eq!(order, [20, 30, 10]);
    }
}
