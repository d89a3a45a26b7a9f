//! The names that the terminal server serves, and what each is: `ttyS0 …`, `console`, `current` (the caller's controlling terminal),
//! `ptmx`, and the directory `pts`.

use cairn_idl::fs::s;
use cairn_resmgr::layout::makedev;

/// Most pseudo-terminals at once.
pub const PSEUDO_MAX: usize = 256;
/// Those that users other than 0 have together, and those of one of these.
pub const USERS_PSEUDO: usize = 224;
pub const EACH_USERS_PSEUDO: usize = 128;
/// Majors and minors, as Linux assigns them.
pub const SERIAL_MAJOR: u32 = 4;
pub const SERIAL_MINOR: u32 = 64;
pub const AUX_MAJOR: u32 = 5;
pub const SLAVE_MAJOR: u32 = 136;
/// Group of terminals in Debian's /etc/group.
pub const GROUP_TTY: u32 = 5;

/// How a terminal was opened. The name matters to stat, and to hang-ups: an open console survives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Own,
    Console,
    Current,
}

/// A node; terminals are indices in the server's table (serial lines first, then pseudo-terminals).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Root,
    Slaves,
    Multiplexer,
    /// The master side.
    Master(usize),
    Terminal(usize, Name),
}

pub fn serial_device(line: usize) -> u64 {
    makedev(SERIAL_MAJOR, SERIAL_MINOR + line as u32)
}

pub fn slave_device(number: usize) -> u64 {
    makedev(SLAVE_MAJOR, number as u32)
}

impl Node {
    /// Device number as stat tells it; `device` is the terminal's own.
    pub fn rdev(self, device: u64) -> u64 {
        match self {
            Node::Root | Node::Slaves => 0,
            Node::Multiplexer | Node::Master(_) => makedev(AUX_MAJOR, 2),
            Node::Terminal(_, Name::Own) => device,
            Node::Terminal(_, Name::Console) => makedev(AUX_MAJOR, 1),
            Node::Terminal(_, Name::Current) => makedev(AUX_MAJOR, 0),
        }
    }

    /// `own`: the terminal's permissions.
    pub fn mode(self, own: u32) -> u32 {
        match self {
            Node::Root | Node::Slaves => s::IFDIR | 0o755,
            Node::Multiplexer | Node::Master(_) => s::IFCHR | 0o666,
            Node::Terminal(_, Name::Current) => s::IFCHR | 0o666,
            Node::Terminal(_, Name::Console) => s::IFCHR | 0o600,
            Node::Terminal(_, Name::Own) => s::IFCHR | own,
        }
    }
}

/// A decimal number without sign or leading zeroes, as names below `pts` and behind `ttyS` are.
pub fn number(text: &[u8]) -> Option<usize> {
    if text.is_empty() || text.len() > 4 || (text.len() > 1 && text[0] == b'0') {
        return None;
    }
    text.iter().try_fold(0, |value, &digit| {
        digit
            .is_ascii_digit()
            .then(|| value * 10 + (digit - b'0') as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"12"), Some(12));
        for text in [&b""[..], b"01", b"-1", b"1a", b"99999"] {
            assert_eq!(number(text), None);
        }
    }
}
