//! A link with a driver behind it (`cairn_link`).

use super::ethernet::{Ethernet, Port};
use super::{BADGE, MOST};
use crate::interface::Offers;
use crate::packet::Sum;
use crate::server::Net;
use crate::stream::TEXT_MOST;
use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_abi::layout::native_slot;
use cairn_ethernet::Mac;
use cairn_idl::link::PIECES;
use cairn_link::native::Link;
use cairn_link::Offload;
use cairn_rt::{log, startup, Portal, Received, Receiver};

/// Pages for what comes, two buffers in each; places for what leaves, two in each page.
const RECEIVE: usize = 128;
const SEND: usize = 64;
const PLACE: usize = 2048;
/// What leaves to be cut has no more text, or it would need more pieces than a frame has.
const _: () = assert!(TEXT_MOST as usize + 14 + 40 + 60 <= PIECES as usize * PLACE);
const PAGE: usize = 4096;

struct Native {
    link: Link,
    /// Places that nothing is in, and which ones each frame on its way has: several, if it is to be cut.
    free: Vec<u16>,
    places: [([u16; PIECES as usize], u8); 256],
}

impl Native {
    fn collect(&mut self, tell: bool) {
        while let Some(number) = self.link.sent(tell) {
            let (places, count) = &mut self.places[usize::from(number) % 256];
            self.free.extend(&places[..usize::from(*count)]);
            *count = 0;
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
            cuts: self.link.info().segments,
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
        let count = frame.len().div_ceil(PLACE);
        if self.free.len() < count {
            self.collect(true);
        }
        if count > PIECES as usize {
            return true;
        }
        let Some(left) = self.free.len().checked_sub(count) else {
            return false;
        };
        let mut places = [0; PIECES as usize];
        places[..count].copy_from_slice(&self.free[left..]);
        let mut pieces = [(0, 0); PIECES as usize];
        for (i, part) in frame.chunks(PLACE).enumerate() {
            let at = usize::from(places[i]) * PLACE;
            self.link.space()[at..at + part.len()].copy_from_slice(part);
            pieces[i] = (self.link.place(at), part.len() as u32);
        }
        // (What is refused cannot leave, ever; or the link is gone.)
        if let Ok(number) = self.link.send(&pieces[..count], offload) {
            self.free.truncate(left);
            self.places[usize::from(number) % 256] = (places, count as u8);
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
                    places: [([0; PIECES as usize], 0); 256],
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
