//! Random messages through the generated client to the generated server and back; and random requests that no client makes, which the dispatcher must refuse or decode within bounds.
#![forbid(unsafe_code)]

include!("sample/sample.rs");

use cairn_idl::errno::{EINVAL, EMSGSIZE, ENOSYS, EPERM};
use cairn_idl::wire::{
    Answer, Caller, Errno, Failure, Given, Message, Out, Outcome, Passing, Reply, Transport,
};
use proptest::prelude::*;
use sample::{
    AskOneAnswer, Client, Colour, CountAnswer, LendAnswer, MoveShapeAnswer, Point, Shape,
};
use std::cell::{Cell, RefCell};

/// Slots below are the client's, those above the server's.
const OTHER_TABLE: u64 = 1000;

/// A message that arrived.
struct Arrived<'m> {
    words: [u64; 8],
    out: &'m [u8],
    input: RefCell<&'m mut [u8]>,
    portals: usize,
    badge: u64,
    closed: RefCell<Vec<u32>>,
}

impl Caller for Arrived<'_> {
    fn words(&self) -> &[u64; 8] {
        &self.words
    }
    fn badge(&self) -> u64 {
        self.badge
    }
    fn sender(&self) -> u32 {
        3
    }
    fn label(&self) -> u64 {
        0
    }
    fn token(&self) -> u64 {
        77
    }
    fn out_len(&self) -> usize {
        self.out.len()
    }
    fn in_len(&self) -> usize {
        self.input.borrow().len()
    }
    fn portals(&self) -> usize {
        self.portals
    }
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<usize, cairn_abi::Error> {
        let rest = self.out.get(offset..).unwrap_or(&[]);
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
    fn write(&self, offset: usize, from: &[u8]) -> Result<usize, cairn_abi::Error> {
        let mut input = self.input.borrow_mut();
        let rest = input.get_mut(offset..).unwrap_or(&mut []);
        let count = rest.len().min(from.len());
        rest[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }
    fn close(&self, slot: u32) {
        self.closed.borrow_mut().push(slot);
    }
}

/// Answers such that everything that came can be told from them.
#[derive(Default)]
struct Keeper {
    buffer: Vec<u8>,
    refuse: bool,
    later: bool,
    kept: Vec<u32>,
}

impl Keeper {
    fn willing(&self) -> Result<(), Errno> {
        match self.refuse {
            true => Err(EINVAL),
            false => Ok(()),
        }
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

impl sample::Server for Keeper {
    fn count<C: Caller>(
        &mut self,
        _: &C,
        a: u8,
        b: u16,
        c: u32,
        d: u64,
        e: i32,
        f: i64,
        g: bool,
    ) -> Result<CountAnswer, Errno> {
        self.willing()?;
        Ok(CountAnswer {
            sum: u64::from(a) + u64::from(b) + u64::from(c) + d,
            e_again: e,
            f_again: f,
            small_bits: u32::from(g) * sample::small::TWO,
            right: g,
            tint: if g { Colour::Blue } else { Colour::DarkGreen },
        })
    }

    fn echo<C: Caller>(
        &mut self,
        _: &C,
        marks: u64,
        text: Out<'_, C>,
        copy_room: usize,
    ) -> Result<(u8, &[u8]), Errno> {
        assert_eq!(marks & !(3 | 1 << 63), 0);
        assert!(text.len() <= sample::TEXT_MAX && copy_room <= 2 * sample::TEXT_MAX);
        self.buffer.resize(text.len(), 0);
        text.all(&mut self.buffer)?;
        // More than there may be room for: the dispatcher cuts it.
        self.buffer.extend_from_within(..);
        Ok((
            sum(&self.buffer[..text.len()]).wrapping_add(marks as u8),
            &self.buffer,
        ))
    }

    fn move_shape<C: Caller>(
        &mut self,
        _: &C,
        by: i8,
        shape: Shape,
    ) -> Result<MoveShapeAnswer, Errno> {
        let mut moved = shape;
        for corner in moved.corners.iter_mut().flatten() {
            corner.x = corner.x.wrapping_add(i32::from(by));
        }
        moved.name.reverse();
        Ok(MoveShapeAnswer { corners: 6, moved })
    }

    fn first_ten<C: Caller>(&mut self, _: &C, text: Out<'_, C>) -> Result<u32, Errno> {
        assert!(text.len() <= 10);
        Ok(text.len() as u32)
    }

    fn trade<C: Caller>(&mut self, caller: &C, note: u64, given: u32) -> Result<Given, Errno> {
        assert_eq!(caller.badge(), sample::BADGE_KEEPER);
        self.willing()?;
        self.kept.push(given);
        Ok(Given(note))
    }

    fn lend<C: Caller>(&mut self, _: &C, lent: Option<u32>) -> Result<LendAnswer, Errno> {
        self.kept.extend(lent);
        Ok(LendAnswer {
            one: Given(5),
            other: Given(lent.map_or(0, u64::from)),
        })
    }

    fn wait_for<C: Caller>(
        &mut self,
        caller: &C,
        _: Colour,
        text_room: usize,
    ) -> Result<Option<&[u8]>, Errno> {
        assert!(text_room <= 16 && caller.token() == 77);
        Ok((!self.later).then_some(b"now"))
    }

    fn ask_one<C: Caller>(&mut self, _: &C) -> Result<AskOneAnswer, Errno> {
        Ok(AskOneAnswer {
            tint: Colour::DarkGreen,
            one: Given(6),
        })
    }

    fn nothing<C: Caller>(&mut self, _: &C) -> Result<(), Errno> {
        self.willing()
    }
}

/// The way between: what the nucleus does, in a few lines.
#[derive(Default)]
struct Way {
    server: RefCell<Keeper>,
    badge: u64,
    closed: RefCell<Vec<u32>>,
    minted: Cell<u64>,
    flags: Cell<u64>,
    /// What the client closed.
    returned: RefCell<Vec<u32>>,
}

impl Transport for Way {
    fn call(&self, message: Message) -> Result<Answer, cairn_abi::Error> {
        let mut words = message.words;
        let portals = message.portals as usize;
        for word in &mut words[8 - portals..] {
            *word += OTHER_TABLE;
        }
        self.flags.set(message.flags);
        let mut server = self.server.borrow_mut();
        let arrived = Arrived {
            words,
            out: message.out,
            input: RefCell::new(message.input),
            portals,
            badge: self.badge,
            closed: RefCell::default(),
        };
        let outcome = sample::dispatch(&mut *server, &arrived);
        self.closed.borrow_mut().extend(arrived.closed.take());
        let Outcome::Reply(reply) = outcome else {
            return Err(cairn_abi::Error::TimedOut);
        };
        let input = arrived.input.into_inner();
        // The nucleus refuses a reply that does not fit.
        input[..reply.data.len()].copy_from_slice(reply.data);
        let mut words = reply.words;
        if reply.flags & cairn_idl::wire::MINT != 0 {
            self.minted.set(words[7]);
            words[7] = 9;
        }
        Ok(Answer {
            words,
            portals: reply.portals as usize,
        })
    }
    fn close(&self, slot: u32) {
        self.returned.borrow_mut().push(slot);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn words(a: u8, b: u16, c: u32, d in 0u64..1 << 62, e: i32, f: i64, g: bool) {
        let way = Way::default();
        let answer = Client(&way).count(a, b, c, d, e, f, g).unwrap();
        prop_assert_eq!(answer.sum, u64::from(a) + u64::from(b) + u64::from(c) + d);
        prop_assert_eq!((answer.e_again, answer.f_again, answer.right), (e, f, g));
        prop_assert_eq!(answer.small_bits, if g { 2 } else { 0 });
        prop_assert_eq!(answer.tint, if g { Colour::Blue } else { Colour::DarkGreen });
        way.server.borrow_mut().refuse = true;
        prop_assert_eq!(Client(&way).count(a, b, c, d, e, f, g), Err(Failure::Refused(EINVAL)));
    }

    #[test]
    fn a_result_that_looks_like_an_error_is_one(d in (i64::MAX as u64 - 10)..u64::MAX / 2 + 10) {
        let way = Way::default();
        let answer = Client(&way).count(0, 0, 0, d, 0, 0, false).map(|a| a.sum);
        match d as i64 {
            0.. => prop_assert_eq!(answer, Ok(d)),
            _ => prop_assert_eq!(answer, Err(Failure::Refused(cairn_idl::errno::EOVERFLOW))),
        }
    }

    #[test]
    fn bytes(text in proptest::collection::vec(any::<u8>(), 0..260), room in 0usize..500, marks: u64) {
        let way = Way::default();
        let mut copy = vec![0; room];
        let answer = Client(&way).echo(marks, &text, &mut copy);
        if marks & !(3 | 1 << 63) != 0 {
            prop_assert_eq!(answer, Err(Failure::Refused(EINVAL)));
        } else if text.len() > sample::TEXT_MAX {
            prop_assert_eq!(answer, Err(Failure::Refused(EMSGSIZE)));
        } else {
            let (total, length) = answer.unwrap();
            prop_assert_eq!(total, sum(&text).wrapping_add(marks as u8));
            prop_assert_eq!(length, (2 * text.len()).min(room));
            let twice: Vec<u8> = text.iter().chain(&text).copied().collect();
            prop_assert_eq!(&copy[..length], &twice[..length]);
        }
        prop_assert_eq!(Client(&way).first_ten(&text), Ok(text.len().min(10) as u32));
    }

    #[test]
    fn structures(corners: [[(i32, i32); 2]; 3], name: [u8; 32], weights: [u16; 4], best: u64, by: i8) {
        let mut shape = Shape {
            corners: corners.map(|pair| pair.map(|(x, y)| Point { x, y })),
            name: [0; 40],
            weights,
            best,
        };
        shape.name[..32].copy_from_slice(&name);
        prop_assert_eq!(Shape::from_bytes(&shape.to_bytes()), shape);
        let way = Way::default();
        let answer = Client(&way).move_shape(by, &shape).unwrap();
        prop_assert_eq!(answer.corners, 6);
        prop_assert_eq!(answer.moved.corners[2][1].x, shape.corners[2][1].x.wrapping_add(i32::from(by)));
        prop_assert_eq!((answer.moved.corners[1][0].y, answer.moved.best), (shape.corners[1][0].y, best));
        shape.name.reverse();
        prop_assert_eq!(answer.moved.name, shape.name);
    }

    #[test]
    fn portals(note in 0u64..1 << 62, slot in 0u32..900, keeper: bool, refuse: bool) {
        let way = Way { badge: if keeper { 7 } else { 6 }, ..Way::default() };
        way.server.borrow_mut().refuse = refuse;
        let got = Client(&way).trade(note, slot);
        let arrived = slot + OTHER_TABLE as u32;
        if keeper && !refuse {
            prop_assert_eq!(got.unwrap().slot(), 9);
            prop_assert_eq!(way.minted.get(), note);
            prop_assert_eq!(way.server.take().kept, [arrived]);
        } else {
            prop_assert_eq!(got, Err(Failure::Refused(if keeper { EINVAL } else { EPERM })));
            // Who does not take a portal does not keep it either.
            prop_assert_eq!(way.closed.take(), [arrived]);
        }
        let way = Way::default();
        prop_assert_eq!(Client(&way).lend(Some(slot)).unwrap().other.slot(), arrived);
        prop_assert_eq!(way.flags.get(), cairn_abi::flag::PASS_ONCE | cairn_abi::flag::NOT_FURTHER);
        prop_assert_eq!(Client(&way).lend(None).unwrap().other.slot(), 0);
        prop_assert!(way.closed.take().is_empty());
    }

    /// Requests of any kind: the server's methods assert what they were promised, every portal that came is kept or closed, and no reply is longer than the room.
    #[test]
    fn requests_that_no_client_makes(
        number in prop_oneof![0u64..10, Just(0x80u64), any::<u64>()],
        words: [u64; 7],
        small: [bool; 7],
        out in proptest::collection::vec(any::<u8>(), 0..300),
        room in 0usize..500,
        portals in 0usize..16,
        badge in 6u64..8,
        later: bool,
    ) {
        let mut all = [number; 8];
        for i in 0..7 {
            all[i + 1] = if small[i] { words[i] % 4 } else { words[i] };
        }
        let mut input = vec![0; room];
        let arrived = Arrived {
            words: all,
            out: &out,
            input: RefCell::new(&mut input),
            portals,
            badge,
            closed: RefCell::default(),
        };
        let mut server = Keeper { later, ..Keeper::default() };
        let outcome = sample::dispatch(&mut server, &arrived);
        let known = sample::SIGNATURES.iter().find(|s| s.number == number);
        match outcome {
            Outcome::Later => prop_assert!(later && number == sample::WAIT_FOR),
            Outcome::Reply(Reply { words, data, portals, .. }) => {
                prop_assert!(data.len() <= room && portals <= 2);
                prop_assert_eq!(words[0] as i64 == -ENOSYS, known.is_none());
            }
        }
        let arrived_portals = portals.min(4);
        prop_assert_eq!(arrived.closed.take().len() + server.kept.len(), arrived_portals);
    }
}

/// A server that answers what it likes; the nucleus counts the portals that came.
struct Liar {
    words: [u64; 8],
    portals: usize,
    closed: RefCell<Vec<u32>>,
}

impl Liar {
    fn new(words: [u64; 8], portals: usize) -> Liar {
        Liar {
            words,
            portals,
            closed: RefCell::default(),
        }
    }
}

impl Transport for Liar {
    fn call(&self, _: Message) -> Result<Answer, cairn_abi::Error> {
        Ok(Answer {
            words: self.words,
            portals: self.portals,
        })
    }
    fn close(&self, slot: u32) {
        self.closed.borrow_mut().push(slot);
    }
}

#[test]
fn answers_that_break_the_rules_are_nonsense() {
    // More bytes than there is room for.
    let liar = Liar::new([5, 0, 0, 0, 0, 0, 0, 0], 0);
    assert_eq!(
        Client(&liar).echo(0, b"", &mut [0; 4]),
        Err(Failure::Nonsense)
    );
    assert_eq!(Client(&liar).echo(0, b"", &mut [0; 5]), Ok((0, 5)));
    // A number, a truth and a colour that are none.
    for words in [
        [1, 1 << 40, 0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 2, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0, 3],
    ] {
        let liar = Liar::new(words, 0);
        assert_eq!(
            Client(&liar).count(0, 0, 0, 0, 0, 0, true),
            Err(Failure::Nonsense)
        );
    }
}

#[test]
fn a_number_is_no_portal() {
    // Slot 3 of the client's own table, called a portal.
    let numbers = [0, 1, 2, 3, 4, 5, 6, 3];
    let liar = Liar::new(numbers, 0);
    assert_eq!(Client(&liar).trade(1, 2), Err(Failure::Nonsense));
    assert_eq!(liar.closed.take(), []);
    // One too few, and too many: what came is closed, and nothing else.
    let liar = Liar::new(numbers, 1);
    assert_eq!(Client(&liar).lend(None), Err(Failure::Nonsense));
    assert_eq!(liar.closed.take(), [3]);
    let liar = Liar::new(numbers, 4);
    assert_eq!(Client(&liar).lend(None), Err(Failure::Nonsense));
    assert_eq!(liar.closed.take(), [4, 5, 6, 3]);
    // None was asked for; and one with an error, with an answer that means nothing.
    let liar = Liar::new(numbers, 1);
    assert_eq!(Client(&liar).nothing(), Err(Failure::Nonsense));
    assert_eq!(liar.closed.take(), [3]);
    let liar = Liar::new([-EPERM as u64, 1, 2, 3, 4, 5, 6, 3], 1);
    assert_eq!(Client(&liar).trade(1, 2), Err(Failure::Refused(EPERM)));
    assert_eq!(liar.closed.take(), [3]);
    let liar = Liar::new([0, 7, 0, 0, 0, 0, 0, 8], 1);
    assert_eq!(Client(&liar).ask_one(), Err(Failure::Nonsense));
    assert_eq!(liar.closed.take(), [8]);
    let liar = Liar::new([0, 5, 0, 0, 0, 0, 0, 8], 1);
    assert!(Client(&liar)
        .ask_one()
        .is_ok_and(|answer| answer.one.slot() == 8));
    assert_eq!(liar.closed.take(), []);
}

#[test]
fn deferred_answers_are_made_later() {
    let way = Way::default();
    way.server.borrow_mut().later = true;
    let mut text = [0; 16];
    let waiting = Client(&way).wait_for(Colour::Red, &mut text);
    assert_eq!(waiting, Err(Failure::Gate(cairn_abi::Error::TimedOut)));
    let reply = sample::wait_for_reply(Ok(b"then"));
    assert_eq!((reply.words[0], reply.data), (4, &b"then"[..]));
    assert_eq!(sample::wait_for_reply(Err(4)).words[0] as i64, -4);
}

#[test]
fn signatures_say_what_is_used() {
    let of = |number| {
        *sample::SIGNATURES
            .iter()
            .find(|s| s.number == number)
            .unwrap()
    };
    let count = of(sample::COUNT);
    assert_eq!((count.words_in, count.words_out), (0xff, 0b1001_1111));
    let echo = of(sample::ECHO);
    assert_eq!(
        (echo.words_in, echo.words_out, echo.out_most, echo.in_most),
        (0b11, 0b11, 200, 400)
    );
    let trade = of(sample::TRADE);
    assert_eq!(
        (
            trade.portals_in,
            trade.request.passing,
            trade.answer.passing
        ),
        (1, Passing::Moved, Passing::Minted)
    );
    assert_eq!(trade.words_out, 0b1000_0001);
    let nothing = of(sample::NOTHING);
    assert_eq!(nothing.float, cairn_idl::wire::Float::Kept);
    assert_eq!(nothing.trust, cairn_idl::wire::Trust::Both);
    assert_eq!(echo.float, cairn_idl::wire::Float::Switched);
}
