//! Receives from two senders over asynchronous links: all messages of each in order and whole, those of the one that it prefers first, the end of each link after its last
//! message. Says `queues: done` when all was right.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout;
use cairn_queue::native::{Arrival, Inbox, Limits};
use cairn_rt::{log, Portal, Receiver};

cairn_rt::entry!(main);

const BELLS: u64 = 100;
const COUNT: u64 = 50_000;

fn main() -> ! {
    let channel = Receiver(Portal(layout::native_slot::RECEIVE));
    let limits = Limits {
        messages: 64,
        data: 4096,
    };
    let mut inbox: Inbox<2> = Inbox::new(channel, BELLS, limits);
    // What comes next from each link.
    let mut senders = [0; 2];
    let (mut ended, mut refused, mut badges) = (0, 0, 0);
    let mut data = [0; 256];
    while ended < 2 {
        // Nothing is taken before both are there: the one that comes first fills its link and sleeps.
        let both = badges == 3;
        match inbox.wait(&mut data, |_| both, None).expect("no deadline") {
            Arrival::Link(number, message) => {
                let next = &mut senders[number];
                assert_eq!(message.words, [*next, !*next, 7, number as u64]);
                assert_eq!(message.data as u64, *next % 200);
                let expected = *next as u8;
                assert!(data[..message.data].iter().all(|&byte| byte == expected));
                *next += 1;
            }
            Arrival::Closed(number) => {
                assert_eq!(senders[number], COUNT);
                ended += 1;
            }
            Arrival::TooLong(_) => panic!("nobody sends so much"),
            Arrival::Other(call) if call.words[0] == 1 => {
                // The less important sender is the preferred one.
                match inbox.accept(&call, 10 - call.badge as u8) {
                    Some(_) => badges += call.badge,
                    None => refused += 1,
                }
            }
            Arrival::Other(_) => {}
        }
    }
    // Each of them first asks for too much.
    assert_eq!(refused, 2);
    log!("queues: done");
    cairn_rt::start::exit(0)
}
