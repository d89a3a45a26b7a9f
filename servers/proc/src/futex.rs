//! Futexes between processes. The personality knows the key (memory object and offset) and looks at the word before it calls. A waker may come in
//! between: so it tells how many wakes it had seen before it looked, and if there were more since it looks again.
//!
//! Many are woken or moved [`PIECE`] at a time: the answer says where to go on, and the caller asks again. Who has begun to wait since its first call is none
//! of those that it wakes.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::Held;
use crate::system::{Errno, System};
use crate::table::Slot;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_idl::errno::{EINVAL, ENOMEM, ESRCH, ETIMEDOUT};
use cairn_idl::proc::FUTEX_SEVERAL;
use cairn_rt::Received;

/// How many waiters one message looks at.
const PIECE: u32 = 128;
/// Who waits for several words has one waiter for each: so many of a user's.
const MOST_OF_USER: u32 = 16 * 1024;

/// Of a [`Turn`] the bits below the priority: when it came.
const ARRIVAL: u32 = 56;
/// So late nobody comes.
const LAST: u64 = (1 << ARRIVAL) - 1;

/// The order among those that wait for one word: the higher real-time priority first, then who came earlier. Never 0.
pub type Turn = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Of FUTEX_WAIT_BITSET.
    pub bits: u32,
    pub slot: Slot,
    pub token: Token,
}

/// Bits of a call; none: all.
fn bits(word: u64) -> u32 {
    match word as u32 {
        0 => u32::MAX,
        bits => bits,
    }
}

/// How far a caller is that wakes or moves many.
#[derive(Clone, Copy, Debug)]
struct Walk {
    key: u64,
    bits: u32,
    /// The first turn that was not looked at.
    from: Turn,
    /// Who arrived later is none of those that are meant.
    last: u64,
    /// How many may be looked at.
    looks: u32,
}

impl Walk {
    /// Where to go on: 0 if this was all.
    fn rest(&self) -> Turn {
        if self.looks == 0 {
            self.from
        } else {
            0
        }
    }
}

/// The words that one call waits for, all with the same turn.
#[derive(Debug)]
struct Several {
    uid: u32,
    keys: Vec<u64>,
}

/// Who waits.
#[derive(Debug, Default)]
pub struct Futexes {
    waiters: BTreeMap<(u64, Turn), Waiter>,
    /// By the call that waits for more than one word.
    several: BTreeMap<Token, Several>,
    /// How many words each user's calls of that kind wait for.
    users: BTreeMap<u32, u32>,
    /// Waits and wakes so far.
    arrivals: u64,
    wakes: u64,
}

impl Futexes {
    /// Take the next one of those that are meant. None: there is none, or enough were looked at.
    fn next(&mut self, walk: &mut Walk) -> Option<(Turn, Waiter)> {
        while walk.looks > 0 {
            let all = (walk.key, walk.from)..=(walk.key, Turn::MAX);
            let (&(key, turn), waiter) = self.waiters.range(all).next()?;
            walk.looks -= 1;
            if turn & LAST > walk.last {
                // So did all behind it with its priority.
                walk.from = turn | LAST;
                continue;
            }
            walk.from = turn + 1;
            if waiter.bits & walk.bits != 0 {
                return self.waiters.remove(&(key, turn)).map(|w| (turn, w));
            }
        }
        None
    }

    /// One of the words that this call waits for is another one now.
    fn rename(&mut self, token: Token, from: u64, to: u64) {
        if let Some(several) = self.several.get_mut(&token) {
            let keys = several.keys.iter_mut();
            keys.filter(|key| **key == from).for_each(|key| *key = to);
        }
    }

    /// A call no longer waits for several words → which of them this was.
    fn forget_several(&mut self, token: Token, turn: Turn, key: u64) -> (u64, u32) {
        let Some(Several { uid, keys }) = self.several.remove(&token) else {
            return (0, 0);
        };
        for &key in &keys {
            self.waiters.remove(&(key, turn));
        }
        let count = keys.len() as u32;
        if let Some(all) = self.users.get_mut(&uid) {
            *all -= count;
            if *all == 0 {
                self.users.remove(&uid);
            }
        }
        let which = keys.iter().position(|&it| it == key);
        (which.unwrap_or(0) as u64, count)
    }

    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = (u64, Turn, &Waiter)> {
        let all = self.waiters.iter();
        all.map(|(&(key, turn), waiter)| (key, turn, waiter))
    }
}

impl<S: System> Manager<S> {
    /// FUTEX
    pub(crate) fn futex(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, operation, key, count, fourth, fifth, sixth, seventh] = message.words;
        match operation {
            0 if fifth != 0 && fourth != self.futexes.wakes => done(1),
            0 => self.futex_wait(message.token, (slot, key, bits(count)), sixth),
            1 => {
                let mut walk = self.walk(key, bits(fourth), (fifth, sixth));
                let woken = self.wake_some(&mut walk, count);
                Ok(Outcome::words(&[woken, walk.rest(), walk.last]))
            }
            2 => {
                let mut walk = self.walk(key, u32::MAX, (sixth, seventh));
                let woken = self.wake_some(&mut walk, count);
                let moved = self.move_some(&mut walk, fourth, fifth);
                Ok(Outcome::words(&[woken, walk.rest(), walk.last, moved]))
            }
            3 if fourth != self.futexes.wakes => done(1),
            3 => self.futex_wait_several(message, slot, sixth),
            _ => Err(EINVAL),
        }
    }

    /// `from` and `last` as the answer before said; 0: it is the first call.
    fn walk(&self, key: u64, bits: u32, (from, last): (Turn, u64)) -> Walk {
        let last = if from == 0 {
            self.futexes.arrivals
        } else {
            last
        };
        Walk {
            key,
            bits,
            from,
            last,
            looks: PIECE,
        }
    }

    /// Wake a few at once.
    pub(crate) fn futex_wake(&mut self, key: u64, count: u64) -> u64 {
        let mut walk = self.walk(key, u32::MAX, (0, 0));
        self.wake_some(&mut walk, count)
    }

    fn wake_some(&mut self, walk: &mut Walk, count: u64) -> u64 {
        self.futexes.wakes += 1;
        self.prefixes.page().publish_wakes(self.futexes.wakes);
        let mut woken = 0;
        while woken < count.min(i32::MAX as u64) {
            let Some((_, Waiter { slot, token, .. })) = self.futexes.next(walk) else {
                break;
            };
            self.wake_one(walk, slot, token);
            woken += 1;
        }
        woken
    }

    /// This one, who was taken out, goes on.
    fn wake_one(&mut self, walk: &mut Walk, slot: Slot, token: Token) {
        let Some(at) = self.processes[slot].threads.place_of(token) else {
            return;
        };
        let which = match self.processes[slot].threads[at].held {
            Held::Several(turn, _) => {
                let (which, count) = self.futexes.forget_several(token, turn, walk.key);
                // As many were looked at.
                walk.looks = walk.looks.saturating_sub(count);
                which
            }
            _ => 0,
        };
        self.forget_deadline(slot, token);
        self.release(slot, at, [0, which, 0, 0, 0, 0, 0, 0]);
    }

    /// Let some of them wait for another word.
    fn move_some(&mut self, walk: &mut Walk, to: u64, most: u64) -> u64 {
        let mut moved = 0;
        while walk.key != to && moved < most.min(i32::MAX as u64) {
            let Some((turn, waiter)) = self.futexes.next(walk) else {
                break;
            };
            let Waiter { slot, token, .. } = waiter;
            if let Some(thread) = self.processes[slot].thread(token as u32) {
                match &mut thread.held {
                    Held::Futex(key, ..) => *key = to,
                    _ => self.futexes.rename(token, walk.key, to),
                }
            }
            self.futexes.waiters.insert((to, turn), waiter);
            moved += 1;
        }
        moved
    }

    /// Take the first who waits for this word, whom the caller answers.
    pub(crate) fn futex_next(&mut self, key: u64) -> Option<(Slot, Token)> {
        let mut walk = self.walk(key, u32::MAX, (0, 0));
        let (turn, Waiter { slot, token, .. }) = self.futexes.next(&mut walk)?;
        self.forget_deadline(slot, token);
        self.futexes.forget_several(token, turn, key);
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
        let turn = self.futex_turn(slot, token);
        if !self.hold(slot, token, Held::Futex(key, turn, deadline)) {
            return Err(ESRCH);
        }
        self.begin_wait(slot, token, deadline);
        let waiter = Waiter { bits, slot, token };
        self.futexes.waiters.insert((key, turn), waiter);
        Ok(Outcome::Later)
    }

    fn futex_turn(&self, slot: Slot, token: Token) -> Turn {
        let realtime = self.processes[slot].scheduling_of(token as u32).realtime;
        let arrival = self.futexes.arrivals + 1;
        u64::from(u8::MAX - realtime as u8) << ARRIVAL | arrival
    }

    /// Who is held from now on had the [next turn](Self::futex_turn).
    fn begin_wait(&mut self, slot: Slot, token: Token, deadline: u64) {
        self.futexes.arrivals += 1;
        if deadline != 0 {
            self.timers
                .insert((deadline, slot, crate::timers::of_thread(token)));
        }
    }

    /// Wait for the first of several words.
    fn futex_wait_several(
        &mut self,
        message: &Received,
        slot: Slot,
        deadline: u64,
    ) -> Result<Outcome, Errno> {
        let token = message.token;
        let (count, rest) = (message.out_len / 8, message.out_len % 8);
        if rest != 0 || !(1..=FUTEX_SEVERAL as usize).contains(&count) {
            return Err(EINVAL);
        }
        if deadline != 0 && deadline <= self.system.now() {
            return Err(ETIMEDOUT);
        }
        let uid = self.processes[slot].creds.ruid;
        let all = self.futexes.users.get(&uid).map_or(0, |all| *all) + count as u32;
        if all > MOST_OF_USER {
            return Err(ENOMEM);
        }
        let bytes = self.bytes(message, 0, count * 8)?;
        let mut keys = Vec::new();
        keys.try_reserve_exact(count).map_err(|_| ENOMEM)?;
        let (words, _) = bytes.as_chunks::<8>();
        keys.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        let turn = self.futex_turn(slot, token);
        if !self.hold(slot, token, Held::Several(turn, deadline)) {
            return Err(ESRCH);
        }
        self.begin_wait(slot, token, deadline);
        let bits = u32::MAX;
        for &key in &keys {
            let waiter = Waiter { bits, slot, token };
            self.futexes.waiters.insert((key, turn), waiter);
        }
        self.futexes.users.insert(uid, all);
        self.futexes.several.insert(token, Several { uid, keys });
        Ok(Outcome::Later)
    }

    fn forget_deadline(&mut self, slot: Slot, token: Token) {
        if let Some(thread) = self.processes[slot].thread(token as u32) {
            match thread.held {
                Held::Futex(.., deadline) | Held::Several(_, deadline) if deadline != 0 => {
                    self.timers
                        .remove(&(deadline, slot, crate::timers::of_thread(token)));
                }
                _ => {}
            }
        }
    }

    /// This caller no longer waits. Its deadline, if it did wait.
    pub(crate) fn futex_forget(&mut self, held: Held, token: Token) -> Option<u64> {
        match held {
            Held::Futex(key, turn, deadline) => {
                self.futexes.waiters.remove(&(key, turn));
                Some(deadline)
            }
            Held::Several(turn, deadline) => {
                self.futexes.forget_several(token, turn, 0);
                Some(deadline)
            }
            _ => None,
        }
    }
}
