//! The component.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::boxed::Box;
use cairn_net::capture::ring::Memory;
use cairn_net::netlink::local::List;
use cairn_net::{link, Net};
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::memory::{take_back, Shared};
use cairn_rt::{entropy, startup, Portal};
use core::sync::atomic::AtomicU64;

cairn_rt::entry!(main);

fn random() -> u64 {
    entropy::hardware().unwrap_or_else(entropy::cycles)
}

/// A ring's memory. What a program has mapped of it goes with it, so that nobody keeps frames that no account pays for.
struct Pages(Shared, Portal);

impl Memory for Pages {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }

    fn portal(&self) -> Portal {
        self.1
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        take_back(&self.0, self.1);
        self.1.close();
    }
}

fn ring(bytes: usize) -> Option<Box<dyn Memory>> {
    let (shared, portal) = Shared::make(bytes / 8)?;
    Some(Box::new(Pages(shared, portal)))
}

/// The page in which the packet filter says whether it is to be asked.
fn attach(filter: Portal) -> Option<Shared> {
    let answer = cairn_idl::filter::Client(&filter).attach().ok()?;
    let portal = Portal(answer.slot());
    let page = Shared::read(portal, 1);
    portal.close();
    page
}

/// `local`, which knows the local sockets.
fn local_sockets(local: Portal) -> List {
    Box::new(move |(place, states, number), known| {
        let client = cairn_idl::local::Client(&local);
        client.list(place, states, number, known).ok()
    })
}

fn main() -> ! {
    let mut net = Net::new(startup::portal("proc"), random);
    net.make_ring = ring;
    net.filter.portal = startup::portal("filter");
    net.filter.attach = Some(attach);
    net.local = startup::portal("local").map(local_sockets);
    link::native::attach_all(&mut net, random);
    serve(&mut Manager::new(b"net:"), &mut net, &mut Native::new())
}
