//! `CAIRN_STRACE=1` in the environment at exec: each call with its arguments and result goes to the log. (The quick calls of the entry code are not seen.)

use crate::machine::area::{area, process, Frame};
use crate::machine::{gate, user};
use crate::table;
use crate::text::Line;

/// Calls whose first argument, or second, is a string.
fn string_argument(name: &str) -> Option<usize> {
    match name {
        "open" | "stat" | "lstat" | "access" | "execve" | "chdir" | "rename" | "mkdir"
        | "rmdir" | "creat" | "link" | "unlink" | "symlink" | "readlink" | "chmod" | "chown"
        | "lchown" | "mknod" | "statfs" | "chroot" | "truncate" | "umount2" | "utimes" => Some(0),
        "openat" | "mkdirat" | "mknodat" | "fchownat" | "newfstatat" | "unlinkat" | "renameat"
        | "renameat2" | "linkat" | "readlinkat" | "fchmodat" | "faccessat" | "faccessat2"
        | "utimensat" | "statx" | "mount" | "execveat" => Some(1),
        _ => None,
    }
}

fn call(line: &mut Line, f: &Frame) {
    line.text("strace ")
        .number(process().pid() as u64)
        .text("/")
        .number(area().tid() as u64)
        .text(" ");
    let name = table::name(f.number);
    match name {
        Some(name) => line.text(name),
        None => line.text("call ").number(f.number),
    };
    line.text("(");
    let string = name.and_then(string_argument);
    for i in 0..6 {
        if i > 0 {
            line.text(", ");
        }
        match string {
            Some(at) if at == i => string_of(line, f.arg(i)),
            _ => number(line, f.arg(i)),
        }
    }
    line.text(")");
}

fn number(line: &mut Line, value: u64) {
    let signed = value as i64;
    if (-4096..4096).contains(&signed) {
        line.signed(signed);
    } else {
        line.hex(value);
    }
}

fn string_of(line: &mut Line, address: u64) {
    let mut text = user::UserString::empty();
    match text.fill(address) {
        Ok(()) => {
            let shown = text.as_bytes().len().min(120);
            line.text("\"").raw(&text.as_bytes()[..shown]).text("\"");
        }
        Err(_) => number(line, address),
    }
}

/// Before calls that may not come back.
pub fn begin(f: &Frame) {
    let waits = matches!(
        table::name(f.number),
        Some(
            "execve"
                | "exit"
                | "exit_group"
                | "wait4"
                | "vfork"
                | "clone"
                | "fork"
                | "rt_sigsuspend"
                | "futex"
                | "poll"
                | "read"
        )
    );
    if waits {
        let mut line = Line::new();
        call(&mut line, f);
        line.text(" ...");
        gate::log_line(line.bytes());
    }
}

pub fn end(f: &Frame, result: u64) {
    let mut line = Line::new();
    call(&mut line, f);
    line.text(" = ");
    number(&mut line, result);
    gate::log_line(line.bytes());
}

pub fn missing(number: u64) {
    let mut line = Line::new();
    line.text("strace ")
        .number(process().pid() as u64)
        .text(" call ")
        .number(number)
        .text(" does not exist here");
    gate::log_line(line.bytes());
}
