//! `cairn-ctl`: the system's components from within: what each is and does ([`components`]), the log ([`log`]), a restart by hand, and who may call whom
//! ([`graph`], which `./cairn graph` draws as well).
//!
//! It is an ordinary Linux program that reads files below /proc/cairn and /dev/kmsg: rights are those of the files, and the program has none of its own.
//! So it is in the guest's first program (under the name `cairn-ctl`), which is in every root already, and no component more is needed.
#![forbid(unsafe_code)]

pub mod components;
pub mod graph;
pub mod log;
mod top;

use components::Component;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const STATES: &str = "/proc/cairn/components";
const PORTALS: &str = "/proc/cairn/portals";
const RESTART: &str = "/proc/cairn/restart";
/// How long a component may take until it is there again.
const PATIENCE: Duration = Duration::from_secs(10);

const HELP: &str = "\
cairn-ctl ps                 the components: state, priority, processor time, messages, memory, threads, portals, lives
cairn-ctl top [-d S] [-n N]  the same every S seconds (2), busiest first; `q` ends it, or N times do
cairn-ctl log [-f]           the nucleus's log; -f: and what comes
cairn-ctl restart NAME       end a component that is started again then (user 0)
cairn-ctl graph [--svg]      who may call whom, and which devices each has
";

/// The whole program; its exit status.
pub fn main(arguments: &[String]) -> u8 {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ps"] => states().map(|all| print(&components::table(&all))),
        ["top", rest @ ..] => top::top(rest),
        ["log"] => log::show(false),
        ["log", "-f" | "--follow"] => log::show(true),
        ["restart", name] => restart(name),
        ["graph"] => read(PORTALS).map(|text| print(&graph::Graph::parse(&text).text())),
        ["graph", "--svg"] => read(PORTALS).map(|text| print(&graph::Graph::parse(&text).svg())),
        ["help" | "--help" | "-h"] => {
            print(HELP);
            Ok(())
        }
        [] => {
            eprint!("{HELP}");
            return 2;
        }
        wrong => {
            eprint!("cairn-ctl: not understood: {}\n{HELP}", wrong.join(" "));
            return 2;
        }
    };
    match done {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("cairn-ctl: {why}");
            1
        }
    }
}

/// Whoever reads may have gone: that is no reason to complain.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| match Path::new("/proc/cairn").exists() {
        true => format!("{path}: {e}"),
        false => format!("{path} is not there: this is no Cairn, or /proc is not mounted"),
    })
}

pub(crate) fn states() -> Result<Vec<Component>, String> {
    read(STATES).map(|text| components::parse(&text))
}

fn restart(name: &str) -> Result<(), String> {
    let find = || states().map(|all| all.into_iter().find(|c| c.name == name));
    let before =
        find()?.ok_or_else(|| format!("no component `{name}` (`cairn-ctl ps` lists them)"))?;
    // The file server of /proc itself, if it is the one, ends before it has answered.
    let cut_off = match std::fs::write(RESTART, name) {
        Ok(()) => None,
        Err(error) if components::is_refusal(&before, &error) => {
            return Err(components::refusal(&before, &error))
        }
        Err(error) => Some(error),
    };
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match find() {
            Ok(Some(now)) if now.lives > before.lives && now.is_alive() => {
                print(&format!("{name} started again (life {})\n", now.lives));
                return Ok(());
            }
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    Err(match cut_off {
        Some(error) => components::refusal(&before, &error),
        None => format!("{name} was ended and is not there again yet; `cairn-ctl log` may say why"),
    })
}
