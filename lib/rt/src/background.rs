//! A thread that calls a portal of its component again and again while there is something to be done that nobody waits for.
//!
//! A server works for a caller at that caller's priority. This one's is the highest of ordinary programs: what was freed is free when the next of them wants
//! it, and each piece of the work gives way to real-time programs.

use crate::channel::Receiver;
#[cfg(target_os = "none")]
use thread::Thread;

/// The thread, once it was wanted; if there could be one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Background {
    #[cfg(target_os = "none")]
    thread: Option<Option<Thread>>,
    /// It calls until it is told otherwise.
    begun: bool,
}

impl Background {
    /// From now on there are calls with words of zeroes and this badge, until one of them is answered with 0. False: that cannot be.
    #[cfg(target_os = "none")]
    #[cold]
    pub fn begin(&mut self, receiver: Receiver, badge: u64) -> bool {
        let start = || {
            let called = receiver.make_portal(badge);
            called.and_then(Thread::start).ok()
        };
        let Some(thread) = *self.thread.get_or_insert_with(start) else {
            return false;
        };
        if !core::mem::replace(&mut self.begun, true) {
            thread.begin();
        }
        true
    }

    #[cfg(not(target_os = "none"))]
    pub fn begin(&mut self, _: Receiver, _: u64) -> bool {
        self.begun
    }

    /// The call at hand is answered with 0.
    pub fn end(&mut self) {
        self.begun = false;
    }
}

#[cfg(target_os = "none")]
mod thread {
    use crate::own_thread::{self, OwnThread};
    use crate::portal::{Message, Portal};
    use crate::semaphore::Semaphore;
    use cairn_abi::{priority, Error};

    #[derive(Clone, Copy, Debug)]
    pub struct Thread {
        begin: Semaphore,
    }

    impl Thread {
        /// `called` will be called.
        pub fn start(called: Portal) -> Result<Thread, Error> {
            let begin = Semaphore::new(0)?;
            let thread = OwnThread::start(run, own_thread::both(begin.0, called))?;
            thread.set_priority(priority::ORDINARY_MOST)?;
            thread.go()?;
            Ok(Thread { begin })
        }

        pub fn begin(self) {
            let _ = self.begin.v();
        }
    }

    extern "C" fn run(portals: u64) -> ! {
        let (begin, called) = own_thread::apart(portals);
        loop {
            let _ = Semaphore(begin).p();
            while called
                .call(Message::new(&[0]))
                .is_ok_and(|words| words[0] != 0)
            {}
        }
    }
}
