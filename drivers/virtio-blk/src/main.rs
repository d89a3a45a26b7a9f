//! The driver program of one virtio disk: portals `pci` (whose badge says which), `irq`, and `dma` (its own badge of `vm`); protocol `cairn_idl::block`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use cairn_abi::layout::native_slot;
use cairn_abi::service::interrupt;
use cairn_abi::{pulse, received};
use cairn_block::partition::{self, Unreadable};
use cairn_block::serve::{Disk, System};
use cairn_block::{Kind, Outcome, PAGE, SECTOR};
use cairn_idl::block::{self, BADGE_SESSION_FIRST};
use cairn_idl::errno::ENXIO;
use cairn_idl::pci;
use cairn_idl::wire::{self, Failure};
use cairn_rt::dma::{self, Driver, Piece};
use cairn_rt::memory::Shared;
use cairn_rt::serve::{answer, Blocked};
use cairn_rt::{device, log, startup, time, Portal, Received, Receiver};
use cairn_virtio_blk::backend::{Pins, Virtio};
use cairn_virtio_blk::device::{reset, Device, Frames, Registers, PIECE, PIECES};
use cairn_virtio_blk::place::{find, Place};
use cairn_virtio_blk::queue::{self, Memory};
use core::fmt;

cairn_rt::entry!(main);

const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));
/// Badge of the interrupt's pulses.
const INTERRUPT: u64 = u64::MAX;
/// How often a device that is at work is looked at, should an interrupt get lost, or if it has none.
const LOOK: u64 = 1_000_000_000;
const POLL: u64 = 1_000_000;
/// Where the driver itself reads to: behind the queue.
const OWN: usize = queue::BYTES;
/// How long the driver waits for what it reads itself.
const PATIENCE: u64 = 30_000_000_000;

struct Windows {
    common: device::Registers,
    device: device::Registers,
    notify: device::Registers,
    multiplier: usize,
}

impl Registers for Windows {
    fn common8(&mut self, at: usize) -> u8 {
        self.common.read8(at)
    }
    fn common16(&mut self, at: usize) -> u16 {
        self.common.read16(at)
    }
    fn common32(&mut self, at: usize) -> u32 {
        self.common.read32(at)
    }
    fn set_common8(&mut self, at: usize, value: u8) {
        self.common.write8(at, value);
    }
    fn set_common16(&mut self, at: usize, value: u16) {
        self.common.write16(at, value);
    }
    fn set_common32(&mut self, at: usize, value: u32) {
        self.common.write32(at, value);
    }
    fn device32(&mut self, at: usize) -> u32 {
        self.device.read32(at)
    }
    fn notify(&mut self, place: u16) {
        self.notify.write16(place as usize * self.multiplier, 0);
    }
    fn pause(&mut self) {
        core::hint::spin_loop();
    }
}

/// All pieces of memory, one behind the other.
struct Pieces(Vec<Piece>);

impl Memory for Pieces {
    fn physical(&self, at: usize) -> u64 {
        self.0[at / PIECE].physical(at % PIECE)
    }
    fn read8(&self, at: usize) -> u8 {
        self.0[at / PIECE].read(at % PIECE)
    }
    fn read16(&self, at: usize) -> u16 {
        self.0[at / PIECE].read(at % PIECE)
    }
    fn read32(&self, at: usize) -> u32 {
        self.0[at / PIECE].read(at % PIECE)
    }
    fn write8(&self, at: usize, value: u8) {
        self.0[at / PIECE].write(at % PIECE, value);
    }
    fn write16(&self, at: usize, value: u16) {
        self.0[at / PIECE].write(at % PIECE, value);
    }
    fn write32(&self, at: usize, value: u32) {
        self.0[at / PIECE].write(at % PIECE, value);
    }
    fn write64(&self, at: usize, value: u64) {
        self.0[at / PIECE].write(at % PIECE, value);
    }
    fn barrier(&self) {
        dma::barrier();
    }
}

struct Vm(Driver);

impl Pins for Vm {
    fn pin(&mut self, arena: u32, pages: &[u32], frames: &mut [u32]) -> bool {
        self.0.pin(Portal(arena), pages, frames).is_ok()
    }
    fn unpin(&mut self, frames: &[u32]) {
        if let Err(failure) = self.0.unpin(frames) {
            log!("pages stay pinned: {failure}");
        }
    }
}

struct Native;

impl System for Native {
    type Memory = Shared;
    fn rings(&mut self, words: usize) -> Option<(Shared, u32)> {
        let (memory, portal) = Shared::make(words)?;
        Some((memory, portal.0))
    }
    fn portal(&mut self, badge: u64) -> Option<u32> {
        CHANNEL.make_portal(badge).ok().map(|portal| portal.0)
    }
    fn notify(&mut self, portal: u32) {
        // A client that is gone closes its session as well.
        let _ = Portal(portal).notify(1);
    }
    fn close(&mut self, portal: u32) {
        Portal(portal).close();
    }
}

/// Reading the disk before there are clients, to memory behind the queue.
struct Own<'d>(&'d mut Device<Windows, Pieces>);

impl partition::Read for Own<'_> {
    fn block(&mut self, number: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        let frames = [(self.0.memory().physical(OWN) / PAGE as u64) as u32];
        let data = Frames {
            frames: &frames,
            offset: 0,
        };
        let bytes = into.len() as u64;
        let sector = number * (bytes / SECTOR);
        if !self.0.start(0, Kind::Read, sector, bytes, data) {
            return Err(Unreadable);
        }
        self.0.kick();
        let until = time::monotonic() + PATIENCE;
        loop {
            match self.0.completed() {
                Some((_, Outcome::Done)) => break,
                None if time::monotonic() < until => core::hint::spin_loop(),
                _ => return Err(Unreadable),
            }
        }
        for (i, byte) in into.iter_mut().enumerate() {
            *byte = self.0.memory().read8(OWN + i);
        }
        Ok(())
    }
}

/// Why there is no disk.
enum Trouble {
    /// A portal that the manifest should give is missing.
    Portal,
    /// It is no device of virtio 1.
    Other,
    Failure(&'static str, Failure),
    Device(cairn_virtio_blk::device::Trouble),
    Unreadable,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Trouble::Portal => f.write_str("a portal is missing"),
            Trouble::Other => f.write_str("no device of virtio 1"),
            Trouble::Failure(what, why) => write!(f, "{what}: {why}"),
            Trouble::Device(why) => write!(f, "the device: {why:?}"),
            Trouble::Unreadable => f.write_str("it cannot be read"),
        }
    }
}

type Disks = Disk<Virtio<Windows, Pieces, Vm>, Native>;

/// Show the windows that the device's registers are in.
fn windows(bus: &pci::Client<Portal>) -> Result<Windows, Trouble> {
    let places = find(|at| bus.read(at).ok()).ok_or(Trouble::Other)?;
    let mut shown: [Option<(u64, u64)>; pci::BARS] = [None; pci::BARS];
    let mut window = |place: Place| {
        let known = shown.get_mut(place.bar as usize).ok_or(Trouble::Other)?;
        let (address, length) = match *known {
            Some(known) => known,
            None => {
                let told = bus.window(place.bar);
                let told = told.map_err(|why| Trouble::Failure("a window", why))?;
                *known.insert((told.address, told.length))
            }
        };
        let (offset, size) = (u64::from(place.offset), u64::from(place.length));
        if offset + size > length {
            return Err(Trouble::Other);
        }
        device::Registers::shown(address + offset, size).ok_or(Trouble::Other)
    };
    Ok(Windows {
        common: window(places.common)?,
        device: window(places.device)?,
        notify: window(places.notify)?,
        multiplier: places.multiplier as usize,
    })
}

/// Have the device send its messages to the channel.
fn listen(bus: &pci::Client<Portal>) -> Option<Portal> {
    let irq = startup::portal("irq")?;
    let words = [u64::from(CHANNEL.0 .0), INTERRUPT];
    let bound = irq.service(interrupt::BIND, &words).is_ok();
    (bound && bus.raise(0, irq.0).is_ok()).then_some(irq)
}

fn start(pci: Portal) -> Result<(Disks, Option<Portal>), Trouble> {
    let failed = |what| move |why| Trouble::Failure(what, why);
    let bus = pci::Client(&pci);
    let mut registers = windows(&bus)?;
    // From here on the device does nothing, whatever it did for a driver before this one.
    reset(&mut registers).map_err(Trouble::Device)?;
    let vm = startup::portal("dma").ok_or(Trouble::Portal)?;
    let driver = Driver::begin(vm).map_err(failed("memory for the device"))?;
    let mut pieces = Vec::new();
    for _ in 0..PIECES {
        pieces.push(driver.piece().map_err(failed("memory for the device"))?);
    }
    let irq = listen(&bus);
    bus.master(true).map_err(failed("bus mastery"))?;
    let device = Device::new(registers, Pieces(pieces), irq.is_some());
    let mut device = device.map_err(Trouble::Device)?;
    let info = device.info();
    let table = partition::partitions(&info, &mut Own(&mut device));
    let table = table.map_err(|_| Trouble::Unreadable)?;
    let how = if device.interrupts() {
        "interrupts by message"
    } else {
        "no interrupts, it is looked at"
    };
    log!(
        "{} sectors, blocks of {}, {} partitions; {how}",
        info.sectors,
        info.block,
        table.len()
    );
    let backend = Virtio::new(device, Vm(driver));
    Ok((Disk::new(backend, Native, table), irq))
}

fn main() -> ! {
    let started = match startup::portal("pci") {
        Some(pci) => start(pci),
        None => Err(Trouble::Portal),
    };
    match started {
        Ok((disk, irq)) => serve(disk, irq),
        Err(trouble) => {
            log!("no disk: {trouble}");
            refuse()
        }
    }
}

/// There is nothing to serve.
fn refuse() -> ! {
    loop {
        if let Ok(received) = CHANNEL.receive(None) {
            let blocked = Blocked {
                receiver: CHANNEL,
                received,
            };
            if blocked.received.kind == received::kind::MESSAGE {
                if let wire::Outcome::Reply(reply) = wire::finish(&blocked, Err(ENXIO), 0) {
                    let _ = answer(CHANNEL, blocked.received.token, &reply);
                }
            }
        }
    }
}

fn serve(mut disk: Disks, irq: Option<Portal>) -> ! {
    let look = match disk.backend.device.interrupts() {
        true => LOOK,
        false => POLL,
    };
    loop {
        while let Some((tag, outcome)) = disk.backend.completed() {
            disk.done(tag, outcome);
        }
        disk.pump();
        disk.backend.device.kick();
        if disk.arm() {
            continue;
        }
        let deadline = (disk.under_way() > 0).then(|| time::monotonic() + look);
        match CHANNEL.receive(deadline) {
            Ok(received) if received.kind == received::kind::PULSE => {
                pulse(&mut disk, irq, &received);
            }
            Ok(received) => request(&mut disk, received),
            Err(_) if disk.backend.device.is_broken() => {
                // The next one begins with a reset, and gets what was under way.
                log!("the device has given up");
                cairn_rt::start::exit(1);
            }
            Err(_) => {}
        }
    }
}

fn pulse(disk: &mut Disks, irq: Option<Portal>, received: &Received) {
    match received.words[0] {
        // What comes out from now on makes another one.
        pulse::INTERRUPT => {
            if let Some(irq) = irq {
                let _ = irq.service(interrupt::ACKNOWLEDGE, &[]);
            }
        }
        pulse::CLOSED if received.badge >= BADGE_SESSION_FIRST => disk.closed(received.badge),
        // A client has sent something: that is looked for in any case.
        _ => {}
    }
}

fn request(disk: &mut Disks, received: Received) {
    let blocked = Blocked {
        receiver: CHANNEL,
        received,
    };
    let wire::Outcome::Reply(reply) = block::dispatch(disk, &blocked) else {
        return;
    };
    let attached = reply.portals > 0;
    let portals = [reply.words[6], reply.words[7]];
    if answer(CHANNEL, blocked.received.token, &reply).is_err() && attached {
        let session = disk.newest();
        disk.closed(session);
        for portal in portals {
            Portal(portal as u32).close();
        }
    }
}
