//! Name spaces. A process has those of its parent, or new ones (UNSHARE). Mount name spaces beside the first one: a table of names, and a handle of the root.
//!
//! What is mounted where the file servers know (`fs::BIND`, `fs::MOUNT_POINT`); they ask here which name space their caller is in, and whether it may change that (SPACE_OF). The table is for looking names up, and for
//! /proc/PID/mounts: who may change it could put other names into it, and would mislead those that are in the same name space and nobody else.

use crate::boot::block;
use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::mount_table::{below, MountTable};
use crate::pid_spaces::{is_within, PidSpace, Pids};
use crate::prefix::{normal, ENTRY, FSTYPE, HEAD, NAME};
use crate::system::{Errno, System};
use crate::table::Slot;
use crate::user_spaces::{all_in, lies_in, named, Above, Counted, UserSpace};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_idl::capability::{SYS_ADMIN, SYS_CHROOT};
use cairn_idl::errno::{EFAULT, EINVAL, ENAMETOOLONG, ENOMEM, ENOSPC, EPERM, ESRCH};
use cairn_idl::proc::{Credentials, Related, SpaceKind};
use cairn_rt::{Portal, Received};
use core::cell::{Cell, RefCell};

/// CLONE_NEW bits of UNSHARE.
const NEW_MOUNTS: u64 = 0x2_0000;
const NEW_HOST: u64 = 0x400_0000;
const NEW_USER: u64 = 0x1000_0000;
pub(crate) const NEW_PIDS: u64 = 0x2000_0000;
const NEW_IPC: u64 = 0x800_0000;
const NEW_CGROUPS: u64 = 0x200_0000;
/// Of these a child has its own from its first moment on (FORK).
pub(crate) const OF_CHILDREN: u64 = NEW_HOST | NEW_USER | NEW_PIDS | NEW_IPC | NEW_CGROUPS;

/// How long others wait for who changes mounts, in ns.
const TURN_MOST: u64 = 10_000_000_000;

/// A mount name space that is not the first one.
#[derive(Debug)]
pub struct Space {
    id: u64,
    /// The user name space that it was made in.
    owner: Above,
    table: RefCell<MountTable>,
    /// A handle of its root.
    root: Cell<Option<Portal>>,
    /// Who changes its mounts now (SPACE_TURN).
    turn: Cell<Option<Turn>>,
    counted: Counted,
}

/// A thread changes the mounts of a name space while others wait, until this time at most: a thread that was stopped meanwhile keeps nobody for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    slot: Slot,
    thread: Id,
    until: u64,
}

/// A UTS name space that is not the first one.
#[derive(Debug)]
pub struct Host {
    id: u64,
    pub owner: Above,
    /// Host and domain name.
    pub names: [RefCell<Vec<u8>>; 2],
    _counted: Counted,
}

/// An IPC name space that is not the first one: its server's portal, as soon as there is one.
#[derive(Debug)]
pub struct IpcSpace {
    id: u64,
    owner: Above,
    pub portal: Cell<Option<Portal>>,
    _counted: Counted,
}

/// A cgroup name space that is not the first one: paths are told from the group that its maker was in.
#[derive(Debug)]
pub struct CgroupSpace {
    id: u64,
    owner: Above,
    root: Vec<u8>,
    _counted: Counted,
}

impl CgroupSpace {
    /// A path from the root of all as it is told here.
    pub fn seen(&self, path: &[u8]) -> Vec<u8> {
        let root = self.root.strip_suffix(b"/").unwrap_or(&self.root);
        match below(path, root) {
            Some(b"") => b"/".to_vec(),
            Some(rest) => rest.to_vec(),
            None => [&b"/.."[..], path].concat(),
        }
    }
}

/// A name space that somebody has a file of.
#[derive(Clone, Debug)]
enum Any {
    Mount(Rc<Space>),
    Host(Rc<Host>),
    User(Rc<UserSpace>),
    Pids(Rc<PidSpace>),
    Ipc(Rc<IpcSpace>),
    Cgroups(Rc<CgroupSpace>),
}

impl Any {
    /// The user name space that it was made in.
    fn owner(&self) -> &Above {
        match self {
            Any::Mount(space) => &space.owner,
            Any::Host(space) => &space.owner,
            Any::User(space) => &space.above,
            Any::Pids(space) => &space.owner,
            Any::Ipc(space) => &space.owner,
            Any::Cgroups(space) => &space.owner,
        }
    }
}

/// Name spaces that are kept for their files (SPACE_HOLD), in order of their numbers.
#[derive(Debug, Default)]
pub struct Held(Vec<(u64, u32, Any)>);

/// New name spaces of a process, before it has them.
#[derive(Default)]
struct Fresh {
    user: Option<(Rc<UserSpace>, Credentials)>,
    host: Option<Rc<Host>>,
    pids: Pids,
    ipc: Option<Rc<IpcSpace>>,
    cgroups: Option<Rc<CgroupSpace>>,
}

/// A table of names with room for so many.
fn room_for(count: usize) -> Result<Vec<u8>, Errno> {
    let length = HEAD + count * ENTRY;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| ENOMEM)?;
    bytes.resize(length, 0);
    bytes[8..12].copy_from_slice(&(count as u32).to_le_bytes());
    Ok(bytes)
}

impl Space {
    /// What threads wait for that would change its mounts, among the words of futexes.
    fn turn_key(&self) -> u64 {
        u64::MAX - self.id
    }
}

impl<S: System> Manager<S> {
    /// The mount name space of a process, for who may change it.
    fn own_space(&self, slot: Slot) -> Result<Rc<Space>, Errno> {
        let process = &self.processes[slot];
        let space = process.space.clone().ok_or(EINVAL)?;
        match self.is_capable(slot, &space.owner, SYS_ADMIN) {
            true => Ok(space),
            false => Err(EPERM),
        }
    }

    fn space_changed(&self, space: &Space) {
        space.counted.set_names(space.table.borrow().len());
        self.prefixes.page().publish_space(space.id);
    }

    /// New name spaces for a process, of all kinds but mounts: nothing has changed yet. `capable` in its user name space is who has CAP_SYS_ADMIN there, or is in a new one.
    fn fresh(&mut self, slot: Slot, flags: u64) -> Result<Fresh, Errno> {
        let mut fresh = Fresh::default();
        if flags & NEW_USER != 0 {
            fresh.user = Some(self.new_user_space(slot)?);
        } else if !self.processes[slot].creds.has_inside(SYS_ADMIN) {
            return Err(EPERM);
        }
        let process = &self.processes[slot];
        let owner = match &fresh.user {
            Some((space, _)) => Some(space.clone()),
            None => process.user.clone(),
        };
        if flags & NEW_HOST != 0 {
            let names = [0, 1].map(|which| RefCell::new(self.host_text(&process.host, which)));
            let counted = Counted::new(&self.counts, process.creds.euid)?;
            self.spaces_made += 1;
            let host = Host {
                id: self.spaces_made,
                owner: owner.clone(),
                names,
                _counted: counted,
            };
            fresh.host = Some(Rc::new(host));
        }
        if flags & NEW_PIDS != 0 {
            let process = &self.processes[slot];
            let above = process.child_pids.clone();
            let counted = Counted::new(&self.counts, process.creds.euid)?;
            self.spaces_made += 1;
            let space = PidSpace::new(self.spaces_made, above, owner.clone(), counted);
            fresh.pids = Some(Rc::new(space.ok_or(ENOSPC)?));
        }
        if flags & NEW_CGROUPS != 0 {
            let root = self.path_of_group(slot)?;
            let counted = Counted::new(&self.counts, self.processes[slot].creds.euid)?;
            self.spaces_made += 1;
            let space = CgroupSpace {
                id: self.spaces_made,
                owner: owner.clone(),
                root,
                _counted: counted,
            };
            fresh.cgroups = Some(Rc::new(space));
        }
        if flags & NEW_IPC != 0 {
            let counted = Counted::new(&self.counts, self.processes[slot].creds.euid)?;
            self.spaces_made += 1;
            let space = IpcSpace {
                id: self.spaces_made,
                owner,
                portal: Cell::new(None),
                _counted: counted,
            };
            fresh.ipc = Some(Rc::new(space));
        }
        Ok(fresh)
    }

    /// What a child is to have of its own, before there is a domain of it.
    pub(crate) fn born_apart(&mut self, child: Slot, flags: u64) -> Result<(), Errno> {
        if flags == 0 {
            return Ok(());
        }
        let fresh = self.fresh(child, flags)?;
        if let Some(pids) = &fresh.pids {
            self.processes[child].pids = Some(pids.clone());
        }
        if let Some(creds) = self.moves(child, fresh) {
            self.processes[child].creds = creds;
        }
        Ok(())
    }

    /// The process has these. → its capabilities in a new user name space.
    fn moves(&mut self, slot: Slot, fresh: Fresh) -> Option<Credentials> {
        if fresh.ipc.is_some() {
            self.leave_ipc(slot);
        }
        let process = &mut self.processes[slot];
        if fresh.ipc.is_some() {
            process.ipc = fresh.ipc;
        }
        if fresh.cgroups.is_some() {
            process.cgroups = fresh.cgroups;
        }
        if let Some(host) = fresh.host {
            process.host = Some(host);
        }
        if fresh.pids.is_some() {
            // It stays where it is itself.
            process.child_pids = fresh.pids;
        }
        let (user, creds) = fresh.user?;
        process.user = Some(user);
        Some(creds)
    }

    /// UNSHARE
    pub(crate) fn unshare(&mut self, slot: Slot, flags: u64) -> Result<Outcome, Errno> {
        if flags & !(NEW_MOUNTS | OF_CHILDREN) != 0 {
            return Err(EINVAL);
        }
        if flags & NEW_USER != 0 && self.processes[slot].threads.len() > 1 {
            return Err(EINVAL);
        }
        let fresh = self.fresh(slot, flags)?;
        let counted = match flags & NEW_MOUNTS {
            0 => None,
            _ => Some(Counted::new(&self.counts, self.processes[slot].creds.euid)?),
        };
        if let Some(creds) = self.moves(slot, fresh) {
            self.assume_inside(slot, creds);
        }
        if let Some(counted) = counted {
            // Its root is what the process has as its own.
            self.leave_root(slot);
            self.leave_mounts(slot);
            self.spaces_made += 1;
            let space = Space {
                id: self.spaces_made,
                owner: self.processes[slot].user.clone(),
                table: RefCell::default(),
                root: Cell::default(),
                turn: Cell::default(),
                counted,
            };
            self.processes[slot].space = Some(Rc::new(space));
        }
        let space = self.processes[slot].space.as_ref().map_or(0, |s| s.id);
        Ok(Outcome::words(&[0, space]))
    }

    /// The process came into a user name space. It shows of itself what it showed before.
    fn assume_inside(&mut self, slot: Slot, creds: Credentials) {
        let dumpable = self.processes[slot].dumpable;
        self.assume(slot, creds);
        self.processes[slot].dumpable = dumpable;
    }

    /// The process is in the first mount name space. With its last process another one goes.
    fn leave_mounts(&mut self, slot: Slot) {
        if let Some(space) = self.processes[slot].space.take() {
            if space.turn.get().is_some_and(|turn| turn.slot == slot) {
                self.next_turn(&space);
            }
            self.let_go(space);
        }
    }

    fn leave_ipc(&mut self, slot: Slot) {
        if let Some(space) = self.processes[slot].ipc.take() {
            self.let_go_ipc(space);
        }
    }

    fn let_go_ipc(&mut self, space: Rc<IpcSpace>) {
        let portal = Rc::into_inner(space).and_then(|space| space.portal.take());
        if let Some(portal) = portal {
            self.system.drop_kept(portal);
        }
    }

    /// SPACE_IPC
    pub(crate) fn space_ipc(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let space = self.processes[slot].ipc.clone().ok_or(EINVAL)?;
        if message.portals != 1 || space.portal.get().is_some() {
            return Err(EINVAL);
        }
        if !self.is_capable(slot, &space.owner, SYS_ADMIN) {
            return Err(EPERM);
        }
        self.system.keep()?;
        space.portal.set(Some(Portal(message.words[7] as u32)));
        Ok(Outcome::Kept(0))
    }

    fn let_go(&mut self, space: Rc<Space>) {
        let handle = Rc::into_inner(space).and_then(|space| space.root.take());
        if let Some(handle) = handle {
            self.system.drop_kept(handle);
        }
    }

    /// The process is in no name space of its own any more, as it has ended. (It stays in its user name space: its ids are of that.)
    pub(crate) fn leave_spaces(&mut self, slot: Slot) {
        self.leave_mounts(slot);
        self.leave_ipc(slot);
        self.processes[slot].cgroups = None;
        self.processes[slot].host = None;
    }

    /// The number of the name space of this kind that a process is in.
    fn number_of(&self, slot: Slot, kind: SpaceKind) -> Result<u64, Errno> {
        let process = &self.processes[slot];
        let number = match kind {
            SpaceKind::Mount => process.space.as_ref().map(|space| space.id),
            SpaceKind::Host => process.host.as_ref().map(|space| space.id),
            SpaceKind::User => process.user.as_ref().map(|space| space.id),
            SpaceKind::Processes => process.pids.as_ref().map(|space| space.id),
            SpaceKind::Ipc => process.ipc.as_ref().map(|space| space.id),
            SpaceKind::Cgroup => process.cgroups.as_ref().map(|space| space.id),
            SpaceKind::Network => None,
        };
        Ok(number.unwrap_or(0))
    }

    /// SPACE_ID
    pub(crate) fn space_id(&self, pid: u64, kind: SpaceKind) -> Result<Outcome, Errno> {
        let slot = self.numbers.process(pid).ok_or(ESRCH)?;
        Ok(Outcome::words(&[0, self.number_of(slot, kind)?]))
    }

    /// SPACE_HOLD
    pub(crate) fn space_hold(
        &mut self,
        pid: u64,
        kind: SpaceKind,
        id: u64,
    ) -> Result<Outcome, Errno> {
        let slot = self.numbers.process(pid).ok_or(ESRCH)?;
        if self.number_of(slot, kind)? != id {
            return Err(ESRCH);
        }
        let process = &self.processes[slot];
        let its = match kind {
            SpaceKind::Mount => process.space.clone().map(Any::Mount),
            SpaceKind::Host => process.host.clone().map(Any::Host),
            SpaceKind::User => process.user.clone().map(Any::User),
            SpaceKind::Processes => process.pids.clone().map(Any::Pids),
            SpaceKind::Ipc => process.ipc.clone().map(Any::Ipc),
            SpaceKind::Cgroup => process.cgroups.clone().map(Any::Cgroups),
            _ => None,
        };
        // The first ones stay anyway.
        if let Some(its) = its {
            self.hold_space(id, its)?;
        }
        done(0)
    }

    /// SPACE_DROP
    pub(crate) fn space_drop(&mut self, id: u64) -> Result<Outcome, Errno> {
        let at = self.held.0.binary_search_by_key(&id, |held| held.0);
        let at = at.map_err(|_| EINVAL)?;
        self.held.0[at].1 -= 1;
        if self.held.0[at].1 == 0 {
            match self.held.0.remove(at).2 {
                Any::Mount(space) => self.let_go(space),
                Any::Ipc(space) => self.let_go_ipc(space),
                _ => {}
            }
        }
        done(0)
    }

    /// SPACE_RELATED
    pub(crate) fn space_related(
        &mut self,
        domain: u64,
        (kind, id): (SpaceKind, u64),
        which: Related,
    ) -> Result<Outcome, Errno> {
        let slot = self.by_domain(domain)?;
        let process = &self.processes[slot];
        let its = match id {
            0 => None,
            _ => {
                let at = self.held.0.binary_search_by_key(&id, |held| held.0);
                Some(&self.held.0[at.map_err(|_| EINVAL)?].2)
            }
        };
        let other = match (which, kind, its) {
            (Related::User, SpaceKind::User, Some(Any::User(space))) => {
                let user = space.named_owner(&process.user);
                return Ok(Outcome::words(&[0, user.into()]));
            }
            (Related::User, SpaceKind::User, None) => {
                let user = named(&process.user, false, 0);
                return Ok(Outcome::words(&[0, user.into()]));
            }
            (Related::Parent, SpaceKind::Processes, its) => {
                let above = match its {
                    Some(Any::Pids(space)) => space.above.clone(),
                    None => return Err(EPERM),
                    _ => return Err(EINVAL),
                };
                if !is_within(&above, &process.pids) {
                    return Err(EPERM);
                }
                above.map(|above| (above.id, Any::Pids(above)))
            }
            (Related::Owner, ..) | (Related::Parent, SpaceKind::User, _) => {
                let owner = match its {
                    Some(its) => its.owner().clone(),
                    None if kind == SpaceKind::User => return Err(EPERM),
                    None => None,
                };
                if !lies_in(&owner, &process.user) {
                    return Err(EPERM);
                }
                owner.map(|owner| (owner.id, Any::User(owner)))
            }
            _ => return Err(EINVAL),
        };
        let id = other.as_ref().map_or(0, |(id, _)| *id);
        if let Some((id, other)) = other {
            self.hold_space(id, other)?;
        }
        Ok(Outcome::words(&[0, id]))
    }

    /// It is kept until it is dropped as often.
    fn hold_space(&mut self, id: u64, its: Any) -> Result<(), Errno> {
        match self.held.0.binary_search_by_key(&id, |held| held.0) {
            Ok(at) => self.held.0[at].1 += 1,
            Err(at) => {
                self.held.0.try_reserve(1).map_err(|_| ENOMEM)?;
                self.held.0.insert(at, (id, 1, its));
            }
        }
        Ok(())
    }

    /// SPACE_ENTER
    pub(crate) fn space_enter(
        &mut self,
        domain: u64,
        kind: SpaceKind,
        id: u64,
    ) -> Result<Outcome, Errno> {
        let slot = self.by_domain(domain)?;
        let its = match id {
            0 => None,
            _ => {
                let at = self.held.0.binary_search_by_key(&id, |held| held.0);
                Some(self.held.0[at.map_err(|_| EINVAL)?].2.clone())
            }
        };
        let creds = self.processes[slot].creds;
        let may = |owner: &Above, needed: u32| {
            let over = self.is_capable(slot, owner, SYS_ADMIN);
            if over && creds.has_inside(needed) {
                Ok(())
            } else {
                Err(EPERM)
            }
        };
        match (kind, its) {
            (SpaceKind::Mount, Some(Any::Mount(space))) => {
                may(&space.owner, SYS_ADMIN).and_then(|()| may(&space.owner, SYS_CHROOT))?;
                if space.root.get().is_none() {
                    return Err(EINVAL);
                }
                self.leave_root(slot);
                self.leave_mounts(slot);
                self.processes[slot].space = Some(space);
            }
            // Whoever left the first mount name space has nothing of it any more.
            (SpaceKind::Mount, None) => {
                may(&None, SYS_ADMIN)?;
                if self.processes[slot].space.is_some() {
                    return Err(EINVAL);
                }
            }
            (SpaceKind::Host, Some(Any::Host(host))) => {
                may(&host.owner, SYS_ADMIN)?;
                self.processes[slot].host = Some(host);
            }
            (SpaceKind::Host, None) => {
                may(&None, SYS_ADMIN)?;
                self.processes[slot].host = None;
            }
            (SpaceKind::User, Some(Any::User(space))) => {
                let process = &self.processes[slot];
                let own = process.user.as_ref().map_or(0, |own| own.id);
                if own == id || process.threads.len() > 1 {
                    return Err(EINVAL);
                }
                if !self.is_capable(slot, &Some(space.clone()), SYS_ADMIN) {
                    return Err(EPERM);
                }
                let creds = all_in(space.id, self.processes[slot].creds);
                self.processes[slot].user = Some(space);
                self.assume_inside(slot, creds);
            }
            (SpaceKind::User, None) => return Err(EINVAL),
            (SpaceKind::Cgroup, its) => {
                let its = match its {
                    Some(Any::Cgroups(space)) => Some(space),
                    None => None,
                    _ => return Err(EINVAL),
                };
                let owner = its.as_ref().and_then(|space| space.owner.clone());
                may(&owner, SYS_ADMIN)?;
                self.processes[slot].cgroups = its;
            }
            (SpaceKind::Ipc, its) => {
                let its = match its {
                    Some(Any::Ipc(space)) => Some(space),
                    None => None,
                    _ => return Err(EINVAL),
                };
                let owner = its.as_ref().and_then(|space| space.owner.clone());
                may(&owner, SYS_ADMIN)?;
                self.leave_ipc(slot);
                self.processes[slot].ipc = its;
            }
            (SpaceKind::Processes, its) => {
                let its = match its {
                    Some(Any::Pids(space)) => Some(space),
                    None => None,
                    _ => return Err(EINVAL),
                };
                let owner = its.as_ref().and_then(|space| space.owner.clone());
                may(&owner, SYS_ADMIN)?;
                // Nobody's children come out of where it is itself.
                if !is_within(&its, &self.processes[slot].pids) {
                    return Err(EINVAL);
                }
                self.processes[slot].child_pids = its;
            }
            (_, None) => may(&None, SYS_ADMIN)?,
            _ => return Err(EINVAL),
        }
        done(0)
    }

    /// For a process that begins anew: which name spaces it has of its own ([`block`]), and its root if that is not the first name space's.
    pub(crate) fn root_of(
        &self,
        slot: Slot,
        own: Option<Portal>,
    ) -> Result<(u64, Option<Portal>), Errno> {
        let process = &self.processes[slot];
        let bit = |is: bool, bit: u64| if is { bit } else { 0 };
        let host = bit(process.host.is_some(), block::OWN_HOST)
            | bit(process.pids.is_some(), block::OWN_PIDS)
            | bit(process.child_pids.is_some(), block::CHILDREN_OWN_PIDS);
        let Some(space) = &process.space else {
            return Ok((host, own));
        };
        let handle = space.root.get();
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
            Some(space) => self.encode_space(&space.table.borrow())?,
            None => self.prefixes.table(),
        };
        if let Some(host) = &process.host {
            let host = host.names[0].borrow();
            let length = host.len().min(NAME - 1);
            bytes[16..16 + NAME].fill(0);
            bytes[16..16 + length].copy_from_slice(&host[..length]);
        }
        Ok(bytes)
    }

    fn encode_space(&self, table: &MountTable) -> Result<Vec<u8>, Errno> {
        let mut bytes = room_for(table.len())?;
        let host = self.prefixes.host_text(0);
        bytes[16..16 + host.len()].copy_from_slice(host);
        table.encode(&mut bytes[HEAD..]);
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
        let [_, of, since, ..] = message.words;
        let table = space.table.borrow();
        let changes = table.changes(since).filter(|_| of == space.id);
        let is_short = changes.is_some();
        let entries = changes
            .as_ref()
            .map_or(table.len(), |changes| changes.len());
        if message.in_len < HEAD + entries * ENTRY {
            return Err(EFAULT);
        }
        let bytes = match changes {
            Some(changes) => {
                let mut bytes = room_for(entries)?;
                let entries = bytes[HEAD..].chunks_mut(ENTRY);
                changes
                    .zip(entries)
                    .for_each(|(change, entry)| table.encode_change(change, entry));
                bytes
            }
            None => self.encode_space(&table)?,
        };
        let (root, count) = (table.root(), table.count());
        self.answer(message, &bytes)?;
        Ok(Outcome::words(&[
            bytes.len() as u64,
            space.id,
            u64::from(root),
            count,
            u64::from(is_short),
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
            return done(table.number()?.into());
        }
        if !table.was_given(number) {
            return Err(EINVAL);
        }
        let flags = flags as u8 & !1;
        match name {
            b"" => table.set_flags(number, flags)?,
            name => {
                if !table.has(number) {
                    space.counted.check_name()?;
                }
                table.name(number, normal(name)?, (fstype, flags))?;
            }
        }
        drop(table);
        self.space_changed(&space);
        done(number as i64)
    }

    /// SPACE_UNMOUNT
    pub(crate) fn space_unmount(&mut self, slot: Slot, number: u64) -> Result<Outcome, Errno> {
        let space = self.own_space(slot)?;
        space.table.borrow_mut().forget(number)?;
        self.space_changed(&space);
        done(0)
    }

    /// SPACE_TURN
    pub(crate) fn space_turn(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let space = self.own_space(slot)?;
        let thread = message.token as Id;
        let held = space.turn.get();
        let is_own = held.is_some_and(|turn| (turn.slot, turn.thread) == (slot, thread));
        if message.words[1] == 0 {
            if is_own {
                self.next_turn(&space);
            }
            return done(0);
        }
        let now = self.system.now();
        match held {
            Some(turn) if !is_own && turn.until > now => {
                let wait = (slot, space.turn_key(), u32::MAX);
                self.futex_wait(message.token, wait, turn.until)
            }
            _ => {
                self.give_turn(&space, slot, thread);
                done(1)
            }
        }
    }

    fn give_turn(&mut self, space: &Space, slot: Slot, thread: Id) {
        let until = self.system.now().saturating_add(TURN_MOST);
        space.turn.set(Some(Turn {
            slot,
            thread,
            until,
        }));
    }

    /// Nobody changes the mounts any more: the first who waits and may does now.
    fn next_turn(&mut self, space: &Rc<Space>) {
        space.turn.set(None);
        while let Some((slot, token)) = self.futex_next(space.turn_key()) {
            // (Anybody can wait for any word.)
            let its = self.own_space(slot);
            if its.is_ok_and(|own| Rc::ptr_eq(&own, space)) {
                self.give_turn(space, slot, token as Id);
                return self.answer_held(slot, token, 1);
            }
            self.answer_held(slot, token, 0);
        }
    }

    /// The thread is no more.
    pub(crate) fn leave_turn(&mut self, slot: Slot, thread: Id) {
        let Some(space) = &self.processes[slot].space else {
            return;
        };
        let turn = space.turn.get();
        if turn.is_some_and(|turn| (turn.slot, turn.thread) == (slot, thread)) {
            let space = space.clone();
            self.next_turn(&space);
        }
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
        let before = space.root.replace(Some(root));
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
        let handle = space.root.get().ok_or(EINVAL)?;
        Ok(Outcome::Portal(handle))
    }

    /// SPACE_OF
    pub(crate) fn space_of(&mut self, domain: u64) -> Result<Outcome, Errno> {
        let slot = self.by_domain(domain)?;
        let space = self.processes[slot].space.as_ref();
        let owner = space.and_then(|space| space.owner.clone());
        let space = space.map_or(0, |space| space.id);
        let may_change = self.is_capable(slot, &owner, SYS_ADMIN);
        Ok(Outcome::words(&[0, space, may_change.into()]))
    }

    /// Host (0) or domain name (1) of a UTS name space.
    fn host_text(&self, host: &Option<Rc<Host>>, which: usize) -> Vec<u8> {
        match host {
            Some(host) => host.names[which].borrow().clone(),
            None => self.prefixes.host_text(which).to_vec(),
        }
    }

    /// HOSTNAME, HOSTNAME_OF
    pub(crate) fn name_of_host(
        &mut self,
        message: &Received,
        slot: Option<Slot>,
        which: u64,
    ) -> Result<Outcome, Errno> {
        if which > 1 {
            return Err(EINVAL);
        }
        let host = slot.and_then(|slot| self.processes[slot].host.clone());
        let name = self.host_text(&host, which as usize);
        let length = name.len().min(message.in_len);
        self.answer(message, &name[..length])?;
        done(length as i64)
    }
}
