//! Has a page that it lets a driver's device reach, and says whether it is as it left it.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::{native_slot, PAGE};
use cairn_abi::received;
use cairn_idl::vm;
use cairn_rt::{memory, Portal, Receiver, Reply};
use core::hint::black_box;

cairn_rt::entry!(main);

/// What it is asked: for the portal to its page; whether that is intact, which it is then; to give its frame back.
const SHARE: u64 = 1;
const INTACT: u64 = 2;
const GIVE_BACK: u64 = 3;
const FILLED: u8 = 0x5a;

fn main() -> ! {
    let page = memory::map(PAGE as usize).expect("a page");
    page.fill(FILLED);
    let own = Portal(native_slot::VM);
    let shared = vm::Client(&own).dma_share(page.as_ptr() as u64, PAGE);
    let shared = Portal(shared.expect("shared").slot());
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    loop {
        let Ok(received) = receiver.receive(None) else {
            continue;
        };
        if received.kind != received::kind::MESSAGE {
            continue;
        }
        let reply = match received.words[0] {
            SHARE => Reply::new(&[0]).portal(shared, false),
            INTACT => {
                // The device writes it, which the compiler does not know.
                let intact = black_box(&mut *page).iter().all(|&byte| byte == FILLED);
                page.fill(FILLED);
                Reply::new(&[0, intact.into()])
            }
            GIVE_BACK => {
                memory::release(page).expect("given back");
                Reply::new(&[0])
            }
            _ => Reply::new(&[u64::MAX]),
        };
        let _ = receiver.reply(received.token, reply);
    }
}
