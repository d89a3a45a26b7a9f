//! Windows: a server sees its caller's pages as long as the call lasts, and never anything else.

use super::*;
use crate::arch::Arch;
use cairn_abi::service::window;
use cairn_abi::{fault, received};
use proptest::prelude::*;

const RW: u64 = prot::READ | prot::WRITE;
/// The server's windows lie over its buffer, four pages each.
const EACH: u64 = 2;
const WINDOWS: u64 = 3;

struct Scene {
    w: World,
    server: Dom,
    s: ThreadRef,
    rx: u32,
    clients: Vec<Dom>,
    threads: Vec<ThreadRef>,
    /// Each thread's portal to the server.
    tx: Vec<u32>,
    /// Slots of the windows.
    windows: Vec<u32>,
}

/// A waiting server with windows, and two clients with two threads each. Every page holds its owner's number.
fn scene() -> Scene {
    let mut w = World::new();
    let server = w.domain();
    let (rx, own) = w.channel(server);
    let clients = vec![w.domain(), w.domain()];
    let s = w.thread(server, 60);
    let (mut threads, mut tx) = (Vec::new(), Vec::new());
    for &client in &clients {
        let portal = w.portal(own, client, 7);
        for _ in 0..2 {
            threads.push(w.thread(client, 50));
            tx.push(portal);
        }
    }
    for (i, dom) in [(100, server), (1, clients[0]), (2, clients[1])] {
        for page in 0..BUFFER_PAGES {
            w.poke_memory(dom, BUFFER + page * 4096, &[i, page as u8]);
        }
    }
    w.rest();
    let windows = (0..WINDOWS)
        .map(|i| {
            let words = [BUFFER + i * EACH * 4096, EACH, AUTO];
            w.ok(s, 0, current::WINDOW_CREATE, &words)[0] as u32
        })
        .collect();
    w.receive(s, rx);
    Scene {
        w,
        server,
        s,
        rx,
        clients,
        threads,
        tx,
        windows,
    }
}

impl Scene {
    /// Thread `i` calls with out and in part.
    fn call(&mut self, i: usize, out: (u64, u64), input: (u64, u64), flags: u64) {
        let (t, tx) = (self.threads[i], self.tx[i]);
        let r = &mut self.w.k.threads[t].registers;
        (r.r14, r.r15, r.rbx, r.rbp) = (out.0, out.1, input.0, input.1);
        self.w.go(t, tx, 0, flag::PARTS | flags, &[]);
    }

    fn open(
        &mut self,
        window: usize,
        token: u64,
        offset: u64,
        pages: u64,
        flags: u64,
    ) -> Result<u64, Error> {
        let words = [self.rx as u64, token, offset, pages, flags];
        self.w
            .go(self.s, self.windows[window], window::OPEN, 0, &words);
        self.w.result(self.s).map(|words| words[0])
    }

    /// First bytes of the page behind a window: whose it is, which.
    fn seen(&mut self, page: u64) -> (u8, u8) {
        let bytes = self.w.peek_memory(self.server, BUFFER + page * 4096, 2);
        (bytes[0], bytes[1])
    }

    fn shown(&mut self, window: usize) -> u64 {
        self.w.ok(self.s, self.windows[window], window::INFO, &[])[1]
    }

    /// `init` does something through the Memory portal.
    fn vm(&mut self, op: u8, words: &[u64]) {
        self.w.recall();
        self.w.memory(op, words);
        self.w.rest();
    }
}

const WHOLE: (u64, u64) = (BUFFER, BUFFER_PAGES * 4096);

#[test]
fn a_window_shows_a_callers_pages_until_the_reply() {
    let mut x = scene();
    x.call(
        0,
        (BUFFER + 4096, 3 * 4096),
        (BUFFER + 0x4000, 0x1000),
        flag::WINDOWS,
    );
    assert_eq!(x.w.current(), Some(x.s));
    let token = x.w.token(x.s);
    assert_eq!(x.open(0, token, 4096, 2, 0), Ok(2));
    assert_eq!(
        (x.seen(0), x.seen(1), x.seen(2)),
        ((1, 2), (1, 3), (100, 2))
    );
    // Reading only; the in part is for writing.
    let query = |x: &Scene, page: u64| {
        let root = x.w.k.domains[x.server.d].root;
        x.w.k
            .arch
            .query(root, BUFFER + page * 4096)
            .expect("mapped")
            .prot
    };
    assert_eq!(query(&x, 0), prot::READ);
    assert_eq!(x.open(1, token, 0, 1, window::IN), Ok(1));
    assert_eq!(query(&x, 2), RW);
    x.w.poke_memory(x.server, BUFFER + 2 * 4096, b"!");
    // Two are enough for one call.
    assert_eq!(x.open(2, token, 0, 1, 0), Err(Error::Busy));
    assert_eq!(x.open(0, token, 0, 1, 0), Err(Error::Busy));
    x.w.k.threads[x.s].registers.rbp = token;
    x.w.reply_receive(x.s, x.rx, &[]);
    assert_eq!(x.w.current(), Some(x.threads[0]));
    assert_eq!(
        (x.seen(0), x.seen(1), x.seen(2)),
        ((100, 0), (100, 1), (100, 2))
    );
    assert_eq!(query(&x, 0), RW);
    let client = x.clients[0];
    assert_eq!(x.w.peek_memory(client, BUFFER + 0x4000, 2), [b'!', 4]);
}

#[test]
fn only_whole_pages_that_were_named_and_only_with_consent() {
    let mut x = scene();
    x.call(0, (BUFFER + 5, 3 * 4096), (0, 0), flag::WINDOWS);
    let token = x.w.token(x.s);
    let bad = Err(Error::BadArgument);
    assert_eq!(
        x.open(0, token, 0, 1, 0),
        Err(Error::BadAddress),
        "not at a page's beginning"
    );
    assert_eq!(x.open(0, token, 4091, 2, 0), Ok(2));
    x.w.ok(x.s, x.windows[0], window::CLOSE, &[]);
    assert_eq!(
        x.open(0, token, 4091 + 4096, 2, 0),
        bad,
        "the last page is not whole"
    );
    assert_eq!(
        x.open(0, token, 4091, 3, 0),
        bad,
        "more than the window has"
    );
    assert_eq!(x.open(0, token, 4091, 0, 0), bad);
    assert_eq!(x.open(0, token, u64::MAX - 4095, 1, 0), bad);
    assert_eq!(x.open(0, token, 0, 1, window::IN), bad, "no in part");
    assert_eq!(x.open(0, token, 0, 1, 8), bad);
    assert_eq!(x.open(0, token, 0, 1, window::IN | window::COPY), bad);
    assert_eq!(x.open(0, token, 4091, 1, window::KEEP), Err(Error::NoRight));
    assert_eq!(
        x.open(0, token + (1 << 32), 4091, 1, 0),
        Err(Error::BadToken)
    );
    x.w.k.threads[x.s].registers.rbp = token;
    x.w.reply_receive(x.s, x.rx, &[]);
    // A caller that has not agreed, and one whose memory ends.
    x.call(0, WHOLE, (0, 0), 0);
    let token = x.w.token(x.s);
    assert_eq!(x.open(0, token, 0, 1, 0), Err(Error::NoRight));
    x.w.k.threads[x.s].registers.rbp = token;
    x.w.reply_receive(x.s, x.rx, &[]);
    let beyond = BUFFER + BUFFER_PAGES * 4096;
    x.call(0, (beyond - 4096, 2 * 4096), (0, 0), flag::WINDOWS);
    let token = x.w.token(x.s);
    assert_eq!(x.open(0, token, 0, 2, 0), Err(Error::BadAddress));
    assert_eq!(x.open(0, token, 0, 1, 0), Ok(1));
}

#[test]
fn a_change_of_the_callers_memory_closes_the_window_first() {
    let client = |x: &Scene| x.clients[0].space as u64;
    type Change = fn(&mut Scene, u64);
    let changes: [Change; 5] = [
        |x, space| x.vm(memory::UNMAP, &[space, BUFFER + 4096, 1]),
        |x, space| x.vm(memory::PROTECT, &[space, BUFFER, 4, prot::READ]),
        |x, space| {
            let frame = x.w.frame() as u64;
            x.vm(memory::MAP, &[space, BUFFER + 4096, frame, 1, RW]);
        },
        |x, _| {
            x.w.recall();
            let init = x.w.init;
            let other = x.clients[1].space as u64;
            let row = [BUFFER.to_le_bytes(), (4u64 | 1 << 32).to_le_bytes()].concat();
            x.w.poke_init(&row);
            let words = [x.clients[0].space as u64, other, BUFFER, 1, 0];
            x.w.ok(init, MEMORY, memory::SHARE, &words);
            x.w.rest();
        },
        |x, _| {
            // Its own decision.
            let (t, s) = (x.threads[1], x.s);
            x.w.go(s, 0, current::SLEEP, 0, &[x.w.k.arch.time + 50]);
            x.w.ok(t, 0, current::WINDOW_REVOKE, &[BUFFER + 4096, 1]);
            x.w.go(t, 0, current::PARK, 0, &[]);
            for _ in 0..3 {
                // The other client's threads leave as well.
                match x.w.current() {
                    Some(other) if other != s => x.w.go(other, 0, current::PARK, 0, &[]),
                    _ => break,
                }
            }
            x.w.pass_time(100);
        },
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let mut x = scene();
        x.call(0, WHOLE, WHOLE, flag::WINDOWS | flag::KEEP);
        let token = x.w.token(x.s);
        assert_eq!(x.open(0, token, 0, 2, window::IN), Ok(2));
        assert_eq!(x.open(1, token, 4096, 2, window::KEEP), Ok(2));
        let space = client(&x);
        change(&mut x, space);
        assert_eq!(x.w.current(), Some(x.s), "change {i}");
        assert_eq!((x.shown(0), x.shown(1)), (0, 0), "change {i}");
        assert_eq!((x.seen(0), x.seen(2)), ((100, 0), (100, 2)));
        // The call goes on.
        x.w.k.threads[x.s].registers.rbp = token;
        x.w.reply_receive(x.s, x.rx, &[9]);
        assert_eq!(x.w.result(x.threads[0]).expect("answered")[0], 9);
    }
}

#[test]
fn a_change_of_the_servers_own_memory_closes_it_as_well() {
    let mut x = scene();
    x.call(0, WHOLE, WHOLE, flag::WINDOWS);
    let token = x.w.token(x.s);
    assert_eq!(x.open(0, token, 0, 2, 0), Ok(2));
    let space = x.server.space as u64;
    x.vm(memory::UNMAP, &[space, BUFFER + 4096, 1]);
    assert_eq!(x.shown(0), 0);
    assert_eq!(x.seen(0), (100, 0));
    // The page is not there now, and there is no pager.
    assert_eq!(x.open(0, token, 0, 2, 0), Err(Error::BadAddress));
    assert_eq!(x.open(0, token, 0, 1, 0), Ok(1));
}

#[test]
fn a_kept_window_stays_until_its_server_or_the_owners_end() {
    for end in 0..4 {
        let mut x = scene();
        x.call(0, WHOLE, (0, 0), flag::WINDOWS | flag::KEEP);
        let token = x.w.token(x.s);
        assert_eq!(x.open(1, token, 0, 2, window::KEEP), Ok(2));
        x.w.k.threads[x.s].registers.rbp = token;
        x.w.reply(x.s, x.rx, &[]);
        assert_eq!((x.shown(1), x.seen(3)), (3, (1, 1)));
        let init = x.w.init;
        match end {
            0 => drop(x.w.ok(x.s, x.windows[1], window::CLOSE, &[])),
            1 => {
                let words = [x.windows[1] as u64];
                x.w.ok(x.s, 0, current::PORTAL_CLOSE, &words);
            }
            2 => {
                // Its owner dies, and the memory manager takes the space apart.
                x.w.recall();
                let client = x.clients[0];
                x.w.destroy(client);
                assert_eq!(x.seen(3), (1, 1), "the frames are its still");
                x.w.close_own(client.slot);
                for _ in 0..100 {
                    x.w.go(
                        init,
                        MEMORY,
                        memory::REAP,
                        0,
                        &[client.space as u64, BUFFER, 64],
                    );
                    if x.w.result(init) != Err(Error::Again) {
                        break;
                    }
                }
                assert!(x.w.result(init).is_ok());
                x.w.rest();
            }
            _ => {
                x.w.recall();
                let server = x.server;
                x.w.destroy(server);
                assert_eq!(x.w.k.windows.live_objects(), 0);
            }
        }
        assert_eq!(x.seen(3), (100, 3));
    }
}

#[test]
fn a_written_page_of_a_copying_window_is_the_servers_own() {
    let mut x = scene();
    x.call(0, WHOLE, (0, 0), flag::WINDOWS);
    let token = x.w.token(x.s);
    assert_eq!(x.open(0, token, 4096, 2, window::COPY), Ok(2));
    x.w.k
        .page_fault(BUFFER + 4096 + 77, fault::WRITE | fault::PRESENT);
    x.w.check();
    assert_eq!(x.w.current(), Some(x.s), "no pager was asked");
    assert_eq!(x.shown(0), 1);
    x.w.poke_memory(x.server, BUFFER + 4096 + 1, b"?");
    assert_eq!((x.seen(0), x.seen(1)), ((1, 1), (1, b'?')));
    let client = x.clients[0];
    assert_eq!(x.w.peek_memory(client, BUFFER + 2 * 4096, 2), [1, 2]);
    x.w.k.threads[x.s].registers.rbp = token;
    x.w.reply_receive(x.s, x.rx, &[]);
    assert_eq!(
        (x.seen(0), x.seen(1)),
        ((100, 0), (1, b'?')),
        "the copy stays"
    );
}

#[test]
fn callers_that_go_take_their_pages_along() {
    for end in 0..3 {
        let mut x = scene();
        let t = x.threads[0];
        if end == 0 {
            let now = x.w.k.arch.time;
            x.w.ok(t, 0, current::DEADLINE, &[now + 500]);
        }
        x.call(0, WHOLE, WHOLE, flag::WINDOWS);
        let token = x.w.token(x.s);
        assert_eq!(x.open(0, token, 0, 2, window::IN), Ok(2));
        assert_eq!(x.open(2, token, 0, 2, 0), Ok(2));
        match end {
            0 => {
                x.w.pass_time(1000);
                assert_eq!(x.w.state(t), State::Ready);
            }
            1 => {
                x.w.recall();
                let (init, id, slot) = (x.w.init, x.w.id(t), x.clients[0].slot);
                let words = [id, thread::KILL as u64];
                x.w.ok(init, slot, domain::THREAD_CONTROL, &words);
                x.w.rest();
            }
            _ => {
                // The channel goes: its callers are let go.
                x.w.ok(x.s, 0, current::PORTAL_CLOSE, &[x.rx as u64]);
                x.w.recall();
                let init = x.w.init;
                let own = x.w.k.domains[x.w.k.threads[init].domain].table.high();
                for slot in 60..own {
                    let target = x.w.k.domains[x.w.k.threads[init].domain]
                        .table
                        .target(slot as u64);
                    if target.is_some_and(|target| target.kind() == cairn_abi::PortalKind::Receive)
                    {
                        x.w.close_own(slot);
                    }
                }
                assert_eq!(x.w.result(t), Err(Error::Dead));
                x.w.rest();
            }
        }
        assert_eq!((x.seen(0), x.seen(4)), ((100, 0), (100, 4)), "end {end}");
    }
}

#[test]
fn what_is_shown_is_not_shown_on() {
    let mut x = scene();
    // The server calls a third with its window's pages as a part.
    x.w.recall();
    let third = x.w.domain();
    let (third_rx, own) = x.w.channel(third);
    let to_third = x.w.portal(own, x.server, 3);
    let third_thread = x.w.thread(third, 70);
    x.w.rest();
    let words = [BUFFER, 2, AUTO];
    let second = x.w.ok(third_thread, 0, current::WINDOW_CREATE, &words)[0] as u32;
    x.w.receive(third_thread, third_rx);
    x.call(0, WHOLE, (0, 0), flag::WINDOWS | flag::KEEP);
    let token = x.w.token(x.s);
    assert_eq!(x.open(0, token, 0, 2, 0), Ok(2));
    let r = &mut x.w.k.threads[x.s].registers;
    (r.r14, r.r15, r.rbx, r.rbp) = (BUFFER, 4 * 4096, 0, 0);
    x.w.go(
        x.s,
        to_third,
        0,
        flag::PARTS | flag::WINDOWS | flag::KEEP,
        &[],
    );
    assert_eq!(x.w.current(), Some(third_thread));
    let inner = x.w.token(third_thread);
    let open = |x: &mut Scene, offset: u64, flags: u64| {
        let words = [third_rx as u64, inner, offset, 2, flags];
        x.w.go(third_thread, second, window::OPEN, 0, &words);
        x.w.result(third_thread).map(|words| words[0])
    };
    assert_eq!(open(&mut x, 0, 0), Err(Error::Busy));
    // Pages behind it may be shown, until the server opens a window over them.
    assert_eq!(open(&mut x, 2 * 4096, window::KEEP), Ok(2));
    x.w.k.threads[third_thread].registers.rbp = inner;
    x.w.reply_receive(third_thread, third_rx, &[]);
    assert_eq!(x.w.peek_memory(third, BUFFER, 2), [100, 2]);
    assert_eq!(x.open(1, token, 0, 2, 0), Ok(2));
    assert_eq!(x.w.peek_memory(third, BUFFER, 2), [0, 0]);
}

#[test]
fn windows_do_not_overlap_and_are_not_passed_on() {
    let mut x = scene();
    let (s, rx) = (x.s, x.rx);
    x.call(0, WHOLE, (0, 0), 0);
    let create = |x: &mut Scene, address: u64, pages: u64| {
        x.w.go(s, 0, current::WINDOW_CREATE, 0, &[address, pages, AUTO]);
        x.w.result(s).map(|_| ())
    };
    let last = BUFFER + WINDOWS * EACH * 4096;
    assert_eq!(create(&mut x, last - 4096, 1), Err(Error::Busy));
    assert_eq!(create(&mut x, last + 1, 1), Err(Error::BadArgument));
    assert_eq!(create(&mut x, last, 0), Err(Error::BadArgument));
    assert_eq!(create(&mut x, last, 17), Err(Error::BadArgument));
    let top = cairn_abi::layout::USER_TOP;
    assert_eq!(create(&mut x, top - 4096, 2), Err(Error::BadArgument));
    assert_eq!(create(&mut x, !4095, 1), Err(Error::BadArgument));
    assert_eq!(create(&mut x, last, 1), Ok(()));
    let words = [1, 2, 3, 4, 5, 6, 7, x.windows[0] as u64];
    x.w.k.threads[s].registers.rbp = x.w.k.threads[x.threads[0]].token;
    x.w.go(s, rx, receive::REPLY, flag::portals(1), &words);
    assert_eq!(x.w.result(s), Err(Error::NoRight));
}

#[derive(Clone, Debug)]
enum Step {
    Call {
        who: usize,
        out: (u64, u64),
        input: (u64, u64),
        flags: u64,
    },
    Open {
        window: usize,
        old: usize,
        offset: u64,
        pages: u64,
        flags: u64,
    },
    Close(usize),
    Reply(usize),
    Write(u64),
    Vm {
        act: u8,
        dom: usize,
        page: u64,
        pages: u64,
    },
    Revoke {
        who: usize,
        page: u64,
        pages: u64,
    },
    Kill(usize),
    Time(u64),
    Deadline(usize),
    Remake {
        window: usize,
        page: u64,
        pages: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let part = || {
        let some = (
            0u64..=BUFFER_PAGES,
            0u64..=BUFFER_PAGES,
            prop_oneof![3 => Just(0), 1 => 0u64..4096],
        )
            .prop_map(|(page, pages, odd)| (BUFFER + page * 4096 + odd, pages * 4096));
        prop_oneof![3 => Just(WHOLE), 1 => some]
    };
    let flags = prop_oneof![
        4 => Just(flag::WINDOWS | flag::KEEP),
        2 => Just(flag::WINDOWS),
        1 => Just(0)
    ];
    let page = || 0u64..BUFFER_PAGES;
    prop_oneof![
        5 => (0usize..4, part(), part(), flags)
            .prop_map(|(who, out, input, flags)| Step::Call { who, out, input, flags }),
        8 => (0usize..3, prop_oneof![4 => Just(0usize), 1 => 0usize..4], page(), 1u64..=EACH, prop_oneof![Just(0u64), Just(1), Just(2), Just(3), Just(4), Just(6)])
            .prop_map(|(window, old, page, pages, flags)| Step::Open { window, old, offset: page * 4096, pages, flags }),
        1 => (0usize..3).prop_map(Step::Close),
        3 => (0usize..4).prop_map(Step::Reply),
        2 => page().prop_map(Step::Write),
        3 => (0u8..5, 0usize..3, page(), 1u64..4)
            .prop_map(|(act, dom, page, pages)| Step::Vm { act, dom, page, pages }),
        1 => (0usize..4, page(), 1u64..4).prop_map(|(who, page, pages)| Step::Revoke { who, page, pages }),
        1 => (0usize..40).prop_map(Step::Kill),
        1 => (0u64..300).prop_map(Step::Time),
        1 => (0usize..4).prop_map(Step::Deadline),
        1 => (0usize..3, page(), 1u64..=EACH).prop_map(|(window, page, pages)| Step::Remake { window, page, pages }),
    ]
}

impl Scene {
    /// The server runs (it waits for messages when nothing else is to be done).
    fn server_runs(&mut self) -> bool {
        self.w.current() == Some(self.s)
    }

    fn perform(&mut self, step: Step, tokens: &mut Vec<u64>) {
        match step {
            Step::Call {
                who,
                out,
                input,
                flags,
            } => {
                // Somebody must, or nothing is to be seen.
                let who = self
                    .threads
                    .iter()
                    .position(|&t| self.w.current() == Some(t))
                    .unwrap_or(who);
                if self.w.current() == Some(self.threads[who]) {
                    self.call(who, out, input, flags);
                }
            }
            Step::Open {
                window,
                old,
                offset,
                pages,
                flags,
            } => {
                let token = tokens.iter().rev().nth(old).copied().unwrap_or(1);
                if self.server_runs() {
                    let _ = self.open(window, token, offset, pages, flags);
                }
            }
            Step::Close(window) if self.server_runs() => {
                self.w
                    .go(self.s, self.windows[window], window::CLOSE, 0, &[]);
            }
            Step::Reply(old) if self.server_runs() => {
                let token = tokens.iter().rev().nth(old).copied().unwrap_or(1);
                self.w.k.threads[self.s].registers.rbp = token;
                self.w.reply_receive(self.s, self.rx, &[]);
                if self.w.current() == Some(self.s) && self.w.result(self.s).is_err() {
                    self.w.receive(self.s, self.rx);
                }
            }
            Step::Write(page) if self.server_runs() => {
                let root = self.w.k.domains[self.server.d].root;
                let at = BUFFER + page * 4096;
                let there = self.w.k.arch.query(root, at);
                // A fault that nobody helps with would end the server.
                let copies = self.w.k.windows.all().any(|w| {
                    let window = &self.w.k.windows[w];
                    window.view.is_some_and(|view| {
                        let n = at.wrapping_sub(window.address) / 4096;
                        view.copy && n < view.pages as u64 && view.shown >> n & 1 != 0
                    })
                });
                if there.is_some_and(|mapping| mapping.prot & prot::WRITE == 0) && copies {
                    self.w.k.page_fault(at, fault::WRITE | fault::PRESENT);
                    self.w.check();
                    assert!(self.server_runs());
                }
            }
            Step::Vm {
                act,
                dom,
                page,
                pages,
            } => {
                let dom = [self.server, self.clients[0], self.clients[1]][dom];
                if self.w.state(self.w.init) != State::Parked {
                    return;
                }
                self.w.recall();
                let init = self.w.init;
                let at = BUFFER + page * 4096;
                let space = dom.space as u64;
                let room = self.w.next_frame + 4 < FRAMES;
                match act {
                    0 => self
                        .w
                        .go(init, MEMORY, memory::UNMAP, 0, &[space, at, pages]),
                    1 => self.w.go(
                        init,
                        MEMORY,
                        memory::PROTECT,
                        0,
                        &[space, at, pages, prot::READ],
                    ),
                    2 => self
                        .w
                        .go(init, MEMORY, memory::PROTECT, 0, &[space, at, pages, RW]),
                    3 if room => {
                        let frame = self.w.frame() as u64;
                        self.w
                            .go(init, MEMORY, memory::MAP, 0, &[space, at, frame, 1, RW]);
                    }
                    4 => {
                        let row = [at.to_le_bytes(), (pages | (page & 1) << 32).to_le_bytes()];
                        self.w.poke_init(&row.concat());
                        let to = self.clients[1].space as u64;
                        self.w
                            .go(init, MEMORY, memory::SHARE, 0, &[space, to, BUFFER, 1, 0]);
                    }
                    _ => {}
                }
                self.w.rest();
            }
            Step::Revoke { who, page, pages } if self.w.current() == Some(self.threads[who]) => {
                let words = [BUFFER + page * 4096, pages];
                self.w
                    .go(self.threads[who], 0, current::WINDOW_REVOKE, 0, &words);
            }
            Step::Kill(who) if who < 4 => {
                self.w.recall();
                let (init, id) = (self.w.init, self.w.id(self.threads[who]));
                let slot = self.clients[who / 2].slot;
                self.w.go(
                    init,
                    slot,
                    domain::THREAD_CONTROL,
                    0,
                    &[id, thread::KILL as u64],
                );
                self.w.rest();
            }
            Step::Time(ns) => self.w.pass_time(ns),
            Step::Deadline(who) if self.w.current() == Some(self.threads[who]) => {
                let at = self.w.k.arch.time + 100;
                self.w.ok(self.threads[who], 0, current::DEADLINE, &[at]);
            }
            Step::Remake {
                window,
                page,
                pages,
            } if self.server_runs() => {
                let old = self.windows[window] as u64;
                self.w.go(self.s, 0, current::PORTAL_CLOSE, 0, &[old]);
                let words = [BUFFER + page * 4096, pages, AUTO];
                self.w.go(self.s, 0, current::WINDOW_CREATE, 0, &words);
                if let Ok(words) = self.w.result(self.s) {
                    self.windows[window] = words[0] as u32;
                }
            }
            _ => {}
        }
        if self.server_runs() {
            let r = &self.w.k.threads[self.s].registers;
            if r.rax as u8 == 0
                && r.rbp != 0
                && (r.rax >> 8) as u8 == received::kind::MESSAGE
                && !tokens.contains(&r.rbp)
            {
                tokens.push(r.rbp);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    /// The invariants say that nothing is ever shown but what its owner has there.
    #[test]
    fn whatever_happens_a_window_shows_only_what_its_owner_has(steps in prop::collection::vec(step(), 1..80), short_way: bool) {
        let mut x = scene();
        x.w.k.short_way = short_way;
        let mut tokens = Vec::new();
        for step in steps {
            x.perform(step, &mut tokens);
        }
        // Taken apart in either order nothing is left open, and the frames are free.
        x.w.recall();
        for dom in [x.clients[0], x.server, x.clients[1]] {
            x.w.destroy(dom);
            x.w.close_own(dom.slot);
        }
        prop_assert_eq!(x.w.k.windows.live_objects(), 0);
    }
}
