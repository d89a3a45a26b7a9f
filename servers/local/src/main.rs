//! The component.
#![no_std]
#![no_main]

extern crate alloc;

use cairn_local::Sockets;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};

cairn_rt::entry!(main);

fn main() -> ! {
    serve(
        &mut Manager::new(b"local:"),
        &mut Sockets::new(cairn_rt::startup::portal("proc")),
        &mut Native::new(),
    )
}
