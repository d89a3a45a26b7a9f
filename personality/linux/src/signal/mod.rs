//! Signals. `proc` queues and pokes; here they are taken, kept while blocked, and acted on: what the program wants done in [`actions`], rules in [`rules`], the frame on the program's stack in
//! [`frame`], taking and delivering in [`deliver`], the system calls in [`calls`].

pub mod actions;
pub mod calls;
pub mod deliver;
pub mod frame;
pub mod rules;

use alloc::collections::VecDeque;

/// Signals are 1..=SIGNALS.
pub const SIGNALS: usize = 64;

pub const SIGILL: u32 = 4;
pub const SIGTRAP: u32 = 5;
pub const SIGBUS: u32 = 7;
pub const SIGFPE: u32 = 8;
pub const SIGKILL: u32 = 9;
pub const SIGSEGV: u32 = 11;
pub const SIGSYS: u32 = 31;
pub const SIGPIPE: u32 = 13;
pub const SIGCHLD: u32 = 17;
pub const SIGCONT: u32 = 18;
pub const SIGSTOP: u32 = 19;
pub const SIGTSTP: u32 = 20;
pub const SIGTTIN: u32 = 21;
pub const SIGTTOU: u32 = 22;
pub const SIGXFSZ: u32 = 25;
pub const SIGVTALRM: u32 = 26;
pub const SIGPROF: u32 = 27;

/// The signals of exceptions: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
const SYNCHRONOUS: u64 = bit(4) | bit(5) | bit(SIGBUS) | bit(8) | bit(SIGSEGV) | bit(SIGSYS);

/// The bit of a signal in a mask.
pub const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// The signals of a mask, ascending.
pub fn signals_of(mask: u64) -> impl Iterator<Item = u32> {
    let mut left = mask;
    core::iter::from_fn(move || {
        let lowest = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (lowest < 64).then_some(lowest + 1)
    })
}

/// `struct kernel_sigaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

pub const SIG_DFL: u64 = 0;
pub const SIG_IGN: u64 = 1;

pub mod sa {
    pub const NOCLDSTOP: u64 = 1;
    pub const NOCLDWAIT: u64 = 2;
    pub const SIGINFO: u64 = 4;
    pub const EXPOSE_TAGBITS: u64 = 0x800;
    pub const RESTORER: u64 = 0x0400_0000;
    pub const ONSTACK: u64 = 0x0800_0000;
    pub const RESTART: u64 = 0x1000_0000;
    pub const NODEFER: u64 = 0x4000_0000;
    pub const RESETHAND: u64 = 0x8000_0000;
    /// All others are forgotten, so that programs can see which there are.
    pub const KNOWN: u64 = NOCLDSTOP
        | NOCLDWAIT
        | SIGINFO
        | EXPOSE_TAGBITS
        | RESTORER
        | ONSTACK
        | RESTART
        | NODEFER
        | RESETHAND;
}

pub mod si {
    pub const USER: i32 = 0;
    pub const KERNEL: i32 = 0x80;
    /// SYS_SECCOMP, of SIGSYS.
    pub const SECCOMP: i32 = 1;
    pub const TIMER: i32 = -2;
    pub const TKILL: i32 = -6;
}

/// A signal with what is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pub signal: u32,
    pub code: i32,
    pub pid: u32,
    pub uid: u32,
    /// Status of a child, or the value of sigqueue and timers.
    pub value: u64,
    /// Address of a fault.
    pub address: u64,
    /// Vector and error code of an exception.
    pub vector: u64,
    pub error: u64,
    /// si_errno.
    pub errno: u32,
    /// An exception's: `address` counts instead of the sender.
    pub fault: bool,
    /// A timer's, which goes on when `proc` hears that this was taken.
    pub tell: bool,
}

/// Signals that wait. Standard signals are kept once, real-time signals each.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Info>,
    bits: u64,
}

impl Queue {
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// All of them, oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Info> {
        self.waiting.iter()
    }

    pub fn add(&mut self, info: Info) {
        if !(1..=SIGNALS as u32).contains(&info.signal) {
            return;
        }
        // Each POSIX timer has one signal at most, of whatever kind.
        if info.code != si::TIMER {
            if info.signal < 32 && self.bits & bit(info.signal) != 0 {
                let mut same = self.waiting.iter_mut();
                let known = same.find(|i| i.signal == info.signal && i.code != si::TIMER);
                if let Some(known) = known {
                    known.tell |= info.tell;
                    return;
                }
            }
            if self.waiting.len() >= 1024 {
                return;
            }
        }
        self.bits |= bit(info.signal);
        self.waiting.push_back(info);
    }

    /// The lowest signal among `wanted`, oldest first; those of exceptions before all others.
    pub fn take(&mut self, wanted: u64) -> Option<Info> {
        let among = self.bits & wanted;
        if among == 0 {
            return None;
        }
        let among = match among & SYNCHRONOUS {
            0 => among,
            some => some,
        };
        let signal = among.trailing_zeros() + 1;
        let at = self.waiting.iter().position(|i| i.signal == signal)?;
        let info = self.waiting.remove(at);
        if !self.waiting.iter().any(|i| i.signal == signal) {
            self.bits &= !bit(signal);
        }
        info
    }

    /// Forget a signal (its disposition became "ignore").
    pub fn forget(&mut self, mask: u64) {
        if self.bits & mask != 0 {
            self.waiting.retain(|i| bit(i.signal) & mask == 0);
            self.bits &= !mask;
        }
    }
}

/// `stack_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltStack {
    pub base: u64,
    pub flags: u32,
    pub size: u64,
}

pub const SS_ONSTACK: u32 = 1;
pub const SS_DISABLE: u32 = 2;
pub const SS_AUTODISARM: u32 = 1 << 31;

impl Default for AltStack {
    fn default() -> Self {
        AltStack {
            base: 0,
            flags: SS_DISABLE,
            size: 0,
        }
    }
}

impl AltStack {
    /// Does who has this stack pointer run there?
    pub fn holds(&self, sp: u64) -> bool {
        self.flags & SS_AUTODISARM == 0 && self.spans(sp)
    }

    pub fn spans(&self, sp: u64) -> bool {
        self.size != 0 && sp > self.base && sp - self.base <= self.size
    }
}

/// What a thread has of its own. (Its mask is in its [`crate::process::Peer`].)
#[derive(Clone, Debug, Default)]
pub struct ThreadSignals {
    pub queue: Queue,
    pub alternate: AltStack,
    /// The mask to go back to after a call with a temporary one (sigsuspend, ppoll).
    pub saved_mask: Option<u64>,
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
    fn standard_signals_are_kept_once_and_lowest_goes_first() {
        let mut q = Queue::default();
        for i in [
            info(15, 1),
            info(15, 2),
            info(2, 3),
            info(40, 4),
            info(40, 5),
        ] {
            q.add(i);
        }
        assert_eq!(q.take(!bit(2)).map(|i| (i.signal, i.value)), Some((15, 1)));
        assert_eq!(q.take(!0).map(|i| i.signal), Some(2));
        assert_eq!(q.take(!0).map(|i| i.value), Some(4));
        assert_eq!(q.bits(), bit(40));
        assert_eq!(q.take(!0).map(|i| i.value), Some(5));
        assert_eq!(q.take(!0), None);
        q.add(info(17, 0));
        q.forget(bit(17));
        assert_eq!((q.take(!0), q.bits()), (None, 0));
    }

    #[test]
    fn timers_have_a_signal_each() {
        let mut q = Queue::default();
        let timer = |value| Info {
            code: si::TIMER,
            tell: true,
            ..info(14, value)
        };
        q.add(timer(1));
        q.add(timer(2));
        q.add(info(14, 3));
        q.add(Info {
            tell: true,
            ..info(14, 4)
        });
        q.add(timer(5));
        let told: Vec<_> = core::iter::from_fn(|| q.take(!0).map(|i| (i.value, i.tell))).collect();
        assert_eq!(told, [(1, true), (2, true), (3, true), (5, true)]);
        assert_eq!(q.bits(), 0);
    }

    #[test]
    fn wild_numbers_are_dropped() {
        let mut q = Queue::default();
        q.add(info(0, 0));
        q.add(info(65, 0));
        assert_eq!(q.bits(), 0);
    }
}
