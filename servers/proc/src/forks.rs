//! Forks of large programs, which take `vm` long: an own thread waits for `vm`, at the priority of the most important one who waits for a fork, and others are
//! served
//! meanwhile.
//!
//! What else the program asks for is held back until its fork is over: then it is as if that had been done at once.

use crate::dispatch::Outcome;
use crate::manager::Manager;
use crate::priority;
use crate::system::{Domain, Errno, System};
use crate::table::Slot;
use alloc::collections::VecDeque;
use cairn_abi::Token;
use cairn_idl::errno::{E2BIG, ENOMEM};
use cairn_rt::{deputy, Received};

/// The words of an errand that there is none.
const NOTHING: [u64; 8] = [0; 8];

struct Fork {
    message: Received,
    level: u8,
    /// Its caller is still there.
    wanted: bool,
}

/// A message that is held back, or was; whether its caller is to be interrupted.
#[derive(Clone, Copy)]
pub struct Held {
    pub message: Received,
    pub interrupted: bool,
}

#[derive(Default)]
pub(crate) struct Forks {
    /// How many there are, and messages whose time has come: the usual 0 costs one look.
    count: usize,
    /// Those that wait, and the one that is made.
    waiting: VecDeque<Fork>,
    made: Option<Fork>,
    /// The copy for the fork at hand.
    copy: Option<Result<Domain, Errno>>,
    held: VecDeque<Held>,
    /// Those whose time has come.
    ready: VecDeque<Held>,
}

impl Forks {
    #[inline]
    pub fn any(&self) -> bool {
        self.count > 0
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Fork> {
        self.waiting.iter_mut().chain(&mut self.made)
    }

    fn level(&mut self) -> u8 {
        self.all().map(|fork| fork.level).max().unwrap_or(0)
    }

    /// The most important one, of those the first.
    fn take(&mut self) -> Option<Fork> {
        let all = self.waiting.iter().enumerate();
        let (at, _) = all.max_by_key(|(at, fork)| (fork.level, usize::MAX - at))?;
        self.waiting.remove(at)
    }

    /// Whether a thread waits here.
    #[cfg(test)]
    pub fn has(&self, thread: cairn_abi::Id) -> bool {
        let forks = self
            .waiting
            .iter()
            .chain(&self.made)
            .map(|fork| &fork.message);
        let held = self
            .held
            .iter()
            .chain(&self.ready)
            .map(|held| &held.message);
        forks
            .chain(held)
            .any(|message| message.token as u32 == thread)
    }

    #[cfg(test)]
    pub fn check(&self) {
        let made = usize::from(self.made.is_some());
        assert_eq!(self.count, self.waiting.len() + made + self.ready.len());
        assert!(self.count > 0 || self.held.is_empty());
        assert!(self.copy.is_none());
    }

    /// There is room for one message more, wherever it is.
    fn reserve(&mut self) -> Result<(), Errno> {
        let all = self.held.len() + self.ready.len() + 1;
        let held = self.held.try_reserve(1);
        let ready = self.ready.try_reserve(all - self.ready.len());
        held.and(ready).map_err(|_| ENOMEM)
    }
}

impl<S: System> Manager<S> {
    /// The domain for a fork; E2BIG: it is made later, and the caller waits.
    pub(crate) fn fork_domain(
        &mut self,
        message: &Received,
        slot: Slot,
        share: bool,
    ) -> Result<Option<Domain>, Errno> {
        if let Some(copy) = self.under_way.copy.take() {
            return copy.map(Some);
        }
        let from = self.processes[slot].domain.id;
        match self.system.fork_few(from, share) {
            Err(E2BIG) => {}
            made => return made.map(Some),
        }
        match self.fork_later(message, slot) {
            true => Ok(None),
            false => self.system.fork(from, share, None, 0).map(Some),
        }
    }

    #[cold]
    #[inline(never)]
    fn fork_later(&mut self, message: &Received, slot: Slot) -> bool {
        let thread = self.processes[slot].thread(message.token as u32);
        let Some(scheduling) = thread.map(|thread| thread.scheduling) else {
            return false;
        };
        let level = priority::of(&scheduling, self.processes[slot].shift);
        if self.under_way.waiting.try_reserve(1).is_err() {
            return false;
        }
        let highest = self.under_way.level().max(level);
        if !self.system.begin_forks(highest) {
            return false;
        }
        self.under_way.count += 1;
        self.under_way.waiting.push_back(Fork {
            message: *message,
            level,
            wanted: true,
        });
        self.processes[slot].forks = true;
        true
    }

    /// Whether a message is for afterwards. (What brings portals has nothing to do with memory.)
    #[inline]
    pub(crate) fn holds_back(&mut self, message: &Received) -> bool {
        self.under_way.any() && self.hold_back(message)
    }

    #[cold]
    #[inline(never)]
    fn hold_back(&mut self, message: &Received) -> bool {
        let forks = |slot: Slot| self.processes[slot].forks;
        if message.portals > 0 || !self.caller(message).is_ok_and(forks) {
            return false;
        }
        if self.under_way.reserve().is_err() {
            return false;
        }
        self.under_way.held.push_back(Held {
            message: *message,
            interrupted: false,
        });
        true
    }

    /// What the own thread tells and asks.
    #[cold]
    #[inline(never)]
    pub(crate) fn errand(&mut self, message: &Received) -> Outcome {
        if message.words[1] != deputy::NONE {
            let copy = self.system.forked(&message.words);
            match self.under_way.made.take() {
                Some(fork) => self.fork_with(fork, copy),
                None => drop(copy.map(|domain| self.system.destroy(domain))),
            }
        }
        while let Some(fork) = self.under_way.take() {
            let caller = self.caller(&fork.message);
            let parent = caller.map(|slot| self.processes[slot].domain.id);
            match parent.and_then(|parent| self.system.errand(parent)) {
                Ok(words) => {
                    self.under_way.made = Some(fork);
                    let level = self.under_way.level();
                    self.system.set_forks_priority(level);
                    return Outcome::Words(words);
                }
                Err(errno) => self.fork_with(fork, Err(errno)),
            }
        }
        Outcome::Words(NOTHING)
    }

    /// The copy of a program is made, or not: the rest of the fork, and whatever else the program has asked for.
    fn fork_with(&mut self, fork: Fork, copy: Result<Domain, Errno>) {
        self.under_way.count -= 1;
        let message = fork.message;
        let caller = self.caller(&message).ok();
        if let Some(slot) = caller {
            self.processes[slot].forks = false;
        }
        let lives = caller.is_some_and(|slot| self.processes[slot].alive());
        self.under_way.copy = Some(copy);
        if fork.wanted && lives {
            if let Outcome::Words(words) = self.message(&message) {
                self.system.reply(message.token, words);
            }
        }
        // (It may have been refused before it was needed.)
        if let Some(Ok(domain)) = self.under_way.copy.take() {
            self.system.destroy(domain);
        }
        let under_way = &mut self.under_way;
        for _ in 0..under_way.held.len() {
            if let Some(held) = under_way.held.pop_front() {
                match held.message.sender == message.sender {
                    true => {
                        under_way.ready.push_back(held);
                        under_way.count += 1;
                    }
                    false => under_way.held.push_back(held),
                }
            }
        }
    }

    /// Whether there is a message whose time has come.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.under_way.count > 0 && !self.under_way.ready.is_empty()
    }

    /// A message to be handled as if it came now. Afterwards [`Manager::interrupt`] if it was to be interrupted.
    #[cold]
    pub fn ready(&mut self) -> Option<Held> {
        let held = self.under_way.ready.pop_front();
        self.under_way.count -= usize::from(held.is_some());
        held
    }

    pub fn interrupt(&mut self, token: Token) {
        self.unblock(token);
    }

    /// A caller that waits here is to be interrupted (which a fork is not).
    #[cold]
    pub(crate) fn interrupt_later(&mut self, token: Token) {
        let under_way = &mut self.under_way;
        let all = under_way.held.iter_mut().chain(&mut under_way.ready);
        for held in all.filter(|held| held.message.token == token) {
            held.interrupted = true;
        }
    }

    /// A caller that waits here is gone.
    #[cold]
    pub(crate) fn forget_waiting(&mut self, token: Token) {
        let under_way = &mut self.under_way;
        under_way.held.retain(|held| held.message.token != token);
        let before = under_way.ready.len();
        under_way.ready.retain(|held| held.message.token != token);
        under_way.count -= before - under_way.ready.len();
        for fork in under_way.all().filter(|fork| fork.message.token == token) {
            fork.wanted = false;
        }
    }
}
