//! The control block of one connection (RFC 9293, 3.3.1), and what its user asks of it. Segments come in through [`crate::input`] and go out through [`crate::output`]; time passes in [`crate::timers`].
//!
//! It is plain data: integers of fixed size, no pointer, nothing that must be dropped; so it can lie in memory that outlives the server that works on it. [`Connection::holds`] says whether what is found there can be one.
//! Names of variables are those of RFC 9293: `snd_una` is SND.UNA.

use crate::congestion::{Algorithm, Congestion};
use crate::reassembly::Reassembly;
use crate::rtt::{Rtt, RTO_INITIAL};
use crate::scoreboard::Scoreboard;
use crate::segment::Segment;
use crate::seq::Seq;
use crate::time::{Micros, Stamp, Time, MILLISECOND, SECOND};

/// States of a connection (RFC 9293, 3.3.2). LISTEN is not one of them: see [`crate::listen`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    Closed = 0,
    SynSent = 1,
    /// Only of a simultaneous open; a listener keeps a [`crate::listen::HalfOpen`].
    SynReceived = 2,
    Established = 3,
    FinWait1 = 4,
    FinWait2 = 5,
    CloseWait = 6,
    Closing = 7,
    LastAck = 8,
    /// To be replaced by a [`crate::time_wait::TimeWait`] once all was sent.
    TimeWait = 9,
}

/// Why a connection ended, or what an ICMP message said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Error {
    None = 0,
    /// The peer reset it (ECONNRESET).
    Reset = 1,
    /// The peer has nobody who listens (ECONNREFUSED).
    Refused = 2,
    /// Nothing came back (ETIMEDOUT).
    TimedOut = 3,
    /// EHOSTUNREACH
    HostUnreachable = 4,
    /// ENETUNREACH
    NetUnreachable = 5,
    /// ENOPROTOOPT
    ProtocolUnreachable = 6,
    /// The peer reset it after it had sent all it wanted (EPIPE).
    BrokenPipe = 7,
    /// A router does not let it through (EHOSTUNREACH, as on Linux).
    Prohibited = 8,
}

impl Error {
    fn of(number: u8) -> Error {
        match number {
            1 => Error::Reset,
            2 => Error::Refused,
            3 => Error::TimedOut,
            4 => Error::HostUnreachable,
            5 => Error::NetUnreachable,
            6 => Error::ProtocolUnreachable,
            7 => Error::BrokenPipe,
            8 => Error::Prohibited,
            _ => Error::None,
        }
    }
}

/// What a user may want to be woken for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Events(pub u16);

impl Events {
    /// The handshake is complete.
    pub const CONNECTED: Events = Events(1);
    /// There is something to read.
    pub const READABLE: Events = Events(2);
    /// Bytes were acknowledged, so that the send ring has room.
    pub const WRITABLE: Events = Events(4);
    /// The peer will send nothing more.
    pub const PEER_CLOSED: Events = Events(8);
    /// The connection ended by an error: [`Connection::error`].
    pub const FAILED: Events = Events(16);
    /// A new urgent mark.
    pub const URGENT: Events = Events(32);
    /// The state is now CLOSED: the block can go, once all was sent.
    pub const CLOSED: Events = Events(64);
    /// The state is now TIME-WAIT.
    pub const TIME_WAIT: Events = Events(128);

    pub const fn has(self, other: Events) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn add(&mut self, other: Events) {
        self.0 |= other.0;
    }
}

/// Explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Ecn {
    Off,
    /// Agree if the peer asks, as Linux does unless told otherwise.
    #[default]
    Accept,
    Ask,
}

/// How connections begin.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The largest segment that fits the link, without options: it is announced, and the path's first guess.
    pub mss: u16,
    /// Bytes of the receive ring at the beginning.
    pub receive_space: u32,
    /// What the receive ring may grow to: the window's shift follows from it.
    pub receive_space_max: u32,
    pub timestamps: bool,
    pub sack: bool,
    pub window_scaling: bool,
    pub ecn: Ecn,
    pub algorithm: Algorithm,
    /// How many full segments may leave as one, for a device that cuts them.
    pub segments: u16,
    /// A SYN is sent so many times more.
    pub syn_retries: u8,
    /// A SYN,ACK is sent so many times more.
    pub syn_ack_retries: u8,
    /// Look for a black hole of the path's MTU when segments time out (RFC 4821).
    pub mtu_probing: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mss: 1460,
            receive_space: 65_536,
            receive_space_max: 6 << 20,
            timestamps: true,
            sack: true,
            window_scaling: true,
            ecn: Ecn::Accept,
            algorithm: Algorithm::Cubic,
            segments: 1,
            syn_retries: 6,
            syn_ack_retries: 5,
            mtu_probing: true,
        }
    }
}

impl Config {
    /// The shift with which the largest receive ring can be announced (RFC 7323, 2.3).
    pub fn window_shift(&self) -> u8 {
        let mut shift = 0;
        while shift < 14 && self.receive_space_max >> shift > 65_535 {
            shift += 1;
        }
        shift
    }

    /// The window of a SYN: whole segments, without scale.
    pub fn first_window(&self, timestamps: bool) -> u16 {
        let mss = u32::from(self.mss)
            .saturating_sub(if timestamps { 12 } else { 0 })
            .max(1);
        let space = self.receive_space.min(65_535);
        (if space > mss {
            space / mss * mss
        } else {
            space
        }) as u16
    }
}

/// What the timer of the sending side waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Waiting {
    Nothing = 0,
    /// RTO (RFC 6298)
    Retransmission = 1,
    /// PTO (RFC 8985, 7)
    LossProbe = 2,
    /// The reordering window (RFC 8985, 6)
    Reordering = 3,
    /// A zero window, or one that is too small (RFC 9293, 3.8.6.1)
    Persist = 4,
}

/// Where the sending side is in the repair of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    Open = 0,
    /// The window falls because of ECE, or of a loss that a probe repaired.
    Reduced = 1,
    /// Fast recovery
    Recovery = 2,
    /// After a timeout
    Loss = 3,
}

/// Yes and no of a connection, in one word.
pub(crate) mod flag {
    /// Options that were agreed on.
    pub const SACK: u32 = 1 << 0;
    pub const TIMESTAMPS: u32 = 1 << 1;
    pub const SCALING: u32 = 1 << 2;
    pub const ECN: u32 = 1 << 3;
    /// Our SYN asked for ECN.
    pub const ECN_ASKED: u32 = 1 << 4;
    /// What the user chose.
    pub const NO_DELAY: u32 = 1 << 5;
    pub const CORK: u32 = 1 << 6;
    pub const KEEP_ALIVE: u32 = 1 << 7;
    /// The user will write nothing more: FIN follows the last byte.
    pub const FIN_QUEUED: u32 = 1 << 8;
    /// Nobody reads any more: what arrives is answered by a reset.
    pub const ORPHAN: u32 = 1 << 9;
    /// The peer's FIN has a place in the sequence: `rcv_fin`.
    pub const FIN_SEEN: u32 = 1 << 10;
    /// To be sent as soon as possible.
    pub const SYN_DUE: u32 = 1 << 11;
    pub const ACK_DUE: u32 = 1 << 12;
    pub const RESET_DUE: u32 = 1 << 13;
    /// A segment without text before SND.UNA, which must be answered.
    pub const PROBE_DUE: u32 = 1 << 14;
    pub const LOSS_PROBE_DUE: u32 = 1 << 15;
    /// The next segment may be short: the persist timer has fired.
    pub const FORCED: u32 = 1 << 16;
    /// CE arrived: ECE is set until CWR comes.
    pub const ECHO_CE: u32 = 1 << 17;
    pub const CWR_DUE: u32 = 1 << 18;
    /// `snd_up` and `rcv_up` mean something.
    pub const URGENT_OUT: u32 = 1 << 19;
    pub const URGENT_IN: u32 = 1 << 20;
    /// RACK has a segment to compare with.
    pub const RACK: u32 = 1 << 21;
    pub const REORDERED: u32 = 1 << 22;
    /// A loss probe is out, and it was a repetition.
    pub const PROBED: u32 = 1 << 23;
    pub const PROBE_REPEATED: u32 = 1 << 24;
    /// `dsack` is to be reported.
    pub const DSACK: u32 = 1 << 25;
    /// Answers follow at once, so that acknowledgements ride on them.
    pub const INTERACTIVE: u32 = 1 << 26;
    /// The window limited what was sent since `limited_end`.
    pub const LIMITED: u32 = 1 << 27;
    /// The user wants every segment acknowledged at once.
    pub const QUICK_ACK: u32 = 1 << 28;
    pub const MTU_PROBING: u32 = 1 << 29;
    /// The first retransmission of a reduction is still to be sent.
    pub const FIRST_REPAIR: u32 = 1 << 30;
    /// The SYN was sent more than once.
    pub const SYN_AGAIN: u32 = 1 << 31;
}

/// The control block.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Connection {
    pub local_port: u16,
    pub remote_port: u16,
    pub(crate) state: u8,
    pub(crate) error: u8,
    pub(crate) soft_error: u8,
    pub(crate) waiting: u8,
    pub(crate) flags: u32,
    pub(crate) stage: u8,
    pub(crate) snd_shift: u8,
    pub(crate) rcv_shift: u8,
    /// How often RTO is doubled.
    pub(crate) backoff: u8,

    // Timers: `Time::NEVER` if not set.
    /// Of what `waiting` says.
    pub(crate) send_timer: Time,
    pub(crate) ack_timer: Time,
    /// Keep-alive; of an orphan in FIN-WAIT-2, its end.
    pub(crate) keep_timer: Time,

    // Send sequence space
    pub(crate) iss: Seq,
    pub(crate) snd_una: Seq,
    pub(crate) snd_nxt: Seq,
    /// Behind the last byte that the user wrote.
    pub(crate) snd_end: Seq,
    pub(crate) snd_wnd: u32,
    pub(crate) snd_wl1: Seq,
    pub(crate) snd_wl2: Seq,
    /// Behind the urgent byte.
    pub(crate) snd_up: Seq,
    /// MAX.SND.WND
    pub(crate) max_wnd: u32,
    /// Behind the last byte of the last write.
    pub(crate) push: Seq,
    /// Behind the last segment that was shorter than full (Minshall's variant of Nagle's rule).
    pub(crate) small_end: Seq,

    // Receive sequence space
    pub(crate) irs: Seq,
    pub(crate) rcv_nxt: Seq,
    /// The right edge of the window that was announced: it never moves left.
    pub(crate) rcv_edge: Seq,
    /// The urgent byte.
    pub(crate) rcv_up: Seq,
    pub(crate) rcv_fin: Seq,
    /// Last.ACK.sent of RFC 7323.
    pub(crate) last_ack_sent: Seq,
    /// Bytes that arrived in order and were not read.
    pub(crate) unread: u32,
    pub(crate) rcv_space: u32,
    pub(crate) rcv_space_max: u32,
    /// A receive ring of this size would not slow the peer down.
    pub(crate) rcv_space_wanted: u32,
    /// Bytes read since `read_since`.
    pub(crate) read_bytes: u32,
    pub(crate) read_since: Stamp,
    pub(crate) dsack: (Seq, Seq),
    /// The longest text that arrived.
    pub(crate) rcv_mss: u16,
    /// So many acknowledgements more are not delayed.
    pub(crate) quick: u8,
    pub(crate) keep_probes: u8,

    // Segment sizes: all without options.
    pub(crate) mss_announced: u16,
    pub(crate) peer_mss: u16,
    pub(crate) path_mss: u16,
    pub(crate) segments: u16,

    // Timestamps
    pub(crate) ts_recent: u32,
    /// In seconds.
    pub(crate) ts_recent_at: u32,
    pub(crate) ts_offset: u32,

    // Loss
    /// SND.NXT when the repair began.
    pub(crate) recover: Seq,
    pub(crate) duplicates: u32,
    pub(crate) rack_sent: Stamp,
    pub(crate) rack_end: Seq,
    pub(crate) rack_rtt: u32,
    /// reo_wnd_mult, and for how many recoveries it lasts.
    pub(crate) rack_steps: u8,
    pub(crate) rack_persist: u8,
    pub(crate) retransmits: u8,
    pub(crate) probes: u8,
    /// Not again before SND.UNA is here.
    pub(crate) rack_round: Seq,
    pub(crate) probe_end: Seq,
    pub(crate) limited_end: Seq,
    pub(crate) max_out: u32,
    pub(crate) ece_end: Seq,

    // Times
    pub(crate) last_sent: Time,
    pub(crate) last_received: Time,
    /// Since when nothing goes forward.
    pub(crate) stalled: Time,
    /// When the last challenge or duplicate ACK left (RFC 5961, 7).
    pub(crate) challenged: Time,

    // What the user chose
    pub(crate) keep_idle: u32,
    pub(crate) keep_interval: u32,
    /// Milliseconds; zero: by the number of retransmissions.
    pub(crate) user_timeout: u32,
    /// Milliseconds
    pub(crate) fin_wait: u32,
    /// Both directions were shut down by who has it: text that arrives is answered by a reset.
    pub(crate) refuses: bool,
    pub(crate) keep_count: u8,
    pub(crate) syn_retries: u8,
    pub(crate) unused: [u8; 2],

    // Counts
    pub(crate) total_retransmits: u32,
    pub(crate) delivered: u32,
    pub(crate) segments_in: u32,
    pub(crate) segments_out: u32,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,

    pub(crate) rtt: Rtt,
    pub(crate) congestion: Congestion,
    pub(crate) reassembly: Reassembly,
    pub(crate) scoreboard: Scoreboard,
}

/// A connection that waits costs at most this much.
const _: () = assert!(size_of::<Connection>() <= 1024);

/// Acknowledgements that are not delayed when a connection begins, so that the peer's window opens.
pub(crate) const QUICK_ACKS: u8 = 16;
/// The least MSS that is ever used (RFC 9293, 3.7.1 has 536 as default; a path may have less).
pub(crate) const MSS_MIN: u16 = 48;
/// The MSS if the peer names none (RFC 9293, 3.7.1).
pub(crate) const MSS_DEFAULT: u16 = 536;
/// How long an orphan stays in FIN-WAIT-2.
pub const FIN_WAIT: Micros = 60 * SECOND;

/// What is told to a user who asks (TCP_INFO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    pub state: State,
    pub stage: Stage,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub timestamps: bool,
    pub sack: bool,
    pub scaling: bool,
    pub ecn: bool,
    pub snd_shift: u8,
    pub rcv_shift: u8,
    pub rto: Micros,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub out: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub path_mss: u32,
    pub rcv_threshold: u32,
    pub rtt: Micros,
    pub rtt_variation: Micros,
    pub least_rtt: Micros,
    pub snd_threshold: u32,
    pub snd_window: u32,
    pub announced_mss: u32,
    pub reordered: bool,
    pub rcv_space: u32,
    pub total_retransmits: u32,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segments_out: u32,
    pub segments_in: u32,
    pub not_sent: u32,
    pub delivered: u32,
    pub peer_window: u32,
}

impl Connection {
    /// A block with nothing in it: CLOSED.
    pub(crate) fn new(config: &Config, local_port: u16, remote_port: u16, iss: Seq) -> Connection {
        Connection {
            local_port,
            remote_port,
            state: State::Closed as u8,
            error: 0,
            soft_error: 0,
            waiting: 0,
            flags: if config.mtu_probing {
                flag::MTU_PROBING
            } else {
                0
            },
            stage: 0,
            snd_shift: 0,
            rcv_shift: 0,
            backoff: 0,
            send_timer: Time::NEVER,
            ack_timer: Time::NEVER,
            keep_timer: Time::NEVER,
            iss,
            snd_una: iss,
            snd_nxt: iss,
            snd_end: iss + 1,
            snd_wnd: 0,
            snd_wl1: Seq(0),
            snd_wl2: Seq(0),
            snd_up: iss,
            max_wnd: 0,
            push: iss,
            small_end: iss,
            irs: Seq(0),
            rcv_nxt: Seq(0),
            rcv_edge: Seq(0),
            rcv_up: Seq(0),
            rcv_fin: Seq(0),
            last_ack_sent: Seq(0),
            unread: 0,
            rcv_space: config.receive_space,
            rcv_space_max: config.receive_space_max.max(config.receive_space),
            rcv_space_wanted: config.receive_space,
            read_bytes: 0,
            read_since: Stamp(0),
            dsack: (Seq(0), Seq(0)),
            rcv_mss: MSS_DEFAULT.min(config.mss),
            quick: QUICK_ACKS,
            keep_probes: 0,
            mss_announced: config.mss.max(MSS_MIN),
            peer_mss: MSS_DEFAULT,
            path_mss: config.mss.max(MSS_MIN),
            segments: config.segments.max(1),
            ts_recent: 0,
            ts_recent_at: 0,
            ts_offset: 0,
            recover: iss,
            duplicates: 0,
            rack_sent: Stamp(0),
            rack_end: iss,
            rack_rtt: 0,
            rack_steps: 1,
            rack_persist: 0,
            retransmits: 0,
            probes: 0,
            rack_round: iss,
            probe_end: iss,
            limited_end: iss,
            max_out: 0,
            ece_end: iss,
            last_sent: Time(0),
            last_received: Time(0),
            stalled: Time::NEVER,
            challenged: Time::NEVER,
            keep_idle: 7200,
            keep_interval: 75,
            user_timeout: 0,
            fin_wait: (FIN_WAIT / MILLISECOND) as u32,
            refuses: false,
            keep_count: 9,
            syn_retries: config.syn_retries,
            unused: [0; 2],
            total_retransmits: 0,
            delivered: 0,
            segments_in: 0,
            segments_out: 0,
            bytes_acked: 0,
            bytes_received: 0,
            rtt: Rtt::NEW,
            congestion: Congestion::new(config.algorithm),
            reassembly: Reassembly::EMPTY,
            scoreboard: Scoreboard::new(iss + 1),
        }
    }

    /// Active OPEN (RFC 9293, 3.10.1): SYN-SENT, with a SYN to be sent. `iss` and `ts_offset` come from [`crate::secret`].
    pub fn connect(
        config: &Config,
        local_port: u16,
        remote_port: u16,
        iss: Seq,
        ts_offset: u32,
        now: Time,
    ) -> Connection {
        let mut connection = Connection::new(config, local_port, remote_port, iss);
        connection.ts_offset = ts_offset;
        connection.snd_nxt = iss + 1;
        connection.set_if(flag::TIMESTAMPS, config.timestamps);
        connection.set_if(flag::SACK, config.sack);
        connection.set_if(flag::SCALING, config.window_scaling);
        connection.set_if(flag::ECN_ASKED, config.ecn == Ecn::Ask);
        if config.window_scaling {
            connection.rcv_shift = config.window_shift();
        }
        connection.set_state(State::SynSent);
        connection.set(flag::SYN_DUE);
        connection.last_received = now;
        connection.last_sent = now;
        connection
    }

    // Words and bits

    pub(crate) fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    pub(crate) fn set(&mut self, flags: u32) {
        self.flags |= flags;
    }

    pub(crate) fn clear(&mut self, flags: u32) {
        self.flags &= !flags;
    }

    pub(crate) fn set_if(&mut self, flags: u32, yes: bool) {
        match yes {
            true => self.set(flags),
            false => self.clear(flags),
        }
    }

    pub fn state(&self) -> State {
        match self.state {
            1 => State::SynSent,
            2 => State::SynReceived,
            3 => State::Established,
            4 => State::FinWait1,
            5 => State::FinWait2,
            6 => State::CloseWait,
            7 => State::Closing,
            8 => State::LastAck,
            9 => State::TimeWait,
            _ => State::Closed,
        }
    }

    pub(crate) fn set_state(&mut self, state: State) {
        self.state = state as u8;
    }

    pub fn stage(&self) -> Stage {
        match self.stage {
            1 => Stage::Reduced,
            2 => Stage::Recovery,
            3 => Stage::Loss,
            _ => Stage::Open,
        }
    }

    pub(crate) fn waiting(&self) -> Waiting {
        match self.waiting {
            1 => Waiting::Retransmission,
            2 => Waiting::LossProbe,
            3 => Waiting::Reordering,
            4 => Waiting::Persist,
            _ => Waiting::Nothing,
        }
    }

    /// ESTABLISHED or later.
    pub(crate) fn is_synchronized(&self) -> bool {
        !matches!(
            self.state(),
            State::Closed | State::SynSent | State::SynReceived
        )
    }

    /// Why it ended.
    pub fn error(&self) -> Error {
        Error::of(self.error)
    }

    /// What an ICMP message said that did not end it (RFC 9293, 3.9.2.2). It is told once.
    pub fn take_soft_error(&mut self) -> Error {
        Error::of(core::mem::take(&mut self.soft_error))
    }

    /// Does everything hold that always holds? Of memory that a server finds again.
    pub fn holds(&self) -> bool {
        let outstanding = self.snd_nxt.since(self.snd_una);
        self.state <= State::TimeWait as u8
            && self.waiting <= Waiting::Persist as u8
            && self.stage <= Stage::Loss as u8
            && self.snd_shift <= 14
            && self.rcv_shift <= 14
            && outstanding < 1 << 31
            && self.reassembly.holds()
            && self.scoreboard.holds()
            && self.path_mss >= MSS_MIN
            && self.segments > 0
            && self.snd_nxt.at_or_before(self.snd_end + 1)
            && (!self.is_synchronized() || self.scoreboard.end() == self.snd_nxt)
            && self.rcv_edge.since(self.rcv_nxt) <= 1 << 30
    }

    // The user's calls

    /// Where the send ring begins: the first byte that the peer has not acknowledged.
    pub(crate) fn ring_start(&self) -> Seq {
        let first = self.iss + 1;
        if self.snd_una.before(first) {
            first
        } else {
            self.snd_una.earlier(self.snd_end)
        }
    }

    /// Bytes in the send ring: not acknowledged, or not sent.
    pub fn unacknowledged(&self) -> u32 {
        self.snd_end.since(self.ring_start())
    }

    /// Bytes in the send ring that were not sent even once.
    pub fn not_sent(&self) -> u32 {
        self.snd_end.beyond(self.snd_nxt.later(self.iss + 1))
    }

    /// Bytes that can be read.
    pub fn unread(&self) -> u32 {
        self.unread
    }

    /// May the user still write?
    pub fn can_write(&self) -> bool {
        !self.has(flag::FIN_QUEUED)
            && matches!(
                self.state(),
                State::SynSent | State::SynReceived | State::Established | State::CloseWait
            )
    }

    /// Will the peer send nothing more, and everything has arrived?
    pub fn peer_closed(&self) -> bool {
        matches!(
            self.state(),
            State::CloseWait | State::Closing | State::LastAck | State::TimeWait
        ) || self.state() == State::Closed
    }

    /// SEND (RFC 9293, 3.10.2): so many bytes more lie in the send ring. They are sent by [`Connection::transmit`].
    pub fn write(&mut self, bytes: u32) {
        self.snd_end += bytes;
        self.push = self.snd_end;
    }

    /// The last byte that was written is urgent.
    pub fn write_urgent(&mut self) {
        self.snd_up = self.snd_end;
        self.set(flag::URGENT_OUT);
    }

    /// RECEIVE (RFC 9293, 3.10.3): the user took so many bytes from the receive ring. If that opens the window by much, the peer is told.
    pub fn read(&mut self, bytes: u32, now: Time) {
        let bytes = bytes.min(self.unread);
        self.unread -= bytes;
        self.measure_reading(bytes, now);
        let current = self.rcv_edge.beyond(self.rcv_nxt);
        if self.is_synchronized() && !self.peer_closed() && current <= self.rcv_space / 2 {
            let next = self.next_edge().beyond(self.rcv_nxt);
            if next > 0 && next >= 2 * current {
                self.set(flag::ACK_DUE);
            }
        }
    }

    /// How fast the user reads in a round trip says how large the receive ring should be (dynamic right-sizing).
    fn measure_reading(&mut self, bytes: u32, now: Time) {
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        let round = self.rtt.smoothed().max(MILLISECOND) as u32;
        if now.stamp().since(self.read_since) < round {
            return;
        }
        let wanted = self.read_bytes.saturating_mul(2);
        if wanted > self.rcv_space_wanted {
            self.rcv_space_wanted = wanted.min(self.rcv_space_max);
        }
        self.read_bytes = 0;
        self.read_since = now.stamp();
    }

    /// Has nothing arrived before its turn, so that the receive ring holds only what can be read?
    pub fn nothing_early(&self) -> bool {
        self.reassembly.is_empty()
    }

    /// Bytes that the receive ring must have room for behind those that can be read, before this segment is taken in.
    pub fn receive_needs(&self, segment: &Segment, text: u32) -> u32 {
        match self.is_synchronized() || self.state() == State::SynReceived {
            true => {
                let end = (segment.seq + text).beyond(self.rcv_nxt);
                end.min(self.rcv_edge.beyond(self.rcv_nxt))
            }
            false => text,
        }
    }

    /// The size that the receive ring should have, so that it does not limit the peer.
    pub fn receive_space_wanted(&self) -> u32 {
        self.rcv_space_wanted.max(self.rcv_space)
    }

    /// The receive ring has this size now. What was announced stays.
    pub fn set_receive_space(&mut self, bytes: u32) {
        self.rcv_space = bytes.min(1 << 29);
    }

    /// The size that the send ring should have: two windows.
    pub fn send_space_wanted(&self) -> u32 {
        let window = self
            .congestion
            .window()
            .max(crate::congestion::INITIAL_WINDOW);
        window
            .saturating_mul(2)
            .saturating_mul(self.effective_mss())
    }

    /// The user will write nothing more: half of CLOSE (RFC 9293, 3.10.4). A FIN follows what was written.
    pub fn shutdown(&mut self) -> Events {
        match self.state() {
            State::SynSent => return self.end(Error::None),
            State::SynReceived | State::Established => self.set_state(State::FinWait1),
            State::CloseWait => self.set_state(State::LastAck),
            _ => return Events::default(),
        }
        self.set(flag::FIN_QUEUED);
        Events::default()
    }

    /// CLOSE: nobody writes or reads any more. What was not read is lost, which the peer learns by a reset (RFC 9293, 3.6.1; RFC 2525, 2.17).
    pub fn close(&mut self, now: Time) -> Events {
        if self.unread > 0 && self.is_synchronized() && self.state() != State::TimeWait {
            return self.abort();
        }
        let events = self.shutdown();
        self.set(flag::ORPHAN);
        if self.state() == State::FinWait2 {
            self.keep_timer = now.after(Micros::from(self.fin_wait) * MILLISECOND);
        }
        events
    }

    /// Nobody reads or writes any more, and somebody has the connection yet: text that arrives ends it.
    pub fn refuse_text(&mut self) {
        self.refuses = true;
    }

    /// ABORT (RFC 9293, 3.10.5): CLOSED at once; the peer gets a reset if it knows of the connection.
    pub fn abort(&mut self) -> Events {
        let reset = matches!(
            self.state(),
            State::SynReceived
                | State::Established
                | State::FinWait1
                | State::FinWait2
                | State::CloseWait
        ) || (self.state() == State::LastAck && self.has(flag::FIN_QUEUED));
        let events = self.end(Error::None);
        self.set_if(flag::RESET_DUE, reset);
        events
    }

    /// CLOSED, for this reason.
    pub(crate) fn end(&mut self, error: Error) -> Events {
        self.set_state(State::Closed);
        self.error = error as u8;
        self.waiting = Waiting::Nothing as u8;
        self.send_timer = Time::NEVER;
        self.ack_timer = Time::NEVER;
        self.keep_timer = Time::NEVER;
        self.clear(
            flag::ACK_DUE
                | flag::SYN_DUE
                | flag::PROBE_DUE
                | flag::LOSS_PROBE_DUE
                | flag::RESET_DUE
                | flag::FORCED,
        );
        let mut events = Events::CLOSED;
        if error != Error::None {
            events.add(Events::FAILED);
        }
        events
    }

    // Options

    /// TCP_NODELAY
    pub fn set_no_delay(&mut self, on: bool) {
        self.set_if(flag::NO_DELAY, on);
    }

    /// TCP_CORK
    pub fn set_cork(&mut self, on: bool) {
        self.set_if(flag::CORK, on);
    }

    /// TCP_QUICKACK
    pub fn set_quick_ack(&mut self, on: bool) {
        self.set_if(flag::QUICK_ACK, on);
        if on {
            self.clear(flag::INTERACTIVE);
            if self.ack_timer != Time::NEVER {
                self.set(flag::ACK_DUE);
            }
        } else {
            self.set(flag::INTERACTIVE);
            self.quick = 0;
        }
    }

    /// SO_KEEPALIVE with TCP_KEEPIDLE, TCP_KEEPINTVL (seconds) and TCP_KEEPCNT.
    pub fn set_keep_alive(&mut self, on: bool, idle: u32, interval: u32, count: u8, now: Time) {
        self.set_if(flag::KEEP_ALIVE, on);
        self.keep_idle = idle;
        self.keep_interval = interval;
        self.keep_count = count;
        self.keep_probes = 0;
        if !self.has(flag::ORPHAN) {
            self.keep_timer = Time::NEVER;
            self.arm_keep_alive(now);
        }
    }

    pub(crate) fn arm_keep_alive(&mut self, now: Time) {
        if self.has(flag::KEEP_ALIVE) && self.is_synchronized() && !self.has(flag::ORPHAN) {
            let idle = Micros::from(self.keep_idle) * SECOND;
            self.keep_timer = self.last_received.after(idle).max(now);
        }
    }

    /// TCP_USER_TIMEOUT, in milliseconds; zero: none.
    pub fn set_user_timeout(&mut self, milliseconds: u32) {
        self.user_timeout = milliseconds;
    }

    /// TCP_LINGER2, in milliseconds.
    pub fn set_fin_wait(&mut self, milliseconds: u32) {
        self.fin_wait = milliseconds;
    }

    /// TCP_SYNCNT
    pub fn set_syn_retries(&mut self, count: u8) {
        self.syn_retries = count;
    }

    /// TCP_CONGESTION
    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        self.congestion.set_algorithm(algorithm);
    }

    pub fn algorithm(&self) -> Algorithm {
        self.congestion.algorithm()
    }

    /// The urgent byte among those that can be read or will arrive: how many bytes before it are not read. None: there is no mark ahead.
    pub fn urgent_offset(&self) -> Option<u32> {
        if !self.has(flag::URGENT_IN) {
            return None;
        }
        let read = self.data_end() - self.unread;
        if self.rcv_up.before(read) {
            return None;
        }
        Some(self.rcv_up.since(read))
    }

    /// Behind the last byte that arrived in order.
    fn data_end(&self) -> Seq {
        if self.has(flag::FIN_SEEN) && self.rcv_nxt.after(self.rcv_fin) {
            self.rcv_fin
        } else {
            self.rcv_nxt
        }
    }

    // Sizes

    /// Bytes of text that fit into a segment that has no SACK blocks: "Eff.snd.MSS".
    pub fn effective_mss(&self) -> u32 {
        let options = if self.has(flag::TIMESTAMPS) { 12 } else { 0 };
        let most = self.peer_mss.min(self.path_mss).max(MSS_MIN);
        u32::from(most - options)
    }

    /// The right edge of the window as it can be announced now. It moves only if it moves by a segment or half the ring (RFC 9293, 3.8.6.2.2).
    pub(crate) fn next_edge(&self) -> Seq {
        let old = self.rcv_edge.later(self.rcv_nxt);
        let space = self.rcv_space.saturating_sub(self.unread);
        let space = space.min(65_535 << self.rcv_shift) >> self.rcv_shift << self.rcv_shift;
        let edge = self.rcv_nxt + space;
        let step = (self.rcv_space / 2)
            .min(u32::from(self.mss_announced))
            .max(1);
        if edge.beyond(old) >= step {
            edge
        } else {
            old
        }
    }

    /// What the user may look at (TCP_INFO).
    pub fn info(&self) -> Info {
        let counts = self.scoreboard.counts();
        Info {
            state: self.state(),
            stage: self.stage(),
            retransmits: self.retransmits,
            probes: self.probes,
            backoff: self.backoff,
            timestamps: self.has(flag::TIMESTAMPS),
            sack: self.has(flag::SACK),
            scaling: self.has(flag::SCALING),
            ecn: self.has(flag::ECN),
            snd_shift: self.snd_shift,
            rcv_shift: self.rcv_shift,
            rto: self.rtt.timeout(self.backoff),
            snd_mss: self.effective_mss(),
            rcv_mss: u32::from(self.rcv_mss),
            out: counts.out,
            sacked: counts.sacked + self.duplicates.min(counts.out),
            lost: counts.lost,
            retrans: counts.resent,
            path_mss: u32::from(self.path_mss),
            rcv_threshold: self.rcv_space,
            rtt: self.rtt.smoothed(),
            rtt_variation: self.rtt.variation() / 4,
            least_rtt: self.rtt.least(),
            snd_threshold: self.congestion.threshold(),
            snd_window: self.congestion.window(),
            announced_mss: u32::from(self.mss_announced),
            reordered: self.has(flag::REORDERED),
            rcv_space: self.rcv_space,
            total_retransmits: self.total_retransmits,
            bytes_acked: self.bytes_acked,
            bytes_received: self.bytes_received,
            segments_out: self.segments_out,
            segments_in: self.segments_in,
            not_sent: self.not_sent(),
            delivered: self.delivered,
            peer_window: self.snd_wnd,
        }
    }

    /// TSval of a segment that leaves now: milliseconds, from an offset of this connection's own.
    pub(crate) fn timestamp(&self, now: Time) -> u32 {
        timestamp(now, self.ts_offset)
    }

    /// A segment with the connection's ports and acknowledgement, and no options.
    pub(crate) fn blank(&self) -> Segment {
        Segment {
            source: self.local_port,
            destination: self.remote_port,
            seq: self.snd_nxt,
            ack: self.rcv_nxt,
            ..Segment::default()
        }
    }

    /// RTO before the first sample, doubled so many times.
    pub(crate) fn syn_timeout(&self) -> Micros {
        RTO_INITIAL << self.retransmits.min(7)
    }
}

/// The clock of timestamps (RFC 7323, 5.4): one tick a millisecond.
pub(crate) fn timestamp(now: Time, offset: u32) -> u32 {
    ((now.0 / MILLISECOND) as u32).wrapping_add(offset)
}
