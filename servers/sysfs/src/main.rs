//! The program of /sys: portals named after disks (`vda`, `ram0`, …) lead to their drivers, which are waited for. `net` leads to the server of the network,
//! which is only asked for its table of interfaces.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cairn_block::{native, Info, SECTOR};
use cairn_idl::block::{self, Counts};
use cairn_idl::loops::{self, lo};
use cairn_idl::net::{self, Listing};
use cairn_idl::vm;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::abi::layout;
use cairn_rt::{log, startup, time, Portal};
use cairn_sysfs::interfaces::Interface;
use cairn_sysfs::server::{Drivers, Looped, Partition, Sysfs};
use cairn_sysfs::tree::{File, Tree};

cairn_rt::entry!(main);

fn partitions(disk: Portal) -> Vec<Partition> {
    let mut list = Vec::new();
    let mut number = 1;
    while let Ok(found) = block::Client(&disk).partition(number) {
        list.push((found.found, found.first, found.sectors));
        number = found.found + 1;
    }
    list
}

/// Room for a line of `net`, and for some.
const LINE: usize = 256;
const LINES: usize = 8192;

/// With the portals to the driver of loop devices, and to `net`.
struct Outside {
    loops: Option<Portal>,
    net: Option<Portal>,
}

impl Outside {
    fn loops(&self) -> Option<loops::Client<'_, Portal>> {
        self.loops.as_ref().map(loops::Client)
    }

    /// Interfaces from a number on, in a piece of the list; where to go on.
    fn links(&self, from: u64, bytes: &mut [u8]) -> Option<(Vec<Interface>, u64)> {
        let net = net::Client(self.net.as_ref()?);
        let (next, length) = net.table(Listing::Links, from, bytes).ok()?;
        let text = core::str::from_utf8(bytes.get(..length)?).ok()?;
        Some((text.lines().filter_map(Interface::told).collect(), next))
    }
}

impl Drivers for Outside {
    fn look(&mut self, disk: &str) -> Option<(Info, Vec<Partition>)> {
        let portal = startup::portal(disk)?;
        Some((native::info(portal).ok()?, partitions(portal)))
    }

    fn looped(&mut self, from: u32) -> Option<(u32, Looped)> {
        let driver = self.loops()?;
        let found = driver.device(from.into()).ok()?.found;
        let Ok(status) = driver.status(found) else {
            let info = Info {
                block: SECTOR as u32,
                most_requests: block::REQUESTS as u32,
                ..Info::default()
            };
            return Some((found, (info, Vec::new(), None)));
        };
        let mut partitions = Vec::new();
        let mut from = 1;
        while let Ok(next) = driver.partition(found, from) {
            partitions.push((next.found, next.first, next.sectors));
            from = next.found + 1;
        }
        let read_only = status.flags & lo::READ_ONLY != 0;
        let info = Info {
            sectors: status.sectors,
            block: status.block,
            read_only,
            caches_writes: !read_only,
            discards: !read_only,
            rotates: false,
            most_pages: 0,
            most_requests: block::REQUESTS as u32,
        };
        let path = status.path.split(|byte| *byte == 0).next();
        let file = File {
            path: String::from_utf8_lossy(path.unwrap_or_default()).into_owned(),
            offset: status.offset,
            limit: status.limit,
            flags: status.flags,
        };
        Some((found, (info, partitions, Some(file))))
    }

    fn interfaces(&mut self) -> Vec<Interface> {
        let (mut all, mut from) = (Vec::new(), 0);
        let mut bytes = vec![0; LINES];
        while let Some((some, next)) = self.links(from, &mut bytes) {
            all.extend(some);
            // (They are told in order: whatever `net` says, this ends.)
            if next <= from {
                break;
            }
            from = next;
        }
        all
    }

    fn interface(&mut self, number: u32) -> Option<Interface> {
        let (some, _) = self.links(number.into(), &mut [0; LINE])?;
        some.into_iter().find(|of| of.number == number)
    }

    fn memory(&mut self) -> [u64; 2] {
        let vm = Portal(layout::native_slot::VM);
        let told = vm::Client(&vm).memory_stat();
        told.map_or([0; 2], |it| [it.total * 4, it.free * 4])
    }

    fn counts(&mut self, disk: &str, partition: u32) -> Option<Counts> {
        if let Some(number) = cairn_idl::device::loop_number(disk) {
            let counts = self.loops()?.counts(number, partition.into()).ok()?;
            return Some(Counts::from_bytes(&counts.to_bytes()));
        }
        let portal = startup::portal(disk)?;
        block::Client(&portal).counts(partition.into()).ok()
    }
}

fn main() -> ! {
    let mut tree = Tree::new(time::system_page().cores);
    for (name, portal) in startup::portals() {
        if cairn_idl::device::disk(name, 0).is_none() {
            continue;
        }
        match native::info(portal) {
            Ok(info) => tree.set(name, info, &partitions(portal)),
            Err(why) => log!("{name}: {why}"),
        }
    }
    let born = (time::realtime() / 1_000_000_000) as i64;
    let mut sysfs = Sysfs {
        drivers: Outside {
            loops: startup::portal("loop"),
            net: startup::portal("net"),
        },
        tree,
        born,
    };
    serve(&mut Manager::new(b"/sys"), &mut sysfs, &mut Native::new())
}
