//! The component: arena from `vm`, the disk through its driver, then the loop. Portals: `disk`, the driver of a whole disk or a partition; `proc`; of mount(2) also `ready`. Arguments: `prefix=`, `st_dev=`, `ro`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_block::program::give_up;
use cairn_block::waiting::Waiting;
use cairn_block::Kind;
use cairn_cache::Slot;
use cairn_idl::errno::*;
use cairn_iso::pages::{Medium, PAGE};
use cairn_iso::{Iso, Options, MEMORY, PAGES};
use cairn_resmgr::objects::tell_names;
use cairn_resmgr::{event, Manager, Native, NativeObjects};
use cairn_rt::{memory, paging, startup, time, Portal, Receiver};

cairn_rt::entry!(main);

const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));
/// What a disk counts in.
const BLOCK: u64 = cairn_block::SECTOR;

/// The disk, and the cache's pages, which are lent.
struct Arena {
    disk: Waiting,
    memory: &'static mut [u8],
}

impl Arena {
    fn pages(&mut self, first: Slot, count: u32) -> &mut [u8] {
        let start = first as usize * PAGE;
        &mut self.memory[start..start + count as usize * PAGE]
    }
}

impl cairn_cache::Memory for Arena {
    fn populate(&mut self, first: Slot, count: u32) -> bool {
        memory::populate_lent(self.pages(first, count))
    }

    fn release(&mut self, first: Slot, count: u32) {
        // If `vm` keeps them nothing is lost but memory.
        let _ = memory::release(self.pages(first, count));
    }
}

impl Medium for Arena {
    fn length(&self) -> u64 {
        self.disk.info().sectors * BLOCK
    }

    fn load(&mut self, pages: &[Slot], offset: u32, at: u64, bytes: u64) -> bool {
        self.disk.transfer(Kind::Read, pages, offset, at, bytes)
    }

    fn bytes(&mut self, slot: Slot, from: usize, length: usize) -> &mut [u8] {
        let at = slot as usize * PAGE + from;
        &mut self.memory[at..at + length]
    }

    fn wanted(&mut self, nothing_left: bool) -> u64 {
        memory::wanted(nothing_left)
    }

    fn asked(&mut self) -> Option<paging::Request> {
        paging::wanted()
    }

    fn synced(&mut self, ticket: u64) {
        paging::synced(ticket, 0);
    }

    type Objects = NativeObjects;

    fn objects(&self) -> NativeObjects {
        let arena = self.memory.as_ptr() as u64;
        NativeObjects { arena }
    }
}

fn end() {
    cairn_rt::start::end(0)
}

fn main() -> ! {
    let Some(driver) = startup::portal("disk") else {
        give_up(ENXIO, format_args!("no disk"));
    };
    // All idle memory can be cache.
    let slots = u32::try_from(time::system_page().total_frames).unwrap_or(u32::MAX / 2);
    let slots = slots.max(64);
    let Some(memory) = memory::map(slots as usize * PAGE) else {
        give_up(ENOMEM, format_args!("no memory for the arena"));
    };
    let lending = CHANNEL.make_portal(MEMORY);
    let lending = lending.and_then(|watcher| memory::lend(memory, watcher));
    let watching = CHANNEL.make_portal(PAGES).and_then(paging::watch);
    if let Err(error) = lending.and(watching) {
        give_up(ENOMEM, format_args!("no cache: {error:?}"));
    }
    tell_names(CHANNEL);
    let disk = match Waiting::open(driver, memory, false) {
        Ok(disk) => disk,
        Err(failure) => give_up(ENXIO, format_args!("no disk: {failure:?}")),
    };
    let ready: Option<Portal> = startup::portal("ready");
    if ready.is_some() && !startup::arguments().any(|argument| argument == "ro") {
        // As Linux says it, so that mount(8) asks for it read-only.
        give_up(EACCES, format_args!("it can be read only"));
    }
    let block = disk.info().block;
    if block > 2048 {
        give_up(EINVAL, format_args!("blocks of {block} bytes"));
    }
    let options = Options {
        device: startup::argument("st_dev").map_or(0xfe00, |text| text.parse().unwrap_or(0xfe00)),
        end,
    };
    let Some(mut server) = Iso::open(Arena { disk, memory }, slots, options) else {
        give_up(EINVAL, format_args!("no ISO 9660 file system"));
    };
    if let Some(ready) = ready {
        // If `init` cannot be told it hears of the end.
        let _ = ready.notify(1);
    }
    let prefix = startup::argument("prefix").map_or(&b""[..], str::as_bytes);
    event::serve(&mut Manager::new(prefix), &mut server, &mut Native::new())
}
