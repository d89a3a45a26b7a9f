//! TIME-WAIT (RFC 9293, 3.6.1 and 3.10.7.4), as a small record in place of the control block. With the addresses of both ends it takes at most 64 bytes.

use crate::connection::{flag, timestamp, Connection};
use crate::segment::{Flags, Options, Segment};
use crate::seq::Seq;
use crate::time::{Micros, Time, MILLISECOND, SECOND};

/// How long: as on Linux; RFC 9293 says twice two minutes and lets it be less.
pub const TIME_WAIT: Micros = 60 * SECOND;

/// What is left of a connection.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TimeWait {
    pub local_port: u16,
    pub remote_port: u16,
    snd_nxt: Seq,
    rcv_nxt: Seq,
    /// As it goes into the header.
    window: u16,
    timestamps: u16,
    ts_recent: u32,
    ts_offset: u32,
    /// When it ends, in milliseconds modulo 2^32.
    end: u32,
}

/// With two addresses of IPv6.
const _: () = assert!(size_of::<TimeWait>() + 32 <= 64);

/// What to do with a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Nothing,
    /// Send this.
    Send(Segment),
    /// The record is to go: a reset came that is right.
    End,
    /// The record is to go: this SYN begins a new connection (RFC 9293, 3.10.7.4; RFC 6191), whose initial number should not be before this.
    Reuse(Seq),
}

impl TimeWait {
    /// Of a connection that came to TIME-WAIT and has sent its last acknowledgement.
    pub fn new(connection: &Connection, now: Time) -> TimeWait {
        let window = connection.rcv_edge.beyond(connection.rcv_nxt);
        let mut record = TimeWait {
            local_port: connection.local_port,
            remote_port: connection.remote_port,
            snd_nxt: connection.snd_nxt,
            rcv_nxt: connection.rcv_nxt,
            window: (window >> connection.rcv_shift).min(65_535) as u16,
            timestamps: u16::from(connection.has(flag::TIMESTAMPS)),
            ts_recent: connection.ts_recent,
            ts_offset: connection.ts_offset,
            end: 0,
        };
        record.restart(now);
        record
    }

    fn restart(&mut self, now: Time) {
        self.end = (now.after(TIME_WAIT).0 / MILLISECOND) as u32;
    }

    /// May it go?
    pub fn is_over(&self, now: Time) -> bool {
        self.remaining(now) == 0
    }

    /// For how long it stays.
    pub fn remaining(&self, now: Time) -> Micros {
        let left = self.end.wrapping_sub((now.0 / MILLISECOND) as u32) as i32;
        left.max(0) as Micros * MILLISECOND
    }

    pub fn segment_arrives(&mut self, segment: &Segment, text: u32, now: Time) -> Answer {
        let mut old = false;
        let mut newer = false;
        if let (1, Some((value, _))) = (self.timestamps, segment.options.timestamps) {
            let difference = value.wrapping_sub(self.ts_recent) as i32;
            old = difference < 0;
            newer = difference > 0;
        }
        if segment.flags.has(Flags::RST) {
            // RFC 1337: only one that is exactly right; Linux takes it.
            return match segment.seq == self.rcv_nxt && !old {
                true => Answer::End,
                false => Answer::Nothing,
            };
        }
        let syn = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if syn && !old && (segment.seq.after(self.rcv_nxt) || newer) {
            return Answer::Reuse(self.snd_nxt + 65_537);
        }
        if segment.length(text) == 0 && segment.seq == self.rcv_nxt && !old {
            // An acknowledgement of what was sent: nothing is to be said.
            return Answer::Nothing;
        }
        if segment.flags.has(Flags::FIN) && !old {
            self.restart(now);
        }
        Answer::Send(self.acknowledgement(now))
    }

    fn acknowledgement(&self, now: Time) -> Segment {
        let stamps = (timestamp(now, self.ts_offset), self.ts_recent);
        Segment {
            source: self.local_port,
            destination: self.remote_port,
            seq: self.snd_nxt,
            ack: self.rcv_nxt,
            flags: Flags::ACK,
            window: self.window,
            urgent: 0,
            options: Options {
                timestamps: (self.timestamps == 1).then_some(stamps),
                ..Options::default()
            },
        }
    }
}
