//! Serving an interface whose dispatcher was generated ([`cairn_idl::wire`]): a caller that waits, its answer, what the nucleus looks at before, and the loop for servers that need nothing else.

use crate::{memory, Portal, Received, Receiver, Reply};
use cairn_abi::layout::native_slot;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{domain, AUTO};
use cairn_abi::{flag, received, Error, Id, Token, MAX_PORTALS};
use cairn_idl::errno::{EFAULT, EIO, EMFILE};
use cairn_idl::wire::{self, Caller, Float, Outcome, Signature};

/// What a receive delivered, with the channel that it came through, and whether that was signed before ([`sign`]).
#[derive(Debug)]
pub struct Blocked<const SIGNED: bool = false> {
    pub receiver: Receiver,
    pub received: Received,
}

impl<const SIGNED: bool> Caller for Blocked<SIGNED> {
    const SIGNED: bool = SIGNED;

    fn words(&self) -> &[u64; 8] {
        &self.received.words
    }
    fn badge(&self) -> u64 {
        self.received.badge
    }
    fn sender(&self) -> Id {
        self.received.sender
    }
    fn label(&self) -> u64 {
        self.received.label
    }
    fn token(&self) -> Token {
        self.received.token
    }
    fn out_len(&self) -> usize {
        self.received.out_len
    }
    fn in_len(&self) -> usize {
        self.received.in_len
    }
    fn portals(&self) -> usize {
        self.received.portals
    }
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<usize, Error> {
        self.receiver.read(self.received.token, offset as u64, into)
    }
    fn write(&self, offset: usize, from: &[u8]) -> Result<usize, Error> {
        self.receiver
            .write(self.received.token, offset as u64, from)
    }
    fn read_pieces(&self, offset: usize, into: &mut [&mut [u8]]) -> Result<usize, Error> {
        self.receiver
            .read_pieces(self.received.token, offset as u64, into)
    }
    fn write_pieces(&self, offset: usize, from: &[&[u8]]) -> Result<usize, Error> {
        self.receiver
            .write_pieces(self.received.token, offset as u64, from)
    }
    fn close(&self, slot: u32) {
        Portal(slot).close();
    }
}

fn reply<'a>(from: &wire::Reply<'a>) -> Reply<'a> {
    Reply {
        words: from.words,
        data: from.data,
        offset: 0,
        portals: from.portals,
        flags: from.flags,
    }
}

/// The caller whose answer could not be delivered still waits, unless it is gone: tell it why. Portals that should have gone over to it are still here.
fn apologise(receiver: Receiver, token: Token, error: Error, answer: &Reply) {
    if answer.flags & flag::MOVE != 0 {
        let first = 8 - (answer.portals as usize).min(MAX_PORTALS);
        for slot in &answer.words[first..] {
            Portal(*slot as u32).close();
        }
    }
    let errno = match error {
        Error::BadToken => return,
        Error::BadAddress => EFAULT,
        Error::NoSlot => EMFILE,
        _ => EIO,
    };
    // It may have gone meanwhile, which is nobody's loss.
    let _ = receiver.reply(token, Reply::result(-errno));
}

/// A path that came in the message's last five words, with zeroes behind it ([`cairn_idl::fs`]).
pub fn short_path(words: &[u64; 8]) -> [u8; 40] {
    let mut path = [0; 40];
    for (place, word) in path.chunks_exact_mut(8).zip(&words[3..]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    path
}

/// Answer a caller, now or some time after its request. An answer that it cannot take (its memory is not there, its portal table is full) becomes an error
/// for it, which is returned here as well.
pub fn answer(receiver: Receiver, token: Token, from: &wire::Reply) -> Result<(), Error> {
    let answer = reply(from);
    let result = receiver.reply_with(token, &answer);
    if let Err(error) = result {
        apologise(receiver, token, error, &answer);
    }
    result
}

/// From now on the nucleus asks of the channel's calls what these signatures say, and nothing else. A component whose registers are its callers' must not serve what says that they are switched, and ends here.
pub fn sign(receiver: Receiver, signatures: &[Signature]) -> Result<(), Error> {
    let switched = signatures.iter().find(|s| s.float == Float::Switched);
    if let Some(Signature { name, .. }) = switched {
        let own = Portal(native_slot::DOMAIN).service(domain::INFO, &[])?[6];
        assert!(own == 1, "{name} says `float switched`, so the component's line in the manifest must say registers = \"own\"");
    }
    receiver.sign(&[AUTO])?;
    for line in signatures.iter().filter_map(|signature| signature.asked) {
        memory::with_objects(pool::SIGNATURE, || receiver.sign(&line))?;
    }
    Ok(())
}

/// Receive and answer for ever. `signatures` and `dispatch` are the interface's; `pulse` gets everything that is no request.
pub fn serve<S>(
    receiver: Receiver,
    signatures: &[Signature],
    server: &mut S,
    mut dispatch: impl for<'s> FnMut(&'s mut S, &Blocked<true>) -> Outcome<'s>,
    mut pulse: impl FnMut(&mut S, &Received),
) -> ! {
    if let Err(error) = sign(receiver, signatures) {
        panic!("the channel cannot be signed: {error:?}");
    }
    let mut blocked = Blocked {
        receiver,
        received: Received::default(),
    };
    loop {
        if receiver.receive_into(None, &mut blocked.received).is_err() {
            continue;
        }
        while blocked.received.kind == received::kind::MESSAGE {
            let token = blocked.received.token;
            let Outcome::Reply(from) = dispatch(server, &blocked) else {
                break;
            };
            let answer = reply(&from);
            let next = receiver.reply_receive_into(token, &answer, None, &mut blocked.received);
            if let Err(error) = next {
                apologise(receiver, token, error, &answer);
                // What was received before is answered: nothing of it is to be looked at again.
                blocked.received.kind = received::kind::FAULT;
            }
        }
        if blocked.received.kind == received::kind::PULSE {
            pulse(server, &blocked.received);
        }
    }
}
