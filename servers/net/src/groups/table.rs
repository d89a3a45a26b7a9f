//! What /proc/net shows of groups: `igmp`, `igmp6`, `dev_mcast`, `mcfilter` and `mcfilter6`, in lines as Linux writes them.

use super::wire::Version;
use super::{is_everybody, Group, ALL_NODES, ALL_NODES_HERE, ALL_SYSTEMS};
use crate::address::Address;
use crate::interface::Interface;
use crate::server::Net;
use alloc::string::String;
use cairn_ethernet::frame::{group_v4, group_v6};
use cairn_idl::net::Listing;
use cairn_tcp::time::Time;
use core::fmt::Write;

/// A line is no longer than this; so many groups are looked at in one request.
const LINE: usize = 160;
const SHARE: usize = 256;

impl Net {
    /// A place is an interface's, counted from 1, in the upper half, and in the lower half which of its lines is next. Where to go on (0: that was all).
    pub(crate) fn put_groups(
        &self,
        which: Listing,
        place: u64,
        text: &mut String,
        room: usize,
    ) -> u64 {
        let (mut at, mut line) = ((place >> 32) as usize, place as u32 as usize);
        let mut looked = 0;
        while let Some(interface) = self.interfaces.all.get(at) {
            let count = self.lines_of(interface, which);
            while line < count {
                if text.len() + LINE > room || looked >= SHARE {
                    return (at as u64) << 32 | line as u64;
                }
                looked += 1;
                self.put_line(text, interface, which, (line, count));
                line += 1;
            }
            (at, line) = (at + 1, 0);
        }
        0
    }

    fn groups_of(&self, interface: u32) -> &[u32] {
        let mut lines = self.groups.lines.iter();
        let line = lines.find(|of| of.interface == interface);
        line.map_or(&[], |line| &line.groups)
    }

    /// A heading, what all have, and a line for each group; of filters one for each source.
    fn lines_of(&self, interface: &Interface, which: Listing) -> usize {
        let groups = self.groups_of(interface.number);
        match which {
            Listing::Filters | Listing::Filters6 => groups.len(),
            _ => groups.len() + 3,
        }
    }

    fn put_line(
        &self,
        text: &mut String,
        interface: &Interface,
        which: Listing,
        (line, count): (usize, usize),
    ) {
        let filters = matches!(which, Listing::Filters | Listing::Filters6);
        let v4 = matches!(which, Listing::Groups | Listing::Filters);
        let groups = self.groups_of(interface.number);
        // The newest first, and behind them what every interface has.
        let place = match (filters, line) {
            (true, line) => Some(count - 1 - line),
            (false, 0) => return self.put_heading(text, interface, which),
            (false, line) => groups.len().checked_sub(line),
        };
        let group = place.and_then(|place| self.groups.groups.get(*groups.get(place)?));
        match group {
            Some(group) if group.users == 0 => {}
            Some(group) if filters && group.address.is_v4() == v4 => {
                put_filters(text, interface, group);
            }
            Some(_) if filters => {}
            Some(group) if is_everybody(&group.address) => {}
            Some(group) => {
                put_group(text, interface, which, (&group.address, group.users, false));
            }
            None if filters => {}
            None => {
                let own: &[Address] = match (which, line - groups.len()) {
                    (Listing::Groups, 1) => &[ALL_SYSTEMS],
                    (Listing::Groups, _) => &[],
                    (Listing::Groups6, 1) => &[ALL_NODES],
                    (Listing::Groups6, _) => &[ALL_NODES_HERE],
                    (_, 1) => &[ALL_NODES],
                    (_, _) => &[ALL_SYSTEMS],
                };
                for address in own {
                    let group = self.groups.group(interface.number, address);
                    let users = 1 + group.map_or(0, |group| group.users);
                    put_group(text, interface, which, (address, users, true));
                }
            }
        }
    }

    fn put_heading(&self, text: &mut String, interface: &Interface, which: Listing) {
        if which != Listing::Groups {
            return;
        }
        let groups = self.groups_of(interface.number).iter();
        let groups = groups.filter_map(|at| self.groups.groups.get(*at));
        let mine = |group: &&Group| {
            group.address.is_v4() && group.users != 0 && !is_everybody(&group.address)
        };
        let count = 1 + groups.filter(mine).count();
        let mut lines = self.groups.lines.iter();
        let line = lines.find(|of| of.interface == interface.number);
        let version = line.map_or(Version::Present, |line| line.version(Time(self.time.0)));
        let version = match version {
            Version::First => "V1",
            Version::Second => "V2",
            Version::Present => "V3",
        };
        let (number, name) = (interface.number, name(interface));
        let _ = writeln!(text, "{number}\t{name:<10}: {count:5} {version:>7}");
    }
}

fn name(interface: &Interface) -> &str {
    core::str::from_utf8(&interface.name).unwrap_or("?")
}

fn hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
}

fn put_group(
    text: &mut String,
    interface: &Interface,
    which: Listing,
    (address, users, own): (&Address, u32, bool),
) {
    let (number, name) = (interface.number, name(interface));
    let v4 = address.as_v4();
    match (which, v4) {
        (Listing::Groups, Some(bytes)) => {
            let word = u32::from_le_bytes(bytes);
            let _ = writeln!(text, "\t\t\t\t{word:08X} {users:5} 0:00000000\t\t0");
        }
        (Listing::Groups6, None) => {
            let _ = write!(text, "{number:<4} {name:<15} ");
            hex(text, &address.0);
            // MAF_LOADED, MAF_NOREPORT
            let near = address.0[1] & 15 <= 1;
            let flags = match (own, near) {
                (true, true) => 8,
                (true, false) => 0xc,
                (false, true) => 8,
                (false, false) => 4,
            };
            let _ = writeln!(text, " {users:5} {flags:08X} 0");
        }
        (Listing::Hardware, v4) if !interface.is_loopback() && interface.has_header() => {
            let mac = match v4 {
                Some(bytes) => group_v4(bytes),
                None => group_v6(address.0),
            };
            let _ = write!(text, "{number:<4} {name:<15} {:<5} {:<5} ", 1, 0);
            hex(text, &mac);
            text.push('\n');
        }
        _ => {}
    }
}

/// (As many sources as there is room for in a line's part of the text.)
fn put_filters(text: &mut String, interface: &Interface, group: &Group) {
    for of in group.wanted.named.iter() {
        if text.capacity() - text.len() < LINE {
            return;
        }
        let (number, name) = (interface.number, name(interface));
        let (includes, excludes) = (of.includes, of.excludes);
        match (group.address.as_v4(), of.address.as_v4()) {
            (Some(group), Some(source)) => {
                let (group, source) = (u32::from_be_bytes(group), u32::from_be_bytes(source));
                let _ = writeln!(
                    text,
                    "{number:3} {name:>6.6} 0x{group:08x} 0x{source:08x} {includes:6} {excludes:6}"
                );
            }
            _ => {
                let _ = write!(text, "{number:3} {name:>6.6} ");
                hex(text, &group.address.0);
                text.push(' ');
                hex(text, &of.address.0);
                let _ = writeln!(text, " {includes:6} {excludes:6}");
            }
        }
    }
}
