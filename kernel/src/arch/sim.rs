//! A simulated machine for tests on the development host: memory is an array of frames, spaces are maps of pages, time stands still until it is moved.

use crate::interrupt::LINES;

use super::{Arch, CopyFault, Frame, FrameList, MapError, Mapping, Taken};
use crate::hasty::interpret::interpret;
use crate::hasty::list::Round;
use crate::hasty::Handler;
use crate::portal::code::{Constants, Way, CODE_BYTES, CONSTANTS};
use crate::quick::LINKS;
use crate::quick_interrupt::Way as InterruptWay;
use cairn_abi::hasty::{Step, STEPS};
use cairn_abi::layout::USER_TOP;
use cairn_abi::machine::Counters;
use cairn_abi::service::memory::{pool, prot};
use cairn_abi::state::Registers;
use core::ops::{Index, IndexMut};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::vec::Vec;

/// Zeros that take no memory of the host before they are touched: many machines touch few of their pages.
struct Pages(memmap2::MmapMut);

impl Pages {
    fn new(count: usize) -> Pages {
        Pages(memmap2::MmapMut::map_anon(count * PAGE).expect("memory of the host"))
    }

    fn len(&self) -> usize {
        self.0.len() / PAGE
    }
}

impl Index<usize> for Pages {
    type Output = [u8; PAGE];
    fn index(&self, page: usize) -> &[u8; PAGE] {
        &self.0.as_chunks().0[page]
    }
}

impl IndexMut<usize> for Pages {
    fn index_mut(&mut self, page: usize) -> &mut [u8; PAGE] {
        &mut self.0.as_chunks_mut().0[page]
    }
}

const PAGE: usize = cairn_abi::layout::PAGE as usize;

/// Pages of each pool's region, but where a test asks for more.
const POOL_PAGES: usize = 256;
/// Device pages that the nucleus can show.
const DEVICE_PAGES: usize = 4;
/// One page table serves this many address bits.
const TABLE_SHIFT: u32 = 21;

#[derive(Default)]
pub struct SimSpace {
    pub pages: BTreeMap<u64, (Frame, u64)>,
    pub tables: BTreeMap<u64, Frame>,
    /// It shows the common table.
    pub common: bool,
}

impl SimSpace {
    fn covers(&self, common: &Option<SimCommon>, address: u64) -> bool {
        self.common
            && common
                .as_ref()
                .is_some_and(|c| c.table == address >> TABLE_SHIFT)
    }
}

/// The common table: which one, and its pages.
pub struct SimCommon {
    pub table: u64,
    pub pages: BTreeMap<u64, (Frame, u64)>,
}

/// What a core has of its own: timer, space, turn base, bases, float registers.
#[derive(Default)]
struct Away {
    timer: Option<u64>,
    active: Option<Frame>,
    turn: u64,
    bases: (u64, u64),
    float: u64,
    running: usize,
    called: u32,
}

pub struct Sim {
    /// No interrupt waits, ever.
    pub patient: bool,
    /// Another interrupt waits at a handler's next look, and which sources came again for that.
    pub other_waits: bool,
    pub again: Vec<u32>,
    memory: Pages,
    pools: Vec<Pages>,
    /// The frames of their pages.
    pool_frames: Vec<Vec<Frame>>,
    /// Pages were taken out of them, which cores may still see.
    pub stale_pools: bool,
    /// The tables that show pages of pools: of which pool, and which.
    pool_tables: BTreeSet<(usize, u32)>,
    pub spaces: BTreeMap<Frame, SimSpace>,
    pub common: Option<SimCommon>,
    pub time: u64,
    pub timer: Option<u64>,
    pub active: Option<Frame>,
    pub turn: u64,
    /// What the cores that are not in the nucleus have.
    away: BTreeMap<usize, Away>,
    here: usize,
    /// Cores that were told to come in.
    pub kicked: BTreeSet<usize>,
    /// The live FS and GS base.
    pub bases: (u64, u64),
    /// The live float registers.
    pub float: u64,
    pub lines: Vec<Vec<u8>>,
    /// Bytes of the log that its port has not sent, those that it takes at a time (None: there is no slow one), and how often it was looked at.
    pub log_waits: usize,
    pub log_room: Option<usize>,
    pub log_looks: u32,
    pub unmasked: BTreeSet<u32>,
    /// Sources that the machine layer may serve by itself, and how often it did.
    pub ways: BTreeMap<u32, InterruptWay>,
    pub quick_interrupts: u64,
    /// What was said about lines: level, low active.
    pub triggers: BTreeMap<u32, (bool, bool)>,
    pub ports: BTreeMap<u16, u32>,
    /// What the next reads of a port give, before what `ports` says.
    pub port_reads: BTreeMap<u16, VecDeque<u32>>,
    pub port_writes: Vec<(u16, u32)>,
    /// Device pages that the nucleus has, what their registers read as, and what was written.
    pub device_pages: Vec<Frame>,
    /// Lists of hasty handlers, by their blocks, with their pages of registers.
    lists: HashMap<usize, (Vec<Step>, u32)>,
    pub device_reads: BTreeMap<(Frame, u16), VecDeque<u32>>,
    pub device_writes: Vec<(Frame, u16, u32)>,
    /// Accesses to ports and device registers so far.
    pub port_accesses: usize,
    pub power: Option<(u64, u64)>,
    /// Entries are to be made through the twins.
    pub twins: bool,
    /// Address of the registers of the thread that runs in a quick call that is not settled (0: none), and how many more there may be.
    pub running: usize,
    pub links: u32,
    /// Quick replies so far, and turns that were handed on.
    pub quick: u64,
    /// Copies in the middle of quick calls; replies to them with more than words.
    pub quick_copies: u64,
    pub quick_extras: u64,
    /// Quick calls by a signature.
    pub quick_signed: u64,
    /// And to servers with registers of their own.
    pub quick_own: u64,
    pub switched: u64,
    /// The constants of the code in each block.
    pub codes: BTreeMap<u32, [u64; CONSTANTS]>,
    /// Blocks in which other cores may stand since they were given back, and those whose new code other cores may not see yet.
    pub stood_in: BTreeSet<u32>,
    pub unseen: BTreeSet<u32>,
}

impl Sim {
    /// Access to registers in a page that hasty handlers reach.
    pub fn device_in(&mut self, page: u32, offset: u16, width: u8) -> u32 {
        assert!(offset.is_multiple_of(width as u16));
        self.port_accesses += 1;
        let frame = self.device_pages[page as usize];
        let queue = self.device_reads.get_mut(&(frame, offset));
        let value = queue.and_then(VecDeque::pop_front).unwrap_or(0);
        value & u32::MAX >> (32 - 8 * width)
    }

    pub fn device_out(&mut self, page: u32, offset: u16, width: u8, value: u32) {
        assert!(offset.is_multiple_of(width as u16));
        self.port_accesses += 1;
        let frame = self.device_pages[page as usize];
        self.device_writes.push((frame, offset, value));
    }

    /// With so many pages in one pool's region.
    pub fn with_region(frames: usize, pool: u64, pages: usize) -> Sim {
        let mut sim = Sim::new(frames);
        sim.pools[pool as usize] = Pages::new(pages);
        sim.pool_frames[pool as usize] = std::vec![0; pages];
        sim
    }

    pub fn new(frames: usize) -> Sim {
        Sim {
            patient: false,
            other_waits: false,
            again: Vec::new(),
            memory: Pages::new(frames),
            pools: (0..pool::COUNT).map(|_| Pages::new(POOL_PAGES)).collect(),
            pool_frames: std::vec![std::vec![0; POOL_PAGES]; pool::COUNT],
            stale_pools: false,
            pool_tables: BTreeSet::new(),
            spaces: BTreeMap::new(),
            common: None,
            time: 1000,
            timer: None,
            active: None,
            turn: 0,
            away: BTreeMap::new(),
            here: 0,
            kicked: BTreeSet::new(),
            bases: (0, 0),
            float: 0,
            lines: Vec::new(),
            log_waits: 0,
            log_room: None,
            log_looks: 0,
            unmasked: BTreeSet::new(),
            ways: BTreeMap::new(),
            quick_interrupts: 0,
            triggers: BTreeMap::new(),
            ports: BTreeMap::new(),
            port_reads: BTreeMap::new(),
            port_writes: Vec::new(),
            device_pages: Vec::new(),
            lists: HashMap::new(),
            device_reads: BTreeMap::new(),
            device_writes: Vec::new(),
            port_accesses: 0,
            power: None,
            twins: false,
            running: 0,
            links: LINKS,
            quick: 0,
            quick_copies: 0,
            quick_extras: 0,
            quick_signed: 0,
            quick_own: 0,
            switched: 0,
            codes: BTreeMap::new(),
            stood_in: BTreeSet::new(),
            unseen: BTreeSet::new(),
        }
    }

    /// A block gets other code.
    fn rewrite(&mut self, index: u32) {
        assert!(
            !self.stood_in.contains(&index),
            "another core may stand in the block"
        );
        self.unseen.insert(index);
    }

    /// The bytes of a frame.
    pub fn frame(&mut self, frame: Frame) -> &mut [u8] {
        &mut self.memory[frame as usize]
    }

    /// Space and turn base that a core has loaded.
    pub fn loaded(&self, core: usize) -> (Option<Frame>, u64) {
        match self.away.get(&core) {
            Some(away) if core != self.here => (away.active, away.turn),
            _ => (self.active, self.turn),
        }
    }

    /// What is mapped there.
    fn page(&self, root: Frame, address: u64) -> Option<(Frame, u64)> {
        let space = self.spaces.get(&root)?;
        let pages = match &self.common {
            Some(common) if space.covers(&self.common, address) => &common.pages,
            _ => &space.pages,
        };
        pages.get(&(address >> 12)).copied()
    }

    fn translate(
        &self,
        root: Frame,
        address: u64,
        write: bool,
    ) -> Result<(Frame, usize), CopyFault> {
        let fault = |present| CopyFault {
            destination: write,
            address,
            present,
        };
        if address >= USER_TOP {
            return Err(fault(false));
        }
        let (frame, bits) = self.page(root, address).ok_or(fault(false))?;
        if write && bits & prot::WRITE == 0 || bits & prot::DEVICE != 0 {
            return Err(fault(true));
        }
        Ok((frame, (address & 4095) as usize))
    }
}

impl Arch for Sim {
    type Root = Frame;
    const NO_ROOT: Frame = 0;
    type FloatState = u64;
    const NEW_FLOAT: u64 = 0;

    fn exchange(&mut self, from: usize, to: usize) {
        let mine = self.away.remove(&to).unwrap_or_default();
        let last = Away {
            timer: core::mem::replace(&mut self.timer, mine.timer),
            active: core::mem::replace(&mut self.active, mine.active),
            turn: core::mem::replace(&mut self.turn, mine.turn),
            bases: core::mem::replace(&mut self.bases, mine.bases),
            float: core::mem::replace(&mut self.float, mine.float),
            running: core::mem::replace(&mut self.running, mine.running),
            called: LINKS - core::mem::replace(&mut self.links, LINKS - mine.called),
        };
        self.away.insert(from, last);
        self.here = to;
    }
    fn kick(&mut self, core: usize) {
        self.kicked.insert(core);
    }
    fn bring_in(&mut self, _: usize) {}
    fn fetch(&mut self, core: usize, registers: &mut Registers, float: &mut u64) {
        let (bases, live) = match self.away.get(&core) {
            Some(away) if core != self.here => (away.bases, away.float),
            _ => (self.bases, self.float),
        };
        (registers.fs_base, registers.gs_base) = bases;
        *float = live;
    }
    fn rest(&mut self) {
        self.active = None;
    }
    fn now(&self) -> u64 {
        self.time
    }
    fn set_timer(&mut self, deadline: Option<u64>) {
        self.timer = deadline;
    }
    fn ticks(&self) -> u64 {
        self.time
    }
    fn ticks_to_ns(&self, ticks: u64) -> u64 {
        ticks
    }
    fn save_bases(&self, registers: &mut Registers) {
        (registers.fs_base, registers.gs_base) = self.bases;
    }
    fn load_bases(&mut self, registers: &Registers) {
        self.bases = (registers.fs_base, registers.gs_base);
    }
    fn enter_domain(&mut self, turn_base: u64, _: *const u8) {
        self.turn = turn_base;
    }
    fn general_entries() -> usize {
        1
    }
    fn block_of(code: usize) -> Option<u32> {
        (code != 0).then_some(code as u32)
    }
    fn write_code(
        &mut self,
        index: u32,
        _: &mut [u8; CODE_BYTES],
        _: Way,
        constants: &mut Constants,
    ) -> usize {
        self.rewrite(index);
        self.codes.insert(index, constants.0);
        index as usize
    }
    fn wait_for_passers(&mut self) {
        self.stood_in.clear();
        self.unseen.clear();
    }
    fn table_base(root: Frame) -> u64 {
        root as u64
    }
    fn unsettled(&self) -> Option<usize> {
        (self.running != 0).then_some(self.running)
    }
    fn unsettled_on(&self, core: usize) -> Option<usize> {
        match self.away.get(&core) {
            Some(away) if core != self.here => (away.running != 0).then_some(away.running),
            _ => self.unsettled(),
        }
    }
    fn settled(&mut self, core: usize, links: u32, root: Frame, _: *const u8) {
        assert_eq!((core, links), (self.here, LINKS - self.links));
        assert_eq!(self.active, Some(root));
        (self.running, self.links) = (0, LINKS);
    }
    fn switch_float(&mut self, save: Option<&mut u64>, load: &u64) {
        if let Some(save) = save {
            *save = self.float;
        }
        self.float = *load;
    }
    fn activate(&mut self, root: Frame) {
        self.active = Some(root);
    }
    fn frame_pointer(&self, frame: Frame) -> *mut u8 {
        self.memory[frame as usize].as_ptr().cast_mut()
    }
    fn list_push(&mut self, list: &mut FrameList, frame: Frame) {
        let head = list.head;
        self.frame(frame)[..4].copy_from_slice(&head.to_le_bytes());
        list.head = frame;
        list.count += 1;
    }
    fn list_pop(&mut self, list: &mut FrameList) -> Option<Frame> {
        if list.count == 0 {
            return None;
        }
        let frame = list.head;
        let bytes = self.frame(frame);
        let next = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes.fill(0);
        list.head = next;
        list.count -= 1;
        Some(frame)
    }
    fn root_new(&mut self, frame: Frame) -> Frame {
        self.spaces.insert(frame, SimSpace::default());
        frame
    }
    fn root_frame(&self, root: Frame) -> Frame {
        root
    }
    fn map(
        &mut self,
        root: Frame,
        address: u64,
        frame: Frame,
        prot: u64,
        tables: &mut FrameList,
    ) -> Result<Option<Frame>, MapError> {
        if address >= USER_TOP {
            return Err(MapError::BadAddress);
        }
        if self
            .spaces
            .get(&root)
            .is_some_and(|space| space.covers(&self.common, address))
        {
            return Err(MapError::BadAddress);
        }
        let table = address >> TABLE_SHIFT;
        let missing = !self
            .spaces
            .get(&root)
            .is_some_and(|space| space.tables.contains_key(&table));
        if missing {
            let frame = self.list_pop(tables).ok_or(MapError::NoTable)?;
            tables.used += 1;
            self.spaces
                .entry(root)
                .or_default()
                .tables
                .insert(table, frame);
        }
        let space = self.spaces.entry(root).or_default();
        Ok(space
            .pages
            .insert(address >> 12, (frame, prot))
            .map(|(old, _)| old))
    }
    fn unmap(&mut self, root: Frame, address: u64) -> Option<Frame> {
        let space = self.spaces.get_mut(&root)?;
        space.pages.remove(&(address >> 12)).map(|(frame, _)| frame)
    }
    fn protect(&mut self, root: Frame, address: u64, prot: u64) -> bool {
        match self
            .spaces
            .get_mut(&root)
            .and_then(|space| space.pages.get_mut(&(address >> 12)))
        {
            Some(page) => {
                page.1 = prot;
                true
            }
            None => false,
        }
    }
    fn query(&self, root: Frame, address: u64) -> Option<Mapping> {
        let (frame, prot) = self.page(root, address)?;
        Some(Mapping {
            frame,
            prot,
            accessed: false,
            dirty: false,
        })
    }
    fn next_mapped(&self, root: Frame, address: u64, pages: u64) -> Option<(u64, Mapping)> {
        let first = address >> 12;
        let (&page, &(frame, prot)) = self
            .spaces
            .get(&root)?
            .pages
            .range(first..first + pages)
            .next()?;
        Some((
            page << 12,
            Mapping {
                frame,
                prot,
                accessed: false,
                dirty: false,
            },
        ))
    }
    fn keep_table(&mut self, root: Frame, address: u64) -> Option<Frame> {
        let space = self.spaces.get_mut(&root)?;
        let table = address >> TABLE_SHIFT;
        let first = address >> 12;
        let last = first + (1 << (TABLE_SHIFT - 12));
        let mut range = space.pages.range(first..last);
        if range.any(|(_, (_, prot))| prot & prot::WRITE != 0) {
            return None;
        }
        let frame = space.tables.remove(&table)?;
        let mut pages = space.pages.split_off(&first);
        space.pages.append(&mut pages.split_off(&last));
        space.common = true;
        self.common = Some(SimCommon { table, pages });
        Some(frame)
    }
    fn show_table(
        &mut self,
        root: Frame,
        address: u64,
        _: Frame,
        _: &mut FrameList,
    ) -> Result<(), MapError> {
        let space = self.spaces.entry(root).or_default();
        if space.common || space.tables.contains_key(&(address >> TABLE_SHIFT)) {
            return Err(MapError::BadAddress);
        }
        space.common = true;
        Ok(())
    }
    fn interrupt_waits(&self) -> bool {
        !self.patient
    }
    fn leave_tables(&mut self, _: Frame) {}
    fn take_table(&mut self, root: Frame, _open: bool, mut emptied: impl FnMut(Frame)) -> Taken {
        const SHARE: usize = 8;
        let Some(space) = self.spaces.get_mut(&root) else {
            return Taken::Root;
        };
        let Some((&table, &frame)) = space.tables.first_key_value() else {
            self.spaces.remove(&root);
            return Taken::Root;
        };
        let shift = TABLE_SHIFT - 12;
        let mut share = SHARE;
        space.pages.retain(|&page, &mut (mapped, _)| {
            let taken = page >> shift == table && share != 0;
            if taken {
                emptied(mapped);
                share -= 1;
            }
            !taken
        });
        if space.pages.keys().any(|page| page >> shift == table) {
            return Taken::Some;
        }
        space.tables.remove(&table);
        Taken::Table(frame)
    }
    fn copy(
        &mut self,
        source: (Frame, u64),
        destination: (Frame, u64),
        len: usize,
        _: bool,
    ) -> Result<(), (usize, CopyFault)> {
        for i in 0..len {
            let at = |address: u64| address.wrapping_add(i as u64);
            let (from, from_offset) = self
                .translate(source.0, at(source.1), false)
                .map_err(|fault| (i, fault))?;
            let (to, to_offset) = self
                .translate(destination.0, at(destination.1), true)
                .map_err(|fault| (i, fault))?;
            self.memory[to as usize][to_offset] = self.memory[from as usize][from_offset];
        }
        Ok(())
    }
    fn read_user(&mut self, root: Frame, address: u64, into: &mut [u8]) -> Result<(), CopyFault> {
        for (i, byte) in into.iter_mut().enumerate() {
            let (frame, offset) = self.translate(root, address.wrapping_add(i as u64), false)?;
            *byte = self.memory[frame as usize][offset];
        }
        Ok(())
    }
    fn write_user(&mut self, root: Frame, address: u64, from: &[u8]) -> Result<(), CopyFault> {
        for (i, &byte) in from.iter().enumerate() {
            let (frame, offset) = self.translate(root, address.wrapping_add(i as u64), true)?;
            self.memory[frame as usize][offset] = byte;
        }
        Ok(())
    }
    fn zero_frame(&mut self, frame: Frame) {
        self.frame(frame).fill(0);
    }
    fn fill_frame(&mut self, frame: Frame, words: [u64; 2]) {
        let bytes = words.map(u64::to_le_bytes);
        for row in self.frame(frame).chunks_exact_mut(16) {
            row.copy_from_slice(bytes.as_flattened());
        }
    }
    fn copy_frame(&mut self, to: Frame, from: Frame, _: bool) {
        let bytes = self.frame(from).to_vec();
        self.frame(to).copy_from_slice(&bytes);
    }
    fn pool_base(&self, pool: usize) -> *mut u8 {
        self.pools[pool].0.as_ptr().cast_mut().cast()
    }
    fn pool_pages(&self, pool: usize) -> u32 {
        self.pools[pool].len() as u32
    }
    fn pool_map(&mut self, pool: usize, page: u32, frame: Frame) -> bool {
        assert!(!self.stale_pools);
        // As if page tables showed 64 pages each.
        if page >= 64 && self.pool_tables.insert((pool, page / 64)) {
            return false;
        }
        let before = core::mem::replace(&mut self.pool_frames[pool][page as usize], frame);
        assert_eq!(before, 0);
        self.pools[pool][page as usize].fill(0);
        true
    }
    fn pool_unmap(&mut self, pool: usize, page: u32) -> Frame {
        self.stale_pools = true;
        // Whoever looks there after this finds nothing that makes sense.
        self.pools[pool][page as usize].fill(0xdb);
        let frame = core::mem::take(&mut self.pool_frames[pool][page as usize]);
        assert_ne!(frame, 0);
        frame
    }
    fn forget_pools(&mut self) {
        self.stale_pools = false;
    }
    fn counters(&self, _: &mut Counters) {}
    fn interrupt_mask(&mut self, line: u32, masked: bool) {
        if masked {
            self.unmasked.remove(&line);
        } else {
            self.unmasked.insert(line);
        }
    }
    fn interrupt_again(&mut self, source: u32) -> bool {
        let again = core::mem::take(&mut self.other_waits);
        if again {
            self.again.push(source);
        }
        again
    }
    fn interrupt_way(&mut self, source: u32, way: Option<&InterruptWay>) {
        match way {
            Some(way) if !self.twins => self.ways.insert(source, *way),
            _ => self.ways.remove(&source),
        };
    }
    fn enter_through_twins(&mut self, on: bool) {
        self.twins = on;
        if on {
            self.ways.clear();
        }
    }
    fn interrupt_lines(&self) -> u32 {
        24
    }
    fn interrupt_trigger(&mut self, line: u32, level: bool, low: bool) {
        self.triggers.insert(line, (level, low));
    }
    fn message(&self, source: u32) -> Option<(u64, u32)> {
        (source as usize >= LINES).then_some((0xfee0_0000, source))
    }
    fn port_in(&mut self, port: u16, width: u8) -> u32 {
        self.port_accesses += 1;
        let next = self.port_reads.get_mut(&port).and_then(VecDeque::pop_front);
        let value = next.or(self.ports.get(&port).copied()).unwrap_or(0);
        value & u32::MAX >> (32 - 8 * width)
    }
    fn port_out(&mut self, port: u16, _width: u8, value: u32) {
        self.port_accesses += 1;
        self.port_writes.push((port, value));
    }
    fn write_handler(
        &mut self,
        index: u32,
        _: &mut [u8; CODE_BYTES],
        steps: &[Step],
        page: u32,
    ) -> Option<usize> {
        // So that a list can be too long.
        let fits = steps.len() < STEPS;
        self.rewrite(index);
        self.lists.insert(index as usize, (steps.to_vec(), page));
        fits.then_some(index as usize)
    }
    fn run_handler(&mut self, code: usize, handler: &mut Handler) -> Round {
        let (steps, page) = self.lists[&code].clone();
        interpret(self, &steps, page, handler)
    }
    fn device_page(&mut self, frame: Frame) -> Option<u32> {
        let known = self.device_pages.iter().position(|&page| page == frame);
        let index = known.unwrap_or(self.device_pages.len());
        if index == DEVICE_PAGES {
            return None;
        }
        if known.is_none() {
            self.device_pages.push(frame);
        }
        Some(index as u32)
    }
    fn log(&mut self, bytes: &[u8]) {
        self.lines.push(bytes.to_vec());
        self.log_waits += bytes.len();
    }
    fn log_goes_on(&mut self) -> bool {
        let Some(room) = self.log_room else {
            return false;
        };
        self.log_looks += 1;
        self.log_waits = self.log_waits.saturating_sub(room);
        self.log_waits != 0
    }
    fn set_wall_clock(&mut self, page: Frame, ns: u64) {
        let at = core::mem::offset_of!(cairn_abi::state::SystemPage, boot_realtime);
        self.frame(page)[at..at + 8].copy_from_slice(&ns.to_le_bytes());
    }
    fn power(&mut self, action: u64, code: u64) {
        self.power = Some((action, code));
    }
    fn sanitize(&self, registers: &mut Registers) {
        registers.rflags = registers.rflags & 0xcd5 | 0x202;
        if registers.rip >= USER_TOP {
            registers.rip = 0;
        }
    }
}
