//! What both clients do.

use cairn_rt::{startup, Message};

/// (Of what is generated for both sides, clients use one.)
#[allow(dead_code)]
mod interfaces {
    include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));
}
pub use interfaces::sums;

pub const ROUNDS: u64 = 5_000;

/// Asks both servers, with a turn of its own registers between.
pub fn client(mut turn: impl FnMut()) {
    let [peer, sums] =
        ["peer", "sums"].map(|name| startup::portal(name).expect("the manifest names it"));
    let one = 1.0f64.to_bits();
    let mut last = 0.0;
    for round in 0..ROUNDS {
        turn();
        let said = peer.call(Message::new(&[round]));
        assert_eq!(said.map(|words| words[0]), Ok(round + 1));
        turn();
        // The other client adds as well.
        let sum = sums::Client(&sums).add(one).map(f64::from_bits);
        assert!(sum.is_ok_and(|sum| sum > last && sum <= (2 * ROUNDS) as f64));
        last = sum.unwrap_or(last);
    }
}
