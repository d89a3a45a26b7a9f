//! Lines of the nucleus's log, as READ of the [log service](../../docs/services/log.md) gives them, taken apart for who shows them as Linux does: /dev/kmsg
//! and syslog(2).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A line without its newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Since boot. Of a line whose beginning was overwritten: 0.
    pub microseconds: u64,
    /// Without the number of the domain that wrote it where its name follows.
    pub text: &'a [u8],
}

/// Most bytes that stand before the text: 20 digits and a space.
pub const HEAD: usize = 21;

impl Line<'_> {
    pub fn parse(line: &[u8]) -> Line<'_> {
        let (microseconds, text) = number(line)
            .and_then(|(time, rest)| Some((time, rest.strip_prefix(b" ")?)))
            .unwrap_or((0, line));
        Line {
            microseconds,
            text: named(text).unwrap_or(text),
        }
    }
}

/// The part of a domain's id that the nucleus's own lines have.
const NUMBER: u64 = 0xf_ffff;
/// `init`, which tells the names of the domains that it starts.
const INIT: u64 = 1;
/// More components than a system has. What is told beyond that is not remembered.
const MOST: usize = 512;
/// What stands before a domain's number in the nucleus's own lines.
const NUMBERED: [&[u8]; 2] = [b"nucleus: domain ", b"!backtrace "];

/// Names of domains, learned from the log.
#[derive(Debug)]
pub struct Names(BTreeMap<u64, Vec<u8>>);

impl Default for Names {
    fn default() -> Names {
        Names(BTreeMap::from([(INIT, b"init".to_vec())]))
    }
}

impl Names {
    /// Take what a line, as it stands in the log, tells: ``[1] init: `NAME` is domain ID``. Others' words count for nothing.
    pub fn learn(&mut self, line: &[u8]) {
        let Some((id, name)) = told(line) else {
            return;
        };
        if self.0.len() < MOST || self.0.contains_key(&id) {
            self.0.insert(id, name.to_vec());
        }
    }

    /// A line's text with the name of the domain that the nucleus tells of: `nucleus: domain 12 (tty) ends by exception 6`.
    pub fn put_into(&self, text: &[u8], into: &mut Vec<u8>) {
        let found = NUMBERED.iter().find_map(|begin| {
            let (domain, rest) = number(text.strip_prefix(*begin)?)?;
            Some((&text[..text.len() - rest.len()], self.0.get(&domain)?, rest))
        });
        match found {
            Some((before, name, rest)) => {
                into.extend_from_slice(before);
                into.extend_from_slice(b" (");
                into.extend_from_slice(name);
                into.push(b')');
                into.extend_from_slice(rest);
            }
            None => into.extend_from_slice(text),
        }
    }
}

/// The number and name of a domain that `init` has started.
fn told(line: &[u8]) -> Option<(u64, &[u8])> {
    let (_, rest) = number(line)?;
    let (writer, rest) = number(rest.strip_prefix(b" [")?)?;
    let rest = rest.strip_prefix(b"] init: `")?;
    let end = rest.iter().position(|byte| *byte == b'`')?;
    let (name, rest) = rest.split_at(end);
    let (id, rest) = number(rest.strip_prefix(b"` is domain ")?)?;
    (writer == INIT && rest.is_empty()).then_some((id & NUMBER, name))
}

/// Decimal digits at the beginning, and what follows them.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let number = core::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number, rest))
}

/// `NAME: …` of `[NUMBER] NAME: …`.
fn named(text: &[u8]) -> Option<&[u8]> {
    let (_, rest) = number(text.strip_prefix(b"[")?)?;
    let rest = rest.strip_prefix(b"] ")?;
    let name = rest.iter().take_while(|byte| !b": \t".contains(byte));
    let length = name.count();
    (length > 0 && rest[length..].starts_with(b": ")).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> (u64, &str) {
        let Line { microseconds, text } = Line::parse(line.as_bytes());
        (microseconds, core::str::from_utf8(text).unwrap())
    }

    #[test]
    fn times_and_names_are_taken_out() {
        assert_eq!(parse("12345 [14] tty: hello"), (12_345, "tty: hello"));
        assert_eq!(parse("7 nucleus: 1 core"), (7, "nucleus: 1 core"));
        // Who has no name keeps its number.
        assert_eq!(parse("7 [14] read(0) = 1: x"), (7, "[14] read(0) = 1: x"));
        assert_eq!(parse("7 [14] : x"), (7, "[14] : x"));
        assert_eq!(parse("7 [x] y: z"), (7, "[x] y: z"));
    }

    fn shown(names: &Names, text: &str) -> String {
        let mut line = Vec::new();
        names.put_into(text.as_bytes(), &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn domains_have_the_names_that_init_told() {
        let mut names = Names::default();
        let died = "nucleus: domain 12 ends by exception 6 error 0";
        assert_eq!(shown(&names, died), died);
        names.learn(b"5 [1] init: `tty` is domain 1048588");
        let named = "nucleus: domain 12 (tty) ends by exception 6 error 0";
        assert_eq!(shown(&names, died), named);
        assert_eq!(
            shown(&names, "!backtrace 12 0x1 0x2@3"),
            "!backtrace 12 (tty) 0x1 0x2@3"
        );
        assert_eq!(
            shown(&names, "nucleus: domain 1 ends by x"),
            "nucleus: domain 1 (init) ends by x"
        );
        // The next life has the number of another place, or the same.
        names.learn(b"6 [1] init: `uart0` is domain 2097164");
        assert!(shown(&names, died).contains("12 (uart0) ends"));
        for other in [
            "tty: domain 12 ends by x",
            "nucleus: domain ",
            "nucleus: domain 13 ends",
            "",
        ] {
            assert_eq!(shown(&names, other), other);
        }
    }

    #[test]
    fn nobody_else_gives_names() {
        let mut names = Names::default();
        for line in [
            "5 [14] init: `x` is domain 12",
            "5 [1] devfs: `x` is domain 12",
            "5 [1] init: `x` is domain 12 or 13",
            "5 [1] init: `x",
            "[1] init: `x` is domain 12",
        ] {
            names.learn(line.as_bytes());
        }
        assert_eq!(
            shown(&names, "nucleus: domain 12 ends"),
            "nucleus: domain 12 ends"
        );
        for id in 0..2 * MOST {
            names.learn(format!("5 [1] init: `x` is domain {id}").as_bytes());
        }
        assert_eq!(names.0.len(), MOST);
    }

    #[test]
    fn what_is_left_of_a_line_is_shown_as_it_is() {
        assert_eq!(parse("14] tty: hello"), (0, "14] tty: hello"));
        assert_eq!(parse(""), (0, ""));
        assert_eq!(parse("12"), (0, "12"));
        let many = "9".repeat(30) + " x";
        assert_eq!(parse(&many), (0, many.as_str()));
    }
}
