//! The trace, and failures on request.

use super::*;
use cairn_abi::service::{machine, trace};
use cairn_abi::trace::{inject, kind, Record, SIZE};
use cairn_abi::PortalKind;

/// `init` with a trace portal.
fn traced() -> (World, u32) {
    let mut w = World::new();
    let init = w.init;
    let slot = w.ok(init, MACHINE, machine::TRACE, &[AUTO])[0] as u32;
    (w, slot)
}

/// All records that are there.
fn records(w: &mut World, slot: u32) -> Vec<Record> {
    let init = w.init;
    let mut all = Vec::new();
    let mut next = 0;
    loop {
        let told = w.ok(init, slot, trace::READ, &[BUFFER, 4096, next]);
        let count = told[0] as usize;
        let root = w.k.spaces[w.k.domains[w.k.threads[init].domain].space].root;
        let mut bytes = vec![0; count * SIZE];
        use crate::arch::Arch;
        w.k.arch
            .read_user(root.expect("root"), BUFFER, &mut bytes)
            .expect("mapped");
        all.extend(
            bytes
                .chunks_exact(SIZE)
                .map(|b| Record::from_bytes(b.try_into().expect("whole"))),
        );
        if count == 0 {
            return all;
        }
        next = told[1] + told[0];
    }
}

#[test]
fn records_survive_their_encoding() {
    let record = Record {
        time: 1 << 60,
        length: 77,
        kind: 6,
        core: 7,
        operation: 2,
        portal: 3,
        error: 4,
        thread: 5,
        domain: 6,
        next_thread: 7,
        next_domain: u32::MAX,
        detail: 9 << 40,
    };
    let bytes: Vec<u8> = record
        .to_words()
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    assert_eq!(
        Record::from_bytes(bytes[..].try_into().expect("whole")),
        record
    );
}

#[test]
fn a_call_and_its_reply_are_in_the_trace_with_who_ran_before_and_after() {
    let (mut w, slot) = traced();
    let (server, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 0x77);
    let s = w.thread(server, 100);
    let c = w.thread(client, 90);
    let init = w.init;
    assert!(!w.k.arch.twins);
    w.ok(init, slot, trace::START, &[]);
    assert!(w.k.arch.twins);
    w.rest();
    w.receive(s, rx);
    w.call(c, tx, &[]);
    w.reply_receive(s, rx, &[]);
    w.k.traced(kind::TIMER, 0x30, |k| k.timer());
    w.recall();
    w.ok(init, slot, trace::STOP, &[]);
    assert!(!w.k.arch.twins);
    w.ok(init, 0, current::IDENTITY, &[]);
    let all = records(&mut w, slot);
    let ids = |t| w.k.threads.id(t);
    let channel = w.k.channels.id(w.k.channels.all().next().expect("one"));
    let shape: Vec<_> = all
        .iter()
        .map(|r| (r.kind, r.portal, r.operation, r.thread, r.next_thread))
        .collect();
    let call = kind::SYSCALL;
    let (me, receive_kind) = (PortalKind::Current as u8, PortalKind::Receive as u8);
    assert_eq!(
        shape,
        [
            (call, me, current::PARK, ids(init), ids(s)),
            (call, receive_kind, receive::RECEIVE, ids(s), ids(c)),
            (call, PortalKind::Channel as u8, 0, ids(c), ids(s)),
            (call, receive_kind, receive::REPLY_RECEIVE, ids(s), ids(c)),
            (kind::TIMER, 0, 0, ids(c), ids(c)),
        ]
    );
    assert_eq!(all[2].detail, channel as u64 | 0x77 << 32);
    assert_eq!(all[2].domain, client.id);
    assert_eq!(all[2].next_domain, server.id);
    assert_eq!(all[3].detail, channel as u64);
}

#[test]
fn the_newest_records_stay() {
    let (mut w, slot) = traced();
    let init = w.init;
    w.ok(init, slot, trace::START, &[]);
    for _ in 0..250 {
        w.ok(init, 0, current::IDENTITY, &[]);
    }
    w.ok(init, 0, current::CLOCK, &[]);
    w.ok(init, slot, trace::STOP, &[]);
    let told = w.ok(init, slot, trace::STATUS, &[]);
    assert_eq!(told[..3], [0, 251, 100]);
    let all = records(&mut w, slot);
    assert_eq!(all.len(), 100);
    assert_eq!(all[99].operation, current::CLOCK);
    assert_eq!(
        w.err(init, slot, trace::READ, &[0x10, 400, 200]),
        Error::BadAddress
    );
    assert_eq!(w.err(init, slot, 99, &[]), Error::BadOperation);
    let weak = (rights::CALL | rights::PASS) as u64;
    let words = [slot as u64, AUTO, weak];
    let other = w.ok(init, 0, current::PORTAL_COPY, &words)[0] as u32;
    assert_eq!(w.err(init, other, trace::START, &[]), Error::NoRight);
}

fn plan(action: u64, n: u64, detail: u64, domain: u64) -> [u64; 6] {
    [action, n, detail, domain, inject::ANY, inject::ANY]
}

#[test]
fn the_nth_service_fails_and_has_changed_nothing() {
    let (mut w, slot) = traced();
    let init = w.init;
    let fail = plan(inject::FAIL, 3, Error::NoSlot as u64, inject::ANY);
    w.ok(init, slot, trace::INJECT, &fail);
    assert!(w.k.arch.twins);
    let copy = [slot as u64, AUTO, 0xffff];
    let first = w.ok(init, 0, current::PORTAL_COPY, &copy)[0];
    // What cannot fail so does not count.
    w.ok(init, 0, current::IDENTITY, &[]);
    w.ok(init, 0, current::PORTAL_COPY, &copy);
    let used = w.k.domains[w.k.threads[init].domain].table.used();
    assert_eq!(w.err(init, 0, current::PORTAL_COPY, &copy), Error::NoSlot);
    assert_eq!(w.k.domains[w.k.threads[init].domain].table.used(), used);
    assert!(!w.k.arch.twins, "once");
    w.ok(init, 0, current::PORTAL_COPY, &copy);
    w.ok(init, 0, current::PORTAL_CLOSE, &[first]);
    let told = w.ok(init, slot, trace::STATUS, &[]);
    assert_eq!(told[3..5], [0, 1]);
    for words in [
        plan(9, 1, 0, inject::ANY),
        plan(inject::KILL, 0, 0, inject::ANY),
        plan(inject::FAIL, 1, Error::BadToken as u64, inject::ANY),
    ] {
        assert_eq!(w.err(init, slot, trace::INJECT, &words), Error::BadArgument);
    }
}

#[test]
fn a_missing_table_is_asked_for_again() {
    let (mut w, slot) = traced();
    let init = w.init;
    let dom = w.domain();
    let fail = plan(inject::FAIL, 1, Error::NoTable as u64, inject::ANY);
    w.ok(init, slot, trace::INJECT, &fail);
    let frame = w.frame() as u64;
    let words = [dom.space as u64, BUFFER + (1 << 16), frame, 1, prot::READ];
    w.go(init, MEMORY, memory::MAP, 0, &words);
    assert_eq!(w.result(init), Err(Error::NoTable));
    assert_eq!(w.k.threads[init].registers.word(0), 0, "no page was mapped");
    assert!(w.k.frames.is_free(frame as Frame));
    w.ok(init, MEMORY, memory::MAP, &words);
}

#[test]
fn a_component_dies_at_its_nth_entry() {
    let (mut w, slot) = traced();
    let (server, client) = (w.domain(), w.domain());
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 0);
    let s = w.thread(server, 100);
    let c = w.thread(client, 90);
    let init = w.init;
    let (mine, keep) = w.channel(client);
    w.ok(init, server.slot, domain::WATCH, &[keep as u64, 5]);
    let id = server.id as u64 & 0xf_ffff;
    w.ok(init, slot, trace::INJECT, &plan(inject::KILL, 3, 0, id));
    w.rest();
    w.receive(s, rx);
    w.call(c, tx, &[]);
    w.reply_receive(s, rx, &[1]);
    w.call(c, tx, &[]);
    assert_eq!(w.current(), Some(s));
    w.reply_receive(s, rx, &[1]);
    // Dead before it answered; its watcher hears of it, and its caller when it is cleared away.
    w.recall();
    assert!(w
        .k
        .domains
        .lookup(server.id)
        .is_none_or(|d| w.k.domains[d].dead));
    w.destroy(server);
    w.close_own(own);
    w.rest();
    assert_eq!(w.result(c), Err(Error::Dead));
    assert_eq!(w.poll(c, mine).map(|p| p.0), Some(cairn_abi::pulse::DEATH));
}

#[test]
fn the_nth_interrupt_of_a_source_is_lost() {
    let (mut w, slot) = traced();
    let init = w.init;
    w.ok(init, slot, trace::INJECT, &plan(inject::DROP, 2, 4, 0));
    let lost: Vec<bool> = [3, 4, 3, 4, 4]
        .into_iter()
        .map(|source| w.k.loses_interrupt(source))
        .collect();
    assert_eq!(lost, [false, false, false, true, false]);
    assert!(!w.k.arch.twins);
}
