//! STAT with its answer in words, and short paths without an in part.

use super::*;
use cairn_idl::fs::STAT_WORDS;
use cairn_idl::stat_words;

fn in_words(b: &mut Fs, badge: u64, path: &[u8], flags: u64) -> Result<Option<fs::Stat>, i64> {
    let answer = b
        .call(badge, &[fs::STAT, flags | STAT_WORDS], path, 0)
        .unwrap();
    match answer.result() {
        0 => Ok(None),
        1.. => Ok(Some(stat_words::unpack(&answer.words))),
        error => Err(error),
    }
}

#[test]
fn words_say_what_the_structure_says() {
    let mut b = fs_();
    put(&mut b, b"file", &[7; 9000]);
    assert_eq!(b.result(0, &[fs::MKDIR, 0o1750], b"dir"), 0);
    assert_eq!(b.result(0, &[fs::SYMLINK], b"file\0link"), 0);
    let open = b.open(b"file", o::RDWR, 0).unwrap();
    for (badge, path, flags) in [
        (0, &b"file"[..], 0),
        (0, b"dir", 0),
        (0, b"link", 0),
        (0, b"link", at::SYMLINK_NOFOLLOW),
        (open, b"", 0),
    ] {
        let words = in_words(&mut b, badge, path, flags).unwrap().unwrap();
        let answer = b.call(badge, &[fs::STAT, flags], path, 4096).unwrap();
        let stat = Stat(answer.data);
        assert_eq!((words.ino, words.mode), (stat.ino(), stat.mode()));
        assert_eq!(
            (words.nlink, words.size as u64),
            (stat.nlink(), stat.word(48))
        );
        let times = [words.atime, words.atime_ns, words.mtime, words.mtime_ns];
        assert_eq!(
            times.map(|time| time as u64),
            [72, 80, 88, 96].map(|at| stat.word(at))
        );
        assert_eq!(
            (words.dev, words.blocks as u64),
            (stat.word(0), stat.word(64))
        );
    }
    assert_eq!(in_words(&mut b, 0, b"nothing", 0).err(), Some(-ENOENT));
    assert_eq!(in_words(&mut b, 0, b"file/x", 0).err(), Some(-ENOTDIR));
    // A time before 1970 does not fit.
    let words = [fs::UTIMENS, 5, 6, -3i64 as u64, 4, 0];
    assert_eq!(b.result(0, &words, b"file"), 0);
    assert!(in_words(&mut b, 0, b"file", 0).unwrap().is_none());
}

#[test]
fn without_an_in_part_a_redirect_is_told_alone() {
    let mut b = fs_();
    assert_eq!(b.result(0, &[fs::SYMLINK], b"/elsewhere\0away"), 0);
    assert_eq!(in_words(&mut b, 0, b"away", 0).err(), Some(-REDIRECT));
    for operation in [fs::OPEN, fs::STAT] {
        let answer = b.call(0, &[operation, 0, 0], b"away", 0).unwrap();
        assert_eq!((answer.result(), answer.words[1]), (-REDIRECT, 0));
    }
    let answer = b.call(0, &[fs::STAT], b"away", 4096).unwrap();
    assert_eq!((answer.result(), answer.words[1]), (-REDIRECT, 10));
}
