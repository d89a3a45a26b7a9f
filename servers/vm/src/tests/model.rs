//! Random sequences of operations, compared page by page with a plain model of what each process must see.

use super::*;
use cairn_idl::vm::{advice, flags};
use std::collections::BTreeMap;

const LOW: u64 = 0x400;
const SPAN: u64 = 200;

/// A page of a process in the model.
#[derive(Clone, Copy, Debug)]
struct Page {
    prot: u64,
    /// Index of the cell behind it: shared memory, or what a private page shows until it is written.
    cell: Option<usize>,
    shared: bool,
    /// What was written privately.
    own: Option<u8>,
}

type Process = BTreeMap<u64, Page>;

/// Pages on their way from one process to another.
struct Offered {
    badge: u64,
    giver: Id,
    receiver: Id,
    contents: Vec<Option<u8>>,
}

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }
}

struct Model {
    world: World,
    processes: Vec<(Id, Process)>,
    cells: Vec<u8>,
    /// The pages of the object's maker, each with its cell, and the object's badge.
    server: Id,
    object: u64,
    offers: Vec<Offered>,
}

const OBJECT_PAGES: u64 = 24;

impl Model {
    fn new() -> Model {
        let mut world = World::new(6000);
        let server = world.made(&[vm::CREATE, 0, 0]).unwrap();
        world.map(server, LOW, OBJECT_PAGES);
        for i in (0..OBJECT_PAGES).step_by(2) {
            world.write(server, LOW + i, i as u8).unwrap();
        }
        let pages: Vec<u64> = (LOW..LOW + OBJECT_PAGES).collect();
        let object = world.object(server, &pages, true).unwrap();
        let first = world.create();
        Model {
            world,
            processes: vec![(first, Process::new())],
            cells: (0..OBJECT_PAGES)
                .map(|i| if i % 2 == 0 { i as u8 } else { 0 })
                .collect(),
            server,
            object,
            offers: Vec::new(),
        }
    }

    fn expected(&self, process: &Process, page: u64) -> Result<u8, u64> {
        let page = process.get(&page).ok_or(0u64)?;
        if page.prot == 0 {
            return Err(1);
        }
        Ok(page.own.or(page.cell.map(|c| self.cells[c])).unwrap_or(0))
    }

    fn write(&mut self, which: usize, page: u64, value: u8) {
        let id = self.processes[which].0;
        let result = self.world.write(id, page, value);
        match self.processes[which].1.get_mut(&page) {
            None => assert_eq!(result, Err(0)),
            Some(found) if found.prot & prot::WRITE == 0 => assert_eq!(result, Err(1)),
            Some(found) => {
                assert_eq!(result, Ok(()));
                match (found.shared, found.cell) {
                    (true, Some(cell)) => self.cells[cell] = value,
                    _ => found.own = Some(value),
                }
            }
        }
    }

    fn step(&mut self, random: &mut Random) {
        let which = random.below(self.processes.len() as u64) as usize;
        let id = self.processes[which].0;
        let start = LOW + random.below(SPAN);
        let most = if random.below(4) == 0 { 120 } else { 12 };
        let len = 1 + random.below(most);
        let range = start..start + len;
        let bits = [0, 1, RW, RW, RW, 5][random.below(6) as usize];
        let (address, bytes) = (start * PAGE, len * PAGE);
        match random.below(20) {
            0 | 1 => {
                let shared = random.below(3) == 0;
                let flag = flags::FIXED
                    | if shared { flags::SHARED } else { 0 }
                    | if random.below(4) == 0 {
                        flags::POPULATE
                    } else {
                        0
                    };
                let words = [vm::MAP, address, bytes, bits, flag];
                assert_eq!(self.world.call(id, &words), address as i64);
                for page in range {
                    let cell = shared.then(|| {
                        self.cells.push(0);
                        self.cells.len() - 1
                    });
                    let page_of = Page {
                        prot: bits,
                        cell,
                        shared,
                        own: None,
                    };
                    self.processes[which].1.insert(page, page_of);
                }
            }
            2 => {
                let shared = random.below(2) == 0;
                let offset = random.below(OBJECT_PAGES);
                let len = len.min(OBJECT_PAGES - offset);
                let flag = flags::FIXED | if shared { flags::SHARED } else { 0 };
                let words = [
                    vm::OBJECT_MAP,
                    address,
                    len * PAGE,
                    bits,
                    flag,
                    offset * PAGE,
                ];
                let answer = self.world.call_badge(id, self.object, &words);
                assert_eq!(answer.words[0], address);
                for i in 0..len {
                    let page_of = Page {
                        prot: bits,
                        cell: Some((offset + i) as usize),
                        shared,
                        own: None,
                    };
                    self.processes[which].1.insert(start + i, page_of);
                }
            }
            3 => {
                assert_eq!(self.world.call(id, &[vm::UNMAP, address, bytes]), 0);
                self.processes[which]
                    .1
                    .retain(|page, _| !range.contains(page));
            }
            4 | 5 => {
                let whole = range
                    .clone()
                    .all(|page| self.processes[which].1.contains_key(&page));
                let result = self.world.call(id, &[vm::PROTECT, address, bytes, bits]);
                assert_eq!(result == 0, whole);
                if whole {
                    for (_, page) in self.processes[which].1.range_mut(range) {
                        page.prot = bits;
                    }
                }
            }
            6 => {
                let words = [vm::ADVISE, address, bytes, advice::DONT_NEED];
                self.world.call(id, &words);
                for (_, page) in self.processes[which].1.range_mut(range) {
                    page.own = None;
                }
            }
            7 => self.remap(which, random, start, len),
            8 if self.processes.len() < 6 => {
                let child = self.world.fork(id).unwrap();
                let copy = self.processes[which].1.clone();
                self.processes.push((child, copy));
            }
            9 if self.processes.len() > 2 => {
                self.world.destroy(id);
                self.processes.remove(which);
                self.offers.retain(|offer| offer.giver != id);
            }
            10 => {
                let cell = random.below(OBJECT_PAGES);
                let value = random.below(256) as u8;
                self.world.write(self.server, LOW + cell, value).unwrap();
                self.cells[cell as usize] = value;
            }
            11 => {
                // Another writes into a process, past its protection.
                let value = random.below(256) as u8;
                self.world.vm.nucleus.out = vec![value; PAGE as usize];
                let words = [vm::WRITE_INTO, u64::from(id), address];
                let result = self.world.control(&words);
                self.world.vm.nucleus.out.clear();
                match self.processes[which].1.get_mut(&start) {
                    None => assert!(result < 0),
                    Some(page) => {
                        assert_eq!(result, PAGE as i64);
                        match (page.shared, page.cell) {
                            (true, Some(cell)) => self.cells[cell] = value,
                            _ => page.own = Some(value),
                        }
                    }
                }
            }
            12 | 13 => self.offer(which, random, start, len),
            14 | 15 if !self.offers.is_empty() => self.take(which, random, start),
            _ => {
                for _ in 0..4 {
                    let page = LOW + random.below(SPAN);
                    self.write(which, page, random.below(256) as u8);
                }
            }
        }
    }

    fn offer(&mut self, which: usize, random: &mut Random, start: u64, len: u64) {
        let id = self.processes[which].0;
        let copy = random.below(2);
        let other = random.below(self.processes.len() as u64) as usize;
        let receiver = match random.below(2) {
            0 => 0,
            _ => self.processes[other].0,
        };
        let words = [
            vm::OFFER,
            start * PAGE,
            len * PAGE,
            copy,
            u64::from(receiver),
        ];
        let answer = self.world.call_badge(id, 0, &words);
        let process = &mut self.processes[which].1;
        let needed = if copy == 1 { prot::READ } else { RW };
        let range = start..start + len;
        let whole = range.clone().all(|page| process.contains_key(&page));
        let own = process
            .range(range.clone())
            .all(|(_, page)| page.cell.is_none() && page.prot & needed == needed);
        let result = answer.words[0] as i64;
        if !own {
            return assert_eq!(result, -cairn_idl::errno::EACCES);
        }
        if !whole {
            return assert_eq!(result, -cairn_idl::errno::EFAULT);
        }
        assert_eq!(result, 0);
        let Some(Pass::Mint(badge)) = answer.pass else {
            panic!("an offer without a portal");
        };
        let contents = range.clone().map(|page| process[&page].own).collect();
        if copy == 0 {
            process
                .range_mut(range)
                .for_each(|(_, page)| page.own = None);
        }
        self.offers.push(Offered {
            badge,
            giver: id,
            receiver,
            contents,
        });
    }

    /// Somebody takes an offer, or its last portal goes.
    fn take(&mut self, which: usize, random: &mut Random, start: u64) {
        let id = self.processes[which].0;
        let at = random.below(self.offers.len() as u64) as usize;
        let badge = self.offers[at].badge;
        if random.below(4) == 0 {
            self.offers.remove(at);
            return self.world.close_object(badge);
        }
        let offer = &self.offers[at];
        let bytes = offer.contents.len() as u64 * PAGE;
        let short = random.below(8) == 0;
        let most = bytes - u64::from(short);
        let answer = self.world.take(id, badge, start * PAGE, most, flags::FIXED);
        let allowed = offer.receiver == 0 || offer.receiver == id || offer.giver == id;
        let result = answer.words[0] as i64;
        if !allowed {
            return assert_eq!(result, -cairn_idl::errno::EPERM);
        }
        if short {
            return assert_eq!(result, -cairn_idl::errno::EFBIG);
        }
        assert_eq!((answer.words[0], answer.words[1]), (start * PAGE, bytes));
        let offer = self.offers.remove(at);
        for (page, own) in (start..).zip(offer.contents) {
            let taken = Page {
                prot: RW,
                cell: None,
                shared: false,
                own,
            };
            self.processes[which].1.insert(page, taken);
        }
        // It is gone.
        let again = self.world.take(id, badge, start * PAGE, most, flags::FIXED);
        assert_eq!(again.words[0] as i64, -cairn_idl::errno::EBADF);
    }

    /// Move or resize; whether a range is one region only `vm` knows, so its answer decides.
    fn remap(&mut self, which: usize, random: &mut Random, start: u64, len: u64) {
        let id = self.processes[which].0;
        let process = &self.processes[which].1;
        let plain =
            (start..start + len).all(|p| process.get(&p).is_some_and(|page| page.cell.is_none()));
        let new = if plain {
            1 + random.below(20)
        } else {
            1 + random.below(len)
        };
        let (flag, wanted) = match random.below(3) {
            0 => (0, 0),
            1 => (1, 0),
            _ => (3, LOW + 300 + random.below(100)),
        };
        let words = [
            vm::REMAP,
            start * PAGE,
            len * PAGE,
            new * PAGE,
            flag,
            wanted * PAGE,
        ];
        let result = self.world.call(id, &words);
        if result < 0 {
            // A FIXED target is only emptied when the rest is right.
            return;
        }
        let to = result as u64 / PAGE;
        let process = &mut self.processes[which].1;
        if flag != 3 && new <= len {
            // What is made shorter may be several mappings, with holes.
            assert!(process.contains_key(&start));
            (new..len).for_each(|i| {
                process.remove(&(start + i));
            });
            return;
        }
        let mut moved = Vec::new();
        let mut attributes = None;
        for i in 0..len {
            let page = process.remove(&(start + i)).expect("mapped");
            attributes.get_or_insert(page);
            moved.push(page);
        }
        if flag == 3 {
            (to..to + new).for_each(|p| {
                process.remove(&p);
            });
        }
        for i in 0..new {
            let page = moved.get(i as usize).copied().unwrap_or(Page {
                own: None,
                ..attributes.expect("one page at least")
            });
            process.insert(to + i, page);
        }
    }

    fn check(&mut self) {
        for which in 0..self.processes.len() {
            let (id, process) = self.processes[which].clone();
            let beyond = process.keys().copied().filter(|p| *p >= LOW + SPAN);
            let pages: Vec<u64> = (LOW..LOW + SPAN).chain(beyond).collect();
            for page in pages {
                let expected = self.expected(&process, page);
                assert_eq!(
                    self.world.read(id, page),
                    expected,
                    "page {page:#x} of {id}"
                );
            }
        }
        for i in 0..OBJECT_PAGES {
            let expected = self.cells[i as usize];
            assert_eq!(self.world.read(self.server, LOW + i), Ok(expected));
        }
        self.world.audit();
    }
}

#[test]
fn every_process_sees_what_the_model_says() {
    for seed in 1..=40 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        let mut model = Model::new();
        for step in 0..400 {
            // Sometimes what has ended is left for a while.
            model.world.leaves = seed % 2 == 0;
            if random.below(3) == 0 {
                model.world.vm.do_piece();
            }
            model.step(&mut random);
            if step % 8 == 0 {
                model.world.audit();
            }
            // Seldom, so that most pages are not resident most of the time.
            if step % 100 == 99 {
                model.check();
            }
        }
        model.check();
        for (id, _) in std::mem::take(&mut model.processes) {
            model.world.destroy(id);
        }
        model.world.close_object(model.object);
        model.world.audit();
        model.world.do_all_pieces();
        model.world.audit();
        assert_eq!(model.world.vm.offers.iter().count(), 0);
        assert_eq!(model.world.vm.objects.iter().count(), 0);
        let resident: u64 = OBJECT_PAGES;
        let nucleus = model.world.vm.nucleus.owned.len() as u64;
        let free = model.world.vm.frames.free() as u64;
        assert_eq!(free, 6000 - 1 - resident - nucleus);
    }
}
