//! Signatures of channels: what calls must look like, and badges in place of portals.

use super::quick::{chain, Chain};
use super::*;
use cairn_abi::service::receive::{BADGE, OPERATIONS, SIGN};

/// Room for anything.
const ANY: u64 = u64::MAX;

fn sign(c: &mut Chain, first: u64, most: [u64; 7]) -> Result<[u64; 8], Error> {
    let [a, b, d, e, f, g, h] = most;
    let server = c.threads[1];
    let slot = c.receive[1];
    c.w.go(server, slot, SIGN, 0, &[first, a, b, d, e, f, g, h]);
    c.w.result(server)
}

/// Client and server, which has signed operation 3: one word of a byte, one of a bit, and a portal. The client runs.
fn scene() -> Chain {
    let mut c = chain(2);
    c.down(1);
    sign(&mut c, 3 | BADGE, [255, 1, ANY, ANY, ANY, ANY, ANY]).expect("signed");
    c.up(1);
    // The entry's code was made for a channel without a signature, and is so no longer.
    let (d, slot) = (c.domains[0].d, c.next[0]);
    c.down(1);
    assert!(c.is_settled());
    c.up(1);
    c.w.k.uncompile(d, slot);
    for _ in 0..2 {
        c.down(1);
        c.up(1);
    }
    c
}

/// Another portal of the client's to the server's channel.
fn second(c: &mut Chain, badge: u64) -> u64 {
    let server = c.threads[1];
    let all = rights::DEFAULT as u64;
    c.down(1);
    let slot = c.receive[1];
    let made =
        c.w.ok(server, slot, receive::MAKE_PORTAL, &[badge, all, AUTO])[0];
    c.w.go(
        server,
        c.receive[1],
        receive::REPLY_RECEIVE,
        flag::portals(1) | flag::MOVE,
        &[0, 0, 0, 0, 0, 0, 0, made],
    );
    c.w.result(c.threads[0]).expect("a portal")[7]
}

fn call(c: &mut Chain, words: [u64; 8]) -> Result<[u64; 8], Error> {
    let (client, server) = (c.threads[0], c.threads[1]);
    c.w.call(client, c.next[0], &words);
    if c.w.current() == Some(client) {
        return Err(c.w.result(client).expect_err("it came back"));
    }
    assert_eq!(c.w.current(), Some(server));
    let arrived = c.w.k.threads[server].registers.words();
    c.up(1);
    Ok(arrived)
}

#[test]
fn what_arrives_is_as_the_signature_says() {
    for quick in [true, false] {
        let mut c = scene();
        let portal = second(&mut c, 0xbeef);
        c.w.quick = quick;
        let before = c.w.k.arch.quick_signed;
        let sent = [3, 255, 1, 7, 8, 9, ANY, portal];
        let arrived = [3, 255, 1, 7, 8, 9, ANY, 0xbeef];
        assert_eq!(call(&mut c, sent), Ok(arrived));
        assert_eq!(call(&mut c, sent), Ok(arrived));
        assert_eq!(c.w.k.arch.quick_signed - before, 2 * quick as u64);
        // The caller's words are its own: an answer writes them, and nothing else.
        for (place, value) in [(1, 256), (2, 2)] {
            let mut words = sent;
            words[place] = value;
            assert_eq!(call(&mut c, words), Err(Error::BadArgument));
            assert_eq!(c.w.k.threads[c.threads[0]].registers.words(), words);
        }
        // Operations without a line pass, and numbers that none can have.
        for number in [2, 4, OPERATIONS, ANY] {
            let words = [number, 256, 2, 0, 0, 0, 0, portal];
            assert_eq!(call(&mut c, words), Ok(words));
        }
    }
}

#[test]
fn nobody_can_make_up_a_badge() {
    for quick in [true, false] {
        let mut c = scene();
        let portal = second(&mut c, 0xbeef);
        let client = c.threads[0];
        let w = |word: u64| [3, 0, 0, 0, 0, 0, 0, word];
        c.w.quick = quick;
        for nothing in [0, 0xbeef, 1 << 20, 1 << 40 | portal, ANY] {
            assert_eq!(call(&mut c, w(nothing)), Err(Error::BadPortal), "{nothing}");
        }
        // To a channel of its own.
        let receive = c.w.ok(client, 0, current::CHANNEL_CREATE, &[])[0];
        assert_eq!(call(&mut c, w(receive)), Err(Error::BadPortal));
        let words = [0xbeef, rights::DEFAULT as u64, AUTO];
        let made = c.w.ok(client, receive as u32, receive::MAKE_PORTAL, &words)[0];
        assert_eq!(call(&mut c, w(made)), Err(Error::BadPortal));
        // Without the right to call, for a single use, taken back, closed.
        let copy = |c: &mut Chain, op: u8, mask: u16| {
            c.w.ok(client, 0, op, &[portal, AUTO, mask as u64])[0]
        };
        let all = rights::DEFAULT;
        let weak = copy(&mut c, current::PORTAL_COPY, all & !rights::CALL);
        assert_eq!(call(&mut c, w(weak)), Err(Error::NoRight));
        let derived = copy(&mut c, current::PORTAL_DERIVE, all);
        assert_eq!(call(&mut c, w(derived)).map(|words| words[7]), Ok(0xbeef));
        let once = copy(&mut c, current::PORTAL_DERIVE, all | rights::ONCE);
        assert_eq!(call(&mut c, w(once)), Err(Error::NoRight));
        c.w.ok(client, 0, current::PORTAL_REVOKE, &[portal]);
        assert_eq!(call(&mut c, w(derived)), Err(Error::Revoked));
        assert_eq!(call(&mut c, w(portal)).map(|words| words[7]), Ok(0xbeef));
        // Together with a portal that is passed it would be the same word.
        c.w.go(client, c.next[0], 0, flag::portals(1), &w(portal));
        assert_eq!(c.w.result(client), Err(Error::BadArgument));
        c.w.ok(client, 0, current::PORTAL_CLOSE, &[portal]);
        assert_eq!(call(&mut c, w(portal)), Err(Error::BadPortal));
    }
}

#[test]
fn who_waits_is_looked_at_when_it_is_received() {
    let mut c = chain(2);
    let (client, server) = (c.threads[0], c.threads[1]);
    let domain = c.domains[0];
    c.w.recall();
    let late: Vec<_> = (0..4).map(|_| c.w.thread(domain, 30)).collect();
    c.w.rest();
    // The server works for the first one, the others queue.
    let calls: [[u64; 8]; 4] = [
        [1; 8],
        [1, 9, 0, 0, 0, 0, 0, 0],
        [2, 9, 0, 0, 0, 0, 0, 0],
        [1, 2, 0, 0, 0, 0, 0, 7],
    ];
    c.w.call(late[0], c.next[0], &calls[0]);
    c.w.k.settle_entry();
    c.w.recall();
    c.w.ok(c.w.init, domain.slot, domain::STOP, &[]);
    c.w.ok(c.w.init, domain.slot, domain::CONTINUE, &[]);
    c.w.rest();
    assert_eq!(c.w.current(), Some(server));
    let park = |c: &mut Chain| {
        let at = c.w.k.arch.time + 10;
        c.w.ok(server, 0, current::DEADLINE, &[at]);
        c.w.go(server, 0, current::PARK, 0, &[]);
    };
    park(&mut c);
    for i in 1..4 {
        assert_eq!(c.w.current(), Some(late[i]));
        c.w.call(late[i], c.next[0], &calls[i]);
    }
    assert_eq!(c.w.current(), Some(client));
    c.w.pass_time(20);
    // From now on no word of operation 1 is above 8.
    sign(&mut c, 1, [8; 7]).expect("signed");
    c.w.reply_receive(server, c.receive[1], &[0; 8]);
    let arrived = |c: &Chain| c.w.k.threads[server].registers.words();
    assert_eq!(arrived(&c), calls[2]);
    assert_eq!(c.w.result(late[1]), Err(Error::BadArgument));
    c.w.reply_receive(server, c.receive[1], &[0; 8]);
    assert_eq!(arrived(&c), calls[3]);
}

#[test]
fn one_that_would_wait_hears_at_once() {
    let mut c = scene();
    let (client, server) = (c.threads[0], c.threads[1]);
    // The server receives elsewhere.
    c.down(1);
    c.w.ok(server, 0, current::DEADLINE, &[u64::MAX / 2]);
    c.w.go(server, c.receive[1], receive::REPLY, 0, &[]);
    c.w.go(server, 0, current::PARK, 0, &[]);
    assert_eq!(c.w.current(), Some(client));
    assert_eq!(
        call(&mut c, [3, 256, 0, 0, 0, 0, 0, 0]),
        Err(Error::BadArgument)
    );
    assert_eq!(
        call(&mut c, [3, 0, 0, 0, 0, 0, 0, 0]),
        Err(Error::BadPortal)
    );
    assert_eq!(c.w.state(client), State::Running);
}

#[test]
fn lines_are_set_cleared_and_refused() {
    let mut c = scene();
    let wide = [3, 256, 2, 0, 0, 0, 0, 0];
    c.down(1);
    for bad in [
        OPERATIONS,
        OPERATIONS | BADGE,
        AUTO | BADGE,
        1 << 33,
        3 | 1 << 40,
    ] {
        assert_eq!(sign(&mut c, bad, [0; 7]), Err(Error::BadArgument));
    }
    c.up(1);
    assert_eq!(call(&mut c, wide), Err(Error::BadArgument));
    let signed = c.w.k.arch.quick_signed;
    c.down(1);
    sign(&mut c, AUTO, [0; 7]).expect("no lines");
    c.up(1);
    assert_eq!(call(&mut c, wide), Ok(wide));
    // The code is as it was, and looks at the same place.
    c.down(1);
    sign(&mut c, OPERATIONS - 1, [5; 7]).expect("signed");
    c.up(1);
    let words = [OPERATIONS - 1, 5, 5, 5, 5, 5, 5, 5];
    assert_eq!(call(&mut c, words), Ok(words));
    assert!(c.w.k.arch.quick_signed > signed);
    for place in 1..8 {
        let mut words = words;
        words[place] = 6;
        assert_eq!(call(&mut c, words), Err(Error::BadArgument));
    }
}

#[test]
fn a_signature_goes_with_its_channel() {
    let mut c = scene();
    assert_eq!(c.w.k.signatures.live_objects(), 1);
    c.down(1);
    let server = c.threads[1];
    let (mut made, mut last) = (Vec::new(), Ok([0; 8]));
    while last.is_ok() {
        let slot = c.w.ok(server, 0, current::CHANNEL_CREATE, &[])[0] as u32;
        c.w.go(server, slot, SIGN, 0, &[1]);
        last = c.w.result(server);
        made.push(slot);
    }
    assert_eq!(last, Err(Error::NoMemory));
    assert_eq!(c.w.k.signatures.live_objects() as usize, made.len());
    for slot in made {
        c.w.ok(server, 0, current::PORTAL_CLOSE, &[slot as u64]);
    }
    assert_eq!(c.w.k.signatures.live_objects(), 1);
    c.w.recall();
    for dom in c.domains.clone() {
        c.w.destroy(dom);
    }
    c.w.check();
}

#[test]
fn a_driver_with_a_signature_is_notified_the_short_way() {
    let mut c = scene();
    let (client, server) = (c.threads[0], c.threads[1]);
    let entries = c.w.k.counters.thread_switches;
    c.w.go(client, c.next[0], 1, 0, &[4]);
    assert_eq!(c.w.current(), Some(server));
    assert_eq!(c.w.pulse(server).1, 4);
    assert_eq!(c.w.k.counters.thread_switches, entries + 1);
}
