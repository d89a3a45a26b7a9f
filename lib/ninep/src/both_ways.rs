//! What one side makes the other reads as it was meant.

use crate::answer::{self, Trouble};
use crate::reply::{Data, Entries, DATA_HEAD};
use crate::request::{head, request, Request};
use crate::{kind, Ask, Attributes, Entry, Lock, Qid, Reply, Set, Space, Time, NO_FID, VERSION};
use proptest::collection::vec;
use proptest::prelude::*;

/// Numbers and texts that requests are made of.
#[derive(Clone, Debug)]
struct Parts {
    n: [u32; 6],
    long: [u64; 2],
    names: [Vec<u8>; 4],
    set: Set,
}

fn parts() -> impl Strategy<Value = Parts> {
    let names = [(); 4].map(|()| vec(any::<u8>(), 0..300));
    let time = || {
        prop_oneof![
            Just(None),
            Just(Some(Time::Now)),
            (any::<i64>(), 0i64..1_000_000_000).prop_map(|(s, n)| Some(Time::At(s, n)))
        ]
    };
    let set = (
        any::<[Option<u32>; 3]>(),
        any::<Option<u64>>(),
        time(),
        time(),
    );
    let set = set.prop_map(|([mode, uid, gid], size, atime, mtime)| Set {
        mode,
        uid,
        gid,
        size,
        atime,
        mtime,
    });
    let all = (any::<[u32; 6]>(), any::<[u64; 2]>(), names, set);
    all.prop_map(|(n, long, names, set)| Parts {
        n,
        long,
        names,
        set,
    })
}

/// Every request there is, and how the other side has to read it.
#[rustfmt::skip]
fn every_request(p: &Parts) -> Vec<(Ask, Request<'_>)> {
    let [a, b, c, d, e, f] = p.n;
    let [name, other, third, fourth] = p.names.each_ref().map(|name| &name[..]);
    let (at, size) = (p.long[0], p.long[1]);
    let tag = f as u16;
    let lock = Lock { kind: f as u8, start: at, length: size, process: e, client: name };
    let root = Request::Attach { fid: a, auth: NO_FID, user: b"root", tree: b"", uid: 0 };
    vec![
        (Ask::version(a), Request::Version { most: a, dialect: VERSION }),
        (Ask::authentication(a, name, other, b), Request::Auth { fid: a, user: name, tree: other, uid: b }),
        (Ask::attach(a), root),
        (Ask::attach_as(a, name, other, b), Request::Attach { fid: a, auth: NO_FID, user: name, tree: other, uid: b }),
        (Ask::flush(tag), Request::Flush { tag }),
        (Ask::walk(a, b, &[]), Request::Walk { fid: a, new: b, names: vec![] }),
        (Ask::walk(a, b, &[name, other, third, fourth]), Request::Walk { fid: a, new: b, names: vec![name, other, third, fourth] }),
        (Ask::open(a, b), Request::Open { fid: a, flags: b }),
        (Ask::create(a, name, b, c, d), Request::Create { folder: a, name, flags: b, mode: c, gid: d }),
        (Ask::symlink(a, name, other, b), Request::Symlink { folder: a, name, target: other, gid: b }),
        (Ask::node(a, name, b, c), Request::Node { folder: a, name, mode: b, device: (0, 0), gid: c }),
        (Ask::device(a, name, b, (c, d), e), Request::Node { folder: a, name, mode: b, device: (c, d), gid: e }),
        (Ask::directory(a, name, b, c), Request::Directory { folder: a, name, mode: b, gid: c }),
        (Ask::link(a, b, name), Request::Link { folder: a, fid: b, name }),
        (Ask::rename_file(a, b, name), Request::Rename { fid: a, folder: b, name }),
        (Ask::rename(a, name, b, other), Request::RenameAt { from: a, name, to: b, new: other }),
        (Ask::remove(a, name, b), Request::Unlink { folder: a, name, flags: b }),
        (Ask::remove_file(a), Request::Remove { fid: a }),
        (Ask::target(a), Request::Target { fid: a }),
        (Ask::attributes(a), Request::Attributes { fid: a, mask: 0x7ff }),
        (Ask::set(a, &p.set), Request::Set { fid: a, set: p.set }),
        (Ask::attribute(a, b, name), Request::Attribute { fid: a, new: b, name }),
        (Ask::set_attribute(a, name, size, b), Request::SetAttribute { fid: a, name, size, flags: b }),
        (Ask::entries(a, at, b), Request::Entries { fid: a, position: at, count: b }),
        (Ask::sync(a), Request::Sync { fid: a, data: false }),
        (Ask::sync_of(a, true), Request::Sync { fid: a, data: true }),
        (Ask::lock(a, b, &lock), Request::Lock { fid: a, flags: b, lock }),
        (Ask::lock_there(a, &lock), Request::LockThere { fid: a, lock }),
        (Ask::read(a, at, b), Request::Read { fid: a, offset: at, count: b }),
        (Ask::write(a, at, name), Request::Write { fid: a, offset: at, data: name }),
        (Ask::end_of(a), Request::End { fid: a }),
        (Ask::space(a), Request::Space { fid: a }),
    ]
}

fn qid(p: &Parts) -> Qid {
    Qid {
        kind: p.n[0] as u8,
        version: p.n[1],
        path: p.long[0],
    }
}

proptest! {
    #[test]
    fn requests_are_read_as_they_were_meant(p in parts(), tag: u16) {
        for (mut ask, expected) in every_request(&p) {
            let message = ask.with_tag(tag).to_vec();
            prop_assert_eq!(head(&message), Some((ask.kind(), tag)));
            prop_assert_eq!(request(&message), Ok(expected));
            // One byte less or more makes no sense.
            let less = &message[..message.len() - 1];
            prop_assert_eq!(request(less), Err(Trouble::Nonsense));
            let mut more = message.clone();
            more.push(0);
            prop_assert_eq!(request(&more), Err(Trouble::Nonsense));
        }
    }

    #[test]
    fn no_request_is_too_strange(bytes in vec(any::<u8>(), 0..300), kind: u8) {
        let _ = request(&bytes);
        let mut message = vec![0, 0, 0, 0, kind, 0, 0];
        message.extend(bytes);
        let _ = request(&message);
    }

    /// Small numbers, as lengths are: they lead further.
    #[test]
    fn no_length_of_a_request_is_believed(bytes in vec(0u8..20, 0..300), kind in 0u8..130) {
        let mut message = vec![0, 0, 0, 0, kind, 0, 0];
        message.extend(bytes);
        let _ = request(&message);
    }

    #[test]
    fn answers_are_read_as_they_were_meant(p in parts(), tag: u16, names in 0u16..20) {
        let [a, b, c, d, ..] = p.n;
        let (at, size) = (p.long[0], p.long[1]);
        let name = &p.names[0][..];
        let qid = qid(&p);
        let body = |reply: Reply, kind: u8| {
            let bytes = reply.with_tag(tag);
            answer::body(&bytes, kind, tag).map(<[u8]>::to_vec)
        };
        let number = a % 4095 + 1;
        prop_assert_eq!(body(Reply::error(number), kind::READ), Err(Trouble::Refused(number.into())));
        prop_assert_eq!(answer::version(&body(Reply::version(a, VERSION), kind::VERSION).unwrap()), Ok(a));
        prop_assert_eq!(answer::qid(&body(Reply::qid(kind::MKDIR, qid), kind::MKDIR).unwrap()), Ok(qid));
        let opened = body(Reply::opened(kind::CREATE, qid, b), kind::CREATE).unwrap();
        prop_assert_eq!(answer::opened(&opened), Ok((qid, b)));
        let qids = vec![qid; usize::from(names)];
        let walked = body(Reply::walked(&qids), kind::WALK).unwrap();
        prop_assert_eq!(answer::walked(&walked, names), Ok(true));
        prop_assert_eq!(answer::walked(&walked, names + 1), Ok(false));
        let time = |n: u64| (n as i64, (n % 1_000_000_000) as i64);
        let attributes = Attributes {
            qid,
            mode: a & 0xffff,
            uid: b,
            gid: c,
            links: at,
            rdev: size,
            size: at >> 1,
            block_size: size,
            blocks: at,
            atime: time(at),
            mtime: time(size),
            ctime: time(at ^ size),
        };
        let told = body(Reply::attributes(&attributes), kind::GETATTR).unwrap();
        // The body that other servers make has so many bytes.
        prop_assert_eq!(told.len(), 153);
        prop_assert_eq!(answer::attributes(&told), Ok(attributes));
        let target = body(Reply::target(name), kind::READLINK).unwrap();
        prop_assert_eq!(answer::target(&target), Ok(name));
        let count = a % 1000 + 1;
        prop_assert_eq!(answer::count(&body(Reply::count(count), kind::WRITE).unwrap(), 1000), Ok(count as usize));
        prop_assert_eq!(answer::locked(&body(Reply::locked(3), kind::LOCK).unwrap()), Ok(3));
        let lock = Lock { kind: 1, start: at, length: size, process: a, client: name };
        let told = body(Reply::lock(&lock), kind::GETLOCK).unwrap();
        prop_assert_eq!(answer::lock(&told), Ok(lock));
        let length = body(Reply::length_of_value(at), kind::ATTRIBUTE).unwrap();
        prop_assert_eq!(answer::length_of_value(&length), Ok(at));
        let space = Space {
            kind: a,
            block_size: b,
            blocks: at,
            free: size,
            available: at ^ size,
            files: !at,
            files_free: !size,
            id: at.wrapping_mul(size),
            longest_name: d,
        };
        prop_assert_eq!(answer::space(&body(Reply::space(&space), kind::STATFS).unwrap()), Ok(space));
        for kind in [kind::CLUNK, kind::FSYNC, kind::RENAME] {
            prop_assert_eq!(body(Reply::to(kind), kind), Ok(vec![]));
        }
    }

    #[test]
    fn data_and_names_are_read_as_they_were_meant(p in parts(), most in 0usize..2000) {
        let bytes = &p.names[0][..];
        let mut data = Data::new(400);
        data.room()[..bytes.len()].copy_from_slice(bytes);
        let message = data.end(bytes.len()).with_tag(1);
        prop_assert_eq!(message.len(), DATA_HEAD + bytes.len());
        let body = answer::body(&message, kind::READ, 1).unwrap();
        prop_assert_eq!(answer::data(body, 400), Ok(bytes));
        let mut entries = Entries::new(most);
        let told: Vec<Entry> = p.names.iter().map(|name| Entry { qid: qid(&p), next: p.long[1], kind: 4, name }).collect();
        let fitted = told.iter().take_while(|entry| entries.push(entry)).count();
        prop_assert_eq!(entries.is_empty(), fitted == 0);
        let message = entries.end().with_tag(1);
        let body = answer::body(&message, kind::READDIR, 1).unwrap();
        let data = answer::data(body, most).unwrap();
        let read: Vec<Entry> = answer::entries(data).collect();
        prop_assert_eq!(&read[..], &told[..fitted]);
    }
}
