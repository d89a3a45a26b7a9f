//! The listening side (RFC 9293, 3.10.7.2): what is kept of a SYN until the handshake is complete, and cookies when nothing can be kept (RFC 4987, 3.6).

use crate::connection::{flag, timestamp, Config, Connection, State, MSS_DEFAULT, MSS_MIN};
use crate::rtt::RTO_INITIAL;
use crate::secret::{Ends, Secret};
use crate::segment::{Flags, Options, Segment};
use crate::seq::Seq;
use crate::time::{Micros, Time, SECOND};

/// Options of both ends, in a byte.
const SACK: u8 = 1;
const TIMESTAMPS: u8 = 2;
const SCALING: u8 = 4;
const ECN: u8 = 8;
/// An acknowledgement without text came: the accepter waits for text (TCP_DEFER_ACCEPT).
const ACKNOWLEDGED: u8 = 16;

/// An entry of the SYN queue: SYN-RECEIVED. It is plain data like a connection.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HalfOpen {
    pub local_port: u16,
    pub remote_port: u16,
    irs: Seq,
    iss: Seq,
    ts_recent: u32,
    ts_offset: u32,
    peer_window: u16,
    peer_mss: u16,
    window: u16,
    peer_shift: u8,
    shift: u8,
    options: u8,
    retries: u8,
    mss: u16,
    /// When the first SYN,ACK left, modulo 2^32 microseconds.
    sent: u32,
    deadline: Time,
}

const _: () = assert!(size_of::<HalfOpen>() <= 64);

/// What a listener does with a segment that belongs to no connection.
#[derive(Clone, Copy, Debug)]
pub enum Listened {
    /// Not for it, and nothing to answer.
    Nothing,
    /// Send this reset.
    Reset(Segment),
    /// A SYN: make a [`HalfOpen`] of it, or answer with a cookie.
    Syn,
    /// An acknowledgement: it may be that of a cookie.
    Acknowledgement,
}

/// RFC 9293, 3.10.7.2
pub fn listen(segment: &Segment, text: u32) -> Listened {
    if segment.flags.has(Flags::RST) {
        return Listened::Nothing;
    }
    if segment.flags.has(Flags::ACK) {
        return match segment.flags.has(Flags::SYN) {
            true => segment
                .reset(text)
                .map_or(Listened::Nothing, Listened::Reset),
            false => Listened::Acknowledgement,
        };
    }
    match segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN) {
        true => Listened::Syn,
        false => Listened::Nothing,
    }
}

/// What to do with a segment of a half-open connection.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Nothing,
    /// Send this.
    Send(Segment),
    /// The entry is to go.
    End,
    /// The handshake is complete: make a [`Connection`] of it and give it this segment.
    Complete,
}

impl HalfOpen {
    /// Of a SYN. `iss` and `ts_offset` come from the [`Secret`]; nothing is to be sent before [`HalfOpen::syn_ack`].
    pub fn new(config: &Config, syn: &Segment, iss: Seq, ts_offset: u32, now: Time) -> HalfOpen {
        let wanted = &syn.options;
        let mut options = 0;
        if config.sack && wanted.sack_permitted {
            options |= SACK;
        }
        if config.window_scaling && wanted.window_scale.is_some() {
            options |= SCALING;
        }
        if config.timestamps && wanted.timestamps.is_some() {
            options |= TIMESTAMPS;
        }
        if Connection::asks_for_ecn(syn, config.ecn) {
            options |= ECN;
        }
        HalfOpen {
            local_port: syn.destination,
            remote_port: syn.source,
            irs: syn.seq,
            iss,
            ts_recent: wanted.timestamps.map_or(0, |(value, _)| value),
            ts_offset,
            peer_window: syn.window,
            peer_mss: wanted.mss.unwrap_or(MSS_DEFAULT).max(MSS_MIN),
            window: config.first_window(options & TIMESTAMPS != 0),
            peer_shift: wanted.window_scale.unwrap_or(0).min(14),
            shift: config.window_shift(),
            options,
            retries: 0,
            mss: config.mss.max(MSS_MIN),
            sent: now.stamp().0,
            deadline: now.after(RTO_INITIAL),
        }
    }

    /// The SYN,ACK.
    pub fn syn_ack(&self, now: Time) -> Segment {
        let has = |option: u8| self.options & option != 0;
        let mut flags = Flags::SYN.with(Flags::ACK);
        if has(ECN) {
            flags = flags.with(Flags::ECE);
        }
        let stamps = (timestamp(now, self.ts_offset), self.ts_recent);
        Segment {
            source: self.local_port,
            destination: self.remote_port,
            seq: self.iss,
            ack: self.irs + 1,
            flags,
            window: self.window,
            urgent: 0,
            options: Options {
                mss: Some(self.mss),
                window_scale: has(SCALING).then_some(self.shift),
                sack_permitted: has(SACK),
                timestamps: has(TIMESTAMPS).then_some(stamps),
                ..Options::default()
            },
        }
    }

    fn acknowledgement(&self, now: Time) -> Segment {
        let mut segment = self.syn_ack(now);
        segment.flags = Flags::ACK;
        segment.seq = self.iss + 1;
        segment.options = Options {
            timestamps: segment.options.timestamps,
            ..Options::default()
        };
        segment.window >>= if self.options & SCALING != 0 {
            self.shift
        } else {
            0
        };
        segment
    }

    /// RFC 9293, 3.10.7.4, of SYN-RECEIVED. `defer`: an acknowledgement without text does not complete it.
    pub fn segment_arrives(
        &mut self,
        segment: &Segment,
        text: u32,
        defer: bool,
        now: Time,
    ) -> Answer {
        let rcv_nxt = self.irs + 1;
        let repeated = segment.flags.has(Flags::SYN) && segment.seq == self.irs;
        if repeated && !segment.flags.has(Flags::ACK) && !segment.flags.has(Flags::RST) {
            return Answer::Send(self.syn_ack(now));
        }
        if let (true, Some((value, _))) = (
            self.options & TIMESTAMPS != 0 && !segment.flags.has(Flags::RST),
            segment.options.timestamps,
        ) {
            if (value.wrapping_sub(self.ts_recent) as i32) < 0 {
                return Answer::Send(self.acknowledgement(now));
            }
        }
        let offset = segment.seq.since(rcv_nxt);
        if offset > u32::from(self.window) {
            return match segment.flags.has(Flags::RST) {
                true => Answer::Nothing,
                false => Answer::Send(self.acknowledgement(now)),
            };
        }
        if segment.flags.has(Flags::RST) {
            // RFC 5961, 3
            return match offset {
                0 => Answer::End,
                _ => Answer::Send(self.acknowledgement(now)),
            };
        }
        if segment.flags.has(Flags::SYN) {
            // RFC 5961, 4
            return Answer::Send(self.acknowledgement(now));
        }
        if !segment.flags.has(Flags::ACK) {
            return Answer::Nothing;
        }
        if segment.ack != self.iss + 1 {
            return segment.reset(text).map_or(Answer::Nothing, Answer::Send);
        }
        if defer && text == 0 && !segment.flags.has(Flags::FIN) {
            self.options |= ACKNOWLEDGED;
            return Answer::Nothing;
        }
        Answer::Complete
    }

    /// When [`HalfOpen::time_passes`] is to be called.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Has the peer acknowledged, and text is waited for?
    pub fn is_acknowledged(&self) -> bool {
        self.options & ACKNOWLEDGED != 0
    }

    /// The SYN,ACK again, so many times; then the entry is to go.
    pub fn time_passes(&mut self, retries: u8, now: Time) -> Answer {
        if now < self.deadline {
            return Answer::Nothing;
        }
        if self.retries >= retries {
            return Answer::End;
        }
        self.retries += 1;
        let wait: Micros = RTO_INITIAL << self.retries.min(7);
        self.deadline = now.after(wait);
        Answer::Send(self.syn_ack(now))
    }

    /// How often the SYN,ACK was repeated.
    pub fn retries(&self) -> u8 {
        self.retries
    }

    /// The connection: ESTABLISHED. The segment that completed the handshake is to be given to it next.
    pub fn connection(&self, config: &Config, now: Time) -> Connection {
        let has = |option: u8| self.options & option != 0;
        let mut connection = Connection::new(config, self.local_port, self.remote_port, self.iss);
        connection.irs = self.irs;
        connection.rcv_nxt = self.irs + 1;
        connection.rcv_edge = connection.rcv_nxt + u32::from(self.window);
        connection.last_ack_sent = connection.rcv_nxt;
        connection.snd_nxt = self.iss + 1;
        connection.ts_recent = self.ts_recent;
        connection.ts_recent_at = (now.0 / SECOND) as u32;
        connection.ts_offset = self.ts_offset;
        connection.peer_mss = self.peer_mss;
        connection.set_if(flag::SACK, has(SACK));
        connection.set_if(flag::TIMESTAMPS, has(TIMESTAMPS));
        connection.set_if(flag::SCALING, has(SCALING));
        connection.set_if(flag::ECN, has(ECN));
        if has(SCALING) {
            connection.snd_shift = self.peer_shift;
            connection.rcv_shift = self.shift;
        }
        connection.set_if(flag::SYN_AGAIN, self.retries > 0);
        connection.retransmits = self.retries;
        connection.last_received = now;
        let age = now.stamp().0.wrapping_sub(self.sent);
        connection.last_sent = Time(now.0.saturating_sub(u64::from(age)));
        connection.set_state(State::SynReceived);
        connection.establish(self.iss + 1, now);
        connection.last_sent = now;
        connection.snd_wnd = u32::from(self.peer_window);
        connection.max_wnd = connection.snd_wnd;
        connection.snd_wl1 = self.irs;
        connection.snd_wl2 = self.iss + 1;
        connection
    }
}

/// Values of the peer's MSS that a cookie can tell.
const COOKIE_MSS: [u16; 8] = [216, 536, 1024, 1220, 1300, 1440, 1452, 1460];
/// A cookie is good for one to two of these.
const COOKIE_AGE: Micros = 64 * SECOND;
/// Bits of a cookie that tell the MSS and when it was made.
const COOKIE_BITS: u32 = 5;

/// What a cookie tells in timestamps, in the lowest bits of TSval: the shift (15: no scaling), SACK, ECN.
const STAMP_BITS: u32 = 6;

/// An initial number of our own that tells what a SYN said. The rest is in the timestamp; without one, there is no scaling and no SACK.
pub fn cookie(
    secret: &Secret,
    config: &Config,
    ends: &Ends,
    syn: &Segment,
    ts_offset: u32,
    now: Time,
) -> Segment {
    let mss = syn.options.mss.unwrap_or(MSS_DEFAULT);
    let index = COOKIE_MSS
        .iter()
        .rposition(|known| *known <= mss)
        .unwrap_or(0) as u32;
    let count = (now.0 / COOKIE_AGE) as u32;
    let iss = cookie_number(secret, ends, syn.seq, index << 2 | (count & 3), count);
    let mut entry = HalfOpen::new(config, syn, iss, ts_offset, now);
    if entry.options & TIMESTAMPS == 0 {
        entry.options = 0;
    }
    let mut answer = entry.syn_ack(now);
    if let Some((value, _)) = &mut answer.options.timestamps {
        let shift = match entry.options & SCALING {
            0 => 15,
            _ => u32::from(entry.peer_shift),
        };
        let told = shift
            | u32::from(entry.options & SACK != 0) << 4
            | u32::from(entry.options & ECN != 0) << 5;
        *value = (*value >> STAMP_BITS << STAMP_BITS) | told;
        // Never later than the clock: what follows must not look older.
        if *value > timestamp(now, ts_offset) {
            *value = value.wrapping_sub(1 << STAMP_BITS);
        }
    }
    answer
}

fn cookie_number(secret: &Secret, ends: &Ends, irs: Seq, low: u32, count: u32) -> Seq {
    let purpose = u64::from(irs.0) << 32 | u64::from(count) << 8 | u64::from(low) | 1 << 7;
    let hash = secret.hash(ends, purpose) as u32;
    Seq(hash >> COOKIE_BITS << COOKIE_BITS | low)
}

/// The half-open connection that an acknowledgement belongs to, if it answers a cookie of ours.
pub fn check_cookie(
    secret: &Secret,
    config: &Config,
    ends: &Ends,
    segment: &Segment,
    ts_offset: u32,
    now: Time,
) -> Option<HalfOpen> {
    if segment.flags.has(Flags::SYN) || segment.flags.has(Flags::RST) {
        return None;
    }
    let (iss, irs) = (segment.ack - 1, segment.seq - 1);
    let low = iss.0 & ((1 << COOKIE_BITS) - 1);
    let current = (now.0 / COOKIE_AGE) as u32;
    let count = [current, current.wrapping_sub(1)]
        .into_iter()
        .find(|count| count & 3 == low & 3)?;
    if cookie_number(secret, ends, irs, low, count) != iss {
        return None;
    }
    let mut syn = Segment {
        source: segment.source,
        destination: segment.destination,
        seq: irs,
        flags: Flags::SYN,
        window: segment.window,
        ..Segment::default()
    };
    syn.options.mss = Some(COOKIE_MSS[(low >> 2) as usize]);
    if let Some((value, echo)) = segment.options.timestamps {
        let told = echo;
        syn.options.timestamps = Some((value, 0));
        syn.options.window_scale = (told & 15 != 15).then_some((told & 15) as u8);
        syn.options.sack_permitted = told & 16 != 0;
        if told & 32 != 0 {
            syn.flags = syn.flags.with(Flags::ECE).with(Flags::CWR);
        }
    }
    Some(HalfOpen::new(config, &syn, iss, ts_offset, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends = Ends {
        local: [1; 16],
        remote: [2; 16],
        local_port: 80,
        remote_port: 1000,
    };

    fn syn() -> Segment {
        let mut syn = Segment {
            source: 1000,
            destination: 80,
            seq: Seq(u32::MAX),
            flags: Flags::SYN,
            window: 1000,
            ..Segment::default()
        };
        syn.options.mss = Some(1400);
        syn.options.window_scale = Some(9);
        syn.options.sack_permitted = true;
        syn.options.timestamps = Some((77, 0));
        syn
    }

    /// The answer to a SYN,ACK.
    fn answer(syn_ack: &Segment) -> Segment {
        let mut ack = syn();
        ack.flags = Flags::ACK;
        ack.seq = syn_ack.ack;
        ack.ack = syn_ack.seq + 1;
        let echo = syn_ack.options.timestamps.map_or(0, |(value, _)| value);
        ack.options = Options {
            timestamps: Some((78, echo)),
            ..Options::default()
        };
        ack
    }

    #[test]
    fn a_cookie_remembers_what_the_syn_said() {
        let (secret, config) = (Secret::new([3; 16]), Config::default());
        for minutes in 0..6 {
            let now = Time(minutes * 60 * SECOND);
            let made = cookie(&secret, &config, &ENDS, &syn(), 12345, now);
            let ack = answer(&made);
            let found = check_cookie(&secret, &config, &ENDS, &ack, 12345, now.after(SECOND));
            let entry = found.expect("a good cookie");
            assert_eq!((entry.peer_mss, entry.peer_shift), (1300, 9));
            assert_eq!(entry.options, SACK | TIMESTAMPS | SCALING);
            let mut connection = entry.connection(&config, now);
            assert_eq!(connection.state(), State::Established);
            let arrival = connection.segment_arrives(&ack, 0, false, now);
            assert!(arrival.reset.is_none());
        }
    }

    #[test]
    fn a_cookie_is_good_for_its_ends_and_for_two_minutes() {
        let (secret, config) = (Secret::new([3; 16]), Config::default());
        let made = cookie(&secret, &config, &ENDS, &syn(), 0, Time(0));
        let ack = answer(&made);
        let check = |secret: &Secret, ends: &Ends, ack: &Segment, now| {
            check_cookie(secret, &config, ends, ack, 0, Time(now)).is_some()
        };
        assert!(check(&secret, &ENDS, &ack, 100 * SECOND));
        assert!(!check(&secret, &ENDS, &ack, 128 * SECOND));
        let other = Ends {
            remote_port: 1001,
            ..ENDS
        };
        assert!(!check(&secret, &other, &ack, 0));
        assert!(!check(&Secret::new([4; 16]), &ENDS, &ack, 0));
        let mut wrong = ack;
        wrong.ack += 32;
        assert!(!check(&secret, &ENDS, &wrong, 0));
    }

    #[test]
    fn without_timestamps_a_cookie_has_no_options() {
        let (secret, config) = (Secret::new([3; 16]), Config::default());
        let mut plain = syn();
        plain.options.timestamps = None;
        let made = cookie(&secret, &config, &ENDS, &plain, 0, Time(0));
        assert_eq!(made.options.window_scale, None);
        assert!(!made.options.sack_permitted);
    }
}
