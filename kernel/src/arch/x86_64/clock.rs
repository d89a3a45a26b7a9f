//! Time: the time stamp counter scaled to nanoseconds, its rate found at start, and the wall clock read once from the clock chip.

use super::cpu::read_tsc;
use super::ports::{in32, in8, out8};
use core::arch::x86_64::__cpuid;

const SECOND: u64 = 1_000_000_000;
const PM_TIMER_HZ: u64 = 3_579_545;
const PIT_HZ: u64 = 1_193_182;
/// How long the rate is measured.
const MEASURE_NS: u64 = 5_000_000;
/// How long it takes to recognise a machine that counts nanoseconds.
const GLANCE_NS: u64 = 300_000;
pub const SHIFT: u64 = 32;

/// Monotonic nanoseconds = ((tsc - base) * mult) >> shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub base: u64,
    pub mult: u64,
    pub shift: u64,
    pub hz: u64,
    /// Ticks in a nanosecond of this clock, times 2 to the power [`FINE`], rounded up.
    ticks: u64,
}

/// Enough for 256 GHz.
const FINE: u64 = 56;

impl Clock {
    pub fn new(base: u64, hz: u64) -> Clock {
        let mult = ((SECOND as u128) << SHIFT) / hz as u128;
        Clock {
            base,
            mult: mult as u64,
            shift: SHIFT,
            hz,
            ticks: (1u128 << (SHIFT + FINE)).div_ceil(mult) as u64,
        }
    }

    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.to_ns(read_tsc().wrapping_sub(self.base))
    }

    #[inline(always)]
    pub fn to_ns(self, ticks: u64) -> u64 {
        ((ticks as u128 * self.mult as u128) >> SHIFT) as u64
    }

    /// A tick at which `now` is at least `ns`: the first, or one of the next after it (in the first two years the next but one at most).
    pub fn tick_at(&self, ns: u64) -> u64 {
        let ticks = (ns as u128 * self.ticks as u128) >> FINE;
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        self.base.saturating_add(ticks).saturating_add(1)
    }
}

/// A counter of known rate that is independent of the processor.
enum Reference {
    /// ACPI power management timer: 24 bits, counts up.
    PmTimer(u16),
    /// Channel 2 of the 8254: 16 bits, counts down.
    Pit,
}

impl Reference {
    fn hz(&self) -> u64 {
        match self {
            Reference::PmTimer(_) => PM_TIMER_HZ,
            Reference::Pit => PIT_HZ,
        }
    }

    fn start(&self) {
        if let Reference::Pit = self {
            // Gate on, speaker off; mode 0, both bytes, from 0xffff.
            out8(0x61, in8(0x61) & !2 | 1);
            out8(0x43, 0xb0);
            out8(0x42, 0xff);
            out8(0x42, 0xff);
        }
    }

    fn read(&self) -> u64 {
        match self {
            Reference::PmTimer(port) => in32(*port) as u64 & 0xff_ffff,
            Reference::Pit => {
                out8(0x43, 0x80);
                let low = in8(0x42) as u64;
                let high = in8(0x42) as u64;
                0xffff - (high << 8 | low)
            }
        }
    }

    fn elapsed(&self, from: u64, to: u64) -> u64 {
        match self {
            Reference::PmTimer(_) => to.wrapping_sub(from) & 0xff_ffff,
            Reference::Pit => to.wrapping_sub(from) & 0xffff,
        }
    }

    /// The counter and the tick at which it was read: of several readings the one that took least time, since the machine may be interrupted by its host.
    fn sample(&self) -> (u64, u64) {
        let mut best = (u64::MAX, 0, 0);
        for _ in 0..5 {
            let before = read_tsc();
            let counter = self.read();
            let after = read_tsc();
            let took = after.wrapping_sub(before);
            if took < best.0 {
                best = (took, counter, before.wrapping_add(took / 2));
            }
        }
        (best.1, best.2)
    }
}

/// The counter's rate if the processor or the hypervisor tells it.
fn told_hz() -> Option<u64> {
    if __cpuid(0).eax >= 0x15 {
        let leaf = __cpuid(0x15);
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            return Some(leaf.ecx as u64 * leaf.ebx as u64 / leaf.eax as u64);
        }
    }
    let hypervisor = __cpuid(1).ecx >> 31 != 0;
    if hypervisor && (0x4000_0010..0x4000_1000).contains(&__cpuid(0x4000_0000).eax) {
        let khz = __cpuid(0x4000_0010).eax as u64;
        if khz != 0 {
            return Some(khz * 1000);
        }
    }
    None
}

/// An emulator that counts nanoseconds instead of cycles measures as very nearly 1 GHz: take it as exact. (A processor may well have such a rate, which is not exactly that.)
fn settle(hz: u64, emulated: bool) -> u64 {
    if emulated && nearly_nanoseconds(hz) {
        SECOND
    } else {
        hz
    }
}

/// Is this QEMU's emulator? It says so where hypervisors do. (A processor without any answers with what it says elsewhere.)
fn is_emulated() -> bool {
    let leaf = __cpuid(0x4000_0000);
    let words = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes);
    words.as_flattened() == b"TCGTCGTCGTCG"
}

/// Does the counter keep its rate, whatever the processor's own is? That is what all time is made of.
pub fn is_steady() -> bool {
    let last = __cpuid(EXTENDED).eax;
    is_emulated() || last >= POWER && says_steady(__cpuid(POWER).edx)
}

/// Leaves of CPUID: how many extended ones there are, and what is said about power.
const EXTENDED: u32 = 0x8000_0000;
const POWER: u32 = 0x8000_0007;

/// "Invariant TSC" (Intel SDM volume 3, 18.17.1).
fn says_steady(edx: u32) -> bool {
    edx >> 8 & 1 != 0
}

fn nearly_nanoseconds(hz: u64) -> bool {
    hz.abs_diff(SECOND) <= SECOND / 500
}

/// Find the rate. Returns the clock, started at about now.
pub fn calibrate(pm_timer: Option<u16>) -> Clock {
    let emulated = is_emulated();
    if let Some(hz) = told_hz() {
        return Clock::new(read_tsc(), settle(hz, emulated));
    }
    let reference = pm_timer.map_or(Reference::Pit, Reference::PmTimer);
    reference.start();
    let (first, first_tick) = reference.sample();
    let wanted = reference.hz() * MEASURE_NS / SECOND;
    let glance = reference.hz() * GLANCE_NS / SECOND;
    let mut patience = 2_000_000;
    loop {
        let (counter, tick) = reference.sample();
        let elapsed = reference.elapsed(first, counter);
        let ticks = tick.wrapping_sub(first_tick) as u128;
        let hz = (ticks * reference.hz() as u128 / elapsed.max(1) as u128) as u64;
        if elapsed >= wanted || elapsed >= glance && emulated && nearly_nanoseconds(hz) {
            return Clock::new(first_tick, settle(hz.max(1_000_000), emulated));
        }
        patience -= 1;
        if patience == 0 {
            // A reference that stands still: better a wrong clock than none.
            return Clock::new(first_tick, SECOND);
        }
    }
}

/// Nanoseconds since 1970 by the clock chip (MC146818), 0 if it makes no sense.
pub fn wall_clock() -> u64 {
    let mut last = chip();
    for _ in 0..10 {
        let next = chip();
        if next == last {
            break;
        }
        last = next;
    }
    decode(last).unwrap_or(0)
}

/// Seconds, minutes, hours, day, month, year, century, status B.
fn chip() -> [u8; 8] {
    let read = |register: u8| {
        out8(0x70, register | 0x80);
        in8(0x71)
    };
    // An update in progress lasts at most 2 ms.
    let mut patience = 100_000;
    while read(0x0a) & 0x80 != 0 && patience > 0 {
        patience -= 1;
    }
    [
        read(0),
        read(2),
        read(4),
        read(7),
        read(8),
        read(9),
        read(0x32),
        read(0x0b),
    ]
}

fn decode(chip: [u8; 8]) -> Option<u64> {
    let [second, minute, hour, day, month, year, century, status] = chip;
    let number = |value: u8| -> u64 {
        if status & 4 != 0 {
            value as u64
        } else {
            (value >> 4) as u64 * 10 + (value & 15) as u64
        }
    };
    let mut hour_number = number(hour & 0x7f);
    if status & 2 == 0 {
        // Twelve-hour clock with a bit for the afternoon.
        hour_number = hour_number % 12 + if hour & 0x80 != 0 { 12 } else { 0 };
    }
    let century = match number(century) {
        value @ 19..=29 => value,
        _ => 20,
    };
    let (year, month, day) = (century * 100 + number(year), number(month), number(day));
    let (minute, second) = (number(minute), number(second));
    if year < 1970
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour_number > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    // Days from civil: the year begins in March (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + of_year - 719_468;
    Some((((days * 24 + hour_number) * 60 + minute) * 60 + second) * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_exactly_at_one_gigahertz() {
        let clock = Clock::new(100, SECOND);
        assert_eq!(clock.to_ns(123_456_789_012), 123_456_789_012);
        assert_eq!(clock.tick_at(5_000), 5_101);
    }

    #[test]
    fn ticks_reach_their_time() {
        for hz in [1_193_182, 2_399_999_999, 3_700_000_000, 24_000_000] {
            let clock = Clock::new(0, hz);
            for ns in [0, 1, 999, 1_000_000_007, 86_400 * SECOND, 1 << 55] {
                let tick = clock.tick_at(ns);
                assert!(clock.to_ns(tick) >= ns);
                assert!(tick < 3 || clock.to_ns(tick - 3) < ns);
            }
            // A day is right to a millisecond.
            assert!(clock.to_ns(86_400 * hz).abs_diff(86_400 * SECOND) < 1_000_000);
        }
        assert_eq!(Clock::new(u64::MAX - 5, SECOND).tick_at(u64::MAX), u64::MAX);
    }

    #[test]
    fn knows_the_date() {
        assert_eq!(decode([0, 0, 0, 1, 1, 0x70, 0x19, 2]), Some(0));
        // 2024-02-29 23:59:58, binary, 24 hours.
        assert_eq!(
            decode([58, 59, 23, 29, 2, 24, 20, 6]),
            Some(1_709_251_198 * SECOND)
        );
        // The same in BCD with a twelve-hour clock.
        assert_eq!(
            decode([0x58, 0x59, 0x91, 0x29, 0x02, 0x24, 0x20, 0]),
            Some(1_709_251_198 * SECOND)
        );
        assert_eq!(decode([0xff; 8]), None);
        assert_eq!(decode([0; 8]), None);
    }

    #[test]
    fn settles_only_near_one_gigahertz_and_only_in_the_emulator() {
        assert_eq!(settle(1_000_400_000, true), SECOND);
        assert_eq!(settle(1_003_000_000, true), 1_003_000_000);
        assert_eq!(settle(1_000_400_000, false), 1_000_400_000);
    }

    #[test]
    fn knows_whether_the_rate_stays() {
        assert!(says_steady(1 << 8));
        assert!(!says_steady(!(1 << 8)));
    }
}
