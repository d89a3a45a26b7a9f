//! A host with sockets around `lib/tcp`, in virtual time: what a network server and the Linux personality do together, as far as scripts look at it. Text is counted, not kept.

use super::names::Errno;
use cairn_tcp::connection::Info;
use cairn_tcp::{
    listen, time_wait, Arrival, Config, Connection, Ends, Error, Events, Flags, HalfOpen, Icmp,
    Secret, Segment, Seq, State, Time, TimeWait,
};
use std::collections::{BTreeMap, VecDeque};

/// A segment on its way to the peer.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Time,
    pub segment: Segment,
    pub length: u32,
    pub ecn_capable: bool,
}

/// What setsockopt said, for connections to come and for the present one.
#[derive(Clone, Debug)]
pub struct Choices {
    pub no_delay: bool,
    pub cork: bool,
    pub keep_alive: bool,
    pub keep_idle: u32,
    pub keep_interval: u32,
    pub keep_count: u32,
    pub user_timeout: u32,
    pub syn_count: u32,
    pub linger2: i32,
    pub linger: Option<u32>,
    pub inline: bool,
    pub defer_accept: u32,
    pub receive_low: u32,
    pub send_buffer: u32,
    pub receive_buffer: Option<u32>,
    pub max_segment: u16,
    pub algorithm: cairn_tcp::congestion::Algorithm,
    pub reuse_address: bool,
    pub reuse_port: bool,
    pub others: BTreeMap<String, i64>,
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            no_delay: false,
            cork: false,
            keep_alive: false,
            keep_idle: 7200,
            keep_interval: 75,
            keep_count: 9,
            user_timeout: 0,
            syn_count: 6,
            linger2: 60,
            linger: None,
            inline: false,
            defer_accept: 0,
            receive_low: 1,
            send_buffer: 1 << 20,
            receive_buffer: None,
            max_segment: 0,
            algorithm: Default::default(),
            reuse_address: false,
            reuse_port: false,
            others: BTreeMap::new(),
        }
    }
}

struct Entry {
    half: HalfOpen,
    dropped: bool,
}

pub struct Listener {
    pub backlog: usize,
    entries: Vec<Entry>,
    /// Connections that wait for accept.
    ready: VecDeque<usize>,
}

pub struct Socket {
    pub nonblocking: bool,
    pub choices: Choices,
    pub port: Option<u16>,
    pub listener: Option<Listener>,
    pub connection: Option<usize>,
}

pub struct Stream {
    pub block: Connection,
    pub error: Option<Errno>,
    /// shutdown(SHUT_RD) or close
    pub reads: bool,
    pub writes: bool,
    /// A descriptor refers to it, or accept will.
    pub held: bool,
    pub connected: bool,
    /// The urgent byte was taken.
    pub urgent_taken: bool,
    pub inline: bool,
    /// Turned into a record, or gone.
    pub over: bool,
    pub end_of_peer: bool,
}

pub struct Host {
    pub now: Time,
    pub config: Config,
    pub sockets: BTreeMap<i32, Socket>,
    pub streams: Vec<Stream>,
    records: Vec<TimeWait>,
    secret: Secret,
    pub sent: VecDeque<Sent>,
    pub syn_cookies: i64,
    pub max_syn_backlog: usize,
    next_port: u16,
    /// What the last socket call was about.
    pub last: Option<usize>,
}

/// Where a call that has to wait goes on.
pub enum Wait {
    Block,
    Error(Errno),
}

impl From<Errno> for Wait {
    fn from(errno: Errno) -> Wait {
        Wait::Error(errno)
    }
}

pub type Outcome<T> = Result<T, Wait>;

impl Host {
    pub fn new(random: u64) -> Host {
        let key = u128::from(random) << 64 | u128::from(!random);
        Host {
            // Long after the machine's start, and not at a full second.
            now: Time(5_000_000_123),
            config: Config::default(),
            sockets: BTreeMap::new(),
            streams: Vec::new(),
            records: Vec::new(),
            secret: Secret::new(key.to_le_bytes()),
            sent: VecDeque::new(),
            syn_cookies: 1,
            max_syn_backlog: 128,
            next_port: 40_000,
            last: None,
        }
    }

    fn ends(local_port: u16, remote_port: u16) -> Ends {
        Ends {
            local: *b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01",
            remote: *b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x02",
            local_port,
            remote_port,
        }
    }

    /// Of this descriptor.
    pub fn socket(&mut self, fd: i64) -> Result<&mut Socket, Errno> {
        i32::try_from(fd)
            .ok()
            .and_then(|fd| self.sockets.get_mut(&fd))
            .ok_or(Errno::EBADF)
    }

    fn lowest_free(&self) -> i32 {
        (3..)
            .find(|fd| !self.sockets.contains_key(fd))
            .unwrap_or(i32::MAX)
    }

    pub fn add(&mut self, socket: Socket) -> i64 {
        let fd = self.lowest_free();
        self.sockets.insert(fd, socket);
        i64::from(fd)
    }

    /// The stream of a descriptor, if it has one.
    pub fn stream(&mut self, fd: i64) -> Result<Option<usize>, Errno> {
        let connection = self.socket(fd)?.connection;
        self.last = connection.or(self.last);
        Ok(connection)
    }

    fn config_of(&self, choices: &Choices) -> Config {
        let mut config = self.config;
        if let Some(bytes) = choices.receive_buffer {
            config.receive_space = bytes;
            config.receive_space_max = bytes;
        }
        if choices.max_segment > 0 {
            config.mss = config.mss.min(choices.max_segment);
        }
        config.algorithm = choices.algorithm;
        config.syn_retries = choices.syn_count.min(127) as u8;
        config
    }

    // Time

    /// When something happens by itself.
    pub fn deadline(&self) -> Time {
        let streams = self.streams.iter().filter(|stream| !stream.over);
        let streams = streams.map(|stream| stream.block.deadline());
        let entries = self
            .sockets
            .values()
            .filter_map(|socket| socket.listener.as_ref())
            .flat_map(|listener| &listener.entries)
            .map(|entry| entry.half.deadline());
        streams.chain(entries).min().unwrap_or(Time::NEVER)
    }

    /// What is due now.
    pub fn time_passes(&mut self) {
        let now = self.now;
        let retries = self.config.syn_ack_retries;
        let mut answers = Vec::new();
        for socket in self.sockets.values_mut() {
            let Some(listener) = &mut socket.listener else {
                continue;
            };
            for entry in &mut listener.entries {
                match entry.half.time_passes(retries, now) {
                    listen::Answer::Send(segment) => answers.push(segment),
                    listen::Answer::End => entry.dropped = true,
                    _ => {}
                }
            }
            listener.entries.retain(|entry| !entry.dropped);
        }
        for answer in answers {
            self.send(answer);
        }
        for index in 0..self.streams.len() {
            if !self.streams[index].over && self.streams[index].block.deadline() <= now {
                let events = self.streams[index].block.time_passes(now);
                self.happened(index, events);
                self.flush(index);
            }
        }
        self.records.retain(|record| !record.is_over(now));
    }

    fn send(&mut self, segment: Segment) {
        self.sent.push_back(Sent {
            at: self.now,
            segment,
            length: 0,
            ecn_capable: false,
        });
    }

    /// Send all that a connection has to send; then let it go, if it is over.
    pub fn flush(&mut self, index: usize) {
        let now = self.now;
        let stream = &mut self.streams[index];
        while let Some(transmit) = stream.block.transmit(now) {
            self.sent.push_back(Sent {
                at: now,
                segment: transmit.segment,
                length: transmit.length,
                ecn_capable: transmit.ecn_capable,
            });
        }
        match stream.block.state() {
            State::TimeWait if !stream.over => {
                stream.over = true;
                self.records.push(TimeWait::new(&stream.block, now));
            }
            State::Closed => stream.over = true,
            _ => {}
        }
    }

    fn happened(&mut self, index: usize, events: Events) {
        let stream = &mut self.streams[index];
        if events.has(Events::CONNECTED) {
            stream.connected = true;
        }
        if events.has(Events::PEER_CLOSED) {
            stream.end_of_peer = true;
        }
        if events.has(Events::URGENT) {
            stream.urgent_taken = false;
        }
        if events.has(Events::FAILED) {
            stream.error = Some(errno(stream.block.error()));
        }
    }

    // Segments

    pub fn segment_arrives(&mut self, segment: &Segment, text: u32, ce: bool) {
        let now = self.now;
        let (local, remote) = (segment.destination, segment.source);
        self.records.retain(|record| !record.is_over(now));
        let mine = |stream: &Stream| {
            !stream.over && stream.block.local_port == local && stream.block.remote_port == remote
        };
        if let Some(index) = self.streams.iter().position(mine) {
            let arrival = self.streams[index]
                .block
                .segment_arrives(segment, text, ce, now);
            return self.arrived(index, arrival);
        }
        let record = |record: &TimeWait| record.local_port == local && record.remote_port == remote;
        if let Some(index) = self.records.iter().position(record) {
            match self.records[index].segment_arrives(segment, text, now) {
                time_wait::Answer::Nothing => return,
                time_wait::Answer::Send(answer) => return self.send(answer),
                time_wait::Answer::End => {
                    self.records.remove(index);
                    return;
                }
                time_wait::Answer::Reuse(_) => {
                    self.records.remove(index);
                }
            }
        }
        let listener = self
            .sockets
            .iter()
            .find(|(_, socket)| socket.listener.is_some() && socket.port == Some(local))
            .map(|(fd, _)| *fd);
        match listener {
            Some(fd) => self.listener_gets(fd, segment, text, ce),
            None => {
                if let Some(reset) = segment.reset(text) {
                    self.send(reset);
                }
            }
        }
    }

    fn arrived(&mut self, index: usize, arrival: Arrival) {
        self.happened(index, arrival.events);
        if let Some(reset) = arrival.reset {
            self.send(reset);
        }
        let block = &mut self.streams[index].block;
        let wanted = block.receive_space_wanted();
        block.set_receive_space(wanted);
        self.flush(index);
    }

    fn listener_gets(&mut self, fd: i32, segment: &Segment, text: u32, ce: bool) {
        let now = self.now;
        let Some(socket) = self.sockets.get(&fd) else {
            return;
        };
        let choices = socket.choices.clone();
        let config = self.config_of(&choices);
        let ends = Host::ends(segment.destination, segment.source);
        let offset = self.secret.timestamp_offset(&ends);
        let iss = self.secret.initial_sequence(&ends, now);
        let (secret, cookies, most) = (self.secret, self.syn_cookies, self.max_syn_backlog);
        let Some(listener) = self
            .sockets
            .get_mut(&fd)
            .and_then(|socket| socket.listener.as_mut())
        else {
            return;
        };
        let full = listener.ready.len() > listener.backlog;
        let known = listener
            .entries
            .iter()
            .position(|entry| entry.half.remote_port == segment.source);
        if let Some(at) = known {
            let entry = &mut listener.entries[at].half;
            // Until so many SYN,ACKs were repeated.
            let defer = u32::from(entry.retries()) < choices.defer_accept;
            match entry.segment_arrives(segment, text, defer, now) {
                listen::Answer::Nothing => {}
                listen::Answer::Send(answer) => self.send(answer),
                listen::Answer::End => {
                    listener.entries.remove(at);
                }
                // Nobody accepts: the peer will send it again.
                listen::Answer::Complete if full => {}
                listen::Answer::Complete => {
                    let entry = listener.entries.remove(at).half;
                    self.complete(fd, &entry, &config, segment, text, ce);
                }
            }
            return;
        }
        match listen::listen(segment, text) {
            listen::Listened::Nothing => {}
            listen::Listened::Reset(reset) => self.send(reset),
            listen::Listened::Syn => {
                if full {
                    return;
                }
                let crowded = listener.entries.len() >= most.min(listener.backlog.max(1));
                if cookies == 2 || (cookies == 1 && crowded) {
                    let answer = listen::cookie(&secret, &config, &ends, segment, offset, now);
                    return self.send(answer);
                }
                if crowded {
                    return;
                }
                let half = HalfOpen::new(&config, segment, iss, offset, now);
                let answer = half.syn_ack(now);
                listener.entries.push(Entry {
                    half,
                    dropped: false,
                });
                self.send(answer);
            }
            listen::Listened::Acknowledgement => {
                let found = match cookies {
                    0 => None,
                    _ => listen::check_cookie(&secret, &config, &ends, segment, offset, now),
                };
                match found {
                    Some(_) if full => {}
                    Some(entry) => self.complete(fd, &entry, &config, segment, text, ce),
                    None => {
                        if let Some(reset) = segment.reset(text) {
                            self.send(reset);
                        }
                    }
                }
            }
        }
    }

    fn complete(
        &mut self,
        fd: i32,
        entry: &HalfOpen,
        config: &Config,
        segment: &Segment,
        text: u32,
        ce: bool,
    ) {
        let block = entry.connection(config, self.now);
        let choices = match self.sockets.get(&fd) {
            Some(socket) => socket.choices.clone(),
            None => return,
        };
        let index = self.begin(block, &choices);
        self.streams[index].connected = true;
        if let Some(listener) = self.sockets.get_mut(&fd).and_then(|s| s.listener.as_mut()) {
            listener.ready.push_back(index);
        }
        self.last = Some(index);
        let now = self.now;
        let arrival = self.streams[index]
            .block
            .segment_arrives(segment, text, ce, now);
        self.arrived(index, arrival);
    }

    fn begin(&mut self, mut block: Connection, choices: &Choices) -> usize {
        block.set_no_delay(choices.no_delay);
        block.set_cork(choices.cork);
        block.set_user_timeout(choices.user_timeout);
        block.set_syn_retries(choices.syn_count.min(127) as u8);
        block.set_keep_alive(
            choices.keep_alive,
            choices.keep_idle,
            choices.keep_interval,
            choices.keep_count.min(255) as u8,
            self.now,
        );
        self.streams.push(Stream {
            block,
            error: None,
            reads: true,
            writes: true,
            held: true,
            connected: false,
            urgent_taken: false,
            inline: choices.inline,
            over: false,
            end_of_peer: false,
        });
        self.streams.len() - 1
    }

    pub fn icmp_arrives(&mut self, code: &str, mtu: u16, quoted: Seq, ports: (u16, u16)) {
        let message = match code {
            "frag_needed" | "packet_too_big" => Icmp::TooBig {
                mss: mtu.saturating_sub(40),
            },
            "net_unreachable" => Icmp::Unreachable(Error::NetUnreachable),
            "proto_unreachable" => Icmp::Unreachable(Error::ProtocolUnreachable),
            "port_unreachable" => Icmp::Unreachable(Error::Refused),
            _ => Icmp::Unreachable(Error::HostUnreachable),
        };
        let now = self.now;
        let mine = |stream: &Stream| {
            !stream.over && (stream.block.local_port, stream.block.remote_port) == ports
        };
        if let Some(index) = self.streams.iter().position(mine) {
            let events = self.streams[index].block.icmp_arrives(message, quoted, now);
            self.happened(index, events);
            self.flush(index);
        }
    }

    // Calls

    pub fn bind(&mut self, fd: i64, port: Option<u16>) -> Result<i64, Errno> {
        if self.socket(fd)?.port.is_some() {
            return Err(Errno::EINVAL);
        }
        let port = match port {
            Some(0) => self.ephemeral(),
            Some(port) => port,
            None => 8080,
        };
        let (address, shared) = {
            let choices = &self.socket(fd)?.choices;
            (choices.reuse_address, choices.reuse_port)
        };
        for socket in self.sockets.values().filter(|s| s.port == Some(port)) {
            let other = &socket.choices;
            let by_address = address && other.reuse_address && socket.listener.is_none();
            if !(by_address || (shared && other.reuse_port)) {
                return Err(Errno::EADDRINUSE);
            }
        }
        let now = self.now;
        let used = self
            .records
            .iter()
            .any(|record| record.local_port == port && !record.is_over(now))
            || self
                .streams
                .iter()
                .any(|stream| !stream.over && !stream.held && stream.block.local_port == port);
        if used && !address {
            return Err(Errno::EADDRINUSE);
        }
        self.socket(fd)?.port = Some(port);
        Ok(0)
    }

    fn ephemeral(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }

    pub fn listen(&mut self, fd: i64, backlog: i64) -> Result<i64, Errno> {
        let port = match self.socket(fd)?.port {
            Some(port) => port,
            None => self.ephemeral(),
        };
        let socket = self.socket(fd)?;
        if socket.connection.is_some() {
            return Err(Errno::EINVAL);
        }
        socket.port = Some(port);
        let backlog = backlog.clamp(0, 4096) as usize;
        match &mut socket.listener {
            Some(listener) => listener.backlog = backlog,
            None => {
                socket.listener = Some(Listener {
                    backlog,
                    entries: Vec::new(),
                    ready: VecDeque::new(),
                });
            }
        }
        Ok(0)
    }

    pub fn accept(&mut self, fd: i64, nonblocking: bool) -> Outcome<i64> {
        let socket = self.socket(fd)?;
        let waits = !socket.nonblocking;
        let choices = socket.choices.clone();
        let port = socket.port;
        let Some(listener) = &mut socket.listener else {
            return Err(Errno::EINVAL.into());
        };
        let Some(index) = listener.ready.pop_front() else {
            return Err(if waits {
                Wait::Block
            } else {
                Errno::EAGAIN.into()
            });
        };
        self.last = Some(index);
        Ok(self.add(Socket {
            nonblocking,
            choices,
            port,
            listener: None,
            connection: Some(index),
        }))
    }

    pub fn connect(&mut self, fd: i64, port: u16, progress: &mut u64) -> Outcome<i64> {
        let waits = !self.socket(fd)?.nonblocking;
        if let Some(index) = self.stream(fd)? {
            let stream = &mut self.streams[index];
            if let Some(error) = stream.error.take() {
                self.socket(fd)?.connection = None;
                return Err(error.into());
            }
            return match (stream.connected, *progress > 0) {
                (true, true) => Ok(0),
                (true, false) => Err(Errno::EISCONN.into()),
                (false, _) if stream.over => Err(Errno::ECONNABORTED.into()),
                (false, _) if waits => Err(Wait::Block),
                (false, _) => Err(Errno::EALREADY.into()),
            };
        }
        if self.socket(fd)?.listener.is_some() {
            return Err(Errno::EISCONN.into());
        }
        let local = match self.socket(fd)?.port {
            Some(port) => port,
            None => self.ephemeral(),
        };
        let socket = self.socket(fd)?;
        socket.port = Some(local);
        let choices = socket.choices.clone();
        let config = self.config_of(&choices);
        let ends = Host::ends(local, port);
        let iss = self.secret.initial_sequence(&ends, self.now);
        let offset = self.secret.timestamp_offset(&ends);
        let block = Connection::connect(&config, local, port, iss, offset, self.now);
        let index = self.begin(block, &choices);
        self.socket(fd)?.connection = Some(index);
        self.last = Some(index);
        self.flush(index);
        *progress = 1;
        Err(match waits {
            true => Wait::Block,
            false => Errno::EINPROGRESS.into(),
        })
    }

    /// send: so many bytes. `progress`: how many went before it had to wait.
    pub fn write(
        &mut self,
        fd: i64,
        bytes: u64,
        (urgent, more, waits): (bool, bool, bool),
        progress: &mut u64,
    ) -> Outcome<i64> {
        let now_waits = waits && !self.socket(fd)?.nonblocking;
        let capacity = self.socket(fd)?.choices.send_buffer;
        let corked = self.socket(fd)?.choices.cork;
        let Some(index) = self.stream(fd)? else {
            return Err(Errno::EPIPE.into());
        };
        let stream = &mut self.streams[index];
        if let Some(error) = stream.error.take() {
            return Err(error.into());
        }
        if !stream.writes || (stream.connected && !stream.block.can_write()) {
            return Err(Errno::EPIPE.into());
        }
        if !stream.connected {
            return Err(match (stream.over, now_waits) {
                (true, _) => Errno::EPIPE.into(),
                (_, true) => Wait::Block,
                _ => Errno::EAGAIN.into(),
            });
        }
        let room = capacity.saturating_sub(stream.block.unacknowledged());
        let some = (bytes - *progress).min(u64::from(room));
        if some > 0 {
            stream.block.set_cork(corked || more);
            stream.block.write(some as u32);
            *progress += some;
            if urgent && *progress == bytes {
                stream.block.write_urgent();
            }
            self.flush(index);
        }
        match *progress == bytes {
            true => Ok(bytes as i64),
            false if now_waits => Err(Wait::Block),
            false if *progress > 0 => Ok(*progress as i64),
            false => Err(Errno::EAGAIN.into()),
        }
    }

    /// recv: at most so many bytes.
    pub fn read(
        &mut self,
        fd: i64,
        bytes: u64,
        (peek, all, waits): (bool, bool, bool),
    ) -> Outcome<i64> {
        let socket = self.socket(fd)?;
        let waits = waits && !socket.nonblocking;
        let low = u64::from(socket.choices.receive_low);
        let Some(index) = self.stream(fd)? else {
            return Err(Errno::ENOTCONN.into());
        };
        let now = self.now;
        let stream = &mut self.streams[index];
        let mut there = u64::from(stream.block.unread());
        let mut want = if all { bytes } else { bytes.min(low) };
        // The urgent byte is not part of the stream; what is before it ends there.
        if !stream.inline {
            match stream.block.urgent_offset() {
                Some(0) if there > 0 => {
                    stream.block.read(1, now);
                    stream.urgent_taken = true;
                    there -= 1;
                }
                Some(offset) if offset > 0 && u64::from(offset) < there => {
                    there = u64::from(offset);
                    want = 1;
                }
                _ => {}
            }
        }
        let ended = stream.end_of_peer || !stream.reads || stream.over;
        if there == 0 && bytes > 0 {
            if let Some(error) = stream.error.take() {
                return Err(error.into());
            }
            if !stream.connected {
                return Err(if stream.over {
                    Errno::ENOTCONN.into()
                } else if waits {
                    Wait::Block
                } else {
                    Errno::EAGAIN.into()
                });
            }
            if ended {
                return Ok(0);
            }
        }
        if there < want && waits && !ended && bytes > 0 {
            return Err(Wait::Block);
        }
        if there == 0 && bytes > 0 {
            return Err(Errno::EAGAIN.into());
        }
        let taken = there.min(bytes);
        if !peek {
            stream.block.read(taken as u32, now);
            let wanted = stream.block.receive_space_wanted();
            stream.block.set_receive_space(wanted);
            self.flush(index);
        }
        Ok(taken as i64)
    }

    /// recv with MSG_OOB
    pub fn read_urgent(&mut self, fd: i64) -> Outcome<i64> {
        let Some(index) = self.stream(fd)? else {
            return Err(Errno::ENOTCONN.into());
        };
        let stream = &mut self.streams[index];
        if stream.inline || stream.urgent_taken {
            return Err(Errno::EINVAL.into());
        }
        match stream.block.urgent_offset() {
            None => Err(Errno::EINVAL.into()),
            Some(offset) if offset < stream.block.unread() => {
                stream.urgent_taken = true;
                Ok(1)
            }
            Some(_) => Err(Errno::EAGAIN.into()),
        }
    }

    pub fn shutdown(&mut self, fd: i64, how: i64) -> Result<i64, Errno> {
        if !(0..=2).contains(&how) {
            return Err(Errno::EINVAL);
        }
        let Some(index) = self.stream(fd)? else {
            return Err(Errno::ENOTCONN);
        };
        let stream = &mut self.streams[index];
        if stream.over {
            return Err(Errno::ENOTCONN);
        }
        if how != 1 {
            stream.reads = false;
        }
        if how != 0 {
            stream.writes = false;
            let events = stream.block.shutdown();
            self.happened(index, events);
            self.flush(index);
        }
        Ok(0)
    }

    pub fn close(&mut self, fd: i64, progress: &mut u64) -> Outcome<i64> {
        let now = self.now;
        let socket = self.socket(fd)?;
        let (linger, linger2) = (socket.choices.linger, socket.choices.linger2);
        let waits = !socket.nonblocking;
        let connection = socket.connection;
        if let Some(listener) = socket.listener.take() {
            for index in listener.ready {
                self.streams[index].held = false;
                let events = self.streams[index].block.abort();
                self.happened(index, events);
                self.flush(index);
            }
        }
        let Some(index) = connection else {
            self.sockets.remove(&(fd as i32));
            return Ok(0);
        };
        self.last = Some(index);
        if *progress == 0 {
            let block = &mut self.streams[index].block;
            if linger2 >= 0 {
                block.set_fin_wait(linger2 as u32 * 1000);
            } else {
                block.set_fin_wait(0);
            }
            let events = match linger {
                Some(0) => block.abort(),
                _ => block.close(now),
            };
            self.happened(index, events);
            self.streams[index].held = false;
            self.flush(index);
            *progress = now.0;
        }
        if let (Some(seconds), true) = (linger.filter(|seconds| *seconds > 0), waits) {
            let state = self.streams[index].block.state();
            let done = !matches!(state, State::FinWait1 | State::Closing | State::LastAck);
            if !done && now.0 - *progress < u64::from(seconds) * 1_000_000 {
                return Err(Wait::Block);
            }
        }
        self.sockets.remove(&(fd as i32));
        Ok(0)
    }

    /// When a call that waits must look again, though nothing arrived.
    pub fn linger_end(&self, fd: i64, progress: u64) -> Option<Time> {
        let socket = self.sockets.get(&i32::try_from(fd).ok()?)?;
        let seconds = socket.choices.linger.filter(|seconds| *seconds > 0)?;
        Some(Time(progress + u64::from(seconds) * 1_000_000))
    }

    /// POLLIN 1, POLLPRI 2, POLLOUT 4, POLLERR 8, POLLHUP 16, POLLRDHUP 0x2000
    pub fn poll(&mut self, fd: i64) -> Result<i64, Errno> {
        let socket = self.socket(fd)?;
        if let Some(listener) = &socket.listener {
            return Ok(i64::from(!listener.ready.is_empty()));
        }
        let capacity = socket.choices.send_buffer;
        let low = socket.choices.receive_low;
        let Some(index) = self.stream(fd)? else {
            return Ok(4 | 16);
        };
        let stream = &self.streams[index];
        let mut events = 0;
        let ended = stream.end_of_peer || !stream.reads || stream.over;
        if stream.error.is_some() {
            events |= 8;
        }
        if (ended && !stream.writes) || stream.over {
            events |= 16;
        }
        if ended {
            events |= 1 | 0x2000;
        }
        if !stream.connected && !stream.over {
            return Ok(events);
        }
        if stream.block.unread() >= low {
            events |= 1;
        }
        let used = stream.block.unacknowledged();
        if !stream.writes || stream.over || used < capacity - capacity / 3 {
            events |= 4;
        }
        if stream.block.urgent_offset().is_some() && !stream.urgent_taken {
            events |= 2;
        }
        Ok(events)
    }

    pub fn info(&self) -> Option<Info> {
        Some(self.streams.get(self.last?)?.block.info())
    }

    /// SIOCINQ
    pub fn unread(&mut self, fd: i64) -> Result<i64, Errno> {
        if self.socket(fd)?.listener.is_some() {
            return Err(Errno::EINVAL);
        }
        let Some(index) = self.stream(fd)? else {
            return Ok(0);
        };
        let stream = &self.streams[index];
        let there = stream.block.unread();
        Ok(i64::from(match stream.block.urgent_offset() {
            Some(offset) if !stream.inline && offset > 0 && offset < there => offset,
            _ => there,
        }))
    }

    /// SIOCOUTQ and SIOCOUTQNSD
    pub fn unsent(&mut self, fd: i64, never: bool) -> Result<i64, Errno> {
        if self.socket(fd)?.listener.is_some() {
            return Err(Errno::EINVAL);
        }
        let Some(index) = self.stream(fd)? else {
            return Ok(0);
        };
        let block = &self.streams[index].block;
        Ok(i64::from(match never {
            true => block.not_sent(),
            false => block.unacknowledged(),
        }))
    }

    /// SIOCATMARK
    pub fn at_mark(&mut self, fd: i64) -> Result<i64, Errno> {
        let Some(index) = self.stream(fd)? else {
            return Ok(0);
        };
        let mark = self.streams[index].block.urgent_offset();
        Ok(i64::from(mark == Some(0)))
    }

    /// SO_ERROR: told once.
    pub fn take_error(&mut self, fd: i64) -> Result<i64, Errno> {
        let Some(index) = self.stream(fd)? else {
            return Ok(0);
        };
        let stream = &mut self.streams[index];
        let error = match stream.error.take() {
            Some(error) => Some(error),
            None => match stream.block.take_soft_error() {
                Error::None => None,
                error => Some(errno(error)),
            },
        };
        Ok(error.map_or(0, |error| error.0))
    }

    /// A choice changed: the connection learns of it.
    pub fn choose(&mut self, fd: i64, name: &str) -> Result<(), Errno> {
        let choices = self.socket(fd)?.choices.clone();
        let Some(index) = self.stream(fd)? else {
            return Ok(());
        };
        let now = self.now;
        let stream = &mut self.streams[index];
        let block = &mut stream.block;
        match name {
            "TCP_NODELAY" => block.set_no_delay(choices.no_delay),
            "TCP_CORK" => block.set_cork(choices.cork),
            "SO_KEEPALIVE" | "TCP_KEEPIDLE" | "TCP_KEEPINTVL" | "TCP_KEEPCNT" => block
                .set_keep_alive(
                    choices.keep_alive,
                    choices.keep_idle,
                    choices.keep_interval,
                    choices.keep_count.min(255) as u8,
                    now,
                ),
            "TCP_USER_TIMEOUT" => block.set_user_timeout(choices.user_timeout),
            "TCP_CONGESTION" => block.set_algorithm(choices.algorithm),
            "TCP_QUICKACK" => {
                let on = choices.others.get(name).is_some_and(|value| *value != 0);
                block.set_quick_ack(on);
            }
            "SO_RCVBUF" => {
                if let Some(bytes) = choices.receive_buffer {
                    block.set_receive_space(bytes);
                }
            }
            "SO_OOBINLINE" => stream.inline = choices.inline,
            _ => {}
        }
        self.flush(index);
        Ok(())
    }

    /// Ports of the connection that tries to connect, or of the listener with a peer.
    pub fn listening_port(&self) -> Option<u16> {
        self.sockets
            .values()
            .find(|socket| socket.listener.is_some())
            .and_then(|socket| socket.port)
    }
}

fn errno(error: Error) -> Errno {
    match error {
        Error::None => Errno::EIO,
        Error::Reset => Errno::ECONNRESET,
        Error::Refused => Errno::ECONNREFUSED,
        Error::TimedOut => Errno::ETIMEDOUT,
        Error::HostUnreachable | Error::Prohibited => Errno::EHOSTUNREACH,
        Error::NetUnreachable => Errno::ENETUNREACH,
        Error::ProtocolUnreachable => Errno::ENOPROTOOPT,
        Error::BrokenPipe => Errno::EPIPE,
    }
}

/// Flags of a segment in the script's letters.
pub fn letters(flags: Flags) -> String {
    let names = [
        (Flags::FIN, 'F'),
        (Flags::SYN, 'S'),
        (Flags::RST, 'R'),
        (Flags::PSH, 'P'),
        (Flags::ACK, '.'),
        (Flags::URG, 'U'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
    ];
    names
        .iter()
        .filter(|(flag, _)| flags.has(*flag))
        .map(|(_, letter)| *letter)
        .collect()
}
