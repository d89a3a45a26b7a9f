//! The program of /dev: `serial=` says how many serial lines there are.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use cairn_abi::layout::native_slot;
use cairn_abi::service;
use cairn_devfs::server::{Devfs, Machine};
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{entropy, log, startup, time, Portal};

cairn_rt::entry!(main);

/// Serial lines of a PC that the standard system drives.
const SERIAL_LINES: u32 = 2;

struct Nucleus;

impl Machine for Nucleus {
    fn log_read(&mut self, offset: u64, into: &mut [u8]) -> (usize, u64) {
        let length = into.len();
        Portal(native_slot::LOG)
            .service_into(service::log::READ, &[0, length as u64, offset], 0, into)
            .map_or((0, offset), |words| {
                ((words[0] as usize).min(length), words[1])
            })
    }

    fn log_write(&mut self, line: &[u8]) {
        log::write_plain(format_args!("{}", line.escape_ascii()));
    }

    fn entropy(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let cycles = entropy::cycles() ^ time::realtime().rotate_left(32);
        // Without a generator in the processor what is left are the moments when requests come.
        let hardware = entropy::hardware().unwrap_or_else(|| cycles.rotate_left(17));
        bytes[..8].copy_from_slice(&hardware.to_le_bytes());
        bytes[8..].copy_from_slice(&cycles.to_le_bytes());
        bytes
    }
}

fn main() -> ! {
    let lines = startup::argument("serial")
        .and_then(|value| value.parse().ok())
        .unwrap_or(SERIAL_LINES);
    let born = (time::realtime() / 1_000_000_000) as i64;
    let mut devfs = Devfs::new(Nucleus, lines, born);
    serve(&mut Manager::new(b"/dev"), &mut devfs, &mut Native::new())
}
