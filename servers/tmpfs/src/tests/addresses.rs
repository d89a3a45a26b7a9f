//! Addresses of local sockets that bind(2) leaves with their nodes.

use super::*;
use cairn_rt::Portal;

fn bind(b: &mut Fs, path: &[u8], mode: u32, slot: u64) -> i64 {
    let words = [fs::MKNOD, u64::from(s::IFSOCK | mode), 0, 0, 0, 0, 0, slot];
    b.result(0, &words, path)
}

/// The portal that is given for a name.
fn address(b: &mut Fs, path: &[u8]) -> Result<u32, i64> {
    let answer = b.call(0, &[fs::ADDRESS], path, 4096).unwrap();
    match answer.result() {
        0 => Ok(answer.passed[0]),
        error => Err(error),
    }
}

fn is_closed(b: &Fs, slot: u32) -> bool {
    b.fake.closed.contains(&Portal(slot))
}

#[test]
fn whoever_may_write_the_node_gets_its_address() {
    let mut b = fs_();
    mkdir(&mut b, b"tmp");
    assert_eq!(b.result(0, &[fs::CHMOD, 0o777], b"tmp"), 0);
    b.label = 1000 | 1000 << 32;
    assert_eq!(bind(&mut b, b"tmp", 0o700, 70), -EEXIST);
    assert!(is_closed(&b, 70));
    assert_eq!(bind(&mut b, b"tmp/s", 0o700, 71), 0);
    assert_eq!(address(&mut b, b"tmp/s"), Ok(71));
    assert_eq!(symlink(&mut b, b"s", b"tmp/link"), 0);
    assert_eq!(address(&mut b, b"tmp/link"), Ok(71));
    b.label = 1001 | 1001 << 32;
    assert_eq!(address(&mut b, b"tmp/s"), Err(-EACCES));
    b.label = 0;
    assert_eq!(address(&mut b, b"tmp/s"), Ok(71));
    // The number of the node is no way to it, nor is another node.
    put(&mut b, b"tmp/file", b"x");
    assert_eq!(address(&mut b, b"tmp/file"), Err(-ECONNREFUSED));
    assert_eq!(
        b.result(0, &[fs::MKNOD, u64::from(s::IFSOCK | 0o777)], b"tmp/bare"),
        0
    );
    assert_eq!(address(&mut b, b"tmp/bare"), Err(-ECONNREFUSED));
    assert_eq!(address(&mut b, b"tmp/none"), Err(-ENOENT));
    // It follows the node and goes with its last name.
    let words = [fs::LINK, 0];
    assert_eq!(b.result(0, &words, &two(b"tmp/s", b"tmp/other")), 0);
    assert_eq!(unlink(&mut b, b"tmp/s"), 0);
    assert_eq!(rename(&mut b, b"tmp/other", b"tmp/moved", 0), 0);
    assert_eq!(address(&mut b, b"tmp/moved"), Ok(71));
    assert!(!is_closed(&b, 71));
    assert_eq!(rename(&mut b, b"tmp/file", b"tmp/moved", 0), 0);
    assert!(is_closed(&b, 71));
    assert_eq!(address(&mut b, b"tmp/moved"), Err(-ECONNREFUSED));
    // Nothing but a socket has one, and what leads to no channel is none.
    let words = [fs::MKNOD, u64::from(s::IFIFO | 0o777), 0, 0, 0, 0, 0, 72];
    assert_eq!(b.result(0, &words, b"tmp/fifo"), -EINVAL);
    b.fake.no_files.push(73);
    assert_eq!(bind(&mut b, b"tmp/t", 0o700, 73), -EINVAL);
    assert!(is_closed(&b, 72) && is_closed(&b, 73));
}

#[test]
fn a_user_leaves_so_many() {
    let mut b = fs_();
    mkdir(&mut b, b"tmp");
    assert_eq!(b.result(0, &[fs::CHMOD, 0o777], b"tmp"), 0);
    b.label = 1000 | 1000 << 32;
    for at in 0..1024u64 {
        let name = format!("tmp/{at}");
        assert_eq!(bind(&mut b, name.as_bytes(), 0o700, 10_000 + at), 0);
    }
    assert_eq!(bind(&mut b, b"tmp/more", 0o700, 9_000), -ENOSPC);
    assert!(is_closed(&b, 9_000));
    assert_eq!(unlink(&mut b, b"tmp/5"), 0);
    assert_eq!(bind(&mut b, b"tmp/more", 0o700, 9_001), 0);
}

#[test]
fn handles_say_what_they_are() {
    let mut b = fs_();
    put(&mut b, b"file", b"12345");
    let file = b.open(b"file", o::RDWR | o::APPEND, 0).unwrap();
    let answer = b.call(file, &[fs::DESCRIBE], b"", 0).unwrap();
    let mode = u64::from(s::IFREG);
    assert_eq!(
        (answer.result(), answer.words[1] & u64::from(s::IFMT)),
        (0, mode)
    );
    assert_eq!(answer.words[2] & fs::kind::SEEKABLE, fs::kind::SEEKABLE);
    assert_eq!(answer.words[3], o::RDWR | o::APPEND);
    assert_eq!(answer.words[4], stat(&mut b, b"file").unwrap().ino());
    assert_eq!(b.result(file + 1, &[fs::DESCRIBE], b""), -EBADF);
}
