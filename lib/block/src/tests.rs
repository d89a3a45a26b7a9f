//! Both sides of sessions on the host, with a disk in memory that does its orders when and in what order a test wants.

use crate::client::{Bell, Client, LATE_MOST};
use crate::partition::Partition;
use crate::rings;
use crate::serve::{Backend, Disk, Order, System, SESSIONS, TAGS};
use crate::{Info, Kind, Outcome, Refused, Request, PAGE};
use cairn_idl::block::{Server, BADGE_SESSION_FIRST, CHANGED, REQUESTS};
use cairn_idl::errno::*;
use cairn_idl::fake::Sent;
use cairn_queue::{Receiver, Sender};
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

#[derive(Clone)]
struct Memory(Rc<Vec<AtomicU64>>);

impl Deref for Memory {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// What an order was, with its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Begun {
    tag: usize,
    kind: Kind,
    sector: u64,
    bytes: u64,
    arena: u32,
    pages: Vec<u32>,
}

struct Fake {
    info: Info,
    begun: Vec<Begun>,
    /// Pages from here on are not there.
    missing: u32,
}

impl Backend for Fake {
    fn info(&self) -> Info {
        self.info
    }

    fn start(&mut self, tag: usize, order: &Order) -> bool {
        if order.pages.iter().any(|&page| page >= self.missing) {
            return false;
        }
        assert!(self.begun.iter().all(|b| b.tag != tag), "a tag twice");
        assert!(order.sector + order.bytes / 512 <= self.info.sectors);
        self.begun.push(Begun {
            tag,
            kind: order.kind,
            sector: order.sector,
            bytes: order.bytes,
            arena: order.arena,
            pages: order.pages.to_vec(),
        });
        true
    }
}

#[derive(Default)]
struct Outside {
    made: HashMap<u32, Memory>,
    next: u32,
    notified: Vec<u32>,
    changed: Vec<u32>,
    time: u64,
    closed: Vec<u32>,
    poor: bool,
}

impl System for Outside {
    type Memory = Memory;
    fn rings(&mut self, words: usize) -> Option<(Memory, u32)> {
        if self.poor {
            return None;
        }
        let memory = Memory(Rc::new((0..words).map(|_| AtomicU64::new(0)).collect()));
        self.next += 1;
        self.made.insert(1000 + self.next, memory.clone());
        Some((memory, 1000 + self.next))
    }
    fn portal(&mut self, badge: u64) -> Option<u32> {
        Some(2000 + (badge - BADGE_SESSION_FIRST) as u32)
    }
    fn notify(&mut self, portal: u32, bits: u64) {
        match bits {
            CHANGED => self.changed.push(portal),
            _ => self.notified.push(portal),
        }
    }
    fn now(&mut self) -> u64 {
        self.time
    }
    fn close(&mut self, portal: u32) {
        self.closed.push(portal);
    }
}

type Driver = Disk<Fake, Outside>;

fn driver() -> Driver {
    let info = Info {
        sectors: 10_000,
        block: 512,
        caches_writes: true,
        most_pages: 254,
        most_requests: 8,
        ..Info::default()
    };
    let fake = Fake {
        info,
        begun: Vec::new(),
        missing: 1000,
    };
    let second = Partition {
        number: 2,
        first: 2048,
        sectors: 4000,
    };
    Disk::new(fake, Outside::default(), vec![second])
}

/// A session for this badge: the client's memory.
fn attach(driver: &mut Driver, badge: u64, bell: u32) -> Memory {
    let made = driver
        .attach(&Sent::through(badge), 0, bell, bell + 1)
        .expect("a session");
    driver.system.made[&(made.rings.0 as u32)].clone()
}

fn client(driver: &mut Driver, badge: u64, bell: u32) -> Client<Memory> {
    let told = Server::info(driver, &Sent::through(badge)).expect("a part of the disk");
    let mut client = Client::new(Info {
        sectors: told.sectors,
        most_requests: REQUESTS as u32,
        ..driver.backend.info
    });
    client.begin(attach(driver, badge, bell)).expect("rings");
    client
}

fn page(id: u64, kind: Kind, sector: u64, pages: &[u32]) -> Request<'_> {
    Request {
        id,
        kind,
        sector,
        bytes: (pages.len() * PAGE) as u64,
        pages,
        offset: 0,
        kept: 0,
    }
}

fn all(client: &mut Client<Memory>) -> Vec<(u64, Outcome)> {
    std::iter::from_fn(|| client.completed().0).collect()
}

#[test]
fn requests_come_out_in_whatever_order_and_errors_with_them() {
    let mut driver = driver();
    let mut client = client(&mut driver, 2, 50);
    assert!(!driver.arm());
    assert!(all(&mut client).is_empty());
    let bell = client.submit(&page(77, Kind::Read, 16, &[5, 6])).unwrap();
    assert_eq!(bell, Bell::Ring, "the driver slept");
    let bell = client.submit(&page(78, Kind::Write, 0, &[9])).unwrap();
    assert_eq!(bell, Bell::Quiet);
    let flush = Request {
        id: 79,
        kind: Kind::Flush,
        sector: 0,
        bytes: 0,
        pages: &[],
        offset: 0,
        kept: 0,
    };
    client.submit(&flush).unwrap();
    driver.pump();
    let begun = driver.backend.begun.clone();
    assert_eq!(begun[0].sector, 2048 + 16, "within the partition");
    assert_eq!((begun[0].bytes, begun[0].arena), (8192, 51));
    assert_eq!(begun[0].pages, [5, 6]);
    assert_eq!(begun[1].kind, Kind::Write);
    assert_eq!(begun[2].kind, Kind::Flush);
    driver.done(begun[2].tag, Outcome::Done);
    assert_eq!(driver.system.notified, [50], "the client slept");
    driver.done(begun[0].tag, Outcome::Failed);
    driver.done(begun[1].tag, Outcome::Done);
    driver.done(begun[1].tag, Outcome::Done);
    assert_eq!(driver.system.notified, [50], "once until it looked");
    let out = all(&mut client);
    let expected = [
        (79, Outcome::Done),
        (77, Outcome::Failed),
        (78, Outcome::Done),
    ];
    assert_eq!(out, expected);
    assert_eq!((client.under_way(), driver.under_way()), (0, 0));
}

#[test]
fn what_does_not_fit_the_device_is_refused_at_once() {
    let mut driver = driver();
    let mut client = client(&mut driver, 2, 50);
    let pages: Vec<u32> = (0..255).collect();
    let good = page(1, Kind::Read, 0, &[1]);
    let bad = [
        page(1, Kind::Read, 3993, &[1]),
        page(1, Kind::Read, u64::MAX, &[1]),
        page(1, Kind::Read, 0, &pages),
        page(1, Kind::Read, 0, &[]),
        page(1, Kind::Flush, 0, &[1]),
        page(1, Kind::Discard, 0, &[]),
        Request { bytes: 100, ..good },
        Request {
            bytes: 8192,
            ..good
        },
        Request {
            bytes: u64::MAX - 511,
            ..good
        },
        Request {
            offset: 512,
            ..good
        },
        Request {
            offset: 100,
            bytes: 512,
            ..good
        },
        Request {
            kind: Kind::Discard,
            pages: &[],
            ..good
        },
    ];
    for request in bad {
        assert_eq!(
            client.submit(&request),
            Err(Refused::Invalid),
            "{request:?}"
        );
    }
    assert!(client.submit(&page(1, Kind::Read, 3992, &[1])).is_ok());
    let within = Request {
        offset: 1024,
        bytes: 1536,
        ..good
    };
    assert!(client.submit(&within).is_ok());
    for id in 2..REQUESTS as u64 {
        assert!(client.submit(&page(id, Kind::Read, 0, &[1])).is_ok());
    }
    assert_eq!(client.submit(&good), Err(Refused::Full));
    // The driver takes no more than it can do.
    driver.pump();
    assert_eq!(driver.backend.begun.len(), 8);
    assert!(!driver.arm(), "it has enough to do");
    let mut done = Vec::new();
    while let Some(begun) = driver.backend.begun.pop() {
        driver.done(begun.tag, Outcome::Done);
        driver.pump();
        done.extend(all(&mut client));
    }
    assert_eq!(done.len(), REQUESTS);
}

#[test]
fn a_driver_that_dies_is_followed_by_one_that_gets_what_was_under_way() {
    let mut first = driver();
    let mut client = client(&mut first, 0, 50);
    for id in 0..40 {
        let request = page(id, Kind::Write, id * 8, &[3, 4]);
        client.submit(&request).unwrap();
    }
    first.pump();
    // Two come out; one of them before the death was noticed.
    let begun = first.backend.begun.clone();
    first.done(begun[1].tag, Outcome::Done);
    assert_eq!(all(&mut client), [(1, Outcome::Done)]);
    first.done(begun[0].tag, Outcome::Done);
    drop(first);
    client.pause();
    assert!(all(&mut client).is_empty());
    client.submit(&page(40, Kind::Read, 0, &[7])).unwrap();
    let mut second = driver();
    client.begin(attach(&mut second, 0, 60)).expect("rings");
    let mut seen: Vec<(u64, Outcome)> = Vec::new();
    loop {
        second.pump();
        let Some(begun) = second.backend.begun.pop() else {
            break;
        };
        second.done(begun.tag, Outcome::Done);
        seen.extend(all(&mut client));
    }
    seen.sort_by_key(|out| out.0);
    let ids: Vec<u64> = seen.iter().map(|out| out.0).collect();
    let expected: Vec<u64> = std::iter::once(0).chain(2..41).collect();
    assert_eq!(ids, expected);
    // No successor any more.
    client.submit(&page(1, Kind::Read, 0, &[7])).unwrap();
    client.end();
    client.submit(&page(2, Kind::Read, 0, &[7])).unwrap();
    let failed = [(1, Outcome::Failed), (2, Outcome::Failed)];
    assert_eq!(all(&mut client), failed);
    assert_eq!(client.under_way(), 0);
}

#[test]
fn lists_longer_than_the_ring_wait_for_room() {
    let mut driver = driver();
    let mut client = client(&mut driver, 0, 50);
    let pages: Vec<u32> = (0..254).collect();
    for id in 0..REQUESTS as u64 {
        client.submit(&page(id, Kind::Read, 0, &pages)).unwrap();
    }
    let mut out = Vec::new();
    for _ in 0..REQUESTS {
        driver.pump();
        let begun = driver.backend.begun.remove(0);
        assert_eq!(begun.pages, pages);
        driver.done(begun.tag, Outcome::Done);
        out.extend(all(&mut client));
    }
    let ids: Vec<u64> = out.iter().map(|out| out.0).collect();
    assert_eq!(ids, (0..REQUESTS as u64).collect::<Vec<_>>());
}

/// A client that keeps to nothing: its rings.
fn hostile(driver: &mut Driver) -> (Sender<cairn_queue::Part<Memory>>, Memory) {
    let memory = attach(driver, 2, 90);
    let (asked, _) = rings::split(memory.clone()).unwrap();
    (Sender::new(asked, rings::ASKED).unwrap(), memory)
}

#[test]
fn a_hostile_client_gets_nothing_beyond_its_part_and_disturbs_nobody() {
    let mut driver = driver();
    let mut honest = client(&mut driver, 2, 50);
    let (mut asked, memory) = hostile(&mut driver);
    let mut send = |driver: &mut Driver, words: [u64; 4], pages: &[u32]| {
        let list: Vec<u8> = pages.iter().flat_map(|p| p.to_le_bytes()).collect();
        asked.send(words, &list).unwrap();
        driver.pump();
        driver.backend.begun.len()
    };
    let write = 1 << 32;
    assert_eq!(send(&mut driver, [write, 4000, 4096, 0], &[1]), 0);
    assert_eq!(
        send(&mut driver, [write, u64::MAX - 2000, 4096, 0], &[1]),
        0
    );
    assert_eq!(send(&mut driver, [write, 0, 1 << 40, 0], &[1]), 0);
    assert_eq!(
        send(&mut driver, [write, 0, 4096, 0], &[5000]),
        0,
        "no page"
    );
    assert_eq!(send(&mut driver, [write, 0, 4096, 4096], &[1]), 0);
    let (_, done) = rings::split(memory.clone()).unwrap();
    let mut done = Receiver::new(done, rings::DONE).unwrap();
    for _ in 0..5 {
        let (message, _) = done.receive(&mut []).unwrap().expect("an answer");
        assert_eq!(rings::completed(&message), (0, Some(Outcome::Failed)));
    }
    // Twice the same name is its own confusion.
    assert_eq!(send(&mut driver, [write | 9, 0, 4096, 0], &[1]), 1);
    assert_eq!(send(&mut driver, [write | 9, 0, 4096, 0], &[1]), 2);
    // A kind that there is not ends it; what is under way goes on, for nobody.
    assert_eq!(driver.sessions(), 2);
    assert_eq!(send(&mut driver, [7 << 32, 0, 4096, 0], &[1]), 2);
    assert_eq!(driver.sessions(), 1);
    assert_eq!(driver.system.closed, [90, 91]);
    for begun in std::mem::take(&mut driver.backend.begun) {
        driver.done(begun.tag, Outcome::Done);
    }
    assert_eq!(driver.under_way(), 0);
    honest.submit(&page(1, Kind::Read, 0, &[1])).unwrap();
    driver.pump();
    driver.done(driver.backend.begun[0].tag, Outcome::Done);
    assert_eq!(all(&mut honest), [(1, Outcome::Done)]);
    // Counts that cannot be.
    let (_, memory) = hostile(&mut driver);
    memory[0].store(1 << 50, std::sync::atomic::Ordering::Relaxed);
    driver.pump();
    assert_eq!(driver.sessions(), 1);
}

#[test]
fn who_does_not_take_its_completions_is_put_out() {
    let mut driver = driver();
    let (mut asked, _) = hostile(&mut driver);
    for id in 0..=REQUESTS as u64 {
        let list = 1u32.to_le_bytes();
        if asked.send([id, 0, 4096, 0], &list).is_ok() {
            driver.pump();
        }
        while let Some(begun) = driver.backend.begun.pop() {
            driver.done(begun.tag, Outcome::Done);
        }
    }
    assert_eq!(driver.sessions(), 0);
}

#[test]
fn the_successor_of_a_client_that_died_finds_nothing_under_way() {
    let mut driver = driver();
    let mut old = client(&mut driver, 0, 50);
    let mut other = client(&mut driver, 2, 60);
    for id in 0..3 {
        old.submit(&page(id, Kind::Write, id * 8, &[1])).unwrap();
    }
    driver.pump();
    other.submit(&page(9, Kind::Read, 0, &[2])).unwrap();
    // Asked for and not begun: it never will be.
    old.submit(&page(3, Kind::Write, 24, &[1])).unwrap();
    driver.closed(BADGE_SESSION_FIRST);
    let mut new = client(&mut driver, 0, 70);
    new.submit(&page(1, Kind::Write, 0, &[3])).unwrap();
    for left in (0..3).rev() {
        driver.pump();
        assert!(!driver.arm(), "something has to come out first");
        assert_eq!(driver.backend.begun.len(), left + 1);
        let begun = driver.backend.begun.remove(0);
        driver.done(begun.tag, Outcome::Done);
    }
    driver.pump();
    let begun: Vec<u32> = driver.backend.begun.iter().map(|b| b.arena).collect();
    assert_eq!(begun.len(), 2, "the new one's and the other's: {begun:?}");
    for begun in std::mem::take(&mut driver.backend.begun) {
        driver.done(begun.tag, Outcome::Done);
    }
    assert_eq!(all(&mut new), [(1, Outcome::Done)]);
    assert_eq!(all(&mut other), [(9, Outcome::Done)]);
}

#[test]
fn a_session_is_told_from_those_of_a_drivers_predecessor() {
    let mut old = driver();
    attach(&mut old, 0, 50);
    let session = Sent::through(BADGE_SESSION_FIRST);
    assert_eq!(Server::info(&mut old, &session).unwrap().sectors, 10_000);
    assert!(old.attach(&session, 0, 5, 6).is_err());
    old.closed(BADGE_SESSION_FIRST);
    assert!(Server::info(&mut old, &session).is_err());
    let mut new = driver();
    new.number_from(7 << 32);
    attach(&mut new, 0, 60);
    assert!(Server::info(&mut new, &session).is_err());
    new.closed(BADGE_SESSION_FIRST);
    assert_eq!(new.sessions(), 1);
    assert!(Server::info(&mut new, &Sent::through(7 << 32)).is_ok());
}

#[test]
fn clients_take_turns() {
    let mut driver = driver();
    let mut greedy = client(&mut driver, 0, 50);
    let mut modest = client(&mut driver, 2, 60);
    for id in 0..REQUESTS as u64 {
        greedy.submit(&page(id, Kind::Read, 0, &[1])).unwrap();
    }
    modest.submit(&page(1, Kind::Read, 0, &[2])).unwrap();
    driver.pump();
    assert!(driver.backend.begun.iter().any(|begun| begun.arena == 61));
    assert_eq!(driver.backend.begun.len(), 8);
}

#[test]
fn sessions_are_made_and_ended_and_refused() {
    let mut driver = driver();
    let nobody = driver.attach(&Sent::through(1), 0, 5, 6).map(|_| ());
    assert_eq!(nobody, Err(ENXIO), "no such partition");
    assert_eq!(
        Server::info(&mut driver, &Sent::through(3)).map(|_| ()),
        Err(ENXIO)
    );
    for i in 0..SESSIONS as u32 {
        attach(&mut driver, 0, 100 + 2 * i);
    }
    assert_eq!(
        driver.attach(&Sent::through(0), 0, 5, 6).map(|_| ()),
        Err(ENFILE)
    );
    driver.closed(BADGE_SESSION_FIRST + 3);
    driver.closed(BADGE_SESSION_FIRST + 3);
    assert_eq!(driver.system.closed, [106, 107]);
    driver.system.poor = true;
    assert_eq!(
        driver.attach(&Sent::through(0), 0, 5, 6).map(|_| ()),
        Err(ENOMEM)
    );
    driver.system.poor = false;
    attach(&mut driver, 0, 200);
    assert_eq!(driver.newest(), BADGE_SESSION_FIRST + SESSIONS as u64);
    let told = driver.partition(&Sent::through(0), 0).unwrap();
    assert_eq!((told.found, told.first, told.sectors), (2, 2048, 4000));
    assert!(driver.partition(&Sent::through(0), 3).is_err());
    assert!(driver.partition(&Sent::through(2), 0).is_err());
    // Orders of the driver's own.
    let tags: Vec<usize> = std::iter::from_fn(|| driver.reserve()).collect();
    assert_eq!(tags.len(), 8);
    tags.iter().for_each(|&tag| driver.done(tag, Outcome::Done));
    driver.done(TAGS, Outcome::Done);
    assert_eq!(driver.under_way(), 0);
}

#[test]
fn a_hostile_driver_confuses_nobody() {
    let mut driver = driver();
    let mut client = client(&mut driver, 0, 50);
    client.submit(&page(7, Kind::Read, 0, &[1])).unwrap();
    let memory = driver.system.made[&1001].clone();
    let (_, done) = rings::split(memory.clone()).unwrap();
    let mut done = Sender::new(done, rings::DONE).unwrap();
    for slot in [1, 63, 64, u64::MAX] {
        done.send(rings::completion(slot, Outcome::Done), &[])
            .unwrap();
    }
    assert!(all(&mut client).is_empty());
    assert!(client.is_running());
    done.send(rings::completion(0, Outcome::Done), &[]).unwrap();
    done.send(rings::completion(0, Outcome::Done), &[]).unwrap();
    assert_eq!(all(&mut client), [(7, Outcome::Done)]);
    client.submit(&page(8, Kind::Read, 0, &[1])).unwrap();
    let (_, words) = rings::split(memory).unwrap();
    words[0].store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    assert!(all(&mut client).is_empty());
    assert!(!client.is_running(), "nonsense ends the session");
    assert_eq!(client.under_way(), 1);
}

#[test]
fn what_a_device_never_does_is_tried_three_times_and_fails() {
    let limit = 60;
    let mut driver = driver();
    let mut client = client(&mut driver, 0, 50);
    client.submit(&page(7, Kind::Write, 0, &[1])).unwrap();
    client.submit(&page(8, Kind::Write, 8, &[2])).unwrap();
    for round in 0..LATE_MOST {
        driver.pump();
        assert!(!driver.is_late(1000, limit), "from now on it counts");
        let good = driver.backend.begun.iter().position(|b| b.sector == 8);
        if let Some(good) = good.filter(|_| round > 0) {
            let tag = driver.backend.begun.remove(good).tag;
            driver.done(tag, Outcome::Done);
            assert_eq!(all(&mut client), [(8, Outcome::Done)]);
        }
        if round == 0 {
            // Begun later than the other one, so not late yet.
            client.submit(&page(9, Kind::Read, 16, &[3])).unwrap();
            driver.pump();
        }
        assert!(!driver.is_late(1000 + limit, limit));
        assert!(driver.is_late(1001 + limit, limit));
        // The client may hear of it before the driver's end, or after.
        if round == 1 {
            assert!(all(&mut client).is_empty(), "its pages are the device's");
        }
        client.pause();
        assert!(all(&mut client).is_empty());
        driver = self::driver();
        client.begin(attach(&mut driver, 0, 60)).expect("rings");
    }
    assert_eq!(all(&mut client), [(7, Outcome::Failed)]);
    driver.pump();
    let begun: Vec<u64> = driver.backend.begun.iter().map(|b| b.sector).collect();
    assert_eq!(begun, [16], "given up three times, the others not");
    driver.done(driver.backend.begun[0].tag, Outcome::Done);
    assert_eq!(all(&mut client), [(9, Outcome::Done)]);
    assert_eq!((client.under_way(), driver.under_way()), (0, 0));
}

#[path = "changes_tests.rs"]
mod changes;
