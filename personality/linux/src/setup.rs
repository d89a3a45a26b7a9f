//! What a file-system context (fsopen(2), fspick(2)) has been told so far, as a text that an object of the event server keeps (`event::CONTEXT`).
//!
//! All who have the descriptor share it, and may have made it up below the personality: it is read with care, and gives nobody anything. What it asks for is
//! judged when it is done.

use crate::errno::{Result, EBUSY, EINVAL, ENOMEM};
use crate::mount_flags;
use alloc::vec::Vec;
use cairn_idl::event::CONTEXT_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It is told what is to be mounted.
    Parameters = 0,
    /// That exists: fsmount(2) is to come.
    Made = 1,
    /// It is told what is to change.
    Changes = 2,
    /// What was asked for failed, and nothing else is possible: it was to be made; it was to change.
    NotMade = 3,
    NotChanged = 4,
    /// No context, but what fsmount(2) gave in the first mount name space: it is mounted by move_mount(2).
    Waits = 5,
    /// It was.
    Mounted = 6,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub phase: Phase,
    pub kind: Vec<u8>,
    pub source: Option<Vec<u8>>,
    /// MS_ flags that have been said, and what they are to be.
    pub mask: u64,
    pub flags: u64,
    /// As mount(2) has them, with commas.
    pub options: Vec<u8>,
    /// What is to change: in a mount name space that is not the first one that name space and a mount's number in it (0: not known), in the first one a
    /// place.
    pub space: u64,
    pub number: u32,
    pub place: Vec<u8>,
    /// Messages that nobody has read, oldest first.
    pub log: Vec<Vec<u8>>,
}

/// Messages that are kept.
const LOG_MOST: usize = 8;

impl Setup {
    pub fn new(phase: Phase, kind: &[u8]) -> Setup {
        Setup {
            phase,
            kind: kind.to_vec(),
            source: None,
            mask: 0,
            flags: 0,
            options: Vec::new(),
            space: 0,
            number: 0,
            place: Vec::new(),
            log: Vec::new(),
        }
    }

    /// EBUSY: it is not in this phase.
    pub fn must_be(&self, phase: Phase) -> Result<()> {
        match self.phase == phase {
            true => Ok(()),
            false => Err(EBUSY),
        }
    }

    /// There is a file system that it is about.
    pub fn has_root(&self) -> bool {
        matches!(self.phase, Phase::Made | Phase::Changes | Phase::NotChanged)
    }

    /// The number of the mount that is to change, for a process in this mount name space; EINVAL: it is in another one, where the number is another mount's.
    pub fn mount_in(&self, space: u64) -> Result<u32> {
        match self.space == space {
            true => Ok(self.number),
            false => Err(EINVAL),
        }
    }

    /// An error that read(2) tells.
    pub fn say(&mut self, message: &[&[u8]]) {
        if self.log.len() == LOG_MOST {
            self.log.remove(0);
        }
        let mut line = b"e ".to_vec();
        message.iter().for_each(|part| line.extend_from_slice(part));
        line.push(b'\n');
        self.log.push(line);
    }

    /// Its text. ENOMEM: it is too long, also without messages.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut first = 0;
        loop {
            let bytes = self.encode_from(first);
            if bytes.len() <= CONTEXT_MAX {
                return Ok(bytes);
            }
            first += 1;
            if first > self.log.len() {
                return Err(ENOMEM);
            }
        }
    }

    fn encode_from(&self, first: usize) -> Vec<u8> {
        let mut bytes = alloc::vec![self.phase as u8, self.source.is_some().into()];
        bytes.extend_from_slice(&self.mask.to_le_bytes());
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&self.space.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        let source = self.source.as_deref().unwrap_or(b"");
        let fixed = [&self.kind[..], source, &self.options, &self.place];
        let log = self.log.iter().skip(first).map(|line| &line[..]);
        for field in fixed.into_iter().chain(log) {
            bytes.extend_from_slice(&(field.len() as u32).to_le_bytes());
            bytes.extend_from_slice(field);
        }
        bytes
    }

    /// EINVAL: this is no such text.
    pub fn decode(bytes: &[u8]) -> Result<Setup> {
        Setup::read(bytes).ok_or(EINVAL)
    }

    fn read(mut bytes: &[u8]) -> Option<Setup> {
        let [phase, has_source] = take(&mut bytes)?;
        let phase = match phase {
            0 => Phase::Parameters,
            1 => Phase::Made,
            2 => Phase::Changes,
            3 => Phase::NotMade,
            4 => Phase::NotChanged,
            5 => Phase::Waits,
            6 => Phase::Mounted,
            _ => return None,
        };
        let mask = u64::from_le_bytes(take(&mut bytes)?);
        let flags = u64::from_le_bytes(take(&mut bytes)?);
        let space = u64::from_le_bytes(take(&mut bytes)?);
        let number = u32::from_le_bytes(take(&mut bytes)?);
        let kind = field(&mut bytes)?;
        let source = field(&mut bytes)?;
        let source = (has_source != 0).then_some(source);
        let (options, place) = (field(&mut bytes)?, field(&mut bytes)?);
        let mut log = Vec::new();
        while !bytes.is_empty() && log.len() < LOG_MOST {
            log.push(field(&mut bytes)?);
        }
        Some(Setup {
            phase,
            kind,
            source,
            mask,
            flags,
            options,
            space,
            number,
            place,
            log,
        })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn field(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(take(bytes)?);
    let (first, rest) = bytes.split_at_checked(length as usize)?;
    *bytes = rest;
    Some(first.to_vec())
}

/// A parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Flag,
    Text(&'a [u8]),
    /// Bytes, a path, a descriptor: no file system here takes one.
    Other,
}

/// Flags that any file system takes as parameters: such as are set, and such as are not.
const SET: [(&[u8], u64); 5] = [
    (b"dirsync", mount_flags::SYNCHRONOUS_DIRECTORIES),
    (b"lazytime", mount_flags::LAZY_TIMES),
    (b"mand", mount_flags::MANDATORY_LOCKS),
    (b"ro", mount_flags::READ_ONLY),
    (b"sync", mount_flags::SYNCHRONOUS),
];
const CLEAR: [(&[u8], u64); 4] = [
    (b"async", mount_flags::SYNCHRONOUS),
    (b"nolazytime", mount_flags::LAZY_TIMES),
    (b"nomand", mount_flags::MANDATORY_LOCKS),
    (b"rw", mount_flags::READ_ONLY),
];

/// Whether a type takes this option as mount(2) has it.
pub type Takes = fn(kind: &[u8], option: &[u8]) -> bool;

impl Setup {
    /// A parameter is set (FSCONFIG_SET_…).
    pub fn set(&mut self, key: &[u8], value: Value, takes: Takes) -> Result<()> {
        let flag = |table: &[(&[u8], u64)]| {
            let mut its = table.iter().filter(|(name, _)| *name == key);
            its.next().map(|(_, flag)| *flag)
        };
        if let Some(flag) = flag(&SET) {
            (self.mask, self.flags) = (self.mask | flag, self.flags | flag);
            return Ok(());
        }
        if let Some(flag) = flag(&CLEAR) {
            (self.mask, self.flags) = (self.mask | flag, self.flags & !flag);
            return Ok(());
        }
        let option = match value {
            Value::Flag => key.to_vec(),
            Value::Text(text) => [key, b"=", text].concat(),
            Value::Other => Vec::new(),
        };
        let kind = self.kind.clone();
        if kind == b"tmpfs" && is_tmpfs_option(key) {
            if !fits(key, value) {
                self.say(&[b"tmpfs: Bad value for '", key, b"'"]);
                return Err(EINVAL);
            }
            return self.add(&option);
        }
        if key == b"source" {
            return match (value, &self.source) {
                (Value::Text(_), Some(_)) => self.refuse(&[b"Multiple sources"]),
                (Value::Text(text), None) => {
                    self.source = Some(text.to_vec());
                    Ok(())
                }
                _ => self.refuse(&[b"Non-string source"]),
            };
        }
        // (A comma would make two of it.)
        if option.is_empty() || option.contains(&b',') || !takes(&kind, &option) {
            return self.refuse(&[&kind, b": Unknown parameter '", key, b"'"]);
        }
        self.add(&option)
    }

    fn refuse(&mut self, message: &[&[u8]]) -> Result<()> {
        self.say(message);
        Err(EINVAL)
    }

    fn add(&mut self, option: &[u8]) -> Result<()> {
        let comma = !self.options.is_empty();
        if self.options.len() + option.len() + 1 > CONTEXT_MAX / 2 {
            return Err(ENOMEM);
        }
        self.options.extend(comma.then_some(b','));
        self.options.extend_from_slice(option);
        Ok(())
    }
}

fn is_tmpfs_option(key: &[u8]) -> bool {
    matches!(
        key,
        b"size" | b"nr_blocks" | b"nr_inodes" | b"mode" | b"uid" | b"gid"
    )
}

/// A value of tmpfs's, as far as one can say without the machine's memory.
fn fits(key: &[u8], value: Value) -> bool {
    let Value::Text(text) = value else {
        return false;
    };
    let digits = |most: u8| text.iter().all(|digit| (b'0'..=most).contains(digit));
    let rest = match key {
        b"mode" => digits(b'7'),
        b"uid" | b"gid" => digits(b'9'),
        _ => text.first().is_some_and(u8::is_ascii_digit) && !text.contains(&b','),
    };
    !text.is_empty() && rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &[u8], _: &[u8]) -> bool {
        false
    }

    #[test]
    fn what_was_told_is_kept_as_it_was() {
        let mut setup = Setup::new(Phase::Parameters, b"tmpfs");
        assert_eq!(setup.set(b"source", Value::Text(b"none"), nothing), Ok(()));
        assert_eq!(setup.set(b"mode", Value::Text(b"755"), nothing), Ok(()));
        assert_eq!(setup.set(b"size", Value::Text(b"4m"), nothing), Ok(()));
        assert_eq!(setup.set(b"ro", Value::Flag, nothing), Ok(()));
        assert_eq!(setup.options, b"mode=755,size=4m");
        assert_eq!((setup.mask, setup.flags), (1, 1));
        assert_eq!(setup.set(b"rw", Value::Flag, nothing), Ok(()));
        assert_eq!((setup.mask, setup.flags), (1, 0));
        setup.say(&[b"no"]);
        (setup.space, setup.number) = (5 << 40, 7);
        assert_eq!(setup.mount_in(5 << 40), Ok(7));
        assert_eq!(setup.mount_in(5), Err(EINVAL));
        let text = setup.encode().unwrap();
        assert_eq!(Setup::decode(&text), Ok(setup));
        for length in 0..text.len() {
            // Whatever it is, it is no reason to fail.
            let _ = Setup::decode(&text[..length]);
        }
        assert_eq!(Setup::decode(b"\x09\0"), Err(EINVAL));
    }

    #[test]
    fn what_nobody_takes_is_refused_and_said() {
        let mut setup = Setup::new(Phase::Parameters, b"tmpfs");
        for (key, value) in [
            (&b"mode"[..], Value::Text(b"9")),
            (b"mode", Value::Flag),
            (b"uid", Value::Text(b"x")),
            (b"size", Value::Text(b"1,mode=0")),
            (b"source", Value::Other),
            (b"other", Value::Text(b"1")),
            (b"nosuid", Value::Flag),
        ] {
            assert_eq!(setup.set(key, value, nothing), Err(EINVAL));
        }
        assert_eq!((&setup.options[..], setup.log.len()), (&b""[..], 7));
        assert_eq!(setup.log[5], b"e tmpfs: Unknown parameter 'other'\n");
        // The oldest messages go, and texts end somewhere.
        for _ in 0..3 {
            setup.say(&[&[b'x'; 250]]);
        }
        assert_eq!(setup.log.len(), 8);
        let takes: Takes = |kind, option| kind == b"ext4" && option.len() < 300;
        let mut setup = Setup::new(Phase::Parameters, b"ext4");
        let mut last = Ok(());
        for _ in 0..20 {
            last = setup.set(&[b'k'; 200], Value::Text(&[b'v'; 90]), takes);
            setup.say(&[&[b'x'; 500]]);
        }
        assert_eq!(last, Err(ENOMEM));
        let text = setup.encode().unwrap();
        assert!(text.len() <= CONTEXT_MAX);
        assert_eq!(Setup::decode(&text).unwrap().options, setup.options);
    }
}
