//! Sending signals: who may, to whom, and what sending does at once (SIGKILL, SIGSTOP, SIGCONT). Taking them is the personality's.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::{Beginning, Dispositions};
use crate::signal::{
    self, bit, code, Full, Info, Queue, SIGCONT, SIGIO, SIGKILL, SIGSTOP, STOPS, UNSTOPPABLE,
};
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use cairn_abi::service::thread;
use cairn_abi::Id;
use cairn_idl::capability::KILL;
use cairn_idl::errno::{EAGAIN, EINVAL, EPERM, ESRCH};
use cairn_idl::proc::{taken, Credentials, Owner};
use cairn_rt::Received;

/// A signal argument: 0 to 64.
pub fn number(word: u64) -> Result<u32, Errno> {
    match word as i32 {
        n @ 0..=64 => Ok(n as u32),
        _ => Err(EINVAL),
    }
}

fn is_unstoppable(signal: u32) -> bool {
    matches!(signal, SIGKILL | SIGSTOP)
}

/// The rule of kill(2), but for SIGCONT within a session.
pub fn may_signal(sender: &Credentials, target: &Credentials) -> bool {
    [sender.ruid, sender.euid]
        .iter()
        .any(|id| *id == target.ruid || *id == target.suid)
}

impl<S: System> Manager<S> {
    /// Queue a signal for a process, or for one of its threads, without asking for permission. What it does at once is done at once,
    /// except that SIGKILL takes effect when the present message is finished.
    pub(crate) fn send(
        &mut self,
        slot: Slot,
        thread: Option<usize>,
        info: Info,
    ) -> Result<(), Full> {
        if let Some(at) = self.post(slot, thread, info)? {
            self.poke(slot, at);
        }
        Ok(())
    }

    /// A timer's signal; false: it is not to be had, because it is ignored or done at once.
    pub(crate) fn send_of_timer(
        &mut self,
        slot: Slot,
        thread: Option<usize>,
        info: Info,
    ) -> Result<bool, Full> {
        let posted = self.post_with(slot, thread, info, Queue::push_of_timer)?;
        if let Some(at) = posted {
            self.poke(slot, at);
        }
        Ok(posted.is_some())
    }

    /// The same as [`send`](Self::send) without the poke: which thread is to be poked, if any.
    fn post(
        &mut self,
        slot: Slot,
        thread: Option<usize>,
        info: Info,
    ) -> Result<Option<usize>, Full> {
        self.post_with(slot, thread, info, Queue::push)
    }

    fn post_with(
        &mut self,
        slot: Slot,
        thread: Option<usize>,
        info: Info,
        push: fn(&mut Queue, Info) -> Result<(), Full>,
    ) -> Result<Option<usize>, Full> {
        let number = info.signal;
        if number == 0 || !self.processes[slot].alive() || self.first_is_immune(slot, number) {
            return Ok(None);
        }
        let mut info = info;
        // Of a timer's signal the same word says which, of a file's what that is ready for.
        let is_from = info.code != code::TIMER && !info.is_of_a_file();
        if is_from && self.processes[slot].pids.is_some() {
            let sender = self.as_seen(slot, info.sender as u32);
            info.sender = info.sender & !0xffff_ffff | u64::from(sender);
        }
        let set = bit(number);
        if number == SIGKILL {
            self.doom(slot, SIGKILL);
            return Ok(None);
        }
        if number == SIGCONT {
            self.discard(slot, STOPS);
            let process = &mut self.processes[slot];
            process.stop_cancelled = process.stop_taken;
        } else if set & STOPS != 0 {
            self.discard(slot, bit(SIGCONT));
            if number == SIGSTOP && self.processes[slot].traced == 0 {
                self.stop(slot, SIGSTOP);
                return Ok(None);
            }
        }
        let process = &mut self.processes[slot];
        let posted = if process.dispositions.ignored & set != 0 && process.traced == 0 {
            Ok(None)
        } else {
            let queue = match thread {
                Some(at) => &mut process.threads[at].queue,
                None => &mut process.queue,
            };
            push(queue, info).map(|()| Some(thread.unwrap_or(0)))
        };
        if number == SIGCONT && self.processes[slot].stopped.is_some() {
            // Poked before it goes on: it may run before this message is finished.
            if let Ok(Some(at)) = posted {
                self.poke(slot, at);
            }
            self.resume(slot);
        }
        posted
    }

    /// A signal from the caller to `target`, itself perhaps: then it comes with the answer if the caller wants it so.
    fn send_from(
        &mut self,
        message: &Received,
        slot: Slot,
        (target, thread): (Slot, Option<usize>),
        info: Info,
        with_answer: bool,
    ) -> Result<Outcome, Errno> {
        let Some(at) = self.post(target, thread, info).map_err(|Full| EAGAIN)? else {
            return done(0);
        };
        let caller = message.token as u32;
        let own = |thread: usize| self.processes[slot].threads[thread].id == caller;
        if with_answer && target == slot && thread.is_none_or(own) {
            let [signal, code, sender, value, bits] = self.take(slot, caller);
            return Ok(Outcome::words(&[0, signal, code, sender, value, bits]));
        }
        self.poke(target, at);
        done(0)
    }

    /// Poke the thread with this index or, if it is gone without having said so, the next one that lives.
    pub(crate) fn poke(&mut self, slot: Slot, at: usize) {
        // It asks for signals by itself as soon as it can take any.
        if self.processes[slot].beginning != Beginning::Over {
            return;
        }
        let domain = self.processes[slot].domain;
        let count = self.processes[slot].threads.len();
        for turn in 0..count {
            let id = self.processes[slot].threads[(at + turn) % count].id;
            if self
                .system
                .control(domain, id, thread::POKE, [0; 3])
                .is_ok()
            {
                return;
            }
        }
    }

    /// Forget pending signals of a set, of the process and of its threads.
    fn discard(&mut self, slot: Slot, set: u64) {
        let process = &mut self.processes[slot];
        process.queue.discard(set);
        for thread in process.threads.iter_mut() {
            thread.queue.discard(set);
        }
        self.timers_forgotten(slot, set);
    }

    /// End the process by this signal once the present message is finished.
    pub(crate) fn doom(&mut self, slot: Slot, status: u32) {
        let process = &mut self.processes[slot];
        if process.alive() {
            process.doomed = true;
            self.doomed.push_back((slot, status));
        }
    }

    fn permitted(&self, sender: Slot, target: Slot, signal: u32) -> bool {
        may_signal(&self.processes[sender].creds, &self.processes[target].creds)
            || self.is_capable(sender, &self.processes[target].user, KILL)
            || signal == SIGCONT && self.session_of(sender) == self.session_of(target)
    }

    pub(crate) fn from(&self, sender: Slot, signal: u32, code: i32, value: u64) -> Info {
        let process = &self.processes[sender];
        Info {
            signal,
            code,
            sender: process.pid as u64 | (process.creds.ruid as u64) << 32,
            value,
        }
    }

    /// KILL: w3 and w4 are si_code and si_value of sigqueue(3), 0 for kill(2).
    pub(crate) fn kill(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let words = &message.words;
        let signal = number(words[2])?;
        let si_code = words[3] as i32;
        let pid = words[1] as i32 as i64;
        if si_code > 0 || si_code != 0 && pid <= 0 {
            return Err(EPERM);
        }
        let info = self.from(slot, signal, si_code, words[4]);
        match pid {
            1.. => {
                let target = self.task(pid as u64).ok_or(ESRCH)?;
                self.kill_one(message, slot, target, info)
            }
            -1 => {
                let mut counts = (0, 0);
                let mut from = 2;
                let pids = self.processes[slot].pids.clone();
                while let Some((pid, target)) = self.next_of(&pids, from) {
                    if target != slot {
                        self.one_of_many(slot, target, info, &mut counts);
                    }
                    from = pid as u64 + 1;
                }
                verdict(counts)
            }
            _ => {
                let group = match pid {
                    0 => self.processes[slot].group,
                    pid => self.numbers.get(pid.unsigned_abs()).group,
                };
                self.kill_group(slot, group, info)
            }
        }
    }

    fn kill_one(
        &mut self,
        message: &Received,
        slot: Slot,
        target: Slot,
        info: Info,
    ) -> Result<Outcome, Errno> {
        if !self.permitted(slot, target, info.signal) {
            return Err(EPERM);
        }
        if is_unstoppable(info.signal) && self.is_shielded(slot, target) {
            return done(0);
        }
        let with_answer = message.words[5] & 1 != 0;
        self.send_from(message, slot, (target, None), info, with_answer)
    }

    /// A signal in this process's name to a thread, process or group.
    pub(crate) fn signal_by(
        &mut self,
        by: Slot,
        kind: Owner,
        id: u64,
        info: Info,
    ) -> Result<Outcome, Errno> {
        match kind {
            Owner::Group => self.kill_group(by, self.numbers.get(id).group, info),
            Owner::Process => {
                let target = self.numbers.process(id).ok_or(ESRCH)?;
                let mut counts = (0, 0);
                self.one_of_many(by, target, info, &mut counts);
                verdict(counts)
            }
            Owner::Thread => {
                let target = self.task(id).ok_or(ESRCH)?;
                let threads = &self.processes[target].threads;
                let at = threads
                    .iter()
                    .position(|thread| u64::from(thread.tid) == id);
                let at = at.ok_or(ESRCH)?;
                if !self.permitted(by, target, info.signal) {
                    return Err(EPERM);
                }
                if is_unstoppable(info.signal) && self.is_shielded(by, target) {
                    return done(0);
                }
                self.send_or_sigio(target, Some(at), info);
                done(0)
            }
        }
    }

    /// A file's signal that finds a full queue is sent as SIGIO, which loses the file (F_SETSIG in fcntl(2)). Others are lost.
    fn send_or_sigio(&mut self, target: Slot, thread: Option<usize>, info: Info) {
        let full = self.send(target, thread, info).is_err();
        if full && info.is_of_a_file() {
            let plain = Info {
                signal: SIGIO,
                code: code::KERNEL,
                ..Info::default()
            };
            let _ = self.send(target, thread, plain);
        }
    }

    /// To all of a group (or none: NONE) whom the sender may signal.
    fn kill_group(&mut self, sender: Slot, group: Slot, info: Info) -> Result<Outcome, Errno> {
        if group == NONE {
            return Err(ESRCH);
        }
        let mut counts = (0, 0);
        let mut at = 0;
        while let Some(target) = self.groups[group].members.get(at).copied() {
            self.one_of_many(sender, target, info, &mut counts);
            at += 1;
        }
        verdict(counts)
    }

    /// SIGNAL_LIFE
    pub(crate) fn signal_life(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let words = &message.words;
        let signal = number(words[2])?;
        let si_code = words[3] as i32;
        let target = self.living(words[1]).ok_or(ESRCH)?;
        if !self.knows(slot, target) {
            return Err(EINVAL);
        }
        if si_code > 0 && target != slot {
            return Err(EPERM);
        }
        let info = self.from(slot, signal, si_code, words[4]);
        self.kill_one(message, slot, target, info)
    }

    /// The process that a number of a process or thread means to kill(2).
    fn task(&self, number: u64) -> Option<Slot> {
        let owner = self.numbers.get(number).owner;
        (owner != NONE).then_some(owner)
    }

    fn one_of_many(&mut self, sender: Slot, target: Slot, info: Info, counts: &mut (u32, u32)) {
        counts.0 += 1;
        if self.permitted(sender, target, info.signal) {
            counts.1 += 1;
            if is_unstoppable(info.signal) && self.is_shielded(sender, target) {
                return;
            }
            self.send_or_sigio(target, None, info);
        }
    }

    /// TGKILL
    pub(crate) fn tgkill(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let words = &message.words;
        let (tgid, tid) = (words[1] as i32, words[2] as i32);
        let signal = number(words[3])?;
        let si_code = words[4] as i32;
        if tid <= 0 || tgid == 0 || tgid < -1 {
            return Err(EINVAL);
        }
        let target = self.task(tid as u64).ok_or(ESRCH)?;
        if tgid > 0 && self.processes[target].pid != tgid as u32 {
            return Err(ESRCH);
        }
        if !self.permitted(slot, target, signal) || si_code >= 0 && target != slot {
            return Err(EPERM);
        }
        if self.processes[target].ended.is_some() {
            return done(0);
        }
        let threads = &self.processes[target].threads;
        let at = threads
            .iter()
            .position(|t| t.tid == tid as u32)
            .ok_or(ESRCH)?;
        if is_unstoppable(signal) && self.is_shielded(slot, target) {
            return done(0);
        }
        let mut info = self.from(slot, signal, si_code, words[5]);
        if si_code == code::TIMER && target == slot {
            info.sender = words[7];
        }
        let target = (target, Some(at));
        self.send_from(message, slot, target, info, words[6] & 1 != 0)
    }

    /// SIGNAL_TAKE
    pub(crate) fn signal_take(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        Ok(Outcome::words(&self.take(slot, message.token as u32)))
    }

    /// The most important signal for a thread, as the words of SIGNAL_TAKE's answer.
    fn take(&mut self, slot: Slot, thread: Id) -> [u64; 5] {
        let process = &mut self.processes[slot];
        let own = process.thread(thread).and_then(|t| t.queue.take());
        let thread_only = own.is_some();
        let Some(info) = own.or_else(|| process.queue.take()) else {
            return [0, 0, 0, 0, self.trace_bits(slot, thread)];
        };
        if bit(info.signal) & STOPS != 0 {
            process.stop_taken = true;
            process.stop_cancelled = false;
        }
        let rest =
            process.thread(thread).map_or(0, |t| t.queue.pending()) | process.queue.pending();
        let bits = [
            (thread_only, taken::THREAD),
            (rest != 0, taken::MORE),
            (self.tells_of(slot, &info), taken::TELL),
        ];
        let bits = bits
            .iter()
            .filter(|(is, _)| *is)
            .fold(0, |all, (_, bit)| all | bit);
        let bits = bits | self.trace_bits(slot, thread);
        [
            info.signal as u64,
            info.code as i64 as u64,
            info.sender,
            info.value,
            bits,
        ]
    }

    /// SIGNAL_STATE. What is ignored from now on is no longer pending.
    pub(crate) fn signal_state(&mut self, slot: Slot, words: &[u64; 8]) -> Result<Outcome, Errno> {
        let ignored = words[1] & !UNSTOPPABLE;
        let new = Dispositions {
            ignored,
            caught: words[2] & !UNSTOPPABLE,
            no_zombies: words[3] & 1 != 0,
            no_stop_signal: words[3] & 2 != 0,
        };
        let old = core::mem::replace(&mut self.processes[slot].dispositions, new);
        if self.processes[slot].traced == 0 {
            self.discard(slot, ignored);
        }
        self.timers_heard(slot, old.ignored & !ignored | new.caught & !old.caught);
        done(0)
    }

    /// News of a child: SIGCHLD, or the signal that the child was made with (0: none), and the answer for those who wait. The signal is pending first, as on Linux: who was
    /// answered must not be interrupted by it in a later call.
    pub(crate) fn tell_news(&mut self, parent: Slot, info: Info) {
        if info.signal != 0 {
            let _ = self.send(parent, None, info);
        }
        self.wake_waiters(parent);
    }

    /// A signal of the system itself.
    pub(crate) fn system_signal(&mut self, slot: Slot, number: u32) {
        let info = Info {
            signal: number,
            code: code::KERNEL,
            ..Info::default()
        };
        let _ = self.send(slot, None, info);
    }
}

/// Result of signalling many: (found, permitted).
fn verdict(counts: (u32, u32)) -> Result<Outcome, Errno> {
    match counts {
        (0, _) => Err(ESRCH),
        (_, 0) => Err(EPERM),
        _ => done(0),
    }
}

/// The signal that a processor exception stands for.
pub fn of_exception(vector: u64) -> u32 {
    match vector {
        0 | 16 | 19 => signal::SIGFPE,
        1 | 3 => signal::SIGTRAP,
        6 => signal::SIGILL,
        17 => signal::SIGBUS,
        _ => signal::SIGSEGV,
    }
}
