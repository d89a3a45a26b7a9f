//! What tracing costs while it is off: nothing. Operations of the nucleus are measured before it was ever on, while it is on, and when it is off again, in guest instructions; the first and the last
//! must be equal, and the second must be more (else nothing was traced). Says `tracing: done` when it was so.
//!
//! The argument `role=peer` makes the domain that answers.
#![no_std]
#![no_main]

use cairn_abi::layout::{native_slot, PAGE};
use cairn_abi::service::{current, semaphore, trace};
use cairn_rt::semaphore::Semaphore;
use cairn_rt::{log, memory, startup, Message, Portal, Receiver};

cairn_rt::entry!(main);

/// How often each operation is done; the least counts, since interrupts of the timer come at any place.
const TIMES: usize = 200;
const NAMES: [&str; 6] = [
    "identity",
    "yield",
    "call and reply",
    "P and V",
    "pulse",
    WITH_VM,
];
const WITH_VM: &str = "a page given back and touched";

type Costs = [u64; NAMES.len()];

/// Whatever the test cannot do without.
fn need<T, E: core::fmt::Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("tracing: {error:?}"))
}

fn main() -> ! {
    if startup::argument("role") == Some("peer") {
        answer();
    }
    let peer = startup::portal("peer").expect("the manifest names it");
    let tracer = startup::portal("trace").expect("the manifest names it");
    let free = need(Semaphore::new(1));
    let page = memory::map(PAGE as usize).expect("memory");
    let before = costs(peer, free, page);
    need(tracer.service(trace::START, &[]));
    let during = costs(peer, free, page);
    need(tracer.service(trace::STOP, &[]));
    let after = costs(peer, free, page);
    for (i, name) in NAMES.iter().enumerate() {
        let [before, during, after] = [before[i], during[i], after[i]];
        log!("{name}: {before} instructions, {during} while on, {after} afterwards");
        // `vm` may find another frame free then, and a few instructions sooner or later.
        let slack = if *name == WITH_VM { 8 } else { 0 };
        let same = before.abs_diff(after) <= slack;
        assert!(same && before < during, "{name}");
    }
    log!("tracing: done");
    cairn_rt::start::exit(0)
}

/// Is asked, and told by pulses, at a priority at which it answers and waits again before its client goes on.
fn answer() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let mut message = need(receiver.receive(None));
    loop {
        // A pulse has no token, and is not answered.
        let next = match message.token {
            0 => receiver.receive_into(None, &mut message),
            token => receiver.reply_words_receive(token, None, &mut message),
        };
        need(next);
    }
}

fn costs(peer: Portal, free: Semaphore, page: &mut [u8]) -> Costs {
    [
        least(|| {
            need(Portal::CURRENT.service(current::IDENTITY, &[]));
        }),
        least(|| {
            need(Portal::CURRENT.service(current::YIELD, &[]));
        }),
        least(|| {
            need(peer.call(Message::new(&[1, 2, 3, 4, 5, 6, 7, 8])));
        }),
        least(|| {
            need(free.0.service(semaphore::P, &[]));
            need(free.0.service(semaphore::V, &[]));
        }),
        least(|| need(peer.notify(1))),
        least(|| {
            need(memory::release(page));
            page[0] = 1;
        }),
    ]
}

/// Instructions of the shortest of many, the readings included.
fn least(mut operation: impl FnMut()) -> u64 {
    let one = |_| {
        let begin = now();
        operation();
        now() - begin
    };
    (0..TIMES).map(one).min().unwrap_or(0)
}

fn now() -> u64 {
    // SAFETY: the instruction changes the two registers that it answers in.
    unsafe { core::arch::x86_64::_rdtsc() }
}
