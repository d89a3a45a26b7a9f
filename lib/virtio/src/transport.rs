//! A device over PCI: its common registers (4.1.4.3), reset, features, queues (3.1.1).

use crate::queue::{self, Queue};
use cairn_device::Memory;

/// The device's registers; offsets are within each of its places.
pub trait Registers {
    fn common8(&mut self, at: usize) -> u8;
    fn common16(&mut self, at: usize) -> u16;
    fn common32(&mut self, at: usize) -> u32;
    fn set_common8(&mut self, at: usize, value: u8);
    fn set_common16(&mut self, at: usize, value: u16);
    fn set_common32(&mut self, at: usize, value: u32);
    fn device8(&mut self, at: usize) -> u8;
    fn device16(&mut self, at: usize) -> u16;
    fn device32(&mut self, at: usize) -> u32;
    /// Tell the device of its queue `number`, which is notified at this place.
    fn notify(&mut self, place: u16, number: u16);
    /// Let a little time pass.
    fn pause(&mut self);
}

mod common {
    pub const DEVICE_SELECT: usize = 0;
    pub const DEVICE_FEATURES: usize = 4;
    pub const DRIVER_SELECT: usize = 8;
    pub const DRIVER_FEATURES: usize = 12;
    pub const CONFIG_VECTOR: usize = 16;
    pub const STATUS: usize = 20;
    pub const GENERATION: usize = 21;
    pub const QUEUE_SELECT: usize = 22;
    pub const QUEUE_SIZE: usize = 24;
    pub const QUEUE_VECTOR: usize = 26;
    pub const QUEUE_ENABLE: usize = 28;
    pub const QUEUE_NOTIFY: usize = 30;
    /// Descriptors, available, used: 64 bits each.
    pub const QUEUE_PLACES: usize = 32;
}

mod status {
    pub const ACKNOWLEDGE: u8 = 1;
    pub const DRIVER: u8 = 2;
    pub const DRIVER_OK: u8 = 4;
    pub const FEATURES_OK: u8 = 8;
    pub const NEEDS_RESET: u8 = 64;
    pub const FAILED: u8 = 128;
}

/// Features that all sorts of devices may have (6).
pub mod feature {
    pub const INDIRECT: u64 = 1 << 28;
    pub const EVENT_INDEX: u64 = 1 << 29;
    pub const VERSION_1: u64 = 1 << 32;
    /// The device's addresses are those that the platform says; here they are physical ones either way.
    pub const ACCESS_PLATFORM: u64 = 1 << 33;
}

/// "No message" as number of an interrupt message.
const NO_VECTOR: u16 = 0xffff;
/// How often the device is looked at while it resets itself.
const RESET_LOOKS: u32 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It does not come out of its reset.
    Stuck,
    /// It lacks a feature, or has a queue, that this driver cannot do with.
    Unfit,
}

/// The device does nothing any more when this is done. To be called before memory is given to it, or taken away.
pub fn reset(registers: &mut impl Registers) -> Result<(), Trouble> {
    registers.set_common8(common::STATUS, 0);
    for _ in 0..RESET_LOOKS {
        if registers.common8(common::STATUS) == 0 {
            return Ok(());
        }
        registers.pause();
    }
    Err(Trouble::Stuck)
}

/// With a device that was [`reset`]: the features that it has of those that are wanted. Without the needed ones it is given up.
pub fn negotiate(r: &mut impl Registers, wanted: u64, needed: u64) -> Result<u64, Trouble> {
    let mut now = status::ACKNOWLEDGE | status::DRIVER;
    r.set_common8(common::STATUS, now);
    let mut features = 0;
    for half in [1, 0] {
        r.set_common32(common::DEVICE_SELECT, half);
        features = features << 32 | u64::from(r.common32(common::DEVICE_FEATURES));
    }
    let features = features & wanted;
    for half in [0, 1] {
        r.set_common32(common::DRIVER_SELECT, half);
        r.set_common32(common::DRIVER_FEATURES, (features >> (32 * half)) as u32);
    }
    now |= status::FEATURES_OK;
    r.set_common8(common::STATUS, now);
    let taken = r.common8(common::STATUS) & status::FEATURES_OK != 0;
    if !taken || features & needed != needed {
        return Err(give_up(r));
    }
    Ok(features)
}

/// This driver cannot do with the device.
pub fn give_up(r: &mut impl Registers) -> Trouble {
    let now = r.common8(common::STATUS);
    r.set_common8(common::STATUS, now | status::FAILED);
    Trouble::Unfit
}

/// Everything is set up: from now on the device works.
pub fn begin(r: &mut impl Registers) {
    let now = r.common8(common::STATUS);
    r.set_common8(common::STATUS, now | status::DRIVER_OK);
}

/// Whether the device says that it must be reset.
pub fn is_broken(r: &mut impl Registers) -> bool {
    r.common8(common::STATUS) & status::NEEDS_RESET != 0
}

/// Counts changes of the device's own registers.
pub fn generation(r: &mut impl Registers) -> u8 {
    r.common8(common::GENERATION)
}

/// It tells of changes of its own registers by its first message, if there are some.
pub fn tell_changes(r: &mut impl Registers, messages: u32) {
    let vector = if messages > 0 { 0 } else { NO_VECTOR };
    r.set_common16(common::CONFIG_VECTOR, vector);
}

/// A queue that was set up.
pub struct Made<const W: usize> {
    pub queue: Queue<W>,
    /// Where it is notified.
    pub place: u16,
    /// It interrupts by a message.
    pub interrupts: bool,
}

/// Set up queue `number`, whose memory begins at `at` and is zero. None: there is no such queue.
pub fn queue<const W: usize>(
    r: &mut impl Registers,
    memory: &impl Memory,
    number: usize,
    at: usize,
    messages: u32,
    features: u64,
) -> Option<Made<W>> {
    r.set_common16(common::QUEUE_SELECT, number as u16);
    let most = r.common16(common::QUEUE_SIZE);
    let most = most.min(queue::most(W) as u16);
    let size = 1 << most.checked_ilog2()?;
    r.set_common16(common::QUEUE_SIZE, size);
    let vector = match messages {
        0 => NO_VECTOR,
        some => number.min(some as usize - 1) as u16,
    };
    r.set_common16(common::QUEUE_VECTOR, vector);
    let interrupts = messages > 0 && r.common16(common::QUEUE_VECTOR) == vector;
    let queue = Queue::new(at, size, features & feature::EVENT_INDEX != 0);
    for (i, place) in queue.places(memory).into_iter().enumerate() {
        let at = common::QUEUE_PLACES + 8 * i;
        r.set_common32(at, place as u32);
        r.set_common32(at + 4, (place >> 32) as u32);
    }
    let place = r.common16(common::QUEUE_NOTIFY);
    r.set_common16(common::QUEUE_ENABLE, 1);
    Some(Made {
        queue,
        place,
        interrupts,
    })
}
