//! The system calls that this program uses beyond the standard library, each behind a safe function. All `unsafe` of the program is here.
//!
//! Signals arrive as bytes in a pipe (one byte per signal, its number), so that the rest of the program waits in one place: [`poll`].

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Write end and read end of the signal pipe; −1 before [`catch_signals`].
static SIGNAL_WRITE: AtomicI32 = AtomicI32::new(-1);
static SIGNAL_READ: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(number: libc::c_int) {
    let byte = number as u8;
    // SAFETY: write is async-signal-safe; the byte lives on this stack. errno is restored for the interrupted code.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(
            SIGNAL_WRITE.load(Ordering::Relaxed),
            (&raw const byte).cast(),
            1,
        );
        *libc::__errno_location() = errno;
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Begin to collect the signals that the first process answers.
pub fn catch_signals() {
    let Ok((read, write)) = pipe() else { return };
    set_nonblocking(&read);
    set_nonblocking(&write);
    SIGNAL_READ.store(into_raw(read), Ordering::Relaxed);
    SIGNAL_WRITE.store(into_raw(write), Ordering::Relaxed);
    for signal in [
        libc::SIGCHLD,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGINT,
    ] {
        // SAFETY: the structure is plain data; zero is a valid start for all of its fields. The handler does nothing that is not async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// The descriptor to poll for signals.
pub fn signal_descriptor() -> RawFd {
    SIGNAL_READ.load(Ordering::Relaxed)
}

/// Signals that have arrived since the last call.
pub fn take_signals() -> Vec<i32> {
    let mut bytes = [0; 64];
    match read(signal_descriptor(), &mut bytes) {
        Ok(count) => bytes[..count].iter().map(|&b| i32::from(b)).collect(),
        Err(_) => Vec::new(),
    }
}

fn into_raw(fd: OwnedFd) -> RawFd {
    use std::os::fd::IntoRawFd;
    fd.into_raw_fd()
}

/// A pipe whose ends close on exec: read end, write end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both descriptors; they are new, so this is their only owner.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

pub fn set_nonblocking(fd: &OwnedFd) {
    // SAFETY: fcntl with integers only.
    unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of the slice.
    let count = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

pub fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of the slice.
    let count = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// A descriptor to wait for and what for.
#[derive(Clone, Copy)]
pub struct Wait {
    pub fd: RawFd,
    pub for_writing: bool,
}

/// Wait without limit until at least one is ready (or at its end, or broken); which ones.
pub fn poll(waits: &[Wait]) -> Vec<bool> {
    let mut list: Vec<libc::pollfd> = waits
        .iter()
        .map(|w| libc::pollfd {
            fd: w.fd,
            events: if w.for_writing {
                libc::POLLOUT
            } else {
                libc::POLLIN
            },
            revents: 0,
        })
        .collect();
    // SAFETY: pointer and length are those of the vector. An error (EINTR) leaves all answers 0: nothing is ready.
    unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, -1) };
    list.iter().map(|p| p.revents != 0).collect()
}

/// How a child ended, from [`reap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Exited(u8),
    Signalled(u8),
}

/// Collect one dead child. `block`: wait for one. `None`: none is dead (or, when blocking, there are no children).
pub fn reap(block: bool) -> Option<(i32, Status)> {
    loop {
        let mut status = 0;
        // SAFETY: waitpid writes one int.
        let pid = unsafe { libc::waitpid(-1, &mut status, if block { 0 } else { libc::WNOHANG }) };
        if pid < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
            continue;
        }
        if pid <= 0 {
            return None;
        }
        if libc::WIFSIGNALED(status) {
            return Some((pid, Status::Signalled(libc::WTERMSIG(status) as u8)));
        }
        if libc::WIFEXITED(status) {
            return Some((pid, Status::Exited(libc::WEXITSTATUS(status) as u8)));
        }
    }
}

/// Everything that a new program needs, made before `fork` so that the child only makes system calls.
pub struct Program {
    pub path: CString,
    pub argv: Vec<CString>,
    pub env: Vec<CString>,
    pub cwd: CString,
    /// Its standard input, output and error.
    pub stdio: [RawFd; 3],
    /// Make standard input its controlling terminal.
    pub terminal: bool,
}

/// Start it in a session of its own; its process id.
pub fn spawn(program: &Program) -> io::Result<i32> {
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter()
            .map(|s| s.as_ptr())
            .chain(std::iter::once(std::ptr::null()))
            .collect()
    };
    let (argv, env) = (pointers(&program.argv), pointers(&program.env));
    // SAFETY: this process has one thread, so the child may do anything; it only makes system calls with pointers that were made above and
    // stay valid. It never returns from this block.
    unsafe {
        let pid = check(libc::fork())?;
        if pid > 0 {
            return Ok(pid);
        }
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::setsid();
        for (target, &fd) in (0..).zip(&program.stdio) {
            if fd == target {
                libc::fcntl(fd, libc::F_SETFD, 0);
            } else {
                libc::dup2(fd, target);
            }
        }
        if program.terminal {
            libc::ioctl(0, libc::TIOCSCTTY, 0);
        }
        if libc::chdir(program.cwd.as_ptr()) == 0 {
            libc::execve(program.path.as_ptr(), argv.as_ptr(), env.as_ptr());
        }
        libc::_exit(if *libc::__errno_location() == libc::ENOENT {
            127
        } else {
            126
        })
    }
}

/// May this file be executed?
pub fn executable(path: &std::ffi::CStr) -> io::Result<()> {
    // SAFETY: the string ends with NUL.
    check(unsafe { libc::access(path.as_ptr(), libc::X_OK) }).map(|_| ())
}

pub fn tell(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: plain call.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: integers only.
    unsafe { libc::kill(pid, signal) };
}

/// Have the interface `lo` up, if it is not yet (on Linux it begins as down).
pub fn raise_loopback() -> io::Result<()> {
    // SAFETY: no memory is passed.
    let socket =
        check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: a descriptor that nobody else has.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: any bytes are such a structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    // SAFETY: a whole structure of this kind, which holds flags afterwards.
    let flags = unsafe {
        check(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFFLAGS as _,
            &mut request,
        ))?;
        request.ifr_ifru.ifru_flags
    };
    let up = libc::IFF_UP as libc::c_short;
    if flags & up != 0 {
        return Ok(());
    }
    request.ifr_ifru.ifru_flags = flags | up;
    // SAFETY: a whole structure of this kind.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut request) })
        .map(|_| ())
}

pub fn mount(source: &str, target: &str, kind: &str) -> io::Result<()> {
    let (source, target, kind) = (
        CString::new(source)?,
        CString::new(target)?,
        CString::new(kind)?,
    );
    // SAFETY: three strings that end with NUL; no data.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            0,
            std::ptr::null(),
        )
    })
    .map(|_| ())
}

/// Make what is mounted at `from` appear at `to` instead.
pub fn move_mount(from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (CString::new(from)?, CString::new(to)?);
    // SAFETY: two strings that end with NUL; the others are not looked at.
    check(unsafe {
        libc::mount(
            from.as_ptr(),
            to.as_ptr(),
            std::ptr::null(),
            libc::MS_MOVE,
            std::ptr::null(),
        )
    })
    .map(|_| ())
}

/// The working directory becomes the root, of this process and those that it starts.
pub fn change_root() -> io::Result<()> {
    // SAFETY: the string ends with NUL.
    check(unsafe { libc::chroot(c".".as_ptr()) }).map(|_| ())
}

pub fn unmount(target: &str) -> io::Result<()> {
    let target = CString::new(target)?;
    // SAFETY: the string ends with NUL.
    check(unsafe { libc::umount2(target.as_ptr(), 0) }).map(|_| ())
}

/// Make what is mounted there read-only.
pub fn read_only(target: &str) -> io::Result<()> {
    let target = CString::new(target)?;
    let flags = libc::MS_REMOUNT | libc::MS_RDONLY;
    // SAFETY: the string ends with NUL; the others are not looked at.
    check(unsafe {
        libc::mount(
            std::ptr::null(),
            target.as_ptr(),
            std::ptr::null(),
            flags,
            std::ptr::null(),
        )
    })
    .map(|_| ())
}

/// Load a module of Linux from its file.
pub fn load_module(file: &std::fs::File) -> io::Result<()> {
    // SAFETY: a descriptor, an empty string of parameters, no flags.
    let result =
        unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    check(result as libc::c_int).map(|_| ())
}

/// Bytes pass through this terminal unchanged, in both directions.
pub fn make_raw(fd: RawFd) -> io::Result<()> {
    // SAFETY: the structure is plain data that tcgetattr fills.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        check(libc::tcgetattr(fd, &mut settings))?;
        libc::cfmakeraw(&mut settings);
        // The speed is part of the flags on Linux (cfsetspeed, which would set it, cannot be linked statically through the libc crate).
        settings.c_cflag =
            (settings.c_cflag & !libc::CBAUD) | libc::B115200 | libc::CLOCAL | libc::CREAD;
        check(libc::tcsetattr(fd, libc::TCSANOW, &settings))?;
    }
    Ok(())
}

/// Tell a terminal its size; 0 leaves it unknown.
pub fn set_window(fd: RawFd, rows: u16, cols: u16) {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCSWINSZ reads one winsize.
    unsafe { libc::ioctl(fd, libc::TIOCSWINSZ, &size) };
}

/// The processor's time-stamp counter: in a deterministic machine the instructions since it was switched on.
pub fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has it, and user programs may read it on both systems.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// What the machine does at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    PowerOff,
    Reboot,
}

/// Write out what is in memory and end the machine. Returns only if the kernel refuses.
pub fn end_machine(end: End) {
    let how = match end {
        End::PowerOff => libc::RB_POWER_OFF,
        End::Reboot => libc::RB_AUTOBOOT,
    };
    // SAFETY: integers only.
    unsafe {
        libc::sync();
        libc::reboot(how);
    }
}
