//! The notice board's server in Rust, without its wiring; docs/guide/interfaces.md goes through it. The interface is `board.idl`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use board::{change, Colour, Summary, SurveyAnswer, NOTE_MAX, PLACES};
use cairn_abi::layout::PAGE;
use cairn_idl::errno::{EBUSY, EFAULT, EINTR, EINVAL, ENOENT};
use cairn_idl::wire::{Caller, Errno, Given, Out, Pages, Reply, View};
use core::sync::atomic::Ordering::Relaxed;

include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));

/// What the board does beside answering: the wiring's part.
pub trait Post {
    type View: View;
    /// Where callers' pages are looked at; without one everything is copied.
    fn view(&self) -> Option<&Self::View>;
    /// Hang up the pages that came; → the sum of their words.
    fn hang(&mut self, poster: Pages) -> Result<u64, Errno>;
    /// Give what hangs there to a domain; → a portal of the own table.
    fn take_down(&mut self, receiver: u32) -> Result<u32, Errno>;
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

    /// Pin what is in `text`; → how many notes there are.
    fn put(
        &mut self,
        place: u32,
        colour: Colour,
        text: [u8; NOTE_MAX],
        length: usize,
    ) -> Result<u32, Errno> {
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
        self.put(place, colour, text, length)
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

    /// However the caller cut its lines, here they are one run of bytes.
    fn pin_lines<C: Caller>(
        &mut self,
        caller: &C,
        place: u32,
        colour: Colour,
        lines: Out<'_, C>,
    ) -> Result<u32, Errno> {
        self.pin(caller, place, colour, lines)
    }

    /// The notes go from where they lie into the caller's room.
    fn read_all<C: Caller>(&mut self, _: &C, _room: usize) -> Result<(u32, [&[u8]; 8]), Errno> {
        let notes = self.notes();
        let texts = self.places.each_ref().map(|place| match &place.note {
            Some(note) => &note.text[..note.length],
            None => &[],
        });
        Ok((notes, texts))
    }

    fn survey<C: Caller>(&mut self, _: &C, poster: Out<'_, C>) -> Result<SurveyAnswer, Errno> {
        let pages = poster.len() / PAGE as usize;
        let words = match self.post.view() {
            Some(view) if pages > 0 => poster.show(view, 0, pages, false).ok(),
            _ => None,
        };
        let seen = words.is_some();
        let words = words.unwrap_or(&[]);
        let mut sum = words
            .iter()
            .fold(0u64, |sum, word| sum.wrapping_add(word.load(Relaxed)));
        let mut done = words.len() * 8;
        let mut buffer = [0; 512];
        while done < poster.len() {
            let count = poster.read(done, &mut buffer)?;
            if count == 0 {
                return Err(EFAULT);
            }
            sum = sum.wrapping_add(sum_of(&buffer[..count]));
            done += count;
        }
        Ok(SurveyAnswer { sum, seen })
    }

    fn hang<C: Caller>(&mut self, _: &C, poster: Pages) -> Result<u64, Errno> {
        self.post.hang(poster)
    }

    fn take_down<C: Caller>(&mut self, caller: &C) -> Result<Given, Errno> {
        let slot = self.post.take_down(caller.sender())?;
        Ok(Given(slot.into()))
    }

    fn open<C: Caller>(&mut self, _: &C, place: u32) -> Result<Given, Errno> {
        self.place(place)?;
        Ok(Given(board::PLACE_BADGE + u64::from(place)))
    }

    fn copy<C: Caller>(&mut self, _: &C, place: u32, from: u64) -> Result<u32, Errno> {
        let from = from.checked_sub(board::PLACE_BADGE).ok_or(EINVAL)?;
        let from = self.place(u32::try_from(from).map_err(|_| EINVAL)?)?;
        let note = from.note.ok_or(ENOENT)?;
        self.put(place, note.colour, note.text, note.length)
    }
}

/// The sum of little-endian words; the last may be short.
pub fn sum_of(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum.wrapping_add(u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests;
