//! Sends a row of messages to the queue test's receiver and sleeps when there is no room.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout;
use cairn_queue::native::{open, SendError};
use cairn_queue::{Error, Shape};
use cairn_rt::{startup, Portal, Receiver};

cairn_rt::entry!(main);

const COUNT: u64 = 50_000;

fn main() -> ! {
    let to = startup::portal("receiver").expect("the manifest names it");
    let own = Receiver(Portal(layout::native_slot::RECEIVE));
    let bell = own.make_portal(1).expect("a portal");
    let greedy = Shape {
        messages: 128,
        data: 4096,
    };
    assert!(open(to, 1, greedy, None).is_none());
    let shape = Shape {
        messages: 64,
        data: 4096,
    };
    let mut link = open(to, 1, shape, Some(bell)).expect("accepted");
    bell.close();
    let number = link.number();
    for i in 0..COUNT {
        let data = [i as u8; 200];
        let data = &data[..(i % 200) as usize];
        loop {
            match link.send([i, !i, 7, number], data) {
                Ok(()) => break,
                Err(SendError::Ring(Error::Full)) => {
                    if link.arm(data.len()) == Ok(false) {
                        let _ = own.receive(None);
                    }
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    link.close();
    cairn_rt::start::exit(0)
}
