//! The system as a whole: names, memory, log, power; and things of their own kind.

use super::open::open_file;
use crate::descriptors::event_kind;
use crate::errno::{Result, EINVAL, EPERM};
use crate::event;
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::{gate, published, user};
use crate::path::AT_FDCWD;
use crate::signal::rules::UNBLOCKABLE;
use crate::text;
use crate::time::{self, SECOND};
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, PAGE};
use cairn_idl::capability::{SYS_ADMIN, SYS_BOOT, SYS_TTY_CONFIG};
use cairn_idl::event as idl;
use cairn_idl::fs::{self, o, Stat, Statfs};
use cairn_idl::{proc, vm};
use cairn_log_line::{Line, Names};
use core::sync::atomic::{AtomicU64, Ordering};

const RELEASE: &[u8] = b"6.1.0-cairn";

pub fn uname(f: &mut Frame) -> Result<u64> {
    let mut name = [[0u8; 65]; 6];
    let mut put = |i: usize, text: &[u8]| {
        let count = text.len().min(64);
        name[i][..count].copy_from_slice(&text[..count]);
    };
    put(0, b"Linux");
    let mut host = published::hostname();
    super::spaces::own_host_name(&mut host)?;
    put(1, &host);
    put(2, RELEASE);
    put(3, b"#1 SMP Cairn");
    put(4, b"x86_64");
    super::spaces::domain_name(&mut host)?;
    put(5, &host);
    user::write(f.arg(0), &name)?;
    Ok(0)
}

pub fn sethostname(f: &mut Frame) -> Result<u64> {
    set_host_text(f, 0)
}

pub fn setdomainname(f: &mut Frame) -> Result<u64> {
    set_host_text(f, 1)
}

fn set_host_text(f: &mut Frame, which: u64) -> Result<u64> {
    if !process().is_capable(SYS_ADMIN) {
        return Err(EPERM);
    }
    let length = f.arg(1) & 0xffff_ffff;
    if length > 64 {
        return Err(EINVAL);
    }
    let range = match length {
        0 => user::UserRange::EMPTY,
        length => user::range(f.arg(0), length)?,
    };
    Request::new(&[proc::SETHOSTNAME, which, 0])
        .out_user(range)
        .call(linux_slot::PROC)
        .map(|_| 0)
}

pub fn sysinfo(f: &mut Frame) -> Result<u64> {
    let memory = Request::new(&[vm::MEMORY_STAT]).call(linux_slot::VM)?;
    let load = Request::new(&[proc::LOAD]).call(linux_slot::PROC)?;
    // `struct sysinfo`, 112 bytes: uptime, loads, total, free, shared, buffers, swap twice, processes, high memory twice, unit.
    let mut info = [0u64; 14];
    info[0] = time::now() / SECOND;
    info[1..4].copy_from_slice(&load[3..6]);
    info[4] = memory[1] * PAGE;
    info[5] = memory[2] * PAGE;
    info[10] = load[0].min(0xffff);
    info[13] = 1;
    user::write(f.arg(0), &info)?;
    Ok(0)
}

/// Lines of the log as syslog(2) gives them: `<6>[    1.234567] text`, with the names of components that they themselves tell.
fn as_linux(log: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(log.len() + log.len() / 2);
    let mut names = Names::default();
    for line in log.split(|&byte| byte == b'\n').filter(|l| !l.is_empty()) {
        names.learn(line);
        let line = Line::parse(line);
        let mut seconds = text::Line::new();
        seconds.number(line.microseconds / 1_000_000);
        all.extend_from_slice(b"<6>[");
        all.extend(core::iter::repeat_n(
            b' ',
            5usize.saturating_sub(seconds.bytes().len()),
        ));
        all.extend_from_slice(seconds.bytes());
        all.push(b'.');
        for power in (0..6).rev() {
            all.push(b'0' + (line.microseconds / 10u64.pow(power) % 10) as u8);
        }
        all.extend_from_slice(b"] ");
        names.put_into(line.text, &mut all);
        all.push(b'\n');
    }
    all
}

/// syslog(2), for the privileged as on Debian (`dmesg_restrict`): reading the log from its beginning; the other actions change nothing.
pub fn syslog(f: &mut Frame) -> Result<u64> {
    const READ: u64 = 2;
    const READ_ALL: u64 = 3;
    const CONSOLE_LEVEL: u64 = 8;
    const READ_CLEAR: u64 = 4;
    const SIZE_UNREAD: u64 = 9;
    const SIZE_BUFFER: u64 = 10;
    const SIZE: u64 = 64 * 1024;
    // Who has no portal to the log may not.
    crate::machine::request::read_log(0, &mut [0]).map_err(|_| EPERM)?;
    let (buffer, length) = (f.arg(1), f.arg(2) as i32);
    match f.arg(0) & 0xffff_ffff {
        READ | READ_ALL | READ_CLEAR if buffer == 0 || length < 0 => Err(EINVAL),
        CONSOLE_LEVEL if !(1..=8).contains(&length) => Err(EINVAL),
        0 | 1 | 5..=CONSOLE_LEVEL => Ok(0),
        READ_ALL | READ_CLEAR => {
            let range = user::range(f.arg(1), (f.arg(2) as i32).max(0) as u64)?;
            let mut buffer = vec![0u8; SIZE as usize];
            let mut length = 0;
            let mut offset = 0;
            while length < buffer.len() {
                let (count, next) =
                    crate::machine::request::read_log(offset, &mut buffer[length..])?;
                if count == 0 {
                    break;
                }
                length += count;
                offset = next;
            }
            let text = as_linux(&buffer[..length]);
            let tail = &text[text.len().saturating_sub(range.len() as usize)..];
            user::write_bytes(range.base(), tail)?;
            Ok(tail.len() as u64)
        }
        SIZE_UNREAD => Ok(0),
        SIZE_BUFFER => Ok(SIZE),
        _ => Err(EINVAL),
    }
}

pub fn reboot(f: &mut Frame) -> Result<u64> {
    const MAGIC: u64 = 0xfee1_dead;
    const SECOND_MAGIC: [u64; 4] = [0x2812_1969, 0x0512_1996, 0x1604_1998, 0x2011_2000];
    const CAD_ON: u64 = 0x89ab_cdef;
    const CAD_OFF: u64 = 0;
    const RESTART: u64 = 0x0123_4567;
    const RESTART2: u64 = 0xa1b2_c3d4;
    const HALT: u64 = 0xcdef_0123;
    const POWER_OFF: u64 = 0x4321_fedc;
    if !process().is_capable(SYS_BOOT) {
        return Err(EPERM);
    }
    let inside = process().in_pid_space.load(Ordering::Relaxed);
    if f.arg(0) & 0xffff_ffff != MAGIC || !SECOND_MAGIC.contains(&(f.arg(1) & 0xffff_ffff)) {
        return Err(EINVAL);
    }
    let what = match f.arg(2) & 0xffff_ffff {
        // A PID name space has no keys.
        CAD_ON | CAD_OFF if inside => return Err(EINVAL),
        CAD_ON | CAD_OFF => return Ok(0),
        RESTART | RESTART2 => 1,
        HALT | POWER_OFF => 0,
        _ => return Err(EINVAL),
    };
    // There its process 1 ends, and no machine.
    if !inside {
        super::io::close_disks();
    }
    Request::new(&[proc::POWER, what])
        .call(linux_slot::PROC)
        .map(|_| 0)
}

pub fn personality(f: &mut Frame) -> Result<u64> {
    let mut state = process().state();
    let old = state.personality;
    if f.arg(0) as u32 != u32::MAX {
        state.personality = f.arg(0) as u32;
    }
    Ok(old as u64)
}

pub fn signalfd(f: &mut Frame) -> Result<u64> {
    signalfd_with(f, 0)
}

pub fn signalfd4(f: &mut Frame) -> Result<u64> {
    signalfd_with(f, f.arg(3))
}

fn signalfd_with(f: &Frame, flags: u64) -> Result<u64> {
    if f.arg(2) != 8 {
        return Err(EINVAL);
    }
    let mask: u64 = user::read::<u64>(f.arg(1))? & !UNBLOCKABLE;
    if flags & 0xffff_ffff & !(o::CLOEXEC | o::NONBLOCK) != 0 {
        return Err(EINVAL);
    }
    if f.arg(0) as i32 != -1 {
        let file = super::io::usable(f.arg(0))?;
        if !file.is(event_kind::SIGNALS) {
            return Err(EINVAL);
        }
        crate::signal::calls::want(mask);
        Request::new(&[idl::SIGNALS_MASK, 1, mask]).call(file.slot())?;
        event::tell_signals_from_now_on(&file);
        return Ok(f.arg(0));
    }
    crate::signal::calls::want(mask);
    let words = [idl::SIGNALS, mask, flags & o::NONBLOCK];
    let fd = event::open(&words, event_kind::SIGNALS, flags)?;
    event::tell_signals_from_now_on(&*super::io::file(fd)?);
    Ok(fd)
}

/// memfd_create
pub fn memfd_create(f: &mut Frame) -> Result<u64> {
    const CLOEXEC: u64 = 1;
    const ALLOW_SEALING: u64 = 2;
    let flags = f.arg(1) & 0xffff_ffff;
    if flags & !(CLOEXEC | ALLOW_SEALING) != 0 {
        return Err(EINVAL);
    }
    user::string_length(f.arg(0), 250, EINVAL)?;
    process().state().files.check_room()?;
    let file = super::open::memory_file(flags & ALLOW_SEALING != 0)?;
    let cloexec = flags & CLOEXEC != 0;
    process()
        .state()
        .files
        .insert(file, cloexec, 0)
        .map(u64::from)
}

/// Commands of membarrier(2), each a bit of what the query tells.
mod barrier {
    pub const GLOBAL: u64 = 1;
    pub const GLOBAL_EXPEDITED: u64 = 2;
    pub const REGISTER_GLOBAL_EXPEDITED: u64 = 4;
    pub const PRIVATE_EXPEDITED: u64 = 8;
    pub const REGISTER_PRIVATE_EXPEDITED: u64 = 0x10;
    pub const SYNC_CORE: u64 = 0x20;
    pub const REGISTER_SYNC_CORE: u64 = 0x40;
}

/// What the process has registered for. A child begins with it as with all memory.
static REGISTERED: AtomicU64 = AtomicU64::new(0);

/// membarrier: the thread goes over all cores once. Whatever ran there was put off in between, so it has done what it began before and does what follows after.
pub fn membarrier(f: &mut Frame) -> Result<u64> {
    const QUERY: u64 = 0;
    const KNOWN: u64 = 0x7f;
    let command = f.arg(0) & 0xffff_ffff;
    if f.arg(1) & 0xffff_ffff != 0 {
        return Err(EINVAL);
    }
    match command {
        QUERY => return Ok(KNOWN),
        barrier::REGISTER_GLOBAL_EXPEDITED
        | barrier::REGISTER_PRIVATE_EXPEDITED
        | barrier::REGISTER_SYNC_CORE => {
            REGISTERED.fetch_or(command, Ordering::Relaxed);
            return Ok(0);
        }
        barrier::GLOBAL | barrier::GLOBAL_EXPEDITED => {}
        barrier::PRIVATE_EXPEDITED | barrier::SYNC_CORE => {
            // The bit of registering is the next one.
            if REGISTERED.load(Ordering::Relaxed) & command << 1 == 0 {
                return Err(EPERM);
            }
            if process().is_alone() {
                return Ok(0);
            }
        }
        _ => return Err(EINVAL),
    }
    over_all_cores()?;
    Ok(0)
}

fn over_all_cores() -> Result<()> {
    let failed = |_| crate::errno::EAGAIN;
    let [here, allowed, there_are] = gate::affinity(0, 0).map_err(failed)?;
    let others = (0..64).filter(|core| there_are >> core & 1 != 0 && *core != here);
    let mut moved = Ok(());
    for core in others {
        moved = gate::affinity(0, 1 << core).map(|_| ());
        if moved.is_err() {
            break;
        }
        gate::yield_core();
    }
    gate::affinity(0, allowed).map_err(failed)?;
    moved.map_err(failed)
}

/// vhangup: who has no terminal has nothing to hang up.
pub fn vhangup(_: &mut Frame) -> Result<u64> {
    if !process().is_capable(SYS_TTY_CONFIG) {
        return Err(EPERM);
    }
    match super::ids::own_terminal()? {
        0 => Ok(0),
        _ => {
            const TIOCVHANGUP: u64 = 0x5437;
            let flags = o::RDWR | o::NOCTTY | o::NONBLOCK;
            let terminal = open_file(AT_FDCWD, b"/dev/tty", flags, 0)?;
            let request = Request::new(&[fs::IOCTL, TIOCVHANGUP, 0]);
            request.call(terminal.slot()).map(|_| 0)
        }
    }
}

/// ustat: how much room a file system has, by the device of its files.
pub fn ustat(f: &mut Frame) -> Result<u64> {
    let device = f.arg(0) & 0xffff_ffff;
    for slot in crate::path::managers() {
        let mut stat = Stat::default();
        let request = Request::new(&[fs::STAT, 0]).input_value(&mut stat);
        if request.call(slot).is_err() || stat.dev != device {
            continue;
        }
        let mut room = Statfs::default();
        Request::new(&[fs::STATFS])
            .input_value(&mut room)
            .call(slot)?;
        // `struct ustat`: blocks, inodes, and two names that nobody fills in.
        let told = [room.bfree, room.ffree & 0xffff_ffff, 0, 0];
        user::write(f.arg(1), &told)?;
        return Ok(0);
    }
    Err(EINVAL)
}

/// The types of file systems.
pub const TYPES: [&[u8]; 9] = [
    b"tmpfs",
    b"devtmpfs",
    b"devpts",
    b"proc",
    b"sysfs",
    b"cgroup2",
    b"ext4",
    b"vfat",
    b"iso9660",
];

/// sysfs(2): the types of file systems by their numbers.
pub fn sysfs(f: &mut Frame) -> Result<u64> {
    match f.arg(0) as u32 {
        1 => {
            let mut name = user::UserString::empty();
            name.fill(f.arg(1))?;
            let found = TYPES.iter().position(|known| *known == name.as_bytes());
            found.map(|at| at as u64).ok_or(EINVAL)
        }
        2 => {
            let name = TYPES.get(f.arg(1) as u32 as usize).ok_or(EINVAL)?;
            let mut text = [0; 16];
            text[..name.len()].copy_from_slice(name);
            user::write_bytes(f.arg(2), &text[..=name.len()])?;
            Ok(0)
        }
        3 => Ok(TYPES.len() as u64),
        _ => Err(EINVAL),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_log_has_times_and_names_as_on_linux() {
        let log = b"1234567 [14] tty: hello\n99999000001 nucleus: late\ncut\n";
        let shown = "<6>[    1.234567] tty: hello\n<6>[99999.000001] nucleus: late\n<6>[    0.000000] cut\n";
        assert_eq!(super::as_linux(log), shown.as_bytes());
        assert_eq!(super::as_linux(b""), b"");
        let log = b"5 [1] init: `tty` is domain 1048588\n6 nucleus: domain 12 ends\n";
        let shown = super::as_linux(log);
        assert!(shown.ends_with(b"] nucleus: domain 12 (tty) ends\n"));
    }
}
