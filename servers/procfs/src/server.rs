//! The tree as a resource manager.

use crate::components::{restart, RESTART};
use crate::process;
use crate::system::{Memories, System};
use crate::table::{
    rows, Dir, Row, What, Who, COMM, CORE_FILTER, DROP_CACHES, LEASE_TIME, LOGIN_USER, OLD_OOM,
    OOM, SLACK,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::fs::{
    self, kind, o, s, Stat, Statfs, ENTER_SPACE, NS_GET_NSTYPE, NS_GET_OWNER_UID, NS_GET_PARENT,
    NS_GET_USERNS, PROCESS_OF,
};
use cairn_idl::proc::{Related, SpaceKind};
use cairn_resmgr::layout;
use cairn_resmgr::server::{put, Answer};
use cairn_resmgr::written::{decimal, first_line, integer, natural, Numbers};
use cairn_resmgr::{
    Context, Data, Dirents, Failure, Handle, Handles, Meta, Opened, Server, Snapshot,
};
use cairn_rt::channel::Reply;

/// st_dev of everything here.
const DEVICE: u64 = 4;
/// PROC_SUPER_MAGIC.
const MAGIC: i64 = 0x9fa0;
/// Positions in a directory from here on are process (or thread) numbers.
const NUMBERS: u64 = 0x1_0000;
const MISSING: Failure = Failure::Errno(ENOENT);

/// A directory, or a row of the table, of a process and thread (0 where there is none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Dir(Dir, Who),
    Row(usize, Who),
    /// A name space that the process is in, by its number.
    Space(SpaceKind, Who, u64),
    /// A descriptor of the process: a link to its file, or (in that directory) what is told of it.
    File(Dir, Who, u32),
}

/// What is kept with an open file.
#[derive(Default)]
pub struct Open {
    /// The text as it was when the file was opened, or when its beginning was read last.
    text: Snapshot,
    /// The domain that opened it, and its label.
    opener: u32,
    label: u64,
    /// A name space that is kept.
    holds: Option<(SpaceKind, u64)>,
    /// Of the file `mem`.
    memory: Option<Memories>,
    /// Of a folder /proc/PID, and of the files in it: what names the process.
    life: u64,
}

pub struct Procfs<S: System> {
    pub system: S,
    rows: Vec<Row<S>>,
}

/// The kinds of name spaces: how they are called, their first ones' inodes and CLONE_NEW bits as Linux has them.
const SPACES: [(SpaceKind, &str, u64, i64); 7] = [
    (SpaceKind::Mount, "mnt", 4_026_531_841, 0x2_0000),
    (SpaceKind::Host, "uts", 4_026_531_838, 0x400_0000),
    (SpaceKind::Processes, "pid", 4_026_531_836, 0x2000_0000),
    (SpaceKind::Ipc, "ipc", 4_026_531_839, 0x800_0000),
    (SpaceKind::User, "user", 4_026_531_837, 0x1000_0000),
    (SpaceKind::Network, "net", 4_026_531_840, 0x4000_0000),
    (SpaceKind::Cgroup, "cgroup", 4_026_531_835, 0x200_0000),
];
/// Inodes of the others come behind this.
const OTHER_SPACES: u64 = 4_026_532_000;
/// st_dev of these.
const SPACE_DEVICE: u64 = 3;

fn space_inode(kind: SpaceKind, id: u64) -> u64 {
    match id {
        0 => SPACES[kind.word() as usize].2,
        id => OTHER_SPACES + id,
    }
}

/// The name of a name space's file.
fn space_name(kind: SpaceKind, id: u64) -> String {
    let name = SPACES[kind.word() as usize].1;
    format!("{name}:[{}]", space_inode(kind, id))
}

/// What a directory or row is, and of which thread.
fn inode(what: u64, tid: u32) -> u64 {
    what | (tid as u64) << 16
}

/// Inode and mode of a descriptor, or of what is told of it.
fn file_of(dir: Dir, number: u32) -> (u64, u32) {
    let ino = u64::from(number) << 40 | (2 + dir as u64);
    match dir {
        Dir::Fdinfo => (1 << 63 | ino, s::IFREG | 0o400),
        _ => (ino, s::IFLNK | 0o700),
    }
}

/// Process and thread numbers are plain decimal.
fn number(name: &[u8]) -> Option<u32> {
    if !name.first()?.is_ascii_digit() || (name[0] == b'0' && name.len() > 1) {
        return None;
    }
    core::str::from_utf8(name).ok()?.parse().ok()
}

/// Names of files only: nobody is there who would run a program for a core file.
fn set_core_pattern<S: System>(system: &mut S, text: &[u8]) -> Result<(), i64> {
    let text = core::str::from_utf8(first_line(text)).map_err(|_| EINVAL)?;
    if text.starts_with('|') || text.len() > 127 {
        return Err(EINVAL);
    }
    let pattern = system.core_pattern();
    pattern.clear();
    pattern.try_reserve(text.len()).map_err(|_| ENOMEM)?;
    pattern.push_str(text);
    Ok(())
}

/// A number as Linux takes it for oom_score_adj and oom_adj.
fn oom_of(text: &[u8], old: bool) -> Option<i32> {
    let value = integer(text).ok()?;
    match old {
        true => process::from_old(value),
        false => Some(value).filter(|value| (-1000..=1000).contains(value)),
    }
}

/// /proc/sys/vm/drop_caches: 1 the pages of files, 2 names and inodes (which nobody keeps apart), 4 without a line in the log.
fn drop_caches<S: System>(system: &mut S, what: u64) -> Result<(), i64> {
    match what {
        1 | 3 => system.drop_caches(),
        2 | 4 => Ok(()),
        _ => Err(EINVAL),
    }
}

/// Most bytes of a process's memory in one message to `proc`, and in one READ or WRITE.
const PIECE: usize = 4096;
const PIECES: usize = 1 << 20;

/// Memory of another process that is not there is EIO. (EFAULT is the caller's own: it comes again.)
fn not_there(number: i64) -> Failure {
    Failure::Errno(match number {
        EFAULT => EIO,
        number => number,
    })
}

/// Read or write in pieces, up to the first that gives less.
fn in_pieces(length: usize, mut piece: impl FnMut(usize, usize) -> Answer<usize>) -> Answer<usize> {
    let length = length.min(PIECES);
    let mut done = 0;
    while done < length {
        let most = (length - done).min(PIECE);
        match piece(done, most) {
            Ok(count) => {
                done += count;
                if count < most {
                    break;
                }
            }
            Err(Failure::Errno(number)) if done != 0 && number != EFAULT => break,
            Err(failure) => return Err(failure),
        }
    }
    Ok(done)
}

impl<S: System> Procfs<S> {
    pub fn new(system: S) -> Procfs<S> {
        Procfs {
            system,
            rows: rows(),
        }
    }

    /// The node of a row in a directory: what the row is, seen from there.
    fn node(&self, row: usize, who: Who) -> Node {
        match self.rows[row].what {
            What::Dir(dir) => Node::Dir(dir, who),
            _ => Node::Row(row, who),
        }
    }

    /// Rows of a directory; a thread has its process's texts.
    fn rows_of(&self, dir: Dir) -> impl Iterator<Item = (usize, &Row<S>)> {
        let table = if dir == Dir::Task { Dir::Process } else { dir };
        self.rows.iter().enumerate().filter(move |(_, row)| {
            row.dir == table && !(dir == Dir::Task && matches!(row.what, What::Dir(_)))
        })
    }

    /// The numbers that a directory lists, from one on.
    fn numbers(&mut self, dir: Dir, who: Who, first: u32, reader: u32) -> Vec<u32> {
        match dir {
            Dir::Root => self.system.pids(first, reader),
            Dir::Descriptors | Dir::Fdinfo => self.system.descriptors(who.pid, first),
            Dir::Tasks => {
                let mut tids = self.system.tids(who.pid, reader);
                tids.retain(|&tid| tid >= first);
                tids
            }
            _ => Vec::new(),
        }
    }

    fn numbered(dir: Dir, who: Who, number: u32) -> Node {
        if dir == Dir::Root {
            let who = Who {
                pid: number,
                tid: number,
                ..Who::default()
            };
            return Node::Dir(Dir::Process, who);
        }
        Node::Dir(Dir::Task, Who { tid: number, ..who })
    }

    /// An open file of a process as its readers reach it, by a link to no name: NUL, and what it is called in /proc.
    fn file_link(&mut self, cx: &Context, who: Who, which: &str) -> String {
        let pid = self.called(cx, who.pid);
        format!("\0{pid}/{which}")
    }

    /// A number as the sender has it.
    fn called(&mut self, cx: &Context, number: u32) -> String {
        let number = self.system.number_for(cx.request.sender, number);
        format!("{number}")
    }

    fn row_of(&self, kind: SpaceKind) -> usize {
        let is = |row: &Row<S>| matches!(row.what, What::Space(it) if it == kind);
        self.rows.iter().position(is).unwrap_or(0)
    }

    /// What is guarded is for who may look into the process, whatever mode and owner say. The caller is whom the nucleus names.
    fn check_guard(&mut self, node: Node, sender: u32) -> Answer<()> {
        let Node::Row(index, who) = node else {
            return Ok(());
        };
        match self.rows[index].guarded {
            true => self.may_look(sender, who),
            false => Ok(()),
        }
    }

    fn may_look(&mut self, sender: u32, who: Who) -> Answer<()> {
        match self.system.may_look_into(sender, who.pid) {
            true => Ok(()),
            false => Err(Failure::Errno(EACCES)),
        }
    }

    /// The text of an open file as it is now. ESRCH: the process that it tells of is gone.
    fn again(
        &mut self,
        node: Node,
        opener: (u32, u64),
        by: (u32, u32),
        life: u64,
    ) -> Answer<Vec<u8>> {
        if let Node::Row(_, who) = node {
            let now = match who.pid {
                0 => 0,
                pid => self
                    .system
                    .status(pid, who.tid, 0)
                    .map_or(0, |now| now.life),
            };
            if now != life {
                return Err(Failure::Errno(ESRCH));
            }
        }
        self.check_guard(node, opener.0)?;
        self.contents(node, opener, by)
    }

    /// `by`: domain and thread of who asks, who need not be who opened it.
    fn contents(
        &mut self,
        node: Node,
        (sender, label): (u32, u64),
        by: (u32, u32),
    ) -> Answer<Vec<u8>> {
        let Node::Row(index, mut who) = node else {
            return Ok(Vec::new());
        };
        if let What::Map(which) = self.rows[index].what {
            let text = self.system.map_text(sender, who.pid, which);
            return text.map_err(Failure::Errno);
        }
        if who.pid != 0 && matches!(self.rows[index].what, What::Text(_)) {
            who.asks = self.system.ids_of(by.0, by.1) == Some((who.pid, who.tid));
        }
        who.reader = sender;
        who.label = label;
        match self.rows[index].what {
            What::Fixed(text) => Ok(text.into()),
            What::Bytes(writer) => Ok(writer(&mut self.system, who)),
            What::Memory => Ok(Vec::new()),
            What::Call => {
                let call = self.system.call(sender, who.tid);
                let mut text = String::new();
                process::call(call.map_err(Failure::Errno)?, &mut text);
                Ok(text.into_bytes())
            }
            What::Slack => {
                let slack = self.system.timer_slack(sender, who.pid, None);
                Ok(format!("{}\n", slack.map_err(Failure::Errno)?).into_bytes())
            }
            What::Text(writer) => {
                let mut text = String::new();
                // A process may end between the lookup of its name and here.
                writer(&mut self.system, who, &mut text).ok_or(Failure::Errno(ESRCH))?;
                Ok(text.into_bytes())
            }
            What::Dir(_)
            | What::Link(_)
            | What::Elsewhere(_)
            | What::Gathered(_)
            | What::Space(_)
            | What::Map(_)
            | What::Cwd => Err(Failure::Errno(EINVAL)),
        }
    }
}

/// Domain and thread of who asks.
fn asking(cx: &Context) -> (u32, u32) {
    (cx.request.sender, cx.request.token as u32)
}

impl<S: System> Server for Procfs<S> {
    type Node = Node;
    type State = Open;

    fn root(&mut self, _: u64) -> Node {
        Node::Dir(Dir::Root, Who::default())
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let (mode, who, ino) = match node {
            Node::Dir(Dir::Root, _) => (s::IFDIR | 0o555, Who::default(), 1),
            Node::Dir(dir, who) => {
                let mode = match dir {
                    Dir::Descriptors => 0o500,
                    Dir::Spaces => 0o511,
                    _ => 0o555,
                };
                (s::IFDIR | mode, who, 2 + dir as u64)
            }
            Node::Row(index, who) => (self.rows[index].mode, who, 64 + index as u64),
            Node::Space(kind, _, id) => {
                return Ok(Meta {
                    mode: s::IFREG | 0o444,
                    ino: space_inode(kind, id),
                    ..Meta::default()
                })
            }
            Node::File(dir, who, number) => {
                let (ino, mode) = file_of(dir, number);
                (mode, who, ino)
            }
        };
        let mut meta = Meta {
            mode,
            ino: inode(ino, who.tid),
            ..Meta::default()
        };
        if who.pid != 0 {
            let status = self.system.status(who.pid, who.tid, 0).ok_or(MISSING)?;
            // Of one that is not dumpable only the folders that anybody may list are its user's.
            if status.dumpable == 1 || mode == s::IFDIR | 0o555 {
                meta.uid = status.creds.euid;
                meta.gid = status.creds.egid;
            }
        }
        Ok(meta)
    }

    fn lookup(&mut self, cx: &mut Context, dir: Node, name: &[u8]) -> Answer<Node> {
        let Node::Dir(dir, who) = dir else {
            return Err(Failure::Errno(ENOTDIR));
        };
        let row = self
            .rows_of(dir)
            .find(|(_, row)| row.name.as_bytes() == name);
        if let Some((row, it)) = row {
            return match it.what {
                What::Elsewhere(place) => Err(cx.redirect(place.as_bytes())),
                _ => Ok(self.node(row, who)),
            };
        }
        if dir == Dir::Spaces {
            for (kind, ..) in SPACES {
                let id = self.system.space_id(who.pid, kind).ok_or(MISSING)?;
                if space_name(kind, id).as_bytes() == name {
                    let node = Node::Row(self.row_of(kind), who);
                    self.check_guard(node, cx.request.sender)?;
                    return Ok(Node::Space(kind, who, id));
                }
            }
            return Err(MISSING);
        }
        let number = number(name).ok_or(MISSING)?;
        if matches!(dir, Dir::Descriptors | Dir::Fdinfo) {
            self.may_look(cx.request.sender, who)?;
            let found = self.system.descriptors(who.pid, number);
            return match found.first() == Some(&number) {
                true => Ok(Node::File(dir, who, number)),
                false => Err(MISSING),
            };
        }
        if !matches!(dir, Dir::Root | Dir::Tasks) {
            return Err(MISSING);
        }
        // Whom the reader calls so.
        let reader = cx.request.sender;
        let number = self.system.number_of(reader, number).ok_or(MISSING)?;
        // Whether a process exists is seen by the question for its owner.
        match dir {
            Dir::Tasks if !self.system.tids(who.pid, 0).contains(&number) => Err(MISSING),
            dir => Ok(Self::numbered(dir, who, number)),
        }
    }

    fn parent(&mut self, _: &mut Context, dir: Node) -> Answer<Node> {
        let Node::Dir(dir, who) = dir else {
            return Err(Failure::Errno(ENOTDIR));
        };
        let process = Who {
            tid: who.pid,
            ..who
        };
        Ok(match dir {
            Dir::Root | Dir::Process => Node::Dir(Dir::Root, Who::default()),
            Dir::Task => Node::Dir(Dir::Tasks, process),
            // The one folder is at two places.
            Dir::Net if process.pid != 0 => Node::Dir(Dir::Process, process),
            _ => {
                let is = |row: &&Row<S>| matches!(row.what, What::Dir(it) if it == dir);
                let above = self.rows.iter().find(is).map_or(Dir::Root, |row| row.dir);
                Node::Dir(above, process)
            }
        })
    }

    fn target(&mut self, cx: &mut Context, link: Node, into: &mut [u8]) -> Answer<usize> {
        if let Node::File(Dir::Descriptors, who, number) = link {
            let text = self.file_link(cx, who, &format!("fd/{number}"));
            return put(text.as_bytes(), into);
        }
        let Node::Row(index, mut who) = link else {
            return Err(Failure::Errno(EINVAL));
        };
        if let What::Cwd = self.rows[index].what {
            self.check_guard(link, cx.request.sender)?;
            return put(self.file_link(cx, who, "cwd").as_bytes(), into);
        }
        if let What::Space(kind) = self.rows[index].what {
            self.check_guard(link, cx.request.sender)?;
            let id = self.system.space_id(who.pid, kind).ok_or(MISSING)?;
            return put(space_name(kind, id).as_bytes(), into);
        }
        let What::Link(writer) = self.rows[index].what else {
            return Err(Failure::Errno(EINVAL));
        };
        if who.pid == 0 {
            // `self`: whoever asks. A native component is no process.
            let thread = cx.request.token as u32;
            let ids = self.system.ids_of(cx.request.sender, thread);
            let (pid, tid) = ids.unwrap_or_default();
            let tid = if tid == 0 { pid } else { tid };
            who = Who {
                pid,
                tid,
                asks: true,
                reader: 0,
                label: 0,
            };
        }
        self.check_guard(link, cx.request.sender)?;
        who.reader = cx.request.sender;
        who.label = cx.request.label;
        let target = writer(&mut self.system, who).ok_or(MISSING)?;
        put(&target, into)
    }

    fn path(&mut self, cx: &mut Context, node: Node, into: &mut [u8]) -> Answer<usize> {
        let (mut path, dir) = match node {
            Node::Dir(dir, who) => (String::new(), Node::Dir(dir, who)),
            Node::Row(index, who) => {
                let row = &self.rows[index];
                let dir = match row.dir {
                    Dir::Process if who.tid != who.pid => Dir::Task,
                    dir => dir,
                };
                (row.name.into(), Node::Dir(dir, who))
            }
            Node::Space(kind, who, id) => (space_name(kind, id), Node::Dir(Dir::Spaces, who)),
            Node::File(dir, who, number) => (format!("{number}"), Node::Dir(dir, who)),
        };
        let mut at = dir;
        while at != self.root(0) {
            let name = match at {
                Node::Dir(Dir::Process, who) => self.called(cx, who.pid),
                Node::Dir(Dir::Task, who) => self.called(cx, who.tid),
                Node::Dir(dir, _) => {
                    let is = |row: &&Row<S>| matches!(row.what, What::Dir(it) if it == dir);
                    self.rows.iter().find(is).map_or("", |row| row.name).into()
                }
                Node::Row(..) | Node::Space(..) | Node::File(..) => break,
            };
            path = if path.is_empty() {
                name
            } else {
                format!("{name}/{path}")
            };
            at = self.parent(cx, at)?;
        }
        put(path.as_bytes(), into)
    }

    fn stat(&mut self, cx: &mut Context, node: Node) -> Answer<Stat> {
        let now = (cx.now() / 1_000_000_000) as i64;
        Ok(Stat {
            dev: match node {
                Node::Space(..) => SPACE_DEVICE,
                _ => DEVICE,
            },
            blksize: 1024,
            atime: now,
            mtime: now,
            ctime: now,
            ..layout::plain_stat(&self.meta(node)?)
        })
    }

    fn statfs(&mut self, _: &mut Context, _: Node) -> Answer<Statfs> {
        Ok(Statfs {
            kind: MAGIC,
            ..layout::empty_statfs()
        })
    }

    fn readdir(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let Node::Dir(dir, who) = handle.node else {
            return Err(Failure::Errno(ENOTDIR));
        };
        let mut position = position;
        let mut names: Vec<(&str, Node)> =
            [(".", handle.node), ("..", self.parent(cx, handle.node)?)].into();
        names.extend(
            self.rows_of(dir)
                .map(|(index, row)| (row.name, self.node(index, who))),
        );
        while let Some((name, node)) = names.get(position as usize) {
            let meta = self.meta(*node)?;
            if !into.add(meta.ino, position + 1, meta.mode, name.as_bytes()) {
                return Ok(position);
            }
            position += 1;
        }
        position = position.max(NUMBERS);
        if matches!(dir, Dir::Descriptors | Dir::Fdinfo) {
            self.may_look(cx.request.sender, who)?;
        }
        loop {
            let numbers = self.numbers(dir, who, (position - NUMBERS) as u32, cx.request.sender);
            if numbers.is_empty() {
                return Ok(position);
            }
            for number in numbers {
                let next = NUMBERS + number as u64 + 1;
                let (ino, mode) = match dir {
                    Dir::Descriptors | Dir::Fdinfo => {
                        let (ino, mode) = file_of(dir, number);
                        (inode(ino, who.tid), mode & s::IFMT)
                    }
                    _ => (inode(2 + Dir::Process as u64, number), s::IFDIR),
                };
                if !into.add(ino, next, mode, format!("{number}").as_bytes()) {
                    return Ok(position);
                }
                position = next;
            }
        }
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: Node,
        flags: u64,
        state: &mut Open,
    ) -> Answer<Opened<Node>> {
        if let Node::File(Dir::Fdinfo, who, number) = node {
            let text = self.file_link(cx, who, &format!("fdinfo/{number}"));
            return Err(cx.redirect(text.as_bytes()));
        }
        if let Node::Row(index, who) = node {
            if let What::Gathered(name) = self.rows[index].what {
                return Err(cx.redirect(format!("\0{}/{name}", who.pid).as_bytes()));
            }
        }
        self.check_guard(node, cx.request.sender)?;
        // There is nothing to be read of it, whoever asks.
        if let Node::Row(index, _) = node {
            if self.rows[index].name == DROP_CACHES && flags & o::ACCMODE != o::WRONLY {
                return Err(Failure::Errno(EACCES));
            }
        }
        let later = match node {
            // (What is guarded is for who might look when it was opened.)
            Node::Row(index, _) => {
                let row = &self.rows[index];
                // (A thread that asks for its own call waits in read(2), not in open(2).)
                row.what.is_made_when_read() && !row.guarded || matches!(row.what, What::Call)
            }
            _ => false,
        };
        let text = match later {
            true => None,
            false => {
                let opener = (cx.request.sender, cx.request.label);
                Some(self.contents(node, opener, asking(cx))?)
            }
        };
        let mode = self.meta(node)?.mode;
        (state.opener, state.label) = (cx.request.sender, cx.request.label);
        if let Node::Space(kind, who, id) = node {
            let held = self.system.hold_space(who.pid, kind, id);
            held.map_err(|_| MISSING)?;
            state.holds = Some((kind, id)).filter(|_| id != 0);
        }
        if let Node::Dir(Dir::Process, who) | Node::Row(_, who) = node {
            if who.pid != 0 {
                state.life = self.system.status(who.pid, who.tid, 0).ok_or(MISSING)?.life;
            }
        }
        if let Node::Row(index, who) = node {
            if let What::Memory = self.rows[index].what {
                let opened = self.system.open_memory(cx.request.sender, who.pid);
                state.memory = Some(opened.map_err(Failure::Errno)?);
            }
        }
        let text = match text {
            Some(text) => Snapshot::opened(cx, text),
            None => Ok(Snapshot::default()),
        };
        if text.is_err() {
            if let Some((kind, id)) = state.holds.take() {
                self.system.drop_space(kind, id);
            }
        }
        state.text = text?;
        Ok(Opened {
            node,
            kind: layout::default_kind(mode) | kind::SEEKABLE,
        })
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        if let Some(of) = handle.state.memory {
            let by = cx.request.sender;
            let done = in_pieces(length, |done, most| {
                let mut piece = [0; PIECE];
                let piece = &mut piece[..most];
                let at = offset + done as u64;
                let read = self.system.read_memory(by, of, at, piece);
                let count = read.map_err(not_there)?.min(piece.len());
                cx.store(done, &piece[..count])?;
                Ok(count)
            })?;
            return Ok(Data::stored(done));
        }
        let (node, state) = (handle.node, &mut handle.state);
        let (opener, label, life) = (state.opener, state.label, state.life);
        let by = asking(cx);
        state.text.read(cx, offset, length, || {
            self.again(node, (opener, label), by, life)
        })
    }

    fn close(&mut self, cx: &mut Context, mut handle: Handle<Self>) {
        if let Some((kind, id)) = handle.state.holds {
            self.system.drop_space(kind, id);
        }
        handle.state.text.end(cx);
    }

    /// The file of a name space: of which kind it is, and setns(2). A process's folder: what names the process.
    fn ioctl<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        _: u64,
    ) -> Answer<Reply<'a>> {
        if let (Node::Dir(Dir::Process, _), PROCESS_OF) = (handle.node, request) {
            return Ok(Reply::new(&[0, handle.state.life]));
        }
        let Node::Space(kind, _, id) = handle.node else {
            return Err(Failure::Errno(ENOTTY));
        };
        match request {
            NS_GET_NSTYPE => Ok(Reply::result(SPACES[kind.word() as usize].3)),
            NS_GET_OWNER_UID => {
                let (sender, of) = (cx.request.sender, (kind, id));
                let user = self.system.related(sender, of, Related::User);
                let user = user.map_err(Failure::Errno)? as u32;
                cx.store(0, &user.to_le_bytes())?;
                Ok(Reply::result(0))
            }
            ENTER_SPACE => {
                let entered = self.system.enter_space(cx.request.sender, kind, id);
                entered.map_err(Failure::Errno)?;
                Ok(Reply::new(&[0, id]))
            }
            _ => Err(Failure::Errno(ENOTTY)),
        }
    }

    /// SPACE_RELATED
    fn special<'a>(
        &'a mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let [operation, which, ..] = cx.request.words;
        if operation != fs::SPACE_RELATED {
            return Err(Failure::Errno(ENOSYS));
        }
        let Some(Node::Space(kind, _, id)) = handles.get(cx.request.badge).map(|it| it.node) else {
            return Err(Failure::Errno(ENOTTY));
        };
        let (which, other) = match which {
            NS_GET_USERNS => (Related::Owner, SpaceKind::User),
            NS_GET_PARENT => (Related::Parent, kind),
            _ => return Err(Failure::Errno(EINVAL)),
        };
        handles.room(cx, 1)?;
        let sender = cx.request.sender;
        let found = self.system.related(sender, (kind, id), which);
        let id = found.map_err(Failure::Errno)?;
        let holds = Some((other, id)).filter(|_| id != 0);
        // Its path is one of who asked.
        let pid = self.system.pid_of(sender).unwrap_or_default();
        let who = Who {
            pid,
            tid: pid,
            ..Who::default()
        };
        let node = Node::Space(other, who, id);
        let opened = self.meta(node).and_then(|meta| {
            let kinds = layout::default_kind(meta.mode) | kind::SEEKABLE;
            let state = Open {
                holds,
                opener: sender,
                label: cx.request.label,
                ..Open::default()
            };
            let badge = handles.insert(cx, node, o::RDONLY, kinds, state)?;
            Ok(Reply::new(&[0, meta.mode.into(), kinds]).mint(badge))
        });
        if let (Err(_), Some((kind, id))) = (&opened, holds) {
            self.system.drop_space(kind, id);
        }
        opened
    }

    /// Files of a process take what is empty as they take other texts: a name is empty then, and no number is.
    fn write_nothing(&mut self, cx: &mut Context, handle: &mut Handle<Self>) -> Answer<()> {
        match handle.node {
            Node::Row(index, _) if self.rows[index].dir == Dir::Process => {
                self.write(cx, handle, 0, 0).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// The host name, the limits of System V's things, and the name of a component can be written here, by who may open the file for it.
    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let Node::Row(index, who) = handle.node else {
            return Err(Failure::Errno(EISDIR));
        };
        if let Some(of) = handle.state.memory {
            let by = cx.request.sender;
            return in_pieces(length, |done, most| {
                let mut piece = [0; PIECE];
                let piece = &mut piece[..most];
                cx.fetch(done, piece)?;
                let at = offset + done as u64;
                let written = self.system.write_memory(by, of, at, piece);
                written.map_err(not_there)
            });
        }
        if let What::Map(which) = self.rows[index].what {
            let sender = cx.request.sender;
            // Who opened it for somebody else did not think of this.
            if handle.state.opener != sender {
                return Err(Failure::Errno(EPERM));
            }
            let mut text = [0; 4096];
            let text = text.get_mut(..length).filter(|_| offset == 0);
            let text = text.ok_or(Failure::Errno(EINVAL))?;
            cx.fetch(0, text)?;
            let written = self.system.set_map(sender, who.pid, which, text);
            written.map_err(Failure::Errno)?;
            return Ok(length);
        }
        let name = self.rows[index].name;
        if name == LOGIN_USER {
            let mut text = [0; 16];
            let text = text.get_mut(..length).filter(|_| offset == 0);
            let text = text.ok_or(Failure::Errno(EINVAL))?;
            cx.fetch(0, text)?;
            let user = decimal(text).map_err(Failure::Errno)?;
            let user = user.try_into().map_err(|_| Failure::Errno(EINVAL))?;
            let set = self.system.set_login(cx.request.sender, who.pid, user);
            set.map_err(Failure::Errno)?;
            return Ok(length);
        }
        if name == SLACK {
            let mut text = [0; 24];
            let text = text.get_mut(..length).ok_or(Failure::Errno(EINVAL))?;
            cx.fetch(0, text)?;
            let slack = decimal(text).map_err(Failure::Errno)?;
            let sender = cx.request.sender;
            let set = self.system.timer_slack(sender, who.pid, Some(slack));
            set.map_err(Failure::Errno)?;
            return Ok(length);
        }
        if name == COMM {
            let most = length.min(15);
            let mut text = [0; 15];
            cx.fetch(0, &mut text[..most])?;
            let sender = cx.request.sender;
            let set = self
                .system
                .set_thread_name(sender, who.pid, who.tid, &text[..most]);
            set.map_err(Failure::Errno)?;
            return Ok(length);
        }
        if name == CORE_FILTER {
            let mut text = [0; 32];
            let text = text.get_mut(..length).ok_or(Failure::Errno(EINVAL))?;
            cx.fetch(0, text)?;
            let filter = natural(text).and_then(|it| it.try_into().map_err(|_| ERANGE));
            let filter = filter.map_err(Failure::Errno)?;
            let set = self
                .system
                .set_core_filter(cx.request.sender, who.pid, filter);
            set.map_err(Failure::Errno)?;
            return Ok(length);
        }
        if [OOM, OLD_OOM].contains(&name) {
            // (Linux takes no more of a longer text.)
            let length = length.min(12);
            let mut text = [0; 12];
            let text = &mut text[..length];
            cx.fetch(0, text)?;
            let old = name == OLD_OOM;
            let adjust = oom_of(text, old).ok_or(Failure::Errno(EINVAL))?;
            let sender = cx.request.sender;
            let set = self.system.set_oom(sender, who.pid, adjust, old);
            set.map_err(Failure::Errno)?;
            return Ok(length);
        }
        let limits = crate::ipc::limits_of(name);
        let key_limit = crate::keys::limit_of(name);
        const HOST: [&str; 2] = ["hostname", "domainname"];
        let is_number =
            !limits.is_empty() || key_limit.is_some() || [DROP_CACHES, LEASE_TIME].contains(&name);
        if !is_number && ![HOST[0], HOST[1], "core_pattern", RESTART].contains(&name) {
            return Err(Failure::Errno(EACCES));
        }
        let most = if HOST.contains(&name) { 65 } else { 128 };
        let mut text = [0; 128];
        let text = text[..most]
            .get_mut(..length)
            .ok_or(Failure::Errno(EINVAL))?;
        cx.fetch(0, text)?;
        if is_number {
            // They are in one piece: what is written behind it does nothing.
            if offset != 0 {
                return Ok(length);
            }
            let system = &mut self.system;
            let used = match (key_limit, name) {
                (Some(which), _) => crate::keys::set_limit(system, which, text),
                (None, LEASE_TIME) => Numbers::first(text)
                    .and_then(|(seconds, end)| system.set_lease_time(seconds).map(|()| end)),
                (None, DROP_CACHES) => Numbers::first(text)
                    .and_then(|(what, end)| drop_caches(system, what).map(|()| end)),
                _ => crate::ipc::set_limits(system, limits, text),
            };
            return used.map_err(Failure::Errno);
        }
        let done = match name {
            "hostname" | "domainname" => {
                let which = u64::from(name == HOST[1]);
                let (sender, text) = (cx.request.sender, first_line(text));
                self.system.set_host_text(sender, which, text)
            }
            RESTART => restart(&mut self.system, text),
            "core_pattern" => set_core_pattern(&mut self.system, text),
            _ => Err(EACCES),
        };
        done.map_err(Failure::Errno)?;
        Ok(length)
    }

    fn truncate(&mut self, _: &mut Context, _: Node, _: u64) -> Answer<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
