//! Frames, spaces, pools, interrupts, ports: what `vm` and drivers do.

use super::*;
use cairn_abi::layout::USER_TOP;
use cairn_abi::pulse;
use cairn_abi::service::memory::{map, AS_IT_IS, WRITABLE_CODE};
use cairn_abi::service::{interrupt, machine, ports};

const AT: u64 = 0x80_0000;
const RW: u64 = prot::READ | prot::WRITE;

#[test]
fn nucleus_frames_cannot_be_mapped_nor_mapped_ones_taken() {
    let mut w = World::new();
    let dom = w.domain();
    let (init, space) = (w.init, dom.space as u64);
    for frame in [0, 5, 20, 299, FRAMES as u64, u32::MAX as u64, u64::MAX] {
        let got = w.err(init, MEMORY, memory::MAP, &[space, AT, frame, 1, RW]);
        assert_eq!(got, Error::BadArgument, "{frame}");
    }
    let frame = w.map(dom, AT, RW) as u64;
    let give = [pool::THREAD, frame, 1];
    assert_eq!(w.err(init, MEMORY, memory::GIVE, &give), Error::Busy);
    let tables = [space, frame, 1];
    assert_eq!(
        w.err(init, MEMORY, memory::GIVE_TABLES, &tables),
        Error::Busy
    );
    assert_eq!(w.memory(memory::UNMAP, &[space, AT, 1])[0], 1);
    w.memory(memory::GIVE, &give);
    let got = w.err(init, MEMORY, memory::MAP, &[space, AT, frame, 1, RW]);
    assert_eq!(got, Error::BadArgument);
    for words in [[frame, 305], [305, frame]] {
        let got = w.err(init, MEMORY, memory::COPY_FRAME, &words);
        assert_eq!(got, Error::BadArgument);
    }
    assert_eq!(
        w.err(init, MEMORY, memory::ZERO_FRAME, &[frame]),
        Error::BadArgument
    );
}

#[test]
fn mappings_are_checked() {
    let mut w = World::new();
    let dom = w.domain();
    let (init, space) = (w.init, dom.space as u64);
    let frame = w.frame() as u64;
    let bad: [[u64; 6]; 9] = [
        [space, AT + 1, frame, 1, RW, 0],
        [space, 0x7fff_ffff_f000, frame, 1, RW, 0],
        [space, !4095, frame, 1, RW, 0],
        [space, AT, frame, 513, RW, 0],
        [space, AT, frame, 1, prot::WRITE | prot::EXECUTE, 0],
        [space, AT, frame, 1, 1 << 40, 0],
        [space, AT, frame, 9, RW | map::ZERO, 0],
        [space, AT, frame, 2, RW | map::COPY, frame],
        [space, AT, frame, 1, RW | map::IO, 0],
    ];
    for words in bad {
        assert_eq!(w.err(init, MEMORY, memory::MAP, &words), Error::BadArgument);
    }
    let nowhere = [99, AT, frame, 1, RW];
    assert_eq!(w.err(init, MEMORY, memory::MAP, &nowhere), Error::BadPortal);
    // Device registers lie outside memory.
    let device = prot::READ | prot::WRITE | prot::DEVICE | map::IO;
    w.memory(memory::MAP, &[space, AT, 0xfee0_0000, 1, device]);
    // The system page for reading only.
    let system = w.memory(memory::SYSTEM_PAGE, &[])[0];
    let got = w.err(init, MEMORY, memory::MAP, &[space, AT, system, 1, RW]);
    assert_eq!(got, Error::BadArgument);
    w.memory(memory::MAP, &[space, AT, system, 1, prot::READ]);
    w.memory(memory::PROTECT, &[space, AT, 1, RW]);
    assert_eq!(w.memory(memory::QUERY, &[space, AT])[1], 1 | 1 << 10);
}

#[test]
fn missing_tables_are_told_with_the_progress() {
    let mut w = World::new();
    let dom = w.domain();
    let (init, space) = (w.init, dom.space as u64);
    let reserve = w.memory(memory::SPACE_INFO, &[space])[0];
    for i in 0..reserve {
        w.map(dom, AT + (i << 21), RW);
    }
    // Pages on both sides of a border that the last table serves on one side only.
    let border = AT + (reserve << 21);
    let first = w.next_frame as u64;
    let words = [space, border - 2 * 4096, first, 4, RW];
    assert_eq!(w.err(init, MEMORY, memory::MAP, &words), Error::NoTable);
    assert_eq!(w.k.threads[init].registers.rdi, 2);
    w.next_frame += 4;
    let frame = w.frame() as u64;
    w.memory(memory::GIVE_TABLES, &[space, frame, 1]);
    assert_eq!(w.memory(memory::MAP, &words)[0], 4);
}

#[test]
fn lists_zeroes_and_copies() {
    let mut w = World::new();
    let dom = w.domain();
    let space = dom.space as u64;
    let frames: Vec<u32> = (0..3).map(|_| w.frame()).collect();
    w.k.arch.frame(frames[0]).fill(1);
    w.k.arch.frame(frames[1]).fill(2);
    let list = [frames[0], 0, frames[1]];
    let bytes: Vec<u8> = list.iter().flat_map(|f| f.to_le_bytes()).collect();
    w.poke_init(&bytes);
    assert_eq!(
        w.memory(memory::MAP_LIST, &[space, AT, BUFFER, 3, RW])[0],
        3
    );
    assert_eq!(w.peek_memory(dom, AT + 8192, 2), [2, 2]);
    assert_eq!(w.memory(memory::QUERY, &[space, AT + 4096])[1], 0);
    let copy = [
        space,
        AT,
        frames[2] as u64,
        1,
        RW | map::COPY,
        frames[0] as u64,
    ];
    w.memory(memory::MAP, &copy);
    assert_eq!(w.peek_memory(dom, AT, 2), [1, 1]);
    let zero = [space, AT, frames[2] as u64, 1, RW | map::ZERO];
    w.memory(memory::MAP, &zero);
    assert_eq!(w.peek_memory(dom, AT, 2), [0, 0]);
    assert_eq!(w.memory(memory::UNMAP, &[space, AT, 512])[0], 2);
}

/// Put an array of entries for SHARE or FILL into `init`'s memory.
fn entries(w: &mut World, list: &[(u64, u32, u32)]) {
    let bytes: Vec<u8> = list
        .iter()
        .flat_map(|&(address, a, b)| {
            let halves = u64::from(a) | u64::from(b) << 32;
            [address.to_le_bytes(), halves.to_le_bytes()]
        })
        .flatten()
        .collect();
    w.poke_init(&bytes);
}

#[test]
fn long_rows_are_done_in_shares() {
    let mut w = World::new();
    let dom = w.domain();
    let space = dom.space as u64;
    let frame = w.map(dom, AT + 700 * 4096, RW);
    let bytes: Vec<u8> = (0..300).flat_map(|_| frame.to_le_bytes()).collect();
    w.poke_init(&bytes);
    let mut counted = |operation, words: &[u64], entries| {
        let before = w.k.counters.entries;
        let pages = w.memory(operation, words)[0];
        assert_eq!(w.k.counters.entries - before, entries);
        (pages, w.k.frames.mappings(frame))
    };
    let list = [space, AT, BUFFER, 300, RW];
    assert_eq!(counted(memory::MAP_LIST, &list, 75), (300, 301));
    // Of 512 pages, of which 300 are mapped.
    let protect = [space, AT, 512, prot::READ];
    assert_eq!(counted(memory::PROTECT, &protect, 32), (300, 301));
    assert_eq!(counted(memory::UNMAP, &[space, AT, 512], 32), (300, 1));
    assert_eq!(counted(memory::UNMAP, &[space, AT, 512], 32), (0, 1));
    let device = prot::DEVICE | prot::READ | map::IO;
    let row = [space, AT, 0x8_0000, 200, device];
    assert_eq!(counted(memory::MAP, &row, 50), (200, 1));
    w.k.arch.patient = true;
    let before = w.k.counters.entries;
    assert_eq!(w.memory(memory::UNMAP, &[space, AT, 200])[0], 200);
    assert_eq!(w.memory(memory::MAP, &row)[0], 200);
    // Where no interrupt waits all shares are in one entry.
    assert_eq!(w.k.counters.entries - before, 2);
    let last = w.memory(memory::QUERY, &[space, AT + 199 * 4096]);
    assert_eq!(last[0], 0x8_0000 + 199);
}

#[test]
fn sharing_takes_writing_away_on_both_sides() {
    let mut w = World::new();
    let init = w.init;
    let (a, b) = (w.domain(), w.domain());
    let frame = w.map(a, AT, RW);
    w.map(a, AT + 4 * 4096, prot::READ | prot::EXECUTE);
    w.map(a, AT + 600 * 4096, RW);
    entries(&mut w, &[(AT, 300, 1), (AT + 600 * 4096, 1, 0)]);
    let words = [a.space as u64, b.space as u64, BUFFER, 2];
    let entries_before = w.k.counters.entries;
    assert_eq!(w.memory(memory::SHARE, &words)[0], 2);
    // 301 pages in shares of 8, less the begin of each row and its tables.
    assert!(w.k.counters.entries - entries_before > 301 / 8);
    for dom in [a, b] {
        for (page, bits) in [(0, 1), (4, 5), (600, 3)] {
            let got = w.memory(memory::QUERY, &[dom.space as u64, AT + page * 4096]);
            assert_eq!(got[1], bits | 1 << 10);
        }
    }
    assert_eq!(w.k.frames.mappings(frame), 2);
    for (count, list) in [
        (2, [(AT, 300, 1), (AT, 300, 1)]),
        (2, [(AT, 1, 1), (AT + 1, 1, 1)]),
        (1, [(AT, 1, 2), (0, 0, 0)]),
        (17, [(AT, 1, 1), (0, 0, 0)]),
    ] {
        entries(&mut w, &list);
        let words = [a.space as u64, b.space as u64, BUFFER, count];
        let error = w.err(init, MEMORY, memory::SHARE, &words);
        assert_eq!(error, Error::BadArgument);
    }
}

#[test]
fn pages_are_filled_and_mapped_together() {
    let mut w = World::new();
    let init = w.init;
    let dom = w.domain();
    let source = w.map(dom, AT, RW);
    w.poke_memory(dom, AT, &[9]);
    let page = |page: u64, bits: u64| AT + page * 4096 + bits;
    let (copy, zero) = (w.frame(), w.frame());
    let code = prot::READ | prot::EXECUTE;
    entries(
        &mut w,
        &[
            (page(1, RW), copy, source),
            (page(3, prot::READ), zero, 0),
            (page(900, code), source, AS_IT_IS),
        ],
    );
    let words = [dom.space as u64, BUFFER, 3];
    assert_eq!(w.memory(memory::FILL, &words)[0], 3);
    for (at, byte, frame, bits) in [
        (1, 9, copy, RW),
        (3, 0, zero, prot::READ),
        (900, 9, source, code),
    ] {
        let query = [dom.space as u64, page(at, 0)];
        assert_eq!(w.peek_memory(dom, page(at, 0), 1), [byte]);
        assert_eq!(
            w.memory(memory::QUERY, &query)[..2],
            [frame as u64, bits | 1 << 10]
        );
    }
    assert_eq!(w.k.frames.mappings(copy), 1);
    assert_eq!(w.k.frames.mappings(source), 2);
    // In shares: five frames one at a time, the others as they are eight at a time.
    let frames: Vec<u32> = (0..5).map(|_| w.frame()).collect();
    let list: Vec<_> = (0..5)
        .map(|i| (page(100 + i, RW), frames[i as usize], source))
        .chain((0..300).map(|i| (page(200 + 2 * i, RW), source, AS_IT_IS)))
        .collect();
    entries(&mut w, &list);
    let entries_before = w.k.counters.entries;
    let all = [dom.space as u64, BUFFER, 305];
    assert_eq!(w.memory(memory::FILL, &all)[0], 305);
    assert_eq!(w.k.counters.entries - entries_before, 5 + 300 / 8 + 1);
    assert_eq!(w.k.frames.mappings(source), 302);
    for at in 100..105 {
        assert_eq!(w.peek_memory(dom, page(at, 0), 1), [9]);
    }
    // An entry that is wrong ends it, and what is before it was done.
    // (A frame of the nucleus: a table's reserve.)
    let own = w.frame();
    w.memory(memory::GIVE_TABLES, &[dom.space as u64, own as u64, 1]);
    let fresh = w.frame();
    for (i, bad) in [
        (page(8, RW), own, 0),
        (page(8, RW), fresh, own),
        (page(8, RW), own, AS_IT_IS),
        (page(8, 8), fresh, 0),
        (page(8, prot::WRITE | prot::EXECUTE), fresh, 0),
        (USER_TOP, fresh, 0),
    ]
    .into_iter()
    .enumerate()
    {
        for before in [AS_IT_IS, source] {
            let frame = w.frame();
            entries(&mut w, &[(page(5, RW), frame, before), bad]);
            let words = [dom.space as u64, BUFFER, 2];
            let error = w.err(init, MEMORY, memory::FILL, &words);
            assert_eq!(error, Error::BadArgument, "{i}");
            assert_eq!(w.k.threads[init].registers.rdi, 1);
            assert_eq!(w.k.frames.mappings(frame), 1);
            assert_eq!(w.k.frames.mappings(fresh), 0);
        }
    }
    let words = [dom.space as u64, BUFFER, 513];
    assert_eq!(
        w.err(init, MEMORY, memory::FILL, &words),
        Error::BadArgument
    );
}

#[test]
fn writable_code_is_only_where_it_may_be() {
    let mut w = World::new();
    let (plain, other) = (w.domain(), w.domain_of(&[AUTO, AUTO, 0, WRITABLE_CODE]));
    let init = w.init;
    let (never, may) = (plain.space as u64, other.space as u64);
    let bits = prot::READ | prot::WRITE | prot::EXECUTE;
    let code = prot::READ | prot::EXECUTE;
    let create = [AUTO, AUTO, 0, 2];
    let got = w.err(init, MEMORY, memory::SPACE_CREATE, &create);
    assert_eq!(got, Error::BadArgument);
    let frames: [u32; 4] = std::array::from_fn(|_| w.frame());
    let (first, held) = (frames[0] as u64, AT + 8 * 4096);
    for space in [never, may] {
        w.memory(memory::MAP, &[space, held, first, 1, code]);
        let fill = |page: u64, frame, source| (AT + page * 4096 + bits, frame, source);
        let asked: [(u8, &[u64], Vec<_>); 5] = [
            (memory::MAP, &[space, AT, first, 1, bits], vec![]),
            (
                memory::MAP_LIST,
                &[space, AT + 4096, BUFFER, 1, bits],
                vec![(frames[1] as u64, 0, 0)],
            ),
            (
                memory::FILL,
                &[space, BUFFER, 1],
                vec![fill(2, frames[2], AS_IT_IS)],
            ),
            (
                memory::FILL,
                &[space, BUFFER, 1],
                vec![fill(3, frames[3], 0)],
            ),
            (memory::PROTECT, &[space, held, 1, bits], vec![]),
        ];
        for (operation, words, list) in asked {
            entries(&mut w, &list);
            if space == never {
                let got = w.err(init, MEMORY, operation, words);
                assert_eq!(got, Error::BadArgument, "{operation}");
            } else {
                assert_eq!(w.memory(operation, words)[0], 1, "{operation}");
            }
        }
    }
    let rights = |w: &mut World, space, page: u64| {
        w.memory(memory::QUERY, &[space, AT + page * 4096])[1] & 7
    };
    for page in [0, 1, 2, 3, 8] {
        assert_eq!(rights(&mut w, may, page), bits);
    }
    // Nor does it come from a space that has it.
    entries(&mut w, &[(AT, 4, 0)]);
    let got = w.err(init, MEMORY, memory::SHARE, &[may, never, BUFFER, 1]);
    assert_eq!(got, Error::BadArgument);
    // A copy is made when one of both is written, and can be executed until then.
    let to = w.domain_of(&[AUTO, AUTO, 0, WRITABLE_CODE]).space as u64;
    entries(&mut w, &[(AT, 2, 1), (AT + 2 * 4096, 2, 0)]);
    w.memory(memory::SHARE, &[may, to, BUFFER, 2]);
    for space in [may, to] {
        let found = [0, 1, 2, 3].map(|page| rights(&mut w, space, page));
        assert_eq!(found, [code, code, bits, bits]);
    }
    w.check();
}

#[test]
fn a_reaped_space_gives_every_frame_back() {
    let mut w = World::new();
    let (init, nucleus) = (w.init, w.k.frames.nucleus_frames());
    let spaces = w.k.spaces.live_objects();
    let first = w.next_frame;
    let dom = w.domain();
    let t = w.thread(dom, 50);
    w.map(dom, AT, RW);
    assert_eq!(w.state(t), State::Ready);
    let words = [dom.space as u64, BUFFER, 64];
    assert_eq!(w.err(init, MEMORY, memory::REAP, &words), Error::Busy);
    w.destroy(dom);
    let mut returned = Vec::new();
    loop {
        w.go(init, MEMORY, memory::REAP, 0, &words);
        let count = w.k.threads[init].registers.rdi as usize;
        let d = w.k.threads[init].domain;
        let me = Dom { d, ..dom };
        let bytes = w.peek_memory(me, BUFFER, count * 4);
        returned.extend(
            bytes
                .chunks(4)
                .map(|b| u32::from_le_bytes(b.try_into().expect("four"))),
        );
        match w.result(init) {
            Ok(_) => break,
            Err(error) => assert_eq!(error, Error::Again),
        }
    }
    returned.sort();
    assert_eq!(returned, (first..first + 5).collect::<Vec<_>>());
    assert_eq!(w.k.frames.nucleus_frames(), nucleus);
    assert_eq!(w.k.spaces.live_objects(), spaces);
    for frame in first..w.next_frame {
        assert!(w.k.frames.is_free(frame));
    }
    let gone = w.err(init, MEMORY, memory::SPACE_INFO, &words);
    assert_eq!(gone, Error::BadPortal);
}

#[test]
fn a_space_can_be_changed_under_a_domain() {
    let mut w = World::new();
    let (a, b) = (w.domain(), w.domain());
    let init = w.init;
    w.ok(init, a.slot, domain::SET_SPACE, &[b.space as u64]);
    assert_eq!(w.k.domains[a.d].space, w.k.domains[b.d].space);
    let t = w.thread(a, 50);
    w.rest();
    assert_eq!(w.current(), Some(t));
}

#[test]
fn ranges_and_pools_are_told() {
    let mut w = World::new();
    let init = w.init;
    let range = w.memory(memory::RANGE, &[0]);
    assert_eq!(range[..2], [300, (FRAMES - 300) as u64]);
    assert_eq!(w.err(init, MEMORY, memory::RANGE, &[1]), Error::BadArgument);
    let threads = w.memory(memory::POOL_INFO, &[pool::THREAD]);
    assert_eq!(threads[0], 1);
    // One page is for what the nucleus must know of those that go back, and one for the table that shows it.
    assert_eq!(threads[1], 14 * 4096 / threads[2] - 1);
    assert_eq!(
        w.err(init, MEMORY, memory::POOL_INFO, &[pool::COUNT as u64]),
        Error::BadArgument
    );
    let first = w.next_frame as u64;
    w.next_frame += 40;
    w.memory(memory::GIVE, &[pool::THREAD, first, 40]);
    let more = w.memory(memory::POOL_INFO, &[pool::THREAD]);
    assert_eq!(more[1], 54 * 4096 / threads[2] - 1);
}

/// Pages of a pool go back where nothing lives; what comes there later has another id.
#[test]
fn pools_give_back_pages() {
    let mut w = World::new();
    let init = w.init;
    let first = w.next_frame as u64;
    w.next_frame += 40;
    w.memory(memory::GIVE, &[pool::THREAD, first, 40]);
    let [_, capacity, bytes] = w.memory(memory::POOL_INFO, &[pool::THREAD])[..3] else {
        panic!("three words")
    };
    let d = w.domain();
    let room = capacity as usize - 1;
    let threads: Vec<_> = (0..room).map(|_| w.thread(d, 10)).collect();
    let ids: Vec<_> = threads.iter().map(|&t| w.k.threads.id(t)).collect();
    let take = |w: &mut World| w.memory(memory::TAKE, &[pool::THREAD]);
    assert_eq!(take(&mut w)[0], 0, "the last slot is used");
    let none = [pool::COUNT as u64];
    assert_eq!(w.err(init, MEMORY, memory::TAKE, &none), Error::BadArgument);
    // All but the one that lies in the middle, in an order that mixes the list.
    let kept = threads[room / 2];
    for i in 0..room {
        let t = threads[i * 11 % room];
        assert_ne!(room % 11, 0);
        if t != kept {
            w.k.kill(t, 0, 0);
        }
    }
    let mut frames = Vec::new();
    loop {
        let taken = take(&mut w);
        if taken[0] == 0 {
            break;
        }
        frames.extend_from_slice(&taken[1..1 + taken[0] as usize]);
    }
    let middle = (room as u64 / 2) * bytes / 4096;
    assert!((frames.len() as u64) >= 54 - middle - 3, "{frames:?}");
    let less = w.memory(memory::POOL_INFO, &[pool::THREAD]);
    assert_eq!(less[0], 2);
    assert_eq!(less[1], (54 - frames.len() as u64) * 4096 / bytes - 1);
    w.check();
    // They are memory like any other, also for the pool.
    for &frame in &frames {
        w.memory(memory::ZERO_FRAME, &[frame]);
    }
    for &frame in frames.iter().rev() {
        w.memory(memory::GIVE, &[pool::THREAD, frame, 1]);
    }
    assert_eq!(w.memory(memory::POOL_INFO, &[pool::THREAD])[1], capacity);
    assert_eq!(w.k.threads.lookup(w.k.threads.id(kept)), Some(kept));
    let again: Vec<_> = (0..room - 1).map(|_| w.thread(d, 10)).collect();
    for &t in &again {
        assert!(!ids.contains(&w.k.threads.id(t)), "an id came twice");
    }
    w.check();
}

#[test]
fn an_interrupt_is_a_pulse_and_stays_masked_until_acknowledged() {
    let mut w = World::new();
    let driver = w.domain();
    let (rx, own) = w.channel(driver);
    let init = w.init;
    let line = w.ok(init, MACHINE, machine::INTERRUPT, &[4, AUTO])[0];
    assert_eq!(
        w.err(init, MACHINE, machine::INTERRUPT, &[4, AUTO]),
        Error::Busy
    );
    assert_eq!(
        w.err(init, MACHINE, machine::INTERRUPT, &[24, AUTO]),
        Error::BadArgument
    );
    let there = w.ok(init, driver.slot, domain::PORTAL_PUT, &[line, AUTO, 0xffff])[0] as u32;
    w.close_own(line as u32);
    let t = w.thread(driver, 200);
    w.rest();
    assert_eq!(w.err(t, there, interrupt::ACKNOWLEDGE, &[]), Error::Busy);
    w.ok(t, there, interrupt::BIND, &[rx as u64, 64]);
    assert!(w.k.arch.unmasked.contains(&4));
    w.receive(t, rx);
    w.k.interrupt(4);
    w.check();
    assert_eq!(w.current(), Some(t));
    assert_eq!(w.pulse(t), (pulse::INTERRUPT, 1, 64));
    assert!(!w.k.arch.unmasked.contains(&4));
    w.k.interrupt(4);
    w.k.interrupt(4);
    assert_eq!(w.poll(t, rx), Some((pulse::INTERRUPT, 2, 64)));
    w.ok(t, there, interrupt::ACKNOWLEDGE, &[]);
    assert!(w.k.arch.unmasked.contains(&4));
    w.k.interrupt(5);
    w.k.interrupt(200);
    w.check();
    // The driver dies; a new one can have the line.
    w.recall();
    w.destroy(driver);
    assert!(!w.k.arch.unmasked.contains(&4));
    w.ok(init, MACHINE, machine::INTERRUPT, &[4, AUTO]);
    w.close_own(own);
}

#[test]
fn ports_stay_inside_their_range() {
    let mut w = World::new();
    let init = w.init;
    let slot = w.ok(init, MACHINE, machine::PORTS, &[0x3f8, 8, AUTO])[0] as u32;
    w.k.arch.ports.insert(0x3fd, 1);
    w.k.arch.ports.insert(0x3f8, 0x41);
    assert_eq!(w.ok(init, slot, ports::IN8, &[0x3f8])[0], 0x41);
    for (op, port) in [
        (ports::IN8, 0x3f7),
        (ports::OUT8, 0x400),
        (ports::IN16, 0x3ff),
        (ports::OUT32, 0x3fd),
        (ports::IN8, 0x1_03f8),
        (ports::IN8, u64::MAX),
    ] {
        assert_eq!(w.err(init, slot, op, &[port]), Error::BadArgument);
    }
    let text = u64::from_le_bytes(*b"abcdefgh");
    w.ok(
        init,
        slot,
        ports::OUT8_SEVERAL,
        &[0x3f8, 9, text, b'i' as u64],
    );
    let written: Vec<u8> = w.k.arch.port_writes.iter().map(|&(_, v)| v as u8).collect();
    assert_eq!(written, b"abcdefghi");
    let got = w.ok(init, slot, ports::IN8_WHILE, &[0x3f8, 0x3fd, 1]);
    assert_eq!((got[0], got[1]), (32, u64::from_le_bytes([0x41; 8])));
    for words in [[0x1_0000, 1], [0xffff, 2], [0, 0]] {
        let words = [words[0], words[1], AUTO];
        assert_eq!(
            w.err(init, MACHINE, machine::PORTS, &words),
            Error::BadArgument
        );
    }
}

#[test]
fn services_ask_for_their_right() {
    let mut w = World::new();
    let dom = w.domain();
    let init = w.init;
    let weak = (rights::CALL | rights::PASS) as u64;
    let inside = w.ok(
        init,
        dom.slot,
        domain::PORTAL_PUT,
        &[dom.slot as u64, AUTO, weak],
    )[0];
    let memory_slot = w.ok(
        init,
        dom.slot,
        domain::PORTAL_PUT,
        &[MEMORY as u64, AUTO, weak],
    )[0];
    let t = w.thread(dom, 50);
    let id = w.id(t);
    w.rest();
    let slot = inside as u32;
    for op in [
        domain::PORTAL_PUT,
        domain::SET_TURN,
        domain::DESTROY,
        domain::STOP,
        domain::SET_SPACE,
        domain::WATCH,
    ] {
        assert_eq!(w.err(t, slot, op, &[]), Error::NoRight);
    }
    let kill = [id, thread::KILL as u64];
    assert_eq!(
        w.err(t, slot, domain::THREAD_CONTROL, &kill),
        Error::NoRight
    );
    w.ok(t, slot, domain::THREAD_CONTROL, &[id, thread::POKE as u64]);
    w.ok(t, slot, domain::CLOSE_ON_EXEC, &[0]);
    let got = w.err(t, memory_slot as u32, memory::RANGE, &[0]);
    assert_eq!(got, Error::NoRight);
}

#[test]
fn who_may_only_look_at_a_domain_starts_no_threads_in_it() {
    let mut w = World::new();
    let (target, looker) = (w.domain(), w.domain());
    let (init, about) = (w.init, rights::DEFAULT as u64);
    let put = [target.slot as u64, AUTO, about];
    let slot = w.ok(init, looker.slot, domain::PORTAL_PUT, &put)[0] as u32;
    let (t, own) = (w.thread(looker, 50), w.thread(target, 40));
    let inside = w.ok(init, target.slot, domain::PORTAL_PUT, &put)[0] as u32;
    w.rest();
    let begin = [RUNNING, 0x9000, 0, 0, 0, 30, 0];
    w.ok(t, slot, domain::INFO, &[]);
    assert_eq!(
        w.err(t, slot, domain::THREAD_CREATE, &begin),
        Error::NoRight
    );
    assert_eq!(w.k.domains[target.d].live, 1);
    // A domain's threads make more of them with no other portal.
    w.go(t, 0, current::PARK, 0, &[]);
    w.k.domains[target.d].ceiling = 40;
    w.ok(own, inside, domain::THREAD_CREATE, &begin);
    assert_eq!(w.k.domains[target.d].live, 2);
}

#[test]
fn counters_and_power() {
    let mut w = World::new();
    let init = w.init;
    w.ok(init, 0, current::COUNTERS, &[BUFFER]);
    assert_eq!(
        w.err(init, 0, current::COUNTERS, &[0x10]),
        Error::BadAddress
    );
    assert_eq!(
        w.err(init, MACHINE, machine::POWER, &[3]),
        Error::BadArgument
    );
    w.ok(init, MACHINE, machine::POWER, &[2, 7]);
    assert_eq!(w.k.arch.power, Some((2, 7)));
    w.ok(init, MACHINE, machine::WALL_CLOCK, &[0x1122_3344_5566]);
    let at = core::mem::offset_of!(cairn_abi::state::SystemPage, boot_realtime);
    let page = w.k.system_frame;
    assert_eq!(
        w.k.arch.frame(page)[at..at + 8],
        0x1122_3344_5566u64.to_le_bytes()
    );
    assert_eq!(w.ok(init, MACHINE, machine::FIRMWARE, &[])[0], 0);
    w.k.boot_firmware(0xf_5a20);
    assert_eq!(w.ok(init, MACHINE, machine::FIRMWARE, &[])[0], 0xf_5a20);
}

#[test]
fn a_slow_port_is_given_the_log_without_waiting() {
    let mut w = World::new();
    w.k.arch.log_room = Some(16);
    let mut line = crate::log::Line::new();
    line.text("forty bytes that a serial port sends so.");
    w.k.log(&line);
    assert_eq!((w.k.arch.log_looks, w.k.arch.log_waits), (1, 24));
    // A second line does not hurry it.
    w.k.log(&line);
    assert_eq!((w.k.arch.log_looks, w.k.arch.log_waits), (2, 48));
    w.pass_time(2_000_000);
    assert_eq!((w.k.arch.log_looks, w.k.arch.log_waits), (3, 32));
    for _ in 0..10 {
        w.pass_time(2_000_000);
    }
    // And when all is sent nobody looks any more.
    assert_eq!((w.k.arch.log_looks, w.k.arch.log_waits), (5, 0));
}
