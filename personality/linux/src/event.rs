//! Files that the personality serves itself: epoll sets, timerfd, signalfd, the list of descriptors. They are as private as the process: a forked child has a copy.

use crate::calls::epoll::Interest;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EAGAIN, EINVAL, RESTART};
use crate::machine::gate;
use crate::machine::lock::Lock;
use crate::machine::user::{self, UserRange};
use crate::signal::{calls::want, deliver};
use crate::time;
use alloc::sync::Weak;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_abi::service::current;
use cairn_idl::fs::o;
use core::sync::atomic::{AtomicU64, Ordering};

pub enum Object {
    Epoll(Lock<Vec<Interest>>),
    Timer(Lock<Timer>),
    Signals(Signals),
    /// Position in the list of descriptors.
    Descriptors(Lock<u64>),
}

/// timerfd. Times are monotonic ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer {
    /// Next expiry, 0 = stopped.
    pub next: u64,
    pub interval: u64,
    pub real_time: bool,
    pub nonblocking: bool,
}

pub struct Signals {
    pub mask: AtomicU64,
    pub nonblocking: AtomicU64,
}

impl core::fmt::Debug for Object {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl Timer {
    /// Expiries up to now, which are then used up.
    pub fn take(&mut self, now: u64) -> u64 {
        if self.next == 0 || self.next > now {
            return 0;
        }
        if self.interval == 0 {
            self.next = 0;
            return 1;
        }
        let count = (now - self.next) / self.interval + 1;
        self.next += count * self.interval;
        count
    }
}

impl Object {
    pub fn name(&self) -> &'static str {
        match self {
            Object::Epoll(_) => "eventpoll",
            Object::Timer(_) => "timerfd",
            Object::Signals(_) => "signalfd",
            Object::Descriptors(_) => "fd",
        }
    }

    pub fn inode(&self) -> u64 {
        self as *const Object as u64 >> 4 & 0xffff_ffff
    }

    pub fn flags(&self) -> u64 {
        let on = match self {
            Object::Timer(timer) => timer.lock().nonblocking,
            Object::Signals(signals) => signals.nonblocking.load(Ordering::Relaxed) != 0,
            _ => false,
        };
        if on {
            o::NONBLOCK
        } else {
            0
        }
    }

    pub fn set_flags(&self, flags: u64) {
        match self {
            Object::Timer(timer) => timer.lock().nonblocking = flags != 0,
            Object::Signals(signals) => signals.nonblocking.store(flags, Ordering::Relaxed),
            _ => {}
        }
    }

    pub fn separate(&self) -> Object {
        match self {
            Object::Epoll(set) => Object::Epoll(Lock::new(set.lock().clone())),
            Object::Timer(timer) => Object::Timer(Lock::new(*timer.lock())),
            Object::Signals(signals) => Object::Signals(Signals {
                mask: AtomicU64::new(signals.mask.load(Ordering::Relaxed)),
                nonblocking: AtomicU64::new(signals.nonblocking.load(Ordering::Relaxed)),
            }),
            Object::Descriptors(position) => Object::Descriptors(Lock::new(*position.lock())),
        }
    }

    /// In a copy: watch the copies of what is watched; what has none is watched no more.
    pub fn follow(&self, copy_of: impl Fn(*const OpenFile) -> Option<Weak<OpenFile>>) {
        if let Object::Epoll(set) = self {
            set.lock()
                .retain_mut(|interest| match copy_of(interest.file.as_ptr()) {
                    Some(copy) => {
                        interest.file = copy;
                        true
                    }
                    None => false,
                });
        }
    }
}

/// read(2) on such a file.
pub fn read(object: &Object, range: UserRange) -> Result<u64> {
    match object {
        Object::Timer(timer) => read_timer(timer, range),
        Object::Signals(signals) => read_signals(signals, range),
        _ => Err(EINVAL),
    }
}

/// Wait for a deadline or a poke; RESTART if a signal has something to do.
fn pause_until(deadline: Option<u64>) -> Result<()> {
    if let Some(at) = deadline {
        gate::deadline(at);
    }
    let result = gate::service_interruptible(linux_slot::CURRENT, current::PARK, &[]);
    if result == Err(cairn_abi::Error::Interrupted) && deliver::pending() {
        return Err(RESTART);
    }
    Ok(())
}

fn read_timer(timer: &Lock<Timer>, range: UserRange) -> Result<u64> {
    if range.len() < 8 {
        return Err(EINVAL);
    }
    loop {
        let (count, next, nonblocking) = {
            let mut timer = timer.lock();
            (timer.take(time::now()), timer.next, timer.nonblocking)
        };
        if count != 0 {
            user::write(range.base(), &count)?;
            return Ok(8);
        }
        if nonblocking {
            return Err(EAGAIN);
        }
        // Set by another thread meanwhile? Look again from time to time.
        let again = time::deadline_after(time::SECOND / 20);
        pause_until(Some(if next == 0 { again } else { next.min(again) }))?;
    }
}

/// `struct signalfd_siginfo`, 128 bytes.
fn signal_record(info: &crate::signal::Info) -> [u8; 128] {
    let mut b = [0; 128];
    let mut put = |at: usize, value: u32| b[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(0, info.signal);
    put(8, info.code as u32);
    put(12, info.pid);
    put(16, info.uid);
    put(40, info.value as u32);
    put(44, info.value as u32);
    b[48..56].copy_from_slice(&info.value.to_le_bytes());
    b
}

fn read_signals(signals: &Signals, range: UserRange) -> Result<u64> {
    if range.len() < 128 {
        return Err(EINVAL);
    }
    let mask = signals.mask.load(Ordering::Relaxed);
    want(mask);
    let mut done = 0;
    loop {
        deliver::take_all();
        crate::machine::area::area().mark();
        while done + 128 <= range.len() {
            let Some(info) = deliver::take_queued(mask) else {
                break;
            };
            user::write_bytes(range.after(done).base(), &signal_record(&info))?;
            done += 128;
        }
        if done != 0 {
            return Ok(done);
        }
        if signals.nonblocking.load(Ordering::Relaxed) != 0 {
            return Err(EAGAIN);
        }
        if deliver::pending() {
            return Err(RESTART);
        }
        pause_until(None)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_count_missed_expiries() {
        let mut t = Timer {
            next: 100,
            interval: 50,
            ..Timer::default()
        };
        assert_eq!(t.take(99), 0);
        assert_eq!(t.take(100), 1);
        assert_eq!(t.take(260), 3);
        assert_eq!(t.next, 300);
        t.interval = 0;
        assert_eq!((t.take(400), t.next, t.take(500)), (1, 0, 0));
    }
}
