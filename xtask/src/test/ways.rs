//! The ways of a message (suite `native`): a component that plays a game of messages and folds all that it sees into one number is run for each seed of its
//! file's `# seeds: …` line in three machines: as usual, with the code that several cores have (`nucleus.portals=several`), and with `nucleus.portals=general`. The numbers must be equal;
//! and in the first two, but not in the third, messages must have gone by the code behind the portals, which takes the nucleus lock in the second only.

use super::native::{lines, nobody_else_died, read};
use super::{batch, Verdict};
use crate::cli::System;
use crate::compiled;
use crate::guest::Guest;
use crate::machine::Boot;
use crate::portal_code::{Code, Reach};
use anyhow::Result;
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps of one game, and the fewest messages by the code behind the portals that make it worth something.
const COUNT: u64 = 250_000;
const FEWEST: u64 = 25_000;
const LIMIT: Duration = Duration::from_secs(900);

/// The seeds that a component's file names; none: it is another kind of test.
pub fn seeds(manifest: &str) -> Vec<String> {
    lines(manifest, "# seeds: ")
        .iter()
        .flat_map(|line| line.split_whitespace().map(String::from))
        .collect()
}

/// What a game came to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    seen: String,
    direct: u64,
}

/// How often a machine made code for a call: such as takes the nucleus lock, and other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Made {
    locking: usize,
    other: usize,
}

/// Which code behind the portals a machine has, and what there is on its command line for that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    One,
    Several,
    General,
}

impl Way {
    fn words(self) -> &'static str {
        match self {
            Way::One => "",
            Way::Several => " nucleus.portals=several",
            Way::General => " nucleus.portals=general",
        }
    }

    /// Did the game go this way?
    fn judge(self, end: &End, made: Made) -> Verdict {
        let direct = end.direct >= FEWEST;
        let right = match (self, made.locking > 0, made.other > 0) {
            (Way::One, false, true) | (Way::Several, true, false) => direct,
            (Way::General, false, false) => end.direct == 0,
            _ => false,
        };
        if right {
            return Ok(());
        }
        Err(format!(
            "{} messages by the code behind the portals; for calls it was made {} times with the lock, {} times without it",
            end.direct, made.locking, made.other
        ))
    }
}

/// The outer error is the host's.
pub fn compare(file: &Path, name: &str, seeds: &[String]) -> Result<Verdict> {
    for seed in seeds {
        let game = format!("{name}.count={COUNT} {name}.seed={seed}");
        let mut ends = Vec::new();
        for way in [Way::One, Way::Several, Way::General] {
            let words = format!("{game}{}", way.words());
            let played = play(file, name, &words)?.and_then(|(end, made)| {
                way.judge(&end, made)?;
                Ok(end.seen)
            });
            match played {
                Ok(seen) => ends.push(seen),
                Err(why) => return Ok(Err(format!("{words}: {why}"))),
            }
        }
        if ends.iter().any(|seen| *seen != ends[0]) {
            return Ok(Err(format!(
                "{game}: with the code of one core, of several, and the general way alone: {}",
                ends.join(", ")
            )));
        }
    }
    Ok(Ok(()))
}

/// One machine with these words on its command line.
fn play(file: &Path, name: &str, words: &str) -> Result<Result<(End, Made), String>> {
    let mut machine = batch::machine(System::Cairn, "256M", Vec::new());
    machine.with = Some(file.to_path_buf());
    machine.append = Some(words.to_string());
    let boot = Boot::prepare("native", &machine)?;
    let log = boot.nucleus_log();
    let guest = match Guest::start(boot, &machine, false)? {
        Ok(guest) => guest,
        Err(failure) => return Ok(Err(failure.to_string())),
    };
    let deadline = Instant::now() + LIMIT;
    loop {
        let text = read(&log);
        if let Err(why) = nobody_else_died(&text, "nobody") {
            return Ok(Err(why));
        }
        if let Some(end) = end(&text, name) {
            guest.power_off();
            let made = made(&text, &Reach::of_built()?);
            return Ok(end.and_then(|end| Ok((end, made?))));
        }
        if text.contains("nucleus panic: ") || Instant::now() > deadline {
            let last = text.lines().last().unwrap_or_default();
            return Ok(Err(format!("no end; the log's last line: {last}")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What was made according to a log.
fn made(log: &str, reach: &Reach) -> Result<Made, String> {
    let mut made = Made::default();
    for line in compiled::lines(log) {
        let codes = reach.told(line)?;
        // Code with one entrance is not that of a call and its reply.
        if let [call, reply] = &codes[..] {
            match [call, reply].map(Code::takes_lock) {
                [true, true] => made.locking += 1,
                [false, false] => made.other += 1,
                _ => return Err(format!("with the lock and without it: {line}")),
            }
        }
    }
    Ok(made)
}

/// The game's last line, when it is there and whole: `NAME: … entries, N straight to the other side; done: seen NUMBER`.
fn end(log: &str, name: &str) -> Option<Result<End, String>> {
    let mark = format!("{name}: ");
    let line = log
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n') && line.contains(&mark))
        .find(|line| line.contains(": seen "))?;
    let (before, seen) = line.trim_end().split_once("; done: seen ")?;
    let direct = before
        .strip_suffix(" straight to the other side")
        .and_then(|text| text.rsplit(' ').next())
        .and_then(|number| number.parse().ok());
    Some(match direct {
        Some(direct) => Ok(End {
            seen: seen.to_string(),
            direct,
        }),
        None => Err(format!("cannot read: {line}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read_when_it_is_whole() {
        let line =
            "[11] paths: 25 calls, 82 entries, 18 straight to the other side; done: seen 0xf4\n";
        let found = End {
            seen: "0xf4".to_string(),
            direct: 18,
        };
        assert_eq!(end(line, "paths"), Some(Ok(found)));
        assert_eq!(end(line.trim_end(), "paths"), None);
        assert_eq!(end("[11] paths: hello\n", "paths"), None);
    }

    #[test]
    fn a_game_that_did_not_go_its_way_proves_nothing() {
        let end = |direct| End {
            seen: String::new(),
            direct,
        };
        let [none, locking, other] =
            [(0, 0), (9, 0), (0, 9)].map(|(locking, other)| Made { locking, other });
        assert!(Way::One.judge(&end(FEWEST), other).is_ok());
        assert!(Way::One.judge(&end(FEWEST), locking).is_err());
        assert!(Way::One.judge(&end(FEWEST - 1), other).is_err());
        assert!(Way::Several.judge(&end(FEWEST), locking).is_ok());
        assert!(Way::Several.judge(&end(FEWEST), other).is_err());
        assert!(Way::Several.judge(&end(FEWEST), none).is_err());
        let both = Made {
            other: 1,
            ..locking
        };
        assert!(Way::Several.judge(&end(FEWEST), both).is_err());
        assert!(Way::General.judge(&end(0), none).is_ok());
        assert!(Way::General.judge(&end(1), none).is_err());
        assert!(Way::General.judge(&end(0), other).is_err());
    }

    #[test]
    fn seeds_are_words_of_a_line() {
        assert_eq!(seeds("x\n# seeds: 1 22\n"), ["1", "22"]);
        assert!(seeds("# expect-log: x\n").is_empty());
    }
}
