//! Signatures: what a channel asks of calls, operation by operation, and what its server sees in place of a word.
//!
//! A line for each operation, the number of which is the call's first word: the greatest value of every other word, and whether the last one names a portal in place of which the badge arrives. So a server
//! is told of a second object by a word that nobody can make up, and no portal has to be passed, received and closed for it.
//!
//! What always holds: a channel gets its signature with the first line, and keeps it until its end; its place in memory is a constant of compiled code. Lines are asked when a message is delivered
//! (and, of one that has to wait, when it is sent): what arrives is as the lines say that hold then.

use crate::arch::Arch;
use crate::ipc::portal_count;
use crate::pool::{ChannelRef, ThreadRef};
use crate::thread::Sending;
use crate::{Answer, Kernel};
use cairn_abi::service::receive::{BADGE, OPERATIONS};
use cairn_abi::service::AUTO;
use cairn_abi::{rights, Error, PortalKind};

pub struct Signature {
    /// For operation 0 and on.
    pub lines: [Line; OPERATIONS as usize],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Line {
    /// Not 0: the last word names a portal.
    pub badge: u64,
    /// The greatest value of each word behind the first.
    pub most: [u64; 7],
}

impl Line {
    /// Whatever comes passes.
    const PASS: Line = Line {
        badge: 0,
        most: [u64::MAX; 7],
    };
}

impl Signature {
    const PASS: Signature = Signature {
        lines: [Line::PASS; OPERATIONS as usize],
    };
}

impl<A: Arch> Kernel<A> {
    /// SIGN.
    #[inline(never)]
    pub(crate) fn sign(&mut self, t: ThreadRef, c: ChannelRef) -> Answer {
        let first = self.threads[t].registers.rdi;
        let (operation, badge) = (first & !BADGE, first & BADGE);
        if first != AUTO && operation >= OPERATIONS {
            return Err(Error::BadArgument.into());
        }
        if self.channels[c].dying {
            return Err(Error::Dead.into());
        }
        let (signature, fresh) = match self.channels[c].signature {
            Some(signature) => (signature, false),
            None if first == AUTO => return Ok(()),
            None => {
                let new = self.signatures.insert_any(|| Signature::PASS);
                let new = new.ok_or(Error::NoMemory)?;
                self.channels[c].signature = Some(new);
                self.plain_changed(c);
                (new, true)
            }
        };
        let lines = &mut self.signatures[signature].lines;
        if fresh || first == AUTO {
            lines.fill(Line::PASS);
        }
        if let Some(line) = lines.get_mut(operation as usize) {
            let [_, most @ ..] = self.threads[t].registers.words();
            *line = Line { badge, most };
        }
        Ok(())
    }

    /// What shows that somebody waits plainly at `c` is another number from now on.
    fn plain_changed(&mut self, c: ChannelRef) {
        if let Some(server) = self.channels[c].server {
            let waits = self.channels[c].plain != 0;
            self.find_plain(server, c);
            if waits {
                self.channels[c].plain = self.threads[server].plain;
            }
        }
    }

    /// What a server at `c` sees in the place of the last word of `t`'s message; None: it sees the words as they are.
    #[inline]
    pub(crate) fn signed_word(&self, t: ThreadRef, c: ChannelRef) -> Result<Option<u64>, Error> {
        if self.channels[c].signature.is_none() {
            return Ok(None);
        }
        self.word_by_signature(t, c)
    }

    #[inline(never)]
    fn word_by_signature(&self, t: ThreadRef, c: ChannelRef) -> Result<Option<u64>, Error> {
        let thread = &self.threads[t];
        let words = thread.registers.words();
        let line = self.channels[c]
            .signature
            .and_then(|s| self.signatures[s].lines.get(words[0] as usize));
        let (Some(line), Sending::Message) = (line, thread.sending) else {
            return Ok(None);
        };
        if words[1..]
            .iter()
            .zip(&line.most)
            .any(|(word, most)| word > most)
        {
            return Err(Error::BadArgument);
        }
        if line.badge == 0 {
            return Ok(None);
        }
        // A portal that is passed arrives in the same word.
        if portal_count(thread.registers.rax) != 0 {
            return Err(Error::BadArgument);
        }
        self.badge_by(t, c, words[7]).map(Some)
    }

    /// The badge of a portal of `t`'s by which it could call `c`.
    fn badge_by(&self, t: ThreadRef, c: ChannelRef, slot: u64) -> Result<u64, Error> {
        let entry = self.own_entry(t, slot)?;
        if entry.kind() != PortalKind::Channel {
            return Err(Error::BadPortal);
        }
        if entry.rights() & (rights::CALL | rights::ONCE) != rights::CALL {
            return Err(Error::NoRight);
        }
        let r = self.portals.of(entry);
        let portal = &self.portals[r];
        match self.channels.lookup(portal.channel) {
            Some(found) if found == c => Ok(portal.badge),
            Some(_) => Err(Error::BadPortal),
            None => Err(self.why_stale(r)),
        }
    }
}
