//! How likely a process is to end when memory is exhausted: /proc/PID/oom_score_adj, as proc(5) has it. Children inherit it, programs keep it.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::system::{Errno, System};
use crate::table::Slot;
use cairn_abi::Id;
use cairn_idl::capability::SYS_RESOURCE;
use cairn_idl::errno::{EACCES, EINVAL, ESRCH};
use cairn_idl::vm::OOM_ADJUST_MOST;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oom {
    pub adjust: i16,
    /// Below this only CAP_SYS_RESOURCE sets it: what was set last by such a process.
    pub least: i16,
}

impl<S: System> Manager<S> {
    /// SET_OOM: the process in `domain` writes `oom_score_adj` of another, or (`old`) `oom_adj`.
    pub(crate) fn set_oom(
        &mut self,
        domain: u64,
        pid: u64,
        adjust: i64,
        old: bool,
    ) -> Result<Outcome, Errno> {
        let by = self.by_domain(domain)?;
        let slot = self.numbers.process(pid).ok_or(ESRCH)?;
        if !(-OOM_ADJUST_MOST..=OOM_ADJUST_MOST).contains(&adjust) {
            return Err(EINVAL);
        }
        let adjust = adjust as i16;
        let privileged = self.is_capable(by, &None, SYS_RESOURCE);
        let oom = &mut self.processes[slot].oom;
        let least = if old { oom.adjust } else { oom.least };
        if adjust < least && !privileged {
            return Err(EACCES);
        }
        oom.adjust = adjust;
        if privileged && !old {
            oom.least = adjust;
        }
        if self.processes[slot].ended.is_none() {
            let domain = self.processes[slot].domain.id;
            self.system.adjust_oom(domain, adjust);
        }
        done(0)
    }

    /// The domain that the process goes on in is a new one.
    pub(crate) fn adjust_fresh(&mut self, slot: Slot, domain: Id) {
        match self.processes[slot].oom.adjust {
            0 => {}
            adjust => self.system.adjust_oom(domain, adjust),
        }
    }
}
