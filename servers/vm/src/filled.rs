//! Pages that the nucleus fills and maps several at a time, wherever they lie in a space, and the slots that they get.

use crate::frames::Frames;
use crate::nucleus::Nucleus;
use crate::pages::{Pages, CHUNK};
use crate::space::{give_table, Space, Trouble};
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::{Fill, AS_IT_IS};

/// Have pages filled and mapped; how many were, and why not all.
pub(crate) fn fill<N: Nucleus>(
    nucleus: &mut N,
    frames: &mut Frames,
    space: &mut Space,
    table_frames: &mut u64,
    fills: &[Fill],
) -> (usize, Result<(), Trouble>) {
    let mut done = 0;
    while let Some(rest) = fills.get(done..).filter(|rest| !rest.is_empty()) {
        let (some, result) = nucleus.fill(space.slot, rest);
        done += some;
        match result {
            Ok(()) => {}
            Err(cairn_abi::Error::NoTable) => {
                if let Err(trouble) = give_table(nucleus, frames, space, table_frames) {
                    return (done, Err(trouble));
                }
            }
            Err(_) => return (done, Err(Trouble::Refused)),
        }
    }
    (done, Ok(()))
}

/// Pages where nothing was are filled, mapped and put into the space's slots. Frames as they are belong to an object and get a reference more; if these are `cow` they are mapped without WRITE. The others are the space's,
/// and those that could not be mapped are freed.
pub(crate) fn fill_slots<N: Nucleus>(
    nucleus: &mut N,
    frames: &mut Frames,
    space: &mut Space,
    table_frames: &mut u64,
    fills: &[Fill],
    cow: bool,
) -> Result<(), Trouble> {
    let (done, result) = fill(nucleus, frames, space, table_frames, fills);
    let (there, lost) = fills.split_at(done);
    space.pages.put(frames, there, cow);
    for fill in lost.iter().filter(|fill| fill.source != AS_IT_IS) {
        frames.release(fill.frame);
    }
    result
}

impl Pages {
    /// See [`fill_slots`].
    fn put(&mut self, frames: &mut Frames, fills: &[Fill], cow: bool) {
        let mut left = fills;
        while let Some(first) = left.first() {
            let row = number(first) / CHUNK;
            let chunk = self.own_chunk(frames, number(first));
            let (mut new, mut file, mut count) = (0u64, 0, 0);
            for fill in left {
                let page = number(fill);
                if page / CHUNK != row {
                    break;
                }
                let slot = page % CHUNK;
                let bit = 1 << slot;
                chunk.frames[slot as usize] = fill.frame;
                new |= bit;
                if fill.source == AS_IT_IS {
                    frames.retain(fill.frame);
                    file |= bit;
                }
                count += 1;
            }
            left = &left[count..];
            debug_assert_eq!(chunk.resident & new, 0);
            debug_assert_eq!(new.count_ones() as usize, count);
            chunk.resident |= new;
            chunk.file = chunk.file & !new | file;
            chunk.cow &= !new;
            if cow {
                chunk.cow |= file;
            }
            // (Each has a page of its own.)
            self.arrived(count as u32);
        }
    }
}

fn number(fill: &Fill) -> u64 {
    fill.address / PAGE
}
