//! The whole manager on the simulated nucleus: what programs see in their memory, and that no frame is lost or freed too early.

mod accounts;
mod cases;
mod changes;
mod code;
mod common;
mod dma;
mod iommu;
mod later;
mod lending;
mod loans;
mod makers;
mod model;
mod offers;
mod parts;
mod roles;
mod watched;

use crate::fake::Machine;
use crate::frames::Frames;
use crate::nucleus::{Answer, Frame, Pass};
use crate::request::Request;
use crate::space::{Start, Vm};
use cairn_abi::layout::{PAGE, SYSTEM_PAGE};
use cairn_abi::service::memory::prot as access;
use cairn_abi::{fault, received, Id};
use cairn_idl::vm::{self, prot, BADGE_CONTROL};
use std::collections::{HashMap, HashSet};

pub const RW: u64 = prot::READ | prot::WRITE;
const INIT: Id = 1;
const INIT_SPACE: u32 = 7;
/// Frames of the boot archive.
const ARCHIVE_FRAMES: u32 = 5;

/// What [`World::touch`] says of a fault that is answered later.
pub const WAITS: u64 = 99;

/// A machine with `vm` on it, and the programs as far as `vm` sees them.
pub struct World {
    pub vm: Vm<Machine>,
    token: u64,
    /// What programs had that have ended is left for later.
    pub leaves: bool,
}

impl World {
    pub fn new(frames: u32) -> World {
        let mut machine = Machine::new();
        machine.add_space(INIT_SPACE);
        let start = Start {
            free: vec![(1000, frames)],
            archive: (500, ARCHIVE_FRAMES),
            used: 0,
            init: INIT,
            init_space: INIT_SPACE,
            secret: [0x5eed, 0xc0de],
            writable_code: true,
        };
        for frame in 500..500 + ARCHIVE_FRAMES {
            machine.frame(frame).fill(frame as u8);
        }
        let table = Frames::new(&start.free, &[start.archive]);
        World {
            vm: Vm::new(machine, table, &start),
            token: 100,
            leaves: false,
        }
    }

    pub fn request(&mut self, request: Request) -> (u64, Option<Answer>) {
        self.token += 1;
        let request = Request {
            token: self.token,
            ..request
        };
        (self.token, self.vm.handle(&request))
    }

    /// A call; the answer must come at once.
    pub fn call_badge(&mut self, sender: Id, badge: u64, words: &[u64]) -> Answer {
        let (token, answer) = self.request(Request {
            words: Answer::new(words).words,
            badge,
            sender,
            out_len: self.vm.nucleus.out.len(),
            in_len: self.vm.nucleus.input.len(),
            ..Request::default()
        });
        while self.vm.later().is_some()
            && !(self.leaves && (answer.is_some() || !self.vm.nucleus.replies.is_empty()))
        {
            self.vm.do_piece();
        }
        match answer {
            Some(answer) => answer,
            None => {
                let (to, answer) = self.vm.nucleus.replies.pop().expect("a reply");
                assert_eq!(to, token);
                answer
            }
        }
    }

    /// What takes long comes to its end.
    pub fn do_all_pieces(&mut self) {
        while self.vm.later().is_some() {
            self.vm.do_piece();
        }
    }

    pub fn call(&mut self, sender: Id, words: &[u64]) -> i64 {
        self.call_badge(sender, 0, words).words[0] as i64
    }

    pub fn control(&mut self, words: &[u64]) -> i64 {
        self.call_badge(INIT, BADGE_CONTROL, words).words[0] as i64
    }

    fn made(&mut self, words: &[u64]) -> Result<Id, i64> {
        let answer = self.call_badge(INIT, BADGE_CONTROL, words);
        match answer.words[0] as i64 {
            0 => Ok(answer.words[1] as Id),
            error => Err(error),
        }
    }

    /// A new Linux domain.
    pub fn create(&mut self) -> Id {
        self.made(&[vm::CREATE, 0, 1]).expect("a domain")
    }

    pub fn fork(&mut self, parent: Id) -> Result<Id, i64> {
        self.made(&[vm::FORK, u64::from(parent), 0])
    }

    pub fn destroy(&mut self, id: Id) {
        self.vm.nucleus.kill(id);
        assert_eq!(self.control(&[vm::DESTROY, u64::from(id)]), 0);
    }

    /// Private anonymous memory at an address.
    pub fn map(&mut self, id: Id, page: u64, pages: u64) {
        let words = [vm::MAP, page * PAGE, pages * PAGE, RW, vm::flags::FIXED];
        assert_eq!(self.call(id, &words), (page * PAGE) as i64);
    }

    /// What the processor does at an access: the frame, or the detail of the refusal.
    pub fn touch(&mut self, id: Id, page: u64, write: bool) -> Result<Frame, u64> {
        for _ in 0..4 {
            let slot = self.vm.nucleus.domain_of(id).space;
            let space = &self.vm.nucleus.spaces[&slot];
            let needed = if write { access::WRITE } else { access::READ };
            let present = space.maps.get(&page);
            if let Some(&(frame, bits)) = present {
                if bits & needed != 0 {
                    return Ok(frame);
                }
            }
            let access = if write { fault::WRITE } else { 0 };
            let request = Request {
                kind: received::kind::FAULT,
                words: Answer::new(&[page * PAGE + 8, access, 0, 0, u64::from(id)]).words,
                badge: space.badge,
                sender: id,
                ..Request::default()
            };
            let Some(answer) = self.request(request).1 else {
                return Err(WAITS);
            };
            if answer.words[0] == fault::REFUSED {
                return Err(answer.words[1]);
            }
        }
        panic!("page {page:#x} faults for ever");
    }

    pub fn read(&mut self, id: Id, page: u64) -> Result<u8, u64> {
        let frame = self.touch(id, page, false)?;
        let bytes = self.vm.nucleus.frame(frame);
        assert!(bytes.iter().all(|b| *b == bytes[0]), "torn page");
        Ok(bytes[0])
    }

    pub fn write(&mut self, id: Id, page: u64, value: u8) -> Result<(), u64> {
        let frame = self.touch(id, page, true)?;
        self.vm.nucleus.frame(frame).fill(value);
        Ok(())
    }

    /// A memory object of these pages of a domain (0 = hole) → badge of its portal.
    pub fn object(&mut self, id: Id, pages: &[u64], writable: bool) -> Result<u64, i64> {
        self.vm.nucleus.out = pages
            .iter()
            .flat_map(|p| (p * PAGE).to_le_bytes())
            .collect();
        let answer = self.call_badge(id, 0, &[vm::OBJECT_CREATE, 0, u64::from(writable)]);
        self.vm.nucleus.out.clear();
        match (answer.words[0] as i64, answer.pass) {
            (0, Some(Pass::Mint(badge))) => Ok(badge),
            (error, _) => Err(error),
        }
    }

    /// TAKE of what has this badge, to an address.
    pub fn take(&mut self, id: Id, badge: u64, address: u64, most: u64, flags: u64) -> Answer {
        const PASSED: u32 = 77;
        self.vm.nucleus.passed.insert(PASSED, badge);
        let words = [vm::TAKE, address, most, flags, 0, 0, 0, u64::from(PASSED)];
        let (_, answer) = self.request(Request {
            words,
            sender: id,
            portals: 1,
            ..Request::default()
        });
        assert_eq!(self.vm.nucleus.closed.pop(), Some(PASSED));
        answer.expect("an answer at once")
    }

    pub fn close_object(&mut self, badge: u64) {
        let closed = Request {
            kind: received::kind::PULSE,
            words: Answer::new(&[cairn_abi::pulse::CLOSED]).words,
            badge,
            ..Request::default()
        };
        assert!(self.request(closed).1.is_none());
    }

    /// Every reference is counted once, every mapping is allowed, every frame is somewhere.
    pub fn audit(&self) {
        let vm = &self.vm;
        let mut counts: HashMap<Frame, u32> = HashMap::new();
        *counts.entry(vm.zeroes).or_default() += 1;
        for frame in &vm.common {
            *counts.entry(*frame).or_default() += 1;
        }
        for frame in vm.nucleus.owned.iter().chain(&vm.nucleus.tables) {
            *counts.entry(*frame).or_default() += 1;
        }
        let mut mapped: HashMap<usize, u64> = HashMap::new();
        let mut programs: HashMap<usize, u64> = HashMap::new();
        // Chunks that several spaces hold have one reference to each frame.
        let mut chunks = HashSet::new();
        for (_, space) in vm.spaces.iter() {
            let mut pages = HashMap::new();
            let mut resident = 0;
            let mut end = 0;
            for region in space.regions.iter() {
                assert!(region.start >= end && region.end > region.start);
                end = region.end;
                if region.object != crate::region::ANONYMOUS {
                    *mapped.entry(region.object as usize).or_default() += region.pages();
                    if u64::from(region.flags) & vm::flags::PROGRAM != 0 {
                        *programs.entry(region.object as usize).or_default() += region.pages();
                    }
                    assert!(space.regions.may_show(region.object));
                }
                for page in region.start..region.end {
                    if let Some(found) = space.pages.get(page) {
                        let object = vm.objects.get(region.object as usize);
                        let number = region.offset + (page - region.start);
                        assert!(object.is_none_or(|o| number < o.len), "beyond the end");
                        let watched = object.filter(|object| object.is_watched());
                        assert!(!(found.cow && region.shared()) || watched.is_some());
                        if let (Some(object), true, false) = (watched, region.shared(), found.cow) {
                            let noted = object.pages.marked(number, number + 1) == 1;
                            let alone = object.maker == crate::space::NOBODY;
                            assert!(noted || alone, "page {page:#x} is written unnoticed");
                        }
                        pages.insert(page, (found, region.prot));
                        resident += 1;
                    }
                }
            }
            assert_eq!(resident, space.pages.resident(), "pages outside regions");
            for (identity, chunk) in space.pages.identities() {
                if chunks.insert(identity) {
                    for bit in (0..64).filter(|b| chunk.resident >> b & 1 != 0) {
                        *counts.entry(chunk.frames[bit]).or_default() += 1;
                    }
                }
            }
            assert_eq!(
                space.mapped,
                space.regions.iter().map(|r| r.pages()).sum::<u64>()
            );
            for (page, (frame, bits)) in &vm.nucleus.spaces[&space.slot].maps {
                if *page == SYSTEM_PAGE / PAGE {
                    continue;
                }
                let (found, prot) = pages[page];
                assert_eq!(found.frame, *frame, "stale mapping of page {page:#x}");
                let allowed = crate::space::hardware(prot, found.cow);
                assert_eq!(bits & !allowed, 0, "page {page:#x} allows too much");
            }
        }
        // What has ended and is not taken apart yet.
        for space in &vm.later.spaces {
            for (identity, chunk) in space.pages.identities() {
                if chunks.insert(identity) {
                    for bit in (0..64).filter(|b| chunk.resident >> b & 1 != 0) {
                        *counts.entry(chunk.frames[bit]).or_default() += 1;
                    }
                }
            }
            for region in space.regions.iter() {
                if region.object != crate::region::ANONYMOUS {
                    *mapped.entry(region.object as usize).or_default() += region.pages();
                    if u64::from(region.flags) & vm::flags::PROGRAM != 0 {
                        *programs.entry(region.object as usize).or_default() += region.pages();
                    }
                    assert!(space.regions.may_show(region.object));
                }
            }
        }
        for (i, object) in vm.objects.iter() {
            assert_eq!(object.mapped, mapped.remove(&i).unwrap_or(0));
            assert_eq!(object.programs, programs.remove(&i).unwrap_or(0));
            assert!(!object.unused() || vm.pagers.has_ended(object.maker));
            for chunk in object.pages.overlapping(0, u64::MAX) {
                for bit in (0..64).filter(|b| chunk.resident >> b & 1 != 0) {
                    *counts.entry(chunk.frames[bit]).or_default() += 1;
                }
            }
        }
        assert!(mapped.is_empty());
        for chunk in vm.frames.ended() {
            for bit in (0..64).filter(|b| chunk.resident >> b & 1 != 0) {
                *counts.entry(chunk.frames[bit]).or_default() += 1;
            }
        }
        let mut offered: HashMap<_, u64> = HashMap::new();
        for (_, offer) in vm.offers.iter() {
            *offered.entry(offer.giver).or_default() += offer.count;
            for chunk in offer.pages.overlapping(0, u64::MAX) {
                for bit in (0..64).filter(|b| chunk.resident >> b & 1 != 0) {
                    *counts.entry(chunk.frames[bit]).or_default() += 1;
                }
            }
        }
        // What a giver that is gone has lent stays until the loan is over.
        for (giver, count) in vm.dma.lent_by() {
            if vm.spaces.resolve(giver).is_some() {
                *offered.entry(giver).or_default() += count;
            }
        }
        for (_, space) in vm.spaces.iter() {
            assert_eq!(space.offered, offered.remove(&space.handle).unwrap_or(0));
        }
        assert!(offered.is_empty(), "offers without a giver");
        for (frame, count) in vm.dma.held() {
            *counts.entry(frame).or_default() += count;
        }
        let mut used = 0;
        for (frame, count) in &counts {
            assert_eq!(vm.frames.references(*frame), *count, "frame {frame}");
            used += (*frame >= 1000) as usize;
        }
        // Of a block of tables those wait that have come back.
        let spaces = vm.later.spaces.iter();
        used += spaces
            .map(|space| space.returned.count_ones() as usize)
            .sum::<usize>();
        assert_eq!(vm.frames.free() + used, vm.frames.total(), "lost frames");
        let held = vm.frames.held();
        for (account, record) in vm.frames.accounts.iter() {
            // What is counted for a group is that of all below it.
            let accounts = &vm.frames.accounts;
            let within = |other: crate::accounts::Account| accounts.is_within(other, account);
            let all = held.iter().filter(|(&other, _)| within(other));
            assert_eq!(record.held, all.map(|(_, &held)| held).sum::<u32>());
            let spaces = vm
                .spaces
                .iter()
                .filter(|(_, s)| within(s.account) && !s.eager);
            assert_eq!(record.spaces as usize, spaces.count());
            let charges = vm
                .spaces
                .iter()
                .flat_map(|(_, s)| s.charges.iter().filter(|(&other, _)| within(other)));
            assert_eq!(record.charged, charges.map(|(_, &c)| c).sum::<u32>());
            let objects = vm.objects.iter().filter(|(_, o)| within(o.account));
            let offers = vm.offers.iter().filter(|(_, o)| within(o.account));
            let records = (objects.count() + offers.count()) * crate::accounts::ONE_RECORD;
            let lists = vm
                .spaces
                .iter()
                .filter(|(_, s)| within(s.account) && !s.eager);
            let lists = lists.map(|(_, s)| s.regions.bytes()).sum::<usize>();
            assert_eq!(
                record.records as usize,
                records + lists,
                "account {account}"
            );
        }
    }
}
