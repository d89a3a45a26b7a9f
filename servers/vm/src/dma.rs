//! Memory that devices read and write by themselves. See docs/block.md.
//!
//! A component *shares* a range of its memory and gives the portal to a driver; the driver *pins* pages of it before it tells its device of them, and unpins them when the device is done. A driver has memory of its own for
//! the device in whole blocks of frames.
//!
//! Where there is an IOMMU ([`crate::iommu`]) the device reaches what is pinned, and what was made for it, and nothing else.
//!
//! What always holds: a pin, and each frame of a block, is a reference to the frame in the driver's name. So a frame that a device may write to is used for nothing else, though its owner gives it back, or ends, or the driver dies:
//! only the driver's word that the device does nothing any more ([`Vm::dma`], DMA_BEGIN) lets go of what nobody unpinned.

use crate::frames::{Frames, BLOCK};
use crate::loan::Loan;
use crate::mapping::{range, Backing};
use crate::nucleus::{Answer, Frame, Nucleus};
use crate::pages::{Chunk, CHUNK};
use crate::pins::{in_rows, row, Pins};
use crate::request::Request;
use crate::slab::{Handle, Slab};
use crate::space::{hardware, with_tables, Errno, Vm, NATIVE_RESERVE, NOBODY};
use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::vm::{
    self, prot, BADGE_DRIVER_FIRST, BADGE_DRIVER_LAST, BADGE_SHARE_FIRST, BORROWED_FIRST,
    COPY_MOST, DMA_ALLOC_MAX, PIN_FEW, PIN_MOST, WINDOWS, WINDOW_PAGES,
};
use cairn_iommu::Iommu;

const DRIVERS: usize = (BADGE_DRIVER_LAST - BADGE_DRIVER_FIRST + 1) as usize;
/// Most ranges that are shared, pages that a driver has pinned, and blocks that it has.
const MAX_SHARES: usize = 256;
const MAX_PINS: usize = 16 * 1024;
const MAX_BLOCKS: usize = 32;
/// Heap that a list of blocks takes while it grows.
const LIST_BYTES: usize = 2 * MAX_BLOCKS * size_of::<Frame>();
/// Pages of a block.
const BLOCK_PAGES: u64 = BLOCK as u64;
const READ_WRITE: u64 = prot::READ | prot::WRITE;

pub(crate) struct Share {
    pub space: Handle,
    start: u64,
    count: u64,
    /// Loans that lie behind these pages (see [`crate::loan`]).
    pub windows: [Handle; WINDOWS],
}

#[derive(Default)]
struct Driver {
    /// Who is it; 0 before the first.
    domain: Id,
    pins: Pins,
    /// First frames of its blocks.
    blocks: Vec<Frame>,
}

#[derive(Default)]
pub struct Dma {
    pub(crate) shares: Slab<Share>,
    pub(crate) loans: Slab<Loan>,
    pub(crate) lent: usize,
    open: usize,
    drivers: [Driver; DRIVERS],
    pub(crate) iommu: Option<Iommu>,
    /// Pages where the registers of its units begin.
    pub(crate) registers: Vec<u64>,
}

impl Dma {
    fn driver(&self, badge: u64) -> Option<usize> {
        let number = badge.checked_sub(BADGE_DRIVER_FIRST)? as usize;
        (number < DRIVERS).then_some(number)
    }

    /// The driver that this domain is.
    pub(crate) fn is_driver(&self, id: Id) -> Option<usize> {
        self.drivers.iter().position(|d| d.domain == id && id != 0)
    }

    /// Whose pages are lent, and how many, for the audit.
    #[cfg(test)]
    pub(crate) fn lent_by(&self) -> impl Iterator<Item = (Handle, u64)> + '_ {
        self.loans.iter().map(|(_, loan)| loan.counted())
    }

    /// References of drivers, for the audit.
    #[cfg(test)]
    pub(crate) fn held(&self) -> impl Iterator<Item = (Frame, u32)> + '_ {
        let blocks = |d: &'_ Driver| d.blocks.clone().into_iter();
        let of_blocks = move |d| blocks(d).flat_map(|first| (first..first + BLOCK).map(|f| (f, 1)));
        self.drivers
            .iter()
            .flat_map(move |d| {
                let pins = d.pins.from(0).map(|(f, n)| (f, u32::from(n)));
                pins.chain(of_blocks(d))
            })
            .chain(self.loans.iter().flat_map(|(_, loan)| loan.held()))
    }
}

impl Driver {
    /// The device does nothing: let go of everything.
    fn let_go(&mut self, frames: &mut Frames) {
        for (frame, count) in core::mem::take(&mut self.pins).from(0) {
            for _ in 0..count {
                frames.release(frame);
            }
        }
        for first in core::mem::take(&mut self.blocks) {
            let all = first..first + BLOCK;
            // Whole, if its driver is gone, so that the next one finds a block again.
            if all.clone().all(|frame| frames.references(frame) == 1) {
                frames.release_block(first);
            } else {
                for frame in all {
                    frames.release(frame);
                }
            }
        }
    }
}

/// Numbers as they go in words, two in each.
fn unpack(words: &[u64], into: &mut [u32]) {
    for (i, place) in into.iter_mut().enumerate() {
        *place = (words[i / 2] >> (i % 2 * 32)) as u32;
    }
}

impl<N: Nucleus> Vm<N> {
    /// DMA_SHARE: replies itself, with the new portal.
    pub(crate) fn dma_share(&mut self, r: &Request) -> Result<(), Errno> {
        let index = self.domain(r.sender).ok_or(ESRCH)?.space;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        if space.linux() || space.eager {
            return Err(EPERM);
        }
        let (start, end) = range(r.words[1], r.words[2], EINVAL)?;
        if start == end || end - start > u64::from(BORROWED_FIRST) {
            return Err(EINVAL);
        }
        if self.dma.open >= MAX_SHARES {
            return Err(ENFILE);
        }
        let handle = self.dma.shares.next_handle().ok_or(ENFILE)?;
        let share = Share {
            space: space.handle,
            start,
            count: end - start,
            windows: [NOBODY; WINDOWS],
        };
        self.dma.shares.insert(share);
        self.dma.open += 1;
        let badge = BADGE_SHARE_FIRST + handle;
        self.deliver_minted(r.token, badge)
            .inspect_err(|_| self.close_share(badge))
    }

    /// Its last portal is gone.
    pub(crate) fn close_share(&mut self, badge: u64) {
        let handle = badge.wrapping_sub(BADGE_SHARE_FIRST);
        if let Some(number) = self.dma.shares.resolve(handle) {
            self.dma.shares.remove(number);
            self.dma.open -= 1;
        }
    }

    /// What comes through a share's portal.
    pub(crate) fn dma_pin(&mut self, r: &Request) -> Result<Answer, Errno> {
        if r.words[0] == vm::DMA_BORROW {
            return self.dma_borrow(r);
        }
        let number = self.dma.is_driver(r.sender).ok_or(EPERM)?;
        match r.words[0] {
            vm::DMA_PIN => {
                let mut list = [0; PIN_MOST as usize];
                let mut frames = [0; PIN_MOST as usize];
                let listed = self.listed(r, &mut list)?;
                let (done, pages) = usize::try_from(r.words[1])
                    .ok()
                    .and_then(|done| list[..listed].split_at_mut_checked(done))
                    .ok_or(EINVAL)?;
                let count = pages.len();
                if count == 0 || r.in_len < count * 4 {
                    return Err(EINVAL);
                }
                if !done.is_empty() {
                    self.unpin(number, done)?;
                }
                self.frames_behind(r.badge, pages, &mut frames)?;
                self.pin(number, &frames[..count])?;
                let mut bytes = [0; PIN_MOST as usize * 4];
                let (places, _) = bytes.as_chunks_mut();
                for (place, frame) in places.iter_mut().zip(&frames[..count]) {
                    *place = frame.to_le_bytes();
                }
                let written = self.nucleus.write(r.token, 0, &bytes[..count * 4]);
                if written != Ok(count * 4) {
                    self.unpin(number, &mut frames[..count])?;
                    return Err(EFAULT);
                }
                Ok(Answer::new(&[count as u64 * 4]))
            }
            vm::DMA_PIN_FEW => {
                let (mut pages, mut frames) = ([0; PIN_FEW as usize], [0; PIN_FEW as usize]);
                let count = few(r.words[1])?;
                unpack(&r.words[2..6], &mut pages[..count]);
                self.frames_behind(r.badge, &pages[..count], &mut frames)?;
                self.pin(number, &frames[..count])?;
                let mut words = [0; 5];
                for (i, &frame) in frames[..count].iter().enumerate() {
                    words[1 + i / 2] |= u64::from(frame) << (i % 2 * 32);
                }
                Ok(Answer::new(&words))
            }
            vm::SHARE_WRITE => self.copy_shared(r, r.out_len as u64, true),
            vm::SHARE_READ => self.copy_shared(r, r.in_len as u64, false),
            _ => Err(EINVAL),
        }
    }

    /// SHARE_READ, SHARE_WRITE: bytes between the caller's part and what is shared.
    fn copy_shared(&mut self, r: &Request, length: u64, write: bool) -> Result<Answer, Errno> {
        if r.words[1] >= u64::from(BORROWED_FIRST) * PAGE {
            return self.copy_borrowed(r, length, write);
        }
        let share = self.shared(r.badge)?;
        let (handle, start) = (share.space, share.start * PAGE);
        let end = r.words[1].checked_add(length).ok_or(EFAULT)?;
        if length > COPY_MOST || end > share.count * PAGE {
            return Err(EFAULT);
        }
        let index = self.spaces.resolve(handle).ok_or(EBADF)?;
        let moved = self.move_bytes(r, index, start + r.words[1], length, write)?;
        Ok(Answer::new(&[moved]))
    }

    pub(crate) fn shared(&self, badge: u64) -> Result<&Share, Errno> {
        let shares = &self.dma.shares;
        shares
            .resolve(badge - BADGE_SHARE_FIRST)
            .and_then(|number| shares.get(number))
            .ok_or(EBADF)
    }

    pub(crate) fn shared_mut(&mut self, badge: u64) -> Result<&mut Share, Errno> {
        let shares = &mut self.dma.shares;
        let number = shares.resolve(badge - BADGE_SHARE_FIRST).ok_or(EBADF)?;
        shares.get_mut(number).ok_or(EBADF)
    }

    /// Numbers in the caller's out part → how many.
    fn listed(&mut self, r: &Request, into: &mut [u32; PIN_MOST as usize]) -> Result<usize, Errno> {
        let mut bytes = [0; PIN_MOST as usize * 4];
        let count = r.out_len / 4;
        if !r.out_len.is_multiple_of(4) || count == 0 || count > into.len() {
            return Err(EINVAL);
        }
        if self.nucleus.read(r.token, 0, &mut bytes[..count * 4]) != Ok(count * 4) {
            return Err(EFAULT);
        }
        let (numbers, _) = bytes.as_chunks();
        for (place, number) in into.iter_mut().zip(numbers) {
            *place = u32::from_le_bytes(*number);
        }
        Ok(count)
    }

    /// The frames behind pages of what is shared, if they may be pinned.
    fn frames_behind(&self, badge: u64, pages: &[u32], into: &mut [Frame]) -> Result<(), Errno> {
        let share = self.shared(badge)?;
        let space = self
            .spaces
            .resolve(share.space)
            .and_then(|index| self.spaces.get(index))
            .ok_or(EBADF)?;
        // The region and the chunk that were looked at last.
        let (mut known, mut chunk) = (0..0, None::<&Chunk>);
        let mut done = 0;
        while let Some(&page) = pages.get(done) {
            if let Some(at) = page.checked_sub(BORROWED_FIRST) {
                // What is lent is asked for in rows.
                let lent = self.lent_in(share, (at / WINDOW_PAGES) as usize)?;
                let lent = lent.get((at % WINDOW_PAGES) as usize..).ok_or(EFAULT)?;
                let length = row(&pages[done..]).min(lent.len());
                if length == 0 {
                    return Err(EFAULT);
                }
                // The loan has references to them, so they are such as can be counted.
                into[done..done + length].copy_from_slice(&lent[..length]);
                done += length;
                continue;
            }
            let place = &mut into[done];
            done += 1;
            if u64::from(page) >= share.count {
                return Err(EFAULT);
            }
            let page = share.start + u64::from(page);
            if !known.contains(&page) {
                let region = space.regions.find(page).ok_or(EFAULT)?;
                if !region.is_own_memory() {
                    return Err(EFAULT);
                }
                known = region.start..region.end;
            }
            let there = match chunk {
                Some(there) if there.first == page - page % CHUNK => there,
                _ => space.pages.chunk(page).ok_or(EFAULT)?,
            };
            chunk = Some(there);
            let (bit, frame) = (1 << (page % CHUNK), there.frames[(page % CHUNK) as usize]);
            let own = there.resident & !there.cow & bit != 0;
            if !own || self.frames.references(frame) == u32::MAX {
                return Err(EFAULT);
            }
            *place = frame;
        }
        Ok(())
    }

    fn pin(&mut self, number: usize, frames: &[Frame]) -> Result<(), Errno> {
        let pins = &self.dma.drivers[number].pins;
        // Few need not be looked at for what they take exactly.
        let growth = match frames.len() as u64 {
            0..=PIN_FEW => 0,
            _ => pins.growth(frames),
        };
        if pins.total() + frames.len() > MAX_PINS || !self.heap_has(growth) {
            return Err(ENOMEM);
        }
        self.reach(number, frames)?;
        let pins = &mut self.dma.drivers[number].pins;
        for row in in_rows(frames) {
            pins.add(row);
            self.frames.retain_row(row);
        }
        Ok(())
    }

    /// What comes through a driver's portal.
    pub(crate) fn dma(&mut self, r: &Request) -> Result<Answer, Errno> {
        let number = self.dma.driver(r.badge).ok_or(EPERM)?;
        if r.words[0] == vm::DMA_BEGIN {
            let before = self.dma.drivers[number].domain;
            let other = before != r.sender && self.domain(before).is_some();
            if other || self.dma.is_driver(r.sender).is_some_and(|n| n != number) {
                return Err(EBUSY);
            }
            self.withdraw_all(number)?;
            let driver = &mut self.dma.drivers[number];
            driver.let_go(&mut self.frames);
            driver.domain = r.sender;
            return Ok(Answer::new(&[0]));
        }
        if self.dma.drivers[number].domain != r.sender {
            return Err(EPERM);
        }
        match r.words[0] {
            vm::DMA_ALLOC => return self.dma_alloc(r, number),
            vm::DMA_UNPIN => {
                let mut list = [0; PIN_MOST as usize];
                let count = self.listed(r, &mut list)?;
                self.unpin(number, &mut list[..count])?;
            }
            vm::DMA_UNPIN_FEW => {
                let mut list = [0; PIN_FEW as usize];
                let count = few(r.words[1])?;
                unpack(&r.words[2..6], &mut list[..count]);
                self.unpin(number, &mut list[..count])?;
            }
            _ => return Err(EINVAL),
        }
        Ok(Answer::new(&[0]))
    }

    /// Puts the list into another order.
    fn unpin(&mut self, number: usize, list: &mut [Frame]) -> Result<(), Errno> {
        let (known, last) = self.dma.drivers[number].pins.take(list);
        self.withdraw(number, &list[..last])?;
        in_rows(&list[..known]).for_each(|row| self.frames.release_row(row));
        match known == list.len() {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }

    /// The driver's device reaches nothing of what it had.
    #[cold]
    fn withdraw_all(&mut self, number: usize) -> Result<(), Errno> {
        if self.dma.iommu.is_none() {
            return Ok(());
        }
        let mut next = 0;
        loop {
            let mut some = [0; BLOCK as usize];
            let pins = self.dma.drivers[number].pins.from(next);
            let count = pins
                .zip(&mut some)
                .map(|((frame, _), place)| *place = frame)
                .count();
            let Some(&last) = some[..count].last() else {
                break;
            };
            self.withdraw(number, &some[..count])?;
            next = last + 1;
        }
        for i in 0..self.dma.drivers[number].blocks.len() {
            let first = self.dma.drivers[number].blocks[i];
            self.withdraw(number, &block(first))?;
        }
        Ok(())
    }

    fn dma_alloc(&mut self, r: &Request, number: usize) -> Result<Answer, Errno> {
        let len = r.words[1];
        if len == 0 || len > DMA_ALLOC_MAX {
            return Err(EINVAL);
        }
        let index = self.domain(r.sender).ok_or(ESRCH)?.space;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let growth = space.pages.growth(2) + LIST_BYTES;
        if self.dma.drivers[number].blocks.len() >= MAX_BLOCKS || !self.heap_has(growth) {
            return Err(ENOMEM);
        }
        let first = self.frames.alloc_block(NATIVE_RESERVE).ok_or(ENOMEM)?;
        let list = block(first);
        if let Err(errno) = self.reach(number, &list) {
            self.frames.release_block(first);
            return Err(errno);
        }
        let all = first..first + BLOCK;
        let zeroed = all.clone().all(|f| self.nucleus.zero_frame(f).is_ok());
        let bytes = BLOCK_PAGES * PAGE;
        let place = match zeroed {
            true => self.map(index, 0, bytes, READ_WRITE, 0, Backing::Coming),
            false => Err(ENOMEM),
        };
        let (Ok(address), Some(space)) = (place, self.spaces.get_mut(index)) else {
            self.withdraw(number, &list)?;
            self.frames.release_block(first);
            return Err(ENOMEM);
        };
        self.dma.drivers[number].blocks.push(first);
        // One reference is the driver's for its device, one the space's.
        all.clone().for_each(|frame| self.frames.retain(frame));
        let (nucleus, frames, tables) =
            (&mut self.nucleus, &mut self.frames, &mut self.table_frames);
        let start = address / PAGE;
        let split = ((CHUNK - start % CHUNK) as usize).min(list.len());
        let (head, tail) = list.split_at(split);
        for (page, part) in [(start, head), (start + split as u64, tail)] {
            if !part.is_empty() {
                space.pages.put_row(frames, page, part, false);
                // What cannot be mapped now comes by faults.
                let bits = hardware(READ_WRITE as u8, false);
                let _ = with_tables(nucleus, frames, space, tables, |n, slot| {
                    n.map_list(slot, page * PAGE, part, bits)
                });
            }
        }
        Ok(Answer::new(&[0, address, u64::from(first) * PAGE]))
    }
}

/// The frames of a block.
fn block(first: Frame) -> [Frame; BLOCK as usize] {
    core::array::from_fn(|i| first + i as Frame)
}

fn few(count: u64) -> Result<usize, Errno> {
    match count {
        1..=PIN_FEW => Ok(count as usize),
        _ => Err(EINVAL),
    }
}
