//! A thread that makes long calls to a server for its component, which serves others meanwhile.
//!
//! It tells the component's channel what the last call came to, and the answer says what it calls next: words of zeroes but for
//! w1 ([`NONE`], [`DONE`], [`FAILED`]), and of a call that was done the first word behind the result (w2) and the portal that came (w3), of another one its
//! error number (w2). The answer is 1 and the first six words of a call, or 0: nothing, until it is sent again.

#[cfg(target_os = "none")]
pub use thread::Deputy;

/// There was none.
pub const NONE: u64 = 0;
pub const DONE: u64 = 1;
pub const FAILED: u64 = 2;

#[cfg(target_os = "none")]
mod thread {
    use super::{DONE, FAILED, NONE};
    use crate::own_thread::{self, OwnThread};
    use crate::portal::{Message, Portal};
    use crate::semaphore::Semaphore;
    use cairn_abi::Error;
    use cairn_idl::errno::ENOMEM;
    use cairn_idl::wire::Failure;
    use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

    /// Whom it calls: a component has one such thread.
    static SERVER: AtomicU32 = AtomicU32::new(0);

    #[derive(Clone, Copy, Debug)]
    pub struct Deputy {
        begin: Semaphore,
        thread: OwnThread,
    }

    impl Deputy {
        /// `told` leads to the component's own channel. Each call to `server` brings one portal.
        pub fn start(told: Portal, server: Portal) -> Result<Deputy, Error> {
            if SERVER.swap(server.0, SeqCst) != 0 {
                return Err(Error::Busy);
            }
            let begin = Semaphore::new(0)?;
            let thread = OwnThread::start(run, own_thread::both(begin.0, told))?;
            thread.go()?;
            Ok(Deputy { begin, thread })
        }

        /// It asks what there is to do.
        pub fn begin(self) {
            let _ = self.begin.v();
        }

        /// At which priority, also of the call that it is in.
        pub fn set_priority(self, level: u8) {
            let _ = self.thread.set_priority(level);
        }
    }

    extern "C" fn run(portals: u64) -> ! {
        let (begin, told) = own_thread::apart(portals);
        let server = Portal(SERVER.load(SeqCst));
        loop {
            let _ = Semaphore(begin).p();
            let mut last = [NONE, 0, 0];
            while let Ok(words) = told.call(Message::new(&[0, last[0], last[1], last[2]])) {
                if words[0] == 0 {
                    break;
                }
                last = match server.call_for(Message::new(&words[1..7]), 1) {
                    Ok(answer) => [DONE, answer[1], answer[7]],
                    Err(Failure::Gate(Error::NoMemory | Error::NoTable)) => {
                        [FAILED, ENOMEM as u64, 0]
                    }
                    Err(failure) => [FAILED, failure.errno() as u64, 0],
                };
            }
        }
    }
}
