//! Both sides against each other, and each against one that lies; the device is a list.

use crate::client::{Bell, Client, Frame, Refused};
use crate::rings::{self, EMPTY, FILLED, SEND, SENT};
use crate::serve::{Server, System};
use crate::{Chip, Cut, Filled, Info, Offload, Told, BUFFER, HEAD};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::errno::{EBUSY, EFAULT, EINVAL, ENXIO};
use cairn_idl::fake::Sent;
use cairn_idl::link::{Server as _, BADGE_SESSION_FIRST};
use cairn_idl::wire::Errno;
use cairn_queue::{Part, Receiver, Sender};
use core::cell::RefCell;
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

const PAGE: u64 = 4096;

#[derive(Clone)]
struct Memory(Rc<Vec<AtomicU64>>);

impl Deref for Memory {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

const INFO: Info = Info {
    mac: [2, 0, 0, 0, 0, 7],
    mtu: 1500,
    up: true,
    sums_out: true,
    sums_in: true,
    segments: [true, false],
    head: HEAD as u32,
    buffers: 32,
};

/// A device with room for 32 buffers.
#[derive(Default)]
struct FakeChip {
    lent: VecDeque<(u32, u64)>,
    filled: VecDeque<(u32, u32)>,
    sending: VecDeque<(usize, Vec<(u64, u32)>)>,
    sent: VecDeque<usize>,
    restarts: u32,
    armed: bool,
    full: bool,
    right: bool,
}

fn whole(buffer: u32, length: u32) -> Filled {
    Filled {
        buffer,
        length,
        right: false,
    }
}

impl Chip for FakeChip {
    fn info(&self) -> Info {
        INFO
    }
    fn restart(&mut self) -> bool {
        *self = FakeChip {
            restarts: self.restarts + 1,
            ..FakeChip::default()
        };
        true
    }
    fn room(&self) -> usize {
        32 - self.lent.len()
    }
    fn with_device(&self) -> usize {
        self.lent.len()
    }
    fn lend(&mut self, buffer: u32, address: u64) -> bool {
        assert!(self.lent.iter().all(|one| one.0 != buffer), "once");
        self.lent.push_back((buffer, address));
        true
    }
    fn filled(&mut self) -> Option<Filled> {
        let (buffer, length) = self.filled.pop_front()?;
        Some(Filled {
            right: self.right,
            ..whole(buffer, length)
        })
    }
    fn takes(&self) -> bool {
        !self.full
    }
    fn send(&mut self, number: usize, _: &Offload, pieces: &[(u64, u32)]) -> bool {
        let free = self.sending.iter().all(|one| one.0 != number);
        if free {
            self.sending.push_back((number, pieces.to_vec()));
        }
        free
    }
    fn sent(&mut self) -> Option<usize> {
        self.sent.pop_front()
    }
    fn on_the_way(&self) -> usize {
        self.sending.len()
    }
    fn kick(&mut self) {}
    fn arm(&mut self, filled: bool, _: u16) -> bool {
        self.armed = filled;
        !self.filled.is_empty() && filled
    }
    fn disarm(&mut self) {
        self.armed = false;
    }
    fn hush(&mut self) {}
    fn interrupts(&self) -> Told {
        Told::Messages(1)
    }
    fn is_broken(&mut self) -> bool {
        false
    }
    fn has_changed(&mut self) -> bool {
        false
    }
}

impl FakeChip {
    /// A frame comes.
    fn fill(&mut self, length: u32) -> bool {
        let lent = self.lent.pop_front();
        if let Some((buffer, _)) = lent {
            self.filled.push_back((buffer, length));
        }
        lent.is_some()
    }

    fn send_all(&mut self) {
        self.sent
            .extend(self.sending.drain(..).map(|(number, _)| number));
    }
}

#[derive(Clone, Default)]
struct FakeSystem(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    memory: Option<Memory>,
    rung: Vec<u64>,
    closed: Vec<u32>,
    pinned: Vec<u32>,
    missing: Option<u32>,
}

impl System for FakeSystem {
    type Memory = Memory;
    fn rings(&mut self, words: usize) -> Option<(Memory, u32)> {
        let memory = Memory(Rc::new((0..words).map(|_| AtomicU64::new(0)).collect()));
        self.0.borrow_mut().memory = Some(memory.clone());
        Some((memory, 90))
    }
    fn portal(&mut self, _: u64) -> Option<u32> {
        Some(91)
    }
    fn notify(&mut self, portal: u32, bits: u64) {
        assert_eq!(portal, 7);
        self.0.borrow_mut().rung.push(bits);
    }
    fn close(&mut self, portal: u32) {
        self.0.borrow_mut().closed.push(portal);
    }
    /// Page n's frame is 1,000 + 2n, so none are in a row but within a page.
    fn pin(&mut self, _: u32, pages: &[u32], frames: &mut [u32]) -> bool {
        let mut state = self.0.borrow_mut();
        if pages.iter().any(|&page| Some(page) == state.missing) {
            return false;
        }
        for (frame, page) in frames.iter_mut().zip(pages) {
            *frame = 1000 + 2 * page;
        }
        state.pinned.extend_from_slice(frames);
        true
    }
    fn unpin(&mut self, frames: &[u32]) {
        self.0
            .borrow_mut()
            .pinned
            .retain(|frame| !frames.contains(frame));
    }
}

type Driver = Server<FakeChip, FakeSystem>;

fn driver() -> (Driver, FakeSystem) {
    let system = FakeSystem::default();
    (Server::new(FakeChip::default(), system.clone()), system)
}

fn attach(driver: &mut Driver, pages: u32) -> Result<(), Errno> {
    driver.attach(&Sent::through(0), pages, 7, 8).map(|_| ())
}

/// Both ends, with 40 buffers and 20 pages to send from.
fn both() -> (Driver, Client<Memory>, FakeSystem) {
    let (mut driver, system) = driver();
    attach(&mut driver, 40).expect("a session");
    let mut client = Client::new(INFO, 40);
    client.begin(memory(&system)).expect("rings");
    (driver, client, system)
}

fn memory(system: &FakeSystem) -> Memory {
    system.0.borrow().memory.clone().expect("rings were made")
}

/// A head that says: so many buffers.
fn head(buffers: u16) -> impl Fn(u16) -> [u8; HEAD] {
    move |_| {
        let mut head = [0; HEAD];
        head[10..].copy_from_slice(&buffers.to_le_bytes());
        head
    }
}

fn take(client: &mut Client<Memory>) -> Option<Frame> {
    client.received(head(1)).0
}

#[test]
fn buffers_go_round() {
    let (mut driver, mut client, system) = both();
    driver.pump();
    assert_eq!(driver.chip.with_device(), 32, "as many as it takes");
    // Buffer n begins in the middle of a page, or at its beginning.
    let lent: Vec<_> = driver.chip.lent.iter().copied().collect();
    for (buffer, address) in lent {
        let (page, half) = (u64::from(buffer / 2), u64::from(buffer % 2));
        assert_eq!(address, (1000 + 2 * page) * PAGE + half * BUFFER as u64);
    }
    assert_eq!(take(&mut client), None);
    for round in 0..200u32 {
        for _ in 0..=round % 32 {
            assert!(driver.chip.fill(72 + round));
        }
        system.0.borrow_mut().rung.clear();
        driver.pump();
        assert_eq!(system.0.borrow().rung, [1], "the reader sleeps, once");
        for _ in 0..=round % 32 {
            let frame = take(&mut client).expect("a frame");
            assert_eq!(frame.length(), 60 + round as usize);
            assert_eq!(frame.parts().next().map(|part| part.1), Some(HEAD));
            client.give_back(&frame);
            client.give_back(&frame);
        }
        assert_eq!(take(&mut client), None);
        driver.pump();
        assert_eq!(driver.chip.with_device(), 32);
    }
    assert_eq!(client.tally.received, driver.counts.received);
}

#[test]
fn a_reader_that_sleeps_on_costs_the_device_its_buffers_and_nothing_else() {
    let (mut driver, mut client, _) = both();
    driver.pump();
    let mut came = 0;
    for _ in 0..1000 {
        came += u32::from(driver.chip.fill(100));
        driver.pump();
    }
    assert_eq!(came, 40);
    assert!(driver.counts.empty > 0);
    let mut taken = 0;
    while let Some(frame) = take(&mut client) {
        client.give_back(&frame);
        taken += 1;
    }
    assert_eq!(taken, 40);
    driver.pump();
    assert_eq!(driver.chip.with_device(), 32);
}

#[test]
fn without_a_head_the_driver_says_which_sums_are_right() {
    let (mut driver, system) = driver();
    attach(&mut driver, 40).expect("a session");
    let info = Info { head: 0, ..INFO };
    let mut client = Client::new(info, 40);
    client.begin(memory(&system)).expect("rings");
    driver.pump();
    for (length, right) in [
        (60, true),
        (2048, false),
        (0, true),
        (5000, true),
        (61, true),
    ] {
        driver.chip.fill(length);
        driver.chip.right = right;
        driver.pump();
    }
    let mut take = || client.received(|_| [0xff; HEAD]).0;
    for (length, right) in [(60, true), (2048, false), (61, true)] {
        let frame = take().expect("a frame");
        assert_eq!((frame.length(), frame.right), (length, right));
        assert_eq!(frame.parts().next().map(|part| part.1), Some(0));
        assert!(!frame.missing);
    }
    assert_eq!(take(), None);
    assert_eq!((client.tally.damaged, driver.counts.wrong_in), (2, 2));
}

#[test]
fn what_a_full_device_does_not_take_waits() {
    let (mut driver, mut client, _) = both();
    driver.chip.full = true;
    let plain = Offload::default();
    client.send(&[(0, 60)], &plain).expect("room");
    driver.pump();
    assert!(driver.chip.sending.is_empty());
    assert!(
        !driver.arm(true),
        "there is nothing to do until it takes some"
    );
    driver.chip.full = false;
    driver.pump();
    assert_eq!(driver.chip.sending.len(), 1);
    driver.chip.send_all();
    driver.pump();
    assert_eq!(client.sent(true).0, Some(0));
}

#[test]
fn frames_leave_in_pieces_that_the_device_reaches() {
    let (mut driver, mut client, system) = both();
    // One that crosses a page, whose neighbours are not in a row, and one in a page.
    let pieces = [(4000, 200), (8192, 500)];
    let (number, bell) = client.send(&pieces, &Offload::default()).expect("room");
    assert_eq!(bell, Bell::Quiet, "the driver is awake");
    driver.pump();
    let (told, sent) = driver.chip.sending[0].clone();
    assert_eq!(told, number as usize);
    let expected = [
        (1000 * PAGE + 4000, 96),
        (1002 * PAGE, 104),
        (1004 * PAGE, 500),
    ];
    assert_eq!(sent, expected);
    assert_eq!(client.sent(true), (None, Bell::Quiet));
    driver.chip.send_all();
    driver.pump();
    assert_eq!(system.0.borrow().rung, [1]);
    assert_eq!(client.sent(true).0, Some(number));
    assert_eq!((client.sent(false).0, client.on_the_way()), (None, 0));
    // A driver that sleeps is told.
    assert!(!driver.arm(true) && driver.chip.armed);
    let (_, bell) = client.send(&pieces, &Offload::default()).expect("room");
    assert_eq!(bell, Bell::Ring);
}

#[test]
fn as_many_as_there_are_numbers_are_on_their_way() {
    let (mut driver, mut client, _) = both();
    let plain = Offload::default();
    let mut pieces = [(0, 100); 20];
    pieces[19] = (0, 60);
    for round in 0..3 {
        for _ in 0..256 {
            assert!(client.send(&pieces[19..], &plain).is_ok(), "{round}");
        }
        assert_eq!(client.send(&pieces[..1], &plain), Err(Refused::Full));
        while driver.pump() > 0 {}
        driver.chip.send_all();
        driver.pump();
        assert_eq!(core::iter::from_fn(|| client.sent(true).0).count(), 256);
    }
    assert!(client.send(&pieces[..15], &plain).is_ok());
    let sum = Offload {
        sum: true,
        sum_start: 34,
        sum_at: 16,
        cut: Cut::Tcp4,
        segment: 1448,
        headers: 66,
    };
    assert!(client.send(&pieces, &sum).is_ok());
    for wrong in [
        Offload {
            cut: Cut::Tcp6,
            ..sum
        },
        Offload { sum: false, ..sum },
        Offload { segment: 0, ..sum },
        Offload {
            headers: 2000,
            ..sum
        },
        Offload {
            sum_start: 1959,
            ..sum
        },
    ] {
        assert_eq!(client.send(&pieces, &wrong), Err(Refused::Invalid));
    }
}

#[test]
fn what_travels_is_what_was_said() {
    let offload = Offload {
        sum: true,
        sum_start: 34,
        sum_at: 16,
        cut: Cut::Tcp6,
        segment: 1440,
        headers: 86,
    };
    for count in 1..=20usize {
        let given: Vec<_> = (0..count as u32).map(|i| (i * 5000, i + 1)).collect();
        let (mut list, mut pieces) = ([0; rings::LIST], [(0, 0); 20]);
        let (words, data) = rings::send(201, &offload, &given, &mut list);
        let message = cairn_queue::Message {
            words,
            data: data.len(),
        };
        let told = rings::to_send(&message, data, &mut pieces);
        assert_eq!(told, Some((201, offload, count)));
        assert_eq!(pieces[..count], given);
        let other = cairn_queue::Message {
            words: [words[0] + (1 << 16), words[1], words[2], words[3]],
            ..message
        };
        assert_eq!(
            rings::to_send(&other, data, &mut pieces).is_some(),
            count == 1
        );
    }
}

#[test]
fn frames_in_several_buffers_are_put_together_or_thrown_away() {
    let (mut driver, mut client, _) = both();
    driver.pump();
    for length in [2048, 2048, 900, 100, 80] {
        driver.chip.fill(length);
    }
    driver.pump();
    let frame = client.received(head(3)).0.expect("a frame");
    assert_eq!(frame.length(), 2036 + 2048 + 900);
    client.give_back(&frame);
    // Two more came, and it says three; or none, or more than there can be.
    assert_eq!(client.received(head(3)).0, None);
    for says in [0, 6, 65_535] {
        driver.pump();
        driver.chip.fill(100);
        driver.pump();
        assert_eq!(client.received(head(says)).0, None);
    }
    assert_eq!((client.tally.received, client.tally.damaged), (1, 4));
    driver.pump();
    assert_eq!(driver.chip.with_device(), 32, "none got lost");
}

#[test]
fn a_successor_gets_all_buffers_and_what_did_not_leave() {
    let (mut driver, mut client, _) = both();
    driver.pump();
    driver.chip.fill(100);
    driver.pump();
    let held = take(&mut client).expect("a frame");
    let plain = Offload::default();
    let first = client.send(&[(0, 60)], &plain).expect("room").0;
    let second = client.send(&[(4096, 70)], &plain).expect("room").0;
    driver.pump();
    driver.chip.sent.push_back(first as usize);
    driver.chip.sending.pop_front();
    driver.pump();
    assert_eq!(client.sent(false).0, Some(first));
    client.pause();
    let third = client.send(&[(8192, 80)], &plain).expect("room").0;
    assert_eq!(client.received(head(1)).0, None);
    let (mut next, system) = self::driver();
    attach(&mut next, 40).expect("a session");
    client.begin(memory(&system)).expect("rings");
    next.pump();
    assert_eq!(next.chip.with_device(), 32);
    let held_buffer = held.parts().next().expect("a part").0;
    assert!(next.chip.lent.iter().all(|one| one.0 != held_buffer.into()));
    let sent: Vec<_> = next.chip.sending.iter().map(|one| one.0).collect();
    let mut expected = vec![second as usize, third as usize];
    expected.sort_unstable();
    assert_eq!(sent, expected);
    client.give_back(&held);
}

#[test]
fn one_reader_at_a_time_and_the_device_forgets_it() {
    let (mut driver, system) = driver();
    assert_eq!(attach(&mut driver, 0), Err(EINVAL));
    assert_eq!(attach(&mut driver, 4097), Err(EINVAL));
    system.0.borrow_mut().missing = Some(600);
    assert_eq!(attach(&mut driver, 700), Err(EFAULT));
    assert!(system.0.borrow().pinned.is_empty());
    attach(&mut driver, 40).expect("a session");
    assert_eq!(attach(&mut driver, 40), Err(EBUSY));
    assert_eq!(
        driver.info(&Sent::through(BADGE_SESSION_FIRST + 1)).err(),
        Some(ENXIO)
    );
    assert!(driver.info(&Sent::through(BADGE_SESSION_FIRST)).is_ok());
    driver.closed(BADGE_SESSION_FIRST + 1);
    assert!(driver.has_session());
    driver.closed(BADGE_SESSION_FIRST);
    assert!(!driver.has_session() && driver.chip.restarts == 1);
    assert!(system.0.borrow().pinned.is_empty());
    attach(&mut driver, 40).expect("another one");
}

/// The ends that a hostile reader has.
type Ends = (
    Sender<Part<Memory>>,
    Receiver<Part<Memory>>,
    Sender<Part<Memory>>,
    Receiver<Part<Memory>>,
);

fn hostile() -> (Driver, Ends, Memory) {
    let (mut driver, system) = driver();
    attach(&mut driver, 40).expect("a session");
    let memory = memory(&system);
    let [empty, filled, send, sent] = rings::split(memory.clone()).expect("room");
    let ends = (
        Sender::new(empty, EMPTY).expect("ring"),
        Receiver::new(filled, FILLED).expect("ring"),
        Sender::new(send, SEND).expect("ring"),
        Receiver::new(sent, SENT).expect("ring"),
    );
    (driver, ends, memory)
}

#[test]
fn a_reader_that_lies_loses_its_session() {
    let over = |act: fn(&mut Ends, &Memory)| {
        let (mut driver, mut ends, memory) = hostile();
        driver.pump();
        act(&mut ends, &memory);
        driver.pump();
        let over = !driver.has_session();
        assert_eq!(driver.chip.restarts, u32::from(over));
        over
    };
    fn give(ends: &mut Ends, words: [u64; 4]) {
        let _ = ends.0.send(words, &[]);
    }
    // Twice, beyond the arena, far beyond.
    assert!(over(|ends, _| give(ends, rings::empty(&[3, 3]))));
    assert!(over(|ends, _| give(ends, rings::empty(&[80]))));
    assert!(over(|ends, _| give(ends, [u64::from(u32::MAX), 0, 0, 0])));
    assert!(!over(|ends, _| give(ends, rings::empty(&[79]))));
    // Frames: no pieces, pieces that are empty, beyond the arena, at the end of numbers; a number that there is not, and one twice.
    fn frame(ends: &mut Ends, number: u16, pieces: &[(u32, u32)]) {
        let mut list = [0; rings::LIST];
        let (words, data) = rings::send(number, &Offload::default(), pieces, &mut list);
        let _ = ends.2.send(words, data);
    }
    assert!(over(|ends, _| frame(ends, 0, &[])));
    assert!(over(|ends, _| frame(ends, 0, &[(0, 0)])));
    assert!(over(|ends, _| frame(ends, 0, &[(40 * 4096 - 10, 60)])));
    assert!(over(|ends, _| frame(ends, 0, &[(u32::MAX - 10, 60)])));
    assert!(over(|ends, _| frame(ends, 0, &[(0, u32::MAX)])));
    assert!(over(|ends, _| frame(ends, 256, &[(0, 60)])));
    assert!(over(|ends, _| {
        frame(ends, 3, &[(0, 60)]);
        frame(ends, 3, &[(0, 60)]);
    }));
    assert!(!over(|ends, _| frame(ends, 255, &[(0, 60)])));
    // What cannot leave comes back, and is counted.
    assert!(!over(|ends, _| frame(ends, 1, &[(0, 3000)])));
    // Counts that cannot be.
    assert!(over(
        |_, memory| memory[0].store(5000, core::sync::atomic::Ordering::Relaxed)
    ));
}

#[test]
fn a_driver_that_lies_brings_nothing_that_it_does_not_have() {
    let (_, _, system) = both();
    let memory = memory(&system);
    let mut client = Client::new(INFO, 40);
    client.begin(memory.clone()).expect("rings");
    let [_, filled, _, sent] = rings::split(memory).expect("room");
    let (mut filled, mut sent) = (
        Sender::new(filled, FILLED).expect("ring"),
        Sender::new(sent, SENT).expect("ring"),
    );
    let list = [(3, 100), (3, 100), (40, 100), (9, 4000), (4, 5)];
    let list: Vec<u32> = list
        .iter()
        .map(|&(b, l)| rings::one_filled(&whole(b, l)))
        .collect();
    filled.send(rings::filled(&list), &[]).expect("room");
    let frame = take(&mut client).expect("the first one");
    assert_eq!(frame.parts().next(), Some((3, HEAD, 88)));
    assert_eq!(take(&mut client), None, "too short for a head, and others");
    sent.send(rings::sent(&[0, 7, 255]), &[]).expect("room");
    sent.send([u64::MAX; 4], &[]).expect("room");
    assert_eq!(client.sent(true).0, None, "nothing was sent");
    client.give_back(&frame);
    assert!(client.is_running());
}
