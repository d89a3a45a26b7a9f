//! Devices over files in memory, whose server answers when a test lets it.

use crate::backing::{sectors, Gone, Helper, Outside, BUFFER, HELPER_FIRST};
use crate::Loops;
use cairn_block::client::{Bell, Client};
use cairn_block::serve::System;
use cairn_block::{Info, Kind, Outcome, Request, PAGE};
use cairn_idl::block;
use cairn_idl::errno::*;
use cairn_idl::fake::Sent;
use cairn_idl::fs::{self, o, s, Stat};
use cairn_idl::loops::{lo, How, Server, ADD, ANY, BADGE_BYSTANDER, BADGE_CONTROL, DISK_SHIFT};
use cairn_idl::wire;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::vec;
use std::vec::Vec;

#[derive(Clone)]
struct Memory(Rc<Vec<AtomicU64>>);

impl Deref for Memory {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

#[derive(Clone, Default)]
struct File {
    bytes: Vec<u8>,
    device: u64,
    flags: u64,
    mode: u32,
}

#[derive(Default)]
struct World {
    files: HashMap<u32, File>,
    rings: HashMap<u32, Memory>,
    next: u32,
    arena: Vec<u8>,
    notified: Vec<u32>,
    closed: Vec<u32>,
    /// No server answers at present; and this file's dies with the next calls.
    silent: bool,
    dying: u32,
    helpers: u64,
}

#[derive(Clone)]
struct Fake(Rc<RefCell<World>>);

struct Thread {
    world: Fake,
    number: u64,
    buffer: Vec<u8>,
    asked: Option<(u32, [u64; 8], usize, usize)>,
}

impl Helper for Thread {
    fn number(&self) -> u64 {
        self.number
    }
    fn buffer(&mut self) -> &mut [u8] {
        assert!(self.asked.is_none(), "the thread has it");
        &mut self.buffer
    }
    fn call(&mut self, portal: u32, words: [u64; 8], out: usize, input: usize) {
        assert!(self.asked.is_none() && out.max(input) <= BUFFER);
        self.asked = Some((portal, words, out, input));
    }
    fn outcome(&mut self) -> Option<Result<[u64; 8], Gone>> {
        let mut world = self.world.0.borrow_mut();
        if world.silent {
            return None;
        }
        let (portal, words, out, input) = self.asked.take()?;
        if world.dying > 0 {
            world.dying -= 1;
            return Some(Err(Gone::Dead));
        }
        let Some(file) = world.files.get_mut(&portal) else {
            return Some(Err(Gone::Over));
        };
        let mut answer = [0; 8];
        let at = words[1] as usize;
        match words[0] {
            fs::GETFLAGS => answer[0] = file.flags,
            fs::STAT => {
                let stat = Stat {
                    dev: file.device,
                    mode: file.mode,
                    size: file.bytes.len() as i64,
                    ..Stat::default()
                };
                self.buffer[..Stat::BYTES].copy_from_slice(&stat.to_bytes());
            }
            fs::GETPATH => {
                self.buffer[..5].copy_from_slice(b"/file");
                answer[0] = 5;
            }
            // At most 3,000 bytes at a time.
            fs::READ => {
                let length = input.min(3000).min(file.bytes.len().saturating_sub(at));
                let from = file.bytes.get(at..).unwrap_or_default();
                self.buffer[..length].copy_from_slice(&from[..length]);
                answer[0] = length as u64;
            }
            fs::WRITE => {
                let length = out.min(3000);
                let end = (at + length).max(file.bytes.len());
                file.bytes.resize(end, 0);
                file.bytes[at..at + length].copy_from_slice(&self.buffer[..length]);
                answer[0] = length as u64;
            }
            fs::ALLOCATE => {
                let (at, length) = (words[2] as usize, (words[3] as usize).min(1000));
                file.bytes[at..at + length].fill(0);
                answer[1] = length as u64;
            }
            _ => {}
        }
        Some(Ok(answer))
    }
    fn rest(&mut self) {}
}

impl System for Fake {
    type Memory = Memory;
    fn rings(&mut self, words: usize) -> Option<(Memory, u32)> {
        let memory = Memory(Rc::new((0..words).map(|_| AtomicU64::new(0)).collect()));
        let mut world = self.0.borrow_mut();
        world.next += 1;
        let portal = 5000 + world.next;
        world.rings.insert(portal, memory.clone());
        Some((memory, portal))
    }
    fn portal(&mut self, badge: u64) -> Option<u32> {
        Some(badge as u32 + 9000)
    }
    fn notify(&mut self, portal: u32, _: u64) {
        self.0.borrow_mut().notified.push(portal);
    }
    fn now(&mut self) -> u64 {
        7
    }
    fn close(&mut self, portal: u32) {
        self.0.borrow_mut().closed.push(portal);
    }
}

impl Outside for Fake {
    type Helper = Thread;
    const MOST: usize = 1000;
    fn helper(&mut self, number: u64) -> Option<Thread> {
        self.0.borrow_mut().helpers += 1;
        Some(Thread {
            world: self.clone(),
            number,
            buffer: vec![0; BUFFER],
            asked: None,
        })
    }
    fn read(&mut self, _: u32, at: u64, into: &mut [u8]) -> bool {
        let world = self.0.borrow();
        let from = world
            .arena
            .get(at as usize..)
            .and_then(|it| it.get(..into.len()));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }
    fn write(&mut self, _: u32, at: u64, from: &[u8]) -> bool {
        let mut world = self.0.borrow_mut();
        let into = world.arena.get_mut(at as usize..);
        let into = into.and_then(|it| it.get_mut(..from.len()));
        into.map(|into| into.copy_from_slice(from)).is_some()
    }
}

const NOBODY: Sent = Sent {
    portals: 0,
    ..Sent::through(BADGE_CONTROL)
};
const HOW: How = How {
    offset: 0,
    limit: 0,
    flags: 0,
    block: 0,
    name: [0; 64],
};
/// Portals of files; one of a whole MiB, one that can only be read.
const FILE: u32 = 100;
const READABLE: u32 = 101;

struct Bench {
    world: Fake,
    loops: Loops<Fake>,
}

fn bench() -> Bench {
    let world = Fake(Rc::new(RefCell::new(World::default())));
    let file = File {
        bytes: (0..1 << 20).map(|i: u32| (i >> 9) as u8).collect(),
        device: 3,
        flags: o::RDWR,
        mode: s::IFREG | 0o600,
    };
    {
        let mut inside = world.0.borrow_mut();
        inside.arena = vec![0; 64 * PAGE];
        let readable = File {
            flags: o::RDONLY,
            ..file.clone()
        };
        inside.files = HashMap::from([(FILE, file), (READABLE, readable)]);
    }
    let loops = Loops::new(world.clone(), 0);
    Bench { world, loops }
}

fn badge(number: u64) -> u64 {
    (number + 1) << DISK_SHIFT
}

impl Bench {
    fn bind(&mut self, number: u32, file: u32, how: How) -> Result<(), i64> {
        self.loops.bind(&NOBODY, number, false, file, how)?;
        self.tick();
        self.loops.outcome(&NOBODY, number)
    }

    /// The helpers' pulses.
    fn tick(&mut self) {
        let helpers = self.world.0.borrow().helpers;
        for helper in 0..helpers {
            self.loops.notified(HELPER_FIRST + helper);
        }
    }

    fn ask(&mut self, badge: u64, words: [u64; 8]) -> Result<[u64; 8], i64> {
        let sent = Sent {
            badge,
            words,
            portals: match words[0] {
                block::ATTACH => 2,
                _ => 0,
            },
        };
        let answer = match self.loops.request(&sent) {
            wire::Outcome::Reply(reply) => reply.words,
            wire::Outcome::Later => panic!("it answers at once"),
        };
        self.loops.after(badge, true);
        match answer[0] as i64 {
            0.. => Ok(answer),
            errno => Err(-errno),
        }
    }

    fn attach(&mut self, badge: u64) -> Result<(Client<Memory>, u64), i64> {
        let told = self.ask(badge, [block::INFO, 0, 0, 0, 0, 0, 0, 0])?;
        let made = self.ask(badge, [block::ATTACH, 0, 0, 0, 0, 0, 50, 51])?;
        let info = Info {
            sectors: told[1],
            block: told[2] as u32,
            most_pages: told[4] as u32,
            discards: true,
            most_requests: 64,
            ..Info::default()
        };
        let mut client = Client::new(info);
        let rings = self.world.0.borrow().rings[&(made[6] as u32)].clone();
        client.begin(rings).unwrap();
        // (The portal's number is made of the badge.)
        Ok((client, 1 << 32 | (made[7] - 9000)))
    }

    fn run(&mut self, client: &mut Client<Memory>, session: u64) -> Vec<(u64, Outcome)> {
        self.loops.notified(session);
        self.tick();
        std::iter::from_fn(|| client.completed().0).collect()
    }
}

fn request(kind: Kind, sector: u64, bytes: u64, pages: &[u32], offset: u32) -> Request<'_> {
    Request {
        id: 9,
        kind,
        sector,
        bytes,
        pages,
        offset,
        kept: 0,
    }
}

#[test]
fn blocks_of_a_file_are_read_and_written_in_pieces() {
    let mut bench = bench();
    let how = How {
        offset: 1024,
        limit: 512 * 1000,
        ..HOW
    };
    assert_eq!(bench.bind(2, FILE, how), Ok(()));
    assert_eq!(bench.loops.status(&NOBODY, 2).unwrap().sectors, 1000);
    assert!(bench
        .loops
        .status(&NOBODY, 2)
        .unwrap()
        .path
        .starts_with(b"/file\0"));
    let (mut client, session) = bench.attach(badge(2)).unwrap();
    // Two runs of pages, from the middle of the first one on.
    let pages = [8, 9, 4, 5];
    let order = request(Kind::Read, 10, 3 * PAGE as u64, &pages, 512);
    // The driver waits for the session's ring.
    assert_eq!(client.submit(&order), Ok(Bell::Ring));
    assert_eq!(bench.run(&mut client, session), [(9, Outcome::Done)]);
    {
        let world = bench.world.0.borrow();
        let sectors: Vec<u8> = world.arena.chunks(512).map(|it| it[511]).collect();
        assert_eq!(sectors[65..80], (12..27).collect::<Vec<u8>>());
        assert_eq!(sectors[32..41], (27..36).collect::<Vec<u8>>());
        assert_eq!((sectors[64], sectors[41]), (0, 0));
    }
    bench.world.0.borrow_mut().arena[..8192].fill(0xaa);
    client
        .submit(&request(Kind::Write, 0, 8192, &[0, 1], 0))
        .unwrap();
    client.submit(&request(Kind::Flush, 0, 0, &[], 0)).unwrap();
    client
        .submit(&request(Kind::Discard, 100, 4096, &[], 0))
        .unwrap();
    assert_eq!(bench.run(&mut client, session).len(), 3);
    let world = bench.world.0.borrow();
    let file = &world.files[&FILE].bytes;
    assert!(file[1024..9216].iter().all(|it| *it == 0xaa));
    assert_eq!((file[1023], file[9216]), (1, 18));
    assert!(file[1024 + 51200..][..4096].iter().all(|it| *it == 0));
    assert_ne!(file[1024 + 51200 + 4096], 0);
}

#[test]
fn a_file_that_shrinks_reads_as_zeroes_and_one_without_a_server_fails() {
    let mut bench = bench();
    assert_eq!(bench.bind(0, FILE, HOW), Ok(()));
    let (mut client, session) = bench.attach(badge(0)).unwrap();
    bench
        .world
        .0
        .borrow_mut()
        .files
        .get_mut(&FILE)
        .unwrap()
        .bytes
        .truncate(512);
    bench.world.0.borrow_mut().arena.fill(7);
    client
        .submit(&request(Kind::Read, 0, 4096, &[0], 0))
        .unwrap();
    client
        .submit(&request(Kind::Read, 64, 4096, &[1], 0))
        .unwrap();
    let out = bench.run(&mut client, session);
    assert_eq!(out, [(9, Outcome::Done), (9, Outcome::Done)]);
    assert!(bench.world.0.borrow().arena[512..8192]
        .iter()
        .all(|it| *it == 0));
    // A server that dies and has a successor is asked again, but not for ever.
    bench.world.0.borrow_mut().dying = 2;
    client
        .submit(&request(Kind::Read, 0, 512, &[0], 0))
        .unwrap();
    assert_eq!(bench.run(&mut client, session), [(9, Outcome::Done)]);
    bench.world.0.borrow_mut().dying = 100;
    client
        .submit(&request(Kind::Read, 0, 512, &[0], 0))
        .unwrap();
    assert_eq!(bench.run(&mut client, session), [(9, Outcome::Failed)]);
    bench.world.0.borrow_mut().dying = 0;
    bench.world.0.borrow_mut().files.clear();
    client
        .submit(&request(Kind::Write, 0, 512, &[0], 0))
        .unwrap();
    assert_eq!(bench.run(&mut client, session), [(9, Outcome::Failed)]);
    // Pages that are not there.
    client
        .submit(&request(Kind::Write, 0, 512, &[900], 0))
        .unwrap();
    assert_eq!(bench.run(&mut client, session), [(9, Outcome::Failed)]);
}

#[test]
fn what_is_no_file_with_blocks_is_refused_and_closed() {
    let mut bench = bench();
    let add = |bench: &mut Bench, portal: u32, file: File| {
        bench.world.0.borrow_mut().files.insert(portal, file);
    };
    let plain = bench.world.0.borrow().files[&FILE].clone();
    let loop3 = cairn_idl::device::number((7, 3));
    for (portal, file, why) in [
        (
            200,
            File {
                flags: o::PATH,
                ..plain.clone()
            },
            EBADF,
        ),
        (
            201,
            File {
                flags: o::WRONLY,
                ..plain.clone()
            },
            EBADF,
        ),
        (
            202,
            File {
                mode: s::IFDIR,
                ..plain.clone()
            },
            EINVAL,
        ),
        (
            203,
            File {
                mode: s::IFBLK,
                ..plain.clone()
            },
            EINVAL,
        ),
        (
            204,
            File {
                device: loop3,
                ..plain.clone()
            },
            EBADF,
        ),
    ] {
        add(&mut bench, portal, file);
        assert_eq!(bench.bind(3, portal, HOW), Err(why), "{portal}");
        assert_eq!(bench.world.0.borrow_mut().closed.pop(), Some(portal));
        assert_eq!(bench.loops.status(&NOBODY, 3).err(), Some(ENXIO));
    }
    // By way of another device: 4 lies on a file of 3, so 3 cannot lie on 4.
    add(
        &mut bench,
        205,
        File {
            device: loop3,
            ..plain.clone()
        },
    );
    add(
        &mut bench,
        206,
        File {
            device: cairn_idl::device::number((259, 4 * 16 + 1)),
            ..plain
        },
    );
    assert_eq!(bench.bind(3, READABLE, HOW), Ok(()));
    assert_eq!(bench.bind(4, 205, HOW), Ok(()));
    bench.loops.bind(&NOBODY, 3, true, 206, HOW).unwrap();
    bench.tick();
    assert_eq!(bench.loops.outcome(&NOBODY, 3), Err(EBADF));
    assert_eq!(bench.bind(5, 206, HOW), Ok(()));
}

#[test]
fn a_device_gives_its_file_back_when_nobody_uses_it() {
    let mut bench = bench();
    let how = How {
        flags: lo::AUTOCLEAR,
        ..HOW
    };
    bench.loops.used(&NOBODY, 0, true).unwrap();
    assert_eq!(bench.bind(0, FILE, how), Ok(()));
    assert_eq!(bench.bind(0, READABLE, HOW), Err(EBUSY));
    let (_bystander, watching) = bench.attach(badge(0) | BADGE_BYSTANDER).unwrap();
    let (mut client, session) = bench.attach(badge(0)).unwrap();
    // The one that mounted it has gone, and it is not open, but it is mounted until `init` says otherwise: a successor comes.
    bench.loops.used(&NOBODY, 0, false).unwrap();
    bench.loops.closed(session);
    assert!(bench.loops.status(&NOBODY, 0).is_ok());
    assert_eq!(bench.loops.clear(&NOBODY, 0, false), Ok(true));
    assert!(bench.loops.status(&NOBODY, 0).is_ok());
    drop(client);
    (client, _) = bench.attach(badge(0)).unwrap();
    bench.world.0.borrow_mut().silent = true;
    client
        .submit(&request(Kind::Read, 0, 512, &[0], 0))
        .unwrap();
    bench.loops.notified(watching + 2);
    // It is gone as soon as the file's server has answered, whoever waits.
    bench.loops.notified(badge(0));
    assert_eq!(bench.loops.status(&NOBODY, 0).err(), Some(ENXIO));
    assert_eq!(bench.loops.outcome(&NOBODY, 0), Err(EAGAIN));
    assert!(!bench.world.0.borrow().closed.contains(&FILE));
    assert_eq!(bench.bind(0, READABLE, HOW), Err(EBUSY));
    bench.world.0.borrow_mut().silent = false;
    bench.tick();
    assert!(bench.world.0.borrow().closed.contains(&FILE));
    assert_eq!(bench.loops.outcome(&NOBODY, 0), Ok(()));
    assert_eq!(bench.attach(badge(0)).err(), Some(ENXIO));
    // The helper is used again.
    assert_eq!(bench.bind(1, READABLE, HOW), Ok(()));
    assert_eq!(bench.world.0.borrow().helpers, 1);
}

#[test]
fn a_server_that_does_not_answer_holds_up_its_device_alone() {
    let mut bench = bench();
    bench.world.0.borrow_mut().silent = true;
    bench.loops.bind(&NOBODY, 0, false, FILE, HOW).unwrap();
    assert_eq!(bench.loops.outcome(&NOBODY, 0), Err(EAGAIN));
    assert_eq!(bench.attach(badge(0)).err(), Some(ENXIO));
    assert_eq!(bench.loops.remove(&NOBODY, 0), Err(EBUSY));
    assert_eq!(bench.loops.free(&NOBODY), Ok(1));
    bench.world.0.borrow_mut().silent = false;
    bench.tick();
    assert_eq!(bench.loops.outcome(&NOBODY, 0), Ok(()));
    assert_eq!(bench.loops.outcome(&NOBODY, 0), Err(ENXIO));
    assert_eq!(bench.loops.changed(&NOBODY), Ok(0));
    assert_eq!(bench.loops.changed(&NOBODY), Err(EAGAIN));
}

#[test]
fn another_offset_is_another_size_and_another_file_must_be_as_long() {
    let mut bench = bench();
    assert_eq!(bench.bind(0, READABLE, HOW), Ok(()));
    assert_eq!(bench.loops.status(&NOBODY, 0).unwrap().flags, lo::READ_ONLY);
    let how = How {
        offset: 1 << 19,
        flags: lo::READ_ONLY,
        ..HOW
    };
    bench.loops.change(&NOBODY, 0, how).unwrap();
    bench.tick();
    assert_eq!(bench.loops.outcome(&NOBODY, 0), Ok(()));
    assert_eq!(bench.loops.status(&NOBODY, 0).unwrap().sectors, 1024);
    assert!(bench
        .loops
        .status(&NOBODY, 0)
        .unwrap()
        .path
        .starts_with(b"/file\0"));
    let short = File {
        bytes: vec![0; 512],
        ..bench.world.0.borrow().files[&FILE].clone()
    };
    bench.world.0.borrow_mut().files.insert(300, short);
    for (file, expected) in [(300, Err(EINVAL)), (FILE, Ok(()))] {
        bench.loops.bind(&NOBODY, 0, true, file, HOW).unwrap();
        bench.tick();
        assert_eq!(bench.loops.outcome(&NOBODY, 0), expected);
    }
    assert_eq!(bench.world.0.borrow().closed, [300, READABLE]);
    let bad = How { block: 700, ..HOW };
    assert_eq!(bench.loops.change(&NOBODY, 0, bad), Err(EINVAL));
}

#[test]
fn devices_come_and_go_within_limits() {
    let mut bench = bench();
    assert_eq!(bench.loops.add(&NOBODY, 3), Err(EEXIST));
    assert_eq!(bench.loops.add(&NOBODY, 1 << 20), Err(EINVAL));
    assert_eq!(bench.loops.add(&NOBODY, 77), Ok(77));
    assert_eq!(bench.loops.device(&NOBODY, 8).unwrap().found, 77);
    assert_eq!(bench.loops.remove(&NOBODY, 77), Ok(()));
    assert_eq!(bench.loops.remove(&NOBODY, 77), Err(ENODEV));
    for _ in 8..cairn_idl::loops::DEVICES_MOST {
        bench.loops.add(&NOBODY, ANY).unwrap();
    }
    assert_eq!(bench.loops.add(&NOBODY, ANY), Err(ENOSPC));
    // Who only looks changes nothing.
    let told = bench.ask(1, [ADD, 300, 0, 0, 0, 0, 0, 0]);
    assert_eq!(told.err(), Some(EPERM));
}

#[test]
fn sizes_are_what_lies_behind_the_offset_up_to_the_limit() {
    for (size, offset, limit, expected) in [
        (1000, 0, 0, 1),
        (1024, 0, 0, 2),
        (1024, 512, 0, 1),
        (1024, 2048, 0, 0),
        (5120, 512, 1030, 2),
        (5120, 512, 1 << 40, 9),
    ] {
        let how = How {
            offset,
            limit,
            ..HOW
        };
        assert_eq!(sectors(size, &how), expected);
    }
}
