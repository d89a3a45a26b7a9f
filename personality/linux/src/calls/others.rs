//! Open files of other processes: what /proc's `PID/fd/N`, `PID/cwd` and `PID/fdinfo/N` lead to, and pidfd_getfd(2). `proc` gives their portals
//! to who may look into the process ([`proc::FILE_OF`]); what a portal leads to its server says.
//!
//! Those names are links of `procfs` to no name: NUL, the process's number and which of its files.

use super::handles::mount_of;
use super::messages::describe;
use super::sockets::Passing;
use super::status::{major, minor, stat_handle};
use super::{descriptors, io, lock_lists, open, pidfds};
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{Result, EACCES, EBADF, EINVAL, ENOENT, ENOMEM, EPERM, ESRCH};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::path::make_room;
use crate::text::{parse_number, Line};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_idl::event::{self, Seen, Told};
use cairn_idl::fs::{self, o};
use cairn_idl::proc;

/// SEEK_CUR
const CURRENT: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Descriptor(u32),
    /// What fdinfo tells of it.
    Told(u32),
    Cwd,
    /// What /proc/locks tells, which is of no process.
    Locks,
}

/// Process, which of its files, and the path behind it.
fn parse(link: &[u8]) -> Option<(u64, Which, &[u8])> {
    let mut parts = link.strip_prefix(b"\0")?.splitn(3, |byte| *byte == b'/');
    let (pid, folder) = (parse_number(parts.next()?)?, parts.next()?);
    let rest = parts.next().unwrap_or(b"");
    if folder == b"locks" {
        return rest.is_empty().then_some((pid, Which::Locks, rest));
    }
    if folder == b"cwd" {
        return Some((pid, Which::Cwd, rest));
    }
    let mut parts = rest.splitn(2, |byte| *byte == b'/');
    let number = u32::try_from(parse_number(parts.next()?)?).ok()?;
    let which = match folder {
        b"fd" => Which::Descriptor(number),
        b"fdinfo" => Which::Told(number),
        _ => return None,
    };
    Some((pid, which, parts.next().unwrap_or(b"")))
}

/// The open file that such a link leads to, and the path behind it.
pub fn behind(link: &[u8]) -> Result<(Arc<OpenFile>, &[u8])> {
    let (pid, which, rest) = parse(link).ok_or(ENOENT)?;
    let which_file = match which {
        Which::Descriptor(number) | Which::Told(number) => number.into(),
        Which::Cwd => proc::FILE_CWD,
        Which::Locks => return Ok((lock_lists::locks()?, rest)),
    };
    let (file, close_on_exec) = get(pid, 0, which_file).map_err(|error| match error {
        EPERM => EACCES,
        EBADF | ESRCH => ENOENT,
        error => error,
    })?;
    let file = Arc::new(file);
    match which {
        Which::Told(_) => Ok((told(&file, close_on_exec, pid)?, rest)),
        _ => Ok((file, rest)),
    }
}

pub fn get(pid: u64, life: u64, which: u64) -> Result<(OpenFile, bool)> {
    make_room()?;
    let request = Request::new(&[proc::FILE_OF, pid, life, which]).brings(1);
    let words = request.call(linux_slot::PROC)?;
    let file = describe(Passing(words[7] as u32))?;
    Ok((file, words[1] != 0))
}

/// A file with what `/proc/PID/fdinfo/N` says.
fn told(file: &Arc<OpenFile>, close_on_exec: bool, pid: u64) -> Result<Arc<OpenFile>> {
    let position = Request::new(&[fs::SEEK, 0, CURRENT]).call(file.slot());
    let position = position.map_or(0, |words| words[0]);
    let flags = match file.path_only {
        true => o::PATH,
        false => descriptors::get_flags(file).unwrap_or(0),
    };
    let flags = flags | if close_on_exec { o::CLOEXEC } else { 0 };
    let ino = stat_handle(file).map_or(0, |stat| stat.ino);
    let mut text = Line::new();
    text.text("pos:\t").number(position).text("\nflags:\t0");
    let most = flags.checked_ilog2().unwrap_or(0) / 3;
    let digits = (0..=most).rev().map(|at| (flags >> (3 * at)) as u8 & 7);
    for digit in digits {
        text.number(digit.into());
    }
    text.text("\nmnt_id:\t").number(mount_of(file) as u64);
    text.text("\nino:\t").number(ino).text("\n");
    if file.is(event_kind::PROCESS) {
        let (life, _) = pidfds::life(file)?;
        let number = Request::new(&[proc::LIFE_NUMBER, life]).call(linux_slot::PROC);
        // -1: it was waited for.
        let number = number.map_or(-1, |words| words[0] as i64);
        text.text("Pid:\t").signed(number).text("\nNSpid:\t");
        text.signed(number).text("\n");
    }
    let mut text = text.bytes().to_vec();
    if file.is(event_kind::TIMER) {
        tell_timer(file, &mut text)?;
    } else if file.is(event_kind::SIGNALS) {
        let words = Request::new(&[event::SIGNALS_MASK, 0, 0]).call(file.slot())?;
        let mut line = Line::new();
        line.text("sigmask:\t")
            .padded_hex(words[1], 16, b'0')
            .text("\n");
        text.extend_from_slice(line.bytes());
    } else if file.is(event_kind::SET) {
        tell_interests(file, pid, &mut text)?;
    } else if file.is(event_kind::NOTICES) {
        tell_watches(file, &mut text)?;
    } else if file.mode & fs::s::IFMT == 0 {
        let asked = Request::new(&[fs::IOCTL, fs::EVENT_COUNT, 0]).call(file.slot());
        if let Ok([_, count, ..]) = asked {
            let mut line = Line::new();
            line.text("eventfd-count: ").padded_hex(count, 16, b' ');
            text.extend_from_slice(line.text("\n").bytes());
        }
    }
    lock_lists::of_file(file, pid, &mut text)?;
    text_file(&text, 0o400)
}

/// A file with this text.
pub fn text_file(text: &[u8], mode: u64) -> Result<Arc<OpenFile>> {
    let made = open::unnamed_file(mode)?;
    let mut at = 0;
    while at < text.len() {
        let write = Request::new(&[fs::WRITE, at as u64, 0]).out(&text[at..]);
        match write.call(made.slot())?[0] {
            0 => return Err(EINVAL),
            count => at += count as usize,
        }
    }
    Ok(made)
}

/// The lines of a timer.
fn tell_timer(file: &OpenFile, text: &mut Vec<u8>) -> Result<()> {
    const SECOND: u64 = 1_000_000_000;
    let words = Request::new(&[event::TIMER_GET]).call(file.slot())?;
    let [_, left, interval, clock, how, ticks, ..] = words;
    let mut line = Line::new();
    line.text("clockid: ").number(clock);
    line.text("\nticks: ").number(ticks);
    line.text("\nsettime flags: 0").number(how & 3);
    for (name, time) in [("\nit_value: (", left), ("\nit_interval: (", interval)] {
        line.text(name).number(time / SECOND);
        line.text(", ").number(time % SECOND).text(")");
    }
    line.text("\n");
    text.extend_from_slice(line.bytes());
    Ok(())
}

/// A line for each watch of a queue.
fn tell_watches(file: &OpenFile, text: &mut Vec<u8>) -> Result<()> {
    /// IN_EXCL_UNLINK, IN_ONESHOT
    const KEPT: u32 = 0x8400_0000 | event::ALL_EVENTS as u32;
    let mut first = 0;
    loop {
        let mut bytes = [0; 32 * Seen::BYTES];
        let asked = Request::new(&[event::WATCHES, first]).input(&mut bytes);
        let words = asked.call(file.slot())?;
        let count = (words[0] as usize).min(32);
        for seen in bytes.as_chunks().0.iter().take(count) {
            let seen = Seen::from_bytes(seen);
            let mut line = Line::new();
            line.text("inotify wd:")
                .padded_hex(seen.watch.into(), 1, b'0');
            line.text(" ino:").padded_hex(seen.inode, 1, b'0');
            line.text(" sdev:")
                .padded_hex(kernel_device(seen.device), 1, b'0');
            line.text(" mask:")
                .padded_hex((seen.events & KEPT).into(), 1, b'0');
            line.text(" ignored_mask:0\n");
            text.try_reserve(line.bytes().len()).map_err(|_| ENOMEM)?;
            text.extend_from_slice(line.bytes());
        }
        first = words[1];
        if first == 0 {
            return Ok(());
        }
    }
}

/// A device's number as Linux has it within, and shows in fdinfo.
pub fn kernel_device(device: u64) -> u64 {
    u64::from(major(device)) << 20 | u64::from(minor(device))
}

/// A line for each interest of a set: of whose file, which is told where the process still has it at that descriptor.
fn tell_interests(file: &OpenFile, pid: u64, text: &mut Vec<u8>) -> Result<()> {
    let mut first = 0;
    loop {
        let mut bytes = [0; 32 * Told::BYTES];
        let asked = Request::new(&[event::INTERESTS, first]).input(&mut bytes);
        let words = asked.call(file.slot())?;
        let count = (words[0] as usize).min(32);
        for told in bytes.as_chunks().0.iter().take(count) {
            let told = Told::from_bytes(told);
            let watched = get(pid, 0, told.descriptor.into()).ok();
            let stat = watched.and_then(|(watched, _)| {
                let position = Request::new(&[fs::SEEK, 0, CURRENT]).call(watched.slot());
                let position = position.map_or(0, |words| words[0]);
                Some((position, stat_handle(&watched).ok()?))
            });
            let (position, ino, dev) =
                stat.map_or((0, 0, 0), |(position, stat)| (position, stat.ino, stat.dev));
            let mut line = Line::new();
            line.text("tfd: ").padded(told.descriptor.into(), 8);
            line.text(" events: ")
                .padded_hex(told.events.into(), 8, b' ');
            line.text(" data: ").padded_hex(told.data, 16, b' ');
            line.text("  pos:").number(position);
            line.text(" ino:").padded_hex(ino, 1, b'0');
            line.text(" sdev:")
                .padded_hex(kernel_device(dev), 1, b'0')
                .text("\n");
            text.try_reserve(line.bytes().len()).map_err(|_| ENOMEM)?;
            text.extend_from_slice(line.bytes());
        }
        first = words[1];
        if first == 0 || count == 0 {
            return Ok(());
        }
    }
}

pub fn pidfd_getfd(f: &mut Frame) -> Result<u64> {
    if f.arg(2) & 0xffff_ffff != 0 {
        return Err(EINVAL);
    }
    let (life, _) = pidfds::life(&*io::usable(f.arg(0))?)?;
    let number = crate::descriptors::number(f.arg(1))?;
    process().state().files.check_room()?;
    let (file, _) = get(0, life, number.into())?;
    open::descriptor(Arc::new(file), o::CLOEXEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_no_name() {
        let parsed = |link: &'static [u8]| parse(link);
        let none: &[u8] = b"";
        assert_eq!(
            parsed(b"\x0012/fd/3"),
            Some((12, Which::Descriptor(3), none))
        );
        let below: &[u8] = b"a/b";
        assert_eq!(
            parsed(b"\x0012/fd/3/a/b"),
            Some((12, Which::Descriptor(3), below))
        );
        assert_eq!(parsed(b"\x001/fdinfo/0"), Some((1, Which::Told(0), none)));
        assert_eq!(parsed(b"\x000/locks"), Some((0, Which::Locks, none)));
        assert_eq!(parsed(b"\x001/cwd"), Some((1, Which::Cwd, none)));
        assert_eq!(parsed(b"\x001/cwd/a/b"), Some((1, Which::Cwd, below)));
        for wrong in [
            &b"1/fd/3"[..],
            b"\0",
            b"\x001",
            b"\x001/fd",
            b"\x001/fd/",
            b"\x001/fd/x",
            b"\x001/fd/4294967296",
            b"\x00x/cwd",
            b"\x001/exe",
            b"\x000/locks/a",
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
