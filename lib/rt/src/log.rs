//! Lines for the nucleus log.

use crate::portal::Portal;
use cairn_abi::layout::native_slot;
use cairn_abi::service;
use core::fmt::{self, Write};

/// Longest line; the rest is cut.
const LINE: usize = 512;

/// A line that is being formatted.
struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let n = s.len().min(room.len());
        room[..n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Write one line, prefixed with the component's name. Use [`crate::log!`].
pub fn write(arguments: fmt::Arguments) {
    let mut line = Line {
        bytes: [0; LINE],
        len: 0,
    };
    let _ = write!(line, "{}: ", crate::startup::name());
    raw(line, arguments);
}

/// Write one line as it is.
pub fn write_plain(arguments: fmt::Arguments) {
    raw(
        Line {
            bytes: [0; LINE],
            len: 0,
        },
        arguments,
    );
}

fn raw(mut line: Line, arguments: fmt::Arguments) {
    let _ = line.write_fmt(arguments);
    let _ = Portal(native_slot::LOG).service(
        service::log::WRITE,
        &[line.bytes.as_ptr() as u64, line.len as u64],
    );
}

/// `log!("…", …)`: one line for the nucleus log.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { $crate::log::write(core::format_args!($($argument)*)) };
}
