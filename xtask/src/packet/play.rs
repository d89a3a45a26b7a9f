//! A script, played: the clock of the host moves from one event to the next, and never waits.

use super::assertion;
use super::calls::Running;
use super::host::{letters, Host, Sent, Wait};
use super::names;
use super::script::{Action, Call, Ecn, Event, Failure, Packet, Script, TcpOption, When};
use cairn_tcp::connection::Stage;
use cairn_tcp::{Flags, Options, Segment, Seq, State, Time};

/// How late or early a packet or a call may be.
const TOLERANCE: i64 = 4_000;
/// The peer's port when the host listens.
const PEER_PORT: u16 = 37_000;
/// How long a call that has no end in the script may wait.
const PATIENCE: u64 = 7_200_000_000;

struct Player {
    host: Host,
    /// The host's time when the script began.
    start: u64,
    tolerance: i64,
    /// Ports of the connection that the script is about.
    ports: (u16, u16),
    /// What a script calls 0 is this number on the wire.
    local_isn: Option<u32>,
    remote_isn: u32,
    /// Wire minus script.
    stamp_offset: Option<u32>,
    /// A call that has not returned, its event, and when it must.
    waiting: Option<(Running, Event, i64)>,
}

/// Play a script. `seed` moves sequence numbers and timestamps.
pub fn play(script: &Script, seed: u64) -> Result<(), Failure> {
    let mut player = Player {
        host: Host::new(seed),
        start: 0,
        tolerance: TOLERANCE,
        ports: (8080, PEER_PORT),
        local_isn: None,
        // So near to the end of the circle that what follows goes over it.
        remote_isn: (seed as u32 % 3000).wrapping_neg(),
        stamp_offset: None,
        waiting: None,
    };
    player.start = player.host.now.0;
    for (name, value) in &script.options {
        player.option(name, value).map_err(|what| (1, what))?;
    }
    let mut before = 0i64;
    for event in &script.events {
        before = player
            .event(event, before)
            .map_err(|what| (event.line, what))?;
    }
    player.waiting_must_end()
}

impl Player {
    fn script_time(&self) -> i64 {
        (self.host.now.0 - self.start) as i64
    }

    fn option(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "tolerance_usecs" => {
                self.tolerance = value
                    .parse()
                    .map_err(|_| format!("--{name} wants a number, not {value:?}"))?;
            }
            "mss" | "mtu" => {
                let size: u16 = value
                    .parse()
                    .map_err(|_| format!("--{name} wants a number, not {value:?}"))?;
                self.host.config.mss = size - if name == "mtu" { 40 } else { 0 };
            }
            // Of the tool's own surroundings: addresses, speed, what is checked with a real clock.
            "ip_version" | "local_ip" | "remote_ip" | "gateway_ip" | "netmask_ip" | "bind_port"
            | "connect_port" | "speed" | "tcp_ts_tick_usecs" | "non_fatal" | "send_omit_free"
            | "verbose" | "init_scripts" | "wire_client" | "wire_server" | "define" => {}
            _ => return Err(format!("the runner has no option --{name}")),
        }
        Ok(())
    }

    /// One event. The time that the next one counts from.
    fn event(&mut self, event: &Event, before: i64) -> Result<i64, String> {
        let (first, last) = match event.when {
            When::At(time) => (time, time),
            When::After(time) => (before + time, before + time),
            When::Between(first, last) => (first, last),
            When::BetweenAfter(first, last) => (before + first, before + last),
            When::Whenever => (self.script_time().max(before), i64::MAX / 2),
        };
        if let Action::Expect(packet) = &event.action {
            let sent = self.next_sent(first, last)?;
            let at = (sent.at.0 - self.start) as i64;
            self.compare(packet, &sent)?;
            if at < first - self.tolerance || at > last.saturating_add(self.tolerance) {
                return Err(format!(
                    "expected at {}, saw it at {}: {}",
                    seconds(first),
                    seconds(at),
                    self.show(&sent)
                ));
            }
            return Ok(match event.when {
                When::At(time) => time,
                When::After(_) => first,
                _ => at,
            });
        }
        self.run_until(first)?;
        match &event.action {
            Action::Expect(_) => {}
            Action::Inject(packet) => self.inject(packet)?,
            Action::Icmp { code, mtu, quoted } => {
                let quoted = Seq(quoted.wrapping_add(self.local_isn.unwrap_or(0)));
                self.host.icmp_arrives(code, *mtu, quoted, self.ports);
                self.settle()?;
            }
            Action::Call(call) => self.call(call, event, before)?,
            Action::Assert(text) => self.assert(text)?,
            Action::Shell(text) => self.shell(text),
        }
        Ok(match event.when {
            When::Whenever => self.script_time(),
            _ => first,
        })
    }

    /// What a script sets with sysctl; anything else that it calls is not done.
    fn shell(&mut self, text: &str) {
        for word in text.split_whitespace() {
            let Some((name, value)) = word.split_once('=') else {
                continue;
            };
            let name = name.rsplit(['.', '/']).next().unwrap_or(name);
            let value: i64 = value.trim_matches('"').parse().unwrap_or(0);
            let config = &mut self.host.config;
            match name {
                "tcp_sack" => config.sack = value != 0,
                "tcp_timestamps" => config.timestamps = value != 0,
                "tcp_window_scaling" => config.window_scaling = value != 0,
                "tcp_syncookies" => self.host.syn_cookies = value,
                "tcp_max_syn_backlog" => self.host.max_syn_backlog = value.max(0) as usize,
                "tcp_syn_retries" => config.syn_retries = value as u8,
                "tcp_synack_retries" => config.syn_ack_retries = value as u8,
                "tcp_mtu_probing" => config.mtu_probing = value != 0,
                "tcp_ecn" => {
                    config.ecn = match value {
                        0 => cairn_tcp::Ecn::Off,
                        1 => cairn_tcp::Ecn::Ask,
                        _ => cairn_tcp::Ecn::Accept,
                    }
                }
                _ => {}
            }
        }
    }

    // Time

    /// Let all happen that happens by itself up to this time.
    fn run_until(&mut self, time: i64) -> Result<(), String> {
        let end = self.start.saturating_add_signed(time);
        while self.step(end)? {}
        self.host.now = Time(self.host.now.0.max(end));
        Ok(())
    }

    /// The next thing that happens by itself until then. False: there is none.
    fn step(&mut self, end: u64) -> Result<bool, String> {
        let retry = self
            .waiting
            .as_ref()
            .and_then(|(running, _, _)| running.deadline(&self.host));
        let next = self.host.deadline().0.min(retry.unwrap_or(u64::MAX));
        if next > end {
            return Ok(false);
        }
        self.host.now = Time(self.host.now.0.max(next));
        self.host.time_passes();
        self.settle()?;
        Ok(true)
    }

    /// Something happened: the call that waits may be able to go on.
    fn settle(&mut self) -> Result<(), String> {
        let Some((mut running, event, until)) = self.waiting.take() else {
            return Ok(());
        };
        match running.attempt(&mut self.host)? {
            Err(Wait::Block) => {
                self.waiting = Some((running, event, until));
                Ok(())
            }
            given => {
                let at = self.script_time();
                if (at - until).abs() > self.tolerance {
                    return Err(format!(
                        "{} of line {} returned at {}, expected at {}",
                        running.call.name,
                        event.line,
                        seconds(at),
                        seconds(until)
                    ));
                }
                judge(&running.call, given)
                    .map_err(|what| format!("{what} (the call of line {})", event.line))
            }
        }
    }

    /// The script is over: a call that still waits has until its end.
    fn waiting_must_end(&mut self) -> Result<(), Failure> {
        let Some((_, event, until)) = &self.waiting else {
            return Ok(());
        };
        let (line, until) = (event.line, *until);
        self.run_until(until + self.tolerance)
            .map_err(|what| (line, what))?;
        match self.waiting {
            Some(_) => Err((line, "the call did not return".into())),
            None => Ok(()),
        }
    }

    // Calls

    fn call(&mut self, call: &Call, event: &Event, before: i64) -> Result<(), String> {
        let mut running = Running {
            call: call.clone(),
            progress: 0,
        };
        let begun = self.host.now.0;
        let given = running.attempt(&mut self.host)?;
        if let Some(until) = event.until {
            let until = match until {
                When::At(time) => time,
                When::After(time) => before + time,
                _ => return Err("a call ends at one time".into()),
            };
            return match given {
                Err(Wait::Block) if self.waiting.is_some() => {
                    Err("two calls cannot wait at once".into())
                }
                Err(Wait::Block) => {
                    self.waiting = Some((running, event.clone(), until));
                    Ok(())
                }
                given => {
                    judge(call, given)?;
                    match (self.script_time() - until).abs() > self.tolerance {
                        true => Err(format!(
                            "expected to wait until {}, it did not",
                            seconds(until)
                        )),
                        false => Ok(()),
                    }
                }
            };
        }
        let mut given = given;
        // Without an end the script waits here.
        while let Err(Wait::Block) = given {
            let retry = running.deadline(&self.host);
            let next = self.host.deadline().0.min(retry.unwrap_or(u64::MAX));
            if next > begun + PATIENCE {
                return Err(format!("{} waits for ever", call.name));
            }
            self.host.now = Time(self.host.now.0.max(next));
            self.host.time_passes();
            given = running.attempt(&mut self.host)?;
        }
        let late = self.host.now.0 - begun;
        judge(call, given)?;
        match late as i64 > self.tolerance {
            true => Err(format!("{} waited for {late} µs", call.name)),
            false => Ok(()),
        }
    }

    fn assert(&mut self, text: &str) -> Result<(), String> {
        let Some(info) = self.host.info() else {
            return Err("there is no connection to look at".into());
        };
        let lookup = |name: &str| -> Option<i64> {
            let micros = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
            Some(match name {
                "tcpi_state" => match info.state {
                    State::Established => 1,
                    State::SynSent => 2,
                    State::SynReceived => 3,
                    State::FinWait1 => 4,
                    State::FinWait2 => 5,
                    State::TimeWait => 6,
                    State::Closed => 7,
                    State::CloseWait => 8,
                    State::LastAck => 9,
                    State::Closing => 11,
                },
                "tcpi_ca_state" => match info.stage {
                    Stage::Open if info.sacked > 0 => 1,
                    Stage::Open => 0,
                    Stage::Reduced => 2,
                    Stage::Recovery => 3,
                    Stage::Loss => 4,
                },
                "tcpi_retransmits" => info.retransmits.into(),
                "tcpi_probes" => info.probes.into(),
                "tcpi_backoff" => info.backoff.into(),
                "tcpi_options" => {
                    i64::from(info.timestamps)
                        | i64::from(info.sack) << 1
                        | i64::from(info.scaling) << 2
                        | i64::from(info.ecn) << 3
                }
                "tcpi_snd_wscale" => info.snd_shift.into(),
                "tcpi_rcv_wscale" => info.rcv_shift.into(),
                "tcpi_rto" => micros(info.rto),
                "tcpi_snd_mss" => info.snd_mss.into(),
                "tcpi_rcv_mss" => info.rcv_mss.into(),
                "tcpi_unacked" => info.out.into(),
                "tcpi_sacked" => info.sacked.into(),
                "tcpi_lost" => info.lost.into(),
                "tcpi_retrans" => info.retrans.into(),
                "tcpi_pmtu" => i64::from(info.path_mss) + 40,
                "tcpi_rcv_ssthresh" => info.rcv_threshold.into(),
                "tcpi_rtt" => micros(info.rtt),
                "tcpi_rttvar" => micros(info.rtt_variation),
                "tcpi_min_rtt" => micros(info.least_rtt),
                "tcpi_snd_ssthresh" => info.snd_threshold.into(),
                "tcpi_snd_cwnd" => info.snd_window.into(),
                "tcpi_advmss" => info.announced_mss.into(),
                "tcpi_reord_seen" => info.reordered.into(),
                "tcpi_rcv_space" => info.rcv_space.into(),
                "tcpi_total_retrans" => info.total_retransmits.into(),
                "tcpi_bytes_acked" => info.bytes_acked as i64,
                "tcpi_bytes_received" => info.bytes_received as i64,
                "tcpi_segs_out" => info.segments_out.into(),
                "tcpi_segs_in" => info.segments_in.into(),
                "tcpi_notsent_bytes" => info.not_sent.into(),
                "tcpi_delivered" => info.delivered.into(),
                "tcpi_snd_wnd" => info.peer_window.into(),
                _ => return names::number(name),
            })
        };
        assertion::check(text, &lookup)
    }

    // Packets

    /// What the peer sends.
    fn inject(&mut self, packet: &Packet) -> Result<(), String> {
        let flags = Flags(packet.flags);
        let begins = flags.has(Flags::SYN) && !flags.has(Flags::ACK);
        let listening = self.host.listening_port();
        let connecting = self
            .host
            .info()
            .is_some_and(|info| info.state == State::SynSent);
        if let (true, Some(port), false) = (begins, listening, connecting) {
            self.ports = (port, PEER_PORT);
        }
        let mut segment = Segment {
            source: self.ports.1,
            destination: self.ports.0,
            seq: Seq(packet.seq.wrapping_add(self.remote_isn)),
            ack: Seq(0),
            flags,
            window: packet.window.unwrap_or(0),
            urgent: packet.urgent.unwrap_or(0),
            options: Options::default(),
        };
        let local = self.local_isn.unwrap_or(0);
        if let Some(ack) = packet.ack {
            segment.ack = Seq(ack.wrapping_add(local));
        }
        for option in packet.options.as_deref().unwrap_or_default() {
            let options = &mut segment.options;
            match option {
                TcpOption::Mss(mss) => options.mss = Some(*mss),
                TcpOption::Wscale(shift) => options.window_scale = Some(*shift),
                TcpOption::SackOk => options.sack_permitted = true,
                TcpOption::Timestamps(value, echo) => {
                    let echo = match packet.ack {
                        Some(_) => echo.wrapping_add(self.stamp_offset.unwrap_or(0)),
                        None => *echo,
                    };
                    options.timestamps = Some((*value, echo));
                }
                TcpOption::Sack(blocks) => {
                    for (start, end) in blocks {
                        let block = (Seq(start.wrapping_add(local)), Seq(end.wrapping_add(local)));
                        options.add_sack(block);
                    }
                }
                TcpOption::Eol | TcpOption::Nop | TcpOption::FastOpen => {}
            }
        }
        // As bytes, so that the format is tried as well.
        let mut header = [0; cairn_tcp::segment::HEADER_MAX];
        let parsed = segment
            .write(&mut header)
            .and_then(|length| Segment::parse(&header[..length]).ok());
        match parsed {
            Some((parsed, _)) if parsed == segment => {}
            _ => return Err("the options do not fit into a header".into()),
        }
        self.host
            .segment_arrives(&segment, packet.length, packet.ecn == Ecn::Ce);
        self.settle()
    }

    /// What the host sends next, if it does so in time.
    fn next_sent(&mut self, first: i64, last: i64) -> Result<Sent, String> {
        let end = self
            .start
            .saturating_add_signed(last.saturating_add(self.tolerance));
        loop {
            if let Some(sent) = self.host.sent.pop_front() {
                return Ok(sent);
            }
            if !self.step(end)? {
                return Err(format!(
                    "expected a packet at {}, the host sent none",
                    seconds(first)
                ));
            }
        }
    }

    fn compare(&mut self, packet: &Packet, sent: &Sent) -> Result<(), String> {
        let segment = &sent.segment;
        if packet.flags & Flags::SYN.0 != 0 && segment.flags.has(Flags::SYN) {
            // Every SYN begins anew: what the script calls `seq` is its number.
            self.local_isn = Some(segment.seq.0.wrapping_sub(packet.seq));
            self.ports = (segment.source, segment.destination);
            if packet.ack.is_none() {
                self.stamp_offset = None;
            }
        }
        let expected = packet.options.as_deref().unwrap_or_default();
        let of_script = expected.iter().find_map(|option| match option {
            TcpOption::Timestamps(value, _) => Some(*value),
            _ => None,
        });
        if let (Some(value), Some((seen, _))) = (of_script, segment.options.timestamps) {
            if self.stamp_offset.is_none() || segment.flags.has(Flags::SYN) {
                self.stamp_offset = Some(seen.wrapping_sub(value));
            }
        }
        let seen = self.show(sent);
        let wrong =
            |what: &str, expected: String| Err(format!("{what}: expected {expected}, saw {seen}"));
        if segment.flags.0 != packet.flags {
            return wrong("flags", letters(Flags(packet.flags)));
        }
        let local = self.local_isn.unwrap_or(0);
        let seq = segment.seq.0.wrapping_sub(local);
        // A reset that answers what belongs to nobody takes its number from it.
        if (seq, sent.length) != (packet.seq, packet.length) {
            let end = packet.seq.wrapping_add(packet.length);
            return wrong(
                "numbers",
                format!("{}:{end}({})", packet.seq, packet.length),
            );
        }
        if segment.flags.has(Flags::ACK) {
            let ack = segment.ack.0.wrapping_sub(self.remote_isn);
            if packet.ack != Some(ack) {
                let expected = packet.ack.map_or("no".into(), |ack| ack.to_string());
                return wrong("ack", expected);
            }
        }
        if packet.window.is_some_and(|window| window != segment.window) {
            return wrong("win", packet.window.unwrap_or(0).to_string());
        }
        if packet.urgent.is_some_and(|urgent| urgent != segment.urgent) {
            return wrong("urg", packet.urgent.unwrap_or(0).to_string());
        }
        match (packet.ecn, sent.ecn_capable) {
            (Ecn::Not, true) => return wrong("ECN", "noecn".into()),
            (Ecn::Ect0 | Ecn::Ect01, false) => return wrong("ECN", "ect0".into()),
            (Ecn::Ect1 | Ecn::Ce, _) => return wrong("ECN", format!("{:?}", packet.ecn)),
            _ => {}
        }
        let Some(expected) = &packet.options else {
            return Ok(());
        };
        let options = self.options(&segment.options);
        let tick = |a: u32, b: u32| {
            (a.wrapping_sub(b) as i32).unsigned_abs() <= (self.tolerance / 1000).max(1) as u32
        };
        let same = expected.len() == options.len()
            && expected
                .iter()
                .zip(&options)
                .all(|(expected, seen)| match (expected, seen) {
                    (TcpOption::Timestamps(a, b), TcpOption::Timestamps(c, d)) => {
                        tick(*a, *c) && b == d
                    }
                    (a, b) => a == b,
                });
        match same {
            true => Ok(()),
            false => {
                let list: Vec<String> = expected.iter().map(TcpOption::to_string).collect();
                wrong("options", format!("<{}>", list.join(",")))
            }
        }
    }

    /// Options as the header has them, in the script's numbers.
    fn options(&self, options: &Options) -> Vec<TcpOption> {
        let mut list = Vec::new();
        if let Some(mss) = options.mss {
            list.push(TcpOption::Mss(mss));
        }
        if let Some((value, echo)) = options.timestamps {
            match options.sack_permitted {
                true => list.push(TcpOption::SackOk),
                false => list.extend([TcpOption::Nop, TcpOption::Nop]),
            }
            let value = value.wrapping_sub(self.stamp_offset.unwrap_or(0));
            list.push(TcpOption::Timestamps(value, echo));
        } else if options.sack_permitted {
            list.extend([TcpOption::Nop, TcpOption::Nop, TcpOption::SackOk]);
        }
        if let Some(shift) = options.window_scale {
            list.extend([TcpOption::Nop, TcpOption::Wscale(shift)]);
        }
        if !options.sack().is_empty() {
            let remote = self.remote_isn;
            let blocks = options
                .sack()
                .iter()
                .map(|(start, end)| (start.0.wrapping_sub(remote), end.0.wrapping_sub(remote)));
            list.extend([TcpOption::Nop, TcpOption::Nop]);
            list.push(TcpOption::Sack(blocks.collect()));
        }
        list
    }

    /// A segment in the script's language.
    fn show(&self, sent: &Sent) -> String {
        let segment = &sent.segment;
        let seq = segment.seq.0.wrapping_sub(self.local_isn.unwrap_or(0));
        let mut text = format!(
            "{} {seq}:{}({})",
            letters(segment.flags),
            seq.wrapping_add(sent.length),
            sent.length
        );
        if segment.flags.has(Flags::ACK) {
            let ack = segment.ack.0.wrapping_sub(self.remote_isn);
            text.push_str(&format!(" ack {ack}"));
        }
        text.push_str(&format!(" win {}", segment.window));
        if segment.flags.has(Flags::URG) {
            text.push_str(&format!(" urg {}", segment.urgent));
        }
        let options = self.options(&segment.options);
        if !options.is_empty() {
            let list: Vec<String> = options.iter().map(TcpOption::to_string).collect();
            text.push_str(&format!(" <{}>", list.join(",")));
        }
        let at = (sent.at.0 - self.start) as i64;
        format!("{text} at {}", seconds(at))
    }
}

fn seconds(micros: i64) -> String {
    format!(
        "{}.{:06} s",
        micros / 1_000_000,
        micros.rem_euclid(1_000_000)
    )
}

/// Is it what the script expects?
fn judge(call: &Call, given: super::calls::Given) -> Result<(), String> {
    let (value, errno, differences) = match given {
        Ok((value, differences)) => (value, None, differences),
        Err(Wait::Error(errno)) => (-1, Some(errno.name()), Vec::new()),
        Err(Wait::Block) => return Err(format!("{} waits", call.name)),
    };
    let result = match &call.result {
        super::script::Value::Anything => value,
        expected => expected.as_number()?,
    };
    let told = |value: i64, errno: Option<&str>| match errno {
        Some(errno) => format!("{value} {errno}"),
        None => value.to_string(),
    };
    if value != result || (result == -1 && errno != call.errno.as_deref()) {
        return Err(format!(
            "{}: expected {}, saw {}",
            call.name,
            told(result, call.errno.as_deref()),
            told(value, errno)
        ));
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(format!("{}: {}", call.name, differences.join("; "))),
    }
}
