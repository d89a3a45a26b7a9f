//! The component.
#![no_std]
#![no_main]

extern crate alloc;

use cairn_event::Events;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};

cairn_rt::entry!(main);

fn main() -> ! {
    serve(
        &mut Manager::new(b"event:"),
        &mut Events::default(),
        &mut Native::new(),
    )
}
