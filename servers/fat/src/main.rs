//! The component. Portals: `disk`, the driver of a whole disk or a partition; `proc`; of mount(2) also `ready`. Arguments: `prefix=`, `st_dev=`, `ro`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_block::program::give_up;
use cairn_block::waiting::Waiting;
use cairn_block::{Kind, PAGE, SECTOR};
use cairn_fat::store::{Lines, LINE};
use cairn_fat::{Fat, Options};
use cairn_idl::errno::*;
use cairn_resmgr::{event, Manager, Native};
use cairn_rt::{memory, startup, Portal};

cairn_rt::entry!(main);

/// Lines that are kept: what can be pinned once.
const SLOTS: usize = 64;
/// Pages of a line.
const PAGES: usize = LINE / PAGE;

/// The disk, and memory for lines of it.
struct Kept {
    disk: Waiting,
    arena: &'static mut [u8],
}

/// The pages of a slot.
fn pages(slot: usize) -> [u32; PAGES] {
    core::array::from_fn(|i| (slot * PAGES + i) as u32)
}

/// Those of them that bytes `from..from + bytes` are in (`from` begins one).
fn part(pages: &[u32; PAGES], from: usize, bytes: usize) -> &[u32] {
    &pages[from / PAGE..(from + bytes).div_ceil(PAGE)]
}

impl Lines for Kept {
    fn bytes(&self) -> u64 {
        self.disk.info().sectors * SECTOR
    }
    fn slots(&self) -> usize {
        SLOTS
    }
    fn memory(&mut self, slot: usize) -> &mut [u8] {
        &mut self.arena[slot * LINE..][..LINE]
    }
    fn load(&mut self, slot: usize, at: u64, bytes: usize) -> bool {
        let pages = pages(slot);
        let pages = part(&pages, 0, bytes);
        self.disk.transfer(Kind::Read, pages, 0, at, bytes as u64)
    }
    fn save(&mut self, slot: usize, from: usize, at: u64, bytes: usize) -> bool {
        let pages = pages(slot);
        let pages = part(&pages, from, bytes);
        self.disk.transfer(Kind::Write, pages, 0, at, bytes as u64)
    }
    fn flush(&mut self) -> bool {
        self.disk.flush()
    }
}

fn end() {
    cairn_rt::start::end(0)
}

fn main() -> ! {
    let Some(driver) = startup::portal("disk") else {
        give_up(ENXIO, format_args!("no disk"));
    };
    let arena = memory::map(SLOTS * LINE);
    let Some(arena) = arena.and_then(|arena| memory::populate(arena).is_ok().then_some(arena))
    else {
        give_up(ENOMEM, format_args!("no memory"));
    };
    let Ok(disk) = Waiting::open(driver, arena, true) else {
        give_up(ENXIO, format_args!("no disk"));
    };
    let given = |word| startup::arguments().any(|argument| argument == word);
    let ready: Option<Portal> = startup::portal("ready");
    if disk.info().read_only && !given("ro") && ready.is_some() {
        give_up(EACCES, format_args!("the disk cannot be written"));
    }
    let options = Options {
        read_only: given("ro") || disk.info().read_only,
        accesses: 1 << 26,
        device: startup::argument("st_dev").map_or(0xfe00, |text| text.parse().unwrap_or(0xfe00)),
        end,
    };
    let Some(mut server) = Fat::open(Kept { disk, arena }, options) else {
        give_up(EINVAL, format_args!("no FAT file system"));
    };
    if let Some(ready) = ready {
        // If `init` cannot be told it hears of the end.
        let _ = ready.notify(1);
    }
    let prefix = startup::argument("prefix").map_or(&b""[..], str::as_bytes);
    event::serve(&mut Manager::new(prefix), &mut server, &mut Native::new())
}
