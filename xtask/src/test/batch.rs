//! Many commands in few boots: each in a fresh folder of its own, with its status, output and resulting file tree. A machine that fails is
//! replaced and fails only the command that it was running.

use super::stretch::Stretches;
use crate::cli::{Machine, Pair, System};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Stream};
use crate::machine::Boot;
use crate::trace;
use anyhow::Result;
use cairn_hostlink::Spec;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
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
    /// The folder in which it gets one of its own.
    pub place: &'static str,
}

/// Where programs run that want no disk.
pub const PLACE: &str = "/work";

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
        add,
        ..Machine::plain(system, memory)
    }
}

/// Slower than the clock: limits are so many times longer.
const DETERMINISTIC: u32 = 20;

/// What time is in the machine.
pub enum Time<'a> {
    /// The host's.
    Clock,
    /// Deterministic mode: one guest instruction takes one nanosecond.
    Counted,
    /// That, and the nucleus's longest stretches are looked for.
    Stretches(&'a mut Stretches),
}

/// Run all jobs; `finished` gets each one's result, in order: what it did, or why it could not be told.
pub fn run(machine: &Machine, jobs: &[Job], mut time: Time, finished: Finished) -> Result<()> {
    let counted = !matches!(time, Time::Clock);
    let mut guest: Option<Guest> = None;
    let mut boots_failed = 0;
    let mut in_files = None;
    let mut log = PathBuf::new();
    let mut deaths = 0;
    for job in jobs {
        let begun = Instant::now();
        if guest.is_none() {
            in_files = None;
            let boot = Boot::prepare("test", machine)?;
            let logs = boot.run.clone();
            log = boot.nucleus_log();
            deaths = 0;
            match Guest::start(boot, machine, counted)? {
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
        // On a root on a disk programs leave things behind that it is there for (caches, compiled modules).
        let audited = machine.system == System::Cairn && !machine.root.is_on_disk();
        let before = match in_files {
            None if audited => kept_in_files(running).ok(),
            before => before,
        };
        let begun = Instant::now();
        let slower = if counted { DETERMINISTIC } else { 1 };
        let mut result = one(running, job, job.limit * slower);
        if let Time::Stretches(stretches) = &mut time {
            stretches.look(&log, &job.name);
        }
        if result.is_ok() && audited {
            match kept_in_files(running) {
                Ok(now) => {
                    in_files = Some(now);
                    if before.is_some_and(|before| now > before + LEFT_BEHIND) {
                        let more = now - before.unwrap_or(0);
                        let evidence = told(running, EVIDENCE).unwrap_or_else(|why| why);
                        result = Err(format!(
                            "{more} KiB of file data are left behind in {now}, beside what its folder had\n{evidence}"
                        ));
                    }
                }
                Err(why) => result = Err(why),
            }
        }
        let begun_again = begun_again(&log);
        if begun_again.len() > deaths && result.is_ok() {
            result = Err(format!("components died: {}", begun_again.join(" ")));
        }
        deaths = begun_again.len();
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
    let Some(guest) = guest else { return Ok(()) };
    if !guest.power_off() && !machine.disks.is_empty() {
        println!("      (the machine did not switch itself off: its disk is as it was then)");
    }
    Ok(())
}

/// Components that `init` has started more than once, by the log of the nucleus, each time.
fn begun_again(log: &Path) -> Vec<String> {
    // (Debian's kernel has no such log.)
    let text = std::fs::read(log).unwrap_or_default();
    components_begun_again(&String::from_utf8_lossy(&text))
}

/// What a component's exit says after it panicked (`cairn_rt`).
const PANICKED: &str = "101";

/// Components that were begun a second time although they had not ended by themselves, as a file system does that is unmounted or cannot be mounted.
fn components_begun_again(text: &str) -> Vec<String> {
    let mut begun = HashSet::new();
    let mut again = Vec::new();
    for line in text.lines() {
        let Some((_, said)) = line.split_once("] init: ") else {
            continue;
        };
        let ended = match said.split_once(" died: exit ") {
            Some((_, PANICKED)) => None,
            Some((ended, _)) => Some(ended),
            None => said.strip_suffix(" has ended"),
        };
        if let Some(ended) = ended {
            begun.remove(ended);
        }
        if let Some((_, name)) = trace::named(line) {
            if !begun.insert(name) {
                again.push(name.to_string());
            }
        }
    }
    again
}

fn one(guest: &mut Guest, job: &Job, limit: Duration) -> Result<Done, String> {
    let folder = format!("{}/{}", job.place, job.name.replace('/', "-"));
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
            Some(limit),
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
        .clean(&folder)
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
    let table = told(guest, "df -Pk /")?;
    used_column(&table).ok_or_else(|| format!("df says: {table}"))
}

/// For whoever looks for the reason: whether files with names explain it, how many nodes there are, and what memory is free.
const EVIDENCE: &str = "du -xsk /; stat -f /; ls -la /tmp /run; free -k; cat /proc/nucleus";

/// What a shell command prints.
fn told(guest: &mut Guest, command: &str) -> Result<String, String> {
    let spec = Spec {
        argv: ["sh", "-c", command]
            .map(|word| word.as_bytes().to_vec())
            .to_vec(),
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: b"/".to_vec(),
        no_stdin: true,
    };
    let mut text = Vec::new();
    guest
        .run(&spec, Input::Empty, Some(COUNTING), &mut |_, bytes| {
            text.extend_from_slice(bytes)
        })
        .map_err(|failure| format!("counting what it left behind: {failure}"))?;
    Ok(readable(&text))
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
    fn who_died_is_begun_again() {
        let log =
            "[1] init: `vm` is domain 2\n[1] init: `pipe` is domain 3\n[9] x: `vm` is domain 4\n";
        assert!(components_begun_again(log).is_empty());
        let log = format!("{log}[1] init: `pipe` is domain 70\n");
        assert_eq!(components_begun_again(&log), ["pipe"]);
        let mounted = "[2] init: `tmpfs-7` is domain 71\n";
        let log = format!("{log}{mounted}[3] init: tmpfs-7 died: exit 22\n{mounted}");
        let log = format!("{log}[4] init: tmpfs-7 has ended\n{mounted}");
        assert_eq!(components_begun_again(&log), ["pipe"]);
        let log = format!("{log}[4] init: tmpfs-7 died: exit 101\n{mounted}");
        assert_eq!(components_begun_again(&log), ["pipe", "tmpfs-7"]);
    }

    #[test]
    fn no_two_outputs_read_alike() {
        assert_eq!(readable(b"a\xff\\xff"), "a\\xff\\\\xff");
        assert_eq!(readable("ä\n".as_bytes()), "ä\n");
        assert_eq!(last(&"ä".repeat(300)).chars().count(), 150);
    }
}
