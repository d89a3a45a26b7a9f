//! mount, umount2: moving portals between prefixes of the name tree.
//!
//! `mount --bind` and remounts are the forms that programs use without a device: a bind mount makes the old name's handle the mount portal of the new one.

use super::open::open_directory;
use crate::errno::{Result, EINVAL, ENODEV, EPERM};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user::UserString;
use crate::path::{self, send, walk, AT_FDCWD};
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::{fs, proc};
use core::sync::atomic::Ordering;

const BIND: u64 = 4096;
const REMOUNT: u64 = 32;

fn privileged() -> Result<()> {
    if process().euid.load(Ordering::Relaxed) == 0 {
        Ok(())
    } else {
        Err(EPERM)
    }
}

fn absolute(name: &[u8]) -> Result<Vec<u8>> {
    let directory = open_directory(AT_FDCWD, name)?;
    path::path_of(&directory)
}

pub fn mount(f: &mut Frame) -> Result<u64> {
    privileged()?;
    let mut target = UserString::empty();
    target.fill(f.arg(1))?;
    let flags = f.arg(3);
    let place = absolute(target.as_bytes())?;
    if flags & REMOUNT != 0 {
        return Ok(0);
    }
    if flags & BIND != 0 {
        let mut source = UserString::empty();
        source.fill(f.arg(0))?;
        let handle = open_directory(AT_FDCWD, source.as_bytes())?;
        return announce(&place, b"none", handle.slot());
    }
    let mut kind = UserString::empty();
    kind.fill(f.arg(2))?;
    match kind.as_bytes() {
        // They are mounted already where they belong; mounting them there again changes nothing.
        b"proc" | b"devtmpfs" | b"devpts" | b"sysfs" if is_mounted(&place) => {
            Err(crate::errno::EBUSY)
        }
        b"" => Err(EINVAL),
        _ => Err(ENODEV),
    }
}

fn is_mounted(place: &[u8]) -> bool {
    let state = process().state();
    state
        .prefixes
        .find(place)
        .is_some_and(|(_, length)| length == place.len())
}

/// Tell the manager of the directory that it is covered, then `proc`.
fn announce(place: &[u8], kind: &[u8], handle: u32) -> Result<u64> {
    mount_point(place, 1)?;
    let mut text = place.to_vec();
    text.extend_from_slice(kind);
    let words = [proc::MOUNT, place.len() as u64, kind.len() as u64];
    let result = Request::new(&words)
        .out(&text)
        .pass(handle)
        .call(linux_slot::PROC);
    if result.is_err() {
        let _ = mount_point(place, 0);
    }
    result.map(|_| 0)
}

fn mount_point(place: &[u8], on: u64) -> Result<u64> {
    walk(AT_FDCWD, place, |start, answer| {
        let request = Request::new(&[fs::MOUNT_POINT, on]).out(&start.rest);
        send(request, start.slot, answer)
    })
    .map(|w| w[0])
}

pub fn umount2(f: &mut Frame) -> Result<u64> {
    privileged()?;
    let mut target = UserString::empty();
    target.fill(f.arg(0))?;
    let place = absolute(target.as_bytes())?;
    if !is_mounted(&place) {
        return Err(EINVAL);
    }
    Request::new(&[proc::UNMOUNT])
        .out(&place)
        .call(linux_slot::PROC)?;
    let _ = mount_point(&place, 0);
    Ok(0)
}
