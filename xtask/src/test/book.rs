//! Suite `book`: the commands in the code blocks of README and docs/, but for those that say why not. What is typed in the guest, and what `./cairn exec` would
//! run there, runs in one machine with a Debian root.

use super::{batch, Report, Verdict};
use crate::book::{commands::Step, runs};
use crate::cli::{Root, System};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Stream};
use crate::machine::Boot;
use crate::places;
use anyhow::{Context, Result};
use cairn_hostlink::Spec;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// For one command, on a slow host.
const LIMIT: Duration = Duration::from_secs(60);

pub fn run(report: &Report) -> Result<()> {
    let blocks = runs()?;
    // A block's name is its page and its place among those of the page, so that lines above do not change it.
    let wanted: Vec<_> = blocks
        .into_iter()
        .filter(|block| report.wants(&block.name))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut machine = batch::machine(System::Cairn, Root::Debian.memory(), Vec::new());
    (machine.root, machine.root_as_made) = (Root::Debian, true);
    let mut guest = match Guest::start(Boot::prepare("book", &machine)?, &machine, false)? {
        Ok(guest) => guest,
        Err(failure) => {
            report.result("book/machine", Duration::ZERO, Err(failure.to_string()));
            return Ok(());
        }
    };
    for block in wanted {
        let begun = Instant::now();
        let mut verdict = Ok(());
        for step in &block.steps {
            verdict = one(&mut guest, step)?;
            if verdict.is_err() {
                break;
            }
        }
        let verdict = verdict.map_err(|why| format!("{}: {why}", block.place));
        report.result(&block.name, begun.elapsed(), verdict);
    }
    guest.power_off();
    Ok(())
}

fn one(guest: &mut Guest, step: &Step) -> Result<Verdict> {
    match step {
        Step::Tool(words) => {
            let status = Command::new(std::env::current_exe()?)
                .args(&words[1..])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()?;
            Ok(match status.success() {
                true => Ok(()),
                false => Err(format!("`{}` ended with {status}", words.join(" "))),
            })
        }
        Step::Exec {
            input,
            command,
            status,
        } => {
            let input = match input {
                Some(command) => Input::From(Box::new(std::io::Cursor::new(said(command)?))),
                None => Input::Empty,
            };
            Ok(in_guest(guest, command, input, *status))
        }
        Step::Guest(script) => {
            let command = ["sh", "-e", "-c", script].map(str::to_string);
            Ok(in_guest(guest, &command, Input::Empty, 0))
        }
    }
}

/// What a command of the host writes.
fn said(command: &str) -> Result<Vec<u8>> {
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(places::root())
        .stdin(Stdio::null())
        .output()
        .with_context(|| command.to_string())?;
    anyhow::ensure!(
        output.status.success(),
        "`{command}` ended with {}",
        output.status
    );
    Ok(output.stdout)
}

fn in_guest(guest: &mut Guest, command: &[String], input: Input, status: u8) -> Verdict {
    let spec = Spec {
        argv: command
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect(),
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: b"/root".to_vec(),
        no_stdin: matches!(input, Input::Empty),
    };
    let mut errors = Vec::new();
    let outcome = guest.run(&spec, input, Some(LIMIT), &mut |stream, bytes| {
        if stream == Stream::Err {
            errors.extend_from_slice(bytes);
        }
    });
    let what = match outcome {
        Ok(outcome) if outcome.status() == status => return Ok(()),
        Ok(outcome) => format!("ended with {}", outcome.status()),
        Err(failure) => failure.to_string(),
    };
    Err(format!(
        "`{}` {what}: {}",
        command.join(" "),
        String::from_utf8_lossy(&errors)
    ))
}
