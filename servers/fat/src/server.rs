//! The server: what the framework asks for, by the library.

use crate::boot;
use crate::clock::{self, Clock};
use crate::node::{same_name, File, Index, Node, Nodes, ROOT};
use crate::store::{Failed, Lines, Store};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::fs::{s, Stat, Statfs};
use cairn_resmgr::server::{put, Answer, Change, Meta, New, Opened, Rename};
use cairn_resmgr::{Context, Data, Dirents, Failure, Handle, Server};
use fatfs::{Error, FatType, FileAttributes, FsOptions, LossyOemCpConverter};
use fatfs::{Read, Seek, SeekFrom, Write};

type FileSystem<L> = fatfs::FileSystem<Store<L>, Clock, LossyOemCpConverter>;
type Dir<L> = fatfs::Dir<'static, Store<L>, Clock, LossyOemCpConverter>;
type DirEntry<L> = fatfs::DirEntry<'static, Store<L>, Clock, LossyOemCpConverter>;

/// A file's greatest length, and bytes that are copied at a time.
const LONGEST: u64 = u32::MAX as u64;
const COPY: usize = 65_536;
/// As Linux calls it in statfs.
const MAGIC: i64 = 0x4d44;
/// Changes are on the disk after so long.
const LATER: u64 = 5_000_000_000;

#[derive(Clone, Copy)]
pub struct Options {
    pub read_only: bool,
    /// st_dev.
    pub device: u64,
    /// Most accesses to the disk for one step of the library.
    pub accesses: u64,
    /// Called when the server was unmounted and the answer is on its way.
    pub end: fn(),
}

pub struct Fat<L: Lines + 'static> {
    fs: &'static FileSystem<L>,
    store: Store<L>,
    nodes: Nodes<L>,
    options: Options,
    /// The byte of the disk that says whether it is in use, as it was found, and where.
    mark: u8,
    mark_at: u64,
    ended: bool,
    buffer: Vec<u8>,
}

fn fail<T>(errno: i64) -> Answer<T> {
    Err(Failure::Errno(errno))
}

fn failure(error: Error<Failed>) -> Failure {
    Failure::Errno(match error {
        Error::NotFound => ENOENT,
        Error::AlreadyExists => EEXIST,
        Error::NotEnoughSpace => ENOSPC,
        Error::DirectoryIsNotEmpty => ENOTEMPTY,
        Error::InvalidFileNameLength => ENAMETOOLONG,
        Error::InvalidInput | Error::UnsupportedFileNameCharacter => EINVAL,
        _ => EIO,
    })
}

fn options() -> FsOptions<Clock, LossyOemCpConverter> {
    FsOptions::new().time_provider(Clock)
}

impl<L: Lines> Fat<L> {
    /// What is on the disk; None: no FAT.
    pub fn open(lines: L, options: Options) -> Option<Fat<L>> {
        let bytes = lines.bytes();
        let store = Store::new(lines);
        if !boot::is_plausible(&store, bytes) {
            return None;
        }
        store.allow(options.accesses);
        let fs = FileSystem::<L>::new(store.clone(), self::options()).ok()?;
        let mark_at = match fs.fat_type() {
            FatType::Fat32 => 0x41,
            _ => 0x25,
        };
        let mut server = Fat {
            fs: Box::leak(Box::new(fs)),
            store,
            nodes: Nodes::default(),
            options,
            mark: 0,
            mark_at,
            ended: false,
            buffer: vec![0; COPY],
        };
        server.mark = server.mark().ok()?;
        Some(server)
    }

    fn mark(&self) -> Result<u8, Failed> {
        let mut byte = [0];
        let mut disk = self.store.clone();
        disk.seek(SeekFrom::Start(self.mark_at))?;
        disk.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn node(&mut self, index: Index) -> Answer<&mut Node<L>> {
        self.nodes.get(index).ok_or(Failure::Errno(EIO))
    }

    /// Before something changes.
    fn changes(&mut self, cx: &mut Context) -> Answer<()> {
        if self.options.read_only {
            return fail(EROFS);
        }
        Clock.set(cx.now() / 1_000_000_000);
        let later = cx.transport.monotonic() + LATER;
        cx.wake_at(Some(later));
        Ok(())
    }

    /// The root folder, for a step of the library.
    fn top(&self) -> Dir<L> {
        self.store.allow(self.options.accesses);
        self.fs.root_dir()
    }

    fn folder(&self, index: Index) -> Answer<Dir<L>> {
        let root = self.top();
        match index {
            ROOT => Ok(root),
            _ => root.open_dir(&self.nodes.path(index)).map_err(failure),
        }
    }

    /// The open file of a node.
    fn file(&mut self, index: Index) -> Answer<&mut File<L>> {
        let top = self.top();
        if self.node(index)?.file.is_none() {
            let path = self.nodes.path(index);
            let file = top.open_file(&path).map_err(failure)?;
            self.node(index)?.file = Some(file);
        }
        let file = self.node(index)?.file.as_mut();
        file.ok_or(Failure::Errno(EIO))
    }

    /// The library looks it up anew from now on. (Closing writes its entry.)
    fn forget(&mut self, index: Index) -> Answer<()> {
        if let Some(mut file) = self.node(index)?.file.take() {
            file.flush().map_err(failure)?;
        }
        Ok(())
    }

    /// A node for an entry of a folder.
    fn found(&mut self, parent: Index, entry: &DirEntry<L>) -> Answer<Index> {
        let name = entry.file_name();
        if let Some(known) = self.nodes.find(parent, &name) {
            return Ok(known);
        }
        let midnight = clock::date_time(0).time;
        let accessed = fatfs::DateTime::new(entry.accessed(), midnight);
        let times = [accessed, entry.modified(), entry.created()].map(clock::seconds);
        Ok(self.nodes.add(Node {
            parent,
            name,
            directory: entry.is_dir(),
            read_only: entry.attributes().contains(FileAttributes::READ_ONLY),
            size: if entry.is_dir() { 0 } else { entry.len() },
            times,
            opens: 0,
            file: None,
            gone: false,
        }))
    }

    fn search(&mut self, parent: Index, name: &str) -> Answer<Index> {
        if let Some(known) = self.nodes.find(parent, name) {
            return Ok(known);
        }
        for entry in self.folder(parent)?.iter() {
            let entry = entry.map_err(failure)?;
            if same_name(&entry.file_name(), name) {
                return self.found(parent, &entry);
            }
        }
        fail(ENOENT)
    }

    /// Bytes of a file, from its beginning or end, so that there are `size`.
    fn resize(&mut self, index: Index, size: u64) -> Answer<()> {
        if size > LONGEST {
            return fail(EFBIG);
        }
        let before = self.node(index)?.size;
        let zeroes = vec![0; if size > before { COPY } else { 0 }];
        let file = self.file(index)?;
        let mut at = before.min(size);
        file.seek(SeekFrom::Start(at)).map_err(failure)?;
        let mut grown = Ok(());
        while at < size && grown.is_ok() {
            let some = ((size - at) as usize).min(COPY);
            grown = file.write_all(&zeroes[..some]);
            at += some as u64;
        }
        if size < before || grown.is_err() {
            // What could not be made longer is as it was.
            let end = before.min(size);
            file.seek(SeekFrom::Start(end)).map_err(failure)?;
            file.truncate().map_err(failure)?;
        }
        if grown.is_ok() {
            self.touch(index, size)?;
        }
        grown.map_err(failure)
    }

    fn touch(&mut self, index: Index, size: u64) -> Answer<()> {
        let node = self.node(index)?;
        (node.size, node.times[1]) = (size, clock::kept(Clock.now()));
        Ok(())
    }

    /// Everything is on the disk.
    fn flush(&mut self) -> Answer<()> {
        self.store.allow(u64::MAX);
        for node in self.nodes.all() {
            if let Some(file) = &mut node.file {
                file.flush().map_err(failure)?;
            }
        }
        self.store.sync().map_err(|Failed| Failure::Errno(EIO))
    }

    /// The same, and the disk is not in use any more.
    fn finish(&mut self) -> Answer<()> {
        self.flush()?;
        if self.options.read_only || self.mark().map_err(|Failed| Failure::Errno(EIO))? == self.mark
        {
            return Ok(());
        }
        // The library counts free clusters anew on a disk that is marked, and writes the number when it is closed.
        let closing = || -> Result<(), Error<Failed>> {
            let again = FileSystem::<L>::new(self.store.clone(), options())?;
            again.stats()?;
            again.unmount()?;
            let mut disk = self.store.clone();
            disk.seek(SeekFrom::Start(self.mark_at))?;
            disk.write_all(&[self.mark])?;
            Ok(self.store.sync()?)
        };
        closing().map_err(failure)
    }
}

/// A new name. The library cannot make a short one for those that begin with a letter beyond ASCII (it gives up, and the server with it).
fn new_name(name: &[u8]) -> Answer<&str> {
    let text = core::str::from_utf8(name).ok();
    text.filter(|name| name.is_char_boundary(1))
        .ok_or(Failure::Errno(EINVAL))
}

impl<L: Lines> Server for Fat<L> {
    type Node = Index;
    type State = ();

    fn read_only(&self) -> bool {
        self.options.read_only
    }

    fn root(&mut self, _: u64) -> Index {
        ROOT
    }

    fn meta(&mut self, index: Index) -> Answer<Meta> {
        let node = self.node(index)?;
        let kind = if node.directory { s::IFDIR } else { s::IFREG };
        let may = if node.read_only { 0o555 } else { 0o755 };
        Ok(Meta {
            mode: kind | may,
            ino: u64::from(index) + 1,
            size: node.size,
            ..Meta::default()
        })
    }

    fn lookup(&mut self, _: &mut Context, dir: Index, name: &[u8]) -> Answer<Index> {
        match core::str::from_utf8(name) {
            Ok(name) => self.search(dir, name),
            Err(_) => fail(ENOENT),
        }
    }

    fn parent(&mut self, _: &mut Context, dir: Index) -> Answer<Index> {
        Ok(self.node(dir)?.parent)
    }

    fn path(&mut self, _: &mut Context, index: Index, into: &mut [u8]) -> Answer<usize> {
        if self.node(index)?.gone {
            return fail(ENOENT);
        }
        put(self.nodes.path(index).as_bytes(), into)
    }

    fn stat(&mut self, _: &mut Context, index: Index) -> Answer<Stat> {
        let meta = self.meta(index)?;
        let cluster = i64::from(self.fs.cluster_size());
        let device = self.options.device;
        let node = self.node(index)?;
        Ok(Stat {
            dev: device,
            atime: node.times[0],
            mtime: node.times[1],
            ctime: node.times[1],
            blksize: cluster,
            blocks: (meta.size as i64 + cluster - 1) / cluster * (cluster / 512),
            ..cairn_resmgr::layout::plain_stat(&meta)
        })
    }

    fn statfs(&mut self, _: &mut Context, _: Index) -> Answer<Statfs> {
        self.store.allow(self.options.accesses);
        let stats = self.fs.stats().map_err(failure)?;
        let (size, free) = (i64::from(stats.cluster_size()), stats.free_clusters());
        Ok(Statfs {
            kind: MAGIC,
            bsize: size,
            frsize: size,
            blocks: stats.total_clusters().into(),
            bfree: free.into(),
            bavail: free.into(),
            ..cairn_resmgr::layout::empty_statfs()
        })
    }

    /// FAT has no owners, and of permissions only whether there is one to write, which this server leaves as it is.
    fn change(&mut self, cx: &mut Context, index: Index, change: &Change) -> Answer<()> {
        let kept = self.meta(index)?;
        let other_mode = |mode: u32| (mode ^ kept.mode) & 0o222 != 0;
        let other = |id: u32| id != 0;
        if change.uid.is_some_and(other)
            || change.gid.is_some_and(other)
            || change.mode.is_some_and(other_mode)
        {
            return fail(EPERM);
        }
        if change.atime.is_none() && change.mtime.is_none() {
            return Ok(());
        }
        self.changes(cx)?;
        if kept.mode & s::IFMT == s::IFDIR {
            return Ok(());
        }
        let times = [change.atime, change.mtime].map(|time| time.map(|(seconds, _)| seconds));
        self.set_times(index, times)
    }

    fn truncate(&mut self, cx: &mut Context, index: Index, size: u64) -> Answer<()> {
        self.changes(cx)?;
        self.resize(index, size)
    }

    fn create(&mut self, cx: &mut Context, dir: Index, name: &[u8], new: &New) -> Answer<Index> {
        self.changes(cx)?;
        let (folder, name) = (self.folder(dir)?, new_name(name)?);
        match new.mode & s::IFMT {
            s::IFREG => drop(folder.create_file(name).map_err(failure)?),
            s::IFDIR => drop(folder.create_dir(name).map_err(failure)?),
            _ => return fail(EPERM),
        }
        self.search(dir, name)
    }

    fn link(&mut self, _: &mut Context, _: Index, _: Index, _: &[u8]) -> Answer<()> {
        fail(EPERM)
    }

    fn unlink(&mut self, cx: &mut Context, _: Index, _: &[u8], index: Index) -> Answer<()> {
        self.changes(cx)?;
        // The library frees the file's clusters at once.
        if self.node(index)?.opens != 0 {
            return fail(EBUSY);
        }
        self.forget(index)?;
        let path = self.nodes.path(index);
        self.top().remove(&path).map_err(failure)?;
        self.nodes.remove(index);
        Ok(())
    }

    fn rmdir(&mut self, cx: &mut Context, dir: Index, name: &[u8], index: Index) -> Answer<()> {
        self.unlink(cx, dir, name, index)
    }

    fn rename(&mut self, cx: &mut Context, rename: &Rename<Index>) -> Answer<()> {
        self.changes(cx)?;
        let name = new_name(rename.to_name)?;
        let directory = self.node(rename.node)?.directory;
        if rename.exchange {
            return fail(EINVAL);
        }
        // The library leaves `..` of a folder as it is.
        if directory && rename.from != rename.to {
            return fail(EXDEV);
        }
        self.forget(rename.node)?;
        match rename.replaced {
            Some(node) if node == rename.node => {}
            Some(node) => self.unlink(cx, rename.to, rename.to_name, node)?,
            None => {}
        }
        let (from, to) = (self.folder(rename.from)?, self.folder(rename.to)?);
        let before = self.node(rename.node)?.name.clone();
        from.rename(&before, &to, name).map_err(failure)?;
        self.nodes.rename(rename.node, rename.to, name);
        Ok(())
    }

    fn open(&mut self, _: &mut Context, index: Index, _: u64, _: &mut ()) -> Answer<Opened<Index>> {
        Ok(Opened {
            node: index,
            kind: cairn_resmgr::layout::default_kind(self.meta(index)?.mode),
        })
    }

    fn retain(&mut self, index: Index) {
        if let Some(node) = self.nodes.get(index) {
            node.opens += 1;
        }
    }

    fn close(&mut self, _: &mut Context, handle: Handle<Self>) {
        let Some(node) = self.nodes.get(handle.node) else {
            return;
        };
        node.opens -= 1;
        if node.opens == 0 {
            // What cannot be written now is lost with its entry's lines.
            node.file = None;
        }
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let size = self.node(handle.node)?.size;
        let length = size.saturating_sub(offset).min(length as u64) as usize;
        let mut buffer = core::mem::take(&mut self.buffer);
        let outcome = self.copy_out(cx, handle.node, offset, length, &mut buffer);
        self.buffer = buffer;
        outcome.map(Data::stored)
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        self.changes(cx)?;
        let length = LONGEST.saturating_sub(offset).min(length as u64) as usize;
        if length == 0 {
            return fail(EFBIG);
        }
        if offset > self.node(handle.node)?.size {
            self.resize(handle.node, offset)?;
        }
        let mut buffer = core::mem::take(&mut self.buffer);
        let outcome = self.copy_in(cx, handle.node, offset, length, &mut buffer);
        self.buffer = buffer;
        outcome
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let own = handle.node;
        let above = self.node(own)?.parent;
        let mut at = position;
        for (number, index, name) in [(0, own, &b"."[..]), (1, above, b"..")] {
            if at == number {
                if !into.add(u64::from(index) + 1, number + 1, s::IFDIR, name) {
                    return Ok(at);
                }
                at += 1;
            }
        }
        let named = |e: &DirEntry<L>| !matches!(e.file_name().as_str(), "." | "..");
        let entries = self.folder(own)?.iter();
        let entries = entries.filter(|e| e.as_ref().map_or(true, named));
        for entry in entries.skip(at as usize - 2) {
            let entry = entry.map_err(failure)?;
            let index = self.found(own, &entry)?;
            let mode = if entry.is_dir() { s::IFDIR } else { s::IFREG };
            let name = entry.file_name();
            if !into.add(u64::from(index) + 1, at + 1, mode, name.as_bytes()) {
                break;
            }
            at += 1;
        }
        Ok(at)
    }

    fn sync(&mut self, _: &mut Context, _: &mut Handle<Self>) -> Answer<()> {
        self.flush()
    }

    fn sync_all(&mut self, _: &mut Context) -> Answer<()> {
        self.flush()
    }

    fn unmount(&mut self, cx: &mut Context) -> Answer<()> {
        self.finish()?;
        self.ended = true;
        // The next tick, when the answer is on its way.
        let now = cx.transport.monotonic();
        cx.wake_at(Some(now));
        Ok(())
    }

    fn tick(&mut self, cx: &mut Context) {
        if self.ended {
            (self.options.end)();
        } else if self.flush().is_err() {
            let later = cx.transport.monotonic() + LATER;
            cx.wake_at(Some(later));
        }
    }
}

impl<L: Lines> Fat<L> {
    #[allow(deprecated, reason = "the times are a program's, not the clock's")]
    fn set_times(&mut self, index: Index, times: [Option<i64>; 2]) -> Answer<()> {
        let file = self.file(index)?;
        let [accessed, modified] = times.map(|time| time.map(clock::date_time));
        accessed
            .into_iter()
            .for_each(|time| file.set_accessed(time.date));
        modified
            .into_iter()
            .for_each(|time| file.set_modified(time));
        file.flush().map_err(failure)?;
        let node = self.node(index)?;
        for (place, time) in node.times.iter_mut().zip(times) {
            *place = time.map_or(*place, clock::kept);
        }
        Ok(())
    }

    fn copy_out(
        &mut self,
        cx: &mut Context,
        index: Index,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> Answer<usize> {
        let file = self.file(index)?;
        file.seek(SeekFrom::Start(offset)).map_err(failure)?;
        let mut done = 0;
        while done < length {
            let some = (length - done).min(buffer.len());
            let part = &mut buffer[..some];
            file.read_exact(part).map_err(failure)?;
            cx.store(done, part)?;
            done += some;
        }
        Ok(done)
    }

    fn copy_in(
        &mut self,
        cx: &mut Context,
        index: Index,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> Answer<usize> {
        let mut done = 0;
        let mut outcome = Ok(());
        while done < length && outcome.is_ok() {
            let some = (length - done).min(buffer.len());
            outcome = cx.fetch(done, &mut buffer[..some]);
            let file = self.file(index)?;
            let at = offset + done as u64;
            file.seek(SeekFrom::Start(at)).map_err(failure)?;
            let mut rest = if outcome.is_ok() {
                &buffer[..some]
            } else {
                &[]
            };
            while !rest.is_empty() {
                match file.write(rest) {
                    Ok(0) => outcome = fail(EFBIG),
                    Ok(count) => {
                        rest = &rest[count..];
                        done += count;
                        continue;
                    }
                    Err(error) => outcome = Err(failure(error)),
                }
                break;
            }
            let size = self.node(index)?.size.max(offset + done as u64);
            self.touch(index, size)?;
        }
        match outcome {
            Err(failure) if done == 0 => Err(failure),
            _ => Ok(done),
        }
    }
}
