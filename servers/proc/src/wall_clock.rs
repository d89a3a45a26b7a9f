//! The wall clock: setting it (clock_settime, settimeofday), and what adjtimex(2) knows of it. The nucleus tells everybody the time; here is who may change it, and what follows.
//! A rate (ADJ_FREQUENCY, ADJ_TICK) and an offset (ADJ_OFFSET) have their effect in steps, one each second.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::system::{Errno, System};
use crate::table::{Slot, NONE};
use cairn_idl::capability::SYS_TIME;
use cairn_idl::errno::{EFAULT, EINVAL, EPERM};
use cairn_idl::proc::LAST_SECOND;
use cairn_rt::Received;

const SECOND: u64 = 1_000_000_000;
/// [`crate::timers::Due`]: the clock takes its next step.
pub const STEP: u32 = 1 << 29;

/// Modes of adjtimex(2).
mod mode {
    pub const OFFSET: u32 = 1;
    pub const FREQUENCY: u32 = 2;
    pub const MAXERROR: u32 = 4;
    pub const ESTERROR: u32 = 8;
    pub const STATUS: u32 = 0x10;
    pub const TIMECONST: u32 = 0x20;
    pub const TAI: u32 = 0x80;
    pub const SETOFFSET: u32 = 0x100;
    pub const MICRO: u32 = 0x1000;
    pub const NANO: u32 = 0x2000;
    pub const TICK: u32 = 0x4000;
    /// The old adjtime(3): with OFFSET, and READ_ONLY to ask only.
    pub const SINGLE_SHOT: u32 = 0x8000;
    pub const READ_ONLY: u32 = 0x2000;
}

/// Bits of the status.
mod status {
    pub const PLL: i32 = 1;
    pub const UNSYNC: i32 = 0x40;
    pub const NANO: i32 = 0x2000;
    /// Those that nobody sets.
    pub const READ_ONLY: i32 = 0xff00;
}

/// `struct timex` as words: modes, offset, frequency, greatest and estimated error, status, constant, precision, tolerance, time (2), tick; behind the eight of PPS the TAI offset.
const WORDS: usize = 26;
const TAI_WORD: usize = 20;
const TOLERANCE: i64 = 500 << 16;
const MAX_ERROR: i64 = 16_000_000;
/// By how many µs a clock may be wrong after each second more, if nobody looks after it.
const ERROR_GROWTH: i64 = TOLERANCE >> 16;
const MAX_CONSTANT: i64 = 10;
const MAX_TAI: i64 = 100_000;
/// µs in a tick, as always and as far as it goes.
const TICK: i64 = 10_000;
const TICKS: core::ops::RangeInclusive<i64> = 9_000..=11_000;
/// Most of an offset, in ns.
const MAX_OFFSET: i64 = 500_000_000;
/// What adjtime's offset goes by in a second, in ns.
const SINGLE_SHOT_STEP: i64 = 500_000;
const TIME_OK: i64 = 0;
const TIME_ERROR: i64 = 5;

#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    /// What is left of an offset, and of adjtime's, in ns.
    offset: i64,
    single: i64,
    /// Parts in a million, times 2^16.
    frequency: i64,
    /// As it was at a (monotonic) time: it grows by [`ERROR_GROWTH`] each second.
    max_error: i64,
    error_at: u64,
    est_error: i64,
    status: i32,
    constant: i64,
    tick: i64,
    tai: i64,
    /// When the next step is (0: none comes).
    next: u64,
}

impl Default for WallClock {
    fn default() -> Self {
        WallClock {
            offset: 0,
            single: 0,
            frequency: 0,
            max_error: MAX_ERROR,
            error_at: 0,
            est_error: MAX_ERROR,
            status: status::UNSYNC,
            constant: 2,
            tick: TICK,
            tai: 0,
            next: 0,
        }
    }
}

impl WallClock {
    /// A unit of offsets, in ns.
    fn unit(&self) -> i64 {
        match self.status & status::NANO {
            0 => 1000,
            _ => 1,
        }
    }

    /// It was set: nobody disciplines it any more.
    fn was_set(&mut self) {
        (self.offset, self.single) = (0, 0);
        self.status |= status::UNSYNC;
        (self.max_error, self.est_error) = (MAX_ERROR, MAX_ERROR);
    }

    /// What seconds that have gone by make of the greatest error.
    fn grow_old(&mut self, now: u64) {
        let seconds = now.saturating_sub(self.error_at) / SECOND;
        self.error_at += seconds * SECOND;
        let growth = i64::try_from(seconds).unwrap_or(i64::MAX);
        let error = growth
            .saturating_mul(ERROR_GROWTH)
            .saturating_add(self.max_error);
        self.max_error = error.min(MAX_ERROR);
        if error > MAX_ERROR {
            self.status |= status::UNSYNC;
        }
    }

    fn is_steady(&self) -> bool {
        self.offset == 0 && self.single == 0 && self.frequency == 0 && self.tick == TICK
    }

    /// What a second brings beside itself, in ns.
    fn step(&mut self) -> i64 {
        // (A millionth of a second is 1,000 ns; a µs of each of 100 ticks is 100,000 ns.)
        let rate = ((self.frequency * 1000) >> 16) + (self.tick - TICK) * 100_000;
        let part = match self.offset / 16 {
            0 => self.offset,
            part => part,
        };
        self.offset -= part;
        let single = self.single.clamp(-SINGLE_SHOT_STEP, SINGLE_SHOT_STEP);
        self.single -= single;
        rate + part + single
    }

    /// What the modes say, of a structure that was looked at.
    fn change(&mut self, modes: u32, given: &[i64; WORDS]) {
        if modes & mode::STATUS != 0 {
            let wanted = given[5] as i32;
            if self.status & status::PLL != 0 && wanted & status::PLL == 0 {
                self.status = status::UNSYNC;
            }
            self.status = self.status & status::READ_ONLY | wanted & !status::READ_ONLY;
        }
        if modes & mode::NANO != 0 {
            self.status |= status::NANO;
        }
        if modes & mode::MICRO != 0 {
            self.status &= !status::NANO;
        }
        if modes & mode::FREQUENCY != 0 {
            self.frequency = given[2].clamp(-TOLERANCE, TOLERANCE);
        }
        if modes & mode::MAXERROR != 0 {
            self.max_error = given[3].clamp(0, MAX_ERROR);
        }
        if modes & mode::ESTERROR != 0 {
            self.est_error = given[4].clamp(0, MAX_ERROR);
        }
        if modes & mode::TIMECONST != 0 {
            let more = if self.status & status::NANO == 0 {
                4
            } else {
                0
            };
            self.constant = given[6].clamp(0, MAX_CONSTANT).saturating_add(more);
            self.constant = self.constant.clamp(0, MAX_CONSTANT);
        }
        if modes & mode::TAI != 0 && (0..=MAX_TAI).contains(&given[6]) {
            self.tai = given[6];
        }
        if modes & mode::OFFSET != 0 && self.status & status::PLL != 0 {
            let offset = given[1].saturating_mul(self.unit());
            self.offset = offset.clamp(-MAX_OFFSET, MAX_OFFSET);
        }
        if modes & mode::TICK != 0 {
            self.tick = given[11];
        }
    }

    fn told(&self, modes: u32, now: u64) -> [i64; WORDS] {
        let mut words = [0; WORDS];
        words[0] = i64::from(modes);
        words[1] = self.offset / self.unit();
        words[2] = self.frequency;
        words[3] = self.max_error;
        words[4] = self.est_error;
        words[5] = i64::from(self.status as u32);
        words[6] = self.constant;
        words[7] = 1;
        words[8] = TOLERANCE;
        words[9] = (now / SECOND) as i64;
        words[10] = (now % SECOND) as i64 / self.unit();
        words[11] = self.tick;
        words[TAI_WORD] = self.tai;
        words
    }
}

impl<S: System> Manager<S> {
    fn may_set_clock(&self, slot: Slot) -> Result<(), Errno> {
        match self.processes[slot].creds.has(SYS_TIME) {
            true => Ok(()),
            false => Err(EPERM),
        }
    }

    fn move_clock(&mut self, wall: u64) -> Result<(), Errno> {
        let before = self.system.wall();
        if !self.system.set_wall(wall) {
            return Err(EPERM);
        }
        self.wall_moved(wall.wrapping_sub(before) as i64);
        Ok(())
    }

    /// SET_CLOCK
    pub(crate) fn set_clock(&mut self, slot: Slot, wall: u64) -> Result<Outcome, Errno> {
        self.may_set_clock(slot)?;
        if wall.saturating_add(self.system.now()) / SECOND > LAST_SECOND {
            return Err(EINVAL);
        }
        self.move_clock(wall)?;
        self.clock.was_set();
        done(0)
    }

    /// ADJUST_CLOCK
    pub(crate) fn adjust_clock(
        &mut self,
        message: &Received,
        slot: Slot,
    ) -> Result<Outcome, Errno> {
        let modes = message.words[1] as u32;
        let bytes = self.bytes(message, 0, WORDS * 8)?;
        let mut given = [0i64; WORDS];
        for (word, bytes) in given.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = i64::from_le_bytes(bytes.try_into().map_err(|_| EFAULT)?);
        }
        self.clock.grow_old(self.system.now());
        let mut old = None;
        if modes & mode::SINGLE_SHOT != 0 {
            if modes & mode::OFFSET == 0 {
                return Err(EINVAL);
            }
            old = Some(self.clock.single / 1000);
            if modes & mode::READ_ONLY == 0 {
                self.may_set_clock(slot)?;
                self.clock.single = given[1].saturating_mul(1000);
            }
        } else {
            if modes != 0 {
                self.may_set_clock(slot)?;
            }
            if modes & mode::TICK != 0 && !TICKS.contains(&given[11]) {
                return Err(EINVAL);
            }
            if modes & mode::SETOFFSET != 0 {
                self.move_by(given[9], given[10], modes & mode::NANO != 0)?;
            }
            self.clock.change(modes, &given);
        }
        self.take_steps();
        let now = self.system.now().wrapping_add(self.system.wall());
        let mut state = self.clock.told(modes, now);
        if let Some(old) = old {
            state[1] = old;
        }
        let mut bytes = [0; WORDS * 8];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.system
            .write(message.token, 0, &bytes)
            .map_err(|_| EFAULT)?;
        done(match self.clock.status & status::UNSYNC {
            0 => TIME_OK,
            _ => TIME_ERROR,
        })
    }

    /// ADJ_SETOFFSET
    fn move_by(&mut self, seconds: i64, parts: i64, nano: bool) -> Result<(), Errno> {
        let unit = if nano { 1 } else { 1000 };
        if !(0..SECOND as i64 / unit).contains(&parts) {
            return Err(EINVAL);
        }
        let by = seconds
            .checked_mul(SECOND as i64)
            .and_then(|ns| ns.checked_add(parts * unit))
            .ok_or(EINVAL)?;
        let wall = self.system.wall().checked_add_signed(by).ok_or(EINVAL)?;
        if wall.saturating_add(self.system.now()) / SECOND > LAST_SECOND {
            return Err(EINVAL);
        }
        self.move_clock(wall)?;
        self.clock.was_set();
        Ok(())
    }

    /// See that steps come while there are any to take.
    fn take_steps(&mut self) {
        if self.clock.next == 0 && !self.clock.is_steady() {
            self.clock.next = self.system.now().saturating_add(SECOND);
            self.timers.insert((self.clock.next, NONE, STEP));
        }
    }

    pub(crate) fn clock_step(&mut self) {
        self.clock.next = 0;
        let by = self.clock.step();
        if by != 0 {
            let wall = self.system.wall();
            // (The clock was not set to before the machine began, so this does not go there either.)
            if let Some(wall) = wall.checked_add_signed(by) {
                let _ = self.move_clock(wall);
            }
        }
        self.take_steps();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_its_units_say() {
        let mut clock = WallClock {
            frequency: 1 << 16,
            ..WallClock::default()
        };
        assert_eq!(clock.step(), 1000);
        clock.frequency = 0;
        clock.tick = TICK + 1;
        assert_eq!(clock.step(), 100_000);
        assert!(!clock.is_steady());
    }

    #[test]
    fn an_offset_is_worked_off_and_then_gone() {
        let mut clock = WallClock::default();
        let mut given = [0; WORDS];
        given[1] = 1000;
        clock.change(mode::OFFSET, &given);
        assert_eq!(clock.offset, 0, "nobody follows it");
        given[5] = i64::from(status::PLL);
        clock.change(mode::OFFSET | mode::STATUS, &given);
        assert_eq!(clock.offset, 1_000_000);
        assert_eq!(clock.told(0, 0)[1], 1000);
        let mut sum = 0;
        for _ in 0..1000 {
            sum += clock.step();
        }
        assert_eq!((sum, clock.offset, clock.is_steady()), (1_000_000, 0, true));
    }

    #[test]
    fn errors_grow_until_nobody_believes_the_clock() {
        let mut clock = WallClock::default();
        let mut given = [0; WORDS];
        given[5] = i64::from(status::PLL);
        given[3] = 1000;
        clock.change(mode::MAXERROR | mode::STATUS, &given);
        clock.grow_old(3 * SECOND + 5);
        assert_eq!((clock.max_error, clock.status & status::UNSYNC), (2500, 0));
        clock.grow_old(4 * SECOND - 1);
        assert_eq!(clock.max_error, 2500);
        clock.grow_old(4 * SECOND);
        assert_eq!(clock.max_error, 3000);
        clock.grow_old(40_000 * SECOND);
        assert_eq!(clock.max_error, MAX_ERROR);
        assert_ne!(clock.status & status::UNSYNC, 0);
    }

    #[test]
    fn values_are_held_to_their_bounds() {
        let mut clock = WallClock::default();
        let mut given = [i64::MAX; WORDS];
        given[5] = -1;
        let modes = mode::FREQUENCY | mode::MAXERROR | mode::TAI | mode::STATUS | mode::TIMECONST;
        clock.change(modes, &given);
        assert_eq!((clock.frequency, clock.tai), (TOLERANCE, 0));
        assert_eq!(clock.status & status::READ_ONLY, 0);
        assert_eq!(clock.constant, MAX_CONSTANT);
    }
}
