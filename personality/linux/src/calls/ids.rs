//! Process and user identities.

use crate::errno::{Result, EINVAL, EPERM, ESRCH};
use crate::machine::area::{area, process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use crate::path;
use crate::user_space::{self, OVERFLOW};
use cairn_abi::layout::linux_slot;
use cairn_idl::capability::{SETGID, SETUID};
use cairn_idl::proc::{self, Credentials};
use core::sync::atomic::{AtomicU32, Ordering};

/// "Leave it".
const SAME: u32 = u32::MAX;
/// An id that has no name in the user name space.
const NO_NAME: u32 = u32::MAX;

fn ids(pid: u64) -> Result<[u64; 8]> {
    Request::new(&[proc::IDS, pid & 0xffff_ffff]).call(linux_slot::PROC)
}

pub fn own_group() -> Result<u64> {
    ids(0).map(|w| w[2])
}

/// The device of the session's terminal, 0 if it has none.
pub fn own_terminal() -> Result<u64> {
    ids(0).map(|w| w[4])
}

pub fn getpid(_: &mut Frame) -> Result<u64> {
    Ok(process().pid() as u64)
}

pub fn gettid(_: &mut Frame) -> Result<u64> {
    Ok(area().tid() as u64)
}

pub fn getppid(_: &mut Frame) -> Result<u64> {
    let parent = ids(0)?[1];
    // Known until the next poke, which `proc` sends when the parent ends.
    process().ppid.store(parent as u32, Ordering::Relaxed);
    Ok(parent)
}

/// One of the process's ids. What has no name yet may have got one.
fn own(id: &AtomicU32) -> Result<u64> {
    if id.load(Ordering::Relaxed) == NO_NAME {
        remember(&outside_credentials()?);
    }
    Ok(match id.load(Ordering::Relaxed) {
        NO_NAME => OVERFLOW.into(),
        id => id.into(),
    })
}

/// The effective user and group.
pub fn effective() -> [u32; 2] {
    let process = process();
    [&process.euid, &process.egid].map(|id| own(id).unwrap_or(OVERFLOW.into()) as u32)
}

pub fn getuid(_: &mut Frame) -> Result<u64> {
    own(&process().uid)
}

pub fn geteuid(_: &mut Frame) -> Result<u64> {
    own(&process().euid)
}

pub fn getgid(_: &mut Frame) -> Result<u64> {
    own(&process().gid)
}

pub fn getegid(_: &mut Frame) -> Result<u64> {
    own(&process().egid)
}

pub fn getpgid(f: &mut Frame) -> Result<u64> {
    if (f.arg(0) as i32) < 0 {
        return Err(ESRCH);
    }
    ids(f.arg(0)).map(|w| w[2])
}

pub fn getpgrp(_: &mut Frame) -> Result<u64> {
    own_group()
}

pub fn getsid(f: &mut Frame) -> Result<u64> {
    if (f.arg(0) as i32) < 0 {
        return Err(ESRCH);
    }
    ids(f.arg(0)).map(|w| w[3])
}

pub fn setpgid(f: &mut Frame) -> Result<u64> {
    let (pid, group) = (f.arg(0) as i32, f.arg(1) as i32);
    // No group is the process's own.
    if group < 0 || group == 0 && pid < 0 {
        return Err(EINVAL);
    }
    if pid < 0 {
        return Err(ESRCH);
    }
    Request::new(&[proc::SETPGID, pid as u64, group as u64])
        .call(linux_slot::PROC)
        .map(|_| 0)
}

pub fn setsid(_: &mut Frame) -> Result<u64> {
    Request::new(&[proc::SETSID])
        .call(linux_slot::PROC)
        .map(|w| w[0])
}

/// As the program knows them.
pub fn credentials() -> Result<Credentials> {
    let mut creds = outside_credentials()?;
    user_space::follow(&creds);
    if user_space::is_inside() {
        for user in [&mut creds.ruid, &mut creds.euid, &mut creds.suid] {
            *user = user_space::user(*user);
        }
        for group in [&mut creds.rgid, &mut creds.egid, &mut creds.sgid] {
            *group = user_space::group(*group);
        }
        for group in &mut creds.groups {
            *group = user_space::group(*group);
        }
    }
    Ok(creds)
}

/// As `proc` has them.
pub fn outside_credentials() -> Result<Credentials> {
    let mut creds = Credentials::default();
    Request::new(&[proc::GETCREDS])
        .input_value(&mut creds)
        .call(linux_slot::PROC)?;
    Ok(creds)
}

/// Keep what the quick calls answer, of what `proc` says.
pub fn remember(creds: &Credentials) {
    user_space::follow(creds);
    let process = process();
    let user = |id| user_space::known_user(id).unwrap_or(NO_NAME);
    let group = |id| user_space::known_group(id).unwrap_or(NO_NAME);
    process.uid.store(user(creds.ruid), Ordering::Relaxed);
    process.euid.store(user(creds.euid), Ordering::Relaxed);
    process.gid.store(group(creds.rgid), Ordering::Relaxed);
    process.egid.store(group(creds.egid), Ordering::Relaxed);
    process.set_capabilities(creds.effective, creds.permitted);
}

/// Credentials of the program's as servers know them. What did not change stays, though it may have no name; EINVAL: something new has none.
fn outside_of(creds: &Credentials) -> Result<Credentials> {
    if !user_space::is_inside() {
        return Ok(*creds);
    }
    let now = outside_credentials()?;
    let user = |new: u32, now: u32| match new == user_space::user(now) {
        true => Ok(now),
        false => user_space::outside_user(new).ok_or(EINVAL),
    };
    let group = |new: u32, now: u32| match new == user_space::group(now) {
        true => Ok(now),
        false => user_space::outside_group(new).ok_or(EINVAL),
    };
    let mut all = *creds;
    all.ruid = user(creds.ruid, now.ruid)?;
    all.euid = user(creds.euid, now.euid)?;
    all.suid = user(creds.suid, now.suid)?;
    all.rgid = group(creds.rgid, now.rgid)?;
    all.egid = group(creds.egid, now.egid)?;
    all.sgid = group(creds.sgid, now.sgid)?;
    let count = (creds.group_count as usize).min(creds.groups.len());
    let both = all.groups[..count].iter_mut().zip(now.groups);
    for (new, now) in both {
        *new = group(*new, now)?;
    }
    Ok(all)
}

fn set_credentials(creds: &Credentials) -> Result<u64> {
    let creds = outside_of(creds)?;
    let request = Request::new(&[proc::SETCREDS]).out(user::bytes_of(&creds));
    // Capabilities follow from the ids.
    let [_, effective, permitted, ..] = request.call(linux_slot::PROC)?;
    remember(&Credentials {
        effective,
        permitted,
        ..creds
    });
    path::look_at_mounts();
    Ok(0)
}

pub fn getresuid(f: &mut Frame) -> Result<u64> {
    let c = credentials()?;
    user::write(f.arg(0), &c.ruid)?;
    user::write(f.arg(1), &c.euid)?;
    user::write(f.arg(2), &c.suid)?;
    Ok(0)
}

pub fn getresgid(f: &mut Frame) -> Result<u64> {
    let c = credentials()?;
    user::write(f.arg(0), &c.rgid)?;
    user::write(f.arg(1), &c.egid)?;
    user::write(f.arg(2), &c.sgid)?;
    Ok(0)
}

/// An id among three may be set to any of them; who has the capability may set any.
fn allowed(new: u32, now: [u32; 3], privileged: bool) -> bool {
    new == SAME || privileged || now.contains(&new)
}

fn pick(new: u32, old: u32) -> u32 {
    if new == SAME {
        old
    } else {
        new
    }
}

pub fn setresuid(f: &mut Frame) -> Result<u64> {
    let (r, e, s) = (f.arg(0) as u32, f.arg(1) as u32, f.arg(2) as u32);
    let mut c = credentials()?;
    let now = [c.ruid, c.euid, c.suid];
    if ![r, e, s]
        .iter()
        .all(|id| allowed(*id, now, c.has_inside(SETUID)))
    {
        return Err(EPERM);
    }
    (c.ruid, c.euid, c.suid) = (pick(r, c.ruid), pick(e, c.euid), pick(s, c.suid));
    set_credentials(&c)
}

pub fn setresgid(f: &mut Frame) -> Result<u64> {
    let (r, e, s) = (f.arg(0) as u32, f.arg(1) as u32, f.arg(2) as u32);
    let mut c = credentials()?;
    let now = [c.rgid, c.egid, c.sgid];
    if ![r, e, s]
        .iter()
        .all(|id| allowed(*id, now, c.has_inside(SETGID)))
    {
        return Err(EPERM);
    }
    (c.rgid, c.egid, c.sgid) = (pick(r, c.rgid), pick(e, c.egid), pick(s, c.sgid));
    set_credentials(&c)
}

pub fn setreuid(f: &mut Frame) -> Result<u64> {
    let (r, e) = (f.arg(0) as u32, f.arg(1) as u32);
    let mut c = credentials()?;
    let root = c.has_inside(SETUID);
    let real = allowed(r, [c.ruid, c.euid, c.euid], root);
    if !real || !allowed(e, [c.ruid, c.euid, c.suid], root) {
        return Err(EPERM);
    }
    let old_real = c.ruid;
    (c.ruid, c.euid) = (pick(r, c.ruid), pick(e, c.euid));
    if r != SAME || (e != SAME && c.euid != old_real) {
        c.suid = c.euid;
    }
    set_credentials(&c)
}

pub fn setregid(f: &mut Frame) -> Result<u64> {
    let (r, e) = (f.arg(0) as u32, f.arg(1) as u32);
    let mut c = credentials()?;
    let root = c.has_inside(SETGID);
    let real = allowed(r, [c.rgid, c.egid, c.egid], root);
    if !real || !allowed(e, [c.rgid, c.egid, c.sgid], root) {
        return Err(EPERM);
    }
    let old_real = c.rgid;
    (c.rgid, c.egid) = (pick(r, c.rgid), pick(e, c.egid));
    if r != SAME || (e != SAME && c.egid != old_real) {
        c.sgid = c.egid;
    }
    set_credentials(&c)
}

pub fn setuid(f: &mut Frame) -> Result<u64> {
    let id = f.arg(0) as u32;
    let mut c = credentials()?;
    if id == SAME {
        return Err(EINVAL);
    }
    if c.has_inside(SETUID) {
        (c.ruid, c.euid, c.suid) = (id, id, id);
    } else if id == c.ruid || id == c.suid {
        c.euid = id;
    } else {
        return Err(EPERM);
    }
    set_credentials(&c)
}

pub fn setgid(f: &mut Frame) -> Result<u64> {
    let id = f.arg(0) as u32;
    let mut c = credentials()?;
    if id == SAME {
        return Err(EINVAL);
    }
    if c.has_inside(SETGID) {
        (c.rgid, c.egid, c.sgid) = (id, id, id);
    } else if id == c.rgid || id == c.sgid {
        c.egid = id;
    } else {
        return Err(EPERM);
    }
    set_credentials(&c)
}

/// The file-system ids follow the effective ones; the answer is the old value, whatever was asked for.
pub fn setfsuid(f: &mut Frame) -> Result<u64> {
    geteuid(f)
}

pub fn setfsgid(f: &mut Frame) -> Result<u64> {
    getegid(f)
}

pub fn getgroups(f: &mut Frame) -> Result<u64> {
    let size = f.arg(0) as i32;
    let c = credentials()?;
    let count = (c.group_count as usize).min(c.groups.len());
    if size < 0 {
        return Err(EINVAL);
    }
    if size > 0 {
        if (size as usize) < count {
            return Err(EINVAL);
        }
        for (i, group) in c.groups[..count].iter().enumerate() {
            user::write(f.arg(1).wrapping_add(4 * i as u64), group)?;
        }
    }
    Ok(count as u64)
}

pub fn setgroups(f: &mut Frame) -> Result<u64> {
    let count = f.arg(0) as u32 as usize;
    let mut c = credentials()?;
    if !c.has_inside(SETGID) || !user_space::may_set_groups() {
        return Err(EPERM);
    }
    if count > c.groups.len() {
        return Err(EINVAL);
    }
    for i in 0..count {
        c.groups[i] = user::read(f.arg(1).wrapping_add(4 * i as u64))?;
    }
    // (They are told in this order, as on Linux.)
    c.groups[..count].sort_unstable();
    c.group_count = count as u32;
    set_credentials(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_become_whom() {
        assert!(allowed(SAME, [1, 2, 3], false));
        assert!(allowed(3, [1, 2, 3], false));
        assert!(!allowed(4, [1, 2, 3], false));
        assert!(allowed(4, [1, 2, 3], true));
        assert_eq!((pick(SAME, 5), pick(6, 5)), (5, 6));
    }
}
