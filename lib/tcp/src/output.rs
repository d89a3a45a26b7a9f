//! What is to be sent now, one segment a call (RFC 9293, 3.8): resets and SYNs, what is lost, probes, new text within both windows, and acknowledgements that found no company.

use crate::connection::{flag, Connection, Stage, State, Waiting};
use crate::segment::{Flags, Options, Segment};
use crate::seq::Seq;
use crate::time::{Time, SECOND};

/// More text does not leave as one, however many segments may: a packet's length has 16 bits, and headers are part of it.
const TEXT_MOST: u32 = 65_535 - 120;

/// A segment to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Header and options; the checksum is the caller's.
    pub segment: Segment,
    /// Where its text begins, in bytes from the beginning of the send ring.
    pub offset: u32,
    /// Bytes of text.
    pub length: u32,
    /// More than this is to be cut into segments of so many bytes by the device.
    pub segment_size: u32,
    /// Mark it as capable of ECN: ECT(0) (RFC 3168, 6.1.2).
    pub ecn_capable: bool,
}

impl Connection {
    /// The next segment, as long as there is one. Call it whenever something happened to the connection.
    pub fn transmit(&mut self, now: Time) -> Option<Transmit> {
        let segment = self.next_segment(now);
        if let Some(transmit) = &segment {
            let segments = transmit.length.div_ceil(transmit.segment_size.max(1));
            self.segments_out = self.segments_out.saturating_add(segments.max(1));
            if transmit.segment.flags.has(Flags::ACK) {
                self.acknowledgement_leaves();
            }
        }
        segment
    }

    fn next_segment(&mut self, now: Time) -> Option<Transmit> {
        if self.has(flag::RESET_DUE) {
            self.clear(flag::RESET_DUE);
            let segment = self.header(Flags::RST.with(Flags::ACK), now);
            return Some(self.without_text(segment));
        }
        match self.state() {
            State::Closed => return None,
            State::SynSent | State::SynReceived => return self.syn(now),
            _ => {}
        }
        if let Some(transmit) = self.repeat(now) {
            return Some(transmit);
        }
        if let Some(transmit) = self.new_text(now) {
            return Some(transmit);
        }
        if self.has(flag::PROBE_DUE) {
            // RFC 9293, 3.8.4: the byte before the window, and no text, must be answered.
            self.clear(flag::PROBE_DUE);
            let mut segment = self.header(Flags::ACK, now);
            segment.seq = self.snd_una - 1;
            return Some(self.without_text(segment));
        }
        if self.has(flag::ACK_DUE) {
            let segment = self.header(Flags::ACK, now);
            return Some(self.without_text(segment));
        }
        None
    }

    fn without_text(&self, segment: Segment) -> Transmit {
        Transmit {
            segment,
            offset: 0,
            length: 0,
            segment_size: self.effective_mss(),
            ecn_capable: false,
        }
    }

    /// SYN, or SYN,ACK of a simultaneous open.
    fn syn(&mut self, now: Time) -> Option<Transmit> {
        if !self.has(flag::SYN_DUE) {
            return None;
        }
        self.clear(flag::SYN_DUE | flag::ACK_DUE);
        let answers = self.state() == State::SynReceived;
        let echo = if answers { self.ts_recent } else { 0 };
        let timestamps = self.has(flag::TIMESTAMPS);
        let window = self.first_window();
        let mut flags = Flags::SYN;
        if answers {
            flags = flags.with(Flags::ACK);
            self.rcv_edge = self.rcv_nxt + u32::from(window);
            self.last_ack_sent = self.rcv_nxt;
        } else if self.has(flag::ECN_ASKED) {
            flags = flags.with(Flags::ECE).with(Flags::CWR);
        }
        let options = Options {
            mss: Some(self.mss_announced),
            window_scale: self.has(flag::SCALING).then_some(self.rcv_shift),
            sack_permitted: self.has(flag::SACK),
            timestamps: timestamps.then(|| (self.timestamp(now), echo)),
            ..Options::default()
        };
        let segment = Segment {
            seq: self.iss,
            ack: if answers { self.rcv_nxt } else { Seq(0) },
            flags,
            window,
            options,
            ..self.blank()
        };
        self.last_sent = now;
        let at = now.after(self.syn_timeout());
        self.wait_for(Waiting::Retransmission, at);
        Some(self.without_text(segment))
    }

    /// Header of a segment of a synchronized state, with what is to be acknowledged.
    fn header(&mut self, flags: Flags, now: Time) -> Segment {
        let mut flags = flags;
        if self.has(flag::ECHO_CE) && !flags.has(Flags::RST) {
            flags = flags.with(Flags::ECE);
        }
        self.rcv_edge = self.next_edge();
        let window = self.rcv_edge.beyond(self.rcv_nxt);
        // Rounded up: the edge shall not move left by a part of what one unit stands for.
        let window = window.div_ceil(1 << self.rcv_shift).min(65_535) as u16;
        let mut options = Options::default();
        if self.has(flag::TIMESTAMPS) {
            options.timestamps = Some((self.timestamp(now), self.ts_recent));
        }
        if self.has(flag::SACK) && flags.has(Flags::ACK) && !flags.has(Flags::RST) {
            let limit = if options.timestamps.is_some() { 3 } else { 4 };
            if self.has(flag::DSACK) {
                options.add_sack(self.dsack);
            }
            self.reassembly
                .report(|block| options.sack().len() < limit && options.add_sack(block));
        }
        Segment {
            flags,
            window,
            options,
            ..self.blank()
        }
    }

    /// Whatever has the ACK bit acknowledges.
    fn acknowledgement_leaves(&mut self) {
        self.clear(flag::ACK_DUE | flag::DSACK);
        self.ack_timer = Time::NEVER;
        if self.last_ack_sent != self.rcv_nxt {
            self.quick = self.quick.saturating_sub(1);
        }
        self.last_ack_sent = self.rcv_nxt;
    }

    /// Bytes of text in a segment with the options that it would have now.
    fn room(&self) -> u32 {
        if !self.has(flag::DSACK) && self.reassembly.is_empty() {
            return self.effective_mss().max(8);
        }
        let mut options = Options::default();
        if self.has(flag::SACK) {
            let limit = if self.has(flag::TIMESTAMPS) { 3 } else { 4 };
            if self.has(flag::DSACK) {
                options.add_sack(self.dsack);
            }
            self.reassembly
                .report(|block| options.sack().len() < limit && options.add_sack(block));
        }
        self.effective_mss()
            .saturating_sub(options.length() as u32)
            .max(8)
    }

    /// Is there text or a FIN that was never sent?
    pub(crate) fn has_unsent(&self) -> bool {
        self.not_sent() > 0 || (self.has(flag::FIN_QUEUED) && self.snd_nxt == self.snd_end)
    }

    /// What is lost, and what a loss probe repeats.
    fn repeat(&mut self, now: Time) -> Option<Transmit> {
        if let Some((start, end)) = self.scoreboard.due() {
            if self.in_flight() < self.congestion.window() {
                let end = end.earlier(start + self.room());
                let end = self.with_fin(end);
                self.clear(flag::LOSS_PROBE_DUE);
                self.clear(flag::FIRST_REPAIR);
                if matches!(self.stage(), Stage::Recovery | Stage::Reduced) {
                    self.congestion.sent(1);
                }
                let transmit = self.send_again(start, end, now);
                if self.waiting() == Waiting::Nothing {
                    self.arm(now);
                }
                return Some(transmit);
            }
        }
        if self.has(flag::LOSS_PROBE_DUE) {
            // RFC 8985, 7.3: new text if there is some and the window has room; else the last segment again.
            let room = self.room();
            let usable = (self.snd_una + self.snd_wnd).beyond(self.snd_nxt);
            if self.has_unsent() && usable >= self.not_sent().clamp(1, room) {
                return None;
            }
            self.clear(flag::LOSS_PROBE_DUE);
            let (start, end) = self.scoreboard.last(room)?;
            let start = start.later(end - (room + 1));
            self.probe_leaves(true);
            return Some(self.send_again(start, end, now));
        }
        None
    }

    fn probe_leaves(&mut self, repeated: bool) {
        self.set(flag::PROBED);
        self.set_if(flag::PROBE_REPEATED, repeated);
        self.probe_end = self.snd_nxt;
    }

    /// A FIN directly behind a repeated piece goes with it.
    fn with_fin(&self, end: Seq) -> Seq {
        if self.has(flag::FIN_QUEUED) && end == self.snd_end && self.snd_nxt.after(end) {
            end + 1
        } else {
            end
        }
    }

    fn send_again(&mut self, start: Seq, end: Seq, now: Time) -> Transmit {
        self.scoreboard.sent_again(start, end, now);
        self.total_retransmits = self.total_retransmits.saturating_add(1);
        self.last_sent = now;
        let mut transmit = self.text(start, end, now);
        // RFC 3168, 6.1.5: what is sent again is not marked.
        transmit.ecn_capable = false;
        transmit
    }

    /// A segment with the text from `start` to before `end`; the number behind the last byte is the FIN's.
    fn text(&mut self, start: Seq, end: Seq, now: Time) -> Transmit {
        let fin = end.after(self.snd_end);
        let last = end.earlier(self.snd_end);
        let length = last.since(start);
        let mut flags = Flags::ACK;
        if fin {
            flags = flags.with(Flags::FIN);
        }
        let pushed = self.push.after(start) && self.push.at_or_before(last);
        if length > 0 && (pushed || last == self.snd_end) {
            flags = flags.with(Flags::PSH);
        }
        let mut segment = self.header(flags, now);
        segment.seq = start;
        if self.has(flag::URGENT_OUT) && self.snd_up.after(start) {
            let urgent = self.snd_up.since(start);
            // RFC 6093, 3.1, and Linux: the pointer leads behind the urgent byte.
            if let Ok(urgent) = u16::try_from(urgent) {
                segment.flags = segment.flags.with(Flags::URG);
                segment.urgent = urgent;
            }
        }
        Transmit {
            segment,
            offset: start.since(self.ring_start()),
            length,
            segment_size: self.effective_mss(),
            ecn_capable: self.has(flag::ECN) && length > 0,
        }
    }

    /// Text that was never sent, or the FIN, as far as both windows, Nagle's rule and the sender's silly-window avoidance allow (RFC 9293, 3.7.4 and 3.8.6.2.1).
    fn new_text(&mut self, now: Time) -> Option<Transmit> {
        let probe = self.has(flag::LOSS_PROBE_DUE);
        let forced = self.has(flag::FORCED);
        self.clear(flag::FORCED);
        if !self.has_unsent() {
            return None;
        }
        self.restart_after_idle(now);
        let counts = self.scoreboard.counts();
        let in_flight = counts.in_flight().saturating_sub(self.duplicates);
        let budget = self.congestion.window().saturating_sub(in_flight);
        if budget == 0 && !forced && !probe {
            self.limited_by_congestion();
            return None;
        }
        let room = self.room();
        let start = self.snd_nxt;
        let unsent = self.not_sent();
        let usable = (self.snd_una + self.snd_wnd).beyond(start);
        let most = room
            * u32::from(self.segments)
                .min(budget.max(1))
                .min((TEXT_MOST / room).max(1));
        let mut length = unsent.min(most);
        if length > usable {
            let enough = usable >= room || usable >= self.max_wnd / 2 || forced;
            if usable == 0 || !enough {
                self.persist(now);
                return None;
            }
            length = if usable > room {
                usable / room * room
            } else {
                usable
            };
        }
        if length > room && length < unsent {
            length = length / room * room;
        }
        // A FIN goes with the last byte, if the window has a place for it.
        let fin = self.has(flag::FIN_QUEUED) && length == unsent && usable > length;
        if length == 0 && !fin {
            self.persist(now);
            return None;
        }
        if !length.is_multiple_of(room)
            && !fin
            && !forced
            && !probe
            && !self.may_be_short(counts.out)
        {
            if length < room {
                self.persist(now);
                return None;
            }
            length = length / room * room;
        }
        let end = start + length + u32::from(fin);
        let segments = length.div_ceil(room).max(1);
        let mut transmit = self.text(start, end, now);
        transmit.segment_size = room;
        if !length.is_multiple_of(room) {
            self.small_end = start + length;
        }
        self.new_text_leaves(end, segments, probe, now);
        Some(self.with_congestion_bits(transmit, length))
    }

    /// May a segment that is not full leave (Nagle: RFC 9293, 3.7.4, as Minshall changed it: no other that is not full may be outstanding)?
    fn may_be_short(&self, out: u32) -> bool {
        if self.has(flag::URGENT_OUT) {
            return true;
        }
        if self.has(flag::CORK) {
            return false;
        }
        self.has(flag::NO_DELAY) || out == 0 || self.small_end.at_or_before(self.snd_una)
    }

    fn new_text_leaves(&mut self, end: Seq, segments: u32, probe: bool, now: Time) {
        let grain = (self.rtt.smoothed() / 16) as u32;
        let nothing_was_out = self.scoreboard.is_empty();
        self.scoreboard
            .sent(end, segments.min(u32::from(u16::MAX)) as u16, now, grain);
        self.snd_nxt = end;
        self.last_sent = now;
        if matches!(self.stage(), Stage::Recovery | Stage::Reduced) {
            self.congestion.sent(segments);
        }
        let out = self.scoreboard.counts().out;
        if self.snd_una.at_or_after(self.limited_end) || out > self.max_out {
            self.max_out = out;
            self.limited_end = end;
            self.clear(flag::LIMITED);
        }
        // An answer that follows so soon will carry further acknowledgements.
        if now.since(self.last_received) < SECOND / 25
            && self.unread == 0
            && self.bytes_received > 0
        {
            self.set(flag::INTERACTIVE);
        }
        if probe {
            self.clear(flag::LOSS_PROBE_DUE);
            self.probe_leaves(false);
            let at = now.after(self.rtt.timeout(self.backoff));
            self.wait_for(Waiting::Retransmission, at);
            return;
        }
        let rearm = match self.waiting() {
            Waiting::Nothing | Waiting::Persist | Waiting::LossProbe => true,
            Waiting::Reordering => nothing_was_out,
            // The probe for several segments may come before the timeout of the first.
            Waiting::Retransmission => {
                nothing_was_out
                    || self
                        .loss_probe_time(now)
                        .is_some_and(|at| at < self.send_timer)
            }
        };
        if rearm {
            if self.waiting() == Waiting::Persist {
                self.backoff = 0;
                self.disarm();
            }
            self.arm(now);
        }
    }

    /// CWR, once, with the first new text after a reduction (RFC 3168, 6.1.2).
    fn with_congestion_bits(&mut self, mut transmit: Transmit, length: u32) -> Transmit {
        if length > 0 && self.has(flag::ECN) && self.has(flag::CWR_DUE) {
            self.clear(flag::CWR_DUE);
            transmit.segment.flags = transmit.segment.flags.with(Flags::CWR);
        }
        transmit
    }

    fn limited_by_congestion(&mut self) {
        self.set(flag::LIMITED);
        self.limited_end = self.snd_nxt;
        self.max_out = self.max_out.max(self.scoreboard.counts().out);
    }

    /// RFC 5681, 4.1
    fn restart_after_idle(&mut self, now: Time) {
        if !self.scoreboard.is_empty() || self.stage() != Stage::Open {
            return;
        }
        let idle = now.since(self.last_sent);
        let rto = self.rtt.timeout(0);
        if idle > rto && self.waiting() != Waiting::Persist {
            self.congestion.idle(idle, rto);
        }
    }
}
