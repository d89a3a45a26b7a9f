//! The plan of a scheduler by deadlines, on the host: what is admitted misses nothing in a hyperperiod, what is refused does.

#[path = "plan.rs"]
mod plan;

use plan::{check, Demand, Plan, Refused};

fn demand(budget: u64, deadline: u64, period: u64) -> Demand {
    Demand {
        budget,
        deadline,
        period,
    }
}

/// From a common begin through a hyperperiod, everybody needing its whole budget: is any deadline missed?
fn misses(demands: &[Demand]) -> bool {
    let divisor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let end = demands
        .iter()
        .fold(1, |all, d| all / divisor(all, d.period) * d.period);
    let (mut release, mut left) = (vec![0; demands.len()], vec![0; demands.len()]);
    for now in 0..=end {
        for (i, d) in demands.iter().enumerate() {
            if left[i] != 0 && now >= release[i] + d.deadline {
                return true;
            }
            if now % d.period == 0 {
                (release[i], left[i]) = (now, d.budget);
            }
        }
        let due = |&i: &usize| release[i] + demands[i].deadline;
        if let Some(i) = (0..demands.len()).filter(|&i| left[i] != 0).min_by_key(due) {
            left[i] -= 1;
        }
    }
    false
}

#[test]
fn the_whole_processor_is_given_and_not_more() {
    assert_eq!(
        check(&[demand(1, 3, 3), demand(1, 6, 6), demand(1, 2, 2)]),
        Ok(())
    );
    let more = [
        demand(1, 3, 3),
        demand(1, 6, 6),
        demand(1, 2, 2),
        demand(1, 1 << 30, 1 << 30),
    ];
    assert_eq!(check(&more), Err(Refused::TooMuch));
    // One part in 10^15 too much, which no floating-point sum of this length shows.
    let third = 333_333_333_333_333;
    let full = [demand(third, 3 * third, 3 * third); 3];
    assert_eq!(check(&full), Ok(()));
    let over = [full[0], full[1], demand(third + 1, 3 * third, 3 * third)];
    assert_eq!(check(&over), Err(Refused::TooMuch));
}

#[test]
fn a_deadline_before_the_end_of_the_period_counts() {
    assert_eq!(check(&[demand(2, 3, 10), demand(1, 3, 10)]), Ok(()));
    assert_eq!(
        check(&[demand(2, 3, 10), demand(2, 3, 10)]),
        Err(Refused::TooMuch)
    );
    for wrong in [demand(0, 1, 1), demand(2, 1, 3), demand(1, 3, 2)] {
        assert_eq!(check(&[wrong]), Err(Refused::Wrong));
    }
    let odd = [
        demand(1, 1 << 61, 1 << 61),
        demand(1, (1 << 61) - 1, (1 << 61) - 1),
    ];
    assert_eq!(check(&odd), Err(Refused::TooOdd));
}

/// Numbers that look like none in particular.
struct Numbers(u64);

impl Numbers {
    fn up_to(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most + 1
    }

    fn demands(&mut self) -> Vec<Demand> {
        let periods = [2u64, 3, 4, 5, 6, 8, 10, 12, 15, 20];
        let implicit = self.up_to(2) == 1;
        (0..self.up_to(5))
            .map(|_| {
                let period = periods[self.up_to(10) as usize - 1];
                let budget = self.up_to(period.div_ceil(2));
                let deadline = match implicit {
                    true => period,
                    false => budget + self.up_to(period - budget + 1) - 1,
                };
                demand(budget, deadline, period)
            })
            .collect()
    }
}

#[test]
fn who_is_admitted_misses_nothing_and_who_is_refused_does() {
    let mut numbers = Numbers(0x1234_5678_9abc);
    let mut counts = [0; 2];
    for _ in 0..20_000 {
        let demands = numbers.demands();
        let admitted = check(&demands) == Ok(());
        assert_eq!(admitted, !misses(&demands), "{demands:?}");
        counts[usize::from(admitted)] += 1;
    }
    assert!(counts.iter().all(|&count| count > 2000), "{counts:?}");
}

/// The plan itself, with members that come one after the other: each needs some of its budget in each period, one as much as it can have.
#[test]
fn by_the_plan_each_has_what_it_needs_by_its_deadline_and_no_more() {
    let mut numbers = Numbers(0xfeed_beef);
    for _ in 0..2_000 {
        let mut plan = Plan::default();
        let mut coming = numbers.demands();
        // Place, demand, begin of the first period, what it needs in each, what it had in this.
        let mut members: Vec<(usize, Demand, u64, u64, u64)> = vec![];
        for now in 0..300 {
            for (_, d, begin, needs, had) in &mut members {
                let into = (now - *begin) % d.period;
                if into == d.deadline % d.period && now - *begin >= d.deadline {
                    assert!(*had >= (*needs).min(d.budget), "{d:?} {had} {needs}");
                }
                if into == 0 {
                    assert!(*had <= d.budget);
                    *had = 0;
                }
            }
            if numbers.up_to(3) == 1 {
                if let Some(d) = coming.pop() {
                    if let Ok(place) = plan.join(d, now) {
                        plan.set_ready(place, true);
                        let greedy = members.is_empty();
                        let needs = if greedy {
                            u64::MAX
                        } else {
                            numbers.up_to(d.budget)
                        };
                        members.push((place, d, now, needs, 0));
                    }
                }
            }
            let turn = plan.choose(now);
            assert!(turn.until > now);
            if let Some(place) = turn.member {
                plan.spend(place, 1);
                let member = members.iter_mut().find(|member| member.0 == place).unwrap();
                member.4 += 1;
                if member.4 >= member.3 {
                    plan.finish(place);
                }
            }
        }
    }
}

#[test]
fn who_waits_elsewhere_has_the_rest_in_the_next_period() {
    let mut plan = Plan::default();
    let place = plan.join(demand(4, 10, 10), 100).unwrap();
    assert_eq!(plan.choose(100).member, None);
    plan.set_ready(place, true);
    let turn = plan.choose(100);
    assert_eq!((turn.member, turn.until), (Some(place), 104));
    plan.spend(place, 1);
    plan.set_ready(place, false);
    plan.set_ready(place, true);
    let turn = plan.choose(101);
    assert_eq!((turn.member, turn.until), (None, 110));
    assert_eq!(plan.choose(110).member, Some(place));
    plan.finish(place);
    assert_eq!(plan.standing(place), Some((true, 120)));
    assert_eq!(plan.choose(112).member, None);
    assert_eq!(plan.choose(135).member, Some(place));
    assert_eq!(plan.standing(place), Some((false, 140)));
    plan.leave(place);
    assert_eq!(plan.choose(140).until, u64::MAX);
}
