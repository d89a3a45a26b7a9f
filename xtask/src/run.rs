//! `./cairn run`: a machine on this terminal.

use crate::cli::{self, System};
use crate::link::Net;
use crate::log::Log;
use crate::machine::{self, Boot};
use crate::verdict;
use anyhow::{Context, Result};
use rustix::termios::{self, OptionalActions, Termios};
use std::io::IsTerminal;
use std::process::Stdio;

/// Puts the terminal back as it was, whatever happened in between.
struct Saved(Option<Termios>);

impl Saved {
    fn now() -> Saved {
        Saved(termios::tcgetattr(std::io::stdin()).ok())
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        if let Some(settings) = &self.0 {
            // If the terminal is gone there is nothing to mend.
            let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, settings);
        }
    }
}

pub fn run(arguments: &cli::Run) -> Result<u8> {
    let interactive = !arguments.headless && std::io::stdin().is_terminal();
    let mut machine = arguments.machine.clone();
    if interactive && machine.net.is_empty() && machine.system == System::Cairn {
        machine.net.push(Net::User(String::new()));
    }
    let boot = Boot::prepare("run", &machine)?;
    let mut command = machine::qemu(&boot, &machine, false, &words())?;
    if arguments.headless {
        command
            .args(["-serial", "stdio", "-monitor", "none"])
            .stdin(Stdio::null());
    } else {
        command.args(["-serial", "mon:stdio"]);
    }
    // The second port is there, as in every machine, but leads nowhere.
    command.args(["-serial", "null"]);
    if interactive {
        let system = match arguments.machine.system {
            System::Cairn => "Cairn",
            System::Linux => "Linux",
        };
        eprintln!("Booting {system}. Ctrl-A X ends it at any time.");
    }
    let saved = Saved::now();
    let mut log = Log::follow(&boot.kernel_log(), arguments.machine.verbose);
    let mut qemu = command.spawn().with_context(|| {
        format!(
            "cannot start {}; is qemu-system-x86 installed?",
            machine::QEMU
        )
    })?;
    let mut panicked = None;
    let status = loop {
        if let Some(status) = qemu.try_wait()? {
            break status;
        }
        log.look();
        // A nucleus that gave up does nothing more: no reason to keep the terminal for it.
        if log.panic().is_some()
            && panicked
                .get_or_insert_with(std::time::Instant::now)
                .elapsed()
                .as_millis()
                > 500
        {
            qemu.kill()?;
        }
        std::thread::sleep(std::time::Duration::from_millis(40));
    };
    drop(saved);
    log.look();
    if let Some(text) = log.panic() {
        eprintln!();
        log.show_failure();
        eprintln!(
            "cairn: the machine crashed: {text} (logs: {})",
            boot.run.display()
        );
        return Ok(verdict::CRASHED);
    }
    if interactive {
        eprintln!();
    }
    // isa-debug-exit makes an odd status out of the guest's verdict; 0 is a normal end.
    match status.code() {
        Some(0) => Ok(0),
        _ if status.success() => Ok(0),
        code => {
            eprintln!(
                "cairn: the machine ended with QEMU's status {code:?} (logs: {})",
                boot.run.display()
            );
            Ok(verdict::CRASHED)
        }
    }
}

/// What the guest must know about this terminal.
fn words() -> String {
    let mut words = "mode=shell".to_string();
    if let Ok(size) = termios::tcgetwinsize(std::io::stdout()) {
        if size.ws_row > 0 && size.ws_col > 0 {
            words.push_str(&format!(" rows={} cols={}", size.ws_row, size.ws_col));
        }
    }
    let term = std::env::var("TERM").unwrap_or_default();
    if !term.is_empty()
        && term
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b))
    {
        words.push_str(&format!(" term={term}"));
    }
    words
}
