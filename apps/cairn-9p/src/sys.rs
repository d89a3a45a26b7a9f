//! Locks of ranges that belong to an open file, for which no crate here has a safe call.

use cairn_ninep::{lock_kind, Lock};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

fn described(lock: &Lock) -> Result<libc::flock, Errno> {
    let kind = match lock.kind {
        lock_kind::READ => libc::F_RDLCK,
        lock_kind::WRITE => libc::F_WRLCK,
        lock_kind::NONE => libc::F_UNLCK,
        _ => return Err(Errno::INVAL),
    };
    let number = |n: u64| i64::try_from(n).map_err(|_| Errno::INVAL);
    Ok(libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: number(lock.start)?,
        l_len: number(lock.length)?,
        l_pid: 0,
    })
}

fn call(file: BorrowedFd, command: i32, range: &mut libc::flock) -> Result<(), Errno> {
    // SAFETY: these commands take a pointer to one `flock`, which lives longer than the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, range as *mut libc::flock) } {
        0 => Ok(()),
        _ => {
            let error = std::io::Error::last_os_error();
            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
    }
}

/// Take or give back a lock; false: somebody else's is in the way.
pub fn lock(file: BorrowedFd, lock: &Lock) -> Result<bool, Errno> {
    match call(file, libc::F_OFD_SETLK, &mut described(lock)?) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The lock that is in this one's way, of nobody in particular; or none.
pub fn lock_there<'a>(file: BorrowedFd, lock: &Lock<'a>) -> Result<Lock<'a>, Errno> {
    let mut range = described(lock)?;
    call(file, libc::F_OFD_GETLK, &mut range)?;
    let kind = match i32::from(range.l_type) {
        libc::F_UNLCK => {
            let kind = lock_kind::NONE;
            return Ok(Lock { kind, ..*lock });
        }
        libc::F_RDLCK => lock_kind::READ,
        _ => lock_kind::WRITE,
    };
    Ok(Lock {
        kind,
        start: range.l_start as u64,
        length: range.l_len as u64,
        process: u32::try_from(range.l_pid).unwrap_or(0),
        client: b"",
    })
}
