//! Suite `abuse`: an ordinary user takes as much of one thing as the system gives, by one program or eight at once ([`tests/abuse/abuse.c`](../../../tests/abuse/abuse.c) has the bombs and what must hold). Nothing but the bombs ends, no operation of user 0 fails,
//! and afterwards memory is free as before. And programs of his send messages of every kind to every server, below the Linux personality ([`tests/abuse/messages.c`](../../../tests/abuse/messages.c)):
//! nothing of another user's changes or is read. `./cairn stress --abuse` is the same for longer, in machines of all sizes.

use super::batch::{self, Job, Time};
use super::lanes::Work;
use super::programs::compile;
use super::Report;
use crate::cli::{self, Pair, System};
use crate::places;
use anyhow::{bail, Context, Result};
use std::path::PathBuf;
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
/// Seconds for which a bomb goes on.
const SECONDS: u64 = 2;
/// For what comes before and after; far more than it takes.
const GRACE: Duration = Duration::from_secs(120);
/// The same for thousands of processes on several cores: where the host has fewer, a core that has the nucleus's lock is often not run, and the others wait for it. 15 to 70 s on two idle cores of the host, more beside other machines.
const GRACE_OF_FORKS: Duration = Duration::from_secs(600);
const PROGRAM: &str = "/tests/abuse";
const MESSAGES: &str = "/tests/messages";
/// Messages that are sent in each kind of machine, by how many programs at once, and in the campaign in all.
const SENT: u64 = 60_000;
const SENDERS: u32 = 4;
const CAMPAIGN: u64 = 10_000_000;
/// How late the other user's round may be: by the clock, where the host may do something else, and in guest time, where nothing may stand longer.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_COUNTED: Duration = Duration::from_millis(10);
/// The machine in which instructions are counted.
const COUNTED: Kind = Kind {
    memory: "256M",
    smp: 1,
    copies: &[],
};

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

/// Programs of the suite with their places in the machine.
type Programs = [(PathBuf, &'static str); 2];

/// The two programs, and the bombs that the first knows, as it says itself.
fn programs() -> Result<(Programs, Vec<String>)> {
    let made = ["abuse", "messages"].map(|name| {
        let source = places::root().join(format!("tests/abuse/{name}.c"));
        let binary = places::build().join("tests").join(name);
        compile("gcc", &source, &binary).map(|()| binary)
    });
    let [abuse, messages] = made;
    let (binary, messages) = (abuse?, messages?);
    let said = Command::new(&binary)
        .output()
        .context("cannot run the program of the suite abuse")?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let Some((_, names)) = said.split_once("bombs:") else {
        bail!("{} names no bombs", binary.display());
    };
    let names = names.split_whitespace().map(String::from).collect();
    Ok(([(binary, PROGRAM), (messages, MESSAGES)], names))
}

fn jobs(kind: &Kind, bombs: &[String], seconds: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for bomb in bombs {
        let grace = match bomb == "fork" && kind.smp > 1 {
            true => GRACE_OF_FORKS,
            false => GRACE,
        };
        for &copies in kind.copies {
            let numbers = [copies.to_string(), seconds.to_string()];
            let argv = [PROGRAM, bomb].map(String::from).into_iter().chain(numbers);
            jobs.push(Job {
                name: kind.name(bomb, copies),
                argv: argv.collect(),
                limit: Duration::from_secs(seconds) + grace,
                place: batch::PLACE,
            });
        }
    }
    jobs
}

/// The program that sends messages, with a seed for each kind of machine.
fn sender(kind: &Kind, count: u64, time: &Time) -> Job {
    let seed = u64::from(kind.smp) << 32 | kind.memory.len() as u64;
    let (seed, patience, suffix) = match time {
        Time::Clock => (seed, PATIENCE, ""),
        _ => (!seed, PATIENCE_COUNTED, "+counted"),
    };
    let numbers = [seed, count, SENDERS.into(), patience.as_micros() as u64];
    let numbers = numbers.map(|number| number.to_string());
    Job {
        name: kind.name("messages", 1) + suffix,
        argv: [MESSAGES.to_string()].into_iter().chain(numbers).collect(),
        // Some 5,000 in a second; on four cores of a host with two that do something else, far fewer.
        limit: Duration::from_secs(count / 400) + GRACE,
        place: batch::PLACE,
    }
}

fn play(
    kind: &Kind,
    system: System,
    programs: &[(PathBuf, &str)],
    jobs: &[Job],
    time: Time,
    heard: &mut dyn FnMut(&str, Duration, super::Verdict),
) -> Result<()> {
    let add = programs.iter().map(|(binary, path)| Pair {
        first: binary.display().to_string(),
        second: path.to_string(),
    });
    let mut machine = batch::machine(system, kind.memory, add.collect());
    machine.smp = kind.smp;
    batch::run(&machine, jobs, time, &mut |job, took, result| {
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
    let (programs, bombs) = programs()?;
    let mut work: Vec<Work> = Vec::new();
    let mut add = |kind: &'static Kind, mut jobs: Vec<Job>, time: fn() -> Time<'static>| {
        jobs.retain(|job| report.wants(&job.name));
        if jobs.is_empty() {
            return;
        }
        let programs = programs.clone();
        work.push(Box::new(move || {
            play(
                kind,
                arguments.system,
                &programs,
                &jobs,
                time(),
                &mut |name, took, verdict| report.result(name, took, verdict),
            )
        }));
    };
    for kind in &SHORT {
        let mut jobs = jobs(kind, &bombs, SECONDS);
        jobs.push(sender(kind, SENT, &Time::Clock));
        add(kind, jobs, || Time::Clock);
    }
    let counted = sender(&COUNTED, SENT, &Time::Counted);
    add(&COUNTED, vec![counted], || Time::Counted);
    Ok(work)
}

/// `./cairn stress --abuse`: all bombs in all kinds of machines, one after the other.
pub fn campaign(arguments: &cli::Stress) -> Result<u8> {
    let (programs, bombs) = programs()?;
    let tests: usize = LONG.iter().map(|k| k.copies.len() * bombs.len()).sum();
    let seconds = (arguments.minutes * 60 / tests as u64).max(1);
    let report = Report {
        filter: None,
        list: false,
        results: Mutex::default(),
    };
    let play = |kind: &Kind, jobs: &[Job], time: Time| {
        play(
            kind,
            System::Cairn,
            &programs,
            jobs,
            time,
            &mut |name, took, verdict| report.result(name, took, verdict),
        )
    };
    let counted = sender(&COUNTED, CAMPAIGN / 2, &Time::Counted);
    play(&COUNTED, &[counted], Time::Counted)?;
    for kind in &LONG {
        let mut jobs = jobs(kind, &bombs, seconds);
        let count = CAMPAIGN / 2 / LONG.len() as u64;
        jobs.push(sender(kind, count, &Time::Clock));
        play(kind, &jobs, Time::Clock)?;
    }
    let results = report.results();
    println!("{} right, {} wrong", results.passed, results.failures.len());
    Ok(u8::from(!results.failures.is_empty()))
}
