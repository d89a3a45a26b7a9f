//! `./cairn run`: a machine on this terminal.

use crate::cli::{self, Accel, System};
use crate::link::Net;
use crate::log::Log;
use crate::machine::{self, Boot};
use crate::{ssh, verdict};
use anyhow::{Context, Result};
use rustix::termios::{self, OptionalActions, Termios};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;

/// Puts the terminal back as it was, whatever happened in between.
pub struct Saved(Option<Termios>);

impl Saved {
    pub fn now() -> Saved {
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

/// Tells the guest this terminal's size: a line `ROWS COLUMNS` when it changes, and whenever a byte asks for it.
struct Window {
    socket: PathBuf,
    listener: UnixListener,
    guest: Option<UnixStream>,
    told: (u16, u16),
}

impl Window {
    fn new() -> Result<Window> {
        let name = format!("cairn-{}.window", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)
            .with_context(|| format!("cannot make {}", socket.display()))?;
        listener.set_nonblocking(true)?;
        Ok(Window {
            socket,
            listener,
            guest: None,
            told: (0, 0),
        })
    }

    /// Look once. QEMU may not have come yet, or be gone; then there is nobody to tell.
    fn follow(&mut self) {
        if self.guest.is_none() {
            let Ok((guest, _)) = self.listener.accept() else {
                return;
            };
            let _ = guest.set_nonblocking(true);
            self.guest = Some(guest);
        }
        let Some(guest) = &mut self.guest else {
            return;
        };
        let mut asked = [0; 64];
        if matches!(guest.read(&mut asked), Ok(1..)) {
            self.told = (0, 0);
        }
        let Ok(size) = termios::tcgetwinsize(std::io::stdout()) else {
            return;
        };
        let size = (size.ws_row, size.ws_col);
        let line = format!("{} {}\n", size.0, size.1);
        // What the guest does not take now it gets the next time.
        if size != self.told && guest.write_all(line.as_bytes()).is_ok() {
            self.told = size;
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

pub fn run(arguments: &cli::Run) -> Result<u8> {
    if arguments.ssh {
        return ssh::run(arguments);
    }
    let interactive = !arguments.headless && std::io::stdin().is_terminal();
    let mut machine = arguments.machine.clone();
    if interactive && machine.net.is_empty() && machine.system == System::Cairn {
        machine.net.push(Net::User(String::new()).into());
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
    // By the second port the guest hears of the terminal's size. Without a terminal it leads nowhere.
    let mut window = match interactive {
        true => Some(Window::new()?),
        false => None,
    };
    match &window {
        Some(window) => command
            .args([
                "-chardev",
                &machine::option_path("socket,id=window,path=", &window.socket),
            ])
            .args(["-serial", "chardev:window"]),
        None => command.args(["-serial", "null"]),
    };
    if interactive {
        let system = match arguments.machine.system {
            System::Cairn => "Cairn",
            System::Linux => "Linux",
        };
        eprintln!(
            "Booting {system}. `poweroff` in its shell ends it; Ctrl-A X as if the power was cut."
        );
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
        if let Some(window) = &mut window {
            window.follow();
        }
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
        _ if log.last_line().is_none() && machine.accel == Accel::Kvm => {
            // QEMU's own words are on this terminal.
            let why = machine::silent_end(machine.accel, Some("what stands above"));
            eprintln!("cairn: the machine did not boot: {why}");
            Ok(verdict::NO_BOOT)
        }
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
