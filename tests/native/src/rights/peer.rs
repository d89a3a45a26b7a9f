//! Has what the test of rights lends it.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

mod ask;

use cairn_abi::service::current;
use cairn_abi::{flag, layout, received, rights, Error};
use cairn_idl::fs;
use cairn_rt::semaphore::Semaphore;
use cairn_rt::{Message, Portal, Received, Receiver, Reply};

cairn_rt::entry!(main);

fn code(result: Result<(), Error>) -> u64 {
    result.err().map_or(0, |error| error as u64)
}

fn main() -> ! {
    let channel = Receiver(Portal(layout::native_slot::RECEIVE));
    let mut kept = Portal(0);
    let mut called = 0;
    loop {
        let Ok(message) = channel.receive(None) else {
            continue;
        };
        if message.kind == received::kind::MESSAGE {
            serve(channel, &message, &mut kept, &mut called);
        }
    }
}

fn serve(channel: Receiver, message: &Received, kept: &mut Portal, called: &mut u64) {
    let w = message.words;
    let slot = |i: usize| Portal(w[i] as u32);
    let mut answer = [0; 8];
    match w[0] {
        ask::KEEP if message.portals == 1 => {
            *kept = slot(7);
            let info = Portal::CURRENT.service(current::PORTAL_INFO, &[w[7]]);
            answer[1] = info.map_or(0, |info| info[1]);
        }
        ask::USE => answer[0] = code(kept.notify(1)),
        ask::RETURN => {
            let reply = Reply::new(&[0]).portal(*kept, false);
            match channel.reply(message.token, reply) {
                Ok(()) => return,
                Err(error) => answer[0] = error as u64,
            }
        }
        ask::DERIVE => match kept.derive(rights::ALL) {
            Ok(derived) => *kept = derived,
            Err(error) => answer[0] = error as u64,
        },
        ask::OPEN => match kept.open(rights::ALL | rights::OPEN, w[1]) {
            Ok(opened) => {
                let reply = Reply::new(&[0]).portal(opened, true);
                if channel.reply(message.token, reply).is_ok() {
                    return;
                }
            }
            Err(error) => answer[0] = error as u64,
        },
        ask::CALL => {
            let _ = channel.reply_words(message.token, &answer);
            *called = code(kept.call(Message::new(&[1])).map(|_| ()));
            return;
        }
        ask::CALLED => answer[0] = *called,
        ask::CLOSE => kept.close(),
        ask::RING if message.portals == 3 => {
            // The caller goes on first, then both take turns.
            let (own, next) = (Semaphore(slot(6)), Semaphore(slot(7)));
            let _ = channel.reply_words(message.token, &answer);
            let mut result = Ok(());
            for _ in 0..w[1] {
                result = result.and(own.p()).and(next.v());
            }
            let _ = Semaphore(slot(5)).v();
            (5..8).for_each(|i| slot(i).close());
            return;
        }
        // A memory object is asked for, and w3 is given as one; beside that so many portals come, new ones or the one that is kept.
        fs::MMAP => {
            let mut reply = Reply::new(&[1, 0, 0, 0, w[3], w[3], w[3], w[3]]);
            reply.portals = w[1];
            if w[2] == 0 {
                reply.flags = flag::MINT;
            } else {
                let first = 8 - w[1].min(4) as usize;
                reply.words[first..].fill(u64::from(kept.0));
            }
            match channel.reply(message.token, reply) {
                Ok(()) => return,
                Err(error) => answer[0] = error as u64,
            }
        }
        ask::TAKE if message.portals == 1 => answer[0] = code(Semaphore(slot(7)).p()),
        ask::DIE => cairn_rt::start::exit(0),
        _ => answer[0] = u64::MAX,
    }
    let _ = channel.reply_words(message.token, &answer);
}
