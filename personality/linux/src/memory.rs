//! Calls to `vm`: the personality's own memory, and what exec and the mmap family need.

use crate::errno::{Result, EBADF, ENOMEM};
use crate::machine::gate;
use crate::machine::request::Request;
use cairn_abi::layout::{linux_slot, PAGE};
use cairn_idl::{fs, vm};
use core::sync::atomic::{AtomicU64, Ordering};

pub use cairn_idl::vm::{advice, flags, prot};

/// Zeroed memory of the personality.
pub fn map_private(length: u64) -> Option<u64> {
    map(0, length, prot::READ | prot::WRITE, flags::PERSONALITY).ok()
}

pub fn unmap_private(address: u64, length: u64) {
    let _ = unmap(address, length);
}

/// Counts the changes of what is mapped where. Processes that share this memory share it too.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// While this stays the same no address has come to mean other memory, or memory that allows less.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// What was known of addresses is old. (To be called after the change: whoever asked before it has an old number.)
fn changed() {
    GENERATION.fetch_add(1, Ordering::Release);
}

/// A request that changes what is mapped where, or what may be done there.
#[inline(always)]
fn change(slot: u32, words: &[u64]) -> Result<u64> {
    let result = Request::new(words).call(slot).map(|w| w[0]);
    changed();
    result
}

/// Anonymous memory; the flags are `vm`'s.
pub fn map(address: u64, length: u64, prot: u64, flags: u64) -> Result<u64> {
    change(linux_slot::VM, &[vm::MAP, address, length, prot, flags])
}

pub fn unmap(address: u64, length: u64) -> Result<()> {
    change(linux_slot::VM, &[vm::UNMAP, address, length]).map(|_| ())
}

pub fn protect(address: u64, length: u64, prot: u64) -> Result<()> {
    let words = [vm::PROTECT, address, length, prot];
    change(linux_slot::VM, &words).map(|_| ())
}

pub fn remap(old: u64, old_length: u64, new_length: u64, flags: u64, new: u64) -> Result<u64> {
    let words = [vm::REMAP, old, old_length, new_length, flags, new];
    change(linux_slot::VM, &words)
}

/// What is mapped there of an object, shared, shows it from this page on.
pub fn remap_pages(address: u64, length: u64, first: u64) -> Result<u64> {
    change(linux_slot::VM, &[vm::REMAP_PAGES, address, length, first])
}

pub fn advise(address: u64, length: u64, advice: u64) -> Result<()> {
    let words = [vm::ADVISE, address, length, advice];
    change(linux_slot::VM, &words).map(|_| ())
}

/// Make a range resident, for writing or for reading: by as many requests as it needs, between which `vm` answers others.
pub fn populate(address: u64, length: u64, write: bool) -> Result<()> {
    let advice = match write {
        true => vm::advice::POPULATE_WRITE,
        false => vm::advice::POPULATE_READ,
    };
    let (end, mut left) = (address + length, length);
    while left > 0 {
        let words = [vm::ADVISE, end - left, left, advice];
        // (What `vm` says is less each time.)
        left = change(linux_slot::VM, &words)?.min(left - 1);
    }
    Ok(())
}

/// Map part of a memory object through its portal.
pub fn map_object(
    object: u32,
    address: u64,
    length: u64,
    prot: u64,
    flags: u64,
    offset: u64,
) -> Result<u64> {
    let words = [vm::OBJECT_MAP, address, length, prot, flags, offset];
    change(object, &words)
}

/// Most parts of [`map_parts`].
pub const PARTS: usize = 5;

/// A part of an object for [`map_parts`]: its first page from the start of all, how many, the object's page, and its protection. None: it does not fit into a word.
pub fn part(page: u64, pages: u64, shown: u64, prot: u64) -> Option<u64> {
    let fits = page < 1 << 20 && pages < 1 << 20 && shown < 1 << 21 && prot < 8;
    fits.then_some(page | pages << 20 | shown << 40 | prot << 61)
}

/// Map parts of a memory object, as a program's are, at an address or (0) where there is room for so many pages → where they begin.
pub fn map_parts(object: u32, address: u64, pages: u64, parts: [u64; PARTS]) -> Result<u64> {
    let [a, b, c, d, e] = parts;
    let words = [vm::OBJECT_MAP_PARTS, address, pages, a, b, c, d, e];
    change(object, &words)
}

/// The same as [`map_object`], privately, of what is mapped privately at `like`.
pub fn map_alike(
    like: u64,
    address: u64,
    length: u64,
    prot: u64,
    flags: u64,
    offset: u64,
) -> Result<u64> {
    let words = [vm::MAP_ALIKE, address, length, prot, flags, offset, like];
    change(linux_slot::VM, &words)
}

/// Map a file, by an object that its server gives for what MMAP is to be told. An object that nobody has mapped yet goes with its server; if that dies in between, its successor has another one.
pub fn map_file(file: u32, wish: [u64; 3], map: impl Fn(u32) -> Result<u64>) -> Result<u64> {
    let [offset, length, shared] = wish;
    let mut lives = 3;
    loop {
        let words = Request::new(&[fs::MMAP, offset, length, shared])
            .brings(1)
            .call(file)?;
        let object = words[7] as u32;
        let result = map(object);
        gate::close(object);
        lives -= 1;
        if result != Err(EBADF) || lives == 0 {
            return result;
        }
    }
}

/// 256 more entries for this process's portal table.
pub fn grow_table() -> Result<()> {
    Request::new(&[vm::GROW_TABLE])
        .call(linux_slot::VM)
        .map(|_| ())
}

/// Round up to whole pages; ENOMEM past the end of the address space.
pub fn pages_up(length: u64) -> Result<u64> {
    length
        .checked_next_multiple_of(PAGE)
        .filter(|l| *l <= cairn_abi::layout::USER_TOP)
        .ok_or(ENOMEM)
}
