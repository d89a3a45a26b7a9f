//! A driver of QEMU's teaching device (PCI 1234:11e8), which raises an interrupt whenever it is told to: by its PCI line, shared with others,
//! or by message where the manifest gave such an interrupt. It makes 200, each when the one before was served, and goes on serving the line.
//! With the argument `dies` it exits at its first interrupt, without an acknowledgement. With `hasty` the nucleus serves the device by a handler that reaches its
//! registers and appends to a ring in this program's memory; a second one is less important than this program and waits until it waits.
//! With a portal to `pci` it gets registers and interrupt from there instead of finding them by itself.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::hasty::{operation, reason, shared, More, Step, REGISTERS};
use cairn_abi::layout::native_slot;
use cairn_abi::pulse;
use cairn_abi::service::{current, interrupt, ports, AUTO};
use cairn_idl::pci;
use cairn_rt::device::Registers;
use cairn_rt::memory::Shared;
use cairn_rt::{log, startup, Portal, Receiver};
use core::sync::atomic::Ordering::{Acquire, Release};

cairn_rt::entry!(main);

const ROUNDS: u64 = 200;
/// PCI configuration: address and data port, and registers of a function's header.
const ADDRESS: u64 = 0xcf8;
const DATA: u64 = 0xcfc;
const IDENTITY: u64 = 0;
const COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u64 = 6;
const BAR: u64 = 0x10;
const CAPABILITIES: u64 = 0x34;
const MESSAGES: u64 = 5;
/// The device's registers.
const STATUS: usize = 0x24;
const RAISE: usize = 0x60;
const LOWER: usize = 0x64;

struct Pci {
    ports: Portal,
    slot: u64,
}

impl Pci {
    fn select(&self, register: u64) {
        let address = 1 << 31 | self.slot << 11 | register & !3;
        let _ = self.ports.service(ports::OUT32, &[ADDRESS, address]);
    }

    fn read(&self, register: u64) -> u64 {
        self.select(register);
        self.ports
            .service(ports::IN32, &[DATA])
            .map_or(u32::MAX as u64, |words| words[0])
    }

    fn write(&self, register: u64, value: u64) {
        self.select(register);
        let _ = self.ports.service(ports::OUT32, &[DATA, value]);
    }

    /// Have the device send this word to this address instead of using its line.
    fn enable_message(&self, address: u64, data: u64) {
        let mut at = self.read(CAPABILITIES) & 0xfc;
        for _ in 0..16 {
            let head = self.read(at);
            if at != 0 && head & 0xff == MESSAGES {
                self.write(at + 4, address & 0xffff_ffff);
                let wide = head >> 23 & 1;
                if wide == 1 {
                    self.write(at + 8, address >> 32);
                }
                self.write(at + 8 + 4 * wide, data);
                self.write(at, head & 0xff8f_ffff | 1 << 16);
                return;
            }
            at = head >> 8 & 0xfc;
        }
        panic!("no message-signalled interrupts");
    }
}

fn number(name: &str) -> Option<u64> {
    let text = startup::argument(name)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Find and set up the device in the slot that the arguments name, at the address where the manifest shows it; for this message (address, word) if there is one. Its registers, and its slot.
fn by_ports(message: Option<(u64, u64)>) -> (Registers, u64) {
    let ports = startup::portal("config").expect("the configuration ports");
    let (Some(slot), Some(bar)) = (number("slot"), number("bar")) else {
        panic!("no arguments");
    };
    let registers = Registers::named("registers").expect("registers");
    let pci = Pci { ports, slot };
    assert_eq!(pci.read(IDENTITY), 0x11e8_1234, "the teaching device");
    pci.write(BAR, bar);
    pci.write(COMMAND, MEMORY_AND_MASTER);
    if let Some((address, data)) = message {
        pci.enable_message(address, data);
    }
    (registers, slot)
}

/// The device that the portal to the bus is for, with its message.
fn by_bus(bus: Portal, irq: Portal) -> Registers {
    let bus = pci::Client(&bus);
    let window = bus.window(0).expect("its window");
    assert!(
        bus.window(1).is_err() && bus.window(6).is_err(),
        "it has but one"
    );
    assert_eq!(bus.read(0), Ok(0x11e8_1234));
    bus.master(true).expect("a master");
    bus.raise(0, irq.0).expect("its message");
    assert!(bus.raise(1, irq.0).is_err(), "it has but one");
    Registers::shown(window.address, window.length).expect("registers")
}

fn main() -> ! {
    // On the core that interrupts come to; and two at once would disturb each other at the configuration ports.
    Portal(native_slot::CURRENT)
        .service(current::AFFINITY, &[0, 1])
        .expect("the first core");
    let irq = startup::portal("irq").expect("an interrupt");
    let told = irq.service(interrupt::INFO, &[]).expect("information");
    let message = told[0] == 1;
    let (registers, slot) = match startup::portal("pci") {
        Some(bus) => (by_bus(bus, irq), 0),
        None => by_ports(message.then_some((told[2], told[3]))),
    };
    assert_eq!(registers.read32(0) & 0xff, 0xed);
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    irq.service(interrupt::BIND, &[native_slot::RECEIVE as u64, slot])
        .expect("bound");
    if startup::arguments().any(|argument| argument == "hasty") {
        hasty(irq, &receiver, &registers);
    }
    let dies = startup::arguments().any(|argument| argument == "dies");
    let mut made = 0;
    let mut served = 0;
    loop {
        if made == served && made < ROUNDS && !dies {
            made += 1;
            registers.write32(RAISE, 1);
        }
        let Ok(received) = receiver.receive(None) else {
            continue;
        };
        if received.words[0] != pulse::INTERRUPT {
            continue;
        }
        assert_eq!(received.badge, slot);
        if dies {
            log!("{}: dies owing", startup::name());
            cairn_rt::start::exit(0);
        }
        let status = registers.read32(STATUS);
        if status != 0 {
            registers.write32(LOWER, status);
            served += 1;
        } else {
            assert!(!message, "a message that nobody sent");
        }
        if served == ROUNDS && made == ROUNDS {
            made += 1;
            let how = if message { "message" } else { "line" };
            log!("{}: {served} interrupts by {how}", startup::name());
        }
        irq.service(interrupt::ACKNOWLEDGE, &[]).expect("bound");
    }
}

/// How many interrupts wake the driver whose device the nucleus serves.
const WAKE_AFTER: u32 = 50;

/// Read what the device raised, lower it, append it, count.
fn steps() -> [Step; 5] {
    let register = |operation, at: usize| Step {
        operation: operation | REGISTERS,
        width: 4,
        port: at as u16,
        ..Step::NONE
    };
    [
        register(operation::READ, STATUS),
        Step {
            mask: u32::MAX,
            ..register(operation::KEEP, LOWER)
        },
        Step::plain(operation::APPEND),
        Step {
            operation: operation::COUNT,
            value: WAKE_AFTER,
            ..Step::NONE
        },
        Step::plain(operation::DONE),
    ]
}

fn install(irq: Portal, registers: &Registers, ring: &Shared, priority: u64) {
    let more = [More {
        registers: registers.address(),
        ring: ring.as_ptr() as u64,
        priority,
    }];
    let (steps, significant) = (steps(), [0u64; 4]);
    let words = [
        steps.as_ptr() as u64,
        steps.len() as u64,
        1,
        cairn_abi::hasty::RING as u64,
        significant.as_ptr() as u64,
        0,
        AUTO,
        more.as_ptr() as u64,
    ];
    irq.service(interrupt::INSTALL, &words).expect("installed");
}

fn hasty(irq: Portal, receiver: &Receiver, registers: &Registers) -> ! {
    let (ring, _) = Shared::make(512).expect("a ring");
    let head = &ring[shared::HEAD as usize / 8];
    let tail = &ring[shared::TAIL as usize / 8];
    install(irq, registers, &ring, 255);
    let (mut wakes, mut longest) = (0, 0);
    for n in 0..ROUNDS {
        let value = n as u32 % 255 + 1;
        let before = cairn_rt::time::monotonic();
        registers.write32(RAISE, value);
        while head.load(Acquire) == n {}
        longest = longest.max(cairn_rt::time::monotonic() - before);
        let at = shared::BYTES as usize + n as usize;
        let byte = (ring[at / 8].load(Acquire) >> (at % 8 * 8)) as u8;
        assert_eq!(byte as u32, value, "what the device said");
        tail.store(n + 1, Release);
        if let Ok(received) = receiver.poll() {
            assert_eq!(received.words[0], pulse::INTERRUPT);
            assert_eq!(received.words[2], reason::COUNT);
            wakes += 1;
        }
    }
    log!(
        "{}: {ROUNDS} interrupts by the handler woke the driver {wakes} times",
        startup::name()
    );
    // Less important than this thread: not before it waits.
    install(irq, registers, &ring, 150);
    registers.write32(RAISE, 7);
    let until = cairn_rt::time::monotonic() + 2_000_000;
    while cairn_rt::time::monotonic() < until {
        assert_eq!(head.load(Acquire), 0, "the handler had to wait");
    }
    // It runs when this thread waits: once, unless the core that has the interrupts is late.
    while head.load(Acquire) == 0 {
        let _ = receiver.receive(Some(cairn_rt::time::monotonic() + 2_000_000));
    }
    assert_eq!(head.load(Acquire), 1, "one interrupt");
    log!(
        "{}: a less important handler waited; at most {longest} ns for one at once",
        startup::name()
    );
    loop {
        let _ = receiver.receive(None);
    }
}
