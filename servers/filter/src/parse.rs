//! The text of rules, a subset of nft(8)'s: read as a whole, or refused with the place of what is wrong and what was expected there.
//!
//! A text has 64 KiB at most, and what is made of it is a small multiple of that; nothing here calls itself.

use crate::rules::*;
use crate::tuple::{self, protocol, Address};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

/// Where a text is wrong (both from 1 on), and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub line: usize,
    pub column: usize,
    pub what: String,
    /// The text ended too early: more of it may make it right.
    pub unfinished: bool,
}

impl Wrong {
    pub fn text(&self) -> String {
        format!(
            "line {}, column {}: {}\n",
            self.line, self.column, self.what
        )
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    Word(&'a str),
    /// In quotation marks.
    Text(&'a str),
    Mark(char),
    /// The end of a line, or `;`.
    End,
    /// Of everything.
    Nothing,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// Where the line begins, and where the token that was read last does.
    start: usize,
    begun: (usize, usize),
    rules: usize,
    chains: usize,
    /// Rules that a packet goes through at most.
    steps: usize,
    /// Of all tables, and those of the table that is read.
    set_count: usize,
    sets: Vec<Rc<Set>>,
}

type Answer<T> = Result<T, Wrong>;

/// Read a text. An empty one is no rules.
pub fn parse(text: &[u8]) -> Answer<Rules> {
    let text = match core::str::from_utf8(text) {
        Ok(text) if text.len() <= TEXT => text,
        Ok(_) => {
            return Err(refuse(
                1,
                1,
                format!("the text is longer than {TEXT} bytes"),
            ))
        }
        Err(error) => {
            let before = &text[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count();
            let start = before.iter().rposition(|byte| *byte == b'\n');
            let column = before.len() - start.map_or(0, |at| at + 1);
            let what = "expected text in UTF-8".into();
            return Err(refuse(line + 1, column + 1, what));
        }
    };
    let mut parser = Parser {
        text,
        at: 0,
        line: 1,
        start: 0,
        begun: (1, 1),
        rules: 0,
        chains: 0,
        steps: 0,
        set_count: 0,
        sets: Vec::new(),
    };
    parser.whole()
}

fn refuse(line: usize, column: usize, what: String) -> Wrong {
    Wrong {
        line,
        column,
        what,
        unfinished: false,
    }
}

fn is_mark(c: char) -> bool {
    matches!(c, '{' | '}' | ',' | '=')
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Answer<Token<'a>> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'#' => {
                    let rest = &bytes[self.at..];
                    self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                }
                // A line that goes on.
                b'\\' if bytes.get(self.at + 1) == Some(&b'\n') => {
                    self.at += 2;
                    (self.line, self.start) = (self.line + 1, self.at);
                }
                _ => break,
            }
        }
        self.begun = (self.line, self.at - self.start + 1);
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else {
            return Ok(Token::Nothing);
        };
        if first == '\n' || first == ';' {
            self.at += 1;
            if first == '\n' {
                (self.line, self.start) = (self.line + 1, self.at);
            }
            return Ok(Token::End);
        }
        if is_mark(first) {
            self.at += 1;
            return Ok(Token::Mark(first));
        }
        if let Some(rest) = rest.strip_prefix('"') {
            return match rest.find(['"', '\n']) {
                Some(end) if rest.as_bytes()[end] == b'"' => {
                    self.at += end + 2;
                    Ok(Token::Text(&rest[..end]))
                }
                Some(_) => Err(self.wrong("expected `\"` before the line ends".into())),
                None => Err(Wrong {
                    unfinished: true,
                    ..self.wrong("expected `\"`".into())
                }),
            };
        }
        let ends = |c: char| is_mark(c) && c != '=' || c.is_whitespace() || matches!(c, ';' | '"');
        let length = rest.find(ends).unwrap_or(rest.len());
        self.at += length.max(first.len_utf8());
        Ok(Token::Word(&rest[..length.max(first.len_utf8())]))
    }

    fn peek(&mut self) -> Answer<Token<'a>> {
        let (at, line, start, begun) = (self.at, self.line, self.start, self.begun);
        let token = self.next();
        (self.at, self.line, self.start, self.begun) = (at, line, start, begun);
        token
    }

    fn wrong(&self, what: String) -> Wrong {
        refuse(self.begun.0, self.begun.1, what)
    }

    /// What was read last is not what should be there.
    fn expected(&self, what: &str, found: Token) -> Wrong {
        let found = match found {
            Token::Word(word) | Token::Text(word) => {
                let end = word.char_indices().nth(40).map_or(word.len(), |at| at.0);
                format!("`{}`", &word[..end])
            }
            Token::Mark(mark) => format!("`{mark}`"),
            Token::End => "the end of the line".into(),
            Token::Nothing => "the end of the text".into(),
        };
        Wrong {
            unfinished: found == "the end of the text",
            ..self.wrong(format!("expected {what}, found {found}"))
        }
    }

    fn word(&mut self, what: &str) -> Answer<&'a str> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => Err(self.expected(what, other)),
        }
    }

    fn exactly(&mut self, word: &str) -> Answer<()> {
        match self.next()? {
            Token::Word(found) if found == word => Ok(()),
            other => Err(self.expected(&format!("`{word}`"), other)),
        }
    }

    fn mark(&mut self, mark: char) -> Answer<()> {
        match self.next()? {
            Token::Mark(found) if found == mark => Ok(()),
            other => Err(self.expected(&format!("`{mark}`"), other)),
        }
    }

    /// Take the next word if it is this one.
    fn takes(&mut self, word: &str) -> Answer<bool> {
        let is_it = self.peek()? == Token::Word(word);
        if is_it {
            self.next()?;
        }
        Ok(is_it)
    }

    fn end(&mut self) -> Answer<()> {
        match self.peek()? {
            Token::Mark('}') | Token::Nothing => Ok(()),
            Token::End => self.next().map(|_| ()),
            _ => {
                let other = self.next()?;
                Err(self.expected("`;` or the end of the line", other))
            }
        }
    }

    fn push<T>(&self, to: &mut Vec<T>, what: T) -> Answer<()> {
        if to.try_reserve(1).is_err() {
            return Err(self.wrong("there is no memory for more".into()));
        }
        to.push(what);
        Ok(())
    }

    fn name(&mut self, what: &str) -> Answer<String> {
        let name = self.word(what)?;
        let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        match name.len() <= NAME && name.chars().all(right) {
            true => Ok(name.into()),
            false => Err(self.wrong(format!(
                "expected {what} of at most {NAME} letters, digits, `_`, `-`, `.` and `/`"
            ))),
        }
    }

    fn whole(&mut self) -> Answer<Rules> {
        let mut rules = Rules::default();
        loop {
            match self.next()? {
                Token::End => {}
                Token::Nothing => break,
                // (All rules are replaced, whether it says so or not.)
                Token::Word("flush") => {
                    self.exactly("ruleset")?;
                    self.end()?;
                }
                Token::Word("table") => {
                    if rules.tables.len() == TABLES {
                        return Err(self.wrong(format!("there are {TABLES} tables at most")));
                    }
                    let table = self.table(&rules)?;
                    self.push(&mut rules.tables, table)?;
                }
                other => return Err(self.expected("`table` or `flush ruleset`", other)),
            }
        }
        rules.settle();
        Ok(rules)
    }

    fn table(&mut self, known: &Rules) -> Answer<Table> {
        let family = match self.word("`inet`, `ip` or `ip6`")? {
            "inet" => Family::Inet,
            "ip" => Family::Ip,
            "ip6" => Family::Ip6,
            other => return Err(self.expected("`inet`, `ip` or `ip6`", Token::Word(other))),
        };
        let name = self.name("the table's name")?;
        let mut all = known.tables.iter();
        if all.any(|of| of.family == family && of.name == name) {
            return Err(self.wrong(format!("there is a table `{name}` of this family already")));
        }
        self.mark('{')?;
        let mut chains: Vec<Chain> = Vec::new();
        let mut places: Vec<(usize, usize)> = Vec::new();
        loop {
            match self.next()? {
                Token::End => {}
                Token::Mark('}') => break,
                Token::Word("set") => {
                    if self.set_count == SETS {
                        return Err(self.wrong(format!("there are {SETS} sets at most")));
                    }
                    self.set_count += 1;
                    let set = self.set()?;
                    if self.sets.iter().any(|of| of.name == set.name) {
                        let what = format!("there is a set `{}` already", set.name);
                        return Err(self.wrong(what));
                    }
                    self.sets.push(Rc::new(set));
                }
                Token::Word("chain") => {
                    if self.chains == CHAINS {
                        return Err(self.wrong(format!("there are {CHAINS} chains at most")));
                    }
                    self.chains += 1;
                    let place = self.begun;
                    self.push(&mut places, place)?;
                    let chain = self.chain(family)?;
                    if chains.iter().any(|of| of.name == chain.name) {
                        let what = format!("there is a chain `{}` already", chain.name);
                        return Err(self.wrong(what));
                    }
                    self.push(&mut chains, chain)?;
                }
                other => return Err(self.expected("`chain`, `set` or `}`", other)),
            }
        }
        let mut table = Table {
            family,
            name,
            sets: core::mem::take(&mut self.sets),
            chains,
        };
        match table.link() {
            Ok(steps) => {
                self.steps += steps;
                match self.steps > STEPS {
                    true => Err(self.wrong(too_many())),
                    false => Ok(table),
                }
            }
            Err((chain, what)) => Err(refuse(places[chain].0, places[chain].1, what)),
        }
    }

    /// `set NAME { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 } }`
    fn set(&mut self) -> Answer<Set> {
        const TYPES: &str = "ipv4_addr, ipv6_addr, inet_service or inet_proto";
        let name = self.name("the set's name")?;
        self.mark('{')?;
        self.skip_ends()?;
        self.exactly("type")?;
        let word = self.word(TYPES)?;
        let Some((_, kind)) = Kind::NAMES.into_iter().find(|of| of.0 == word) else {
            return Err(self.expected(TYPES, Token::Word(word)));
        };
        let mut all = Ranges::default();
        loop {
            self.end()?;
            self.skip_ends()?;
            match self.next()? {
                Token::Mark('}') => {
                    all.settle();
                    return Ok(Set { name, kind, all });
                }
                Token::Word("flags") => {
                    while self.takes("interval")? || self.takes("constant")? {
                        if self.peek()? == Token::Mark(',') {
                            self.next()?;
                        }
                    }
                }
                Token::Word("auto-merge") => {}
                Token::Word("size") => _ = self.count("a size")?,
                Token::Word("elements") => {
                    self.mark('=')?;
                    let token = self.peek()?;
                    if token != Token::Mark('{') {
                        return Err(self.expected("`{`", token));
                    }
                    let (_, found) = self.ranges(element(kind), |word| element_of(word, kind))?;
                    all = found;
                }
                other => {
                    let what = "`flags`, `auto-merge`, `size`, `elements` or `}`";
                    return Err(self.expected(what, other));
                }
            }
        }
    }

    fn skip_ends(&mut self) -> Answer<()> {
        while self.peek()? == Token::End {
            self.next()?;
        }
        Ok(())
    }

    /// `@NAME`, a set of this kind that was named before.
    fn named_set(&mut self, kind: Kind) -> Answer<Option<(bool, Ranges)>> {
        let (at, line, start, begun) = (self.at, self.line, self.start, self.begun);
        let not = self.takes("!=")?;
        let name = match self.peek()? {
            Token::Word(word) => word.strip_prefix('@'),
            _ => None,
        };
        let Some(name) = name else {
            (self.at, self.line, self.start, self.begun) = (at, line, start, begun);
            return Ok(None);
        };
        self.next()?;
        match self.sets.iter().find(|of| of.name == name) {
            Some(set) if set.kind == kind => Ok(Some((not, Ranges(Vec::new(), Some(set.clone()))))),
            Some(_) => Err(self.wrong(format!("the set `{name}` is of another type"))),
            None => Err(self.wrong(format!("there is no set `{name}` before this in its table"))),
        }
    }

    fn chain(&mut self, family: Family) -> Answer<Chain> {
        let name = self.name("the chain's name")?;
        self.mark('{')?;
        self.skip_ends()?;
        let base = match self.peek()? {
            Token::Word("type") => Some(self.base()?),
            _ => None,
        };
        let mut chain = Chain {
            name,
            base,
            policy: Verdict::Accept,
            rules: Vec::new(),
        };
        loop {
            match self.peek()? {
                Token::End => _ = self.next()?,
                Token::Mark('}') => {
                    self.next()?;
                    return Ok(chain);
                }
                Token::Word("policy") if base.is_some() => {
                    self.next()?;
                    chain.policy = match self.word("`accept` or `drop`")? {
                        "accept" => Verdict::Accept,
                        "drop" => Verdict::Drop,
                        other => {
                            return Err(self.expected("`accept` or `drop`", Token::Word(other)))
                        }
                    };
                    self.end()?;
                }
                _ => {
                    if self.rules == RULES {
                        self.next()?;
                        return Err(self.wrong(format!("there are {RULES} rules at most")));
                    }
                    self.rules += 1;
                    let rule = self.rule(family, &chain)?;
                    self.push(&mut chain.rules, rule)?;
                }
            }
        }
    }

    /// `type filter hook input priority 0`
    fn base(&mut self) -> Answer<Base> {
        self.exactly("type")?;
        let nat = match self.word("`filter` or `nat`")? {
            "filter" => false,
            "nat" => true,
            other => return Err(self.expected("`filter` or `nat`", Token::Word(other))),
        };
        self.exactly("hook")?;
        let names = match nat {
            false => "`input`, `forward` or `output`",
            true => "`prerouting` or `postrouting`",
        };
        let hook = match (self.word(names)?, nat) {
            ("input", false) => Hook::Input,
            ("forward", false) => Hook::Forward,
            ("output", false) => Hook::Output,
            ("prerouting", true) => Hook::Prerouting,
            ("postrouting", true) => Hook::Postrouting,
            (other, _) => return Err(self.expected(names, Token::Word(other))),
        };
        self.exactly("priority")?;
        let priority = match self.word("a priority")? {
            "raw" => -300,
            "mangle" => -150,
            "dstnat" => -100,
            "filter" => 0,
            "security" => 50,
            "srcnat" => 100,
            number => match number.parse() {
                Ok(number) => number,
                Err(_) => return Err(self.expected("a priority", Token::Word(number))),
            },
        };
        self.end()?;
        Ok(Base {
            nat,
            hook,
            priority,
        })
    }

    fn rule(&mut self, family: Family, chain: &Chain) -> Answer<Rule> {
        let mut items: Vec<Item> = Vec::new();
        let mut says = false;
        loop {
            match self.peek()? {
                Token::End | Token::Mark('}') => {
                    self.end()?;
                    return Ok(Rule { items });
                }
                _ => {
                    let item = self.item(family, chain, &items)?;
                    let comment = matches!(item, Item::Comment(_));
                    if says && !comment {
                        return Err(self.wrong("expected the end of the rule".into()));
                    }
                    says |= matches!(
                        item,
                        Item::Verdict(_)
                            | Item::Masquerade(_)
                            | Item::SourceTo(..)
                            | Item::DestinationTo(..)
                            | Item::Jump { .. }
                            | Item::Return
                    );
                    if items.len() == ITEMS {
                        let what = format!("a rule has at most {ITEMS} parts");
                        return Err(self.wrong(what));
                    }
                    self.push(&mut items, item)?;
                }
            }
        }
    }

    fn item(&mut self, family: Family, chain: &Chain, before: &[Item]) -> Answer<Item> {
        const WHAT: &str = "a match or a verdict (iifname, oifname, ip, ip6, tcp, udp, th, meta, icmp, icmpv6, ct, limit, counter, log, comment, accept, drop, \
                            jump, goto, return, reject, masquerade, snat, dnat)";
        let word = self.word(WHAT)?;
        let place = self.begun;
        let item = match word {
            "iifname" | "iif" => {
                let (not, names) = self.names()?;
                Item::In(not, names)
            }
            "oifname" | "oif" => {
                let (not, names) = self.names()?;
                Item::Out(not, names)
            }
            "meta" => match self.word("`iifname`, `oifname`, `l4proto` or `nfproto`")? {
                "iifname" => {
                    let (not, names) = self.names()?;
                    Item::In(not, names)
                }
                "oifname" => {
                    let (not, names) = self.names()?;
                    Item::Out(not, names)
                }
                "l4proto" => self.protocol()?,
                "nfproto" => match self.word("`ipv4` or `ipv6`")? {
                    "ipv4" => everything(Family::Ip),
                    "ipv6" => everything(Family::Ip6),
                    other => return Err(self.expected("`ipv4` or `ipv6`", Token::Word(other))),
                },
                other => {
                    let what = "`iifname`, `oifname`, `l4proto` or `nfproto`";
                    return Err(self.expected(what, Token::Word(other)));
                }
            },
            "ip" | "ip6" => {
                let of = if word == "ip" {
                    Family::Ip
                } else {
                    Family::Ip6
                };
                if family != Family::Inet && family != of {
                    return Err(self.wrong(format!("`{word}` is not of this table's family")));
                }
                match self.word("`saddr` or `daddr`")? {
                    "saddr" => self.address(Side::Source, of)?,
                    "daddr" => self.address(Side::Destination, of)?,
                    "protocol" if of == Family::Ip => self.protocol()?,
                    "nexthdr" if of == Family::Ip6 => self.protocol()?,
                    other => return Err(self.expected("`saddr` or `daddr`", Token::Word(other))),
                }
            }
            "tcp" | "udp" | "sctp" | "th" => {
                let mut known = PROTOCOLS.iter();
                let protocol = known.find(|of| of.0 == word).map(|of| of.1);
                let side = match self.word("`sport` or `dport`")? {
                    "flags" if word == "tcp" => return self.flags(),
                    "sport" => Side::Source,
                    "dport" => Side::Destination,
                    other => return Err(self.expected("`sport` or `dport`", Token::Word(other))),
                };
                let (not, ranges) = self.values(Kind::Port)?;
                Item::Port(side, protocol, not, ranges)
            }
            "icmp" | "icmpv6" => {
                self.exactly("type")?;
                let (number, names): (u8, &[_]) = match word {
                    "icmp" => (protocol::ICMP, &ICMP_TYPES),
                    _ => (protocol::ICMP_V6, &ICMP_V6_TYPES),
                };
                let (not, ranges) = self.ranges("a type of ICMP", |word| {
                    named(word, names).or_else(|| range_of(word, u8::MAX.into()))
                })?;
                Item::Icmp(number, not, ranges)
            }
            "ct" => {
                self.exactly("state")?;
                let not = self.takes("!=")?;
                let braces = self.peek()? == Token::Mark('{');
                if braces {
                    self.next()?;
                }
                let mut mask = 0;
                loop {
                    const WHAT: &str = "new, established, related, invalid or untracked";
                    let word = self.word(WHAT)?;
                    match state::NAMES.iter().find(|of| of.0 == word) {
                        Some((_, bit)) => mask |= bit,
                        None => return Err(self.expected(WHAT, Token::Word(word))),
                    }
                    match self.peek()? {
                        Token::Mark(',') => _ = self.next()?,
                        _ => break,
                    }
                }
                if braces {
                    self.mark('}')?;
                }
                Item::State(not, mask)
            }
            "limit" => self.limit()?,
            "counter" => {
                let mut counts = [0; 2];
                if self.takes("packets")? {
                    counts[0] = self.count("a count of packets")?;
                    self.exactly("bytes")?;
                    counts[1] = self.count("a count of bytes")?;
                }
                Item::Counter(counts[0], counts[1])
            }
            "log" => self.log()?,
            "comment" => match self.next()? {
                Token::Text(text) if text.len() <= 128 && !text.contains(char::is_control) => {
                    Item::Comment(text.into())
                }
                other => {
                    let what = "a comment in quotation marks, of at most 128 bytes";
                    return Err(self.expected(what, other));
                }
            },
            "accept" => Item::Verdict(Verdict::Accept),
            "drop" => Item::Verdict(Verdict::Drop),
            "reject" => Item::Verdict(Verdict::Reject(self.refusal()?)),
            "jump" | "goto" => Item::Jump {
                goto: word == "goto",
                name: self.name("a chain's name")?,
                to: 0,
            },
            "return" => Item::Return,
            "masquerade" => {
                let mut ports = None;
                if self.takes("to")? {
                    let word = self.word("`:` and ports")?;
                    ports = word.strip_prefix(':').and_then(ports_of);
                    if ports.is_none() {
                        return Err(self.expected("`:` and ports", Token::Word(word)));
                    }
                }
                Item::Masquerade(ports)
            }
            "snat" | "dnat" => self.target(word == "snat", family)?,
            other => return Err(self.expected(WHAT, Token::Word(other))),
        };
        self.begun = place;
        let hook = chain.base.map(|of| of.hook);
        let wrong_place = match &item {
            Item::Masquerade(_) | Item::SourceTo(..) if hook != Some(Hook::Postrouting) => {
                Some("a nat chain of the hook postrouting")
            }
            Item::DestinationTo(..) if hook != Some(Hook::Prerouting) => {
                Some("a nat chain of the hook prerouting")
            }
            Item::Verdict(Verdict::Reject(_)) | Item::Jump { .. }
                if chain.base.is_some_and(|of| of.nat) =>
            {
                Some("a filter chain")
            }
            Item::In(..) if matches!(hook, Some(Hook::Output | Hook::Postrouting)) => {
                Some("a chain of input, forward or prerouting")
            }
            Item::Out(..) if matches!(hook, Some(Hook::Input | Hook::Prerouting)) => {
                Some("a chain of forward, output or postrouting")
            }
            _ => None,
        };
        if let Some(place) = wrong_place {
            return Err(self.wrong(format!("`{word}` stands only in {place}")));
        }
        // A translation to a port needs a protocol that has some.
        let ports = match &item {
            Item::DestinationTo(_, port) => port.is_some(),
            Item::Masquerade(ports) | Item::SourceTo(_, ports) => ports.is_some(),
            Item::Verdict(Verdict::Reject(Refusal::Reset)) => {
                let tcp = |of: &Item| match of {
                    Item::Port(_, Some(protocol::TCP), ..) => true,
                    Item::Protocol(false, ranges) => ranges.0 == [(6, 6)],
                    _ => false,
                };
                if !before.iter().any(tcp) {
                    let what = "`reject with tcp reset` needs a match of tcp before it";
                    return Err(self.wrong(what.into()));
                }
                false
            }
            _ => false,
        };
        let matched =
            |of: &Item| matches!(of, Item::Port(_, Some(_), ..) | Item::Protocol(false, _));
        if ports && !before.iter().any(matched) {
            let what = "ports need a match of a protocol before them (tcp, udp, meta l4proto)";
            return Err(self.wrong(what.into()));
        }
        Ok(item)
    }

    fn names(&mut self) -> Answer<(bool, Names)> {
        let mut all = Names::default();
        let not = self.takes("!=")?;
        let braces = self.peek()? == Token::Mark('{');
        if braces {
            self.next()?;
        }
        loop {
            let name = match self.next()? {
                Token::Word(name) | Token::Text(name) if (1..16).contains(&name.len()) => name,
                other => return Err(self.expected("the name of an interface", other)),
            };
            if name.contains(|c: char| c.is_control() || c == '"') {
                return Err(self.expected("the name of an interface", Token::Text(name)));
            }
            self.push(&mut all.names, name.into())?;
            if !braces || !self.more()? {
                return Ok((not, all));
            }
        }
    }

    /// Behind a part of a set: is there another one? Its end is taken.
    fn more(&mut self) -> Answer<bool> {
        self.skip_lines()?;
        match self.next()? {
            Token::Mark(',') => {
                self.skip_lines()?;
                // A comma may stand behind the last one.
                let last = self.peek()? == Token::Mark('}');
                if last {
                    self.next()?;
                }
                Ok(!last)
            }
            Token::Mark('}') => Ok(false),
            other => Err(self.expected("`,` or `}`", other)),
        }
    }

    fn skip_lines(&mut self) -> Answer<()> {
        while self.peek()? == Token::End && !self.next_is_semicolon() {
            self.next()?;
        }
        Ok(())
    }

    fn next_is_semicolon(&self) -> bool {
        self.text[self.at..]
            .trim_start_matches([' ', '\t', '\r'])
            .starts_with(';')
    }

    /// One range or a set of them, each of which `one` reads.
    fn ranges(
        &mut self,
        what: &str,
        one: impl Fn(&str) -> Option<(u128, u128)>,
    ) -> Answer<(bool, Ranges)> {
        let mut all = Ranges::default();
        let not = self.takes("!=")?;
        let braces = self.peek()? == Token::Mark('{');
        if braces {
            self.next()?;
            self.skip_lines()?;
        }
        loop {
            let word = self.word(what)?;
            match one(word) {
                Some(range) => self.push(&mut all.0, range)?,
                None => return Err(self.expected(what, Token::Word(word))),
            }
            if !braces || !self.more()? {
                all.settle();
                return Ok((not, all));
            }
        }
    }

    /// What a match of this kind compares with: a set's name, or values.
    fn values(&mut self, kind: Kind) -> Answer<(bool, Ranges)> {
        match self.named_set(kind)? {
            Some(named) => Ok(named),
            None => self.ranges(element(kind), |word| element_of(word, kind)),
        }
    }

    fn protocol(&mut self) -> Answer<Item> {
        let (not, ranges) = self.values(Kind::Protocol)?;
        Ok(Item::Protocol(not, ranges))
    }

    fn address(&mut self, side: Side, family: Family) -> Answer<Item> {
        let kind = match family {
            Family::Ip => Kind::V4,
            _ => Kind::V6,
        };
        let (not, ranges) = self.values(kind)?;
        Ok(Item::Address(side, family, not, ranges))
    }

    fn count(&mut self, what: &str) -> Answer<u64> {
        let word = self.word(what)?;
        let number = word.parse();
        number.map_err(|_| self.expected(what, Token::Word(word)))
    }

    fn limit(&mut self) -> Answer<Item> {
        const WHAT: &str = "a rate (5/second; minute, hour, day)";
        self.exactly("rate")?;
        let over = self.takes("over")?;
        let word = self.word(WHAT)?;
        let parts = word.split_once('/');
        let rate = parts.and_then(|(number, unit)| {
            let seconds = [
                ("second", 1),
                ("minute", 60),
                ("hour", 3600),
                ("day", 86_400),
            ];
            let unit = seconds.into_iter().find(|of| of.0 == unit)?;
            let number = number
                .parse()
                .ok()
                .filter(|n| (1..=1_000_000).contains(n))?;
            Some((number, (unit.0, unit.1 * 1_000_000_000)))
        });
        let Some((rate, unit)) = rate else {
            return Err(self.expected(WHAT, Token::Word(word)));
        };
        let mut burst = 5;
        if self.takes("burst")? {
            burst = self.count("a number of packets (1 to 1000000)")?;
            if !(1..=1_000_000).contains(&burst) {
                return Err(self.wrong("expected a number of packets (1 to 1000000)".into()));
            }
            self.exactly("packets")?;
        }
        Ok(Item::Limit(Limit {
            over,
            rate,
            unit,
            burst,
            credit: u64::MAX,
            since: 0,
        }))
    }

    /// `syn`, `syn / syn,ack` or `& (syn|ack) == syn`.
    fn flags(&mut self) -> Answer<Item> {
        if self.takes("&")? {
            let mask = self.flag_list()?;
            let not = self.takes("!=")?;
            if !not {
                self.mark('=')?;
                self.mark('=')?;
            }
            let are = Some(self.flag_list()?);
            return Ok(Item::Flags { mask, not, are });
        }
        let not = self.takes("!=")?;
        let first = self.flag_list()?;
        let (mask, are) = match self.takes("/")? {
            true => (self.flag_list()?, Some(first)),
            false => (first, None),
        };
        Ok(Item::Flags { mask, not, are })
    }

    /// `syn`, `syn,ack`, `syn|ack`, `(syn | ack)`, 0.
    fn flag_list(&mut self) -> Answer<u8> {
        const WHAT: &str = "flags of TCP (fin, syn, rst, psh, ack, urg, ecn, cwr)";
        let (mut bits, mut brackets) = (0, false);
        loop {
            let word = self.word(WHAT)?;
            let inner = word.strip_prefix('(').unwrap_or(word);
            brackets |= inner.len() != word.len();
            let closed = inner.strip_suffix(')');
            let inner = closed.unwrap_or(inner);
            for name in inner.split('|').filter(|of| !of.is_empty()) {
                match FLAGS.iter().find(|of| of.0 == name) {
                    Some((_, bit)) => bits |= bit,
                    None if matches!(name, "0" | "0x0") => {}
                    None => return Err(self.expected(WHAT, Token::Word(word))),
                }
            }
            if closed.is_some() {
                return match brackets {
                    true => Ok(bits),
                    false => Err(self.expected(WHAT, Token::Word(word))),
                };
            }
            match self.peek()? {
                Token::Mark(',') if !brackets => _ = self.next()?,
                Token::Word(next) if next.starts_with('|') || brackets => {}
                _ if brackets => return Err(self.wrong("expected `)`".into())),
                _ => return Ok(bits),
            }
        }
    }

    fn log(&mut self) -> Answer<Item> {
        let (mut prefix, mut level) = (String::new(), None);
        loop {
            if self.takes("prefix")? {
                match self.next()? {
                    Token::Text(text) if text.len() <= 127 && !text.contains(char::is_control) => {
                        prefix = text.into();
                    }
                    other => {
                        let what = "a text in quotation marks, of at most 127 bytes";
                        return Err(self.expected(what, other));
                    }
                }
            } else if self.takes("level")? {
                const WHAT: &str = "emerg, alert, crit, err, warn, notice, info or debug";
                let word = self.word(WHAT)?;
                level = LEVELS.into_iter().find(|of| *of == word);
                if level.is_none() {
                    return Err(self.expected(WHAT, Token::Word(word)));
                }
            } else if self.takes("flags")? {
                // (What there is to tell is told anyway.)
                self.exactly("all")?;
            } else {
                return Ok(Item::Log { prefix, level });
            }
        }
    }

    fn refusal(&mut self) -> Answer<Refusal> {
        if !self.takes("with")? {
            return Ok(Refusal::Port);
        }
        match self.word("`tcp`, `icmp`, `icmpv6` or `icmpx`")? {
            "tcp" => {
                self.exactly("reset")?;
                Ok(Refusal::Reset)
            }
            "icmp" | "icmpv6" | "icmpx" => {
                self.takes("type")?;
                const WHAT: &str =
                    "port-unreachable, admin-prohibited, host-unreachable or no-route";
                match self.word(WHAT)? {
                    "port-unreachable" => Ok(Refusal::Port),
                    "admin-prohibited" => Ok(Refusal::Prohibited),
                    "host-unreachable" | "addr-unreachable" => Ok(Refusal::Host),
                    "no-route" | "net-unreachable" => Ok(Refusal::Net),
                    other => Err(self.expected(WHAT, Token::Word(other))),
                }
            }
            other => {
                let what = "`tcp`, `icmp`, `icmpv6` or `icmpx`";
                Err(self.expected(what, Token::Word(other)))
            }
        }
    }

    fn target(&mut self, source: bool, family: Family) -> Answer<Item> {
        const WHAT: &str = "an address, with `:` and ports or without";
        if self.takes("ip")? || self.takes("ip6")? {
            // (The address says it.)
        }
        self.exactly("to")?;
        let word = self.word(WHAT)?;
        let wrong = |parser: &Self| parser.expected(WHAT, Token::Word(word));
        let (address, ports) = split_target(word).ok_or_else(|| wrong(self))?;
        if let Some(address) = address {
            let v4 = tuple::is_v4(&address);
            let other = if v4 { Family::Ip6 } else { Family::Ip };
            if family == other {
                return Err(self.wrong("the address is not of this table's family".into()));
            }
            let bytes = u128::from_be_bytes(address);
            if bytes == 0 || address[12..] == [0; 4] && v4 || address[0] == 0xff {
                return Err(self.wrong("expected the address of one machine".into()));
            }
        }
        match (source, address, ports) {
            (true, Some(address), ports) => Ok(Item::SourceTo(address, ports)),
            (false, address, None) if address.is_some() => Ok(Item::DestinationTo(address, None)),
            (false, address, Some((first, last))) if first == last => {
                Ok(Item::DestinationTo(address, Some(first)))
            }
            _ => Err(wrong(self)),
        }
    }
}

/// What one of a set is called, and its text.
fn element(kind: Kind) -> &'static str {
    match kind {
        Kind::V4 => "an address of IPv4, a prefix (10.0.0.0/8) or a range",
        Kind::V6 => "an address of IPv6, a prefix (fd00::/8) or a range",
        Kind::Port => "a port (0 to 65535)",
        Kind::Protocol => "a protocol",
    }
}

fn element_of(word: &str, kind: Kind) -> Option<(u128, u128)> {
    match kind {
        Kind::V4 | Kind::V6 => addresses_of(word, kind == Kind::V4),
        Kind::Port => range_of(word, u16::MAX.into()),
        Kind::Protocol => named(word, &PROTOCOLS).or_else(|| range_of(word, u8::MAX.into())),
    }
}

/// All addresses of a family.
fn everything(family: Family) -> Item {
    let all = match family {
        Family::Ip => (
            tuple::number(&tuple::v4([0; 4])),
            tuple::number(&tuple::v4([255; 4])),
        ),
        _ => (0, u128::MAX),
    };
    Item::Address(Side::Source, family, false, Ranges([all].into(), None))
}

fn named(word: &str, names: &[(&str, u8)]) -> Option<(u128, u128)> {
    let number = u128::from(names.iter().find(|of| of.0 == word)?.1);
    Some((number, number))
}

/// `N` or `N-M`, in decimal.
fn range_of(word: &str, most: u128) -> Option<(u128, u128)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let number = |text: &str| {
        let digits = text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u128>().ok().filter(|_| digits)?;
        (number <= most).then_some(number)
    };
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

fn ports_of(word: &str) -> Option<(u16, u16)> {
    let (first, last) = range_of(word, u16::MAX.into())?;
    (first != 0).then_some((first as u16, last as u16))
}

fn address_of(word: &str, v4: bool) -> Option<Address> {
    match v4 {
        true => Some(tuple::v4(
            word.parse::<core::net::Ipv4Addr>().ok()?.octets(),
        )),
        false => {
            let address = word.parse::<core::net::Ipv6Addr>().ok()?.octets();
            // (A mapped address is on no wire.)
            (!tuple::is_v4(&address)).then_some(address)
        }
    }
}

/// An address, a prefix or a range.
fn addresses_of(word: &str, v4: bool) -> Option<(u128, u128)> {
    if let Some((address, bits)) = word.split_once('/') {
        let address = tuple::number(&address_of(address, v4)?);
        let (bits, last) = range_of(bits, if v4 { 32 } else { 128 })?;
        let bits = (bits == last).then_some(bits as u32)?;
        let host = u128::MAX.checked_shr(bits + if v4 { 96 } else { 0 });
        let host = host.unwrap_or(0);
        return Some((address & !host, address | host));
    }
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let number = |text| Some(tuple::number(&address_of(text, v4)?));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

/// `ADDRESS`, `ADDRESS:PORTS`, `[ADDRESS]:PORTS` or `:PORTS`.
fn split_target(word: &str) -> Option<(Option<Address>, Ports)> {
    if let Some(rest) = word.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        let address = address_of(address, false)?;
        return match rest {
            "" => Some((Some(address), None)),
            rest => Some((Some(address), Some(ports_of(rest.strip_prefix(':')?)?))),
        };
    }
    if let Some(address) = address_of(word, false) {
        return Some((Some(address), None));
    }
    match word.split_once(':') {
        Some(("", ports)) => Some((None, Some(ports_of(ports)?))),
        Some((address, ports)) => Some((Some(address_of(address, true)?), Some(ports_of(ports)?))),
        None => Some((Some(address_of(word, true)?), None)),
    }
}
