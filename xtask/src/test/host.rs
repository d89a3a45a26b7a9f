//! Suite `host`: what needs no machine. Cargo runs it; its counts become ours.

use super::{Report, Verdict};
use crate::{build, packet, places, progress};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// `further` is done while unit tests still run: the next suite, which builds the system.
pub fn run(report: &Report, further: impl FnOnce() -> Result<()>) -> Result<()> {
    let unit = match report.wants("host/unit") {
        true => Some(Unit::start()?),
        false => None,
    };
    // When all is compiled the programs run one after the other, and a processor has time for the rest.
    let rest = rest(report).and_then(|()| further());
    if let Some(unit) = unit {
        unit.end(report)?;
    }
    rest
}

/// Crates whose documentation has code, which rustdoc compiles and runs, and their folders.
const DOCUMENTED: [(&str, &str); 2] = [
    ("cairn-resmgr", "lib/resmgr/"),
    ("cairn-failing", "lib/failing/"),
];

/// What there is beside unit tests.
fn rest(report: &Report) -> Result<()> {
    if report.wants("host/documentation") {
        documentation(report)?;
    }
    packet_scripts(report)?;
    if report.wants("host/clippy") {
        lint(report, "host/clippy", "clippy", &clippy_calls())?;
    }
    if report.wants("host/format") {
        lint(
            report,
            "host/format",
            "fmt",
            &[vec!["fmt", "--all", "--check"]],
        )?;
    }
    Ok(())
}

/// Scripts of TCP, a test each.
fn packet_scripts(report: &Report) -> Result<()> {
    for path in packet::scripts(&places::root().join("tests/packet"))? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("host/packet-{name}");
        if report.wants(&name) {
            let begun = Instant::now();
            let verdict = packet::file(&path);
            report.result(&name, begun.elapsed(), verdict);
        }
    }
    Ok(())
}

/// Cargo in the folder that the host tool is built in, too, so that what they share is compiled once. Clippy is the compiler of our crates, so that nothing is
/// read a second time for its sake. (To compile in increments takes a fifth longer, and what changed is mostly one crate.)
fn cargo() -> Command {
    let mut command = build::cargo();
    command
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TARGET_DIR", places::build().join("host"));
    if let Some(clippy) = clippy() {
        command.env("RUSTC_WORKSPACE_WRAPPER", clippy);
    }
    command
}

/// The toolchain's own (`./cairn` says which one that is): another's compiler makes what ours cannot use. A packaged toolchain may lack it.
fn clippy() -> Option<PathBuf> {
    let cargo = PathBuf::from(std::env::var_os("CAIRN_CARGO")?);
    Some(cargo.with_file_name("clippy-driver")).filter(|clippy| clippy.exists())
}

/// The models beyond what `./cairn test` explores.
const FURTHER: [&str; 2] = ["cairn-models", "cairn-models-cores"];

/// All tests of the nucleus with so many games of each random one, compiled to be fast but with every check; then the models as far as they are ever explored. Cargo says what it does.
pub fn campaign(cases: u32) -> Result<u8> {
    let mut nucleus = cargo();
    nucleus
        .args(["test", "--release", "-p", "cairn-kernel"])
        .env("PROPTEST_CASES", cases.to_string())
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
        .env("CARGO_PROFILE_RELEASE_LTO", "off");
    let mut commands = vec![nucleus];
    for package in FURTHER {
        let mut model = cargo();
        model.args(["test", "--release", "-p", package, "--", "--ignored"]);
        commands.push(model);
    }
    let mut failed = 0;
    for mut command in commands {
        let status = command.stdin(Stdio::null()).status()?;
        failed += u8::from(!status.success());
    }
    Ok(u8::from(failed > 0))
}

/// `cargo test` of the crates that run on the host. (Without rustdoc, which would look through each crate once more: [`documentation`].)
struct Unit {
    begun: Instant,
    /// Ends with what the programs printed, and what cargo said.
    child: Child,
    printed: JoinHandle<std::io::Result<Vec<u8>>>,
    said: JoinHandle<String>,
}

impl Unit {
    /// All is compiled, or cannot be, when this returns.
    fn start() -> Result<Unit> {
        let begun = Instant::now();
        let mut step = progress::Step::begin("unit tests on the host (cargo test)");
        let mut child = cargo()
            .args(["test", "--no-fail-fast", "--tests"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (mut output, errors) = child
            .stdout
            .take()
            .zip(child.stderr.take())
            .context("no pipes")?;
        let printed = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes).map(|_| bytes)
        });
        let (compiled, is_compiled) = std::sync::mpsc::channel();
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if line.trim_start().starts_with("Finished ") {
                    let _ = compiled.send(());
                }
                text.push_str(&line);
                text.push('\n');
            }
            text
        });
        while is_compiled.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout)
        {
            step.tick();
        }
        Ok(Unit {
            begun,
            child,
            printed,
            said,
        })
    }

    fn end(mut self, report: &Report) -> Result<()> {
        let failed = |_| anyhow::anyhow!("a thread that read what cargo says failed");
        let printed = self.printed.join().map_err(failed)??;
        let errors = self.said.join().map_err(failed)?;
        let status = self.child.wait()?;
        let text = String::from_utf8_lossy(&printed);
        judge(report, self.begun, &text, &errors, status.success())
    }
}

fn documentation(report: &Report) -> Result<()> {
    let begun = Instant::now();
    let mut command = cargo();
    command.args(["test", "--doc"]);
    for (package, _) in DOCUMENTED {
        command.args(["-p", package]);
    }
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let enough = output.status.success() && counts(&text).0 >= DOCUMENTED.len();
    let verdict = match enough {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(last_lines(&format!("{text}{said}"), 40))
        }
    };
    report.result("host/documentation", begun.elapsed(), verdict);
    Ok(())
}

/// What became of the unit tests.
fn judge(report: &Report, begun: Instant, text: &str, errors: &str, success: bool) -> Result<()> {
    let (passed, failed) = counts(text);
    let complaint = || {
        let mut failing: Vec<&str> = text
            .lines()
            .filter(|l| l.ends_with("FAILED") || l.contains("panicked at"))
            .collect();
        // (A test of random steps tries many that fail.)
        failing.dedup();
        let least = text.find("minimal failing input").map(|at| &text[at..]);
        let least = least.and_then(|text| text.split("stack backtrace").next());
        let words = least.unwrap_or("").split_whitespace();
        let least = words.collect::<Vec<_>>().join(" ");
        format!(
            "{}\n{least}\n{}",
            failing.join("\n"),
            last_lines(errors, 30)
        )
    };
    match success {
        true => {
            println!(
                "ok    host/unit: {passed} tests ({:.1} s)",
                begun.elapsed().as_secs_f64()
            );
            report.passed_elsewhere(passed);
        }
        false => {
            report.passed_elsewhere(passed);
            let why = format!("{failed} of {} failed\n{}", passed + failed, complaint());
            report.result("host/unit", begun.elapsed(), Err(why));
        }
    }
    Ok(())
}

/// Sum of cargo's `test result:` lines: passed, failed.
fn counts(text: &str) -> (usize, usize) {
    let number_before = |line: &str, word: &str| -> usize {
        line.split(';')
            .chain(line.split(". "))
            .filter_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
            .next()
            .unwrap_or(0)
    };
    text.lines()
        .filter(|line| line.starts_with("test result:"))
        .map(|line| {
            let first = line.split_once(". ").map_or(line, |(_, rest)| rest);
            (
                number_before(first, "passed"),
                number_before(first, "failed"),
            )
        })
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Clippy for the tests, which are compiled already; for the programs of the host and the guest, which are looked at without being made (this one runs from the
/// folder in which it would be made anew), and for those of the bare target.
fn clippy_calls() -> Vec<Vec<&'static str>> {
    let tests = ["test", "--quiet", "--tests", "--no-run"];
    let programs = [
        "clippy",
        "--quiet",
        "-p",
        "xtask",
        "-p",
        "guest-init",
        "-p",
        "rust-std-check",
    ];
    let mut bare = vec![
        "clippy",
        "--quiet",
        "--features",
        "bare",
        "--target",
        "x86_64-unknown-none",
    ];
    for package in build::bare_packages() {
        bare.extend(["-p", package]);
    }
    vec![tests.to_vec(), programs.to_vec(), bare]
}

/// A warning is as good as an error, also one of what was compiled before: cargo says it again.
fn warns(said: &str) -> bool {
    said.lines().any(|line| line.starts_with("warning"))
}

/// One test out of several calls of cargo, one of which is a subcommand that a packaged toolchain may lack.
fn lint(report: &Report, name: &str, subcommand: &str, calls: &[Vec<&str>]) -> Result<()> {
    let mut version = cargo();
    version
        .args([subcommand, "--version"])
        .stdout(Stdio::null());
    let there = version.stderr(Stdio::null()).status()?.success();
    if !there || subcommand == "clippy" && clippy().is_none() {
        println!("skip  {name}: this toolchain has no cargo {subcommand}");
        return Ok(());
    }
    let begun = Instant::now();
    let mut verdict: Verdict = Ok(());
    for call in calls {
        let mut step = progress::Step::begin(&format!("cargo {subcommand}"));
        step.tick();
        let output = cargo().args(call).stdin(Stdio::null()).output()?;
        drop(step);
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || warns(&said) {
            let text = format!("{}{said}", String::from_utf8_lossy(&output.stdout));
            verdict = Err(format!(
                "cargo {}\n{}",
                call.join(" "),
                last_lines(&text, 40)
            ));
            break;
        }
    }
    report.result(name, begun.elapsed(), verdict);
    Ok(())
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code in the documentation of other crates would not be looked at.
    #[test]
    fn code_in_documentation_is_tested() {
        let output = Command::new("git")
            .args([
                "grep",
                "-nE",
                "^ *//[/!]( ?```| {5,}[^ ]|$)",
                "--",
                "*/src/*.rs",
            ])
            .current_dir(places::root())
            .output()
            .unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let (mut open, mut before) = (false, ("", 0));
        for line in lines.lines() {
            let [file, number, text] = line.splitn(3, ':').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let number: usize = number.parse().unwrap();
            let code = match text.split_once("```") {
                Some((_, what)) => {
                    open = !open;
                    open && what != "text"
                }
                // What is set in behind an empty line is code as well.
                None => {
                    let empty = text.ends_with('/') || text.ends_with('!');
                    let behind = before == (file, number.wrapping_sub(1));
                    if empty {
                        before = (file, number);
                    }
                    !open && !empty && behind
                }
            };
            let tested = DOCUMENTED
                .iter()
                .any(|(_, folder)| file.starts_with(folder));
            assert!(!code || tested, "{line}");
        }
    }

    #[test]
    fn warnings_are_seen() {
        assert!(!warns("    Finished `dev` profile\n"));
        assert!(warns(
            "x\nwarning: unused variable: `x`\n --> xtask/src/main.rs\n"
        ));
    }

    #[test]
    fn counts_are_summed() {
        let text = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\nnoise\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(counts(text), (15, 2));
    }
}
