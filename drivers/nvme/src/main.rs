//! The driver program of one NVMe disk ([`cairn_device::start`] names its portals); protocol `cairn_idl::block`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_block::start::{drive, window, Trouble};
use cairn_nvme::controller::{is_enabled, reset, Controller, PIECES};
use cairn_rt::{time, Receiver};

cairn_rt::entry!(main);

/// How long a controller that was at work is left alone before it is reset.
const REST: u64 = 300_000_000;

/// Let a controller that was at work for a driver before this one come to an end with it. It need not, but QEMU 7.2 itself ends when an NVMe controller is reset in the midst of requests.
fn rest() {
    if let Ok(nobody) = Receiver::create() {
        let _ = nobody.receive(Some(time::monotonic() + REST));
        nobody.0.close();
    }
}

fn main() -> ! {
    drive(
        PIECES,
        1,
        |bus| {
            let mut registers = window(bus, 0)?;
            if is_enabled(&mut registers) {
                rest();
            }
            reset(&mut registers).map_err(Trouble::Device)?;
            Ok(registers)
        },
        |registers, pieces, messages| Controller::new(registers, pieces, messages > 0),
    )
}
