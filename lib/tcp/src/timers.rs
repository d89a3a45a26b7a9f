//! Time passes: retransmission (RFC 6298), loss probes and the reordering window (RFC 8985), persist (RFC 9293, 3.8.6.1), delayed acknowledgement, keep-alive (RFC 9293, 3.8.4), and the ends of FIN-WAIT-2 and of patience.

use crate::connection::{flag, Connection, Error, Events, Stage, State, Waiting};
use crate::rtt::{RTO_MAX, RTO_MIN};
use crate::time::{Micros, Time, MILLISECOND, SECOND};

/// R2 (RFC 9293, 3.8.3), as the number of retransmissions that would take so long with the least RTO.
const RETRIES: u32 = 15;
/// The same when nobody reads any more.
const RETRIES_ORPHAN: u32 = 8;
/// After so many timeouts the path's MTU is suspected (RFC 4821, 7.7).
const RETRIES_BLACK_HOLE: u8 = 3;
/// What is tried then: almost everything carries 1,024 bytes, and everything 536.
const BLACK_HOLE_MSS: [u16; 2] = [1024, 536];
/// What a loss probe waits beyond two round trips.
const PROBE_SLACK: Micros = 2 * MILLISECOND;

/// How long so many retransmissions take that begin with the least RTO.
fn patience(retries: u32) -> Micros {
    // Nine doublings of 200 ms remain below the longest RTO.
    let doublings = retries.min(9);
    ((2 << doublings) - 1) * RTO_MIN + Micros::from(retries - doublings) * RTO_MAX
}

impl Connection {
    /// When [`Connection::time_passes`] is to be called next.
    pub fn deadline(&self) -> Time {
        self.send_timer.min(self.ack_timer).min(self.keep_timer)
    }

    /// Call it when the deadline has come, or at any other time; then [`Connection::transmit`].
    pub fn time_passes(&mut self, now: Time) -> Events {
        let mut events = Events::default();
        if now >= self.ack_timer {
            self.ack_timer = Time::NEVER;
            self.set(flag::ACK_DUE);
            // Whoever was waited for did not answer.
            self.clear(flag::INTERACTIVE);
        }
        if now >= self.send_timer {
            let waiting = self.waiting();
            self.disarm();
            events.add(match waiting {
                Waiting::Nothing => Events::default(),
                Waiting::Retransmission => self.retransmission_timeout(now),
                Waiting::LossProbe => self.probe_timeout(now),
                Waiting::Reordering => {
                    self.reordering_timeout(now);
                    Events::default()
                }
                Waiting::Persist => self.persist_timeout(now),
            });
        }
        if now >= self.keep_timer {
            self.keep_timer = Time::NEVER;
            events.add(self.keep_timeout(now));
        }
        events
    }

    pub(crate) fn disarm(&mut self) {
        self.waiting = Waiting::Nothing as u8;
        self.send_timer = Time::NEVER;
    }

    pub(crate) fn wait_for(&mut self, waiting: Waiting, at: Time) {
        self.waiting = waiting as u8;
        self.send_timer = at;
        // Patience may end before.
        if self.user_timeout > 0 && self.stalled != Time::NEVER {
            let end = self
                .stalled
                .after(Micros::from(self.user_timeout) * MILLISECOND);
            self.send_timer = self.send_timer.min(end.max(Time(1)));
        }
    }

    /// Set the timer that what is outstanding needs: a loss probe if there may be one, else RTO; persist if nothing is outstanding and something cannot be sent.
    pub(crate) fn arm(&mut self, now: Time) {
        if !self.is_synchronized() {
            return;
        }
        if self.scoreboard.is_empty() {
            if self.waiting() != Waiting::Persist {
                self.disarm();
            }
            return;
        }
        let rto = now.after(self.rtt.timeout(self.backoff));
        match self.loss_probe_time(now) {
            Some(at) if at < rto => self.wait_for(Waiting::LossProbe, at),
            _ => self.wait_for(Waiting::Retransmission, rto),
        }
    }

    /// PTO (RFC 8985, 7.2), if a probe makes sense: SACK is on, nothing is suspected, no probe is out.
    pub(crate) fn loss_probe_time(&self, now: Time) -> Option<Time> {
        let counts = self.scoreboard.counts();
        let quiet = matches!(self.stage(), Stage::Open | Stage::Reduced);
        if !self.has(flag::SACK) || !quiet || counts.sacked > 0 || self.has(flag::PROBED) {
            return None;
        }
        let timeout = match self.rtt.known() {
            // One segment alone may meet a delayed acknowledgement.
            true if counts.out == 1 => 2 * self.rtt.smoothed() + RTO_MIN,
            true => 2 * self.rtt.smoothed() + PROBE_SLACK,
            false => SECOND,
        };
        Some(now.after(timeout))
    }

    /// Has nothing gone forward for longer than anybody waits?
    fn out_of_patience(&self, now: Time) -> bool {
        let since = now.since(self.stalled);
        match (self.user_timeout, self.has(flag::ORPHAN)) {
            (0, false) => since >= patience(RETRIES),
            (0, true) => since >= patience(RETRIES_ORPHAN),
            (limit, _) => since >= Micros::from(limit) * MILLISECOND,
        }
    }

    /// It ends because nothing comes back: with what ICMP said of it, if it said something (RFC 9293, 3.9.2.2).
    fn give_up(&mut self) -> Events {
        let error = match self.take_soft_error() {
            Error::None => Error::TimedOut,
            error => error,
        };
        self.end(error)
    }

    fn retransmission_timeout(&mut self, now: Time) -> Events {
        match self.state() {
            State::Closed | State::TimeWait => return Events::default(),
            State::SynSent | State::SynReceived => return self.syn_timed_out(now),
            _ => {}
        }
        if self.scoreboard.is_empty() {
            return Events::default();
        }
        if self.stalled == Time::NEVER {
            let waited = self.rtt.timeout(self.backoff);
            self.stalled = Time(now.0.saturating_sub(waited));
        }
        if self.out_of_patience(now) {
            return self.give_up();
        }
        self.look_for_black_hole();
        // RFC 5681, 3.1: the threshold falls once for a loss, however often its repair is tried.
        let again = self.stage() == Stage::Loss && self.retransmits > 0;
        self.congestion.timeout(again);
        self.stage = Stage::Loss as u8;
        self.recover = self.snd_nxt;
        self.duplicates = 0;
        self.scoreboard.lose_all();
        self.clear(flag::PROBED | flag::PROBE_REPEATED | flag::LOSS_PROBE_DUE);
        self.retransmits = self.retransmits.saturating_add(1);
        self.backoff = (self.backoff + 1).min(16);
        let at = now.after(self.rtt.timeout(self.backoff));
        self.wait_for(Waiting::Retransmission, at);
        Events::default()
    }

    fn syn_timed_out(&mut self, now: Time) -> Events {
        if self.stalled == Time::NEVER {
            self.stalled = Time(now.0.saturating_sub(self.syn_timeout()));
        }
        let by_user = self.user_timeout > 0 && self.out_of_patience(now);
        if self.retransmits >= self.syn_retries || by_user {
            return self.give_up();
        }
        self.retransmits += 1;
        self.total_retransmits = self.total_retransmits.saturating_add(1);
        self.set(flag::SYN_DUE | flag::SYN_AGAIN);
        // RFC 3168, 6.1.1.1: who does not answer may not like ECN.
        self.clear(flag::ECN_ASKED);
        Events::default()
    }

    /// Full segments that never arrive, and no ICMP message that says why (RFC 4821, 7.7; RFC 2923, 2.1): smaller ones are tried.
    fn look_for_black_hole(&mut self) {
        if !self.has(flag::MTU_PROBING) || self.retransmits < RETRIES_BLACK_HOLE {
            return;
        }
        let current = self.path_mss.min(self.peer_mss);
        if let Some(mss) = BLACK_HOLE_MSS.iter().find(|mss| **mss < current) {
            self.path_mss = *mss;
        }
    }

    /// RFC 8985, 7.3
    fn probe_timeout(&mut self, now: Time) -> Events {
        if self.scoreboard.is_empty() {
            return Events::default();
        }
        self.set(flag::LOSS_PROBE_DUE);
        let at = now.after(self.rtt.timeout(self.backoff));
        self.wait_for(Waiting::Retransmission, at);
        Events::default()
    }

    /// Something is to be sent, nothing is outstanding, and the window does not allow it.
    fn persist_timeout(&mut self, now: Time) -> Events {
        if !self.scoreboard.is_empty() || !self.has_unsent() {
            return Events::default();
        }
        if self.stalled == Time::NEVER {
            self.stalled = now;
        }
        // A peer that answers may keep its window closed for ever (RFC 9293, 3.8.6.1); one that does not is gone.
        if self.probes > 0 && self.out_of_patience(now) {
            return self.give_up();
        }
        self.set(match self.snd_wnd > 0 {
            true => flag::FORCED,
            false => flag::PROBE_DUE,
        });
        if self.snd_wnd == 0 {
            self.probes = self.probes.saturating_add(1);
        }
        self.backoff = (self.backoff + 1).min(16);
        let at = now.after(self.rtt.timeout(self.backoff));
        self.wait_for(Waiting::Persist, at);
        Events::default()
    }

    /// Something is to be sent and the window does not allow it.
    pub(crate) fn persist(&mut self, now: Time) {
        if self.scoreboard.is_empty() && self.waiting() != Waiting::Persist {
            let at = now.after(self.rtt.timeout(self.backoff));
            self.wait_for(Waiting::Persist, at);
        }
    }

    fn keep_timeout(&mut self, now: Time) -> Events {
        if self.has(flag::ORPHAN) {
            // Nobody waits for the peer's FIN any more.
            return match self.state() {
                State::FinWait2 => self.end(Error::None),
                _ => Events::default(),
            };
        }
        if !self.has(flag::KEEP_ALIVE) || !self.is_synchronized() {
            return Events::default();
        }
        let idle = now.since(self.last_received);
        let limit = Micros::from(self.keep_idle) * SECOND;
        // What is outstanding has a timer of its own.
        let busy = !self.scoreboard.is_empty() || self.has_unsent();
        if busy || idle < limit {
            let from = if busy { now } else { self.last_received };
            self.keep_timer = from.after(limit);
            return Events::default();
        }
        let patience = Micros::from(self.user_timeout) * MILLISECOND;
        let over = match self.user_timeout {
            0 => self.keep_probes >= self.keep_count,
            _ => idle >= patience && self.keep_probes > 0,
        };
        if over {
            let events = self.give_up();
            self.set(flag::RESET_DUE);
            return events;
        }
        self.keep_probes = self.keep_probes.saturating_add(1);
        self.set(flag::PROBE_DUE);
        self.keep_timer = now.after(Micros::from(self.keep_interval) * SECOND);
        Events::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_that_of_linux() {
        // 924.6 seconds for fifteen retransmissions.
        assert_eq!(patience(RETRIES), 924_600 * MILLISECOND);
        assert_eq!(patience(RETRIES_ORPHAN), 102_200 * MILLISECOND);
    }
}
