//! Two ends and a bad line between them, by seed: loss, delay, reordering, duplicates and damage. No wrong byte, no hang, no panic. `CAIRN_TCP_GAMES` says how many games are played.

use cairn_tcp::segment::{checksum, HEADER_MAX};
use cairn_tcp::{
    listen, ring, Arrival, Config, Connection, Ecn, Events, HalfOpen, Segment, Seq, State, Time,
    TimeWait,
};
use std::collections::BinaryHeap;

/// SplitMix64
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

const LINE: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];

/// The byte at this place of a stream.
fn byte(side: usize, at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9) >> 7) as u8 ^ side as u8
}

enum Stage {
    Listening,
    HalfOpen(HalfOpen),
    Open(Box<Connection>),
    TimeWait(TimeWait),
    Gone,
}

struct End {
    side: usize,
    stage: Stage,
    config: Config,
    send: Vec<u8>,
    receive: Vec<u8>,
    /// Position of the first byte in the send ring, of what was written, of what was read.
    acknowledged: u64,
    written: u64,
    read: u64,
    to_write: u64,
    shut: bool,
    closed_by_peer: bool,
    error: bool,
}

struct Frame {
    at: u64,
    order: u64,
    to: usize,
    ce: bool,
    bytes: Vec<u8>,
}

impl PartialEq for Frame {
    fn eq(&self, other: &Frame) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Frame {}
impl PartialOrd for Frame {
    fn partial_cmp(&self, other: &Frame) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Frame {
    fn cmp(&self, other: &Frame) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

struct Line {
    random: Random,
    now: u64,
    order: u64,
    frames: BinaryHeap<Frame>,
    loss: u64,
    damage: u64,
    duplicates: u64,
    reorder: u64,
    mark: u64,
    delay: u64,
    /// Longer segments vanish without a word.
    mtu: usize,
}

impl Line {
    fn send(&mut self, from: usize, segment: &Segment, text: [&[u8]; 2], capable: bool) {
        let mut header = [0; HEADER_MAX];
        let length = segment.write(&mut header).expect("the header fits");
        let mut bytes = header[..length].to_vec();
        bytes.extend_from_slice(text[0]);
        bytes.extend_from_slice(text[1]);
        let sum = checksum(&LINE[from], &LINE[1 - from], &[&bytes]);
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        if bytes.len() > self.mtu || self.random.percent(self.loss) {
            return;
        }
        let copies = 1 + u64::from(self.random.percent(self.duplicates));
        for _ in 0..copies {
            let mut bytes = bytes.clone();
            if self.random.percent(self.damage) {
                let bit = self.random.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let late = match self.random.percent(self.reorder) {
                true => self.random.below(self.delay * 2 + 10_000),
                false => 0,
            };
            self.order += 1;
            self.frames.push(Frame {
                at: self.now + self.delay + late,
                order: self.order,
                to: 1 - from,
                ce: capable && self.random.percent(self.mark),
                bytes,
            });
        }
    }
}

impl End {
    fn flush(&mut self, line: &mut Line) {
        let now = Time(line.now);
        let Stage::Open(connection) = &mut self.stage else {
            return;
        };
        let mut count = 0;
        while let Some(transmit) = connection.transmit(now) {
            count += 1;
            assert!(count < 10_000, "it never stops sending");
            let at = (self.acknowledged as u32).wrapping_add(transmit.offset);
            assert!(
                self.acknowledged + u64::from(transmit.offset + transmit.length) <= self.written,
                "text that was never written"
            );
            let text = ring::pieces(&self.send, at, transmit.length);
            line.send(self.side, &transmit.segment, text, transmit.ecn_capable);
        }
        assert!(connection.holds(), "{connection:?}");
        match connection.state() {
            State::TimeWait => self.stage = Stage::TimeWait(TimeWait::new(connection, now)),
            State::Closed => {
                self.error |= connection.error() != cairn_tcp::Error::None;
                self.stage = Stage::Gone;
            }
            _ => {}
        }
    }

    /// The user: writes what there is room for, reads some of what is there, and shuts down at the end.
    fn user(&mut self, line: &mut Line) {
        let now = Time(line.now);
        let Stage::Open(connection) = &mut self.stage else {
            return;
        };
        let room = self.send.len() as u64 - u64::from(connection.unacknowledged());
        let some = 1 + line.random.below(room.max(1));
        let some = some.min(room).min(self.to_write - self.written);
        if connection.can_write() && some > 0 {
            for n in self.written..self.written + some {
                ring::put(&mut self.send, n as u32, &[byte(self.side, n)]);
            }
            self.written += some;
            connection.write(some as u32);
        }
        let there = u64::from(connection.unread());
        let take = match line.random.percent(80) {
            true => there,
            false => line.random.below(there + 1),
        };
        let mut buffer = vec![0; take as usize];
        ring::take(&self.receive, self.read as u32, &mut buffer);
        for (n, got) in buffer.iter().enumerate() {
            let at = self.read + n as u64;
            assert_eq!(*got, byte(1 - self.side, at), "byte {at} of the stream");
        }
        self.read += take;
        connection.read(take as u32, now);
        let _ = (
            connection.receive_space_wanted(),
            connection.send_space_wanted(),
            connection.info(),
        );
        if self.written == self.to_write && !self.shut && connection.state() != State::SynSent {
            self.shut = true;
            connection.shutdown();
        }
    }

    fn arrives(&mut self, line: &mut Line, bytes: &[u8], ce: bool) {
        let now = Time(line.now);
        if checksum(&LINE[1 - self.side], &LINE[self.side], &[bytes]) != 0 {
            return;
        }
        let Ok((segment, header)) = Segment::parse(bytes) else {
            return;
        };
        let text = &bytes[header..];
        let length = text.len() as u32;
        let mut answer = None;
        match &mut self.stage {
            Stage::Listening => {
                if let listen::Listened::Syn = listen::listen(&segment, length) {
                    let iss = Seq(line.random.next() as u32);
                    let entry = HalfOpen::new(&self.config, &segment, iss, 99, now);
                    answer = Some(entry.syn_ack(now));
                    self.stage = Stage::HalfOpen(entry);
                }
            }
            Stage::HalfOpen(entry) => match entry.segment_arrives(&segment, length, false, now) {
                listen::Answer::Send(segment) => answer = Some(segment),
                listen::Answer::Complete => {
                    let connection = entry.connection(&self.config, now);
                    self.stage = Stage::Open(Box::new(connection));
                    return self.arrives(line, bytes, ce);
                }
                _ => {}
            },
            Stage::Open(connection) => {
                let arrival: Arrival = connection.segment_arrives(&segment, length, ce, now);
                self.acknowledged += u64::from(arrival.acknowledged);
                if let Some(place) = arrival.place {
                    let tail = self.read
                        + u64::from(connection.unread() - arrival.readable)
                        + u64::from(place.offset);
                    let end = tail + u64::from(place.length);
                    assert!(
                        end - self.read <= self.receive.len() as u64,
                        "beyond the ring"
                    );
                    let from = place.from as usize;
                    let bytes = &text[from..from + place.length as usize];
                    ring::put(&mut self.receive, tail as u32, bytes);
                }
                self.closed_by_peer |= arrival.events.has(Events::PEER_CLOSED);
                answer = arrival.reset;
                self.read_all(now);
            }
            Stage::TimeWait(record) => {
                if let cairn_tcp::time_wait::Answer::Send(segment) =
                    record.segment_arrives(&segment, length, now)
                {
                    answer = Some(segment);
                }
            }
            Stage::Gone => answer = segment.reset(length),
        }
        if let Some(answer) = answer {
            line.send(self.side, &answer, [&[], &[]], false);
        }
    }

    /// Before the block goes, its user takes what is there.
    fn read_all(&mut self, now: Time) {
        let Stage::Open(connection) = &mut self.stage else {
            return;
        };
        if !matches!(connection.state(), State::TimeWait | State::Closed) {
            return;
        }
        for n in 0..u64::from(connection.unread()) {
            let at = self.read + n;
            let mut got = [0];
            ring::take(&self.receive, at as u32, &mut got);
            assert_eq!(got[0], byte(1 - self.side, at));
        }
        self.read += u64::from(connection.unread());
        connection.read(u32::MAX, now);
    }

    fn deadline(&self) -> u64 {
        match &self.stage {
            Stage::HalfOpen(entry) => entry.deadline().0,
            Stage::Open(connection) => connection.deadline().0,
            _ => u64::MAX,
        }
    }

    fn time_passes(&mut self, line: &mut Line) {
        let now = Time(line.now);
        match &mut self.stage {
            Stage::HalfOpen(entry) => {
                if let listen::Answer::Send(segment) = entry.time_passes(200, now) {
                    line.send(self.side, &segment, [&[], &[]], false);
                }
            }
            Stage::Open(connection) => {
                connection.time_passes(now);
            }
            _ => {}
        }
    }
}

fn game(seed: u64) {
    let mut random = Random(seed);
    let mut config = || Config {
        mss: [536, 1000, 1460, 8960][random.below(4) as usize],
        receive_space: 1 << (11 + random.below(8)),
        receive_space_max: 1 << (19 + random.below(8)),
        timestamps: random.percent(70),
        sack: random.percent(70),
        window_scaling: random.percent(80),
        ecn: [Ecn::Off, Ecn::Accept, Ecn::Ask][random.below(3) as usize],
        algorithm: match random.percent(50) {
            true => cairn_tcp::congestion::Algorithm::Reno,
            false => cairn_tcp::congestion::Algorithm::Cubic,
        },
        segments: 1 + random.below(40) as u16,
        syn_retries: 100,
        syn_ack_retries: 100,
        mtu_probing: true,
    };
    let configs = [config(), config()];
    let simultaneous = random.percent(15);
    let bad = random.below(4);
    let mut line = Line {
        now: 1_000_000 + random.below(1 << 33),
        order: 0,
        frames: BinaryHeap::new(),
        loss: [0, 1, 5, 20][random.below(4) as usize],
        damage: if bad > 0 { random.below(4) } else { 0 },
        duplicates: if bad > 1 { random.below(10) } else { 0 },
        reorder: if bad > 2 { random.below(30) } else { 0 },
        mark: random.below(2) * random.below(20),
        delay: [10, 1_000, 20_000, 200_000][random.below(4) as usize],
        // What a device would have cut is one frame here, so a black hole is for single segments only.
        mtu: match random.percent(20) && configs.iter().all(|config| config.segments == 1) {
            true => 1100,
            false => 65_535,
        },
        random,
    };
    let start = line.now;
    let mut ends: Vec<End> = (0..2)
        .map(|side| {
            let config = configs[side];
            let active = side == 0 || simultaneous;
            let iss = Seq(line.random.next() as u32);
            let (local, remote) = (1000 + side as u16, 1001 - side as u16);
            let connection = Connection::connect(&config, local, remote, iss, 7, Time(line.now));
            End {
                side,
                stage: match active {
                    true => Stage::Open(Box::new(connection)),
                    false => Stage::Listening,
                },
                config,
                send: vec![0; 1 << (11 + line.random.below(7))],
                receive: vec![0; config.receive_space as usize],
                acknowledged: 0,
                written: 0,
                read: 0,
                to_write: line.random.below(150_000),
                shut: false,
                closed_by_peer: false,
                error: false,
            }
        })
        .collect();
    for steps in 0.. {
        assert!(steps < 400_000, "it goes on for ever");
        for end in &mut ends {
            end.user(&mut line);
            end.flush(&mut line);
        }
        if ends
            .iter()
            .all(|end| matches!(end.stage, Stage::TimeWait(_) | Stage::Gone))
        {
            break;
        }
        let frame = line.frames.peek().map_or(u64::MAX, |frame| frame.at);
        let timer = ends.iter().map(End::deadline).min().unwrap_or(u64::MAX);
        let next = frame.min(timer);
        let stuck = || {
            ends.iter()
                .map(|end| match &end.stage {
                    Stage::Open(connection) => format!("{connection:?}"),
                    _ => String::new(),
                })
                .collect::<Vec<_>>()
        };
        // One end gave up after a quarter of an hour, and the other waits for its FIN without a timer, as it may.
        if next == u64::MAX && ends.iter().any(|end| end.error) {
            break;
        }
        assert!(next < u64::MAX, "nothing will ever happen: {:#?}", stuck());
        assert!(
            next - start.min(next) < 30_000_000_000,
            "too late: {:#?}",
            stuck()
        );
        line.now = line.now.max(next);
        if frame <= timer {
            if let Some(frame) = line.frames.pop() {
                ends[frame.to].arrives(&mut line, &frame.bytes, frame.ce);
            }
        } else {
            for end in &mut ends {
                if end.deadline() <= line.now {
                    end.time_passes(&mut line);
                }
            }
        }
    }
    // All of it arrived, unless the other end gave up after it had everything, or a reset met one that had left.
    for side in 0..2 {
        let (end, other) = (&ends[side], &ends[1 - side]);
        if !end.error && !other.error {
            assert_eq!(end.read, other.to_write, "side {side}");
        } else {
            assert!(end.read <= other.to_write);
        }
    }
}

#[test]
fn no_wrong_byte_on_a_bad_line() {
    let games = std::env::var("CAIRN_TCP_GAMES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(300);
    let first = std::env::var("CAIRN_TCP_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0);
    for seed in first..first + games {
        if let Err(panic) = std::panic::catch_unwind(|| game(seed)) {
            eprintln!("game {seed}: CAIRN_TCP_SEED={seed} CAIRN_TCP_GAMES=1");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Segments with numbers near those that mean something, at every state, with calls of the user and time between: nothing panics, and what always holds goes on to hold.
fn noise(seed: u64) {
    let mut random = Random(seed ^ 0xdead_beef);
    let config = Config {
        receive_space: 1 << random.below(20),
        timestamps: random.percent(50),
        sack: random.percent(70),
        ecn: Ecn::Ask,
        ..Config::default()
    };
    let mut now = random.below(1 << 40);
    let iss = Seq(random.next() as u32);
    let peer = Seq(random.next() as u32);
    let mut connection = Connection::connect(&config, 1, 2, iss, 5, Time(now));
    let mut listener: Option<HalfOpen> = None;
    let mut sent = iss;
    let mut seen = peer;
    for _ in 0..400 {
        now += match random.below(4) {
            0 => 0,
            1 => random.below(1000),
            2 => random.below(1_000_000),
            _ => random.below(200_000_000),
        };
        let at = Time(now);
        let near = |random: &mut Random, center: Seq| match random.below(8) {
            0 => Seq(random.next() as u32),
            1 => center + random.below(100_000) as u32,
            2 => center - random.below(100_000) as u32,
            _ => center + random.below(3) as u32 - 1,
        };
        let mut segment = Segment {
            source: 2,
            destination: 1,
            seq: near(&mut random, seen),
            ack: near(&mut random, sent),
            flags: cairn_tcp::Flags(match random.below(4) {
                0 => random.next() as u8,
                1 => 0x12,
                _ => 0x10,
            }),
            window: random.next() as u16 >> random.below(16),
            urgent: random.next() as u16 >> random.below(16),
            ..Segment::default()
        };
        if random.percent(40) {
            segment.options.timestamps = Some((random.below(1000) as u32, random.next() as u32));
        }
        if random.percent(40) {
            segment.options.mss = Some(random.next() as u16);
            segment.options.window_scale = Some(random.next() as u8);
            segment.options.sack_permitted = true;
        }
        for _ in 0..random.below(5) {
            let start = near(&mut random, sent);
            let end = near(&mut random, sent);
            segment.options.add_sack((start, end));
        }
        let text = match random.below(3) {
            0 => 0,
            1 => random.below(20) as u32,
            _ => random.below(65_000) as u32,
        };
        if let Some(entry) = &mut listener {
            let answer = entry.segment_arrives(&segment, text, random.percent(20), at);
            let _ = entry.time_passes(5, at);
            if let listen::Answer::Complete = answer {
                connection = entry.connection(&config, at);
                listener = None;
            }
        }
        if random.percent(70) {
            let ce = random.percent(10);
            let arrival = connection.segment_arrives(&segment, text, ce, at);
            if let Some(place) = arrival.place {
                assert!(place.from + place.length <= text);
                assert!(connection.unread() <= config.receive_space);
                let beyond = connection.unread() - arrival.readable + place.offset + place.length;
                assert!(beyond <= config.receive_space, "{place:?}");
            }
            seen = segment.seq + segment.length(text);
        }
        match random.below(24) {
            0 => connection.write(random.below(50_000) as u32),
            1 => {
                connection.write(1);
                connection.write_urgent();
            }
            2 => connection.read(random.next() as u32, at),
            3 if random.percent(20) => {
                connection.shutdown();
            }
            4 if random.percent(10) => {
                connection.close(at);
            }
            5 => {
                let message = match random.percent(50) {
                    true => cairn_tcp::Icmp::TooBig {
                        mss: random.next() as u16 >> random.below(16),
                    },
                    false => cairn_tcp::Icmp::Unreachable(cairn_tcp::Error::HostUnreachable),
                };
                connection.icmp_arrives(message, near(&mut random, sent), at);
            }
            6 => connection.set_keep_alive(true, random.below(100) as u32, 1, 3, at),
            7 => connection.set_cork(random.percent(50)),
            8 => connection.set_no_delay(random.percent(50)),
            9 => connection.set_user_timeout(random.below(100_000) as u32),
            _ => {}
        }
        if connection.deadline() <= at {
            connection.time_passes(at);
        }
        let mut count = 0;
        while let Some(transmit) = connection.transmit(at) {
            sent = transmit.segment.seq + transmit.segment.length(transmit.length);
            seen = transmit.segment.ack;
            assert!(transmit.offset + transmit.length <= connection.unacknowledged());
            let mut header = [0; HEADER_MAX];
            assert!(transmit.segment.write(&mut header).is_some());
            count += 1;
            assert!(count < 20_000, "it never stops sending");
        }
        assert!(connection.holds(), "{connection:?}");
        let _ = (connection.info(), connection.urgent_offset());
        match connection.state() {
            State::Closed | State::TimeWait => {
                if connection.state() == State::TimeWait {
                    let mut record = TimeWait::new(&connection, at);
                    let _ = record.segment_arrives(&segment, text, at);
                }
                let iss = Seq(random.next() as u32);
                sent = iss;
                connection = Connection::connect(&config, 1, 2, iss, 5, at);
                segment.flags = cairn_tcp::Flags::SYN;
                if random.percent(50) {
                    let entry = HalfOpen::new(&config, &segment, iss, 3, at);
                    let _ = entry.syn_ack(at);
                    if random.percent(50) {
                        connection = entry.connection(&config, at);
                    } else {
                        listener = Some(entry);
                    }
                }
            }
            _ => {}
        }
    }
}

#[test]
fn nothing_that_arrives_ends_the_program() {
    let games: u64 = std::env::var("CAIRN_TCP_GAMES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(300);
    for seed in 0..games * 5 {
        if let Err(panic) = std::panic::catch_unwind(|| noise(seed)) {
            eprintln!("noise {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
