//! Filters of system calls (seccomp(2)): threads have those that they installed, and those of who made them.
//!
//! The personality asks a filter about each call; the programs are kept here, so that they outlive exec. A filtered process's calls come by the entry for
//! traced processes, so others pay nothing. What no call can do any more that a filter lets through, `proc` refuses, whatever the process does beneath its
//! personality: the personality, which is still the program's own when a filter is installed, says which operations these are, and they only become more.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::Process;
use crate::system::{Errno, System};
use crate::table::Slot;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_idl::capability::SYS_ADMIN;
use cairn_idl::errno::{EACCES, EFAULT, EINVAL, ENOENT, ENOMEM, EPERM};
use cairn_idl::proc::{
    filter, FilterMode, FilterOp, FILTER_BYTES, KILL, MOUNT_PORTAL, SPACE_ROOT_HANDLE, TGKILL,
};
use cairn_rt::Received;
use core::cell::Cell;

/// Most filters of a thread, and most bytes of their programs (as on Linux, where each counts four instructions more).
const FILTERS_MOST: u32 = 256;
const CHAIN_MOST: usize = 32768 * INSTRUCTION;
const EACH: usize = 4 * INSTRUCTION;
const INSTRUCTION: usize = 8;
/// Bytes of all programs that one user's processes installed.
const USER_MOST: usize = 1 << 20;
const ROOT_MOST: usize = 16 << 20;

/// A filter, with those that were there before it.
#[derive(Debug)]
pub struct Filter {
    /// Empty: strict mode.
    program: Vec<u8>,
    above: Option<Rc<Filter>>,
    count: u32,
    /// What all of them take, by Linux's count.
    size: usize,
    refused: u64,
    /// What the user has that pays for it.
    paid: Rc<Cell<usize>>,
}

impl Filter {
    fn charge(&self) -> usize {
        self.program.len() + EACH
    }

    fn mode(&self) -> FilterMode {
        match self.program.is_empty() {
            true => FilterMode::Strict,
            false => FilterMode::Filter,
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        self.paid.set(self.paid.get() - self.charge());
    }
}

/// Has a thread with `filter` no filters but those below it in `chain`?
fn leads_to(chain: &Option<Rc<Filter>>, filter: &Option<Rc<Filter>>) -> bool {
    let Some(filter) = filter else {
        return true;
    };
    let mut at = chain.as_ref();
    while let Some(one) = at {
        if Rc::ptr_eq(one, filter) {
            return true;
        }
        at = one.above.as_ref();
    }
    false
}

/// What users' filters take.
pub type Paid = BTreeMap<u32, Rc<Cell<usize>>>;

impl Process {
    /// Is this operation one that its filters rule out? (What it sends itself is its own affair.)
    #[inline]
    pub fn refuses(&self, words: &[u64; 8]) -> bool {
        self.refused != 0 && self.rules_out(words)
    }

    #[cold]
    fn rules_out(&self, words: &[u64; 8]) -> bool {
        let to_itself = matches!(words[0], KILL | TGKILL) && words[1] == u64::from(self.pid);
        match words[0] {
            SPACE_ROOT_HANDLE => self.refused & filter::PATHS != 0,
            MOUNT_PORTAL => false,
            operation => self.refused & 1 << (operation % 64) != 0 && !to_itself,
        }
    }

    /// The filters of the thread that the nucleus calls `id`.
    pub fn filters_of(&self, id: Id) -> Option<Rc<Filter>> {
        let at = self.threads.place(id)?;
        self.threads[at].filters.clone()
    }

    /// Mode and number of its first thread's filters.
    pub fn filters(&self) -> (FilterMode, u32) {
        let first = self.threads.iter().next().and_then(|t| t.filters.as_ref());
        first.map_or((FilterMode::None, 0), |it| (it.mode(), it.count))
    }
}

impl<S: System> Manager<S> {
    /// SECCOMP
    pub(crate) fn seccomp(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        match FilterOp::from_word(message.words[1]).ok_or(EINVAL)? {
            FilterOp::Add => self.add_filter(message, slot, false),
            FilterOp::AddToAll => self.add_filter(message, slot, true),
            FilterOp::Read => self.read_filter(message, slot),
        }
    }

    fn add_filter(&mut self, message: &Received, slot: Slot, all: bool) -> Result<Outcome, Errno> {
        let (by, length) = (message.token as u32, message.out_len);
        let strict = length == 0;
        if length % INSTRUCTION != 0 || length > FILTER_BYTES as usize {
            return Err(EINVAL);
        }
        let process = &self.processes[slot];
        let at = process.threads.place(by).ok_or(EPERM)?;
        if !strict && !process.no_new_privileges && !process.creds.has_inside(SYS_ADMIN) {
            return Err(EACCES);
        }
        let above = process.threads[at].filters.clone();
        if above.is_some()
            && (strict || above.as_ref().map(|f| f.mode()) == Some(FilterMode::Strict))
        {
            return Err(EINVAL);
        }
        let mut threads = process.threads.iter();
        if let Some(other) = threads.find(|t| all && !leads_to(&above, &t.filters)) {
            return done(i64::from(other.tid));
        }
        let (count, size, refused) = above
            .as_ref()
            .map_or((0, 0, 0), |above| (above.count, above.size, above.refused));
        let uid = process.creds.ruid;
        let alone = all || process.threads.len() == 1;
        if count >= FILTERS_MOST || size + length + EACH > CHAIN_MOST {
            return Err(ENOMEM);
        }
        let program = self.bytes(message, 0, length)?;
        self.filters_paid.retain(|_, paid| paid.get() != 0);
        let paid = self.filters_paid.entry(uid).or_default().clone();
        let most = if uid == 0 { ROOT_MOST } else { USER_MOST };
        let filter = Filter {
            program,
            above,
            count: count + 1,
            size: size + length + EACH,
            refused: refused | message.words[2],
            paid,
        };
        let charge = filter.charge();
        filter.paid.set(filter.paid.get() + charge);
        if filter.paid.get() > most {
            return Err(ENOMEM);
        }
        let filter = Rc::new(filter);
        let process = &mut self.processes[slot];
        if alone {
            process.refused |= filter.refused;
        }
        for thread in process.threads.iter_mut() {
            if all || thread.id == by {
                thread.filters = Some(filter.clone());
            }
        }
        process.filtered = true;
        self.turn(slot);
        done(0)
    }

    /// The filter with this number, the newest being 0.
    fn read_filter(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let newest = self.processes[slot].filters_of(message.token as u32);
        let Some(newest) = newest else {
            return Ok(Outcome::words(&[0, 0, FilterMode::None.word()]));
        };
        let mut at = Some(&newest);
        for _ in 0..message.words[2].min(FILTERS_MOST.into()) {
            at = at.and_then(|it| it.above.as_ref());
        }
        let it = at.ok_or(ENOENT)?;
        if it.program.len() > message.in_len {
            return Err(EFAULT);
        }
        self.answer(message, &it.program)?;
        let words = [
            it.program.len() as u64,
            newest.count.into(),
            it.mode().word(),
        ];
        Ok(Outcome::words(&words))
    }

    /// The first thread of a process that was made or executes a program has these filters.
    pub(crate) fn filter_first(&mut self, slot: Slot, filters: Option<Rc<Filter>>) {
        let process = &mut self.processes[slot];
        let before = core::mem::replace(&mut process.filtered, filters.is_some());
        if !before && !process.filtered {
            return;
        }
        process.refused |= filters.as_ref().map_or(0, |filters| filters.refused);
        if let Some(first) = process.threads.first_mut() {
            first.filters = filters;
        }
        self.turn(slot);
    }

    /// Which entry its system calls come by.
    pub(crate) fn turn(&mut self, slot: Slot) {
        let process = &self.processes[slot];
        let looks = process.traced != 0 || process.filtered;
        self.system.turn(process.domain, self.entries, looks);
    }

    /// May it have this mount's portal?
    pub(crate) fn filters_admit(&self, slot: Slot, index: u64) -> bool {
        let refused = self.processes[slot].refused;
        let is = |name: &[u8]| self.prefixes.is_called(index, name);
        let kind = match () {
            () if is(b"local:") || is(b"net:") => filter::SOCKETS,
            () if is(b"ipc:") => filter::IPC,
            () if is(b"keys:") => filter::KEYS,
            () if is(b"event:") || is(b"pipe:") => 0,
            () => filter::PATHS,
        };
        refused & kind == 0
    }
}
