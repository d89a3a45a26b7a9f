//! What a scheduler component does beside receiving: it takes threads into its partition, and says which of them runs (docs/services/schedulers.md).

use crate::channel::{deliver, Received, Receiver};
use crate::gate::{selector, Gate};
use crate::portal::Portal;
use cairn_abi::service::{receive, thread};
use cairn_abi::{Error, Token};

/// What DISPATCH does before it receives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// A caller that is answered (0: nobody), with these words.
    pub token: Token,
    pub words: [u64; 8],
    /// Id of the member that runs (0: none does).
    pub member: u64,
    /// When its slice ends, in absolute ns (0: it does not).
    pub until: u64,
}

impl Receiver {
    /// The thread is a member of this channel's partition from now on, of which its news have the badge. `bound` in ns, 0: as before. Its id.
    pub fn take_member(self, thread: Portal, badge: u64, bound: u64) -> Result<u64, Error> {
        let words = [u64::from(self.0 .0), badge, bound];
        Ok(thread.service(thread::SET_SCHEDULER, &words)?[0])
    }

    /// Reply, choose and receive in one entry. `TimedOut`: the slice is over. If the reply fails the choice is made, and nothing was received.
    pub fn dispatch(self, choice: &Choice) -> Result<Received, Error> {
        let mut gate = Gate {
            rax: selector(self.0 .0, receive::DISPATCH, 0),
            words: choice.words,
            rbx: choice.member,
            rbp: choice.token,
            r14: 0,
            r15: choice.until,
        };
        // SAFETY: reply and receive touch registers only.
        unsafe { gate.traverse() }?;
        let mut received = Received {
            words: gate.words,
            badge: gate.rbx,
            token: gate.rbp,
            label: gate.r14,
            ..Received::default()
        };
        deliver(gate.rax, gate.r15, &mut received)?;
        Ok(received)
    }
}

/// A member has no scheduler any more.
pub fn let_go(thread: Portal) -> Result<(), Error> {
    thread.service(thread::SET_SCHEDULER, &[0]).map(|_| ())
}
