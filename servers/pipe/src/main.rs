//! The component.
#![no_std]
#![no_main]

extern crate alloc;

use cairn_pipe::Pipes;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};

cairn_rt::entry!(main);

fn main() -> ! {
    serve(
        &mut Manager::new(b"pipe:"),
        &mut Pipes::new(),
        &mut Native::new(),
    )
}
