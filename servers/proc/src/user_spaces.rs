//! User name spaces: whose capabilities count where, and what ids are called inside.
//!
//! Everything here and in all servers is said in ids of the first user name space ("outside"); a process is told how to translate (USER_SPACE) and asks in these. So nobody is fooled by an id from inside: it never arrives.
//! A process has its capabilities in one user name space ([`Credentials::user_space`](cairn_idl::proc::Credentials)) and in those below it. For whatever belongs to the first one only who is in that is capable, and
//! the label, by which servers know a process, has no privilege otherwise.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::system::{Errno, System};
use crate::table::Slot;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::capability::{ALL, SETFCAP, SETGID, SETUID, SYS_ADMIN};
use cairn_idl::errno::{EFAULT, EINVAL, ENOMEM, ENOSPC, EPERM, ESRCH};
use cairn_idl::proc::{Credentials, SpaceMap};
use cairn_rt::Received;
use core::cell::{Cell, RefCell};

/// Name spaces of all kinds, in all, of one user, and how many of them users leave to user 0.
pub(crate) const ALL_MOST: u32 = 4096;
const USERS_MOST: u32 = 512;
const LEFT: u32 = 512;
/// Names of mounts in all name spaces of one user but 0.
const NAMES_MOST: u32 = 16384;
/// How deep user name spaces lie in one another.
const DEPTH_MOST: u32 = 32;
/// Extents of one map.
const EXTENTS_MOST: usize = 340;
const TEXT_MOST: usize = 4095;
const SETGROUPS_MOST: usize = 7;
/// What stands for an id that has no other.
const NOBODY: u32 = u32::MAX;

/// How many name spaces there are, and how many each user has made.
#[derive(Debug, Default)]
pub struct Counts {
    all: Cell<u32>,
    users: RefCell<BTreeMap<u32, Usage>>,
}

/// Name spaces of a user, and names of mounts in them.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    spaces: u32,
    names: u32,
}

/// A name space that is counted, for this user.
#[derive(Debug)]
pub struct Counted {
    counts: Rc<Counts>,
    user: u32,
    /// Names of mounts in it.
    names: Cell<u32>,
}

impl Counts {
    #[cfg(test)]
    pub fn all(&self) -> u32 {
        self.all.get()
    }
}

impl Counted {
    pub fn new(counts: &Rc<Counts>, user: u32) -> Result<Counted, Errno> {
        let mut users = counts.users.borrow_mut();
        let own = users.get(&user).copied().unwrap_or_default();
        let most = if user == 0 { ALL_MOST } else { ALL_MOST - LEFT };
        if counts.all.get() >= most || user != 0 && own.spaces >= USERS_MOST {
            return Err(ENOSPC);
        }
        let spaces = own.spaces + 1;
        users.insert(user, Usage { spaces, ..own });
        counts.all.set(counts.all.get() + 1);
        Ok(Counted {
            counts: counts.clone(),
            user,
            names: Cell::new(0),
        })
    }

    /// May it have one more?
    pub fn check_name(&self) -> Result<(), Errno> {
        let users = self.counts.users.borrow();
        let own = users.get(&self.user).copied().unwrap_or_default();
        match self.user != 0 && own.names >= NAMES_MOST {
            true => Err(ENOSPC),
            false => Ok(()),
        }
    }

    /// It has so many names now.
    pub fn set_names(&self, names: usize) {
        let before = self.names.replace(names as u32);
        if let Some(own) = self.counts.users.borrow_mut().get_mut(&self.user) {
            own.names = own.names - before + names as u32;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.set_names(0);
        let counts = &self.counts;
        counts.all.set(counts.all.get() - 1);
        let mut users = counts.users.borrow_mut();
        match users.get_mut(&self.user) {
            Some(own) if own.spaces > 1 => own.spaces -= 1,
            _ => {
                users.remove(&self.user);
            }
        }
    }
}

/// Ids that follow one another, inside and in the first user name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    inside: u32,
    outside: u32,
    count: u32,
}

/// Where `id` lies among these that begin at `first`.
fn offset(id: u32, first: u32, count: u32) -> Option<u32> {
    id.checked_sub(first).filter(|offset| *offset < count)
}

type Map = Vec<Extent>;

fn outside(map: &[Extent], id: u32) -> Option<u32> {
    let found = |e: &Extent| offset(id, e.inside, e.count).map(|offset| e.outside + offset);
    map.iter().find_map(found)
}

fn inside(map: &[Extent], id: u32) -> Option<u32> {
    let found = |e: &Extent| offset(id, e.outside, e.count).map(|offset| e.inside + offset);
    map.iter().find_map(found)
}

/// The lines of a map's file: first id inside, first one of the name space above, how many.
fn parse(text: &[u8]) -> Option<Map> {
    let text = core::str::from_utf8(text).ok()?;
    let mut map = Map::new();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if line.contains('+') {
            return None;
        }
        let mut words = line.split_ascii_whitespace().map(str::parse);
        let mut word = || words.next()?.ok();
        let extent = Extent {
            inside: word()?,
            outside: word()?,
            count: word()?,
        };
        let Extent {
            inside,
            outside,
            count,
        } = extent;
        let fits = |first: u32| first.checked_add(count).is_some_and(|_| first != NOBODY);
        let apart =
            |a: u32, b: u32, n: u32| a >= b.saturating_add(n) || b >= a.saturating_add(count);
        let alone =
            |e: &Extent| apart(inside, e.inside, e.count) && apart(outside, e.outside, e.count);
        if words.next().is_some()
            || count == 0
            || !fits(inside)
            || !fits(outside)
            || !map.iter().all(alone)
        {
            return None;
        }
        if map.len() >= EXTENTS_MOST || map.try_reserve(1).is_err() {
            return None;
        }
        map.push(extent);
    }
    Some(map)
}

#[derive(Debug)]
pub struct UserSpace {
    pub id: u64,
    /// None: the first one.
    pub above: Above,
    depth: u32,
    /// The effective user of who made it.
    owner: u32,
    /// Who made it had CAP_SETFCAP.
    may_map_0: bool,
    users: RefCell<Map>,
    groups: RefCell<Map>,
    set_groups: Cell<bool>,
    _counted: Counted,
}

/// A user name space, or none: the first one.
pub type Above = Option<Rc<UserSpace>>;

fn same(a: &Above, b: &Above) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Rc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

impl UserSpace {
    /// What who made it is called in another one.
    pub fn named_owner(&self, there: &Above) -> u32 {
        named(there, false, self.owner)
    }

    fn map(&self, groups: bool) -> &RefCell<Map> {
        match groups {
            true => &self.groups,
            false => &self.users,
        }
    }
}

/// This id has one in the user name space.
pub fn is_mapped(space: &Above, groups: bool, id: u32) -> bool {
    match space {
        Some(space) => inside(&space.map(groups).borrow(), id).is_some(),
        None => true,
    }
}

/// The user who is called so there.
pub fn user_of(space: &Above, named: u32) -> Option<u32> {
    match space {
        Some(space) => outside(&space.users.borrow(), named),
        None => Some(named),
    }
}

/// What an id is called there.
pub fn named(space: &Above, groups: bool, id: u32) -> u32 {
    match space {
        Some(space) => inside(&space.map(groups).borrow(), id).unwrap_or(65534),
        None => id,
    }
}

/// The user who is 0 there.
pub fn user_0(space: &Above) -> Option<u32> {
    user_of(space, 0)
}

/// setgroups(2) is possible there.
pub fn may_set_groups(space: &Above) -> bool {
    let Some(space) = space else { return true };
    space.set_groups.get() && !space.groups.borrow().is_empty()
}

/// Is the one the other, or does it lie below it?
pub fn lies_in(one: &Above, other: &Above) -> bool {
    let mut at = one;
    loop {
        if same(at, other) {
            return true;
        }
        let Some(space) = at else { return false };
        at = &space.above;
    }
}

/// Whether a process with these ids in the user name space `of` has a capability in `over`: it is its own or lies below, or it was made by this user there.
pub fn capable(creds: &Credentials, of: &Above, over: &Above, capability: u32) -> bool {
    let mut at = over;
    loop {
        if same(at, of) {
            return creds.has_inside(capability);
        }
        let Some(space) = at else { return false };
        if same(&space.above, of) && space.owner == creds.euid {
            return true;
        }
        at = &space.above;
    }
}

impl<S: System> Manager<S> {
    /// This process has the capability over what belongs to this user name space.
    pub(crate) fn is_capable(&self, slot: Slot, over: &Above, capability: u32) -> bool {
        let process = &self.processes[slot];
        capable(&process.creds, &process.user, over, capability)
    }

    /// A process leaves its user name space for a new one: what it is then. `assume` follows.
    pub(crate) fn new_user_space(
        &mut self,
        slot: Slot,
    ) -> Result<(Rc<UserSpace>, Credentials), Errno> {
        let process = &self.processes[slot];
        let (own, creds) = (&process.user, process.creds);
        let known = is_mapped(own, false, creds.euid) && is_mapped(own, true, creds.egid);
        if !known || process.root.directory.is_some() {
            return Err(EPERM);
        }
        let depth = own.as_ref().map_or(0, |above| above.depth) + 1;
        if depth > DEPTH_MOST {
            return Err(ENOSPC);
        }
        let counted = Counted::new(&self.counts, creds.euid)?;
        self.spaces_made += 1;
        let space = UserSpace {
            id: self.spaces_made,
            depth,
            owner: creds.euid,
            may_map_0: creds.has_inside(SETFCAP),
            users: RefCell::default(),
            groups: RefCell::default(),
            set_groups: Cell::new(own.as_ref().is_none_or(|above| above.set_groups.get())),
            above: own.clone(),
            _counted: counted,
        };
        let creds = all_in(space.id, creds);
        Ok((Rc::new(space), creds))
    }

    /// USER_SPACE
    pub(crate) fn user_space(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let Some(space) = self.processes[slot].user.clone() else {
            return done(0);
        };
        let (users, groups) = (space.users.borrow(), space.groups.borrow());
        let length = 16 + 12 * (users.len() + groups.len());
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| ENOMEM)?;
        for count in [users.len(), groups.len()] {
            bytes.extend((count as u64).to_le_bytes());
        }
        for extent in users.iter().chain(groups.iter()) {
            for word in [extent.inside, extent.outside, extent.count] {
                bytes.extend(word.to_le_bytes());
            }
        }
        if message.in_len < bytes.len() {
            return Err(EFAULT);
        }
        self.answer(message, &bytes)?;
        let may = may_set_groups(&self.processes[slot].user);
        Ok(Outcome::words(&[bytes.len() as u64, space.id, may.into()]))
    }

    /// MAP_READ
    pub(crate) fn map_read(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [_, domain, pid, which, ..] = message.words;
        let which = SpaceMap::from_word(which).ok_or(EINVAL)?;
        let reader = self.processes[self.by_domain(domain)?].user.clone();
        let of = self.numbers.process(pid).ok_or(ESRCH)?;
        let space = self.processes[of].user.clone();
        let mut text = String::new();
        let most = match &space {
            Some(space) => space.users.borrow().len().max(space.groups.borrow().len()),
            None => 1,
        };
        text.try_reserve(64 * most.max(1)).map_err(|_| ENOMEM)?;
        match (&space, which) {
            (_, SpaceMap::Setgroups) => {
                let may = space.as_ref().is_none_or(|space| space.set_groups.get());
                text.push_str(if may { "allow\n" } else { "deny\n" });
            }
            (None, SpaceMap::Users | SpaceMap::Groups) => text.push_str(&line(0, 0, NOBODY)),
            (Some(own), SpaceMap::Users | SpaceMap::Groups) => {
                let groups = which == SpaceMap::Groups;
                // As seen from the reader's; from inside, from the one above.
                let seen = match same(&reader, &space) {
                    true => &own.above,
                    false => &reader,
                };
                for extent in own.map(groups).borrow().iter() {
                    let lower = match seen {
                        Some(seen) => inside(&seen.map(groups).borrow(), extent.outside),
                        None => Some(extent.outside),
                    };
                    text.push_str(&line(extent.inside, lower.unwrap_or(NOBODY), extent.count));
                }
            }
        }
        let length = text.len().min(message.in_len);
        self.answer(message, &text.as_bytes()[..length])?;
        done(length as i64)
    }

    /// MAP_WRITE
    pub(crate) fn map_write(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [_, domain, pid, which, ..] = message.words;
        let which = SpaceMap::from_word(which).ok_or(EINVAL)?;
        let writer = self.by_domain(domain)?;
        let of = self.numbers.process(pid).ok_or(ESRCH)?;
        // The first one's are as they are.
        let space = self.processes[of].user.clone().ok_or(EPERM)?;
        let most = match which {
            SpaceMap::Setgroups => SETGROUPS_MOST,
            _ => TEXT_MOST,
        };
        if message.out_len > most {
            return Err(EINVAL);
        }
        let mut text = self.bytes(message, 0, message.out_len)?;
        // Programs write the NUL of a C string as well.
        if let Some(end) = text.iter().position(|byte| *byte == 0) {
            text.truncate(end);
        }
        let over = Some(space.clone());
        if !self.is_capable(writer, &over, SYS_ADMIN) {
            return Err(EPERM);
        }
        if which == SpaceMap::Setgroups {
            let open = space.groups.borrow().is_empty();
            return match text.trim_ascii_end() {
                b"allow" if space.set_groups.get() => done(0),
                b"deny" if open || !space.set_groups.get() => {
                    space.set_groups.set(false);
                    done(0)
                }
                b"allow" | b"deny" => Err(EPERM),
                _ => Err(EINVAL),
            };
        }
        let groups = which == SpaceMap::Groups;
        if !space.map(groups).borrow().is_empty() {
            return Err(EPERM);
        }
        let process = &self.processes[writer];
        if !same(&process.user, &over) && !same(&process.user, &space.above) {
            return Err(EPERM);
        }
        let mut map = parse(&text).ok_or(EINVAL)?;
        if !self.may_map(writer, &space, &map, groups) {
            return Err(EPERM);
        }
        if let Some(above) = &space.above {
            let above = above.map(groups).borrow();
            for extent in &mut map {
                let holds = |e: &&Extent| {
                    let at = offset(extent.outside, e.inside, e.count);
                    at.is_some_and(|at| e.count - at >= extent.count)
                };
                let within = above.iter().find(holds).ok_or(EPERM)?;
                extent.outside = within.outside + (extent.outside - within.inside);
            }
        }
        *space.map(groups).borrow_mut() = map;
        // Ids are called otherwise from now on, in all that are in it.
        self.prefixes.page().publish_space(space.id);
        done(0)
    }

    /// A user name space gets this map, whose second ids are those of the one above.
    fn may_map(&self, writer: Slot, space: &UserSpace, map: &[Extent], groups: bool) -> bool {
        let creds = &self.processes[writer].creds;
        let has_0 = map.iter().any(|extent| extent.outside == 0);
        let from_inside = !same(&self.processes[writer].user, &space.above);
        if !groups && has_0 {
            let may = match from_inside {
                true => space.may_map_0,
                false => self.is_capable(writer, &space.above, SETFCAP),
            };
            if !may {
                return false;
            }
        }
        if let [Extent {
            outside: id,
            count: 1,
            ..
        }] = *map
        {
            let above = match &space.above {
                Some(above) => outside(&above.map(groups).borrow(), id),
                None => Some(id),
            };
            let own = match groups {
                false => above == Some(creds.euid),
                true => !space.set_groups.get() && above == Some(creds.egid),
            };
            if own && space.owner == creds.euid {
                return true;
            }
        }
        let capability = if groups { SETGID } else { SETUID };
        self.is_capable(writer, &space.above, capability)
    }
}

fn line(inside: u32, outside: u32, count: u32) -> String {
    format!("{inside:>10} {outside:>10} {count:>10}\n")
}

/// Who comes into a user name space has all capabilities there, and nothing that it had set of them.
pub(crate) fn all_in(space: u64, creds: Credentials) -> Credentials {
    Credentials {
        secure: 0,
        effective: ALL,
        permitted: ALL,
        bounding: ALL,
        inheritable: 0,
        ambient: 0,
        user_space: space,
        ..creds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_lines_of_ids_that_lie_apart() {
        let map = parse(b"0 1000 1\n 1\t100000  65536\n").unwrap();
        assert_eq!(
            (outside(&map, 0), inside(&map, 1000)),
            (Some(1000), Some(0))
        );
        assert_eq!(
            (outside(&map, 65536), inside(&map, 165535)),
            (Some(165535), Some(65536))
        );
        assert_eq!((outside(&map, 65537), inside(&map, 0)), (None, None));
        for wrong in [
            &b""[..],
            b"\n",
            b"0 0 0",
            b"0 0",
            b"0 0 1 1",
            b"0 0 1\n\n",
            b"-1 0 1",
            b"4294967295 0 1",
            b"0 4294967295 1",
            b"1 0 4294967295",
            b"0 0 2\n1 9 1",
            b"0 5 2\n9 6 1",
            b"0x0 0 1",
            b"\xff 0 1",
        ] {
            assert_eq!(parse(wrong), None, "{}", wrong.escape_ascii());
        }
        let many = |count: u32| (0..count).fold(String::new(), |t, n| t + &format!("{n} {n} 1\n"));
        assert!(parse(many(340).as_bytes()).is_some());
        assert!(parse(many(341).as_bytes()).is_none());
    }

    #[test]
    fn name_spaces_are_counted_for_who_makes_them() {
        let counts = Rc::new(Counts::default());
        let mine: Vec<_> = (0..USERS_MOST)
            .map(|_| Counted::new(&counts, 5).unwrap())
            .collect();
        assert!(Counted::new(&counts, 5).is_err());
        assert!(Counted::new(&counts, 6).is_ok());
        drop(mine);
        assert!(counts.users.borrow().is_empty() && counts.all.get() == 0);
        let many: Vec<_> = (0..ALL_MOST - LEFT)
            .map(|n| Counted::new(&counts, 1 + n / USERS_MOST).unwrap())
            .collect();
        assert!(Counted::new(&counts, 99).is_err());
        assert!(Counted::new(&counts, 0).is_ok());
        drop(many);
    }
}
