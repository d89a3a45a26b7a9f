//! Leases: F_SETLEASE and F_GETLEASE. The file's server has them (`cairn_idl::fs::LEASE`); a signaller of the event server, as O_ASYNC has one, tells of
//! a break.

use super::{epoll, owners};
use crate::descriptors::OpenFile;
use crate::errno::{Result, EINVAL, ESTALE};
use crate::event::MANAGER;
use crate::machine::area::process;
use crate::machine::gate;
use crate::machine::request::Request;
use crate::path::{make_room, scheme};
use cairn_idl::event::{self, flags};
use cairn_idl::fs::{self, poll};
use cairn_idl::proc::{Owner, OWNER_SHIFT};
use core::sync::atomic::Ordering;

const UNLOCK: u64 = 2;
/// What LEASE is asked for.
const GET: u64 = 0;
const SET: u64 = 1;
const RENAME: u64 = 2;
/// The interest that the lease has.
const SAME: u64 = 0;

pub fn get(file: &OpenFile) -> Result<u64> {
    match file.object {
        Some(_) => Ok(UNLOCK),
        None => Ok(Request::new(&[fs::LEASE, GET]).call(file.slot())?[0]),
    }
}

pub fn set(fd: u64, file: &OpenFile, kind: u64) -> Result<u64> {
    if kind > UNLOCK || file.object.is_some() {
        return Err(EINVAL);
    }
    let signals = &file.signals;
    if kind == UNLOCK {
        Request::new(&[fs::LEASE, SET, UNLOCK]).call(file.slot())?;
        signals.set_lease(0);
        // The owner and the signal go with it.
        signals.owner.store(0, Ordering::Relaxed);
        signals.signal.store(0, Ordering::Relaxed);
        return owners::begin(fd, file);
    }
    let owner = match signals.owner.load(Ordering::Relaxed) {
        0 => Owner::Process.word() << OWNER_SHIFT | process().pid() as u64,
        owner => owner,
    };
    if signals.lease() != 0 {
        // A lease that becomes another one tells as before: perhaps for another process, which set it.
        let changed = Request::new(&[fs::LEASE, SET, kind, SAME]).call(file.slot());
        if changed != Err(ESTALE) {
            return changed.map(|_| 0);
        }
    }
    ask(fd, file, owner, [SET, kind])?;
    signals.owner.store(owner, Ordering::Relaxed);
    Ok(0)
}

/// F_SETOWN or F_SETSIG: a lease that there is has it signal so from now on.
pub fn owner_changed(fd: u64, file: &OpenFile) -> Result<()> {
    let signals = &file.signals;
    let owner = signals.owner.load(Ordering::Relaxed);
    match signals.lease() != 0 && get(file)? != UNLOCK {
        true => ask(fd, file, owner, [RENAME, 0]),
        false => Ok(()),
    }
}

/// With an interest of a new signaller, which is the lease's if it is given.
fn ask(fd: u64, file: &OpenFile, owner: u64, [what, kind]: [u64; 2]) -> Result<()> {
    make_room()?;
    let signal = file.signals.signal.load(Ordering::Relaxed);
    let request = Request::new(&[event::SIGNALLER, signal.into(), owner, fd, 0]);
    let slot = request.brings(1).call(scheme(MANAGER)?)?[7] as u32;
    let events = poll::MSG | flags::EDGE;
    let words = [event::CTL, epoll::ADD | fd << 32, file.id(), events, 0];
    let asked = Request::new(&words).call(slot).and_then(|answer| {
        let words = [fs::LEASE, what, kind, answer[1]];
        Request::new(&words).call(file.slot())
    });
    match asked {
        Ok(_) => {
            file.signals.set_lease(slot);
            file.frames.grow_old();
        }
        Err(error) => {
            gate::close(slot);
            return Err(error);
        }
    }
    Ok(())
}
