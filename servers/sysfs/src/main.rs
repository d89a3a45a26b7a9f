//! The program of /sys: portals named after disks (`vda`, `ram0`, …) lead to their drivers, which are waited for.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use cairn_block::{native, Info};
use cairn_idl::block::{self, Counts};
use cairn_idl::vm;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::abi::layout;
use cairn_rt::{log, startup, time, Portal};
use cairn_sysfs::server::{Drivers, Partition, Sysfs};
use cairn_sysfs::tree::Tree;

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

struct Outside;

impl Drivers for Outside {
    fn look(&mut self, disk: &str) -> Option<(Info, Vec<Partition>)> {
        let portal = startup::portal(disk)?;
        Some((native::info(portal).ok()?, partitions(portal)))
    }

    fn memory(&mut self) -> [u64; 2] {
        let vm = Portal(layout::native_slot::VM);
        let told = vm::Client(&vm).memory_stat();
        told.map_or([0; 2], |it| [it.total * 4, it.free * 4])
    }

    fn counts(&mut self, disk: &str, partition: u32) -> Option<Counts> {
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
        drivers: Outside,
        tree,
        born,
    };
    serve(&mut Manager::new(b"/sys"), &mut sysfs, &mut Native::new())
}
