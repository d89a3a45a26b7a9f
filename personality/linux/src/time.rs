//! Time: the monotonic clock from the system page, and Linux's structures of seconds and fractions.

use crate::errno::{Result, EINVAL};
use crate::machine::{area, fpu, user};

pub const SECOND: u64 = 1_000_000_000;

/// Monotonic nanoseconds.
pub fn now() -> u64 {
    let page = fpu::system_page();
    let ticks = area::timestamp().wrapping_sub(page.tsc_base);
    scale(ticks, page.tsc_mult, page.tsc_shift)
}

fn scale(ticks: u64, mult: u64, shift: u64) -> u64 {
    ((ticks as u128 * mult as u128) >> (shift & 127)) as u64
}

/// Nanoseconds since 1970.
pub fn real_time() -> u64 {
    now().wrapping_add(boot_real_time())
}

/// Nanoseconds since 1970 at monotonic time 0, until the clock is set.
pub fn boot_real_time() -> u64 {
    fpu::wall_clock()
}

/// A `struct timespec` in ns: EINVAL if it is negative or not normal. Centuries are cut to what the clock holds.
pub fn read_timespec(address: u64) -> Result<u64> {
    let [seconds, nanoseconds] = user::read::<[i64; 2]>(address)?;
    timespec(seconds, nanoseconds)
}

pub fn timespec(seconds: i64, nanoseconds: i64) -> Result<u64> {
    if seconds < 0 || !(0..SECOND as i64).contains(&nanoseconds) {
        return Err(EINVAL);
    }
    Ok((seconds as u64)
        .saturating_mul(SECOND)
        .saturating_add(nanoseconds as u64))
}

/// A `struct timeval` in ns.
pub fn read_timeval(address: u64) -> Result<u64> {
    let [seconds, microseconds] = user::read::<[i64; 2]>(address)?;
    timeval(seconds, microseconds)
}

/// The same as select(2) has it: microseconds may be more than a second.
pub fn read_long_timeval(address: u64) -> Result<u64> {
    let [seconds, microseconds] = user::read::<[i64; 2]>(address)?;
    long_timeval(seconds, microseconds)
}

fn long_timeval(seconds: i64, microseconds: i64) -> Result<u64> {
    const MILLION: i64 = 1_000_000;
    timeval(
        seconds.wrapping_add(microseconds / MILLION),
        microseconds % MILLION,
    )
}

pub fn timeval(seconds: i64, microseconds: i64) -> Result<u64> {
    if !(0..1_000_000).contains(&microseconds) {
        return Err(EINVAL);
    }
    timespec(seconds, microseconds * 1000)
}

pub fn write_timespec(address: u64, ns: u64) -> Result<()> {
    user::write(address, &[ns / SECOND, ns % SECOND])
}

pub fn write_timeval(address: u64, ns: u64) -> Result<()> {
    user::write(address, &[ns / SECOND, ns % SECOND / 1000])
}

/// The deadline that lies `ns` ahead.
pub fn deadline_after(ns: u64) -> u64 {
    now().saturating_add(ns).min(i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures() {
        assert_eq!(timespec(1, 5), Ok(SECOND + 5));
        assert_eq!(timespec(-1, 5), Err(EINVAL));
        assert_eq!(timespec(1, SECOND as i64), Err(EINVAL));
        assert_eq!(timespec(i64::MAX, 0), Ok(u64::MAX));
        assert_eq!(timeval(2, 7), Ok(2 * SECOND + 7000));
        assert_eq!(timeval(0, -1), Err(EINVAL));
        assert_eq!(long_timeval(1, 2_000_007), Ok(3 * SECOND + 7000));
        assert_eq!(long_timeval(1, -1), Err(EINVAL));
        assert_eq!(long_timeval(-1, 999_999), Err(EINVAL));
    }

    #[test]
    fn ticks_scale_without_overflow() {
        assert_eq!(scale(3_000_000_000, 1 << 32, 32), 3_000_000_000);
        assert_eq!(scale(u64::MAX, 1 << 32, 32), u64::MAX);
    }
}
