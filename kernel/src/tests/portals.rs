//! Portal tables: passing, moving, minting, closing, inheriting.

use super::*;
use crate::pool::{
    ChannelRef, DomainRef, Handle, Object, PortalRef, SemaphoreRef, SpaceRef, WindowRef,
};
use cairn_abi::{pulse, PortalKind};

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
    w.receive(s, rx);
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

#[test]
fn a_message_carries_portals_there_and_minted_ones_back() {
    let Scene {
        mut w,
        rx,
        tx,
        s,
        c,
        ..
    } = scene();
    let words = [0, 0, 0, 0, 0, 0, 5, tx as u64];
    w.go(c, tx, 0, flag::portals(1), &words);
    let r = w.k.threads[s].registers;
    assert_eq!(r.rax >> 16 & 15, 1);
    assert_eq!(r.r12, 5);
    let arrived = r.r13 as u32;
    let info = w.ok(s, 0, current::PORTAL_INFO, &[arrived as u64]);
    assert_eq!(info[0], PortalKind::Channel as u64);
    assert_eq!(info[2], 2, "two holders");
    assert_eq!((info[4], info[5]), (7, 1), "the server sees its own badge");
    // Two minted ones.
    let words = [0, 0, 0, 0, 0, 0, 1001, 1002];
    w.go(s, rx, receive::REPLY, flag::MINT | flag::portals(2), &words);
    w.receive(s, rx);
    assert_eq!(w.k.threads[c].registers.rax >> 16 & 15, 2);
    let r = w.k.threads[c].registers;
    let minted = [r.r12 as u32, r.r13 as u32];
    let info = w.ok(c, 0, current::PORTAL_INFO, &[minted[1] as u64]);
    assert_eq!((info[1], info[4], info[5]), (rights::DEFAULT as u64, 0, 0));
    w.call(c, minted[1], &[]);
    assert_eq!(w.k.threads[s].registers.rbx, 1002);
    w.reply_receive(s, rx, &[]);
    // Each close of a last holder is told once.
    w.go(c, 0, current::PORTAL_CLOSE, 0, &[minted[0] as u64]);
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.pulse(s), (pulse::CLOSED, 0, 1001));
    w.receive(s, rx);
    w.ok(c, 0, current::PORTAL_CLOSE, &[tx as u64]);
    // The server holds the other one itself.
    w.recall();
    w.rest();
    w.go(c, 0, current::PORTAL_CLOSE, 0, &[minted[1] as u64]);
    assert_eq!(w.pulse(s), (pulse::CLOSED, 0, 1002));
    w.ok(s, 0, current::PORTAL_CLOSE, &[arrived as u64]);
    assert_eq!(w.poll(s, rx), Some((pulse::CLOSED, 0, 7)));
    assert_eq!(w.poll(s, rx), None);
    assert_eq!(w.k.portals.live_objects(), 0);
}

#[test]
fn a_moved_portal_leaves_the_sender() {
    let Scene {
        mut w,
        rx,
        tx,
        s,
        c,
        ..
    } = scene();
    let copy = w.ok(c, 0, current::PORTAL_COPY, &[tx as u64, AUTO, 0xffff])[0];
    let words = [0, 0, 0, 0, 0, 0, 0, copy];
    w.go(c, tx, 0, flag::portals(1) | flag::MOVE, &words);
    let arrived = w.k.threads[s].registers.r13;
    w.reply_receive(s, rx, &[]);
    let gone = w.err(c, 0, current::PORTAL_INFO, &[copy]);
    assert_eq!(gone, Error::BadPortal);
    // The same one twice cannot move.
    let words = [0, 0, 0, 0, 0, 0, tx as u64, tx as u64];
    w.go(c, tx, 0, flag::portals(2) | flag::MOVE, &words);
    assert_eq!(w.result(c), Err(Error::BadPortal));
    w.call(c, tx, &[]);
    let words = [0, 0, 0, 0, 0, 0, 0, arrived];
    w.go(
        s,
        rx,
        receive::REPLY_RECEIVE,
        flag::portals(1) | flag::MOVE,
        &words,
    );
    assert!(w.result(c).is_ok());
    let d = w.k.threads[s].domain;
    assert_eq!(w.k.domains[d].table.target(arrived), None);
}

#[test]
fn rights_only_shrink_and_are_asked_for() {
    let Scene {
        mut w, tx, s, c, ..
    } = scene();
    let copy = |w: &mut World, mask: u16| {
        w.ok(c, 0, current::PORTAL_COPY, &[tx as u64, AUTO, mask as u64])[0]
    };
    let notify_only = copy(&mut w, rights::NOTIFY) as u32;
    let info = w.ok(c, 0, current::PORTAL_INFO, &[notify_only as u64]);
    assert_eq!(info[1], rights::NOTIFY as u64);
    w.call(c, notify_only, &[]);
    assert_eq!(w.result(c), Err(Error::NoRight));
    let wider = [notify_only as u64, AUTO, rights::ALL as u64];
    let wider = w.ok(c, 0, current::PORTAL_COPY, &wider)[0];
    let info = w.ok(c, 0, current::PORTAL_INFO, &[wider]);
    assert_eq!(info[1], rights::NOTIFY as u64);
    let call_only = copy(&mut w, rights::CALL | rights::CLOEXEC);
    let info = w.ok(c, 0, current::PORTAL_INFO, &[call_only]);
    assert_eq!(info[1], (rights::CALL | rights::CLOEXEC) as u64);
    w.go(c, call_only as u32, 1, 0, &[1]);
    assert_eq!(w.result(c), Err(Error::NoRight));
    // Not to be passed.
    let words = [0, 0, 0, 0, 0, 0, 0, call_only];
    w.go(c, tx, 0, flag::portals(1), &words);
    assert_eq!(w.result(c), Err(Error::NoRight));
    // Nor is slot 0, nor an empty one, nor more than four.
    let words = [0; 8];
    w.go(c, tx, 0, flag::portals(1), &words);
    assert_eq!(w.result(c), Err(Error::NoRight));
    let words = [0, 0, 0, 0, 0, 0, 0, 200];
    w.go(c, tx, 0, flag::portals(1), &words);
    assert_eq!(w.result(c), Err(Error::BadPortal));
    w.go(c, tx, 0, flag::portals(5), &words);
    assert_eq!(w.result(c), Err(Error::BadArgument));
    assert_eq!(w.state(s), State::Receiving);
}

#[test]
fn a_full_table_refuses_and_nothing_moves() {
    let Scene {
        mut w,
        server,
        client,
        rx,
        tx,
        s,
        c,
    } = scene();
    let copy = [tx as u64, AUTO, 0xffff];
    loop {
        w.go(c, 0, current::PORTAL_COPY, 0, &copy);
        if w.result(c).is_err() {
            break;
        }
    }
    assert_eq!(w.result(c), Err(Error::NoSlot));
    assert_eq!(w.k.domains[client.d].table.free_slots(), 0);
    // A minted reply has no place: the caller stays held, nothing is made.
    w.call(c, tx, &[]);
    let words = [0, 0, 0, 0, 0, 0, 0, 5];
    w.go(s, rx, receive::REPLY, flag::MINT | flag::portals(1), &words);
    assert_eq!(w.result(s), Err(Error::NoSlot));
    assert_eq!(w.state(c), State::Held);
    assert_eq!(w.k.portals.live_objects(), 1);
    w.recall();
    w.memory(memory::GROW_TABLE, &[client.slot as u64]);
    w.rest();
    w.go(
        s,
        rx,
        receive::REPLY_RECEIVE,
        flag::MINT | flag::portals(1),
        &words,
    );
    assert_eq!(w.result(c).expect("answered")[7], 256);
    let _ = server;
}

#[test]
fn a_receiver_without_room_costs_the_caller_an_error_only() {
    let Scene {
        mut w,
        server,
        tx,
        s,
        c,
        ..
    } = scene();
    let d = &mut w.k.domains[server.d];
    while let Some(slot) = d.table.next_free() {
        let target = crate::portal::table::Target::new(PortalKind::Log, 0, 0);
        d.table.install(slot, target);
    }
    let words = [0, 0, 0, 0, 0, 0, 0, tx as u64];
    w.go(c, tx, 0, flag::portals(1), &words);
    assert_eq!(w.result(c), Err(Error::NoSlot));
    assert_eq!(w.state(s), State::Receiving);
    w.call(c, tx, &[]);
    assert_eq!(w.current(), Some(s));
}

/// Who had much and gave it back is as before: new portals lie in the first frame, and nothing walks over the others.
#[test]
fn a_table_that_was_full_once_is_used_from_its_beginning() {
    let Scene {
        mut w,
        client,
        tx,
        c,
        ..
    } = scene();
    w.recall();
    let frames: Vec<u64> = (0..3).map(|_| w.frame() as u64).collect();
    for frame in frames {
        w.memory(memory::GIVE_TABLES, &[client.space as u64, frame, 1]);
        w.memory(memory::GROW_TABLE, &[client.slot as u64]);
    }
    w.rest();
    let copy = [tx as u64, AUTO, 0xffff];
    let before = w.k.domains[client.d].table.high();
    let mut made = Vec::new();
    loop {
        w.go(c, 0, current::PORTAL_COPY, 0, &copy);
        match w.result(c) {
            Ok(words) => made.push(words[0]),
            Err(error) => break assert_eq!(error, Error::NoSlot),
        }
    }
    assert!(made.contains(&1023));
    assert_eq!(w.k.domains[client.d].table.high(), 1024);
    // The first are closed first, so the last free ones are the highest.
    for slot in &made {
        w.ok(c, 0, current::PORTAL_CLOSE, &[*slot]);
    }
    let table = &w.k.domains[client.d].table;
    assert!(table.high() <= 256.max(before), "{}", table.high());
    for _ in 0..100 {
        let slot = w.ok(c, 0, current::PORTAL_COPY, &copy)[0];
        assert!(slot < 256, "{slot}");
    }
    // One of the last frame alone: walks reach it, and end again before it when it is gone.
    w.ok(c, 0, current::PORTAL_COPY, &[tx as u64, 900, 0xffff]);
    assert_eq!(w.k.domains[client.d].table.high(), 901);
    w.ok(c, 0, current::PORTAL_CLOSE, &[900]);
    assert!(w.k.domains[client.d].table.high() <= 256);
}

/// [`crate::pool::Pool::of`] makes handles of targets without a look at the pool, so nothing else may make such targets.
#[test]
fn targets_that_lead_to_objects_are_made_of_handles_only() {
    use crate::portal::table::Target;
    use std::panic::catch_unwind;
    let Scene {
        w, c, s, server, ..
    } = scene();
    let to_thread = Target::to(PortalKind::Thread, c, rights::ALL);
    assert_eq!(w.k.threads.of(to_thread.with(0)), c);
    assert_ne!(w.k.threads.of(to_thread), s);
    let threads = &w.k.threads;
    let of = |target| catch_unwind(std::panic::AssertUnwindSafe(|| threads.of(target)));
    assert!(of(Target::to(PortalKind::Domain, server.d, 0)).is_err());
    assert!(catch_unwind(|| Target::to(PortalKind::Domain, c, 0)).is_err());
    for number in 0..=u8::MAX {
        let kind = PortalKind::of(number);
        let leads = ThreadRef::is_led_to(kind)
            || DomainRef::is_led_to(kind)
            || SpaceRef::is_led_to(kind)
            || ChannelRef::is_led_to(kind)
            || PortalRef::is_led_to(kind)
            || SemaphoreRef::is_led_to(kind)
            || WindowRef::is_led_to(kind);
        let made = catch_unwind(|| Target::new(kind, c.number(), 0));
        assert_eq!(made.is_ok(), !leads, "{kind:?}");
    }
}

#[test]
fn an_empty_pool_refuses() {
    let mut w = World::with_pools(2);
    let server = w.domain();
    let (_, own) = w.channel(server);
    let init = w.init;
    let mut made = 0;
    loop {
        let words = [made, rights::DEFAULT as u64, AUTO];
        w.go(init, own, receive::MAKE_PORTAL, 0, &words);
        if w.result(init).is_err() {
            break;
        }
        made += 1;
        if made % 100 == 0 {
            let frame = w.frame() as u64;
            w.memory(memory::GIVE_TABLES, &[init_slot::SPACE as u64, frame, 1]);
            w.memory(memory::GROW_TABLE, &[init_slot::DOMAIN as u64]);
        }
    }
    assert_eq!(w.result(init), Err(Error::NoMemory));
    let info = w.memory(memory::POOL_INFO, &[pool::PORTAL]);
    assert_eq!(info[0], info[1]);
    // More memory helps.
    let frame = w.frame() as u64;
    w.memory(memory::GIVE, &[pool::PORTAL, frame, 1]);
    w.ok(init, own, receive::MAKE_PORTAL, &[1, 15, AUTO]);
}

#[test]
fn tables_are_inherited() {
    let Scene {
        mut w,
        client,
        tx,
        c,
        ..
    } = scene();
    let keep = w.ok(
        c,
        0,
        current::PORTAL_COPY,
        &[tx as u64, 3, rights::DEFAULT as u64],
    )[0];
    assert_eq!(keep, 3);
    let private = rights::CALL | rights::NOTIFY | rights::PASS;
    w.ok(c, 0, current::PORTAL_COPY, &[tx as u64, 4, private as u64]);
    let cloexec = rights::DEFAULT | rights::CLOEXEC;
    w.ok(c, 0, current::PORTAL_COPY, &[tx as u64, 5, cloexec as u64]);
    w.recall();
    let child = w.domain();
    let init = w.init;
    let next = w.ok(
        init,
        child.slot,
        domain::TABLE_COPY,
        &[client.slot as u64, 0],
    )[0];
    assert_eq!(next, 0);
    let table = &w.k.domains[child.d].table;
    let parent = &w.k.domains[client.d].table;
    for slot in [3, 5, tx as u64] {
        assert_eq!(table.target(slot), parent.target(slot));
    }
    assert_eq!(table.target(4), None);
    // A longer table than the child's.
    let frame = w.frame() as u64;
    w.memory(memory::GIVE_TABLES, &[client.space as u64, frame, 1]);
    w.memory(memory::GROW_TABLE, &[client.slot as u64]);
    w.rest();
    w.ok(
        c,
        0,
        current::PORTAL_COPY,
        &[tx as u64, 300, rights::DEFAULT as u64],
    );
    w.recall();
    let mut next = 0;
    let full = loop {
        let copy = [client.slot as u64, next];
        w.go(init, child.slot, domain::TABLE_COPY, 0, &copy);
        match w.result(init) {
            Ok(words) => {
                assert!(words[0] > next, "it goes on");
                next = words[0];
            }
            Err(error) => break error,
        }
    };
    assert_eq!(full, Error::NoSlot);
    assert_eq!(w.k.threads[init].registers.rdi, 300);
    // Not what is passed over: slot 5 of the first share, slot 300 of the second; from the middle of a share on the words are about the same slots.
    let part = w.domain();
    for first in [0, 4] {
        let words = [client.slot as u64, first, 1 << 5, 0, 0, 0];
        assert_eq!(w.ok(init, part.slot, domain::TABLE_COPY, &words)[0], 256);
        let table = &w.k.domains[part.d].table;
        assert!(table.target(3).is_some());
        assert_eq!(table.target(5), None);
        assert_eq!(
            table.target(tx as u64),
            w.k.domains[client.d].table.target(tx as u64)
        );
    }
    let words = [client.slot as u64, 256, 1 << (300 - 256), 0, 0, 0];
    assert_eq!(w.ok(init, part.slot, domain::TABLE_COPY, &words)[0], 0);
    // exec closes what is marked.
    let mut next = 0;
    loop {
        let after = w.ok(init, child.slot, domain::CLOSE_ON_EXEC, &[next])[0];
        if after == 0 {
            break;
        }
        assert!(after > next, "it goes on");
        next = after;
    }
    let table = &w.k.domains[child.d].table;
    assert_eq!(table.target(5), None);
    assert!(table.target(3).is_some());
}

#[test]
fn occupied_targets_are_closed_first() {
    let Scene {
        mut w,
        rx,
        tx,
        s,
        c,
        client,
        ..
    } = scene();
    w.call(c, tx, &[]);
    let words = [0, 0, 0, 0, 0, 0, 0, 55];
    w.go(
        s,
        rx,
        receive::REPLY_RECEIVE,
        flag::MINT | flag::portals(1),
        &words,
    );
    let minted = w.result(c).expect("answered")[7];
    w.go(
        c,
        0,
        current::PORTAL_COPY,
        0,
        &[tx as u64, minted, rights::ALL as u64],
    );
    assert_eq!(w.current(), Some(s));
    assert_eq!(w.pulse(s), (pulse::CLOSED, 0, 55));
    w.receive(s, rx);
    assert_eq!(w.result(c).expect("copied")[0], minted);
    let table = &w.k.domains[client.d].table;
    assert_eq!(table.target(minted), table.target(tx as u64));
    for slot in [0, 256, u64::MAX, 1 << 33] {
        w.go(c, 0, current::PORTAL_COPY, 0, &[tx as u64, slot, 0xffff]);
        assert_eq!(w.result(c), Err(Error::BadArgument), "{slot}");
    }
    assert_eq!(w.err(c, 0, current::PORTAL_CLOSE, &[0]), Error::BadArgument);
    assert_eq!(w.err(c, 0, current::PORTAL_CLOSE, &[9]), Error::BadPortal);
}

#[test]
fn a_receive_right_travels() {
    let Scene {
        mut w,
        server,
        client,
        tx,
        s,
        c,
        rx,
    } = scene();
    w.call(c, tx, &[]);
    // The server hands its own channel to its client.
    let words = [0, 0, 0, 0, 0, 0, 0, rx as u64];
    w.go(s, rx, receive::REPLY, flag::portals(1) | flag::MOVE, &words);
    w.go(s, 0, current::PARK, 0, &[]);
    let there = w.result(c).expect("answered")[7] as u32;
    assert_eq!(w.k.domains[server.d].table.target(rx as u64), None);
    w.go(c, tx, 1, 0, &[3]);
    assert_eq!(w.poll(c, there), Some((pulse::NOTIFY, 3, 7)));
    let _ = client;
}

#[test]
fn random_slots_are_no_portals() {
    let Scene { mut w, c, .. } = scene();
    for slot in [1, 63, 255, 256, 8191, 8192, u32::MAX] {
        for op in [0, 1, 2, 8, 255] {
            w.go(c, slot, op, 0, &[]);
            assert_eq!(w.result(c), Err(Error::BadPortal));
        }
    }
}

#[test]
fn entries_for_turned_calls_are_user_addresses() {
    use cairn_abi::layout::USER_TOP;
    let mut w = World::new();
    let dom = w.domain();
    let init = w.init;
    for entries in [[USER_TOP, 0x1000], [0x1000, USER_TOP], [1 << 47, 0]] {
        let words = [0x1000, entries[0], entries[1]];
        let refused = w.err(init, dom.slot, domain::SET_TURN, &words);
        assert_eq!(refused, Error::BadArgument);
        assert_eq!(w.k.domains[dom.d].turn_base, 0);
    }
}

/// A close that nobody else holds leads straight to a server that waits and is more important, and back; otherwise the closer goes on.
#[test]
fn a_last_close_goes_to_the_server_at_once() {
    for (priority, at_once) in [(60, true), (50, false), (40, false)] {
        for short_way in [true, false] {
            let mut w = World::new();
            w.k.short_way = short_way;
            let (server, client) = (w.domain(), w.domain());
            let (rx, own) = w.channel(server);
            let slots = [8, 9].map(|badge| w.portal(own, client, badge) as u64);
            let (s, c) = (w.thread(server, priority), w.thread(client, 50));
            let other = w.thread(client, 45);
            w.rest();
            // The server gets to its receive although more important threads are ready.
            for t in [c, other].into_iter().filter(|_| priority < 45) {
                w.go(t, 0, current::PARK, 0, &[]);
            }
            w.receive(s, rx);
            if priority < 45 {
                w.recall();
                w.k.finish(c, 0);
                w.k.finish(other, 0);
                w.rest();
            }
            assert_eq!(w.current(), Some(c));
            let ticks = |w: &World, t| w.k.threads[t].ticks;
            let before = [c, s].map(|t| ticks(&w, t));
            w.k.arch.time += 100;
            w.go(c, 0, current::PORTAL_CLOSE, 0, &[slots[0]]);
            assert_eq!(w.result(c).map(|_| ()), Ok(()));
            if at_once {
                assert_eq!(w.current(), Some(s));
                assert_eq!(ticks(&w, c) - before[0], 100);
                w.k.arch.time += 30;
                assert_eq!(w.pulse(s), (pulse::CLOSED, 0, 8));
                w.receive(s, rx);
                assert_eq!(ticks(&w, s) - before[1], 30);
            } else {
                assert_eq!(w.state(s), State::Ready);
            }
            assert_eq!(w.current(), Some(c), "priority {priority}");
            assert_eq!(
                w.err(c, slots[0] as u32, cairn_abi::op::CALL, &[]),
                Error::BadPortal
            );
        }
    }
}

/// Every free slot is found once by automatic choice, wherever others were taken by name and whenever the table grew.
#[test]
fn every_free_slot_is_found_once() {
    let mut w = World::new();
    let init = w.init;
    let own = init_slot::DOMAIN as u64;
    let frames = [w.frame(), w.frame(), w.frame()];
    let copy = |w: &mut World, slot: u64| {
        w.go(
            init,
            0,
            current::PORTAL_COPY,
            0,
            &[MEMORY as u64, slot, u64::MAX],
        );
        w.result(init).map(|words| words[0])
    };
    let mut taken = Vec::new();
    for (round, frame) in frames.into_iter().enumerate() {
        w.memory(
            memory::GIVE_TABLES,
            &[init_slot::SPACE as u64, frame as u64, 1],
        );
        w.memory(memory::GROW_TABLE, &[own]);
        // By name in the middle, at the end, and behind a free one; each leaves others on the list.
        let base = 256 * (round as u64 + 1);
        for slot in [base + 100, base + 255, base + 102, base] {
            assert_eq!(copy(&mut w, slot), Ok(slot));
            taken.push(slot);
        }
        for _ in 0..50 {
            taken.push(copy(&mut w, AUTO).expect("there is room"));
        }
    }
    let free = w.k.domains[w.k.threads[init].domain].table.free_slots();
    for _ in 0..free {
        taken.push(copy(&mut w, AUTO).expect("as many as are counted"));
    }
    assert_eq!(copy(&mut w, AUTO), Err(Error::NoSlot));
    let count = taken.len();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), count, "one was found twice");
    assert!(count > 3 * 256);
}
