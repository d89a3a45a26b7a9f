//! The driver program of one virtio disk ([`cairn_device::start`] names its portals); protocol `cairn_idl::block`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_block::start::{drive, Trouble};
use cairn_rt::{log, time};
use cairn_virtio::transport;
use cairn_virtio::windows::{show, Unseen};
use cairn_virtio_blk::device::{Device, PIECES, QUEUES};

cairn_rt::entry!(main);

/// Why there is no disk.
#[derive(Debug)]
enum Unfit {
    /// It is no device of virtio 1.
    NoVirtio1,
    #[expect(dead_code, reason = "shown in the log")]
    Device(transport::Trouble),
}

fn main() -> ! {
    let queues = (time::system_page().cores as usize).clamp(1, QUEUES);
    drive(
        PIECES,
        queues as u32,
        |bus| {
            let mut registers = show(bus).map_err(|unseen| match unseen {
                Unseen::NoVirtio1 => Trouble::Device(Unfit::NoVirtio1),
                Unseen::Window(why) => Trouble::Failure("a window", why),
            })?;
            transport::reset(&mut registers).map_err(|why| Trouble::Device(Unfit::Device(why)))?;
            Ok(registers)
        },
        |registers, pieces, messages| {
            let device = Device::new(registers, pieces, messages, queues).map_err(Unfit::Device)?;
            log!("queues: {}, with {messages} messages", device.queues());
            Ok(device)
        },
    )
}
