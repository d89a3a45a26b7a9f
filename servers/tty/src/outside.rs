//! The world as portals: serial line drivers and the process manager.

use crate::server::BADGE_LEADER;
use crate::termios::{c, Termios};
use crate::world::{Arrived, Attached, Ids, LineGone, World};
use alloc::vec::Vec;
use cairn_abi::service::current;
use cairn_idl::errno::{EIO, ENXIO};
use cairn_idl::proc;
use cairn_idl::uart::{self, Parity};
use cairn_idl::wire::{Errno, Failure};
use cairn_rt::{time, Portal, Receiver};

/// How long a driver may take to answer to ATTACH (ns).
const ATTACH_TIME: u64 = 500_000_000;

pub struct Outside {
    receiver: Receiver,
    proc: Option<Portal>,
    lines: Vec<Portal>,
    /// Portals by which session leaders' ends are told, by terminal.
    leaders: Vec<Option<Portal>>,
}

impl Outside {
    pub fn new(receiver: Receiver, proc: Option<Portal>, lines: Vec<Portal>) -> Outside {
        Outside {
            receiver,
            proc,
            lines,
            leaders: Vec::new(),
        }
    }

    fn line(&self, line: usize) -> Result<uart::Client<'_, Portal>, LineGone> {
        self.lines.get(line).map(uart::Client).ok_or(LineGone)
    }

    fn proc(&self) -> Result<proc::Client<'_, Portal>, Errno> {
        self.proc.as_ref().map(proc::Client).ok_or(EIO)
    }

    fn leader_portal(&mut self, index: usize) -> Option<Portal> {
        if self.leaders.len() <= index {
            self.leaders.resize(index + 1, None);
        }
        if self.leaders[index].is_none() {
            self.leaders[index] = self.receiver.make_portal(BADGE_LEADER + index as u64).ok();
        }
        self.leaders[index]
    }
}

impl World for Outside {
    fn attach(&mut self, line: usize, badge: u64) -> Attached {
        let Some(driver) = self.lines.get(line) else {
            return Attached::Absent;
        };
        let Ok(portal) = self.receiver.make_portal(badge) else {
            return Attached::Gone;
        };
        // A driver that is being started again answers soon or is tried again; the other terminals must not wait for it.
        let deadline = time::monotonic() + ATTACH_TIME;
        let _ = Portal::CURRENT.service(current::DEADLINE, &[deadline]);
        let answer = uart::Client(driver).attach(portal.0);
        // The driver has its own slot for it now.
        portal.close();
        match answer {
            Ok(()) => Attached::Done,
            Err(Failure::Refused(ENXIO)) => Attached::Absent,
            Err(_) => Attached::Gone,
        }
    }

    fn receive(&mut self, line: usize, into: &mut [u8]) -> Result<Arrived, LineGone> {
        let (seen, count) = self.line(line)?.read(into).map_err(|_| LineGone)?;
        Ok(Arrived {
            count,
            saw_break: seen & uart::seen::BREAK != 0,
        })
    }

    fn send(&mut self, line: usize, bytes: &[u8]) -> Result<usize, LineGone> {
        let taken = self.line(line)?.write(bytes).map_err(|_| LineGone)?;
        Ok((taken as usize).min(bytes.len()))
    }

    fn unsent(&mut self, line: usize) -> usize {
        self.line(line)
            .ok()
            .and_then(|line| line.unsent().ok())
            .map_or(0, |unsent| unsent as usize)
    }

    fn flush(&mut self, line: usize, which: u64) {
        if let Ok(line) = self.line(line) {
            let _ = line.flush(which);
        }
    }

    fn configure(&mut self, line: usize, termios: &Termios) -> bool {
        let bits = 5 + ((termios.cflag & c::CSIZE) >> 4) as u64;
        let two_stop = termios.cflag & c::CSTOPB != 0;
        let parity = match (
            termios.cflag & c::PARENB != 0,
            termios.cflag & c::PARODD != 0,
        ) {
            (false, _) => Parity::None,
            (true, true) => Parity::Odd,
            (true, false) => Parity::Even,
        };
        self.line(line).is_ok_and(|line| {
            line.configure(termios.speed as u64, bits, two_stop, parity)
                .is_ok()
        })
    }

    fn ids(&mut self, domain: u32) -> Option<Ids> {
        let ids = self.proc().ok()?.ids_of(domain, 0, &mut []).ok()?;
        Some(Ids {
            pid: ids.pid as u32,
            group: ids.pgid as u32,
            session: ids.sid as u32,
            terminal: ids.terminal,
            ignores_ttin: ids.bits & 1 != 0,
            ignores_ttou: ids.bits & 2 != 0,
            orphaned: ids.bits & 4 != 0,
            leader: ids.bits & 8 != 0,
        })
    }

    fn session_of(&mut self, pid: u32) -> Option<u32> {
        let ids = self.proc().ok()?.ids(pid as u64).ok()?;
        Some(ids.sid as u32)
    }

    fn signal(&mut self, group: u32, signal: u8) -> bool {
        self.proc()
            .is_ok_and(|proc| proc.signal_group(group as u64, signal as u64).is_ok())
    }

    fn set_terminal(&mut self, session: u32, device: u64, index: usize) -> Result<(), Errno> {
        let watcher = match device {
            0 => None,
            _ => Some(self.leader_portal(index).ok_or(EIO)?.0),
        };
        self.proc()?
            .set_terminal(session as u64, device, 0, watcher)
            .map_err(Failure::errno)
    }

    fn leave_terminal(&mut self, member: &Ids) -> Result<(), Errno> {
        self.proc()?
            .set_terminal(member.session.into(), 0, member.pid.into(), None)
            .map_err(Failure::errno)
    }

    fn note_foreground(&mut self, session: u32, group: u32) {
        if let Ok(proc) = self.proc() {
            let _ = proc.note_foreground(session as u64, group as u64);
        }
    }
}
