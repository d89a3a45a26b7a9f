//! What ps, top and /proc want to know: processes, their state, times and texts, and the system's load.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::system::{Errno, Faults, System};
use crate::table::{Slot, NONE};
use alloc::vec::Vec;
use cairn_abi::layout::{LINUX_STACK_TOP, PAGE};
use cairn_abi::service::thread;
use cairn_abi::Id;
use cairn_idl::errno::{EFAULT, EINVAL, ENOMEM, ESRCH};
use cairn_idl::first_stack::vector_end;
use cairn_idl::proc::Status;
use cairn_rt::Received;

/// Bytes of `struct rusage`.
pub const USAGE_BYTES: usize = 144;
/// Numbers told in one answer of PIDS or TIDS.
const LIST_MOST: usize = 4096;

const SECOND: u64 = 1_000_000_000;

/// `struct rusage` with what is known here: all CPU time counts as user time, as the system's part is spent in other processes.
pub fn usage(cpu: u64, peak_pages: u64, faults: Faults) -> [u8; USAGE_BYTES] {
    let mut bytes = [0; USAGE_BYTES];
    let words = [
        cpu / SECOND,
        cpu % SECOND / 1000,
        0,
        0,
        peak_pages * (PAGE / 1024),
        // Shared text, unshared data and stack, which Linux does not count either.
        0,
        0,
        0,
        faults.minor,
        faults.major,
    ];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Load averages over 1, 5 and 15 minutes, in 1/65536, brought up to date when somebody asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    averages: [u64; 3],
    /// Up to when, in steps.
    steps: u64,
    /// Threads that want to run, as they were counted; until then nobody counts them anew.
    running: u64,
    counted_until: u64,
}

impl Load {
    const STEP: u64 = 5 * SECOND;
    /// ns for each task until threads are counted again, which takes about a tenth of it.
    const REST: u64 = 10_000;
    /// 65536 · e^(−5 s / 1, 5, 15 min).
    const DECAY: [u64; 3] = [60_296, 64_453, 65_173];

    /// Until `now` there were `running` threads that wanted to run.
    fn update(&mut self, now: u64, running: u64) -> [u64; 3] {
        let steps = now / Self::STEP;
        let count = steps.saturating_sub(self.steps);
        self.steps = steps;
        for (average, decay) in self.averages.iter_mut().zip(Self::DECAY) {
            let kept = power(decay, count);
            *average = (*average * kept + running * 65536 * (65536 - kept)) >> 16;
        }
        self.averages
    }
}

/// `base`^`exponent` of numbers in 1/65536.
fn power(base: u64, exponent: u64) -> u64 {
    let (mut result, mut base, mut exponent) = (65536, base, exponent);
    while exponent != 0 {
        if exponent & 1 != 0 {
            result = (result * base) >> 16;
        }
        base = (base * base) >> 16;
        exponent >>= 1;
    }
    result
}

impl<S: System> Manager<S> {
    /// CPU time of a process so far.
    pub(crate) fn cpu_of(&mut self, slot: Slot) -> u64 {
        let process = &self.processes[slot];
        if process.ended.is_some() {
            return process.cpu;
        }
        let (before, domain) = (process.cpu, process.domain);
        before + self.system.cpu(domain)
    }

    /// RUSAGE
    pub(crate) fn rusage(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let who = message.words[1] as i32;
        let own = self.cpu_of(slot);
        let (cpu, pages, faults) = match who {
            0 => {
                let domain = self.processes[slot].domain.id;
                let space = self.system.space(domain);
                let process = &mut self.processes[slot];
                process.peak_pages = process.peak_pages.max(space.resident);
                (own, process.peak_pages, process.faults + space.faults)
            }
            1 => {
                let domain = self.processes[slot].domain;
                let info = self
                    .system
                    .control(domain, message.token as u32, thread::INFO, [0; 3]);
                let cpu = info.map_or(own, |words| words[0]);
                (cpu, 0, Faults::default())
            }
            // Another thread of the process.
            2 => {
                let of = self.thread_of(message.words[2]);
                let (_, at) = of.filter(|of| of.0 == slot).ok_or(ESRCH)?;
                let process = &self.processes[slot];
                let (domain, id) = (process.domain, process.threads[at].id);
                let info = self.system.control(domain, id, thread::INFO, [0; 3]);
                (info.map_or(0, |words| words[0]), 0, Faults::default())
            }
            -1 => {
                let process = &self.processes[slot];
                let pages = process.child_peak_pages;
                (process.child_cpu, pages, process.child_faults)
            }
            _ => return Err(EINVAL),
        };
        if message.in_len >= USAGE_BYTES {
            self.answer(message, &usage(cpu, pages, faults))?;
        }
        let children = self.processes[slot].child_cpu;
        Ok(Outcome::words(&[0, cpu, 0, children, 0]))
    }

    /// PIDS
    pub(crate) fn pids(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let room = (message.in_len / 4).min(LIST_MOST);
        let mut from = message.words[1].max(1);
        let reader = self.by_domain(message.words[2]);
        let space = reader.map_or(None, |slot| self.processes[slot].pids.clone());
        let mut found = Vec::new();
        while found.len() < room {
            let Some((pid, _)) = self.next_of(&space, from) else {
                break;
            };
            found.try_reserve(1).map_err(|_| ENOMEM)?;
            found.push(pid);
            from = pid as u64 + 1;
        }
        self.answer_list(message, &found)
    }

    /// TIDS
    pub(crate) fn tids(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let slot = self.numbers.process(message.words[1]).ok_or(ESRCH)?;
        let room = (message.in_len / 4).min(LIST_MOST);
        let process = &self.processes[slot];
        let mut found: Vec<u32> = Vec::new();
        let count = process.threads.len() + 1;
        found.try_reserve_exact(count).map_err(|_| ENOMEM)?;
        found.extend(process.threads.iter().map(|t| t.tid));
        if !found.contains(&process.pid) {
            found.push(process.pid);
        }
        if let Ok(reader) = self.by_domain(message.words[2]) {
            found
                .iter_mut()
                .for_each(|tid| *tid = self.as_seen(reader, *tid));
            found.retain(|tid| *tid != 0);
        }
        found.sort_unstable();
        found.truncate(room);
        self.answer_list(message, &found)
    }

    pub(crate) fn answer_list(
        &mut self,
        message: &Received,
        list: &[u32],
    ) -> Result<Outcome, Errno> {
        let mut bytes: Vec<u8> = Vec::new();
        let length = size_of_val(list);
        bytes.try_reserve_exact(length).map_err(|_| ENOMEM)?;
        bytes.extend(list.iter().flat_map(|n| n.to_le_bytes()));
        self.answer(message, &bytes)?;
        done(list.len() as i64)
    }

    /// Threads of a process that run or are ready.
    fn running(&mut self, slot: Slot) -> u64 {
        if !self.processes[slot].alive() || self.processes[slot].stopped.is_some() {
            return 0;
        }
        let domain = self.processes[slot].domain;
        let mut count = 0;
        for at in 0..self.processes[slot].threads.len() {
            let id = self.processes[slot].threads[at].id;
            let info = self.system.control(domain, id, thread::INFO, [0; 3]);
            count += matches!(info, Ok(words) if words[1] == 0) as u64;
        }
        count
    }

    /// Whether a thread of a process (0, or none of its: its first) runs or is ready. None: that one has ended.
    fn runs(&mut self, slot: Slot, tid: u64) -> Option<bool> {
        let process = &self.processes[slot];
        let by_number = |tid: u64| process.threads.iter().find(|t| u64::from(t.tid) == tid);
        let thread = by_number(tid).or_else(|| by_number(process.pid.into()));
        let id = thread?.id;
        let info = self
            .system
            .control(process.domain, id, thread::INFO, [0; 3]);
        Some(matches!(info, Ok(words) if words[1] == 0))
    }

    /// STATUS; the domain is nothing for programs.
    pub(crate) fn status(
        &mut self,
        message: &Received,
        with_domain: bool,
    ) -> Result<Outcome, Errno> {
        let slot = self.numbers.process(message.words[1]).ok_or(ESRCH)?;
        if message.in_len < Status::BYTES {
            return Err(EINVAL);
        }
        let cpu = self.cpu_of(slot);
        let runs = self.runs(slot, message.words[3]);
        let process = &self.processes[slot];
        let space = if process.ended.is_none() {
            let domain = process.domain.id;
            self.system.space(domain)
        } else {
            Default::default()
        };
        let process = &mut self.processes[slot];
        process.peak_pages = process.peak_pages.max(space.resident);
        let comm = match with_domain {
            true if message.words[3] != 0 => process.comm_by_tid(message.words[3]).copied(),
            _ => None,
        };
        let process = &self.processes[slot];
        let (tracer, at_stop) = self.trace_shown(slot);
        let state = match (process.ended, process.stopped) {
            (None, _) if at_stop => b't',
            (Some(_), _) => b'Z',
            (None, Some(_)) => b'T',
            (None, None) => match runs {
                Some(true) => b'R',
                Some(false) => b'S',
                // Its first thread has ended, and others have not.
                None => b'Z',
            },
        };
        let group = &self.groups[process.group];
        let session = &self.sessions[group.session];
        let parent = match process.parent {
            NONE => 0,
            parent => self.processes[parent].pid,
        };
        let pending = process
            .threads
            .iter()
            .fold(process.queue.pending(), |all, t| all | t.queue.pending());
        let (mode, filters) = process.filters();
        let faults = process.faults + space.faults;
        let mut status = Status {
            pid: process.pid,
            ppid: parent,
            pgid: group.pgid,
            sid: session.sid,
            terminal: self.terminal_of(slot),
            foreground: session.foreground,
            state: state as u32,
            threads: process.threads.len() as u32,
            comm: comm.unwrap_or(process.comm),
            creds: process.creds,
            nice: process.scheduling.nice,
            life: process.watch_badge(slot),
            no_new_privileges: process.no_new_privileges as u32,
            filter_mode: mode.word() as u32,
            filters,
            cpu,
            child_cpu: process.child_cpu,
            start: process.start,
            resident_pages: space.resident,
            virtual_pages: space.mapped,
            shared_pages: space.shared,
            ignored: process.dispositions.ignored,
            caught: process.dispositions.caught,
            pending,
            domain: match with_domain {
                true => process.domain.id,
                false => 0,
            },
            exit_signal: process.exit_signal,
            dumpable: process.dumpable,
            tracer,
            locked_pages: space.locked,
            data_pages: space.data,
            login_user: process.login.user,
            login_session: process.login.session,
            oom_adjust: process.oom.adjust.into(),
            core_filter: process.core_filter,
            minor_faults: faults.minor,
            major_faults: faults.major,
            child_minor_faults: process.child_faults.minor,
            child_major_faults: process.child_faults.major,
        };
        let reader = match with_domain {
            true => self.by_domain(message.words[2]),
            false => self.caller(message),
        };
        if let Ok(reader) = reader {
            self.seen_by(reader, &mut status);
        }
        let bytes = status.to_bytes();
        self.answer(message, &bytes)?;
        done(0)
    }

    /// TEXT
    pub(crate) fn text(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let slot = self.numbers.process(message.words[1]).ok_or(ESRCH)?;
        let process = &self.processes[slot];
        let texts = process.text.clone();
        let (id, places) = (process.domain.id, texts.stack);
        let first = message.words[3];
        let text = match message.words[2] {
            _ if process.ended.is_some() => &[][..],
            0 => &texts.command_line[..],
            1 => &texts.path[..],
            2 => {
                let left = places.environment_length.saturating_sub(first);
                let below = places.environment_end + left;
                return self.text_of_stack(message, id, below, left, |_| None);
            }
            3 => {
                let left = places.auxiliary.saturating_sub(first);
                return self.text_of_stack(message, id, left, left, vector_end);
            }
            _ => return Err(EINVAL),
        };
        let text = &text[..text.len().min(message.in_len)];
        self.answer(message, text)?;
        done(text.len() as i64)
    }

    /// A piece of a program's first stack, from so far below its top, and not behind where `end` sees its end.
    fn text_of_stack(
        &mut self,
        message: &Received,
        id: Id,
        below: u64,
        length: u64,
        end: fn(&[u8]) -> Option<usize>,
    ) -> Result<Outcome, Errno> {
        let mut bytes = [0; PAGE as usize];
        let most = message.in_len.min(bytes.len()).min(length as usize);
        let read = match most {
            0 => 0,
            _ => {
                let address = LINUX_STACK_TOP - below;
                let read = self.system.read_from(id, address, &mut bytes[..most]);
                // (Its memory is not there before its program has begun.)
                read.unwrap_or(0).min(most)
            }
        };
        let read = end(&bytes[..read]).unwrap_or(read);
        self.answer(message, &bytes[..read])?;
        done(read as i64)
    }

    /// LOAD
    pub(crate) fn load(&mut self, reader: u64) -> Result<Outcome, Errno> {
        let now = self.system.now();
        if now >= self.load.counted_until {
            let mut running = 0;
            for slot in 0..self.processes.end() {
                if self.processes.get(slot).is_some_and(|process| process.used) {
                    running += self.running(slot);
                }
            }
            self.load.running = running;
            self.load.counted_until = now + Load::REST * u64::from(self.tasks);
        }
        let running = self.load.running;
        let averages = self.load.update(now, running);
        let idle = self.system.idle();
        let reader = self.by_domain(reader).ok();
        let pids = reader.and_then(|slot| self.processes[slot].pids.as_ref());
        let last = pids.map_or(self.numbers.last() as u64, |pids| pids.last().into());
        Ok(Outcome::words(&[
            self.processes.len() as u64,
            self.forks,
            running,
            averages[0],
            averages[1],
            averages[2],
            last,
            idle,
        ]))
    }

    /// PREFIXES
    pub(crate) fn prefix_table(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let bytes = self.table_of(message.words[1])?;
        let length = bytes.len().min(message.in_len);
        let n = match length {
            0 => 0,
            _ => self
                .system
                .write(message.token, 0, &bytes[..length])
                .map_err(|_| EFAULT)?,
        };
        done(n as i64)
    }

    /// NOTE_FOREGROUND
    pub(crate) fn note_foreground(&mut self, pid: u64, group: u64) -> Result<Outcome, Errno> {
        let session = match self.numbers.get(pid).session {
            NONE => self.session_of(self.numbers.process(pid).ok_or(ESRCH)?),
            session => session,
        };
        self.sessions[session].foreground = group as u32;
        done(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_goes_to_the_number_of_running_threads_and_back() {
        let mut load = Load::default();
        load.update(0, 0);
        let minute = load.update(60 * SECOND, 2);
        assert!(minute[0] > minute[1] && minute[1] > minute[2]);
        let long = load.update(24 * 3600 * SECOND, 2);
        assert!((130_000..=131_072).contains(&long[2]), "{long:?}");
        assert_eq!(load.update(48 * 3600 * SECOND, 0), [0; 3]);
    }
}
