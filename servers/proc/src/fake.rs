//! A system of records only, and a world of processes that call the manager as their threads would.

use crate::system::{
    AccountStat, Domain, Entries, Errno, Faults, Slots, Space, SpaceLimits, Start, System,
};
use crate::{Gifts, Manager, Outcome, PrefixPage};
use cairn_abi::layout::{PERSONALITY, PERSONALITY_DATA};
use cairn_abi::service::thread;
use cairn_abi::state::Registers;
use cairn_abi::{pulse, received, Error, Id, Token};
use cairn_idl::errno::{E2BIG, EBADF, EBUSY, EFAULT, ENOMEM, ESRCH};
use cairn_idl::proc::*;
use cairn_random::SEED;
use cairn_rt::{deputy, Portal, Received};
use std::collections::HashMap;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct FakeDomain {
    pub threads: Vec<Id>,
    pub started: Vec<Id>,
    pub pokes: u32,
    pub stops: i32,
    pub label: u64,
    pub watch: u64,
    pub start: Start,
    pub slots: Vec<u32>,
    pub traced: bool,
    /// Processor time, beside what it takes to begin.
    pub cpu: u64,
}

/// What threads notice, in the order in which it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    Poke(Id),
    Reply(Token),
    /// Of the domain with this id.
    Resume(u32),
}

#[derive(Default)]
pub struct Fake {
    /// Threads with deadlines, and the longest run time that there is.
    pub deadlines: BTreeMap<Id, [u64; 3]>,
    pub deadline_room: u64,
    pub periods_ended: u32,
    /// What each account has.
    pub account_pages: u64,
    pub now: u64,
    pub wall: u64,
    pub domains: HashMap<Id, FakeDomain>,
    /// What `out` of the present caller holds; what came into its in part.
    pub out: Vec<u8>,
    pub input: Vec<u8>,
    pub replies: HashMap<Token, [u64; 8]>,
    pub notices: Vec<Notice>,
    pub closed: Vec<Portal>,
    /// Portals that came with messages and are kept.
    pub kept: u32,
    pub notified: Vec<(Portal, u64)>,
    pub powered: Option<(u64, u64)>,
    pub log: Vec<String>,
    pub resets: u32,
    pub account_groups: BTreeMap<u32, u32>,
    pub account_limits: Vec<(u32, u64)>,
    pub full_group: u32,
    pub space_limits: Vec<SpaceLimits>,
    pub oom_adjusted: Vec<(Id, i16)>,
    pub accounts: Vec<(Id, u32)>,
    pub thread_cpu: HashMap<Id, u64>,
    pub maps: Vec<(u64, u64, u64, u64)>,
    pub written: Vec<(u64, Vec<u8>)>,
    /// An address from which nothing can be read, as its page is still a file's.
    pub absent: Option<u64>,
    /// What stands from an address on; 7 everywhere else.
    pub memory: Vec<(u64, Vec<u8>)>,
    /// Portals that were taken from domains and not closed.
    pub taken: Vec<u32>,
    /// Of every thread.
    pub registers: Registers,
    pub priorities: Vec<[u64; 3]>,
    pub next: Id,
    /// The own thread calls; there is none.
    pub background: bool,
    pub no_background: bool,
    /// Domains whose copy takes long, and the priority at which they are copied.
    pub much: BTreeSet<Id>,
    /// What the own thread copies now.
    pub copied: Option<Id>,
    pub forks_level: u8,
    /// From now on so many operations that make something succeed.
    pub successes: Option<u32>,
}

impl Fake {
    fn may_fail(&mut self) -> Result<(), Errno> {
        match &mut self.successes {
            Some(0) => Err(ENOMEM),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn new_domain(&mut self) -> Result<Domain, Errno> {
        self.may_fail()?;
        self.next += 1;
        self.domains.insert(self.next, FakeDomain::default());
        Ok(Domain {
            portal: Portal(self.next + 1000),
            id: self.next,
        })
    }

    pub fn of(&mut self, domain: Domain) -> &mut FakeDomain {
        self.domains.get_mut(&domain.id).expect("domain is gone")
    }
}

/// Of every space.
pub const FAULTS: Faults = Faults { minor: 5, major: 2 };

impl System for Fake {
    fn now(&mut self) -> u64 {
        self.now
    }
    fn wall(&mut self) -> u64 {
        self.wall
    }
    fn set_wall(&mut self, wall: u64) -> bool {
        self.wall = wall;
        true
    }
    fn entropy(&mut self) -> [u8; SEED] {
        [1; SEED]
    }
    fn fork_few(&mut self, parent: Id, share: bool) -> Result<Domain, Errno> {
        match self.much.contains(&parent) && !share {
            true => Err(E2BIG),
            false => self.fork(parent, share, None, 0),
        }
    }
    fn begin_forks(&mut self, level: u8) -> bool {
        self.forks_level = level;
        !self.no_background
    }
    fn set_forks_priority(&mut self, level: u8) {
        self.forks_level = level;
    }
    fn errand(&mut self, parent: Id) -> Result<[u64; 8], Errno> {
        self.may_fail()?;
        Ok([1, parent.into(), 0, 0, 0, 0, 0, 0])
    }
    fn forked(&mut self, words: &[u64; 8]) -> Result<Domain, Errno> {
        match words[1] {
            deputy::DONE => Ok(Domain {
                portal: Portal(words[3] as u32),
                id: words[2] as Id,
            }),
            _ => Err(words[2] as Errno),
        }
    }
    fn begin_background(&mut self) -> bool {
        self.background = !self.no_background;
        self.background
    }
    fn end_background(&mut self) {
        self.background = false;
    }
    fn log(&mut self, line: &str) {
        self.log.push(line.into());
    }
    fn idle(&mut self) -> u64 {
        77
    }
    fn read(&mut self, _: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let from = self.out.get(offset as usize..).ok_or(Error::BadArgument)?;
        let n = from.len().min(into.len());
        into[..n].copy_from_slice(&from[..n]);
        Ok(n)
    }
    fn write(&mut self, _: Token, _: u64, from: &[u8]) -> Result<usize, Error> {
        self.input = from.to_vec();
        Ok(from.len())
    }
    fn reply(&mut self, token: Token, words: [u64; 8]) {
        assert!(token != 0);
        self.notices.push(Notice::Reply(token));
        assert!(self.replies.insert(token, words).is_none(), "replied twice");
    }
    fn close(&mut self, portal: Portal) {
        self.closed.push(portal);
    }
    fn keep(&mut self) -> Result<(), Errno> {
        self.may_fail()?;
        self.kept += 1;
        Ok(())
    }
    fn drop_kept(&mut self, portal: Portal) {
        self.kept -= 1;
        self.closed.push(portal);
    }
    fn notify(&mut self, portal: Portal, value: u64) {
        self.notified.push((portal, value));
    }
    fn power(&mut self, how: u64, code: u64) {
        self.powered = Some((how, code));
    }
    fn create(&mut self) -> Result<Domain, Errno> {
        self.new_domain()
    }
    fn make_common(&mut self, id: Id) -> Result<(), Errno> {
        assert!(self.domains.contains_key(&id));
        self.may_fail()
    }
    fn fork(
        &mut self,
        parent: Id,
        _: bool,
        pays: Option<(u32, bool)>,
        before: Id,
    ) -> Result<Domain, Errno> {
        assert!(self.domains.contains_key(&parent));
        assert!(before == 0 || self.domains.contains_key(&before));
        let domain = self.new_domain()?;
        if let Some((account, _)) = pays {
            self.accounts.push((domain.id, account));
        }
        Ok(domain)
    }
    fn reset(&mut self, id: Id, _: (u64, u64)) -> Result<(), Errno> {
        assert!(self.domains.contains_key(&id));
        self.may_fail()?;
        self.resets += 1;
        Ok(())
    }

    fn adjust_oom(&mut self, id: Id, adjust: i16) {
        assert!(self.domains.contains_key(&id));
        self.oom_adjusted.push((id, adjust));
    }

    fn memory(&mut self) -> u64 {
        65_536
    }

    fn limit_space(&mut self, id: Id, limits: SpaceLimits) {
        assert!(self.domains.contains_key(&id));
        self.space_limits.push(limits);
    }
    fn space(&mut self, _: Id) -> Space {
        Space {
            resident: 10,
            mapped: 20,
            shared: 5,
            locked: 0,
            data: 0,
            faults: FAULTS,
        }
    }
    fn exhausted(&mut self, spared: Id) -> Option<(Id, u32)> {
        let largest = self.domains.keys().filter(|&&id| id != spared).max();
        largest.map(|&id| (id, self.full_group))
    }

    fn account_group(&mut self, account: u32, above: u32, there: bool) -> Result<(), Errno> {
        match there {
            true => self.account_groups.insert(account, above),
            false => self.account_groups.remove(&account),
        };
        Ok(())
    }

    fn limit_account(&mut self, account: u32, pages: u64) -> Result<(), Errno> {
        self.account_limits.push((account, pages));
        Ok(())
    }

    fn account_stat(&mut self, _: u32) -> AccountStat {
        AccountStat {
            held: self.account_pages,
            ..AccountStat::default()
        }
    }
    fn set_account(&mut self, domain: Id, account: u32, _: bool) {
        self.accounts.push((domain, account));
    }
    fn object(&mut self, _: &[u64], _: bool) -> Result<Portal, Errno> {
        self.may_fail()?;
        Ok(Portal(500))
    }
    fn map_object(
        &mut self,
        _: Id,
        _: Portal,
        a: u64,
        l: u64,
        p: u64,
        f: u64,
    ) -> Result<(), Errno> {
        self.may_fail()?;
        self.maps.push((a, l, p, f));
        Ok(())
    }
    fn map(&mut self, _: Id, a: u64, l: u64, p: u64, f: u64) -> Result<(), Errno> {
        self.may_fail()?;
        self.maps.push((a, l, p, f));
        Ok(())
    }
    fn write_into(&mut self, _: Id, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.may_fail()?;
        self.written.push((address, bytes.to_vec()));
        Ok(())
    }
    fn set_up(&mut self, d: Domain, _: Entries, label: u64, watch: u64) -> Result<(), Errno> {
        self.may_fail()?;
        let record = self.of(d);
        record.label = label;
        record.watch = watch;
        Ok(())
    }
    fn turn(&mut self, domain: Domain, _: Entries, traced: bool) {
        self.of(domain).traced = traced;
    }
    fn registers(&mut self, _: Domain, _: Id) -> Option<Registers> {
        Some(self.registers)
    }
    fn take(&mut self, domain: Domain, slot: u32) -> Result<Portal, Errno> {
        let there = self.of(domain).slots.contains(&slot);
        let portal = there.then_some(Portal(5000 + slot)).ok_or(EBADF)?;
        self.taken.push(portal.0);
        Ok(portal)
    }
    fn read_from(&mut self, _: Id, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
        if self.absent == Some(address) {
            return Err(EFAULT);
        }
        let is_in =
            |(at, bytes): &&(u64, Vec<u8>)| (*at..*at + bytes.len() as u64).contains(&address);
        if let Some((at, bytes)) = self.memory.iter().find(is_in) {
            let bytes = &bytes[(address - at) as usize..];
            let count = bytes.len().min(into.len());
            into[..count].copy_from_slice(&bytes[..count]);
            return Ok(count);
        }
        into.fill(7);
        Ok(into.len())
    }
    fn shared_key(&mut self, _: Id, address: u64) -> Option<u64> {
        Some(address)
    }
    fn write_for_tracer(&mut self, _: Id, address: u64, bytes: &[u8]) -> Result<usize, Errno> {
        self.written.push((address, bytes.to_vec()));
        Ok(bytes.len())
    }
    fn set_label(&mut self, domain: Domain, label: u64) {
        self.of(domain).label = label;
    }
    fn copy_table(
        &mut self,
        from: Domain,
        to: Domain,
        wanted: Option<&Slots>,
    ) -> Result<(), Errno> {
        self.may_fail()?;
        let mut slots = self.of(from).slots.clone();
        if let Some(wanted) = wanted {
            slots.retain(|&slot| wanted[slot as usize / 64] >> (slot % 64) & 1 != 0);
        }
        self.of(to).slots = slots;
        Ok(())
    }
    fn put(&mut self, domain: Domain, _: Portal, slot: u32) -> Result<(), Errno> {
        self.may_fail()?;
        self.of(domain).slots.push(slot);
        Ok(())
    }
    fn remove(&mut self, domain: Domain, slot: u32) {
        self.of(domain).slots.retain(|&there| there != slot);
    }
    fn thread(&mut self, domain: Domain, start: &Start) -> Result<Id, Errno> {
        self.may_fail()?;
        self.next += 1;
        let id = self.next;
        let record = self.of(domain);
        record.start = *start;
        record.threads.push(id);
        Ok(id)
    }
    fn control(
        &mut self,
        domain: Domain,
        id: Id,
        operation: u8,
        args: [u64; 3],
    ) -> Result<[u64; 8], Error> {
        let record = self.domains.get_mut(&domain.id).expect("domain is gone");
        if !record.threads.contains(&id) {
            return Err(Error::BadArgument);
        }
        match operation {
            thread::START => record.started.push(id),
            thread::POKE => {
                record.pokes += 1;
                self.notices.push(Notice::Poke(id));
            }
            thread::KILL => record.threads.retain(|t| *t != id),
            thread::SET_PRIORITY => self.priorities.push(args),
            thread::INFO => {
                let used = self.thread_cpu.get(&id).copied().unwrap_or(5);
                return Ok([used, 1, 64, 64, 0, 0, 0b101, 0]);
            }
            _ => return Err(Error::BadOperation),
        }
        Ok([0; 8])
    }
    fn set_deadline(&mut self, domain: Domain, id: Id, times: [u64; 3]) -> Result<(), Errno> {
        assert!(self.of(domain).threads.contains(&id));
        if times[0] > self.deadline_room {
            return Err(EBUSY);
        }
        self.deadlines.insert(id, times);
        Ok(())
    }
    fn end_deadline(&mut self, id: Id) {
        self.deadlines.remove(&id);
    }
    fn end_period(&mut self, id: Id) -> Result<(), Errno> {
        self.periods_ended += 1;
        self.deadlines.get(&id).map(|_| ()).ok_or(ESRCH)
    }
    fn stop(&mut self, domain: Domain) {
        self.of(domain).stops += 1;
    }
    fn resume(&mut self, domain: Domain) {
        self.of(domain).stops -= 1;
        self.notices.push(Notice::Resume(domain.id));
    }
    fn keep_only(&mut self, domain: Domain, thread: Id) {
        self.of(domain).threads.retain(|t| *t == thread);
    }
    fn close_on_exec(&mut self, domain: Domain) {
        self.of(domain);
    }
    fn cores(&mut self) -> u64 {
        1
    }
    fn cpu(&mut self, domain: Domain) -> u64 {
        1000 + self.of(domain).cpu
    }
    fn destroy(&mut self, domain: Domain) -> Faults {
        self.domains.remove(&domain.id).expect("destroyed twice");
        FAULTS
    }
}

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    Words([u64; 8]),
    /// The caller waits with this token, or will not come back.
    Waits(Token),
}

impl Called {
    pub fn result(self) -> i64 {
        match self {
            Called::Words(words) => words[0] as i64,
            Called::Waits(_) => panic!("the call waits"),
        }
    }
    pub fn words(self) -> [u64; 8] {
        match self {
            Called::Words(words) => words,
            Called::Waits(_) => panic!("the call waits"),
        }
    }
    pub fn token(self) -> Token {
        match self {
            Called::Waits(token) => token,
            Called::Words(words) => panic!("the call does not wait: {words:?}"),
        }
    }
}

pub struct World {
    pub m: Manager<Fake>,
    sequence: u64,
    /// Room in the caller's in part.
    pub room: usize,
}

#[repr(align(4096))]
struct Aligned([u8; 5 * 4096]);

/// A boot archive with a personality of two segments.
pub fn archive() -> &'static [u8] {
    let mut all = Aligned([0; 5 * 4096]);
    let bytes = &mut all.0;
    let name = "cairn/personality";
    let size = 3 * 4096;
    let fields = [1, 0o100755, 0, 0, 1, 0, size, 0, 0, 0, 0, 4096 - 110, 0];
    let mut header = b"070701".to_vec();
    fields
        .iter()
        .for_each(|f| header.extend(format!("{f:08x}").bytes()));
    bytes[..110].copy_from_slice(&header);
    bytes[110..110 + name.len()].copy_from_slice(name.as_bytes());
    let elf = &mut bytes[4096..];
    elf[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    elf[16..24].copy_from_slice(&[2, 0, 62, 0, 1, 0, 0, 0]);
    elf[24..32].copy_from_slice(&(PERSONALITY + 0x40).to_le_bytes());
    elf[32..40].copy_from_slice(&64u64.to_le_bytes());
    elf[52..58].copy_from_slice(&[64, 0, 56, 0, 2, 0]);
    let segments = [
        (5u32, 0x1000u64, PERSONALITY, 0x800u64, 0x800u64),
        (6, 0x2000, PERSONALITY_DATA, 0x10, 0x2000),
    ];
    for (n, (access, offset, address, file, memory)) in segments.into_iter().enumerate() {
        let at = 64 + n * 56;
        elf[at..at + 4].copy_from_slice(&1u32.to_le_bytes());
        elf[at + 4..at + 8].copy_from_slice(&access.to_le_bytes());
        let words = [offset, address, address, file, memory, 4096];
        for (i, word) in words.into_iter().enumerate() {
            elf[at + 8 + i * 8..at + 16 + i * 8].copy_from_slice(&word.to_le_bytes());
        }
    }
    let head = [
        0x5855_4e49_4c4e_5243u64,
        PERSONALITY + 0x40,
        PERSONALITY + 0x80,
        PERSONALITY + 0xc0,
        PERSONALITY + 0x100,
    ];
    for (i, word) in head.into_iter().enumerate() {
        elf[0x1000 + i * 8..0x1008 + i * 8].copy_from_slice(&word.to_le_bytes());
    }
    &Box::leak(Box::new(all)).0
}

impl World {
    /// Nothing runs yet.
    pub fn empty() -> World {
        let gifts = Gifts {
            vm: Portal(100),
            proc: Portal(101),
            log: Portal(102),
        };
        World {
            m: Manager::new(Fake::default(), gifts, archive(), PrefixPage::leak()),
            sequence: 0,
            room: 0,
        }
    }

    /// With the first process, number 1.
    pub fn new() -> World {
        let mut world = World::empty();
        assert_eq!(world.boot().result(), 1);
        world.m.system.closed.clear();
        world
    }

    pub fn boot(&mut self) -> Called {
        let strings = b"/sbin/init\0init\0-x\0A=1\0";
        self.system(strings, &[START, 10, 2, 1])
    }

    /// A call of a component with all roles.
    pub fn system(&mut self, out: &[u8], words: &[u64]) -> Called {
        self.component(u64::MAX, out, words)
    }

    /// A call of a component with these.
    pub fn component(&mut self, roles: u64, out: &[u8], words: &[u64]) -> Called {
        self.message(999_999, 999_999, roles, 0, out, words, 0)
    }

    #[allow(clippy::too_many_arguments)]
    pub fn message(
        &mut self,
        domain: Id,
        thread: Id,
        badge: u64,
        label: u64,
        out: &[u8],
        words: &[u64],
        portals: usize,
    ) -> Called {
        self.sequence += 1;
        let token = self.sequence << 32 | thread as u64;
        let mut all = [0; 8];
        all[..words.len()].copy_from_slice(words);
        self.m.system.out = out.to_vec();
        self.m.system.input.clear();
        let outcome = self.m.handle(&Received {
            kind: received::kind::MESSAGE,
            words: all,
            badge,
            token,
            sender: domain,
            label,
            out_len: out.len(),
            in_len: self.room,
            portals,
            interruptible: true,
        });
        match outcome {
            Outcome::Words(words) => Called::Words(words),
            Outcome::Portal(portal) => Called::Words([0, 0, 0, 0, 0, 0, 0, portal.0 as u64]),
            Outcome::Taken(portal, word) => {
                self.m.system.taken.retain(|taken| *taken != portal.0);
                Called::Words([0, word, 0, 0, 0, 0, 0, portal.0 as u64])
            }
            Outcome::Kept(_) => panic!("Kept leaves the manager"),
            Outcome::Later => Called::Waits(token),
        }
    }

    pub fn slot(&self, pid: u64) -> u32 {
        self.m.numbers.process(pid).expect("no such process")
    }

    pub fn domain(&self, pid: u64) -> Domain {
        self.m.processes[self.slot(pid)].domain
    }

    /// A call by the process's first thread.
    pub fn call(&mut self, pid: u64, words: &[u64]) -> Called {
        self.call_with(pid, b"", words)
    }

    pub fn call_with(&mut self, pid: u64, out: &[u8], words: &[u64]) -> Called {
        let thread = self.m.processes[self.slot(pid)].threads[0].id;
        self.call_by(pid, thread, out, words)
    }

    pub fn call_by(&mut self, pid: u64, thread: Id, out: &[u8], words: &[u64]) -> Called {
        let domain = self.domain(pid);
        let label = self.m.system.of(domain).label;
        self.message(domain.id, thread, BADGE_CLIENT, label, out, words, 0)
    }

    /// What the own thread asks for; whether there is more of it.
    pub fn background(&mut self) -> bool {
        let asked = self.m.system.background;
        if asked {
            let more = self
                .message(0, 0, crate::BADGE_BACKGROUND, 0, b"", &[0], 0)
                .result();
            assert_eq!(more != 0, self.m.system.background);
        }
        asked
    }

    /// The own thread has made the copy that it was asked for, and asks for the next one; whether there is one.
    pub fn errand(&mut self) -> bool {
        let words = match self.m.system.copied.take() {
            None => [0, deputy::NONE, 0, 0],
            Some(of) if self.m.system.domains.contains_key(&of) => match self.m.system.new_domain()
            {
                Ok(made) => [0, deputy::DONE, made.id.into(), made.portal.0.into()],
                Err(errno) => [0, deputy::FAILED, errno as u64, 0],
            },
            Some(_) => [0, deputy::FAILED, ESRCH as u64, 0],
        };
        let next = self
            .message(0, 0, crate::BADGE_FORKS, 0, b"", &words, 0)
            .words();
        if next[0] != 0 {
            self.m.system.copied = Some(next[1] as Id);
        }
        while let Some(held) = self.m.ready() {
            let token = held.message.token;
            match self.m.handle(&held.message) {
                Outcome::Words(words) => drop(self.m.system.replies.insert(token, words)),
                _ if held.interrupted => self.m.interrupt(token),
                _ => {}
            }
        }
        next[0] != 0
    }

    pub fn pulse(&mut self, badge: u64, words: [u64; 4]) {
        let mut all = [0; 8];
        all[..4].copy_from_slice(&words);
        self.m.handle(&Received {
            kind: received::kind::PULSE,
            words: all,
            badge,
            ..Received::default()
        });
    }

    pub fn unblock(&mut self, token: Token) {
        self.pulse(0, [pulse::UNBLOCK, token, 0, 0]);
    }

    /// The reply that a waiting call got meanwhile.
    pub fn reply(&mut self, token: Token) -> Option<[u64; 8]> {
        self.m.system.replies.remove(&token)
    }

    pub fn fork(&mut self, pid: u64) -> u64 {
        let result = self
            .call(pid, &[FORK, 0x40_0000, 0x50_0000, 1, 2, 0, 17])
            .result();
        assert!(result > 0, "fork: {result}");
        result as u64
    }

    pub fn exit(&mut self, pid: u64, code: u64) {
        self.call(pid, &[EXIT, code << 8]).token();
    }

    /// A server asks to hear of a process's end.
    pub fn attend(&mut self, domain: u64) -> i64 {
        let words = [ATTEND, domain, 0, 0, 0, 0, 0, 99];
        self.message(7, 7, role::GROUPS, 0, b"", &words, 1).result()
    }

    /// wait4 without waiting: result and status.
    pub fn poll(&mut self, pid: u64, options: u64) -> (i64, u64) {
        let words = self.call(pid, &[WAIT, 0, 0, options | 1]).words();
        (words[0] as i64, words[1])
    }

    pub fn kill(&mut self, pid: u64, target: i64, signal: u64) -> i64 {
        self.call(pid, &[KILL, target as u64, signal]).result()
    }

    pub fn take(&mut self, pid: u64) -> u64 {
        self.call(pid, &[SIGNAL_TAKE]).words()[0]
    }

    /// Give all of a process's ids.
    pub fn set_ids(&mut self, pid: u64, ids: [u32; 3]) -> i64 {
        let slot = self.slot(pid);
        let mut wish = self.m.processes[slot].creds;
        [wish.ruid, wish.euid, wish.suid] = ids;
        let bytes = wish.to_bytes();
        self.call_with(pid, &bytes, &[SETCREDS]).result()
    }

    pub fn state(&self, pid: u64) -> Option<char> {
        let slot = self.m.numbers.process(pid)?;
        let process = &self.m.processes[slot];
        Some(match (process.ended, process.stopped) {
            (Some(_), _) => 'Z',
            (_, Some(_)) => 'T',
            _ => 'S',
        })
    }
}
