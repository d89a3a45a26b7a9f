//! Disks by what they are called.

use super::*;

impl World {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.disk.0.borrow_mut().bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A superblock of ext4 on the part that begins at this sector.
    fn ext4(&mut self, sector: usize, uuid: u8, label: &[u8]) {
        let at = sector * 512 + 1024;
        self.put(at, &[0; 1024]);
        self.put(at + 56, &[0x53, 0xef]);
        self.put(at + 104, &[uuid; 16]);
        self.put(at + 120, label);
    }

    /// Names in a directory below /dev/disk, and where they lead.
    fn names(&mut self, by: &str) -> Vec<(String, String)> {
        let path = format!("disk/{by}");
        let token = self
            .bench
            .send(0, &[fs::OPEN, o::DIRECTORY, 0], path.as_bytes(), 4096);
        self.turns();
        let answer = self.bench.answer(token).expect("answered");
        if answer.result() < 0 {
            return Vec::new();
        }
        let handle = answer.minted[0];
        let (count, list) = self.call(handle, &[fs::READDIR], b"", 4096);
        let mut names = Vec::new();
        let mut at = 0;
        while at < count as usize {
            let length = u16::from_le_bytes([list[at + 16], list[at + 17]]) as usize;
            let name = &list[at + 19..at + length];
            let end = name.iter().position(|byte| *byte == 0).unwrap();
            let name = String::from_utf8(name[..end].to_vec()).unwrap();
            at += length;
            if name != "." && name != ".." {
                let path = format!("{path}/{name}");
                let (length, target) = self.call(0, &[fs::READLINK], path.as_bytes(), 4096);
                let target = &target[..length as usize];
                names.push((name, String::from_utf8(target.to_vec()).unwrap()));
            }
        }
        names
    }
}

fn pair(name: &str, target: &str) -> (String, String) {
    (name.into(), target.into())
}

#[test]
fn file_systems_and_partitions_are_found_by_their_names() {
    let mut w = world();
    w.put(0, &[0; 4096]);
    // The table that says what the disk's partitions are.
    w.put(440, &[0x78, 0x56, 0x34, 0x12]);
    w.put(446 + 4, &[0x83, 0, 0, 0, 100, 0, 0, 0, 0xe8, 3, 0, 0]);
    w.put(446 + 36, &[0x83, 0, 0, 0, 0xd0, 7, 0, 0, 8, 0, 0, 0]);
    w.put(510, &[0x55, 0xaa]);
    w.ext4(100, 0xab, b"root fs");
    let uuid = "abababab-abab-abab-abab-abababababab";
    assert_eq!(w.names("by-uuid"), [pair(uuid, "../../vda1")]);
    assert_eq!(w.names("by-label"), [pair("root\\x20fs", "../../vda1")]);
    assert_eq!(w.names("by-partlabel"), []);
    // The third is longer in the kernel's table than in the disk's.
    assert_eq!(w.names("by-partuuid"), [pair("12345678-01", "../../vda1")]);
    let path = b"disk/by-label/root\\x20fs";
    let open = w.bench.call(0, &[fs::OPEN, o::RDONLY, 0], path, 4096);
    let open = open.expect("nothing is read");
    assert_eq!(open.result(), -REDIRECT, "by way of /dev");
    assert_eq!(&open.data[..open.words[1] as usize], b"/dev/vda1");
    assert!(w.disk.0.borrow().asked.is_empty(), "it is known");

    // Another file system, which is seen when who wrote it has closed the disk.
    let part = w.open(b"vda1");
    let mut block = vec![0; 1024];
    block[56..58].copy_from_slice(&[0x53, 0xef]);
    block[104..120].fill(0xcd);
    assert_eq!(w.write(part, 1024, &block), 1024);
    assert_eq!(w.names("by-uuid").len(), 1);
    assert_eq!(w.names("by-uuid")[0].0, uuid);
    w.bench.close(part);
    assert_eq!(w.names("by-uuid")[0].0, uuid.replace("ab", "cd"));
    assert_eq!(w.names("by-label"), []);

    // What cannot be read has no name, and harms nobody.
    let part = w.open(b"vda3");
    w.bench.close(part);
    w.disk.0.borrow_mut().fails = true;
    assert_eq!(w.names("by-uuid"), []);
    w.disk.0.borrow_mut().fails = false;
    let whole = w.open(b"vda");
    assert_eq!(w.read(whole, 0, 512).map(|bytes| bytes.len()), Ok(512));
}

#[test]
fn who_looks_and_goes_leaves_nothing_behind() {
    let mut w = world();
    w.ext4(2000, 1, b"third");
    for _ in 0..3 * JOBS {
        let token = w
            .bench
            .send(0, &[fs::OPEN, o::DIRECTORY, 0], b"disk/by-label", 4096);
        w.bench.die(token);
        // Whoever closes it meanwhile has the page that is on its way looked at again.
        let part = w.open(b"vda3");
        w.bench.close(part);
        w.turn();
    }
    assert_eq!(w.names("by-label"), [pair("third", "../../vda3")]);
    assert_eq!(w.names("by-partuuid"), []);
}
