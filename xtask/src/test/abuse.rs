//! Suite `abuse`: an ordinary user takes as much of one thing as the system gives, by one program or eight at once ([`tests/abuse/abuse.c`](../../../tests/abuse/abuse.c) has the bombs and what must hold). Nothing but the bombs ends, no operation of user 0 fails,
//! and afterwards memory is free as before. `./cairn stress --abuse` is the same for longer, in machines of all sizes.

use super::batch::{self, Job};
use super::lanes::Work;
use super::programs::compile;
use super::Report;
use crate::cli::{self, Pair, System};
use crate::places;
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// A kind of machine, and what is appended to the names of its tests.
struct Kind {
    memory: &'static str,
    smp: u32,
    /// How many programs do it at once.
    copies: &'static [u32],
}

/// The machine in which room is least, and the one in which most happens at once.
const SHORT: [Kind; 2] = [
    Kind {
        memory: "256M",
        smp: 1,
        copies: &[1, 8],
    },
    Kind {
        memory: "1G",
        smp: 4,
        copies: &[8],
    },
];
const LONG: [Kind; 4] = [
    Kind {
        memory: "256M",
        smp: 1,
        copies: &[1, 8],
    },
    Kind {
        memory: "256M",
        smp: 4,
        copies: &[1, 8],
    },
    Kind {
        memory: "1G",
        smp: 1,
        copies: &[1, 8],
    },
    Kind {
        memory: "1G",
        smp: 4,
        copies: &[1, 8],
    },
];
/// Bombs that do not hold yet (docs/CAVEATS.md says how): only the campaign has them.
const OPEN: [&str; 9] = [
    "depth",
    "descriptor",
    "epoll",
    "file",
    "fork",
    "futex",
    "link",
    "socket",
    "thread",
];
/// Seconds for which a bomb goes on.
const SECONDS: u64 = 2;
/// For what comes before and after; far more than it takes.
const GRACE: Duration = Duration::from_secs(120);
const PROGRAM: &str = "/tests/abuse";

impl Kind {
    /// What tells its tests from those of the other kinds.
    fn name(&self, bomb: &str, copies: u32) -> String {
        let times = match copies {
            1 => String::new(),
            many => format!("-x{many}"),
        };
        format!("abuse/{bomb}{times}@{}+{}", self.smp, self.memory)
    }
}

/// The program, and the bombs that it knows, as it says itself.
fn program() -> Result<(PathBuf, Vec<String>)> {
    let source = places::root().join("tests/abuse/abuse.c");
    let binary = places::build().join("tests").join("abuse");
    compile("gcc", &source, &binary)?;
    let said = Command::new(&binary)
        .output()
        .context("cannot run the program of the suite abuse")?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let Some((_, names)) = said.split_once("bombs:") else {
        bail!("{} names no bombs", binary.display());
    };
    Ok((binary, names.split_whitespace().map(String::from).collect()))
}

fn jobs(kind: &Kind, bombs: &[String], seconds: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for bomb in bombs {
        for &copies in kind.copies {
            let numbers = [copies.to_string(), seconds.to_string()];
            let argv = [PROGRAM, bomb].map(String::from).into_iter().chain(numbers);
            jobs.push(Job {
                name: kind.name(bomb, copies),
                argv: argv.collect(),
                limit: Duration::from_secs(seconds) + GRACE,
                place: batch::PLACE,
            });
        }
    }
    jobs
}

fn play(
    kind: &Kind,
    system: System,
    program: &Path,
    jobs: &[Job],
    heard: &mut dyn FnMut(&str, Duration, super::Verdict),
) -> Result<()> {
    let add = Pair {
        first: program.display().to_string(),
        second: PROGRAM.to_string(),
    };
    let mut machine = batch::machine(system, kind.memory, vec![add]);
    machine.smp = kind.smp;
    batch::run(&machine, jobs, None, &mut |job, took, result| {
        let verdict = result.and_then(|done| {
            let good = done.status == 0 && done.stdout == "good\n";
            good.then_some(())
                .ok_or_else(|| format!("status {}\n{}{}", done.status, done.stdout, done.stderr))
        });
        heard(&job.name, took, verdict);
    })
}

/// One piece of work for each kind of machine.
pub fn work<'a>(report: &'a Report, arguments: &'a cli::Test) -> Result<Vec<Work<'a>>> {
    let (program, mut bombs) = program()?;
    bombs.retain(|bomb| !OPEN.contains(&bomb.as_str()));
    let mut work: Vec<Work> = Vec::new();
    for kind in &SHORT {
        let mut jobs = jobs(kind, &bombs, SECONDS);
        jobs.retain(|job| report.wants(&job.name));
        if jobs.is_empty() {
            continue;
        }
        let program = program.clone();
        work.push(Box::new(move || {
            play(
                kind,
                arguments.system,
                &program,
                &jobs,
                &mut |name, took, verdict| report.result(name, took, verdict),
            )
        }));
    }
    Ok(work)
}

/// `./cairn stress --abuse`: all bombs in all kinds of machines, one after the other.
pub fn campaign(arguments: &cli::Stress) -> Result<u8> {
    let (program, bombs) = program()?;
    let tests: usize = LONG.iter().map(|k| k.copies.len() * bombs.len()).sum();
    let seconds = (arguments.minutes * 60 / tests as u64).max(1);
    let report = Report {
        filter: None,
        list: false,
        results: Mutex::default(),
    };
    for kind in &LONG {
        let jobs = jobs(kind, &bombs, seconds);
        play(
            kind,
            System::Cairn,
            &program,
            &jobs,
            &mut |name, took, verdict| report.result(name, took, verdict),
        )?;
    }
    let results = report.results();
    println!("{} right, {} wrong", results.passed, results.failures.len());
    Ok(u8::from(!results.failures.is_empty()))
}
