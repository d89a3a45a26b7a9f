//! Watched memory objects: a component shows pages of its own memory to programs that map its files, brings those that are missing when they are wanted, and hears which were written (docs/cache.md, "Mapping").

use crate::memory::{again, gate};
use crate::portal::Portal;
use cairn_abi::{layout, Error};
use cairn_idl::errno::ETXTBSY;
use cairn_idl::vm::{self, making, Wanted};
use cairn_idl::wire::Failure;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const VM: Portal = Portal(layout::native_slot::VM);

/// Entries of a portal table at first and with each growth, and how many are kept free for portals that others pass.
const ENTRIES: u32 = 256;
const SPARE: u32 = 32;
/// Entries of this component's table.
static ROOM: AtomicU32 = AtomicU32::new(ENTRIES);

/// What `vm` asks of the maker of watched objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Somebody waits for these pages of the object with this tag: [`change`] or [`refuse`].
    Pages { tag: u64, first: u64, pages: u64 },
    /// Somebody will want these pages soon.
    Soon { tag: u64, first: u64, pages: u64 },
    /// Somebody waits until what was written to these pages is where it belongs: [`synced`] with the ticket.
    Sync {
        tag: u64,
        first: u64,
        pages: u64,
        ticket: u64,
    },
    /// Nobody has the object mapped any more.
    Unused { tag: u64 },
}

/// An object of this component's predecessor's that somebody has mapped, and that is its own now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    pub tag: u64,
    pub pages: u64,
    /// Somebody may write to it.
    pub writable: bool,
    pub object: Portal,
}

/// Why an object was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It was to become shorter, and a program that runs was started from it.
    Executed,
    /// No memory, or no such object.
    Failed,
}

/// What is known of the writing to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Runs that were told.
    pub runs: usize,
    /// Pages that are mapped, counted for each mapping.
    pub mapped: u64,
    /// A program that runs was started from it.
    pub executed: bool,
}

/// From now on this component may make watched objects. `watcher` is notified when [`wanted`] has something.
pub fn watch(watcher: Portal) -> Result<(), Error> {
    vm::Client(&VM).object_watch(watcher.0).map_err(gate)
}

/// The portal by which this component says which files its objects show (`fs::FILE_OF`).
pub fn names(namer: Portal) -> Result<(), Error> {
    vm::Client(&VM).names(namer.0).map_err(gate)
}

/// Further objects of an answer that nobody has mapped any more, which are still to be told: the last ones of so many.
static UNUSED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static UNUSED_LEFT: AtomicUsize = AtomicUsize::new(0);
/// `vm` has said that there is nothing else.
static ALL_TOLD: AtomicBool = AtomicBool::new(false);

/// The next thing that is wanted. To be asked until there is none, after each notification. (By one thread.)
pub fn wanted() -> Option<Request> {
    let left = UNUSED_LEFT.load(Ordering::Relaxed);
    if let Some(tag) = left.checked_sub(1).and_then(|at| UNUSED.get(at)) {
        UNUSED_LEFT.store(left - 1, Ordering::Relaxed);
        let tag = tag.load(Ordering::Relaxed);
        return Some(Request::Unused { tag });
    }
    if ALL_TOLD.load(Ordering::Relaxed) {
        ALL_TOLD.store(false, Ordering::Relaxed);
        return None;
    }
    let vm::ObjectWantedAnswer {
        what,
        tag,
        first,
        pages,
        ticket,
        more,
        last,
    } = vm::Client(&VM).object_wanted().ok()?;
    if what == Wanted::Unused as u64 {
        for (place, tag) in UNUSED.iter().zip([first, pages, ticket]) {
            place.store(tag, Ordering::Relaxed);
        }
        UNUSED_LEFT.store((more as usize).min(UNUSED.len()), Ordering::Relaxed);
        ALL_TOLD.store(last != 0, Ordering::Relaxed);
        return Some(Request::Unused { tag });
    }
    Some(match what {
        what if what == Wanted::Pages as u64 => Request::Pages { tag, first, pages },
        what if what == Wanted::Soon as u64 => Request::Soon { tag, first, pages },
        what if what == Wanted::Sync as u64 => Request::Sync {
            tag,
            first,
            pages,
            ticket,
        },
        _ => return None,
    })
}

/// The next object of a component that had the same keepsake and ended, after [`watch`]. What it has counts as [`written`].
pub fn inherited() -> Option<Inherited> {
    let told = vm::Client(&VM).object_inherit().ok()?;
    Some(Inherited {
        tag: told.tag,
        pages: told.pages,
        writable: told.writable != 0,
        object: kept(told.object.slot()),
    })
}

/// A page that such an object has lies in this page of the component's private memory as well from now on, in place of what was there.
pub fn adopt(object: Portal, page: u64, place: &mut [u8]) -> bool {
    let whole = place.len() as u64 == layout::PAGE;
    let address = place.as_mut_ptr() as u64;
    whole
        && vm::Client(&VM)
            .object_adopt(page, address, object.0)
            .is_ok()
}

/// A watched object of so many pages, none of which is there yet. It may be mapped shared and writable; [`reader`] gives a portal by which it may not.
pub fn object(pages: u64, tag: u64) -> Result<Portal, Error> {
    vm::Client(&VM)
        .object_create(pages, making::SHARED | making::WATCHED, tag, &[])
        .map(|object| kept(object.slot()))
        .map_err(gate)
}

/// An object of so many pages of zeroes, each of which takes memory when it is touched first, and of which this component hears by the tag when nobody has it mapped any more. (After [`watch`].)
pub fn fresh(pages: u64, tag: u64) -> Result<Portal, Error> {
    vm::Client(&VM)
        .object_create(
            pages,
            making::SHARED | making::FRESH | making::TOLD,
            tag,
            &[],
        )
        .map(|object| kept(object.slot()))
        .map_err(gate)
}

/// How many pages of such an object programs have mapped, counted for each mapping.
pub fn mapped(object: Portal) -> u64 {
    vm::Client(&VM).object_mapped(object.0).unwrap_or(0)
}

/// A second portal to it, for those who may only read (or write privately).
pub fn reader(object: Portal) -> Result<Portal, Error> {
    vm::Client(&VM)
        .object_reader(object.0)
        .map(|reader| kept(reader.slot()))
        .map_err(gate)
}

/// A portal that is kept (an object's for as long as its file is, one that came in a message): with many the table grows.
pub fn kept(slot: u32) -> Portal {
    let room = ROOM.load(Ordering::Relaxed);
    if slot + SPARE >= room && vm::Client(&VM).grow_table(0).is_ok() {
        ROOM.store(room + ENTRIES, Ordering::Relaxed);
    }
    Portal(slot)
}

/// From page `first` on it has the pages at these addresses in this component (u64, little-endian; 0 = none), and `pages` in all. → how many of those that went had been written since [`written`] was asked.
pub fn change(object: Portal, first: u64, addresses: &[u8], pages: u64) -> Result<u64, Refused> {
    again(|| vm::Client(&VM).object_change(first, pages, object.0, addresses)).map_err(|failure| {
        match failure {
            Failure::Refused(ETXTBSY) => Refused::Executed,
            _ => Refused::Failed,
        }
    })
}

/// Who waits for these pages gets SIGBUS.
pub fn refuse(tag: u64, first: u64, pages: u64) {
    let _ = vm::Client(&VM).object_refuse(tag, first, pages);
}

/// Which pages were written since this was last asked: runs (first page and count, two u64 each, little-endian) into `runs`. Those for which there was no room are told next time.
pub fn written(object: Portal, first: u64, pages: u64, runs: &mut [u8]) -> Option<Written> {
    let answer = again(|| vm::Client(&VM).object_written(first, pages, object.0, runs)).ok()?;
    Some(Written {
        runs: answer.count as usize,
        mapped: answer.mapped,
        executed: answer.executed != 0,
    })
}

/// What somebody waited for by [`Request::Sync`] is done, or failed with this (positive) error number.
pub fn synced(ticket: u64, error: i64) {
    let _ = vm::Client(&VM).object_synced(ticket, error as u64);
}
