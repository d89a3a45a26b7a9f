use crate::answer::{self, Trouble};
use crate::{kind, Ask, Qid, Set, Time};
use proptest::prelude::*;

/// An answer, as a server makes it.
fn answer(kind: u8, tag: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = (7 + body.len() as u32).to_le_bytes().to_vec();
    bytes.push(kind + 1);
    bytes.extend(tag.to_le_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn requests_are_as_other_clients_make_them() {
    // As Linux 6.1 sends them.
    let expected = b"\x15\0\0\0\x64\xff\xff\0\x20\0\0\x08\x009P2000.L";
    assert_eq!(Ask::version(8192).with_tag(u16::MAX), expected);
    let expected = b"\x15\0\0\0\x6e\x05\0\x01\0\0\0\x02\0\0\0\x01\0\x02\0ab";
    assert_eq!(Ask::walk(1, 2, &[b"ab"]).with_tag(5), expected);
    let expected = b"\x17\0\0\0\x74\x01\0\x03\0\0\0\x09\0\0\0\0\0\0\0\0\x10\0\0";
    assert_eq!(Ask::read(3, 9, 4096).with_tag(1), expected);
    let set = Set {
        size: Some(7),
        mtime: Some(Time::At(1, 2)),
        ..Set::default()
    };
    let mut ask = Ask::set(4, &set);
    let bytes = ask.with_tag(0);
    assert_eq!((bytes.len(), bytes[0]), (67, 67));
    assert_eq!(bytes[11..15], [0x28, 1, 0, 0]);
    assert_eq!((bytes[27], bytes[51], bytes[59]), (7, 1, 2));
    assert_eq!((ask.fid(), ask.kind()), (Some(4), kind::SETATTR));
    // The other side's clock tells what is now.
    let set = Set {
        atime: Some(Time::Now),
        mtime: Some(Time::At(1, 2)),
        ..Set::default()
    };
    let mut ask = Ask::set(4, &set);
    let bytes = ask.with_tag(0);
    assert_eq!(bytes[11..15], [0x30, 1, 0, 0]);
    assert_eq!((bytes[35..51].iter().max(), bytes[51]), (Some(&0), 1));
}

#[test]
fn requests_are_the_same_whatever_their_tags() {
    let mut one = Ask::remove(1, b"a", 0);
    one.with_tag(9);
    assert!(one.is(&Ask::remove(1, b"a", 0)));
    assert!(!one.is(&Ask::remove(1, b"b", 0)) && !one.is(&Ask::remove(2, b"a", 0)));
    assert!(!Ask::end_of(1).is(&Ask::space(1)));
}

#[test]
fn answers_are_for_their_requests() {
    let read = answer(kind::READ, 3, b"\x02\0\0\0hi");
    let body = answer::body(&read, kind::READ, 3).unwrap();
    assert_eq!(answer::data(body, 2), Ok(&b"hi"[..]));
    assert_eq!(answer::data(body, 1), Err(Trouble::Nonsense));
    for (kind, tag) in [(kind::WRITE, 3), (kind::READ, 4)] {
        assert_eq!(answer::body(&read, kind, tag), Err(Trouble::Nonsense));
    }
    let error = |number: u32| answer(kind::ERROR - 1, 3, &number.to_le_bytes());
    let refused = |number| answer::body(&error(number), kind::READ, 3).map(<[u8]>::len);
    assert_eq!(refused(2), Err(Trouble::Refused(2)));
    assert_eq!(refused(0), Err(Trouble::Nonsense));
    assert_eq!(refused(u32::MAX), Err(Trouble::Nonsense));
    let version = |text: &[u8]| {
        let mut body = vec![0, 16, 0, 0, text.len() as u8, 0];
        body.extend(text);
        answer::version(&body)
    };
    assert_eq!(version(b"9P2000.L"), Ok(4096));
    assert_eq!(version(b"9P2000"), Err(Trouble::Nonsense));
    assert_eq!(answer::length([6, 0, 0, 0], 100), Err(Trouble::Nonsense));
    assert_eq!(answer::length([101, 0, 0, 0], 100), Err(Trouble::Nonsense));
    assert_eq!(answer::length([100, 0, 0, 0], 100), Ok(100));
}

#[test]
fn names_end_where_one_is_cut_off() {
    let mut data = Vec::new();
    for (number, name) in [(1u8, &b"."[..]), (2, b"file")] {
        data.extend([0x80, 0, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0]);
        data.extend([number, 0, 0, 0, 0, 0, 0, 0, 4, name.len() as u8, 0]);
        data.extend(name);
    }
    let names = |data: &[u8]| -> Vec<(u64, u64, Vec<u8>)> {
        let all = answer::entries(data);
        all.map(|e| (e.qid.path, e.next, e.name.to_vec())).collect()
    };
    let both = names(&data);
    assert_eq!(both, [(1, 1, b".".to_vec()), (2, 2, b"file".to_vec())]);
    assert_eq!(names(&data[..data.len() - 1]), both[..1]);
    for bad in [&b""[..], b"a/b", b"a\0", &[b'x'; 256]] {
        assert!(!answer::is_name(bad));
    }
    assert!(answer::is_name(b"\xff") && answer::is_name(&[b'x'; 255]));
}

/// Everything that reads answers, on these bytes.
fn read_all(bytes: &[u8]) {
    for kind in 0..=255 {
        let _ = answer::body(bytes, kind, 1);
    }
    let _ = answer::version(bytes);
    let _ = answer::qid(bytes);
    let _ = answer::walked(bytes, 16);
    let _ = answer::attributes(bytes).map(|a| assert!(a.mtime.1 < 1_000_000_000));
    let _ = answer::data(bytes, 8192).map(|data| assert!(data.len() <= bytes.len()));
    let _ = answer::count(bytes, 100).map(|count| assert!((1..=100).contains(&count)));
    let _ = answer::target(bytes).map(|text| assert!(text.len() <= bytes.len()));
    let _ = answer::space(bytes);
    let total: usize = answer::entries(bytes)
        .map(|entry| 24 + entry.name.len())
        .sum();
    assert!(total <= bytes.len());
}

proptest! {
    #[test]
    fn no_answer_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
    }

    /// Small numbers, as lengths are: they lead further.
    #[test]
    fn no_length_is_believed(bytes in proptest::collection::vec(0u8..20, 0..300)) {
        read_all(&bytes);
    }

    #[test]
    fn attributes_come_as_they_were_sent(path: u64, mode in 0u32..0x1_0000, uid: u32, size in 0u64..1 << 62) {
        let mut body = 0x7ffu64.to_le_bytes().to_vec();
        body.push(0x80);
        body.extend(9u32.to_le_bytes());
        body.extend(path.to_le_bytes());
        for number in [mode, uid, 5] {
            body.extend(number.to_le_bytes());
        }
        for number in [1, 0, size, 4096, 8] {
            body.extend(number.to_le_bytes());
        }
        body.extend([0; 80]);
        let attributes = answer::attributes(&body).unwrap();
        prop_assert_eq!(attributes.qid, Qid { kind: 0x80, version: 9, path });
        prop_assert_eq!((attributes.mode, attributes.uid, attributes.size), (mode, uid, size));
        for cut in 0..121 {
            prop_assert_eq!(answer::attributes(&body[..cut]), Err(Trouble::Nonsense));
        }
    }
}
