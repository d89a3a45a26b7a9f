//! A driver whose device (QEMU's teaching device, PCI 1234:11e8, which copies memory) does what it should, and then writes to memory that was given back, to that of the frame's next owner, and all over the machine.
//! Without an IOMMU it shows the first only: the rest would be the system's end.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::{native_slot, PAGE};
use cairn_idl::{pci, vm};
use cairn_rt::device::Registers;
use cairn_rt::dma::{Driver, Piece};
use cairn_rt::portal::Message;
use cairn_rt::{log, memory, startup, time, Portal, Receiver};
use core::hint::black_box;

cairn_rt::entry!(main);

const SHARE: u64 = 1;
const INTACT: u64 = 2;
const GIVE_BACK: u64 = 3;

/// The device's registers for copies: from, to, how many bytes, and begin; and its own memory.
const FROM: usize = 0x80;
const TO: usize = 0x88;
const COUNT: usize = 0x90;
const COMMAND: usize = 0x98;
const BEGIN: u32 = 1;
const OUTWARDS: u32 = 2;
const BUFFER: u32 = 0x4_0000;
const BYTES: u32 = 64;
/// The machine's memory, of which the device can say all addresses.
const MEMORY: u64 = 256 << 20;
const STEP: u64 = 4 << 20;
/// How often the next owner of a frame is looked for, among so many pages.
const TRIES: usize = 20;
const PAGES: usize = 256;
const PATTERN: u64 = 0x6861_636b_6564_2121;

struct Device {
    registers: Registers,
    receiver: Receiver,
}

impl Device {
    fn copy(&self, from: u32, to: u32, command: u32) {
        self.registers.write32(FROM, from);
        self.registers.write32(TO, to);
        self.registers.write32(COUNT, BYTES);
        self.registers.write32(COMMAND, command | BEGIN);
        while self.registers.read32(COMMAND) & BEGIN != 0 {
            let _ = self.receiver.receive(Some(time::monotonic() + 1_000_000));
        }
    }

    fn read(&self, address: u64) {
        self.copy(address as u32, BUFFER, 0);
    }

    fn write(&self, address: u64) {
        self.copy(BUFFER, address as u32, OUTWARDS);
    }
}

struct Victim(Portal);

impl Victim {
    fn ask(&self, what: u64) -> u64 {
        let answer = self.0.call(Message::new(&[what])).expect("an answer");
        assert_eq!(answer[0], 0);
        answer[1]
    }

    fn is_intact(&self) -> bool {
        self.ask(INTACT) == 1
    }
}

fn portal(name: &str) -> Portal {
    startup::portal(name).expect("a portal of the manifest")
}

fn pinned(driver: &Driver, arena: Portal, page: u32) -> u32 {
    let mut frame = [0];
    driver.pin(arena, &[page], &mut frame, &[]).expect("pinned");
    frame[0]
}

/// The device holds the pattern.
fn load(device: &Device, piece: &Piece) {
    (0..8).for_each(|i| piece.write(i * 8, PATTERN));
    device.read(piece.physical(0));
}

fn honest(device: &Device, piece: &Piece) {
    load(device, piece);
    device.write(piece.physical(2048));
    assert_eq!(piece.read::<u64>(2048 + 56), PATTERN);
    assert_eq!(piece.read::<u64>(2048 + 64), 0);
    log!("the device reaches its driver's memory");
}

/// Whether the device is kept from a page that it had.
fn given_back(device: &Device, driver: &Driver, victim: &Victim, arena: Portal) -> bool {
    let frame = pinned(driver, arena, 0);
    assert!(victim.is_intact());
    device.write(u64::from(frame) * PAGE);
    assert!(!victim.is_intact(), "pinned for the device");
    driver.unpin(&[frame]).expect("unpinned");
    device.write(u64::from(frame) * PAGE);
    victim.is_intact()
}

/// A page of the victim's is given back while the device has it, and somebody else has its frame when the device writes again.
fn next_owner(device: &Device, driver: &Driver, victim: &Victim, arena: Portal) {
    let own = Portal(native_slot::VM);
    for _ in 0..TRIES {
        let frame = pinned(driver, arena, 0);
        victim.ask(GIVE_BACK);
        driver.unpin(&[frame]).expect("unpinned");
        let mine = memory::map(PAGES * PAGE as usize).expect("memory");
        mine.fill(1);
        device.write(u64::from(frame) * PAGE);
        assert!(black_box(&mut *mine).iter().all(|&byte| byte == 1));
        let client = vm::Client(&own);
        let shared = client.dma_share(mine.as_ptr() as u64, mine.len() as u64);
        let shared = Portal(shared.expect("shared").slot());
        let has = (0..PAGES as u32).any(|page| {
            let found = pinned(driver, shared, page);
            driver.unpin(&[found]).expect("unpinned");
            found == frame
        });
        memory::release(mine).expect("given back");
        shared.close();
        // The victim has its page again.
        victim.is_intact();
        if has {
            log!("a frame's next owner has it as it was");
            return;
        }
    }
}

fn main() -> ! {
    let pci = portal("pci");
    let bus = pci::Client(&pci);
    let window = bus.window(0).expect("its window");
    let registers = Registers::shown(window.address, window.length).expect("registers");
    let receiver = Receiver::create().expect("a channel");
    let device = Device {
        registers,
        receiver,
    };
    let driver = Driver::begin(portal("dma")).expect("a driver");
    let piece = driver.piece().expect("memory");
    bus.master(true).expect("a master");
    let victim = Victim(portal("victim"));
    let answer = victim.0.call_for(Message::new(&[SHARE]), 1);
    let arena = Portal(answer.expect("its page")[7] as u32);

    honest(&device, &piece);
    if !given_back(&device, &driver, &victim, arena) {
        log!("without an IOMMU the device wrote to memory that was given back");
        cairn_rt::start::exit(0);
    }
    log!("memory that was given back was kept from the device");
    next_owner(&device, &driver, &victim, arena);

    // What it cannot write it cannot read.
    let frame = pinned(&driver, arena, 0);
    driver.unpin(&[frame]).expect("unpinned");
    load(&device, &piece);
    device.read(u64::from(frame) * PAGE);
    device.write(piece.physical(1024));
    assert_ne!(piece.read::<u8>(1024), 0x5a, "the victim's content");
    log!("the device could not read it either");

    // The nucleus, page tables, programs: whatever is there.
    load(&device, &piece);
    let inside = |at| at / PAGE == piece.physical(0) / PAGE;
    let places = (0..MEMORY).step_by(STEP as usize);
    let near = [piece.physical(0) - PAGE, piece.physical(0) + 65536, 1 << 20];
    let mut count = 0;
    for at in places.chain(near).filter(|&at| !inside(at)) {
        device.write(at);
        count += 1;
    }
    assert!(victim.is_intact());
    log!("{count} writes all over memory reached nobody");

    // It says that its device was reset, which is not true.
    bus.master(true).expect("a master");
    let vm = portal("dma");
    vm::Client(&vm).dma_begin().expect("again");
    piece.write(0, 7u64);
    device.write(piece.physical(0));
    assert_eq!(piece.read::<u64>(0), 7);
    log!("the lie was of no use");
    cairn_rt::start::exit(0)
}
