//! What the code behind a portal looks like to the entry: one function per kind of portal today, one per portal when they are compiled.

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

/// Code of a portal: the calling thread's registers are in its object.
pub type Handler<A> = fn(&mut Kernel<A>, Target, ThreadRef) -> Answer;

/// The code for each kind.
pub fn code_for<A: Arch>(kind: PortalKind) -> Handler<A> {
    match kind {
        PortalKind::Empty => |_, _, _| Err(Error::BadPortal.into()),
        PortalKind::Current => |k, _, t| {
            let operation = k.operation(t);
            k.current_service(t, operation)
        },
        PortalKind::Channel => |k, target, t| k.channel_traversal(target, t),
        PortalKind::Receive => |k, target, t| k.receive_traversal(target, t),
        PortalKind::Domain => |k, target, t| {
            let operation = k.operation(t);
            k.domain_service(t, target, operation)
        },
        PortalKind::Space => |_, _, _| Err(Error::BadOperation.into()),
        PortalKind::Thread => |k, target, t| {
            let (operation, words) = (k.operation(t), k.threads[t].registers.words());
            if !target.may(cairn_abi::rights::CONTROL) {
                return Err(Error::NoRight.into());
            }
            k.thread_service(t, k.threads.handle(target.object), operation, words)
        },
        PortalKind::Memory => |k, target, t| {
            let operation = k.operation(t);
            if !target.may(cairn_abi::rights::CONTROL) {
                return Err(Error::NoRight.into());
            }
            k.memory_service(t, operation)
        },
        PortalKind::Machine => |k, target, t| {
            let operation = k.operation(t);
            if !target.may(cairn_abi::rights::CONTROL) {
                return Err(Error::NoRight.into());
            }
            k.machine_service(t, operation)
        },
        PortalKind::Interrupt => |k, target, t| {
            let operation = k.operation(t);
            k.interrupt_service(t, target.object, operation)
        },
        PortalKind::Ports => |k, target, t| {
            let operation = k.operation(t);
            k.ports_service(t, target.object, operation)
        },
        PortalKind::Log => |k, _, t| {
            let operation = k.operation(t);
            k.log_service(t, operation)
        },
    }
}
