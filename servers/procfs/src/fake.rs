//! A small system of the imagination: `init` (1), a shell (10) of user 1000, a job of its (20) that is a zombie, and one (30, not listed) that is not dumpable.

use crate::system::{Kept, Load, Memories, Memory, Mount, Processor, Shown, System};
use cairn_abi::machine::Counters;
use cairn_idl::capability::ALL;
use cairn_idl::errno::{EACCES, EFAULT, EINVAL, EPERM};
use cairn_idl::proc::{Credentials, Related, SpaceKind, SpaceMap, Status};
use cairn_idl::vm::{self, flags, prot, MapEntry, Usage};

#[derive(Default)]
pub struct Fake {
    /// Questions about what objects show.
    pub asked_makers: u32,
    pub host_texts: [Vec<u8>; 2],
    pub dropped: u32,
    pub core_filters: Vec<(u32, u32)>,
    pub slack: u64,
    pub gone: Vec<u32>,
    pub core_pattern: String,
    /// Into memory: where, and what.
    pub written: Vec<(u64, Vec<u8>)>,
    pub lease_time: u64,
    pub limits: std::collections::BTreeMap<u64, u64>,
    /// Name spaces that are kept, and who came into one.
    pub held: Vec<u64>,
    pub entered: Vec<(u32, u64)>,
    /// Writer, process, which and text of maps.
    pub maps: Vec<(u32, u32, SpaceMap, Vec<u8>)>,
    pub logins: Vec<(u32, u32, u32)>,
    pub ooms: Vec<(u32, u32, i32, bool)>,
    pub names: Vec<(u32, u32, u32, Vec<u8>)>,
    pub restarted: Vec<Vec<u8>>,
}

pub const SHELL_DOMAIN: u32 = 77;
/// Of somebody who may look into everybody.
pub const ROOT_DOMAIN: u32 = 70;

fn named(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

impl System for Fake {
    fn number_for(&mut self, _: u32, number: u32) -> u32 {
        number
    }

    fn number_of(&mut self, _: u32, number: u32) -> Option<u32> {
        Some(number)
    }

    fn pids(&mut self, first: u32, _: u32) -> Vec<u32> {
        // One at a time, as if the answer had no more room.
        [1, 10, 20]
            .into_iter()
            .filter(|&pid| pid >= first)
            .take(1)
            .collect()
    }

    fn status(&mut self, pid: u32, tid: u32, _: u32) -> Option<Status> {
        if self.gone.contains(&pid) {
            return None;
        }
        let user = |uid: u32| Credentials {
            ruid: uid,
            euid: uid,
            suid: uid,
            rgid: uid,
            egid: uid,
            sgid: uid,
            group_count: 2,
            groups: core::array::from_fn(|i| 4 + i as u32),
            effective: if uid == 0 { ALL } else { 0 },
            ..Credentials::default()
        };
        let shell = Status {
            pid: 10,
            ppid: 1,
            pgid: 10,
            sid: 10,
            terminal: 0x440,
            foreground: 20,
            state: b'S' as u32,
            threads: 2,
            comm: named("a) sh"),
            creds: user(1000),
            nice: -5,
            no_new_privileges: 0,
            filter_mode: 0,
            filters: 0,
            cpu: 1_230_000_000,
            child_cpu: 450_000_000,
            start: 2_500_000_000,
            resident_pages: 25,
            virtual_pages: 100,
            shared_pages: 5,
            ignored: 0x1000,
            caught: 0x2,
            pending: 0x4,
            domain: 500,
            exit_signal: 17,
            dumpable: 1,
            tracer: 0,
            locked_pages: 3,
            data_pages: 7,
            life: 0x7_0000_000a,
            login_user: 1000,
            login_session: 3,
            oom_adjust: 300,
            core_filter: 0x33,
            minor_faults: 211,
            major_faults: 3,
            child_minor_faults: 17,
            child_major_faults: 1,
        };
        match pid {
            1 => Some(Status {
                pid: 1,
                ppid: 0,
                terminal: 0,
                creds: user(0),
                dumpable: 0,
                comm: named("init"),
                ..shell
            }),
            10 if tid != 10 => Some(Status {
                comm: named(&format!("thread-{tid}")),
                ..shell
            }),
            10 => Some(shell),
            20 => Some(Status {
                pid: 20,
                ppid: 10,
                state: b'Z' as u32,
                ..shell
            }),
            30 => Some(Status {
                pid: 30,
                dumpable: 0,
                ..shell
            }),
            _ => None,
        }
    }

    fn tids(&mut self, pid: u32, _: u32) -> Vec<u32> {
        match pid {
            10 => vec![10, 11],
            _ => vec![pid],
        }
    }

    fn descriptors(&mut self, pid: u32, first: u32) -> Vec<u32> {
        let all = match pid {
            10 => vec![0, 1, 2, 70_000],
            _ => Vec::new(),
        };
        all.into_iter().filter(|fd| *fd >= first).collect()
    }

    fn pid_of(&mut self, domain: u32) -> Option<u32> {
        (domain == SHELL_DOMAIN).then_some(10)
    }

    fn ids_of(&mut self, domain: u32, thread: u32) -> Option<(u32, u32)> {
        let tid = if thread >= 1 << 20 { 11 } else { 10 };
        (domain == SHELL_DOMAIN).then_some((10, tid))
    }

    fn may_look_into(&mut self, domain: u32, pid: u32) -> bool {
        domain == ROOT_DOMAIN || domain == SHELL_DOMAIN && matches!(pid, 10 | 20)
    }

    fn command_line(&mut self, _: u32) -> Vec<u8> {
        b"sh\0-c\0\xff\0".to_vec()
    }

    fn open_memory(&mut self, by: u32, pid: u32) -> Result<Memories, i64> {
        match self.may_look_into(by, pid) {
            true => Ok(Memories {
                life: pid.into(),
                program: 3,
            }),
            false => Err(EACCES),
        }
    }

    fn read_memory(
        &mut self,
        _: u32,
        of: Memories,
        at: u64,
        into: &mut [u8],
    ) -> Result<usize, i64> {
        // Three pages are there.
        let left = (5 * 4096u64).saturating_sub(at) as usize;
        let count = into.len().min(left);
        if at < 2 * 4096 || count == 0 {
            return Err(EFAULT);
        }
        into[..count].fill(of.life as u8);
        Ok(count)
    }

    fn write_memory(&mut self, _: u32, _: Memories, at: u64, from: &[u8]) -> Result<usize, i64> {
        self.written.push((at, from.to_vec()));
        Ok(from.len())
    }

    fn call(&mut self, by: u32, tid: u32) -> Result<Option<[u64; 9]>, i64> {
        match self.may_look_into(by, tid) {
            true => Ok((tid == 10).then_some([0, 1, 2, 3, 4, 5, 6, 0x7ff0, 0x1000])),
            false => Err(EACCES),
        }
    }

    fn environment(&mut self, pid: u32) -> Vec<u8> {
        format!("PID={pid}\0").into_bytes()
    }

    fn auxiliary(&mut self, _: u32) -> Vec<u8> {
        alloc::vec![0; 16]
    }

    fn executable(&mut self, pid: u32) -> Vec<u8> {
        match pid {
            20 => Vec::new(),
            _ => b"/bin/busybox".to_vec(),
        }
    }

    fn cgroup(&mut self, pid: u32, _: u32) -> Option<String> {
        Some(if pid == 1 { "/" } else { "/a/b" }.into())
    }

    fn limit(&mut self, _: u32, resource: u64) -> Option<[u64; 2]> {
        Some([if resource == 7 { 1024 } else { u64::MAX }, u64::MAX])
    }

    fn space_id(&mut self, pid: u32, kind: SpaceKind) -> Option<u64> {
        (pid == 10).then_some(if kind == SpaceKind::Host { 7 } else { 0 })
    }

    fn hold_space(&mut self, _: u32, _: SpaceKind, id: u64) -> Result<(), i64> {
        self.held.push(id);
        Ok(())
    }

    fn related(
        &mut self,
        _: u32,
        (kind, id): (SpaceKind, u64),
        which: Related,
    ) -> Result<u64, i64> {
        match (kind, which) {
            (SpaceKind::Host, Related::Owner) => {
                self.held.push(id + 1);
                Ok(id + 1)
            }
            (SpaceKind::User, Related::User) => Ok(1000),
            (SpaceKind::User, _) => Err(EPERM),
            _ => Err(EINVAL),
        }
    }

    fn drop_space(&mut self, _: SpaceKind, id: u64) {
        self.held.retain(|held| *held != id);
    }

    fn enter_space(&mut self, domain: u32, _: SpaceKind, id: u64) -> Result<(), i64> {
        self.entered.push((domain, id));
        Ok(())
    }

    fn map_text(&mut self, domain: u32, pid: u32, _: SpaceMap) -> Result<Vec<u8>, i64> {
        Ok(format!("{pid} for {domain}\n").into_bytes())
    }

    fn set_map(&mut self, domain: u32, pid: u32, which: SpaceMap, text: &[u8]) -> Result<(), i64> {
        self.maps.push((domain, pid, which, text.to_vec()));
        Ok(())
    }

    fn set_thread_name(&mut self, domain: u32, pid: u32, tid: u32, name: &[u8]) -> Result<(), i64> {
        self.names.push((domain, pid, tid, name.to_vec()));
        Ok(())
    }

    fn set_oom(&mut self, domain: u32, pid: u32, adjust: i32, old: bool) -> Result<(), i64> {
        self.ooms.push((domain, pid, adjust, old));
        Ok(())
    }

    fn set_login(&mut self, domain: u32, pid: u32, user: u32) -> Result<(), i64> {
        self.logins.push((domain, pid, user));
        Ok(())
    }

    fn kept(&mut self, pid: u32, _: u32) -> Option<Kept> {
        (pid == 10).then_some(Kept {
            umask: 0o27,
            cores: 0b1101,
            blocked: 0x11_0000_0002,
        })
    }

    fn set_core_filter(&mut self, _: u32, pid: u32, filter: u32) -> Result<(), i64> {
        self.core_filters.push((pid, filter));
        Ok(())
    }

    fn timer_slack(&mut self, domain: u32, pid: u32, new: Option<u64>) -> Result<u64, i64> {
        if domain == 9 && pid == 10 {
            return Err(cairn_idl::errno::EPERM);
        }
        self.slack = new.unwrap_or(self.slack);
        Ok(self.slack)
    }

    fn usage(&mut self, _: u32, first: u64, end: u64) -> Option<Usage> {
        // A page at a time, of which every second one is shared by three.
        let odd = u64::from(first & 0x1000 != 0);
        Some(Usage {
            next: match end - first {
                0x1001..=0x10_0000 => first + 0x1000,
                _ => 0,
            },
            private_dirty: 1 - odd,
            shared_dirty: odd,
            anonymous: 1,
            share: if odd == 0 { 4096 } else { 4096 / 3 },
            share_dirty: 4096,
            share_anonymous: 4096,
            ..Usage::default()
        })
    }

    fn shown(&mut self, maker: u64, tag: u64) -> Option<Shown> {
        self.asked_makers += 1;
        (maker == 7).then(|| Shown {
            device: 0xfe01,
            inode: 1000 + tag,
            name: ["/bin/a\nb", ""][tag as usize % 2].into(),
        })
    }

    fn maps(&mut self, _: u32) -> Vec<MapEntry> {
        let of = |start: u64, flags: u64, [maker, tag]: [u64; 2]| MapEntry {
            start,
            end: start + 0x1000,
            prot: prot::READ as u32,
            flags: flags as u32,
            maker,
            tag,
            ..MapEntry::default()
        };
        vec![
            MapEntry {
                start: 0x40_0000,
                end: 0x40_1000,
                prot: (prot::READ | prot::EXECUTE) as u32,
                offset: 0x1000,
                ..MapEntry::default()
            },
            // Files of a maker that tells of them and of one that does not; the break; memory that is shared with children.
            of(0x50_0000, flags::SHARED, [7, 2]),
            of(0x50_2000, 0, [7, 2]),
            of(0x50_4000, 0, [7, 3]),
            of(0x50_6000, 0, [8, 2]),
            of(0x50_8000, vm::OF_BREAK, [0, 0]),
            of(0x50_a000, flags::SHARED, [0, 31]),
            MapEntry {
                start: 0x7ffe_fff0_0000,
                end: 0x7fff_0000_0000,
                prot: (prot::READ | prot::WRITE) as u32,
                flags: flags::STACK as u32,
                ..MapEntry::default()
            },
            MapEntry {
                start: cairn_abi::layout::PERSONALITY,
                end: cairn_abi::layout::PERSONALITY + 0x1000,
                ..MapEntry::default()
            },
        ]
    }

    fn load(&mut self, _: u32) -> Load {
        Load {
            processes: 3,
            forks: 40,
            running: 1,
            averages: [65536 / 2, 65536 + 655, 0],
            last_pid: 20,
            idle: 5_000_000_000,
        }
    }

    fn drop_caches(&mut self) -> Result<(), i64> {
        self.dropped += 1;
        Ok(())
    }

    fn memory(&mut self) -> Memory {
        Memory {
            total: 65536,
            free: 60000,
            nucleus: 100,
            native: 1000,
            programs: 500,
            archive: 300,
            cache: 250,
        }
    }

    fn mounts(&mut self, _: u32) -> (Vec<Mount>, Vec<u8>) {
        let mounts = [
            ("", "tmpfs"),
            ("dev:", "dev"),
            ("/proc", "proc"),
            ("/mnt", "ext4:vda"),
        ]
        .iter()
        .map(|(prefix, fstype)| Mount {
            prefix: prefix.to_string(),
            fstype: fstype.to_string(),
            flags: 0,
        })
        .collect();
        (mounts, Vec::new())
    }

    fn ipc_list(&mut self, kind: cairn_idl::ipc::Kind) -> String {
        format!("{kind:?}\n")
    }

    fn local_table(&mut self) -> String {
        "Local\n".to_string()
    }

    fn net_table(&mut self, table: cairn_idl::net::Listing) -> String {
        format!("{table:?}\n")
    }

    fn ipc_limit(&mut self, which: cairn_idl::ipc::Limits) -> Option<u64> {
        self.limits.get(&which.word()).copied().or(Some(7))
    }

    fn set_ipc_limit(&mut self, which: cairn_idl::ipc::Limits, value: u64) -> Result<(), i64> {
        self.limits.insert(which.word(), value);
        Ok(())
    }

    fn key_list(&mut self, what: cairn_idl::keys::Listing, domain: u32, label: u64) -> String {
        format!("{what:?} {domain} {label:x}\n")
    }

    fn key_limit(&mut self, which: cairn_idl::keys::Limits) -> Option<u64> {
        self.limits.get(&(1000 + which.word())).copied().or(Some(8))
    }

    fn set_key_limit(&mut self, which: cairn_idl::keys::Limits, value: u64) -> Result<(), i64> {
        self.limits.insert(1000 + which.word(), value);
        Ok(())
    }

    fn lease_time(&mut self) -> Option<u64> {
        Some(self.lease_time)
    }

    fn set_lease_time(&mut self, seconds: u64) -> Result<(), i64> {
        self.lease_time = seconds;
        Ok(())
    }

    fn host_text(&mut self, _: u32, which: u64) -> Vec<u8> {
        self.host_texts[which as usize].clone()
    }

    fn set_host_text(&mut self, _: u32, which: u64, name: &[u8]) -> Result<(), i64> {
        self.host_texts[which as usize] = name.to_vec();
        Ok(())
    }

    fn components(&mut self, which: u64) -> String {
        format!("tty {which}\n")
    }

    fn restart_component(&mut self, name: &[u8]) -> Result<(), i64> {
        match name {
            b"tty" => Err(cairn_idl::errno::EBUSY),
            name => {
                self.restarted.push(name.to_vec());
                Ok(())
            }
        }
    }

    fn core_pattern(&mut self) -> &mut String {
        &mut self.core_pattern
    }

    fn processor(&mut self) -> Processor {
        Processor {
            vendor: "GenuineCairn".into(),
            count: 2,
            megahertz: 2000,
            ..Processor::default()
        }
    }

    fn disk_types(&self) -> Vec<String> {
        ["ext4", "vfat"].map(String::from).to_vec()
    }

    fn boot_line(&self) -> String {
        "console=ttyS0".into()
    }

    fn monotonic(&mut self) -> u64 {
        12_345_000_000
    }

    fn realtime(&mut self) -> u64 {
        1_700_000_012_345_000_000
    }

    fn counters(&mut self) -> Counters {
        Counters {
            entries: 100,
            turned: 90,
            space_switches: 80,
            thread_switches: 70,
            invalidations: 60,
            bytes_copied: 50,
            faults: 40,
            interrupts: 30,
            idle: 20,
            nucleus_frames: 10,
            direct: 11,
            longest: 12,
            longest_in: 13,
        }
    }

    fn random(&mut self) -> [u8; 16] {
        [0xff; 16]
    }

    fn boot_id(&self) -> [u8; 16] {
        [1; 16]
    }
}
