//! What a driver counts: requests by kind, of the whole disk and of each of its partitions, as /proc/diskstats has them.

use crate::Kind;
use alloc::vec::Vec;
use cairn_idl::block::Counts;

/// Of the disk or a partition.
#[derive(Default)]
struct Tally {
    part: u64,
    counts: Counts,
    /// Since when there is something under way, if there is.
    since: u64,
}

#[derive(Default)]
pub struct Tallies(Vec<Tally>);

impl Tally {
    fn begin(&mut self, now: u64) {
        if self.counts.under_way == 0 {
            self.since = now;
        }
        self.counts.under_way += 1;
    }

    fn end(&mut self, kind: Kind, sectors: u64, time: u64, now: u64) {
        let counts = &mut self.counts;
        counts.under_way = counts.under_way.saturating_sub(1);
        if counts.under_way == 0 {
            counts.busy_time += now.saturating_sub(self.since);
        }
        let (count, amount, spent) = match kind {
            Kind::Read => (
                &mut counts.reads,
                &mut counts.read_sectors,
                &mut counts.read_time,
            ),
            Kind::Write => (
                &mut counts.writes,
                &mut counts.write_sectors,
                &mut counts.write_time,
            ),
            Kind::Discard => (
                &mut counts.discards,
                &mut counts.discard_sectors,
                &mut counts.discard_time,
            ),
            Kind::Flush => {
                counts.flushes += 1;
                counts.flush_time += time;
                return;
            }
        };
        *count += 1;
        *amount += sectors;
        *spent += time;
    }
}

impl Tallies {
    fn of(&mut self, part: u64) -> &mut Tally {
        let at = self.0.iter().position(|tally| tally.part == part);
        let at = at.unwrap_or_else(|| {
            self.0.push(Tally {
                part,
                ..Tally::default()
            });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    pub fn begin(&mut self, part: u64, now: u64) {
        self.of(0).begin(now);
        if part != 0 {
            self.of(part).begin(now);
        }
    }

    /// A request of so many sectors that was begun then.
    pub fn end(&mut self, part: u64, (kind, sectors): (Kind, u64), begun: u64, now: u64) {
        let time = now.saturating_sub(begun);
        self.of(0).end(kind, sectors, time, now);
        if part != 0 {
            self.of(part).end(kind, sectors, time, now);
        }
    }

    pub fn counts(&mut self, part: u64, now: u64) -> Counts {
        let tally = self.of(part);
        let more = match tally.counts.under_way {
            0 => 0,
            _ => now.saturating_sub(tally.since),
        };
        Counts {
            busy_time: tally.counts.busy_time + more,
            ..tally.counts
        }
    }

    /// There is no such partition any more, or another one.
    pub fn forget(&mut self, part: u64) {
        self.0.retain(|tally| tally.part != part);
    }
}
