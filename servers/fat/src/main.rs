//! The component. Portals: `disk`, the driver of a whole disk or a partition; `proc`; of mount(2) also `ready`. Arguments: `prefix=`, `st_dev=`, `ro`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_block::native::Disk;
use cairn_block::program::give_up;
use cairn_block::{Device, Kind, Outcome, Request, PAGE, SECTOR};
use cairn_fat::store::{Lines, LINE};
use cairn_fat::{Fat, Options};
use cairn_idl::errno::*;
use cairn_resmgr::{event, Manager, Native};
use cairn_rt::{memory, startup, Portal, Receiver};

cairn_rt::entry!(main);

/// Lines that are kept: what can be pinned once.
const SLOTS: usize = 64;
/// Pages of a line.
const PAGES: usize = LINE / PAGE;

/// Waits for the disk, with a channel of its own: requests of programs wait meanwhile.
struct Waiting {
    disk: Disk,
    arena: &'static mut [u8],
    channel: Receiver,
}

impl Waiting {
    fn order(&mut self, kind: Kind, slot: usize, from: usize, at: u64, bytes: usize) -> bool {
        let first = slot * PAGES + from / PAGE;
        let pages: [u32; PAGES] = core::array::from_fn(|i| (first + i) as u32);
        let most = self.disk.info().most_pages.max(1) as usize * PAGE;
        let mut done = 0;
        while done < bytes || kind == Kind::Flush {
            let some = (bytes - done).min(most);
            let request = Request {
                id: 0,
                kind,
                sector: (at + done as u64) / SECTOR,
                bytes: some as u64,
                pages: &pages[done / PAGE..(done + some).div_ceil(PAGE)],
                offset: 0,
            };
            if self.disk.submit(&request).is_err() || self.wait() != Outcome::Done {
                return false;
            }
            done += some;
            if kind == Kind::Flush {
                break;
            }
        }
        true
    }

    fn wait(&mut self) -> Outcome {
        let mut outcome = None;
        loop {
            // To the end, so that the driver tells of the next one.
            while let Some((_, told)) = self.disk.completed() {
                outcome = Some(told);
            }
            if let Some(outcome) = outcome {
                return outcome;
            }
            if let Ok(pulse) = self.channel.receive(None) {
                self.disk.pulse(&pulse);
            }
        }
    }
}

impl Lines for Waiting {
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
        self.order(Kind::Read, slot, 0, at, bytes)
    }
    fn save(&mut self, slot: usize, from: usize, at: u64, bytes: usize) -> bool {
        self.order(Kind::Write, slot, from, at, bytes)
    }
    fn flush(&mut self) -> bool {
        !self.disk.info().caches_writes || self.order(Kind::Flush, 0, 0, 0, 0)
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
    let Ok(channel) = Receiver::create() else {
        give_up(ENOMEM, format_args!("no channel"));
    };
    let Ok(disk) = Disk::open_fixed(driver, arena, channel, 1) else {
        give_up(ENXIO, format_args!("no disk"));
    };
    let given = |word| startup::arguments().any(|argument| argument == word);
    let ready: Option<Portal> = startup::portal("ready");
    if disk.info().read_only && !given("ro") && ready.is_some() {
        give_up(EACCES, format_args!("the disk cannot be written"));
    }
    let options = Options {
        read_only: given("ro") || disk.info().read_only,
        device: startup::argument("st_dev").map_or(0xfe00, |text| text.parse().unwrap_or(0xfe00)),
        end,
    };
    let lines = Waiting {
        disk,
        arena,
        channel,
    };
    let Some(mut server) = Fat::open(lines, options) else {
        give_up(EINVAL, format_args!("no FAT file system"));
    };
    if let Some(ready) = ready {
        // If `init` cannot be told it hears of the end.
        let _ = ready.notify(1);
    }
    let prefix = startup::argument("prefix").map_or(&b""[..], str::as_bytes);
    event::serve(&mut Manager::new(prefix), &mut server, &mut Native::new())
}
