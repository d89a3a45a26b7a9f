//! Signal numbers, sets and the queue of pending signals. Linux's numbers; bit n−1 of a set stands for signal n.

use alloc::collections::VecDeque;

pub const SIGHUP: u32 = 1;
pub const SIGINT: u32 = 2;
pub const SIGILL: u32 = 4;
pub const SIGTRAP: u32 = 5;
pub const SIGBUS: u32 = 7;
pub const SIGFPE: u32 = 8;
pub const SIGKILL: u32 = 9;
pub const SIGSEGV: u32 = 11;
pub const SIGALRM: u32 = 14;
pub const SIGXCPU: u32 = 24;
pub const SIGVTALRM: u32 = 26;
pub const SIGPROF: u32 = 27;
pub const SIGCHLD: u32 = 17;
pub const SIGCONT: u32 = 18;
pub const SIGSTOP: u32 = 19;
pub const SIGTSTP: u32 = 20;
pub const SIGTTIN: u32 = 21;
pub const SIGTTOU: u32 = 22;
pub const SIGURG: u32 = 23;
pub const SIGWINCH: u32 = 28;
pub const SIGIO: u32 = 29;
pub const SIGSYS: u32 = 31;
/// Signals from here to [`LAST`] queue up.
pub const FIRST_REALTIME: u32 = 32;
pub const LAST: u32 = 64;

/// si_code of signals made here.
pub mod code {
    pub const KERNEL: i32 = 0x80;
    pub const TIMER: i32 = -2;
    pub const EXITED: i32 = 1;
    pub const KILLED: i32 = 2;
    pub const DUMPED: i32 = 3;
    pub const TRAPPED: i32 = 4;
    pub const STOPPED: i32 = 5;
    pub const CONTINUED: i32 = 6;
}

pub const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Signals whose default action is to stop.
pub const STOPS: u64 = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
/// Signals that do nothing by default (the continuing of SIGCONT is not a default action but done on sending).
pub const IGNORED_BY_DEFAULT: u64 = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGURG) | bit(SIGWINCH);
/// Neither caught nor ignored nor blocked.
pub const UNSTOPPABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);
/// Taken before all others, as they belong to the instruction that was running.
const SYNCHRONOUS: u64 =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGFPE) | bit(SIGSYS);

/// Real-time signals that may wait in one queue.
pub const QUEUE_MOST: usize = 128;

/// A signal and what goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pub signal: u32,
    pub code: i32,
    /// si_pid | si_uid << 32 (timers: id; overruns are counted when the signal is taken).
    pub sender: u64,
    /// si_status or si_value.
    pub value: u64,
}

impl Info {
    /// Of a file that is ready for something (POLL_IN to POLL_HUP): `sender` is si_band.
    pub fn is_of_a_file(&self) -> bool {
        self.signal != SIGCHLD && (1..=6).contains(&self.code)
    }
}

/// The queue has no room for one more signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Signals that wait to be taken.
#[derive(Debug, Default)]
pub struct Queue {
    pending: u64,
    entries: VecDeque<Info>,
}

impl Queue {
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// A standard signal that is pending already keeps its first information. (Those of POSIX timers are kept each.)
    pub fn push(&mut self, info: Info) -> Result<(), Full> {
        let each = info.signal >= FIRST_REALTIME || info.code == code::TIMER;
        let same = |e: &Info| e.signal == info.signal && e.code != code::TIMER;
        if !each && self.pending & bit(info.signal) != 0 && self.entries.iter().any(same) {
            return Ok(());
        }
        if each && self.entries.len() >= QUEUE_MOST {
            return Err(Full);
        }
        self.add(info)
    }

    /// A POSIX timer's own signal: there is one of each timer at most.
    pub fn push_of_timer(&mut self, info: Info) -> Result<(), Full> {
        if info.code == code::TIMER {
            self.add(info)
        } else {
            self.push(info)
        }
    }

    fn add(&mut self, info: Info) -> Result<(), Full> {
        self.entries.try_reserve(1).map_err(|_| Full)?;
        self.pending |= bit(info.signal);
        self.entries.push_back(info);
        Ok(())
    }

    /// The most important signal: synchronous ones first, then by number, equal ones in the order of sending.
    pub fn take(&mut self) -> Option<Info> {
        if self.pending == 0 {
            return None;
        }
        let first = match self.pending & SYNCHRONOUS {
            0 => self.pending,
            some => some,
        };
        let signal = first.trailing_zeros() + 1;
        let at = self.entries.iter().position(|e| e.signal == signal)?;
        let info = self.entries.remove(at)?;
        if !self.entries.iter().any(|e| e.signal == signal) {
            self.pending &= !bit(signal);
        }
        Some(info)
    }

    /// Forget all signals of a set.
    pub fn discard(&mut self, set: u64) {
        if self.pending & set != 0 {
            self.pending &= !set;
            self.entries.retain(|e| set & bit(e.signal) == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(signal: u32, value: u64) -> Info {
        Info {
            signal,
            value,
            ..Info::default()
        }
    }

    #[test]
    fn standard_signals_coalesce_and_keep_the_first() {
        let mut queue = Queue::default();
        queue.push(info(10, 1)).unwrap();
        queue.push(info(10, 2)).unwrap();
        assert_eq!(queue.take(), Some(info(10, 1)));
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn realtime_signals_queue_in_order_up_to_a_bound() {
        let mut queue = Queue::default();
        for n in 0..QUEUE_MOST as u64 {
            queue.push(info(40, n)).unwrap();
        }
        assert_eq!(queue.push(info(40, 9)), Err(Full));
        queue.push(info(2, 0)).unwrap();
        assert_eq!(queue.take(), Some(info(2, 0)));
        for n in 0..QUEUE_MOST as u64 {
            assert_eq!(queue.take(), Some(info(40, n)));
        }
        assert_eq!(queue.pending(), 0);
    }

    #[test]
    fn timers_have_a_signal_each() {
        let mut queue = Queue::default();
        let timer = Info {
            code: code::TIMER,
            ..info(10, 1)
        };
        for info in [timer, info(10, 2), timer, info(10, 3)] {
            queue.push(info).unwrap();
        }
        let order: Vec<u64> = core::iter::from_fn(|| queue.take().map(|i| i.value)).collect();
        assert_eq!(order, [1, 2, 1]);
        // A program that says so of signals of its own has as many as of others.
        while queue.push(timer).is_ok() {}
        assert_eq!(queue.entries.len(), QUEUE_MOST);
        queue.push_of_timer(timer).unwrap();
        assert_eq!(queue.pending(), bit(10));
    }

    #[test]
    fn faults_come_first_and_sets_can_be_discarded() {
        let mut queue = Queue::default();
        for signal in [SIGHUP, SIGSEGV, SIGTSTP, SIGCONT, 64] {
            queue.push(info(signal, 0)).unwrap();
        }
        queue.discard(STOPS);
        let order: Vec<u32> = core::iter::from_fn(|| queue.take().map(|i| i.signal)).collect();
        assert_eq!(order, [SIGSEGV, SIGHUP, SIGCONT, 64]);
    }
}
