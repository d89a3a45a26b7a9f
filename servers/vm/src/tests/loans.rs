//! Pages that programs lend for a transfer: what may be lent, that the device writes to these frames whatever the program does meanwhile, and that they are nobody else's until the driver has unpinned them.

use super::dma::{machine_in, Machine2};
use super::*;
use cairn_idl::errno::*;
use cairn_idl::vm::{advice, flags, BORROWED_FIRST, LOAN_MOST, WINDOWS, WINDOW_PAGES};

const HERE: u64 = 0x400;
const PASSED: u32 = 77;

struct Lent {
    m: Machine2,
    program: Id,
}

/// A server with an arena, a driver, and a program with 300 pages.
fn lent() -> Lent {
    let mut world = World::new(6000);
    let program = world.create();
    world.map(program, HERE, 300);
    let m = machine_in(world);
    Lent { m, program }
}

fn page_of(window: u32, page: u32) -> u32 {
    BORROWED_FIRST + window * WINDOW_PAGES + page
}

impl Lent {
    fn lend_bytes(&mut self, address: u64, length: u64) -> Result<u64, i64> {
        let words = [vm::DMA_LEND, address, length];
        let answer = self.m.world.call_badge(self.program, 0, &words);
        self.m.world.audit();
        match (answer.words[0] as i64, answer.pass) {
            (0, Some(Pass::Mint(badge))) => {
                assert_eq!(answer.words[1], badge, "its number");
                Ok(badge)
            }
            (errno, _) => Err(-errno),
        }
    }

    fn lend(&mut self, page: u64, pages: u64) -> Result<u64, i64> {
        self.lend_bytes(page * PAGE, pages * PAGE)
    }

    fn borrow_as(&mut self, who: Id, window: u64, badge: u64) -> i64 {
        self.m.world.vm.nucleus.passed.insert(PASSED, badge);
        let (share, passed) = (self.m.share, u64::from(PASSED));
        let (_, answer) = self.m.world.request(Request {
            words: [vm::DMA_BORROW, window, 0, 0, 0, 0, 0, passed],
            badge: share,
            sender: who,
            portals: 1,
            ..Request::default()
        });
        assert_eq!(self.m.world.vm.nucleus.closed.pop(), Some(PASSED));
        answer.expect("an answer").words[0] as i64
    }

    fn borrow(&mut self, window: u64, badge: u64) -> i64 {
        self.borrow_as(self.m.owner, window, badge)
    }

    /// The loan's last portal goes.
    fn end(&mut self, badge: u64) {
        self.m.world.close_object(badge);
        self.m.world.audit();
    }

    /// What the device does.
    fn device_writes(&mut self, frames: &[Frame], value: u8) {
        for &frame in frames {
            self.m.world.vm.nucleus.frame(frame).fill(value);
        }
    }

    fn reads(&mut self, who: Id, page: u64) -> Result<u8, u64> {
        self.m.world.read(who, page)
    }
}

#[test]
fn the_device_reaches_what_is_lent_and_no_more() {
    let mut l = lent();
    // From within page 1 to within page 3; the pages come into being by it.
    let loan = l.lend_bytes((HERE + 1) * PAGE + 512, 2 * PAGE).unwrap();
    assert_eq!(l.m.pin(&[page_of(0, 0)]), Err(EFAULT), "not borrowed yet");
    assert_eq!(l.borrow(3, loan), 0);
    let frames = l.m.pin(&[page_of(3, 0), page_of(3, 2)]).unwrap();
    let first = l.m.world.touch(l.program, HERE + 1, true).unwrap();
    assert_eq!(frames[0], first);
    l.device_writes(&frames, 9);
    assert_eq!(l.reads(l.program, HERE + 1), Ok(9));
    assert_eq!(l.reads(l.program, HERE + 2), Ok(0));
    assert_eq!(l.reads(l.program, HERE + 3), Ok(9));
    for page in [page_of(3, 3), page_of(2, 0), u32::MAX] {
        assert_eq!(l.m.pin(&[page]), Err(EFAULT), "{page:#x}");
    }
    assert_eq!(l.m.unpin(&frames), 0);
    l.end(loan);
    assert_eq!(l.m.pin(&[page_of(3, 0)]), Err(EFAULT), "it is over");
    // The window may have another one, and the old one's number leads nowhere.
    let other = l.lend(HERE + 10, 1).unwrap();
    assert_eq!(l.borrow(3, loan), 0);
    assert_eq!(l.m.pin(&[page_of(3, 0)]), Err(EFAULT));
    assert_eq!(l.borrow(3, other), 0);
    let frames = l.m.pin(&[page_of(3, 0)]).unwrap();
    assert_eq!(l.m.world.touch(l.program, HERE + 10, true), Ok(frames[0]));
}

#[test]
fn only_private_memory_that_can_be_written_is_lent() {
    let mut l = lent();
    let p = l.program;
    let read_only = [vm::PROTECT, (HERE + 5) * PAGE, PAGE, prot::READ];
    assert_eq!(l.m.world.call(p, &read_only), 0);
    assert_eq!(l.lend(HERE, 10), Err(EFAULT), "read-only");
    assert_eq!(l.lend(HERE + 299, 2), Err(EFAULT), "a hole");
    let shared = [
        vm::MAP,
        0x1000 * PAGE,
        PAGE,
        RW,
        flags::FIXED | flags::SHARED,
    ];
    assert!(l.m.world.call(p, &shared) > 0);
    assert_eq!(l.lend(0x1000, 1), Err(EFAULT), "shared");
    assert_eq!(l.lend_bytes(HERE * PAGE, 0), Err(EINVAL));
    assert_eq!(l.lend(HERE, LOAN_MOST + 1), Err(EINVAL));
    assert_eq!(l.lend_bytes(u64::MAX - 5, 3), Err(EFAULT));
    assert_eq!(l.lend_bytes(HERE * PAGE, u64::MAX), Err(EFAULT));
    // Who may borrow: the arena's owner, what is a loan.
    let loan = l.lend(HERE + 10, 1).unwrap();
    let (driver, share) = (l.m.driver, l.m.share);
    assert_eq!(l.borrow_as(driver, 0, loan), -EPERM);
    assert_eq!(l.borrow_as(p, 0, loan), -EPERM);
    assert_eq!(l.borrow(0, share), -EBADF);
    assert_eq!(l.borrow(0, 5), -EBADF);
    assert_eq!(l.borrow(WINDOWS as u64, loan), -EINVAL);
    assert_eq!(l.borrow(u64::MAX, loan), -EINVAL);
    // A loan's portal is good for nothing else.
    for operation in [vm::DMA_PIN, vm::SHARE_READ, vm::OBJECT_MAP, vm::MAP] {
        let answer = l.m.world.call_badge(driver, loan, &[operation, 1]);
        assert!((answer.words[0] as i64) < 0);
    }
    let limit = [vm::LIMIT, u64::from(p), 302];
    assert_eq!(l.m.world.control(&limit), 0);
    assert_eq!(l.lend(HERE + 20, 5), Err(ENOMEM), "they are to be paid for");
    l.end(loan);
    // Loans are not without end.
    assert_eq!(l.m.world.control(&[vm::LIMIT, u64::from(p), 0]), 0);
    let all: Vec<u64> = std::iter::from_fn(|| l.lend(HERE + 10, 1).ok()).collect();
    assert_eq!((all.len(), l.lend(HERE + 10, 1)), (64, Err(ENFILE)));
    for loan in all {
        l.end(loan);
    }
    assert!(l.lend(HERE, 1).is_ok());
}

#[test]
fn a_page_that_is_shared_with_a_child_is_copied_before_it_is_lent() {
    let mut l = lent();
    let p = l.program;
    l.m.world.write(p, HERE, 5).unwrap();
    let child = l.m.world.fork(p).unwrap();
    let loan = l.lend(HERE, 2).unwrap();
    assert_eq!(l.borrow(0, loan), 0);
    let frames = l.m.pin(&[page_of(0, 0), page_of(0, 1)]).unwrap();
    l.device_writes(&frames, 7);
    assert_eq!(l.reads(p, HERE), Ok(7));
    assert_eq!(l.reads(child, HERE), Ok(5));
}

#[test]
fn a_fork_in_the_middle_leaves_the_device_with_the_parent() {
    let mut l = lent();
    let p = l.program;
    for page in 0..130 {
        l.m.world.write(p, HERE + page, 1).unwrap();
    }
    let loan = l.lend(HERE, 130).unwrap();
    assert_eq!(l.borrow(0, loan), 0);
    let first = l.m.pin(&[page_of(0, 0)]).unwrap();
    let child = l.m.world.fork(p).unwrap();
    l.m.world.audit();
    let rest: Vec<u32> = (1..130).map(|page| page_of(0, page)).collect();
    let rest = l.m.pin(&rest).unwrap();
    // The parent writes beside what the device does.
    l.m.world.write(p, HERE + 3, 2).unwrap();
    l.device_writes(&first, 8);
    l.device_writes(&rest, 8);
    for page in 0..130 {
        assert_eq!(l.reads(p, HERE + page), Ok(8), "page {page}");
        assert_eq!(l.reads(child, HERE + page), Ok(1), "page {page}");
    }
    l.m.world.write(child, HERE, 3).unwrap();
    assert_eq!(l.reads(p, HERE), Ok(8));
    l.end(loan);
    // What is not lent any more is copied when it is written, as ever.
    let other = l.m.world.fork(p).unwrap();
    l.m.world.write(p, HERE + 100, 4).unwrap();
    assert_eq!(l.reads(other, HERE + 100), Ok(8));
    l.m.world.audit();
}

#[test]
fn a_fork_without_memory_for_the_copies_is_refused() {
    let mut world = World::new(1200);
    let program = world.create();
    world.map(program, HERE, 400);
    let mut l = Lent {
        m: machine_in(world),
        program,
    };
    let loan = l.lend(HERE, 400).unwrap();
    let taken = l.m.world.create();
    l.m.world.map(taken, 0x8000, 600);
    let mut page = 0;
    while l.m.world.vm.frames.free() > 300 && l.m.world.touch(taken, 0x8000 + page, true).is_ok() {
        page += 1;
    }
    assert!(l.m.world.fork(program).is_err());
    l.m.world.audit();
    l.m.world.destroy(taken);
    assert_eq!(l.borrow(0, loan), 0);
    let frames = l.m.pin(&[page_of(0, 0), page_of(0, 399)]).unwrap();
    l.device_writes(&frames, 6);
    assert_eq!(l.reads(program, HERE), Ok(6));
    assert_eq!(l.reads(program, HERE + 399), Ok(6));
}

#[test]
fn whatever_the_program_does_its_frames_are_nobody_elses() {
    let mut l = lent();
    let p = l.program;
    let loan = l.lend(HERE, 20).unwrap();
    assert_eq!(l.borrow(0, loan), 0);
    let pinned = l.m.pin(&[page_of(0, 0), page_of(0, 9)]).unwrap();
    // It unmaps the memory, has other memory there, gives pages back, ends.
    let unmap = [vm::UNMAP, HERE * PAGE, 5 * PAGE];
    assert_eq!(l.m.world.call(p, &unmap), 0);
    l.m.world.map(p, HERE, 5);
    l.m.world.write(p, HERE, 3).unwrap();
    let drop = [vm::ADVISE, (HERE + 5) * PAGE, 10 * PAGE, advice::DONT_NEED];
    assert_eq!(l.m.world.call(p, &drop), 0);
    l.m.world.audit();
    let late = l.m.pin(&[page_of(0, 7)]).unwrap();
    l.device_writes(&pinned, 9);
    l.device_writes(&late, 9);
    assert_eq!(l.reads(p, HERE), Ok(3));
    assert_eq!(l.reads(p, HERE + 9), Ok(0));
    l.m.world.destroy(p);
    l.m.world.audit();
    // The loan goes on until its portal is closed, and what is pinned until it is unpinned, or the device was reset.
    let more = l.m.pin(&[page_of(0, 19)]).unwrap();
    l.end(loan);
    for frame in [pinned[0], pinned[1], late[0], more[0]] {
        assert_eq!(l.m.world.vm.frames.references(frame), 1);
    }
    assert_eq!(l.m.unpin(&pinned), 0);
    let driver = l.m.driver;
    l.m.world.destroy(driver);
    assert_eq!(l.m.world.vm.frames.references(late[0]), 1);
    let next = super::dma::native(&mut l.m.world);
    assert_eq!(l.m.begin(next), 0);
    l.m.world.audit();
    assert_ne!(l.m.world.vm.frames.references(late[0]), 1, "free");
}

#[test]
fn a_driver_without_a_device_copies_to_what_is_lent() {
    let mut l = lent();
    let loan = l.lend_bytes(HERE * PAGE + 512, 40 * PAGE).unwrap();
    assert_eq!(l.borrow(1, loan), 0);
    let (driver, share) = (l.m.driver, l.m.share);
    let at = u64::from(page_of(1, 0)) * PAGE + 512;
    let sent: Vec<u8> = (0..17 * PAGE as usize).map(|i| (i % 253) as u8).collect();
    l.m.world.vm.nucleus.out = sent[..65536].to_vec();
    let answer = l.m.world.call_badge(driver, share, &[vm::SHARE_WRITE, at]);
    assert_eq!(answer.words[0], 65536);
    l.m.world.vm.nucleus.out.clear();
    l.m.world.vm.nucleus.input = vec![0; 65536];
    let answer = l.m.world.call_badge(driver, share, &[vm::SHARE_READ, at]);
    assert_eq!(answer.words[0], 65536);
    let got = std::mem::take(&mut l.m.world.vm.nucleus.input);
    assert!(got == sent[..65536]);
    let frame = l.m.world.touch(l.program, HERE + 2, true).unwrap();
    let inside = l.m.world.vm.nucleus.frame(frame);
    assert_eq!(inside[..10], sent[2 * PAGE as usize - 512..][..10]);
    // Beyond the loan's 41 pages, another window, and what is no window.
    for at in [
        u64::from(page_of(1, 40)) * PAGE,
        u64::from(page_of(1, 41)) * PAGE,
        u64::from(page_of(2, 0)) * PAGE,
        u64::MAX - 65536,
    ] {
        l.m.world.vm.nucleus.out = sent[..65536].to_vec();
        let answer = l.m.world.call_badge(driver, share, &[vm::SHARE_WRITE, at]);
        assert_eq!(answer.words[0] as i64, -EFAULT, "{at:#x}");
    }
    l.m.world.audit();
}

#[test]
fn users_leave_loans_to_each_other_and_to_user_0() {
    let mut l = lent();
    let as_user = |l: &mut Lent, uid: u32| {
        let program = l.m.world.create();
        let words = [vm::SET_ACCOUNT, program.into(), uid.into()];
        assert_eq!(l.m.world.control(&words), 0);
        l.m.world.map(program, HERE, 4);
        l.program = program;
    };
    let lends = |l: &mut Lent| -> Vec<u64> { (0..).map_while(|_| l.lend(HERE, 1).ok()).collect() };
    as_user(&mut l, 1000);
    let mut first = lends(&mut l);
    assert_eq!((first.len(), l.lend(HERE, 1)), (16, Err(ENFILE)));
    // All programs of a user have them together.
    as_user(&mut l, 1000);
    assert_eq!(l.lend(HERE, 1), Err(ENFILE));
    for uid in [1001, 1002] {
        as_user(&mut l, uid);
        assert_eq!(lends(&mut l).len(), 16);
    }
    as_user(&mut l, 1003);
    assert_eq!(l.lend(HERE, 1), Err(ENFILE));
    as_user(&mut l, 0);
    assert_eq!(lends(&mut l).len(), 16);
    l.end(first.pop().unwrap());
    as_user(&mut l, 1000);
    assert_eq!(l.lend(HERE, 1), Err(ENFILE), "the users' room is user 0's");
}
