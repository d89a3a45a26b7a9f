//! What all Linux processes show alike.

use super::*;
use cairn_abi::layout::{COMMON_END, PERSONALITY, PERSONALITY_HEAP, USER_TOP};
use cairn_idl::errno::*;
use cairn_idl::vm::flags;

const FIRST: u64 = PERSONALITY / PAGE;
const P: u64 = 0x4000;

/// A process that shows three pages of a server's there, and one of its own data.
fn first(w: &mut World) -> (Id, Id) {
    let server = w.made(&[vm::CREATE, 0, 0]).unwrap();
    w.map(server, P, 3);
    for page in 0..3 {
        w.write(server, P + page, 70 + page as u8).unwrap();
    }
    let object = w.object(server, &[P, P + 1, P + 2], false).unwrap();
    let id = w.create();
    let shared = flags::FIXED | flags::SHARED;
    let words = [vm::OBJECT_MAP, PERSONALITY, 3 * PAGE, prot::READ, shared, 0];
    assert_eq!(w.call_badge(id, object, &words).words[0], PERSONALITY);
    w.map(id, COMMON_END / PAGE, 2);
    w.write(id, COMMON_END / PAGE, 9).unwrap();
    w.close_object(object);
    (server, id)
}

fn make(w: &mut World, id: Id) -> i64 {
    w.control(&[vm::MAKE_COMMON, u64::from(id)])
}

#[test]
fn what_is_common_is_there_for_all_and_stays() {
    let mut w = World::new(2048);
    let (server, id) = first(&mut w);
    let words = [vm::MAKE_COMMON, u64::from(id)];
    assert_eq!(w.call(id, &words), -EPERM);
    assert_eq!(make(&mut w, 0xfffff), -ESRCH);
    assert_eq!(make(&mut w, server), -EINVAL);
    // Not with anything that can be written, or that goes on behind it.
    for (page, count) in [(FIRST + 9, 1), (COMMON_END / PAGE - 1, 1)] {
        w.map(id, page, count);
        assert_eq!(make(&mut w, id), -EINVAL);
        assert_eq!(w.call(id, &[vm::UNMAP, page * PAGE, count * PAGE]), 0);
    }
    let before = w.vm.spaces.get(2).map(|s| s.pages.resident()).unwrap();
    assert_eq!(make(&mut w, id), 0);
    assert_eq!(make(&mut w, id), -EBUSY);
    w.audit();
    let common = w.vm.nucleus.common.clone();
    assert!((0..3).all(|page| common.contains_key(&(FIRST + page))));
    // They are nobody's pages any more.
    assert_eq!(w.vm.spaces.get(2).unwrap().pages.resident(), before);
    let child = w.fork(id).unwrap();
    let other = w.create();
    let shows = |w: &World, id: Id| {
        let slot = w.vm.nucleus.domain_of(id).space;
        w.vm.nucleus.spaces[&slot].common
    };
    for id in [id, child, other] {
        assert!(shows(&w, id));
        let fixed = flags::FIXED;
        for (address, pages) in [
            (PERSONALITY, 1),
            (PERSONALITY + 9 * PAGE, 1),
            (COMMON_END - PAGE, 2),
            (PERSONALITY - PAGE, 2),
        ] {
            let map = [vm::MAP, address, pages * PAGE, RW, fixed];
            assert_eq!(w.call(id, &map), -EINVAL);
        }
        assert_eq!(w.call(id, &[vm::UNMAP, PERSONALITY, PAGE]), 0);
        assert_eq!(w.call(id, &[vm::PROTECT, PERSONALITY, PAGE, RW]), -ENOMEM);
        assert!(w.write(id, FIRST, 1).is_err());
    }
    assert_eq!(w.read(child, COMMON_END / PAGE), Ok(9));
    // exec by a child that has a space of its own, and by one that shares its parent's.
    let sharing = w.made(&[vm::FORK, u64::from(id), 1]).unwrap();
    for id in [child, sharing] {
        w.map(id, PERSONALITY_HEAP / PAGE, 1);
        let reset = [vm::RESET, u64::from(id), PERSONALITY, USER_TOP];
        assert_eq!(w.control(&reset), 0);
        assert!(shows(&w, id));
        w.audit();
    }
    for id in [server, id, child, other, sharing] {
        w.destroy(id);
        w.audit();
    }
    // The server's pages outlive everybody.
    let last = w.create();
    assert!(shows(&w, last));
    assert_eq!(w.vm.nucleus.common, common);
    for page in 0..3 {
        let frame = common[&(FIRST + page)].0;
        assert_eq!(w.vm.nucleus.frame(frame)[0], 70 + page as u8);
        assert_eq!(w.vm.frames.references(frame), 1);
    }
}
