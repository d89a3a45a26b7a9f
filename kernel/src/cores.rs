//! The cores of the machine. One at a time is in the nucleus; what belongs to it ([`Dispatch`]) is then in `Kernel::dispatch`, so that everything addresses it as if
//! there were one core only, and what belongs to the others lies here. It is exchanged when another core than the last one comes in.
//!
//! A thread that becomes ready goes to the core that it ran on last, if it would run there at once; else to the least important one; a core takes over what waits
//! at another and is more important than what it has itself. A call stays on its core: the server is taken there.
//!
//! What always holds: a ready thread is in the queue of its `core`; a running one is `current` of its `core`, and its registers are in the processor: whoever wants to do
//! something to it has that core come in first ([`Arch::bring_in`]), and it then waits for its turn while its thread is in its object. Floating-point
//! registers may be left in a core after their thread; that core gives them up when another one asks ([`Arch::fetch`]).

use crate::arch::Arch;
use crate::dispatch::Dispatch;
use crate::pool::{DomainRef, ThreadRef};
use crate::queue::Lists;
use crate::{Kernel, Resume};
use cairn_abi::Error;

/// Most cores that are used.
pub const MOST: usize = 8;

/// The cores that run.
pub struct Cores {
    /// Whose state `Kernel::dispatch` is.
    pub here: usize,
    pub count: usize,
    /// There are several, or everything is done as if there were.
    several: bool,
    /// The state of the others.
    pub(crate) away: [Option<Dispatch>; MOST],
}

impl Cores {
    /// Core 0 alone.
    pub const fn new() -> Cores {
        Cores {
            here: 0,
            count: 1,
            several: false,
            away: [const { None }; MOST],
        }
    }

    /// The state of a core, of which `here` is that of the present one.
    #[inline(never)]
    pub(crate) fn of<'a>(&'a mut self, here: &'a mut Dispatch, core: u8) -> &'a mut Dispatch {
        self.away[core as usize % MOST].as_mut().unwrap_or(here)
    }

    /// The same, to look at.
    pub(crate) fn at<'a>(&'a self, here: &'a Dispatch, core: u8) -> &'a Dispatch {
        self.away[core as usize % MOST].as_ref().unwrap_or(here)
    }

    pub(crate) fn all(&self) -> u64 {
        (1 << self.count) - 1
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
        self.expect_several();
        Some(core)
    }

    /// Everything is done as with several cores from now on, however many there are.
    pub fn expect_several(&mut self) {
        self.cores.several = true;
        // The short ways do without a look at other cores.
        self.short_way = false;
    }

    /// Core `core` comes in: to be called before its entry. Whatever quick calls are under way, there or on other cores, are settled: nobody else looks at objects with some of them half done.
    pub fn come_in(&mut self, core: usize) {
        for other in 0..self.cores.count {
            if let Some(running) = self.arch.unsettled_on(other) {
                self.turn_to(other);
                self.settle(running);
            }
        }
        self.turn_to(core);
        self.dispatch.called = false;
    }

    /// What belongs to core `core` is in `dispatch` from now on.
    #[inline]
    pub(crate) fn turn_to(&mut self, core: usize) {
        if core != self.cores.here {
            self.exchange(core);
        }
    }

    #[cold]
    #[inline(never)]
    fn exchange(&mut self, core: usize) {
        let Some(mine) = &mut self.cores.away[core % MOST] else {
            return;
        };
        core::mem::swap(&mut self.dispatch, mine);
        let from = core::mem::replace(&mut self.cores.here, core);
        self.cores.away[from % MOST] = self.cores.away[core % MOST].take();
        self.arch.exchange(from, core);
    }

    /// Is everything done as with several cores?
    #[inline]
    pub(crate) fn several(&self) -> bool {
        self.cores.several
    }

    /// This core was told to come in: another one has left something for it.
    pub fn called(&mut self) -> Resume {
        self.entered_by_interrupt();
        if let Some(t) = self.dispatch.current {
            self.upcall_if_poked(t);
        }
        self.leave()
    }

    /// Have a core come in, soon.
    #[cold]
    #[inline(never)]
    pub(crate) fn call_core(&mut self, core: usize) {
        if let Some(away) = &mut self.cores.away[core % MOST] {
            if !away.called {
                away.called = true;
                self.arch.kick(core);
            }
        }
    }

    /// The core that runs `t`, if it is not this one.
    #[inline(never)]
    pub(crate) fn runs_elsewhere(&self, t: ThreadRef) -> Option<usize> {
        let core = self.threads[t].core as usize;
        let away = self.cores.away[core % MOST].as_ref()?;
        (away.current == Some(t)).then_some(core)
    }

    /// `t`'s core has to choose anew.
    #[inline(never)]
    pub(crate) fn reconsider(&mut self, t: ThreadRef) {
        let core = self.threads[t].core;
        self.cores.of(&mut self.dispatch, core).preempt = true;
        if self.several() {
            self.call_core(core as usize);
        }
    }

    /// A running thread was poked: its core must see to it.
    pub(crate) fn poked_elsewhere(&mut self, t: ThreadRef) {
        if let Some(core) = self.runs_elsewhere(t) {
            self.call_core(core);
        }
    }

    /// `t` shall not go on, or not as it was: if another core runs it, that core is in the nucleus from now on, and looks at what became of it before it goes on.
    pub(crate) fn interrupt_running(&mut self, t: ThreadRef) {
        if let Some(core) = self.runs_elsewhere(t) {
            self.arch.bring_in(core);
            self.reconsider(t);
        }
    }

    /// The same for all threads of a domain.
    #[cold]
    #[inline(never)]
    pub(crate) fn interrupt_domain(&mut self, d: DomainRef) {
        for core in 0..MOST {
            let away = self.cores.away[core].as_ref();
            if let Some(t) = away.and_then(|away| away.current) {
                if self.threads[t].domain == d {
                    self.interrupt_running(t);
                }
            }
        }
    }

    /// `t`, which another core runs, is not current any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_off(&mut self, t: ThreadRef) {
        if let Some(core) = self.runs_elsewhere(t) {
            self.interrupt_running(t);
            self.charge();
            self.cores.of(&mut self.dispatch, core as u8).current = None;
        }
    }

    /// What other cores have loaded of `d` is out of date.
    #[cold]
    #[inline(never)]
    pub(crate) fn reload_elsewhere(&mut self, d: DomainRef) {
        self.interrupt_domain(d);
        self.charge();
        for away in self.cores.away.iter_mut().flatten() {
            if away.loaded_domain == Some(d) {
                away.loaded_domain = None;
                away.loaded = None;
            }
        }
    }

    /// [`Kernel::unload`] for the other cores.
    #[cold]
    #[inline(never)]
    pub(crate) fn unload_elsewhere(&mut self, t: ThreadRef) {
        self.charge();
        for away in self.cores.away.iter_mut().flatten() {
            if away.loaded == Some(t) {
                away.loaded = None;
            }
            if away.owner == Some(t) {
                away.owner = None;
            }
        }
    }

    /// Does the timer of another core come before this deadline, and does that look at it then?
    #[cold]
    #[inline(never)]
    pub(crate) fn is_armed_elsewhere(&self, deadline: u64) -> bool {
        let armed = |away: &Dispatch| away.armed <= deadline && away.put_off == 0;
        self.cores.away.iter().flatten().any(armed)
    }

    /// [`Kernel::charge`] for the other cores.
    #[cold]
    #[inline(never)]
    pub(crate) fn charge_others(&mut self) {
        let now = self.arch.ticks();
        for core in 0..MOST {
            let Some(away) = &mut self.cores.away[core] else {
                continue;
            };
            if let Some(loaded) = away.loaded {
                let spent = now.saturating_sub(away.since);
                away.since = away.since.max(now);
                self.book(loaded, spent);
            }
        }
    }

    /// Floating-point registers and bases of `t` that another core still has come to its object.
    #[cold]
    #[inline(never)]
    pub(crate) fn bring_registers(&mut self, t: ThreadRef) {
        for core in 0..MOST {
            let Some(away) = &mut self.cores.away[core] else {
                continue;
            };
            if away.owner == Some(t) {
                // One that runs keeps them.
                if away.current != Some(t) {
                    away.owner = None;
                }
                let thread = &mut self.threads[t];
                self.arch
                    .fetch(core, &mut thread.registers, &mut thread.float);
            }
        }
    }

    /// The same for those that this core has: `t` goes elsewhere.
    fn give_registers(&mut self, t: ThreadRef) {
        if self.dispatch.owner == Some(t) {
            self.dispatch.owner = None;
            let here = self.cores.here;
            let thread = &mut self.threads[t];
            self.arch
                .fetch(here, &mut thread.registers, &mut thread.float);
        }
    }

    /// May `t` run on this core, and does it not cost more than to wake it where it was? Then it is here from now on.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_here(&mut self, t: ThreadRef) -> bool {
        let here = self.cores.here;
        let thread = &self.threads[t];
        let stays = thread.core as usize == here || !self.domains[thread.domain].float;
        if !stays || thread.affinity & 1 << here == 0 {
            return false;
        }
        self.threads[t].core = here as u8;
        true
    }

    /// The core that a thread of this priority goes to when it becomes ready.
    fn core_for(&self, t: ThreadRef, priority: u8) -> usize {
        let thread = &self.threads[t];
        let last = thread.core as usize;
        let may_stay = thread.affinity & 1 << last != 0;
        let (mut best, mut least) = (last, i16::MAX);
        if may_stay {
            least = self.load_of(last);
            if least < priority as i16 {
                return last;
            }
        }
        for core in 0..self.cores.count {
            if thread.affinity & 1 << core != 0 {
                let load = self.load_of(core);
                if load < least {
                    (best, least) = (core, load);
                }
            }
        }
        if may_stay && least >= priority as i16 {
            return last;
        }
        best
    }

    /// How important the thread is that runs there, or would run next; −1 for an idle core.
    #[inline(never)]
    fn load_of(&self, core: usize) -> i16 {
        let core = self.cores.at(&self.dispatch, core as u8);
        let running = |t: ThreadRef| self.threads[t].effective as i16;
        core.current.map_or(-1, running).max(core.ready.highest())
    }

    /// `t` is ready. If that is at another core: queue it there, and tell that core if it has to know.
    #[cold]
    #[inline(never)]
    pub(crate) fn wake_elsewhere(&mut self, t: ThreadRef, priority: u8) -> bool {
        let core = self.core_for(t, priority);
        self.threads[t].core = core as u8;
        if core == self.cores.here {
            return false;
        }
        self.give_registers(t);
        let away = self.cores.of(&mut self.dispatch, core as u8);
        away.ready.push_back(&mut self.threads, t, priority);
        let running = away
            .current
            .map_or(-1, |current| self.threads[current].effective as i16);
        if running < priority as i16 || running == priority as i16 && away.slice_end == 0 {
            away.preempt = true;
            self.call_core(core);
        }
        true
    }

    /// Before this core chooses: send away whom it may not run, and take over somebody more important that waits at another core (true).
    #[cold]
    #[inline(never)]
    pub(crate) fn balance(&mut self) -> bool {
        let here = self.cores.here;
        if let Some(current) = self.dispatch.current {
            if self.threads[current].affinity & 1 << here == 0 {
                self.charge();
                self.dispatch.current = None;
                self.wake(current);
            }
        }
        let mut best = self.load_of(here);
        let mut from = None;
        for core in 0..MOST {
            let Some(away) = &self.cores.away[core] else {
                continue;
            };
            let top = away.ready.highest();
            let running = away.current.map(|t| self.threads[t].effective as i16);
            // One that is idle, or runs somebody less important, has been told and will see to it itself.
            if top > best && running.is_some_and(|running| running >= top) {
                let first = away.ready.foremost();
                if let Some(t) = first.filter(|&t| self.threads[t].affinity & 1 << here != 0) {
                    best = top;
                    from = Some((core as u8, t));
                }
            }
        }
        let Some((core, t)) = from else {
            return false;
        };
        let away = self.cores.of(&mut self.dispatch, core);
        away.ready.remove(&mut self.threads, t, best as u8);
        self.threads[t].core = here as u8;
        self.dispatch
            .ready
            .push_back(&mut self.threads, t, best as u8);
        true
    }

    /// This core has chosen. If somebody waits here, idle cores may have him and others.
    #[cold]
    #[inline(never)]
    pub(crate) fn share_out(&mut self) {
        let Some(t) = self.dispatch.ready.foremost() else {
            return;
        };
        let affinity = self.threads[t].affinity;
        for core in 0..MOST {
            let Some(away) = &self.cores.away[core] else {
                continue;
            };
            let idle = away.current.is_none() && away.ready.is_empty();
            if affinity & 1 << core != 0 && idle {
                self.call_core(core);
            }
        }
    }

    /// SET_AFFINITY by `setter`. What another domain says, which has a right to, also bounds what the thread's own may choose later.
    pub(crate) fn set_affinity(
        &mut self,
        setter: ThreadRef,
        t: ThreadRef,
        mask: u64,
    ) -> Result<(), Error> {
        let owner = self.threads[setter].domain != self.threads[t].domain;
        let allowed = if owner { mask } else { self.threads[t].allowed };
        let mask = mask & allowed & self.cores.all();
        if mask == 0 {
            return Err(Error::BadArgument);
        }
        self.threads[t].allowed = allowed;
        self.restrict(t, mask);
        Ok(())
    }

    /// The thread runs on these cores from now on.
    #[inline(never)]
    pub(crate) fn restrict(&mut self, t: ThreadRef, mask: u64) {
        self.threads[t].affinity = mask;
        self.not_plain(t);
        match self.threads[t].serving {
            Some(c) => self.find_plain(t, c),
            None => self.threads[t].plain = 0,
        }
        if mask & 1 << self.threads[t].core != 0 {
            return;
        }
        match self.threads[t].state {
            crate::thread::State::Ready => {
                self.detach(t);
                self.wake(t);
            }
            crate::thread::State::Running => self.reconsider(t),
            // Whoever wakes it sees to it.
            _ => {}
        }
    }
}
