//! The memory portal's operations on several rows of pages at once: what a fork copies is many small pieces, and an entry for each would cost more than the work.

use crate::arch::{Arch, Frame};
use crate::frames::FrameKind;
use crate::memory::{range, PAGES, PROT};
use crate::pool::ThreadRef;
use crate::{Answer, Kernel, Stop};
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::{Fill, Row, FILLS, ROWS};
use cairn_abi::Error;

/// Pages that SHARE goes over before it writes down how far it came, where a row's begin and each table that it needs count as several. (Interrupts may come in more often: then it goes back
/// to where that was. FILL lets them in after each page that it fills.)
const SHARE_PAGES: u64 = 16;
const ROW_PAGES: u64 = 8;
const TABLE_PAGES: u64 = 6;
/// And the rows that FILL maps: a row's begin counts as several pages.
const MAP_WORK: u64 = 8;
const ROW_WORK: u64 = 4;

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
        if self.spaces[source].open_windows | self.spaces[target].open_windows != 0 {
            for (address, pages, _) in rows.iter().map(entry) {
                self.tear(source, address, pages as u64)?;
                self.tear(target, address, pages as u64)?;
            }
        }
        // To look at the rows takes as long as a share of them.
        self.open(t);
        let mut done = 0;
        // Pages that earlier entries did, how many may be done before interrupts are let in, and how many this entry did.
        let (mut skip, mut share, mut over) = (w[4], SHARE_PAGES, 0);
        for (address, pages, read_only) in rows.iter().map(entry) {
            let first = skip.min(pages as u64);
            skip -= first;
            if first == pages as u64 {
                done += 1;
                continue;
            }
            share = share.saturating_sub(ROW_PAGES);
            let mut at = first;
            while at < pages as u64 {
                if share == 0 {
                    self.answer(t, 4, w[4] + over);
                    if self.let_in(t) {
                        return Err(Stop::Restart);
                    }
                    share = SHARE_PAGES;
                }
                let piece = (pages as u64 - at).min(share);
                let open = self.open_for(t);
                let (frames, tables) = (&mut self.frames, &mut self.spaces[target].tables);
                let before = tables.used;
                let shared = self.arch.share_row(
                    from,
                    to,
                    address + at * PAGE,
                    piece,
                    read_only == 1,
                    open,
                    tables,
                    |frame, old| frames.replaced(frame, old),
                );
                let tables = self.spaces[target].tables.used - before;
                if let Err((_, error)) = shared {
                    self.answer(t, 0, done);
                    return Err(Self::map_error(error));
                }
                share = share.saturating_sub(piece + tables as u64 * TABLE_PAGES);
                at += piece;
                over += piece;
            }
            done += 1;
        }
        self.answer(t, 0, done);
        Ok(())
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
        if self.spaces[s].open_windows != 0 {
            for (address, ..) in fills.iter().map(entry) {
                self.tear(s, address, 1)?;
            }
        }
        for (i, (_, frame, source)) in (1..).zip(fills.iter().map(entry)).skip(w[4] as usize) {
            if source == 0 {
                self.arch.zero_frame(frame);
            } else {
                self.arch.copy_frame(frame, source);
            }
            self.answer(t, 4, i);
            if self.let_in(t) {
                return Err(Stop::Restart);
            }
        }
        // What earlier entries mapped; then as many pages and rows as are mapped in a share.
        let mut done = w[4].saturating_sub(w[2]).min(w[2]);
        let mut share = MAP_WORK;
        let mut result = Ok(());
        for row in fills[done as usize..].chunk_by(|a, b| entry(a).0 + PAGE == entry(b).0) {
            let cost = ROW_WORK + row.len() as u64;
            if share < cost && share < MAP_WORK {
                self.answer(t, 4, w[2] + done);
                if self.let_in(t) {
                    return Err(Stop::Restart);
                }
                share = MAP_WORK;
            }
            share = share.saturating_sub(cost);
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
