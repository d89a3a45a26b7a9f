//! Round-trip time and the retransmission timeout (RFC 6298), in microseconds.

use crate::time::{Micros, MILLISECOND, SECOND};

/// The least that K × RTTVAR counts: Linux's least timeout, which is added to SRTT.
pub const RTO_MIN: Micros = 200 * MILLISECOND;
/// The longest timeout, also after back-off.
pub const RTO_MAX: Micros = 120 * SECOND;
/// The timeout before there is any sample (RFC 6298, 2.1).
pub const RTO_INITIAL: Micros = SECOND;
/// The same after a SYN had to be sent again (RFC 6298, 5.7).
pub const RTO_AFTER_SYN_LOST: Micros = 3 * SECOND;

/// What is known of the round-trip time.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Rtt {
    /// Eight times SRTT; zero: there was no sample yet.
    srtt8: u32,
    /// Four times RTTVAR.
    rttvar4: u32,
    /// The least of the last minutes, for RACK.
    least: u32,
    /// RTO before back-off.
    rto: u32,
}

impl Rtt {
    pub const NEW: Rtt = Rtt {
        srtt8: 0,
        rttvar4: 0,
        least: u32::MAX,
        rto: RTO_INITIAL as u32,
    };

    /// Take a sample (RFC 6298, 2.2 and 2.3).
    pub fn sample(&mut self, micros: u32) {
        // A minute is beyond any real path; so the eightfold fits.
        let sample = micros.clamp(1, 60 * SECOND as u32);
        self.least = self.least.min(sample);
        if self.srtt8 == 0 {
            self.srtt8 = sample * 8;
            self.rttvar4 = sample * 2;
        } else {
            let error = (self.srtt8 / 8).abs_diff(sample);
            self.rttvar4 = self.rttvar4 - self.rttvar4 / 4 + error;
            self.srtt8 = self.srtt8 - self.srtt8 / 8 + sample;
        }
        self.rto = (self.srtt8 / 8 + self.rttvar4.max(RTO_MIN as u32)).min(RTO_MAX as u32);
    }

    /// Is there a sample?
    pub fn known(&self) -> bool {
        self.srtt8 != 0
    }

    pub fn smoothed(&self) -> Micros {
        Micros::from(self.srtt8 / 8)
    }

    /// Four times RTTVAR.
    pub fn variation(&self) -> Micros {
        Micros::from(self.rttvar4)
    }

    /// The least sample; zero if there is none.
    pub fn least(&self) -> Micros {
        if self.known() {
            Micros::from(self.least)
        } else {
            0
        }
    }

    /// RTO, doubled so many times (RFC 6298, 5.5).
    pub fn timeout(&self, backoff: u8) -> Micros {
        (Micros::from(self.rto) << backoff.min(16)).min(RTO_MAX)
    }

    /// The connection begins without a sample, since its SYN was sent more than once.
    pub fn syn_was_lost(&mut self) {
        if !self.known() {
            self.rto = RTO_AFTER_SYN_LOST as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_then_smoothed() {
        let mut rtt = Rtt::NEW;
        assert_eq!(rtt.timeout(0), SECOND);
        rtt.sample(400_000);
        // SRTT + 4 * (R / 2)
        assert_eq!(rtt.timeout(0), 1_200_000);
        assert_eq!(rtt.timeout(1), 2_400_000);
        assert_eq!(rtt.timeout(30), RTO_MAX);
        for _ in 0..100 {
            rtt.sample(400_000);
        }
        assert_eq!(rtt.timeout(0), 400_000 + RTO_MIN);
        assert_eq!(rtt.smoothed(), 400_000);
        rtt.sample(u32::MAX);
        assert!(rtt.timeout(0) <= RTO_MAX);
    }

    #[test]
    fn a_lost_syn_makes_the_first_timeout_three_seconds() {
        let mut rtt = Rtt::NEW;
        rtt.syn_was_lost();
        assert_eq!(rtt.timeout(0), 3 * SECOND);
        rtt.sample(1000);
        rtt.syn_was_lost();
        assert_eq!(rtt.timeout(0), 1000 + RTO_MIN);
    }
}
