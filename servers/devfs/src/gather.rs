//! Requests that several programs are about to make are told to a drive together: one notification, and one turn of the driver, for all of them.
//!
//! With the first one the server gives way to those who are ready at its caller's priority; their requests queue meanwhile. It takes what has queued, and tells the drives when nothing is left. A more important caller, and any pulse, has the server go on at once.
//! Where nobody came, or it took long, the next requests are told as they come.

use crate::disk::Disks;
use cairn_resmgr::Context;

/// Most requests that are told as they come before another one gives way.
const PAUSE_MOST: u32 = 64;
/// So long (ns) others may have computed, if few requests have come meanwhile.
const LONG: u64 = 1_000_000;
const FEW: u32 = 8;

#[derive(Default)]
pub struct Gather {
    /// Requests are held back.
    holds: bool,
    /// How many came after the first, and whether it had to wait long for them.
    more: u32,
    long: bool,
    /// So many requests are told as they come, and how many it will be next time.
    left: u32,
    pause: u32,
}

impl Gather {
    /// A request has come. True: it gives way to others.
    fn first(&mut self) -> bool {
        if self.holds {
            self.more += 1;
            return false;
        }
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        (self.holds, self.more, self.long) = (true, 0, false);
        true
    }

    /// All that there is has come.
    fn end(&mut self) {
        self.holds = false;
        self.pause = match self.more {
            _ if self.long && self.more < FEW => PAUSE_MOST,
            0 => (self.pause * 2).clamp(1, PAUSE_MOST),
            _ => 0,
        };
        self.left = self.pause;
    }
}

impl Disks {
    /// A new request's orders are with the drives, which are told of them now, or with others.
    pub(crate) fn gather(&mut self, cx: &mut Context, drive: usize) {
        if self.gather.first() {
            let before = cx.transport.monotonic();
            self.give_way(drive);
            self.gather.long = cx.transport.monotonic() - before > LONG;
            // When nothing more has queued.
            cx.wake_at(Some(0));
        }
        if !self.gather.holds {
            self.together(drive, false);
        }
    }

    pub fn is_gathering(&self) -> bool {
        self.gather.holds
    }

    /// Nothing more has queued: the drives are told.
    pub fn gathered(&mut self) {
        if self.gather.holds {
            self.gather.end();
            self.tell_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of so many requests of one program.
    fn alone(gather: &mut Gather, requests: u32) -> u32 {
        let mut waits = 0;
        for _ in 0..requests {
            if gather.first() {
                waits += 1;
                gather.end();
            }
        }
        waits
    }

    #[test]
    fn who_is_alone_hardly_ever_gives_way() {
        let mut gather = Gather::default();
        assert!(alone(&mut gather, 1000) < 24);
        // As soon as it is worth it, always.
        while !gather.first() {}
        assert!(!gather.first());
        gather.end();
        for _ in 0..100 {
            assert!(gather.first());
            assert!(!gather.first());
            gather.end();
        }
        assert!(alone(&mut gather, 1000) < 24);
    }

    #[test]
    fn programs_that_compute_are_waited_for_seldom() {
        let mut gather = Gather::default();
        let mut waits = 0;
        for _ in 0..1000 {
            if gather.first() {
                waits += 1;
                gather.long = true;
                gather.first();
                gather.end();
            }
        }
        assert!(waits < 24);
    }
}
