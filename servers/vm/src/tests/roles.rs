//! Who may do what with the domains of others: the badge says it.

use super::*;
use cairn_idl::errno::{EPERM, ESRCH};
use cairn_idl::vm::{BADGE_DEVICES, BADGE_DRIVER_FIRST, BADGE_INSPECT};

#[test]
fn who_inspects_changes_nothing_and_who_brings_devices_nothing_else() {
    let mut w = World::new(4096);
    let victim = w.create();
    w.map(victim, 0x1000, 4);
    let other = w.create();
    let (id, sender) = (u64::from(victim), other);
    let control = [
        vec![vm::CREATE, 0, 1],
        vec![vm::FORK, id, 0],
        vec![vm::DESTROY, id],
        vec![vm::MAP_INTO, id, 0x1000 * PAGE, PAGE, RW],
        vec![vm::WRITE_INTO, id, 0x1000 * PAGE],
        vec![vm::OBJECT_MAP_INTO, id, 0x1000 * PAGE, PAGE, RW],
        vec![vm::RESET, id, 0, 0, 0, 0],
        vec![vm::READ_FROM, id, 0x1000 * PAGE],
        vec![vm::GROW_TABLE, id],
        vec![vm::MORE_OBJECTS, 0],
        vec![vm::WATCH_EXHAUSTED],
        vec![vm::EXHAUSTED],
        vec![vm::LIMIT, id, 1],
        vec![vm::MAKE_COMMON, id],
        vec![vm::OOM_ADJUST, id, 5],
        vec![vm::IDENTITY_OF, id, 0x1000],
    ];
    let devices = [
        vec![vm::DMA_ATTACH, id, 8],
        vec![vm::DEVICE_INTO, id, 0, 0, PAGE],
    ];
    let inspect = [
        vec![vm::SPACE_STAT, 0, id],
        vec![vm::MAPS, id, 0],
        vec![vm::USAGE, id, 0, u64::MAX],
        vec![vm::DROP_CACHES],
        vec![vm::NAMER, 1],
    ];
    let refused = |w: &mut World, badge: u64, words: &[u64]| {
        let answer = w.call_badge(sender, badge, words).words[0] as i64;
        assert_eq!(answer, -EPERM, "{words:?} by {badge}");
    };
    for badge in [0, BADGE_DRIVER_FIRST, BADGE_INSPECT, BADGE_DEVICES] {
        for words in &control {
            refused(&mut w, badge, words);
        }
        for words in devices.iter().filter(|_| badge != BADGE_DEVICES) {
            refused(&mut w, badge, words);
        }
        for words in inspect.iter().filter(|_| badge != BADGE_INSPECT) {
            refused(&mut w, badge, words);
        }
    }
    // The bus is not `init`'s.
    refused(&mut w, BADGE_CONTROL, &devices[0]);
    let stat = w.call_badge(sender, BADGE_INSPECT, &inspect[0]).words;
    assert_eq!((stat[0], stat[2]), (0, 4), "nothing came, nothing went");
    assert!(w.call_badge(sender, BADGE_INSPECT, &inspect[1]).words[0] as i64 >= 0);
    let nobody = [vm::DEVICE_INTO, 4711, 0, 0, PAGE];
    let answer = w.call_badge(sender, BADGE_DEVICES, &nobody).words[0] as i64;
    assert_eq!(answer, -ESRCH);
    w.write(victim, 0x1000, 7).unwrap();
}
