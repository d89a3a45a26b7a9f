//! Many commands in few boots: each in a fresh folder of its own, with its status, output and resulting file tree. A machine that fails is
//! replaced and fails only the command that it was running.

use crate::cli::{Accel, Machine, Pair, Root, System};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Stream};
use crate::machine::Boot;
use anyhow::Result;
use cairn_hostlink::Spec;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// KiB that a command may leave behind outside its folder (which is removed).
const LEFT_BEHIND: u64 = 256;
/// How long counting them may take.
const COUNTING: Duration = Duration::from_secs(120);

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
        mem: Some(memory.to_string()),
        root: Root::Small,
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
    let mut in_files = None;
    for job in jobs {
        let begun = Instant::now();
        if guest.is_none() {
            in_files = None;
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
        let before = in_files;
        let mut result = one(running, job);
        if result.is_ok() && machine.system == System::Cairn {
            match kept_in_files(running) {
                Ok(now) => {
                    in_files = Some(now);
                    if before.is_some_and(|before| now > before + LEFT_BEHIND) {
                        let more = now - before.unwrap_or(0);
                        result = Err(format!(
                            "{more} KiB of file data are left behind in {now}, beside what its folder had"
                        ));
                    }
                }
                Err(why) => result = Err(why),
            }
        }
        match result {
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

/// KiB that the root file system has in files. Counted after each command: pages that no file has any more, or that are behind a handle that nobody holds, would be
/// missed by nobody until there are none left.
fn kept_in_files(guest: &mut Guest) -> Result<u64, String> {
    let spec = Spec {
        argv: [&b"df"[..], b"-Pk", b"/"].map(<[u8]>::to_vec).to_vec(),
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: b"/".to_vec(),
        no_stdin: true,
    };
    let mut table = Vec::new();
    guest
        .run(&spec, Input::Empty, Some(COUNTING), &mut |_, bytes| {
            table.extend_from_slice(bytes)
        })
        .map_err(|failure| format!("counting what it left behind: {failure}"))?;
    let table = readable(&table);
    used_column(&table).ok_or_else(|| format!("df says: {table}"))
}

/// The third word of the second line of `df -P`.
fn used_column(table: &str) -> Option<u64> {
    let line = table.lines().nth(1)?;
    line.split_whitespace().nth(2)?.parse().ok()
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
    fn what_df_says_is_read() {
        let table = "Filesystem           1024-blocks    Used Available Capacity Mounted on\ntmpfs                   130496      3892    126604   3% /\n";
        assert_eq!(used_column(table), Some(3892));
        assert_eq!(used_column("df: /: no such file\n"), None);
    }

    #[test]
    fn no_two_outputs_read_alike() {
        assert_eq!(readable(b"a\xff\\xff"), "a\\xff\\\\xff");
        assert_eq!(readable("ä\n".as_bytes()), "ä\n");
        assert_eq!(last(&"ä".repeat(300)).chars().count(), 150);
    }
}
