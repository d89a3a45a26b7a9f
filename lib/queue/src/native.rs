//! Links between components: opened by a call, woken by pulses.
//!
//! A sender opens a link with [`open`], a call to the receiver's channel whose first word the receiver chooses; the receiver answers it with [`Inbox::accept`]. The answer brings two
//! portals: the link's memory, which is the receiver's, and the receiver's bell, whose badge tells the link. A sender that wants to sleep until there is room gives a bell of its own.

use crate::ring::{self, Message, Receiver, Sender, Shape};
use crate::set::{Event, Set};
use cairn_abi::{flag, pulse, received, Error as GateError};
use cairn_rt::memory::Shared;
use cairn_rt::{Portal, Received, Reply};

/// Words of the answer to the opening call.
const ACCEPTED: u64 = 0;
const REFUSED: u64 = 1;

/// What a receiver allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub messages: usize,
    pub data: usize,
}

/// A component's links to itself, at most `N`.
pub struct Inbox<const N: usize> {
    channel: cairn_rt::Receiver,
    /// Badges from here on are bells.
    first_badge: u64,
    limits: Limits,
    set: Set<Shared, N>,
    /// Bells of senders that may sleep.
    bells: [Option<Portal>; N],
    /// The sender is gone; what it left comes first.
    ended: [bool; N],
}

/// What came.
pub enum Arrival {
    /// From a link: its number, what it is; the data is in the buffer.
    Link(usize, Message),
    /// The link's next message has more data than the buffer holds. It stays.
    TooLong(usize),
    /// The link is gone: its sender closed it, died, or broke it. Whatever it had sent before came first.
    Closed(usize),
    /// Something else came to the channel.
    Other(Received),
}

impl<const N: usize> Inbox<N> {
    /// For links to `channel`, whose portals have no badges in `first_badge..first_badge + N` of their own.
    pub fn new(channel: cairn_rt::Receiver, first_badge: u64, limits: Limits) -> Inbox<N> {
        Inbox {
            channel,
            first_badge,
            limits,
            set: Set::new(),
            bells: [None; N],
            ended: [false; N],
        }
    }

    /// Answer a call by [`open`]: the new link's number, if there is room for it. Its words w1 and w2 tell the shape, w7 a bell if a portal came.
    pub fn accept(&mut self, call: &Received, rank: u8) -> Option<usize> {
        let bell = (call.portals == 1).then_some(Portal(call.words[7] as u32));
        let made = self.make(call, rank);
        let answered = match &made {
            Some((number, memory, own_bell)) => {
                let mut reply = Reply::new(&[ACCEPTED, *number as u64]);
                reply.words[6] = memory.0 as u64;
                reply.words[7] = own_bell.0 as u64;
                reply.portals = 2;
                reply.flags = flag::MOVE;
                self.channel.reply(call.token, reply)
            }
            None => self.channel.reply(call.token, Reply::new(&[REFUSED])),
        };
        match (made, answered) {
            (Some((number, ..)), Ok(())) => {
                self.bells[number] = bell;
                Some(number)
            }
            (made, _) => {
                if let Some((number, memory, own_bell)) = made {
                    // The caller has no room for the portals, or is gone.
                    self.set.remove(number);
                    memory.close();
                    own_bell.close();
                    let _ = self.channel.reply(call.token, Reply::new(&[REFUSED]));
                }
                if let Some(bell) = bell {
                    bell.close();
                }
                None
            }
        }
    }

    fn make(&mut self, call: &Received, rank: u8) -> Option<(usize, Portal, Portal)> {
        let shape = Shape {
            messages: usize::try_from(call.words[1]).ok()?,
            data: usize::try_from(call.words[2]).ok()?,
        };
        let number = self.set.free()?;
        if shape.messages > self.limits.messages
            || shape.data > self.limits.data
            || !shape.is_valid()
        {
            return None;
        }
        let (shared, memory) = Shared::make(shape.words())?;
        let bell = self.channel.make_portal(self.first_badge + number as u64);
        match (Receiver::new(shared, shape), bell) {
            (Some(receiver), Ok(bell)) => {
                self.set.add(receiver, rank);
                Some((number, memory, bell))
            }
            (_, bell) => {
                memory.close();
                if let Ok(bell) = bell {
                    bell.close();
                }
                None
            }
        }
    }

    pub fn set_rank(&mut self, number: usize, rank: u8) {
        self.set.set_rank(number, rank);
    }

    /// End a link.
    pub fn close(&mut self, number: usize) {
        self.set.remove(number);
        if let Some(ended) = self.ended.get_mut(number) {
            *ended = false;
        }
        if let Some(bell) = self.bells.get_mut(number).and_then(Option::take) {
            bell.close();
        }
    }

    /// A message of the links that are wanted, in the order of their ranks, without waiting.
    pub fn test(&mut self, data: &mut [u8], wanted: impl Fn(usize) -> bool) -> Option<Arrival> {
        let Some((number, event)) = self.set.test(data, &wanted) else {
            let number = (0..N).find(|&n| self.ended[n] && (!wanted(n) || self.set.is_idle(n)))?;
            self.close(number);
            return Some(Arrival::Closed(number));
        };
        Some(match event {
            Event::Message(message, wakes) => {
                if let (true, Some(bell)) = (wakes, self.bells[number]) {
                    let _ = bell.notify(1);
                }
                Arrival::Link(number, message)
            }
            Event::TooLong => Arrival::TooLong(number),
            Event::Broken => {
                self.close(number);
                Arrival::Closed(number)
            }
        })
    }

    /// Wait for the first of: a message of the links that are wanted, the end of any link, something else at the channel. Until a deadline (absolute ns) if given.
    pub fn wait(
        &mut self,
        data: &mut [u8],
        wanted: impl Fn(usize) -> bool,
        deadline: Option<u64>,
    ) -> Result<Arrival, GateError> {
        loop {
            if let Some(arrival) = self.test(data, &wanted) {
                return Ok(arrival);
            }
            // What else waits at the channel has its turn as well where messages come without end: see `poll`.
            if self.set.arm(&wanted) {
                continue;
            }
            let came = self.channel.receive(deadline)?;
            if let Some(other) = self.heard(came) {
                return Ok(Arrival::Other(other));
            }
        }
    }

    /// What waits at the channel now, beside messages of links.
    pub fn poll(&mut self) -> Option<Received> {
        let came = self.channel.poll().ok()?;
        self.heard(came)
    }

    /// A bell that rang says nothing but: look.
    fn heard(&mut self, came: Received) -> Option<Received> {
        let number = came.badge.wrapping_sub(self.first_badge);
        if came.kind != received::kind::PULSE || number >= N as u64 {
            return Some(came);
        }
        self.ended[number as usize] |= came.words[0] == pulse::CLOSED;
        None
    }
}

/// A link to somebody else.
pub struct Link {
    sender: Sender<Shared>,
    bell: Portal,
    number: u64,
}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    Ring(ring::Error),
    /// The receiver is gone.
    Dead,
}

/// Open a link: `word` is what the receiver knows such calls by. `bell`: a portal to a channel of one's own, notified when there is room again.
/// The receiver's memory is used, so it is trusted not to give less of it than it says.
pub fn open(to: Portal, word: u64, shape: Shape, bell: Option<Portal>) -> Option<Link> {
    let mut request = cairn_rt::Message::new(&[word, shape.messages as u64, shape.data as u64]);
    if let Some(bell) = bell {
        request = request.portal(bell);
    }
    let answer = to.ask(request).ok()?;
    // Whatever else came is no link's.
    if answer.words[0] != ACCEPTED || answer.portals != 2 {
        answer.slots().for_each(|slot| Portal(slot).close());
        return None;
    }
    let answer = answer.words;
    let (memory, bell) = (Portal(answer[6] as u32), Portal(answer[7] as u32));
    let sender = Shared::map(memory, shape.words()).and_then(|words| Sender::new(words, shape));
    memory.close();
    if sender.is_none() {
        bell.close();
    }
    Some(Link {
        sender: sender?,
        bell,
        number: answer[1],
    })
}

impl Link {
    /// What the receiver calls it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Never waits.
    pub fn send(&mut self, words: [u64; 4], data: &[u8]) -> Result<(), SendError> {
        match self.sender.send(words, data) {
            Ok(true) => match self.bell.notify(1) {
                Err(GateError::Dead) => Err(SendError::Dead),
                _ => Ok(()),
            },
            Ok(false) => Ok(()),
            Err(error) => Err(SendError::Ring(error)),
        }
    }

    /// Before sleeping until there is room for so much data: true if there is now. Otherwise the bell given to [`open`] will be notified.
    pub fn arm(&mut self, data: usize) -> Result<bool, SendError> {
        self.sender.arm(data).map_err(SendError::Ring)
    }

    /// End the link; the receiver hears of it, and loses what it has not taken.
    pub fn close(self) {
        self.bell.close();
    }
}
