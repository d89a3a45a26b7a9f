//! exec of files with set-id bits or capabilities: the program begins in a new domain (`proc::EXEC_FRESH`), with a copy of this library that nobody could touch. This half tells that one what Linux keeps over exec: descriptors, working
//! directory, masks. All of it is the word of who called exec and may have been made up; it gives nothing that he could not have given otherwise. What matters is asked: of each portal what it leads to (DESCRIBE), of the
//! file its manager (EXECUTE), of `proc` ids, limits, root directory.

use super::exec::{self, Executable};
use super::messages::{as_described, describe};
use super::sockets::Passing;
use super::{exit, ids};
use crate::descriptors::{event_kind, OpenFile, NO_SLOT};
use crate::errno::{Errno, Result, EACCES, EINVAL, EIO, EPERM};
use crate::machine::area::{area, process, Frame};
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user::bytes_of;
use crate::path::{self, AT_FDCWD};
use crate::process::Root;
use crate::signal::{rules, signals_of, Action, Info, SIGSEGV, SIG_IGN};
use crate::space;
use crate::stack::Strings;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, MAX_SLOTS, RESERVED_SLOTS};
use cairn_idl::capability::{self, FileCapabilities, ATTRIBUTE, ATTRIBUTE_MAX};
use cairn_idl::fs::{self, kind, o, s};
use cairn_idl::proc::{self, Credentials};
use core::sync::atomic::Ordering;

/// ST_NOSUID
const NO_SET_ID: i64 = 2;

/// What `proc` says of the name spaces that the process has.
const SPACE: u64 = 1;
const AT_ROOT: u64 = 2;
const OWN_HOST: u64 = 4;
const OWN_PIDS: u64 = 8;
const CHILDREN_OWN_PIDS: u64 = 16;

/// What one half tells the other.
#[derive(Debug, Default, PartialEq)]
struct Told<'a> {
    /// The portal of the file to execute.
    file: u32,
    cwd: u32,
    umask: u32,
    affinity: u64,
    /// Signals that are blocked, ignored.
    mask: u64,
    ignored: u64,
    /// Signals that wait because they are blocked.
    pending: Vec<Info>,
    /// Number, portal, id of each descriptor; the next id.
    descriptors: Vec<[u64; 3]>,
    next_id: u64,
    /// What it was called by; what AT_EXECFN says.
    given: &'a [u8],
    name: &'a [u8],
    arguments: &'a [u8],
    environment: &'a [u8],
}

const NUMBERS: usize = 12;

impl<'a> Told<'a> {
    /// How long it is, encoded.
    fn length(&self) -> usize {
        let texts = [self.given, self.name, self.arguments, self.environment];
        let text: usize = texts.iter().map(|text| text.len()).sum();
        8 * NUMBERS + 24 * (self.pending.len() + self.descriptors.len()) + text
    }

    /// Behind what is there.
    fn encode(&self, bytes: &mut Vec<u8>) {
        let lengths = [self.given, self.name, self.arguments, self.environment];
        let [given, name, arguments, environment] = lengths.map(|text| text.len() as u64);
        let numbers: [u64; NUMBERS] = [
            u64::from(self.file) | u64::from(self.cwd) << 32,
            u64::from(self.umask),
            self.affinity,
            self.mask,
            self.ignored,
            self.next_id,
            self.pending.len() as u64,
            self.descriptors.len() as u64,
            given,
            name,
            arguments,
            environment,
        ];
        bytes.extend_from_slice(bytes_of(&numbers));
        for info in &self.pending {
            let words = [
                u64::from(info.signal) | u64::from(info.code as u32) << 32,
                u64::from(info.pid) | u64::from(info.uid) << 32,
                info.value,
            ];
            bytes.extend_from_slice(bytes_of(&words));
        }
        for descriptor in &self.descriptors {
            bytes.extend_from_slice(bytes_of(descriptor));
        }
        lengths
            .iter()
            .for_each(|text| bytes.extend_from_slice(text));
    }

    /// None: it contradicts itself.
    fn decode(mut bytes: &'a [u8]) -> Option<Told<'a>> {
        let triples = |bytes: &mut &[u8], count: u64| {
            let length = usize::try_from(count).ok()?.checked_mul(24)?;
            let (all, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            let words = all.as_chunks::<8>().0;
            let words = words.as_chunks::<3>().0.iter();
            Some(
                words
                    .map(|words| words.map(u64::from_le_bytes))
                    .collect::<Vec<_>>(),
            )
        };
        let head = bytes.get(..NUMBERS * 8)?;
        let mut numbers = [0; NUMBERS];
        for (number, bytes) in numbers.iter_mut().zip(head.as_chunks().0) {
            *number = u64::from_le_bytes(*bytes);
        }
        bytes = &bytes[NUMBERS * 8..];
        let [slots, umask, affinity, mask, ignored, next_id, pending, descriptors, lengths @ ..] =
            numbers;
        let pending = triples(&mut bytes, pending)?;
        let descriptors = triples(&mut bytes, descriptors)?;
        let mut text = |length: u64| {
            let (text, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
            bytes = rest;
            Some(text)
        };
        Some(Told {
            file: slots as u32,
            cwd: (slots >> 32) as u32,
            umask: umask as u32,
            affinity,
            mask,
            ignored,
            pending: pending
                .into_iter()
                .map(|[what, who, value]| Info {
                    signal: what as u32,
                    code: (what >> 32) as i32,
                    pid: who as u32,
                    uid: (who >> 32) as u32,
                    value,
                    ..Info::default()
                })
                .collect(),
            descriptors,
            next_id,
            given: text(lengths[0])?,
            name: text(lengths[1])?,
            arguments: text(lengths[2])?,
            environment: text(lengths[3])?,
        })
    }
}

/// Strings that each have their NUL.
fn strings(bytes: &[u8]) -> Strings {
    if bytes.is_empty() {
        return Strings::default();
    }
    let mut strings = Strings::with_room();
    let whole = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    whole.split(|byte| *byte == 0).for_each(|s| strings.push(s));
    strings
}

/// Whether this file's set-id bits would change the ids, or its capabilities count. EPERM: they are to be effective, and the process's bounds do not leave all of them.
pub fn is_wanted(file: &OpenFile) -> Result<bool> {
    let raises = file.kind & kind::RAISES != 0;
    if file.mode & (s::ISUID | s::ISGID) == 0 && !raises {
        return Ok(false);
    }
    // (A tracer would have what it gets.)
    if process().state().no_new_privileges || area().is_traced() {
        return Ok(false);
    }
    if let Some(of) = raises.then(|| capabilities_of(file)).flatten() {
        let own = ids::credentials()?;
        let left = of.permitted & own.bounding | of.inheritable & own.inheritable;
        let mut about = fs::Statfs::default();
        Request::new(&[fs::STATFS])
            .input_value(&mut about)
            .call(file.slot())?;
        let counts = about.flags & NO_SET_ID == 0;
        if counts && of.effective && of.permitted & !left != 0 {
            return Err(EPERM);
        }
        if counts {
            return Ok(true);
        }
    }
    let stat = super::status::stat_handle(file)?;
    let process = process();
    let uid = process.euid.load(Ordering::Relaxed);
    let gid = process.egid.load(Ordering::Relaxed);
    // Without the group's execute bit ISGID means mandatory locking.
    let grouped = file.mode & (s::ISGID | 0o010) == s::ISGID | 0o010;
    Ok(file.mode & s::ISUID != 0 && stat.uid != uid || grouped && stat.gid != gid)
}

fn capabilities_of(file: &OpenFile) -> Option<FileCapabilities> {
    let mut value = [0; ATTRIBUTE_MAX];
    // No path, the name, no value.
    let text = [b"\0", ATTRIBUTE, b"\0"].concat();
    let request = Request::new(&[fs::XATTR]).out(&text).input(&mut value);
    let words = request.call(file.slot()).ok()?;
    capability::of_file(value.get(..words[0] as usize)?)
}

/// The first half: there is an answer only if it failed.
#[inline(never)]
pub fn exec(
    file: &OpenFile,
    exe: &[u8],
    (given, name): (&[u8], &[u8]),
    arguments: &Strings,
    environment: &Strings,
) -> Errno {
    let (area, process) = (area(), process());
    let mut told = Told {
        file: file.slot(),
        cwd: NO_SLOT,
        affinity: area.affinity.get(),
        mask: area.peer.mask.load(Ordering::Relaxed),
        given,
        name,
        arguments: &arguments.bytes,
        environment: &environment.bytes,
        ..Told::default()
    };
    told.pending.extend(area.signals.borrow().queue.all());
    {
        let state = process.state();
        told.umask = state.files.umask();
        told.next_id = state.files.next_id();
        told.ignored = state.actions.which(|action| action.handler == SIG_IGN);
        told.pending.extend(state.queue.all());
        told.cwd = state.cwd.as_ref().map_or(NO_SLOT, |file| file.slot());
        let kept = state.files.files().filter(|(_, e)| !e.close_on_exec);
        let kept = kept.map(|(fd, e)| [u64::from(fd), u64::from(e.file.slot()), e.file.id()]);
        told.descriptors
            .extend(kept.filter(|d| d[1] != u64::from(NO_SLOT)));
    }
    let files = told.descriptors.iter().map(|d| d[1] as u32);
    let files = files.chain([told.file, told.cwd]);
    let files = files.filter(|slot| *slot < MAX_SLOTS);
    let most = files.clone().max().unwrap_or(0);
    let mut slots = alloc::vec![0u64; most as usize / 64 + 1];
    files.for_each(|slot| slots[slot as usize / 64] |= 1 << (slot % 64));
    let line = exec::command_line(arguments);
    let texts = exe.len() + line.len() + given.len();
    let mut part = Vec::with_capacity(texts + 8 * slots.len() + told.length());
    [exe, line, given]
        .iter()
        .for_each(|text| part.extend_from_slice(text));
    slots
        .iter()
        .for_each(|word| part.extend_from_slice(bytes_of(word)));
    told.encode(&mut part);
    let words = [
        proc::EXEC_FRESH,
        exe.len() as u64,
        line.len() as u64,
        given.len() as u64,
        8 * slots.len() as u64,
        exec::first_stack(arguments, environment, name),
    ];
    match Request::new(&words).out(&part).call(linux_slot::PROC) {
        Ok(_) => EIO,
        Err(errno) => errno,
    }
}

/// The second half: `frame` becomes the program's first instruction.
pub fn run(frame: &mut Frame, root: Option<&[u8]>, spaces: u64, bytes: &[u8]) {
    let begun = Told::decode(bytes)
        .ok_or(EINVAL)
        .and_then(|told| begin(frame, (root, spaces), told));
    if begun.is_err() {
        exit::die(SIGSEGV);
    }
}

fn begin(frame: &mut Frame, (root, spaces): (Option<&[u8]>, u64), told: Told) -> Result<()> {
    match root {
        None => path::take_root(),
        Some(name) => {
            let directory = describe(Passing(linux_slot::ROOT)).map(Arc::new)?;
            let name = name.to_vec();
            process().state().root = Some(Root { name, directory });
        }
    }
    if spaces & SPACE != 0 {
        space::begin(spaces & AT_ROOT != 0)?;
    }
    process().state().own_host = spaces & OWN_HOST != 0;
    let pids = &process().in_pid_space;
    pids.store(spaces & OWN_PIDS != 0, Ordering::Relaxed);
    let pids = &process().children_in_pid_space;
    pids.store(spaces & CHILDREN_OWN_PIDS != 0, Ordering::Relaxed);
    let file = own_slot(told.file)?;
    // Its manager tells `proc` whose ids it gives.
    let words = Request::new(&[fs::EXECUTE]).call(file.0)?;
    let file = Arc::new(as_described(file, &words));
    if file.mode & s::IFMT != s::IFREG {
        return Err(EACCES);
    }
    let mut creds = Credentials::default();
    let [_, careful, low, high, files, size, ..] = Request::new(&[proc::BEGIN])
        .input_value(&mut creds)
        .call(linux_slot::PROC)?;
    ids::remember(&creds);
    process().state().files.limit = files.min(MAX_SLOTS.into()) as u32;
    process().file_limit.store(size, Ordering::Relaxed);
    let raised = creds.ruid != creds.euid || creds.rgid != creds.egid;
    take_over(&told, &file);
    if raised {
        fill_standard_descriptors();
    }
    let executable = Executable::read(file)?;
    let (arguments, environment) = (strings(told.arguments), strings(told.environment));
    exec::load(
        frame,
        executable,
        (told.given, told.name),
        &arguments,
        &environment,
        ([low, high], careful != 0),
    )?;
    // What came for it meanwhile.
    area().mark_poked();
    Ok(())
}

/// A portal that may be the caller's.
fn own_slot(slot: u32) -> Result<Passing> {
    match slot < RESERVED_SLOTS {
        true => Err(EINVAL),
        false => Ok(Passing(slot)),
    }
}

fn described(slot: u32) -> Result<Arc<OpenFile>> {
    own_slot(slot).and_then(describe).map(Arc::new)
}

/// Descriptors, working directory, masks. What leads nowhere is not there.
fn take_over(told: &Told, file: &Arc<OpenFile>) {
    let (area, process) = (area(), process());
    let cwd = match described(told.cwd) {
        Ok(file) if file.mode & s::IFMT == s::IFDIR => Some(file),
        _ => super::open::open_directory(AT_FDCWD, b"/").ok(),
    };
    // What was made by dup from one another, or is the working directory as well, shares a portal.
    let mut by_slot: Vec<&[u64; 3]> = told.descriptors.iter().collect();
    by_slot.sort_unstable_by_key(|[_, slot, _]| *slot);
    let at_hand = [Some(file.clone()), cwd.clone()];
    let mut last: Option<Arc<OpenFile>> = None;
    for &&[fd, slot, id] in &by_slot {
        let (fd, slot) = (fd as u32, slot as u32);
        let same = |file: &&Arc<OpenFile>| file.slot() == slot;
        let known = at_hand.iter().flatten().chain(&last).find(same).cloned();
        let Some(file) = known.or_else(|| described(slot).ok()) else {
            continue;
        };
        file.set_id(id);
        if file.is(event_kind::SIGNALS) {
            process.signal_files.store(true, Ordering::Relaxed);
        }
        if fd < MAX_SLOTS {
            process.state().files.put_back(fd, file.clone());
        }
        last = Some(file);
    }
    let slots = at_hand
        .iter()
        .flatten()
        .chain(&last)
        .map(|file| file.slot());
    let most = slots.max().unwrap_or(0);
    process.state().holds_slots_to(most.min(MAX_SLOTS - 1));
    let mut state = process.state();
    state.set_cwd(cwd);
    state.files.set_umask(told.umask);
    state.files.set_next_id(told.next_id);
    for signal in signals_of(told.ignored & !rules::UNBLOCKABLE) {
        let action = Action {
            handler: SIG_IGN,
            ..Action::default()
        };
        state.actions.set(signal, action);
    }
    drop(state);
    let mask = told.mask & !rules::UNBLOCKABLE;
    area.peer.mask.store(mask, Ordering::Relaxed);
    let mut signals = area.signals.borrow_mut();
    told.pending
        .iter()
        .for_each(|info| signals.queue.add(*info));
    drop(signals);
    if told.affinity != 0 {
        area.affinity.set(told.affinity);
        // Cores that are not there any more: as it comes.
        let _ = gate::affinity(0, told.affinity);
    }
}

/// A program with other ids than its caller's finds 0, 1 and 2 open, so that no file that it opens becomes one of them.
fn fill_standard_descriptors() {
    for fd in 0..3 {
        if process().state().files.entry(fd).is_ok() {
            continue;
        }
        let Ok(null) = super::open::open_file(AT_FDCWD, b"/dev/null", o::RDWR, 0) else {
            return;
        };
        process().state().files.put_back(fd, null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives() {
        let told = Told {
            file: 70,
            cwd: 71,
            umask: 0o27,
            affinity: 1,
            mask: 1 << 14,
            ignored: 2,
            pending: alloc::vec![Info {
                signal: 15,
                code: -1,
                pid: 7,
                uid: 5,
                value: 9,
                ..Info::default()
            }],
            descriptors: alloc::vec![[0, 72, 5], [3, 72, 5]],
            next_id: 6,
            given: b"su",
            name: b"/bin/su",
            arguments: b"su\0-c\0",
            environment: b"A=1\0",
        };
        let mut bytes = Vec::new();
        told.encode(&mut bytes);
        assert_eq!(bytes.len(), told.length());
        assert_eq!(Told::decode(&bytes), Some(told));
        for length in 0..bytes.len() {
            assert_eq!(Told::decode(&bytes[..length]), None, "{length}");
        }
        let mut wild = bytes.clone();
        for at in 6..12 {
            wild[8 * at..8 * at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            assert_eq!(Told::decode(&wild), None);
        }
    }

    #[test]
    fn strings_are_counted_by_their_ends() {
        let all = |bytes: &[u8]| {
            strings(bytes)
                .iter()
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        };
        assert_eq!(all(b"su\0\0-c\0"), [&b"su"[..], b"", b"-c"]);
        assert!(all(b"").is_empty());
        assert_eq!(all(b"\0"), [b""]);
    }
}
