//! Lines for the log and small texts, without allocation.

/// A line of at most 512 bytes; what does not fit is cut.
pub struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Line::new()
    }
}

impl Line {
    pub fn new() -> Line {
        Line {
            bytes: [0; 512],
            len: 0,
        }
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Line {
        let count = bytes.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + count].copy_from_slice(&bytes[..count]);
        self.len += count;
        self
    }

    pub fn text(&mut self, text: &str) -> &mut Line {
        self.raw(text.as_bytes())
    }

    pub fn number(&mut self, value: u64) -> &mut Line {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = value;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.raw(&digits[at..]);
            }
        }
    }

    pub fn signed(&mut self, value: i64) -> &mut Line {
        if value < 0 {
            self.raw(b"-");
        }
        self.number(value.unsigned_abs())
    }

    pub fn hex(&mut self, value: u64) -> &mut Line {
        self.raw(b"0x");
        let count = (64 - value.leading_zeros()).div_ceil(4).max(1);
        for i in (0..count).rev() {
            let digit = (value >> (4 * i)) as u8 & 15;
            self.raw(&[if digit < 10 {
                b'0' + digit
            } else {
                b'a' + digit - 10
            }]);
        }
        self
    }

    /// A number with blanks before it.
    pub fn padded(&mut self, value: u64, width: u32) -> &mut Line {
        for _ in value.checked_ilog10().unwrap_or(0) + 1..width {
            self.raw(b" ");
        }
        self.number(value)
    }

    /// Hexadecimal digits, at least so many.
    pub fn padded_hex(&mut self, value: u64, width: u32, fill: u8) -> &mut Line {
        let count = value.checked_ilog2().unwrap_or(0) / 4 + 1;
        for _ in count..width {
            self.raw(&[fill]);
        }
        for at in (0..count).rev() {
            let digit = (value >> (4 * at)) as usize & 15;
            self.raw(&b"0123456789abcdef"[digit..=digit]);
        }
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A decimal number, all of the bytes.
pub fn parse_number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 18 {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, b| {
        b.is_ascii_digit().then(|| value * 10 + (b - b'0') as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_columns() {
        let mut line = Line::new();
        line.padded(7, 4).padded(12345, 4).padded(0, 2).text("|");
        line.padded_hex(0x1f, 4, b'0').padded_hex(0, 3, b' ');
        line.padded_hex(u64::MAX, 2, b'0');
        assert_eq!(line.bytes(), b"   712345 0|001f  0ffffffffffffffff");
    }

    #[test]
    fn numbers() {
        let mut line = Line::new();
        line.number(0)
            .text(" ")
            .signed(-120)
            .text(" ")
            .hex(0x7fff0)
            .text(" ")
            .hex(0);
        assert_eq!(line.bytes(), b"0 -120 0x7fff0 0x0");
        assert_eq!(parse_number(b"42"), Some(42));
        assert_eq!(parse_number(b""), None);
        assert_eq!(parse_number(b"4x"), None);
    }

    #[test]
    fn long_lines_are_cut() {
        let mut line = Line::new();
        for _ in 0..100 {
            line.text("0123456789");
        }
        assert_eq!(line.bytes().len(), 512);
    }
}
