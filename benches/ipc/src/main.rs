//! The components of `./cairn bench ipc`: one that measures, and seven domains for it to talk to (manifest: benches/ipc.toml).
//!
//! All of them are this program; the argument `role=leg` makes one of the seven ([`leg`]), `role=clock` a driver ([`clock`]). The one that measures waits until somebody looks for a file called `run`
//! below /ipc, measures ([`rows`]) while all others wait, and writes its figures to the log ([`samples`]) for the host tool.
#![no_std]
#![no_main]

mod clock;
mod leg;
mod rows;
mod samples;
mod stubs;

use cairn_abi::service::{domain, AUTO};
use cairn_abi::{layout, Error};
use cairn_idl::vm;
use cairn_rt::{memory, serve, startup, Message, Portal, Receiver, Reply};

cairn_rt::entry!(main);

/// Base priorities: of whoever measures, and of those who wait for it.
const LOW: u64 = 30;
const HIGH: u64 = 60;
const STACK: usize = 16 * 1024;
const ENOENT: i64 = -2;

fn main() -> ! {
    match startup::argument("role") {
        Some("leg") => leg::run(),
        Some("clock") => clock::run(),
        _ => measure(),
    }
}

/// Whatever the measurement cannot do without.
fn need<T>(what: &str, result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}

/// Do it, and once more after `vm` gave the nucleus room for more objects.
fn with_room<T>(kind: u64, attempt: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    match attempt() {
        Err(Error::NoMemory) => {
            Portal(layout::native_slot::VM).call(Message::new(&[vm::MORE_OBJECTS, kind]))?;
            attempt()
        }
        other => other,
    }
}

/// The slot of a thread of `owner` that has not started.
fn thread(owner: Portal, entry: stubs::Entry, argument: u64, priority: u64) -> Portal {
    let stack = memory::map(STACK).unwrap_or_else(|| panic!("no memory for a stack"));
    let _ = memory::populate(stack);
    let top = stack.as_mut_ptr() as u64 + STACK as u64;
    let words = [
        entry as *const () as u64,
        top,
        argument,
        0,
        0,
        priority,
        AUTO,
    ];
    let made = with_room(cairn_abi::service::memory::pool::THREAD, || {
        owner.service(domain::THREAD_CREATE, &words)
    });
    Portal(need("a thread", made)[0] as u32)
}

fn measure() -> ! {
    let receiver = Receiver(Portal(layout::native_slot::RECEIVE));
    loop {
        let Ok(message) = receiver.receive(None) else {
            continue;
        };
        if message.token == 0 {
            continue;
        }
        let path = serve::short_path(&message.words);
        // Nobody shall wait for the figures: they are for the log.
        let _ = receiver.reply(message.token, Reply::result(ENOENT));
        if path.starts_with(b"/run\0") {
            rows::all();
        }
    }
}
