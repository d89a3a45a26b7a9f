//! Signals of files: F_SETOWN, F_SETSIG and O_ASYNC. An object of the event server ([`cairn_idl::event::SIGNALLER`]) watches the file, as a set would, and has
//! `proc` send the signals. Owner and signal are kept with the open file, of which a child gets a copy.

use super::epoll::{self, has_readiness};
use super::sockets::is_stream;
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{Result, EINVAL, EPERM, ESRCH};
use crate::event::MANAGER;
use crate::machine::area::process;
use crate::machine::request::Request;
use crate::machine::user;
use crate::path::{make_room, scheme};
use cairn_abi::layout::linux_slot;
use cairn_idl::event::{self, flags};
use cairn_idl::fs::{poll, s};
use cairn_idl::proc::{self, Owner, OWNER_SHIFT};
use core::sync::atomic::Ordering;

const SIGNALS: u64 = 64;
const SIGURG: u64 = 23;

/// F_SETOWN: a process or (negative) a group.
pub fn set_owner(fd: u64, file: &OpenFile, who: i32) -> Result<u64> {
    let kind = match who {
        i32::MIN => return Err(EINVAL),
        0.. => Owner::Process,
        _ => Owner::Group,
    };
    set(fd, file, kind, who.unsigned_abs())
}

/// F_GETOWN
pub fn owner(file: &OpenFile) -> u64 {
    let owner = file.signals.owner.load(Ordering::Relaxed);
    let id = i64::from(owner as u32);
    match Owner::from_word(owner >> OWNER_SHIFT) {
        Some(Owner::Group) => -id as u64,
        _ => id as u64,
    }
}

/// F_SETOWN_EX, with a `struct f_owner_ex`: kind and number.
pub fn set_owner_of_kind(fd: u64, file: &OpenFile, address: u64) -> Result<u64> {
    let [kind, id] = user::read::<[u32; 2]>(address)?;
    let kind = Owner::from_word(kind.into()).ok_or(EINVAL)?;
    set(fd, file, kind, id)
}

/// F_GETOWN_EX
pub fn owner_of_kind(file: &OpenFile, address: u64) -> Result<u64> {
    let owner = file.signals.owner.load(Ordering::Relaxed);
    user::write(address, &[(owner >> OWNER_SHIFT) as u32, owner as u32])?;
    Ok(0)
}

fn set(fd: u64, file: &OpenFile, kind: Owner, id: u32) -> Result<u64> {
    if id != 0 {
        // It must be somebody's number.
        let named = match kind {
            Owner::Group => (id as i32).wrapping_neg(),
            _ => id as i32,
        };
        let asked = Request::new(&[proc::KILL, u64::from(named as u32), 0, 0, 0]);
        match asked.call(linux_slot::PROC) {
            Ok(_) | Err(EPERM) => {}
            Err(_) => return Err(ESRCH),
        }
    }
    let owner = match id {
        0 => 0,
        id => kind.word() << OWNER_SHIFT | u64::from(id),
    };
    file.signals.owner.store(owner, Ordering::Relaxed);
    let [real, effective] = [&process().uid, &process().euid].map(|id| id.load(Ordering::Relaxed));
    let uids = u64::from(real) | u64::from(effective) << 32;
    file.signals.uids.store(uids, Ordering::Relaxed);
    file.frames.grow_old();
    begin(fd, file)
}

/// F_GETOWNER_UIDS
pub fn uids(file: &OpenFile, address: u64) -> Result<u64> {
    let uids = file.signals.uids.load(Ordering::Relaxed);
    user::write(address, &uids).map(|()| 0)
}

/// F_SETSIG
pub fn set_signal(fd: u64, file: &OpenFile, signal: u64) -> Result<u64> {
    if signal > SIGNALS {
        return Err(EINVAL);
    }
    file.signals.signal.store(signal as u32, Ordering::Relaxed);
    file.frames.grow_old();
    begin(fd, file)
}

/// O_ASYNC. What is always ready passes it over.
/// Does the file tell when it is ready, so that a signal can be sent?
pub fn can_signal(file: &OpenFile) -> bool {
    has_readiness(file) && !file.is(event_kind::SET)
}

pub fn set_async(fd: u64, file: &OpenFile, on: bool) -> Result<u64> {
    let on_before = file.signals.on.load(Ordering::Relaxed);
    if on == on_before || !has_readiness(file) || file.path_only {
        return Ok(0);
    }
    file.signals.on.store(on, Ordering::Relaxed);
    begin(fd, file).inspect_err(|_| file.signals.on.store(on_before, Ordering::Relaxed))
}

/// From now on the signals are as the file says.
pub fn begin(fd: u64, file: &OpenFile) -> Result<u64> {
    super::leases::owner_changed(fd, file)?;
    super::notifiers::owner_changed(file)?;
    let signals = &file.signals;
    let owner = signals.owner.load(Ordering::Relaxed);
    urgent_begins(fd, file, owner)?;
    if !signals.on.load(Ordering::Relaxed) || owner == 0 {
        signals.set_slot(0);
        return Ok(0);
    }
    make_room()?;
    let signal = signals.signal.load(Ordering::Relaxed);
    let pipe = matches!(file.mode & s::IFMT, s::IFIFO | 0).into();
    let request = Request::new(&[event::SIGNALLER, signal.into(), owner, fd, pipe]);
    let slot = request.brings(1).call(scheme(MANAGER)?)?[7] as u32;
    signals.set_slot(slot);
    watch(slot, fd, file, EVENTS).inspect_err(|_| signals.set_slot(0))?;
    Ok(0)
}

/// Who owns a stream gets SIGURG with each urgent byte, of which its server tells by [`poll::MSG`].
fn urgent_begins(fd: u64, file: &OpenFile, owner: u64) -> Result<()> {
    let signals = &file.signals;
    if file.mode & s::IFMT != s::IFSOCK || owner == 0 && signals.urgent() == 0 {
        return Ok(());
    }
    if owner == 0 || !is_stream(file) {
        signals.set_urgent(0);
        return Ok(());
    }
    make_room()?;
    let request = Request::new(&[event::SIGNALLER, SIGURG, owner, fd, 0]);
    let slot = request.brings(1).call(scheme(MANAGER)?)?[7] as u32;
    signals.set_urgent(slot);
    watch(slot, fd, file, poll::MSG).inspect_err(|_| signals.set_urgent(0))
}

const EVENTS: u64 = poll::IN | poll::OUT | poll::PRI | poll::RDHUP;

fn watch(slot: u32, fd: u64, file: &OpenFile, events: u64) -> Result<()> {
    let events = events | flags::EDGE;
    let words = [event::CTL, epoll::ADD | fd << 32, file.id(), events, 0];
    let interest = Request::new(&words).call(slot)?[1];
    file.is_watched_from_now_on();
    epoll::watch(file, interest, events)
}
