//! What a core file holds: an ELF file (System V ABI, 5) whose notes tell of threads and process as Linux has them, and whose segments are memory.

use crate::text::Line;
use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_idl::first_stack::vector_end;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// ELF's most program headers, without the way of more.
pub const SEGMENTS: usize = 0xfffe;

mod note {
    pub const PRSTATUS: u32 = 1;
    pub const FPREGSET: u32 = 2;
    pub const PRPSINFO: u32 = 3;
    pub const AUXV: u32 = 6;
    pub const SIGINFO: u32 = 0x5349_4749;
    pub const XSTATE: u32 = 0x202;
}

/// One piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub start: u64,
    pub end: u64,
    /// PF_R 4, PF_W 2, PF_X 1.
    pub rights: u32,
    /// Is it in the file?
    pub kept: bool,
}

impl Segment {
    fn in_file(&self) -> u64 {
        match self.kept {
            true => self.end - self.start,
            false => 0,
        }
    }
}

pub struct Thread {
    pub tid: u32,
    pub registers: [u64; 27],
}

/// What is told of the process.
pub struct About<'a> {
    pub signal: u32,
    pub siginfo: [u64; 16],
    /// Of the thread that had the signal.
    pub pending: u64,
    pub blocked: u64,
    pub float: &'a [u8],
    pub extended: &'a [u8],
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    pub uid: u32,
    pub gid: u32,
    pub name: [u8; 16],
    /// Arguments, each with its NUL.
    pub arguments: &'a [u8],
    pub auxiliary: &'a [u8],
}

/// The beginning of the file, up to the page where the first segment lies.
pub fn head(about: &About, threads: &[Thread], segments: &[Segment]) -> Vec<u8> {
    let notes = notes(about, threads);
    let count = segments.len() + 1;
    let notes_at = (HEADER + PROGRAM_HEADER * count) as u64;
    let mut bytes = Vec::new();
    let first = data_at(&notes, notes_at);
    bytes.extend_from_slice(b"\x7fELF\x02\x01\x01");
    bytes.resize(16, 0);
    half(&mut bytes, 4);
    half(&mut bytes, 62);
    word(&mut bytes, 1);
    for value in [0, HEADER as u64, 0] {
        long(&mut bytes, value);
    }
    word(&mut bytes, 0);
    for value in [HEADER, PROGRAM_HEADER, count, 0, 0, 0] {
        half(&mut bytes, value as u16);
    }
    program_header(&mut bytes, 4, 0, notes_at, [0, notes.len() as u64, 0], 4);
    let mut at = first;
    for segment in segments {
        let sizes = [
            segment.start,
            segment.in_file(),
            segment.end - segment.start,
        ];
        program_header(&mut bytes, 1, segment.rights, at, sizes, PAGE);
        at += segment.in_file();
    }
    bytes.extend_from_slice(&notes);
    bytes.resize(first as usize, 0);
    bytes
}

fn data_at(notes: &[u8], notes_at: u64) -> u64 {
    (notes_at + notes.len() as u64).next_multiple_of(PAGE)
}

fn half(bytes: &mut Vec<u8>, value: u16) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn word(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn long(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn program_header(
    bytes: &mut Vec<u8>,
    kind: u32,
    rights: u32,
    offset: u64,
    [address, in_file, in_memory]: [u64; 3],
    alignment: u64,
) {
    word(bytes, kind);
    word(bytes, rights);
    for value in [offset, address, 0, in_file, in_memory, alignment] {
        long(bytes, value);
    }
}

fn notes(about: &About, threads: &[Thread]) -> Vec<u8> {
    let mut notes = Vec::new();
    let (first, others) = match threads.split_first() {
        Some((first, others)) => (Some(first), others),
        None => (None, threads),
    };
    if let Some(first) = first {
        note(
            &mut notes,
            b"CORE",
            note::PRSTATUS,
            &status(about, first, true),
        );
    }
    note(&mut notes, b"CORE", note::PRPSINFO, &information(about));
    let mut siginfo = Vec::new();
    for value in about.siginfo {
        long(&mut siginfo, value);
    }
    note(&mut notes, b"CORE", note::SIGINFO, &siginfo);
    let vector = vector_end(about.auxiliary).map_or(&[][..], |end| &about.auxiliary[..end]);
    note(&mut notes, b"CORE", note::AUXV, vector);
    note(&mut notes, b"CORE", note::FPREGSET, about.float);
    note(&mut notes, b"LINUX", note::XSTATE, about.extended);
    for thread in others {
        note(
            &mut notes,
            b"CORE",
            note::PRSTATUS,
            &status(about, thread, false),
        );
    }
    notes
}

fn note(notes: &mut Vec<u8>, name: &[u8], kind: u32, bytes: &[u8]) {
    word(notes, name.len() as u32 + 1);
    word(notes, bytes.len() as u32);
    word(notes, kind);
    notes.extend_from_slice(name);
    notes.push(0);
    notes.resize(notes.len().next_multiple_of(4), 0);
    notes.extend_from_slice(bytes);
    notes.resize(notes.len().next_multiple_of(4), 0);
}

/// `struct elf_prstatus`.
fn status(about: &About, thread: &Thread, had_signal: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let signal = about.signal;
    let [code, errno] = match had_signal {
        true => [about.siginfo[1] as u32, (about.siginfo[0] >> 32) as u32],
        false => [0; 2],
    };
    for value in [signal, code, errno, signal & 0xffff] {
        word(&mut bytes, value);
    }
    let [pending, blocked] = match had_signal {
        true => [about.pending, about.blocked],
        false => [0; 2],
    };
    long(&mut bytes, pending);
    long(&mut bytes, blocked);
    for value in [thread.tid, about.parent, about.group, about.session] {
        word(&mut bytes, value);
    }
    // Times that it took.
    bytes.resize(bytes.len() + 64, 0);
    for value in thread.registers {
        long(&mut bytes, value);
    }
    word(&mut bytes, had_signal.into());
    word(&mut bytes, 0);
    bytes
}

/// `struct elf_prpsinfo`.
fn information(about: &About) -> Vec<u8> {
    const ARGUMENTS: usize = 80;
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&[0, b'R', 0, 0, 0, 0, 0, 0]);
    long(&mut bytes, 0);
    for value in [
        about.uid,
        about.gid,
        about.pid,
        about.parent,
        about.group,
        about.session,
    ] {
        word(&mut bytes, value);
    }
    bytes.extend_from_slice(&about.name);
    let line = about.arguments.strip_suffix(b"\0");
    let line = line.unwrap_or(about.arguments);
    let line = &line[..line.len().min(ARGUMENTS - 1)];
    let start = bytes.len();
    let printed = line.iter().map(|byte| match byte {
        0 => b' ',
        byte => *byte,
    });
    bytes.extend(printed);
    bytes.resize(start + ARGUMENTS, 0);
    bytes
}

/// The file's name by the pattern (core(5)).
pub fn name(pattern: &[u8], about: &About, tid: u32, now: u64, exe: &[u8], host: &[u8]) -> Vec<u8> {
    let mut name = Vec::new();
    let mut rest = pattern.iter();
    let number = |name: &mut Vec<u8>, value: u64| {
        name.extend_from_slice(Line::new().number(value).bytes());
    };
    let text = |name: &mut Vec<u8>, text: &[u8]| {
        let text = text.split(|byte| *byte == 0).next().unwrap_or(&[]);
        // (A name is no path.)
        name.extend(text.iter().map(|byte| match byte {
            b'/' => b'!',
            byte => *byte,
        }));
    };
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            name.push(*byte);
            continue;
        }
        match rest.next() {
            Some(b'%') => name.push(b'%'),
            Some(b'p' | b'P') => number(&mut name, about.pid.into()),
            Some(b'i' | b'I') => number(&mut name, tid.into()),
            Some(b'u') => number(&mut name, about.uid.into()),
            Some(b'g') => number(&mut name, about.gid.into()),
            Some(b's') => number(&mut name, about.signal.into()),
            Some(b't') => number(&mut name, now),
            Some(b'd') => number(&mut name, 1),
            Some(b'e') => text(&mut name, &about.name),
            Some(b'f') => text(&mut name, exe.rsplit(|b| *b == b'/').next().unwrap_or(exe)),
            Some(b'E') => text(&mut name, exe),
            Some(b'h') => text(&mut name, host),
            // Others say nothing.
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About<'static> {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"prog");
        About {
            signal: 11,
            siginfo: [11, 1, 0x1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            pending: 0,
            blocked: 0,
            float: &[0; 512],
            extended: &[0; 832],
            pid: 7,
            parent: 1,
            group: 7,
            session: 2,
            uid: 1000,
            gid: 100,
            name,
            arguments: b"prog\0-x\0",
            auxiliary: &[6, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0],
        }
    }

    #[test]
    fn names_follow_the_pattern() {
        let of = |pattern: &[u8]| name(pattern, &about(), 9, 123, b"/usr/bin/prog", b"cairn");
        assert_eq!(of(b"core"), b"core");
        assert_eq!(
            of(b"/tmp/%e.%p.%i.%u.%g.%s.%t.%h%%%z"),
            b"/tmp/prog.7.9.1000.100.11.123.cairn%"
        );
        assert_eq!(of(b"%E-%f%"), b"!usr!bin!prog-prog");
    }

    #[test]
    fn structures_are_as_long_as_linux_has_them() {
        let thread = Thread {
            tid: 9,
            registers: [3; 27],
        };
        assert_eq!(status(&about(), &thread, true).len(), 336);
        let information = information(&about());
        assert_eq!(information.len(), 136);
        assert_eq!(&information[56..64], b"prog -x\0");
    }

    #[test]
    fn segments_lie_behind_the_notes_in_whole_pages() {
        let segment = |start: u64, pages: u64, kept| Segment {
            start,
            end: start + pages * PAGE,
            rights: 6,
            kept,
        };
        let segments = [segment(0x1000, 2, true), segment(0x9000, 5, false)];
        let threads = [1, 2].map(|tid| Thread {
            tid,
            registers: [0; 27],
        });
        let bytes = head(&about(), &threads, &segments);
        assert_eq!(bytes.len() % PAGE as usize, 0);
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        // The second program header: offset, address, size in the file and in memory.
        let at = HEADER + PROGRAM_HEADER;
        assert_eq!(long(at + 8), bytes.len() as u64);
        assert_eq!(long(at + 16), 0x1000);
        assert_eq!([long(at + 32), long(at + 40)], [2 * PAGE, 2 * PAGE]);
        let at = at + PROGRAM_HEADER;
        assert_eq!([long(at + 32), long(at + 40)], [0, 5 * PAGE]);
        // The notes follow one another to their end.
        let (mut at, end) = (
            long(HEADER + 8) as usize,
            (long(HEADER + 8) + long(HEADER + 32)) as usize,
        );
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut kinds = Vec::new();
        while at < end {
            kinds.push(word(at + 8));
            let name = (word(at) as usize).next_multiple_of(4);
            at += 12 + name + (word(at + 4) as usize).next_multiple_of(4);
        }
        assert_eq!(at, end);
        assert_eq!(kinds, [1, 3, 0x5349_4749, 6, 2, 0x202, 1]);
    }
}
