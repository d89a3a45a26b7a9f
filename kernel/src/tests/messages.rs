//! Calls, replies, tokens, deadlines, parts.

use super::*;
use crate::dispatch::CHAIN;
use cairn_abi::service::log;
use cairn_abi::{pulse, received};

fn pair(priority: u8) -> (World, Dom, ThreadRef, u32, Dom, ThreadRef, u32) {
    let mut w = World::new();
    let server = w.domain();
    let client = w.domain();
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 77);
    w.close_own(own);
    let s = w.thread(server, 100);
    let c = w.thread(client, priority);
    w.rest();
    assert_eq!(w.current(), Some(s));
    (w, server, s, rx, client, c, tx)
}

#[test]
fn a_call_runs_the_waiting_server_at_once_and_back() {
    let (mut w, _, s, rx, client, c, tx) = pair(50);
    w.receive(s, rx);
    assert_eq!(w.current(), Some(c));
    let switches = w.k.counters.thread_switches;
    w.call(c, tx, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(w.current(), Some(s), "the server runs");
    assert!(w.k.dispatch.ready.is_empty());
    let r = w.k.threads[s].registers;
    assert_eq!(r.words(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(r.rbx, 77);
    assert_eq!(r.rax, (client.id as u64) << received::SENDER_SHIFT);
    assert_eq!(w.effective(s), 50, "at the caller's priority");
    w.reply_receive(s, rx, &[9, 8, 7, 6, 5, 4, 3, 2]);
    assert_eq!(w.current(), Some(c));
    assert_eq!(w.result(c), Ok([9, 8, 7, 6, 5, 4, 3, 2]));
    assert_eq!(w.state(s), State::Receiving);
    assert_eq!(w.k.counters.thread_switches - switches, 2);
    assert_eq!(w.effective(s), 100);
}

/// Callers with whom something is wrong are sent away in shares; the reply that came before is not given again.
#[test]
fn a_reply_is_given_once_however_many_are_sent_away() {
    let (mut w, _, s, rx, client, c, tx) = pair(50);
    w.receive(s, rx);
    w.call(c, tx, &[1]);
    w.recall();
    let many: Vec<_> = (0..2 * CHAIN).map(|_| w.thread(client, 90)).collect();
    w.rest();
    // Each passes a portal, for which there will be no slot.
    let words = [0, 0, 0, 0, 0, 0, 0, tx as u64];
    for &t in &many {
        w.go(t, tx, 0, flag::portals(1), &words);
        assert_eq!(w.state(t), State::Sending);
    }
    let copy = [rx as u64, AUTO, u64::MAX];
    loop {
        w.go(s, 0, current::PORTAL_COPY, 0, &copy);
        match w.result(s) {
            Ok(_) => {}
            Err(error) => break assert_eq!(error, Error::NoSlot),
        }
    }
    w.k.threads[s].registers.rbp = w.k.threads[c].token;
    w.reply_receive(s, rx, &[9]);
    assert_eq!(w.state(s), State::Receiving);
    assert_eq!(w.k.threads[c].registers.words()[0], 9);
    for &t in &many {
        assert_eq!(w.result(t), Err(Error::NoSlot));
    }
}

#[test]
fn registers_that_are_no_answer_keep_their_values() {
    let (mut w, _, s, rx, _, c, tx) = pair(50);
    w.receive(s, rx);
    let r = &mut w.k.threads[c].registers;
    (r.rbx, r.rbp, r.r14, r.r15) = (11, 12, 13, 14);
    w.call(c, tx, &[]);
    w.reply(s, rx, &[1]);
    let r = w.k.threads[c].registers;
    assert_eq!((r.rbx, r.rbp, r.r14, r.r15), (11, 12, 13, 14));
}

#[test]
fn senders_are_received_by_priority_then_in_order() {
    let mut w = World::new();
    let server = w.domain();
    let client = w.domain();
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 0);
    let threads: Vec<_> = [30, 20, 40, 20, 30, 40]
        .into_iter()
        .map(|p| w.thread(client, p))
        .collect();
    w.rest();
    for &i in &[2, 5, 0, 4, 1, 3] {
        w.call(threads[i], tx, &[i as u64]);
    }
    assert_eq!(w.current(), None, "idle");
    w.recall();
    let s = w.thread(server, 10);
    w.rest();
    w.receive(s, rx);
    let mut order = Vec::new();
    for _ in 0..6 {
        assert_eq!(w.current(), Some(s));
        order.push(w.k.threads[s].registers.rdi);
        // Replies are deferred: the callers stay held.
        if order.len() < 6 {
            w.receive(s, rx);
        }
    }
    assert_eq!(order, [2, 5, 0, 4, 1, 3]);
}

#[test]
fn a_token_serves_once_and_cannot_be_forged() {
    let (mut w, _, s, rx, _, c, tx) = pair(50);
    w.receive(s, rx);
    w.call(c, tx, &[]);
    let token = w.token(s);
    for forged in [
        0,
        token ^ 1 << 32,
        token ^ 1,
        token ^ 1 << 20,
        u64::MAX,
        w.id(s),
    ] {
        w.k.threads[s].registers.rbp = forged;
        w.reply(s, rx, &[]);
        assert_eq!(w.result(s), Err(Error::BadToken));
        assert_eq!(w.state(c), State::Held);
    }
    w.k.threads[s].registers.rbp = token;
    w.reply(s, rx, &[]);
    w.k.threads[s].registers.rbp = token;
    // The server runs at its own, higher, priority again.
    w.reply(s, rx, &[]);
    assert_eq!(w.result(s), Err(Error::BadToken));
}

#[test]
fn a_token_is_bound_to_its_channel() {
    let mut w = World::new();
    let server = w.domain();
    let client = w.domain();
    let (rx, own) = w.channel(server);
    let (other, _) = w.channel(server);
    let tx = w.portal(own, client, 0);
    let s = w.thread(server, 100);
    let c = w.thread(client, 50);
    w.rest();
    w.receive(s, rx);
    w.call(c, tx, &[]);
    w.reply(s, other, &[]);
    assert_eq!(w.result(s), Err(Error::BadToken));
    w.reply(s, rx, &[]);
    assert_eq!(w.state(c), State::Ready);
}

#[test]
fn deadlines_end_every_kind_of_wait() {
    let (mut w, _, s, rx, _, c, tx) = pair(50);
    let now = w.k.arch.time;
    // Receive.
    w.ok(s, 0, current::DEADLINE, &[now + 100]);
    w.receive(s, rx);
    assert_eq!(w.current(), Some(c));
    w.pass_time(200);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.result(s), Err(Error::TimedOut));
    // Sleep.
    w.go(s, 0, current::SLEEP, 0, &[now + 1000]);
    // Queued call.
    w.ok(c, 0, current::DEADLINE, &[now + 300]);
    w.call(c, tx, &[]);
    assert_eq!(w.current(), None);
    w.pass_time(150);
    assert_eq!(w.current(), Some(c));
    assert_eq!(w.result(c), Err(Error::TimedOut));
    // Held call: the server hears that the caller is gone.
    w.ok(c, 0, current::DEADLINE, &[now + 2000]);
    w.call(c, tx, &[]);
    w.pass_time(800);
    assert_eq!(w.current(), Some(s));
    w.receive(s, rx);
    let token = w.token(s);
    w.pass_time(1000);
    assert_eq!(w.result(c), Err(Error::TimedOut));
    w.receive(s, rx);
    assert_eq!(w.pulse(s), (pulse::GONE, token, 77));
    // Park.
    w.ok(s, 0, current::DEADLINE, &[now + 5000]);
    w.go(s, 0, current::PARK, 0, &[]);
    w.pass_time(10_000);
    assert_eq!(w.result(s), Err(Error::TimedOut));
}

#[test]
fn a_deadline_is_disarmed_however_the_wait_ends() {
    let (mut w, _, s, rx, _, c, tx) = pair(50);
    let now = w.k.arch.time;
    w.ok(s, 0, current::DEADLINE, &[now + 100]);
    w.receive(s, rx);
    w.call(c, tx, &[]);
    assert_eq!(w.k.threads[s].deadline, 0);
    assert!(w.k.armed().is_empty());
    w.ok(s, 0, current::DEADLINE, &[now + 100]);
    w.go(s, rx, receive::RECEIVE, flag::POLL, &[]);
    assert_eq!(w.result(s), Err(Error::TimedOut));
    assert_eq!(w.k.threads[s].deadline, 0);
    w.ok(s, 0, current::DEADLINE, &[now + 100]);
    w.call(s, rx, &[]);
    assert!(w.result(s).is_err());
}

#[test]
fn many_deadlines_fire_in_order() {
    let mut w = World::new();
    let dom = w.domain();
    let threads: Vec<_> = (0..20).map(|_| w.thread(dom, 50)).collect();
    w.rest();
    let now = w.k.arch.time;
    let delays: Vec<u64> = (0..20u64).map(|i| 1000 + (i * 7919) % 1000).collect();
    for (i, &t) in threads.iter().enumerate() {
        w.go(t, 0, current::SLEEP, 0, &[now + delays[i]]);
    }
    let mut order: Vec<usize> = (0..20).collect();
    order.sort_by_key(|&i| delays[i]);
    for i in order {
        let wait = now + delays[i] - w.k.arch.time;
        w.pass_time(wait);
        assert_eq!(w.current(), Some(threads[i]));
        w.go(threads[i], 0, current::PARK, 0, &[]);
    }
}

#[test]
fn long_parts_are_copied_in_shares() {
    let (mut w, server, s, rx, client, c, tx) = pair(50);
    let data: Vec<u8> = (0..20_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    w.poke_memory(client, BUFFER + 5, &data);
    w.receive(s, rx);
    let r = &mut w.k.threads[c].registers;
    (r.r14, r.r15, r.rbx, r.rbp) = (BUFFER + 5, 20_000, BUFFER + 21_000, 9000);
    w.go(c, tx, 0, flag::PARTS, &[]);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.k.threads[s].registers.r15, 20_000 | 9000 << 32);
    let token = w.token(s);
    let entries = w.k.counters.entries;
    let got = w.ok(s, rx, receive::READ, &[token, 100, BUFFER, 30_000, 0]);
    assert_eq!(got[0], 19_900, "short at the end of the part");
    assert_eq!(w.k.counters.entries - entries, 3);
    assert_eq!(w.peek_memory(server, BUFFER, 19_900), data[100..]);
    assert_eq!(
        w.ok(s, rx, receive::READ, &[token, 20_000, BUFFER, 1])[0],
        0
    );
    assert_eq!(
        w.ok(s, rx, receive::READ, &[token, u64::MAX, BUFFER, 1])[0],
        0
    );
    let put = w.ok(s, rx, receive::WRITE, &[token, 8990, BUFFER, 100]);
    assert_eq!(put[0], 10);
    // A reply with data longer than a share.
    w.k.threads[s].registers.rbp = token;
    let r = &mut w.k.threads[s].registers;
    (r.r14, r.r15, r.rbx) = (BUFFER, 9000, 0);
    w.go(s, rx, receive::REPLY, flag::PARTS, &[9000]);
    assert_eq!(w.result(c).expect("answered")[0], 9000);
    assert_eq!(
        w.peek_memory(client, BUFFER + 21_000, 9000),
        data[100..9100]
    );
}

#[test]
fn reply_data_must_fit() {
    let (mut w, _, s, rx, _, c, tx) = pair(50);
    w.receive(s, rx);
    let r = &mut w.k.threads[c].registers;
    (r.r14, r.r15, r.rbx, r.rbp) = (0, 0, BUFFER, 10);
    w.go(c, tx, 0, flag::PARTS, &[]);
    for (len, offset) in [(11, 0), (1, 10), (5, 6), (u64::MAX, 1), (1, u64::MAX)] {
        let r = &mut w.k.threads[s].registers;
        (r.r14, r.r15, r.rbx) = (BUFFER, len, offset);
        w.go(s, rx, receive::REPLY, flag::PARTS, &[]);
        assert_eq!(w.result(s), Err(Error::BadArgument));
        assert_eq!(w.state(c), State::Held);
    }
}

#[test]
fn vectors_are_gathered_and_scattered() {
    let (mut w, server, s, rx, client, c, tx) = pair(50);
    let parts: [(u64, u64); 4] = [
        (BUFFER + 0x1000, 10),
        (BUFFER + 0x1ffe, 5),
        (BUFFER, 0),
        (BUFFER + 0x3000, 7),
    ];
    let bytes: Vec<u8> = parts
        .iter()
        .flat_map(|&(base, len)| [base.to_le_bytes(), len.to_le_bytes()].concat())
        .collect();
    w.poke_memory(client, BUFFER, &bytes);
    w.poke_memory(client, BUFFER + 0x1000, b"0123456789");
    w.poke_memory(client, BUFFER + 0x1ffe, b"abcde");
    w.poke_memory(client, BUFFER + 0x3000, b"ABCDEFG");
    w.receive(s, rx);
    let r = &mut w.k.threads[c].registers;
    (r.r14, r.r15, r.rbx, r.rbp) = (BUFFER, 4, BUFFER, 4);
    let flags = flag::PARTS | flag::OUT_VECTOR | flag::IN_VECTOR;
    w.go(c, tx, 0, flags, &[]);
    assert_eq!(w.k.threads[s].registers.r15, 22 | 22 << 32);
    let token = w.token(s);
    assert_eq!(w.ok(s, rx, receive::READ, &[token, 8, BUFFER, 100])[0], 14);
    assert_eq!(w.peek_memory(server, BUFFER, 14), b"89abcdeABCDEFG");
    w.poke_memory(server, BUFFER, b"zyxwvu");
    assert_eq!(w.ok(s, rx, receive::WRITE, &[token, 9, BUFFER, 6])[0], 6);
    assert_eq!(w.peek_memory(client, BUFFER + 0x1009, 1), b"z");
    assert_eq!(w.peek_memory(client, BUFFER + 0x1ffe, 5), b"yxwvu");
}

#[test]
fn wild_parts_harm_only_their_owner() {
    let (mut w, _, s, rx, _, c, tx) = pair(50);
    w.receive(s, rx);
    let r = &mut w.k.threads[c].registers;
    (r.r14, r.r15, r.rbx, r.rbp) = (0xffff_8000_0000_0000, u64::MAX, 1, u64::MAX);
    w.go(c, tx, 0, flag::PARTS, &[]);
    assert_eq!(w.k.threads[s].registers.r15, u64::MAX);
    let token = w.token(s);
    let read = [token, 0, BUFFER, 100];
    assert_eq!(w.err(s, rx, receive::READ, &read), Error::BadAddress);
    let write = [token, 0x7000_0000, BUFFER, 100];
    assert_eq!(w.err(s, rx, receive::WRITE, &write), Error::BadAddress);
    w.reply(s, rx, &[]);
    // Too long a vector, and one that is not there.
    w.receive(s, rx);
    let r = &mut w.k.threads[c].registers;
    (r.r14, r.r15, r.rbx, r.rbp) = (BUFFER, 1025, 0, 0);
    w.go(c, tx, 0, flag::PARTS | flag::OUT_VECTOR, &[]);
    assert_eq!(w.result(c), Err(Error::BadArgument));
    w.k.threads[c].registers.r14 = 0xdead_0000;
    w.k.threads[c].registers.r15 = 3;
    w.go(c, tx, 0, flag::PARTS | flag::OUT_VECTOR, &[]);
    assert_eq!(w.result(c), Err(Error::BadAddress));
}

#[test]
fn notify_gathers_and_never_blocks() {
    let (mut w, _, s, rx, _, c, tx) = pair(50);
    w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    for value in [1, 4, 4, 16] {
        w.go(c, tx, 1, 0, &[value]);
        assert_eq!(w.result(c).map(|_| ()), Ok(()));
    }
    w.pass_time(100);
    assert_eq!(w.poll(s, rx), Some((pulse::NOTIFY, 21, 77)));
    assert_eq!(w.poll(s, rx), None);
    // A waiting receiver gets it at once.
    w.receive(s, rx);
    w.go(c, tx, 1, 0, &[8]);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.pulse(s), (pulse::NOTIFY, 8, 77));
}

#[test]
fn pulses_come_before_messages() {
    let (mut w, _, s, rx, _, c, tx) = pair(50);
    w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 100]);
    w.go(c, tx, 1, 0, &[1]);
    w.call(c, tx, &[5]);
    w.pass_time(100);
    w.receive(s, rx);
    assert_eq!(w.pulse(s).0, pulse::NOTIFY);
    w.receive(s, rx);
    assert_eq!(w.k.threads[s].registers.rdi, 5);
}

#[test]
fn park_keeps_one_permit() {
    let mut w = World::new();
    let dom = w.domain();
    let a = w.thread(dom, 60);
    let b = w.thread(dom, 50);
    let (a_id, b_id) = (w.id(a), w.id(b));
    w.rest();
    w.ok(a, 0, current::UNPARK, &[b_id]);
    w.go(a, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), Some(b));
    w.ok(b, 0, current::PARK, &[]);
    w.go(b, 0, current::UNPARK, 0, &[a_id]);
    assert_eq!(w.current(), Some(a));
    w.go(a, 0, current::PARK, 0, &[]);
    w.go(b, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), None);
}

#[test]
fn calls_in_a_circle_are_refused() {
    let mut w = World::new();
    let doms: Vec<_> = (0..3).map(|_| w.domain()).collect();
    let channels: Vec<_> = doms.iter().map(|&d| w.channel(d)).collect();
    let to: Vec<_> = (0..3)
        .map(|i| w.portal(channels[(i + 1) % 3].1, doms[i], 0))
        .collect();
    let threads: Vec<_> = doms.iter().map(|&d| w.thread(d, 50)).collect();
    w.rest();
    w.receive(threads[0], channels[0].0);
    w.receive(threads[1], channels[1].0);
    // 2 calls 0, who runs, calls 1, who runs, calls 2.
    w.ok(threads[2], 0, current::IDENTITY, &[]);
    w.go(threads[2], channels[2].0, receive::RECEIVE, flag::POLL, &[]);
    w.call(threads[2], to[2], &[]);
    w.call(threads[0], to[0], &[]);
    w.call(threads[1], to[1], &[]);
    assert_eq!(w.result(threads[1]), Err(Error::Cycle));
}

#[test]
fn a_circle_through_one_who_serves_no_longer_is_refused() {
    let mut w = World::new();
    let (a, b) = (w.domain(), w.domain());
    let (a_rx, a_own) = w.channel(a);
    let (b_rx, b_own) = w.channel(b);
    let (a_to_b, b_to_a) = (w.portal(b_own, a, 0), w.portal(a_own, b, 0));
    let first = w.thread(a, 60);
    let second = w.thread(a, 50);
    let other = w.thread(b, 40);
    let extra = w.thread(b, 30);
    w.rest();
    w.receive(first, a_rx);
    w.receive(second, a_rx);
    w.go(other, b_rx, receive::RECEIVE, flag::POLL, &[]);
    w.call(other, b_to_a, &[]);
    let asked = w.current().expect("a server");
    let asked_id = w.id(asked);
    w.go(asked, 0, current::PARK, 0, &[]);
    // Another call makes the other thread the one that serves.
    w.call(extra, b_to_a, &[]);
    let serving = w.current().expect("the other server");
    assert_ne!(serving, asked);
    // The first one's caller is the more important.
    w.go(serving, 0, current::UNPARK, 0, &[asked_id]);
    w.call(asked, a_to_b, &[]);
    assert_eq!(w.result(asked), Err(Error::Cycle));
}

#[test]
fn the_log_keeps_lines_with_their_time_and_domain() {
    let mut w = World::new();
    w.poke_init(b"hello\n");
    let init = w.init;
    w.ok(init, init_slot::LOG, log::WRITE, &[BUFFER, 6]);
    assert_eq!(w.k.arch.lines.last().expect("a line"), b"[1] hello");
    let got = w.ok(init, init_slot::LOG, log::READ, &[BUFFER + 100, 100, 0]);
    let line = format!("{} [1] hello\n", w.k.arch.time / 1000);
    assert_eq!((got[0], got[1]), (line.len() as u64, line.len() as u64));
    let too_long = w.err(init, init_slot::LOG, log::WRITE, &[BUFFER, 1025]);
    assert_eq!(too_long, Error::BadArgument);
}

impl World {
    /// Bytes at [`BUFFER`] of `init`.
    pub fn poke_init(&mut self, bytes: &[u8]) {
        let d = self.k.threads[self.init].domain;
        let dom = Dom {
            slot: 1,
            space: 2,
            id: self.k.domains[d].id,
            d,
        };
        self.poke_memory(dom, BUFFER, bytes);
    }
}

/// Threads that call each other in a ring of `of`, each with a channel of its own: how the call ends that would close it.
fn close_ring(of: usize) -> Result<[u64; 8], Error> {
    let mut w = World::with_pools(30);
    let dom = w.domain();
    let ends: Vec<_> = (0..of).map(|_| w.channel(dom)).collect();
    let calls: Vec<_> = ends.iter().map(|&(_, own)| w.portal(own, dom, 1)).collect();
    let threads: Vec<_> = (0..of).map(|_| w.thread(dom, 50)).collect();
    w.rest();
    // The first is known as the server of its channel, the others wait at theirs.
    assert_eq!(w.poll(threads[0], ends[0].0), None);
    w.go(threads[0], 0, current::YIELD, 0, &[]);
    for (&t, &(receive, _)) in threads.iter().zip(&ends).skip(1) {
        w.receive(t, receive);
    }
    for n in 0..of {
        w.call(threads[n], calls[(n + 1) % of], &[]);
    }
    let last = threads[of - 1];
    assert_eq!(w.current(), Some(last));
    w.result(last)
}

#[test]
fn a_ring_of_calls_is_not_closed_however_long_it_is() {
    for of in [2, 5, crate::dispatch::CHAIN, crate::dispatch::CHAIN + 8] {
        assert_eq!(close_ring(of), Err(Error::Cycle), "a ring of {of}");
    }
}
