//! Capabilities of processes, by the rules of capabilities(7): what changes them are new ids, exec, the executed file's own, and their owner.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::system::{Errno, System};
use crate::table::Slot;
use cairn_idl::capability::option::*;
use cairn_idl::capability::{FileCapabilities, ALL, LAST, SETPCAP};
use cairn_idl::errno::{EINVAL, EPERM};
use cairn_idl::proc::Credentials;

/// The securebits: user 0 has no more than others; new ids change nothing; PR_SET_KEEPCAPS; ambient ones are not raised. The bit above each forbids its change.
const NO_ROOT: u32 = 1 << 0;
const NO_FIXUP: u32 = 1 << 2;
pub const KEEP: u32 = 1 << 4;
const NO_RAISE: u32 = 1 << 6;
const BITS: u32 = NO_ROOT | NO_FIXUP | KEEP | NO_RAISE;
const LOCKS: u32 = BITS << 1;

/// What CAP_AMBIENT does.
const IS_SET: u64 = 1;
const RAISE: u64 = 2;
const LOWER: u64 = 3;
const CLEAR_ALL: u64 = 4;

/// User 0's, at the beginning.
pub fn first() -> Credentials {
    Credentials {
        effective: ALL,
        permitted: ALL,
        bounding: ALL,
        ..Credentials::default()
    }
}

/// User ids became `new`'s; `user_0` is the user who is 0 in the process's user name space.
pub fn follow_ids(old: &Credentials, new: &mut Credentials, user_0: Option<u32>) {
    if old.secure & NO_FIXUP != 0 {
        return;
    }
    let is_0 = |user: u32| user_0 == Some(user);
    let root = |c: &Credentials| [c.ruid, c.euid, c.suid].into_iter().any(is_0);
    if root(old) && !root(new) {
        if new.secure & KEEP == 0 {
            (new.permitted, new.effective) = (0, 0);
        }
        new.ambient = 0;
    }
    match (is_0(old.euid), is_0(new.euid)) {
        (true, false) => new.effective = 0,
        (false, true) => new.effective = new.permitted,
        _ => {}
    }
}

/// A program was executed, with these ids; its file has these capabilities. → whether it is to be careful (AT_SECURE). None: its bounds do not leave what the file says to be effective.
pub fn follow_exec(
    creds: &mut Credentials,
    file: Option<FileCapabilities>,
    user_0: Option<u32>,
) -> Option<bool> {
    let is_0 = |user: u32| user_0 == Some(user);
    let other_ids = creds.euid != creds.ruid || creds.egid != creds.rgid;
    let (mut permitted, mut effective) = (0, false);
    if let Some(file) = file {
        permitted = file.permitted & creds.bounding | file.inheritable & creds.inheritable;
        effective = file.effective;
        if effective && file.permitted & !permitted != 0 {
            return None;
        }
    }
    // A file with capabilities of its own that makes its caller user 0 gives those only.
    let only_the_files = file.is_some() && !is_0(creds.ruid) && is_0(creds.euid);
    if creds.secure & NO_ROOT == 0 && !only_the_files {
        if is_0(creds.ruid) || is_0(creds.euid) {
            permitted = creds.inheritable | creds.bounding;
        }
        effective |= is_0(creds.euid);
    }
    creds.secure &= !KEEP;
    if other_ids || file.is_some() {
        creds.ambient = 0;
    }
    permitted |= creds.ambient;
    creds.permitted = permitted;
    creds.effective = if effective { permitted } else { creds.ambient };
    let more = effective || permitted & !creds.ambient != 0;
    Some(other_ids || !is_0(creds.ruid) && more)
}

/// capset(2)
fn set(creds: &mut Credentials, effective: u64, permitted: u64, inheritable: u64) -> bool {
    let within = |set: u64, limit: u64| set & !limit == 0;
    let inherits = creds.inheritable | creds.bounding;
    let fair = within(permitted, creds.permitted)
        && within(effective, permitted)
        && within(inheritable, inherits)
        && (creds.has_inside(SETPCAP) || within(inheritable, creds.inheritable | creds.permitted));
    if fair {
        (creds.effective, creds.permitted) = (effective, permitted);
        creds.inheritable = inheritable;
        creds.ambient &= permitted & inheritable;
    }
    fair
}

/// The options of prctl(2) that are about capabilities; `None` is another one.
fn option(creds: &mut Credentials, words: &[u64; 8]) -> Option<Result<u64, Errno>> {
    let [_, option, value, further, ..] = *words;
    let bit = |number: u64| (number <= LAST as u64).then(|| 1u64 << number);
    Some(match option {
        GET_KEEPCAPS => Ok((creds.secure & KEEP != 0) as u64),
        SET_KEEPCAPS if value > 1 => Err(EINVAL),
        SET_KEEPCAPS if creds.secure & KEEP << 1 != 0 => Err(EPERM),
        SET_KEEPCAPS => {
            creds.secure = creds.secure & !KEEP | if value == 1 { KEEP } else { 0 };
            Ok(0)
        }
        GET_SECUREBITS => Ok(creds.secure as u64),
        SET_SECUREBITS => set_secure(creds, value),
        CAPBSET_READ => {
            bit(value).map_or(Err(EINVAL), |bit| Ok((creds.bounding & bit != 0) as u64))
        }
        CAPBSET_DROP if !creds.has_inside(SETPCAP) => Err(EPERM),
        CAPBSET_DROP => bit(value).map_or(Err(EINVAL), |bit| {
            creds.bounding &= !bit;
            Ok(0)
        }),
        CAP_AMBIENT if value == CLEAR_ALL && further == 0 => {
            creds.ambient = 0;
            Ok(0)
        }
        CAP_AMBIENT => match (value, bit(further)) {
            (IS_SET, Some(bit)) => Ok((creds.ambient & bit != 0) as u64),
            (RAISE, Some(bit))
                if creds.permitted & creds.inheritable & bit == 0
                    || creds.secure & NO_RAISE != 0 =>
            {
                Err(EPERM)
            }
            (RAISE, Some(bit)) => {
                creds.ambient |= bit;
                Ok(0)
            }
            (LOWER, Some(bit)) => {
                creds.ambient &= !bit;
                Ok(0)
            }
            _ => Err(EINVAL),
        },
        _ => return None,
    })
}

/// PR_SET_SECUREBITS: what is locked stays, locks included.
fn set_secure(creds: &mut Credentials, value: u64) -> Result<u64, Errno> {
    let old = creds.secure;
    let wanted = u32::try_from(value).map_err(|_| EPERM)?;
    let locked = (old & LOCKS) >> 1;
    if locked & (old ^ wanted) != 0
        || old & LOCKS & !wanted != 0
        || wanted & !(BITS | LOCKS) != 0
        || !creds.has_inside(SETPCAP)
    {
        return Err(EPERM);
    }
    creds.secure = wanted;
    Ok(0)
}

impl<S: System> Manager<S> {
    /// SET_CAPABILITIES
    pub(crate) fn set_capabilities(
        &mut self,
        slot: Slot,
        words: &[u64; 8],
    ) -> Result<Outcome, Errno> {
        let mut creds = self.processes[slot].creds;
        if !set(&mut creds, words[1], words[2], words[3]) {
            return Err(EPERM);
        }
        self.assume(slot, creds);
        done(0)
    }

    /// What PRCTL has of capabilities; `None` is something else.
    pub(crate) fn capability_option(
        &mut self,
        slot: Slot,
        words: &[u64; 8],
    ) -> Option<Result<Outcome, Errno>> {
        let answer = option(&mut self.processes[slot].creds, words)?;
        Some(answer.map(|value| Outcome::words(&[value])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_idl::capability::{CHOWN, KILL, SETUID};

    fn user(ids: [u32; 3], of: &Credentials) -> Credentials {
        let [ruid, euid, suid] = ids;
        Credentials {
            ruid,
            euid,
            suid,
            ..*of
        }
    }

    fn became(ids: [u32; 3], old: &Credentials) -> Credentials {
        let mut new = user(ids, old);
        follow_ids(old, &mut new, Some(0));
        new
    }

    fn ask(creds: &mut Credentials, what: u64, value: u64, further: u64) -> Result<u64, Errno> {
        option(creds, &[0, what, value, further, 0, 0, 0, 0]).unwrap()
    }

    #[test]
    fn who_stops_being_root_loses_them() {
        let root = first();
        let gone = became([5, 5, 5], &root);
        assert_eq!((gone.permitted, gone.effective), (0, 0));
        let rests = became([0, 5, 0], &root);
        assert_eq!((rests.permitted, rests.effective), (ALL, 0));
        let again = became([0, 0, 0], &rests);
        assert_eq!(again.effective, ALL);
    }

    #[test]
    fn they_are_kept_if_that_was_asked_for_but_not_over_exec() {
        let mut root = first();
        assert_eq!(ask(&mut root, SET_KEEPCAPS, 1, 0), Ok(0));
        assert_eq!(ask(&mut root, GET_KEEPCAPS, 0, 0), Ok(1));
        let mut kept = became([5, 5, 5], &root);
        assert_eq!((kept.permitted, kept.effective), (ALL, 0));
        assert!(set(&mut kept, 1 << KILL, 1 << KILL, 0));
        assert!(kept.has(KILL) && !kept.has(CHOWN));
        follow_exec(&mut kept, None, Some(0));
        assert_eq!((kept.permitted, kept.effective, kept.secure), (0, 0, 0));
    }

    #[test]
    fn what_was_given_up_does_not_come_back() {
        let mut c = first();
        let few = 1 << KILL | 1 << CHOWN;
        assert!(set(&mut c, 1 << KILL, few, 0));
        assert!(!set(&mut c, 1 << SETUID, few, 0));
        assert!(!set(&mut c, 0, ALL, 0));
        assert!(!set(&mut c, few, 1 << KILL, 0));
        assert!(set(&mut c, few, few, few));
        // Without CAP_SETPCAP only what is permitted may be inherited.
        assert!(!set(&mut c, 0, 0, ALL));
        assert_eq!(ask(&mut c, CAPBSET_DROP, KILL as u64, 0), Err(EPERM));
    }

    #[test]
    fn exec_of_root_begins_with_what_the_bounds_leave() {
        let mut c = first();
        assert_eq!(ask(&mut c, CAPBSET_DROP, CHOWN as u64, 0), Ok(0));
        assert_eq!(ask(&mut c, CAPBSET_READ, CHOWN as u64, 0), Ok(0));
        assert_eq!(ask(&mut c, CAPBSET_READ, KILL as u64, 0), Ok(1));
        assert_eq!(ask(&mut c, CAPBSET_READ, 41, 0), Err(EINVAL));
        assert!(c.has(CHOWN));
        follow_exec(&mut c, None, Some(0));
        assert_eq!(c.effective, ALL & !(1 << CHOWN));
        let mut real_only = user([0, 5, 5], &c);
        follow_exec(&mut real_only, None, Some(0));
        assert_eq!((real_only.permitted, real_only.effective), (c.permitted, 0));
    }

    #[test]
    fn ambient_ones_go_through_exec_of_others() {
        let mut c = first();
        assert_eq!(ask(&mut c, CAP_AMBIENT, RAISE, KILL as u64), Err(EPERM));
        assert!(set(&mut c, ALL, ALL, 1 << KILL));
        c.secure = KEEP;
        let mut c = became([5, 5, 5], &c);
        assert_eq!(ask(&mut c, CAP_AMBIENT, RAISE, KILL as u64), Ok(0));
        assert_eq!(ask(&mut c, CAP_AMBIENT, RAISE, CHOWN as u64), Err(EPERM));
        follow_exec(&mut c, None, Some(0));
        assert_eq!((c.effective, c.permitted), (1 << KILL, 1 << KILL));
        assert_eq!(ask(&mut c, CAP_AMBIENT, IS_SET, KILL as u64), Ok(1));
        assert_eq!(ask(&mut c, CAP_AMBIENT, CLEAR_ALL, 0), Ok(0));
        follow_exec(&mut c, None, Some(0));
        assert_eq!(c.effective, 0);
    }

    #[test]
    fn securebits_that_are_locked_stay() {
        let mut c = first();
        let set = |c: &mut Credentials, bits: u32| ask(c, SET_SECUREBITS, bits.into(), 0);
        assert_eq!(set(&mut c, 1 << 8), Err(EPERM));
        assert_eq!(ask(&mut c, SET_SECUREBITS, 1 << 32, 0), Err(EPERM));
        assert_eq!(set(&mut c, KEEP | NO_FIXUP), Ok(0));
        assert_eq!(ask(&mut c, GET_KEEPCAPS, 0, 0), Ok(1));
        assert_eq!(ask(&mut c, SET_KEEPCAPS, 0, 0), Ok(0));
        assert_eq!(ask(&mut c, GET_SECUREBITS, 0, 0), Ok(NO_FIXUP.into()));
        // New ids change nothing now.
        let mut new = user([5, 5, 5], &c);
        follow_ids(&c, &mut new, Some(0));
        assert_eq!(new.effective, ALL);
        let locked = NO_ROOT | NO_ROOT << 1 | KEEP << 1;
        assert_eq!(set(&mut c, locked), Ok(0));
        assert_eq!(ask(&mut c, SET_KEEPCAPS, 1, 0), Err(EPERM));
        assert_eq!(set(&mut c, locked & !NO_ROOT), Err(EPERM));
        assert_eq!(set(&mut c, NO_ROOT), Err(EPERM));
        assert_eq!(set(&mut c, locked | NO_RAISE), Ok(0));
        assert!(self::set(&mut c, ALL, ALL, 1 << KILL));
        assert_eq!(ask(&mut c, CAP_AMBIENT, RAISE, KILL as u64), Err(EPERM));
        // User 0 is a user as others.
        assert_eq!(follow_exec(&mut c, None, Some(0)), Some(false));
        assert_eq!((c.permitted, c.effective), (0, 0));
        assert_eq!(set(&mut c, locked), Err(EPERM));
    }

    fn file(permitted: u64, inheritable: u64, effective: bool) -> Option<FileCapabilities> {
        Some(FileCapabilities {
            permitted,
            inheritable,
            effective,
        })
    }

    #[test]
    fn a_file_gives_what_the_bounds_leave() {
        let plain = Credentials {
            bounding: ALL & !(1 << CHOWN),
            inheritable: 1 << SETUID,
            ..user([5, 5, 5], &Credentials::default())
        };
        let run = |file| {
            let mut c = plain;
            follow_exec(&mut c, file, Some(0)).map(|careful| (c.permitted, c.effective, careful))
        };
        let kill = 1 << KILL;
        assert_eq!(run(None), Some((0, 0, false)));
        assert_eq!(run(file(kill, 0, true)), Some((kill, kill, true)));
        assert_eq!(run(file(kill, 0, false)), Some((kill, 0, true)));
        assert_eq!(run(file(0, ALL, false)), Some((1 << SETUID, 0, true)));
        // A program that does not look what it has must have all of it.
        assert_eq!(run(file(kill | 1 << CHOWN, 0, true)), None);
        assert_eq!(
            run(file(kill | 1 << CHOWN, 0, false)),
            Some((kill, 0, true))
        );
        // User 0 has everything anyway, but not who becomes it by such a file.
        let mut root = first();
        assert_eq!(
            follow_exec(&mut root, file(kill, 0, true), Some(0)),
            Some(false)
        );
        assert_eq!(root.effective, ALL);
        let mut becomes = user([5, 0, 0], &plain);
        assert_eq!(
            follow_exec(&mut becomes, file(kill, 0, true), Some(0)),
            Some(true)
        );
        assert_eq!(becomes.permitted, kill);
    }

    #[test]
    fn a_file_with_capabilities_ends_ambient_ones() {
        let kill = 1 << KILL;
        let mut c = Credentials {
            bounding: ALL,
            permitted: kill,
            inheritable: kill,
            ambient: kill,
            ..user([5, 5, 5], &Credentials::default())
        };
        assert_eq!(follow_exec(&mut c, None, Some(0)), Some(false));
        assert_eq!(c.effective, kill);
        assert_eq!(follow_exec(&mut c, file(0, 0, false), Some(0)), Some(false));
        assert_eq!((c.permitted, c.ambient), (0, 0));
    }
}
