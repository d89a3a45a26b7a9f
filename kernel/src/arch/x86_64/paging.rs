//! Page tables: four levels, 4 KiB pages for programs. The user half belongs to the space, the nucleus half is the same in all.
//!
//! Entries that point to a table carry, in bits that the processor ignores, the span of entries of that table that were ever used (in groups of four), so that
//! walking over or taking apart a sparse space does not read 512 entries per table. The root's own span is kept in its entry [`ROOT_SPAN`].
//!
//! A page mapped without any access keeps its frame in an entry that is not present ([`HELD`]).
//!
//! What always holds: entries of the user half that are present have the user bit; no table frame is reachable from user mode. A
//! page is both writable and executable only in a space that may have such (the portable part refuses to ask for it elsewhere).

use super::memory::{frame_pointer, table_pointer, PAGE};
use crate::arch::{Frame, FrameList, MapError, Mapping, Taken};
use cairn_abi::layout::USER_TOP;
use cairn_abi::service::memory::prot;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub const PRESENT: u64 = 1;
pub const WRITABLE: u64 = 1 << 1;
pub const USER: u64 = 1 << 2;
pub const WRITE_THROUGH: u64 = 1 << 3;
pub const UNCACHED: u64 = 1 << 4;
pub const ACCESSED: u64 = 1 << 5;
pub const DIRTY: u64 = 1 << 6;
pub const LARGE: u64 = 1 << 7;
pub const GLOBAL: u64 = 1 << 8;
/// Software, in an entry that points to a table of the last level, where the processor ignores it: that is the common table, which is nobody's, which many spaces show and nobody changes.
const COMMON: u64 = 1 << 8;
/// Software: mapped without access (never together with [`PRESENT`]).
const HELD: u64 = 1 << 9;
pub const NO_EXECUTE: u64 = 1 << 63;
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Slots of the root that belong to the nucleus and are in use.
pub const SHARED_SLOTS: [usize; 3] = [256, 384, 511];
/// Entry of the root that keeps the root's span (not present; bit 0 stays clear).
const ROOT_SPAN: usize = 257;
const ROOT_SPAN_EMPTY: u64 = 255 << 1;

const TABLE_ENTRIES: usize = 512;
/// What one table of the last level covers.
const TABLE_BYTES: u64 = TABLE_ENTRIES as u64 * PAGE;

/// An address space: the frame of its root table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root(pub Frame);

/// First and last entry of a table that may be in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: u16,
    last: u16,
}

impl Span {
    const BITS: u64 = 0x7ff << 52 | 7 << 9;
    const ALL: Span = Span::of(0, TABLE_ENTRIES - 1);

    const fn of(first: usize, last: usize) -> Span {
        Span {
            first: first as u16,
            last: last as u16,
        }
    }

    fn of_entry(entry: u64) -> Span {
        let first = (entry >> 52 & 0x7f) as u16;
        let last = (entry >> 59 & 0xf | entry >> 5 & 0x70) as u16;
        Span {
            first: first * 4,
            last: last * 4 + 3,
        }
    }

    fn bits(self) -> u64 {
        let (first, last) = (self.first as u64 / 4, self.last as u64 / 4);
        first << 52 | (last & 0xf) << 59 | (last & 0x70) << 5
    }

    fn of_root(table: *mut u64) -> Span {
        // SAFETY: `table` is a root table, which has 512 entries.
        let entry = unsafe { *table.add(ROOT_SPAN) };
        Span {
            first: (entry >> 1 & 0xff) as u16,
            last: (entry >> 9 & 0xff) as u16,
        }
    }

    fn store_in_root(self, table: *mut u64) {
        // SAFETY: as above.
        unsafe { *table.add(ROOT_SPAN) = (self.first as u64) << 1 | (self.last as u64) << 9 }
    }

    #[inline(always)]
    fn has(self, index: usize) -> bool {
        index >= self.first as usize && index <= self.last as usize
    }

    fn widened(self, index: usize) -> Span {
        Span {
            first: self.first.min(index as u16),
            last: self.last.max(index as u16),
        }
    }
}

fn index(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * level)) as usize & 511
}

fn frame_of(entry: u64) -> Frame {
    ((entry & ADDRESS) >> 12) as Frame
}

const ACCESS: u64 = prot::READ | prot::WRITE | prot::EXECUTE;
// The bits of a protection and of an entry are turned into each other by shifts.
const _: () = assert!(prot::READ == PRESENT && prot::WRITE == WRITABLE && prot::EXECUTE == 1 << 2);
const _: () = assert!(prot::DEVICE == WRITE_THROUGH && prot::DEVICE << 1 == UNCACHED);

/// The entry for a user page.
#[inline(always)]
pub fn leaf(frame: Frame, protection: u64) -> u64 {
    ((frame as u64) << 12) | LEAVES[(protection & (ACCESS | prot::DEVICE)) as usize]
}

/// Entries without their frames, by protection.
static LEAVES: [u64; 16] = {
    let mut leaves = [0; 16];
    let mut protection = 0;
    while protection < 16 {
        leaves[protection as usize] = leaf_bits(protection);
        protection += 1;
    }
    leaves
};

const fn leaf_bits(protection: u64) -> u64 {
    let device = protection & prot::DEVICE;
    let device = device | device << 1;
    if protection & ACCESS == 0 {
        return device | HELD;
    }
    let no_execute = if protection & prot::EXECUTE != 0 {
        0
    } else {
        NO_EXECUTE
    };
    device | PRESENT | USER | protection & prot::WRITE | no_execute
}

#[inline(always)]
fn mapping(entry: u64) -> Mapping {
    let present = entry & PRESENT;
    let executable = !entry >> 63 & present;
    Mapping {
        frame: frame_of(entry),
        prot: present | entry & (WRITABLE * present) | executable << 2 | entry >> 1 & prot::DEVICE,
        accessed: entry & ACCESSED != 0,
        dirty: entry & DIRTY != 0,
    }
}

/// A table of the last level that was used a moment ago, so that the next page of the same 2 MiB is found without a walk. To be forgotten when a table goes away.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    /// The 2 MiB that it covers, by number, of the space with this root.
    region: u64,
    table: *mut u64,
    /// The entry that points to the table, and the span that it tells.
    parent: *mut u64,
    root: Frame,
    span: Span,
}

impl Recent {
    pub const NONE: Recent = Recent {
        region: u64::MAX,
        table: core::ptr::null_mut(),
        parent: core::ptr::null_mut(),
        root: 0,
        span: Span::of(0, 0),
    };

    #[inline(always)]
    fn region(address: u64) -> u64 {
        address / TABLE_BYTES
    }

    /// Does it cover this address? (No region of it reaches beyond the user half but for the page at [`USER_TOP`], which is never mapped.)
    #[inline(always)]
    fn covers(&self, root: Root, address: u64) -> bool {
        self.region == Recent::region(address) && self.root == root.0
    }

    /// The entry for an address, if it covers it.
    #[inline(always)]
    pub fn known(&self, root: Root, address: u64) -> Option<*mut u64> {
        // SAFETY: it covers the address.
        self.covers(root, address)
            .then(|| unsafe { self.slot(address) })
    }

    /// # Safety
    /// It covers the address.
    #[inline(always)]
    unsafe fn slot(&self, address: u64) -> *mut u64 {
        // SAFETY: by the contract `table` is a live table of 512 entries.
        unsafe { self.table.add(index(address, 0)) }
    }
}

/// Recent tables of several spaces: copies go back and forth between a few of them.
pub struct Recents([Recent; 1 << RECENTS_BITS]);

const RECENTS_BITS: u32 = 5;

impl Recents {
    pub const NONE: Recents = Recents([Recent::NONE; 1 << RECENTS_BITS]);

    /// The place for the table of this address. What is written has its own half, so the two sides of a copy never take each other's place.
    #[inline(always)]
    pub fn at(&mut self, root: Root, address: u64, write: bool) -> &mut Recent {
        // Multiplicative hashing with the golden ratio (Knuth, volume 3, 6.4).
        let key = Recent::region(address).wrapping_add((root.0 as u64) << 3);
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (hash >> (u64::BITS - RECENTS_BITS + 1)) as usize;
        &mut self.0[place | usize::from(write) << (RECENTS_BITS - 1)]
    }

    pub fn forget(&mut self) {
        for recent in &mut self.0 {
            recent.region = u64::MAX;
        }
    }
}

/// Push a frame onto a list: the frame's first word is the link.
pub fn list_push(list: &mut FrameList, frame: Frame) {
    // SAFETY: the frame is the nucleus's and on no other list.
    unsafe { *(frame_pointer(frame) as *mut Frame) = list.head };
    list.head = frame;
    list.count += 1;
}

/// Pop a frame, zeroed.
pub fn list_pop(list: &mut FrameList) -> Option<Frame> {
    let frame = list_take(list)?;
    zero(frame);
    Some(frame)
}

/// Pop a frame as it is.
#[inline(never)]
pub fn list_take(list: &mut FrameList) -> Option<Frame> {
    if list.count == 0 {
        return None;
    }
    let frame = list.head;
    // SAFETY: frames on the list are the nucleus's and begin with the link.
    list.head = unsafe { *(frame_pointer(frame) as *const Frame) };
    list.count -= 1;
    Some(frame)
}

/// Fill a frame with zeroes.
#[inline]
pub fn zero(frame: Frame) {
    // SAFETY: the direct map shows the whole frame; nobody holds a reference into it.
    unsafe { super::user_copy::fill_page(frame_pointer(frame), (0, 0)) }
}

/// Make the root of an empty space in `frame`, with the nucleus's half taken from `template`.
pub fn root_new(frame: Frame, template: Frame) -> Root {
    zero(frame);
    let (table, template) = (table_pointer(frame), table_pointer(template));
    for slot in SHARED_SLOTS {
        // SAFETY: both are root tables of 512 entries.
        unsafe { *table.add(slot) = *template.add(slot) }
    }
    // SAFETY: as above.
    unsafe { *table.add(ROOT_SPAN) = ROOT_SPAN_EMPTY }
    Root(frame)
}

/// The slot of the last level for `address`; missing tables are made from `tables`. What `recent` covers was found here, so it is never the common table.
#[inline(always)]
fn slot_for(
    root: Root,
    address: u64,
    tables: &mut FrameList,
    recent: &mut Recent,
) -> Result<*mut u64, MapError> {
    if address >= USER_TOP {
        return Err(MapError::BadAddress);
    }
    let in_table = index(address, 0);
    if !recent.covers(root, address) {
        make_tables(root, address, tables, recent, &mut || {})?;
    } else if !recent.span.has(in_table) {
        // SAFETY: `recent` covers the address, so its tables are live.
        unsafe { recent.span = widen(recent.parent, in_table, AHEAD) };
    }
    // SAFETY: `recent` covers the address now.
    Ok(unsafe { recent.slot(address) })
}

/// The span of a table shall have these two pages and all between them.
///
/// # Safety
/// `recent` covers both.
#[inline(never)]
unsafe fn cover(first: u64, last: u64, recent: &mut Recent) {
    for in_table in [index(first, 0), index(last, 0)] {
        if !recent.span.has(in_table) {
            // SAFETY: by the contract its tables are live.
            recent.span = unsafe { widen(recent.parent, in_table, AHEAD) };
        }
    }
}

/// The span of a table of the last level grows by so many entries (a power of two): more than one page will be mapped there.
const AHEAD: usize = 16;

/// Let the span in an entry include the group of so many (a power of two) in which `index` is.
///
/// # Safety
/// The entry points to a table.
unsafe fn widen(entry: *mut u64, index: usize, group: usize) -> Span {
    // SAFETY: by the contract; the nucleus lock is held.
    let entry = unsafe { &mut *entry };
    let span = Span::of_entry(*entry)
        .widened(index & !(group - 1))
        .widened(index | (group - 1));
    *entry = *entry & !Span::BITS | span.bits();
    Span::of_entry(*entry)
}

#[inline(never)]
fn make_tables(
    root: Root,
    address: u64,
    tables: &mut FrameList,
    recent: &mut Recent,
    open: &mut dyn FnMut(),
) -> Result<(), MapError> {
    let (parent, table, span) = tables_down_to(1, root, address, tables, open)?;
    *recent = Recent {
        region: Recent::region(address),
        table,
        parent,
        root: root.0,
        span,
    };
    Ok(())
}

/// The tables for `address` down to what an entry of this level (1 or 2) points to are made: that entry, the table, and its span. The last one may not be the common one.
/// For `open`, which is called behind each that is made, see [`share_row`].
fn tables_down_to(
    last: u32,
    root: Root,
    address: u64,
    tables: &mut FrameList,
    open: &mut dyn FnMut(),
) -> Result<(*mut u64, *mut u64, Span), MapError> {
    // A pointer that the compiler knows nothing of, so that what is changed behind it is changed when interrupts come in.
    let tables = black_box(tables);
    if address >= USER_TOP {
        return Err(MapError::BadAddress);
    }
    let mut table = table_pointer(root.0);
    let top = index(address, 3);
    let mut span = Span::of_root(table);
    if !span.has(top) {
        span.widened(top).store_in_root(table);
    }
    let mut parent = core::ptr::null_mut();
    let mut level = 3;
    while level >= last {
        let group = if level == 1 { AHEAD } else { 1 };
        // SAFETY: `table` is a live table of 512 entries; the index is below 512.
        (table, span) = unsafe {
            parent = table.add(index(address, level));
            if level == 1 && *parent & COMMON != 0 {
                return Err(MapError::BadAddress);
            }
            table_behind(parent, index(address, level - 1), group, tables, open)?
        };
        level -= 1;
    }
    Ok((parent, table, span))
}

/// The table that an entry points to, made if there is none, and its span, which includes the group of so many (a power of two) in which `below` is.
///
/// # Safety
/// The entry is one of a live table, not of the last level.
#[inline(always)]
unsafe fn table_behind(
    parent: *mut u64,
    below: usize,
    group: usize,
    tables: &mut FrameList,
    open: &mut dyn FnMut(),
) -> Result<(*mut u64, Span), MapError> {
    // SAFETY: by the contract; the nucleus lock is held.
    let entry = unsafe { &mut *parent };
    if *entry & PRESENT == 0 {
        let Some(frame) = list_pop(tables) else {
            return Err(MapError::NoTable);
        };
        tables.used += 1;
        *entry = (frame as u64) << 12 | PRESENT | WRITABLE | USER | Span::of(below, below).bits();
        open();
    }
    let mut span = Span::of_entry(*entry);
    let table = table_pointer(frame_of(*entry));
    if !span.has(below) {
        // SAFETY: the entry points to a table.
        span = unsafe { widen(parent, below, group) };
    }
    Ok((table, span))
}

/// The table of the last level for `address` becomes the common one. None: there is none, or a page of it could be written. Every [`Recent`] must be forgotten.
pub fn keep_table(root: Root, address: u64) -> Option<Frame> {
    let mut recent = Recent::NONE;
    if !find_table(root, address, &mut recent) {
        return None;
    }
    // SAFETY: it is a live table of 512 entries, and the other the entry that points to it; the nucleus lock is held.
    let (entries, parent) = unsafe {
        (
            core::slice::from_raw_parts(recent.table, TABLE_ENTRIES),
            &mut *recent.parent,
        )
    };
    // (Written out, because the nucleus is optimised for size, which would make the whole of it take three times as long.)
    let (groups, _) = entries.as_chunks::<8>();
    let writable = groups
        .iter()
        .any(|[a, b, c, d, e, f, g, h]| (a | b | c | d | e | f | g | h) & WRITABLE != 0);
    if *parent & COMMON != 0 || writable {
        return None;
    }
    *parent = *parent & !WRITABLE | COMMON;
    Some(frame_of(*parent))
}

/// Show the common table where no table is.
pub fn show_table(
    root: Root,
    address: u64,
    table: Frame,
    tables: &mut FrameList,
) -> Result<(), MapError> {
    let (_, above, _) = tables_down_to(2, root, address, tables, &mut || {})?;
    // SAFETY: it is an entry of a live table; the nucleus lock is held.
    match unsafe { &mut *above.add(index(address, 1)) } {
        entry @ 0 => *entry = (table as u64) << 12 | PRESENT | USER | COMMON | Span::ALL.bits(),
        _ => return Err(MapError::BadAddress),
    }
    Ok(())
}

/// The existing slot of the last level for `address`.
#[inline(always)]
pub fn existing_slot(root: Root, address: u64, recent: &mut Recent) -> Option<*mut u64> {
    if !recent.covers(root, address) && !find_table(root, address, recent) {
        return None;
    }
    // SAFETY: `recent` covers the address now.
    Some(unsafe { recent.slot(address) })
}

/// The same, but none in the common table, which nobody changes.
#[inline(always)]
fn own_slot(root: Root, address: u64, recent: &mut Recent) -> Option<*mut u64> {
    // SAFETY: `recent` covers the address if there is a slot, so its tables are live.
    existing_slot(root, address, recent).filter(|_| unsafe { *recent.parent } & COMMON == 0)
}

/// Have `recent` cover the address, if there is a table.
fn find_table(root: Root, address: u64, recent: &mut Recent) -> bool {
    if address >= USER_TOP {
        return false;
    }
    let mut table = table_pointer(root.0);
    for level in (1..4).rev() {
        // SAFETY: `table` is a live table of 512 entries; the index is below 512.
        let parent = unsafe { table.add(index(address, level)) };
        // SAFETY: as above.
        let entry = unsafe { *parent };
        if entry & PRESENT == 0 {
            return false;
        }
        table = table_pointer(frame_of(entry));
        if level == 1 {
            *recent = Recent {
                region: Recent::region(address),
                table,
                parent,
                root: root.0,
                span: Span::of_entry(entry),
            };
        }
    }
    true
}

/// What a change of one entry asks of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The frame that was mapped before.
    pub before: Option<Frame>,
    /// The processor may hold the old translation.
    pub stale: bool,
}

impl Changed {
    fn from(entry: u64) -> Changed {
        Changed {
            before: (entry != 0).then(|| frame_of(entry)),
            stale: entry & PRESENT != 0,
        }
    }
}

#[inline(always)]
pub fn map(
    root: Root,
    address: u64,
    frame: Frame,
    protection: u64,
    tables: &mut FrameList,
    recent: &mut Recent,
) -> Result<Changed, MapError> {
    let slot = slot_for(root, address, tables, recent)?;
    // SAFETY: the slot is an entry of a live table; the nucleus lock is held.
    let before = unsafe { slot.replace(leaf(frame, protection)) };
    Ok(Changed::from(before))
}

#[inline(always)]
pub fn unmap(root: Root, address: u64, recent: &mut Recent) -> Changed {
    let Some(slot) = own_slot(root, address, recent) else {
        return Changed::from(0);
    };
    // SAFETY: as in `map`.
    Changed::from(unsafe { slot.replace(0) })
}

/// Change the protection of a mapped page; `before` is None if there is none.
#[inline(always)]
pub fn protect(root: Root, address: u64, protection: u64, recent: &mut Recent) -> Changed {
    let Some(slot) = own_slot(root, address, recent) else {
        return Changed::from(0);
    };
    // SAFETY: as in `map`.
    unsafe {
        let before = Changed::from(*slot);
        if *slot != 0 {
            reprotect(slot, protection);
        }
        before
    }
}

pub fn query(root: Root, address: u64, recent: &mut Recent) -> Option<Mapping> {
    let slot = existing_slot(root, address, recent)?;
    // SAFETY: the slot is an entry of a live table.
    let entry = unsafe { *slot };
    (entry != 0).then(|| mapping(entry))
}

/// The next used entry of a table within `span`, from `from` on.
fn next_used(table: *mut u64, span: Span, from: usize) -> Option<usize> {
    const STRIDE: usize = 8;
    let mut at = from.max(span.first as usize);
    while at <= span.last as usize {
        if at.is_multiple_of(STRIDE) {
            // Sparse tables are mostly empty: look at eight entries at once.
            // SAFETY: `at` is a multiple of eight and below 512.
            let [a, b, c, d, e, f, g, h] = unsafe { *table.add(at).cast::<[u64; STRIDE]>() };
            if a | b | c | d | e | f | g | h == 0 {
                at += STRIDE;
                continue;
            }
        }
        // SAFETY: spans lie within the table's 512 entries.
        if unsafe { *table.add(at) } != 0 {
            return Some(at);
        }
        at += 1;
    }
    None
}

fn end_of_row(address: u64, pages: u64) -> u64 {
    address
        .saturating_add(pages.saturating_mul(PAGE))
        .min(USER_TOP)
}

/// The next used page; see [`crate::arch::Arch::next_mapped`].
#[inline(always)]
pub fn next_mapped(
    root: Root,
    address: u64,
    pages: u64,
    recent: &mut Recent,
) -> Option<(u64, Mapping)> {
    let end = end_of_row(address, pages);
    let at = address & !(PAGE - 1);
    if at < end && recent.covers(root, at) {
        // The usual case in a walk: the very next page.
        // SAFETY: `recent` covers the address.
        let (entry, parent) = unsafe { (*recent.slot(at), *recent.parent) };
        if entry != 0 && parent & COMMON == 0 {
            return Some((at, mapping(entry)));
        }
    }
    search(root, at, end, recent)
}

fn search(root: Root, mut at: u64, end: u64, recent: &mut Recent) -> Option<(u64, Mapping)> {
    'table: while at < end {
        let mut table = table_pointer(root.0);
        let mut span = Span::of_root(table);
        let mut parent = core::ptr::null_mut();
        for level in (0..4).rev() {
            let shift = 12 + 9 * level;
            let start = index(at, level);
            let Some(found) = next_used(table, span, start) else {
                if level == 3 {
                    return None;
                }
                at = ((at >> (shift + 9)) + 1) << (shift + 9);
                continue 'table;
            };
            if found != start {
                at = (at >> (shift + 9) << 9 | found as u64) << shift;
            }
            // SAFETY: `found` is an index of the table.
            let slot = unsafe { table.add(found) };
            // SAFETY: as above.
            let entry = unsafe { *slot };
            if level == 0 {
                *recent = Recent {
                    region: Recent::region(at),
                    table,
                    parent,
                    root: root.0,
                    span,
                };
                return (at < end).then(|| (at, mapping(entry)));
            }
            if level == 1 && entry & COMMON != 0 {
                at = ((at >> shift) + 1) << shift;
                continue 'table;
            }
            parent = slot;
            table = table_pointer(frame_of(entry));
            span = Span::of_entry(entry);
        }
    }
    None
}

/// The next used page in `at..end` and the last page behind it that is in the same table and may be used; `recent` covers both.
#[inline(never)]
fn part_of_row(root: Root, at: u64, end: u64, recent: &mut Recent) -> Option<(u64, u64)> {
    if at >= end {
        return None;
    }
    let mut found = at;
    let slot = own_slot(root, at, recent);
    // SAFETY: the slot is an entry of a live table.
    if slot.is_some_and(|slot| unsafe { *slot } != 0) {
        // Another memory of recent tables may have widened the span meanwhile.
        // SAFETY: `recent` covers the address, so its tables are live.
        recent.span = unsafe { Span::of_entry(*recent.parent) };
    } else {
        found = search(root, at, end, recent)?.0;
    }
    let in_table = found & !(TABLE_BYTES - 1) | (recent.span.last as u64) << 12;
    Some((found, in_table.min(end - PAGE)))
}

/// Change the protection of a row of pages, or (None) unmap it; see [`crate::arch::Arch::change_row`]. `stale` hears of addresses whose old translation the processor may hold.
#[inline(always)]
pub fn change_row(
    root: Root,
    address: u64,
    pages: u64,
    protection: Option<u64>,
    recent: &mut Recent,
    mut wanted: impl FnMut(Frame) -> bool,
    mut stale: impl FnMut(u64),
) {
    let end = end_of_row(address, pages);
    let mut at = address;
    while let Some((found, last)) = part_of_row(root, at, end, recent) {
        let pages = ((last - found) / PAGE) as usize + 1;
        // SAFETY: `recent` covers everything from `found` to `last`; the nucleus lock is held.
        let entries = unsafe { core::slice::from_raw_parts_mut(recent.slot(found), pages) };
        for (i, entry) in (0..).zip(entries) {
            if *entry == 0 || !wanted(frame_of(*entry)) {
                continue;
            }
            if *entry & PRESENT != 0 {
                stale(found + i * PAGE);
            }
            match protection {
                // SAFETY: an entry of a live table.
                Some(protection) => unsafe { reprotect(entry, protection) },
                None => *entry = 0,
            }
        }
        at = last + PAGE;
    }
}

/// Set these bits of an entry. Other cores set ACCESSED and DIRTY at any time (SDM 4.8), so an entry that stays in use is changed in one step.
///
/// # Safety
/// It is an entry of a live table.
#[inline(always)]
pub unsafe fn set_bits(entry: *mut u64, bits: u64) {
    // SAFETY: the caller's word; it is aligned.
    unsafe { AtomicU64::from_ptr(entry) }.fetch_or(bits, Relaxed);
}

/// Give an entry that is in use another protection; device memory stays device memory.
///
/// # Safety
/// As for [`set_bits`].
#[inline(always)]
unsafe fn reprotect(entry: *mut u64, protection: u64) {
    // SAFETY: the caller's word.
    unsafe {
        let before = *entry;
        let device = mapping(before).prot & prot::DEVICE;
        let after = leaf(frame_of(before), protection | device);
        // What another core may set meanwhile is not among the bits that change.
        let change = (before ^ after) & !(ACCESSED | DIRTY);
        AtomicU64::from_ptr(entry).fetch_xor(change, Relaxed);
    }
}

/// After so many pages that are shared or taken away interrupts may come in. A power of two.
const PAGES_BETWEEN: u64 = 4;

/// Share a row of pages; see [`crate::arch::Arch::share_row`]. `stale` hears of (root, address); `open` is called between pages, when all is as if the next had not been asked for,
/// and may not return.
#[allow(clippy::too_many_arguments)] // two spaces, a range, how, and where tables and news go
#[inline(always)]
pub fn share_row(
    source: Root,
    target: Root,
    address: u64,
    pages: u64,
    read_only: bool,
    tables: &mut FrameList,
    recent: [&mut Recent; 2],
    mut changed: impl FnMut(Frame, Option<Frame>),
    mut stale: impl FnMut(Root, u64),
    mut open: impl FnMut() + Copy,
) -> Result<(), MapError> {
    let [source_recent, target_recent] = recent;
    let end = end_of_row(address, pages);
    let taken_away = if read_only { WRITABLE } else { 0 };
    let mut at = address;
    while let Some((found, last)) = part_of_row(source, at, end, source_recent) {
        // New tables are zeroed first.
        open();
        // The target's table, with a span that holds all that may come.
        if !target_recent.covers(target, found) {
            // (A copy, so that what it looks at stays in registers here.)
            let mut open = open;
            make_tables(target, found, tables, target_recent, &mut open)?;
        }
        // SAFETY: `target_recent` covers the one now, and the other is in the same table.
        unsafe { cover(found, last, target_recent) }
        // To look for a row takes as long as some pages of it.
        open();
        let pages = ((last - found) / PAGE) as usize + 1;
        // SAFETY: the recent tables cover everything from `found` to `last`; they are different tables; the nucleus lock is held.
        let (from, to) = unsafe {
            (
                core::slice::from_raw_parts_mut(source_recent.slot(found), pages),
                core::slice::from_raw_parts_mut(target_recent.slot(found), pages),
            )
        };
        at = last + PAGE;
        for (i, (from, to)) in (0..).zip(from.iter_mut().zip(to)) {
            if i % PAGES_BETWEEN == PAGES_BETWEEN - 1 {
                open();
            }
            let entry = *from;
            if entry == 0 {
                continue;
            }
            let page = found + i * PAGE;
            if entry & taken_away != 0 {
                // SAFETY: an entry of a live table.
                unsafe { AtomicU64::from_ptr(from) }.fetch_and(!taken_away, Relaxed);
                stale(source, page);
            }
            let before = core::mem::replace(to, entry & !(taken_away | ACCESSED | DIRTY));
            if before & PRESENT != 0 {
                stale(target, page);
            }
            changed(frame_of(entry), (before != 0).then(|| frame_of(before)));
        }
    }
    Ok(())
}

/// Entries of a table that are looked at at a time while it is taken away: a multiple of what spans are told in.
const TAKE_SHARE: usize = 64;

/// Take one table page out of a space that nobody uses; see [`crate::arch::Arch::take_table`], and for `open` [`share_row`]. Every [`Recent`] must be forgotten.
/// `goes_on`: a table of many shares is taken at once.
pub fn take_table(
    root: Root,
    goes_on: bool,
    mut emptied: impl FnMut(Frame),
    mut open: impl FnMut(),
) -> Taken {
    let mut table = table_pointer(root.0);
    let span = Span::of_root(table);
    let Some(mut found) = next_used(table, span, 0) else {
        // SAFETY: a root table has 512 entries.
        unsafe { *table.add(ROOT_SPAN) = ROOT_SPAN_EMPTY }
        return Taken::Root;
    };
    Span::of(found, span.last as usize).store_in_root(table);
    for level in (0..3).rev() {
        // SAFETY: `found` is an index of the table.
        let parent = unsafe { &mut *table.add(found) };
        let child = frame_of(*parent);
        let span = Span::of_entry(*parent);
        table = table_pointer(child);
        if level == 0 && *parent & COMMON != 0 {
            *parent = 0;
            return Taken::Some;
        }
        if level == 0 {
            let mut span = span;
            while empty_share(table, span, &mut emptied, &mut open) {
                span.first += TAKE_SHARE as u16;
                *parent = *parent & !Span::BITS | span.bits();
                if !goes_on {
                    return Taken::Some;
                }
            }
            *parent = 0;
            return Taken::Table(child);
        }
        match next_used(table, span, 0) {
            Some(next) => {
                *parent = *parent & !Span::BITS | Span::of(next, span.last as usize).bits();
                found = next;
            }
            None => {
                *parent = 0;
                return Taken::Table(child);
            }
        }
    }
    Taken::Root
}

/// Empty a share of a table of the last level that is taken away, from the span's begin on. True: that was not all of the span.
#[inline(always)]
fn empty_share(
    table: *mut u64,
    span: Span,
    emptied: &mut impl FnMut(Frame),
    open: &mut impl FnMut(),
) -> bool {
    let all = (span.last + 1 - span.first) as usize;
    let share = all.min(TAKE_SHARE);
    // SAFETY: spans lie within the table's 512 entries, and nobody else uses a table that is taken away.
    let entries = unsafe { core::slice::from_raw_parts_mut(table.add(span.first as usize), share) };
    let (few, _) = entries.as_chunks_mut::<{ PAGES_BETWEEN as usize }>();
    for few in few {
        // Most are empty between a stack's or a heap's ends.
        let [a, b, c, d] = *few;
        if a | b | c | d == 0 {
            continue;
        }
        for entry in few {
            if *entry != 0 {
                emptied(frame_of(*entry));
                *entry = 0;
            }
        }
        open();
    }
    share < all
}

#[cfg(test)]
mod tests {
    use super::*;
    use prot::{EXECUTE, READ, WRITE};
    use std::cell::Cell;

    fn map(
        root: Root,
        address: u64,
        frame: Frame,
        protection: u64,
        tables: &mut FrameList,
    ) -> Result<Changed, MapError> {
        let mut recent = MAPPED.get();
        let result = super::map(root, address, frame, protection, tables, &mut recent);
        MAPPED.set(recent);
        result
    }

    fn unmap(root: Root, address: u64) -> Changed {
        recent(|recent| super::unmap(root, address, recent))
    }

    fn protect(root: Root, address: u64, protection: u64) -> Changed {
        recent(|recent| super::protect(root, address, protection, recent))
    }

    fn query(root: Root, address: u64) -> Option<Mapping> {
        recent(|recent| super::query(root, address, recent))
    }

    fn next_mapped(root: Root, address: u64, pages: u64) -> Option<(u64, Mapping)> {
        recent(|recent| super::next_mapped(root, address, pages, recent))
    }

    thread_local! {
        static RECENT: Cell<Recent> = const { Cell::new(Recent::NONE) };
        static MAPPED: Cell<Recent> = const { Cell::new(Recent::NONE) };
    }

    fn forget_recent() {
        RECENT.set(Recent::NONE);
        MAPPED.set(Recent::NONE);
    }

    /// All operations of a test but `map` share one memory of recent tables.
    fn recent<T>(operation: impl FnOnce(&mut Recent) -> T) -> T {
        let mut recent = RECENT.get();
        let result = operation(&mut recent);
        RECENT.set(recent);
        result
    }

    /// A root in frame 1 and a list of table frames 2..n.
    fn space(tables: u32) -> (Root, FrameList) {
        for slot in SHARED_SLOTS {
            // SAFETY: frame 0 of the arena plays the template.
            unsafe { *table_pointer(0).add(slot) = 0xabc003 }
        }
        forget_recent();
        let root = root_new(1, 0);
        let mut list = FrameList::default();
        for frame in 2..2 + tables {
            list_push(&mut list, frame);
        }
        (root, list)
    }

    #[test]
    fn maps_and_finds() {
        let (root, mut list) = space(20);
        assert_eq!(query(root, 0x20_0000), None);
        map(root, 0x20_0000, 700, READ | EXECUTE, &mut list).unwrap();
        map(root, 0x7fff_ff00_0000, 701, READ | WRITE, &mut list).unwrap();
        assert_eq!(list.count, 14);
        let seen = query(root, 0x20_0000).unwrap();
        assert_eq!((seen.frame, seen.prot), (700, READ | EXECUTE));
        let again = map(root, 0x20_0000, 702, READ, &mut list).unwrap();
        assert_eq!(
            again,
            Changed {
                before: Some(700),
                stale: true
            }
        );
        assert_eq!(unmap(root, 0x20_0000).before, Some(702));
        assert_eq!(unmap(root, 0x20_0000).before, None);
        assert_eq!(query(root, 0x7fff_ff00_0000).unwrap().prot, READ | WRITE);
        assert_eq!(
            map(root, USER_TOP, 1, READ, &mut list),
            Err(MapError::BadAddress)
        );
    }

    #[test]
    fn no_access_keeps_the_frame() {
        let (root, mut list) = space(4);
        map(root, 0x1000, 9, READ, &mut list).unwrap();
        assert!(protect(root, 0x1000, 0).stale);
        let held = query(root, 0x1000).unwrap();
        assert_eq!((held.frame, held.prot), (9, 0));
        assert!(!protect(root, 0x1000, READ | WRITE).stale);
        assert_eq!(unmap(root, 0x1000).before, Some(9));
    }

    #[test]
    fn runs_out_of_tables_cleanly() {
        let (root, mut list) = space(2);
        assert_eq!(
            map(root, 0x1000, 9, READ, &mut list),
            Err(MapError::NoTable)
        );
        assert_eq!(next_mapped(root, 0, 1 << 35), None);
        list_push(&mut list, 30);
        map(root, 0x1000, 9, READ, &mut list).unwrap();
        assert_eq!(next_mapped(root, 0, 1 << 35).unwrap().0, 0x1000);
    }

    #[test]
    fn walks_sparse_spaces() {
        let (root, mut list) = space(40);
        let pages = [
            0x1000,
            0x3000,
            0x1f_f000,
            0x20_0000,
            0x4000_0000,
            0x6000_0000_0000,
            0x7fff_ffff_e000,
        ];
        for (i, &page) in pages.iter().rev().enumerate() {
            map(root, page, 100 + i as u32, READ, &mut list).unwrap();
        }
        let mut at = 0;
        let mut seen = Vec::new();
        while let Some((page, _)) = next_mapped(root, at, 1 << 36) {
            seen.push(page);
            at = page + PAGE;
        }
        assert_eq!(seen, pages);
        assert_eq!(next_mapped(root, 0x4000, 10), None);
        assert_eq!(next_mapped(root, 0x1000, 1).unwrap().0, 0x1000);
    }

    #[test]
    fn taking_apart_returns_everything() {
        let (root, mut list) = space(40);
        let mut given: Vec<u32> = Vec::new();
        for i in 0..200u64 {
            let page = ((i * 0x1_2345_6000_7000) % USER_TOP) & !0xfff;
            let page = page & 0x7f80_3fe0_3fff_f000 & 0x0180_0060_0003_f000;
            if map(root, page, 500 + i as u32, READ | WRITE, &mut list)
                .unwrap()
                .before
                .is_none()
            {
                given.push(page as u32);
            }
        }
        let used = 40 - list.count;
        let (mut tables, mut frames) = (0, 0);
        loop {
            let (before, since) = (frames, Cell::new(0));
            let emptied = |_| {
                frames += 1;
                since.set(since.get() + 1);
                assert!(since.get() <= PAGES_BETWEEN);
            };
            forget_recent();
            match super::take_table(root, false, emptied, || since.set(0)) {
                Taken::Root => break,
                Taken::Some => {}
                Taken::Table(frame) => {
                    assert!((2..42).contains(&frame));
                    list_push(&mut list, frame);
                    tables += 1;
                }
            }
            assert!(frames - before <= TAKE_SHARE);
        }
        assert_eq!((tables, frames), (used, given.len()));
        assert_eq!(list.count, 40);
        // The emptied root can be used again.
        map(root, 0x5000, 8, READ, &mut list).unwrap();
        assert_eq!(next_mapped(root, 0, 1 << 36).unwrap().0, 0x5000);
    }

    #[test]
    fn the_common_table_is_passed_over() {
        let (first, mut list) = space(60);
        let (second, third) = (root_new(900, 0), root_new(901, 0));
        const AT: u64 = 0x7fff_8000_0000;
        const BEHIND: u64 = AT + TABLE_BYTES;
        for (address, frame, bits) in [
            (AT - PAGE, 99, READ | WRITE),
            (AT + PAGE, 100, READ | EXECUTE),
            (AT + 7 * PAGE, 101, READ | WRITE),
            (BEHIND, 102, READ | WRITE),
        ] {
            map(first, address, frame, bits, &mut list).unwrap();
        }
        assert_eq!(super::keep_table(first, AT), None);
        assert_eq!(super::keep_table(first, AT + 16 * TABLE_BYTES), None);
        assert!(protect(first, AT + 7 * PAGE, READ).stale);
        let table = super::keep_table(first, AT).unwrap();
        assert_eq!(super::keep_table(first, AT), None);
        forget_recent();
        let mut none = FrameList::default();
        let shown = |root, tables: &mut _| super::show_table(root, AT, table, tables);
        assert_eq!(shown(second, &mut none), Err(MapError::NoTable));
        shown(second, &mut list).unwrap();
        for root in [first, second] {
            assert_eq!(shown(root, &mut list), Err(MapError::BadAddress));
        }
        map(third, AT, 103, READ, &mut list).unwrap();
        assert_eq!(shown(third, &mut list), Err(MapError::BadAddress));
        map(second, BEHIND + PAGE, 104, READ | WRITE, &mut list).unwrap();
        for root in [first, second] {
            let seen = query(root, AT + PAGE).unwrap();
            assert_eq!((seen.frame, seen.prot), (100, READ | EXECUTE));
            assert_eq!(query(root, AT), None);
            // Also after it has been looked at.
            let nothing = Changed::from(0);
            assert_eq!(unmap(root, AT + PAGE), nothing);
            assert_eq!(protect(root, AT + PAGE, READ), nothing);
            for page in [1, 300] {
                let mapped = map(root, AT + page * PAGE, 1, READ, &mut list);
                assert_eq!(mapped, Err(MapError::BadAddress));
            }
            assert_eq!(query(root, AT + PAGE).unwrap().frame, 100);
        }
        assert_eq!(next_mapped(first, AT - PAGE, 600).unwrap().0, AT - PAGE);
        assert_eq!(next_mapped(first, AT, 600).unwrap().0, BEHIND);
        // Rows that begin before it, and in it.
        let (mut here, mut there) = (Recent::NONE, Recent::NONE);
        let (mut shared, mut removed) = (Vec::new(), Vec::new());
        for at in [AT - PAGE, AT + PAGE] {
            super::share_row(
                first,
                second,
                at,
                600,
                true,
                &mut list,
                [&mut here, &mut there],
                |frame, _| shared.push(frame),
                |_, _| {},
                || {},
            )
            .unwrap();
        }
        assert_eq!(shared, [99, 102, 102]);
        super::change_row(
            first,
            AT - PAGE,
            600,
            None,
            &mut here,
            |frame| {
                removed.push(frame);
                true
            },
            |_| {},
        );
        assert_eq!(removed, [99, 102]);
        // What takes a space apart leaves it.
        let before = list.count;
        let (used, mut emptied) = (list.used, Vec::new());
        for root in [first, second, third] {
            loop {
                forget_recent();
                match super::take_table(root, true, |frame| emptied.push(frame), || {}) {
                    Taken::Root => break,
                    Taken::Some => {}
                    Taken::Table(frame) => {
                        assert_ne!(frame, table);
                        list_push(&mut list, frame);
                    }
                }
            }
        }
        assert_eq!(emptied, [99, 102, 104, 103]);
        assert_eq!(list.count - before, used - 1);
        shown(third, &mut list).unwrap();
        assert_eq!(query(third, AT + PAGE).unwrap().frame, 100);
    }

    #[test]
    fn rows_do_what_single_pages_do() {
        let (source, mut list) = space(60);
        let target = root_new(900, 0);
        let (mut here, mut there) = (Recent::NONE, Recent::NONE);
        // A row over a border of tables, with a hole.
        let start = 0x40_0000 - 3 * PAGE;
        for i in (0..8).filter(|&i| i != 4) {
            let at = start + i * PAGE;
            super::map(
                source,
                at,
                100 + i as u32,
                READ | WRITE,
                &mut list,
                &mut here,
            )
            .unwrap();
        }
        assert_eq!(query(source, start + 3 * PAGE).unwrap().frame, 103);
        assert_eq!(query(source, start + 4 * PAGE), None);
        assert_eq!(unmap(source, start + PAGE).before, Some(101));

        let (mut shared, mut flushed) = (Vec::new(), Vec::new());
        let (opened, used) = (Cell::new(0), list.used);
        let share = |list: &mut FrameList,
                     shared: &mut Vec<_>,
                     flushed: &mut Vec<_>,
                     here: &mut Recent,
                     there: &mut Recent| {
            super::share_row(
                source,
                target,
                start - PAGE,
                10,
                true,
                list,
                [here, there],
                |new, old| shared.push((new, old)),
                |root, at| flushed.push((root, at)),
                || opened.set(opened.get() + 1),
            )
        };
        let mut none = FrameList::default();
        assert_eq!(
            share(&mut none, &mut shared, &mut flushed, &mut here, &mut there),
            Err(MapError::NoTable)
        );
        // One of the tables stays, as behind an interrupt.
        list_push(&mut none, list_take(&mut list).unwrap());
        assert_eq!(
            share(&mut none, &mut shared, &mut flushed, &mut here, &mut there),
            Err(MapError::NoTable)
        );
        share(&mut list, &mut shared, &mut flushed, &mut here, &mut there).unwrap();
        assert_eq!(list.used, used + 3);
        assert_eq!(shared.len(), 6);
        assert_eq!(flushed.len(), 6);
        // Before there was no table, and before and behind the first; before and behind what is needed for three pages in one table and five in the next, and behind each of the
        // three that are made; in the next after four pages.
        assert_eq!(opened.get(), 1 + 2 + 4 + 3 + 1);
        for root in [source, target] {
            let seen = query(root, start + 5 * PAGE).unwrap();
            assert_eq!((seen.frame, seen.prot), (105, READ));
        }
        assert_eq!(query(target, start + PAGE), None);
        // Again: everything is replaced by itself, only the target's translations are stale.
        shared.clear();
        flushed.clear();
        share(&mut list, &mut shared, &mut flushed, &mut here, &mut there).unwrap();
        assert!(shared.iter().all(|&(new, old)| Some(new) == old));
        assert!(flushed.iter().all(|&(root, _)| root == target));

        let mut asked = 0;
        super::change_row(
            source,
            start,
            8,
            Some(READ | WRITE),
            &mut here,
            |frame| {
                asked += 1;
                frame != 100
            },
            |_| {},
        );
        assert_eq!(asked, 6);
        assert_eq!(query(source, start).unwrap().prot, READ);
        assert_eq!(query(source, start + 2 * PAGE).unwrap().prot, READ | WRITE);

        let mut removed = Vec::new();
        super::change_row(
            target,
            start + 2 * PAGE,
            1 << 20,
            None,
            &mut there,
            |frame| {
                removed.push(frame);
                true
            },
            |_| {},
        );
        assert_eq!(removed, [102, 103, 105, 106, 107]);
        assert_eq!(next_mapped(target, 0, 1 << 30).unwrap().0, start);
    }

    #[test]
    fn rows_see_what_others_have_widened() {
        let (root, mut list) = space(20);
        let (mut here, mut there) = (Recent::NONE, Recent::NONE);
        super::map(root, 0x40_0000, 100, READ, &mut list, &mut here).unwrap();
        super::map(
            root,
            0x40_0000 + 300 * PAGE,
            101,
            READ,
            &mut list,
            &mut there,
        )
        .unwrap();
        super::map(
            root,
            0x40_0000 + 400 * PAGE,
            102,
            READ,
            &mut list,
            &mut there,
        )
        .unwrap();
        let mut removed = Vec::new();
        for start in [0, 300] {
            let at = 0x40_0000 + start * PAGE;
            super::change_row(
                root,
                at,
                200,
                None,
                &mut here,
                |frame| {
                    removed.push(frame);
                    true
                },
                |_| {},
            );
        }
        assert_eq!(removed, [100, 101, 102]);
    }

    #[test]
    fn entries_and_protections_agree() {
        for protection in 0..16 {
            let seen = mapping(leaf(77, protection) | DIRTY);
            let mut expected = protection;
            if protection & ACCESS != 0 {
                expected |= READ;
            }
            assert_eq!((seen.frame, seen.prot, seen.dirty), (77, expected, true));
        }
    }

    #[test]
    fn spans_survive_their_encoding() {
        for (first, last) in [(0, 0), (0, 511), (4, 7), (255, 300), (508, 511)] {
            let span = Span::of_entry(Span::of(first, last).bits() | 0x1234_5007);
            assert_eq!(
                (span.first, span.last),
                (first as u16 / 4 * 4, last as u16 / 4 * 4 + 3)
            );
        }
    }
}
