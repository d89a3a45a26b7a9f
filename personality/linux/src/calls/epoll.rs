//! epoll: a set is an object of the event server ([`cairn_idl::event`]), its descriptor a portal like any other. The event server is told by the files' servers what they are ready for, so a wait is one message, whatever is watched.

use super::io::usable;
use super::poll::deadline_ms;
use super::{pipes, sockets};
use crate::descriptors::{event_kind, number, OpenFile};
use crate::errno::{Errno, Result, EINVAL, ENOSYS, EPERM, ETIMEDOUT};
use crate::event;
use crate::machine::area::Frame;
use crate::machine::request::{exchange, without_handler, Request};
use crate::machine::user;
use crate::path::scheme;
use crate::signal::calls::{begin_mask, end_mask};
use crate::time;
use cairn_idl::event as idl;
use cairn_idl::fs::{self, kind, o, s};

/// `struct epoll_event` is packed: events, data.
const EVENT: u64 = 12;
/// EPOLL_CTL_.
pub const ADD: u64 = 1;
pub const DEL: u64 = 2;
pub const MOD: u64 = 3;

pub fn create(f: &mut Frame) -> Result<u64> {
    if (f.arg(0) as i32) <= 0 {
        return Err(EINVAL);
    }
    make(0)
}

pub fn create1(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(0) & 0xffff_ffff;
    if flags & !o::CLOEXEC != 0 {
        return Err(EINVAL);
    }
    make(flags)
}

fn make(flags: u64) -> Result<u64> {
    event::open(&[idl::SET], event_kind::SET, flags)
}

/// Can it be waited for?
pub fn has_readiness(file: &OpenFile) -> bool {
    let plain = matches!(file.mode & s::IFMT, s::IFREG | s::IFDIR);
    !plain && file.object.is_none() && !file.is(kind::ALWAYS_READY)
}

/// The file's server tells the event server from now on what the file is ready for.
#[inline(never)]
pub fn watch(file: &OpenFile, interest: u64, events: u64) -> Result<()> {
    if file.is(event_kind::SIGNALS) {
        event::tell_signals_from_now_on(file);
    }
    Request::new(&[fs::WATCH, interest, events])
        .call(file.slot())
        .map(|_| ())
}

/// The portal of a watched file was closed. With several cores its server may hear of that later, as of any pulse, and the set would tell of a file that is not there any more;
/// so the server is asked something, which it answers after what it heard before.
#[cold]
pub fn closed(file: &OpenFile) {
    let server = match file.mode & s::IFMT {
        _ if file.is(event_kind::SET
            | event_kind::TIMER
            | event_kind::SIGNALS
            | event_kind::NOTICES
            | event_kind::PROCESS
            | event_kind::CONTEXT) =>
        {
            scheme(event::MANAGER)
        }
        s::IFSOCK => sockets::manager(),
        s::IFIFO | 0 => scheme(pipes::MANAGER),
        _ => return,
    };
    if let Ok(server) = server {
        let _ = exchange(server, [fs::DESCRIBE, 0, 0, 0, 0, 0, 0, 0]);
    }
}

/// A server that has nothing to be waited for says so.
fn no_readiness(error: Errno) -> Errno {
    match error {
        ENOSYS => EPERM,
        error => error,
    }
}

pub fn ctl(f: &mut Frame) -> Result<u64> {
    let operation = f.arg(1) & 0xffff_ffff;
    let (events, data) = if operation == DEL {
        (0, 0)
    } else {
        let [events, low, high] = user::read::<[u32; 3]>(f.arg(3))?;
        (events as u64, low as u64 | (high as u64) << 32)
    };
    let set = usable(f.arg(0))?;
    let fd = number(f.arg(2))?;
    let target = usable(f.arg(2))?;
    if !has_readiness(&target) {
        return Err(EPERM);
    }
    if !set.is(event_kind::SET) || set.id() == target.id() {
        return Err(EINVAL);
    }
    let what = operation | (fd as u64) << 32;
    let request = Request::new(&[idl::CTL, what, target.id(), events, data]);
    let [_, interest, known, ..] = request.call(set.slot())?;
    if operation == DEL {
        // The file's server will hear that the interest is gone.
        return Ok(0);
    }
    target.is_watched_from_now_on();
    if let Err(error) = watch_unless_known(known, &target, interest, events) {
        if operation == ADD {
            remove(set.slot(), fd, &target);
        }
        return Err(no_readiness(error));
    }
    Ok(0)
}

/// The file's server is told of an interest, unless CTL says that it is known there. (What a signal descriptor is ready for, the process has to say.)
#[inline(always)]
pub fn watch_unless_known(known: u64, file: &OpenFile, interest: u64, events: u64) -> Result<()> {
    match known == 0 || file.is(event_kind::SIGNALS) {
        true => watch(file, interest, events),
        false => Ok(()),
    }
}

/// An interest is taken out of a set.
pub fn remove(set: u32, fd: u32, file: &OpenFile) {
    let words = [idl::CTL, DEL | (fd as u64) << 32, file.id()];
    let _ = Request::new(&words).call(set);
}

fn do_wait(f: &Frame, deadline: Option<u64>) -> Result<u64> {
    let (array, most) = (f.arg(1), f.arg(2) as i32);
    if most <= 0 || most as u64 > i32::MAX as u64 / EVENT {
        return Err(EINVAL);
    }
    let most = most as u64;
    let range = user::range(array, EVENT * most)?;
    let set = usable(f.arg(0))?;
    if !set.is(event_kind::SET) {
        return Err(EINVAL);
    }
    let words = match deadline {
        Some(0) => Request::new(&[idl::WAIT, most, 0]).call(set.slot()),
        deadline => Request::new(&[idl::WAIT, most, 1]).wait_until(set.slot(), deadline),
    };
    let words = match words {
        Err(ETIMEDOUT) => return Ok(0),
        words => words.map_err(without_handler)?,
    };
    if words[0] == idl::MORE {
        // More than what travels in words.
        let range = range.first(1024 * 1024);
        // What is told once must arrive: a page that is not there yet is refused to the event server.
        user::touch(range, true);
        let request = Request::new(&[idl::WAIT, most, 0]).input_user(range);
        return request.call(set.slot()).map(|words| words[0] / EVENT);
    }
    let count = words[0] / EVENT;
    let [_, bits, first, second, third_bits, third, ..] = words;
    let events = [
        (bits as u32, first),
        ((bits >> 32) as u32, second),
        (third_bits as u32, third),
    ];
    for (at, (bits, data)) in events.iter().enumerate().take(count as usize) {
        let event = [*bits, *data as u32, (*data >> 32) as u32];
        user::write(array + EVENT * at as u64, &event)?;
    }
    Ok(count)
}

pub fn epoll_wait(f: &mut Frame) -> Result<u64> {
    do_wait(f, deadline_ms(f.arg(3) as i32))
}

pub fn epoll_pwait(f: &mut Frame) -> Result<u64> {
    let begun = begin_mask(f.arg(4), f.arg(5))?;
    let result = do_wait(f, deadline_ms(f.arg(3) as i32));
    end_mask(begun, result)
}

pub fn epoll_pwait2(f: &mut Frame) -> Result<u64> {
    let deadline = match f.arg(3) {
        0 => None,
        address => match time::read_timespec(address)? {
            0 => Some(0),
            ns => Some(time::deadline_after(ns)),
        },
    };
    let begun = begin_mask(f.arg(4), f.arg(5))?;
    let result = do_wait(f, deadline);
    end_mask(begun, result)
}
