//! Lines of the nucleus's log, as READ of the [log service](../../docs/services/log.md) gives them, taken apart for who shows them as Linux does: /dev/kmsg
//! and syslog(2).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

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

    #[test]
    fn what_is_left_of_a_line_is_shown_as_it_is() {
        assert_eq!(parse("14] tty: hello"), (0, "14] tty: hello"));
        assert_eq!(parse(""), (0, ""));
        assert_eq!(parse("12"), (0, "12"));
        let many = "9".repeat(30) + " x";
        assert_eq!(parse(&many), (0, many.as_str()));
    }
}
