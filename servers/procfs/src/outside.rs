//! The process manager and the memory manager as the source of the texts.

use crate::system::{Load, Memory, Mount, Processor, System};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::machine::Counters;
use cairn_abi::service::current;
use cairn_idl::errno::EIO;
use cairn_idl::proc::{Credentials, Status};
use cairn_idl::vm::MapEntry;
use cairn_idl::{proc, vm};
use cairn_rt::{entropy, time, Message, Portal};
use core::mem::{offset_of, size_of};

pub struct Outside {
    pub proc: Portal,
    /// `vm`'s control portal.
    pub vm: Portal,
    pub boot_line: String,
    pub boot_id: [u8; 16],
}

/// A structure's bytes, read field by field: what another server wrote is data, not a structure.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).map_or(0, |bytes| {
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        })
    }

    fn u64(&self, at: usize) -> u64 {
        self.u32(at) as u64 | (self.u32(at + 4) as u64) << 32
    }
}

fn text(padded: &[u8]) -> String {
    let end = padded.iter().position(|&b| b == 0).unwrap_or(padded.len());
    String::from_utf8_lossy(&padded[..end]).into_owned()
}

/// A [`Status`] from its bytes.
pub fn decode_status(bytes: &[u8]) -> Status {
    let from = Fields(bytes);
    let creds = offset_of!(Status, creds);
    let cred = |at: usize| from.u32(creds + at);
    let mut comm = [0; 16];
    let at = offset_of!(Status, comm);
    if let Some(name) = bytes.get(at..at + 16) {
        comm.copy_from_slice(name);
    }
    Status {
        pid: from.u32(offset_of!(Status, pid)),
        ppid: from.u32(offset_of!(Status, ppid)),
        pgid: from.u32(offset_of!(Status, pgid)),
        sid: from.u32(offset_of!(Status, sid)),
        terminal: from.u32(offset_of!(Status, terminal)),
        foreground: from.u32(offset_of!(Status, foreground)),
        state: from.u32(offset_of!(Status, state)),
        threads: from.u32(offset_of!(Status, threads)),
        comm,
        creds: Credentials {
            ruid: cred(offset_of!(Credentials, ruid)),
            euid: cred(offset_of!(Credentials, euid)),
            suid: cred(offset_of!(Credentials, suid)),
            rgid: cred(offset_of!(Credentials, rgid)),
            egid: cred(offset_of!(Credentials, egid)),
            sgid: cred(offset_of!(Credentials, sgid)),
            group_count: cred(offset_of!(Credentials, group_count)),
            groups: core::array::from_fn(|i| cred(offset_of!(Credentials, groups) + 4 * i)),
        },
        nice: from.u32(offset_of!(Status, nice)) as i32,
        cpu: from.u64(offset_of!(Status, cpu)),
        child_cpu: from.u64(offset_of!(Status, child_cpu)),
        start: from.u64(offset_of!(Status, start)),
        resident_pages: from.u64(offset_of!(Status, resident_pages)),
        virtual_pages: from.u64(offset_of!(Status, virtual_pages)),
        shared_pages: from.u64(offset_of!(Status, shared_pages)),
        ignored: from.u64(offset_of!(Status, ignored)),
        caught: from.u64(offset_of!(Status, caught)),
        pending: from.u64(offset_of!(Status, pending)),
        domain: from.u32(offset_of!(Status, domain)),
        exit_signal: from.u32(offset_of!(Status, exit_signal)),
    }
}

/// Mounts and host name from the bytes of a prefix table.
pub fn decode_prefixes(bytes: &[u8]) -> (Vec<Mount>, Vec<u8>) {
    use cairn_idl::fs::{Prefix, PrefixTable};
    let at = offset_of!(PrefixTable, hostname);
    let name = text(bytes.get(at..at + 64).unwrap_or(&[])).into_bytes();
    let mounts = bytes
        .get(size_of::<PrefixTable>()..)
        .unwrap_or(&[])
        .chunks_exact(size_of::<Prefix>())
        .filter(|entry| Fields(entry).u32(offset_of!(Prefix, used)) == 1)
        .map(|entry| {
            let fstype = offset_of!(Prefix, fstype);
            Mount {
                prefix: text(&entry[..64]),
                fstype: text(&entry[fstype..fstype + 16]),
            }
        })
        .collect();
    (mounts, name)
}

pub fn decode_maps(bytes: &[u8]) -> Vec<MapEntry> {
    bytes
        .chunks_exact(size_of::<MapEntry>())
        .map(|entry| {
            let from = Fields(entry);
            MapEntry {
                start: from.u64(offset_of!(MapEntry, start)),
                end: from.u64(offset_of!(MapEntry, end)),
                prot: from.u32(offset_of!(MapEntry, prot)),
                flags: from.u32(offset_of!(MapEntry, flags)),
                offset: from.u64(offset_of!(MapEntry, offset)),
                resident: from.u64(offset_of!(MapEntry, resident)),
            }
        })
        .collect()
}

fn call(portal: Portal, message: Message) -> Result<[u64; 8], i64> {
    let words = portal.call(message).map_err(|_| EIO)?;
    match words[0] as i64 {
        error if error < 0 => Err(-error),
        _ => Ok(words),
    }
}

impl Outside {
    fn numbers(&self, words: &[u64], most: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * most];
        let count = call(self.proc, Message::new(words).input(&mut bytes))
            .map_or(0, |words| (words[0] as usize).min(most));
        let from = Fields(&bytes);
        (0..count).map(|i| from.u32(4 * i)).collect()
    }

    fn text(&self, pid: u32, which: u64) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let message = Message::new(&[proc::TEXT, pid as u64, which]).input(&mut bytes);
        let length = call(self.proc, message).map_or(0, |words| words[0] as usize);
        bytes.truncate(length);
        bytes
    }
}

impl System for Outside {
    fn pids(&mut self, first: u32) -> Vec<u32> {
        self.numbers(&[proc::PIDS, first as u64], 256)
    }

    fn status(&mut self, pid: u32) -> Option<Status> {
        let mut bytes = [0; size_of::<Status>()];
        let message = Message::new(&[proc::STATUS, pid as u64]).input(&mut bytes);
        // Process 0 would mean ourselves.
        if pid == 0 {
            return None;
        }
        call(self.proc, message).ok()?;
        Some(decode_status(&bytes))
    }

    fn tids(&mut self, pid: u32) -> Vec<u32> {
        self.numbers(&[proc::TIDS, pid as u64], 1024)
    }

    fn pid_of(&mut self, domain: u32) -> Option<u32> {
        call(self.proc, Message::new(&[proc::IDS_OF, domain as u64]))
            .ok()
            .map(|words| words[0] as u32)
    }

    fn command_line(&mut self, pid: u32) -> Vec<u8> {
        self.text(pid, 0)
    }

    fn executable(&mut self, pid: u32) -> Vec<u8> {
        self.text(pid, 1)
    }

    fn limit(&mut self, pid: u32, resource: u64) -> Option<[u64; 2]> {
        let mut bytes = [0; 16];
        let words = [proc::PRLIMIT, resource, pid as u64, 0];
        call(self.proc, Message::new(&words).input(&mut bytes)).ok()?;
        let from = Fields(&bytes);
        Some([from.u64(0), from.u64(8)])
    }

    fn maps(&mut self, domain: u32) -> Vec<MapEntry> {
        const SHARE: usize = 64;
        let mut maps: Vec<MapEntry> = Vec::new();
        loop {
            let first = maps.last().map_or(0, |map| map.end);
            let mut bytes = [0; SHARE * size_of::<MapEntry>()];
            let message = Message::new(&[vm::MAPS, domain as u64, first]).input(&mut bytes);
            let count = call(self.vm, message).map_or(0, |words| (words[0] as usize).min(SHARE));
            let more = decode_maps(&bytes[..count * size_of::<MapEntry>()]);
            // Each share must lead on, or an odd answer would keep us here.
            let leads_on = more.last().is_some_and(|map| map.end > first);
            maps.extend(more);
            if count < SHARE || !leads_on {
                return maps;
            }
        }
    }

    fn load(&mut self) -> Load {
        let words = call(self.proc, Message::new(&[proc::LOAD])).unwrap_or([0; 8]);
        Load {
            processes: words[0],
            forks: words[1],
            running: words[2],
            averages: [words[3], words[4], words[5]],
            last_pid: words[6],
            idle: words[7],
        }
    }

    fn memory(&mut self) -> Memory {
        let words = call(self.vm, Message::new(&[vm::MEMORY_STAT])).unwrap_or([0; 8]);
        Memory {
            total: words[1],
            free: words[2],
            nucleus: words[3],
            native: words[4],
            programs: words[5],
            archive: words[6],
        }
    }

    fn mounts(&mut self) -> (Vec<Mount>, Vec<u8>) {
        let mut bytes = vec![0; 4096];
        let message = Message::new(&[proc::PREFIXES]).input(&mut bytes);
        let length = call(self.proc, message).map_or(0, |words| words[0] as usize);
        decode_prefixes(&bytes[..length.min(4096)])
    }

    fn set_host_name(&mut self, name: &[u8]) -> Result<(), i64> {
        call(self.proc, Message::new(&[proc::SETHOSTNAME]).out(name)).map(|_| ())
    }

    fn processor(&mut self) -> Processor {
        crate::processor::describe(time::system_page().tsc_hz, time::system_page().cores)
    }

    fn boot_line(&self) -> String {
        self.boot_line.clone()
    }

    fn counters(&mut self) -> Counters {
        let mut counters = [Counters::default()];
        // All zero if they could not be had.
        let _ = Portal::CURRENT.service_into(current::COUNTERS, &[0], 0, &mut counters);
        counters[0]
    }

    fn monotonic(&mut self) -> u64 {
        time::monotonic()
    }

    fn realtime(&mut self) -> u64 {
        time::realtime()
    }

    fn random(&mut self) -> [u8; 16] {
        random()
    }

    fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }
}

/// For identifiers, which need to differ rather than to be secret.
pub fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        let clock = (entropy::cycles() ^ time::realtime()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = entropy::hardware().unwrap_or(clock ^ clock >> 29);
        half.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_by_its_fields() {
        let mut bytes = vec![0u8; size_of::<Status>()];
        bytes[0..4].copy_from_slice(&42u32.to_le_bytes());
        let at = offset_of!(Status, comm);
        bytes[at..at + 2].copy_from_slice(b"sh");
        let at = offset_of!(Status, creds) + offset_of!(Credentials, groups) + 4;
        bytes[at..at + 4].copy_from_slice(&7u32.to_le_bytes());
        let at = offset_of!(Status, nice);
        bytes[at..at + 4].copy_from_slice(&(-5i32).to_le_bytes());
        let at = offset_of!(Status, start);
        bytes[at..at + 8].copy_from_slice(&0x1_0000_0002u64.to_le_bytes());
        let status = decode_status(&bytes);
        assert_eq!((status.pid, status.nice), (42, -5));
        assert_eq!(&status.comm[..3], b"sh\0");
        assert_eq!(status.creds.groups[1], 7);
        assert_eq!(status.start, 0x1_0000_0002);
        // A short answer is no reason to fall over.
        assert_eq!(decode_status(&bytes[..10]).pid, 42);
    }

    #[test]
    fn a_prefix_table_is_read_by_its_fields() {
        let mut bytes = vec![0u8; 80 + 3 * 88];
        bytes[16..21].copy_from_slice(b"cairn");
        for (index, (name, used, fstype)) in [
            ("", 1u8, "tmpfs"),
            ("/gone", 0, "x"),
            ("/dev", 1, "devtmpfs"),
        ]
        .iter()
        .enumerate()
        {
            let entry = &mut bytes[80 + 88 * index..][..88];
            entry[..name.len()].copy_from_slice(name.as_bytes());
            entry[68] = *used;
            entry[72..72 + fstype.len()].copy_from_slice(fstype.as_bytes());
        }
        let (mounts, name) = decode_prefixes(&bytes);
        assert_eq!(name, b"cairn");
        let seen: Vec<_> = mounts
            .iter()
            .map(|mount| (mount.prefix.as_str(), mount.fstype.as_str()))
            .collect();
        assert_eq!(seen, [("", "tmpfs"), ("/dev", "devtmpfs")]);
        assert!(decode_prefixes(&bytes[..30]).0.is_empty());
    }
}
