//! The driver's side, the same for all drivers: the session with its rings, the check of what the reader asks for, counts. A driver adds a [`Chip`].
//!
//! What always holds: the device gets only pieces of pages that are pinned for this session; a buffer is the device's once, and comes back once. A reader that does not keep to the rules loses its session, and the device is reset before its pages are let go.

use crate::pace::Pace;
use crate::rings::{self, Piece, BUFFERS, LIST, NUMBERS};
use crate::{Chip, Info, BUFFER, PAGE};
use alloc::vec::Vec;
use cairn_idl::errno::{EBUSY, EFAULT, EINVAL, ENOMEM, ENXIO};
use cairn_idl::link::{
    self, properties, AttachAnswer, Counts, InfoAnswer, Way, BADGE_SESSION_FIRST, CHANGED,
    COME_OUT, HERTZ_MOST, PAGES_MOST, PIECES, SENDS,
};
use cairn_idl::wire::{Caller, Errno, Given};
use cairn_queue::{Error, Part, Receiver, Sender};
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

/// Most of either direction that is done before the channel is looked at again.
const AT_ONCE: usize = 64;
/// Pieces of one frame for the device: one that crosses pages is several.
const ADDRESSES: usize = 30;
/// Pages of one call to `vm`.
const PIN: usize = 512;

/// What is needed of the system.
pub trait System {
    type Memory: Deref<Target = [AtomicU64]>;
    /// Fresh zeroes, so many words at least, that another domain can map by the portal.
    fn rings(&mut self, words: usize) -> Option<(Self::Memory, u32)>;
    /// A portal to the driver's own channel.
    fn portal(&mut self, badge: u64) -> Option<u32>;
    fn notify(&mut self, portal: u32, bits: u64);
    fn close(&mut self, portal: u32);
    /// The frames of pages of an arena, which stay until they are let go. False: they are not there.
    fn pin(&mut self, arena: u32, pages: &[u32], frames: &mut [u32]) -> bool;
    fn unpin(&mut self, frames: &[u32]);
}

struct Session<M> {
    badge: u64,
    empty: Receiver<Part<M>>,
    filled: Sender<Part<M>>,
    send: Receiver<Part<M>>,
    sent: Sender<Part<M>>,
    bell: u32,
    arena: u32,
    frames: Vec<u32>,
    /// Which buffers the device has, or will have: a bit each.
    ours: Vec<u64>,
    /// Of a message: those that the device had no room for yet.
    waiting: [u32; BUFFERS],
    waits: usize,
    /// Filled ones that the ring had no room for.
    stuck: Option<[u64; 4]>,
}

/// The reader does not keep to the rules.
struct Broken;

impl From<Error> for Broken {
    fn from(_: Error) -> Broken {
        Broken
    }
}

pub struct Server<C, S: System> {
    pub chip: C,
    pub system: S,
    pub pace: Pace,
    session: Option<Session<S::Memory>>,
    pub counts: Counts,
    /// The next session's badge.
    next: u64,
    list: [u8; LIST],
    pieces: [Piece; PIECES as usize],
    /// The device did not come out of its reset.
    pub lost: bool,
}

impl<M> Session<M> {
    /// Where the device finds a byte of the arena; None: it is not pinned.
    fn address(&self, at: u32) -> Option<u64> {
        let frame = *self.frames.get(at as usize / PAGE)?;
        Some(u64::from(frame) * PAGE as u64 + u64::from(at) % PAGE as u64)
    }

    /// The device's pieces of a frame's: how many, in `into`.
    fn addresses(&self, pieces: &[Piece], into: &mut [(u64, u32); ADDRESSES]) -> Option<usize> {
        let mut count = 0;
        for &(mut at, mut length) in pieces {
            if length == 0 {
                return None;
            }
            while length > 0 {
                let now = length.min((PAGE - at as usize % PAGE) as u32);
                let address = self.address(at)?;
                let row = into[..count].last_mut();
                match row.filter(|(before, bytes)| before + u64::from(*bytes) == address) {
                    Some(row) => row.1 += now,
                    None => {
                        *into.get_mut(count)? = (address, now);
                        count += 1;
                    }
                }
                (at, length) = (at.checked_add(now)?, length - now);
            }
        }
        Some(count)
    }

    fn bit(&mut self, buffer: u32) -> Option<(&mut u64, u64)> {
        let word = self.ours.get_mut(buffer as usize / 64)?;
        Some((word, 1 << (buffer % 64)))
    }
}

fn bit(set: bool, bit: u64) -> u64 {
    if set {
        bit
    } else {
        0
    }
}

impl<C: Chip, S: System> Server<C, S> {
    pub fn new(chip: C, system: S) -> Server<C, S> {
        Server {
            chip,
            system,
            pace: Pace::default(),
            session: None,
            counts: Counts::default(),
            next: BADGE_SESSION_FIRST,
            list: [0; LIST],
            pieces: [(0, 0); PIECES as usize],
            lost: false,
        }
    }

    /// Sessions have badges from this on. Those of drivers that served this link before must not be among them: their readers still hold portals with them.
    pub fn number_from(&mut self, first: u64) {
        self.next = first.max(BADGE_SESSION_FIRST);
    }

    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// The badge of the session that was made last.
    pub fn newest(&self) -> u64 {
        self.next - 1
    }

    /// Pass on what there is, in both directions, at most some of it. How many frames and buffers came of the device or went there.
    pub fn pump(&mut self) -> usize {
        let Some(mut session) = self.session.take() else {
            return 0;
        };
        match self.pass(&mut session) {
            Ok((done, bell)) => {
                if bell {
                    self.counts.bells += 1;
                    self.system.notify(session.bell, COME_OUT);
                }
                self.session = Some(session);
                done
            }
            Err(Broken) => {
                self.end(session);
                0
            }
        }
    }

    fn pass(&mut self, session: &mut Session<S::Memory>) -> Result<(usize, bool), Broken> {
        let (sent, mut bell) = self.tell_sent(session)?;
        let (filled, rings) = self.tell_filled(session)?;
        bell |= rings;
        let lent = self.lend(session)?;
        let begun = self.begin_sends(session)?;
        if lent + begun > 0 {
            self.chip.kick();
        }
        Ok((sent + filled + begun, bell))
    }

    fn tell_sent(&mut self, session: &mut Session<S::Memory>) -> Result<(usize, bool), Broken> {
        let (mut done, mut bell) = (0, false);
        loop {
            let (mut numbers, mut count) = ([0; NUMBERS], 0);
            while count < NUMBERS {
                let Some(number) = self.chip.sent() else {
                    break;
                };
                numbers[count] = number as u16;
                count += 1;
            }
            if count == 0 {
                return Ok((done, bell));
            }
            done += count;
            // There is room for all that can be on their way.
            bell |= session.sent.send(rings::sent(&numbers[..count]), &[])?;
        }
    }

    fn tell_filled(&mut self, session: &mut Session<S::Memory>) -> Result<(usize, bool), Broken> {
        let (mut done, mut bell) = (0, false);
        if let Some(words) = session.stuck {
            match session.filled.send(words, &[]) {
                Ok(wakes) => bell |= wakes,
                Err(Error::Full) => return Ok((0, false)),
                Err(_) => return Err(Broken),
            }
            session.stuck = None;
        }
        while done < AT_ONCE {
            let (mut list, mut count) = ([0; BUFFERS], 0);
            while count < BUFFERS {
                let Some(mut filled) = self.chip.filled() else {
                    break;
                };
                if filled.length == 0 || filled.length > BUFFER as u32 {
                    self.counts.wrong_in += 1;
                    // The reader has it back all the same, as one in which nothing is.
                    filled.length = 0;
                }
                self.counts.received_bytes += u64::from(filled.length);
                list[count] = rings::one_filled(&filled);
                if let Some((word, bit)) = session.bit(filled.buffer) {
                    *word &= !bit;
                }
                count += 1;
            }
            if count == 0 {
                break;
            }
            self.counts.received += count as u64;
            done += count;
            let words = rings::filled(&list[..count]);
            match session.filled.send(words, &[]) {
                Ok(wakes) => bell |= wakes,
                Err(Error::Full) => {
                    // What the device fills meanwhile waits there, and then it has no more buffers and drops what comes, before anybody has worked for it.
                    session.stuck = Some(words);
                    break;
                }
                Err(_) => return Err(Broken),
            }
        }
        if done > 0 && self.chip.with_device() == 0 {
            self.counts.empty += 1;
        }
        Ok((done, bell))
    }

    /// Give the device empty buffers, as many as it takes.
    fn lend(&mut self, session: &mut Session<S::Memory>) -> Result<usize, Broken> {
        let mut lent = 0;
        while self.chip.room() > 0 {
            if session.waits == 0 {
                let Some((message, _)) = session.empty.receive(&mut [])? else {
                    break;
                };
                for buffer in rings::empty_buffers(&message) {
                    let pinned = session.address(buffer.saturating_mul(BUFFER as u32));
                    let (word, bit) = session.bit(buffer).ok_or(Broken)?;
                    if pinned.is_none() || *word & bit != 0 {
                        return Err(Broken);
                    }
                    *word |= bit;
                    session.waiting[session.waits] = buffer;
                    session.waits += 1;
                }
                continue;
            }
            session.waits -= 1;
            let buffer = session.waiting[session.waits];
            let address = session.address(buffer * BUFFER as u32).ok_or(Broken)?;
            if !self.chip.lend(buffer, address) {
                session.waits += 1;
                break;
            }
            lent += 1;
        }
        Ok(lent)
    }

    fn begin_sends(&mut self, session: &mut Session<S::Memory>) -> Result<usize, Broken> {
        let info = self.chip.info();
        let mut begun = 0;
        while begun < AT_ONCE && self.chip.takes() {
            let Some((message, _)) = session.send.receive(&mut self.list)? else {
                break;
            };
            begun += 1;
            let told = rings::to_send(&message, &self.list, &mut self.pieces);
            let (number, offload, count) = told.ok_or(Broken)?;
            let pieces = &self.pieces[..count];
            let length = pieces
                .iter()
                .try_fold(0usize, |sum, piece| sum.checked_add(piece.1 as usize));
            let mut addresses = [(0, 0); ADDRESSES];
            let found = session.addresses(pieces, &mut addresses);
            let (Some(length), Some(found), true) = (length, found, number < SENDS as usize) else {
                return Err(Broken);
            };
            if !info.allows(length, &offload) {
                self.counts.refused += 1;
                session.sent.send(rings::sent(&[number as u16]), &[])?;
                continue;
            }
            if !self.chip.send(number, &offload, &addresses[..found]) {
                return Err(Broken);
            }
            self.counts.sent += 1;
            self.counts.sent_bytes += length as u64;
        }
        Ok(begun)
    }

    /// Before sleeping, with interrupts of the device or without: true if there is something to do all the same.
    pub fn arm(&mut self, interrupts: bool) -> bool {
        let Some(mut session) = self.session.take() else {
            self.chip.disarm();
            return false;
        };
        let armed = self.arm_for(&mut session, interrupts);
        match armed {
            Ok(more) => {
                self.session = Some(session);
                more
            }
            Err(Broken) => {
                self.end(session);
                true
            }
        }
    }

    fn arm_for(&mut self, session: &mut Session<S::Memory>, now: bool) -> Result<bool, Broken> {
        let takes = self.chip.takes();
        let mut more = takes && session.send.arm()?;
        // While the device has enough to fill, empty buffers are taken when there is something else to do.
        if self.chip.with_device() < self.chip.info().buffers as usize / 2 {
            more |= session.waits > 0 && self.chip.room() > 0;
            more |= session.empty.arm()? && self.chip.room() > 0;
        }
        if session.stuck.is_some() {
            more |= session.filled.arm(0)?;
        }
        // What was sent is looked after now and then, unless that is all that the device can take.
        let on_the_way = self.chip.on_the_way();
        let sent = match on_the_way > SENDS as usize / 2 || !takes {
            true => (on_the_way as u16 / 2).max(1),
            false => 0,
        };
        match now {
            true => more |= self.chip.arm(session.stuck.is_none(), sent),
            false => self.chip.disarm(),
        }
        Ok(more)
    }

    /// Something else is to be known of the link.
    pub fn changed(&mut self) {
        if let Some(session) = &self.session {
            self.system.notify(session.bell, CHANGED);
        }
    }

    /// Nobody holds the session's portal any more, or its answer could not be delivered.
    pub fn closed(&mut self, badge: u64) {
        if let Some(session) = self.session.take_if(|session| session.badge == badge) {
            self.end(session);
        }
    }

    fn end(&mut self, session: Session<S::Memory>) {
        // It must not reach the pages any more.
        self.lost |= !self.chip.restart();
        self.system.close(session.bell);
        if !self.lost {
            for frames in session.frames.chunks(PIN) {
                self.system.unpin(frames);
            }
        }
        self.system.close(session.arena);
    }

    fn pin(&mut self, arena: u32, pages: u32) -> Result<Vec<u32>, Errno> {
        let mut frames = Vec::new();
        frames
            .try_reserve_exact(pages as usize)
            .map_err(|_| ENOMEM)?;
        frames.resize(pages as usize, 0);
        let mut numbers = [0; PIN];
        for first in (0..pages as usize).step_by(PIN) {
            let some = first..(first + PIN).min(pages as usize);
            let numbers = &mut numbers[..some.len()];
            for (place, page) in numbers.iter_mut().zip(first..) {
                *place = page as u32;
            }
            if !self.system.pin(arena, numbers, &mut frames[some]) {
                for frames in frames[..first].chunks(PIN) {
                    self.system.unpin(frames);
                }
                return Err(EFAULT);
            }
        }
        Ok(frames)
    }

    fn attach_to(&mut self, bell: u32, arena: u32, pages: u32) -> Result<(u32, u32), Errno> {
        if self.session.is_some() {
            return Err(EBUSY);
        }
        if pages == 0 || pages > PAGES_MOST {
            return Err(EINVAL);
        }
        let mut ours = Vec::new();
        let words = (pages as usize * PAGE / BUFFER).div_ceil(64);
        ours.try_reserve_exact(words).map_err(|_| ENOMEM)?;
        ours.resize(words, 0);
        let (memory, rings) = self.system.rings(rings::words()).ok_or(ENOMEM)?;
        let ends = rings::split(memory).and_then(|[empty, filled, send, sent]| {
            Some((
                Receiver::new(empty, rings::EMPTY)?,
                Sender::new(filled, rings::FILLED)?,
                Receiver::new(send, rings::SEND)?,
                Sender::new(sent, rings::SENT)?,
            ))
        });
        let made = match (ends, self.system.portal(self.next)) {
            (Some(ends), Some(portal)) => match self.pin(arena, pages) {
                Ok(frames) => Ok((ends, portal, frames)),
                Err(errno) => {
                    self.system.close(portal);
                    Err(errno)
                }
            },
            _ => Err(ENOMEM),
        };
        let ((empty, filled, send, sent), portal, frames) =
            made.inspect_err(|_| self.system.close(rings))?;
        self.session = Some(Session {
            badge: self.next,
            empty,
            filled,
            send,
            sent,
            bell,
            arena,
            frames,
            ours,
            waiting: [0; BUFFERS],
            waits: 0,
            stuck: None,
        });
        self.next += 1;
        self.counts.sessions += 1;
        Ok((rings, portal))
    }

    /// Whether a badge is the link's, or its session's.
    fn check(&self, badge: u64) -> Result<(), Errno> {
        let mine = self.session.as_ref().is_some_and(|s| s.badge == badge);
        match (badge < BADGE_SESSION_FIRST || mine) && !self.lost {
            true => Ok(()),
            false => Err(ENXIO),
        }
    }
}

/// A device's address as a word.
pub fn mac_word(mac: [u8; 6]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&mac);
    u64::from_le_bytes(bytes)
}

impl<C: Chip, S: System> link::Server for Server<C, S> {
    fn info<K: Caller>(&mut self, caller: &K) -> Result<InfoAnswer, Errno> {
        self.check(caller.badge())?;
        let info: Info = self.chip.info();
        Ok(InfoAnswer {
            mac: mac_word(info.mac),
            mtu: info.mtu,
            properties: bit(info.up, properties::UP)
                | bit(info.sums_out, properties::SUMS_OUT)
                | bit(info.sums_in, properties::SUMS_IN)
                | bit(info.segments[0], properties::SEGMENTS_4)
                | bit(info.segments[1], properties::SEGMENTS_6),
            head: info.head,
            buffers: info.buffers,
        })
    }

    fn attach<K: Caller>(
        &mut self,
        caller: &K,
        pages: u32,
        bell: u32,
        arena: u32,
    ) -> Result<AttachAnswer, Errno> {
        self.check(caller.badge())?;
        if caller.badge() >= BADGE_SESSION_FIRST {
            return Err(ENXIO);
        }
        let (rings, session) = self.attach_to(bell, arena, pages)?;
        Ok(AttachAnswer {
            rings: Given(u64::from(rings)),
            session: Given(u64::from(session)),
        })
    }

    fn counts<K: Caller>(&mut self, caller: &K) -> Result<Counts, Errno> {
        self.check(caller.badge())?;
        self.counts.with_device = self.chip.with_device() as u64;
        self.counts.on_the_way = self.chip.on_the_way() as u64;
        self.counts.ticks = self.pace.ticks();
        Ok(self.counts)
    }

    fn events<K: Caller>(&mut self, caller: &K, way: Way, hertz: u32) -> Result<(), Errno> {
        self.check(caller.badge())?;
        let clocked = way != Way::Interrupts;
        if clocked && !(1..=HERTZ_MOST).contains(&hertz) {
            return Err(EINVAL);
        }
        self.pace.set(way, hertz);
        Ok(())
    }
}
