//! Time as it is passed in: microseconds since any moment that stays the same.

/// A point in time, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct Time(pub u64);

/// So many microseconds.
pub type Micros = u64;

pub const MILLISECOND: Micros = 1_000;
pub const SECOND: Micros = 1_000_000;

impl Time {
    /// A timer that is not set.
    pub const NEVER: Time = Time(u64::MAX);

    pub const fn after(self, time: Micros) -> Time {
        Time(self.0.saturating_add(time))
    }

    pub const fn since(self, earlier: Time) -> Micros {
        self.0.saturating_sub(earlier.0)
    }

    /// The lower half of the microseconds, which wraps after 71 minutes: when a segment was sent.
    pub const fn stamp(self) -> Stamp {
        Stamp(self.0 as u32)
    }
}

/// Microseconds modulo 2^32. Two of them can be compared while they are less than 35 minutes apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Stamp(pub u32);

impl Stamp {
    /// Microseconds since an earlier one; none if it is later.
    pub const fn since(self, earlier: Stamp) -> u32 {
        let difference = self.0.wrapping_sub(earlier.0);
        if (difference as i32) < 0 {
            0
        } else {
            difference
        }
    }

    pub const fn after(self, other: Stamp) -> bool {
        (other.0.wrapping_sub(self.0) as i32) < 0
    }
}
