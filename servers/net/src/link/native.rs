//! A link with a driver behind it (`cairn_link`).

use super::ethernet::{Ethernet, Port};
use super::{BADGE, MOST};
use crate::interface::Offers;
use crate::packet::Sum;
use crate::server::Net;
use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_abi::layout::native_slot;
use cairn_ethernet::Mac;
use cairn_link::native::Link;
use cairn_link::Offload;
use cairn_rt::{log, startup, Portal, Received, Receiver};

/// Pages for what comes, two buffers in each; places for what leaves, two in each page.
const RECEIVE: usize = 128;
const SEND: usize = 64;
const PLACE: usize = 2048;
const PAGE: usize = 4096;

struct Native {
    link: Link,
    /// Places that nothing is in, and which place each frame on its way has.
    free: Vec<u16>,
    places: [u16; 256],
}

impl Native {
    fn collect(&mut self, tell: bool) {
        while let Some(number) = self.link.sent(tell) {
            self.free.push(self.places[usize::from(number) % 256]);
        }
    }
}

impl Port for Native {
    fn mac(&self) -> Mac {
        self.link.info().mac
    }

    fn mtu(&self) -> usize {
        (self.link.info().mtu as usize).min(PLACE - 32)
    }

    fn is_up(&self) -> bool {
        self.link.info().up && !self.link.has_ended()
    }

    fn offers(&self) -> Offers {
        Offers {
            sums: self.link.info().sums_out,
        }
    }

    fn receive(&mut self) -> Option<(Vec<u8>, Sum)> {
        loop {
            let frame = self.link.received()?;
            let mut bytes = Vec::new();
            let room = bytes.try_reserve_exact(frame.length()).is_ok();
            if room {
                self.link
                    .bytes(&frame)
                    .for_each(|piece| bytes.extend_from_slice(piece));
            }
            self.link.give_back(&frame);
            // What there is no memory for was lost on the way.
            if room {
                let sum = match (frame.missing, frame.right) {
                    (true, _) => Sum::Missing,
                    (_, true) => Sum::Right,
                    _ => Sum::Made,
                };
                return Some((bytes, sum));
            }
        }
    }

    fn send(&mut self, frame: &[u8], offload: &Offload) -> bool {
        if self.free.is_empty() {
            self.collect(true);
        }
        if frame.len() > PLACE {
            return true;
        }
        let Some(place) = self.free.pop() else {
            return false;
        };
        let at = usize::from(place) * PLACE;
        self.link.space()[at..at + frame.len()].copy_from_slice(frame);
        let piece = (self.link.place(at), frame.len() as u32);
        match self.link.send(&[piece], offload) {
            Ok(number) => self.places[usize::from(number) % 256] = place,
            // It cannot leave, ever; or the link is gone.
            Err(_) => self.free.push(place),
        }
        true
    }

    fn pulse(&mut self, pulse: &Received) {
        self.link.pulse(pulse);
        self.collect(false);
    }
}

/// All links that the manifest names: portals `eth0` and so on.
pub fn attach_all(net: &mut Net, random: fn() -> u64) {
    for (number, name) in ["eth0", "eth1", "eth2", "eth3"].into_iter().enumerate() {
        let Some(driver) = startup::portal(name).filter(|_| number < MOST as usize) else {
            continue;
        };
        let badge = BADGE + number as u64;
        let channel = Receiver(Portal(native_slot::RECEIVE));
        match Link::open(driver, RECEIVE, SEND, channel, badge) {
            Ok(link) => {
                let native = Native {
                    link,
                    free: (0..(SEND * PAGE / PLACE) as u16).rev().collect(),
                    places: [0; 256],
                };
                let mtu = native.mtu() as u32;
                let device = Box::new(Ethernet::new(native, random));
                let added = net.add_link(name.as_bytes(), mtu, badge, device);
                // The first look is upon a pulse of its own.
                let first = channel.make_portal(badge).and_then(|own| own.notify(1));
                if !added || first.is_err() {
                    log!("{name}: no memory");
                }
            }
            Err(failure) => log!("{name}: {failure}"),
        }
    }
}
