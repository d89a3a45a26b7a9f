//! The reader's side of a session: which buffers are whose, what is on its way out. The driver is not believed: what it does not have cannot come back.
//!
//! When a driver dies its successor gets all buffers that it had, and once more what had not been told as sent: a frame may so leave twice, which Ethernet allows, and what came in meanwhile is lost, which it allows as well.

use crate::head::{self, Head};
use crate::rings::{self, Piece, BUFFERS, LIST};
use crate::{Filled, Info, Offload, BUFFER, HEAD};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::link::{PIECES, SENDS};
use cairn_queue::{Error, Part, Receiver, Sender};
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

/// What a driver needs to be told, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bell {
    Ring,
    Quiet,
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many as possible are on their way: when some have left.
    Full,
    /// Too long or short, too many pieces, or something that the device cannot do.
    Invalid,
}

/// Most buffers of a frame.
pub const PARTS: usize = 5;

/// A frame that came. Its buffers are the reader's until they are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Each with where the bytes begin in it, and how many there are.
    parts: [(u16, u16, u16); PARTS],
    count: usize,
    /// See [`Head`].
    pub right: bool,
    pub missing: bool,
}

impl Frame {
    /// Buffer, first byte in it, bytes.
    pub fn parts(&self) -> impl Iterator<Item = (u16, usize, usize)> + '_ {
        let parts = self.parts[..self.count].iter();
        parts.map(|&(buffer, at, length)| (buffer, at.into(), length.into()))
    }

    pub fn length(&self) -> usize {
        self.parts().map(|(_, _, length)| length).sum()
    }
}

struct Rings<M> {
    empty: Sender<Part<M>>,
    filled: Receiver<Part<M>>,
    send: Sender<Part<M>>,
    sent: Receiver<Part<M>>,
}

/// A frame on its way out: as it travels, and whether the driver has it.
struct Slot {
    offload: Offload,
    pieces: [Piece; PIECES as usize],
    count: usize,
    used: bool,
    told: bool,
}

/// Since the link was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub received: u64,
    pub received_bytes: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    /// Frames that were in more buffers than there are, or ended in the middle.
    pub damaged: u64,
    /// Sessions: one for each driver.
    pub sessions: u64,
}

pub struct Client<M> {
    info: Info,
    rings: Option<Rings<M>>,
    buffers: u32,
    /// Which buffers the reader has, a bit each: all others are the driver's.
    mine: Vec<u64>,
    /// Given back, and not told yet.
    back: VecDeque<u16>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    untold: VecDeque<u16>,
    /// What a message of the driver's still holds.
    came: VecDeque<Filled>,
    left: VecDeque<u16>,
    /// The driver waits for room in the ring of filled buffers.
    waits: bool,
    list: [u8; LIST],
    pub tally: Tally,
}

impl<M: Deref<Target = [AtomicU64]>> Client<M> {
    /// Of a link like this, with so many buffers, all empty, and without a session as yet.
    pub fn new(info: Info, buffers: u32) -> Client<M> {
        let slot = || Slot {
            offload: Offload::default(),
            pieces: [(0, 0); PIECES as usize],
            count: 0,
            used: false,
            told: false,
        };
        Client {
            info,
            rings: None,
            buffers,
            mine: vec![0; (buffers as usize).div_ceil(64)],
            back: VecDeque::with_capacity(buffers as usize),
            slots: (0..SENDS).map(|_| slot()).collect(),
            free: (0..SENDS as u16).rev().collect(),
            untold: VecDeque::with_capacity(SENDS as usize),
            came: VecDeque::with_capacity(BUFFERS),
            left: VecDeque::with_capacity(rings::NUMBERS),
            waits: false,
            list: [0; LIST],
            tally: Tally::default(),
        }
    }

    pub fn info(&self) -> Info {
        self.info
    }

    pub fn learn(&mut self, info: Info) {
        self.info = info;
    }

    /// The driver, or its successor, has made these rings: it gets all buffers that the reader does not have, and what did not leave. None: they are too small.
    pub fn begin(&mut self, memory: M) -> Option<Bell> {
        let [empty, filled, send, sent] = rings::split(memory)?;
        self.rings = Some(Rings {
            empty: Sender::new(empty, rings::EMPTY)?,
            filled: Receiver::new(filled, rings::FILLED)?,
            send: Sender::new(send, rings::SEND)?,
            sent: Receiver::new(sent, rings::SENT)?,
        });
        self.tally.sessions += 1;
        self.came.clear();
        self.back.clear();
        let theirs = (0..self.buffers as u16).filter(|&buffer| !is_set(&self.mine, buffer));
        self.back.extend(theirs);
        self.untold.clear();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            slot.told = false;
            if slot.used {
                self.untold.push_back(number as u16);
            }
        }
        Some(self.flush())
    }

    /// The driver is gone.
    pub fn pause(&mut self) {
        self.rings = None;
    }

    /// Whether there is a session.
    pub fn is_running(&self) -> bool {
        self.rings.is_some()
    }

    /// How many frames have not left.
    pub fn on_the_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Send a frame: pieces of the arena, which stay as they are until it has left. Its number.
    pub fn send(&mut self, pieces: &[Piece], offload: &Offload) -> Result<(u16, Bell), Refused> {
        let length = pieces.iter().map(|piece| piece.1 as usize).sum();
        let fits = (1..=PIECES as usize).contains(&pieces.len());
        if !fits || !self.info.allows(length, offload) {
            return Err(Refused::Invalid);
        }
        let number = self.free.pop().ok_or(Refused::Full)?;
        let slot = &mut self.slots[number as usize];
        slot.pieces[..pieces.len()].copy_from_slice(pieces);
        (slot.offload, slot.count) = (*offload, pieces.len());
        (slot.used, slot.told) = (true, false);
        self.untold.push_back(number);
        self.tally.sent += 1;
        self.tally.sent_bytes += length as u64;
        Ok((number, self.flush()))
    }

    /// Tell the driver what it can be told.
    fn flush(&mut self) -> Bell {
        let mut bell = Bell::Quiet;
        while let (Some(rings), Some(&number)) = (&mut self.rings, self.untold.front()) {
            let slot = &mut self.slots[number as usize];
            let pieces = &slot.pieces[..slot.count];
            let (words, data) = rings::send(number, &slot.offload, pieces, &mut self.list);
            match rings.send.send(words, data) {
                Ok(wakes) => {
                    slot.told = true;
                    self.untold.pop_front();
                    if wakes {
                        bell = Bell::Ring;
                    }
                }
                Err(Error::Full) => break,
                Err(_) => self.rings = None,
            }
        }
        match self.give(1) {
            Bell::Ring => Bell::Ring,
            Bell::Quiet => bell,
        }
    }

    /// Empty buffers go back, if there are so many.
    fn give(&mut self, least: usize) -> Bell {
        let mut bell = Bell::Quiet;
        while let (Some(rings), true) = (&mut self.rings, self.back.len() >= least.max(1)) {
            let (mut list, mut count) = ([0; BUFFERS], 0);
            for (place, &buffer) in list.iter_mut().zip(&self.back) {
                *place = buffer;
                count += 1;
            }
            match rings.empty.send(rings::empty(&list[..count]), &[]) {
                Ok(wakes) => {
                    self.back.drain(..count);
                    if wakes {
                        bell = Bell::Ring;
                    }
                }
                Err(Error::Full) => break,
                Err(_) => self.rings = None,
            }
        }
        bell
    }

    /// A frame's buffers are empty again.
    pub fn give_back(&mut self, frame: &Frame) -> Bell {
        for (buffer, ..) in frame.parts() {
            self.return_buffer(buffer);
        }
        self.give(BUFFERS)
    }

    fn return_buffer(&mut self, buffer: u16) {
        if let Some(word) = self.mine.get_mut(buffer as usize / 64) {
            let bit = 1 << (buffer % 64);
            if *word & bit != 0 {
                *word &= !bit;
                self.back.push_back(buffer);
            }
        }
    }

    /// The next buffer that came, if the driver had it.
    fn next(&mut self) -> Option<Filled> {
        loop {
            while let Some(filled) = self.came.pop_front() {
                let Filled { buffer, length, .. } = filled;
                let theirs = buffer < self.buffers && !is_set(&self.mine, buffer as u16);
                if theirs && length as usize <= BUFFER {
                    self.mine[buffer as usize / 64] |= 1 << (buffer % 64);
                    return Some(filled);
                }
            }
            let rings = self.rings.as_mut()?;
            match rings.filled.receive(&mut []) {
                Ok(Some((message, wakes))) => {
                    self.came.extend(rings::filled_buffers(&message));
                    self.waits |= wakes;
                }
                Ok(None) => return None,
                Err(_) => self.rings = None,
            }
        }
    }

    /// A frame that came. `read` gives a buffer's first bytes. When there is none the driver is asked to tell of the next one. Never waits.
    pub fn received(&mut self, read: impl Fn(u16) -> [u8; HEAD]) -> (Option<Frame>, Bell) {
        let mut due = Bell::Quiet;
        loop {
            if let Some(first) = self.next() {
                match self.frame(first, &read) {
                    Some(frame) => return (Some(frame), due),
                    None => continue,
                }
            }
            // Before sleeping whatever is empty goes back, and a driver that waits is told that there is room.
            let mut bell = self.flush();
            if core::mem::take(&mut self.waits) || due == Bell::Ring {
                bell = Bell::Ring;
            }
            due = bell;
            let Some(rings) = &mut self.rings else {
                return (None, bell);
            };
            match rings.filled.arm() {
                Ok(false) => return (None, bell),
                // One came meanwhile; the driver is awake.
                Ok(true) => {}
                Err(_) => self.rings = None,
            }
        }
    }

    /// The frame that begins in a buffer, if it is whole.
    fn frame(&mut self, first: Filled, read: &impl Fn(u16) -> [u8; HEAD]) -> Option<Frame> {
        let at = self.info.head.min(HEAD as u32);
        let (buffer, length) = (first.buffer as u16, first.length);
        let head = match at {
            0 => Head {
                right: false,
                missing: false,
                buffers: 1,
            },
            _ => head::parse(&read(buffer)),
        };
        let mut frame = Frame {
            parts: [(0, 0, 0); PARTS],
            count: 1,
            right: head.right || at == 0 && first.right,
            missing: head.missing,
        };
        frame.parts[0] = (buffer, at as u16, length.saturating_sub(at) as u16);
        let mut whole = length > at && (1..=PARTS as u16).contains(&head.buffers);
        while whole && frame.count < head.buffers as usize {
            match self.next() {
                Some(next) => {
                    frame.parts[frame.count] = (next.buffer as u16, 0, next.length as u16);
                    frame.count += 1;
                }
                None => whole = false,
            }
        }
        if !whole {
            self.tally.damaged += 1;
            for (buffer, ..) in frame.parts() {
                self.return_buffer(buffer);
            }
            return None;
        }
        self.tally.received += 1;
        self.tally.received_bytes += frame.length() as u64;
        Some(frame)
    }

    /// A frame that has left: its number. With `tell` the driver is asked to tell of the next one when there is none; otherwise it does so when it has something else to say.
    pub fn sent(&mut self, tell: bool) -> (Option<u16>, Bell) {
        loop {
            while let Some(number) = self.left.pop_front() {
                let slot = &mut self.slots[number as usize];
                if slot.used && slot.told {
                    (slot.used, slot.told) = (false, false);
                    self.free.push(number);
                    return (Some(number), Bell::Quiet);
                }
            }
            let Some(rings) = &mut self.rings else {
                return (None, Bell::Quiet);
            };
            match rings.sent.receive(&mut []) {
                Ok(Some((message, _))) => {
                    let numbers = rings::sent_numbers(&message);
                    let sane = numbers.filter(|&number| number < SENDS as usize);
                    self.left.extend(sane.map(|number| number as u16));
                }
                Ok(None) => {
                    let bell = self.flush();
                    let Some(rings) = self.rings.as_mut().filter(|_| tell) else {
                        return (None, bell);
                    };
                    match rings.sent.arm() {
                        Ok(false) => return (None, bell),
                        Ok(true) if bell == Bell::Quiet => {}
                        // Come again when it was told.
                        Ok(true) => return (None, bell),
                        Err(_) => self.rings = None,
                    }
                }
                Err(_) => self.rings = None,
            }
        }
    }
}

fn is_set(bits: &[u64], buffer: u16) -> bool {
    let word = bits.get(buffer as usize / 64);
    word.is_some_and(|word| word >> (buffer % 64) & 1 == 1)
}
