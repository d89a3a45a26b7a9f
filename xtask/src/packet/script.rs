//! packetdrill's language, read into events: options, times, packets, system calls, assertions.

use std::fmt;

/// When something happens, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Since the script began.
    At(i64),
    /// Since the event before.
    After(i64),
    /// Any time.
    Whenever,
    /// Between two times since the script began.
    Between(i64, i64),
    /// Between two times since the event before.
    BetweenAfter(i64, i64),
}

#[derive(Clone, Debug)]
pub struct Event {
    pub line: usize,
    pub when: When,
    /// Of a call that blocks: when it returns, since the script began or since the event before.
    pub until: Option<When>,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Action {
    /// A packet that the peer sends.
    Inject(Packet),
    /// A packet that the host must send.
    Expect(Packet),
    /// An ICMP message: type, code, MTU, and the first sequence number that it quotes.
    Icmp {
        code: String,
        mtu: u16,
        quoted: u32,
    },
    Call(Call),
    /// Between `%{` and `}%`.
    Assert(String),
    /// Between backticks.
    Shell(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Not said.
    Any,
    Not,
    Ect0,
    Ect1,
    /// Either of both.
    Ect01,
    Ce,
}

#[derive(Clone, Debug)]
pub struct Packet {
    pub ecn: Ecn,
    /// As in the header, low byte.
    pub flags: u8,
    pub seq: u32,
    pub length: u32,
    pub ack: Option<u32>,
    pub window: Option<u16>,
    pub urgent: Option<u16>,
    /// None: `<...>`, any.
    pub options: Option<Vec<TcpOption>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    Eol,
    Nop,
    Mss(u16),
    Wscale(u8),
    SackOk,
    Sack(Vec<(u32, u32)>),
    Timestamps(u32, u32),
    FastOpen,
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcpOption::Eol => write!(f, "eol"),
            TcpOption::Nop => write!(f, "nop"),
            TcpOption::Mss(mss) => write!(f, "mss {mss}"),
            TcpOption::Wscale(shift) => write!(f, "wscale {shift}"),
            TcpOption::SackOk => write!(f, "sackOK"),
            TcpOption::Sack(blocks) => {
                write!(f, "sack")?;
                blocks.iter().try_for_each(|(a, b)| write!(f, " {a}:{b}"))
            }
            TcpOption::Timestamps(value, echo) => write!(f, "TS val {value} ecr {echo}"),
            TcpOption::FastOpen => write!(f, "FO"),
        }
    }
}

/// `name(arguments) = result errno`
#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    pub arguments: Vec<Value>,
    pub result: Value,
    pub errno: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number(i64),
    /// A name of the system, or several with `|` between them.
    Name(String),
    Text(String),
    /// `...`
    Anything,
    List(Vec<Value>),
    Fields(Vec<(String, Value)>),
    /// htons(8080) and the like.
    Apply(String, Vec<Value>),
}

pub struct Script {
    pub options: Vec<(String, String)>,
    pub events: Vec<Event>,
}

/// Line and what was expected there.
pub type Failure = (usize, String);
type Parsed<T> = Result<T, Failure>;

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
}

pub fn parse(text: &str) -> Parsed<Script> {
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
        line: 1,
    };
    let mut script = Script {
        options: Vec::new(),
        events: Vec::new(),
    };
    reader.blank()?;
    while reader.take("--") {
        let name = reader.word();
        let value = match reader.take("=") {
            true => reader.until_blank(),
            false => String::new(),
        };
        script.options.push((name, value));
        reader.blank()?;
    }
    while reader.at < reader.text.len() {
        script.events.push(reader.event()?);
        reader.blank()?;
    }
    Ok(script)
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        &self.text[self.at.min(self.text.len())..]
    }

    fn next(&mut self) -> u8 {
        let byte = self.peek();
        self.at += 1;
        self.line += usize::from(byte == b'\n');
        byte
    }

    fn fail<T>(&self, expected: &str) -> Parsed<T> {
        let rest = String::from_utf8_lossy(self.rest());
        let seen: String = rest.chars().take_while(|c| *c != '\n').take(40).collect();
        Err((self.line, format!("expected {expected}, saw {seen:?}")))
    }

    /// Spaces, lines and comments.
    fn blank(&mut self) -> Parsed<()> {
        loop {
            if self.peek().is_ascii_whitespace() {
                self.next();
            } else if self.rest().starts_with(b"//") || self.peek() == b'#' {
                while self.at < self.text.len() && self.peek() != b'\n' {
                    self.next();
                }
            } else if self.rest().starts_with(b"/*") {
                while !self.rest().starts_with(b"*/") {
                    if self.at >= self.text.len() {
                        return self.fail("*/");
                    }
                    self.next();
                }
                self.at += 2;
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let there = self.rest().starts_with(token.as_bytes());
        if there {
            self.at += token.len();
        }
        there
    }

    /// A token with blanks before it.
    fn token(&mut self, token: &str) -> Parsed<bool> {
        self.blank()?;
        Ok(self.take(token))
    }

    fn need(&mut self, token: &str) -> Parsed<()> {
        match self.token(token)? {
            true => Ok(()),
            false => self.fail(token),
        }
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self.peek().is_ascii_alphanumeric() || self.peek() == b'_' {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    fn until_blank(&mut self) -> String {
        let start = self.at;
        while self.at < self.text.len() && !self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    fn until(&mut self, end: &str) -> Parsed<String> {
        let start = self.at;
        while !self.rest().starts_with(end.as_bytes()) {
            if self.at >= self.text.len() {
                return self.fail(end);
            }
            self.next();
        }
        let text = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        self.at += end.len();
        Ok(text)
    }

    fn number(&mut self) -> Parsed<i64> {
        self.blank()?;
        let negative = self.take("-");
        let hex = self.take("0x");
        let digits = self.word();
        let radix = if hex { 16 } else { 10 };
        match i64::from_str_radix(&digits, radix) {
            Ok(number) => Ok(if negative { -number } else { number }),
            Err(_) => self.fail("a number"),
        }
    }

    fn fitting<T: TryFrom<i64>>(&mut self) -> Parsed<T> {
        let number = self.number()?;
        match T::try_from(number) {
            Ok(number) => Ok(number),
            Err(_) => Err((self.line, format!("{number} is out of range"))),
        }
    }

    /// Seconds with a fraction, in microseconds.
    fn seconds(&mut self) -> Parsed<i64> {
        let start = self.at;
        while self.peek().is_ascii_digit()
            || (self.peek() == b'.' && !self.rest().starts_with(b".."))
        {
            self.at += 1;
        }
        let text = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let whole = if whole.is_empty() { "0" } else { whole };
        match (whole.parse::<i64>(), fraction.parse::<i64>()) {
            (Ok(whole), Ok(fraction)) if !text.is_empty() && text != "." => {
                Ok(whole * 1_000_000 + fraction)
            }
            _ => self.fail("a time"),
        }
    }

    fn when(&mut self) -> Parsed<When> {
        if self.take("*") {
            return Ok(When::Whenever);
        }
        let relative = self.take("+");
        self.blank()?;
        let first = self.seconds()?;
        if self.take("~") {
            let also = self.take("+");
            let second = self.seconds()?;
            return match (relative, also) {
                (true, true) => Ok(When::BetweenAfter(first, second)),
                (false, false) => Ok(When::Between(first, second)),
                _ => self.fail("both times with + or both without"),
            };
        }
        Ok(match relative {
            true => When::After(first),
            false => When::At(first),
        })
    }

    fn event(&mut self) -> Parsed<Event> {
        let line = self.line;
        if self.take("%{") {
            let text = self.until("}%")?;
            return Ok(Event {
                line,
                when: When::After(0),
                until: None,
                action: Action::Assert(text),
            });
        }
        if self.take("`") {
            let text = self.until("`")?;
            return Ok(Event {
                line,
                when: When::After(0),
                until: None,
                action: Action::Shell(text),
            });
        }
        let when = self.when()?;
        let mut until = None;
        if self.take("...") {
            until = Some(self.when()?);
        }
        self.blank()?;
        let line = self.line;
        let action = match self.peek() {
            b'<' => {
                self.at += 1;
                self.packet(true)?
            }
            b'>' => {
                self.at += 1;
                self.packet(false)?
            }
            b'%' if self.take("%{") => Action::Assert(self.until("}%")?),
            b'`' => {
                self.at += 1;
                Action::Shell(self.until("`")?)
            }
            _ => Action::Call(self.call()?),
        };
        Ok(Event {
            line,
            when,
            until,
            action,
        })
    }

    fn packet(&mut self, inbound: bool) -> Parsed<Action> {
        self.blank()?;
        let mut ecn = Ecn::Any;
        if self.take("[") {
            self.blank()?;
            if self.peek().is_ascii_digit() {
                let quoted = self.fitting()?;
                self.until("]")?;
                return self.icmp(quoted);
            }
            let name = self.word();
            ecn = match name.as_str() {
                "noecn" => Ecn::Not,
                "ect0" => Ecn::Ect0,
                "ect1" => Ecn::Ect1,
                "ect01" => Ecn::Ect01,
                "ce" => Ecn::Ce,
                _ => return self.fail("noecn, ect0, ect1, ect01 or ce"),
            };
            self.need("]")?;
            self.blank()?;
        }
        if self.take("icmp") {
            self.at -= 4;
            return self.icmp(0);
        }
        let mut flags = 0u8;
        loop {
            flags |= match self.peek() {
                b'F' => 1,
                b'S' => 2,
                b'R' => 4,
                b'P' => 8,
                b'.' => 16,
                b'U' => 32,
                b'E' => 64,
                b'W' => 128,
                b'-' => 0,
                _ => break,
            };
            self.at += 1;
        }
        if !self.peek().is_ascii_whitespace() {
            return self.fail("flags (F, S, R, P, ., U, E, W)");
        }
        let seq: u32 = self.fitting()?;
        self.need(":")?;
        let end: u32 = self.fitting()?;
        self.need("(")?;
        let length: u32 = self.fitting()?;
        self.need(")")?;
        if end.wrapping_sub(seq) != length {
            return Err((self.line, format!("{seq}:{end} is not {length} bytes")));
        }
        let mut packet = Packet {
            ecn,
            flags,
            seq,
            length,
            ack: None,
            window: None,
            urgent: None,
            options: Some(Vec::new()),
        };
        loop {
            self.spaces();
            if self.take("ack ") {
                packet.ack = Some(self.fitting()?);
            } else if self.take("win ") {
                packet.window = Some(self.fitting()?);
            } else if self.take("urg ") {
                packet.urgent = Some(self.fitting()?);
            } else if self.peek() == b'<' {
                packet.options = self.options()?;
            } else {
                break;
            }
        }
        Ok(match inbound {
            true => Action::Inject(packet),
            false => Action::Expect(packet),
        })
    }

    /// Blanks of this line only: what follows in the next one is another event.
    fn spaces(&mut self) {
        while matches!(self.peek(), b' ' | b'\t') {
            self.at += 1;
        }
    }

    fn icmp(&mut self, quoted: u32) -> Parsed<Action> {
        self.need("icmp")?;
        self.blank()?;
        let kind = self.word();
        if kind != "unreachable" {
            return self.fail("unreachable");
        }
        self.spaces();
        let code = self.word();
        self.spaces();
        let mtu = match self.take("mtu ") {
            true => self.fitting()?,
            false => 0,
        };
        Ok(Action::Icmp { code, mtu, quoted })
    }

    fn options(&mut self) -> Parsed<Option<Vec<TcpOption>>> {
        self.need("<")?;
        if self.token("...")? {
            self.need(">")?;
            return Ok(None);
        }
        let mut options = Vec::new();
        loop {
            self.blank()?;
            if self.take(">") {
                return Ok(Some(options));
            }
            let name = self.word();
            let option = match name.as_str() {
                "eol" => TcpOption::Eol,
                "nop" => TcpOption::Nop,
                "mss" => TcpOption::Mss(self.fitting()?),
                "wscale" => TcpOption::Wscale(self.fitting()?),
                "sackOK" => TcpOption::SackOk,
                "sack" => {
                    let mut blocks = Vec::new();
                    loop {
                        self.blank()?;
                        if !self.peek().is_ascii_digit() {
                            break TcpOption::Sack(blocks);
                        }
                        let start = self.fitting()?;
                        self.need(":")?;
                        blocks.push((start, self.fitting()?));
                    }
                }
                "TS" => {
                    self.need("val")?;
                    let value = self.fitting()?;
                    self.need("ecr")?;
                    TcpOption::Timestamps(value, self.fitting()?)
                }
                "FO" | "FOEXP" => {
                    self.spaces();
                    self.word();
                    TcpOption::FastOpen
                }
                _ => return self.fail("an option of TCP"),
            };
            options.push(option);
            self.token(",")?;
        }
    }

    fn call(&mut self) -> Parsed<Call> {
        let name = self.word();
        if name.is_empty() {
            return self.fail("<, >, %{, ` or a system call");
        }
        self.need("(")?;
        let arguments = self.values(")")?;
        self.need("=")?;
        let result = self.value()?;
        self.spaces();
        let mut errno = None;
        if self.peek() == b'E' {
            errno = Some(self.word());
            self.spaces();
        }
        if self.take("(") {
            self.until(")")?;
        }
        Ok(Call {
            name,
            arguments,
            result,
            errno,
        })
    }

    fn values(&mut self, end: &str) -> Parsed<Vec<Value>> {
        let mut values = Vec::new();
        loop {
            if self.token(end)? {
                return Ok(values);
            }
            values.push(self.value()?);
            if !self.token(",")? {
                self.need(end)?;
                return Ok(values);
            }
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        self.blank()?;
        if self.take("...") {
            return Ok(Value::Anything);
        }
        match self.peek() {
            b'[' => {
                self.at += 1;
                Ok(Value::List(self.values("]")?))
            }
            b'{' => {
                self.at += 1;
                self.fields()
            }
            b'"' => {
                self.at += 1;
                Ok(Value::Text(self.until("\"")?))
            }
            b'-' | b'0'..=b'9' => Ok(Value::Number(self.number()?)),
            _ => {
                let mut name = self.word();
                if name.is_empty() {
                    return self.fail("a value");
                }
                if self.take("(") {
                    return Ok(Value::Apply(name, self.values(")")?));
                }
                while self.token("|")? {
                    self.blank()?;
                    name.push('|');
                    name.push_str(&self.word());
                }
                Ok(Value::Name(name))
            }
        }
    }

    /// `{name=value, …}`, or `{..., 1000}` of an iovec.
    fn fields(&mut self) -> Parsed<Value> {
        let mut fields = Vec::new();
        loop {
            self.blank()?;
            if self.take("}") {
                return Ok(Value::Fields(fields));
            }
            let (at, line) = (self.at, self.line);
            let mut name = self.word();
            // msg_iov(1)=…
            if !name.is_empty() && self.take("(") {
                self.until(")")?;
            }
            if name.is_empty() || !self.token("=")? {
                (self.at, self.line) = (at, line);
                name = String::new();
            }
            let value = self.value()?;
            fields.push((name, value));
            self.token(",")?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let text = "--tolerance_usecs=10000\n// a comment\n`sysctl`\n\
            0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3 /* and\n another */\n\
            +0 setsockopt(3, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0\n\
            +.1 < [ect0] SEW 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>\n\
            +0~+.5 > S. 0:0(0) ack 1 <...>\n* > . 1:1(0) ack 1 <nop,nop,sack 3001:4001 1001:2001>\n\
            0.5...0.7 connect(3, {sa_family=AF_INET, sin_port=htons(80)}, ...) = -1 ETIMEDOUT (Connection timed out)\n\
            +0 < [1:1461(1460)] icmp unreachable frag_needed mtu 1200\n\
            %{ assert tcpi_snd_cwnd == 10 }%\n\
            +0 poll([{fd=4, events=POLLIN|POLLOUT, revents=POLLOUT}], 1, 0) = 1\n";
        let script = parse(text).expect("a script");
        assert_eq!(script.options, [("tolerance_usecs".into(), "10000".into())]);
        assert_eq!(script.events.len(), 10);
        assert_eq!(script.events[4].when, When::BetweenAfter(0, 500_000));
        assert_eq!(script.events[6].until, Some(When::At(700_000)));
        assert!(
            matches!(&script.events[3].action, Action::Inject(packet) if packet.flags == 0xc2 && packet.ecn == Ecn::Ect0)
        );
        assert!(matches!(
            script.events[7].action,
            Action::Icmp {
                mtu: 1200,
                quoted: 1,
                ..
            }
        ));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, part) in [
            ("0 socket(", 1, "a value"),
            ("\n0 < S 0:1(0)\n", 2, "is not 0 bytes"),
            ("0 < X 0:0(0)\n", 1, "flags"),
            ("\n\nx\n", 3, "a time"),
            ("0 /* \n", 2, "*/"),
        ] {
            let (at, what) = parse(text).err().expect("no script");
            assert_eq!(at, line, "{text}: {what}");
            assert!(what.contains(part), "{text}: {what}");
        }
    }
}
