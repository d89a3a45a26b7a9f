//! `./cairn debug`: a machine that waits for GDB, and GDB with the symbols of nucleus and components.

use crate::cli::{self, System};
use crate::machine::{self, Boot};
use crate::places;
use anyhow::{bail, Context, Result};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Where QEMU listens for GDB.
const PORT: &str = "localhost:1234";

pub fn debug(arguments: &cli::Debug) -> Result<u8> {
    if arguments.machine.system != System::Cairn {
        bail!("only Cairn has symbols here: leave out --system linux");
    }
    let boot = Boot::prepare("debug", &arguments.machine)?;
    let script = boot.run.join("gdbinit");
    fs::write(&script, commands()?)?;
    let mut command = machine::qemu(&boot, &arguments.machine, false, "mode=shell");
    command.args(["-S", "-gdb", &format!("tcp:{PORT}")]);
    if arguments.no_gdb {
        eprintln!("The machine waits at {PORT}. In another terminal:");
        eprintln!("  gdb -x {}", script.display());
        eprintln!("Its console is here; Ctrl-A X ends it.");
        command.args(["-serial", "mon:stdio", "-serial", "null"]);
        let status = command
            .status()
            .with_context(|| format!("cannot start {}", machine::QEMU))?;
        return Ok(u8::from(!status.success()));
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
    let mut qemu = command
        .spawn()
        .with_context(|| format!("cannot start {}", machine::QEMU))?;
    eprintln!("Console of the machine: {}", boot.console_log().display());
    eprintln!("`continue` starts it; `symbols NAME` also loads a component's symbols; `quit` ends everything.");
    let status = Command::new("gdb")
        .arg("-q")
        .arg("-x")
        .arg(&script)
        .status();
    // It may have ended with GDB.
    let _ = qemu.kill();
    let _ = qemu.wait();
    let status = status.context("cannot start gdb: `apt-get install gdb`, or use --no-gdb")?;
    Ok(u8::from(!status.success()))
}

/// What GDB is told. Components share addresses, so their symbols are loaded on demand; the nucleus and the personality have addresses of their own.
fn commands() -> Result<String> {
    let symbols = places::symbols();
    let symbols = symbols.canonicalize().unwrap_or(symbols);
    let personality = symbols.join("personality");
    Ok(format!(
        "set pagination off\nset confirm off\nset architecture i386:x86-64\n\
         file {nucleus}\nadd-symbol-file {personality}\n\
         define symbols\n  add-symbol-file {folder}/$arg0\nend\n\
         document symbols\nsymbols NAME: also load the symbols of the component NAME (vm, proc, tmpfs, …).\nend\n\
         target remote {PORT}\n",
        nucleus = symbols.join("cairn-nucleus").display(),
        personality = personality.display(),
        folder = symbols.display(),
    ))
}
