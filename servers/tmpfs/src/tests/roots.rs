//! Rooted handles: no name from them, or from what was opened through them, leads above their root. And the portals of what is mounted, for who gets there.

use super::*;

fn open_at(b: &mut Fs, badge: u64, path: &[u8], flags: u64, mode: u64) -> Result<u64, i64> {
    let answer = b.call(badge, &[fs::OPEN, flags, mode], path, 4096).unwrap();
    match answer.minted.first() {
        Some(&badge) => Ok(badge),
        None => Err(answer.result()),
    }
}

fn ino_at(b: &mut Fs, badge: u64, path: &[u8]) -> Result<u64, i64> {
    let answer = b.call(badge, &[fs::STAT], path, 4096).unwrap();
    match answer.result() {
        0 => Ok(Stat(answer.data).ino()),
        error => Err(error),
    }
}

/// A folder with a folder in it, and something outside.
fn jail() -> (Fs, u64) {
    let mut b = fs_();
    for path in [&b"jail"[..], b"jail/in", b"jail/in/deep"] {
        assert_eq!(mkdir(&mut b, path), 0);
    }
    put(&mut b, b"outside", b"secret");
    assert_eq!(symlink(&mut b, b"../outside", b"jail/up"), 0);
    assert_eq!(symlink(&mut b, b"/outside", b"jail/away"), 0);
    let rooted = open_at(&mut b, 0, b"jail", o::PATH | o::DIRECTORY, fs::ROOTED);
    (b, rooted.unwrap())
}

#[test]
fn no_name_leads_above_a_root() {
    for short_paths in [true, false] {
        let (mut b, rooted) = jail();
        b.short_paths = short_paths;
        let own = ino_at(&mut b, 0, b"jail").unwrap();
        let outside = ino_at(&mut b, 0, b"outside").unwrap();
        // What others found by the same names is not what is found here.
        let free = open_at(&mut b, 0, b"jail", o::PATH, 0).unwrap();
        for _ in 0..3 {
            assert_eq!(ino_at(&mut b, free, b"../outside"), Ok(outside));
            assert_eq!(ino_at(&mut b, free, b"up"), Ok(outside));
            for above in [
                &b".."[..],
                b"/..",
                b"../..",
                b"in/../..",
                b"in/deep/../../..",
                b".",
            ] {
                assert_eq!(ino_at(&mut b, rooted, above), Ok(own));
            }
            for name in [
                &b"../outside"[..],
                b"/../outside",
                b"in/../../outside",
                b"up",
            ] {
                assert_eq!(ino_at(&mut b, rooted, name), Err(-ENOENT));
                assert_eq!(open_at(&mut b, rooted, name, 0, 0), Err(-ENOENT));
            }
        }
        // A link's absolute target begins at the caller's root, wherever that is.
        let answer = b.call(rooted, &[fs::OPEN, 0], b"away", 4096).unwrap();
        assert_eq!((redirect(&answer), answer.words[3]), (&b"/outside"[..], 0));
        // What is opened through it has the same root, and what is opened as a root a nearer one.
        let inside = open_at(&mut b, rooted, b"in/deep", 0, 0).unwrap();
        assert_eq!(ino_at(&mut b, inside, b"../.."), Ok(own));
        assert_eq!(ino_at(&mut b, inside, b"../../../outside"), Err(-ENOENT));
        let again = open_at(&mut b, inside, b"..", o::PATH, fs::ROOTED).unwrap();
        let nearer = ino_at(&mut b, rooted, b"in");
        assert_eq!(ino_at(&mut b, again, b"../.."), nearer);
        // Nor does the second of two names, or what is changed by one.
        for operation in [fs::RENAME, fs::LINK] {
            let names = two(b"up", b"../../stolen");
            let to_parent = b.call(inside, &[operation, 0], &names, 4096).unwrap();
            assert!(to_parent.result() < 0);
            let names = two(b"../../../outside", b"stolen");
            assert_eq!(b.result(inside, &[operation, 0], &names), -ENOENT);
        }
        assert_eq!(b.result(rooted, &[fs::MKDIR, 0o700], b"../made"), 0);
        assert_eq!(ino_at(&mut b, 0, b"made"), Err(-ENOENT));
        assert!(ino_at(&mut b, 0, b"jail/made").is_ok());
        assert_eq!(b.result(rooted, &[fs::UNLINK, 0], b"../outside"), -ENOENT);
        for badge in [rooted, free, inside, again] {
            b.close(badge);
        }
    }
}

#[test]
fn a_root_lives_as_long_as_its_handles() {
    let (mut b, rooted) = jail();
    let inside = open_at(&mut b, rooted, b"in", 0, 0).unwrap();
    b.close(rooted);
    for name in [&b"jail/up"[..], b"jail/away"] {
        assert_eq!(unlink(&mut b, name), 0);
    }
    // The way to the root is taken from under it.
    assert_eq!(rename(&mut b, b"jail/in", b"moved", 0), 0);
    assert_eq!(rmdir(&mut b, b"jail"), 0);
    let nodes = |b: &Fs| b.server.inodes.all().count();
    let before = nodes(&b);
    assert_eq!(mkdir(&mut b, b"other"), 0);
    assert_eq!(rmdir(&mut b, b"other"), 0);
    assert_eq!(nodes(&b), before);
    b.close(inside);
    assert_eq!(nodes(&b), before - 1);
}

#[test]
fn who_may_search_the_folders_above_gets_a_mounts_portal() {
    let mut b = fs_();
    let mounted = |b: &mut Fs, path: &[u8]| {
        let answer = b.call(0, &[fs::MOUNTED], path, 4096).unwrap();
        match answer.result() {
            0 => Ok(answer.passed[0]),
            error => Err(error),
        }
    };
    let cover = |b: &mut Fs, path: &[u8], portal: u64| {
        let words = [fs::MOUNT_POINT, 1, 0, 0, 0, 0, 0, portal];
        b.result(0, &words, path)
    };
    assert_eq!(mkdir(&mut b, b"own"), 0);
    assert_eq!(mkdir(&mut b, b"own/mnt"), 0);
    put(&mut b, b"file", b"");
    assert_eq!(mounted(&mut b, b"own/mnt"), Err(-EINVAL));
    assert_eq!(cover(&mut b, b"own/mnt", 70), 0);
    assert_eq!(mounted(&mut b, b"own/mnt"), Ok(70));
    b.label = label::make(1000, 1000);
    assert_eq!(mounted(&mut b, b"own/mnt"), Ok(70));
    b.label = 0;
    assert_eq!(b.result(0, &[fs::CHMOD, 0o700], b"own"), 0);
    b.label = label::make(1000, 1000);
    assert_eq!(mounted(&mut b, b"own/mnt"), Err(-EACCES));
    assert_eq!(cover(&mut b, b"own/mnt", 71), -EPERM);
    b.label = 0;
    // Who comes from below a root finds it there.
    let rooted = open_at(&mut b, 0, b"own", o::PATH, fs::ROOTED).unwrap();
    let answer = b.call(rooted, &[fs::MOUNTED], b"../mnt", 4096).unwrap();
    assert_eq!((answer.result(), answer.passed), (0, vec![70]));
    b.close(rooted);
    // The name that it is sent on with is a place.
    let answer = b.call(0, &[fs::OPEN, 0], b"own/mnt/x", 4096).unwrap();
    assert_eq!(
        (redirect(&answer), answer.words[3]),
        (&b"/own/mnt/x"[..], 1)
    );
    // Portals that are not kept are closed, each once.
    assert_eq!(cover(&mut b, b"file", 72), -ENOTDIR);
    assert_eq!(cover(&mut b, b"absent", 73), -ENOENT);
    b.fake.no_files.push(74);
    assert_eq!(cover(&mut b, b"own/mnt", 74), -EINVAL);
    assert_eq!(cover(&mut b, b"own/mnt", 75), 0);
    assert_eq!(mounted(&mut b, b"own/mnt"), Ok(75));
    let all = [71, 72, 73, 74, 70].map(Portal);
    assert_eq!(b.fake.closed, all);
    assert_eq!(b.result(0, &[fs::MOUNT_POINT, 0], b"own/mnt"), 0);
    assert_eq!(b.fake.closed.last(), Some(&Portal(75)));
    assert_eq!(mounted(&mut b, b"own/mnt"), Err(-EINVAL));
    // Nobody passed a portal: there is a place, and nobody to be reached.
    assert_eq!(b.result(0, &[fs::MOUNT_POINT, 1], b"own/mnt"), 0);
    assert_eq!(mounted(&mut b, b"own/mnt"), Err(-EIO));
}
