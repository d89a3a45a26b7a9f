//! The tree and its files.

use crate::files::{File, Row, ALL, CONTROLLERS, CPU, FILES, MEMORY, PIDS};
use crate::{text, Groups, Times, Usage};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::fs::{kind, s};
use cairn_resmgr::permission::{allowed, check, WRITE};
use cairn_resmgr::server::{put, Access, Answer, Change, New, Opened};
use cairn_resmgr::written::until_nul;
use cairn_resmgr::{Context, Data, Dirents, Failure, Handle, Meta, Server, Snapshot};
use core::fmt::Write;

const PAGE: u64 = 4096;
/// A node is a folder's place and, below this, the file in it (0: the folder itself).
const PER_FOLDER: u32 = 32;
const ROOT: u32 = 0;
/// What a folder is charged for: its record here, and those of `proc` and `vm`.
const COST: usize = 1024;
/// cpu.max and cpu.weight at first.
const PERIOD: u64 = 100_000;
const WEIGHT: u64 = 100;
/// Longest text that is written at once.
const WRITE_MOST: usize = 4096;
/// Bytes of pids that are asked for at once.
const PIDS_AT_ONCE: usize = 16 * 1024;

/// Owner and permission bits.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: u32,
    gid: u32,
    mode: u32,
}

struct Folder {
    /// `proc`'s number.
    group: u32,
    above: u32,
    name: Vec<u8>,
    names: BTreeMap<Vec<u8>, u32>,
    owner: Owner,
    files: [Owner; FILES.len()],
    /// What the folders below it have.
    control: u8,
    pages: Option<u64>,
    tasks: Option<u64>,
    together: bool,
    high: Option<u64>,
    frozen: bool,
    /// cpu.max in µs, and cpu.weight.
    quota: Option<u64>,
    period: u64,
    weight: u64,
    payer: u32,
    /// Open files of it.
    open: u32,
    removed: bool,
}

/// The file system. Places of folders that are free are used again.
pub struct Cgroup<G> {
    groups: G,
    folders: Vec<Option<Folder>>,
    free: Vec<u32>,
    by_group: BTreeMap<u32, u32>,
    /// How to end after unmounting.
    pub end: Option<fn()>,
    ended: bool,
    pub device: u64,
}

/// An open file: who opened it, and what it says.
#[derive(Default)]
pub struct Open {
    label: u64,
    text: Snapshot,
}

fn fail<T>(errno: i64) -> Answer<T> {
    Err(Failure::Errno(errno))
}

fn errno<T>(result: Result<T, i64>) -> Answer<T> {
    result.map_err(Failure::Errno)
}

fn place(node: u32) -> u32 {
    node / PER_FOLDER
}

/// The row of a file.
fn row(node: u32) -> Option<(usize, &'static Row)> {
    let at = (node % PER_FOLDER).checked_sub(1)? as usize;
    Some((at, FILES.get(at)?))
}

fn new_folder(group: u32, above: u32, name: Vec<u8>, owner: Owner, payer: u32) -> Folder {
    let files = core::array::from_fn(|at| Owner {
        mode: FILES[at].mode,
        ..owner
    });
    Folder {
        group,
        above,
        name,
        names: BTreeMap::new(),
        owner,
        files,
        control: 0,
        pages: None,
        tasks: None,
        together: false,
        high: None,
        frozen: false,
        quota: None,
        period: PERIOD,
        weight: WEIGHT,
        payer,
        open: 0,
        removed: false,
    }
}

impl<G: Groups> Cgroup<G> {
    pub fn new(groups: G) -> Cgroup<G> {
        let owner = Owner {
            uid: 0,
            gid: 0,
            mode: 0o755,
        };
        Cgroup {
            groups,
            folders: [Some(new_folder(0, ROOT, Vec::new(), owner, 0))].into(),
            free: Vec::new(),
            by_group: BTreeMap::from([(0, ROOT)]),
            end: None,
            ended: false,
            device: 0,
        }
    }

    fn folder(&self, at: u32) -> Answer<&Folder> {
        let folder = self.folders.get(at as usize).and_then(Option::as_ref);
        folder.ok_or(Failure::Errno(ENOENT))
    }

    fn folder_mut(&mut self, at: u32) -> Answer<&mut Folder> {
        let folder = self.folders.get_mut(at as usize).and_then(Option::as_mut);
        folder.ok_or(Failure::Errno(ENOENT))
    }

    /// One that was not removed.
    fn live(&self, at: u32) -> Answer<&Folder> {
        match self.folder(at)? {
            folder if folder.removed => fail(ENODEV),
            folder => Ok(folder),
        }
    }

    /// The controllers that a folder has: those that the one above gives.
    fn controllers(&self, at: u32) -> Answer<u8> {
        match at {
            ROOT => Ok(ALL),
            _ => Ok(self.folder(self.folder(at)?.above)?.control),
        }
    }

    fn has(&self, at: u32, row: &Row) -> bool {
        let controllers = self.controllers(at).unwrap_or(0);
        (at != ROOT || row.of_root) && controllers & row.controller == row.controller
    }

    fn owner(&self, node: u32) -> Answer<(Owner, u32)> {
        let folder = self.folder(place(node))?;
        Ok(match row(node) {
            Some((at, _)) => (folder.files[at], s::IFREG),
            None => (folder.owner, s::IFDIR),
        })
    }

    fn usage(&mut self, at: u32) -> Answer<Usage> {
        let group = self.live(at)?.group;
        errno(self.groups.usage(group))
    }

    fn times(&mut self, at: u32) -> Answer<Times> {
        let group = self.live(at)?.group;
        errno(self.groups.times(group))
    }

    fn pids(&mut self, at: u32, out: &mut String) -> Answer<()> {
        let group = self.live(at)?.group;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(PIDS_AT_ONCE)
            .map_err(|_| Failure::Errno(ENOMEM))?;
        bytes.resize(PIDS_AT_ONCE, 0);
        let mut after = 0;
        loop {
            let length = errno(self.groups.pids(group, after, &mut bytes))?;
            let pids = bytes[..length.min(PIDS_AT_ONCE)].chunks_exact(4);
            let mut last = 0;
            for pid in pids {
                last = u32::from_le_bytes([pid[0], pid[1], pid[2], pid[3]]);
                out.try_reserve(12).map_err(|_| Failure::Errno(ENOMEM))?;
                let _ = writeln!(out, "{last}");
            }
            if last == 0 || length < PIDS_AT_ONCE {
                return Ok(());
            }
            after = last;
        }
    }

    /// What a file says.
    fn contents(&mut self, node: u32) -> Answer<String> {
        let at = place(node);
        let Some((_, row)) = row(node) else {
            return fail(EISDIR);
        };
        let mut out = String::new();
        let limit = |out: &mut String, value: Option<u64>| match value {
            Some(value) => writeln!(out, "{value}"),
            None => writeln!(out, "max"),
        };
        let folder = self.live(at)?;
        let (pages, tasks, together) = (folder.pages, folder.tasks, folder.together);
        let (high, frozen, weight) = (folder.high, folder.frozen, folder.weight);
        let (quota, period) = (folder.quota, folder.period);
        let names = |out: &mut String, bits: u8| {
            let all = CONTROLLERS.iter().filter(|(_, bit)| bits & bit != 0);
            let names: Vec<_> = all.map(|(name, _)| *name).collect();
            writeln!(out, "{}", names.join(" "))
        };
        let _ = match row.file {
            File::Procs => {
                self.pids(at, &mut out)?;
                Ok(())
            }
            // Threads do not go alone.
            File::Threads => return fail(EOPNOTSUPP),
            File::Controllers => names(&mut out, self.controllers(at)?),
            File::SubtreeControl => names(&mut out, self.live(at)?.control),
            File::Events => {
                let populated = self.usage(at)?.populated.min(1);
                let frozen = u8::from(self.times(at)?.frozen);
                writeln!(out, "populated {populated}\nfrozen {frozen}")
            }
            File::Kill => return fail(EINVAL),
            File::Type => writeln!(out, "domain"),
            File::Freeze => writeln!(out, "{}", u8::from(frozen)),
            File::CpuStat => {
                let it = self.times(at)?;
                let used = it.used / 1000;
                // What is done in the system for a program is not told apart.
                let mut told = writeln!(out, "usage_usec {used}\nuser_usec {used}\nsystem_usec 0");
                if at != ROOT && self.controllers(at)? & CPU != 0 {
                    let (periods, throttled, waited) = (it.periods, it.throttled, it.waited / 1000);
                    told = write!(out, "nr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {waited}\nnr_bursts 0\nburst_usec 0\n");
                }
                told
            }
            File::CpuMax => match quota {
                Some(quota) => writeln!(out, "{quota} {period}"),
                None => writeln!(out, "max {period}"),
            },
            File::CpuWeight => writeln!(out, "{weight}"),
            File::CpuWeightNice => writeln!(out, "{}", text::nice_of(weight)),
            File::MemoryHigh => limit(&mut out, high.map(|pages| pages * PAGE)),
            File::MemoryPeak => writeln!(out, "{}", self.times(at)?.peak * PAGE),
            File::MemoryCurrent => {
                let it = self.usage(at)?;
                writeln!(out, "{}", (it.held + it.charged) * PAGE + it.records)
            }
            File::MemoryMax => limit(&mut out, pages.map(|pages| pages * PAGE)),
            File::MemoryEvents => {
                let (it, slowed) = (self.usage(at)?, self.times(at)?.slowed);
                writeln!(
                    out,
                    "low 0\nhigh {slowed}\nmax {}\noom {}\noom_kill {}\noom_group_kill 0",
                    it.full, it.oom, it.ended
                )
            }
            File::MemoryOomGroup => writeln!(out, "{}", u8::from(together)),
            File::MemoryStat => {
                let it = self.usage(at)?;
                let kernel = it.charged * PAGE + it.records;
                writeln!(out, "anon {}\nkernel {kernel}", it.held * PAGE)
            }
            File::PidsCurrent => writeln!(out, "{}", self.usage(at)?.tasks),
            File::PidsMax => limit(&mut out, tasks),
            File::PidsEvents => writeln!(out, "max {}", self.usage(at)?.refused),
        };
        Ok(out)
    }

    /// Something is written to a file.
    fn given(&mut self, cx: &mut Context, node: u32, label: u64, words: &str) -> Answer<()> {
        let at = place(node);
        let Some((_, row)) = row(node) else {
            return fail(EISDIR);
        };
        let group = self.live(at)?.group;
        match row.file {
            File::Procs => self.moved(cx, at, label, words),
            File::SubtreeControl => {
                let (on, off) = errno(text::controls(words))?;
                self.controlled(at, on, off)
            }
            File::Kill => {
                errno(text::one(words))?;
                errno(self.groups.kill(group))
            }
            File::MemoryMax => {
                let pages = errno(text::size(words))?;
                errno(self.groups.limit_pages(group, pages))?;
                self.folder_mut(at)?.pages = pages;
                Ok(())
            }
            File::Freeze => {
                let frozen = match errno(text::number(words))? {
                    0 => false,
                    1 => true,
                    _ => return fail(ERANGE),
                };
                errno(self.groups.freeze(group, frozen))?;
                self.folder_mut(at)?.frozen = frozen;
                Ok(())
            }
            File::CpuMax => {
                let before = self.live(at)?.period;
                let (quota, period) = errno(text::bandwidth(words, before))?;
                errno(self.groups.limit_time(group, quota, period))?;
                let folder = self.folder_mut(at)?;
                (folder.quota, folder.period) = (quota, period);
                Ok(())
            }
            File::CpuWeight => {
                let weight = errno(text::weight(words))?;
                self.weighed(at, weight)
            }
            File::CpuWeightNice => {
                let nice = errno(text::nice(words))?;
                self.weighed(at, text::weight_of(nice))
            }
            File::MemoryHigh => {
                let pages = errno(text::size(words))?;
                errno(self.groups.slow_beyond(group, pages))?;
                self.folder_mut(at)?.high = pages;
                Ok(())
            }
            File::MemoryOomGroup => {
                let together = errno(text::flag(words))?;
                errno(self.groups.ends_together(group, together))?;
                self.folder_mut(at)?.together = together;
                Ok(())
            }
            File::PidsMax => {
                let tasks = errno(text::tasks(words))?;
                errno(self.groups.limit_tasks(group, tasks))?;
                self.folder_mut(at)?.tasks = tasks;
                Ok(())
            }
            File::Threads | File::Type => fail(EOPNOTSUPP),
            _ => fail(EINVAL),
        }
    }

    /// cpu.weight.
    fn weighed(&mut self, at: u32, weight: u64) -> Answer<()> {
        let group = self.live(at)?.group;
        errno(self.groups.prefer(group, text::nice_of(weight)))?;
        self.folder_mut(at)?.weight = weight;
        Ok(())
    }

    /// cgroup.procs: a process comes into this folder's group. Who opened the file must be able to write that of the nearest folder above both.
    fn moved(&mut self, cx: &mut Context, to: u32, label: u64, words: &str) -> Answer<()> {
        let pid = match errno(text::number(words))? {
            0 => errno(self.groups.pid(cx.request.sender))?,
            pid => pid,
        };
        let leaves = errno(self.groups.of(pid))?;
        // One that is in a group that another file system made is not ours.
        let from = *self.by_group.get(&leaves).ok_or(Failure::Errno(EACCES))?;
        let common = self.common(from, to)?;
        let procs = self.folder(common)?.files[0];
        let access = Access {
            mode: s::IFREG | procs.mode,
            uid: procs.uid,
            gid: procs.gid,
        };
        match label == cx.request.label {
            true => check(cx, &access, WRITE)?,
            // The file was given to somebody else. (Of who opened it nobody knows the further groups any more.)
            false if !allowed(&access, label, WRITE, |_| false) => return fail(EACCES),
            false => {}
        }
        let folder = self.live(to)?;
        // Groups that share out memory have no processes of their own.
        if to != ROOT && folder.control & MEMORY != 0 {
            return fail(EBUSY);
        }
        let enters = folder.group;
        errno(self.groups.relocate(pid, leaves, enters))
    }

    fn depth(&self, at: u32) -> Answer<u32> {
        let (mut at, mut depth) = (at, 0);
        while at != ROOT {
            at = self.folder(at)?.above;
            depth += 1;
        }
        Ok(depth)
    }

    /// The nearest folder that both are in or below.
    fn common(&self, a: u32, b: u32) -> Answer<u32> {
        let (mut a, mut b) = ((a, self.depth(a)?), (b, self.depth(b)?));
        while a.0 != b.0 {
            let deeper = if a.1 >= b.1 { &mut a } else { &mut b };
            *deeper = (self.folder(deeper.0)?.above, deeper.1 - 1);
        }
        Ok(a.0)
    }

    /// cgroup.subtree_control.
    fn controlled(&mut self, at: u32, on: u8, off: u8) -> Answer<()> {
        let has = self.controllers(at)?;
        let folder = self.live(at)?;
        let (before, group) = (folder.control, folder.group);
        if on & !has != 0 {
            return fail(ENOENT);
        }
        let mut below: Vec<u32> = Vec::new();
        let room = below.try_reserve_exact(folder.names.len());
        room.map_err(|_| Failure::Errno(ENOMEM))?;
        below.extend(folder.names.values());
        let gone = off & before;
        for &child in &below {
            if self.folder(child)?.control & gone != 0 {
                return fail(EBUSY);
            }
        }
        if at != ROOT && on & MEMORY & !before != 0 {
            let mut one = [0; 4];
            if errno(self.groups.pids(group, 0, &mut one))? > 0 {
                return fail(EBUSY);
            }
        }
        for child in below {
            let group = self.folder(child)?.group;
            if gone & MEMORY != 0 {
                errno(self.groups.limit_pages(group, None))?;
                errno(self.groups.ends_together(group, false))?;
                errno(self.groups.slow_beyond(group, None))?;
            }
            if gone & CPU != 0 {
                errno(self.groups.limit_time(group, None, PERIOD))?;
                errno(self.groups.prefer(group, 0))?;
            }
            if gone & PIDS != 0 {
                errno(self.groups.limit_tasks(group, None))?;
            }
            let folder = self.folder_mut(child)?;
            if gone & MEMORY != 0 {
                (folder.pages, folder.together, folder.high) = (None, false, None);
            }
            if gone & CPU != 0 {
                (folder.quota, folder.period, folder.weight) = (None, PERIOD, WEIGHT);
            }
            if gone & PIDS != 0 {
                folder.tasks = None;
            }
        }
        self.folder_mut(at)?.control = (before | on) & !off;
        Ok(())
    }

    /// What was removed and is not open any more is gone.
    fn drop_unused(&mut self, cx: &mut Context, at: u32) {
        let unused = |folder: &Folder| folder.removed && folder.open == 0;
        if !self.folder(at).is_ok_and(unused) {
            return;
        }
        if let Some(folder) = self.folders.get_mut(at as usize).and_then(Option::take) {
            cx.refund(folder.payer, COST);
            // There is room: it was taken when the folder was made.
            self.free.push(at);
        }
    }
}

impl<G: Groups> Server for Cgroup<G> {
    type Node = u32;
    type State = Open;

    fn root(&mut self, _: u64) -> u32 {
        ROOT
    }

    fn meta(&mut self, node: u32) -> Answer<Meta> {
        let (owner, kind) = self.owner(node)?;
        Ok(Meta {
            mode: kind | owner.mode,
            uid: owner.uid,
            gid: owner.gid,
            ino: u64::from(node) + 1,
            ..Meta::default()
        })
    }

    fn stat(&mut self, _: &mut Context, node: u32) -> Answer<cairn_idl::fs::Stat> {
        let meta = self.meta(node)?;
        let mut stat = cairn_resmgr::layout::plain_stat(&meta);
        stat.dev = self.device;
        Ok(stat)
    }

    fn statfs(&mut self, _: &mut Context, _: u32) -> Answer<cairn_idl::fs::Statfs> {
        /// CGROUP2_SUPER_MAGIC.
        const MAGIC: u64 = 0x6367_7270;
        Ok(cairn_idl::fs::Statfs {
            kind: MAGIC as _,
            ..cairn_resmgr::layout::empty_statfs()
        })
    }

    fn lookup(&mut self, _: &mut Context, dir: u32, name: &[u8]) -> Answer<u32> {
        let at = place(dir);
        let folder = self.folder(at)?;
        if folder.removed {
            return fail(ENOENT);
        }
        if let Some(&child) = folder.names.get(name) {
            return Ok(child * PER_FOLDER);
        }
        let is = |row: &Row| row.name.as_bytes() == name && self.has(at, row);
        match FILES.iter().position(is) {
            Some(file) => Ok(dir + file as u32 + 1),
            None => fail(ENOENT),
        }
    }

    fn parent(&mut self, _: &mut Context, dir: u32) -> Answer<u32> {
        Ok(self.folder(place(dir))?.above * PER_FOLDER)
    }

    fn path(&mut self, _: &mut Context, node: u32, into: &mut [u8]) -> Answer<usize> {
        let mut names: Vec<&[u8]> = Vec::new();
        if let Some((_, row)) = row(node) {
            names.push(row.name.as_bytes());
        }
        let mut at = place(node);
        while at != ROOT {
            let folder = self.folder(at)?;
            names.push(&folder.name);
            at = folder.above;
        }
        let length = names.iter().map(|name| name.len() + 1).sum();
        let mut path = Vec::new();
        path.try_reserve_exact(length)
            .map_err(|_| Failure::Errno(ENOMEM))?;
        for (at, name) in names.iter().rev().enumerate() {
            if at > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        put(&path, into)
    }

    fn change(&mut self, _: &mut Context, node: u32, change: &Change) -> Answer<()> {
        let folder = self.folder_mut(place(node))?;
        let owner = match row(node) {
            Some((at, _)) => &mut folder.files[at],
            None => &mut folder.owner,
        };
        owner.uid = change.uid.unwrap_or(owner.uid);
        owner.gid = change.gid.unwrap_or(owner.gid);
        owner.mode = change.mode.unwrap_or(owner.mode);
        Ok(())
    }

    fn create(&mut self, cx: &mut Context, dir: u32, name: &[u8], new: &New) -> Answer<u32> {
        if new.mode & s::IFMT != s::IFDIR {
            return fail(EPERM);
        }
        if name.contains(&b'\n') {
            return fail(EINVAL);
        }
        let above = place(dir);
        let over = self.live(above)?.group;
        let payer = cx.payer();
        cx.charge(payer, COST)?;
        let made = self.make(above, over, name, new, payer);
        if made.is_err() {
            cx.refund(payer, COST);
        }
        made
    }

    fn rmdir(&mut self, cx: &mut Context, dir: u32, name: &[u8], node: u32) -> Answer<()> {
        let at = place(node);
        let folder = self.folder(at)?;
        if !folder.names.is_empty() {
            return fail(EBUSY);
        }
        let group = folder.group;
        errno(self.groups.remove(group))?;
        self.by_group.remove(&group);
        self.folder_mut(place(dir))?.names.remove(name);
        self.folder_mut(at)?.removed = true;
        self.drop_unused(cx, at);
        Ok(())
    }

    fn unlink(&mut self, _: &mut Context, _: u32, _: &[u8], _: u32) -> Answer<()> {
        fail(EPERM)
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: u32,
        flags: u64,
        state: &mut Open,
    ) -> Answer<Opened<u32>> {
        use cairn_idl::fs::o;
        let (owner, kind) = self.owner(node)?;
        let opened = Opened {
            node,
            kind: cairn_resmgr::layout::default_kind(kind | owner.mode) | kind::SEEKABLE,
        };
        state.label = cx.request.label;
        let Some((_, row)) = row(node) else {
            return Ok(opened);
        };
        let access = flags & o::ACCMODE;
        // User 0 passes the permission bits.
        if access != o::RDONLY && row.mode & 0o200 == 0
            || access != o::WRONLY && row.mode & 0o400 == 0
        {
            return fail(EACCES);
        }
        Ok(opened)
    }

    fn retain(&mut self, node: u32) {
        if let Ok(folder) = self.folder_mut(place(node)) {
            folder.open += 1;
        }
    }

    fn close(&mut self, cx: &mut Context, mut handle: Handle<Self>) {
        handle.state.text.end(cx);
        let at = place(handle.node);
        if let Ok(folder) = self.folder_mut(at) {
            folder.open -= 1;
        }
        self.drop_unused(cx, at);
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let contents = || Ok(self.contents(handle.node)?.into_bytes());
        handle.state.text.read(cx, offset, length, contents)
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<usize> {
        if length > WRITE_MOST {
            return fail(E2BIG);
        }
        let mut bytes = [0; WRITE_MOST];
        let bytes = &mut bytes[..length];
        cx.fetch(0, bytes)?;
        // Programs write the NUL of a C string as well.
        let words = core::str::from_utf8(until_nul(bytes)).map_err(|_| Failure::Errno(EINVAL))?;
        let label = handle.state.label;
        self.given(cx, handle.node, label, words)?;
        Ok(length)
    }

    /// The shell opens with O_TRUNC what it writes to.
    fn truncate(&mut self, _: &mut Context, _: u32, _: u64) -> Answer<()> {
        Ok(())
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        mut position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        /// Positions: `.`, `..`, files, and from here on folders by their places.
        const FOLDERS: u64 = 64;
        let at = place(handle.node);
        let folder = self.folder(at)?;
        let above = folder.above * PER_FOLDER;
        let dots = [(handle.node, "."), (above, "..")];
        let files = FILES.iter().zip(1..);
        let files = files.filter(|(row, _)| self.has(at, row) && !folder.removed);
        let files = files.map(|(row, file)| (handle.node + file, row.name));
        let fixed = dots.into_iter().chain(files);
        for (next, (node, name)) in (1..).zip(fixed) {
            if next <= position {
                continue;
            }
            let mode = if next <= 2 { s::IFDIR } else { s::IFREG };
            if !into.add(u64::from(node) + 1, next, mode, name.as_bytes()) {
                return Ok(position);
            }
            position = next;
        }
        // In the order of their places, so that reading goes on wherever it stopped.
        let mut places: Vec<(u32, &[u8])> = Vec::new();
        places
            .try_reserve_exact(folder.names.len())
            .map_err(|_| Failure::Errno(ENOMEM))?;
        places.extend(folder.names.iter().map(|(name, &at)| (at, &name[..])));
        places.sort_unstable();
        for (child, name) in places {
            let next = FOLDERS + u64::from(child) + 1;
            if next <= position {
                continue;
            }
            let ino = u64::from(child * PER_FOLDER) + 1;
            if !into.add(ino, next, s::IFDIR, name) {
                break;
            }
            position = next;
        }
        Ok(position)
    }

    fn unmount(&mut self, cx: &mut Context) -> Answer<()> {
        // Who has groups has their owners and limits here.
        if self.by_group.len() > 1 {
            return fail(EBUSY);
        }
        // After the answer.
        self.ended = true;
        let now = cx.transport.monotonic();
        cx.wake_at(Some(now));
        Ok(())
    }

    fn tick(&mut self, _: &mut Context) {
        if let (true, Some(end)) = (self.ended, self.end) {
            end();
        }
    }
}

impl<G: Groups> Cgroup<G> {
    fn make(&mut self, above: u32, over: u32, name: &[u8], new: &New, payer: u32) -> Answer<u32> {
        let full = |_| Failure::Errno(ENOMEM);
        let mut own = Vec::new();
        own.try_reserve_exact(name.len()).map_err(full)?;
        own.extend_from_slice(name);
        let mut key = Vec::new();
        key.try_reserve_exact(name.len()).map_err(full)?;
        key.extend_from_slice(name);
        let at = match self.free.last() {
            Some(&at) => at,
            None => {
                self.folders.try_reserve(1).map_err(full)?;
                let room = self.folders.len() + 1 - self.free.len();
                self.free.try_reserve(room).map_err(full)?;
                self.folders.len() as u32
            }
        };
        let group = errno(self.groups.make(over, name))?;
        let owner = Owner {
            uid: new.uid,
            gid: new.gid,
            mode: new.mode & 0o7777,
        };
        let folder = new_folder(group, above, own, owner, payer);
        match self.free.pop() {
            Some(at) => self.folders[at as usize] = Some(folder),
            None => self.folders.push(Some(folder)),
        }
        self.by_group.insert(group, at);
        self.folder_mut(above)?.names.insert(key, at);
        Ok(at * PER_FOLDER)
    }
}
