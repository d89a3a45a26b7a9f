//! Setting clocks: clock_settime, settimeofday, adjtimex, clock_adjtime. The wall clock is set by the machine's clock chip at boot and cannot be changed,
//! so what is right and allowed is refused with EPERM, and what is wrong as Linux refuses it; reading the state (modes of 0) works.

use super::clocks::own_clock;
use crate::errno::{Result, EINVAL, EOPNOTSUPP, EPERM};
use crate::machine::area::{process, Frame};
use crate::machine::user;
use crate::time::{self, SECOND};
use cairn_idl::capability::SYS_TIME;

const REALTIME: u32 = 0;
/// The last of the clocks with numbers, and one in their midst that was never used.
const LAST: u32 = 11;
const UNUSED: u32 = 10;

pub fn clock_settime(f: &mut Frame) -> Result<u64> {
    let clock = f.arg(0) as u32;
    if clock != REALTIME {
        if (clock as i32) < 0 && clock & 3 != 3 {
            user::read::<[i64; 2]>(f.arg(1))?;
            own_clock(clock)?;
            return Err(EPERM);
        }
        return Err(EINVAL);
    }
    time::read_timespec(f.arg(1))?;
    // (Nobody may; who has the capability would otherwise be told that it is set.)
    Err(EPERM)
}

pub fn settimeofday(f: &mut Frame) -> Result<u64> {
    if f.arg(0) != 0 {
        let [seconds, microseconds] = user::read::<[i64; 2]>(f.arg(0))?;
        if !(0..=1_000_000).contains(&microseconds) {
            return Err(EINVAL);
        }
        if f.arg(1) != 0 {
            user::read::<u64>(f.arg(1))?;
        }
        time::timeval(seconds, microseconds)?;
    } else if f.arg(1) != 0 {
        user::read::<u64>(f.arg(1))?;
    } else if process().is_capable(SYS_TIME) {
        // Nothing to set.
        return Ok(0);
    }
    Err(EPERM)
}

/// Modes of adjtimex(2).
mod mode {
    pub const SINGLE_SHOT: u32 = 0x8000;
    pub const OFFSET: u32 = 1;
    pub const READ_ONLY: u32 = 0x2000;
}

/// `struct timex`, 208 bytes, as 26 words.
fn adjust(address: u64) -> Result<u64> {
    const NOT_SYNCHRONISED: u64 = 5;
    const STA_UNSYNC: u64 = 0x40;
    const MAX_ERROR: u64 = 16_000_000;
    const TOLERANCE: u64 = 500 << 16;
    let given: [u64; 26] = user::read(address)?;
    let modes = given[0] as u32;
    if modes & mode::SINGLE_SHOT != 0 {
        if modes & mode::OFFSET == 0 {
            return Err(EINVAL);
        }
        if modes & mode::READ_ONLY == 0 {
            return Err(EPERM);
        }
    } else if modes != 0 {
        return Err(EPERM);
    }
    let now = time::real_time();
    let mut state = [0u64; 26];
    state[0] = modes as u64;
    // offset, frequency; the greatest and the estimated error, status, constant, precision, tolerance; the time, tick.
    state[3] = MAX_ERROR;
    state[4] = MAX_ERROR;
    state[5] = STA_UNSYNC;
    state[6] = 2;
    state[7] = 1;
    state[8] = TOLERANCE;
    state[9] = now / SECOND;
    state[10] = now % SECOND / 1000;
    state[11] = 10_000;
    user::write(address, &state)?;
    Ok(NOT_SYNCHRONISED)
}

pub fn adjtimex(f: &mut Frame) -> Result<u64> {
    adjust(f.arg(0))
}

pub fn clock_adjtime(f: &mut Frame) -> Result<u64> {
    let clock = f.arg(0) as u32;
    user::read::<[u64; 26]>(f.arg(1))?;
    match clock {
        REALTIME => adjust(f.arg(1)),
        UNUSED => Err(EINVAL),
        _ if clock <= LAST => Err(EOPNOTSUPP),
        _ if (clock as i32) < 0 && clock & 3 != 3 => Err(EOPNOTSUPP),
        _ => Err(EINVAL),
    }
}
