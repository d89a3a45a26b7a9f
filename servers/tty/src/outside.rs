//! The world as portals: serial line drivers and the process manager.

use crate::server::BADGE_LEADER;
use crate::termios::{c, Termios};
use crate::world::{Arrived, Attached, Ids, LineGone, World};
use alloc::vec::Vec;
use cairn_abi::service::current;
use cairn_idl::errno::{EIO, ENXIO};
use cairn_idl::{proc, uart};
use cairn_rt::{time, Message, Portal, Receiver};

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

    fn line(&self, line: usize, message: Message) -> Result<[u64; 8], LineGone> {
        let portal = self.lines.get(line).ok_or(LineGone)?;
        match portal.call(message) {
            Ok(words) if (words[0] as i64) >= 0 => Ok(words),
            _ => Err(LineGone),
        }
    }

    /// Answer of the process manager: the result word or an error number.
    fn proc(&self, message: Message) -> Result<[u64; 8], i64> {
        let words = self.proc.ok_or(EIO)?.call(message).map_err(|_| EIO)?;
        match words[0] as i64 {
            error if error < 0 => Err(-error),
            _ => Ok(words),
        }
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
        let answer = driver.call(Message::new(&[uart::ATTACH]).portal(portal));
        // The driver has its own slot for it now.
        portal.close();
        match answer.map(|words| words[0] as i64) {
            Ok(0) => Attached::Done,
            Ok(error) if error == -ENXIO => Attached::Absent,
            _ => Attached::Gone,
        }
    }

    fn receive(&mut self, line: usize, into: &mut [u8]) -> Result<Arrived, LineGone> {
        let words = self.line(line, Message::new(&[uart::READ]).input(into))?;
        Ok(Arrived {
            count: (words[0] as usize).min(into.len()),
            saw_break: words[1] & 2 != 0,
        })
    }

    fn send(&mut self, line: usize, bytes: &[u8]) -> Result<usize, LineGone> {
        let words = self.line(line, Message::new(&[uart::WRITE]).out(bytes))?;
        Ok((words[0] as usize).min(bytes.len()))
    }

    fn unsent(&mut self, line: usize) -> usize {
        self.line(line, Message::new(&[uart::UNSENT]))
            .map_or(0, |words| words[0] as usize)
    }

    fn flush(&mut self, line: usize, which: u64) {
        let _ = self.line(line, Message::new(&[uart::FLUSH, which]));
    }

    fn configure(&mut self, line: usize, termios: &Termios) -> bool {
        let bits = 5 + ((termios.cflag & c::CSIZE) >> 4) as u64;
        let two_stop = (termios.cflag & c::CSTOPB != 0) as u64;
        let parity = match (
            termios.cflag & c::PARENB != 0,
            termios.cflag & c::PARODD != 0,
        ) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        let words = [
            uart::CONFIGURE,
            termios.speed as u64,
            bits,
            two_stop,
            parity,
        ];
        self.line(line, Message::new(&words)).is_ok()
    }

    fn ids(&mut self, domain: u32) -> Option<Ids> {
        let words = self
            .proc(Message::new(&[proc::IDS_OF, domain as u64]))
            .ok()?;
        let bits = words[4];
        Some(Ids {
            pid: words[0] as u32,
            group: words[1] as u32,
            session: words[2] as u32,
            terminal: words[3],
            ignores_ttin: bits & 1 != 0,
            ignores_ttou: bits & 2 != 0,
            orphaned: bits & 4 != 0,
            leader: bits & 8 != 0,
        })
    }

    fn session_of(&mut self, pid: u32) -> Option<u32> {
        self.proc(Message::new(&[proc::IDS, pid as u64]))
            .ok()
            .map(|words| words[3] as u32)
    }

    fn signal(&mut self, group: u32, signal: u8) -> bool {
        self.proc(Message::new(&[
            proc::SIGNAL_GROUP,
            group as u64,
            signal as u64,
        ]))
        .is_ok()
    }

    fn set_terminal(&mut self, session: u32, device: u64, index: usize) -> Result<(), i64> {
        let mut message = Message::new(&[proc::SET_TERMINAL, session as u64, device]);
        if device != 0 {
            message = message.portal(self.leader_portal(index).ok_or(EIO)?);
        }
        self.proc(message).map(|_| ())
    }

    fn note_foreground(&mut self, session: u32, group: u32) {
        let words = [proc::NOTE_FOREGROUND, session as u64, group as u64];
        let _ = self.proc(Message::new(&words));
    }
}
