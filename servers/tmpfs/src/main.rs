//! The component: arena and archive from `vm` and `init`, then the loop. Of mount(2): a portal `ready`, arguments `options=` and `prefix=`; `st_dev=` of all but the root.
#![no_std]
#![no_main]

extern crate alloc;

use cairn_idl::errno::{EINVAL, ENOMEM};
use cairn_resmgr::event::serve;
use cairn_resmgr::objects::tell_names;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{entropy, memory, startup, time, Portal};
use cairn_tmpfs::directory::Seed;
use cairn_tmpfs::inode::Time;
use cairn_tmpfs::options::Options;
use cairn_tmpfs::pool::PAGE;
use cairn_tmpfs::{Memory, Pool, Tmpfs};

cairn_rt::entry!(main);

/// The root's file system leaves one in so many of its pages to user 0.
const RESERVED: usize = 16;

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

    fn object(
        &mut self,
        addresses: &[u8],
        shared: bool,
        tag: u64,
    ) -> Result<Portal, cairn_rt::abi::Error> {
        memory::object(addresses, shared, tag)
    }

    fn change(&mut self, object: Portal, first: u64, addresses: &[u8], pages: u64) -> bool {
        memory::change_object(object, first, addresses, pages).is_ok()
    }

    fn hide(&mut self, object: Portal, first: u64, count: u64, pages: u64) -> bool {
        memory::hide(object, first, count, pages).unwrap_or(true)
    }

    fn is_mapped(&mut self, object: Portal) -> bool {
        memory::is_mapped(object)
    }
}

fn end() {
    cairn_rt::start::end(0)
}

/// A word that nobody guesses, as far as the machine has one.
fn unknown() -> u64 {
    let clock = entropy::cycles() ^ time::realtime();
    let clock = clock.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    entropy::hardware().unwrap_or(0) ^ clock ^ clock >> 29
}

fn main() -> ! {
    let machine = time::system_page().total_frames as usize;
    let mut options = Options::of(machine);
    let ready = startup::portal("ready");
    if ready.is_some() {
        // By the number `init` tells whoever mounts it.
        match options.with(startup::argument("options").unwrap_or(""), machine) {
            Some(given) => options = given,
            None => cairn_rt::start::exit(EINVAL as u64),
        }
    }
    let archive = memory::archive().unwrap_or_default();
    let has_archive = !archive.is_empty();
    let Some(arena) = memory::map(options.pages * PAGE) else {
        cairn_rt::log!("no memory for the arena");
        cairn_rt::start::exit(ENOMEM as u64)
    };
    let now = Time::from_ns(time::realtime());
    let mut native = Native::new();
    tell_names(native.receiver);
    let mut tmpfs = Tmpfs::new(Pool::new(Vm, archive, arena, options.pages), now);
    tmpfs.seed(Seed::new([unknown(), unknown()]));
    if let Some(device) = startup::argument("st_dev").and_then(|text| text.parse().ok()) {
        tmpfs.st_dev = device;
    }
    if let Some(ready) = ready {
        tmpfs.set(&options);
        tmpfs.gives_ids = !startup::arguments().any(|argument| argument == "nosuid");
        tmpfs.end = Some(end);
        // If `init` cannot be told it hears of the end.
        let _ = ready.notify(1);
        let prefix = startup::argument("prefix").map_or(&b""[..], str::as_bytes);
        serve(&mut Manager::new(prefix), &mut tmpfs, &mut native)
    }
    tmpfs.pool.leave_to_root(options.pages / RESERVED);
    // /run begins empty.
    if has_archive {
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
    }
    serve(&mut Manager::new(b""), &mut tmpfs, &mut native)
}
