//! For whom a process was started at a login: /proc/PID/loginuid and sessionid, as pam_loginuid(8) sets them. Children inherit both, whatever their ids become.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::system::{Errno, System};
use crate::user_spaces::{is_mapped, named, user_of, Above};
use cairn_idl::capability::AUDIT_CONTROL;
use cairn_idl::errno::{EINVAL, EPERM};

/// No user, and no session.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    pub user: u32,
    pub session: u32,
}

impl Default for Login {
    fn default() -> Login {
        Login {
            user: NONE,
            session: NONE,
        }
    }
}

/// What the user is called in a user name space; there may be no name.
pub fn seen(space: &Above, user: u32) -> u32 {
    match user != NONE && is_mapped(space, false, user) {
        true => named(space, false, user),
        false => NONE,
    }
}

impl<S: System> Manager<S> {
    /// SET_LOGIN
    pub(crate) fn set_login(&mut self, domain: u64, pid: u64, user: u64) -> Result<Outcome, Errno> {
        let slot = self.by_domain(domain)?;
        let user = u32::try_from(user).map_err(|_| EINVAL)?;
        if self.numbers.process(pid) != Some(slot) {
            return Err(EPERM);
        }
        let process = &self.processes[slot];
        let user = match user {
            NONE => NONE,
            user => user_of(&process.user, user).ok_or(EINVAL)?,
        };
        if process.login.user != NONE && !self.is_capable(slot, &None, AUDIT_CONTROL) {
            return Err(EPERM);
        }
        self.processes[slot].login = match user {
            NONE => Login::default(),
            user => {
                self.logins = match self.logins.wrapping_add(1) {
                    NONE => 0,
                    next => next,
                };
                Login {
                    user,
                    session: self.logins,
                }
            }
        };
        done(0)
    }
}
