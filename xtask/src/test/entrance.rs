//! Suite `entrance`: commands of `./cairn` itself, called as a person calls them, where no other suite goes through them.

use super::{Report, Verdict};
use crate::build;
use crate::log::Log;
use anyhow::{Context, Result};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
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

/// Where an instruction that is none is put into the code of a running system, how the log tells that, and what must be among the callers then.
const CRASHES: [(&str, &str, &str); 2] = [
    (
        "cairn_kernel::pool::Extent::take",
        "nucleus panic: exception 6",
        "other_entry",
    ),
    ("init::first_process", " ends by exception 6", "init::main"),
];

pub fn run(report: &Report) -> Result<()> {
    for (name, test) in [
        ("entrance/debug", debug as fn() -> Result<Verdict>),
        ("entrance/crash", crash),
    ] {
        if !report.wants(name) {
            continue;
        }
        let there = Command::new("gdb")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if there.is_err() {
            println!("skip  {name}: there is no gdb (`./cairn debug` installs it)");
            continue;
        }
        build::system()?;
        let begun = Instant::now();
        let verdict = test()?;
        report.result(name, begun.elapsed(), verdict);
    }
    Ok(())
}

/// GDB on a waiting machine: each breakpoint is hit once, and what called it is known.
fn debug() -> Result<Verdict> {
    let mut script = Vec::new();
    for (number, (function, _)) in STOPS.iter().enumerate() {
        let number = number + 1;
        script.extend([
            format!("tbreak {function}"),
            "continue".to_string(),
            format!("echo stop {number}\\n"),
            "backtrace".to_string(),
        ]);
    }
    let (text, _) = gdb(&script)?;
    Ok(judge(&text).map_err(|why| format!("{why}; GDB said:\n{text}")))
}

/// The nucleus, and `init`, are made to fail, which ends the machine: `./cairn` tells who had called whom, though there are no frame pointers.
fn crash() -> Result<Verdict> {
    for (function, message, caller) in CRASHES {
        let (text, said) = gdb(&[
            // The system serves already.
            format!("tbreak {}", STOPS[1].0),
            "continue".to_string(),
            format!("tbreak {function}"),
            "continue".to_string(),
            "set language c".to_string(),
            "set var *(unsigned short *)$pc = 0x0b0f".to_string(),
            "continue".to_string(),
        ])?;
        let console = said
            .lines()
            .find_map(|line| line.strip_prefix("Console of the machine: "));
        let Some(folder) = console.and_then(|console| Path::new(console).parent()) else {
            return Ok(Err(format!("no console: {said}\nGDB said:\n{text}")));
        };
        let mut log = Log::follow(&folder.join("nucleus.log"), false);
        log.look();
        let lines = log.recent_lines();
        if let Err(why) = judge_crash(&lines, function, message, caller) {
            return Ok(Err(format!("{why}:\n{lines}\nGDB said:\n{text}{said}")));
        }
    }
    Ok(Ok(()))
}

/// From where it was, without a doubt, to who is known to call it.
fn judge_crash(lines: &str, function: &str, message: &str, caller: &str) -> Verdict {
    let Some((_, lines)) = lines.split_once(message) else {
        return Err(format!("the log does not say `{message}`"));
    };
    let mut frames = lines
        .lines()
        .skip_while(|line| !line.starts_with("backtrace of "))
        .skip(1)
        .take_while(|line| line.starts_with("  ") && !line.contains("perhaps"));
    if !frames.next().is_some_and(|line| line.contains(function)) {
        return Err(format!("the backtrace does not begin in {function}"));
    }
    if !frames.any(|line| line.contains(caller)) {
        return Err(format!("the backtrace does not lead to {caller}"));
    }
    Ok(())
}

/// What GDB, told this, said on its output, and `./cairn debug` on standard error.
fn gdb(script: &[String]) -> Result<(String, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["debug", "--", "-nx", "-batch"]);
    for line in script {
        command.args(["-ex", line]);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start ./cairn debug")?;
    let readers = (
        child.stdout.take().map(reader),
        child.stderr.take().map(reader),
    );
    let deadline = Instant::now() + LIMIT;
    while child.try_wait()?.is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    // After its time; the machine goes with it, and GDB with the machine.
    let _ = child.kill();
    child.wait()?;
    let text = |reader: Option<JoinHandle<String>>| reader.and_then(|r| r.join().ok());
    Ok((
        text(readers.0).unwrap_or_default(),
        text(readers.1).unwrap_or_default(),
    ))
}

/// What came until a failure is what there is to judge.
fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
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
    fn a_crash_is_traced_back() {
        let judged = |last: &str| {
            let lines =
                format!("ends by exception 6\nbacktrace of x:\n   0  0x1  f  a.rs:1\n   1  {last}");
            judge_crash(&lines, "f", "exception 6", "main")
        };
        assert!(judged("0x2  x::main  b.rs:2").is_ok());
        assert!(judged("0x2  x::other  b.rs:2").is_err());
        assert!(judged("perhaps 0x2  x::main  b.rs:2").is_err());
        assert!(judge_crash("", "f", "exception 6", "main").is_err());
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
