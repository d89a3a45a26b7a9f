//! The congestion window (RFC 5681), in segments as Linux counts it: slow start, NewReno's or CUBIC's avoidance (RFC 9438, in integers), and proportional rate reduction while losses are repaired (RFC 6937).

use crate::time::{Time, SECOND};

/// The initial window (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;
/// A window that nothing limits.
const WITHOUT_LIMIT: u32 = 0x7fff_ffff;

/// How the window grows in congestion avoidance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Algorithm {
    /// RFC 5681
    Reno = 0,
    /// RFC 9438
    #[default]
    Cubic = 1,
}

/// Fractions of a segment in `estimate`.
const FRACTION: u64 = 1024;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Congestion {
    /// When the current stage of avoidance began; never: with the next ACK.
    epoch: Time,
    /// "cwnd", in segments.
    window: u32,
    /// "ssthresh", in segments.
    threshold: u32,
    /// Segments acknowledged towards the next one more.
    credit: u32,
    algorithm: u32,
    /// CUBIC's W_max.
    most: u32,
    /// CUBIC's W_est, in 1,024ths.
    estimate: u32,
    /// CUBIC's K, in milliseconds.
    plateau: u32,
    /// The window at the last reduction (RecoverFS of RFC 6937 in segments).
    prior: u32,
    /// prr_delivered and prr_out.
    delivered: u32,
    out: u32,
}

impl Congestion {
    pub const fn new(algorithm: Algorithm) -> Congestion {
        Congestion {
            epoch: Time::NEVER,
            window: INITIAL_WINDOW,
            threshold: WITHOUT_LIMIT,
            credit: 0,
            algorithm: algorithm as u32,
            most: 0,
            estimate: 0,
            plateau: 0,
            prior: 0,
            delivered: 0,
            out: 0,
        }
    }

    pub fn algorithm(&self) -> Algorithm {
        match self.algorithm {
            0 => Algorithm::Reno,
            _ => Algorithm::Cubic,
        }
    }

    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        self.algorithm = algorithm as u32;
        self.epoch = Time::NEVER;
    }

    pub fn window(&self) -> u32 {
        self.window
    }

    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// The first SYN was lost: begin with one segment (RFC 5681, 3.1).
    pub fn begin_small(&mut self) {
        self.window = 1;
    }

    /// So many segments were acknowledged while the window limited what is sent (RFC 5681, 3.1; RFC 9438, 4.2).
    pub fn grow(&mut self, segments: u32, srtt: u64, now: Time) {
        let mut left = segments;
        if self.in_slow_start() {
            let step = left.min(self.threshold - self.window);
            self.window += step;
            left -= step;
        }
        if left == 0 {
            return;
        }
        let each = match self.algorithm() {
            Algorithm::Reno => self.window,
            Algorithm::Cubic => self.cubic(left, srtt, now),
        };
        self.credit = self.credit.saturating_add(left);
        let step = self.credit / each.max(1);
        self.window = (self.window + step).min(WITHOUT_LIMIT);
        self.credit -= step * each.max(1);
    }

    /// After how many acknowledged segments CUBIC's window grows by one.
    fn cubic(&mut self, acknowledged: u32, srtt: u64, now: Time) -> u32 {
        let window = u64::from(self.window);
        if self.epoch == Time::NEVER {
            self.epoch = now;
            self.credit = 0;
            self.estimate = (window * FRACTION).min(u64::from(u32::MAX)) as u32;
            if self.most <= self.window {
                self.most = self.window;
                self.plateau = 0;
            } else {
                // K = cbrt((W_max - cwnd) / C), C = 0.4, in seconds; here in milliseconds.
                let missing = u64::from(self.most - self.window);
                self.plateau = cube_root(missing.saturating_mul(2_500_000_000)) as u32;
            }
        }
        // W_est grows by alpha = 3 (1 - beta) / (1 + beta) = 9 / 17 each round, and by one once it has passed W_max.
        let gain = u64::from(acknowledged) * FRACTION / window.max(1);
        let gain = match u64::from(self.estimate) >= u64::from(self.most) * FRACTION {
            true => gain,
            false => gain * 9 / 17,
        };
        self.estimate = (u64::from(self.estimate) + gain).min(u64::from(u32::MAX)) as u32;
        // W_cubic(t + RTT) = C (t + RTT - K)^3 + W_max
        let time = (now.since(self.epoch) + srtt) / 1000;
        let from_plateau = (time.min(1 << 20) as i64) - i64::from(self.plateau);
        let from_plateau = from_plateau.clamp(-(1 << 20), 1 << 20);
        let above = from_plateau.pow(3) / 2_500_000_000;
        let target = (i64::from(self.most) + above).clamp(0, i64::from(WITHOUT_LIMIT)) as u64;
        let target = target.max(u64::from(self.estimate) / FRACTION);
        // At most half again in one round.
        let target = target.min(window + window / 2);
        match target > window {
            true => (window / (target - window)).max(2) as u32,
            false => (100 * window).min(u64::from(u32::MAX)) as u32,
        }
    }

    /// The threshold after a loss.
    fn reduced(&mut self) -> u32 {
        self.epoch = Time::NEVER;
        match self.algorithm() {
            Algorithm::Reno => (self.window / 2).max(2),
            Algorithm::Cubic => {
                let window = u64::from(self.window);
                // Fast convergence: (1 + beta) / 2 = 0.85
                self.most = match self.window < self.most {
                    true => (window * 17 / 20) as u32,
                    false => self.window,
                };
                ((window * 7 / 10) as u32).max(2)
            }
        }
    }

    /// A loss, or ECE: begin a reduction that is spread over the round (RFC 6937, 3).
    pub fn begin_reduction(&mut self) {
        self.prior = self.window;
        self.threshold = self.reduced();
        self.delivered = 0;
        self.out = 0;
        self.credit = 0;
    }

    /// An ACK while the window is being reduced: so many segments were delivered with it, so many are in flight.
    pub fn reduce(&mut self, delivered: u32, in_flight: u32, first: bool, progress: bool) {
        self.delivered = self.delivered.saturating_add(delivered);
        let send = if in_flight > self.threshold {
            let share = (u64::from(self.threshold) * u64::from(self.delivered))
                .div_ceil(u64::from(self.prior.max(1))) as u32;
            share.saturating_sub(self.out)
        } else {
            let room = self.threshold - in_flight;
            match progress {
                true => room.min(delivered.max(self.delivered.saturating_sub(self.out)) + 1),
                false => room.min(delivered),
            }
        };
        // The first lost segment is sent again at once.
        let send = send.max(u32::from(first && self.out == 0));
        // With nothing in flight no acknowledgement would ever allow more.
        self.window = (in_flight + send).max(1);
    }

    /// Segments were sent while the window is being reduced.
    pub fn sent(&mut self, segments: u32) {
        self.out = self.out.saturating_add(segments);
    }

    /// What was lost is repaired.
    pub fn end_reduction(&mut self) {
        self.window = self.threshold.min(WITHOUT_LIMIT);
    }

    /// The retransmission timer fired (RFC 5681, 3.1): the threshold falls unless this loss was counted before.
    pub fn timeout(&mut self, again: bool) {
        if !again {
            self.prior = self.window;
            self.threshold = self.reduced();
        }
        self.window = 1;
        self.credit = 0;
    }

    /// Nothing was sent for so long: halve the window for each RTO, down to the initial one (RFC 5681, 4.1; RFC 2861).
    pub fn idle(&mut self, idle: u64, rto: u64) {
        let mut left = idle;
        let restart = INITIAL_WINDOW.min(self.window);
        // What was reached is remembered.
        self.threshold = self
            .threshold
            .max(self.window / 4 * 3 + self.window % 4 * 3 / 4);
        while left > rto && self.window > restart {
            left -= rto;
            self.window /= 2;
        }
        self.window = self.window.max(restart);
        self.credit = 0;
        if idle > SECOND {
            self.epoch = Time::NEVER;
        }
    }
}

/// The integer cube root.
fn cube_root(of: u64) -> u64 {
    let (mut low, mut high) = (0u64, 2_642_245);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle * middle * middle <= of {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots() {
        for (of, root) in [
            (0, 0),
            (7, 1),
            (8, 2),
            (26, 2),
            (27, 3),
            (u64::MAX, 2_642_245),
        ] {
            assert_eq!(cube_root(of), root);
        }
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one() {
        let mut window = Congestion::new(Algorithm::Reno);
        window.grow(10, 0, Time(0));
        assert_eq!(window.window(), 20);
        window.begin_reduction();
        assert_eq!(window.threshold(), 10);
        window.end_reduction();
        window.grow(9, 0, Time(0));
        assert_eq!(window.window(), 10);
        window.grow(1, 0, Time(0));
        assert_eq!(window.window(), 11);
    }

    /// RFC 9438, 4.2: from 0.7 W_max it is back at W_max after K = cbrt(0.3 W_max / 0.4) seconds, slower in the middle.
    #[test]
    fn cubic_comes_back_to_where_it_was() {
        let mut window = Congestion::new(Algorithm::Cubic);
        window.window = 1000;
        window.begin_reduction();
        assert_eq!(window.threshold(), 700);
        window.end_reduction();
        let rtt = 100_000;
        let mut time = 0;
        let mut reached = 0;
        while time < 20 * SECOND {
            time += rtt;
            window.grow(window.window(), rtt, Time(time));
            if window.window() >= 995 && reached == 0 {
                reached = time;
            }
        }
        // K = 9.08 s
        assert!((6 * SECOND..10 * SECOND).contains(&reached), "{reached}");
        assert!(window.window() > 1200);
    }

    #[test]
    fn proportional_reduction_sends_in_step_with_what_arrives() {
        let mut window = Congestion::new(Algorithm::Reno);
        window.window = 20;
        window.begin_reduction();
        let (mut in_flight, mut sent) = (19, 0);
        for ack in 0..10 {
            in_flight -= 1;
            window.reduce(1, in_flight, ack == 0, true);
            while in_flight < window.window() {
                in_flight += 1;
                sent += 1;
                window.sent(1);
            }
        }
        assert!((5..=6).contains(&sent), "{sent}");
        window.end_reduction();
        assert_eq!(window.window(), 10);
    }
}
