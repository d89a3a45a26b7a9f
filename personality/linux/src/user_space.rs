//! A user name space that is not the first one: ids as the program knows them ("inside"), and as all servers do ("outside").
//!
//! The table is `proc`'s. It decides what the process may; here names are translated, and a process that translates wrongly deceives itself.

use crate::calls::ids;
use crate::errno::{Result, ENOMEM};
use crate::machine::area::process;
use crate::machine::published;
use crate::machine::request::Request;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::fs::Stat;
use cairn_idl::proc::{self, Credentials};
use core::sync::atomic::Ordering;

/// What an id is called that has no name inside.
pub const OVERFLOW: u32 = 65534;
/// Most bytes of both maps.
const MAPS_MOST: usize = 16 * 1024;
const EXTENT: usize = 12;

#[derive(Clone, Debug, Default)]
pub struct UserSpace {
    id: u64,
    /// What was published when the maps were read.
    version: u64,
    users: Vec<[u32; 3]>,
    groups: Vec<[u32; 3]>,
}

/// `id` of an extent whose ids of the one kind begin at `from`, and those of the other at `to`.
fn translate(map: &[[u32; 3]], id: u32, (from, to): (usize, usize)) -> Option<u32> {
    map.iter().find_map(|extent| {
        let offset = id.checked_sub(extent[from])?;
        (offset < extent[2]).then(|| extent[to].wrapping_add(offset))
    })
}

const IN: (usize, usize) = (1, 0);
const OUT: (usize, usize) = (0, 1);

fn parse(id: u64, version: u64, bytes: &[u8]) -> UserSpace {
    let words: Vec<u32> = {
        let (words, _) = bytes.as_chunks();
        words.iter().map(|word| u32::from_le_bytes(*word)).collect()
    };
    let count = words.first().map_or(0, |count| *count as usize);
    let (extents, _) = words.get(4..).unwrap_or(&[]).as_chunks();
    let (users, groups) = extents.split_at(count.min(extents.len()));
    UserSpace {
        id,
        version,
        users: users.to_vec(),
        groups: groups.to_vec(),
    }
}

/// The process is in one, whose maps are as they are now.
#[inline]
pub fn is_inside() -> bool {
    process().in_user_space.load(Ordering::Relaxed) && fresh()
}

#[inline(never)]
fn fresh() -> bool {
    let state = process().state();
    let Some(space) = &state.user else {
        return false;
    };
    if space.version == published::space_version(space.id) {
        return true;
    }
    drop(state);
    // What cannot be read is as it was.
    let _ = load();
    true
}

/// The maps are read → whether setgroups(2) is possible.
fn load() -> Result<bool> {
    let id = process().state().user.as_ref().map_or(0, |space| space.id);
    let version = published::space_version(id);
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(MAPS_MOST + EXTENT);
    reserved.map_err(|_| ENOMEM)?;
    bytes.resize(MAPS_MOST, 0);
    let request = Request::new(&[proc::USER_SPACE]).input(&mut bytes);
    let [length, id, may, ..] = request.call(linux_slot::PROC)?;
    bytes.truncate(length.min(MAPS_MOST as u64) as usize);
    let space = parse(id, version, &bytes);
    let old = process().state().user.replace(space);
    drop(old);
    Ok(may != 0)
}

/// setgroups(2) is possible.
pub fn may_set_groups() -> bool {
    !is_inside() || load().unwrap_or(false)
}

/// The process has these credentials, as `proc` says: whichever user name space it is in.
pub fn follow(creds: &Credentials) {
    let process = process();
    let inside = creds.user_space != 0;
    if inside {
        let known = process.state().user.as_ref().map(|space| space.id);
        if known != Some(creds.user_space) {
            // Until its maps are read nothing has a name there.
            let space = UserSpace {
                id: creds.user_space,
                version: u64::MAX,
                ..UserSpace::default()
            };
            let old = process.state().user.replace(space);
            drop(old);
        }
    }
    process.in_user_space.store(inside, Ordering::Relaxed);
}

/// Asked anew what the process is, after it came into another one.
pub fn enter() -> Result<()> {
    let creds = ids::outside_credentials()?;
    ids::remember(&creds);
    Ok(())
}

fn name(groups: bool, id: u32, way: (usize, usize)) -> Option<u32> {
    if !is_inside() {
        return Some(id);
    }
    let state = process().state();
    let space = state.user.as_ref()?;
    let map = if groups { &space.groups } else { &space.users };
    translate(map, id, way)
}

/// A user as the program knows it.
pub fn user(id: u32) -> u32 {
    name(false, id, IN).unwrap_or(OVERFLOW)
}

pub fn group(id: u32) -> u32 {
    name(true, id, IN).unwrap_or(OVERFLOW)
}

/// If it has a name.
pub fn known_user(id: u32) -> Option<u32> {
    name(false, id, IN)
}

pub fn known_group(id: u32) -> Option<u32> {
    name(true, id, IN)
}

/// A user of the program's as servers know it; u32::MAX ("leave it") stays.
pub fn outside_user(id: u32) -> Option<u32> {
    outside(false, id)
}

pub fn outside_group(id: u32) -> Option<u32> {
    outside(true, id)
}

fn outside(groups: bool, id: u32) -> Option<u32> {
    match id {
        u32::MAX => Some(id),
        id => name(groups, id, OUT),
    }
}

/// The owner of a file as the program sees it.
#[inline]
pub fn show(stat: &mut Stat) {
    if is_inside() {
        (stat.uid, stat.gid) = (user(stat.uid), group(stat.gid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_translated_by_the_maps() {
        let words = [2u32, 0, 1, 0, 0, 1000, 1, 1, 100_000, 10, 5, 7, 2];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let space = parse(9, 3, &bytes);
        let users = |id, way| translate(&space.users, id, way);
        assert_eq!((users(0, OUT), users(1000, IN)), (Some(1000), Some(0)));
        assert_eq!(
            (users(10, OUT), users(100_009, IN)),
            (Some(100_009), Some(10))
        );
        assert_eq!(
            (users(11, OUT), users(0, IN), users(99_999, IN)),
            (None, None, None)
        );
        assert_eq!(translate(&space.groups, 6, OUT), Some(8));
        assert!(parse(9, 3, &[]).users.is_empty());
        assert!(parse(9, 3, &bytes[..30]).groups.is_empty());
    }
}
