//! Where the file system's own structures are: superblock copies, descriptors, bitmaps, inode tables, the journal. No extent, no directory and no attribute may
//! point there, so that a wrong number in an image can never make us overwrite them.

use alloc::vec::Vec;

/// `start..end` of blocks.
pub(crate) type Zone = (u64, u64);

#[derive(Default)]
pub(crate) struct Zones {
    /// Sorted, apart from each other.
    zones: Vec<Zone>,
    blocks: u64,
    first: u64,
}

impl Zones {
    pub(crate) fn new(mut zones: Vec<Zone>, first: u64, blocks: u64) -> Zones {
        zones.sort_unstable();
        let mut joined: Vec<Zone> = Vec::new();
        for (start, end) in zones {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        Zones {
            zones: joined,
            blocks,
            first,
        }
    }

    pub(crate) fn add(&mut self, more: impl IntoIterator<Item = Zone>) {
        let mut zones = core::mem::take(&mut self.zones);
        zones.extend(more);
        *self = Zones::new(zones, self.first, self.blocks);
    }

    /// Inside the file system, and nothing of its own?
    pub(crate) fn free_of(&self, start: u64, len: u64) -> bool {
        let Some(end) = start.checked_add(len) else {
            return false;
        };
        if start < self.first || end > self.blocks || len == 0 {
            return false;
        }
        let next = self.zones.partition_point(|zone| zone.1 <= start);
        self.zones.get(next).is_none_or(|zone| zone.0 >= end)
    }

    /// The zones that touch `start..end`, cut to it.
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Zone> + '_ {
        let next = self.zones.partition_point(move |zone| zone.1 <= start);
        self.zones[next..]
            .iter()
            .take_while(move |zone| zone.0 < end)
            .map(move |zone| (zone.0.max(start), zone.1.min(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::Zones;

    #[test]
    fn what_is_ours_is_not_theirs() {
        let zones = Zones::new([(30, 40), (1, 10), (10, 12)].into(), 1, 100);
        assert!(zones.free_of(12, 18) && zones.free_of(40, 60));
        assert!(!zones.free_of(12, 19) && !zones.free_of(11, 1) && !zones.free_of(39, 1));
        assert!(!zones.free_of(40, 61) && !zones.free_of(0, 1) && !zones.free_of(u64::MAX, 2));
        assert!(zones.within(5, 35).eq([(5, 12), (30, 35)]));
    }
}
