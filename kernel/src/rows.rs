//! The memory portal's operations on several rows of pages at once: what a fork copies is many small pieces, and an entry for each would cost more than the work.

use crate::arch::{Arch, Frame};
use crate::frames::FrameKind;
use crate::memory::{range, PAGES, PROT};
use crate::pool::ThreadRef;
use crate::{Answer, Kernel, Stop};
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::{Fill, Row, FILLS, ROWS};
use cairn_abi::Error;

/// Pages that one entry of SHARE goes over, and what one entry of FILL may do (4 copies, or more pages of zeroes, which cost a third): interrupts wait no longer.
const SHARE_PAGES: u64 = 128;
const FILL_WORK: u64 = 12;
const COPY_WORK: u64 = 3;
const ZERO_WORK: u64 = 1;

/// Bytes of a [`Row`] or a [`Fill`]: a word, and two halves.
const ENTRY: usize = 16;
const _: () =
    assert!(core::mem::size_of::<Row>() == ENTRY && core::mem::size_of::<Fill>() == ENTRY);

/// Address and the two halves behind it.
fn entry(bytes: &[u8; ENTRY]) -> (u64, u32, u32) {
    let all = u128::from_le_bytes(*bytes);
    (all as u64, (all >> 64) as u32, (all >> 96) as u32)
}

impl<A: Arch> Kernel<A> {
    /// The caller's array of `count` entries (at most `MOST`).
    fn entries<const MOST: usize>(
        &mut self,
        t: ThreadRef,
        array: u64,
        count: u64,
    ) -> Result<[[u8; ENTRY]; MOST], Stop> {
        let mut entries = [[0; ENTRY]; MOST];
        let wanted = usize::try_from(count)
            .ok()
            .and_then(|count| entries.get_mut(..count))
            .ok_or(Error::BadArgument)?;
        self.read_own(t, array, wanted.as_flattened_mut())?;
        Ok(entries)
    }

    /// SHARE.
    pub(crate) fn share(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let (source, target) = (self.space_at(t, w[0])?, self.space_at(t, w[1])?);
        let (from, to) = (self.space_root(source)?, self.space_root(target)?);
        if source == target {
            return Err(Error::BadArgument.into());
        }
        let rows = self.entries::<ROWS>(t, w[2], w[3])?;
        let rows = &rows[..w[3] as usize];
        let mut total = 0;
        for (address, pages, read_only) in rows.iter().map(entry) {
            range(address, pages as u64)?;
            total += pages as u64;
            if total > PAGES || read_only > 1 {
                return Err(Error::BadArgument.into());
            }
        }
        let mut result = Ok(());
        let mut done = 0;
        // Pages that earlier entries did, and how many this one may do.
        let (mut skip, mut share) = (w[4], SHARE_PAGES);
        for (address, pages, read_only) in rows.iter().map(entry) {
            let first = skip.min(pages as u64);
            skip -= first;
            let rest = pages as u64 - first;
            if rest == 0 {
                done += 1;
                continue;
            }
            let piece = rest.min(share);
            share -= piece;
            let space = &mut self.spaces[target];
            let (frames, before) = (&mut self.frames, space.tables.count);
            let shared = self.arch.share_row(
                from,
                to,
                address + first * PAGE,
                piece,
                read_only == 1,
                &mut space.tables,
                |frame, old| frames.replaced(frame, old),
            );
            space.table_frames += before - space.tables.count;
            if let Err((_, error)) = shared {
                result = Err(Self::map_error(error));
                break;
            }
            if piece < rest {
                self.answer(t, 4, w[4] + SHARE_PAGES);
                return Err(Stop::Restart);
            }
            done += 1;
        }
        self.answer(t, 0, done);
        result
    }

    /// FILL.
    pub(crate) fn fill(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let s = self.space_at(t, w[0])?;
        let root = self.space_root(s)?;
        let prot = w[3];
        Self::check_prot(prot)?;
        if prot & !PROT != 0 {
            return Err(Error::BadArgument.into());
        }
        let fills = self.entries::<FILLS>(t, w[1], w[2])?;
        let fills = &fills[..w[2] as usize];
        for (address, frame, source) in fills.iter().map(entry) {
            range(address, 1)?;
            let user = |frame: Frame| self.frames.kind(frame) == FrameKind::User;
            if !user(frame) || source != 0 && !user(source) {
                return Err(Error::BadArgument.into());
            }
        }
        let mut work = 0;
        for (i, (_, frame, source)) in (0..).zip(fills.iter().map(entry)).skip(w[4] as usize) {
            if work >= FILL_WORK {
                self.answer(t, 4, i);
                return Err(Stop::Restart);
            }
            if source == 0 {
                self.arch.zero_frame(frame);
                work += ZERO_WORK;
            } else {
                self.arch.copy_frame(frame, source);
                work += COPY_WORK;
            }
        }
        let mut result = Ok(());
        let mut done = 0;
        for row in fills.chunk_by(|a, b| entry(a).0 + PAGE == entry(b).0) {
            let frames = row.iter().map(|fill| Some(entry(fill).1));
            match self.map_row(s, root, entry(&row[0]).0, frames, prot) {
                Ok(()) => done += row.len() as u64,
                Err((some, error)) => {
                    done += some;
                    result = Err(Self::map_error(error));
                    break;
                }
            }
        }
        self.answer(t, 0, done);
        result
    }
}
