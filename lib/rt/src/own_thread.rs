//! Further threads of a component.

use crate::memory;
use crate::portal::Portal;
use cairn_abi::layout::native_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{domain, thread, AUTO};
use cairn_abi::{policy, Error};

/// Bytes of a thread's stack.
const STACK: usize = 8192;

#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnThread(Portal);

impl OwnThread {
    /// It will run this with this argument, once it may [`go`](Self::go).
    pub fn start(run: extern "C" fn(u64) -> !, argument: u64) -> Result<OwnThread, Error> {
        let stack = memory::map(STACK).ok_or(Error::NoMemory)?;
        memory::populate(stack)?;
        let end = stack.as_mut_ptr() as u64 + stack.len() as u64;
        let words = [
            run as *const () as u64,
            (end & !15) - 8,
            argument,
            0,
            0,
            AUTO,
            AUTO,
        ];
        let make = || Portal(native_slot::DOMAIN).service(domain::THREAD_CREATE, &words);
        let made = memory::with_objects(pool::THREAD, make)?;
        Ok(OwnThread(Portal(made[0] as u32)))
    }

    pub fn set_priority(self, level: u8) -> Result<(), Error> {
        let words = [u64::from(level), policy::ROUND_ROBIN, 0];
        self.0.service(thread::SET_PRIORITY, &words).map(|_| ())
    }

    pub fn go(self) -> Result<(), Error> {
        self.0.service(thread::START, &[]).map(|_| ())
    }
}

/// Two portals as one argument.
pub(crate) fn both(first: Portal, second: Portal) -> u64 {
    u64::from(first.0) << 32 | u64::from(second.0)
}

pub(crate) fn apart(both: u64) -> (Portal, Portal) {
    (Portal((both >> 32) as u32), Portal(both as u32))
}
