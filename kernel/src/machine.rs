//! The machine portal: makes interrupt and port portals, turns the power off. And the nucleus's counters.

use crate::arch::Arch;
use crate::pool::ThreadRef;
use crate::portal::table::Target;
use crate::{plain, Answer, Kernel};
use cairn_abi::service::machine;
use cairn_abi::{rights, Error, PortalKind};

pub(crate) const RIGHTS: u16 = rights::CALL | rights::PASS;
const PORT_SPACE: u64 = 0x1_0000;

impl<A: Arch> Kernel<A> {
    pub(crate) fn machine_service(&mut self, t: ThreadRef, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        let d = self.threads[t].domain;
        match operation {
            machine::INTERRUPT => return self.line_portal(t, w[0], w[1], w[2]),
            machine::TRACE => return self.trace_portal(t, w[0]),
            machine::MESSAGE => return self.message_portal(t, w[0]),
            machine::PORTS => {
                if w[0] >= PORT_SPACE || w[1] == 0 || w[1] > 0xffff || w[0] + w[1] > PORT_SPACE {
                    return Err(Error::BadArgument.into());
                }
                let slot = self.make_place(d, w[2])?;
                let range = w[0] as u32 | (w[1] as u32) << 16;
                self.place_made(t, slot, Target::new(PortalKind::Ports, range, RIGHTS));
            }
            machine::POWER => {
                if w[0] > 2 {
                    return Err(Error::BadArgument.into());
                }
                self.arch.power(w[0], w[1]);
            }
            machine::WALL_CLOCK => self.arch.set_wall_clock(self.system_frame, w[0]),
            machine::FIRMWARE => self.answer(t, 0, self.firmware),
            _ => return Err(Error::BadOperation.into()),
        }
        Ok(())
    }

    /// `current::COUNTERS`.
    pub(crate) fn write_counters(&mut self, t: ThreadRef, address: u64) -> Answer {
        let mut c = self.counters;
        c.nucleus_frames = self.frames.nucleus_frames();
        self.arch.counters(&mut c);
        c.idle = self.arch.ticks_to_ns(c.idle);
        self.write_own(t, address, plain::bytes(core::slice::from_ref(&c)))
    }
}
