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
    pub const EXTPROC: u32 = 0o200000;
}

/// Size of the kernel's `struct termios`, and of `struct termios2`.
pub const SIZE: usize = 36;
pub const SIZE2: usize = 44;

/// Size of `struct termio`, System V's: the lower halves of the flags, and the first control characters.
pub const SIZE_OLD: usize = 18;
const OLD_COUNT: usize = 8;

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

impl Termios {
    /// `struct termio`.
    pub fn encode_old(&self) -> [u8; SIZE_OLD] {
        let mut bytes = [0; SIZE_OLD];
        for (half, flags) in bytes
            .chunks_exact_mut(2)
            .zip([self.iflag, self.oflag, self.cflag, self.lflag])
        {
            half.copy_from_slice(&(flags as u16).to_le_bytes());
        }
        bytes[8] = self.line;
        bytes[9..9 + OLD_COUNT].copy_from_slice(&self.cc[..OLD_COUNT]);
        bytes
    }

    /// With what `struct termio` tells; the rest stays.
    pub fn with_old(&self, bytes: &[u8; SIZE_OLD]) -> Option<Termios> {
        let mut whole = self.encode();
        for (flags, half) in whole.chunks_exact_mut(4).zip(bytes.chunks_exact(2)).take(4) {
            flags[..2].copy_from_slice(half);
        }
        whole[16..17 + OLD_COUNT].copy_from_slice(&bytes[8..9 + OLD_COUNT]);
        Termios::decode(&whole)
    }
}

/// The settings that stay (TIOCSLCKTRMIOS), as the bytes of `struct termios`: bits of flags, and characters that are not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locked(pub [u8; SIZE]);

impl Default for Locked {
    fn default() -> Locked {
        Locked([0; SIZE])
    }
}

impl Locked {
    /// What comes of a wish.
    pub fn keep(&self, old: &Termios, new: &Termios) -> Termios {
        if *self == Locked::default() {
            return *new;
        }
        let flags = |at: usize, old: u32, new: u32| {
            let mask = [at, at + 1, at + 2, at + 3].map(|at| self.0[at]);
            let mask = u32::from_le_bytes(mask);
            old & mask | new & !mask
        };
        let mut kept = *new;
        kept.iflag = flags(0, old.iflag, new.iflag);
        kept.oflag = flags(4, old.oflag, new.oflag);
        kept.cflag = flags(8, old.cflag, new.cflag);
        kept.lflag = flags(12, old.lflag, new.lflag);
        if self.0[16] != 0 {
            kept.line = old.line;
        }
        for (at, place) in kept.cc.iter_mut().enumerate() {
            if self.0[17 + at] != 0 {
                *place = old.cc[at];
            }
        }
        if (kept.cflag ^ new.cflag) & c::CBAUD != 0 {
            kept.speed = old.speed;
        }
        kept
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
    fn the_old_structure_has_the_lower_halves() {
        let mut termios = Termios::default();
        termios.iflag |= 0x1_0000;
        let mut old = termios.encode_old();
        assert_eq!(old[..4], [0, 5, 5, 0]);
        assert_eq!(old[8..], [0, 3, 0x1c, 0x7f, 0x15, 4, 0, 1, 0, 0]);
        assert_eq!(termios.with_old(&old), Some(termios));
        old[0] = 1;
        old[4..6].copy_from_slice(&((c::CS8 | 0o15) as u16).to_le_bytes());
        old[9] = b'x';
        let new = termios.with_old(&old).unwrap();
        assert_eq!((new.iflag, new.oflag), (0x1_0501, termios.oflag));
        assert_eq!((new.cc[cc::INTR], new.speed), (b'x', 9600));
        assert_eq!(new.cc[1..], termios.cc[1..]);
    }

    #[test]
    fn what_is_locked_stays() {
        let old = Termios::default();
        let mut new = Termios::pseudo();
        (new.iflag, new.line, new.cc) = (0, 1, [b'y'; cc::COUNT]);
        assert_eq!(Locked::default().keep(&old, &new), new);
        let mut locked = Locked::default();
        locked.0[1] = 1;
        locked.0[8..12].fill(0xff);
        locked.0[17 + cc::INTR] = 1;
        let kept = locked.keep(&old, &new);
        assert_eq!((kept.iflag, kept.cflag), (i::ICRNL, old.cflag));
        assert_eq!((kept.speed, kept.line), (115_200, 1));
        assert_eq!(kept.cc[..2], [3, b'y']);
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
