//! The code that machines made for portals while tests ran in them: every block that was written goes through the decoder ([`crate::portal_code`]).
//!
//! While [`watch`] is on, machines that keep no count of instructions are told to log the code that they make; when such a machine is done its log is read.

use crate::portal_code::Reach;
use anyhow::Result;
use std::path::Path;
use std::sync::Mutex;

/// What a line about code begins with; for nobody else.
pub const MARK: &str = "nucleus: code ";

/// What came of it so far.
struct Seen {
    reach: Option<Reach>,
    machines: usize,
    blocks: usize,
    wrong: Option<String>,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

/// From now on.
pub fn watch() {
    if let Ok(mut seen) = SEEN.lock() {
        *seen = Some(Seen {
            reach: None,
            machines: 0,
            blocks: 0,
            wrong: None,
        });
    }
}

/// A machine is about to be started that makes code: what has to be on its command line.
pub fn words() -> &'static str {
    match SEEN.lock().as_deref_mut() {
        Ok(Some(seen)) => {
            seen.machines += 1;
            " nucleus.code=log"
        }
        _ => "",
    }
}

/// A machine with this log is done.
pub fn collect(log: &Path) {
    let Ok(mut seen) = SEEN.lock() else { return };
    let (Some(seen), Ok(bytes)) = (seen.as_mut(), std::fs::read(log)) else {
        return;
    };
    if let Err(error) = seen.log(&String::from_utf8_lossy(&bytes)) {
        seen.wrong = Some(format!("{error:#}"));
    }
}

/// What lines of a log tell about code. (The last line may be cut off by the machine's end.)
pub fn lines(log: &str) -> impl Iterator<Item = &str> {
    let whole = log.split_inclusive('\n').filter(|l| l.ends_with('\n'));
    whole.filter_map(|line| line.trim_end().strip_prefix(MARK))
}

/// What is wrong with all that was collected, or how many blocks are right. None: no such machine ran.
pub fn verdict() -> Option<Result<usize, String>> {
    let seen = SEEN.lock().ok()?;
    seen.as_ref()?.verdict()
}

impl Seen {
    fn log(&mut self, text: &str) -> Result<()> {
        for line in lines(text) {
            let reach = match &mut self.reach {
                Some(reach) => reach,
                none => none.insert(Reach::of_built()?),
            };
            self.blocks += 1;
            let checked = reach
                .told(line)
                .and_then(|codes| codes.iter().try_for_each(|code| code.check().map(|_| ())));
            if let Err(why) = checked {
                self.wrong.get_or_insert(format!("{why}\n{line}"));
            }
        }
        Ok(())
    }

    fn verdict(&self) -> Option<Result<usize, String>> {
        match (&self.wrong, self.machines, self.blocks) {
            (Some(why), _, _) => Some(Err(why.clone())),
            (None, 0, _) => None,
            (None, _, 0) => Some(Err("no machine made any code".to_string())),
            (None, _, blocks) => Some(Ok(blocks)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(machines: usize, blocks: usize) -> Seen {
        Seen {
            reach: None,
            machines,
            blocks,
            wrong: None,
        }
    }

    #[test]
    fn nothing_looked_at_proves_nothing() {
        assert_eq!(seen(0, 0).verdict(), None);
        assert!(seen(1, 0).verdict().is_some_and(|v| v.is_err()));
        assert_eq!(seen(1, 7).verdict(), Some(Ok(7)));
    }

    #[test]
    fn what_is_wrong_stays() {
        let mut seen = seen(1, 7);
        seen.wrong = Some("x".to_string());
        assert_eq!(seen.verdict(), Some(Err("x".to_string())));
    }

    #[test]
    fn other_lines_and_a_cut_one_are_passed_over() {
        let mut seen = seen(1, 0);
        assert!(seen.log("[11] vm: hello\nnucleus: code 00").is_ok());
        assert_eq!(seen.blocks, 0);
    }
}
