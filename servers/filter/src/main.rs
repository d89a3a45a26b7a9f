//! The component.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_filter::connections::MOST;
use cairn_filter::keep::Keep;
use cairn_filter::Manager;
use cairn_resmgr::event::serve;
use cairn_resmgr::Native;
use cairn_rt::{entropy, memory, startup, time};

cairn_rt::entry!(main);

fn random() -> u64 {
    entropy::hardware().unwrap_or_else(entropy::cycles)
}

fn main() -> ! {
    let keep = Keep::new(memory::keepsake());
    let proc = startup::portal("proc");
    let mut filter = Manager::new(proc, keep, time::monotonic, random, MOST);
    filter.log_to(|line| cairn_rt::log!("{line}"));
    // Who routes packets asks from here on. (It hears of this life's end by the page that it has mapped.)
    if let Some(net) = startup::portal("net") {
        let _ = net.notify(1);
    }
    let mut manager = cairn_resmgr::Manager::new(b"filter:");
    serve(&mut manager, &mut filter, &mut Native::new())
}
