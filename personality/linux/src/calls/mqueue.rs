//! POSIX message queues: opened by name at their server ([`cairn_idl::ipc`]); a queue's descriptor is a portal like any other.

use super::io::usable;
use super::sockets::Passing;
use super::sysv::{manager, room, take_message, with_message};
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{Result, EBADF, EFBIG, EINVAL, ENOTSOCK};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user::{self, UserString};
use crate::path::make_room;
use crate::time;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_idl::fs::{kind, o, s};
use cairn_idl::ipc::{self, Notify};
use cairn_idl::net::{self, COOKIE_BYTES};
use core::sync::atomic::{AtomicBool, Ordering};

/// `struct mq_attr`: flags, most messages, bytes of one, messages there.
type Attributes = [i64; 8];

fn name(address: u64) -> Result<UserString> {
    let mut name = UserString::empty();
    name.fill(address)?;
    Ok(name)
}

pub fn mq_open(f: &mut Frame) -> Result<u64> {
    let (flags, mode) = (f.arg(1) as u32 as u64, f.arg(2));
    let attributes = match f.arg(3) {
        0 => None,
        address => Some(user::read::<Attributes>(address)?),
    };
    let (most, size) = match attributes.filter(|_| flags & o::CREAT != 0) {
        None => (u64::MAX, 0),
        // What is negative is too much, or too little.
        Some([_, most, size, ..]) => (most.max(0) as u64, size.max(0) as u64),
    };
    let name = name(f.arg(0))?;
    process().state().files.check_room()?;
    make_room()?;
    let mode = mode & !u64::from(process().state().files.umask());
    let wished = flags & (o::ACCMODE | o::CREAT | o::EXCL | o::NONBLOCK);
    let words = [ipc::MQ_OPEN, wished, mode, most, size];
    let request = Request::new(&words).out(name.as_bytes()).brings(1);
    let words = request.call(manager()?)?;
    let kind = kind::SEEKABLE | event_kind::QUEUE;
    let file = Arc::new(OpenFile::portal(words[7] as u32, kind, 0o600));
    let cloexec = flags & o::CLOEXEC != 0;
    let fd = process().state().files.insert(file, cloexec, 0)?;
    Ok(fd.into())
}

pub fn mq_unlink(f: &mut Frame) -> Result<u64> {
    let name = name(f.arg(0))?;
    let request = Request::new(&[ipc::MQ_UNLINK]).out(name.as_bytes());
    request.call(manager()?).map(|_| 0)
}

fn queue(argument: u64) -> Result<Arc<OpenFile>> {
    let file = usable(argument)?;
    match file.is(event_kind::QUEUE) {
        true => Ok(file),
        false => Err(EBADF),
    }
}

/// Until when, of the real-time clock; 0: for ever.
fn deadline(address: u64) -> Result<u64> {
    match address {
        0 => Ok(0),
        address => {
            let until = time::read_timespec(address)?;
            Ok(until.saturating_sub(time::boot_real_time()).max(1))
        }
    }
}

pub fn mq_timedsend(f: &mut Frame) -> Result<u64> {
    let (text, length, priority) = (f.arg(1), f.arg(2), f.arg(3) as u32 as u64);
    let deadline = deadline(f.arg(4))?;
    if priority >= 32768 {
        return Err(EINVAL);
    }
    let file = queue(f.arg(0))?;
    let request = with_message([ipc::MQ_SEND, priority, deadline, length], text, length)?;
    request.wait_here(file.slot()).map(|_| 0)
}

pub fn mq_timedreceive(f: &mut Frame) -> Result<u64> {
    let (text, most, priority) = (f.arg(1), f.arg(2), f.arg(3));
    let deadline = deadline(f.arg(4))?;
    let file = queue(f.arg(0))?;
    let words = [ipc::MQ_RECEIVE, most, deadline];
    // Short ones come in words; a long one says so first, and stays.
    let answer = Request::new(&words).wait_here(file.slot());
    let words = match answer {
        Err(EFBIG) => Request::new(&words)
            .input_user(room(text, most))
            .wait_here(file.slot())?,
        answer => {
            let words = answer?;
            take_message(&words, text)?;
            words
        }
    };
    if priority != 0 {
        user::write(priority, &(words[1] as u32))?;
    }
    Ok(words[0])
}

pub fn mq_getsetattr(f: &mut Frame) -> Result<u64> {
    let (new, old) = (f.arg(1), f.arg(2));
    let wished = match new {
        0 => None,
        address => Some(user::read::<Attributes>(address)?[0] as u64),
    };
    if wished.is_some_and(|flags| flags & !o::NONBLOCK != 0) {
        return Err(EINVAL);
    }
    let file = queue(f.arg(0))?;
    let words = [ipc::MQ_ATTR, wished.is_some() as u64, wished.unwrap_or(0)];
    let words = Request::new(&words).call(file.slot())?;
    if old != 0 {
        let [_, flags, most, size, count, ..] = words.map(|word| word as i64);
        user::write::<Attributes>(old, &[flags, most, size, count, 0, 0, 0, 0])?;
    }
    Ok(0)
}

/// Has this process, or one that it was forked from, asked to be told of messages?
static NOTIFIED: AtomicBool = AtomicBool::new(false);

/// A portal by which a queue's server has the text at this address, which is the C library's, come to its socket of AF_NETLINK.
fn told_by_socket(descriptor: u64, text: u64) -> Result<Passing> {
    let cookie = user::read::<[u8; COOKIE_BYTES]>(text)?;
    let file = usable(descriptor)?;
    match file.mode & s::IFMT == s::IFSOCK {
        true if file.is(kind::INTERNET) => {}
        true => return Err(EINVAL),
        false => return Err(ENOTSOCK),
    }
    make_room()?;
    let request = Request::new(&[net::COOKIE]).out(&cookie).brings(1);
    Ok(Passing(request.call(file.slot())?[7] as u32))
}

/// mq_notify(3). SIGEV_THREAD is the C library's: it has a thread and a socket of AF_NETLINK for it, by which the thread hears.
pub fn mq_notify(f: &mut Frame) -> Result<u64> {
    const SIGNAL: i32 = 0;
    const NONE: i32 = 1;
    const THREAD: i32 = 2;
    let mut told = None;
    let wished = match f.arg(1) {
        0 => [Notify::Off.word(), 0, 0],
        address => {
            let [value, what] = user::read::<[u64; 2]>(address)?;
            let (signal, how) = (what as i32, (what >> 32) as i32);
            match how {
                NONE => [Notify::Nothing.word(), 0, 0],
                SIGNAL if (0..=64).contains(&signal) => {
                    [Notify::Signal.word(), signal as u64, value]
                }
                THREAD => {
                    told = Some(told_by_socket(u64::from(signal as u32), value)?);
                    [Notify::Portal.word(), 0, 0]
                }
                _ => return Err(EINVAL),
            }
        }
    };
    let file = queue(f.arg(0))?;
    let [how, signal, value] = wished;
    let words = [ipc::MQ_NOTIFY, how, signal, value];
    let request = Request::new(&words);
    match &told {
        Some(portal) => request.pass(portal.0),
        None => request,
    }
    .call(file.slot())?;
    NOTIFIED.store(true, Ordering::Relaxed);
    Ok(0)
}

/// A queue's descriptor is closed: the process is not told of its messages any more.
#[cold]
pub fn closing(file: &OpenFile) {
    if NOTIFIED.load(Ordering::Relaxed) {
        let _ = Request::new(&[ipc::MQ_NOTIFY, Notify::Off.word()]).call(file.slot());
    }
}

/// Before another program begins: its descriptors of queues are closed.
pub fn leaving() {
    if !NOTIFIED.load(Ordering::Relaxed) {
        return;
    }
    let queues: Vec<_> = {
        let state = process().state();
        let all = state.files.files().map(|(_, entry)| entry);
        let all = all.filter(|entry| entry.file.is(event_kind::QUEUE));
        all.map(|entry| entry.file.clone()).collect()
    };
    for file in &queues {
        let _ = Request::new(&[ipc::MQ_NOTIFY, Notify::Off.word()]).call(file.slot());
    }
}
