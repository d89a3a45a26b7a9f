//! `./cairn compat calls`: what system calls answer, beside Linux's answers. (`./cairn compat programs`, `./cairn compat net`: [`programs`].)
//!
//! `tests/compat/calls.c` runs on both systems and prints a line for each case: user, call, arguments, result. The lines are compared by case.
//! `tests/compat/known.txt` explains differences: a line `USER CALL(ARGUMENTS) LINUX HERE: reason`, where `*` stands for any text.

mod programs;

use crate::cli::{self, Machine, Pair, System};
use crate::places;
use crate::test::batch::{self, Done, Job, Time};
use crate::test::compile;
use crate::test::reference::{self, Keyed};
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Lines of a call that are shown without `--all`.
const SHOWN: usize = 12;
/// A whole run takes three minutes.
const LIMIT: Duration = Duration::from_secs(1800);

/// One case in which the systems differ.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Difference<'a> {
    /// `USER CALL(ARGUMENTS)`
    case: &'a str,
    linux: &'a str,
    here: &'a str,
}

impl Difference<'_> {
    fn call(&self) -> &str {
        let name = self
            .case
            .split_once(' ')
            .map_or(self.case, |(_, call)| call);
        name.split('(').next().unwrap_or(name)
    }

    fn line(&self) -> String {
        format!("{} {} {}", self.case, self.linux, self.here)
    }
}

/// A pattern of differences, and how often it was of use.
struct Known<'a> {
    pattern: &'a str,
    used: usize,
}

pub fn compat(arguments: &cli::Compat) -> Result<u8> {
    match arguments.what {
        cli::Compared::Calls => calls(arguments),
        cli::Compared::Programs => programs::programs("programs", arguments),
        cli::Compared::Net => programs::programs("net", arguments),
    }
}

fn calls(arguments: &cli::Compat) -> Result<u8> {
    if arguments.parts.len() > 1 {
        bail!("one part of the calls' names is wanted");
    }
    let source = places::root().join("tests/compat");
    let folder = places::build().join("compat");
    let binary = folder.join("calls");
    fs::create_dir_all(&folder)?;
    // The compiler is asked by the file's age: the list of calls is a file of its own.
    let newer = |name: &str| {
        let stamp = |path| fs::metadata(path).and_then(|m| m.modified()).ok();
        stamp(source.join(name)) > stamp(binary.clone())
    };
    if binary.exists() && newer("calls.h") {
        fs::remove_file(&binary)?;
    }
    compile("gcc", &source.join("calls.c"), &binary)?;
    let guest = "/tests/compat-calls".to_string();
    let mut argv = vec![guest.clone()];
    argv.extend(arguments.parts.clone());
    let job = Job {
        name: "compat/calls".to_string(),
        argv,
        limit: LIMIT,
        place: batch::PLACE,
    };
    let add = vec![Pair {
        first: binary.display().to_string(),
        second: guest,
    }];
    let keyed = Keyed {
        job: job.clone(),
        content: fs::read(&binary)?,
    };
    let machine = |system| -> Machine { batch::machine(system, "256M", add.clone()) };
    let (linux, here) = on_both(keyed, machine, arguments.fresh)?;
    let (linux, here) = (whole("Linux", &linux)?, whole("Cairn", &here)?);
    fs::write(folder.join("linux.txt"), linux)?;
    fs::write(folder.join("cairn.txt"), here)?;
    let known = fs::read_to_string(source.join("known.txt")).context("tests/compat/known.txt")?;
    tell(linux, here, &known, arguments)
}

/// What a job did on Linux, perhaps some time ago, and on Cairn.
fn on_both(keyed: Keyed, machine: impl Fn(System) -> Machine, fresh: bool) -> Result<(Done, Done)> {
    let job = keyed.job.clone();
    let mut linux = reference::results(&machine(System::Linux), &[keyed], fresh)?;
    let linux = linux.remove(&job.name);
    let mut here = None;
    batch::run(
        &machine(System::Cairn),
        &[job],
        Time::Clock,
        &mut |_, _, result| here = Some(result),
    )?;
    let done = |system, result| match result {
        Some(Ok(done)) => Ok(done),
        Some(Err(why)) => bail!("{system}: {why}"),
        None => bail!("{system} said nothing"),
    };
    Ok((done("Linux", linux)?, done("Cairn", here)?))
}

/// What was printed, to its end.
fn whole<'a>(system: &str, done: &'a Done) -> Result<&'a str> {
    match done.stdout.strip_suffix("end\n") {
        Some(lines) if done.status == 0 => Ok(lines),
        _ => bail!(
            "{system}: status {} without its end\n{}",
            done.status,
            done.stderr
        ),
    }
}

fn tell(linux: &str, here: &str, known: &str, arguments: &cli::Compat) -> Result<u8> {
    let mut known = patterns(known)?;
    let differences = differences(linux, here)?;
    let cases = linux.lines().count();
    let mut explained = 0;
    let mut calls: BTreeMap<&str, Vec<&Difference>> = BTreeMap::new();
    for difference in &differences {
        let line = difference.line();
        match known.iter_mut().find(|k| matches(k.pattern, &line)) {
            Some(known) => {
                known.used += 1;
                explained += 1;
            }
            None => calls.entry(difference.call()).or_default().push(difference),
        }
    }
    let shown = if arguments.all { usize::MAX } else { SHOWN };
    for (call, differences) in &calls {
        println!("{call}: {} (Linux, here)", differences.len());
        for difference in differences.iter().take(shown) {
            println!(
                "  {:44} {:14} {}",
                difference.case, difference.linux, difference.here
            );
        }
        if differences.len() > shown {
            println!("  … {} more", differences.len() - shown);
        }
    }
    // Of some calls only, the others' reasons have nothing to explain.
    if arguments.parts.is_empty() {
        for known in known.iter().filter(|k| k.used == 0) {
            println!("explains nothing any more: {}", known.pattern);
        }
    }
    println!(
        "{cases} cases, {} the same, {explained} known differences, {} others in {} calls",
        cases - differences.len(),
        differences.len() - explained,
        calls.len()
    );
    Ok(u8::from(differences.len() > explained))
}

/// The patterns of known differences; each must have a reason.
fn patterns(text: &str) -> Result<Vec<Known<'_>>> {
    let mut all = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(": ") {
            Some((pattern, reason)) if !reason.trim().is_empty() => {
                all.push(Known { pattern, used: 0 })
            }
            _ => bail!("known.txt: no reason in {line:?}"),
        }
    }
    Ok(all)
}

/// Case and result of a line.
fn parts(line: &str) -> Result<(&str, &str)> {
    match line.rfind(") ") {
        Some(at) => Ok((&line[..=at], &line[at + 2..])),
        None => bail!("no result in {line:?}"),
    }
}

fn differences<'a>(linux: &'a str, here: &'a str) -> Result<Vec<Difference<'a>>> {
    let ours: BTreeMap<&str, &str> = here.lines().map(parts).collect::<Result<_>>()?;
    let mut found = Vec::new();
    for line in linux.lines() {
        let (case, linux) = parts(line)?;
        let here = ours.get(case).copied().unwrap_or("missing");
        if here != linux {
            found.push(Difference { case, linux, here });
        }
    }
    Ok(found)
}

/// Does the whole text match? A star in the pattern is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_any_text() {
        assert!(matches("a b", "a b"));
        assert!(!matches("a b", "a bc"));
        assert!(matches("* read(*) 0 *", "1000 read(rw,buf) 0 EBADF"));
        assert!(!matches("* read(*) 0 *", "1000 write(rw,buf) 0 EBADF"));
        assert!(matches("*", ""));
        assert!(!matches("0 read(*,1)", "0 read(1,2)"));
    }

    #[test]
    fn cases_are_compared_by_their_arguments() -> Result<()> {
        let linux = "0 read(a,b) EFAULT\n0 read(c) 0\n0 dup(x) +\n";
        let here = "0 read(c) 0\n0 read(a,b) EBADF\n";
        let found = differences(linux, here)?;
        let lines: Vec<String> = found.iter().map(Difference::line).collect();
        assert_eq!(lines, ["0 read(a,b) EFAULT EBADF", "0 dup(x) + missing"]);
        assert_eq!(found[1].call(), "dup");
        Ok(())
    }

    #[test]
    fn a_difference_without_a_reason_is_not_known() {
        assert!(patterns("* mlock(*) * *: \n").is_err());
        assert!(patterns("# why\n\n* mlock(*) * *: it locks nothing\n").is_ok_and(|p| p.len() == 1));
    }
}
