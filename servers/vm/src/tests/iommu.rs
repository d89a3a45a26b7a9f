//! With an IOMMU a device reaches what its driver holds, from the moment that it is pinned until it is not, and no frame that somebody else has then.

use super::dma::{machine_in, native, Machine2, BADGE};
use super::*;
use cairn_idl::errno::*;
use cairn_iommu::fake::{REGISTERS, ROOT};

const DISK: u16 = 0x20;
const OTHER: u16 = 0x28;

fn machine() -> Machine2 {
    let mut world = World::new(3000);
    world.vm.start_iommu(ROOT);
    assert!(world.vm.dma.iommu.is_some(), "{:?}", world.vm.nucleus.said);
    let mut m = machine_in(world);
    assert_eq!(m.attach(m.driver, DISK), Ok(1));
    m
}

impl Machine2 {
    fn attach(&mut self, who: Id, function: u16) -> Result<u64, i64> {
        let words = [vm::DMA_ATTACH, u64::from(who), u64::from(function)];
        let answer = self
            .world
            .call_badge(INIT, cairn_idl::vm::BADGE_DEVICES, &words);
        match answer.words[0] as i64 {
            0 => Ok(answer.words[1]),
            error => Err(-error),
        }
    }

    /// Frames that a device reaches, of all that there are.
    fn reached(&mut self, function: u16) -> Vec<Frame> {
        let unit = &mut self.world.vm.nucleus.unit;
        (0..5000)
            .filter(|&frame| unit.access(function, frame, true))
            .collect()
    }

    /// What its driver holds.
    fn held(&self) -> Vec<Frame> {
        let mut held: Vec<Frame> = self.world.vm.dma.held().map(|held| held.0).collect();
        held.sort_unstable();
        held.dedup();
        held
    }

    fn check(&mut self) -> usize {
        self.world.audit();
        let (reached, held) = (self.reached(DISK), self.held());
        assert_eq!(reached, held);
        assert_eq!(self.reached(OTHER), []);
        reached.len()
    }
}

#[test]
fn a_device_reaches_what_its_driver_has_pinned() {
    let mut m = machine();
    assert_eq!(m.check(), 0);
    let frames = m.pin(&[3, 5, 7, 5]).unwrap();
    assert_eq!(m.check(), 3);
    let answer = m.world.call_badge(m.driver, BADGE, &[vm::DMA_ALLOC, 65536]);
    assert_eq!(answer.words[0], 0);
    assert_eq!(m.check(), 19);
    assert_eq!(m.unpin(&[frames[1]]), 0, "pinned twice");
    assert_eq!(m.check(), 19);
    // In whatever order, and with one that is not pinned.
    let mixed = [frames[0], 17, frames[1], frames[0]];
    assert_eq!(m.unpin(&mixed), -EINVAL);
    assert_eq!(m.check(), 17);
    assert!(!m.held().contains(&frames[0]) && m.held().contains(&frames[2]));
    m.world.vm.nucleus.copy_faults = 1;
    assert_eq!(m.pin(&[1]), Err(EFAULT));
    m.world.vm.nucleus.copy_faults = 0;
    assert_eq!(m.check(), 17);
    let words = [vm::DMA_PIN_FEW, 2, 1 | 2 << 32];
    let answer = m.world.call_badge(m.driver, m.share, &words);
    assert_eq!((answer.words[0], m.check()), (0, 19));
    let words = [vm::DMA_UNPIN_FEW, 2, answer.words[1]];
    let answer = m.world.call_badge(m.driver, BADGE, &words);
    assert_eq!((answer.words[0], m.check()), (0, 17));
}

#[test]
fn a_frame_is_given_back_when_the_device_does_not_reach_it_any_more() {
    let mut m = machine();
    let frames = m.pin(&[0, 1]).unwrap();
    m.give_back(0, 2);
    assert_eq!(m.reached(DISK).len(), 2);
    assert_eq!(m.unpin(&frames), 0);
    assert_eq!(m.reached(DISK), []);
    let free = |&frame: &Frame| !m.world.vm.frames.knows_row(&[frame]);
    assert!(frames.iter().all(free), "the next owner can have them");
    m.populate(0, 2);
    let again = m.pin(&[0]).unwrap();
    assert_eq!(m.reached(DISK), again);
}

#[test]
fn the_device_of_a_dead_driver_reaches_nothing() {
    let mut m = machine();
    m.pin(&[0, 1, 2]).unwrap();
    let driver = m.driver;
    m.world.destroy(driver);
    assert_eq!(m.reached(DISK), []);
    assert_eq!(m.held().len(), 3, "until its successor has reset it");
    let second = native(&mut m.world);
    assert_eq!(m.attach(second, DISK), Ok(1));
    assert_eq!(m.reached(DISK), [], "it is no driver yet");
    m.driver = second;
    assert_eq!(m.begin(second), 0);
    assert_eq!(m.check(), 0);
    assert_eq!(m.attach(second, DISK), Ok(1));
    assert_eq!(m.check(), 0);
    m.pin(&[4]).unwrap();
    assert_eq!(m.check(), 1);
    // It begins again.
    assert_eq!(m.begin(second), 0);
    assert_eq!(m.check(), 0);
}

#[test]
fn frames_of_a_device_that_nothing_keeps_away_are_nobodys() {
    let mut m = machine();
    let frames = m.pin(&[0, 1]).unwrap();
    m.give_back(0, 2);
    m.world.vm.nucleus.unit.dead = true;
    assert_eq!(
        m.world.call_badge(m.driver, BADGE, &[vm::DMA_BEGIN]).words[0] as i64,
        -EIO
    );
    let words = [vm::DMA_UNPIN_FEW, 1, u64::from(frames[0])];
    assert_eq!(
        m.world.call_badge(m.driver, BADGE, &words).words[0] as i64,
        -EIO
    );
    let all: HashSet<Frame> = std::iter::from_fn(|| m.world.vm.frames.alloc(0)).collect();
    assert!(frames.iter().all(|frame| !all.contains(frame)));
    all.iter()
        .for_each(|&f| assert!(m.world.vm.frames.release(f)));
    let pin = [vm::DMA_PIN_FEW, 1, 3];
    let answer = m.world.call_badge(m.driver, m.share, &pin);
    assert_eq!(answer.words[0] as i64, -EIO);
}

#[test]
fn what_a_device_tried_is_told() {
    let mut m = machine();
    assert!(!m.world.vm.nucleus.unit.access(OTHER, 0x1234, true));
    m.world.request(Request {
        kind: received::kind::PULSE,
        words: Answer::new(&[cairn_abi::pulse::INTERRUPT, 1]).words,
        ..Request::default()
    });
    let said = m.world.vm.nucleus.said.last().unwrap();
    let expected = "device 00:05.0 was refused a write to 0x1234000 (reason 2)";
    assert_eq!(
        (said.as_str(), m.world.vm.nucleus.acknowledged),
        (expected, 1)
    );
}

#[test]
fn the_units_registers_are_vms_alone() {
    let mut m = machine();
    let show = |m: &mut Machine2, physical| {
        let address = cairn_abi::layout::DEVICES;
        let words = [
            vm::DEVICE_INTO,
            u64::from(m.driver),
            address,
            physical,
            2 * PAGE,
        ];
        m.world.control(&words)
    };
    assert_eq!(show(&mut m, REGISTERS), -EACCES);
    assert_eq!(show(&mut m, REGISTERS - PAGE), -EACCES);
    assert_eq!(show(&mut m, 0xfec0_0000), 0);
    let words = [vm::DMA_ATTACH, u64::from(m.driver), 1];
    assert_eq!(m.world.call(m.driver, &words), -EPERM);
    let words = [vm::DMA_ATTACH, u64::from(m.driver), 0x1_0000];
    let answer = m
        .world
        .call_badge(INIT, cairn_idl::vm::BADGE_DEVICES, &words);
    assert_eq!(answer.words[0] as i64, -EINVAL);
}

#[test]
fn without_an_iommu_everything_is_as_ever() {
    let mut world = World::new(3000);
    world.vm.start_iommu(0);
    assert_eq!(world.vm.nucleus.said.len(), 1);
    let mut m = machine_in(world);
    assert_eq!(m.attach(m.driver, DISK), Ok(0));
    let frames = m.pin(&[0]).unwrap();
    assert_eq!(m.unpin(&frames), 0);
    assert!(m.world.vm.nucleus.tables.is_empty());
}
