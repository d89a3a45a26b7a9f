//! Caches: they take what is idle, give it back when it is wanted, and nobody waits for a lender that does not come.

use super::*;
use crate::cache::PATIENCE;
use cairn_idl::errno::*;
use cairn_idl::vm::advice;

const ARENA: u64 = 0x10_0000;
const ARENA_PAGES: u64 = 4000;
const P: u64 = 0x400;
const FRAMES: u32 = 4000;
/// Slots of the portals that are notified.
const KILLER: u32 = 60;
const FIRST: u32 = 61;

struct Bank {
    world: World,
    killer: Id,
    program: Id,
    lender: Id,
    /// What the lender's cache has, from the arena's beginning.
    lent: u64,
}

fn kept_portal(w: &mut World, sender: Id, badge: u64, words: [u64; 8]) -> i64 {
    let request = Request {
        words,
        badge,
        sender,
        portals: 1,
        ..Request::default()
    };
    w.request(request).1.expect("an answer").words[0] as i64
}

impl Bank {
    fn new() -> Bank {
        let mut world = World::new(FRAMES);
        let native = |w: &mut World| w.made(&[vm::CREATE, 0, 0]).unwrap();
        let (killer, lender) = (native(&mut world), native(&mut world));
        let program = world.create();
        world.map(program, P, 3900);
        let watch = [vm::WATCH_EXHAUSTED, 0, 0, 0, 0, 0, 0, u64::from(KILLER)];
        assert_eq!(kept_portal(&mut world, killer, BADGE_CONTROL, watch), 0);
        let mut bank = Bank {
            world,
            killer,
            program,
            lender,
            lent: 0,
        };
        bank.declare(lender, FIRST);
        bank
    }

    fn declare(&mut self, lender: Id, watcher: u32) {
        self.world.map(lender, ARENA, ARENA_PAGES);
        let (address, len) = (ARENA * PAGE, ARENA_PAGES * PAGE);
        let words = [vm::CACHE, address, len, 0, 0, 0, 0, u64::from(watcher)];
        assert_eq!(kept_portal(&mut self.world, lender, 0, words), 0);
    }

    fn grow(&mut self) -> bool {
        let at = ARENA + self.lent;
        let words = [vm::ADVISE, at * PAGE, 64 * PAGE, advice::POPULATE_WRITE];
        let grown = self.world.call(self.lender, &words);
        if grown == 0 {
            self.lent += 64;
            return true;
        }
        assert_eq!(grown, -ENOMEM);
        let words = [vm::ADVISE, at * PAGE, 64 * PAGE, advice::DONT_NEED];
        assert_eq!(self.world.call(self.lender, &words), 0);
        false
    }

    fn fill(&mut self) {
        while self.grow() {}
        assert!(self.lent > 2500, "idle memory is cache: {}", self.lent);
    }

    fn wanted(&mut self, nothing_left: u64) -> i64 {
        let words = [vm::CACHE_WANTED, nothing_left];
        self.world.call(self.lender, &words)
    }

    /// The lender does what it should.
    fn give(&mut self) {
        loop {
            let wanted = self.wanted(u64::from(self.lent == 0)) as u64;
            if wanted == 0 {
                return;
            }
            assert!(wanted <= self.lent);
            self.lent -= wanted;
            let at = ARENA + self.lent;
            let words = [vm::ADVISE, at * PAGE, wanted * PAGE, advice::DONT_NEED];
            assert_eq!(self.world.call(self.lender, &words), 0);
        }
    }

    fn told(&mut self, slot: u32) -> usize {
        let all = &self.world.vm.nucleus.notifications;
        all.iter().filter(|told| **told == slot).count()
    }

    /// The program writes a page, or waits for it.
    fn write(&mut self, page: u64) -> bool {
        self.world.write(self.program, page, 1).is_ok()
    }

    fn replies(&mut self) -> Vec<u64> {
        let replies = std::mem::take(&mut self.world.vm.nucleus.replies);
        replies.iter().map(|(_, answer)| answer.words[0]).collect()
    }
}

#[test]
fn programs_get_all_that_caches_have_and_nobody_is_ended_for_it() {
    let mut b = Bank::new();
    b.fill();
    assert!(!b.grow());
    let mut waited = 0;
    for page in P..P + 3000 {
        let asked = b.told(FIRST);
        if !b.write(page) {
            waited += 1;
        }
        if b.told(FIRST) > asked {
            b.give();
        }
        for answer in b.replies() {
            assert_eq!(answer, fault::RESOLVED);
        }
    }
    assert_eq!(waited, 0, "who gives in time lets nobody wait");
    assert_eq!(b.told(KILLER), 0);
    assert!(b.told(FIRST) > 10);
    assert!(b.lent < 600);
    b.world.audit();
    // Memory that is idle again is cache again.
    b.world.destroy(b.program);
    b.fill();
    b.world.audit();
}

#[test]
fn faults_and_requests_wait_for_a_slow_lender() {
    let mut b = Bank::new();
    b.fill();
    let mut page = P;
    while b.write(page) {
        page += 1;
    }
    assert_eq!((b.told(FIRST), b.told(KILLER)), (1, 0), "asked once");
    // Another server asks for resident memory.
    let other = b.world.made(&[vm::CREATE, 0, 0]).unwrap();
    b.world.map(other, P, 100);
    let words = [vm::ADVISE, P * PAGE, 100 * PAGE, advice::POPULATE_WRITE];
    let request = Request {
        words: Answer::new(&words).words,
        sender: other,
        ..Request::default()
    };
    assert_eq!(b.world.request(request).1, None, "it waits");
    let dead = Request {
        words: Answer::new(&words).words,
        sender: other,
        ..Request::default()
    };
    let (token, answer) = b.world.request(dead);
    assert_eq!(answer, None);
    let gone = Request {
        kind: received::kind::PULSE,
        words: Answer::new(&[cairn_abi::pulse::GONE, token]).words,
        ..Request::default()
    };
    b.world.request(gone);
    assert_eq!(b.replies(), []);
    b.give();
    let mut replies = b.replies();
    replies.sort_unstable();
    assert_eq!(replies, [0, fault::RESOLVED]);
    assert_eq!(b.told(KILLER), 0);
    b.world.audit();
}

#[test]
fn a_lender_that_does_not_come_is_waited_for_no_more() {
    let mut b = Bank::new();
    b.fill();
    assert_eq!(b.world.vm.deadline(), None);
    let mut page = P;
    while b.write(page) {
        page += 1;
    }
    let deadline = b.world.vm.deadline().expect("somebody waits");
    b.world.vm.nucleus.time = deadline - 1;
    b.world.vm.late();
    assert_eq!(b.told(KILLER), 0, "not yet");
    // It comes in time, and then no more.
    let wanted = b.wanted(0);
    assert!(wanted > 0);
    assert_eq!(b.world.vm.deadline(), Some(deadline - 1 + PATIENCE));
    b.world.vm.nucleus.time += PATIENCE;
    b.world.vm.late();
    assert_eq!(b.told(KILLER), 1);
    // Its cache does not grow until it comes, even if there is memory.
    b.world.destroy(b.program);
    assert!(!b.grow());
    assert_eq!(b.wanted(0), 0);
    assert!(b.grow());
    b.world.audit();
}

#[test]
fn when_nothing_is_left_somebody_ends() {
    let mut b = Bank::new();
    b.fill();
    let mut page = P;
    while b.write(page) {
        page += 1;
    }
    // All that it has is dirty, say.
    assert_eq!(b.wanted(1), 0);
    assert_eq!((b.told(KILLER), b.world.vm.deadline()), (1, None));
    let program = b.program;
    assert_eq!(b.world.vm.largest(), Some(program));
    b.world.destroy(program);
    b.world.audit();
    let _ = b.killer;
}

#[test]
fn a_lenders_memory_goes_with_it() {
    let mut b = Bank::new();
    b.fill();
    let mut page = P;
    while b.write(page) {
        page += 1;
    }
    b.world.destroy(b.lender);
    assert_eq!(b.replies(), [fault::RESOLVED]);
    assert_eq!(
        b.world
            .vm
            .nucleus
            .closed
            .iter()
            .filter(|s| **s == FIRST)
            .count(),
        1
    );
    assert_eq!(b.world.vm.all_lent(), 0);
    // (What its end frees for the pools is looked for later.)
    b.world.vm.pools.rest_at = None;
    assert_eq!(b.world.vm.deadline(), None);
    b.world.audit();
}

#[test]
fn each_gives_in_proportion_and_none_waits_for_itself() {
    let mut b = Bank::new();
    let second = b.world.made(&[vm::CREATE, 0, 0]).unwrap();
    b.declare(second, FIRST + 1);
    for _ in 0..10 {
        let at = (ARENA + 100) * PAGE;
        let words = [vm::ADVISE, at, 640 * PAGE, advice::POPULATE_WRITE];
        assert_eq!(b.world.call(second, &words), 0);
    }
    while b.grow() {}
    let mut page = P;
    while b.write(page) {
        page += 1;
    }
    assert_eq!((b.told(FIRST), b.told(FIRST + 1)), (1, 1));
    let own = b.wanted(0) as u64;
    let theirs = b.world.call(second, &[vm::CACHE_WANTED, 0]) as u64;
    let (mine, all) = (b.lent, b.lent + 640);
    let missing = own + theirs;
    assert!(
        own.abs_diff(missing * mine / all) <= 2,
        "{own} and {theirs}"
    );
    assert_eq!(b.world.vm.memory_stat().words[7], all);
    // A fault of a lender's thread (copying for a program) is answered at once.
    let space = b.world.vm.domain(b.program).unwrap().space;
    let badge = b.world.vm.spaces.get(space).unwrap().handle;
    let request = Request {
        kind: received::kind::FAULT,
        words: [
            (page + 1) * PAGE,
            fault::WRITE,
            0,
            0,
            u64::from(second),
            0,
            0,
            0,
        ],
        badge,
        sender: b.program,
        ..Request::default()
    };
    let answer = b.world.request(request).1.expect("at once");
    assert_eq!(answer.words[0], fault::RESOLVED);
    b.world.audit();
}

#[test]
fn requests_are_judged() {
    let mut b = Bank::new();
    let watcher = u64::from(FIRST);
    let mut ask = |who, words: [u64; 3], portals| {
        let request = Request {
            words: [vm::CACHE, words[0], words[1], 0, 0, 0, 0, words[2]],
            sender: who,
            portals,
            ..Request::default()
        };
        let answer = b.world.request(request).1.expect("an answer");
        answer.words[0] as i64
    };
    let program = b.program;
    assert_eq!(ask(program, [P * PAGE, PAGE, watcher], 1), -EPERM);
    assert_eq!(ask(b.lender, [P * PAGE + 1, PAGE, watcher], 1), -EINVAL);
    assert_eq!(ask(b.lender, [P * PAGE, 0, watcher], 1), -EINVAL);
    assert_eq!(ask(b.lender, [P * PAGE, PAGE, watcher], 0), -EINVAL);
    assert_eq!(b.world.call(program, &[vm::CACHE_WANTED, 0]), -EINVAL);
}

#[test]
fn who_may_has_all_caches_dropped_a_piece_at_a_time() {
    let mut b = Bank::new();
    b.fill();
    let badge = cairn_idl::vm::BADGE_INSPECT;
    let lender = b.lender;
    let drop = |b: &mut Bank, badge| {
        let answer = b.world.call_badge(lender, badge, &[vm::DROP_CACHES]);
        answer.words[0] as i64
    };
    assert_eq!(drop(&mut b, 0), -cairn_idl::errno::EPERM);
    assert_eq!((b.told(FIRST), b.wanted(0)), (0, 0));
    let all = b.lent;
    assert_eq!(drop(&mut b, badge), 0);
    let mut rounds = 0;
    while b.told(FIRST) > rounds {
        rounds += 1;
        let before = b.lent;
        b.give();
        assert!(before - b.lent <= 1024, "others are served between");
    }
    assert!(
        rounds as u64 > all / 1024 && b.lent == 0,
        "{rounds} {}",
        b.lent
    );
    // It fills again, and nothing is wanted of that.
    b.fill();
    b.give();
    assert_eq!(b.lent, all);
    // Who cannot give anything is not asked for ever.
    assert_eq!(drop(&mut b, badge), 0);
    assert!(b.wanted(0) > 0);
    assert_eq!(b.wanted(1), 0);
    let told = b.told(FIRST);
    b.give();
    assert_eq!((b.lent, b.told(FIRST)), (all, told));
    b.world.audit();
}
