//! /proc/keys and /proc/key-users, line by line as Linux has them.

use crate::caller::Caller;
use crate::key::{Key, Kind, State, NO_GROUP, VIEW};
use crate::server::{Keys, Outside};
use alloc::string::String;
use cairn_idl::errno::EINVAL;
use cairn_idl::keys::Listing;
use core::fmt::{Error, Write};

/// The group that is told where there is none.
const NOBODY: u32 = 65534;
/// Keys that are looked at for one answer, and bytes after which it is full.
const LOOKED_AT: usize = 1024;
const FULL: usize = 8192;
/// A larger big_key is in a file, on Linux.
const IN_MEMORY: usize = 1024;

pub fn group(gid: u32) -> u32 {
    match gid {
        NO_GROUP => NOBODY,
        gid => gid,
    }
}

/// What is left of a key's time.
fn time(key: &Key, now: u64, to: &mut String) -> Result<(), Error> {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let mut left = String::new();
    match key.expiry {
        // (As Linux has it, where a key has one time for both.)
        _ if key.state == State::Revoked => left.push_str("expd"),
        0 => left.push_str("perm"),
        _ if key.has_expired(now) => left.push_str("expd"),
        expiry => match expiry - now {
            left_over @ ..MINUTE => write!(left, "{left_over}s")?,
            left_over @ MINUTE..HOUR => write!(left, "{}m", left_over / MINUTE)?,
            left_over @ HOUR..DAY => write!(left, "{}h", left_over / HOUR)?,
            left_over if left_over < 7 * DAY => write!(left, "{}d", left_over / DAY)?,
            left_over => write!(left, "{}w", left_over / (7 * DAY))?,
        },
    }
    write!(to, "{left:>4} ")
}

impl<O: Outside> Keys<O> {
    fn line(&self, key: &Key, now: u64, to: &mut String) -> Result<(), Error> {
        let flag = |is: bool, letter: char| if is { letter } else { '-' };
        write!(
            to,
            "{:08x} I{}-{}--{} {:5} ",
            key.serial,
            flag(key.state == State::Revoked, 'R'),
            flag(key.counted, 'Q'),
            flag(key.state == State::Invalid, 'i'),
            key.holders,
        )?;
        time(key, now, to)?;
        let kind = key.kind.name();
        let (uid, gid) = (key.uid, group(key.gid));
        write!(to, "{:08x} {uid:5} {gid:5} {kind:<9} ", key.mode)?;
        let text = self.store.text_of(key);
        to.push_str(&String::from_utf8_lossy(text));
        let length = key.payload.len();
        match key.kind {
            Kind::Keyring if key.count == 0 => to.push_str(": empty"),
            Kind::Keyring => write!(to, ": {}", key.count)?,
            Kind::BigKey => {
                let place = if length > IN_MEMORY { "file" } else { "buff" };
                write!(to, ": {length} [{place}]")?;
            }
            _ => write!(to, ": {length}")?,
        }
        to.push('\n');
        Ok(())
    }

    /// Lines from this number on → the number to go on from.
    pub fn list(&mut self, caller: Option<&Caller>, what: Listing, first: u64) -> Result<u64, i64> {
        self.text.clear();
        match (what, caller) {
            (Listing::Keys, Some(caller)) => self.list_keys(caller, first),
            (Listing::Users, _) => self.list_users(first),
            _ => Err(EINVAL),
        }
    }

    fn list_keys(&mut self, caller: &Caller, first: u64) -> Result<u64, i64> {
        let mut text = core::mem::take(&mut self.text);
        let mut from = i32::try_from(first.max(1)).map_err(|_| EINVAL)?;
        let mut next = 0;
        let reached = self.reach_own(caller);
        for looked in 0.. {
            let Some((&serial, &at)) = self.store.serials.range(from..).next() else {
                break;
            };
            if looked == LOOKED_AT || text.len() >= FULL {
                next = serial as u64;
                break;
            }
            let plainly = |key: &Key| key.allows(&caller.who, false, VIEW);
            let possessed = |key: &Key| key.allows(&caller.who, true, VIEW);
            let key = self.store.get(at)?;
            let is_reached = || self.store.is_reached(at, reached, &caller.who);
            if plainly(key) || possessed(key) && is_reached() {
                self.line(key, caller.now, &mut text).map_err(|_| EINVAL)?;
            }
            match serial.checked_add(1) {
                Some(after) => from = after,
                None => break,
            }
        }
        self.text = text;
        Ok(next)
    }

    fn list_users(&mut self, first: u64) -> Result<u64, i64> {
        let first = u32::try_from(first).map_err(|_| EINVAL)?;
        let users = self.store.users.range(first..).enumerate();
        for (looked, (&uid, user)) in users {
            if looked == LOOKED_AT {
                return Ok(uid.into());
            }
            let (keys, bytes) = self.store.limits.of(uid);
            let (count, counted) = (user.keys, user.counted);
            let line = writeln!(
                self.text,
                "{uid:5}: {:5} {count}/{count} {counted}/{keys} {}/{bytes}",
                count + 1,
                user.bytes
            );
            line.map_err(|_| EINVAL)?;
        }
        Ok(0)
    }
}
