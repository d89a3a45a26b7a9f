//! File data: reading straight from the pages, writing straight into them, holes, changes of length, memory objects.
//!
//! What lies behind a file's end in its last page is zero.

use crate::inode::{tag, File, Inode, Kind, Time};
use crate::pool::{Full, Memory, Page, Pool, PAGE, PIECE};
use crate::seals::refuse;
use crate::server::{charge, fail, now, Tmpfs};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::fs::seal;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Data, Failure};
use cairn_rt::Portal;
use core::cmp::Ordering;

pub(crate) const PAGE64: u64 = PAGE as u64;
/// What holes read as, several pages at a time.
static ZEROES: [u8; 4 * PAGE] = [0; 4 * PAGE];
/// Longest run of pages that is filled by one copy from the caller.
const RUN: usize = 64;
/// Seconds after which a read is noted although nothing was written since (relatime).
const DAY: i64 = 24 * 60 * 60;

/// Most pages that one request reserves, or takes from a hole that is punched: half a millisecond.
pub(crate) const ALLOCATED_AT_ONCE: u64 = 256;

/// Most holes of a file that is mapped, or grows where it is, that are filled at a time, and most pages of which `vm` is told at a time.
pub(crate) const FILLED_AT_ONCE: u64 = 64;
pub(crate) const TOLD_AT_ONCE: u64 = 256;
/// What requests wait for that need what is being given back.
pub(crate) const ENDING: u64 = u64::MAX - 2;

/// Most pages of a file that are given back at once, and most pieces of what is given back later that a request which needs it waits for.
const AT_ONCE: u64 = PIECE;
const PIECES_AT_ONCE: usize = 8;

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

impl File {
    pub(crate) fn has_objects(&self) -> bool {
        self.objects.iter().any(Option::is_some)
    }
}

/// Its memory objects are for mappings that exist, not for new ones.
pub(crate) fn forget_objects(file: &mut File, cx: &mut Context) {
    for place in &mut file.objects {
        if let Some(portal) = place.take() {
            cx.transport.close(portal);
        }
    }
}

/// The addresses of pages `first..to` as `vm` wants them, 0 for a hole. None: no memory for so many.
fn addresses<M: Memory>(file: &File, pool: &Pool<M>, first: u64, to: u64) -> Option<Vec<u8>> {
    let mut list = Vec::new();
    let bytes = usize::try_from(to - first).ok()?.checked_mul(8)?;
    list.try_reserve_exact(bytes).ok()?;
    for index in first..to {
        let address = match file.content.get(index) {
            0 => 0,
            page => pool.address(page),
        };
        list.extend_from_slice(&address.to_le_bytes());
    }
    Some(list)
}

/// The first part of `first..to` with pages in it: it has no long holes, and is not too long for one call to `vm`.
fn part(file: &File, first: u64, to: u64) -> Option<(u64, u64)> {
    const HOLE: u64 = 64;
    let from = file.content.next_page(first).filter(|&index| index < to)?;
    let mut end = from + HOLE;
    let near = |end| {
        let next = file.content.next_page(end);
        next.is_some_and(|next| next < end + HOLE)
    };
    while end - from < TOLD_AT_ONCE && near(end) {
        end += HOLE;
    }
    Some((from, end.min(to)))
}

/// Pages `first..to` are others than they were, and the file has `pages`: its memory objects follow, and so does whoever has the file mapped. An object that cannot follow (a program that runs
/// is not cut; no memory) is for the mappings that exist only: they go on seeing what was there.
#[cold]
pub(crate) fn change_objects<M: Memory>(
    file: &mut File,
    pool: &mut Pool<M>,
    cx: &mut Context,
    (first, to): (u64, u64),
    pages: u64,
) {
    for place in 0..file.objects.len() {
        change_object(file, pool, cx, place, (first, to), pages);
    }
}

/// The same of one of them.
fn change_object<M: Memory>(
    file: &mut File,
    pool: &mut Pool<M>,
    cx: &mut Context,
    place: usize,
    (first, to): (u64, u64),
    pages: u64,
) {
    let Some(portal) = file.objects[place] else {
        return;
    };
    let first = first.min(pages);
    let to = to.min(pages).max(first);
    let list = addresses(file, pool, first, to);
    let told = list.is_some_and(|list| pool.memory().change(portal, first, &list, pages));
    if !told {
        file.objects[place] = None;
        cx.transport.close(portal);
    }
}

/// The same where pages came and none went: what takes time is what is there, however long the holes are.
#[cold]
pub(crate) fn add_to_objects<M: Memory>(
    file: &mut File,
    pool: &mut Pool<M>,
    cx: &mut Context,
    (first, to): (u64, u64),
    pages: u64,
) {
    let mut at = first;
    change_objects(file, pool, cx, (0, 0), pages);
    while file.has_objects() {
        let Some((from, end)) = part(file, at, to.min(pages)) else {
            return;
        };
        change_objects(file, pool, cx, (from, end), pages);
        at = end;
    }
}

/// Before pages from `first` on go, so many, and the file has `pages`: whoever has it mapped sees them no more. Of what is mapped very often that takes several
/// requests.
#[cold]
fn hide<M: Memory>(
    file: &File,
    pool: &mut Pool<M>,
    cx: &mut Context,
    (first, count): (u64, u64),
    pages: u64,
) -> Answer<()> {
    for &object in file.objects.iter().flatten() {
        if !pool.memory().hide(object, first, count, pages) {
            return Err(cx.goes_on());
        }
    }
    Ok(())
}

/// The object of a file's pages in this place, in which it is made if it is not there. That takes as many requests as the file is long.
fn make_object<M: Memory>(
    file: &mut File,
    pool: &mut Pool<M>,
    cx: &mut Context,
    place: usize,
    pages: u64,
    tag: u64,
) -> Answer<Portal> {
    if let (Some(portal), u64::MAX) = (file.objects[place], file.made_to[place]) {
        return Ok(portal);
    }
    if file.objects[place].is_none() {
        // A file that is short or has no long holes in one call, others in parts.
        let short = match part(file, 0, pages) {
            Some((from, end)) if from < TOLD_AT_ONCE => end.min(TOLD_AT_ONCE),
            _ => 1,
        };
        let list = addresses(file, pool, 0, short).ok_or(Failure::Errno(ENOMEM))?;
        let object = pool.memory().object(&list, place == 1, tag);
        file.objects[place] = Some(object.map_err(|_| Failure::Errno(ENOMEM))?);
        file.shared = true;
        file.made_to[place] = short;
        if pages != short {
            change_object(file, pool, cx, place, (0, 0), pages);
        }
    } else if let Some((from, end)) = part(file, file.made_to[place], pages) {
        change_object(file, pool, cx, place, (from, end), pages);
        file.made_to[place] = end;
    }
    let portal = file.objects[place].ok_or(Failure::Errno(ENOMEM))?;
    match part(file, file.made_to[place], pages) {
        Some(_) => Err(cx.goes_on()),
        None => {
            file.made_to[place] = u64::MAX;
            Ok(portal)
        }
    }
}

/// Drop the pages with indices from `from` up to and without `to`.
pub(crate) fn drop_pages<M: Memory>(file: &mut File, pool: &mut Pool<M>, from: u64, to: u64) {
    pool.take_back(file.shared, |each| file.content.take(from, to, each));
    if file.content.count() == 0 {
        file.shared = file.has_objects();
    }
}

/// Drop all pages from this index on: many of them when nobody waits.
pub(crate) fn drop_rest<M: Memory>(
    file: &mut File,
    pool: &mut Pool<M>,
    cx: &mut Context,
    from: u64,
) {
    let many = file
        .content
        .count()
        .min(file.content.end().saturating_sub(from))
        > AT_ONCE;
    if many && cx.begin_background() && pool.end(&mut file.content, from, file.shared) {
        // (Those that stay are few, or none.)
        return drop_pages(file, pool, from, from);
    }
    drop_pages(file, pool, from, u64::MAX);
    pool.settle(cx);
}

/// Zero from `offset` to the end of its page, if there is one.
fn zero_tail<M: Memory>(file: &File, pool: &mut Pool<M>, offset: u64) {
    let from = (offset % PAGE64) as usize;
    let page = file.content.get(offset / PAGE64);
    if from != 0 && page != 0 {
        pool.bytes_mut(page, from, PAGE - from).fill(0);
    }
}

/// A page that the caller pays for, and whether it is zero.
#[inline]
pub(crate) fn new_page<M: Memory>(pool: &mut Pool<M>, cx: &mut Context) -> Answer<(Page, bool)> {
    let uid = cx.payer();
    charge(pool, cx, PAGE)?;
    let found = pool.allocate(uid);
    pool.settle(cx);
    match found {
        Ok(found) => Ok(found),
        Err(Full) => {
            let found = give_back_for(pool, cx, |pool, _| pool.allocate(uid).ok());
            if found.is_err() {
                cx.refund(uid, PAGE);
            }
            found
        }
    }
}

/// What failed may succeed when more is given back of what is free already.
#[cold]
pub(crate) fn give_back_for<M: Memory, T>(
    pool: &mut Pool<M>,
    cx: &mut Context,
    mut again: impl FnMut(&mut Pool<M>, &mut Context) -> Option<T>,
) -> Answer<T> {
    for _ in 0..PIECES_AT_ONCE {
        if !pool.end_piece() {
            return fail(ENOSPC);
        }
        pool.settle(cx);
        if let Some(done) = again(pool, cx) {
            return Ok(done);
        }
    }
    Err(Failure::Wait(ENDING))
}

/// Pages in place of the holes in `from..to`, of which no more than `most` at a time: then others are served, and the request is made again. On failure, or if
/// it never is, those that were made stay (they are zero). Memory objects do not know of them yet: they lie below where `from` is then.
fn fill_holes<M: Memory>(
    file: &mut File,
    pool: &mut Pool<M>,
    cx: &mut Context,
    (from, to): (&mut u64, u64),
    most: u64,
) -> Answer<()> {
    let mut index = file.content.next_hole(*from);
    let mut filled = 0;
    while index < to {
        if filled == most {
            return Err(cx.goes_on());
        }
        let (page, zero) = new_page(pool, cx)?;
        if !zero {
            pool.bytes_mut(page, 0, PAGE).fill(0);
        }
        file.content.set(index, page);
        filled += 1;
        *from = index + 1;
        index = file.content.next_hole(index);
    }
    Ok(())
}

/// A file of `old` bytes is about to be `size` long: where it is mapped shared and writable the new part has no holes.
fn no_holes_before<M: Memory>(
    file: &mut File,
    pool: &mut Pool<M>,
    cx: &mut Context,
    old: u64,
    size: u64,
) -> Answer<()> {
    if file.objects[1].is_none() || size <= old {
        return Ok(());
    }
    let to = size.div_ceil(PAGE64).min(file.written_to);
    fill_holes(file, pool, cx, (&mut (old / PAGE64), to), FILLED_AT_ONCE)
}

impl<M: Memory> Tmpfs<M> {
    pub(crate) fn file(&mut self, node: u32) -> Answer<(&mut File, &mut Pool<M>, &mut u64)> {
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
    #[inline(always)]
    pub(crate) fn write_file(
        &mut self,
        cx: &mut Context,
        node: u32,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        let time = now(cx);
        let end = offset + length as u64;
        let inode = self.inodes.get_mut(node).ok_or(Failure::Errno(EIO))?;
        if inode.attributes.asks {
            return self.write_asking(cx, node, offset, length);
        }
        let Kind::File(file) = &mut inode.kind else {
            return fail(EINVAL);
        };
        let pool = &mut self.pool;
        if offset > inode.size {
            no_holes_before(file, pool, cx, inode.size, offset)?;
        }
        if offset > inode.size && file.shared {
            // Programs that have the last page mapped may have written behind the end.
            zero_tail(file, pool, inode.size);
        }
        let mut done = 0;
        let mut problem = None;
        let mut made = false;
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
                let (page, zero) = match new_page(pool, cx) {
                    Ok(found) => found,
                    Err(failure) => {
                        problem = Some(failure);
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
                made = true;
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
                problem = Some(failure);
                break;
            }
            done += run;
            if problem.is_some() {
                break;
            }
        }
        let old = inode.size;
        if done > 0 {
            inode.size = old.max(offset + done as u64);
        }
        if file.has_objects() {
            let (pages, had) = (inode.size.div_ceil(PAGE64), old.div_ceil(PAGE64));
            if made || pages != had {
                let first = (offset / PAGE64).min(had);
                add_to_objects(file, pool, cx, (first, end.div_ceil(PAGE64)), pages);
            }
        }
        if let (0, Some(failure)) = (done, problem) {
            return Err(failure);
        }
        inode.touch_modified(time);
        Ok(done)
    }

    /// A new length; what is behind it goes.
    pub(crate) fn resize(&mut self, cx: &mut Context, node: u32, size: u64) -> Answer<()> {
        let (file, _, old) = self.file(node)?;
        let sealed = match size.cmp(old) {
            Ordering::Less => seal::SHRINK,
            Ordering::Equal => 0,
            Ordering::Greater => seal::GROW,
        };
        refuse(file, sealed)?;
        let (file, pool, old) = self.file(node)?;
        if size < *old && file.has_objects() {
            let pages = size.div_ceil(PAGE64);
            hide(file, pool, cx, (pages, 0), pages)?;
        }
        self.drop_capabilities(cx, node);
        let (file, pool, old) = self.file(node)?;
        no_holes_before(file, pool, cx, *old, size)?;
        let pages = size.div_ceil(PAGE64);
        if size < *old {
            drop_rest(file, pool, cx, pages);
            zero_tail(file, pool, size);
        } else if size > *old && file.shared {
            zero_tail(file, pool, *old);
        }
        if size != *old && file.has_objects() {
            add_to_objects(file, pool, cx, (*old / PAGE64, pages), pages);
        }
        *old = size;
        Ok(())
    }

    /// fallocate: reserve, or punch a hole: how many bytes are done.
    pub(crate) fn allocate_file(
        &mut self,
        cx: &mut Context,
        node: u32,
        mode: u64,
        offset: u64,
        length: u64,
    ) -> Answer<u64> {
        let mut end = offset + length;
        let (file, _, size) = self.file(node)?;
        let sealed = match mode & FALLOC_PUNCH_HOLE {
            0 if end > *size => seal::GROW,
            0 => 0,
            _ => seal::WRITE | seal::FUTURE_WRITE,
        };
        refuse(file, sealed)?;
        self.drop_capabilities(cx, node);
        match mode {
            0 | FALLOC_KEEP_SIZE => {
                // What cannot be there as a whole is not begun.
                let room = self.pool.room(cx.payer()) as u64;
                let (file, pool, size) = self.file(node)?;
                if length.div_ceil(PAGE64) > room + file.content.count() {
                    return fail(ENOSPC);
                }
                end = end.min((offset / PAGE64 + ALLOCATED_AT_ONCE) * PAGE64);
                if (end - offset).div_ceil(PAGE64) > room + pages_present(file, offset, end) {
                    return fail(ENOSPC);
                }
                let old = *size;
                let before = match mode {
                    0 => no_holes_before(file, pool, cx, old, end),
                    _ => Ok(()),
                };
                let (mut first, last) = (offset / PAGE64, end.div_ceil(PAGE64));
                let holes = (&mut first, last);
                let filled =
                    before.and_then(|()| fill_holes(file, pool, cx, holes, ALLOCATED_AT_ONCE));
                if filled.is_ok() && mode == 0 && end > old {
                    *size = end;
                }
                let pages = size.div_ceil(PAGE64);
                if file.has_objects() {
                    let first = offset.min(old) / PAGE64;
                    add_to_objects(file, pool, cx, (first, end.div_ceil(PAGE64)), pages);
                }
                filled?;
            }
            mode if mode == FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE => {
                let (file, pool, size) = self.file(node)?;
                let pages = size.div_ceil(PAGE64);
                end = end.min(end_of_pages(file, offset.div_ceil(PAGE64)) * PAGE64);
                let (first, last) = (offset.div_ceil(PAGE64), end / PAGE64);
                // Behind its last page an object has none either.
                let gone = last.min(file.content.end()).max(first);
                if file.objects[1].is_none() && file.has_objects() && first < pages {
                    hide(file, pool, cx, (first, gone.min(pages) - first), pages)?;
                }
                let page_end = first * PAGE64;
                zero_range(file, pool, offset, end.min(page_end));
                if last * PAGE64 >= page_end {
                    zero_range(file, pool, last * PAGE64, end);
                }
                if file.objects[1].is_some() {
                    // Programs may write there: zeroes of the file's own in place of holes.
                    let mut at = first;
                    while let Some(index) = file.content.next_page(at).filter(|&i| i < last) {
                        pool.bytes_mut(file.content.get(index), 0, PAGE).fill(0);
                        at = index + 1;
                    }
                } else {
                    drop_pages(file, pool, first, gone);
                    pool.settle(cx);
                    if file.has_objects() && first < pages {
                        change_objects(file, pool, cx, (first, gone), pages);
                    }
                }
            }
            _ => return fail(EOPNOTSUPP),
        }
        let time = now(cx);
        self.inode_mut(node)?.touch_modified(time);
        Ok(end - offset)
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
        let tag = tag(node, self.inode(node)?.ino);
        let (file, pool, size) = self.file(node)?;
        // Pages past the end fault; an object is made with one page at least.
        let pages = size.div_ceil(PAGE64);
        let end = offset.saturating_add(length).div_ceil(PAGE64);
        if shared_writable {
            refuse(file, seal::WRITE | seal::FUTURE_WRITE)?;
            file.written_to = file.written_to.max(end);
            file.renewed_to = 0;
            let last = end.min(pages);
            let hole = file.content.next_hole(offset / PAGE64);
            if hole < last {
                let mut filled = hole;
                let all = fill_holes(file, pool, cx, (&mut filled, last), FILLED_AT_ONCE);
                if file.has_objects() {
                    add_to_objects(file, pool, cx, (hole, filled), pages);
                }
                all?;
            }
        }
        let place = usize::from(shared_writable);
        make_object(file, pool, cx, place, pages, tag).map(|portal| (portal, pages.max(1)))
    }

    /// Fill a new file with bytes that are in memory (at start-up).
    pub(crate) fn set_content(&mut self, node: u32, bytes: &[u8], mtime: Time) -> Answer<()> {
        let (file, pool, size) = self.file(node)?;
        for (index, part) in bytes.chunks(PAGE).enumerate() {
            let (page, _) = pool.allocate(0)?;
            let bytes = pool.bytes_mut(page, 0, PAGE);
            bytes[..part.len()].copy_from_slice(part);
            bytes[part.len()..].fill(0);
            file.content.set(index as u64, page);
        }
        *size = bytes.len() as u64;
        self.inode_mut(node)?.mtime = mtime;
        Ok(())
    }
}

/// Pages that a range has already.
/// Where [`ALLOCATED_AT_ONCE`] pages from `first` on end, counting those that are there.
fn end_of_pages(file: &File, first: u64) -> u64 {
    let mut at = first;
    for _ in 0..ALLOCATED_AT_ONCE {
        match file.content.next_page(at) {
            Some(index) => at = index + 1,
            None => return u64::MAX / PAGE64,
        }
    }
    at
}

fn pages_present(file: &File, offset: u64, end: u64) -> u64 {
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
