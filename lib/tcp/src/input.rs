//! SEGMENT ARRIVES (RFC 9293, 3.10.7), in its order: acceptability, RST, SYN, ACK, URG, text, FIN.
//!
//! What a segment asks for in return waits in the control block until [`Connection::transmit`]; only a reset that belongs to no connection is handed back.

use crate::connection::{flag, Connection, Ecn, Error, Events, State, MSS_DEFAULT, QUICK_ACKS};
use crate::reassembly::Inserted;
use crate::segment::{Flags, Segment};
use crate::seq::Seq;
use crate::time::{Micros, Time, MILLISECOND, SECOND};

/// How long an acknowledgement may wait for company (RFC 9293, 3.8.6.3: less than half a second; Linux's least).
const ACK_DELAY: Micros = 40 * MILLISECOND;
/// Answers to segments that do not belong are this far apart (RFC 5961, 7).
const CHALLENGE_PAUSE: Micros = 500 * MILLISECOND;
/// A timestamp older than this says nothing (RFC 7323, 5.5), in seconds.
const TIMESTAMP_AGE: u32 = 24 * 24 * 3600;

/// Which bytes of the segment's text are to be put where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The first of them, in the text.
    pub from: u32,
    pub length: u32,
    /// Bytes of the stream between the end of what can be read (before this segment) and these.
    pub offset: u32,
}

/// What a segment did.
#[derive(Clone, Copy, Default, Debug)]
pub struct Arrival {
    pub events: Events,
    /// Put these bytes into the receive ring.
    pub place: Option<Placement>,
    /// So many bytes more can be read.
    pub readable: u32,
    /// So many bytes leave the send ring.
    pub acknowledged: u32,
    /// Send this reset.
    pub reset: Option<Segment>,
}

/// What an ICMP message says about a segment of ours (RFC 9293, 3.9.2.2; RFC 1191; RFC 5927).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmp {
    /// It did not get there.
    Unreachable(Error),
    /// It is too long for a link whose MTU leaves so many bytes behind the headers of IP and TCP.
    TooBig { mss: u16 },
}

impl Connection {
    /// A segment of this connection, with so much text; `ce`: the IP header says that a router was congested (RFC 3168).
    pub fn segment_arrives(
        &mut self,
        segment: &Segment,
        text: u32,
        ce: bool,
        now: Time,
    ) -> Arrival {
        let mut arrival = Arrival::default();
        self.segments_in = self.segments_in.saturating_add(1);
        match self.state() {
            State::Closed => arrival.reset = segment.reset(text),
            State::SynSent => self.in_syn_sent(segment, text, now, &mut arrival),
            _ => self.in_other_states(segment, text, ce, now, &mut arrival),
        }
        arrival
    }

    /// RFC 9293, 3.10.7.3
    fn in_syn_sent(&mut self, segment: &Segment, text: u32, now: Time, arrival: &mut Arrival) {
        let acknowledged = segment.flags.has(Flags::ACK);
        let mut acceptable = segment.ack == self.snd_nxt;
        if let (true, Some((_, echo))) = (self.has(flag::TIMESTAMPS), segment.options.timestamps) {
            // An echo of what was never sent is of somebody else's SYN.
            let age = self.timestamp(now).wrapping_sub(echo);
            acceptable &= echo == 0 || age < 1 << 31;
        }
        if acknowledged && !acceptable {
            arrival.reset = segment.reset(text);
            return;
        }
        if segment.flags.has(Flags::RST) {
            if acknowledged {
                arrival.events = self.end(Error::Refused);
            }
            return;
        }
        if !segment.flags.has(Flags::SYN) {
            return;
        }
        self.irs = segment.seq;
        self.rcv_nxt = segment.seq + 1;
        self.rcv_edge = self.rcv_nxt + u32::from(self.first_window());
        self.last_ack_sent = self.rcv_nxt;
        self.negotiate(segment, now);
        self.last_received = now;
        self.snd_wnd = u32::from(segment.window);
        self.max_wnd = self.snd_wnd;
        self.snd_wl1 = segment.seq;
        self.snd_wl2 = segment.ack;
        if acknowledged {
            let asked = self.has(flag::ECN_ASKED);
            let agreed = segment.flags.0 & (Flags::ECE.0 | Flags::CWR.0) == Flags::ECE.0;
            self.set_if(flag::ECN, asked && agreed);
            self.establish(segment.ack, now);
            self.set(flag::ACK_DUE);
            arrival.events.add(Events::CONNECTED);
            arrival.events.add(Events::WRITABLE);
        } else {
            // Simultaneous open (RFC 9293, 3.5, figure 8).
            self.set_state(State::SynReceived);
            self.set(flag::SYN_DUE);
            self.clear(flag::ECN_ASKED);
        }
    }

    /// The window of a SYN, for this block.
    pub(crate) fn first_window(&self) -> u16 {
        let config = crate::Config {
            mss: self.mss_announced,
            receive_space: self.rcv_space,
            ..crate::Config::default()
        };
        let answers = self.state() == State::SynReceived && self.has(flag::TIMESTAMPS);
        config.first_window(answers)
    }

    /// Agree on options: only what both SYNs had is used.
    fn negotiate(&mut self, segment: &Segment, now: Time) {
        let options = &segment.options;
        self.peer_mss = match options.mss {
            Some(mss) => mss.max(crate::connection::MSS_MIN),
            None => MSS_DEFAULT,
        };
        if let (true, Some(shift)) = (self.has(flag::SCALING), options.window_scale) {
            // RFC 7323, 2.3: more than 14 is 14.
            self.snd_shift = shift.min(14);
        } else {
            self.clear(flag::SCALING);
            self.rcv_shift = 0;
        }
        if !options.sack_permitted {
            self.clear(flag::SACK);
        }
        match options.timestamps {
            Some((value, _)) if self.has(flag::TIMESTAMPS) => {
                self.ts_recent = value;
                self.ts_recent_at = (now.0 / SECOND) as u32;
            }
            _ => self.clear(flag::TIMESTAMPS),
        }
    }

    /// Our SYN is acknowledged: ESTABLISHED, or what the user wanted meanwhile.
    pub(crate) fn establish(&mut self, ack: Seq, now: Time) {
        if self.has(flag::SYN_AGAIN) {
            self.rtt.syn_was_lost();
            if self.retransmits > 1 {
                self.congestion.begin_small();
            }
        } else {
            self.rtt
                .sample(now.since(self.last_sent).min(60 * SECOND) as u32);
        }
        self.snd_una = ack;
        self.retransmits = 0;
        self.stalled = Time::NEVER;
        self.disarm();
        self.clear(flag::SYN_DUE);
        self.recover = ack;
        self.small_end = ack;
        self.read_since = now.stamp();
        self.set_state(match self.has(flag::FIN_QUEUED) {
            true => State::FinWait1,
            false => State::Established,
        });
        self.arm_keep_alive(now);
    }

    /// RFC 9293, 3.10.7.4
    fn in_other_states(
        &mut self,
        segment: &Segment,
        text: u32,
        ce: bool,
        now: Time,
        arrival: &mut Arrival,
    ) {
        if !self.is_acceptable(segment, text, now) {
            return;
        }
        if segment.flags.has(Flags::RST) {
            self.reset_arrives(segment, now, arrival);
            return;
        }
        if segment.flags.has(Flags::SYN) {
            let crossing = self.state() == State::SynReceived && segment.seq == self.irs;
            if !(crossing && segment.flags.has(Flags::ACK)) {
                // RFC 5961, 4: whoever it is shall reset us by the right number.
                self.challenge(now);
                return;
            }
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        self.take_timestamp(segment, now);
        if self.state() == State::SynReceived
            && !self.leave_syn_received(segment, text, now, arrival)
        {
            return;
        }
        if !self.acknowledge(segment, text, now, arrival) {
            return;
        }
        if now.since(self.last_received) > self.rtt.timeout(0) {
            // After a pause the peer's window is small again.
            self.quick = self.quick.max(QUICK_ACKS);
            self.clear(flag::INTERACTIVE);
        }
        self.last_received = now;
        self.keep_probes = 0;
        if segment.flags.has(Flags::SYN) {
            self.set(flag::ACK_DUE);
            return;
        }
        self.urgent_arrives(segment, arrival);
        self.congestion_arrives(segment, text, ce);
        self.text_arrives(segment, text, now, arrival);
        self.fin_arrives(arrival);
    }

    /// Is any of it in the window (RFC 9293, 3.4 and 3.10.7.4, first), and is it not old (PAWS: RFC 7323, 5.3)? If not, the peer is told what is expected.
    fn is_acceptable(&mut self, segment: &Segment, text: u32, now: Time) -> bool {
        let reset = segment.flags.has(Flags::RST);
        if self.has(flag::TIMESTAMPS) && !reset {
            if let Some((value, _)) = segment.options.timestamps {
                let old = (value.wrapping_sub(self.ts_recent) as i32) < 0;
                let age = ((now.0 / SECOND) as u32).wrapping_sub(self.ts_recent_at);
                if old && age < TIMESTAMP_AGE && !segment.flags.has(Flags::SYN) {
                    self.duplicate_arrives(segment, text, now);
                    return false;
                }
            }
        }
        // The crossing SYN of a simultaneous open is before the window.
        let mut seq = segment.seq;
        let mut length = segment.length(text);
        if self.state() == State::SynReceived && segment.flags.has(Flags::SYN) && seq == self.irs {
            seq += 1;
            length -= 1;
        }
        let window = self.rcv_edge.beyond(self.rcv_nxt);
        let in_window = |number: Seq| number.since(self.rcv_nxt) < window;
        let acceptable = match (length, window) {
            (0, 0) => seq == self.rcv_nxt,
            (0, _) => in_window(seq) || seq == self.rcv_edge,
            // What is expected next may at least carry an acknowledgement.
            (_, 0) => seq == self.rcv_nxt,
            _ => in_window(seq) || in_window(seq + (length - 1)),
        };
        if !acceptable && !reset {
            if segment.flags.has(Flags::SYN) {
                self.challenge(now);
            } else {
                self.duplicate_arrives(segment, text, now);
            }
        }
        acceptable
    }

    /// What arrived is not in the window: acknowledge, and report text that came twice (RFC 2883). A segment without text is answered only so often, lest two ends do so for ever.
    fn duplicate_arrives(&mut self, segment: &Segment, text: u32, now: Time) {
        if segment.length(text) == 0 {
            self.challenge(now);
            return;
        }
        if text > 0 && segment.seq.before(self.rcv_nxt) {
            self.report_duplicate(segment.seq, (segment.seq + text).earlier(self.rcv_nxt));
        }
        self.set(flag::ACK_DUE);
        self.quick = self.quick.max(QUICK_ACKS);
        if self.state() == State::SynReceived && segment.flags.has(Flags::SYN) {
            self.set(flag::SYN_DUE);
        }
    }

    fn report_duplicate(&mut self, start: Seq, end: Seq) {
        if self.has(flag::SACK) && start.before(end) {
            self.dsack = (start, end);
            self.set(flag::DSACK);
        }
    }

    /// A challenge ACK (RFC 5961, 3 to 5), unless one left just now.
    pub(crate) fn challenge(&mut self, now: Time) {
        if self.challenged != Time::NEVER && now.since(self.challenged) < CHALLENGE_PAUSE {
            return;
        }
        self.challenged = now;
        self.set(flag::ACK_DUE);
    }

    /// RFC 9293, 3.10.7.4, second; RFC 5961, 3
    fn reset_arrives(&mut self, segment: &Segment, now: Time, arrival: &mut Arrival) {
        if segment.seq != self.rcv_nxt {
            self.challenge(now);
            return;
        }
        let error = match self.state() {
            State::SynReceived => Error::Refused,
            State::CloseWait => Error::BrokenPipe,
            State::Closing | State::LastAck | State::TimeWait => Error::None,
            _ => Error::Reset,
        };
        arrival.events.add(self.end(error));
    }

    /// TS.Recent (RFC 7323, 4.3)
    fn take_timestamp(&mut self, segment: &Segment, now: Time) {
        let Some((value, _)) = segment.options.timestamps else {
            return;
        };
        if self.has(flag::TIMESTAMPS) && segment.seq.at_or_before(self.last_ack_sent) {
            let newer = value.wrapping_sub(self.ts_recent) as i32 >= 0;
            let age = ((now.0 / SECOND) as u32).wrapping_sub(self.ts_recent_at);
            if newer || age >= TIMESTAMP_AGE {
                self.ts_recent = value;
                self.ts_recent_at = (now.0 / SECOND) as u32;
            }
        }
    }

    /// Only of a simultaneous open.
    fn leave_syn_received(
        &mut self,
        segment: &Segment,
        text: u32,
        now: Time,
        arrival: &mut Arrival,
    ) -> bool {
        if segment.ack != self.iss + 1 {
            arrival.reset = segment.reset(text);
            return false;
        }
        let scale = match segment.flags.has(Flags::SYN) {
            true => 0,
            false => self.snd_shift,
        };
        self.establish(segment.ack, now);
        self.snd_wnd = u32::from(segment.window) << scale;
        self.max_wnd = self.max_wnd.max(self.snd_wnd);
        self.snd_wl1 = segment.seq;
        self.snd_wl2 = segment.ack;
        arrival.events.add(Events::CONNECTED);
        arrival.events.add(Events::WRITABLE);
        true
    }

    /// RFC 9293, 3.10.7.4, sixth; the mark is the byte before the pointer, as on Linux (RFC 6093, 3.1).
    fn urgent_arrives(&mut self, segment: &Segment, arrival: &mut Arrival) {
        let reads = matches!(
            self.state(),
            State::Established | State::FinWait1 | State::FinWait2
        );
        if !segment.flags.has(Flags::URG) || segment.urgent == 0 || !reads {
            return;
        }
        let mark = segment.seq + u32::from(segment.urgent) - 1;
        let read = self.rcv_nxt - self.unread;
        let newer = !self.has(flag::URGENT_IN) || mark.after(self.rcv_up);
        if mark.at_or_after(read) && newer {
            self.rcv_up = mark;
            self.set(flag::URGENT_IN);
            arrival.events.add(Events::URGENT);
        }
    }

    /// The receiver's half of ECN (RFC 3168, 6.1.3).
    fn congestion_arrives(&mut self, segment: &Segment, text: u32, ce: bool) {
        if !self.has(flag::ECN) {
            return;
        }
        if segment.flags.has(Flags::CWR) {
            self.clear(flag::ECHO_CE);
        }
        if ce && text > 0 {
            if !self.has(flag::ECHO_CE) {
                self.set(flag::ACK_DUE);
            }
            self.set(flag::ECHO_CE);
        }
    }

    /// RFC 9293, 3.10.7.4, seventh
    fn text_arrives(&mut self, segment: &Segment, text: u32, now: Time, arrival: &mut Arrival) {
        let fin = segment.flags.has(Flags::FIN);
        let reads = matches!(
            self.state(),
            State::Established | State::FinWait1 | State::FinWait2
        );
        if !reads {
            if segment.length(text) > 0 {
                self.set(flag::ACK_DUE);
            }
            return;
        }
        let (start, end) = (segment.seq, segment.seq + text);
        // Nobody will ever read it (RFC 9293, 3.6.1).
        if (self.has(flag::ORPHAN) || self.refuses) && end.after(self.rcv_nxt) && text > 0 {
            let events = match self.has(flag::ORPHAN) {
                true => self.abort(),
                // Who has shut both directions down is told that it was lost.
                false => self.end(Error::Reset),
            };
            self.set(flag::RESET_DUE);
            arrival.events.add(events);
            return;
        }
        if fin && !self.has(flag::FIN_SEEN) {
            self.rcv_fin = end;
            self.set(flag::FIN_SEEN);
        }
        if text == 0 {
            return;
        }
        if !end.after(self.rcv_nxt) {
            self.duplicate_arrives(segment, text, now);
            return;
        }
        // Of what is new, only what there is room for; nothing behind a FIN.
        let room = self.rcv_space.saturating_sub(self.unread);
        let window = self.rcv_edge.beyond(self.rcv_nxt).min(room);
        let mut last = end.earlier(self.rcv_nxt + window);
        if self.has(flag::FIN_SEEN) {
            last = last.earlier(self.rcv_fin);
        }
        if start.before(self.rcv_nxt) {
            self.report_duplicate(start, self.rcv_nxt);
        }
        let first = start.later(self.rcv_nxt);
        if !first.before(last) {
            // The window is closed: say so.
            self.set(flag::ACK_DUE);
            return;
        }
        self.rcv_mss = self
            .rcv_mss
            .max(text.min(u32::from(self.mss_announced)) as u16);
        let before = self.rcv_nxt;
        if first == self.rcv_nxt {
            self.rcv_nxt = self.reassembly.advance(last);
            let filled = self.rcv_nxt != last || !self.reassembly.is_empty();
            self.schedule_ack(filled, now);
        } else {
            // RFC 5681, 4.2: an acknowledgement at once for what is out of order.
            self.set(flag::ACK_DUE);
            self.quick = self.quick.max(QUICK_ACKS);
            match self.reassembly.insert(first, last) {
                Inserted::New => {}
                Inserted::Duplicate => {
                    self.report_duplicate(first, last);
                    return;
                }
                Inserted::NoRoom => return,
            }
        }
        arrival.place = Some(Placement {
            from: first.since(start),
            length: last.since(first),
            offset: first.since(before),
        });
        let arrived = self.rcv_nxt.since(before);
        if arrived > 0 {
            self.unread += arrived;
            self.bytes_received += u64::from(arrived);
            arrival.readable = arrived;
            arrival.events.add(Events::READABLE);
        }
    }

    /// RFC 5681, 4.2: at once for every second full segment, and for what fills a gap; else soon.
    fn schedule_ack(&mut self, filled: bool, now: Time) {
        let waiting = self.rcv_nxt.since(self.last_ack_sent);
        let quick = self.has(flag::QUICK_ACK) || (self.quick > 0 && !self.has(flag::INTERACTIVE));
        if filled || quick || waiting > u32::from(self.rcv_mss) {
            self.set(flag::ACK_DUE);
        } else if self.ack_timer == Time::NEVER {
            self.ack_timer = now.after(ACK_DELAY);
        }
    }

    /// RFC 9293, 3.10.7.4, eighth: all before the FIN has arrived.
    fn fin_arrives(&mut self, arrival: &mut Arrival) {
        if !self.has(flag::FIN_SEEN) || self.rcv_nxt != self.rcv_fin {
            return;
        }
        let next = match self.state() {
            State::Established => State::CloseWait,
            // Our FIN is not acknowledged, or this would be FIN-WAIT-2.
            State::FinWait1 => State::Closing,
            State::FinWait2 => State::TimeWait,
            _ => return,
        };
        self.rcv_nxt += 1;
        self.rcv_edge = self.rcv_edge.later(self.rcv_nxt);
        self.set(flag::ACK_DUE);
        self.set_state(next);
        arrival.events.add(Events::PEER_CLOSED);
        arrival.events.add(Events::READABLE);
        if next == State::TimeWait {
            self.enter_time_wait(arrival);
        }
    }

    pub(crate) fn enter_time_wait(&mut self, arrival: &mut Arrival) {
        self.set_state(State::TimeWait);
        self.disarm();
        self.keep_timer = Time::NEVER;
        arrival.events.add(Events::TIME_WAIT);
    }

    /// An ICMP message that quotes a segment of ours which began with this sequence number.
    pub fn icmp_arrives(&mut self, message: Icmp, quoted: Seq, now: Time) -> Events {
        // RFC 5927, 4: only what is outstanding can be meant.
        let outstanding = quoted.at_or_after(self.snd_una) && quoted.before(self.snd_nxt);
        if self.state() == State::Closed || !outstanding {
            return Events::default();
        }
        match message {
            Icmp::Unreachable(error) => match self.state() {
                // As Linux: who tries to connect is told at once.
                State::SynSent | State::SynReceived => self.end(error),
                _ => {
                    self.soft_error = error as u8;
                    Events::default()
                }
            },
            Icmp::TooBig { mss } => {
                let mss = mss.max(crate::connection::MSS_MIN);
                if mss < self.path_mss && self.is_synchronized() {
                    self.path_mss = mss;
                    // RFC 1191, 6.5: what was too long is lost, and this says nothing of congestion.
                    let size = self.effective_mss();
                    self.scoreboard
                        .lose(|begin, run| run.end().since(begin) > size * run.segments());
                    self.arm(now);
                }
                Events::default()
            }
        }
    }

    /// Does the peer's SYN ask for ECN, and do we agree?
    pub(crate) fn asks_for_ecn(segment: &Segment, ecn: Ecn) -> bool {
        ecn != Ecn::Off && segment.flags.has(Flags::ECE.with(Flags::CWR))
    }
}
