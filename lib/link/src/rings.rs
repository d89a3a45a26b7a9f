//! The four rings of a session (`lib/queue`), in one piece of memory that the driver made: empty buffers and frames to be sent go to the driver, filled buffers and numbers of what was sent to the reader. What is short travels together: eight buffers, or sixteen numbers, are one message.

use crate::{Cut, Filled, Offload, BUFFER};
use cairn_idl::link::{PAGES_MOST, PIECES, SENDS};
use cairn_queue::{Message, Part, Shape};
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

/// Empty buffers, eight in a message.
pub const EMPTY: Shape = Shape {
    messages: 1024,
    data: 0,
};
/// As many as can be at the reader, one in each message.
pub const FILLED: Shape = Shape {
    messages: 256,
    data: 0,
};
pub const SEND: Shape = Shape {
    messages: SENDS as usize,
    data: 16_384,
};
pub const SENT: Shape = Shape {
    messages: SENDS as usize,
    data: 0,
};

/// Buffers, and numbers of frames, of a message.
pub const BUFFERS: usize = 8;
pub const NUMBERS: usize = 16;
/// Pieces that travel in a message's words, and bytes of the list of all others.
const INSIDE: usize = 2;
pub const LIST: usize = (PIECES as usize - INSIDE) * 8;
/// Buffers of the greatest arena: they fit into half a word's half with a bit to spare, and so do their lengths.
pub const BUFFERS_MOST: u32 = PAGES_MOST * 2;
const _: () = assert!(BUFFERS_MOST < 1 << 16 && EMPTY.messages * BUFFERS >= BUFFERS_MOST as usize);

/// Words of memory that the rings take.
pub fn words() -> usize {
    parts().iter().sum()
}

fn parts() -> [usize; 4] {
    [EMPTY, FILLED, SEND, SENT].map(Shape::words)
}

/// The memory of each, in the order above; None: there is too little of it.
pub fn split<M: Deref<Target = [AtomicU64]>>(memory: M) -> Option<[Part<M>; 4]> {
    cairn_queue::split(memory, parts())
}

/// Up to eight numbers, none of which is 0, in a message's words.
fn pack(numbers: &[u32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (i, &number) in numbers.iter().take(BUFFERS).enumerate() {
        words[i / 2] |= u64::from(number) << (i % 2 * 32);
    }
    words
}

/// Those in a message, up to the first 0.
fn unpack(words: [u64; 4]) -> impl Iterator<Item = u32> {
    let all = words
        .into_iter()
        .flat_map(|word| [word as u32, (word >> 32) as u32]);
    all.take_while(|&number| number != 0)
}

/// Some buffers (at most [`BUFFERS`]).
pub fn empty(buffers: &[u16]) -> [u64; 4] {
    let mut numbers = [0; BUFFERS];
    for (place, &buffer) in numbers.iter_mut().zip(buffers) {
        *place = u32::from(buffer) + 1;
    }
    pack(&numbers)
}

pub fn empty_buffers(message: &Message) -> impl Iterator<Item = u32> {
    unpack(message.words).map(|number| number - 1)
}

/// Of a filled buffer as it travels: there is one, and the device found its sums right; in front of them its length, and below its number.
const IS_FILLED: u32 = 1 << 31;
const IS_RIGHT: u32 = 1 << 30;
const LENGTH_MOST: u32 = (1 << 14) - 1;
const _: () = assert!(BUFFER as u32 <= LENGTH_MOST);

/// A filled buffer as it travels; a length that cannot be is none.
pub fn one_filled(filled: &Filled) -> u32 {
    let right = if filled.right { IS_RIGHT } else { 0 };
    let length = match filled.length {
        length @ ..=LENGTH_MOST => length,
        _ => 0,
    };
    IS_FILLED | right | length << 16 | filled.buffer & 0xffff
}

pub fn filled(filled: &[u32]) -> [u64; 4] {
    pack(filled)
}

pub fn filled_buffers(message: &Message) -> impl Iterator<Item = Filled> {
    unpack(message.words).map(|one| Filled {
        buffer: one & 0xffff,
        length: one >> 16 & LENGTH_MOST,
        right: one & IS_RIGHT != 0,
    })
}

/// Numbers of frames that have left (at most [`NUMBERS`]).
pub fn sent(numbers: &[u16]) -> [u64; 4] {
    let mut words = [0; 4];
    for (i, &number) in numbers.iter().take(NUMBERS).enumerate() {
        words[i / 4] |= (u64::from(number) + 1) << (i % 4 * 16);
    }
    words
}

pub fn sent_numbers(message: &Message) -> impl Iterator<Item = usize> {
    let all = message
        .words
        .into_iter()
        .flat_map(|word| [0, 16, 32, 48].map(|shift| word >> shift & 0xffff));
    all.take_while(|&number| number != 0)
        .map(|number| number as usize - 1)
}

/// A piece of a frame: where in the arena, how long.
pub type Piece = (u32, u32);

/// A frame to be sent, as it travels: words and list. At most [`PIECES`] pieces.
pub fn send<'l>(
    number: u16,
    offload: &Offload,
    pieces: &[Piece],
    list: &'l mut [u8; LIST],
) -> ([u64; 4], &'l [u8]) {
    let cut = match offload.cut {
        Cut::No => 0,
        Cut::Tcp4 => 1,
        Cut::Tcp6 => 2,
    };
    let count = pieces.len().min(PIECES as usize);
    let mut words = [
        u64::from(number)
            | (count as u64) << 16
            | u64::from(offload.sum) << 24
            | cut << 25
            | u64::from(offload.headers) << 32,
        u64::from(offload.sum_start)
            | u64::from(offload.sum_at) << 16
            | u64::from(offload.segment) << 32,
        0,
        0,
    ];
    let word = |&(at, length): &Piece| u64::from(at) | u64::from(length) << 32;
    let (inside, behind) = pieces[..count].split_at(count.min(INSIDE));
    for (place, piece) in words[2..].iter_mut().zip(inside) {
        *place = word(piece);
    }
    let (places, _) = list.as_chunks_mut();
    for (place, piece) in places.iter_mut().zip(behind) {
        *place = word(piece).to_le_bytes();
    }
    (words, &list[..behind.len() * 8])
}

/// What came: its number, what is to be done to it, how many pieces there are in `pieces`. Only its shape was checked. None: it is none.
pub fn to_send(
    message: &Message,
    list: &[u8],
    pieces: &mut [Piece; PIECES as usize],
) -> Option<(usize, Offload, usize)> {
    let [first, second, ..] = message.words;
    let count = (first >> 16 & 0xff) as usize;
    let cut = match first >> 25 & 3 {
        0 => Cut::No,
        1 => Cut::Tcp4,
        2 => Cut::Tcp6,
        _ => return None,
    };
    let (behind, rest) = list.get(..message.data)?.as_chunks();
    let fits =
        (1..=PIECES as usize).contains(&count) && behind.len() == count.saturating_sub(INSIDE);
    if !rest.is_empty() || !fits {
        return None;
    }
    let inside = message.words[2..].iter().copied();
    let all = inside.chain(behind.iter().map(|bytes| u64::from_le_bytes(*bytes)));
    // Where there is one piece the second word is nothing.
    for (place, word) in pieces[..count].iter_mut().zip(all) {
        *place = (word as u32, (word >> 32) as u32);
    }
    let offload = Offload {
        sum: first >> 24 & 1 == 1,
        sum_start: second as u16,
        sum_at: (second >> 16) as u16,
        cut,
        segment: (second >> 32) as u16,
        headers: (first >> 32) as u16,
    };
    Some((first as u16 as usize, offload, count))
}
