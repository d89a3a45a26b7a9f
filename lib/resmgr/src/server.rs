//! What a server supplies. Everything has a default but the root, the metadata of a node, and reading or writing what the server is about.
//!
//! The framework has checked types, access modes and permissions before it calls; a callback only does its own part. Callbacks that get a
//! `name` get one component: never empty, `.`, `..` or longer than NAME_MAX.

use crate::context::{Context, Failure, Later};
use crate::dirent::Dirents;
use crate::handle::{Handle, Handles};
use crate::layout;
use crate::transport::Transport;
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_idl::errno::*;
use cairn_idl::fs::{poll, s, Stat, Statfs, HANDLE_MAX, NAME_MAX};
use cairn_rt::channel::Reply;
use cairn_rt::{Portal, Received};

/// What the framework must know of a node to walk, check and open it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Type and permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub ino: u64,
    pub size: u64,
    /// Device number of a device node (Linux encoding).
    pub rdev: u64,
}

/// The part of [`Meta`] that decides who may do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// Bits above those of `mode` in [`Access`], of servers that have the framework look at them: nothing may change; all that is written goes behind the end.
pub const IMMUTABLE: u32 = 1 << 20;
pub const APPEND_ONLY: u32 = 1 << 21;

/// Flags of FS_IOC_SETFLAGS as Linux has them.
pub mod file_flags {
    pub const IMMUTABLE: u32 = 0x10;
    pub const APPEND_ONLY: u32 = 0x20;
    pub const NODUMP: u32 = 0x40;
    pub const NOATIME: u32 = 0x80;
    /// What can be set here.
    pub const KNOWN: u32 = 0xf0;
    /// Of these statx(2) tells.
    pub const TOLD: u32 = 0x70;
}

impl Access {
    /// [`IMMUTABLE`] or [`APPEND_ONLY`].
    #[inline]
    pub fn is_fixed(&self) -> bool {
        self.mode & (IMMUTABLE | APPEND_ONLY) != 0
    }

    /// The bits of `mode` for these flags.
    #[inline]
    pub fn marks(flags: u32) -> u32 {
        (flags & (file_flags::IMMUTABLE | file_flags::APPEND_ONLY)) << 16
    }

    #[inline]
    pub fn is_directory(&self) -> bool {
        self.mode & s::IFMT == s::IFDIR
    }

    #[inline]
    pub fn is_link(&self) -> bool {
        self.mode & s::IFMT == s::IFLNK
    }
}

impl Meta {
    pub fn access(&self) -> Access {
        Access {
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
        }
    }
}

/// A node to be made.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    /// Type and permission bits; umask applied, set-group-id inheritance done.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    /// Of a symbolic link.
    pub target: &'a [u8],
}

/// Attributes to set; what is `None` stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// Permission bits only.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Seconds and nanoseconds.
    pub atime: Option<(i64, i64)>,
    pub mtime: Option<(i64, i64)>,
    /// The time that is given is this moment's. A server whose files have the times of another clock takes that clock's.
    pub atime_is_now: bool,
    pub mtime_is_now: bool,
}

/// A rename whose rules have been checked, but for emptiness of a replaced directory.
#[derive(Clone, Copy, Debug)]
pub struct Rename<'a, N> {
    pub from: N,
    pub from_name: &'a [u8],
    pub node: N,
    pub to: N,
    pub to_name: &'a [u8],
    /// What has the new name now.
    pub replaced: Option<N>,
    /// Swap the two instead of replacing.
    pub exchange: bool,
}

/// Data for a READ: `done` bytes are in the caller's in part already ([`Context::store`] from offset 0 on), `rest` follows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Data<'a> {
    pub done: usize,
    pub rest: &'a [u8],
}

impl Data<'_> {
    /// All of it is in the caller's already.
    pub fn stored(done: usize) -> Self {
        Data { done, rest: &[] }
    }
}

impl<'a> From<&'a [u8]> for Data<'a> {
    fn from(rest: &'a [u8]) -> Data<'a> {
        Data { done: 0, rest }
    }
}

/// What OPEN says of the handle.
#[derive(Clone, Copy, Debug)]
pub struct Opened<N> {
    /// The node that the handle is for: usually the one that was opened, another for things like /dev/ptmx.
    pub node: N,
    /// [`cairn_idl::fs::kind`] bits.
    pub kind: u64,
}

/// What a handle is ready for.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// [`poll`] bits that are true now.
    pub ready: u64,
    /// Keys whose [`Context::wake`] may change that: there may be more to read, there may be more room to write (equal ones if that is not told apart). What is done through the handle itself need not wake them.
    pub keys: [u64; 2],
}

/// What became of a request on the direct way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// Done: so many bytes.
    Done(usize),
    /// As [`Failure::Wait`].
    Wait(u64),
    /// Nothing was done or changed: the request takes the ordinary way.
    Ordinary,
}

pub type Answer<T> = Result<T, Failure>;

/// What [`Server::target`] and [`Server::path`] give: the bytes into `into`, and their length. ENAMETOOLONG if it is too short for them.
pub fn put(bytes: &[u8], into: &mut [u8]) -> Answer<usize> {
    into.get_mut(..bytes.len())
        .ok_or(Failure::Errno(ENAMETOOLONG))?
        .copy_from_slice(bytes);
    Ok(bytes.len())
}

/// What a memory object shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<Node> {
    File(Node),
    /// A file that is gone: the length of the path where it was, device and inode number.
    Gone(usize, u64, u64),
    /// No file, but something with a name of this length, and such numbers.
    Named(usize, u64, u64),
}

/// A resource manager. See the head of this file.
pub trait Server: Sized {
    /// Names a node; cheap to copy (an index).
    type Node: Copy + Ord;
    /// Kept with each open handle (a snapshot of generated text, for instance).
    type State: Default;

    /// Names, modes and owners change only by the framework's own calls of [`Server::unlink`], [`Server::rmdir`], [`Server::rename`] and
    /// [`Server::change`]: where a path led may be remembered. (Not for generated trees.)
    const STABLE_NAMES: bool = false;

    /// What a node is called over the server's death, for handles that a successor shall go on with; None: they end with the server.
    fn identity(&mut self, node: Self::Node) -> Option<u64> {
        let _ = node;
        None
    }

    /// A handle or mount point of a predecessor is for the node that was called so: the node, which is retained for it, and whether data of it was lost.
    fn recover(&mut self, identity: u64) -> Option<(Self::Node, bool)> {
        let _ = identity;
        None
    }

    /// A request that makes, moves or removes a name or an attribute begins, so all before it were answered. True: it is made again ([`Context::repeated`]), and a predecessor that died before it
    /// could answer has carried it out.
    fn carried_out(&mut self, cx: &Context) -> bool {
        let _ = cx;
        false
    }

    /// Nothing can be changed now: who asks whether he may write, or would remove a name, hears EROFS before anything else is looked at. (Everything else is refused by its own callback.)
    fn read_only(&self) -> bool {
        false
    }

    /// A READ of a file with RWF_NOWAIT gives what is there without waiting, or EAGAIN. False: it is EOPNOTSUPP, as in most file systems of Linux.
    fn reads_at_once(&self) -> bool {
        false
    }

    /// Set-id bits of files count: who executes one gets its owner's ids. (Not for file systems whose files anybody could have made, nor with the mount option `nosuid`.)
    fn gives_ids(&self) -> bool {
        false
    }

    /// The root node for a portal with this badge (below 2^32; the mount portal has 0).
    fn root(&mut self, badge: u64) -> Self::Node;
    fn meta(&mut self, node: Self::Node) -> Answer<Meta>;

    /// The same, only what walking needs; worth supplying if [`Server::meta`] has to work for the rest.
    fn access(&mut self, node: Self::Node) -> Answer<Access> {
        Ok(self.meta(node)?.access())
    }

    // ---- names

    fn lookup(&mut self, cx: &mut Context, dir: Self::Node, name: &[u8]) -> Answer<Self::Node> {
        let _ = (cx, dir, name);
        Err(Failure::Errno(ENOENT))
    }

    /// The directory above a directory; the root is its own. One that another server has above it redirects there.
    fn parent(&mut self, cx: &mut Context, dir: Self::Node) -> Answer<Self::Node> {
        let _ = (cx, dir);
        Ok(self.root(0))
    }

    /// The target of a symbolic link into `into` (PATH_MAX bytes); its length.
    fn target(&mut self, cx: &mut Context, link: Self::Node, into: &mut [u8]) -> Answer<usize> {
        let _ = (cx, link, into);
        Err(Failure::Errno(EINVAL))
    }

    /// Path of a node below the root, without leading slash (the root: empty), into `into`; its length. For GETPATH and mount points.
    fn path(&mut self, cx: &mut Context, node: Self::Node, into: &mut [u8]) -> Answer<usize> {
        let _ = (cx, into);
        if node == self.root(0) {
            Ok(0)
        } else {
            Err(Failure::Errno(ENOENT))
        }
    }

    /// Where a node has its name, or one of its names: the directory, and the name into `into`, with its length. None: nowhere, or the server does not know. For who is told of what happens in a directory.
    fn home(
        &mut self,
        cx: &mut Context,
        node: Self::Node,
        into: &mut [u8; NAME_MAX],
    ) -> Option<(Self::Node, usize)> {
        let _ = (cx, node, into);
        None
    }

    /// Of a node that has no name any more, where it had its last one, as [`Server::path`] says it. None: that is not known.
    fn gone(&mut self, cx: &mut Context, node: Self::Node, into: &mut [u8]) -> Option<usize> {
        let _ = (cx, node, into);
        None
    }

    /// A name for GETPATH that is no path below the root (`pipe:[7]`), into `into`; its length.
    fn label(&mut self, node: Self::Node, into: &mut [u8]) -> Option<usize> {
        let _ = (node, into);
        None
    }

    /// What an object shows whose tag in `vm` is this ([`crate::objects::tell_names`]); what is no node's into `into`. None: there is no such object.
    fn shown(&mut self, tag: u64, into: &mut [u8]) -> Option<Shown<Self::Node>> {
        let _ = (tag, into);
        None
    }

    /// What names a node, whatever it is called, and no other one later (name_to_handle_at(2)), and how many bytes that is. None: nothing such.
    fn handle_of(&mut self, node: Self::Node) -> Option<([u8; HANDLE_MAX], usize)> {
        let _ = node;
        None
    }

    /// The node that such bytes name; ESTALE, if there is none. They are whatever the caller likes.
    fn by_handle(&mut self, cx: &mut Context, handle: &[u8]) -> Answer<Self::Node> {
        let _ = (cx, handle);
        Err(Failure::Errno(ESTALE))
    }

    // ---- attributes

    fn stat(&mut self, cx: &mut Context, node: Self::Node) -> Answer<Stat> {
        let _ = cx;
        Ok(layout::plain_stat(&self.meta(node)?))
    }

    fn statfs(&mut self, cx: &mut Context, node: Self::Node) -> Answer<Statfs> {
        let _ = (cx, node);
        Ok(layout::empty_statfs())
    }

    fn change(&mut self, cx: &mut Context, node: Self::Node, change: &Change) -> Answer<()> {
        let _ = (cx, node, change);
        Err(Failure::Errno(EPERM))
    }

    /// The value of an extended attribute (its name with the namespace) into `value`, which is empty. Who may is checked.
    fn attribute(
        &mut self,
        cx: &mut Context,
        node: Self::Node,
        name: &[u8],
        value: &mut Vec<u8>,
    ) -> Answer<()> {
        let _ = (cx, node, name, value);
        Err(Failure::Errno(EOPNOTSUPP))
    }

    /// The full names of all extended attributes, each with a NUL behind it.
    fn attribute_names(
        &mut self,
        cx: &mut Context,
        node: Self::Node,
        names: &mut Vec<u8>,
    ) -> Answer<()> {
        let _ = (cx, node, names);
        Err(Failure::Errno(EOPNOTSUPP))
    }

    /// Set or (with None) remove one. `there`: Some(true) it must exist, Some(false) it must not.
    fn set_attribute(
        &mut self,
        cx: &mut Context,
        node: Self::Node,
        name: &[u8],
        value: Option<&[u8]>,
        there: Option<bool>,
    ) -> Answer<()> {
        let _ = (cx, node, name, value, there);
        Err(Failure::Errno(EOPNOTSUPP))
    }

    /// A regular file gets this length.
    fn truncate(&mut self, cx: &mut Context, node: Self::Node, size: u64) -> Answer<()> {
        let _ = (cx, node, size);
        Err(Failure::Errno(EINVAL))
    }

    // ---- changes of the tree. The directory is writable for the caller and (for the removing ones) the name exists as `node`.

    /// Make a node (file, directory, symbolic link, device, FIFO, socket: by the type in `new.mode`). The name does not exist.
    fn create(
        &mut self,
        cx: &mut Context,
        dir: Self::Node,
        name: &[u8],
        new: &New,
    ) -> Answer<Self::Node> {
        let _ = (cx, dir, name, new);
        Err(Failure::Errno(EROFS))
    }

    /// Flags of a file or directory (FS_IOC_GETFLAGS), of servers that keep them.
    fn file_flags(&mut self, node: Self::Node) -> Answer<u32> {
        let _ = node;
        Err(Failure::Errno(ENOTTY))
    }

    /// They are from now on these ([`file_flags::KNOWN`] may differ from what they were). The caller's right is checked.
    fn set_file_flags(&mut self, cx: &mut Context, node: Self::Node, flags: u32) -> Answer<()> {
        let _ = (cx, node, flags);
        Err(Failure::Errno(ENOTTY))
    }

    /// Does it keep nodes of devices, so that RENAME_WHITEOUT can leave one?
    fn keeps_whiteouts(&self) -> bool {
        false
    }

    /// A file without a name in this directory's file system (O_TMPFILE).
    fn create_unnamed(
        &mut self,
        cx: &mut Context,
        dir: Self::Node,
        new: &New,
    ) -> Answer<Self::Node> {
        let _ = (cx, dir, new);
        Err(Failure::Errno(EOPNOTSUPP))
    }

    fn link(
        &mut self,
        cx: &mut Context,
        node: Self::Node,
        dir: Self::Node,
        name: &[u8],
    ) -> Answer<()> {
        let _ = (cx, node, dir, name);
        Err(Failure::Errno(EROFS))
    }

    /// Remove a name that is no directory.
    fn unlink(
        &mut self,
        cx: &mut Context,
        dir: Self::Node,
        name: &[u8],
        node: Self::Node,
    ) -> Answer<()> {
        let _ = (cx, dir, name, node);
        Err(Failure::Errno(EROFS))
    }

    /// Remove a directory; ENOTEMPTY is the server's to say.
    fn rmdir(
        &mut self,
        cx: &mut Context,
        dir: Self::Node,
        name: &[u8],
        node: Self::Node,
    ) -> Answer<()> {
        let _ = (cx, dir, name, node);
        Err(Failure::Errno(EROFS))
    }

    fn rename(&mut self, cx: &mut Context, rename: &Rename<Self::Node>) -> Answer<()> {
        let _ = (cx, rename);
        Err(Failure::Errno(EROFS))
    }

    // ---- open files

    /// A handle is about to be made (permissions are checked, O_TRUNC comes after). May wait: it is then run again with the same `cx.progress`.
    /// `flags` are the O_ flags. Not called for O_PATH.
    fn open(
        &mut self,
        cx: &mut Context,
        node: Self::Node,
        flags: u64,
        state: &mut Self::State,
    ) -> Answer<Opened<Self::Node>> {
        let _ = (cx, flags, state);
        let mode = self.meta(node)?.mode;
        Ok(Opened {
            node,
            kind: layout::default_kind(mode),
        })
    }

    /// A new folder without a name, for a mount of its own ([`cairn_idl::fs::bind::NEW_TREE`]). It and all in it goes when no handle refers to it any more.
    fn new_tree(&mut self, cx: &mut Context, new: &New) -> Answer<Self::Node> {
        let _ = (cx, new);
        Err(Failure::Errno(EOPNOTSUPP))
    }

    /// The root of the folder of [`Server::new_tree`] that this node lies in: a mount of the node keeps it, and with it all that is in there.
    fn tree_of(&mut self, cx: &mut Context, node: Self::Node) -> Option<Self::Node> {
        let _ = (cx, node);
        None
    }

    /// One more handle refers to the node (O_PATH handles too). Never fails.
    fn retain(&mut self, node: Self::Node) {
        let _ = node;
    }

    /// The last holder of the handle is gone (or it could not be delivered).
    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        let _ = (cx, handle);
    }

    /// At most `length` bytes from `offset` (0 on handles that are not seekable); an empty answer is the end of the file.
    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let _ = (cx, handle, offset, length);
        Err(Failure::Errno(EINVAL))
    }

    /// The data that [`Server::read`] took out of this node, and gave with the last answer, could not be delivered: they are there again.
    /// (What is taken away for good, or by another operation, is stored before it is taken: [`Context::store`].)
    fn take_back(&mut self, cx: &mut Context, node: Self::Node) {
        let _ = (cx, node);
    }

    /// A WRITE of no bytes to what has positions: nothing happens, unless the file is a setting.
    #[cold]
    fn write_nothing(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<()> {
        let _ = (cx, handle);
        Ok(())
    }

    /// Take `length` bytes from the caller ([`Context::fetch`]); how many were taken. Where it waits with `cx.progress` bytes taken of a seekable file, it sees to it that nobody else changes the file's length meanwhile.
    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let _ = (cx, handle, offset, length);
        Err(Failure::Errno(EINVAL))
    }

    /// The direct way of a READ whose data (1 to 40 bytes) goes in words, through a handle that is readable and has no position: the data into
    /// `words`, little-endian, eight bytes each. Worth supplying, beside [`Server::read`], where such requests are what the server is for.
    #[inline(always)]
    fn read_direct(
        &mut self,
        handle: &Handle<Self>,
        length: usize,
        words: &mut [u64; 5],
        later: &mut Later,
    ) -> Direct {
        let _ = (handle, length, words, later);
        Direct::Ordinary
    }

    /// The same for a WRITE.
    #[inline(always)]
    fn write_direct(
        &mut self,
        handle: &Handle<Self>,
        length: usize,
        words: &[u64; 5],
        later: &mut Later,
    ) -> Direct {
        let _ = (handle, length, words, later);
        Direct::Ordinary
    }

    /// Add entries behind `position` (0 = start) until [`Dirents::add`] says that there is no room; the new position.
    /// `.` and `..` are the server's to add.
    fn readdir(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let _ = (cx, handle, position, into);
        Err(Failure::Errno(ENOTDIR))
    }

    /// Next data (or hole) at or behind `offset`, which lies below `size`.
    fn seek_data(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        hole: bool,
        size: u64,
    ) -> Answer<u64> {
        let _ = (cx, handle);
        Ok(if hole { size } else { offset })
    }

    /// A device whose position is 0, wherever it is moved.
    fn stays(&self, node: Self::Node) -> bool {
        let _ = node;
        false
    }

    fn sync(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<()> {
        let _ = (cx, handle);
        Ok(())
    }

    /// The same for everything that the server has.
    fn sync_all(&mut self, cx: &mut Context) -> Answer<()> {
        let _ = cx;
        Ok(())
    }

    /// Everything is written and closed, and the server ends soon after the answer. Nobody has anything open.
    fn unmount(&mut self, cx: &mut Context) -> Answer<()> {
        let _ = cx;
        Err(Failure::Errno(EOPNOTSUPP))
    }

    /// From now on as these bits of [`cairn_idl::mounts::mount`] say. Who shall be read only has nobody who has anything open to be written, and sees to it that nobody has from now on.
    fn remount(&mut self, cx: &mut Context, flags: u64) -> Answer<()> {
        let _ = (cx, flags);
        Err(Failure::Errno(EOPNOTSUPP))
    }

    /// A request of this kind that waits, with this [`Context::progress`], ends when its caller is interrupted; otherwise it goes on, as requests to disks do.
    fn interruptible(&self, operation: u64, progress: u64) -> bool {
        let _ = (operation, progress);
        true
    }

    /// A READ or WRITE brings a loan of the memory in question (`vm`'s DMA_LEND), as handles with [`cairn_idl::fs::kind::BORROWS`] allow. True: it is the server's to close.
    fn lent(&mut self, transport: &mut dyn Transport, token: Token, loan: Portal) -> bool {
        let _ = (transport, token, loan);
        false
    }

    /// The reply is sent as it is: w0 is the result.
    fn ioctl<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        argument: u64,
    ) -> Answer<Reply<'a>> {
        let _ = (cx, handle, request, argument);
        Err(Failure::Errno(ENOTTY))
    }

    fn poll(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<Readiness> {
        let _ = (cx, handle);
        Ok(Readiness {
            ready: poll::IN | poll::OUT | poll::RDNORM | poll::WRNORM,
            keys: [0; 2],
        })
    }

    /// The direct way of an operation of the server's own that has no parts and passes no portals: the answer's words take the place of the request's. `node` is the handle's.
    fn special_direct(
        &mut self,
        node: Option<Self::Node>,
        request: &mut Received,
        later: &mut Later,
    ) -> Direct {
        let _ = (node, request, later);
        Direct::Ordinary
    }

    /// Somebody is about to watch a handle of this node for this interest. (The event server's own business: what is watched may be a set.)
    fn watched(&mut self, cx: &mut Context, node: Self::Node, interest: u64) -> Answer<()> {
        let _ = (cx, node, interest);
        Ok(())
    }

    /// Ask the event server ([`cairn_idl::event`]), in words: the first one of its answer. (It is itself one.)
    fn event(&mut self, cx: &mut Context, words: &[u64; 8]) -> i64 {
        cx.transport.event(words)
    }

    /// Whether the object of a file that [`Server::map`] gave for mappings that are not shared and writable still shows what the file has, after the file was changed.
    fn mapping_follows(&mut self, node: Self::Node) -> bool {
        let _ = node;
        true
    }

    /// The memory object of the whole file and its length in pages; the portal stays the server's.
    fn map(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: u64,
        shared_writable: bool,
    ) -> Answer<(Portal, u64)> {
        let _ = (cx, handle, offset, length, shared_writable);
        Err(Failure::Errno(ENODEV))
    }

    /// How many bytes from `offset` are done: as many as others can wait for.
    fn allocate(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        mode: u64,
        offset: u64,
        length: u64,
    ) -> Answer<u64> {
        let _ = (cx, handle, mode, offset, length);
        Err(Failure::Errno(EOPNOTSUPP))
    }

    // ---- beyond the protocol

    /// An operation that the framework does not know. `handles` lets the server make handles of its own (PIPE).
    fn special<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let _ = (cx, handles);
        Err(Failure::Errno(ENOSYS))
    }

    /// How many portals come with an operation that the framework does not know; what comes beyond is closed. They are the server's to close, however the request ends ([`Server::cancelled`]).
    fn takes(&self, operation: u64) -> usize {
        let _ = operation;
        0
    }

    /// A pulse that is none of the framework's (NOTIFY, INTERRUPT, DEATH, CLOSED of a portal that is no handle's).
    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        let _ = (cx, pulse);
    }

    /// A process of whose end the server was to hear ([`Context::attend`]) has ended.
    fn process_ended(&mut self, cx: &mut Context, domain: u32) {
        let _ = (cx, domain);
    }

    /// A request that waited ends without having run again: the caller was interrupted or is gone. `cx.request` and `cx.progress` are its own.
    fn cancelled(&mut self, cx: &mut Context) {
        let _ = cx;
    }

    /// The time given to [`Context::wake_at`] has come.
    fn tick(&mut self, cx: &mut Context) {
        let _ = cx;
    }

    /// A piece of what nobody waits for ([`Context::begin_background`]): no more than others can wait for. Whether more is left.
    fn background(&mut self, cx: &mut Context) -> bool {
        let _ = cx;
        false
    }
}
