//! futex(2). Waiters of one process meet in a table of its own; words in memory that is shared with other processes have a key from `vm`, and their waiters meet in `proc`.
//! futex_waitv with words of both kinds waits in `proc`.

use super::pi_futex;
use crate::errno::{
    Result, EAGAIN, EFAULT, EINVAL, ENOSYS, ESRCH, ETIMEDOUT, RESTART, RESTART_NO_HANDLER,
};
use crate::futex::{wake_op, Ticket, IN_PROC};
use crate::machine::area::{area, process, Frame, Identity, ThreadArea};
use crate::machine::request::{without_handler, Request};
use crate::machine::{gate, published, user};
use crate::memory;
use crate::signal::deliver;
use crate::time;
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, PAGE};
use cairn_abi::service::current;
use cairn_abi::Error;
use cairn_idl::proc::{FUTEX_SEVERAL, LOCK_OWNER, LOCK_OWNER_DIED, LOCK_WAITERS};
use cairn_idl::{proc, vm};
use core::sync::atomic::Ordering;

const PRIVATE: u64 = 128;
const CLOCK_REALTIME: u64 = 256;
const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const LOCK_PI: u64 = 6;
const UNLOCK_PI: u64 = 7;
const TRYLOCK_PI: u64 = 8;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
const WAIT_REQUEUE_PI: u64 = 11;
const CMP_REQUEUE_PI: u64 = 12;
const LOCK_PI2: u64 = 13;

pub fn futex(f: &mut Frame) -> Result<u64> {
    let (address, operation, value) = (f.arg(0), f.arg(1) & 0xffff_ffff, f.arg(2) as u32);
    let (timeout, second, third) = (f.arg(3), f.arg(4), f.arg(5) as u32);
    let plain = operation & !(PRIVATE | CLOCK_REALTIME);
    if plain > LOCK_PI2 {
        return Err(ENOSYS);
    }
    if !address.is_multiple_of(4) {
        return Err(EINVAL);
    }
    let clocked = matches!(plain, WAIT_BITSET | WAIT_REQUEUE_PI | LOCK_PI2);
    if operation & CLOCK_REALTIME != 0 && !clocked {
        return Err(ENOSYS);
    }
    user::range(address, 4)?;
    let key = shared_key(address, operation)?;
    let private = operation & PRIVATE != 0;
    let inherited = pi_futex::Word { address, private };
    match plain {
        WAIT => {
            let deadline = match timeout {
                0 => None,
                _ => Some(time::deadline_after(time::read_timespec(timeout)?)),
            };
            match key {
                Some(key) => wait_shared(key, address, (value, u32::MAX), deadline),
                None => wait(address, value, u32::MAX, deadline),
            }
        }
        WAIT_BITSET => {
            let deadline = match timeout {
                0 => None,
                _ => Some(absolute(timeout, operation & CLOCK_REALTIME != 0)?),
            };
            if third == 0 {
                return Err(EINVAL);
            }
            match key {
                Some(key) => wait_shared(key, address, (value, third), deadline),
                None => wait(address, value, third, deadline),
            }
        }
        WAKE => wake_word((address, key), value, u32::MAX),
        WAKE_BITSET if third == 0 => Err(EINVAL),
        WAKE_BITSET => wake_word((address, key), value, third),
        REQUEUE | CMP_REQUEUE => {
            let expected = (plain == CMP_REQUEUE).then_some(third);
            let second = (second, key_of_second(second, operation)?);
            requeue((address, key), second, [value, timeout as u32], expected)
        }
        LOCK_PI | LOCK_PI2 => {
            // LOCK_PI's clock is the wall's in any case.
            let real_time = operation & !(PRIVATE | CLOCK_REALTIME) == LOCK_PI
                || operation & CLOCK_REALTIME != 0;
            let deadline = match timeout {
                0 => None,
                _ => Some(absolute(timeout, real_time)?),
            };
            pi_futex::lock(inherited, deadline, true)
        }
        TRYLOCK_PI => pi_futex::lock(inherited, None, false),
        UNLOCK_PI => pi_futex::unlock(inherited),
        WAIT_REQUEUE_PI => {
            let deadline = match timeout {
                0 => None,
                _ => Some(absolute(timeout, operation & CLOCK_REALTIME != 0)?),
            };
            key_of_second(second, operation)?;
            let other = pi_futex::Word {
                address: second,
                private,
            };
            pi_futex::wait_to_inherit(address, value, other, deadline)
        }
        CMP_REQUEUE_PI => {
            key_of_second(second, operation)?;
            if value != 1 {
                return Err(EINVAL);
            }
            pi_futex::requeue((address, third), second, timeout as u32)
        }
        WAKE_OP => {
            let second = (second, key_of_second(second, operation)?);
            wake_with_operation((address, key), second, [value, timeout as u32], third)
        }
        _ => Err(ENOSYS),
    }
}

/// The word's key if other processes may wait for it too.
fn shared_key(address: u64, operation: u64) -> Result<Option<u64>> {
    if operation & PRIVATE != 0 {
        return Ok(None);
    }
    match operation & !CLOCK_REALTIME {
        WAIT | WAKE | WAIT_BITSET | WAKE_BITSET | REQUEUE | CMP_REQUEUE | WAKE_OP => {
            identity(address)
        }
        _ => Ok(None),
    }
}

/// The same of the second word that an operation names.
fn key_of_second(address: u64, operation: u64) -> Result<Option<u64>> {
    if !address.is_multiple_of(4) {
        return Err(EINVAL);
    }
    user::range(address, 4)?;
    shared_key(address, operation)
}

/// Words lie on few pages: this thread's last ones are remembered for as long as nothing was mapped elsewhere or unmapped.
pub(super) fn identity(address: u64) -> Result<Option<u64>> {
    let identities = &area().identities;
    let (page, offset) = (address & !(PAGE - 1), address % PAGE);
    let generation = memory::generation();
    let place = (page / PAGE) as usize % identities.len();
    let known = identities[place].get();
    let key = if known.page == page && known.generation == generation {
        known.key
    } else {
        let words = Request::new(&[vm::IDENTITY, page]).call(linux_slot::VM)?;
        let key = (words[0] == 1).then_some(words[1]);
        identities[place].set(Identity {
            page,
            generation,
            key,
        });
        key
    };
    Ok(key.map(|key| key + offset))
}

pub(super) fn wait_shared(
    key: u64,
    address: u64,
    (expected, bits): (u32, u32),
    deadline: Option<u64>,
) -> Result<u64> {
    let waited = loop {
        // A waker changes the word first and calls then: what this thread has not seen of it, `proc` has not heard of yet.
        let wakes = published::futex_wakes();
        if user::word(address)? != expected {
            return Err(EAGAIN);
        }
        let deadline = deadline.unwrap_or(0);
        let words = [proc::FUTEX, WAIT, key, bits.into(), wakes, 1, deadline];
        match Request::new(&words).wait(linux_slot::PROC) {
            Ok(words) if words[0] == 1 => {}
            other => break other.map(|_| 0),
        }
    };
    if deadline.is_some() {
        waited.map_err(without_handler)
    } else {
        waited
    }
}

/// A word, and its key if it is shared.
type Word = (u64, Option<u64>);

pub(super) fn wake_word((address, key): Word, count: u32, bits: u32) -> Result<u64> {
    let Some(key) = key else {
        let (woken, met) = process().futexes.lock().wake(address, count, bits);
        unpark(&woken);
        // Who waits for a mutex, or to have one, is not woken so.
        return met.map(|()| woken.len() as u64).map_err(|_| EINVAL);
    };
    let (mut woken, mut from, mut last) = (0, 0, 0);
    loop {
        let left = u64::from(count) - woken;
        let words = [proc::FUTEX, WAKE, key, left, bits.into(), from, last];
        let words = Request::new(&words).call(linux_slot::PROC)?;
        woken += words[0];
        (from, last) = (words[1], words[2]);
        if from == 0 || woken >= count.into() {
            return Ok(woken);
        }
    }
}

fn absolute(address: u64, real_time: bool) -> Result<u64> {
    let at = time::read_timespec(address)?;
    Ok(if real_time {
        at.saturating_sub(time::boot_real_time()).max(1)
    } else {
        at.max(1)
    })
}

pub(super) fn own_id(area: &ThreadArea) -> u32 {
    match area.peer.nucleus.load(Ordering::Relaxed) {
        0 => {
            let id = gate::thread_id();
            area.peer.nucleus.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

/// The thread's real-time priority, 0 without one. `proc` is asked once for each change of anybody's.
pub(super) fn realtime() -> u8 {
    let changes = published::policy_changes();
    let (known, realtime) = area().realtime.get();
    if known == changes {
        return realtime;
    }
    let realtime = super::scheduling::own_realtime();
    area().realtime.set((changes, realtime));
    realtime
}

fn wait(address: u64, expected: u32, bits: u32, deadline: Option<u64>) -> Result<u64> {
    let process = process();
    let (thread, realtime) = (own_id(area()), realtime());
    let ticket = {
        // The word is looked at with the table locked: a waker changes the word first and then comes here.
        let mut futexes = process.futexes.lock();
        if user::word(address)? != expected {
            return Err(EAGAIN);
        }
        futexes.add(address, thread, bits, realtime)
    };
    loop {
        if let Some(at) = deadline {
            gate::deadline(at);
        }
        let result = gate::service_interruptible(linux_slot::CURRENT, current::PARK, &[]);
        if !process.futexes.lock().waits(ticket) {
            if result == Err(Error::Interrupted) {
                // The poke was spent on this wait, which somebody else has ended too: its signal is still to be asked for.
                area().mark_poked();
            }
            return Ok(0);
        }
        let error = match result {
            Err(Error::TimedOut) => ETIMEDOUT,
            Err(Error::Interrupted) if deliver::pending() => {
                if deadline.is_some() {
                    RESTART_NO_HANDLER
                } else {
                    RESTART
                }
            }
            _ => continue,
        };
        let gave_up = process.futexes.lock().remove(ticket);
        return if gave_up { Err(error) } else { Ok(0) };
    }
}

/// Most words of futex_waitv.
const MOST_WORDS: u64 = FUTEX_SEVERAL - 1;
/// FUTEX's fourth operation.
const WAIT_SEVERAL: u64 = 3;

/// A word of futex_waitv.
#[derive(Clone, Copy)]
struct Waited {
    address: u64,
    expected: u32,
    /// If it is other processes' too.
    key: Option<u64>,
}

impl Waited {
    /// `struct futex_waitv`: value, address, flags.
    fn read(at: u64) -> Result<Waited> {
        const SIZE_32: u32 = 2;
        let [value, address, rest] = user::read::<[u64; 3]>(at)?;
        let (flags, reserved) = (rest as u32, rest >> 32);
        if flags & !(SIZE_32 | PRIVATE as u32) != 0 || flags & SIZE_32 == 0 || reserved != 0 {
            return Err(EINVAL);
        }
        let key = if flags & PRIVATE as u32 == 0 && address.is_multiple_of(4) {
            user::range(address, 4)?;
            identity(address)?
        } else {
            None
        };
        Ok(Waited {
            address,
            expected: value as u32,
            key,
        })
    }

    fn is_as_expected(&self) -> Result<()> {
        match user::word(self.address)? == self.expected {
            true => Ok(()),
            false => Err(EAGAIN),
        }
    }
}

/// futex_waitv: wait for the first of several words; which one it was.
pub fn waitv(f: &mut Frame) -> Result<u64> {
    let (waiters, count, timeout) = (f.arg(0), f.arg(1) & 0xffff_ffff, f.arg(3));
    if f.arg(2) & 0xffff_ffff != 0 || !(1..=MOST_WORDS).contains(&count) || waiters == 0 {
        return Err(EINVAL);
    }
    let deadline = match (timeout, f.arg(4) as u32) {
        (0, _) => None,
        (_, clock @ (0 | 1)) => Some(absolute(timeout, clock == 0)?),
        _ => return Err(EINVAL),
    };
    let words: Vec<Waited> = (0..count)
        .map(|i| Waited::read(waiters.wrapping_add(i * 24)))
        .collect::<Result<_>>()?;
    for &Waited { address, .. } in &words {
        if !address.is_multiple_of(4) {
            return Err(EINVAL);
        }
        user::range(address, 4)?;
    }
    if words.iter().any(|word| word.key.is_some()) {
        return waitv_in_proc(&words, deadline);
    }
    let process = process();
    let (thread, realtime) = (own_id(area()), realtime());
    let tickets: Vec<Ticket> = {
        let mut futexes = process.futexes.lock();
        words.iter().try_for_each(Waited::is_as_expected)?;
        let words = words.iter();
        words
            .map(|word| futexes.add(word.address, thread, u32::MAX, realtime))
            .collect()
    };
    loop {
        if let Some(at) = deadline {
            gate::deadline(at);
        }
        let result = gate::service_interruptible(linux_slot::CURRENT, current::PARK, &[]);
        let mut futexes = process.futexes.lock();
        let woken = tickets.iter().position(|&ticket| !futexes.waits(ticket));
        let error = match (woken, result) {
            (Some(_), _) => None,
            (None, Err(Error::TimedOut)) => Some(ETIMEDOUT),
            // (The time is absolute: the call can be made again.)
            (None, Err(Error::Interrupted)) if deliver::pending() => Some(RESTART),
            _ => continue,
        };
        for &ticket in &tickets {
            futexes.remove(ticket);
        }
        drop(futexes);
        if woken.is_some() && result == Err(Error::Interrupted) {
            area().mark_poked();
        }
        return match (woken, error) {
            (Some(index), _) => Ok(index as u64),
            (None, error) => Err(error.unwrap_or(EAGAIN)),
        };
    }
}

/// Some of the words are other processes' too: the thread waits in `proc`. Whoever wakes it by a word of this process alone does so there, by a key that is
/// this wait's.
fn waitv_in_proc(words: &[Waited], deadline: Option<u64>) -> Result<u64> {
    let own = match words.iter().all(|word| word.key.is_some()) {
        true => 0,
        false => super::random::word()?,
    };
    let process = process();
    let realtime = realtime();
    let mut wakes = published::futex_wakes();
    // In the order of the words; none for those of others.
    let tickets: Vec<Option<Ticket>> = {
        let mut futexes = process.futexes.lock();
        words.iter().try_for_each(Waited::is_as_expected)?;
        let enter = |word: &Waited| match word.key {
            Some(_) => None,
            None => Some(futexes.add_in_proc(word.address, own, realtime)),
        };
        words.iter().map(enter).collect()
    };
    let shared = words.iter().filter_map(|word| word.key);
    let mut keys: Vec<u64> = shared.collect();
    if keys.len() != words.len() {
        keys.push(own);
    }
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let waited = loop {
        let deadline = deadline.unwrap_or(0);
        let request = [proc::FUTEX, WAIT_SEVERAL, 0, 0, wakes, 0, deadline];
        match Request::new(&request).out(&bytes).wait(linux_slot::PROC) {
            Ok(said) if said[0] == 1 => {}
            Ok(said) => break Ok(said[1] as usize),
            Err(error) => break Err(error),
        }
        // Somebody woke somebody before `proc` knew of this wait.
        wakes = published::futex_wakes();
        let mut shared = words.iter().filter(|word| word.key.is_some());
        let same = shared.try_for_each(Waited::is_as_expected);
        let woken = {
            let futexes = process.futexes.lock();
            let mut entered = tickets.iter().flatten();
            entered.any(|&ticket| !futexes.waits(ticket))
        };
        match same {
            _ if woken => break Ok(keys.len() - 1),
            Err(error) => break Err(error),
            Ok(()) => {}
        }
    };
    // Whom a word of this process woke has left the table.
    let mut futexes = process.futexes.lock();
    let mut woken = None;
    for (index, &ticket) in tickets.iter().enumerate() {
        if ticket.is_some_and(|ticket| !futexes.remove(ticket)) {
            woken.get_or_insert(index);
        }
    }
    drop(futexes);
    let of_others = |which: usize| {
        let mut shared = words.iter().enumerate().filter(|it| it.1.key.is_some());
        shared.nth(which).map(|it| it.0)
    };
    let woken = match waited {
        Ok(which) => of_others(which).or(woken),
        Err(_) => woken,
    };
    match (woken, waited) {
        (Some(index), _) => Ok(index as u64),
        (None, Err(error)) => Err(error),
        // Somebody else knows the key.
        (None, Ok(_)) => Ok(0),
    }
}

pub(super) fn unpark(threads: &[u32]) {
    let mut in_proc = false;
    for thread in threads {
        in_proc |= *thread == IN_PROC;
        let _ = gate::service(linux_slot::CURRENT, current::UNPARK, &[*thread as u64]);
    }
    if in_proc {
        let due = process().futexes.lock().take_due();
        for key in due {
            let _ = wake_word((0, Some(key)), 1, u32::MAX);
        }
    }
}

/// Wake up to `count` waiters.
pub fn wake(address: u64, count: u32, bits: u32) -> u32 {
    let (woken, _) = process().futexes.lock().wake(address, count, bits);
    unpark(&woken);
    woken.len() as u32
}

fn requeue(from: Word, to: Word, [wakes, moves]: [u32; 2], expected: Option<u32>) -> Result<u64> {
    let same = || match expected {
        Some(expected) if user::word(from.0)? != expected => Err(EAGAIN),
        _ => Ok(()),
    };
    match (from.1, to.1) {
        (None, None) => {
            let mut futexes = process().futexes.lock();
            same()?;
            let (woken, met) = futexes.wake(from.0, wakes, u32::MAX);
            let moved = met.and_then(|()| futexes.requeue(from.0, to.0, moves));
            drop(futexes);
            unpark(&woken);
            let moved = moved.map_err(|_| EINVAL)?;
            Ok(woken.len() as u64 + u64::from(moved))
        }
        (Some(key), Some(other)) => {
            same()?;
            requeue_shared(key, other, [wakes.into(), moves.into()])
        }
        // Nobody can wait for both kinds in one place: who would be moved looks at its word again.
        _ => {
            same()?;
            wake_word(from, wakes.saturating_add(moves), u32::MAX)
        }
    }
}

fn requeue_shared(key: u64, to: u64, [wakes, moves]: [u64; 2]) -> Result<u64> {
    /// FUTEX's third operation.
    const MOVE: u64 = 2;
    let (mut woken, mut moved, mut from, mut last) = (0, 0, 0, 0);
    loop {
        let left = [wakes - woken, moves - moved];
        let words = [proc::FUTEX, MOVE, key, left[0], to, left[1], from, last];
        let words = Request::new(&words).call(linux_slot::PROC)?;
        woken += words[0];
        moved += words[3];
        (from, last) = (words[1], words[2]);
        if from == 0 || woken >= wakes && moved >= moves {
            return Ok(woken + moved);
        }
    }
}

fn wake_with_operation(
    first: Word,
    second: Word,
    [count, second_count]: [u32; 2],
    encoded: u32,
) -> Result<u64> {
    let mut old: u32 = user::read(second.0)?;
    let wake_second = loop {
        let (new, wake) = wake_op(encoded, old).ok_or(ENOSYS)?;
        let found = user::compare_exchange(second.0, old, new).map_err(|_| EFAULT)?;
        if found == old {
            break wake;
        }
        old = found;
    };
    let mut woken = wake_word(first, count, u32::MAX)?;
    if wake_second {
        woken += wake_word(second, second_count, u32::MAX)?;
    }
    Ok(woken)
}

/// Bytes of `struct robust_list_head`.
const ROBUST_HEAD: u64 = 24;

pub fn set_robust_list(f: &mut Frame) -> Result<u64> {
    if f.arg(1) != ROBUST_HEAD {
        return Err(EINVAL);
    }
    area().robust_list.set(f.arg(0));
    Ok(0)
}

pub fn get_robust_list(f: &mut Frame) -> Result<u64> {
    let head = area().robust_list.get();
    if f.arg(0) != 0 && f.arg(0) as u32 != area().tid() {
        super::scheduling::exists(f.arg(0)).map_err(|_| ESRCH)?;
        return Err(crate::errno::EPERM);
    }
    user::write(f.arg(1), &head)?;
    user::write(f.arg(2), &ROBUST_HEAD)?;
    Ok(0)
}

/// The thread, its program or its process ends: the mutexes on its robust list get the mark that their owner died (Documentation/locking/robust-futex-ABI).
pub fn release_robust_list() {
    let head = area().robust_list.replace(0);
    if head == 0 {
        return;
    }
    let Ok([first, offset, pending]) = user::read::<[u64; 3]>(head) else {
        return;
    };
    let mut entry = first;
    for _ in 0..2048 {
        if entry == head {
            break;
        }
        // Before the mark: who has the mutex then puts it on a list of its own.
        let next = user::read::<u64>(entry & !1);
        owner_died(entry, offset);
        match next {
            Ok(next) => entry = next,
            Err(_) => break,
        }
    }
    if pending != 0 {
        owner_died(pending, offset);
    }
}

fn owner_died(entry: u64, offset: u64) {
    let word = (entry & !1).wrapping_add(offset);
    let Ok(mut old) = user::read::<u32>(word) else {
        return;
    };
    // Others may say just now that they wait.
    while old & LOCK_OWNER == area().tid() {
        let new = old & LOCK_WAITERS | LOCK_OWNER_DIED;
        match user::compare_exchange(word, old, new) {
            Ok(found) if found == old => break,
            Ok(found) => old = found,
            Err(_) => return,
        }
    }
    if old & LOCK_OWNER == area().tid() && old & LOCK_WAITERS != 0 {
        // Whoever waits may do so in this process or, if others have the page, in `proc`.
        wake(word, 1, u32::MAX);
        if let Ok(Some(key)) = identity(word) {
            let _ = wake_word((word, Some(key)), 1, u32::MAX);
        }
    }
}
