//! The size of the host's terminal, followed: the second serial port brings a line `ROWS COLUMNS` whenever it changes, and once when it is asked for by a byte.
//!
//! A port of its own, so that nothing that a program shows or somebody types can be taken for it.

use crate::sys;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

const PORT: &str = "/dev/ttyS1";
/// Longest line.
const LINE: usize = 16;

/// What comes through the port.
#[derive(Default)]
pub struct Window {
    port: Option<File>,
    line: Vec<u8>,
    /// What was said last; (0, 0): nothing.
    pub size: (u16, u16),
}

impl Window {
    /// From this size on. Without the port it stays.
    pub fn new(rows: u16, columns: u16) -> Window {
        let mut options = File::options();
        let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
        options.read(true).write(true).custom_flags(flags);
        let port = options.open(PORT).ok();
        let port = port.filter(|port| sys::make_raw(port.as_raw_fd()).is_ok());
        if let Some(port) = &port {
            // Where nobody is at the other end nobody answers.
            let _ = sys::write(port.as_raw_fd(), b"?");
        }
        Window {
            port,
            line: Vec::new(),
            size: (rows, columns),
        }
    }

    pub fn descriptor(&self) -> Option<RawFd> {
        self.port.as_ref().map(File::as_raw_fd)
    }

    /// Take what has come; whether the size is another now.
    pub fn look(&mut self) -> bool {
        let before = self.size;
        let mut bytes = [0; 64];
        let taken = self.descriptor().map(|fd| sys::read(fd, &mut bytes));
        match taken {
            Some(Ok(0)) => self.port = None,
            Some(Ok(count)) => self.take(&bytes[..count]),
            Some(Err(e)) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Some(Err(_)) => self.port = None,
            None => {}
        }
        self.size != before
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                if let Some(size) = size(&self.line) {
                    self.size = size;
                }
                self.line.clear();
            } else if self.line.len() < LINE {
                self.line.push(byte);
            }
        }
    }
}

/// `24 80`. Nothing is 0, and nothing else is a size.
fn size(line: &[u8]) -> Option<(u16, u16)> {
    let text = std::str::from_utf8(line).ok()?;
    let (rows, columns) = text.split_once(' ')?;
    let (rows, columns) = (rows.parse().ok()?, columns.parse().ok()?);
    (rows > 0 && columns > 0).then_some((rows, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_in_lines_and_nothing_else_counts() {
        let mut window = Window::default();
        window.take(b"24 8");
        assert_eq!(window.size, (0, 0));
        window.take(b"0\n30");
        assert_eq!(window.size, (24, 80));
        window.take(b" 100\n0 5\nx y\n70000 1\n-1 4\n\n");
        assert_eq!(window.size, (30, 100));
        window.take(&[b'1'; 1000]);
        window.take(b" 1\n50 132\n");
        assert_eq!(window.size, (50, 132));
    }
}
