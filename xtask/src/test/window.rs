//! `entrance/window`: `./cairn run` on a terminal whose size changes; the guest's terminal follows, and its shell gets SIGWINCH.

use anyhow::Result;
use rustix::fs::{fcntl_setfl, OFlags};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{tcsetwinsize, Winsize};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use super::Verdict;

/// How long each step may take, on a busy host.
const STEP: Duration = Duration::from_secs(90);

struct Terminal {
    master: File,
    shown: String,
}

impl Terminal {
    fn new(rows: u16, columns: u16) -> Result<(Terminal, File)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname(&master, Vec::new())?;
        let slave = File::options()
            .read(true)
            .write(true)
            .open(path.to_string_lossy().as_ref())?;
        let terminal = Terminal {
            master: File::from(master),
            shown: String::new(),
        };
        terminal.resize(rows, columns)?;
        fcntl_setfl(&terminal.master, OFlags::NONBLOCK)?;
        Ok((terminal, slave))
    }

    fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.master, size)?)
    }

    fn type_line(&mut self, line: &str) -> Result<()> {
        Ok(self.master.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Read until this is shown behind everything that was waited for before. False: it is not in time, or the other side has closed.
    fn wait(&mut self, text: &str) -> bool {
        let begun = Instant::now();
        let mut bytes = [0; 4096];
        loop {
            if let Some(at) = self.shown.find(text) {
                self.shown.drain(..at + text.len());
                return true;
            }
            match self.master.read(&mut bytes) {
                Ok(count @ 1..) => {
                    let text = String::from_utf8_lossy(&bytes[..count]);
                    self.shown.push_str(&text);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock && begun.elapsed() < STEP => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => return false,
            }
        }
    }
}

pub fn window() -> Result<Verdict> {
    let (mut terminal, slave) = Terminal::new(31, 97)?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("run")
        .stdin(slave.try_clone()?)
        .stdout(slave.try_clone()?)
        .stderr(slave)
        .spawn()?;
    let steps = |terminal: &mut Terminal| -> Result<Option<&str>> {
        if !terminal.wait("Welcome") || !terminal.wait("# ") {
            return Ok(Some("no shell"));
        }
        // A shell of its own: one that reads lines takes the signal for itself. The words are put together, so that their echo is not taken for what is wanted.
        terminal.type_line(
            r#"sh -c 'trap "echo win""ch \$(stty size); exit" WINCH; echo no"w" $(stty size); while :; do sleep 0.1; done'"#,
        )?;
        if !terminal.wait("now 31 97") {
            return Ok(Some("not the size at the start"));
        }
        terminal.resize(44, 123)?;
        if !terminal.wait("winch 44 123") {
            return Ok(Some("no SIGWINCH, or not the new size"));
        }
        terminal.type_line("poweroff")?;
        Ok(None)
    };
    let failed = steps(&mut terminal);
    if !matches!(failed, Ok(None)) {
        // Ctrl-A X.
        let _ = terminal.master.write_all(b"\x01x");
    }
    let begun = Instant::now();
    let status = loop {
        // Whoever shows something must not wait for room.
        let _ = terminal.master.read(&mut [0; 4096]);
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() > STEP => {
                child.kill()?;
                break child.wait()?;
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    match failed? {
        Some(why) => Ok(Err(format!("{why}:\n{}", terminal.shown))),
        None if !status.success() => Ok(Err(format!("it ended with {status}"))),
        None => Ok(Ok(())),
    }
}
