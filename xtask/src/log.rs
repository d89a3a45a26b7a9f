//! Following a machine's log while it is written: showing it, and noticing that the kernel gave up.
//!
//! Lines with a meaning (all others are for people): `nucleus panic: …` and `nucleus exception …` come from a nucleus that cannot go on,
//! `!panic …` from a component that the system cannot do without; `!backtrace NAME ADDRESS WORD@PLACE…` says where ([`crate::unwind`]). Linux says `Kernel panic`.

use crate::symbols::Symbols;
use crate::{cli, compiled, places};
use anyhow::{bail, Context, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// What a log is called in the folder of its machine.
pub const NAME: &str = "nucleus.log";

/// `./cairn log`: a machine's log with the names of domains, and with backtraces as functions and lines.
pub fn command(arguments: &cli::Log) -> Result<u8> {
    let given = arguments.log.clone();
    let path = given.unwrap_or_else(|| places::build().join("log/last"));
    let path = match path.is_dir() {
        true => path.join(NAME),
        false => path,
    };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && arguments.log.is_none() => {
            bail!("no machine has left a log yet: `./cairn run` or `./cairn exec` starts one")
        }
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    print!("{}", Log::follow(&path, false).translate(&bytes));
    Ok(0)
}

/// One log being read.
pub struct Log {
    path: PathBuf,
    offset: u64,
    partial: String,
    symbols: Symbols,
    /// Show every line as it comes.
    verbose: bool,
    /// The line in which the kernel gave up.
    panic: Option<String>,
    /// Last lines, symbolised.
    recent: Vec<String>,
}

/// So many of the last lines are shown when a machine fails.
const RECENT: usize = 40;

impl Log {
    pub fn follow(path: &Path, verbose: bool) -> Log {
        Log {
            path: path.to_path_buf(),
            offset: 0,
            partial: String::new(),
            symbols: Symbols::default(),
            verbose,
            panic: None,
            recent: Vec::new(),
        }
    }

    /// Take what has been written since the last time.
    pub fn look(&mut self) {
        // The file may not be there yet, or no longer: then there is nothing to see.
        let Ok(mut file) = File::open(&self.path) else {
            return;
        };
        let mut bytes = Vec::new();
        if file.seek(SeekFrom::Start(self.offset)).is_err() || file.read_to_end(&mut bytes).is_err()
        {
            return;
        }
        self.offset += bytes.len() as u64;
        self.partial.push_str(&String::from_utf8_lossy(&bytes));
        while let Some(end) = self.partial.find('\n') {
            let line: String = self.partial.drain(..=end).collect();
            self.line(line.trim_end());
        }
    }

    /// A whole log, for people.
    fn translate(&mut self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let lines = text.lines().filter_map(|line| self.shown(line.trim_end()));
        lines.map(|line| line + "\n").collect()
    }

    /// A line as people read it, if they do.
    fn shown(&mut self, line: &str) -> Option<String> {
        if line.is_empty() || line.starts_with(compiled::MARK) {
            return None;
        }
        self.symbols.look(line);
        Some(match line.split_once("!backtrace ") {
            Some((_, rest)) => self.symbols.backtrace(rest),
            None => with_source(&self.symbols.with_names(line)),
        })
    }

    fn line(&mut self, line: &str) {
        let Some(shown) = self.shown(line) else {
            return;
        };
        if self.panic.is_none() {
            self.panic = gave_up(line);
        }
        if self.verbose {
            eprintln!("{shown}");
        }
        self.recent.push(shown);
        if self.recent.len() > RECENT {
            self.recent.remove(0);
        }
    }

    /// Did the kernel say that it cannot go on?
    pub fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// The line to tell as the reason when the machine is gone.
    pub fn last_line(&self) -> Option<&str> {
        self.recent.last().map(String::as_str)
    }

    /// The last lines.
    pub fn recent_lines(&self) -> String {
        self.recent.join("\n")
    }

    /// What a person wants to see after a failure: from the first sign of it, or the last few lines.
    pub fn failure_lines(&self) -> Vec<String> {
        let begin = self.recent.iter().position(|line| gave_up(line).is_some());
        let begin = begin.unwrap_or(self.recent.len().saturating_sub(8));
        let lines = self.recent.get(begin..).unwrap_or(&[]);
        lines
            .iter()
            .map(|line| format!("  | {}", line.replace('\n', "\n  | ")))
            .collect()
    }

    /// Show that on standard error, if it was not shown as it came.
    pub fn show_failure(&self) {
        if !self.verbose {
            self.failure_lines()
                .iter()
                .for_each(|line| eprintln!("{line}"));
        }
    }
}

/// The nucleus says of its panics only where they are: its source says why.
fn with_source(line: &str) -> String {
    let source = line.strip_prefix("nucleus panic: ").and_then(|place| {
        let mut place = place.split(':');
        let text = std::fs::read_to_string(places::root().join(place.next()?)).ok()?;
        let number: usize = place.next()?.parse().ok()?;
        text.lines().nth(number.checked_sub(1)?).map(str::to_string)
    });
    match source {
        Some(source) => format!("{line}\n{source}"),
        None => line.to_string(),
    }
}

/// The text of a line in which a kernel gives up.
fn gave_up(line: &str) -> Option<String> {
    if let Some(text) = line.strip_prefix("!panic") {
        return Some(text.trim_start_matches([':', ' ']).to_string());
    }
    if line.starts_with("nucleus panic") || line.starts_with("nucleus exception") {
        return Some(line.to_string());
    }
    line.find("Kernel panic").map(|at| line[at..].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_found_in_pieces() {
        let path = std::env::temp_dir().join(format!("xtask-log-{}", std::process::id()));
        let mut log = Log::follow(&path, false);
        log.look();
        std::fs::write(&path, "fine\n!pan").unwrap();
        log.look();
        assert_eq!(log.panic(), None);
        std::fs::write(&path, "fine\n!panic: out of frames\nmore\n").unwrap();
        log.look();
        assert_eq!(log.panic(), Some("out of frames"));
        assert_eq!(log.last_line(), Some("more"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_whole_log_is_shown_with_names() {
        let mut log = Log::follow(Path::new("none"), false);
        let text = log.translate(
            b"[1] init: `greet` is domain 1048598\r\n\n[2] greet: panicked\n[2] !backtrace greet 0x12 0x34@2\n[3] nucleus: domain 22 is gone\xff",
        );
        let expected =
            "[1] init: `greet` is domain 1048598\n[2] greet: panicked\nbacktrace of greet:\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.ends_with("[3] nucleus: domain 22 (greet) is gone\u{fffd}\n"),
            "{text}"
        );
    }

    #[test]
    fn linux_panics_count() {
        let line = "[    1.0] Kernel panic - not syncing: Attempted to kill init!";
        assert!(gave_up(line).unwrap().starts_with("Kernel panic"));
        assert_eq!(gave_up("no panic here"), None);
    }

    #[test]
    fn a_panic_of_the_nucleus_is_shown_with_its_line() {
        let place = "nucleus panic: kernel/src/main.rs:1:1";
        let shown = with_source(place);
        assert!(shown.starts_with("nucleus panic: kernel/src/main.rs:1:1\n//! The nucleus as"));
        for other in [
            "nucleus panic: exception 14 at 0x1",
            "nucleus panic: a/b.rs:1:1",
            "fine",
        ] {
            assert_eq!(with_source(other), other);
        }
    }
}
