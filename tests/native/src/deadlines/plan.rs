//! Earliest deadline first with admission and budgets, as a plan: no clock, no threads. Times are in ns, or whatever the one who asks counts in.
//!
//! In each period a member may have the processor for its budget, and has had that by its deadline. [`Plan::join`] lets nobody in with whom that could fail;
//! it computes with integers, so it refuses nothing else. What always holds: of a member that joined, `left` is at most its budget.

/// Most members.
pub const MOST: usize = 16;
/// Most steps of a processor-demand test.
const STEPS: usize = 10_000;

/// What a member asks for: `budget` in every `period`, by `deadline` after its begin, which is at most the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    pub budget: u64,
    pub deadline: u64,
    pub period: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// More than a processor has; or some deadline could be missed.
    TooMuch,
    /// No such demand: nothing at all, or a deadline beyond the period, or a budget beyond the deadline.
    Wrong,
    /// The periods fit together so badly that nobody can compute it.
    TooOdd,
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    demand: Demand,
    /// When its period began, and what it may have until that ends.
    release: u64,
    left: u64,
    ready: bool,
    /// It has done what it had to do in this period.
    done: bool,
}

#[derive(Default)]
pub struct Plan {
    members: [Option<Member>; MOST],
}

/// What is to be done until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub member: Option<usize>,
    /// u64::MAX: nothing changes by itself.
    pub until: u64,
}

impl Plan {
    /// A member whose first period begins now. Its place.
    pub fn join(&mut self, demand: Demand, now: u64) -> Result<usize, Refused> {
        let place = self.members.iter().position(Option::is_none);
        let place = place.ok_or(Refused::Full)?;
        let mut demands = [demand; MOST];
        let mut count = 1;
        for member in self.members.iter().flatten() {
            demands[count] = member.demand;
            count += 1;
        }
        check(&demands[..count])?;
        self.members[place] = Some(Member {
            demand,
            release: now,
            left: demand.budget,
            ready: false,
            done: false,
        });
        Ok(place)
    }

    pub fn leave(&mut self, place: usize) {
        self.members[place] = None;
    }

    /// It could run from now on. One that cannot has no more in this period: if it came back late, others would be late.
    pub fn set_ready(&mut self, place: usize, ready: bool) {
        if let Some(member) = &mut self.members[place] {
            member.ready = ready;
            if !ready {
                member.left = 0;
            }
        }
    }

    /// It has had so much.
    pub fn spend(&mut self, place: usize, spent: u64) {
        if let Some(member) = &mut self.members[place] {
            member.left = member.left.saturating_sub(spent);
        }
    }

    /// It waits for its next period.
    pub fn finish(&mut self, place: usize) {
        if let Some(member) = &mut self.members[place] {
            member.done = true;
        }
    }

    /// Does it wait for its next period? And when is, or was, its deadline in this one?
    pub fn standing(&self, place: usize) -> Option<(bool, u64)> {
        let member = self.members[place]?;
        Some((member.done, member.release + member.demand.deadline))
    }

    /// Periods that are over end; who runs from now on?
    pub fn choose(&mut self, now: u64) -> Turn {
        let mut turn = Turn {
            member: None,
            until: u64::MAX,
        };
        let mut first = (u64::MAX, 0);
        for (place, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member else {
                continue;
            };
            let period = member.demand.period;
            let over = now.saturating_sub(member.release) / period;
            if over != 0 {
                member.release += over * period;
                member.left = member.demand.budget;
                member.done = false;
            }
            turn.until = turn.until.min(member.release + period);
            let deadline = member.release + member.demand.deadline;
            if member.ready && !member.done && member.left != 0 && deadline < first.0 {
                first = (deadline, member.left);
                turn.member = Some(place);
            }
        }
        if turn.member.is_some() {
            turn.until = turn.until.min(now.saturating_add(first.1));
        }
        turn
    }
}

/// Can all of these always have what they ask for? Exact.
pub fn check(demands: &[Demand]) -> Result<(), Refused> {
    let mut hyperperiod = 1u128;
    for d in demands {
        if d.budget == 0 || d.budget > d.deadline || d.deadline > d.period {
            return Err(Refused::Wrong);
        }
        let period = u128::from(d.period);
        let common = hyperperiod / greatest_divisor(hyperperiod, period);
        hyperperiod = common.checked_mul(period).ok_or(Refused::TooOdd)?;
        if hyperperiod > u128::MAX >> 72 {
            return Err(Refused::TooOdd);
        }
    }
    let sum = |of: &dyn Fn(&Demand) -> u128| -> u128 { demands.iter().map(of).sum() };
    let share = |d: &Demand| u128::from(d.budget) * (hyperperiod / u128::from(d.period));
    let work = sum(&share);
    if work > hyperperiod {
        return Err(Refused::TooMuch);
    }
    if demands.iter().all(|d| d.deadline == d.period) {
        return Ok(());
    }
    // The demand of every interval from a common begin is met if it is at each deadline up to the hyperperiod. From the last such deadline downwards
    // only those need a look that the demand itself leads to (Zhang and Burns, Schedulability analysis for real-time systems with EDF scheduling, 2009).
    let demand = |t: u128| {
        sum(&|d: &Demand| match t.checked_sub(u128::from(d.deadline)) {
            Some(rest) => (rest / u128::from(d.period) + 1) * u128::from(d.budget),
            None => 0,
        })
    };
    let deadline_before = |t: u128| {
        let last = |d: &Demand| {
            let rest = t.checked_sub(u128::from(d.deadline) + 1)?;
            Some(rest / u128::from(d.period) * u128::from(d.period) + u128::from(d.deadline))
        };
        demands.iter().filter_map(last).max()
    };
    let mut at = deadline_before(hyperperiod + 1);
    for _ in 0..STEPS {
        let Some(t) = at else {
            return Ok(());
        };
        let needed = demand(t);
        if needed > t {
            return Err(Refused::TooMuch);
        }
        at = match needed < t {
            true => deadline_before(needed + 1),
            false => deadline_before(t),
        };
    }
    Err(Refused::TooOdd)
}

fn greatest_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
