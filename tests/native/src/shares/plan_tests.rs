//! The plan of guaranteed shares, on the host: random loads, of which every window is looked at.

extern crate alloc;

#[path = "plan.rs"]
mod plan;

use plan::{Plan, Refused, Turn, CREDIT, GRAIN, PRIORITIES, SLICE, STEP, TURN, WINDOW};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MS: u64 = 1_000_000;
/// What the loads' times are multiples of.
const TICK: u64 = 50_000;
const WINDOW_TICKS: usize = (WINDOW / TICK) as usize;

/// Numbers that look like none in particular.
struct Numbers(u64);

impl Numbers {
    fn up_to(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most + 1
    }
}

struct Member {
    place: usize,
    group: usize,
    /// Longest stretches of work and of sleep; no sleep: it always wants to run.
    work: u64,
    sleep: u64,
    left: u64,
    ready: bool,
}

/// Members at work, and what came of it in each tick.
struct Load {
    plan: Plan<()>,
    shares: Vec<u64>,
    members: Vec<Member>,
    wakes: BinaryHeap<Reverse<(u64, usize)>>,
    now: u64,
    /// Of each tick: who ran and whether it overdrew, and who wanted to.
    ran: Vec<Option<(usize, bool)>>,
    wanted: Vec<u128>,
    /// Ready members by groups, and members by places.
    ready: Vec<usize>,
    at: Vec<usize>,
}

impl Load {
    fn new(groups: &[(u64, u64)]) -> Load {
        let mut plan = Plan::<()>::default();
        for (number, &(percent, budget)) in groups.iter().enumerate() {
            assert_eq!(plan.open(percent, budget), Ok(number));
        }
        Load {
            plan,
            shares: groups.iter().map(|group| group.0).collect(),
            members: vec![],
            wakes: BinaryHeap::new(),
            now: 0,
            ran: vec![],
            wanted: vec![],
            ready: vec![0; groups.len()],
            at: vec![],
        }
    }

    /// A member that wakes first at `first`.
    fn member(&mut self, group: usize, priority: u64, critical: bool, load: [u64; 3]) {
        let [first, work, sleep] = load;
        let place = self
            .plan
            .join(group as u64, priority, critical, ())
            .unwrap();
        assert_eq!(place, self.members.len());
        self.at.push(self.members.len());
        self.wakes.push(Reverse((first, self.members.len())));
        self.members.push(Member {
            place,
            group,
            work,
            sleep,
            left: 0,
            ready: false,
        });
    }

    fn set_ready(&mut self, index: usize, ready: bool) {
        let member = &mut self.members[index];
        member.ready = ready;
        self.plan.set_ready(member.place, ready);
        match ready {
            true => self.ready[member.group] += 1,
            false => self.ready[member.group] -= 1,
        }
    }

    fn passes(&mut self, time: u64, ran: Option<(usize, bool)>) {
        let wanted = self.ready.iter().enumerate();
        let wanted = wanted.fold(0, |all, (g, &ready)| all | u128::from(ready != 0) << g);
        for _ in 0..time / TICK {
            self.ran.push(ran);
            self.wanted.push(wanted);
        }
        self.now += time;
    }

    fn run(&mut self, until: u64, numbers: &mut Numbers) {
        while self.now < until {
            while let Some(&Reverse((time, index))) = self.wakes.peek() {
                if time > self.now {
                    break;
                }
                self.wakes.pop();
                let member = &mut self.members[index];
                member.left = match member.sleep {
                    0 => u64::MAX,
                    _ => numbers.up_to(member.work / TICK) * TICK,
                };
                self.set_ready(index, true);
            }
            let next = self.wakes.peek().map_or(until, |wake| wake.0 .0);
            let pause = next.min(until) - self.now;
            let Some(Turn {
                place,
                length,
                overdraws,
            }) = self.plan.choose()
            else {
                // Nobody is idle who could work.
                assert!(self.ready.iter().all(|&ready| ready == 0));
                self.plan.rest(pause);
                self.passes(pause, None);
                continue;
            };
            let index = self.at[place];
            let member = &mut self.members[index];
            assert!(member.ready);
            assert!(length >= GRAIN && length % TICK == 0);
            let spent = length.min(member.left).min(pause);
            member.left -= spent;
            let (done, group, sleep) = (member.left == 0, member.group, member.sleep);
            self.plan.spend(place, spent);
            self.passes(spent, Some((group, overdraws)));
            if done {
                self.set_ready(index, false);
                let wake = self.now + numbers.up_to(sleep / TICK) * TICK;
                self.wakes.push(Reverse((wake, index)));
            }
        }
    }

    fn check(&self) -> (usize, i64) {
        self.check_every(WINDOW_TICKS / 5);
        self.check_every(WINDOW_TICKS)
    }

    /// What each group had in every window of so many ticks in which it always wanted time is its share of that at least, less two slices: of the window but
    /// for the credit and for what others overdrew, and less what it has overdrawn itself not long before, for that it pays back. How many such windows there
    /// were, and the most that was missed.
    fn check_every(&self, length: usize) -> (usize, i64) {
        let slices = (2 * SLICE / TICK) as i64;
        let (mut windows, mut worst) = (0, i64::MIN);
        for (group, &share) in self.shares.iter().enumerate() {
            // Ticks of its own, those that others overdrew, and those that it overdrew, until then.
            let mut sums = vec![[0; 3]];
            let mut wanting = 0;
            for tick in 0..self.ran.len() {
                let [mut own, mut taken, mut overdrawn] = sums[tick];
                match self.ran[tick] {
                    Some((g, overdraws)) if g == group => {
                        own += 1;
                        overdrawn += i64::from(overdraws);
                    }
                    Some((_, true)) => taken += 1,
                    _ => {}
                }
                sums.push([own, taken, overdrawn]);
                let wants = self.wanted[tick] & 1 << group != 0;
                wanting = if wants { wanting + 1 } else { 0 };
                if wanting < length {
                    continue;
                }
                let begin = tick + 1 - length;
                let before = begin.saturating_sub(3 * WINDOW_TICKS);
                let time = length as i64 - (CREDIT / TICK) as i64 - (taken - sums[begin][1]);
                let due = share as i64 * time / 100 - (sums[begin][2] - sums[before][2]);
                let missed = due - (own - sums[begin][0]);
                windows += 1;
                worst = worst.max(missed);
                assert!(missed <= slices, "group {group}, tick {tick}: {missed}");
            }
        }
        (windows, worst)
    }

    /// Per cent of the processor in the ticks of `from`, times 100.
    fn had(&self, group: usize, from: usize) -> usize {
        let own = |ran: &&Option<(usize, bool)>| matches!(ran, Some((g, _)) if *g == group);
        let ticks = &self.ran[from..];
        ticks.iter().filter(own).count() * 10_000 / ticks.len()
    }

    /// The most that a group overdrew in any window less a step, in ticks.
    fn most_overdrawn(&self, group: usize) -> u64 {
        let ticks = WINDOW_TICKS - (STEP / TICK) as usize;
        let overdrew = |tick: usize| u64::from(self.ran[tick] == Some((group, true)));
        let (mut most, mut sum) = (0, 0);
        for tick in 0..self.ran.len() {
            sum += overdrew(tick);
            sum -= tick.checked_sub(ticks).map_or(0, overdrew);
            most = most.max(sum);
        }
        most
    }
}

/// Groups whose shares are 100 % together, or less.
fn shares(numbers: &mut Numbers) -> Vec<u64> {
    let mut left = 100;
    let mut shares = vec![];
    for _ in 0..numbers.up_to(8) {
        let share = numbers.up_to(left);
        shares.push(share);
        left -= share;
        if left == 0 {
            return shares;
        }
    }
    if numbers.up_to(2) == 1 {
        shares.push(left);
    }
    shares
}

#[test]
fn every_group_that_wants_time_has_its_share_of_every_window() {
    let mut numbers = Numbers(0x5ca1_ab1e);
    let (mut windows, mut worst) = (0, i64::MIN);
    for _ in 0..300 {
        let groups: Vec<_> = shares(&mut numbers).iter().map(|&s| (s, 0)).collect();
        let mut load = Load::new(&groups);
        for group in 0..groups.len() {
            for _ in 0..numbers.up_to(3) {
                let work = [1, 5, 20, 100][numbers.up_to(4) as usize - 1] * MS;
                let sleep = [0, 1, 10, 50, 300][numbers.up_to(5) as usize - 1] * MS;
                let first = (numbers.up_to(500) - 1) * MS;
                let priority = numbers.up_to(PRIORITIES as u64) - 1;
                load.member(group, priority, false, [first, work, sleep]);
            }
        }
        load.run(1500 * MS, &mut numbers);
        let (count, most) = load.check();
        windows += count;
        worst = worst.max(most);
    }
    println!("{windows} windows, at most {worst} ticks missed");
    assert!(windows > 1_000_000);
}

#[test]
fn critical_members_overdraw_no_more_than_their_budget() {
    let mut numbers = Numbers(0x00c0_ffee);
    let (mut windows, mut bankruptcies, mut worst) = (0, 0, i64::MIN);
    for _ in 0..300 {
        let budget = |numbers: &mut Numbers| [0, 1, 3, 10][numbers.up_to(4) as usize - 1] * MS;
        let groups: Vec<_> = shares(&mut numbers)
            .iter()
            .map(|&share| (share, budget(&mut numbers)))
            .collect();
        let mut load = Load::new(&groups);
        for (group, &(_, budget)) in groups.iter().enumerate() {
            load.member(group, 3, false, [0, 0, 0]);
            for _ in 0..numbers.up_to(2) {
                let work = [1, 2, 10][numbers.up_to(3) as usize - 1] * MS;
                let sleep = [1, 10, 50][numbers.up_to(3) as usize - 1] * MS;
                let priority = numbers.up_to(10) - 1;
                load.member(group, priority, budget != 0, [0, work, sleep]);
            }
        }
        load.run(1500 * MS, &mut numbers);
        let (count, most) = load.check();
        windows += count;
        worst = worst.max(most);
        for (group, &(_, budget)) in groups.iter().enumerate() {
            assert!(load.most_overdrawn(group) <= budget / TICK);
            bankruptcies += load.plan.standing(group as u64).unwrap().bankruptcies;
        }
    }
    println!("{windows} windows, {bankruptcies} bankruptcies, at most {worst} ticks missed");
    assert!(windows > 1_000_000 && bankruptcies > 1_000);
}

#[test]
fn what_nobody_uses_is_divided_by_shares() {
    let mut numbers = Numbers(7);
    let mut load = Load::new(&[(50, 0), (30, 0), (20, 0)]);
    load.member(1, 1, false, [0, 0, 0]);
    load.member(2, 1, false, [0, 0, 0]);
    load.run(2000 * MS, &mut numbers);
    assert!(load.had(1, 0).abs_diff(6000) < 20, "{}", load.had(1, 0));
    // The third one comes, and has its share from then on.
    load.member(0, 1, false, [2000 * MS, 0, 0]);
    load.run(2050 * MS, &mut numbers);
    let had = load.had(0, load.ran.len() - WINDOW_TICKS / 2);
    assert!((5_000..5_700).contains(&had), "{had}");
    load.run(4000 * MS, &mut numbers);
    for (group, share) in [5000, 3000, 2000].into_iter().enumerate() {
        let had = load.had(group, 42_000);
        assert!(had.abs_diff(share) < 20, "{group}: {had}");
    }
    // A group alone has all of it.
    let mut plan = Plan::<()>::default();
    plan.open(1, 0).unwrap();
    let place = plan.join(0, 0, false, ()).unwrap();
    plan.set_ready(place, true);
    let turn = plan.choose().unwrap();
    assert_eq!((turn.place, turn.length), (place, WINDOW));
}

/// Any set of groups that stays as it is: after two windows each has its part of what all of them have.
#[test]
fn those_that_want_time_divide_all_of_it() {
    let mut numbers = Numbers(0xd1ce);
    for _ in 0..100 {
        let groups: Vec<_> = shares(&mut numbers).iter().map(|&s| (s, 0)).collect();
        let mut load = Load::new(&groups);
        let mut sum = 0;
        for (group, &(share, _)) in groups.iter().enumerate() {
            if numbers.up_to(3) != 1 {
                let first = numbers.up_to(200) * MS;
                load.member(group, 1, false, [first, 0, 0]);
                sum += share;
            } else {
                // It goes to sleep for good before the others are looked at.
                load.member(group, 1, false, [0, 20 * MS, 1 << 40]);
            }
        }
        load.run(1000 * MS, &mut numbers);
        let from = load.ran.len() - WINDOW_TICKS;
        let wanting = load.ready.iter().filter(|&&ready| ready != 0).count() as u64;
        for (group, &(share, _)) in groups.iter().enumerate() {
            if load.ready[group] == 0 {
                continue;
            }
            let due = share * 10_000 / sum;
            let had = load.had(group, from) as u64;
            // A step of a window is 1 %, and the smallest slice of each.
            let bound = 100 * wanting;
            assert!(
                had.abs_diff(due) <= bound,
                "{groups:?} {group}: {had} {due}"
            );
        }
    }
}

/// All of the small ones could run before the large one does.
#[test]
fn a_group_has_its_share_beside_many_small_ones() {
    let mut numbers = Numbers(19);
    let mut groups = vec![(50, 0)];
    groups.resize(51, (1, 0));
    let mut load = Load::new(&groups);
    load.member(0, 1, false, [0, 0, 0]);
    for group in 1..51 {
        load.member(group, 1, false, [50 * MS, 0, 0]);
    }
    load.run(500 * MS, &mut numbers);
    load.check();
}

#[test]
fn what_was_overdrawn_is_paid_back() {
    let mut numbers = Numbers(23);
    let mut load = Load::new(&[(90, 0), (10, 10 * MS)]);
    load.member(0, 1, false, [0, 0, 0]);
    load.member(1, 1, false, [0, 0, 0]);
    // It needs some 9 % of the processor.
    load.member(1, 0, true, [0, 2 * MS, 20 * MS]);
    load.run(4000 * MS, &mut numbers);
    let overdrawn = load.ran.iter().filter(|ran| **ran == Some((1, true)));
    assert!(overdrawn.count() > load.ran.len() / 200);
    let had = load.had(1, 0);
    assert!((950..=1_050).contains(&had), "{had}");
}

/// A small group could owe much: it is late for two windows of virtual time, and then has a slice when its share has earned it.
#[test]
fn a_small_group_does_not_pay_for_ever() {
    let mut plan = Plan::<()>::default();
    plan.open(99, 0).unwrap();
    plan.open(1, 40 * MS).unwrap();
    let greedy = plan.join(0, 0, false, ()).unwrap();
    let [critical, ordinary] = [true, false].map(|c| plan.join(1, 0, c, ()).unwrap());
    for place in [greedy, critical, ordinary] {
        plan.set_ready(place, true);
    }
    let (mut overdrawn, mut since) = (0, 0);
    while let Some(Turn { place, length, .. }) = plan.choose() {
        plan.spend(place, length);
        if place == critical {
            overdrawn += length;
        } else if plan.standing(1).unwrap().bankruptcies != 0 {
            plan.set_ready(critical, false);
            since += length;
            if place == ordinary {
                break;
            }
        }
    }
    assert!(overdrawn >= 39 * MS, "{overdrawn}");
    assert!((WINDOW..=3 * WINDOW + SLICE).contains(&since), "{since}");
}

/// What one group overdraws for long is no claim of the others: who comes then has its share at once.
#[test]
fn what_was_overdrawn_is_owed_to_nobody() {
    let mut numbers = Numbers(29);
    let mut load = Load::new(&[(67, 0), (30, 0), (2, 0), (1, 10 * MS)]);
    load.member(0, 1, false, [0, 0, 0]);
    load.member(1, 1, false, [0, 0, 0]);
    load.member(2, 1, false, [10_000 * MS, 0, 0]);
    load.member(3, 1, true, [0, 2 * MS, 10 * MS]);
    load.run(12_000 * MS, &mut numbers);
    assert!(load.plan.standing(3).unwrap().used > 400 * MS);
    load.check_every(10 * WINDOW_TICKS);
}

/// However long a group slept, and however much the other one had meanwhile: from then on each has its half, and the first one its credit.
#[test]
fn nobody_keeps_or_owes_more_than_the_credit() {
    let mut numbers = Numbers(11);
    for sleep in [50, 150, 1_000, 10_000] {
        let mut load = Load::new(&[(50, 0), (50, 0)]);
        load.member(0, 1, false, [0, 0, 0]);
        load.member(1, 1, false, [sleep * MS, 0, 0]);
        load.run((sleep + 100) * MS, &mut numbers);
        let had = load.had(1, load.ran.len() - WINDOW_TICKS);
        assert!((5_000..=5_300).contains(&had), "{had}");
        load.check();
    }
    // All sleep, and wake at once.
    for sleep in [1, 100, 1_000_000] {
        let mut load = Load::new(&[(60, 0), (40, 0)]);
        load.plan.rest(sleep * MS);
        load.member(0, 1, false, [0, 0, 0]);
        load.member(1, 1, false, [0, 0, 0]);
        load.run(100 * MS, &mut numbers);
        assert_eq!(load.had(0, 0), 6_000);
    }
}

/// A group that waits for something again and again wants less than all, but its share: it has that beside one that always wants everything.
#[test]
fn a_group_that_waits_now_and_then_has_its_share() {
    let mut numbers = Numbers(17);
    for time in [MS / 10, MS / 2, MS, 2 * MS, 4 * MS] {
        let mut load = Load::new(&[(50, 0), (50, 0)]);
        load.member(0, 1, false, [0, 0, 0]);
        load.member(1, 1, false, [0, time, time]);
        load.run(2000 * MS, &mut numbers);
        let had = load.had(1, 0);
        assert!((4_600..=5_100).contains(&had), "{time}: {had}");
        load.check();
    }
}

#[test]
fn a_group_that_stops_just_before_its_slice_ends_gains_nothing() {
    let mut numbers = Numbers(13);
    let mut load = Load::new(&[(50, 0), (50, 0)]);
    load.member(0, 1, false, [0, 0, 0]);
    // Nearly a step of work, the shortest sleep.
    load.member(1, 1, false, [0, STEP - TICK, TICK]);
    load.run(2000 * MS, &mut numbers);
    load.check();
    let had = load.had(1, 0);
    assert!((4_500..=5_050).contains(&had), "{had}");
}

#[test]
fn within_a_group_priorities_and_turns_decide() {
    let mut plan = Plan::<()>::default();
    plan.open(60, 0).unwrap();
    plan.open(40, 0).unwrap();
    let [low, a, b, other] = [(0, 1), (0, 5), (0, 5), (1, 9)]
        .map(|(group, priority)| plan.join(group, priority, false, ()).unwrap());
    for place in [low, a, b] {
        plan.set_ready(place, true);
    }
    let run = |plan: &mut Plan<()>, count: usize| -> Vec<usize> {
        let mut order = vec![];
        for _ in 0..count {
            let turn = plan.choose().unwrap();
            plan.spend(turn.place, turn.length);
            if order.last() != Some(&turn.place) {
                order.push(turn.place);
            }
        }
        order
    };
    assert_eq!(run(&mut plan, 16), [a, b, a, b]);
    // Who gives way is behind its equals, and still before who is less important.
    let next = plan.choose().unwrap().place;
    plan.give_way(next);
    assert_eq!(plan.choose().unwrap().place, a + b - next);
    plan.set_ready(a, false);
    plan.give_way(b);
    assert_eq!(run(&mut plan, 5), [b]);
    plan.set_ready(b, false);
    assert_eq!(run(&mut plan, 5), [low]);
    // The other group's priorities are its own.
    plan.set_ready(other, true);
    plan.set_ready(b, true);
    let order = run(&mut plan, 400);
    assert!(order.contains(&other) && order.contains(&b) && !order.contains(&low));
    plan.leave(other);
    plan.leave(b);
    assert_eq!(run(&mut plan, 5), [low]);
    plan.leave(low);
    assert_eq!(plan.choose(), None);
}

#[test]
fn a_critical_member_runs_at_once_until_its_group_is_bankrupt() {
    let mut plan = Plan::<()>::default();
    plan.open(80, 0).unwrap();
    plan.open(20, 2 * MS).unwrap();
    let greedy = plan.join(0, 31, false, ()).unwrap();
    let [critical, ordinary] =
        [(0, true), (7, false)].map(|(p, c)| plan.join(1, p, c, ()).unwrap());
    let spend = |plan: &mut Plan<()>, most: u64| {
        let turn = plan.choose().unwrap();
        let spent = turn.length.min(most);
        plan.spend(turn.place, spent);
        (turn.place, spent, turn.overdraws)
    };
    for place in [greedy, ordinary] {
        plan.set_ready(place, true);
    }
    for _ in 0..500 {
        spend(&mut plan, u64::MAX);
    }
    // The group has had its share; its critical member runs all the same, before the more important one of its group.
    plan.spend(ordinary, 10 * MS);
    plan.set_ready(critical, true);
    assert_eq!(spend(&mut plan, MS / 2), (critical, MS / 2, true));
    plan.set_ready(critical, false);
    assert_eq!(spend(&mut plan, MS / 2).0, greedy);
    plan.set_ready(critical, true);
    let mut had = MS / 2;
    while let (place, spent, true) = spend(&mut plan, u64::MAX) {
        assert_eq!(place, critical);
        had += spent;
    }
    let standing = plan.standing(1).unwrap();
    assert!(2 * MS - GRAIN < had && had <= 2 * MS, "{had}");
    assert_eq!((standing.overdrawn, standing.bankruptcies), (had, 1));
    // Bankrupt: it is a member like others, and has a lower priority.
    let mut since = 0;
    while plan.standing(1).unwrap().overdrawn != 0 {
        plan.set_ready(critical, false);
        plan.set_ready(critical, true);
        let (place, spent, overdraws) = spend(&mut plan, u64::MAX);
        assert!(place != critical && !overdraws);
        since += spent;
    }
    assert!((WINDOW - 3 * STEP..=WINDOW).contains(&since));
    // Then it is critical once more.
    assert_eq!(spend(&mut plan, MS / 2).0, critical);
    // While its group is the one that runs, nothing is overdrawn.
    plan.set_ready(greedy, false);
    let before = plan.standing(1).unwrap().overdrawn;
    for _ in 0..20 {
        let (place, _, overdraws) = spend(&mut plan, u64::MAX);
        assert!(place == critical && !overdraws);
    }
    assert!(plan.standing(1).unwrap().overdrawn <= before);
}

#[test]
fn of_two_critical_members_the_more_important_one_goes_first() {
    let mut plan = Plan::<()>::default();
    for budget in [0, 5 * MS, 5 * MS] {
        plan.open(30, budget).unwrap();
    }
    let [greedy, a, b] = [(0, 9, false), (1, 4, true), (2, 6, true)]
        .map(|(group, priority, critical)| plan.join(group, priority, critical, ()).unwrap());
    for place in [greedy, a, b] {
        plan.set_ready(place, true);
    }
    assert_eq!(plan.choose().unwrap().place, b);
    plan.set_ready(b, false);
    assert_eq!(plan.choose().unwrap().place, a);
    plan.set_ready(a, false);
    assert_eq!(plan.choose().unwrap().place, greedy);
}

#[test]
fn what_cannot_be_is_refused_and_takes_nothing() {
    let mut plan = Plan::<()>::default();
    assert_eq!(Refused::Wrong.code(), -22);
    let wrong = [
        (0, 0),
        (101, 0),
        (u64::MAX, 0),
        (1, WINDOW + 1),
        (1, GRAIN - 1),
        (1, 1),
    ];
    for (percent, budget) in wrong {
        assert_eq!(plan.open(percent, budget), Err(Refused::Wrong));
    }
    assert_eq!(plan.open(60, WINDOW), Ok(0));
    assert_eq!(plan.open(41, 0), Err(Refused::TooMuch));
    assert_eq!(plan.open(40, 0), Ok(1));
    assert_eq!(plan.open(1, 0), Err(Refused::TooMuch));
    for number in [2, 100, 1 << 32, u64::MAX] {
        assert_eq!(plan.join(number, 0, false, ()), Err(Refused::Unknown));
        assert_eq!(plan.close(number), Err(Refused::Unknown));
        assert_eq!(plan.standing(number), Err(Refused::Unknown));
    }
    for priority in [PRIORITIES as u64, u64::MAX] {
        assert_eq!(plan.join(0, priority, false, ()), Err(Refused::Wrong));
    }
    // It has no critical budget.
    assert_eq!(plan.join(1, 0, true, ()), Err(Refused::Wrong));
    let place = plan.join(1, 0, false, ()).unwrap();
    assert_eq!(plan.close(1), Err(Refused::Occupied));
    plan.set_ready(place, true);
    plan.spend(place, 5 * MS);
    plan.leave(place);
    assert_eq!(plan.choose(), None);
    assert_eq!(plan.close(1), Ok(()));
    assert_eq!(plan.close(1), Err(Refused::Unknown));
    assert_eq!(plan.join(1, 0, false, ()), Err(Refused::Unknown));
    assert_eq!(plan.open(40, 0), Ok(1));
    assert_eq!(plan.join(1, 0, false, ()), Ok(place));
    // A group that overdrew something goes when the window has forgotten that.
    let critical = plan.join(0, 0, true, ()).unwrap();
    plan.set_ready(place, true);
    plan.spend(place, MS);
    let mut overdrawn = 0;
    while overdrawn == 0 {
        plan.set_ready(critical, false);
        plan.set_ready(critical, true);
        let turn = plan.choose().unwrap();
        plan.spend(turn.place, MS);
        overdrawn = plan.standing(0).unwrap().overdrawn;
    }
    plan.leave(critical);
    assert_eq!(plan.close(0), Ok(()));
    assert_eq!(plan.standing(0), Err(Refused::Unknown));
    assert_eq!(plan.open(60, MS), Err(Refused::TooMuch));
    plan.rest(WINDOW);
    assert_eq!(plan.open(60, MS), Ok(0));
}

/// The machine stood still, or a server used much for a member: nothing overflows, and it is forgotten.
#[test]
fn long_times_are_forgotten() {
    let mut plan = Plan::<()>::default();
    plan.open(10, 0).unwrap();
    plan.open(80, 0).unwrap();
    plan.open(10, 0).unwrap();
    let [a, b] = [0, 1].map(|group| plan.join(group, 0, false, ()).unwrap());
    plan.set_ready(a, true);
    plan.set_ready(b, true);
    for long in [WINDOW - 1, WINDOW, 3 * WINDOW + 17, 1 << 40, 1 << 60] {
        plan.spend(a, long);
        // It runs again after its two windows of virtual time.
        let mut had = 0;
        while let Some(Turn { place, length, .. }) = plan.choose() {
            plan.spend(place, length);
            had += length;
            if place == a {
                break;
            }
        }
        assert!(had <= 2 * WINDOW, "{had}");
    }
    // Who comes is not behind all others for that.
    let c = plan.join(2, 0, false, ()).unwrap();
    plan.set_ready(c, true);
    let mut had = 0;
    for _ in 0..100 {
        let turn = plan.choose().unwrap();
        plan.spend(turn.place, turn.length);
        had += if turn.place == c { turn.length } else { 0 };
    }
    assert!(had >= 8 * SLICE, "{had}");
    plan.leave(c);
    plan.set_ready(a, false);
    plan.set_ready(b, false);
    plan.rest(1 << 60);
    plan.set_ready(a, true);
    plan.set_ready(b, true);
    let mut had = [0; 2];
    for _ in 0..100 {
        let turn = plan.choose().unwrap();
        plan.spend(turn.place, turn.length);
        had[turn.place] += turn.length;
    }
    assert!((8 * SLICE..=14 * SLICE).contains(&had[a]), "{had:?}");
}

/// 10,000 members in 100 groups: equals have equal time, each group its hundredth.
#[test]
fn ten_thousand_members_have_their_turns() {
    let mut plan = Plan::<()>::default();
    let mut had = vec![0u64; 10_000];
    for _ in 0..100 {
        plan.open(1, 0).unwrap();
    }
    for i in 0..10_000 {
        assert_eq!(plan.join(i % 100, 3, false, ()), Ok(i as usize));
        plan.set_ready(i as usize, true);
    }
    let mut now = 0;
    while now < 10_000 * 3 * TURN {
        let turn = plan.choose().unwrap();
        plan.spend(turn.place, turn.length);
        had[turn.place] += turn.length;
        now += turn.length;
    }
    let [least, most] = [had.iter().min(), had.iter().max()].map(|had| *had.unwrap());
    assert!(
        least >= 2 * TURN - STEP && most <= 4 * TURN + STEP,
        "{least} {most}"
    );
    // Half of them go in any state, and others come.
    let mut numbers = Numbers(99);
    for place in 0..10_000 {
        match numbers.up_to(4) {
            1 => drop(plan.leave(place)),
            2 => plan.set_ready(place, false),
            3 => plan.give_way(place),
            _ => plan.spend(place, 1000),
        }
    }
    while plan.join(7, 0, false, ()).unwrap() != 10_000 {}
    assert!(plan.choose().is_some());
}
