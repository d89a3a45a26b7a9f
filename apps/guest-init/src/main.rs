//! The first process of the guest, the same program on Cairn and on Linux (so that both are compared from the same starting point).
//!
//! `mode=shell` (the default): a login shell on the console, started again when it ends.
//! `mode=exec`: commands from the development host over the second serial port (`cairn-hostlink`).
//!
//! The words come from the kernel command line: as environment variables (both kernels hand unknown `name=value` words to the first
//! process that way), or from `/proc/cmdline`. Further words: `rows=` and `cols=`, the size of the host's terminal; `term=`, its kind; `nameserver=`, who is asked for names if `/etc/resolv.conf` is not there.
//!
//! One thread, no allocation after `fork` in the child that could matter, and only old system calls: this program must work early
//! in a system's life.

mod boot;
mod command;
mod disks;
mod exec;
mod root;
mod shell;
mod sys;
mod tree;

fn main() {
    let begun = sys::time_stamp();
    let words = boot::prepare();
    sys::catch_signals();
    match words.mode.as_str() {
        "exec" => exec::serve(begun),
        _ => shell::serve(&words),
    }
}
