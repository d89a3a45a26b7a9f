//! Setting the wall clock: clock_settime, settimeofday, adjtimex, clock_adjtime. `proc` decides who may and does it; the event server is told that there is something to look at.

use super::clocks::{is_device, own_clock};
use crate::errno::{Result, EINVAL, EOPNOTSUPP, EPERM};
use crate::event;
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use crate::path;
use crate::time::{self, SECOND};
use cairn_abi::layout::linux_slot;
use cairn_idl::capability::SYS_TIME;
use cairn_idl::{event as idl, proc};

const REALTIME: u32 = 0;
/// The last of the clocks with numbers, and one in their midst that was never used.
const LAST: u32 = 11;
const UNUSED: u32 = 10;

pub fn clock_settime(f: &mut Frame) -> Result<u64> {
    let clock = f.arg(0) as u32;
    if clock != REALTIME {
        if (clock as i32) < 0 && !is_device(clock) {
            user::read::<[i64; 2]>(f.arg(1))?;
            own_clock(clock)?;
            return Err(EPERM);
        }
        return Err(EINVAL);
    }
    set(time::read_timespec(f.arg(1))?)
}

/// The wall clock says this from now on.
fn set(time: u64) -> Result<u64> {
    if time / SECOND > proc::LAST_SECOND {
        return Err(EINVAL);
    }
    if !process().is_capable(SYS_TIME) {
        return Err(EPERM);
    }
    // It cannot say that the machine began before 1970.
    let wall = time.checked_sub(time::now()).ok_or(EINVAL)?;
    Request::new(&[proc::SET_CLOCK, wall]).call(linux_slot::PROC)?;
    tell();
    Ok(0)
}

/// The event server looks at the clock: its timers follow it.
fn tell() {
    if let Ok(server) = path::scheme(event::MANAGER) {
        let _ = Request::new(&[idl::CLOCK_SET]).call(server);
    }
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
        return set(time::timeval(seconds, microseconds)?);
    }
    if f.arg(1) != 0 {
        // The time zone, which is kept nowhere: who may set it is told that it is set.
        let [west, _] = user::read::<[i32; 2]>(f.arg(1))?;
        if !process().is_capable(SYS_TIME) {
            return Err(EPERM);
        }
        const MOST: i32 = 15 * 60;
        return match (-MOST..=MOST).contains(&west) {
            true => Ok(0),
            false => Err(EINVAL),
        };
    }
    match process().is_capable(SYS_TIME) {
        // Nothing to set.
        true => Ok(0),
        false => Err(EPERM),
    }
}

/// `struct timex`: `proc` knows its modes.
fn adjust(address: u64) -> Result<u64> {
    const SIZE: u64 = 208;
    const SETOFFSET: u32 = 0x100;
    let given: [u64; SIZE as usize / 8] = user::read(address)?;
    let modes = given[0] as u32;
    // (The other modes are `proc`'s to refuse.)
    if modes & SETOFFSET != 0 && !process().is_capable(SYS_TIME) {
        return Err(EPERM);
    }
    let mut state = given;
    let words = Request::new(&[proc::ADJUST_CLOCK, modes.into()])
        .out(user::bytes_of(&given))
        .input_value(&mut state)
        .call(linux_slot::PROC)?;
    if modes & SETOFFSET != 0 {
        tell();
    }
    user::write(address, &state)?;
    Ok(words[0])
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
        _ if (clock as i32) < 0 && !is_device(clock) => Err(EOPNOTSUPP),
        _ => Err(EINVAL),
    }
}
