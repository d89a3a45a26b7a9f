//! Name spaces. A process has those of its parent, or new ones (UNSHARE). Mount name spaces beside the first one: a table of names, and a handle of the root.
//!
//! What is mounted where the file servers know (`fs::BIND`, `fs::MOUNT_POINT`); they ask here which name space their caller is in, and whether it may change that (SPACE_OF). The table is for looking names up, and for
//! /proc/PID/mounts: who may change it could put other names into it, and would mislead those that are in the same name space and nobody else.

use crate::boot::block;
use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::prefix::{encode_entry, normal, ENTRY, FSTYPE, HEAD, NAME};
use crate::system::{Errno, System};
use crate::table::Slot;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_idl::capability::SYS_ADMIN;
use cairn_idl::errno::{EFAULT, EINVAL, ENAMETOOLONG, ENOMEM, ENOSPC, EPERM};
use cairn_idl::fs::PREFIX_SERIAL_SHIFT;
use cairn_rt::{Portal, Received};
use core::cell::RefCell;

/// CLONE_NEW bits of UNSHARE.
const NEW_MOUNTS: u64 = 0x2_0000;
const NEW_HOST: u64 = 0x400_0000;

/// Most name spaces in all, and mounts in each.
const SPACES_MOST: u32 = 1024;
const MOUNTS_MOST: usize = 256;
const NUMBER_MOST: u32 = u32::MAX >> PREFIX_SERIAL_SHIFT;

/// A mount name space that is not the first one.
#[derive(Debug)]
pub struct Space {
    id: u64,
    table: RefCell<Table>,
}

#[derive(Debug, Default)]
struct Table {
    mounts: Vec<Named>,
    /// Mounts so far.
    made: u32,
    root: u32,
    handle: Option<Portal>,
}

#[derive(Debug)]
struct Named {
    name: Vec<u8>,
    fstype: Vec<u8>,
    flags: u8,
    number: u32,
}

/// What of a name is left below this place: empty, or with a slash.
fn below<'a>(name: &'a [u8], place: &[u8]) -> Option<&'a [u8]> {
    let rest = name.strip_prefix(place)?;
    (rest.is_empty() || rest[0] == b'/').then_some(rest)
}

impl Table {
    fn find(&mut self, number: u64) -> Result<&mut Named, Errno> {
        let mut all = self.mounts.iter_mut();
        all.find(|mount| u64::from(mount.number) == number)
            .ok_or(EINVAL)
    }

    /// The mount with this number is the root: what is named below it is named from there, everything else below `old`, or not at all.
    fn turn(&mut self, number: u64, old: &[u8]) -> Result<(), Errno> {
        let new = self.find(number)?.name.clone();
        let mut names = Vec::new();
        let reserved = names.try_reserve_exact(self.mounts.len());
        reserved.map_err(|_| ENOMEM)?;
        for mount in &self.mounts {
            names.push(match below(&mount.name, &new) {
                Some(rest) => Some(rest.to_vec()),
                None if old.is_empty() => None,
                None => Some([old, &mount.name].concat()),
            });
        }
        if names.iter().flatten().any(|name| name.len() >= NAME) {
            return Err(ENAMETOOLONG);
        }
        let mut names = names.into_iter();
        self.mounts
            .retain_mut(|mount| match names.next().flatten() {
                Some(name) => {
                    mount.name = name;
                    true
                }
                None => false,
            });
        self.root = number as u32;
        Ok(())
    }
}

impl<S: System> Manager<S> {
    /// The mount name space of a process, for who may change it.
    fn own_space(&self, slot: Slot) -> Result<Rc<Space>, Errno> {
        let process = &self.processes[slot];
        let space = process.space.clone().ok_or(EINVAL)?;
        match process.creds.has(SYS_ADMIN) {
            true => Ok(space),
            false => Err(EPERM),
        }
    }

    fn space_changed(&self, space: &Space) {
        self.prefixes.page().publish_space(space.id);
    }

    /// UNSHARE
    pub(crate) fn unshare(&mut self, slot: Slot, flags: u64) -> Result<Outcome, Errno> {
        if flags & !(NEW_MOUNTS | NEW_HOST) != 0 {
            return Err(EINVAL);
        }
        if !self.processes[slot].creds.has(SYS_ADMIN) {
            return Err(EPERM);
        }
        if flags & NEW_HOST != 0 {
            let name = match &self.processes[slot].host {
                Some(host) => host.borrow().clone(),
                None => self.prefixes.hostname().to_vec(),
            };
            self.processes[slot].host = Some(Rc::new(RefCell::new(name)));
        }
        if flags & NEW_MOUNTS != 0 {
            if self.spaces >= SPACES_MOST {
                return Err(ENOSPC);
            }
            // Its root is what the process has as its own.
            self.leave_root(slot);
            self.leave_space(slot);
            self.spaces += 1;
            self.spaces_made += 1;
            let space = Space {
                id: self.spaces_made,
                table: RefCell::default(),
            };
            self.processes[slot].space = Some(Rc::new(space));
        }
        let space = self.processes[slot].space.as_ref().map_or(0, |s| s.id);
        Ok(Outcome::words(&[0, space]))
    }

    /// The process is in the first mount name space. With its last process another one goes.
    pub(crate) fn leave_space(&mut self, slot: Slot) {
        let space = self.processes[slot].space.take();
        if let Some(space) = space.and_then(Rc::into_inner) {
            self.spaces -= 1;
            if let Some(handle) = space.table.into_inner().handle {
                self.system.drop_kept(handle);
            }
        }
        // (The UTS name space is a name.)
        if !self.processes[slot].alive() {
            self.processes[slot].host = None;
        }
    }

    /// For a process that begins anew: which name spaces it has of its own ([`block`]), and its root if that is not the first name space's.
    pub(crate) fn root_of(
        &self,
        slot: Slot,
        own: Option<Portal>,
    ) -> Result<(u64, Option<Portal>), Errno> {
        let process = &self.processes[slot];
        let host = match process.host {
            Some(_) => block::OWN_HOST,
            None => 0,
        };
        let Some(space) = &process.space else {
            return Ok((host, own));
        };
        let handle = space.table.borrow().handle;
        let at_root = match own {
            Some(_) => 0,
            None => block::AT_ROOT,
        };
        let directory = own.or(handle).ok_or(EINVAL)?;
        Ok((block::SPACE | at_root | host, Some(directory)))
    }

    /// A table as it is published: of the mount name space of the process with this number.
    pub(crate) fn table_of(&self, pid: u64) -> Result<Vec<u8>, Errno> {
        let Some(slot) = self.numbers.process(pid) else {
            return Ok(self.prefixes.table());
        };
        let process = &self.processes[slot];
        let mut bytes = match &process.space {
            Some(space) => self.encode_space(space)?,
            None => self.prefixes.table(),
        };
        if let Some(host) = &process.host {
            let host = host.borrow();
            let length = host.len().min(NAME - 1);
            bytes[16..16 + NAME].fill(0);
            bytes[16..16 + length].copy_from_slice(&host[..length]);
        }
        Ok(bytes)
    }

    fn encode_space(&self, space: &Space) -> Result<Vec<u8>, Errno> {
        let table = space.table.borrow();
        let length = HEAD + table.mounts.len() * ENTRY;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| ENOMEM)?;
        bytes.resize(length, 0);
        bytes[8..12].copy_from_slice(&(table.mounts.len() as u32).to_le_bytes());
        let host = self.prefixes.hostname();
        bytes[16..16 + host.len()].copy_from_slice(host);
        for (mount, entry) in table.mounts.iter().zip(bytes[HEAD..].chunks_mut(ENTRY)) {
            let used = 1 | u32::from(mount.flags) | mount.number << PREFIX_SERIAL_SHIFT;
            encode_entry(entry, &mount.name, &mount.fstype, used);
        }
        Ok(bytes)
    }

    /// SPACE_MOUNTS
    pub(crate) fn space_mounts(
        &mut self,
        message: &Received,
        slot: Slot,
    ) -> Result<Outcome, Errno> {
        let Some(space) = self.processes[slot].space.clone() else {
            return done(0);
        };
        let bytes = self.encode_space(&space)?;
        if bytes.len() > message.in_len {
            return Err(EFAULT);
        }
        self.answer(message, &bytes)?;
        let root = space.table.borrow().root;
        Ok(Outcome::words(&[
            bytes.len() as u64,
            space.id,
            u64::from(root),
        ]))
    }

    /// SPACE_MOUNT
    pub(crate) fn space_mount(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, name_len, type_len, flags, number, ..] = message.words;
        let space = self.own_space(slot)?;
        if message.out_len > NAME + FSTYPE || type_len >= FSTYPE as u64 {
            return Err(ENAMETOOLONG);
        }
        let bytes = self.bytes(message, 0, message.out_len)?;
        let name_len = usize::try_from(name_len).map_err(|_| EINVAL)?;
        let (name, rest) = bytes.split_at_checked(name_len).ok_or(EINVAL)?;
        let fstype = rest.get(..type_len as usize).ok_or(EINVAL)?;
        let mut table = space.table.borrow_mut();
        if number == 0 {
            if table.made >= NUMBER_MOST {
                return Err(ENOSPC);
            }
            table.made += 1;
            return done(table.made.into());
        }
        if number > u64::from(table.made) {
            return Err(EINVAL);
        }
        let flags = flags as u8 & !1;
        if name.is_empty() {
            table.find(number)?.flags = flags;
        } else {
            let name = normal(name)?;
            if table.find(number).is_ok() {
                return Err(EINVAL);
            }
            if table.mounts.len() >= MOUNTS_MOST || table.mounts.try_reserve(1).is_err() {
                return Err(ENOSPC);
            }
            // What had the name is covered.
            table.mounts.retain(|mount| mount.name != name);
            let (name, fstype) = (name.to_vec(), fstype.to_vec());
            table.mounts.push(Named {
                name,
                fstype,
                flags,
                number: number as u32,
            });
        }
        drop(table);
        self.space_changed(&space);
        done(number as i64)
    }

    /// SPACE_UNMOUNT
    pub(crate) fn space_unmount(&mut self, slot: Slot, number: u64) -> Result<Outcome, Errno> {
        let space = self.own_space(slot)?;
        let mut table = space.table.borrow_mut();
        let name = table.find(number)?.name.clone();
        if u64::from(table.root) == number {
            return Err(EINVAL);
        }
        table.mounts.retain(|m| below(&m.name, &name).is_none());
        drop(table);
        self.space_changed(&space);
        done(0)
    }

    /// SPACE_ROOT
    pub(crate) fn space_root(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let space = self.own_space(slot)?;
        if message.portals != 1 {
            return Err(EINVAL);
        }
        if message.out_len >= NAME {
            return Err(ENAMETOOLONG);
        }
        let old = self.bytes(message, 0, message.out_len)?;
        let old = if old.is_empty() {
            &[][..]
        } else {
            normal(&old)?
        };
        self.system.keep()?;
        let turned = space.table.borrow_mut().turn(message.words[1], old);
        let root = Portal(message.words[7] as u32);
        if let Err(errno) = turned {
            // Closed here, with the room that was taken for it.
            self.system.drop_kept(root);
            return Ok(Outcome::Kept(-errno as u64));
        }
        let before = space.table.borrow_mut().handle.replace(root);
        if let Some(before) = before {
            self.system.drop_kept(before);
        }
        self.space_changed(&space);
        Ok(Outcome::Kept(0))
    }

    /// SPACE_ROOT_HANDLE
    pub(crate) fn space_root_handle(&mut self, slot: Slot) -> Result<Outcome, Errno> {
        let process = &self.processes[slot];
        let space = process.space.as_ref().ok_or(EINVAL)?;
        if process.root.directory.is_some() {
            return Err(EPERM);
        }
        let handle = space.table.borrow().handle.ok_or(EINVAL)?;
        Ok(Outcome::Portal(handle))
    }

    /// SPACE_OF
    pub(crate) fn space_of(&mut self, domain: u64) -> Result<Outcome, Errno> {
        let slot = self.by_domain(domain)?;
        let process = &self.processes[slot];
        let space = process.space.as_ref().map_or(0, |space| space.id);
        let may_change = process.creds.has(SYS_ADMIN);
        Ok(Outcome::words(&[0, space, may_change.into()]))
    }

    /// HOSTNAME
    pub(crate) fn hostname_of(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let host = self.processes[slot].host.clone();
        let name = match &host {
            Some(host) => host.borrow().clone(),
            None => self.prefixes.hostname().to_vec(),
        };
        let length = name.len().min(message.in_len);
        self.answer(message, &name[..length])?;
        done(length as i64)
    }
}
