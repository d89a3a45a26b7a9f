//! Pokes, upcalls, interruptible waits, exceptions.

use super::*;
use cairn_abi::state::{upcall, Registers};
use cairn_abi::{death, pulse, received};

const BASE: u64 = 0x7fff_8000_0000;
const UPCALL: u64 = BASE + 0x200;

struct Scene {
    w: World,
    client: Dom,
    rx: u32,
    tx: u32,
    s: ThreadRef,
    c: ThreadRef,
}

/// A client with a personality and a server that waits.
fn scene() -> Scene {
    let mut w = World::new();
    let server = w.domain();
    let client = w.domain();
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 7);
    let init = w.init;
    w.ok(
        init,
        client.slot,
        domain::SET_TURN,
        &[BASE, BASE + 0x100, UPCALL],
    );
    let s = w.thread(server, 60);
    let c = w.thread(client, 50);
    w.rest();
    w.receive(s, rx);
    Scene {
        w,
        client,
        rx,
        tx,
        s,
        c,
    }
}

impl World {
    pub fn poke_thread(&mut self, dom: Dom, t: ThreadRef) {
        self.recall();
        let (init, id) = (self.init, self.id(t));
        self.ok(
            init,
            dom.slot,
            domain::THREAD_CONTROL,
            &[id, thread::POKE as u64],
        );
        self.rest();
    }
}

#[test]
fn a_running_program_gets_an_upcall() {
    let Scene {
        mut w, client, c, ..
    } = scene();
    let r = &mut w.k.threads[c].registers;
    r.rip = 0x4444;
    r.rax = 99;
    r.rflags = 0x247;
    w.k.arch.bases = (0x1111, 0x2222);
    w.poke_thread(client, c);
    let r = w.k.threads[c].registers;
    assert_eq!(
        (r.rip, r.rdi, r.r8, r.rax),
        (UPCALL, upcall::POKE, 0x4444, 99)
    );
    assert!(w.full);
    // A second one waits until the first is over.
    w.poke_thread(client, c);
    assert!(w.k.threads[c].poked);
    w.ok(c, 0, current::UPCALL_READ, &[BUFFER]);
    let bytes = w.peek_memory(client, BUFFER, 160);
    let word = |i: usize| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().expect("eight"));
    assert_eq!((word(0), word(15), word(16)), (99, 0x4444, 0x247));
    assert_eq!((word(18), word(19)), (0x1111, 0x2222));
    w.go(c, 0, current::UPCALL_RETURN, 0, &[0]);
    let r = w.k.threads[c].registers;
    assert_eq!((r.rip, r.r8), (UPCALL, 0x4444), "a new upcall at once");
    w.go(c, 0, current::UPCALL_RETURN, 0, &[0]);
    let r = w.k.threads[c].registers;
    assert_eq!((r.rip, r.rax, r.rflags), (0x4444, 99, 0x247));
    assert_eq!(w.err(c, 0, current::UPCALL_RETURN, &[0]), Error::Busy);
    assert_eq!(w.err(c, 0, current::UPCALL_READ, &[BUFFER]), Error::Busy);
    assert_eq!(w.err(c, 0, current::UPCALL_DROP, &[0]), Error::Busy);
}

#[test]
fn an_upcall_may_return_elsewhere_but_not_with_privilege() {
    let Scene {
        mut w, client, c, ..
    } = scene();
    w.k.threads[c].registers.rip = 0x4444;
    w.poke_thread(client, c);
    let mut bytes = [0u8; core::mem::size_of::<Registers>()];
    bytes[15 * 8..16 * 8].copy_from_slice(&0x6666u64.to_le_bytes());
    bytes[16 * 8..17 * 8].copy_from_slice(&u64::MAX.to_le_bytes());
    bytes[18 * 8..19 * 8].copy_from_slice(&0xf5u64.to_le_bytes());
    w.poke_memory(client, BUFFER, &bytes);
    w.go(c, 0, current::UPCALL_RETURN, 0, &[BUFFER]);
    let r = w.k.threads[c].registers;
    assert_eq!(r.rip, 0x6666);
    assert_eq!(r.rflags & 0x3000, 0, "no I/O privilege");
    assert_eq!(w.k.arch.bases.0, 0xf5);
    assert!(!w.k.threads[c].in_upcall);
}

#[test]
fn an_interruptible_wait_ends_and_the_poke_is_used_up() {
    let Scene {
        mut w, client, c, ..
    } = scene();
    w.go(c, 0, current::PARK, flag::INTERRUPTIBLE, &[]);
    assert_eq!(w.current(), None);
    w.poke_thread(client, c);
    assert_eq!(w.result(c), Err(Error::Interrupted));
    let r = w.k.threads[c].registers;
    assert_eq!(r.rip, SYSCALL + 2, "no upcall beside it");
    assert_eq!(w.ok(c, 0, current::POKE_TAKE, &[])[0], 0);
}

#[test]
fn a_wait_that_is_not_interruptible_gets_the_upcall_afterwards() {
    let Scene {
        mut w,
        client,
        rx,
        tx,
        s,
        c,
    } = scene();
    w.call(c, tx, &[]);
    w.poke_thread(client, c);
    assert_eq!(w.state(c), State::Held);
    assert!(w.poll_none(s, rx));
    w.reply_receive(s, rx, &[31]);
    let thread = &w.k.threads[c];
    assert_eq!(thread.registers.rip, UPCALL);
    assert_eq!((thread.saved.rax, thread.saved.rdi), (0, 31));
}

impl World {
    /// No pulse waits at the channel of `slot` (looked at from outside, `t` goes on as it was).
    fn poll_none(&self, t: ThreadRef, slot: u32) -> bool {
        let d = self.k.threads[t].domain;
        let target = self.k.domains[d].table.target(slot as u64).expect("there");
        let c = self.k.channels.of(target);
        !self.k.channels[c].pulses.is_waiting()
    }
}

#[test]
fn a_server_is_asked_to_let_an_interrupted_caller_go() {
    let Scene {
        mut w,
        client,
        rx,
        tx,
        s,
        c,
    } = scene();
    w.go(c, tx, 0, flag::INTERRUPTIBLE, &[]);
    assert_ne!(w.k.threads[s].registers.rax & received::INTERRUPTIBLE, 0);
    let token = w.token(s);
    w.receive(s, rx);
    w.poke_thread(client, c);
    assert_eq!(w.pulse(s), (pulse::UNBLOCK, token, 7));
    w.k.threads[s].registers.rbp = token;
    w.reply_receive(s, rx, &[(-4i64) as u64]);
    // The result stands, and the program is told as well.
    let thread = &w.k.threads[c];
    assert_eq!(thread.registers.rip, UPCALL);
    assert_eq!(thread.saved.rdi, (-4i64) as u64);
}

#[test]
fn an_unread_unblock_is_settled_by_the_reply() {
    let Scene {
        mut w,
        client,
        rx,
        tx,
        s,
        c,
    } = scene();
    w.go(c, tx, 0, flag::INTERRUPTIBLE, &[]);
    w.poke_thread(client, c);
    w.poke_thread(client, c);
    assert!(!w.poll_none(s, rx));
    w.reply(s, rx, &[]);
    assert!(w.poll_none(s, rx));
    assert_eq!(w.poll(s, rx), None);
}

#[test]
fn a_killed_caller_turns_unblock_into_gone() {
    let Scene {
        mut w,
        client,
        rx,
        tx,
        s,
        c,
    } = scene();
    w.go(c, tx, 0, flag::INTERRUPTIBLE, &[]);
    let token = w.token(s);
    w.poke_thread(client, c);
    w.recall();
    w.destroy(client);
    w.rest();
    assert_eq!(w.poll(s, rx), Some((pulse::GONE, token, 7)));
    assert_eq!(w.poll(s, rx), Some((pulse::CLOSED, 0, 7)));
    assert_eq!(w.poll(s, rx), None);
}

#[test]
fn a_poke_before_the_wait_is_not_lost() {
    let Scene {
        mut w,
        client,
        c,
        tx,
        ..
    } = scene();
    // Inside an upcall a poke only marks.
    w.poke_thread(client, c);
    w.poke_thread(client, c);
    w.go(c, tx, 0, flag::INTERRUPTIBLE, &[]);
    assert_eq!(w.result(c), Err(Error::Interrupted));
    w.poke_thread(client, c);
    assert_eq!(w.ok(c, 0, current::POKE_TAKE, &[])[0], 1);
    assert_eq!(w.ok(c, 0, current::POKE_TAKE, &[])[0], 0);
    // Dropping the saved registers lets the next one through.
    w.poke_thread(client, c);
    w.go(c, 0, current::UPCALL_DROP, 0, &[]);
    assert_eq!(w.k.threads[c].registers.rip, UPCALL);
    assert_eq!(w.k.threads[c].saved.rip, SYSCALL + 2);
}

#[test]
fn a_queued_interruptible_caller_leaves_the_queue() {
    let Scene {
        mut w,
        client,
        rx,
        tx,
        s,
        c,
    } = scene();
    w.go(c, tx, 1, 0, &[1]);
    w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 1000]);
    w.go(c, tx, 0, flag::INTERRUPTIBLE, &[]);
    assert_eq!(w.state(c), State::Sending);
    w.poke_thread(client, c);
    assert_eq!(w.result(c), Err(Error::Interrupted));
    w.pass_time(1000);
    assert_eq!(w.poll(s, rx), None);
}

#[test]
fn a_prompt_call_is_answered_or_let_go() {
    let Scene {
        mut w,
        rx,
        tx,
        s,
        c,
        ..
    } = scene();
    // The server waits: it gets the call, and answers at once.
    w.go(c, tx, 0, flag::PROMPT, &[5]);
    assert_eq!(w.k.threads[s].registers.rdi, 5);
    assert_eq!(
        w.k.threads[s].registers.rax & received::INTERRUPTIBLE,
        0,
        "it can not be interrupted more than it is"
    );
    w.reply(s, rx, &[6]);
    assert_eq!(w.result(c).unwrap()[0], 6);
    assert!(w.poll_none(s, rx), "the answer settles it");
    // It is busy, and does not answer then: it is told.
    w.go(s, 0, current::SLEEP, 0, &[w.k.arch.time + 1000]);
    w.go(c, tx, 0, flag::PROMPT, &[7]);
    assert_eq!(w.state(c), State::Sending);
    w.pass_time(1000);
    w.receive(s, rx);
    assert_eq!(w.k.threads[s].registers.rdi, 7);
    let token = w.token(s);
    w.receive(s, rx);
    assert_eq!(w.pulse(s), (pulse::UNBLOCK, token, 7));
    w.k.threads[s].registers.rbp = token;
    w.reply(s, rx, &[(-4i64) as u64]);
    assert_eq!(w.k.threads[c].registers.rdi, (-4i64) as u64);
}

#[test]
fn native_threads_are_only_interrupted_in_waits() {
    let mut w = World::new();
    let dom = w.domain();
    let t = w.thread(dom, 50);
    w.rest();
    w.poke_thread(dom, t);
    assert_eq!(w.k.threads[t].registers.rip, RUNNING);
    w.go(t, 0, current::SLEEP, flag::INTERRUPTIBLE, &[u64::MAX]);
    assert_eq!(w.result(t), Err(Error::Interrupted));
    w.go(t, 0, current::SLEEP, flag::INTERRUPTIBLE, &[u64::MAX]);
    assert_eq!(w.state(t), State::Sleeping);
}

#[test]
fn exceptions_are_upcalls_and_a_second_one_kills() {
    let Scene {
        mut w, client, c, ..
    } = scene();
    w.recall();
    let init = w.init;
    let watch = w.ok(init, 0, current::CHANNEL_CREATE, &[])[0];
    w.ok(init, client.slot, domain::WATCH, &[watch, 3]);
    w.rest();
    w.k.threads[c].registers.rip = 0x777;
    w.k.exception(6, 0, 0);
    w.check();
    let r = w.k.threads[c].registers;
    assert_eq!(
        (r.rip, r.rdi, r.rsi, r.r8),
        (UPCALL, upcall::EXCEPTION, 6, 0x777)
    );
    w.k.exception(13, 8, 0);
    w.check();
    assert_eq!(w.current(), None);
    w.recall();
    w.receive(init, watch as u32);
    let words = w.k.threads[init].registers.words();
    assert_eq!(
        (words[0], words[2], words[3]),
        (pulse::DEATH, death::EXCEPTION, 13)
    );
    let lines = w.k.arch.lines.iter();
    assert_eq!(
        lines
            .filter(|line| line.starts_with(b"!backtrace "))
            .count(),
        1
    );
    w.destroy(client);
}

#[test]
fn a_backtrace_has_what_may_be_return_addresses() {
    let mut w = World::new();
    let dom = w.domain();
    let t = w.thread(dom, 50);
    w.map(dom, 0x7_0000, prot::READ | prot::EXECUTE);
    let stack = BUFFER + BUFFER_PAGES * 4096 - 8 * 8;
    let words = [
        0x7_0123,
        0,
        BUFFER,
        0xffff_8000_0000_0000,
        0x7_0fff,
        0x7_1000,
        u64::MAX,
        0x7_0000,
    ];
    w.poke_memory(dom, stack, words.map(u64::to_le_bytes).as_flattened());
    w.rest();
    w.k.threads[t].registers.rsp = stack;
    w.k.exception(3, 0, 0);
    w.check();
    let line = w.k.arch.lines.last().expect("logged").clone();
    let line = std::string::String::from_utf8(line).expect("text");
    let words = "0x70123@0 0x70fff@4 0x70000@7";
    let expected = std::format!("!backtrace {} 0x5000 {words}", dom.id & 0xfffff);
    assert_eq!(line, expected);
}
