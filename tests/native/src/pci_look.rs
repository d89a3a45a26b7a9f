//! What the PCI server tells and refuses: the list of all functions, a function that is not there, and a message in the table of MSI-X.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::service::interrupt;
use cairn_idl::errno::*;
use cairn_idl::pci::{self, Function};
use cairn_idl::wire::Failure;
use cairn_rt::device::Registers;
use cairn_rt::{log, startup, Portal};

cairn_rt::entry!(main);

const TEACHER: u32 = 0x11e8_1234;
const RANDOMNESS: u32 = 0x1044_1af4;

fn portal(name: &str) -> Portal {
    startup::portal(name).expect("a portal of the manifest")
}

fn main() -> ! {
    let (all, rng, wrong, irq) = (portal("all"), portal("rng"), portal("wrong"), portal("irq"));
    let (all, rng, wrong) = (pci::Client(&all), pci::Client(&rng), pci::Client(&wrong));
    let mut list = [Function::default(); 64];
    let mut count = 0;
    while let Ok(function) = all.info(count as u32) {
        list[count] = function;
        count += 1;
        assert_eq!(function.bases.len(), pci::BARS);
    }
    let has = |identity| list[..count].iter().any(|f| f.identity == identity);
    assert!(has(TEACHER) && has(RANDOMNESS));
    assert_eq!(list[0].count as usize, count);
    let refused = |failure| matches!(failure, Err(Failure::Refused(ENODEV)));
    assert!(
        refused(all.window(0).map(|_| ())) && refused(all.master(true)),
        "it uses none"
    );
    assert!(refused(wrong.info(0).map(|_| ())) && refused(wrong.read(0).map(|_| ())));
    log!("pci-look: a teaching device, a source of randomness; nobody else's");

    let function = rng.info(0).expect("the source of randomness");
    assert_eq!(
        (function.identity, rng.read(0)),
        (RANDOMNESS, Ok(RANDOMNESS))
    );
    assert!(function.msix != 0 && function.msix_count >= 2);
    rng.raise(1, irq.0).expect("message 1");
    let late = rng.raise(function.msix_count, irq.0);
    assert!(matches!(late, Err(Failure::Refused(ENXIO))));
    let table = rng.read(function.msix + 4).expect("where the table is");
    let window = rng.window(table & 7).expect("the table's window");
    let registers = Registers::shown(window.address, window.length).expect("registers");
    let at = (table & !7) as usize + 16;
    let entry = [0, 4, 8, 12].map(|word| registers.read32(at + word));
    let told = irq.service(interrupt::INFO, &[]).expect("information");
    let (to, what) = (told[2], told[3] as u32);
    assert_eq!(entry, [to as u32, (to >> 32) as u32, what, 0]);
    assert_eq!(registers.read32(at - 4) & 1, 1, "message 0 is masked");
    assert_eq!(
        rng.read(function.msix).map(|word| word >> 30),
        Ok(2),
        "enabled"
    );
    log!("pci-look: message 1 of MSI-X is in its table");
    cairn_rt::start::exit(0);
}
