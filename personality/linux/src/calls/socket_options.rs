//! getsockopt(2) and setsockopt(2): the options of SOL_SOCKET, from and to the structures that programs have. What they mean is the manager's.

use super::internet::{self, is_internet};
use super::sockets::{option, socket_of};
use super::spaces::number_inside;
use crate::errno::*;
use crate::machine::area::Frame;
use crate::machine::request::Request;
use crate::machine::user;
use crate::user_space;
use cairn_idl::local;

const SOL_SOCKET: u64 = 1;
pub const TYPE: u64 = 3;
const LINGER: u64 = 13;
const PEERCRED: u64 = 17;
const RCVTIMEO: u64 = 20;
const SNDTIMEO: u64 = 21;
/// The same with a `time_t` of 64 bits, which it has here anyway.
const RCVTIMEO_NEW: u64 = 66;
const SNDTIMEO_NEW: u64 = 67;
const TIMESTAMP: u64 = 29;
const TIMESTAMPNS: u64 = 35;
const TIMESTAMP_NEW: u64 = 63;
const TIMESTAMPNS_NEW: u64 = 64;

/// The number that the manager of local sockets knows.
fn known_locally(number: u64) -> u64 {
    match known(number) {
        TIMESTAMP_NEW => TIMESTAMP,
        TIMESTAMPNS_NEW => TIMESTAMPNS,
        number => number,
    }
}

/// The number that the manager knows.
fn known(number: u64) -> u64 {
    match number {
        RCVTIMEO_NEW => RCVTIMEO,
        SNDTIMEO_NEW => SNDTIMEO,
        number => number,
    }
}

/// Level and number of an Internet socket's option.
fn internet_option(f: &Frame) -> (u64, u64) {
    let (level, number) = (f.arg(1) & 0xffff_ffff, f.arg(2) & 0xffff_ffff);
    match level {
        SOL_SOCKET => (level, known(number)),
        _ => (level, number),
    }
}

pub fn getsockopt(f: &mut Frame) -> Result<u64> {
    let file = socket_of(f.arg(0))?;
    let (level, number) = (f.arg(1) as u32, known_locally(f.arg(2) & 0xffff_ffff));
    if is_internet(&file) {
        let option = internet_option(f);
        return internet::get_option(&file, option, f.arg(3), f.arg(4)).map(|()| 0);
    }
    if u64::from(level) != SOL_SOCKET {
        return Err(EOPNOTSUPP);
    }
    let length: u32 = user::read(f.arg(4))?;
    if (length as i32) < 0 {
        return Err(EINVAL);
    }
    let mut bytes = [0; 16];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let count = match number {
        LINGER => {
            let words = Request::new(&[local::GET_OPTION, number]).call(file.slot())?;
            put(0, &(words[1] as u32).to_ne_bytes());
            put(4, &(words[2] as u32).to_ne_bytes());
            8
        }
        RCVTIMEO | SNDTIMEO => {
            let ns = option(&file, number)?;
            put(0, &(ns / 1_000_000_000).to_ne_bytes());
            put(8, &(ns % 1_000_000_000 / 1000).to_ne_bytes());
            16
        }
        PEERCRED => {
            let words = Request::new(&[local::GET_OPTION, number]).call(file.slot())?;
            put(0, &number_inside(words[1] as u32).to_ne_bytes());
            put(4, &user_space::user(words[2] as u32).to_ne_bytes());
            put(8, &user_space::group((words[2] >> 32) as u32).to_ne_bytes());
            12
        }
        number => {
            put(0, &(option(&file, number)? as u32).to_ne_bytes());
            4
        }
    };
    let count = count.min(length as usize);
    user::write_bytes(f.arg(3), &bytes[..count])?;
    user::write(f.arg(4), &(count as u32))?;
    Ok(0)
}

pub fn setsockopt(f: &mut Frame) -> Result<u64> {
    let (address, length) = (f.arg(3), f.arg(4) as u32 as i32);
    if length < 0 {
        return Err(EINVAL);
    }
    let file = socket_of(f.arg(0))?;
    let (level, number) = (f.arg(1) as u32, known_locally(f.arg(2) & 0xffff_ffff));
    if is_internet(&file) {
        let option = internet_option(f);
        return internet::set_option(&file, option, address, length).map(|()| 0);
    }
    if u64::from(level) != SOL_SOCKET {
        return Err(EOPNOTSUPP);
    }
    if length < 4 {
        return Err(EINVAL);
    }
    let mut further = 0;
    let value = match number {
        LINGER if length < 8 => return Err(EINVAL),
        LINGER => {
            let [on, seconds] = user::read::<[u32; 2]>(address)?;
            further = seconds.into();
            u64::from(on != 0)
        }
        RCVTIMEO | SNDTIMEO if length < 16 => return Err(EINVAL),
        RCVTIMEO | SNDTIMEO => timeout(user::read(address)?)?,
        _ => user::read::<u32>(address)?.into(),
    };
    Request::new(&[local::SET_OPTION, number, value, further])
        .call(file.slot())
        .map(|_| 0)
}

/// A `struct timeval` in ns: 0 is for ever, and what is over already is over at once.
pub fn timeout([seconds, micros]: [i64; 2]) -> Result<u64> {
    if !(0..1_000_000).contains(&micros) {
        return Err(EDOM);
    }
    if seconds < 0 {
        return Ok(1);
    }
    let whole = (seconds as u64).saturating_mul(1_000_000_000);
    Ok(whole.saturating_add(micros as u64 * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_wait() {
        assert_eq!(timeout([0, 0]), Ok(0));
        assert_eq!(timeout([2, 5]), Ok(2_000_005_000));
        assert_eq!(timeout([-1, 0]), Ok(1));
        assert_eq!(timeout([1, 1_000_000]), Err(EDOM));
        assert_eq!(timeout([1, -1]), Err(EDOM));
        assert_eq!(timeout([i64::MAX, 0]), Ok(u64::MAX));
    }
}
