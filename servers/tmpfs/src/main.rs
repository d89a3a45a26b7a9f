//! The component: arena and archive from `vm` and `init`, then the loop.
#![no_std]
#![no_main]

extern crate alloc;

use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{memory, time, Portal};
use cairn_tmpfs::inode::Time;
use cairn_tmpfs::pool::PAGE;
use cairn_tmpfs::{Memory, Pool, Tmpfs};

cairn_rt::entry!(main);

/// `vm`.
struct Vm;

impl Memory for Vm {
    fn populate(&mut self, pages: &mut [u8]) -> bool {
        memory::populate(pages).is_ok()
    }

    fn release(&mut self, pages: &mut [u8]) {
        // If `vm` keeps them nothing is lost but memory.
        let _ = memory::release(pages);
    }

    fn object(&mut self, addresses: &[u8], shared: bool) -> Result<Portal, cairn_rt::abi::Error> {
        memory::object(addresses, shared)
    }

    fn change(&mut self, object: Portal, first: u64, addresses: &[u8], pages: u64) -> bool {
        memory::change_object(object, first, addresses, pages).is_ok()
    }
}

fn main() -> ! {
    let limit = time::system_page().total_frames as usize / 2;
    let archive = memory::archive().unwrap_or_default();
    let Some(arena) = memory::map(limit.max(1) * PAGE) else {
        cairn_rt::log!("no memory for the arena");
        cairn_rt::start::exit(1)
    };
    let now = Time::from_ns(time::realtime());
    let mut tmpfs = Tmpfs::new(Pool::new(Vm, archive, arena, limit), now);
    let filled = tmpfs.fill(now);
    cairn_rt::log!(
        "{} nodes, {} pages of the archive in place, {} entries refused{}",
        filled.nodes,
        filled.adopted,
        filled.refused,
        if filled.damaged {
            ", archive damaged"
        } else {
            ""
        }
    );
    serve(&mut Manager::new(b""), &mut tmpfs, &mut Native::new())
}
