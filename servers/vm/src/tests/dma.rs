//! Memory that devices reach: who may pin what, and that nothing that a device may write to is used again, whoever dies.

use super::*;
use cairn_idl::errno::*;
use cairn_idl::vm::{advice, flags, BADGE_DRIVER_FIRST, PIN_MOST};

const ARENA: u64 = 0x10_0000;
const PAGES: u64 = 600;
pub const BADGE: u64 = BADGE_DRIVER_FIRST;

pub struct Machine2 {
    pub world: World,
    pub owner: Id,
    pub driver: Id,
    pub share: u64,
}

pub fn native(world: &mut World) -> Id {
    world.made(&[vm::CREATE, 0, 0]).expect("a domain")
}

fn machine() -> Machine2 {
    machine_in(World::new(3000))
}

/// An owner of memory with 20 pages there, and a driver.
pub fn machine_in(mut world: World) -> Machine2 {
    let (owner, driver) = (native(&mut world), native(&mut world));
    world.map(owner, ARENA, PAGES);
    let share = share(&mut world, owner, ARENA, PAGES).unwrap();
    let mut m = Machine2 {
        world,
        owner,
        driver,
        share,
    };
    m.populate(0, 20);
    assert_eq!(m.begin(driver), 0);
    m
}

fn share(world: &mut World, who: Id, page: u64, pages: u64) -> Result<u64, i64> {
    let answer = world.call_badge(who, 0, &[vm::DMA_SHARE, page * PAGE, pages * PAGE]);
    match (answer.words[0] as i64, answer.pass) {
        (0, Some(Pass::Mint(badge))) => Ok(badge),
        (errno, _) => Err(-errno),
    }
}

fn numbers(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|n| n.to_le_bytes()).collect()
}

impl Machine2 {
    pub fn populate(&mut self, first: u64, count: u64) {
        let (address, len) = ((ARENA + first) * PAGE, count * PAGE);
        let words = [vm::ADVISE, address, len, advice::POPULATE_WRITE];
        assert_eq!(self.world.call(self.owner, &words), 0);
    }

    pub fn give_back(&mut self, first: u64, count: u64) {
        let (address, len) = ((ARENA + first) * PAGE, count * PAGE);
        let words = [vm::ADVISE, address, len, advice::DONT_NEED];
        assert_eq!(self.world.call(self.owner, &words), 0);
        self.world.audit();
    }

    pub fn begin(&mut self, who: Id) -> i64 {
        let answer = self.world.call_badge(who, BADGE, &[vm::DMA_BEGIN]);
        self.world.audit();
        answer.words[0] as i64
    }

    pub fn pin_as(&mut self, who: Id, share: u64, pages: &[u32]) -> Result<Vec<Frame>, i64> {
        self.world.vm.nucleus.out = numbers(pages);
        self.world.vm.nucleus.input = vec![0; pages.len() * 4];
        let answer = self.world.call_badge(who, share, &[vm::DMA_PIN]);
        self.world.vm.nucleus.out.clear();
        let told = std::mem::take(&mut self.world.vm.nucleus.input);
        self.world.audit();
        match answer.words[0] as i64 {
            length if length > 0 => {
                assert_eq!(length as usize, pages.len() * 4);
                let (told, _) = told.as_chunks();
                Ok(told.iter().map(|n| u32::from_le_bytes(*n)).collect())
            }
            errno => Err(-errno),
        }
    }

    pub fn pin(&mut self, pages: &[u32]) -> Result<Vec<Frame>, i64> {
        self.pin_as(self.driver, self.share, pages)
    }

    pub fn unpin(&mut self, frames: &[Frame]) -> i64 {
        self.world.vm.nucleus.out = numbers(frames);
        let answer = self.world.call_badge(self.driver, BADGE, &[vm::DMA_UNPIN]);
        self.world.vm.nucleus.out.clear();
        self.world.audit();
        answer.words[0] as i64
    }

    fn frame(&mut self, page: u64) -> Frame {
        self.world.touch(self.owner, ARENA + page, true).unwrap()
    }
}

#[test]
fn a_driver_learns_the_frames_of_the_pages_that_it_pins() {
    let mut m = machine();
    let pages = [7, 3, 19];
    let frames = m.pin(&pages).unwrap();
    for (page, frame) in pages.iter().zip(&frames) {
        assert_eq!(m.frame(u64::from(*page)), *frame);
    }
    assert_eq!(m.unpin(&frames), 0);
    assert_eq!(m.unpin(&frames[..1]), -EINVAL, "once only");
    // In words.
    let words = [vm::DMA_PIN_FEW, 3, 7 | 3 << 32, 19];
    let answer = m.world.call_badge(m.driver, m.share, &words);
    assert_eq!(answer.words[0], 0);
    assert_eq!(answer.words[1] as u32, frames[0]);
    assert_eq!((answer.words[1] >> 32) as u32, frames[1]);
    assert_eq!(answer.words[2] as u32, frames[2]);
    let words = [vm::DMA_UNPIN_FEW, 3, answer.words[1], answer.words[2]];
    assert_eq!(m.world.call_badge(m.driver, BADGE, &words).words[0], 0);
    m.world.audit();
    for count in [0, 9] {
        let words = [vm::DMA_PIN_FEW, count];
        let answer = m.world.call_badge(m.driver, m.share, &words);
        assert_eq!(answer.words[0] as i64, -EINVAL);
    }
}

#[test]
fn what_may_not_be_pinned_is_refused_and_nothing_of_it_is_pinned() {
    let mut m = machine();
    assert_eq!(m.pin(&[0, 20]), Err(EFAULT), "not resident");
    assert_eq!(m.pin(&[0, PAGES as u32]), Err(EFAULT), "not shared");
    assert_eq!(m.pin(&[u32::MAX]), Err(EFAULT));
    assert_eq!(m.pin(&[]), Err(EINVAL));
    assert_eq!(m.pin(&vec![0; PIN_MOST as usize + 1]), Err(EINVAL));
    assert_eq!(m.pin_as(m.owner, m.share, &[0]), Err(EPERM), "no driver");
    let other = native(&mut m.world);
    assert_eq!(m.pin_as(other, m.share, &[0]), Err(EPERM));
    // To be copied before it is written.
    let copy = vm::Giving::Copy as u64;
    let words = [vm::OFFER, (ARENA + 2) * PAGE, PAGE, copy];
    assert_eq!(m.world.call(m.owner, &words), 0);
    assert_eq!(m.pin(&[2]), Err(EFAULT));
    let words = [vm::PROTECT, ARENA * PAGE, PAGE, vm::prot::READ];
    assert_eq!(m.world.call(m.owner, &words), 0);
    assert_eq!(m.pin(&[0]), Err(EFAULT), "not the owner's to write");
    m.world.vm.nucleus.copy_faults = 1;
    assert_eq!(m.pin(&[1]), Err(EFAULT));
    m.world.vm.nucleus.copy_faults = 0;
    assert_eq!(m.world.vm.dma.held().count(), 0);
    let closed = m.share;
    m.world.close_object(closed);
    assert_eq!(m.pin(&[1]), Err(EBADF));
}

#[test]
fn a_memory_object_is_nobodys_own_memory() {
    let mut m = machine();
    let object = m.world.object(m.owner, &[ARENA, ARENA + 1], true).unwrap();
    // Its maker's side is.
    assert!(m.pin(&[0]).is_ok());
    let at = 0x5000;
    let words = [
        vm::OBJECT_MAP,
        at * PAGE,
        2 * PAGE,
        RW,
        flags::FIXED | flags::SHARED,
        0,
    ];
    m.world.call_badge(m.owner, object, &words);
    let second = share(&mut m.world, m.owner, at, 2).unwrap();
    assert_eq!(m.pin_as(m.driver, second, &[0]), Err(EFAULT));
}

#[test]
fn what_is_pinned_stays_away_from_others_though_its_owner_gives_it_back_or_ends() {
    let mut m = machine();
    let frames = m.pin(&[0, 1, 1]).unwrap();
    assert_eq!(frames[1], frames[2]);
    let free = m.world.vm.frames.free();
    m.give_back(0, 4);
    assert_eq!(m.world.vm.frames.free(), free + 2, "two of the four");
    m.populate(0, 4);
    assert!(!frames.contains(&m.frame(0)) && !frames.contains(&m.frame(1)));
    assert_eq!(m.unpin(&frames[..2]), 0);
    let owner = m.owner;
    m.world.destroy(owner);
    m.world.audit();
    let free = m.world.vm.frames.free();
    assert_eq!(m.pin(&[5]), Err(EBADF), "its space is gone");
    assert_eq!(m.unpin(&frames[2..]), 0);
    assert_eq!(m.world.vm.frames.free(), free + 1, "the last one");
}

#[test]
fn after_a_drivers_death_its_successor_says_when_the_device_is_done() {
    let mut m = machine();
    let driver = m.driver;
    let answer = m.world.call_badge(driver, BADGE, &[vm::DMA_ALLOC, 65536]);
    assert_eq!(answer.words[0], 0);
    let (address, physical) = (answer.words[1], answer.words[2]);
    for i in 0..16 {
        let frame = m.world.touch(driver, address / PAGE + i, true);
        assert_eq!(frame, Ok((physical / PAGE + i) as u32), "in one piece");
        assert_eq!(m.world.read(driver, address / PAGE + i), Ok(0));
    }
    m.world.audit();
    let frames = m.pin(&[2, 3]).unwrap();
    m.give_back(2, 2);
    let free = m.world.vm.frames.free();
    let second = native(&mut m.world);
    assert_eq!(m.begin(second), -EBUSY, "the first one lives");
    m.world.destroy(driver);
    m.world.audit();
    let all: HashSet<Frame> = std::iter::from_fn(|| m.world.vm.frames.alloc(0)).collect();
    let block = [(physical / PAGE) as u32];
    let mut kept = frames.iter().chain(&block);
    assert!(kept.all(|frame| !all.contains(frame)));
    all.iter()
        .for_each(|&f| assert!(m.world.vm.frames.release(f)));
    assert_eq!(m.begin(second), 0);
    assert_eq!(m.world.vm.dma.held().count(), 0);
    assert!(m.world.vm.frames.free() >= free + 16);
    // It finds a block though there are no fresh frames any more.
    m.driver = second;
    let answer = m.world.call_badge(second, BADGE, &[vm::DMA_ALLOC, 4096]);
    assert_eq!((answer.words[0], answer.words[2]), (0, physical));
    m.world.audit();
}

#[test]
fn only_a_driver_has_memory_for_a_device() {
    let mut m = machine();
    let errno = |m: &mut Machine2, who, badge, words: &[u64]| {
        m.world.call_badge(who, badge, words).words[0] as i64
    };
    let (owner, driver) = (m.owner, m.driver);
    assert_eq!(errno(&mut m, owner, 0, &[vm::DMA_BEGIN]), -EPERM);
    assert_eq!(errno(&mut m, owner, 1, &[vm::DMA_ALLOC, 4096]), -EPERM);
    let other = BADGE + 1;
    assert_eq!(errno(&mut m, owner, other, &[vm::DMA_ALLOC, 4096]), -EPERM);
    assert_eq!(errno(&mut m, driver, other, &[vm::DMA_BEGIN]), -EBUSY);
    for len in [0, 65537, u64::MAX] {
        assert_eq!(errno(&mut m, driver, BADGE, &[vm::DMA_ALLOC, len]), -EINVAL);
    }
    let given = std::iter::from_fn(|| {
        let answer = m.world.call_badge(driver, BADGE, &[vm::DMA_ALLOC, 1]);
        (answer.words[0] == 0).then_some(())
    });
    assert_eq!(given.count(), 32, "no more than that");
    m.world.audit();
    assert_eq!(m.begin(driver), 0, "again, though it lives");
    let linux = m.world.create();
    assert_eq!(share(&mut m.world, linux, 0x400, 1), Err(EPERM));
    assert_eq!(share(&mut m.world, owner, ARENA, 0), Err(EINVAL));
    let mut shares = 1;
    while share(&mut m.world, owner, ARENA, 1).is_ok() {
        shares += 1;
    }
    assert_eq!(shares, 256);
    m.world.vm.nucleus.refuse_replies = true;
    let badge = m.share;
    m.world.close_object(badge);
    let words = [vm::DMA_SHARE, ARENA * PAGE, PAGE];
    assert_eq!(m.world.call(owner, &words), -ENFILE);
    m.world.vm.nucleus.refuse_replies = false;
    assert!(share(&mut m.world, owner, ARENA, 1).is_ok(), "room again");
}

#[test]
fn a_driver_copies_what_its_device_cannot_reach() {
    let mut m = machine();
    let (driver, shared) = (m.driver, m.share);
    let copy = |m: &mut Machine2, who, badge, operation, at: u64, bytes: &mut Vec<u8>| {
        let nucleus = &mut m.world.vm.nucleus;
        match operation {
            vm::SHARE_WRITE => nucleus.out = bytes.clone(),
            _ => nucleus.input = bytes.clone(),
        }
        let answer = m.world.call_badge(who, badge, &[operation, at]);
        m.world.vm.nucleus.out.clear();
        let told = std::mem::take(&mut m.world.vm.nucleus.input);
        if operation == vm::SHARE_READ {
            *bytes = told;
        }
        m.world.audit();
        answer.words[0] as i64
    };
    // From the end of page 18 over 19 to 20, which was not used yet.
    let mut sent: Vec<u8> = (0..PAGE + 200).map(|i| (i % 251) as u8).collect();
    let (at, length) = (19 * PAGE - 100, sent.len() as i64);
    assert_eq!(
        copy(&mut m, driver, shared, vm::SHARE_WRITE, at, &mut sent),
        length
    );
    let mut got = vec![0; sent.len()];
    assert_eq!(
        copy(&mut m, driver, shared, vm::SHARE_READ, at, &mut got),
        length
    );
    assert!(got == sent);
    // Beyond what is shared, too much, by others, after the end.
    let end = PAGES * PAGE;
    for at in [end - 1, end, u64::MAX] {
        assert_eq!(
            copy(&mut m, driver, shared, vm::SHARE_READ, at, &mut got),
            -EFAULT
        );
    }
    let mut long = vec![0; 65537];
    assert_eq!(
        copy(&mut m, driver, shared, vm::SHARE_READ, 0, &mut long),
        -EFAULT
    );
    let owner = m.owner;
    assert_eq!(
        copy(&mut m, owner, shared, vm::SHARE_READ, 0, &mut got),
        -EPERM
    );
    m.world.destroy(owner);
    assert_eq!(
        copy(&mut m, driver, shared, vm::SHARE_WRITE, 0, &mut sent),
        -EBADF
    );
}
