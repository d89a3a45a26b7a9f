//! Message-driven priority, preemption, quanta.

use super::*;
use cairn_abi::{policy, pulse};

/// A chain of `n` servers: the first is called by clients, each calls the next.
struct Chain {
    threads: Vec<ThreadRef>,
    rx: Vec<u32>,
    onward: Vec<u32>,
    own: Vec<u32>,
}

fn chain(w: &mut World, n: usize, base: u8) -> Chain {
    let doms: Vec<_> = (0..n).map(|_| w.domain()).collect();
    let channels: Vec<_> = doms.iter().map(|&d| w.channel(d)).collect();
    let onward = (0..n - 1)
        .map(|i| w.portal(channels[i + 1].1, doms[i], 0))
        .collect();
    let threads = doms.iter().map(|&d| w.thread(d, base)).collect();
    let rx = channels.iter().map(|c| c.0).collect();
    let own = channels.iter().map(|c| c.1).collect();
    Chain {
        threads,
        rx,
        onward,
        own,
    }
}

#[test]
fn a_queued_caller_lifts_the_whole_chain_and_the_reply_lowers_it() {
    let mut w = World::new();
    let Chain {
        threads: s,
        rx,
        onward,
        own,
    } = chain(&mut w, 3, 40);
    let client = w.domain();
    let tx = w.portal(own[0], client, 0);
    let low = w.thread(client, 20);
    w.rest();
    for i in 0..3 {
        w.receive(s[i], rx[i]);
    }
    w.call(low, tx, &[]);
    w.call(s[0], onward[0], &[]);
    w.call(s[1], onward[1], &[]);
    assert_eq!(w.current(), Some(s[2]));
    for &t in &s {
        assert_eq!(w.effective(t), 20);
    }
    w.recall();
    let high = w.thread(client, 90);
    let middle = w.thread(client, 60);
    w.rest();
    w.call(high, tx, &[]);
    // `middle` is ready, but the chain works for `high` now.
    assert_eq!(w.current(), Some(s[2]));
    for &t in &s {
        assert_eq!(w.effective(t), 90);
    }
    w.reply_receive(s[2], rx[2], &[]);
    assert_eq!(w.current(), Some(s[1]), "still in front of the one between");
    assert_eq!(w.effective(s[2]), 40);
    w.reply_receive(s[1], rx[1], &[]);
    assert_eq!(w.effective(s[1]), 40);
    assert_eq!(w.effective(s[0]), 90);
    w.reply_receive(s[0], rx[0], &[]);
    // The next caller is `high`.
    assert_eq!(w.current(), Some(s[0]));
    assert_eq!(w.effective(s[0]), 90);
    assert_eq!(w.state(low), State::Ready);
    w.reply_receive(s[0], rx[0], &[]);
    assert_eq!(w.current(), Some(high));
    assert_eq!(w.effective(s[0]), 40);
    w.go(high, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), Some(middle));
}

#[test]
fn a_long_chain_is_lifted_in_shares_and_lowered_as_far() {
    const LONG: usize = 20;
    let mut w = World::new();
    let c = chain(&mut w, LONG, 40);
    let client = w.domain();
    let tx = w.portal(c.own[0], client, 0);
    let low = w.thread(client, 20);
    w.rest();
    for i in 0..LONG {
        w.receive(c.threads[i], c.rx[i]);
    }
    w.call(low, tx, &[]);
    for i in 0..LONG - 1 {
        w.call(c.threads[i], c.onward[i], &[]);
    }
    w.recall();
    let high = w.thread(client, 90);
    w.rest();
    assert_eq!(w.current(), Some(high));
    let now = w.k.arch.time;
    w.ok(high, 0, current::DEADLINE, &[now + 1000]);
    let registers = &mut w.k.threads[high].registers;
    registers.set_words([0; 8]);
    registers.rax = tx as u64;
    registers.rip = SYSCALL + 2;
    w.k.syscall();
    let lifted = |w: &World| c.threads.iter().filter(|&&t| w.effective(t) == 90).count();
    // A share was done, and the timer comes at once for the next one.
    assert!((1..LONG).contains(&lifted(&w)));
    assert_eq!(w.k.arch.timer, Some(now));
    let before = lifted(&w);
    w.k.timer();
    assert!(lifted(&w) > before);
    w.follow();
    w.check();
    assert_eq!(lifted(&w), LONG);
    // Who gives up lowers all of them, in shares as well.
    w.k.arch.time += 1000;
    w.k.timer();
    assert!((1..LONG).contains(&lifted(&w)));
    w.follow();
    w.check();
    assert_eq!(lifted(&w), 0);
}

#[test]
fn a_caller_that_gives_up_lowers_the_chain() {
    let mut w = World::new();
    let Chain {
        threads: s,
        rx,
        onward,
        own,
    } = chain(&mut w, 2, 40);
    let client = w.domain();
    let tx = w.portal(own[0], client, 0);
    let low = w.thread(client, 20);
    let high = w.thread(client, 90);
    w.rest();
    w.go(high, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    w.receive(s[0], rx[0]);
    w.receive(s[1], rx[1]);
    w.call(low, tx, &[]);
    w.call(s[0], onward[0], &[]);
    w.pass_time(100);
    let now = w.k.arch.time;
    w.ok(high, 0, current::DEADLINE, &[now + 50]);
    w.call(high, tx, &[]);
    assert_eq!((w.effective(s[0]), w.effective(s[1])), (90, 90));
    w.pass_time(60);
    assert_eq!(w.result(high), Err(Error::TimedOut));
    assert_eq!((w.effective(s[0]), w.effective(s[1])), (20, 20));
    w.recall();
    // The client's own priority changes while it is held.
    let (init, id) = (w.init, w.id(low));
    w.ok(
        init,
        w.k_slot(client),
        domain::THREAD_CONTROL,
        &[id, thread::SET_PRIORITY as u64, 70, 0, 0],
    );
    assert_eq!((w.effective(s[0]), w.effective(s[1])), (70, 70));
}

impl World {
    pub fn k_slot(&self, dom: Dom) -> u32 {
        dom.slot
    }
}

#[test]
fn a_deferred_caller_lifts_nobody() {
    let mut w = World::new();
    let server = w.domain();
    let client = w.domain();
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 0);
    let s = w.thread(server, 100);
    let a = w.thread(client, 120);
    let b = w.thread(client, 50);
    w.rest();
    w.go(a, 0, current::SLEEP, 0, &[w.k.arch.time + 10]);
    w.receive(s, rx);
    w.pass_time(10);
    w.call(a, tx, &[]);
    assert_eq!(w.effective(s), 120);
    let first = w.token(s);
    w.receive(s, rx);
    assert_eq!(w.effective(s), 100);
    w.call(b, tx, &[]);
    assert_eq!(w.effective(s), 50, "works for b only");
    // Answering the deferred one makes that one run: it is more important.
    let second = w.token(s);
    w.k.threads[s].registers.rbp = first;
    w.reply(s, rx, &[1]);
    assert_eq!(w.current(), Some(a));
    w.go(a, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.effective(s), 50);
    w.k.threads[s].registers.rbp = second;
    w.reply_receive(s, rx, &[1]);
    assert_eq!(w.current(), Some(b));
}

#[test]
fn a_pulse_brings_a_lowered_server_back_to_its_own_priority() {
    let mut w = World::new();
    let server = w.domain();
    let client = w.domain();
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 0);
    let s = w.thread(server, 100);
    let c = w.thread(client, 20);
    let hog = w.thread(client, 60);
    w.rest();
    w.receive(s, rx);
    w.go(hog, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    w.call(c, tx, &[]);
    w.pass_time(100);
    assert_eq!(w.current(), Some(hog));
    w.go(hog, tx, 1, 0, &[1]);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.effective(s), 100);
}

/// A server far above programs, a client far below whoever else calls it, and the portals of both.
struct Between {
    client: Dom,
    other: Dom,
    rx: u32,
    tx: u32,
    from_other: u32,
    s: ThreadRef,
    low: ThreadRef,
}

fn between(w: &mut World) -> Between {
    let (server, client, other) = (w.domain(), w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    Between {
        client,
        other,
        rx,
        tx: w.portal(own, client, 7),
        from_other: w.portal(own, other, 8),
        s: w.thread(server, 150),
        low: w.thread(client, 20),
    }
}

/// A server's own priority is far above a program's. If its caller is killed, times out or is interrupted in the middle of a request, what the server still
/// does for it goes at the caller's priority, and nobody more important waits for that.
#[test]
fn a_server_goes_on_for_who_has_gone_at_that_ones_priority() {
    for short_way in [true, false] {
        for end in ["killed", "late", "poked"] {
            let mut w = World::new();
            w.k.short_way = short_way;
            let Between {
                client,
                other,
                rx,
                tx,
                from_other,
                s,
                low,
            } = between(&mut w);
            let real_time = w.thread(other, 80);
            w.rest();
            w.receive(s, rx);
            let sleep = |w: &mut World, ns| {
                let until = w.k.arch.time + ns;
                w.go(real_time, 0, current::SLEEP, 0, &[until]);
            };
            sleep(&mut w, 100);
            if end == "late" {
                let until = w.k.arch.time + 10;
                w.ok(low, 0, current::DEADLINE, &[until]);
            }
            w.go(
                low,
                tx,
                cairn_abi::op::CALL,
                cairn_abi::flag::INTERRUPTIBLE,
                &[],
            );
            assert_eq!((w.current(), w.effective(s)), (Some(s), 20));
            let id = w.id(low);
            let (init, slot) = (w.init, client.slot);
            match end {
                "late" => w.pass_time(10),
                end => {
                    w.recall();
                    let how = if end == "killed" {
                        thread::KILL
                    } else {
                        thread::POKE
                    };
                    w.ok(init, slot, domain::THREAD_CONTROL, &[id, how as u64]);
                    w.rest();
                }
            }
            // It is in the middle of the request still; a notice of the end waits.
            assert_eq!(w.effective(s), 20, "{end}");
            w.pass_time(100);
            assert_eq!(w.current(), Some(real_time), "{end}");
            // Whoever is more important lifts it.
            w.go(real_time, from_other, cairn_abi::op::NOTIFY, 0, &[1]);
            assert_eq!((w.current(), w.effective(s)), (Some(s), 150));
            let first = w.poll(s, rx).map(|pulse| pulse.0);
            let told = if end == "poked" {
                pulse::UNBLOCK
            } else {
                pulse::GONE
            };
            assert_eq!(first, Some(told), "{end}");
            assert_eq!(w.effective(s), 150, "the other pulse waits");
            assert_eq!(w.poll(s, rx), Some((pulse::NOTIFY, 1, 8)));
            w.receive(s, rx);
            assert_eq!(w.effective(s), 150, "it waits");
        }
    }
}

/// A server that has put a caller off takes its request up again, and has the caller's priority then, whatever that becomes; others are served in between.
#[test]
fn a_server_resumes_the_work_for_a_caller_that_it_put_off() {
    for short_way in [true, false] {
        let mut w = World::new();
        w.k.short_way = short_way;
        let Between {
            client,
            other,
            rx,
            tx,
            from_other,
            s,
            low,
        } = between(&mut w);
        w.rest();
        w.receive(s, rx);
        w.call(low, tx, &[1]);
        let token = w.token(s);
        assert_eq!(w.effective(s), 20);
        // It is put off, and another one is served meanwhile.
        w.receive(s, rx);
        w.recall();
        let high = w.thread(other, 80);
        w.rest();
        w.call(high, from_other, &[2]);
        assert_eq!((w.current(), w.effective(s)), (Some(s), 80));
        w.reply(s, rx, &[]);
        // Who has answered goes on at that caller's priority until it receives.
        assert_eq!((w.current(), w.effective(s)), (Some(s), 80));
        // Asked for alone, the caller changes nothing.
        w.ok(s, rx, receive::CALLER, &[token]);
        assert_eq!((w.current(), w.effective(s)), (Some(s), 80));
        let told = w.ok(s, rx, receive::CALLER, &[token, receive::RESUME]);
        assert_eq!((told[0], told[2]), (w.id(low), 20));
        assert_eq!((w.current(), w.effective(s)), (Some(high), 20));
        // Who waits lifts it, and what becomes of the caller.
        let (id, init, slot) = (w.id(low), w.init, client.slot);
        w.call(high, from_other, &[3]);
        assert_eq!((w.current(), w.effective(s)), (Some(s), 80));
        let mut words = [0; 8];
        words[..3].copy_from_slice(&[id, thread::SET_PRIORITY.into(), 90]);
        w.recall();
        w.ok(init, slot, domain::THREAD_CONTROL, &words);
        w.rest();
        assert_eq!((w.current(), w.effective(s)), (Some(s), 90));
        // It answers in the end, and the request is over.
        w.k.threads[s].registers.rbp = token;
        w.reply(s, rx, &[]);
        assert_eq!(w.result(s).err(), None);
        assert_eq!(
            w.err(s, rx, receive::CALLER, &[token, receive::RESUME]),
            Error::BadToken
        );
    }
}

/// Whom a server works for when it resumes another caller's request is put off: it hears when the channel ends, and its reply is its own.
#[test]
fn who_resumes_a_request_has_put_off_the_one_before() {
    for answered in [true, false] {
        let mut w = World::new();
        let (server, client) = (w.domain(), w.domain());
        let (rx, own) = w.channel(server);
        let tx = w.portal(own, client, 7);
        let s = w.thread(server, 150);
        let (low, high) = (w.thread(client, 20), w.thread(client, 80));
        w.rest();
        w.receive(s, rx);
        w.go(high, 0, current::PARK, 0, &[]);
        w.call(low, tx, &[1]);
        let first = w.token(s);
        w.receive(s, rx);
        w.k.finish(high, 0);
        w.k.resume();
        w.call(high, tx, &[2]);
        let second = w.token(s);
        w.ok(s, rx, receive::CALLER, &[first, receive::RESUME]);
        w.check();
        assert_eq!((w.current(), w.effective(s)), (Some(s), 20));
        if answered {
            for (token, who) in [(first, low), (second, high)] {
                w.k.threads[s].registers.rbp = token;
                w.reply(s, rx, &[]);
                w.check();
                assert_eq!(w.result(who).err(), None);
            }
        } else {
            // The server dies, and its channel is kept for another one.
            w.recall();
            w.destroy(server);
            w.rest();
            for who in [low, high] {
                assert_eq!(w.result(who).err(), Some(Error::Dead));
            }
        }
    }
}

/// A caller whose request was resumed is poked: before that, in the middle, or when the server has received again. The server hears of it.
#[test]
fn who_resumes_a_request_hears_that_its_caller_was_poked() {
    for (when, short_way) in (0..3).flat_map(|when| [(when, true), (when, false)]) {
        let mut w = World::new();
        w.k.short_way = short_way;
        let (server, client) = (w.domain(), w.domain());
        let (rx, own) = w.channel(server);
        let tx = w.portal(own, client, 7);
        let s = w.thread(server, 150);
        let low = w.thread(client, 20);
        let (init, id) = (w.init, w.id(low));
        let poke = |w: &mut World| {
            w.recall();
            let words = [id, thread::POKE as u64];
            w.ok(init, client.slot, domain::THREAD_CONTROL, &words);
            w.rest();
        };
        w.rest();
        w.receive(s, rx);
        w.go(low, tx, 0, flag::INTERRUPTIBLE, &[1]);
        let token = w.token(s);
        // Somebody wakes it with something else.
        w.receive(s, rx);
        w.recall();
        let words = [0, rights::DEFAULT as u64, AUTO];
        let bell = w.ok(init, own, receive::MAKE_PORTAL, &words)[0] as u32;
        w.ok(init, bell, cairn_abi::op::NOTIFY, &[1]);
        w.rest();
        assert_eq!(w.current(), Some(s));
        if when == 0 {
            poke(&mut w);
        }
        w.ok(s, rx, receive::CALLER, &[token, receive::RESUME]);
        if when == 1 {
            poke(&mut w);
        }
        w.receive(s, rx);
        if when == 2 {
            poke(&mut w);
        }
        assert_eq!(w.current(), Some(s));
        assert_eq!(w.pulse(s), (pulse::UNBLOCK, token, 7));
    }
}

/// Two threads receive from a channel, and one resumes what the other one works for.
#[test]
fn who_works_for_a_caller_whose_request_another_resumes_does_so_no_longer() {
    let mut w = World::new();
    let (server, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 7);
    let (one, two) = (w.thread(server, 150), w.thread(server, 140));
    let (low, high) = (w.thread(client, 20), w.thread(client, 30));
    w.rest();
    w.receive(one, rx);
    w.receive(two, rx);
    w.call(high, tx, &[1]);
    let works = w.current().expect("a server");
    let token = w.token(works);
    // It waits for something else, and the other one is called.
    w.go(works, 0, current::PARK, 0, &[]);
    w.call(low, tx, &[2]);
    let resumes = w.current().expect("the other one");
    assert_ne!(resumes, works);
    w.ok(resumes, rx, receive::CALLER, &[token, receive::RESUME]);
    w.check();
    assert_eq!((w.effective(resumes), w.effective(works)), (30, 30));
    w.k.threads[resumes].registers.rbp = token;
    w.reply(resumes, rx, &[]);
    w.check();
}

/// What a server does about the end of a program is not more urgent than what ended it: else a loop of ends would hold up whoever is more important than the
/// programs, and less than the server.
#[test]
fn who_hears_of_an_end_works_at_the_priority_of_who_brought_it_about() {
    for short_way in [true, false] {
        for (priority, faults, expected) in [(20, false, 64), (20, true, 64), (100, true, 100)] {
            for waits in [true, false] {
                let mut w = World::new();
                w.k.short_way = short_way;
                let (server, client, other) = (w.domain(), w.domain(), w.domain());
                let (rx, own) = w.channel(server);
                w.ok(w.init, client.slot, domain::WATCH, &[own.into(), 9]);
                let s = w.thread(server, 150);
                let real_time = w.thread(other, 110);
                let t = w.thread(client, priority);
                w.rest();
                // The server waits, or comes to it when the end is queued.
                match waits {
                    true => w.receive(s, rx),
                    false => w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 50]),
                }
                w.go(real_time, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
                assert_eq!(w.current(), Some(t));
                match faults {
                    true => {
                        w.k.exception(13, 0, 0);
                    }
                    false => w.go(t, 0, current::EXIT, 0, &[0]),
                }
                w.check();
                if !waits {
                    w.pass_time(60);
                    assert_eq!((w.current(), w.effective(s)), (Some(s), 150));
                    w.receive(s, rx);
                }
                assert_eq!((w.current(), w.effective(s)), (Some(s), expected));
                assert_eq!(w.pulse(s), (pulse::DEATH, client.id as u64, 9));
                w.pass_time(100);
                assert_eq!(w.current(), Some(real_time));
                w.go(real_time, 0, current::EXIT, 0, &[0]);
                w.receive(s, rx);
                assert_eq!(w.effective(s), 150);
            }
        }
    }
}

/// What a server does about the last close goes before who closed, and not before others that are more important than that one.
#[test]
fn who_hears_of_a_last_close_works_just_above_who_closed() {
    for short_way in [true, false] {
        for (priority, expected) in [(20, 65), (64, 65), (100, 101)] {
            for waits in [true, false] {
                let mut w = World::new();
                w.k.short_way = short_way;
                let (server, client, other) = (w.domain(), w.domain(), w.domain());
                let (rx, own) = w.channel(server);
                let held = w.portal(own, client, 7);
                let s = w.thread(server, 150);
                let real_time = w.thread(other, 110);
                let t = w.thread(client, priority);
                w.rest();
                match waits {
                    true => w.receive(s, rx),
                    false => w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 50]),
                }
                w.go(real_time, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
                assert_eq!(w.current(), Some(t));
                w.go(t, 0, current::PORTAL_CLOSE, 0, &[held.into()]);
                w.check();
                if !waits {
                    w.pass_time(60);
                    w.receive(s, rx);
                }
                assert_eq!((w.current(), w.effective(s)), (Some(s), expected));
                assert_eq!(w.pulse(s), (pulse::CLOSED, 0, 7));
                w.pass_time(100);
                assert_eq!(w.current(), Some(real_time));
            }
        }
    }
}

/// What a program tells a server by NOTIFY goes before that program, and not before others that are more important; what a component tells may be for
/// somebody more important. Told again by who is more important, it is as urgent as that.
#[test]
fn what_a_program_tells_is_as_urgent_as_the_program() {
    for (priority, ceiling, expected) in [(20, 127, 65), (100, 127, 101), (100, 128, 150)] {
        for waits in [true, false] {
            let mut w = World::new();
            let (server, client, other) = (w.domain(), w.domain(), w.domain());
            w.ok(w.init, client.slot, domain::CONFIGURE, &[0, ceiling]);
            let (rx, own) = w.channel(server);
            let (tx, again) = (w.portal(own, client, 7), w.portal(own, other, 8));
            let s = w.thread(server, 150);
            let component = w.thread(other, 140);
            let t = w.thread(client, priority);
            w.rest();
            match waits {
                true => w.receive(s, rx),
                false => w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 150]),
            }
            w.go(component, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
            w.go(t, tx, cairn_abi::op::NOTIFY, 0, &[1]);
            w.check();
            if waits {
                assert_eq!((w.current(), w.effective(s)), (Some(s), expected));
                assert_eq!(w.pulse(s), (pulse::NOTIFY, 1, 7));
                continue;
            }
            // Its other bits come from more important ones: the pulse is as urgent, and still one.
            w.pass_time(100);
            w.go(component, again, cairn_abi::op::NOTIFY, 0, &[1]);
            w.go(component, 0, current::SLEEP, 0, &[w.k.arch.time + 1000]);
            w.pass_time(60);
            w.receive(s, rx);
            assert_eq!(w.pulse(s), (pulse::NOTIFY, 1, 7));
            assert_eq!(w.effective(s), 150, "the other pulse waits");
            assert_eq!(w.poll(s, rx), Some((pulse::NOTIFY, 1, 8)));
        }
    }
}

#[test]
fn a_pulse_told_again_is_as_urgent_as_the_last_who_told_it() {
    let mut w = World::new();
    let (server, client) = (w.domain(), w.domain());
    w.ok(w.init, client.slot, domain::CONFIGURE, &[0, 127]);
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 7);
    let s = w.thread(server, 150);
    let (low, high) = (w.thread(client, 20), w.thread(client, 110));
    w.rest();
    w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 150]);
    w.go(high, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    w.go(low, tx, cairn_abi::op::NOTIFY, 0, &[1]);
    w.pass_time(100);
    w.go(high, tx, cairn_abi::op::NOTIFY, 0, &[2]);
    w.check();
    w.go(high, 0, current::SLEEP, 0, &[w.k.arch.time + 1000]);
    w.pass_time(60);
    w.receive(s, rx);
    assert_eq!(w.pulse(s), (pulse::NOTIFY, 3, 7));
    assert_eq!(w.effective(s), 111);
    w.check();
}

/// A server that closes portals to itself is not more urgent with each of them, whomever it works for.
#[test]
fn last_closes_that_bring_about_others_do_not_climb() {
    let mut w = World::new();
    let (server, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 7);
    let held: Vec<u32> = (0..60).map(|at| w.portal(own, server, 100 + at)).collect();
    let s = w.thread(server, 150);
    let t = w.thread(client, 70);
    w.rest();
    w.receive(s, rx);
    w.call(t, tx, &[]);
    for slot in &held[..30] {
        w.go(s, 0, current::PORTAL_CLOSE, 0, &[(*slot).into()]);
        assert_eq!((w.current(), w.effective(s)), (Some(s), 71));
    }
    w.reply_receive(s, rx, &[]);
    for slot in &held[30..] {
        assert_eq!(w.pulse(s).0, pulse::CLOSED);
        assert_eq!((w.current(), w.effective(s)), (Some(s), 71));
        w.go(s, 0, current::PORTAL_CLOSE, 0, &[(*slot).into()]);
        assert_eq!(w.effective(s), 71);
        w.receive(s, rx);
    }
    for _ in 0..30 {
        assert_eq!((w.pulse(s).0, w.effective(s)), (pulse::CLOSED, 71));
        w.receive(s, rx);
    }
    assert_eq!(w.current(), Some(t));
    w.check();
}

#[test]
fn equal_priorities_take_turns_by_the_quantum() {
    let mut w = World::new();
    let dom = w.domain();
    let a = w.thread(dom, 50);
    let b = w.thread(dom, 50);
    let c = w.thread(dom, 50);
    w.rest();
    assert_eq!(w.current(), Some(a));
    w.pass_time(5_000_000);
    assert_eq!(w.current(), Some(a));
    for expected in [b, c, a, b] {
        w.pass_time(10_000_000);
        assert_eq!(w.current(), Some(expected));
    }
    // Alone, no ticks are needed.
    w.go(b, 0, current::PARK, 0, &[]);
    w.go(c, 0, current::PARK, 0, &[]);
    w.pass_time(20_000_000);
    w.pass_time(20_000_000);
    assert_eq!(w.k.arch.timer, None);
}

#[test]
fn fifo_threads_keep_the_processor_until_they_give_it() {
    let mut w = World::new();
    let dom = w.domain();
    let a = w.thread(dom, 50);
    let b = w.thread(dom, 50);
    let (init, id) = (w.init, w.id(a));
    w.ok(
        init,
        dom.slot,
        domain::THREAD_CONTROL,
        &[id, thread::SET_PRIORITY as u64, 50, policy::FIFO, 0],
    );
    w.rest();
    assert_eq!(w.current(), Some(a));
    w.pass_time(100_000_000);
    assert_eq!(w.current(), Some(a));
    w.go(a, 0, current::YIELD, 0, &[]);
    assert_eq!(w.current(), Some(b));
    w.go(b, 0, current::YIELD, 0, &[]);
    assert_eq!(w.current(), Some(a));
}

/// What a server does for a client is the client's: also whether its turn ends. `policies`: the client's, the server's, and through how many servers the call
/// goes.
fn turn_while_served(client_policy: u64, server_policy: u64, servers: usize) -> bool {
    let mut w = World::new();
    let dom = w.domain();
    let mut links = Vec::new();
    for i in 0..servers {
        let server = w.domain();
        let (rx, own) = w.channel(server);
        let s = w.thread(server, 60 + i as u8);
        set_policy(&mut w, server, s, 60 + i as u64, server_policy);
        links.push((server, rx, own, s));
    }
    let client = w.thread(dom, 50);
    let other = w.thread(dom, 50);
    set_policy(&mut w, dom, client, 50, client_policy);
    set_policy(&mut w, dom, other, 50, policy::FIFO);
    let mut last = dom;
    let mut gates = Vec::new();
    for &(server, _, own, _) in &links {
        gates.push(w.portal(own, last, 0));
        last = server;
    }
    w.rest();
    for &(_, rx, _, s) in links.iter().rev() {
        w.receive(s, rx);
    }
    assert_eq!(w.current(), Some(client));
    let mut runs = client;
    for (&gate, &(_, _, _, s)) in gates.iter().zip(&links) {
        w.call(runs, gate, &[]);
        runs = s;
    }
    assert_eq!(w.current(), Some(runs));
    assert_eq!(w.k.threads[runs].effective, 50);
    w.pass_time(11_000_000);
    w.pass_time(11_000_000);
    let gave_way = w.current() == Some(other);
    assert!(gave_way || w.current() == Some(runs));
    gave_way
}

#[test]
fn a_server_has_the_quantum_of_whom_it_works_for() {
    for servers in [1, 2] {
        for server in [policy::FIFO, policy::ROUND_ROBIN, policy::ADAPTIVE] {
            assert!(!turn_while_served(policy::FIFO, server, servers));
            assert!(turn_while_served(policy::ROUND_ROBIN, server, servers));
        }
    }
}

#[test]
fn a_preempted_thread_goes_on_first() {
    let mut w = World::new();
    let dom = w.domain();
    let a = w.thread(dom, 50);
    let b = w.thread(dom, 50);
    let high = w.thread(dom, 90);
    w.rest();
    w.go(high, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    assert_eq!(w.current(), Some(a));
    w.pass_time(100);
    assert_eq!(w.current(), Some(high));
    w.go(high, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), Some(a));
    assert_eq!(w.state(b), State::Ready);
}

#[test]
fn nobody_asks_for_more_than_the_ceiling() {
    let mut w = World::new();
    let dom = w.domain();
    let init = w.init;
    w.ok(init, dom.slot, domain::CONFIGURE, &[0, 80]);
    assert!(!w.k.domains[dom.d].float);
    let all = rights::ALL as u64;
    let inside = w.ok(
        init,
        dom.slot,
        domain::PORTAL_PUT,
        &[dom.slot as u64, AUTO, all],
    )[0];
    let t = w.thread(dom, 60);
    w.rest();
    let create = |priority| [RUNNING, 0, 0, 0, 0, priority, AUTO, 0];
    let slot = inside as u32;
    let refused = w.err(t, slot, domain::THREAD_CREATE, &create(81));
    assert_eq!(refused, Error::BadArgument);
    let made = w.ok(t, slot, domain::THREAD_CREATE, &create(80));
    let same = w.ok(t, slot, domain::THREAD_CREATE, &create(AUTO));
    assert_eq!(w.ok(t, same[0] as u32, thread::INFO, &[])[2], 60);
    let too_high = w.err(t, made[0] as u32, thread::SET_PRIORITY, &[81, 0, 0]);
    assert_eq!(too_high, Error::BadArgument);
    assert_eq!(
        w.err(t, slot, domain::CONFIGURE, &[1, 81]),
        Error::BadArgument
    );
}

#[test]
fn processor_time_is_charged() {
    let mut w = World::new();
    let dom = w.domain();
    let a = w.thread(dom, 50);
    w.rest();
    w.k.arch.time += 5000;
    w.recall();
    let (init, id) = (w.init, w.id(a));
    let info = w.ok(
        init,
        dom.slot,
        domain::THREAD_CONTROL,
        &[id, thread::INFO as u64],
    );
    assert_eq!(info[..4], [5000, 0, 50, 50]);
    assert_eq!(w.ok(init, dom.slot, domain::INFO, &[])[3], 5000);
}

#[test]
fn servers_work_at_their_clients_cost() {
    let mut w = World::new();
    let (first, second, client) = (w.domain(), w.domain(), w.domain());
    let (first_rx, first_own) = w.channel(first);
    let (second_rx, second_own) = w.channel(second);
    let to_first = w.portal(first_own, client, 0);
    let to_second = w.portal(second_own, first, 0);
    let s = w.thread(first, 60);
    let u = w.thread(second, 70);
    let c = w.thread(client, 50);
    w.rest();
    w.receive(u, second_rx);
    w.receive(s, first_rx);
    let ticks = |w: &World, t| w.k.threads[t].ticks;
    let before = [s, u, c].map(|t| ticks(&w, t));
    w.call(c, to_first, &[]);
    w.k.arch.time += 100;
    w.call(s, to_second, &[]);
    w.k.arch.time += 1000;
    w.reply_receive(u, second_rx, &[]);
    w.k.arch.time += 10;
    // Put off: from here on the server works for itself, also on the answer that it gives late.
    let token = w.token(s);
    w.receive(s, first_rx);
    assert_eq!(w.current(), None);
    w.recall();
    let words = [0, rights::DEFAULT as u64, AUTO];
    let init = w.init;
    let bell = w.ok(init, first_own, receive::MAKE_PORTAL, &words)[0] as u32;
    w.ok(init, bell, cairn_abi::op::NOTIFY, &[1]);
    w.rest();
    w.k.arch.time += 7;
    w.k.threads[s].registers.rbp = token;
    w.reply_receive(s, first_rx, &[]);
    assert_eq!(w.current(), Some(c));
    w.k.charge();
    assert_eq!(ticks(&w, c) - before[2], 1110);
    assert_eq!(ticks(&w, s) - before[0], 7);
    assert_eq!(ticks(&w, u), before[1]);
    assert_eq!(w.k.domains[client.d].ticks, ticks(&w, c));
}

#[test]
fn what_a_server_did_before_it_took_a_caller_is_its_own() {
    let mut w = World::new();
    let (server, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let to = w.portal(own, client, 0);
    let s = w.thread(server, 50);
    let c = w.thread(client, 60);
    w.rest();
    w.call(c, to, &[]);
    let ticks = |w: &World, t| w.k.threads[t].ticks;
    let before = [s, c].map(|t| ticks(&w, t));
    w.k.arch.time += 9;
    w.receive(s, rx);
    w.k.arch.time += 100;
    w.k.charge();
    assert_eq!(
        [s, c].map(|t| ticks(&w, t)),
        [before[0] + 9, before[1] + 100]
    );
}

#[test]
fn a_notice_that_is_withdrawn_lifts_no_longer() {
    let mut w = World::new();
    let (x, y, client) = (w.domain(), w.domain(), w.domain());
    let (x_rx, x_own) = w.channel(x);
    let (y_rx, y_own) = w.channel(y);
    let to_x = w.portal(x_own, client, 0);
    let to_y = w.portal(y_own, client, 0);
    let x_to_y = w.portal(y_own, x, 0);
    let s = w.thread(x, 60);
    let u = w.thread(y, 90);
    let b = w.thread(client, 40);
    let c = w.thread(client, 30);
    w.rest();
    w.receive(u, y_rx);
    w.receive(s, x_rx);
    let now = w.k.arch.time;
    w.ok(b, 0, current::DEADLINE, &[now + 100]);
    w.call(b, to_x, &[]);
    w.receive(s, x_rx);
    w.call(c, to_x, &[]);
    w.call(s, x_to_y, &[]);
    w.receive(u, y_rx);
    assert_eq!(w.effective(s), 30);
    // b gives up; the notice waits at x and lifts its server to b's priority.
    w.pass_time(100);
    assert_eq!(w.effective(s), 40);
    // b gives up again, elsewhere: its one notice goes there.
    w.ok(b, 0, current::DEADLINE, &[now + 200]);
    w.call(b, to_y, &[]);
    w.receive(u, y_rx);
    w.pass_time(100);
    assert_eq!(w.effective(s), 30);
}

#[test]
fn waking_a_server_gives_nobody_a_longer_quantum() {
    let mut w = World::new();
    let (server, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 7);
    w.close_own(own);
    let s = w.thread(server, 60);
    let greedy = w.thread(client, 40);
    let other = w.thread(client, 40);
    w.rest();
    w.receive(s, rx);
    assert_eq!(w.current(), Some(greedy));
    for _ in 0..3 {
        // The quantum ends while the server does what it was woken for.
        w.pass_time(9_000_000);
        assert_eq!(w.current(), Some(greedy));
        w.go(greedy, tx, 1, 0, &[1]);
        assert_eq!(w.current(), Some(s));
        w.pass_time(2_000_000);
        w.receive(s, rx);
        w.pass_time(0);
        assert_eq!(w.current(), Some(other), "its turn");
        w.pass_time(11_000_000);
    }
}

#[test]
fn timers_of_others_do_not_cut_a_quantum_short() {
    let mut w = World::new();
    let dom = w.domain();
    let worker = w.thread(dom, 40);
    let dozing: Vec<_> = (0..5).map(|_| w.thread(dom, 40)).collect();
    w.rest();
    // All others sleep for ten microseconds and work for four, so one of them is always about to wake; the worker works for 100 milliseconds.
    let mut worked = 0;
    for _ in 0..200_000 {
        let t = w.current().expect("somebody");
        if dozing.contains(&t) {
            w.pass_time(4_000);
            if w.current() != Some(t) {
                continue;
            }
            let until = w.k.arch.time + 10_000;
            w.go(t, 0, current::SLEEP, 0, &[until]);
        } else {
            assert_eq!(t, worker);
            w.checked = worked == 0;
            w.pass_time(2_000);
            worked += 1;
            if worked == 50_000 {
                break;
            }
        }
    }
    assert_eq!(worked, 50_000);
    // It was made to wait now and then, not at each of their 10,000 timers.
    let switches = w.k.counters.thread_switches;
    assert!(switches < 1500, "{switches} switches");
}

/// The policy of threads that were made with none.
fn set_policy(w: &mut World, dom: Dom, t: ThreadRef, priority: u64, policy: u64) {
    let (init, id) = (w.init, w.id(t));
    let words = [id, thread::SET_PRIORITY as u64, priority, policy, 0];
    w.ok(init, dom.slot, domain::THREAD_CONTROL, &words);
}

fn adaptive(w: &mut World, dom: Dom, priority: u8) -> ThreadRef {
    let t = w.thread(dom, priority);
    set_policy(w, dom, t, priority as u64, policy::ADAPTIVE);
    t
}

#[test]
fn who_computes_lets_those_go_before_who_wait() {
    let mut w = World::new();
    let dom = w.domain();
    let hogs = [adaptive(&mut w, dom, 50), adaptive(&mut w, dom, 50)];
    let reader = adaptive(&mut w, dom, 50);
    w.rest();
    w.pass_time(10_000_000);
    w.pass_time(10_000_000);
    assert_eq!(w.current(), Some(reader));
    assert_eq!(hogs.map(|t| w.effective(t)), [49, 49]);
    // From now on it never waits for them, and they take turns.
    let mut turns = [0; 2];
    for _ in 0..100 {
        let now = w.k.arch.time;
        w.go(reader, 0, current::SLEEP, 0, &[now + 6_000_000]);
        let hog = w.current().expect("a hog");
        turns[hogs.iter().position(|&t| t == hog).expect("a hog")] += 1;
        w.pass_time(6_000_000);
        assert_eq!(w.current(), Some(reader));
        assert_eq!(w.effective(reader), 50);
        w.pass_time(1_000_000);
    }
    assert!(turns.iter().all(|&turns| turns > 25), "{turns:?}");
    // One that waits has its priority back.
    w.go(reader, 0, current::PARK, 0, &[]);
    let hog = w.current().expect("a hog");
    let now = w.k.arch.time;
    w.go(hog, 0, current::SLEEP, 0, &[now + 1000]);
    w.pass_time(1000);
    assert_eq!((w.current(), w.effective(hog)), (Some(hog), 50));
    // A yield is no wait.
    let now = w.k.arch.time;
    w.go(hog, 0, current::SLEEP, 0, &[now + 1_000_000_000]);
    let other = w.current().expect("the other hog");
    w.go(other, 0, current::YIELD, 0, &[]);
    assert_eq!((w.current(), w.effective(other)), (Some(other), 49));
}

#[test]
fn who_fell_and_waits_until_a_time_goes_on_at_that_time() {
    for held in [None, Some(false), Some(true)] {
        let mut w = World::new();
        let (server, client, rx, tx) = w.pair();
        let s = w.thread(server, 60);
        let fallen = adaptive(&mut w, client, 50);
        let busy = adaptive(&mut w, client, 50);
        w.rest();
        if held == Some(true) {
            w.receive(s, rx);
        } else {
            w.go(s, 0, current::PARK, 0, &[]);
        }
        w.pass_time(10_000_000);
        assert_eq!((w.current(), w.effective(fallen)), (Some(busy), 49));
        let now = w.k.arch.time;
        w.go(busy, 0, current::SLEEP, 0, &[now + 1_000_000]);
        assert_eq!((w.current(), w.effective(fallen)), (Some(fallen), 49));
        let until = now + 2_000_000;
        match held {
            None => w.go(fallen, 0, current::SLEEP, 0, &[until]),
            Some(held) => {
                w.ok(fallen, 0, current::DEADLINE, &[until]);
                w.call(fallen, tx, &[]);
                if held {
                    w.go(s, 0, current::PARK, 0, &[]);
                }
            }
        }
        w.pass_time(1_000_000);
        assert_eq!((w.current(), w.effective(busy)), (Some(busy), 50));
        // Nobody competes with it, so no quantum of its ends.
        w.pass_time(1_000_000);
        assert_eq!(
            (w.state(fallen), w.effective(fallen)),
            (State::Ready, 50),
            "{held:?}"
        );
    }
}

#[test]
fn who_fell_and_gets_no_turn_has_a_quantum_now_and_then() {
    let mut w = World::new();
    let dom = w.domain();
    let hog = adaptive(&mut w, dom, 50);
    let busy = w.thread(dom, 50);
    w.rest();
    let (mut worked, mut longest, mut waited) = (0, 0, 0);
    for _ in 0..2_000 {
        if w.current() == Some(hog) {
            worked += 1;
            waited = 0;
        } else {
            assert_eq!(w.current(), Some(busy));
            waited += 1;
            longest = longest.max(waited);
        }
        w.pass_time(1_000_000);
    }
    // A quantum after each 10 to 20 ms, and the one of the other that is under way then.
    assert!((500..1_000).contains(&worked), "{worked} of 2000 ms");
    assert!((15..=35).contains(&longest), "{longest} ms without a turn");
}

#[test]
fn who_fell_and_has_its_share_of_what_is_left_stays_there() {
    let mut w = World::new();
    let dom = w.domain();
    let hogs = [adaptive(&mut w, dom, 50), adaptive(&mut w, dom, 50)];
    let reader = adaptive(&mut w, dom, 50);
    w.rest();
    while w.current() != Some(reader) {
        w.pass_time(1_000_000);
    }
    // It works for a third of the time, and the hogs in between.
    for _ in 0..500 {
        let until = w.k.arch.time + 2_000_000;
        w.go(reader, 0, current::SLEEP, 0, &[until]);
        w.pass_time(1_000_000);
        w.pass_time(1_000_000);
        assert_eq!(w.current(), Some(reader));
        assert_eq!(hogs.map(|t| w.effective(t)), [49, 49]);
        w.pass_time(1_000_000);
    }
}

#[test]
fn a_server_does_not_fall_for_what_its_client_uses() {
    let mut w = World::new();
    let (server, client, rx, tx) = w.pair();
    let s = adaptive(&mut w, server, 60);
    let c = adaptive(&mut w, client, 40);
    let other = adaptive(&mut w, client, 40);
    w.rest();
    w.receive(s, rx);
    assert_eq!(w.current(), Some(c));
    w.call(c, tx, &[]);
    assert_eq!(w.current(), Some(s));
    w.pass_time(10_000_000);
    // The client pays, and its server works at its priority.
    assert_eq!(w.current(), Some(other));
    assert_eq!([s, c, other].map(|t| w.effective(t)), [39, 39, 40]);
    w.go(other, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), Some(s));
    // It puts the client off: that waits now.
    w.receive(s, rx);
    assert_eq!([s, c].map(|t| w.effective(t)), [60, 40]);
}

#[test]
fn a_thread_is_told_its_policy_when_it_is_made() {
    let mut w = World::new();
    let dom = w.domain();
    let (init, slot) = (w.init, dom.slot);
    for given in [policy::ROUND_ROBIN, policy::FIFO, policy::ADAPTIVE] {
        let words = [RUNNING, 0x9000, 0, 0, 0, 50 | given << 8, 0];
        let id = w.ok(init, slot, domain::THREAD_CREATE, &words)[1];
        let info = w.ok(
            init,
            slot,
            domain::THREAD_CONTROL,
            &[id, thread::INFO as u64],
        );
        assert_eq!((info[2], info[3], info[4]), (50, 50, given));
    }
    let none = [RUNNING, 0x9000, 0, 0, 0, 50 | 3 << 8, 0];
    assert_eq!(
        w.err(init, slot, domain::THREAD_CREATE, &none),
        Error::BadArgument
    );
}

#[test]
fn who_fell_has_its_share_though_a_server_works_for_it_and_others_wait_too() {
    let mut w = World::new();
    let (server, client, rx, tx) = w.pair();
    let s = adaptive(&mut w, server, 60);
    let c = adaptive(&mut w, client, 40);
    let busy = [w.thread(client, 40), w.thread(client, 40)];
    w.rest();
    w.receive(s, rx);
    w.call(c, tx, &[]);
    let mut worked = 0;
    for _ in 0..1_000 {
        match w.current() {
            Some(t) if t == s => worked += 1,
            Some(t) => assert!(busy.contains(&t)),
            None => panic!("nobody"),
        }
        w.pass_time(1_000_000);
    }
    assert!((200..500).contains(&worked), "{worked} of 1000 ms");
}

/// Who is due and most important comes first, however many others were due before it, and these wait until nobody more important runs.
#[test]
fn who_is_due_waits_for_whom_is_more_important() {
    let mut w = World::new();
    let dom = w.domain();
    let low: Vec<_> = (0..50).map(|_| w.thread(dom, 20)).collect();
    let high = w.thread(dom, 80);
    w.rest();
    let tick = |w: &mut World| {
        w.k.arch.timer = None;
        w.k.timer();
        w.check();
    };
    let start = w.k.arch.time + 1000;
    w.go(high, 0, current::SLEEP, 0, &[start + 100]);
    for (i, &t) in low.iter().enumerate() {
        w.go(t, 0, current::SLEEP, 0, &[start + i as u64]);
    }
    assert_eq!((w.current(), w.k.arch.timer), (None, Some(start)));
    w.k.arch.time = start + 200;
    tick(&mut w);
    assert_eq!(w.current(), Some(high));
    // While it runs the timer comes once for all of them.
    tick(&mut w);
    assert_eq!(w.k.arch.timer, None);
    let asleep = |w: &World| {
        low.iter()
            .filter(|&&t| w.state(t) == State::Sleeping)
            .count()
    };
    assert_eq!(asleep(&w), 50);
    // A step of the others, and then it comes again.
    w.go(high, 0, current::SLEEP, 0, &[start + 300]);
    tick(&mut w);
    assert_eq!((w.current(), asleep(&w)), (Some(low[0]), 49));
    w.k.arch.time = start + 300;
    tick(&mut w);
    assert_eq!((w.current(), asleep(&w)), (Some(high), 49));
    w.go(high, 0, current::PARK, 0, &[]);
    w.pass_time(0);
    w.check();
    assert_eq!(asleep(&w), 0);
    for &t in &low {
        assert_eq!(w.current(), Some(t));
        w.go(t, 0, current::PARK, 0, &[]);
    }
}

/// Who sleeps with a mutex for which somebody important waits is as urgent as that one.
#[test]
fn who_sleeps_is_lifted_among_those_who_are_due() {
    let mut w = World::new();
    let dom = w.domain();
    let m = w.semaphore(&[dom], 1, cairn_abi::service::semaphore::MUTEX)[0];
    let owner = w.thread(dom, 20);
    let others: Vec<_> = (0..20).map(|_| w.thread(dom, 40)).collect();
    let high = w.thread(dom, 80);
    w.rest();
    let until = w.k.arch.time + 1000;
    w.go(high, 0, current::SLEEP, 0, &[until - 900]);
    for &t in &others {
        w.go(t, 0, current::SLEEP, 0, &[until]);
    }
    w.p(owner, m);
    w.go(owner, 0, current::SLEEP, 0, &[until + 1]);
    w.pass_time(100);
    w.p(high, m);
    w.check();
    assert_eq!(w.effective(owner), 80);
    w.k.arch.time = until + 1;
    w.k.timer();
    assert_eq!(w.current(), Some(owner));
    w.v(owner, m);
    assert_eq!(w.current(), Some(high));
}

/// A dead thread's mutexes hold up nobody who is more important than those who wait for them.
#[test]
fn what_the_dead_leave_waits_for_whom_is_more_important() {
    let mut w = World::new();
    let dom = w.domain();
    let m: Vec<_> = (0..20)
        .map(|_| w.semaphore(&[dom], 1, cairn_abi::service::semaphore::MUTEX)[0])
        .collect();
    let owner = w.thread(dom, 10);
    let waiting: Vec<_> = (0..20).map(|_| w.thread(dom, 20)).collect();
    let high = w.thread(dom, 80);
    w.rest();
    let now = w.k.arch.time;
    w.go(high, 0, current::SLEEP, 0, &[now + 1]);
    for &t in &waiting {
        w.go(t, 0, current::SLEEP, 0, &[now + 1]);
    }
    for &mutex in &m {
        w.p(owner, mutex);
    }
    w.go(owner, 0, current::SLEEP, 0, &[now + 1000]);
    w.pass_time(1);
    w.go(high, 0, current::PARK, 0, &[]);
    w.pass_time(0);
    for &mutex in &m {
        let t = w.current().expect("one of them");
        w.p(t, mutex);
    }
    w.k.finish(high, 0);
    w.k.resume();
    w.k.kill(owner, 0, 0);
    w.k.arch.timer = None;
    w.k.timer();
    w.check();
    let waits = |w: &World| {
        waiting
            .iter()
            .filter(|&&t| w.state(t) == State::Waiting)
            .count()
    };
    let left = waits(&w);
    assert_eq!((left, w.k.arch.timer), (19, None));
    w.go(high, 0, current::PARK, 0, &[]);
    w.pass_time(0);
    w.check();
    assert_eq!(waits(&w), 0);
}
