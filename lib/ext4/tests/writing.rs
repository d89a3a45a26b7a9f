//! What we write, as e2fsck and another reader see it.

mod common;

use cairn_ext4::{Error, New, Place, Rename, Time, ROOT};
use common::{make, must_be_clean, Caller, Disk, Random};

fn new(caller: &Caller, mode: u16) -> New {
    New {
        mode,
        uid: 1000,
        gid: 70_000,
        device: (8, 300),
        now: caller.now,
    }
}

fn create(caller: &mut Caller, dir: u32, name: &[u8], mode: u16) -> Result<u32, Error> {
    let new = new(caller, mode);
    caller.act(|fs| fs.create(dir, name, &new))
}

const FILE: u16 = 0o100_644;
const DIR: u16 = 0o040_755;

fn everything(block_size: u32, mib: u64, options: &[&str]) {
    let image = make(block_size, mib, options, None);
    let mut caller = Caller::open(Disk::new(image), true).unwrap();
    let free = caller.fs.space();
    let now = caller.now;
    let mut random = Random(3);

    let dir = create(&mut caller, ROOT, b"dir", DIR).unwrap();
    let file = create(&mut caller, dir, b"file", FILE).unwrap();
    let data: Vec<u8> = (0..300_000).map(|_| random.next() as u8).collect();
    caller.write(file, 0, &data).unwrap();
    assert!(caller.read(file).unwrap() == data);
    create(&mut caller, dir, b"device", 0o060_600).unwrap();
    create(&mut caller, dir, b"fifo", 0o010_600).unwrap();
    assert_eq!(create(&mut caller, dir, b"fifo", FILE), Err(Error::Exists));
    for len in [1usize, 59, 60, 900] {
        let name = format!("link-{len}");
        let about = new(&caller, 0);
        let target: Vec<u8> = b"t/".iter().copied().cycle().take(len).collect();
        let link = caller
            .act(|fs| fs.symlink(dir, name.as_bytes(), &target, &about))
            .unwrap();
        assert_eq!(caller.act(|fs| fs.read_link(link)).unwrap(), target);
    }
    caller.act(|fs| fs.link(file, ROOT, b"other", now)).unwrap();

    // Every second block of a file: a tree of extents that grows, then loses pieces.
    let holes = create(&mut caller, ROOT, b"holes", FILE).unwrap();
    let size = u64::from(block_size);
    for block in (0..1200).rev().step_by(2) {
        caller.write(holes, block * size + 5, b"here").unwrap();
    }
    let read = caller.read(holes).unwrap();
    for block in 0..1200u64 {
        let at = (block * size) as usize;
        let want: &[u8] = if block % 2 == 1 { b"here" } else { b"\0\0\0\0" };
        let end = (at + 9).min(read.len());
        assert_eq!(
            &read[(at + 5).min(end)..end],
            &want[..end.saturating_sub(at + 5)],
            "block {block}"
        );
    }
    while !caller.act(|fs| fs.punch(holes, 100, 900, now)).unwrap() {}
    assert_eq!(
        caller.act(|fs| fs.map(holes, 101, 1)).unwrap()[0].place,
        Place::Hole
    );
    caller.truncate(holes, 50 * size + 7).unwrap();
    assert_eq!(caller.read(holes).unwrap().len() as u64, 50 * size + 7);

    let pre = create(&mut caller, ROOT, b"preallocated", FILE).unwrap();
    while !caller
        .act(|fs| fs.preallocate(pre, 3, 200, Some(203 * size), now))
        .unwrap()
    {}
    caller
        .write(pre, 50 * size, &data[..(20 * size) as usize])
        .unwrap();
    let read = caller.read(pre).unwrap();
    assert!(read[(50 * size) as usize..][..(20 * size) as usize] == data[..(20 * size) as usize]);
    assert!(read[..(50 * size) as usize].iter().all(|&byte| byte == 0));

    // Names: moves, replacements, exchange.
    let sub = create(&mut caller, dir, b"sub", DIR).unwrap();
    assert_eq!(
        caller.act(|fs| fs.rename((ROOT, b"dir"), (sub, b"loop"), Rename::Replace, now)),
        Err(Error::Invalid)
    );
    caller
        .act(|fs| fs.rename((dir, b"sub"), (ROOT, b"moved"), Rename::Replace, now))
        .unwrap();
    assert_eq!(caller.act(|fs| fs.lookup(sub, b"..")), Ok(ROOT));
    assert_eq!(
        caller.act(|fs| fs.rename((dir, b"fifo"), (dir, b"device"), Rename::NoReplace, now)),
        Err(Error::Exists)
    );
    let gone = caller
        .act(|fs| fs.rename((dir, b"fifo"), (dir, b"device"), Rename::Replace, now))
        .unwrap()
        .unwrap();
    assert!(gone.last);
    caller.finish(gone.ino).unwrap();
    caller
        .act(|fs| fs.rename((ROOT, b"moved"), (dir, b"device"), Rename::Exchange, now))
        .unwrap();
    assert_eq!(caller.act(|fs| fs.lookup(sub, b"..")), Ok(dir));
    assert_eq!(
        caller.act(|fs| fs.remove_directory(ROOT, b"dir", now)),
        Err(Error::NotEmpty)
    );
    assert_eq!(
        caller.act(|fs| fs.unlink(ROOT, b"dir", now)),
        Err(Error::IsDirectory)
    );
    let gone = caller.act(|fs| fs.unlink(dir, b"file", now)).unwrap();
    assert!(!gone.last);
    let nameless = new(&caller, FILE);
    let nameless = caller.act(|fs| fs.create_nameless(dir, &nameless)).unwrap();
    caller.write(nameless, 0, b"found").unwrap();
    caller
        .act(|fs| fs.link(nameless, dir, b"named", now))
        .unwrap();

    // Attributes: in the inode, in a block, changed and removed.
    for (number, len) in [10usize, 100, 300, 600].into_iter().enumerate() {
        let name = format!("user.name-{number}");
        let value = &data[..len.min(block_size as usize / 4)];
        caller
            .act(|fs| fs.set_attribute(file, name.as_bytes(), Some(value), None, now))
            .unwrap();
        assert_eq!(
            caller
                .act(|fs| fs.attribute(file, name.as_bytes()))
                .unwrap(),
            value
        );
    }
    caller
        .act(|fs| fs.set_attribute(file, b"user.name-1", Some(b"short"), Some(true), now))
        .unwrap();
    caller
        .act(|fs| fs.set_attribute(file, b"user.name-2", None, None, now))
        .unwrap();
    assert_eq!(caller.act(|fs| fs.attribute_names(file)).unwrap().len(), 3);
    assert_eq!(
        caller.act(|fs| fs.set_attribute(file, b"user.none", None, None, now)),
        Err(Error::NoAttribute)
    );
    caller
        .act(|fs| fs.set_attribute(sub, b"security.selinux", Some(b"label"), None, now))
        .unwrap();

    let disk = caller.close();
    must_be_clean(&disk.bytes);
    other_reader(&disk.bytes, &data);

    // Everything goes again: all that was free is free.
    let mut caller = Caller::open(disk, true).unwrap();
    empty(&mut caller, ROOT);
    caller.sync().unwrap();
    let now_free = caller.fs.space();
    assert_eq!(
        (now_free.free, now_free.free_inodes),
        (free.free, free.free_inodes)
    );
    must_be_clean(&caller.close().bytes);
}

fn other_reader(image: &[u8], data: &[u8]) {
    let other = ext4_view::Ext4::load(Box::new(image.to_vec())).unwrap();
    assert!(other.read("/other").unwrap() == data);
    assert_eq!(other.read("/dir/named").unwrap(), b"found");
    assert_eq!(
        other.read_link("/dir/link-900").unwrap().as_ref(),
        "t/".repeat(450).as_bytes()
    );
}

fn empty(caller: &mut Caller, dir: u32) {
    let now = caller.now;
    for (name, ino) in caller.list(dir).unwrap() {
        if [&b"."[..], b"..", b"lost+found"].contains(&name.as_slice()) {
            continue;
        }
        let gone = if caller.act(|fs| fs.inode(ino)).unwrap().is_directory() {
            empty(caller, ino);
            caller
                .act(|fs| fs.remove_directory(dir, &name, now))
                .unwrap()
        } else {
            caller.act(|fs| fs.unlink(dir, &name, now)).unwrap()
        };
        if gone.last {
            caller.finish(gone.ino).unwrap();
        }
    }
}

/// What has many names is clean, and so is the image when they and their directory are gone again.
fn removed_with_all_names(caller: Caller, dir: u32, cache: usize, now: Time) {
    let disk = caller.close();
    must_be_clean(&disk.bytes);
    let mut caller = Caller::open_with(disk, true, cache).unwrap();
    empty(&mut caller, dir);
    caller
        .act(|fs| fs.remove_directory(ROOT, b"many", now))
        .unwrap();
    caller.finish(dir).unwrap();
    must_be_clean(&caller.close().bytes);
}

#[test]
fn with_blocks_of_1_kib() {
    everything(1024, 64, &[]);
}

#[test]
fn with_blocks_of_4_kib() {
    everything(4096, 64, &[]);
}

#[test]
fn other_shapes() {
    everything(2048, 64, &["-O", "^metadata_csum,^64bit"]);
    everything(1024, 64, &["-O", "orphan_file,metadata_csum_seed"]);
    everything(
        4096,
        64,
        &["-O", "metadata_csum_seed,^flex_bg", "-I", "512"],
    );
}

fn many_names(block_size: u32, mib: u64, count: u32) {
    let image = make(block_size, mib, &["-N", &(count + 100).to_string()], None);
    let mut caller = Caller::open_with(Disk::new(image), true, 512).unwrap();
    let now = caller.now;
    let dir = create(&mut caller, ROOT, b"many", DIR).unwrap();
    let name = |number: u32| format!("a name of some length, number {number}");
    for number in 0..count {
        create(&mut caller, dir, name(number).as_bytes(), FILE).unwrap();
    }
    let listed = caller.list(dir).unwrap();
    assert_eq!(listed.len() as u32, count + 2);
    for number in (0..count).step_by(37) {
        caller
            .act(|fs| fs.lookup(dir, name(number).as_bytes()))
            .unwrap();
    }
    // Whoever reads while others remove and add sees every name that stays exactly once.
    let (mut seen, mut from, mut turn) = (Vec::new(), 0, 0);
    loop {
        let some = caller.act(|fs| fs.read_directory(dir, from)).unwrap();
        let Some(last) = some.last() else { break };
        from = last.next;
        seen.extend(some.into_iter().map(|one| one.name));
        turn += 1;
        if turn % 20 == 0 && turn < 400 {
            for more in 0..60 {
                let name = format!("meanwhile {turn} {more}");
                create(&mut caller, dir, name.as_bytes(), FILE).ok();
            }
        }
    }
    seen.sort();
    let stayed: Vec<_> = seen
        .iter()
        .filter(|one| one.starts_with(b"a name"))
        .collect();
    assert_eq!(stayed.len() as u32, count);
    assert!(stayed.windows(2).all(|two| two[0] != two[1]));
    caller.sync().unwrap();
    removed_with_all_names(caller, dir, 256, now);
}

#[test]
fn many_names_in_small_blocks() {
    // The index of 1 KiB blocks gets its second level at some thousand names.
    many_names(1024, 64, 9000);
}

#[test]
fn many_names_in_large_blocks() {
    many_names(4096, 64, 5000);
}

#[test]
fn a_full_disk() {
    let image = make(1024, 16, &["-N", "64"], None);
    let mut caller = Caller::open(Disk::new(image), true).unwrap();
    let file = create(&mut caller, ROOT, b"fill", FILE).unwrap();
    let free = caller.fs.space().free;
    let error = caller.write(file, 0, &vec![7; 20 << 20]).unwrap_err();
    assert_eq!(error, Error::NoSpace);
    let now = caller.now;
    let mut inodes = 0;
    let end = loop {
        match create(&mut caller, ROOT, format!("i{inodes}").as_bytes(), FILE) {
            Ok(_) => inodes += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(end, Error::NoSpace);
    assert!(inodes > 40);
    assert_eq!(caller.fs.space().free_inodes, 0);
    let gone = caller.act(|fs| fs.unlink(ROOT, b"fill", now)).unwrap();
    caller.finish(gone.ino).unwrap();
    // The root directory may have grown meanwhile.
    assert!(caller.fs.space().free + 10 >= free);
    // What was freed a moment ago can be had, after a commit that the library asks for.
    let again = create(&mut caller, ROOT, b"again", FILE).unwrap();
    caller.write(again, 0, &vec![8; 8 << 20]).unwrap();
    must_be_clean(&caller.close().bytes);
}

/// `cargo test --release -p cairn-ext4 --test writing -- --ignored`: a minute.
#[test]
#[ignore = "a minute in a release build"]
fn a_million_names() {
    let image = make(4096, 256, &[], None);
    let mut caller = Caller::open_with(Disk::new(image), true, 4096).unwrap();
    let now = caller.now;
    let dir = create(&mut caller, ROOT, b"many", DIR).unwrap();
    let mut file = 0;
    for number in 0..1_000_000u32 {
        let name = format!("name of number {number}");
        // Names of few files: it is about the directory.
        if number % 60_000 == 0 {
            file = create(&mut caller, dir, name.as_bytes(), FILE).unwrap();
        } else {
            caller
                .act(|fs| fs.link(file, dir, name.as_bytes(), now))
                .unwrap();
        }
    }
    let mut names: Vec<_> = caller
        .list(dir)
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1_000_002);
    for number in (0..1_000_000u32).step_by(997) {
        let name = format!("name of number {number}");
        caller.act(|fs| fs.lookup(dir, name.as_bytes())).unwrap();
    }
    removed_with_all_names(caller, dir, 1024, now);
}

#[test]
fn nothing_is_to_be_committed_for_an_inode_that_stays_as_it_is() {
    let mut caller = Caller::open(Disk::new(make(1024, 4, &[], None)), true).unwrap();
    let file = create(&mut caller, ROOT, b"file", FILE).unwrap();
    assert!(caller.fs.unsynced(file, true).is_some());
    caller.sync().unwrap();
    assert_eq!(caller.fs.unsynced(file, false), None);
    caller.act(|fs| fs.change_inode(file, |_| ())).unwrap();
    assert!(!caller.fs.has_changes());
    assert_eq!(caller.fs.unsynced(file, false), None);
    caller
        .act(|fs| fs.change_inode(file, |inode| inode.atime.sec += 1))
        .unwrap();
    assert!(caller.fs.unsynced(file, false).is_some());
    assert_eq!(caller.fs.unsynced(file, true), None);
}

/// A tree of several nodes, whose keys all move; and one that is too large for that.
#[test]
fn what_lies_behind_moves_through_the_whole_tree() {
    for block_size in [1024, 4096] {
        let mut caller = Caller::open(Disk::new(make(block_size, 64, &[], None)), true).unwrap();
        let (now, size) = (caller.now, block_size as usize);
        let file = create(&mut caller, ROOT, b"f", FILE).unwrap();
        let mut model = vec![0; 2 * 1000 * size];
        for block in (0..2000).step_by(2) {
            let text = format!("block {block}");
            caller
                .write(file, (block * size) as u64, text.as_bytes())
                .unwrap();
            model[block * size..][..text.len()].copy_from_slice(text.as_bytes());
        }
        let size64 = size as u64;
        model.truncate(1999 * size);
        caller.truncate(file, 1999 * size64).unwrap();
        for (at, count, goes) in [
            (1u32, 3u32, false),
            (0, 1, false),
            (1000, 7, true),
            (0, 2, true),
            (1500, 300, false),
            (600, 900, true),
        ] {
            let bytes = count as usize * size;
            let length = match goes {
                true => model.len() - bytes,
                false => model.len() + bytes,
            } as u64;
            if goes {
                let early = caller.act(|fs| fs.collapse(file, at, at + count, length, now));
                assert_eq!(early, Err(Error::Invalid), "there is something");
                while !caller
                    .act(|fs| fs.punch(file, at, at + count, now))
                    .unwrap()
                {}
                caller
                    .act(|fs| fs.collapse(file, at, at + count, length, now))
                    .unwrap();
                model.drain(at as usize * size..at as usize * size + bytes);
            } else {
                caller
                    .act(|fs| fs.insert_hole(file, at, count, length, now))
                    .unwrap();
                let at = at as usize * size;
                model.splice(at..at, vec![0; bytes]);
            }
            assert!(caller.read(file).unwrap() == model, "{at} {count} {goes}");
        }
        let whole = u64::from(u32::MAX - 10) * size64;
        let far = caller.act(|fs| fs.insert_hole(file, 0, u32::MAX - 10, whole.min(1 << 43), now));
        assert_eq!(far, Err(Error::TooLarge));
        assert!(caller.read(file).unwrap() == model);
        let disk = caller.close();
        must_be_clean(&disk.bytes);
    }
}
