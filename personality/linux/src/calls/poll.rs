//! poll, ppoll, select, pselect6.
//!
//! One descriptor: its server itself waits (POLL with w2 = 1). Several: each server is asked what its file is ready for; if that is nothing, or the same files come again, the thread's [set](super::poll_set) watches them.

use super::poll_set::PollSet;
use crate::descriptors::event_kind;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EBADF, EINTR, EINVAL, ETIMEDOUT, RESTART, RESTART_NO_HANDLER};
use crate::event;
use crate::machine::area::{area, process, Frame};
use crate::machine::gate;
use crate::machine::request::{without_handler, Request};
use crate::machine::user;
use crate::signal::calls::{begin_mask, end_mask};
use crate::signal::deliver;
use crate::time;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_abi::service::current;
use cairn_abi::Error;
use cairn_idl::fs::{self, kind, poll};

/// Something to look at, and what was found.
pub struct Watched {
    pub file: Option<Arc<OpenFile>>,
    pub mask: u64,
    pub ready: u64,
}

pub const ALWAYS: u64 = poll::ERR | poll::HUP;
pub const READY: u64 = poll::IN | poll::OUT | poll::RDNORM | poll::WRNORM;

/// Ready bits of one file now.
pub fn look(file: &OpenFile, mask: u64) -> u64 {
    if file.path_only {
        return poll::NVAL;
    }
    if file.object.is_some() || file.is(kind::ALWAYS_READY) {
        return mask & READY;
    }
    if file.is(event_kind::SIGNALS) {
        event::tell_signals_from_now_on(file);
    }
    match Request::new(&[fs::POLL, mask, 0]).call(file.slot()) {
        Ok(words) => words[0],
        Err(EBADF) => poll::NVAL,
        Err(_) => poll::ERR,
    }
}

fn look_at_all(watched: &mut [Watched]) -> usize {
    let mut count = 0;
    for one in watched.iter_mut() {
        if let Some(file) = &one.file {
            one.ready = look(file, one.mask) & (one.mask | ALWAYS | poll::NVAL);
        }
        count += usize::from(one.ready != 0);
    }
    count
}

/// Wait until something is ready, the deadline (0 = do not wait), or a signal: how many are ready.
fn wait(watched: &mut [Watched], deadline: Option<u64>) -> Result<usize> {
    // Bad descriptors are ready, and nothing is waited for then.
    if watched.iter().any(|w| w.ready != 0) {
        return Ok(look_at_all(watched));
    }
    let mut files = watched.iter().filter(|w| w.file.is_some());
    let only = match (files.next(), files.next()) {
        (Some(one), None) => one.file.clone(),
        _ => None,
    };
    let server_waits = only.filter(|f| f.object.is_none() && !f.is(kind::ALWAYS_READY));
    if let (Some(file), true) = (server_waits, deadline != Some(0)) {
        if file.is(event_kind::SIGNALS) {
            event::tell_signals_from_now_on(&file);
        }
        return wait_for_one(watched, deadline);
    }
    let area = area();
    let mut set = area.poll_set.take();
    let result = wait_in(&mut set, watched, deadline);
    area.poll_set.set(set);
    result
}

fn wait_in(set: &mut PollSet, watched: &mut [Watched], deadline: Option<u64>) -> Result<usize> {
    let again = set.matches(watched);
    if again != Some(true) {
        let count = look_at_all(watched);
        if count != 0 || deadline == Some(0) {
            match again {
                Some(_) => set.watch(watched)?,
                None => set.remember(watched),
            }
            return Ok(count);
        }
        set.watch(watched)?;
    }
    set.ready(watched, deadline)
}

fn wait_for_one(watched: &mut [Watched], deadline: Option<u64>) -> Result<usize> {
    for one in watched.iter_mut() {
        let Some(file) = &one.file else { continue };
        let words = [fs::POLL, one.mask, 1];
        match Request::new(&words).wait_until(file.slot(), deadline) {
            Ok(words) => one.ready = words[0] & (one.mask | ALWAYS),
            // A time that was over before the server was asked: what is ready is ready all the same.
            Err(ETIMEDOUT) => break,
            Err(RESTART) => return Err(RESTART),
            Err(_) => one.ready = poll::ERR,
        }
        return Ok(usize::from(one.ready != 0));
    }
    Ok(look_at_all(watched))
}

/// Sleep without descriptors.
fn sleep(deadline: Option<u64>) -> Result<usize> {
    loop {
        if let Some(at) = deadline {
            if at == 0 || at <= time::now() {
                return Ok(0);
            }
            gate::deadline(at);
        }
        let result = gate::service_interruptible(linux_slot::CURRENT, current::PARK, &[]);
        if result == Err(Error::Interrupted) && deliver::pending() {
            return Err(RESTART);
        }
    }
}

pub fn wait_or_sleep(watched: &mut [Watched], deadline: Option<u64>) -> Result<usize> {
    if watched.iter().all(|w| w.file.is_none() && w.ready == 0) {
        sleep(deadline)
    } else {
        wait(watched, deadline)
    }
    .map_err(without_handler)
}

/// Milliseconds as poll has them: negative waits for ever, 0 not at all.
pub fn deadline_ms(timeout: i32) -> Option<u64> {
    match timeout {
        0 => Some(0),
        t if t < 0 => None,
        t => Some(time::deadline_after(t as u64 * 1_000_000)),
    }
}

fn deadline_ns(ns: u64) -> Option<u64> {
    Some(if ns == 0 { 0 } else { time::deadline_after(ns) })
}

/// Descriptors that are read, and found in the table, at a time.
const TOGETHER: usize = 32;

fn do_poll(array: u64, count: u64, deadline: Option<u64>) -> Result<u64> {
    if count > process().state().files.limit as u64 {
        return Err(EINVAL);
    }
    user::range(array, count * 8)?;
    let mut watched = Vec::with_capacity(count as usize);
    while (watched.len() as u64) < count {
        let first = watched.len() as u64;
        let mut some = [[0u32; 2]; TOGETHER];
        let some = &mut some[..(count - first).min(TOGETHER as u64) as usize];
        user::read_bytes(array + 8 * first, user::bytes_of_many_mut(some))?;
        let state = process().state();
        watched.extend(some.iter().map(|&[fd, events]| {
            let file = match fd as i32 {
                0.. => state.files.get(fd).map(Some),
                _ => Ok(None),
            };
            Watched {
                mask: if fd as i32 >= 0 {
                    events as u64 & 0xffff
                } else {
                    0
                },
                ready: if file.is_err() { poll::NVAL } else { 0 },
                file: file.unwrap_or(None),
            }
        }));
    }
    let count = wait_or_sleep(&mut watched, deadline)?;
    for (i, one) in watched.iter().enumerate() {
        let at = array + 8 * i as u64 + 6;
        match user::few(at, 2) {
            Some(place) => user::store(place, one.ready)?,
            None => user::write(at, &(one.ready as u16))?,
        }
    }
    Ok(count as u64)
}

pub fn poll(f: &mut Frame) -> Result<u64> {
    let area = area();
    let deadline = match deadline_ms(f.arg(2) as i32) {
        Some(at) if at != 0 => Some(area.deadline(f.rip, at)),
        other => other,
    };
    let result = do_poll(f.arg(0), f.arg(1) & 0xffff_ffff, deadline);
    if let (Err(RESTART_NO_HANDLER), Some(at)) = (result, deadline) {
        area.again.set((f.rip, at));
    }
    result
}

pub fn ppoll(f: &mut Frame) -> Result<u64> {
    let timeout = f.arg(2);
    let deadline = match timeout {
        0 => None,
        _ => deadline_ns(time::read_timespec(timeout)?),
    };
    let begun = begin_mask(f.arg(3), f.arg(4))?;
    let result = do_poll(f.arg(0), f.arg(1) & 0xffff_ffff, deadline);
    let result = write_left(timeout, deadline, time::write_timespec, result);
    end_mask(begun, result)
}

/// What is left of the time is written back by `write`, also when a signal comes; what was no time stays as it is. (A call that begins again takes what is
/// written.)
fn write_left(
    timeout: u64,
    deadline: Option<u64>,
    write: fn(u64, u64) -> Result<()>,
    result: Result<u64>,
) -> Result<u64> {
    let Some(at @ 1..) = deadline else {
        return result;
    };
    match (write(timeout, at.saturating_sub(time::now())), result) {
        (Err(_), Err(RESTART_NO_HANDLER)) => Err(EINTR),
        // A time that cannot be written is no error.
        (_, result) => result,
    }
}

const SETS: [(u64, u64); 3] = [
    (
        poll::IN | poll::RDNORM | poll::HUP | poll::ERR,
        poll::IN | poll::RDNORM,
    ),
    (
        poll::OUT | poll::WRNORM | poll::ERR,
        poll::OUT | poll::WRNORM,
    ),
    (poll::PRI, poll::PRI),
];

fn do_select(count: u64, sets: [u64; 3], deadline: Option<u64>) -> Result<u64> {
    let count = count as i32;
    if count < 0 {
        return Err(EINVAL);
    }
    let count = (count as u32).min(process().state().files.places());
    let words = count.div_ceil(64) as usize;
    let mut bits: [Vec<u64>; 3] = [Vec::new(), Vec::new(), Vec::new()];
    for (set, address) in bits.iter_mut().zip(sets) {
        set.resize(words, 0);
        for (i, word) in set.iter_mut().enumerate() {
            if address != 0 {
                *word = user::read(address.wrapping_add(8 * i as u64))?;
            }
        }
    }
    let mut watched = Vec::new();
    let mut numbers = Vec::new();
    for fd in 0..count {
        let wanted = |set: &Vec<u64>| set[fd as usize / 64] >> (fd % 64) & 1 != 0;
        let mask = (0..3)
            .filter(|i| wanted(&bits[*i]))
            .fold(0, |mask, i| mask | SETS[i].1);
        if mask != 0 {
            let file = process().state().files.get(fd)?;
            watched.push(Watched {
                file: Some(file),
                mask,
                ready: 0,
            });
            numbers.push(fd);
        }
    }
    wait_or_sleep(&mut watched, deadline)?;
    let mut total = 0;
    let mut results: [Vec<u64>; 3] = core::array::from_fn(|_| alloc::vec![0; words]);
    for (fd, one) in numbers.iter().zip(&watched) {
        for i in 0..3 {
            let bit = 1 << (fd % 64);
            let at = *fd as usize / 64;
            if bits[i][at] & bit != 0 && one.ready & SETS[i].0 != 0 {
                results[i][at] |= bit;
                total += 1;
            }
        }
    }
    for (set, address) in results.iter().zip(sets) {
        if address != 0 {
            for (i, word) in set.iter().enumerate() {
                user::write(address.wrapping_add(8 * i as u64), word)?;
            }
        }
    }
    Ok(total)
}

pub fn select(f: &mut Frame) -> Result<u64> {
    let timeout = f.arg(4);
    let deadline = match timeout {
        0 => None,
        _ => deadline_ns(time::read_long_timeval(timeout)?),
    };
    let result = do_select(f.arg(0), [f.arg(1), f.arg(2), f.arg(3)], deadline);
    write_left(timeout, deadline, time::write_timeval, result)
}

pub fn pselect6(f: &mut Frame) -> Result<u64> {
    let timeout = f.arg(4);
    let deadline = match timeout {
        0 => None,
        _ => deadline_ns(time::read_timespec(timeout)?),
    };
    let begun = match f.arg(5) {
        0 => false,
        pair => {
            let [mask, size] = user::read::<[u64; 2]>(pair)?;
            begin_mask(mask, size)?
        }
    };
    let result = do_select(f.arg(0), [f.arg(1), f.arg(2), f.arg(3)], deadline);
    let result = write_left(timeout, deadline, time::write_timespec, result);
    end_mask(begun, result)
}
