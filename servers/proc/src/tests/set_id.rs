//! exec of files with set-id bits: a new domain, and ids that only the manager of the file tells.

use super::invariants::check;
use crate::fake::World;
use cairn_abi::layout::{linux_slot, PERSONALITY, PERSONALITY_HEAP};
use cairn_idl::capability::KILL as CAP_KILL;
use cairn_idl::errno::*;
use cairn_idl::proc::*;

const SETUID: u64 = 0o104755;
const SETGID: u64 = 0o102755;
/// An open file, and a slot in which a process could have put anything.
const FILE: u32 = 70;

/// EXEC_FRESH of "/su": the portals named, then what is told.
fn exec_fresh(w: &mut World, pid: u64, slots: &[u64]) {
    let domain = w.domain(pid);
    w.m.system.of(domain).slots = vec![linux_slot::PROC, linux_slot::MOUNTS, FILE, FILE + 1];
    let slots: Vec<u8> = slots.iter().flat_map(|word| word.to_le_bytes()).collect();
    let part = [&b"/susu\0-c\0su"[..], &slots, b"told"].concat();
    w.call_with(pid, &part, &[EXEC_FRESH, 3, 6, 2, slots.len() as u64])
        .token();
    check(w);
}

fn tell(w: &mut World, pid: u64, mode: u64, uid: u64, gid: u64) -> i64 {
    let domain = u64::from(w.domain(pid).id);
    w.component(role::SET_ID, b"", &[SET_ID, domain, mode, uid, gid])
        .result()
}

fn begin(w: &mut World, pid: u64) -> Credentials {
    w.room = Credentials::BYTES;
    assert_eq!(w.call(pid, &[BEGIN]).result(), 0);
    Credentials::from_bytes(w.m.system.input[..].try_into().unwrap())
}

/// A process of user 5.
fn user(w: &mut World) -> u64 {
    let pid = w.fork(1);
    assert_eq!(w.set_ids(pid, [5, 5, 5]), 0);
    pid
}

#[test]
fn it_begins_in_a_domain_that_its_caller_never_touched() {
    let mut w = World::new();
    let pid = user(&mut w);
    let (old, thread) = (w.domain(pid), w.call(pid, &[THREAD_CREATE, 1, 2, 3, 4, 5]));
    assert_ne!(thread.words()[0], 0);
    w.m.system.written.clear();
    exec_fresh(&mut w, pid, &[u64::MAX, 1 << (FILE - 64)]);
    assert!(!w.m.system.domains.contains_key(&old.id));
    let new = w.domain(pid);
    let record = w.m.system.of(new);
    // Of the caller's portals only the one that was named, and none where the system's are.
    let own = [linux_slot::VM, linux_slot::PROC];
    assert_eq!(record.slots, [&[FILE][..], &own].concat());
    assert_eq!(record.start.rip, PERSONALITY + 0x40);
    let stack = record.start.rsp;
    assert_eq!(record.threads.len(), 1);
    assert_eq!(record.started, record.threads);
    let block: Vec<u8> = w.m.system.written.iter().fold(vec![], |mut all, (at, b)| {
        if *at >= PERSONALITY_HEAP {
            let at = (*at - PERSONALITY_HEAP) as usize;
            all.resize(all.len().max(at + b.len()), 0);
            all[at..at + b.len()].copy_from_slice(b);
        }
        all
    });
    let word = |n: usize| u64::from_le_bytes(block[8 * n..8 * n + 8].try_into().unwrap());
    assert_eq!([word(0), word(1), word(2), word(5)], [pid, 1, 0, 4]);
    assert_eq!([word(6), word(7)], [stack, 144 * 1024]);
    assert_eq!(&block[64..], b"told");
    assert!(w.m.system.accounts.contains(&(new.id, 5)));
    assert_eq!(w.m.processes[w.slot(pid)].threads.len(), 1);
    assert_eq!(&w.m.processes[w.slot(pid)].comm[..3], b"su\0");
}

#[test]
fn what_is_told_comes_whole_however_long() {
    for length in [0, 1, 16 * 1024, 16 * 1024 + 1, 100_000] {
        let mut w = World::new();
        let pid = user(&mut w);
        exec_fresh(&mut w, pid, &[]);
        begin(&mut w, pid);
        let told: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        w.m.system.written.clear();
        let part = [&b"/su"[..], &told].concat();
        w.call_with(pid, &part, &[EXEC_FRESH, 3]).token();
        let mut next = PERSONALITY_HEAP;
        let mut block = vec![];
        for (at, bytes) in &w.m.system.written {
            assert_eq!(*at, next);
            next += bytes.len() as u64;
            block.extend_from_slice(bytes);
        }
        assert_eq!(&block[64..], told, "{length}");
        // The first stack lies behind it.
        let domain = w.domain(pid);
        let stack = w.m.system.of(domain).start.rsp - PERSONALITY_HEAP;
        let room = (block.len() as u64 + 32 * 1024).next_multiple_of(4096);
        assert_eq!(stack, room.max(64 * 1024));
        check(&w);
    }
}

#[test]
fn it_begins_with_the_limits_that_it_keeps_to() {
    let mut w = World::new();
    let pid = user(&mut w);
    for (resource, limit) in [(7u64, 77u64), (1, 1 << 20)] {
        let part: Vec<u8> = [limit, limit]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        let set = w.call_with(pid, &part, &[PRLIMIT, resource, 0, 1]);
        assert_eq!(set.result(), 0);
    }
    exec_fresh(&mut w, pid, &[]);
    w.room = Credentials::BYTES;
    let begun = w.call(pid, &[BEGIN]).words();
    assert_eq!(begun[4..6], [77, 1 << 20]);
}

#[test]
fn vm_is_told_of_limits_when_it_is_known_whose_program_it_is() {
    let mut w = World::new();
    let pid = user(&mut w);
    let told = |w: &World| w.m.system.space_limits.len();
    // The usual ones, as the domain has them that it is a copy of; nothing of the privilege that comes before the program begins.
    exec_fresh(&mut w, pid, &[]);
    let before = told(&w);
    begin(&mut w, pid);
    assert_eq!(told(&w), before);
    exec_fresh(&mut w, pid, &[]);
    assert_eq!(tell(&mut w, pid, SETUID, 0, 0), 0);
    assert_eq!(told(&w), before);
    begin(&mut w, pid);
    assert_eq!(told(&w), before + 1);
    assert_eq!(w.m.system.space_limits.last().unwrap().lock, u64::MAX);
    // Limits of its own, set while nothing of the program runs.
    exec_fresh(&mut w, pid, &[]);
    let before = told(&w);
    let part: Vec<u8> = [1u64 << 30, 1 << 30]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    assert_eq!(w.call_with(pid, &part, &[PRLIMIT, 9, 0, 1]).result(), 0);
    assert_eq!(told(&w), before);
    begin(&mut w, pid);
    assert_eq!(told(&w), before + 1);
    assert_eq!(w.m.system.space_limits.last().unwrap().pages, 1 << 18);
    check(&w);
}

#[test]
fn the_files_manager_tells_the_ids_and_nobody_else() {
    let mut w = World::new();
    let pid = user(&mut w);
    // Before, and in another domain, they are nobody's to tell.
    assert_eq!(tell(&mut w, pid, SETUID, 0, 0), -ESRCH);
    exec_fresh(&mut w, pid, &[0, 0]);
    let domain = u64::from(w.domain(pid).id);
    let words = [SET_ID, domain, SETUID, 0, 0];
    assert_eq!(w.component(role::GROUPS, b"", &words).result(), -EPERM);
    assert_eq!(w.call(pid, &words).result(), -EPERM);
    assert_eq!(w.m.processes[w.slot(pid)].creds.euid, 5);
    assert_eq!(tell(&mut w, pid, SETUID, 0, 7), 0);
    assert_eq!(tell(&mut w, pid, SETUID, 9, 7), -ESRCH);
    let creds = begin(&mut w, pid);
    assert_eq!([creds.ruid, creds.euid, creds.suid], [5, 0, 0]);
    assert_eq!([creds.rgid, creds.egid, creds.sgid], [0, 0, 0]);
    assert!(creds.has(CAP_KILL));
    let domain = w.domain(pid);
    assert!(w.m.system.of(domain).slots.contains(&linux_slot::LOG));
    assert_eq!(tell(&mut w, pid, SETUID, 9, 7), -ESRCH);
    // Not to be looked into by the user, who may send it signals all the same.
    let other = user(&mut w);
    let by = u64::from(w.domain(other).id);
    let looked = w.component(role::INSPECT, b"", &[PTRACE_ACCESS, by, pid]);
    assert_eq!(looked.result(), -EACCES);
    assert_eq!(w.call(pid, &[PRCTL, 3]).result(), 0);
    assert_eq!(w.kill(other, pid as i64, 0), 0);
    check(&w);
}

#[test]
fn who_is_not_told_of_has_what_it_had() {
    let mut w = World::new();
    let pid = user(&mut w);
    exec_fresh(&mut w, pid, &[]);
    let creds = begin(&mut w, pid);
    assert_eq!([creds.ruid, creds.euid, creds.suid], [5, 5, 5]);
    assert_eq!(creds.permitted, 0);
    assert_eq!(tell(&mut w, pid, SETUID, 0, 0), -ESRCH);
    assert_eq!(w.call(pid, &[PRCTL, 3]).result(), 1);
}

#[test]
fn groups_and_bits_that_mean_nothing() {
    for (mode, ids) in [
        (SETGID, [5, 7]),
        (0o102745, [5, 0]),
        (0o106755, [9, 7]),
        (0o100755, [5, 0]),
    ] {
        let mut w = World::new();
        let pid = user(&mut w);
        exec_fresh(&mut w, pid, &[]);
        assert_eq!(tell(&mut w, pid, mode, 9, 7), 0);
        let creds = begin(&mut w, pid);
        assert_eq!([creds.euid, creds.egid], ids, "{mode:o}");
        assert_eq!([creds.suid, creds.sgid], ids);
        assert_eq!([creds.ruid, creds.rgid], [5, 0]);
        assert_eq!(creds.permitted, 0);
    }
}

#[test]
fn no_new_privileges_means_none() {
    let mut w = World::new();
    let pid = user(&mut w);
    assert_eq!(w.call(pid, &[PRCTL, 38, 1]).result(), 0);
    exec_fresh(&mut w, pid, &[]);
    assert_eq!(tell(&mut w, pid, SETUID, 0, 0), 0);
    assert_eq!(begin(&mut w, pid).euid, 5);
}

#[test]
fn what_the_caller_arranged_is_gone_or_stays_as_on_linux() {
    let mut w = World::new();
    let pid = user(&mut w);
    assert_eq!(w.call(pid, &[PRCTL, 1, 15]).result(), 0);
    assert_eq!(w.call(pid, &[SETITIMER, 0, 1000, 0]).result(), 0);
    exec_fresh(&mut w, pid, &[]);
    // Nobody is poked before it can be, and nothing is forgotten.
    let domain = w.domain(pid);
    let sender = user(&mut w);
    assert_eq!(w.kill(sender, pid as i64, 15), 0);
    assert_eq!(w.m.system.of(domain).pokes, 0);
    assert_eq!(tell(&mut w, pid, SETUID, 0, 0), 0);
    begin(&mut w, pid);
    assert_eq!(w.take(pid), 15);
    assert_eq!(w.call(pid, &[PRCTL, 2]).words()[1], 0);
    assert_ne!(w.call(pid, &[GETITIMER, 0]).words()[1], 0);
    assert_eq!(w.kill(sender, pid as i64, 10), 0);
    assert_eq!(w.m.system.of(domain).pokes, 1);
    check(&w);
}

#[test]
fn a_vfork_parent_goes_on_and_a_failure_changes_nothing() {
    let mut w = World::new();
    let token = w.call(1, &[FORK, 1, 2, 0, 0, fork::VFORK, 17]).token();
    let child = w.m.numbers.last() as u64;
    for successes in 0..8 {
        w.m.system.successes = Some(successes);
        let words = [EXEC_FRESH, 1];
        assert_eq!(w.call_with(child, b"x", &words).result(), -ENOMEM);
        check(&w);
    }
    w.m.system.successes = None;
    for (words, why) in [
        ([EXEC_FRESH, 5000, 0, 0, 0], ENAMETOOLONG),
        ([EXEC_FRESH, 1, 0, 0, 8], EINVAL),
        ([EXEC_FRESH, 1, 0, 0, u64::MAX], EINVAL),
    ] {
        assert_eq!(w.call_with(child, b"x", &words).result(), -why);
    }
    assert_eq!(w.reply(token), None);
    exec_fresh(&mut w, child, &[]);
    assert_eq!(w.reply(token).unwrap()[0], child);
    w.exit(child, 3);
    check(&w);
}

#[test]
fn memory_may_be_taken_from_the_domain_that_is_copied() {
    let mut w = World::new();
    let pid = user(&mut w);
    exec_fresh(&mut w, pid, &[]);
    let id = w.m.pristine.unwrap().id;
    assert!(w.m.drop_pristine(id));
    assert!(!w.m.system.domains.contains_key(&id));
    begin(&mut w, pid);
    exec_fresh(&mut w, pid, &[]);
    assert!(w.m.pristine.is_some());
}

#[test]
fn a_root_directory_is_told_by_who_may_and_inherited() {
    let mut w = World::new();
    let pid = w.fork(1);
    let set_root = |w: &mut World, pid: u64, portals: usize| {
        let (domain, thread) = (w.domain(pid).id, w.m.processes[w.slot(pid)].threads[0].id);
        let words = [SET_ROOT, 0, 0, 0, 0, 0, 0, 99];
        w.message(domain, thread, BADGE_CLIENT, 0, b"/jail", &words, portals)
            .result()
    };
    assert_eq!(set_root(&mut w, pid, 0), -EINVAL);
    assert_eq!(set_root(&mut w, pid, 1), 0);
    let child = w.fork(pid);
    assert_eq!(w.set_ids(child, [5, 5, 5]), 0);
    assert_eq!(set_root(&mut w, child, 1), -EPERM);
    for successes in 0..4 {
        w.m.system.successes = Some(successes);
        assert_eq!(w.call(child, &[FORK, 1, 2]).result(), -ENOMEM);
    }
    w.m.system.successes = None;
    w.m.system.written.clear();
    exec_fresh(&mut w, child, &[]);
    let head = &w.m.system.written;
    let (_, head) = head.iter().find(|(at, _)| *at == PERSONALITY_HEAP).unwrap();
    assert_eq!(&head[64..], b"/jailtold");
    assert_eq!(head[16..24], 5u64.to_le_bytes());
    assert_eq!(head[24..32], 1u64.to_le_bytes());
    assert_eq!(head[40..48], 9u64.to_le_bytes());
    let domain = w.domain(child);
    let slots = &w.m.system.of(domain).slots;
    assert!(slots.contains(&linux_slot::ROOT) && !slots.contains(&linux_slot::MOUNTS));
    // The handle goes with the last process that has it.
    w.m.system.closed.clear();
    w.exit(child, 0);
    assert_eq!(w.m.system.kept, 1);
    w.exit(pid, 0);
    assert_eq!(w.m.system.kept, 0);
    assert_eq!(w.m.system.closed, [cairn_rt::Portal(99)]);
}

#[test]
fn a_file_with_capabilities_gives_them_within_the_bounds() {
    let mut w = World::new();
    let tell = |w: &mut World, pid, permitted, flags| {
        let domain = u64::from(w.domain(pid).id);
        let words = [SET_ID, domain, 0o100755, 0, 0, flags, permitted, 0];
        w.component(role::SET_ID, b"", &words).result()
    };
    let kill = 1 << CAP_KILL;
    let pid = user(&mut w);
    exec_fresh(&mut w, pid, &[]);
    assert_eq!(tell(&mut w, pid, kill, 4), -EINVAL);
    assert_eq!(tell(&mut w, pid, kill, file::CAPABLE | file::EFFECTIVE), 0);
    w.room = Credentials::BYTES;
    let begun = w.call(pid, &[BEGIN]).words();
    assert_eq!(begun[..2], [0, 1]);
    let creds = w.m.processes[w.slot(pid)].creds;
    assert_eq!(
        (creds.euid, creds.permitted, creds.effective),
        (5, kill, kill)
    );
    // Nobody looks into it.
    assert_eq!(w.call(pid, &[PRCTL, 3]).result(), 0);
    // What it may no longer have it does not get, and the next program has nothing of it.
    let other = w.fork(1);
    let drop = [
        PRCTL,
        cairn_idl::capability::option::CAPBSET_DROP,
        CAP_KILL.into(),
    ];
    assert_eq!(w.call(other, &drop).result(), 0);
    assert_eq!(w.set_ids(other, [5, 5, 5]), 0);
    exec_fresh(&mut w, other, &[]);
    assert_eq!(
        tell(&mut w, other, kill, file::CAPABLE | file::EFFECTIVE),
        -EPERM
    );
    assert_eq!(tell(&mut w, other, kill, file::CAPABLE), -ESRCH);
    assert_eq!(begin(&mut w, other).permitted, 0);
    exec_fresh(&mut w, pid, &[]);
    assert_eq!(begin(&mut w, pid).permitted, 0);
    check(&w);
}
