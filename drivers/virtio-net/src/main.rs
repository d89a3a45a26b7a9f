//! The driver program of one virtio network device ([`cairn_device::start`] names its portals); protocol `cairn_idl::link`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_device::Wanted;
use cairn_link::program::{drive, Trouble};
use cairn_virtio::transport;
use cairn_virtio::windows::{show, Unseen};
use cairn_virtio_net::device::{Device, PIECES};

cairn_rt::entry!(main);

/// Why there is no link.
#[derive(Debug)]
enum Unfit {
    /// It is no device of virtio 1.
    NoVirtio1,
    #[expect(dead_code, reason = "shown in the log")]
    Device(transport::Trouble),
}

fn main() -> ! {
    drive(
        PIECES,
        Wanted::messages(2),
        |bus| {
            let mut registers = show(bus).map_err(|unseen| match unseen {
                Unseen::NoVirtio1 => Trouble::Device(Unfit::NoVirtio1),
                Unseen::Window(why) => Trouble::Failure("a window", why),
            })?;
            transport::reset(&mut registers).map_err(|why| Trouble::Device(Unfit::Device(why)))?;
            Ok(registers)
        },
        |registers, pieces, told| {
            Device::new(registers, pieces, told.messages()).map_err(Unfit::Device)
        },
    )
}
