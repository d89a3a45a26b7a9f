//! Name spaces: who may leave them, what is named in one, and who is told which a process is in.

use super::invariants::check;
use crate::fake::World;
use crate::user_spaces::{Counted, ALL_MOST};
use cairn_idl::errno::*;
use cairn_idl::fs::{Prefix, PrefixTable, PREFIX_SERIAL_SHIFT, SPACE_MOUNTS_MOST};
use cairn_idl::mounts::mount::READ_ONLY;
use cairn_idl::proc::*;
use cairn_rt::Portal;

const NEW_MOUNTS: u64 = 0x2_0000;
const NEW_HOST: u64 = 0x400_0000;

fn add(w: &mut World, pid: u64, name: &[u8], flags: u64) -> i64 {
    let number = w.call(pid, &[SPACE_MOUNT]).result();
    if number < 0 {
        return number;
    }
    let words = [SPACE_MOUNT, name.len() as u64, 5, flags, number as u64];
    w.call_with(pid, &[name, b"tmpfs"].concat(), &words)
        .result()
}

fn set_root(w: &mut World, pid: u64, number: u64, old: &[u8], portal: u64) -> i64 {
    let (domain, thread) = (w.domain(pid).id, w.m.processes[w.slot(pid)].threads[0].id);
    let words = [SPACE_ROOT, number, 0, 0, 0, 0, 0, portal];
    w.message(domain, thread, BADGE_CLIENT, 0, old, &words, 1)
        .result()
}

/// Number, name and flags of each mount that a process is told of.
fn names(w: &mut World, pid: u64) -> Vec<(u32, String, u32)> {
    w.room = 32 * 1024;
    let length = w.call(pid, &[SPACE_MOUNTS]).result() as usize;
    let bytes = w.m.system.input[..length].to_vec();
    let entries = bytes.get(size_of::<PrefixTable>()..).unwrap_or(&[]);
    let entry = |bytes: &[u8]| {
        let entry = Prefix::from_bytes(bytes.try_into().unwrap());
        let name = entry.name[..entry.len as usize].to_vec();
        let flags = entry.used & ((1 << PREFIX_SERIAL_SHIFT) - 2);
        let name = String::from_utf8(name).unwrap();
        (entry.used >> PREFIX_SERIAL_SHIFT, name, flags)
    };
    entries
        .chunks_exact(size_of::<Prefix>())
        .map(entry)
        .collect()
}

fn space_of(w: &mut World, pid: u64) -> (u64, u64) {
    let domain = u64::from(w.domain(pid).id);
    let words = w.component(role::GROUPS, b"", &[SPACE_OF, domain]).words();
    (words[1], words[2])
}

#[test]
fn who_leaves_has_names_of_its_own_and_children_have_them_too() {
    let mut w = World::new();
    let a = w.fork(1);
    assert_eq!(space_of(&mut w, a), (0, 1));
    assert_eq!(w.call(a, &[SPACE_MOUNT]).result(), -EINVAL);
    assert_eq!(w.call(a, &[UNSHARE, 1]).result(), -EINVAL);
    assert_eq!(w.call(a, &[UNSHARE, NEW_MOUNTS]).result(), 0);
    let (space, _) = space_of(&mut w, a);
    assert!(space != 0 && space_of(&mut w, 1) == (0, 1));
    assert_eq!(w.call(a, &[SPACE_ROOT_HANDLE]).result(), -EINVAL);
    for (name, number) in [
        (&b"/"[..], 1),
        (b"/new", 2),
        (b"/new/usr", 3),
        (b"/proc", 4),
    ] {
        assert_eq!(add(&mut w, a, name, 0), number);
    }
    assert_eq!(set_root(&mut w, a, 1, b"", 90), 0);
    let child = w.fork(a);
    assert_eq!(names(&mut w, child).len(), 4);
    // A name that is given again, flags, and numbers that nobody was given.
    assert_eq!(add(&mut w, a, b"/proc", 0), 5);
    let words = [SPACE_MOUNT, 0, 0, READ_ONLY, 5];
    assert_eq!(w.call(child, &words).result(), 5);
    assert_eq!(
        w.call_with(a, b"/x", &[SPACE_MOUNT, 2, 0, 0, 9]).result(),
        -EINVAL
    );
    // The root is another one: the old one's names lie below.
    assert_eq!(set_root(&mut w, child, 2, b"/old", 91), 0);
    let mut seen = names(&mut w, a);
    seen.sort();
    let expected = [
        (1, "/old", 0),
        (2, "", 0),
        (3, "/usr", 0),
        (4, "/old/proc", 0),
        (5, "/old/proc", 2),
    ];
    let expected = expected.map(|(n, name, flags)| (n, name.to_string(), flags));
    assert_eq!(seen, expected);
    assert_eq!(w.call(a, &[SPACE_UNMOUNT, 2]).result(), -EINVAL);
    assert_eq!(w.call(a, &[SPACE_UNMOUNT, 1]).result(), 0);
    assert_eq!(names(&mut w, a).len(), 2);
    // Who has no privilege sees it and changes nothing.
    assert_eq!(w.set_ids(child, [5, 5, 5]), 0);
    assert_eq!(space_of(&mut w, child), (space, 0));
    for words in [
        [UNSHARE, NEW_MOUNTS],
        [UNSHARE, NEW_HOST],
        [SPACE_MOUNT, 0],
        [SPACE_UNMOUNT, 3],
    ] {
        assert_eq!(w.call(child, &words).result(), -EPERM);
    }
    assert_eq!(set_root(&mut w, child, 3, b"", 92), -EPERM);
    assert_eq!(names(&mut w, child).len(), 2);
    assert_eq!(names(&mut w, 1).len(), 0);
    // Errors keep nothing, and the root's handle goes with the last process.
    assert_eq!(set_root(&mut w, a, 77, b"", 93), -EINVAL);
    assert_eq!(w.m.system.kept, 1);
    w.exit(a, 0);
    assert!(!w.m.system.closed.contains(&Portal(91)));
    w.exit(child, 0);
    assert_eq!((w.m.system.kept, w.m.counts.all()), (0, 0));
    assert!(w.m.system.closed.contains(&Portal(91)));
    check(&w);
}

#[test]
fn there_are_so_many_name_spaces() {
    let mut w = World::new();
    let a = w.fork(1);
    // One that is left is no more.
    for _ in 0..2000 {
        assert_eq!(w.call(a, &[UNSHARE, NEW_MOUNTS]).result(), 0);
    }
    assert_eq!(w.m.counts.all(), 1);
    let others: Vec<_> = (1..ALL_MOST)
        .map(|_| Counted::new(&w.m.counts, 0).unwrap())
        .collect();
    assert_eq!(w.call(a, &[UNSHARE, NEW_MOUNTS]).result(), -ENOSPC);
    drop(others);
    for count in 0..SPACE_MOUNTS_MOST {
        assert!(add(&mut w, a, format!("/{count}").as_bytes(), 0) > 0);
    }
    assert_eq!(add(&mut w, a, b"/more", 0), -ENOSPC);
    // All of a user's together have so many names; what goes makes room.
    let user = w.fork(1);
    become_user(&mut w, user, 1000);
    let mut all = vec![user];
    for _ in 0..4 {
        let child = w.fork(user);
        assert_eq!(w.call(child, &[UNSHARE, NEW_USER | NEW_MOUNTS]).result(), 0);
        for count in 0..SPACE_MOUNTS_MOST {
            assert!(add(&mut w, child, format!("/{count}").as_bytes(), 0) > 0);
        }
        all.push(child);
    }
    let last = w.fork(user);
    assert_eq!(w.call(last, &[UNSHARE, NEW_USER | NEW_MOUNTS]).result(), 0);
    assert_eq!(add(&mut w, last, b"/", 0), -ENOSPC);
    w.exit(all[1], 0);
    assert!(add(&mut w, last, b"/", 0) > 0);
}

#[test]
fn a_host_name_is_its_name_spaces() {
    let mut w = World::new();
    let a = w.fork(1);
    let name = |w: &mut World, pid: u64| {
        w.room = 64;
        let length = w.call(pid, &[HOSTNAME]).result() as usize;
        w.m.system.input[..length].to_vec()
    };
    assert_eq!(w.call(a, &[UNSHARE, NEW_HOST]).result(), 0);
    assert_eq!(name(&mut w, a), b"cairn");
    assert_eq!(w.call_with(a, b"inside", &[SETHOSTNAME]).result(), 0);
    let child = w.fork(a);
    assert_eq!(name(&mut w, child), b"inside");
    assert_eq!(name(&mut w, 1), b"cairn");
    assert_eq!(w.call(child, &[UNSHARE, NEW_HOST]).result(), 0);
    assert_eq!(w.call_with(child, b"deeper", &[SETHOSTNAME]).result(), 0);
    assert_eq!(name(&mut w, a), b"inside");
}

#[test]
fn a_domain_name_is_beside_the_host_name() {
    let mut w = World::new();
    let (a, user) = (w.fork(1), w.fork(1));
    become_user(&mut w, user, 1000);
    let name = |w: &mut World, pid: u64, which: u64| {
        w.room = 64;
        let length = w.call(pid, &[HOSTNAME, which]).result() as usize;
        w.m.system.input[..length].to_vec()
    };
    assert_eq!(name(&mut w, a, 1), b"(none)");
    assert_eq!(w.call_with(1, b"hill", &[SETHOSTNAME, 1]).result(), 0);
    let refused = w.call_with(user, b"mine", &[SETHOSTNAME, 1]);
    assert_eq!(refused.result(), -EPERM);
    assert_eq!(w.call_with(1, b"x", &[SETHOSTNAME, 2]).result(), -EINVAL);
    assert_eq!(w.call(a, &[HOSTNAME, 2]).result(), -EINVAL);
    assert_eq!(w.call(a, &[UNSHARE, NEW_HOST]).result(), 0);
    assert_eq!(name(&mut w, a, 1), b"hill");
    // A file of /proc is written for who has it open, in his name space.
    let domain = w.domain(a).id.into();
    let written = w.component(role::HOSTNAME, b"dale", &[SETHOSTNAME, 1, domain]);
    assert_eq!(written.result(), 0);
    assert_eq!(name(&mut w, a, 1), b"dale");
    assert_eq!(name(&mut w, 1, 1), b"hill");
    assert_eq!(name(&mut w, 1, 0), b"cairn");
    w.room = 64;
    let told = w.component(role::INSPECT, b"", &[HOSTNAME_OF, domain, 1]);
    assert_eq!(told.result(), 4);
    assert_eq!(w.m.system.input[..4], *b"dale");
}

const NEW_USER: u64 = 0x1000_0000;

fn become_user(w: &mut World, pid: u64, user: u32) {
    let mut creds = Credentials {
        ruid: user,
        euid: user,
        suid: user,
        rgid: user,
        egid: user,
        sgid: user,
        ..Credentials::default()
    };
    creds.group_count = 0;
    assert_eq!(w.call_with(pid, &creds.to_bytes(), &[SETCREDS]).result(), 0);
}

fn set_ids(w: &mut World, pid: u64, user: u32, group: u32) -> i64 {
    let slot = w.slot(pid);
    let now = w.m.processes[slot].creds;
    let creds = Credentials {
        ruid: user,
        euid: user,
        suid: user,
        rgid: group,
        egid: group,
        sgid: group,
        ..now
    };
    w.call_with(pid, &creds.to_bytes(), &[SETCREDS]).result()
}

fn set_map(w: &mut World, by: u64, of: u64, which: SpaceMap, text: &str) -> i64 {
    let domain = u64::from(w.domain(by).id);
    w.component(
        role::SPACES,
        text.as_bytes(),
        &[MAP_WRITE, domain, of, which.word()],
    )
    .result()
}

fn map(w: &mut World, by: u64, of: u64, which: SpaceMap) -> String {
    w.room = 4096;
    let domain = u64::from(w.domain(by).id);
    let length = w
        .component(role::SPACES, b"", &[MAP_READ, domain, of, which.word()])
        .result();
    String::from_utf8(w.m.system.input[..length as usize].to_vec()).unwrap()
}

fn set_login(w: &mut World, by: u64, of: u64, user: u32) -> i64 {
    let domain = u64::from(w.domain(by).id);
    w.component(role::SPACES, b"", &[SET_LOGIN, domain, of, user.into()])
        .result()
}

/// User and session of a process, as another one sees them.
fn login(w: &mut World, pid: u64, reader: u64) -> (u32, u32) {
    w.room = 4096;
    let reader = u64::from(w.domain(reader).id);
    w.component(role::INSPECT, b"", &[STATUS, pid, reader]);
    let status = Status::from_bytes(w.m.system.input.first_chunk().unwrap());
    (status.login_user, status.login_session)
}

#[test]
fn a_login_is_its_processes_and_inherited() {
    let mut w = World::new();
    let a = w.fork(1);
    let b = w.fork(1);
    assert_eq!(login(&mut w, a, 1), (u32::MAX, u32::MAX));
    assert_eq!(set_login(&mut w, b, a, 5), -EPERM);
    assert_eq!(set_login(&mut w, a, a, 1000), 0);
    assert_eq!(set_login(&mut w, b, b, 0), 0);
    assert_eq!(login(&mut w, a, 1), (1000, 1));
    assert_eq!(login(&mut w, b, 1), (0, 2));
    let child = w.fork(a);
    become_user(&mut w, child, 7);
    assert_eq!(login(&mut w, child, 1), (1000, 1));
    // Once it is said only the privilege changes it.
    assert_eq!(set_login(&mut w, child, child, 7), -EPERM);
    assert_eq!(set_login(&mut w, a, a, u32::MAX), 0);
    assert_eq!(login(&mut w, a, 1), (u32::MAX, u32::MAX));
    // In a user name space users have other names, or none.
    let host = w.fork(1);
    become_user(&mut w, host, 1000);
    assert_eq!(w.call(host, &[UNSHARE, NEW_USER]).result(), 0);
    assert_eq!(set_login(&mut w, host, host, 0), -EINVAL);
    assert_eq!(set_map(&mut w, host, host, SpaceMap::Users, "0 1000 1"), 0);
    assert_eq!(set_login(&mut w, host, host, 1), -EINVAL);
    assert_eq!(set_login(&mut w, host, host, 0), 0);
    assert_eq!(login(&mut w, host, 1), (1000, 3));
    assert_eq!(login(&mut w, host, host), (0, 3));
    assert_eq!(login(&mut w, b, host), (u32::MAX, 2));
    assert_eq!(set_login(&mut w, host, host, 0), -EPERM);
}

fn set_oom(w: &mut World, by: u64, of: u64, adjust: i64, old: bool) -> i64 {
    let domain = u64::from(w.domain(by).id);
    let words = [SET_OOM, domain, of, adjust as u64, old.into()];
    w.component(role::SPACES, b"", &words).result()
}

fn oom_adjust(w: &mut World, pid: u64) -> i32 {
    w.room = 4096;
    w.component(role::INSPECT, b"", &[STATUS, pid, 0]);
    Status::from_bytes(w.m.system.input.first_chunk().unwrap()).oom_adjust
}

fn status_of(w: &mut World, pid: u64) -> Status {
    w.room = 4096;
    w.component(role::INSPECT, b"", &[STATUS, pid, 0]);
    Status::from_bytes(w.m.system.input.first_chunk().unwrap())
}

#[test]
fn which_memory_a_core_file_has_is_inherited() {
    let mut w = World::new();
    let a = w.fork(1);
    let set = |w: &mut World, pid: u64, filter: u64| {
        let domain = u64::from(w.domain(a).id);
        let words = [SET_CORE_FILTER, domain, pid, filter];
        w.component(role::SPACES, b"", &words).result()
    };
    assert_eq!(status_of(&mut w, a).core_filter, CORE_FILTER);
    assert_eq!(set(&mut w, a, 0xffff_ffff), 0);
    assert_eq!(status_of(&mut w, a).core_filter, CORE_FILTER_ALL);
    assert_eq!(set(&mut w, a, 5), 0);
    let child = w.fork(a);
    assert_eq!(w.call_with(child, b"/su", &[EXEC, 3]).result(), 0);
    assert_eq!(status_of(&mut w, child).core_filter, 5);
    assert_eq!(set(&mut w, child, 6), 0);
    assert_eq!(status_of(&mut w, a).core_filter, 5);
    w.room = 4096;
    assert_eq!(w.call(child, &[CORE]).words()[..2], [0, 6]);
    w.exit(child, 0);
    assert_eq!(set(&mut w, child, 1), -ESRCH);
    assert_eq!(set(&mut w, 9999, 1), -ESRCH);
}

#[test]
fn who_ends_for_memory_is_said_by_who_may() {
    let mut w = World::new();
    let a = w.fork(1);
    assert_eq!(set_oom(&mut w, a, a, 1001, false), -EINVAL);
    assert_eq!(set_oom(&mut w, a, a, -1001, false), -EINVAL);
    assert_eq!(set_oom(&mut w, a, 99, 5, false), -ESRCH);
    assert_eq!(set_oom(&mut w, a, a, -200, false), 0);
    let domain = w.domain(a).id;
    assert_eq!(w.m.system.oom_adjusted, [(domain, -200)]);
    // Children have it, and how low it may become.
    let child = w.fork(a);
    become_user(&mut w, child, 7);
    assert_eq!(oom_adjust(&mut w, child), -200);
    assert_eq!(set_oom(&mut w, child, child, 300, false), 0);
    assert_eq!(set_oom(&mut w, child, child, -100, true), -EACCES);
    assert_eq!(set_oom(&mut w, child, child, -201, false), -EACCES);
    assert_eq!(set_oom(&mut w, child, child, -200, false), 0);
    assert_eq!(
        (oom_adjust(&mut w, child), oom_adjust(&mut w, a)),
        (-200, -200)
    );
    // The old scale does not say how low.
    assert_eq!(set_oom(&mut w, a, child, -1000, true), 0);
    assert_eq!(set_oom(&mut w, child, child, 0, false), 0);
    assert_eq!(set_oom(&mut w, child, child, -300, false), -EACCES);
    // A zombie has no memory.
    w.exit(child, 0);
    let told = w.m.system.oom_adjusted.len();
    assert_eq!(set_oom(&mut w, a, child, 5, false), 0);
    assert_eq!(w.m.system.oom_adjusted.len(), told);
}

fn label(w: &mut World, pid: u64) -> u64 {
    let domain = w.domain(pid);
    w.m.system.of(domain).label
}

#[test]
fn who_makes_a_user_name_space_has_power_there_and_nowhere_else() {
    let mut w = World::new();
    let a = w.fork(1);
    let host = w.fork(1);
    become_user(&mut w, a, 1000);
    become_user(&mut w, host, 1000);
    assert_eq!(w.call(a, &[UNSHARE, NEW_HOST]).result(), -EPERM);
    assert_eq!(
        w.call(a, &[UNSHARE, NEW_USER | NEW_HOST | NEW_MOUNTS])
            .result(),
        0
    );
    // Servers know the user without privilege.
    assert_eq!(label(&mut w, a), cairn_idl::label::make(1000, 1000));
    let (space, may) = space_of(&mut w, a);
    assert!(space != 0 && may == 1);
    assert_eq!(w.call_with(a, b"inside", &[SETHOSTNAME]).result(), 0);
    assert_eq!(w.call(a, &[POWER, 0]).result(), -EPERM);
    // Another user's process outside is not his to look into, nor its own user's.
    let domain = u64::from(w.domain(a).id);
    let look = |w: &mut World, pid| {
        w.component(role::INSPECT, b"", &[PTRACE_ACCESS, domain, pid])
            .result()
    };
    assert_eq!(look(&mut w, host), -EACCES);
    assert_eq!(look(&mut w, 1), -EACCES);
    assert_eq!(w.call(a, &[KILL, 1, 9]).result(), -EPERM);
    assert_eq!(
        w.call(a, &[SETPRIORITY, 0, 0, -5i64 as u64]).result(),
        -EACCES
    );
    // Who is in the first UTS name space by way of another user name space changes nothing of it.
    let b = w.fork(1);
    become_user(&mut w, b, 1000);
    assert_eq!(w.call(b, &[UNSHARE, NEW_USER]).result(), 0);
    assert_eq!(w.call_with(b, b"outside", &[SETHOSTNAME]).result(), -EPERM);
    assert_eq!(space_of(&mut w, b), (0, 0));
    check(&w);
}

#[test]
fn maps_say_who_one_can_become() {
    let mut w = World::new();
    let a = w.fork(1);
    become_user(&mut w, a, 1000);
    assert_eq!(
        map(&mut w, 1, a, SpaceMap::Users),
        "         0          0 4294967295\n"
    );
    assert_eq!(set_map(&mut w, 1, a, SpaceMap::Users, "0 0 1"), -EPERM);
    assert_eq!(w.call(a, &[UNSHARE, NEW_USER]).result(), 0);
    assert_eq!(set_ids(&mut w, a, 0, 1000), -EPERM);
    assert_eq!(set_map(&mut w, a, a, SpaceMap::Users, "0 0 1"), -EPERM);
    assert_eq!(set_map(&mut w, a, a, SpaceMap::Users, "0 1000 2"), -EPERM);
    assert_eq!(set_map(&mut w, a, a, SpaceMap::Users, "0 1000"), -EINVAL);
    let stranger = w.fork(1);
    become_user(&mut w, stranger, 1001);
    assert_eq!(
        set_map(&mut w, stranger, a, SpaceMap::Users, "0 1000 1"),
        -EPERM
    );
    assert_eq!(set_map(&mut w, a, a, SpaceMap::Users, "+0 1000 1"), -EINVAL);
    assert_eq!(set_map(&mut w, a, a, SpaceMap::Users, "0 1000 1\n\0x"), 0);
    assert_eq!(set_map(&mut w, a, a, SpaceMap::Users, "0 1000 1\n"), -EPERM);
    assert_eq!(set_map(&mut w, a, a, SpaceMap::Groups, "0 1000 1"), -EPERM);
    for text in ["deny\n", "deny\0", "deny\n\0"] {
        assert_eq!(set_map(&mut w, a, a, SpaceMap::Setgroups, text), 0);
    }
    assert_eq!(
        set_map(&mut w, a, a, SpaceMap::Setgroups, "deny    "),
        -EINVAL
    );
    assert_eq!(set_map(&mut w, a, a, SpaceMap::Groups, "0 1000 1"), 0);
    assert_eq!(set_map(&mut w, a, a, SpaceMap::Setgroups, "allow"), -EPERM);
    assert_eq!(
        map(&mut w, a, a, SpaceMap::Users),
        "         0       1000          1\n"
    );
    assert_eq!(map(&mut w, a, a, SpaceMap::Setgroups), "deny\n");
    // Still nobody else: neither outside's root nor whom the map does not have.
    assert_eq!(set_ids(&mut w, a, 0, 1000), -EPERM);
    assert_eq!(set_ids(&mut w, a, 1001, 1000), -EPERM);
    assert_eq!(set_ids(&mut w, a, 1000, 1000), 0);
    let slot = w.slot(a);
    let mut groups = w.m.processes[slot].creds;
    (groups.group_count, groups.groups[0]) = (1, 1000);
    assert_eq!(
        w.call_with(a, &groups.to_bytes(), &[SETCREDS]).result(),
        -EPERM
    );
    // One in it: its map is of this one's ids, and cannot have more.
    let b = w.fork(a);
    assert_eq!(w.call(b, &[UNSHARE, NEW_USER]).result(), 0);
    assert_eq!(set_map(&mut w, b, b, SpaceMap::Users, "5 1000 1"), -EPERM);
    assert_eq!(set_map(&mut w, b, b, SpaceMap::Users, "5 0 1"), 0);
    assert_eq!(
        map(&mut w, b, b, SpaceMap::Users),
        "         5          0          1\n"
    );
    assert_eq!(
        map(&mut w, 1, b, SpaceMap::Users),
        "         5       1000          1\n"
    );
    // Root's children: any ids, by who has the capabilities above.
    let c = w.fork(1);
    assert_eq!(w.call(c, &[UNSHARE, NEW_USER]).result(), 0);
    assert_eq!(set_map(&mut w, c, c, SpaceMap::Users, "0 500 10"), -EPERM);
    assert_eq!(set_map(&mut w, 1, c, SpaceMap::Users, "0 500 10"), 0);
    assert_eq!(set_map(&mut w, 1, c, SpaceMap::Groups, "0 500 10"), 0);
    assert_eq!(set_ids(&mut w, c, 499, 500), -EPERM);
    assert_eq!(set_ids(&mut w, c, 501, 502), 0);
    assert_eq!(label(&mut w, c), cairn_idl::label::make(501, 502));
    check(&w);
}

#[test]
fn a_file_keeps_a_name_space_that_others_come_into() {
    let mut w = World::new();
    let (a, b, user) = (w.fork(1), w.fork(1), w.fork(1));
    become_user(&mut w, user, 1000);
    assert_eq!(w.call(a, &[UNSHARE, NEW_HOST]).result(), 0);
    assert_eq!(w.call_with(a, b"other", &[SETHOSTNAME]).result(), 0);
    let id = |w: &mut World, pid| {
        let kind = SpaceKind::Host.word();
        w.component(role::INSPECT, b"", &[SPACE_ID, pid, kind])
            .words()[1]
    };
    let (host, kind) = (id(&mut w, a), SpaceKind::Host.word());
    let spaces = |w: &mut World, words: &[u64]| w.component(role::SPACES, b"", words).result();
    let domains = [a, b, user].map(|pid| u64::from(w.domain(pid).id));
    assert_eq!(
        spaces(&mut w, &[SPACE_ENTER, domains[1], kind, host]),
        -EINVAL
    );
    assert_eq!(spaces(&mut w, &[SPACE_HOLD, b, kind, host]), -ESRCH);
    assert_eq!(spaces(&mut w, &[SPACE_HOLD, a, kind, host]), 0);
    w.call(a, &[EXIT, 0]);
    assert_eq!(w.m.counts.all(), 1);
    assert_eq!(
        spaces(&mut w, &[SPACE_ENTER, domains[2], kind, host]),
        -EPERM
    );
    assert_eq!(spaces(&mut w, &[SPACE_ENTER, domains[1], kind, host]), 0);
    assert_eq!(id(&mut w, b), host);
    assert_eq!(spaces(&mut w, &[SPACE_ENTER, domains[1], kind, 0]), 0);
    assert_eq!(spaces(&mut w, &[SPACE_DROP, kind, host]), 0);
    assert_eq!(spaces(&mut w, &[SPACE_DROP, kind, host]), -EINVAL);
    assert_eq!(w.m.counts.all(), 0);
    // A user name space ends with its last process, and what it made.
    assert_eq!(
        w.call(user, &[UNSHARE, NEW_USER | NEW_HOST | NEW_MOUNTS])
            .result(),
        0
    );
    assert_eq!(w.m.counts.all(), 3);
    w.call(user, &[EXIT, 0]);
    w.call(1, &[WAIT, 1, user, 4]);
    assert_eq!(w.m.counts.all(), 0);
    check(&w);
}

#[test]
fn what_a_name_space_belongs_to_is_told_and_held() {
    let mut w = World::new();
    let (a, b) = (w.fork(1), w.fork(1));
    become_user(&mut w, a, 1000);
    assert_eq!(w.call(a, &[UNSHARE, NEW_USER | NEW_HOST]).result(), 0);
    let id = |w: &mut World, kind: SpaceKind| {
        w.component(role::INSPECT, b"", &[SPACE_ID, a, kind.word()])
            .words()[1]
    };
    let (host, user) = (id(&mut w, SpaceKind::Host), id(&mut w, SpaceKind::User));
    let [first, own] = [b, a].map(|pid| u64::from(w.domain(pid).id));
    let related = |w: &mut World, by: u64, kind: SpaceKind, id: u64, which: Related| {
        let words = [SPACE_RELATED, by, kind.word(), id, which.word()];
        let words = w.component(role::SPACES, b"", &words).words();
        (words[0] as i64, words[1])
    };
    let (users, hosts) = (SpaceKind::User, SpaceKind::Host);
    // Only what is held is told of.
    assert_eq!(
        related(&mut w, first, hosts, host, Related::Owner).0,
        -EINVAL
    );
    let hold = [SPACE_HOLD, a, hosts.word(), host];
    assert_eq!(w.component(role::SPACES, b"", &hold).result(), 0);
    let words = [SPACE_RELATED, first, hosts.word(), host, 0];
    assert_eq!(w.component(role::INSPECT, b"", &words).result(), -EPERM);
    assert_eq!(
        related(&mut w, first, hosts, host, Related::Owner),
        (0, user)
    );
    assert_eq!(
        related(&mut w, first, hosts, host, Related::Parent).0,
        -EINVAL
    );
    assert_eq!(
        related(&mut w, first, hosts, host, Related::User).0,
        -EINVAL
    );
    // What it gave is held as well, and leads on, as far as one may look.
    w.call(a, &[EXIT, 0]);
    w.call(1, &[WAIT, 1, a, 4]);
    assert_eq!(related(&mut w, first, users, user, Related::Owner), (0, 0));
    assert_eq!(related(&mut w, first, users, user, Related::Parent), (0, 0));
    assert_eq!(
        related(&mut w, first, users, user, Related::User),
        (0, 1000)
    );
    assert_eq!(related(&mut w, first, users, 0, Related::User), (0, 0));
    assert_eq!(related(&mut w, first, users, 0, Related::Parent).0, -EPERM);
    assert_eq!(related(&mut w, first, hosts, 0, Related::Owner), (0, 0));
    assert_eq!(related(&mut w, own, hosts, host, Related::Owner).0, -ESRCH);
    let c = w.fork(1);
    assert_eq!(w.call(c, &[UNSHARE, NEW_USER]).result(), 0);
    let apart = u64::from(w.domain(c).id);
    assert_eq!(
        related(&mut w, apart, hosts, host, Related::Owner).0,
        -EPERM
    );
    assert_eq!(
        related(&mut w, apart, users, user, Related::User),
        (0, 65534)
    );
    assert_eq!(related(&mut w, apart, hosts, 0, Related::Owner).0, -EPERM);
    for id in [user, host] {
        let drop = [SPACE_DROP, users.word(), id];
        assert_eq!(w.component(role::SPACES, b"", &drop).result(), 0);
        assert_eq!(w.component(role::SPACES, b"", &drop).result(), -EINVAL);
    }
    check(&w);
}

const NEW_PIDS: u64 = 0x2000_0000;

/// A child with flags of FORK: its number outside.
fn fork_apart(w: &mut World, parent: u64, flags: u64) -> u64 {
    let before: Vec<u32> =
        w.m.processes
            .slots()
            .map(|slot| w.m.processes[slot].pid)
            .collect();
    assert!(w.call(parent, &[FORK, 0, 0, 0, 0, flags, 17]).result() >= 0);
    let new = w.m.processes.slots().map(|slot| w.m.processes[slot].pid);
    let new: Vec<u32> = new.filter(|pid| !before.contains(pid)).collect();
    new[0].into()
}

fn ids(w: &mut World, pid: u64, of: u64) -> Vec<u64> {
    w.call(pid, &[IDS, of]).words().to_vec()
}

#[test]
fn a_pid_name_space_has_numbers_of_its_own() {
    let mut w = World::new();
    let a = w.fork(1);
    let init = fork_apart(&mut w, a, NEW_PIDS);
    assert_eq!(ids(&mut w, init, 0)[..4], [1, 0, 0, 0]);
    assert_eq!(w.call(init, &[FORK, 0, 0, 0, 0, 0, 17]).result(), 2);
    let child = fork_apart(&mut w, init, 0);
    assert_eq!(ids(&mut w, child, 0)[..2], [3, 1]);
    assert_eq!(ids(&mut w, init, 3)[..2], [3, 1]);
    assert_eq!(ids(&mut w, a, child)[..2], [child, init]);
    // Nobody outside is there for it; it is there for those outside.
    assert_eq!(w.call(init, &[IDS, child]).result(), -ESRCH);
    assert_eq!(w.call(init, &[KILL, child, 0]).result(), -ESRCH);
    assert_eq!(w.call(child, &[SETSID]).result(), 3);
    assert_eq!(ids(&mut w, child, 0)[2..4], [3, 3]);
    let outside = |w: &mut World, pid, number, way| w.call(pid, &[NUMBER, number, way]).result();
    assert_eq!(outside(&mut w, init, 3, 1), child as i64);
    assert_eq!(outside(&mut w, init, child, 0), 3);
    assert_eq!(outside(&mut w, init, a, 0), 0);
    assert_eq!(outside(&mut w, init, 77, 1), -ESRCH);
    assert_eq!(outside(&mut w, a, child, 0), child as i64);
    // What it waits for it knows by its own numbers.
    w.exit(child, 0);
    assert_eq!(w.call(init, &[WAIT, 1, 3, 4]).result(), 3);
    assert_eq!(w.call(init, &[IDS, 3]).result(), -ESRCH);
    check(&w);
}

#[test]
fn the_power_of_a_pid_name_space_is_not_the_machines() {
    for (how, status) in [(0, 2), (1, 1)] {
        let mut w = World::new();
        let a = w.fork(1);
        let init = fork_apart(&mut w, a, NEW_PIDS);
        let child = fork_apart(&mut w, init, 0);
        assert_eq!(w.call(child, &[POWER, 2, 7]).result(), -EINVAL);
        // Whoever has the right over the name space; which user 5 has not.
        let user = fork_apart(&mut w, init, 0);
        w.set_ids(user, [5, 5, 5]);
        assert_eq!(w.call(user, &[POWER, how]).result(), -EPERM);
        check(&w);
        w.call(child, &[POWER, how]);
        assert_eq!(w.m.system.powered, None);
        for gone in [init, child, user] {
            assert!(w
                .m
                .numbers
                .process(gone)
                .is_none_or(|slot| !w.m.processes[slot].alive()));
        }
        let waited = w.call(a, &[WAIT, 1, init, 4]);
        assert_eq!(waited.words()[..2], [init, status], "{how}");
        check(&w);
    }
}

#[test]
fn a_pid_name_space_ends_with_its_first_process() {
    let mut w = World::new();
    let a = w.fork(1);
    let init = fork_apart(&mut w, a, NEW_PIDS);
    let child = fork_apart(&mut w, init, 0);
    let grandchild = fork_apart(&mut w, child, 0);
    let deeper = fork_apart(&mut w, child, NEW_PIDS);
    let below = fork_apart(&mut w, deeper, 0);
    // Orphans are its first process's.
    w.exit(child, 0);
    assert_eq!(ids(&mut w, a, grandchild)[1], init);
    assert_eq!(ids(&mut w, grandchild, 0)[1], 1);
    // Nobody in it ends it.
    assert_eq!(w.call(grandchild, &[KILL, 1, 9]).result(), 0);
    assert_eq!(w.call(below, &[KILL, 1, 9]).result(), 0);
    assert_eq!(w.call(init, &[KILL, 1, 15]).result(), 0);
    assert_eq!(ids(&mut w, a, below)[1], deeper);
    assert_eq!(w.call(a, &[KILL, init, 15]).result(), 0);
    assert_eq!(ids(&mut w, a, init)[0], init);
    assert_eq!(w.call(a, &[KILL, init, 9]).result(), 0);
    for gone in [grandchild, deeper, below] {
        assert_eq!(w.call(a, &[IDS, gone]).result(), -ESRCH);
    }
    assert_eq!(w.call(a, &[WAIT, 1, init, 4]).result(), init as i64);
    assert_eq!(w.m.counts.all(), 0);
    check(&w);
}

#[test]
fn children_are_in_another_pid_name_space_after_unshare() {
    let mut w = World::new();
    let (a, b) = (w.fork(1), w.fork(1));
    assert_eq!(w.call(a, &[UNSHARE, NEW_PIDS]).result(), 0);
    assert_eq!(ids(&mut w, a, 0)[0], a);
    let first = fork_apart(&mut w, a, 0);
    let second = fork_apart(&mut w, a, 0);
    assert_eq!(ids(&mut w, first, 0)[..2], [1, 0]);
    assert_eq!(ids(&mut w, second, 0)[..2], [2, 0]);
    // Others come by its file, and not out of their own.
    let kind = SpaceKind::Processes.word();
    let id = w
        .component(role::INSPECT, b"", &[SPACE_ID, first, kind])
        .words()[1];
    let spaces = |w: &mut World, words: &[u64]| w.component(role::SPACES, b"", words).result();
    assert_eq!(spaces(&mut w, &[SPACE_HOLD, first, kind, id]), 0);
    let domains = [b, first].map(|pid| u64::from(w.domain(pid).id));
    assert_eq!(spaces(&mut w, &[SPACE_ENTER, domains[1], kind, 0]), -EINVAL);
    assert_eq!(spaces(&mut w, &[SPACE_ENTER, domains[0], kind, id]), 0);
    let third = fork_apart(&mut w, b, 0);
    assert_eq!(ids(&mut w, third, 0)[..2], [3, 0]);
    assert_eq!(spaces(&mut w, &[SPACE_DROP, kind, id]), 0);
    w.exit(first, 0);
    assert_eq!(w.call(a, &[IDS, third]).result(), -ESRCH);
    assert_eq!(w.call(a, &[FORK, 0, 0, 0, 0, 0, 17]).result(), -ENOMEM);
    check(&w);
}

#[test]
fn one_thread_at_a_time_changes_what_is_mounted() {
    let mut w = World::new();
    let (a, outside) = (w.fork(1), w.fork(1));
    assert_eq!(w.call(a, &[SPACE_TURN, 1]).result(), -EINVAL);
    assert_eq!(w.call(a, &[UNSHARE, NEW_MOUNTS]).result(), 0);
    let thread = w.call(a, &[THREAD_CREATE, 1, 2, 3, 4, 5]).words()[1] as u32;
    let (b, user) = (w.fork(a), w.fork(a));
    become_user(&mut w, user, 1000);
    assert_eq!(w.call(user, &[SPACE_TURN, 1]).result(), -EPERM);
    // It is the thread's, and goes on to who came first.
    assert_eq!(w.call(a, &[SPACE_TURN, 1]).result(), 1);
    assert_eq!(w.call(a, &[SPACE_TURN, 1]).result(), 1);
    let first = w.call_by(a, thread, b"", &[SPACE_TURN, 1]).token();
    let second = w.call(b, &[SPACE_TURN, 1]).token();
    check(&w);
    assert_eq!(w.call(b, &[SPACE_MOUNTS]).result(), -EFAULT);
    assert_eq!(w.call(a, &[SPACE_TURN, 0]).result(), 0);
    assert_eq!(w.m.system.replies[&first][0], 1);
    assert!(!w.m.system.replies.contains_key(&second));
    // Who does not have it gives nothing back; who ends does.
    assert_eq!(w.call(a, &[SPACE_TURN, 0]).result(), 0);
    assert!(!w.m.system.replies.contains_key(&second));
    w.call_by(a, thread, b"", &[THREAD_EXIT, 0]).token();
    assert_eq!(w.m.system.replies[&second][0], 1);
    // Nobody gets it by waiting for a word, from within or without.
    let key = u64::MAX - space_of(&mut w, a).0;
    for pid in [outside, user] {
        let waits = w.call(pid, &[FUTEX, 0, key]).token();
        w.call(b, &[SPACE_TURN, 0]);
        assert_eq!(w.m.system.replies[&waits][0], 0);
        assert_eq!(w.call(b, &[SPACE_TURN, 1]).result(), 1);
    }
    // Nor keeps it for ever.
    let waits = w.call(a, &[SPACE_TURN, 1]).token();
    w.m.system.now += 10_000_000_001;
    w.m.expire();
    assert_eq!(w.m.system.replies[&waits][0], -ETIMEDOUT as u64);
    assert_eq!(w.call(a, &[SPACE_TURN, 1]).result(), 1);
    let waits = w.call(b, &[SPACE_TURN, 1]).token();
    w.exit(a, 0);
    assert_eq!(w.m.system.replies[&waits][0], 1);
    for pid in [b, user, outside] {
        w.exit(pid, 0);
    }
    check(&w);
}

#[test]
fn a_mount_that_moves_takes_along_what_is_mounted_below() {
    let mut w = World::new();
    let a = w.fork(1);
    assert_eq!(w.call(a, &[UNSHARE, NEW_MOUNTS]).result(), 0);
    for name in [&b"/"[..], b"/a", b"/a/in", b"/ab", b"/b"] {
        assert!(add(&mut w, a, name, 0) > 0);
    }
    assert_eq!(set_root(&mut w, a, 1, b"", 90), 0);
    let go = |w: &mut World, number, name: &[u8]| {
        let words = [SPACE_MOUNT, name.len() as u64, 0, 0, number];
        w.call_with(a, name, &words).result()
    };
    assert_eq!(go(&mut w, 2, b"/a/in/x"), -ELOOP);
    assert_eq!(go(&mut w, 1, b"/c"), -EINVAL);
    assert_eq!(go(&mut w, 2, b"/"), -EINVAL);
    // One of those below it would have too long a name: nothing moves.
    let long = [b"/", &[b'x'; 61][..]].concat();
    assert_eq!(go(&mut w, 2, &long), -ENAMETOOLONG);
    assert_eq!(go(&mut w, 2, b"/b"), 2);
    let mut seen = names(&mut w, a);
    seen.sort();
    // (What it hides stays.)
    let expected = [(1, ""), (2, "/b"), (3, "/b/in"), (4, "/ab"), (5, "/b")];
    let expected = expected.map(|(n, name)| (n, name.to_string(), 0));
    assert_eq!(seen, expected);
    w.exit(a, 0);
    check(&w);
}

#[test]
fn timer_slack_is_ones_own_and_inherited() {
    let mut w = World::new();
    let (a, user) = (w.fork(1), w.fork(1));
    assert_eq!(w.set_ids(user, [9, 9, 9]), 0);
    let ask = |w: &mut World, by: u64, pid: u64, set: u64, new: u64| {
        let domain = u64::from(w.domain(by).id);
        let words = [TIMER_SLACK, domain, pid, set, new];
        let answer = w.component(role::SPACES, b"", &words);
        match answer.result() {
            0 => answer.words()[1] as i64,
            error => error,
        }
    };
    assert_eq!(ask(&mut w, user, user, 0, 0), 50_000);
    assert_eq!(ask(&mut w, user, user, 1, 7), 7);
    assert_eq!(ask(&mut w, user, a, 0, 0), -EPERM);
    assert_eq!(ask(&mut w, a, user, 0, 0), 7, "it has CAP_SYS_NICE");
    assert_eq!(ask(&mut w, a, 4711, 0, 0), -ESRCH);
    // As prctl has it. What a child begins with is what 0 means for it.
    assert_eq!(w.call(user, &[PRCTL, 30, 0]).result(), 7);
    let child = w.fork(user);
    assert_eq!(w.call(child, &[PRCTL, 29, 100]).result(), 0);
    assert_eq!(ask(&mut w, child, child, 0, 0), 100);
    assert_eq!(ask(&mut w, child, child, 1, 0), 7);
    assert_eq!(w.call(user, &[PRCTL, 29, u64::MAX]).result(), 0);
    assert_eq!(ask(&mut w, user, user, 0, 0), 50_000);
}
