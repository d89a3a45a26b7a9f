//! A domain to talk to: told which thread to make, it makes one with a channel of its own and answers with a portal to that.

use crate::stubs::{self, Entry};
use crate::{need, thread, with_room, HIGH, LOW};
use cairn_abi::layout::native_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::receive;
use cairn_abi::service::thread as operation;
use cairn_rt::{Message, Portal, Receiver, Reply};

/// Kinds of threads: the first word of a message. A second one of 1: a portal for it to call comes along.
const KINDS: [(Entry, u64); 11] = [
    (stubs::echo, HIGH),
    (stubs::stamp, HIGH),
    (stubs::forward, HIGH),
    (stubs::read_data, HIGH),
    (stubs::answer_data, HIGH),
    (stubs::waiter, HIGH),
    (stubs::yielder, LOW),
    (stubs::ringer, LOW),
    (stubs::echo, HIGH),
    (stubs::looker, HIGH),
    (stubs::caller, LOW),
];
pub const ECHO: u64 = 0;
pub const STAMP: u64 = 1;
pub const FORWARD: u64 = 2;
pub const READ_DATA: u64 = 3;
pub const ANSWER_DATA: u64 = 4;
pub const WAITER: u64 = 5;
pub const YIELDER: u64 = 6;
/// Two portals come along: the semaphore that it waits for, and the next one's.
pub const RINGER: u64 = 7;
/// An echo whose channel has a signature: of operation 1 no word is above 8, of operation 2 the last one is a badge.
pub const SIGNED: u64 = 8;
/// A portal comes with each message.
pub const LOOKER: u64 = 9;
/// It does not start, and the portal is the thread's.
pub const CALLER: u64 = 10;

pub fn run() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    loop {
        let Ok(message) = receiver.receive(None) else {
            continue;
        };
        if message.token == 0 {
            continue;
        }
        let Some(&(entry, priority)) = KINDS.get(message.words[0] as usize) else {
            let _ = receiver.reply(message.token, Reply::result(-1));
            continue;
        };
        let next = if message.portals == 1 {
            message.words[7]
        } else {
            0
        };
        let channel = need("a channel", with_room(pool::CHANNEL, Receiver::create));
        let portal = need(
            "a portal",
            with_room(pool::PORTAL, || channel.make_portal(1)),
        );
        if message.words[0] == SIGNED {
            let any = u64::MAX;
            for line in [
                [1, 8, 8, 8, 8, 8, 8, 8],
                [2 | receive::BADGE, any, any, any, any, any, any, any],
            ] {
                let signed = with_room(pool::SIGNATURE, || channel.sign(&line));
                need("a signature", signed);
            }
        }
        let argument = match message.portals {
            2 => message.words[6] | message.words[7] << 32,
            _ => channel.0 .0 as u64 | next << 32,
        };
        let made = thread(Portal(native_slot::DOMAIN), entry, argument, priority);
        if message.words[0] == CALLER {
            let _ = receiver.reply(message.token, Reply::default().portal(made, true));
            continue;
        }
        need("a start", made.service(operation::START, &[]));
        let _ = receiver.reply(message.token, Reply::default().portal(portal, true));
    }
}

/// Have the domain behind `leg` make a thread of this kind; a portal to it.
pub fn make(leg: Portal, kind: u64, next: Option<Portal>) -> Portal {
    let mut message = Message::new(&[kind]);
    if let Some(next) = next {
        message = message.portal(next);
    }
    Portal(need("a leg", leg.ask(message)).words[7] as u32)
}
