//! A thread that notifies a portal of its component at a time which the component may change as often as it likes, mostly without entering the nucleus.
//!
//! A deadline for each receive would tell as well, but costs an entry of its own and takes receives and replies off the short ways.

use crate::memory;
use crate::portal::Portal;
use crate::semaphore::Semaphore;
use crate::time;
use cairn_abi::layout::native_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{current, domain, thread, AUTO};
use cairn_abi::Error;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Bytes of the thread's stack.
pub const STACK: usize = 8192;
const NEVER: u64 = u64::MAX;

/// The time that is wanted, and the one that the thread waits for at present.
static WANTED: AtomicU64 = AtomicU64::new(NEVER);
static AWAITED: AtomicU64 = AtomicU64::new(NEVER);
/// A component has one.
static TAKEN: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    /// The thread looks again.
    look: Semaphore,
}

impl Alarm {
    /// From now on `told` is notified of times that are [`Alarm::set`]. Only once in a component.
    pub fn start(told: Portal) -> Result<Alarm, Error> {
        let stack = memory::map(STACK).ok_or(Error::NoMemory)?;
        memory::populate(stack)?;
        Alarm::start_on(told, stack)
    }

    /// The same with a stack of the component's own ([`STACK`] bytes): for `vm`, which cannot ask itself.
    pub fn start_on(told: Portal, stack: &'static mut [u8]) -> Result<Alarm, Error> {
        if TAKEN.swap(true, SeqCst) {
            return Err(Error::Busy);
        }
        let look = Semaphore::new(0)?;
        let end = stack.as_mut_ptr() as u64 + stack.len() as u64;
        let words = [
            run as *const () as u64,
            (end & !15) - 8,
            u64::from(look.0 .0) << 32 | u64::from(told.0),
            0,
            0,
            AUTO,
            AUTO,
        ];
        let make = || Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words);
        let made = memory::with_objects(pool::THREAD, make)?;
        Portal(made[0] as u32).service(thread::START, &[])?;
        Ok(Alarm { look })
    }

    /// Tell of this monotonic time (in place of the one before), or of none. A notification for an earlier wish may still come.
    pub fn set(self, at: Option<u64>) {
        let at = at.unwrap_or(NEVER);
        WANTED.store(at, SeqCst);
        // A thread that waits for less looks at what is wanted then.
        if at < AWAITED.load(SeqCst) {
            let _ = self.look.v();
        }
    }
}

extern "C" fn run(portals: u64) -> ! {
    let (look, told) = (Portal((portals >> 32) as u32), Portal(portals as u32));
    loop {
        let wanted = WANTED.load(SeqCst);
        AWAITED.store(wanted, SeqCst);
        if WANTED.load(SeqCst) < wanted {
            // Perhaps it was set before it could be seen what is awaited.
            continue;
        }
        if wanted != NEVER {
            let _ = Portal::CURRENT.service(current::DEADLINE, &[wanted.max(1)]);
        }
        let _ = Semaphore(look).p();
        let wanted = WANTED.load(SeqCst);
        if wanted <= time::monotonic()
            && WANTED
                .compare_exchange(wanted, NEVER, SeqCst, SeqCst)
                .is_ok()
        {
            let _ = told.notify(1);
        }
    }
}
