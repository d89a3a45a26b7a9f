//! Page faults: of programs, and of the nucleus when it copies for them.

use super::*;
use cairn_abi::state::upcall;
use cairn_abi::{death, fault, pulse, received};

struct Scene {
    w: World,
    pager: Dom,
    client: Dom,
    p: ThreadRef,
    c: ThreadRef,
    rx: u32,
    /// `init`'s receive right of the pager's channel.
    own: u32,
}

/// A client whose memory is served by a pager that waits.
fn scene() -> Scene {
    let mut w = World::new();
    let pager = w.domain();
    let (rx, own) = w.channel(pager);
    let client = w.domain_with_pager(own as u64, 500);
    let p = w.thread(pager, 100);
    let c = w.thread(client, 50);
    w.rest();
    w.receive(p, rx);
    Scene {
        w,
        pager,
        client,
        p,
        c,
        rx,
        own,
    }
}

const HOLE: u64 = 0x50_0000;

impl World {
    /// `init` maps a page into the client, as `vm` would, and the pager goes on.
    fn supply(&mut self, dom: Dom, address: u64) {
        self.recall();
        self.map(dom, address, prot::READ | prot::WRITE);
        self.rest();
    }

    fn fault(&mut self, address: u64, bits: u64) {
        self.k.page_fault(address, bits);
        self.check();
    }
}

#[test]
fn a_fault_is_a_message_and_the_access_is_tried_again() {
    let Scene {
        mut w,
        client,
        p,
        c,
        rx,
        ..
    } = scene();
    w.k.threads[c].registers.rip = 0x1234;
    w.k.threads[c].registers.rdi = 99;
    w.fault(HOLE + 8, fault::WRITE);
    assert_eq!(w.current(), Some(p));
    let r = w.k.threads[p].registers;
    let id = w.id(c);
    assert_eq!(r.words()[..4], [HOLE + 8, fault::WRITE, 0x1234, id]);
    assert_eq!((r.rax >> 8) as u8, received::kind::FAULT);
    assert_eq!(r.rax >> received::SENDER_SHIFT, client.id as u64);
    assert_eq!(r.rbx, 500);
    assert_eq!(w.effective(p), 50);
    w.reply_receive(p, rx, &[fault::RESOLVED]);
    assert_eq!(w.current(), Some(c));
    let r = w.k.threads[c].registers;
    assert_eq!((r.rip, r.rdi), (0x1234, 99), "nothing of it was touched");
    assert!(w.full);
}

#[test]
fn a_refused_fault_is_an_exception() {
    let Scene {
        mut w,
        client,
        p,
        c,
        rx,
        ..
    } = scene();
    w.recall();
    let init = w.init;
    w.ok(
        init,
        client.slot,
        domain::SET_TURN,
        &[0x7000_0000, 0x7000_0100, 0x7000_0200],
    );
    let watch = w.ok(init, 0, current::CHANNEL_CREATE, &[])[0];
    w.ok(init, client.slot, domain::WATCH, &[watch, 3]);
    w.rest();
    w.fault(HOLE, fault::PRESENT | fault::WRITE);
    w.reply_receive(p, rx, &[fault::REFUSED, 2]);
    assert_eq!(w.current(), Some(c));
    let r = w.k.threads[c].registers;
    assert_eq!((r.rip, r.rdi, r.rsi), (0x7000_0200, upcall::EXCEPTION, 14));
    assert_eq!((r.rdx, r.r10, r.r9), (7, HOLE, 2));
    // Inside the upcall nobody helps.
    w.fault(HOLE, 0);
    w.reply_receive(p, rx, &[fault::REFUSED]);
    assert_eq!(w.current(), None);
    w.recall();
    w.receive(init, watch as u32);
    let words = w.k.threads[init].registers.words();
    assert_eq!(
        (words[0], words[2], words[3]),
        (pulse::DEATH, death::FAULT, HOLE)
    );
}

#[test]
fn kernel_addresses_and_missing_pagers_are_exceptions_at_once() {
    let Scene { mut w, p, c, .. } = scene();
    w.fault(0xffff_8000_0000_0000, 0);
    assert_eq!(w.state(p), State::Receiving);
    assert_eq!(w.state(c), State::Stopped);
    let mut w = World::new();
    let dom = w.domain();
    let t = w.thread(dom, 50);
    w.rest();
    w.fault(HOLE, 0);
    assert_eq!(w.state(t), State::Stopped);
}

#[test]
fn a_fault_while_copying_waits_for_the_pager_and_goes_on() {
    let Scene {
        mut w,
        client,
        p,
        c,
        rx,
        own,
        ..
    } = scene();
    w.recall();
    let server = w.domain_with_pager(own as u64, 501);
    let (srx, sown) = w.channel(server);
    let tx = w.portal(sown, client, 1);
    let s = w.thread(server, 80);
    w.rest();
    w.receive(s, srx);
    // The client's part begins in a present page and goes on in a hole.
    let edge = BUFFER + BUFFER_PAGES * 4096;
    w.poke_memory(client, edge - 100, &[7; 100]);
    let r = &mut w.k.threads[c].registers;
    (r.r14, r.r15, r.rbx, r.rbp) = (edge - 100, 300, HOLE, 50);
    w.go(c, tx, 0, flag::PARTS, &[]);
    assert_eq!(w.current(), Some(s));
    let token = w.token(s);
    w.go(s, srx, receive::READ, 0, &[token, 0, BUFFER, 300, 0]);
    assert_eq!(w.current(), Some(p), "the pager is asked");
    let r = w.k.threads[p].registers;
    assert_eq!(r.words()[..2], [edge, fault::COPY]);
    assert_eq!(
        (r.rbx, r.rax >> 32),
        (500, client.id as u64),
        "about the client's memory"
    );
    assert_eq!(r.words()[4], server.id as u64, "who waits");
    assert_eq!(w.effective(p), 50);
    w.supply(client, edge);
    w.reply_receive(p, rx, &[fault::RESOLVED]);
    assert_eq!(w.current(), Some(s));
    w.settle();
    assert_eq!(w.result(s).expect("read")[0], 300);
    let got = w.peek_memory(server, BUFFER, 300);
    assert_eq!((&got[..100], &got[100..]), (&[7; 100][..], &[0; 200][..]));
    // The server's own memory is not there.
    w.go(s, srx, receive::READ, 0, &[token, 0, HOLE, 10, 0]);
    let r = w.k.threads[p].registers;
    assert_eq!(r.words()[..2], [HOLE, fault::COPY | fault::WRITE]);
    assert_eq!((r.rbx, r.rax >> 32), (501, server.id as u64));
    w.reply_receive(p, rx, &[fault::REFUSED]);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.result(s), Err(Error::BadAddress));
    // A reply with data into the client's hole.
    let r = &mut w.k.threads[s].registers;
    (r.rbp, r.r14, r.r15, r.rbx) = (token, BUFFER, 50, 0);
    w.go(s, srx, receive::REPLY, flag::PARTS, &[50]);
    assert_eq!(w.current(), Some(p));
    w.reply_receive(p, rx, &[fault::REFUSED]);
    assert_eq!(w.result(s), Err(Error::BadAddress));
    assert_eq!(w.state(c), State::Held, "still there for another answer");
    w.k.threads[s].registers.rbp = token;
    w.reply_receive(s, srx, &[(-14i64) as u64]);
    assert_eq!(w.result(c).expect("answered")[0], (-14i64) as u64);
}

#[test]
fn a_pager_never_waits_for_itself() {
    let Scene {
        mut w,
        client,
        pager,
        p,
        c,
        rx,
        own,
    } = scene();
    w.recall();
    let tx = w.portal(own, client, 1);
    w.rest();
    let r = &mut w.k.threads[c].registers;
    (r.r14, r.r15, r.rbx, r.rbp) = (HOLE, 10, 0, 0);
    w.go(c, tx, 0, flag::PARTS, &[]);
    assert_eq!(w.current(), Some(p));
    let token = w.token(p);
    let got = w.err(p, rx, receive::READ, &[token, 0, BUFFER, 10]);
    assert_eq!(got, Error::BadAddress);
    let _ = pager;
}

#[test]
fn faulting_threads_survive_the_end_of_their_pager() {
    let Scene {
        mut w,
        pager,
        c,
        p,
        own,
        ..
    } = scene();
    w.fault(HOLE, 0);
    assert_eq!(w.current(), Some(p));
    w.recall();
    w.destroy(pager);
    // Nobody can help: an exception, and without a personality the end.
    assert_eq!(w.state(c), State::Stopped);
    w.close_own(own);
}

#[test]
fn a_deadline_outlives_a_fault() {
    let Scene {
        mut w,
        client,
        p,
        c,
        rx,
        ..
    } = scene();
    let now = w.k.arch.time;
    w.ok(c, 0, current::DEADLINE, &[now + 1000]);
    w.fault(HOLE, 0);
    w.pass_time(2000);
    assert_eq!(w.current(), Some(p));
    w.supply(client, HOLE);
    w.reply_receive(p, rx, &[fault::RESOLVED]);
    assert_eq!(w.k.threads[c].deadline, now + 1000);
    w.go(c, 0, current::PARK, 0, &[]);
    w.pass_time(1);
    assert_eq!(w.result(c), Err(Error::TimedOut));
}

#[test]
fn a_killed_faulter_is_told_to_the_pager() {
    let Scene {
        mut w,
        client,
        p,
        rx,
        ..
    } = scene();
    w.fault(HOLE, 0);
    let token = w.token(p);
    w.recall();
    w.destroy(client);
    w.rest();
    w.reply(p, rx, &[0]);
    assert_eq!(w.result(p), Err(Error::BadToken));
    assert_eq!(w.poll(p, rx), Some((pulse::GONE, token, 500)));
}
