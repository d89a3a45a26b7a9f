//! Read-ahead: who reads in order gets what comes next before asking for it, in pieces that grow as long as that goes on; who jumps about gets nothing that was not asked for.

use core::ops::Range;

/// Pages that the first read in order brings beyond itself, and the most that are ever ahead (1 MiB: one large request).
pub const FIRST: u64 = 16;
pub const MOST: u64 = 256;

/// One reader's way through a file (kept with the open file, not with the file: several readers do not disturb each other).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The page behind the last one that was read.
    next: u64,
    /// How far ahead to be; 0 for a reader that jumps about.
    window: u64,
    /// Everything below was asked for already.
    asked: u64,
}

impl Stream {
    /// Pages `first..first + count` are read; the file has `pages` pages. What should be brought beyond them now, if anything.
    pub fn read(&mut self, first: u64, count: u64, pages: u64) -> Option<Range<u64>> {
        let end = first.saturating_add(count);
        // Reads shorter than a page touch the last one again.
        let in_order = first == self.next || first + 1 == self.next;
        self.next = end;
        if !in_order {
            self.window = 0;
            self.asked = end;
            return None;
        }
        self.asked = self.asked.max(end);
        if self.window == 0 {
            self.window = FIRST;
        } else if self.asked - end > self.window / 2 {
            // Far enough ahead.
            return None;
        } else {
            self.window = (2 * self.window).min(MOST);
        }
        let to = end.saturating_add(self.window).min(pages);
        if to <= self.asked {
            return None;
        }
        let range = self.asked..to;
        self.asked = to;
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_in_order_finds_everything_there_and_asks_in_ever_larger_pieces() {
        for step in [1, 2, 7, 64] {
            let (mut stream, mut there, mut longest, mut pieces) = (Stream::default(), 0, 0, 0);
            let mut waited = 0;
            for first in (0..5000).step_by(step as usize) {
                let end = (first + step).min(5000);
                waited += u64::from(end > there);
                there = there.max(end);
                if let Some(range) = stream.read(first, end - first, 5000) {
                    assert_eq!(range.start, there, "no gap, and nothing twice");
                    there = range.end;
                    longest = longest.max(range.end - range.start);
                    pieces += 1;
                }
            }
            assert_eq!(there, 5000);
            assert!((MOST / 2..=MOST).contains(&longest), "{longest}");
            assert!(pieces < 60, "{pieces} requests");
            assert!(waited <= 3, "{waited} reads were not ahead");
        }
    }

    #[test]
    fn parts_of_pages_are_in_order_too() {
        let mut stream = Stream::default();
        // 1 KiB at a time: each page four times.
        let mut pieces = 0;
        for i in 0..4000 {
            pieces += stream.read(i / 4, 1, 1000).is_some() as u32;
        }
        assert!(pieces < 20);
        assert_eq!(stream.asked, 1000);
    }

    #[test]
    fn who_jumps_about_gets_nothing_else() {
        let mut stream = Stream::default();
        for i in 1..200u64 {
            assert_eq!(stream.read(i * 7919 % 5000 + 10, 1, 5000), None);
        }
        // And begins small again when it goes on in order.
        assert_eq!(stream.read(4000, 1, 5000), None);
        assert_eq!(stream.read(4001, 1, 5000), Some(4002..4002 + FIRST));
    }

    #[test]
    fn nothing_is_asked_for_beyond_the_end() {
        let mut stream = Stream::default();
        assert_eq!(stream.read(0, 3, 3), None);
        let mut stream = Stream::default();
        assert_eq!(stream.read(0, 1, 4), Some(1..4));
        assert_eq!(stream.read(u64::MAX - 1, 5, u64::MAX), None);
    }
}
