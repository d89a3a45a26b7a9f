//! One writer, one reader, and both of them hostile by turns.

use crate::ring::{Error, Message, Receiver, Sender, Shape};
use crate::set::{Event, Set};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

type Memory = Arc<[AtomicU64]>;

fn memory(shape: Shape) -> Memory {
    (0..shape.words()).map(|_| AtomicU64::new(0)).collect()
}

fn link(messages: usize, data: usize) -> (Memory, Sender<Memory>, Receiver<Memory>) {
    let shape = Shape { messages, data };
    let memory = memory(shape);
    let sender = Sender::new(memory.clone(), shape).expect("valid");
    let receiver = Receiver::new(memory.clone(), shape).expect("valid");
    (memory, sender, receiver)
}

#[test]
fn shapes_are_checked() {
    for (messages, data, fine) in [
        (1, 0, true),
        (64, 4096, true),
        (1 << 20, 1 << 20, true),
        (0, 0, false),
        (3, 0, false),
        (4, 4, false),
        (4, 24, false),
        (1 << 21, 0, false),
    ] {
        assert_eq!(Shape { messages, data }.is_valid(), fine);
    }
    let shape = Shape {
        messages: 4,
        data: 64,
    };
    let short: Memory = (1..shape.words()).map(|_| AtomicU64::new(0)).collect();
    assert!(Sender::new(short.clone(), shape).is_none());
    assert!(Receiver::new(short, shape).is_none());
}

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Receive(usize),
    ArmSender(usize),
    ArmReceiver,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Step::Send),
        4 => (0usize..90).prop_map(Step::Receive),
        1 => (0usize..65).prop_map(Step::ArmSender),
        1 => Just(Step::ArmReceiver),
    ]
}

proptest! {
    /// Against a plain queue: order, contents, room, and who is to be woken.
    #[test]
    fn a_link_is_a_queue_with_bounded_room(
        steps in prop::collection::vec(step(), 0..200),
        messages in prop_oneof![Just(1usize), Just(4), Just(16)],
        data in prop_oneof![Just(0usize), Just(8), Just(64)],
    ) {
        let (_, mut sender, mut receiver) = link(messages, data);
        let mut model: VecDeque<([u64; 4], Vec<u8>)> = VecDeque::new();
        let (mut sender_sleeps, mut receiver_sleeps) = (false, false);
        let used = |model: &VecDeque<([u64; 4], Vec<u8>)>| -> usize {
            model.iter().map(|(_, data)| data.len().next_multiple_of(8)).sum()
        };
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send(bytes) => {
                    let words = [i as u64, 2, u64::MAX, bytes.len() as u64];
                    let fits = model.len() < messages
                        && used(&model) + bytes.len().next_multiple_of(8) <= data;
                    let sent = sender.send(words, &bytes);
                    if bytes.len() > data {
                        prop_assert_eq!(sent, Err(Error::TooLong));
                    } else if !fits {
                        prop_assert_eq!(sent, Err(Error::Full));
                    } else {
                        prop_assert_eq!(sent, Ok(std::mem::take(&mut receiver_sleeps)));
                        model.push_back((words, bytes));
                    }
                }
                Step::Receive(room) => {
                    let mut buffer = vec![0; room];
                    let got = receiver.receive(&mut buffer);
                    match model.front() {
                        None => prop_assert_eq!(got, Ok(None)),
                        Some((_, bytes)) if bytes.len() > room => {
                            prop_assert_eq!(got, Err(Error::TooLong));
                        }
                        Some(_) => {
                            let (words, bytes) = model.pop_front().expect("one");
                            let message = Message { words, data: bytes.len() };
                            let wakes = std::mem::take(&mut sender_sleeps);
                            prop_assert_eq!(got, Ok(Some((message, wakes))));
                            prop_assert_eq!(&buffer[..bytes.len()], &bytes[..]);
                        }
                    }
                }
                Step::ArmSender(bytes) => {
                    let fits = model.len() < messages
                        && used(&model) + bytes.next_multiple_of(8) <= data;
                    prop_assert_eq!(sender.arm(bytes), Ok(fits));
                    sender_sleeps = true;
                }
                Step::ArmReceiver => {
                    prop_assert_eq!(receiver.arm(), Ok(!model.is_empty()));
                    receiver_sleeps = true;
                }
            }
        }
    }

    /// Whatever a hostile peer writes anywhere: an error or a message, never a panic, nor more messages than there is room for between two looks.
    #[test]
    fn nothing_that_the_other_side_writes_does_harm(
        writes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0u64..40], 0u8..4), 1..120),
    ) {
        let (memory, mut sender, mut receiver) = link(4, 32);
        let mut buffer = [0; 32];
        for (at, value, act) in writes {
            memory[at.index(memory.len())].store(value, Relaxed);
            match act {
                0 => drop(sender.send([value; 4], &buffer[..value as usize % 33])),
                1 => drop(receiver.receive(&mut buffer)),
                2 => drop(sender.arm(8)),
                _ => drop(receiver.arm()),
            }
            let waiting = receiver.waiting();
            prop_assert!(waiting == Err(Error::Broken) || waiting.expect("counted") <= 4);
        }
    }
}

#[test]
fn a_lying_peer_breaks_its_link_for_good() {
    for lie in [5, u64::MAX, 1 << 63] {
        let (memory, mut sender, mut receiver) = link(4, 0);
        memory[0].store(lie, Relaxed);
        assert_eq!(receiver.waiting(), Err(Error::Broken));
        memory[0].store(1, Relaxed);
        assert_eq!(receiver.receive(&mut []), Err(Error::Broken));
        // The sender's half: the receiver has taken more than was sent.
        for i in 0..4 {
            assert_eq!(sender.send([i; 4], &[]), Ok(false));
        }
        memory[8].store(lie, Relaxed);
        assert_eq!(sender.send([9; 4], &[]), Err(Error::Broken));
        memory[8].store(4, Relaxed);
        assert_eq!(sender.arm(0), Err(Error::Broken));
    }
    // Counts that go back.
    let (memory, mut sender, mut receiver) = link(2, 0);
    sender.send([0; 4], &[]).expect("room");
    sender.send([0; 4], &[]).expect("room");
    receiver.receive(&mut []).expect("one");
    sender.send([0; 4], &[]).expect("room");
    memory[8].store(0, Relaxed);
    assert_eq!(sender.send([0; 4], &[]), Err(Error::Broken));
}

#[test]
fn a_set_prefers_by_rank_and_takes_turns_among_equals() {
    let mut senders = Vec::new();
    let mut set: Set<Memory, 4> = Set::new();
    for (i, rank) in [7, 3, 7].into_iter().enumerate() {
        let (_, sender, receiver) = link(64, 0);
        assert_eq!(set.add(receiver, rank), Some(i));
        senders.push(sender);
    }
    assert!(!set.arm(|_| true));
    for sender in &mut senders {
        assert_eq!(
            sender.send([1; 4], &[]),
            Ok(true),
            "the first one rings the bell"
        );
        for i in 2..10 {
            assert_eq!(sender.send([i; 4], &[]), Ok(false), "once is enough");
        }
    }
    let mut order = Vec::new();
    while let Some((number, Event::Message(..))) = set.test(&mut [], |_| true) {
        order.push(number);
    }
    let expected: Vec<usize> = [1; 9].into_iter().chain([2, 0].repeat(9)).collect();
    assert_eq!(order, expected);
    // Only what is wanted.
    for sender in &mut senders {
        sender.send([0; 4], &[]).expect("room");
    }
    assert!(set.arm(|number| number == 2));
    assert_eq!(set.test(&mut [], |number| number == 3), None);
    let (number, _) = set.test(&mut [], |number| number == 2).expect("one");
    assert_eq!(number, 2);
    // Another preference.
    set.set_rank(0, 0);
    assert_eq!(set.test(&mut [], |_| true).map(|(n, _)| n), Some(0));
}

#[test]
fn a_flood_is_the_flooders_problem() {
    let mut set: Set<Memory, 2> = Set::new();
    let (memory, mut flooder, receiver) = link(8, 64);
    let (_, mut modest, other) = link(8, 64);
    set.add(receiver, 9).expect("room");
    set.add(other, 1).expect("room");
    let mut refused = 0;
    for round in 0..1000u64 {
        for _ in 0..20 {
            refused += (flooder.send([round; 4], &[1; 8]) == Err(Error::Full)) as u32;
        }
        modest.send([round; 4], b"now").expect("never refused");
        let mut data = [0; 64];
        let (number, event) = set.test(&mut data, |_| true).expect("something");
        let message = Message {
            words: [round; 4],
            data: 3,
        };
        assert_eq!((number, event), (1, Event::Message(message, false)));
        assert_eq!(&data[..3], b"now");
    }
    assert!(refused > 19_000);
    // It breaks its own link at last: that goes, the other stays.
    memory[0].store(u64::MAX, Relaxed);
    assert_eq!(set.test(&mut [], |_| true), Some((0, Event::Broken)));
    assert_eq!(set.free(), Some(0));
    modest.send([5; 4], &[]).expect("room");
    assert_eq!(set.test(&mut [], |_| true).map(|(n, _)| n), Some(1));
}

/// Two threads that sleep whenever they can: no wake-up is lost (then this would not end), no message either.
#[test]
fn sleepers_are_woken() {
    const COUNT: u64 = 200_000;
    let (_, mut sender, mut receiver) = link(4, 32);
    let reader = std::thread::current();
    let writer = std::thread::spawn(move || {
        for i in 0..COUNT {
            let data = i.to_le_bytes();
            let data = &data[..i as usize % 9];
            loop {
                match sender.send([i, !i, 3, 4], data) {
                    Ok(wakes) => {
                        if wakes {
                            reader.unpark();
                        }
                        break;
                    }
                    Err(Error::Full) => {
                        if !sender.arm(data.len()).expect("honest") {
                            std::thread::park();
                        }
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    });
    let mut next = 0;
    while next < COUNT {
        let mut data = [0; 8];
        match receiver.receive(&mut data).expect("honest") {
            Some((message, wakes)) => {
                assert_eq!(message.words, [next, !next, 3, 4]);
                assert_eq!(
                    data[..message.data],
                    next.to_le_bytes()[..next as usize % 9]
                );
                next += 1;
                if wakes {
                    writer.thread().unpark();
                }
            }
            None => {
                if !receiver.arm().expect("honest") {
                    std::thread::park();
                }
            }
        }
    }
    writer.join().expect("the writer ends");
}
