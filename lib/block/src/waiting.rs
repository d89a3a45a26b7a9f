//! A disk that is waited for: of servers that do one thing after the other. Its completions come by a channel of its own, so that what programs ask meanwhile stays in order.

use crate::native::Disk;
use crate::{Device, Info, Kind, Outcome, Request, PAGE, SECTOR};
use cairn_idl::wire::Failure;
use cairn_rt::{Portal, Receiver};

pub struct Waiting {
    disk: Disk,
    channel: Receiver,
}

impl Waiting {
    /// The device behind `driver`, for pages of this arena; `fixed`: they have frames and keep them ([`Disk::open_fixed`]).
    pub fn open(driver: Portal, arena: &mut [u8], fixed: bool) -> Result<Waiting, Failure> {
        let channel = Receiver::create().map_err(Failure::Gate)?;
        let disk = match fixed {
            true => Disk::open_fixed(driver, arena, channel, 1),
            false => Disk::open(driver, arena, channel, 1),
        };
        Ok(Waiting {
            disk: disk?,
            channel,
        })
    }

    pub fn info(&self) -> Info {
        self.disk.info()
    }

    /// So many bytes between the disk, from byte `at` on, and these pages, in the first from `offset` on. False: it failed.
    pub fn transfer(
        &mut self,
        kind: Kind,
        pages: &[u32],
        offset: u32,
        at: u64,
        bytes: u64,
    ) -> bool {
        let most = self.disk.info().most_pages.max(1) as usize;
        let (mut pages, mut offset, mut done) = (pages, offset, 0);
        while done < bytes {
            let some = &pages[..pages.len().min(most)];
            let room = (some.len() * PAGE) as u64 - u64::from(offset);
            let request = Request {
                id: 0,
                kind,
                sector: (at + done) / SECTOR,
                bytes: room.min(bytes - done),
                pages: some,
                offset,
                kept: 0,
            };
            if some.is_empty() || !self.order(&request) {
                return false;
            }
            done += request.bytes;
            (pages, offset) = (&pages[some.len()..], 0);
        }
        true
    }

    /// What was written is on the disk for good. False: it failed.
    pub fn flush(&mut self) -> bool {
        !self.disk.info().caches_writes
            || self.order(&Request {
                id: 0,
                kind: Kind::Flush,
                sector: 0,
                bytes: 0,
                pages: &[],
                offset: 0,
                kept: 0,
            })
    }

    fn order(&mut self, request: &Request) -> bool {
        self.disk.submit(request).is_ok() && self.wait() == Outcome::Done
    }

    fn wait(&mut self) -> Outcome {
        let mut outcome = None;
        loop {
            // To the end, so that the driver tells of the next one.
            while let Some((_, told)) = self.disk.completed() {
                outcome = Some(told);
            }
            if let Some(outcome) = outcome {
                return outcome;
            }
            if let Ok(pulse) = self.channel.receive(None) {
                self.disk.pulse(&pulse);
            }
        }
    }
}
