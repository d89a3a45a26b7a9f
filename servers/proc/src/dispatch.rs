//! From messages and pulses to operations.

use crate::manager::{done, Manager};
use crate::system::{Errno, System};
use crate::table::Slot;
use crate::{BADGE_BACKGROUND, BADGE_EXHAUSTED, BADGE_FORKS};
use cairn_abi::{pulse, received};
use cairn_idl::errno::{EINVAL, ENOSYS, EPERM};
use cairn_idl::label;
use cairn_idl::proc::*;
use cairn_rt::{Portal, Received};

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Words([u64; 8]),
    /// Success, and a copy of this portal.
    Portal(Portal),
    /// The same with a second word, and the portal is closed here.
    Taken(Portal, u64),
    /// This result; the portal passed with the message was kept.
    Kept(u64),
    /// The caller goes on waiting, or never comes back.
    Later,
}

impl Outcome {
    pub fn words(words: &[u64]) -> Outcome {
        let mut all = [0; 8];
        all[..words.len()].copy_from_slice(words);
        Outcome::Words(all)
    }

    pub fn result(value: i64) -> Outcome {
        Outcome::words(&[value as u64])
    }
}

impl<S: System> Manager<S> {
    /// Deal with what a receive delivered. `Later`: no reply now.
    pub fn handle(&mut self, message: &Received) -> Outcome {
        match message.kind {
            received::kind::MESSAGE => self.message(message),
            received::kind::PULSE => {
                self.pulse(message);
                self.settle();
                Outcome::Later
            }
            _ => Outcome::Later,
        }
    }

    fn pulse(&mut self, message: &Received) {
        let [code, value, reason, detail, ..] = message.words;
        match code {
            pulse::NOTIFY if message.badge == BADGE_EXHAUSTED => self.memory_exhausted(),
            pulse::UNBLOCK => self.unblock(value),
            pulse::GONE => self.gone(value),
            pulse::DEATH => self.died(message.badge, value, reason, detail),
            _ => {}
        }
    }

    pub(crate) fn message(&mut self, message: &Received) -> Outcome {
        if self.holds_back(message) {
            return Outcome::Later;
        }
        let passed = message.portals.min(4);
        let outcome = match self.numbers_of(message) {
            None => self.operation(message),
            Some(space) => {
                let outcome = self.operation(&Self::inward(&space, message));
                outcome.map(|outcome| Self::outward(&space, message.words[0], outcome))
            }
        };
        let outcome = outcome.unwrap_or_else(|errno| Outcome::result(-errno));
        if passed > 0 {
            let kept = matches!(outcome, Outcome::Kept(_)) as usize;
            for word in &message.words[8 - passed..8 - kept] {
                self.system.close(Portal(*word as u32));
            }
        }
        self.settle();
        match outcome {
            Outcome::Kept(value) => Outcome::words(&[value]),
            other => other,
        }
    }

    /// Components' operations go by the roles in the portal's badge, processes' by who the process is. Nobody is both: a component is no process, and a process's portal has no role.
    fn operation(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let words = &message.words;
        let has = |roles: u64| message.badge & roles != 0;
        match words[0] {
            FORK..=END_PERIOD | TRACE..=RANDOM => {}
            IDS_OF..=SIGNAL_OWNER | CGROUP_MAKE..=SPACE_RELATED => return self.outside(message),
            _ if message.badge == BADGE_BACKGROUND => return Ok(self.background()),
            _ if message.badge == BADGE_FORKS => return Ok(self.errand(message)),
            _ => return Err(ENOSYS),
        }
        // (Components' label is the superuser's, and gives them nothing here.)
        let privileged = label::has(message.label, label::SYSTEM) && self.caller(message).is_ok();
        let needed = match words[0] {
            MOUNT | UNMOUNT => role::MOUNT,
            _ => 0,
        };
        let refused = |slot: Slot| self.processes[slot].refuses(words);
        let doomed = |slot: Slot| self.processes[slot].doomed;
        let apart = |slot: Slot| self.processes[slot].pids.is_some();
        match words[0] {
            MOUNT | UNMOUNT | SETHOSTNAME | POWER | MOUNT_PORTAL
                if self.caller(message).is_ok_and(doomed) =>
            {
                return Ok(Outcome::Later)
            }
            MOUNT | UNMOUNT | SETHOSTNAME | POWER if self.caller(message).is_ok_and(refused) => {
                return Err(EPERM)
            }
            POWER if self.caller(message).is_ok_and(apart) => {
                let slot = self.caller(message)?;
                return self.power_of_space(slot, words[1]);
            }
            MOUNT | UNMOUNT | POWER if !(privileged || has(needed)) => return Err(EPERM),
            MOUNT => {
                let portal = (message.portals == 1).then_some(Portal(words[7] as u32));
                return self.mount(message, portal, has(role::MOUNT));
            }
            UNMOUNT => return self.unmount(message),
            SETHOSTNAME => return self.sethostname(message, has(role::HOSTNAME)),
            POWER => return self.power(words[1], words[2]),
            MOUNT_PORTAL => {
                let slot = self.caller(message)?;
                return self.mount_portal(slot, words[1]);
            }
            // A terminal asks about those who are not its callers.
            IDS if has(role::TERMINAL) && words[1] != 0 => return self.ids_of_number(words[1]),
            _ => {}
        }
        let slot = self.caller(message)?;
        if !self.processes[slot].alive() {
            return Ok(Outcome::Later);
        }
        if self.processes[slot].refuses(words) {
            return Err(EPERM);
        }
        match words[0] {
            FORK => self.fork(message, slot),
            THREAD_CREATE => self.thread_create(message, slot),
            THREAD_EXIT => {
                self.thread_exit(message, slot);
                Ok(Outcome::Later)
            }
            EXIT => {
                self.exit(slot, words[1]);
                Ok(Outcome::Later)
            }
            EXEC => self.exec(message, slot),
            WAIT => self.wait(message, slot),
            KILL => self.kill(message, slot),
            TGKILL => self.tgkill(message, slot),
            SIGNAL_TAKE => self.signal_take(message, slot),
            SIGNAL_STATE => self.signal_state(slot, words),
            STOP_SELF => self.stop_self(message, slot, words[1]),
            IDS => self.ids(message, slot),
            SETPGID => self.setpgid(slot, words[1], words[2]),
            SETSID => self.setsid(slot),
            GETCREDS => self.getcreds(message, slot),
            SETCREDS => self.setcreds(message, slot),
            SETITIMER => self.itimer(slot, words, true),
            GETITIMER => self.itimer(slot, words, false),
            RUSAGE => self.rusage(message, slot),
            GETPRIORITY => self.getpriority(message, slot),
            SETPRIORITY => self.setpriority(message, slot),
            SETSCHEDULER => self.setscheduler(message, slot),
            GETSCHEDULER => self.getscheduler(message, slot),
            END_PERIOD => self.end_period(message.token as u32, slot),
            PRLIMIT => self.prlimit(message, slot),
            TIMER => self.timer(slot, words),
            FUTEX => self.futex(message, slot),
            PRCTL => self.prctl(message, slot),
            SET_CAPABILITIES => self.set_capabilities(slot, words),
            EXEC_FRESH => self.exec_fresh(message, slot),
            BEGIN => self.begin_program(message, slot),
            SET_ROOT => self.set_root(message, slot),
            UNSHARE => self.unshare(slot, words[1]),
            SPACE_MOUNTS => self.space_mounts(message, slot),
            SPACE_MOUNT => self.space_mount(message, slot),
            SPACE_UNMOUNT => self.space_unmount(slot, words[1]),
            SPACE_TURN => self.space_turn(message, slot),
            SPACE_ROOT => self.space_root(message, slot),
            SPACE_ROOT_HANDLE => self.space_root_handle(slot),
            HOSTNAME => self.name_of_host(message, Some(slot), words[1]),
            USER_SPACE => self.user_space(message, slot),
            SPACE_IPC => self.space_ipc(message, slot),
            NUMBER => self.number(slot, words[1], words[2] != 0),
            SET_CLOCK => self.set_clock(slot, words[1]),
            ADJUST_CLOCK => self.adjust_clock(message, slot),
            SIGNAL_LIFE => self.signal_life(message, slot),
            LIFE_NUMBER => self.life_number(slot, words[1]),
            FILE_OF => self.file_of(slot, words),
            SECCOMP => self.seccomp(message, slot),
            TRACE => self.trace(message, slot),
            TRACE_STOP => self.trace_stop(message, slot),
            TRACE_VFORK => self.trace_vfork(message, slot),
            TRACE_MEMORY => self.trace_memory(message, slot),
            CORE => self.core(message, slot),
            RANDOM => {
                let [[a, b], [c, d]] = [self.seed(), self.seed()];
                Ok(Outcome::words(&[0, a, b, c, d]))
            }
            _ => Err(ENOSYS),
        }
    }

    /// Operations for roles.
    fn outside(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let words = &message.words;
        let by = match words[0] {
            GROUPS_OF | REAL_LABEL | ATTEND | SPACE_OF | STIR => role::GROUPS,
            START => role::START,
            SET_ID => role::SET_ID,
            IDS_OF => role::TERMINAL | role::INSPECT,
            SIGNAL_GROUP | SET_TERMINAL | NOTE_FOREGROUND => role::TERMINAL,
            CGROUP_MAKE..=CGROUP_OF | CGROUP_CPU => role::CGROUP,
            SPACE_HOLD..=MAP_WRITE
            | SPACE_RELATED
            | SET_LOGIN
            | SET_OOM
            | SET_COMM
            | SET_CORE_FILTER
            | TIMER_SLACK => role::SPACES,
            LIFE_OF | FOLLOW => role::LIVES,
            SIGNAL_FOR | SIGNAL_OWNER => role::SIGNALS,
            MEMORY_OPEN | MEMORY => role::MEMORY,
            KEYS_OF | KEYS_SET => role::KEYS,
            _ => role::INSPECT,
        };
        let inspects = message.badge & by != 0;
        let own = matches!(words[0], STATUS | LOAD) && self.caller(message).is_ok();
        if !inspects && !own {
            return Err(EPERM);
        }
        let kind = |word| SpaceKind::from_word(word).ok_or(EINVAL);
        match words[0] {
            PIDS => self.pids(message),
            STATUS => self.status(message, inspects),
            TEXT => self.text(message),
            CGROUP_MAKE..=CGROUP_OF | CGROUP_CPU => self.cgroup(message),
            CGROUP_PATH => self.cgroup_path(message),
            LOAD => self.load(words[1]),
            PREFIXES => self.prefix_table(message),
            TIDS => self.tids(message),
            LIMITS_OF => self.limits_of(message),
            IDS_OF => self.ids_of(message, words[1], words[2]),
            SIGNAL_GROUP => self.signal_group(words[1], words[2]),
            SET_TERMINAL => {
                if message.portals > 1 {
                    return Err(EINVAL);
                }
                let watcher = (message.portals == 1).then_some(Portal(words[7] as u32));
                if self.set_terminal((words[1], words[2], words[3]), watcher)? {
                    Ok(Outcome::Kept(0))
                } else {
                    done(0)
                }
            }
            GROUPS_OF => self.groups_of(message, words[1]),
            REAL_LABEL => self.real_label(words[1]),
            STIR => {
                let bytes = [words[1], words[2], words[3], words[4]].map(u64::to_le_bytes);
                self.seeds.stir(bytes.as_flattened());
                done(0)
            }
            FILES_LIMIT_OF => self.files_limit_of(words[1]),
            MEMORY_OPEN => self.memory_open(words[1], words[2]),
            MEMORY => self.memory(message),
            CALL_OF => self.call_of(message),
            FILES_OF => self.files_of(message),
            HOSTNAME_OF => {
                let slot = self.by_domain(words[1]).ok();
                self.name_of_host(message, slot, words[2])
            }
            ATTEND => self.attend(message),
            LIFE_OF => self.life_of(words[1], words[2]),
            FOLLOW => self.follow(message),
            KEYS_OF => self.keys_of(message),
            KEYS_SET => self.keys_set(message),
            SIGNAL_FOR => self.signal_for(words),
            SIGNAL_OWNER => self.signal_owner(words),
            PTRACE_ACCESS => self.ptrace_access(words[1], words[2]),
            START => self.start(message),
            SET_ID => self.set_id(words),
            SPACE_OF => self.space_of(words[1]),
            SPACE_ID => self.space_id(words[1], kind(words[2])?),
            SPACE_HOLD => self.space_hold(words[1], kind(words[2])?, words[3]),
            SPACE_DROP => self.space_drop(words[2]),
            SPACE_RELATED => {
                let which = Related::from_word(words[4]).ok_or(EINVAL)?;
                self.space_related(words[1], (kind(words[2])?, words[3]), which)
            }
            SPACE_ENTER => self.space_enter(words[1], kind(words[2])?, words[3]),
            MAP_READ => self.map_read(message),
            MAP_WRITE => self.map_write(message),
            SET_LOGIN => self.set_login(words[1], words[2], words[3]),
            SET_OOM => self.set_oom(words[1], words[2], words[3] as i64, words[4] != 0),
            SET_COMM => self.set_comm(message),
            SET_CORE_FILTER => self.set_core_filter(words[1], words[2], words[3]),
            TIMER_SLACK => self.timer_slack(words),
            KEPT_OF => self.kept_of(words[1], words[2]),
            NUMBER_OF => self.number_of_domain(words[1], words[2], words[3] != 0),
            NOTE_FOREGROUND => self.note_foreground(words[1], words[2]),
            _ => Err(ENOSYS),
        }
    }
}
