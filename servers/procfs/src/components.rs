//! /proc/cairn: the components of the system, as `init` tells of them. `components` and `portals` are for everybody; who may open `restart` for writing has a
//! component started again.

use crate::system::System;
use crate::table::Who;
use alloc::string::String;
use cairn_idl::components as init;
use cairn_idl::errno::ENOENT;

const STATES: &str =
    "name state priority effective cpu_ns messages memory threads portals lives restart\n";
const PORTALS: &str = "name kind what how\n";
/// The file that is written to.
pub const RESTART: &str = "restart";

pub fn states<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    out.push_str(STATES);
    out.push_str(&system.components(init::STATES));
    Some(())
}

pub fn portals<S: System>(system: &mut S, _: Who, out: &mut String) -> Option<()> {
    out.push_str(PORTALS);
    out.push_str(&system.components(init::PORTALS));
    Some(())
}

/// Have the named one started again; a newline at the end is none of its name.
pub fn restart<S: System>(system: &mut S, text: &[u8]) -> Result<(), i64> {
    let name = text.strip_suffix(b"\n").unwrap_or(text);
    match name {
        b"" => Err(ENOENT),
        name if name.len() > 23 => Err(ENOENT),
        name => system.restart_component(name),
    }
}
