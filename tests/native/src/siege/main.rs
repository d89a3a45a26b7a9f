//! A siege. The *victim* does a piece of work again and again: some computing, a call to a server, a page from `vm` and back. It measures how long that takes alone, and then
//! while the *foe*, a component of its own, attacks: with floods, forged tokens, threads that die in every state, rings of calls, and by taking as much as it can get of
//! everything. At a lower priority the foe must not be felt, at the same priority it gets its half.
//!
//! Times are guest instructions (deterministic mode), so the shares do not depend on the computer. The victim logs a line for each attack and `siege: over` at
//! the end; what is not as it must be is logged with `WRONG`.
#![no_std]
#![no_main]

mod attacks;
mod foe;
mod victim;

use cairn_rt::{startup, Receiver, Reply};

cairn_rt::entry!(main);

/// Orders to the foe (w0). ATTACK: w1 which, w2 priority. TELL → w0 what went well that must not, w1 what was refused that must be.
/// NEVER is not answered.
pub const ATTACK: u64 = 1;
pub const TELL: u64 = 2;
pub const END: u64 = 3;
pub const NEVER: u64 = 4;

fn main() -> ! {
    match startup::argument("role") {
        Some("victim") => victim::run(),
        Some("friend") => friend(),
        _ => foe::run(),
    }
}

/// The component's own channel.
pub fn own_channel() -> Receiver {
    Receiver(cairn_rt::Portal(cairn_abi::layout::native_slot::RECEIVE))
}

/// Answers each call with its first word plus one.
fn friend() -> ! {
    let channel = own_channel();
    let mut answer = None;
    loop {
        let received = match answer.take() {
            Some((token, word)) => channel.reply_receive(token, Reply::new(&[word]), None),
            None => channel.receive(None),
        };
        answer = received
            .ok()
            .filter(|r| r.token != 0)
            .map(|r| (r.token, r.words[0].wrapping_add(1)));
    }
}
