//! The ways of a message (suite `native`): a component that plays a game of messages and folds all that it sees into one number is run in two machines for each seed of its
//! file's `# seeds: …` line, as usual and with `nucleus.portals=general`. The numbers must be equal; and in the first machine, but not in the second, messages must
//! have gone by the code behind the portals.

use super::native::{lines, nobody_else_died, read};
use super::{batch, Verdict};
use crate::cli::System;
use crate::guest::Guest;
use crate::machine::Boot;
use anyhow::Result;
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps of one game, and the fewest messages by the code behind the portals that make it worth something.
const COUNT: u64 = 1_000_000;
const FEWEST: u64 = 100_000;
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

/// The outer error is the host's.
pub fn compare(file: &Path, name: &str, seeds: &[String]) -> Result<Verdict> {
    for seed in seeds {
        let game = format!("{name}.count={COUNT} {name}.seed={seed}");
        let mut ends = Vec::new();
        for more in ["", " nucleus.portals=general"] {
            match play(file, name, format!("{game}{more}"))? {
                Ok(end) => ends.push(end),
                Err(why) => return Ok(Err(format!("{game}{more}: {why}"))),
            }
        }
        if let Err(why) = judge(&ends[0], &ends[1]) {
            return Ok(Err(format!("{game}: {why}")));
        }
    }
    Ok(Ok(()))
}

fn judge(all_ways: &End, general: &End) -> Verdict {
    if all_ways.direct < FEWEST || general.direct != 0 {
        return Err(format!(
            "{} messages by the code behind the portals, {} without it",
            all_ways.direct, general.direct
        ));
    }
    if all_ways.seen != general.seen {
        return Err(format!(
            "the general way shows {}, all ways together {}",
            general.seen, all_ways.seen
        ));
    }
    Ok(())
}

/// One machine with these words on its command line.
fn play(file: &Path, name: &str, words: String) -> Result<Result<End, String>> {
    let mut machine = batch::machine(System::Cairn, "256M", Vec::new());
    machine.with = Some(file.to_path_buf());
    machine.append = Some(words);
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
            return Ok(end);
        }
        if text.contains("nucleus panic: ") || Instant::now() > deadline {
            let last = text.lines().last().unwrap_or_default();
            return Ok(Err(format!("no end; the log's last line: {last}")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
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
    fn a_game_without_the_code_behind_the_portals_proves_nothing() {
        let end = |seen: &str, direct| End {
            seen: seen.to_string(),
            direct,
        };
        assert!(judge(&end("1", FEWEST), &end("1", 0)).is_ok());
        assert!(judge(&end("1", 0), &end("1", 0)).is_err());
        assert!(judge(&end("1", FEWEST), &end("1", FEWEST)).is_err());
        assert!(judge(&end("1", FEWEST), &end("2", 0)).is_err());
    }

    #[test]
    fn seeds_are_words_of_a_line() {
        assert_eq!(seeds("x\n# seeds: 1 22\n"), ["1", "22"]);
        assert!(seeds("# expect-log: x\n").is_empty());
    }
}
