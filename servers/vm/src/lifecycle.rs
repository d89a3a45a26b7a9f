//! Spaces and domains come and go: CREATE, FORK, RESET, DESTROY, and what they need of the nucleus's object pools.

use crate::accounts::{Account, Charges, ROOT, SYSTEM};
use crate::code::Code;
use crate::fault::{refused, Fault};
use crate::filled::fill;
use crate::forked::{Manner, EAGER};
use crate::frames::{Frames, BLOCK, MANY, PIECE};
use crate::later::IN_PIECES;
use crate::lock::Limits;
use crate::nucleus::{Answer, Frame, Nucleus, Pass};
use crate::pages::Pages;
use crate::pools::POOL_FREE;
use crate::region::{Region, Regions, ABSENT, ANONYMOUS, BREAK, WIPED};
use crate::slab::Handle;
use crate::space::{
    forget_piece, give_table, with_tables, Domain, Errno, Faults, Layout, Space, Trouble, Vm,
    BATCH, NATIVE_RESERVE, NOBODY,
};
use alloc::vec::Vec;
use cairn_abi::layout;
use cairn_abi::service::memory::{pool, prot, Row, ROWS};
use cairn_abi::{Error, Id, Token};
use cairn_idl::errno::*;
use core::mem::size_of;

/// Every so many forks nothing is copied at once and no page of an object shown, to see anew what is written and asked for; the first time soon, because what a program writes
/// and children ask for while it starts is not what they do later.
const RELEARN: u32 = 64;
const RELEARN_FIRST: u32 = 4;

/// Pages and chunks of a fork that are copied in one go, of a program with more than [`MANY`] pages or so many chunks.
const FORKED_AT_ONCE: (u64, usize) = (2 * PIECE, 16);
const MANY_CHUNKS: usize = 128;

/// A copy that is being made: its space and its parent's, and whose it will be.
#[derive(Clone, Copy)]
pub(crate) struct Child {
    pub(crate) parent: Handle,
    pub(crate) handle: Handle,
    payer: (Account, bool),
    adjust: i16,
}

/// Page tables of a program with many pages that are taken apart at a time.
const TABLES: usize = 4;
/// Most that the nucleus gives back at a time.
const ALL_TABLES: usize = 20;

/// Regions for which a new program's list has room at once.
const PROGRAM_REGIONS: usize = 32;

impl<N: Nucleus> Vm<N> {
    /// Do something that takes an object of a pool, after filling the pool if need be.
    fn with_pool<T>(
        &mut self,
        kind: u64,
        mut make: impl FnMut(&mut N) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        match make(&mut self.nucleus) {
            Ok(made) => Ok(made),
            Err(Error::NoMemory) if self.fill_pool(kind, POOL_FREE[kind as usize]) => {
                make(&mut self.nucleus).map_err(|_| ENOMEM)
            }
            Err(_) => Err(ENOMEM),
        }
    }

    /// A space with table frames and the system page, not used by any domain.
    fn new_space(
        &mut self,
        kind: Layout,
        code: Code,
        (limit, limits): (u64, Limits),
        (account, root): (Account, bool),
    ) -> Result<usize, Errno> {
        let handle = self.spaces.next_handle().ok_or(ENOMEM)?;
        let floor = match kind {
            Layout::Linux => self.program_floor(root),
            Layout::Native(_) => NATIVE_RESERVE,
        };
        let reserve = self.frames.pay(account, floor);
        let least = reserve.saturating_add(BLOCK as usize);
        if !self.frames.has_more_than(least) {
            // What is still to be taken apart may do.
            self.drop_ended();
            if !self.frames.has_more_than(least) {
                return Err(ENOMEM);
            }
        }
        let slot = self.with_pool(pool::SPACE, |n| {
            n.space_create(handle, kind == Layout::Linux)
        })?;
        let mut space = Space {
            slot,
            handle,
            layout: kind,
            code,
            eager: false,
            account,
            floor,
            charges: Charges::new(),
            recorded: 0,
            weight: 0,
            faults: Faults::default(),
            adjust: i16::MAX,
            regions: Regions::default(),
            pages: Default::default(),
            domains: 0,
            limit,
            limits,
            mapped: 0,
            objects: 0,
            offered: 0,
            parent: NOBODY,
            forks: 0,
            block: None,
            returned: 0,
        };
        let (nucleus, frames, tables) =
            (&mut self.nucleus, &mut self.frames, &mut self.table_frames);
        let mut equipped = Ok(());
        frames.accounts.payer = account;
        if let Some(block) = frames.alloc_block(reserve) {
            if nucleus.give_tables(slot, block, u64::from(BLOCK)).is_ok() {
                space.block = Some(block);
                *tables += u64::from(BLOCK);
            } else {
                frames.release_block(block);
            }
        }
        if space.block.is_none() {
            // No long runs any more: single frames for the root, the portal table and what the system page needs.
            for _ in 0..5 {
                equipped = equipped.and(give_table(nucleus, frames, &mut space, tables));
            }
        }
        let system_page = self.system_page;
        let common = kind == Layout::Linux && !self.common.is_empty();
        let equipped = equipped.and_then(|()| {
            with_tables(
                nucleus,
                frames,
                &mut space,
                tables,
                |n, slot| match common {
                    true => n.show_common(slot),
                    false => n.map(slot, layout::SYSTEM_PAGE, system_page, prot::READ, 0),
                },
            )
        });
        if equipped.is_err() {
            self.dismantle_or_keep(space);
            return Err(ENOMEM);
        }
        let index = self.spaces.insert(space).ok_or(ENOMEM)?;
        let accounts = &mut self.frames.accounts;
        accounts.count(account, |record| record.spaces += 1);
        Ok(index)
    }

    fn new_domain(
        &mut self,
        index: usize,
        (account, root): (Account, bool),
        adjust: i16,
    ) -> Result<Domain, Errno> {
        let slot = self.spaces.get(index).ok_or(ESRCH)?.slot;
        let mut made = self.with_pool(pool::DOMAIN, |n| match n.domain_create(slot) {
            Err(Error::NoTable) => Ok(None),
            other => other.map(Some),
        })?;
        if made.is_none() {
            let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
            give_table(
                &mut self.nucleus,
                &mut self.frames,
                space,
                &mut self.table_frames,
            )
            .map_err(|_| ENOMEM)?;
            made = self.nucleus.domain_create(slot).ok();
        }
        let (slot, id) = made.ok_or(ENOMEM)?;
        let domain = Domain {
            id,
            slot,
            space: index,
            account,
            root,
            adjust,
        };
        if !self.set_domain(domain) {
            self.nucleus.destroy(slot);
            self.nucleus.close(slot);
            return Err(ENOMEM);
        }
        if let Some(space) = self.spaces.get_mut(index) {
            space.domains += 1;
        }
        Ok(domain)
    }

    /// CREATE.
    pub(crate) fn create(&mut self, token: Token, limit: u64, linux: bool) -> Result<(), Errno> {
        self.look_at_pools();
        let native = Layout::Native(layout::NATIVE_HEAP / layout::PAGE);
        let (kind, code, account) = match linux {
            true => (Layout::Linux, self.code, ROOT),
            false => (native, Code::Built, SYSTEM),
        };
        let index = self.new_space(kind, code, (limit, Limits::default()), (account, true))?;
        self.finish(token, index, (account, true), 0)
    }

    /// FORK.
    pub(crate) fn fork(
        &mut self,
        token: Token,
        parent: Id,
        (share, few): (bool, bool),
        pays: Option<(u64, bool)>,
        before: Id,
    ) -> Result<(), Errno> {
        let Domain {
            space: from,
            account,
            root,
            adjust,
            ..
        } = self.domain(parent).ok_or(ESRCH)?;
        let payer = match pays {
            Some((uid, root)) => (self.payer(uid)?, root),
            None => (account, root),
        };
        self.look_at_pools();
        if share {
            return self.finish(token, from, payer, adjust);
        }
        self.is_at_rest(from)?;
        if few && self.is_much(from) {
            return Err(E2BIG);
        }
        let (kind, code, limit) = self
            .spaces
            .get(from)
            .map(|s| {
                (
                    s.layout,
                    s.code.inherited(),
                    (s.limit, s.limits.inherited()),
                )
            })
            .ok_or(ESRCH)?;
        let code = match before {
            0 => code,
            before => {
                let place = self.domain(before).ok_or(ESRCH)?.space;
                self.spaces.get(place).ok_or(ESRCH)?.code.inherited()
            }
        };
        let index = self.new_space(kind, code, limit, payer)?;
        let all = [(0, layout::FRAMES / layout::PAGE)];
        let how = (true, pays.is_some());
        let copied = self.begin_copy(from, index, &all, how).and_then(|manner| {
            if self.is_much(from) {
                self.fork_in_pieces(from, index, (payer, adjust), manner)?;
            }
            self.copy_part(from, index, (0, u64::MAX), manner)?;
            self.keep_lent(from, index)
        });
        match copied {
            Err(errno) if errno != IN_PIECES => self.drop_if_unused(index),
            _ => {}
        }
        copied?;
        self.finish(token, index, payer, adjust)
    }

    /// The copy is made in pieces if there is room for one more request that is.
    fn fork_in_pieces(
        &mut self,
        from: usize,
        index: usize,
        (payer, adjust): ((Account, bool), i16),
        manner: Manner,
    ) -> Result<(), Errno> {
        let parent = self.spaces.get(from).ok_or(ESRCH)?;
        let (parent, chunks) = (parent.handle, parent.pages.chunks());
        let child = self.spaces.get_mut(index).ok_or(ESRCH)?;
        let copy = Child {
            parent,
            handle: child.handle,
            payer,
            adjust,
        };
        // They are put together here. (There is heap for it.)
        child.pages = Pages::with_capacity(chunks);
        self.fork_later(copy, manner)
    }

    /// Copy those chunks of a parent that hold the last pages below `end`; → where that began.
    pub(crate) fn fork_part(
        &mut self,
        child: Child,
        end: u64,
        manner: &mut Manner,
    ) -> Result<u64, Errno> {
        let from = self.spaces.resolve(child.parent).ok_or(ESRCH)?;
        let index = self.spaces.resolve(child.handle).ok_or(ESRCH)?;
        let parent = self.spaces.get(from).ok_or(ESRCH)?;
        let start = parent.pages.last_chunks(end, FORKED_AT_ONCE);
        let (first, last) = parent.pages.between(start, end);
        let copy = self.spaces.get(index).ok_or(ESRCH)?;
        // (Its list grows if the parent has got more since.)
        let lists = copy.pages.growth(last - first);
        let growth = parent.pages.growth(2 * (last - first)) + lists;
        if !self.heap_has(growth) {
            return Err(ENOMEM);
        }
        let copy = self.spaces.get(index).ok_or(ESRCH)?;
        manner.reserve = copy.pay(&mut self.frames);
        manner.eager -= self.copy_part(from, index, (start, end), *manner)?;
        Ok(start)
    }

    /// All chunks of a child are there: answer, or undo it all.
    pub(crate) fn finish_fork(
        &mut self,
        token: Token,
        child: Child,
        copied: Result<(), Errno>,
    ) -> Result<(), Errno> {
        let index = self.spaces.resolve(child.handle).ok_or(ESRCH)?;
        let from = self.spaces.resolve(child.parent).ok_or(ESRCH);
        let copied = copied
            .and(from)
            .and_then(|from| self.keep_lent(from, index));
        if copied.is_err() {
            self.drop_if_unused(index);
        }
        copied?;
        self.finish(token, index, child.payer, child.adjust)
    }

    /// Whether the copy of a space takes long.
    pub(crate) fn is_much(&self, index: usize) -> bool {
        self.spaces.get(index).is_some_and(|space| {
            space.pages.resident() > MANY || space.pages.chunks() > MANY_CHUNKS
        })
    }

    /// Make the domain for a space and give it to the caller; undo both if that fails.
    fn finish(
        &mut self,
        token: Token,
        index: usize,
        payer: (Account, bool),
        adjust: i16,
    ) -> Result<(), Errno> {
        let domain = match self.new_domain(index, payer, adjust) {
            Ok(domain) => domain,
            Err(errno) => {
                self.drop_if_unused(index);
                return Err(errno);
            }
        };
        let answer = Answer {
            pass: Some(Pass::Copy(domain.slot)),
            ..Answer::new(&[0, u64::from(domain.id)])
        };
        if self.deliver(token, &answer).is_err() {
            self.nucleus.destroy(domain.slot);
            self.forget_domain(domain);
            return Err(ENFILE);
        }
        Ok(())
    }

    /// Reply with a portal; that may take an object of the nucleus.
    pub(crate) fn deliver(&mut self, token: Token, answer: &Answer) -> Result<(), Errno> {
        match self.nucleus.reply(token, answer) {
            Ok(()) => Ok(()),
            Err(Error::NoMemory)
                if self.fill_pool(pool::PORTAL, POOL_FREE[pool::PORTAL as usize]) =>
            {
                self.nucleus.reply(token, answer).map_err(|_| ENFILE)
            }
            Err(_) => Err(ENFILE),
        }
    }

    /// Reply with nothing but a new portal.
    pub(crate) fn deliver_minted(&mut self, token: Token, badge: u64) -> Result<(), Errno> {
        let pass = Some(Pass::Mint(badge));
        let answer = Answer {
            pass,
            ..Answer::new(&[0])
        };
        self.deliver(token, &answer)
    }

    /// How many pages this copy of a space may copy at once. Every so often it is none, to see anew what is written and asked for.
    fn eager(&mut self, from: usize) -> usize {
        let Some(space) = self.spaces.get_mut(from) else {
            return 0;
        };
        space.forks = space.forks.wrapping_add(1);
        if !space.forks.is_multiple_of(RELEARN) && space.forks != RELEARN_FIRST {
            return EAGER;
        }
        space.pages.cool_down(&mut self.frames);
        space.pages.forget_wanted(&mut self.frames);
        0
    }

    /// Copy ranges of pages of a space (ascending, ending where chunks end) into an empty one: private pages copy-on-write, shared ones shared.
    /// `lazy`: pages of objects come by faults, unless earlier copies asked for them.
    fn copy_ranges(
        &mut self,
        from: usize,
        to: usize,
        ranges: &[(u64, u64)],
        lazy: bool,
    ) -> Result<(), Errno> {
        let manner = self.begin_copy(from, to, ranges, (lazy, !lazy))?;
        self.copy_part(from, to, (0, u64::MAX), manner)?;
        Ok(())
    }

    /// The regions of a copy, and how its pages will be copied.
    fn begin_copy(
        &mut self,
        from: usize,
        to: usize,
        ranges: &[(u64, u64)],
        (lazy, begins): (bool, bool),
    ) -> Result<Manner, Errno> {
        let parent = self.spaces.get(from).ok_or(ESRCH)?;
        // A program that starts gets more of its own, and lists that grow are copied.
        let least = if begins { PROGRAM_REGIONS } else { 0 };
        let region_count = parent.regions.len().max(least);
        // (An entry for a chunk is smaller than a region.)
        let room = size_of::<Region>() * (region_count + least) + parent.pages.copy_growth();
        let payer = self.spaces.get(to).ok_or(ESRCH)?.account;
        if !self.may_record_for(payer, room) || !self.heap_room(room) {
            return Err(ENOMEM);
        }
        let eager = self.eager(from);
        let child = self.spaces.get(to).ok_or(ESRCH)?;
        let reserve = child.pay(&mut self.frames);
        let parent = self.spaces.get(from).ok_or(ESRCH)?;
        let handle = parent.handle;
        let mut regions = Regions::with_capacity(region_count);
        let mut mapped = 0;
        let pieces = ranges
            .iter()
            .flat_map(|&(start, end)| parent.regions.pieces(start, end));
        for piece in pieces.filter(|piece| piece.marks & ABSENT == 0) {
            // Locks are not inherited.
            regions.push(Region {
                marks: piece.marks & (BREAK | WIPED),
                ..piece
            });
            mapped += piece.pages();
            if piece.object != ANONYMOUS {
                if let Some(object) = self.objects.get_mut(piece.object as usize) {
                    object.shows(&piece, piece.pages());
                }
            }
        }
        let child = self.spaces.get_mut(to).ok_or(ESRCH)?;
        child.regions = regions;
        child.mapped = mapped;
        child.parent = handle;
        self.count_regions(to);
        Ok(Manner {
            lazy,
            begins,
            eager,
            reserve,
        })
    }

    /// Copy these chunks, which lie below all that were copied before; → how many pages were copied at once.
    fn copy_part(
        &mut self,
        from: usize,
        to: usize,
        range: (u64, u64),
        manner: Manner,
    ) -> Result<usize, Errno> {
        let parent = self.spaces.get_mut(from).ok_or(ESRCH)?;
        let source = parent.slot;
        let mut pages = core::mem::take(&mut parent.pages);
        let mut plan = core::mem::take(&mut self.plan);
        let child = self.spaces.get_mut(to).ok_or(ESRCH)?;
        let regions = core::mem::take(&mut child.regions);
        let (nucleus, tables) = (&mut self.nucleus, &mut self.table_frames);
        let mut result = Ok(());
        let mut share = |frames: &mut Frames, rows: &mut Vec<Row>| {
            let mut rest = &rows[..];
            while !rest.is_empty() && result.is_ok() {
                let (done, outcome) = nucleus.share(source, child.slot, &rest[..batch(rest)]);
                rest = &rest[done.min(rest.len())..];
                result = match outcome {
                    Ok(()) if done > 0 => Ok(()),
                    // Those that are done are not done again.
                    Err(Error::NoTable) => give_table(nucleus, frames, child, tables),
                    _ => Err(Trouble::Refused),
                };
            }
            rows.clear();
        };
        self.moves += 1;
        let frames = &mut self.frames;
        let copy = pages.fork(
            frames,
            regions.as_slice(),
            range,
            manner,
            &mut plan,
            &mut share,
        );
        share(frames, &mut plan.rows);
        if result.is_ok() {
            result = fill(nucleus, frames, child, tables, &plan.fills).1;
        }
        let filled = plan.fills.len();
        plan.fills.clear();
        self.plan = plan;
        // If that failed the child is dropped with all this; the parent's pages are then copied or taken over when they are written next.
        child.regions = regions;
        match child.pages.chunks() {
            0 if range == (0, u64::MAX) => child.pages = copy,
            _ => child.pages.add_below(copy),
        }
        if let Some(parent) = self.spaces.get_mut(from) {
            parent.pages = pages;
        }
        result.map_err(|_| ENOMEM)?;
        Ok(filled)
    }

    /// RESET: an empty space for exec, but for `start..end`, and of the personality's heap within that only `heap` (all if it is empty).
    pub(crate) fn reset(
        &mut self,
        id: Id,
        (start, end): (u64, u64),
        heap: (u64, u64),
    ) -> Result<u64, Errno> {
        use layout::{PAGE, PERSONALITY_HEAP, PERSONALITY_HEAP_END};
        let domain = self.domain(id).ok_or(ESRCH)?;
        let fits = |(start, end): (u64, u64)| start % PAGE == 0 && end % PAGE == 0 && start < end;
        let (first, last) = (start / PAGE, crate::mapping::pages(end).ok_or(EINVAL)?);
        let all = [(first, last)];
        let (bottom, top) = (PERSONALITY_HEAP / PAGE, PERSONALITY_HEAP_END / PAGE);
        let parts = [(first, bottom), (heap.0 / PAGE, heap.1 / PAGE), (top, last)];
        let kept: &[(u64, u64)] = if heap == (0, 0) {
            if end < start {
                return Err(EINVAL);
            }
            &all
        } else {
            let within = heap.0 >= PERSONALITY_HEAP && heap.1 <= PERSONALITY_HEAP_END;
            if !fits(heap) || !within || first > bottom || last < top {
                return Err(EINVAL);
            }
            &parts
        };
        if !self.room_for_regions(domain.space) {
            return Err(ENOMEM);
        }
        let space = self.spaces.get(domain.space).ok_or(ESRCH)?;
        // A program with much memory gets a new space, and the old one is taken apart later; if there is no room for one, it keeps its own.
        let alone = space.domains <= 1 && space.offered == 0;
        let much = alone && self.is_much(domain.space);
        if much && self.reset_anew(domain, kept).is_ok() {
            return Ok(0);
        }
        let space = self.spaces.get(domain.space).ok_or(ESRCH)?;
        if space.domains <= 1 {
            if let Some(space) = self.spaces.get_mut(domain.space) {
                space.parent = NOBODY;
                space.forks = 0;
                space.limits.future = 0;
                space.code = space.code.inherited();
            }
            let mut from = 0;
            for &(start, end) in kept {
                self.unmap_pages(domain.space, from, start);
                from = end;
            }
            self.unmap_pages(domain.space, from, u64::MAX);
            return Ok(0);
        }
        self.reset_anew(domain, kept)
    }

    /// The domain gets a new space with copies of these ranges in place of the one that it has.
    fn reset_anew(&mut self, domain: Domain, kept: &[(u64, u64)]) -> Result<u64, Errno> {
        let space = self.spaces.get(domain.space).ok_or(ESRCH)?;
        let (kind, code) = (space.layout, space.code.inherited());
        let limit = (space.limit, space.limits.inherited());
        let index = self.new_space(kind, code, limit, (domain.account, domain.root))?;
        let moved = self
            .copy_ranges(domain.space, index, kept, false)
            .and_then(|()| {
                let slot = self.spaces.get(index).ok_or(ESRCH)?.slot;
                self.nucleus
                    .set_space(domain.slot, slot)
                    .map_err(|_| ENOMEM)
            });
        if let Err(errno) = moved {
            self.drop_if_unused(index);
            return Err(errno);
        }
        let faults = self.spaces.get_mut(domain.space).map(|space| {
            space.domains -= 1;
            // Nobody else goes on counting them.
            match space.domains {
                0 => space.faults,
                _ => Faults::default(),
            }
        });
        if let Some(space) = self.spaces.get_mut(index) {
            space.domains = 1;
            space.parent = NOBODY;
            space.faults = faults.unwrap_or_default();
        }
        self.set_domain(Domain {
            space: index,
            ..domain
        });
        self.drop_if_unused(domain.space);
        Ok(0)
    }

    /// DESTROY.
    pub(crate) fn destroy(&mut self, id: Id) -> Result<Answer, Errno> {
        let domain = self.domain(id).ok_or(ESRCH)?;
        if id == self.init {
            return Err(EPERM);
        }
        let space = self.spaces.get(domain.space);
        let last = space.filter(|space| space.domains == 1);
        let [minor, major] = last.map_or([0; 2], |space| space.faults.words());
        self.driver_gone(id);
        for space in core::mem::take(&mut self.leaving) {
            self.dismantle_or_keep(space);
        }
        self.forget_domain(domain);
        if !self.waiting.is_empty() {
            self.drop_ended();
        }
        if self.waiting.is_empty() {
            self.notified = false;
        } else if !self.may_wake_some() {
            // That was not enough: somebody else must go as well.
            self.notified = false;
            self.tell_watcher();
        }
        Ok(Answer::new(&[0, minor, major]))
    }

    fn forget_domain(&mut self, domain: Domain) {
        if let Some(place) = self.domains.get_mut((domain.id & 0xf_ffff) as usize) {
            *place = None;
        }
        if let Some(space) = self.spaces.get_mut(domain.space) {
            space.domains = space.domains.saturating_sub(1);
        }
        self.pools_may_rest();
        if let Some(space) = self.take_if_unused(domain.space) {
            if let Some(space) = self.dismantle(space) {
                // Dead, but its threads and portals are still there.
                self.nucleus.destroy(domain.slot);
                self.dismantle_or_keep(space);
            }
        }
        self.nucleus.close(domain.slot);
    }

    fn drop_if_unused(&mut self, index: usize) {
        if let Some(space) = self.take_if_unused(index) {
            self.dismantle_or_keep(space);
        }
    }

    fn take_if_unused(&mut self, index: usize) -> Option<Space> {
        if self.spaces.get(index)?.domains != 0 {
            return None;
        }
        let mut space = self.spaces.remove(index)?;
        let recorded = space.recorded;
        let accounts = &mut self.frames.accounts;
        accounts.count(space.account, |record| {
            (record.spaces, record.records) = (record.spaces - 1, record.records - recorded);
        });
        self.drop_charges(core::mem::take(&mut space.charges));
        let lent = self.lent_by(space.handle);
        self.forget_lender(space.handle);
        self.forget_pager(space.handle);
        self.forget_maker(space.handle);
        self.forget_taken(space.handle);
        if let Some(lent) = lent {
            self.leave_cache(&space, lent);
        }
        if !space.linux() {
            self.zero_objects_of(space.handle);
        }
        if space.offered > 0 {
            self.drop_offers_of(space.handle);
        }
        // Its own threads are gone, but a server that copied from or to it may wait as well.
        let (gone, stay) = core::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|w| w.space == space.handle);
        self.waiting = stay;
        for fault in gone {
            let answer = refused(Fault::NoMapping);
            // Of the space's own threads nobody waits any more.
            let _ = self.nucleus.reply(fault.token, &answer);
        }
        Some(space)
    }

    fn dismantle_or_keep(&mut self, space: Space) {
        if let Some(space) = self.dismantle(space) {
            self.leaving.push(space);
        }
    }

    /// Take a space apart: first its mappings and tables in the nucleus, of many pages some now and the others later; then its frames and regions here.
    /// It comes back if a domain still uses it.
    fn dismantle(&mut self, mut space: Space) -> Option<Space> {
        let many = space.pages.resident() > MANY && self.later.spaces.try_reserve(1).is_ok();
        let most = if many { TABLES } else { ALL_TABLES };
        loop {
            match self.reap(&mut space, most) {
                Ok(true) => break,
                Ok(false) if many => {
                    self.later.spaces.push(space);
                    return None;
                }
                Ok(false) => {}
                Err(_) => return Some(space),
            }
        }
        self.dismantled(space);
        None
    }

    /// Go on with a space that is taken apart later.
    pub(crate) fn dismantle_piece(&mut self, mut space: Space) {
        match self.reap(&mut space, TABLES) {
            Ok(true) => self.dismantled(space),
            // (There is room: it was there before.)
            Ok(false) => self.later.spaces.push(space),
            // Nobody uses it since the first time.
            Err(_) => self.leaving.push(space),
        }
    }

    /// At most so many tables of a space come back. Whether that was all.
    fn reap(&mut self, space: &mut Space, most: usize) -> Result<bool, Error> {
        let mut buffer = [0 as Frame; ALL_TABLES];
        let buffer = &mut buffer[..most];
        let done = self.nucleus.reap(space.slot, buffer);
        for &frame in buffer.iter().take_while(|&&f| f != 0) {
            self.table_frames = self.table_frames.saturating_sub(1);
            match space.block {
                // Those of the block are kept together if they all come back. (A domain that changed spaces took its portal table along.)
                Some(block) if (block..block + BLOCK).contains(&frame) => {
                    space.returned |= 1 << (frame - block);
                }
                _ => {
                    self.frames.release(frame);
                }
            }
        }
        done
    }

    fn dismantled(&mut self, mut space: Space) {
        self.nucleus.close(space.slot);
        match space.block {
            Some(block) if space.returned == u16::MAX => self.frames.release_block(block),
            Some(block) => {
                for i in (0..BLOCK).filter(|i| space.returned >> i & 1 != 0) {
                    self.frames.release(block + i);
                }
            }
            None => {}
        }
        let frames = &mut self.frames;
        frames.drop_all(core::mem::take(&mut space.pages));
        for piece in space.regions.iter() {
            forget_piece(&mut self.objects, frames, &mut self.pagers.idle, piece);
        }
    }

    /// GROW_TABLE.
    pub(crate) fn grow_table(&mut self, id: Id) -> Result<u64, Errno> {
        let domain = self.domain(id).ok_or(ESRCH)?;
        match self.nucleus.grow_table(domain.slot) {
            Ok(()) => Ok(0),
            Err(Error::NoTable) => {
                let space = self.spaces.get_mut(domain.space).ok_or(ESRCH)?;
                give_table(
                    &mut self.nucleus,
                    &mut self.frames,
                    space,
                    &mut self.table_frames,
                )
                .map_err(|_| ENOMEM)?;
                self.nucleus
                    .grow_table(domain.slot)
                    .map(|()| 0)
                    .map_err(|_| EMFILE)
            }
            Err(_) => Err(EMFILE),
        }
    }
}

/// How many of these rows one operation of the nucleus takes.
fn batch(rows: &[Row]) -> usize {
    let mut pages = 0;
    let fits = |row: &&Row| {
        pages += u64::from(row.pages);
        pages <= BATCH
    };
    rows.iter().take(ROWS).take_while(fits).count()
}
