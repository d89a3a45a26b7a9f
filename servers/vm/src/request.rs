//! Requests: decoded here, answered by the files beside.

use crate::accounts::SYSTEM;
use crate::later::IN_PIECES;
use crate::mapping::Backing;
use crate::nucleus::{Answer, Nucleus};
use crate::region::{Region, ANONYMOUS};
use crate::space::{Errno, Vm};
use cairn_abi::service::memory::pool;
use cairn_abi::{layout, pulse, received, Id};
use cairn_idl::errno::*;
use cairn_idl::vm::{
    self, advice, flags, BADGE_CONTROL, BADGE_DEVICES, BADGE_INSPECT, BADGE_LOAN_FIRST,
    BADGE_OBJECT_FIRST, BADGE_OFFER_FIRST, BADGE_READER, BADGE_SHARE_FIRST,
};

/// A message, pulse or fault, as received.
pub use cairn_rt::Received as Request;

impl<N: Nucleus> Vm<N> {
    /// Deal with one thing received. The answer, if one is due now.
    pub fn handle(&mut self, r: &Request) -> Option<Answer> {
        if r.kind == received::kind::FAULT {
            let waits = r.words[4] as Id;
            let answer = self.fault(r.badge, r.words[0], r.words[1], r.token, waits);
            self.look_at_caches();
            return answer;
        }
        let answer = if r.kind == received::kind::PULSE {
            self.pulse(r);
            None
        } else {
            self.handle_again(r)
        };
        self.settle();
        answer
    }

    /// After each request and each piece of one: who waited for memory goes on if there is some, and caches give if there is little.
    #[inline(always)]
    pub(crate) fn settle(&mut self) {
        self.resume_deferred();
        if self.has_ended() {
            self.drop_if_needed();
        }
        if !self.waiting.is_empty() {
            self.wake_waiting();
        } else if self.notified && self.has_enough() {
            self.notified = false;
        }
        self.look_at_caches();
        self.look_at_idle();
        self.look_at_time();
    }

    #[cold]
    fn drop_if_needed(&mut self) {
        if !self.waiting.is_empty() || self.is_low() {
            self.drop_ended();
        }
    }

    /// A request, new or one that had to wait for memory.
    pub(crate) fn handle_again(&mut self, r: &Request) -> Option<Answer> {
        if self.holds_back(r) {
            return None;
        }
        let (mut kept, mut again) = (false, false);
        let answer = loop {
            let answer = self.request(r, &mut kept);
            if answer.is_some() {
                break answer;
            }
            kept |= self.keeps_passed();
            if !self.is_to_be_whole() {
                break answer;
            }
            again = true;
        };
        if again {
            self.later.whole = false;
        }
        if !kept {
            self.close_passed(r);
        }
        answer
    }

    /// What was sent along and not asked for would fill our table.
    pub(crate) fn close_passed(&mut self, r: &Request) {
        for i in 8 - r.portals.min(8)..8 {
            self.nucleus.close(r.words[i] as u32);
        }
    }

    fn pulse(&mut self, r: &Request) {
        match r.words[0] {
            pulse::CLOSED => {
                if r.badge >= BADGE_OFFER_FIRST {
                    self.close_offer(r.badge);
                } else if r.badge >= BADGE_LOAN_FIRST {
                    self.close_loan(r.badge);
                } else if r.badge >= BADGE_SHARE_FIRST {
                    self.close_share(r.badge);
                } else if let Some(object) = self.object_by_badge(r.badge) {
                    self.close_object(object);
                }
            }
            pulse::INTERRUPT => self.tell_faults(),
            pulse::GONE => {
                self.forget_token(r.words[1]);
                self.forget_deferred(r.words[1]);
                self.forget_missing(r.words[1]);
                self.forget_job(r.words[1]);
            }
            _ => {}
        }
    }

    /// `kept`: the portal in w7 is kept.
    fn request(&mut self, r: &Request, kept: &mut bool) -> Option<Answer> {
        self.frames.accounts.payer = SYSTEM;
        let w = &r.words;
        let result = match w[0] {
            _ if (BADGE_SHARE_FIRST..BADGE_OFFER_FIRST).contains(&r.badge) => match self.dma_pin(r)
            {
                Ok(answer) => return Some(answer),
                Err(errno) => Err(errno),
            },
            _ if r.badge >= BADGE_OBJECT_FIRST => self.object_request(r),
            vm::DMA_BEGIN..=vm::DMA_UNPIN_FEW => match self.dma(r) {
                Ok(answer) => return Some(answer),
                Err(errno) => Err(errno),
            },
            vm::DMA_SHARE => match self.dma_share(r) {
                Ok(()) => return None,
                Err(errno) => Err(errno),
            },
            vm::DMA_LEND => match self.dma_lend(r) {
                Ok(()) => return None,
                Err(errno) => Err(errno),
            },
            vm::CHARGE => match self.charge(r) {
                // Others have memory that they can do without.
                Err(ENOMEM) if self.waits_to_charge(r) && self.defer(r) => return None,
                result => result,
            },
            vm::ACCOUNT_STAT => match self.is_settled().and_then(|()| self.account_stat(w[1])) {
                Ok(words) => return Some(Answer::new(&words)),
                Err(errno) => Err(errno),
            },
            vm::ACCOUNT_OF => self.payer_of(r),
            vm::CACHE => self.cache(r).inspect(|_| *kept = true),
            vm::OBJECT_WATCH => self.object_watch(r).inspect(|_| *kept = true),
            vm::NAMES => self.names(r).inspect(|_| *kept = true),
            vm::NAMER => match self.namer(r) {
                Ok(()) => return None,
                Err(errno) => Err(errno),
            },
            vm::DROP_CACHES if r.badge != BADGE_INSPECT => Err(EPERM),
            vm::DROP_CACHES => self.drop_caches(),
            vm::MAP
            | vm::MAP_ALIKE
            | vm::UNMAP
            | vm::PROTECT
            | vm::REMAP
            | vm::REMAP_PAGES
            | vm::LOCK
            | vm::LOCK_ALL
            | vm::EXEC_GAIN => self.arrange(r, w[0]),
            vm::MAP..=vm::SYNC
            | vm::USAGE
            | vm::OBJECT_SYNCED
            | vm::OBJECT_INHERIT
            | vm::OBJECT_ADOPT
            | vm::OBJECT_MAPPED => match self.own(r, w[0]) {
                Ok(answer) => return answer,
                Err(errno) => Err(errno),
            },
            vm::GROW_TABLE if w[1] == 0 => self.grow_table(r.sender),
            vm::MORE_OBJECTS if r.badge != BADGE_CONTROL && self.is_native(r.sender) => {
                self.more_objects_for(r.sender, w[1])
            }
            vm::MORE_OBJECTS if r.badge != BADGE_CONTROL && w[1] == pool::SEMAPHORE => {
                self.more_semaphores()
            }
            vm::CREATE..=vm::LIMIT
            | vm::DEVICE_INTO
            | vm::DMA_ATTACH
            | vm::MAKE_COMMON
            | vm::SET_ACCOUNT
            | vm::ACCOUNT_LIMIT
            | vm::GROUP
            | vm::OOM_ADJUST
            | vm::IDENTITY_OF
                if !may(r.badge, w[0]) =>
            {
                Err(EPERM)
            }
            vm::CREATE => match self.create(r.token, w[1], w[2] & 1 != 0) {
                Ok(()) => return None,
                Err(errno) => Err(errno),
            },
            vm::FORK => match self.fork(
                r.token,
                w[1] as Id,
                (w[2] & 1 != 0, w[6] & 1 != 0),
                w[3].checked_sub(1).map(|uid| (uid, w[4] & 1 != 0)),
                w[5] as Id,
            ) {
                Ok(()) => return None,
                Err(errno) => Err(errno),
            },
            vm::MAKE_COMMON => self.make_common(w[1] as Id),
            vm::DESTROY => match self.destroy(w[1] as Id) {
                Ok(answer) => return Some(answer),
                Err(errno) => Err(errno),
            },
            vm::MAP_INTO => self.of(w[1]).and_then(|index| {
                let flag = w[5] | flags::FIXED;
                self.map(index, w[2], w[3], w[4], flag, Backing::Anonymous)
            }),
            vm::WRITE_INTO => self
                .of(w[1])
                .and_then(|index| self.write_into(r, index, w[2])),
            vm::OBJECT_MAP_INTO => self.object_map_into(r),
            vm::RESET => self.reset(w[1] as Id, (w[2], w[3]), (w[4], w[5])),
            vm::READ_FROM => self
                .of(w[1])
                .and_then(|index| self.read_from(r, index, w[2])),
            vm::IDENTITY_OF => match self.of(w[1]).and_then(|index| self.identity(index, w[2])) {
                Ok(answer) => return Some(answer),
                Err(errno) => Err(errno),
            },
            vm::MORE_OBJECTS => self.more_objects(w[1]),
            vm::GROW_TABLE => self.grow_table(w[1] as Id),
            vm::WATCH_EXHAUSTED if r.portals == 1 => {
                *kept = true;
                self.watching = r.sender;
                if let Some(old) = self.watcher.replace(w[7] as u32) {
                    self.nucleus.close(old);
                }
                Ok(0)
            }
            vm::SET_ACCOUNT => self.set_account(w[1] as Id, w[2], w[3] != 0 || w[2] == 0),
            vm::GROUP => self.set_group(w[1], w[2], w[3] != 0),
            vm::ACCOUNT_LIMIT => self.set_account_limit(w[1], w[2]),
            vm::EXHAUSTED => match self.exhausted(w[1] as Id) {
                Some((id, group)) => {
                    return Some(Answer::new(&[0, u64::from(id), u64::from(group)]));
                }
                None => Err(ESRCH),
            },
            vm::OOM_ADJUST => self.set_oom_adjust(w[1] as Id, w[2] as i64),
            vm::LIMIT => self.set_limits(w[1] as Id, w[2], w[3], w[4]),
            vm::DMA_ATTACH => match self.dma_attach(w[1], w[2]) {
                Ok(enforced) => return Some(Answer::new(&[0, enforced])),
                Err(errno) => Err(errno),
            },
            vm::DEVICE_INTO => self
                .of(w[1])
                .and_then(|index| self.show_device(index, w[2], w[3], w[4])),
            _ => Err(EINVAL),
        };
        match result {
            Err(IN_PIECES) => self.pieces(r),
            result => Some(Answer::result(result)),
        }
    }

    /// Whether a domain is one of the system's own components.
    pub(crate) fn is_native(&self, id: Id) -> bool {
        self.domain(id)
            .and_then(|d| self.spaces.get(d.space))
            .is_some_and(|s| !s.linux())
    }

    /// The space of a domain.
    pub(crate) fn of(&self, id: u64) -> Result<usize, Errno> {
        let id = Id::try_from(id).map_err(|_| ESRCH)?;
        Ok(self.domain(id).ok_or(ESRCH)?.space)
    }

    /// The space of the caller, or for holders of the control portal, and of the one to look, of the named domain.
    fn named(&self, r: &Request, id: u64) -> Result<usize, Errno> {
        if id == 0 || id == u64::from(r.sender) {
            return self.of(u64::from(r.sender));
        }
        if r.badge != BADGE_CONTROL && r.badge != BADGE_INSPECT {
            return Err(EPERM);
        }
        self.of(id)
    }

    /// What the caller's own space has where, and what it may do there.
    fn arrange(&mut self, r: &Request, operation: u64) -> Result<u64, Errno> {
        let w = &r.words;
        let index = self.of(u64::from(r.sender))?;
        match operation {
            vm::MAP => {
                self.may_execute(index, w[3])?;
                self.map(index, w[1], w[2], w[3], w[4], Backing::Anonymous)
            }
            vm::MAP_ALIKE => {
                self.may_execute(index, w[3])?;
                let backing = self.backing_at(index, w[6], w[5], w[4])?;
                self.map(index, w[1], w[2], w[3], w[4], backing)
            }
            vm::UNMAP => self.unmap(index, w[1], w[2]),
            vm::PROTECT => {
                self.may_execute(index, w[3])?;
                self.protect(index, w[1], w[2], w[3])
            }
            vm::REMAP => self.remap(index, w[1], w[2], w[3], w[4], w[5]),
            vm::REMAP_PAGES => self.remap_pages(index, w[1], w[2], w[3]),
            vm::LOCK => self.lock(index, w[1], w[2], w[3]),
            vm::LOCK_ALL => self.lock_all(index, w[1]),
            vm::EXEC_GAIN => self.exec_gain(index, w[1]),
            _ => Err(EINVAL),
        }
    }

    /// Other operations on the caller's own space.
    fn own(&mut self, r: &Request, operation: u64) -> Result<Option<Answer>, Errno> {
        let w = &r.words;
        if operation == vm::MEMORY_STAT {
            self.is_settled()?;
            return Ok(Some(self.memory_stat()));
        }
        let index = match operation {
            vm::SPACE_STAT => self.named(r, w[2])?,
            vm::MAPS | vm::USAGE => self.named(r, w[1])?,
            _ => self.of(u64::from(r.sender))?,
        };
        let value = match operation {
            vm::ADVISE => match self.advise(index, w[1], w[2], w[3]) {
                // Others have memory that they can do without.
                Err(ENOMEM) if is_populate(w[3]) && self.defer(r) => return Ok(None),
                other => other?,
            },
            vm::OBJECT_CHANGE => self.object_change(r, index)?,
            vm::OBJECT_MAPPED => self.object_mapped(r, index)?,
            vm::CACHE_WANTED => self.cache_wanted(index, w[1] != 0)?,
            vm::OBJECT_CREATE => {
                self.object_create(r, index)?;
                return Ok(None);
            }
            vm::OBJECT_WANTED => return self.object_wanted(index).map(Some),
            vm::OBJECT_REFUSE => self.object_refuse(index, w[1], w[2], w[3])?,
            vm::OBJECT_WRITTEN => return self.object_written(r, index).map(Some),
            vm::OBJECT_READER => {
                self.object_reader(r, index)?;
                return Ok(None);
            }
            vm::OBJECT_INHERIT => {
                self.object_inherit(r, index)?;
                return Ok(None);
            }
            vm::OBJECT_ADOPT => self.object_adopt(r, index)?,
            vm::SYNC => match self.sync(r.token, index, w[1], w[2])? {
                Some(reached) => reached,
                None => return Ok(None),
            },
            vm::OBJECT_SYNCED => self.object_synced(index, w[1], w[2])?,
            vm::SPACE_STAT => return self.space_stat(index).map(Some),
            vm::MAPS => self.maps(r, index, w[2])?,
            vm::USAGE => self.usage(r, index)?,
            vm::RESIDENT => self.resident(r, index, w[1], w[2])?,
            vm::IDENTITY => return self.identity(index, w[1]).map(Some),
            vm::OFFER => {
                self.offer(r, index)?;
                return Ok(None);
            }
            vm::TAKE => return self.take(r, index).map(Some),
            // OBJECT_MAP through a portal that leads to no object.
            _ => return Err(EBADF),
        };
        Ok(Some(Answer::new(&[value])))
    }

    /// The object that is mapped privately at an address, for another private mapping.
    fn backing_at(
        &self,
        index: usize,
        like: u64,
        offset: u64,
        flag: u64,
    ) -> Result<Backing, Errno> {
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let region = space.regions.find(like / layout::PAGE);
        let private = |region: &&Region| region.object != ANONYMOUS && !region.shared();
        let object = region.filter(private).ok_or(EBADF)?.object;
        if flag & flags::SHARED != 0 {
            return Err(EINVAL);
        }
        // (Whether it could be mapped shared and writable does not matter.)
        backing(object, offset, BADGE_READER)
    }

    /// Through an object's portal only the object can be mapped.
    fn object_request(&mut self, r: &Request) -> Result<u64, Errno> {
        let w = &r.words;
        if w[0] != vm::OBJECT_MAP && w[0] != vm::OBJECT_MAP_PARTS {
            return Err(EINVAL);
        }
        let object = self.object_by_badge(r.badge & !BADGE_READER);
        let object = object.ok_or(EBADF)?;
        let index = self.of(u64::from(r.sender))?;
        if w[0] == vm::OBJECT_MAP_PARTS {
            // A portal that came along would stand in the last word.
            if r.portals != 0 {
                return Err(EINVAL);
            }
            return self.map_parts(index, object, w[1], w[2], &w[3..]);
        }
        let backing = backing(object, w[5], r.badge)?;
        self.may_execute(index, w[3])?;
        self.map(index, w[1], w[2], w[3], w[4], backing)
    }

    fn object_map_into(&mut self, r: &Request) -> Result<u64, Errno> {
        let w = &r.words;
        if r.portals != 1 {
            return Err(EINVAL);
        }
        let badge = self.nucleus.portal_badge(w[7] as u32).ok_or(EBADF)?;
        let object = self.object_by_badge(badge & !BADGE_READER).ok_or(EBADF)?;
        let index = self.of(w[1])?;
        let backing = backing(object, w[6], badge)?;
        self.map(index, w[2], w[3], w[4], w[5] | flags::FIXED, backing)
    }
}

/// Whether this badge allows an operation on the domains of others. (`init` shows the devices that the manifest names.)
fn may(badge: u64, operation: u64) -> bool {
    match operation {
        vm::DMA_ATTACH => badge == BADGE_DEVICES,
        vm::DEVICE_INTO => badge == BADGE_DEVICES || badge == BADGE_CONTROL,
        _ => badge == BADGE_CONTROL,
    }
}

/// Whether advice asks for memory.
fn is_populate(what: u64) -> bool {
    what == advice::POPULATE_READ || what == advice::POPULATE_WRITE
}

fn backing(object: u32, offset: u64, badge: u64) -> Result<Backing, Errno> {
    if !offset.is_multiple_of(layout::PAGE) {
        return Err(EINVAL);
    }
    let may_write = badge & BADGE_READER == 0;
    Ok(Backing::Object(object, offset / layout::PAGE, may_write))
}
