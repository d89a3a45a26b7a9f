//! What programs write to watched objects through shared mappings: pages are mapped for reading first, the first write is noted in the object, and the maker asks for the notes and takes the
//! right to write away again, before it gives the pages to its device.
//!
//! In a space a page of a shared mapping whose next write is to be noted has its [`Chunk::cow`](crate::pages::Chunk::cow) bit set; in an object this bit is the note.

use crate::fault::Fault;
use crate::nucleus::{Answer, Nucleus};
use crate::pages::Kinds;
use crate::region::Region;
use crate::request::Request;
use crate::space::{hardware, with_tables, Errno, Vm};
use crate::taken::What;
use cairn_abi::layout::PAGE;
use cairn_idl::errno::*;
use cairn_idl::vm::{BADGE_OBJECT_FIRST, BADGE_READER};

/// Bytes of a run, and runs that are told at a time.
const RUN: usize = 16;
const RUNS: usize = 128;

impl<N: Nucleus> Vm<N> {
    /// The caller's own watched object behind the portal in w7.
    pub(crate) fn watched_by(&mut self, r: &Request, index: usize) -> Result<(u32, u64), Errno> {
        let number = self.own_object(r, index)?;
        let object = self.objects.get(number as usize).ok_or(EBADF)?;
        if !object.is_watched() {
            return Err(EINVAL);
        }
        Ok((number, object.handle))
    }

    /// OBJECT_READER: replies itself, with the new portal.
    pub(crate) fn object_reader(&mut self, r: &Request, index: usize) -> Result<(), Errno> {
        let number = self.told_object(r, index)?;
        let object = self.objects.get(number as usize).ok_or(EBADF)?;
        if !object.is_watched() && !object.is_told() {
            return Err(EINVAL);
        }
        let handle = object.handle;
        let badge = BADGE_READER | (BADGE_OBJECT_FIRST + handle);
        self.deliver_minted(r.token, badge)
    }

    /// A page of a shared mapping that is resident is written for the first time since the maker asked.
    pub(crate) fn note_write(
        &mut self,
        index: usize,
        page: u64,
        region: Region,
    ) -> Result<(), Fault> {
        let number = region.offset + (page - region.start);
        if self
            .going(region.object)
            .is_some_and(|what| what.has(number))
        {
            return Err(Fault::Missing);
        }
        let space = self.spaces.get_mut(index).ok_or(Fault::NoMapping)?;
        let (frames, nucleus, tables) =
            (&mut self.frames, &mut self.nucleus, &mut self.table_frames);
        let frame = space.pages.get(page).ok_or(Fault::NoMapping)?.frame;
        let bits = hardware(region.prot, false);
        with_tables(nucleus, frames, space, tables, |n, slot| {
            n.map(slot, page * PAGE, frame, bits, 0)
        })?;
        space.pages.set_marked(frames, page, page + 1, false);
        let object = self.objects.get_mut(region.object as usize);
        if let Some(object) = object.filter(|object| object.is_watched()) {
            let number = region.offset + (page - region.start);
            object.pages.set_marked(frames, number, number + 1, true);
        }
        Ok(())
    }

    /// OBJECT_WRITTEN.
    pub(crate) fn object_written(&mut self, r: &Request, index: usize) -> Result<Answer, Errno> {
        let (number, _) = self.watched_by(r, index)?;
        let told = self.tell_written(r, number);
        if !matches!(told, Ok(_) | Err(EAGAIN)) {
            self.give_up_taking(number);
        }
        told
    }

    fn tell_written(&mut self, r: &Request, number: u32) -> Result<Answer, Errno> {
        let [_, first, pages, ..] = r.words;
        let mut end = first.checked_add(pages).ok_or(EINVAL)?;
        let object = self.objects.get(number as usize).ok_or(EBADF)?;
        let (handle, mapped) = (object.handle, object.mapped);
        // What was begun is done first.
        if let Some(What::Writing((from, to))) = self.going_from(handle) {
            end = if from == first { end.min(to) } else { end };
        }
        let mut runs = [0; RUNS * RUN];
        let room = RUNS.min(r.in_len / RUN);
        let (mut count, mut reached, mut full) = (0, first, false);
        object
            .pages
            .runs(first, end, 0, u64::MAX, Kinds::Cow, |run| {
                if !run.marked || full {
                    return;
                }
                if count == room {
                    full = true;
                    return;
                }
                let place = &mut runs[count * RUN..][..RUN];
                place[..8].copy_from_slice(&run.page.to_le_bytes());
                place[8..].copy_from_slice(&run.pages.to_le_bytes());
                reached = run.page + run.pages;
                count += 1;
            });
        let growth = object.pages.growth((pages / 64 + 2).min(1 << 16) as usize);
        if count > 0 {
            if !self.heap_has(growth) {
                return Err(ENOMEM);
            }
            let range = (first, reached);
            self.take_away(number, What::Writing(range))?;
            // No write comes to where it has been taken away, until here.
            self.write_part(r, 0, &runs[..count * RUN])?;
            if let Some(object) = self.objects.get_mut(number as usize) {
                let pages = &mut object.pages;
                pages.set_marked(&mut self.frames, range.0, range.1, false);
            }
            self.try_again(handle, |number| (range.0..range.1).contains(&number));
        }
        let runs_program = mapped > 0 && self.runs(number);
        let words = [count as u64, mapped, u64::from(runs_program)];
        Ok(Answer::new(&words))
    }
}
