//! `mode=shell`: a login shell on the console, and the duties of a first process: collecting orphans, ending the machine when asked to
//! (`poweroff` and `reboot` of busybox send it a signal).

use crate::boot::Words;
use crate::end::{asked, end};
use crate::sys::{self, End, Program, Wait};
use crate::window::Window;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// The shells that are looked for, and what is said of them.
const SHELLS: [(&str, &str); 2] = [
    (
        "/bin/bash",
        "This is a shell with Debian's programs: those of their packages, unmodified.\n\
         `poweroff` ends the machine; `cairn-ctl ps` shows what it consists of.\n\
         (Ctrl-A X ends it as if the power was cut: what was written in the last five seconds may be lost.)",
    ),
    (
        "/bin/sh",
        "This is a shell with Debian's busybox: `help` and `busybox` list what there is.\n\
         `poweroff` ends the machine; `cairn-ctl ps` shows what it consists of.\n\
         (Ctrl-A X ends it as if the power was cut.)",
    ),
];
/// When a shell has ended.
const AGAIN: &str = "\n(The shell ended; here is a new one.)\n";

pub fn serve(words: &Words) {
    let there = SHELLS.iter().find(|(path, _)| Path::new(path).exists());
    let (shell, about) = there.unwrap_or(&SHELLS[SHELLS.len() - 1]);
    // A leading dash asks for a login shell, which reads /etc/profile.
    let name = shell.replace("/bin/", "-");
    let environment = [
        "HOME=/root".to_string(),
        "USER=root".to_string(),
        "LOGNAME=root".to_string(),
        format!("SHELL={shell}"),
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_string(),
        format!("TERM={}", words.term),
    ];
    let mut window = Window::new(words.rows, words.cols);
    let greeting = format!("\nWelcome. {about}\n\n");
    let mut greeting = greeting.as_str();
    loop {
        // Anew for each shell: when the leader of a session ends, its terminal is hung up for everybody who has it open.
        let Some(console) = open_console() else {
            eprintln!("guest-init: no console");
            return end(End::PowerOff);
        };
        let fd = console.as_raw_fd();
        if window.size != (0, 0) {
            sys::set_window(fd, window.size.0, window.size.1);
        }
        say(fd, greeting);
        greeting = AGAIN;
        let program = Program {
            path: string(shell),
            argv: vec![string(&name)],
            env: environment.iter().map(|v| string(v)).collect(),
            cwd: string("/root"),
            stdio: [fd; 3],
            terminal: true,
        };
        match sys::spawn(&program) {
            Ok(shell) => wait_for(shell, fd, &mut window),
            Err(e) => {
                say(fd, &format!("guest-init: cannot start a shell: {e}\n"));
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }
}

/// The terminal itself where there is one: `/dev/console` cannot become a controlling terminal on every system. It must not become the one of this process,
/// or the shell could not have it.
fn open_console() -> Option<File> {
    ["/dev/ttyS0", "/dev/console"].iter().find_map(|path| {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY);
        options.open(path).ok()
    })
}

/// Collect children until this one has ended; meanwhile do what signals ask, and give its terminal the size that the host's has.
fn wait_for(shell: i32, terminal: RawFd, window: &mut Window) {
    loop {
        let descriptors = [Some(sys::signal_descriptor()), window.descriptor()];
        let waits: Vec<Wait> = descriptors
            .into_iter()
            .flatten()
            .map(|fd| Wait {
                fd,
                for_writing: false,
            })
            .collect();
        let ready = sys::poll(&waits);
        if ready.get(1) == Some(&true) && window.look() {
            sys::set_window(terminal, window.size.0, window.size.1);
        }
        if ready[0] {
            if let Some(how) = asked(&sys::take_signals()) {
                end(how);
            }
        }
        let mut shell_ended = false;
        while let Some((pid, _)) = sys::reap(false) {
            shell_ended |= pid == shell;
        }
        if shell_ended {
            return;
        }
    }
}

fn say(fd: i32, text: &str) {
    // The terminal is in its normal mode: it turns the newlines round itself. Nothing can be done about a console that takes no text.
    let _ = sys::write(fd, text.as_bytes());
}

/// `text` holds no NUL: all of it comes from this file or from a kernel's command line.
fn string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}
