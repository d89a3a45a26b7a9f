//! The adaptive policy, as QNX 4 has it: a thread that runs when a quantum ends has from then on a priority one below the one that it was given, until it waits for something. So whoever
//! mostly waits (for a disk, a terminal, the other end of a pipe) goes before those at its priority that compute, and these share what is left by turns.
//!
//! Who waits often may still use, or have others use for it, all the time that there is. So while any thread has fallen, it is looked at every [`PATIENCE`] whether the first of those that wait
//! at each core (or that servers work for, which wait there) is the one that waited there last time, and had less than a quarter of the time since: then it gets its priority back, and with it a quantum.
//!
//! What always holds: `base` is `assigned`, or one below it; below it only with an adaptive thread that serves no channel; `Kernel::fallen` counts these.

use crate::arch::Arch;
use crate::pool::ThreadRef;
use crate::thread::{State, QUANTUM};
use crate::Kernel;

/// How often that is looked at, in ns: who fell waits for a turn no longer than twice this, and the end of somebody's quantum.
pub const PATIENCE: u64 = QUANTUM;
/// What it must have had of that time to go on waiting.
const SHARE: u64 = PATIENCE / 4;

impl<A: Arch> Kernel<A> {
    /// A quantum was used up by `t`: whoever pays for it falls, unless that is a server, whose time is its own only when it works for nobody.
    pub(crate) fn fall(&mut self, t: ThreadRef, now: u64) {
        let payer = self.payer(t);
        let thread = &mut self.threads[payer];
        let (given, fallen) = (thread.assigned, thread.has_fallen());
        if !thread.adaptive || thread.serving.is_some() || fallen || given == 0 {
            return;
        }
        thread.base = given - 1;
        self.fallen += 1;
        self.refresh(payer);
        if self.patience_end == u64::MAX {
            self.patience_end = now.saturating_add(PATIENCE);
        }
    }

    /// `t` waits, or has waited: it has the priority again that it was given.
    #[inline]
    pub(crate) fn recover(&mut self, t: ThreadRef) {
        if self.threads[t].has_fallen() {
            self.rise(t);
        }
    }

    #[cold]
    #[inline(never)]
    fn rise(&mut self, t: ThreadRef) {
        self.restore_base(t);
        match self.threads[t].state {
            State::Ready | State::Running | State::Held => self.refresh(t),
            // In no queue any more.
            _ => self.threads[t].effective = self.deserved(t),
        }
    }

    /// The priority that was given is `t`'s own again; whoever calls this sees to what follows.
    pub(crate) fn restore_base(&mut self, t: ThreadRef) {
        let thread = &mut self.threads[t];
        self.fallen -= thread.has_fallen() as u32;
        thread.base = thread.assigned;
    }

    /// Who fell and was passed over since the last look has waited long enough.
    pub(crate) fn end_patience(&mut self, now: u64) {
        self.charge();
        for core in 0..self.cores.count as u8 {
            let place = self.cores.of(&mut self.dispatch, core);
            let (current, last) = (place.current, place.passed_over.take());
            // While another runs that fell, or somebody for it, it is a matter of turns.
            if current.is_some_and(|t| self.threads[self.payer(t)].has_fallen()) {
                continue;
            }
            let place = self.cores.at(&self.dispatch, core);
            let waits = place.ready.heads().map(|t| self.payer(t));
            let seen = waits
                .filter(|&t| self.threads[t].has_fallen())
                .map(|t| (t, self.threads[t].ticks))
                .next();
            self.cores.of(&mut self.dispatch, core).passed_over = seen;
            if let (Some((t, ticks)), Some((before, had))) = (seen, last) {
                let used = self.arch.ticks_to_ns(ticks.saturating_sub(had));
                if t == before && used < SHARE {
                    self.recover(t);
                }
            }
        }
        self.patience_end = match self.fallen {
            0 => u64::MAX,
            _ => now.saturating_add(PATIENCE),
        };
    }
}
