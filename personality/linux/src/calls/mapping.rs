//! mmap and its family, brk. `vm` does the work; files give memory objects.

use super::exec::STACK;
use super::io::{access_mode, usable};
use super::status::{major, minor, stat_handle};
use crate::descriptors::OpenFile;
use crate::errno::{
    Result, EACCES, EAGAIN, EBADF, EFAULT, EINVAL, ENODEV, ENOMEM, EOPNOTSUPP, EOVERFLOW,
};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use crate::memory::{self, advice, flags, prot};
use crate::path::make_room;
use crate::process::Process;
use cairn_abi::layout::{linux_slot, LINUX_LOW, LINUX_STACK_TOP, LINUX_TOP, PAGE, PERSONALITY};
use cairn_idl::fs::{kind, o, s};
use cairn_idl::vm::{self, LockHow};
use core::sync::atomic::Ordering;

const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_SHARED_VALIDATE: u64 = 3;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;
const MAP_DENYWRITE: u64 = 0x800;
const MAP_LOCKED: u64 = 0x2000;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_POPULATE: u64 = 0x8000;
const MAP_HUGETLB: u64 = 0x4_0000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
/// Flags that MAP_SHARED_VALIDATE takes of any file: Linux's LEGACY_MAP_MASK.
const VALIDATED: u64 = 0x3f
    | MAP_GROWSDOWN
    | MAP_DENYWRITE
    | 0x1000
    | MAP_LOCKED
    | MAP_NORESERVE
    | MAP_POPULATE
    | 0x3_0000
    | MAP_HUGETLB
    | 0xfc00_0000;

/// A range of the program: page-aligned, below the personality.
fn own_range(address: u64, length: u64) -> Result<u64> {
    if !address.is_multiple_of(PAGE) {
        return Err(EINVAL);
    }
    let length = memory::pages_up(length)?;
    match address.checked_add(length) {
        Some(end) if end <= LINUX_TOP => Ok(length),
        _ => Err(ENOMEM),
    }
}

/// Ranges for calls that Linux answers with EINVAL for wild addresses.
fn old_range(address: u64, length: u64) -> Result<u64> {
    own_range(address, length).map_err(|_| EINVAL)
}

/// The range of advice: only what cannot be a range is EINVAL.
fn advised_range(address: u64, length: u64) -> Result<u64> {
    let end = length
        .checked_next_multiple_of(PAGE)
        .and_then(|length| address.checked_add(length));
    end.ok_or(EINVAL)?;
    own_range(address, length)
}

/// Pages from `start` on that hold `length` bytes, as msync(2) and mlock(2) count them: the sum may begin again at zero.
fn wrapped_pages(length: u64) -> u64 {
    length.wrapping_add(PAGE - 1) & !(PAGE - 1)
}

/// No page of the machine is set aside as part of a huge one.
fn no_huge_pages(given: u64) -> Result<()> {
    match given & MAP_HUGETLB {
        0 => Ok(()),
        _ if given & MAP_ANONYMOUS != 0 => Err(ENOMEM),
        _ => Err(EINVAL),
    }
}

fn vm_flags(given: u64) -> Result<u64> {
    let mut wanted = match given & 15 {
        // Whoever asks so wants to hear of flags that are not known.
        MAP_SHARED_VALIDATE if given & MAP_ANONYMOUS != 0 => return Err(EINVAL),
        MAP_SHARED_VALIDATE if given & !VALIDATED != 0 => return Err(EOPNOTSUPP),
        MAP_SHARED | MAP_SHARED_VALIDATE => flags::SHARED,
        MAP_PRIVATE => 0,
        _ => return Err(EINVAL),
    };
    for (linux, ours) in [
        (MAP_FIXED, flags::FIXED),
        (MAP_FIXED_NOREPLACE, flags::FIXED_NOREPLACE),
        (MAP_POPULATE, flags::POPULATE),
        (MAP_NORESERVE, flags::NO_RESERVE),
        (MAP_LOCKED, flags::LOCKED),
    ] {
        if given & linux != 0 {
            wanted |= ours;
        }
    }
    // Linux ignores it; the C library says so of a library's segments, which may be copies from the start.
    if given & MAP_DENYWRITE != 0 && wanted & flags::SHARED == 0 {
        wanted |= flags::LIBRARY;
    }
    if wanted & flags::FIXED_NOREPLACE != 0 {
        wanted &= !flags::FIXED;
    }
    Ok(wanted)
}

pub fn mmap(f: &mut Frame) -> Result<u64> {
    let (address, length, protection) = (f.arg(0), f.arg(1), f.arg(2) & 7);
    let (given, offset) = (f.arg(3), f.arg(5));
    if length == 0 || !offset.is_multiple_of(PAGE) {
        return Err(EINVAL);
    }
    let length = memory::pages_up(length)?;
    let wanted = vm_flags(given)?;
    no_huge_pages(given)?;
    let fixed = wanted & (flags::FIXED | flags::FIXED_NOREPLACE) != 0;
    let hint = if fixed {
        own_range(address, length)?;
        if address < LINUX_LOW {
            return Err(crate::errno::EPERM);
        }
        address
    } else {
        // A hint that cannot be had is no hint.
        let page = address & !(PAGE - 1);
        if own_range(page, length).is_ok() && page >= LINUX_LOW {
            page
        } else {
            0
        }
    };
    let anonymous = given & MAP_ANONYMOUS != 0;
    let start = match anonymous {
        // Linux grows mappings with MAP_GROWSDOWN by faults; all of it is there from the start here.
        true => memory::map(hint, length, protection, wanted)?,
        false => map_file(f.arg(4), hint, length, protection, wanted, offset)?,
    };
    if wanted & flags::POPULATE != 0 && length > vm::POPULATED && protection != 0 {
        let (done, write) = (vm::POPULATED, protection & prot::WRITE != 0);
        // What could not be made resident comes by faults.
        let _ = memory::populate(start + done, length - done, write);
    }
    if !anonymous && wanted & flags::LOCKED != 0 {
        // As far as it can be: pages that are beyond the file's end are not.
        let _ = user::touch(user::range(start, length)?, false);
    }
    Ok(start)
}

/// As much of a file, mapped shared to be read, can be made writable: its holes get pages for that, which it is not to cost whoever reads large holes.
const WRITTEN_LATER: u64 = 64 << 20;

fn map_file(
    fd: u64,
    address: u64,
    length: u64,
    protection: u64,
    wanted: u64,
    offset: u64,
) -> Result<u64> {
    let file = usable(fd)?;
    if file.object.is_some() || file.mode & s::IFMT == s::IFDIR {
        return Err(ENODEV);
    }
    offset.checked_add(length).ok_or(EOVERFLOW)?;
    if file.is(kind::READS_ZEROS) {
        return map_zeros(&file, address, length, protection, wanted);
    }
    let shared = wanted & flags::SHARED != 0;
    if !shared {
        if let Some(like) = mapped_last(&file) {
            let mapped = memory::map_alike(like, address, length, protection, wanted, offset);
            if mapped != Err(EBADF) {
                return note_mapped(&file, mapped);
            }
        }
    }
    make_room()?;
    let writable = shared && protection & prot::WRITE != 0;
    let map = |writable: bool| {
        let wish = [offset, length, writable.into()];
        memory::map_file(file.slot(), wish, |object| {
            memory::map_object(object, address, length, protection, wanted, offset)
        })
    };
    // What can be written by the descriptor can be by the mapping, as soon as mprotect(2) says so; what cannot (a seal) is for readers.
    let later = shared && !writable && length <= WRITTEN_LATER;
    let result = match map(writable || later) {
        Err(_) if later => map(false),
        result => result,
    };
    match shared {
        true => result,
        false => note_mapped(&file, result),
    }
}

/// `/dev/zero` (and not `/dev/full`, which reads as zeros as well): new memory with each mapping, wherever it begins.
fn map_zeros(
    file: &OpenFile,
    address: u64,
    length: u64,
    protection: u64,
    wanted: u64,
) -> Result<u64> {
    const ZERO: (u32, u32) = (1, 5);
    let device = stat_handle(file)?.rdev;
    let shared_writable = wanted & flags::SHARED != 0 && protection & prot::WRITE != 0;
    match access_mode(file)? {
        o::WRONLY => return Err(EACCES),
        o::RDONLY if shared_writable => return Err(EACCES),
        _ if (major(device), minor(device)) != ZERO => return Err(ENODEV),
        _ => {}
    }
    memory::map(address, length, protection, wanted)
}

/// Where the file is mapped, if nothing has been mapped or unmapped since: a loader maps a library in four or five calls, and `vm` knows from the first one what is meant. Only where nobody else could unmap that meanwhile.
fn mapped_last(file: &OpenFile) -> Option<u64> {
    let (start, when) = &file.mapped;
    let same = when.load(Ordering::Relaxed) == memory::generation();
    (same && process().is_alone()).then(|| start.load(Ordering::Relaxed))
}

fn note_mapped(file: &OpenFile, mapped: Result<u64>) -> Result<u64> {
    let start = mapped?;
    file.mapped.0.store(start, Ordering::Relaxed);
    file.mapped.1.store(memory::generation(), Ordering::Relaxed);
    Ok(start)
}

pub fn munmap(f: &mut Frame) -> Result<u64> {
    if f.arg(1) == 0 {
        return Err(EINVAL);
    }
    let length = old_range(f.arg(0), f.arg(1))?;
    memory::unmap(f.arg(0), length).map(|()| 0)
}

pub fn mprotect(f: &mut Frame) -> Result<u64> {
    const GROWSDOWN: u64 = 0x0100_0000;
    const GROWSUP: u64 = 0x0200_0000;
    let (address, rights) = (f.arg(0), f.arg(2));
    if rights & !(GROWSDOWN | GROWSUP | 0xf) != 0
        || rights & GROWSDOWN != 0 && rights & GROWSUP != 0
    {
        return Err(EINVAL);
    }
    let length = own_range(address, f.arg(1))?;
    if length == 0 {
        return Ok(0);
    }
    let (start, end) = match rights & (GROWSDOWN | GROWSUP) {
        0 => (address, address + length),
        // From the stack's lowest page on: so the C library makes it executable for a library that asks for it. (Nothing grows upwards.)
        GROWSDOWN if (STACK..LINUX_STACK_TOP).contains(&address) => (STACK, address + length),
        _ => return Err(EINVAL),
    };
    memory::protect(start, end - start, rights & 7).map(|()| 0)
}

pub fn mremap(f: &mut Frame) -> Result<u64> {
    const MAYMOVE: u64 = 1;
    const FIXED: u64 = 2;
    const DONT_UNMAP: u64 = 4;
    let (old, old_length, new_length, flags, new) =
        (f.arg(0), f.arg(1), f.arg(2), f.arg(3), f.arg(4));
    let moves = flags & (FIXED | DONT_UNMAP) != 0;
    if flags & !(MAYMOVE | FIXED | DONT_UNMAP) != 0
        || moves && flags & MAYMOVE == 0
        || new_length == 0
        || flags & DONT_UNMAP != 0 && old_length != new_length
    {
        return Err(EINVAL);
    }
    // A length that is none after it was rounded.
    if !old.is_multiple_of(PAGE) || wrapped_pages(new_length) == 0 {
        return Err(EINVAL);
    }
    // A second place for what is shared there.
    if old_length == 0 {
        own_range(old, PAGE).map_err(|_| EFAULT)?;
    }
    let old_length =
        own_range(old, old_length).map_err(|_| match memory::advise(old, PAGE, 0) {
            Ok(()) => EINVAL,
            Err(_) => EFAULT,
        })?;
    let new_length = memory::pages_up(new_length).or_else(|error| {
        // Something to be made longer comes first.
        memory::advise(old, old_length, 0).map_err(|_| EFAULT)?;
        Err(error)
    })?;
    // (Without FIXED the address is a hint, and has to be one.)
    if moves {
        old_range(new, new_length)?;
    }
    memory::remap(old, old_length, new_length, flags, new)
}

/// remap_file_pages(2), as Linux has it since 4.0: by mapping anew.
pub fn remap_file_pages(f: &mut Frame) -> Result<u64> {
    let (start, length) = (f.arg(0) & !(PAGE - 1), f.arg(1) & !(PAGE - 1));
    let (prot, first) = (f.arg(2), f.arg(3));
    if prot != 0 || length == 0 || first.checked_add(length / PAGE).is_none() {
        return Err(EINVAL);
    }
    old_range(start, length)?;
    memory::remap_pages(start, length, first)
}

pub fn madvise(f: &mut Frame) -> Result<u64> {
    const DONTNEED: u64 = 4;
    const FREE: u64 = 8;
    const REMOVE: u64 = 9;
    const KNOWN_HINTS: [u64; 12] = [0, 1, 2, 12, 13, 14, 15, 16, 17, 20, 21, 24];
    let (address, what) = (f.arg(0), f.arg(2) & 0xffff_ffff);
    let length = advised_range(address, f.arg(1))?;
    let others = [DONTNEED, FREE, REMOVE, advice::DONT_FORK, advice::DO_FORK];
    let more = [
        advice::WIPE_ON_FORK,
        advice::KEEP_ON_FORK,
        advice::WILL_NEED,
    ];
    let populates = [advice::POPULATE_READ, advice::POPULATE_WRITE];
    let known = [&others[..], &more, &populates, &KNOWN_HINTS];
    if !known.iter().any(|some| some.contains(&what)) {
        return Err(EINVAL);
    }
    if length == 0 {
        return Ok(0);
    }
    match what {
        DONTNEED | FREE => memory::advise(address, length, advice::DONT_NEED)?,
        REMOVE => memory::advise(address, length, advice::REMOVE)?,
        advice::DONT_FORK | advice::DO_FORK | advice::WIPE_ON_FORK | advice::KEEP_ON_FORK => {
            memory::advise(address, length, what)?
        }
        advice::WILL_NEED => memory::advise(address, length, advice::WILL_NEED)?,
        advice::POPULATE_READ | advice::POPULATE_WRITE => {
            let write = what == advice::POPULATE_WRITE;
            match memory::populate(address, length, write) {
                // Pages of a file that must be read first: the program waits for them.
                Err(EAGAIN) if user::touch(user::range(address, length)?, write) => {}
                Err(EAGAIN) => return Err(EFAULT),
                other => other?,
            }
        }
        // It changes nothing, but something must be there.
        hint if KNOWN_HINTS.contains(&hint) => memory::advise(address, length, 0)?,
        _ => return Err(EINVAL),
    }
    Ok(0)
}

pub fn msync(f: &mut Frame) -> Result<u64> {
    // What is mapped shared are the file's own pages: there is nothing to do but to see them to the disk.
    const INVALIDATE: u64 = 2;
    const SYNC: u64 = 4;
    if f.arg(2) & !7 != 0 || f.arg(2) & 5 == 5 {
        return Err(EINVAL);
    }
    let mut at = f.arg(0);
    let end = at + own_range(at, wrapped_pages(f.arg(1)))?;
    if f.arg(2) & INVALIDATE != 0 && at < end {
        memory::advise(at, end - at, advice::INVALIDATE)?;
    } else if f.arg(2) & SYNC == 0 && at < end {
        memory::advise(at, end - at, 0)?;
    }
    while f.arg(2) & SYNC != 0 && at < end {
        let words = [vm::SYNC, at, end - at];
        let reached = Request::new(&words).call(linux_slot::VM)?[0];
        at = reached.max(at + PAGE);
    }
    Ok(0)
}

pub fn mincore(f: &mut Frame) -> Result<u64> {
    let length = own_range(f.arg(0), f.arg(1))?;
    let range = user::range(f.arg(2), length / PAGE)?;
    Request::new(&[vm::RESIDENT, f.arg(0), length])
        .input_user(range)
        .call(linux_slot::VM)
        .map(|_| 0)
}

/// Lock a range or unlock it, as `vm` does; pages that must be read first are touched.
fn lock(address: u64, length: u64, how: LockHow) -> Result<u64> {
    /// Times that pages may go again before the lock holds them.
    const TRIES: usize = 4;
    let start = address & !(PAGE - 1);
    let length = wrapped_pages((address - start).wrapping_add(length));
    if length == 0 {
        return Ok(0);
    }
    start.checked_add(length).ok_or(EINVAL)?;
    let range = user::range(start, length).map_err(|_| ENOMEM)?;
    for _ in 0..TRIES {
        let words = [vm::LOCK, start, length, how as u64];
        if Request::new(&words).call(linux_slot::VM)?[0] == 0 {
            return Ok(0);
        }
        if !user::touch(range, false) {
            return Err(ENOMEM);
        }
    }
    Err(EAGAIN)
}

pub fn mlock(f: &mut Frame) -> Result<u64> {
    lock(f.arg(0), f.arg(1), LockHow::Lock)
}

pub fn mlock2(f: &mut Frame) -> Result<u64> {
    match f.arg(2) & 0xffff_ffff {
        0 => lock(f.arg(0), f.arg(1), LockHow::Lock),
        1 => lock(f.arg(0), f.arg(1), LockHow::LockOnFault),
        _ => Err(EINVAL),
    }
}

pub fn munlock(f: &mut Frame) -> Result<u64> {
    lock(f.arg(0), f.arg(1), LockHow::Unlock)
}

fn lock_all(what: u64) -> Result<u64> {
    Request::new(&[vm::LOCK_ALL, what])
        .call(linux_slot::VM)
        .map(|_| 0)
}

pub fn mlockall(f: &mut Frame) -> Result<u64> {
    let what = f.arg(0) & 0xffff_ffff;
    if what == 0 || what & !7 != 0 || what == 4 {
        return Err(EINVAL);
    }
    use_break_exactly();
    lock_all(what)
}

pub fn munlockall(_: &mut Frame) -> Result<u64> {
    lock_all(0)
}

/// Reserve room for the break, so that it moves without a call from now on.
fn reserve_break(process: &Process, start: u64) {
    const SIZES: [u64; 4] = [1 << 30, 1 << 28, 1 << 25, 1 << 20];
    let kind = flags::FIXED_NOREPLACE | flags::NO_RESERVE | flags::BREAK;
    for size in SIZES {
        match memory::map(start, size, prot::READ | prot::WRITE, kind) {
            Ok(_) => {
                process.brk_max.store(start + size, Ordering::Relaxed);
                return;
            }
            Err(EAGAIN) => {
                process.brk_exact.store(true, Ordering::Relaxed);
                return;
            }
            Err(_) => {}
        }
    }
}

/// From now on the break has what it uses and no room beside: what is locked or limited must be known exactly.
pub fn use_break_exactly() {
    let process = process();
    if process.brk_exact.swap(true, Ordering::Relaxed) {
        return;
    }
    let [start, now, max] = [&process.brk_start, &process.brk_now, &process.brk_max]
        .map(|word| word.load(Ordering::Relaxed));
    let top = now.next_multiple_of(PAGE).min(max);
    process.brk_max.store(top, Ordering::Relaxed);
    if max > top {
        let _ = memory::unmap(top, max - top);
    }
    if top > start {
        let words = [vm::LOCK, start, top - start, LockHow::InUse as u64];
        let _ = Request::new(&words).call(linux_slot::VM);
    }
}

/// The break moves, and what is mapped for it.
fn move_break(process: &Process, wanted: u64) -> Result<u64> {
    let (now, top) = (
        process.brk_now.load(Ordering::Relaxed),
        process.brk_max.load(Ordering::Relaxed),
    );
    let new_top = match wanted.checked_next_multiple_of(PAGE) {
        Some(new_top) if new_top <= LINUX_TOP => new_top,
        _ => return Ok(now),
    };
    if new_top > top {
        let plain = prot::READ | prot::WRITE;
        if memory::map(top, new_top - top, plain, flags::FIXED_NOREPLACE).is_err() {
            return Ok(now);
        }
    } else if new_top < top {
        memory::unmap(new_top, top - new_top)?;
    }
    process.brk_max.store(new_top, Ordering::Relaxed);
    process.brk_now.store(wanted, Ordering::Relaxed);
    let end = now.min(new_top);
    if end > wanted {
        let _ = user::fill(wanted, 0, end - wanted);
    }
    Ok(wanted)
}

/// brk where the quick call does not do: asking, shrinking, beyond the reserve, which the first that grows makes.
pub fn brk(f: &mut Frame) -> Result<u64> {
    let process = process();
    let wanted = f.arg(0);
    let start = process.brk_start.load(Ordering::Relaxed);
    if wanted > start
        && process.brk_max.load(Ordering::Relaxed) == start
        && !process.brk_exact.load(Ordering::Relaxed)
    {
        // Of two threads one finds the room taken, by the other.
        reserve_break(process, start);
    }
    let (start, now, max) = (
        process.brk_start.load(Ordering::Relaxed),
        process.brk_now.load(Ordering::Relaxed),
        process.brk_max.load(Ordering::Relaxed),
    );
    if wanted < start {
        return Ok(now);
    }
    if process.brk_exact.load(Ordering::Relaxed) {
        return move_break(process, wanted);
    }
    if wanted > max {
        return Ok(now);
    }
    process.brk_now.store(wanted, Ordering::Relaxed);
    if wanted < now {
        let first = wanted.next_multiple_of(PAGE);
        let last = now.next_multiple_of(PAGE);
        if last > first {
            memory::advise(first, last - first, advice::DONT_NEED)?;
        }
        // The rest of the last page must read as zero when the break grows again.
        let end = first.min(now);
        if end > wanted {
            let _ = user::fill(wanted, 0, end - wanted);
        }
    }
    Ok(wanted)
}

pub fn arch_prctl(f: &mut Frame) -> Result<u64> {
    const SET_FS: u64 = 0x1002;
    const GET_FS: u64 = 0x1003;
    match f.arg(0) {
        SET_FS if f.arg(1) >= PERSONALITY => Err(crate::errno::EPERM),
        SET_FS => {
            crate::machine::area::set_fs_base(f.arg(1));
            Ok(0)
        }
        GET_FS => user::write(f.arg(1), &crate::machine::area::fs_base()).map(|()| 0),
        // GS is the personality's.
        _ => Err(EINVAL),
    }
}
