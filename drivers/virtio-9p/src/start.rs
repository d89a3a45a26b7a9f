//! The beginning: the dialect, the longest message, the root. Nobody is served before, so each request is waited for.

use crate::asks::Wire;
use alloc::vec::Vec;
use cairn_ninep::{answer, Ask, Attributes, Trouble, NO_TAG};

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The longest message.
    pub longest: usize,
    pub root: Attributes,
}

/// Messages shorter than this are of no use.
const LEAST: usize = 8192;

/// One request, and its answer's body. `wait` waits until something may have come.
pub fn plain<W: Wire>(
    wire: &mut W,
    mut ask: Ask,
    tag: u16,
    wait: &mut impl FnMut(),
) -> Result<Vec<u8>, Trouble> {
    if !wire.send(0, ask.with_tag(tag)) {
        return Err(Trouble::Nonsense);
    }
    loop {
        if let Some((_, bytes)) = wire.received() {
            return answer::body(&bytes, ask.kind(), tag).map(<[u8]>::to_vec);
        }
        if wire.is_broken() {
            return Err(Trouble::Nonsense);
        }
        wait();
    }
}

/// Agree with the other side, and attach its root as this file.
pub fn attach<W: Wire>(
    wire: &mut W,
    longest: usize,
    root: u32,
    mut wait: impl FnMut(),
) -> Result<Found, Trouble> {
    let version = plain(wire, Ask::version(longest as u32), NO_TAG, &mut wait)?;
    let longest = (answer::version(&version)? as usize).min(longest);
    if longest < LEAST {
        return Err(Trouble::Nonsense);
    }
    plain(wire, Ask::attach(root), 0, &mut wait)?;
    let body = plain(wire, Ask::attributes(root), 0, &mut wait)?;
    Ok(Found {
        longest,
        root: answer::attributes(&body)?,
    })
}
