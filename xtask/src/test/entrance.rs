//! Suite `entrance`: commands of `./cairn` itself, called as a person calls them, where no other suite goes through them.

use super::{Report, Verdict};
use anyhow::{Context, Result};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than it takes: the build is done, and the machine does no more than start.
const LIMIT: Duration = Duration::from_secs(300);

/// Breakpoints in the order in which they are reached, and a function that must be among their callers: in the nucleus, in a server, in the personality.
/// (Whether the compiler makes functions of them does not matter: GDB finds what was inlined, too.)
const STOPS: [(&str, &str); 3] = [
    ("cairn_kernel::arch::x86_64::start::start", "pvh_start"),
    ("cairn_tmpfs::inode::Inodes::insert", "tmpfs::cairn_start"),
    (
        "cairn_linux::first::run",
        "cairn_linux::machine::start::start",
    ),
];

pub fn run(report: &Report) -> Result<()> {
    let name = "entrance/debug";
    if !report.wants(name) {
        return Ok(());
    }
    let there = Command::new("gdb")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if there.is_err() {
        println!("skip  {name}: there is no gdb (`./cairn debug` installs it)");
        return Ok(());
    }
    let begun = Instant::now();
    let verdict = debug()?;
    report.result(name, begun.elapsed(), verdict);
    Ok(())
}

/// GDB on a waiting machine: each breakpoint is hit once, and what called it is known.
fn debug() -> Result<Verdict> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["debug", "--", "-nx", "-batch"]);
    for (number, (function, _)) in STOPS.iter().enumerate() {
        let number = number + 1;
        command.args(["-ex", &format!("tbreak {function}")]);
        for then in [
            "continue".to_string(),
            format!("echo stop {number}\\n"),
            "backtrace".to_string(),
        ] {
            command.args(["-ex", &then]);
        }
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start ./cairn debug")?;
    let mut pipe = child.stdout.take().context("no pipe from ./cairn debug")?;
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came until a failure is what there is to judge.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let deadline = Instant::now() + LIMIT;
    while child.try_wait()?.is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    // After its time; the machine goes with it, and GDB with the machine.
    let _ = child.kill();
    child.wait()?;
    let text = reader.join().unwrap_or_default();
    Ok(judge(&text).map_err(|why| format!("{why}; GDB said:\n{text}")))
}

fn judge(text: &str) -> Verdict {
    for (number, (function, caller)) in STOPS.iter().enumerate() {
        let begin = format!("stop {}\n", number + 1);
        let frames = text.split_once(&begin).map_or("", |(_, rest)| rest);
        let frames = frames.split("\nstop ").next().unwrap_or_default();
        let (first, callers) = frames.split_once("\n#1").unwrap_or((frames, ""));
        if !first.contains(function) {
            return Err(format!("the breakpoint at {function} was not hit"));
        }
        if !callers.contains(caller) {
            return Err(format!("the backtrace from {function} has no {caller}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> String {
        STOPS
            .iter()
            .enumerate()
            .map(|(number, (function, caller))| {
                format!(
                    "stop {}\n#0  {function} () at a.rs:1\n#1  0x1 in {caller} ()\nTemporary\n",
                    number + 1
                )
            })
            .collect()
    }

    #[test]
    fn each_stop_needs_its_function_and_caller() {
        assert_eq!(judge(&good()), Ok(()));
        assert!(judge("").is_err());
        for (function, caller) in STOPS {
            assert!(judge(&good().replace(&format!("#0  {function}"), "#0  other")).is_err());
            assert!(judge(&good().replace(&format!("in {caller} "), "in ?? ")).is_err());
        }
    }
}
