//! The server of the test of pages that are given away.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

mod ask;

use ask::WORDS;
use cairn_abi::{layout, received};
use cairn_rt::pages::{self, Taken};
use cairn_rt::{memory, Portal, Received, Receiver, Reply};

cairn_rt::entry!(main);

/// Longest payload that is measured.
const LONGEST: usize = 64 << 20;

struct Peer {
    channel: Receiver,
    kept: Option<Taken>,
    hoarded: Option<Portal>,
    room: Option<&'static mut [u8]>,
}

fn main() -> ! {
    let mut peer = Peer {
        channel: Receiver(Portal(layout::native_slot::RECEIVE)),
        kept: None,
        hoarded: None,
        room: None,
    };
    loop {
        let Ok(message) = peer.channel.receive(None) else {
            continue;
        };
        if message.kind == received::kind::MESSAGE {
            peer.serve(&message);
        }
    }
}

impl Peer {
    fn serve(&mut self, message: &Received) {
        let w = message.words;
        let passed = (message.portals == 1).then_some(Portal(w[7] as u32));
        let mut answer = [0; 8];
        match (w[0], passed) {
            (ask::TAKE, Some(portal)) => {
                self.kept = None;
                match pages::take(portal, LONGEST) {
                    Ok(taken) => {
                        answer[0] = ask::sum(&taken);
                        answer[1] = taken.len() as u64 / layout::PAGE;
                        self.kept = Some(taken);
                    }
                    Err(_) => portal.close(),
                }
            }
            (ask::RETURN, _) => {
                let Some(kept) = &mut self.kept else {
                    return self.reply(message, &answer);
                };
                for byte in kept.iter_mut() {
                    *byte = !*byte;
                }
                return self.give_kept(message);
            }
            (ask::WRITE, _) => {
                if let Some(kept) = &mut self.kept {
                    for page in kept.chunks_exact_mut(layout::PAGE as usize) {
                        page[..8].copy_from_slice(&w[1].to_le_bytes());
                    }
                    answer[0] = ask::sum(kept);
                }
            }
            (ask::DROP, _) => {
                self.kept = None;
                if let Some(portal) = self.hoarded.take() {
                    portal.close();
                }
            }
            (ask::DIE, Some(portal)) => {
                if w[1] == 1 {
                    let _ = pages::take(portal, LONGEST);
                }
                cairn_rt::start::exit(0)
            }
            (ask::HOARD, Some(portal)) => self.hoarded = Some(portal),
            (ask::GIVE_AND_DIE, _) => {
                let own = memory::map(8 * WORDS).expect("memory");
                own.fill(7);
                let offered = pages::give(own, message.sender).expect("an offer");
                let reply = Reply::new(&[]).portal(offered, true);
                let _ = self.channel.reply(message.token, reply);
                cairn_rt::start::exit(0)
            }
            (ask::PART, _) => {
                let (channel, token) = (self.channel, message.token);
                let room = &mut self.room()[..message.out_len.min(LONGEST)];
                answer[0] = channel.read(token, 0, room).map_or(0, |n| n as u64);
            }
            (ask::PAGES, Some(portal)) => {
                let Ok(bytes) = pages::take_into(portal, self.room()) else {
                    return self.reply(message, &answer);
                };
                let pages = &mut self.room()[..bytes];
                match pages::give(pages, message.sender) {
                    Ok(offered) => {
                        let reply = Reply::new(&[bytes as u64]).portal(offered, true);
                        let _ = self.channel.reply(message.token, reply);
                        return;
                    }
                    Err(_) => answer[0] = 0,
                }
            }
            (ask::NOTHING, _) => {}
            _ => answer[0] = u64::MAX,
        }
        self.reply(message, &answer);
    }

    fn reply(&self, message: &Received, words: &[u64; 8]) {
        let _ = self.channel.reply_words(message.token, words);
    }

    /// What is kept goes to the caller with the reply.
    fn give_kept(&mut self, message: &Received) {
        let Some(mut kept) = self.kept.take() else {
            return;
        };
        let count = kept.len() as u64 / layout::PAGE;
        match pages::give(&mut kept, message.sender) {
            Ok(offered) => {
                let reply = Reply::new(&[count]).portal(offered, true);
                let _ = self.channel.reply(message.token, reply);
            }
            Err(_) => self.reply(message, &[0; 8]),
        }
    }

    /// Memory that is there, for what is measured.
    fn room(&mut self) -> &mut [u8] {
        self.room.get_or_insert_with(|| {
            let room = memory::map(LONGEST).expect("memory");
            memory::populate(room).expect("memory");
            room
        })
    }
}
