//! How a driver's program begins: its device found on the bus and **reset**, then memory from `vm`, interrupts, and the device set up. Portals `pci` (whose badge says which device), `irq`, and `dma` (the driver's own badge of `vm`). And how it ends.

use crate::{listen, Pieces, Told, Wanted};
use cairn_abi::layout::native_slot;
use cairn_abi::received;
use cairn_idl::errno::ENXIO;
use cairn_idl::pci;
use cairn_idl::wire::{self, Failure};
use cairn_rt::dma::Driver;
use cairn_rt::serve::{answer, Blocked};
use cairn_rt::{startup, Portal, Receiver};
use core::fmt::{self, Debug, Display};

/// A driver's own channel.
pub const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));
/// Badge of the interrupt's pulses.
pub const INTERRUPT: u64 = u64::MAX;

/// Why there is nothing to serve; `D`: what is wrong with the device.
pub enum Trouble<D> {
    /// A portal that the manifest should give is missing.
    Portal,
    Failure(&'static str, Failure),
    Device(D),
}

impl<D: Debug> Display for Trouble<D> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Trouble::Portal => f.write_str("a portal is missing"),
            Trouble::Failure(what, why) => write!(f, "{what}: {why}"),
            Trouble::Device(why) => write!(f, "the device: {why:?}"),
        }
    }
}

/// `find` gives the registers of a device that does nothing any more, whatever it did for a driver before this one; `make` sets it up, with so many pieces of
/// memory (zeroes), and interrupts as it has them of what is `wanted`: they all come to the driver as one, which is acknowledged by the last portal.
pub fn start<R, C, D>(
    pieces: usize,
    wanted: Wanted,
    find: impl FnOnce(&pci::Client<Portal>) -> Result<R, Trouble<D>>,
    make: impl FnOnce(R, Pieces, Told) -> Result<C, D>,
) -> Result<(C, Driver, Option<Portal>), Trouble<D>> {
    let failed = |what| move |why| Trouble::Failure(what, why);
    let pci = startup::portal("pci").ok_or(Trouble::Portal)?;
    let bus = pci::Client(&pci);
    let registers = find(&bus)?;
    let vm = startup::portal("dma").ok_or(Trouble::Portal)?;
    let driver = Driver::begin(vm).map_err(failed("memory for the device"))?;
    let pieces = Pieces::make(&driver, pieces).map_err(failed("memory for the device"))?;
    let (irq, told) = listen(&bus, CHANNEL, INTERRUPT, wanted);
    bus.master(true).map_err(failed("bus mastery"))?;
    let chip = make(registers, pieces, told).map_err(Trouble::Device)?;
    Ok((chip, driver, irq))
}

/// There is nothing to serve: whoever asks is refused.
pub fn refuse() -> ! {
    loop {
        if let Ok(received) = CHANNEL.receive(None) {
            let blocked: Blocked = Blocked {
                receiver: CHANNEL,
                received,
            };
            if blocked.received.kind == received::kind::MESSAGE {
                if let wire::Outcome::Reply(reply) = wire::finish(&blocked, Err(ENXIO), None) {
                    let _ = answer(CHANNEL, blocked.received.token, &reply);
                }
            }
        }
    }
}

/// Answer a request of a protocol with sessions. False: the session that was made by ATTACH has nobody, since its two portals could not be delivered; they are closed.
pub fn deliver<const SIGNED: bool>(blocked: &Blocked<SIGNED>, outcome: wire::Outcome) -> bool {
    let wire::Outcome::Reply(reply) = outcome else {
        return true;
    };
    let attached = reply.portals > 0;
    if answer(CHANNEL, blocked.received.token, &reply).is_ok() || !attached {
        return true;
    }
    for portal in [reply.words[6], reply.words[7]] {
        Portal(portal as u32).close();
    }
    false
}

/// A successor begins with a reset.
#[cfg(target_os = "none")]
pub fn end() -> ! {
    cairn_rt::start::exit(1)
}

/// There is no such program on the host.
#[cfg(not(target_os = "none"))]
pub fn end() -> ! {
    panic!("a driver of a device")
}
