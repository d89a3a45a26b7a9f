//! `./cairn stress`: many programs at once, again and again, in one machine of several cores, for as long as one likes. Each must give what it gave on Linux alone every
//! time: the output (its hash) and the status. The guest's shell runs so many workers; each takes the programs in an order of its own.

use super::batch::{self, Job};
use super::programs::{compile, files};
use super::reference::{self, Keyed};
use crate::cli::{self, Pair, System};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Stream};
use crate::machine::Boot;
use crate::places;
use anyhow::{bail, Result};
use cairn_hostlink::Spec;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

/// Programs of tests/c that look at nothing which the others change.
const PROGRAMS: [&str; 9] = [
    "events",
    "exchange",
    "faults",
    "forks",
    "pipe-64m",
    "scattered",
    "signals",
    "threads",
    "vectors",
];
/// Scripts of tests/corpus, by the beginning of the name.
const SCRIPTS: [&str; 12] = [
    "awk-", "cpio", "find-", "gzip", "sed-", "sh-c", "sh-ex", "sh-p", "sha", "sort-", "tar-", "tr-",
];
/// What the guest has beyond the time that was asked for, to come to its end.
const GRACE: Duration = Duration::from_secs(1200);

/// One line of the guest's list: name, status, hash of the output, command.
struct Entry {
    job: Job,
    content: Vec<u8>,
    file: Pair,
}

fn entries() -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let folder = places::build().join("tests").join("c-glibc");
    fs::create_dir_all(&folder)?;
    for name in PROGRAMS {
        let source = places::root().join("tests/c").join(format!("{name}.c"));
        let binary = folder.join(name);
        compile("gcc", &source, &binary)?;
        let guest = format!("/tests/c-glibc/{name}");
        entries.push(entry(
            format!("c-glibc/{name}"),
            vec![guest.clone()],
            fs::read(&binary)?,
            (binary.display().to_string(), guest),
        ));
    }
    for path in files("tests/corpus", "sh")? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if SCRIPTS.iter().any(|begin| stem.starts_with(begin)) {
            let guest = format!("/corpus/{stem}.sh");
            entries.push(entry(
                format!("corpus/{stem}"),
                vec!["sh".to_string(), guest.clone()],
                fs::read(&path)?,
                (path.display().to_string(), guest),
            ));
        }
    }
    Ok(entries)
}

fn entry(name: String, argv: Vec<String>, content: Vec<u8>, file: (String, String)) -> Entry {
    Entry {
        job: Job {
            name,
            argv,
            limit: Duration::from_secs(600),
            place: batch::PLACE,
        },
        content,
        file: Pair {
            first: file.0,
            second: file.1,
        },
    }
}

/// The workers' script: `$1` seconds, `$2` workers. Says at the end how often something ran, and what was wrong before that.
const SCRIPT: &str = r#"end=$(($(date +%s) + $1))
total=$(wc -l </stress/list)
worker() {
    worker=$1 at=$(($1 * 7)) runs=0
    while [ $(date +%s) -lt $end ]; do
        at=$((at % total + 1))
        line=$(sed -n ${at}p /stress/list)
        set -- $line
        name=$1 status=$2 hash=$3
        shift 3
        here=/tmp/stress-$worker; rm -rf $here; mkdir -p $here; cd $here
        "$@" </dev/null >/tmp/stress-out-$worker 2>/tmp/stress-err-$worker
        got=$?
        now=$(sha256sum </tmp/stress-out-$worker)
        if [ $got != $status ] || [ "${now%% *}" != $hash ]; then
            echo "WRONG $name: status $got, should be $status"
            tail -n 5 /tmp/stress-out-$worker /tmp/stress-err-$worker
        fi
        cd /; runs=$((runs + 1))
    done
    echo "RAN $runs"
}
worker=0
while [ $worker -lt $2 ]; do
    worker=$((worker + 1))
    worker $worker &
done
wait
echo END
"#;

pub fn stress(arguments: &cli::Stress) -> Result<u8> {
    match (arguments.host, arguments.restart, arguments.abuse) {
        (true, ..) => super::host::campaign(arguments.cases),
        (_, true, _) => super::restart::campaign(arguments),
        (_, _, true) => super::abuse::campaign(arguments),
        _ => programs(arguments),
    }
}

fn programs(arguments: &cli::Stress) -> Result<u8> {
    let entries = entries()?;
    let keyed: Vec<Keyed> = entries
        .iter()
        .map(|e| Keyed {
            job: e.job.clone(),
            content: e.content.clone(),
        })
        .collect();
    let mut add: Vec<Pair> = entries.iter().map(|e| e.file.clone()).collect();
    let linux = batch::machine(System::Linux, "256M", add.clone());
    let results = reference::results(&linux, &keyed, false)?;
    let mut list = String::new();
    for entry in &entries {
        let Some(Ok(done)) = results.get(&entry.job.name) else {
            bail!("Linux could not run {}", entry.job.name);
        };
        // What is kept of other bytes is their description.
        if !done.stdout.is_ascii() || done.stdout.contains('\\') {
            continue;
        }
        let hash = sha256(done.stdout.as_bytes());
        let argv = entry.job.argv.join(" ");
        let _ = writeln!(list, "{} {} {hash} {argv}", entry.job.name, done.status);
    }
    let folder = places::build().join("stress");
    fs::create_dir_all(&folder)?;
    for (name, text) in [("list", list.as_str()), ("run.sh", SCRIPT)] {
        let file = folder.join(name);
        fs::write(&file, text)?;
        add.push(Pair {
            first: file.display().to_string(),
            second: format!("/stress/{name}"),
        });
    }
    let mut machine = batch::machine(System::Cairn, "512M", add);
    machine.smp = arguments.smp;
    play(&machine, ["sh", "/stress/run.sh"], "/", arguments)
}

/// A machine in which a script keeps workers busy: it gets the seconds and how many there are, and says what they do in lines (`RAN` with a number once for each worker, `WRONG` with what was wrong, `END` at last).
pub fn play(
    machine: &cli::Machine,
    script: [&str; 2],
    folder: &str,
    arguments: &cli::Stress,
) -> Result<u8> {
    let boot = Boot::prepare("stress", machine)?;
    let logs = boot.run.clone();
    let mut guest = match Guest::start(boot, machine, false)? {
        Ok(guest) => guest,
        Err(failure) => {
            println!("{failure} (logs: {})", logs.display());
            return Ok(1);
        }
    };
    let seconds = arguments.minutes * 60;
    let words = script.map(str::to_string);
    let numbers = [seconds.to_string(), arguments.workers.to_string()];
    let spec = Spec {
        argv: words
            .iter()
            .chain(&numbers)
            .map(|a| a.as_bytes().to_vec())
            .collect(),
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: folder.as_bytes().to_vec(),
        no_stdin: true,
    };
    println!(
        "{} workers on {} cores for {} minutes …",
        arguments.workers, arguments.smp, arguments.minutes
    );
    let mut said = String::new();
    let limit = Duration::from_secs(seconds) + GRACE;
    let outcome = guest.run(&spec, Input::Empty, Some(limit), &mut |stream, bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Stream::Out = stream {
            said.push_str(&text);
        }
        for line in text.lines().filter(|line| !line.starts_with("RAN")) {
            println!("{line}");
        }
    });
    if let Err(failure) = outcome {
        println!("{failure} (logs: {})", logs.display());
        return Ok(1);
    }
    let (runs, finished, wrong) = sum(&said);
    println!("{runs} runs, {wrong} wrong");
    let whole = finished == arguments.workers && said.ends_with("END\n") && runs > 0;
    if whole && wrong == 0 {
        guest.power_off();
        return Ok(0);
    }
    println!("(logs: {})", logs.display());
    Ok(1)
}

/// How many runs there were, how many workers came to their end, and how many runs went wrong.
fn sum(said: &str) -> (u64, u64, usize) {
    let counts: Vec<u64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("RAN ")?.parse().ok())
        .collect();
    let wrong = said
        .lines()
        .filter(|line| line.starts_with("WRONG "))
        .count();
    (counts.iter().sum(), counts.len() as u64, wrong)
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guest_said_is_added_up() {
        assert_eq!(
            sum("RAN 3\nWRONG x: status 1, should be 0\nRAN 4\nEND\n"),
            (7, 2, 1)
        );
        assert_eq!(sum(""), (0, 0, 0));
    }

    #[test]
    fn hashes_are_those_of_sha256sum() {
        assert!(sha256(b"").starts_with("e3b0c44298fc1c14"));
    }
}
