//! No page is lost and none is kept: random operations, many of which fail for want of memory, of a slot at the caller, or of the caller's memory.

use super::*;
use crate::inode::{Inode, Kind};

const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d/e", b"d/f"];

/// What the files have is what the pool says, and no node is there that has neither a name nor a handle.
pub(super) fn audit(b: &Fs) {
    let mut pages = Vec::new();
    for inode in b.server.inodes.all() {
        assert!(
            inode.names != 0 || inode.opens != 0,
            "a node that nobody has"
        );
        if let Inode {
            kind: Kind::File(file),
            ..
        } = inode
        {
            let content = &file.content;
            let before = pages.len();
            let mut at = 0;
            while let Some(index) = content.next_page(at) {
                pages.push(content.get(index));
                at = index + 1;
            }
            assert_eq!((pages.len() - before) as u64, content.count());
        }
    }
    b.server.pool.audit(&pages);
    let opens: u32 = b.server.inodes.all().map(|inode| inode.opens).sum();
    assert_eq!(opens as usize, b.manager.open_files());
}

#[test]
fn no_page_is_lost_and_none_is_kept() {
    let mut b = with_archive(Vec::new(), 6000, 4000);
    assert_eq!(mkdir(&mut b, b"d"), 0);
    let mut random = 20261121u64;
    let mut next = |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % most
    };
    let bytes = vec![7; 70 * PAGE];
    let mut open: Vec<u64> = Vec::new();
    let mut failed = [0; 3];
    for step in 0..60_000 {
        let name = NAMES[next(5) as usize];
        if next(500) == 0 {
            let memory = b.server.pool.memory();
            memory.exhausted = !memory.exhausted;
        }
        b.fake.unreadable = next(10) == 0;
        let file = (!open.is_empty()).then(|| open[next(open.len() as u64) as usize]);
        let (at, length) = (next(900 * PAGE as u64), next(bytes.len() as u64));
        match (next(13), file) {
            (0 | 1, _) if open.len() < 12 => {
                b.fake.no_slot = next(4) == 0;
                let flags = o::RDWR | [o::CREAT, o::CREAT | o::TRUNC, o::TMPFILE][next(3) as usize];
                let place = if flags & o::TMPFILE == o::TMPFILE {
                    b"d"
                } else {
                    name
                };
                match b.open(place, flags, 0o600) {
                    Ok(badge) => open.push(badge),
                    Err(_) => failed[0] += 1,
                }
                b.fake.no_slot = false;
            }
            (2..=4, Some(f)) => {
                let done = b.result(f, &[fs::WRITE, at], &bytes[..length as usize]);
                failed[1] += (done != length as i64) as usize;
            }
            (5, Some(f)) => {
                b.result(f, &[fs::TRUNCATE, at], b"");
            }
            (6, Some(f)) => {
                let mode = next(2) * 3;
                let done = b.result(f, &[fs::ALLOCATE, mode, at, 8 * length], b"");
                failed[2] += (done != 0) as usize;
            }
            (7, Some(f)) => {
                b.call(f, &[fs::MMAP, at, length, next(2)], b"", 0);
            }
            (8, _) => {
                b.result(0, &[fs::UNLINK], name);
            }
            (9, _) => {
                let both = two(name, NAMES[next(5) as usize]);
                let operation = [fs::RENAME, fs::LINK][next(2) as usize];
                b.result(0, &[operation, next(3)], &both);
            }
            (10 | 11, Some(f)) => {
                open.retain(|&other| other != f);
                b.close(f);
            }
            _ => {}
        }
        if step % 64 == 0 {
            audit(&b);
        }
    }
    assert!(failed.iter().all(|&count| count > 200), "{failed:?}");
    b.fake.unreadable = false;
    open.drain(..).for_each(|f| b.close(f));
    for name in NAMES {
        b.result(0, &[fs::UNLINK], name);
    }
    audit(&b);
    assert_eq!(b.server.pool.usage().0, 0);
    assert_eq!(b.server.inodes.count(), 2, "the root and its folder");
    assert_eq!(
        (b.manager.open_files(), b.manager.waiting_requests()),
        (0, 0)
    );
}
