//! Further threads of a process, and calls that are interrupted or whose caller is gone.

use crate::dispatch::Outcome;
use crate::manager::Manager;
use crate::process::{Held, Thread};
use crate::system::{Errno, Start, System};
use crate::table::Slot;
use crate::tracing::event;
use cairn_abi::service::thread;
use cairn_abi::{Id, Token};
use cairn_idl::errno::{EAGAIN, EINTR};
use cairn_idl::proc::TRACED_CHILD;
use cairn_rt::Received;

impl<S: System> Manager<S> {
    /// THREAD_CREATE
    pub(crate) fn thread_create(
        &mut self,
        message: &Received,
        slot: Slot,
    ) -> Result<Outcome, Errno> {
        let [_, rip, rsp, fs_base, gs_base, rdi, ..] = message.words;
        self.check_room(slot)?;
        self.check_cgroup(slot)?;
        self.check_deadline(slot, message.token as u32)?;
        if !self.processes[slot].threads.reserve() {
            return Err(EAGAIN);
        }
        let pids = &self.processes[slot].pids;
        let tid = self.numbers.allocate_in(slot, true, pids).ok_or(EAGAIN)?;
        let by = message.token as u32;
        let follows = self.trace_follows(slot, by, event::CLONE);
        let process = &self.processes[slot];
        let domain = process.domain;
        let scheduling = process.scheduling_of(message.token as u32).inherited();
        let start = Start {
            rip,
            rsp,
            rdi: if follows { TRACED_CHILD } else { rdi },
            fs_base,
            gs_base,
            priority: crate::priority::of(&scheduling, process.shift),
            policy: crate::priority::policy_of(&scheduling),
        };
        let id = match self.system.thread(domain, &start) {
            Ok(id) => id,
            Err(errno) => {
                self.numbers.release(tid);
                return Err(errno);
            }
        };
        let uid = process_uid(self, slot);
        let filters = self.processes[slot].filters_of(by);
        let thread = Thread {
            filters,
            comm: self.processes[slot].comm_of(by),
            ..Thread::new(id, tid, scheduling)
        };
        self.processes[slot].threads.push(thread);
        self.threads.set(id, slot);
        self.count_user(uid, 1);
        self.count_cgroup(slot, 1);
        self.tasks += 1;
        if follows {
            let at = self.processes[slot].threads.len() - 1;
            self.trace_child((slot, by), (slot, at), event::CLONE);
        }
        let at = self.processes[slot].threads.len() - 1;
        self.apply_turn(slot, at);
        let _ = self.system.control(domain, id, thread::START, [0; 3]);
        Ok(Outcome::words(&[tid as u64, id as u64]))
    }

    /// THREAD_EXIT: the caller does not come back.
    pub(crate) fn thread_exit(&mut self, message: &Received, slot: Slot) {
        let id = message.token as u32;
        let status = (message.words[1] & 0xff) << 8;
        let own = self.processes[slot].threads.place(id);
        let others = self.processes[slot].threads.iter().any(|t| t.id != id);
        if !others {
            self.exit(slot, status);
            return;
        }
        if let Some(at) = own {
            self.trace_thread_ended(slot, at, status as u32);
        }
        let domain = self.processes[slot].domain;
        let _ = self.system.control(domain, id, thread::KILL, [0; 3]);
        let at = self.processes[slot].threads.iter().position(|t| t.id == id);
        if let Some(at) = at {
            self.forget_thread(slot, at);
        }
    }

    /// exec: the calling thread is the process's only and first one from now on.
    pub(crate) fn keep_thread(&mut self, slot: Slot, keep: Id) {
        // From the last one on: no other has to be moved up.
        for at in (0..self.processes[slot].threads.len()).rev() {
            if self.processes[slot].threads[at].id != keep {
                self.forget_thread(slot, at);
            }
        }
        let pid = self.processes[slot].pid;
        let old = match self.processes[slot].threads.first_mut() {
            Some(thread) => core::mem::replace(&mut thread.tid, pid),
            None => pid,
        };
        if old != pid {
            self.trace_renamed(slot, 0, old, pid);
            self.release_tid(slot, old);
            // The first thread's place in the counts goes over to this one, which keeps its own: see `forget_thread`.
        }
    }

    /// The thread no longer exists.
    fn forget_thread(&mut self, slot: Slot, at: usize) {
        self.trace_thread_ended(slot, at, 0);
        let thread = self.processes[slot].threads.remove(at);
        self.threads.clear(thread.id, slot);
        self.unhold(slot, thread.held, thread.token);
        self.leave_turn(slot, thread.id);
        if thread.tid != self.processes[slot].pid {
            self.release_tid(slot, thread.tid);
        }
    }

    /// A further thread's number is free again. The process's own number is counted until its parent has waited for it.
    fn release_tid(&mut self, slot: Slot, tid: u32) {
        self.numbers.release(tid);
        let uid = process_uid(self, slot);
        self.count_user(uid, -1);
        self.count_cgroup(slot, -1);
        self.tasks -= 1;
    }

    pub(crate) fn forget_threads(&mut self, slot: Slot) {
        while let Some(last) = self.processes[slot].threads.len().checked_sub(1) {
            self.forget_thread(slot, last);
        }
    }

    /// Whatever the thread waited for, it no longer does.
    fn unhold(&mut self, slot: Slot, held: Held, token: Token) {
        if let Some(deadline) = self.futex_forget(held, token) {
            if deadline != 0 {
                self.timers
                    .remove(&(deadline, slot, crate::timers::of_thread(token)));
            }
        }
    }

    /// Take the held call `token` from its thread, if it is there.
    fn held(&mut self, token: Token) -> Option<(Slot, Held)> {
        let slot = self.thread_owner(token as u32)?;
        let thread = self.processes[slot].thread(token as u32)?;
        (thread.token == token && thread.held != Held::Nothing).then_some((slot, thread.held))
    }

    /// The caller was poked while it waits here. A stopped process and a vfork parent go on waiting.
    pub(crate) fn unblock(&mut self, token: Token) {
        if self.under_way.any() {
            self.interrupt_later(token);
        }
        let Some((slot, held)) = self.held(token) else {
            return;
        };
        match held {
            Held::Child(_) => {}
            Held::Futex(..) | Held::Several(..) => self.unhold(slot, held, token),
            Held::Nothing | Held::Continue | Held::Vfork(_) | Held::Traced => return,
        }
        self.answer_held(slot, token, -EINTR);
    }

    /// The caller no longer exists.
    pub(crate) fn gone(&mut self, token: Token) {
        if self.under_way.any() {
            self.forget_waiting(token);
        }
        let Some((slot, held)) = self.held(token) else {
            return;
        };
        self.unhold(slot, held, token);
        if let Some(thread) = self.processes[slot].thread(token as u32) {
            thread.held = Held::Nothing;
            thread.token = 0;
        }
    }

    /// End a held call with a result.
    pub(crate) fn answer_held(&mut self, slot: Slot, token: Token, result: i64) {
        if let Some(at) = self.processes[slot].threads.place_of(token) {
            self.release(slot, at, [result as u64, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
}

fn process_uid<S: System>(manager: &Manager<S>, slot: Slot) -> u32 {
    manager.processes[slot].creds.ruid
}
