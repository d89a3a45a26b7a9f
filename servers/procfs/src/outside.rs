//! The process manager and the memory manager as the source of the texts.

use crate::system::{Kept, Load, Memories, Memory, Mount, Processor, Shown, System};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::machine::Counters;
use cairn_abi::service::current;
use cairn_idl::errno::{EIO, ENOSYS};
use cairn_idl::fs::{Prefix, PrefixTable, PREFIX_SERIAL_SHIFT, SPACE_MOUNTS_MOST};
use cairn_idl::proc::{Related, SpaceKind, SpaceMap, Status};
use cairn_idl::vm::{MapEntry, Usage};
use cairn_idl::wire::Failure;
use cairn_idl::{components, event, fs, ipc, keys, local, net, proc, vm};
use cairn_rt::{entropy, time, Portal};

pub struct Outside {
    pub proc: Portal,
    /// `vm`'s portal to look at others' spaces.
    pub vm: Portal,
    /// The server of System V's things.
    pub ipc: Option<Portal>,
    pub keys: Option<Portal>,
    pub event: Option<Portal>,
    /// That of Internet sockets.
    pub net: Option<Portal>,
    pub local: Option<Portal>,
    /// `init`, for the list of components.
    pub components: Option<Portal>,
    pub boot_line: String,
    pub core_pattern: String,
    pub disk_types: Vec<String>,
    pub boot_id: [u8; 16],
}

fn text(padded: &[u8]) -> String {
    let end = padded.iter().position(|&b| b == 0).unwrap_or(padded.len());
    String::from_utf8_lossy(&padded[..end]).into_owned()
}

/// Mounts and host name from the bytes of a prefix table.
pub fn decode_prefixes(bytes: &[u8]) -> (Vec<Mount>, Vec<u8>) {
    let Some((head, entries)) = bytes.split_first_chunk() else {
        return (Vec::new(), Vec::new());
    };
    let name = text(&PrefixTable::from_bytes(head).hostname).into_bytes();
    let mounts = structures(entries, Prefix::from_bytes)
        .filter(|entry| entry.used & 1 != 0)
        .map(|entry| Mount {
            prefix: text(&entry.name),
            fstype: text(&entry.fstype),
            flags: entry.used & !1 & ((1 << PREFIX_SERIAL_SHIFT) - 1),
        })
        .collect();
    (mounts, name)
}

/// One structure after the other.
fn structures<const N: usize, T: 'static>(
    bytes: &[u8],
    from_bytes: fn(&[u8; N]) -> T,
) -> impl Iterator<Item = T> + '_ {
    bytes
        .chunks_exact(N)
        .filter_map(|chunk| chunk.first_chunk())
        .map(from_bytes)
}

/// Most bytes that a server gives at a time of a list.
const PAGE: usize = 32 * 1024;

/// A list that a server gives in pages: the text of one goes into the bytes; the place to go on from (0: that was all) and its length. As much as there is
/// memory for.
fn pages(
    server: Option<Portal>,
    next_page: impl Fn(&Portal, u64, &mut [u8]) -> Option<(u64, usize)>,
) -> String {
    let (mut text, mut place) = (String::new(), 0);
    let Some(server) = server else {
        return text;
    };
    let mut bytes = vec![0; PAGE];
    while let Some((next, length)) = next_page(&server, place, &mut bytes) {
        if text.try_reserve(length).is_err() {
            break;
        }
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        if next == 0 {
            break;
        }
        place = next;
    }
    text
}

impl Outside {
    fn proc(&self) -> proc::Client<'_, Portal> {
        proc::Client(&self.proc)
    }

    fn text(&self, pid: u32, which: u64) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let length = self
            .proc()
            .text(pid as u64, which, 0, &mut bytes)
            .unwrap_or(0);
        bytes.truncate(length as usize);
        bytes
    }
}

/// Up to `most` numbers from who says how many there are.
fn numbers(most: usize, ask: impl FnOnce(&mut [u8]) -> Result<u64, Failure>) -> Vec<u32> {
    let mut bytes = vec![0; 4 * most];
    let count = ask(&mut bytes).map_or(0, |count| (count as usize).min(most));
    structures(&bytes[..4 * count], |number| u32::from_le_bytes(*number)).collect()
}

impl System for Outside {
    fn pids(&mut self, first: u32, reader: u32) -> Vec<u32> {
        numbers(256, |into| {
            self.proc().pids(first as u64, reader.into(), into)
        })
    }

    fn number_for(&mut self, domain: u32, number: u32) -> u32 {
        let number = self.proc().number_of(domain, number.into(), 0);
        number.map_or(0, |number| number as u32)
    }

    fn number_of(&mut self, domain: u32, number: u32) -> Option<u32> {
        let number = self.proc().number_of(domain, number.into(), 1);
        number.ok().map(|number| number as u32)
    }

    fn status(&mut self, pid: u32, tid: u32, reader: u32) -> Option<Status> {
        // Process 0 would mean ourselves.
        if pid == 0 {
            return None;
        }
        let status = self.proc().status(pid.into(), reader.into(), tid.into());
        status.ok()
    }

    fn set_thread_name(&mut self, domain: u32, pid: u32, tid: u32, name: &[u8]) -> Result<(), i64> {
        let set = self.proc().set_comm(domain, pid.into(), tid.into(), name);
        set.map_err(Failure::errno)
    }

    fn tids(&mut self, pid: u32, reader: u32) -> Vec<u32> {
        numbers(1024, |into| {
            self.proc().tids(pid as u64, reader.into(), into)
        })
    }

    fn descriptors(&mut self, pid: u32, first: u32) -> Vec<u32> {
        let mut bytes = vec![0; 4096];
        let mut first = u64::from(first);
        loop {
            match self.proc().files_of(pid.into(), first, &mut bytes) {
                Ok(told) if told.count == 0 && told.next > first => first = told.next,
                Ok(told) => {
                    let length = bytes.len().min(4 * told.count as usize);
                    let numbers = structures(&bytes[..length], |n| u32::from_le_bytes(*n));
                    return numbers.collect();
                }
                Err(_) => return Vec::new(),
            }
        }
    }

    fn pid_of(&mut self, domain: u32) -> Option<u32> {
        self.ids_of(domain, 0).map(|(pid, _)| pid)
    }

    fn ids_of(&mut self, domain: u32, thread: u32) -> Option<(u32, u32)> {
        let ids = self.proc().ids_of(domain, thread, &mut []).ok()?;
        Some((ids.pid as u32, ids.tid as u32))
    }

    fn may_look_into(&mut self, domain: u32, pid: u32) -> bool {
        self.proc().ptrace_access(domain, pid as u64).is_ok()
    }

    fn command_line(&mut self, pid: u32) -> Vec<u8> {
        self.text(pid, 0)
    }

    fn executable(&mut self, pid: u32) -> Vec<u8> {
        self.text(pid, 1)
    }

    fn open_memory(&mut self, by: u32, pid: u32) -> Result<Memories, i64> {
        let opened = self.proc().memory_open(by, pid.into());
        let opened = opened.map_err(Failure::errno)?;
        Ok(Memories {
            life: opened.life,
            program: opened.program,
        })
    }

    fn read_memory(
        &mut self,
        by: u32,
        of: Memories,
        at: u64,
        into: &mut [u8],
    ) -> Result<usize, i64> {
        let Memories { life, program } = of;
        let read = self.proc().memory(life, program, at, 0, by, &[], into);
        read.map(|count| count as usize).map_err(Failure::errno)
    }

    fn write_memory(&mut self, by: u32, of: Memories, at: u64, from: &[u8]) -> Result<usize, i64> {
        let Memories { life, program } = of;
        let written = self.proc().memory(life, program, at, 1, by, from, &mut []);
        written.map(|count| count as usize).map_err(Failure::errno)
    }

    fn call(&mut self, by: u32, tid: u32) -> Result<Option<[u64; 9]>, i64> {
        let mut bytes = [0; proc::CALL_BYTES as usize];
        let waits = self.proc().call_of(by, tid.into(), &mut bytes);
        let mut words = structures(&bytes, |word| u64::from_le_bytes(*word));
        let words = core::array::from_fn(|_| words.next().unwrap_or(0));
        Ok((waits.map_err(Failure::errno)? != 0).then_some(words))
    }

    fn environment(&mut self, pid: u32) -> Vec<u8> {
        const MOST: usize = 4 << 20;
        let mut all = Vec::new();
        let mut piece = vec![0; 4096];
        while all.len() < MOST {
            let text = self
                .proc()
                .text(pid.into(), 2, all.len() as u64, &mut piece);
            let length = text.map_or(0, |length| (length as usize).min(piece.len()));
            if length == 0 || all.try_reserve(length).is_err() {
                break;
            }
            all.extend_from_slice(&piece[..length]);
        }
        all
    }

    fn auxiliary(&mut self, pid: u32) -> Vec<u8> {
        self.text(pid, 3)
    }

    fn cgroup(&mut self, pid: u32, reader: u32) -> Option<String> {
        const PATH_MAX: usize = 4096;
        let mut path = alloc::vec![0; PATH_MAX];
        let length = self
            .proc()
            .cgroup_path(pid.into(), reader.into(), &mut path)
            .ok()?;
        path.truncate(length as usize);
        String::from_utf8(path).ok()
    }

    fn limit(&mut self, pid: u32, resource: u64) -> Option<[u64; 2]> {
        let mut bytes = [0; 16];
        self.proc()
            .limits_of(resource, pid as u64, &mut bytes)
            .ok()?;
        let mut limits = structures(&bytes, |limit| u64::from_le_bytes(*limit));
        Some([limits.next()?, limits.next()?])
    }

    fn maps(&mut self, domain: u32) -> Vec<MapEntry> {
        const SHARE: usize = 64;
        let mut maps: Vec<MapEntry> = Vec::new();
        loop {
            let first = maps.last().map_or(0, |map| map.end);
            let mut bytes = [0; SHARE * MapEntry::BYTES];
            let count = vm::Client(&self.vm)
                .maps(domain, first, &mut bytes)
                .map_or(0, |count| (count as usize).min(SHARE));
            let more: Vec<MapEntry> =
                structures(&bytes[..count * MapEntry::BYTES], MapEntry::from_bytes).collect();
            // Each share must lead on, or an odd answer would keep us here.
            let leads_on = more.last().is_some_and(|map| map.end > first);
            maps.extend(more);
            if count < SHARE || !leads_on {
                return maps;
            }
        }
    }

    fn shown(&mut self, maker: u64, tag: u64) -> Option<Shown> {
        let namer = vm::Client(&self.vm).namer(maker).ok()?;
        let namer = Portal(namer.slot());
        let mut path = vec![0; fs::PATH_MAX];
        let told = fs::Client(&namer).file_of(tag, &mut path);
        namer.close();
        let (told, length) = told.ok()?;
        let name = path.get(..length)?;
        Some(Shown {
            device: told.device,
            inode: told.inode,
            name: String::from_utf8_lossy(name).into_owned(),
        })
    }

    fn kept(&mut self, pid: u32, tid: u32) -> Option<Kept> {
        let kept = self.proc().kept_of(pid.into(), tid.into()).ok()?;
        Some(Kept {
            umask: kept.umask as u32,
            cores: kept.cores,
            blocked: kept.blocked,
        })
    }

    fn set_core_filter(&mut self, domain: u32, pid: u32, filter: u32) -> Result<(), i64> {
        let set = self.proc().set_core_filter(domain, pid.into(), filter);
        set.map_err(Failure::errno)
    }

    fn timer_slack(&mut self, domain: u32, pid: u32, new: Option<u64>) -> Result<u64, i64> {
        let (set, new) = (u64::from(new.is_some()), new.unwrap_or(0));
        let asked = self.proc().timer_slack(domain, pid.into(), set, new);
        asked.map_err(Failure::errno)
    }

    fn usage(&mut self, domain: u32, first: u64, end: u64) -> Option<Usage> {
        let mut bytes = [0; Usage::BYTES];
        let vm = vm::Client(&self.vm);
        vm.usage(domain, first, end, &mut bytes).ok()?;
        Some(Usage::from_bytes(&bytes))
    }

    fn space_id(&mut self, pid: u32, kind: SpaceKind) -> Option<u64> {
        self.proc().space_id(pid.into(), kind).ok()
    }

    fn hold_space(&mut self, pid: u32, kind: SpaceKind, id: u64) -> Result<(), i64> {
        let held = self.proc().space_hold(pid.into(), kind, id);
        held.map_err(Failure::errno)
    }

    fn related(
        &mut self,
        domain: u32,
        (kind, id): (SpaceKind, u64),
        which: Related,
    ) -> Result<u64, i64> {
        let told = self.proc().space_related(domain, kind, id, which);
        told.map(|told| told.other).map_err(Failure::errno)
    }

    fn drop_space(&mut self, kind: SpaceKind, id: u64) {
        // (What is not held any more is gone.)
        let _ = self.proc().space_drop(kind, id);
    }

    fn enter_space(&mut self, domain: u32, kind: SpaceKind, id: u64) -> Result<(), i64> {
        let entered = self.proc().space_enter(domain, kind, id);
        entered.map_err(Failure::errno)
    }

    fn map_text(&mut self, domain: u32, pid: u32, which: SpaceMap) -> Result<Vec<u8>, i64> {
        let mut bytes = vec![0; 16 * 1024];
        let read = self.proc().map_read(domain, pid.into(), which, &mut bytes);
        bytes.truncate(read.map_err(Failure::errno)? as usize);
        Ok(bytes)
    }

    fn set_map(&mut self, domain: u32, pid: u32, which: SpaceMap, text: &[u8]) -> Result<(), i64> {
        let written = self.proc().map_write(domain, pid.into(), which, text);
        written.map_err(Failure::errno)
    }

    fn set_login(&mut self, domain: u32, pid: u32, user: u32) -> Result<(), i64> {
        let set = self.proc().set_login(domain, pid.into(), user);
        set.map_err(Failure::errno)
    }

    fn set_oom(&mut self, domain: u32, pid: u32, adjust: i32, old: bool) -> Result<(), i64> {
        let set = self.proc().set_oom(domain, pid.into(), adjust.into(), old);
        set.map_err(Failure::errno)
    }

    fn load(&mut self, reader: u32) -> Load {
        let load = self.proc().load(reader.into());
        load.map_or(Load::default(), |load| Load {
            processes: load.processes,
            forks: load.forks,
            running: load.running,
            averages: [load.load1, load.load5, load.load15],
            last_pid: load.last_pid,
            idle: load.idle,
        })
    }

    fn drop_caches(&mut self) -> Result<(), i64> {
        vm::Client(&self.vm).drop_caches().map_err(Failure::errno)
    }

    fn memory(&mut self) -> Memory {
        vm::Client(&self.vm)
            .memory_stat()
            .map_or(Memory::default(), |frames| Memory {
                total: frames.total,
                free: frames.free,
                nucleus: frames.nucleus,
                native: frames.native,
                programs: frames.linux,
                archive: frames.archive,
                cache: frames.cache,
            })
    }

    fn mounts(&mut self, pid: u32) -> (Vec<Mount>, Vec<u8>) {
        const MOST: usize = PrefixTable::BYTES + SPACE_MOUNTS_MOST * Prefix::BYTES;
        let mut room = 8 * 1024;
        loop {
            let mut bytes = vec![0; room];
            let length = self.proc().prefixes(pid.into(), &mut bytes).unwrap_or(0);
            if length < room || room == MOST {
                return decode_prefixes(&bytes[..length]);
            }
            room = (4 * room).min(MOST);
        }
    }

    fn local_table(&mut self) -> String {
        pages(self.local, |portal, place, bytes| {
            local::Client(portal).table(place, bytes).ok()
        })
    }

    fn net_table(&mut self, table: net::Listing) -> String {
        pages(self.net, |portal, place, bytes| {
            net::Client(portal).table(table, place, bytes).ok()
        })
    }

    fn ipc_list(&mut self, kind: ipc::Kind) -> String {
        pages(self.ipc, |portal, first, bytes| {
            ipc::Client(portal).list(kind, first, bytes).ok()
        })
    }

    fn ipc_limit(&mut self, which: ipc::Limits) -> Option<u64> {
        ipc::Client(&self.ipc?).limit(which, 0, 0).ok()
    }

    fn set_ipc_limit(&mut self, which: ipc::Limits, value: u64) -> Result<(), i64> {
        let portal = self.ipc.ok_or(ENOSYS)?;
        let set = ipc::Client(&portal).limit(which, 1, value);
        set.map(|_| ()).map_err(Failure::errno)
    }

    fn key_list(&mut self, what: keys::Listing, domain: u32, label: u64) -> String {
        pages(self.keys, |portal, first, bytes| {
            keys::Client(portal)
                .list(what, domain, label, first, bytes)
                .ok()
        })
    }

    fn key_limit(&mut self, which: keys::Limits) -> Option<u64> {
        keys::Client(&self.keys?).limit(which, 0, 0).ok()
    }

    fn set_key_limit(&mut self, which: keys::Limits, value: u64) -> Result<(), i64> {
        let portal = self.keys.ok_or(ENOSYS)?;
        let set = keys::Client(&portal).limit(which, 1, value);
        set.map(|_| ()).map_err(Failure::errno)
    }

    fn lease_time(&mut self) -> Option<u64> {
        event::Client(&self.event?).lease_time(0, 0).ok()
    }

    fn set_lease_time(&mut self, seconds: u64) -> Result<(), i64> {
        let portal = self.event.ok_or(ENOSYS)?;
        let set = event::Client(&portal).lease_time(1, seconds);
        set.map(|_| ()).map_err(Failure::errno)
    }

    fn host_text(&mut self, domain: u32, which: u64) -> Vec<u8> {
        let mut name = [0; 64];
        let told = self.proc().hostname_of(domain, which, &mut name);
        name[..told.map_or(0, |length| length.min(64))].to_vec()
    }

    fn set_host_text(&mut self, domain: u32, which: u64, name: &[u8]) -> Result<(), i64> {
        let set = self.proc().sethostname(which, domain, name);
        set.map_err(Failure::errno)
    }

    fn components(&mut self, which: u64) -> String {
        const PIECE: usize = 16 * 1024;
        let mut all = Vec::new();
        let mut next = 0;
        let mut bytes = vec![0; PIECE];
        while let Some(portal) = &self.components {
            let client = components::Client(portal);
            let Ok(told) = client.list(which, next, &mut bytes) else {
                break;
            };
            all.extend_from_slice(&bytes[..told.1.min(PIECE)]);
            next = told.0;
            if next == 0 {
                break;
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    fn restart_component(&mut self, name: &[u8]) -> Result<(), i64> {
        let portal = self.components.as_ref().ok_or(EIO)?;
        let done = components::Client(portal).restart(name);
        done.map_err(Failure::errno)
    }

    fn core_pattern(&mut self) -> &mut String {
        &mut self.core_pattern
    }

    fn processor(&mut self) -> Processor {
        crate::processor::describe(time::system_page().tsc_hz, time::system_page().cores)
    }

    fn disk_types(&self) -> Vec<String> {
        self.disk_types.clone()
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
