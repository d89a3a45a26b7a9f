//! inotify: a queue of notices is an object of the event server ([`cairn_idl::event`]), its descriptor a portal like any other. Files' servers put into it what happens to the files that they were shown.

use super::io::usable;
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{Result, EINVAL};
use crate::event;
use crate::machine::area::Frame;
use crate::machine::request::Request;
use crate::machine::user::UserString;
use crate::path::{send, walk, AT_FDCWD};
use cairn_idl::event::{self as idl, mark};
use cairn_idl::fs::{self, at, o};

/// IN_ bits that are about finding the file.
const ONLYDIR: u64 = 0x0100_0000;
const DONT_FOLLOW: u64 = 0x0200_0000;
/// Bits that may be said and mean nothing: those of events that come unasked.
const SILENT: u64 = 0x4000_e000;
const FLAGS: u64 = mark::EXCL_UNLINK | mark::CREATE | mark::ADD | mark::ONESHOT;

pub fn init(_: &mut Frame) -> Result<u64> {
    make(0)
}

pub fn init1(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(0) & 0xffff_ffff;
    if flags & !(o::CLOEXEC | o::NONBLOCK) != 0 {
        return Err(EINVAL);
    }
    make(flags)
}

fn make(flags: u64) -> Result<u64> {
    event::open(
        &[idl::QUEUE, flags & o::NONBLOCK],
        event_kind::NOTICES,
        flags,
    )
}

fn is_queue(file: &OpenFile) -> Result<()> {
    match file.is(event_kind::NOTICES) {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

pub fn add_watch(f: &mut Frame) -> Result<u64> {
    let wanted = f.arg(2) & 0xffff_ffff;
    let known = idl::ALL_EVENTS | FLAGS | ONLYDIR | DONT_FOLLOW | SILENT;
    if wanted & known == 0 || wanted & !known != 0 {
        return Err(EINVAL);
    }
    let queue = usable(f.arg(0))?;
    if wanted & mark::ADD != 0 && wanted & mark::CREATE != 0 {
        return Err(EINVAL);
    }
    is_queue(&queue)?;
    let mut name = UserString::empty();
    name.fill(f.arg(1))?;
    let new = [idl::MARK, wanted & (idl::ALL_EVENTS | FLAGS)];
    let number = Request::new(&new).call(queue.slot())?[1];
    let flags = match wanted & DONT_FOLLOW {
        0 => 0,
        _ => at::SYMLINK_NOFOLLOW,
    };
    let directory = u64::from(wanted & ONLYDIR != 0);
    let words = [fs::MARK, number, flags, directory];
    let marked = walk(AT_FDCWD, name.as_bytes(), |start, answer| {
        send(Request::new(&words).path(&start.rest), start.slot, answer)
    });
    match marked {
        Ok(words) => Ok(words[0]),
        Err(error) => {
            let _ = Request::new(&[idl::UNMARK, 0, number]).call(queue.slot());
            Err(error)
        }
    }
}

pub fn rm_watch(f: &mut Frame) -> Result<u64> {
    let queue = usable(f.arg(0))?;
    is_queue(&queue)?;
    let watch = f.arg(1) as i32;
    let watch = u64::try_from(watch).map_err(|_| EINVAL)?;
    Request::new(&[idl::UNMARK, 1, watch]).call(queue.slot())?;
    Ok(0)
}
