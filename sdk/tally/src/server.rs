//! The tally's wiring.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_rt::serve::serve;
use cairn_rt::{Portal, Receiver};
use cairn_tally::{tally, Tally};

cairn_rt::entry!(main);

const RECEIVER: Receiver = Receiver(Portal(native_slot::RECEIVE));

fn main() -> ! {
    // Nobody notifies it: it has no use for pulses.
    serve(
        RECEIVER,
        &tally::SIGNATURES,
        &mut Tally::default(),
        tally::dispatch,
        |_, _| {},
    )
}
