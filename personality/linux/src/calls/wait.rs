//! wait4, waitid.

use super::ids::own_group;
use super::io::usable;
use super::pidfds;
use crate::errno::{Result, EAGAIN, EINVAL, ESRCH};
use crate::machine::area::Frame;
use crate::machine::request::Request;
use crate::machine::user::{self, UserRange};
use crate::signal::rules::is_restart;
use crate::user_space;
use cairn_abi::layout::linux_slot;
use cairn_idl::proc;

const P_ALL: u64 = 0;
const P_PID: u64 = 1;
const P_PGID: u64 = 2;
const P_PIDFD: u64 = 3;
const NOHANG: u64 = 1;
const STOPPED: u64 = 2;
const EXITED: u64 = 4;
const CONTINUED: u64 = 8;
const NOWAIT: u64 = 0x0100_0000;
/// __WALL, __WCLONE, __WNOTHREAD: all children are alike here.
const KINDS: u64 = 0xe000_0000;
const RUSAGE_SIZE: u64 = 144;

/// Where resources are to be told. A place that cannot be is noticed once there is something to tell.
fn rusage(address: u64) -> Result<UserRange> {
    if address == 0 {
        Ok(UserRange::EMPTY)
    } else {
        user::range(address, RUSAGE_SIZE)
    }
}

/// What was waited for, if what it used could be told.
fn told(words: [u64; 8], usage: Result<UserRange>) -> Result<[u64; 8]> {
    match words[0] {
        0 => Ok(words),
        _ => usage.map(|_| words),
    }
}

fn wait(kind: u64, id: u64, options: u64, usage: UserRange) -> Result<[u64; 8]> {
    let mut request = Request::new(&[proc::WAIT, kind, id, options]);
    if !usage.is_empty() {
        // A child is waited for once, so what is told of it must arrive: a page that is not there yet is refused to `proc`.
        user::touch(usage, true);
        request = request.input_user(usage);
    }
    request.wait(linux_slot::PROC)
}

pub fn wait4(f: &mut Frame) -> Result<u64> {
    let (pid, status, options) = (f.arg(0) as i32, f.arg(1), f.arg(2) & 0xffff_ffff);
    if options & !(NOHANG | STOPPED | CONTINUED | KINDS) != 0 {
        return Err(EINVAL);
    }
    if pid == i32::MIN {
        return Err(ESRCH);
    }
    let (kind, id) = match pid {
        -1 => (P_ALL, 0),
        0 => (P_PGID, own_group()?),
        pid if pid < 0 => (P_PGID, -(pid as i64) as u64),
        pid => (P_PID, pid as u64),
    };
    let usage = rusage(f.arg(3));
    let place = usage.unwrap_or(UserRange::EMPTY);
    let words = told(wait(kind, id, options & !KINDS | EXITED, place)?, usage)?;
    if words[0] != 0 && status != 0 {
        user::write(status, &(words[1] as u32))?;
    }
    Ok(words[0])
}

pub fn waitid(f: &mut Frame) -> Result<u64> {
    let info = f.arg(2);
    let words = match waited(f) {
        Ok(words) => words,
        Err(error) if is_restart(error.value()).is_some() => return Err(error),
        Err(error) => {
            // Nobody's change is told as well.
            if info != 0 {
                user::write_bytes(info, &child_info(0, 0, 0, false))?;
            }
            return Err(error);
        }
    };
    if info != 0 {
        user::write_bytes(
            info,
            &child_info(
                words[0],
                words[1] as u32,
                user_space::user(words[2] as u32),
                words[3] != 0,
            ),
        )?;
    }
    Ok(0)
}

fn waited(f: &Frame) -> Result<[u64; 8]> {
    let (kind, id, options) = (f.arg(0), f.arg(1), f.arg(3) & 0xffff_ffff);
    let known = NOHANG | STOPPED | EXITED | CONTINUED | NOWAIT | KINDS;
    if options & !known != 0 || options & (STOPPED | EXITED | CONTINUED) == 0 || kind > P_PIDFD {
        return Err(EINVAL);
    }
    let mut options = options & !KINDS;
    let mut again = false;
    let id = match (kind, id as i32) {
        (P_ALL, _) => 0,
        (P_PGID, 0) => own_group()?,
        (P_PIDFD, 0..) => {
            let (life, nonblocking) = pidfds::life(&*usable(id & 0xffff_ffff)?)?;
            again = nonblocking && options & NOHANG == 0;
            if nonblocking {
                options |= NOHANG;
            }
            life
        }
        (_, id) if id <= 0 => return Err(EINVAL),
        (_, id) => id as u64,
    };
    let usage = rusage(f.arg(4));
    let words = wait(kind, id, options, usage.unwrap_or(UserRange::EMPTY))?;
    match words[0] {
        0 if again => Err(EAGAIN),
        _ => told(words, usage),
    }
}

/// `siginfo_t` of a child; zeroes if none changed.
fn child_info(pid: u64, status: u32, uid: u32, traced: bool) -> [u8; 128] {
    let mut b = [0; 128];
    if pid == 0 {
        return b;
    }
    let (code, value) = match status & 0xff {
        0 => (1, status >> 8 & 0xff),
        0x7f if traced => (4, status >> 8),
        0x7f => (5, status >> 8 & 0xff),
        0xff => (6, 18),
        signal if signal & 0x80 != 0 => (3, signal & 0x7f),
        signal => (2, signal),
    };
    let mut put = |at: usize, value: u32| b[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(0, 17);
    put(8, code);
    put(16, pid as u32);
    put(20, uid);
    put(24, value);
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        let of = |status| {
            let b = child_info(7, status, 0, false);
            (b[8], b[24])
        };
        assert_eq!(of(3 << 8), (1, 3));
        assert_eq!(of(9), (2, 9));
        assert_eq!(of(11 | 0x80), (3, 11));
        assert_eq!(of(0x7f | 20 << 8), (5, 20));
        assert_eq!(of(0xffff), (6, 18));
        assert_eq!(child_info(0, 0, 0, false), [0; 128]);
    }
}
