//! Many commands in few boots: each in a fresh folder of its own, with its status, output and resulting file tree. A machine that fails is
//! replaced and fails only the command that it was running.

use crate::cli::{Accel, Machine, Pair, System};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Stream};
use crate::machine::Boot;
use anyhow::Result;
use cairn_hostlink::Spec;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// One command to run.
#[derive(Clone, Debug)]
pub struct Job {
    pub name: String,
    pub argv: Vec<String>,
    pub limit: Duration,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    pub status: u8,
    pub stdout: String,
    pub stderr: String,
    pub tree: String,
}

/// Hears of each job: how long it took, and what it did or why that cannot be told.
pub type Finished<'a> = &'a mut dyn FnMut(&Job, Duration, Result<Done, String>);

/// A machine for tests.
pub fn machine(system: System, memory: &str, add: Vec<Pair>) -> Machine {
    Machine {
        smp: 1,
        mem: memory.to_string(),
        system,
        lean: false,
        accel: Accel::Tcg,
        append: None,
        add,
        with: None,
        verbose: false,
    }
}

/// Run all jobs; `finished` gets each one's result, in order: what it did, or why it could not be told.
pub fn run(machine: &Machine, jobs: &[Job], finished: Finished) -> Result<()> {
    let mut guest: Option<Guest> = None;
    let mut boots_failed = 0;
    for job in jobs {
        let begun = Instant::now();
        if guest.is_none() {
            let boot = Boot::prepare("test", machine)?;
            let logs = boot.run.clone();
            match Guest::start(boot, machine, false)? {
                Ok(started) => guest = Some(started),
                Err(failure) => {
                    boots_failed += 1;
                    let why = format!("{failure} (logs: {})", logs.display());
                    finished(job, begun.elapsed(), Err(why.clone()));
                    // A system that does not boot twice in a row will not the third time.
                    if boots_failed == 2 {
                        let rest = jobs.iter().skip_while(|j| j.name != job.name).skip(1);
                        rest.for_each(|job| {
                            finished(
                                job,
                                Duration::ZERO,
                                Err("not run: the machine does not boot".to_string()),
                            )
                        });
                        return Ok(());
                    }
                    continue;
                }
            }
            boots_failed = 0;
        }
        let Some(running) = &mut guest else { continue };
        let begun = Instant::now();
        match one(running, job) {
            Ok(done) => finished(job, begun.elapsed(), Ok(done)),
            Err(why) => {
                running.log.look();
                let log = running.log.failure_lines();
                finished(
                    job,
                    begun.elapsed(),
                    Err(format!("{why}\n{}", log.join("\n"))),
                );
                guest = None;
            }
        }
    }
    if let Some(guest) = guest {
        guest.power_off();
    }
    Ok(())
}

fn one(guest: &mut Guest, job: &Job) -> Result<Done, String> {
    let folder = format!("/work/{}", job.name.replace('/', "-"));
    let spec = Spec {
        argv: job.argv.iter().map(|a| a.as_bytes().to_vec()).collect(),
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: folder.as_bytes().to_vec(),
        no_stdin: true,
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let outcome = guest
        .run(
            &spec,
            Input::Empty,
            Some(job.limit),
            &mut |stream, bytes| match stream {
                Stream::Out => stdout.extend_from_slice(bytes),
                Stream::Err => stderr.extend_from_slice(bytes),
            },
        )
        .map_err(|failure| {
            let (out, err) = (readable(&stdout), readable(&stderr));
            format!(
                "{failure}\nstdout so far: {}\nstderr so far: {}",
                last(&out),
                last(&err)
            )
        })?;
    let tree = guest
        .tree(&folder)
        .map_err(|f| format!("listing its folder: {f}"))?;
    guest
        .clean("/work")
        .map_err(|f| format!("cleaning up behind it: {f}"))?;
    Ok(Done {
        status: outcome.status(),
        stdout: readable(&stdout),
        stderr: readable(&stderr),
        tree: readable(&tree),
    })
}

/// Bytes as text without loss: what is no UTF-8 is escaped, and so is the backslash.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// The end of a long text.
fn last(text: &str) -> &str {
    let mut begin = text.len().saturating_sub(300);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    &text[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_outputs_read_alike() {
        assert_eq!(readable(b"a\xff\\xff"), "a\\xff\\\\xff");
        assert_eq!(readable("ä\n".as_bytes()), "ä\n");
        assert_eq!(last(&"ä".repeat(300)).chars().count(), 150);
    }
}
