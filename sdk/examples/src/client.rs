//! A client of the notice board in Rust: does what can be done with a board, checks every answer, and says in the log how it went.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_abi::{pulse, received, Error};
use cairn_examples::board::{self, change, Client, Colour, NOTE_MAX, PLACES, POSTER_MAX};
use cairn_examples::sum_of;
use cairn_idl::errno::{EBUSY, EINVAL, EIO, EMSGSIZE, ENOENT, ENOSYS};
use cairn_idl::wire::{call, Failure, Message};
use cairn_rt::start::exit;
use cairn_rt::{log, memory, pages, startup, time, Portal, Receiver};

cairn_rt::entry!(main);

/// Counts what was not as it should be.
#[derive(Default)]
struct Checks {
    failures: u64,
}

impl Checks {
    fn check(&mut self, right: bool, what: &str) {
        if !right {
            self.failures += 1;
            log!("{what}");
        }
    }
}

fn main() -> ! {
    let mut checks = Checks::default();
    match (startup::portal("board"), startup::portal("other")) {
        (Some(own), Some(other)) => {
            one(&mut checks, own);
            pieces(&mut checks, own);
            places(&mut checks, own, other);
            posters(&mut checks, own);
            together(&mut checks, own, other);
        }
        _ => checks.check(false, "no boards"),
    }
    log!("client in Rust, failures: {}", checks.failures);
    exit(checks.failures)
}

/// With a board of our own.
fn one(checks: &mut Checks, portal: Portal) {
    let board = Client(&portal);
    let mut note = [0; NOTE_MAX];
    checks.check(board.pin(2, Colour::Red, b"milk") == Ok(1), "pin");
    checks.check(board.pin(5, Colour::White, b"") == Ok(2), "pin nothing");
    checks.check(board.read(2, &mut note) == Ok((Colour::Red, 4)), "read");
    checks.check(note[..4] == *b"milk", "what was read");
    checks.check(
        board.read(2, &mut note[..2]) == Ok((Colour::Red, 2)),
        "read a part",
    );
    checks.check(
        board.read(3, &mut note) == Err(Failure::Refused(ENOENT)),
        "read an empty place",
    );

    // What the dispatcher refuses before the server sees it.
    checks.check(
        board.pin(0, Colour::Red, &[0; NOTE_MAX + 1]) == Err(Failure::Refused(EMSGSIZE)),
        "too long a note",
    );
    let no_colour = Message {
        words: [board::PIN, 0, 3, 0, 0, 0, 0, 0],
        ..Message::default()
    };
    // This the nucleus refuses, which the board has asked to.
    checks.check(
        call(&portal, no_colour, 0) == Err(Failure::Gate(Error::BadArgument)),
        "no such colour",
    );
    checks.check(
        board.pin(PLACES, Colour::Red, b"x") == Err(Failure::Refused(EINVAL)),
        "no such place",
    );
    let unknown = Message {
        words: [99, 0, 0, 0, 0, 0, 0, 0],
        ..Message::default()
    };
    checks.check(
        call(&portal, unknown, 0) == Err(Failure::Refused(ENOSYS)),
        "no such operation",
    );
    checks.check(
        Client(&Portal(u32::MAX)).clear() == Err(Failure::Gate(Error::BadPortal)),
        "no such portal",
    );

    let summary = board.summary();
    checks.check(
        summary.is_ok_and(|s| (s.notes, s.longest, s.pinned) == (2, 4, 2)),
        "summary",
    );

    // Changes come as pulses to our own channel.
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    match receiver.make_portal(7) {
        Ok(watcher) => {
            checks.check(board.watch(watcher.0).is_ok(), "watch");
            watcher.close();
        }
        Err(_) => checks.check(false, "a portal"),
    }
    checks.check(board.clear().is_ok(), "clear");
    let told = receiver.receive(Some(time::monotonic() + 5_000_000_000));
    checks.check(
        told.is_ok_and(|told| {
            told.kind == received::kind::PULSE
                && told.badge == 7
                && told.words[..2] == [pulse::NOTIFY, change::CLEARED]
        }),
        "which pulse",
    );
    checks.check(board.pin(1, Colour::Yellow, b"bread") == Ok(1), "pin again");
    checks.check(board.wait(1, &mut note) == Ok(5), "wait for what is there");
}

/// Notes whose lines lie in several places, and room that does.
fn pieces(checks: &mut Checks, portal: Portal) {
    let board = Client(&portal);
    checks.check(board.clear().is_ok(), "clear before the lines");
    let lines = [&b"milk "[..], b"", b"and ", b"bread"];
    checks.check(
        board.pin_lines(3, Colour::White, &lines) == Ok(1),
        "pin lines",
    );
    checks.check(board.pin(0, Colour::Red, b"first, ") == Ok(2), "pin one");
    let (mut start, mut middle, mut end) = ([0; 3], [0; 9], [0; 50]);
    let all = board.read_all(&mut [&mut start, &mut middle, &mut end]);
    checks.check(all == Ok((2, 21)), "read all");
    checks.check(start == *b"fir" && middle == *b"st, milk ", "how it begins");
    checks.check(end[..9] == *b"and bread", "how it ends");
    checks.check(
        board.read_all(&mut [&mut start, &mut middle[..2]]) == Ok((2, 5)),
        "too little room",
    );
    let nine = [&b"x"[..]; 9];
    checks.check(
        board.pin_lines(3, Colour::White, &nine) == Err(Failure::Gate(Error::BadArgument)),
        "too many lines",
    );
    let far = [0; NOTE_MAX];
    checks.check(
        board.pin_lines(3, Colour::White, &[&far, b"x"]) == Err(Failure::Refused(EMSGSIZE)),
        "too long lines",
    );
}

/// Portals that stand for places.
fn places(checks: &mut Checks, portal: Portal, other: Portal) {
    let board = Client(&portal);
    let Ok(opened) = board.open(3) else {
        return checks.check(false, "open a place");
    };
    let mut note = [0; NOTE_MAX];
    // Often enough that the portal has code of its own.
    for i in 0..100 {
        let to = 4 + i % 2;
        checks.check(board.copy(to, opened.slot()).is_ok(), "copy a note");
        let read = board.read(to, &mut note);
        checks.check(read == Ok((Colour::White, 14)), "what was copied");
    }
    let copy = |slot: u32| board.copy(4, slot);
    let refused = |error| Err(Failure::Gate(error));
    checks.check(
        copy(1000 + 3) == refused(Error::BadPortal),
        "a made-up badge",
    );
    checks.check(copy(other.0) == refused(Error::BadPortal), "another board");
    checks.check(
        copy(portal.0) == Err(Failure::Refused(EINVAL)),
        "a portal that stands for no place",
    );
    let place = Portal(opened.slot());
    checks.check(
        Client(&place).copy(4, opened.slot()).is_ok(),
        "a call through the place",
    );
    place.close();
    checks.check(copy(opened.slot()) == refused(Error::BadPortal), "closed");
    checks.check(
        board.open(PLACES) == Err(Failure::Refused(EINVAL)),
        "open no place",
    );
}

/// A poster that the board looks at where it lies, and one that goes over to it.
fn posters(checks: &mut Checks, portal: Portal) {
    let board = Client(&portal);
    let Some(poster) = memory::map(POSTER_MAX) else {
        return checks.check(false, "memory for a poster");
    };
    for (i, byte) in poster.iter_mut().enumerate() {
        *byte = (i % 251) as u8;
    }
    let sum = sum_of(poster);
    let right = |answer: Result<board::SurveyAnswer, Failure>, sum, seen| {
        answer.is_ok_and(|answer| (answer.sum, answer.seen) == (sum, seen))
    };
    checks.check(right(board.survey(poster), sum, true), "survey");
    // Pages that do not begin where a page does are copied, and so is what is no whole page.
    let within = &poster[8..POSTER_MAX - 4];
    checks.check(
        right(board.survey(within), sum_of(within), false),
        "survey of what lies across pages",
    );
    let some = &poster[..5000];
    checks.check(
        right(board.survey(some), sum_of(some), true),
        "survey of a page and a bit",
    );
    checks.check(
        right(board.survey(&poster[..7]), sum_of(&poster[..7]), false),
        "survey of less than a page",
    );

    match pages::give(poster, pages::ANYBODY) {
        Ok(offered) => {
            checks.check(poster.iter().all(|byte| *byte == 0), "given away");
            checks.check(board.hang(offered.0) == Ok(sum), "hang");
            checks.check(
                board.hang(offered.0) == Err(Failure::Refused(EBUSY)),
                "hang it twice",
            );
            offered.close();
        }
        Err(_) => checks.check(false, "give"),
    }
    let down = board.take_down();
    let taken = down.and_then(|poster| pages::take(Portal(poster.slot()), POSTER_MAX));
    checks.check(
        taken.is_ok_and(|poster| sum_of(&poster) == sum),
        "take down",
    );
    checks.check(
        board.take_down() == Err(Failure::Refused(ENOENT)),
        "take down nothing",
    );
    // What is no offer: `vm` says so to the board.
    checks.check(
        board.hang(portal.0) == Err(Failure::Refused(EIO)),
        "hang what is no poster",
    );
}

/// Answers that come later: each client says at place 6 of its own board that it has done the above, waits for the other to say so,
/// pins something at place 7 of the other's board, and waits for that at its own.
fn together(checks: &mut Checks, own: Portal, other: Portal) {
    let (own, other) = (Client(&own), Client(&other));
    let mut note = [0; NOTE_MAX];
    checks.check(own.pin(6, Colour::White, b"ready").is_ok(), "say ready");
    checks.check(other.wait(6, &mut note) == Ok(5), "wait for the other");
    checks.check(
        other.pin(7, Colour::Red, b"good news").is_ok(),
        "pin at the other's",
    );
    checks.check(own.wait(7, &mut note) == Ok(9), "wait for what comes");
    checks.check(note[..9] == *b"good news", "what came");
}
