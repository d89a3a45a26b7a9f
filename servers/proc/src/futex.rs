//! Futexes between processes. The personality computes the key (memory object and offset) and looks at the word before it calls; as a waker
//! may come in between, the word is looked at once more here, where waits and wakes come one after the other.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::Held;
use crate::system::{Errno, System};
use crate::table::Slot;
use cairn_abi::Token;
use cairn_idl::errno::{EAGAIN, EFAULT, EINVAL, ESRCH, ETIMEDOUT};
use cairn_rt::Received;

impl<S: System> Manager<S> {
    /// FUTEX
    pub(crate) fn futex(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, operation, key, count, address, expected, deadline, _] = message.words;
        match operation {
            0 => self.futex_wait(message.token, slot, key, (address, expected), deadline),
            1 => {
                let mut woken = 0;
                while woken < count.min(i32::MAX as u64) {
                    let Some((owner, token)) = self.futex_next(key) else {
                        break;
                    };
                    self.forget_deadline(owner, token);
                    self.answer_held(owner, token, 0);
                    woken += 1;
                }
                done(woken as i64)
            }
            _ => Err(EINVAL),
        }
    }

    fn futex_wait(
        &mut self,
        token: Token,
        slot: Slot,
        key: u64,
        (address, expected): (u64, u64),
        deadline: u64,
    ) -> Result<Outcome, Errno> {
        if address != 0 {
            let domain = self.processes[slot].domain.id;
            let mut word = [0; 4];
            self.system
                .read_from(domain, address, &mut word)
                .map_err(|_| EFAULT)?;
            if u32::from_le_bytes(word) != expected as u32 {
                return Err(EAGAIN);
            }
        }
        if deadline != 0 && deadline <= self.system.now() {
            return Err(ETIMEDOUT);
        }
        if !self.hold(slot, token, Held::Futex(key, deadline)) {
            return Err(ESRCH);
        }
        if deadline != 0 {
            self.timers
                .insert((deadline, slot, crate::timers::of_thread(token)));
        }
        self.futexes
            .entry(key)
            .or_default()
            .push_back((slot, token));
        Ok(Outcome::Later)
    }

    /// Take the one who has waited longest.
    fn futex_next(&mut self, key: u64) -> Option<(Slot, Token)> {
        let waiters = self.futexes.get_mut(&key)?;
        let next = waiters.pop_front();
        if waiters.is_empty() {
            self.futexes.remove(&key);
        }
        next
    }

    fn forget_deadline(&mut self, slot: Slot, token: Token) {
        if let Some(thread) = self.processes[slot].thread(token as u32) {
            if let Held::Futex(_, deadline) = thread.held {
                self.timers
                    .remove(&(deadline, slot, crate::timers::of_thread(token)));
            }
        }
    }

    /// This caller no longer waits.
    pub(crate) fn futex_forget(&mut self, key: u64, token: Token) {
        if let Some(waiters) = self.futexes.get_mut(&key) {
            waiters.retain(|(_, t)| *t != token);
            if waiters.is_empty() {
                self.futexes.remove(&key);
            }
        }
    }
}
