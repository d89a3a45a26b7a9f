//! What is written to a file of a synthetic file system: where the text ends, and the numbers in it, as Linux has them.

use cairn_idl::errno::{EINVAL, ERANGE};

/// A text ends where a NUL is: programs write the one of a C string as well.
pub fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// A string of /proc/sys is the first line.
pub fn first_line(text: &[u8]) -> &[u8] {
    let mut lines = text.split(|byte| matches!(byte, 0 | b'\n'));
    lines.next().unwrap_or(&[])
}

/// A number with `0x` or `0` before it, or a decimal one.
fn magnitude(text: &[u8]) -> Result<u64, i64> {
    match text {
        [b'0', b'x' | b'X', digits @ ..] => value(digits, 16),
        [b'0', digits @ ..] if !digits.is_empty() => value(digits, 8),
        digits => value(digits, 10),
    }
}

/// ERANGE: it is none of `u64`.
fn value(digits: &[u8], base: u32) -> Result<u64, i64> {
    if digits.is_empty() {
        return Err(EINVAL);
    }
    let mut value = 0u64;
    for byte in digits {
        let digit = char::from(*byte).to_digit(base).ok_or(EINVAL)?;
        value = value
            .checked_mul(base.into())
            .and_then(|value| value.checked_add(digit.into()))
            .ok_or(ERANGE)?;
    }
    Ok(value)
}

/// Without a line's end and a plus.
fn unadorned(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.strip_prefix(b"+").unwrap_or(text)
}

/// A number that is the whole text, but for a line's end.
pub fn number(text: &[u8]) -> Result<u64, i64> {
    magnitude(unadorned(text))
}

/// The same of a text that may end at a NUL.
pub fn natural(text: &[u8]) -> Result<u64, i64> {
    number(until_nul(text))
}

/// The same where only decimal ones are taken.
pub fn decimal(text: &[u8]) -> Result<u64, i64> {
    value(unadorned(until_nul(text)), 10)
}

/// A number that is the whole text, but for white space around it.
pub fn integer(text: &[u8]) -> Result<i32, i64> {
    let text = until_nul(text).trim_ascii();
    let value = match text.strip_prefix(b"-") {
        Some(rest) => -i128::from(magnitude(rest)?),
        None => i128::from(magnitude(text.strip_prefix(b"+").unwrap_or(text))?),
    };
    i32::try_from(value).map_err(|_| ERANGE)
}

/// The numbers of a text for /proc/sys, each with what was read when it ends; as many as are asked for: what comes behind them is not looked at.
pub struct Numbers<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Numbers<'a> {
    pub fn new(text: &'a [u8]) -> Numbers<'a> {
        Numbers { text, at: 0 }
    }

    /// The first of them, where one is wanted.
    pub fn first(text: &'a [u8]) -> Result<(u64, usize), i64> {
        Numbers::new(text).next().unwrap_or(Err(EINVAL))
    }

    fn pass_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_ascii_start().len();
    }
}

impl Iterator for Numbers<'_> {
    type Item = Result<(u64, usize), i64>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pass_space();
        let rest = &self.text[self.at..];
        let word = rest.split(u8::is_ascii_whitespace).next()?;
        if word.is_empty() {
            return None;
        }
        self.at += word.len();
        self.pass_space();
        let number = magnitude(word).map_err(|_| EINVAL);
        Some(number.map(|number| (number, self.at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_text_ends_at_a_nul() {
        assert_eq!(until_nul(b"ab\0c"), b"ab");
        assert_eq!(until_nul(b"\0c"), b"");
        assert_eq!(until_nul(b""), b"");
        assert_eq!(first_line(b" a \nb"), b" a ");
        assert_eq!(first_line(b"a\0\n"), b"a");
    }

    #[test]
    fn one_number_is_taken_whole() {
        for (text, value) in [
            (&b"7"[..], Ok(7)),
            (b"7\n", Ok(7)),
            (b"7\0", Ok(7)),
            (b"7\n\0x", Ok(7)),
            (b"+7", Ok(7)),
            (b"0x1f", Ok(31)),
            (b"017", Ok(15)),
            (b"0", Ok(0)),
            (b"", Err(EINVAL)),
            (b"\0", Err(EINVAL)),
            (b" 7", Err(EINVAL)),
            (b"7 \0", Err(EINVAL)),
            (b"7\n\n", Err(EINVAL)),
            (b"-7", Err(EINVAL)),
            (b"0x", Err(EINVAL)),
            (b"08", Err(EINVAL)),
            (b"18446744073709551616", Err(ERANGE)),
            (b"99999999999999999999x", Err(ERANGE)),
        ] {
            assert_eq!(natural(text), value, "{text:?}");
            if !text.contains(&0) {
                assert_eq!(number(text), value, "{text:?}");
            }
        }
        assert_eq!(number(b"7\0"), Err(EINVAL));
        assert_eq!(decimal(b"+010\n\0"), Ok(10));
        assert_eq!(decimal(b"0x10"), Err(EINVAL));
        for (text, value) in [
            (&b" -7 \n"[..], Ok(-7)),
            (b"0x20\0", Ok(32)),
            (b"2147483648", Err(ERANGE)),
            (b"-2147483648", Ok(i32::MIN)),
            (b"--1", Err(EINVAL)),
            (b"1 2", Err(EINVAL)),
        ] {
            assert_eq!(integer(text), value, "{text:?}");
        }
    }

    #[test]
    fn several_numbers_are_read_as_far_as_they_are_wanted() {
        let all = |text| Numbers::new(text).collect::<Vec<_>>();
        assert_eq!(all(b" 1\t0x2 \n03"), [Ok((1, 3)), Ok((2, 8)), Ok((3, 10))]);
        assert_eq!(all(b"1 \0"), [Ok((1, 2)), Err(EINVAL)]);
        assert_eq!(all(b"1\0"), [Err(EINVAL)]);
        assert_eq!(all(b"+1"), [Err(EINVAL)]);
        assert_eq!(all(b" \n"), []);
        assert_eq!(Numbers::first(b" 7 8"), Ok((7, 3)));
        assert_eq!(Numbers::first(b" "), Err(EINVAL));
    }
}
