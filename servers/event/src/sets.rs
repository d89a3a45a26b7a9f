//! Sets of interests, and what is ready in each.
//!
//! An interest is *listed* in its set if it is to be reported: a level-triggered one as long as its file is ready for something that is wanted, an edge-triggered one from an event until it is reported or its file is ready for nothing of it any more. A listed interest always has something to report.
//! The maker of a set pays for its interests, [`STEP`] at a time: only a set that has no room left asks for more ([`Sets::widen`]), so most changes cost no look at an account.
//! Interests are found by number (place and generation, so an old number finds nothing), and by set, descriptor and open file.
//!
//! One that is taken out *rests*: it is nobody's any more, but its file's server, which does not know, still has its watch, and what it said last is true.
//! If the same is added again before that server has said something else, nobody has to ask it. Resting ones take only places that the set has paid for, the
//! oldest goes first.

use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_idl::errno::{EEXIST, EINVAL, ELOOP, ENOENT, ENOMEM, ENOSPC, EPERM, ESTALE};
use cairn_idl::event::{self, flags, told};
use cairn_idl::fs::poll;
use cairn_resmgr::chains::Chains;
use cairn_resmgr::shrink::Shrink;
use cairn_resmgr::{Context, Failure};

const NONE: u32 = u32::MAX;
const FLAGS: u64 = flags::EXCLUSIVE | flags::WAKEUP | flags::ONESHOT | flags::EDGE;
const ALWAYS: u64 = poll::ERR | poll::HUP;
/// What may be asked for beside EPOLLEXCLUSIVE.
const WITH_EXCLUSIVE: u64 =
    poll::IN | poll::OUT | ALWAYS | flags::WAKEUP | flags::EDGE | flags::EXCLUSIVE;
/// Most interests altogether, and those for which sets of one user beside user 0 have room.
const INTERESTS_MAX: usize = 1 << 20;
const INTERESTS_OF_ONE: u32 = 1 << 16;
/// Interests that are paid for together.
const STEP: u32 = 8;
/// What is charged for an interest and a set: itself and its places in lists and indexes.
const INTEREST_COST: usize = size_of::<Interest>() + 32;
const SET_COST: usize = size_of::<Set>() + 4;
/// Most that one question for them looks at.
const LOOKED: usize = 1024;
/// Tables of fewer interests are not made smaller.
const FEW: usize = 1024;
/// Interests that go at a time, and sets that do not make the table of sets smaller.
const PIECE: usize = 1024;
const FEW_SETS: usize = 256;
/// How deep sets may lie in sets, and how many are looked at to find out.
const DEPTH: u32 = 4;
const LOOKS: u32 = 1000;

/// What [`Sets::change`] does.
pub const ADD: u64 = 1;
pub const REMOVE: u64 = 2;
pub const MODIFY: u64 = 3;

struct Interest {
    generation: u32,
    /// NONE: the place is free.
    set: u32,
    fd: u32,
    file: u64,
    /// Wanted bits; 0 after a one-shot was reported.
    events: u64,
    flags: u64,
    data: u64,
    /// The domain that made or changed it last.
    maker: Id,
    /// What its file is ready for.
    ready: u64,
    listed: bool,
    /// It was taken out, and can be added again.
    rests: bool,
    /// Its file's server has said what `ready` is since `events` are wanted.
    known: bool,
    /// Neighbours in the list of what is to be reported, or of what rests.
    before: u32,
    behind: u32,
    /// Neighbours among all of the set.
    older: u32,
    newer: u32,
    /// Its file is this set.
    inner: u32,
}

/// A place without an interest.
const FREE: Interest = Interest {
    generation: 0,
    set: NONE,
    fd: 0,
    file: 0,
    events: 0,
    flags: 0,
    data: 0,
    maker: 0,
    ready: 0,
    listed: false,
    rests: false,
    known: false,
    before: NONE,
    behind: NONE,
    older: NONE,
    newer: NONE,
    inner: NONE,
};

impl Interest {
    fn wanted(&self) -> u64 {
        self.ready & self.events
    }

    /// It is what its maker says from now on; its file's server is to be told.
    fn take_over(&mut self, wish: &Wish) {
        (self.events, self.flags) = (wish.wanted(), wish.flags());
        (self.data, self.maker) = (wish.data, wish.maker);
        self.known = false;
    }
}

/// Interests by their places, first and last.
#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const NOTHING: List = List {
    first: NONE,
    last: NONE,
};

impl List {
    fn push(&mut self, all: &mut [Interest], index: u32) {
        let before = core::mem::replace(&mut self.last, index);
        let one = &mut all[index as usize];
        (one.before, one.behind) = (before, NONE);
        match all.get_mut(before as usize) {
            Some(neighbour) => neighbour.behind = index,
            None => self.first = index,
        }
    }

    fn take(&mut self, all: &mut [Interest], index: u32) {
        let one = &all[index as usize];
        let (before, behind) = (one.before, one.behind);
        match all.get_mut(before as usize) {
            Some(neighbour) => neighbour.behind = behind,
            None => self.first = behind,
        }
        match all.get_mut(behind as usize) {
            Some(neighbour) => neighbour.before = before,
            None => self.last = before,
        }
    }
}

#[derive(Clone)]
struct Set {
    /// The place has a set, or what is left of one.
    live: bool,
    /// Who pays for it, and the user that it counts for.
    payer: u32,
    uid: u32,
    /// Its interests, and how many are paid for.
    interests: u32,
    room: u32,
    newest: u32,
    /// What is to be reported.
    listed: List,
    resting: List,
    /// Requests that wait for something in it.
    waiters: u32,
    /// Interests whose files are sets.
    nested: u32,
    /// Whom its events are signals for, by place; NONE: they are waited for.
    signaller: u32,
}

const EMPTY: Set = Set {
    live: true,
    payer: 0,
    uid: 0,
    interests: 0,
    room: 0,
    newest: NONE,
    listed: NOTHING,
    resting: NOTHING,
    waiters: 0,
    nested: 0,
    signaller: NONE,
};

/// An event that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub bits: u32,
    pub data: u64,
}

/// An interest as a client gives it.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub fd: u32,
    pub file: u64,
    pub events: u64,
    pub data: u64,
    pub maker: Id,
}

impl Wish {
    fn wanted(&self) -> u64 {
        self.events & !FLAGS | ALWAYS
    }

    fn flags(&self) -> u64 {
        self.events & FLAGS
    }
}

/// How many interests the sets of a user have room for.
struct User {
    uid: u32,
    room: u32,
}

#[derive(Default)]
pub struct Sets {
    sets: Vec<Set>,
    free_sets: Vec<u32>,
    shrink_sets: Shrink,
    /// Closed ones with interests that are still to go.
    going: Vec<u32>,
    interests: Vec<Interest>,
    free: Vec<u32>,
    /// Interests that were ever made: the generation of the newest. So no number comes twice, whatever becomes of its place.
    made: u32,
    shrink: Shrink,
    names: Chains,
    /// By uid.
    users: Vec<User>,
}

fn name(set: u32, fd: u32, file: u64) -> u64 {
    file.rotate_left(24) ^ (set as u64) << 32 ^ fd as u64
}

impl Sets {
    /// A set of the caller's.
    pub fn add_set(&mut self, cx: &mut Context) -> Result<u32, Failure> {
        let count = self.sets.len() + 1;
        let room = self.sets.try_reserve(1).is_ok()
            && self.free_sets.try_reserve(count).is_ok()
            && self.going.try_reserve(count).is_ok();
        if !room {
            return Err(Failure::Errno(ENOMEM));
        }
        let (payer, uid) = (cx.payer(), cx.uid());
        cx.charge(payer, SET_COST)?;
        let new = Set {
            payer,
            uid,
            ..EMPTY
        };
        let index = match self.free_sets.pop() {
            Some(index) => {
                self.sets[index as usize] = new;
                index
            }
            None => {
                self.sets.push(new);
                self.sets.len() as u32 - 1
            }
        };
        self.shrink_sets.one_came(index as usize);
        Ok(index)
    }

    /// The set is closed: its interests go with it. False: some are left, for [`Sets::some_go`].
    pub fn remove_set(&mut self, cx: &mut Context, set: u32) -> bool {
        self.going.push(set);
        self.some_go(cx)
    }

    /// Some interests of closed sets go. Whether all have gone.
    pub fn some_go(&mut self, cx: &mut Context) -> bool {
        let mut left = PIECE;
        while let Some(&set) = self.going.last() {
            while let Some(index) = Some(self.sets[set as usize].newest).filter(|at| *at != NONE) {
                if left == 0 {
                    return false;
                }
                left -= 1;
                self.drop_interest(index);
            }
            self.going.pop();
            self.end_set(cx, set);
        }
        true
    }

    /// A set without interests.
    fn end_set(&mut self, cx: &mut Context, set: u32) {
        let gone = core::mem::replace(&mut self.sets[set as usize], EMPTY);
        self.sets[set as usize].live = false;
        self.free_sets.push(set);
        self.shrink_sets.one_went();
        cx.refund(gone.payer, SET_COST + gone.room as usize * INTEREST_COST);
        self.forget_room(gone.uid, gone.room);
        let (in_use, interests) = (self.interests(), &self.interests);
        let is_used = |at: usize| interests[at].set != NONE;
        let keep = self.shrink.keep(FEW, in_use, interests.len(), is_used);
        if let Some(places) = keep {
            self.shrink_to(places);
        }
        let (in_use, sets) = (self.sets.len() - self.free_sets.len(), &self.sets);
        let is_live = |at: usize| sets[at].live;
        let keep = self.shrink_sets.keep(FEW_SETS, in_use, sets.len(), is_live);
        if let Some(places) = keep {
            self.sets.truncate(places);
            self.sets.shrink_to_fit();
            self.free_sets.retain(|index| (*index as usize) < places);
            self.free_sets.shrink_to(places);
            self.going.shrink_to(places);
        }
    }

    #[cold]
    fn shrink_to(&mut self, places: usize) {
        self.interests.truncate(places);
        self.interests.shrink_to_fit();
        self.free.retain(|index| (*index as usize) < places);
        // It has room for all of them.
        self.free.shrink_to(places);
        self.names.shrink(places);
    }

    /// Has the set as many interests as are paid for, and none that rests?
    #[inline]
    pub fn is_full(&self, set: u32) -> bool {
        let set = &self.sets[set as usize];
        set.interests == set.room && set.resting.first == NONE
    }

    /// The set's maker pays for some interests more.
    #[cold]
    pub fn widen(&mut self, cx: &mut Context, set: u32) -> Result<(), Failure> {
        let Set { payer, uid, .. } = self.sets[set as usize];
        if uid != 0 {
            self.count_room(uid).map_err(Failure::Errno)?;
        }
        if let Err(failure) = cx.charge(payer, STEP as usize * INTEREST_COST) {
            self.forget_room(uid, STEP);
            return Err(failure);
        }
        self.sets[set as usize].room += STEP;
        Ok(())
    }

    fn count_room(&mut self, uid: u32) -> Result<(), i64> {
        let at = match self.users.binary_search_by_key(&uid, |user| user.uid) {
            Ok(at) => at,
            Err(at) => {
                self.users.try_reserve(1).map_err(|_| ENOMEM)?;
                self.users.insert(at, User { uid, room: 0 });
                at
            }
        };
        let user = &mut self.users[at];
        if user.room + STEP > INTERESTS_OF_ONE {
            return Err(ENOSPC);
        }
        user.room += STEP;
        Ok(())
    }

    fn forget_room(&mut self, uid: u32, room: u32) {
        if let Ok(at) = self.users.binary_search_by_key(&uid, |user| user.uid) {
            self.users[at].room -= room;
            if self.users[at].room == 0 {
                self.users.remove(at);
            }
        }
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.interests.capacity()
    }

    pub fn interests(&self) -> usize {
        self.interests.len() - self.free.len()
    }

    fn number(&self, index: u32) -> u64 {
        (self.interests[index as usize].generation as u64) << 32 | index as u64
    }

    fn index(&self, number: u64) -> Option<u32> {
        let interest = self.interests.get(number as u32 as usize)?;
        let same = interest.generation as u64 == number >> 32 && interest.set != NONE;
        same.then_some(number as u32)
    }

    /// Is it still there, as its file's server asks? That server forgets it otherwise, so it does not rest any longer.
    pub fn is_alive(&mut self, number: u64) -> bool {
        match self.index(number) {
            Some(index) if self.interests[index as usize].rests => {
                self.drop_interest(index);
                false
            }
            found => found.is_some(),
        }
    }

    /// At most so many interests of a set, from the one with this number on (0: the newest) → how many, and which is next (0: none).
    pub fn told_of(
        &self,
        set: u32,
        first: u64,
        most: usize,
        mut each: impl FnMut(usize, event::Told),
    ) -> (usize, u64) {
        let newest = self.sets[set as usize].newest;
        let first = match first {
            0 => Some(newest).filter(|&at| at != NONE),
            number => self.index(number),
        };
        let mut at = first.filter(|&at| self.interests[at as usize].set == set);
        let (mut count, mut looked) = (0, 0);
        while let Some(index) = at {
            if count == most || looked == LOOKED {
                return (count, self.number(index));
            }
            looked += 1;
            let one = &self.interests[index as usize];
            if !one.rests {
                each(
                    count,
                    event::Told {
                        descriptor: one.fd,
                        events: (one.events | one.flags) as u32,
                        data: one.data,
                        file: one.file,
                    },
                );
                count += 1;
            }
            at = Some(one.older).filter(|&older| older != NONE);
        }
        (count, 0)
    }

    fn find(&self, set: u32, fd: u32, file: u64) -> Option<u32> {
        self.names.all(name(set, fd, file)).find(|index| {
            let one = &self.interests[*index as usize];
            one.set == set && one.fd == fd && one.file == file
        })
    }

    /// EPOLL_CTL_: the interest's number, and whether its file's server knows of it as it is. Who adds one has looked whether the set
    /// [is full](Sets::is_full).
    pub fn change(&mut self, set: u32, what: u64, wish: &Wish) -> Result<(u64, bool), i64> {
        let found = self.find(set, wish.fd, wish.file);
        let rests = found.is_some_and(|index| self.interests[index as usize].rests);
        let exclusive = wish.events & flags::EXCLUSIVE != 0;
        match (what, found) {
            (ADD | MODIFY, _)
                if exclusive && (what != ADD || wish.events & !WITH_EXCLUSIVE != 0) =>
            {
                Err(EINVAL)
            }
            (ADD, Some(index)) if rests => Ok(self.wake_up(index, wish)),
            (ADD, Some(_)) => Err(EEXIST),
            (ADD, None) => self.add(set, wish).map(|number| (number, false)),
            (REMOVE | MODIFY, found) if rests || found.is_none() => Err(ENOENT),
            (REMOVE, Some(index)) => {
                let number = self.number(index);
                self.rest(index);
                Ok((number, false))
            }
            (MODIFY, Some(index)) => {
                let one = &mut self.interests[index as usize];
                if one.flags & flags::EXCLUSIVE != 0 {
                    return Err(EINVAL);
                }
                one.take_over(wish);
                self.unlist(index);
                Ok((self.number(index), false))
            }
            _ => Err(EINVAL),
        }
    }

    #[inline(never)]
    fn add(&mut self, set: u32, wish: &Wish) -> Result<u64, i64> {
        let Set {
            interests,
            room,
            resting,
            ..
        } = self.sets[set as usize];
        let index = match resting.first {
            NONE => self.add_place(set)?,
            // In the place of the one that rests longest.
            oldest if interests == room => {
                self.sets[set as usize]
                    .resting
                    .take(&mut self.interests, oldest);
                self.names.remove(oldest);
                oldest
            }
            _ => self.add_place(set)?,
        };
        let one = &mut self.interests[index as usize];
        self.made = self.made.wrapping_add(1).max(1);
        one.generation = self.made;
        (one.set, one.fd, one.file) = (set, wish.fd, wish.file);
        one.take_over(wish);
        (one.ready, one.listed, one.rests, one.inner) = (0, false, false, NONE);
        self.names.insert(index, name(set, wish.fd, wish.file));
        Ok(self.number(index))
    }

    /// A place for one more of the set's, the newest.
    fn add_place(&mut self, set: u32) -> Result<u32, i64> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let count = self.interests.len() + 1;
                let room = count <= INTERESTS_MAX
                    && self.interests.try_reserve(1).is_ok()
                    && self.free.try_reserve(count).is_ok();
                if !room {
                    return Err(ENOSPC);
                }
                self.interests.push(FREE);
                count as u32 - 1
            }
        };
        if !self.names.reserve(self.interests.len()) {
            self.free.push(index);
            return Err(ENOSPC);
        }
        self.shrink.one_came(index as usize);
        self.sets[set as usize].interests += 1;
        let older = core::mem::replace(&mut self.sets[set as usize].newest, index);
        if let Some(neighbour) = self.interests.get_mut(older as usize) {
            neighbour.newer = index;
        }
        let one = &mut self.interests[index as usize];
        (one.older, one.newer) = (older, NONE);
        Ok(index)
    }

    #[inline(never)]
    fn drop_interest(&mut self, index: u32) {
        self.unlist(index);
        self.names.remove(index);
        let one = &mut self.interests[index as usize];
        let (set, older, newer) = (one.set, one.older, one.newer);
        let nested = one.inner != NONE;
        one.set = NONE;
        if core::mem::replace(&mut one.rests, false) {
            let list = &mut self.sets[set as usize].resting;
            list.take(&mut self.interests, index);
        }
        self.shrink.one_went();
        match self.interests.get_mut(newer as usize) {
            Some(neighbour) => neighbour.older = older,
            None => self.sets[set as usize].newest = older,
        }
        if let Some(neighbour) = self.interests.get_mut(older as usize) {
            neighbour.newer = newer;
        }
        let set = &mut self.sets[set as usize];
        set.nested -= nested as u32;
        set.interests -= 1;
        self.free.push(index);
    }

    fn list(&mut self, index: u32) {
        let one = &mut self.interests[index as usize];
        if !core::mem::replace(&mut one.listed, true) {
            let set = &mut self.sets[one.set as usize];
            set.listed.push(&mut self.interests, index);
        }
    }

    fn unlist(&mut self, index: u32) {
        let one = &mut self.interests[index as usize];
        if core::mem::replace(&mut one.listed, false) {
            let set = &mut self.sets[one.set as usize];
            set.listed.take(&mut self.interests, index);
        }
    }

    /// It is taken out: by and by its file's server will hear of it.
    fn rest(&mut self, index: u32) {
        let one = &self.interests[index as usize];
        let set = &self.sets[one.set as usize];
        // (A set in a set would count as being in it; signals are told of a file's first state as well; of what is exclusive not each change is told.)
        let each_change = one.flags & flags::EXCLUSIVE == 0;
        if !one.known || !each_change || one.inner != NONE || set.signaller != NONE {
            self.drop_interest(index);
            return;
        }
        self.unlist(index);
        let one = &mut self.interests[index as usize];
        one.rests = true;
        let set = &mut self.sets[one.set as usize];
        set.resting.push(&mut self.interests, index);
    }

    /// What rests is added again: its number, and whether its file's server need not be told.
    fn wake_up(&mut self, index: u32, wish: &Wish) -> (u64, bool) {
        let one = &mut self.interests[index as usize];
        one.rests = false;
        let set = &mut self.sets[one.set as usize];
        set.resting.take(&mut self.interests, index);
        let one = &mut self.interests[index as usize];
        let same = (one.events, one.flags, one.maker) == (wish.wanted(), wish.flags(), wish.maker);
        one.data = wish.data;
        if !same {
            one.take_over(wish);
        } else if one.wanted() != 0 {
            self.list(index);
        }
        (self.number(index), same)
    }

    /// A file's server says what the file is ready for: the interest's set, and whether something is to be reported because of it.
    pub fn tell(
        &mut self,
        number: u64,
        watcher: Id,
        ready: u64,
        how: u64,
    ) -> Result<(u32, bool), i64> {
        let index = self.index(number).ok_or(ESTALE)?;
        let one = &mut self.interests[index as usize];
        if one.maker != watcher {
            return Err(EPERM);
        }
        let set = one.set;
        let rests = one.rests;
        if rests || how & told::GONE != 0 {
            self.drop_interest(index);
            return if rests { Err(ESTALE) } else { Ok((set, false)) };
        }
        (one.ready, one.known) = (ready, true);
        let edge = one.flags & flags::EDGE != 0;
        if one.wanted() == 0 {
            self.unlist(index);
        } else if !edge || how & told::AGAIN != 0 {
            self.list(index);
            return Ok((set, true));
        }
        Ok((set, false))
    }

    /// The set's events are signals from now on.
    pub fn set_signaller(&mut self, set: u32, signaller: u32) {
        self.sets[set as usize].signaller = signaller;
    }

    pub fn signaller(&self, set: u32) -> Option<u32> {
        let signaller = self.sets[set as usize].signaller;
        (signaller != NONE).then_some(signaller)
    }

    /// The set of an interest, and its signaller, if it has one.
    #[inline]
    pub fn signaller_of(&self, number: u64) -> Option<(u32, u32)> {
        let set = self.interests[self.index(number)? as usize].set;
        Some((set, self.signaller(set)?))
    }

    pub fn has_ready(&self, set: u32) -> bool {
        self.sets[set as usize].listed.first != NONE
    }

    /// Does anybody wait for something in the set?
    pub fn has_waiters(&self, set: u32) -> bool {
        self.sets[set as usize].waiters != 0
    }

    pub fn begin_wait(&mut self, set: u32) {
        self.sets[set as usize].waiters += 1;
    }

    pub fn end_wait(&mut self, set: u32) {
        self.sets[set as usize].waiters -= 1;
    }

    /// What is to be reported first; nothing changes yet.
    pub fn look(&self, set: u32) -> impl Iterator<Item = Event> + '_ {
        let first = Some(self.sets[set as usize].listed.first);
        let listed = core::iter::successors(first, |index| {
            self.interests.get(*index as usize).map(|one| one.behind)
        });
        listed
            .map_while(|index| self.interests.get(index as usize))
            .map(|one| Event {
                bits: one.wanted() as u32,
                data: one.data,
            })
    }

    /// So many of them were reported. What is level-triggered stays, behind the others.
    pub fn reported(&mut self, set: u32, count: usize) {
        for _ in 0..count {
            let index = self.sets[set as usize].listed.first;
            let Some(one) = self.interests.get_mut(index as usize) else {
                return;
            };
            let (edge, once) = (
                one.flags & flags::EDGE != 0,
                one.flags & flags::ONESHOT != 0,
            );
            if once {
                one.events = 0;
            }
            self.unlist(index);
            if !edge && !once {
                self.list(index);
            }
        }
    }

    /// Is `goal` in `from`, or in a set in it; how deep sets lie in it is limited as well.
    fn leads_to(&self, from: u32, goal: u32, depth: u32, looks: &mut u32) -> bool {
        if from == goal || depth > DEPTH || *looks == 0 {
            return true;
        }
        *looks -= 1;
        if self.sets[from as usize].nested == 0 {
            return false;
        }
        let mut index = self.sets[from as usize].newest;
        while let Some(one) = self.interests.get(index as usize) {
            if one.inner != NONE && self.leads_to(one.inner, goal, depth + 1, looks) {
                return true;
            }
            index = one.older;
        }
        false
    }

    /// A set is about to be watched for an interest, by this domain. (Anybody can say a number.)
    pub fn nest(&mut self, number: u64, watcher: Id, inner: u32) -> Result<(), i64> {
        let index = self.index(number).ok_or(ESTALE)?;
        if self.interests[index as usize].maker != watcher {
            return Err(EPERM);
        }
        let (outer, flags) = {
            let one = &self.interests[index as usize];
            (one.set, one.flags)
        };
        if outer == inner || flags & flags::EXCLUSIVE != 0 {
            return Err(EINVAL);
        }
        if self.interests[index as usize].inner == inner {
            return Ok(());
        }
        if self.leads_to(inner, outer, 1, &mut { LOOKS }) {
            return Err(ELOOP);
        }
        if self.interests[index as usize].inner == NONE {
            self.sets[outer as usize].nested += 1;
        }
        self.interests[index as usize].inner = inner;
        Ok(())
    }
}
