//! The driver program of one such controller ([`cairn_device::start`] names its portals); protocol `cairn_idl::link`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_device::registers::window;
use cairn_device::Wanted;
use cairn_e1000::device::{Device, PIECES};
use cairn_e1000::registers::{reset, Model, Trouble as Unfit};
use cairn_link::program::{drive, Trouble};

cairn_rt::entry!(main);

fn main() -> ! {
    drive(
        PIECES,
        Wanted {
            messages: 1,
            line: true,
        },
        |bus| {
            let function = bus.info(0);
            let function = function.map_err(|why| Trouble::Failure("the bus", why))?;
            let model = Model::of(function.identity, function.msix != 0);
            let model = model.ok_or(Trouble::Device(Unfit::Unknown))?;
            let mut registers = window(bus, 0)?;
            reset(&mut registers, model).map_err(Trouble::Device)?;
            Ok((registers, model))
        },
        |(registers, model), pieces, told| Device::new(registers, model, pieces, told),
    )
}
