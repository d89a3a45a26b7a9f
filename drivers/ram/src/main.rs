//! The program of a disk in memory. Portal `dma`: its badge of `vm`, through which it reaches its clients' arenas.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_block::program;
use cairn_ram::{Arenas, Ram};
use cairn_rt::dma::{Driver, COPY};
use cairn_rt::{log, memory, startup, Portal};

cairn_rt::entry!(main);

struct Vm(Driver);

impl Arenas for Vm {
    const MOST: usize = COPY;
    fn read(&mut self, arena: u32, at: u64, into: &mut [u8]) -> bool {
        self.0.read(Portal(arena), at, into).is_ok()
    }
    fn write(&mut self, arena: u32, at: u64, from: &[u8]) -> bool {
        self.0.write(Portal(arena), at, from).is_ok()
    }
}

fn main() -> ! {
    let driver = startup::portal("dma").map(Driver::begin);
    let (Some(Ok(driver)), Some(memory)) = (driver, memory::keepsake_bytes()) else {
        log!("no disk: a portal to `vm` and a keepsake are needed");
        program::refuse()
    };
    log!("{} KiB in memory", memory.len() / 1024);
    program::run_at_once(Ram::new(memory, Vm(driver)))
}
