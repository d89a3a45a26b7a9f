//! The two rings of a session (`lib/queue`), in one piece of memory that the driver made: requests with the lists of their pages go one way, completions the other.

use crate::{Kind, Outcome, Request};
use cairn_idl::block::{LISTS, PAGES, REQUESTS};
use cairn_queue::{Message, Part, Shape};
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

pub const ASKED: Shape = Shape {
    messages: REQUESTS,
    data: LISTS,
};
pub const DONE: Shape = Shape {
    messages: REQUESTS,
    data: 0,
};
/// Bytes of the longest list of pages.
pub const LIST: usize = PAGES * 4;

const LATE: u64 = 2;

/// Words of memory that the rings take.
pub fn words() -> usize {
    ASKED.words() + DONE.words()
}

/// The memory of requests and of completions; None: there is too little of it.
pub fn split<M: Deref<Target = [AtomicU64]>>(memory: M) -> Option<(Part<M>, Part<M>)> {
    let [asked, done] = cairn_queue::split(memory, [ASKED.words(), DONE.words()])?;
    Some((asked, done))
}

fn number(kind: Kind) -> u64 {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Flush => 2,
        Kind::Discard => 3,
    }
}

/// Where in a request's first word is how many pages there are in a row, if they are: then the list has the first of them only.
const ROW_SHIFT: u32 = 40;

/// A request as it travels: its words, and the list of its pages, put into `list`. `slot` takes the place of its name.
pub fn encode<'l>(
    slot: usize,
    request: &Request,
    list: &'l mut [u8; LIST],
) -> ([u64; 4], &'l [u8]) {
    let (places, _) = list.as_chunks_mut();
    let in_a_row = request
        .pages
        .windows(2)
        .all(|two| two[0].wrapping_add(1) == two[1]);
    let (row, pages) = match request.pages {
        [first, _, ..] if in_a_row => (request.pages.len() as u64, core::slice::from_ref(first)),
        pages => (0, pages),
    };
    for (place, page) in places.iter_mut().zip(pages) {
        *place = page.to_le_bytes();
    }
    let words = [
        slot as u64 | number(request.kind) << 32 | row << ROW_SHIFT,
        request.sector,
        request.bytes,
        u64::from(request.offset) | u64::from(request.kept) << 32,
    ];
    (words, &list[..pages.len().min(PAGES) * 4])
}

/// What came: the request (without a check of what it wants), whose pages are put into `pages`. None: it is none.
pub fn decode<'p>(
    message: &Message,
    list: &[u8],
    pages: &'p mut [u32; PAGES],
) -> Option<Request<'p>> {
    let [name, sector, bytes, offset] = message.words;
    let row = (name >> ROW_SHIFT) as usize;
    let kind = match name >> 32 & 0xff {
        0 => Kind::Read,
        1 => Kind::Write,
        2 => Kind::Flush,
        3 => Kind::Discard,
        _ => return None,
    };
    let (numbers, rest) = list.get(..message.data)?.as_chunks();
    if !rest.is_empty() || numbers.len() > PAGES {
        return None;
    }
    let count = match (row, numbers) {
        (0, numbers) => {
            for (place, number) in pages.iter_mut().zip(numbers) {
                *place = u32::from_le_bytes(*number);
            }
            numbers.len()
        }
        (2..=PAGES, [first]) => {
            let first = u32::from_le_bytes(*first);
            first.checked_add(row as u32)?;
            for (place, page) in pages[..row].iter_mut().zip(first..) {
                *place = page;
            }
            row
        }
        _ => return None,
    };
    Some(Request {
        id: name as u32 as u64,
        kind,
        sector,
        bytes,
        pages: &pages[..count],
        offset: offset as u32,
        // Only rows are.
        kept: if row > 0 || count == 1 {
            (offset >> 32) as u32
        } else {
            0
        },
    })
}

pub fn completion(slot: u64, outcome: Outcome) -> [u64; 4] {
    [slot, (outcome == Outcome::Failed) as u64, 0, 0]
}

/// In place of a completion: the device has not done this one in time, and is reset before anything else comes.
pub fn late(slot: u64) -> [u64; 4] {
    [slot, LATE, 0, 0]
}

/// What is told of a request; None: that it is late.
pub fn completed(message: &Message) -> (u64, Option<Outcome>) {
    let outcome = match message.words[1] {
        0 => Some(Outcome::Done),
        LATE => None,
        _ => Some(Outcome::Failed),
    };
    (message.words[0], outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_a_row_travel_as_one_number() {
        for pages in [
            &[][..],
            &[7],
            &[7, 8],
            &[7, 8, 9, 10],
            &[7, 9],
            &[8, 7],
            &[7, 8, 8],
        ] {
            let request = Request {
                id: 3,
                kind: Kind::Write,
                sector: 40,
                bytes: 4096,
                pages,
                offset: 512,
                kept: 7,
            };
            let (mut list, mut into) = ([0; LIST], [0; PAGES]);
            let (words, data) = encode(3, &request, &mut list);
            let in_a_row = pages.len() > 1 && pages.windows(2).all(|two| two[0] + 1 == two[1]);
            assert_eq!(data.len(), if in_a_row { 4 } else { pages.len() * 4 });
            let message = Message {
                words,
                data: data.len(),
            };
            let kept = if in_a_row || pages.len() == 1 { 7 } else { 0 };
            let expected = Request { kept, ..request };
            assert_eq!(decode(&message, data, &mut into), Some(expected));
        }
    }

    #[test]
    fn rows_that_cannot_be_are_none() {
        let told = |row: u64, list: &[u8]| {
            let message = Message {
                words: [row << ROW_SHIFT, 0, 4096, 0],
                data: list.len(),
            };
            decode(&message, list, &mut [0; PAGES]).map(|request| request.pages.len())
        };
        let first = 7u32.to_le_bytes();
        assert_eq!(told(PAGES as u64, &first), Some(PAGES));
        for row in [1, PAGES as u64 + 1, 0xff_ffff] {
            assert_eq!(told(row, &first), None);
        }
        assert_eq!(told(2, &[]), None);
        assert_eq!(told(2, &[7, 0, 0, 0, 8, 0, 0, 0]), None);
        assert_eq!(told(2, &u32::MAX.to_le_bytes()), None);
    }
}
