//! Seals of a file (fcntl's F_ADD_SEALS): what can never happen to it any more. Who gets such a file from somebody need not trust him.
//!
//! A file that can be written no more has no page that anybody could still write: not by a mapping, nor by a memory object that was kept, nor by a loan to a
//! device.

use crate::data::{add_to_objects, new_page, FILLED_AT_ONCE, PAGE64};
use crate::inode::{File, Kind};
use crate::pool::{Memory, Page, Pool, PAGE};
use crate::server::{fail, Tmpfs};
use cairn_idl::errno::*;
use cairn_idl::fs::{o, seal, SEALABLE};
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;

const WRITES: u64 = seal::WRITE | seal::FUTURE_WRITE;
const ALL: u64 = seal::SEAL | seal::SHRINK | seal::GROW | WRITES;
/// A file with one of these is written by [`Tmpfs::write_asking`].
const LENGTHENING: u8 = (WRITES | seal::GROW) as u8;

/// Not if the file has one of these seals.
#[inline(always)]
pub(crate) fn refuse(file: &File, seals: u64) -> Answer<()> {
    match u64::from(file.seals) & seals {
        0 => Ok(()),
        _ => fail(EPERM),
    }
}

/// How much of a write a sealed file of this size takes. (Linux writes page by page: what ends behind the end is not written from its page on.)
fn unsealed_length(seals: u8, size: u64, offset: u64, length: usize) -> Answer<usize> {
    let end = offset + length as u64;
    let to = match end <= size {
        true => end,
        false => size / PAGE64 * PAGE64,
    };
    match u64::from(seals) & WRITES {
        0 if to > offset || length == 0 => Ok((to.max(offset) - offset) as usize),
        _ => fail(EPERM),
    }
}

impl<M: Memory> Tmpfs<M> {
    /// It was made by this moment's O_TMPFILE: nobody has it yet.
    #[cold]
    pub(crate) fn make_unnamed(&mut self, node: u32, flags: u64) {
        let Some(inode) = self.inodes.get_mut(node) else {
            return;
        };
        let new = inode.names == 0 && inode.opens == 0;
        if let (true, Kind::File(file)) = (new, &mut inode.kind) {
            let unnamed = flags & o::TMPFILE == o::TMPFILE;
            file.sealable = unnamed && flags & SEALABLE != 0;
            file.nameless = unnamed && flags & o::EXCL != 0;
        }
    }

    /// A write to a file that has seals, or had capabilities until now: what the seals leave of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn write_asking(
        &mut self,
        cx: &mut Context,
        node: u32,
        offset: u64,
        length: usize,
    ) -> Answer<usize> {
        self.drop_capabilities(cx, node);
        let (file, _, size) = self.file(node)?;
        let sealed = file.seals & LENGTHENING != 0;
        let length = match sealed {
            true => unsealed_length(file.seals, *size, offset, length)?,
            false => length,
        };
        self.inode_mut(node)?.attributes.asks = false;
        let written = self.write_file(cx, node, offset, length);
        let attributes = &mut self.inode_mut(node)?.attributes;
        attributes.asks = sealed || attributes.raises;
        written
    }

    pub(crate) fn seals(&mut self, node: u32) -> Answer<u32> {
        let (file, ..) = self.file(node)?;
        Ok(match file.sealable {
            true => file.seals.into(),
            false => seal::SEAL as u32,
        })
    }

    pub(crate) fn add_seals(&mut self, cx: &mut Context, node: u32, seals: u64) -> Answer<()> {
        if seals & !ALL != 0 {
            return fail(EINVAL);
        }
        let (file, ..) = self.file(node)?;
        if !file.sealable || u64::from(file.seals) & seal::SEAL != 0 {
            return fail(EPERM);
        }
        if seals & !u64::from(file.seals) & seal::WRITE != 0 {
            self.end_writing(cx, node)?;
        }
        let file = self.file(node)?.0;
        file.seals |= seals as u8;
        if file.seals & LENGTHENING != 0 {
            self.inode_mut(node)?.attributes.asks = true;
        }
        Ok(())
    }

    /// From now on nobody writes to the file's pages. EBUSY: a program has it mapped so that it could.
    fn end_writing(&mut self, cx: &mut Context, node: u32) -> Answer<()> {
        let (file, pool, size) = self.file(node)?;
        // (One that is still being made is nobody's, and gets the new pages.)
        if file.objects[1].is_some() && file.made_to[1] == u64::MAX {
            take_writers_object(file, pool, cx)?;
            file.renewed_to = 0;
        }
        if file.written_to == 0 {
            return Ok(());
        }
        // It was mapped: others may still reach its pages (a mapping that could not follow, a loan). It gets new ones, some with each request.
        let readers = file.objects[0].is_some();
        let objects = readers || file.objects[1].is_some();
        let first = file.renewed_to;
        let mut at = first;
        let mut renewed = 0;
        let mut result = Ok(());
        while let Some(index) = file.content.next_page(at) {
            if renewed == FILLED_AT_ONCE {
                result = Err(cx.goes_on());
                break;
            }
            renewed += 1;
            let old = file.content.get(index);
            let page = match new_page(pool, cx) {
                Ok((page, _)) => page,
                Err(failure) => {
                    result = Err(failure);
                    break;
                }
            };
            copy_page(pool, old, page);
            file.content
                .take(index, index + 1, |old| pool.retire(old, old));
            file.content.set(index, page);
            at = index + 1;
            // What is given back pays for what comes.
            pool.settle(cx);
        }
        file.renewed_to = at;
        let pages = size.div_ceil(PAGE64);
        if objects {
            add_to_objects(file, pool, cx, (first, at), pages);
        }
        // Readers that could not follow would see what others write.
        if readers && file.objects[0].is_none() {
            return fail(EBUSY);
        }
        result?;
        take_writers_object(file, pool, cx)?;
        (file.written_to, file.renewed_to) = (0, 0);
        Ok(())
    }
}

/// The object that programs write to goes, unless one has it mapped (EBUSY). Whoever kept it has one without pages.
fn take_writers_object<M: Memory>(
    file: &mut File,
    pool: &mut Pool<M>,
    cx: &mut Context,
) -> Answer<()> {
    let Some(portal) = file.objects[1] else {
        return Ok(());
    };
    if pool.memory().is_mapped(portal) || !pool.memory().change(portal, 0, &[], 0) {
        return fail(EBUSY);
    }
    file.objects[1] = None;
    cx.transport.close(portal);
    Ok(())
}

fn copy_page<M: Memory>(pool: &mut Pool<M>, from: Page, to: Page) {
    const PART: usize = 256;
    let mut part = [0; PART];
    for at in (0..PAGE).step_by(PART) {
        part.copy_from_slice(pool.bytes(from, at, PART));
        pool.bytes_mut(to, at, PART).copy_from_slice(&part);
    }
}
