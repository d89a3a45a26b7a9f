//! The program of a link's driver around its [`Chip`]: it begins as that of any device ([`cairn_device::start`]), and then there is the loop.

use crate::serve::{Server, System};
use crate::Chip;
use cairn_abi::service::{current, interrupt};
use cairn_abi::{pulse, received};
pub use cairn_device::start::Trouble;
use cairn_device::start::{deliver, end, refuse, start, CHANNEL};
use cairn_device::{Pieces, Told, Wanted};
use cairn_idl::link::{self, BADGE_SESSION_FIRST};
use cairn_idl::pci;
use cairn_rt::dma::Driver;
use cairn_rt::memory::Shared;
use cairn_rt::serve::{sign, Blocked};
use cairn_rt::{log, time, Portal, Received};
use core::fmt::Debug;

/// How often a device is looked at, should an interrupt get lost; if it has none; and when something is on its way out.
const LOOK: u64 = 1_000_000_000;
const POLL: u64 = 1_000_000;
/// How long pages of an arena may take to be pinned.
const PATIENCE: u64 = 1_000_000_000;

struct Native(Driver);

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
        // A reader that is gone closes its session as well.
        let _ = Portal(portal).notify(bits);
    }
    fn close(&mut self, portal: u32) {
        Portal(portal).close();
    }
    /// The arena's portal is the reader's word: if it is not `vm`'s, nobody may answer.
    fn pin(&mut self, arena: u32, pages: &[u32], frames: &mut [u32]) -> bool {
        let until = time::monotonic() + PATIENCE;
        let _ = Portal::CURRENT.service(current::DEADLINE, &[until]);
        self.0.pin(Portal(arena), pages, frames, &[]).is_ok()
    }
    fn unpin(&mut self, frames: &[u32]) {
        if let Err(failure) = self.0.unpin(frames) {
            log!("pages stay pinned: {failure}");
        }
    }
}

/// The whole program, with what [`start`] takes.
pub fn drive<R, C: Chip, D: Debug>(
    pieces: usize,
    wanted: Wanted,
    find: impl FnOnce(&pci::Client<Portal>) -> Result<R, Trouble<D>>,
    make: impl FnOnce(R, Pieces, Told) -> Result<C, D>,
) -> ! {
    match start(pieces, wanted, find, make) {
        Ok((chip, driver, irq)) => run(chip, driver, irq),
        Err(trouble) => {
            log!("no link: {trouble}");
            refuse()
        }
    }
}

fn run<C: Chip>(chip: C, driver: Driver, irq: Option<Portal>) -> ! {
    if let Err(error) = sign(CHANNEL, &link::SIGNATURES) {
        panic!("the channel cannot be signed: {error:?}");
    }
    let mut server = Server::new(chip, Native(driver));
    if let Ok(own) = Portal::CURRENT.service(current::IDENTITY, &[]) {
        server.number_from(own[1] << 32);
    }
    let info = server.chip.info();
    let [a, b, c, d, e, f] = info.mac;
    let how = match server.chip.interrupts() {
        Told::Messages(_) => "interrupts by message",
        Told::Line => "interrupts by its line",
        Told::Nothing => "no interrupts, it is looked at",
    };
    log!(
        "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}, frames of {}, {}; {how}",
        info.mtu,
        if info.up { "up" } else { "down" }
    );
    let mut work = 0;
    loop {
        let done = server.pump();
        work += done;
        if server.lost {
            log!("the device does not come out of its reset");
            end();
        }
        let now = time::monotonic();
        let received = match done {
            // Whoever calls has his turn as well where frames come without end.
            1.. => CHANNEL.poll(),
            0 => {
                let wait = server.pace.sleep(now, core::mem::take(&mut work));
                if server.arm(wait.interrupts) {
                    continue;
                }
                CHANNEL.receive(deadline(&server, wait.until, now))
            }
        };
        match received {
            Ok(received) if received.kind == received::kind::PULSE => {
                hear(&mut server, irq, &received);
            }
            Ok(received) => request(&mut server, received),
            Err(_) => look(&mut server),
        }
    }
}

/// When the device is looked at next, if nobody says anything.
fn deadline<C: Chip>(server: &Server<C, Native>, tick: Option<u64>, now: u64) -> Option<u64> {
    if !server.has_session() {
        return None;
    }
    let poll = server.chip.interrupts() == Told::Nothing || server.chip.on_the_way() > 0;
    let look = now + if poll { POLL } else { LOOK };
    Some(tick.map_or(look, |tick| tick.min(look)))
}

fn look<C: Chip>(server: &mut Server<C, Native>) {
    if server.chip.is_broken() {
        // The next one begins with a reset.
        log!("the device has given up");
        end();
    }
    change(server);
}

fn change<C: Chip>(server: &mut Server<C, Native>) {
    if server.chip.has_changed() {
        log!(
            "the link is {}",
            if server.chip.info().up { "up" } else { "down" }
        );
        server.changed();
    }
}

fn hear<C: Chip>(server: &mut Server<C, Native>, irq: Option<Portal>, received: &Received) {
    match received.words[0] {
        // What comes out from now on makes another one.
        pulse::INTERRUPT => {
            server.counts.interrupts += 1;
            server.chip.hush();
            if let Some(irq) = irq {
                let _ = irq.service(interrupt::ACKNOWLEDGE, &[]);
            }
            change(server);
        }
        pulse::CLOSED if received.badge >= BADGE_SESSION_FIRST => server.closed(received.badge),
        // The reader has sent something: that is looked for in any case.
        _ => {}
    }
}

fn request<C: Chip>(server: &mut Server<C, Native>, received: Received) {
    let blocked = Blocked::<true> {
        receiver: CHANNEL,
        received,
    };
    if !deliver(&blocked, link::dispatch(server, &blocked)) {
        let session = server.newest();
        server.closed(session);
    }
}
