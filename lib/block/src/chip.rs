//! What the drivers of devices with memory of their own access have in common: a [`Chip`] does requests on frames. [`crate::pinned`] makes a driver's backend of it.

use crate::{Info, Kind, Outcome};

pub use cairn_device::registers::Registers;
pub use cairn_device::Memory;

/// Data of a request: frames, and where it begins in the first of them.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    pub frames: &'a [u32],
    pub offset: u32,
}

pub trait Chip {
    type Memory: Memory;
    /// Where in its memory there is a page for what the driver itself reads.
    const OWN: usize;
    fn memory(&self) -> &Self::Memory;
    fn info(&self) -> Info;
    /// Begin with a request that was checked. False: the device has the tag's request still.
    fn start(&mut self, tag: usize, kind: Kind, sector: u64, bytes: u64, data: Frames) -> bool;
    /// Tell the device of what was begun.
    fn kick(&mut self);
    /// A request that the device is done with.
    fn completed(&mut self) -> Option<(usize, Outcome)>;
    /// Whether it tells by interrupts what it is done with.
    fn interrupts(&self) -> bool;
    /// It has given up, and has to be reset.
    fn is_broken(&mut self) -> bool;
    /// It has become another size, of which [`Chip::info`] tells. Looked at now and then.
    fn has_changed(&mut self) -> bool {
        false
    }
}
