//! Quick calls and their settlement.

use super::*;
use crate::portal::code::Known;
use crate::portal::table::{Target, MORE_USES};
use crate::quick::LINKS;
use cairn_abi::service::semaphore;
use cairn_abi::{received, PortalKind};

pub struct Chain {
    pub w: World,
    pub threads: Vec<ThreadRef>,
    pub domains: Vec<Dom>,
    /// Slot of the portal to the next one, and of the receive right.
    pub next: Vec<u32>,
    pub receive: Vec<u32>,
}

/// Thread 0 calls thread 1, which calls thread 2, and so on. All but the first wait; every call was made once before.
pub fn chain(len: usize) -> Chain {
    let mut w = World::with_pools(24);
    w.quick = true;
    let domains: Vec<Dom> = (0..len).map(|_| w.domain()).collect();
    for dom in &domains[1..] {
        let words = [0, 255];
        w.ok(w.init, dom.slot, domain::CONFIGURE, &words);
    }
    let mut next = Vec::new();
    let mut receive = vec![0];
    for i in 1..len {
        let (slot, own) = w.channel(domains[i]);
        receive.push(slot);
        next.push(w.portal(own, domains[i - 1], 1000 + i as u64));
    }
    // The first is the least important: it runs when all wait.
    let threads: Vec<ThreadRef> = domains
        .iter()
        .enumerate()
        .map(|(i, dom)| w.thread(*dom, if i == 0 { 20 } else { 100 }))
        .collect();
    w.rest();
    for i in 1..len {
        w.receive(threads[i], receive[i]);
    }
    let mut chain = Chain {
        w,
        threads,
        domains,
        next,
        receive,
    };
    chain.down(len - 1);
    chain.up(len - 1);
    chain
}

impl Chain {
    /// The first `n` calls.
    pub fn down(&mut self, n: usize) {
        for i in 0..n {
            self.w.call(self.threads[i], self.next[i], &[i as u64; 8]);
            assert_eq!(self.w.current(), Some(self.threads[i + 1]));
        }
    }

    /// Their replies.
    pub fn up(&mut self, n: usize) {
        for i in (1..=n).rev() {
            let words = [100 + i as u64; 8];
            self.w
                .reply_receive(self.threads[i], self.receive[i], &words);
            assert_eq!(self.w.current(), Some(self.threads[i - 1]));
        }
    }

    pub fn is_settled(&self) -> bool {
        self.w.k.arch.running == 0
    }
}

#[test]
fn a_quick_call_changes_nothing_but_who_runs() {
    let mut c = chain(3);
    let (client, server) = (c.threads[0], c.threads[1]);
    c.down(1);
    assert!(!c.is_settled());
    assert_eq!(c.w.k.dispatch.current, Some(client));
    assert_eq!(c.w.state(server), State::Receiving);
    let r = c.w.k.threads[server].registers;
    assert_eq!(r.words(), [0; 8]);
    assert_eq!(r.rax, (c.domains[0].id as u64) << received::SENDER_SHIFT);
    assert_eq!((r.rbx, r.rbp), (1001, c.w.k.threads[client].token));
    c.up(1);
    assert!(c.is_settled());
    assert_eq!(c.w.result(client), Ok([101; 8]));
    c.w.check();
}

#[test]
fn a_chain_is_settled_whole() {
    let mut c = chain(5);
    c.down(4);
    assert!(!c.is_settled());
    c.w.k.settle_entry();
    assert!(c.is_settled());
    c.w.check();
    let k = &c.w.k;
    for i in 0..4 {
        let thread = &k.threads[c.threads[i]];
        assert_eq!(
            (thread.state, thread.server),
            (State::Held, Some(c.threads[i + 1]))
        );
        assert_eq!(thread.registers.rax, c.next[i] as u64);
        assert_eq!(k.threads[c.threads[i + 1]].effective, 20);
    }
    assert_eq!(k.dispatch.current, Some(c.threads[4]));
    // And goes back, the settled way; after that calls are quick again.
    c.up(4);
    c.w.check();
    c.down(2);
    assert!(!c.is_settled());
}

#[test]
fn what_is_unusual_takes_the_other_way() {
    let mut c = chain(2);
    let (client, server) = (c.threads[0], c.threads[1]);
    // A deadline for the call.
    let at = c.w.k.arch.time + 1_000_000;
    c.w.ok(client, 0, current::DEADLINE, &[at]);
    c.down(1);
    assert!(c.is_settled());
    c.up(1);
    c.down(1);
    assert!(!c.is_settled());
    // A deadline of the server for what it does next.
    c.w.ok(server, 0, current::DEADLINE, &[at]);
    assert!(c.is_settled());
    c.up(1);
    c.down(1);
    assert!(c.is_settled(), "it waited with a deadline");
    c.up(1);
    // A flag that the code was not made for.
    c.w.go(client, c.next[0], 0, flag::PARTS, &[7]);
    assert!(c.is_settled());
    c.up(1);
    // A wrong token: an error for the server, nothing for the client.
    c.down(1);
    c.w.k.threads[server].registers.rbp ^= 1 << 40;
    let slot = c.receive[1];
    assert_eq!(
        c.w.err(server, slot, receive::REPLY_RECEIVE, &[]),
        Error::BadToken
    );
    assert_eq!(c.w.state(client), State::Held);
}

#[test]
fn so_many_calls_at_most_are_not_settled() {
    let mut c = chain(LINKS as usize + 3);
    c.down(LINKS as usize - 1);
    assert!(!c.is_settled());
    assert_eq!(c.w.k.arch.links, 1);
    let (i, slot) = (LINKS as usize - 1, c.next[LINKS as usize - 1]);
    c.w.call(c.threads[i], slot, &[]);
    assert!(c.is_settled());
    c.w.check();
    c.up(LINKS as usize);
    c.w.check();
}

#[test]
fn a_stopped_server_is_not_plain() {
    for stop_domain in [false, true] {
        let mut c = chain(2);
        let (client, server) = (c.threads[0], c.threads[1]);
        c.w.recall();
        let (init, slot, id) = (c.w.init, c.domains[1].slot, c.w.id(server));
        if stop_domain {
            c.w.ok(init, slot, domain::STOP, &[]);
        } else {
            let words = [id, thread::STOP as u64];
            c.w.ok(init, slot, domain::THREAD_CONTROL, &words);
        }
        c.w.rest();
        c.w.call(client, c.next[0], &[5]);
        assert_eq!(c.w.state(server), State::Stopped);
        assert_eq!(c.w.state(client), State::Held);
        assert_eq!(c.w.current(), None);
    }
}

#[test]
fn a_block_goes_back_with_its_entry() {
    let mut c = chain(2);
    let client = c.threads[0];
    // Of the call, and of the client's own slot 0.
    c.w.ok(client, 0, current::IDENTITY, &[]);
    let before = c.w.k.blocks.live_objects();
    let slot = c.next[0];
    let entry = c.w.k.domains[c.domains[0].d].table.entry(slot).copied();
    assert_eq!(entry.map(|e| e.target.uses()), Some(MORE_USES));
    // Without the right to call there is nothing to run.
    let mask = (rights::DEFAULT & !rights::CALL) as u64;
    c.w.ok(
        client,
        0,
        current::PORTAL_COPY,
        &[slot as u64, slot as u64, mask],
    );
    assert_eq!(c.w.k.blocks.live_objects(), before - 1);
    assert_eq!(c.w.err(client, slot, 0, &[]), Error::NoRight);
    c.w.recall();
    let dom = c.domains[0];
    c.w.destroy(dom);
    assert_eq!(c.w.k.domains[c.domains[1].d].blocks, 0);
    assert_eq!(
        c.w.k.blocks.live_objects(),
        c.w.k
            .domains
            .all()
            .map(|d| c.w.k.domains[d].blocks)
            .sum::<u32>()
    );
}

#[test]
fn the_receive_right_of_a_reply_is_looked_at() {
    let mut c = chain(2);
    let (client, server) = (c.threads[0], c.threads[1]);
    let slot = c.receive[1] as u64;
    // The server puts another channel's receive right into the slot, and waits at the old channel through a copy.
    c.down(1);
    let words = [slot, AUTO, u64::MAX];
    let to = c.w.ok(server, 0, current::PORTAL_COPY, &words)[0] as u32;
    let other = c.w.ok(server, 0, current::CHANNEL_CREATE, &[])[0];
    let words = [other, slot, u64::MAX];
    c.w.ok(server, 0, current::PORTAL_COPY, &words);
    c.w.reply_receive(server, to, &[1]);
    c.w.call(client, c.next[0], &[5]);
    assert!(!c.is_settled());
    assert_eq!(c.w.current(), Some(server));
    // The old slot leads elsewhere, so the answer does not go through it.
    let wrong = c.w.err(server, slot as u32, receive::REPLY_RECEIVE, &[]);
    assert_eq!(wrong, Error::BadToken);
    assert_eq!(c.w.state(client), State::Held);
    c.w.reply_receive(server, to, &[1]);
    assert_eq!(c.w.result(client), Ok([1, 0, 0, 0, 0, 0, 0, 0]));
}

#[test]
fn identity_needs_no_settlement() {
    let mut c = chain(2);
    c.down(1);
    let server = c.threads[1];
    // The first use makes the code.
    c.w.ok(server, 0, current::IDENTITY, &[]);
    c.up(1);
    c.down(1);
    assert!(!c.is_settled());
    let words = c.w.ok(server, 0, current::IDENTITY, &[]);
    assert!(!c.is_settled());
    assert_eq!(words[..2], [c.w.id(server), c.domains[1].id as u64]);
}

#[test]
fn an_entry_keeps_its_code_however_often_its_calls_are_settled() {
    let mut c = chain(2);
    for _ in 0..200 {
        c.down(1);
        assert!(!c.is_settled());
        c.w.k.settle_entry();
        c.up(1);
    }
    c.w.check();
}

/// Two domains whose threads leave others' float registers alone, with a thread each of this priority, and plain semaphores in both tables.
struct Ring {
    w: World,
    threads: Vec<ThreadRef>,
    doms: Vec<Dom>,
    slots: Vec<u32>,
}

fn ring(domains: usize, counts: &[u64]) -> Ring {
    let mut w = World::with_pools(24);
    w.quick = true;
    let doms: Vec<Dom> = (0..domains).map(|_| w.domain()).collect();
    let init = w.init;
    for dom in &doms {
        w.ok(init, dom.slot, domain::CONFIGURE, &[0, 255]);
    }
    let mut slots = Vec::new();
    for &count in counts {
        let own = w.ok(init, 0, current::SEMAPHORE_CREATE, &[count, 0, AUTO])[0];
        for dom in &doms {
            let put = [own, AUTO, rights::ALL as u64];
            let at = w.ok(init, dom.slot, domain::PORTAL_PUT, &put)[0] as u32;
            slots.push(at);
        }
        w.close_own(own as u32);
    }
    // The same slot in every table.
    slots.dedup();
    assert_eq!(slots.len(), counts.len());
    let threads = doms.iter().map(|dom| w.thread(*dom, 40)).collect();
    w.rest();
    Ring {
        w,
        threads,
        doms,
        slots,
    }
}

#[test]
fn p_and_v_without_contention_need_no_entry() {
    let mut r = ring(1, &[0]);
    let (t, slot) = (r.threads[0], r.slots[0]);
    // The first use makes the code.
    r.w.ok(t, slot, semaphore::V, &[]);
    let entries = r.w.k.counters.entries;
    r.w.ok(t, slot, semaphore::P, &[]);
    for _ in 0..3 {
        r.w.ok(t, slot, semaphore::V, &[]);
    }
    assert_eq!(r.w.k.counters.entries, entries);
    assert_eq!(r.w.ok(t, slot, semaphore::INFO, &[])[0], 3);
    // It counts no further, and says so.
    let s = r.w.k.semaphores.all().next().expect("one");
    r.w.k.semaphores[s].count = i32::MAX;
    assert_eq!(r.w.err(t, slot, semaphore::V, &[]), Error::Busy);
    assert_eq!(r.w.k.semaphores[s].count, i32::MAX);
    // And no further down.
    r.w.k.semaphores[s].count = 0;
    r.w.go(t, slot, semaphore::P, flag::POLL, &[]);
    assert_eq!(r.w.result(t), Err(Error::TimedOut));
    r.w.go(t, slot, semaphore::P, 0, &[]);
    assert_eq!(r.w.state(t), State::Waiting);
    r.w.recall();
    let dom = r.doms[0];
    r.w.destroy(dom);
    assert_eq!(r.w.k.semaphores.live_objects(), 0);
}

#[test]
fn rights_hold_for_the_code_of_a_semaphore() {
    let mut r = ring(1, &[5]);
    let (t, slot) = (r.threads[0], r.slots[0] as u64);
    for (right, may, may_not) in [
        (rights::CALL, semaphore::P, semaphore::V),
        (rights::NOTIFY, semaphore::V, semaphore::P),
    ] {
        let words = [slot, AUTO, right as u64];
        let copy = r.w.ok(t, 0, current::PORTAL_COPY, &words)[0] as u32;
        for _ in 0..3 {
            r.w.ok(t, copy, may, &[]);
            assert_eq!(r.w.err(t, copy, may_not, &[]), Error::NoRight);
        }
    }
}

#[test]
fn a_turn_is_handed_round() {
    const DOMAINS: usize = 3;
    let mut r = ring(DOMAINS, &[0; DOMAINS]);
    // Each waits for its own.
    for i in 1..DOMAINS {
        let t = r.threads[i];
        r.w.recall();
        r.w.rest();
        while r.w.current() != Some(t) {
            let other = r.w.current().expect("somebody");
            r.w.go(other, 0, current::YIELD, 0, &[]);
        }
        r.w.go(t, r.slots[i], semaphore::P, 0, &[]);
        assert_eq!(r.w.state(t), State::Waiting);
    }
    assert_eq!(r.w.current(), Some(r.threads[0]));
    for turn in 0..4 * DOMAINS {
        let (i, next) = (turn % DOMAINS, (turn + 1) % DOMAINS);
        let switched = r.w.k.arch.switched;
        let own = [r.slots[i] as u64];
        let t = r.threads[i];
        r.w.go(t, r.slots[next], semaphore::V_THEN_P, 0, &own);
        assert_eq!(r.w.current(), Some(r.threads[next]));
        assert_eq!(r.w.k.threads[r.threads[next]].registers.rax, 0);
        // The first time everybody's entry had no code.
        assert_eq!(r.w.k.arch.switched - switched, u64::from(turn >= DOMAINS));
        r.w.check();
    }
    // Two that wait, and one that is not to run.
    let (init, dom) = (r.w.init, r.doms[1]);
    r.w.recall();
    r.w.ok(init, dom.slot, domain::STOP, &[]);
    r.w.rest();
    let switched = r.w.k.arch.switched;
    let (t, own) = (r.threads[0], [r.slots[0] as u64]);
    r.w.go(t, r.slots[1], semaphore::V_THEN_P, 0, &own);
    assert_eq!(r.w.current(), None);
    assert_eq!(r.w.state(r.threads[1]), State::Stopped);
    assert_eq!(r.w.k.arch.switched, switched);
}

#[test]
fn yields_go_round_in_order_of_arrival() {
    let mut r = ring(3, &[]);
    let order = |r: &mut Ring, turns: usize| -> Vec<ThreadRef> {
        let mut seen = Vec::new();
        for _ in 0..turns {
            let t = r.w.current().expect("somebody");
            seen.push(t);
            r.w.go(t, 0, current::YIELD, 0, &[]);
            r.w.check();
        }
        seen
    };
    // The first round gives each its code, and loads registers that no system call left.
    let first = order(&mut r, 6);
    assert_eq!(first[..3], first[3..]);
    let switched = r.w.k.arch.switched;
    assert_eq!(order(&mut r, 6), first);
    assert_eq!(r.w.k.arch.switched, switched + 6);
    // Time is charged to who used it.
    r.w.k.arch.time += 100;
    let t = r.w.current().expect("somebody");
    let before = r.w.k.threads[t].ticks;
    order(&mut r, 1);
    assert!(r.w.k.threads[t].ticks >= before + 100);
    // After the end of a quantum the timer is set again, by the general way.
    r.w.pass_time(crate::thread::QUANTUM * 3);
    let switched = r.w.k.arch.switched;
    order(&mut r, 2);
    assert!(r.w.k.arch.switched < switched + 2);
    assert!(r.w.k.arch.timer.is_some());
}

#[test]
fn the_time_needs_no_entry() {
    let mut r = ring(1, &[]);
    let t = r.threads[0];
    r.w.ok(t, 0, current::CLOCK, &[]);
    let entries = r.w.k.counters.entries;
    r.w.k.arch.time += 17;
    let now = r.w.k.arch.time;
    assert_eq!(r.w.ok(t, 0, current::CLOCK, &[])[0], now);
    assert_eq!(r.w.k.counters.entries, entries);
}

#[test]
fn objects_are_found_by_their_addresses_and_by_no_others() {
    let c = chain(4);
    let threads = &c.w.k.threads;
    let addresses: Vec<usize> = c.threads.iter().map(|&t| threads.address(t)).collect();
    for (&t, &address) in c.threads.iter().zip(&addresses) {
        assert_eq!(threads.at_address(address), Some(t));
        for other in (1..64).chain([1 << 20, 1 << 40, usize::MAX / 2]) {
            assert_eq!(threads.at_address(address + other), None);
            assert_eq!(threads.at_address(address.wrapping_sub(other)), None);
        }
    }
    assert_eq!(threads.at_address(0), None);
}

/// A server with registers of its own is called quickly while these are in the processor, and only then; it always finds them.
#[test]
fn registers_of_the_servers_own_are_there_when_it_is_called() {
    let mut w = World::with_pools(24);
    w.quick = true;
    let (server, client, receive, portal) = w.pair();
    let third = w.domain();
    let init = w.init;
    w.ok(init, client.slot, domain::CONFIGURE, &[0, 255]);
    let s = w.thread(server, 100);
    let c = w.thread(client, 20);
    w.rest();
    w.receive(s, receive);
    let mut left = 0;
    let mut turn = |w: &mut World, quick: bool| {
        let before = w.k.arch.quick_own;
        w.call(c, portal, &[1]);
        assert_eq!(w.k.who_runs(), Some(s));
        assert_eq!(w.k.arch.quick_own - before, quick as u64);
        assert_eq!(w.k.arch.float, left);
        left += 5;
        w.k.arch.float = left;
        w.reply_receive(s, receive, &[2]);
        assert_eq!(w.k.who_runs(), Some(c));
    };
    // The entry gets its code by the first call.
    turn(&mut w, false);
    for _ in 0..3 {
        turn(&mut w, true);
    }
    // Another thread has registers of its own in between.
    w.recall();
    let other = w.thread(third, 150);
    w.rest();
    assert_eq!(w.current(), Some(other));
    w.k.arch.float = 1000;
    w.ok(other, 0, current::EXIT, &[0]);
    assert_eq!(w.current(), Some(c));
    turn(&mut w, false);
    turn(&mut w, true);
    // Somebody else comes in while it works.
    w.call(c, portal, &[1]);
    assert!(w.k.arch.running != 0);
    w.k.settle_entry();
    assert_eq!(w.current(), Some(s));
    w.reply_receive(s, receive, &[2]);
    turn(&mut w, true);
    w.check();
}

/// A long game of clients and servers, with registers of their own and without, some of whose calls are settled in between: whoever runs and has its own finds what it left there.
#[test]
fn whoever_has_registers_of_its_own_finds_what_it_left() {
    const SERVERS: usize = 4;
    let mut w = World::with_pools(24);
    w.quick = true;
    let init = w.init;
    // First the servers, each of which may call those behind it, then the clients: one of each sort.
    let doms: Vec<Dom> = (0..SERVERS + 2).map(|_| w.domain()).collect();
    let is_own = |i: usize| i % 2 == 1;
    for (i, dom) in doms.iter().enumerate() {
        let words = [is_own(i) as u64, 255];
        w.ok(init, dom.slot, domain::CONFIGURE, &words);
    }
    let mut portals: Vec<Vec<u32>> = vec![Vec::new(); doms.len()];
    let mut receive = Vec::new();
    for server in 0..SERVERS {
        let (slot, own) = w.channel(doms[server]);
        receive.push(slot);
        for client in (0..server).chain(SERVERS..doms.len()) {
            portals[client].push(w.portal(own, doms[client], 7));
        }
    }
    let threads: Vec<ThreadRef> = doms
        .iter()
        .enumerate()
        .map(|(i, dom)| w.thread(*dom, if i < SERVERS { 100 } else { 20 }))
        .collect();
    w.rest();
    for (t, slot) in threads.iter().zip(&receive) {
        w.receive(*t, *slot);
    }
    let mut left = vec![0; threads.len()];
    let mut chance = 88172645463325252u64;
    for _ in 0..20_000 {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        let t = w.k.who_runs().expect("a client can always go on");
        let who = threads
            .iter()
            .position(|&thread| thread == t)
            .expect("one of them");
        if is_own(who) {
            assert_eq!(w.k.arch.float, left[who]);
            left[who] = chance;
            w.k.arch.float = chance;
        }
        let given = &portals[who];
        match chance % 16 {
            0 => w.k.settle_entry(),
            1 if who >= SERVERS => w.go(t, 0, current::YIELD, 0, &[]),
            2..=8 if who < SERVERS => w.reply_receive(t, receive[who], &[chance]),
            _ if !given.is_empty() => {
                let slot = given[(chance >> 8) as usize % given.len()];
                w.call(t, slot, &[chance]);
            }
            _ => w.reply_receive(t, receive[who], &[chance]),
        }
    }
    assert!(w.k.arch.quick_own > 1000, "{}", w.k.arch.quick_own);
    w.k.settle_entry();
    w.check();
}

/// While a server is down, its thread's and its domain's places are taken by others, until ids repeat. The code that clients have must not take the successor for the old one.
#[test]
fn code_of_a_portal_never_meets_a_stranger() {
    const GENERATIONS: usize = 1 << 12;
    let mut c = chain(2);
    let (slot, old, client) = (c.next[0], c.threads[1], c.domains[0]);
    let old_id = c.w.id(old);
    let code_of = |w: &World| {
        let entry = w.k.domains[client.d].table.entry(slot);
        entry.expect("an entry").code
    };
    let code = code_of(&c.w);
    let constants = c.w.k.arch.codes[&(code as u32)];
    let domain_at = constants[Known::ServerDomain as usize];
    c.w.checked = false;
    c.w.recall();
    let init = c.w.init;
    let of_init = c.w.k.threads[init].domain;
    let is_receive = |target: Target| target.kind() == PortalKind::Receive;
    let table = &c.w.k.domains[of_init].table;
    let own = (64..200)
        .find(|&slot| table.target(slot).is_some_and(is_receive))
        .expect("init's receive right");
    c.w.destroy(c.domains[1]);
    c.w.close_own(c.domains[1].slot);
    let stranger = c.w.domain();
    assert_eq!(c.w.k.domains.address(stranger.d) as u64, domain_at);
    c.w.ok(init, stranger.slot, domain::CONFIGURE, &[0, 255]);
    for _ in 1..GENERATIONS {
        let t = c.w.thread(client, 1);
        assert_eq!(t, old);
        let words = [c.w.id(t), thread::KILL as u64];
        c.w.ok(init, client.slot, domain::THREAD_CONTROL, &words);
    }
    let heir = c.w.domain();
    c.w.ok(init, heir.slot, domain::CONFIGURE, &[0, 255]);
    let words = [own, AUTO, u64::MAX];
    let there = c.w.ok(init, heir.slot, domain::PORTAL_PUT, &words)[0] as u32;
    let t = c.w.thread(heir, 100);
    assert_eq!((t, c.w.id(t)), (old, old_id), "the same id again");
    c.w.rest();
    c.w.receive(t, there);
    assert_eq!(code, code_of(&c.w), "the client has the old code still");
    let at = constants[Known::Channel as usize] as usize;
    let channel = c.w.k.channels.at_address(at).expect("the channel");
    let waits = c.w.k.channels[channel].plain;
    assert_ne!(waits, 0, "the successor waits plainly");
    // That is all that the code looks at, before it loads the page tables of the domain at its constant address.
    assert_ne!(waits, constants[Known::Plain as usize]);
    assert_ne!(c.w.k.domains.address(heir.d) as u64, domain_at);
}

/// Who could not be counted any more is served by the general path alone.
#[test]
fn a_server_that_has_no_number_is_never_plain() {
    let mut w = World::new();
    w.k.servers = u32::MAX - 1;
    let servers = [100, 90].map(|priority| {
        let dom = w.domain();
        (w.channel(dom).0, w.thread(dom, priority))
    });
    w.rest();
    let plain = servers.map(|(slot, t)| {
        w.receive(t, slot);
        w.k.threads[t].plain
    });
    assert_ne!(plain[0], 0);
    assert_eq!((plain[1], w.k.servers), (0, u32::MAX));
}
