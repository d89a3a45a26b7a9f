//! Quick calls with parts: what their server reads, writes and answers without settling them, and what settles them all the same.

use super::quick::{chain, Chain};
use super::*;
use cairn_abi::received;
use cairn_abi::service::window;

/// Where the client has its out part and its in part, and the server its bytes.
const OUT: u64 = BUFFER;
const IN: u64 = BUFFER + 0x1000;
const OWN: u64 = BUFFER + 0x2000;
/// Memory that nobody has.
const NOWHERE: u64 = 0x50_0000;

/// Two domains; the second waits, and the first one's entry has code for calls with parts.
fn scene() -> Chain {
    scene_of(flag::PARTS)
}

/// The same for calls with these flags.
fn scene_of(flags: u64) -> Chain {
    let mut c = chain(2);
    // The entry may have code for other flags.
    let (d, slot) = (c.domains[0].d, c.next[0]);
    c.w.k.uncompile(d, slot);
    let bytes: Vec<u8> = (0..200).map(|i| i as u8).collect();
    c.w.poke_memory(c.domains[0], OUT, &bytes);
    for _ in 0..2 {
        call_with(&mut c, flags, (OUT, 100), (IN, 50));
        c.up(1);
    }
    c
}

fn call(c: &mut Chain, out: (u64, u64), input: (u64, u64)) {
    call_with(c, flag::PARTS, out, input);
}

fn call_with(c: &mut Chain, flags: u64, out: (u64, u64), input: (u64, u64)) {
    let client = c.threads[0];
    let registers = &mut c.w.k.threads[client].registers;
    (registers.r14, registers.r15) = out;
    (registers.rbx, registers.rbp) = input;
    c.w.go(client, c.next[0], 0, flags, &[1, 2, 3]);
}

/// READ or WRITE by the server: how many bytes.
fn transfer(c: &mut Chain, op: u8, offset: u64, address: u64, len: u64) -> Result<u64, Error> {
    let server = c.threads[1];
    let token = c.w.token(server);
    let slot = c.receive[1];
    c.w.go(server, slot, op, 0, &[token, offset, address, len]);
    c.w.result(server).map(|words| words[0])
}

fn answer(c: &mut Chain, flags: u64, data: (u64, u64, u64), words: &[u64]) {
    let server = c.threads[1];
    let registers = &mut c.w.k.threads[server].registers;
    (registers.r14, registers.r15, registers.rbx) = data;
    let slot = c.receive[1];
    c.w.go(server, slot, receive::REPLY_RECEIVE, flags, words);
}

#[test]
fn a_server_reads_and_writes_while_nothing_is_settled() {
    let mut c = scene();
    let quick = c.w.k.arch.quick;
    call(&mut c, (OUT, 100), (IN, 50));
    assert!(!c.is_settled());
    let (client, server) = (c.threads[0], c.threads[1]);
    assert_eq!(c.w.current(), Some(server));
    let r = c.w.k.threads[server].registers;
    assert_eq!(r.rax, (c.domains[0].id as u64) << received::SENDER_SHIFT);
    assert_eq!(
        (r.r15, r.words()[..3].to_vec()),
        (100 | 50 << 32, vec![1, 2, 3])
    );
    let copies = c.w.k.arch.quick_copies;
    assert_eq!(transfer(&mut c, receive::READ, 0, OWN, 40), Ok(40));
    // Once more, and more than there is.
    assert_eq!(transfer(&mut c, receive::READ, 0, OWN, 40), Ok(40));
    assert_eq!(transfer(&mut c, receive::READ, 90, OWN + 40, 4000), Ok(10));
    assert_eq!(transfer(&mut c, receive::READ, 100, OWN, 4000), Ok(0));
    assert_eq!(transfer(&mut c, receive::WRITE, 45, OWN, 4000), Ok(5));
    assert!(!c.is_settled());
    assert_eq!(c.w.k.arch.quick_copies, copies + 5);
    let read = c.w.peek_memory(c.domains[1], OWN, 51);
    let want: Vec<u8> = (0..40).chain(90..100).chain([0]).collect();
    assert_eq!(read, want);
    let written = c.w.peek_memory(c.domains[0], IN + 44, 7);
    assert_eq!(written, [0, 0, 1, 2, 3, 4, 0]);
    c.up(1);
    assert!(c.is_settled());
    assert_eq!(c.w.k.arch.quick, quick + 1);
    assert_eq!(c.w.result(client), Ok([101; 8]));
    c.w.check();
}

#[test]
fn a_reply_brings_data_and_a_portal() {
    let mut c = scene();
    let (client, server) = (c.threads[0], c.threads[1]);
    c.w.poke_memory(c.domains[1], OWN, &[7; 60]);
    let extras = c.w.k.arch.quick_extras;
    call(&mut c, (OUT, 100), (IN, 50));
    answer(&mut c, flag::PARTS, (OWN, 30, 20), &[5; 8]);
    assert!(c.is_settled() && c.w.current() == Some(client));
    assert_eq!(c.w.result(client), Ok([5; 8]));
    assert_eq!(c.w.peek_memory(c.domains[0], IN + 19, 32)[..2], [0, 7]);
    assert_eq!(c.w.peek_memory(c.domains[0], IN + 49, 2), [7, 0]);
    call(&mut c, (OUT, 100), (IN, 50));
    let both = flag::PARTS | flag::MINT | flag::portals(1);
    answer(&mut c, both, (OWN, 50, 0), &[6; 8]);
    assert_eq!(c.w.k.arch.quick_extras, extras + 2);
    let words = c.w.result(client).expect("answered");
    assert_eq!(words[..7], [6; 7]);
    assert_eq!(
        c.w.k.threads[client].registers.rax,
        1 << received::PORTALS_SHIFT
    );
    // It leads to the server, with the badge that was in the last word.
    c.w.check();
    c.w.call(client, words[7] as u32, &[9]);
    assert_eq!(c.w.current(), Some(server));
    assert_eq!(c.w.k.threads[server].registers.rbx, 6);
    c.up(1);
    c.w.check();
}

#[test]
fn what_is_not_in_its_place_settles() {
    let mut c = scene();
    let (client, server) = (c.threads[0], c.threads[1]);
    // More data than there is room for: an error for the server, the client waits on.
    call(&mut c, (OUT, 100), (IN, 50));
    answer(&mut c, flag::PARTS, (OWN, 30, 21), &[]);
    assert_eq!(c.w.result(server), Err(Error::BadArgument));
    assert!(c.is_settled());
    c.w.check();
    c.w.k.threads[server].registers.rbp = c.w.k.threads[client].token;
    c.up(1);
    // The server's memory is not there, and it has no pager; then the client's is not.
    call(&mut c, (OUT, 100), (IN, 50));
    assert_eq!(
        transfer(&mut c, receive::READ, 0, NOWHERE, 10),
        Err(Error::BadAddress)
    );
    assert!(c.is_settled());
    c.up(1);
    call(&mut c, (NOWHERE, 100), (IN, 50));
    assert!(!c.is_settled());
    assert_eq!(
        transfer(&mut c, receive::READ, 0, OWN, 10),
        Err(Error::BadAddress)
    );
    assert!(c.is_settled());
    c.w.check();
    c.up(1);
    // Somebody else's token.
    call(&mut c, (OUT, 100), (IN, 50));
    let slot = c.receive[1];
    let wrong = c.w.token(server).wrapping_sub(1 << 32);
    c.w.go(server, slot, receive::READ, 0, &[wrong, 0, OWN, 10]);
    assert_eq!(c.w.result(server), Err(Error::BadToken));
    assert!(c.is_settled());
    c.up(1);
    // A part that is too long to be told.
    call(&mut c, (OUT, 1 << 32), (IN, 50));
    assert!(c.is_settled());
    let told = c.w.k.threads[server].registers.r15;
    assert_eq!(told, u32::MAX as u64 | 50 << 32);
    c.up(1);
    // A call without parts through the same entry has none, whatever the one before had.
    c.down(1);
    assert_eq!(transfer(&mut c, receive::READ, 0, OWN, 10), Ok(0));
    c.up(1);
    c.w.check();
}

#[test]
fn parts_survive_settling_and_end_with_their_caller() {
    let mut c = scene();
    let server = c.threads[1];
    call(&mut c, (OUT, 100), (IN, 50));
    assert_eq!(transfer(&mut c, receive::READ, 0, OWN, 4), Ok(4));
    c.w.k.settle_entry();
    c.w.check();
    assert_eq!(transfer(&mut c, receive::READ, 4, OWN + 4, 96), Ok(96));
    assert_eq!(transfer(&mut c, receive::WRITE, 0, OWN, 50), Ok(50));
    let read = c.w.peek_memory(c.domains[1], OWN, 100);
    assert_eq!(read, (0..100).collect::<Vec<u8>>());
    c.up(1);
    // Killed between its call and the READ.
    call(&mut c, (OUT, 100), (IN, 50));
    assert!(!c.is_settled());
    let token = c.w.token(server);
    c.w.recall();
    let dom = c.domains[0];
    c.w.destroy(dom);
    c.w.rest();
    assert_eq!(c.w.current(), Some(server));
    c.w.k.threads[server].registers.rbp = token;
    assert_eq!(
        transfer(&mut c, receive::READ, 0, OWN, 4),
        Err(Error::BadToken)
    );
    c.w.check();
}

#[test]
fn a_window_settles_the_call_whose_parts_it_shows() {
    let flags = flag::PARTS | flag::WINDOWS | flag::KEEP;
    let mut c = scene_of(flags);
    let (client, server) = (c.threads[0], c.threads[1]);
    call_with(&mut c, flags, (OUT, 4096), (IN, 4096));
    let made = c.w.ok(server, 0, current::WINDOW_CREATE, &[OWN, 1, AUTO]);
    c.up(1);
    call_with(&mut c, flags, (OUT, 4096), (IN, 4096));
    assert!(!c.is_settled());
    let words = [c.receive[1] as u64, c.w.token(server), 0, 1, window::KEEP];
    let opened = c.w.ok(server, made[0] as u32, window::OPEN, &words);
    assert_eq!(opened[..2], [1, OWN]);
    assert!(c.is_settled());
    assert_eq!(c.w.peek_memory(c.domains[1], OWN + 100, 1), [100]);
    c.up(1);
    assert_eq!(c.w.result(client), Ok([101; 8]));
    // The next one has not agreed.
    call(&mut c, (OUT, 4096), (IN, 4096));
    c.w.ok(server, made[0] as u32, window::CLOSE, &[]);
    let words = [c.receive[1] as u64, c.w.token(server), 0, 1, 0];
    let refused = c.w.err(server, made[0] as u32, window::OPEN, &words);
    assert_eq!(refused, Error::NoRight);
    c.up(1);
    c.w.check();
}
