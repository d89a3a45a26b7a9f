//! `/proc/locks`, and the lines of locks in `/proc/PID/fdinfo/N`. File servers know their own locks ([`fs::LOCKS`]); the reader's personality asks those that
//! it reaches, and writes the text.

use super::others::{kernel_device, text_file};
use super::spaces;
use crate::descriptors::OpenFile;
use crate::errno::{Result, ENOMEM};
use crate::machine::request::Request;
use crate::text::Line;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_idl::fs::{
    self, LockKind, Locked, LEASE_GOES, LEASE_SHRINKS, LOCK_KINDS, LOCK_WAITS, LOCK_WRITES,
};

/// Of one answer.
const EACH: usize = 100;
/// No more of them are shown.
const MOST: usize = 1 << 20;

/// A lock and its file's `st_dev`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    device: u64,
    locked: Locked,
}

impl Seen {
    fn kind(&self) -> u32 {
        self.locked.what & LOCK_KINDS
    }

    fn waits(&self) -> bool {
        self.locked.what & LOCK_WAITS != 0
    }

    /// What names a lock among all: one that waits has the name of that which it waits for.
    fn name(&self) -> [u64; 5] {
        let it = &self.locked;
        // (A process and an open file can wait for each other, for a whole file they cannot.)
        let whole = self.kind() >= LockKind::Whole.word() as u32;
        let kind = if whole { self.kind() } else { 0 };
        let (owner, start) = match self.waits() {
            true => (it.before, it.before_start),
            false => (it.owner, it.start),
        };
        [self.device, it.inode, kind.into(), owner, start]
    }
}

/// What this server, or of this open file, tells.
fn ask(slot: u32, own: bool, all: &mut Vec<Seen>) -> Result<()> {
    let mut at = [0; 4];
    while at[0] != u64::MAX && all.len() < MOST {
        let mut bytes = [0; EACH * Locked::BYTES];
        let [list, inode, owner, start] = at;
        let words = [fs::LOCKS, own.into(), list, inode, owner, start];
        let asked = Request::new(&words).input(&mut bytes);
        let [count, device, list, inode, owner, start, ..] = asked.call(slot)?;
        let count = (count as usize).min(EACH);
        all.try_reserve(count).map_err(|_| ENOMEM)?;
        let told = bytes.as_chunks().0.iter().take(count);
        all.extend(told.map(|bytes| Seen {
            device,
            locked: Locked::from_bytes(bytes),
        }));
        let next = [list, inode, owner, start];
        // Each answer must lead on, or an odd server would keep us here.
        if next <= at {
            break;
        }
        at = next;
    }
    Ok(())
}

/// The number of the process that took it, as the caller has it: none, it has no name here.
fn taker(pid: u32) -> Option<i64> {
    match pid {
        u32::MAX => Some(-1),
        pid => match spaces::number_inside(pid) {
            0 => None,
            number => Some(number.into()),
        },
    }
}

/// A line of Linux's, but for its beginning.
fn write(line: &mut Line, seen: &Seen, pid: i64) {
    let it = &seen.locked;
    line.text(match LockKind::from_word(seen.kind().into()) {
        Some(LockKind::OpenFile) => "OFDLCK ",
        Some(LockKind::Whole) => "FLOCK  ",
        Some(LockKind::Lease) => "LEASE  ",
        _ => "POSIX  ",
    });
    let goes = it.what & (LEASE_GOES | LEASE_SHRINKS) != 0;
    line.text(match (seen.kind() == LockKind::Lease.word() as u32, goes) {
        (false, _) => "ADVISORY  ",
        (true, false) => "ACTIVE    ",
        (true, true) => "BREAKING  ",
    });
    line.text(match it.what {
        what if what & LEASE_GOES != 0 => "UNLCK ",
        what if what & LEASE_SHRINKS != 0 || what & LOCK_WRITES == 0 => "READ ",
        _ => "WRITE ",
    });
    line.signed(pid).text(" ");
    let (major, minor) = (kernel_device(seen.device) >> 20, kernel_device(seen.device));
    line.padded_hex(major, 2, b'0').text(":");
    line.padded_hex(minor & 0xf_ffff, 2, b'0').text(":");
    line.number(it.inode).text(" ").number(it.start);
    match it.end {
        // The first byte that no file has.
        end if end > i64::MAX as u64 => line.text(" EOF\n"),
        end => line.text(" ").number(end.saturating_sub(1)).text("\n"),
    };
}

fn push(text: &mut Vec<u8>, line: &Line) -> Result<()> {
    text.try_reserve(line.bytes().len()).map_err(|_| ENOMEM)?;
    text.extend_from_slice(line.bytes());
    Ok(())
}

/// All of them, each once: those that wait behind those that they wait for.
fn in_order(all: &mut Vec<Seen>) {
    // (A server that is mounted at several places tells them several times.)
    let owner = |seen: &Seen| (seen.locked.owner, seen.locked.start);
    all.sort_unstable_by_key(|seen| (seen.name(), seen.waits(), owner(seen)));
    all.dedup_by_key(|seen| (seen.name(), seen.waits(), owner(seen)));
}

fn lines(all: &[Seen], taker: impl Fn(u32) -> Option<i64>) -> Result<Vec<u8>> {
    let (mut text, mut number, mut last) = (Vec::new(), 0, None);
    for seen in all {
        let Some(pid) = taker(seen.locked.pid) else {
            continue;
        };
        // What it waited for may be gone by now.
        if seen.waits() && last != Some(seen.name()) {
            continue;
        }
        let mut line = Line::new();
        if !seen.waits() {
            (number, last) = (number + 1, Some(seen.name()));
        }
        line.number(number);
        line.text(if seen.waits() { ": -> " } else { ": " });
        write(&mut line, seen, pid);
        push(&mut text, &line)?;
    }
    Ok(text)
}

/// A file with what `/proc/locks` says.
pub fn locks() -> Result<Arc<OpenFile>> {
    let mut all = Vec::new();
    for slot in crate::path::managers() {
        // (One that is gone has no locks.)
        let _ = ask(slot, false, &mut all);
    }
    in_order(&mut all);
    text_file(&lines(&all, taker)?, 0o444)
}

/// The lines of an open file of this process: the process's own locks that it took through it, and the open file's.
pub fn of_file(file: &OpenFile, pid: u64, text: &mut Vec<u8>) -> Result<()> {
    let mut all = Vec::new();
    // (Not everything that can be open has locks.)
    let _ = ask(file.slot(), true, &mut all);
    in_order(&mut all);
    let mut number = 0;
    for seen in &all {
        let Some(its) = taker(seen.locked.pid) else {
            continue;
        };
        let process = seen.kind() == LockKind::Process.word() as u32;
        if process && its as u64 != pid {
            continue;
        }
        number += 1;
        let mut line = Line::new();
        line.text("lock:\t").number(number).text(": ");
        write(&mut line, seen, its);
        push(text, &line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fs::OPEN_FILES;

    fn seen(kind: LockKind, owner: u64, (start, end): (u64, u64), pid: u32) -> Seen {
        Seen {
            device: 0x801,
            locked: Locked {
                inode: 12,
                start,
                end,
                owner,
                pid,
                what: kind.word() as u32,
                ..Locked::default()
            },
        }
    }

    #[test]
    fn each_once_and_who_waits_behind_it() {
        let range = seen(LockKind::Process, 5, (10, 15), 100);
        let mut waits = seen(LockKind::OpenFile, OPEN_FILES | 7, (0, u64::MAX), u32::MAX);
        waits.locked.what |= LOCK_WAITS | LOCK_WRITES;
        (waits.locked.before, waits.locked.before_start) = (5, 10);
        let mut late = waits;
        late.locked.before_start = 99;
        let mut lease = seen(LockKind::Lease, OPEN_FILES | 8, (0, u64::MAX), 102);
        lease.locked.what |= LOCK_WRITES | LEASE_SHRINKS;
        let hidden = seen(LockKind::Whole, OPEN_FILES | 9, (0, u64::MAX), 103);
        let mut all = [waits, lease, range, hidden, late, range].to_vec();
        in_order(&mut all);
        assert_eq!(all.len(), 5);
        let known = |pid: u32| (pid != 103).then_some(if pid > 200 { -1 } else { pid.into() });
        let text = String::from_utf8(lines(&all, known).unwrap()).unwrap();
        assert_eq!(
            text,
            "1: POSIX  ADVISORY  READ 100 08:01:12 10 14\n\
             1: -> OFDLCK ADVISORY  WRITE -1 08:01:12 0 EOF\n\
             2: LEASE  BREAKING  READ 102 08:01:12 0 EOF\n"
        );
    }
}
