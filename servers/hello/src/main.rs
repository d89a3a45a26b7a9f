//! The example server's wiring.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_resmgr::{event, Manager, Native};

cairn_rt::entry!(main);

fn main() -> ! {
    event::serve(
        &mut Manager::new(b"/hello"),
        &mut cairn_hello::tree(),
        &mut Native::new(),
    )
}
