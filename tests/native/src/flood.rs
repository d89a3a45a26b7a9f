//! Floods every server it knows with notifications and calls at the lowest priority for as long as it lives. Others must not slow down beyond what its priority gives.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_rt::{log, startup, Message, Portal};

cairn_rt::entry!(main);

fn main() -> ! {
    const NAMES: [&str; 6] = ["proc", "root", "pipe", "tty", "vm-client", "devfs"];
    log!("flooding");
    let mut word = 0u64;
    loop {
        for portal in NAMES.iter().filter_map(|name| startup::portal(name)) {
            send(portal, word);
            word = word.wrapping_add(1);
        }
    }
}

/// Ten notifications, a short call, and a call with a part.
fn send(portal: Portal, word: u64) {
    for bit in 0..10 {
        let _ = portal.notify(1 << bit);
    }
    let _ = portal.call(Message::new(&[1000 + word % 64]));
    let _ = portal.call(Message::new(&[1000 + word % 64, word]).out(&[0x55; 512]));
}
