use super::*;
use crate::fake::Bench;
use alloc::format;
use alloc::string::ToString;
use cairn_idl::{fs, label};

#[derive(Default)]
struct Kept {
    value: u32,
    text: Vec<u8>,
}

fn tree() -> Tree<Kept> {
    Tree::new(Kept::default())
        .file("about", 0o444, |_| b"things\n".to_vec())
        .writable(
            "a/b/value",
            0o644,
            |kept| format!("{}\n", kept.value).into_bytes(),
            |kept, text| {
                let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
                match text.trim() {
                    "" => {}
                    text => kept.value = text.parse().map_err(|_| EINVAL)?,
                }
                Ok(())
            },
        )
        .writable(
            "text",
            0o666,
            |kept| kept.text.clone(),
            |kept, text| {
                kept.text = text.to_vec();
                Ok(())
            },
        )
        .folder("secret", 0o700)
        .file("secret/word", 0o444, |_| b"x".to_vec())
        .link("a/there", "../text")
}

fn bench() -> Bench<Tree<Kept>> {
    Bench::new(tree(), b"/tree")
}

fn read(bench: &mut Bench<Tree<Kept>>, handle: u64) -> Vec<u8> {
    let answer = bench.call(handle, &[fs::READ, 0], b"", 100);
    answer.unwrap().bytes().to_vec()
}

#[test]
fn files_are_found_read_and_written() {
    let mut bench = bench();
    let about = bench.open(b"about", o::RDONLY, 0).unwrap();
    assert_eq!(read(&mut bench, about), b"things\n");
    assert_eq!(bench.open(b"about", o::RDWR, 0), Err(-EACCES));
    assert_eq!(bench.open(b"a/b/absent", o::RDONLY, 0), Err(-ENOENT));
    assert_eq!(bench.open(b"a/b/value/x", o::RDONLY, 0), Err(-ENOTDIR));
    assert_eq!(bench.open(b"new", o::RDWR | o::CREAT, 0o644), Err(-EROFS));

    let value = bench.open(b"a/b/value", o::RDWR | o::TRUNC, 0).unwrap();
    assert_eq!(read(&mut bench, value), b"0\n");
    let write = [fs::WRITE, 0];
    assert_eq!(bench.result(value, &write, b"17\n"), 3);
    assert_eq!(bench.server.content.value, 17);
    assert_eq!(read(&mut bench, value), b"17\n");
    assert_eq!(bench.result(value, &write, b"many\n"), -EINVAL);
    assert_eq!(bench.server.content.value, 17);
}

#[test]
fn contents_are_a_file_s() {
    let mut bench = bench();
    let text = bench.open(b"a/there", o::RDWR, 0).unwrap();
    assert_eq!(bench.result(text, &[fs::WRITE, 4], b"five"), 4);
    assert_eq!(bench.server.content.text, b"\0\0\0\0five");
    assert_eq!(bench.result(text, &[fs::WRITE, 0], b"four"), 4);
    assert_eq!(read(&mut bench, text), b"fourfive");
    let more = bench.open(b"text", o::WRONLY | o::APPEND, 0).unwrap();
    assert_eq!(bench.result(more, &[fs::WRITE, fs::POSITION], b"!"), 1);
    assert_eq!(bench.server.content.text, b"fourfive!");
    assert_eq!(bench.result(text, &[fs::TRUNCATE, 3], b""), 0);
    assert_eq!(bench.server.content.text, b"fou");
    for beyond in [MOST as u64, 1 << 40] {
        assert_eq!(bench.result(text, &[fs::WRITE, beyond], b"x"), -EFBIG);
        assert_eq!(bench.result(text, &[fs::TRUNCATE, beyond + 1], b""), -EFBIG);
    }
    assert_eq!(bench.server.content.text, b"fou");
}

/// What somebody reads in pieces is of one moment, whatever happens between them.
#[test]
fn a_reader_s_pieces_fit_together_and_are_charged() {
    let mut bench = bench();
    bench.label = label::make(1000, 1000);
    bench.server.content.text = b"first".to_vec();
    let text = bench.open(b"text", o::RDONLY, 0).unwrap();
    let piece = |bench: &mut Bench<Tree<Kept>>| {
        let answer = bench.call(text, &[fs::READ, fs::POSITION], b"", 3);
        answer.unwrap().bytes().to_vec()
    };
    assert_eq!(piece(&mut bench), b"fir");
    bench.server.content.text = b"SECOND".to_vec();
    assert_eq!(piece(&mut bench), b"st");
    assert_eq!(read(&mut bench, text), b"SECOND");

    // Who has no room is refused, and may try again.
    bench.fake.charge_limit = Some(0);
    bench.server.content.text = Vec::from([b'x'; 1 << 20]);
    let answer = bench.call(text, &[fs::READ, 0], b"", 10);
    assert_eq!(answer.unwrap().result(), -ENOMEM);
    bench.server.content.text = b"small".to_vec();
    bench.fake.charge_limit = None;
    assert_eq!(read(&mut bench, text), b"small");
    bench.close(text);
}

#[test]
fn modes_decide() {
    let mut bench = bench();
    bench.label = label::make(1000, 1000);
    assert_eq!(bench.open(b"secret/word", o::RDONLY, 0), Err(-EACCES));
    assert_eq!(bench.open(b"a/b/value", o::WRONLY, 0), Err(-EACCES));
    assert!(bench.open(b"text", o::WRONLY, 0).is_ok());
}

#[test]
fn folders_of_any_size_are_listed_in_pieces() {
    let mut tree = Tree::new(());
    for number in 0..10_000 {
        let path = format!("all/{number}");
        tree = tree.file(&path, 0o444, |_| Vec::new());
    }
    let mut bench = Bench::new(tree, b"/tree");
    let dir = bench.open(b"all", o::RDONLY | o::DIRECTORY, 0).unwrap();
    let mut seen = Vec::new();
    loop {
        let answer = bench.call(dir, &[fs::READDIR], b"", 1000).unwrap();
        let mut records = answer.bytes();
        if records.is_empty() {
            break;
        }
        while !records.is_empty() {
            let length = usize::from(u16::from_le_bytes([records[16], records[17]]));
            let name = records[19..length].split(|&byte| byte == 0).next().unwrap();
            seen.push(core::str::from_utf8(name).unwrap().to_string());
            records = &records[length..];
        }
    }
    assert_eq!(seen.len(), 10_002);
    assert_eq!(seen[..3], [".", "..", "0"]);
    assert_eq!(seen[10_001], "9999");
    let last = bench.open(b"all/9999", o::RDONLY, 0).unwrap();
    let answer = bench.call(last, &[fs::GETPATH], b"", 100).unwrap();
    assert_eq!(answer.bytes(), b"/tree/all/9999");
}
