//! getsockopt(2) and setsockopt(2): the options of SOL_SOCKET, from and to the structures that programs have. What they mean is the manager's.

use super::internet::{self, is_internet};
use super::sockets::{option, socket_of};
use super::spaces::number_inside;
use crate::descriptors::OpenFile;
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
const PEERGROUPS: u64 = 59;
/// Bytes of most groups.
const GROUPS: usize = 128;
const RCVTIMEO: u64 = 20;
const SNDTIMEO: u64 = 21;
/// The same with a `time_t` of 64 bits, which it has here anyway.
const RCVTIMEO_NEW: u64 = 66;
const SNDTIMEO_NEW: u64 = 67;
const TIMESTAMP: u64 = 29;
const TIMESTAMPNS: u64 = 35;
const TIMESTAMP_NEW: u64 = 63;
const TIMESTAMPNS_NEW: u64 = 64;
const SNDBUF: u64 = 7;
const RCVBUF: u64 = 8;
const BINDTODEVICE: u64 = 25;
const ATTACH_FILTER: u64 = 26;
const TIMESTAMPING: u64 = 37;
pub const MAX_PACING_RATE: u64 = 47;
pub const MEMINFO: u64 = 55;
pub const INCOMING_NAPI_ID: u64 = 56;
pub const COOKIE: u64 = 57;
pub const TXTIME: u64 = 61;
const TIMESTAMPING_NEW: u64 = 65;
pub const NETNS_COOKIE: u64 = 71;

/// How many bytes the value of an option of SOL_SOCKET has that is one number.
pub fn width(number: u64, room: u32) -> usize {
    match number {
        MAX_PACING_RATE if room < 8 => 4,
        MAX_PACING_RATE | COOKIE | TXTIME | NETNS_COOKIE => 8,
        _ => 4,
    }
}

/// The number as it is told in so few bytes: a rate that does not fit is the largest.
pub fn narrowed(number: u64, value: u64, width: usize) -> u64 {
    match number {
        MAX_PACING_RATE if width == 4 => value.min(u32::MAX.into()),
        _ => value,
    }
}

/// Bytes of SO_MEMINFO: of what Linux counts here only the bounds of both buffers are known.
pub const MEMINFO_SIZE: usize = 36;
pub fn memory_info(receive: u64, send: u64) -> [u8; MEMINFO_SIZE] {
    let mut bytes = [0; MEMINFO_SIZE];
    bytes[4..8].copy_from_slice(&(receive as u32).to_ne_bytes());
    bytes[12..16].copy_from_slice(&(send as u32).to_ne_bytes());
    bytes
}

/// The value of an option that is set, of those with more than four bytes; `None`: it is another one.
pub fn wide_value(number: u64, address: u64, length: i32) -> Option<Result<u64>> {
    match number {
        MAX_PACING_RATE if length >= 8 => Some(user::read(address)),
        // All is no bound, in any width.
        MAX_PACING_RATE if length >= 4 => Some(user::read::<u32>(address).map(|rate| match rate {
            u32::MAX => u64::MAX,
            rate => rate.into(),
        })),
        TXTIME if length != 8 => Some(Err(EINVAL)),
        TXTIME => Some(user::read(address)),
        _ => None,
    }
}

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
        // (Nobody's groups are known of the other end.)
        if option == (SOL_SOCKET, PEERGROUPS) {
            let length: u32 = user::read(f.arg(4))?;
            return Err(if (length as i32) < 0 { EINVAL } else { ENODATA });
        }
        return internet::get_option(&file, option, f.arg(3), f.arg(4)).map(|()| 0);
    }
    if u64::from(level) != SOL_SOCKET {
        return Err(EOPNOTSUPP);
    }
    let length: u32 = user::read(f.arg(4))?;
    if (length as i32) < 0 {
        return Err(EINVAL);
    }
    if number == PEERGROUPS {
        return peer_groups(&file, f.arg(3), (f.arg(4), length as usize)).map(|()| 0);
    }
    if number == COOKIE && length < 8 {
        return Err(EINVAL);
    }
    let mut bytes = [0; MEMINFO_SIZE];
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
        // Those of packets and interfaces mean nothing here.
        BINDTODEVICE | ATTACH_FILTER => 0,
        TIMESTAMPING | TIMESTAMPING_NEW => 8,
        MEMINFO => {
            put(
                0,
                &memory_info(option(&file, RCVBUF)?, option(&file, SNDBUF)?),
            );
            MEMINFO_SIZE
        }
        number => {
            let width = width(number, length);
            let value = narrowed(number, option(&file, number)?, width);
            put(0, &value.to_ne_bytes()[..width]);
            width
        }
    };
    let count = count.min(length as usize);
    user::write_bytes(f.arg(3), &bytes[..count])?;
    user::write(f.arg(4), &(count as u32))?;
    Ok(0)
}

/// If there is no room for all, only how much they take is told.
fn peer_groups(file: &OpenFile, into: u64, (place, room): (u64, usize)) -> Result<()> {
    let mut bytes = [0; GROUPS];
    let words = Request::new(&[local::GET_OPTION, PEERGROUPS])
        .input(&mut bytes)
        .call(file.slot())?;
    let length = (words[1] as usize).min(GROUPS / 4) * 4;
    user::write(place, &(length as u32))?;
    if room < length {
        return Err(ERANGE);
    }
    for id in bytes[..length].as_chunks_mut::<4>().0 {
        *id = user_space::group(u32::from_ne_bytes(*id)).to_ne_bytes();
    }
    user::write_bytes(into, &bytes[..length])
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
        MAX_PACING_RATE | TXTIME => wide_value(number, address, length).unwrap_or(Err(EINVAL))?,
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
