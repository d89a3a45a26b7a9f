//! Partitions: members run when they are chosen and never else, their scheduler hears of them, and without it they go on by themselves.

use super::*;
use crate::partition::MOST;
use cairn_abi::pulse;
use cairn_abi::service::scheduler::{self, BLOCKED, GONE, READY};
use cairn_abi::service::{semaphore, thread as thread_op};

pub(super) const TOP: u8 = 50;
/// What members have while they have a scheduler.
pub(super) const LEVEL: u8 = TOP - 1;

/// A scheduler that waits at its channel, `N` members with badges from 100 on, and priorities from 20 on; none of them was told of yet but as ready. `init`
/// rests.
pub(super) struct Scene<const N: usize> {
    pub w: World,
    pub s: ThreadRef,
    pub server: Dom,
    pub client: Dom,
    /// The scheduler's receive right, and the members' portal.
    pub rx: u32,
    pub portal: u32,
    pub members: [ThreadRef; N],
}

impl<const N: usize> Scene<N> {
    pub fn new() -> Scene<N> {
        Scene::of(World::new(), scheduler::BOUND)
    }

    pub fn of(mut w: World, bound: u64) -> Scene<N> {
        let (server, client, rx, portal) = w.pair();
        let s = w.thread(server, TOP);
        let members = core::array::from_fn(|i| {
            let m = w.thread(client, 20 + i as u8);
            join(&mut w, server, client, rx, m, 100 + i as u64, bound);
            m
        });
        let mut scene = Scene {
            w,
            s,
            server,
            client,
            rx,
            portal,
            members,
        };
        scene.w.rest();
        for i in 0..N {
            scene.dispatch(None, 0, 0);
            assert_eq!(scene.news(), (100 + i as u64, READY));
        }
        scene
    }

    /// The scheduler chooses this member and waits, without a reply.
    pub fn dispatch(&mut self, member: Option<usize>, token: u64, until: u64) {
        let id = member.map_or(0, |i| self.w.id(self.members[i]));
        dispatch(&mut self.w, self.s, self.rx, id, token, until);
    }

    /// What the scheduler was told, which runs: badge, standing.
    fn news(&self) -> (u64, u64) {
        assert_eq!(self.w.current(), Some(self.s));
        let (code, standing, badge) = self.w.pulse(self.s);
        assert_eq!(code, pulse::MEMBER);
        (badge, standing)
    }

    pub fn runs(&self, i: usize) {
        assert_eq!(self.w.current(), Some(self.members[i]));
        assert_eq!(self.w.effective(self.members[i]), LEVEL);
    }
}

pub(super) fn dispatch(w: &mut World, s: ThreadRef, rx: u32, id: u64, token: u64, until: u64) {
    let registers = &mut w.k.threads[s].registers;
    (registers.rbx, registers.rbp, registers.r15) = (id, token, until);
    w.go(s, rx, receive::DISPATCH, 0, &[]);
}

/// By `init`, which gets the channel's receive right for it from the server's table.
fn join(w: &mut World, server: Dom, client: Dom, rx: u32, m: ThreadRef, badge: u64, bound: u64) {
    let init = w.init;
    let own = own_receive(w, server, rx);
    let words = [
        w.id(m),
        thread_op::SET_SCHEDULER as u64,
        own as u64,
        badge,
        bound,
    ];
    let told = w.ok(init, client.slot, domain::THREAD_CONTROL, &words);
    assert_eq!(told[0], w.id(m));
}

/// `init`'s slot for the same channel.
pub(super) fn own_receive(w: &World, server: Dom, rx: u32) -> u32 {
    let object = |d: DomainRef, slot: u32| {
        let target = w.k.domains[d].table.target(slot as u64)?;
        (target.kind() == cairn_abi::PortalKind::Receive).then(|| target.object())
    };
    let wanted = object(server.d, rx);
    let d = w.k.threads[w.init].domain;
    let entries = w.k.domains[d].table.entries();
    (0..entries)
        .find(|&slot| object(d, slot) == wanted)
        .expect("init made it")
}

#[test]
fn a_member_runs_only_while_it_is_chosen() {
    let mut scene = Scene::<3>::new();
    scene.dispatch(None, 0, 0);
    assert_eq!(
        scene.w.current(),
        None,
        "three are ready, and none is chosen"
    );
    scene.w.recall();
    let portal = scene.w.portal(
        own_receive(&scene.w, scene.server, scene.rx),
        scene.client,
        5,
    );
    scene.w.rest();
    assert_eq!(scene.w.current(), None);
    // Somebody outside tells the scheduler something.
    scene.w.recall();
    let o = scene.w.thread(scene.client, 10);
    scene.w.rest();
    scene.w.call(o, portal, &[1]);
    let token = scene.w.token(scene.s);
    scene.dispatch(Some(1), token, 0);
    scene.runs(1);
    assert_eq!(scene.w.state(o), State::Ready);
    for i in [0, 2] {
        assert_eq!(scene.w.state(scene.members[i]), State::Aside);
    }
    // A call of its own is served at its scheduler's own priority but one; another one's turn comes, and its own again.
    scene.w.call(scene.members[1], portal, &[2]);
    let first = scene.w.token(scene.s);
    scene.dispatch(Some(2), 0, 0);
    scene.runs(2);
    scene.w.call(scene.members[2], portal, &[3]);
    let second = scene.w.token(scene.s);
    scene.dispatch(Some(1), first, 0);
    scene.runs(1);
    scene.w.call(scene.members[1], portal, &[4]);
    // Answered, but not chosen: it was known as ready, and stays aside.
    let third = scene.w.token(scene.s);
    scene.dispatch(Some(2), third, 0);
    assert_eq!(
        scene.w.current(),
        Some(scene.s),
        "that one waits for a reply"
    );
    assert_eq!(scene.news(), (102, BLOCKED));
    assert_eq!(scene.w.state(scene.members[1]), State::Aside);
    scene.dispatch(Some(2), second, 0);
    scene.runs(2);
}

#[test]
fn who_waits_and_who_is_ready_again_is_told() {
    let mut scene = Scene::<2>::new();
    scene.dispatch(Some(0), 0, 0);
    scene.runs(0);
    let now = scene.w.k.arch.time;
    scene
        .w
        .go(scene.members[0], 0, current::SLEEP, 0, &[now + 1_000_000]);
    assert_eq!(scene.news(), (100, BLOCKED));
    scene.dispatch(Some(1), 0, 0);
    scene.runs(1);
    scene.w.pass_time(1_000_000);
    assert_eq!(scene.news(), (100, READY));
    assert_eq!(scene.w.state(scene.members[1]), State::Ready);
    // The one that was chosen goes on where it was, if it is chosen again.
    scene.dispatch(Some(1), 0, 0);
    scene.runs(1);
    // Somebody less important outside runs only when no member does.
    scene.w.recall();
    let o = scene.w.thread(scene.client, LEVEL - 1);
    scene.w.rest();
    scene.runs(1);
    scene.w.go(scene.members[1], 0, current::PARK, 0, &[]);
    assert_eq!(scene.news(), (101, BLOCKED));
    scene.dispatch(None, 0, 0);
    assert_eq!(scene.w.current(), Some(o));
    let id = scene.w.id(scene.members[1]);
    scene.w.ok(o, 0, current::UNPARK, &[id]);
    assert_eq!(scene.news(), (101, READY));
    // Of one that runs and of one that waits meanwhile the newest is told, once.
    scene.dispatch(Some(1), 0, 0);
    scene.runs(1);
}

#[test]
fn news_while_the_scheduler_is_away_are_kept_and_told_once() {
    let mut scene = Scene::<2>::new();
    let (s, rx) = (scene.s, scene.rx);
    let ids = scene.members.map(|m| scene.w.id(m));
    scene.dispatch(Some(0), 0, 0);
    let now = scene.w.k.arch.time;
    scene
        .w
        .go(scene.members[0], 0, current::SLEEP, 0, &[now + 1_000_000]);
    assert_eq!(scene.news(), (100, BLOCKED));
    // It sleeps as well, and both wake.
    scene.w.go(s, 0, current::SLEEP, 0, &[now + 2_000_000]);
    assert_eq!(scene.w.current(), None);
    scene.w.pass_time(1_000_000);
    assert_eq!(scene.w.state(scene.members[0]), State::Aside);
    scene.w.pass_time(1_000_000);
    assert_eq!(scene.w.current(), Some(s));
    // A choice is made in any case; the news come first.
    dispatch(&mut scene.w, s, rx, ids[1], 0, 0);
    assert_eq!(scene.news(), (100, READY));
    assert_eq!(scene.w.state(scene.members[1]), State::Ready);
    dispatch(&mut scene.w, s, rx, ids[0], 0, 0);
    scene.runs(0);
    assert_eq!(scene.w.state(scene.members[1]), State::Aside);
}

#[test]
fn a_slice_ends_when_it_was_to_end() {
    let mut scene = Scene::<2>::new();
    let now = scene.w.k.arch.time;
    scene.dispatch(Some(0), 0, now + 3_000_000);
    scene.runs(0);
    scene.w.pass_time(2_900_000);
    scene.runs(0);
    scene.w.pass_time(100_000);
    assert_eq!(scene.w.current(), Some(scene.s));
    assert_eq!(scene.w.result(scene.s), Err(Error::TimedOut));
    assert_eq!(scene.w.state(scene.members[0]), State::Ready);
    let now = scene.w.k.arch.time;
    scene.dispatch(Some(1), 0, now + 3_000_000);
    scene.runs(1);
    // What comes before ends the slice for good.
    scene.w.go(scene.members[1], 0, current::PARK, 0, &[]);
    assert_eq!(scene.news(), (101, BLOCKED));
    scene.dispatch(Some(0), 0, 0);
    scene.w.pass_time(10_000_000);
    scene.runs(0);
}

#[test]
fn a_server_works_on_the_members_turn_and_its_wait_is_the_members() {
    let mut scene = Scene::<2>::new();
    scene.w.recall();
    let (server, rx, own) = {
        let server = scene.w.domain();
        let (rx, own) = scene.w.channel(server);
        (server, rx, own)
    };
    let portal = scene.w.portal(own, scene.client, 9);
    let x = scene.w.thread(server, 30);
    scene.w.rest();
    assert_eq!(scene.w.current(), Some(scene.s));
    scene.dispatch(None, 0, 0);
    scene.w.receive(x, rx);
    scene.w.recall();
    let o = scene.w.thread(scene.client, 5);
    let outside = own_receive(&scene.w, scene.server, scene.rx);
    let word = scene.w.portal(outside, scene.client, 1);
    scene.w.rest();
    scene.w.go(o, word, cairn_abi::op::NOTIFY, 0, &[1]);
    assert_eq!(scene.w.current(), Some(scene.s));
    scene.dispatch(Some(0), 0, 0);
    scene.runs(0);
    scene.w.call(scene.members[0], portal, &[1]);
    assert_eq!((scene.w.current(), scene.w.effective(x)), (Some(x), LEVEL));
    scene.w.reply_receive(x, rx, &[2]);
    scene.runs(0);
    scene.w.call(scene.members[0], portal, &[1]);
    let token = scene.w.token(x);
    // It waits for something else: that is nothing that the member does.
    let now = scene.w.k.arch.time;
    scene.w.go(x, 0, current::SLEEP, 0, &[now + 1000]);
    assert_eq!(scene.news(), (100, BLOCKED));
    scene.dispatch(Some(1), 0, 0);
    scene.runs(1);
    scene.w.pass_time(1000);
    scene.w.go(scene.members[1], 0, current::PARK, 0, &[]);
    // It has the member's priority, which is the partition's: its scheduler hears when nobody works for it any more.
    assert_eq!((scene.w.current(), scene.w.effective(x)), (Some(x), LEVEL));
    scene.w.k.threads[x].registers.rbp = token;
    scene.w.reply_receive(x, rx, &[3]);
    assert_eq!(scene.news(), (100, READY));
    // It waits, which nobody has met yet: that is told when another one is chosen.
    scene.dispatch(Some(0), 0, 0);
    assert_eq!(scene.news(), (101, BLOCKED));
    scene.dispatch(Some(0), 0, 0);
    scene.runs(0);
    assert_eq!(scene.w.result(scene.members[0]).expect("a reply")[0], 3);
}

#[test]
fn a_stop_is_a_wait_and_its_end_is_told() {
    let mut scene = Scene::<2>::new();
    scene.dispatch(Some(0), 0, 0);
    scene.w.recall();
    let (init, slot) = (scene.w.init, scene.client.slot);
    for (stop, go_on) in [(true, false), (false, true)] {
        let id = scene.w.id(scene.members[0]);
        for (wanted, operation) in [(stop, thread_op::STOP), (go_on, thread_op::CONTINUE)] {
            if wanted {
                let words = [id, operation as u64];
                scene.w.ok(init, slot, domain::THREAD_CONTROL, &words);
            }
        }
        scene.w.rest();
        assert_eq!(scene.news(), (100, if stop { BLOCKED } else { READY }));
        scene.dispatch(Some(if stop { 1 } else { 0 }), 0, 0);
        scene.runs(if stop { 1 } else { 0 });
        scene.w.recall();
    }
    let id = scene.w.id(scene.members[1]);
    let words = [id, thread_op::CONTINUE as u64];
    let error = scene.w.err(init, slot, domain::THREAD_CONTROL, &words);
    assert_eq!(error, Error::BadArgument, "that it is aside is no stop");
    // The whole domain: who is aside is told of when it is chosen, and all when they go on.
    scene.w.ok(init, slot, domain::STOP, &[]);
    scene.w.rest();
    assert_eq!(scene.news(), (100, BLOCKED));
    scene.dispatch(Some(1), 0, 0);
    assert_eq!(scene.news(), (101, BLOCKED));
    scene.dispatch(None, 0, 0);
    scene.w.recall();
    scene.w.ok(init, slot, domain::CONTINUE, &[]);
    scene.w.rest();
    let mut told = [scene.news(), (0, 0)];
    scene.dispatch(None, 0, 0);
    told[1] = scene.news();
    told.sort();
    assert_eq!(told, [(100, READY), (101, READY)]);
}

#[test]
fn the_end_of_a_member_is_told_and_its_object_goes() {
    let mut scene = Scene::<2>::new();
    scene.dispatch(Some(0), 0, 0);
    let before = scene.w.k.threads.live_objects();
    scene.w.go(scene.members[0], 0, current::EXIT, 0, &[0]);
    assert_eq!(scene.news(), (100, GONE));
    assert_eq!(scene.w.k.threads.live_objects(), before - 1);
    // One that is aside, while nobody hears: its object stays until it was told.
    let id = scene.w.id(scene.members[1]);
    let now = scene.w.k.arch.time;
    scene.w.go(scene.s, 0, current::SLEEP, 0, &[now + 1000]);
    scene.w.recall();
    let spare = scene.w.thread(scene.client, 3);
    let words = [id, thread_op::KILL as u64];
    scene.w.ok(
        scene.w.init,
        scene.client.slot,
        domain::THREAD_CONTROL,
        &words,
    );
    assert_eq!(scene.w.k.threads.live_objects(), before);
    scene.w.rest();
    assert_eq!(scene.w.current(), Some(spare));
    scene.w.pass_time(1000);
    // Its last member is gone, and with it the partition.
    scene.dispatch(None, 0, 0);
    assert_eq!(scene.news(), (101, GONE));
    assert_eq!(scene.w.k.threads.live_objects(), before - 1);
    dispatch(&mut scene.w, scene.s, scene.rx, id, 0, 0);
    assert_eq!(scene.w.result(scene.s), Err(Error::BadArgument));
}

#[test]
fn without_a_scheduler_they_go_on_by_their_own_priorities() {
    for chosen in [None, Some(0)] {
        let mut scene = Scene::<3>::new();
        scene.dispatch(chosen, 0, 0);
        // Set meanwhile, it is for later.
        scene.w.recall();
        let (init, slot, server) = (scene.w.init, scene.client.slot, scene.server);
        let set = [
            scene.w.id(scene.members[0]),
            thread_op::SET_PRIORITY as u64,
            25,
            0,
            0,
        ];
        scene.w.ok(init, slot, domain::THREAD_CONTROL, &set);
        let info = [set[0], thread_op::INFO as u64];
        let told = scene.w.ok(init, slot, domain::THREAD_CONTROL, &info);
        assert_eq!((told[1], told[2]), (0, 25), "ready, and its own priority");
        let own = own_receive(&scene.w, server, scene.rx);
        scene.w.close_own(own);
        scene.w.destroy(server);
        scene.w.rest();
        let expected = [25, 21, 22];
        assert_eq!(scene.members.map(|m| scene.w.effective(m)), expected);
        assert_eq!(scene.w.current(), Some(scene.members[0]));
        scene.w.go(scene.members[0], 0, current::PARK, 0, &[]);
        assert_eq!(scene.w.current(), Some(scene.members[2]));
        assert!(scene.w.k.partitions.iter().all(|p| p.channel.is_none()));
    }
}

#[test]
fn a_silent_scheduler_loses_its_members() {
    const BOUND: u64 = 5_000_000;
    for told in [false, true] {
        let mut scene = Scene::<5>::of(World::new(), BOUND);
        let now = scene.w.k.arch.time;
        // It comes as it should, again and again.
        for _ in 0..4 {
            let now = scene.w.k.arch.time;
            scene.dispatch(Some(0), 0, now + BOUND);
            scene.w.pass_time(BOUND);
            assert_eq!(scene.w.result(scene.s), Err(Error::TimedOut));
        }
        assert!(scene.w.k.arch.time > now + 3 * BOUND);
        scene.dispatch(Some(0), 0, 0);
        let now = scene.w.k.arch.time;
        if told {
            // Told of a wait, it does something else for ever.
            scene.w.go(scene.members[0], 0, current::PARK, 0, &[]);
            assert_eq!(scene.news(), (100, BLOCKED));
        } else {
            // It takes a call and does not come back.
            scene.w.call(scene.members[0], scene.portal, &[]);
            assert_eq!(scene.w.current(), Some(scene.s));
        }
        scene.w.go(scene.s, 0, current::PARK, 0, &[]);
        assert_eq!(scene.w.current(), None);
        scene.w.pass_time(BOUND - 1);
        assert_eq!(scene.w.current(), None);
        // No later than after twice the bound, and the rest of them in shares at once.
        while scene.w.current().is_none() {
            scene.w.pass_time(BOUND / 100);
            assert!(scene.w.k.arch.time <= now + 2 * BOUND + BOUND / 50);
        }
        assert_eq!(scene.w.current(), Some(scene.members[4]));
        assert_eq!(scene.w.effective(scene.members[4]), 24);
        assert!(scene.w.k.partitions.iter().all(|p| p.channel.is_none()));
    }
}

#[test]
fn a_scheduler_is_replaced_while_its_members_run() {
    let mut scene = Scene::<2>::new();
    scene.dispatch(Some(0), 0, 0);
    scene.w.recall();
    let other = scene.w.domain();
    let (rx, own) = scene.w.channel(other);
    let n = scene.w.thread(other, 40);
    for (i, m) in scene.members.into_iter().enumerate() {
        let words = [
            scene.w.id(m),
            thread_op::SET_SCHEDULER as u64,
            own as u64,
            200 + i as u64,
            0,
        ];
        let (init, slot) = (scene.w.init, scene.client.slot);
        scene.w.ok(init, slot, domain::THREAD_CONTROL, &words);
    }
    scene.w.rest();
    assert_eq!(scene.w.current(), Some(n));
    for badge in [200, 201] {
        dispatch(&mut scene.w, n, rx, 0, 0, 0);
        assert_eq!(scene.w.pulse(n), (pulse::MEMBER, READY, badge));
    }
    let id = scene.w.id(scene.members[0]);
    dispatch(&mut scene.w, n, rx, id, 0, 0);
    assert_eq!(scene.w.current(), Some(scene.members[0]));
    assert_eq!(scene.w.effective(scene.members[0]), 39);
    // The one before has none any more.
    scene.w.recall();
    let leave = [
        scene.w.id(scene.members[1]),
        thread_op::SET_SCHEDULER as u64,
        0,
    ];
    let (init, slot) = (scene.w.init, scene.client.slot);
    scene.w.ok(init, slot, domain::THREAD_CONTROL, &leave);
    let error = scene.w.err(init, slot, domain::THREAD_CONTROL, &leave);
    assert_eq!(error, Error::BadArgument);
    scene.w.rest();
    scene.w.go(scene.members[0], 0, current::PARK, 0, &[]);
    assert_eq!(scene.w.pulse(n), (pulse::MEMBER, BLOCKED, 200));
    dispatch(&mut scene.w, n, rx, 0, 0, 0);
    assert_eq!(scene.w.current(), Some(scene.members[1]));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut scene = Scene::<2>::new();
    let (s, rx) = (scene.s, scene.rx);
    for id in [1 << 40, scene.w.id(s), u64::MAX] {
        dispatch(&mut scene.w, s, rx, id, 0, 0);
        assert_eq!(scene.w.result(s), Err(Error::BadArgument));
    }
    let id = scene.w.id(scene.members[0]);
    dispatch(&mut scene.w, s, rx, id, 77, 0);
    assert_eq!(scene.w.result(s), Err(Error::BadToken));
    assert_eq!(
        scene.w.k.partitions[0].chosen,
        Some(scene.members[0]),
        "but it is chosen"
    );
    // A scheduler that has nothing to choose receives.
    scene.dispatch(None, 0, 0);
    scene.w.recall();
    let init = scene.w.init;
    // A member of its own partition has no say there.
    join(&mut scene.w, scene.server, scene.server, rx, s, 1, 0);
    let leave = [scene.w.id(s), thread_op::SET_SCHEDULER as u64, 0];
    scene
        .w
        .ok(init, scene.server.slot, domain::THREAD_CONTROL, &leave);
    // So many partitions and no more; one that is given up is there for others.
    let m = scene.w.thread(scene.client, 5);
    let mut slots = vec![];
    let mut made = vec![];
    for i in 1..=MOST {
        let channel = scene.w.ok(init, 0, current::CHANNEL_CREATE, &[])[0];
        slots.push(channel);
        let m = if i == MOST {
            m
        } else {
            scene.w.thread(scene.client, 5)
        };
        let words = [
            scene.w.id(m),
            thread_op::SET_SCHEDULER as u64,
            channel,
            0,
            0,
        ];
        scene
            .w
            .go(init, scene.client.slot, domain::THREAD_CONTROL, 0, &words);
        let expected = if i < MOST {
            Ok(())
        } else {
            Err(Error::NoMemory)
        };
        assert_eq!(scene.w.result(init).map(|_| ()), expected);
        made.push(m);
    }
    scene.w.close_own(slots[0] as u32);
    let words = [
        scene.w.id(m),
        thread_op::SET_SCHEDULER as u64,
        slots[MOST - 1],
        0,
        0,
    ];
    scene
        .w
        .ok(init, scene.client.slot, domain::THREAD_CONTROL, &words);
}

#[test]
fn semaphores_by_the_nucleus_are_waits_like_others() {
    let mut scene = Scene::<2>::new();
    scene.dispatch(Some(0), 0, 0);
    let (a, b) = (scene.members[0], scene.members[1]);
    let sem = scene.w.ok(a, 0, current::SEMAPHORE_CREATE, &[0, 0, AUTO])[0] as u32;
    let back = scene.w.ok(a, 0, current::SEMAPHORE_CREATE, &[0, 0, AUTO])[0];
    scene.w.go(a, sem, semaphore::P, 0, &[]);
    assert_eq!(scene.news(), (100, BLOCKED));
    scene.dispatch(Some(1), 0, 0);
    // V and P in one: the one that it wakes is not chosen.
    scene.w.go(b, sem, semaphore::V_THEN_P, 0, &[back]);
    let mut told = [scene.news(), (0, 0)];
    scene.dispatch(Some(0), 0, 0);
    told[1] = if scene.w.current() == Some(scene.s) {
        let told = scene.news();
        scene.dispatch(Some(0), 0, 0);
        told
    } else {
        (0, 0)
    };
    told.sort();
    assert_eq!(told, [(100, READY), (101, BLOCKED)]);
    scene.runs(0);
}

#[test]
fn a_mutex_lifts_the_chosen_one() {
    let mut scene = Scene::<2>::new();
    scene.dispatch(Some(0), 0, 0);
    let (a, mutex) = (scene.members[0], semaphore::MUTEX);
    let m = scene
        .w
        .ok(a, 0, current::SEMAPHORE_CREATE, &[0, mutex, AUTO])[0] as u32;
    scene.w.recall();
    let o = scene.w.thread(scene.client, 60);
    scene.w.rest();
    assert_eq!(scene.w.current(), Some(o));
    scene.w.go(o, m, semaphore::P, 0, &[]);
    assert_eq!((scene.w.current(), scene.w.effective(a)), (Some(a), 60));
    scene.w.go(a, m, semaphore::V, 0, &[]);
    assert_eq!(scene.w.current(), Some(o));
    scene.w.go(o, 0, current::PARK, 0, &[]);
    scene.runs(0);
}

#[test]
fn a_scheduler_may_have_one_itself() {
    let mut scene = Scene::<1>::new();
    scene.dispatch(Some(0), 0, 0);
    scene.w.recall();
    let above = scene.w.domain();
    let (rx, own) = scene.w.channel(above);
    let n = scene.w.thread(above, 80);
    let words = [
        scene.w.id(scene.s),
        thread_op::SET_SCHEDULER as u64,
        own as u64,
        300,
        0,
    ];
    let (init, slot) = (scene.w.init, scene.server.slot);
    scene.w.ok(init, slot, domain::THREAD_CONTROL, &words);
    scene.w.rest();
    dispatch(&mut scene.w, n, rx, 0, 0, 0);
    scene.runs(0);
    scene.w.go(scene.members[0], 0, current::PARK, 0, &[]);
    // Its scheduler would be ready to hear that, and that is told.
    assert_eq!(scene.w.pulse(n), (pulse::MEMBER, READY, 300));
    let id = scene.w.id(scene.s);
    dispatch(&mut scene.w, n, rx, id, 0, 0);
    assert_eq!(scene.news(), (100, BLOCKED));
    assert_eq!(scene.w.effective(scene.s), 79);
}

#[test]
fn the_chosen_one_runs_where_its_scheduler_does() {
    let mut scene = {
        let mut w = World::with_cores(2);
        let (server, client, rx, portal) = w.pair();
        let s = w.thread(server, TOP);
        w.answer_calls();
        w.on(0);
        let members = core::array::from_fn::<_, 2, _>(|i| {
            let m = w.thread(client, 20 + i as u8);
            w.answer_calls();
            join(&mut w, server, client, rx, m, 100 + i as u64, 0);
            m
        });
        w.answer_calls();
        Scene {
            w,
            s,
            server,
            client,
            rx,
            portal,
            members,
        }
    };
    // `init` stays on the first core, so the scheduler has the other one.
    let core = scene.w.k.threads[scene.s].core as usize;
    assert_eq!(core, 1);
    scene.w.on(1);
    for i in 0..2 {
        scene.dispatch(None, 0, 0);
        assert_eq!(scene.news(), (100 + i, READY));
    }
    scene.dispatch(Some(0), 0, 0);
    scene.runs(0);
    assert_eq!(scene.w.k.threads[scene.members[0]].core, 1);
    // The first core becomes idle: it takes nobody who is not chosen, and not the chosen one.
    scene.w.on(0);
    scene.w.rest();
    scene.w.answer_calls();
    assert_eq!(scene.w.current(), None);
    scene.w.on(1);
    scene.runs(0);
    // Told from there of something, the scheduler may come to run on the idle core. Whom it chooses then comes along, and the other one stands down.
    scene.w.on(0);
    scene.w.k.finish(scene.w.init, 0);
    scene.w.k.resume();
    let own = own_receive(&scene.w, scene.server, scene.rx);
    let word = scene.w.portal(own, scene.client, 5);
    let o = scene.w.thread(scene.client, 5);
    scene.w.rest();
    scene.w.answer_calls();
    scene.w.on(0);
    assert_eq!(scene.w.current(), Some(o));
    scene.w.go(o, word, cairn_abi::op::NOTIFY, 0, &[1]);
    scene.w.answer_calls();
    let core = scene.w.k.threads[scene.s].core as usize;
    scene.w.on(core);
    assert_eq!(scene.w.current(), Some(scene.s));
    scene.dispatch(Some(1), 0, 0);
    scene.runs(1);
    scene.w.answer_calls();
    let (a, b) = (scene.members[0], scene.members[1]);
    assert_eq!(
        (scene.w.state(a), scene.w.state(b)),
        (State::Aside, State::Running)
    );
    assert_eq!(scene.w.k.threads[b].core as usize, core);
}
