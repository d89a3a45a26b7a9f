//! A disk whose partitions or size change while it is served.

use crate::partition::Partition;
use crate::serve::{Backend, Disk, System};
use crate::{Info, SECTOR};
use alloc::vec::Vec;
use cairn_idl::block::{BADGE_DISK, BADGE_PARTITION_LAST, CHANGED};
use cairn_idl::errno::{EBUSY, EINVAL, EPERM};
use cairn_idl::wire::Errno;

/// Bytes of a partition in REPARTITION's table.
const ENTRY: usize = 24;

/// What the table says, if it can be.
fn decode(table: &[u8], info: &Info) -> Option<Vec<Partition>> {
    let mut list: Vec<Partition> = Vec::new();
    if !table.len().is_multiple_of(ENTRY) {
        return None;
    }
    for entry in table.chunks_exact(ENTRY) {
        let long = |at| u64::from_le_bytes(core::array::from_fn(|i| entry[at + i]));
        let (number, first, length) = (long(0), long(8), long(16));
        let fits = first
            .checked_add(length)
            .is_some_and(|end| end <= info.sectors);
        let blocks = (first | length).is_multiple_of(u64::from(info.block).div_ceil(SECTOR));
        let is_new = list.iter().all(|it| u64::from(it.number) != number);
        let sane = (1..=BADGE_PARTITION_LAST).contains(&number) && length > 0;
        if !(fits && blocks && is_new && sane) {
            return None;
        }
        list.push(Partition {
            number: number as u32,
            first,
            sectors: length,
        });
    }
    Some(list)
}

impl<B: Backend, S: System> Disk<B, S> {
    /// REPARTITION, asked for through this badge: the bells of those who have a partition of another length now.
    pub(crate) fn set_partitions(
        &mut self,
        badge: u64,
        alone: bool,
        table: &[u8],
    ) -> Result<Vec<u32>, Errno> {
        let sessions = || self.sessions.iter().flatten();
        let asks = sessions().find(|it| it.badge == badge && it.part == BADGE_DISK);
        let asks = asks.ok_or(EPERM)?.badge;
        let list = decode(table, &self.backend.info()).ok_or(EINVAL)?;
        let kept = |part: u64, first: u64| {
            let mut same = list.iter();
            same.any(|it| u64::from(it.number) == part && it.first == first)
        };
        let is_held = |it: &crate::serve::Session<_>| {
            it.badge != asks && (alone || it.part != BADGE_DISK && !kept(it.part, it.first))
        };
        if sessions().any(is_held) {
            return Err(EBUSY);
        }
        let other: Vec<u64> = self
            .partitions
            .iter()
            .filter(|it| !kept(u64::from(it.number), it.first))
            .map(|it| u64::from(it.number))
            .collect();
        let mut bells = Vec::new();
        for session in self.sessions.iter_mut().flatten() {
            let own = list.iter().find(|it| u64::from(it.number) == session.part);
            if let Some(own) = own.filter(|own| own.sectors != session.info.sectors) {
                session.info.sectors = own.sectors;
                bells.push(session.bell);
            }
        }
        self.partitions = list;
        other.into_iter().for_each(|part| self.forget_counts(part));
        Ok(bells)
    }

    /// The backend's disk has another size. Partitions stay what they are, also such as lie beyond its end now: the device refuses what is done there.
    pub fn resized(&mut self) {
        let sectors = self.backend.info().sectors;
        for session in self.sessions.iter_mut().flatten() {
            if session.part == BADGE_DISK {
                session.info.sectors = sectors;
                self.system.notify(session.bell, CHANGED);
            }
        }
    }
}
