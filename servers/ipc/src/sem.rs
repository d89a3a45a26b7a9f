//! Sets of semaphores. A request's operations are carried out together or not at all. One that waits stands in the line of its semaphore if it is about that one alone, and in the set's line otherwise; whatever changes a semaphore carries out what has become possible, in order of arrival, so nobody who waits has to try.
//!
//! What a process has said it undoes (SEM_UNDO) is kept for the process, which is known by the end of which the server hears. It is void when the semaphore was set since: each semaphore has a number that grows then.

use crate::limits::SEMVMX;
use crate::line::{For, Line, Waiters};
use crate::registry::{Owned, Owner, Registry};
use crate::server::Kept;
use crate::structures::{with_owner, Bytes};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_slab::Slab;

pub const GETPID: u32 = 11;
pub const GETVAL: u32 = 12;
pub const GETALL: u32 = 13;
pub const GETNCNT: u32 = 14;
pub const GETZCNT: u32 = 15;
pub const SETVAL: u32 = 16;
pub const SETALL: u32 = 17;
pub const SEM_STAT: u32 = 18;
pub const SEM_INFO: u32 = 19;
pub const SEM_STAT_ANY: u32 = 20;
const IPC_NOWAIT: i16 = 0o4000;
pub const SEM_UNDO: i16 = 0x1000;

/// `struct sembuf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    pub number: u16,
    pub change: i16,
    pub flags: i16,
}

impl Operation {
    pub fn from_word(word: u64) -> Operation {
        Operation {
            number: word as u16,
            change: (word >> 16) as i16,
            flags: (word >> 32) as i16,
        }
    }

    pub fn from_bytes(bytes: [u8; 6]) -> Operation {
        let [a, b, c, d, e, f] = bytes;
        Operation {
            number: u16::from_le_bytes([a, b]),
            change: i16::from_le_bytes([c, d]),
            flags: i16::from_le_bytes([e, f]),
        }
    }

    pub fn undoes(&self) -> bool {
        self.flags & SEM_UNDO != 0 && self.change != 0
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Semaphore {
    pub value: u16,
    pub pid: u32,
    /// How often it was set.
    set: u32,
    /// Requests about it alone that wait until it is zero, and until it is larger.
    zero: Line,
    larger: Line,
}

#[derive(Debug)]
pub struct Set {
    pub owner: Owner,
    pub semaphores: Vec<Semaphore>,
    /// Requests about several.
    several: Line,
    otime: u64,
    ctime: u64,
    pub kept: Kept,
}

impl Owned for Set {
    fn owner(&self) -> &Owner {
        &self.owner
    }
    fn owner_mut(&mut self) -> &mut Owner {
        &mut self.owner
    }
}

/// What a process undoes of one semaphore.
#[derive(Clone, Copy, Debug)]
struct Undo {
    id: u32,
    number: u16,
    /// The semaphore's count of settings.
    set: u32,
    change: i32,
}

/// What a process undoes, by set and semaphore.
#[derive(Debug, Default)]
pub struct Undoes {
    list: Vec<Undo>,
    pub kept: Kept,
}

/// What is charged for each.
pub const UNDO_COST: usize = size_of::<Undo>() * 2;

impl Undoes {
    fn place(&self, id: u32, number: u16) -> Result<usize, usize> {
        self.list
            .binary_search_by_key(&(id, number), |undo| (undo.id, undo.number))
    }

    /// Room for so many more.
    pub fn reserve(&mut self, count: usize) -> bool {
        self.list.try_reserve(count).is_ok()
    }

    /// Those of sets that are gone are forgotten, when there are many.
    fn tidy(&mut self, sets: &Registry<Set>) {
        let live = |undo: &Undo| {
            let set = sets.things.get(crate::registry::index(undo.id));
            set.is_some_and(|set| set.owner.id == undo.id) && undo.change != 0
        };
        self.list.retain(live);
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Why operations were not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// This semaphore must become zero (true) or larger.
    At(u16, bool),
    Never(i64),
}

#[derive(Default)]
pub struct Sets {
    pub all: Registry<Set>,
    /// Semaphores of each name space.
    pub used: alloc::collections::BTreeMap<u32, u64>,
    pub undoes: Slab<Undoes>,
    /// Semaphores that changed, to be looked after.
    touched: Vec<u16>,
}

/// These are to be looked after. False: there is no memory to remember them all.
fn note(touched: &mut Vec<u16>, changed: impl Iterator<Item = u16>) -> bool {
    for number in changed {
        if touched.try_reserve(1).is_err() {
            return false;
        }
        touched.push(number);
    }
    true
}

/// What a set costs.
pub fn cost(count: usize) -> usize {
    size_of::<Set>() + count * size_of::<Semaphore>() + 64
}

impl Sets {
    pub fn make(
        &mut self,
        owner: Owner,
        count: usize,
        (most, all): (u64, u64),
        now: u64,
        kept: Kept,
    ) -> Result<u32, i64> {
        let used = self.used.get(&owner.space).copied().unwrap_or(0);
        if used + count as u64 > all {
            return Err(ENOSPC);
        }
        let mut semaphores = Vec::new();
        semaphores.try_reserve_exact(count).map_err(|_| ENOMEM)?;
        semaphores.resize(count, Semaphore::default());
        let set = Set {
            owner,
            semaphores,
            several: Line::default(),
            otime: 0,
            ctime: now,
            kept,
        };
        let id = self.all.add(set, most)?;
        self.used.insert(owner.space, used + count as u64);
        Ok(id)
    }

    /// Carry out operations, all or none. With a record of undoes there is room in it.
    pub fn perform(
        &mut self,
        at: u32,
        list: &[Operation],
        (pid, now): (u32, u64),
        undo: Option<u32>,
    ) -> Result<(), Blocked> {
        let set = self.all.things.get_mut(at).ok_or(Blocked::Never(EIDRM))?;
        let undoes = undo.and_then(|undo| self.undoes.get_mut(undo));
        let outcome = perform(set, list, pid, undoes);
        if outcome.is_ok() {
            set.otime = now;
        }
        outcome
    }

    /// These semaphores changed: requests that wait are carried out as far as they can be now.
    pub fn settle(
        &mut self,
        waiters: &mut Waiters,
        at: u32,
        changed: impl Iterator<Item = u16>,
        now: u64,
    ) {
        let Some(set) = self.all.things.get_mut(at) else {
            return;
        };
        let touched = &mut self.touched;
        let undoes = &mut self.undoes;
        touched.clear();
        // If there is no memory for a list of those that changed, all of the set are looked at.
        let mut all = 0..0;
        let count = set.semaphores.len() as u16;
        if !note(touched, changed) {
            all = 0..count;
        }
        loop {
            while let Some(number) = touched.pop().or_else(|| all.next()) {
                let place = usize::from(number);
                // What waits for zero changes nothing; what takes may make it zero.
                while let Some(semaphore) = set.semaphores.get(place).copied() {
                    let (line, zero) = match semaphore.value {
                        0 if !semaphore.zero.is_empty() => (semaphore.zero, true),
                        0 => break,
                        _ if semaphore.larger.is_empty() => break,
                        _ => (semaphore.larger, false),
                    };
                    let done = walk(set, waiters, undoes, line.first, now, |set| {
                        let semaphore = &mut set.semaphores[place];
                        match zero {
                            true => &mut semaphore.zero,
                            false => &mut semaphore.larger,
                        }
                    });
                    if !done {
                        break;
                    }
                }
            }
            let mut next = set.several.first;
            let mut any = false;
            while let Some(waiter) = waiters.get_mut(next) {
                let this = next;
                let For::Operations {
                    list,
                    pid,
                    undo,
                    at: blocked,
                    ..
                } = &mut waiter.what
                else {
                    break;
                };
                let record = undo.and_then(|undo| undoes.get_mut(undo));
                match perform(set, list, *pid, record) {
                    Ok(()) => {
                        set.otime = now;
                        let changed = list.iter().filter(|it| it.change != 0);
                        if !note(touched, changed.map(|it| it.number)) {
                            all = 0..count;
                        }
                        any = true;
                        next = waiters.next(this);
                        waiters.finish(&mut set.several, this, 0);
                    }
                    Err(Blocked::Never(error)) => {
                        next = waiters.next(this);
                        waiters.finish(&mut set.several, this, -error);
                    }
                    Err(Blocked::At(number, zero)) => {
                        *blocked = (number, zero);
                        next = waiters.next(this);
                    }
                }
            }
            if !any {
                return;
            }
        }
    }

    /// The line that a request stands in.
    pub fn line(&mut self, what: &For) -> Option<&mut Line> {
        let For::Operations {
            set, at, single, ..
        } = what
        else {
            return None;
        };
        let set = self.all.things.get_mut(*set)?;
        let (number, zero) = *at;
        match (single, zero) {
            (false, _) => Some(&mut set.several),
            (true, true) => Some(&mut set.semaphores.get_mut(usize::from(number))?.zero),
            (true, false) => Some(&mut set.semaphores.get_mut(usize::from(number))?.larger),
        }
    }

    /// GETNCNT and GETZCNT.
    pub fn waiting(&self, waiters: &Waiters, at: u32, number: u16, zero: bool) -> u64 {
        let Some(set) = self.all.things.get(at) else {
            return 0;
        };
        let Some(semaphore) = set.semaphores.get(usize::from(number)) else {
            return 0;
        };
        let line = match zero {
            true => semaphore.zero,
            false => semaphore.larger,
        };
        let mut count = 0;
        for (mut next, all) in [(line.first, true), (set.several.first, false)] {
            while let Some(waiter) = waiters.get(next) {
                let here =
                    matches!(&waiter.what, For::Operations { at, .. } if *at == (number, zero));
                count += u64::from(all || here);
                next = waiters.next(next);
            }
        }
        count
    }

    /// SETVAL, SETALL: what others would undo of these is void.
    pub fn assign(
        &mut self,
        at: u32,
        values: impl Iterator<Item = (u16, u16)>,
        (pid, now): (u32, u64),
    ) {
        if let Some(set) = self.all.things.get_mut(at) {
            for (number, value) in values {
                if let Some(semaphore) = set.semaphores.get_mut(usize::from(number)) {
                    semaphore.value = value;
                    semaphore.pid = pid;
                    semaphore.set = semaphore.set.wrapping_add(1);
                }
            }
            set.ctime = now;
        }
    }

    pub fn set(&mut self, at: u32, (uid, gid, mode): (u32, u32, u32), now: u64) {
        if let Some(set) = self.all.things.get_mut(at) {
            let owner = &mut set.owner;
            (owner.uid, owner.gid) = (uid, gid);
            owner.mode = mode & 0o777;
            set.ctime = now;
        }
    }

    /// Room for what these operations would have undone, in the record of a process.
    pub fn reserve(&mut self, undo: u32, count: usize) -> bool {
        let all = &self.all;
        self.undoes.get_mut(undo).is_some_and(|undoes| {
            if undoes.list.len() >= 64 && undoes.list.len() == undoes.list.capacity() {
                undoes.tidy(all);
            }
            undoes.reserve(count)
        })
    }

    /// A process has ended: what it said is undone → what is to be given back.
    pub fn undo(&mut self, waiters: &mut Waiters, undo: u32, (pid, now): (u32, u64)) -> Kept {
        let Some(undoes) = self.undoes.remove(undo) else {
            return Kept::default();
        };
        for undo in &undoes.list {
            let at = crate::registry::index(undo.id);
            let Some(set) = self.all.things.get_mut(at) else {
                continue;
            };
            if set.owner.id != undo.id || undo.change == 0 {
                continue;
            }
            let Some(semaphore) = set.semaphores.get_mut(usize::from(undo.number)) else {
                continue;
            };
            if semaphore.set != undo.set {
                continue;
            }
            let value = i32::from(semaphore.value) + undo.change;
            semaphore.value = value.clamp(0, SEMVMX) as u16;
            semaphore.pid = pid;
            set.otime = now;
            self.settle(waiters, at, core::iter::once(undo.number), now);
        }
        undoes.kept
    }

    /// `struct semid64_ds`.
    pub fn stat(&self, at: u32) -> Result<Bytes, i64> {
        let set = self.all.things.get(at).ok_or(EINVAL)?;
        let mut bytes = with_owner(104, &set.owner);
        bytes.put64(48, set.otime);
        bytes.put64(64, set.ctime);
        bytes.put64(80, set.semaphores.len() as u64);
        Ok(bytes)
    }

    pub fn text(&self, at: u32, into: &mut dyn core::fmt::Write) {
        if let Some(s) = self.all.things.get(at) {
            let o = &s.owner;
            let _ = writeln!(
                into,
                "{:10} {:10}  {:4o} {:10} {:5} {:5} {:5} {:5} {:10} {:10}",
                o.key as i32,
                o.id,
                o.mode,
                s.semaphores.len(),
                o.uid,
                o.gid,
                o.cuid,
                o.cgid,
                s.otime,
                s.ctime
            );
        }
    }

    /// IPC_RMID: who waits hears it → what is to be given back.
    pub fn destroy(&mut self, waiters: &mut Waiters, at: u32) -> Option<Kept> {
        let mut set = self.all.remove(at)?;
        if let Some(used) = self.used.get_mut(&set.owner.space) {
            *used -= set.semaphores.len() as u64;
        }
        for semaphore in &mut set.semaphores {
            waiters.finish_all(&mut semaphore.zero, -EIDRM);
            waiters.finish_all(&mut semaphore.larger, -EIDRM);
        }
        waiters.finish_all(&mut set.several, -EIDRM);
        Some(set.kept)
    }
}

/// Those of a semaphore's line that can go on; true: some did.
fn walk(
    set: &mut Set,
    waiters: &mut Waiters,
    undoes: &mut Slab<Undoes>,
    first: u32,
    now: u64,
    line: impl Fn(&mut Set) -> &mut Line,
) -> bool {
    let mut next = first;
    let mut any = false;
    while let Some(waiter) = waiters.get(next) {
        let this = next;
        next = waiters.next(this);
        let For::Operations {
            list, pid, undo, ..
        } = &waiter.what
        else {
            break;
        };
        let record = undo.and_then(|undo| undoes.get_mut(undo));
        let result = match perform(set, list, *pid, record) {
            Ok(()) => {
                set.otime = now;
                0
            }
            Err(Blocked::Never(error)) => -error,
            Err(Blocked::At(number, zero)) => {
                let value = set.semaphores[usize::from(number)].value;
                match (zero, value) {
                    // Nothing that stands behind it can go on either.
                    (false, 0) => break,
                    _ => continue,
                }
            }
        };
        any = true;
        waiters.finish(line(set), this, result);
    }
    any
}

/// All operations or none.
fn perform(
    set: &mut Set,
    list: &[Operation],
    pid: u32,
    mut undoes: Option<&mut Undoes>,
) -> Result<(), Blocked> {
    let id = set.owner.id;
    let mut done = 0;
    let mut outcome = Ok(());
    for operation in list {
        let place = usize::from(operation.number);
        let Some(semaphore) = set.semaphores.get_mut(place) else {
            outcome = Err(Blocked::Never(EFBIG));
            break;
        };
        let (value, change) = (i32::from(semaphore.value), i32::from(operation.change));
        let result = value + change;
        let waits = change == 0 && value != 0 || result < 0;
        if waits {
            outcome = Err(match operation.flags & IPC_NOWAIT {
                0 => Blocked::At(operation.number, change == 0),
                _ => Blocked::Never(EAGAIN),
            });
            break;
        }
        if result > SEMVMX {
            outcome = Err(Blocked::Never(ERANGE));
            break;
        }
        if operation.undoes() {
            let Some(undoes) = undoes.as_deref_mut() else {
                outcome = Err(Blocked::Never(ENOMEM));
                break;
            };
            let place = match undoes.place(id, operation.number) {
                Ok(place) => place,
                Err(place) => {
                    if undoes.list.try_reserve(1).is_err() {
                        outcome = Err(Blocked::Never(ENOMEM));
                        break;
                    }
                    let undo = Undo {
                        id,
                        number: operation.number,
                        set: semaphore.set,
                        change: 0,
                    };
                    undoes.list.insert(place, undo);
                    place
                }
            };
            let undo = &mut undoes.list[place];
            if undo.set != semaphore.set {
                (undo.set, undo.change) = (semaphore.set, 0);
            }
            let sum = undo.change - change;
            if !(-SEMVMX - 1..=SEMVMX).contains(&sum) {
                outcome = Err(Blocked::Never(ERANGE));
                break;
            }
            undo.change = sum;
        }
        semaphore.value = result as u16;
        done += 1;
    }
    if outcome.is_err() {
        for operation in list[..done].iter().rev() {
            let semaphore = &mut set.semaphores[usize::from(operation.number)];
            semaphore.value = (i32::from(semaphore.value) - i32::from(operation.change)) as u16;
            if let (true, Some(undoes)) = (operation.undoes(), undoes.as_deref_mut()) {
                if let Ok(place) = undoes.place(id, operation.number) {
                    undoes.list[place].change += i32::from(operation.change);
                }
            }
        }
        return outcome;
    }
    for operation in list {
        set.semaphores[usize::from(operation.number)].pid = pid;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_changes_is_refused_where_memory_is_short() {
        let mut touched = Vec::new();
        let all = cairn_failing::short(|| note(&mut touched, 0..30_000));
        assert!(!all && touched.len() <= cairn_failing::PAGE / 2);
        assert!(note(&mut touched, 0..30_000));
    }
}
