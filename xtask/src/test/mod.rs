//! `./cairn test`: every test there is, or those whose name contains the filter.
//!
//! Suites: `host` (unit tests, clippy, format: no machine), `entrance` (GDB on a waiting machine), `image` (the built programs, looked at), `corpus`, `c-glibc`, `c-musl`, `rust` (programs that must do the same on both systems), `native`
//! (components of the test folder), `terminal` (a person's session at the console). A whole-system test passes only on what it was expected to print, the expected status and
//! within its time. A machine that fails fails the test that ran in it; the others go on in a new one.

mod batch;
mod entrance;
mod exchange;
mod host;
mod image;
mod native;
mod programs;
mod reference;
mod restart;
mod stress;
mod stretch;
mod terminal;
mod ways;

pub use programs::compile;
pub use stress::stress;

use crate::{cli, compiled};
use anyhow::Result;
use std::time::Duration;

/// What became of one test: nothing to say, or why it failed.
pub type Verdict = Result<(), String>;

/// Collects and prints results.
pub struct Report {
    filter: Option<String>,
    list: bool,
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
    pub fn passed_elsewhere(&mut self, count: usize) {
        self.passed += count;
    }

    pub fn result(&mut self, name: &str, took: Duration, verdict: Verdict) {
        match verdict {
            Ok(()) => {
                self.passed += 1;
                println!("ok    {name} ({:.1} s)", took.as_secs_f64());
            }
            Err(why) => {
                println!("FAIL  {name} ({:.1} s)", took.as_secs_f64());
                for line in why.lines() {
                    println!("      {line}");
                }
                self.failures.push(name.to_string());
            }
        }
    }
}

pub fn test(arguments: &cli::Test) -> Result<u8> {
    let mut report = Report {
        filter: arguments.filter.clone(),
        list: arguments.list,
        passed: 0,
        failures: Vec::new(),
    };
    let all = arguments.system == cli::System::Cairn && !arguments.stretch;
    if all {
        host::run(&mut report)?;
        image::run(&mut report)?;
        entrance::run(&mut report)?;
    }
    // From here on what machines do is looked at afterwards.
    compiled::watch();
    programs::run(&mut report, arguments)?;
    if !arguments.stretch {
        exchange::run(&mut report, arguments.system)?;
        restart::run(&mut report, arguments.system)?;
    }
    if all {
        native::run(&mut report, arguments.smp)?;
    }
    if !arguments.stretch {
        terminal::run(&mut report, arguments.system, arguments.smp)?;
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
    let (passed, failed) = (report.passed, report.failures.len());
    if failed > 0 {
        println!("\nfailed: {}", report.failures.join(" "));
        println!("logs of the machines: build/log/; one test alone: ./cairn test NAME");
    }
    if passed + failed == 0 {
        eprintln!(
            "cairn: no test has {:?} in its name; `./cairn test --list` names them all",
            report.filter.unwrap_or_default()
        );
    }
    println!("{passed} passed, {failed} failed");
    Ok(u8::from(failed > 0 || passed == 0))
}
