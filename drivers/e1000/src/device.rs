//! The chip as a link's: set up (SDM 14.3 to 14.5, DS 4.6), frames both ways, interrupts.
//!
//! **Interrupts** are masked while the driver works, and pending ones are forgotten before it arms them again and looks once more: what comes in between is
//! either seen by that look, or raises one.
//!
//! **Left to the chip:** sums of what leaves, and a look at those of what comes. Not cutting: it wants other bytes in a segment's headers (no length in the
//! pseudo-header's sum) than the interface says, and the driver sees no bytes.

use crate::registers::{self as at, cause, control, receive, ring, status, transmit};
use crate::registers::{address, reset, silence, Model, Trouble};
use crate::rings::{Receives, Sends, RECEIVES};
use cairn_device::registers::Registers;
use cairn_device::Memory;
use cairn_link::{Chip, Filled, Info, Offload, Told};

/// Where the rings are in the driver's memory.
const RECEIVES_AT: usize = 0;
const SENDS_AT: usize = RECEIVES_AT + Receives::BYTES;
const END: usize = SENDS_AT + Sends::BYTES;
/// Pieces of 64 KiB of memory.
pub const PIECES: usize = 1;
const _: () = assert!(END <= PIECES * 65_536);

const ETHERNET_MTU: u32 = 1500;
/// Descriptors of any frame: as many pieces as lib/link makes of one, and where a sum goes.
const FRAME_MOST: usize = 31;

pub struct Device<R, M> {
    registers: R,
    memory: M,
    model: Model,
    told: Told,
    receives: Receives,
    sends: Sends,
    /// Tails as the chip knows them.
    tails: [u32; 2],
    /// Causes that may interrupt.
    armed: u32,
    info: Info,
}

impl<R: Registers, M: Memory> Device<R, M> {
    /// A chip that was [`reset`], with memory that is zero, and how it is to tell.
    pub fn new(
        mut registers: R,
        model: Model,
        memory: M,
        told: Told,
    ) -> Result<Device<R, M>, Trouble> {
        let mac = address(&mut registers, model)?;
        let mut device = Device {
            registers,
            memory,
            model,
            told,
            receives: Receives::new(RECEIVES_AT),
            sends: Sends::new(SENDS_AT),
            tails: [0; 2],
            armed: 0,
            info: Info {
                mac,
                mtu: ETHERNET_MTU,
                up: false,
                sums_out: true,
                sums_in: true,
                segments: [false; 2],
                head: 0,
                buffers: RECEIVES as u32 - 1,
            },
        };
        device.set_up();
        Ok(device)
    }

    fn set_up(&mut self) {
        let r = &mut self.registers;
        let forced = control::FORCE_SPEED | control::FORCE_DUPLEX;
        let off = forced | control::FLOW_IN | control::FLOW_OUT | control::VLAN;
        let never = control::MASTER_OFF | control::RESET | control::PHY_RESET;
        let now = r.read(at::CONTROL) & !(off | never);
        r.write(at::CONTROL, now | control::LINK_UP | control::DETECT_SPEED);
        for register in at::FLOW {
            r.write(register, 0);
        }
        for i in 0..at::GROUPS_COUNT {
            r.write(at::GROUPS + 4 * i, 0);
        }
        self.set_up_interrupts();
        for (first, place, bytes) in [
            (at::RECEIVE_RING, RECEIVES_AT, Receives::BYTES),
            (at::TRANSMIT_RING, SENDS_AT, Sends::BYTES),
        ] {
            let r = &mut self.registers;
            let address = self.memory.physical(place);
            r.write(first + ring::BASE, address as u32);
            r.write(first + ring::BASE + 4, (address >> 32) as u32);
            r.write(first + ring::BYTES, bytes as u32);
            for register in [ring::HEAD, ring::TAIL, ring::DELAY, ring::DELAY_MOST] {
                r.write(first + register, 0);
            }
        }
        let r = &mut self.registers;
        let must = match self.model {
            Model::I82540 => {
                r.write(at::GAP, at::GAPS);
                0
            }
            Model::I82574 { .. } => {
                r.write(at::FILTER, 0);
                at::RING_MUST
            }
        };
        r.write(at::RECEIVE_RING + ring::CONTROL, at::RING_CONTROL);
        r.write(at::TRANSMIT_RING + ring::CONTROL, at::RING_CONTROL | must);
        r.write(at::SUMS, at::SUMS_ON);
        let all = receive::ALL_STATIONS | receive::ALL_GROUPS | receive::BROADCASTS;
        r.write(
            at::TRANSMIT,
            transmit::ON | transmit::PAD | transmit::COLLISIONS,
        );
        r.write(at::RECEIVE, receive::ON | receive::STRIP | all);
        self.info.up = r.read(at::STATUS) & status::LINK_UP != 0;
    }

    fn set_up_interrupts(&mut self) {
        let by_messages = self.by_msix();
        let r = &mut self.registers;
        silence(r);
        r.write(at::INTERVAL, at::PAUSE);
        if !self.model.is_82574() {
            return;
        }
        r.write(at::AUTO_CLEAR, 0);
        let now = r.read(at::CONTROL_MORE) & !at::TAKES_PENDING;
        let takes = if by_messages { at::TAKES_PENDING } else { 0 };
        r.write(at::CONTROL_MORE, now | takes);
        if by_messages {
            r.write(at::VECTORS, at::ALL_BY_FIRST);
            r.write(at::VECTOR_INTERVAL, at::PAUSE);
        }
    }

    fn by_msix(&self) -> bool {
        self.model == Model::I82574 { msix: true } && self.told.messages() > 0
    }

    /// What may interrupt, if it is to.
    fn causes(&self, filled: bool, sent: bool) -> u32 {
        let when = |set: bool, causes: u32| if set { causes } else { 0 };
        let (came, left) = match self.by_msix() {
            true => (cause::QUEUE_IN | cause::OTHER, cause::QUEUE_OUT),
            false => (cause::RECEIVED, cause::TRANSMITTED),
        };
        // Without buffers each frame that is dropped would be one of the others, and nothing is to be done for it.
        let listens = filled && self.receives.count() > 0;
        when(listens, cause::LINK | came) | when(sent, left)
    }

    /// Only these may interrupt from now on, for what happens from now on.
    fn allow(&mut self, causes: u32) {
        if self.armed == causes || self.told == Told::Nothing {
            return;
        }
        if self.armed != 0 {
            self.registers.write(at::MASK_CLEAR, cause::ALL);
        }
        if causes != 0 {
            // Read while all are masked, it is zero afterwards (on 82574 not otherwise).
            let before = self.registers.read(at::CAUSES);
            // Nobody has looked at the carrier since.
            if before & cause::LINK != 0 {
                self.registers.write(at::CAUSE_SET, cause::LINK);
            }
            self.registers.write(at::MASK_SET, causes);
        }
        self.armed = causes;
    }
}

impl<R: Registers, M: Memory> Chip for Device<R, M> {
    fn info(&self) -> Info {
        self.info
    }

    fn restart(&mut self) -> bool {
        if reset(&mut self.registers, self.model).is_err() {
            return false;
        }
        for at in (0..END).step_by(8) {
            self.memory.write64(at, 0);
        }
        (self.receives, self.sends) = (Receives::new(RECEIVES_AT), Sends::new(SENDS_AT));
        (self.tails, self.armed) = ([0; 2], 0);
        self.set_up();
        true
    }

    fn room(&self) -> usize {
        self.receives.room()
    }

    fn with_device(&self) -> usize {
        self.receives.count()
    }

    fn lend(&mut self, buffer: u32, address: u64) -> bool {
        self.receives.lend(&self.memory, buffer, address)
    }

    fn filled(&mut self) -> Option<Filled> {
        self.receives.filled(&self.memory)
    }

    fn takes(&self) -> bool {
        self.sends.room() >= FRAME_MOST
    }

    fn send(&mut self, number: usize, offload: &Offload, pieces: &[(u64, u32)]) -> bool {
        self.sends.send(&self.memory, number, offload, pieces)
    }

    fn sent(&mut self) -> Option<usize> {
        self.sends.sent(&self.memory)
    }

    fn on_the_way(&self) -> usize {
        self.sends.count()
    }

    fn kick(&mut self) {
        let tails = [self.receives.tail(), self.sends.tail()];
        let rings = [at::RECEIVE_RING, at::TRANSMIT_RING];
        for (i, tail) in tails.into_iter().enumerate() {
            if self.tails[i] != tail {
                // Descriptors first.
                self.memory.barrier();
                self.registers.write(rings[i] + ring::TAIL, tail);
                self.tails[i] = tail;
            }
        }
    }

    fn arm(&mut self, filled: bool, sent: u16) -> bool {
        self.allow(self.causes(filled, sent > 0));
        self.memory.barrier();
        filled && self.receives.is_due(&self.memory)
            || sent > 0 && self.sends.due(&self.memory).is_some()
    }

    fn disarm(&mut self) {
        self.allow(0);
    }

    fn hush(&mut self) {
        self.registers.write(at::MASK_CLEAR, cause::ALL);
        // A line falls before it is acknowledged. (What is read was written before.)
        self.registers.read(at::CAUSES);
        self.armed = 0;
    }

    fn interrupts(&self) -> Told {
        self.told
    }

    /// It is not there any more.
    fn is_broken(&mut self) -> bool {
        self.registers.read(at::STATUS) == u32::MAX
    }

    fn has_changed(&mut self) -> bool {
        let up = self.registers.read(at::STATUS) & status::LINK_UP != 0;
        core::mem::replace(&mut self.info.up, up) != up
    }
}
