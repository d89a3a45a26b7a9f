//! The server against a machine of the imagination.

use crate::mq::{Notify, Queue};
use crate::sem;
use crate::server::{Ipc, Outside};
use crate::structures::{IPC_RMID, IPC_SET, IPC_STAT};
use cairn_abi::pulse;
use cairn_idl::errno::*;
use cairn_idl::fs::o;
use cairn_idl::ipc::Notify as NotifyHow;
use cairn_idl::{ipc, label};
use cairn_resmgr::fake::{Answer, Bench};
use cairn_rt::Portal;
use std::collections::BTreeMap;

#[global_allocator]
static ALLOCATOR: cairn_failing::Failing = cairn_failing::Failing;

#[derive(Default)]
struct World {
    next: u32,
    /// Objects by portal: pages, tag.
    objects: BTreeMap<u32, (u64, u64)>,
    mapped: BTreeMap<u32, u64>,
    unused: Vec<u64>,
    /// Who was told of a message: domain, signal, value, by whom.
    told: Vec<(u32, u64, u64, u32)>,
    /// Domains whose process has ended.
    ended: Vec<u32>,
}

impl Outside for World {
    fn make(&mut self, pages: u64, tag: u64) -> Option<Portal> {
        self.next += 1;
        self.objects.insert(self.next, (pages, tag));
        Some(Portal(self.next))
    }
    fn reader(&mut self, object: Portal) -> Option<Portal> {
        Some(Portal(object.0 + 1000))
    }
    fn mapped(&mut self, object: Portal) -> u64 {
        self.mapped.get(&object.0).copied().unwrap_or(0)
    }
    fn unused(&mut self) -> Option<u64> {
        self.unused.pop()
    }
    fn close(&mut self, object: Portal) {
        self.objects.remove(&object.0);
    }
    fn queue_limit(&mut self, _: u32) -> u64 {
        100_000
    }
    fn life(&mut self, domain: u32) -> Option<u64> {
        Some(9000 + u64::from(domain))
    }
    fn notify(&mut self, whom: &Notify, by: u32) -> bool {
        assert_eq!(whom.life, 9000 + u64::from(whom.domain));
        if whom.signal != 0 {
            self.told.push((whom.domain, whom.signal, whom.value, by));
        }
        !self.ended.contains(&whom.domain)
    }
    fn seconds(&mut self) -> u64 {
        7
    }
}

const CREAT: u64 = 0o1000;
const NOWAIT: u64 = 0o4000 << 32;

fn bench() -> Bench<Ipc<World>> {
    let mut bench = Bench::new(Ipc::new(World::default()), b"ipc:");
    user(&mut bench, 1000, 50);
    bench
}

fn user(bench: &mut Bench<Ipc<World>>, uid: u32, domain: u32) {
    bench.label = label::make(uid, uid);
    bench.sender = domain;
}

fn result(bench: &mut Bench<Ipc<World>>, words: &[u64]) -> i64 {
    bench.result(0, words, b"")
}

fn put(bench: &mut Bench<Ipc<World>>, id: i64, kind: u64, text: &[u8]) -> i64 {
    let words = [ipc::MSG_SEND, id as u64 | NOWAIT, kind, text.len() as u64];
    bench.result(0, &words, text)
}

fn take(bench: &mut Bench<Ipc<World>>, id: i64, kind: i64) -> Answer {
    let words = [ipc::MSG_RECEIVE, id as u64 | NOWAIT, kind as u64, 8192];
    bench.call(0, &words, b"", 8192).unwrap()
}

fn operate(id: i64, list: &[(u16, i16, i16)]) -> Vec<u64> {
    let mut words = vec![ipc::SEM_OP, id as u64 | (list.len() as u64) << 32, 0];
    let word = |&(number, change, flags): &(u16, i16, i16)| {
        u64::from(number) | u64::from(change as u16) << 16 | u64::from(flags as u16) << 32
    };
    words.extend(list.iter().map(word));
    words
}

#[test]
fn whoever_maps_it_is_counted_and_what_was_removed_goes_at_last() {
    let mut b = bench();
    let id = result(&mut b, &[ipc::SHM_GET, 5, 10_000, CREAT | 0o600]);
    assert!(id >= 0);
    let words = [ipc::SHM_ATTACH, id as u64, 0];
    let attached = b.call(0, &words, b"", 0).unwrap();
    assert_eq!(
        (attached.words[1], attached.passed.clone()),
        (10_000, vec![1])
    );
    let reader = b.call(0, &[ipc::SHM_ATTACH, id as u64, 0o10000], b"", 0);
    assert_eq!(reader.unwrap().passed, [1001]);
    b.server.outside.mapped.insert(1, 6);
    let stat = [ipc::SHM_CTL, id as u64, IPC_STAT.into()];
    let told = b.call(0, &stat, b"", 112).unwrap();
    assert_eq!(told.data[88], 2, "it is mapped twice as a whole");
    user(&mut b, 1001, 51);
    for words in [[ipc::SHM_ATTACH, id as u64, 0], stat] {
        assert_eq!(b.call(0, &words, b"", 112).unwrap().result(), -EACCES);
    }
    let remove = [ipc::SHM_CTL, id as u64, IPC_RMID.into()];
    assert_eq!(result(&mut b, &remove), -EPERM);
    user(&mut b, 1000, 50);
    assert_eq!(result(&mut b, &remove), 0);
    assert_eq!(result(&mut b, &[ipc::SHM_GET, 5, 1, 0]), -ENOENT);
    assert_eq!(b.server.segments.pages, 3, "it is mapped still");
    b.server.outside.unused.push(id as u64 + (1 << 15));
    b.pulse(pulse::NOTIFY, 0, 1 << 31);
    assert_eq!(b.server.segments.pages, 3, "another one's tag");
    b.server.outside.mapped.clear();
    b.server.outside.unused.push(id as u64);
    b.pulse(pulse::NOTIFY, 0, 1 << 31);
    assert_eq!(b.server.segments.pages, 0);
    assert!(b.server.outside.objects.is_empty());
    assert_eq!(result(&mut b, &stat), -EINVAL);
    assert_eq!(b.manager.usage(1000).0, 0);
}

#[test]
fn users_pay_for_what_they_make() {
    let mut b = bench();
    b.fake.charge_limit = Some(100);
    let make = [ipc::SHM_GET, 0, 200 * 4096, CREAT | 0o600];
    assert_eq!(result(&mut b, &make), -ENOMEM);
    let id = result(&mut b, &[ipc::MSG_GET, 0, CREAT | 0o666]);
    let set = result(&mut b, &[ipc::SEM_GET, 0, 5, CREAT | 0o600]);
    user(&mut b, 1001, 51);
    for kind in 1..100 {
        assert_eq!(put(&mut b, id, kind, b"text"), 0);
    }
    assert_eq!(b.manager.usage(1001).0, 0);
    assert!(b.manager.usage(1000).0 > 100 * 64, "who made it pays");
    user(&mut b, 1000, 50);
    assert_eq!(result(&mut b, &operate(set, &[(0, 1, sem::SEM_UNDO)])), 0);
    assert_eq!(result(&mut b, &[ipc::MSG_CTL, id as u64, 0]), 0);
    assert_eq!(result(&mut b, &[ipc::SEM_CTL, set as u64, 0]), 0);
    b.pulse(pulse::CLOSED, 0, 1 << 63 | 50);
    assert_eq!(b.manager.usage(1000).0, 0, "all of it is given back");
    assert_eq!(b.server.queues.messages.len(), 0);
}

#[test]
fn messages_come_in_the_order_that_is_wanted() {
    let mut b = bench();
    let id = result(&mut b, &[ipc::MSG_GET, 9, CREAT | 0o600]);
    let long = vec![b'l'; 3000];
    for (kind, text) in [(3, &b"three"[..]), (1, b"one"), (3, &long), (2, b"two")] {
        assert_eq!(put(&mut b, id, kind, text), 0);
    }
    assert_eq!(take(&mut b, id, 4).result(), -ENOMSG);
    assert_eq!(take(&mut b, id, -2).bytes(), b"one");
    assert_eq!(take(&mut b, id, 3).bytes(), b"three");
    assert_eq!(take(&mut b, id, 3).bytes(), &long);
    let words = [ipc::MSG_RECEIVE, id as u64 | NOWAIT, 0, 2];
    assert_eq!(result(&mut b, &words), -E2BIG);
    let words = [ipc::MSG_RECEIVE, id as u64 | NOWAIT, 0, 40];
    let answer = b.call(0, &words, b"", 0).unwrap();
    assert_eq!(
        answer.words[..3],
        [3, 2, u64::from_le_bytes(*b"two\0\0\0\0\0")]
    );
    assert_eq!(b.server.queues.bytes, 0);
}

#[test]
fn who_waits_for_a_message_gets_it_and_leaves_nothing_behind() {
    let mut b = bench();
    let id = result(&mut b, &[ipc::MSG_GET, 9, CREAT | 0o600]);
    let wait = |kind: u64| [ipc::MSG_RECEIVE, id as u64, kind, 100];
    let tokens: Vec<_> = [7, 0, 7, 0]
        .map(|kind| b.send(0, &wait(kind), b"", 0))
        .into();
    b.interrupt(tokens[1]);
    assert_eq!(b.answer(tokens[1]).unwrap().result(), -EINTR);
    b.die(tokens[0]);
    assert_eq!(put(&mut b, id, 7, b"7"), 0);
    assert_eq!(b.answer(tokens[2]).unwrap().words[..2], [1, 7]);
    assert_eq!(put(&mut b, id, 1, b"1"), 0);
    assert_eq!(b.answer(tokens[3]).unwrap().words[..2], [1, 1]);
    let last = b.send(0, &wait(0), b"", 0);
    assert_eq!(result(&mut b, &[ipc::MSG_CTL, id as u64, 0]), 0);
    assert_eq!(b.answer(last).unwrap().result(), -EIDRM);
    assert!(b.server.waiters.is_empty());
    assert_eq!(b.manager.waiting_requests(), 0);
}

#[test]
fn operations_are_carried_out_together_and_undone_at_the_end() {
    let mut b = bench();
    let id = result(&mut b, &[ipc::SEM_GET, 9, 3, CREAT | 0o600]);
    let value = |b: &mut Bench<Ipc<World>>, number: u64| {
        result(b, &[ipc::SEM_CTL, id as u64, 12 | number << 32])
    };
    assert_eq!(
        result(&mut b, &operate(id, &[(0, 2, 0), (1, 1, sem::SEM_UNDO)])),
        0
    );
    let nowait = [(0, -1, 0), (2, -1, 0o4000)];
    assert_eq!(result(&mut b, &operate(id, &nowait)), -EAGAIN);
    assert_eq!((value(&mut b, 0), value(&mut b, 1)), (2, 1));
    user(&mut b, 1000, 60);
    let waits = b.send(0, &operate(id, &[(0, -1, 0), (2, -1, 0)]), b"", 0);
    let zero = b.send(0, &operate(id, &[(1, 0, 0)]), b"", 0);
    let counts = |b: &mut Bench<Ipc<World>>, command: u64, number: u64| {
        result(b, &[ipc::SEM_CTL, id as u64, command | number << 32])
    };
    assert_eq!((counts(&mut b, 14, 2), counts(&mut b, 15, 1)), (1, 1));
    assert_eq!(result(&mut b, &operate(id, &[(2, 1, 0)])), 0);
    assert_eq!(b.answer(waits).unwrap().result(), 0);
    assert_eq!(value(&mut b, 0), 1);
    // The first process ends: its semaphore becomes zero again.
    b.pulse(pulse::CLOSED, 0, 1 << 63 | 50);
    assert_eq!(b.answer(zero).unwrap().result(), 0);
    assert!(b.server.waiters.is_empty());
    let mut late = operate(id, &[(2, -1, 0)]);
    late[2] = 500;
    let late = b.send(0, &late, b"", 0);
    b.fake.time = 600;
    b.time_out();
    assert_eq!(b.answer(late).unwrap().result(), -EAGAIN);
    assert!(b.server.waiters.is_empty());
}

#[test]
fn name_spaces_do_not_see_each_other() {
    let mut b = bench();
    let id = result(&mut b, &[ipc::MSG_GET, 9, CREAT | 0o666]);
    let words = [ipc::MSG_GET, 9, 0];
    assert_eq!(result(&mut b, &words), id);
    assert_eq!(b.result(4, &words, b""), -ENOENT);
    let send = [ipc::MSG_SEND, id as u64 | NOWAIT, 1, 1, 65];
    assert_eq!(b.result(4, &send, b""), -EINVAL);
    assert_eq!(b.result(0, &send, b""), 0);
}

#[test]
fn a_name_space_goes_with_its_portal() {
    let mut b = bench();
    let space = b.call(0, &[ipc::SPACE], b"", 0).unwrap().minted[0];
    let other = b.call(space, &[ipc::SPACE], b"", 0).unwrap().minted[0];
    let get = [ipc::MSG_GET, 9, CREAT | 0o600];
    let id = b.result(space, &get, b"");
    assert!(id >= 0);
    for elsewhere in [0, other] {
        assert_eq!(b.result(elsewhere, &[ipc::MSG_GET, 9, 0], b""), -ENOENT);
    }
    let send = [ipc::MSG_SEND, id as u64 | NOWAIT, 1, 1, 65];
    assert_eq!(b.result(other, &send, b""), -EINVAL);
    assert_eq!(b.result(space, &send, b""), 0);
    assert!(b.result(space, &[ipc::SEM_GET, 9, 1, CREAT | 0o600], b"") >= 0);
    assert!(b.result(space, &[ipc::SHM_GET, 9, 4096, CREAT | 0o600], b"") >= 0);
    let open = [ipc::MQ_OPEN, o::RDWR | o::CREAT, 0o600, 1, 10];
    let queue = b.call(space, &open, b"queue", 0).unwrap().minted[0];
    assert_eq!(
        b.call(0, &[ipc::MQ_OPEN, o::RDWR], b"queue", 0)
            .unwrap()
            .result(),
        -ENOENT
    );
    b.close(space);
    assert!(b.server.outside.objects.is_empty());
    assert_eq!(b.server.queues.all.count(1) + b.server.sets.all.count(1), 0);
    // An open queue lives on without a name.
    assert_eq!(b.result(queue, &[ipc::MQ_ATTR, 0, 0], b""), 0);
    b.close(queue);
    b.close(other);
}

/// Requests at random, of several users: nothing panics, nothing is left.
#[test]
fn whatever_is_asked_ends_even() {
    let mut seed = 12345u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut b = bench();
    let mut ids = vec![0];
    let mut tokens = Vec::new();
    for _ in 0..30_000 {
        let who = random(4) as u32;
        user(&mut b, 1000 + who / 2, 50 + who);
        let operation = [64, 65, 66, 67, 72, 73, 74, 75, 80, 81, 82, 112, 113][random(13) as usize];
        let id = ids[random(ids.len() as u64) as usize] as u64;
        let mut words = [operation, 0, 0, 0, 0, 0, 0, 0];
        for word in &mut words[1..] {
            *word = match random(8) {
                0 => u64::MAX,
                1 => id,
                2 => id | random(4) << 32,
                3 => random(1 << 16) << 16,
                4 => CREAT | 0o666,
                _ => random(20),
            };
        }
        match operation {
            64 | 72 | 80 if random(2) == 0 => {
                words[1..4].copy_from_slice(&[random(6), random(6), CREAT | 0o666]);
                if operation == 72 {
                    words[2] = CREAT | 0o666;
                }
            }
            73 | 74 | 81 => words[1] = id | random(3) << 32,
            _ => {}
        }
        let out = vec![1; random(3) as usize * 6];
        let token = b.send(0, &words, &out, random(2) as usize * 200);
        match b.answer(token) {
            Some(answer) if matches!(operation, 64 | 72 | 80) && answer.result() >= 0 => {
                ids.push(answer.result());
            }
            Some(_) => {}
            None => tokens.push(token),
        }
        if random(10) == 0 && !tokens.is_empty() {
            let token = tokens.swap_remove(random(tokens.len() as u64) as usize);
            if b.answer(token).is_none() {
                match random(2) {
                    0 => b.die(token),
                    _ => b.interrupt(token),
                }
            }
        }
        if random(200) == 0 {
            b.pulse(pulse::CLOSED, 0, 1 << 63 | (50 + random(4)));
        }
    }
    user(&mut b, 0, 1);
    for id in ids {
        for operation in [ipc::SHM_CTL, ipc::MSG_CTL, ipc::SEM_CTL] {
            result(&mut b, &[operation, id as u64, IPC_RMID.into()]);
        }
    }
    for domain in 50..54 {
        b.pulse(pulse::CLOSED, 0, 1 << 63 | domain);
    }
    assert_eq!(b.server.segments.pages, 0);
    assert_eq!(b.server.queues.messages.len(), 0);
    assert_eq!(b.server.sets.undoes.len(), 0);
    assert!(b.server.waiters.is_empty());
    for uid in [1000, 1001] {
        assert_eq!(b.manager.usage(uid).0, 0);
    }
}

#[test]
fn only_who_owns_it_gives_it_away() {
    let mut b = bench();
    let id = result(&mut b, &[ipc::MSG_GET, 9, CREAT | 0o600]) as u64;
    let give = |uid: u64| {
        [
            ipc::MSG_CTL,
            id,
            IPC_SET.into(),
            uid | uid << 32,
            0o660,
            100,
        ]
    };
    user(&mut b, 1001, 51);
    assert_eq!(result(&mut b, &give(1001)), -EPERM);
    user(&mut b, 1000, 50);
    assert_eq!(result(&mut b, &give(1001)), 0);
    user(&mut b, 1001, 51);
    assert_eq!(put(&mut b, id as i64, 1, b"x"), 0);
    let larger = [
        ipc::MSG_CTL,
        id,
        IPC_SET.into(),
        1001 | 1001 << 32,
        0o600,
        1 << 20,
    ];
    assert_eq!(result(&mut b, &larger), -EPERM);
    let limit = [ipc::LIMIT, ipc::Limits::Shmmni.word(), 1, 5];
    assert_eq!(result(&mut b, &limit), -EPERM);
}

#[test]
fn one_process_is_told_once_of_a_message_that_nobody_waits_for() {
    let mut b = bench();
    let words = [ipc::MQ_OPEN, o::RDWR | o::CREAT, 0o600, 4, 100];
    let queue = b.call(0, &words, b"queue", 0).unwrap().minted[0];
    let notify = |how: NotifyHow, signal| [ipc::MQ_NOTIFY, how.word(), signal, 77];
    let send = [ipc::MQ_SEND, 1, 500, 1];
    let receive = [ipc::MQ_RECEIVE, 100, 500];
    let by_signal = notify(NotifyHow::Signal, 10);
    assert_eq!(
        b.result(queue, &notify(NotifyHow::Signal, 65), b""),
        -EINVAL
    );
    assert_eq!(b.result(queue, &[ipc::MQ_NOTIFY, 4], b""), -EINVAL);
    assert_eq!(b.result(queue, &by_signal, b""), 0);
    assert_eq!(b.result(queue, &by_signal, b""), -EBUSY);
    // Another's wish to be told no more is about nothing.
    user(&mut b, 1000, 51);
    assert_eq!(b.result(queue, &notify(NotifyHow::Off, 0), b""), 0);
    assert_eq!(b.result(queue, &by_signal, b""), -EBUSY);
    for _ in 0..2 {
        assert_eq!(b.result(queue, &send, b"x"), 0);
    }
    assert_eq!(b.server.outside.told, [(50, 10, 77, 51)]);
    // The queue is not empty: the next message is nothing new.
    assert_eq!(b.result(queue, &by_signal, b""), 0);
    assert_eq!(b.result(queue, &send, b"x"), 0);
    for _ in 0..3 {
        assert_eq!(b.call(queue, &receive, b"", 100).unwrap().result(), 1);
    }
    assert_eq!(b.server.outside.told.len(), 1);
    // Who waits gets it, and nobody is told; not even of the words' way.
    let waits = b.send(queue, &receive, b"", 0);
    assert_eq!(b.result(queue, &send, b"x"), 0);
    assert!(b.answer(waits).is_some());
    assert_eq!(b.server.outside.told.len(), 1);
    // One that has ended is in nobody's way.
    b.server.outside.ended.push(51);
    user(&mut b, 1000, 50);
    assert_eq!(b.result(queue, &notify(NotifyHow::Nothing, 0), b""), 0);
    assert_eq!(b.result(queue, &send, b"x"), 0);
    assert_eq!(b.server.outside.told.len(), 1);
    assert_eq!(b.result(queue, &by_signal, b""), 0);
    assert_eq!(b.result(queue, &notify(NotifyHow::Off, 0), b""), 0);
    assert_eq!(b.result(queue, &by_signal, b""), 0);
}

#[test]
fn a_portal_is_told_once_and_closed() {
    use cairn_idl::net::{COOKIE_REMOVED, COOKIE_WOKEN};
    let mut b = bench();
    let words = [ipc::MQ_OPEN, o::RDWR | o::CREAT, 0o600, 4, 100];
    let queue = b.call(0, &words, b"queue", 0).unwrap().minted[0];
    let by = |how: NotifyHow, portal| [ipc::MQ_NOTIFY, how.word(), 0, 0, 0, 0, 0, portal];
    let send = [ipc::MQ_SEND, 1, 500, 1];
    let receive = [ipc::MQ_RECEIVE, 100, 500];
    let told = |b: &mut Bench<Ipc<World>>| {
        let told = core::mem::take(&mut b.fake.notified);
        let closed = core::mem::take(&mut b.fake.closed);
        (told, closed)
    };
    // What is no use is closed.
    assert_eq!(b.result(queue, &by(NotifyHow::Portal, 0), b""), -EINVAL);
    assert_eq!(b.result(queue, &by(NotifyHow::Signal, 40), b""), -EINVAL);
    assert_eq!(told(&mut b), (vec![], vec![Portal(40)]));
    assert_eq!(b.result(queue, &by(NotifyHow::Portal, 41), b""), 0);
    assert_eq!(b.result(queue, &by(NotifyHow::Portal, 42), b""), -EBUSY);
    assert_eq!(told(&mut b), (vec![], vec![Portal(42)]));
    for _ in 0..2 {
        assert_eq!(b.result(queue, &send, b"x"), 0);
    }
    let woken = (vec![(Portal(41), COOKIE_WOKEN)], vec![Portal(41)]);
    assert_eq!(told(&mut b), woken);
    for _ in 0..2 {
        assert_eq!(b.call(queue, &receive, b"", 100).unwrap().result(), 1);
    }
    let removed = |portal| (vec![(Portal(portal), COOKIE_REMOVED)], vec![Portal(portal)]);
    // Taken back; in the way when its process has ended; with its queue.
    assert_eq!(b.result(queue, &by(NotifyHow::Portal, 43), b""), 0);
    assert_eq!(b.result(queue, &by(NotifyHow::Off, 0), b""), 0);
    assert_eq!(told(&mut b), removed(43));
    assert_eq!(b.result(queue, &by(NotifyHow::Portal, 44), b""), 0);
    b.server.outside.ended.push(50);
    user(&mut b, 1000, 51);
    assert_eq!(b.result(queue, &by(NotifyHow::Portal, 45), b""), 0);
    assert_eq!(told(&mut b), removed(44));
    assert_eq!(b.result(0, &[ipc::MQ_UNLINK], b"queue"), 0);
    b.close(queue);
    assert_eq!(told(&mut b), removed(45));
}

#[test]
fn posix_queues_are_files_with_an_order() {
    let mut b = bench();
    let open = |b: &mut Bench<Ipc<World>>, flags: u64, most: u64, size: u64| {
        let words = [ipc::MQ_OPEN, flags, 0o600, most, size];
        let answer = b.call(0, &words, b"queue", 0).unwrap();
        match answer.minted.first() {
            Some(badge) => Ok(*badge),
            None => Err(answer.result()),
        }
    };
    assert_eq!(open(&mut b, o::RDWR, 0, 0), Err(-ENOENT));
    assert_eq!(open(&mut b, o::RDWR | o::CREAT, 11, 10), Err(-EINVAL));
    assert_eq!(open(&mut b, o::RDWR | o::CREAT, 10, 8192 * 2), Err(-EINVAL));
    let queue = open(&mut b, o::RDWR | o::CREAT, 2, 100).unwrap();
    let reads = open(&mut b, o::RDONLY | o::NONBLOCK, 0, 0).unwrap();
    let send = |priority: u64, length: u64| [ipc::MQ_SEND, priority, 500, length];
    let receive = [ipc::MQ_RECEIVE, 100, 500];
    assert_eq!(b.result(reads, &send(1, 1), b"x"), -EBADF);
    assert_eq!(b.result(queue, &send(1, 60), &[7; 60]), 0);
    assert_eq!(b.result(queue, &send(9, 3), b"two"), 0);
    let waits = b.send(queue, &send(3, 4), b"last", 0);
    assert!(b.answer(waits).is_none());
    let first = b.call(reads, &receive, b"", 0).unwrap();
    assert_eq!(first.words[..2], [3, 9]);
    assert_eq!(b.answer(waits).unwrap().result(), 0);
    assert_eq!(
        b.call(reads, &receive, b"", 100).unwrap().words[..2],
        [4, 3]
    );
    assert_eq!(b.call(reads, &receive, b"", 0).unwrap().result(), -EFBIG);
    assert_eq!(b.call(reads, &receive, b"", 100).unwrap().bytes(), [7; 60]);
    assert_eq!(b.call(reads, &receive, b"", 0).unwrap().result(), -EAGAIN);
    let late = b.send(queue, &receive, b"", 0);
    b.fake.time = 600;
    b.time_out();
    assert_eq!(b.answer(late).unwrap().result(), -ETIMEDOUT);
    assert_eq!(b.result(queue, &send(1, 1), b"x"), 0);
    let unlink = [ipc::MQ_UNLINK];
    user(&mut b, 1001, 51);
    assert_eq!(open(&mut b, o::RDONLY, 0, 0), Err(-EACCES));
    assert_eq!(b.result(0, &unlink, b"queue"), -EPERM);
    user(&mut b, 1000, 50);
    // What counts for the limit is the queue when it is full.
    let other = [ipc::MQ_OPEN, o::RDWR | o::CREAT, 0o600, 10, 8192 * 2];
    b.label = label::make(0, 0);
    assert_eq!(b.call(0, &other, b"other", 0).unwrap().result(), -EMFILE);
    user(&mut b, 1000, 50);
    assert_eq!(b.result(0, &unlink, b"queue"), 0);
    assert_eq!(b.result(0, &unlink, b"queue"), -ENOENT);
    assert_eq!(b.call(reads, &receive, b"", 0).unwrap().words[..2], [1, 1]);
    assert_eq!(b.result(queue, &send(1, 1), b"x"), 0);
    for badge in [queue, reads] {
        b.close(badge);
    }
    assert_eq!(b.server.posix.messages(), 0);
    assert_eq!(b.server.posix.all.len(), 0);
    assert!(b.server.posix.users.is_empty());
    assert_eq!(b.manager.usage(1000).0, 0);
}

#[test]
fn an_identifier_can_be_wished_once() {
    use ipc::Limits::*;
    let mut b = bench();
    for (which, get) in [
        (MsgNextId, [ipc::MSG_GET, 0, 0o1600, 0]),
        (SemNextId, [ipc::SEM_GET, 0, 1, 0o1600]),
        (ShmNextId, [ipc::SHM_GET, 0, 4096, 0o1600]),
    ] {
        let set = [ipc::LIMIT, which.word(), 1, 5 << 15];
        user(&mut b, 1000, 50);
        assert_eq!(result(&mut b, &set), -EPERM);
        b.label = label::make(0, 0);
        assert_eq!(
            result(&mut b, &[ipc::LIMIT, which.word(), 1, 1 << 31]),
            -EINVAL
        );
        assert_eq!(result(&mut b, &set), 0);
        let is = |b: &mut Bench<Ipc<World>>| {
            let words = [ipc::LIMIT, which.word(), 0, 0];
            b.call(0, &words, b"", 0).unwrap().words[1]
        };
        assert_eq!(is(&mut b), 5 << 15);
        assert_eq!(result(&mut b, &get), 5 << 15, "{which:?}");
        assert_eq!(is(&mut b), u64::MAX);
        // The place is not free: another one, of the same sequence.
        assert_eq!(result(&mut b, &set), 0);
        assert_eq!(result(&mut b, &get), 5 << 15 | 1);
        assert_ne!(result(&mut b, &get) >> 15, 5);
    }
}

#[test]
fn posix_queues_keep_to_limits_that_can_be_set() {
    use ipc::Limits::*;
    let mut b = bench();
    let open = |b: &mut Bench<Ipc<World>>, name: &[u8], most: u64, size: u64| {
        let words = [ipc::MQ_OPEN, o::RDWR | o::CREAT, 0o600, most, size];
        let answer = b.call(0, &words, name, 0).unwrap();
        match answer.minted.first() {
            Some(_) => 0,
            None => answer.result(),
        }
    };
    let set = |b: &mut Bench<Ipc<World>>, which: ipc::Limits, value: u64| {
        result(b, &[ipc::LIMIT, which.word(), 1, value])
    };
    assert_eq!(set(&mut b, MqMsgMax, 4), -EPERM);
    b.label = label::make(0, 0);
    for (which, wrong, right) in [
        (MqMsgMax, [0, 65537], 4),
        (MqMsgsizeMax, [127, (16 << 20) + 1], 300),
        (MqMsgDefault, [0, 65537], 7),
        (MqMsgsizeDefault, [127, (16 << 20) + 1], 200),
        (MqQueuesMax, [1 << 31, u64::MAX], 2),
    ] {
        for wrong in wrong {
            assert_eq!(set(&mut b, which, wrong), -EINVAL);
        }
        assert_eq!(set(&mut b, which, right), 0);
    }
    user(&mut b, 1000, 50);
    assert_eq!(open(&mut b, b"a", 5, 300), -EINVAL);
    assert_eq!(open(&mut b, b"a", 4, 301), -EINVAL);
    assert_eq!(open(&mut b, b"a", 4, 300), 0);
    // Without attributes: what is usual, and no more than the most.
    assert_eq!(open(&mut b, b"b", u64::MAX, 0), 0);
    let is = |(_, queue): (u32, &Queue)| (queue.most, queue.size) == (4, 200);
    assert!(b.server.posix.all.iter().any(is));
    assert_eq!(open(&mut b, b"c", 1, 1), -ENOSPC);
}

/// A process in a group: the group pays, and gets back what goes.
#[test]
fn who_is_in_a_group_has_it_pay() {
    let mut b = bench();
    let group = 0xf000_0007;
    b.fake.account_of.insert(50, group);
    b.label |= label::GROUPED;
    let get = b.result(0, &[ipc::MSG_GET, 0, CREAT | 0o600], b"") as u64;
    let set = b.result(0, &[ipc::SEM_GET, 0, 1, CREAT | 0o600], b"") as u64;
    let segment = b.result(0, &[ipc::SHM_GET, 0, 4096, CREAT | 0o600], b"") as u64;
    let open = [ipc::MQ_OPEN, o::RDWR | o::CREAT, 0o600, 10, 60];
    let queue = b.call(0, &open, b"queue", 0).unwrap().minted[0];
    assert_eq!(b.manager.usage(1000).0, 0);
    assert!(b.manager.usage(group).0 > 4096);
    // The limit of queues stays the user's.
    assert_eq!(
        b.server.posix.users.keys().copied().collect::<Vec<_>>(),
        [1000]
    );
    for (operation, id) in [
        (ipc::MSG_CTL, get),
        (ipc::SEM_CTL, set),
        (ipc::SHM_CTL, segment),
    ] {
        assert_eq!(b.result(0, &[operation, id, IPC_RMID.into()], b""), 0);
    }
    assert_eq!(b.result(0, &[ipc::MQ_UNLINK], b"queue"), 0);
    b.close(queue);
    assert!(b.server.posix.users.is_empty());
    assert_eq!(b.manager.usage(group).0, 0);
}
