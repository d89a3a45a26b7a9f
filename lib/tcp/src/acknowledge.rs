//! An acknowledgement arrives: what left the network, what is lost, and how much may be sent (RFC 5681, 6582, 6675, 8985, 6937, 3168).

use crate::connection::{flag, Connection, Events, Stage, State, Waiting};
use crate::input::Arrival;
use crate::scoreboard::{Counts, Run};
use crate::segment::{Flags, Segment};
use crate::seq::Seq;
use crate::time::{Micros, Stamp, Time, MILLISECOND};

/// DupThresh (RFC 5681, 3.2; RFC 6675, 2)
const DUPLICATES: u32 = 3;
/// reo_wnd_persist (RFC 8985, 6.2): recoveries for which a wider reordering window lasts.
const REORDERING_LASTS: u8 = 16;

/// What one acknowledgement delivered.
#[derive(Default)]
struct Delivered {
    segments: u32,
    /// Round trip of the oldest segment that was sent once.
    sample: Option<u32>,
    /// Some of it had been sent more than once.
    ambiguous: bool,
    /// The newest by time and by number, for RACK.
    newest: Option<(Stamp, Seq, bool)>,
    /// A segment that was sent once, below one that was reported before.
    reordered: bool,
    /// The peer reported text that came twice.
    duplicate: bool,
    /// Something was reported that was not before.
    sacked: bool,
}

impl Delivered {
    fn take(&mut self, run: &Run, now: Time) {
        self.segments += run.segments();
        let stamp = (run.sent(), run.end(), run.is_ambiguous());
        let newer = |newest: (Stamp, Seq, bool)| {
            stamp.0.after(newest.0) || (stamp.0 == newest.0 && stamp.1.after(newest.1))
        };
        if self.newest.is_none_or(newer) {
            self.newest = Some(stamp);
        }
        if run.is_ambiguous() {
            self.ambiguous = true;
        } else if self.sample.is_none() {
            self.sample = Some(now.stamp().since(run.sent()));
        }
    }
}

impl Connection {
    /// RFC 9293, 3.10.7.4, fifth. False: go no further with this segment.
    pub(crate) fn acknowledge(
        &mut self,
        segment: &Segment,
        text: u32,
        now: Time,
        arrival: &mut Arrival,
    ) -> bool {
        let ack = segment.ack;
        // RFC 5961, 5: neither what was not sent nor what is older than a window.
        if ack.after(self.snd_nxt) || ack.before(self.snd_una - self.max_wnd) {
            self.challenge(now);
            return false;
        }
        if ack.before(self.snd_una) {
            return true;
        }
        self.probes = 0;
        let window_changed = self.take_window(segment);
        let advanced = ack != self.snd_una;
        let pure = text == 0 && !segment.flags.has(Flags::FIN) && !segment.flags.has(Flags::SYN);
        let before = self.scoreboard.counts();
        let duplicate = !advanced && pure && !window_changed && before.out > 0;
        let delivered = self.take_delivered(segment, now, arrival);
        if advanced {
            self.retransmits = 0;
            self.stalled = Time::NEVER;
        } else if before.out == 0 {
            // An answer to a probe.
            if self.snd_wnd == 0 {
                self.stalled = Time::NEVER;
            }
        }
        self.measure(segment, &delivered, advanced, now);
        self.judge_probe(segment.ack, &delivered, advanced, duplicate);
        self.explicit_congestion(segment);
        let wait = self.repair(&delivered, advanced, duplicate, before, now);
        self.our_fin_acknowledged(now, arrival);
        if advanced || delivered.sacked {
            self.arm(now);
        }
        self.wait_for_reordered(wait, now);
        if self.has_unsent() && self.scoreboard.is_empty() && self.snd_wnd == 0 {
            self.persist(now);
        }
        true
    }

    /// SND.WND (RFC 9293, 3.10.7.4). True: it is another one.
    fn take_window(&mut self, segment: &Segment) -> bool {
        let newer = self.snd_wl1.before(segment.seq)
            || (self.snd_wl1 == segment.seq && self.snd_wl2.at_or_before(segment.ack));
        if !newer {
            return false;
        }
        let shift = match segment.flags.has(Flags::SYN) {
            true => 0,
            false => self.snd_shift,
        };
        let window = u32::from(segment.window) << shift;
        let changed = window != self.snd_wnd;
        self.snd_wl1 = segment.seq;
        self.snd_wl2 = segment.ack;
        self.snd_wnd = window;
        self.max_wnd = self.max_wnd.max(window);
        if changed && window > 0 && self.waiting() == Waiting::Persist {
            self.backoff = 0;
            self.stalled = Time::NEVER;
            self.disarm();
        }
        changed
    }

    /// Take from the scoreboard what the segment acknowledges and reports.
    fn take_delivered(&mut self, segment: &Segment, now: Time, arrival: &mut Arrival) -> Delivered {
        let mut delivered = Delivered::default();
        let highest = self.scoreboard.highest_sacked();
        let ack = segment.ack;
        let mut reordered = false;
        if ack != self.snd_una {
            let ring = self.ring_start();
            self.scoreboard.acknowledge(ack, |run| {
                // What was reported before was delivered before.
                if run.is_sacked() {
                    return;
                }
                reordered |= run.end().before(highest) && !run.is_ambiguous();
                delivered.take(run, now);
            });
            self.snd_una = ack;
            let acknowledged = self.ring_start().since(ring);
            self.bytes_acked += u64::from(acknowledged);
            arrival.acknowledged = acknowledged;
            if acknowledged > 0 {
                arrival.events.add(Events::WRITABLE);
            }
            if self.has(flag::URGENT_OUT) && self.snd_up.at_or_before(ack) {
                self.clear(flag::URGENT_OUT);
            }
        }
        if self.has(flag::SACK) {
            let blocks = segment.options.sack();
            for (index, (start, end)) in blocks.iter().copied().enumerate() {
                let inside =
                    |outer: &(Seq, Seq)| start.at_or_after(outer.0) && end.at_or_before(outer.1);
                if !start.before(end) || end.after(self.snd_nxt) {
                    continue;
                }
                // RFC 2883, 4: the first block may report what came twice.
                let twice = end.at_or_before(ack) || blocks.get(1).is_some_and(inside);
                if index == 0 && twice {
                    delivered.duplicate = true;
                    continue;
                }
                if start.before(ack) {
                    continue;
                }
                self.scoreboard.sack(start, end, |begin, run| {
                    reordered |= begin.before(highest) && !run.is_ambiguous();
                    delivered.sacked = true;
                    delivered.take(run, now);
                });
            }
        }
        delivered.reordered = reordered;
        self.delivered = self.delivered.saturating_add(delivered.segments);
        delivered
    }

    /// Round-trip time (RFC 6298; RFC 7323, 4) and RACK's newest segment (RFC 8985, 6.2, steps 1 to 3).
    fn measure(&mut self, segment: &Segment, delivered: &Delivered, advanced: bool, now: Time) {
        let echo = segment.options.timestamps.map(|(_, echo)| echo);
        let by_echo = match (self.has(flag::TIMESTAMPS), echo) {
            (true, Some(echo)) if echo != 0 => Some(self.timestamp(now).wrapping_sub(echo)),
            _ => None,
        };
        let sample = match (delivered.sample, delivered.ambiguous) {
            // Karn: what was sent twice measures nothing by itself.
            (Some(sample), false) => Some(sample),
            _ if advanced && delivered.ambiguous => by_echo
                .filter(|age| *age < 60_000)
                .map(|age| age * MILLISECOND as u32),
            (sample, _) => sample,
        };
        if let Some(sample) = sample {
            self.rtt.sample(sample);
            self.backoff = 0;
        }
        if let Some((sent, end, ambiguous)) = delivered.newest {
            let rtt = now.stamp().since(sent);
            // So soon after it was sent again this is the answer to the first one.
            let spurious = ambiguous && Micros::from(rtt) < self.rtt.least();
            let newer = !self.has(flag::RACK)
                || sent.after(self.rack_sent)
                || (sent == self.rack_sent && end.after(self.rack_end));
            if newer && !spurious {
                self.rack_sent = sent;
                self.rack_end = end;
                self.rack_rtt = rtt;
                self.set(flag::RACK);
            }
        }
        if delivered.reordered {
            self.set(flag::REORDERED);
        }
        if delivered.duplicate && self.snd_una.at_or_after(self.rack_round) {
            // RFC 8985, 6.2, step 4: what came twice was sent again too early.
            self.rack_steps = self.rack_steps.saturating_add(1);
            self.rack_persist = REORDERING_LASTS;
            self.rack_round = self.snd_nxt;
        }
    }

    /// Did the loss probe repair a loss that nothing else told of (RFC 8985, 7.4)?
    fn judge_probe(&mut self, ack: Seq, delivered: &Delivered, advanced: bool, duplicate: bool) {
        if !self.has(flag::PROBED) || ack.before(self.probe_end) {
            return;
        }
        let repeated = self.has(flag::PROBE_REPEATED);
        let over = match repeated {
            false => true,
            true if delivered.duplicate => true,
            true if ack.after(self.probe_end) => {
                if self.stage() == Stage::Open {
                    self.congestion.begin_reduction();
                    self.congestion.end_reduction();
                }
                true
            }
            // The probe and what it repeated both arrived.
            true => duplicate && !advanced && !delivered.sacked,
        };
        if over {
            self.clear(flag::PROBED | flag::PROBE_REPEATED);
        }
    }

    /// The sender's half of ECN (RFC 3168, 6.1.2): as for a loss, once a round trip.
    fn explicit_congestion(&mut self, segment: &Segment) {
        let marked = self.has(flag::ECN) && segment.flags.has(Flags::ECE);
        if !marked || self.snd_una.before(self.ece_end) || self.stage() != Stage::Open {
            return;
        }
        self.ece_end = self.snd_nxt;
        self.congestion.begin_reduction();
        self.set(flag::CWR_DUE);
        if self.scoreboard.is_empty() {
            self.congestion.end_reduction();
        } else {
            self.stage = Stage::Reduced as u8;
            self.recover = self.snd_nxt;
        }
    }

    /// Segments in the network: those that duplicates stand for have left it.
    pub(crate) fn in_flight(&self) -> u32 {
        let counts = self.scoreboard.counts();
        counts.in_flight().saturating_sub(self.duplicates)
    }

    fn repair(
        &mut self,
        delivered: &Delivered,
        advanced: bool,
        duplicate: bool,
        before: Counts,
        now: Time,
    ) -> Micros {
        let mut segments = delivered.segments;
        if !self.has(flag::SACK) {
            segments += self.count_duplicates(delivered, advanced, duplicate, before);
        }
        let was_open = matches!(self.stage(), Stage::Open | Stage::Reduced);
        if advanced {
            self.leave_repair();
        }
        let mut wait = 0;
        if self.has(flag::SACK) {
            wait = self.detect_losses(now);
        } else {
            self.detect_by_duplicates(advanced, was_open);
        }
        let lost = self.scoreboard.counts().lost > 0;
        let progress = advanced;
        match self.stage() {
            Stage::Open | Stage::Reduced if lost => {
                self.enter_recovery();
                self.congestion
                    .reduce(segments, self.in_flight(), true, progress);
            }
            Stage::Open => {
                if advanced && self.is_limited(before) {
                    self.grow(delivered.segments, now);
                }
            }
            Stage::Reduced | Stage::Recovery => {
                let first = self.has(flag::FIRST_REPAIR);
                self.congestion
                    .reduce(segments, self.in_flight(), first, progress);
            }
            Stage::Loss => {
                if advanced {
                    self.grow(delivered.segments, now);
                }
            }
        }
        wait
    }

    /// The reordering timer fired (RFC 8985, 6.3).
    pub(crate) fn reordering_timeout(&mut self, now: Time) {
        let wait = self.detect_losses(now);
        let lost = self.scoreboard.counts().lost > 0;
        if lost && matches!(self.stage(), Stage::Open | Stage::Reduced) {
            self.enter_recovery();
            let in_flight = self.in_flight();
            self.congestion.reduce(0, in_flight, true, false);
        }
        self.arm(now);
        self.wait_for_reordered(wait, now);
    }

    fn wait_for_reordered(&mut self, wait: Micros, now: Time) {
        if wait > 0 && !self.scoreboard.is_empty() {
            self.wait_for(Waiting::Reordering, now.after(wait + MILLISECOND));
        }
    }

    fn grow(&mut self, segments: u32, now: Time) {
        let srtt = self.rtt.smoothed();
        self.congestion.grow(segments, srtt, now);
    }

    /// Did the window limit what was sent (RFC 7661 in Linux's simple form)? In slow start it may be twice what was used.
    fn is_limited(&self, before: Counts) -> bool {
        if self.has(flag::LIMITED) {
            return true;
        }
        self.congestion.in_slow_start()
            && self.congestion.window() < 2 * self.max_out.max(before.out)
    }

    fn enter_recovery(&mut self) {
        if self.stage() == Stage::Open {
            self.congestion.begin_reduction();
        }
        if self.rack_persist > 0 {
            self.rack_persist -= 1;
            if self.rack_persist == 0 {
                self.rack_steps = 1;
            }
        }
        self.stage = Stage::Recovery as u8;
        self.recover = self.snd_nxt;
        self.set(flag::FIRST_REPAIR);
        self.clear(flag::PROBED | flag::PROBE_REPEATED | flag::LOSS_PROBE_DUE);
        self.stalled = Time::NEVER;
        // The other end of the window learns of it (RFC 3168, 6.1.2).
        if self.has(flag::ECN) {
            self.set(flag::CWR_DUE);
        }
    }

    /// All that was outstanding when the repair began is acknowledged.
    fn leave_repair(&mut self) {
        if self.snd_una.before(self.recover) {
            return;
        }
        match self.stage() {
            Stage::Open => {}
            Stage::Reduced | Stage::Recovery => {
                self.congestion.end_reduction();
                self.stage = Stage::Open as u8;
            }
            Stage::Loss => self.stage = Stage::Open as u8,
        }
        self.clear(flag::FIRST_REPAIR);
        self.duplicates = 0;
    }

    /// Without SACK each duplicate says that one segment arrived (RFC 5681, 3.2). How many more were delivered.
    fn count_duplicates(
        &mut self,
        delivered: &Delivered,
        advanced: bool,
        duplicate: bool,
        before: Counts,
    ) -> u32 {
        if advanced {
            // One of those acknowledged filled the gap; the others were told of by duplicates.
            let told = self.duplicates.min(delivered.segments.saturating_sub(1));
            self.duplicates -= told;
            if self.stage() == Stage::Open {
                self.duplicates = 0;
            }
            return 0;
        }
        if duplicate && self.duplicates < before.out.saturating_sub(before.lost).max(1) {
            self.duplicates += 1;
            return 1;
        }
        0
    }

    /// Fast retransmit after three duplicates, and NewReno's answer to a partial acknowledgement (RFC 5681, 3.2; RFC 6582, 3.2).
    fn detect_by_duplicates(&mut self, advanced: bool, was_open: bool) {
        let mss = self.effective_mss();
        match self.stage() {
            Stage::Open | Stage::Reduced => {
                // RFC 6582, 3.2, step 2: duplicates of an earlier repair mean nothing.
                let new = self.snd_una.after(self.recover) || self.recover == self.iss + 1;
                if was_open && self.duplicates >= DUPLICATES && new {
                    self.scoreboard.lose_first(mss);
                }
            }
            Stage::Recovery if advanced => {
                self.scoreboard.lose_first(mss);
            }
            _ => {}
        }
    }

    /// RACK (RFC 8985, 6.2, step 5): lost is what was sent so much before the newest that arrived. For how long something else may still come: then it is lost, too.
    fn detect_losses(&mut self, now: Time) -> Micros {
        if !self.has(flag::RACK) || self.scoreboard.is_empty() {
            return 0;
        }
        let allowed = self
            .rack_rtt
            .saturating_add(self.reordering_window() as u32);
        let (newest, end) = (self.rack_sent, self.rack_end);
        let mut wait = 0u32;
        self.scoreboard.lose(|_, run| {
            let earlier =
                newest.after(run.sent()) || (newest == run.sent() && end.after(run.end()));
            if !earlier {
                return false;
            }
            let age = now.stamp().since(run.sent());
            if age >= allowed {
                return true;
            }
            wait = wait.max(allowed - age);
            false
        });
        Micros::from(wait)
    }

    /// RFC 8985, 6.2, step 4: none while nothing was ever reordered and three segments were reported, or a repair goes on.
    fn reordering_window(&self) -> Micros {
        if !self.has(flag::REORDERED) {
            let repairing = matches!(self.stage(), Stage::Recovery | Stage::Loss);
            if repairing || self.scoreboard.counts().sacked >= DUPLICATES {
                return 0;
            }
        }
        let steps = Micros::from(self.rack_steps.max(1));
        (self.rtt.least() / 4 * steps).min(self.rtt.smoothed())
    }

    /// FIN-WAIT-1, CLOSING and LAST-ACK end with the acknowledgement of our FIN.
    fn our_fin_acknowledged(&mut self, now: Time, arrival: &mut Arrival) {
        if !self.has(flag::FIN_QUEUED) || self.snd_una != self.snd_end + 1 {
            return;
        }
        match self.state() {
            State::FinWait1 => {
                self.set_state(State::FinWait2);
                self.disarm();
                if self.has(flag::ORPHAN) {
                    self.keep_timer = now.after(Micros::from(self.fin_wait) * MILLISECOND);
                }
            }
            State::Closing => self.enter_time_wait(arrival),
            State::LastAck => arrival.events.add(self.end(crate::Error::None)),
            _ => {}
        }
    }
}
