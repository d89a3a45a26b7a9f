//! The server against processes of the imagination, and against a simple model of rings.

use crate::caller::Process;
use crate::server::{Keys, Outside, NUMBERED};
use crate::store::Store;
use cairn_abi::pulse;
use cairn_idl::errno::*;
use cairn_idl::keys::{self, Command, Limits, Listing};
use cairn_idl::label;
use cairn_idl::proc::KeyRings;
use cairn_resmgr::fake::{Answer, Bench};
use std::collections::{BTreeMap, BTreeSet};

/// What `proc` keeps.
#[derive(Default)]
struct World {
    /// Session, program, user, parent.
    processes: BTreeMap<u32, (u64, u64, u32, u32)>,
    /// Numbers that nobody has any more, of which the server is to hear.
    gone: Vec<u64>,
    seed: u64,
    full: bool,
}

impl World {
    fn has(&self, number: u64) -> bool {
        let mut all = self.processes.values();
        number == 0 || all.any(|&(session, program, ..)| session == number || program == number)
    }

    fn leave(&mut self, number: u64) {
        if !self.has(number) {
            self.gone.push(number);
        }
    }
}

impl Outside for World {
    fn process(&mut self, domain: u32) -> Option<Process> {
        let (session, program, uid, parent) = *self.processes.get(&domain)?;
        Some(Process {
            groups: [77; 32],
            count: usize::from(uid == 1001),
            session,
            program,
            uid,
            gid: uid,
            above: self.processes.get(&parent).map_or(0, |of| of.0),
        })
    }

    fn keep(&mut self, domain: u32, whose: KeyRings, number: u64) -> Result<(), i64> {
        if self.full {
            return Err(ENOMEM);
        }
        let domain = match whose {
            KeyRings::Parent => self.processes[&domain].3,
            _ => domain,
        };
        let process = self.processes.get_mut(&domain).ok_or(EPERM)?;
        let place = match whose {
            KeyRings::Program => &mut process.1,
            _ => &mut process.0,
        };
        let old = core::mem::replace(place, number);
        self.leave(old);
        Ok(())
    }

    fn random(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.seed >> 33
    }
}

type Keyring = Bench<Keys<World>>;

const SESSION: i64 = -3;

fn bench() -> Keyring {
    let mut b = Bench::new(Keys::new(World::default()), b"keys:");
    b.fake.wall = 1_000_000_000_000;
    for (domain, uid) in [(50, 1000), (51, 1000), (60, 1001), (70, 0)] {
        let process = (0, 0, uid, 0);
        b.server.outside.processes.insert(domain, process);
    }
    user(&mut b, 50);
    b
}

fn user(b: &mut Keyring, domain: u32) {
    let uid = b.server.outside.processes.get(&domain).map_or(9, |of| of.2);
    b.label = label::make(uid, uid);
    b.sender = domain;
}

/// Portals that `proc` has closed, and work that was put off.
fn settle(b: &mut Keyring) {
    while let Some(number) = b.server.outside.gone.pop() {
        b.pulse(pulse::CLOSED, 0, NUMBERED | number);
    }
    while !b.server.store.is_settled() {
        b.time_out();
        b.background();
    }
}

fn end(b: &mut Keyring, domain: u32) {
    if let Some((session, program, ..)) = b.server.outside.processes.remove(&domain) {
        b.server.outside.leave(session);
        b.server.outside.leave(program);
    }
    settle(b);
}

fn add(b: &mut Keyring, kind: &str, name: &str, payload: &[u8], ring: i64) -> i64 {
    let words = [keys::ADD, ring as u64, kind.len() as u64, name.len() as u64];
    let text = [kind.as_bytes(), name.as_bytes(), payload].concat();
    b.result(0, &words, &text)
}

fn request(b: &mut Keyring, kind: &str, name: &str) -> i64 {
    let words = [keys::REQUEST, 0, kind.len() as u64, name.len() as u64];
    b.result(0, &words, &[kind.as_bytes(), name.as_bytes()].concat())
}

fn words(command: Command, arguments: &[i64]) -> Vec<u64> {
    let mut words = vec![keys::CONTROL, command.word()];
    words.extend(arguments.iter().map(|&word| word as u64));
    words
}

fn control(b: &mut Keyring, command: Command, arguments: &[i64]) -> i64 {
    b.result(0, &words(command, arguments), b"")
}

fn read(b: &mut Keyring, key: i64) -> Answer {
    let words = words(Command::Read, &[key]);
    b.call(0, &words, b"", 1 << 20).unwrap()
}

fn keys_of(b: &mut Keyring, ring: i64) -> BTreeSet<i64> {
    let answer = read(b, ring);
    let serials = answer.bytes().as_chunks::<4>().0.iter();
    serials
        .map(|four| i32::from_le_bytes(*four).into())
        .collect()
}

/// What always holds of the tables.
fn check(b: &Keyring) {
    let store: &Store = &b.server.store;
    let mut holders: BTreeMap<u32, u32> = BTreeMap::new();
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for (&(content, name), link) in &store.links {
        *holders.entry(link.key).or_default() += 1;
        *counts.entry(content).or_default() += 1;
        let key = store.keys.get(link.key).unwrap();
        assert_eq!(key.name, name);
        assert_eq!(store.inner.contains(&(content, link.key)), key.is_ring());
    }
    for holder in b.server.holders.values() {
        let rings: Vec<u32> = match holder {
            crate::caller::Holder::Session { ring, .. } => vec![*ring],
            crate::caller::Holder::Program {
                process, threads, ..
            } => process.iter().chain(threads.values()).copied().collect(),
        };
        for ring in rings {
            *holders.entry(ring).or_default() += 1;
        }
    }
    for user in store.users.values() {
        for ring in user.rings.iter().flatten() {
            *holders.entry(*ring).or_default() += 1;
        }
    }
    let mut users: BTreeMap<u32, (u32, u64, u64)> = BTreeMap::new();
    for (at, key) in store.keys.iter() {
        assert_eq!(key.holders, holders.get(&at).copied().unwrap_or(0));
        assert_ne!(key.holders, 0, "nobody holds {key:?}");
        assert_eq!(store.serials.get(&key.serial), Some(&at));
        let count = counts.get(&key.content).copied().unwrap_or(0);
        assert_eq!(key.count, count);
        let text = store.text_of(key).len() as u64;
        let bytes = text + 1 + key.kind.counts(key.payload.len()) + 4 * count;
        assert_eq!(key.bytes, bytes);
        let user = users.entry(key.uid).or_default();
        user.0 += 1;
        if key.counted {
            user.1 += 1;
            user.2 += bytes;
        }
    }
    let told = store.users.iter().map(|(uid, user)| {
        let sums = (user.keys, user.counted, user.bytes);
        (*uid, sums)
    });
    assert_eq!(told.collect::<BTreeMap<_, _>>(), users);
}

#[test]
fn rings_follow_processes() {
    let mut b = bench();
    let session = control(&mut b, Command::JoinSessionKeyring, &[0]);
    let key = add(&mut b, "user", "k", b"text", SESSION);
    assert!(session > 2 && key > 2);
    let own = add(&mut b, "user", "p", b"text", -2);
    let of_thread = add(&mut b, "user", "t", b"text", -1);
    assert!(own > 2 && of_thread > 2);
    // A child has the session, and nothing of the program.
    let number = b.server.outside.processes[&50].0;
    b.server.outside.processes.insert(52, (number, 0, 1000, 50));
    user(&mut b, 52);
    assert_eq!(request(&mut b, "user", "k"), key);
    assert_eq!(request(&mut b, "user", "p"), -ENOKEY);
    assert_eq!(control(&mut b, Command::GetKeyringId, &[-2, 0]), -ENOKEY);
    // Another thread of the process has the process's ring only. (Threads are told by the request's token.)
    user(&mut b, 50);
    assert_eq!(request(&mut b, "user", "p"), own);
    end(&mut b, 50);
    check(&b);
    user(&mut b, 52);
    assert_eq!(read(&mut b, own).result(), -ENOKEY);
    assert_eq!(read(&mut b, key).bytes(), b"text");
    end(&mut b, 52);
    check(&b);
    assert_eq!(b.server.store.keys.len(), 0);
    assert_eq!(b.manager.usage(1000).0, 0);
}

#[test]
fn a_session_is_given_to_the_parent_only_by_its_owner() {
    let mut b = bench();
    b.server.outside.processes.insert(52, (0, 0, 1000, 50));
    user(&mut b, 52);
    let ring = control(&mut b, Command::JoinSessionKeyring, &[0]);
    assert_eq!(control(&mut b, Command::SessionToParent, &[]), 0);
    settle(&mut b);
    user(&mut b, 50);
    assert_eq!(control(&mut b, Command::GetKeyringId, &[SESSION, 0]), ring);
    end(&mut b, 52);
    assert_eq!(control(&mut b, Command::GetKeyringId, &[SESSION, 0]), ring);
    // `proc` has no room: nothing is left of the attempt.
    b.server.outside.full = true;
    let before = b.server.store.keys.len();
    assert_eq!(control(&mut b, Command::JoinSessionKeyring, &[0]), -ENOMEM);
    assert_eq!(b.server.store.keys.len(), before);
    check(&b);
}

#[test]
fn strangers_get_nothing() {
    let mut b = bench();
    let key = add(&mut b, "user", "secret", b"text", SESSION);
    let own = control(&mut b, Command::GetKeyringId, &[SESSION, 0]);
    // A component, which is no process.
    user(&mut b, 99);
    assert_eq!(read(&mut b, key).result(), -EPERM);
    // Another user's process that knows the number.
    user(&mut b, 60);
    assert_eq!(read(&mut b, key).result(), -EACCES);
    for command in [
        Command::Revoke,
        Command::Describe,
        Command::Invalidate,
        Command::SetTimeout,
    ] {
        assert_eq!(control(&mut b, command, &[key]), -EACCES);
    }
    assert_eq!(control(&mut b, Command::Link, &[key, SESSION]), -EACCES);
    assert_eq!(add(&mut b, "user", "mine", b"x", own), -EACCES);
    assert_eq!(control(&mut b, Command::Clear, &[own]), -EACCES);
    // And root is nobody in particular.
    user(&mut b, 70);
    assert_eq!(read(&mut b, key).result(), -EACCES);
    // What a reader may see is asked by the badge for that, and by nobody else.
    let list = [
        keys::LIST,
        Listing::Keys.word(),
        50,
        label::make(1000, 1000),
        0,
    ];
    assert_eq!(b.call(0, &list, b"", 65536).unwrap().result(), -EPERM);
    let listed = b.call(keys::READER, &list, b"", 65536).unwrap();
    let text = String::from_utf8(listed.bytes().to_vec()).unwrap();
    assert!(text.contains("user      secret: 4\n"), "{text}");
    let other = [keys::LIST, 0, 60, label::make(1001, 1001), 0];
    let listed = b.call(keys::READER, &other, b"", 65536).unwrap();
    let text = String::from_utf8(listed.bytes().to_vec()).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let words = [keys::ADD, SESSION as u64, 4, 1];
    assert_eq!(b.result(keys::READER, &words, b"userax"), -ENOSYS);
    // Limits are the administrator's.
    let limit = [keys::LIMIT, Limits::Maxkeys.word(), 1, 5];
    user(&mut b, 60);
    assert_eq!(b.result(0, &limit, b""), -EPERM);
    user(&mut b, 70);
    assert_eq!(b.result(0, &limit, b""), 0);
    assert_eq!(b.server.store.limits.maxkeys, 5);
}

#[test]
fn lengths_that_are_no_lengths_are_refused() {
    let mut b = bench();
    for lengths in [
        [0, 1],
        [4, u64::MAX],
        [u64::MAX, 4],
        [4, 4096],
        [32, 1],
        [4, 100],
    ] {
        let [kind, name] = lengths;
        let words = [keys::ADD, SESSION as u64, kind, name];
        assert_eq!(b.result(0, &words, b"useraxyz"), -EINVAL, "{lengths:?}");
        let words = [keys::REQUEST, 0, kind, name];
        assert_eq!(b.result(0, &words, b"useraxyz"), -EINVAL, "{lengths:?}");
        let words = words_of_search(kind, name);
        assert_eq!(b.result(0, &words, b"useraxyz"), -EINVAL, "{lengths:?}");
    }
    assert_eq!(add(&mut b, "user", "a\0b", b"x", SESSION), -EINVAL);
    assert_eq!(
        add(&mut b, "big_key", "a", &[7; 200_000], SESSION).min(1),
        1
    );
    let big = request(&mut b, "big_key", "a");
    assert_eq!(read(&mut b, big).result(), 200_000);
    // What is more than the user may have here is not kept.
    let before = b.server.store.keys.len();
    b.fake.charge_limit = Some(60);
    assert_eq!(add(&mut b, "big_key", "b", &[7; 200_000], SESSION), -ENOMEM);
    assert_eq!(b.server.store.keys.len(), before);
    check(&b);
}

fn words_of_search(kind: u64, name: u64) -> [u64; 6] {
    let search = Command::Search.word();
    [keys::CONTROL, search, SESSION as u64, kind, name, 0]
}

#[test]
fn who_keeps_keys_pays_for_them() {
    let mut b = bench();
    control(&mut b, Command::JoinSessionKeyring, &[0]);
    for number in 0..100 {
        assert!(add(&mut b, "user", &number.to_string(), &[1; 100], SESSION) > 0);
    }
    assert!(b.manager.usage(1000).0 > 10_000);
    // Somebody else's link to them is its own.
    let ring = control(&mut b, Command::GetKeyringId, &[SESSION, 0]);
    assert_eq!(control(&mut b, Command::Setperm, &[ring, 0x3f3f_3f3f]), 0);
    user(&mut b, 60);
    assert_eq!(control(&mut b, Command::Link, &[ring, SESSION]), 0);
    assert!(b.manager.usage(1001).0 > 0);
    user(&mut b, 50);
    end(&mut b, 50);
    check(&b);
    assert!(b.manager.usage(1000).0 > 10_000);
    end(&mut b, 60);
    check(&b);
    // (What the users' own rings cost stays.)
    for uid in [1000, 1001] {
        let user = b.server.store.users.get(&uid);
        assert_eq!(user.map_or(0, |user| user.keys), 2 * u32::from(uid == 1001));
    }
    assert_eq!(b.manager.usage(1000).0, 0);
}

#[test]
fn times_pass() {
    let mut b = bench();
    let key = add(&mut b, "user", "k", b"x", SESSION);
    assert_eq!(control(&mut b, Command::SetTimeout, &[key, 5]), 0);
    b.fake.time += 6_000_000_000;
    assert_eq!(read(&mut b, key).result(), -EKEYEXPIRED);
    assert_eq!(request(&mut b, "user", "k"), -ENOKEY);
    assert!(keys_of(&mut b, SESSION).contains(&key));
    assert!(b.deadline().is_some());
    b.fake.time += 300_000_000_000;
    b.time_out();
    while b.background() {}
    settle(&mut b);
    assert!(!keys_of(&mut b, SESSION).contains(&key));
    assert_eq!(read(&mut b, key).result(), -ENOKEY);
    // A user's own ring that is gone is made again.
    let own = control(&mut b, Command::GetKeyringId, &[-4, 0]);
    assert_eq!(control(&mut b, Command::Invalidate, &[own]), 0);
    settle(&mut b);
    let again = control(&mut b, Command::GetKeyringId, &[-4, 0]);
    assert!(again > 0 && again != own);
    check(&b);
    // Also while the old one is a long time leaving, because other rings leave before it.
    let left = add(&mut b, "keyring", "left", b"", SESSION);
    for at in 0..300 {
        add(&mut b, "user", &format!("l{at}"), b"x", left);
    }
    assert_eq!(control(&mut b, Command::Unlink, &[left, SESSION]), 0);
    assert_eq!(control(&mut b, Command::Invalidate, &[again]), 0);
    let third = control(&mut b, Command::GetKeyringId, &[-4, 0]);
    assert!(third > 0 && third != again);
    settle(&mut b);
    assert_eq!(control(&mut b, Command::GetKeyringId, &[-4, 0]), third);
    check(&b);
}

#[test]
fn a_persistent_ring_that_was_revoked_has_a_successor() {
    let mut b = bench();
    let first = control(&mut b, Command::GetPersistent, &[-1, SESSION]);
    assert!(first > 0);
    assert_eq!(
        control(&mut b, Command::GetPersistent, &[-1, SESSION]),
        first
    );
    // (Its possessor may write to it.)
    assert_eq!(control(&mut b, Command::Revoke, &[first]), 0);
    let second = control(&mut b, Command::GetPersistent, &[-1, SESSION]);
    assert!(second > 0 && second != first, "{second}");
    settle(&mut b);
    check(&b);
}

#[test]
fn lists_show_what_the_reader_possesses_and_nothing_else() {
    let mut b = bench();
    // A key that only a possessor may see, two rings deep; one that nobody links any more is gone; another user's.
    let ring = add(&mut b, "keyring", "r", b"", SESSION);
    let inner = add(&mut b, "keyring", "i", b"", ring);
    let key = add(&mut b, "user", "hidden", b"x", inner);
    assert_eq!(control(&mut b, Command::Setperm, &[key, 0x3f00_0000]), 0);
    let list = |b: &mut Keyring, domain: u64, uid: u32| {
        let words = [
            keys::LIST,
            Listing::Keys.word(),
            domain,
            label::make(uid, uid),
            0,
        ];
        let answer = b.call(1, &words, b"", 65536).unwrap();
        String::from_utf8_lossy(answer.bytes()).into_owned()
    };
    assert!(list(&mut b, 50, 1000).contains("hidden"));
    assert!(!list(&mut b, 60, 1001).contains("hidden"));
    // A ring on the way that may not be searched.
    assert_eq!(control(&mut b, Command::Setperm, &[inner, 0x3500_0000]), 0);
    assert!(!list(&mut b, 50, 1000).contains("hidden"));
}

#[test]
fn ten_thousand_keys_are_no_more_than_one() {
    let mut b = bench();
    user(&mut b, 70);
    control(&mut b, Command::JoinSessionKeyring, &[0]);
    for number in 0..10_000 {
        let name = number.to_string();
        assert!(add(&mut b, "user", &name, b"x", SESSION) > 0);
    }
    assert_eq!(keys_of(&mut b, SESSION).len(), 10_000);
    assert!(request(&mut b, "user", "9999") > 0);
    // Clearing leaves the content to later, in pieces.
    assert_eq!(control(&mut b, Command::Clear, &[SESSION]), 0);
    assert!(b.server.store.keys.len() > 9_000);
    assert_eq!(keys_of(&mut b, SESSION).len(), 0);
    settle(&mut b);
    check(&b);
    // The session's ring is left.
    assert_eq!(b.server.store.keys.len(), 1);
}

/// Rings by number: what is in them, by type and name.
#[derive(Default)]
struct Model {
    rings: BTreeMap<i64, BTreeMap<(bool, u64), i64>>,
    /// Type (a ring or not), name, payload, whether it was revoked.
    keys: BTreeMap<i64, (bool, u64, usize, bool)>,
}

impl Model {
    fn reaches(&self, from: i64, to: i64) -> bool {
        let inner = self.rings.get(&from).into_iter().flatten();
        from == to || inner.into_iter().any(|(_, &below)| self.reaches(below, to))
    }

    fn height(&self, ring: i64) -> usize {
        let inner = self.rings[&ring]
            .iter()
            .filter(|((is_ring, _), _)| *is_ring);
        inner
            .map(|(_, &below)| 1 + self.height(below))
            .max()
            .unwrap_or(0)
    }

    /// What nobody reaches any more goes.
    fn forget(&mut self, root: i64) {
        let reached: BTreeSet<i64> = self.keys.keys().copied().collect();
        let reached = reached.into_iter().filter(|&key| self.reaches(root, key));
        let reached: BTreeSet<i64> = reached.collect();
        self.keys.retain(|key, _| reached.contains(key));
        self.rings.retain(|key, _| reached.contains(key));
    }

    fn live(&self, key: i64) -> Result<(bool, u64), i64> {
        match self.keys.get(&key) {
            None => Err(-ENOKEY),
            Some((.., true)) => Err(-EKEYREVOKED),
            Some(&(is_ring, name, ..)) => Ok((is_ring, name)),
        }
    }

    fn may_link(&self, ring: i64, key: i64) -> Result<(), i64> {
        if !self.live(ring)?.0 {
            return Err(-ENOTDIR);
        }
        let cycle = self.keys[&key].0 && self.reaches(key, ring);
        let deep = self.keys[&key].0 && self.height(key) > 6;
        match (cycle, deep) {
            // Either is right if both are.
            (true, _) => Err(-EDEADLK),
            (_, true) => Err(-ELOOP),
            _ => Ok(()),
        }
    }
}

/// Numbers below what is asked for, the same each time.
fn random(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

fn is_circle(result: i64) -> bool {
    [-EDEADLK, -ELOOP].contains(&result)
}

#[test]
fn rings_are_as_a_simple_model_has_them() {
    for seed in 1..40u64 {
        let mut random = random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut b = bench();
        b.server.outside.seed = seed;
        let root = control(&mut b, Command::JoinSessionKeyring, &[0]);
        let mut model = Model::default();
        model.keys.insert(root, (true, 99, 0, false));
        model.rings.insert(root, BTreeMap::new());
        let mut known = vec![root];
        for _ in 0..600 {
            let ring = known[random(known.len() as u64) as usize];
            let key = known[random(known.len() as u64) as usize];
            let (operation, name) = (random(9), random(12));
            let text = name.to_string();
            match operation {
                0..=2 => {
                    let is_ring = operation == 2;
                    let length = if is_ring { 0 } else { 1 + random(50) as usize };
                    let kind = if is_ring { "keyring" } else { "user" };
                    let result = add(&mut b, kind, &text, &vec![1; length], ring);
                    let expected = model.live(ring).and_then(|(is_ring, _)| match is_ring {
                        true => Ok(()),
                        false => Err(-ENOTDIR),
                    });
                    assert_eq!(expected.err().unwrap_or(result), result, "{seed}");
                    if expected.is_ok() {
                        assert!(result > 0, "{result}");
                        let there = model.rings[&ring].get(&(is_ring, name)).copied();
                        let updates = there.filter(|key| !is_ring && !model.keys[key].3);
                        assert!(updates.is_none_or(|key| key == result));
                        model.keys.insert(result, (is_ring, name, length, false));
                        if is_ring {
                            model.rings.insert(result, BTreeMap::new());
                        }
                        let inner = model.rings.get_mut(&ring).unwrap();
                        inner.insert((is_ring, name), result);
                        known.push(result);
                    }
                }
                3 | 4 => {
                    let result = control(&mut b, Command::Link, &[key, ring]);
                    let expected = model.live(ring).and_then(|_| model.live(key)).and_then(
                        |(is_ring, name)| model.may_link(ring, key).map(|()| (is_ring, name)),
                    );
                    match expected {
                        Err(error) if is_circle(error) => assert!(is_circle(result), "{result}"),
                        Err(error) => assert_eq!(result, error, "{seed}"),
                        Ok(name) => {
                            assert_eq!(result, 0, "{seed}");
                            model.rings.get_mut(&ring).unwrap().insert(name, key);
                        }
                    }
                }
                5 => {
                    let result = control(&mut b, Command::Unlink, &[key, ring]);
                    let expected = match (model.live(ring), model.keys.get(&key)) {
                        (Err(error), _) => error,
                        (_, None) => -ENOKEY,
                        (Ok((false, _)), _) => -ENOTDIR,
                        (_, Some(&(is_ring, name, ..))) => {
                            let inner = model.rings.get_mut(&ring).unwrap();
                            match inner.get(&(is_ring, name)) == Some(&key) {
                                true => {
                                    inner.remove(&(is_ring, name));
                                    0
                                }
                                false => -ENOENT,
                            }
                        }
                    };
                    assert_eq!(result, expected, "{seed}");
                }
                6 if random(4) == 0 && ring != root => {
                    let result = control(&mut b, Command::Clear, &[ring]);
                    let expected = match model.live(ring) {
                        Err(error) => error,
                        Ok((false, _)) => -ENOTDIR,
                        Ok(_) => {
                            model.rings.get_mut(&ring).unwrap().clear();
                            0
                        }
                    };
                    assert_eq!(result, expected, "{seed}");
                }
                7 if random(3) == 0 && key != root => {
                    let result = control(&mut b, Command::Revoke, &[key]);
                    match model.live(key) {
                        Err(error) => assert_eq!(result, error, "{seed}"),
                        Ok(_) => {
                            assert_eq!(result, 0);
                            model.keys.get_mut(&key).unwrap().3 = true;
                            if let Some(inner) = model.rings.get_mut(&key) {
                                inner.clear();
                            }
                        }
                    }
                }
                8 if random(3) == 0 && key != root => {
                    let result = control(&mut b, Command::Invalidate, &[key]);
                    match model.live(key) {
                        Err(error) => assert_eq!(result, error, "{seed}"),
                        Ok(_) => {
                            assert_eq!(result, 0);
                            for inner in model.rings.values_mut() {
                                inner.retain(|_, there| *there != key);
                            }
                        }
                    }
                }
                _ => {}
            }
            settle(&mut b);
            model.forget(root);
            let serials = b.server.store.serials.keys();
            let there: BTreeSet<i64> = serials.map(|&serial| serial.into()).collect();
            let expected: BTreeSet<i64> = model.keys.keys().copied().collect();
            assert_eq!(there, expected, "{seed}");
        }
        check(&b);
        for (&ring, inner) in &model.rings {
            if !model.keys[&ring].3 {
                let expected: BTreeSet<i64> = inner.values().copied().collect();
                assert_eq!(keys_of(&mut b, ring), expected);
            }
        }
        end(&mut b, 50);
        assert_eq!(b.server.store.keys.len(), 0);
        assert_eq!(b.manager.usage(1000).0, 0);
    }
}

#[test]
fn whatever_is_asked_ends() {
    let mut random = random(0x1234_5678_9abc_def1);
    let mut b = bench();
    b.server.store.limits.maxkeys = 60;
    let mut known = vec![0i64];
    let domains = [50, 51, 60, 70, 99];
    for _ in 0..30_000 {
        user(&mut b, domains[random(5) as usize]);
        let operation = [64, 65, 66, 66, 66, 66, 67, 72, 73][random(9) as usize];
        let mut words = [operation, 0, 0, 0, 0, 0, 0, 0];
        for word in &mut words[1..] {
            *word = match random(8) {
                0 => u64::MAX - random(9),
                1..=3 => known[random(known.len() as u64) as usize] as u64,
                4 => random(u64::MAX),
                5 => 0x3f3f_3f3f,
                _ => random(33),
            };
        }
        let text: &[u8] = match operation {
            64 | 65 => {
                (words[2], words[3]) = match random(2) {
                    0 => (4, 1 + random(3)),
                    _ => (7, 1 + random(3)),
                };
                if words[2] == 4 {
                    b"useraaaaaaa"
                } else {
                    b"keyringaaa"
                }
            }
            _ => b"useraaaaaa",
        };
        let end = match (operation, words[2]) {
            (64, 7) => 7 + words[3] as usize,
            _ => text.len() - random(3) as usize,
        };
        let badge = u64::from(operation == 73);
        let room = random(2) as usize * 5000;
        let answer = b.call(badge, &words, &text[..end.min(text.len())], room);
        let result = answer.unwrap().result();
        if result > 2 && operation < 67 {
            known.push(result);
        }
        if random(300) == 0 {
            b.fake.time += 200_000_000_000;
            b.time_out();
            while b.background() {}
        }
        if random(200) == 0 {
            let domain = domains[random(4) as usize];
            let uid = b.server.outside.processes[&domain].2;
            end_and_begin(&mut b, domain, uid);
        }
    }
    settle(&mut b);
    check(&b);
}

fn end_and_begin(b: &mut Keyring, domain: u32, uid: u32) {
    end(b, domain);
    let process = (0, 0, uid, 50);
    b.server.outside.processes.insert(domain, process);
}
