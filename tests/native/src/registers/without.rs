//! Components that leave floating-point and vector registers and FS and GS alone, beside those that have their own (main.rs). The client asks both servers
//! (`role=client`); `role=refused` must not begin to serve what wants registers of its own.
#![no_std]
#![no_main]

extern crate alloc;

mod client;

use cairn_abi::layout::native_slot;
use cairn_abi::machine::Counters;
use cairn_abi::service::current;
use cairn_rt::{log, serve, startup, Message, Portal, Receiver};
use client::{client, sums, ROUNDS};

cairn_rt::entry!(main);

fn main() -> ! {
    if startup::argument("role") == Some("refused") {
        let signed = serve::sign(Receiver(Portal(native_slot::RECEIVE)), &sums::SIGNATURES);
        panic!("serves without: {signed:?}");
    }
    client(|| ());
    quickly();
    log!("done");
    cairn_rt::start::exit(0)
}

/// Calls of a client that has no registers of its own to one server that does: on one core most go by the code of the portal's own, because the server's are in
/// the processor already.
fn quickly() {
    let peer = startup::portal("peer").expect("the manifest names it");
    let before = direct();
    for round in 0..ROUNDS {
        let said = peer.call(Message::new(&[round]));
        assert_eq!(said.map(|words| words[0]), Ok(round + 1));
    }
    let moved = direct() - before;
    let one_core = Portal::CURRENT
        .service(current::AFFINITY, &[0, 0])
        .is_ok_and(|words| words[2] == 1);
    let line = startup::argument("cmdline").unwrap_or("");
    // The replies alone would be as many as there are rounds.
    let expected = one_core && !line.contains("nucleus.portals=");
    assert!(
        !expected || moved > ROUNDS * 3 / 2,
        "{moved} messages by code"
    );
}

/// Messages that the code behind portals moved, of the whole machine: two for a call.
fn direct() -> u64 {
    let mut counters = [Counters::default()];
    let told = Portal::CURRENT.service_into(current::COUNTERS, &[0], 0, &mut counters);
    told.map_or(0, |_| counters[0].direct)
}
