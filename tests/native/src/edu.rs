//! A driver of QEMU's teaching device (PCI 1234:11e8), which raises an interrupt whenever it is told to: by its PCI line, shared with others,
//! or by message where the manifest gave such an interrupt. It makes 200, each when the one before was served, and goes on serving the line.
//! With the argument `dies` it exits at its first interrupt, without an acknowledgement.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_abi::pulse;
use cairn_abi::service::{interrupt, ports};
use cairn_rt::device::Registers;
use cairn_rt::{log, startup, Portal, Receiver};

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

fn main() -> ! {
    let (Some(ports), Some(irq)) = (startup::portal("config"), startup::portal("irq")) else {
        panic!("no portals");
    };
    let (Some(slot), Some(bar)) = (number("slot"), number("bar")) else {
        panic!("no arguments");
    };
    let Some(registers) = Registers::named("registers") else {
        panic!("no registers");
    };
    let pci = Pci { ports, slot };
    assert_eq!(pci.read(IDENTITY), 0x11e8_1234, "the teaching device");
    pci.write(BAR, bar);
    pci.write(COMMAND, MEMORY_AND_MASTER);
    assert_eq!(registers.read32(0) & 0xff, 0xed);
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let told = irq.service(interrupt::INFO, &[]).expect("information");
    let message = told[0] == 1;
    if message {
        pci.enable_message(told[2], told[3]);
    }
    irq.service(interrupt::BIND, &[native_slot::RECEIVE as u64, slot])
        .expect("bound");
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
