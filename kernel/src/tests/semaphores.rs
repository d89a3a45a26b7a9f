//! Semaphores and mutexes: order, waiting, giving up, inheritance through chains, death.

use super::*;
use cairn_abi::service::semaphore as sem;
use cairn_abi::PortalKind;

const ALL: u64 = rights::ALL as u64;

/// One semaphore in the tables of several domains.
struct Scene {
    w: World,
    doms: Vec<Dom>,
    slots: Vec<u32>,
}

impl World {
    /// A semaphore in each domain's table, and nowhere else.
    pub fn semaphore(&mut self, doms: &[Dom], count: u64, kind: u64) -> Vec<u32> {
        let init = self.init;
        let own = self.ok(init, 0, current::SEMAPHORE_CREATE, &[count, kind, AUTO])[0];
        let slots = doms
            .iter()
            .map(|dom| self.ok(init, dom.slot, domain::PORTAL_PUT, &[own, AUTO, ALL])[0] as u32)
            .collect();
        self.close_own(own as u32);
        slots
    }

    pub fn p(&mut self, t: ThreadRef, slot: u32) {
        self.go(t, slot, sem::P, 0, &[]);
    }

    pub fn v(&mut self, t: ThreadRef, slot: u32) {
        self.go(t, slot, sem::V, 0, &[]);
    }
}

fn scene(domains: usize, count: u64, kind: u64) -> Scene {
    let mut w = World::with_pools(20);
    let doms: Vec<_> = (0..domains).map(|_| w.domain()).collect();
    let slots = w.semaphore(&doms, count, kind);
    Scene { w, doms, slots }
}

#[test]
fn counts_and_serves_the_most_important_first() {
    let Scene {
        mut w, doms, slots, ..
    } = scene(2, 2, sem::PLAIN);
    let low = w.thread(doms[0], 20);
    let (a, b) = (w.thread(doms[1], 40), w.thread(doms[1], 40));
    let high = w.thread(doms[0], 60);
    w.rest();
    w.p(high, slots[0]);
    assert_eq!(w.result(high).map(|_| ()), Ok(()));
    w.p(high, slots[0]);
    let info = w.ok(high, slots[0], sem::INFO, &[]);
    assert_eq!(info[..3], [0, 0, 0]);
    w.go(high, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    for t in [a, b] {
        w.p(t, slots[1]);
        assert_eq!(w.state(t), State::Waiting);
    }
    w.pass_time(100);
    w.p(high, slots[0]);
    assert_eq!(w.current(), Some(low));
    for next in [high, a, b] {
        w.v(low, slots[0]);
        assert_eq!(w.current(), Some(next));
        assert_eq!(w.result(next).map(|_| ()), Ok(()));
        w.go(next, 0, current::PARK, 0, &[]);
    }
    w.v(low, slots[0]);
    let info = w.ok(low, slots[0], sem::INFO, &[]);
    assert_eq!(info[..3], [1, 0, 0]);
}

#[test]
fn a_wait_ends_by_deadline_poke_poll_and_the_end_of_the_last_portal() {
    let Scene {
        mut w, doms, slots, ..
    } = scene(1, 0, sem::PLAIN);
    let (a, b) = (w.thread(doms[0], 40), w.thread(doms[0], 30));
    w.rest();
    let s = slots[0];
    w.go(a, s, sem::P, flag::POLL, &[]);
    assert_eq!(w.result(a), Err(Error::TimedOut));
    let now = w.k.arch.time;
    w.ok(a, 0, current::DEADLINE, &[now + 50]);
    w.p(a, s);
    w.pass_time(50);
    assert_eq!(w.result(a), Err(Error::TimedOut));
    w.go(a, s, sem::P, flag::INTERRUPTIBLE, &[]);
    w.recall();
    let (init, id) = (w.init, w.id(a));
    let poke = [id, thread::POKE as u64];
    w.ok(init, doms[0].slot, domain::THREAD_CONTROL, &poke);
    w.rest();
    assert_eq!(w.result(a), Err(Error::Interrupted));
    w.p(a, s);
    w.ok(b, 0, current::PORTAL_CLOSE, &[s as u64]);
    assert_eq!(w.current(), Some(a));
    assert_eq!(w.result(a), Err(Error::Dead));
    assert_eq!(w.k.semaphores.live_objects(), 0);
}

#[test]
fn many_that_wait_go_in_shares_when_the_semaphore_ends() {
    let Scene {
        mut w, doms, slots, ..
    } = scene(1, 0, sem::PLAIN);
    let waiting: Vec<_> = (0..80).map(|i| w.thread(doms[0], 30 + i % 7)).collect();
    w.rest();
    for _ in 0..80 {
        let t = w.current().expect("one more");
        w.p(t, slots[0]);
    }
    w.recall();
    let init = w.init;
    let remove = [slots[0] as u64];
    w.ok(init, doms[0].slot, domain::PORTAL_REMOVE, &remove);
    assert_eq!(w.k.semaphores.live_objects(), 0);
    for t in waiting {
        assert_eq!(w.result(t), Err(Error::Dead));
    }
}

#[test]
fn rights_say_who_takes_and_who_gives() {
    let Scene {
        mut w, doms, slots, ..
    } = scene(1, 1, sem::PLAIN);
    let t = w.thread(doms[0], 40);
    w.rest();
    let copy = |w: &mut World, rights: u16| {
        let words = [slots[0] as u64, AUTO, rights as u64];
        w.ok(t, 0, current::PORTAL_COPY, &words)[0] as u32
    };
    let takes = copy(&mut w, rights::CALL);
    let gives = copy(&mut w, rights::NOTIFY);
    assert_eq!(w.err(t, gives, sem::P, &[]), Error::NoRight);
    assert_eq!(w.err(t, takes, sem::V, &[]), Error::NoRight);
    w.ok(t, takes, sem::P, &[]);
    w.ok(t, gives, sem::V, &[]);
    let words = [gives as u64];
    assert_eq!(w.err(t, gives, sem::V_THEN_P, &words), Error::NoRight);
    let info = w.ok(t, 0, current::PORTAL_INFO, &[takes as u64]);
    assert_eq!(info[0], PortalKind::Semaphore as u64);
    assert_eq!(info[2], 3);
    assert_eq!(w.err(t, takes, 9, &[]), Error::BadOperation);
}

#[test]
fn a_count_never_overflows() {
    let Scene {
        mut w, doms, slots, ..
    } = scene(1, i32::MAX as u64, sem::PLAIN);
    let t = w.thread(doms[0], 40);
    let init = w.init;
    let create = |count, kind, owner| [count, kind, AUTO, owner];
    for bad in [
        create(1 << 31, sem::PLAIN, 0),
        create(2, sem::MUTEX, 0),
        create(0, 2, 0),
        create(0, sem::PLAIN, 1),
        create(1, sem::MUTEX, 1),
        create(0, sem::MUTEX, 0xfff_fff),
    ] {
        assert_eq!(
            w.err(init, 0, current::SEMAPHORE_CREATE, &bad),
            Error::BadArgument
        );
    }
    w.rest();
    assert_eq!(w.err(t, slots[0], sem::V, &[]), Error::Busy);
    w.ok(t, slots[0], sem::P, &[]);
    w.ok(t, slots[0], sem::V, &[]);
}

#[test]
fn a_turn_goes_round_a_ring_of_domains() {
    let mut w = World::new();
    let doms: Vec<_> = (0..4).map(|_| w.domain()).collect();
    // Each waits for its own semaphore and gives the next one's.
    let slots: Vec<_> = (0..4).map(|_| w.semaphore(&doms, 0, sem::PLAIN)).collect();
    let threads: Vec<_> = doms.iter().map(|&d| w.thread(d, 40)).collect();
    w.rest();
    for i in 0..3 {
        w.p(threads[i], slots[i][i]);
    }
    let mut at = 3;
    for _ in 0..20 {
        let next = (at + 1) % 4;
        assert_eq!(w.current(), Some(threads[at]));
        let own = slots[at][at] as u64;
        w.go(threads[at], slots[next][at], sem::V_THEN_P, 0, &[own]);
        at = next;
    }
    assert_eq!(w.current(), Some(threads[at]));
    assert_eq!(w.result(threads[at]).map(|_| ()), Ok(()));
}

#[test]
fn a_mutex_is_its_owners_and_goes_to_the_next() {
    let Scene {
        mut w, doms, slots, ..
    } = scene(2, 1, sem::MUTEX);
    let (a, b) = (w.thread(doms[0], 40), w.thread(doms[1], 30));
    w.rest();
    assert_eq!(w.err(a, slots[0], sem::V, &[]), Error::Busy);
    w.ok(a, slots[0], sem::P, &[]);
    assert_eq!(w.err(a, slots[0], sem::P, &[]), Error::Cycle);
    let id = w.id(a);
    let info = w.ok(a, slots[0], sem::INFO, &[]);
    assert_eq!(info[..3], [0, 0, id]);
    w.go(a, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    assert_eq!(w.err(b, slots[1], sem::V, &[]), Error::Busy);
    w.p(b, slots[1]);
    w.pass_time(100);
    w.ok(a, slots[0], sem::V, &[]);
    assert_eq!(w.err(a, slots[0], sem::V, &[]), Error::Busy);
    w.go(a, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), Some(b));
    w.ok(b, slots[1], sem::V, &[]);
    let info = w.ok(b, slots[1], sem::INFO, &[]);
    assert_eq!(info[..3], [1, 0, 0]);
}

#[test]
fn who_waits_lifts_the_owner_through_chains_and_lowers_it_again() {
    let mut w = World::new();
    let dom = w.domain();
    let server = w.domain();
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, dom, 0);
    let m: Vec<_> = (0..3)
        .map(|_| w.semaphore(&[dom, server], 1, sem::MUTEX))
        .collect();
    let s = w.thread(server, 10);
    let t: Vec<_> = [20, 30, 40, 50].map(|p| w.thread(dom, p)).to_vec();
    w.rest();
    // t3 > t2 > t1 > t0 > s, by importance; each waits for the one behind it.
    let later = w.k.arch.time + 100;
    for i in [3, 2, 1, 0] {
        w.go(
            t[i],
            0,
            current::SLEEP,
            0,
            &[later * 4 + 100 * (3 - i) as u64],
        );
    }
    w.ok(s, m[2][1], sem::P, &[]);
    w.receive(s, rx);
    assert_eq!(w.current(), None);
    // t0 takes m0 and calls the server that owns m2; t1 takes m1 and waits for m0; t2 waits for m1.
    let wake = |w: &mut World, t| {
        w.k.detach(t);
        w.k.finish(t, 0);
        w.k.resume();
        w.check();
        assert_eq!(w.current(), Some(t));
    };
    wake(&mut w, t[1]);
    w.ok(t[1], m[1][0], sem::P, &[]);
    wake(&mut w, t[2]);
    w.p(t[2], m[1][0]);
    assert_eq!(w.effective(t[1]), 40);
    w.go(t[1], 0, current::PARK, 0, &[]);
    wake(&mut w, t[0]);
    w.ok(t[0], m[0][0], sem::P, &[]);
    w.call(t[0], tx, &[]);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.effective(s), 20);
    w.k.finish(t[1], 0);
    w.k.resume();
    w.p(t[1], m[0][0]);
    for x in [t[0], s] {
        assert_eq!(w.effective(x), 40);
    }
    // The server owns m2, and the most important thread waits for that.
    wake(&mut w, t[3]);
    w.p(t[3], m[2][0]);
    assert_eq!(w.effective(s), 50);
    assert_eq!(w.effective(t[0]), 40);
    // The server waiting for m0 would close the circle.
    assert_eq!(w.err(s, m[0][1], sem::P, &[]), Error::Cycle);
    w.v(s, m[2][1]);
    assert_eq!(w.current(), Some(t[3]));
    assert_eq!(w.effective(s), 40);
    w.go(t[3], 0, current::PARK, 0, &[]);
    w.reply_receive(s, rx, &[]);
    assert_eq!(w.effective(s), 10);
    assert_eq!(w.current(), Some(t[0]));
    w.v(t[0], m[0][0]);
    assert_eq!(w.effective(t[0]), 20);
    assert_eq!(w.current(), Some(t[1]));
    w.v(t[1], m[1][0]);
    assert_eq!(w.effective(t[1]), 30);
    assert_eq!(w.current(), Some(t[2]));
}

#[test]
fn an_owner_that_receives_stays_lifted() {
    let mut w = World::new();
    let (dom, server) = (w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, dom, 0);
    let m = w.semaphore(&[dom, server], 1, sem::MUTEX);
    let s = w.thread(server, 30);
    let low = w.thread(dom, 20);
    let high = w.thread(dom, 60);
    w.rest();
    w.go(high, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    w.ok(s, m[1], sem::P, &[]);
    w.receive(s, rx);
    w.pass_time(100);
    w.p(high, m[0]);
    assert_eq!(w.effective(s), 60);
    // A caller of little importance does not lower it.
    w.call(low, tx, &[]);
    assert_eq!(w.effective(s), 60);
    w.reply_receive(s, rx, &[]);
    assert_eq!(w.effective(s), 60);
    w.call(low, tx, &[]);
    w.v(s, m[1]);
    assert_eq!(w.effective(s), 20);
    assert_eq!(w.current(), Some(high));
}

#[test]
fn the_next_one_hears_that_the_owner_died() {
    let Scene {
        mut w, doms, slots, ..
    } = scene(2, 1, sem::MUTEX);
    let a = w.thread(doms[0], 40);
    let (b, c) = (w.thread(doms[1], 30), w.thread(doms[1], 20));
    w.rest();
    w.ok(a, slots[0], sem::P, &[]);
    w.go(a, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    w.p(b, slots[1]);
    w.p(c, slots[1]);
    w.recall();
    w.destroy(doms[0]);
    w.rest();
    assert_eq!(w.current(), Some(b));
    assert_eq!(w.result(b), Err(Error::OwnerDead));
    w.ok(b, slots[1], sem::V, &[]);
    w.go(b, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), Some(c));
    assert_eq!(w.result(c).map(|_| ()), Ok(()));
    // It goes with the mutex: whoever comes later is told as well.
    w.go(c, 0, current::EXIT, 0, &[]);
    w.recall();
    let d = w.thread(doms[1], 20);
    w.rest();
    assert_eq!(w.err(d, slots[1], sem::P, &[]), Error::OwnerDead);
    w.ok(d, slots[1], sem::V, &[]);
    w.ok(d, slots[1], sem::P, &[]);
}

#[test]
fn all_that_a_dead_thread_owned_is_passed_on() {
    let mut w = World::new();
    let (dom, other) = (w.domain(), w.domain());
    let m: Vec<_> = (0..20)
        .map(|_| w.semaphore(&[dom, other], 1, sem::MUTEX))
        .collect();
    let a = w.thread(dom, 40);
    let waiting: Vec<_> = (0..20).map(|i| w.thread(other, 10 + i)).collect();
    w.rest();
    for mutex in &m {
        w.ok(a, mutex[0], sem::P, &[]);
    }
    w.go(a, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    for (i, &t) in waiting.iter().enumerate().rev() {
        assert_eq!(w.current(), Some(t));
        w.p(t, m[i][1]);
    }
    assert_eq!(w.effective(a), 40);
    w.recall();
    w.destroy(dom);
    // One gives up before its turn comes.
    let (init, id) = (w.init, w.id(waiting[0]));
    let kill = [id, thread::KILL as u64];
    w.ok(init, other.slot, domain::THREAD_CONTROL, &kill);
    w.rest();
    w.pass_time(1);
    // The most important one first, and the others when that is done.
    for &t in waiting[1..].iter().rev() {
        assert_eq!(w.current(), Some(t));
        assert_eq!(w.result(t), Err(Error::OwnerDead));
        w.go(t, 0, current::PARK, 0, &[]);
        w.pass_time(0);
    }
    assert!(w.k.armed().is_empty());
}

#[test]
fn a_mutex_is_made_for_another_thread() {
    let mut w = World::new();
    let dom = w.domain();
    let (a, b) = (w.thread(dom, 20), w.thread(dom, 40));
    w.rest();
    let words = [0, sem::MUTEX, AUTO, w.id(a)];
    let slot = w.ok(b, 0, current::SEMAPHORE_CREATE, &words)[0] as u32;
    w.p(b, slot);
    assert_eq!(w.current(), Some(a));
    assert_eq!(w.effective(a), 40);
    w.v(a, slot);
    assert_eq!(w.current(), Some(b));
    assert_eq!(w.effective(a), 20);
}
