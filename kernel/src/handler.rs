//! The general path of a portal traversal. The machine layer has shorter code for the frequent cases ([`crate::arch::Arch::portal_code`]); whatever that
//! does not handle comes here.

use crate::arch::Arch;
use crate::pool::ThreadRef;
use crate::portal::table::Target;
use crate::Kernel;
use cairn_abi::{Error, PortalKind};

/// Why a traversal did not simply succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Error(Error),
    /// A share is done: the program executes the same `syscall` again, after interrupts had their turn.
    Restart,
    /// The registers are as they shall be, or the thread waits, or it is gone.
    Left,
}

impl From<Error> for Stop {
    #[inline]
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// Ok: `rax` becomes 0, the answer words have been set.
pub type Answer = Result<(), Stop>;

/// The general path through a portal: the calling thread's registers are in its object.
#[inline]
pub fn traverse<A: Arch>(k: &mut Kernel<A>, target: Target, t: ThreadRef) -> Answer {
    let operation = k.operation(t);
    let controls = || {
        if target.may(cairn_abi::rights::CONTROL) {
            Ok(())
        } else {
            Err(Error::NoRight)
        }
    };
    match target.kind() {
        PortalKind::Channel => k.channel_traversal(target, t),
        PortalKind::Current => k.current_service(t, operation),
        PortalKind::Domain => k.domain_service(t, target, operation),
        PortalKind::Thread => {
            controls()?;
            let [w0, w1, w2, ..] = k.threads[t].registers.words();
            k.thread_service(t, k.threads.of(target), operation, [w0, w1, w2])
        }
        PortalKind::Memory => {
            controls()?;
            k.memory_service(t, operation)
        }
        PortalKind::Machine => {
            controls()?;
            k.machine_service(t, operation)
        }
        PortalKind::Interrupt => k.interrupt_service(t, target.object(), operation),
        PortalKind::Ports => k.ports_service(t, target.object(), operation),
        PortalKind::Log => k.log_service(t, operation),
        PortalKind::Semaphore => k.semaphore_service(t, target, operation),
        PortalKind::Trace => {
            controls()?;
            k.trace_service(t, operation)
        }
        PortalKind::Window => k.window_service(t, k.windows.of(target), operation),
        // (A receive right was seen to before: `Kernel::traversal`. Nothing is derived from one.)
        PortalKind::Space | PortalKind::Receive => Err(Error::BadOperation.into()),
        PortalKind::Derived => {
            let under = k.resolve(target)?;
            traverse(k, under, t)
        }
        PortalKind::Empty => Err(Error::BadPortal.into()),
    }
}
