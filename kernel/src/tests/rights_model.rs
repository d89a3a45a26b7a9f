//! Rights: single use, not further, derivation and revocation; a random game of them against a plain model.

use super::*;
use cairn_abi::pulse;
use proptest::prelude::*;

struct Scene {
    w: World,
    server: Dom,
    clients: Vec<Dom>,
    rx: u32,
    own: u32,
    s: ThreadRef,
    t: Vec<ThreadRef>,
    /// Each client's portal; all are one object.
    tx: Vec<u32>,
}

/// A server and clients that hold one portal to it.
fn scene(clients: usize) -> Scene {
    let mut w = World::new();
    let server = w.domain();
    let (rx, own) = w.channel(server);
    let clients: Vec<_> = (0..clients).map(|_| w.domain()).collect();
    let init = w.init;
    let all = rights::ALL as u64;
    let made = w.ok(init, own, receive::MAKE_PORTAL, &[7, 15, AUTO])[0];
    let tx = clients
        .iter()
        .map(|dom| w.ok(init, dom.slot, domain::PORTAL_PUT, &[made, AUTO, all])[0] as u32)
        .collect();
    w.close_own(made as u32);
    let s = w.thread(server, 60);
    let t = clients.iter().map(|&dom| w.thread(dom, 50)).collect();
    Scene {
        w,
        server,
        clients,
        rx,
        own,
        s,
        t,
        tx,
    }
}

impl World {
    fn derive(&mut self, t: ThreadRef, slot: u32) -> u32 {
        let words = [slot as u64, AUTO, rights::ALL as u64];
        self.ok(t, 0, current::PORTAL_DERIVE, &words)[0] as u32
    }

    fn revoke(&mut self, t: ThreadRef, slot: u32) {
        self.ok(t, 0, current::PORTAL_REVOKE, &[slot as u64]);
    }

    /// A call of `t` that the waiting server answers at once.
    fn ask(&mut self, t: ThreadRef, slot: u32, s: ThreadRef, rx: u32) -> Result<(), Error> {
        self.call(t, slot, &[]);
        if self.current() == Some(s) {
            self.reply_receive(s, rx, &[]);
        }
        assert_eq!(self.current(), Some(t));
        self.result(t).map(|_| ())
    }
}

#[test]
fn revoking_takes_what_was_derived_copies_and_what_came_of_them() {
    let Scene {
        mut w,
        clients,
        rx,
        s,
        t,
        tx,
        ..
    } = scene(2);
    let (a, b) = (t[0], t[1]);
    w.rest();
    w.receive(s, rx);
    let first = w.derive(a, tx[0]);
    let second = w.derive(a, first);
    let copy = w.ok(a, 0, current::PORTAL_COPY, &[second as u64, AUTO, 31])[0] as u32;
    assert_eq!(w.ask(a, copy, s, rx), Ok(()));
    // The other client gets a copy, and derives from it in turn.
    w.recall();
    let words = [clients[0].slot as u64, 0];
    let init = w.init;
    w.ok(init, clients[1].slot, domain::TABLE_COPY, &words);
    w.rest();
    w.go(a, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    let third = w.derive(b, copy);
    assert_eq!(w.ask(b, third, s, rx), Ok(()));
    w.pass_time(100);
    w.go(b, 0, current::YIELD, 0, &[]);
    assert_eq!(w.current(), Some(a));
    w.revoke(a, first);
    assert_eq!(w.ask(a, first, s, rx), Ok(()), "what is derived from stays");
    for slot in [second, copy] {
        assert_eq!(w.ask(a, slot, s, rx), Err(Error::Revoked));
        w.go(a, slot, 1, 0, &[1]);
        assert_eq!(w.result(a), Err(Error::Revoked));
        let derive = [slot as u64, AUTO, 31];
        assert_eq!(w.err(a, 0, current::PORTAL_DERIVE, &derive), Error::Revoked);
    }
    w.go(a, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), Some(b));
    for slot in [second, copy, third] {
        assert_eq!(w.ask(b, slot, s, rx), Err(Error::Revoked));
    }
    assert_eq!(w.ask(b, tx[1], s, rx), Ok(()));
    // Closing them tells the server nothing: the portal that it made is still held.
    for slot in [second, copy, third] {
        w.ok(b, 0, current::PORTAL_CLOSE, &[slot as u64]);
    }
    assert_eq!(w.current(), Some(b));
}

#[test]
fn revoking_ends_calls_that_wait_to_be_received() {
    let Scene {
        mut w,
        clients,
        rx,
        s,
        t,
        tx,
        ..
    } = scene(1);
    let a = t[0];
    let callers: Vec<_> = (0..6).map(|_| w.thread(clients[0], 45)).collect();
    w.rest();
    w.receive(s, rx);
    let kept = w.derive(a, tx[0]);
    let first = w.derive(a, kept);
    let second = w.derive(a, first);
    let copy = w.ok(a, 0, current::PORTAL_COPY, &[second as u64, AUTO, 31])[0] as u32;
    let once = (rights::ONCE | rights::DEFAULT) as u64;
    let single = w.ok(a, 0, current::PORTAL_COPY, &[second as u64, AUTO, once])[0] as u32;
    let now = w.k.arch.time;
    w.go(a, 0, current::SLEEP, 0, &[now + 100]);
    // One call is received; the others wait.
    for (i, through) in [second, first, copy, single, kept, tx[0]]
        .into_iter()
        .enumerate()
    {
        assert_eq!(w.current(), Some(callers[i]));
        w.call(callers[i], through, &[i as u64]);
        if i == 0 {
            w.go(s, 0, current::SLEEP, 0, &[now + 1000]);
        }
    }
    w.pass_time(100);
    // That an entry is closed ends no call through it.
    w.ok(a, 0, current::PORTAL_CLOSE, &[copy as u64]);
    assert!(callers[1..].iter().all(|&t| w.state(t) == State::Sending));
    w.revoke(a, kept);
    let revoked = callers[1..4].iter().map(|&t| (w.state(t), w.result(t)));
    assert!(revoked.eq([(State::Ready, Err(Error::Revoked)); 3]));
    assert!(callers[4..].iter().all(|&t| w.state(t) == State::Sending));
    assert_eq!(
        w.state(callers[0]),
        State::Held,
        "what was received goes on"
    );
    w.go(a, 0, current::PARK, 0, &[]);
    while let Some(t) = w.current() {
        w.go(t, 0, current::PARK, 0, &[]);
    }
    w.pass_time(900);
    for i in [4, 5] {
        w.reply_receive(s, rx, &[]);
        assert_eq!(w.k.threads[s].registers.rdi, i);
    }
    assert_eq!(w.result(callers[0]).map(|_| ()), Ok(()));
    w.reply_receive(s, rx, &[]);
    assert_eq!(w.state(s), State::Receiving);
}

#[test]
fn many_calls_end_in_shares_and_none_is_received_meanwhile() {
    let Scene {
        mut w,
        clients,
        rx,
        own,
        s,
        t,
        ..
    } = scene(1);
    let (init, a, all) = (w.init, t[0], rights::ALL as u64);
    let callers: Vec<_> = (0..20).map(|_| w.thread(clients[0], 45)).collect();
    // One whose end the server hears of.
    let class = w.ok(init, own, receive::MAKE_PORTAL, &[100, 15, AUTO])[0];
    let words = [101, 15, AUTO, class];
    let made = w.ok(init, own, receive::MAKE_PORTAL, &words)[0];
    let put = |w: &mut World, slot| {
        w.ok(
            init,
            clients[0].slot,
            domain::PORTAL_PUT,
            &[slot, AUTO, all],
        )[0] as u32
    };
    let (class, lent) = (put(&mut w, class), put(&mut w, made));
    w.close_own(made as u32);
    w.rest();
    let now = w.k.arch.time;
    w.go(s, 0, current::SLEEP, 0, &[now + 1000]);
    w.go(a, 0, current::SLEEP, 0, &[now + 100]);
    for &caller in &callers {
        w.call(caller, lent, &[1]);
    }
    w.k.arch.time += 100;
    w.k.arch.timer = None;
    w.k.timer();
    // The callers are all that keeps it.
    w.ok(a, 0, current::PORTAL_CLOSE, &[lent as u64]);
    let registers = &mut w.k.threads[a].registers;
    registers.set_words([class as u64, 0, 0, 0, 0, 0, 0, 0]);
    registers.rax = (current::PORTAL_REVOKE as u64) << 32;
    registers.rip = SYSCALL + 2;
    w.k.syscall();
    w.check();
    let waiting = |w: &World| {
        let still = callers.iter().filter(|&&t| w.state(t) == State::Sending);
        still.count()
    };
    // A share is done, and the server comes in between.
    assert!((1..20).contains(&waiting(&w)));
    assert_eq!(w.k.threads[a].registers.rip, SYSCALL);
    w.k.arch.time += 900;
    w.k.arch.timer = None;
    w.k.timer();
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.poll(s, rx), Some((pulse::CLOSED, 0, 101)));
    assert_eq!(w.poll(s, rx), None);
    assert_eq!(waiting(&w), 0);
    w.receive(s, rx);
    assert_eq!(w.current(), Some(a));
    assert_eq!(w.result(a).map(|_| ()), Ok(()));
    for &caller in &callers {
        assert_eq!(w.result(caller), Err(Error::Revoked));
    }
    assert_eq!(w.k.portals.live_objects(), 2);
}

#[test]
fn the_server_hears_of_the_end_after_the_last_call() {
    let Scene {
        mut w,
        clients,
        rx,
        s,
        t,
        tx,
        ..
    } = scene(1);
    let (a, closes) = (t[0], w.thread(clients[0], 45));
    w.rest();
    for given_up in [false, true] {
        let now = w.k.arch.time;
        w.go(s, 0, current::SLEEP, 0, &[now + 100]);
        if given_up {
            w.ok(a, 0, current::DEADLINE, &[now + 50]);
        }
        let derived = w.derive(a, tx[0]);
        w.call(a, derived, &[5]);
        w.ok(closes, 0, current::PORTAL_CLOSE, &[derived as u64]);
        if given_up {
            w.ok(closes, 0, current::PORTAL_CLOSE, &[tx[0] as u64]);
        }
        assert_eq!(w.k.portals.live_objects(), 2);
        w.pass_time(100);
        assert_eq!(w.current(), Some(s));
        if given_up {
            assert_eq!(w.result(a), Err(Error::TimedOut));
        } else {
            w.receive(s, rx);
            assert_eq!(w.k.threads[s].registers.rdi, 5);
            w.reply(s, rx, &[]);
            assert_eq!(w.k.portals.live_objects(), 1);
        }
    }
    assert_eq!(w.poll(s, rx), Some((pulse::CLOSED, 0, 7)));
    assert_eq!(w.k.portals.live_objects(), 0);
}

#[test]
fn the_server_hears_of_the_end_when_nothing_is_derived_any_more() {
    let Scene {
        mut w,
        rx,
        s,
        t,
        tx,
        ..
    } = scene(1);
    w.rest();
    w.receive(s, rx);
    let derived = w.derive(t[0], tx[0]);
    w.ok(t[0], 0, current::PORTAL_CLOSE, &[tx[0] as u64]);
    assert_eq!(w.ask(t[0], derived, s, rx), Ok(()));
    w.ok(t[0], derived, 1, &[3]).to_vec();
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.pulse(s), (pulse::NOTIFY, 3, 7));
    w.receive(s, rx);
    w.go(t[0], 0, current::PORTAL_CLOSE, 0, &[derived as u64]);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.pulse(s), (pulse::CLOSED, 0, 7));
    assert_eq!(w.k.portals.live_objects(), 0);
}

#[test]
fn a_server_hears_which_of_its_portals_are_held() {
    let Scene { mut w, rx, s, .. } = scene(1);
    w.rest();
    let other = w.ok(s, 0, current::CHANNEL_CREATE, &[])[0] as u32;
    w.ok(s, other, receive::MAKE_PORTAL, &[99, 15, AUTO]);
    let made: Vec<_> = (100..140)
        .map(|badge| w.ok(s, rx, receive::MAKE_PORTAL, &[badge, 15, AUTO])[0])
        .collect();
    // Of the second only what was derived from it is left, of the third nothing.
    w.ok(s, 0, current::PORTAL_DERIVE, &[made[1], AUTO, 31]);
    for slot in &made[1..3] {
        w.ok(s, 0, current::PORTAL_CLOSE, &[*slot]);
    }
    let held = |w: &mut World| {
        let (mut badges, mut place) = (Vec::new(), 0);
        loop {
            let words = w.ok(s, rx, receive::NEXT_BADGE, &[place]);
            if words[0] == 0 {
                break badges;
            }
            badges.push(words[1]);
            place = words[0];
        }
    };
    let mut badges = held(&mut w);
    badges.sort_unstable();
    badges.dedup();
    // (7 is the scene's.)
    let expected: Vec<_> = [7, 100, 101].into_iter().chain(103..140).collect();
    assert_eq!(badges, expected);
    for place in [u64::from(u32::MAX), 1 << 20] {
        assert_eq!(w.ok(s, rx, receive::NEXT_BADGE, &[place])[0], 0);
    }
    let beyond = [u64::from(u32::MAX) + 1];
    assert_eq!(
        w.err(s, rx, receive::NEXT_BADGE, &beyond),
        Error::BadArgument
    );
}

#[test]
fn a_server_takes_back_a_class_of_portals() {
    let Scene {
        mut w, rx, s, t, ..
    } = scene(1);
    w.rest();
    let class = w.ok(s, rx, receive::MAKE_PORTAL, &[100, 15, AUTO])[0];
    let words = [1, 15, AUTO, rx as u64];
    assert_eq!(w.err(s, rx, receive::MAKE_PORTAL, &words), Error::BadPortal);
    let words = [1, 15, class, class];
    assert_eq!(
        w.err(s, rx, receive::MAKE_PORTAL, &words),
        Error::BadArgument
    );
    let words = [1, 15, rx as u64];
    assert_eq!(
        w.err(s, rx, receive::MAKE_PORTAL, &words),
        Error::BadArgument
    );
    let made: Vec<_> = (0..40)
        .map(|i| w.ok(s, rx, receive::MAKE_PORTAL, &[i, 15, AUTO, class])[0])
        .collect();
    w.revoke(s, class as u32);
    for &slot in &made {
        w.go(s, slot as u32, 1, 0, &[1]);
        assert_eq!(w.result(s), Err(Error::Revoked));
    }
    // Each had a badge of its own, and the server hears of the end of each, once.
    let mut badges = Vec::new();
    while let Some((code, _, badge)) = w.poll(s, rx) {
        assert_eq!(code, pulse::CLOSED);
        badges.push(badge);
    }
    badges.sort();
    assert_eq!(badges, (0..40).collect::<Vec<_>>());
    for &slot in &made {
        w.ok(s, 0, current::PORTAL_CLOSE, &[slot]);
    }
    assert_eq!(w.poll(s, rx), None);
    w.go(s, class as u32, 1, 0, &[1]);
    assert!(w.result(s).is_ok());
    let _ = t;
}

#[test]
fn a_single_use_is_one_whoever_it_is_passed_to() {
    let Scene {
        mut w,
        clients,
        rx,
        s,
        t,
        tx,
        ..
    } = scene(2);
    let (a, b) = (t[0], t[1]);
    let other = w.thread(clients[0], 40);
    let (init, all) = (w.init, rights::ALL as u64);
    w.rest();
    w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    let once = (rights::ONCE | rights::DEFAULT) as u64;
    let single = w.ok(a, 0, current::PORTAL_COPY, &[tx[0] as u64, AUTO, once])[0];
    // Copied and put elsewhere it moves; inherited it is not; derived from neither.
    let moved = w.ok(a, 0, current::PORTAL_COPY, &[single, AUTO, all])[0];
    assert_eq!(
        w.err(a, 0, current::PORTAL_INFO, &[single]),
        Error::BadPortal
    );
    let info = w.ok(a, 0, current::PORTAL_INFO, &[moved]);
    assert_eq!(info[1], once);
    let derive = [moved, AUTO, all];
    assert_eq!(w.err(a, 0, current::PORTAL_DERIVE, &derive), Error::NoRight);
    w.recall();
    w.ok(
        init,
        clients[1].slot,
        domain::TABLE_COPY,
        &[clients[0].slot as u64, 0],
    );
    let there = w.k.domains[clients[1].d].table.target(moved);
    assert!(there.is_none_or(|t| !t.may(rights::ONCE)));
    w.rest();
    // The server does not receive: the call waits, and the entry is gone.
    w.call(a, moved as u32, &[5]);
    assert_eq!(w.state(a), State::Sending);
    w.go(b, 0, current::PARK, 0, &[]);
    w.call(other, moved as u32, &[6]);
    assert_eq!(w.result(other), Err(Error::BadPortal));
    w.pass_time(100);
    w.receive(s, rx);
    assert_eq!(w.k.threads[s].registers.rdi, 5);
    w.reply(s, rx, &[]);
    assert_eq!(w.poll(s, rx), None, "others hold it");
    w.receive(s, rx);
    // A notification is a use as well.
    assert_eq!(w.current(), Some(a));
    let single = w.ok(a, 0, current::PORTAL_COPY, &[tx[0] as u64, AUTO, once])[0];
    w.go(a, single as u32, 1, 0, &[9]);
    assert_eq!(w.pulse(s), (pulse::NOTIFY, 9, 7));
    w.receive(s, rx);
    assert_eq!(w.err(a, single as u32, 1, &[9]), Error::BadPortal);
}

#[test]
fn the_end_of_a_single_use_is_told_after_the_call() {
    let Scene {
        mut w,
        clients,
        rx,
        own,
        s,
        t,
        ..
    } = scene(1);
    let init = w.init;
    let once = (rights::ONCE | rights::CALL) as u64;
    let all = rights::ALL as u64;
    for queued in [true, false] {
        let made = w.ok(init, own, receive::MAKE_PORTAL, &[33, once | 4, AUTO])[0];
        let to = w.ok(
            init,
            clients[0].slot,
            domain::PORTAL_PUT,
            &[made, AUTO, all],
        )[0];
        assert_eq!(
            w.err(init, 0, current::PORTAL_INFO, &[made]),
            Error::BadPortal
        );
        w.rest();
        if queued {
            w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
            w.call(t[0], to as u32, &[1]);
            w.pass_time(100);
            w.receive(s, rx);
        } else {
            w.receive(s, rx);
            w.call(t[0], to as u32, &[1]);
        }
        assert_eq!(w.k.threads[s].registers.rdi, 1);
        assert_eq!(w.k.threads[s].registers.rbx, 33);
        let token = w.token(s);
        assert_eq!(w.poll(s, rx), Some((pulse::CLOSED, 0, 33)));
        w.k.threads[s].registers.rbp = token;
        w.reply(s, rx, &[]);
        w.recall();
    }
    // A call that gives up was a use all the same.
    let made = w.ok(init, own, receive::MAKE_PORTAL, &[34, once | 4, AUTO])[0];
    let to = w.ok(
        init,
        clients[0].slot,
        domain::PORTAL_PUT,
        &[made, AUTO, all],
    )[0];
    w.rest();
    w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    let now = w.k.arch.time;
    w.ok(t[0], 0, current::DEADLINE, &[now + 10]);
    w.call(t[0], to as u32, &[1]);
    w.pass_time(10);
    assert_eq!(w.result(t[0]), Err(Error::TimedOut));
    assert_eq!(w.err(t[0], to as u32, 0, &[]), Error::BadPortal);
    w.pass_time(90);
    assert_eq!(w.poll(s, rx), Some((pulse::CLOSED, 0, 34)));
}

#[test]
fn what_a_domain_can_call_is_taken_by_who_controls_it() {
    let mut scene = scene(2);
    let init = scene.w.init;
    let w = &mut scene.w;
    let (there, slot) = (scene.clients[0].slot, scene.tx[0] as u64);
    let all = rights::ALL as u64;
    let take = |slot: u64, mask: u64| [slot, AUTO, mask];
    let info = |w: &mut World, slot: u64| w.ok(init, 0, current::PORTAL_INFO, &[slot]);
    // It is a copy, with what the mask leaves of its rights, and stays when the other goes.
    let taken = w.ok(init, there, domain::PORTAL_TAKE, &take(slot, all))[0];
    let bare = w.ok(
        init,
        there,
        domain::PORTAL_TAKE,
        &take(slot, rights::CALL as u64),
    )[0];
    let (first, second) = (info(w, taken), info(w, bare));
    assert_eq!(first[1], rights::DEFAULT as u64);
    assert_eq!(second[1], rights::CALL as u64);
    assert_eq!(first[3], second[3]);
    w.ok(init, there, domain::PORTAL_REMOVE, &[slot]);
    assert_eq!(info(w, taken)[3], first[3]);
    w.close_own(bare as u32);
    // What is not there, what may not be passed on, and what is no portal to call.
    for nothing in [slot, 1 << 40, u64::MAX] {
        let words = take(nothing, all);
        assert_eq!(
            w.err(init, there, domain::PORTAL_TAKE, &words),
            Error::BadPortal
        );
    }
    let kept = (rights::DEFAULT & !rights::PASS) as u64;
    let put = w.ok(init, there, domain::PORTAL_PUT, &[taken, AUTO, kept])[0];
    let once = (rights::ONCE | rights::CALL | rights::PASS) as u64;
    let made = w.ok(init, scene.own, receive::MAKE_PORTAL, &[33, once, AUTO])[0];
    let once = w.ok(init, there, domain::PORTAL_PUT, &[made, AUTO, all])[0];
    let right = w.ok(
        init,
        there,
        domain::PORTAL_PUT,
        &[scene.own as u64, AUTO, all],
    )[0];
    for refused in [put, once, right] {
        let words = take(refused, all);
        assert_eq!(
            w.err(init, there, domain::PORTAL_TAKE, &words),
            Error::NoRight
        );
    }
    // Nobody without control takes anything.
    let words = [there as u64, AUTO, kept];
    let weak = w.ok(init, 0, current::PORTAL_COPY, &words)[0] as u32;
    let words = take(scene.tx[1] as u64, all);
    assert_eq!(
        w.err(init, weak, domain::PORTAL_TAKE, &words),
        Error::NoRight
    );
}

#[test]
fn flags_of_a_message_take_rights_away() {
    let Scene {
        mut w,
        rx,
        s,
        t,
        tx,
        ..
    } = scene(1);
    w.rest();
    w.receive(s, rx);
    let a = t[0];
    let rights_of = |w: &mut World| {
        let slot = w.k.threads[s].registers.r13;
        (slot, w.ok(s, 0, current::PORTAL_INFO, &[slot])[1] as u16)
    };
    let words = [0, 0, 0, 0, 0, 0, 0, tx[0] as u64];
    w.go(a, tx[0], 0, flag::portals(1) | flag::NOT_FURTHER, &words);
    let (slot, got) = rights_of(&mut w);
    assert_eq!(got, rights::DEFAULT & !rights::PASS);
    // And so it cannot come back.
    let back = [0, 0, 0, 0, 0, 0, 0, slot];
    w.go(s, rx, receive::REPLY, flag::portals(1), &back);
    assert_eq!(w.result(s), Err(Error::NoRight));
    w.reply_receive(s, rx, &[]);
    w.go(a, tx[0], 0, flag::portals(1) | flag::PASS_ONCE, &words);
    let (slot, got) = rights_of(&mut w);
    assert_eq!(got, rights::DEFAULT | rights::ONCE);
    // A single use that is passed leaves whoever passes it.
    let back = [0, 0, 0, 0, 0, 0, 0, slot];
    w.go(s, rx, receive::REPLY_RECEIVE, flag::portals(1), &back);
    assert_eq!(w.current(), Some(a));
    let came = w.k.threads[a].registers.r13;
    assert!(w.k.domains[w.k.threads[s].domain]
        .table
        .target(slot)
        .is_none());
    // It cannot be passed in the call that is its use.
    let words = [0, 0, 0, 0, 0, 0, 0, came];
    w.go(a, came as u32, 0, flag::portals(1), &words);
    assert_eq!(w.result(a), Err(Error::BadPortal));
    w.go(a, came as u32, 0, 0, &[]);
    assert_eq!(w.current(), Some(s));
    assert!(w.k.domains[w.k.threads[a].domain]
        .table
        .target(came)
        .is_none());
}

#[test]
fn other_portals_are_derived_and_revoked_as_well() {
    use cairn_abi::service::semaphore as sem;
    let mut w = World::new();
    let dom = w.domain();
    let (a, b) = (w.thread(dom, 40), w.thread(dom, 30));
    w.rest();
    let own = w.ok(a, 0, current::SEMAPHORE_CREATE, &[1, sem::PLAIN, AUTO])[0] as u32;
    let none = w.err(a, 0, current::PORTAL_REVOKE, &[own as u64]);
    assert_eq!(
        none,
        Error::BadArgument,
        "nothing was derived by an object of its"
    );
    let kept = w.derive(a, own);
    let given = w.derive(a, kept);
    let info = w.ok(a, 0, current::PORTAL_INFO, &[given as u64]);
    assert_eq!(info[0], cairn_abi::PortalKind::Semaphore as u64);
    w.ok(a, given, sem::P, &[]);
    // The first portal is closed; the others keep the semaphore.
    w.ok(a, 0, current::PORTAL_CLOSE, &[own as u64]);
    w.go(a, given, sem::P, 0, &[]);
    w.ok(b, kept, sem::V, &[]);
    assert_eq!(w.current(), Some(a));
    w.revoke(a, kept);
    assert_eq!(w.err(a, given, sem::V, &[]), Error::Revoked);
    assert_eq!(
        w.err(a, kept, sem::V_THEN_P, &[given as u64]),
        Error::Revoked
    );
    // Who waits through a portal that is the last one, and is revoked, waits no longer.
    let given = w.derive(a, kept);
    w.go(a, given, sem::P, 0, &[]);
    w.ok(b, kept, sem::INFO, &[]);
    w.ok(b, 0, current::PORTAL_CLOSE, &[kept as u64]);
    assert_eq!(w.state(a), State::Waiting);
    w.ok(b, 0, current::PORTAL_CLOSE, &[given as u64]);
    assert_eq!(w.current(), Some(a));
    assert_eq!(w.result(a), Err(Error::Dead));
    assert_eq!(w.k.semaphores.live_objects(), 0);
}

#[test]
fn a_delegate_opens_in_the_exporters_place() {
    let mut w = World::new();
    let (server, guard, client) = (w.domain(), w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let init = w.init;
    let all = (rights::ALL | rights::OPEN) as u64;
    // Only a badge with room for numbers can be delegated.
    let odd = [7 << 32 | 1, (rights::DEFAULT | rights::OPEN) as u64, AUTO];
    assert_eq!(
        w.err(init, own, receive::MAKE_PORTAL, &odd),
        Error::BadArgument
    );
    let words = [7 << 32, (rights::DEFAULT | rights::OPEN) as u64, AUTO];
    let kept = w.ok(init, own, receive::MAKE_PORTAL, &words)[0];
    let words = [kept, AUTO, all];
    let lent = w.ok(init, 0, current::PORTAL_DERIVE, &words)[0];
    let put = |w: &mut World, slot: u64, to: Dom| {
        w.ok(init, to.slot, domain::PORTAL_PUT, &[slot, AUTO, all])[0] as u32
    };
    let right = put(&mut w, lent, guard);
    // Without the right, which nobody gets who is not given it, nothing can be opened.
    let plain = [kept, AUTO, rights::ALL as u64];
    let plain = w.ok(init, 0, current::PORTAL_DERIVE, &plain)[0];
    let open = |w: &mut World, t: ThreadRef, slot: u32, number: u64| {
        let words = [slot as u64, AUTO, all, number];
        w.go(t, 0, current::PORTAL_OPEN, 0, &words);
        w.result(t)
    };
    assert_eq!(open(&mut w, init, plain as u32, 1), Err(Error::NoRight));
    assert_eq!(open(&mut w, init, own, 1), Err(Error::NoRight));
    let (s, g, c) = (
        w.thread(server, 60),
        w.thread(guard, 50),
        w.thread(client, 50),
    );
    w.rest();
    w.receive(s, rx);
    for number in [0, 1 << 32, u64::MAX] {
        assert_eq!(open(&mut w, g, right, number), Err(Error::BadArgument));
    }
    let first = open(&mut w, g, right, 5).expect("opened")[0] as u32;
    let second = open(&mut w, g, right, u32::MAX as u64).expect("opened")[0] as u32;
    // What was opened opens nothing.
    assert_eq!(open(&mut w, g, first, 1), Err(Error::NoRight));
    for (slot, badge) in [(first, 7 << 32 | 5), (second, 7 << 32 | 0xffff_ffff)] {
        w.ok(g, slot, 1, &[3]);
        assert_eq!(w.current(), Some(s));
        assert_eq!(w.pulse(s), (pulse::NOTIFY, 3, badge));
        w.receive(s, rx);
    }
    // The guard passes one on, then its own goes; the server hears of each by its own badge.
    w.recall();
    let d = w.k.threads[g].domain;
    let target = w.k.domains[d].table.target(first as u64).expect("there");
    w.k.place(w.k.threads[c].domain, 100, target);
    w.rest();
    w.go(g, 0, current::PORTAL_CLOSE, 0, &[first as u64]);
    assert_eq!(w.current(), Some(g), "the client has it");
    w.go(g, 0, current::PORTAL_CLOSE, 0, &[second as u64]);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.pulse(s), (pulse::CLOSED, 0, 7 << 32 | 0xffff_ffff));
    w.receive(s, rx);
    // The exporter takes back what the delegate has, and all that it opened.
    w.recall();
    w.revoke(init, kept as u32);
    w.rest();
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.pulse(s), (pulse::CLOSED, 0, 7 << 32 | 5));
    w.receive(s, rx);
    assert_eq!(w.err(g, right, 0, &[]), Error::Revoked);
    assert_eq!(open(&mut w, g, right, 6), Err(Error::Revoked));
    w.go(g, 0, current::PARK, 0, &[]);
    assert_eq!(w.err(c, 100, 0, &[]), Error::Revoked);
}

#[test]
fn a_line_of_descent_ends_somewhere() {
    let Scene { mut w, t, tx, .. } = scene(1);
    w.rest();
    let a = w.current().expect("a server");
    w.go(a, 0, current::PARK, 0, &[]);
    let mut slot = tx[0];
    for _ in 0..crate::revoke::DEPTH {
        let next = w.derive(t[0], slot);
        if slot != tx[0] {
            w.ok(t[0], 0, current::PORTAL_CLOSE, &[slot as u64]);
        }
        slot = next;
    }
    let words = [slot as u64, AUTO, 31];
    assert_eq!(w.err(t[0], 0, current::PORTAL_DERIVE, &words), Error::Busy);
    // Of those in between, which nobody holds, nothing is left.
    assert_eq!(w.k.portals.live_objects(), 2);
    w.ok(t[0], 0, current::PORTAL_CLOSE, &[slot as u64]);
    assert_eq!(w.k.portals.live_objects(), 1);
}

#[test]
fn what_one_derived_portal_would_keep_gives_it_to_its_own_parent() {
    let Scene { mut w, t, tx, .. } = scene(1);
    w.rest();
    let a = w.current().expect("a server");
    w.go(a, 0, current::PARK, 0, &[]);
    let t = t[0];
    let close = |w: &mut World, slot: u32| {
        w.ok(t, 0, current::PORTAL_CLOSE, &[slot as u64]);
    };
    let (from, beside) = (w.derive(t, tx[0]), w.derive(t, tx[0]));
    let made = [(); 3].map(|()| w.derive(t, from));
    let below = w.derive(t, made[1]);
    close(&mut w, from);
    assert_eq!(w.k.portals.live_objects(), 7, "it keeps three together");
    close(&mut w, made[0]);
    assert_eq!(w.k.portals.live_objects(), 6);
    close(&mut w, made[1]);
    assert_eq!(w.k.portals.live_objects(), 5, "what came from it is there");
    close(&mut w, made[2]);
    assert_eq!(w.k.portals.live_objects(), 3, "one needs nobody else");
    let last = w.derive(t, below);
    w.revoke(t, tx[0]);
    for slot in [beside, below, last] {
        assert_eq!(w.err(t, slot, 0, &[]), Error::Revoked);
        close(&mut w, slot);
    }
    assert_eq!(w.k.portals.live_objects(), 1);
}

#[test]
fn calls_that_are_all_that_keeps_a_portal_are_taken_back() {
    let Scene {
        mut w,
        clients,
        s,
        t,
        tx,
        ..
    } = scene(1);
    let a = t[0];
    let callers: Vec<_> = (0..9).map(|_| w.thread(clients[0], 45)).collect();
    w.rest();
    let now = w.k.arch.time;
    w.go(s, 0, current::SLEEP, 0, &[now + 1000]);
    let mut last = w.derive(a, tx[0]);
    for _ in 1..crate::revoke::DEPTH {
        let next = w.derive(a, last);
        w.ok(a, 0, current::PORTAL_CLOSE, &[last as u64]);
        last = next;
    }
    w.go(a, 0, current::SLEEP, 0, &[now + 100]);
    for &caller in &callers {
        w.call(caller, last, &[]);
    }
    w.pass_time(100);
    w.ok(a, 0, current::PORTAL_CLOSE, &[last as u64]);
    assert_eq!(w.k.portals.live_objects(), 2);
    w.revoke(a, tx[0]);
    assert_eq!(w.k.portals.live_objects(), 1);
    let ended = callers.iter().map(|&t| w.result(t));
    assert!(ended.eq([Err(Error::Revoked); 9]));
}

#[test]
fn who_waits_at_a_semaphore_by_what_is_revoked_waits_no_longer() {
    use cairn_abi::service::semaphore as sem;
    for kind in [sem::PLAIN, sem::MUTEX] {
        let mut w = World::with_pools(20);
        let dom = w.domain();
        let a = w.thread(dom, 30);
        let waiting: Vec<_> = (0..23).map(|_| w.thread(dom, 25)).collect();
        w.rest();
        let own = w.ok(a, 0, current::SEMAPHORE_CREATE, &[0, kind, AUTO])[0] as u32;
        let turn = w.ok(a, 0, current::SEMAPHORE_CREATE, &[0, sem::PLAIN, AUTO])[0] as u32;
        let from = w.derive(a, own);
        let (one, other) = (w.derive(a, from), w.derive(a, own));
        let now = w.k.arch.time;
        w.go(a, 0, current::SLEEP, 0, &[now + 1000]);
        // The first by the semaphore's own portal and the last by one that stays, all others by the one that goes.
        let last = waiting.len() - 1;
        for (i, &t) in waiting.iter().enumerate() {
            match i {
                0 => w.go(t, own, sem::P, 0, &[]),
                _ if i == last => w.go(t, other, sem::P, 0, &[]),
                _ if i % 2 == 0 => w.go(t, one, sem::P, 0, &[]),
                _ => w.go(t, turn, sem::V_THEN_P, 0, &[one as u64]),
            }
        }
        w.pass_time(1000);
        // That the entry is closed ends nothing.
        w.ok(a, 0, current::PORTAL_CLOSE, &[one as u64]);
        assert!(waiting.iter().all(|&t| w.state(t) == State::Waiting));
        w.revoke(a, from);
        assert_eq!(w.k.portals.live_objects(), 2);
        assert_eq!(w.state(waiting[0]), State::Waiting);
        assert_eq!(w.state(waiting[last]), State::Waiting);
        for &t in &waiting[1..last] {
            assert_eq!(w.state(t), State::Ready);
            assert_eq!(w.result(t), Err(Error::Revoked));
        }
    }
}

#[test]
fn the_number_of_a_dead_channel_is_not_given_to_another() {
    let Scene {
        mut w,
        server,
        own,
        t,
        tx,
        ..
    } = scene(1);
    let init = w.init;
    w.destroy(server);
    w.close_own(own);
    w.checked = false;
    for _ in 0..4200 {
        let slot = w.ok(init, 0, current::CHANNEL_CREATE, &[])[0];
        let d = w.k.threads[t[0]].domain;
        let target = w.k.domains[d].table.target(tx[0] as u64).expect("kept");
        let channel = w.k.portals.at(target).channel;
        assert_eq!(w.k.channels.lookup(channel), None);
        w.ok(init, 0, current::PORTAL_CLOSE, &[slot]);
    }
    w.checked = true;
    w.check();
    w.rest();
    assert_eq!(w.err(t[0], tx[0], 0, &[]), Error::Dead);
    w.ok(t[0], 0, current::PORTAL_CLOSE, &[tx[0] as u64]);
    assert_eq!(w.k.channels.live_objects(), 0);
}

/// The model: portals with what they were derived from, and tables of them.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Parent, revoked, badge.
    portals: Vec<(Option<usize>, bool, u64)>,
    /// Portal and rights, of two tables.
    tables: [std::collections::BTreeMap<u64, (usize, u16)>; 2],
    /// Who called through which portal and was not received yet, in order.
    calls: Vec<(usize, usize)>,
}

impl Model {
    fn depth(&self, mut of: usize) -> usize {
        let mut depth = 0;
        while let Some(parent) = self.portals[of].0 {
            of = parent;
            depth += 1;
        }
        depth
    }

    fn descends(&self, mut of: usize, from: usize) -> bool {
        while let Some(parent) = self.portals[of].0 {
            of = parent;
            if of == from {
                return true;
            }
        }
        false
    }
}

#[derive(Clone, Debug)]
enum Move {
    Copy(u64, u64, u16),
    Derive(u64, u64, u16),
    Open(u64, u64, u16, u64),
    Put(u64, u64, u16),
    Revoke(u64),
    Close(u64),
    /// From the second table.
    Remove(u64),
    Notify(u64),
    /// Through an entry of the second table.
    Call(usize, u64),
    /// The server receives and answers the first call that waits.
    Serve,
    Die,
}

/// Threads that call.
const CALLERS: usize = 3;
/// Where the first portal stays, so that the game goes on, and behind it the slots that come and go.
const FIRST: u64 = 99;
const SLOTS: u64 = 104;

fn moves() -> impl Strategy<Value = Move> {
    let slot = || FIRST + 1..SLOTS;
    let from = || FIRST..SLOTS;
    let mask = || {
        prop_oneof![
            3 => Just(15u16),
            2 => Just(rights::OPEN | 15),
            1 => 0u16..256,
            1 => Just(rights::ONCE | 15),
        ]
    };
    let number = prop_oneof![
        6 => 1u64..1000,
        1 => Just(u32::MAX as u64),
        1 => Just(0),
        1 => Just(1 << 32),
    ];
    prop_oneof![
        4 => (from(), slot(), mask()).prop_map(|(a, b, m)| Move::Copy(a, b, m)),
        6 => (from(), slot(), mask()).prop_map(|(a, b, m)| Move::Derive(a, b, m)),
        3 => (from(), slot(), mask(), number).prop_map(|(a, b, m, n)| Move::Open(a, b, m, n)),
        6 => (from(), slot(), mask()).prop_map(|(a, b, m)| Move::Put(a, b, m)),
        3 => from().prop_map(Move::Revoke),
        3 => slot().prop_map(Move::Close),
        1 => slot().prop_map(Move::Remove),
        4 => from().prop_map(Move::Notify),
        8 => (0..CALLERS, slot()).prop_map(|(who, slot)| Move::Call(who, slot)),
        2 => prop_oneof![9 => Just(Move::Serve), 1 => Just(Move::Die)],
    ]
}

const BADGE: u64 = 7 << 32;
const ADDED: u16 = rights::CLOEXEC | rights::ONCE;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn rights_are_as_in_the_model(steps in prop::collection::vec(moves(), 1..160)) {
        let mut w = World::new();
        let (server, client) = (w.domain(), w.domain());
        let (rx, own) = w.channel(server);
        let init = w.init;
        w.ok(init, own, receive::MAKE_PORTAL, &[BADGE, (rights::OPEN | 15) as u64, FIRST]);
        w.close_own(own);
        let s = w.thread(server, 60);
        let callers: Vec<_> = (0..CALLERS).map(|_| w.thread(client, 50)).collect();
        w.rest();
        for &t in [s].iter().chain(&callers) {
            w.go(t, 0, current::PARK, 0, &[]);
        }
        w.recall();
        let mut model = Model::default();
        model.portals.push((None, false, BADGE));
        model.tables[0].insert(FIRST, (0, rights::OPEN | 15));
        let mut dead = false;
        for step in steps {
            let before = model.clone();
            let entry = |slot: u64| before.tables[0].get(&slot).copied();
            let expected = match step {
                Move::Copy(from, to, mask) => match entry(from) {
                    None => Err(Error::BadPortal),
                    Some((p, r)) => {
                        let once = r & rights::ONCE;
                        let kept = r & mask | mask & ADDED | once;
                        if once != 0 && from != to {
                            model.tables[0].remove(&from);
                        }
                        model.tables[0].insert(to, (p, kept));
                        Ok(())
                    }
                },
                Move::Derive(from, to, mask) => match entry(from) {
                    None => Err(Error::BadPortal),
                    Some((_, r)) if r & rights::ONCE != 0 || from == to => Err(Error::NoRight),
                    Some((p, _)) if before.portals[p].1 => Err(Error::Revoked),
                    Some((p, _)) if before.depth(p) >= crate::revoke::DEPTH as usize => Err(Error::Busy),
                    Some(_) if dead => Err(Error::Dead),
                    Some((p, r)) => {
                        model.portals.push((Some(p), false, before.portals[p].2));
                        let kept = r & mask | mask & ADDED;
                        model.tables[0].insert(to, (model.portals.len() - 1, kept));
                        Ok(())
                    }
                },
                Move::Open(from, to, mask, number) => match entry(from) {
                    None => Err(Error::BadPortal),
                    Some((_, r)) if r & rights::OPEN == 0 => Err(Error::NoRight),
                    Some(_) if !(1..1 << 32).contains(&number) => Err(Error::BadArgument),
                    Some((_, r)) if r & rights::ONCE != 0 || from == to => Err(Error::NoRight),
                    Some((p, _)) if before.portals[p].1 => Err(Error::Revoked),
                    Some((p, _)) if before.depth(p) >= crate::revoke::DEPTH as usize => Err(Error::Busy),
                    Some(_) if dead => Err(Error::Dead),
                    Some((p, r)) => {
                        model.portals.push((Some(p), false, before.portals[p].2 + number));
                        let kept = (r & mask | mask & ADDED) & !rights::OPEN;
                        model.tables[0].insert(to, (model.portals.len() - 1, kept));
                        Ok(())
                    }
                },
                Move::Put(from, to, mask) => match entry(from) {
                    None => Err(Error::BadPortal),
                    Some((_, r)) if r & rights::PASS == 0 => Err(Error::NoRight),
                    Some((p, r)) => {
                        let once = r & rights::ONCE;
                        if once != 0 {
                            model.tables[0].remove(&from);
                        }
                        model.tables[1].insert(to, (p, r & mask | once));
                        Ok(())
                    }
                },
                Move::Remove(slot) => match model.tables[1].remove(&slot) {
                    None => Err(Error::BadPortal),
                    Some(_) => Ok(()),
                },
                // What becomes of the call is looked at below.
                Move::Call(who, slot) => {
                    let entry = before.tables[1].get(&slot);
                    if let (Some(&(p, r)), false) = (entry, before.calls.iter().any(|c| c.0 == who)) {
                        if r & rights::CALL != 0 && !before.portals[p].1 && !dead {
                            model.calls.push((who, p));
                            if r & rights::ONCE != 0 {
                                model.tables[1].remove(&slot);
                            }
                        }
                    }
                    Ok(())
                }
                Move::Serve => {
                    if !dead && !model.calls.is_empty() {
                        model.calls.remove(0);
                    }
                    Ok(())
                }
                Move::Revoke(slot) => match entry(slot) {
                    None => Err(Error::BadPortal),
                    Some((p, _)) => {
                        for i in 0..model.portals.len() {
                            if model.descends(i, p) {
                                model.portals[i].1 = true;
                            }
                        }
                        // And the calls through them.
                        let portals = &model.portals;
                        model.calls.retain(|&(_, p)| !portals[p].1);
                        Ok(())
                    }
                },
                Move::Close(slot) => match model.tables[0].remove(&slot) {
                    None => Err(Error::BadPortal),
                    Some(_) => Ok(()),
                },
                Move::Notify(slot) => match entry(slot) {
                    None => Err(Error::BadPortal),
                    Some((_, r)) if r & rights::NOTIFY == 0 => Err(Error::NoRight),
                    Some((p, _)) if before.portals[p].1 => Err(Error::Revoked),
                    Some(_) if dead => Err(Error::Dead),
                    Some((_, r)) => {
                        if r & rights::ONCE != 0 {
                            model.tables[0].remove(&slot);
                        }
                        Ok(())
                    }
                },
                Move::Die => {
                    model.calls.clear();
                    Ok(())
                }
            };
            match step {
                Move::Copy(from, to, mask) => w.go(init, 0, current::PORTAL_COPY, 0, &[from, to, mask as u64]),
                Move::Derive(from, to, mask) => w.go(init, 0, current::PORTAL_DERIVE, 0, &[from, to, mask as u64]),
                Move::Open(from, to, mask, number) => {
                    w.go(init, 0, current::PORTAL_OPEN, 0, &[from, to, mask as u64, number]);
                }
                Move::Put(from, to, mask) => {
                    w.go(init, client.slot, domain::PORTAL_PUT, 0, &[from, to, mask as u64]);
                }
                Move::Revoke(slot) => w.go(init, 0, current::PORTAL_REVOKE, 0, &[slot]),
                Move::Close(slot) => w.go(init, 0, current::PORTAL_CLOSE, 0, &[slot]),
                Move::Notify(slot) => w.go(init, slot as u32, 1, 0, &[1]),
                Move::Remove(slot) => w.go(init, client.slot, domain::PORTAL_REMOVE, 0, &[slot]),
                Move::Call(who, slot) => {
                    let t = callers[who];
                    if w.state(t) == State::Parked {
                        w.k.finish(t, 0);
                        w.rest();
                        w.call(t, slot as u32, &[who as u64]);
                        if w.current() == Some(t) {
                            let entry = before.tables[1].get(&slot);
                            let error = match entry {
                                None => Error::BadPortal,
                                Some((_, r)) if r & rights::CALL == 0 => Error::NoRight,
                                Some(&(p, _)) if before.portals[p].1 => Error::Revoked,
                                Some(_) => Error::Dead,
                            };
                            prop_assert_eq!(w.result(t), Err(error));
                            w.go(t, 0, current::PARK, 0, &[]);
                        }
                        w.recall();
                    }
                }
                Move::Serve if dead => {}
                Move::Serve => {
                    w.k.finish(s, 0);
                    w.rest();
                    // Pulses come first.
                    let message = loop {
                        w.go(s, rx, receive::RECEIVE, flag::POLL, &[]);
                        match w.result(s) {
                            Err(_) => break None,
                            Ok(words) if w.token(s) != 0 => break Some(words[0] as usize),
                            Ok(_) => {}
                        }
                    };
                    let called = before.calls.first();
                    prop_assert_eq!(message, called.map(|called| called.0));
                    if let Some(&(who, p)) = called {
                        prop_assert_eq!(w.k.threads[s].registers.rbx, before.portals[p].2);
                        w.reply(s, rx, &[]);
                        w.go(s, 0, current::PARK, 0, &[]);
                        prop_assert!(w.result(callers[who]).is_ok());
                        w.go(callers[who], 0, current::PARK, 0, &[]);
                    } else {
                        w.go(s, 0, current::PARK, 0, &[]);
                    }
                    w.recall();
                }
                Move::Die if dead => {}
                Move::Die => {
                    dead = true;
                    w.ok(init, server.slot, domain::PORTAL_REMOVE, &[rx as u64]);
                }
            }
            if !matches!(step, Move::Die | Move::Call(..) | Move::Serve) {
                prop_assert_eq!(w.result(init).map(|_| ()), expected, "{:?}", step);
            }
            // Calls wait as the model says; the others are told why theirs ended.
            for (who, &t) in callers.iter().enumerate() {
                let waits = model.calls.iter().any(|c| c.0 == who);
                prop_assert_eq!(w.state(t) == State::Sending, waits);
                if w.state(t) == State::Ready {
                    let error = if dead { Error::Dead } else { Error::Revoked };
                    prop_assert_eq!(w.result(t), Err(error));
                }
            }
            let ended = callers.iter().filter(|&&t| w.state(t) == State::Ready).count();
            if ended != 0 {
                w.rest();
                for _ in 0..ended {
                    let t = w.current().expect("one of those");
                    w.go(t, 0, current::PARK, 0, &[]);
                }
                w.recall();
            }
            // Both tables are as the model says: same rights, same portals, the same ones revoked.
            let mut objects = std::collections::BTreeMap::new();
            for (table, d) in [w.k.threads[init].domain, client.d].into_iter().enumerate() {
                for slot in FIRST..SLOTS {
                    let found = w.k.domains[d].table.target(slot)
                        .filter(|t| t.kind() == cairn_abi::PortalKind::Channel);
                    let wanted = model.tables[table].get(&slot);
                    prop_assert_eq!(found.map(|t| t.rights()), wanted.map(|w| w.1));
                    if let (Some(found), Some(&(p, _))) = (found, wanted) {
                        prop_assert_eq!(w.k.portals.at(found).revoked, model.portals[p].1);
                        prop_assert_eq!(w.k.portals.at(found).badge, model.portals[p].2);
                        let before = objects.insert(p, found.object());
                        prop_assert!(before.is_none_or(|object| object == found.object()));
                    }
                }
            }
        }
    }
}
