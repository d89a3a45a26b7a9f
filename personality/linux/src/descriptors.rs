//! The descriptor table: descriptor → open file, with the close-on-exec bit per descriptor. An open file is shared by the descriptors that were
//! made by dup from one another; its portal is closed with the last of them. fork copies table and portals alike; a vfork child gets a copy of its own ([`Table::separate`]).

use crate::calls::epoll;
use crate::errno::{Errno, Result, EBADF, EINVAL, EMFILE};
use crate::event::Object;
use crate::frames::Frames;
use crate::machine::area::process;
use crate::machine::{gate, request};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_idl::proc::{FILE_CLOEXEC, FILE_SLOT};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// No portal: an object of the personality itself.
pub const NO_SLOT: u32 = u32::MAX;

/// Bits of [`OpenFile::kind`] beside the servers' own ([`cairn_idl::fs::kind`]): objects of the event server.
pub mod event_kind {
    pub use cairn_idl::event::object::*;
    /// A POSIX message queue.
    pub const QUEUE: u64 = 1 << 43;
    /// A folder's handle that open_tree(2) made, to be mounted in the first mount name space. Known to processes that have it by fork or exec.
    pub const TREE: u64 = 1 << 47;
}

/// An open file, directory, pipe end, terminal.
#[derive(Debug)]
pub struct OpenFile {
    slot: AtomicU32,
    /// What sets of watched files know it by: the same in processes that have it by fork, and no other file's. Given when it gets its first descriptor.
    id: AtomicU64,
    /// Where it was opened: the mount portal of its manager, if its portal may be [kept](crate::spare) when it is closed.
    pub home: u32,
    /// `fs::kind` bits.
    pub kind: u64,
    /// Type and permissions at opening.
    pub mode: u32,
    /// Opened with O_PATH.
    pub path_only: bool,
    /// What the personality itself serves (the list of descriptors); otherwise the portal's server does.
    pub object: Option<Object>,
    /// How it is read without asking the server.
    pub frames: Frames,
    /// Where it was mapped privately last, and [`crate::memory::generation`] then.
    pub mapped: (AtomicU64, AtomicU64),
    /// An epoll set watches it, or did.
    watched: AtomicBool,
    /// What F_SET_RW_HINT said.
    pub lifetime: AtomicU32,
    pub signals: Signals,
}

/// Who gets signals of a file, which ones, and by what (F_SETOWN, F_SETSIG, O_ASYNC).
#[derive(Debug, Default)]
pub struct Signals {
    /// Kind and number, as [`cairn_idl::proc::SIGNAL_OWNER`] has them; 0: nobody.
    pub owner: AtomicU64,
    /// Real and effective user of who said so.
    pub uids: AtomicU64,
    /// 0: SIGIO, which says nothing more.
    pub signal: AtomicU32,
    pub on: AtomicBool,
    /// The event server's object that has them sent; 0: there is none.
    slot: AtomicU32,
    /// The same for urgent bytes of a stream (SIGURG).
    urgent: AtomicU32,
    /// The same for the breaks of a lease.
    lease: AtomicU32,
    /// The same for what changes in a directory (F_NOTIFY), for this process alone.
    notifier: AtomicU32,
}

impl Signals {
    fn separate(&self) -> Signals {
        Signals {
            owner: AtomicU64::new(self.owner.load(Ordering::Relaxed)),
            uids: AtomicU64::new(self.uids.load(Ordering::Relaxed)),
            signal: AtomicU32::new(self.signal.load(Ordering::Relaxed)),
            on: AtomicBool::new(self.on.load(Ordering::Relaxed)),
            slot: AtomicU32::new(self.slot()),
            urgent: AtomicU32::new(self.urgent()),
            lease: AtomicU32::new(self.lease()),
            notifier: AtomicU32::new(0),
        }
    }

    pub fn urgent(&self) -> u32 {
        self.urgent.load(Ordering::Relaxed)
    }

    pub fn set_urgent(&self, slot: u32) {
        replace_signaller(&self.urgent, slot);
    }

    pub fn lease(&self) -> u32 {
        self.lease.load(Ordering::Relaxed)
    }

    pub fn set_lease(&self, slot: u32) {
        replace_signaller(&self.lease, slot);
    }

    pub fn notifier(&self) -> u32 {
        self.notifier.load(Ordering::Relaxed)
    }

    /// This object is the notifier, unless another thread was earlier with one → which it is.
    pub fn first_notifier(&self, slot: u32) -> u32 {
        match install(&self.notifier, slot) {
            Ok(()) => {
                process().state().add_signaller();
                slot
            }
            Err(there) => {
                gate::close(slot);
                there
            }
        }
    }

    /// It tells of nothing, until it has marks again. (Its portal stays: another thread may be about to use it.)
    pub fn empty_notifier(&self) {
        let slot = self.notifier();
        if slot != 0 {
            let words = [cairn_idl::event::UNMARK, 2, 0, 0, 0, 0, 0, 0];
            let _ = request::exchange(slot, words);
        }
    }

    /// The file is closed: it tells of nothing any more, whoever else still has its portal.
    pub fn end_notifier(&self) {
        self.empty_notifier();
        replace_signaller(&self.notifier, 0);
    }

    /// It is the parent's.
    pub fn leave_notifier(&self) {
        if self.notifier() != 0 {
            self.notifier.store(0, Ordering::Relaxed);
            process().signallers_closed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn slot(&self) -> u32 {
        self.slot.load(Ordering::Relaxed)
    }

    /// Another object has them sent, or (0) none.
    pub fn set_slot(&self, slot: u32) {
        replace_signaller(&self.slot, slot);
    }
}

/// Of those who are here at a time the first one puts in its slot, and the others are told of it.
fn install(place: &AtomicU32, slot: u32) -> core::result::Result<(), u32> {
    let put = place.compare_exchange(0, slot, Ordering::Relaxed, Ordering::Relaxed);
    put.map(|_| ())
}

/// The old object's portal is closed. How many a process has is counted, for the size of its portal table.
/// (A file may be closed with the process's state locked; it gets an object without.)
fn replace_signaller(place: &AtomicU32, slot: u32) {
    let old = place.swap(slot, Ordering::Relaxed);
    if slot != 0 {
        process().state().add_signaller();
    }
    if old != 0 {
        gate::close(old);
        process().signallers_closed.fetch_add(1, Ordering::Relaxed);
    }
}

impl OpenFile {
    pub fn portal(slot: u32, kind: u64, mode: u32) -> OpenFile {
        OpenFile {
            slot: AtomicU32::new(slot),
            id: AtomicU64::new(0),
            home: NO_SLOT,
            kind,
            mode,
            path_only: false,
            object: None,
            frames: Frames::new(true),
            mapped: Default::default(),
            watched: Default::default(),
            lifetime: Default::default(),
            signals: Default::default(),
        }
    }

    pub fn own(object: Object) -> OpenFile {
        OpenFile {
            slot: AtomicU32::new(NO_SLOT),
            id: AtomicU64::new(0),
            home: NO_SLOT,
            kind: 0,
            mode: 0o600,
            path_only: false,
            object: Some(object),
            frames: Frames::new(true),
            mapped: Default::default(),
            watched: Default::default(),
            lifetime: Default::default(),
            signals: Default::default(),
        }
    }

    pub fn slot(&self) -> u32 {
        self.slot.load(Ordering::Relaxed)
    }

    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// What it was known by before this process got it anew.
    pub fn set_id(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// It is another file now.
    pub fn renew(&mut self) {
        *self.id.get_mut() = 0;
        *self.watched.get_mut() = false;
        *self.lifetime.get_mut() = 0;
    }

    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub fn is_watched_from_now_on(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// The portal is somebody else's to close.
    pub fn without_portal(&mut self) {
        *self.slot.get_mut() = NO_SLOT;
    }

    pub fn is(&self, kind: u64) -> bool {
        self.kind & kind != 0
    }

    fn separate(&self) -> OpenFile {
        OpenFile {
            slot: AtomicU32::new(self.slot()),
            id: AtomicU64::new(self.id()),
            home: self.home,
            kind: self.kind,
            mode: self.mode,
            path_only: self.path_only,
            object: self.object.as_ref().map(Object::separate),
            frames: Frames::new(false),
            mapped: Default::default(),
            watched: AtomicBool::new(self.is_watched()),
            lifetime: AtomicU32::new(self.lifetime.load(Ordering::Relaxed)),
            signals: self.signals.separate(),
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.signals.set_slot(0);
        self.signals.set_urgent(0);
        self.signals.set_lease(0);
        self.signals.end_notifier();
        let slot = self.slot();
        if slot != NO_SLOT {
            gate::close(slot);
            if self.is_watched() {
                epoll::closed(self);
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub file: Arc<OpenFile>,
    pub close_on_exec: bool,
}

/// What `proc` reads of a process's open files, for others ([`cairn_idl::proc::THREAD_FILES`]).
#[derive(Debug)]
#[repr(C)]
pub struct Listed {
    descriptors: u64,
    count: u64,
    cwd: u32,
    /// The mask of new files' modes.
    umask: u32,
}

fn listed(file: &OpenFile, close_on_exec: bool) -> u32 {
    let bits = if close_on_exec { FILE_CLOEXEC } else { 0 };
    file.slot() & FILE_SLOT | bits
}

#[derive(Debug)]
pub struct Table {
    entries: Vec<Option<Entry>>,
    /// The portals of these, as `proc` reads them.
    slots: Vec<u32>,
    pub listed: Listed,
    /// RLIMIT_NOFILE.
    pub limit: u32,
    /// No descriptor below this is free.
    first_free: usize,
    used: u32,
    /// [`OpenFile::id`] of the next open file.
    next_id: u64,
}

impl Default for Table {
    fn default() -> Self {
        Table::new()
    }
}

impl Table {
    pub const fn new() -> Table {
        Table {
            entries: Vec::new(),
            slots: Vec::new(),
            listed: Listed {
                descriptors: 0,
                count: 0,
                cwd: 0,
                umask: 0o022,
            },
            limit: 1024,
            first_free: 0,
            used: 0,
            next_id: 1,
        }
    }

    /// From now on it is this process's: the ids of its files are no other's.
    pub fn belongs_to(&mut self, pid: u32) {
        self.next_id = (pid as u64) << 40 | self.next_id & ((1 << 40) - 1);
    }

    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    pub fn set_next_id(&mut self, id: u64) {
        self.next_id = id;
    }

    /// What the process had there before this table was made. (The limit is for new ones.)
    pub fn put_back(&mut self, fd: u32, file: Arc<OpenFile>) {
        self.take(fd as usize);
        self.put(fd as usize, file, false);
    }

    /// Descriptors in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    pub fn entry(&self, fd: u32) -> Result<&Entry> {
        match self.entries.get(fd as usize) {
            Some(Some(entry)) => Ok(entry),
            _ => Err(EBADF),
        }
    }

    pub fn get(&self, fd: u32) -> Result<Arc<OpenFile>> {
        self.entry(fd).map(|entry| entry.file.clone())
    }

    /// As many places as Linux's table would have, with this highest descriptor ever: select(2) looks at no number beyond.
    pub fn places(&self) -> u32 {
        match self.entries.len() as u32 {
            0..=64 => 64,
            length => length.next_power_of_two().max(128),
        }
    }

    /// Could another descriptor be given out?
    pub fn check_room(&self) -> Result<()> {
        // Some lie beyond the limit where it was lowered: then there may be room below it all the same.
        let limit = self.limit as usize;
        if self.used < self.limit || (self.first_free..limit).any(|at| self.is_free(at)) {
            Ok(())
        } else {
            Err(EMFILE)
        }
    }

    fn is_free(&self, at: usize) -> bool {
        self.entries.get(at).is_none_or(Option::is_none)
    }

    /// The lowest free descriptor from `from` on.
    pub fn insert(&mut self, file: Arc<OpenFile>, close_on_exec: bool, from: u32) -> Result<u32> {
        let start = self.first_free.max(from as usize);
        let length = self.entries.len();
        let at = (start..length)
            .find(|i| self.entries[*i].is_none())
            .unwrap_or(length.max(start));
        if at >= self.limit as usize {
            return Err(if from >= self.limit { EINVAL } else { EMFILE });
        }
        self.put(at, file, close_on_exec);
        if from as usize <= self.first_free {
            self.first_free = at + 1;
        }
        Ok(at as u32)
    }

    /// Put a file at a certain descriptor; what was there comes back for closing.
    pub fn replace(
        &mut self,
        fd: u32,
        file: Arc<OpenFile>,
        close_on_exec: bool,
    ) -> Result<Option<Entry>> {
        if fd >= self.limit {
            return Err(EBADF);
        }
        let old = self.take(fd as usize);
        self.put(fd as usize, file, close_on_exec);
        Ok(old)
    }

    fn put(&mut self, at: usize, file: Arc<OpenFile>, close_on_exec: bool) {
        if at >= self.entries.len() {
            self.entries.resize(at + 1, None);
            self.list();
        }
        self.used += 1;
        if file.id() == 0 {
            file.id.store(self.next_id, Ordering::Relaxed);
            self.next_id += 1;
        }
        self.slots[at] = listed(&file, close_on_exec);
        self.entries[at] = Some(Entry {
            file,
            close_on_exec,
        });
    }

    /// Have as many places in the list.
    fn list(&mut self) {
        self.slots.resize(self.entries.len(), 0);
        self.listed.descriptors = self.slots.as_ptr() as u64;
        self.listed.count = self.slots.len() as u64;
    }

    /// The process's working directory is this one.
    pub fn list_cwd(&mut self, cwd: &Option<Arc<OpenFile>>) {
        let slot = cwd.as_ref().map_or(0, |file| listed(file, false));
        self.listed.cwd = slot;
    }

    pub fn umask(&self) -> u32 {
        self.listed.umask
    }

    pub fn set_umask(&mut self, mask: u32) {
        self.listed.umask = mask & 0o777;
    }

    pub fn remove(&mut self, fd: u32) -> Result<Entry> {
        self.take(fd as usize).ok_or(EBADF)
    }

    fn take(&mut self, at: usize) -> Option<Entry> {
        let entry = self.entries.get_mut(at).and_then(Option::take)?;
        self.slots[at] = 0;
        self.used -= 1;
        self.first_free = self.first_free.min(at);
        Some(entry)
    }

    pub fn set_close_on_exec(&mut self, fd: u32, on: bool) -> Result<()> {
        match self.entries.get_mut(fd as usize) {
            Some(Some(entry)) => {
                entry.close_on_exec = on;
                self.slots[fd as usize] = listed(&entry.file, on);
                Ok(())
            }
            _ => Err(EBADF),
        }
    }

    /// Everything that exec closes.
    pub fn take_close_on_exec(&mut self) -> Vec<Entry> {
        self.take_if(0, u32::MAX, |entry| entry.close_on_exec)
    }

    /// Everything in a range (close_range).
    pub fn take_range(&mut self, first: u32, last: u32) -> Vec<Entry> {
        self.take_if(first, last, |_| true)
    }

    fn take_if(&mut self, first: u32, last: u32, wanted: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let mut taken = Vec::new();
        for at in first as usize..self.entries.len().min((last as usize).saturating_add(1)) {
            if self.entries[at].as_ref().is_some_and(&wanted) {
                taken.extend(self.take(at));
            }
        }
        taken
    }

    pub fn mark_range_close_on_exec(&mut self, first: u32, last: u32) {
        let entries = self.entries.iter_mut().zip(&mut self.slots).enumerate();
        for (_, (entry, slot)) in
            entries.filter(|(i, _)| (first as usize..=last as usize).contains(i))
        {
            if let Some(entry) = entry {
                entry.close_on_exec = true;
                *slot |= FILE_CLOEXEC;
            }
        }
    }

    /// Descriptors in use, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(i, e)| e.as_ref().map(|_| i as u32))
    }

    pub fn files(&self) -> impl Iterator<Item = (u32, &Entry)> + '_ {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(i, e)| e.as_ref().map(|e| (i as u32, e)))
    }

    /// After a fork beside other threads, which are not here: an open file that one of them was using counts it for ever, and the last close would not close it.
    /// An open file with more users than one descriptor is replaced by one that only descriptors use.
    pub fn forget_users(&mut self) {
        let mut pairs: Vec<(*const OpenFile, Arc<OpenFile>)> = Vec::new();
        for entry in self.entries.iter_mut().flatten() {
            if Arc::strong_count(&entry.file) == 1 {
                continue;
            }
            let key = Arc::as_ptr(&entry.file);
            let known = pairs.iter().find(|(k, _)| *k == key);
            let new = known.map_or_else(|| separate(&entry.file), |(_, file)| file.clone());
            if known.is_none() {
                pairs.push((key, new.clone()));
            }
            replace(&mut entry.file, new);
        }
    }

    /// A table with the same portals in open files of its own: for a vfork child, whose portal table is a copy.
    pub fn separate(&self) -> Table {
        let mut pairs: Vec<(*const OpenFile, Arc<OpenFile>)> = Vec::new();
        let entries = self.entries.iter().map(|entry| {
            let entry = entry.as_ref()?;
            let key = Arc::as_ptr(&entry.file);
            let known = pairs.iter().find(|(k, _)| *k == key);
            let file = match known {
                Some((_, file)) => file.clone(),
                None => {
                    let file = Arc::new(entry.file.separate());
                    pairs.push((key, file.clone()));
                    file
                }
            };
            Some(Entry {
                file,
                close_on_exec: entry.close_on_exec,
            })
        });
        let mut table = Table {
            entries: entries.collect(),
            slots: self.slots.clone(),
            limit: self.limit,
            first_free: self.first_free,
            used: self.used,
            next_id: self.next_id,
            ..Table::new()
        };
        table.list();
        (table.listed.cwd, table.listed.umask) = (self.listed.cwd, self.listed.umask);
        table
    }
}

/// [`Table::forget_users`] for one open file that no descriptor has.
pub fn forget_users(file: &mut Arc<OpenFile>) {
    if Arc::strong_count(file) != 1 {
        replace(file, separate(file));
    }
}

/// The old one stays for ever: who counts it is gone, and its portal is the new one's.
fn replace(file: &mut Arc<OpenFile>, new: Arc<OpenFile>) {
    core::mem::forget(core::mem::replace(file, new));
}

/// A copy of one open file for another process's table.
pub fn separate(file: &Arc<OpenFile>) -> Arc<OpenFile> {
    Arc::new(file.separate())
}

/// A descriptor argument as programs pass it.
pub fn number(argument: u64) -> core::result::Result<u32, Errno> {
    u32::try_from(argument as i32).map_err(|_| EBADF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Arc<OpenFile> {
        Arc::new(OpenFile::portal(NO_SLOT, 0, 0))
    }

    #[test]
    fn lowest_free_descriptor_first() {
        let mut t = Table::new();
        for i in 0..4 {
            assert_eq!(t.insert(file(), false, 0), Ok(i));
        }
        t.remove(1).unwrap();
        assert_eq!(t.insert(file(), false, 2), Ok(4));
        assert_eq!(t.insert(file(), false, 0), Ok(1));
        assert_eq!(t.insert(file(), false, 0), Ok(5));
        assert_eq!(t.insert(file(), false, 100), Ok(100));
        assert_eq!(t.insert(file(), false, 0), Ok(6));
        assert_eq!(t.insert(file(), false, 100), Ok(101));
    }

    #[test]
    fn the_limit_holds() {
        let mut t = Table::new();
        t.limit = 2;
        t.insert(file(), false, 0).unwrap();
        assert_eq!(t.insert(file(), false, 2), Err(EINVAL));
        t.insert(file(), false, 0).unwrap();
        assert_eq!(t.insert(file(), false, 0), Err(EMFILE));
        assert_eq!(t.check_room(), Err(EMFILE));
        assert!(t.replace(2, file(), false).is_err());
        assert!(t.replace(1, file(), false).unwrap().is_some());
        assert!(t.get(7).is_err());
        assert!(t.remove(7).is_err());
    }

    #[test]
    fn what_lies_beyond_a_lowered_limit_takes_no_room_below_it() {
        let mut t = Table::new();
        for _ in 0..6 {
            t.insert(file(), false, 0).unwrap();
        }
        t.remove(1).unwrap();
        t.limit = 3;
        assert_eq!(t.check_room(), Ok(()));
        assert_eq!(t.insert(file(), false, 0), Ok(1));
        assert_eq!(t.check_room(), Err(EMFILE));
        t.remove(4).unwrap();
        assert_eq!(t.check_room(), Err(EMFILE));
        assert_eq!(t.insert(file(), false, 0), Err(EMFILE));
    }

    #[test]
    fn exec_closes_what_is_marked() {
        let mut t = Table::new();
        t.insert(file(), false, 0).unwrap();
        t.insert(file(), true, 0).unwrap();
        t.insert(file(), false, 0).unwrap();
        t.set_close_on_exec(2, true).unwrap();
        assert_eq!(t.take_close_on_exec().len(), 2);
        assert_eq!(t.numbers().collect::<Vec<_>>(), [0]);
        assert_eq!(t.insert(file(), false, 0), Ok(1));
    }

    #[test]
    fn users_that_are_gone_are_forgotten() {
        let mut t = Table::new();
        let shared = file();
        t.insert(shared.clone(), false, 0).unwrap();
        t.insert(shared, false, 0).unwrap();
        t.insert(file(), false, 0).unwrap();
        t.insert(file(), false, 0).unwrap();
        let user = t.get(3).unwrap();
        t.forget_users();
        let counts = [0, 1, 2, 3].map(|fd| Arc::strong_count(&t.entry(fd).unwrap().file));
        assert_eq!(counts, [2, 2, 1, 1]);
        assert!(Arc::ptr_eq(&t.get(0).unwrap(), &t.get(1).unwrap()));
        assert!(!Arc::ptr_eq(&t.get(3).unwrap(), &user));
    }

    #[test]
    fn a_separate_table_keeps_the_sharing() {
        let mut t = Table::new();
        let shared = file();
        t.insert(shared.clone(), false, 0).unwrap();
        t.insert(shared, false, 0).unwrap();
        t.insert(file(), false, 0).unwrap();
        let copy = t.separate();
        assert!(Arc::ptr_eq(&copy.get(0).unwrap(), &copy.get(1).unwrap()));
        assert!(!Arc::ptr_eq(&copy.get(0).unwrap(), &copy.get(2).unwrap()));
        assert!(!Arc::ptr_eq(&copy.get(0).unwrap(), &t.get(0).unwrap()));
    }

    #[test]
    fn one_object_is_put_in_and_the_others_are_told() {
        for _ in 0..200 {
            let place = AtomicU32::new(0);
            let put = |slot| install(&place, slot).err().unwrap_or(slot);
            let told = std::thread::scope(|scope| {
                let threads: Vec<_> = (1..5).map(|slot| scope.spawn(move || put(slot))).collect();
                let told = threads.into_iter().map(|thread| thread.join().unwrap());
                told.collect::<Vec<u32>>()
            });
            let there = place.load(Ordering::Relaxed);
            assert!(there != 0 && told.iter().all(|slot| *slot == there));
        }
    }
}
