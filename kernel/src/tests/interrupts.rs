//! Interrupts: lines that several drivers share, message-signalled ones, who runs when, and drivers that die.

use super::*;
use crate::interrupt::{LINES, MESSAGES};
use cairn_abi::pulse;
use cairn_abi::service::{interrupt, machine};

const LINE: u32 = 20;

/// A driver with a channel and an interrupt portal.
struct Driver {
    dom: Dom,
    t: ThreadRef,
    rx: u32,
    irq: u32,
    /// `init`'s own slots of the channel and of the portal.
    own: [u32; 2],
}

/// A driver of `priority` on what `made` (one of `init`'s slots) leads to. It is bound and waits.
fn driver(w: &mut World, made: u32, priority: u8, badge: u64) -> Driver {
    let init = w.init;
    let dom = w.domain();
    let (rx, own) = w.channel(dom);
    let put = [made as u64, AUTO, 0xffff];
    let irq = w.ok(init, dom.slot, domain::PORTAL_PUT, &put)[0] as u32;
    let t = w.thread(dom, priority);
    w.rest();
    if w.current() == Some(t) {
        w.ok(t, irq, interrupt::BIND, &[rx as u64, badge]);
        w.receive(t, rx);
    }
    w.recall();
    Driver {
        dom,
        t,
        rx,
        irq,
        own: [own, made],
    }
}

fn shared(w: &mut World, priority: u8, badge: u64) -> Driver {
    let words = [LINE as u64, AUTO, machine::SHARED];
    let made = w.ok(w.init, MACHINE, machine::INTERRUPT, &words)[0] as u32;
    driver(w, made, priority, badge)
}

fn unmasked(w: &World) -> bool {
    w.k.arch.unmasked.contains(&LINE)
}

fn interrupt(w: &mut World, source: u32) {
    w.interrupt(source);
}

#[test]
fn every_sharer_is_told_and_the_last_acknowledgement_unmasks() {
    let mut w = World::new();
    let (a, b) = (shared(&mut w, 200, 1), shared(&mut w, 190, 2));
    let alone = [LINE as u64, AUTO, 0];
    let init = w.init;
    assert_eq!(
        w.err(init, MACHINE, machine::INTERRUPT, &alone),
        Error::Busy,
        "not everybody shares"
    );
    w.rest();
    interrupt(&mut w, LINE);
    assert!(!unmasked(&w));
    assert_eq!(w.current(), Some(a.t), "the more important driver first");
    assert_eq!(w.pulse(a.t), (pulse::INTERRUPT, 1, 1));
    w.ok(a.t, a.irq, interrupt::ACKNOWLEDGE, &[]);
    w.ok(a.t, a.irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(!unmasked(&w), "twice is not two drivers");
    w.receive(a.t, a.rx);
    assert_eq!(w.pulse(b.t), (pulse::INTERRUPT, 1, 2));
    w.ok(b.t, b.irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(unmasked(&w));
    let told = w.ok(b.t, b.irq, interrupt::INFO, &[]);
    assert_eq!(told[..6], [0, LINE as u64, 0, 0, 1, 1]);
}

#[test]
fn a_line_has_room_for_eight() {
    let mut w = World::new();
    let words = [LINE as u64, AUTO, machine::SHARED];
    let init = w.init;
    let made: Vec<u32> = (0..8)
        .map(|_| w.ok(init, MACHINE, machine::INTERRUPT, &words)[0] as u32)
        .collect();
    assert_eq!(
        w.err(init, MACHINE, machine::INTERRUPT, &words),
        Error::Busy
    );
    w.close_own(made[3]);
    w.ok(init, MACHINE, machine::INTERRUPT, &words);
    assert_eq!(
        w.err(init, MACHINE, machine::INTERRUPT, &words),
        Error::Busy
    );
    assert_eq!(
        w.err(init, MACHINE, machine::INTERRUPT, &[1, AUTO, 1 << 9]),
        Error::BadArgument
    );
}

#[test]
fn a_sharer_that_dies_owing_holds_nobody_up() {
    let mut w = World::new();
    let (a, b) = (shared(&mut w, 200, 1), shared(&mut w, 190, 2));
    w.rest();
    interrupt(&mut w, LINE);
    // The first driver has its pulse and dies with it; init holds its channel and its interrupt portal for the next one.
    w.recall();
    w.destroy(a.dom);
    w.rest();
    assert_eq!(w.current(), Some(b.t));
    w.ok(b.t, b.irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(unmasked(&w));
    // What comes now is the other's alone.
    w.receive(b.t, b.rx);
    interrupt(&mut w, LINE);
    assert_eq!(w.pulse(b.t), (pulse::INTERRUPT, 1, 2));
    w.ok(b.t, b.irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(unmasked(&w));
    w.receive(b.t, b.rx);
    w.recall();
    // Its successor, on the same portal.
    let next = driver(&mut w, a.own[1], 200, 3);
    w.rest();
    interrupt(&mut w, LINE);
    assert_eq!(w.pulse(next.t), (pulse::INTERRUPT, 1, 3));
    w.recall();
    w.destroy(next.dom);
    w.destroy(b.dom);
    assert!(!unmasked(&w), "nobody is left");
    for slot in [a.own, b.own, next.own].iter().flatten().take(5) {
        w.go(w.init, 0, current::PORTAL_CLOSE, 0, &[*slot as u64]);
    }
    let alone = [LINE as u64, AUTO, 0];
    w.ok(w.init, MACHINE, machine::INTERRUPT, &alone);
}

#[test]
fn who_binds_while_another_owes_waits_with_him() {
    let mut w = World::new();
    let a = shared(&mut w, 200, 1);
    w.rest();
    interrupt(&mut w, LINE);
    w.recall();
    let b = shared(&mut w, 210, 2);
    assert!(!unmasked(&w), "binding does not unmask what another owes");
    w.rest();
    w.ok(a.t, a.irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(unmasked(&w));
    w.receive(a.t, a.rx);
    interrupt(&mut w, LINE);
    assert_eq!(w.current(), Some(b.t));
    w.ok(b.t, b.irq, interrupt::UNBIND, &[]);
    assert_eq!(w.err(b.t, b.irq, interrupt::ACKNOWLEDGE, &[]), Error::Busy);
    w.receive(b.t, b.rx);
    assert!(!unmasked(&w), "one still owes");
    w.ok(a.t, a.irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(unmasked(&w));
}

#[test]
fn an_interrupt_runs_at_its_drivers_priority_and_a_more_important_one_comes_through() {
    let mut w = World::new();
    let init = w.init;
    let line =
        |w: &mut World, line: u64| w.ok(init, MACHINE, machine::INTERRUPT, &[line, AUTO])[0] as u32;
    let (low, high) = (line(&mut w, 3), line(&mut w, 5));
    let (low, high) = (driver(&mut w, low, 100, 1), driver(&mut w, high, 220, 2));
    let program = w.domain();
    let important = w.thread(program, 150);
    w.rest();
    assert_eq!(w.current(), Some(important));
    interrupt(&mut w, 3);
    assert_eq!(w.current(), Some(important), "less important: it waits");
    assert_eq!(w.state(low.t), State::Ready);
    assert!(!w.k.arch.unmasked.contains(&3), "and comes no second time");
    interrupt(&mut w, 5);
    assert_eq!(w.current(), Some(high.t), "more important: at once");
    w.ok(high.t, high.irq, interrupt::ACKNOWLEDGE, &[]);
    w.receive(high.t, high.rx);
    w.go(important, 0, current::PARK, 0, &[]);
    assert_eq!(w.current(), Some(low.t));
    // Nested: the more important driver preempts the other in its work.
    interrupt(&mut w, 5);
    assert_eq!(w.current(), Some(high.t));
    w.ok(high.t, high.irq, interrupt::ACKNOWLEDGE, &[]);
    w.receive(high.t, high.rx);
    assert_eq!(w.current(), Some(low.t));
    w.ok(low.t, low.irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(w.k.arch.unmasked.contains(&3));
}

#[test]
fn messages_have_vectors_of_their_own() {
    let mut w = World::new();
    let init = w.init;
    let made: Vec<u32> = (0..MESSAGES)
        .map(|_| w.ok(init, MACHINE, machine::MESSAGE, &[AUTO])[0] as u32)
        .collect();
    assert_eq!(
        w.err(init, MACHINE, machine::MESSAGE, &[AUTO]),
        Error::NoMemory
    );
    for (i, &slot) in made.iter().enumerate() {
        let told = w.ok(init, slot, interrupt::INFO, &[]);
        let source = (LINES + i) as u64;
        assert_eq!(told[..4], [1, source, 0xfee0_0000, source]);
    }
    let d = driver(&mut w, made[7], 200, 9);
    w.rest();
    interrupt(&mut w, (LINES + 6) as u32);
    interrupt(&mut w, (LINES + 7) as u32);
    assert_eq!(w.current(), Some(d.t));
    assert_eq!(w.pulse(d.t), (pulse::INTERRUPT, 1, 9));
    w.recall();
    w.close_own(made[3]);
    w.ok(init, MACHINE, machine::MESSAGE, &[AUTO]);
}

#[test]
fn a_lines_trigger_is_what_the_first_portal_says() {
    let mut w = World::new();
    let init = w.init;
    let how = machine::SHARED | machine::TRIGGER | machine::LEVEL;
    w.ok(init, MACHINE, machine::INTERRUPT, &[LINE as u64, AUTO, how]);
    let other = how | machine::LOW;
    w.ok(
        init,
        MACHINE,
        machine::INTERRUPT,
        &[LINE as u64, AUTO, other],
    );
    assert_eq!(w.k.arch.triggers.get(&LINE), Some(&(true, false)));
    w.ok(init, MACHINE, machine::INTERRUPT, &[4, AUTO]);
    assert_eq!(w.k.arch.triggers.get(&4), None);
}

/// Random interrupts, acknowledgements, bindings and receives of three drivers on one line, against counting.
#[test]
fn the_line_is_unmasked_exactly_when_nobody_owes() {
    let mut w = World::new();
    let drivers: Vec<Driver> = (0..3).map(|i| shared(&mut w, 200, i)).collect();
    w.rest();
    // All of them wait, so the first is delivered straight into their receives.
    interrupt(&mut w, LINE);
    let (mut owes, mut bound) = ([true; 3], [true; 3]);
    let (mut told, mut seen) = ([1; 3], [1; 3]);
    let mut random = 1u32;
    for _ in 0..20_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let i = (random >> 20) as usize % 3;
        let d = &drivers[i];
        match random >> 28 {
            0..=4 => {
                let open = unmasked(&w);
                assert_eq!(
                    open,
                    bound.contains(&true) && !owes.contains(&true),
                    "{owes:?} {bound:?}"
                );
                if open {
                    interrupt(&mut w, LINE);
                    owes = bound;
                    for (count, bound) in told.iter_mut().zip(bound) {
                        *count += bound as u64;
                    }
                }
            }
            _ if w.current() != Some(d.t) => continue,
            5..=9 => {
                w.go(d.t, d.irq, interrupt::ACKNOWLEDGE, 0, &[]);
                assert_eq!(w.result(d.t).is_ok(), bound[i]);
                owes[i] = false;
            }
            10 => {
                w.ok(d.t, d.irq, interrupt::UNBIND, &[]);
                // What it was told and did not take is taken back.
                (owes[i], bound[i], told[i]) = (false, false, seen[i]);
            }
            11 => {
                w.ok(d.t, d.irq, interrupt::BIND, &[d.rx as u64, i as u64]);
                (owes[i], bound[i], told[i]) = (false, true, seen[i]);
            }
            _ => {
                if let Some((code, count, badge)) = w.poll(d.t, d.rx) {
                    assert_eq!((code, badge), (pulse::INTERRUPT, i as u64));
                    seen[i] += count;
                    assert_eq!(seen[i], told[i]);
                } else {
                    assert_eq!(seen[i], told[i], "nothing is lost");
                    // Give the others their turn.
                    w.go(d.t, 0, current::YIELD, 0, &[]);
                }
            }
        }
    }
    assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
}

#[test]
fn an_interrupt_can_be_a_v_on_a_semaphore() {
    use cairn_abi::service::semaphore;
    let mut w = World::new();
    let made = w.ok(w.init, MACHINE, machine::INTERRUPT, &[LINE as u64, AUTO])[0] as u32;
    let dom = w.domain();
    let put = [made as u64, AUTO, 0xffff];
    let irq = w.ok(w.init, dom.slot, domain::PORTAL_PUT, &put)[0] as u32;
    let (t, other) = (w.thread(dom, 200), w.thread(dom, 100));
    w.rest();
    let new = |kind| [0, kind, AUTO];
    let s = w.ok(t, 0, current::SEMAPHORE_CREATE, &new(semaphore::PLAIN))[0];
    let mutex = w.ok(t, 0, current::SEMAPHORE_CREATE, &new(semaphore::MUTEX))[0];
    assert_eq!(
        w.err(t, irq, interrupt::BIND_SEMAPHORE, &[mutex]),
        Error::BadArgument
    );
    w.ok(t, irq, interrupt::BIND_SEMAPHORE, &[s]);
    assert!(unmasked(&w));
    w.go(t, s as u32, semaphore::P, 0, &[]);
    assert_eq!(w.current(), Some(other));
    interrupt(&mut w, LINE);
    assert_eq!(w.current(), Some(t));
    assert_eq!(w.result(t).map(|_| ()), Ok(()));
    assert!(!unmasked(&w));
    w.ok(t, irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(unmasked(&w));
    // Nobody waits: it counts.
    interrupt(&mut w, LINE);
    assert_eq!(w.ok(t, s as u32, semaphore::INFO, &[])[0], 1);
    w.ok(t, s as u32, semaphore::P, &[]);
    w.ok(t, irq, interrupt::ACKNOWLEDGE, &[]);
    // Its last portal goes: nobody hears the line any more.
    w.ok(t, 0, current::PORTAL_CLOSE, &[s]);
    assert!(!unmasked(&w));
    assert_eq!(w.err(t, irq, interrupt::ACKNOWLEDGE, &[]), Error::Busy);
}

#[test]
fn a_sharer_with_a_semaphore_that_dies_owing_holds_nobody_up() {
    use cairn_abi::service::semaphore;
    let mut w = World::new();
    let b = shared(&mut w, 190, 2);
    let words = [LINE as u64, AUTO, machine::SHARED];
    let made = w.ok(w.init, MACHINE, machine::INTERRUPT, &words)[0];
    let dom = w.domain();
    let irq = w.ok(w.init, dom.slot, domain::PORTAL_PUT, &[made, AUTO, 0xffff])[0] as u32;
    // init holds the semaphore, too, so it outlives the driver.
    let new = [0, semaphore::PLAIN, AUTO];
    let own = w.ok(w.init, 0, current::SEMAPHORE_CREATE, &new)[0];
    let s = w.ok(w.init, dom.slot, domain::PORTAL_PUT, &[own, AUTO, 0xffff])[0];
    let t = w.thread(dom, 200);
    w.rest();
    w.ok(t, irq, interrupt::BIND_SEMAPHORE, &[s]);
    w.go(t, s as u32, semaphore::P, 0, &[]);
    interrupt(&mut w, LINE);
    assert_eq!(w.current(), Some(t));
    w.recall();
    w.destroy(dom);
    w.rest();
    w.ok(b.t, b.irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(unmasked(&w));
}

/// A driver without floating-point registers, bound to a line of its own, and a thread to be interrupted. The line interrupted once already.
fn quick_one(general: bool) -> (World, Driver, ThreadRef) {
    let mut w = World::new();
    w.quick = !general;
    let init = w.init;
    let made = w.ok(init, MACHINE, machine::INTERRUPT, &[LINE as u64, AUTO, 0])[0] as u32;
    let busy = w.domain();
    let a = driver(&mut w, made, 200, 7);
    w.ok(init, a.dom.slot, domain::CONFIGURE, &[0, 255]);
    let runs = w.thread(busy, 40);
    w.rest();
    interrupt(&mut w, LINE);
    served(&mut w, &a);
    assert_eq!(w.current(), Some(runs));
    (w, a, runs)
}

/// The driver has its pulse, acknowledges and waits for the next.
fn served(w: &mut World, a: &Driver) {
    assert_eq!(w.current(), Some(a.t));
    assert_eq!(w.pulse(a.t), (pulse::INTERRUPT, 1, 7));
    w.ok(a.t, a.irq, interrupt::ACKNOWLEDGE, &[]);
    w.receive(a.t, a.rx);
}

#[test]
fn what_is_quick_is_what_would_have_been() {
    let mut seen = Vec::new();
    for general in [false, true] {
        let (mut w, a, runs) = quick_one(general);
        let quick = |w: &World| w.k.arch.quick_interrupts;
        assert_eq!(quick(&w), 0);
        w.k.arch.time += 1000;
        w.k.threads[runs].registers.r9 = 4711;
        interrupt(&mut w, LINE);
        assert_eq!(quick(&w), !general as u64);
        assert!(!unmasked(&w));
        assert_eq!(w.state(runs), State::Ready);
        assert!(w.k.threads[runs].full);
        let driver = &w.k.threads[a.t];
        let told = (driver.registers, w.k.threads[runs].ticks, driver.ticks);
        served(&mut w, &a);
        assert_eq!(w.current(), Some(runs));
        seen.push(told);
        if general {
            continue;
        }
        // Idle.
        w.go(runs, 0, current::PARK, 0, &[]);
        assert_eq!(w.current(), None);
        w.k.arch.time += 500;
        let idle = w.k.counters.idle;
        interrupt(&mut w, LINE);
        assert_eq!((quick(&w), w.k.counters.idle - idle), (2, 500));
        served(&mut w, &a);
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_way_is_forgotten_when_it_is_no_longer_true() {
    let (mut w, a, runs) = quick_one(false);
    let known = |w: &World| w.k.arch.ways.contains_key(&LINE);
    assert!(known(&w));
    // Bound anew, with another badge.
    interrupt(&mut w, LINE);
    assert_eq!(w.k.arch.quick_interrupts, 1);
    w.ok(a.t, a.irq, interrupt::BIND, &[a.rx as u64, 8]);
    assert!(!known(&w));
    w.receive(a.t, a.rx);
    interrupt(&mut w, LINE);
    assert_eq!(w.pulse(a.t), (pulse::INTERRUPT, 1, 8));
    assert!(known(&w));
    w.ok(a.t, a.irq, interrupt::UNBIND, &[]);
    assert!(!known(&w));
    w.ok(a.t, a.irq, interrupt::BIND, &[a.rx as u64, 7]);
    w.receive(a.t, a.rx);
    interrupt(&mut w, LINE);
    served(&mut w, &a);
    // A more important thread is not interrupted.
    w.recall();
    interrupt(&mut w, LINE);
    assert_eq!(w.k.arch.quick_interrupts, 1);
    assert_eq!(w.current(), Some(w.init));
    w.rest();
    served(&mut w, &a);
    assert_eq!(w.current(), Some(runs));
    // The driver ends; its portal is gone with it but for `init`'s.
    w.recall();
    assert!(known(&w));
    w.destroy(a.dom);
    w.close_own(a.own[0]);
    assert!(!known(&w));
}

#[test]
fn a_driver_that_got_another_space_is_interrupted_there() {
    let (mut w, a, runs) = quick_one(false);
    w.recall();
    let elsewhere = w.domain();
    let space = [elsewhere.space as u64];
    w.ok(w.init, a.dom.slot, domain::SET_SPACE, &space);
    w.rest();
    assert_eq!(w.current(), Some(runs));
    interrupt(&mut w, LINE);
    assert_eq!(w.k.arch.quick_interrupts, 1);
    assert_eq!(w.current(), Some(a.t));
    let root = w.k.domains[a.dom.d].root;
    assert_eq!(w.k.arch.active, Some(root));
}
