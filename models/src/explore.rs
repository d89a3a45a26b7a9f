//! Breadth-first search through all states of a model, with the shortest way to the first state that breaks a rule.
//!
//! Visited states are remembered by 128 bits of hash, not whole: two different states would have to agree in all of them for one to be missed.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// What can be explored.
pub trait Model {
    type State: Clone + Hash + Debug;
    type Action: Copy + Debug;

    fn start(&self) -> Self::State;

    /// What may happen next.
    fn actions(&self, state: &Self::State, into: &mut Vec<Self::Action>);

    /// The next state, or the rule that this very step breaks.
    fn step(&self, state: &Self::State, action: Self::Action) -> Result<Self::State, String>;

    /// What must hold in every state.
    fn check(&self, state: &Self::State) -> Result<(), String>;
}

/// How much there was to see.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub states: usize,
    pub steps: usize,
    /// Actions on the longest of all shortest ways.
    pub depth: usize,
}

/// A rule that does not hold, and the way to it.
#[derive(Debug)]
pub struct Broken<A> {
    pub rule: String,
    pub way: Vec<A>,
}

fn print(state: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        state.hash(&mut hasher);
        hasher.finish()
    };
    (half(1) as u128) << 64 | half(2) as u128
}

/// Look at every state that can be reached; at `most` states at most, so that a mistake in a bound is not an endless test.
pub fn explore<M: Model>(model: &M, most: usize) -> Result<Seen, Broken<M::Action>> {
    let start = model.start();
    let mut visited = HashSet::from([print(&start)]);
    // Where each state came from: index of the one before, and the action.
    let mut origins: Vec<(usize, Option<M::Action>)> = vec![(0, None)];
    let mut front = VecDeque::from([(start, 0usize, 0usize)]);
    let mut seen = Seen {
        states: 1,
        steps: 0,
        depth: 0,
    };
    let mut actions = Vec::new();
    while let Some((state, index, depth)) = front.pop_front() {
        seen.depth = depth;
        let broken = |rule, last| Broken {
            rule,
            way: way(&origins, index, last),
        };
        model.check(&state).map_err(|rule| broken(rule, None))?;
        actions.clear();
        model.actions(&state, &mut actions);
        for &action in &actions {
            seen.steps += 1;
            let next = model.step(&state, action).map_err(|rule| Broken {
                rule,
                way: way(&origins, index, Some(action)),
            })?;
            if visited.insert(print(&next)) {
                if visited.len() > most {
                    return Err(Broken {
                        rule: format!("more than {most} states"),
                        way: Vec::new(),
                    });
                }
                origins.push((index, Some(action)));
                front.push_back((next, origins.len() - 1, depth + 1));
            }
        }
    }
    seen.states = visited.len();
    Ok(seen)
}

fn way<A: Copy>(origins: &[(usize, Option<A>)], mut index: usize, last: Option<A>) -> Vec<A> {
    let mut way: Vec<A> = last.into_iter().collect();
    while let (before, Some(action)) = origins[index] {
        way.push(action);
        index = before;
    }
    way.reverse();
    way
}
