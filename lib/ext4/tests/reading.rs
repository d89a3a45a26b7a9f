//! Images of e2fsprogs as we read them, against the folder that they were made from and against another reader.

mod common;

use cairn_ext4::{Error, ROOT};
use common::{make, with_tool, Caller, Disk, Folder, Random};
use std::collections::BTreeMap;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::Path;

/// Files of all sizes, holes, long names, links, and a directory with many names.
fn fill(folder: &Path, many: usize) {
    let mut random = Random(7);
    for size in [0usize, 1, 1023, 1024, 4097, 70_000, 900_000] {
        let data: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
        std::fs::write(folder.join(format!("file-{size}")), data).unwrap();
    }
    let sparse = std::fs::File::create(folder.join("sparse")).unwrap();
    for at in [0u64, 100_000, 5_000_000, 5_100_000] {
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"island", at).unwrap();
    }
    sparse.set_len(6_000_000).unwrap();
    symlink("file-1", folder.join("short")).unwrap();
    symlink("x".repeat(59), folder.join("short-59")).unwrap();
    symlink("y".repeat(60), folder.join("long-60")).unwrap();
    symlink("z".repeat(900), folder.join("long-900")).unwrap();
    std::fs::hard_link(folder.join("file-1"), folder.join("second-name")).unwrap();
    std::fs::create_dir_all(folder.join("a/b/c/d")).unwrap();
    std::fs::write(folder.join("a/b/c/d/deep"), b"deep").unwrap();
    std::fs::create_dir(folder.join("many")).unwrap();
    for number in 0..many {
        let pad = "n".repeat(number % 40);
        std::fs::write(folder.join(format!("many/{number}-{pad}\u{e9}")), b"").unwrap();
    }
}

fn compare(caller: &mut Caller, ino: u32, folder: &Path) -> usize {
    let mut count = 0;
    let listed: BTreeMap<Vec<u8>, u32> = caller.list(ino).unwrap().into_iter().collect();
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    let extra = listed.len() - names.len();
    assert_eq!(
        extra,
        if ino == ROOT { 3 } else { 2 },
        "names in {folder:?}"
    );
    for path in names {
        let name = path.file_name().unwrap().as_encoded_bytes();
        let found = caller.act(|fs| fs.lookup(ino, name)).unwrap();
        assert_eq!(listed.get(name), Some(&found), "{path:?}");
        let inode = caller.act(|fs| fs.inode(found)).unwrap();
        let meta = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(u32::from(inode.mode), meta.mode());
        assert_eq!((inode.uid, inode.gid), (meta.uid(), meta.gid()));
        assert_eq!(inode.mtime.sec, meta.mtime());
        count += 1;
        if meta.is_dir() {
            assert_eq!(caller.act(|fs| fs.lookup(found, b"..")), Ok(ino));
            count += compare(caller, found, &path);
        } else if meta.is_symlink() {
            let target = std::fs::read_link(&path).unwrap();
            let read = caller.act(|fs| fs.read_link(found)).unwrap();
            assert_eq!(read, target.as_os_str().as_encoded_bytes());
        } else {
            assert_eq!(u64::from(inode.links), meta.nlink());
            assert!(
                caller.read(found).unwrap() == std::fs::read(&path).unwrap(),
                "{path:?}"
            );
        }
    }
    count
}

fn reads(block_size: u32, mib: u64, options: &[&str], many: usize, indexed: bool) {
    let folder = Folder::new();
    fill(&folder.0, many);
    let mut image = make(block_size, mib, options, Some(&folder.0));
    if indexed {
        image = with_tool(&image, "e2fsck", &["-fyD"], &[0, 1]).0;
    }
    let mut caller = Caller::open_with(Disk::new(image), false, 64).unwrap();
    let count = compare(&mut caller, ROOT, &folder.0);
    assert!(count > many + 10);
    assert_eq!(
        caller.act(|fs| fs.lookup(ROOT, b"nothing")),
        Err(Error::NotFound)
    );
    let many = caller.act(|fs| fs.lookup(ROOT, b"many")).unwrap();
    assert_eq!(
        caller.act(|fs| fs.lookup(many, b"nothing")),
        Err(Error::NotFound)
    );
    assert_eq!(caller.act(|fs| fs.attribute_names(ROOT)), Ok(vec![]));
}

#[test]
fn small_blocks() {
    reads(1024, 32, &[], 2000, false);
}

#[test]
fn small_blocks_with_index() {
    reads(1024, 32, &[], 6000, true);
}

#[test]
fn large_blocks_with_index() {
    reads(4096, 64, &[], 6000, true);
}

#[test]
fn other_features() {
    reads(2048, 32, &["-O", "^metadata_csum,^64bit"], 500, true);
    reads(
        4096,
        32,
        &["-O", "metadata_csum_seed,^resize_inode", "-I", "512"],
        500,
        true,
    );
    reads(
        1024,
        32,
        &["-O", "^flex_bg,^dir_index", "-I", "128"],
        500,
        false,
    );
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    for (feature, name) in [
        ("inline_data", "inline_data"),
        ("meta_bg,^resize_inode", "meta_bg"),
        ("^has_journal,mmp", "mmp"),
        ("bigalloc", "bigalloc"),
    ] {
        let image = make(4096, 32, &["-O", feature], None);
        let error = Caller::open(Disk::new(image), false).err();
        assert_eq!(error, Some(Error::Unsupported(name)));
    }
    for (feature, name) in [
        ("^has_journal", "no journal inside"),
        ("quota", "quota"),
        ("^metadata_csum,uninit_bg", "uninit_bg"),
    ] {
        let image = make(4096, 64, &["-O", feature], None);
        assert!(
            Caller::open(Disk::new(image.clone()), false).is_ok(),
            "{name}"
        );
        let error = Caller::open(Disk::new(image), true).err();
        assert_eq!(error, Some(Error::Unsupported(name)));
    }
}
