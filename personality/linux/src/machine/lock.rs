//! A lock for state that the threads of one process share. It spins, giving the core away after a few tries: sections are short and call no server that could wait.
//! fork and exec copy memory while other threads may be anywhere, so [`Lock::acquire`] and [`Lock::release`] exist for them: they take every lock first.
//! vfork holds one until its child runs, which gives it back, or the parent if the child never came to that: [`Lock::pass_on`].

use super::gate;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

/// Tries before a thread sleeps after each further one: 20 µs, then twice as long each time up to 20 ms. However many wait, most of the time is the holder's.
const TRIES: u32 = 256;
const NAP: u64 = 20_000;
const LONGEST_NAP: u64 = 1000 * NAP;

const FREE: u32 = 0;
const HELD: u32 = 1;

pub struct Lock<T> {
    /// Other values: it was passed on under this name.
    held: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Lock {
            held: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// Where the value lies.
    pub fn place(&self) -> *mut T {
        self.value.get()
    }

    pub fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard { lock: self }
    }

    /// Take the lock without a guard; [`Lock::release`] gives it back.
    #[inline(always)]
    pub fn acquire(&self) {
        if !self.take() {
            self.wait();
        }
    }

    #[inline(always)]
    fn take(&self) -> bool {
        self.change(FREE, HELD, Ordering::Acquire)
    }

    #[inline(always)]
    fn change(&self, from: u32, to: u32, order: Ordering) -> bool {
        let held = &self.held;
        held.compare_exchange(from, to, order, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let (mut tries, mut nap) = (0u32, NAP);
        while !self.take() {
            tries += 1;
            if tries >= TRIES {
                // Who holds it may be less important and ready: it must get the processor.
                gate::nap(nap);
                nap = LONGEST_NAP.min(2 * nap);
            } else if tries.is_multiple_of(16) {
                gate::yield_core();
            }
            core::hint::spin_loop();
        }
    }

    /// Give the lock back, after [`Lock::acquire`] by this thread (or, after a fork, by the thread that this one is a copy of).
    pub fn release(&self) {
        self.held.store(FREE, Ordering::Release);
    }

    /// The lock, which this thread holds, can be given back by whoever knows this name (no other time's, not 0 or 1): [`Lock::release_passed`].
    pub fn pass_on(&self, name: u32) {
        self.held.store(name, Ordering::Relaxed);
    }

    /// Give the lock back unless somebody has.
    pub fn release_passed(&self, name: u32) {
        self.change(name, FREE, Ordering::Release);
    }
}

#[clippy::has_significant_drop]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Guard<'_, T> {
    /// The lock stays held, as after [`Lock::acquire`].
    pub fn keep(self) {
        core::mem::forget(self);
    }
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
        assert_eq!(lock.held.load(Ordering::Relaxed), HELD);
        lock.release();
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn what_was_passed_on_is_given_back_once() {
        let lock = Lock::new(1);
        lock.lock().keep();
        lock.pass_on(7);
        assert!(!lock.take());
        lock.release_passed(6);
        assert!(!lock.take());
        lock.release_passed(7);
        // Another has it now.
        assert!(lock.take());
        lock.release_passed(7);
        assert!(!lock.take());
    }
}
