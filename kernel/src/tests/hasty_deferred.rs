//! Hasty handlers on the threads' scale: they wait while something more important runs.

use super::hasty::*;
use super::*;
use cairn_abi::hasty::{operation as op, reason, Step};
use cairn_abi::service::interrupt;

const MORE: u64 = BUFFER + 0x900;

fn with_priority(priority: u64, steps: &[Step]) -> Driver {
    let mut d = driver();
    let bytes: Vec<u8> = [0, 0, priority]
        .iter()
        .flat_map(|w: &u64| w.to_le_bytes())
        .collect();
    d.w.poke_memory(d.dom, MORE, &bytes);
    d.more = MORE;
    d.install(steps, [1, 64, 0]);
    d
}

fn served(d: &Driver) -> usize {
    d.w.k.arch.port_writes.len()
}

/// A handler that writes to its device, once for each interrupt.
fn write() -> [Step; 1] {
    [Step {
        operation: op::WRITE,
        width: 1,
        port: DATA,
        ..Step::NONE
    }]
}

/// Another thread with this priority that runs now.
fn start(d: &mut Driver, priority: u8) -> ThreadRef {
    d.w.recall();
    let dom = d.w.domain();
    let t = d.w.thread(dom, priority);
    d.w.rest();
    t
}

fn park(d: &mut Driver, t: ThreadRef) {
    assert_eq!(d.w.current(), Some(t));
    d.w.go(t, 0, current::PARK, 0, &[]);
    d.w.check();
}

#[test]
fn a_handler_waits_until_the_more_important_thread_gives_way() {
    let mut d = with_priority(100, &write());
    let equal = start(&mut d, 100);
    d.interrupt();
    assert_eq!(served(&d), 1, "at once if nothing is more important");
    let more = start(&mut d, 101);
    assert_eq!(d.w.current(), Some(more));
    d.interrupt();
    assert_eq!(served(&d), 1);
    assert!(!d.open(), "nor is it heard again meanwhile");
    let much_more = start(&mut d, 180);
    assert_eq!(served(&d), 1);
    park(&mut d, much_more);
    assert_eq!((d.w.current(), served(&d)), (Some(more), 1));
    park(&mut d, more);
    assert_eq!(served(&d), 2);
    assert_eq!(d.w.current(), Some(equal));
    assert!(d.open());
    // Once.
    park(&mut d, equal);
    assert_eq!(served(&d), 2);
}

#[test]
fn without_a_priority_nothing_puts_it_off() {
    let mut d = driver();
    d.install(&write(), [1, 64, 0]);
    start(&mut d, 240);
    d.interrupt();
    assert_eq!(served(&d), 1);
}

#[test]
fn a_thread_of_the_next_priority_goes_first_and_one_of_the_same_after_it() {
    let mut d = with_priority(100, &write());
    let high = start(&mut d, 150);
    let (same, next) = {
        d.w.recall();
        let dom = d.w.domain();
        let two = (d.w.thread(dom, 100), d.w.thread(dom, 101));
        d.w.rest();
        two
    };
    d.interrupt();
    park(&mut d, high);
    assert_eq!((d.w.current(), served(&d)), (Some(next), 0));
    park(&mut d, next);
    assert_eq!((d.w.current(), served(&d)), (Some(same), 1));
}

#[test]
fn a_thread_that_is_made_less_important_lets_it_through() {
    let mut d = with_priority(100, &write());
    d.w.recall();
    let dom = d.w.domain();
    let high = d.w.thread(dom, 150);
    d.w.rest();
    d.interrupt();
    assert_eq!(served(&d), 0);
    let words = [d.w.id(high), thread::SET_PRIORITY as u64, 100, 0, 0];
    d.w.recall();
    let init = d.w.init;
    d.w.ok(init, dom.slot, domain::THREAD_CONTROL, &words);
    assert_eq!(served(&d), 0, "init is more important, too");
    d.w.rest();
    assert_eq!((d.w.current(), served(&d)), (Some(high), 1));
}

#[test]
fn a_server_that_is_lowered_again_lets_it_through() {
    let mut d = with_priority(100, &write());
    d.w.recall();
    let (server, client) = (d.w.domain(), d.w.domain());
    let (rx, own) = d.w.channel(server);
    let tx = d.w.portal(own, client, 0);
    let s = d.w.thread(server, 40);
    let low = d.w.thread(client, 30);
    d.w.rest();
    d.w.receive(s, rx);
    d.w.call(low, tx, &[]);
    d.w.recall();
    let high = d.w.thread(client, 150);
    d.w.rest();
    d.w.call(high, tx, &[]);
    assert_eq!((d.w.current(), d.w.effective(s)), (Some(s), 150));
    d.interrupt();
    assert_eq!(served(&d), 0);
    d.w.reply_receive(s, rx, &[]);
    assert_eq!(
        (d.w.current(), served(&d)),
        (Some(s), 0),
        "it works for the other now"
    );
    d.w.reply(s, rx, &[]);
    assert_eq!((d.w.current(), served(&d)), (Some(high), 0));
    park(&mut d, high);
    assert_eq!(served(&d), 1);
}

#[test]
fn what_it_hands_over_and_whom_it_wakes_comes_when_it_ran() {
    let mut d = with_priority(100, &[Step::plain(op::HAND_OVER)]);
    let high = start(&mut d, 210);
    d.interrupt();
    park(&mut d, high);
    assert_eq!(d.woken(), (1, reason::HANDED_OVER, 0));
    assert!(!d.open());
    let (t, irq) = (d.t, d.irq);
    d.w.ok(t, irq, interrupt::ACKNOWLEDGE, &[]);
    assert!(d.open());
}

#[test]
fn a_handler_that_is_taken_away_leaves_its_interrupt_to_the_driver() {
    let mut d = with_priority(100, &write());
    d.w.recall();
    let high = d.w.thread(d.dom, 210);
    d.w.rest();
    d.interrupt();
    let irq = d.irq;
    d.w.ok(high, irq, interrupt::REMOVE, &[]);
    park(&mut d, high);
    assert_eq!(served(&d), 0);
    assert_eq!(d.woken(), (1, 0, 0));
    assert!(!d.open());
    // And if the driver goes as well, nothing is left.
    let mut d = with_priority(100, &write());
    let high = start(&mut d, 210);
    d.interrupt();
    d.w.recall();
    d.w.destroy(d.dom);
    d.w.rest();
    park(&mut d, high);
    assert_eq!(served(&d), 0);
    assert_eq!(d.w.current(), None);
}
