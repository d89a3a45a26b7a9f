//! The foe: listens for orders, and attacks with threads of the priority that it is told.

use crate::attacks::ATTACKS;
use crate::{own_channel, ATTACK, END, NEVER, TELL};
use cairn_abi::layout::native_slot;
use cairn_abi::service::{current, domain, thread, AUTO};
use cairn_abi::Error;
use cairn_rt::{Message, Portal, Reply};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often something went well that must not, and was refused that must be.
pub static BROKEN: AtomicU64 = AtomicU64::new(0);
pub static REFUSED: AtomicU64 = AtomicU64::new(0);
/// The priority of the attack.
pub static PRIORITY: AtomicU64 = AtomicU64::new(0);

pub const STACKS: usize = 64;
const STACK: usize = 8192;

/// Stacks, one per thread; nobody else looks at them.
#[repr(align(4096))]
struct Stacks(UnsafeCell<[[u8; STACK]; STACKS]>);

// SAFETY: only the addresses are used here; each stack belongs to one thread.
unsafe impl Sync for Stacks {}

static MEMORY: Stacks = Stacks(UnsafeCell::new([[0; STACK]; STACKS]));

/// The top of a stack, as a function finds it that was called.
pub fn stack(index: usize) -> u64 {
    MEMORY.0.get() as u64 + ((index % STACKS + 1) * STACK) as u64 - 8
}

/// A thread that begins at `entry` with stack `index`, not started. Nobody else may use that stack while it lives.
pub fn create(
    entry: extern "C" fn(u64) -> !,
    index: usize,
    argument: u64,
) -> Result<Portal, Error> {
    let words = [
        entry as *const () as u64,
        stack(index),
        argument,
        0,
        0,
        PRIORITY.load(Relaxed),
        AUTO,
    ];
    let made = Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words)?;
    Ok(Portal(made[0] as u32))
}

pub fn start(entry: extern "C" fn(u64) -> !, index: usize, argument: u64) -> Result<Portal, Error> {
    let made = create(entry, index, argument)?;
    made.service(thread::START, &[])?;
    Ok(made)
}

pub fn kill(thread: Portal) {
    let _ = thread.service(thread::KILL, &[]);
    thread.close();
}

extern "C" fn attack(number: u64) -> ! {
    match ATTACKS.get(number as usize) {
        Some(attack) => (attack.begin)(),
        None => cairn_rt::start::exit(1),
    }
}

pub fn run() -> ! {
    let channel = own_channel();
    loop {
        let Ok(received) = channel.receive(None) else {
            continue;
        };
        let w = received.words;
        let answer = match w[0] {
            _ if received.token == 0 => continue,
            NEVER => continue,
            ATTACK => {
                PRIORITY.store(w[2], Relaxed);
                let begun = start(attack, 0, w[1]);
                [begun.is_err() as u64, 0]
            }
            TELL => [BROKEN.load(Relaxed), REFUSED.load(Relaxed)],
            END => end(),
            _ => [0, 0],
        };
        let _ = channel.reply(received.token, Reply::new(&answer));
    }
}

/// The domain dies with its last thread, and all that it took comes back.
fn end() -> ! {
    if let Ok(own) = Portal::CURRENT.service(current::IDENTITY, &[]) {
        while Portal(native_slot::DOMAIN).service(domain::KILL_OTHERS, &[own[0]])
            == Err(Error::Again)
        {}
    }
    cairn_rt::start::exit(0)
}

/// `vm` may have more for a pool that ran empty.
pub fn more_objects(pool: u64) -> bool {
    let words = [cairn_idl::vm::MORE_OBJECTS, pool];
    Portal(native_slot::VM)
        .call(Message::new(&words))
        .is_ok_and(|w| w[0] == 0)
}

/// A longer portal table.
pub fn more_slots() -> bool {
    Portal(native_slot::VM)
        .call(Message::new(&[cairn_idl::vm::GROW_TABLE, 0]))
        .is_ok_and(|w| w[0] == 0)
}

pub fn refused() {
    REFUSED.fetch_add(1, Relaxed);
}

pub fn broken() {
    BROKEN.fetch_add(1, Relaxed);
}
