//! A device that a component has through its driver: the driver's pulses come by the component's channel.

use cairn_block::native::Disk;
use cairn_block::Device;
use cairn_rt::Received;

pub trait Attached: Device {
    /// A pulse with the device's badge ([`crate::DEVICE`]).
    fn pulse(&mut self, received: &Received);
}

impl Attached for Disk {
    fn pulse(&mut self, received: &Received) {
        Disk::pulse(self, received);
    }
}
