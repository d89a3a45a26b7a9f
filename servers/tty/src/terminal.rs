//! One terminal: its line discipline, its line, and job control.
//!
//! A terminal's line is a serial line or the master side of a pseudo-terminal. A master reads what the discipline puts out and writes what
//! it receives, so nothing lies between the two.
//!
//! `generation` counts hang-ups: a handle opened before the last one is dead (reads end, writes fail), new ones work.

use crate::discipline::{Discipline, Events};
use crate::termios::{cc, i, l, Locked, Termios};
use crate::world::{Ids, World, SIGCONT, SIGHUP, SIGTTIN, SIGTTOU, SIGWINCH};
use alloc::vec::Vec;
use cairn_idl::errno::{EINVAL, EIO, ENOTTY, EPERM, ERESTARTSYS, ESRCH};

/// Most bytes taken from or given to a serial line at once (what its driver moves in one call).
pub const CHUNK: usize = 4096;

/// What became possible: bits of a mask.
pub mod event {
    /// There is something to read, or reading ended.
    pub const READ: u8 = 1;
    /// There is room to write.
    pub const WRITE: u8 = 2;
    /// All output is on the line.
    pub const DRAINED: u8 = 4;
    /// For the master side: output to read, room for input.
    pub const MASTER: u8 = 8;
    pub const ALL: u8 = 15;
}

/// `struct winsize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub rows: u16,
    pub columns: u16,
    pub width: u16,
    pub height: u16,
}

/// What is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Serial(usize),
    Master(Master),
}

/// State of a pseudo-terminal's pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Master {
    pub open: bool,
    /// The slave may not be opened yet (unlockpt).
    pub locked: bool,
    /// The slave has been open and no longer is: the master's reads end.
    pub slave_left: bool,
    /// The user who opened it. (The slave may be given to another.)
    pub payer: u32,
    /// Each read begins with a byte that says what happened (TIOCPKT), and what did since the last one: bits of [`packet`].
    pub packet: bool,
    pub status: u8,
}

/// What a master in packet mode is told (ioctl_tty(2)).
pub mod packet {
    pub const FLUSHREAD: u8 = 1;
    pub const FLUSHWRITE: u8 = 2;
    pub const STOP: u8 = 4;
    pub const START: u8 = 8;
    pub const NOSTOP: u8 = 16;
    pub const DOSTOP: u8 = 32;
    pub const IOCTL: u8 = 64;
}

pub struct Terminal {
    pub discipline: Discipline,
    /// Index in the server's table, which the world knows it by.
    pub index: usize,
    pub device: u64,
    pub line: Line,
    pub size: Size,
    /// The session that this is the controlling terminal of, and its foreground group; 0 without.
    pub session: u32,
    pub foreground: u32,
    pub exclusive: bool,
    /// What of its settings stays as it is (TIOCSLCKTRMIOS).
    pub locked: Locked,
    pub generation: u32,
    /// Open handles (not of the master).
    pub opens: usize,
    /// Whose it is, and its permissions: login(1), sshd and mesg(1) change them.
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    /// Monotonic ns of the last input, for VTIME.
    pub last_input: u64,
    /// Received by the driver, not yet taken by the discipline.
    pending: Vec<u8>,
    /// The driver may have more than was fetched.
    more: bool,
}

/// When a read gets an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Now,
    /// Nothing to read, and that is the answer.
    Empty,
    Wait,
    /// Wait, but look again at this time.
    WaitUntil(u64),
}

impl Terminal {
    pub fn new(index: usize, device: u64, line: Line, termios: Termios, size: Size) -> Terminal {
        let mut discipline = Discipline::new(termios);
        let pseudo = matches!(line, Line::Master(_));
        discipline.keeps_output = pseudo;
        Terminal {
            discipline,
            index,
            device,
            line,
            size,
            session: 0,
            foreground: 0,
            exclusive: false,
            locked: Locked::default(),
            generation: 1,
            opens: 0,
            uid: 0,
            gid: 0,
            mode: if pseudo { 0o620 } else { 0o600 },
            last_input: 0,
            pending: Vec::new(),
            more: false,
        }
    }

    fn serial(&self) -> Option<usize> {
        match self.line {
            Line::Serial(line) => Some(line),
            Line::Master(_) => None,
        }
    }

    pub fn master(&self) -> Option<Master> {
        match self.line {
            Line::Serial(_) => None,
            Line::Master(master) => Some(master),
        }
    }

    // ---- bytes

    /// The driver has input: fetch it as far as the discipline takes it.
    pub fn fill(&mut self, world: &mut dyn World, now: u64) -> u8 {
        self.more = true;
        self.refill(world, now)
    }

    /// After a read made room.
    pub fn refill(&mut self, world: &mut dyn World, now: u64) -> u8 {
        let Some(line) = self.serial() else {
            return event::MASTER;
        };
        let mut happened = 0;
        loop {
            if !self.pending.is_empty() {
                let pending = core::mem::take(&mut self.pending);
                let taken = self.take(&pending, world, now, &mut happened);
                self.pending = pending;
                self.pending.drain(..taken);
                if !self.pending.is_empty() {
                    break;
                }
            }
            if !self.more {
                break;
            }
            self.pending.resize(CHUNK, 0);
            let arrived = world.receive(line, &mut self.pending).unwrap_or_default();
            self.pending.truncate(arrived.count);
            self.more = arrived.count == CHUNK;
            if arrived.saw_break {
                let mut events = Events::default();
                self.discipline.receive_break(&mut events);
                happened |= event::READ;
                self.act(&events, world);
            }
        }
        happened
    }

    /// A master in packet mode is to hear this; what it heard before and is no longer so is forgotten.
    fn tell_master(&mut self, bits: u8, not: u8) -> u8 {
        match &mut self.line {
            Line::Master(master) if master.packet && bits != 0 => {
                master.status = master.status & !not | bits;
                event::MASTER
            }
            _ => 0,
        }
    }

    fn tell_stopped(&mut self, before: bool) -> u8 {
        match (before, self.discipline.is_stopped()) {
            (false, true) => self.tell_master(packet::STOP, packet::START),
            (true, false) => self.tell_master(packet::START, packet::STOP),
            _ => 0,
        }
    }

    /// TCXONC with TCOOFF or TCOON.
    pub fn stop_output(&mut self, stop: bool, world: &mut dyn World) -> u8 {
        let before = self.discipline.is_stopped();
        self.discipline.set_stopped(stop);
        self.tell_stopped(before) | self.pump(world)
    }

    /// TCXONC with TCIOFF or TCION: the other side is asked to stop or to go on, by the character for it.
    pub fn stop_input(&mut self, stop: bool, world: &mut dyn World) -> u8 {
        let termios = &self.discipline.termios;
        let byte = termios.cc[if stop { cc::STOP } else { cc::START }];
        // (A serial line's other end did not ask for that with IXOFF clear.)
        if byte == 0 || self.serial().is_some() {
            return 0;
        }
        self.discipline.put_out(byte);
        self.pump(world)
    }

    /// TIOCSTI: a byte as if it had arrived.
    pub fn type_in(&mut self, byte: u8, world: &mut dyn World, now: u64) -> u8 {
        let mut happened = 0;
        self.take(&[byte], world, now, &mut happened);
        happened
    }

    /// Bytes arrived from the line; how many were taken.
    fn take(&mut self, bytes: &[u8], world: &mut dyn World, now: u64, happened: &mut u8) -> usize {
        let mut events = Events::default();
        let before = self.discipline.is_stopped();
        let taken = self.discipline.receive(bytes, &mut events);
        *happened |= self.tell_stopped(before);
        if events.flush {
            *happened |= self.tell_master(packet::FLUSHREAD | packet::FLUSHWRITE, 0);
        }
        // Telling of nothing would wake whoever waits for it, for ever.
        if taken == 0 {
            return 0;
        }
        self.last_input = now;
        *happened |= event::READ;
        self.act(&events, world);
        // Also the echo, and what a character has started again.
        *happened |= self.pump(world);
        taken
    }

    /// The master writes.
    pub fn master_write(&mut self, bytes: &[u8], world: &mut dyn World, now: u64) -> (usize, u8) {
        let mut happened = 0;
        let taken = self.take(bytes, world, now, &mut happened);
        (taken, happened)
    }

    /// What the discipline has put out, for the master; it has it when that says so ([`Terminal::master_has`]).
    pub fn master_reads(&self, into: &mut [u8]) -> usize {
        self.discipline.copy_output(into)
    }

    pub fn master_has(&mut self, count: usize) -> u8 {
        self.discipline.sent(count);
        self.room_events()
    }

    fn act(&mut self, events: &Events, world: &mut dyn World) {
        if events.flush {
            if let Some(line) = self.serial() {
                world.flush(line, 2);
            }
        }
        if self.foreground != 0 {
            for signal in 1..32 {
                if events.signals & 1 << signal != 0 {
                    world.signal(self.foreground, signal);
                }
            }
        }
    }

    /// Give output to the line as far as it takes it.
    pub fn pump(&mut self, world: &mut dyn World) -> u8 {
        let Some(line) = self.serial() else {
            return self.room_events() | event::MASTER;
        };
        loop {
            let bytes = self.discipline.output();
            if bytes.is_empty() {
                break;
            }
            let length = bytes.len().min(CHUNK);
            match world.send(line, &bytes[..length]) {
                Ok(0) => break,
                Ok(count) => self.discipline.sent(count),
                // Nobody will ever take it: writers must not wait for ever.
                Err(_) => self.discipline.flush_output(),
            }
        }
        self.room_events()
    }

    fn room_events(&self) -> u8 {
        let mut happened = 0;
        if self.discipline.writable() {
            happened |= event::WRITE;
        }
        if self.discipline.unsent() == 0 {
            happened |= event::DRAINED;
        }
        happened
    }

    /// Output has left: queue, driver and chip are empty (for a pseudo-terminal: the master has read it).
    pub fn drained(&mut self, world: &mut dyn World) -> bool {
        self.discipline.unsent() == 0 && self.serial().is_none_or(|line| world.unsent(line) == 0)
    }

    /// TCFLSH: bit 0 input, bit 1 output.
    pub fn flush(&mut self, which: u64, world: &mut dyn World) -> u8 {
        if which & 1 != 0 {
            self.discipline.flush_input();
            self.pending.clear();
        }
        if which & 2 != 0 {
            self.discipline.flush_output();
        }
        if let Some(line) = self.serial() {
            world.flush(line, which);
        }
        self.tell_master(which as u8 & 3, 0);
        self.room_events() | event::MASTER
    }

    pub fn set_termios(&mut self, new: Termios, world: &mut dyn World) -> u8 {
        let old = self.discipline.termios;
        let new = self.locked.keep(&old, &new);
        if let Some(line) = self.serial() {
            if (old.cflag, old.speed) != (new.cflag, new.speed) {
                // A line that cannot keeps its speed; programs see what they asked for, as Linux's do with most drivers.
                world.configure(line, &new);
            }
        }
        let before = self.discipline.is_stopped();
        self.discipline.set_termios(new);
        self.tell_stopped(before);
        let flow = |termios: &Termios| {
            termios.i(i::IXON) && termios.cc[cc::STOP] == 0o23 && termios.cc[cc::START] == 0o21
        };
        match (flow(&old), flow(&new)) {
            (true, false) => self.tell_master(packet::NOSTOP, packet::DOSTOP),
            (false, true) => self.tell_master(packet::DOSTOP, packet::NOSTOP),
            _ => 0,
        };
        if old.l(l::EXTPROC) || new.l(l::EXTPROC) {
            self.tell_master(packet::IOCTL, 0);
        }
        self.pump(world) | event::READ
    }

    /// What a read of `length` bytes that began at `since` gets now (POSIX's cases A to D in raw mode).
    pub fn reading(&self, length: usize, since: u64, now: u64, nonblocking: bool) -> Reading {
        let termios = &self.discipline.termios;
        if termios.l(l::ICANON) {
            return if self.discipline.readable(1) {
                Reading::Now
            } else {
                Reading::Wait
            };
        }
        let minimum = termios.cc[cc::MIN] as usize;
        let time = termios.cc[cc::TIME] as u64 * 100_000_000;
        let available = self.discipline.waiting();
        if available >= minimum.min(length).max(1) || (nonblocking && available > 0) {
            return Reading::Now;
        }
        let deadline = match (minimum, time) {
            (0, 0) => return Reading::Empty,
            (_, 0) => return Reading::Wait,
            (0, _) => since + time,
            // The time between bytes counts once there is one.
            _ if available == 0 => return Reading::Wait,
            _ => since.max(self.last_input) + time,
        };
        if now < deadline {
            Reading::WaitUntil(deadline)
        } else if available > 0 {
            Reading::Now
        } else {
            Reading::Empty
        }
    }

    /// Bytes that make a poll say "readable".
    pub fn poll_minimum(&self) -> usize {
        let chars = &self.discipline.termios.cc;
        if chars[cc::TIME] == 0 {
            chars[cc::MIN] as usize
        } else {
            1
        }
    }

    // ---- job control

    /// Is this the caller's controlling terminal?
    pub fn controls(&self, ids: &Ids) -> bool {
        self.session != 0 && ids.session == self.session && ids.terminal == self.device
    }

    fn in_background(&self, ids: &Ids) -> bool {
        self.controls(ids) && self.foreground != 0 && ids.group != self.foreground
    }

    /// May the caller read?
    pub fn check_read(&self, ids: &Ids, world: &mut dyn World) -> Result<(), i64> {
        if !self.in_background(ids) {
            return Ok(());
        }
        if ids.ignores_ttin || ids.orphaned {
            return Err(EIO);
        }
        world.signal(ids.group, SIGTTIN);
        Err(ERESTARTSYS)
    }

    /// May the caller change settings, or write where TOSTOP is set?
    pub fn check_change(&self, ids: &Ids, world: &mut dyn World) -> Result<(), i64> {
        if !self.in_background(ids) || ids.ignores_ttou {
            return Ok(());
        }
        if ids.orphaned {
            return Err(EIO);
        }
        world.signal(ids.group, SIGTTOU);
        Err(ERESTARTSYS)
    }

    /// A session leader without a terminal takes this one (open, or TIOCSCTTY with `steal` for root).
    pub fn acquire(&mut self, ids: &Ids, steal: bool, world: &mut dyn World) -> Result<(), i64> {
        if ids.leader && self.session == ids.session && self.session != 0 {
            return Ok(());
        }
        if !ids.leader || ids.terminal != 0 {
            return Err(EPERM);
        }
        if self.session != 0 {
            if !steal {
                return Err(EPERM);
            }
            let _ = world.set_terminal(self.session, 0, self.index);
            self.session = 0;
        }
        world.set_terminal(ids.session, self.device, self.index)?;
        self.session = ids.session;
        self.foreground = ids.group;
        world.note_foreground(self.session, self.foreground);
        Ok(())
    }

    /// TIOCNOTTY: the session leader gives it up for the session, another member for itself.
    pub fn release(&mut self, ids: &Ids, world: &mut dyn World) -> Result<(), i64> {
        if !self.controls(ids) {
            return Err(ENOTTY);
        }
        if !ids.leader {
            return world.leave_terminal(ids);
        }
        if self.foreground != 0 {
            world.signal(self.foreground, SIGHUP);
            world.signal(self.foreground, SIGCONT);
        }
        self.leave_session(world);
        Ok(())
    }

    fn leave_session(&mut self, world: &mut dyn World) {
        if self.session != 0 {
            let _ = world.set_terminal(self.session, 0, self.index);
        }
        self.session = 0;
        self.foreground = 0;
    }

    /// The line was cut, or the session's leader ended: whoever used the terminal is told, and open handles are dead.
    /// A pseudo-terminal goes on without the session: its master is there, and opens it for others.
    pub fn hang_up(&mut self, leader_ended: bool, world: &mut dyn World) -> u8 {
        let (session, foreground) = (self.session, self.foreground);
        if leader_ended && self.master().is_some_and(|master| master.open) {
            if foreground != 0 {
                world.signal(foreground, SIGHUP);
            }
            self.leave_session(world);
            return 0;
        }
        if !leader_ended && session != 0 && session != foreground {
            world.signal(session, SIGHUP);
            world.signal(session, SIGCONT);
        }
        if foreground != 0 {
            world.signal(foreground, SIGHUP);
            world.signal(foreground, SIGCONT);
        }
        self.leave_session(world);
        self.generation += 1;
        self.discipline.flush_input();
        self.discipline.flush_output();
        event::ALL
    }

    /// TIOCSPGRP.
    pub fn set_foreground(
        &mut self,
        ids: &Ids,
        group: i32,
        world: &mut dyn World,
    ) -> Result<(), i64> {
        self.check_change(ids, world)?;
        if !self.controls(ids) {
            return Err(ENOTTY);
        }
        let group = u32::try_from(group).map_err(|_| EINVAL)?;
        if group == 0 || !world.signal(group, 0) {
            return Err(ESRCH);
        }
        // The group's leader may be gone; then its members' session is not asked.
        if world
            .session_of(group)
            .is_some_and(|session| session != self.session)
        {
            return Err(EPERM);
        }
        self.foreground = group;
        world.note_foreground(self.session, group);
        Ok(())
    }

    /// TIOCSWINSZ.
    pub fn set_size(&mut self, size: Size, world: &mut dyn World) {
        if size != self.size {
            self.size = size;
            if self.foreground != 0 {
                world.signal(self.foreground, SIGWINCH);
            }
        }
    }
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
pub(crate) mod tests;
