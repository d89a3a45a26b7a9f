//! A hasty handler touches what its driver has at that moment, and nothing that was taken from it, in whatever manner.

use super::hasty::*;
use super::*;
use cairn_abi::hasty::{operation as op, Step, REGISTERS};
use cairn_abi::service::memory::{map, prot};
use cairn_abi::service::{interrupt, machine};
use cairn_abi::PortalKind;

const MORE: u64 = BUFFER + 0x900;
const DEVICE_AT: u64 = 0x7000_0000;
const DEVICE_FRAME: u32 = 0xf_d000;
const IO: u64 = prot::READ | prot::WRITE | prot::DEVICE | map::IO;

fn device(d: &mut Driver, frame: u32, bits: u64) {
    let words = [d.dom.space as u64, DEVICE_AT, frame as u64, 1, bits];
    d.w.memory(memory::MAP, &words);
}

/// A handler that writes one register, at most as important as this.
fn with_registers(priority: u64) -> Driver {
    let mut d = driver();
    d.w.recall();
    device(&mut d, DEVICE_FRAME, IO);
    d.w.rest();
    let words = [DEVICE_AT, 0, priority].map(u64::to_le_bytes);
    d.w.poke_memory(d.dom, MORE, words.as_flattened());
    d.more = MORE;
    let write = Step {
        width: 4,
        port: 0x20,
        ..Step::plain(op::WRITE | REGISTERS)
    };
    d.install(&[write], [1, 1, 0]);
    d.interrupt();
    assert_eq!(d.w.k.arch.device_writes.len(), 1);
    assert!(d.sleeps() && d.open());
    d
}

/// The interrupt touches nothing and is the driver's, an ordinary one; there is no handler any more.
fn is_gone(d: &mut Driver) {
    let touched = (
        d.w.k.arch.port_accesses,
        d.w.k.arch.device_writes.len(),
        d.w.k.arch.port_writes.len(),
    );
    d.feed(STATUS, &[0x61]);
    d.interrupt();
    let now = (
        d.w.k.arch.port_accesses,
        d.w.k.arch.device_writes.len(),
        d.w.k.arch.port_writes.len(),
    );
    assert_eq!(now, touched);
    let (count, reasons, last) = d.woken();
    assert!(count >= 1);
    assert_eq!((reasons, last), (0, 0));
    assert!(!d.open(), "to be acknowledged");
    assert!(!d.w.k.handlers[0].has_code(), "its code went back");
    let (t, irq) = (d.t, d.irq);
    assert_eq!(d.w.err(t, irq, interrupt::TAKE, &[TAKEN, 1]), Error::Busy);
    d.w.ok(t, irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(d.open());
    d.wait();
}

fn with_ports() -> Driver {
    let mut d = driver();
    d.install(&receive(), [1, 1024, 0]);
    typed(&mut d, b"some");
    assert!(d.sleeps());
    d
}

#[test]
fn ports_that_the_driver_closed_or_lost_are_not_touched() {
    let mut d = with_ports();
    let other = {
        d.w.recall();
        let other = d.w.thread(d.dom, 100);
        d.w.rest();
        other
    };
    let ports = d.ports as u64;
    d.w.ok(other, 0, current::PORTAL_CLOSE, &[ports]);
    is_gone(&mut d);
    // Whoever controls the driver's domain takes it out of its table, or puts something else there.
    let mut d = with_ports();
    let (init, slot, ports) = (d.w.init, d.dom.slot, d.ports as u64);
    d.w.recall();
    d.w.ok(init, slot, domain::PORTAL_REMOVE, &[ports]);
    d.w.rest();
    is_gone(&mut d);
    let mut d = with_ports();
    d.w.recall();
    let words = [DATA as u64 + 0x100, 8, AUTO];
    let made = d.w.ok(init, MACHINE, machine::PORTS, &words)[0];
    let words = [made, ports, 0xffff];
    d.w.ok(init, slot, domain::PORTAL_PUT, &words);
    d.w.rest();
    is_gone(&mut d);
}

#[test]
fn ports_that_were_revoked_are_not_touched() {
    let mut d = driver();
    let (init, slot) = (d.w.init, d.dom.slot);
    d.w.recall();
    let words = [DATA as u64, 8, AUTO];
    let whole = d.w.ok(init, MACHINE, machine::PORTS, &words)[0];
    let keep =
        d.w.ok(init, 0, current::PORTAL_DERIVE, &[whole, AUTO, 0xffff])[0];
    let lent =
        d.w.ok(init, 0, current::PORTAL_DERIVE, &[keep, AUTO, 0xffff])[0];
    let put =
        d.w.ok(init, slot, domain::PORTAL_PUT, &[lent, AUTO, 0xffff]);
    d.ports = put[0] as u32;
    d.w.rest();
    d.install(&receive(), [1, 1024, 0]);
    typed(&mut d, b"some");
    assert!(d.sleeps());
    d.w.recall();
    d.w.ok(init, 0, current::PORTAL_REVOKE, &[keep]);
    d.w.rest();
    is_gone(&mut d);
    d.interrupt();
    assert_eq!(
        d.try_install(&receive(), [1, 1024, 0]),
        Err(Error::Revoked),
        "nor may it have another"
    );
}

#[test]
fn registers_that_are_not_the_drivers_any_more_are_not_touched() {
    let taken: [fn(&mut Driver); 5] = [
        |d| {
            let words = [d.dom.space as u64, DEVICE_AT, 1];
            d.w.memory(memory::UNMAP, &words);
        },
        |d| {
            let words = [d.dom.space as u64, DEVICE_AT, 1, prot::READ | prot::DEVICE];
            d.w.memory(memory::PROTECT, &words);
        },
        |d| device(d, DEVICE_FRAME, prot::READ | prot::DEVICE | map::IO),
        |d| device(d, DEVICE_FRAME + 1, IO),
        |d| {
            d.w.map(d.dom, DEVICE_AT, prot::READ | prot::WRITE);
        },
    ];
    for take in taken {
        let mut d = with_registers(255);
        d.w.recall();
        take(&mut d);
        d.w.rest();
        is_gone(&mut d);
    }
}

#[test]
fn a_handler_that_waits_for_its_turn_touches_nothing_that_goes_meanwhile() {
    let mut d = with_registers(100);
    d.w.recall();
    let high = d.w.thread(d.dom, 210);
    d.w.rest();
    d.interrupt();
    // It has to wait for `high`, and for the machine's own thread, during which the page goes.
    d.w.recall();
    let words = [d.dom.space as u64, DEVICE_AT, 1];
    d.w.memory(memory::UNMAP, &words);
    d.w.rest();
    assert_eq!(d.w.k.arch.device_writes.len(), 1);
    d.w.go(high, 0, current::PARK, 0, &[]);
    assert_eq!(d.woken(), (2, 0, 0));
    assert!(!d.open());
    assert!(!d.w.k.handlers[0].has_code());
}

#[test]
fn another_domain_that_hears_the_interrupt_gets_no_handler_of_a_dead_one() {
    let mut d = with_ports();
    // The channel at which the pulses arrive outlives the driver, and so does the binding.
    d.w.recall();
    let (init, heir) = (d.w.init, d.w.domain());
    let line = d.w.k.interrupts.bindings[0].holders;
    assert_eq!(line, 2, "init's portal and the driver's");
    let (rx, _) = d.w.channel(heir);
    let t = d.w.thread(heir, 200);
    let words = [find(&mut d, PortalKind::Interrupt), AUTO, 0xffff];
    let irq = d.w.ok(init, heir.slot, domain::PORTAL_PUT, &words)[0] as u32;
    d.w.rest();
    d.w.ok(t, irq, interrupt::BIND, &[rx as u64, 7]);
    d.w.receive(t, rx);
    d.w.recall();
    d.w.destroy(d.dom);
    d.w.rest();
    let accesses = d.w.k.arch.port_accesses;
    d.feed(STATUS, &[0x61]);
    d.interrupt();
    assert_eq!(d.w.k.arch.port_accesses, accesses);
    assert_eq!(d.w.pulse(t), (cairn_abi::pulse::INTERRUPT, 1, 7));
    assert_eq!(d.w.k.threads[t].registers.rdx, 0);
    assert!(!d.w.k.handlers[0].has_code());
}

/// The slot of init's that leads to such an object.
fn find(d: &mut Driver, kind: PortalKind) -> u64 {
    let table = &d.w.k.domains[d.w.k.threads[d.w.init].domain].table;
    (1..table.high())
        .find(|&slot| {
            let target = table.target(slot as u64);
            target.is_some_and(|target| target.kind() == kind)
        })
        .expect("init has one") as u64
}
