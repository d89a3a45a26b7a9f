//! Futexes between processes. The personality knows the key (memory object and offset) and looks at the word before it calls. A waker may come in
//! between: so it tells how many wakes it had seen before it looked, and if there were more since it looks again.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::Held;
use crate::system::{Errno, System};
use crate::table::Slot;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use cairn_abi::Token;
use cairn_idl::errno::{EINVAL, ENOMEM, ESRCH, ETIMEDOUT};
use cairn_rt::Received;

const BUCKETS: usize = 256;
/// An empty bucket keeps memory for no more.
const KEPT: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub key: u64,
    /// Of FUTEX_WAIT_BITSET.
    pub bits: u32,
    pub slot: Slot,
    pub token: Token,
    /// Its real-time priority when it came, 0 without one.
    pub realtime: u32,
}

/// Bits of a call; none: all.
fn bits(word: u64) -> u32 {
    match word as u32 {
        0 => u32::MAX,
        bits => bits,
    }
}

/// Who waits, within each bucket of keys by real-time priority, then by arrival: those who are woken one after the other are taken from its front.
#[derive(Debug)]
pub struct Futexes {
    buckets: Box<[VecDeque<Waiter>; BUCKETS]>,
    /// Wakes so far.
    wakes: u64,
}

impl Default for Futexes {
    fn default() -> Self {
        Futexes {
            buckets: Box::new([const { VecDeque::new() }; BUCKETS]),
            wakes: 0,
        }
    }
}

impl Futexes {
    #[inline]
    fn bucket(&mut self, key: u64) -> &mut VecDeque<Waiter> {
        // Words lie at multiples of four; the object's number is far above.
        &mut self.buckets[(key >> 2 ^ key >> 8 ^ key >> 40) as usize % BUCKETS]
    }

    /// There is room.
    fn put(&mut self, waiter: Waiter) {
        let bucket = self.bucket(waiter.key);
        let at = bucket.partition_point(|w| w.realtime >= waiter.realtime);
        bucket.insert(at, waiter);
    }

    /// Take the first with one of these bits.
    fn next(&mut self, key: u64, bits: u32) -> Option<Waiter> {
        let bucket = self.bucket(key);
        let at = bucket
            .iter()
            .position(|w| w.key == key && w.bits & bits != 0)?;
        bucket.remove(at)
    }

    fn forget(&mut self, key: u64, token: Token) {
        // Who came last mostly goes first when a process ends.
        let bucket = self.bucket(key);
        if let Some(at) = bucket.iter().rposition(|w| w.token == token) {
            bucket.remove(at);
        }
        if bucket.is_empty() && bucket.capacity() > KEPT {
            *bucket = VecDeque::new();
        }
    }

    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = &Waiter> {
        self.buckets.iter().flatten()
    }
}

impl<S: System> Manager<S> {
    /// FUTEX
    pub(crate) fn futex(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, operation, key, count, seen, looked, deadline, _] = message.words;
        match operation {
            0 if looked != 0 && seen != self.futexes.wakes => done(1),
            0 => self.futex_wait(message.token, (slot, key, bits(count)), deadline),
            1 => done(self.futex_wake(key, count, bits(seen)) as i64),
            2 => self.futex_requeue((key, count), (seen, looked)),
            _ => Err(EINVAL),
        }
    }

    pub(crate) fn futex_wake(&mut self, key: u64, count: u64, bits: u32) -> u64 {
        self.futexes.wakes += 1;
        self.prefixes.page().publish_wakes(self.futexes.wakes);
        let mut woken = 0;
        while woken < count.min(i32::MAX as u64) {
            let Some(Waiter { slot, token, .. }) = self.futexes.next(key, bits) else {
                break;
            };
            self.forget_deadline(slot, token);
            self.answer_held(slot, token, 0);
            woken += 1;
        }
        woken
    }

    /// Wake some who wait for one word, and let some more of them wait for another one.
    fn futex_requeue(
        &mut self,
        (from, wake): (u64, u64),
        (to, most): (u64, u64),
    ) -> Result<Outcome, Errno> {
        let woken = self.futex_wake(from, wake, u32::MAX);
        if from == to {
            return done(woken as i64);
        }
        let mut moved = 0;
        while moved < most.min(i32::MAX as u64) {
            if self.futexes.bucket(to).try_reserve(1).is_err() {
                break;
            }
            let Some(waiter) = self.futexes.next(from, u32::MAX) else {
                break;
            };
            let Waiter { slot, token, .. } = waiter;
            if let Some(thread) = self.processes[slot].thread(token as u32) {
                if let Held::Futex(key, _) = &mut thread.held {
                    *key = to;
                }
            }
            self.futexes.put(Waiter { key: to, ..waiter });
            moved += 1;
        }
        done((woken + moved) as i64)
    }

    /// Take the first who waits for this word, whom the caller answers.
    pub(crate) fn futex_next(&mut self, key: u64) -> Option<(Slot, Token)> {
        let Waiter { slot, token, .. } = self.futexes.next(key, u32::MAX)?;
        self.forget_deadline(slot, token);
        Some((slot, token))
    }

    pub(crate) fn futex_wait(
        &mut self,
        token: Token,
        (slot, key, bits): (Slot, u64, u32),
        deadline: u64,
    ) -> Result<Outcome, Errno> {
        if deadline != 0 && deadline <= self.system.now() {
            return Err(ETIMEDOUT);
        }
        let room = self.futexes.bucket(key).try_reserve(1);
        room.map_err(|_| ENOMEM)?;
        if !self.hold(slot, token, Held::Futex(key, deadline)) {
            return Err(ESRCH);
        }
        if deadline != 0 {
            self.timers
                .insert((deadline, slot, crate::timers::of_thread(token)));
        }
        let realtime = self.processes[slot].scheduling_of(token as u32).realtime;
        self.futexes.put(Waiter {
            key,
            bits,
            slot,
            token,
            realtime,
        });
        Ok(Outcome::Later)
    }

    fn forget_deadline(&mut self, slot: Slot, token: Token) {
        if let Some(thread) = self.processes[slot].thread(token as u32) {
            match thread.held {
                Held::Futex(_, deadline) if deadline != 0 => {
                    self.timers
                        .remove(&(deadline, slot, crate::timers::of_thread(token)));
                }
                _ => {}
            }
        }
    }

    /// This caller no longer waits.
    pub(crate) fn futex_forget(&mut self, key: u64, token: Token) {
        self.futexes.forget(key, token);
    }
}
