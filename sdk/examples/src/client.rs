//! A client of the notice board in Rust: does what can be done with a board, checks every answer, and says in the log how it went.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_abi::{pulse, received, Error};
use cairn_examples::board::{self, change, Client, Colour, NOTE_MAX, PLACES};
use cairn_idl::errno::{EINVAL, EMSGSIZE, ENOENT, ENOSYS};
use cairn_idl::wire::{call, Failure, Message};
use cairn_rt::start::exit;
use cairn_rt::{log, startup, time, Portal, Receiver};

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
    checks.check(
        call(&portal, no_colour, 0) == Err(Failure::Refused(EINVAL)),
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
