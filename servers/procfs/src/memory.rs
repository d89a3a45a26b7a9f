//! Texts about a process's memory, in the formats of proc(5): `maps`, `smaps`, `smaps_rollup`.

use crate::system::{Shown, System};
use crate::table::Who;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use cairn_idl::fs::MEMORY_DEVICE;
use cairn_idl::vm::{
    flags, prot, MapEntry, Usage, OF_ABSENT, OF_BREAK, OF_LOCKED, OF_MOST_SHIFT, OF_WIPED,
};
use core::fmt::Write;

/// How files of memfd_create(2) are called by their server.
const MEMFDS: &str = "/run/shm/#";
/// A page, and what vm's USAGE counts for one, in KiB and in parts of a KiB.
const PAGE_KIB: u64 = 4;
const SHARE_KIB: u64 = 4096 / PAGE_KIB;
/// Most mappings that `smaps` tells of: each is a question to vm and some 700 bytes. As many that are locked does `smaps_rollup` ask about.
const SMAPS_MOST: usize = 2048;

/// The mappings of a process. Above the program lies what serves its system calls: on Linux, the kernel.
fn mappings<S: System>(system: &mut S, who: Who) -> Option<(u32, alloc::vec::Vec<MapEntry>)> {
    let domain = system.status(who.pid, who.tid, 0)?.domain;
    let mut maps = system.maps(domain);
    maps.retain(|map| map.start < cairn_abi::layout::PERSONALITY);
    Some((domain, maps))
}

fn has(map: &MapEntry, flag: u64) -> bool {
    u64::from(map.flags) & flag != 0
}

/// What mappings show that one text tells of, by maker and tag.
type Files = BTreeMap<(u64, u64), Shown>;

/// Device, inode number and name of what a mapping shows.
fn shown<S: System>(system: &mut S, files: &mut Files, map: &MapEntry) -> Shown {
    let named = |name: &str| Shown {
        name: name.into(),
        ..Shown::default()
    };
    match (map.maker, map.tag) {
        (0, 0) if has(map, flags::STACK) => named("[stack]"),
        (0, 0) if has(map, OF_BREAK) => named("[heap]"),
        (0, 0) => named(""),
        (0, number) => Shown {
            device: MEMORY_DEVICE,
            inode: number,
            ..named("/dev/zero (deleted)")
        },
        (maker, tag) => {
            let file = files.entry((maker, tag));
            let file = file.or_insert_with(|| system.shown(maker, tag).unwrap_or_default());
            let mut file = file.clone();
            if file.name.starts_with(MEMFDS) {
                // As the personality calls it. (The name that memfd_create(2) was given is nowhere kept.)
                file.name = "/memfd: (deleted)".into();
            }
            file
        }
    }
}

fn header(map: &MapEntry, shown: &Shown, out: &mut String) {
    let bit = |mask: u64, yes: char| match u64::from(map.prot) & mask != 0 {
        true => yes,
        false => '-',
    };
    let line = format!(
        "{:08x}-{:08x} {}{}{}{} {:08x} {:02x}:{:02x} {} ",
        map.start,
        map.end,
        bit(prot::READ, 'r'),
        bit(prot::WRITE, 'w'),
        bit(prot::EXECUTE, 'x'),
        if has(map, flags::SHARED) { 's' } else { 'p' },
        map.offset,
        shown.device >> 8 & 0xfff,
        shown.device & 0xff | shown.device >> 12 & 0xf_ff00,
        shown.inode,
    );
    // A line has one name, whatever that has in it.
    let name = shown.name.replace('\n', "\\012");
    let _ = match name.is_empty() {
        true => writeln!(out, "{line}"),
        false => writeln!(out, "{line:<72} {name}"),
    };
}

pub fn maps<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let mut files = Files::new();
    for map in mappings(system, who)?.1 {
        let shown = shown(system, &mut files, &map);
        header(&map, &shown, out);
    }
    Some(())
}

/// What is in memory of a range.
fn usage<S: System>(system: &mut S, domain: u32, (first, end): (u64, u64)) -> Usage {
    let mut all = Usage::default();
    let mut at = first;
    while let Some(part) = system.usage(domain, at, end) {
        all.private_clean += part.private_clean;
        all.private_dirty += part.private_dirty;
        all.shared_clean += part.shared_clean;
        all.shared_dirty += part.shared_dirty;
        all.anonymous += part.anonymous;
        all.share += part.share;
        all.share_dirty += part.share_dirty;
        all.share_anonymous += part.share_anonymous;
        all.share_file += part.share_file;
        // Each part must lead on.
        if part.next <= at || part.next >= end {
            break;
        }
        at = part.next;
    }
    all
}

fn line(out: &mut String, label: &str, kib: u64) {
    let label = format!("{label}:");
    let _ = writeln!(out, "{label:<16}{kib:8} kB");
}

/// The lines that a mapping and all together have. Memory is 4 KiB pages; nothing is swapped, and nobody notes which pages are read: all count as referenced.
fn counts(it: &Usage, all: bool, locked: u64, out: &mut String) {
    let shared = it.shared_clean + it.shared_dirty;
    let resident = it.private_clean + it.private_dirty + shared;
    line(out, "Rss", resident * PAGE_KIB);
    line(out, "Pss", it.share / SHARE_KIB);
    line(out, "Pss_Dirty", it.share_dirty / SHARE_KIB);
    if all {
        let objects = it.share.saturating_sub(it.share_anonymous);
        line(out, "Pss_Anon", it.share_anonymous / SHARE_KIB);
        line(out, "Pss_File", it.share_file / SHARE_KIB);
        let shared_memory = objects.saturating_sub(it.share_file);
        line(out, "Pss_Shmem", shared_memory / SHARE_KIB);
    }
    for (label, pages) in [
        ("Shared_Clean", it.shared_clean),
        ("Shared_Dirty", it.shared_dirty),
        ("Private_Clean", it.private_clean),
        ("Private_Dirty", it.private_dirty),
        ("Referenced", resident),
        ("Anonymous", it.anonymous),
        ("LazyFree", 0),
        ("AnonHugePages", 0),
        ("ShmemPmdMapped", 0),
        ("FilePmdMapped", 0),
        ("Shared_Hugetlb", 0),
        ("Private_Hugetlb", 0),
        ("Swap", 0),
        ("SwapPss", 0),
    ] {
        line(out, label, pages * PAGE_KIB);
    }
    line(out, "Locked", locked / SHARE_KIB);
}

/// Two letters for what a mapping is and may become.
fn flag_names(map: &MapEntry, out: &mut String) {
    let most = map.flags >> OF_MOST_SHIFT & 7;
    let shared = has(map, flags::SHARED);
    let is = |rights: u32, right: u64| u64::from(rights) & right != 0;
    out.push_str("VmFlags: ");
    for (name, there) in [
        ("rd", is(map.prot, prot::READ)),
        ("wr", is(map.prot, prot::WRITE)),
        ("ex", is(map.prot, prot::EXECUTE)),
        ("sh", shared),
        ("mr", is(most, prot::READ)),
        ("mw", is(most, prot::WRITE)),
        ("me", is(most, prot::EXECUTE)),
        ("ms", shared),
        ("gd", has(map, flags::STACK)),
        ("lo", has(map, OF_LOCKED)),
        ("nr", has(map, flags::NO_RESERVE)),
        ("wf", has(map, OF_WIPED)),
        ("dc", has(map, OF_ABSENT)),
        ("ac", !shared && is(map.prot, prot::WRITE)),
    ] {
        if there {
            let _ = write!(out, "{name} ");
        }
    }
    out.push('\n');
}

pub fn smaps<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let (domain, maps) = mappings(system, who)?;
    if maps.len() > SMAPS_MOST {
        return None;
    }
    let mut files = Files::new();
    for map in maps {
        let shown = shown(system, &mut files, &map);
        header(&map, &shown, out);
        line(out, "Size", (map.end - map.start) / 1024);
        line(out, "KernelPageSize", PAGE_KIB);
        line(out, "MMUPageSize", PAGE_KIB);
        let it = usage(system, domain, (map.start, map.end));
        let locked = if has(&map, OF_LOCKED) { it.share } else { 0 };
        counts(&it, false, locked, out);
        out.push_str("THPeligible:    0\n");
        flag_names(&map, out);
    }
    Some(())
}

pub fn smaps_rollup<S: System>(system: &mut S, who: Who, out: &mut String) -> Option<()> {
    let (domain, maps) = mappings(system, who)?;
    let (first, last) = (maps.first()?, maps.last()?);
    let line = format!(
        "{:08x}-{:08x} ---p 00000000 00:00 0 ",
        first.start, last.end
    );
    let _ = writeln!(out, "{line:<73}[rollup]");
    let locked = maps.iter().filter(|map| has(map, OF_LOCKED));
    let locked = locked.take(SMAPS_MOST);
    let locked = locked.map(|map| usage(system, domain, (map.start, map.end)).share);
    let locked = locked.sum();
    let it = usage(system, domain, (first.start, last.end));
    counts(&it, true, locked, out);
    Some(())
}
