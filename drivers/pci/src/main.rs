//! The PCI server's wiring: portals `config` (the ports 0xcf8 to 0xcff) and `vm` (its system side), protocol `cairn_idl::pci`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_abi::service::{current, interrupt, ports};
use cairn_idl::errno::{EACCES, EIO, ENOMEM};
use cairn_idl::wire::{Errno, Failure};
use cairn_idl::{pci, vm};
use cairn_pci::bus::{Bus, Outside};
use cairn_pci::config::{Address, Config};
use cairn_rt::device::Registers;
use cairn_rt::serve::serve;
use cairn_rt::{log, startup, Portal, Receiver};

cairn_rt::entry!(main);

/// Configuration mechanism 1: the address port and the data port.
const ADDRESS: u64 = 0xcf8;
const DATA: u64 = 0xcfc;
const ENABLE: u64 = 1 << 31;

struct Ports(Portal);

impl Ports {
    fn select(&self, function: Address, register: u8) {
        let address = ENABLE | (function as u64) << 8 | register as u64 & 0xfc;
        let _ = self.0.service(ports::OUT32, &[ADDRESS, address]);
    }
}

impl Config for Ports {
    fn read(&mut self, function: Address, register: u8) -> u32 {
        self.select(function, register);
        self.0
            .service(ports::IN32, &[DATA])
            .map_or(u32::MAX, |words| words[0] as u32)
    }

    fn write(&mut self, function: Address, register: u8, value: u32) {
        self.select(function, register);
        let _ = self.0.service(ports::OUT32, &[DATA, value as u64]);
    }
}

struct System {
    vm: Portal,
    domain: u32,
}

impl Outside for System {
    fn show(
        &mut self,
        domain: Option<u32>,
        address: u64,
        physical: u64,
        length: u64,
    ) -> Result<(), Errno> {
        let domain = domain.unwrap_or(self.domain);
        vm::Client(&self.vm)
            .device_into(domain, address, physical, length)
            .map_err(|failure| match failure {
                Failure::Refused(errno) if errno == EACCES || errno == ENOMEM => errno,
                _ => EIO,
            })
    }

    fn write(&mut self, address: u64, value: u32) {
        if let Some(register) = Registers::shown(address, 4) {
            register.write32(0, value);
        }
    }

    fn message(&mut self, irq: u32) -> Option<(u64, u32)> {
        let told = Portal(irq).service(interrupt::INFO, &[]).ok()?;
        (told[0] == 1).then_some((told[2], told[3] as u32))
    }

    fn attach(&mut self, domain: u32, function: Address) -> Result<(), Errno> {
        let attached = vm::Client(&self.vm).dma_attach(domain, function.into());
        attached.map(|_| ()).map_err(|failure| match failure {
            Failure::Refused(ENOMEM) => ENOMEM,
            _ => EIO,
        })
    }

    fn close(&mut self, portal: u32) {
        Portal(portal).close();
    }
}

fn main() -> ! {
    let (Some(config), Some(vm)) = (startup::portal("config"), startup::portal("vm")) else {
        panic!("no portals");
    };
    let domain = Portal(native_slot::CURRENT)
        .service(current::IDENTITY, &[])
        .map_or(0, |words| words[1] as u32);
    let mut bus = Bus::new(Ports(config), System { vm, domain });
    log!("{} functions", bus.functions().len());
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    serve(
        receiver,
        &pci::SIGNATURES,
        &mut bus,
        pci::dispatch,
        |_, _| {},
    )
}
