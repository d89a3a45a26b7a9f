//! Hasty handlers that reach device registers, and rings in their drivers' memory.

use super::hasty::*;
use super::*;
use cairn_abi::hasty::{operation as op, reason, shared, Step, REGISTERS, RING};
use cairn_abi::service::interrupt;
use cairn_abi::service::memory::{map, prot};

/// What INSTALL is told more, the driver's ring, and its registers with the frame that they have.
const MORE: u64 = BUFFER + 0x900;
const RING_AT: u64 = BUFFER + 0x2000;
const DEVICE_AT: u64 = 0x7000_0000;
const DEVICE_FRAME: u32 = 0xf_d000;

fn tell_more(d: &mut Driver, registers: u64, ring: u64, priority: u64) {
    let bytes: Vec<u8> = [registers, ring, priority]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    d.w.poke_memory(d.dom, MORE, &bytes);
    d.more = MORE;
}

fn show_device(d: &mut Driver) {
    let bits = prot::READ | prot::WRITE | prot::DEVICE | map::IO;
    let words = [d.dom.space as u64, DEVICE_AT, DEVICE_FRAME as u64, 1, bits];
    d.w.recall();
    d.w.memory(memory::MAP, &words);
    d.w.rest();
}

fn word(d: &mut Driver, at: u64) -> u32 {
    let bytes = d.w.peek_memory(d.dom, RING_AT + at, 4);
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The bytes in the ring that were not taken; they are from now on.
fn empty(d: &mut Driver) -> Vec<u8> {
    let (head, tail) = (word(d, shared::HEAD), word(d, shared::TAIL));
    let mut all = Vec::new();
    for n in 0..head.wrapping_sub(tail) {
        let place = tail.wrapping_add(n) as u64 % RING as u64;
        all.extend(d.w.peek_memory(d.dom, RING_AT + shared::BYTES + place, 1));
    }
    say_taken(d, head);
    all
}

fn say_taken(d: &mut Driver, tail: u32) {
    d.w.poke_memory(d.dom, RING_AT + shared::TAIL, &tail.to_le_bytes());
}

fn with_ring() -> Driver {
    let mut d = driver();
    tell_more(&mut d, 0, RING_AT, 255);
    d.install(&receive(), [1, 1024, 0]);
    d
}

#[test]
fn a_ring_in_the_drivers_memory_is_emptied_without_the_nucleus() {
    let mut d = with_ring();
    let mut expected = Vec::new();
    for round in 0..300u32 {
        let text: Vec<u8> = (0..40).map(|i| (round + i) as u8 | 0x80).collect();
        typed(&mut d, &text);
        expected.extend(&text);
        assert!(d.sleeps(), "it is emptied before it is full enough to wake");
        if round % 20 == 7 {
            let got = empty(&mut d);
            assert_eq!(got, expected);
            expected.clear();
        }
    }
    typed(&mut d, b"\n");
    assert_eq!(d.woken().1, reason::BYTE);
    let (t, irq) = (d.t, d.irq);
    assert_eq!(d.w.err(t, irq, interrupt::TAKE, &[TAKEN, 1]), Error::Busy);
}

#[test]
fn a_driver_that_says_nonsense_loses_its_bytes_and_nobody_elses() {
    let mut d = with_ring();
    typed(&mut d, b"some");
    for nonsense in [5, 0x8000_0000, u32::MAX - RING as u32] {
        say_taken(&mut d, nonsense);
        let before = d.w.k.arch.port_accesses;
        d.feed(STATUS, &[0x61]);
        d.interrupt();
        assert_eq!(d.w.k.arch.port_accesses, before, "the ring counts as full");
        assert_eq!(d.woken().1 & reason::HANDED_OVER, reason::HANDED_OVER);
        let (t, irq) = (d.t, d.irq);
        d.w.ok(t, irq, interrupt::ACKNOWLEDGE, &[]);
        d.wait();
    }
    d.w.k.arch.port_reads.clear();
    say_taken(&mut d, 4);
    typed(&mut d, b"more\n");
    assert_eq!(d.woken().1, reason::BYTE);
    assert_eq!(empty(&mut d), b"more\n");
}

#[test]
fn a_ring_that_the_driver_gave_away_is_not_written() {
    let mut d = with_ring();
    d.w.recall();
    let frame = d.w.memory(memory::QUERY, &[d.dom.space as u64, RING_AT])[0] as u32;
    d.w.memory(memory::UNMAP, &[d.dom.space as u64, RING_AT, 1]);
    d.w.rest();
    d.w.k.arch.frame(frame).fill(0x77);
    d.feed(STATUS, &[0x61]);
    d.interrupt();
    assert_eq!(d.woken().1, reason::HANDED_OVER);
    assert!(d.w.k.arch.frame(frame).iter().all(|&byte| byte == 0x77));
    // Nor one that it may only read.
    let mut d = with_ring();
    d.w.recall();
    d.w.memory(
        memory::PROTECT,
        &[d.dom.space as u64, RING_AT, 1, prot::READ],
    );
    d.w.rest();
    d.interrupt();
    assert_eq!(d.woken().1, reason::HANDED_OVER);
}

#[test]
fn a_pause_with_nothing_left_in_the_drivers_ring_wakes_nobody() {
    let mut d = driver();
    tell_more(&mut d, 0, RING_AT, 255);
    d.install(&receive(), [1, 512, 1_000_000]);
    typed(&mut d, b"abc");
    assert_eq!(empty(&mut d), b"abc");
    d.w.pass_time(2_000_000);
    assert!(d.sleeps());
    typed(&mut d, b"abc");
    d.w.pass_time(2_000_000);
    assert_eq!(d.woken().1, reason::PAUSE);
}

fn register(operation: u8, at: u16, width: u8) -> Step {
    Step {
        operation: operation | REGISTERS,
        width,
        port: at,
        ..Step::NONE
    }
}

#[test]
fn registers_are_read_kept_and_written() {
    let mut d = driver();
    show_device(&mut d);
    tell_more(&mut d, DEVICE_AT, 0, 255);
    let keep = Step {
        mask: 0xff00,
        value: 5,
        ..register(op::KEEP, 0x24, 4)
    };
    let take = Step {
        count: 3,
        ..register(op::TAKE, 0x81, 1)
    };
    let steps = [
        register(op::READ, 0x20, 4),
        keep,
        register(op::WRITE, 0x2e, 2),
        take,
    ];
    d.install(&steps, [1, 3, 0]);
    let reads = &mut d.w.k.arch.device_reads;
    reads.insert((DEVICE_FRAME, 0x20), [0xabcd_ef01].into());
    reads.insert(
        (DEVICE_FRAME, 0x81),
        [b'a' as u32, b'b' as u32, b'c' as u32].into(),
    );
    d.interrupt();
    assert_eq!(d.woken(), (1, reason::THRESHOLD, 0xabcd_ef01));
    let expected = [(DEVICE_FRAME, 0x24, 0xef05), (DEVICE_FRAME, 0x2e, 0)];
    assert_eq!(d.w.k.arch.device_writes, expected);
    assert_eq!(d.take(), b"abc");
    assert!(d.w.k.arch.port_writes.is_empty());
}

#[test]
fn registers_are_the_drivers_own_or_none() {
    let mut d = driver();
    show_device(&mut d);
    let one = [1, 16, 0];
    let read = |at, width| [register(op::READ, at, width)];
    assert_eq!(
        d.try_install(&read(0, 4), one),
        Err(Error::BadArgument),
        "none were named"
    );
    tell_more(&mut d, DEVICE_AT, 0, 255);
    for (at, width) in [
        (0xffd, 4),
        (2, 4),
        (1, 2),
        (4096, 1),
        (0xffff, 1),
        (0, 3),
        (0, 0),
    ] {
        assert_eq!(
            d.try_install(&read(at, width), one),
            Err(Error::BadArgument),
            "{at}"
        );
    }
    for (at, width) in [(0xffc, 4), (0xffe, 2), (0xfff, 1)] {
        assert_eq!(d.try_install(&read(at, width), one), Ok(()), "{at}");
    }
    let done = [Step::plain(op::DONE)];
    assert_eq!(
        d.try_install(&[Step::plain(op::DONE | REGISTERS)], one),
        Err(Error::BadArgument)
    );
    // Memory is no register, nor is what is not there or not to be written; and registers are no place for a ring.
    for registers in [BUFFER, DEVICE_AT + 4096, !4095] {
        tell_more(&mut d, registers, 0, 255);
        assert_eq!(
            d.try_install(&done, one),
            Err(Error::BadAddress),
            "{registers:#x}"
        );
    }
    for (registers, ring, priority) in [(DEVICE_AT + 4, 0, 0), (0, RING_AT + 8, 0), (0, 0, 256)] {
        tell_more(&mut d, registers, ring, priority);
        assert_eq!(d.try_install(&done, one), Err(Error::BadArgument));
    }
    for ring in [DEVICE_AT, 0x5000] {
        tell_more(&mut d, 0, ring, 255);
        assert_eq!(
            d.try_install(&done, one),
            Err(Error::BadAddress),
            "{ring:#x}"
        );
    }
    // A list without ports needs no portal to some.
    tell_more(&mut d, DEVICE_AT, RING_AT, 7);
    d.ports = AUTO as u32;
    assert_eq!(d.try_install(&read(0, 4), one), Ok(()));
    let port = Step {
        width: 1,
        port: DATA,
        ..Step::plain(op::READ)
    };
    assert_eq!(d.try_install(&[port], one), Err(Error::BadArgument));
}
