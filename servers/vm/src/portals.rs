//! The nucleus as `vm` really reaches it: portal calls, a window for copying into frames, and the frames behind `vm`'s own heap.

use cairn_abi::layout::{
    native_slot, DEVICES, DEVICE_RANGE, IOMMU_TABLES, NATIVE_HEAP, PAGE, SYSTEM_PAGE,
};
use cairn_abi::service::memory::{map, prot, Fill, Row, WRITABLE_CODE};
use cairn_abi::service::{current, domain, interrupt, memory, receive, AUTO};
use cairn_abi::{priority, rights, Error, Id, Token};
use cairn_iommu::{dmar, Hardware, Message};
use cairn_rt::device::Registers;
use cairn_rt::{dma, log, startup, Portal, Receiver, Reply};
use cairn_vm::frames::Frames;
use cairn_vm::nucleus::TAKEN;
use cairn_vm::{Answer, Frame, Nucleus, Pass};
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Where frames are mapped for copying (16 pages and one more for data that begins inside a page).
const WINDOW: u64 = NATIVE_HEAP - 0x100_0000;
/// Most frames set aside for the heap at a time: 64 MiB.
const STASH: usize = 16 * 1024;
/// Pages of addresses of the heap for each frame of the machine: runs without frames keep theirs.
const TIMES: usize = 4;
/// Frames of the stash that stay for page tables when the heap grows.
const FOR_TABLES: usize = 8;
/// Frames that are mapped or taken away at a time.
const LIST: usize = 64;

/// Entries that a frame adds to a portal table, and how many are kept free.
const ENTRIES_PER_FRAME: u32 = 256;
const SPARE_SLOTS: u32 = 32;

/// Where a page that is no memory is seen for a moment; below it the registers of the IOMMU's units.
const GLIMPSE: u64 = DEVICES + 255 * DEVICE_RANGE;
const UNITS: usize = 255;
/// Badge of the pulses of the IOMMU's interrupt.
const FAULTS: u64 = 0;

/// Frames set aside for the heap. Only this thread uses them; atomics because a static must be shareable.
static STASH_FRAMES: [AtomicU32; STASH] = [const { AtomicU32::new(0) }; STASH];
static STASHED: AtomicUsize = AtomicUsize::new(0);
static MEMORY: AtomicU32 = AtomicU32::new(0);
static SPACE: AtomicU32 = AtomicU32::new(0);

/// Frames that the heap can still have without asking.
pub fn stashed() -> usize {
    STASHED.load(Ordering::Relaxed)
}

/// Set a frame aside for the heap. False if there are enough.
pub fn stash(frame: Frame) -> bool {
    let count = stashed();
    let Some(place) = STASH_FRAMES.get(count) else {
        return false;
    };
    place.store(frame, Ordering::Relaxed);
    STASHED.store(count + 1, Ordering::Relaxed);
    true
}

/// Take a frame out of the stash.
pub fn unstash() -> Option<Frame> {
    let count = stashed().checked_sub(1)?;
    STASHED.store(count, Ordering::Relaxed);
    Some(STASH_FRAMES[count].load(Ordering::Relaxed))
}

/// `vm` has its heap with frames of the stash from now on, on a machine with so many frames.
pub fn start_heap(frames: usize) {
    cairn_rt::heap::set_frames(NATIVE_HEAP as usize, frames * TIMES, populate, release);
}

/// Pages of the heap get frames of the stash. False: there are too few, or they cannot be mapped.
fn populate(address: usize, bytes: usize) -> bool {
    let wanted = bytes / PAGE as usize;
    if wanted + wanted / 512 + FOR_TABLES > stashed() {
        return false;
    }
    let (memory, space) = own_space();
    let mut done = 0;
    while done < wanted {
        let mut list: [Frame; LIST] = [0; LIST];
        let count = (wanted - done).min(LIST);
        for slot in &mut list[..count] {
            *slot = unstash().unwrap_or(0);
        }
        let at = address as u64 + done as u64 * PAGE;
        if map_own(memory, space, at, &list[..count]).is_err() {
            for frame in &list[..count] {
                stash(*frame);
            }
            release(address, done * PAGE as usize);
            return false;
        }
        done += count;
    }
    true
}

/// The frames of pages of the heap go to the stash.
fn release(address: usize, bytes: usize) -> bool {
    let wanted = bytes / PAGE as usize;
    if stashed() + wanted > STASH {
        return false;
    }
    let (memory, space) = own_space();
    let mut done = 0;
    while done < wanted {
        let mut list: [Frame; LIST] = [0; LIST];
        let count = (wanted - done).min(LIST);
        let at = address as u64 + done as u64 * PAGE;
        for (i, slot) in list[..count].iter_mut().enumerate() {
            let words = [u64::from(space), at + i as u64 * PAGE];
            let told = memory.service(memory::QUERY, &words);
            *slot = told.map_or(0, |words| words[0] as Frame);
        }
        let words = [u64::from(space), at, count as u64];
        // (It fails for no range of a space that there is.)
        let gone = memory.service(memory::UNMAP, &words).is_ok();
        for frame in list[..count].iter().filter(|_| gone) {
            stash(*frame);
        }
        done += count;
    }
    true
}

/// The portal to memory, and `vm`'s own space.
fn own_space() -> (Portal, u32) {
    let memory = Portal(MEMORY.load(Ordering::Relaxed));
    (memory, SPACE.load(Ordering::Relaxed))
}

/// Map frames into `vm`'s own space, with frames of the stash for page tables.
fn map_own(memory: Portal, space: u32, address: u64, list: &[Frame]) -> Result<(), Error> {
    let words = [
        u64::from(space),
        address,
        list.as_ptr() as u64,
        list.len() as u64,
        prot::READ | prot::WRITE,
    ];
    map_with(memory, space, memory::MAP_LIST, &words)
}

/// Show a page that is no memory, uncached.
fn map_device(memory: Portal, space: u32, address: u64, page: u64) -> Result<(), Error> {
    let bits = prot::READ | prot::WRITE | prot::DEVICE | map::IO;
    let words = [u64::from(space), address, page, 1, bits, 0];
    map_with(memory, space, memory::MAP, &words)
}

fn map_with(memory: Portal, space: u32, operation: u8, words: &[u64]) -> Result<(), Error> {
    loop {
        match memory.service(operation, words) {
            Err(Error::NoTable) => {
                let frame = unstash().ok_or(Error::NoMemory)?;
                memory.service(
                    memory::GIVE_TABLES,
                    &[u64::from(space), u64::from(frame), 1],
                )?;
            }
            other => return other.map(|_| ()),
        }
    }
}

/// The portals that `vm` works with.
pub struct Portals {
    memory: Portal,
    space: u32,
    receiver: Receiver,
    /// Entries of `vm`'s own portal table.
    entries: u32,
}

impl Portals {
    pub fn new(memory: Portal, space: Portal, receiver: Receiver) -> Portals {
        MEMORY.store(memory.0, Ordering::Relaxed);
        SPACE.store(space.0, Ordering::Relaxed);
        Portals {
            memory,
            space: space.0,
            receiver,
            entries: ENTRIES_PER_FRAME,
        }
    }

    #[inline]
    fn memory(&self, operation: u8, words: &[u64]) -> Result<[u64; 8], Error> {
        self.memory.service(operation, words)
    }

    /// A slot was filled: keep some free behind it, for portals that arrive and for those made next.
    fn keep_room(&mut self, slot: u32) {
        if slot + SPARE_SLOTS < self.entries {
            return;
        }
        let own = u64::from(native_slot::DOMAIN);
        let mut grown = self.memory(memory::GROW_TABLE, &[own]);
        if let (Err(Error::NoTable), Some(frame)) = (&grown, unstash()) {
            let words = [u64::from(self.space), u64::from(frame), 1];
            grown = self
                .memory(memory::GIVE_TABLES, &words)
                .and_then(|_| self.memory(memory::GROW_TABLE, &[own]));
        }
        // Without it the next portal finds no slot, and its sender hears so.
        if grown.is_ok() {
            self.entries += ENTRIES_PER_FRAME;
        }
    }

    /// Copy between a part of a caller and frames, which are in the window for as long as that takes.
    fn through_window(
        &mut self,
        operation: u8,
        token: Token,
        offset: u64,
        frames: &[Frame],
        at: usize,
        len: usize,
    ) -> Result<usize, Error> {
        map_own(self.memory, self.space, WINDOW, frames)?;
        let address = WINDOW + at as u64;
        let copied = self
            .receiver
            .0
            .service(operation, &[token, offset, address, len as u64]);
        // The nucleus takes back only frames that are mapped nowhere.
        self.unmap(self.space, WINDOW, frames.len() as u64)?;
        copied.map(|words| words[0] as usize)
    }
}

impl Nucleus for Portals {
    fn space_create(&mut self, badge: u64, writable_code: bool) -> Result<u32, Error> {
        let how = if writable_code { WRITABLE_CODE } else { 0 };
        let words = [AUTO, u64::from(native_slot::RECEIVE), badge, how];
        let slot = self.memory(memory::SPACE_CREATE, &words)?[0] as u32;
        self.keep_room(slot);
        Ok(slot)
    }

    fn domain_create(&mut self, space: u32) -> Result<(u32, Id), Error> {
        let words = self.memory(memory::DOMAIN_CREATE, &[u64::from(space), AUTO])?;
        self.keep_room(words[0] as u32);
        Ok((words[0] as u32, words[1] as Id))
    }

    fn set_space(&mut self, target: u32, space: u32) -> Result<(), Error> {
        Portal(target)
            .service(domain::SET_SPACE, &[u64::from(space)])
            .map(|_| ())
    }

    fn has_ended(&mut self, target: u32) -> bool {
        let told = Portal(target).service(domain::INFO, &[]);
        told.map_or(true, |[_, threads, ..]| threads == 0)
    }

    fn destroy(&mut self, target: u32) {
        while Portal(target).service(domain::DESTROY, &[0]) == Err(Error::Again) {}
    }

    fn grow_table(&mut self, target: u32) -> Result<(), Error> {
        self.memory(memory::GROW_TABLE, &[u64::from(target)])
            .map(|_| ())
    }

    fn close(&mut self, slot: u32) {
        let _ = Portal::CURRENT.service(current::PORTAL_CLOSE, &[u64::from(slot)]);
    }

    fn give(&mut self, pool: u64, first: Frame, count: u64) -> Result<(), Error> {
        self.memory(memory::GIVE, &[pool, u64::from(first), count])
            .map(|_| ())
    }

    fn give_tables(&mut self, space: u32, first: Frame, count: u64) -> Result<(), Error> {
        let words = [u64::from(space), u64::from(first), count];
        self.memory(memory::GIVE_TABLES, &words).map(|_| ())
    }

    fn take_back(&mut self, pool: u64) -> Result<([Frame; TAKEN], usize), Error> {
        let words = self.memory(memory::TAKE, &[pool])?;
        let frames = core::array::from_fn(|i| words[1 + i] as Frame);
        Ok((frames, (words[0] as usize).min(TAKEN)))
    }

    fn pool_info(&mut self, pool: u64) -> Result<(u64, u64, u64), Error> {
        let words = self.memory(memory::POOL_INFO, &[pool])?;
        Ok((words[0], words[1], words[2]))
    }

    fn reap(&mut self, space: u32, into: &mut [Frame]) -> Result<bool, Error> {
        let words = [u64::from(space), 0, into.len() as u64];
        match self.memory.service_into(memory::REAP, &words, 1, into) {
            Ok(_) => Ok(true),
            Err(Error::Again) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn map(
        &mut self,
        space: u32,
        address: u64,
        frame: Frame,
        bits: u64,
        source: Frame,
    ) -> Result<(), Error> {
        let words = [
            u64::from(space),
            address,
            u64::from(frame),
            1,
            bits,
            u64::from(source),
        ];
        self.memory(memory::MAP, &words).map(|_| ())
    }

    fn fill(&mut self, space: u32, fills: &[Fill]) -> (usize, Result<(), Error>) {
        let array = fills.as_ptr() as u64;
        let words = [u64::from(space), array, fills.len() as u64];
        let (words, result) = self.memory.service_counted(memory::FILL, &words);
        (words[0] as usize, result)
    }

    fn map_list(
        &mut self,
        space: u32,
        address: u64,
        frames: &[Frame],
        bits: u64,
    ) -> Result<(), Error> {
        let words = [
            u64::from(space),
            address,
            frames.as_ptr() as u64,
            frames.len() as u64,
            bits,
        ];
        self.memory(memory::MAP_LIST, &words).map(|_| ())
    }

    fn unmap(&mut self, space: u32, address: u64, pages: u64) -> Result<(), Error> {
        self.memory(memory::UNMAP, &[u64::from(space), address, pages])
            .map(|_| ())
    }

    fn protect(&mut self, space: u32, address: u64, pages: u64, bits: u64) -> Result<(), Error> {
        let words = [u64::from(space), address, pages, bits];
        self.memory(memory::PROTECT, &words).map(|_| ())
    }

    fn share(&mut self, from: u32, to: u32, rows: &[Row]) -> (usize, Result<(), Error>) {
        let (array, count) = (rows.as_ptr() as u64, rows.len() as u64);
        let words = [u64::from(from), u64::from(to), array, count];
        let (words, result) = self.memory.service_counted(memory::SHARE, &words);
        (words[0] as usize, result)
    }

    fn keep_common(&mut self, space: u32, address: u64) -> Result<(), Error> {
        self.memory(memory::KEEP_TABLE, &[u64::from(space), address])
            .map(|_| ())
    }

    fn show_common(&mut self, space: u32) -> Result<(), Error> {
        self.memory(memory::SHOW_TABLE, &[u64::from(space)])
            .map(|_| ())
    }

    fn copy_frame(&mut self, to: Frame, from: Frame) -> Result<(), Error> {
        self.memory(memory::COPY_FRAME, &[u64::from(to), u64::from(from)])
            .map(|_| ())
    }

    fn zero_frame(&mut self, frame: Frame) -> Result<(), Error> {
        self.memory(memory::ZERO_FRAME, &[u64::from(frame)])
            .map(|_| ())
    }

    fn query(&mut self, space: u32, address: u64) -> Option<Frame> {
        const PRESENT: u64 = 1 << 10;
        let words = self
            .memory(memory::QUERY, &[u64::from(space), address])
            .ok()?;
        (words[1] & PRESENT != 0).then_some(words[0] as Frame)
    }

    fn system_page(&mut self) -> Frame {
        self.memory(memory::SYSTEM_PAGE, &[])
            .ok()
            .map(|words| words[0] as Frame)
            .or_else(|| self.query(self.space, SYSTEM_PAGE))
            .unwrap_or(0)
    }

    fn read(&mut self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        self.receiver.read(token, offset, into)
    }

    fn write(&mut self, token: Token, offset: u64, from: &[u8]) -> Result<usize, Error> {
        self.receiver.write(token, offset, from)
    }

    fn read_frames(
        &mut self,
        token: Token,
        offset: u64,
        frames: &[Frame],
        at: usize,
        len: usize,
    ) -> Result<usize, Error> {
        self.through_window(receive::READ, token, offset, frames, at, len)
    }

    fn write_frames(
        &mut self,
        token: Token,
        offset: u64,
        frames: &[Frame],
        at: usize,
        len: usize,
    ) -> Result<usize, Error> {
        self.through_window(receive::WRITE, token, offset, frames, at, len)
    }

    fn part_addresses(&mut self, token: Token) -> (u64, u64) {
        self.receiver
            .0
            .service(receive::CALLER, &[token])
            .map_or((0, 0), |words| (words[3], words[4]))
    }

    fn priority_of(&mut self, token: Token) -> u8 {
        let told = self.receiver.0.service(receive::CALLER, &[token]);
        told.map_or(priority::NORMAL, |words| words[2] as u8)
    }

    fn work_for(&mut self, token: Token) {
        let words = [token, receive::RESUME];
        // (A caller that is gone is told by a pulse.)
        let _ = self.receiver.0.service(receive::CALLER, &words);
    }

    fn reply(&mut self, token: Token, answer: &Answer) -> Result<(), Error> {
        let reply = Reply::new(&answer.words);
        let reply = match answer.pass {
            None => reply,
            Some(Pass::Copy(slot)) => reply.portal(Portal(slot), false),
            Some(Pass::Mint(badge)) => reply.mint(badge),
        };
        self.receiver.reply(token, reply)
    }

    fn portal_badge(&mut self, slot: u32) -> Option<u64> {
        let words = Portal::CURRENT
            .service(current::PORTAL_INFO, &[u64::from(slot)])
            .ok()?;
        (words[5] == 1 && words[1] & u64::from(rights::CALL) != 0).then_some(words[4])
    }

    fn notify(&mut self, slot: u32) {
        let _ = Portal(slot).notify(1);
    }

    fn now(&mut self) -> u64 {
        cairn_rt::time::monotonic()
    }

    fn show_table(&mut self, frame: Frame) -> bool {
        let address = IOMMU_TABLES + u64::from(frame) * PAGE;
        let inside = Registers::shown(address, PAGE).is_some();
        inside && map_own(self.memory, self.space, address, &[frame]).is_ok()
    }

    fn message(&mut self) -> Option<Message> {
        let irq = startup::portal("irq")?;
        let words = [u64::from(native_slot::RECEIVE), FAULTS];
        irq.service(interrupt::BIND, &words).ok()?;
        let told = irq.service(interrupt::INFO, &[]).ok()?;
        Some(Message {
            address: told[2],
            word: told[3] as u32,
        })
    }

    fn acknowledge(&mut self) {
        if let Some(irq) = startup::portal("irq") {
            let _ = irq.service(interrupt::ACKNOWLEDGE, &[]);
        }
    }

    fn say(&mut self, line: fmt::Arguments) {
        log!("{line}");
    }

    fn heap_rest(&mut self) -> Option<Frame> {
        (stashed() > crate::STASH_LOW).then(unstash)?
    }

    fn heap_room(&mut self, frames: &mut Frames, bytes: usize) -> bool {
        let wanted = bytes.div_ceil(PAGE as usize) + crate::STASH_LOW;
        while stashed() < wanted {
            let Some(frame) = frames.alloc(0) else {
                return false;
            };
            if !stash(frame) {
                frames.release(frame);
                return false;
            }
        }
        true
    }
}

/// A table of the IOMMU, as `vm` sees it.
fn table(frame: Frame) -> Option<Registers> {
    Registers::shown(IOMMU_TABLES + u64::from(frame) * PAGE, PAGE)
}

/// The registers of a unit.
fn unit(number: usize) -> Option<Registers> {
    let address = DEVICES + number as u64 * DEVICE_RANGE;
    Registers::shown(address, cairn_iommu::REGISTER_PAGES * PAGE)
}

impl Hardware for Portals {
    fn show(&mut self, number: usize, address: u64, length: u64) -> bool {
        number < UNITS
            && (0..length / PAGE).all(|page| {
                let place = DEVICES + number as u64 * DEVICE_RANGE + page * PAGE;
                map_device(self.memory, self.space, place, address / PAGE + page).is_ok()
            })
    }

    fn register(&mut self, number: usize, at: usize) -> u32 {
        unit(number).map_or(u32::MAX, |registers| registers.read32(at))
    }

    fn set_register(&mut self, number: usize, at: usize, value: u32) {
        if let Some(registers) = unit(number) {
            registers.write32(at, value);
        }
    }

    fn word(&mut self, frame: Frame, index: usize) -> u64 {
        table(frame).map_or(0, |table| table.read64(index * 8))
    }

    fn set_word(&mut self, frame: Frame, index: usize, value: u64) {
        if let Some(table) = table(frame) {
            table.write64(index * 8, value);
        }
    }

    fn write_back(&mut self, frame: Frame, index: usize) {
        if let Some(table) = table(frame) {
            table.write_back(index * 8);
        }
    }

    fn barrier(&mut self) {
        dma::barrier();
    }

    fn is_apart(&mut self, frame: Frame) -> bool {
        // The nucleus shows as device memory only what is no memory of its own or of programs.
        let shown = map_device(self.memory, self.space, GLIMPSE, u64::from(frame)).is_ok();
        let _ = self.unmap(self.space, GLIMPSE, 1);
        shown
    }

    fn time(&mut self) -> u64 {
        cairn_rt::time::monotonic()
    }
}

impl dmar::Physical for Portals {
    fn peek(&mut self, address: u64, into: &mut [u8]) -> bool {
        for (i, byte) in into.iter_mut().enumerate() {
            let at = address + i as u64;
            let first = i == 0 || at.is_multiple_of(PAGE);
            if first && map_device(self.memory, self.space, GLIMPSE, at / PAGE).is_err() {
                return false;
            }
            *byte =
                Registers::shown(GLIMPSE, PAGE).map_or(0, |page| page.read8((at % PAGE) as usize));
        }
        let _ = self.unmap(self.space, GLIMPSE, 1);
        true
    }
}
