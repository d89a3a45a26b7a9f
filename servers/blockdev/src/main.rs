//! The program of `block:`. Portals named after disks (`vda`, `ram0`, …) lead to their drivers.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_abi::layout::native_slot;
use cairn_abi::service;
use cairn_block::native::Disk;
use cairn_block::{Device, Info, Outcome, Refused, Request};
use cairn_blockdev::disk::{Disks, Drive, ARENA, FIRST_BADGE};
use cairn_blockdev::loops::{Control, BELLS};
use cairn_blockdev::server::Blockdev;
use cairn_idl::errno::EIO;
use cairn_idl::wire::Failure;
use cairn_idl::{block, device, loops, vm};
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{log, memory, startup, time, Portal, Received, Receiver};

cairn_rt::entry!(main);

const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));

struct Driven(Disk);

impl Device for Driven {
    fn info(&self) -> Info {
        self.0.info()
    }
    fn submit(&mut self, request: &Request) -> Result<(), Refused> {
        self.0.submit(request)
    }
    fn completed(&mut self) -> Option<(u64, Outcome)> {
        self.0.completed()
    }
}

impl Drive for Driven {
    fn heard(&mut self, pulse: &Received, _: &mut [u8]) {
        self.0.pulse(pulse);
    }

    fn together(&mut self, begin: bool) {
        match begin {
            true => self.0.hold(),
            false => self.0.tell(),
        }
    }

    fn give_way(&mut self) {
        let _ = Portal::CURRENT.service(service::current::YIELD, &[]);
    }

    fn borrow(&mut self, window: u32, loan: Portal) -> bool {
        let arena = self.0.arena();
        vm::Client(&arena).dma_borrow(window, loan.0).is_ok()
    }

    fn repartition(&mut self, alone: bool, table: &[(u32, u64, u64)]) -> Result<(), i64> {
        told(self.0.repartition(alone, table))
    }

    fn resize(&mut self, sectors: u64) {
        self.0.resize(sectors);
    }

    fn end(self: Box<Self>) {
        self.0.close();
    }
}

/// The driver of loop devices.
struct Driver {
    portal: Portal,
    bell: u64,
}

/// Its answer, or an error number.
fn told<T>(answer: Result<T, Failure>) -> Result<T, i64> {
    answer.map_err(|why| match why {
        Failure::Refused(errno) => errno,
        _ => EIO,
    })
}

impl Driver {
    fn client(&self) -> loops::Client<'_, Portal> {
        loops::Client(&self.portal)
    }
}

impl Control for Driver {
    fn begin(&mut self) -> bool {
        let (bells, next) = (BELLS, self.bell + 1);
        self.bell = match bells.contains(&next) {
            true => next,
            false => bells.start,
        };
        let Ok(bell) = CHANNEL.make_portal(self.bell) else {
            return false;
        };
        let told = self.client().bell(bell.0);
        if let Err(why) = told {
            log!("no loop devices: {why}");
            bell.close();
        }
        told.is_ok()
    }
    fn bell(&self) -> u64 {
        self.bell
    }
    fn device(&mut self, from: u32) -> Option<u32> {
        Some(self.client().device(from.into()).ok()?.found)
    }
    fn status(&mut self, number: u32) -> Result<loops::Status, i64> {
        told(self.client().status(number))
    }
    fn free(&mut self) -> Result<u32, i64> {
        told(self.client().free())
    }
    fn add(&mut self, number: u64) -> Result<u32, i64> {
        told(self.client().add(number))
    }
    fn remove(&mut self, number: u32) -> Result<(), i64> {
        told(self.client().remove(number))
    }
    fn bind(
        &mut self,
        number: u32,
        replace: bool,
        how: &loops::How,
        file: Portal,
    ) -> Result<(), i64> {
        let begun = told(self.client().bind(number, replace, file.0, how));
        // If it was not delivered.
        begun.inspect_err(|_| file.close())
    }
    fn change(&mut self, number: u32, how: &loops::How) -> Result<(), i64> {
        told(self.client().change(number, how))
    }
    fn outcome(&mut self, number: u32) -> Result<(), i64> {
        told(self.client().outcome(number))
    }
    fn clear(&mut self, number: u32, others: bool) -> Result<bool, i64> {
        told(self.client().clear(number, others))
    }
    fn used(&mut self, number: u32, used: bool) {
        let _ = self.client().used(number, used);
    }
    fn changed(&mut self) -> Option<u32> {
        self.client().changed().ok()
    }
    fn arena(&mut self) -> Option<&'static mut [u8]> {
        arena()
    }
    fn drive(&mut self, number: u32, badge: u64, arena: &mut [u8]) -> Option<Box<dyn Drive>> {
        let disk = Portal(self.client().disk(number).ok()?.slot());
        match Disk::open(disk, arena, CHANNEL, badge) {
            Ok(disk) => Some(Box::new(Driven(disk))),
            Err(why) => {
                log!("loop{number}: {why}");
                disk.close();
                None
            }
        }
    }
}

fn arena() -> Option<&'static mut [u8]> {
    let arena = memory::map(ARENA)?;
    match memory::populate(arena) {
        Ok(()) => Some(arena),
        Err(_) => {
            log!("no memory for disks");
            None
        }
    }
}

/// The disks that the manifest names. Their drivers are waited for.
fn disks() -> Disks {
    let is_disk = |(name, _): &(&str, Portal)| device::disk(name, 0).is_some();
    let named: Vec<_> = startup::portals().filter(is_disk).collect();
    let arena = match named.is_empty() {
        false => arena(),
        true => None,
    };
    let Some(arena) = arena else {
        return Disks::default();
    };
    let mut found = Vec::new();
    for (name, portal) in named {
        let badge = FIRST_BADGE + found.len() as u64;
        match Disk::open_fixed(portal, arena, CHANNEL, badge) {
            Ok(disk) => found.push((name, disk, partitions(portal))),
            Err(why) => log!("{name}: {why}"),
        }
    }
    let mut disks = Disks::new(arena);
    for (name, disk, partitions) in found {
        disks.add(name, Box::new(Driven(disk)), &partitions);
    }
    disks
}

fn partitions(disk: Portal) -> Vec<(u32, u64, u64)> {
    let mut list = Vec::new();
    let mut number = 1;
    while let Ok(found) = block::Client(&disk).partition(number) {
        list.push((found.found, found.first, found.sectors));
        number = found.found + 1;
    }
    list
}

fn main() -> ! {
    let born = (time::realtime() / 1_000_000_000) as i64;
    let mut disks = disks();
    if let Some(driver) = startup::portal("loop") {
        // (A predecessor's bell has probably another number.)
        let bell = BELLS.start + cairn_rt::time::monotonic() % (BELLS.end - BELLS.start);
        disks.set_loops(Box::new(Driver {
            portal: driver,
            bell,
        }));
    }
    let mut blockdev = Blockdev::new(born, disks);
    serve(
        &mut Manager::new(b"/dev"),
        &mut blockdev,
        &mut Native::new(),
    )
}
