//! The first process of the guest, the same program on Cairn and on Linux (so that both are compared from the same starting point).
//!
//! `mode=shell` (the default): a login shell on the console, started again when it ends.
//! `mode=exec`: commands from the development host over the second serial port (`cairn-hostlink`).
//!
//! The words come from the kernel command line: as environment variables (both kernels hand unknown `name=value` words to the first
//! process that way), or from `/proc/cmdline`. Further words: `rows=` and `cols=`, the size of the host's terminal; `term=`, its kind; `nameserver=`, who is asked for names if `/etc/resolv.conf` is not there.
//!
//! Under the names `cairn-ctl`, `cairn-9p`, `poweroff`, `halt` and `reboot` it is those programs (`cairn_ctl`, `cairn_9p`).
//!
//! One thread, no allocation after `fork` in the child that could matter, and only old system calls: this program must work early
//! in a system's life.

mod boot;
mod command;
mod disks;
mod end;
mod exec;
mod root;
mod shell;
mod sys;
mod tree;
mod window;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args();
    let name = words.next().unwrap_or_default();
    match name.rsplit('/').next().unwrap_or_default() {
        "cairn-ctl" => ExitCode::from(cairn_ctl::main(&words.collect::<Vec<_>>())),
        cairn_9p::NAME => ExitCode::from(cairn_9p::main(&words.collect::<Vec<_>>())),
        "poweroff" | "halt" => ask_first(libc::SIGUSR2),
        "reboot" => ask_first(libc::SIGTERM),
        _ => {
            serve();
            ExitCode::SUCCESS
        }
    }
}

/// Have the first process end the machine, as busybox's programs of these names do.
fn ask_first(signal: i32) -> ExitCode {
    match sys::tell(1, signal) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the first process cannot be asked: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() {
    let begun = sys::time_stamp();
    let words = boot::prepare();
    sys::catch_signals();
    match words.mode.as_str() {
        "exec" => exec::serve(begun),
        _ => shell::serve(&words),
    }
}
