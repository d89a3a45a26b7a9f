//! F_NOTIFY: signals of what changes in a directory. A notifier of the event server ([`cairn_idl::event::NOTIFIER`]) has a mark at the directory's file server,
//! as a queue of inotify has, and has `proc` send the signals.
//!
//! It is this process's alone: a child that has the file does not have the notifier, and its marks end when this process closes the file.

use super::owners;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EINVAL, ENOSYS, ENOTDIR};
use crate::event::MANAGER;
use crate::machine::area::process;
use crate::machine::request::Request;
use crate::path::{make_room, scheme};
use cairn_idl::event::{self, changes, mark};
use cairn_idl::fs::{self, s};
use cairn_idl::proc::{Owner, OWNER_SHIFT};
use core::sync::atomic::Ordering;

/// DN_MULTISHOT; the other bits are [`changes`].
const MULTISHOT: u64 = 0x8000_0000;
const CHANGES: u64 = changes::ACCESS
    | changes::MODIFY
    | changes::CREATE
    | changes::DELETE
    | changes::RENAME
    | changes::ATTRIB;

pub fn notify(fd: u64, file: &OpenFile, argument: u64) -> Result<u64> {
    let wanted = argument & 0xffff_ffff;
    let signals = &file.signals;
    if wanted & !MULTISHOT == 0 {
        signals.empty_notifier();
        return Ok(0);
    }
    if file.object.is_some() || file.mode & s::IFMT != s::IFDIR {
        return Err(ENOTDIR);
    }
    if signals.owner.load(Ordering::Relaxed) == 0 {
        let own = Owner::Process.word() << OWNER_SHIFT | process().pid() as u64;
        signals.owner.store(own, Ordering::Relaxed);
        file.frames.grow_old();
        owners::begin(fd, file)?;
    }
    let slot = match signals.notifier() {
        0 => {
            make_room()?;
            let (signal, owner) = how(file);
            let request = Request::new(&[event::NOTIFIER, signal, owner, fd]);
            let slot = request.brings(1).call(scheme(MANAGER)?)?[7] as u32;
            signals.first_notifier(slot)
        }
        slot => slot,
    };
    let once = if wanted & MULTISHOT == 0 {
        mark::ONESHOT
    } else {
        0
    };
    let words = [event::MARK, mark::ADD | once, wanted & CHANGES];
    let marked = Request::new(&words).call(slot).and_then(|answer| {
        let marked = Request::new(&[fs::MARK, answer[1], 0, 1]).call(file.slot());
        marked.inspect_err(|_| {
            let _ = Request::new(&[event::UNMARK, 0, answer[1]]).call(slot);
        })
    });
    match marked {
        Ok(_) => Ok(0),
        // Its server tells nobody of anything.
        Err(ENOSYS) => Err(EINVAL),
        Err(errno) => Err(errno),
    }
}

/// Signal and owner of the file.
fn how(file: &OpenFile) -> (u64, u64) {
    let signals = &file.signals;
    let signal = signals.signal.load(Ordering::Relaxed);
    (signal.into(), signals.owner.load(Ordering::Relaxed))
}

/// F_SETOWN or F_SETSIG.
pub fn owner_changed(file: &OpenFile) -> Result<()> {
    let slot = file.signals.notifier();
    if slot == 0 {
        return Ok(());
    }
    let (signal, owner) = how(file);
    let words = [event::NOTIFIER_OWNER, signal, owner];
    Request::new(&words).call(slot).map(|_| ())
}
