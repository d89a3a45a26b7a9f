//! The program of /dev: `serial=` says how many serial lines there are; the portal `block` leads to the manager of disks.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use cairn_abi::layout::native_slot;
use cairn_abi::service;
use cairn_devfs::server::{Devfs, Machine};
use cairn_idl::fs;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{log, startup, time, Portal};

cairn_rt::entry!(main);

/// Serial lines of a PC that the standard system drives.
const SERIAL_LINES: u32 = 2;
/// Room for names of disks at a time.
const ROOM: usize = 1024;

struct Nucleus {
    /// The manager of disks, if the manifest gives one.
    block: Option<Portal>,
}

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

    fn disks(&mut self, each: &mut dyn FnMut(&[u8])) {
        let mut redirect = [0; 1];
        let root = self.block.and_then(|block| {
            let opened = fs::Client(&block).open(fs::o::DIRECTORY, 0, b"", &mut redirect);
            Some(Portal(opened.ok()?.handle.slot()))
        });
        let Some(root) = root else {
            return;
        };
        let mut records = Vec::from([0; ROOM]);
        while let Ok(length @ 1..) = fs::Client(&root).readdir(&mut records) {
            each(&records[..length]);
        }
        root.close();
    }
}

fn main() -> ! {
    let lines = startup::argument("serial")
        .and_then(|value| value.parse().ok())
        .unwrap_or(SERIAL_LINES);
    let born = (time::realtime() / 1_000_000_000) as i64;
    let nucleus = Nucleus {
        block: startup::portal("block"),
    };
    let mut devfs = Devfs::new(nucleus, lines, born);
    serve(&mut Manager::new(b"/dev"), &mut devfs, &mut Native::new())
}
