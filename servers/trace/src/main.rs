//! The trace server's wiring: the portal `trace`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::service::trace;
use cairn_resmgr::{event, Manager, Native};
use cairn_rt::{startup, Portal};
use cairn_trace::{Nucleus, Status, Tracer};

cairn_rt::entry!(main);

struct Real(Portal);

impl Nucleus for Real {
    fn start(&mut self) -> bool {
        self.0.service(trace::START, &[]).is_ok()
    }

    fn stop(&mut self) {
        let _ = self.0.service(trace::STOP, &[]);
    }

    fn status(&mut self) -> Status {
        let w = self.0.service(trace::STATUS, &[]).unwrap_or_default();
        Status {
            on: w[0] != 0,
            written: w[1],
            capacity: w[2],
            left: w[3],
            failed: w[4],
        }
    }

    fn read(&mut self, first: u64, into: &mut [u8]) -> (usize, u64) {
        let length = into.len() as u64;
        match self
            .0
            .service_into(trace::READ, &[0, length, first], 0, into)
        {
            Ok(words) => (words[0] as usize, words[1]),
            Err(_) => (0, first),
        }
    }

    fn inject(&mut self, plan: [u64; 6]) -> bool {
        self.0.service(trace::INJECT, &plan).is_ok()
    }
}

fn main() -> ! {
    let portal = startup::portal("trace").unwrap_or(Portal(u32::MAX));
    event::serve(
        &mut Manager::new(b"/trace"),
        &mut Tracer::new(Real(portal)),
        &mut Native::new(),
    )
}
