//! What `vm` tells of the memory of a range of addresses (USAGE): what is resident of it, who else shows it, and whether it was written.
//!
//! A request looks at a bounded number of pages and says where to go on.

use crate::nucleus::Nucleus;
use crate::pages::{mask, Pages};
use crate::region::{Region, ANONYMOUS};
use crate::request::Request;
use crate::space::{Errno, Vm};
use cairn_abi::layout::PAGE;
use cairn_idl::errno::*;
use cairn_idl::vm::Usage;

/// Most chunks of page slots, and most regions, that one request looks at.
const CHUNKS: usize = 256;
const REGIONS: usize = 256;
/// What a page counts in [`Usage::share`] if nobody else shows it.
const WHOLE: u64 = 4096;

/// Of a region's memory.
#[derive(Clone, Copy)]
struct Kind {
    /// It shows an object, of which a server makes the pages (a file), as do all who map the object shared.
    object: bool,
    file: bool,
    shared: bool,
}

impl<N: Nucleus> Vm<N> {
    /// USAGE.
    pub(crate) fn usage(&mut self, r: &Request, index: usize) -> Result<u64, Errno> {
        let [_, _, first, end, ..] = r.words;
        let (first, end) = (first / PAGE, end.div_ceil(PAGE));
        let mut usage = Usage::default();
        let mut chunks = CHUNKS;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let mut regions = space.regions.overlapping(first, end);
        for region in regions.by_ref().take(REGIONS) {
            let from = region.start.max(first);
            let reached =
                self.add_usage(&space.pages, region, (from, end), &mut chunks, &mut usage);
            if let Some(page) = reached {
                usage.next = page * PAGE;
                break;
            }
        }
        if usage.next == 0 {
            usage.next = regions.next().map_or(0, |region| region.start * PAGE);
        }
        drop(regions);
        self.write_part(r, 0, &usage.to_bytes())?;
        Ok(0)
    }

    /// Adds what a region has; → the page to go on with, if that was too much.
    fn add_usage(
        &self,
        pages: &Pages,
        region: &Region,
        (from, end): (u64, u64),
        chunks: &mut usize,
        usage: &mut Usage,
    ) -> Option<u64> {
        let end = end.min(region.end);
        let object = match region.object {
            ANONYMOUS => None,
            number => self.objects.get(number as usize),
        };
        let kind = Kind {
            object: object.is_some(),
            file: object.is_some_and(|object| object.is_watched()),
            shared: region.shared(),
        };
        for (chunk, holders) in pages.held(from, end) {
            if *chunks == 0 {
                return Some(chunk.first.max(from));
            }
            *chunks -= 1;
            let mut left = chunk.resident & mask(chunk.first, from, end);
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let frame = chunk.frames[bit as usize];
                let of_object = kind.object && (kind.shared || chunk.file >> bit & 1 != 0);
                let mut users = u64::from(self.frames.references(frame)) + holders - 1;
                if let Some(object) = object.filter(|_| of_object) {
                    // The object itself has it, and of a file its server.
                    let number = region.offset + (chunk.first + u64::from(bit) - region.start);
                    let there = object.pages.get(number).is_some_and(|it| it.frame == frame);
                    users -= u64::from(there).min(users - 1);
                    users -= u64::from(kind.file).min(users - 1);
                }
                // Of a file's page its object notes the first write.
                let written = match of_object {
                    true if kind.file => kind.shared && chunk.cow >> bit & 1 == 0,
                    true => kind.shared,
                    false => true,
                };
                usage.add(users.max(1), written, (of_object, kind.file));
            }
        }
        None
    }
}

/// Counting pages.
trait Counts {
    fn add(&mut self, users: u64, written: bool, of: (bool, bool));
}

impl Counts for Usage {
    fn add(&mut self, users: u64, written: bool, (of_object, file): (bool, bool)) {
        let share = WHOLE / users;
        let count = match (users, written) {
            (1, false) => &mut self.private_clean,
            (1, true) => &mut self.private_dirty,
            (_, false) => &mut self.shared_clean,
            (_, true) => &mut self.shared_dirty,
        };
        *count += 1;
        self.share += share;
        if written {
            self.share_dirty += share;
        }
        if !of_object {
            self.anonymous += 1;
            self.share_anonymous += share;
        } else if file {
            self.share_file += share;
        }
    }
}
