//! Watched objects: a page that an object does not have is brought by the object's maker, and who touches it waits. See docs/cache.md.
//!
//! A *pager* is a component that makes such objects. It is notified when it is wanted, asks OBJECT_WANTED until nothing is, and answers by putting pages into the object (OBJECT_CHANGE),
//! by OBJECT_REFUSE, or by OBJECT_SYNCED. `vm` calls nobody.
//!
//! Who waits: the threads of programs, for as long as it takes (they can be killed meanwhile); components whose own page it is, or another component's, no longer than [`PATIENCE`], because the pager
//! may need them. Who copies from or to a program's page for the program does not wait, as others want something of it, too: it hears that the address is bad, and the program, whose call fails for that reason,
//! touches the page itself and calls again. A pager never waits.

use crate::fault::{refused, Fault};
use crate::nucleus::{Answer, Nucleus};
use crate::region::{Region, ANONYMOUS};
use crate::request::Request;
use crate::slab::{Handle, Slab};
use crate::space::{Errno, Hears, Object, Vm, NOBODY};
use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_abi::{Id, Token};
use cairn_idl::errno::*;
use cairn_idl::vm::Wanted;

/// How long a component waits for a pager (nanoseconds).
pub const PATIENCE: u64 = 1_000_000_000;
/// How long a pager does not hear of what nobody has mapped any more, where nothing can have been written (nanoseconds): the next program has its libraries
/// mapped again by then.
pub const REST: u64 = 50_000_000;
/// Most pagers; threads that wait for pages; calls that wait until pages are written; ranges that will be wanted.
const MAX_PAGERS: usize = 32;
const MAX_MISSING: usize = 4096;
const MAX_SYNCS: usize = 1024;
const MAX_SOON: usize = 64;
/// Objects in one answer of OBJECT_WANTED.
const UNUSED_AT_ONCE: usize = 4;

pub(crate) struct Pager {
    pub(crate) space: Handle,
    pub(crate) domain: Id,
    /// The portal that is notified.
    pub(crate) watcher: u32,
    /// It was, and has not yet heard that nothing is wanted.
    pub(crate) told: bool,
    /// What is left to a successor, by which that is known ([`crate::successor`]).
    pub(crate) keepsake: Option<Handle>,
    /// It has ended, and its successor is awaited.
    pub(crate) ended: bool,
}

/// A fault that waits for a page of an object.
#[derive(Clone, Copy)]
pub(crate) struct Missing {
    token: Token,
    space: Handle,
    page: u64,
    access: u64,
    /// The domain of the thread.
    waits: Id,
    pub(crate) object: Handle,
    /// The page's number there.
    number: u64,
    /// Its pager knows.
    pub(crate) asked: bool,
    /// It is refused then.
    until: Option<u64>,
}

/// Pages of an object that will be wanted.
struct Soon {
    object: Handle,
    first: u64,
    pages: u64,
}

/// A call that waits until pages are written.
pub(crate) struct Sync {
    token: Token,
    ticket: u64,
    pub(crate) object: Handle,
    first: u64,
    pages: u64,
    /// What it hears in the end: how far it came.
    reached: u64,
    pub(crate) asked: bool,
}

#[derive(Default)]
pub struct Pagers {
    pub(crate) list: Vec<Pager>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) syncs: Vec<Sync>,
    soon: Vec<Soon>,
    pub(crate) idle: Idle,
    last_ticket: u64,
}

/// Watched objects that nobody has mapped any more, which their pagers shall hear.
#[derive(Default)]
pub struct Idle {
    list: Vec<Handle>,
    news: bool,
    /// Those of which they need not hear before [`REST`] is over.
    resting: Vec<Handle>,
    /// When that is.
    pub(crate) due: Option<u64>,
}

impl Idle {
    /// An object lost its last mapping.
    pub(crate) fn add(&mut self, object: &mut Object) {
        let rests = object.may_rest();
        if !(object.is_watched() && object.maker != NOBODY || object.is_told())
            || object.idle && (rests || !object.rests)
        {
            return;
        }
        let list = match rests {
            true => &mut self.resting,
            false => &mut self.list,
        };
        // (Without room for it the maker hears when it is mapped no more the next time.)
        if list.try_reserve(1).is_ok() {
            list.push(object.handle);
            (object.idle, object.rests) = (true, rests);
            self.news |= !rests || self.due.is_none();
        }
    }
}

impl Pagers {
    /// When the first component that waits is to be refused.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.missing.iter().filter_map(|m| m.until).min()
    }

    pub(crate) fn nobody_waits(&self) -> bool {
        self.missing.is_empty()
    }

    pub(crate) fn has(&self, space: Handle) -> bool {
        self.list.iter().any(|pager| pager.space == space)
    }
}

impl Object {
    /// It is its maker who brings what is not there.
    pub(crate) fn is_watched(&self) -> bool {
        self.hears == Hears::Wanted
    }

    /// Who asked for it first hears that nobody has it mapped any more, and nothing else.
    pub(crate) fn is_told(&self) -> bool {
        self.hears == Hears::Unused
    }

    /// Its pager need not hear at once that nobody has it mapped any more.
    fn may_rest(&self) -> bool {
        !self.is_told() && !self.shared
    }
}

impl<N: Nucleus> Vm<N> {
    /// OBJECT_WATCH: the portal in w7 is kept.
    pub(crate) fn object_watch(&mut self, r: &Request) -> Result<u64, Errno> {
        let index = self.domain(r.sender).ok_or(ESRCH)?.space;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        if space.linux() || space.eager {
            return Err(EPERM);
        }
        if r.portals != 1 {
            return Err(EINVAL);
        }
        let (handle, watcher) = (space.handle, r.words[7] as u32);
        if let Some(pager) = self.pagers.list.iter_mut().find(|p| p.space == handle) {
            self.nucleus
                .close(core::mem::replace(&mut pager.watcher, watcher));
            // It may have missed what the old portal told.
            pager.told = true;
            self.nucleus.notify(watcher);
            return Ok(0);
        }
        let keepsake = self.keepsake_of(index);
        if self.succeed(keepsake, (handle, r.sender), watcher) {
            return Ok(0);
        }
        if self.pagers.list.len() >= MAX_PAGERS {
            return Err(ENOMEM);
        }
        self.pagers.list.push(Pager {
            space: handle,
            domain: r.sender,
            watcher,
            told: false,
            keepsake,
            ended: false,
        });
        Ok(0)
    }

    /// Tell the maker of an object that it is wanted. False: there is none any more.
    fn tell_pager(&mut self, maker: Handle) -> bool {
        let Some(pager) = self.pagers.list.iter_mut().find(|p| p.space == maker) else {
            return false;
        };
        if !core::mem::replace(&mut pager.told, true) {
            self.nucleus.notify(pager.watcher);
        }
        true
    }

    /// The region of a page, its object and the page's number there.
    fn place_of(&self, index: usize, page: u64) -> Option<(&Region, &Object, u64)> {
        let region = self.spaces.get(index)?.regions.find(page)?;
        if region.object == ANONYMOUS {
            return None;
        }
        let object = self.objects.get(region.object as usize)?;
        Some((region, object, region.offset + (page - region.start)))
    }

    /// A fault where a watched object has nothing: it waits for the pager, or is refused.
    #[cold]
    pub(crate) fn wait_for_page(
        &mut self,
        index: usize,
        (token, waits): (Token, Id),
        page: u64,
        access: u64,
    ) -> Option<Answer> {
        let Some((_, object, number)) = self.place_of(index, page) else {
            return Some(refused(Fault::NoMapping));
        };
        let (object, maker) = (object.handle, object.maker);
        // What is being taken away is there again, or gone, when that is over.
        let going = self.going_from(object).is_some_and(|what| what.has(number));
        let Some(space) = self.spaces.get(index) else {
            return Some(refused(Fault::NoMapping));
        };
        let (space, of_program) = (space.handle, space.linux());
        let own = self.domain(waits).map(|domain| domain.space);
        let waiter = own.and_then(|index| self.spaces.get(index));
        // A pager that copies can wait for nobody: it could be itself, or somebody who waits for it.
        let barred = waits == self.watching
            || waiter.is_none_or(|w| w.handle == maker || self.pagers.has(w.handle));
        let program = waiter.is_some_and(|w| w.linux());
        if barred || of_program && !program {
            return Some(refused(Fault::Missing));
        }
        if self.pagers.missing.len() >= MAX_MISSING || self.pagers.missing.try_reserve(1).is_err() {
            return Some(refused(Fault::Exhausted));
        }
        if !going && !self.tell_pager(maker) {
            return Some(refused(Fault::BeyondEnd));
        }
        let until = (!program).then(|| self.nucleus.now() + PATIENCE);
        self.pagers.missing.push(Missing {
            token,
            space,
            page,
            access,
            waits,
            object,
            number,
            asked: going,
            until,
        });
        None
    }

    /// Pages of an object are there, or gone for good: who waited for them tries again.
    pub(crate) fn try_again(&mut self, object: Handle, wanted: impl Fn(u64) -> bool) {
        if self.pagers.missing.is_empty() {
            return;
        }
        let (ready, stay) = core::mem::take(&mut self.pagers.missing)
            .into_iter()
            .partition::<Vec<_>, _>(|m| m.object == object && wanted(m.number));
        self.pagers.missing = stay;
        for m in ready {
            if let Some(answer) = self.fault(m.space, m.page * PAGE, m.access, m.token, m.waits) {
                // The caller may be gone meanwhile.
                let _ = self.nucleus.reply(m.token, &answer);
            }
        }
    }

    /// Those who wait for pages and are picked hear that they get none.
    fn refuse(&mut self, why: Fault, mut picked: impl FnMut(&Self, &Missing) -> bool) {
        let mut all = core::mem::take(&mut self.pagers.missing);
        all.retain(|m| {
            let gone = picked(self, m);
            if gone {
                let _ = self.nucleus.reply(m.token, &refused(why));
            }
            !gone
        });
        self.pagers.missing = all;
    }

    /// OBJECT_WANTED.
    pub(crate) fn object_wanted(&mut self, index: usize) -> Result<Answer, Errno> {
        let handle = self.spaces.get(index).ok_or(ESRCH)?.handle;
        let at = self.pagers.list.iter().position(|p| p.space == handle);
        let at = at.ok_or(EINVAL)?;
        let objects = &self.objects;
        let tag = |object: Handle| tag_of(objects, handle, object);
        let pagers = &mut self.pagers;
        let first = pagers
            .missing
            .iter()
            .filter(|m| !m.asked)
            .find_map(|m| Some((m.object, m.number, tag(m.object)?)));
        if let Some((object, first, tag)) = first {
            let mut pages = 0;
            // Those behind it that are wanted as well.
            loop {
                let number = first + pages;
                let mut any = false;
                for m in &mut pagers.missing {
                    if m.object == object && m.number == number && !m.asked {
                        m.asked = true;
                        any = true;
                    }
                }
                if !any {
                    break;
                }
                pages += 1;
            }
            return Ok(Answer::new(&[Wanted::Pages as u64, tag, first, pages, 0]));
        }
        for sync in pagers.syncs.iter_mut().filter(|sync| !sync.asked) {
            if let Some(tag) = tag(sync.object) {
                sync.asked = true;
                let words = [
                    Wanted::Sync as u64,
                    tag,
                    sync.first,
                    sync.pages,
                    sync.ticket,
                ];
                return Ok(Answer::new(&words));
            }
        }
        let mine = pagers.soon.iter().position(|s| tag(s.object).is_some());
        if let Some(at) = mine {
            let soon = pagers.soon.swap_remove(at);
            let tag = tag(soon.object).unwrap_or(0);
            return Ok(Answer::new(&[
                Wanted::Soon as u64,
                tag,
                soon.first,
                soon.pages,
                0,
            ]));
        }
        let of = |objects: &_, list: &[Handle]| {
            let mine = |object: &Handle| called_by(objects, handle, *object).is_some();
            list.iter().position(mine)
        };
        // Several at once: a program that ends leaves its own file, its interpreter's and its libraries' so.
        let (mut unused, mut count) = ([0; UNUSED_AT_ONCE], 0);
        while count < UNUSED_AT_ONCE {
            let Some(at) = of(&self.objects, &self.pagers.idle.list) else {
                break;
            };
            let object = self.pagers.idle.list.swap_remove(at);
            let object = self.objects.resolve(object);
            if let Some(object) = object.and_then(|i| self.objects.get_mut(i)) {
                (object.idle, object.shared) = (false, object.mapped != 0 && object.shared);
                // It may have been mapped again.
                if object.mapped == 0 && object.hears != Hears::Nothing {
                    unused[count] = object.tag;
                    count += 1;
                }
            }
        }
        if count != 0 {
            let last = of(&self.objects, &self.pagers.idle.list).is_none();
            self.pagers.list[at].told = !last;
            let [tag, second, third, fourth] = unused;
            let (what, more) = (Wanted::Unused as u64, count as u64 - 1);
            let words = [what, tag, second, third, fourth, more, last.into()];
            return Ok(Answer::new(&words));
        }
        self.pagers.list[at].told = false;
        Ok(Answer::new(&[Wanted::Nothing as u64]))
    }

    /// OBJECT_REFUSE.
    pub(crate) fn object_refuse(
        &mut self,
        index: usize,
        tag: u64,
        first: u64,
        pages: u64,
    ) -> Result<u64, Errno> {
        let handle = self.spaces.get(index).ok_or(ESRCH)?.handle;
        if !self.pagers.has(handle) {
            return Err(EINVAL);
        }
        let end = first.saturating_add(pages);
        self.refuse(Fault::BeyondEnd, |vm, m| {
            (first..end).contains(&m.number)
                && vm
                    .objects
                    .resolve(m.object)
                    .and_then(|i| vm.objects.get(i))
                    .is_some_and(|object| {
                        object.is_watched() && object.tag == tag && object.maker == handle
                    })
        });
        Ok(0)
    }

    /// SYNC: one object at a time. None: the answer comes later.
    pub(crate) fn sync(
        &mut self,
        token: Token,
        index: usize,
        address: u64,
        len: u64,
    ) -> Result<Option<u64>, Errno> {
        let (start, end) = crate::mapping::range(address, len, ENOMEM)?;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let own = space.handle;
        let mut found = None;
        let mut covered = 0;
        for piece in space.regions.pieces(start, end) {
            covered += piece.pages();
            let object = self.objects.get(piece.object as usize);
            let Some(object) = object.filter(|o| piece.shared() && o.is_watched()) else {
                continue;
            };
            if found.is_none() && object.maker != own && self.pagers.has(object.maker) {
                found = Some((piece, object.handle, object.maker));
            }
        }
        if covered != end - start {
            return Err(ENOMEM);
        }
        let Some((piece, object, maker)) = found else {
            return Ok(Some(end * PAGE));
        };
        if self.pagers.syncs.len() >= MAX_SYNCS || self.pagers.syncs.try_reserve(1).is_err() {
            return Err(ENOMEM);
        }
        self.pagers.last_ticket += 1;
        self.pagers.syncs.push(Sync {
            token,
            ticket: self.pagers.last_ticket,
            object,
            first: piece.offset,
            pages: piece.pages(),
            reached: piece.end * PAGE,
            asked: false,
        });
        self.tell_pager(maker);
        Ok(None)
    }

    /// OBJECT_SYNCED.
    pub(crate) fn object_synced(
        &mut self,
        index: usize,
        ticket: u64,
        error: u64,
    ) -> Result<u64, Errno> {
        let handle = self.spaces.get(index).ok_or(ESRCH)?.handle;
        let at = self.pagers.syncs.iter().position(|s| s.ticket == ticket);
        let at = at.ok_or(EINVAL)?;
        let object = self.pagers.syncs[at].object;
        let object = self
            .objects
            .resolve(object)
            .and_then(|i| self.objects.get(i));
        if object.is_none_or(|object| object.maker != handle) {
            return Err(EINVAL);
        }
        let sync = self.pagers.syncs.swap_remove(at);
        let answer = match Errno::try_from(error) {
            Ok(0) => Ok(sync.reached),
            Ok(errno) if errno < 4096 => Err(errno),
            _ => Err(EIO),
        };
        let _ = self.nucleus.reply(sync.token, &Answer::result(answer));
        Ok(0)
    }

    /// The pagers of what is mapped in a range hear that it will be wanted, as far as it is not there.
    pub(crate) fn want_soon(&mut self, index: usize, start: u64, end: u64) {
        let mut page = start;
        while page < end && self.pagers.soon.len() < MAX_SOON {
            let Some((region, object, number)) = self.place_of(index, page) else {
                // The next region, if there is one.
                let next = self
                    .spaces
                    .get(index)
                    .and_then(|s| s.regions.overlapping(page, end).find(|r| r.end > page + 1));
                page = match next {
                    Some(region) if region.start > page => region.start,
                    Some(region) => region.end,
                    None => return,
                };
                continue;
            };
            let (stop, maker, handle) = (region.end.min(end), object.maker, object.handle);
            let last = (number + (stop - page)).min(object.len);
            let missing = object
                .is_watched()
                .then(|| object.pages.first_missing(number, last))
                .flatten();
            page = stop;
            if let Some(first) = missing {
                if self.tell_pager(maker) {
                    self.pagers.soon.push(Soon {
                        object: handle,
                        first,
                        pages: last - first,
                    });
                }
            }
        }
    }

    /// After each request: pagers hear of objects that nobody has mapped any more.
    #[inline]
    pub(crate) fn look_at_idle(&mut self) {
        if self.pagers.idle.news {
            self.tell_idle();
        }
    }

    #[cold]
    fn tell_idle(&mut self) {
        self.pagers.idle.news = false;
        let mut idle = core::mem::take(&mut self.pagers.idle.list);
        idle.retain(|&object| {
            let maker = self
                .objects
                .resolve(object)
                .and_then(|i| self.objects.get(i))
                .map(|object| match object.is_told() {
                    true => object.origin,
                    false => object.maker,
                });
            maker.is_some_and(|maker| self.tell_pager(maker))
        });
        self.pagers.idle.list = idle;
        if !self.pagers.idle.resting.is_empty() && self.pagers.idle.due.is_none() {
            self.pagers.idle.due = Some(self.nucleus.now() + REST);
        }
    }

    /// Those that have rested are told, but for what is mapped again.
    fn late_idle(&mut self, now: u64) {
        if self.pagers.idle.due.is_none_or(|due| due > now) {
            return;
        }
        self.pagers.idle.due = None;
        for handle in core::mem::take(&mut self.pagers.idle.resting) {
            let at = self.objects.resolve(handle);
            let Some(object) = at.and_then(|at| self.objects.get_mut(at)) else {
                continue;
            };
            if core::mem::take(&mut object.rests) {
                object.idle = object.mapped == 0 && self.pagers.idle.list.try_reserve(1).is_ok();
                if object.idle {
                    self.pagers.idle.list.push(handle);
                }
            }
        }
        self.tell_idle();
    }

    /// The thread behind a token is gone.
    pub(crate) fn forget_missing(&mut self, token: Token) {
        self.pagers.missing.retain(|m| m.token != token);
        self.pagers.syncs.retain(|s| s.token != token);
    }

    /// Components that waited too long are refused.
    pub(crate) fn late_pages(&mut self, now: u64) {
        self.late_idle(now);
        self.refuse(Fault::Missing, |_, m| {
            m.until.is_some_and(|until| until <= now)
        });
    }

    /// A space is gone: nobody waits in it any more, and what its domain made brings no pages.
    pub(crate) fn forget_pager(&mut self, space: Handle) {
        self.refuse(Fault::NoMapping, |_, m| m.space == space);
        let Some(at) = self.pagers.list.iter().position(|p| p.space == space) else {
            return;
        };
        if self.has_successor(at) {
            return;
        }
        self.end_pager(at);
    }

    /// Nobody brings its pages any more.
    pub(crate) fn end_pager(&mut self, at: usize) {
        let pager = self.pagers.list.swap_remove(at);
        let space = pager.space;
        self.nucleus.close(pager.watcher);
        let of = |vm: &Self, object: Handle| {
            vm.objects
                .resolve(object)
                .and_then(|i| vm.objects.get(i))
                .is_none_or(|object| object.maker == space)
        };
        self.refuse(Fault::BeyondEnd, |vm, m| of(vm, m.object));
        let mut syncs = core::mem::take(&mut self.pagers.syncs);
        syncs.retain(|sync| {
            let gone = of(self, sync.object);
            if gone {
                let _ = self.nucleus.reply(sync.token, &Answer::result(Err(EIO)));
            }
            !gone
        });
        self.pagers.syncs = syncs;
        let mut soon = core::mem::take(&mut self.pagers.soon);
        soon.retain(|s| !of(self, s.object));
        self.pagers.soon = soon;
        self.drop_left(space);
    }
}

/// What this space calls an object of which it hears when nobody has it mapped any more.
fn called_by(objects: &Slab<Object>, space: Handle, object: Handle) -> Option<u64> {
    let found = objects.get(objects.resolve(object)?)?;
    match found.is_told() {
        true => (found.origin == space).then_some(found.tag),
        false => tag_of(objects, space, object),
    }
}

/// What a maker calls its watched object.
fn tag_of(objects: &Slab<Object>, maker: Handle, object: Handle) -> Option<u64> {
    let object = objects.get(objects.resolve(object)?)?;
    (object.is_watched() && object.maker == maker).then_some(object.tag)
}
