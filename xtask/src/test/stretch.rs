//! `./cairn test --stretch`: the longest stretches with interrupts off over the suites of programs and of components. The machines run in deterministic mode with `nucleus.stretch`, so that the nucleus
//! logs each stretch above 1,200 instructions that is longer than those before of its kind.

use super::{native, programs, Report};
use crate::cli;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most that a stretch may take.
const MOST: u64 = 3000;
/// What stands before the number in the nucleus's log, and behind it.
const BEFORE: &str = "nucleus: stretch of ";
const BEHIND: &str = " in ";

pub fn run(report: &Report, arguments: &cli::Test) -> Result<()> {
    let mut stretches = Stretches::default();
    let measured = programs::stretch(report, arguments, &mut stretches)?
        + native::stretch(report, &mut stretches)?;
    let verdict = match (stretches.print(), measured) {
        (_, 0) => Err("nothing was measured: nothing with one core has such a name".to_string()),
        (false, _) => Err("interrupts are off for longer than they may".to_string()),
        (true, _) => Ok(()),
    };
    report.result("stretch", Duration::ZERO, verdict);
    Ok(())
}

/// The longest of each kind, and where it was.
#[derive(Default)]
pub struct Stretches {
    longest: BTreeMap<String, (u64, String)>,
    /// The log that is being read, and how far it was.
    log: PathBuf,
    read: usize,
}

impl Stretches {
    /// Take what the log has gained while `name` ran.
    pub fn look(&mut self, log: &Path, name: &str) {
        if self.log != log {
            self.log = log.to_path_buf();
            self.read = 0;
        }
        // A machine that does not boot leaves none; then there is nothing to see.
        let text = std::fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(text.get(self.read..).unwrap_or_default()).into_owned();
        // A line that is being written is for the next time.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole;
        for (what, ticks) in text[..whole].lines().filter_map(stretch) {
            let longest = self.longest.entry(what.to_string()).or_default();
            if ticks > longest.0 {
                *longest = (ticks, name.to_string());
            }
        }
    }

    /// All of them, the longest first. True if none is too long.
    pub fn print(&self) -> bool {
        let mut all: Vec<_> = self.longest.iter().collect();
        all.sort_by_key(|(_, (ticks, _))| std::cmp::Reverse(*ticks));
        println!(
            "stretches with interrupts off of more than 1,200 instructions (goal: at most {MOST})"
        );
        for (what, (ticks, name)) in &all {
            let mark = if *ticks > MOST { "!" } else { " " };
            println!("{mark} {ticks:>6}  {what}, in {name}");
        }
        all.iter().all(|(_, (ticks, _))| *ticks <= MOST)
    }
}

/// In what it was, and how long.
fn stretch(line: &str) -> Option<(&str, u64)> {
    let (_, rest) = line.split_once(BEFORE)?;
    let (ticks, what) = rest.split_once(BEHIND)?;
    Some((what, ticks.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_read_from_the_log() {
        let line = "12.5 nucleus: stretch of 2989 in portal kind 5 operation 9";
        assert_eq!(stretch(line), Some(("portal kind 5 operation 9", 2989)));
        assert_eq!(stretch("nucleus: stretch of many in vector 14"), None);
        assert_eq!(stretch("tmpfs: 5 nodes"), None);
    }

    #[test]
    fn the_longest_of_each_kind_is_kept() {
        let log = std::env::temp_dir().join(format!("cairn-stretch-{}", std::process::id()));
        let mut stretches = Stretches::default();
        let mut text = "nucleus: stretch of 1600 in vector 14\nnucleus: stretch of 2".to_string();
        std::fs::write(&log, &text).unwrap();
        stretches.look(&log, "one");
        text.push_str("000 in vector 14\nnucleus: stretch of 3100 in vector 32\n");
        std::fs::write(&log, &text).unwrap();
        stretches.look(&log, "two");
        std::fs::remove_file(&log).unwrap();
        assert_eq!(stretches.longest["vector 14"], (2000, "two".to_string()));
        assert!(!stretches.print());
    }
}
