//! Random messages through the generated client to the generated server and back; and random requests that no client makes, which the dispatcher must refuse or decode within bounds.
#![forbid(unsafe_code)]

include!("sample/sample.rs");

use cairn_idl::errno::{EINVAL, EMSGSIZE, ENOENT, ENOSYS, EOPNOTSUPP, EPERM};
use cairn_idl::wire::{
    Answer, Caller, Errno, Failure, Filled, Given, Length, Message, Out, Outcome, Pages, Passing,
    Reply, Room, Shown, Transport, View,
};
use proptest::prelude::*;
use sample::{
    AskOneAnswer, Client, Colour, CountAnswer, LendAnswer, MoveShapeAnswer, Point, Shape,
};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slots below are the client's, those above the server's.
const OTHER_TABLE: u64 = 1000;

/// A message that arrived.
struct Arrived<'m, const SIGNED: bool = false> {
    words: [u64; 8],
    out: &'m [u8],
    input: RefCell<&'m mut [u8]>,
    portals: usize,
    badge: u64,
    closed: RefCell<Vec<u32>>,
}

impl<const SIGNED: bool> Caller for Arrived<'_, SIGNED> {
    const SIGNED: bool = SIGNED;

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
    /// What GATHER says instead.
    error: Errno,
    view: Seen,
}

const PAGE: usize = cairn_abi::layout::PAGE as usize;

/// A window of two pages. What is asked of it is noted.
struct Seen {
    words: Vec<AtomicU64>,
    asked: RefCell<Vec<[u64; 4]>>,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            words: (0..2 * PAGE as u64 / 8).map(AtomicU64::new).collect(),
            asked: RefCell::default(),
        }
    }
}

impl View for Seen {
    fn open(
        &self,
        token: u64,
        offset: u64,
        pages: u64,
        flags: u64,
    ) -> Result<&[AtomicU64], cairn_abi::Error> {
        self.asked.borrow_mut().push([token, offset, pages, flags]);
        self.words
            .get(..pages as usize * PAGE / 8)
            .ok_or(cairn_abi::Error::BadArgument)
    }
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

    fn weave<C: Caller>(
        &mut self,
        _: &C,
        by: u8,
        threads: Out<'_, C>,
        cloth_room: usize,
    ) -> Result<(u8, [&[u8]; 3]), Errno> {
        assert!(threads.len() <= sample::TEXT_MAX && cloth_room <= 300);
        // Cut otherwise than the client does it.
        self.buffer.clear();
        self.buffer.resize(threads.len() + 5, 0);
        let (first, rest) = self.buffer.split_at_mut(threads.len() / 3);
        let (second, third) = rest.split_at_mut(threads.len() / 2);
        let count = threads.read_pieces(0, &mut [first, second, third])?;
        assert_eq!(count, threads.len());
        self.buffer.truncate(count);
        let all = &self.buffer[..];
        let (start, end) = all.split_at(all.len() / 2);
        let total = sum(all).wrapping_add(by);
        Ok((total, [end, start, all]))
    }

    fn gather<C: Caller>(
        &mut self,
        _: &C,
        point: Point,
        bits_room: usize,
    ) -> Result<[&[u8]; 2], Errno> {
        assert!(bits_room <= 100);
        self.buffer = point.to_bytes().to_vec();
        if point.x == 0 {
            return Err(self.error);
        }
        Ok([&self.buffer, b"and more"])
    }

    fn spread<C: Caller>(&mut self, _: &C, text: Out<'_, C>) -> Result<u32, Errno> {
        let (mut first, mut second) = ([0; 7], [0; 7]);
        let count = text.read_pieces(0, &mut [&mut first, &mut second])?;
        assert_eq!(count, text.len());
        Ok(u32::from(sum(&first)) + u32::from(sum(&second)) * 1000)
    }

    fn look<C: Caller>(
        &mut self,
        _: &C,
        picture: Out<'_, C>,
        negative_room: Room<'_, C>,
    ) -> Result<(u64, Filled<'_>), Errno> {
        let pages = picture.len() / PAGE;
        let Ok(seen) = picture.show(&self.view, 0, pages, false) else {
            return Ok((0, Filled::Bytes(b"copied")));
        };
        let total = seen.iter().map(|word| word.load(Relaxed)).sum();
        // It was not agreed that windows are kept; nor is there more than the part.
        for (pages, kept) in [(pages, true), (pages + 1, false), (usize::MAX, false)] {
            assert!(picture.show(&self.view, 0, pages, kept).is_err());
        }
        assert!(picture.show(&self.view, PAGE, pages, false).is_err());
        match negative_room.show(&self.view, 0, 1, false) {
            Ok(_) => Ok((total, Filled::Shown(1 << 40))),
            Err(_) => Ok((total, Filled::Bytes(b"copied"))),
        }
    }

    fn study<C: Caller>(&mut self, _: &C, until: u64, picture: Out<'_, C>) -> Result<(), Errno> {
        let pages = until as usize;
        picture.show(&self.view, 0, pages, true).map(|_| ())?;
        picture.show_copied(&self.view, 0, pages).map(|_| ())
    }

    fn give<C: Caller>(&mut self, _: &C, given: Pages) -> Result<u64, Errno> {
        self.kept.push(given.slot);
        Ok(given.most)
    }

    fn take_back<C: Caller>(&mut self, _: &C) -> Result<Given, Errno> {
        Ok(Given(12))
    }

    fn point_at<C: Caller>(&mut self, _: &C, by: u8, _: u64, at: u64) -> Result<u64, Errno> {
        Ok(at + u64::from(by))
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
    /// One run of bytes on the other side, as it is with the nucleus.
    fn call_pieces(
        &self,
        message: Message,
        out: &[&[u8]],
        input: &mut [&mut [u8]],
    ) -> Result<Answer, cairn_abi::Error> {
        assert!(message.out.is_empty() && message.input.is_empty());
        let mut room = vec![0; cairn_idl::wire::room(input)];
        let answer = self.call(Message {
            out: &out.concat(),
            input: &mut room,
            ..message
        });
        let mut rest = &room[..];
        for piece in input {
            let (part, after) = rest.split_at(piece.len());
            piece.copy_from_slice(part);
            rest = after;
        }
        answer
    }

    fn call(&self, message: Message) -> Result<Answer, cairn_abi::Error> {
        let mut words = message.words;
        let portals = message.portals as usize;
        for word in &mut words[8 - portals..] {
            *word += OTHER_TABLE;
        }
        self.flags.set(message.flags);
        let mut server = self.server.borrow_mut();
        let arrived: Arrived = Arrived {
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
        if text.len() > sample::TEXT_MAX {
            prop_assert_eq!(answer, Err(Failure::Refused(EMSGSIZE)));
        } else if marks & !(3 | 1 << 63) != 0 {
            prop_assert_eq!(answer, Err(Failure::Refused(EINVAL)));
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
        prop_assert_eq!(Client(&way).give(slot), Ok(4 * PAGE as u64));
        prop_assert_eq!(way.server.take().kept.pop(), Some(arrived));
        prop_assert_eq!(Client(&way).take_back().unwrap().slot(), 12);
    }

    #[test]
    fn pieces(
        threads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..6),
        rooms in proptest::collection::vec(0usize..200, 0..5),
        by: u8,
        point: (i32, i32),
    ) {
        let way = Way::default();
        let mut cloth: Vec<Vec<u8>> = rooms.iter().map(|room| vec![0; *room]).collect();
        let mut cloth: Vec<&mut [u8]> = cloth.iter_mut().map(|piece| &mut piece[..]).collect();
        let threads: Vec<&[u8]> = threads.iter().map(|thread| &thread[..]).collect();
        let sent = threads.concat();
        let room: usize = rooms.iter().sum();
        let answer = Client(&way).weave(by, &threads, &mut cloth);
        if threads.len() > 4 || rooms.len() > 3 {
            prop_assert_eq!(answer, Err(Failure::Gate(cairn_abi::Error::BadArgument)));
        } else if sent.len() > sample::TEXT_MAX {
            prop_assert_eq!(answer, Err(Failure::Refused(EMSGSIZE)));
        } else {
            let (total, length) = answer.unwrap();
            prop_assert_eq!(total, sum(&sent).wrapping_add(by));
            prop_assert_eq!(length, (2 * sent.len()).min(room).min(300));
            let (start, end) = sent.split_at(sent.len() / 2);
            let woven = [end, start, &sent].concat();
            let came = cloth.iter().map(|piece| &**piece).collect::<Vec<_>>().concat();
            prop_assert_eq!(&came[..length], &woven[..length]);
        }
        // A structure beside pieces.
        if rooms.len() <= 2 && point.0 != 0 {
            let point = Point { x: point.0, y: point.1 };
            let length = Client(&way).gather(&point, &mut cloth).unwrap();
            prop_assert_eq!(length, 16.min(room));
            let came = cloth.iter().map(|piece| &**piece).collect::<Vec<_>>().concat();
            prop_assert_eq!(&came[..length], &[&point.to_bytes()[..], b"and more"].concat()[..length]);
        }
        let spread = Client(&way).spread(&threads).unwrap();
        let counted = &sent[..sent.len().min(10)];
        let (first, second) = counted.split_at(counted.len().min(7));
        prop_assert_eq!(spread, u32::from(sum(first)) + u32::from(sum(second)) * 1000);
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
        let arrived: Arrived = Arrived {
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
    fn call_pieces(
        &self,
        message: Message,
        _: &[&[u8]],
        _: &mut [&mut [u8]],
    ) -> Result<Answer, cairn_abi::Error> {
        self.call(message)
    }
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
fn pages_are_seen_where_that_was_agreed() {
    let way = Way::default();
    let (picture, mut negative) = (vec![0; 2 * PAGE], vec![0; PAGE]);
    let answer = Client(&way).look(&picture, &mut negative).unwrap();
    let total: u64 = (0..2 * PAGE as u64 / 8).sum();
    // What the server says it filled is what there is room for at most.
    assert_eq!(answer, (total, PAGE));
    assert_eq!(way.flags.get(), cairn_abi::flag::WINDOWS);
    let view = way.server.take().view;
    assert_eq!(view.asked.take(), [[77, 0, 2, 0], [77, 0, 1, 1]]);
    // Without a whole page of room nothing is shown; the window may say no.
    assert_eq!(
        Client(&way).look(&picture, &mut negative[..100]),
        Ok((total, 6))
    );
    let long = vec![0; 3 * PAGE];
    assert_eq!(Client(&way).look(&long, &mut negative), Ok((0, 6)));
    assert_eq!(negative[..6], *b"copied");
    way.server.take();
    assert_eq!(Client(&way).study(2, &picture), Ok(()));
    let flags = cairn_abi::flag::WINDOWS | cairn_abi::flag::KEEP | cairn_abi::flag::INTERRUPTIBLE;
    assert_eq!(way.flags.get(), flags);
    let view = way.server.take().view;
    assert_eq!(view.asked.take(), [[77, 0, 2, 2], [77, 0, 2, 4]]);
}

/// Every shape but the operation's is refused before the server hears of it.
#[test]
fn other_shapes_are_refused() {
    for signature in &sample::SIGNATURES {
        let badge = signature.badge.unwrap_or(0);
        let (least, most) = (signature.portals_least, signature.portals_in);
        let right = |part: &cairn_idl::wire::Part| match part.length {
            Length::None => 0,
            _ => part.most,
        };
        let ask = |badge: u64, portals: usize, out: usize, input: usize| {
            let (out, mut input) = (vec![0; out], vec![0; input]);
            let arrived: Arrived = Arrived {
                words: [signature.number, 0, 0, 0, 0, 0, 0, 0],
                out: &out,
                input: RefCell::new(&mut input),
                portals,
                badge,
                closed: RefCell::default(),
            };
            cairn_idl::wire::admit(signature, &arrived)
        };
        let (out, input) = (right(&signature.out), right(&signature.input));
        for portals in 0..6 {
            let fits = (least.into()..=most.into()).contains(&portals);
            let answer = ask(badge, portals, out, input);
            assert_eq!(answer, if fits { Ok(()) } else { Err(EINVAL) });
        }
        let portals = most.into();
        if signature.badge.is_some() {
            assert_eq!(ask(badge + 1, portals, out, input), Err(EPERM));
        }
        let longer = match signature.out.length {
            Length::None | Length::Exact => Err(EINVAL),
            Length::Most => Err(EMSGSIZE),
            Length::First => Ok(()),
        };
        assert_eq!(ask(badge, portals, out + 1, input), longer);
        let more = match signature.input.length {
            Length::None => Err(EINVAL),
            _ => Ok(()),
        };
        assert_eq!(ask(badge, portals, out, input + 1), more);
        if signature.input.length == Length::Exact {
            assert_eq!(ask(badge, portals, out, input - 1), Err(EINVAL));
        }
        if signature.out.length == Length::Exact {
            assert_eq!(ask(badge, portals, out - 1, input), Err(EINVAL));
        }
    }
}

fn gather_says(error: Errno) -> Result<usize, Failure> {
    let way = Way::default();
    way.server.borrow_mut().error = error;
    Client(&way).gather(&Point { x: 0, y: 0 }, &mut [])
}

#[test]
fn errors_of_the_definition_are_told() {
    assert_eq!(gather_says(ENOENT), Err(Failure::Refused(ENOENT)));
    assert_eq!(gather_says(EINVAL), Err(Failure::Refused(EINVAL)));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "GATHER does not have error 95")]
fn errors_that_the_definition_does_not_name_are_found() {
    let _ = gather_says(EOPNOTSUPP);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "WAIT_FOR does not have error 95")]
fn so_are_those_of_later_answers() {
    let _ = sample::wait_for_reply(Err(EOPNOTSUPP));
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
        (
            echo.words_in,
            echo.words_out,
            echo.out.most,
            echo.input.most
        ),
        (0b11, 0b11, 200, 400)
    );
    assert_eq!(echo.errors, [EMSGSIZE]);
    let weave = of(sample::WEAVE);
    assert_eq!((weave.out.pieces, weave.input.pieces), (4, 3));
    assert_eq!(of(sample::FIRST_TEN).out.length, Length::First);
    let shape = of(sample::MOVE_SHAPE);
    assert_eq!(
        (shape.out.length, shape.out.most),
        (Length::Exact, Shape::BYTES)
    );
    let study = of(sample::STUDY);
    assert_eq!(
        (study.out.shown, study.input.length),
        (Shown::Kept, Length::None)
    );
    let flags = cairn_abi::flag::WINDOWS | cairn_abi::flag::KEEP | cairn_abi::flag::INTERRUPTIBLE;
    assert_eq!(study.flags, flags);
    let lend = of(sample::LEND);
    assert_eq!((lend.portals_least, lend.portals_in), (0, 1));
    assert_eq!(of(sample::GIVE).pages_in, 4 * PAGE as u64);
    assert_eq!(of(sample::TAKE_BACK).pages_out, PAGE as u64);
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

#[test]
fn a_badge_is_what_the_nucleus_says() {
    fn answer<const SIGNED: bool>(words: [u64; 8]) -> [u64; 8] {
        let caller: Arrived<SIGNED> = Arrived {
            words,
            out: &[],
            input: RefCell::new(&mut []),
            portals: 0,
            badge: 0,
            closed: RefCell::default(),
        };
        match sample::dispatch(&mut Keeper::default(), &caller) {
            Outcome::Reply(reply) => reply.words,
            Outcome::Later => panic!("at once"),
        }
    }
    let bold = sample::marks::BOLD;
    let words = |by, marks, at| [sample::POINT_AT, by, marks, 0, 0, 0, 0, at];
    assert_eq!(answer::<true>(words(3, bold, 1 << 40))[1], (1 << 40) + 3);
    // Without its word for it nobody's; and marks have gaps, which it does not look at.
    let refused = |errno: Errno| [errno.wrapping_neg() as u64, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        answer::<false>(words(3, bold, 77)),
        refused(cairn_idl::errno::ENOSYS)
    );
    assert_eq!(answer::<true>(words(3, 4, 77)), refused(EINVAL));
    let any = u64::MAX;
    let asked = |number| {
        let found = sample::SIGNATURES.iter().find(|s| s.number == number);
        found.unwrap().asked
    };
    let badge = cairn_abi::service::receive::BADGE;
    let marks = 0x8000_0000_0000_0003;
    assert_eq!(
        asked(sample::POINT_AT),
        Some([
            sample::POINT_AT | badge,
            255,
            marks,
            any,
            any,
            any,
            any,
            any
        ])
    );
    let count = [sample::COUNT, 255, 65535, u32::MAX.into(), any, any, any, 1];
    assert_eq!(asked(sample::COUNT), Some(count));
    assert_eq!(asked(sample::NOTHING), None);
}
