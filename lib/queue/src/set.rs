//! A receiver's links, under small numbers.

use crate::ring::{Error, Message, Receiver};
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

/// Up to `N` links. Each has a rank: of those in which something waits, the one with the lowest rank comes first; among equals they take turns.
pub struct Set<M, const N: usize> {
    links: [Option<Link<M>>; N],
    /// Where the turn is.
    turn: usize,
}

struct Link<M> {
    receiver: Receiver<M>,
    rank: u8,
}

/// What a set has to say of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message; true: its sender waits for room, ring its bell.
    Message(Message, bool),
    /// The message's data does not fit into the buffer; it stays.
    TooLong,
    /// The sender broke the link: it was removed.
    Broken,
}

impl<M: Deref<Target = [AtomicU64]>, const N: usize> Set<M, N> {
    pub fn new() -> Set<M, N> {
        Set {
            links: [const { None }; N],
            turn: 0,
        }
    }

    /// A free number.
    pub fn free(&self) -> Option<usize> {
        self.links.iter().position(Option::is_none)
    }

    /// Take a link in; None: there are `N`.
    pub fn add(&mut self, receiver: Receiver<M>, rank: u8) -> Option<usize> {
        let number = self.free()?;
        self.links[number] = Some(Link { receiver, rank });
        Some(number)
    }

    /// From now on the link has this rank: 255 is the last.
    pub fn set_rank(&mut self, number: usize, rank: u8) {
        if let Some(Some(link)) = self.links.get_mut(number) {
            link.rank = rank;
        }
    }

    /// The link is of no interest any more.
    pub fn remove(&mut self, number: usize) {
        if let Some(link) = self.links.get_mut(number) {
            *link = None;
        }
    }

    /// Nothing waits in the link, or there is none of this number.
    pub fn is_idle(&mut self, number: usize) -> bool {
        match self.links.get_mut(number) {
            Some(Some(link)) => link.receiver.waiting() == Ok(0),
            _ => true,
        }
    }

    /// The next message of the links that are wanted, in the order of their ranks, without waiting. Looks once at each link, however full they are.
    pub fn test(
        &mut self,
        data: &mut [u8],
        wanted: impl Fn(usize) -> bool,
    ) -> Option<(usize, Event)> {
        let mut best: Option<(u8, usize)> = None;
        for i in 0..N {
            let number = (self.turn + i) % N;
            let Some(link) = self.links[number].as_mut().filter(|_| wanted(number)) else {
                continue;
            };
            match link.receiver.waiting() {
                Err(_) => {
                    self.links[number] = None;
                    return Some((number, Event::Broken));
                }
                Ok(0) => {}
                Ok(_) if best.is_none_or(|(rank, _)| link.rank < rank) => {
                    best = Some((link.rank, number));
                }
                Ok(_) => {}
            }
        }
        let (_, number) = best?;
        let link = self.links[number].as_mut()?;
        let event = match link.receiver.receive(data) {
            Ok(None) => return None,
            Ok(Some((message, wakes))) => {
                self.turn = (number + 1) % N;
                Event::Message(message, wakes)
            }
            Err(Error::TooLong) => Event::TooLong,
            Err(_) => {
                self.links[number] = None;
                Event::Broken
            }
        };
        Some((number, event))
    }

    /// Before sleeping: have the senders of the links that are wanted wake this receiver. True: something waits already (or a link is broken), do not sleep.
    pub fn arm(&mut self, wanted: impl Fn(usize) -> bool) -> bool {
        let mut waits = false;
        for (number, link) in self.links.iter_mut().enumerate() {
            if let Some(link) = link.as_mut().filter(|_| wanted(number)) {
                // One that is armed stays so until its bell rings; looking again is what counts.
                waits |= link.receiver.arm() != Ok(false);
            }
        }
        waits
    }
}

impl<M: Deref<Target = [AtomicU64]>, const N: usize> Default for Set<M, N> {
    fn default() -> Self {
        Set::new()
    }
}
