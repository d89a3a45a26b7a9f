//! The victim: works, measures, judges.

use crate::attacks::{Attack, ATTACKS};
use crate::{ATTACK, END, NEVER, TELL};
use cairn_abi::service::current;
use cairn_abi::{layout::native_slot, Error};
use cairn_idl::vm;
use cairn_rt::portal::clock;
use cairn_rt::{log, startup, Message, Portal};

/// Turns of one measurement: short ones, and those that last over several quanta; and the pause between two turns where there is one.
const FEW: u64 = 300;
const MANY: u64 = 2500;
const PAUSE: u64 = 30_000;
/// Priorities of attacks: below the victim's, and its own.
const LOWER: u64 = 90;
const EQUAL: u64 = 100;

/// Least share of its speed in percent against what is less important. Against `n` threads of its own priority it gets what one of `n` + 1 gets, but for a tenth.
const STEADY: u64 = 97;
const EVEN: u64 = 90;
/// When the victim comes back from a pause a server may be busy with a request of the foe, which it finishes first. The largest is 64 new pages from `vm`; a turn
/// takes no longer than alone by more than this.
const LATE: u64 = 150_000;

fn portal(name: &str) -> Portal {
    startup::portal(name).unwrap_or(Portal(u32::MAX))
}

fn wrong(what: core::fmt::Arguments) {
    log!("WRONG: {what}");
}

/// One piece of work. Calls that do not do what they shall are counted.
fn turn(friend: Portal, number: u64) -> u64 {
    let mut failed = 0;
    let mut sum = number;
    for i in 0..500u64 {
        sum = core::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
    }
    if friend.call(Message::new(&[number])).map(|w| w[0]) != Ok(number + 1) {
        failed += 1;
    }
    let memory = Portal(native_slot::VM);
    let prot = vm::prot::READ | vm::prot::WRITE;
    match memory.call(Message::new(&[vm::MAP, 0, 4096, prot, 0])) {
        Ok(words) if words[0] as i64 > 0 => {
            // SAFETY: `vm` has just mapped this page for nobody else.
            unsafe { (words[0] as *mut u64).write_volatile(sum) };
            if memory
                .call(Message::new(&[vm::UNMAP, words[0], 4096]))
                .is_err()
            {
                failed += 1;
            }
        }
        _ => failed += 1,
    }
    failed
}

/// How long turns took, pauses not counted: from the moment at which one should begin to its end.
#[derive(Clone, Copy)]
struct Time {
    sum: u64,
    longest: u64,
}

fn measure(friend: Portal, turns: u64, pause: u64) -> Time {
    let (mut sum, mut longest, mut failed) = (0, 0, 0);
    for number in 0..turns {
        let mut begun = clock();
        if pause != 0 {
            begun += pause;
            let _ = Portal::CURRENT.service(current::SLEEP, &[begun]);
        }
        failed += turn(friend, number);
        let spent = clock() - begun;
        sum += spent;
        longest = spent.max(longest);
    }
    if failed != 0 {
        wrong(format_args!("{failed} operations of the victim failed"));
    }
    Time { sum, longest }
}

/// Time of one turn alone, in thousandths.
fn per_turn(time: Time, turns: u64) -> u64 {
    time.sum * 1000 / turns
}

pub fn run() -> ! {
    // Everybody has started by then.
    let _ = Portal::CURRENT.service(current::SLEEP, &[clock() + 2_000_000_000]);
    let friend = portal("friend");
    measure(friend, 200, 0);
    let alone = per_turn(measure(friend, FEW, 0), FEW);
    let paused = measure(friend, FEW, PAUSE);
    log!(
        "alone: a turn takes {} ns, after a pause at most {}",
        alone / 1000,
        paused.longest
    );
    for attack in ATTACKS {
        for priority in [LOWER, EQUAL] {
            resist(attack, alone, priority);
        }
    }
    silence();
    measure(friend, 200, 0);
    let after = share(alone, per_turn(measure(friend, FEW, 0), FEW));
    log!("after all: {after} %");
    expect("after all", after, STEADY);
    log!("over");
    cairn_rt::start::exit(0)
}

fn share(alone: u64, now: u64) -> u64 {
    alone * 100 / now.max(1)
}

fn expect(attack: &str, share: u64, least: u64) {
    if share < least {
        wrong(format_args!("{attack}: {share} %, not {least} %"));
    }
}

/// One attack at one priority.
fn resist(attack: &Attack, alone: u64, priority: u64) {
    let (friend, foe) = (portal("friend"), portal("foe"));
    let number = ATTACKS.iter().position(|a| core::ptr::eq(a, attack));
    let order = [ATTACK, number.unwrap_or(0) as u64, priority];
    if foe.call(Message::new(&order)).is_err() {
        return wrong(format_args!("{}: the foe does not come", attack.name));
    }
    // It has time to take what it wants.
    let _ = Portal::CURRENT.service(current::SLEEP, &[clock() + 20_000_000]);
    if priority == LOWER {
        let steady = share(alone, per_turn(measure(friend, FEW, 0), FEW));
        let longest = measure(friend, FEW, PAUSE).longest;
        log!(
            "{}, less important: {steady} %, after a pause at most {longest} ns",
            attack.name
        );
        expect(attack.name, steady, STEADY);
        if longest > alone / 1000 + LATE {
            wrong(format_args!("{}: a turn took {longest} ns", attack.name));
        }
    } else {
        let half = share(alone, per_turn(measure(friend, MANY, 0), MANY));
        log!("{}, equal: {half} %", attack.name);
        expect(attack.name, half, EVEN / (1 + attack.running));
    }
    let [broken, refused] = told(foe);
    log!("{}: {refused} times refused", attack.name);
    if broken != 0 {
        wrong(format_args!(
            "{}: {broken} times something went well that must not",
            attack.name
        ));
    }
    if attack.refused && refused == 0 {
        wrong(format_args!("{}: nothing was refused", attack.name));
    }
    // It does not answer this: it dies.
    if foe.call(Message::new(&[END])) != Err(Error::Dead) {
        wrong(format_args!("{}: the foe lives", attack.name));
    }
}

fn told(foe: Portal) -> [u64; 2] {
    match foe.call(Message::new(&[TELL])) {
        Ok(words) => [words[0], words[1]],
        Err(error) => {
            wrong(format_args!("the foe does not tell: {error:?}"));
            [0, 0]
        }
    }
}

/// A server that never answers costs a caller with a deadline no more than that.
fn silence() {
    let until = clock() + 1_000_000;
    let _ = Portal::CURRENT.service(current::DEADLINE, &[until]);
    let answer = portal("foe").call(Message::new(&[NEVER]));
    let late = clock().saturating_sub(until);
    log!("never answering: {answer:?}, {late} ns after the deadline");
    if answer != Err(Error::TimedOut) || late > 20_000 {
        wrong(format_args!("never answering: {answer:?}, {late} ns late"));
    }
}
