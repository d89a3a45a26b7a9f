//! Memory from `vm` as slices, for components that manage large amounts of it themselves (a file server's pages).

use crate::paging;
use crate::portal::{Message, Portal};
use crate::startup;
use cairn_abi::{layout, Error};
use cairn_idl::errno::EAGAIN;
use cairn_idl::vm;
use cairn_idl::wire::Failure;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};

const VM: Portal = Portal(layout::native_slot::VM);

/// Fresh zero-filled memory, kept for ever. It takes frames only as it is used, and is not counted against what may be promised: [`populate`] what is about to be used.
pub fn map(length: usize) -> Option<&'static mut [u8]> {
    let read_write = vm::prot::READ | vm::prot::WRITE;
    let start = vm::Client(&VM)
        .map(0, length as u64, read_write, vm::flags::NO_RESERVE)
        .ok()?;
    if start == 0 || length == 0 {
        return None;
    }
    // SAFETY: `vm` says that these addresses are mapped for this domain from now on, and they were given to nobody else; nothing here unmaps them.
    Some(unsafe { core::slice::from_raw_parts_mut(start as *mut u8, length) })
}

/// The boot archive in the component that may write to it; `None` without one and from the second time on.
pub fn archive() -> Option<&'static mut [u8]> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let length = startup::archive_len();
    if length == 0 || TAKEN.swap(true, Ordering::Relaxed) {
        return None;
    }
    // SAFETY: `init` mapped that many bytes there; the manifest gives the archive for writing to one component only, which takes it once.
    Some(unsafe { core::slice::from_raw_parts_mut(layout::ARCHIVE as *mut u8, length) })
}

/// The memory that outlives this component, with what its predecessor left there (at first zeroes); empty without, or where it was had as [`keepsake_bytes`].
pub fn keepsake() -> &'static [AtomicU64] {
    match startup::keepsake_len() {
        0 => &[],
        _ if had_as(BYTES, WORDS) => &[],
        // SAFETY: `init` mapped that many bytes there, readable and writable, for this component alone, which only ever uses them as atomics.
        len => unsafe {
            core::slice::from_raw_parts(layout::KEEPSAKE as *const AtomicU64, len / 8)
        },
    }
}

/// The same as bytes, for who changes them alone; once.
pub fn keepsake_bytes() -> Option<&'static mut [u8]> {
    let len = startup::keepsake_len();
    if len == 0 || had_as(WORDS | BYTES, BYTES) {
        return None;
    }
    // SAFETY: `init` mapped that many bytes there, readable and writable, for this component alone; it has them as bytes from now on, and once.
    Some(unsafe { core::slice::from_raw_parts_mut(layout::KEEPSAKE as *mut u8, len) })
}

/// How the keepsake is used in this component.
static HAD: AtomicU8 = AtomicU8::new(0);
const WORDS: u8 = 1;
const BYTES: u8 = 2;

/// Whether it is used in one of these ways; if not it is in the way `now`.
fn had_as(ways: u8, now: u8) -> bool {
    let change = |had| (had & ways == 0).then_some(had | now);
    HAD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change)
        .is_err()
}

/// Make whole pages resident now, so that using them cannot fail later.
pub fn populate(pages: &mut [u8]) -> Result<(), Error> {
    advise(pages, vm::advice::POPULATE_WRITE)
}

/// Give the frames of whole pages back. They read as zero afterwards.
pub fn release(pages: &mut [u8]) -> Result<(), Error> {
    advise(pages, vm::advice::DONT_NEED)
}

/// What is in this memory can be had again: it is given back when it is wanted elsewhere (docs/cache.md). `watcher` is notified then, and answers with [`wanted`].
pub fn lend(arena: &mut [u8], watcher: Portal) -> Result<(), Error> {
    let (address, length) = (arena.as_mut_ptr() as u64, arena.len() as u64);
    vm::Client(&VM)
        .cache(address, length, watcher.0)
        .map_err(gate)
}

/// How many pages of what was lent should be [`release`]d now. Asked again until it is 0; with `nothing_left` it is.
pub fn wanted(nothing_left: bool) -> u64 {
    vm::Client(&VM).cache_wanted(nothing_left).unwrap_or(0)
}

/// As [`populate`], for lent memory: either all of it is resident, or there is nothing to be had and none of it is.
pub fn populate_lent(pages: &mut [u8]) -> bool {
    let done = populate(pages).is_ok();
    if !done {
        let _ = release(pages);
    }
    done
}

/// Most pages of [`Shared`] memory, and of those that `vm` is told at once.
const SHARED_PAGES: usize = 8192;
const TOLD_PAGES: usize = 512;

/// Words that another domain may see and change at any time. They go with this value.
pub struct Shared(&'static [AtomicU64]);

impl Deref for Shared {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        self.0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let length = self.0.len() as u64 * 8;
        let _ = vm::Client(&VM).unmap(self.0.as_ptr() as u64, length);
    }
}

impl Shared {
    fn new(address: u64, bytes: usize) -> Shared {
        // SAFETY: `vm` says that these addresses are mapped for this domain, readable and writable, until `drop` unmaps them; others change them only as atomics may be changed.
        Shared(unsafe { core::slice::from_raw_parts(address as *const AtomicU64, bytes / 8) })
    }

    /// Fresh zeroes of this domain, at least so many words and at most 32 MiB, and the portal by which another maps them. This domain's frames stay whatever the other does.
    pub fn make(words: usize) -> Option<(Shared, Portal)> {
        let pages = (words * 8).div_ceil(layout::PAGE as usize);
        if pages == 0 || pages > SHARED_PAGES {
            return None;
        }
        let bytes = pages * layout::PAGE as usize;
        let prot = vm::prot::READ | vm::prot::WRITE;
        let address = vm::Client(&VM)
            .map(0, bytes as u64, prot, vm::flags::POPULATE)
            .ok()
            .filter(|address| *address > 0)?;
        let shared = Shared::new(address, bytes);
        let mut list = [0; TOLD_PAGES * 8];
        let mut portal: Option<Portal> = None;
        for first in (0..pages).step_by(TOLD_PAGES) {
            let told = TOLD_PAGES.min(pages - first);
            let (addresses, _) = list.as_chunks_mut();
            for (i, place) in addresses[..told].iter_mut().enumerate() {
                *place = (address + (first + i) as u64 * layout::PAGE).to_le_bytes();
            }
            let (list, all) = (&list[..told * 8], (first + told) as u64);
            match portal {
                None => portal = Some(object(list, true, 0).ok()?),
                Some(made) if change_object(made, first as u64, list, all).is_err() => {
                    made.close();
                    return None;
                }
                Some(_) => {}
            }
        }
        Some((shared, portal?))
    }

    /// A page of fresh zeroes of this domain, and the portal by which others map it to read it. When this domain ends, or the portal is closed, it is zero for them.
    pub fn publish() -> Option<(Shared, Portal)> {
        let prot = vm::prot::READ | vm::prot::WRITE;
        let address = vm::Client(&VM)
            .map(0, layout::PAGE, prot, vm::flags::POPULATE)
            .ok()
            .filter(|address| *address > 0)?;
        let shared = Shared::new(address, layout::PAGE as usize);
        let made = vm::Client(&VM)
            .object_create(1, vm::making::WITH_MAKER, 0, &address.to_le_bytes())
            .ok()?;
        Some((shared, Portal(made.slot())))
    }

    /// What another domain published, so many words of it: to be read.
    pub fn read(object: Portal, words: usize) -> Option<Shared> {
        Shared::map_as(object, words, vm::prot::READ)
    }

    /// What another domain made, so many words of it. If it is shorter than that the domain may end at using it: it must be trusted so far.
    pub fn map(object: Portal, words: usize) -> Option<Shared> {
        Shared::map_as(object, words, vm::prot::READ | vm::prot::WRITE)
    }

    fn map_as(object: Portal, words: usize, prot: u64) -> Option<Shared> {
        let bytes = (words * 8).next_multiple_of(layout::PAGE as usize);
        let address = vm::Client(&object)
            .object_map(0, bytes as u64, prot, vm::flags::SHARED, 0)
            .ok()?;
        (bytes != 0 && address > 0).then(|| Shared::new(address, bytes))
    }
}

fn advise(pages: &mut [u8], advice: u64) -> Result<(), Error> {
    if pages.is_empty() {
        return Ok(());
    }
    let address = pages.as_mut_ptr() as u64;
    vm::Client(&VM)
        .advise(address, pages.len() as u64, advice)
        .map(|_| ())
        .map_err(gate)
}

/// A memory object of these pages (addresses in this domain, 0 = a hole).
pub fn object(addresses: &[u8], shared_writable: bool, tag: u64) -> Result<Portal, Error> {
    let pages = (addresses.len() / 8) as u64;
    vm::Client(&VM)
        .object_create(pages, shared_writable as u64, tag, addresses)
        .map(|object| paging::kept(object.slot()))
        .map_err(gate)
}

/// An object that this component made has the pages at these addresses (0 = a hole) from page `first` on, in place of what it had, and `pages` in all. Whoever has it mapped sees that.
/// (Of many, some at a time: `vm` serves others in between.)
pub fn change_object(
    object: Portal,
    first: u64,
    addresses: &[u8],
    pages: u64,
) -> Result<(), Error> {
    let mut done = 0;
    loop {
        let some = &addresses[done..addresses.len().min(done + TOLD_PAGES * 8)];
        again(|| vm::Client(&VM).object_change(first + done as u64 / 8, pages, object.0, some))
            .map_err(gate)?;
        done += some.len();
        if done == addresses.len() {
            return Ok(());
        }
    }
}

/// An object that this component made has holes from page `first` on, so many, and `pages` in all. False: that is done for some of those who have it mapped,
/// and is to be asked again.
pub fn hide(object: Portal, first: u64, count: u64, pages: u64) -> Result<bool, Error> {
    let holes = [0; TOLD_PAGES * 8];
    let mut done = 0;
    loop {
        let some = (count - done).min(TOLD_PAGES as u64);
        let some = holes.get(..some as usize * 8).unwrap_or(&[]);
        match vm::Client(&VM).object_change(first + done, pages, object.0, some) {
            Err(Failure::Refused(EAGAIN)) => return Ok(false),
            other => other.map_err(gate)?,
        };
        done += some.len() as u64 / 8;
        if done == count {
            return Ok(true);
        }
    }
}

/// Ask `vm` until all is done of what it does in parts.
pub(crate) fn again<T>(mut ask: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    loop {
        match ask() {
            Err(Failure::Refused(EAGAIN)) => {}
            other => return other,
        }
    }
}

/// Others have this memory mapped no longer: what they had of it is as what lies beyond an object's end.
pub fn take_back(shared: &Shared, object: Portal) {
    let pages = (shared.len() * 8 / layout::PAGE as usize) as u64;
    let holes = [0; TOLD_PAGES * 8];
    for first in (0..pages).step_by(TOLD_PAGES) {
        let told = (pages - first).min(TOLD_PAGES as u64) as usize;
        let _ = change_object(object, first, &holes[..told * 8], pages);
    }
}

/// Whether a program has an object that this component made mapped.
pub fn is_mapped(object: Portal) -> bool {
    vm::Client(&VM)
        .object_mapped(object.0)
        .is_ok_and(|pages| pages > 0)
}

/// Whatever `vm` refuses, it comes to there being no memory.
pub(crate) fn gate(failure: Failure) -> Error {
    match failure {
        Failure::Gate(error) => error,
        Failure::Refused(_) | Failure::Nonsense => Error::NoMemory,
    }
}

/// → total frames, free frames.
pub fn frames() -> (u64, u64) {
    vm::Client(&VM)
        .memory_stat()
        .map_or((0, 0), |frames| (frames.total, frames.free))
}

/// Do what takes an object of this pool of the nucleus ([`cairn_abi::service::memory::pool`]). If there is none left, `vm` is asked for more, and it is done once again.
pub fn with_objects<T>(pool: u64, mut make: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    match make() {
        Err(Error::NoMemory) => {
            VM.call(Message::new(&[vm::MORE_OBJECTS, pool]))?;
            make()
        }
        made => made,
    }
}
