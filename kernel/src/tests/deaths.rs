//! Death of either side at every step, stopping, destroying.

use super::*;
use cairn_abi::{death, pulse};

struct Scene {
    w: World,
    server: Dom,
    client: Dom,
    rx: u32,
    tx: u32,
    s: ThreadRef,
    c: ThreadRef,
}

fn scene() -> Scene {
    let mut w = World::new();
    let server = w.domain();
    let client = w.domain();
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 7);
    w.close_own(own);
    let s = w.thread(server, 60);
    let c = w.thread(client, 50);
    w.rest();
    Scene {
        w,
        server,
        client,
        rx,
        tx,
        s,
        c,
    }
}

impl World {
    pub fn destroy(&mut self, dom: Dom) {
        let init = self.init;
        for _ in 0..1000 {
            self.go(init, dom.slot, domain::DESTROY, 0, &[5]);
            match self.result(init) {
                Ok(_) => return,
                Err(error) => assert_eq!(error, Error::Again),
            }
        }
        panic!("never done");
    }
}

#[test]
fn the_server_dies_before_during_and_after_receiving() {
    for step in 0..3 {
        let Scene {
            mut w,
            server,
            rx,
            tx,
            s,
            c,
            ..
        } = scene();
        match step {
            // The caller is queued.
            0 => {
                w.go(s, 0, current::PARK, 0, &[]);
                w.call(c, tx, &[]);
                assert_eq!(w.state(c), State::Sending);
            }
            // The caller is held.
            1 => {
                w.receive(s, rx);
                w.call(c, tx, &[]);
                assert_eq!(w.state(c), State::Held);
            }
            // The caller comes later.
            _ => {
                w.receive(s, rx);
            }
        }
        w.recall();
        w.destroy(server);
        w.rest();
        assert_eq!(w.current(), Some(c));
        if step == 2 {
            w.call(c, tx, &[]);
        }
        assert_eq!(w.result(c), Err(Error::Dead), "step {step}");
        w.go(c, tx, 1, 0, &[1]);
        assert_eq!(w.result(c), Err(Error::Dead));
        w.ok(c, 0, current::PORTAL_CLOSE, &[tx as u64]);
        assert_eq!(w.k.portals.live_objects(), 0);
        assert_eq!(w.living_channels(), 0);
    }
}

#[test]
fn a_channel_that_is_kept_serves_the_next_server() {
    let mut w = World::new();
    let (old, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(old);
    let tx = w.portal(own, client, 7);
    let s = w.thread(old, 60);
    let held: Vec<_> = (0..40).map(|_| w.thread(client, 50)).collect();
    w.rest();
    w.receive(s, rx);
    for &c in &held {
        w.call(c, tx, &[]);
        w.receive(s, rx);
    }
    w.recall();
    let queued = w.thread(client, 55);
    let init = w.init;
    w.ok(init, old.slot, domain::STOP, &[]);
    w.rest();
    // Delivered to the stopped server as well; one more stays in the queue.
    w.call(queued, tx, &[1]);
    assert_eq!(w.state(queued), State::Held);
    w.recall();
    let last = w.thread(client, 55);
    w.rest();
    w.call(last, tx, &[2]);
    assert_eq!(w.state(last), State::Sending);
    w.recall();
    w.destroy(old);
    let new = w.domain();
    let all = rights::ALL as u64;
    let rx = w.ok(init, new.slot, domain::PORTAL_PUT, &[own as u64, AUTO, all])[0] as u32;
    let s = w.thread(new, 60);
    for &c in held.iter().chain([&queued]) {
        assert_eq!(w.result(c), Err(Error::Dead));
        assert_eq!(w.state(c), State::Ready);
        // By what token the server knew the call.
        let thread = &w.k.threads[c];
        assert_eq!(thread.registers.rdi, thread.token);
        assert_ne!(thread.token >> 32, 0);
    }
    w.rest();
    w.receive(s, rx);
    assert_eq!(w.k.threads[s].registers.rdi, 2);
    w.reply_receive(s, rx, &[3]);
    assert_eq!(w.result(last).expect("answered")[0], 3);
}

#[test]
fn the_next_server_does_not_hear_of_an_interruption_that_is_over() {
    let mut w = World::new();
    let (old, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(old);
    let tx = w.portal(own, client, 7);
    let (s, c) = (w.thread(old, 60), w.thread(client, 50));
    w.rest();
    w.receive(s, rx);
    w.go(c, tx, 0, flag::INTERRUPTIBLE, &[]);
    w.recall();
    let poke = [w.id(c), thread::POKE as u64];
    let init = w.init;
    w.ok(init, client.slot, domain::THREAD_CONTROL, &poke);
    w.destroy(old);
    assert_eq!(w.result(c), Err(Error::Dead));
    assert_eq!(w.poll(init, own), None);
}

#[test]
fn the_client_dies_while_queued() {
    let Scene {
        mut w,
        client,
        rx,
        tx,
        s,
        c,
        ..
    } = scene();
    w.go(s, 0, current::PARK, 0, &[]);
    w.call(c, tx, &[]);
    w.recall();
    w.destroy(client);
    let (init, id) = (w.init, w.id(s));
    assert!(w.k.threads.lookup(id as u32).is_some());
    w.k.finish(s, 0);
    w.go(init, 0, current::PARK, 0, &[]);
    // Never received, so only the portal's end is told.
    assert_eq!(w.poll(s, rx), Some((pulse::CLOSED, 0, 7)));
    assert_eq!(w.poll(s, rx), None);
}

#[test]
fn the_client_dies_while_held() {
    let Scene {
        mut w,
        client,
        rx,
        tx,
        s,
        c,
        ..
    } = scene();
    w.receive(s, rx);
    w.call(c, tx, &[]);
    let token = w.token(s);
    w.recall();
    w.destroy(client);
    w.rest();
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.effective(s), 60);
    let got = w.err(s, rx, receive::READ, &[token, 0, BUFFER, 1]);
    assert_eq!(got, Error::BadToken);
    w.reply(s, rx, &[]);
    assert_eq!(w.result(s), Err(Error::BadToken));
    assert_eq!(w.poll(s, rx), Some((pulse::GONE, token, 7)));
    assert_eq!(w.poll(s, rx), Some((pulse::CLOSED, 0, 7)));
    assert_eq!(w.poll(s, rx), None);
}

#[test]
fn the_server_thread_dies_and_another_answers() {
    let Scene {
        mut w,
        server,
        rx,
        tx,
        s,
        c,
        ..
    } = scene();
    w.receive(s, rx);
    w.call(c, tx, &[3]);
    let token = w.token(s);
    w.recall();
    let other = w.thread(server, 60);
    let (init, id) = (w.init, w.id(s));
    w.ok(
        init,
        server.slot,
        domain::THREAD_CONTROL,
        &[id, thread::KILL as u64],
    );
    w.rest();
    assert_eq!(w.current(), Some(other));
    w.k.threads[other].registers.rbp = token;
    w.reply_receive(other, rx, &[4]);
    assert_eq!(w.result(c).expect("answered")[0], 4);
}

#[test]
fn the_last_thread_takes_the_domain_with_it() {
    let Scene {
        mut w,
        client,
        c,
        s,
        ..
    } = scene();
    w.recall();
    let init = w.init;
    let watch = w.ok(init, 0, current::CHANNEL_CREATE, &[])[0];
    w.ok(init, client.slot, domain::WATCH, &[watch, 99]);
    let second = w.thread(client, 50);
    w.rest();
    w.go(s, 0, current::PARK, 0, &[]);
    w.go(c, 0, current::EXIT, 0, &[1]);
    assert_eq!(w.current(), Some(second));
    w.go(second, 0, current::EXIT, 0, &[42]);
    w.recall();
    w.receive(init, watch as u32);
    assert_eq!(w.pulse(init), (pulse::DEATH, client.id as u64, 99));
    let words = w.k.threads[init].registers.words();
    assert_eq!((words[2], words[3]), (death::EXIT, 42));
    assert_eq!(w.poll(init, watch as u32), None, "told once");
    let dead = w.err(
        init,
        client.slot,
        domain::THREAD_CREATE,
        &[RUNNING, 0, 0, 0, 0, 1, 0],
    );
    assert_eq!(dead, Error::Dead);
    w.destroy(client);
    let domains = w.k.domains.live_objects();
    w.close_own(client.slot);
    assert_eq!(w.k.domains.live_objects(), domains - 1);
}

#[test]
fn destroying_tells_the_reason() {
    let Scene { mut w, client, .. } = scene();
    w.recall();
    let init = w.init;
    let watch = w.ok(init, 0, current::CHANNEL_CREATE, &[])[0];
    w.ok(init, client.slot, domain::WATCH, &[watch, 1]);
    w.destroy(client);
    w.receive(init, watch as u32);
    let words = w.k.threads[init].registers.words();
    assert_eq!((words[2], words[3]), (death::KILLED, 5));
}

#[test]
fn a_domain_of_many_threads_and_portals_goes_in_shares() {
    let mut w = World::new();
    let dom = w.domain();
    let server = w.domain();
    let (_, own) = w.channel(server);
    let threads: Vec<_> = (0..50).map(|_| w.thread(dom, 30)).collect();
    for _ in 0..150 {
        w.portal(own, dom, 3);
    }
    assert_eq!(threads.len(), 50);
    let before = w.k.counters.entries;
    w.destroy(dom);
    assert!(w.k.counters.entries - before > 5);
    assert_eq!(w.k.threads.live_objects(), 1);
    // All their CLOSED pulses wait at the channel.
    assert_eq!(w.k.portals.live_objects(), 150);
    w.destroy(server);
    w.close_own(own);
    assert_eq!(w.k.portals.live_objects(), 0);
}

#[test]
fn a_channel_with_many_callers_dies_in_shares() {
    let mut w = World::with_pools(24);
    let server = w.domain();
    let client = w.domain();
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 0);
    w.close_own(own);
    let callers: Vec<_> = (0..100).map(|_| w.thread(client, 30)).collect();
    let s = w.thread(server, 20);
    w.rest();
    for &c in &callers {
        w.call(c, tx, &[]);
    }
    for _ in 0..40 {
        w.receive(s, rx);
    }
    w.go(s, 0, current::PORTAL_CLOSE, 0, &[rx as u64]);
    for _ in 0..100 {
        let c = w.current().expect("a caller");
        if c == s {
            break;
        }
        assert_eq!(w.result(c), Err(Error::Dead));
        w.go(c, 0, current::PARK, 0, &[]);
    }
    w.settle();
    for c in callers {
        assert_eq!(w.state(c), State::Parked);
    }
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.living_channels(), 0);
}

#[test]
fn a_domain_that_nobody_holds_is_buried() {
    let Scene {
        mut w,
        client,
        rx,
        s,
        c,
        ..
    } = scene();
    w.recall();
    w.close_own(client.slot);
    w.rest();
    w.receive(s, rx);
    // It goes on while its thread lives.
    w.ok(c, 0, current::IDENTITY, &[]);
    let domains = w.k.domains.live_objects();
    w.go(c, 0, current::EXIT, 0, &[0]);
    w.pass_time(1);
    assert_eq!(
        w.current(),
        Some(s),
        "the end of its portal woke the server"
    );
    assert_eq!(w.pulse(s), (pulse::CLOSED, 0, 7));
    assert_eq!(w.k.domains.live_objects(), domains - 1);
}

#[test]
fn stopped_threads_do_not_run_but_messages_reach_them() {
    let Scene {
        mut w,
        server,
        rx,
        tx,
        s,
        c,
        ..
    } = scene();
    w.receive(s, rx);
    w.recall();
    let init = w.init;
    w.ok(init, server.slot, domain::STOP, &[]);
    w.ok(init, server.slot, domain::STOP, &[]);
    w.rest();
    w.call(c, tx, &[8]);
    assert_eq!(w.current(), None);
    assert_eq!(w.state(s), State::Stopped);
    w.recall();
    w.ok(init, server.slot, domain::CONTINUE, &[]);
    assert_eq!(w.state(s), State::Stopped);
    w.ok(init, server.slot, domain::CONTINUE, &[]);
    assert_eq!(w.state(s), State::Ready);
    let extra = w.err(init, server.slot, domain::CONTINUE, &[]);
    assert_eq!(extra, Error::BadArgument);
    w.rest();
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.k.threads[s].registers.rdi, 8);
}

#[test]
fn many_stopped_threads_continue_in_shares_but_not_those_stopped_themselves() {
    let mut w = World::new();
    let dom = w.domain();
    let threads: Vec<_> = (0..60).map(|_| w.thread(dom, 30)).collect();
    let init = w.init;
    let id = w.id(threads[3]);
    let control = [id, thread::STOP as u64];
    w.ok(init, dom.slot, domain::THREAD_CONTROL, &control);
    w.ok(init, dom.slot, domain::STOP, &[]);
    w.rest();
    assert_eq!(w.current(), None);
    w.recall();
    w.ok(init, dom.slot, domain::CONTINUE, &[]);
    for (i, &t) in threads.iter().enumerate() {
        let expected = if i == 3 { State::Stopped } else { State::Ready };
        assert_eq!(w.state(t), expected);
    }
    let control = [id, thread::CONTINUE as u64];
    w.ok(init, dom.slot, domain::THREAD_CONTROL, &control);
    assert_eq!(w.state(threads[3]), State::Ready);
}

#[test]
fn exec_kills_the_other_threads() {
    let mut w = World::new();
    let dom = w.domain();
    let threads: Vec<_> = (0..40).map(|_| w.thread(dom, 30)).collect();
    let (init, keep) = (w.init, w.id(threads[11]));
    loop {
        w.go(init, dom.slot, domain::KILL_OTHERS, 0, &[keep]);
        match w.result(init) {
            Ok(_) => break,
            Err(error) => assert_eq!(error, Error::Again),
        }
    }
    assert_eq!(w.k.domains[dom.d].live, 1);
    assert_eq!(w.state(threads[11]), State::Ready);
}

#[test]
fn a_thread_id_is_not_reused_at_once() {
    let mut w = World::new();
    let dom = w.domain();
    let keeper = w.thread(dom, 10);
    let t = w.thread(dom, 30);
    let id = w.id(t);
    let init = w.init;
    let kill = [id, thread::KILL as u64];
    w.ok(init, dom.slot, domain::THREAD_CONTROL, &kill);
    let again = w.thread(dom, 30);
    assert_eq!(again, t, "the same slot");
    assert_ne!(w.id(again), id);
    let refused = w.err(init, dom.slot, domain::THREAD_CONTROL, &kill);
    assert_eq!(refused, Error::BadArgument);
    w.rest();
    w.go(again, 0, current::PARK, 0, &[]);
    let alive = w.ok(keeper, 0, current::THREAD_ALIVE, &[id])[0];
    assert_eq!(alive, 0);
}

/// Nobody could restart anything, or end the machine, after init.
#[test]
fn the_machine_ends_with_its_first_domain() {
    let mut w = World::new();
    let init = w.init;
    let other = w.domain();
    w.destroy(other);
    assert_eq!(w.k.arch.power, None);
    w.go(init, 0, current::EXIT, 0, &[0]);
    assert_eq!(w.k.arch.power, Some((2, crate::fault::FIRST_DOMAIN_ENDED)));
}
