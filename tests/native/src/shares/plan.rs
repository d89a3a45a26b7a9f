//! Guaranteed shares of a processor, as a plan: no clock, no threads. Times are in ns of *plan time*, which passes while members run and while nobody wants to:
//! what threads outside take is nobody's.
//!
//! A group of members has a share in per cent. While it wants time it is served at that rate at least, at every moment less a little; what others do not want
//! is divided by shares. That is worst-case fair weighted fair queueing (Bennett and Zhang, Hierarchical packet fair queueing algorithms, 1997, WF2Q+).
//! Virtual time passes as plan time does. Each group has a *start*, the virtual time at which its next slice is due to begin; its *end* is a slice's length,
//! divided by the share, later. Of the groups whose start has come the one runs whose end is first; if none has come, the one whose start is first.
//!
//! Virtual time stays no further behind all starts than [`CREDIT`], and a group that wants time again has a start no further behind virtual time. So a group
//! that waits for something now and then has its share all the same, from what those used who ran meanwhile, and nobody keeps more or owes more than that.
//!
//! A critical member that is ready runs at once. What it uses while another group is the one to run is *overdrawn*: its group pays for that as for all its
//! time, and it counts against the group's critical budget of a window. A group that has none left is *bankrupt*: its critical members are like the others
//! until all that was overdrawn has left the window.
//!
//! What always holds: the shares are 100 at most together; a ready member is in one ring of its group, by its level; a group that wants time is in one of two
//! trees. No list is gone through: a choice takes as many steps with 10,000 members as with one.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// What critical budgets are for. It moves in steps.
pub const WINDOW: u64 = STEPS as u64 * STEP;
const STEPS: usize = 100;
pub const STEP: u64 = 1_000_000;
/// The longest slice, while another member is ready; and what is not worth a switch.
pub const SLICE: u64 = STEP;
pub const GRAIN: u64 = STEP / 10;
/// What is kept for a group that does not want time, in virtual time.
pub const CREDIT: u64 = 5 * STEP;
/// So far a start may be ahead: what was overdrawn is paid back for so long and no longer.
const AHEAD: u64 = 2 * WINDOW;
/// Of equals each runs so long before the next one does.
pub const TURN: u64 = 4 * STEP;
/// Most groups: each has 1 % at least.
const GROUPS: usize = 100;
/// Priorities of members; critical ones have as many levels above.
pub const PRIORITIES: usize = 32;
const LEVELS: usize = 2 * PRIORITIES;
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A share of nothing, a priority or a critical budget that there is not, a critical member of a group that has no such budget.
    Wrong,
    /// More than what is left of 100 %.
    TooMuch,
    /// No such group.
    Unknown,
    /// The group has members.
    Occupied,
    NoMemory,
}

impl Refused {
    /// As an answer tells it.
    pub fn code(self) -> i64 {
        match self {
            Refused::Wrong => -22,
            Refused::TooMuch => -28,
            Refused::Unknown => -3,
            Refused::Occupied => -16,
            Refused::NoMemory => -12,
        }
    }
}

/// A member runs, for so long at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub place: usize,
    pub length: u64,
    /// It runs because it is critical, and its group pays for that.
    pub overdraws: bool,
}

/// How a group stands: what it used altogether, what was overdrawn in the window, and how often it was bankrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub used: u64,
    pub overdrawn: u64,
    pub bankruptcies: u64,
}

struct Member<T> {
    /// None: nobody is here, and `next` is the next such place.
    own: Option<T>,
    group: u8,
    priority: u8,
    critical: bool,
    ready: bool,
    /// Of its turn.
    left: u64,
    next: u32,
    previous: u32,
}

#[derive(Clone)]
struct Group {
    /// 0: there is no such group.
    percent: u64,
    budget: u64,
    /// It goes when the window has forgotten it: who comes anew would have its critical budget twice.
    closed: bool,
    members: usize,
    /// Of each level the last one of its ring, and which of them have one.
    last: [u32; LEVELS],
    levels: u64,
    start: u64,
    standing: Standing,
    bankrupt: bool,
    /// What was overdrawn in each step of the window.
    steps: [u32; STEPS],
}

/// Members have something of their caller's.
pub struct Plan<T> {
    groups: Vec<Group>,
    members: Vec<Member<T>>,
    /// The first place where nobody is.
    free: u32,
    percent: u64,
    now: u64,
    virtual_now: u64,
    /// The groups that want time: those whose start has come, by their ends, and the others, by their starts. And those of which a critical member is ready.
    begun: Box<Least>,
    later: Box<Least>,
    critical: Box<Least>,
    ready: usize,
    /// Who overdrew in each step.
    overdrew: [u128; STEPS],
    turn: Option<Turn>,
}

impl<T> Default for Plan<T> {
    fn default() -> Plan<T> {
        Plan {
            groups: Vec::new(),
            members: Vec::new(),
            free: NOBODY,
            percent: 0,
            now: 0,
            virtual_now: 0,
            begun: Box::new(Least::new()),
            later: Box::new(Least::new()),
            critical: Box::new(Least::new()),
            ready: 0,
            overdrew: [0; STEPS],
            turn: None,
        }
    }
}

impl<T> Plan<T> {
    /// A group with this share, and a critical budget in ns for each window (0: none). Its number.
    pub fn open(&mut self, percent: u64, budget: u64) -> Result<usize, Refused> {
        if percent == 0 || percent > 100 || budget > WINDOW || (1..GRAIN).contains(&budget) {
            return Err(Refused::Wrong);
        }
        if percent > 100 - self.percent {
            return Err(Refused::TooMuch);
        }
        let free = self.groups.iter().position(|group| group.percent == 0);
        let number = free.unwrap_or(self.groups.len());
        let group = Group {
            percent,
            budget,
            closed: false,
            members: 0,
            last: [NOBODY; LEVELS],
            levels: 0,
            start: self.virtual_now,
            standing: Standing::default(),
            bankrupt: false,
            steps: [0; STEPS],
        };
        match free {
            Some(number) => self.groups[number] = group,
            None => {
                let room = self.groups.try_reserve(1);
                room.map_err(|_| Refused::NoMemory)?;
                self.groups.push(group);
            }
        }
        self.percent += percent;
        Ok(number)
    }

    /// A group without members goes. Its share is free when the window has forgotten it.
    pub fn close(&mut self, number: u64) -> Result<(), Refused> {
        let number = self.number(number)?;
        let group = &mut self.groups[number];
        if group.members != 0 {
            return Err(Refused::Occupied);
        }
        group.closed = true;
        self.forget(number);
        Ok(())
    }

    pub fn standing(&self, number: u64) -> Result<Standing, Refused> {
        Ok(self.groups[self.number(number)?].standing)
    }

    fn number(&self, number: u64) -> Result<usize, Refused> {
        let found = usize::try_from(number).ok();
        let open =
            |&n: &usize| matches!(self.groups.get(n), Some(g) if g.percent != 0 && !g.closed);
        found.filter(open).ok_or(Refused::Unknown)
    }

    /// A member that is not ready. Its place.
    pub fn join(
        &mut self,
        group: u64,
        priority: u64,
        critical: bool,
        own: T,
    ) -> Result<usize, Refused> {
        let number = self.number(group)?;
        if priority >= PRIORITIES as u64 || critical && self.groups[number].budget == 0 {
            return Err(Refused::Wrong);
        }
        let member = Member {
            own: Some(own),
            group: number as u8,
            priority: priority as u8,
            critical,
            ready: false,
            left: TURN,
            next: NOBODY,
            previous: NOBODY,
        };
        self.groups[number].members += 1;
        if let Some(free) = self.members.get_mut(self.free as usize) {
            let place = self.free as usize;
            self.free = free.next;
            *free = member;
            return Ok(place);
        }
        if self.members.try_reserve(1).is_err() {
            self.groups[number].members -= 1;
            return Err(Refused::NoMemory);
        }
        self.members.push(member);
        Ok(self.members.len() - 1)
    }

    /// What was given with a member, if there is one.
    pub fn own(&mut self, place: usize) -> Option<&mut T> {
        self.members.get_mut(place)?.own.as_mut()
    }

    pub fn leave(&mut self, place: usize) -> Option<T> {
        self.own(place)?;
        self.set_ready(place, false);
        self.turn = self.turn.filter(|turn| turn.place != place);
        let member = &mut self.members[place];
        self.groups[member.group as usize].members -= 1;
        member.next = self.free;
        self.free = place as u32;
        member.own.take()
    }

    /// It could run from now on, or not.
    pub fn set_ready(&mut self, place: usize, ready: bool) {
        let member = &mut self.members[place];
        if member.ready == ready {
            return;
        }
        member.ready = ready;
        let number = member.group as usize;
        if ready {
            let group = &mut self.groups[number];
            if group.levels == 0 {
                let least = self.virtual_now.saturating_sub(CREDIT);
                group.start = group.start.max(least);
            }
            member.left = TURN;
            self.ready += 1;
            self.push(place);
        } else {
            self.ready -= 1;
            self.unlink(place);
        }
        self.rank(number);
    }

    /// Its equals go first.
    pub fn give_way(&mut self, place: usize) {
        self.members[place].left = TURN;
        if self.members[place].ready {
            self.unlink(place);
            self.push(place);
        }
    }

    /// Who runs from now on?
    pub fn choose(&mut self) -> Option<Turn> {
        self.turn = None;
        let first = self.begun.first().or(self.later.first())?;
        let number = self.critical.first().unwrap_or(first);
        let overdraws = number != first;
        let group = &self.groups[number];
        let level = group.first_level();
        let place = self.members[group.last[level] as usize].next as usize;
        // (Alone it has nobody to make room for.)
        let mut length = WINDOW;
        if self.ready > 1 {
            length = SLICE.min(self.members[place].left);
        }
        if overdraws {
            length = length.min(group.budget - group.standing.overdrawn);
        }
        self.turn = Some(Turn {
            place,
            length,
            overdraws,
        });
        self.turn
    }

    /// A member has had so much: the one that was chosen last, or another one for which somebody worked.
    pub fn spend(&mut self, place: usize, spent: u64) {
        let chosen = self.turn.filter(|turn| turn.place == place);
        let overdraws = chosen.is_some_and(|turn| turn.overdraws);
        let member = &mut self.members[place];
        let number = member.group as usize;
        member.left = member.left.saturating_sub(spent);
        if member.left < GRAIN {
            self.give_way(place);
        }
        let group = &mut self.groups[number];
        group.standing.used = group.standing.used.saturating_add(spent);
        // Of a very long time not all is charged, and no more of it passes than that.
        let charged = (spent.saturating_mul(100) / group.percent).min(AHEAD);
        if chosen.is_some() && !overdraws {
            self.virtual_now += charged * group.percent / 100;
            group.start += charged;
        } else {
            group.start = (group.start + charged).min(self.virtual_now + AHEAD);
        }
        self.place(number);
        self.pass(overdraws.then_some(number), spent.min(AHEAD));
        let group = &mut self.groups[number];
        if overdraws && group.budget < group.standing.overdrawn + GRAIN {
            group.bankrupt = true;
            group.standing.bankruptcies += 1;
        }
        if overdraws {
            self.place(number);
        }
    }

    /// Nobody wanted the processor for so long.
    pub fn rest(&mut self, time: u64) {
        let time = time.min(AHEAD);
        self.virtual_now += time;
        self.pass(None, time);
    }

    /// Time passes, which this group overdraws.
    fn pass(&mut self, who: Option<usize>, mut time: u64) {
        while time != 0 {
            let step = (self.now / STEP) as usize % STEPS;
            let part = time.min(STEP - self.now % STEP);
            if let Some(number) = who {
                let group = &mut self.groups[number];
                group.standing.overdrawn += part;
                group.steps[step] += part as u32;
                self.overdrew[step] |= 1 << number;
            }
            self.now += part;
            time -= part;
            if self.now.is_multiple_of(STEP) {
                self.slide();
            }
        }
        self.begin();
    }

    /// A step begins: the one that had its place leaves the window.
    fn slide(&mut self) {
        let step = (self.now / STEP) as usize % STEPS;
        let mut overdrew = core::mem::take(&mut self.overdrew[step]);
        while overdrew != 0 {
            let number = overdrew.trailing_zeros() as usize;
            overdrew &= overdrew - 1;
            let group = &mut self.groups[number];
            let overdrawn = core::mem::take(&mut group.steps[step]);
            group.standing.overdrawn -= u64::from(overdrawn);
            group.bankrupt &= group.standing.overdrawn != 0;
            self.rank(number);
            self.forget(number);
        }
    }

    /// The groups whose start has come; virtual time goes on if there is none.
    fn begin(&mut self) {
        while let Some(number) = self.later.first() {
            let start = self.groups[number].start;
            if self.begun.first().is_none() {
                self.virtual_now = self.virtual_now.max(start.saturating_sub(CREDIT));
            }
            if start > self.virtual_now {
                break;
            }
            self.place(number);
        }
    }

    /// A closed group of which the window has nothing is none any more.
    fn forget(&mut self, number: usize) {
        let group = &mut self.groups[number];
        if group.closed && group.standing.overdrawn == 0 {
            self.percent -= core::mem::take(&mut group.percent);
        }
    }

    /// Its place among the groups.
    fn rank(&mut self, number: usize) {
        self.place(number);
        self.begin();
    }

    fn place(&mut self, number: usize) {
        let group = &self.groups[number];
        let [mut begun, mut later, mut critical] = [u64::MAX; 3];
        if group.levels != 0 {
            if group.start <= self.virtual_now {
                begun = group.start + SLICE * 100 / group.percent;
            } else {
                later = group.start;
            }
        }
        if group.levels >> PRIORITIES != 0 && !group.bankrupt {
            // The highest priority; of equals who has overdrawn least.
            critical = u64::from(group.levels.leading_zeros()) << 32 | group.standing.overdrawn;
        }
        self.begun.set(number, begun);
        self.later.set(number, later);
        self.critical.set(number, critical);
    }

    fn level(&self, place: usize) -> (usize, usize) {
        let member = &self.members[place];
        let above = if member.critical { PRIORITIES } else { 0 };
        (member.group as usize, member.priority as usize + above)
    }

    /// To the end of its ring.
    fn push(&mut self, place: usize) {
        let (number, level) = self.level(place);
        let this = place as u32;
        let last = core::mem::replace(&mut self.groups[number].last[level], this);
        self.groups[number].levels |= 1 << level;
        if last == NOBODY {
            self.link(this, this);
        } else {
            let first = self.members[last as usize].next;
            self.link(last, this);
            self.link(this, first);
        }
    }

    fn unlink(&mut self, place: usize) {
        let (number, level) = self.level(place);
        let Member { next, previous, .. } = self.members[place];
        let group = &mut self.groups[number];
        if next == place as u32 {
            group.last[level] = NOBODY;
            group.levels &= !(1 << level);
            return;
        }
        if group.last[level] == place as u32 {
            group.last[level] = previous;
        }
        self.link(previous, next);
    }

    fn link(&mut self, previous: u32, next: u32) {
        self.members[previous as usize].next = next;
        self.members[next as usize].previous = previous;
    }
}

impl Group {
    /// The level of the member that runs. Of a bankrupt group's members it is a critical one only if that has the highest priority.
    fn first_level(&self) -> usize {
        let highest = |levels: u64| LEVELS - 1 - levels.leading_zeros() as usize;
        let (first, others) = (highest(self.levels), self.levels & ((1 << PRIORITIES) - 1));
        match self.bankrupt && others != 0 {
            true if highest(others) + PRIORITIES >= first => highest(others),
            _ => first,
        }
    }
}

const LEAVES: usize = GROUPS.next_power_of_two();

/// The least of some keys, as a tree of matches: each inner node has the winner of the two below.
struct Least {
    /// u64::MAX: it does not take part.
    keys: [u64; LEAVES],
    winners: [u8; 2 * LEAVES],
}

impl Least {
    fn new() -> Least {
        let mut winners = [0; 2 * LEAVES];
        for node in (1..2 * LEAVES).rev() {
            winners[node] = match node.checked_sub(LEAVES) {
                Some(leaf) => leaf as u8,
                None => winners[2 * node],
            };
        }
        Least {
            keys: [u64::MAX; LEAVES],
            winners,
        }
    }

    fn set(&mut self, leaf: usize, key: u64) {
        if core::mem::replace(&mut self.keys[leaf], key) == key {
            return;
        }
        let mut node = (leaf + LEAVES) / 2;
        while node != 0 {
            let [a, b] = [self.winners[2 * node], self.winners[2 * node + 1]];
            let second = self.keys[b as usize] < self.keys[a as usize];
            let winner = if second { b } else { a };
            let before = core::mem::replace(&mut self.winners[node], winner);
            if winner == before && winner as usize != leaf {
                // It plays on as it did.
                return;
            }
            node /= 2;
        }
    }

    fn first(&self) -> Option<usize> {
        let winner = self.winners[1] as usize;
        (self.keys[winner] != u64::MAX).then_some(winner)
    }
}
