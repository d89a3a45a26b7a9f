//! Tables as tools write them, and damaged ones.

use super::*;

struct Image {
    bytes: Vec<u8>,
    block: usize,
    reads: u32,
}

impl Read for Image {
    fn block(&mut self, number: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        assert_eq!(into.len(), self.block);
        self.reads += 1;
        let at = number as usize * self.block;
        let from = self.bytes.get(at..at + self.block).ok_or(Unreadable)?;
        into.copy_from_slice(from);
        Ok(())
    }
}

impl Image {
    fn new(blocks: usize, block: usize) -> Image {
        Image {
            bytes: vec![0; blocks * block],
            block,
            reads: 0,
        }
    }

    fn found(&mut self) -> Vec<(u32, u64, u64)> {
        let info = Info {
            sectors: self.bytes.len() as u64 / SECTOR,
            block: self.block as u32,
            ..Info::default()
        };
        let found = partitions(&info, self).expect("readable");
        found
            .iter()
            .map(|p| (p.number, p.first, p.sectors))
            .collect()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn mbr(&mut self, block: usize, entry: usize, kind: u8, first: u32, count: u32) {
        let at = block * self.block + 446 + 16 * entry;
        self.put(at + 4, &[kind]);
        self.put(at + 8, &first.to_le_bytes());
        self.put(at + 12, &count.to_le_bytes());
        self.put(block * self.block + 510, &[0x55, 0xaa]);
    }

    /// A header at this block, for entries there.
    fn gpt(&mut self, at: usize, entries: usize, list: &[(usize, u64, u64)]) {
        for &(number, first, last) in list {
            let at = entries * self.block + number * ENTRY;
            self.put(at, &[0xaf; 16]);
            self.put(at + 32, &first.to_le_bytes());
            self.put(at + 40, &last.to_le_bytes());
        }
        let table = &self.bytes[entries * self.block..][..128 * ENTRY];
        let sum = !crc(!0, table);
        let start = at * self.block;
        self.put(start, b"EFI PART");
        self.put(start + 12, &HEADER.to_le_bytes());
        self.put(start + 24, &(at as u64).to_le_bytes());
        self.put(start + 72, &(entries as u64).to_le_bytes());
        self.put(start + 80, &128u32.to_le_bytes());
        self.put(start + 84, &(ENTRY as u32).to_le_bytes());
        self.put(start + 88, &sum.to_le_bytes());
        self.put(start + 16, &[0; 4]);
        let sum = !crc(!0, &self.bytes[start..start + HEADER as usize]);
        self.put(start + 16, &sum.to_le_bytes());
    }
}

#[test]
fn the_checksum_is_the_one_that_everybody_has() {
    assert_eq!(!crc(!0, b"123456789"), 0xcbf4_3926);
}

#[test]
fn a_gpt_of_either_block_size_is_read_and_its_copy_if_it_is_damaged() {
    for block in [512, 4096] {
        let per = block as u64 / 512;
        let mut image = Image::new(2000, block);
        let list = [
            (0, 34, 99),
            (4, 100, 1900),
            (6, 0, 5),
            (7, 1990, 2000),
            (8, 50, 40),
        ];
        image.mbr(0, 0, PROTECTIVE, 1, 1999);
        image.gpt(1, 2, &list);
        image.gpt(1999, 1960, &list);
        let expected = [(1, 34 * per, 66 * per), (5, 100 * per, 1801 * per)];
        assert_eq!(image.found(), expected);
        image.bytes[block + 40] ^= 1;
        assert_eq!(image.found(), expected, "by the copy");
        image.bytes[1960 * block + 100 * ENTRY] ^= 1;
        assert_eq!(image.found(), []);
    }
}

#[test]
fn an_mbr_with_a_chain_is_read_and_a_chain_without_end_has_one() {
    let mut image = Image::new(2000, 512);
    assert_eq!(image.found(), []);
    image.mbr(0, 0, 0x83, 10, 90);
    image.mbr(0, 2, 0x05, 100, 1900);
    image.mbr(0, 3, 0x83, 1900, 101);
    image.mbr(100, 0, 0x83, 1, 50);
    image.mbr(100, 1, 0x05, 200, 100);
    image.mbr(300, 0, 0x82, 2, 98);
    let expected = [(1, 10, 90), (5, 101, 50), (6, 302, 98)];
    assert_eq!(
        image.found(),
        expected,
        "the fourth is longer than the disk"
    );
    image.mbr(300, 1, 0x05, 200, 100);
    image.reads = 0;
    assert_eq!(image.found().len(), 1 + 124);
    assert!(image.reads < 130);
}

#[test]
fn what_is_no_table_is_none() {
    let mut image = Image::new(100, 512);
    image.mbr(0, 0, 0x83, 10, 10);
    image.bytes[446] = 0x33;
    assert_eq!(image.found(), [], "a file system's own boot block");
    assert_eq!(Image::new(2, 512).found(), []);
    let mut seed = 1u64;
    for _ in 0..300 {
        let mut image = Image::new(64, 512);
        image.mbr(0, 0, PROTECTIVE, 1, 63);
        image.mbr(0, 1, 0x0f, 3, 5);
        image.gpt(1, 2, &[(0, 40, 50)]);
        for _ in 0..4 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            let at = (seed >> 33) as usize % 2048;
            image.bytes[at] ^= (seed >> 20) as u8;
        }
        for (number, first, sectors) in image.found() {
            assert!(number > 0 && first + sectors <= 64);
        }
    }
}

#[test]
fn partitions_have_the_numbers_and_names_of_their_table() {
    let called = |image: &mut Image| -> Vec<(String, String)> {
        let info = Info {
            sectors: 2000,
            block: 512,
            ..Info::default()
        };
        let found = described(&info, image).expect("readable");
        found.into_iter().map(|it| (it.id, it.name)).collect()
    };
    let mut image = Image::new(2000, 512);
    image.mbr(0, 0, 0x83, 10, 90);
    image.mbr(0, 2, 0x05, 100, 1900);
    image.mbr(100, 0, 0x83, 1, 50);
    assert_eq!(called(&mut image), [(), ()].map(|()| Default::default()));
    image.put(440, &0xdead_beefu32.to_le_bytes());
    let ids: Vec<String> = called(&mut image).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["deadbeef-01", "deadbeef-05"]);
    let mut image = Image::new(2000, 512);
    image.mbr(0, 0, PROTECTIVE, 1, 1999);
    let entry = 2 * 512 + 3 * ENTRY;
    let id: [u8; 16] = core::array::from_fn(|i| i as u8 + 1);
    image.put(entry + 16, &id);
    let name: Vec<u8> = "Daten ü"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    image.put(entry + 56, &name);
    image.gpt(1, 2, &[(3, 34, 99)]);
    let expected = ("04030201-0605-0807-090a-0b0c0d0e0f10", "Daten ü");
    assert_eq!(called(&mut image), [(expected.0.into(), expected.1.into())]);
}
