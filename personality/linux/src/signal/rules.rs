//! What signals do: default actions, what `proc` must know, how an interrupted call goes on (signal(7)), which signal an exception is.

use super::{
    actions::Actions, bit, sa, Action, Info, SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGKILL, SIGSEGV,
    SIGSTOP, SIGSYS, SIGTRAP, SIG_DFL, SIG_IGN,
};
use crate::errno::{Errno, EINTR, RESTART, RESTART_ALWAYS, RESTART_NO_HANDLER};
use crate::filter::ARCHITECTURE;
use crate::machine::area::Exception;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    Ignore,
    Terminate,
    Stop,
    Handle,
}

/// SIGCHLD, SIGCONT, SIGURG, SIGWINCH.
const DEFAULT_IGNORED: u64 = bit(17) | bit(18) | bit(23) | bit(28);
/// SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
const DEFAULT_STOP: u64 = bit(19) | bit(20) | bit(21) | bit(22);
/// Cannot be blocked, caught or ignored.
pub const UNBLOCKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);

/// Signals whose default action leaves a core file: SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS.
const DUMPS: u64 =
    bit(3) | bit(4) | bit(5) | bit(6) | bit(7) | bit(8) | bit(11) | bit(24) | bit(25) | bit(31);

pub fn dumps(signal: u32) -> bool {
    DUMPS & bit(signal) != 0
}

pub fn disposition(signal: u32, action: &Action) -> Disposition {
    match action.handler {
        SIG_IGN => Disposition::Ignore,
        SIG_DFL if DEFAULT_IGNORED & bit(signal) != 0 => Disposition::Ignore,
        SIG_DFL if DEFAULT_STOP & bit(signal) != 0 => Disposition::Stop,
        SIG_DFL => Disposition::Terminate,
        _ => Disposition::Handle,
    }
}

/// The words of SIGNAL_STATE: ignored, caught, flags. Signals in `wanted` are reported although their default is to ignore them.
pub fn told(actions: &Actions, wanted: u64) -> (u64, u64, u64) {
    let ignore = actions.which(|action| action.handler == SIG_IGN);
    let default = !actions.which(|action| action.handler != SIG_DFL);
    let ignored = ignore | default & DEFAULT_IGNORED & !wanted;
    let caught = !(ignore | default);
    let child = actions.get(SIGCHLD);
    let mut flags = 0;
    if child.handler == SIG_IGN || child.flags & sa::NOCLDWAIT != 0 {
        flags |= 1;
    }
    if child.flags & sa::NOCLDSTOP != 0 {
        flags |= 2;
    }
    (ignored, caught, flags)
}

/// Would another action for a signal change what `proc` must be told?
pub fn matters(before: &Action, after: &Action) -> bool {
    before.handler != after.handler
        || (before.flags ^ after.flags) & (sa::NOCLDWAIT | sa::NOCLDSTOP) != 0
}

/// How a call that ended with `error` goes on when a handler with these flags runs first: `None` = it is made again.
pub fn after_handler(error: Errno, flags: u64) -> Option<Errno> {
    match error {
        RESTART_ALWAYS => None,
        RESTART if flags & sa::RESTART != 0 => None,
        RESTART | RESTART_NO_HANDLER => Some(EINTR),
        other => Some(other),
    }
}

/// True for the errors that ask for the call to be made again.
pub fn is_restart(rax: u64) -> Option<Errno> {
    [RESTART, RESTART_ALWAYS, RESTART_NO_HANDLER]
        .into_iter()
        .find(|e| e.value() == rax)
}

/// Not a processor's exception: a system call that a filter refuses. `error` is what the filter says, `detail` the number.
pub const CALL_REFUSED: u64 = 0x100;

/// The signal of an exception (Intel SDM volume 3, chapter 6; Linux's traps.c for the codes).
pub fn of_exception(exception: &Exception) -> Info {
    let (signal, code, address) = match exception.vector {
        CALL_REFUSED => (SIGSYS, super::si::SECCOMP, exception.address),
        0 => (SIGFPE, 1, exception.address),
        1 => (SIGTRAP, 2, exception.address),
        3 => (SIGTRAP, super::si::KERNEL, 0),
        6 => (SIGILL, 2, exception.address),
        11 | 12 => (SIGBUS, super::si::KERNEL, 0),
        14 => match exception.detail {
            2 => (SIGBUS, 2, exception.address),
            1 => (SIGSEGV, 2, exception.address),
            _ => (SIGSEGV, 1, exception.address),
        },
        16 | 19 => (SIGFPE, 0, exception.address),
        17 => (SIGBUS, 1, exception.address),
        _ => (SIGSEGV, super::si::KERNEL, 0),
    };
    let refused = exception.vector == CALL_REFUSED;
    let call = exception.detail as u32 as u64 | u64::from(ARCHITECTURE) << 32;
    Info {
        signal,
        code,
        address,
        vector: exception.vector,
        error: exception.error,
        errno: if refused { exception.error as u32 } else { 0 },
        value: if refused { call } else { 0 },
        fault: true,
        ..Info::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults() {
        let default = Action::default();
        assert_eq!(disposition(17, &default), Disposition::Ignore);
        assert_eq!(disposition(20, &default), Disposition::Stop);
        assert_eq!(disposition(15, &default), Disposition::Terminate);
        let caught = Action {
            handler: 0x1000,
            ..default
        };
        assert_eq!(disposition(17, &caught), Disposition::Handle);
    }

    #[test]
    fn what_proc_is_told() {
        let mut actions = Actions::new();
        let with = |handler| Action {
            handler,
            ..Action::default()
        };
        assert_eq!(told(&actions, 0), (DEFAULT_IGNORED, 0, 0));
        assert_eq!(told(&actions, bit(17)).0, DEFAULT_IGNORED & !bit(17));
        actions.set(2, with(SIG_IGN));
        actions.set(15, with(0x4000));
        actions.set(17, with(SIG_IGN));
        let (ignored, caught, flags) = told(&actions, bit(17));
        assert_eq!(ignored, DEFAULT_IGNORED | bit(2));
        assert_eq!((caught, flags), (bit(15), 1));
    }

    #[test]
    fn restarts() {
        assert_eq!(after_handler(RESTART, sa::RESTART), None);
        assert_eq!(after_handler(RESTART, 0), Some(EINTR));
        assert_eq!(after_handler(RESTART_ALWAYS, 0), None);
        assert_eq!(after_handler(RESTART_NO_HANDLER, sa::RESTART), Some(EINTR));
        assert_eq!(is_restart(RESTART.value()), Some(RESTART));
        assert_eq!(is_restart(EINTR.value()), None);
    }

    #[test]
    fn exceptions() {
        let e = |vector, detail| {
            let info = of_exception(&Exception {
                vector,
                detail,
                address: 8,
                error: 0,
            });
            (info.signal, info.code)
        };
        assert_eq!(e(14, 0), (SIGSEGV, 1));
        assert_eq!(e(14, 1), (SIGSEGV, 2));
        assert_eq!(e(14, 2), (SIGBUS, 2));
        assert_eq!(e(0, 0), (SIGFPE, 1));
        assert_eq!(e(6, 0), (SIGILL, 2));
        assert_eq!(e(13, 0), (SIGSEGV, 0x80));
        let refused = of_exception(&Exception {
            vector: CALL_REFUSED,
            error: 7,
            address: 8,
            detail: 39,
        });
        let call = 39 | u64::from(ARCHITECTURE) << 32;
        assert_eq!(
            (refused.signal, refused.code, refused.errno),
            (SIGSYS, 1, 7)
        );
        assert_eq!((refused.address, refused.value), (8, call));
    }
}
