//! `./cairn trace`: one command in a machine whose nucleus records every entry, and the records as a file for Perfetto ([`perfetto`])
//! and as a table of who called whom ([`callers`]).

mod callers;
mod perfetto;

use crate::cli;
use crate::exec::{report, ENVIRONMENT};
use crate::guest::{Guest, Input, Outcome, Stream};
use crate::machine::Boot;
use crate::output::Output;
use crate::{places, progress};
use anyhow::{bail, Context, Result};
use cairn_abi::trace::{Record, SIZE};
use cairn_hostlink::Spec;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Around the command, so that little else is in the trace.
const WRAPPER: &str = "echo start >/trace/control || exit 125; \"$@\"; status=$?; echo stop >/trace/control; exit $status";
/// For the records to come over the link.
const LIMIT: Duration = Duration::from_secs(600);

pub fn command(arguments: &cli::Trace) -> Result<u8> {
    let mut machine = arguments.machine.clone();
    if machine.system != cli::System::Cairn || machine.with.is_some() {
        bail!("a trace is of Cairn, with its standard manifest");
    }
    machine.with = Some(places::root().join("system/trace.toml"));
    let words = format!("nucleus.trace={}", arguments.size);
    machine.append = Some(match machine.append {
        Some(more) => format!("{more} {words}"),
        None => words,
    });
    let output = Output::open(&arguments.output)?;
    progress::only_on_terminals();
    let boot = Boot::prepare("trace", &machine)?;
    let (logs, log) = (boot.run.clone(), boot.nucleus_log());
    let mut guest = match Guest::start(boot, &machine, arguments.icount)? {
        Ok(guest) => guest,
        Err(failure) => return Ok(report(&failure, &logs, None)),
    };
    let mut argv: Vec<Vec<u8>> = ["sh", "-c", WRAPPER, "sh"]
        .iter()
        .map(|word| word.as_bytes().to_vec())
        .collect();
    argv.extend(arguments.command.iter().map(|a| a.as_bytes().to_vec()));
    let outcome = guest.run(
        &spec(argv, false),
        Input::Host,
        None,
        &mut |stream, bytes| {
            let _ = match stream {
                Stream::Out => std::io::stdout()
                    .write_all(bytes)
                    .and_then(|()| std::io::stdout().flush()),
                Stream::Err => std::io::stderr().write_all(bytes),
            };
        },
    );
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(failure) => return Ok(report(&failure, &logs, Some(&mut guest))),
    };
    let mut bytes = Vec::new();
    let argv = ["cat", "/trace/data"].map(|word| word.as_bytes().to_vec());
    let spec = spec(argv.to_vec(), true);
    let told = guest.run(&spec, Input::Empty, Some(LIMIT), &mut |stream, more| {
        if stream == Stream::Out {
            bytes.extend_from_slice(more);
        }
    });
    match told {
        Ok(Outcome::Ended(_)) => {}
        Ok(Outcome::Refused { reason, .. }) => bail!("the records cannot be read: {reason}"),
        Err(failure) => return Ok(report(&failure, &logs, Some(&mut guest))),
    }
    guest.log.look();
    guest.power_off();
    let records = decode(&bytes);
    let text = std::fs::read(&log).unwrap_or_default();
    let names = names(&String::from_utf8_lossy(&text));
    output.write_with(|out| perfetto::write(&records, &names, out))?;
    eprintln!(
        "cairn: {} entries of the nucleus in {}: open it in https://ui.perfetto.dev",
        records.len(),
        arguments.output.display()
    );
    if arguments.calls {
        eprint!("{}", callers::list(&records, &names));
    }
    if arguments.callers {
        eprint!("{}", callers::table(&records, &names));
    }
    if let Some(file) = &arguments.svg {
        std::fs::write(file, callers::svg(&records, &names))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(outcome.status())
}

fn spec(argv: Vec<Vec<u8>>, no_stdin: bool) -> Spec {
    Spec {
        argv,
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: b"/root".to_vec(),
        no_stdin,
    }
}

fn decode(bytes: &[u8]) -> Vec<Record> {
    bytes
        .chunks_exact(SIZE)
        .filter_map(|chunk| Some(Record::from_bytes(chunk.try_into().ok()?)))
        .collect()
}

/// Names of domains, from the log's lines. The last one counts: a process executes several programs.
fn names(log: &str) -> HashMap<u32, String> {
    log.lines()
        .filter_map(named)
        .map(|(number, name)| (number, name.to_string()))
        .collect()
}

/// The part of a domain's id that the nucleus prints.
pub const DOMAIN_NUMBER: u32 = 0xf_ffff;

/// A line "`NAME` is domain N" of the log.
pub fn named(line: &str) -> Option<(u32, &str)> {
    let (before, number) = line.rsplit_once("` is domain ")?;
    let (_, name) = before.split_once('`')?;
    Some((number.trim().parse().ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_domains() {
        let found = names("[1] `vm` is domain 2\n[4] `sh` is domain 9\nnoise\n[4] `l`s` is domain 9\n[4] `x` is domain y\n");
        assert_eq!(found.len(), 2);
        assert_eq!(found[&2], "vm");
        assert_eq!(found[&9], "l`s");
    }

    #[test]
    fn half_a_record_is_none() {
        assert_eq!(decode(&[0; 2 * SIZE + 7]).len(), 2);
    }
}
