//! The component: the device found and set up ([`cairn_device::start`] names its portals), the host's folder attached, then the loop. Further portals:
//! `proc`, `event`, `pipe`. Arguments: `prefix=`, `st_dev=`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::service::interrupt;
use cairn_abi::{pulse, received};
use cairn_cache::Slot;
use cairn_device::start::{refuse, start, Trouble, CHANNEL};
use cairn_device::{Pieces, Wanted};
use cairn_idl::pci;
use cairn_resmgr::objects::tell_names;
use cairn_resmgr::{event, Keepsake, Manager, Native, NativeObjects, Recovered};
use cairn_rt::{log, memory, paging, startup, time, Portal, Received};
use cairn_virtio::transport;
use cairn_virtio::windows::{show, Unseen, Windows};
use cairn_virtio_9p::asks::Asks;
use cairn_virtio_9p::device::{Device, LONGEST, PIECES};
use cairn_virtio_9p::left::Left;
use cairn_virtio_9p::map::{Maps, Medium, PAGE};
use cairn_virtio_9p::server::{Options, INTERRUPT, MEMORY, PAGES, ROOT_FILE};
use cairn_virtio_9p::start::attach;
use cairn_virtio_9p::Share;
use core::sync::atomic::{AtomicU32, Ordering};

cairn_rt::entry!(main);

/// Why there is no share.
#[derive(Debug)]
enum Unfit {
    /// It is no device of virtio 1.
    NoVirtio1,
    #[expect(dead_code, reason = "shown in the log")]
    Device(transport::Trouble),
}

/// How long the beginning waits without hearing of an interrupt before it looks.
const LOOK: u64 = 10_000_000;

/// The portal by which interrupts are acknowledged.
static IRQ: AtomicU32 = AtomicU32::new(0);

fn heard() {
    let irq = Portal(IRQ.load(Ordering::Relaxed));
    if irq.0 != 0 {
        let _ = irq.service(interrupt::ACKNOWLEDGE, &[]);
    }
}

fn broken() {
    log!("the device has given up");
    cairn_device::start::end()
}

fn find(bus: &pci::Client<Portal>) -> Result<Windows, Trouble<Unfit>> {
    let mut registers = show(bus).map_err(|unseen| match unseen {
        Unseen::NoVirtio1 => Trouble::Device(Unfit::NoVirtio1),
        Unseen::Window(why) => Trouble::Failure("a window", why),
    })?;
    transport::reset(&mut registers).map_err(|why| Trouble::Device(Unfit::Device(why)))?;
    Ok(registers)
}

type Own = Share<Device<Windows, Pieces>, Arena>;

/// The cache's pages, which are lent.
struct Arena(&'static mut [u8]);

impl Arena {
    fn pages(&mut self, first: Slot, count: u32) -> &mut [u8] {
        let start = first as usize * PAGE;
        &mut self.0[start..start + count as usize * PAGE]
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
    fn page(&mut self, slot: Slot) -> &mut [u8] {
        self.pages(slot, 1)
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
        let arena = self.0.as_ptr() as u64;
        NativeObjects { arena }
    }
}

/// The arena, of all memory that may be idle, and how many pages it has.
fn arena() -> Result<(Arena, u32), &'static str> {
    let slots = u32::try_from(time::system_page().total_frames).unwrap_or(u32::MAX / 2);
    let slots = slots.max(64);
    let bytes = memory::map(slots as usize * PAGE).ok_or("no memory for the arena")?;
    let lending = CHANNEL.make_portal(MEMORY);
    let lending = lending.and_then(|watcher| memory::lend(bytes, watcher));
    tell_names(CHANNEL);
    let watching = CHANNEL.make_portal(PAGES).and_then(paging::watch);
    match lending.and(watching) {
        Ok(()) => Ok((Arena(bytes), slots)),
        Err(_) => Err("no cache"),
    }
}

/// Until the device may have answered.
fn wait(manager: &mut Manager<Own>) {
    let mut event = Received::default();
    let deadline = Some(time::monotonic() + LOOK);
    if CHANNEL.receive_into(deadline, &mut event).is_err() {
        return;
    }
    let pulses = event.kind == received::kind::PULSE;
    match pulses && event.badge == INTERRUPT && event.words[0] == pulse::INTERRUPT {
        true => heard(),
        false => manager.hold(&event),
    }
}

fn main() -> ! {
    let made = start(
        PIECES,
        Wanted::messages(1),
        find,
        |registers, pieces: Pieces, told| {
            Device::new(registers, pieces, told.messages()).map_err(Unfit::Device)
        },
    );
    let (mut device, irq) = match made {
        Ok((device, _, irq)) => (device, irq),
        Err(trouble) => {
            log!("no share: {trouble}");
            refuse()
        }
    };
    IRQ.store(irq.map_or(0, |irq| irq.0), Ordering::Relaxed);
    let prefix = startup::argument("prefix").map_or(&b""[..], str::as_bytes);
    let mut manager = Manager::new(prefix);
    // Who asks before there is something to answer with waits.
    let found = attach(&mut device, LONGEST, ROOT_FILE, || wait(&mut manager));
    let found = match found {
        Ok(found) => found,
        Err(trouble) => {
            log!("no share: the other side: {trouble:?}");
            refuse()
        }
    };
    let (keep, _, own) = Keepsake::new(memory::keepsake());
    let open = keep.identities();
    let options = Options {
        device: startup::argument("st_dev").map_or(0x30, |text| text.parse().unwrap_or(0x30)),
        longest: found.longest,
        heard,
        broken,
    };
    let (medium, slots) = match arena() {
        Ok(arena) => arena,
        Err(what) => {
            log!("no share: {what}");
            refuse()
        }
    };
    // What a predecessor's programs have mapped keeps the pages that it has.
    while let Some(inherited) = paging::inherited() {
        inherited.object.close();
    }
    let maps = Maps::new(medium, slots, time::realtime());
    let (asks, left) = (Asks::new(device, ROOT_FILE + 1), Left::new(own, &open));
    let mut server = Share::new(asks, maps, found.root, left, options);
    server.find_again(&open, || wait(&mut manager));
    log!("messages of up to {} bytes", found.longest);
    let told = manager.recover(&mut server, keep);
    if told != Recovered::default() {
        let (open, gone) = (told.open, told.gone);
        log!("goes on with {open} open files; {gone} are not there any more");
    }
    let mut transport = Native::new();
    manager.end_unheld(&mut server, &mut transport);
    event::serve(&mut manager, &mut server, &mut transport)
}
