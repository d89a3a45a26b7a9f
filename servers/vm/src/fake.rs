//! A simulated nucleus for the tests: spaces with page tables that cost frames, contents of frames, callers with parts.
//! It panics where the real one would answer that `vm` made a mistake.

use crate::frames::Frames;
use crate::nucleus::{Answer, Frame, Nucleus, TAKEN};
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::{map, pool, prot, Fill, Row, AS_IT_IS, ROWS};
use cairn_abi::{priority, Error, Id, Token};
use cairn_iommu::dmar;
use cairn_iommu::fake::Fake;
use cairn_iommu::{Hardware, Message};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What memory holds before anybody wrote it.
const GARBAGE: u8 = 0xaa;
/// Objects of a frame given to a pool.
const PER_FRAME: u64 = 4;

pub struct FakeSpace {
    pub badge: u64,
    pub writable_code: bool,
    /// Page → frame and protection.
    pub maps: BTreeMap<u64, (Frame, u64)>,
    /// It shows the common table.
    pub common: bool,
    tables: BTreeSet<(u32, u64)>,
    /// Frames given and not used, used.
    reserve: Vec<Frame>,
    in_use: Vec<Frame>,
}

pub struct FakeDomain {
    pub id: Id,
    pub space: u32,
    pub alive: bool,
    /// Frames of its portal table.
    table: Vec<Frame>,
}

#[derive(Default)]
pub struct Machine {
    pub spaces: HashMap<u32, FakeSpace>,
    /// What the common table maps.
    pub common: BTreeMap<u64, (Frame, u64)>,
    pub domains: HashMap<u32, FakeDomain>,
    pub contents: HashMap<Frame, Vec<u8>>,
    /// Frames that the nucleus holds.
    pub owned: HashSet<Frame>,
    pub replies: Vec<(Token, Answer)>,
    /// The caller's parts.
    pub out: Vec<u8>,
    pub input: Vec<u8>,
    pub part_addresses: (u64, u64),
    /// Copies fail so often before they work.
    pub copy_faults: u32,
    pub refuse_replies: bool,
    /// Of callers; others have an ordinary program's.
    pub priorities: HashMap<Token, u8>,
    /// The caller that work goes on for.
    pub worked_for: Token,
    pub notified: u32,
    pub notifications: Vec<u32>,
    pub time: u64,
    pub closed: Vec<u32>,
    /// Badges behind portals that arrive in these slots.
    pub passed: HashMap<u32, u64>,
    pub pools: [(u64, u64); pool::COUNT],
    /// Frames of pools, and whether an object lives at each one's end.
    pub given: Vec<Frame>,
    pub pinned: bool,
    /// Nucleus operations so far, by name.
    pub count: BTreeMap<&'static str, u32>,
    /// Most room in the heap that was asked for.
    pub heap_asked: usize,
    /// Frames that the heap has too many.
    pub heap_rest: Vec<Frame>,
    /// A remapping unit.
    pub unit: Fake,
    /// Frames that are its tables.
    pub tables: HashSet<Frame>,
    pub said: Vec<String>,
    pub acknowledged: u32,
    next_slot: u32,
    next_id: Id,
}

impl Machine {
    pub fn new() -> Machine {
        Machine {
            next_slot: 100,
            next_id: 10,
            ..Machine::default()
        }
    }

    fn counted(&mut self, name: &'static str) {
        *self.count.entry(name).or_default() += 1;
    }

    fn slot(&mut self) -> u32 {
        self.next_slot += 1;
        self.next_slot
    }

    pub fn frame(&mut self, frame: Frame) -> &mut Vec<u8> {
        self.contents
            .entry(frame)
            .or_insert_with(|| vec![GARBAGE; PAGE as usize])
    }

    pub fn add_space(&mut self, slot: u32) {
        self.spaces.insert(
            slot,
            FakeSpace {
                badge: 0,
                writable_code: false,
                maps: BTreeMap::new(),
                common: false,
                tables: BTreeSet::new(),
                reserve: Vec::new(),
                in_use: Vec::new(),
            },
        );
    }

    pub fn domain_of(&self, id: Id) -> &FakeDomain {
        self.domains
            .values()
            .find(|d| d.id == id)
            .expect("such a domain")
    }

    fn is_mapped(&self, frame: Frame) -> bool {
        self.spaces
            .values()
            .any(|s| s.maps.values().any(|m| m.0 == frame))
    }

    fn take(&mut self, first: Frame, count: u64) {
        for frame in first..first + count as u32 {
            assert!(!self.is_mapped(frame), "gave a mapped frame {frame}");
            assert!(self.owned.insert(frame), "gave frame {frame} twice");
            self.contents.remove(&frame);
        }
    }

    fn space(&mut self, slot: u32) -> &mut FakeSpace {
        self.spaces.get_mut(&slot).expect("a space")
    }

    /// One mapping; needs tables for its address.
    fn enter(&mut self, slot: u32, page: u64, frame: Frame, bits: u64) -> Result<(), Error> {
        assert!(page < 1 << 35, "beyond user memory");
        let both = prot::WRITE | prot::EXECUTE;
        assert!(bits & both != both || self.space(slot).writable_code);
        assert!(!self.owned.contains(&frame), "mapped the nucleus's frame");
        assert_ne!(bits & 7, 0, "mapped without any right");
        let common = self.common.keys().any(|at| at / 512 == page / 512);
        let space = self.space(slot);
        assert!(!(space.common && common), "mapped over what is common");
        for level in 1..=4 {
            let key = (level, page >> (9 * level));
            if !space.tables.contains(&key) {
                let table = space.reserve.pop().ok_or(Error::NoTable)?;
                space.in_use.push(table);
                space.tables.insert(key);
            }
        }
        space.maps.insert(page, (frame, bits & 15));
        Ok(())
    }

    fn pool(&mut self, kind: usize) -> Result<(), Error> {
        let (used, capacity) = &mut self.pools[kind];
        if used == capacity {
            return Err(Error::NoMemory);
        }
        *used += 1;
        Ok(())
    }

    /// A domain dies (its owner destroyed it).
    pub fn kill(&mut self, id: Id) {
        let domain = self.domains.values_mut().find(|d| d.id == id);
        let domain = domain.expect("such a domain");
        domain.alive = false;
        let (space, table) = (domain.space, std::mem::take(&mut domain.table));
        self.space(space).reserve.extend(table);
        self.pools[0].0 -= 1;
    }

    fn range(address: u64, pages: u64) -> std::ops::Range<u64> {
        assert_eq!(address % PAGE, 0);
        assert!((1..=512).contains(&pages), "{pages} pages at once");
        address / PAGE..address / PAGE + pages
    }
}

impl Nucleus for Machine {
    fn space_create(&mut self, badge: u64, writable_code: bool) -> Result<u32, Error> {
        self.pool(1)?;
        let slot = self.slot();
        self.add_space(slot);
        self.space(slot).badge = badge;
        self.space(slot).writable_code = writable_code;
        Ok(slot)
    }

    fn domain_create(&mut self, space: u32) -> Result<(u32, Id), Error> {
        let table = self.space(space).reserve.pop().ok_or(Error::NoTable)?;
        if let Err(error) = self.pool(0) {
            self.space(space).reserve.push(table);
            return Err(error);
        }
        self.next_id += 1;
        let (slot, id) = (self.slot(), self.next_id);
        self.domains.insert(
            slot,
            FakeDomain {
                id,
                space,
                alive: true,
                table: vec![table],
            },
        );
        Ok((slot, id))
    }

    fn set_space(&mut self, domain: u32, space: u32) -> Result<(), Error> {
        self.domains.get_mut(&domain).expect("a domain").space = space;
        Ok(())
    }

    fn has_ended(&mut self, domain: u32) -> bool {
        !self.domains[&domain].alive
    }

    fn destroy(&mut self, domain: u32) {
        let id = self.domains[&domain].id;
        if self.domains[&domain].alive {
            self.kill(id);
        }
    }

    fn grow_table(&mut self, domain: u32) -> Result<(), Error> {
        let space = self.domains[&domain].space;
        let table = self.space(space).reserve.pop().ok_or(Error::NoTable)?;
        let domain = self.domains.get_mut(&domain).expect("a domain");
        domain.table.push(table);
        Ok(())
    }

    fn close(&mut self, slot: u32) {
        self.closed.push(slot);
    }

    fn give(&mut self, pool: u64, first: Frame, count: u64) -> Result<(), Error> {
        self.take(first, count);
        self.pools[pool as usize].1 += count * PER_FRAME;
        self.given.extend(first..first + count as u32);
        Ok(())
    }

    fn give_tables(&mut self, space: u32, first: Frame, count: u64) -> Result<(), Error> {
        self.take(first, count);
        self.space(space)
            .reserve
            .extend(first..first + count as u32);
        Ok(())
    }

    fn take_back(&mut self, pool: u64) -> Result<([Frame; TAKEN], usize), Error> {
        let (used, capacity) = &mut self.pools[pool as usize];
        if self.pinned || *capacity - *used < PER_FRAME {
            return Ok(([0; TAKEN], 0));
        }
        *capacity -= PER_FRAME;
        let frame = self.given.pop().expect("was given");
        self.owned.remove(&frame);
        Ok(([frame, 0, 0, 0], 1))
    }

    fn pool_info(&mut self, pool: u64) -> Result<(u64, u64, u64), Error> {
        let (used, capacity) = self.pools[pool as usize];
        Ok((used, capacity, PAGE / PER_FRAME))
    }

    fn reap(&mut self, slot: u32, into: &mut [Frame]) -> Result<bool, Error> {
        if self.domains.values().any(|d| d.space == slot && d.alive) {
            return Err(Error::Busy);
        }
        let space = self.space(slot);
        space.maps.clear();
        let mut given = Vec::new();
        // Small shares, so that several are needed.
        for place in into.iter_mut().take(7) {
            let Some(frame) = space.reserve.pop().or_else(|| space.in_use.pop()) else {
                break;
            };
            *place = frame;
            given.push(frame);
        }
        let done = space.reserve.is_empty() && space.in_use.is_empty();
        for frame in given {
            assert!(self.owned.remove(&frame));
        }
        if done {
            self.spaces.remove(&slot);
            self.domains.retain(|_, d| d.space != slot);
            self.pools[1].0 -= 1;
        }
        Ok(done)
    }

    fn map(
        &mut self,
        space: u32,
        address: u64,
        frame: Frame,
        bits: u64,
        source: Frame,
    ) -> Result<(), Error> {
        self.counted("map");
        if bits & map::ZERO != 0 {
            self.frame(frame).fill(0);
        }
        if bits & map::COPY != 0 {
            self.copy_frame(frame, source)?;
        }
        for page in Machine::range(address, 1) {
            self.enter(space, page, frame, bits)?;
        }
        Ok(())
    }

    fn fill(&mut self, space: u32, fills: &[Fill]) -> (usize, Result<(), Error>) {
        self.counted("fill");
        assert!(fills.len() <= 512);
        for (done, fill) in fills.iter().enumerate() {
            match fill.source {
                AS_IT_IS => {}
                0 => self.frame(fill.frame).fill(0),
                source => self.copy_frame(fill.frame, source).expect("frames"),
            }
            let bits = fill.address % PAGE;
            assert_eq!(bits & !7, 0);
            for page in Machine::range(fill.address - bits, 1) {
                if let Err(error) = self.enter(space, page, fill.frame, bits) {
                    return (done, Err(error));
                }
            }
        }
        (fills.len(), Ok(()))
    }

    fn map_list(
        &mut self,
        space: u32,
        address: u64,
        frames: &[Frame],
        bits: u64,
    ) -> Result<(), Error> {
        self.counted("map_list");
        let range = Machine::range(address, frames.len() as u64);
        for (page, &frame) in range.zip(frames).filter(|(_, &f)| f != 0) {
            self.enter(space, page, frame, bits)?;
        }
        Ok(())
    }

    fn unmap(&mut self, space: u32, address: u64, pages: u64) -> Result<(), Error> {
        self.counted("unmap");
        for page in Machine::range(address, pages) {
            self.space(space).maps.remove(&page);
        }
        Ok(())
    }

    fn protect(&mut self, space: u32, address: u64, pages: u64, bits: u64) -> Result<(), Error> {
        self.counted("protect");
        assert_ne!(bits & 7, 0);
        for page in Machine::range(address, pages) {
            if let Some(entry) = self.space(space).maps.get_mut(&page) {
                entry.1 = bits;
            }
        }
        Ok(())
    }

    fn share(&mut self, from: u32, to: u32, rows: &[Row]) -> (usize, Result<(), Error>) {
        self.counted("share");
        assert!(rows.len() <= ROWS);
        assert!(rows.iter().map(|row| row.pages).sum::<u32>() <= 512);
        for (done, row) in rows.iter().enumerate() {
            self.counted("shared row");
            for page in Machine::range(row.address, u64::from(row.pages)) {
                let Some(entry) = self.space(from).maps.get_mut(&page) else {
                    continue;
                };
                if row.read_only == 1 {
                    entry.1 &= !prot::WRITE;
                }
                let (frame, bits) = *entry;
                if let Err(error) = self.enter(to, page, frame, bits) {
                    return (done, Err(error));
                }
            }
        }
        (rows.len(), Ok(()))
    }

    fn keep_common(&mut self, slot: u32, address: u64) -> Result<(), Error> {
        let space = self.space(slot);
        let mut common = space.maps.split_off(&(address / PAGE));
        space
            .maps
            .append(&mut common.split_off(&(address / PAGE + 512)));
        space.common = true;
        assert!(common.values().all(|(_, bits)| bits & prot::WRITE == 0));
        self.common = common;
        Ok(())
    }

    fn show_common(&mut self, slot: u32) -> Result<(), Error> {
        let space = self.space(slot);
        // The tables above it.
        if space.in_use.is_empty() {
            let table = space.reserve.pop().ok_or(Error::NoTable)?;
            space.in_use.push(table);
        }
        space.common = true;
        Ok(())
    }

    fn copy_frame(&mut self, to: Frame, from: Frame) -> Result<(), Error> {
        let bytes = self.frame(from).clone();
        self.contents.insert(to, bytes);
        Ok(())
    }

    fn zero_frame(&mut self, frame: Frame) -> Result<(), Error> {
        self.frame(frame).fill(0);
        Ok(())
    }

    fn query(&mut self, space: u32, address: u64) -> Option<Frame> {
        self.space(space).maps.get(&(address / PAGE)).map(|m| m.0)
    }

    fn system_page(&mut self) -> Frame {
        1
    }

    fn read(&mut self, _: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        if self.copy_faults > 0 {
            self.copy_faults -= 1;
            return Err(Error::BadAddress);
        }
        let from = self.out.get(offset as usize..).unwrap_or(&[]);
        let len = from.len().min(into.len());
        into[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn write(&mut self, _: Token, offset: u64, from: &[u8]) -> Result<usize, Error> {
        if self.copy_faults > 0 {
            self.copy_faults -= 1;
            return Err(Error::BadAddress);
        }
        let into = self.input.get_mut(offset as usize..).unwrap_or(&mut []);
        let len = from.len().min(into.len());
        into[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn read_frames(
        &mut self,
        token: Token,
        offset: u64,
        frames: &[Frame],
        at: usize,
        len: usize,
    ) -> Result<usize, Error> {
        let mut bytes = vec![0; len];
        let copied = self.read(token, offset, &mut bytes)?;
        for (i, byte) in bytes[..copied].iter().enumerate() {
            let place = at + i;
            self.frame(frames[place / PAGE as usize])[place % PAGE as usize] = *byte;
        }
        Ok(copied)
    }

    fn write_frames(
        &mut self,
        token: Token,
        offset: u64,
        frames: &[Frame],
        at: usize,
        len: usize,
    ) -> Result<usize, Error> {
        let bytes: Vec<u8> = (at..at + len)
            .map(|place| self.frame(frames[place / PAGE as usize])[place % PAGE as usize])
            .collect();
        self.write(token, offset, &bytes)
    }

    fn part_addresses(&mut self, _: Token) -> (u64, u64) {
        self.part_addresses
    }

    fn work_for(&mut self, token: Token) {
        self.worked_for = token;
    }

    fn priority_of(&mut self, token: Token) -> u8 {
        self.priorities
            .get(&token)
            .copied()
            .unwrap_or(priority::NORMAL)
    }

    fn reply(&mut self, token: Token, answer: &Answer) -> Result<(), Error> {
        if self.refuse_replies {
            return Err(Error::NoSlot);
        }
        self.replies.push((token, *answer));
        Ok(())
    }

    fn portal_badge(&mut self, slot: u32) -> Option<u64> {
        self.passed.get(&slot).copied()
    }

    fn notify(&mut self, slot: u32) {
        self.notified += 1;
        self.notifications.push(slot);
    }

    fn now(&mut self) -> u64 {
        self.time
    }

    fn show_table(&mut self, frame: Frame) -> bool {
        self.tables.insert(frame)
    }

    fn message(&mut self) -> Option<Message> {
        None
    }

    fn acknowledge(&mut self) {
        self.acknowledged += 1;
    }

    fn say(&mut self, line: std::fmt::Arguments) {
        self.said.push(line.to_string());
    }

    fn heap_rest(&mut self) -> Option<Frame> {
        self.heap_rest.pop()
    }

    fn heap_room(&mut self, _: &mut Frames, bytes: usize) -> bool {
        self.heap_asked = self.heap_asked.max(bytes);
        true
    }
}

impl Hardware for Machine {
    fn show(&mut self, unit: usize, address: u64, length: u64) -> bool {
        self.unit.show(unit, address, length)
    }
    fn register(&mut self, unit: usize, at: usize) -> u32 {
        self.unit.register(unit, at)
    }
    fn set_register(&mut self, unit: usize, at: usize, value: u32) {
        self.unit.set_register(unit, at, value);
    }
    fn word(&mut self, table: Frame, index: usize) -> u64 {
        assert!(self.tables.contains(&table));
        self.unit.word(table, index)
    }
    fn set_word(&mut self, table: Frame, index: usize, value: u64) {
        assert!(self.tables.contains(&table));
        self.unit.set_word(table, index, value);
    }
    fn write_back(&mut self, table: Frame, index: usize) {
        self.unit.write_back(table, index);
    }
    fn barrier(&mut self) {}
    fn is_apart(&mut self, frame: Frame) -> bool {
        self.unit.is_apart(frame)
    }
    fn time(&mut self) -> u64 {
        self.unit.time()
    }
}

impl dmar::Physical for Machine {
    fn peek(&mut self, address: u64, into: &mut [u8]) -> bool {
        self.unit.peek(address, into)
    }
}

/// Numbers below what is asked for, always the same ones for a seed (xorshift).
pub fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}
