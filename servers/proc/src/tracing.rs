//! ptrace(2): who traces whom, and the stops of traced threads.
//!
//! A thread that is traced stops by itself: its personality asks (TRACE_STOP) at each point where Linux would stop it, and is left waiting here until its
//! tracer lets it go on. Who may
//! trace it is decided here alone, from what `proc` knows of both; so is whether it stops, what its tracer is told, and what becomes of a signal. Its registers
//! come with the request and
//! are read and written there; memory is `vm`'s (READ_FROM, WRITE_INTO). A thread that does not ask tells its tracer nothing, and its process is ended as ever.
//!
//! The tracer is a process. What always holds: a thread with [`Thread::traced`] is in its tracer's [`Tracer::tracees`], and its process's `traced` counts it.

use crate::credentials::may_look_into;
use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::process::{Beginning, Held, Report};
use crate::signal::{code, Info, SIGCHLD, SIGKILL, SIGSTOP, SIGTRAP};
use crate::stop::stop_signal;
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_abi::layout::{PAGE, PERSONALITY};
use cairn_abi::service::thread;
use cairn_abi::Token;
use cairn_idl::capability::SYS_PTRACE;
use cairn_idl::errno::{EAGAIN, EINVAL, EIO, ENOMEM, EPERM, ESRCH};
use cairn_idl::proc::{
    changed, taken, Credentials, Resume, Stop, TRACE_BYTES, TRACE_INQUIRE, TRACE_READ, TRACE_WRITE,
};
use cairn_rt::Received;

/// Requests of ptrace(2).
mod request {
    pub const TRACEME: u64 = 0;
    pub const PEEKTEXT: u64 = 1;
    pub const PEEKDATA: u64 = 2;
    pub const POKETEXT: u64 = 4;
    pub const POKEDATA: u64 = 5;
    pub const CONT: u64 = 7;
    pub const KILL: u64 = 8;
    pub const SINGLESTEP: u64 = 9;
    pub const ATTACH: u64 = 16;
    pub const DETACH: u64 = 17;
    pub const SYSCALL: u64 = 24;
    pub const SETOPTIONS: u64 = 0x4200;
    pub const GETEVENTMSG: u64 = 0x4201;
    pub const SEIZE: u64 = 0x4206;
    pub const INTERRUPT: u64 = 0x4207;
    pub const LISTEN: u64 = 0x4208;
}

/// PTRACE_EVENT_*; the option that asks for one is 1 << its number.
pub mod event {
    pub const FORK: u32 = 1;
    pub const VFORK: u32 = 2;
    pub const CLONE: u32 = 3;
    pub const EXEC: u32 = 4;
    pub const VFORK_DONE: u32 = 5;
    pub const EXIT: u32 = 6;
    pub const STOP: u32 = 128;
}

mod option {
    pub const SYSGOOD: u32 = 1;
    pub const EXITKILL: u32 = 1 << 20;
    /// TRACESECCOMP (there are no such stops), EXITKILL, and all below it.
    pub const KNOWN: u64 = 0x10_00ff;
}

/// What a thread is to stop for as soon as it asks.
mod wanted {
    pub const INTERRUPT: u32 = 1;
    pub const GROUP: u32 = 2;
    pub const BIRTH: u32 = 4;
    /// The group's stop is over, which who listens is told.
    pub const CONTINUED: u32 = 8;
}

const NO_PAGE: u64 = u64::MAX;

/// A thread that is traced.
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    tracer: Slot,
    options: u32,
    seized: bool,
    wanted: u32,
    /// The event of which EVENT tells, and its message; 0: none.
    event: (u32, u64),
    /// Of the last stop that had one.
    message: u64,
    how: Resume,
    /// The stop that it is in, and the wait status that tells of it.
    stop: Stop,
    status: u32,
    /// Its tracer was not told yet.
    news: bool,
    /// Stopped with its group; waits for the end of that.
    group: bool,
    listens: bool,
    changed: u64,
    /// It brings a page for its tracer, and is as good as stopped; the page that it brought last.
    touches: bool,
    touched: u64,
}

/// What a process has of those that it traces.
#[derive(Debug, Default)]
pub struct Tracer {
    /// Numbers of threads.
    tracees: Vec<u32>,
    /// Threads that ended: number, wait status, user.
    ended: VecDeque<(u32, u32, u32)>,
}

impl Tracer {
    /// Has it anybody, or news of somebody?
    pub fn is_busy(&self) -> bool {
        !self.tracees.is_empty() || !self.ended.is_empty()
    }
}

/// Of those that a WAIT may mean.
pub enum News {
    Nobody,
    /// There are some.
    Nothing,
    Ended(usize),
    Stopped(u32),
}

/// A stop's wait status.
fn status_of(signal: u32, event: u32) -> u32 {
    event << 16 | signal << 8 | 0x7f
}

impl<S: System> Manager<S> {
    /// Linux's access check for attaching: by real ids ([`Manager::may_trace`] goes by effective ones), and nobody traces a process in which its program has
    /// not begun.
    pub(crate) fn may_attach(&self, by: Slot, of: Slot) -> bool {
        let target = &self.processes[of];
        let creds = &self.processes[by].creds;
        let real = Credentials {
            euid: creds.ruid,
            egid: creds.rgid,
            effective: creds.permitted,
            ..*creds
        };
        let capable = self.is_capable(by, &target.user, SYS_PTRACE);
        target.beginning == Beginning::Over
            && may_look_into(&real, &target.creds, target.dumpable == 1, capable)
    }

    /// A thread by its number: its process and place.
    pub(crate) fn thread_of(&self, tid: u64) -> Option<(Slot, usize)> {
        let slot = self.numbers.get(tid).owner;
        if slot == NONE || !self.processes[slot].alive() {
            return None;
        }
        let threads = &self.processes[slot].threads;
        let at = threads.iter().position(|t| u64::from(t.tid) == tid)?;
        Some((slot, at))
    }

    /// TRACE
    pub(crate) fn trace(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, request, tid, address, data, ..] = message.words;
        match request {
            request::TRACEME => return self.trace_me(message, slot),
            request::ATTACH => return self.trace_attach(slot, tid, None),
            request::SEIZE if address != 0 || data & !option::KNOWN != 0 => return Err(EIO),
            request::SEIZE => return self.trace_attach(slot, tid, Some(data as u32)),
            _ => {}
        }
        let (of, at) = self.thread_of(tid).ok_or(ESRCH)?;
        let (thread, domain) = {
            let process = &self.processes[of];
            (&process.threads[at], process.domain)
        };
        let traced = thread.traced.filter(|t| t.tracer == slot).ok_or(ESRCH)?;
        let (token, stopped) = (thread.token, thread.held == Held::Traced);
        if traced.touches && !matches!(request, request::KILL | request::INTERRUPT) {
            return Err(EAGAIN);
        }
        match request {
            request::KILL => {
                self.doom(of, SIGKILL);
                return done(0);
            }
            request::INTERRUPT if !traced.seized => return Err(EIO),
            request::INTERRUPT => {
                if stopped && !traced.listens {
                    self.traced(of, at, |t| t.wanted |= wanted::INTERRUPT);
                } else if stopped {
                    self.trace_report(of, at, Stop::Check, status_of(SIGTRAP, event::STOP));
                } else {
                    self.traced(of, at, |t| t.wanted |= wanted::INTERRUPT);
                    self.poke_thread(of, at);
                }
                return done(0);
            }
            _ => {}
        }
        if !stopped || traced.listens {
            return Err(ESRCH);
        }
        match request {
            request::PEEKTEXT | request::PEEKDATA => {
                let mut word = [0; 8];
                match self.system.read_from(domain.id, address, &mut word) {
                    Ok(8) => {}
                    _ => return Err(self.trace_touch(of, at, address, 8).unwrap_or(EIO)),
                }
                self.answer(message, &word)?;
                done(8)
            }
            request::POKETEXT | request::POKEDATA => {
                if address > PERSONALITY - 8 {
                    return Err(EIO);
                }
                let word = data.to_le_bytes();
                match self.system.write_for_tracer(domain.id, address, &word) {
                    Ok(8) => done(0),
                    _ => Err(self.trace_touch(of, at, address, 8).unwrap_or(EIO)),
                }
            }
            TRACE_READ => self.trace_read(message, token, address),
            TRACE_WRITE => {
                self.trace_write(message, token, address)?;
                self.traced(of, at, |t| t.changed |= data);
                done(0)
            }
            TRACE_INQUIRE => Ok(Outcome::words(&[
                0,
                traced.stop.word(),
                traced.message,
                u64::from(traced.status),
            ])),
            request::GETEVENTMSG => Ok(Outcome::words(&[0, traced.message])),
            request::SETOPTIONS if data & !option::KNOWN != 0 => Err(EINVAL),
            request::SETOPTIONS => {
                self.traced(of, at, |t| t.options = data as u32);
                done(0)
            }
            request::LISTEN if !traced.seized || traced.status >> 16 != event::STOP => Err(EIO),
            request::LISTEN => {
                self.traced(of, at, |t| {
                    t.listens = true;
                    t.news = false;
                });
                if traced.group && self.processes[of].stopped.is_none() {
                    self.traced(of, at, |t| t.group = false);
                    self.trace_report(of, at, Stop::Check, status_of(SIGTRAP, event::STOP));
                }
                done(0)
            }
            _ if !matches!(
                request,
                request::CONT | request::SYSCALL | request::SINGLESTEP | request::DETACH
            ) =>
            {
                Err(EIO)
            }
            _ if data > u64::from(crate::signal::LAST) => Err(EIO),
            request::DETACH => {
                self.untrace(of, at, data);
                done(0)
            }
            _ => {
                let how = match request {
                    request::CONT => Resume::Run,
                    request::SYSCALL => Resume::Calls,
                    _ => Resume::Step,
                };
                self.trace_go_on(of, at, how, data);
                done(0)
            }
        }
    }

    fn trace_me(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let caller = message.token as u32;
        let process = &self.processes[slot];
        let parent = process.parent;
        let at = process.threads.place(caller).ok_or(ESRCH)?;
        if process.threads[at].traced.is_some() || parent == NONE || !self.processes[parent].alive()
        {
            return Err(EPERM);
        }
        let (own, above) = (&process.creds, &self.processes[parent].creds);
        let no_more = own.user_space == above.user_space && own.permitted & !above.permitted == 0;
        if !no_more && !self.is_capable(parent, &process.user, SYS_PTRACE) {
            return Err(EPERM);
        }
        self.trace_begin(parent, slot, at, 0, false)?;
        done(0)
    }

    fn trace_attach(&mut self, slot: Slot, tid: u64, seize: Option<u32>) -> Result<Outcome, Errno> {
        let (of, at) = self.thread_of(tid).ok_or(ESRCH)?;
        let traced = self.processes[of].threads[at].traced.is_some();
        if of == slot || traced || self.is_first(of) || !self.may_attach(slot, of) {
            return Err(EPERM);
        }
        self.trace_begin(slot, of, at, seize.unwrap_or(0), seize.is_some())?;
        if self.processes[of].stopped.is_some() {
            // It stops once more, where its tracer sees its registers; the others stay as they are.
            self.traced(of, at, |t| t.wanted |= wanted::GROUP);
            self.poke_thread(of, at);
            self.thaw(of, at);
        } else if seize.is_none() {
            let info = Info {
                signal: SIGSTOP,
                code: 0,
                ..Info::default()
            };
            let _ = self.processes[of].threads[at].queue.push(info);
            self.poke_thread(of, at);
        } else {
            // It hears that it is traced.
            self.poke_thread(of, at);
        }
        done(0)
    }

    /// From now on this thread is traced.
    fn trace_begin(
        &mut self,
        tracer: Slot,
        of: Slot,
        at: usize,
        options: u32,
        seized: bool,
    ) -> Result<(), Errno> {
        let tid = self.processes[of].threads[at].tid;
        let tracees = &mut self.processes[tracer].tracer.tracees;
        tracees.try_reserve(1).map_err(|_| ENOMEM)?;
        tracees.push(tid);
        let process = &mut self.processes[of];
        process.threads[at].traced = Some(Traced {
            tracer,
            options,
            seized,
            wanted: 0,
            event: (0, 0),
            message: 0,
            how: Resume::Run,
            stop: Stop::Check,
            status: 0,
            news: false,
            group: false,
            listens: false,
            changed: 0,
            touches: false,
            touched: NO_PAGE,
        });
        process.traced += 1;
        if process.traced == 1 {
            self.turn(of);
        }
        Ok(())
    }

    fn traced(&mut self, of: Slot, at: usize, change: impl FnOnce(&mut Traced)) {
        if let Some(traced) = &mut self.processes[of].threads[at].traced {
            change(traced);
        }
    }

    /// Poke this thread and no other.
    fn poke_thread(&mut self, of: Slot, at: usize) {
        let (domain, id) = {
            let process = &self.processes[of];
            (process.domain, process.threads[at].id)
        };
        let _ = self.system.control(domain, id, thread::POKE, [0; 3]);
    }

    /// A thread of a stopped process runs again, to stop for its tracer; the others go on being stopped, each by itself.
    fn thaw(&mut self, of: Slot, at: usize) {
        let domain = self.processes[of].domain;
        if core::mem::take(&mut self.processes[of].frozen) {
            for other in 0..self.processes[of].threads.len() {
                self.freeze_thread(of, other);
            }
            self.system.resume(domain);
        }
        self.thaw_thread(of, at);
        if self.processes[of].threads[at].held == Held::Continue {
            self.release(of, at, [0; 8]);
        }
    }

    fn freeze_thread(&mut self, of: Slot, at: usize) {
        let domain = self.processes[of].domain;
        let thread = &mut self.processes[of].threads[at];
        if !core::mem::replace(&mut thread.frozen, true) {
            let id = thread.id;
            let _ = self.system.control(domain, id, thread::STOP, [0; 3]);
        }
    }

    fn thaw_thread(&mut self, of: Slot, at: usize) {
        let domain = self.processes[of].domain;
        let thread = &mut self.processes[of].threads[at];
        if core::mem::take(&mut thread.frozen) {
            let id = thread.id;
            let _ = self.system.control(domain, id, thread::CONTINUE, [0; 3]);
        }
    }

    fn trace_read(
        &mut self,
        message: &Received,
        token: Token,
        offset: u64,
    ) -> Result<Outcome, Errno> {
        let mut bytes = [0; TRACE_BYTES as usize];
        let left = TRACE_BYTES.checked_sub(offset).ok_or(EIO)?;
        let bytes = &mut bytes[..message.in_len.min(left as usize)];
        match self.system.read(token, offset, bytes) {
            Ok(count) if count == bytes.len() => {}
            _ => return Err(EIO),
        }
        self.answer(message, bytes)?;
        done(bytes.len() as i64)
    }

    fn trace_write(&mut self, message: &Received, token: Token, offset: u64) -> Result<(), Errno> {
        let left = TRACE_BYTES.checked_sub(offset).ok_or(EIO)?;
        let bytes = self.bytes(message, 0, message.out_len.min(left as usize))?;
        match self.system.write(token, offset, &bytes) {
            Ok(count) if count == bytes.len() => Ok(()),
            _ => Err(EIO),
        }
    }

    /// TRACE_STOP
    pub(crate) fn trace_stop(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, why, detail, ..] = message.words;
        let why = Stop::from_word(why).ok_or(EINVAL)?;
        let at = self.processes[slot].threads.place(message.token as u32);
        let at = at.ok_or(ESRCH)?;
        let Some(traced) = self.processes[slot].threads[at].traced else {
            return Ok(Outcome::words(&[0, Resume::Untraced.word(), detail]));
        };
        if traced.touches {
            self.traced(slot, at, |t| t.touches = false);
            return match self.hold(slot, message.token, Held::Traced) {
                true => Ok(Outcome::Later),
                false => Err(ESRCH),
            };
        }
        let has = |event: u32| traced.options >> event & 1 != 0;
        let status = match why {
            Stop::Entry | Stop::Exit if traced.how == Resume::Calls => {
                let good = traced.options & option::SYSGOOD != 0;
                Some(status_of(SIGTRAP | u32::from(good) << 7, 0))
            }
            Stop::Entry | Stop::Exit => None,
            Stop::Signal => Some(status_of(crate::kill::number(detail)?, 0)),
            Stop::Check => self.trace_wanted(slot, at, &traced),
            Stop::Event => {
                self.traced(slot, at, |t| t.event = (0, 0));
                match traced.event {
                    (0, _) => None,
                    (event, told) => {
                        self.traced(slot, at, |t| t.message = told);
                        Some(status_of(SIGTRAP, event))
                    }
                }
            }
            Stop::End if has(event::EXIT) => {
                self.traced(slot, at, |t| t.message = detail);
                Some(status_of(SIGTRAP, event::EXIT))
            }
            Stop::End => None,
            Stop::VforkDone if has(event::VFORK_DONE) => {
                self.traced(slot, at, |t| t.message = detail);
                Some(status_of(SIGTRAP, event::VFORK_DONE))
            }
            Stop::VforkDone => None,
            Stop::Group => self.trace_group(slot, at, detail)?,
        };
        let Some(status) = status else {
            let Some(traced) = self.processes[slot].threads[at].traced else {
                return Ok(Outcome::words(&[0, Resume::Untraced.word(), detail]));
            };
            return Ok(Outcome::words(&[
                0,
                traced.how.word(),
                detail,
                again(&traced),
            ]));
        };
        if !self.hold(slot, message.token, Held::Traced) {
            return Err(ESRCH);
        }
        self.traced(slot, at, |t| t.changed = 0);
        self.trace_report(slot, at, why, status);
        Ok(Outcome::Later)
    }

    /// What a thread that asks is to stop for.
    fn trace_wanted(&mut self, slot: Slot, at: usize, traced: &Traced) -> Option<u32> {
        let stopped = self.processes[slot].stopped;
        let of_group = traced.wanted & wanted::GROUP != 0;
        let others = traced.wanted & (wanted::INTERRUPT | wanted::BIRTH | wanted::CONTINUED) != 0;
        self.traced(slot, at, |t| t.wanted = 0);
        match (stopped, traced.seized) {
            (Some(signal), seized) if of_group || others && seized => {
                self.traced(slot, at, |t| t.group = true);
                Some(status_of(signal, if seized { event::STOP } else { 0 }))
            }
            (_, true) if others => Some(status_of(SIGTRAP, event::STOP)),
            _ => None,
        }
    }

    /// The default action of a stop signal in a process that is traced: each of its threads stops for its tracer, or by the nucleus if it has none.
    fn trace_group(&mut self, slot: Slot, at: usize, signal: u64) -> Result<Option<u32>, Errno> {
        let signal = stop_signal(signal)?;
        if !self.stop_is_due(slot, signal) {
            return Ok(None);
        }
        let group = self.processes[slot].group;
        if self.processes[slot].stopped.is_none() {
            self.processes[slot].stopped = Some(signal);
            self.groups[group].stopped += 1;
            for other in (0..self.processes[slot].threads.len()).filter(|other| *other != at) {
                if self.processes[slot].threads[other].traced.is_some() {
                    self.traced(slot, other, |t| t.wanted |= wanted::GROUP);
                    self.poke_thread(slot, other);
                } else {
                    self.freeze_thread(slot, other);
                }
            }
            let (parent, tracer) = {
                let process = &self.processes[slot];
                (process.parent, process.threads[at].traced.map(|t| t.tracer))
            };
            if Some(parent) != tracer {
                self.set_report(slot, Report::Stopped(signal));
                self.announce(slot, parent, code::STOPPED, signal);
            }
        }
        self.traced(slot, at, |t| t.group = true);
        let seized = self.processes[slot].threads[at]
            .traced
            .is_some_and(|t| t.seized);
        Ok(Some(status_of(
            signal,
            if seized { event::STOP } else { 0 },
        )))
    }

    /// SIGCONT: who listens is told; others go on when their tracer says so, and what was stopped without a tracer at once.
    pub(crate) fn trace_continued(&mut self, slot: Slot) {
        for at in 0..self.processes[slot].threads.len() {
            self.thaw_thread(slot, at);
            let Some(traced) = self.processes[slot].threads[at].traced else {
                continue;
            };
            self.traced(slot, at, |t| t.wanted &= !wanted::GROUP);
            if traced.listens && traced.group {
                self.traced(slot, at, |t| t.group = false);
                self.trace_report(slot, at, Stop::Check, status_of(SIGTRAP, event::STOP));
            } else if traced.group
                && traced.seized
                && self.processes[slot].threads[at].held == Held::Nothing
            {
                self.traced(slot, at, |t| t.wanted |= wanted::CONTINUED);
                self.poke_thread(slot, at);
            }
        }
    }

    /// The thread is stopped like this: its tracer hears of it.
    fn trace_report(&mut self, of: Slot, at: usize, stop: Stop, status: u32) {
        self.traced(of, at, |t| {
            t.stop = stop;
            t.status = status;
            t.news = true;
            t.listens = false;
        });
        let thread = &self.processes[of].threads[at];
        let (tid, tracer) = (thread.tid, thread.traced.map(|t| t.tracer));
        if let Some(tracer) = tracer {
            self.tell_tracer(tracer, of, tid, code::TRAPPED, status >> 8);
        }
    }

    fn tell_tracer(&mut self, tracer: Slot, of: Slot, tid: u32, code: i32, value: u32) {
        let mut info = self.processes[of].child_info(code, value);
        info.sender = info.sender & !0xffff_ffff | u64::from(tid);
        let stops = code == code::TRAPPED;
        if stops && self.processes[tracer].dispositions.no_stop_signal {
            info.signal = 0;
        } else {
            info.signal = SIGCHLD;
        }
        self.tell_news(tracer, info);
    }

    /// A stopped thread goes on, with this signal.
    fn trace_go_on(&mut self, of: Slot, at: usize, how: Resume, signal: u64) {
        let Some(traced) = self.processes[of].threads[at].traced else {
            return;
        };
        self.traced(of, at, |t| {
            t.how = how;
            t.news = false;
            t.listens = false;
            t.changed = 0;
            t.touched = NO_PAGE;
        });
        let tracer = self.processes[traced.tracer].pid;
        let tracer = self.as_seen(of, tracer);
        let words = [
            0,
            how.word(),
            signal,
            traced.changed | again(&traced),
            u64::from(tracer),
            0,
            0,
            0,
        ];
        self.release(of, at, words);
    }

    /// These bytes of a stopped thread's memory are not all there: a page that a file's server has is brought by the thread itself. None: it was, in vain.
    fn trace_touch(&mut self, of: Slot, at: usize, address: u64, length: u64) -> Option<Errno> {
        let traced = self.processes[of].threads[at].traced?;
        let last = address
            .checked_add(length - 1)
            .filter(|last| *last < PERSONALITY)?;
        let (first, last) = (address / PAGE, last / PAGE);
        let page = match traced.touched {
            page if page == last => return None,
            page if page == first => last,
            _ => first,
        };
        self.traced(of, at, |t| (t.touches, t.touched) = (true, page));
        let how = Resume::Touch.word();
        self.release(of, at, [0, how, page * PAGE, 0, 0, 0, 0, 0]);
        Some(EAGAIN)
    }

    /// The same for whoever asks by the process: one of its threads has stopped for him.
    pub(crate) fn trace_touch_any(&mut self, slot: Slot, of: Slot, address: u64) -> Option<Errno> {
        let threads = &self.processes[of].threads;
        let mut all = 0..threads.len();
        let at = all.find(|at| threads[*at].traced.is_some_and(|t| t.tracer == slot))?;
        let thread = &threads[at];
        if thread.traced.is_some_and(|t| t.touches) {
            return Some(EAGAIN);
        }
        match thread.held {
            Held::Traced => self.trace_touch(of, at, address, 1),
            _ => None,
        }
    }

    /// Nobody traces this thread any more.
    fn untrace(&mut self, of: Slot, at: usize, signal: u64) {
        let thread = &mut self.processes[of].threads[at];
        let held = thread.held == Held::Traced;
        let Some(traced) = thread.traced.take() else {
            return;
        };
        let tid = thread.tid;
        self.processes[traced.tracer]
            .tracer
            .tracees
            .retain(|other| *other != tid);
        let process = &mut self.processes[of];
        process.traced -= 1;
        if process.traced == 0 && process.alive() {
            self.turn(of);
        }
        if self.processes[of].stopped.is_some() && self.processes[of].alive() {
            self.freeze_thread(of, at);
        }
        if held {
            let words = [
                0,
                Resume::Untraced.word(),
                signal,
                traced.changed,
                0,
                0,
                0,
                0,
            ];
            self.release(of, at, words);
        }
    }

    /// A thread ends with this wait status (None: it goes on as the process's only one, whose number it takes).
    pub(crate) fn trace_thread_ended(&mut self, of: Slot, at: usize, status: u32) {
        let process = &self.processes[of];
        let thread = &process.threads[at];
        let Some(traced) = thread.traced else {
            return;
        };
        let (tid, uid) = (thread.tid, process.creds.ruid);
        // A child's end its parent hears as ever.
        let is_child = tid == process.pid && process.parent == traced.tracer;
        self.untrace(of, at, 0);
        if is_child || !self.processes[traced.tracer].alive() {
            return;
        }
        let ended = &mut self.processes[traced.tracer].tracer.ended;
        if ended.try_reserve(1).is_ok() {
            ended.push_back((tid, status, uid));
            let (code, value) = match status & 0x7f {
                0 => (code::EXITED, status >> 8 & 0xff),
                signal => (code::KILLED, signal),
            };
            self.tell_tracer(traced.tracer, of, tid, code, value);
        }
    }

    /// The number of a traced thread changes (exec of another thread than the first).
    pub(crate) fn trace_renamed(&mut self, of: Slot, at: usize, old: u32, new: u32) {
        if let Some(traced) = self.processes[of].threads[at].traced {
            let tracees = &mut self.processes[traced.tracer].tracer.tracees;
            if let Some(tid) = tracees.iter_mut().find(|tid| **tid == old) {
                *tid = new;
            }
        }
    }

    /// A process ends with this wait status: as one that is traced, and as a tracer.
    pub(crate) fn trace_process_ends(&mut self, slot: Slot, status: u32) {
        if self.processes[slot].traced != 0 {
            for at in 0..self.processes[slot].threads.len() {
                self.trace_thread_ended(slot, at, status);
            }
        }
        if !self.processes[slot].tracer.is_busy() {
            return;
        }
        let tracees = core::mem::take(&mut self.processes[slot].tracer).tracees;
        for tid in tracees {
            let Some((of, at)) = self.thread_of(u64::from(tid)) else {
                continue;
            };
            let traced = self.processes[of].threads[at].traced;
            if traced.is_some_and(|t| t.options & option::EXITKILL != 0) {
                self.doom(of, SIGKILL);
            }
            self.untrace(of, at, 0);
        }
    }

    /// What a thread hears when it takes signals.
    pub(crate) fn trace_bits(&mut self, slot: Slot, id: cairn_abi::Id) -> u64 {
        let traced = self.processes[slot].thread(id).and_then(|t| t.traced);
        match traced {
            None => 0,
            Some(traced) if traced.wanted == 0 => taken::TRACED,
            Some(_) => taken::TRACED | taken::STOP,
        }
    }

    /// A traced thread makes a process or thread: is its tracer told, and does it trace the child as well?
    pub(crate) fn trace_follows(&self, slot: Slot, by: cairn_abi::Id, event: u32) -> bool {
        let at = self.processes[slot].threads.place(by);
        let traced = at.and_then(|at| self.processes[slot].threads[at].traced);
        traced.is_some_and(|t| t.options >> event & 1 != 0)
    }

    /// The child is there and does not run yet.
    pub(crate) fn trace_child(
        &mut self,
        (slot, by): (Slot, cairn_abi::Id),
        (child, at): (Slot, usize),
        event: u32,
    ) {
        let place = self.processes[slot].threads.place(by);
        let Some(place) = place else { return };
        let Some(traced) = self.processes[slot].threads[place].traced else {
            return;
        };
        let begun = self.trace_begin(traced.tracer, child, at, traced.options, traced.seized);
        if begun.is_err() {
            return;
        }
        let tid = self.processes[child].threads[at].tid;
        if traced.seized {
            self.traced(child, at, |t| t.wanted |= wanted::BIRTH);
        } else {
            let info = Info {
                signal: SIGSTOP,
                ..Info::default()
            };
            let _ = self.processes[child].threads[at].queue.push(info);
        }
        let seen = self.as_seen(traced.tracer, tid);
        self.traced(slot, place, |t| t.event = (event, u64::from(seen)));
    }

    /// The process's only thread has executed a program; `former` is the number that it had.
    pub(crate) fn trace_executed(&mut self, slot: Slot, former: u32) {
        let Some(traced) = self.processes[slot].threads.first().and_then(|t| t.traced) else {
            return;
        };
        if traced.options >> event::EXEC & 1 != 0 {
            let seen = self.as_seen(traced.tracer, former);
            self.traced(slot, 0, |t| t.event = (event::EXEC, u64::from(seen)));
        } else if !traced.seized {
            let info = self.from(slot, SIGTRAP, 0, 0);
            let _ = self.processes[slot].threads[0].queue.push(info);
            self.poke_thread(slot, 0);
        }
    }

    /// TRACE_VFORK
    pub(crate) fn trace_vfork(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let pid = message.words[1];
        let waits = self.numbers.process(pid).is_some_and(|child| {
            self.processes[child].vfork_parent && self.processes[child].ended.is_none()
        });
        if waits && self.hold(slot, message.token, Held::Vfork(pid as u32)) {
            return Ok(Outcome::Later);
        }
        done(pid as i64)
    }

    /// Of the threads that this process traces: is there news of one that WAIT means?
    pub(crate) fn trace_news(&self, slot: Slot, means: impl Fn(u32, Slot) -> bool) -> News {
        let tracer = &self.processes[slot].tracer;
        let mut news = News::Nobody;
        for (at, (tid, ..)) in tracer.ended.iter().enumerate() {
            if means(*tid, NONE) {
                return News::Ended(at);
            }
        }
        for tid in &tracer.tracees {
            let Some((of, at)) = self.thread_of(u64::from(*tid)) else {
                continue;
            };
            if !means(*tid, of) {
                continue;
            }
            news = News::Nothing;
            if self.processes[of].threads[at]
                .traced
                .is_some_and(|t| t.news)
            {
                return News::Stopped(*tid);
            }
        }
        news
    }

    /// Tell of it: number, wait status, user, and that it is a tracer's.
    pub(crate) fn trace_told(&mut self, slot: Slot, news: News, keep: bool) -> Option<[u64; 4]> {
        let (tid, status, uid) = match news {
            News::Ended(at) => {
                let ended = &mut self.processes[slot].tracer.ended;
                let told = *ended.get(at)?;
                if !keep {
                    ended.remove(at);
                }
                told
            }
            News::Stopped(tid) => {
                let (of, at) = self.thread_of(u64::from(tid))?;
                let status = self.processes[of].threads[at].traced?.status;
                if !keep {
                    self.traced(of, at, |t| t.news = false);
                }
                (tid, status, self.processes[of].creds.ruid)
            }
            News::Nobody | News::Nothing => return None,
        };
        let seen = self.as_seen(slot, tid);
        Some([seen.into(), status.into(), uid.into(), 1])
    }

    /// Who traces the process's first thread, and whether that one is stopped: what /proc shows.
    pub(crate) fn trace_shown(&self, slot: Slot) -> (u32, bool) {
        let process = &self.processes[slot];
        let Some(thread) = process.threads.first().filter(|_| process.traced != 0) else {
            return (0, false);
        };
        let tracer = thread.traced.map_or(0, |t| self.processes[t.tracer].pid);
        (tracer, thread.held == Held::Traced)
    }
}

fn again(traced: &Traced) -> u64 {
    match traced.wanted {
        0 => 0,
        _ => changed::AGAIN,
    }
}
