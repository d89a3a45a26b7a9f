//! The system calls of a script: arguments into what [`Host`] does, and what it says beside the script's expectation.

use super::host::{Choices, Host, Outcome, Socket, Wait};
use super::names::{number, Errno};
use super::script::{Call, Value};
use cairn_tcp::congestion::Algorithm;

/// What a call gave: its result, and differences in what it wrote to memory.
pub type Given = Outcome<(i64, Vec<String>)>;

impl Value {
    pub fn as_number(&self) -> Result<i64, String> {
        match self {
            Value::Number(number) => Ok(*number),
            Value::Name(name) => number(name).ok_or(format!("what is {name}?")),
            Value::Apply(name, arguments) if name == "htons" || name == "htonl" => arguments
                .first()
                .ok_or(format!("{name} of nothing"))?
                .as_number(),
            Value::List(values) if values.len() == 1 => values[0].as_number(),
            _ => Err(format!("expected a number, saw {self:?}")),
        }
    }

    fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Fields(fields) => fields
                .iter()
                .find(|(field, _)| field == name)
                .map(|(_, value)| value),
            Value::List(values) if values.len() == 1 => values[0].field(name),
            _ => None,
        }
    }

    /// Bytes of an iovec, or of a list of them.
    fn bytes(&self) -> Result<u64, String> {
        match self {
            Value::List(values) => values.iter().map(Value::bytes).sum(),
            Value::Fields(fields) => match fields.last() {
                Some((_, value)) => Ok(value.as_number()?.max(0) as u64),
                None => Ok(0),
            },
            _ => Err(format!("expected an iovec, saw {self:?}")),
        }
    }

    fn port(&self) -> Result<Option<u16>, String> {
        match self.field("sin_port").or(self.field("sin6_port")) {
            Some(port) => Ok(Some(port.as_number()? as u16)),
            None => Ok(None),
        }
    }
}

/// One call that goes on, or is about to begin.
pub struct Running {
    pub call: Call,
    pub progress: u64,
}

impl Running {
    fn argument(&self, index: usize) -> Result<&Value, String> {
        self.call
            .arguments
            .get(index)
            .ok_or(format!("{} wants more arguments", self.call.name))
    }

    fn number(&self, index: usize) -> Result<i64, String> {
        self.argument(index)?.as_number()
    }

    /// Try it. The outer error: the script cannot be understood.
    pub fn attempt(&mut self, host: &mut Host) -> Result<Given, String> {
        let name = self.call.name.clone();
        let plain = |outcome: Result<i64, Errno>| {
            Ok(outcome
                .map(|value| (value, Vec::new()))
                .map_err(Wait::Error))
        };
        let waiting = |outcome: Outcome<i64>| Ok(outcome.map(|value| (value, Vec::new())));
        let mut progress = self.progress;
        let given = match name.as_str() {
            "socket" => {
                let kind = self.number(1)?;
                waiting(Ok(host.add(Socket {
                    nonblocking: kind & 0x800 != 0,
                    choices: Choices::default(),
                    port: None,
                    listener: None,
                    connection: None,
                })))
            }
            "bind" => plain(host.bind(self.number(0)?, self.argument(1)?.port()?)),
            "listen" => plain(host.listen(self.number(0)?, self.number(1)?)),
            "accept" => waiting(host.accept(self.number(0)?, false)),
            "accept4" => waiting(host.accept(self.number(0)?, self.number(3)? & 0x800 != 0)),
            "connect" => {
                let port = self.argument(1)?.port()?.unwrap_or(8080);
                waiting(host.connect(self.number(0)?, port, &mut progress))
            }
            "write" | "writev" | "send" | "sendto" | "sendmsg" => {
                let (bytes, flags) = match name.as_str() {
                    "write" => (self.number(2)?.max(0) as u64, 0),
                    "writev" => (self.argument(1)?.bytes()?, 0),
                    "sendmsg" => {
                        let message = self.argument(1)?;
                        let bytes = message.field("msg_iov").map_or(Ok(0), Value::bytes)?;
                        (bytes, self.number(2)?)
                    }
                    _ => (self.number(2)?.max(0) as u64, self.number(3)?),
                };
                if flags & 0x2000_0000 != 0 {
                    return plain(Err(Errno::EOPNOTSUPP));
                }
                let how = (flags & 1 != 0, flags & 0x8000 != 0, flags & 0x40 == 0);
                waiting(host.write(self.number(0)?, bytes, how, &mut progress))
            }
            "read" | "readv" | "recv" | "recvfrom" | "recvmsg" => {
                let (bytes, flags) = match name.as_str() {
                    "read" => (self.number(2)?.max(0) as u64, 0),
                    "readv" => (self.argument(1)?.bytes()?, 0),
                    "recvmsg" => {
                        let message = self.argument(1)?;
                        let bytes = message.field("msg_iov").map_or(Ok(0), Value::bytes)?;
                        (bytes, self.number(2)?)
                    }
                    _ => (self.number(2)?.max(0) as u64, self.number(3)?),
                };
                if flags & 1 != 0 {
                    return waiting(host.read_urgent(self.number(0)?));
                }
                let how = (flags & 2 != 0, flags & 0x100 != 0, flags & 0x40 == 0);
                waiting(host.read(self.number(0)?, bytes, how))
            }
            "shutdown" => plain(host.shutdown(self.number(0)?, self.number(1)?)),
            "close" => waiting(host.close(self.number(0)?, &mut progress)),
            "fcntl" => {
                let (fd, command) = (self.number(0)?, self.number(1)?);
                let flags = self.call.arguments.get(2).map_or(Ok(0), Value::as_number)?;
                plain(host.socket(fd).and_then(|socket| match command {
                    3 => Ok(2 | if socket.nonblocking { 0x800 } else { 0 }),
                    4 => {
                        socket.nonblocking = flags & 0x800 != 0;
                        Ok(0)
                    }
                    _ => Err(Errno::EINVAL),
                }))
            }
            "ioctl" => self.ioctl(host),
            "poll" => self.poll(host),
            "setsockopt" => plain(self.set_option(host)?),
            "getsockopt" => self.get_option(host),
            _ => return Err(format!("the runner has no system call {name}")),
        };
        self.progress = progress;
        given
    }

    fn ioctl(&self, host: &mut Host) -> Result<Given, String> {
        let fd = self.number(0)?;
        let Value::Name(request) = self.argument(1)? else {
            return Err("ioctl wants the name of a request".into());
        };
        let value = match request.as_str() {
            "SIOCINQ" | "FIONREAD" => host.unread(fd),
            "SIOCOUTQ" | "TIOCOUTQ" => host.unsent(fd, false),
            "SIOCOUTQNSD" => host.unsent(fd, true),
            "SIOCATMARK" => host.at_mark(fd),
            _ => return Err(format!("the runner has no ioctl {request}")),
        };
        match value {
            Ok(value) => {
                let expected = self.argument(2)?.as_number()?;
                Ok(Ok((0, differs(request, expected, value))))
            }
            Err(errno) => Ok(Err(errno.into())),
        }
    }

    fn poll(&mut self, host: &mut Host) -> Result<Given, String> {
        let Value::List(descriptors) = self.argument(0)?.clone() else {
            return Err("poll wants a list of descriptors".into());
        };
        let timeout = self.number(2)?;
        let (mut ready, mut differences) = (0, Vec::new());
        for descriptor in &descriptors {
            let number = |name: &str| descriptor.field(name).map_or(Ok(0), Value::as_number);
            let asked = number("events")?;
            let events = match host.poll(number("fd")?) {
                Ok(events) => events & (asked | 8 | 16),
                Err(_) => 32,
            };
            ready += i64::from(events != 0);
            differences.extend(differs("revents", number("revents")?, events));
        }
        if self.progress == 0 {
            self.progress = host.now.0;
        }
        let over = timeout >= 0 && host.now.0 - self.progress >= timeout as u64 * 1000;
        match ready > 0 || over {
            true => Ok(Ok((ready, differences))),
            false => Ok(Err(Wait::Block)),
        }
    }

    /// When it must be tried again, though nothing happened.
    pub fn deadline(&self, host: &Host) -> Option<u64> {
        match self.call.name.as_str() {
            "poll" => {
                let timeout = self.number(2).ok().filter(|timeout| *timeout >= 0)?;
                Some(self.progress + timeout as u64 * 1000)
            }
            "close" => Some(host.linger_end(self.number(0).ok()?, self.progress)?.0),
            _ => None,
        }
    }

    fn set_option(&self, host: &mut Host) -> Result<Result<i64, Errno>, String> {
        let fd = self.number(0)?;
        let Value::Name(name) = self.argument(2)?.clone() else {
            return Err("setsockopt wants the name of an option".into());
        };
        let value = self.argument(3)?;
        if name == "SO_LINGER" {
            let number = |name: &str| value.field(name).map_or(Ok(0), Value::as_number);
            let on = number("onoff")?.max(number("l_onoff")?) != 0;
            let seconds = number("linger")?.max(number("l_linger")?) as u32;
            return Ok(host.socket(fd).map(|socket| {
                socket.choices.linger = on.then_some(seconds);
                0
            }));
        }
        if name == "TCP_CONGESTION" {
            let algorithm = match value {
                Value::Text(name) if name == "reno" => Algorithm::Reno,
                Value::Text(name) if name == "cubic" => Algorithm::Cubic,
                _ => return Ok(Err(Errno::ENOPROTOOPT)),
            };
            let chosen = host
                .socket(fd)
                .map(|socket| socket.choices.algorithm = algorithm);
            return Ok(chosen.and_then(|()| host.choose(fd, &name)).map(|()| 0));
        }
        let value = value.as_number()?;
        let length = self.number(4)?;
        let chosen = host.socket(fd).and_then(|socket| match length < 4 {
            true => Err(Errno::EINVAL),
            false => choose(&mut socket.choices, &name, value),
        });
        Ok(chosen.and_then(|()| host.choose(fd, &name)).map(|()| 0))
    }

    fn get_option(&self, host: &mut Host) -> Result<Given, String> {
        let fd = self.number(0)?;
        let Value::Name(name) = self.argument(2)?.clone() else {
            return Err("getsockopt wants the name of an option".into());
        };
        let expected = self.argument(3)?;
        if let Err(errno) = host.socket(fd) {
            return Ok(Err(errno.into()));
        }
        let value = match name.as_str() {
            "SO_ERROR" => host.take_error(fd),
            "TCP_MAXSEG" => host.stream(fd).map(|index| match index {
                Some(index) => i64::from(host.streams[index].block.info().snd_mss),
                None => 536,
            }),
            "SO_LINGER" | "TCP_INFO" | "TCP_CONGESTION" => return Ok(Ok((0, Vec::new()))),
            _ => host
                .socket(fd)
                .and_then(|socket| chosen(socket, &name).ok_or(Errno::ENOPROTOOPT)),
        };
        match (value, expected) {
            (Err(errno), _) => Ok(Err(errno.into())),
            (Ok(_), Value::Anything) => Ok(Ok((0, Vec::new()))),
            (Ok(value), expected) => {
                let expected = expected.as_number()?;
                Ok(Ok((0, differs(&name, expected, value))))
            }
        }
    }
}

fn differs(name: &str, expected: i64, seen: i64) -> Vec<String> {
    match expected == seen {
        true => Vec::new(),
        false => vec![format!("{name}: expected {expected}, saw {seen}")],
    }
}

/// Seconds into the number of SYN,ACKs that are sent in so long, as Linux counts them.
fn retransmissions(seconds: i64) -> u32 {
    let (mut count, mut time, mut timeout) = (0, 0, 1);
    if seconds > 0 {
        while time < seconds && count < 255 {
            time += timeout;
            timeout = (timeout * 2).min(120);
            count += 1;
        }
    }
    count
}

/// setsockopt
fn choose(choices: &mut Choices, name: &str, value: i64) -> Result<(), Errno> {
    let range = |low: i64, high: i64| match (low..=high).contains(&value) {
        true => Ok(value as u32),
        false => Err(Errno::EINVAL),
    };
    match name {
        "TCP_NODELAY" => choices.no_delay = value != 0,
        "TCP_CORK" => choices.cork = value != 0,
        "SO_KEEPALIVE" => choices.keep_alive = value != 0,
        "TCP_KEEPIDLE" => choices.keep_idle = range(1, 32_767)?,
        "TCP_KEEPINTVL" => choices.keep_interval = range(1, 32_767)?,
        "TCP_KEEPCNT" => choices.keep_count = range(1, 127)?,
        "TCP_USER_TIMEOUT" => choices.user_timeout = range(0, i64::from(i32::MAX))?,
        "TCP_SYNCNT" => choices.syn_count = range(1, 127)?,
        "TCP_LINGER2" => choices.linger2 = value.clamp(-1, 120) as i32,
        "TCP_DEFER_ACCEPT" => choices.defer_accept = retransmissions(value),
        "TCP_MAXSEG" => {
            if value != 0 {
                choices.max_segment = range(88, 32_767)? as u16;
            }
        }
        // It may be switched on; nothing is ever done with a cookie.
        "TCP_FASTOPEN" | "TCP_FASTOPEN_CONNECT" => return Err(Errno::EOPNOTSUPP),
        "SO_OOBINLINE" => choices.inline = value != 0,
        "SO_RCVLOWAT" => choices.receive_low = value.max(1) as u32,
        // Linux doubles it and counts half of that for its own records.
        "SO_RCVBUF" => choices.receive_buffer = Some((value.clamp(1152, 1 << 28)) as u32),
        "SO_SNDBUF" => choices.send_buffer = value.clamp(2304, 1 << 28) as u32 * 2,
        "SO_REUSEADDR" => choices.reuse_address = value != 0,
        "SO_REUSEPORT" => choices.reuse_port = value != 0,
        "TCP_QUICKACK" | "SO_MARK" | "SO_PRIORITY" | "IP_TOS" | "SO_BUSY_POLL"
        | "TCP_NOTSENT_LOWAT" | "SO_ZEROCOPY" | "IP_MTU_DISCOVER" => {
            choices.others.insert(name.to_string(), value);
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// getsockopt
fn chosen(socket: &Socket, name: &str) -> Option<i64> {
    let choices = &socket.choices;
    Some(match name {
        "TCP_NODELAY" => i64::from(choices.no_delay),
        "TCP_CORK" => i64::from(choices.cork),
        "SO_KEEPALIVE" => i64::from(choices.keep_alive),
        "TCP_KEEPIDLE" => i64::from(choices.keep_idle),
        "TCP_KEEPINTVL" => i64::from(choices.keep_interval),
        "TCP_KEEPCNT" => i64::from(choices.keep_count),
        "TCP_USER_TIMEOUT" => i64::from(choices.user_timeout),
        "TCP_SYNCNT" => i64::from(choices.syn_count),
        "TCP_LINGER2" => i64::from(choices.linger2),
        "SO_OOBINLINE" => i64::from(choices.inline),
        "SO_RCVLOWAT" => i64::from(choices.receive_low),
        "SO_REUSEADDR" => i64::from(choices.reuse_address),
        "SO_REUSEPORT" => i64::from(choices.reuse_port),
        "SO_SNDBUF" => i64::from(choices.send_buffer),
        "SO_RCVBUF" => choices.receive_buffer.map_or(131_072, |b| i64::from(b) * 2),
        "SO_ACCEPTCONN" => i64::from(socket.listener.is_some()),
        "SO_TYPE" => 1,
        "SO_PROTOCOL" => 6,
        "SO_DOMAIN" => 2,
        _ => *choices.others.get(name)?,
    })
}
