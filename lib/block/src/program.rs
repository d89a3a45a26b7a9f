//! The program of a driver around its [`Chip`]: memory and pins from `vm`, interrupts, the disk's partitions, and the loop. A driver's `main.rs` finds its device and calls [`run`].

use crate::chip::{Chip, Frames};
use crate::partition::{self, Partition, Unreadable};
use crate::pinned::{Pinned, Pins};
use crate::serve::{AtOnce, Backend, Disk, System};
use crate::{Kind, Outcome, PAGE, SECTOR};
use alloc::vec::Vec;
use cairn_abi::service::{current, interrupt};
use cairn_abi::{pulse, received};
pub use cairn_device::start::refuse;
use cairn_device::start::{deliver, end, CHANNEL};
use cairn_device::Memory;
use cairn_idl::block::{self, BADGE_SESSION_FIRST};
use cairn_rt::dma::Driver;
use cairn_rt::memory::Shared;
use cairn_rt::serve::{sign, Blocked};
use cairn_rt::{log, time, Portal, Received};

/// How often a device that is at work is looked at, should an interrupt get lost, or if it has none.
const LOOK: u64 = 1_000_000_000;
const POLL: u64 = 1_000_000;
/// How long a device may have a request. (Some flush slowly.)
const LIMIT: u64 = 60_000_000_000;
/// How long the driver waits for what it reads itself.
const PATIENCE: u64 = 30_000_000_000;

struct Vm(Driver);

impl Pins for Vm {
    fn pin(&mut self, arena: u32, pages: &[u32], frames: &mut [u32], done: &[u32]) -> bool {
        self.0.pin(Portal(arena), pages, frames, done).is_ok()
    }
    fn unpin(&mut self, frames: &[u32]) {
        if let Err(failure) = self.0.unpin(frames) {
            log!("pages stay pinned: {failure}");
        }
    }
}

/// The nucleus and `vm`, for sessions.
#[derive(Clone)]
pub struct Native;

impl System for Native {
    type Memory = Shared;
    fn rings(&mut self, words: usize) -> Option<(Shared, u32)> {
        let (memory, portal) = Shared::make(words)?;
        Some((memory, portal.0))
    }
    fn portal(&mut self, badge: u64) -> Option<u32> {
        CHANNEL.make_portal(badge).ok().map(|portal| portal.0)
    }
    fn notify(&mut self, portal: u32, bits: u64) {
        // A client that is gone closes its session as well.
        let _ = Portal(portal).notify(bits);
    }
    fn now(&mut self) -> u64 {
        time::monotonic()
    }
    fn close(&mut self, portal: u32) {
        Portal(portal).close();
    }
}

/// Reading the disk before there are clients, to memory of the driver's.
struct Own<'d, C>(&'d mut C);

impl<C: Chip> partition::Read for Own<'_, C> {
    fn block(&mut self, number: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        let chip = &mut *self.0;
        let frames = [(chip.memory().physical(C::OWN) / PAGE as u64) as u32];
        let data = Frames {
            frames: &frames,
            offset: 0,
        };
        let bytes = into.len() as u64;
        let sector = number * (bytes / SECTOR);
        if !chip.start(0, Kind::Read, sector, bytes, data) {
            return Err(Unreadable);
        }
        chip.kick();
        let until = time::monotonic() + PATIENCE;
        loop {
            match chip.completed() {
                Some((_, Outcome::Done)) => break,
                None if time::monotonic() < until => core::hint::spin_loop(),
                _ => return Err(Unreadable),
            }
        }
        for (i, byte) in into.iter_mut().enumerate() {
            *byte = chip.memory().read8(C::OWN + i);
        }
        Ok(())
    }
}

/// A file server cannot serve its disk. `init` tells whoever mounts it this error number; what was there from the start is refused to whoever asks. (A successor would not fare better.)
#[cfg(target_os = "none")]
pub fn give_up(errno: i64, why: core::fmt::Arguments) -> ! {
    log!("{why}");
    if cairn_rt::startup::portal("ready").is_some() {
        cairn_rt::start::exit(errno as u64)
    }
    refuse()
}

fn serve<B: Backend>(backend: B, table: Vec<Partition>) -> Disk<B, Native> {
    if let Err(error) = sign(CHANNEL, &block::SIGNATURES) {
        panic!("the channel cannot be signed: {error:?}");
    }
    let mut disk = Disk::new(backend, Native, table);
    if let Ok(own) = Portal::CURRENT.service(current::IDENTITY, &[]) {
        disk.number_from(own[1] << 32);
    }
    disk
}

/// Serve a disk.
pub fn run<C: Chip>(mut chip: C, driver: Driver, irq: Option<Portal>) -> ! {
    let info = chip.info();
    let Ok(table) = partition::partitions(&info, &mut Own(&mut chip)) else {
        log!("no disk: it cannot be read");
        refuse()
    };
    let how = match chip.interrupts() {
        true => "interrupts by message",
        false => "no interrupts, it is looked at",
    };
    log!(
        "{} sectors, blocks of {}, {} partitions; {how}",
        info.sectors,
        info.block,
        table.len()
    );
    let look = match chip.interrupts() {
        true => LOOK,
        false => POLL,
    };
    let mut disk = serve(Pinned::new(chip, Vm(driver)), table);
    // The device is looked at though it did not interrupt.
    let mut unasked = false;
    // When it is next asked whether it has had something for too long, or has changed; an interrupt may have told of that.
    let (mut look_at, mut looked) = (0, true);
    loop {
        while let Some((tag, outcome)) = disk.backend.completed() {
            if core::mem::take(&mut unasked) {
                log!("something was done without an interrupt");
            }
            disk.done(tag, outcome);
        }
        unasked = false;
        disk.pump();
        let failed = disk.backend.begin();
        disk.backend.chip.kick();
        if disk.arm() || failed {
            continue;
        }
        let now = time::monotonic();
        if now >= look_at {
            (look_at, looked) = (now + LOOK, true);
            disk.backend.look();
            if disk.backend.chip.has_changed() {
                disk.resized();
                log!("{} sectors from now on", disk.backend.info().sectors);
            }
            if disk.is_late(now, LIMIT) {
                log!("the device does not answer");
                end();
            }
        }
        let deadline = match disk.under_way() {
            0 if disk.backend.holds() => Some(now + LOOK),
            0 => (!looked).then_some(look_at),
            _ => Some(now + look),
        };
        match CHANNEL.receive(deadline) {
            Ok(received) if received.kind == received::kind::PULSE => {
                looked &= received.words[0] != pulse::INTERRUPT;
                hear(&mut disk, irq, &received);
            }
            Ok(received) => request(&mut disk, received),
            Err(_) if disk.backend.chip.is_broken() => {
                // The next one begins with a reset, and gets what was under way.
                log!("the device has given up");
                end();
            }
            Err(_) => {
                disk.backend.let_go_of_all();
                unasked = disk.under_way() > 0 && disk.backend.chip.interrupts();
            }
        }
    }
}

/// Serve a disk without a device.
pub fn run_at_once<B: AtOnce>(backend: B) -> ! {
    let mut disk = serve(backend, Vec::new());
    loop {
        disk.pump();
        while let Some((tag, outcome)) = disk.backend.completed() {
            disk.done(tag, outcome);
        }
        if disk.arm() {
            continue;
        }
        match CHANNEL.receive(None) {
            Ok(received) if received.kind == received::kind::PULSE => {
                hear(&mut disk, None, &received);
            }
            Ok(received) => request(&mut disk, received),
            Err(_) => {}
        }
    }
}

fn hear<B: Backend>(disk: &mut Disk<B, Native>, irq: Option<Portal>, received: &Received) {
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

fn request<B: Backend>(disk: &mut Disk<B, Native>, received: Received) {
    let blocked = Blocked::<true> {
        receiver: CHANNEL,
        received,
    };
    if !deliver(&blocked, block::dispatch(disk, &blocked)) {
        let session = disk.newest();
        disk.closed(session);
    }
}
