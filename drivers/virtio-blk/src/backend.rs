//! The device as lib/block's serving half wants it: pages are pinned before the device hears of them, and let go when it is done.

use crate::device::{Device, Frames, Registers, DATA_MOST};
use crate::queue::{Memory, MOST};
use alloc::boxed::Box;
use cairn_block::serve::{Backend, Order};
use cairn_block::{Info, Outcome};

/// `vm`, as far as it is needed.
pub trait Pins {
    /// The frames of pages of a client's arena, which stay until they are let go. False: they are not there.
    fn pin(&mut self, arena: u32, pages: &[u32], frames: &mut [u32]) -> bool;
    fn unpin(&mut self, frames: &[u32]);
}

/// What the device has of a client's.
#[derive(Clone, Copy)]
struct Held {
    frames: [u32; DATA_MOST],
    count: usize,
}

pub struct Virtio<R, M, P> {
    pub device: Device<R, M>,
    pins: P,
    held: Box<[Held; MOST]>,
}

impl<R: Registers, M: Memory, P: Pins> Virtio<R, M, P> {
    pub fn new(device: Device<R, M>, pins: P) -> Virtio<R, M, P> {
        let nothing = Held {
            frames: [0; DATA_MOST],
            count: 0,
        };
        Virtio {
            device,
            pins,
            held: Box::new([nothing; MOST]),
        }
    }

    /// A request that came out; its pages are its owner's again.
    pub fn completed(&mut self) -> Option<(usize, Outcome)> {
        let (tag, outcome) = self.device.completed()?;
        let held = &mut self.held[tag];
        if held.count > 0 {
            self.pins.unpin(&held.frames[..held.count]);
            held.count = 0;
        }
        Some((tag, outcome))
    }
}

impl<R: Registers, M: Memory, P: Pins> Backend for Virtio<R, M, P> {
    fn info(&self) -> Info {
        self.device.info()
    }

    fn start(&mut self, tag: usize, order: &Order) -> bool {
        let held = &mut self.held[tag];
        let Some(frames) = held.frames.get_mut(..order.pages.len()) else {
            return false;
        };
        if !frames.is_empty() && !self.pins.pin(order.arena, order.pages, frames) {
            return false;
        }
        let data = Frames {
            frames,
            offset: order.offset,
        };
        let begun = self
            .device
            .start(tag, order.kind, order.sector, order.bytes, data);
        match begun {
            true => held.count = order.pages.len(),
            false if !frames.is_empty() => self.pins.unpin(frames),
            false => {}
        }
        begun
    }
}
