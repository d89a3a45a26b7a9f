//! A client of the tally: adds twice, and says in the log what came of it.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_rt::start::exit;
use cairn_rt::{log, startup};
use cairn_tally::tally::Client;

cairn_rt::entry!(main);

fn main() -> ! {
    // The name is the manifest's.
    let Some(portal) = startup::portal("tally") else {
        log!("no tally");
        exit(1)
    };
    let tally = Client(&portal);
    for amount in [3, 4] {
        match tally.add(amount) {
            Ok(sum) => log!("{amount} more: {sum}"),
            Err(failure) => log!("{amount} more: {failure:?}"),
        }
    }
    exit(0)
}
