//! The cores of the machine. One at a time is in the nucleus; what belongs to it ([`Dispatch`]) is then in `Kernel::dispatch`, so that everything addresses it as if
//! there were one core only, and what belongs to the others lies here. It is exchanged when another core than the last one comes in.

use crate::arch::Arch;
use crate::dispatch::Dispatch;
use crate::queue::Lists;
use crate::Kernel;

/// Most cores that are used.
pub const MOST: usize = 8;

/// The cores that run.
pub struct Cores {
    /// Whose state `Kernel::dispatch` is.
    pub here: usize,
    pub count: usize,
    /// The state of the others.
    pub(crate) away: [Option<Dispatch>; MOST],
}

impl Cores {
    /// Core 0 alone.
    pub const fn new() -> Cores {
        Cores {
            here: 0,
            count: 1,
            away: [const { None }; MOST],
        }
    }
}

impl Default for Cores {
    fn default() -> Self {
        Cores::new()
    }
}

impl<A: Arch> Kernel<A> {
    /// One core more; its number is the answer, None if that is too many. `lists` must be empty.
    pub fn add_core(&mut self, lists: &'static mut Lists) -> Option<usize> {
        let core = self.cores.count;
        *self.cores.away.get_mut(core)? = Some(Dispatch::new(lists));
        self.cores.count += 1;
        Some(core)
    }

    /// Core `core` comes in: to be called before its entry.
    #[inline]
    pub fn come_in(&mut self, core: usize) {
        if core != self.cores.here {
            self.exchange(core);
        }
    }

    fn exchange(&mut self, core: usize) {
        let Some(mine) = self.cores.away.get_mut(core).and_then(Option::take) else {
            return;
        };
        let last = core::mem::replace(&mut self.dispatch, mine);
        let from = core::mem::replace(&mut self.cores.here, core);
        self.cores.away[from] = Some(last);
        self.arch.exchange(from, core);
    }
}
