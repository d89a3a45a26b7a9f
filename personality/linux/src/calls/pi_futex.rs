//! Futexes with priority inheritance (Documentation/locking/pi-futex, futex(2)): FUTEX_LOCK_PI, LOCK_PI2, TRYLOCK_PI, UNLOCK_PI; and
//! FUTEX_WAIT_REQUEUE_PI and CMP_REQUEUE_PI, for conditions whose mutex is such a word.
//!
//! The word holds the owner's thread id, and a bit when others wait. As long as nobody waits programs do everything with the word alone. The first
//! who waits makes a mutex of the nucleus that belongs to the owner and waits for that: the nucleus lifts the owner, through chains, wakes by priority, and
//! passes the mutex on when the owner dies. The mutex goes when the last *user* (who waits, who has just got it, who is giving it back) is done.
//!
//! While a mutex is being given back the word names [`NOBODY`], so that whoever comes meanwhile waits in the nucleus's queue; who gets it writes its own id.
//!
//! Who waits to be moved to such a word (an *heir*) is made its owner or a user of its mutex by the thread that moves it, and then waits for the mutex itself.
//!
//! Who finds an owner in another process waits in `proc`, as for any shared word, and lends it no priority. On such words [`LOCK_WAITERS`] stays set once
//! somebody waits, so that whoever gives one back looks there as well.

use super::futex::{identity, own_id, realtime, unpark, wait_shared, wake_word};
use super::scheduling::exists;
use crate::errno::{
    Errno, Result, EAGAIN, EDEADLK, EINVAL, EMFILE, ENOBUFS, ENOMEM, EPERM, ESRCH, ETIMEDOUT,
    RESTART, RESTART_ALWAYS, RESTART_NO_HANDLER,
};
use crate::futex::{Futexes, Heir, Moved};
use crate::machine::area::{area, process};
use crate::machine::lock::Guard;
use crate::machine::request::Request;
use crate::machine::{gate, user};
use crate::path::grow_room_from;
use crate::signal::deliver;
use cairn_abi::layout::linux_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{current, semaphore, AUTO};
use cairn_abi::Error;
use cairn_idl::proc::{LOCK_OWNER, LOCK_OWNER_DIED, LOCK_WAITERS};
use cairn_idl::vm;
use core::sync::atomic::Ordering;

/// No thread has this id. (All ones is a C library's sign of a mutex that cannot be recovered.)
const NOBODY: u32 = LOCK_OWNER - 1;

/// A word, and whether the program says that it is no other process's.
#[derive(Clone, Copy)]
pub struct Word {
    pub address: u64,
    pub private: bool,
}

impl Word {
    /// If other processes have it too: what it is called in `proc`.
    fn key(self) -> Result<Option<u64>> {
        if self.private {
            return Ok(None);
        }
        identity(self.address)
    }
}

/// FUTEX_LOCK_PI, FUTEX_LOCK_PI2; `wait` is false for FUTEX_TRYLOCK_PI.
pub fn lock(word: Word, deadline: Option<u64>, wait: bool) -> Result<u64> {
    let address = word.address;
    let tid = area().tid();
    own_id(area());
    let (mut owner, mut others) = (None, 0);
    loop {
        // (Locks have an order: this one comes before that of futexes.)
        let capacity = process().state().capacity;
        let futexes = process().futexes.lock();
        let candidate = Candidate { tid, others, wait };
        let came = come(futexes, address, candidate, (&mut owner, capacity));
        // (The table is not kept locked.)
        match came.map(|came| came.map(|(_, became)| became)) {
            Ok(Some(Moved::Owns)) => return Ok(0),
            Ok(Some(Moved::ToMutex(slot))) => match wait_for(word, slot, deadline) {
                Ok(true) => return Ok(0),
                Ok(false) => {}
                Err(error) => return Err(error),
            },
            Ok(None) => {}
            Err(ESRCH) => {
                wait_elsewhere(word, deadline)?;
                // Others may wait there, too.
                others = LOCK_WAITERS;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The word's owner is no thread of this process. If it is one of another process, which has the word as well, wait until that gives it back or passes it on.
/// (Nothing is inherited: a mutex of the nucleus belongs to one process.)
fn wait_elsewhere(word: Word, deadline: Option<u64>) -> Result<()> {
    let key = word.key()?.ok_or(ESRCH)?;
    let address = word.address;
    let word = user::word(address)?;
    let owner = word & LOCK_OWNER;
    if owner == 0 || nucleus_thread(owner).is_ok() {
        return Ok(());
    }
    if owner != NOBODY && exists(owner.into()).is_err() {
        return ended(ESRCH, address, word);
    }
    let waiting = word | LOCK_WAITERS;
    if user::compare_exchange(address, word, waiting)? != word {
        return Ok(());
    }
    match wait_shared(key, address, (waiting, u32::MAX), deadline) {
        Ok(_) | Err(EAGAIN) => Ok(()),
        Err(RESTART | RESTART_NO_HANDLER) => Err(RESTART_ALWAYS),
        Err(error) => Err(error),
    }
}

/// The word has no owner any more, and nobody in this process gets it: if other processes have it as well, one there looks at it.
fn wake_elsewhere(word: Word) {
    if let Ok(Some(key)) = word.key() {
        let _ = wake_word((word.address, Some(key)), 1, u32::MAX);
    }
}

/// Who wants a word.
#[derive(Clone, Copy)]
struct Candidate {
    tid: u32,
    /// [`LOCK_WAITERS`] if others will come for it at once.
    others: u32,
    /// Whether it will wait.
    wait: bool,
}

/// Make a candidate the word's owner, or a user of the word's mutex. None: look again, with what was found out or made meanwhile. `owner`: the last one that
/// the word named, and its thread; `capacity`: of the portal table before.
fn come<'a>(
    mut futexes: Guard<'a, Futexes>,
    address: u64,
    candidate: Candidate,
    (owner, capacity): (&mut Option<(u32, u32)>, u32),
) -> Result<Option<(Guard<'a, Futexes>, Moved)>> {
    let word = user::word(address)?;
    if word & LOCK_OWNER == candidate.tid {
        return Err(EDEADLK);
    }
    let contended = futexes.contended(address);
    if word & LOCK_OWNER == 0 && contended.is_none() {
        let new = word & LOCK_OWNER_DIED | candidate.tid | candidate.others;
        let had = user::compare_exchange(address, word, new)? == word;
        return Ok(had.then_some((futexes, Moved::Owns)));
    }
    if !candidate.wait {
        return Err(EAGAIN);
    }
    if let Some(slot) = contended {
        futexes.join(address, slot);
        return Ok(Some((futexes, Moved::ToMutex(slot))));
    }
    match *owner {
        Some((of, thread)) if of == word & LOCK_OWNER => {
            if user::compare_exchange(address, word, word | LOCK_WAITERS)? == word {
                match make_mutex(thread) {
                    Ok(slot) => {
                        futexes.join(address, slot);
                        return Ok(Some((futexes, Moved::ToMutex(slot))));
                    }
                    Err(error @ (EMFILE | ENOBUFS)) => {
                        drop(futexes);
                        make_room(error, capacity)?;
                    }
                    Err(error) => ended(error, address, word | LOCK_WAITERS)?,
                }
            }
        }
        // Threads come before futexes in the order of locks.
        _ => {
            drop(futexes);
            match nucleus_thread(word & LOCK_OWNER) {
                Ok(thread) => *owner = Some((word & LOCK_OWNER, thread)),
                Err(error) => ended(error, address, word)?,
            }
        }
    }
    Ok(None)
}

/// Wait for the word's mutex, of which this thread is a user → whether it has the word: a thread of another process can have taken it when its owner died.
fn wait_for(word: Word, slot: u32, deadline: Option<u64>) -> Result<bool> {
    let waited = take(slot, deadline);
    let shared = matches!(word.key(), Ok(Some(_)));
    let address = word.address;
    let tid = area().tid();
    let elsewhere = waited == Ok(true) && shared && {
        let owner = user::word(address)? & LOCK_OWNER;
        !matches!(owner, 0 | NOBODY) && owner != tid && exists(owner.into()).is_ok()
    };
    if elsewhere {
        let _ = gate::service(slot, semaphore::V, &[]);
    }
    let mut futexes = process().futexes.lock();
    let left = futexes.leave(address);
    let mut free = false;
    let result = match waited {
        Ok(_) if elsewhere => Ok(false),
        Ok(died) => own(address, tid, shared || left != 0, died).map(|_| true),
        Err(error) => {
            // Given back to nobody, and the last who could have had it does not want it.
            if left == 0 {
                let _ = replace(address, |word| {
                    free = word & LOCK_OWNER == NOBODY;
                    free.then_some(0)
                });
            }
            Err(error)
        }
    };
    if left == 0 {
        gate::close(slot);
    }
    drop(futexes);
    if free && shared {
        wake_elsewhere(word);
    }
    result
}

/// FUTEX_WAIT_REQUEUE_PI: wait while the first word has this value until [`requeue`] moves this thread to the other one, and have that.
pub fn wait_to_inherit(
    address: u64,
    expected: u32,
    other: Word,
    deadline: Option<u64>,
) -> Result<u64> {
    let to = other.address;
    if address == to {
        return Err(EINVAL);
    }
    let process = process();
    let (thread, realtime) = (own_id(area()), realtime());
    let tid = area().tid();
    let ticket = {
        let mut futexes = process.futexes.lock();
        if user::word(address)? != expected {
            return Err(EAGAIN);
        }
        futexes.add_heir(address, thread, realtime, Heir { to, tid })
    };
    loop {
        if let Some(at) = deadline {
            gate::deadline(at);
        }
        let result = gate::service_interruptible(linux_slot::CURRENT, current::PARK, &[]);
        let mut futexes = process.futexes.lock();
        let moved = futexes.moved_heir(ticket);
        let error = match (moved, result) {
            (Some(_), _) => None,
            (None, Err(Error::TimedOut)) => Some(ETIMEDOUT),
            (None, Err(Error::Interrupted)) if deliver::pending() => Some(RESTART_ALWAYS),
            (None, _) if !futexes.waits(ticket) => Some(EAGAIN),
            _ => continue,
        };
        if let Some(error) = error {
            futexes.remove(ticket);
            return Err(error);
        }
        drop(futexes);
        if result == Err(Error::Interrupted) {
            area().mark_poked();
        }
        return match moved {
            Some(Moved::ToMutex(slot)) => {
                let had = wait_for(other, slot, deadline);
                let had = match had {
                    Ok(false) => lock(other, deadline, true),
                    had => had.map(|_| 0),
                };
                // The first word is another one by now: to wait again would say so.
                match had {
                    Err(RESTART_ALWAYS) => Err(EAGAIN),
                    had => had,
                }
            }
            _ => Ok(0),
        };
    }
}

/// FUTEX_CMP_REQUEUE_PI: while the first word has this value, move the first heir and up to `more` others to the other word.
pub fn requeue((address, expected): (u64, u32), to: u64, more: u32) -> Result<u64> {
    if address == to {
        return Err(EINVAL);
    }
    let (mut moved, mut owner) = (0, None);
    while moved <= u64::from(more) {
        let capacity = process().state().capacity;
        let futexes = process().futexes.lock();
        if moved == 0 && user::word(address)? != expected {
            return Err(EAGAIN);
        }
        let Some((thread, tid)) = futexes.first_heir(address, to).map_err(|_| EINVAL)? else {
            break;
        };
        let candidate = Candidate {
            tid,
            others: if more != 0 { LOCK_WAITERS } else { 0 },
            wait: true,
        };
        if let Some((mut futexes, became)) = come(futexes, to, candidate, (&mut owner, capacity))? {
            futexes.move_heir(address, became);
            drop(futexes);
            unpark(&[thread]);
            moved += 1;
        }
    }
    Ok(moved)
}

/// The owner that the word named could not be found. If it has ended and left word of that (a robust mutex), or has given the mutex back before, the word is
/// looked at again.
fn ended(error: Errno, address: u64, word: u32) -> Result<()> {
    if error == ESRCH && user::word(address)? != word {
        return Ok(());
    }
    Err(error)
}

/// P of the nucleus's mutex → whether the owner before died.
fn take(slot: u32, deadline: Option<u64>) -> Result<bool> {
    loop {
        if let Some(at) = deadline {
            gate::deadline(at);
        }
        return match gate::service_interruptible(slot, semaphore::P, &[]) {
            Ok(_) => Ok(false),
            Err(Error::OwnerDead) => Ok(true),
            Err(Error::TimedOut) => Err(ETIMEDOUT),
            Err(Error::Interrupted) if deliver::pending() => Err(RESTART_ALWAYS),
            Err(Error::Interrupted) => continue,
            Err(Error::Cycle) => Err(EDEADLK),
            Err(_) => Err(EAGAIN),
        };
    }
}

/// This thread has the mutex: the word says so.
fn own(address: u64, tid: u32, others: bool, died: bool) -> Result<u64> {
    replace(address, |word| {
        let waiters = if others { LOCK_WAITERS } else { 0 };
        let died = if died {
            LOCK_OWNER_DIED
        } else {
            word & LOCK_OWNER_DIED
        };
        Some(tid | waiters | died)
    })?;
    Ok(0)
}

/// Change the word, unless it is to stay.
fn replace(address: u64, mut new: impl FnMut(u32) -> Option<u32>) -> Result<()> {
    let mut word = user::word(address)?;
    while let Some(new) = new(word) {
        let found = user::compare_exchange(address, word, new)?;
        if found == word {
            break;
        }
        word = found;
    }
    Ok(())
}

/// For another mutex: in the portal table, which had this capacity, or (ENOBUFS) in the nucleus.
fn make_room(missing: Errno, capacity: u32) -> Result<()> {
    let made = match missing {
        EMFILE => grow_room_from(capacity),
        _ => Request::new(&[vm::MORE_OBJECTS, pool::SEMAPHORE])
            .call(linux_slot::VM)
            .map(|_| ()),
    };
    made.map_err(|_| ENOMEM)
}

/// A mutex of the nucleus that this thread of the process owns. EMFILE, ENOBUFS: there is [no room](make_room).
fn make_mutex(thread: u32) -> Result<u32> {
    let words = [0, semaphore::MUTEX, AUTO, thread as u64];
    match gate::service(linux_slot::CURRENT, current::SEMAPHORE_CREATE, &words) {
        Ok(words) => Ok(words[0] as u32),
        // It ended a moment ago.
        Err(Error::BadArgument) => Err(ESRCH),
        Err(Error::NoSlot) => Err(EMFILE),
        Err(Error::NoMemory) => Err(ENOBUFS),
        Err(_) => Err(ENOMEM),
    }
}

/// The nucleus's name for a thread of this process.
fn nucleus_thread(tid: u32) -> Result<u32> {
    let find = || {
        let state = process().state();
        let peer = state
            .threads
            .iter()
            .find(|p| p.tid.load(Ordering::Relaxed) == tid)?;
        Some(peer.nucleus.load(Ordering::Relaxed))
    };
    // One that was made a moment ago has its name noted by who made it.
    for _ in 0..1000 {
        match find() {
            Some(0) => gate::yield_core(),
            Some(thread) => return Ok(thread),
            None => return Err(ESRCH),
        }
    }
    Err(EAGAIN)
}

/// FUTEX_UNLOCK_PI
pub fn unlock(it: Word) -> Result<u64> {
    let address = it.address;
    let tid = area().tid();
    let mut futexes = process().futexes.lock();
    let word = user::word(address)?;
    if word & LOCK_OWNER != tid {
        return Err(EPERM);
    }
    let Some(slot) = futexes.contended(address) else {
        let mut before = word;
        replace(address, |word| {
            before = word;
            (word & LOCK_OWNER == tid).then_some(0)
        })?;
        drop(futexes);
        if before & LOCK_WAITERS != 0 {
            wake_elsewhere(it);
        }
        return Ok(0);
    };
    let given = LOCK_WAITERS | NOBODY;
    replace(address, |word| (word & LOCK_OWNER == tid).then_some(given))?;
    futexes.join(address, slot);
    // Whoever gets it may be more important and wants the table at once.
    drop(futexes);
    let result = gate::service(slot, semaphore::V, &[]);
    let mut futexes = process().futexes.lock();
    let left = futexes.leave(address);
    let mut free = false;
    if result.is_err() {
        // The word lied: the nucleus knows another owner.
        replace(address, |word| {
            (word == given).then_some(tid | LOCK_WAITERS)
        })?;
    } else if left == 0 {
        replace(address, |word| {
            free = word == given;
            free.then_some(0)
        })?;
    }
    if left == 0 {
        gate::close(slot);
    }
    drop(futexes);
    if free {
        wake_elsewhere(it);
    }
    match result {
        Ok(_) => Ok(0),
        Err(_) => Err(EPERM),
    }
}
