//! A reader of a link to the tool's station (xtask/src/wire/station.rs): echoes whose bytes are known by number, a flood, damaged frames; and echoes again and again until the driver has died three times.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::layout::native_slot;
use cairn_abi::received;
use cairn_idl::errno::{EBUSY, EFAULT, EINVAL, ENOSYS, ENXIO};
use cairn_idl::link::{self, Way};
use cairn_idl::wire::Failure;
use cairn_link::client::Refused;
use cairn_link::native::Link;
use cairn_link::{Cut, Offload};
use cairn_rt::{log, startup, time, Message, Portal, Receiver};

cairn_rt::entry!(main);

const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));
const BADGE: u64 = 5;
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 1];
const KIND: [u8; 2] = [0x88, 0xb5];
const HEADER: usize = 14;
/// What the station knows.
const ECHO: u8 = 1;
const FLOOD: u8 = 2;
const END: u8 = 3;
const DAMAGED: u8 = 4;
const OTHERS: u8 = 5;
const SUMS: u8 = 6;
const IPV4: [u8; 2] = [8, 0];
/// A datagram's header of IP behind Ethernet's, its own, and where its sum is in that; and bytes altogether.
const IP: usize = 20;
const UDP_SUM: usize = 6;
const DATAGRAM: usize = 70;

const RECEIVE_PAGES: usize = 96;
/// A page for each frame on its way.
const SEND_PAGES: usize = 64;
const PAGE: usize = 4096;
const ROUND: u32 = 2000;
/// Echoes on their way, and how long one may take before it counts as lost.
const AT_ONCE: usize = 24;
const SECOND: u64 = 1_000_000_000;
const PATIENCE: u64 = SECOND;
const FLOODED: u32 = 3000;

fn portal(name: &str) -> Portal {
    startup::portal(name).expect("a portal of the manifest")
}

fn errno<T>(result: Result<T, Failure>) -> i64 {
    match result {
        Err(Failure::Refused(errno)) => errno,
        _ => 0,
    }
}

struct Game {
    link: Link,
    /// Pages that frames may be made in, and whose they are on the way.
    free: Vec<usize>,
    pages: [usize; 256],
    drivers: u64,
}

/// The sum of RFC 1071, not inverted.
fn sum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2);
    let words =
        pairs.map(|pair| u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from));
    let whole: u32 = words.sum();
    let folded = (whole & 0xffff) + (whole >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// What a datagram's sum counts beside itself.
fn pseudo(packet: &[u8]) -> u16 {
    let length = (packet.len() - IP) as u16;
    let more = [[0, 17], length.to_be_bytes()].concat();
    sum(&[&packet[12..20], &more[..]].concat())
}

/// Byte `i` of an echo's body.
fn content(number: u32, i: usize) -> u8 {
    (number as usize * 7 + i * 13 + (i >> 8)) as u8
}

fn length(number: u32) -> usize {
    5 + (number as usize * 97) % 1490
}

impl Game {
    /// Send a frame to the station, in so many pieces. False: no room now.
    fn send(&mut self, body: &[u8], pieces: usize) -> bool {
        while let Some(number) = self.link.sent(false) {
            self.free.push(self.pages[number as usize]);
        }
        let Some(page) = self.free.pop() else {
            return false;
        };
        let mac = self.link.info().mac;
        let header: Vec<u8> = [&STATION[..], &mac, &KIND].concat();
        let space = &mut self.link.space()[page * PAGE..][..PAGE];
        space[..HEADER].copy_from_slice(&header);
        space[HEADER..][..body.len()].copy_from_slice(body);
        let (start, whole) = (self.link.place(page * PAGE), HEADER + body.len());
        let each = whole.div_ceil(pieces);
        let list: Vec<(u32, u32)> = (0..whole)
            .step_by(each)
            .map(|at| (start + at as u32, each.min(whole - at) as u32))
            .collect();
        match self.link.send(&list, &Offload::default()) {
            Ok(number) => {
                self.pages[number as usize] = page;
                true
            }
            Err(_) => {
                self.free.push(page);
                false
            }
        }
    }

    /// The body of the next frame from the station, if there is one now.
    fn take(&mut self) -> Option<Vec<u8>> {
        loop {
            let frame = self.link.received()?;
            let bytes: Vec<u8> = self.link.bytes(&frame).flatten().copied().collect();
            assert_eq!(bytes.len(), frame.length());
            self.link.give_back(&frame);
            if bytes.len() > HEADER && bytes[6..12] == STATION && bytes[12..14] == KIND {
                return Some(bytes[HEADER..].to_vec());
            }
        }
    }

    /// Sleep until something happens, at most until then.
    fn wait(&mut self, until: u64) {
        if let Ok(received) = CHANNEL.receive(Some(until)) {
            if received.kind == received::kind::PULSE && received.badge == BADGE {
                let before = self.link.tally().sessions;
                self.link.pulse(&received);
                self.drivers += self.link.tally().sessions - before;
            }
        }
    }

    /// The body of the next frame from the station.
    fn next(&mut self) -> Option<Vec<u8>> {
        let until = time::monotonic() + PATIENCE;
        while time::monotonic() < until {
            if let Some(body) = self.take() {
                return Some(body);
            }
            self.wait(until);
        }
        None
    }

    /// Echoes of numbers, several at a time, each whole and once. A frame that does not come back is sent again, as any protocol would; how many there were of these.
    fn echoes(&mut self, numbers: core::ops::Range<u32>) -> u32 {
        let (mut next, mut lost) = (numbers.start, 0);
        let mut open: Vec<(u32, u64)> = Vec::with_capacity(AT_ONCE);
        while next < numbers.end || !open.is_empty() {
            while open.len() < AT_ONCE && next < numbers.end && self.ask(next) {
                open.push((next, time::monotonic()));
                next += 1;
            }
            while let Some(body) = self.take() {
                assert!(body[0] == ECHO && body.len() >= 5, "an echo");
                let number = u32::from_le_bytes([body[1], body[2], body[3], body[4]]);
                let place = open.iter().position(|one| one.0 == number);
                // One that came twice, or after it was given up.
                let Some(place) = place else { continue };
                // Some devices send no frame that is too short for Ethernet.
                let whole = length(number);
                assert!(body.len() == whole || body.len() == whole.max(46));
                let right = (5..whole).all(|i| body[i] == content(number, i));
                assert!(right, "echo {number} is another one");
                open.swap_remove(place);
            }
            let now = time::monotonic();
            for (number, since) in &mut open {
                if now - *since > PATIENCE && self.ask(*number) {
                    *since = now;
                    lost += 1;
                }
            }
            if !open.is_empty() {
                self.wait(now + PATIENCE / 4);
            }
        }
        lost
    }

    fn ask(&mut self, number: u32) -> bool {
        let mut body = vec![0; length(number)];
        for (i, byte) in body.iter_mut().enumerate() {
            *byte = content(number, i);
        }
        body[0] = ECHO;
        body[1..5].copy_from_slice(&number.to_le_bytes());
        self.send(&body, 1 + number as usize % 20)
    }

    /// More frames than there are buffers: those that come are whole, and in order.
    fn flood(&mut self, count: u32) -> u32 {
        let [a, b, c, d] = count.to_le_bytes();
        let (low, high) = (700u16 as u8, (700u16 >> 8) as u8);
        assert!(self.send(&[FLOOD, a, b, c, d, low, high], 1));
        let (mut came, mut last) = (0, None);
        while let Some(body) = self.next() {
            if body[0] == END {
                break;
            }
            assert!(body[0] == FLOOD && body.len() == 700 - HEADER);
            let number = u32::from_le_bytes([body[1], body[2], body[3], body[4]]);
            assert!(last.is_none_or(|last| number > last), "in order, and once");
            let right = (5..body.len()).all(|i| body[i] == (i as u32 + number) as u8);
            assert!(right, "a frame of the flood is another one");
            last = Some(number);
            came += 1;
        }
        came
    }

    fn damaged(&mut self) {
        assert!(self.send(&[DAMAGED; 46], 2));
        while let Some(body) = self.next() {
            if body[0] == END {
                break;
            }
        }
        assert_eq!(self.echoes(0..50), 0);
    }

    /// Frames to a group that nobody asked for, to all, and to another station.
    fn others(&mut self) {
        assert!(self.send(&[OTHERS; 46], 1));
        let mut seen = [false; 3];
        while let Some(body) = self.next() {
            match body[..] {
                [OTHERS, number @ 1..=3, ..] => seen[usize::from(number) - 1] = true,
                _ => break,
            }
        }
        assert_eq!(seen, [true; 3]);
    }

    /// A datagram leaves with the sum that the device makes, if it does, and comes back: whole, and damaged. The device calls nothing right that is not.
    fn sums(&mut self) {
        let mut packet = [0u8; DATAGRAM];
        packet[..10].copy_from_slice(&[0x45, 0, 0, DATAGRAM as u8, 0, 1, 0, 0, 64, 17]);
        packet[12..20].copy_from_slice(&[10, 0, 0, 9, 10, 0, 0, 1]);
        let own = !sum(&packet[..IP]);
        packet[10..12].copy_from_slice(&own.to_be_bytes());
        packet[20..26].copy_from_slice(&[0, 9, 0, 9, 0, (DATAGRAM - IP) as u8]);
        for (i, byte) in packet[28..].iter_mut().enumerate() {
            *byte = content(1, i);
        }
        let info = self.link.info();
        let made = match info.sums_out {
            true => pseudo(&packet),
            false => !sum(&[&pseudo(&packet).to_be_bytes(), &packet[IP..]].concat()),
        };
        packet[IP + UDP_SUM..][..2].copy_from_slice(&made.to_be_bytes());
        let offload = Offload {
            sum: info.sums_out,
            sum_start: (HEADER + IP) as u16,
            sum_at: UDP_SUM as u16,
            ..Offload::default()
        };
        let page = self.free.pop().expect("room");
        let frame = [&STATION[..], &info.mac, &IPV4, &packet].concat();
        self.link.space()[page * PAGE..][..frame.len()].copy_from_slice(&frame);
        let piece = (self.link.place(page * PAGE), frame.len() as u32);
        let number = self.link.send(&[piece], &offload).expect("sent");
        self.pages[number as usize] = page;
        let until = time::monotonic() + PATIENCE;
        let (mut told, mut right, mut ended) = (false, [None; 2], false);
        while time::monotonic() < until && !ended {
            let Some(frame) = self.link.received() else {
                self.wait(until);
                continue;
            };
            let bytes: Vec<u8> = self.link.bytes(&frame).flatten().copied().collect();
            self.link.give_back(&frame);
            let Some(body) = bytes.get(HEADER..) else {
                continue;
            };
            if bytes[6..12] == STATION && bytes[12..14] == KIND && body[0] == SUMS {
                let (packet, whole) = (&body[1..][..DATAGRAM], sum(&packet[..IP]));
                let all = sum(&[&pseudo(packet).to_be_bytes(), &packet[IP..]].concat());
                assert_eq!((whole, all), (0xffff, 0xffff), "the sums are right");
                told = true;
            } else if bytes[6..12] == STATION && bytes[12..14] == KIND {
                ended = body[0] == END;
            } else if bytes[6..12] == STATION && bytes[12..14] == IPV4 {
                let place = usize::from(right[0].is_some());
                right[place] = Some(frame.right);
            }
        }
        assert!(told && ended && right[1] == Some(false));
        let whose = if info.sums_out {
            "the device's"
        } else {
            "its own"
        };
        log!("sums are right: {whose}; of what came the device saw {right:?}");
    }

    fn refused_frames(&mut self) {
        let place = self.link.place(0);
        let plain = Offload::default();
        let mut refuse = |pieces: &[(u32, u32)], offload: &Offload| {
            assert_eq!(self.link.send(pieces, offload), Err(Refused::Invalid));
        };
        refuse(&[], &plain);
        refuse(&[(place, 13)], &plain);
        refuse(&[(place, 1519)], &plain);
        refuse(&[(place, 60); 21], &plain);
        let cut = Offload {
            cut: Cut::Tcp4,
            ..plain
        };
        refuse(&[(place, 3000)], &cut);
    }
}

/// What the driver refuses without a session, and beside one.
fn refusals() {
    let (driver, other) = (portal("link"), portal("session"));
    let (client, session) = (link::Client(&driver), link::Client(&other));
    assert_eq!(errno(session.info()), ENXIO, "nobody's session");
    assert_eq!(errno(session.counts()), ENXIO);
    assert_eq!(errno(client.events(Way::Clock, 0)), EINVAL);
    assert_eq!(errno(client.events(Way::Hybrid, 2_000_000)), EINVAL);
    let answer = driver.call(Message::new(&[99])).expect("an answer");
    assert_eq!(answer[0] as i64, -ENOSYS);
    let answer = driver.call(Message::new(&[link::ATTACH]));
    assert_eq!(answer.expect("an answer")[0] as i64, -EINVAL, "no portals");
    // Some portal is no arena; no pages, and too many.
    for (pages, why) in [(1, EFAULT), (0, EINVAL), (4097, EINVAL)] {
        let some = || CHANNEL.make_portal(9).expect("a portal").0;
        assert_eq!(errno(client.attach(pages, some(), some())), why);
    }
}

/// A second reader has to wait; who does not keep to the rules loses the link, and nobody else does.
fn hostile() {
    let driver = portal("link");
    let open = |badge| Link::open(driver, 8, 1, CHANNEL, badge);
    let mut first = open(77).expect("a link");
    assert_eq!(errno(open(78)), EBUSY);
    // A piece that is not the arena's.
    let beyond = first.place(PAGE);
    first
        .send(&[(beyond, 60)], &Offload::default())
        .expect("a frame");
    // It goes in the driver's turn; its bell is closed then.
    let until = time::monotonic() + PATIENCE;
    let mut heard = false;
    while !heard && time::monotonic() < until {
        if let Ok(received) = CHANNEL.receive(Some(until)) {
            heard = received.badge == 77;
        }
    }
    assert!(heard, "the session is over");
    drop(first);
}

fn main() -> ! {
    refusals();
    hostile();
    let driver = portal("link");
    let link = Link::open(driver, RECEIVE_PAGES, SEND_PAGES, CHANNEL, BADGE).expect("a link");
    assert!(link.info().up && link.info().mtu == 1500);
    let mut game = Game {
        link,
        free: (0..SEND_PAGES).collect(),
        pages: [0; 256],
        drivers: 0,
    };
    game.refused_frames();
    log!("refusals are right");
    // QEMU's e1000 takes nothing for a second after it was set up.
    game.echoes(0..1);
    let lost = game.echoes(0..ROUND);
    assert_eq!(lost, 0);
    log!("{ROUND} frames came back as they were");
    let came = game.flood(FLOODED);
    assert!(came > 100, "{came} of {FLOODED}");
    let counts = game.link.counts().expect("counts");
    assert!(counts.sent > u64::from(ROUND) && counts.received >= u64::from(ROUND + came));
    log!("a flood came in, in order");
    log!(
        "{came} of {FLOODED} had room; {} interrupts, {} bells for {} frames in and {} out",
        counts.interrupts,
        counts.bells,
        counts.received,
        counts.sent
    );
    game.others();
    log!("what is for groups and others comes as well");
    game.sums();
    game.damaged();
    log!("frames that are none harmed nobody");
    for (way, hertz) in [
        (Way::Clock, 1000),
        (Way::Hybrid, 1000),
        (Way::Interrupts, 0),
    ] {
        game.link.events(way, hertz).expect("a way");
        assert_eq!(game.echoes(0..200), 0);
        game.flood(500);
        let after = game.link.counts().expect("counts");
        log!(
            "{way:?}: {} ticks, {} interrupts",
            after.ticks,
            after.interrupts
        );
        assert!(way != Way::Clock || after.ticks > 0);
    }
    log!("by interrupts, by a clock and by both");
    let (mut round, mut lost) = (0, 0);
    while game.drivers < 3 {
        lost += game.echoes(round..round + 50);
        round += 50;
    }
    lost += game.echoes(round..round + 500);
    log!("{lost} echoes were lost with drivers");
    log!("went on with a third successor, and all is right");
    loop {
        let _ = CHANNEL.receive(None);
    }
}
