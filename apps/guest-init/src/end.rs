//! The end of the machine: every process is asked to end, then made to, and what is in memory goes onto the disks.

use crate::disks;
use crate::sys::{self, End};
use std::time::{Duration, Instant};

/// How long processes that were asked may take.
const GRACE: Duration = Duration::from_millis(50);
/// How often it is looked whether some are left.
const LOOK: Duration = Duration::from_millis(5);

/// What the first process is asked for by a signal, as busybox's `poweroff` and its like do.
pub fn asked(signals: &[i32]) -> Option<End> {
    signals.iter().find_map(|signal| match *signal {
        libc::SIGUSR1 | libc::SIGUSR2 => Some(End::PowerOff),
        libc::SIGTERM | libc::SIGINT => Some(End::Reboot),
        _ => None,
    })
}

/// End the machine; if the kernel refuses, this process.
pub fn end(how: End) {
    ask_everything();
    kill_everything();
    disks::unmount_all();
    sys::end_machine(how);
    std::process::exit(0)
}

/// Ask every other process to end, and collect those that do in time.
fn ask_everything() {
    if std::process::id() != 1 || sys::tell(-1, libc::SIGTERM).is_err() {
        return;
    }
    sys::kill(-1, libc::SIGCONT);
    let begun = Instant::now();
    while begun.elapsed() < GRACE && sys::tell(-1, 0).is_ok() {
        while sys::reap(false).is_some() {}
        std::thread::sleep(LOOK);
    }
}

/// End every other process and collect all of them.
pub fn kill_everything() {
    if std::process::id() != 1 {
        return;
    }
    sys::kill(-1, libc::SIGKILL);
    while sys::reap(true).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_signals_ask_for_the_end() {
        assert_eq!(asked(&[]), None);
        assert_eq!(asked(&[libc::SIGCHLD]), None);
        assert_eq!(asked(&[libc::SIGCHLD, libc::SIGUSR2]), Some(End::PowerOff));
        assert_eq!(asked(&[libc::SIGTERM]), Some(End::Reboot));
    }
}
