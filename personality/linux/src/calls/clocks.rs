//! Clocks, sleeping, timers.

use super::io::usable;
use crate::descriptors::event_kind;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EFAULT, EINVAL, EOPNOTSUPP, EPERM, RESTART_NO_HANDLER};
use crate::machine::area::{area, process, Frame};
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user;
use crate::signal::{deliver, SIGNALS};
use crate::time::{self, SECOND};
use alloc::sync::Arc;
use cairn_abi::layout::linux_slot;
use cairn_abi::service::current;
use cairn_abi::Error;
use cairn_idl::capability::WAKE_ALARM;
use cairn_idl::event;
use cairn_idl::fs::o;
use cairn_idl::proc::{self, TimerOp};

const REALTIME: u32 = 0;
const PROCESS: u32 = 2;
const THREAD: u32 = 3;

fn usage(who: i64) -> Result<[u64; 8]> {
    Request::new(&[proc::RUSAGE, who as u64]).call(linux_slot::PROC)
}

fn read_clock(clock: u32) -> Result<u64> {
    match clock {
        REALTIME | 5 | 8 | 11 => Ok(time::real_time()),
        1 | 4 | 6 | 7 | 9 => Ok(time::now()),
        PROCESS => usage(0).map(|w| w[1] + w[2]),
        THREAD => usage(1).map(|w| w[1] + w[2]),
        _ => match own_clock(clock) {
            Ok(own) => read_clock(own),
            Err(_) => others_clock(clock),
        },
    }
}

/// The processor time of another thread of the caller's process, or of another process.
#[cold]
fn others_clock(clock: u32) -> Result<u64> {
    const OF_THREAD: u64 = 2;
    let (id, of_thread) = (u64::from(!(clock as i32 >> 3) as u32), clock & 4 != 0);
    if clock as i32 >= 0 || clock & 3 == 3 {
        return Err(EINVAL);
    }
    if of_thread {
        let words = Request::new(&[proc::RUSAGE, OF_THREAD, id]).call(linux_slot::PROC);
        return words.map(|words| words[1]).map_err(|_| EINVAL);
    }
    let mut bytes = [0; proc::Status::BYTES];
    let status = Request::new(&[proc::STATUS, id]).input(&mut bytes);
    status.call(linux_slot::PROC).map_err(|_| EINVAL)?;
    Ok(proc::Status::from_bytes(&bytes).cpu)
}

/// The CPU-time clock that pthread_getcpuclockid and clock_getcpuclockid name: `!id << 3`, 4 for a thread's, and 0 to 2 for what is counted. The caller's own ones only.
pub fn own_clock(clock: u32) -> Result<u32> {
    let (id, of_thread) = (!(clock as i32 >> 3) as u32, clock & 4 != 0);
    let own = match of_thread {
        true => area().tid(),
        false => process().pid(),
    };
    match (clock as i32) < 0 && clock & 3 != 3 && (id == 0 || id == own) {
        true => Ok(if of_thread { THREAD } else { PROCESS }),
        false => Err(EINVAL),
    }
}

pub fn clock_gettime(f: &mut Frame) -> Result<u64> {
    let now = read_clock(f.arg(0) as u32)?;
    time::write_timespec(f.arg(1), now).map(|()| 0)
}

pub fn clock_getres(f: &mut Frame) -> Result<u64> {
    let clock = f.arg(0) as u32;
    if clock > 11 || clock == 10 {
        own_clock(clock).or_else(|_| others_clock(clock).map(|_| PROCESS))?;
    }
    if f.arg(1) != 0 {
        time::write_timespec(f.arg(1), 1)?;
    }
    Ok(0)
}

pub fn gettimeofday(f: &mut Frame) -> Result<u64> {
    if f.arg(0) != 0 {
        time::write_timeval(f.arg(0), time::real_time())?;
    }
    if f.arg(1) != 0 {
        user::write(f.arg(1), &0u64)?;
    }
    Ok(0)
}

pub fn time(f: &mut Frame) -> Result<u64> {
    let now = time::real_time() / SECOND;
    if f.arg(0) != 0 {
        user::write(f.arg(0), &now)?;
    }
    Ok(now)
}

pub fn times(f: &mut Frame) -> Result<u64> {
    const TICK: u64 = SECOND / 100;
    if f.arg(0) != 0 {
        let w = usage(0)?;
        let ticks = [w[1] / TICK, w[2] / TICK, w[3] / TICK, w[4] / TICK];
        user::write(f.arg(0), &ticks)?;
    }
    Ok(time::now() / TICK)
}

/// Sleep to a deadline; `left` gets the rest after a signal.
fn sleep(deadline: u64, left: u64) -> Result<u64> {
    loop {
        if time::now() >= deadline {
            return Ok(0);
        }
        let result = gate::service_interruptible(linux_slot::CURRENT, current::SLEEP, &[deadline]);
        if result == Err(Error::Interrupted) && deliver::pending() {
            if left != 0 {
                time::write_timespec(left, deadline.saturating_sub(time::now()))?;
            }
            return Err(RESTART_NO_HANDLER);
        }
    }
}

/// A sleep to a time of the wall clock, which may be set meanwhile.
fn sleep_until(wall: u64) -> Result<u64> {
    /// So long at once at most: the clock is looked at again.
    const LOOK: u64 = SECOND;
    loop {
        let deadline = wall.saturating_sub(time::boot_real_time());
        let look = time::now().saturating_add(LOOK);
        if deadline <= look {
            return sleep(deadline, 0);
        }
        sleep(look, 0)?;
    }
}

/// A relative sleep, which goes on to the same deadline after a stop.
fn sleep_for(f: &Frame, ns: u64, left: u64) -> Result<u64> {
    let area = area();
    let deadline = area.deadline(f.rip, time::deadline_after(ns));
    let result = sleep(deadline, left);
    if result == Err(RESTART_NO_HANDLER) {
        area.again.set((f.rip, deadline));
    }
    result
}

pub fn nanosleep(f: &mut Frame) -> Result<u64> {
    let ns = time::read_timespec(f.arg(0))?;
    sleep_for(f, ns, f.arg(1))
}

/// clock_nanosleep(2), timerfd_settime(2): the time is absolute.
const ABSOLUTE: u64 = 1;

/// A sleep until the process has used so much processor time. It is looked at as timers of it are.
fn sleep_processor_time(f: &Frame) -> Result<u64> {
    const LOOK: u64 = SECOND / 250;
    /// So many threads at most use it at once.
    const CORES: u64 = 8;
    let (absolute, left) = (f.arg(1) & ABSOLUTE != 0, f.arg(3));
    let given = time::read_timespec(f.arg(2))?;
    let mut used = read_clock(PROCESS)?;
    let target = match absolute {
        true => given,
        false => area().deadline(f.rip, used.saturating_add(given)),
    };
    loop {
        let rest = target.saturating_sub(used);
        if rest == 0 {
            return Ok(0);
        }
        let look = (rest / CORES).max(LOOK);
        if let Err(error) = sleep(time::now().saturating_add(look), 0) {
            if error == RESTART_NO_HANDLER && !absolute {
                area().again.set((f.rip, target));
                if left != 0 {
                    time::write_timespec(left, rest)?;
                }
            }
            return Err(error);
        }
        used = read_clock(PROCESS)?;
    }
}

pub fn clock_nanosleep(f: &mut Frame) -> Result<u64> {
    let (clock, flags, left) = (f.arg(0) as u32, f.arg(1), f.arg(3));
    match clock {
        0 | 1 | 7 | 11 => {}
        // Those that wake a sleeping machine, which this one never is.
        8 | 9 if process().is_capable(WAKE_ALARM) => {}
        8 | 9 => {
            time::read_timespec(f.arg(2))?;
            return Err(EPERM);
        }
        PROCESS => return sleep_processor_time(f),
        3..=6 => return Err(EOPNOTSUPP),
        clock if is_device(clock) => return Err(EOPNOTSUPP),
        _ => {
            if (clock as i32) >= 0 && clock >= 12 {
                return Err(EINVAL);
            }
            let [seconds, ns]: [i64; 2] = user::read(f.arg(2))?;
            let own = own_clock(clock)?;
            time::timespec(seconds, ns)?;
            return match own {
                PROCESS => sleep_processor_time(f),
                // It would never be over.
                _ => Err(EINVAL),
            };
        }
    }
    let given = time::read_timespec(f.arg(2))?;
    match (flags & ABSOLUTE != 0, clock) {
        (false, _) => sleep_for(f, given, left),
        (true, 0 | 8 | 11) => sleep_until(given),
        (true, _) => sleep(given, 0),
    }
}

/// The interval timer's old value and interval.
fn write_interval(address: u64, words: &[u64; 8]) -> Result<()> {
    if address == 0 {
        return Ok(());
    }
    time::write_timeval(address, words[2])?;
    time::write_timeval(address.wrapping_add(16), words[1])
}

pub fn setitimer(f: &mut Frame) -> Result<u64> {
    let which = f.arg(0) & 0xffff_ffff;
    let (interval, value) = match f.arg(1) {
        0 => (0, 0),
        address => (
            time::read_timeval(address)?,
            time::read_timeval(address.wrapping_add(16))?,
        ),
    };
    let words = Request::new(&[proc::SETITIMER, which, value, interval]).call(linux_slot::PROC)?;
    write_interval(f.arg(2), &words)?;
    Ok(0)
}

pub fn getitimer(f: &mut Frame) -> Result<u64> {
    let which = f.arg(0) & 0xffff_ffff;
    if which > 2 {
        return Err(EINVAL);
    }
    user::range(f.arg(1), 32)?;
    if f.arg(1) == 0 {
        return Err(EFAULT);
    }
    let words = Request::new(&[proc::GETITIMER, which]).call(linux_slot::PROC)?;
    write_interval(f.arg(1), &words)?;
    Ok(0)
}

/// alarm: whole seconds; what was left is rounded to the nearest, but not to nothing.
pub fn alarm(f: &mut Frame) -> Result<u64> {
    let value = (f.arg(0) & 0xffff_ffff) * SECOND;
    let words = Request::new(&[proc::SETITIMER, 0, value, 0]).call(linux_slot::PROC)?;
    let left = words[1];
    Ok(match (left / SECOND, left % SECOND) {
        (0, 1..) => 1,
        (seconds, part) => seconds + u64::from(part >= SECOND / 2),
    })
}

/// Absolute deadline for a timer of this clock and TIMER_ABSTIME: on the monotonic clock, or in processor time.
fn expiry(clock: u32, absolute: bool, value: u64) -> Result<u64> {
    Ok(match (value, absolute) {
        (0, _) => 0,
        (v, false) if matches!(clock, PROCESS | THREAD) => read_clock(clock)?.saturating_add(v),
        (v, false) => time::deadline_after(v),
        (v, true) => v,
    })
}

fn timer_request(words: &[u64]) -> Result<[u64; 8]> {
    Request::new(words).call(linux_slot::PROC)
}

/// Does the number stand for a clock behind a descriptor? There are none.
pub(super) fn is_device(clock: u32) -> bool {
    const DEVICE: u32 = 3;
    (clock as i32) < 0 && clock & 7 == DEVICE
}

pub fn timer_create(f: &mut Frame) -> Result<u64> {
    const SIGNAL: u32 = 0;
    const NONE: u32 = 1;
    const BY_THREAD: u32 = 2;
    const THREAD_ID: u32 = 4;
    if f.arg(1) != 0 {
        user::read::<[u64; 8]>(f.arg(1))?;
    }
    let clock = match f.arg(0) as u32 {
        REALTIME | 11 => proc::TIMER_CLOCK_REALTIME,
        1 | 7 => proc::TIMER_CLOCK_MONOTONIC,
        8 | 9 if !process().is_capable(WAKE_ALARM) => return Err(EPERM),
        8 => proc::TIMER_CLOCK_REALTIME,
        9 => proc::TIMER_CLOCK_MONOTONIC,
        PROCESS => proc::TIMER_CLOCK_PROCESS,
        THREAD => proc::TIMER_CLOCK_THREAD,
        4..=6 => return Err(EOPNOTSUPP),
        clock if is_device(clock) => return Err(EOPNOTSUPP),
        // The timer's place comes before the clock's process.
        _ if !user::touch(user::range(f.arg(2), 4)?, true) => return Err(EFAULT),
        clock => match own_clock(clock)? {
            THREAD => proc::TIMER_CLOCK_THREAD,
            _ => proc::TIMER_CLOCK_PROCESS,
        },
    };
    user::range(f.arg(2), 4)?;
    // `struct sigevent`: value, signal, how to notify, whom.
    let (signal, value, how) = match f.arg(1) {
        0 => (14, 0, proc::TIMER_OWN_ID),
        address => {
            let [value, rest, thread] = user::read::<[u64; 3]>(address)?;
            let (signal, notify) = (rest as u32, (rest >> 32) as u32);
            let is_signal = (1..=SIGNALS as u32).contains(&signal);
            match notify {
                NONE => (0, value, 0),
                SIGNAL | BY_THREAD if is_signal => (signal, value, 0),
                // (The C library's way to SIGEV_THREAD.)
                THREAD_ID if is_signal && thread as u32 != 0 => {
                    (signal, value, thread as u32 as u64)
                }
                _ => return Err(EINVAL),
            }
        }
    };
    let how = how | clock << 32;
    let words = [
        proc::TIMER,
        TimerOp::Create.word(),
        signal as u64,
        value,
        how,
        area().tid().into(),
    ];
    let id = timer_request(&words)?[0] as u32;
    user::write(f.arg(2), &id)?;
    Ok(0)
}

/// The clock of a timer is in its id.
fn clock_of(id: u64) -> (u64, u32) {
    let clock = match id % proc::TIMER_CLOCKS {
        proc::TIMER_CLOCK_REALTIME => REALTIME,
        proc::TIMER_CLOCK_PROCESS => PROCESS,
        proc::TIMER_CLOCK_THREAD => THREAD,
        _ => 1,
    };
    (id, clock)
}

fn write_timer(address: u64, words: &[u64; 8]) -> Result<u64> {
    if address != 0 {
        time::write_timespec(address, words[2])?;
        time::write_timespec(address.wrapping_add(16), words[1])?;
    }
    Ok(0)
}

pub fn timer_settime(f: &mut Frame) -> Result<u64> {
    let (id, clock) = clock_of(f.arg(0) & 0xffff_ffff);
    if f.arg(2) == 0 {
        return Err(EINVAL);
    }
    let interval = time::read_timespec(f.arg(2))?;
    let value = time::read_timespec(f.arg(2).wrapping_add(16))?;
    let absolute = f.arg(1) & 1 != 0;
    // What is a time of the wall clock `proc` reckons, which knows when that is set.
    let (at, how) = match absolute && clock == REALTIME {
        true => (value, proc::TIMER_OF_WALL),
        false => (expiry(clock, absolute, value)?, 0),
    };
    let words = timer_request(&[proc::TIMER, TimerOp::Set.word(), id, at, interval, how])?;
    write_timer(f.arg(3), &words)
}

pub fn timer_gettime(f: &mut Frame) -> Result<u64> {
    let (id, _) = clock_of(f.arg(0) & 0xffff_ffff);
    let words = timer_request(&[proc::TIMER, TimerOp::Get.word(), id])?;
    if f.arg(1) == 0 {
        return Err(EFAULT);
    }
    write_timer(f.arg(1), &words)
}

pub fn timer_delete(f: &mut Frame) -> Result<u64> {
    let (id, _) = clock_of(f.arg(0) & 0xffff_ffff);
    timer_request(&[proc::TIMER, TimerOp::Delete.word(), id]).map(|_| 0)
}

pub fn timer_getoverrun(f: &mut Frame) -> Result<u64> {
    let (id, _) = clock_of(f.arg(0) & 0xffff_ffff);
    timer_request(&[proc::TIMER, TimerOp::Overrun.word(), id]).map(|w| w[0])
}

pub fn timerfd_create(f: &mut Frame) -> Result<u64> {
    let (clock, flags) = (f.arg(0) as u32, f.arg(1));
    let flags = flags & 0xffff_ffff;
    if !matches!(clock, 0 | 1 | 7 | 8 | 9) || flags & !(o::CLOEXEC | o::NONBLOCK) != 0 {
        return Err(EINVAL);
    }
    if matches!(clock, 8 | 9) && !process().is_capable(WAKE_ALARM) {
        return Err(EPERM);
    }
    let words = [
        event::TIMER,
        flags & o::NONBLOCK,
        matches!(clock, 0 | 8) as u64,
        clock.into(),
    ];
    crate::event::open(&words, event_kind::TIMER, flags)
}

fn write_timerfd(address: u64, words: &[u64; 8]) -> Result<u64> {
    let [_, left, interval, ..] = *words;
    time::write_timespec(address, interval)?;
    time::write_timespec(address.wrapping_add(16), left)?;
    Ok(0)
}

fn timerfd(argument: u64) -> Result<Arc<OpenFile>> {
    let file = usable(argument)?;
    match file.is(event_kind::TIMER) {
        true => Ok(file),
        false => Err(EINVAL),
    }
}

pub fn timerfd_settime(f: &mut Frame) -> Result<u64> {
    const CANCEL_ON_SET: u64 = 2;
    let interval = time::read_timespec(f.arg(2))?;
    let value = time::read_timespec(f.arg(2).wrapping_add(16))?;
    let flags = f.arg(1) & 0xffff_ffff;
    if flags & !(ABSOLUTE | CANCEL_ON_SET) != 0 {
        return Err(EINVAL);
    }
    let file = timerfd(f.arg(0))?;
    let words = [event::TIMER_SET, value, interval, flags];
    let old = Request::new(&words).call(file.slot())?;
    match f.arg(3) {
        0 => Ok(0),
        address => write_timerfd(address, &old),
    }
}

pub fn timerfd_gettime(f: &mut Frame) -> Result<u64> {
    let file = timerfd(f.arg(0))?;
    let now = Request::new(&[event::TIMER_GET]).call(file.slot())?;
    write_timerfd(f.arg(1), &now)
}
