//! What a thread polls again and again: a set at the event server that no descriptor names, kept from one call to the next. A call with the same files and bits as the last one asks it, in one message; another call changes what is different.
//!
//! An interest's name is its place among what is polled.

use super::epoll::{remove, watch_unless_known, ADD, DEL};
use super::poll::{Watched, ALWAYS, READY};
use crate::descriptors::OpenFile;
use crate::errno::{Result, EBADF, EIO, ENOSYS, EPERM, ETIMEDOUT};
use crate::event::MANAGER;
use crate::machine::gate;
use crate::machine::request::Request;
use crate::path::{make_room, scheme};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use cairn_idl::event;
use cairn_idl::fs::{kind, poll};

const EVENT: usize = 12;

/// How what is polled at a place tells its readiness.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// Nothing is there.
    Not,
    /// The set knows.
    Watched,
    /// It is always ready.
    Always,
    /// Its server has nothing to tell: it is asked.
    Asked,
}

struct Place {
    file: Weak<OpenFile>,
    id: u64,
    mask: u64,
    how: How,
}

#[derive(Default)]
pub struct PollSet {
    /// Portal of the set; 0: there is none yet.
    slot: u32,
    places: Vec<Place>,
    /// The places are watched; otherwise they are only remembered.
    watched: bool,
    /// Some are not watched by the set.
    others: bool,
}

fn same(place: &Place, one: &Watched) -> bool {
    match &one.file {
        Some(file) => place.mask == one.mask && place.file.as_ptr() == Arc::as_ptr(file),
        None => place.how == How::Not && place.file.as_ptr() == Weak::new().as_ptr(),
    }
}

impl PollSet {
    /// Is this what was polled last; and is it watched?
    pub fn matches(&self, watched: &[Watched]) -> Option<bool> {
        let same = self.places.len() == watched.len()
            && self.places.iter().zip(watched).all(|(a, b)| same(a, b));
        same.then_some(self.watched)
    }

    /// Remember what was polled, for the case that it comes again.
    pub fn remember(&mut self, watched: &[Watched]) {
        if self.watched {
            self.forget();
        }
        self.places.clear();
        self.places.extend(watched.iter().map(|one| Place {
            file: one.file.as_ref().map_or(Weak::new(), Arc::downgrade),
            id: 0,
            mask: one.mask,
            how: How::Not,
        }));
    }

    /// Nothing is watched any more.
    fn forget(&mut self) {
        for at in 0..self.places.len() {
            self.leave(at);
        }
        self.places.clear();
        self.watched = false;
    }

    fn leave(&mut self, at: usize) {
        let place = &mut self.places[at];
        if let How::Watched = core::mem::replace(&mut place.how, How::Not) {
            let words = [event::CTL, DEL | (at as u64) << 32, place.id];
            let _ = Request::new(&words).call(self.slot);
        }
    }

    fn enter(&mut self, at: usize, one: &Watched) -> Result<Place> {
        let mut place = Place {
            file: Weak::new(),
            id: 0,
            mask: one.mask,
            how: How::Not,
        };
        let Some(file) = &one.file else {
            return Ok(place);
        };
        place.file = Arc::downgrade(file);
        place.id = file.id();
        place.how = How::Asked;
        if file.object.is_some() || file.is(kind::ALWAYS_READY) {
            place.how = How::Always;
            return Ok(place);
        }
        // 0 bits would mean a one-shot that is over.
        let events = one.mask | ALWAYS;
        let words = [
            event::CTL,
            ADD | (at as u64) << 32,
            place.id,
            events,
            at as u64,
        ];
        let [_, interest, known, ..] = Request::new(&words).call(self.slot)?;
        match watch_unless_known(known, file, interest, events) {
            Ok(()) => place.how = How::Watched,
            Err(error) => {
                remove(self.slot, at as u32, file);
                if !matches!(error, ENOSYS | EBADF | EIO | EPERM) {
                    return Err(error);
                }
            }
        }
        Ok(place)
    }

    /// From now on this is watched.
    pub fn watch(&mut self, watched: &[Watched]) -> Result<()> {
        if self.slot == 0 {
            make_room()?;
            let words = Request::new(&[event::SET])
                .brings(1)
                .call(scheme(MANAGER)?)?;
            self.slot = words[7] as u32;
        }
        if !self.watched {
            self.places.clear();
        }
        self.watched = true;
        for at in watched.len()..self.places.len() {
            self.leave(at);
        }
        self.places.truncate(watched.len());
        for (at, one) in watched.iter().enumerate() {
            if self.places.get(at).is_some_and(|place| same(place, one)) {
                continue;
            }
            if at < self.places.len() {
                self.leave(at);
            }
            let entered = self.enter(at, one);
            let place = match entered {
                Ok(place) => place,
                Err(error) => {
                    self.forget();
                    return Err(error);
                }
            };
            match self.places.get_mut(at) {
                Some(old) => *old = place,
                None => self.places.push(place),
            }
        }
        let others = |place: &Place| matches!(place.how, How::Always | How::Asked);
        self.others = self.places.iter().any(others);
        Ok(())
    }

    /// What is ready of what is watched: how many. Waits until the deadline (0: not at all) for the first.
    pub fn ready(&self, watched: &mut [Watched], deadline: Option<u64>) -> Result<usize> {
        let mut count = 0;
        if self.others {
            for (place, one) in self.places.iter().zip(watched.iter_mut()) {
                one.ready = match (place.how, &one.file) {
                    (How::Always, _) => one.mask & READY,
                    (How::Asked, Some(file)) => super::poll::look(file, one.mask),
                    _ => 0,
                } & (one.mask | ALWAYS | poll::NVAL);
                count += usize::from(one.ready != 0);
            }
        }
        let most = watched.len() as u64;
        let wait = u64::from(count == 0 && deadline != Some(0));
        let request = Request::new(&[event::WAIT, most, wait]);
        let words = match wait {
            0 => request.call(self.slot),
            _ => request.wait_until(self.slot, deadline),
        };
        let words = match words {
            Err(ETIMEDOUT) => return Ok(count),
            words => words?,
        };
        let mut found = |bits: u64, at: u64| {
            if let Some(one) = watched.get_mut(at as usize) {
                one.ready = bits & (one.mask | ALWAYS);
                count += usize::from(one.ready != 0);
            }
        };
        let [length, bits, first, second, third_bits, third, ..] = words;
        if length == event::MORE {
            let mut bytes = alloc::vec![0u8; EVENT * most as usize];
            let request = Request::new(&[event::WAIT, most, 0]).input(&mut bytes);
            let length = request.call(self.slot)?[0] as usize;
            for event in bytes[..length.min(EVENT * most as usize)]
                .as_chunks::<EVENT>()
                .0
            {
                let [a, b, c, d, data @ ..] = *event;
                found(
                    u32::from_le_bytes([a, b, c, d]) as u64,
                    u64::from_le_bytes(data),
                );
            }
            return Ok(count);
        }
        let events = [
            (bits & 0xffff_ffff, first),
            (bits >> 32, second),
            (third_bits, third),
        ];
        for (bits, at) in events.into_iter().take(length as usize / EVENT) {
            found(bits, at);
        }
        Ok(count)
    }

    /// The set is left (to the parent, or to nobody).
    pub fn close(self) {
        if self.slot != 0 {
            gate::close(self.slot);
        }
    }
}
