//! The driver program of the first SATA disk of an AHCI controller ([`cairn_device::start`] names its portals); protocol `cairn_idl::block`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_ahci::disk::Disk;
use cairn_ahci::port::{reset, PIECES, REGISTERS};
use cairn_block::start::{drive, window, Trouble};

cairn_rt::entry!(main);

fn main() -> ! {
    drive(
        PIECES,
        1,
        |bus| {
            let mut registers = window(bus, REGISTERS)?;
            reset(&mut registers).map_err(Trouble::Device)?;
            Ok(registers)
        },
        |registers, pieces, messages| Disk::new(registers, pieces, messages > 0),
    )
}
