//! Earliest deadline first among *constant bandwidth servers* (L. Abeni and G. Buttazzo, Integrating multimedia applications in hard real-time systems,
//! 1998), one for each member; with admission. No clock, no threads. Times are in ns.
//!
//! A member has `runtime` in each `period`, by `deadline` after the period began. Who has used that up waits for the next period, whatever it wants, so no
//! member has more than its share for long, and no other misses a deadline because of it. A member that wakes while its deadline is ahead goes on with what it
//! has left if that is no more than its share of the time that remains. Otherwise a period begins; but where the deadline is before the period's end, what
//! it has left is cut to that share (L. Abeni and others, Constant bandwidth servers with constrained deadlines, 2017).
//!
//! What always holds: the shares of all members are at most [`LIMIT`]; `left` is at most the run time; who is throttled waits for [`Member::next`].

/// Most members.
pub const MOST: usize = 128;
/// A whole processor, as shares count; and what members may have of it: 95 %, so that the rest of the machine goes on.
const WHOLE: u64 = 1 << 30;
pub const LIMIT: u64 = WHOLE * 95 / 100;
/// The shortest run time, and the shortest and the longest period.
pub const LEAST_RUNTIME: u64 = 1024;
pub const PERIODS: core::ops::RangeInclusive<u64> = 100_000..=4_194_304_000;
/// The shortest slice: what a member has beyond its run time by it is taken off its next periods.
pub const GRAIN: u64 = 10_000;

/// What a member asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    pub runtime: u64,
    pub deadline: u64,
    pub period: u64,
}

impl Demand {
    pub fn is_valid(&self) -> bool {
        LEAST_RUNTIME <= self.runtime
            && self.runtime <= self.deadline
            && self.deadline <= self.period
            && PERIODS.contains(&self.period)
    }

    /// Of a processor, as parts of [`WHOLE`]. The demand is valid, so nothing overflows.
    fn share(&self) -> u64 {
        self.runtime * WHOLE / self.period
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// More than there is.
    TooMuch,
    /// No such demand.
    Wrong,
    /// [`MOST`] members are there.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    demand: Demand,
    /// When its period began, and what it has left of it. Below 0: it had that too much.
    release: u64,
    left: i64,
    ready: bool,
    /// It waits for its next period.
    throttled: bool,
}

impl Member {
    fn deadline(&self) -> u64 {
        self.release.saturating_add(self.demand.deadline)
    }

    /// How many periods later it has something again: what it had too much is taken off those between.
    fn periods(&self) -> i64 {
        1 - self.left.min(0) / self.demand.runtime as i64
    }

    /// When that one begins.
    fn next(&self) -> u64 {
        let after = self.demand.period.saturating_mul(self.periods() as u64);
        self.release.saturating_add(after)
    }

    /// A period begins that owes nothing to the ones before.
    fn begin(&mut self, now: u64) {
        self.release = now;
        self.left = self.demand.runtime as i64;
        self.throttled = false;
    }

    /// A throttled member's next period has begun.
    fn replenish(&mut self, now: u64) {
        let runtime = self.demand.runtime as i64;
        (self.release, self.left) = (self.next(), self.left + runtime * self.periods());
        self.throttled = false;
        if self.deadline() <= now {
            self.begin(now);
        }
    }

    /// It could run again.
    fn wake(&mut self, now: u64) {
        if self.throttled {
            if now < self.next() {
                return;
            }
            // While it slept. What it has since then counts as below.
            self.replenish(now);
        }
        let constrained = self.demand.deadline < self.demand.period;
        if self.deadline() <= now {
            // Its share of this period is over; there is no other one before the next.
            match constrained && now < self.next() {
                true => self.throttle(),
                false => self.begin(now),
            }
            return;
        }
        let remains = u128::from(self.deadline() - now);
        let fits = remains * u128::from(self.demand.runtime);
        if self.left as u128 * u128::from(self.demand.deadline) <= fits {
            return;
        }
        match constrained {
            true => {
                self.left = (fits / u128::from(self.demand.deadline)) as i64;
                if self.left == 0 {
                    self.throttle();
                }
            }
            false => self.begin(now),
        }
    }

    /// It has nothing any more in this period.
    fn throttle(&mut self) {
        self.left = self.left.min(0);
        self.throttled = true;
    }
}

/// Who runs, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub member: Option<usize>,
    /// u64::MAX: nothing changes by itself.
    pub until: u64,
}

#[derive(Debug)]
pub struct Plan {
    members: [Option<Member>; MOST],
    /// Places beyond are free.
    used: usize,
    shares: u64,
}

impl Plan {
    pub const NEW: Plan = Plan {
        members: [None; MOST],
        used: 0,
        shares: 0,
    };

    /// May somebody have this, `before` being what it has already?
    fn check(&self, demand: &Demand, before: u64) -> Result<u64, Refused> {
        if !demand.is_valid() {
            return Err(Refused::Wrong);
        }
        match self.shares - before + demand.share() {
            all if all > LIMIT => Err(Refused::TooMuch),
            all => Ok(all),
        }
    }

    /// A member that does not run yet. Its place.
    pub fn join(&mut self, demand: Demand, now: u64) -> Result<usize, Refused> {
        let shares = self.check(&demand, 0)?;
        let place = self.members.iter().position(Option::is_none);
        let place = place.ok_or(Refused::Full)?;
        self.members[place] = Some(Member {
            demand,
            release: now,
            left: demand.runtime as i64,
            ready: false,
            throttled: false,
        });
        self.shares = shares;
        self.used = self.used.max(place + 1);
        Ok(place)
    }

    /// A member asks for something else. A period begins now, with no more than it had left: nobody gets a second run time by asking. Who is throttled waits
    /// for what would have been its next period.
    pub fn change(&mut self, place: usize, demand: Demand, now: u64) -> Result<(), Refused> {
        let Some(Some(member)) = self.members.get(place) else {
            return Err(Refused::Wrong);
        };
        let shares = self.check(&demand, member.demand.share())?;
        let mut member = *member;
        let next = member.next();
        member.demand = demand;
        (member.release, member.left) = match member.throttled {
            true => (next.saturating_sub(demand.period), 0),
            false => (now, member.left.min(demand.runtime as i64)),
        };
        self.members[place] = Some(member);
        self.shares = shares;
        Ok(())
    }

    pub fn leave(&mut self, place: usize) {
        if let Some(member) = self.members.get_mut(place).and_then(Option::take) {
            self.shares -= member.demand.share();
        }
        let last = self.members[..self.used].iter().rposition(Option::is_some);
        self.used = last.map_or(0, |last| last + 1);
    }

    /// It could run from now on, or could not.
    pub fn set_ready(&mut self, place: usize, ready: bool, now: u64) {
        if let Some(Some(member)) = self.members.get_mut(place) {
            if ready && !member.ready {
                member.wake(now);
            }
            member.ready = ready;
        }
    }

    /// It has had so much.
    pub fn spend(&mut self, place: usize, spent: u64) {
        if let Some(Some(member)) = self.members.get_mut(place) {
            member.left = member.left.saturating_sub_unsigned(spent);
            if member.left <= 0 {
                member.throttle();
            }
        }
    }

    /// It gives up what it has left until its next period.
    pub fn end_period(&mut self, place: usize) {
        if let Some(Some(member)) = self.members.get_mut(place) {
            member.throttle();
        }
    }

    /// Whose turn it is from now on.
    pub fn choose(&mut self, now: u64) -> Turn {
        let mut turn = Turn {
            member: None,
            until: u64::MAX,
        };
        let mut first = (u64::MAX, 0);
        for (place, member) in self.members[..self.used].iter_mut().enumerate() {
            let Some(member) = member else {
                continue;
            };
            if member.throttled && member.next() <= now {
                member.replenish(now);
            }
            if !member.ready {
                continue;
            }
            if member.throttled {
                turn.until = turn.until.min(member.next());
            } else if member.deadline() < first.0 {
                first = (member.deadline(), member.left);
                turn.member = Some(place);
            }
        }
        if turn.member.is_some() {
            let slice = (first.1 as u64).max(GRAIN);
            turn.until = turn.until.min(now.saturating_add(slice));
        }
        turn
    }
}
