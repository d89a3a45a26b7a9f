//! A lock for state that the threads of one process share. It spins, giving the core away after a few tries: sections are short and call no server that could wait.
//! fork and exec copy memory while other threads may be anywhere, so [`Lock::acquire`] and [`Lock::release`] exist for them: they take every lock first.

use super::gate;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

/// How long a thread that met a held lock again and again sleeps, in ns.
const NAP: u64 = 20_000;

pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Lock {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard { lock: self }
    }

    /// Take the lock without a guard; [`Lock::release`] gives it back.
    #[inline(always)]
    pub fn acquire(&self) {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut tries = 0u32;
        while self.held.swap(true, Ordering::Acquire) {
            tries += 1;
            if tries.is_multiple_of(256) {
                // Who holds it may be less important and ready: it must get the processor.
                gate::nap(NAP);
            } else if tries.is_multiple_of(16) {
                gate::yield_core();
            }
            core::hint::spin_loop();
        }
    }

    /// Give the lock back, after [`Lock::acquire`] by this thread (or, after a fork, by the thread that this one is a copy of).
    pub fn release(&self) {
        self.held.store(false, Ordering::Release);
    }
}

#[clippy::has_significant_drop]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists and is borrowed mutably: nobody else has a reference.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_gives_the_lock_back() {
        let lock = Lock::new(1);
        *lock.lock() += 1;
        assert_eq!(*lock.lock(), 2);
        lock.acquire();
        assert!(lock.held.load(Ordering::Relaxed));
        lock.release();
        assert_eq!(*lock.lock(), 2);
    }
}
