//! The component: arena from `vm`, the disk through its driver, then the loop. Portals: `disk`, the driver of a whole disk or a partition; `proc`. Arguments: `ro`, `noatime`, `discard`, `nosuid`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use cairn_abi::layout::native_slot;
use cairn_abi::received;
use cairn_block::native::Disk;
use cairn_block::program::give_up;
use cairn_block::Device;
use cairn_cache::{File, Slot};
use cairn_ext4::Time;
use cairn_ext4_server::left::Slots;
use cairn_ext4_server::memory::PAGE;
use cairn_ext4_server::{
    Ext4, Left, Memory, Options, Parts, Refused, DEVICE, MEMORY, PAGES, STAGING,
};
use cairn_idl::errno::*;
use cairn_resmgr::event::serve;
use cairn_resmgr::objects::tell_names;
use cairn_resmgr::{Keepsake, Manager, Native, NativeObjects, Recovered};
use cairn_rt::{memory, paging, startup, time, Portal, Received, Receiver};

cairn_rt::entry!(main);

const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));

/// The arena: the cache's pages, which are lent, and those for metadata.
struct Arena {
    bytes: &'static mut [u8],
    lent: u32,
    /// What its pages hold that nobody else has.
    dirty: Slots,
}

impl Arena {
    fn pages(&mut self, first: Slot, count: u32) -> &mut [u8] {
        let start = first as usize * PAGE;
        &mut self.bytes[start..start + count as usize * PAGE]
    }
}

impl cairn_cache::Memory for Arena {
    fn populate(&mut self, first: Slot, count: u32) -> bool {
        let lent = first < self.lent;
        let pages = self.pages(first, count);
        match lent {
            true => memory::populate_lent(pages),
            false => memory::populate(pages).is_ok(),
        }
    }

    fn release(&mut self, first: Slot, count: u32) {
        // If `vm` keeps them nothing is lost but memory.
        let _ = memory::release(self.pages(first, count));
    }

    #[inline]
    fn only_here(&mut self, slot: Slot, file: File, page: u64) {
        self.dirty.set(slot, file, page);
    }

    #[inline]
    fn not_only_here(&mut self, slot: Slot) {
        self.dirty.clear(slot);
    }
}

impl Memory for Arena {
    fn bytes(&self, slot: Slot, from: usize, length: usize) -> &[u8] {
        let at = slot as usize * PAGE + from;
        &self.bytes[at..at + length]
    }

    fn bytes_mut(&mut self, slot: Slot, from: usize, length: usize) -> &mut [u8] {
        let at = slot as usize * PAGE + from;
        &mut self.bytes[at..at + length]
    }

    fn wanted(&mut self, nothing_left: bool) -> u64 {
        memory::wanted(nothing_left)
    }

    type Objects = NativeObjects;

    fn objects(&self) -> NativeObjects {
        let arena = self.bytes.as_ptr() as u64;
        NativeObjects { arena }
    }

    fn asked(&mut self) -> Option<paging::Request> {
        paging::wanted()
    }

    fn inherited(&mut self) -> Option<paging::Inherited> {
        paging::inherited()
    }

    fn adopt(&mut self, object: Portal, page: u64, slot: Slot) -> bool {
        paging::adopt(object, page, self.bytes_mut(slot, 0, PAGE))
    }

    fn synced(&mut self, ticket: u64, error: i64) {
        paging::synced(ticket, error);
    }
}

fn say(line: core::fmt::Arguments) {
    cairn_rt::log!("{line}");
}

/// What there was to be done is done.
fn end() {
    cairn_rt::start::end(0)
}

fn main() -> ! {
    let Some(driver) = startup::portal("disk") else {
        give_up(ENXIO, format_args!("no disk"));
    };
    // All idle memory can be cache.
    let frames = time::system_page().total_frames;
    let lent = u32::try_from(frames).unwrap_or(u32::MAX / 2).max(64);
    let Some(bytes) = memory::map((lent + STAGING) as usize * PAGE) else {
        give_up(ENOMEM, format_args!("no memory for the arena"));
    };
    let watcher = CHANNEL.make_portal(MEMORY);
    let lending =
        watcher.and_then(|watcher| memory::lend(&mut bytes[..lent as usize * PAGE], watcher));
    if let Err(error) = lending {
        give_up(ENOMEM, format_args!("no cache: {error:?}"));
    }
    let watching = CHANNEL.make_portal(PAGES).and_then(paging::watch);
    if let Err(error) = watching {
        give_up(ENOMEM, format_args!("no mapped files: {error:?}"));
    }
    tell_names(CHANNEL);
    let disk = match Disk::open(driver, bytes, CHANNEL, DEVICE) {
        Ok(disk) => disk,
        Err(failure) => give_up(ENXIO, format_args!("no disk: {failure:?}")),
    };
    let (keep, marks, own) = Keepsake::new(memory::keepsake());
    let (left, kept) = Left::new(own, lent);
    let given = |word| startup::arguments().any(|argument| argument == word);
    // Of mount(2): it is to hear when the disk is open, and that it cannot be written where that was wanted.
    let mounted = startup::portal("ready");
    if mounted.is_some() && disk.info().read_only && !given("ro") {
        give_up(EACCES, format_args!("the disk cannot be written"));
    }
    let parts = Parts {
        memory: Arena {
            bytes,
            lent,
            dirty: left.slots,
        },
        pages: lent,
        expected: frames / 4 * 3,
        metadata: (frames / 32).clamp(512, 32_768) as usize,
        options: Options {
            read_only: given("ro"),
            no_access_times: given("noatime"),
            discard: given("discard"),
            gives_ids: !given("nosuid"),
            device: startup::argument("st_dev")
                .map_or(0xfe00, |text| text.parse().unwrap_or(0xfe00)),
            log: say,
            end,
        },
        open: keep.identities(),
        marks,
        kept,
        left,
    };
    let now = time::realtime();
    let now = Time {
        sec: (now / 1_000_000_000) as i64,
        nsec: (now % 1_000_000_000) as u32,
    };
    let mut manager = Manager::new(prefix());
    // Who asks before there is something to answer with waits.
    let opened = Ext4::open(parts, disk, now, |_, disk: &mut Disk| {
        let mut event = Received::default();
        if CHANNEL.receive_into(None, &mut event).is_err() {
            return;
        }
        match event.kind {
            received::kind::PULSE if event.badge == DEVICE => disk.pulse(&event),
            // Files are closed and callers go in the meantime as well.
            _ => manager.hold(&event),
        }
    });
    let mut server = match opened {
        Ok(server) => server,
        Err(refused) => give_up(
            match refused {
                Refused::Image(_) => EINVAL,
                Refused::Device => EIO,
                Refused::NoMemory => ENOMEM,
            },
            format_args!("not mounted: {refused:?}"),
        ),
    };
    server.say_what();
    let told = manager.recover(&mut server, keep);
    server.recovered();
    if told != Recovered::default() {
        say(format_args!(
            "goes on with {} open files, {} of which lost data; {} are not there any more",
            told.open, told.lost, told.gone
        ));
    }
    let mut transport = Native::new();
    let unheld = manager.end_unheld(&mut server, &mut transport);
    if unheld != 0 {
        say(format_args!("{unheld} of these are nobody's any more"));
    }
    if let Some(ready) = mounted {
        // If `init` cannot be told it hears of the end.
        let _ = ready.notify(1);
    }
    serve(&mut manager, &mut server, &mut transport)
}

/// The path that the manifest mounts this at.
fn prefix() -> &'static [u8] {
    match startup::argument("prefix") {
        Some("/") | None => b"",
        Some(prefix) => prefix.as_bytes(),
    }
}
