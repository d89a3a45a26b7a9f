//! Test `disk/exchange`: the system that is tested makes a tree on a disk, Linux lists it and adds one of its own, and the first lists both: names, modes, owners, links, times to the nanosecond, sizes, contents,
//! holes, devices, extended attributes. e2fsck looks at the disk after each of the three machines.

use super::{batch, Report, Verdict};
use crate::cli::{Machine, Pair, Root, System};
use crate::disk::{self, Scratch, Shape};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Stream};
use crate::machine::Boot;
use crate::places;
use anyhow::Result;
use cairn_hostlink::Spec;
use std::time::{Duration, Instant};

const NAME: &str = "disk/exchange";
const LIMIT: Duration = Duration::from_secs(600);
/// Makes a tree of this name and lists the disk.
const MAKE: &str = "bash /exchange/make.sh $0 && bash /exchange/list.sh";
const LIST: &str = "bash /exchange/list.sh";

pub fn run(report: &Report, system: System) -> Result<()> {
    if !report.wants(NAME) {
        return Ok(());
    }
    let begun = Instant::now();
    let verdict = exchange(system)?;
    report.result(NAME, begun.elapsed(), verdict);
    Ok(())
}

/// The outer error is the host's.
fn exchange(system: System) -> Result<Verdict> {
    let shape = Shape {
        size: "256M".to_string(),
        ..Shape::plain()
    };
    let scratch = Scratch::ext4(&shape)?;
    let mut before = String::new();
    for (system, command, tree) in [
        (system, MAKE, "first"),
        (System::Linux, MAKE, "second"),
        (system, LIST, ""),
    ] {
        let listing = match on(system, &scratch, command, tree)? {
            Ok(listing) => listing,
            Err(why) => return Ok(Err(format!("{system:?}: {why}"))),
        };
        // What was there is there as it was, beside what is new.
        let missing = before
            .lines()
            .find(|line| !listing.lines().any(|l| l == *line));
        if let Some(line) = missing {
            return Ok(Err(format!(
                "{system:?} does not see\n{line}\n{}",
                near(&listing, line)
            )));
        }
        if tree.is_empty() && listing.len() != before.len() {
            return Ok(Err(format!("{system:?} sees more than there is")));
        }
        if let Err(why) = disk::check(&scratch.path)? {
            return Ok(Err(format!("after {system:?}: {why}")));
        }
        before = listing;
    }
    Ok(Ok(()))
}

/// What is listed of the same name.
fn near<'a>(listing: &'a str, line: &str) -> &'a str {
    let name = line.split(" 0o").next().unwrap_or(line);
    let same = |l: &&str| l.split(" 0o").next() == Some(name);
    listing
        .lines()
        .find(same)
        .unwrap_or("nor anything of this name")
}

/// A machine of its own with the disk; what the command prints.
fn on(
    system: System,
    scratch: &Scratch,
    command: &str,
    tree: &str,
) -> Result<Result<String, String>> {
    let add = Pair {
        first: places::root().join("tests/exchange").display().to_string(),
        second: "/exchange".to_string(),
    };
    let mut machine = batch::machine(system, Root::Debian.memory(), vec![add]);
    (machine.root, machine.root_as_made) = (Root::Debian, true);
    output(
        &scratch.attached_to(machine),
        &["bash", "-c", command, tree],
    )
}

/// What a command prints in a machine of its own.
pub fn output(machine: &Machine, command: &[&str]) -> Result<Result<String, String>> {
    let mut guest = match Guest::start(Boot::prepare("test", machine)?, machine, false)? {
        Ok(guest) => guest,
        Err(failure) => return Ok(Err(failure.to_string())),
    };
    let spec = Spec {
        argv: command.iter().map(|a| a.as_bytes().to_vec()).collect(),
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: disk::PLACE.as_bytes().to_vec(),
        no_stdin: true,
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let outcome = guest.run(
        &spec,
        Input::Empty,
        Some(LIMIT),
        &mut |stream, bytes| match stream {
            Stream::Out => out.extend_from_slice(bytes),
            Stream::Err => err.extend_from_slice(bytes),
        },
    );
    Ok(match outcome {
        Err(failure) => Err(failure.to_string()),
        Ok(outcome) if outcome.status() != 0 || out.is_empty() => Err(format!(
            "status {}: {}",
            outcome.status(),
            String::from_utf8_lossy(&err)
        )),
        Ok(_) if !guest.power_off() => Err("it did not switch itself off".to_string()),
        Ok(_) => Ok(String::from_utf8_lossy(&out).into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_same_name_is_shown() {
        let listing = "b'./a' 0o100644 1\nb'./b' 0o100600 1\n";
        assert_eq!(near(listing, "b'./b' 0o100644 2"), "b'./b' 0o100600 1");
        assert!(near(listing, "b'./c' 0o100644 2").starts_with("nor"));
    }
}
