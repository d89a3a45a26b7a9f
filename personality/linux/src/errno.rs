//! Errors of Linux system calls, and the two ways in which a call asks to be made again.

use cairn_idl::errno as n;

/// A positive Linux error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

pub type Result<T> = core::result::Result<T, Errno>;

macro_rules! errors {
    ($($name:ident)*) => { $(pub const $name: Errno = Errno(n::$name as i32);)* };
}

errors! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV ENOTBLK ENOTDIR EISDIR EINVAL EMFILE ENOTTY
    EFBIG ESPIPE EROFS EPIPE EDOM ERANGE ENAMETOOLONG ENOSYS ELOOP ENODATA EOVERFLOW ENOTSOCK EMSGSIZE ENOBUFS EPROTONOSUPPORT EADDRINUSE EOPNOTSUPP EAFNOSUPPORT EISCONN ENOPROTOOPT ETIMEDOUT EDEADLK ESTALE ENOMSG EIDRM EINPROGRESS
}

/// Interrupted before it had an effect: made again after a handler with SA_RESTART or without one, otherwise EINTR (signal(7)).
pub const RESTART: Errno = Errno(512);
/// Interrupted: made again only if no handler ran (poll, sleeps, sigsuspend).
pub const RESTART_NO_HANDLER: Errno = Errno(514);

/// Interrupted: made again whatever ran meanwhile.
pub const RESTART_ALWAYS: Errno = Errno(513);

impl Errno {
    /// As `rax` carries it.
    pub const fn value(self) -> u64 {
        (-(self.0 as i64)) as u64
    }
}

/// A server's result word: a value, or −errno.
pub fn check(word: u64) -> Result<u64> {
    let value = word as i64;
    if (-4095..0).contains(&value) {
        Err(Errno(-value as i32))
    } else {
        Ok(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_words() {
        assert_eq!(check(7), Ok(7));
        assert_eq!(check(-2i64 as u64), Err(ENOENT));
        assert_eq!(check(0x7fff_0000_0000), Ok(0x7fff_0000_0000));
        assert_eq!(check(u64::MAX), Err(EPERM));
        assert_eq!(ENOENT.value() as i64, -2);
    }
}
