//! The notice board's server in Rust, without its wiring; docs/guide/interfaces.md goes through it. The interface is `board.idl`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use board::{change, Colour, Summary, NOTE_MAX, PLACES};
use cairn_idl::errno::{EBUSY, EINTR, EINVAL, ENOENT};
use cairn_idl::wire::{Caller, Errno, Out, Reply};

include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));

/// What the board does beside answering: the wiring's part.
pub trait Post {
    /// Answer a caller that was put off.
    fn answer(&mut self, token: u64, reply: &Reply);
    fn notify(&mut self, watcher: u32, bits: u64);
    fn close(&mut self, watcher: u32);
}

#[derive(Clone, Copy)]
struct Note {
    colour: Colour,
    length: usize,
    text: [u8; NOTE_MAX],
}

#[derive(Clone, Copy, Default)]
struct Place {
    note: Option<Note>,
    /// Who waits for it to be filled.
    waiting: Option<u64>,
}

pub struct Board<P> {
    pub post: P,
    places: [Place; PLACES as usize],
    pinned: u64,
    watcher: Option<u32>,
}

impl<P: Post> Board<P> {
    pub fn new(post: P) -> Board<P> {
        Board {
            post,
            places: [Place::default(); PLACES as usize],
            pinned: 0,
            watcher: None,
        }
    }

    fn place(&mut self, place: u32) -> Result<&mut Place, Errno> {
        self.places.get_mut(place as usize).ok_or(EINVAL)
    }

    fn notes(&self) -> u32 {
        self.places.iter().filter(|p| p.note.is_some()).count() as u32
    }

    fn tell(&mut self, bits: u64) {
        if let Some(watcher) = self.watcher {
            self.post.notify(watcher, bits);
        }
    }

    /// A caller that waits was interrupted (`reply`: it is to be told) or is gone.
    pub fn forget(&mut self, token: u64, reply: bool) {
        for place in &mut self.places {
            if place.waiting == Some(token) {
                place.waiting = None;
                if reply {
                    self.post.answer(token, &board::wait_reply(Err(EINTR)));
                }
            }
        }
    }
}

impl<P: Post> board::Server for Board<P> {
    fn pin<C: Caller>(
        &mut self,
        _: &C,
        place: u32,
        colour: Colour,
        note: Out<'_, C>,
    ) -> Result<u32, Errno> {
        let mut text = [0; NOTE_MAX];
        let length = note.all(&mut text)?.len();
        let place = self.place(place)?;
        place.note = Some(Note {
            colour,
            length,
            text,
        });
        if let Some(token) = place.waiting.take() {
            let reply = board::wait_reply(Ok(&text[..length]));
            self.post.answer(token, &reply);
        }
        self.pinned += 1;
        self.tell(change::PINNED);
        Ok(self.notes())
    }

    fn read<C: Caller>(
        &mut self,
        _: &C,
        place: u32,
        _room: usize,
    ) -> Result<(Colour, &[u8]), Errno> {
        let note = self.place(place)?.note.as_ref().ok_or(ENOENT)?;
        Ok((note.colour, &note.text[..note.length]))
    }

    fn clear<C: Caller>(&mut self, _: &C) -> Result<(), Errno> {
        for place in &mut self.places {
            place.note = None;
        }
        self.tell(change::CLEARED);
        Ok(())
    }

    fn summary<C: Caller>(&mut self, _: &C) -> Result<Summary, Errno> {
        let lengths = self.places.iter().filter_map(|p| Some(p.note?.length));
        Ok(Summary {
            notes: self.notes(),
            longest: lengths.max().unwrap_or(0) as u32,
            pinned: self.pinned,
        })
    }

    fn watch<C: Caller>(&mut self, _: &C, watcher: u32) -> Result<(), Errno> {
        if let Some(old) = self.watcher.replace(watcher) {
            self.post.close(old);
        }
        Ok(())
    }

    fn wait<C: Caller>(
        &mut self,
        caller: &C,
        place: u32,
        room: usize,
    ) -> Result<Option<&[u8]>, Errno> {
        let place = self.place(place)?;
        if let Some(note) = &place.note {
            return Ok(Some(&note.text[..note.length]));
        }
        // A later answer must fit whatever is pinned; and one may wait at a place.
        if room < NOTE_MAX {
            return Err(EINVAL);
        }
        if place.waiting.is_some() {
            return Err(EBUSY);
        }
        place.waiting = Some(caller.token());
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
