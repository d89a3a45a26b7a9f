//! /proc/keys, /proc/key-users and /proc/sys/kernel/keys: asked of the keys' server.

use crate::system::System;
use crate::table::Who;
use alloc::string::String;
use cairn_idl::keys::{Limits, Listing};
use cairn_resmgr::written::Numbers;
use core::fmt::Write;

/// What the process that reads may see.
pub fn list<S: System>(system: &mut S, who: Who, what: Listing, to: &mut String) -> Option<()> {
    to.push_str(&system.key_list(what, who.reader, who.label));
    Some(())
}

pub fn limit<S: System>(system: &mut S, which: Limits, to: &mut String) -> Option<()> {
    writeln!(to, "{}", system.key_limit(which).unwrap_or(0)).ok()
}

/// Which limit a file of /proc/sys/kernel/keys shows; none: another file.
pub fn limit_of(name: &str) -> Option<Limits> {
    Some(match name {
        "gc_delay" => Limits::GcDelay,
        "maxbytes" => Limits::Maxbytes,
        "maxkeys" => Limits::Maxkeys,
        "persistent_keyring_expiry" => Limits::PersistentExpiry,
        "root_maxbytes" => Limits::RootMaxbytes,
        "root_maxkeys" => Limits::RootMaxkeys,
        _ => return None,
    })
}

/// A number written to such a file, and how much of the text it is.
pub fn set_limit<S: System>(system: &mut S, which: Limits, text: &[u8]) -> Result<usize, i64> {
    let (value, end) = Numbers::first(text)?;
    system.set_key_limit(which, value)?;
    Ok(end)
}
