//! An event counter (eventfd).

use crate::{READABLE, WRITABLE};
use cairn_idl::errno::EINVAL;
use cairn_idl::fs::poll;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Direct, Failure, Later};

/// EFD_SEMAPHORE: a read takes 1 instead of all.
pub const SEMAPHORE: u64 = 1;
/// The counter stays below this.
const TOP: u64 = u64::MAX;

pub struct Event {
    pub count: u64,
    pub semaphore: bool,
    pub ino: u64,
    /// Who made it, and pays for it.
    pub uid: u32,
    pub payer: u32,
}

impl Event {
    /// What a read gives; nothing if it must wait.
    fn there(&self) -> Option<u64> {
        match self.count {
            0 => None,
            _ if self.semaphore => Some(1),
            count => Some(count),
        }
    }

    pub fn read(&mut self, cx: &mut Context, length: usize, keys: u64) -> Answer<()> {
        if length < 8 {
            return Err(Failure::Errno(EINVAL));
        }
        let there = self.there().ok_or(Failure::Wait(keys | READABLE))?;
        cx.store(0, &there.to_le_bytes())?;
        self.count -= there;
        cx.wake(keys | WRITABLE);
        Ok(())
    }

    pub fn write(&mut self, cx: &mut Context, length: usize, keys: u64) -> Answer<usize> {
        if length < 8 {
            return Err(Failure::Errno(EINVAL));
        }
        let mut bytes = [0; 8];
        cx.fetch(0, &mut bytes)?;
        let value = u64::from_le_bytes(bytes);
        if value == TOP {
            return Err(Failure::Errno(EINVAL));
        }
        if value >= TOP - self.count {
            return Err(Failure::Wait(keys | WRITABLE));
        }
        self.count += value;
        if value != 0 {
            cx.wake(keys | READABLE);
        }
        Ok(8)
    }

    /// The direct ways ([`cairn_resmgr::Server::read_direct`]).
    #[inline(never)]
    pub fn read_direct(
        &mut self,
        length: usize,
        words: &mut [u64; 5],
        later: &mut Later,
        keys: u64,
    ) -> Direct {
        if length < 8 {
            return Direct::Ordinary;
        }
        let Some(there) = self.there() else {
            return Direct::Wait(keys | READABLE);
        };
        words[0] = there;
        self.count -= there;
        later.wake(keys | WRITABLE);
        Direct::Done(8)
    }

    #[inline(never)]
    pub fn write_direct(
        &mut self,
        length: usize,
        words: &[u64; 5],
        later: &mut Later,
        keys: u64,
    ) -> Direct {
        let value = words[0];
        if length < 8 || value == 0 || value >= TOP - self.count {
            return Direct::Ordinary;
        }
        self.count += value;
        later.wake(keys | READABLE);
        Direct::Done(8)
    }

    pub fn ready(&self) -> u64 {
        let mut ready = 0;
        if self.count != 0 {
            ready |= poll::IN | poll::RDNORM;
        }
        if self.count < TOP - 1 {
            ready |= poll::OUT | poll::WRNORM;
        }
        ready
    }
}
