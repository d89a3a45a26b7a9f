//! The notice board's wiring.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_abi::pulse;
use cairn_examples::{board, Board, Post};
use cairn_idl::wire::Reply;
use cairn_rt::serve::{answer, serve};
use cairn_rt::{Portal, Receiver};

cairn_rt::entry!(main);

const RECEIVER: Receiver = Receiver(Portal(native_slot::RECEIVE));

struct Gate;

impl Post for Gate {
    fn answer(&mut self, token: u64, reply: &Reply) {
        // Who cannot take it has been told.
        let _ = answer(RECEIVER, token, reply);
    }
    fn notify(&mut self, watcher: u32, bits: u64) {
        let _ = Portal(watcher).notify(bits);
    }
    fn close(&mut self, watcher: u32) {
        Portal(watcher).close();
    }
}

fn main() -> ! {
    let mut server = Board::new(Gate);
    serve(
        RECEIVER,
        &mut server,
        board::dispatch,
        |server, received| match received.words[0] {
            pulse::UNBLOCK => server.forget(received.words[1], true),
            pulse::GONE => server.forget(received.words[1], false),
            _ => {}
        },
    )
}
