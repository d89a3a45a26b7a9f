//! Messages of many parts, cut at random on both sides, against a plain model: rows of addresses. Some of the memory comes only when it is asked for.

use super::*;
use cairn_abi::{fault, received, Part, MAX_VECTOR};
use proptest::prelude::*;

/// The vectors lie at [`BUFFER`] and behind it, 4 pages each; the data here.
const DATA: u64 = BUFFER + 0x2_0000;
const DATA_PAGES: u64 = 12;
const BYTES: u64 = DATA_PAGES * 4096;
const SECOND: u64 = BUFFER + 0x4000;

struct Side {
    dom: Dom,
    /// What the program should see at [`DATA`].
    memory: Vec<u8>,
}

struct Scene {
    w: World,
    pager: ThreadRef,
    pager_rx: u32,
    s: ThreadRef,
    rx: u32,
    c: ThreadRef,
    tx: u32,
    server: Side,
    client: Side,
    faults: u32,
}

/// `holes`: bits of pages that are not there at first.
fn scene(holes: u32) -> Scene {
    let mut w = World::new();
    w.checked = false;
    let pager_dom = w.domain();
    let (pager_rx, own) = w.channel(pager_dom);
    let server = w.domain_with_pager(own as u64, 1);
    let client = w.domain_with_pager(own as u64, 2);
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 77);
    let (pager, s, c) = (
        w.thread(pager_dom, 100),
        w.thread(server, 60),
        w.thread(client, 50),
    );
    let mut sides = [(server, 3u8, holes), (client, 101, holes >> 16)].map(|(dom, step, holes)| {
        let mut memory = vec![0; BYTES as usize];
        for page in (0..DATA_PAGES).filter(|page| holes >> page & 1 == 0) {
            let frame = w.map(dom, DATA + page * 4096, prot::READ | prot::WRITE);
            let bytes = &mut memory[page as usize * 4096..][..4096];
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = (((i as u64 + page * 4099) * step as u64) >> 2) as u8;
            }
            w.k.arch.frame(frame).copy_from_slice(bytes);
        }
        Some(Side { dom, memory })
    });
    w.rest();
    w.receive(pager, pager_rx);
    w.receive(s, rx);
    Scene {
        w,
        pager,
        pager_rx,
        s,
        rx,
        c,
        tx,
        server: sides[0].take().expect("made"),
        client: sides[1].take().expect("made"),
        faults: 0,
    }
}

/// Parts as offsets in the data, and lengths.
type Cuts = Vec<(u64, u64)>;

fn cuts() -> impl Strategy<Value = Cuts> {
    let cut =
        |most: u64| (0..most, any::<u64>()).prop_map(|(len, at)| (at % (BYTES - len + 1), len));
    prop_oneof![
        3 => prop::collection::vec(cut(9000), 0..5),
        2 => prop::collection::vec(prop_oneof![cut(2), cut(700)], 0..60),
        1 => prop::collection::vec(prop_oneof![4 => cut(20), 1 => cut(1)], 0..=MAX_VECTOR),
        1 => Just(vec![(0, 0); 1000]),
    ]
}

/// The address of each byte.
fn flat(cuts: &Cuts) -> Vec<u64> {
    cuts.iter().flat_map(|&(at, len)| at..at + len).collect()
}

fn vector(cuts: &Cuts) -> Vec<u8> {
    cuts.iter()
        .flat_map(|&(at, len)| [(DATA + at).to_le_bytes(), len.to_le_bytes()].concat())
        .collect()
}

fn copy(from: &[u8], source: &[u64], to: &mut [u8], target: &[u64]) -> u64 {
    for (&source, &target) in source.iter().zip(target) {
        to[target as usize] = from[source as usize];
    }
    source.len().min(target.len()) as u64
}

impl Scene {
    /// The pager brings what is missing, until somebody else runs.
    fn bring(&mut self) {
        while self.w.current() == Some(self.pager) {
            let r = self.w.k.threads[self.pager].registers;
            assert_eq!((r.rax >> 8) as u8, received::kind::FAULT);
            let dom = if r.rbx == 1 {
                self.server.dom
            } else {
                self.client.dom
            };
            assert!((DATA..DATA + BYTES).contains(&r.rdi), "{:#x}", r.rdi);
            self.w.recall();
            self.w.map(dom, r.rdi & !4095, prot::READ | prot::WRITE);
            self.w.rest();
            self.faults += 1;
            self.w
                .reply_receive(self.pager, self.pager_rx, &[fault::RESOLVED]);
            self.w.settle();
        }
    }

    fn call(&mut self, out: &Cuts, input: &Cuts) {
        let (out_bytes, in_bytes) = (vector(out), vector(input));
        self.w.poke_memory(self.client.dom, BUFFER, &out_bytes);
        self.w.poke_memory(self.client.dom, SECOND, &in_bytes);
        let r = &mut self.w.k.threads[self.c].registers;
        (r.r14, r.r15) = (BUFFER, out.len() as u64);
        (r.rbx, r.rbp) = (SECOND, input.len() as u64);
        let flags = flag::PARTS | flag::OUT_VECTOR | flag::IN_VECTOR;
        self.w.go(self.c, self.tx, 0, flags, &[]);
        assert_eq!(self.w.current(), Some(self.s));
        let lengths = self.w.k.threads[self.s].registers.r15;
        assert_eq!(lengths as u32 as usize, flat(out).len());
        assert_eq!((lengths >> 32) as usize, flat(input).len());
    }

    /// READ or WRITE with a vector, or without one if it has a single part.
    fn transfer(&mut self, op: u8, token: u64, offset: u64, own: &Cuts) -> u64 {
        let own_vector = if op == receive::READ {
            flag::IN_VECTOR
        } else {
            flag::OUT_VECTOR
        };
        let mut words = [token, offset, BUFFER, own.len() as u64, 0, 0, 0, 0];
        let mut flags = own_vector;
        if let [(at, len)] = own[..] {
            (words[2], words[3], flags) = (DATA + at, len, 0);
        } else {
            let bytes = vector(own);
            self.w.poke_memory(self.server.dom, BUFFER, &bytes);
        }
        self.w.go(self.s, self.rx, op, flags, &words);
        self.bring();
        self.w.result(self.s).expect("copied")[0]
    }

    fn compare(&mut self) {
        use crate::arch::Arch;
        for side in [&self.server, &self.client] {
            let root = self.w.k.domains[side.dom.d].root;
            for page in 0..DATA_PAGES {
                let expected = &side.memory[page as usize * 4096..][..4096];
                match self.w.k.arch.query(root, DATA + page * 4096) {
                    Some(mapping) => assert!(self.w.k.arch.frame(mapping.frame) == expected),
                    None => assert!(expected.iter().all(|&byte| byte == 0)),
                }
            }
        }
        self.w.checked = true;
        self.w.check();
        self.w.checked = false;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_cuts_on_both_sides_move_the_right_bytes(
        out in cuts(),
        input in cuts(),
        moves in prop::collection::vec((any::<bool>(), any::<u64>(), cuts()), 0..5),
        reply in cuts(),
        offset: u64,
        holes: u32,
        short_way: bool,
    ) {
        let mut x = scene(holes & 0x0fff_0fff);
        x.w.k.short_way = short_way;
        x.call(&out, &input);
        let token = x.w.token(x.s);
        let (out, input) = (flat(&out), flat(&input));
        for (read, offset, own) in moves {
            let row = if read { &out } else { &input };
            let offset = (offset % (row.len() as u64 + 2)) as usize;
            let rest = row.get(offset..).unwrap_or(&[]);
            let ours = flat(&own);
            let op = if read { receive::READ } else { receive::WRITE };
            let done = x.transfer(op, token, offset as u64, &own);
            let expected = if read {
                copy(&x.client.memory, rest, &mut x.server.memory, &ours)
            } else {
                copy(&x.server.memory, &ours, &mut x.client.memory, rest)
            };
            prop_assert_eq!(done, expected);
            x.compare();
        }
        // A reply fits as a whole or is refused.
        let ours = flat(&reply);
        let offset = (offset % (input.len() as u64 + 1)) as usize;
        let rest = &input[offset..];
        let (bytes, len) = (vector(&reply), reply.len() as u64);
        x.w.poke_memory(x.server.dom, BUFFER, &bytes);
        let r = &mut x.w.k.threads[x.s].registers;
        (r.rbp, r.r14, r.r15, r.rbx) = (token, BUFFER, len, offset as u64);
        x.w.go(x.s, x.rx, receive::REPLY, flag::PARTS | flag::OUT_VECTOR, &[7]);
        x.bring();
        copy(&x.server.memory, &ours, &mut x.client.memory, rest);
        if ours.len() <= rest.len() {
            prop_assert!(x.w.result(x.s).is_ok());
            prop_assert_eq!(x.w.result(x.c).expect("answered")[0], 7);
        } else {
            prop_assert_eq!(x.w.result(x.s), Err(Error::BadArgument));
            prop_assert_eq!(x.w.state(x.c), State::Held);
        }
        x.compare();
    }
}

#[test]
fn a_vector_of_a_thousand_parts_takes_bounded_entries() {
    let mut x = scene(0);
    let out: Cuts = (0..MAX_VECTOR as u64).map(|i| (i * 7, 3)).collect();
    let entries = x.w.k.counters.entries;
    x.call(&out, &out);
    // Two vectors, 20 parts at a time.
    assert_eq!(x.w.k.counters.entries - entries, 103);
    let token = x.w.token(x.s);
    // The last byte first: the way there is gone in shares, and remembered.
    let total = 3 * MAX_VECTOR as u64;
    let entries = x.w.k.counters.entries;
    assert_eq!(
        x.transfer(receive::READ, token, total - 1, &vec![(0, 5)]),
        1
    );
    assert_eq!(x.w.k.counters.entries - entries, 52);
    let entries = x.w.k.counters.entries;
    assert_eq!(
        x.transfer(receive::READ, token, total - 1, &vec![(0, 5)]),
        1
    );
    assert_eq!(x.w.k.counters.entries - entries, 1);
    // One part too many, for the caller and for the server.
    let many = MAX_VECTOR as u64 + 1;
    let words = [token, 0, BUFFER, many, 0, 0, 0, 0];
    x.w.go(x.s, x.rx, receive::READ, flag::IN_VECTOR, &words);
    assert_eq!(x.w.result(x.s), Err(Error::BadArgument));
    let r = &mut x.w.k.threads[x.s].registers;
    (r.rbp, r.r14, r.r15, r.rbx) = (token, BUFFER, many, 0);
    x.w.go(
        x.s,
        x.rx,
        receive::REPLY,
        flag::PARTS | flag::OUT_VECTOR,
        &[],
    );
    assert_eq!(x.w.result(x.s), Err(Error::BadArgument));
    x.w.k.threads[x.s].registers.rbp = token;
    x.w.reply_receive(x.s, x.rx, &[]);
    let r = &mut x.w.k.threads[x.c].registers;
    (r.r14, r.r15) = (BUFFER, many);
    x.w.go(x.c, x.tx, 0, flag::PARTS | flag::OUT_VECTOR, &[]);
    assert_eq!(x.w.result(x.c), Err(Error::BadArgument));
}

#[test]
fn a_caller_may_die_or_lose_its_memory_in_the_middle_of_a_copy() {
    for kill in [false, true] {
        // The client's third page is a hole.
        let mut x = scene(1 << 18);
        let long: Cuts = vec![(0, 6000), (6000, 6000)];
        x.call(&long, &long);
        let token = x.w.token(x.s);
        let bytes = vector(&vec![(0, 100), (100, 12_000)]);
        x.w.poke_memory(x.server.dom, BUFFER, &bytes);
        let words = [token, 0, BUFFER, 2, 0, 0, 0, 0];
        x.w.go(x.s, x.rx, receive::READ, flag::IN_VECTOR, &words);
        assert_eq!(
            x.w.current(),
            Some(x.pager),
            "8 KiB are done, then it faults"
        );
        x.w.recall();
        let (init, id) = (x.w.init, x.w.id(x.c));
        if kill {
            let words = [id, thread::KILL as u64];
            x.w.ok(init, x.client.dom.slot, domain::THREAD_CONTROL, &words);
        } else {
            // Another thread of it makes the vector something else meanwhile: shorter than it was.
            let none = vector(&vec![(0, 10), (0, 0)]);
            x.w.poke_memory(x.client.dom, BUFFER, &none);
            x.w.map(x.client.dom, DATA + 0x2000, prot::READ | prot::WRITE);
        }
        x.w.rest();
        x.w.reply_receive(x.pager, x.pager_rx, &[fault::RESOLVED]);
        x.w.settle();
        let expected = if kill {
            Error::BadToken
        } else {
            Error::BadAddress
        };
        assert_eq!(x.w.result(x.s), Err(expected));
    }
}

#[test]
fn an_upcall_in_the_middle_of_measuring_starts_it_anew() {
    let mut x = scene(0);
    x.w.recall();
    let init = x.w.init;
    let turn = [0x7000_0000, 0x7000_0100, 0x7000_0200];
    x.w.ok(init, x.client.dom.slot, domain::SET_TURN, &turn);
    x.w.rest();
    let out: Cuts = vec![(0, 3); 1000];
    let bytes = vector(&out);
    x.w.poke_memory(x.client.dom, BUFFER, &bytes);
    let c = x.c;
    let set = |x: &mut Scene, count: u64| {
        let r = &mut x.w.k.threads[c].registers;
        (r.r14, r.r15, r.rbx, r.rbp) = (BUFFER, count, 0, 0);
        r.rax = x.tx as u64 | flag::PARTS | flag::OUT_VECTOR;
        r.rip = SYSCALL + 2;
    };
    // One entry: a share is measured. Then comes a signal.
    set(&mut x, 1000);
    x.w.k.syscall();
    assert!(x.w.k.threads[c].measuring);
    x.w.k.poke(c);
    x.w.k.upcall_if_poked(c);
    // Its handler sends a vector, too.
    set(&mut x, 5);
    x.w.k.syscall();
    assert_eq!(x.w.current(), Some(x.s));
    assert_eq!(x.w.k.threads[x.s].registers.r15, 15);
    x.w.reply_receive(x.s, x.rx, &[]);
    x.w.go(c, 0, current::UPCALL_RETURN, 0, &[0]);
    x.w.settle();
    assert_eq!(x.w.current(), Some(x.s));
    assert_eq!(x.w.k.threads[x.s].registers.r15, 3000);
}

#[test]
fn a_part_is_two_words() {
    assert_eq!(size_of::<Part>(), 16);
}
