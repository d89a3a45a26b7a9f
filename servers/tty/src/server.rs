//! The terminals as a resource manager: names, opening and closing, reading and writing that may have to wait, polling.

use crate::ioctl;
use crate::nodes::{self, Name, Node, PSEUDO_MAX};
use crate::terminal::{event, Line, Master, Reading, Size, Terminal, CHUNK};
use crate::termios::{l, Termios};
use crate::world::{Attached, Ids, World};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_idl::device;
use cairn_idl::errno::*;
use cairn_idl::fs::{kind, o, poll, Stat, Statfs};
use cairn_idl::label;
use cairn_idl::uart;
use cairn_resmgr::server::{put, Answer, Change};
use cairn_resmgr::{
    layout, Context, Data, Dirents, Failure, Handle, Meta, Opened, Readiness, Server,
};
use cairn_rt::channel::Reply;
use cairn_rt::Received;

/// Badges of pulses: of a serial line's driver (with the line, and in bits 8..16 which attempt to attach it was), of the end of a terminal's session
/// leader (with the terminal's index).
pub const BADGE_LINE: u64 = 0x1_0000;
pub const BADGE_LEADER: u64 = 0x2_0000;

/// How often a line is asked whether it has drained while somebody waits for that.
const DRAIN_TICK: u64 = 2_000_000;
/// How often a line whose driver is gone is tried again.
const RETRY_TICK: u64 = 200_000_000;

/// What is kept with an open handle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// The terminal's generation when it was opened.
    generation: u32,
    /// Went through `open` (not O_PATH): closing it counts.
    counted: bool,
}

pub struct Tty<W: World> {
    pub world: W,
    pub(crate) terminals: Vec<Option<Terminal>>,
    pub(crate) lines: usize,
    size: Size,
    /// Seconds since 1970 when the server started, for stat.
    born: i64,
    buffer: Vec<u8>,
    /// Per terminal: the caller whose write is under way, so that writes do not mix.
    writers: Vec<Option<Token>>,
    /// When reads with VTIME are to be looked at again.
    timers: Vec<(u64, u64)>,
    /// Somebody waits for a terminal to drain.
    draining: Vec<usize>,
    /// Lines whose driver did not answer.
    lost: Vec<usize>,
    /// By line: which attempt to attach was the last.
    attempts: Vec<u8>,
}

fn line_badge(line: usize, attempt: u8) -> u64 {
    BADGE_LINE | (attempt as u64) << 8 | line as u64
}

/// The key that waiting requests are found by.
pub(crate) fn key(index: usize, event: u8) -> u64 {
    (index as u64 + 1) << 8 | event as u64
}

/// O_NONBLOCK, or RWF_NOWAIT of this request: then nothing may be noted of it.
fn must_not_wait<S: Server>(cx: &Context, handle: &Handle<S>) -> bool {
    const RWF_NOWAIT: u64 = 8;
    handle.nonblocking() || cx.request.words[2] & RWF_NOWAIT != 0
}

impl<W: World> Tty<W> {
    /// A terminal for each of `lines` serial lines.
    pub fn new(world: W, lines: usize, size: Size) -> Tty<W> {
        let terminals: Vec<_> = (0..lines)
            .map(|line| {
                Some(Terminal::new(
                    line,
                    nodes::serial_device(line),
                    Line::Serial(line),
                    Termios::default(),
                    size,
                ))
            })
            .collect();
        Tty {
            world,
            writers: vec![None; terminals.len()],
            terminals,
            lines,
            size,
            born: 0,
            buffer: vec![0; CHUNK],
            timers: Vec::new(),
            draining: Vec::new(),
            lost: Vec::new(),
            attempts: vec![0; lines],
        }
    }

    fn terminal(&mut self, index: usize) -> Answer<&mut Terminal> {
        self.terminals
            .get_mut(index)
            .and_then(Option::as_mut)
            .ok_or(Failure::Errno(EIO))
    }

    /// The terminal, and the world beside it.
    pub(crate) fn both(&mut self, index: usize) -> Answer<(&mut Terminal, &mut W)> {
        match self.terminals.get_mut(index) {
            Some(Some(terminal)) => Ok((terminal, &mut self.world)),
            _ => Err(Failure::Errno(EIO)),
        }
    }

    pub(crate) fn ids(&mut self, cx: &Context) -> Ids {
        // A caller that is no process (a native component) is under nobody's job control.
        let mut ids = self.world.ids(cx.request.sender).unwrap_or_default();
        let [operation, _, _, flags, ..] = cx.request.words;
        // A program could as well ignore the signal: what it says of itself is believed.
        ids.ignores_ttou |=
            operation == cairn_idl::fs::IOCTL && flags & cairn_idl::fs::BLOCKS_TTOU != 0;
        ids
    }

    pub(crate) fn tell(&mut self, cx: &mut Context, index: usize, happened: u8) {
        for bit in [event::READ, event::WRITE, event::DRAINED, event::MASTER] {
            if happened & bit != 0 {
                cx.wake(key(index, bit));
            }
        }
    }

    /// Wait until output has left; with a line that says nothing of it, by looking again.
    pub(crate) fn wait_drained(&mut self, cx: &mut Context, index: usize) -> Failure {
        if !self.draining.contains(&index) {
            self.draining.push(index);
        }
        self.set_alarm(cx);
        Failure::Wait(key(index, event::DRAINED))
    }

    fn set_alarm(&mut self, cx: &mut Context) {
        let now = cx.transport.monotonic();
        let mut alarm = self.timers.iter().map(|&(time, _)| time).min();
        for (wanted, after) in [
            (!self.draining.is_empty(), DRAIN_TICK),
            (!self.lost.is_empty(), RETRY_TICK),
        ] {
            if wanted {
                alarm = Some(alarm.map_or(now + after, |time| time.min(now + after)));
            }
        }
        cx.wake_at(alarm);
    }

    /// A driver could not be attached to or stopped answering: try again later.
    pub fn line_lost(&mut self, cx: &mut Context, line: usize) {
        if !self.lost.contains(&line) {
            self.lost.push(line);
        }
        self.set_alarm(cx);
    }

    fn is_dead(&self, handle: &Handle<Self>, terminal: &Terminal) -> bool {
        handle.state.generation != terminal.generation
            && !matches!(handle.node, Node::Terminal(_, Name::Console))
    }

    /// Is this handle from before a hang-up?
    pub(crate) fn dead(&mut self, handle: &Handle<Self>) -> bool {
        match handle.node {
            Node::Terminal(index, _) => match self.terminals.get(index) {
                Some(Some(terminal)) => self.is_dead(handle, terminal),
                _ => true,
            },
            _ => false,
        }
    }

    /// One more pseudo-terminal, for this user: users leave some to user 0 and to each other.
    fn may_have_more(&self, uid: u32) -> bool {
        let all = self.terminals.iter().flatten();
        let payers = all.filter_map(|terminal| match &terminal.line {
            Line::Master(master) => Some(master.payer),
            Line::Serial(_) => None,
        });
        let of_users = payers.filter(|&payer| payer != 0);
        let (count, own) = of_users.fold((0, 0), |(count, own), payer| {
            (count + 1, own + usize::from(payer == uid))
        });
        uid == 0 || count < nodes::USERS_PSEUDO && own < nodes::EACH_USERS_PSEUDO
    }

    fn new_master(&mut self, cx: &Context) -> Answer<usize> {
        if !self.may_have_more(cx.uid()) {
            return Err(Failure::Errno(ENOSPC));
        }
        let free =
            (self.lines..self.terminals.len()).find(|&index| self.terminals[index].is_none());
        let index = match free {
            Some(index) => index,
            None if self.terminals.len() < self.lines + PSEUDO_MAX => {
                self.terminals.push(None);
                self.writers.push(None);
                self.terminals.len() - 1
            }
            None => return Err(Failure::Errno(ENOSPC)),
        };
        let master = Master {
            open: true,
            locked: true,
            slave_left: false,
            payer: cx.uid(),
            packet: false,
            status: 0,
        };
        let mut terminal = Terminal::new(
            index,
            nodes::slave_device(index - self.lines),
            Line::Master(master),
            Termios::pseudo(),
            Size::default(),
        );
        terminal.uid = cx.uid();
        terminal.gid = nodes::GROUP_TTY;
        self.terminals[index] = Some(terminal);
        Ok(index)
    }

    fn open_terminal(
        &mut self,
        cx: &mut Context,
        index: usize,
        name: Name,
        flags: u64,
        opening: &mut Opening,
    ) -> Answer<()> {
        let privileged = cx.has(label::SYSTEM);
        let terminal = self.terminal(index)?;
        if let Line::Master(master) = &mut terminal.line {
            if master.locked || !master.open {
                return Err(Failure::Errno(EIO));
            }
            master.slave_left = false;
        }
        if terminal.exclusive && !privileged {
            return Err(Failure::Errno(EBUSY));
        }
        terminal.opens += 1;
        *opening = Opening {
            generation: terminal.generation,
            counted: true,
        };
        let may_control = name == Name::Own && flags & (o::NOCTTY | o::PATH) == 0;
        if may_control && terminal.session == 0 && flags & o::ACCMODE != o::WRONLY {
            let ids = self.ids(cx);
            if ids.leader && ids.terminal == 0 {
                let (terminal, world) = self.both(index)?;
                // It is no error of the open if somebody else was faster.
                let _ = terminal.acquire(&ids, false, world);
            }
        }
        Ok(())
    }

    fn read_terminal(
        &mut self,
        cx: &mut Context,
        index: usize,
        length: usize,
        nonblocking: bool,
    ) -> Answer<usize> {
        if self.terminal(index)?.session != 0 {
            let ids = self.ids(cx);
            let (terminal, world) = self.both(index)?;
            terminal.check_read(&ids, world).map_err(Failure::Errno)?;
        }
        let timed = {
            let termios = &self.terminal(index)?.discipline.termios;
            !termios.l(l::ICANON) && termios.cc[crate::termios::cc::TIME] != 0
        };
        // The clock matters only to reads with a time limit; the start of such a read is its progress.
        let now = if timed { cx.transport.monotonic() } else { 0 };
        let since = if cx.progress != 0 { cx.progress } else { now };
        let reading = self
            .terminal(index)?
            .reading(length, since, now, nonblocking);
        match reading {
            Reading::Now => {
                let count = length.min(self.buffer.len());
                let Some(Some(terminal)) = self.terminals.get_mut(index) else {
                    return Err(Failure::Errno(EIO));
                };
                let place = terminal.discipline.place();
                let count = terminal.discipline.read(&mut self.buffer[..count]);
                // What cannot be stored is not lost: the caller may touch its memory and come again.
                if let Err(failure) = cx.store(0, &self.buffer[..count]) {
                    terminal.discipline.put_back(place);
                    return Err(failure);
                }
                let arrived = cx.transport.monotonic();
                let happened = terminal.refill(&mut self.world, arrived);
                self.tell(cx, index, happened);
                // Who watches it through another handle is to know that there is less.
                cx.wake(key(index, event::READ));
                Ok(count)
            }
            Reading::Empty => Ok(0),
            _ if nonblocking => Err(Failure::Errno(EAGAIN)),
            Reading::Wait => {
                cx.progress = since;
                Err(Failure::Wait(key(index, event::READ)))
            }
            Reading::WaitUntil(deadline) => {
                cx.progress = since;
                let key = key(index, event::READ);
                self.timers.push((deadline, key));
                self.set_alarm(cx);
                Err(Failure::Wait(key))
            }
        }
    }

    fn read_master(
        &mut self,
        cx: &mut Context,
        index: usize,
        length: usize,
        nonblocking: bool,
    ) -> Answer<usize> {
        let Some(Some(terminal)) = self.terminals.get_mut(index) else {
            return Err(Failure::Errno(EIO));
        };
        let length = length.min(self.buffer.len());
        let packet = terminal.master().filter(|master| master.packet);
        if let Some(status) = packet.map(|master| master.status).filter(|&bits| bits != 0) {
            if length == 0 {
                return Ok(0);
            }
            cx.store(0, &[status])?;
            if let Line::Master(master) = &mut terminal.line {
                master.status = 0;
            }
            return Ok(1);
        }
        let head = usize::from(packet.is_some() && length > 0);
        let count = terminal.master_reads(&mut self.buffer[..length - head]);
        if count > 0 {
            // In packet mode 0 says that data follows.
            if head != 0 {
                cx.store(0, &[0])?;
            }
            cx.store(head, &self.buffer[..count])?;
            let happened = terminal.master_has(count);
            self.tell(cx, index, happened);
            return Ok(head + count);
        }
        if terminal.master().is_some_and(|master| master.slave_left) {
            return Err(Failure::Errno(EIO));
        }
        Err(if nonblocking {
            Failure::Errno(EAGAIN)
        } else {
            Failure::Wait(key(index, event::MASTER))
        })
    }

    /// Take bytes from the caller until all are taken or there is no room; `side` moves a piece and says how much of it was taken.
    fn write_pieces(
        &mut self,
        cx: &mut Context,
        index: usize,
        length: usize,
        nonblocking: bool,
        master: bool,
    ) -> Answer<usize> {
        let mut done = cx.progress as usize;
        while done < length {
            let now = if master { cx.transport.monotonic() } else { 0 };
            let piece = (length - done).min(self.buffer.len());
            let Some(Some(terminal)) = self.terminals.get_mut(index) else {
                return Err(Failure::Errno(EIO));
            };
            // Fetch no more than there is room for.
            let room = match master {
                true => piece,
                false => piece.min(terminal.discipline.write_room()),
            };
            let buffer = &mut self.buffer[..room];
            if let Err(failure) = cx.fetch(done, buffer) {
                return if done > 0 { Ok(done) } else { Err(failure) };
            }
            let (taken, happened) = if master {
                terminal.master_write(buffer, &mut self.world, now)
            } else {
                let taken = terminal.discipline.write(buffer);
                (taken, terminal.pump(&mut self.world))
            };
            self.tell(cx, index, happened);
            done += taken;
            if taken == 0 {
                if nonblocking {
                    return if done > 0 {
                        Ok(done)
                    } else {
                        Err(Failure::Errno(EAGAIN))
                    };
                }
                cx.progress = done as u64;
                cx.progress_is_result = true;
                return Err(Failure::Wait(key(
                    index,
                    if master { event::MASTER } else { event::WRITE },
                )));
            }
        }
        Ok(done)
    }

    fn write_terminal(
        &mut self,
        cx: &mut Context,
        index: usize,
        length: usize,
        nonblocking: bool,
    ) -> Answer<usize> {
        let terminal = self.terminal(index)?;
        if terminal.session != 0 && terminal.discipline.termios.l(l::TOSTOP) && cx.progress == 0 {
            let ids = self.ids(cx);
            let (terminal, world) = self.both(index)?;
            terminal.check_change(&ids, world).map_err(Failure::Errno)?;
        }
        let token = cx.request.token;
        if self.writers[index].is_some_and(|writer| writer != token) {
            return Err(if nonblocking {
                Failure::Errno(EAGAIN)
            } else {
                Failure::Wait(key(index, event::WRITE))
            });
        }
        let result = self.write_pieces(cx, index, length, nonblocking, false);
        if matches!(result, Err(Failure::Wait(_))) {
            self.writers[index] = Some(token);
        } else if self.writers[index].take().is_some() {
            // The next writer in line.
            cx.wake(key(index, event::WRITE));
        }
        result
    }

    fn hang_up(&mut self, cx: &mut Context, index: usize, leader_ended: bool) {
        if let Ok((terminal, world)) = self.both(index) {
            let happened = terminal.hang_up(leader_ended, world);
            self.tell(cx, index, happened);
        }
    }

    /// vhangup(2).
    pub(crate) fn cut(&mut self, cx: &mut Context, index: usize) {
        self.hang_up(cx, index, false);
    }

    fn line_pulse(&mut self, cx: &mut Context, line: usize, bits: u64) {
        let now = cx.transport.monotonic();
        let Ok((terminal, world)) = self.both(line) else {
            return;
        };
        let mut happened = 0;
        if bits & uart::INPUT != 0 {
            happened |= terminal.fill(world, now);
        }
        if bits & uart::DRAINED != 0 {
            happened |= terminal.pump(world);
        }
        self.tell(cx, line, happened);
    }
}

impl<W: World> Server for Tty<W> {
    type Node = Node;
    type State = Opening;

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        let (device, uid, gid, own) = match node {
            Node::Terminal(index, _) | Node::Master(index) => {
                let terminal = self.terminal(index)?;
                let Terminal {
                    device,
                    uid,
                    gid,
                    mode,
                    ..
                } = *terminal;
                (device, uid, gid, mode)
            }
            _ => (0, 0, 0, 0),
        };
        let rdev = node.rdev(device);
        Ok(Meta {
            mode: node.mode(own),
            uid,
            gid,
            ino: match node {
                Node::Root => 1,
                Node::Slaves => 2,
                _ => device::inode(rdev),
            },
            size: 0,
            rdev,
        })
    }

    /// A terminal by its own name is given to who logs in. (Its times are not kept.)
    fn change(&mut self, _: &mut Context, node: Node, change: &Change) -> Answer<()> {
        let Node::Terminal(index, Name::Own) = node else {
            return Err(Failure::Errno(EPERM));
        };
        if change.atime.is_some() || change.mtime.is_some() {
            return Err(Failure::Errno(EPERM));
        }
        let terminal = self.terminal(index)?;
        terminal.mode = change.mode.unwrap_or(terminal.mode);
        terminal.uid = change.uid.unwrap_or(terminal.uid);
        terminal.gid = change.gid.unwrap_or(terminal.gid);
        Ok(())
    }

    fn lookup(&mut self, cx: &mut Context, dir: Node, name: &[u8]) -> Answer<Node> {
        let missing = Failure::Errno(ENOENT);
        match dir {
            Node::Root => match name {
                b"pts" => Ok(Node::Slaves),
                b"ptmx" => Ok(Node::Multiplexer),
                b"console" if self.lines > 0 => Ok(Node::Terminal(0, Name::Console)),
                b"current" => {
                    let wanted = self.ids(cx).terminal;
                    self.terminals
                        .iter()
                        .flatten()
                        .find(|terminal| wanted != 0 && terminal.device == wanted)
                        .map(|terminal| Node::Terminal(terminal.index, Name::Current))
                        .ok_or(Failure::Errno(ENXIO))
                }
                _ => name
                    .strip_prefix(b"ttyS")
                    .and_then(nodes::number)
                    .filter(|&line| line < self.lines)
                    .map(|line| Node::Terminal(line, Name::Own))
                    .ok_or(missing),
            },
            Node::Slaves => match nodes::number(name) {
                // With its master closed it has no name any more.
                Some(number)
                    if matches!(self.terminals.get(self.lines + number), Some(Some(t))
                        if t.master().is_some_and(|master| master.open)) =>
                {
                    Ok(Node::Terminal(self.lines + number, Name::Own))
                }
                // Linux's devpts has one as well.
                None if name == b"ptmx" => Ok(Node::Multiplexer),
                _ => Err(missing),
            },
            _ => Err(Failure::Errno(ENOTDIR)),
        }
    }

    fn path(&mut self, _: &mut Context, node: Node, into: &mut [u8]) -> Answer<usize> {
        let text = match node {
            Node::Root => return Ok(0),
            Node::Slaves => "pts".into(),
            Node::Multiplexer | Node::Master(_) => "ptmx".into(),
            Node::Terminal(_, Name::Console) => "console".into(),
            Node::Terminal(_, Name::Current) => "tty".into(),
            Node::Terminal(index, Name::Own) if index < self.lines => format!("ttyS{index}"),
            Node::Terminal(index, Name::Own) => format!("pts/{}", index - self.lines),
        };
        put(text.as_bytes(), into)
    }

    fn stat(&mut self, _: &mut Context, node: Node) -> Answer<Stat> {
        let meta = self.meta(node)?;
        Ok(Stat {
            blksize: 1024,
            ..layout::device_stat(&meta, self.born)
        })
    }

    fn statfs(&mut self, _: &mut Context, node: Node) -> Answer<Statfs> {
        /// DEVPTS_SUPER_MAGIC, and TMPFS_MAGIC of the rest of /dev.
        const PSEUDO: i64 = 0x1cd1;
        const DEVICES: i64 = 0x0102_1994;
        let pseudo = match node {
            Node::Slaves => true,
            Node::Terminal(index, _) => index >= self.lines,
            _ => false,
        };
        Ok(Statfs {
            kind: if pseudo { PSEUDO } else { DEVICES },
            ..layout::empty_statfs()
        })
    }

    fn readdir(
        &mut self,
        _: &mut Context,
        handle: &mut Handle<Self>,
        position: u64,
        into: &mut Dirents,
    ) -> Answer<u64> {
        let mut entries: Vec<(alloc::string::String, Node)> =
            vec![(".".into(), handle.node), ("..".into(), Node::Root)];
        match handle.node {
            Node::Root => {
                for index in 0..self.lines {
                    entries.push((format!("ttyS{index}"), Node::Terminal(index, Name::Own)));
                }
                if self.lines > 0 {
                    entries.push(("console".into(), Node::Terminal(0, Name::Console)));
                }
                entries.push(("ptmx".into(), Node::Multiplexer));
                entries.push(("pts".into(), Node::Slaves));
            }
            Node::Slaves => {
                for index in self.lines..self.terminals.len() {
                    let named = |t: &Terminal| t.master().is_some_and(|master| master.open);
                    if self.terminals[index].as_ref().is_some_and(named) {
                        let number = index - self.lines;
                        entries.push((format!("{number}"), Node::Terminal(index, Name::Own)));
                    }
                }
                entries.push(("ptmx".into(), Node::Multiplexer));
            }
            _ => return Err(Failure::Errno(ENOTDIR)),
        }
        let all = entries.iter().map(|(name, node)| {
            let meta = self.meta(*node)?;
            Ok((meta.ino, meta.mode, name.as_bytes()))
        });
        into.add_from(position, all)
    }

    fn open(
        &mut self,
        cx: &mut Context,
        node: Node,
        flags: u64,
        state: &mut Opening,
    ) -> Answer<Opened<Node>> {
        let node = match node {
            Node::Multiplexer => {
                let index = self.new_master(cx)?;
                state.counted = true;
                Node::Master(index)
            }
            Node::Terminal(index, name) => {
                self.open_terminal(cx, index, name, flags, state)?;
                node
            }
            _ => {
                return Ok(Opened {
                    node,
                    kind: kind::DIRECTORY | kind::ALWAYS_READY,
                })
            }
        };
        Ok(Opened {
            node,
            kind: kind::TERMINAL,
        })
    }

    fn close(&mut self, cx: &mut Context, handle: Handle<Self>) {
        if !handle.state.counted {
            return;
        }
        let index = match handle.node {
            Node::Master(index) => {
                // As when a telephone line is cut.
                self.hang_up(cx, index, false);
                if let Ok(Terminal {
                    line: Line::Master(master),
                    ..
                }) = self.terminal(index)
                {
                    master.open = false;
                }
                index
            }
            Node::Terminal(index, _) => {
                if let Ok(terminal) = self.terminal(index) {
                    terminal.opens = terminal.opens.saturating_sub(1);
                    if terminal.opens == 0 {
                        terminal.exclusive = false;
                        if let Line::Master(master) = &mut terminal.line {
                            master.slave_left = true;
                            cx.wake(key(index, event::MASTER));
                        }
                    }
                }
                index
            }
            _ => return,
        };
        let over = self
            .terminal(index)
            .is_ok_and(|t| t.opens == 0 && t.master().is_some_and(|master| !master.open));
        if over {
            self.terminals[index] = None;
            self.writers[index] = None;
        }
    }

    fn read<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<Data<'a>> {
        let nonblocking = must_not_wait(cx, handle);
        let count = match handle.node {
            Node::Master(index) => self.read_master(cx, index, length, nonblocking)?,
            Node::Terminal(index, _) => {
                if self.dead(handle) {
                    0
                } else {
                    self.read_terminal(cx, index, length, nonblocking)?
                }
            }
            _ => return Err(Failure::Errno(EISDIR)),
        };
        Ok(Data::stored(count))
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handle: &mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<usize> {
        let nonblocking = must_not_wait(cx, handle);
        match handle.node {
            Node::Master(index) => self.write_pieces(cx, index, length, nonblocking, true),
            Node::Terminal(index, _) => {
                if self.dead(handle) {
                    return Err(Failure::Errno(EIO));
                }
                self.write_terminal(cx, index, length, nonblocking)
            }
            _ => Err(Failure::Errno(EISDIR)),
        }
    }

    fn ioctl<'a>(
        &'a mut self,
        cx: &mut Context,
        handle: &'a mut Handle<Self>,
        request: u64,
        argument: u64,
    ) -> Answer<Reply<'a>> {
        if self.dead(handle) {
            return Err(Failure::Errno(EIO));
        }
        ioctl::perform(self, cx, handle, request, argument)
    }

    fn poll(&mut self, _: &mut Context, handle: &mut Handle<Self>) -> Answer<Readiness> {
        let dead = self.dead(handle);
        let (index, master) = match handle.node {
            Node::Master(index) => (index, true),
            Node::Terminal(index, _) => (index, false),
            _ => return Err(Failure::Errno(EISDIR)),
        };
        let readable = poll::IN | poll::RDNORM;
        let writable = poll::OUT | poll::WRNORM;
        if dead {
            return Ok(Readiness {
                ready: readable | writable | poll::ERR | poll::HUP,
                keys: [0; 2],
            });
        }
        let terminal = self.terminal(index)?;
        let mut ready = 0;
        if master {
            if !terminal.discipline.output().is_empty() {
                ready |= readable;
            }
            if terminal.discipline.receivable() {
                ready |= writable;
            }
            if terminal.master().is_some_and(|master| master.status != 0) {
                ready |= readable | poll::PRI;
            }
            if terminal.master().is_some_and(|master| master.slave_left) {
                ready |= poll::HUP;
            }
            let key = key(index, event::MASTER);
            return Ok(Readiness {
                ready,
                keys: [key, key],
            });
        }
        if terminal.discipline.readable(terminal.poll_minimum()) {
            ready |= readable;
        }
        if terminal.discipline.writable() {
            ready |= writable;
        }
        Ok(Readiness {
            ready,
            keys: [key(index, event::READ), key(index, event::WRITE)],
        })
    }

    fn pulse(&mut self, cx: &mut Context, pulse: &Received) {
        let index = (pulse.badge & 0xffff) as usize;
        let line = (pulse.badge & 0xff) as usize;
        if pulse.words[0] == cairn_abi::pulse::CLOSED {
            // Nobody has the portal that the driver was given last: it ended, and its successor does not know us.
            let last = self
                .attempts
                .get(line)
                .map(|&attempt| line_badge(line, attempt));
            if last == Some(pulse.badge) {
                self.line_lost(cx, line);
            }
            return;
        }
        if pulse.words[0] != cairn_abi::pulse::NOTIFY {
            return;
        }
        match pulse.badge & !0xffff {
            BADGE_LINE => self.line_pulse(cx, line, pulse.words[1]),
            BADGE_LEADER => self.hang_up(cx, index, true),
            _ => {}
        }
    }

    fn cancelled(&mut self, cx: &mut Context) {
        let token = cx.request.token;
        if let Some(index) = self.writers.iter().position(|&w| w == Some(token)) {
            self.writers[index] = None;
            cx.wake(key(index, event::WRITE));
        }
    }

    fn tick(&mut self, cx: &mut Context) {
        let now = cx.transport.monotonic();
        self.timers.retain(|&(time, key)| {
            if time <= now {
                cx.wake(key);
            }
            time > now
        });
        // Whoever waits runs again and registers anew if it must wait on.
        for index in core::mem::take(&mut self.draining) {
            cx.wake(key(index, event::DRAINED));
        }
        for line in core::mem::take(&mut self.lost) {
            self.attach(cx, line);
        }
        self.set_alarm(cx);
    }
}

impl<W: World> Tty<W> {
    /// At start-up: attach to every line's driver and set it up.
    pub fn start(&mut self, cx: &mut Context) {
        self.born = (cx.now() / 1_000_000_000) as i64;
        for line in 0..self.lines {
            self.attach(cx, line);
        }
    }

    /// Make the line's driver tell of what happens; if it does not answer, again later.
    fn attach(&mut self, cx: &mut Context, line: usize) {
        let Some(attempt) = self.attempts.get_mut(line) else {
            return;
        };
        *attempt = attempt.wrapping_add(1);
        match self.world.attach(line, line_badge(line, *attempt)) {
            Attached::Done => self.line_pulse(cx, line, uart::INPUT | uart::DRAINED),
            Attached::Absent => {}
            Attached::Gone => self.line_lost(cx, line),
        }
    }

    pub fn default_size(&self) -> Size {
        self.size
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
