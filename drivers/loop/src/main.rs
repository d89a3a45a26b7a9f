//! The program of loop devices. Portal `dma`: its badge of `vm`, through which it reaches its clients' arenas.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::service::current;
use cairn_abi::{pulse, received, Error};
use cairn_block::program::{refuse, Native};
use cairn_block::serve::System;
use cairn_device::start::{deliver, CHANNEL};
use cairn_loop::{Gone, Helper, Loops, Outside, BUFFER, HELPER_FIRST};
use cairn_rt::dma::{Driver, COPY};
use cairn_rt::errand::Errand;
use cairn_rt::memory::Shared;
use cairn_rt::serve::Blocked;
use cairn_rt::{log, startup, Portal};

cairn_rt::entry!(main);

#[derive(Clone)]
struct Real(Driver, Native);

impl System for Real {
    type Memory = Shared;
    fn rings(&mut self, words: usize) -> Option<(Shared, u32)> {
        self.1.rings(words)
    }
    fn portal(&mut self, badge: u64) -> Option<u32> {
        self.1.portal(badge)
    }
    fn notify(&mut self, portal: u32, bits: u64) {
        self.1.notify(portal, bits);
    }
    fn now(&mut self) -> u64 {
        self.1.now()
    }
    fn close(&mut self, portal: u32) {
        self.1.close(portal);
    }
}

struct Thread(Errand, u64);

impl Helper for Thread {
    fn number(&self) -> u64 {
        self.1
    }
    fn buffer(&mut self) -> &mut [u8] {
        self.0.buffer()
    }
    fn call(&mut self, portal: u32, words: [u64; 8], out: usize, input: usize) {
        self.0.call(Portal(portal), words, out, input);
    }
    fn outcome(&mut self) -> Option<Result<[u64; 8], Gone>> {
        let outcome = self.0.outcome()?;
        Some(outcome.map_err(|why| match why {
            Error::Dead => Gone::Dead,
            _ => Gone::Over,
        }))
    }
    fn rest(&mut self) {
        self.0.rest();
    }
}

impl Outside for Real {
    type Helper = Thread;
    const MOST: usize = COPY;
    fn helper(&mut self, number: u64) -> Option<Thread> {
        let told = CHANNEL.make_portal(HELPER_FIRST + number).ok()?;
        let errand = Errand::start(BUFFER, told);
        errand.ok().map(|errand| Thread(errand, number))
    }
    fn read(&mut self, arena: u32, at: u64, into: &mut [u8]) -> bool {
        self.0.read(Portal(arena), at, into).is_ok()
    }
    fn write(&mut self, arena: u32, at: u64, from: &[u8]) -> bool {
        self.0.write(Portal(arena), at, from).is_ok()
    }
}

fn main() -> ! {
    let Some(Ok(driver)) = startup::portal("dma").map(Driver::begin) else {
        log!("no loop devices: a portal to `vm` is needed");
        refuse()
    };
    // Clients may hold portals to sessions of a predecessor.
    let own = Portal::CURRENT.service(current::IDENTITY, &[]);
    let first = own.map_or(0, |own| own[1] << 32);
    let mut loops = Loops::new(Real(driver, Native), first);
    let mut blocked: Blocked = Blocked {
        receiver: CHANNEL,
        received: Default::default(),
    };
    loop {
        if CHANNEL.receive_into(None, &mut blocked.received).is_err() {
            continue;
        }
        let badge = blocked.received.badge;
        match (blocked.received.kind, blocked.received.words[0]) {
            (received::kind::MESSAGE, _) => {
                let delivered = deliver(&blocked, loops.request(&blocked));
                loops.after(badge, delivered);
            }
            (received::kind::PULSE, pulse::CLOSED) => loops.closed(badge),
            (received::kind::PULSE, pulse::NOTIFY) => loops.notified(badge),
            _ => {}
        }
    }
}
