//! Single pages the straight way do what the general way does.

use super::*;
use cairn_abi::layout::USER_TOP;
use cairn_abi::service::memory::map;
use proptest::prelude::*;

/// MAP or UNMAP, by numbers that choose among few spaces, addresses, frames and flags.
#[derive(Clone, Copy, Debug)]
struct Step {
    unmap: bool,
    space: usize,
    address: usize,
    frame: usize,
    flags: usize,
    source: usize,
}

fn step() -> impl Strategy<Value = Step> {
    (
        any::<bool>(),
        0..3usize,
        0..6usize,
        0..5usize,
        0..8usize,
        0..5usize,
    )
        .prop_map(|(unmap, space, address, frame, flags, source)| Step {
            unmap,
            space,
            address,
            frame,
            flags,
            source,
        })
}

const ADDRESSES: [u64; 6] = [
    0x80_0000,
    0x80_1000,
    0x7000_0000_0000,
    0x80_0800,
    USER_TOP,
    USER_TOP - 4096,
];
const FLAGS: [u64; 8] = [
    prot::READ,
    prot::READ | prot::WRITE,
    prot::READ | prot::EXECUTE,
    prot::WRITE | prot::EXECUTE,
    prot::READ | prot::WRITE | map::ZERO,
    prot::READ | map::COPY,
    map::COPY | map::ZERO,
    0,
];

struct Place {
    w: World,
    slots: [u64; 3],
    frames: [u64; 5],
    done: u32,
}

impl Place {
    fn new() -> Place {
        let mut w = World::new();
        let (a, b) = (w.domain(), w.domain());
        // The last is no space; frame 5 is the nucleus's, the last is none.
        let slots = [a.space as u64, b.space as u64, a.slot as u64];
        let frames = [
            w.frame() as u64,
            w.frame() as u64,
            w.frame() as u64,
            5,
            u64::MAX,
        ];
        Place {
            w,
            slots,
            frames,
            done: 0,
        }
    }

    /// What is answered, and what is mapped then.
    fn perform(&mut self, step: Step, straight: bool) -> (Result<[u64; 8], Error>, Vec<u64>) {
        let init = self.w.init;
        let address = ADDRESSES[step.address];
        let (space, frame) = (self.slots[step.space], self.frames[step.frame]);
        let (flags, source) = (FLAGS[step.flags], self.frames[step.source]);
        self.w.k.short_way = straight;
        let answer = if step.unmap {
            // Earlier entries counted three.
            self.w
                .go(init, MEMORY, memory::UNMAP, 0, &[space, address, 1, 3]);
            self.w.result(init)
        } else {
            // Or seven.
            let words = [space, address, frame, 1, flags, source, 7];
            self.w.go(init, MEMORY, memory::MAP, 0, &words);
            self.w.result(init)
        };
        self.done += answer.is_ok() as u32;
        let mut seen = Vec::new();
        for slot in &self.slots[..2] {
            for address in ADDRESSES {
                seen.extend(&self.w.memory(memory::QUERY, &[*slot, address])[..2]);
            }
            seen.extend(&self.w.memory(memory::SPACE_INFO, &[*slot])[..2]);
        }
        for &frame in &self.frames[..3] {
            seen.push(self.w.k.frames.mappings(frame as Frame) as u64);
            seen.push(self.w.k.arch.frame(frame as Frame)[9] as u64);
        }
        (answer.map(|words| [words[0], 0, 0, 0, 0, 0, 0, 0]), seen)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_straight_way_does_what_the_general_way_does(steps in prop::collection::vec(step(), 80..160)) {
        let (mut straight, mut general) = (Place::new(), Place::new());
        for place in [&mut straight, &mut general] {
            for i in 0..3 {
                let frame = place.frames[i] as Frame;
                place.w.k.arch.frame(frame).fill(i as u8 + 1);
            }
        }
        for step in steps {
            prop_assert_eq!(straight.perform(step, true), general.perform(step, false));
        }
        prop_assert!(straight.done > 5, "nothing was done");
    }
}
