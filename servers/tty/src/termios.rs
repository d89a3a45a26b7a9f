//! `struct termios` of the Linux kernel's interface (36 bytes; `termios2` has two speeds behind it) and its bits.

/// Indices in [`Termios::cc`].
pub mod cc {
    pub const INTR: usize = 0;
    pub const QUIT: usize = 1;
    pub const ERASE: usize = 2;
    pub const KILL: usize = 3;
    pub const EOF: usize = 4;
    pub const TIME: usize = 5;
    pub const MIN: usize = 6;
    pub const START: usize = 8;
    pub const STOP: usize = 9;
    pub const SUSP: usize = 10;
    pub const EOL: usize = 11;
    pub const REPRINT: usize = 12;
    pub const DISCARD: usize = 13;
    pub const WERASE: usize = 14;
    pub const LNEXT: usize = 15;
    pub const EOL2: usize = 16;
    pub const COUNT: usize = 19;
}

/// Input flags.
pub mod i {
    pub const IGNBRK: u32 = 0o1;
    pub const BRKINT: u32 = 0o2;
    pub const PARMRK: u32 = 0o10;
    pub const ISTRIP: u32 = 0o40;
    pub const INLCR: u32 = 0o100;
    pub const IGNCR: u32 = 0o200;
    pub const ICRNL: u32 = 0o400;
    pub const IUCLC: u32 = 0o1000;
    pub const IXON: u32 = 0o2000;
    pub const IXANY: u32 = 0o4000;
    pub const IMAXBEL: u32 = 0o20000;
    pub const IUTF8: u32 = 0o40000;
}

/// Output flags.
pub mod o {
    pub const OPOST: u32 = 0o1;
    pub const OLCUC: u32 = 0o2;
    pub const ONLCR: u32 = 0o4;
    pub const OCRNL: u32 = 0o10;
    pub const ONOCR: u32 = 0o20;
    pub const ONLRET: u32 = 0o40;
    /// Tab delay field; this value of it means "as spaces".
    pub const XTABS: u32 = 0o14000;
}

/// Control flags.
pub mod c {
    pub const CBAUD: u32 = 0o10017;
    pub const B38400: u32 = 0o17;
    pub const B115200: u32 = 0o10002;
    /// termios2: the speed is the number behind the structure.
    pub const BOTHER: u32 = 0o10000;
    pub const CSIZE: u32 = 0o60;
    pub const CS8: u32 = 0o60;
    pub const CSTOPB: u32 = 0o100;
    pub const CREAD: u32 = 0o200;
    pub const PARENB: u32 = 0o400;
    pub const PARODD: u32 = 0o1000;
    pub const HUPCL: u32 = 0o2000;
    pub const CLOCAL: u32 = 0o4000;
}

/// Local flags.
pub mod l {
    pub const ISIG: u32 = 0o1;
    pub const ICANON: u32 = 0o2;
    pub const ECHO: u32 = 0o10;
    pub const ECHOE: u32 = 0o20;
    pub const ECHOK: u32 = 0o40;
    pub const ECHONL: u32 = 0o100;
    pub const NOFLSH: u32 = 0o200;
    pub const TOSTOP: u32 = 0o400;
    pub const ECHOCTL: u32 = 0o1000;
    pub const ECHOPRT: u32 = 0o2000;
    pub const ECHOKE: u32 = 0o4000;
    pub const IEXTEN: u32 = 0o100000;
}

/// Size of the kernel's `struct termios`, and of `struct termios2`.
pub const SIZE: usize = 36;
pub const SIZE2: usize = 44;

/// Speeds by their code in CBAUD (0..=15, then with bit 0o10000).
const LOW_SPEEDS: [u32; 16] = [
    0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400,
];
const HIGH_SPEEDS: [u32; 5] = [0, 57_600, 115_200, 230_400, 460_800];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termios {
    pub iflag: u32,
    pub oflag: u32,
    pub cflag: u32,
    pub lflag: u32,
    pub line: u8,
    pub cc: [u8; cc::COUNT],
    /// Bits per second, from the code or from `termios2`.
    pub speed: u32,
}

impl Default for Termios {
    /// As Linux sets up a serial console.
    fn default() -> Termios {
        let mut chars = [0; cc::COUNT];
        chars[..17].copy_from_slice(&[
            0x03, 0x1c, 0x7f, 0x15, 0x04, 0, 1, 0, 0x11, 0x13, 0x1a, 0, 0x12, 0x0f, 0x17, 0x16, 0,
        ]);
        Termios {
            iflag: i::ICRNL | i::IXON,
            oflag: o::OPOST | o::ONLCR,
            cflag: c::B115200 | c::CS8 | c::CREAD | c::HUPCL | c::CLOCAL,
            lflag: l::ISIG
                | l::ICANON
                | l::ECHO
                | l::ECHOE
                | l::ECHOK
                | l::ECHOCTL
                | l::ECHOKE
                | l::IEXTEN,
            line: 0,
            cc: chars,
            speed: 115_200,
        }
    }
}

impl Termios {
    /// What Linux gives a new pseudo-terminal.
    pub fn pseudo() -> Termios {
        Termios {
            cflag: c::B38400 | c::CS8 | c::CREAD,
            speed: 38_400,
            ..Termios::default()
        }
    }

    pub fn i(&self, bit: u32) -> bool {
        self.iflag & bit != 0
    }

    pub fn o(&self, bit: u32) -> bool {
        self.oflag & bit != 0
    }

    pub fn l(&self, bit: u32) -> bool {
        self.lflag & bit != 0
    }

    /// Is `byte` this control character? Zero switches one off.
    pub fn is(&self, byte: u8, which: usize) -> bool {
        byte != 0 && self.cc[which] == byte
    }

    /// The bytes of `struct termios2`, of which the first [`SIZE`] are `struct termios`.
    pub fn encode(&self) -> [u8; SIZE2] {
        let mut bytes = [0; SIZE2];
        for (slot, word) in bytes
            .chunks_exact_mut(4)
            .zip([self.iflag, self.oflag, self.cflag, self.lflag])
        {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        bytes[16] = self.line;
        bytes[17..SIZE].copy_from_slice(&self.cc);
        bytes[36..40].copy_from_slice(&self.speed.to_le_bytes());
        bytes[40..].copy_from_slice(&self.speed.to_le_bytes());
        bytes
    }

    /// From `struct termios` or `termios2`, told apart by length. `None` if it is neither.
    pub fn decode(bytes: &[u8]) -> Option<Termios> {
        if bytes.len() != SIZE && bytes.len() != SIZE2 {
            return None;
        }
        let word = |at: usize| {
            bytes[at..at + 4]
                .iter()
                .rev()
                .fold(0u32, |value, &byte| value << 8 | byte as u32)
        };
        let mut chars = [0; cc::COUNT];
        chars.copy_from_slice(&bytes[17..SIZE]);
        let cflag = word(8);
        let code = cflag & c::CBAUD;
        let speed = if code == c::BOTHER {
            if bytes.len() == SIZE2 {
                word(40)
            } else {
                0
            }
        } else if code & c::BOTHER == 0 {
            LOW_SPEEDS[code as usize]
        } else {
            *HIGH_SPEEDS.get(code as usize & 15)?
        };
        Some(Termios {
            iflag: word(0),
            oflag: word(4),
            cflag,
            lflag: word(12),
            line: bytes[16],
            cc: chars,
            speed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_as_the_kernel_and_back() {
        let termios = Termios::default();
        let bytes = termios.encode();
        assert_eq!(bytes[..4], [0, 5, 0, 0]);
        assert_eq!(bytes[12..16], 0x8a3bu32.to_le_bytes());
        assert_eq!(bytes[17], 3);
        assert_eq!(bytes[17 + cc::MIN], 1);
        assert_eq!(Termios::decode(&bytes[..SIZE]), Some(termios));
        assert_eq!(Termios::decode(&bytes), Some(termios));
        assert_eq!(Termios::decode(&bytes[..20]), None);
    }

    #[test]
    fn speeds_follow_their_codes() {
        let mut bytes = Termios::default().encode();
        for (code, speed) in [
            (0o15, 9600),
            (0o17, 38_400),
            (0o10001, 57_600),
            (0o10002, 115_200),
        ] {
            bytes[8..12].copy_from_slice(&(c::CS8 | code).to_le_bytes());
            assert_eq!(
                Termios::decode(&bytes[..SIZE]).map(|t| t.speed),
                Some(speed)
            );
        }
        bytes[8..12].copy_from_slice(&(c::CS8 | c::BOTHER).to_le_bytes());
        bytes[40..].copy_from_slice(&31_250u32.to_le_bytes());
        assert_eq!(Termios::decode(&bytes).map(|t| t.speed), Some(31_250));
    }
}
