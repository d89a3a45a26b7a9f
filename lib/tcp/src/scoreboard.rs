//! What was sent and is not acknowledged (RFC 6675, 3; RFC 8985, 5): runs of segments that were sent at about one time and met the same fate. There are at most [`RUNS`] of them, so that a connection has one size.
//! When there would be more, two neighbours become one, and what is forgotten is taken for the worse: a byte that the peer reported may be sent again.
//!
//! What always holds: runs cover SND.UNA to SND.NXT without gap or overlap, in order; each has at least one byte and counts at least one segment.

use crate::seq::Seq;
use crate::time::{Stamp, Time};

/// Runs that are kept.
pub const RUNS: usize = 40;

/// A SACK block covered it.
const SACKED: u8 = 1;
/// It is taken for lost.
const LOST: u8 = 2;
/// It was sent again since it was taken for lost.
const RESENT: u8 = 4;
/// It was sent more than once, so that its acknowledgement measures nothing (Karn).
const AMBIGUOUS: u8 = 8;

/// Segments one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Run {
    end: Seq,
    sent: Stamp,
    segments: u16,
    marks: u8,
    unused: u8,
}

impl Run {
    const NONE: Run = Run {
        end: Seq(0),
        sent: Stamp(0),
        segments: 0,
        marks: 0,
        unused: 0,
    };

    /// When it was sent last.
    pub fn sent(&self) -> Stamp {
        self.sent
    }

    pub fn end(&self) -> Seq {
        self.end
    }

    pub fn segments(&self) -> u32 {
        u32::from(self.segments)
    }

    pub fn is_sacked(&self) -> bool {
        self.marks & SACKED != 0
    }

    pub fn is_ambiguous(&self) -> bool {
        self.marks & AMBIGUOUS != 0
    }

    /// It waits to be sent again.
    fn is_due(&self) -> bool {
        self.marks & (LOST | RESENT | SACKED) == LOST
    }
}

/// Segments by their fate.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    pub out: u32,
    pub sacked: u32,
    pub lost: u32,
    pub resent: u32,
}

impl Counts {
    /// What is taken to be in the network: "pipe" of RFC 6675.
    pub fn in_flight(&self) -> u32 {
        (self.out + self.resent).saturating_sub(self.sacked + self.lost)
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Scoreboard {
    /// SND.UNA
    start: Seq,
    runs: [Run; RUNS],
    count: u32,
}

impl Scoreboard {
    pub const fn new(start: Seq) -> Scoreboard {
        Scoreboard {
            start,
            runs: [Run::NONE; RUNS],
            count: 0,
        }
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs[..(self.count as usize).min(RUNS)]
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn begin(&self, index: usize) -> Seq {
        match index {
            0 => self.start,
            _ => self.runs[index - 1].end,
        }
    }

    /// Where the last run ends.
    pub fn end(&self) -> Seq {
        self.begin(self.runs().len())
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for run in self.runs() {
            let segments = run.segments();
            counts.out += segments;
            if run.is_sacked() {
                counts.sacked += segments;
            } else if run.marks & LOST != 0 {
                counts.lost += segments;
                if run.marks & RESENT != 0 {
                    counts.resent += segments;
                }
            }
        }
        counts
    }

    /// New segments were sent, up to `end`. They join those before them if these were sent less than `grain` earlier.
    pub fn sent(&mut self, end: Seq, segments: u16, now: Time, grain: u32) {
        if let Some(last) = self.runs().len().checked_sub(1) {
            let run = &mut self.runs[last];
            let close = now.stamp().since(run.sent) <= grain;
            if let (0, true, Some(sum)) = (run.marks, close, run.segments.checked_add(segments)) {
                run.end = end;
                run.segments = sum;
                return;
            }
        }
        self.make_room();
        let place = self.runs().len();
        self.runs[place] = Run {
            end,
            sent: now.stamp(),
            segments: segments.max(1),
            ..Run::NONE
        };
        self.count += 1;
    }

    /// SND.UNA moves. Each run, or part of one, that goes is shown.
    pub fn acknowledge(&mut self, una: Seq, mut gone: impl FnMut(&Run)) {
        self.split(una);
        let behind = self
            .runs()
            .iter()
            .take_while(|run| run.end.at_or_before(una))
            .count();
        for run in &self.runs()[..behind] {
            gone(run);
        }
        let count = self.runs().len();
        self.runs.copy_within(behind..count, 0);
        self.count -= behind as u32;
        self.start = una;
    }

    /// The peer reported these. Each run that was not reported before is shown.
    pub fn sack(&mut self, start: Seq, end: Seq, mut reported: impl FnMut(Seq, &Run)) {
        let (start, end) = (start.later(self.start), end.earlier(self.end()));
        if !start.before(end) {
            return;
        }
        self.split(start);
        self.split(end);
        for index in 0..self.runs().len() {
            let begin = self.begin(index);
            let run = &mut self.runs[index];
            // Where there was no room for a boundary, part of a run stays unreported.
            if begin.at_or_after(start) && run.end.at_or_before(end) && !run.is_sacked() {
                reported(begin, run);
                run.marks = (run.marks | SACKED) & !(LOST | RESENT);
            }
        }
        self.join();
    }

    /// Take what was sent and neither reported nor lost for lost, if `lost` says so of a run and its beginning. How many segments.
    pub fn lose(&mut self, mut lost: impl FnMut(Seq, &Run) -> bool) -> u32 {
        let mut segments = 0;
        for index in 0..self.runs().len() {
            let begin = self.begin(index);
            let run = &mut self.runs[index];
            if run.is_sacked() || run.is_due() || !lost(begin, run) {
                continue;
            }
            run.marks = (run.marks | LOST) & !RESENT;
            segments += run.segments();
        }
        segments
    }

    /// The first `bytes` that were sent are lost.
    pub fn lose_first(&mut self, bytes: u32) -> u32 {
        let boundary = (self.start + bytes).earlier(self.end());
        self.split(boundary);
        self.lose(|_, run| run.end.at_or_before(boundary))
    }

    /// After a timeout everything counts as lost, what was sent again too. If the peer reported the first byte and yet did not acknowledge it, it has thrown away what it reported (RFC 2018, 8).
    pub fn lose_all(&mut self) {
        let reneged = self.runs().first().is_some_and(Run::is_sacked);
        let count = self.runs().len();
        for run in &mut self.runs[..count] {
            if reneged {
                run.marks &= !SACKED;
            }
            if !run.is_sacked() {
                run.marks = (run.marks | LOST) & !RESENT;
            }
        }
        self.join();
    }

    /// Which bytes are to be sent again next: the first that are lost.
    pub fn due(&self) -> Option<(Seq, Seq)> {
        let index = self.runs().iter().position(Run::is_due)?;
        Some((self.begin(index), self.runs[index].end))
    }

    /// The last bytes that were sent, at most so many: what a loss probe repeats.
    pub fn last(&self, bytes: u32) -> Option<(Seq, Seq)> {
        let last = self.runs().len().checked_sub(1)?;
        let (begin, run) = (self.begin(last), &self.runs[last]);
        let size = match run.segments {
            1 => run.end.since(begin),
            // Full segments with a shorter one at the end.
            _ => match run.end.since(begin) % bytes.max(1) {
                0 => bytes,
                rest => rest,
            },
        };
        Some((run.end - size.min(run.end.since(begin)), run.end))
    }

    /// These bytes were sent once more.
    pub fn sent_again(&mut self, start: Seq, end: Seq, now: Time) {
        self.split(start);
        self.split(end);
        for index in 0..self.runs().len() {
            let begin = self.begin(index);
            let run = &mut self.runs[index];
            if begin.at_or_after(start) && run.end.at_or_before(end) {
                run.sent = now.stamp();
                run.marks |= AMBIGUOUS;
                if run.marks & LOST != 0 {
                    run.marks |= RESENT;
                }
            }
        }
        self.join();
    }

    /// The highest byte that was reported, or SND.UNA.
    pub fn highest_sacked(&self) -> Seq {
        self.runs()
            .iter()
            .rev()
            .find(|run| run.is_sacked())
            .map_or(self.start, |run| run.end)
    }

    /// Make a boundary here, if it lies inside a run.
    fn split(&mut self, at: Seq) {
        let inside = |board: &Scoreboard| {
            (0..board.runs().len())
                .find(|index| board.begin(*index).before(at) && at.before(board.runs[*index].end))
        };
        if inside(self).is_none() {
            return;
        }
        self.make_room();
        let Some(index) = inside(self) else {
            return;
        };
        let (begin, run) = (self.begin(index), self.runs[index]);
        let (all, left) = (u64::from(run.end.since(begin)), u64::from(at.since(begin)));
        let segments = u64::from(run.segments);
        let share = ((left * segments + all / 2) / all).clamp(1, (segments - 1).max(1));
        let count = self.runs().len();
        self.runs.copy_within(index..count, index + 1);
        self.count += 1;
        self.runs[index].end = at;
        self.runs[index].segments = share as u16;
        self.runs[index + 1].segments = segments.saturating_sub(share).max(1) as u16;
    }

    /// Neighbours that do not differ become one.
    fn join(&mut self) {
        let mut kept = 0;
        for index in 0..self.runs().len() {
            let run = self.runs[index];
            if kept > 0 {
                let last = &mut self.runs[kept - 1];
                let same = last.marks == run.marks && (last.sent == run.sent || last.is_sacked());
                if let (true, Some(sum)) = (same, last.segments.checked_add(run.segments)) {
                    last.end = run.end;
                    last.segments = sum;
                    continue;
                }
            }
            self.runs[kept] = run;
            kept += 1;
        }
        self.count = kept as u32;
    }

    /// Have a place for one more run: the two neighbours of which least is forgotten become one.
    fn make_room(&mut self) {
        let count = self.runs().len();
        if count < RUNS {
            return;
        }
        let forgotten = |index: &usize| {
            let (a, b) = (&self.runs[*index], &self.runs[*index + 1]);
            let between = a.sent.since(b.sent).max(b.sent.since(a.sent));
            (a.marks != b.marks, between)
        };
        let Some(index) = (0..count - 1).min_by_key(forgotten) else {
            return;
        };
        let (a, b) = (self.runs[index], self.runs[index + 1]);
        let mut marks = (a.marks & b.marks & SACKED) | ((a.marks | b.marks) & AMBIGUOUS);
        if a.is_due() || b.is_due() {
            marks |= LOST;
        } else if (a.marks | b.marks) & RESENT != 0 && marks & SACKED == 0 {
            marks |= LOST | RESENT;
        }
        self.runs[index] = Run {
            end: b.end,
            sent: if a.sent.after(b.sent) { a.sent } else { b.sent },
            segments: a.segments.saturating_add(b.segments),
            marks,
            unused: 0,
        };
        self.runs.copy_within(index + 2..count, index + 1);
        self.count -= 1;
    }

    /// Does everything hold that always holds? Of memory that a server finds again.
    pub fn holds(&self) -> bool {
        self.count as usize <= RUNS
            && (0..self.runs().len()).all(|index| {
                self.begin(index).before(self.runs[index].end) && self.runs[index].segments > 0
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn board(segments: u32) -> Scoreboard {
        let mut board = Scoreboard::new(Seq(0));
        for n in 1..=segments {
            board.sent(Seq(n * 1000), 1, Time(0), 0);
        }
        board
    }

    #[test]
    fn sacked_lost_and_sent_again_are_counted() {
        let mut board = board(10);
        board.sack(Seq(2000), Seq(5000), |_, _| {});
        assert_eq!(board.counts().sacked, 3);
        assert_eq!(board.lose_first(1000), 1);
        assert_eq!(board.due(), Some((Seq(0), Seq(1000))));
        assert_eq!(board.counts().in_flight(), 6);
        board.sent_again(Seq(0), Seq(1000), Time(5));
        assert_eq!(board.counts().in_flight(), 7);
        assert_eq!(board.due(), None);
        board.lose_all();
        assert_eq!(board.counts().in_flight(), 0);
        assert_eq!(board.due(), Some((Seq(0), Seq(1000))));
        let mut gone = 0;
        board.acknowledge(Seq(5000), |run| gone += run.segments());
        assert_eq!((gone, board.counts().out), (5, 5));
        assert!(board.holds());
    }

    #[test]
    fn what_a_peer_throws_away_after_reporting_is_lost() {
        let mut board = board(3);
        board.sack(Seq(1000), Seq(3000), |_, _| {});
        board.lose_all();
        assert_eq!(board.due(), Some((Seq(0), Seq(1000))));
        board.acknowledge(Seq(1000), |_| {});
        board.lose_all();
        assert_eq!(board.due(), Some((Seq(1000), Seq(3000))));
    }

    #[test]
    fn the_last_segment_is_found() {
        let mut board = board(3);
        board.sent(Seq(3100), 1, Time(0), 0);
        assert_eq!(board.last(1000), Some((Seq(3000), Seq(3100))));
        let mut one = Scoreboard::new(Seq(0));
        one.sent(Seq(300), 1, Time(0), 0);
        assert_eq!(one.last(1000), Some((Seq(0), Seq(300))));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(u32),
        Ack(u32),
        Sack(u32, u32),
        Lose(u32),
        LoseAll,
        Again,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..3000u32).prop_map(Step::Send),
            1 => (0..5000u32).prop_map(Step::Ack),
            6 => (0..60_000u32, 1..3000u32).prop_map(|(from, length)| Step::Sack(from, length)),
            1 => (1..3000u32).prop_map(Step::Lose),
            1 => Just(Step::LoseAll),
            3 => Just(Step::Again),
        ]
    }

    proptest! {
        /// It covers what was sent, whatever happens; what was never reported is never counted as reported; after a timeout all of it is sent again.
        #[test]
        fn covers_what_was_sent(base: u32, steps in prop::collection::vec(step(), 1..200)) {
            let base = Seq(base);
            let mut board = Scoreboard::new(base);
            let (mut una, mut next) = (0u32, 0u32);
            let mut reported = vec![false; 1 << 20];
            for (time, step) in steps.into_iter().enumerate() {
                let now = Time(time as u64 * 1000);
                match step {
                    Step::Send(bytes) => {
                        next += bytes;
                        board.sent(base + next, bytes.div_ceil(1000) as u16, now, 100);
                    }
                    Step::Ack(bytes) => {
                        una = (una + bytes).min(next);
                        board.acknowledge(base + una, |_| {});
                    }
                    Step::Sack(from, length) => {
                        board.sack(base + una + from, base + una + from + length, |_, _| {});
                        for n in una + from..(una + from + length).min(next) {
                            reported[n as usize] = true;
                        }
                    }
                    Step::Lose(bytes) => { board.lose_first(bytes); }
                    Step::LoseAll => board.lose_all(),
                    Step::Again => if let Some((start, end)) = board.due() {
                        board.sent_again(start, end.earlier(start + 1000), now);
                    },
                }
                prop_assert!(board.holds());
                prop_assert_eq!(board.end(), base + next);
                let mut begin = una;
                for run in board.runs() {
                    let end = run.end().since(base);
                    if run.is_sacked() {
                        prop_assert!(reported[begin as usize..end as usize].iter().all(|there| *there));
                    }
                    begin = end;
                }
                prop_assert_eq!(begin, next);
            }
            board.lose_all();
            let mut left = next - una;
            while let Some((start, end)) = board.due() {
                board.sent_again(start, end, Time(0));
                left = left.checked_sub(end.since(start)).expect("sent again once");
            }
            prop_assert!(board.counts().lost == board.counts().resent);
        }
    }
}
