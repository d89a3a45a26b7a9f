//! PID name spaces: what numbers of processes, threads, groups and sessions are called inside.
//!
//! `proc` itself goes by the numbers of the first one ("outside"), and so does every other server. What a process of another one says and hears is translated where its messages come in and are answered
//! ([`Manager::inward`], [`Manager::outward`]). A number that its name space does not have means nobody.

use crate::dispatch::Outcome;
use crate::ids::LIMIT;
use crate::login;
use crate::manager::{done, Manager};
use crate::process::Process;
use crate::signal::{SIGHUP, SIGINT, SIGKILL};
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use crate::user_spaces::{named, Above, Counted};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::capability::SYS_BOOT;
use cairn_idl::errno::{EINVAL, EPERM, ESRCH};
use cairn_idl::proc::*;
use cairn_rt::Received;
use core::cell::{Cell, RefCell};

/// How deep they lie in one another.
pub(crate) const DEPTH_MOST: u32 = 32;
/// Numbers of a block.
const BLOCK: usize = 256;
/// The search for a free number begins here again.
const AFTER_WRAP: u32 = 300;
/// Nobody has this number.
const NOBODY: u64 = LIMIT as u64 + 1;

/// From numbers to numbers, 0 where there is none; memory for blocks in which there ever were some.
#[derive(Debug, Default)]
struct Places(Vec<Vec<u16>>);

impl Places {
    fn get(&self, number: u64) -> u32 {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let block = self.0.get(index / BLOCK);
        let to = block.and_then(|block| block.get(index % BLOCK));
        to.map_or(0, |to| u32::from(*to))
    }

    /// See that there is a place for this number.
    fn reserve(&mut self, number: u32) -> bool {
        let at = number as usize / BLOCK;
        if at >= self.0.len() {
            if self.0.try_reserve(at + 1 - self.0.len()).is_err() {
                return false;
            }
            self.0.resize_with(at + 1, Vec::new);
        }
        let block = &mut self.0[at];
        if block.is_empty() {
            if block.try_reserve_exact(BLOCK).is_err() {
                return false;
            }
            block.resize(BLOCK, 0);
        }
        true
    }

    fn set(&mut self, number: u32, to: u32) {
        let at = number as usize;
        let block = self.0.get_mut(at / BLOCK);
        if let Some(place) = block.and_then(|block| block.get_mut(at % BLOCK)) {
            *place = to as u16;
        }
    }

    /// The first number from this one on that leads somewhere, and where.
    fn next(&self, from: u64) -> Option<(u32, u32)> {
        let mut number = usize::try_from(from).ok()?;
        while let Some(block) = self.0.get(number / BLOCK) {
            let first = number / BLOCK * BLOCK;
            let mut used = (number - first..block.len()).filter(|at| block[*at] != 0);
            if let Some(at) = used.next() {
                return Some(((first + at) as u32, block[at].into()));
            }
            number = first + BLOCK;
        }
        None
    }
}

#[derive(Debug)]
pub struct PidSpace {
    pub id: u64,
    pub above: Pids,
    /// The user name space that it was made in.
    pub owner: Above,
    depth: u32,
    /// Its process 1; [`NONE`] before there is one.
    init: Cell<Slot>,
    /// That has ended: nobody comes any more.
    ended: Cell<bool>,
    /// From its numbers to those outside, and back; the last one that was given.
    outside: RefCell<Places>,
    inside: RefCell<Places>,
    last: Cell<u32>,
    _counted: Counted,
}

/// A PID name space, or none: the first one.
pub type Pids = Option<Rc<PidSpace>>;

impl PidSpace {
    pub fn new(id: u64, above: Pids, owner: Above, counted: Counted) -> Option<PidSpace> {
        let depth = above.as_ref().map_or(0, |above| above.depth) + 1;
        (depth <= DEPTH_MOST).then(|| PidSpace {
            id,
            above,
            owner,
            depth,
            init: Cell::new(NONE),
            ended: Cell::new(false),
            outside: RefCell::default(),
            inside: RefCell::default(),
            last: Cell::new(0),
            _counted: counted,
        })
    }

    /// A number outside gets one in this and all above. False: there is no memory, or number; or the name space has ended.
    pub fn give(&self, outside: u32) -> bool {
        if self.ended.get() || !self.above.as_ref().is_none_or(|above| above.give(outside)) {
            return false;
        }
        let given = self.give_here(outside);
        if !given {
            if let Some(above) = &self.above {
                above.forget(outside);
            }
        }
        given
    }

    fn give_here(&self, outside: u32) -> bool {
        let (mut places, mut back) = (self.outside.borrow_mut(), self.inside.borrow_mut());
        let mut candidate = self.last.get();
        for _ in 0..LIMIT {
            candidate += 1;
            if candidate >= LIMIT {
                candidate = AFTER_WRAP;
            }
            if places.get(candidate.into()) != 0 {
                continue;
            }
            if !places.reserve(candidate) || !back.reserve(outside) {
                return false;
            }
            places.set(candidate, outside);
            back.set(outside, candidate);
            self.last.set(candidate);
            return true;
        }
        false
    }

    /// Nobody bears the number outside any more.
    pub fn forget(&self, outside: u32) {
        let inside = self.inside(outside.into());
        self.outside.borrow_mut().set(inside, 0);
        self.inside.borrow_mut().set(outside, 0);
        if let Some(above) = &self.above {
            above.forget(outside);
        }
    }

    /// The number that was given last.
    pub fn last(&self) -> u32 {
        self.last.get()
    }

    /// What a number outside is called here; 0: it is nobody's.
    pub fn inside(&self, outside: u64) -> u32 {
        self.inside.borrow().get(outside)
    }

    /// A number of this one outside.
    pub(crate) fn outside(&self, inside: u64) -> u64 {
        match self.outside.borrow().get(inside) {
            0 => NOBODY,
            outside => outside.into(),
        }
    }

    /// Its first process.
    pub fn is_init(&self, slot: Slot) -> bool {
        self.init.get() == slot
    }

    /// The one who takes orphans.
    pub fn heir(&self) -> Option<Slot> {
        Some(self.init.get()).filter(|init| *init != NONE && !self.ended.get())
    }

    /// A process came into it: the first one is its process 1.
    pub fn entered(&self, slot: Slot) {
        if self.init.get() == NONE && !self.ended.get() {
            self.init.set(slot);
        }
    }

    /// It did not come after all.
    pub fn never_entered(&self, slot: Slot) {
        if self.is_init(slot) {
            self.init.set(NONE);
            self.last.set(0);
        }
    }

    /// The first process of this one, or of one that it lies in, has ended before this one.
    pub fn ends_with_all(&self, slot: Slot) -> bool {
        let here = self.ended.get() && !self.is_init(slot);
        let above = self.above.as_ref();
        here || above.is_some_and(|above| above.ends_with_all(slot))
    }

    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// This one, or one that it lies in.
    fn is_within(&self, other: &Rc<PidSpace>) -> bool {
        let mut at = Some(self);
        while let Some(space) = at {
            if core::ptr::eq(space, Rc::as_ptr(other)) {
                return true;
            }
            at = space.above.as_deref();
        }
        false
    }
}

/// Is the one the other, or does it lie in it?
pub fn is_within(one: &Pids, other: &Pids) -> bool {
    match (one, other) {
        (_, None) => true,
        (Some(one), Some(other)) => one.is_within(other),
        (None, Some(_)) => false,
    }
}

fn both(word: u64, low: u64) -> u64 {
    word & !0xffff_ffff | low & 0xffff_ffff
}

impl<S: System> Manager<S> {
    /// The PID name space whose numbers a message's sender says and hears, if that is not the first one.
    pub(crate) fn numbers_of(&self, message: &Received) -> Pids {
        let slot = self.caller(message).ok()?;
        self.processes[slot].pids.clone()
    }

    /// What a process of another PID name space says, with the numbers outside.
    pub(crate) fn inward(space: &PidSpace, message: &Received) -> Received {
        let mut message = *message;
        let words = &mut message.words;
        let named = |word: u64| match word as u32 as i32 {
            0 => word,
            n @ 1.. => space.outside(n as u64),
            // A group. Of all processes `kill` looks who they are.
            -1 => word,
            n => (-(space.outside(u64::from(n.unsigned_abs())) as i64)) as u64,
        };
        match words[0] {
            KILL => words[1] = named(words[1]),
            TGKILL => (words[1], words[2]) = (named(words[1]), named(words[2])),
            WAIT if matches!(words[1], 1 | 2) => words[2] = named(words[2]),
            TRACE => words[2] = named(words[2]),
            IDS | GETSCHEDULER | STATUS | TRACE_VFORK | TRACE_MEMORY | FILE_OF => {
                words[1] = named(words[1])
            }
            SETPGID => (words[1], words[2]) = (named(words[1]), named(words[2])),
            // (The third kind is users.)
            GETPRIORITY | SETPRIORITY if words[1] < 2 => words[2] = named(words[2]),
            RUSAGE => words[2] = named(words[2]),
            SETSCHEDULER => words[3] = named(words[3]),
            PRLIMIT => words[2] = named(words[2]),
            TIMER if words[1] == TimerOp::Create.word() => {
                words[4] = both(words[4], named(words[4] & 0xffff_ffff));
                words[5] = named(words[5]);
            }
            _ => {}
        }
        message
    }

    /// The answer to such a message, with the numbers inside.
    pub(crate) fn outward(space: &PidSpace, operation: u64, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Words(mut words) => {
                Self::outward_words(space, operation, &mut words);
                Outcome::Words(words)
            }
            other => other,
        }
    }

    /// The same of an answer's words. (Those of children and of signals are as their receiver has them from the beginning: they outlive whom they mean.)
    pub(crate) fn outward_words(space: &PidSpace, operation: u64, words: &mut [u64; 8]) {
        if (words[0] as i64) < 0 {
            return;
        }
        let inside = |word: u64| u64::from(space.inside(word));
        match operation {
            FORK | THREAD_CREATE | SETSID => words[0] = inside(words[0]),
            IDS => {
                for at in [0, 1, 2, 3, 5] {
                    words[at] = inside(words[at]);
                }
            }
            _ => {}
        }
    }

    /// What a process knows of another one's status, by the numbers of its own PID name space.
    pub(crate) fn seen_by(&self, slot: Slot, status: &mut Status) {
        let Process { pids, user, .. } = &self.processes[slot];
        let creds = &mut status.creds;
        for id in [&mut creds.ruid, &mut creds.euid, &mut creds.suid] {
            *id = named(user, false, *id);
        }
        for id in [&mut creds.rgid, &mut creds.egid, &mut creds.sgid] {
            *id = named(user, true, *id);
        }
        creds.groups = creds.groups.map(|id| named(user, true, id));
        status.login_user = login::seen(user, status.login_user);
        if let Some(space) = pids {
            let numbers = [
                &mut status.pid,
                &mut status.ppid,
                &mut status.pgid,
                &mut status.sid,
                &mut status.foreground,
                &mut status.tracer,
            ];
            for number in numbers {
                *number = space.inside((*number).into());
            }
        }
    }

    /// A number outside as this process has it.
    pub(crate) fn as_seen(&self, slot: Slot, number: u32) -> u32 {
        match &self.processes[slot].pids {
            Some(space) => space.inside(number.into()),
            None => number,
        }
    }

    /// NUMBER
    pub(crate) fn number(&self, slot: Slot, number: u64, outside: bool) -> Result<Outcome, Errno> {
        Self::number_in(&self.processes[slot].pids, number, outside)
    }

    /// NUMBER_OF
    pub(crate) fn number_of_domain(
        &self,
        domain: u64,
        number: u64,
        outside: bool,
    ) -> Result<Outcome, Errno> {
        // (A component is in the first one.)
        match self.by_domain(domain) {
            Ok(slot) => self.number(slot, number, outside),
            Err(_) => done(number as i64),
        }
    }

    fn number_in(space: &Pids, number: u64, outside: bool) -> Result<Outcome, Errno> {
        let Some(space) = space else {
            return done(number as i64);
        };
        match (outside, space.inside(number)) {
            (true, _) => match space.outside(number) {
                NOBODY => Err(ESRCH),
                number => done(number as i64),
            },
            (false, inside) => done(inside.into()),
        }
    }

    /// Numbers of processes from this one on, as somebody of this PID name space has them.
    pub(crate) fn next_of(&self, space: &Pids, from: u64) -> Option<(u32, Slot)> {
        let Some(space) = space else {
            return self.numbers.next_process(from);
        };
        let mut from = from;
        loop {
            let (inside, outside) = space.outside.borrow().next(from)?;
            if let Some(slot) = self.numbers.process(outside.into()) {
                return Some((inside, slot));
            }
            from = u64::from(inside) + 1;
        }
    }

    /// A process 1 has ended: all in its PID name space and those below it end.
    pub(crate) fn end_pid_space(&mut self, slot: Slot) {
        let Some(space) = self.processes[slot].pids.clone() else {
            return;
        };
        if !space.is_init(slot) || space.ended.replace(true) {
            return;
        }
        let (all, mut from) = (Some(space), 1);
        while let Some((inside, other)) = self.next_of(&all, from) {
            if other != slot {
                self.doom(other, SIGKILL);
            }
            from = u64::from(inside) + 1;
        }
    }

    /// POWER by a process of a PID name space: that one ends, and who waits for its process 1 sees by the signal how (reboot(2), "Behavior inside PID
    /// namespaces").
    pub(crate) fn power_of_space(&mut self, slot: Slot, how: u64) -> Result<Outcome, Errno> {
        let space = self.processes[slot].pids.clone().ok_or(EINVAL)?;
        if !self.is_capable(slot, &space.owner, SYS_BOOT) {
            return Err(EPERM);
        }
        let signal = match how {
            0 => SIGINT,
            1 => SIGHUP,
            _ => return Err(EINVAL),
        };
        self.doom(space.heir().ok_or(ESRCH)?, signal);
        done(0)
    }

    /// A process 1 for whoever is in its name space with it, or below: signals that it does not catch do nothing to it, not even SIGKILL.
    pub(crate) fn is_shielded(&self, sender: Slot, target: Slot) -> bool {
        let space = &self.processes[target].pids;
        space.as_ref().is_some_and(|own| {
            own.is_init(target) && is_within(&self.processes[sender].pids, space)
        })
    }
}
