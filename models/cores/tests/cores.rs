//! What must hold for the lock, wake-ups and requests between cores, in every order up to a bound of preemptions; and faults that must be found.

use cairn_models_cores::atomic::without_fences;
use cairn_models_cores::board::{Board, Core, Event, Fault};
use cairn_models_cores::requests::{Wires, FETCH, FLUSH};
use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;
use std::process::Command;

/// Preemptions at places where nobody waits, in one run: always, and in the long tests.
const FEW: usize = 3;
const MORE: usize = 4;

/// Whoever waits for the lock sleeps at once, or looks once more before that.
fn explore(preemptions: usize, run: impl Fn(u32) + Copy + Sync + Send + 'static) {
    for looks in [0, 1] {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 20_000;
        builder.check(move || run(looks));
    }
}

/// Set where a test is to fail.
const FAULTY: &str = "CAIRN_MODELS_FAULT";

/// The exploration in test `name` must end with these words. It is done by another process: where nobody can go on, loom's own clean-up cannot either.
fn finds(name: &str, words: &str, run: impl Fn(u32) + Copy + Sync + Send + 'static) {
    if std::env::var_os(FAULTY).is_some() {
        return explore(MORE, run);
    }
    let this = std::env::current_exe().expect("this program has a name");
    let ended = Command::new(this)
        .args(["--exact", name, "--nocapture"])
        .env(FAULTY, "1")
        .output()
        .expect("it runs once more");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "the fault was not found");
    assert!(said.contains(words), "something else was found: {said}");
}

/// What the nucleus has: one may touch it at a time. The number is written and read weakly, so that a value could be old.
struct Inside {
    state: UnsafeCell<()>,
    number: AtomicU32,
}

impl Inside {
    fn new() -> Inside {
        Inside {
            state: UnsafeCell::new(()),
            number: AtomicU32::new(0),
        }
    }

    fn count(&self) {
        self.state.with_mut(|_| ());
        self.number.store(self.number.load(Relaxed) + 1, Relaxed);
    }
}

/// After its own work a core runs a program, and does what others want, until all have done theirs.
fn until_all_are_done(core: &Core, board: &Board, done: &AtomicU32, cores: u32) {
    if done.fetch_add(1, AcqRel) + 1 == cores {
        board.over();
    }
    while core.program(true) != Some(Event::Over) {}
}

// ---- the lock

fn one_at_a_time(looks: u32, cores: usize, rounds: u32, fault: Option<Fault>) {
    each_works(looks, cores, rounds, fault, |_, core, inside| {
        in_turn(core, inside);
    });
}

fn in_turn(core: &Core, inside: &Inside) {
    core.come_in();
    inside.count();
    core.go_out();
}

/// So many cores work inside so often, each alone.
fn each_works(
    looks: u32,
    cores: usize,
    rounds: u32,
    fault: Option<Fault>,
    once: fn(usize, &Core, &Inside),
) {
    let board = Board::new(looks, fault, Box::new(|_, _| ()));
    let inside = Arc::new(Inside::new());
    let work = |number: usize| {
        let (core, inside) = (board.core(number), inside.clone());
        move || {
            for _ in 0..rounds {
                once(number, &core, &inside);
            }
        }
    };
    let others: Vec<_> = (1..cores).map(|n| thread::spawn(work(n))).collect();
    work(0)();
    for other in others {
        other.join().expect("it ends");
    }
    assert_eq!(inside.number.load(Relaxed), cores as u32 * rounds);
}

#[test]
fn one_at_a_time_and_everybody_gets_the_lock() {
    explore(FEW, |looks| one_at_a_time(looks, 2, 2, None));
}

#[test]
fn three_cores_hand_it_over() {
    explore(2, |looks| one_at_a_time(looks, 3, 1, None));
}

#[test]
#[ignore = "takes minutes"]
fn three_cores_hand_it_over_in_more_orders() {
    explore(FEW, |looks| one_at_a_time(looks, 3, 1, None));
}

#[test]
#[ignore = "takes minutes"]
fn one_at_a_time_in_more_orders() {
    explore(MORE, |looks| one_at_a_time(looks, 2, 2, None));
}

#[test]
fn a_wake_up_that_is_not_kept_is_missed() {
    finds(
        "a_wake_up_that_is_not_kept_is_missed",
        "deadlock",
        |looks| one_at_a_time(looks, 2, 1, Some(Fault::LosesEarlyAlert)),
    );
}

#[test]
fn without_one_order_for_all_a_wake_up_is_missed() {
    finds(
        "without_one_order_for_all_a_wake_up_is_missed",
        "deadlock",
        |looks| without_fences(|| one_at_a_time(looks, 2, 1, None)),
    );
}

// ---- the lock out of turn

/// Core 0 comes in in turn, the others pass it by where they can and come in where they cannot, as portal code does, so each of them has been in.
fn pass_by(looks: u32, cores: usize, rounds: u32, fault: Option<Fault>) {
    each_works(looks, cores, rounds, fault, |number, core, inside| {
        if number == 0 || !core.pass(|| inside.count()) {
            in_turn(core, inside);
        }
    });
}

#[test]
fn who_passes_is_alone_and_nobody_is_kept_out() {
    explore(FEW, |looks| pass_by(looks, 2, 2, None));
}

#[test]
fn two_pass_a_third() {
    explore(FEW, |looks| pass_by(looks, 3, 1, None));
}

#[test]
#[ignore = "takes minutes"]
fn two_pass_a_third_in_more_orders() {
    explore(MORE, |looks| pass_by(looks, 3, 1, None));
}

#[test]
fn who_passes_in_two_steps_is_not_alone() {
    finds(
        "who_passes_in_two_steps_is_not_alone",
        "Causality violation",
        |looks| pass_by(looks, 2, 1, Some(Fault::PassesInTwoSteps)),
    );
}

/// Core 1 makes a quick call and replies to it, both by passing; core 0 comes in once and settles what it finds under way. The reply is quick only if the call was not settled: whoever
/// looks at the objects finds no call half done, and each call is ended once. `looks_early`: the reply asks before it has the lock.
fn settle_a_quick_call(looks: u32, looks_early: bool) {
    let board = Board::new(looks, None, Box::new(|_, _| ()));
    // Under way and not settled; settled; ended.
    let (quick, settled, ended) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let objects = Arc::new(UnsafeCell::new(()));
    let other = {
        let core = board.core(1);
        let (quick, settled, ended) = (quick.clone(), settled.clone(), ended.clone());
        let objects = objects.clone();
        thread::spawn(move || {
            let called = core.pass(|| {
                objects.with_mut(|_| ());
                quick.store(true, Relaxed);
            });
            let early = looks_early && quick.load(Relaxed);
            let replied = Cell::new(false);
            if called {
                core.pass(|| {
                    if early || quick.load(Relaxed) {
                        objects.with_mut(|_| ());
                        let was_settled = settled.load(Relaxed);
                        assert!(
                            !was_settled,
                            "a settled call is replied to as if it were not"
                        );
                        quick.store(false, Relaxed);
                        ended.fetch_add(1, Relaxed);
                        replied.set(true);
                    }
                });
            }
            if !replied.get() {
                // In turn; what is still under way is settled first.
                core.come_in();
                objects.with_mut(|_| ());
                let under_way = quick.swap(false, Relaxed) || settled.swap(false, Relaxed);
                assert_eq!(under_way, called);
                ended.fetch_add(1, Relaxed);
                core.go_out();
            }
        })
    };
    let core = board.core(0);
    core.come_in();
    objects.with_mut(|_| ());
    if quick.swap(false, Relaxed) {
        settled.store(true, Relaxed);
    }
    core.go_out();
    other.join().expect("it ends");
    assert_eq!(ended.load(Relaxed), 1);
    assert!(!quick.load(Relaxed) && !settled.load(Relaxed));
}

#[test]
fn a_quick_call_ends_once_settled_or_not() {
    explore(FEW, |looks| settle_a_quick_call(looks, false));
}

#[test]
fn a_reply_that_asks_before_it_has_the_lock_is_found() {
    finds(
        "a_reply_that_asks_before_it_has_the_lock_is_found",
        "as if it were not",
        |looks| settle_a_quick_call(looks, true),
    );
}

// ---- translations

/// Core 0 takes a page away and gives its frame to somebody else, core 1 runs a program that uses the page, goes in and out, and uses it again.
fn take_a_page_away(looks: u32, fault: Option<Fault>) {
    // The entry in the tables, what core 1 has of it, and the frame.
    let entry = Arc::new(AtomicBool::new(true));
    let cached = Arc::new(AtomicBool::new(true));
    let frame = Arc::new(UnsafeCell::new(()));
    let done = Arc::new(AtomicU32::new(0));
    let forgets = cached.clone();
    let obey = move |core, wanted| {
        assert_eq!((core, wanted), (1, FLUSH));
        forgets.store(false, Relaxed);
    };
    let board = Board::new(looks, fault, Box::new(obey));
    let other = {
        let (board, core) = (board.clone(), board.core(1));
        let (entry, cached, frame, done) =
            (entry.clone(), cached.clone(), frame.clone(), done.clone());
        thread::spawn(move || {
            let program = || {
                if !cached.load(Relaxed) && entry.load(Relaxed) {
                    cached.store(true, Relaxed);
                }
                if cached.load(Relaxed) {
                    frame.with(|_| ());
                }
            };
            program();
            core.program(false);
            program();
            core.come_in();
            core.go_out();
            program();
            until_all_are_done(&core, &board, &done, 2);
            program();
        })
    };
    let core = board.core(0);
    core.come_in();
    entry.store(false, Relaxed);
    if fault != Some(Fault::HandsOnEarly) {
        core.shoot_down(1 << 1);
    }
    core.go_out();
    frame.with_mut(|_| ());
    until_all_are_done(&core, &board, &done, 2);
    other.join().expect("it ends");
}

#[test]
fn a_frame_is_handed_on_when_nobody_sees_it() {
    explore(FEW, |looks| take_a_page_away(looks, None));
}

#[test]
#[ignore = "takes minutes"]
fn a_frame_is_handed_on_when_nobody_sees_it_in_more_orders() {
    explore(MORE, |looks| take_a_page_away(looks, None));
}

#[test]
fn a_frame_that_is_handed_on_early_is_seen() {
    finds(
        "a_frame_that_is_handed_on_early_is_seen",
        "Causality violation",
        |looks| take_a_page_away(looks, Some(Fault::HandsOnEarly)),
    );
}

#[test]
fn a_translation_that_is_not_forgotten_is_used() {
    finds(
        "a_translation_that_is_not_forgotten_is_used",
        "Causality violation",
        |looks| take_a_page_away(looks, Some(Fault::ObeysNot)),
    );
}

#[test]
fn who_sleeps_deaf_holds_up_the_holder() {
    finds(
        "who_sleeps_deaf_holds_up_the_holder",
        "maximum number of branches",
        |looks| take_a_page_away(looks, Some(Fault::SleepsDeaf)),
    );
}

/// Each of two asks the other, and a third one, while all want to come in: whoever waits for an answer has the lock, and whoever waits for the lock answers.
fn ask_each_other(looks: u32, cores: usize) {
    let board = Board::new(looks, None, Box::new(|_, _| ()));
    let done = Arc::new(AtomicU32::new(0));
    let work = |number: usize| {
        let (board, core, done) = (board.clone(), board.core(number), done.clone());
        move || {
            core.come_in();
            if number < 2 {
                core.shoot_down(((1 << cores) - 1) & !(1 << number));
            }
            core.go_out();
            until_all_are_done(&core, &board, &done, cores as u32);
        }
    };
    let others: Vec<_> = (1..cores).map(|n| thread::spawn(work(n))).collect();
    work(0)();
    for other in others {
        other.join().expect("it ends");
    }
}

#[test]
fn two_that_ask_each_other_do_not_wait_for_ever() {
    explore(FEW, |looks| ask_each_other(looks, 2));
}

#[test]
#[ignore = "takes minutes"]
fn three_that_ask_each_other_do_not_wait_for_ever() {
    explore(2, |looks| ask_each_other(looks, 3));
}

// ---- registers

/// Core 0 changes the thread that core 1 runs.
fn change_a_running_thread(looks: u32, fault: Option<Fault>) {
    const OWN: u32 = 1;
    const CHANGED: u32 = 7;
    let board = Board::new(looks, fault, Box::new(|_, _| ()));
    let registers = Arc::new(Inside::new());
    let changed = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU32::new(0));
    let other = {
        let (board, core) = (board.clone(), board.core(1));
        let (registers, changed, done) = (registers.clone(), changed.clone(), done.clone());
        thread::spawn(move || {
            let entry = || {
                let store = || {
                    registers.state.with_mut(|_| ());
                    registers.number.store(OWN, Relaxed);
                };
                if fault != Some(Fault::StoresLate) {
                    store();
                }
                core.come_in();
                if fault == Some(Fault::StoresLate) {
                    store();
                }
                registers.state.with(|_| ());
                if changed.load(Relaxed) {
                    assert_eq!(registers.number.load(Relaxed), CHANGED);
                    changed.store(false, Relaxed);
                }
                core.go_out();
            };
            // A system call of its own, then whatever comes.
            entry();
            if done.fetch_add(1, AcqRel) + 1 == 2 {
                board.over();
            }
            while core.program(true) == Some(Event::Kicked) {
                entry();
            }
        })
    };
    let core = board.core(0);
    core.come_in();
    core.bring_in(1);
    registers.state.with_mut(|_| ());
    registers.number.store(CHANGED, Relaxed);
    changed.store(true, Relaxed);
    core.go_out();
    until_all_are_done(&core, &board, &done, 2);
    other.join().expect("it ends");
}

#[test]
fn a_thread_is_changed_when_it_is_in_memory() {
    explore(FEW, |looks| change_a_running_thread(looks, None));
}

#[test]
#[ignore = "takes minutes"]
fn a_thread_is_changed_when_it_is_in_memory_in_more_orders() {
    explore(MORE, |looks| change_a_running_thread(looks, None));
}

#[test]
fn registers_that_are_stored_late_undo_the_change() {
    finds(
        "registers_that_are_stored_late_undo_the_change",
        "assertion",
        |looks| change_a_running_thread(looks, Some(Fault::StoresLate)),
    );
}

/// Core 0 wants what core 1 has in its registers: where to, and what, go without the lock.
fn fetch_registers(looks: u32, fault: Option<Fault>) {
    let (parcel, answer) = (Arc::new(UnsafeCell::new(())), Arc::new(AtomicU32::new(0)));
    let done = Arc::new(AtomicU32::new(0));
    let (takes, gives) = (parcel.clone(), answer.clone());
    let obey = move |core, wanted| {
        assert_eq!((core, wanted), (1, FETCH));
        takes.with_mut(|_| ());
        gives.store(5, Relaxed);
    };
    let board = Board::new(looks, fault, Box::new(obey));
    let other = {
        let (board, core, done) = (board.clone(), board.core(1), done.clone());
        thread::spawn(move || {
            core.come_in();
            core.go_out();
            until_all_are_done(&core, &board, &done, 2);
        })
    };
    let core = board.core(0);
    core.come_in();
    parcel.with_mut(|_| ());
    core.ask(1, FETCH);
    parcel.with_mut(|_| ());
    assert_eq!(answer.load(Relaxed), 5);
    core.go_out();
    until_all_are_done(&core, &board, &done, 2);
    other.join().expect("it ends");
}

#[test]
fn registers_are_there_when_the_answer_is() {
    explore(FEW, |looks| fetch_registers(looks, None));
}

#[test]
fn an_answer_without_registers_is_found() {
    finds(
        "an_answer_without_registers_is_found",
        "assertion",
        |looks| fetch_registers(looks, Some(Fault::ObeysNot)),
    );
}

// ---- work for others

/// Core 0 leaves work for core 1, as `Kernel::call_core` does: it is told once until it has come in. `late`: it forgets that it was told when it is out again.
fn leave_work(looks: u32, late: bool) {
    let board = Board::new(looks, None, Box::new(|_, _| ()));
    let (work, called) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let other = {
        let (core, work, called) = (board.core(1), work.clone(), called.clone());
        thread::spawn(move || {
            let mut all = 0;
            loop {
                core.come_in();
                if !late {
                    called.store(false, Relaxed);
                }
                all += work.load(Relaxed);
                work.store(0, Relaxed);
                core.go_out();
                if late {
                    called.store(false, Relaxed);
                }
                if all == 2 {
                    break;
                }
                while core.program(true) != Some(Event::Kicked) {}
            }
        })
    };
    let core = board.core(0);
    for _ in 0..2 {
        core.come_in();
        work.store(work.load(Relaxed) + 1, Relaxed);
        if !called.load(Relaxed) {
            called.store(true, Relaxed);
            core.kick(1);
        }
        core.go_out();
    }
    other.join().expect("it ends");
}

#[test]
fn an_idle_core_hears_of_its_work() {
    explore(FEW, |looks| leave_work(looks, false));
}

#[test]
#[ignore = "takes minutes"]
fn an_idle_core_hears_of_its_work_in_more_orders() {
    explore(MORE, |looks| leave_work(looks, false));
}

#[test]
fn a_core_that_forgets_late_that_it_was_called_sleeps_on() {
    finds(
        "a_core_that_forgets_late_that_it_was_called_sleeps_on",
        "deadlock",
        |looks| leave_work(looks, true),
    );
}
