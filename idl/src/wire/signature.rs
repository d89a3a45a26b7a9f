//! What an operation's messages look like, as data: for dispatchers, which refuse requests of another shape ([`admit`]), for tests, and for whoever wants to show it.

use super::{Caller, Errno, EINVAL};
use crate::errno::{EFAULT, EMSGSIZE, ENOSYS, EOVERFLOW, EPERM};

/// Who relies on whom. What one side trusts the other with: to leave alone what it does not save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    None,
    /// The client trusts the server.
    Server,
    /// The server trusts the client.
    Client,
    Both,
}

/// What happens to floating-point state on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// The client's stays in the registers: the server leaves it alone, or has its own.
    Kept,
    /// Each side has its own: the server's domain must have registers of its own.
    Switched,
}

/// How portals travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    Copied,
    /// They leave the sender's table.
    Moved,
    /// New ones, to the answering channel.
    Minted,
}

/// How the portals of a message travel, all alike, and what the receiver may do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub passing: Passing,
    /// A single use.
    pub once: bool,
    /// They cannot be passed on.
    pub not_further: bool,
}

/// What is said of a part's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// There is no such part.
    None,
    /// At most so many bytes; of an in part's more, the server sees none.
    Most,
    /// Of more the beginning counts.
    First,
    /// Exactly so many: a structure. (An in part may have more room.)
    Exact,
}

/// May whole pages of a part be shown to the server?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    No,
    /// Until the reply.
    Call,
    /// Longer.
    Kept,
}

/// One part of an operation's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub length: Length,
    pub most: usize,
    /// Most pieces that either side may cut it into; 1: it is one run of bytes.
    pub pieces: u8,
    pub shown: Shown,
}

impl Part {
    pub const NONE: Part = Part {
        length: Length::None,
        most: 0,
        pieces: 0,
        shown: Shown::No,
    };
}

/// What an operation's messages look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    pub name: &'static str,
    pub number: u64,
    /// Bit n: word n is used in the request, in the answer. w0 always is.
    pub words_in: u8,
    pub words_out: u8,
    pub out: Part,
    pub input: Part,
    /// How many portals come with a request (at least: fewer only if one is optional), with an answer.
    pub portals_least: u8,
    pub portals_in: u8,
    pub portals_out: u8,
    pub request: Terms,
    pub answer: Terms,
    /// Most bytes of pages that a portal of the request, of the answer may stand for; 0: none does.
    pub pages_in: u64,
    pub pages_out: u64,
    /// The gate's flags that a client's call has.
    pub flags: u64,
    /// The badge without which it is refused.
    pub badge: Option<u64>,
    /// What the nucleus is to ask of a call's words ([`cairn_abi::service::receive::SIGN`]).
    pub asked: Option<[u64; 8]>,
    /// What the server may answer, beside what a dispatcher says by itself.
    pub errors: &'static [Errno],
    /// The answer may come after other requests were served.
    pub deferred: bool,
    pub interruptible: bool,
    pub trust: Trust,
    pub float: Float,
}

/// Refuse a request that has not the operation's shape: another badge (EPERM), too many or too few portals, a part where there is none, another length of a structure (EINVAL), too long a part (EMSGSIZE).
#[inline]
pub fn admit(signature: &Signature, caller: &impl Caller) -> Result<(), Errno> {
    if signature.badge.is_some_and(|badge| badge != caller.badge()) {
        return Err(EPERM);
    }
    let portals = caller.portals();
    if portals < signature.portals_least.into() || portals > signature.portals_in.into() {
        return Err(EINVAL);
    }
    let (out, input) = (caller.out_len(), caller.in_len());
    match signature.out.length {
        Length::None if out != 0 => return Err(EINVAL),
        Length::Most if out > signature.out.most => return Err(EMSGSIZE),
        Length::Exact if out != signature.out.most => return Err(EINVAL),
        _ => {}
    }
    match signature.input.length {
        Length::None if input != 0 => Err(EINVAL),
        Length::Exact if input < signature.input.most => Err(EINVAL),
        _ => Ok(()),
    }
}

/// An error as the operation may have it. In builds with debug assertions one that the definition does not name ends the server: it is a mistake in one of the two.
#[inline]
pub fn refusal(signature: &Signature, errno: Errno) -> Errno {
    /// What a dispatcher says by itself.
    const GENERAL: [Errno; 6] = [EINVAL, EPERM, EMSGSIZE, EFAULT, ENOSYS, EOVERFLOW];
    debug_assert!(
        signature.errors.contains(&errno) || GENERAL.contains(&errno),
        "{} does not have error {errno}",
        signature.name
    );
    errno
}
