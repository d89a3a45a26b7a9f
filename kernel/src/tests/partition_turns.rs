//! Turns that go round among members by calls of their scheduler, each answered with the choice of who called: the way for that does what the general one
//! does, and takes what it shall.

use super::partitions::{dispatch, own_receive, Scene, LEVEL, TOP};
use super::*;
use cairn_abi::service::{semaphore, thread as thread_op};
use proptest::prelude::*;

const MEMBERS: usize = 3;

/// All members have called, and their calls are with the scheduler, which works for the last: their tokens.
fn all_called(scene: &mut Scene<MEMBERS>) -> [u64; MEMBERS] {
    scene.w.recall();
    let own = own_receive(&scene.w, scene.server, scene.rx);
    scene.portal = scene.w.portal(own, scene.client, 5);
    scene.w.rest();
    core::array::from_fn(|i| {
        scene.dispatch(Some(i), 0, 0);
        scene.runs(i);
        scene
            .w
            .call(scene.members[i], scene.portal, &[i as u64 + 10]);
        assert_eq!(scene.w.current(), Some(scene.s));
        scene.w.token(scene.s)
    })
}

/// Would the way for turns take what the scheduler says now?
fn takes(scene: &mut Scene<MEMBERS>, id: u64, token: u64, until: u64) -> bool {
    let thread = &mut scene.w.k.threads[scene.s];
    let channel = thread.serving.expect("it serves");
    thread.registers.rax = u64::from(receive::DISPATCH) << 32 | u64::from(scene.rx);
    let registers = &mut thread.registers;
    (registers.rbx, registers.rbp, registers.r15) = (id, token, until);
    scene.w.k.pass_turn(scene.s, channel)
}

#[test]
fn a_turn_is_passed_to_who_is_answered() {
    let mut scene = Scene::<MEMBERS>::new();
    let mut tokens = all_called(&mut scene);
    for turn in 0..10 {
        let i = turn % MEMBERS;
        let id = scene.w.id(scene.members[i]);
        let charged = scene.w.k.threads[scene.members[i]].ticks;
        assert!(takes(&mut scene, id, tokens[i], 0), "turn {turn}");
        scene.dispatch(Some(i), tokens[i], 0);
        scene.runs(i);
        assert_eq!(scene.w.k.partitions[0].chosen, Some(scene.members[i]));
        scene.w.pass_time(1000);
        scene.w.call(scene.members[i], scene.portal, &[7]);
        assert_eq!(scene.w.current(), Some(scene.s));
        tokens[i] = scene.w.token(scene.s);
        scene.w.k.charge();
        assert!(scene.w.k.threads[scene.members[i]].ticks > charged);
    }
    // The one whose call it has goes on at once.
    let last = 9 % MEMBERS;
    let id = scene.w.id(scene.members[last]);
    assert!(takes(&mut scene, id, tokens[last], 0));
    scene.dispatch(Some(last), tokens[last], 0);
    scene.runs(last);
}

#[test]
fn what_is_more_than_a_turn_takes_the_general_way() {
    let mut scene = Scene::<MEMBERS>::new();
    let tokens = all_called(&mut scene);
    let ids = scene.members.map(|m| scene.w.id(m));
    let s = scene.w.id(scene.s);
    for (id, token, until) in [
        (ids[0], tokens[1], 0),
        (ids[0], 0, 0),
        (0, tokens[0], 0),
        (ids[0], tokens[0], 1),
        (ids[0], tokens[0] ^ 1 << 40, 0),
        (s, s, 0),
        (u64::MAX, u64::MAX, 0),
    ] {
        assert!(!takes(&mut scene, id, token, until), "{id} {token:x}");
    }
    // An equal one outside has its turn first.
    scene.w.recall();
    let o = scene.w.thread(scene.client, LEVEL);
    scene.w.rest();
    assert_eq!(scene.w.current(), Some(scene.s));
    assert!(!takes(&mut scene, ids[0], tokens[0], 0));
    scene.dispatch(Some(0), tokens[0], 0);
    assert_eq!(scene.w.current(), Some(o));
    scene.w.go(o, 0, current::PARK, 0, &[]);
    scene.runs(0);
}

#[test]
fn a_choice_that_cannot_run_is_told_to_a_scheduler_that_works_for_somebody_lower() {
    let mut scene = Scene::<MEMBERS>::new();
    let tokens = all_called(&mut scene);
    // The one that it works for has no scheduler any more, and its own priority.
    scene.w.recall();
    let (init, slot) = (scene.w.init, scene.client.slot);
    let stop = [scene.w.id(scene.members[0]), thread_op::STOP as u64];
    scene.w.ok(init, slot, domain::THREAD_CONTROL, &stop);
    let leave = [
        scene.w.id(scene.members[2]),
        thread_op::SET_SCHEDULER as u64,
    ];
    scene.w.ok(init, slot, domain::THREAD_CONTROL, &leave);
    let low = scene.w.thread(scene.client, LEVEL - 10);
    scene.w.rest();
    scene.w.call(low, scene.portal, &[1]);
    assert_eq!(scene.w.effective(scene.s), LEVEL - 10);
    // It receives that call and chooses one that is stopped.
    scene.dispatch(Some(0), tokens[0], 0);
    assert_eq!(scene.w.current(), Some(scene.s));
    assert_eq!(scene.w.k.partitions[0].chosen, None);
    assert_eq!(scene.w.effective(scene.s), TOP, "it is to hear that");
}

/// What happens next, to whoever runs or from outside.
#[derive(Clone, Debug)]
enum Next {
    /// The scheduler chooses a member and answers it, if that waits for an answer; a member calls.
    Usual(u8),
    /// The scheduler chooses one and answers another, or has the slice end, or answers with more.
    Other(u8, u8),
    /// A member waits elsewhere, or yields.
    Wait(u8),
    /// `init` pokes, stops, continues one, changes priorities, lets one go or join.
    Outside(u8, u8),
    Time(u64),
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        12 => any::<u8>().prop_map(Next::Usual),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Next::Other(a, b)),
        1 => any::<u8>().prop_map(Next::Wait),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Next::Outside(a, b)),
        1 => (0u64..30_000_000).prop_map(Next::Time),
    ]
}

struct Game {
    scene: Scene<MEMBERS>,
    /// A mutex that all have, and two that run outside.
    mutex: u32,
    outside: [ThreadRef; 2],
}

impl Game {
    fn new() -> Game {
        let mut scene = Scene::<MEMBERS>::new();
        all_called(&mut scene);
        scene.w.recall();
        let init = scene.w.init;
        let made = scene.w.ok(
            init,
            0,
            current::SEMAPHORE_CREATE,
            &[1, semaphore::PLAIN, AUTO],
        )[0];
        let put = [made, AUTO, 0xffff];
        let mutex = scene
            .w
            .ok(init, scene.client.slot, domain::PORTAL_PUT, &put)[0] as u32;
        let outside = [LEVEL - 1, LEVEL].map(|priority| scene.w.thread(scene.client, priority));
        scene.w.rest();
        Game {
            scene,
            mutex,
            outside,
        }
    }

    /// The token of this member's call, if the scheduler has it.
    fn token(&self, i: usize) -> u64 {
        let thread = &self.scene.w.k.threads[self.scene.members[i]];
        match thread.state {
            State::Held => thread.token,
            _ => 0,
        }
    }

    fn play(&mut self, next: &Next) {
        let w = &mut self.scene.w;
        let Some(t) = w.current() else {
            return match *next {
                Next::Time(ns) => w.pass_time(ns),
                Next::Outside(what, who) => self.outside(what, who),
                _ => w.pass_time(1_000_000),
            };
        };
        let is_scheduler = t == self.scene.s;
        match *next {
            Next::Usual(who) | Next::Other(who, _) if is_scheduler => {
                // With a quick call under way its caller is not held yet.
                self.scene.w.k.settle_entry();
                let i = who as usize % MEMBERS;
                let (mut id, mut token, mut until) = (self.id(i), self.token(i), 0);
                if let Next::Other(_, how) = *next {
                    match how % 5 {
                        0 => id = 0,
                        1 => token = self.token((i + 1) % MEMBERS),
                        2 => until = self.scene.w.k.arch.time + u64::from(how) * 100_000,
                        3 => token = 0,
                        _ => id = self.id((i + 1) % MEMBERS),
                    }
                }
                dispatch(&mut self.scene.w, t, self.scene.rx, id, token, until);
            }
            Next::Usual(word) | Next::Other(word, 0..128) => {
                let portal = match self.scene.members.contains(&t) || word & 1 == 0 {
                    true => self.scene.portal,
                    false => 0,
                };
                let operation = u8::from(portal == 0) * current::YIELD;
                w.go(t, portal, operation, 0, &[u64::from(word)]);
            }
            Next::Other(..) if !is_scheduler => {
                w.go(t, self.scene.portal, cairn_abi::op::NOTIFY, 0, &[1]);
            }
            Next::Wait(how) if !is_scheduler => match how % 4 {
                0 => w.go(t, 0, current::YIELD, 0, &[]),
                1 => w.go(t, self.mutex, semaphore::P, 0, &[]),
                2 => w.go(t, self.mutex, semaphore::V, 0, &[]),
                _ => {
                    let until = w.k.arch.time + 5_000_000;
                    w.go(t, 0, current::SLEEP, 0, &[until]);
                }
            },
            Next::Time(ns) => w.pass_time(ns),
            Next::Outside(what, who) => self.outside(what, who),
            _ => {}
        }
    }

    fn id(&self, i: usize) -> u64 {
        self.scene.w.id(self.scene.members[i])
    }

    fn outside(&mut self, what: u8, who: u8) {
        let i = who as usize % MEMBERS;
        let id = match who & 0x40 {
            0 => self.id(i),
            _ => self.scene.w.id(self.outside[i % 2]),
        };
        let own = own_receive(&self.scene.w, self.scene.server, self.scene.rx);
        let w = &mut self.scene.w;
        w.recall();
        let (init, slot) = (w.init, self.scene.client.slot);
        let words = match what % 8 {
            0 | 1 => [id, thread_op::POKE as u64, 0, 0, 0],
            2 => [id, thread_op::STOP as u64, 0, 0, 0],
            3 | 4 => [id, thread_op::CONTINUE as u64, 0, 0, 0],
            5 => [
                id,
                thread_op::SET_PRIORITY as u64,
                40 + (what as u64 >> 4),
                0,
                0,
            ],
            6 => [id, thread_op::SET_SCHEDULER as u64, 0, 0, 0],
            _ => [
                id,
                thread_op::SET_SCHEDULER as u64,
                own as u64,
                100 + i as u64,
                0,
            ],
        };
        w.go(init, slot, domain::THREAD_CONTROL, 0, &words);
        if what > 240 {
            let priority = u64::from(TOP) - u64::from(what & 1);
            let s = w.id(self.scene.s);
            let words = [s, thread_op::SET_PRIORITY as u64, priority, 0, 0];
            w.go(
                init,
                self.scene.server.slot,
                domain::THREAD_CONTROL,
                0,
                &words,
            );
        }
        w.rest();
    }

    /// What a program can see of every thread, and what each was charged.
    fn seen(&mut self) -> Vec<(State, u8, cairn_abi::state::Registers, u64)> {
        let k = &mut self.scene.w.k;
        k.charge();
        let seen = |t| {
            let thread = &k.threads[t];
            (
                thread.state,
                thread.effective,
                thread.registers,
                thread.ticks,
            )
        };
        k.threads.all().map(seen).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn turns_go_round_as_by_the_general_way(steps in prop::collection::vec(next(), 1..150), quick: bool) {
        let (mut short, mut general) = (Game::new(), Game::new());
        short.scene.w.quick = quick;
        general.scene.w.k.short_way = false;
        for step in steps {
            short.play(&step);
            general.play(&step);
            prop_assert_eq!(short.scene.w.current(), general.scene.w.current());
            if short.scene.w.k.arch.running == 0 {
                prop_assert_eq!(short.seen(), general.seen());
                let chosen = |game: &Game| game.scene.w.k.partitions[0].chosen;
                prop_assert_eq!(chosen(&short), chosen(&general));
            }
        }
    }
}
