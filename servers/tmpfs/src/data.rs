//! File data: reading straight from the pages, writing straight into them, holes, changes of length, memory objects.
//!
//! What lies behind a file's end in its last page is zero.

use crate::inode::{File, Inode, Kind, Time};
use crate::pool::{Full, Memory, Page, Pool, PAGE};
use crate::server::{fail, now, Tmpfs};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Data, Failure};
use cairn_rt::Portal;

const PAGE64: u64 = PAGE as u64;
/// What holes read as, several pages at a time.
static ZEROES: [u8; 4 * PAGE] = [0; 4 * PAGE];
/// Longest run of pages that is filled by one copy from the caller.
const RUN: usize = 64;
/// Seconds after which a read is noted although nothing was written since (relatime).
const DAY: i64 = 24 * 60 * 60;

const FALLOC_KEEP_SIZE: u64 = 1;
const FALLOC_PUNCH_HOLE: u64 = 2;

impl From<Full> for Failure {
    fn from(_: Full) -> Failure {
        Failure::Errno(ENOSPC)
    }
}

/// Note a read, as Linux does with `relatime`.
pub(crate) fn touch_accessed(inode: &mut Inode, cx: &mut Context) {
    let now = now(cx);
    if inode.atime <= inode.mtime
        || inode.atime <= inode.ctime
        || now.seconds - inode.atime.seconds >= DAY
    {
        inode.atime = now;
    }
}

/// The set of pages changes: an object made before is for mappings that exist, not for new ones.
fn forget_object(file: &mut File, cx: &mut Context) {
    if let Some((portal, _)) = file.object.take() {
        cx.transport.close(portal);
    }
}

/// Drop the pages with indices from `from` up to and without `to`.
pub(crate) fn drop_pages<M: Memory>(
    file: &mut File,
    pool: &mut Pool<M>,
    cx: &mut Context,
    from: u64,
    to: u64,
) {
    forget_object(file, cx);
    let shared = file.shared;
    file.content.take(from, to, |page| {
        if shared {
            pool.retire(page);
        } else {
            pool.free(page);
        }
    });
    if file.content.count() == 0 {
        file.shared = false;
    }
}

/// Zero from `offset` to the end of its page, if there is one.
fn zero_tail<M: Memory>(file: &File, pool: &mut Pool<M>, offset: u64) {
    let from = (offset % PAGE64) as usize;
    let page = file.content.get(offset / PAGE64);
    if from != 0 && page != 0 {
        pool.bytes_mut(page, from, PAGE - from).fill(0);
    }
}

impl<M: Memory> Tmpfs<M> {
    fn file(&mut self, node: u32) -> Answer<(&mut File, &mut Pool<M>, &mut u64)> {
        let inode = self.inodes.get_mut(node).ok_or(Failure::Errno(EIO))?;
        match &mut inode.kind {
            Kind::File(file) => Ok((file, &mut self.pool, &mut inode.size)),
            _ => fail(EINVAL),
        }
    }

    /// Bytes of a file. All but the last run of neighbouring pages are copied here, the last one goes with the reply.
    #[inline(always)]
    pub(crate) fn read_file(
        &mut self,
        cx: &mut Context,
        node: u32,
        offset: u64,
        length: usize,
        note: bool,
    ) -> Answer<Data<'_>> {
        let inode = self.inodes.get_mut(node).ok_or(Failure::Errno(EIO))?;
        if note {
            touch_accessed(inode, cx);
        }
        let Kind::File(file) = &inode.kind else {
            return fail(EINVAL);
        };
        let pool = &self.pool;
        if offset >= inode.size {
            return Ok(Data::default());
        }
        let length = length.min((inode.size - offset) as usize);
        let mut done = 0;
        loop {
            let at = offset + done as u64;
            let first = file.content.get(at / PAGE64);
            let from = (at % PAGE64) as usize;
            let left = length - done;
            let mut run = PAGE - from;
            let mut index = at / PAGE64 + 1;
            let bytes: &[u8] = if first == 0 {
                while run < left && run + PAGE <= ZEROES.len() && file.content.get(index) == 0 {
                    run += PAGE;
                    index += 1;
                }
                &ZEROES[..run.min(left)]
            } else {
                let mut next = first + 1;
                while run < left && file.content.get(index) == next {
                    run += PAGE;
                    index += 1;
                    next += 1;
                }
                pool.bytes(first, from, run.min(left))
            };
            if run >= left {
                return Ok(Data { done, rest: bytes });
            }
            cx.store(done, bytes)?;
            done += run;
        }
    }

    /// Take `length` bytes from the caller. Without memory for all of it, what fits.
    pub(crate) fn write_file(
        &mut self,
        cx: &mut Context,
        node: u32,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let time = now(cx);
        let inode = self.inodes.get_mut(node).ok_or(Failure::Errno(EIO))?;
        let Kind::File(file) = &mut inode.kind else {
            return fail(EINVAL);
        };
        let pool = &mut self.pool;
        let end = offset + length as u64;
        if offset > inode.size && file.shared {
            // Programs that have the last page mapped may have written behind the end.
            zero_tail(file, pool, inode.size);
        }
        let mut done = 0;
        let mut problem = None;
        while done < length {
            let at = offset + done as u64;
            let from = (at % PAGE64) as usize;
            // Find or make a run of neighbouring pages.
            let mut fresh = 0u64;
            let mut first: Page = 0;
            let mut pages = 0usize;
            while pages < RUN && from + length - done > pages * PAGE {
                let index = at / PAGE64 + pages as u64;
                let existing = file.content.get(index);
                if existing != 0 {
                    if pages != 0 && existing != first + pages as Page {
                        break;
                    }
                    first = if pages == 0 { existing } else { first };
                    pages += 1;
                    continue;
                }
                let (page, zero) = match pool.allocate() {
                    Ok(found) => found,
                    Err(Full) => {
                        problem = Some(ENOSPC);
                        break;
                    }
                };
                if !zero {
                    // Only the parts of the page that this write does not fill.
                    let start = index * PAGE64;
                    let low = at.saturating_sub(start).min(PAGE64) as usize;
                    let high = end.saturating_sub(start).min(PAGE64) as usize;
                    if low != 0 {
                        pool.bytes_mut(page, 0, low).fill(0);
                    }
                    if high != PAGE {
                        pool.bytes_mut(page, high, PAGE - high).fill(0);
                    }
                }
                if file.object.is_some() {
                    forget_object(file, cx);
                }
                file.content.set(index, page);
                if pages != 0 && page != first + pages as Page {
                    // Not a neighbour: the next run begins with it. It is not filled yet, so it must be zero if that fails.
                    if !zero {
                        pool.bytes_mut(page, 0, PAGE).fill(0);
                    }
                    break;
                }
                first = if pages == 0 { page } else { first };
                fresh |= 1 << pages;
                pages += 1;
            }
            if pages == 0 {
                break;
            }
            let run = (pages * PAGE - from).min(length - done);
            let target = pool.bytes_mut(first, from, run);
            if let Err(failure) = cx.fetch(done, target) {
                // The caller's memory cannot be read: new pages must not show what they held before.
                for index in 0..pages {
                    if fresh & 1 << index != 0 {
                        pool.bytes_mut(first + index as Page, 0, PAGE).fill(0);
                    }
                }
                if done == 0 {
                    return Err(failure);
                }
                break;
            }
            done += run;
            if problem.is_some() {
                break;
            }
        }
        if let (0, Some(number)) = (done, problem) {
            return fail(number);
        }
        inode.size = inode.size.max(offset + done as u64);
        inode.touch_modified(time);
        Ok(done)
    }

    /// A new length; what is behind it goes.
    pub(crate) fn resize(&mut self, cx: &mut Context, node: u32, size: u64) -> Answer<()> {
        let (file, pool, old) = self.file(node)?;
        if size < *old {
            drop_pages(file, pool, cx, size.div_ceil(PAGE64), u64::MAX);
            zero_tail(file, pool, size);
        } else if size > *old {
            if file.shared {
                zero_tail(file, pool, *old);
            }
            forget_object(file, cx);
        }
        *old = size;
        Ok(())
    }

    /// Pages for all holes in a range; on failure those that were made stay (they are zero).
    fn fill_holes(&mut self, cx: &mut Context, node: u32, from: u64, to: u64) -> Answer<()> {
        let (file, pool, _) = self.file(node)?;
        let mut index = file.content.next_hole(from);
        while index < to {
            let page = pool.allocate_zeroed()?;
            forget_object(file, cx);
            file.content.set(index, page);
            index = file.content.next_hole(index);
        }
        Ok(())
    }

    /// fallocate: reserve, or punch a hole.
    pub(crate) fn allocate_file(
        &mut self,
        cx: &mut Context,
        node: u32,
        mode: u64,
        offset: u64,
        length: u64,
    ) -> Answer<()> {
        let end = offset + length;
        match mode {
            0 | FALLOC_KEEP_SIZE => {
                let (used, limit) = self.pool.usage();
                if length.div_ceil(PAGE64)
                    > (limit - used.min(limit)) as u64
                        + length_present(self.file(node)?.0, offset, end)
                {
                    return fail(ENOSPC);
                }
                self.fill_holes(cx, node, offset / PAGE64, end.div_ceil(PAGE64))?;
                let (_, _, size) = self.file(node)?;
                if mode == 0 && end > *size {
                    *size = end;
                }
            }
            mode if mode == FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE => {
                let (file, pool, _) = self.file(node)?;
                let (first, last) = (offset.div_ceil(PAGE64), end / PAGE64);
                let page_end = first * PAGE64;
                zero_range(file, pool, offset, end.min(page_end));
                if last * PAGE64 >= page_end {
                    zero_range(file, pool, last * PAGE64, end);
                }
                drop_pages(file, pool, cx, first, last);
            }
            _ => return fail(EOPNOTSUPP),
        }
        let time = now(cx);
        self.inode_mut(node)?.touch_modified(time);
        Ok(())
    }

    /// A memory object of all the file's pages.
    pub(crate) fn map_file(
        &mut self,
        cx: &mut Context,
        node: u32,
        offset: u64,
        length: u64,
        shared_writable: bool,
    ) -> Answer<(Portal, u64)> {
        let (_, _, size) = self.file(node)?;
        // Pages past the end fault; an object has at least one page.
        let pages = size.div_ceil(PAGE64).max(1);
        if shared_writable {
            let to = offset.saturating_add(length).div_ceil(PAGE64).min(pages);
            if *size != 0 {
                self.fill_holes(cx, node, offset / PAGE64, to)?;
            }
        }
        let (file, pool, _) = self.file(node)?;
        if let Some((portal, writable)) = file.object {
            if writable || !shared_writable {
                return Ok((portal, pages));
            }
        }
        let mut addresses = Vec::new();
        if addresses.try_reserve_exact(pages as usize * 8).is_err() {
            return fail(ENOMEM);
        }
        for index in 0..pages {
            let address = match file.content.get(index) {
                0 => 0,
                page => pool.address(page),
            };
            addresses.extend_from_slice(&address.to_le_bytes());
        }
        let portal = pool
            .memory()
            .object(&addresses, shared_writable)
            .map_err(|_| Failure::Errno(ENOMEM))?;
        forget_object(file, cx);
        file.object = Some((portal, shared_writable));
        file.shared = true;
        Ok((portal, pages))
    }

    /// Fill a new file with bytes that are in memory (at start-up).
    pub(crate) fn set_content(&mut self, node: u32, bytes: &[u8], mtime: Time) -> Answer<()> {
        let (file, pool, size) = self.file(node)?;
        for (index, part) in bytes.chunks(PAGE).enumerate() {
            let page = pool.allocate_zeroed()?;
            pool.bytes_mut(page, 0, part.len()).copy_from_slice(part);
            file.content.set(index as u64, page);
        }
        *size = bytes.len() as u64;
        self.inode_mut(node)?.mtime = mtime;
        Ok(())
    }
}

/// Pages that a range has already.
fn length_present(file: &File, offset: u64, end: u64) -> u64 {
    let mut count = 0;
    let mut at = offset / PAGE64;
    while let Some(index) = file.content.next_page(at) {
        if index >= end.div_ceil(PAGE64) {
            break;
        }
        count += 1;
        at = index + 1;
    }
    count
}

/// Zero a range within one page.
fn zero_range<M: Memory>(file: &File, pool: &mut Pool<M>, from: u64, to: u64) {
    let page = file.content.get(from / PAGE64);
    if page != 0 && to > from {
        pool.bytes_mut(page, (from % PAGE64) as usize, (to - from) as usize)
            .fill(0);
    }
}
