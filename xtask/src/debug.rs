//! `./cairn debug`: a machine that waits for GDB, and GDB with the symbols of nucleus, components and personality.
//!
//! All symbols can be loaded at once because no two of these programs are linked to the same address (lib/rt/link.rs).

use crate::cli::{self, System};
use crate::machine::{self, Boot};
use crate::{build, places};
use anyhow::{bail, Context, Result};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub fn debug(arguments: &cli::Debug) -> Result<u8> {
    if arguments.machine.system != System::Cairn {
        bail!("only Cairn has symbols here: leave out --system linux");
    }
    let boot = Boot::prepare("debug", &arguments.machine)?;
    // The paths of sockets are short, so it cannot lie with the logs.
    let socket = std::env::temp_dir().join(format!("cairn-{}.gdb", std::process::id()));
    let script = boot.run.join("gdbinit");
    fs::write(&script, commands(&socket))?;
    let mut command = machine::qemu(&boot, &arguments.machine, false, "mode=shell")?;
    command
        .arg("-S")
        .arg("-chardev")
        .arg(machine::option_path(
            "socket,id=gdb,server=on,wait=off,path=",
            &socket,
        ))
        .args(["-gdb", "chardev:gdb"]);
    if arguments.no_gdb {
        eprintln!("The machine waits. In another terminal:");
        eprintln!("  gdb -x {}", script.display());
        eprintln!("Its console is here; Ctrl-A X ends it.");
        command.args(["-serial", "mon:stdio", "-serial", "null"]);
        let status = start(&mut command)?.wait();
        remove(&socket);
        return Ok(u8::from(!status?.success()));
    }
    command
        .args([
            "-serial",
            &machine::option_path("file:", &boot.console_log()),
        ])
        .args(["-serial", "null", "-monitor", "none"])
        .stdin(Stdio::null())
        // Ctrl-C is for GDB alone.
        .process_group(0);
    let mut qemu = start(&mut command)?;
    let status = listening(&mut qemu, &socket).and_then(|()| {
        eprintln!("Console of the machine: {}", boot.console_log().display());
        eprintln!("`break PROGRAM::FUNCTION` and `continue` start it; `quit` ends everything.");
        Command::new("gdb")
            .arg("-q")
            .arg("-x")
            .arg(&script)
            .args(&arguments.gdb)
            .status()
            .context("cannot start gdb: `apt-get install gdb`, or use --no-gdb")
    });
    // It may have ended with GDB.
    let _ = qemu.kill();
    let _ = qemu.wait();
    remove(&socket);
    Ok(u8::from(!status?.success()))
}

fn start(command: &mut Command) -> Result<Child> {
    command
        .spawn()
        .with_context(|| format!("cannot start {}", machine::QEMU))
}

/// GDB does not try twice, so QEMU must be ready for it.
fn listening(qemu: &mut Child, socket: &Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !socket.exists() {
        if let Some(status) = qemu.try_wait()? {
            bail!("QEMU ended at once ({status})");
        }
        if Instant::now() > deadline {
            bail!("QEMU does not wait for GDB");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn remove(socket: &Path) {
    // QEMU removes it itself if it can.
    let _ = fs::remove_file(socket);
}

/// What GDB is told.
fn commands(socket: &Path) -> String {
    let symbols = places::symbols();
    let symbols = symbols.canonicalize().unwrap_or(symbols);
    let mut text =
        "set pagination off\nset confirm off\nset architecture i386:x86-64\n".to_string();
    let mut programs = build::standard_programs();
    let nucleus = programs.next().unwrap_or_default();
    text.push_str(&format!("file {}\n", symbols.join(nucleus).display()));
    for program in programs {
        text.push_str(&format!(
            "add-symbol-file {}\n",
            symbols.join(program).display()
        ));
    }
    text.push_str(&format!("target remote {}\n", socket.display()));
    text
}
