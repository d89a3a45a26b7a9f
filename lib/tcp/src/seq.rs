//! Sequence numbers (RFC 9293, 3.4): unsigned 32-bit numbers that are compared modulo 2^32. Two of them can be ordered only while they lie less than 2^31 apart.

use core::ops::{Add, AddAssign, Sub};

/// A sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(transparent)]
pub struct Seq(pub u32);

impl core::fmt::Debug for Seq {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl Seq {
    /// `self < other`
    pub const fn before(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// `self <= other`
    pub const fn at_or_before(self, other: Seq) -> bool {
        !other.before(self)
    }

    /// `self > other`
    pub const fn after(self, other: Seq) -> bool {
        other.before(self)
    }

    /// `self >= other`
    pub const fn at_or_after(self, other: Seq) -> bool {
        !self.before(other)
    }

    /// Bytes from `earlier` to here, modulo 2^32.
    pub const fn since(self, earlier: Seq) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Bytes from `earlier` to here; none if it is later.
    pub const fn beyond(self, earlier: Seq) -> u32 {
        if self.after(earlier) {
            self.since(earlier)
        } else {
            0
        }
    }

    /// The later of two.
    pub const fn later(self, other: Seq) -> Seq {
        if self.before(other) {
            other
        } else {
            self
        }
    }

    /// The earlier of two.
    pub const fn earlier(self, other: Seq) -> Seq {
        if self.before(other) {
            self
        } else {
            other
        }
    }
}

impl Add<u32> for Seq {
    type Output = Seq;
    fn add(self, bytes: u32) -> Seq {
        Seq(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;
    fn sub(self, bytes: u32) -> Seq {
        Seq(self.0.wrapping_sub(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Order, distance and extremes do not depend on where in the circle two numbers lie.
        #[test]
        fn arithmetic_wraps(base: u32, near in 0..(1u32 << 31) - 1) {
            let (low, high) = (Seq(base), Seq(base) + near);
            prop_assert_eq!(high.since(low), near);
            prop_assert_eq!(high.beyond(low), near);
            prop_assert_eq!(low.beyond(high), 0);
            prop_assert_eq!(high - near, low);
            prop_assert_eq!(low.before(high), near > 0);
            prop_assert_eq!(high.after(low), near > 0);
            prop_assert!(low.at_or_before(high) && high.at_or_after(low));
            prop_assert_eq!(low.later(high), high);
            prop_assert_eq!(high.earlier(low), low);
            let mut moved = low;
            moved += near;
            prop_assert_eq!(moved, high);
        }
    }
}
