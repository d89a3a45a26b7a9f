//! A thread that calls a portal of its component again and again while there is something to be done that nobody waits for.
//!
//! A server works for a caller at that caller's priority. This one's is the highest of ordinary programs: what was freed is free when the next of them wants
//! it, and each piece of the work gives way to real-time programs.

use crate::memory;
use crate::portal::{Message, Portal};
use crate::semaphore::Semaphore;
use cairn_abi::layout::native_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{domain, thread, AUTO};
use cairn_abi::{policy, priority, Error};
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Bytes of the thread's stack.
const STACK: usize = 8192;
/// A component has one.
static TAKEN: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug)]
pub struct Background {
    begin: Semaphore,
}

impl Background {
    /// `called` will be called with words of zeroes. Only once in a component.
    pub fn start(called: Portal) -> Result<Background, Error> {
        if TAKEN.swap(true, SeqCst) {
            return Err(Error::Busy);
        }
        let stack = memory::map(STACK).ok_or(Error::NoMemory)?;
        memory::populate(stack)?;
        let begin = Semaphore::new(0)?;
        let end = stack.as_mut_ptr() as u64 + stack.len() as u64;
        let words = [
            run as *const () as u64,
            (end & !15) - 8,
            u64::from(begin.0 .0) << 32 | u64::from(called.0),
            0,
            0,
            AUTO,
            AUTO,
        ];
        let make = || Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words);
        let made = memory::with_objects(pool::THREAD, make)?;
        let made = Portal(made[0] as u32);
        let level = u64::from(priority::ORDINARY_MOST);
        made.service(thread::SET_PRIORITY, &[level, policy::ROUND_ROBIN, 0])?;
        made.service(thread::START, &[])?;
        Ok(Background { begin })
    }

    /// From now on there are calls, until one of them is answered with 0.
    pub fn begin(self) {
        let _ = self.begin.v();
    }
}

extern "C" fn run(portals: u64) -> ! {
    let (begin, called) = (Portal((portals >> 32) as u32), Portal(portals as u32));
    loop {
        let _ = Semaphore(begin).p();
        while called
            .call(Message::new(&[0]))
            .is_ok_and(|words| words[0] != 0)
        {}
    }
}
