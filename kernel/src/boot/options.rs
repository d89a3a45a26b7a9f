//! What the command line can say to the nucleus: words that begin with `nucleus.`.

const PREFIX: &[u8] = b"nucleus.";
const WORDS: [&[u8]; 8] = [
    b"nucleus.code=log",
    b"nucleus.hurry",
    b"nucleus.log=com1",
    b"nucleus.portals=general",
    b"nucleus.portals=none",
    b"nucleus.portals=several",
    b"nucleus.portals=shared",
    b"nucleus.stretch",
];
const TRACE: &[u8] = b"nucleus.trace=";

/// KiB for the trace, if the word asks for them.
pub fn trace(word: &[u8]) -> Option<usize> {
    let digits = word.strip_prefix(TRACE)?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// Is the word for somebody else, or one of the above?
pub fn is_understood(word: &[u8]) -> bool {
    !word.starts_with(PREFIX) || WORDS.contains(&word) || trace(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_or_not() {
        assert_eq!(trace(b"nucleus.trace=64"), Some(64));
        for word in [
            &b"nucleus.trace=64"[..],
            b"nucleus.stretch",
            b"mode=shell",
            b"nucleus",
        ] {
            assert!(is_understood(word));
        }
        for word in [
            &b"nucleus.trace=much"[..],
            b"nucleus.trace=",
            b"nucleus.portals=all",
            b"nucleus.stretch=1",
            b"nucleus.",
        ] {
            assert!(!is_understood(word));
        }
    }
}
