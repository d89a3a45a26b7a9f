//! What the terminal server needs of others: serial line drivers and the process manager. [`crate::outside`] is the real thing.

use crate::termios::Termios;

/// Signals that the terminal sends beside those of characters (Linux's numbers).
pub const SIGHUP: u8 = 1;
pub const SIGCONT: u8 = 18;
pub const SIGTTIN: u8 = 21;
pub const SIGTTOU: u8 = 22;
pub const SIGWINCH: u8 = 28;

/// A process as job control sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    pub pid: u32,
    pub group: u32,
    pub session: u32,
    /// Device number of its controlling terminal, 0 without one.
    pub terminal: u64,
    /// SIGTTIN would have no effect.
    pub ignores_ttin: bool,
    pub ignores_ttou: bool,
    /// Nobody could ever continue a stopped process of its group.
    pub orphaned: bool,
    pub leader: bool,
}

/// What a serial line delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    pub count: usize,
    pub saw_break: bool,
}

/// What became of an attempt to attach to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    Done,
    /// There is no such device.
    Absent,
    /// Its driver does not answer (yet).
    Gone,
}

/// The line's driver does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineGone;

pub trait World {
    /// Ask the line's driver to tell of input and room by pulses with this badge.
    fn attach(&mut self, line: usize, badge: u64) -> Attached;
    /// Bytes that the line has received, up to `into.len()`.
    fn receive(&mut self, line: usize, into: &mut [u8]) -> Result<Arrived, LineGone>;
    /// How many of the bytes the line took; 0 if it is full (it will say when it is not).
    fn send(&mut self, line: usize, bytes: &[u8]) -> Result<usize, LineGone>;
    /// Bytes that have not left yet.
    fn unsent(&mut self, line: usize) -> usize;
    /// Throw away: bit 0 received, bit 1 unsent.
    fn flush(&mut self, line: usize, which: u64);
    /// Speed and character format. False if the line cannot do that.
    fn configure(&mut self, line: usize, termios: &Termios) -> bool;

    /// The process that lives in this domain.
    fn ids(&mut self, domain: u32) -> Option<Ids>;
    /// The session of a process.
    fn session_of(&mut self, pid: u32) -> Option<u32>;
    /// Signal a process group (0: only look); false if there is none.
    fn signal(&mut self, group: u32, signal: u8) -> bool;
    /// The session gets `device` as its controlling terminal (0: loses it). The end of its leader is told to terminal `index`.
    fn set_terminal(&mut self, session: u32, device: u64, index: usize) -> Result<(), i64>;
    /// This member of a session has no terminal any more.
    fn leave_terminal(&mut self, member: &Ids) -> Result<(), i64>;
    /// For ps: the foreground group of the session's terminal.
    fn note_foreground(&mut self, session: u32, group: u32);
}
