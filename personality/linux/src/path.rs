//! From a name to the manager that serves it: the longest prefix for absolute names, the directory's handle for relative ones, and on again as long as managers redirect.

use crate::calls::others;
use crate::descriptors::{OpenFile, NO_SLOT};
use crate::errno::{Errno, Result, EBADF, EIO, ELOOP, ENOENT, ENOTDIR, EXDEV};
use crate::machine::area::process;
use crate::machine::buffer::Buffer;
use crate::machine::gate;
use crate::machine::published;
use crate::machine::request::Request;
use crate::memory;
use crate::prefix::{self, Own};
use crate::process::{Root, State};
use crate::space;
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::fs::{PATH_MAX, SYMLINKS_MAX};
use cairn_idl::proc::filter;
use cairn_idl::{errno, fs, proc};
use core::sync::atomic::Ordering;

pub const AT_FDCWD: i32 = -100;
pub const REDIRECT: Errno = Errno(errno::REDIRECT as i32);
/// A redirect to a place by its name from the root of all, wherever the process's own root is.
pub const PLACE: Errno = Errno(errno::REDIRECT as i32 + 1);

/// Where a path operation starts: a handle and the rest of the name. `file` keeps the handle open meanwhile.
pub struct Start<'a> {
    pub slot: u32,
    pub rest: Cow<'a, [u8]>,
    /// The mount portal of the manager there, if that is known.
    pub home: u32,
    file: Option<Arc<OpenFile>>,
}

impl Start<'_> {
    /// The open file that the name means itself (`/dev/fd/3`), if it is one.
    pub fn own_file(&self) -> Option<&Arc<OpenFile>> {
        self.file.as_ref().filter(|_| self.rest.is_empty())
    }
}

/// The answer of a path operation: room for its structure or a redirect.
pub type Answer = Buffer<{ PATH_MAX + 512 }>;

/// The result of a path operation; a redirect's name is in the answer then.
pub fn redirect(result: Result<()>, words: &[u64; 8], answer: &mut Answer) -> Result<()> {
    if result != Err(REDIRECT) {
        return result;
    }
    answer.filled(words[1]);
    Err(match words[3] & 0xff {
        fs::redirect_kind::TARGET => REDIRECT,
        fs::redirect_kind::PLACE => PLACE,
        _ => {
            let (kind, name) = space::leads(words[3], answer.as_bytes())?;
            answer.set(&name);
            kind
        }
    })
}

/// Send a path operation. A redirect leaves the new name in the answer.
pub fn send(request: Request, slot: u32, answer: &mut Answer) -> Result<[u64; 8]> {
    let (result, words) = answer.receive(request).call_words(slot);
    redirect(result, &words, answer).map(|()| words)
}

/// The same, interruptible. Of an answer with an error the words are still wanted.
pub fn send_wait(
    request: Request,
    slot: u32,
    answer: &mut Answer,
) -> Result<(Result<()>, [u64; 8])> {
    let words = answer.receive(request).wait_words(slot, None)?;
    let result = crate::errno::check(words[0]).map(|_| ());
    Ok((redirect(result, &words, answer), words))
}

/// Run `operation` at the place that `name` means, following redirects.
pub fn walk<R>(
    dirfd: i32,
    name: &[u8],
    operation: impl FnMut(&Start, &mut Answer) -> Result<R>,
) -> Result<R> {
    if name.is_empty() {
        return Err(ENOENT);
    }
    walk_from(&start(dirfd, name)?, operation)
}

/// The same from a place that is known.
pub fn walk_from<R>(
    start: &Start,
    mut operation: impl FnMut(&Start, &mut Answer) -> Result<R>,
) -> Result<R> {
    let mut answer = Answer::new();
    let mut tries = 0;
    let result = operation(start, &mut answer);
    let mut result = match result {
        Err(which @ (REDIRECT | PLACE)) => Err(which),
        other => return other,
    };
    while let Err(which @ (REDIRECT | PLACE)) = result {
        tries += 1;
        if tries > SYMLINKS_MAX {
            return Err(ELOOP);
        }
        let later = redirected(answer.as_bytes(), which)?;
        result = operation(&onward(&later)?, &mut answer);
    }
    result
}

/// A redirect's name becomes the next name; a place's is told from the process's root. ENOENT: it lies elsewhere, as what the root is in went away meanwhile.
fn redirected(name: &[u8], which: Errno) -> Result<Vec<u8>> {
    let state = process().state();
    let inside = match &state.root {
        Some(root) if which == PLACE => root.below(name).ok_or(ENOENT)?,
        _ => name,
    };
    Ok(inside.to_vec())
}

/// Two names at once (rename, link): both are walked, the operation runs at the first one's manager.
pub fn walk_two(
    first: (i32, &[u8]),
    second: (i32, &[u8]),
    mut operation: impl FnMut(
        &Start,
        &Start,
        &mut Answer,
    ) -> core::result::Result<[u64; 8], (Errno, u64)>,
) -> Result<u64> {
    if first.1.is_empty() || second.1.is_empty() {
        return Err(ENOENT);
    }
    let mut answer = Answer::new();
    let given = [first, second];
    let mut names: [Option<Vec<u8>>; 2] = [None, None];
    for _ in 0..=SYMLINKS_MAX {
        let begin = |i: usize| match &names[i] {
            None => start(given[i].0, given[i].1),
            Some(name) => onward(name),
        };
        let (a, b) = (begin(0)?, begin(1)?);
        match operation(&a, &b, &mut answer) {
            Ok(words) => return Ok(words[0]),
            Err((kind @ (REDIRECT | PLACE), which)) => {
                names[usize::from(which == 1)] = Some(redirected(answer.as_bytes(), kind)?);
            }
            // The first one's manager does not know where the second name goes on: its own may.
            Err((EXDEV, _)) => names[1] = Some(leads_on(&b, &mut answer).ok_or(EXDEV)?),
            Err((error, _)) => return Err(error),
        }
    }
    Err(ELOOP)
}

/// Where a name goes on whose folder is with another manager than where it starts.
#[cold]
fn leads_on(start: &Start, answer: &mut Answer) -> Option<Vec<u8>> {
    let request = Request::new(&[fs::STAT, fs::at::SYMLINK_NOFOLLOW]).out(&start.rest);
    let kind = match send(request, start.slot, answer) {
        Err(kind @ (REDIRECT | PLACE)) => kind,
        _ => return None,
    };
    // Not if its last part itself leads elsewhere.
    let mut parts = start.rest.rsplit(|&byte| byte == b'/');
    let last = parts.find(|part| !part.is_empty())?;
    let name = answer.as_bytes();
    let kept = name.iter().rposition(|&byte| byte != b'/')?;
    match name[..=kept].ends_with(last) {
        true => redirected(name, kind).ok(),
        false => None,
    }
}

/// Where a name starts. Relative names start at `dirfd`.
#[inline(always)]
pub fn start(dirfd: i32, name: &[u8]) -> Result<Start<'_>> {
    match mounted(name) {
        Some(start) => Ok(start),
        None => find_start(dirfd, name),
    }
}

/// An absolute name in the usual case: none of the process's own, no chroot, a mount portal that is here.
#[inline(always)]
fn mounted(name: &[u8]) -> Option<Start<'_>> {
    if name.first() != Some(&b'/') || prefix::may_be_own(name) {
        return None;
    }
    mounted_in(&process().state(), name)
}

#[inline(always)]
fn mounted_in<'a>(state: &State, name: &'a [u8]) -> Option<Start<'a>> {
    if state.prefixes.version() != published::version() || state.root.is_some() {
        return None;
    }
    let (index, length) = state.prefixes.find(name)?;
    (state.mounts >> index & 1 != 0).then(|| Start {
        slot: linux_slot::MOUNTS + index,
        rest: Cow::Borrowed(&name[length..]),
        home: linux_slot::MOUNTS + index,
        file: None,
    })
}

/// Where a name starts in the usual cases that need no message, with the state locked already.
#[inline(always)]
pub fn start_in<'a>(state: &State, dirfd: i32, name: &'a [u8]) -> Option<Start<'a>> {
    if prefix::may_be_own(name) {
        return None;
    }
    let file = match name.first()? {
        b'/' => return mounted_in(state, name),
        _ if dirfd == AT_FDCWD => state.cwd.as_ref()?,
        _ => &state.files.entry(u32::try_from(dirfd).ok()?).ok()?.file,
    };
    match file.object {
        None => Some(at_file(file.clone(), name)),
        Some(_) => None,
    }
}

fn find_start(dirfd: i32, name: &[u8]) -> Result<Start<'_>> {
    match name.first() {
        Some(b'/') => absolute(name),
        _ if dirfd == AT_FDCWD => {
            let cwd = process().state().cwd.clone();
            match cwd {
                Some(cwd) => Ok(at_file(cwd, name)),
                None => by_prefix(name, b"/"),
            }
        }
        _ => {
            let fd = u32::try_from(dirfd).map_err(|_| EBADF)?;
            let file = process().state().files.get(fd)?;
            if file.object.is_some() {
                return Err(ENOTDIR);
            }
            Ok(at_file(file, name))
        }
    }
}

pub fn at_file(file: Arc<OpenFile>, rest: &[u8]) -> Start<'_> {
    Start {
        slot: file.slot(),
        rest: Cow::Borrowed(rest),
        home: file.home,
        file: Some(file),
    }
}

/// What a name of something of the process's own means. Below a root there are such names only where something is mounted (`/proc`, `/dev`).
pub fn own(name: &[u8]) -> Option<Own<'_>> {
    let process = process();
    if process.in_space.load(Ordering::Relaxed) {
        return own_in_space(name);
    }
    let own = prefix::own(name, process.pid())?;
    let mut state = process.state();
    refresh(&mut state);
    let Some(root) = &state.root else {
        return Some(own);
    };
    let (_, length) = state.prefixes.find(&[&root.name, name].concat())?;
    (length > root.name.len()).then_some(own)
}

/// The same in a mount name space of its own, where the file systems that have such names may lie anywhere.
#[inline(never)]
fn own_in_space(name: &[u8]) -> Option<Own<'_>> {
    if name.first() != Some(&b'/') || !space::is_private() {
        return None;
    }
    let process = process();
    let state = process.state();
    let full = [&state.root.as_ref()?.name, name].concat();
    let mount = state.space.as_ref()?.find(&full)?;
    let rest = full.len().checked_sub(mount.name.len() + 1)?;
    let rest = name.get(name.len().checked_sub(rest)?..)?;
    match &mount.fstype[..] {
        b"proc" => prefix::own_below_proc(rest, process.pid()),
        b"devtmpfs" => prefix::own_below_dev(rest),
        _ => None,
    }
}

/// Where a redirect leads: an absolute name, an open file of another process, into a mount that others hide, or a name with a scheme.
fn onward(name: &[u8]) -> Result<Start<'_>> {
    match name.first() {
        Some(b'/') => absolute(name),
        Some(0) => {
            let (file, rest) = others::behind(name)?;
            Ok(at_file(file, rest))
        }
        Some(&space::INTO) => {
            let (number, rest) = name[1..].split_first_chunk().ok_or(ENOENT)?;
            Ok(at_file(space::reach(u32::from_le_bytes(*number))?, rest))
        }
        _ => by_prefix(name, name),
    }
}

/// `name` at the manager that serves `place`; what of `name` is left if it begins with that prefix.
fn by_prefix<'a>(name: &'a [u8], place: &[u8]) -> Result<Start<'a>> {
    let process = process();
    let mut state = process.state();
    refresh(&mut state);
    let found = state.prefixes.find(place);
    drop(state);
    let (index, length) = found.ok_or(ENOENT)?;
    let slot = mount(index)?;
    Ok(Start {
        slot,
        rest: Cow::Borrowed(&name[length..]),
        home: slot,
        file: None,
    })
}

/// The mount portals of all managers of files with names that the process reaches; its root in the place of the one that this is in.
pub fn managers() -> Vec<u32> {
    let process = process();
    let mut state = process.state();
    refresh(&mut state);
    let indices: Vec<u32> = state.prefixes.managers().collect();
    let root = state.root.as_ref().map(|root| root.directory.slot());
    if let Some(space) = &state.space {
        return space.files().map(|file| file.slot()).chain(root).collect();
    }
    drop(state);
    let mounts = indices.into_iter().filter_map(|index| mount(index).ok());
    mounts.chain(root).collect()
}

fn absolute(name: &[u8]) -> Result<Start<'_>> {
    let process = process();
    if let Some(own) = own(name) {
        if let Some(start) = own_start(own)? {
            return Ok(start);
        }
    }
    let mut state = process.state();
    refresh(&mut state);
    let Some(root) = &state.root else {
        drop(state);
        return by_prefix(name, name);
    };
    let full = [&root.name, name].concat();
    if state.space.is_some() {
        drop(state);
        space::is_private();
        let (file, length) = space::start(&full)?;
        return Ok(Start {
            slot: file.slot(),
            rest: Cow::Owned(full[length..].to_vec()),
            home: NO_SLOT,
            file: Some(file),
        });
    }
    let (index, length) = state.prefixes.find(&full).ok_or(ENOENT)?;
    if length <= root.name.len() {
        let directory = root.directory.clone();
        drop(state);
        return Ok(at_file(directory, name));
    }
    drop(state);
    let slot = mount(index)?;
    Ok(Start {
        slot,
        rest: Cow::Owned(full[length..].to_vec()),
        home: slot,
        file: None,
    })
}

fn own_start(own: Own<'_>) -> Result<Option<Start<'_>>> {
    match own {
        Own::Descriptor(fd, rest) => {
            let file = process().state().files.get(fd).map_err(|_| ENOENT)?;
            Ok(Some(at_file(file, rest)))
        }
        Own::Cwd(rest) => {
            let cwd = process().state().cwd.clone().ok_or(ENOENT)?;
            Ok(Some(at_file(cwd, rest)))
        }
        Own::Exe | Own::Descriptors => Ok(None),
    }
}

/// Read the published table again if it changed. The portals of what is mounted as before are kept; the others may be what somebody waits for the end of.
fn refresh(state: &mut State) {
    if state.prefixes.version() != published::version() {
        let prefixes = published::read();
        let gone = state.mounts & !prefixes.also_in(&state.prefixes);
        for index in (0..linux_slot::MOUNTS_MAX).filter(|index| gone >> index & 1 != 0) {
            gate::close(linux_slot::MOUNTS + index);
        }
        state.mounts &= !gone;
        state.prefixes = prefixes;
    }
}

/// An absolute name as the table of mounts has it, without slashes that say nothing. None: where it leads cannot be told by the name, because of `..`.
pub fn as_written(name: &[u8]) -> Option<Vec<u8>> {
    let plain = name.first() == Some(&b'/') && name.split(|b| *b == b'/').all(|c| c != b"..");
    plain.then(|| {
        let state = process().state();
        let root = state.root.as_ref().map_or(&b""[..], |root| &root.name);
        prefix::below(root, name)
    })
}

/// The mount portal of exactly this place, if something is mounted there; and whether something is below.
pub fn mounted_at(place: &[u8]) -> Result<Option<(u32, bool)>> {
    let process = process();
    let mut state = process.state();
    refresh(&mut state);
    let found = state.prefixes.find(place);
    // The root's own name is empty.
    let name = place.strip_suffix(b"/").unwrap_or(place);
    let above = state.prefixes.is_above(name);
    drop(state);
    match found {
        Some((index, length)) if length == name.len() => Ok(Some((mount(index)?, above))),
        _ => Ok(None),
    }
}

/// A scheme's manager (`pipe:`): its portal slot.
pub fn scheme(name: &[u8]) -> Result<u32> {
    let process = process();
    let mut state = process.state();
    refresh(&mut state);
    let found = state.prefixes.find(name);
    drop(state);
    mount(found.ok_or(EIO)?.0)
}

/// The process has another portal of what is mounted under a scheme, as soon as it wants it.
pub fn forget_scheme(name: &[u8]) {
    let mut state = process().state();
    if let Some((index, ..)) = state.prefixes.find(name) {
        if state.mounts & 1 << index != 0 {
            state.mounts &= !(1 << index);
            gate::close(linux_slot::MOUNTS + index);
        }
    }
}

/// The slot of a mount portal. The first time it is fetched: from `proc` if its name is a scheme, from the file server of the folder above if it has a place, which takes who may search what is above that.
fn mount(index: u32) -> Result<u32> {
    let target = linux_slot::MOUNTS + index;
    let process = process();
    if process.state().mounts & 1 << index != 0 {
        return Ok(target);
    }
    let slot = fetch(index)?;
    let placed = gate::copy_portal(slot, Some(target));
    gate::close(slot);
    placed.map_err(gate::errno_of)?;
    process.state().mounts |= 1 << index;
    Ok(target)
}

/// A handle of what the first name space's entry says, for a new name space.
pub fn own_portal(index: u32) -> Result<Arc<OpenFile>> {
    make_room()?;
    let slot = mount(index)?;
    let copy = gate::copy_portal(slot, None).map_err(gate::errno_of)?;
    Ok(Arc::new(OpenFile::portal(copy, 0, fs::s::IFDIR)))
}

/// The portal of the root of all.
pub fn root_slot() -> Result<u32> {
    by_prefix(b"/", b"/").map(|start| start.slot)
}

/// A new portal of a mount.
fn fetch(index: u32) -> Result<u32> {
    let process = process();
    let state = process.state();
    let name = state.prefixes.name(index).ok_or(ENOENT)?.to_vec();
    let above = state.prefixes.above(&name);
    let root = state.root.as_ref();
    let below_root = root.filter(|root| root.below(&name).is_some());
    let inside = root.is_none() || below_root.is_some();
    let root = below_root.map(|root| (root.name.len(), root.directory.clone()));
    drop(state);
    if name.is_empty() {
        // Who has not inherited the root's does not get it.
        return Err(ENOENT);
    }
    if name.first() != Some(&b'/') {
        let request = Request::new(&[proc::MOUNT_PORTAL, index as u64]);
        let words = request.brings(1).call(linux_slot::PROC)?;
        return Ok(words[7] as u32);
    }
    let (above, length) = above.filter(|_| inside).ok_or(ENOENT)?;
    make_room()?;
    let ask = |slot: u32, rest: &[u8]| {
        let request = Request::new(&[fs::MOUNTED]).out(rest).brings(1);
        request.call(slot).map(|words| words[7] as u32)
    };
    let got = match root {
        Some((start, directory)) if length <= start => ask(directory.slot(), &name[start..]),
        // One that is higher up, and so on; there are few.
        _ => ask(mount(above)?, &name[length..]),
    };
    got.map_err(|error| match error {
        // Something else is mounted or linked there by now.
        REDIRECT => ENOENT,
        error => error,
    })
}

/// The process is somebody else now: of the mounts that are not in the root's own folder, which everybody searches, it keeps those that it would reach.
pub fn look_at_mounts() {
    let process = process();
    let mut state = process.state();
    if let Some(space) = &mut state.space {
        let held = space.take_files();
        drop(state);
        drop(held);
        return;
    }
    refresh(&mut state);
    let held = state.mounts & state.prefixes.deep();
    drop(state);
    for index in (0..linux_slot::MOUNTS_MAX).filter(|index| held >> index & 1 != 0) {
        match fetch(index) {
            Ok(slot) => gate::close(slot),
            Err(_) => {
                process.state().mounts &= !(1 << index);
                gate::close(linux_slot::MOUNTS + index);
            }
        }
    }
}

/// This is the process's root from now on. It keeps no portal that leads past it.
pub fn set_root(root: Root) {
    let process = process();
    let mut state = process.state();
    refresh(&mut state);
    let placed: u32 = state.prefixes.managers().map(|index| 1 << index).sum();
    state.mounts &= !placed;
    let schemes = state.mounts;
    let old = state.root.replace(root);
    drop(state);
    drop(old);
    // Also those of mounts that are no more.
    for index in (0..linux_slot::MOUNTS_MAX).filter(|index| schemes >> index & 1 == 0) {
        gate::close(linux_slot::MOUNTS + index);
    }
}

/// The process never looks at such things again ([`cairn_idl::proc::filter`]): it keeps no portals of mounts that are for them only.
pub fn forget(kinds: u64) {
    let process = process();
    let mut state = process.state();
    refresh(&mut state);
    let mut gone = Vec::new();
    for index in (0..linux_slot::MOUNTS_MAX).filter(|index| state.mounts >> index & 1 != 0) {
        let kind = match state.prefixes.name(index) {
            Some(b"event:" | b"pipe:") => 0,
            Some(b"local:" | b"net:") => filter::SOCKETS,
            Some(b"ipc:") => filter::IPC,
            Some(b"keys:") => filter::KEYS,
            _ => filter::PATHS,
        };
        if kinds & kind != 0 {
            gone.push(index);
        }
    }
    state.mounts &= !gone.iter().map(|index| 1 << index).sum::<u32>();
    let mut files = Vec::new();
    if kinds & filter::PATHS != 0 {
        files.extend(state.set_cwd(None));
        files.extend(state.root.take().map(|root| root.directory));
        if let Some(space) = &mut state.space {
            files.extend(space.take_files());
        }
    }
    drop(state);
    drop(files);
    for index in gone {
        gate::close(linux_slot::MOUNTS + index);
    }
}

/// The first process was given the portals of all mounts; others inherit what it has.
pub fn take_mounts() {
    let process = process();
    let mut state = process.state();
    state.prefixes = published::read();
    state.mounts = state.prefixes.also_in(&state.prefixes);
}

/// A process that begins anew was given the root's portal and no other.
pub fn take_root() {
    let process = process();
    let mut state = process.state();
    state.prefixes = published::read();
    let root = state.prefixes.find(b"/");
    state.mounts = root.map_or(0, |(index, _)| 1 << index);
}

/// A place's name from the root of all, as the process calls it.
pub fn as_seen(place: &[u8]) -> Result<Vec<u8>> {
    let state = process().state();
    let seen = match &state.root {
        Some(root) => root.below(place).ok_or(ENOENT)?,
        None => place,
    };
    Ok(seen.to_vec())
}

/// Most portals that one call brings.
pub const PORTALS: u32 = 4;

/// Make room in the portal table for what the next call may bring.
pub fn make_room() -> Result<()> {
    // The lock is given back before the table grows: growing takes it again.
    if wants_growth() {
        grow_room()?;
    }
    Ok(())
}

fn wants_growth() -> bool {
    let mut state = process().state();
    state.wants_growth(PORTALS) && {
        state.forget_closed_signallers();
        state.wants_growth(PORTALS)
    }
}

/// The same, for many that are no descriptors yet.
pub fn grow_room() -> Result<()> {
    let capacity = process().state().capacity;
    grow_room_from(capacity)
}

/// The same again and again, for who has so many by now.
pub fn grow_for(many: usize) -> Result<()> {
    match many as u32 % (GROWTH / 2) == GROWTH / 4 {
        true => grow_room(),
        false => Ok(()),
    }
}

/// The portal table was found full when it had this capacity. Of many threads that find it so one has it grow, and the others wait for that.
pub fn grow_room_from(capacity: u32) -> Result<()> {
    let process = process();
    let growing = process.growth.lock();
    if process.state().capacity == capacity {
        memory::grow_table().map_err(|_| crate::errno::EMFILE)?;
        process.state().capacity += GROWTH;
    }
    drop(growing);
    Ok(())
}

/// Slots by which a portal table grows.
const GROWTH: u32 = 256;

/// The absolute path of an open file.
#[inline(never)] // its buffer is a page of the caller's stack otherwise, which exec copies
pub fn path_of(file: &OpenFile) -> Result<Vec<u8>> {
    let mut buffer: Buffer<PATH_MAX> = Buffer::new();
    path_into(file, &mut buffer)?;
    Ok(buffer.as_bytes().to_vec())
}

/// The same, into a buffer.
pub fn path_into<const N: usize>(file: &OpenFile, buffer: &mut Buffer<N>) -> Result<()> {
    ask_path(file, buffer, false)
}

/// As [`path_of`], and where it was if it has been unlinked, with " (deleted)" behind it.
pub fn place_of(file: &OpenFile) -> Result<Vec<u8>> {
    let mut buffer: Buffer<PATH_MAX> = Buffer::new();
    ask_path(file, &mut buffer, true)?;
    Ok(buffer.as_bytes().to_vec())
}

fn ask_path<const N: usize>(file: &OpenFile, buffer: &mut Buffer<N>, gone: bool) -> Result<()> {
    let request = Request::new(&[cairn_idl::fs::GETPATH, u64::from(gone)]);
    let words = buffer
        .receive_first(PATH_MAX as u64, request)
        .call(file.slot())?;
    buffer.filled(words[0].min(PATH_MAX as u64));
    if words[1] >> 32 != 0 {
        let name = space::whole(words[1] as u32, buffer.as_bytes());
        buffer.set(&name.ok_or(ENOENT)?);
    }
    Ok(())
}
