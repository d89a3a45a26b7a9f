//! Accounts: who pays for frames. An account is an effective user id or a group of processes (docs/accounts.md); what belongs to components and to `vm` itself is [`SYSTEM`]'s.
//!
//! What always holds:
//! - what is counted for a group is counted for all groups above it as well;
//! - each frame that is not free is counted for one account, the one that it was taken for, until it is free again;
//! - what a component has charged to an account is given back when the component ends.

use crate::nucleus::Nucleus;
use crate::request::Request;
use crate::space::{Domain, Errno, Space, Vm};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::vm::GROUP_FIRST;

/// Index of an account.
pub type Account = u16;
/// Components, `vm`, and what the nucleus has for all.
pub const SYSTEM: Account = 0;
/// User 0, who may use what is kept for the system, as components may.
pub const ROOT: Account = 1;
/// The account above one that has none.
const NONE: Account = Account::MAX;
/// Frames of one CHARGE.
const MOST: i64 = 1 << 24;
/// Heap of an object or an offer, about: its record, and the first slots of its pages.
pub(crate) const ONE_RECORD: usize = 640;
/// Heap that a new account may take: its record, and two entries in maps.
const RECORD: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub uid: u32,
    /// Frames that were taken for it.
    pub held: u32,
    /// Frames that components have for it.
    pub charged: u32,
    /// Bytes of `vm`'s own records of its programs, which never become frames again: lists of regions, objects, offers.
    pub records: u32,
    /// Most of all.
    pub limit: u32,
    /// Spaces of its programs.
    pub spaces: u32,
    /// The group that it is below.
    pub above: Account,
    /// Groups below it.
    below: u32,
    /// It is a group that is there, and most of all that it ever had.
    group: bool,
    peak: u32,
    /// How often its limit refused something, how often somebody had to end for it, and how many programs of it ended so, those below it included.
    pub refused: u64,
    pub full: u64,
    pub ended: u64,
}

impl Record {
    fn new(uid: u32) -> Record {
        Record {
            uid,
            held: 0,
            charged: 0,
            records: 0,
            limit: u32::MAX,
            spaces: 0,
            above: NONE,
            below: 0,
            group: false,
            peak: 0,
            refused: 0,
            full: 0,
            ended: 0,
        }
    }

    pub fn used(&self) -> u32 {
        let records = self.records / PAGE as u32;
        self.held
            .saturating_add(self.charged)
            .saturating_add(records)
    }

    /// Whether another one has what this one has as well.
    pub fn is_below(&self) -> bool {
        self.above != NONE
    }

    /// It may have more now than ever.
    #[inline]
    fn note_peak(&mut self) {
        if self.group {
            self.peak = self.peak.max(self.used());
        }
    }

    fn is_idle(&self) -> bool {
        self.held == 0
            && self.charged == 0
            && self.records == 0
            && self.spaces == 0
            && self.limit == u32::MAX
            && self.below == 0
            && !self.group
    }
}

/// All accounts, and who pays for what is taken next.
pub struct Accounts {
    list: Vec<Record>,
    by_uid: BTreeMap<u32, Account>,
    pub payer: Account,
}

impl Accounts {
    pub fn new() -> Accounts {
        Accounts {
            list: [0, 0].map(Record::new).into(),
            by_uid: BTreeMap::from([(0, ROOT)]),
            payer: SYSTEM,
        }
    }

    #[inline]
    pub fn get(&self, account: Account) -> &Record {
        &self.list[account as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, account: Account) -> &mut Record {
        &mut self.list[account as usize]
    }

    pub fn find(&self, uid: u32) -> Option<Account> {
        self.by_uid.get(&uid).copied()
    }

    /// The account of a user, made if it is missing: in the place of one that nothing is counted for any more, if there is one among the next few.
    fn make(&mut self, uid: u32) -> Option<Account> {
        if let Some(account) = self.find(uid) {
            return Some(account);
        }
        let number = match self.list.len() < usize::from(Account::MAX) {
            true if self.list.try_reserve(1).is_ok() => {
                self.list.push(Record::new(uid));
                self.list.len() - 1
            }
            _ => {
                let idle = (2..self.list.len()).find(|&at| self.list[at].is_idle())?;
                self.by_uid.remove(&self.list[idle].uid);
                let above = self.list[idle].above;
                if above != NONE {
                    self.list[usize::from(above)].below -= 1;
                }
                self.list[idle] = Record::new(uid);
                idle
            }
        };
        self.by_uid.insert(uid, number as Account);
        Some(number as Account)
    }

    /// Something is counted otherwise, for an account and all above it.
    #[inline]
    pub fn count(&mut self, account: Account, how: impl Fn(&mut Record)) {
        let record = &mut self.list[account as usize];
        how(record);
        let mut above = record.above;
        while above != NONE {
            let record = &mut self.list[above as usize];
            how(record);
            above = record.above;
        }
    }

    /// A frame is taken.
    #[inline]
    pub fn taken(&mut self, count: u32) -> Account {
        self.count(self.payer, |record| {
            record.held += count;
            record.note_peak();
        });
        self.payer
    }

    /// Frames that were taken for an account are free.
    #[inline]
    pub fn freed(&mut self, account: Account, count: u32) {
        self.count(account, |record| record.held -= count);
    }

    /// So many frames of one account are another's.
    pub fn handed_on(&mut self, from: Account, to: Account, frames: u32) {
        self.freed(from, frames);
        self.count(to, |record| {
            record.held += frames;
            record.note_peak();
        });
    }

    /// Whether an account can have no more.
    #[inline]
    pub fn is_full(&self, account: Account) -> bool {
        self.full(account, 1).is_some()
    }

    /// The account among this one and those above it that cannot have so much more.
    #[inline]
    pub fn full(&self, account: Account, more: u32) -> Option<Account> {
        let mut at = account;
        loop {
            let record = self.get(at);
            if record.limit != u32::MAX && record.used().saturating_add(more) > record.limit {
                return Some(at);
            }
            if record.above == NONE {
                return None;
            }
            at = record.above;
        }
    }

    /// Whether an account is another one or below it.
    pub fn is_within(&self, account: Account, other: Account) -> bool {
        let mut at = account;
        while at != other && at != NONE {
            at = self.get(at).above;
        }
        at == other
    }

    pub fn iter(&self) -> impl Iterator<Item = (Account, &Record)> {
        (0..).zip(&self.list)
    }
}

impl Default for Accounts {
    fn default() -> Self {
        Accounts::new()
    }
}

/// What a component has charged to accounts.
pub type Charges = BTreeMap<Account, u32>;

impl<N: Nucleus> Vm<N> {
    /// The account of a user.
    fn account_of(&mut self, uid: u32) -> Result<Account, Errno> {
        if let Some(account) = self.frames.accounts.find(uid) {
            return Ok(account);
        }
        if !self.heap_has(RECORD + self.frames.accounts.list.len() * size_of::<Record>() * 2) {
            return Err(ENOMEM);
        }
        self.frames.accounts.make(uid).ok_or(ENOMEM)
    }

    /// The account of a user or a group.
    pub(crate) fn payer(&mut self, uid: u64) -> Result<Account, Errno> {
        match u32::try_from(uid).map_err(|_| EINVAL)? {
            group @ GROUP_FIRST.. => self.group(group),
            uid => self.account_of(uid),
        }
    }

    /// SET_ACCOUNT: a domain acts for this user or in this group from now on, with user 0's privilege or without. What is its space's alone goes along, unless others use the space.
    pub(crate) fn set_account(&mut self, id: Id, uid: u64, root: bool) -> Result<u64, Errno> {
        let domain = self.domain(id).ok_or(ESRCH)?;
        let account = self.payer(uid)?;
        self.set_domain(Domain {
            account,
            root,
            ..domain
        });
        let floor = self.program_floor(root);
        let space = self.spaces.get_mut(domain.space).ok_or(ESRCH)?;
        if !space.linux() || space.domains != 1 {
            return Ok(0);
        }
        space.floor = floor;
        if space.account == account {
            return Ok(0);
        }
        let before = core::mem::replace(&mut space.account, account);
        let recorded = space.recorded;
        let accounts = &mut self.frames.accounts;
        accounts.count(before, |old| {
            (old.spaces, old.records) = (old.spaces - 1, old.records - recorded);
        });
        accounts.count(account, |new| {
            (new.spaces, new.records) = (new.spaces + 1, new.records + recorded);
        });
        let frames = &mut self.frames;
        if let Some(block) = space.block {
            let block = block..block + crate::frames::BLOCK;
            frames.hand_on(block, u32::MAX, (before, account));
        }
        frames.hand_on(space.pages.alone(), 1, (before, account));
        Ok(0)
    }

    /// Frames that stay free when a program of this account gets one.
    pub(crate) fn program_floor(&self, root: bool) -> usize {
        match root {
            true => self.reserve,
            false => self.user_floor,
        }
    }

    /// The account of a group that is there.
    fn group(&self, id: u32) -> Result<Account, Errno> {
        let accounts = &self.frames.accounts;
        let found = accounts.find(id).ok_or(ENOENT)?;
        match accounts.get(found).group {
            true => Ok(found),
            false => Err(ENOENT),
        }
    }

    /// GROUP: one that is below another (0: below none), or it is gone.
    pub(crate) fn set_group(&mut self, id: u64, above: u64, there: bool) -> Result<u64, Errno> {
        let number = |id: u64| u32::try_from(id).map_err(|_| EINVAL);
        let (id, above) = (number(id)?, number(above)?);
        if id < GROUP_FIRST {
            return Err(EINVAL);
        }
        if !there {
            // What is still counted for it stays so, and for those above it, until it is given back.
            let account = self.group(id)?;
            let record = self.frames.accounts.get_mut(account);
            if record.spaces > 0 {
                return Err(EBUSY);
            }
            (record.group, record.limit) = (false, u32::MAX);
            return Ok(0);
        }
        if self.frames.accounts.find(id).is_some() {
            return Err(EEXIST);
        }
        let above = match above {
            0 => NONE,
            above => self.group(above)?,
        };
        let account = self.account_of(id)?;
        let accounts = &mut self.frames.accounts;
        if above != NONE {
            accounts.get_mut(above).below += 1;
        }
        let record = accounts.get_mut(account);
        (record.group, record.above) = (true, above);
        Ok(0)
    }

    /// ACCOUNT_OF: who pays for what a domain asks of a component.
    pub(crate) fn payer_of(&self, r: &Request) -> Result<u64, Errno> {
        if !self.is_native(r.sender) {
            return Err(EPERM);
        }
        let id = Id::try_from(r.words[1]).map_err(|_| ESRCH)?;
        let account = self.domain(id).ok_or(ESRCH)?.account;
        Ok(self.frames.accounts.get(account).uid.into())
    }

    /// Records of `vm` that somebody pays for are more or fewer.
    pub(crate) fn count_records(&mut self, account: Account, by: i64) {
        let accounts = &mut self.frames.accounts;
        accounts.count(account, |record| {
            record.records = (i64::from(record.records) + by) as u32;
        });
    }

    /// Whether `vm` may record so many bytes more for an account: at most a sixteenth of all memory for one user.
    pub(crate) fn may_record_for(&self, account: Account, bytes: usize) -> bool {
        let records = self.frames.accounts.get(account).records as usize + bytes;
        match account {
            SYSTEM | ROOT => u32::try_from(records).is_ok(),
            _ => records / PAGE as usize <= self.frames.total() / 16,
        }
    }

    /// A space's list of regions has grown, or is gone with it.
    pub(crate) fn count_regions(&mut self, index: usize) {
        if let Some(space) = self.spaces.get_mut(index) {
            let now = space.regions.bytes() as u32;
            let before = core::mem::replace(&mut space.recorded, now);
            if now != before {
                let account = space.account;
                self.count_records(account, i64::from(now) - i64::from(before));
            }
        }
    }

    /// CHARGE: a component has so many pages more or fewer for a user. ENOMEM: it must not take them.
    pub(crate) fn charge(&mut self, r: &Request) -> Result<u64, Errno> {
        let pages = r.words[2] as i64;
        let uid = u32::try_from(r.words[1]).map_err(|_| EINVAL)?;
        if !(-MOST..=MOST).contains(&pages) {
            return Err(EINVAL);
        }
        let index = self.domain(r.sender).ok_or(ESRCH)?.space;
        if self.spaces.get(index).is_none_or(Space::linux) {
            return Err(EPERM);
        }
        if pages <= 0 {
            let account = self.frames.accounts.find(uid).ok_or(EINVAL)?;
            let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
            let back = pages.unsigned_abs() as u32;
            let left = match space.charges.get(&account).copied().unwrap_or(0) {
                had if had < back => return Err(EINVAL),
                had => had - back,
            };
            match left {
                0 => space.charges.remove(&account),
                _ => space.charges.insert(account, left),
            };
            let accounts = &mut self.frames.accounts;
            accounts.count(account, |record| record.charged -= back);
            return Ok(0);
        }
        let more = pages as u32;
        let account = match uid {
            // What was begun for a group goes on until nothing of it is left.
            GROUP_FIRST.. => self.frames.accounts.find(uid).ok_or(ENOMEM)?,
            _ => self.account_of(uid)?,
        };
        if account != ROOT {
            self.may_charge(account, more)?;
        }
        if !self.heap_has(RECORD) {
            return Err(ENOMEM);
        }
        if account == ROOT {
            let charged = self.frames.accounts.get(account).charged;
            charged.checked_add(more).ok_or(ENOMEM)?;
        }
        let accounts = &mut self.frames.accounts;
        accounts.count(account, |record| {
            record.charged += more;
            record.note_peak();
        });
        if let Some(space) = self.spaces.get_mut(index) {
            *space.charges.entry(account).or_default() += more;
        }
        Ok(0)
    }

    /// What servers have for one user is at most half of all memory, and they leave room for the programs of users: those can be ended if need be.
    fn may_charge(&mut self, account: Account, more: u32) -> Result<(), Errno> {
        loop {
            let full = self.frames.accounts.full(account, more);
            if full.is_none() && self.leaves_room(account, more) {
                return Ok(());
            }
            // Perhaps there is room when what has ended is free.
            if !self.frames.drop_piece() {
                if let Some(full) = full {
                    let accounts = &mut self.frames.accounts;
                    accounts.count(full, |record| record.refused += 1);
                }
                return Err(ENOMEM);
            }
        }
    }

    fn leaves_room(&self, account: Account, more: u32) -> bool {
        let record = self.frames.accounts.get(account);
        let total = self.frames.total();
        let room = self.user_floor + total / 16 + more as usize;
        let free = self.frames.free();
        record.charged as usize + more as usize <= total / 2
            // Caches give back what they have when it is wanted.
            && (free >= room || free + self.all_lent() as usize >= room)
            && free > self.user_floor + more as usize
    }

    /// Whether a charge would go well if caches gave what they can.
    pub(crate) fn waits_to_charge(&self, r: &Request) -> bool {
        let more = usize::try_from(r.words[2]).unwrap_or(0).min(MOST as usize);
        r.words[2] as i64 > 0 && self.frames.free() <= self.user_floor + more && self.all_lent() > 0
    }

    /// A component is gone, and what it had for others.
    pub(crate) fn drop_charges(&mut self, charges: Charges) {
        for (account, count) in charges {
            let accounts = &mut self.frames.accounts;
            accounts.count(account, |record| record.charged -= count);
        }
    }

    /// ACCOUNT_STAT → frames of its programs, what components have for it, its limit (0 = none), its spaces; `vm`'s bytes for it, refusals, ends.
    pub(crate) fn account_stat(&self, uid: u64) -> Result<[u64; 8], Errno> {
        let uid = u32::try_from(uid).map_err(|_| EINVAL)?;
        let found = self.frames.accounts.find(uid);
        let record = found.map_or(Record::new(uid), |account| {
            *self.frames.accounts.get(account)
        });
        let limit = match record.limit {
            u32::MAX => 0,
            limit => limit,
        };
        Ok([
            0,
            record.held.into(),
            record.charged.into(),
            limit.into(),
            u64::from(record.spaces) | u64::from(record.peak) << 32,
            record.records.into(),
            record.refused,
            record.full << 32 | record.ended & 0xffff_ffff,
        ])
    }

    /// ACCOUNT_LIMIT.
    pub(crate) fn set_account_limit(&mut self, uid: u64, pages: u64) -> Result<u64, Errno> {
        let uid = u32::try_from(uid).map_err(|_| EINVAL)?;
        let limit = match pages {
            0 => u32::MAX,
            pages => u32::try_from(pages).map_err(|_| EINVAL)?,
        };
        if uid == 0 {
            return Err(EPERM);
        }
        let account = self.payer(uid.into())?;
        self.frames.accounts.get_mut(account).limit = limit;
        // Somebody may wait who needs not any more.
        Ok(0)
    }
}
