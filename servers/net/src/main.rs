//! The component.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use cairn_net::{link, Net};
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{entropy, startup};

cairn_rt::entry!(main);

fn random() -> u64 {
    entropy::hardware().unwrap_or_else(entropy::cycles)
}

fn main() -> ! {
    let mut net = Net::new(startup::portal("proc"), random);
    link::native::attach_all(&mut net, random);
    serve(&mut Manager::new(b"net:"), &mut net, &mut Native::new())
}
