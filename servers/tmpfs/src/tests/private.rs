//! Mounts of name spaces of their own: what is mounted in one is seen there only, flags hold there only, and it goes with its last handle.

use super::*;
use cairn_idl::fs::{bind, redirect_kind};

const SPACE: u64 = 7;

fn bind_at(b: &mut Fs, badge: u64, flags: u64, number: u64) -> Result<u64, i64> {
    let words = [fs::BIND, flags, number, 0o755];
    let answer = b.call(badge, &words, b"", 0).unwrap();
    match answer.minted.first() {
        Some(&badge) => Ok(badge),
        None => Err(answer.result()),
    }
}

fn open_at(b: &mut Fs, badge: u64, path: &[u8], flags: u64) -> Result<u64, i64> {
    let answer = b
        .call(badge, &[fs::OPEN, flags, 0o644], path, 4096)
        .unwrap();
    match answer.minted.first() {
        Some(&badge) => Ok(badge),
        None => Err(answer.result()),
    }
}

fn cover(b: &mut Fs, badge: u64, path: &[u8], number: u64, portal: u64) -> i64 {
    let words = [fs::MOUNT_POINT, 1, number, 0, 0, 0, 0, portal];
    b.result(badge, &words, path)
}

fn uncover(b: &mut Fs, badge: u64, path: &[u8]) -> i64 {
    b.result(badge, &[fs::MOUNT_POINT, 0], path)
}

fn path_of(b: &mut Fs, badge: u64) -> (Vec<u8>, u64) {
    let answer = b.call(badge, &[fs::GETPATH], b"", 4096).unwrap();
    (answer.bytes().to_vec(), answer.words[1])
}

/// Two folders, one in the other, with a file; the sender is in a name space of its own.
fn space() -> Fs {
    let mut b = fs_();
    for path in [&b"a"[..], b"a/b", b"a/b/c"] {
        assert_eq!(mkdir(&mut b, path), 0);
    }
    put(&mut b, b"a/b/file", b"secret");
    b.fake.spaces.insert(1, (SPACE, true));
    b
}

#[test]
fn what_is_mounted_in_a_mount_is_seen_there_only() {
    let mut b = space();
    let folder = open_at(&mut b, 0, b"a", o::PATH).unwrap();
    let mount = bind_at(&mut b, folder, 0, 40).unwrap();
    assert_eq!(cover(&mut b, mount, b"b", 41, 70), 0);
    let answer = b.call(mount, &[fs::OPEN, 0], b"b/file", 4096).unwrap();
    let seen = (redirect(&answer), answer.words[3]);
    assert_eq!(seen, (&b"/file"[..], redirect_kind::DOWN | 41 << 8));
    let answer = b.call(mount, &[fs::MOUNTED], b"b", 4096).unwrap();
    assert_eq!((answer.result(), answer.passed), (0, vec![70]));
    assert_eq!(get(&mut b, b"a/b/file"), Ok(b"secret".to_vec()));
    // Upwards a name goes on from the mount's place; from a nearer root it does not.
    let answer = b.call(mount, &[fs::OPEN, 0], b"../x", 4096).unwrap();
    let seen = (redirect(&answer), answer.words[3]);
    assert_eq!(seen, (&b"/x"[..], redirect_kind::UP | 40 << 8));
    let words = [fs::OPEN, o::PATH, fs::ROOTED];
    let rooted = b.call(mount, &words, b"", 4096).unwrap().minted[0];
    assert_eq!(b.result(rooted, &[fs::STAT], b"../../x"), -ENOENT);
    assert_eq!(path_of(&mut b, mount), (b"".to_vec(), 1 << 32 | 40));
    assert_eq!(uncover(&mut b, mount, b"b"), 0);
    let file = open_at(&mut b, mount, b"b/file", 0).unwrap();
    assert_eq!(path_of(&mut b, file), (b"/b/file".to_vec(), 1 << 32 | 40));
    // Others do not change it, whoever they are.
    for (sender, space) in [(2, (SPACE, false)), (3, (SPACE + 1, true)), (4, (0, true))] {
        b.fake.spaces.insert(sender, space);
        b.sender = sender;
        assert_eq!(cover(&mut b, mount, b"b", 1, 71), -EPERM);
        assert_eq!(uncover(&mut b, mount, b"b"), -EPERM);
        assert_eq!(b.result(mount, &[fs::BOUND, 2], b""), -EPERM);
    }
    assert_eq!(bind_at(&mut b, mount, 0, 9), Err(-EPERM));
    // It goes with its last handle.
    b.sender = 1;
    assert_eq!(cover(&mut b, mount, b"b", 42, 72), 0);
    for badge in [mount, rooted] {
        b.close(badge);
    }
    assert!(!b.fake.closed.contains(&Portal(72)));
    b.close(file);
    assert!(b.fake.closed.contains(&Portal(72)));
}

#[test]
fn nobody_comes_past_what_was_mounted_before() {
    let mut b = space();
    assert_eq!(cover(&mut b, 0, b"a/b", 0, 70), 0);
    b.label = label::make(1000, 1000);
    let mount = bind_at(&mut b, 0, 0, 40).unwrap();
    let denied = |b: &mut Fs, mount| {
        let answer = b.call(mount, &[fs::OPEN, 0], b"a/b/file", 4096).unwrap();
        assert_eq!(answer.result(), -REDIRECT);
        assert_eq!(uncover(b, mount, b"a/b"), -EINVAL);
        let answer = b.call(mount, &[fs::MOUNTED], b"a/b", 4096).unwrap();
        assert_eq!(answer.result(), -ENOENT);
    };
    denied(&mut b, mount);
    // Nor by way of a mount that is made of that one, or of a folder nearer to it.
    let again = bind_at(&mut b, mount, 0, 41).unwrap();
    denied(&mut b, again);
    assert_eq!(cover(&mut b, again, b"a/b", 42, 71), 0);
    let answer = b.call(again, &[fs::MOUNTED], b"a/b", 4096).unwrap();
    assert_eq!((answer.result(), answer.passed), (0, vec![71]));
    assert_eq!(uncover(&mut b, again, b"a/b"), -EINVAL);
    // The administrator of all may leave it out.
    b.label = 0;
    let mount = bind_at(&mut b, 0, 0, 43).unwrap();
    assert!(open_at(&mut b, mount, b"a/b/file", 0).is_ok());
}

#[test]
fn flags_hold_in_their_mount() {
    let mut b = space();
    let free = bind_at(&mut b, 0, 0, 40).unwrap();
    let mount = bind_at(&mut b, free, mount::READ_ONLY, 41).unwrap();
    let deep = open_at(&mut b, mount, b"a/b", o::PATH).unwrap();
    let writes = o::RDWR;
    for (badge, path) in [(mount, &b"a/b/file"[..]), (deep, b"file")] {
        assert_eq!(open_at(&mut b, badge, path, writes), Err(-EROFS));
        assert_eq!(open_at(&mut b, badge, path, o::TRUNC), Err(-EROFS));
        for words in [
            [fs::UNLINK, 0],
            [fs::CHMOD, 0],
            [fs::CHOWN, 1],
            [fs::TRUNCATE, 0],
        ] {
            assert_eq!(b.result(badge, &words, path), -EROFS);
        }
        assert_eq!(b.result(badge, &[fs::ACCESS, 2], path), -EROFS);
        assert!(open_at(&mut b, badge, path, 0).is_ok());
    }
    assert_eq!(open_at(&mut b, deep, b"new", o::CREAT), Err(-EROFS));
    assert_eq!(b.result(deep, &[fs::MKDIR, 0o700], b"new"), -EROFS);
    assert_eq!(b.result(deep, &[fs::MKDIR, 0o700], b"c"), -EEXIST);
    // Names do not go from one mount to another, nor into one that is read only.
    for operation in [fs::RENAME, fs::LINK] {
        let slot = 600 + operation as u32;
        b.fake.own.insert(slot, deep);
        let words = [operation, 0, 0, 0, 0, 0, 0, slot.into()];
        let answer = b.call(free, &words, &two(b"a/b/file", b"x"), 4096);
        // (A link's new name is looked at first.)
        let expected = if operation == fs::LINK { EROFS } else { EXDEV };
        assert_eq!(answer.unwrap().result(), -expected);
    }
    // A descriptor that was opened as a path only does not write either.
    let file = open_at(&mut b, deep, b"file", o::PATH).unwrap();
    assert_eq!(open_at(&mut b, file, b"", writes), Err(-EROFS));
    // What a user's mount is made from stays read only.
    b.label = label::make(1000, 1000);
    let user = bind_at(&mut b, deep, 0, 42).unwrap();
    assert_eq!(b.result(user, &[fs::BOUND, 0], b""), -EPERM);
    b.label = 0;
    assert_eq!(open_at(&mut b, user, b"file", writes), Err(-EROFS));
    assert_eq!(b.result(mount, &[fs::BOUND, mount::NO_SET_ID], b""), 0);
    assert!(open_at(&mut b, deep, b"file", writes).is_ok());
}

#[test]
fn a_folder_of_its_own_goes_with_all_that_is_in_it() {
    let mut b = space();
    b.label = label::make(1000, 1000);
    let before = (b.server.inodes.all().count(), b.server.pool.usage().0);
    let tree = bind_at(&mut b, 0, bind::NEW_TREE, 40).unwrap();
    assert!(b.server.charged_to(1000) > 0);
    for n in 0..200 {
        let dir = format!("d{n}");
        assert_eq!(b.result(tree, &[fs::MKDIR, 0o700], dir.as_bytes()), 0);
        let file = format!("d{n}/f");
        let badge = open_at(&mut b, tree, file.as_bytes(), o::CREAT | o::RDWR).unwrap();
        assert_eq!(write_at(&mut b, badge, 0, b"x"), 1);
        b.close(badge);
    }
    let deep = open_at(&mut b, tree, b"d3", o::PATH).unwrap();
    assert_eq!(path_of(&mut b, deep), (b"/d3".to_vec(), 1 << 32 | 40));
    // Nothing of it is anywhere else.
    assert_eq!(b.result(0, &[fs::STAT], b"d3"), -ENOENT);
    let answer = b.call(deep, &[fs::OPEN, 0], b"../../a", 4096).unwrap();
    assert_eq!(answer.words[3], redirect_kind::UP | 40 << 8);
    b.close(deep);
    b.close(tree);
    while b.background() {}
    let after = (b.server.inodes.all().count(), b.server.pool.usage().0);
    assert_eq!(after, before);
    assert_eq!(b.server.charged_to(1000), 0);
}

#[test]
fn a_mount_of_a_part_of_such_a_folder_keeps_it() {
    let mut b = space();
    let before = b.server.inodes.all().count();
    let tree = bind_at(&mut b, 0, bind::NEW_TREE, 40).unwrap();
    assert_eq!(b.result(tree, &[fs::MKDIR, 0o755], b"new"), 0);
    let new = open_at(&mut b, tree, b"new", o::PATH).unwrap();
    let part = bind_at(&mut b, new, 0, 41).unwrap();
    let again = bind_at(&mut b, part, 0, 42).unwrap();
    assert_eq!(b.result(part, &[fs::MKDIR, 0o755], b"in"), 0);
    for badge in [new, tree, part] {
        b.close(badge);
        while b.background() {}
        assert_eq!(b.result(again, &[fs::STAT], b"in"), 0);
    }
    assert_eq!(b.result(again, &[fs::MKDIR, 0o755], b"more"), 0);
    b.close(again);
    while b.background() {}
    assert_eq!(b.server.inodes.all().count(), before);
}

#[test]
fn a_mount_without_a_place_has_a_text_and_nothing_above_it() {
    let mut b = space();
    b.label = label::make(1000, 1000);
    let before = b.manager.usage(1000).0;
    let tree = bind_at(&mut b, 0, bind::NEW_TREE | mount::READ_ONLY, 40).unwrap();
    let held = b.manager.usage(1000).0;
    let text = |b: &mut Fs, room| {
        let answer = b.call(tree, &[fs::MOUNT_TEXT, 0], b"", room).unwrap();
        (answer.result(), answer.bytes().to_vec(), answer.words[1])
    };
    assert_eq!(text(&mut b, 4096), (0, Vec::new(), mount::READ_ONLY));
    let put = |b: &mut Fs, text: &[u8]| b.result(tree, &[fs::MOUNT_TEXT, 1], text);
    assert_eq!(put(&mut b, b"a name"), 0);
    assert_eq!(text(&mut b, 4096).1, b"a name");
    assert_eq!(text(&mut b, 3).0, -ERANGE);
    assert_eq!(put(&mut b, &vec![0; fs::MOUNT_TEXT_MAX + 1]), -EINVAL);
    assert_eq!(b.manager.usage(1000).0, held + 6);
    assert_eq!(b.result(tree, &[fs::STAT], b"../../d"), -ENOENT);
    // Others do not see or change it, and a handle of no mount has none.
    b.fake.spaces.insert(2, (SPACE, false));
    b.sender = 2;
    assert_eq!((put(&mut b, b""), text(&mut b, 9).0), (-EPERM, -EPERM));
    b.sender = 1;
    assert_eq!(b.result(0, &[fs::MOUNT_TEXT, 1], b"x"), -EINVAL);
    // With a place it is found from above.
    assert_eq!(put(&mut b, b""), 0);
    let answer = b.call(tree, &[fs::OPEN, 0], b"..", 4096).unwrap();
    assert_eq!(answer.words[3], redirect_kind::UP | 40 << 8);
    assert_eq!(put(&mut b, b"again"), 0);
    b.close(tree);
    while b.background() {}
    assert_eq!(b.manager.usage(1000).0, before);
}

#[test]
fn what_is_mounted_last_hides_what_was_there() {
    let mut b = space();
    b.label = label::make(1000, 1000);
    b.fake.spaces.insert(1, (SPACE, true));
    let before = b.manager.usage(1000).0;
    let mount = bind_at(&mut b, 0, 0, 40).unwrap();
    let seen = |b: &mut Fs| {
        let answer = b.call(mount, &[fs::MOUNTED], b"a/b", 4096).unwrap();
        (answer.result(), answer.words[1], answer.passed)
    };
    let off = |b: &mut Fs, number| b.result(mount, &[fs::MOUNT_POINT, 0, number], b"a/b");
    for (number, portal) in [(41, 71), (42, 72), (43, 73)] {
        assert_eq!(cover(&mut b, mount, b"a/b", number, portal), 0);
    }
    assert_eq!(seen(&mut b), (0, 43, vec![73]));
    // The same one again is no other one.
    assert_eq!(cover(&mut b, mount, b"a/b", 43, 74), 0);
    assert_eq!(seen(&mut b), (0, 43, vec![74]));
    assert!(b.fake.closed.contains(&Portal(73)));
    // It is taken away by its number, and no other one by mistake.
    assert_eq!(off(&mut b, 9), -EINVAL);
    assert_eq!(off(&mut b, 42), 0);
    assert_eq!(off(&mut b, 42), -EINVAL);
    assert_eq!(seen(&mut b), (0, 43, vec![74]));
    assert_eq!(off(&mut b, 0), 0);
    assert_eq!(seen(&mut b), (0, 41, vec![71]));
    // What a mount was made from lays down what is seen; that can be hidden, and not taken away.
    let copy = bind_at(&mut b, mount, 0, 50).unwrap();
    assert_eq!(uncover(&mut b, copy, b"a/b"), -EINVAL);
    assert_eq!(cover(&mut b, copy, b"a/b", 51, 81), 0);
    assert_eq!(cover(&mut b, copy, b"a/b", 52, 82), 0);
    assert_eq!(uncover(&mut b, copy, b"a/b"), 0);
    assert_eq!(uncover(&mut b, copy, b"a/b"), -EINVAL);
    assert_eq!(off(&mut b, 41), 0);
    assert_eq!(seen(&mut b).0, -EINVAL);
    b.close(copy);
    b.close(mount);
    (0..20).for_each(|_| b.time_out());
    assert_eq!(b.manager.usage(1000).0, before);
}

#[test]
fn one_of_two_gets_a_text_and_only_its_length_counts() {
    let mut b = space();
    b.label = label::make(1000, 1000);
    let tree = bind_at(&mut b, 0, bind::NEW_TREE, 40).unwrap();
    let put = |b: &mut Fs, text: &[u8]| b.result(tree, &[fs::MOUNT_TEXT, 1], text);
    let text = |b: &mut Fs, what, room| {
        let words = [fs::MOUNT_TEXT, what];
        b.call(tree, &words, b"", room).unwrap().result()
    };
    let empty = b.manager.usage(1000).0;
    let long = vec![7; fs::MOUNT_TEXT_MAX];
    assert_eq!(put(&mut b, &long), 0);
    let held = b.manager.usage(1000);
    // There is no room for both, and none is needed.
    b.fake.charge_limit = Some(b.fake.charged[&1000]);
    assert_eq!(put(&mut b, &long), 0);
    assert_eq!(put(&mut b, &long[1..]), 0);
    assert_eq!(b.manager.usage(1000).0, held.0 - 1);
    b.fake.charge_limit = None;
    assert_eq!(text(&mut b, 0, 0), fs::MOUNT_TEXT_MAX as i64 - 1);
    assert_eq!(text(&mut b, 2, 9), -ERANGE);
    assert_eq!(put(&mut b, b"a name"), 0);
    assert_eq!(text(&mut b, 2, 9), 6);
    assert_eq!(text(&mut b, 2, 9), 0);
    assert_eq!(text(&mut b, 3, 9), -EINVAL);
    assert_eq!(b.manager.usage(1000).0, empty);
}
