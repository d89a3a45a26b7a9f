//! WAIT: which child, what about it, now or later; and the end of zombies.

use crate::dispatch::Outcome;
use crate::kin::Class;
use crate::manager::Manager;
use crate::process::{Held, Report};
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use crate::tracing::News;
use cairn_idl::errno::{ECHILD, EFAULT, EINVAL, ESRCH};
use cairn_rt::Received;

const P_ALL: u64 = 0;
const P_PID: u64 = 1;
const P_PGID: u64 = 2;
const P_PIDFD: u64 = 3;
const WNOHANG: u64 = 1;
const WSTOPPED: u64 = 2;
const WEXITED: u64 = 4;
const WCONTINUED: u64 = 8;
const WNOWAIT: u64 = 0x0100_0000;
/// __WNOTHREAD, __WALL, __WCLONE: all children are waited for alike here.
const THREAD_BITS: u64 = 0xe000_0000;

/// Which children a call of WAIT means, and what about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    kind: u64,
    /// Process number, group number or life.
    id: u64,
    options: u64,
    /// The caller has room for a `struct rusage`.
    usage: bool,
}

enum Search {
    Found(Slot),
    /// Of a thread that the caller traces.
    Traced(News),
    /// There are such children but nothing to tell.
    Nothing,
    NoChild,
}

impl<S: System> Manager<S> {
    /// WAIT
    pub(crate) fn wait(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, kind, id, options, ..] = message.words;
        let options = options & u32::MAX as u64;
        if options & !(WNOHANG | WSTOPPED | WEXITED | WCONTINUED | WNOWAIT | THREAD_BITS) != 0
            || options & (WSTOPPED | WEXITED | WCONTINUED) == 0
        {
            return Err(EINVAL);
        }
        let id = match (kind, id) {
            (P_ALL, _) => 0,
            (P_PID, id) if id != 0 => id,
            (P_PGID, 0) => self.groups[self.processes[slot].group].pgid as u64,
            (P_PGID | P_PIDFD, id) => id,
            _ => return Err(EINVAL),
        };
        let wanted = Wanted {
            kind,
            id,
            options,
            usage: message.in_len >= crate::report::USAGE_BYTES,
        };
        match self.search(slot, &wanted) {
            Search::Traced(news) => {
                let keep = options & WNOWAIT != 0;
                let words = self.trace_told(slot, news, keep).ok_or(ECHILD)?;
                Ok(Outcome::words(&words))
            }
            Search::Found(child) => {
                let words = self.deliver(slot, child, &wanted, message.token)?;
                Ok(Outcome::words(&words))
            }
            Search::NoChild => Err(ECHILD),
            Search::Nothing if options & WNOHANG != 0 => Ok(Outcome::words(&[0; 3])),
            Search::Nothing => {
                if self.hold(slot, message.token, Held::Child(wanted)) {
                    Ok(Outcome::Later)
                } else {
                    Err(ESRCH)
                }
            }
        }
    }

    fn means(&self, parent: Slot, child: Slot, wanted: &Wanted) -> bool {
        let process = &self.processes[child];
        process.parent == parent
            && match wanted.kind {
                P_PID => process.pid as u64 == wanted.id,
                P_PIDFD => self.life(child) == wanted.id,
                P_PGID => self.groups[process.group].pgid as u64 == wanted.id,
                _ => true,
            }
    }

    fn has_news(&self, child: Slot, options: u64) -> bool {
        let process = &self.processes[child];
        if process.ended.is_some() {
            return options & WEXITED != 0;
        }
        match process.report {
            Report::Stopped(_) => options & WSTOPPED != 0,
            Report::Continued => options & WCONTINUED != 0,
            Report::Nothing => false,
        }
    }

    fn search(&self, slot: Slot, wanted: &Wanted) -> Search {
        if !self.processes[slot].tracer.is_busy() {
            return self.search_children(slot, wanted);
        }
        let news = self.trace_news(slot, |tid, of| match wanted.kind {
            P_PID => u64::from(tid) == wanted.id,
            P_PGID | P_PIDFD if of == NONE => false,
            P_PIDFD => self.life(of) == wanted.id,
            P_PGID => u64::from(self.groups[self.processes[of].group].pgid) == wanted.id,
            _ => true,
        });
        match news {
            News::Nobody => self.search_children(slot, wanted),
            News::Nothing => match self.search_children(slot, wanted) {
                Search::NoChild => Search::Nothing,
                other => other,
            },
            news => Search::Traced(news),
        }
    }

    fn search_children(&self, slot: Slot, wanted: &Wanted) -> Search {
        if matches!(wanted.kind, P_PID | P_PIDFD) {
            let meant = match wanted.kind {
                P_PID => self.numbers.process(wanted.id),
                _ => self.living(wanted.id),
            };
            return match meant {
                Some(child) if self.means(slot, child, wanted) => {
                    if self.has_news(child, wanted.options) {
                        Search::Found(child)
                    } else {
                        Search::Nothing
                    }
                }
                _ => Search::NoChild,
            };
        }
        if self.processes[slot].has_many_children {
            return self.search_many(slot, wanted);
        }
        let parent = &self.processes[slot];
        let news = parent.zombies + parent.reports != 0;
        let mut any = false;
        let mut child = parent.first_child;
        while child != NONE {
            #[cfg(test)]
            self.looked_at.set(self.looked_at.get() + 1);
            if self.means(slot, child, wanted) {
                any = true;
                if !news {
                    break;
                }
                if self.has_news(child, wanted.options) {
                    return Search::Found(child);
                }
            }
            child = self.processes[child].next;
        }
        if any {
            Search::Nothing
        } else {
            Search::NoChild
        }
    }

    /// The same of a process whose children are in the index.
    fn search_many(&self, slot: Slot, wanted: &Wanted) -> Search {
        let group = match wanted.kind {
            P_PGID => match self.numbers.get(wanted.id).group {
                NONE => return Search::NoChild,
                group => group,
            },
            _ => NONE,
        };
        let classes = [
            (WEXITED, Class::Ended),
            (WSTOPPED, Class::Stopped),
            (WCONTINUED, Class::Continued),
        ];
        let asked = classes.iter().filter(|it| wanted.options & it.0 != 0);
        let eldest = |class| {
            #[cfg(test)]
            self.looked_at.set(self.looked_at.get() + 1);
            self.kin.eldest(slot, group, class)
        };
        let found = asked.filter_map(|it| eldest(it.1)).min();
        match found {
            Some((_, child)) => Search::Found(child),
            None if group == NONE || eldest(Class::All).is_some() => Search::Nothing,
            None => Search::NoChild,
        }
    }

    /// The answer about this child, whose news are then told (unless WNOWAIT).
    fn deliver(
        &mut self,
        slot: Slot,
        child: Slot,
        wanted: &Wanted,
        token: u64,
    ) -> Result<[u64; 3], Errno> {
        if wanted.usage {
            let process = &self.processes[child];
            let cpu = process.cpu + process.child_cpu;
            let peak = process.peak_pages.max(process.child_peak_pages);
            let faults = process.faults + process.child_faults;
            let usage = crate::report::usage(cpu, peak, faults);
            if self.system.write(token, 0, &usage).is_err() {
                return Err(EFAULT);
            }
        }
        let process = &self.processes[child];
        let (pid, uid) = (
            self.as_seen(slot, process.pid) as u64,
            process.creds.ruid as u64,
        );
        let keep = wanted.options & WNOWAIT != 0;
        let status = match (process.ended, process.report) {
            (Some(status), _) => {
                if !keep {
                    let cpu = process.cpu + process.child_cpu;
                    let peak = process.peak_pages.max(process.child_peak_pages);
                    let faults = process.faults + process.child_faults;
                    let parent = &mut self.processes[slot];
                    parent.child_cpu += cpu;
                    parent.child_faults += faults;
                    parent.child_peak_pages = parent.child_peak_pages.max(peak);
                    self.bury(child);
                }
                status
            }
            (None, report) => {
                if !keep {
                    self.set_report(child, Report::Nothing);
                }
                match report {
                    Report::Stopped(signal) => signal << 8 | 0x7f,
                    _ => 0xffff,
                }
            }
        };
        Ok([pid, status as u64, uid])
    }

    /// Something changed among this process's children: answer those of its threads that wait for it.
    pub(crate) fn wake_waiters(&mut self, slot: Slot) {
        for at in 0..self.processes[slot].threads.len() {
            let Held::Child(wanted) = self.processes[slot].threads[at].held else {
                continue;
            };
            let token = self.processes[slot].threads[at].token;
            let words = match self.search(slot, &wanted) {
                Search::Nothing => continue,
                Search::NoChild => [(-ECHILD) as u64, 0, 0, 0],
                Search::Traced(news) => {
                    let keep = wanted.options & WNOWAIT != 0;
                    match self.trace_told(slot, news, keep) {
                        Some(words) => words,
                        None => continue,
                    }
                }
                Search::Found(child) => match self.deliver(slot, child, &wanted, token) {
                    Ok([pid, status, uid]) => [pid, status, uid, 0],
                    Err(errno) => [(-errno) as u64, 0, 0, 0],
                },
            };
            let mut all = [0; 8];
            all[..4].copy_from_slice(&words);
            self.release(slot, at, all);
        }
    }

    /// The zombie is gone: its number and record are free.
    pub(crate) fn bury(&mut self, slot: Slot) {
        self.disown(slot);
        self.leave(slot);
        let process = &mut self.processes[slot];
        process.used = false;
        process.ended = None;
        let (pid, uid) = (process.pid, process.creds.ruid);
        self.numbers.release(pid);
        self.count_user(uid, -1);
        self.count_cgroup(slot, -1);
        self.tasks -= 1;
        self.give_back(slot);
    }
}
