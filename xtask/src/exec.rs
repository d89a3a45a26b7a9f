//! `./cairn exec`: one command in a machine of its own.

use crate::cli;
use crate::guest::{Guest, Input, Outcome, Stream};
use crate::machine::Boot;
use crate::output::Output;
use crate::progress;
use crate::verdict::{Failure, WITHOUT_READER};
use anyhow::{bail, Result};
use cairn_hostlink::Spec;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// The environment that commands find; `--env` adds to it and replaces.
pub const ENVIRONMENT: [&str; 6] = [
    "HOME=/root",
    "USER=root",
    "LOGNAME=root",
    "SHELL=/bin/sh",
    "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/sbin",
    "TERM=dumb",
];

pub fn exec(arguments: &cli::Exec) -> Result<u8> {
    let spec = Spec {
        argv: arguments
            .command
            .iter()
            .map(|a| a.as_bytes().to_vec())
            .collect(),
        env: environment(&arguments.env)?,
        cwd: arguments.cwd.as_bytes().to_vec(),
        no_stdin: false,
    };
    let trees = arguments
        .tree
        .iter()
        .map(|pair| {
            let to = (pair.second != "-").then(|| Output::open(Path::new(&pair.second)));
            Ok((&pair.first, to.transpose()?))
        })
        .collect::<Result<Vec<_>>>()?;
    progress::only_on_terminals();
    let boot = Boot::prepare("exec", &arguments.machine)?;
    let logs = boot.run.clone();
    let mut guest = match Guest::start(boot, &arguments.machine, arguments.icount)? {
        Ok(guest) => guest,
        Err(failure) => return Ok(report(&failure, &logs, None)),
    };
    let limit = (arguments.timeout > 0).then(|| Duration::from_secs(arguments.timeout));
    let mut broken = false;
    let outcome = guest.run(&spec, Input::Host, limit, &mut |stream, bytes| {
        let written = match stream {
            Stream::Out => std::io::stdout()
                .write_all(bytes)
                .and_then(|()| std::io::stdout().flush()),
            Stream::Err => std::io::stderr().write_all(bytes),
        };
        broken |= written.is_err() && stream == Stream::Out;
        if broken {
            // Whoever read our output is gone; nobody wants the rest of the command either.
            std::process::exit(WITHOUT_READER.into());
        }
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(failure) => return Ok(report(&failure, &logs, Some(&mut guest))),
    };
    if let Outcome::Refused { reason, .. } = &outcome {
        eprintln!("cairn: {reason}");
    }
    for (folder, output) in trees {
        match (guest.tree(folder), output) {
            (Ok(text), Some(output)) => output.write(&text)?,
            (Ok(text), None) => std::io::stderr().write_all(&text)?,
            (Err(failure), _) => return Ok(report(&failure, &logs, Some(&mut guest))),
        }
    }
    guest.log.look();
    guest.power_off();
    Ok(outcome.status())
}

/// The standard environment with what the user wants different.
fn environment(wanted: &[String]) -> Result<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<u8>> = ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect();
    for variable in wanted {
        let Some((name, _)) = variable.split_once('=') else {
            bail!("--env {variable}: NAME=VALUE is wanted");
        };
        let prefix = format!("{name}=");
        all.retain(|v| !v.starts_with(prefix.as_bytes()));
        all.push(variable.as_bytes().to_vec());
    }
    Ok(all)
}

/// Say on standard error why there is no result; the exit status that says it, too.
pub fn report(failure: &Failure, logs: &std::path::Path, guest: Option<&mut Guest>) -> u8 {
    if let Some(guest) = guest {
        guest.log.look();
        guest.log.show_failure();
    }
    eprintln!("cairn: {failure} (logs: {})", logs.display());
    failure.status()
}
