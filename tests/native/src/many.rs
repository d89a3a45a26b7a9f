//! Makes a hundred thousand threads and portals, and as many channels as a portal table has slots for: the nucleus has room for them, ids stay different, and
//! what was made last works. Says `many: done` when all was right.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::native_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{domain, thread, AUTO};
use cairn_abi::Error;
use cairn_rt::memory::with_objects;
use cairn_rt::{log, Message, Portal, Receiver};

cairn_rt::entry!(main);

const MANY: u64 = 100_000;
/// A table has 16,384 entries.
const CHANNELS: u64 = 16_000;

/// `vm` has a longer portal table if this one is full.
fn with_slots<T>(pool: u64, make: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    match with_objects(pool, &make) {
        Err(Error::NoSlot) => {
            let words = [cairn_idl::vm::GROW_TABLE, 0];
            Portal(native_slot::VM).call(Message::new(&words))?;
            with_objects(pool, &make)
        }
        made => made,
    }
}

fn main() -> ! {
    let threads = threads().expect("there is memory");
    log!("many: {MANY} threads");
    portals().expect("there is memory");
    log!("many: {MANY} portals");
    channels().expect("there is memory");
    log!("many: {CHANNELS} channels");
    // The first and the last are there, and two of many.
    for thread in threads {
        assert!(thread.service(thread::KILL, &[]).is_ok());
        let again = thread.service(thread::KILL, &[]);
        assert_eq!(again, Err(Error::Dead));
    }
    log!("many: done");
    cairn_rt::start::exit(0)
}

/// Threads that are never started. Portals to the first and to the last.
fn threads() -> Result<[Portal; 2], Error> {
    let make = |slot| {
        let words = [4096, 4096, 0, 0, 0, 1, slot];
        let make = || Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words);
        with_objects(pool::THREAD, make)
    };
    let first = make(AUTO)?;
    let mut before = first[1];
    for _ in 2..MANY {
        let id = make(0)?[1];
        assert_ne!(id, before);
        before = id;
    }
    let last = make(AUTO)?;
    Ok([first, last].map(|made| Portal(made[0] as u32)))
}

/// Portals that are kept by the pulse alone which tells of their ends.
fn portals() -> Result<(), Error> {
    let channel = with_slots(pool::CHANNEL, Receiver::create)?;
    for badge in 1..=MANY {
        with_slots(pool::PORTAL, || channel.make_portal(badge))?.close();
    }
    // They come in order.
    for badge in 1..=MANY {
        let pulse = channel.receive(None)?;
        assert_eq!((pulse.token, pulse.badge), (0, badge));
    }
    Ok(())
}

fn channels() -> Result<(), Error> {
    let mut last = None;
    for _ in 0..CHANNELS {
        last = Some(with_slots(pool::CHANNEL, Receiver::create)?);
    }
    let Some(channel) = last else {
        return Ok(());
    };
    let portal = with_slots(pool::PORTAL, || channel.make_portal(7))?;
    portal.notify(5)?;
    let pulse = channel.receive(None)?;
    assert_eq!((pulse.token, pulse.badge), (0, 7));
    Ok(())
}
