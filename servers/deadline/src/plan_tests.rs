//! The plan, without and with other members: what each one gets, and what is refused.

use crate::plan::{Demand, Plan, Refused, Turn, GRAIN, LEAST_RUNTIME, MOST};
use proptest::prelude::*;
use std::vec::Vec;

const MS: u64 = 1_000_000;

fn demand(runtime: u64, deadline: u64, period: u64) -> Demand {
    Demand {
        runtime,
        deadline,
        period,
    }
}

/// A member that is ready, alone.
fn one(runtime: u64, deadline: u64, period: u64) -> Plan {
    let mut plan = Plan::NEW;
    assert_eq!(plan.join(demand(runtime, deadline, period), 0), Ok(0));
    plan.set_ready(0, true, 0);
    plan
}

fn turn(member: impl Into<Option<usize>>, until: u64) -> Turn {
    Turn {
        member: member.into(),
        until,
    }
}

#[test]
fn who_has_used_its_run_time_waits_for_its_next_period() {
    let mut plan = one(10 * MS, 30 * MS, 30 * MS);
    assert_eq!(plan.choose(0), turn(0, 10 * MS));
    plan.spend(0, 4 * MS);
    assert_eq!(plan.choose(5 * MS), turn(0, 11 * MS));
    plan.spend(0, 6 * MS);
    assert_eq!(plan.choose(11 * MS), turn(None, 30 * MS));
    assert_eq!(plan.choose(30 * MS), turn(0, 40 * MS));
    // What it has too much is taken off.
    plan.spend(0, 12 * MS);
    assert_eq!(plan.choose(60 * MS), turn(0, 68 * MS));
    // And that may take whole periods.
    plan.spend(0, 8 * MS + 25 * MS);
    assert_eq!(plan.choose(90 * MS), turn(None, 150 * MS));
    assert_eq!(plan.choose(150 * MS), turn(0, 155 * MS));
}

#[test]
fn a_period_can_be_ended_early() {
    let mut plan = one(10 * MS, 20 * MS, 30 * MS);
    plan.end_period(0);
    assert_eq!(plan.choose(MS), turn(None, 30 * MS));
    // Neither sleep nor anything else gives it something before that.
    plan.set_ready(0, false, 2 * MS);
    plan.set_ready(0, true, 25 * MS);
    assert_eq!(plan.choose(25 * MS), turn(None, 30 * MS));
    assert_eq!(plan.choose(30 * MS), turn(0, 40 * MS));
}

#[test]
fn who_wakes_has_its_share_of_what_remains_and_no_more() {
    let mut plan = one(10 * MS, 30 * MS, 30 * MS);
    plan.spend(0, 4 * MS);
    plan.set_ready(0, false, 4 * MS);
    // 6 of 18 ms are a third: it goes on.
    plan.set_ready(0, true, 12 * MS);
    assert_eq!(plan.choose(12 * MS), turn(0, 18 * MS));
    plan.set_ready(0, false, 12 * MS);
    // 6 of 17 ms are more than that: a period begins.
    plan.set_ready(0, true, 13 * MS);
    assert_eq!(plan.choose(13 * MS), turn(0, 23 * MS));
    plan.set_ready(0, false, 13 * MS);
    // And it does after its deadline.
    plan.set_ready(0, true, 100 * MS);
    assert_eq!(plan.choose(100 * MS), turn(0, 110 * MS));
}

#[test]
fn a_deadline_before_the_periods_end_gives_no_second_run_time() {
    let mut plan = one(10 * MS, 20 * MS, 100 * MS);
    plan.set_ready(0, false, 0);
    plan.set_ready(0, true, 10 * MS);
    assert_eq!(plan.choose(10 * MS), turn(0, 15 * MS));
    plan.set_ready(0, false, 10 * MS);
    plan.set_ready(0, true, 40 * MS);
    assert_eq!(plan.choose(40 * MS), turn(None, 100 * MS));
    assert_eq!(plan.choose(100 * MS), turn(0, 110 * MS));
}

#[test]
fn the_earliest_deadline_goes_first() {
    let mut plan = Plan::NEW;
    for period in [50 * MS, 20 * MS, 30 * MS] {
        let place = plan.join(demand(5 * MS, period, period), 0).unwrap();
        plan.set_ready(place, true, 0);
    }
    assert_eq!(plan.choose(0), turn(1, 5 * MS));
    plan.spend(1, 5 * MS);
    assert_eq!(plan.choose(5 * MS).member, Some(2));
    plan.set_ready(2, false, 6 * MS);
    assert_eq!(plan.choose(6 * MS), turn(0, 11 * MS));
    plan.leave(0);
    assert_eq!(plan.choose(6 * MS), turn(None, 20 * MS));
}

#[test]
fn asking_again_gives_no_second_run_time() {
    let mut plan = one(10 * MS, 30 * MS, 30 * MS);
    plan.spend(0, 7 * MS);
    assert_eq!(
        plan.change(0, demand(20 * MS, 40 * MS, 40 * MS), 7 * MS),
        Ok(())
    );
    assert_eq!(plan.choose(7 * MS), turn(0, 10 * MS));
    plan.spend(0, 3 * MS);
    assert_eq!(
        plan.change(0, demand(5 * MS, 10 * MS, 10 * MS), 10 * MS),
        Ok(())
    );
    assert_eq!(plan.choose(10 * MS), turn(None, 47 * MS));
    let wrong = demand(5 * MS, 4 * MS, 10 * MS);
    assert_eq!(plan.change(0, wrong, 0), Err(Refused::Wrong));
    assert_eq!(plan.change(1, demand(MS, MS, MS), 0), Err(Refused::Wrong));
}

#[test]
fn what_is_no_demand_and_what_is_too_much_is_refused() {
    let mut plan = Plan::NEW;
    for (runtime, deadline, period) in [
        (LEAST_RUNTIME - 1, MS, MS),
        (0, 0, 0),
        (2 * MS, MS, 2 * MS),
        (MS, 3 * MS, 2 * MS),
        (2000, 99_999, 99_999),
        (MS, 4_194_304_001, 4_194_304_001),
        (1 << 63, 1 << 63, 1 << 63),
        (u64::MAX, u64::MAX, u64::MAX),
    ] {
        let asked = demand(runtime, deadline, period);
        assert_eq!(plan.join(asked, 0), Err(Refused::Wrong), "{asked:?}");
    }
    // 19 twentieths fit, 20 do not.
    let twentieth = demand(5 * MS, 100 * MS, 100 * MS);
    for place in 0..19 {
        assert_eq!(plan.join(twentieth, 0), Ok(place));
    }
    assert_eq!(plan.join(twentieth, 0), Err(Refused::TooMuch));
    let more = demand(6 * MS, 100 * MS, 100 * MS);
    assert_eq!(plan.change(3, more, 0), Err(Refused::TooMuch));
    assert_eq!(plan.change(3, twentieth, 0), Ok(()));
    plan.leave(3);
    assert_eq!(plan.join(more, 0), Err(Refused::TooMuch));
    assert_eq!(plan.join(twentieth, 0), Ok(3));

    let mut plan = Plan::NEW;
    let little = demand(LEAST_RUNTIME, 100 * MS, 100 * MS);
    for place in 0..MOST {
        assert_eq!(plan.join(little, 0), Ok(place));
    }
    assert_eq!(plan.join(little, 0), Err(Refused::Full));
    (0..MOST).for_each(|place| plan.leave(place));
    plan.leave(MOST);
    let most = demand(95 * MS, 100 * MS, 100 * MS);
    assert_eq!(plan.join(most, 0), Ok(0));
}

/// How a simulated member behaves.
#[derive(Clone, Debug)]
enum Habit {
    /// It works for its run time in each period of its own, and waits for the next one.
    Steady,
    /// It always wants more.
    Greedy,
    /// It works and waits for these times, again and again, in units of the grain.
    Fitful(Vec<(u64, u64)>),
}

#[derive(Clone, Debug)]
struct Simulated {
    demand: Demand,
    habit: Habit,
}

fn habits() -> impl Strategy<Value = Habit> {
    prop_oneof![
        Just(Habit::Steady),
        Just(Habit::Greedy),
        prop::collection::vec((1..200u64, 1..300u64), 1..5).prop_map(Habit::Fitful),
    ]
}

/// Everything in units of the grain, so that no slice is longer than a run time. With deadlines before periods' ends if `constrained`.
fn members(constrained: bool) -> impl Strategy<Value = Vec<Simulated>> {
    let member = (10..400u64, 1..100u64, 0..100u64, habits());
    let member = member.prop_map(move |(period, share, early, habit)| {
        let runtime = (period * share / 100).max(1);
        let deadline = match constrained {
            true => period - (period - runtime) * early / 100,
            false => period,
        };
        Simulated {
            demand: demand(runtime * GRAIN, deadline * GRAIN, period * GRAIN),
            habit,
        }
    });
    prop::collection::vec(member, 1..6)
}

/// Who got in with what it had when: (begin, length). Fails if a steady one missed a deadline, unless deadlines are before periods' ends: those can be.
fn simulate(all: &[Simulated], length: u64) -> Vec<(Demand, Vec<(u64, u64)>)> {
    let mut plan = Plan::NEW;
    let mut inside: Vec<(Simulated, usize)> = Vec::new();
    for member in all {
        if let Ok(place) = plan.join(member.demand, 0) {
            assert_eq!(place, inside.len());
            plan.set_ready(place, true, 0);
            inside.push((member.clone(), 0));
        }
    }
    let exact = inside
        .iter()
        .all(|(m, _)| m.demand.deadline == m.demand.period);
    let mut had: Vec<Vec<(u64, u64)>> = inside.iter().map(|_| Vec::new()).collect();
    // What each one still wants before it waits, and until when it waits.
    let begin = |(member, at): &(Simulated, usize)| match &member.habit {
        Habit::Steady => member.demand.runtime,
        Habit::Greedy => u64::MAX,
        Habit::Fitful(times) => times[at % times.len()].0 * GRAIN,
    };
    let mut wants: Vec<u64> = inside.iter().map(begin).collect();
    let mut waits: Vec<Option<u64>> = inside.iter().map(|_| None).collect();
    let (mut now, mut turns) = (0, 0);
    while now < length {
        turns += 1;
        assert!(turns < 1_000_000, "no progress");
        for (place, until) in waits.iter_mut().enumerate() {
            if until.is_some_and(|until| until <= now) {
                *until = None;
                inside[place].1 += 1;
                wants[place] = begin(&inside[place]);
                plan.set_ready(place, true, now);
            }
        }
        let wake = waits.iter().flatten().min().copied().unwrap_or(u64::MAX);
        let Turn { member, until } = plan.choose(now);
        let end = until.min(wake).min(length);
        assert!(end > now);
        let Some(place) = member else {
            now = end;
            continue;
        };
        let end = end.min(now.saturating_add(wants[place]));
        had[place].push((now, end - now));
        plan.spend(place, end - now);
        wants[place] -= end - now;
        now = end;
        if wants[place] != 0 {
            continue;
        }
        let (member, at) = &inside[place];
        let Demand {
            deadline, period, ..
        } = member.demand;
        let wake = match &member.habit {
            Habit::Steady => {
                let release = *at as u64 * period;
                if exact {
                    assert!(now <= release + deadline, "{member:?} missed {at}");
                }
                release + period
            }
            Habit::Greedy => continue,
            Habit::Fitful(times) => now + times[at % times.len()].1 * GRAIN,
        };
        waits[place] = Some(wake);
        plan.set_ready(place, false, now);
    }
    let demands = inside.iter().map(|(member, _)| member.demand);
    demands.zip(had).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Whatever the others do, who keeps to its run time meets its deadlines, where these are the ends of periods. Who always wants more gets its share.
    #[test]
    fn nobody_misses_a_deadline_because_of_others(all in members(false)) {
        let length = 4000 * GRAIN;
        for ((demand, had), member) in simulate(&all, length).iter().zip(inside(&all)) {
            if matches!(member.habit, Habit::Greedy) {
                let all: u64 = had.iter().map(|(_, length)| length).sum();
                prop_assert!(all >= length / demand.period * demand.runtime);
            }
        }
    }

    /// In no time somebody has more than its share, and a run time at both ends of it.
    #[test]
    fn nobody_has_more_than_its_share(all in members(false)) {
        shares_are_kept(&all, 2)?;
    }

    /// Where deadlines are before the ends of periods somebody can be late, and has it then.
    #[test]
    fn nobody_has_much_more_who_was_late(all in members(true)) {
        shares_are_kept(&all, 3)?;
    }
}

/// A member that has used its run time up, and sleeps beyond its next period's beginning, has not all of that period's when it wakes.
#[test]
fn who_slept_while_it_was_throttled_has_its_share_of_what_remains() {
    let mut plan = one(10 * MS, 30 * MS, 30 * MS);
    plan.spend(0, 10 * MS);
    plan.set_ready(0, false, 10 * MS);
    plan.set_ready(0, true, 50 * MS);
    // 10 of 10 ms would be all: a period begins.
    assert_eq!(plan.choose(50 * MS), turn(0, 60 * MS));
    plan.spend(0, 10 * MS);
    assert_eq!(plan.choose(60 * MS), turn(None, 80 * MS));
    // So another one, whose deadline is a little later, meets it.
    let member = |(runtime, period): (u64, u64), habit| Simulated {
        demand: demand(runtime * GRAIN, period * GRAIN, period * GRAIN),
        habit,
    };
    let fitful = Habit::Fitful(std::vec![(93, 124), (159, 1), (100, 1)]);
    let all = [member((176, 256), fitful), member((38, 205), Habit::Steady)];
    simulate(&all, 4000 * GRAIN);
}

#[test]
fn a_period_can_begin_before_the_one_before_has_ended() {
    let member = |(runtime, period): (u64, u64), habit| Simulated {
        demand: demand(runtime * GRAIN, period * GRAIN, period * GRAIN),
        habit,
    };
    // Seen: 47 units in 287, where three run times would be 45.
    let all = [
        member((15, 227), Habit::Fitful(std::vec![(17, 1)])),
        member((17, 61), Habit::Steady),
        member((68, 200), Habit::Steady),
    ];
    assert!(shares_are_kept(&all, 2).is_ok());
}

/// Beside its share so many run times. (Who works for a little at the beginning of a period, and wakes later in it, has its share of the time between for a new
/// run time: so two run times can follow each other in less than a period.)
fn shares_are_kept(all: &[Simulated], more: u64) -> Result<(), TestCaseError> {
    for (demand, had) in simulate(all, 4000 * GRAIN) {
        for first in 0..had.len() {
            let (begin, mut sum) = (had[first].0, 0);
            for (at, length) in &had[first..] {
                sum += length;
                let share = (at + length - begin) * demand.runtime / demand.period;
                let most = share + more * demand.runtime;
                prop_assert!(sum <= most + GRAIN, "{demand:?}");
            }
        }
    }
    Ok(())
}

/// Those that get in.
fn inside(all: &[Simulated]) -> Vec<Simulated> {
    let mut plan = Plan::NEW;
    let mut all = all.to_vec();
    all.retain(|member| plan.join(member.demand, 0).is_ok());
    all
}
