//! The life of a process: fork, exec, exit, and what its end means for parent, children, group, session and machine.

use crate::dispatch::Outcome;
use crate::ids::LIMIT;
use crate::kill::of_exception;
use crate::limits;
use crate::limits::CPU;
use crate::manager::Manager;
use crate::pid_spaces::is_within;
use crate::process::{Held, Inheritance, Process, Report, Text, Thread};
use crate::signal::{code, IGNORED_BY_DEFAULT, LAST, SIGCHLD, SIGKILL, SIGSEGV};
use crate::spaces::{NEW_PIDS, OF_CHILDREN};
use crate::system::{Domain, Errno, Slots, Start, System};
use crate::table::{Slot, NONE};
use crate::tracing::event;
use crate::user_spaces::user_0;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_abi::service::thread;
use cairn_abi::{death, Id};
use cairn_idl::capability::{CHECKPOINT_RESTORE, SYS_ADMIN};
use cairn_idl::errno::{EAGAIN, EEXIST, EFAULT, EINVAL, ENAMETOOLONG, ENOMEM, EPERM};
use cairn_idl::first_stack::Places;
use cairn_idl::fs::PATH_MAX;
use cairn_idl::proc::{fork, Credentials, TRACED_CHILD};
use cairn_rt::Received;

/// Processes and threads in all.
pub const TASKS_MOST: u32 = 6000;
/// So many of these are for user 0 alone.
pub const TASKS_OF_ROOT: u32 = 500;
/// Longest name of a program in the log.
const LOGGED_NAME: usize = 40;
/// What is kept of a command line, for /proc.
const COMMAND_LINE_MOST: usize = 4096;

/// What is kept of an exec for /proc.
pub(crate) struct Executed {
    path: Vec<u8>,
    command_line: Vec<u8>,
    /// What it was called by, a script or a symbolic link perhaps.
    name: Vec<u8>,
    stack: Places,
}

/// A fork's signal at the child's end, and the number that the child shall have (0: any).
fn signal_and_number(word: u64) -> (u64, u32) {
    (word & 0xffff_ffff, (word >> 32) as u32)
}

impl<S: System> Manager<S> {
    /// Room for one more process or thread of this process's user?
    pub(crate) fn check_room(&self, slot: Slot) -> Result<(), Errno> {
        let process = &self.processes[slot];
        let (uid, most) = (process.creds.ruid, process.limits.soft(limits::NPROC));
        let (refused, room) = match uid {
            0 => (false, TASKS_MOST),
            _ => (
                u64::from(self.user_tasks(uid)) >= most,
                TASKS_MOST - TASKS_OF_ROOT,
            ),
        };
        if refused || self.tasks >= room {
            Err(EAGAIN)
        } else {
            Ok(())
        }
    }

    /// The record has a new user.
    pub(crate) fn begin(&mut self, slot: Slot, inheritance: Inheritance) {
        self.lives = self.lives.wrapping_add(1);
        self.processes[slot].reset(inheritance, self.lives);
        self.processes[slot].shift = self.shift_of(self.processes[slot].cgroup);
    }

    /// A record is nobody's any more.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.leave_program_keys(slot);
        self.leave_session_keys(slot);
        let process = &mut self.processes[slot];
        process.used = false;
        (process.user, process.pids, process.child_pids) = (None, None, None);
        self.processes.give(slot);
    }

    /// Who may choose its child's number: the administrator, of free ones, where there is no name space within another.
    fn may_choose(&self, slot: Slot, number: u32, flags: u64) -> Result<(), Errno> {
        if number == 0 {
            return Ok(());
        }
        let process = &self.processes[slot];
        if u64::from(number) >= LIMIT.into() {
            return Err(EINVAL);
        }
        let within = process.pids.is_some() || process.child_pids.is_some();
        if within || flags & NEW_PIDS != 0 {
            return Err(EINVAL);
        }
        let creds = &process.creds;
        match creds.has(SYS_ADMIN) || creds.has(CHECKPOINT_RESTORE) {
            true if !self.numbers.get(number.into()).is_free() => Err(EEXIST),
            true => Ok(()),
            false => Err(EPERM),
        }
    }

    /// FORK
    pub(crate) fn fork(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, _, _, _, _, flags, signal, _] = message.words;
        let (exit_signal, wanted) = signal_and_number(signal);
        self.may_choose(slot, wanted, flags)?;
        let known = fork::VFORK | fork::SHARE | fork::PARENT | OF_CHILDREN;
        if flags & !known != 0 || exit_signal > LAST as u64 {
            return Err(EINVAL);
        }
        let parent = if flags & fork::PARENT == 0 {
            slot
        } else if self.is_first(slot) {
            return Err(EINVAL);
        } else {
            self.processes[slot].parent
        };
        self.check_room(slot)?;
        self.check_cgroup(slot)?;
        self.check_deadline(slot, message.token as u32)?;
        let mut slots = None;
        if message.out_len != 0 {
            self.read_slots(message, (0, message.out_len), slots.insert([0; _]))?;
        }
        // What it needs later does not fail then: its place among its group's members, and among those that end.
        let own_group = self.processes[slot].group;
        let members = self.groups[own_group].members.try_reserve(1);
        members.map_err(|_| ENOMEM)?;
        let all = self.processes.len() + 1;
        let ends = all.saturating_sub(self.doomed.len());
        self.doomed.try_reserve(ends).map_err(|_| ENOMEM)?;
        let share = flags & (fork::VFORK | fork::SHARE) != 0;
        let Some(domain) = self.fork_domain(message, slot, share)? else {
            return Ok(Outcome::Later);
        };
        let done = self.fork_into(message, slot, (parent, domain), slots.as_ref());
        if done.is_err() {
            self.system.destroy(domain);
        }
        done
    }

    /// The copy of its memory is there: the rest of a fork.
    fn fork_into(
        &mut self,
        message: &Received,
        slot: Slot,
        (parent, domain): (Slot, Domain),
        slots: Option<&Slots>,
    ) -> Result<Outcome, Errno> {
        let [_, rip, rsp, fs_base, gs_base, flags, signal, _] = message.words;
        let (exit_signal, wanted) = signal_and_number(signal);
        let child = self.processes.take().ok_or(ENOMEM)?;
        let inheritance = self.processes[slot].bequeath(message.token as u32);
        let exit_parent = if flags & fork::PARENT == 0 {
            exit_signal as u32
        } else {
            self.processes[slot].exit_signal
        };
        self.begin(child, inheritance);
        let apart = self.born_apart(child, flags & OF_CHILDREN);
        let numbered = apart.and_then(|()| {
            let pids = &self.processes[child].pids;
            if wanted != 0 {
                let free = self.numbers.allocate_this(wanted, child);
                return free.then_some(wanted).ok_or(EEXIST);
            }
            let pid = self.numbers.allocate_in(child, false, pids);
            let refused = match pids {
                Some(pids) if pids.has_ended() => ENOMEM,
                _ => EAGAIN,
            };
            pid.ok_or(refused)
        });
        let pid = match numbered {
            Ok(pid) => pid,
            Err(errno) => {
                self.leave_root(child);
                self.leave_spaces(child);
                self.give_back(child);
                return Err(errno);
            }
        };
        self.processes[child].pid = pid;
        let pids = self.processes[child].pids.clone();
        if let Some(pids) = &pids {
            pids.entered(child);
        }
        let told = match flags & fork::VFORK {
            0 if exit_signal == u64::from(SIGCHLD) => event::FORK,
            0 => event::CLONE,
            _ => event::VFORK,
        };
        let by = message.token as u32;
        let follows = self.trace_follows(slot, by, told);
        let traced = if follows { TRACED_CHILD } else { 0 };
        let start = Start {
            rip,
            rsp,
            rdi: u64::from(pids.map_or(pid, |pids| pids.inside(pid.into()))) | traced,
            fs_base,
            gs_base,
            priority: crate::priority::of(
                &self.processes[child].scheduling,
                self.processes[child].shift,
            ),
            policy: crate::priority::policy_of(&self.processes[child].scheduling),
        };
        let from = self.processes[slot].domain;
        let made = self
            .system
            .copy_table(from, domain, slots)
            .and_then(|()| self.furnish(child, domain, &start));
        let id = match made {
            Ok(id) => id,
            Err(errno) => {
                self.leave_root(child);
                self.leave_spaces(child);
                if let Some(pids) = &self.processes[child].pids {
                    pids.never_entered(child);
                }
                self.numbers.release(pid);
                self.give_back(child);
                return Err(errno);
            }
        };
        self.forks += 1;
        let now = self.system.now();
        let comm = self.processes[slot].comm_of(by);
        let record = &mut self.processes[child];
        record.comm = comm;
        record.exit_signal = exit_parent;
        record.start = now;
        self.enter(child, domain, id);
        let filters = self.processes[slot].filters_of(by);
        self.filter_first(child, filters);
        self.adopt(parent, child);
        let group = self.processes[slot].group;
        self.join(child, group);
        if follows {
            self.trace_child((slot, by), (child, 0), told);
        }
        // (Who is traced stops first, and waits by TRACE_VFORK.)
        let is_traced = self.trace_bits(slot, by) != 0;
        let shares = flags & fork::VFORK != 0;
        let waits = shares && !is_traced && self.hold(slot, message.token, Held::Vfork(pid));
        self.processes[child].vfork_parent = waits || shares && is_traced;
        if self.processes[child].limits.soft(CPU) != u64::MAX {
            self.follow_cpu_limit(child);
        }
        self.apply_turn(child, 0);
        if self
            .system
            .control(domain, id, thread::START, [0; 3])
            .is_err()
        {
            self.doom(child, SIGKILL);
        }
        if waits {
            return Ok(Outcome::Later);
        }
        let has_yet_to_wait = shares && is_traced;
        Ok(Outcome::words(&[
            pid.into(),
            self.life(child),
            has_yet_to_wait.into(),
        ]))
    }

    /// The slots that a child shall have, from so many bytes at this place of the part.
    pub(crate) fn read_slots(
        &mut self,
        message: &Received,
        (at, length): (usize, usize),
        slots: &mut Slots,
    ) -> Result<(), Errno> {
        if length > size_of::<Slots>() {
            return Err(EINVAL);
        }
        let mut done = 0;
        while done < length {
            let mut piece = [0; 256];
            let bytes = &mut piece[..(length - done).min(256)];
            match self.system.read(message.token, (at + done) as u64, bytes) {
                Ok(n) if n == bytes.len() => {}
                _ => return Err(EFAULT),
            }
            let words = slots[done / 8..].iter_mut();
            for (word, bytes) in words.zip(bytes.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            done += bytes.len();
        }
        Ok(())
    }

    /// Turn, label, watch and first thread for a new domain.
    pub(crate) fn furnish(
        &mut self,
        slot: Slot,
        domain: Domain,
        start: &Start,
    ) -> Result<Id, Errno> {
        let process = &self.processes[slot];
        let (label, watch) = (process.label(), process.watch_badge(slot));
        self.system.set_up(domain, self.entries, label, watch)?;
        self.system.thread(domain, start)
    }

    /// The process is there: its domain and first thread can be found from now on.
    pub(crate) fn enter(&mut self, slot: Slot, domain: Domain, id: Id) {
        let process = &mut self.processes[slot];
        process.domain = domain;
        let thread = Thread::new(id, process.pid, process.scheduling);
        process.threads.push(thread);
        let uid = process.creds.ruid;
        self.domains.set(domain.id, slot);
        self.threads.set(id, slot);
        self.count_user(uid, 1);
        self.tasks += 1;
        self.enter_cgroup(slot);
        self.count_cgroup(slot, 1);
    }

    /// EXEC
    pub(crate) fn exec(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        let [_, path_len, line_len, name_len, heap, heap_end, stack, _] = message.words;
        let (texts, _) = self.executed_texts(message, [path_len, line_len, name_len], stack)?;
        let caller = message.token as u32;
        let domain = self.processes[slot].domain;
        if self.processes[slot].threads.len() > 1 {
            self.system.keep_only(domain, caller);
        }
        let former = self.processes[slot].thread(caller).map_or(0, |t| t.tid);
        self.keep_thread(slot, caller);
        self.system.reset(domain.id, (heap, heap_end))?;
        self.system.close_on_exec(domain);
        let filters = self.processes[slot].filters_of(caller);
        self.filter_first(slot, filters);
        let creds = self.executes(slot, texts);
        self.trace_executed(slot, former);
        self.release_vfork_parent(slot);
        self.limit_new_memory(slot);
        let [low, high] = self.seed();
        Ok(Outcome::words(&[
            0,
            creds.effective,
            creds.permitted,
            low,
            high,
        ]))
    }

    /// 16 random bytes as words, for a program that begins (AT_RANDOM) or asks.
    pub(crate) fn seed(&mut self) -> [u64; 2] {
        let seed = u128::from_le_bytes(self.seeds.take(|| self.system.entropy()));
        [seed as u64, (seed >> 64) as u64]
    }

    /// Path, command line and name that EXEC and EXEC_FRESH begin their parts with, as far as they are kept, and where they end there.
    pub(crate) fn executed_texts(
        &mut self,
        message: &Received,
        [path_len, line_len, name_len]: [u64; 3],
        stack: u64,
    ) -> Result<(Executed, usize), Errno> {
        if path_len as usize > PATH_MAX || path_len > message.out_len as u64 {
            return Err(ENAMETOOLONG);
        }
        let line_len = (line_len as usize)
            .min(message.out_len - path_len as usize)
            .min(COMMAND_LINE_MOST);
        let path_len = path_len as usize;
        let name_at = path_len + line_len;
        let name_len = (name_len as usize)
            .min(message.out_len - name_at)
            .min(PATH_MAX);
        let mut path = self.bytes(message, 0, name_at + name_len)?;
        let name = path.split_off(name_at);
        let command_line = path.split_off(path_len);
        let texts = Executed {
            path,
            command_line,
            name,
            stack: Places::from_word(stack),
        };
        Ok((texts, name_at + name_len))
    }

    /// The process, alone in its domain, is another program from now on.
    pub(crate) fn executes(&mut self, slot: Slot, texts: Executed) -> Credentials {
        let Executed {
            path,
            command_line,
            name,
            stack,
        } = texts;
        self.exec_timers(slot);
        self.leave_program_keys(slot);
        let process = &mut self.processes[slot];
        process.set_comm(if name.is_empty() { &path } else { &name });
        if self.log_names {
            // What the program was called by: busybox's applets are all one file.
            let name = command_line.split(|&byte| byte == 0).next().unwrap_or(&[]);
            let name = &name[..name.len().min(LOGGED_NAME)];
            let line = format!("`{}` is domain {}", name.escape_ascii(), process.domain.id);
            self.system.log(&line);
        }
        process.text = Rc::new(Text {
            path,
            command_line,
            stack,
        });
        process.executed = true;
        process.programs = process.programs.wrapping_add(1);
        process.leaves_core = false;
        process.exit_signal = if process.exit_signal == 0 { 0 } else { SIGCHLD };
        process.dispositions.ignored |= IGNORED_BY_DEFAULT;
        process.dispositions.caught = 0;
        process.dispositions.no_stop_signal = false;
        let mut creds = process.creds;
        creds.suid = creds.euid;
        creds.sgid = creds.egid;
        // (Without a file's there is nothing to refuse.)
        let user_0 = user_0(&process.user);
        let _ = crate::capabilities::follow_exec(&mut creds, None, user_0);
        // A program with other ids than its caller's, or more capabilities, is not to be looked into.
        let plain = creds.euid == creds.ruid && creds.egid == creds.rgid;
        let more = creds.permitted & !process.creds.permitted != 0;
        self.assume(slot, creds);
        self.processes[slot].dumpable = (plain && !more) as u32;
        creds
    }

    /// EXIT
    pub(crate) fn exit(&mut self, slot: Slot, status: u64) {
        self.doom(slot, (status & 0xffff) as u32);
    }

    pub(crate) fn finish(&mut self, slot: Slot, status: u32) {
        // A group that was orphaned before is not orphaned by this end.
        let connected = self.parent_connects(slot);
        let domain = self.processes[slot].domain;
        self.processes[slot].cpu += self.system.cpu(domain);
        self.cancel_timers(slot);
        self.release_robust(slot, status);
        self.trace_process_ends(slot, status);
        self.forget_threads(slot);
        self.domains.clear(domain.id, slot);
        self.processes[slot].domain = Domain::NONE;
        let faults = self.system.destroy(domain);
        self.processes[slot].faults += faults;
        for portal in core::mem::take(&mut self.processes[slot].attended) {
            self.attended -= 1;
            self.system.drop_kept(portal);
        }
        self.leave_root(slot);
        self.leave_cgroup(slot);
        self.leave_spaces(slot);
        self.leave_program_keys(slot);
        self.leave_session_keys(slot);
        self.release_vfork_parent(slot);
        if self.processes[slot].stopped.take().is_some() {
            let group = self.processes[slot].group;
            self.groups[group].stopped -= 1;
        }
        self.set_report(slot, Report::Nothing);
        if core::mem::take(&mut self.processes[slot].subreaper) {
            self.subreapers -= 1;
        }
        self.leader_ended(slot);
        if self.is_first(slot) {
            self.machine_ends(status);
        }
        self.end_pid_space(slot);
        self.give_children_away(slot);
        let group = self.processes[slot].group;
        if connected {
            self.check_orphaned(group);
        }
        self.tell_end(slot, status);
    }

    /// A zombie from now on, unless nobody wants to know.
    fn tell_end(&mut self, slot: Slot, status: u32) {
        let parent = self.processes[slot].parent;
        self.kin_leaves(slot);
        let process = &mut self.processes[slot];
        process.ended = Some(status);
        process.doomed = false;
        self.kin_enters(slot);
        if parent == NONE {
            return;
        }
        self.processes[parent].zombies += 1;
        // Whoever ends with its PID name space has nobody in it who would know.
        let pids = &self.processes[slot].pids;
        let with_all = pids.as_ref().is_some_and(|pids| pids.ends_with_all(slot));
        if with_all {
            self.bury(slot);
            return;
        }
        let process = &self.processes[slot];
        let info = end_info(process, status);
        if process.exit_signal == SIGCHLD && self.wants_no_zombies(parent) {
            self.bury(slot);
        }
        self.tell_news(parent, info);
    }

    /// The nearest ancestor that takes orphans, or the first process, becomes the children's parent.
    fn give_children_away(&mut self, slot: Slot) {
        if self.processes[slot].first_child == NONE {
            return;
        }
        let pids = self.processes[slot].pids.clone();
        let heir = pids.as_ref().and_then(|pids| pids.heir());
        let mut heir = heir.unwrap_or(self.first);
        if self.subreapers > 0 {
            let mut ancestor = self.processes[slot].parent;
            while ancestor != NONE {
                if !is_within(&self.processes[ancestor].pids, &pids) {
                    break;
                }
                if self.processes[ancestor].subreaper && self.processes[ancestor].alive() {
                    heir = ancestor;
                    break;
                }
                ancestor = self.processes[ancestor].parent;
            }
        }
        let own_group = self.processes[slot].group;
        let mut zombie = None;
        while self.processes[slot].first_child != NONE {
            let child = self.processes[slot].first_child;
            self.disown(child);
            let death_signal = self.processes[child].death_signal;
            if death_signal != 0 {
                self.system_signal(child, death_signal);
            }
            let over = pids.as_ref().is_some_and(|pids| pids.has_ended());
            let unwanted = self.processes[child].ended.is_some()
                && (heir == slot || over || self.wants_no_zombies(heir));
            self.adopt(heir, child);
            self.processes[child].exit_signal = SIGCHLD;
            if unwanted {
                self.bury(child);
                continue;
            }
            if self.processes[child].alive() {
                // The personality remembers its parent's number until it is poked.
                self.poke(child, 0);
            }
            if let Some(status) = self.processes[child].ended {
                zombie = Some(end_info(&self.processes[child], status));
            }
            let group = self.processes[child].group;
            if group != own_group {
                self.check_orphaned(group);
            }
            if heir == slot {
                // The first process itself ends: there is no one to be given to, and the machine stops.
                break;
            }
        }
        if let Some(info) = zombie {
            self.tell_news(heir, info);
        }
    }

    pub(crate) fn release_vfork_parent(&mut self, slot: Slot) {
        if !core::mem::take(&mut self.processes[slot].vfork_parent) {
            return;
        }
        let (parent, pid) = (self.processes[slot].parent, self.processes[slot].pid);
        let life = self.life(slot);
        // With PARENT the one who waits is a sibling or any other: look through the threads' owner only if the parent does not wait.
        let waiting = self.vfork_waiter(parent, pid).or_else(|| {
            let mut all = self.processes.slots();
            all.find_map(|other| self.vfork_waiter(other, pid))
        });
        if let Some((owner, at)) = waiting {
            self.release(owner, at, [pid as u64, life, 0, 0, 0, 0, 0, 0]);
        }
    }

    fn vfork_waiter(&self, owner: Slot, pid: u32) -> Option<(Slot, usize)> {
        let process = &self.processes[owner];
        if owner == NONE || !process.used {
            return None;
        }
        let at = process
            .threads
            .iter()
            .position(|t| t.held == Held::Vfork(pid))?;
        Some((owner, at))
    }

    /// The nucleus says that a watched domain died by itself.
    pub(crate) fn died(&mut self, badge: u64, domain: u64, reason: u64, detail: u64) {
        let slot = badge as u32;
        let Some(process) = self.processes.get(slot) else {
            return;
        };
        if !process.alive()
            || process.generation != (badge >> 32) as u32
            || process.domain.id as u64 != domain
        {
            return;
        }
        let status = match reason {
            death::EXIT => (detail as u32 & 0xff) << 8,
            death::EXCEPTION => of_exception(detail),
            death::FAULT => SIGSEGV,
            _ => SIGKILL,
        };
        if reason == death::EXCEPTION || reason == death::FAULT {
            let line = format!(
                "proc: process {} ended by signal {status} (reason {reason}, detail {detail:#x})",
                process.pid
            );
            self.system.log(&line);
        }
        self.doom(slot, status);
    }

    /// `vm` has nothing left: it says whose process goes, never the first one.
    pub(crate) fn memory_exhausted(&mut self) {
        // Those who are about to end may have enough.
        self.exhausted = self.backlog > 0;
        if self.exhausted {
            return;
        }
        let spared = match self.first {
            NONE => 0,
            first => self.processes[first].domain.id,
        };
        let Some((id, group)) = self.system.exhausted(spared) else {
            return;
        };
        if self.drop_pristine(id) {
            return;
        }
        let Ok(slot) = self.by_domain(id as u64) else {
            return;
        };
        let line = format!(
            "proc: out of memory, process {} of user {} is killed",
            self.processes[slot].pid, self.processes[slot].creds.euid
        );
        self.system.log(&line);
        self.doom(slot, SIGKILL);
        self.end_with_group(slot, group);
    }

    /// The first process has ended, and with it the machine.
    fn machine_ends(&mut self, status: u32) {
        let code = match status & 0x7f {
            0 => status >> 8 & 0xff,
            signal => 128 + signal,
        };
        let line = format!("proc: the first process ended with {code}");
        self.system.log(&line);
        let how = if self.exit_with_code { 2 } else { 0 };
        self.system.power(how, code as u64);
    }
}

/// What the parent's signal says about an end.
fn end_info(process: &Process, status: u32) -> crate::signal::Info {
    let (reason, detail) = match status & 0x7f {
        0 => (code::EXITED, status >> 8 & 0xff),
        signal if status & 0x80 != 0 => (code::DUMPED, signal),
        signal => (code::KILLED, signal),
    };
    let mut info = process.child_info(reason, detail);
    info.signal = process.exit_signal;
    info
}
