//! The memory portal's operations on several rows of pages at once: what a fork copies is many small pieces, and an entry for each would cost more than the work.

use crate::arch::{Arch, Frame};
use crate::memory::{range, PAGES, WRITABLE_EXECUTABLE};
use crate::pool::{SpaceRef, ThreadRef};
use crate::{Answer, Kernel, Stop};
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::{prot, Fill, Row, AS_IT_IS, ROWS};
use cairn_abi::Error;

/// Pages that SHARE goes over before it writes down how far it came, where a row's begin and each table that it needs count as several. (Interrupts may come in more often: then it goes back
/// to where that was.)
const SHARE_PAGES: u64 = 16;
const ROW_PAGES: u64 = 8;
const TABLE_PAGES: u64 = 6;
/// Pages that FILL maps before interrupts are let in; one that it fills takes as long.
const FILL_SHARE: u64 = 8;
/// Entries of FILL that are read at a time.
const FILLS_READ: usize = 16;

/// Bytes of a [`Row`] or a [`Fill`]: a word, and two halves.
const ENTRY: usize = 16;
const _: () =
    assert!(core::mem::size_of::<Row>() == ENTRY && core::mem::size_of::<Fill>() == ENTRY);

/// Address and the two halves behind it.
fn entry(bytes: &[u8; ENTRY]) -> (u64, u32, u32) {
    let all = u128::from_le_bytes(*bytes);
    (all as u64, (all >> 64) as u32, (all >> 96) as u32)
}

// What FILL compares a protection with.
const _: () = assert!(prot::READ == 1 && WRITABLE_EXECUTABLE == 6 && prot::DEVICE == 8);

impl<A: Arch> Kernel<A> {
    /// Read the caller's array of `count` entries, if there is room for them.
    fn entries<'a>(
        &mut self,
        t: ThreadRef,
        array: u64,
        count: u64,
        room: &'a mut [[u8; ENTRY]],
    ) -> Result<&'a [[u8; ENTRY]], Stop> {
        let wanted = usize::try_from(count)
            .ok()
            .and_then(|count| room.get_mut(..count))
            .ok_or(Error::BadArgument)?;
        self.read_own(t, array, wanted.as_flattened_mut())?;
        Ok(wanted)
    }

    /// SHARE.
    pub(crate) fn share(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let source = self.space_at(t, w[0])?;
        let Some(from) = self.spaces[source].root else {
            return Err(Error::NoTable.into());
        };
        let target = self.space_at(t, w[1])?;
        let Some(to) = self.spaces[target].root else {
            return Err(Error::NoTable.into());
        };
        // (Who may have writable code shares it with its like only.)
        let more = self.spaces[source].writable_code && !self.spaces[target].writable_code;
        if source == target || more {
            return Err(Error::BadArgument.into());
        }
        let mut room = [[0; ENTRY]; ROWS];
        let rows = self.entries(t, w[2], w[3], &mut room)?;
        self.open(t);
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
                if let Err(error) = shared {
                    self.answer(t, 0, done);
                    return Err(Error::from(error).into());
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

    /// FILL: an entry is looked at, filled and mapped before the next one is.
    pub(crate) fn fill(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let s = self.space_at(t, w[0])?;
        let Some(root) = self.spaces[s].root else {
            return Err(Error::NoTable.into());
        };
        let count = w[2];
        if count > PAGES {
            return Err(Error::BadArgument.into());
        }
        let windows = self.spaces[s].open_windows != 0;
        let mut room = [[0; ENTRY]; FILLS_READ];
        let (mut done, mut share) = (0, FILL_SHARE);
        while done < count {
            let array = w[1].checked_add(done * ENTRY as u64);
            let array = array.ok_or(Error::BadAddress)?;
            let some = (count - done).min(FILLS_READ as u64);
            let mut fills = self.entries(t, array, some, &mut room)?;
            if done == 0 {
                // Nothing is changed yet.
                self.open(t);
            }
            while let Some((fill, rest)) = fills.split_first() {
                // Filling one takes a whole share.
                if share == 0 || share != FILL_SHARE && entry(fill).2 != AS_IT_IS {
                    self.filled(t, &w, done);
                    if self.let_in(t) {
                        return Err(Stop::Restart);
                    }
                    share = FILL_SHARE;
                }
                if !windows && entry(fill).2 == AS_IT_IS {
                    let most = fills.len().min(share as usize);
                    let mapped = self.map_as_they_are(s, root, &fills[..most]);
                    done += mapped as u64;
                    share -= mapped as u64;
                    if mapped != 0 {
                        fills = &fills[mapped..];
                        continue;
                    }
                }
                match self.fill_and_map(t, s, root, fill, windows) {
                    Ok(()) => {
                        done += 1;
                        let filled = entry(fill).2 != AS_IT_IS;
                        share = if filled { 0 } else { share - 1 };
                    }
                    Err(Stop::Error(error)) => {
                        self.answer(t, 0, w[3].wrapping_add(done));
                        return Err(error.into());
                    }
                    Err(_) => {
                        self.filled(t, &w, done);
                        return Err(Stop::Restart);
                    }
                }
                fills = rest;
            }
        }
        self.answer(t, 0, w[3].wrapping_add(done));
        Ok(())
    }

    /// So many entries of FILL were done by this entry of the nucleus, which may end here.
    fn filled(&mut self, t: ThreadRef, w: &[u64; 8], done: u64) {
        self.answer(t, 1, w[1] + done * ENTRY as u64);
        self.answer(t, 2, w[2] - done);
        self.answer(t, 3, w[3].wrapping_add(done));
    }

    /// Entries of FILL whose frames are mapped as they are, where no windows are open: how many were, up to the first that is not so plain.
    #[inline(never)]
    fn map_as_they_are(&mut self, s: SpaceRef, root: A::Root, fills: &[[u8; ENTRY]]) -> usize {
        let (frames, arch) = (&mut self.frames, &mut self.arch);
        let tables = &mut self.spaces[s].tables;
        for (done, fill) in fills.iter().enumerate() {
            let (address, frame, source) = entry(fill);
            let bits = address % PAGE;
            if source != AS_IT_IS || bits >= WRITABLE_EXECUTABLE || !frames.map_user(frame) {
                return done;
            }
            match arch.map(root, address - bits, frame, bits, tables) {
                Ok(None) => {}
                Ok(Some(old)) => frames.unmapped(old),
                Err(_) => {
                    frames.unmapped(frame);
                    return done;
                }
            }
        }
        fills.len()
    }

    /// One entry of FILL. `windows`: some are open. `t`'s words say to begin with this one if its frame is filled, which takes a share.
    #[inline(never)]
    fn fill_and_map(
        &mut self,
        t: ThreadRef,
        s: SpaceRef,
        root: A::Root,
        fill: &[u8; ENTRY],
        windows: bool,
    ) -> Answer {
        let (address, frame, source) = entry(fill);
        let bits = address % PAGE;
        // Beyond reading, and writing or executing, or both where that may be, nothing may be asked for.
        if bits >= WRITABLE_EXECUTABLE {
            if bits >= prot::DEVICE {
                return Err(Error::BadArgument.into());
            }
            self.check_prot(s, bits)?;
        }
        if windows {
            self.tear(s, address - bits, 1)?;
        }
        if source != AS_IT_IS {
            self.fill_frame(t, frame, source)?;
        }
        Ok(self.map_user(s, root, address - bits, frame, bits)?)
    }

    /// Copy to a frame that programs may have, or zero it. Interrupts come in during the one and behind the other.
    #[inline(always)]
    fn fill_frame(&mut self, t: ThreadRef, frame: Frame, source: Frame) -> Answer {
        if !self.frames.is_user(frame) || source != 0 && !self.frames.is_user(source) {
            return Err(Error::BadArgument.into());
        }
        match source {
            0 => {
                self.arch.zero_frame(frame);
                self.open(t);
            }
            source => self.arch.copy_frame(frame, source, self.open_for(t)),
        }
        Ok(())
    }
}
