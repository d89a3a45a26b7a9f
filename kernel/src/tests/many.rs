//! A hundred thousand of what programs make many of: the numbers, the regions of the pools and the generations have room for them, and all of it goes back.

use super::*;
use cairn_abi::service::memory::pool;

const MANY: u32 = 100_000;

/// A machine with room for so many of a kind, and all pages for them given.
fn world(kind: u64) -> World {
    let size = {
        let mut probe = World::new();
        let init = probe.init;
        probe.ok(init, MEMORY, memory::POOL_INFO, &[kind])[2]
    };
    let pages = (MANY as u64 + 1000) * size / 4096;
    // Beside them are the pages of generations.
    let region = pages as usize + MANY as usize / 2048 + 2;
    let mut w = World::on_machine(Sim::with_region(FRAMES as usize, kind, region), 12);
    w.checked = false;
    let frame = w.frame();
    let mut given = 0;
    while w.k.pool_add(kind, frame) {
        given += 1;
        assert!(given < 2 * region, "no end");
    }
    let [used, room, _, ..] = w.ok(w.init, MEMORY, memory::POOL_INFO, &[kind]);
    assert!(room - used > MANY as u64, "{used} of {room}");
    w
}

fn used(w: &mut World, kind: u64) -> u64 {
    w.ok(w.init, MEMORY, memory::POOL_INFO, &[kind])[0]
}

/// What is at the pool's end goes back, but for what stays.
fn shrinks(w: &mut World, kind: u64) {
    let room = |w: &mut World| w.ok(w.init, MEMORY, memory::POOL_INFO, &[kind])[1];
    let before = room(w);
    for _ in 0..10_000 {
        w.ok(w.init, MEMORY, memory::TAKE, &[kind]);
    }
    assert!(room(w) < before / 2);
}

#[test]
fn a_hundred_thousand_threads() {
    let mut w = world(pool::THREAD);
    let dom = w.domain();
    let before = used(&mut w, pool::THREAD);
    let words = [RUNNING, 0x9000, 0, 0, 0, 10, 0];
    let mut ids = std::collections::HashSet::new();
    let mut last = 0;
    for _ in 0..MANY {
        last = w.ok(w.init, dom.slot, domain::THREAD_CREATE, &words)[1];
        assert!(ids.insert(last));
    }
    assert_eq!(used(&mut w, pool::THREAD), before + MANY as u64);
    // The last one runs like the first: it sleeps until a time, and comes back.
    let start = [last, thread::START as u64];
    w.ok(w.init, dom.slot, domain::THREAD_CONTROL, &start);
    let t = w.k.threads.lookup(last as u32).expect("made");
    w.rest();
    assert_eq!(w.current(), Some(t));
    w.recall();
    for _ in 0..MANY {
        w.go(w.init, dom.slot, domain::DESTROY, 0, &[5]);
        match w.result(w.init) {
            Ok(_) => break,
            Err(error) => assert_eq!(error, Error::Again),
        }
    }
    assert_eq!(used(&mut w, pool::THREAD), before);
    shrinks(&mut w, pool::THREAD);
    w.check();
}

#[test]
fn a_hundred_thousand_channels_and_portals_to_them() {
    for kind in [pool::CHANNEL, pool::PORTAL] {
        let mut w = world(kind);
        let (server, client) = (w.domain(), w.domain());
        let before = used(&mut w, kind);
        // No table has so many entries: those in between are held by nobody.
        let (rx, own) = w.channel(server);
        let c = {
            let target = w.k.domains[server.d].table.target(rx as u64);
            w.k.channels.of(target.expect("it is there"))
        };
        let mut made = std::vec::Vec::new();
        for badge in 0..MANY as u64 {
            if kind == pool::CHANNEL {
                made.push((w.k.channel_create().ok(), None));
            } else {
                made.push((None, w.k.portal_create(c, badge, None, false).ok()));
            }
        }
        // One more of each works like the first.
        let (last, owns) = w.channel(server);
        let tx = w.portal(owns, client, 7);
        let (s, t) = (w.thread(server, 50), w.thread(client, 40));
        w.rest();
        w.receive(s, last);
        w.call(t, tx, &[1, 2, 3]);
        assert_eq!(w.current(), Some(s));
        w.reply(s, last, &[4]);
        w.receive(s, last);
        assert_eq!(w.result(t).map(|words| words[0]), Ok(4));
        w.recall();
        assert!(used(&mut w, kind) > before + MANY as u64);
        for made in made {
            match made {
                (Some(c), _) => w.k.channels.remove(c),
                (_, Some(r)) => w.k.portal_unheld(r),
                _ => panic!("there was no room"),
            }
        }
        for own in [own, owns] {
            w.close_own(own);
        }
        w.destroy(server);
        w.destroy(client);
        shrinks(&mut w, kind);
        w.check();
    }
}
