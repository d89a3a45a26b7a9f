//! `./cairn test`: every test there is, or those whose name contains the filter.
//!
//! Suites: `host` (unit tests, clippy, format: no machine), `entrance` (GDB on a waiting machine), `image` (the built programs, looked at), `tables` (the page tables of a running machine), `corpus`, `c-glibc`, `c-musl`, `rust` (programs that must do the same on both systems), `native`
//! (components of the test folder), `book` (the commands of the docs), `terminal` (a person's session at the console), `abuse` (what an ordinary user can do to
//! the machine). A whole-system test passes only on what it was expected to print, the expected status and
//! within its time. A machine that fails fails the test that ran in it; the others go on in a new one.

mod abuse;
pub mod batch;
mod book;
mod entrance;
mod exchange;
mod host;
mod image;
mod lanes;
mod native;
mod ninep;
mod programs;
mod recipe;
pub mod reference;
mod restart;
mod share;
mod ssh;
mod stress;
mod stretch;
mod tables;
mod terminal;
mod ways;
mod window;

pub use programs::compile;
pub use stress::stress;

use crate::{cli, compiled};
use anyhow::Result;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What became of one test: nothing to say, or why it failed.
pub type Verdict = Result<(), String>;

/// Collects and prints results, of several machines at once.
pub struct Report {
    filter: Option<String>,
    list: bool,
    results: Mutex<Results>,
}

#[derive(Default)]
struct Results {
    passed: usize,
    failures: Vec<String>,
}

impl Report {
    /// Is this test asked for? With `--list` it is only named.
    pub fn wants(&self, name: &str) -> bool {
        let wanted = self
            .filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter.as_str()));
        if wanted && self.list {
            println!("{name}");
        }
        wanted && !self.list
    }

    /// Several tests that were run by somebody else (cargo).
    pub fn passed_elsewhere(&self, count: usize) {
        self.results().passed += count;
    }

    pub fn result(&self, name: &str, took: Duration, verdict: Verdict) {
        let mut results = self.results();
        match verdict {
            Ok(()) => {
                results.passed += 1;
                println!("ok    {name} ({:.1} s)", took.as_secs_f64());
            }
            Err(why) => {
                println!("FAIL  {name} ({:.1} s)", took.as_secs_f64());
                for line in why.lines() {
                    println!("      {line}");
                }
                results.failures.push(name.to_string());
            }
        }
    }

    /// A lane that panicked is an error of its own; what others count still counts.
    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn test(arguments: &cli::Test) -> Result<u8> {
    let report = Report {
        filter: arguments.filter.clone(),
        list: arguments.list,
        results: Mutex::default(),
    };
    let all = arguments.system == cli::System::Cairn && !arguments.stretch;
    if all {
        host::run(&report, || image::run(&report))?;
        tables::run(&report)?;
    }
    // From here on what machines do is looked at afterwards. (The option for that keeps code of the nucleus which the tables must not show.)
    compiled::watch();
    if arguments.stretch {
        stretch::run(&report, arguments)?;
    } else {
        machines(&report, arguments, all)?;
    }
    if report.list {
        return Ok(0);
    }
    if let Some(verdict) = compiled::verdict() {
        let name = match &verdict {
            Ok(blocks) => format!("image/compiled-portals, {blocks} of them"),
            Err(_) => "image/compiled-portals".to_string(),
        };
        report.result(&name, Duration::ZERO, verdict.map(|_| ()));
    }
    let results = report.results();
    let (passed, failed) = (results.passed, results.failures.len());
    if failed > 0 {
        println!("\nfailed: {}", results.failures.join(" "));
        println!("logs of the machines: build/log/; one test alone: ./cairn test NAME");
    }
    if passed + failed == 0 {
        eprintln!(
            "cairn: no test has {:?} in its name; `./cairn test --list` names them all",
            report.filter.as_deref().unwrap_or_default()
        );
    }
    println!("{passed} passed, {failed} failed");
    Ok(u8::from(failed > 0 || passed == 0))
}

/// All suites that want machines: what takes longest first, so that no lane is alone with it at the end; then the batches of many programs.
fn machines(report: &Report, arguments: &cli::Test, all: bool) -> Result<()> {
    let (system, smp) = (arguments.system, arguments.smp);
    let [games, others] = match all {
        true => native::work(report, smp)?,
        false => Default::default(),
    };
    // (The first test of the entrance makes Debian's configured root, with one machine; the games want no such root.)
    let mut work = games;
    if all {
        work.extend(entrance::work(report)?);
    }
    work.extend(programs::work(report, arguments)?);
    work.extend(abuse::work(report, arguments)?);
    if all {
        work.push(Box::new(move || book::run(report)));
    }
    work.push(Box::new(move || exchange::run(report, system)));
    work.push(Box::new(move || restart::run(report, system)));
    work.push(Box::new(move || terminal::run(report, system, smp)));
    work.extend(others);
    // Names are listed in order.
    let lanes = if report.list {
        1
    } else {
        lanes::of_this_host()
    };
    lanes::run(work, lanes)
}
