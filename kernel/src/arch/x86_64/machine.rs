//! [`Machine`]: the border to the portable part, as one value.

use super::apic::LocalApic;
use super::clock::Clock;
use super::code_log;
use super::console;
use super::cpu::{self, Features};
use super::descriptors::{self, PER_CPU};
use super::float::{self, FloatState};
use super::glue;
use super::handler_code;
use super::interrupt_code;
use super::interrupts::{vector, Arrival, Lines};
use super::memory::{self, frame_pointer, CODE_AREA, CODE_SIZE, HANDLER_PAGES, PAGE};
use super::paging::{self, Changed, Recent, Recents, Root};
use super::portal_code;
use super::ports;
use super::power::{self, Power};
use super::requests::{self, Others};
use super::stretch;
use super::tables;
use super::templates;
use super::traced;
use super::user_copy;
use crate::arch::{Arch, CopyFault, Frame, FrameList, MapError, Mapping, Taken};
use crate::channel::Channel;
use crate::cores;
use crate::domain::Domain;
use crate::hasty::list::Round;
use crate::hasty::Handler;
use crate::numbered::Numbered;
use crate::pool::{
    BlockRef, ChannelRef, DomainRef, Handle, Pool, PortalRef, SemaphoreRef, SpaceRef, ThreadRef,
};
use crate::portal::code::{Block, Constants, Way, CODE_BYTES};
use crate::portal::table::Target;
use crate::portal::Portal;
use crate::quick::LINKS;
use crate::quick_interrupt::Way as InterruptWay;
use crate::semaphore::Semaphore;
use crate::short::copy_words;
use crate::space::Space;
use crate::thread::Thread;
use crate::{Kernel, Resume};
use cairn_abi::hasty::Step;
use cairn_abi::layout::USER_TOP;
use cairn_abi::machine::Counters;
use cairn_abi::service::memory::pool;
use cairn_abi::state::{Registers, SystemPage};
use core::cell::Cell;
use core::hint::black_box;

/// Flags that a program may set for itself: arithmetic, trap, direction, resume, alignment check, identification.
const USER_FLAGS: u64 = 0x25_0dd5;
/// Flags that are always set in user mode: interrupts on, and the bit that is always one.
const FIXED_FLAGS: u64 = 0x202;

/// Bytes from one block of code to the next.
const BLOCK_SIZE: u64 = Pool::<BlockRef, Block>::object_size() as u64;

/// How many objects of a kind can be.
const fn room<R: Handle, T>() -> usize {
    memory::pool_pages(R::POOL as usize) as usize * PAGE as usize / Pool::<R, T>::object_size()
}
/// What docs/services/memory.md says.
const _: () = {
    assert!(room::<ThreadRef, Thread<FloatState>>() > 120_000);
    assert!(room::<ChannelRef, Channel>() > 120_000);
    assert!(room::<PortalRef, Portal>() > 500_000);
    assert!(room::<SemaphoreRef, Semaphore>() > 400_000);
    assert!(room::<DomainRef, Domain<Machine>>() > 35_000);
    assert!(room::<SpaceRef, Space<Root>>() > 100_000);
};

pub struct Machine {
    pub(super) apic: LocalApic,
    pub(super) lines: Lines,
    clock: Clock,
    power: Power,
    features: Features,
    /// Root whose upper half all spaces share.
    template: Frame,
    /// Root in use; the portal code changes it as well.
    pub(super) active: Frame,
    /// The same of the cores that are not in the nucleus.
    away: Numbered<Frame, { cores::MOST }>,
    others: Others,
    /// Tables used a moment ago: where pages were looked up, where they were mapped, and in copies.
    source: Cell<Recent>,
    target: Recent,
    pub(super) copies: Recents,
    /// Pages of registers that hasty handlers reach.
    handler_pages: [Frame; HANDLER_PAGES],
    handler_page_count: usize,
    pub(super) space_switches: u64,
    invalidations: u64,
    /// Entries are made through the twins.
    twins: bool,
}

impl Machine {
    /// For a copy that lets interrupts in if this is so.
    #[inline(always)]
    fn opened(&mut self, open: bool) -> user_copy::Opened {
        if open {
            core::ptr::from_mut(self).cast()
        } else {
            user_copy::CLOSED
        }
    }

    /// Page tables go away, or may not be changed any more.
    #[inline(never)]
    fn forget_recent_tables(&mut self) {
        self.source.set(Recent::NONE);
        self.target = Recent::NONE;
        self.copies.forget();
    }

    /// `template` is the root in use.
    pub(super) fn new(
        apic: LocalApic,
        lines: Lines,
        clock: Clock,
        power: Power,
        features: Features,
        template: Frame,
    ) -> Machine {
        requests::init(features.xsave_mask);
        let mut others = Others::new();
        others.add(0, apic.id());
        Machine {
            apic,
            lines,
            clock,
            power,
            features,
            template,
            active: template,
            away: Numbered([template; cores::MOST]),
            others,
            source: Cell::new(Recent::NONE),
            target: Recent::NONE,
            copies: Recents::NONE,
            handler_pages: [0; HANDLER_PAGES],
            handler_page_count: 0,
            space_switches: 0,
            invalidations: 0,
            twins: false,
        }
    }

    /// Core number `core` is the one with this local APIC, and uses the template's root.
    pub(super) fn add_core(&mut self, core: usize, id: u32) {
        self.others.add(core, id);
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    pub(super) fn template_root(&self) -> Frame {
        self.template
    }

    /// Nobody has a translation any more that is not true.
    pub(super) fn settle(&mut self) {
        self.others.settle();
    }

    /// Other cores (a bit each) that use this space.
    #[inline(always)]
    fn users(&self, root: Root) -> u32 {
        if self.others.count == 1 {
            return 0;
        }
        self.users_among_others(root)
    }

    #[cold]
    #[inline(never)]
    fn users_among_others(&self, root: Root) -> u32 {
        let cores = (0..self.others.count).filter(|&core| self.away[core] == root.0);
        cores.fold(0, |cores, core| cores | 1 << core)
    }

    pub(super) fn interrupt_arrived(&mut self, source: u32) -> Arrival {
        self.lines.arrived(source, &mut self.apic)
    }

    #[inline(always)]
    fn with_source<T>(&self, operation: impl FnOnce(&mut Recent) -> T) -> T {
        // SAFETY: the nucleus does one thing at a time, and `operation` (a lookup in `paging`) does not come back here.
        operation(unsafe { &mut *self.source.as_ptr() })
    }

    /// Forget the translation of a page whose entry changed.
    #[inline(always)]
    fn flush(&mut self, root: Root, address: u64, changed: Changed) {
        if changed.stale {
            self.forget_everywhere(root, address);
        }
    }

    #[inline(never)]
    fn forget_everywhere(&mut self, root: Root, address: u64) {
        forget(root, address, self.active, &mut self.invalidations);
        let users = self.users(root);
        self.others.stale(users);
    }
}

/// Drop a translation if its space is the active one.
#[inline(always)]
fn forget(root: Root, address: u64, active: Frame, count: &mut u64) {
    if root.0 == active {
        cpu::invalidate(address);
        *count += 1;
    }
}

fn canonical(address: u64) -> bool {
    (address as i64) << 16 >> 16 == address as i64
}

impl Arch for Machine {
    type Root = Root;
    const NO_ROOT: Root = Root(0);
    type FloatState = FloatState;
    const NEW_FLOAT: FloatState = FloatState::new();

    fn exchange(&mut self, from: usize, to: usize) {
        self.away[from] = self.active;
        // The present core is not among those that `away` tells of.
        self.active = core::mem::replace(&mut self.away[to], self.template);
        self.apic.exchange(from, to);
    }

    fn kick(&mut self, core: usize) {
        self.others.kick(core);
    }

    fn bring_in(&mut self, core: usize) {
        self.others.bring_in(core);
    }

    fn fetch(&mut self, core: usize, registers: &mut Registers, state: &mut FloatState) {
        // SAFETY: GS leads to this processor's data.
        if core == unsafe { (*descriptors::own()).core } {
            self.save_bases(registers);
            float::save(state, self.features.xsave_mask);
        } else {
            self.others.fetch(core, registers, state);
        }
    }

    fn rest(&mut self) {
        self.activate(Root(self.template));
    }

    #[inline(never)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn set_timer(&mut self, deadline: Option<u64>) {
        self.apic.set_timer(&self.clock, deadline);
    }

    fn ticks(&self) -> u64 {
        cpu::read_tsc()
    }

    fn ticks_to_ns(&self, ticks: u64) -> u64 {
        self.clock.to_ns(ticks)
    }

    fn save_bases(&self, registers: &mut Registers) {
        registers.fs_base = cpu::fs_base();
        registers.gs_base = cpu::user_gs_base();
    }

    #[inline(never)]
    fn load_bases(&mut self, registers: &Registers) {
        // `sanitize` has seen them unless they came from the processor, so this test is a second wall: a fault here would be the nucleus's.
        let safe = |base| if canonical(base) { base } else { 0 };
        cpu::set_fs_base(safe(registers.fs_base));
        cpu::set_user_gs_base(safe(registers.gs_base));
    }

    fn enter_domain(&mut self, turn_base: u64, domain: *const u8) {
        // SAFETY: per-CPU data of this processor; the entry code is not running.
        let cpu = unsafe { &mut *descriptors::own() };
        cpu.turn_base = turn_base;
        cpu.domain = domain.cast();
    }

    fn portal_code(target: Target) -> usize {
        portal_code::code_for(target)
    }

    #[inline(always)]
    fn pass_words(from: &Registers, _to: &mut Registers) -> u64 {
        &raw const *from as u64
    }

    #[inline(always)]
    fn own_words(of: &Registers) -> u64 {
        &raw const *of as u64
    }

    #[inline(always)]
    fn whole(resume: Resume) -> Resume {
        if resume.full <= 1 {
            return resume;
        }
        // SAFETY: both are the registers of live threads, and nobody else refers to them between the end of the portable part and that of the entry; they may be the same.
        unsafe {
            let words = *(resume.full as *const Registers);
            copy_words(&words, &mut *resume.registers);
        }
        Resume { full: 0, ..resume }
    }

    #[inline(always)]
    fn copy_registers(to: &mut Registers, from: &Registers) {
        user_copy::copy_registers(to, from);
    }

    fn reply_code() -> usize {
        portal_code::reply_code()
    }

    fn general_entries() -> usize {
        portal_code::general_entries()
    }

    #[inline]
    fn block_of(code: usize) -> Option<u32> {
        let offset = (code as u64).wrapping_sub(CODE_AREA);
        (offset < CODE_SIZE).then_some((offset / BLOCK_SIZE) as u32)
    }

    fn wait_for_passers(&mut self) {
        self.others.pass();
    }

    fn write_code(
        &mut self,
        index: u32,
        code: &mut [u8; CODE_BYTES],
        way: Way,
        constants: &mut Constants,
    ) -> usize {
        let at = CODE_AREA + index as u64 * BLOCK_SIZE;
        let several = glue::is_several();
        let reply = templates::write(code, at, way, constants, self.clock, several);
        code_log::made(at, reply, code);
        // What was executed at this address before may be in the processor still.
        cpu::serialize();
        at as usize
    }

    fn table_base(root: Root) -> u64 {
        root.0 as u64 * PAGE
    }

    fn unsettled_on(&self, core: usize) -> Option<usize> {
        let cpu = PER_CPU[core % cores::MOST].get();
        // SAFETY: per-CPU data of a processor, whose portal code changes these with the nucleus lock only, as long as calls are not settled.
        unsafe {
            let links = (&raw const (*cpu).links).read_volatile();
            (links != LINKS).then(|| (&raw const (*cpu).registers).read_volatile() as usize)
        }
    }

    fn settled(&mut self, core: usize, links: u32, root: Root, domain: *const u8) {
        self.active = root.0;
        let cpu = PER_CPU[core % cores::MOST].get();
        // SAFETY: per-CPU data of the processor whose turn it is; its entry code does not use these (it may read `domain`, where somebody's calls are turned round: nobody's are who was called quickly).
        unsafe {
            (*cpu).domain = domain.cast();
            (*cpu).links = LINKS;
            // A quick call counts itself and its reply.
            (*cpu).direct -= links as u64;
        }
    }

    fn switch_float(&mut self, save: Option<&mut FloatState>, load: &FloatState) {
        if let Some(state) = save {
            float::save(state, self.features.xsave_mask);
        }
        float::load(load, self.features.xsave_mask);
    }

    fn activate(&mut self, root: Root) {
        if root.0 != self.active {
            self.active = root.0;
            self.space_switches += 1;
            // SAFETY: every root was made by `root_new` and shares the nucleus's half.
            unsafe { cpu::load_root(root.0 as u64 * PAGE) };
        }
    }

    fn frame_pointer(&self, frame: Frame) -> *mut u8 {
        frame_pointer(frame)
    }

    fn list_push(&mut self, list: &mut FrameList, frame: Frame) {
        paging::list_push(list, frame);
    }

    fn list_pop(&mut self, list: &mut FrameList) -> Option<Frame> {
        paging::list_pop(list)
    }

    fn list_take(&mut self, list: &mut FrameList) -> Option<Frame> {
        paging::list_take(list)
    }

    fn root_new(&mut self, frame: Frame) -> Root {
        paging::root_new(frame, self.template)
    }

    fn root_frame(&self, root: Root) -> Frame {
        root.0
    }

    #[inline(always)]
    fn map(
        &mut self,
        root: Root,
        address: u64,
        frame: Frame,
        prot: u64,
        tables: &mut FrameList,
    ) -> Result<Option<Frame>, MapError> {
        let changed = paging::map(root, address, frame, prot, tables, &mut self.target)?;
        self.flush(root, address, changed);
        Ok(changed.before)
    }

    fn unmap(&mut self, root: Root, address: u64) -> Option<Frame> {
        let changed = paging::unmap(root, address, self.source.get_mut());
        self.flush(root, address, changed);
        changed.before
    }

    fn protect(&mut self, root: Root, address: u64, prot: u64) -> bool {
        let changed = paging::protect(root, address, prot, self.source.get_mut());
        self.flush(root, address, changed);
        changed.before.is_some()
    }

    fn query(&self, root: Root, address: u64) -> Option<Mapping> {
        self.with_source(|source| paging::query(root, address, source))
    }

    fn next_mapped(&self, root: Root, address: u64, pages: u64) -> Option<(u64, Mapping)> {
        self.with_source(|source| paging::next_mapped(root, address, pages, source))
    }

    fn interrupt_waits(&self) -> bool {
        // SAFETY: called in an entry.
        unsafe { glue::interrupt_waits() }
    }

    #[inline(always)]
    fn let_in(kernel: &mut Kernel<Machine>) -> bool {
        glue::let_in(kernel)
    }

    #[inline(always)]
    fn open(kernel: &mut Kernel<Machine>) {
        glue::let_in_if_open(kernel);
    }

    fn keep_table(&mut self, root: Root, address: u64) -> Option<Frame> {
        self.forget_recent_tables();
        paging::keep_table(root, address)
    }

    fn show_table(
        &mut self,
        root: Root,
        address: u64,
        table: Frame,
        tables: &mut FrameList,
    ) -> Result<(), MapError> {
        paging::show_table(root, address, table, tables)
    }

    fn leave_tables(&mut self, root: Root) {
        // The processor must not walk tables that are being given away.
        if root.0 == self.active {
            let template = Root(self.template);
            self.activate(template);
        }
        for core in 0..self.others.count {
            if self.away[core] == root.0 {
                self.others.use_root(core, self.template);
                self.away[core] = self.template;
            }
        }
        self.forget_recent_tables();
    }

    fn take_table(&mut self, root: Root, open: bool, emptied: impl FnMut(Frame)) -> Taken {
        let (open, machine) = (open && glue::opens(), &raw mut *self);
        paging::take_table(root, open, emptied, || {
            if open {
                // SAFETY: the caller says so, and that a table is half empty disturbs nobody.
                unsafe { glue::open(machine) }
            }
        })
    }

    fn change_row(
        &mut self,
        root: Root,
        address: u64,
        pages: u64,
        prot: Option<u64>,
        wanted: impl FnMut(Frame) -> bool,
    ) {
        let (users, mut stale) = (self.users(root), 0);
        let (active, count) = (self.active, &mut self.invalidations);
        let recent = self.source.get_mut();
        paging::change_row(root, address, pages, prot, recent, wanted, |at| {
            stale = users;
            forget(root, at, active, count)
        });
        self.others.stale(stale);
    }

    fn share_row(
        &mut self,
        source: Root,
        target: Root,
        address: u64,
        pages: u64,
        read_only: bool,
        open: bool,
        tables: &mut FrameList,
        changed: impl FnMut(Frame, Option<Frame>),
    ) -> Result<(), MapError> {
        let (open, machine) = (open && glue::opens(), &raw mut *self);
        // A pointer that the compiler knows nothing of, so that what is changed behind it is changed when interrupts come in.
        let tables = black_box(tables);
        let (users, mut stale) = (self.users(source) | self.users(target), 0);
        let (active, count) = (self.active, &mut self.invalidations);
        let recent = [self.source.get_mut(), &mut self.target];
        let result = paging::share_row(
            source,
            target,
            address,
            pages,
            read_only,
            tables,
            recent,
            changed,
            |root, at| {
                stale = users;
                forget(root, at, active, count)
            },
            move || {
                if open {
                    // SAFETY: the caller says so; with one core nobody hears of `stale`.
                    unsafe { glue::open(machine) }
                }
            },
        );
        self.others.stale(stale);
        result
    }

    #[inline(never)]
    fn copy_near(&mut self, source: (Root, u64), destination: (Root, u64), len: usize) -> bool {
        user_copy::copy_near(source, destination, len, &mut self.copies)
    }

    fn copy(
        &mut self,
        source: (Root, u64),
        destination: (Root, u64),
        len: usize,
        open: bool,
    ) -> Result<(), (usize, CopyFault)> {
        let open = self.opened(open);
        // SAFETY: the caller says that the running thread may be taken for interrupted, if it says `open`.
        unsafe { user_copy::copy(source, destination, len, &mut self.copies, open) }
    }

    fn read_user(&mut self, root: Root, address: u64, into: &mut [u8]) -> Result<(), CopyFault> {
        user_copy::read(root, address, into, &mut self.copies)
    }

    fn write_user(&mut self, root: Root, address: u64, from: &[u8]) -> Result<(), CopyFault> {
        user_copy::write(root, address, from, &mut self.copies)
    }

    #[inline(never)]
    fn zero_frame(&mut self, frame: Frame) {
        paging::zero(frame);
    }

    fn fill_frame(&mut self, frame: Frame, words: [u64; 2]) {
        // SAFETY: the direct map shows the frame whole; whoever owns it for the nucleus holds no reference into it yet.
        unsafe { user_copy::fill_page(frame_pointer(frame), words.into()) }
    }

    fn copy_frame(&mut self, to: Frame, from: Frame, open: bool) {
        let (to, from) = (frame_pointer(to), frame_pointer(from));
        let open = self.opened(open);
        // SAFETY: the direct map shows both frames whole; nobody holds references into them. The caller says what may be opened.
        unsafe { user_copy::copy_page(to, from, open) }
    }

    fn pool_base(&self, pool: usize) -> *mut u8 {
        memory::pool(pool as u64) as *mut u8
    }

    fn pool_pages(&self, pool: usize) -> u32 {
        memory::pool_pages(pool)
    }

    fn pool_map(&mut self, pool: usize, page: u32, frame: Frame) -> bool {
        let address = memory::pool(pool as u64) + page as u64 * PAGE;
        let mapped = tables::map_pool_page(self.template, address, frame);
        if pool as u64 == pool::CODE {
            tables::map_code_page(self.template, CODE_AREA + page as u64 * PAGE, frame);
        }
        mapped
    }

    fn pool_unmap(&mut self, pool: usize, page: u32) -> Frame {
        if pool as u64 == pool::CODE {
            tables::unmap_pool_page(self.template, CODE_AREA + page as u64 * PAGE);
        }
        let address = memory::pool(pool as u64) + page as u64 * PAGE;
        tables::unmap_pool_page(self.template, address)
    }

    fn forget_pools(&mut self) {
        self.others.forget_everything();
    }

    fn counters(&self, counters: &mut Counters) {
        (counters.longest, counters.longest_in) = stretch::longest();
        let mut direct = 0;
        for cpu in &PER_CPU {
            // SAFETY: single words that their cores count up; the other fields are not looked at.
            unsafe {
                counters.turned += (&raw const (*cpu.get()).turned).read_volatile();
                direct += (&raw const (*cpu.get()).direct).read_volatile();
            }
        }
        counters.direct += direct;
        counters.entries += direct;
        counters.thread_switches += direct;
        counters.space_switches += self.space_switches + direct;
        counters.invalidations += self.invalidations;
    }

    fn interrupt_mask(&mut self, source: u32, masked: bool) {
        self.lines.mask(source, masked, &mut self.apic);
    }

    fn interrupt_again(&mut self, source: u32) -> bool {
        self.interrupt_waits()
            && self.apic.asked_beside(vector(source))
            && self.lines.raise_again(source)
    }

    fn interrupt_way(&mut self, source: u32, way: Option<&InterruptWay>) {
        let masked = self.lines.masked_edge(source).filter(|_| !self.twins);
        interrupt_code::set(vector(source), way.zip(masked));
    }

    fn enter_through_twins(&mut self, on: bool) {
        self.twins = on;
        if on {
            interrupt_code::forget_all();
        }
        let entry = traced::enter_through_twins(on);
        // SAFETY: GS leads to this processor's data.
        let here = unsafe { (*descriptors::own()).core };
        self.others.enter_at(here, entry);
    }

    fn interrupt_lines(&self) -> u32 {
        self.lines.count()
    }

    fn interrupt_trigger(&mut self, line: u32, level: bool, low: bool) {
        self.lines.set_trigger(line, level, low);
    }

    fn message(&self, source: u32) -> Option<(u64, u32)> {
        self.lines.message(source)
    }

    fn port_in(&mut self, port: u16, width: u8) -> u32 {
        match width {
            1 => ports::in8(port) as u32,
            2 => ports::in16(port) as u32,
            _ => ports::in32(port),
        }
    }

    fn port_out(&mut self, port: u16, width: u8, value: u32) {
        match width {
            1 => ports::out8(port, value as u8),
            2 => ports::out16(port, value as u16),
            _ => ports::out32(port, value),
        }
    }

    fn write_handler(
        &mut self,
        index: u32,
        code: &mut [u8; CODE_BYTES],
        steps: &[Step],
        page: u32,
    ) -> Option<usize> {
        let at = CODE_AREA + index as u64 * BLOCK_SIZE;
        let fits = handler_code::write(code, at, steps, page);
        // As for portals.
        cpu::serialize();
        fits.then_some(at as usize)
    }

    fn run_handler(&mut self, code: usize, handler: &mut Handler) -> Round {
        // SAFETY: the portable part has it from `write_handler`, and keeps the block for as long as the handler has this list.
        unsafe { handler_code::run(code, handler) }
    }

    fn device_page(&mut self, frame: Frame) -> Option<u32> {
        let known = &self.handler_pages[..self.handler_page_count];
        if let Some(number) = known.iter().position(|&page| page == frame) {
            return Some(number as u32);
        }
        let number = self.handler_page_count;
        *self.handler_pages.get_mut(number)? = frame;
        self.handler_page_count += 1;
        tables::map_handler_page(self.template, number as u32, frame);
        Some(number as u32)
    }

    fn log(&mut self, bytes: &[u8]) {
        console::write(bytes);
        console::write(b"\n");
    }

    fn log_goes_on(&mut self) -> bool {
        console::goes_on()
    }

    fn set_wall_clock(&mut self, page: Frame, ns: u64) {
        let page = frame_pointer(page).cast::<SystemPage>();
        // SAFETY: the frame is the system page's, which the nucleus keeps mapped for good; an aligned word is written whole, and others only read it.
        unsafe { (&raw mut (*page).boot_realtime).write_volatile(ns) };
    }

    fn power(&mut self, action: u64, code: u64) {
        console::flush();
        match action {
            0 => self.power.off(),
            1 => self.power.reset(),
            _ => power::exit(code),
        }
        // Whoever asked for the end gets it, even where there is no device to leave by.
        cpu::halt()
    }

    #[inline(never)]
    fn sanitize(&self, registers: &mut Registers) {
        // The page at USER_TOP is never mapped: a wild address faults there, in user mode.
        registers.rip = registers.rip.min(USER_TOP);
        registers.rflags = registers.rflags & USER_FLAGS | FIXED_FLAGS;
        for base in [&mut registers.fs_base, &mut registers.gs_base] {
            if !canonical(*base) {
                *base = 0;
            }
        }
    }
}
