//! `entrance/ssh`: `./cairn run --ssh`, with a session on its own streams, others by what it prints, files both ways, and statuses.

use super::entrance::{ourselves, Scratch};
use super::Verdict;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A root may have to be made before.
const READY: Duration = Duration::from_secs(900);
/// How long the end of a machine may take, on a busy host.
const END: Duration = Duration::from_secs(120);

pub fn there_is_ssh() -> bool {
    let tried = Command::new("ssh").arg("-V").stderr(Stdio::null()).status();
    tried.is_ok()
}

pub fn ssh() -> Result<Verdict> {
    for (wrong, told) in [
        ("run --ssh", "./cairn run --root debian --ssh"),
        ("run --root debian --ssh --net none", "--net user"),
        ("run --root debian --ssh --headless", "cannot be used with"),
        ("run --root debian -- true", "--ssh"),
    ] {
        let words: Vec<&str> = wrong.split(' ').collect();
        let (_, said, status) = ourselves(&words)?;
        if !said.contains(told) || status == Some(0) {
            return Ok(Err(format!("{wrong}: status {status:?}: {said}")));
        }
    }
    let several = sessions()?;
    if several.is_err() {
        return Ok(several);
    }
    // A command in place of the shell, with its words as they are.
    let command = "run --root debian --snapshot --ssh -- sh -c";
    let script = "echo \"$0|$1\"; cat; echo err >&2; exit 7";
    let words = command.split(' ').chain([script, "a b", "it's $1"]);
    let (text, said, status) = ourselves(&words.collect::<Vec<&str>>())?;
    if text != "a b|it's $1\n" || status != Some(7) || !said.ends_with("err\n") {
        return Ok(Err(format!("{text:?}, status {status:?}:\n{said}")));
    }
    Ok(Ok(()))
}

/// A session whose input is a pipe, beside which others come and go; `poweroff` ends it all.
fn sessions() -> Result<Verdict> {
    let folder = Scratch::new("ssh")?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["run", "--root", "debian", "--snapshot", "--ssh"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let verdict = beside(&mut child, &folder);
    let begun = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() > END || !matches!(verdict, Ok(Ok(()))) => {
                // The machine goes with it.
                child.kill()?;
                break child.wait()?;
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    Ok(match verdict? {
        Ok(()) if status.code() == Some(0) => Ok(()),
        Ok(()) => Err(format!("poweroff in a session: it ended with {status}")),
        why => why,
    })
}

fn beside(child: &mut Child, folder: &Scratch) -> Result<Verdict> {
    let err = child.stderr.take().context("no pipe")?;
    // A machine that never says anything is ended by its own limits, all of them less.
    let begun = Instant::now();
    let mut said = String::new();
    let mut lines = BufReader::new(err).lines();
    let marked = loop {
        let Some(line) = lines.next().transpose()? else {
            return Ok(Err(format!("no command line of ssh:\n{said}")));
        };
        if let Some((_, words)) = line.split_once("ssh -F ") {
            break words.to_string();
        }
        said = format!("{said}{line}\n");
        if begun.elapsed() > READY {
            return Ok(Err(format!("not ready in time:\n{said}")));
        }
    };
    // Its other lines, which are few, stay in the pipe.
    let Some((config, "cairn")) = marked.rsplit_once(' ') else {
        return Ok(Err(format!("no file and name in {marked}")));
    };
    let run = |program: &str, words: &[&str]| -> Result<Output> {
        let mut command = Command::new(program);
        command.args(["-F", config]).args(words);
        Ok(command.stdin(Stdio::null()).output()?)
    };
    let there = run(
        "ssh",
        &[
            "cairn",
            "id -un; stat -c %a .ssh .ssh/authorized_keys; exit 42",
        ],
    )?;
    if there.stdout != b"root\n700\n600\n" || there.status.code() != Some(42) {
        return Ok(Err(format!("another session: {there:?}")));
    }
    let terminal = run("ssh", &["-tt", "cairn", "tty; who am i | wc -l"])?;
    if terminal.stdout != b"/dev/pts/0\r\n1\r\n" {
        return Ok(Err(format!("a session with a terminal: {terminal:?}")));
    }
    // As it leaves and as it comes back.
    let (from, back) = (folder.0.join("from"), folder.0.join("back"));
    let content: Vec<u8> = (0..300_000_u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    std::fs::write(&from, &content)?;
    let (from, to) = (from.display().to_string(), back.display().to_string());
    for words in [
        [from.as_str(), "cairn:/tmp/there"],
        ["cairn:/tmp/there", &to],
    ] {
        let copied = run("scp", &words)?;
        if !copied.status.success() {
            return Ok(Err(format!("scp {words:?}: {copied:?}")));
        }
    }
    if std::fs::read(&back)? != content {
        return Ok(Err("the file came back otherwise".to_string()));
    }
    // The machine is known by its keys, and by nothing else.
    let unknown = run(
        "ssh",
        &["-o", "UserKnownHostsFile=/dev/null", "cairn", "true"],
    )?;
    if unknown.status.code() != Some(255) {
        return Ok(Err(format!("a host that is not known: {unknown:?}")));
    }
    let mut input = child.stdin.take().context("no pipe")?;
    writeln!(input, "test -e /tmp/there && poweroff; sleep 100")?;
    drop(input);
    Ok(Ok(()))
}
