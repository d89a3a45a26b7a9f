//! Pages that a program lends for one transfer of a device (DMA_LEND): the server that is asked for the transfer puts them behind its own arena (DMA_BORROW), where drivers pin them like the arena's.
//!
//! What always holds: a loan has a reference to each of its frames, and when it was made they were its giver's alone. What the giver does with its address space afterwards changes nothing of where the device writes. Only fork would: the giver's next write would get it a copy, and the child would see the device's data.
//! So the child gets copies of what is lent ([`Vm::keep_lent`]), and the giver keeps its frames.

use crate::accounts::{Account, ROOT, SYSTEM};
use crate::dma::{Dma, Share};
use crate::frames::Frames;
use crate::mapping::range;
use crate::nucleus::{Answer, Frame, Nucleus, Pass};
use crate::pins::in_rows;
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{Errno, Space, Vm};
use alloc::vec::Vec;
use cairn_abi::fault;
use cairn_abi::layout::PAGE;
use cairn_idl::errno::*;
use cairn_idl::vm::{
    BADGE_LOAN_FIRST, BADGE_OFFER_FIRST, BORROWED_FIRST, LOAN_MOST, WINDOWS, WINDOW_PAGES,
};

/// Most loans, those of users other than 0 together, and those of one of these.
const MAX_LOANS: usize = 64;
const USERS_LOANS: usize = 48;
const EACH_USERS_LOANS: usize = 16;
/// Frames of one copy.
const AT_ONCE: usize = 16;

pub(crate) struct Loan {
    /// Whose they are; its `offered` counts them.
    giver: Handle,
    /// Where they were in its space.
    start: u64,
    frames: Vec<Frame>,
}

impl Loan {
    #[cfg(test)]
    pub fn held(&self) -> impl Iterator<Item = (Frame, u32)> + '_ {
        self.frames.iter().map(|&frame| (frame, 1))
    }

    #[cfg(test)]
    pub fn counted(&self) -> (Handle, u64) {
        (self.giver, self.frames.len() as u64)
    }

    fn let_go(&self, frames: &mut Frames) {
        in_rows(&self.frames).for_each(|row| frames.release_row(row));
    }
}

impl<N: Nucleus> Vm<N> {
    /// DMA_LEND: replies itself, with the new portal.
    pub(crate) fn dma_lend(&mut self, r: &Request) -> Result<(), Errno> {
        let index = self.domain(r.sender).ok_or(ESRCH)?.space;
        let (inside, address) = (r.words[1] % PAGE, r.words[1] - r.words[1] % PAGE);
        let length = r.words[2].checked_add(inside).ok_or(EFAULT)?;
        let (start, end) = range(address, length, EFAULT)?;
        let count = end - start;
        if r.words[2] == 0 || count > LOAN_MOST {
            return Err(EINVAL);
        }
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        let account = space.account;
        let bytes = (count as usize + 1) * size_of::<Frame>();
        if space.eager || !space.within_limit(count) || !self.heap_has(bytes) {
            return Err(ENOMEM);
        }
        if !self.may_lend(account) {
            return Err(ENFILE);
        }
        let handle = self.dma.loans.next_handle().ok_or(ENFILE)?;
        let frames = self.frames_to_lend(index, start, end)?;
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        in_rows(&frames).for_each(|row| self.frames.retain_row(row));
        space.offered += count;
        let giver = space.handle;
        self.dma.loans.insert(Loan {
            giver,
            start,
            frames,
        });
        self.dma.lent += 1;
        let badge = BADGE_LOAN_FIRST + handle;
        let answer = Answer {
            pass: Some(Pass::Mint(badge)),
            ..Answer::new(&[0, badge])
        };
        self.deliver(r.token, &answer)
            .inspect_err(|_| self.close_loan(badge))
    }

    /// One loan more, for a space of this account: users leave some to user 0 and to each other.
    fn may_lend(&self, account: Account) -> bool {
        let all = self.dma.loans.iter().map(|(_, loan)| loan.giver);
        let payer = |giver| {
            let index = self.spaces.resolve(giver)?;
            Some(self.spaces.get(index)?.account)
        };
        let its = all.filter(|&giver| payer(giver) == Some(account)).count();
        self.dma.lent < MAX_LOANS
            && (matches!(account, SYSTEM | ROOT)
                || self.dma.lent < USERS_LOANS && its < EACH_USERS_LOANS)
    }

    /// The frames of a range, which are its owner's alone from now on.
    fn frames_to_lend(&mut self, index: usize, start: u64, end: u64) -> Result<Vec<Frame>, Errno> {
        let mut list = Vec::with_capacity((end - start) as usize);
        let (mut page, mut resolved) = (start, None);
        while page < end {
            let space = self.spaces.get(index).ok_or(ESRCH)?;
            let region = space.regions.find(page).ok_or(EFAULT)?;
            if !region.is_own_memory() {
                return Err(EFAULT);
            }
            // As many in a row as are there already.
            let most = (region.end.min(end) - page) as usize;
            let own = space.pages.own_from(page);
            let own = &own[..own.len().min(most)];
            if own.is_empty() {
                if resolved == Some(page) {
                    return Err(EFAULT);
                }
                self.resolve(index, page, fault::WRITE)
                    .map_err(|_| ENOMEM)?;
                resolved = Some(page);
                continue;
            }
            if !in_rows(own).all(|row| self.frames.knows_row(row)) {
                return Err(EFAULT);
            }
            list.extend_from_slice(own);
            page += own.len() as u64;
        }
        Ok(list)
    }

    /// Its last portal is gone.
    pub(crate) fn close_loan(&mut self, badge: u64) {
        let handle = badge.wrapping_sub(BADGE_LOAN_FIRST);
        let number = self.dma.loans.resolve(handle);
        let Some(loan) = number.and_then(|number| self.dma.loans.remove(number)) else {
            return;
        };
        self.dma.lent -= 1;
        loan.let_go(&mut self.frames);
        let giver = self.spaces.resolve(loan.giver);
        if let Some(space) = giver.and_then(|index| self.spaces.get_mut(index)) {
            space.offered -= loan.frames.len() as u64;
        }
    }

    /// DMA_BORROW, through what the caller shares.
    pub(crate) fn dma_borrow(&mut self, r: &Request) -> Result<Answer, Errno> {
        let index = self.domain(r.sender).ok_or(ESRCH)?.space;
        let caller = self.spaces.get(index).ok_or(ESRCH)?.handle;
        if self.shared(r.badge)?.space != caller {
            return Err(EPERM);
        }
        let badge = match r.portals {
            1 => self.nucleus.portal_badge(r.words[7] as u32).ok_or(EBADF)?,
            _ => return Err(EINVAL),
        };
        if !(BADGE_LOAN_FIRST..BADGE_OFFER_FIRST).contains(&badge) {
            return Err(EBADF);
        }
        let share = self.shared_mut(r.badge)?;
        let place = share.windows.get_mut(r.words[1] as usize).ok_or(EINVAL)?;
        *place = badge - BADGE_LOAN_FIRST;
        Ok(Answer::new(&[0]))
    }

    /// The frames behind a window of a share.
    pub(crate) fn lent_in(&self, share: &Share, window: usize) -> Result<&[Frame], Errno> {
        let handle = share.windows.get(window).ok_or(EFAULT)?;
        let loans = &self.dma.loans;
        let loan = loans.resolve(*handle).and_then(|number| loans.get(number));
        Ok(&loan.ok_or(EFAULT)?.frames)
    }

    /// SHARE_READ, SHARE_WRITE of what was borrowed.
    pub(crate) fn copy_borrowed(
        &mut self,
        r: &Request,
        length: u64,
        write: bool,
    ) -> Result<Answer, Errno> {
        let at = r.words[1] - u64::from(BORROWED_FIRST) * PAGE;
        let (window, at) = (
            at / PAGE / u64::from(WINDOW_PAGES),
            at % (u64::from(WINDOW_PAGES) * PAGE),
        );
        if window >= WINDOWS as u64 || length > LOAN_MOST * PAGE {
            return Err(EFAULT);
        }
        let mut done = 0;
        while done < length {
            let (first, inside) = (((at + done) / PAGE) as usize, ((at + done) % PAGE) as usize);
            let lent = self.lent_in(self.shared(r.badge)?, window as usize)?;
            let end = lent.len().min(first + AT_ONCE);
            let mut list = [0 as Frame; AT_ONCE];
            let some = lent.get(first..end).ok_or(EFAULT)?;
            let list = &mut list[..some.len()];
            list.copy_from_slice(some);
            let bytes = (list.len() as u64 * PAGE).saturating_sub(inside as u64);
            let bytes = bytes.min(length - done) as usize;
            if bytes == 0 {
                return Err(EFAULT);
            }
            let copied = self.copy(r, done, bytes as u64, !write, |vm| match write {
                true => vm.nucleus.read_frames(r.token, done, list, inside, bytes),
                false => vm.nucleus.write_frames(r.token, done, list, inside, bytes),
            })?;
            done += copied as u64;
            if copied < bytes {
                break;
            }
        }
        Ok(Answer::new(&[done]))
    }

    /// After a fork: the child has copies of what its parent has lent, and the parent keeps its frames.
    pub(crate) fn keep_lent(&mut self, parent: usize, child: usize) -> Result<(), Errno> {
        if self.dma.lent == 0 {
            return Ok(());
        }
        let giver = self.spaces.get(parent).ok_or(ESRCH)?.handle;
        fn of(dma: &Dma, giver: Handle) -> impl Iterator<Item = &Loan> {
            let all = dma.loans.iter().map(|(_, loan)| loan);
            all.filter(move |loan| loan.giver == giver)
        }
        let count: usize = of(&self.dma, giver).map(|loan| loan.frames.len()).sum();
        if !self.heap_has(count * size_of::<(u64, Frame)>()) {
            return Err(ENOMEM);
        }
        let mut pages = Vec::with_capacity(count);
        for loan in of(&self.dma, giver) {
            pages.extend((loan.start..).zip(loan.frames.iter().copied()));
        }
        for (page, frame) in pages {
            let still = |space: &Space| {
                let found = space.pages.get(page);
                found.is_some_and(|page| page.frame == frame && page.cow)
            };
            if !self.spaces.get(parent).is_some_and(still) {
                continue;
            }
            let copy = self.spaces.get(child).filter(|space| still(space));
            if let Some(region) = copy.and_then(|space| space.regions.find(page)).copied() {
                self.break_copy(child, page, region).map_err(|_| ENOMEM)?;
            }
            if let Some(space) = self.spaces.get_mut(parent) {
                space.pages.clear_cow(&mut self.frames, page);
            }
        }
        Ok(())
    }
}
