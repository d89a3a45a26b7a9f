//! Requests that several programs are about to make are told to a drive together: one notification, and one turn of the driver, for all of them.
//!
//! With the first one the server gives way to those who are ready at its caller's priority; their requests queue meanwhile. It takes what has queued, and tells the drives when nothing is left. A more important caller, and any pulse, has the server go on at once.
//! Where nobody came, or others computed meanwhile, the next requests are told as they come.

use crate::disk::Disks;
use cairn_resmgr::Context;

/// Most requests that are told as they come before another one gives way: because nobody else came, and because it took long.
const ALONE_MOST: u32 = 64;
const LONG_MOST: u32 = 1024;
/// So long (ns) a request may take to come. Programs that only read ask sooner; who computes has whole turns.
const LONG: u64 = 100_000;

#[derive(Default)]
pub struct Gather {
    /// Requests are held back.
    holds: bool,
    /// How many came after the first, and how long (ns) it waited for them.
    more: u32,
    waited: u64,
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
        (self.holds, self.more, self.waited) = (true, 0, 0);
        true
    }

    /// All that there is has come.
    fn end(&mut self) {
        self.holds = false;
        self.pause = match self.more {
            more if self.waited > LONG * u64::from(more + 1) => {
                (self.pause * 4).clamp(16, LONG_MOST)
            }
            0 => (self.pause * 2).clamp(1, ALONE_MOST),
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
            self.gather.waited = cx.transport.monotonic() - before;
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
        for others in [0, 1, 20] {
            let mut gather = Gather::default();
            let mut waits = 0;
            for _ in 0..10_000 {
                if gather.first() {
                    waits += 1;
                    gather.waited = 20_000_000;
                    (0..others).for_each(|_| assert!(!gather.first()));
                    gather.end();
                }
            }
            assert!(waits < 16, "{waits}");
            // When they have gone it is soon worth it again.
            let mut requests = 0;
            while !gather.first() {
                requests += 1;
            }
            assert!(requests <= LONG_MOST);
            gather.first();
            gather.end();
            assert!(gather.first());
        }
    }
}
