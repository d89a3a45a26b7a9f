//! The notice board's wiring.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::{native_slot, PAGE};
use cairn_abi::pulse;
use cairn_examples::{board, sum_of, Board, Post};
use cairn_idl::errno::{EBUSY, EIO, ENOENT};
use cairn_idl::wire::{Errno, Pages, Reply};
use cairn_rt::pages::{self, Taken};
use cairn_rt::serve::{answer, serve};
use cairn_rt::window::{View, Window};
use cairn_rt::{Portal, Receiver};

cairn_rt::entry!(main);

const RECEIVER: Receiver = Receiver(Portal(native_slot::RECEIVE));

struct Gate {
    view: Option<View>,
    poster: Option<Taken>,
}

impl Post for Gate {
    type View = View;
    fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }
    fn hang(&mut self, poster: Pages) -> Result<u64, Errno> {
        if self.poster.is_some() {
            return Err(EBUSY);
        }
        // Whatever the caller gave, it is `vm` that is asked for the pages.
        let taken = pages::accept(poster).map_err(|_| EIO)?;
        let sum = sum_of(&taken);
        self.poster = Some(taken);
        Ok(sum)
    }
    fn take_down(&mut self, receiver: u32) -> Result<u32, Errno> {
        let mut poster = self.poster.take().ok_or(ENOENT)?;
        let offered = pages::give(&mut poster, receiver).map_err(|_| EIO)?;
        Ok(offered.0)
    }
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
    let window = Window::make(board::POSTER_MAX as u64 / PAGE);
    let mut server = Board::new(Gate {
        view: window.ok().map(|window| window.on(RECEIVER)),
        poster: None,
    });
    serve(
        RECEIVER,
        &board::SIGNATURES,
        &mut server,
        board::dispatch,
        |server, received| match received.words[0] {
            pulse::UNBLOCK => server.forget(received.words[1], true),
            pulse::GONE => server.forget(received.words[1], false),
            _ => {}
        },
    )
}
