//! One command from the host: finding its file, its pipes, and moving bytes between them and the link.

use crate::sys::{self, Program, Status, Wait};
use cairn_hostlink::{Ended, Spec};
use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Most bytes taken from a pipe after the command has ended: more than a pipe holds, so only a process that it left behind can reach this.
const LAST_WORDS: usize = 1 << 20;

/// A command that runs or has ended.
pub struct Command {
    pid: i32,
    stdin: Option<OwnedFd>,
    /// Input that the command has not taken yet.
    pending: VecDeque<u8>,
    stdin_ended: bool,
    pub out: Option<OwnedFd>,
    pub err: Option<OwnedFd>,
    ended: Option<Ended>,
}

/// Why a command could not be started.
#[derive(Debug)]
pub struct Refused {
    pub errno: i32,
    pub reason: String,
}

impl Refused {
    fn new(what: &[u8], error: &io::Error) -> Self {
        Refused {
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            reason: format!("{}: {error}", String::from_utf8_lossy(what)),
        }
    }
}

impl Command {
    pub fn start(spec: &Spec) -> Result<Command, Refused> {
        let directory = String::from_utf8_lossy(&spec.cwd).into_owned();
        std::fs::create_dir_all(&directory).map_err(|e| Refused::new(&spec.cwd, &e))?;
        let path = find(spec)?;
        let strings = |list: &[Vec<u8>]| -> Result<Vec<CString>, Refused> {
            list.iter()
                .map(|item| {
                    CString::new(item.as_slice()).map_err(|_| Refused {
                        errno: libc::EINVAL,
                        reason: "an argument holds a NUL byte".to_string(),
                    })
                })
                .collect()
        };
        let pipe = || sys::pipe().map_err(|e| Refused::new(b"pipe", &e));
        let (stdin_read, stdin_write) = pipe()?;
        let (out_read, out_write) = pipe()?;
        let (err_read, err_write) = pipe()?;
        for end in [&stdin_write, &out_read, &err_read] {
            sys::set_nonblocking(end);
        }
        let mut cwd = strings(std::slice::from_ref(&spec.cwd))?;
        let program = Program {
            path,
            argv: strings(&spec.argv)?,
            env: strings(&spec.env)?,
            cwd: cwd.remove(0),
            stdio: [
                stdin_read.as_raw_fd(),
                out_write.as_raw_fd(),
                err_write.as_raw_fd(),
            ],
            terminal: false,
        };
        let pid = sys::spawn(&program).map_err(|e| Refused::new(b"fork", &e))?;
        Ok(Command {
            pid,
            stdin: (!spec.no_stdin).then_some(stdin_write),
            pending: VecDeque::new(),
            stdin_ended: spec.no_stdin,
            out: Some(out_read),
            err: Some(err_read),
            ended: None,
        })
    }

    /// Input from the host. Returns how many bytes are done with at once (because nobody will read them).
    pub fn push_input(&mut self, bytes: &[u8]) -> usize {
        if self.stdin.is_none() {
            return bytes.len();
        }
        self.pending.extend(bytes);
        self.feed()
    }

    /// No more input comes; how many bytes are done with by now.
    pub fn end_input(&mut self) -> usize {
        self.stdin_ended = true;
        self.feed()
    }

    /// Give the command what it takes now; how many bytes are done with.
    pub fn feed(&mut self) -> usize {
        let mut done = 0;
        while let Some(stdin) = &self.stdin {
            if self.pending.is_empty() {
                if self.stdin_ended {
                    self.stdin = None;
                }
                break;
            }
            match sys::write(stdin.as_raw_fd(), self.pending.make_contiguous()) {
                Ok(count) => {
                    self.pending.drain(..count);
                    done += count;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Nobody reads any more: the rest goes nowhere, as with any pipe.
                Err(_) => {
                    done += self.pending.len();
                    self.pending.clear();
                    self.stdin = None;
                }
            }
        }
        done
    }

    /// Where to wait for room for more input, if there is input to give.
    pub fn wants_to_feed(&self) -> Option<Wait> {
        let stdin = self.stdin.as_ref().filter(|_| !self.pending.is_empty())?;
        Some(Wait {
            fd: stdin.as_raw_fd(),
            for_writing: true,
        })
    }

    /// A child died: was it this one?
    pub fn note_death(&mut self, pid: i32, status: Status) {
        if pid == self.pid {
            self.ended = Some(match status {
                Status::Exited(code) => Ended::Exited(code),
                Status::Signalled(signal) => Ended::Signalled(signal),
            });
        }
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Input that was granted to the host and not used; it is counted as done when the command has ended.
    pub fn unused_input(&self) -> usize {
        self.pending.len()
    }

    pub fn signal(&self, number: i32) {
        if self.ended.is_none() {
            sys::kill(-self.pid, number);
        }
    }

    /// Whatever is still in the pipes, in order: standard output, standard error.
    pub fn last_words(&mut self) -> [Vec<u8>; 2] {
        [self.out.take(), self.err.take()].map(|pipe| {
            let mut words = Vec::new();
            let mut buffer = [0; 4096];
            if let Some(pipe) = pipe {
                while words.len() < LAST_WORDS {
                    match sys::read(pipe.as_raw_fd(), &mut buffer) {
                        Ok(0) => break,
                        Ok(count) => words.extend_from_slice(&buffer[..count]),
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
            }
            words
        })
    }
}

/// The file to execute: as named if the name has a `/`, otherwise the first along the spec's PATH that may be executed.
fn find(spec: &Spec) -> Result<CString, Refused> {
    let name = spec.argv[0].as_slice();
    let from_cwd = |path: &[u8]| -> Vec<u8> {
        if path.starts_with(b"/") {
            return path.to_vec();
        }
        [spec.cwd.as_slice(), b"/", path].concat()
    };
    let candidates: Vec<Vec<u8>> = if name.contains(&b'/') {
        vec![name.to_vec()]
    } else {
        let path = spec
            .env
            .iter()
            .find_map(|v| v.strip_prefix(b"PATH="))
            .unwrap_or(b"/bin");
        path.split(|&b| b == b':')
            .map(|directory| [directory, b"/", name].concat())
            .collect()
    };
    let mut error = io::Error::from_raw_os_error(libc::ENOENT);
    for candidate in candidates {
        let Ok(absolute) = CString::new(from_cwd(&candidate)) else {
            continue;
        };
        match sys::executable(&absolute) {
            Ok(()) => {
                if let Ok(path) = CString::new(candidate) {
                    return Ok(path);
                }
            }
            Err(e) if e.raw_os_error() != Some(libc::ENOENT) => error = e,
            Err(_) => {}
        }
    }
    Err(Refused::new(name, &error))
}
