//! Name spaces: who may leave them, what is named in one, and who is told which a process is in.

use super::invariants::check;
use crate::fake::World;
use cairn_idl::errno::*;
use cairn_idl::fs::{Prefix, PrefixTable, PREFIX_SERIAL_SHIFT};
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
    assert_eq!((w.m.system.kept, w.m.spaces), (0, 0));
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
    assert_eq!(w.m.spaces, 1);
    w.m.spaces = 1024;
    assert_eq!(w.call(a, &[UNSHARE, NEW_MOUNTS]).result(), -ENOSPC);
    w.m.spaces = 1;
    for _ in 0..256 {
        let name = format!("/{}", w.m.lives.wrapping_add(names(&mut w, a).len() as u32));
        assert!(add(&mut w, a, name.as_bytes(), 0) > 0);
    }
    assert_eq!(add(&mut w, a, b"/more", 0), -ENOSPC);
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
