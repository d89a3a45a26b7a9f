//! Pages that go from one space to another without a copy: OFFER takes them out of the giver (or shares them with it, copy-on-write), and whoever holds the
//! offer's portal puts them into its own space with TAKE, once.
//!
//! What always holds: an offer has one reference to each of its frames, and nobody but copy-on-write slots has the others; so what is taken cannot be changed
//! by anybody any more. An offer is gone when it was taken, when nobody holds its portal, or when the giver's space goes.

use crate::accounts::{Account, ONE_RECORD};
use crate::mapping::{range, Backing};
use crate::nucleus::{Answer, Frame, Nucleus};
use crate::pages::{mask, Kinds, Pages, CHUNK};
use crate::region::ANONYMOUS;
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{hardware, with_tables, Errno, Vm, BATCH};
use cairn_abi::layout::PAGE;
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::vm::{flags, prot, Giving, BADGE_OFFER_FIRST, OFFER_MAX};

/// What new memory of whoever takes an offer allows.
const READ_WRITE: u64 = prot::READ | prot::WRITE;

pub struct Offer {
    /// By their place in the offer; what is missing is zero.
    pub pages: Pages,
    pub count: u64,
    /// The space that they came from; its `offered` counts them.
    pub giver: Handle,
    /// Who pays for this record.
    pub account: Account,
    /// The only domain that may take them; 0 = whoever holds the portal.
    receiver: Id,
}

impl<N: Nucleus> Vm<N> {
    fn offer_by_badge(&self, badge: u64) -> Option<usize> {
        self.offers.resolve(badge.checked_sub(BADGE_OFFER_FIRST)?)
    }

    /// OFFER: replies itself, with the new portal.
    pub(crate) fn offer(&mut self, r: &Request, index: usize) -> Result<(), Errno> {
        let [_, address, len, how, receiver, ..] = r.words;
        let copy = how == Giving::Copy as u64;
        let receiver = Id::try_from(receiver).map_err(|_| EINVAL)?;
        if how > Giving::Copy as u64 || len == 0 || len > OFFER_MAX || !len.is_multiple_of(PAGE) {
            return Err(EINVAL);
        }
        let (start, end) = range(address, len, EINVAL)?;
        let count = end - start;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        if space.eager {
            return Err(EINVAL);
        }
        let account = space.account;
        let needed = if copy { prot::READ } else { READ_WRITE };
        let mut covered = 0;
        for piece in space.regions.pieces(start, end) {
            // What others see as well is not the caller's to give.
            if piece.object != ANONYMOUS || u64::from(piece.prot) & needed != needed {
                return Err(EACCES);
            }
            covered += piece.pages();
        }
        if covered != count {
            return Err(EFAULT);
        }
        // Slots for the offer, and chunks of its own for the giver.
        let chunks = (count / CHUNK + 2) as usize;
        let growth = Pages::default().growth(chunks) + space.pages.growth(chunks);
        if !self.may_record(space) || !space.within_limit(count) || !self.heap_has(growth) {
            return Err(ENOMEM);
        }
        if !self.may_record_for(account, ONE_RECORD) {
            return Err(ENOMEM);
        }
        let handle = self.offers.next_handle().ok_or(ENOMEM)?;
        let pages = self.collect_pages(index, start, end, copy)?;
        let giver = match self.spaces.get_mut(index) {
            Some(space) => {
                space.offered += count;
                space.handle
            }
            None => return Err(ESRCH),
        };
        let made = self.offers.insert(Offer {
            pages,
            count,
            giver,
            account,
            receiver,
        });
        let number = made.ok_or(ENOMEM)?;
        self.count_records(account, ONE_RECORD as i64);
        let badge = BADGE_OFFER_FIRST + handle;
        if self.deliver_minted(r.token, badge).is_err() {
            // As if nothing had been: where pages were taken out none have come.
            match copy {
                true => self.drop_offer(number),
                false => self.return_pages(number, index, start),
            }
            return Err(ENFILE);
        }
        Ok(())
    }

    /// The pages of a range of private anonymous memory, for an offer. After an error the caller has what it had.
    fn collect_pages(
        &mut self,
        index: usize,
        start: u64,
        end: u64,
        copy: bool,
    ) -> Result<Pages, Errno> {
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        let reserve = space.pay(&mut self.frames);
        let (nucleus, frames) = (&mut self.nucleus, &mut self.frames);
        let slot = space.slot;
        // From here on no thread of the giver writes to what is collected; if it comes to nothing, faults bring the mappings back.
        if copy {
            for piece in space.regions.pieces(start, end) {
                let bits = hardware(piece.prot, true);
                let writable = u64::from(piece.prot) & prot::WRITE != 0;
                let kinds = Kinds::Cow;
                space
                    .pages
                    .runs(piece.start, piece.end, 64, BATCH, kinds, |run| {
                        if writable && !run.marked {
                            let _ = nucleus.protect(slot, run.page * PAGE, run.pages, bits);
                        }
                    });
            }
        } else {
            space.pages.runs(start, end, 64, BATCH, Kinds::One, |run| {
                let _ = nucleus.unmap(slot, run.page * PAGE, run.pages);
            });
        }
        let mut pages = Pages::default();
        // First the copies, which can fail: of frames that somebody else has as well, perhaps for writing (a memory object made of them).
        for chunk in space.pages.own_chunks(frames, start, end) {
            let mut left = chunk.resident & mask(chunk.first, start, end);
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let frame = chunk.frames[bit as usize];
                if frames.references(frame) == 1 {
                    continue;
                }
                let own = frames.alloc(reserve);
                let Some(own) = own.filter(|&own| nucleus.copy_frame(own, frame).is_ok()) else {
                    own.map(|own| frames.release(own));
                    pages.drain(frames, 0, u64::MAX);
                    return Err(ENOMEM);
                };
                pages.set(frames, chunk.first + u64::from(bit) - start, own, false);
            }
        }
        for chunk in space.pages.own_chunks(frames, start, end) {
            let mut row = [0 as Frame; CHUNK as usize];
            let mut left = chunk.resident & mask(chunk.first, start, end);
            let Some(low) = (left != 0).then(|| left.trailing_zeros()) else {
                continue;
            };
            let len = (CHUNK as u32 - left.leading_zeros() - low) as usize;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let frame = chunk.frames[bit as usize];
                if frames.references(frame) == 1 {
                    frames.retain(frame);
                    row[(bit - low) as usize] = frame;
                    if copy {
                        chunk.cow |= 1 << bit;
                    }
                }
            }
            // The offer's chunks begin elsewhere.
            let first = chunk.first + u64::from(low) - start;
            let cut = ((CHUNK - first % CHUNK) as usize).min(len);
            pages.put_row(frames, first, &row[..cut], copy);
            if cut < len {
                pages.put_row(frames, first + cut as u64, &row[cut..len], copy);
            }
        }
        if !copy {
            space.pages.drain(frames, start, end);
        }
        Ok(pages)
    }

    /// TAKE. The caller calls `vm` itself and passes what it was given: so it knows that the answer is `vm`'s, whatever it was given.
    pub(crate) fn take(&mut self, r: &Request, index: usize) -> Result<Answer, Errno> {
        let [_, address, most, flag, .., offer] = r.words;
        let badge = match r.portals {
            1 => self.nucleus.portal_badge(offer as u32).ok_or(EBADF)?,
            _ => return Err(EINVAL),
        };
        let number = self.offer_by_badge(badge).ok_or(EBADF)?;
        let (space, found) = self
            .spaces
            .get(index)
            .zip(self.offers.get(number))
            .ok_or(EBADF)?;
        let len = found.count * PAGE;
        if found.receiver != 0 && found.receiver != r.sender && found.giver != space.handle {
            return Err(EPERM);
        }
        if flag & !(flags::FIXED | flags::FIXED_NOREPLACE) != 0 || space.eager {
            return Err(EINVAL);
        }
        if len > most {
            return Err(EFBIG);
        }
        let growth = space.pages.growth((found.count / CHUNK + 2) as usize);
        if !self.heap_has(growth) {
            return Err(ENOMEM);
        }
        let start = self.map(index, address, len, READ_WRITE, flag, Backing::Coming)?;
        self.return_pages(number, index, start / PAGE);
        Ok(Answer::new(&[start, len]))
    }

    /// The offer ends: its pages go to a range of a space where private anonymous memory is and no page has come yet.
    fn return_pages(&mut self, number: usize, index: usize, start: u64) {
        let Some(found) = self.end_offer(number) else {
            return;
        };
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let (nucleus, frames, tables) =
            (&mut self.nucleus, &mut self.frames, &mut self.table_frames);
        let prot = space.regions.find(start).map_or(0, |region| region.prot);
        // Rows that lie within one chunk of the space; the offer's reference to each frame goes along.
        let mut at = 0;
        while at < found.count {
            let to = start + at;
            let len = (CHUNK - to % CHUNK).min(found.count - at) as usize;
            let mut list = [0 as Frame; CHUNK as usize];
            let mut shared = [0 as Frame; CHUNK as usize];
            found.pages.frames_of(at, &mut list[..len], |_| u64::MAX);
            for (frame, shared) in list[..len].iter_mut().zip(&mut shared) {
                if *frame != 0 && frames.references(*frame) > 1 {
                    *shared = core::mem::take(frame);
                }
            }
            for (list, cow) in [(&list[..len], false), (&shared[..len], true)] {
                if list.iter().all(|&frame| frame == 0) {
                    continue;
                }
                space.pages.put_row(frames, to, list, cow);
                // What cannot be mapped now comes by faults.
                let bits = hardware(prot, cow);
                let _ = with_tables(nucleus, frames, space, tables, |n, slot| {
                    n.map_list(slot, to * PAGE, list, bits)
                });
            }
            at += len as u64;
        }
    }

    /// Its last portal is gone.
    pub(crate) fn close_offer(&mut self, badge: u64) {
        if let Some(number) = self.offer_by_badge(badge) {
            self.drop_offer(number);
        }
    }

    /// The giver's space is gone: what nobody has taken goes as well.
    pub(crate) fn drop_offers_of(&mut self, giver: Handle) {
        // Once from the first to the last: one program may have thousands.
        for number in 0..self.offers.end() {
            if self.offers.get(number).is_some_and(|o| o.giver == giver) {
                self.drop_offer(number);
            }
        }
    }

    fn drop_offer(&mut self, number: usize) {
        if let Some(mut offer) = self.end_offer(number) {
            offer.pages.drain(&mut self.frames, 0, u64::MAX);
        }
    }

    fn end_offer(&mut self, number: usize) -> Option<Offer> {
        let offer = self.offers.remove(number)?;
        self.count_records(offer.account, -(ONE_RECORD as i64));
        let giver = self.spaces.resolve(offer.giver);
        if let Some(space) = giver.and_then(|index| self.spaces.get_mut(index)) {
            space.offered -= offer.count;
        }
        Some(offer)
    }
}
