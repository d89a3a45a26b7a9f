//! READ and WRITE of disks. A request is cut into *pieces*, each with a job and pages of the arena of its own; several are under way at a time, and their bytes go to the caller (or come from it) in order.
//!
//! Where a request's memory is lent ([`crate::loans`]) and whole blocks are wanted, the device reads and writes it by itself, and pieces are as long as the device takes them.
//!
//! Where a piece does not begin and end at blocks, what is around it is read first. A job that writes has its blocks alone, so such writes lose nothing of each other.

use crate::disk::{Disks, Job, ROOM, TRANSFER};
use alloc::collections::VecDeque;
use cairn_block::{Kind, Outcome, Refused, PAGE, SECTOR};
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// Most pages of a piece, and pieces of a request under way: together half of the arena.
pub const PIECE_PAGES: usize = 64;
const AT_ONCE: usize = 4;

/// Most pages of a piece of a request whose memory is lent.
pub const MOST_PAGES: usize = cairn_idl::block::PAGES;

/// What a READ or WRITE wants.
#[derive(Clone, Copy)]
pub struct Wish {
    pub part: usize,
    pub offset: u64,
    pub length: usize,
    /// Where in a loan the data begins, if there is one.
    pub inside: u64,
    pub write: bool,
}

struct Piece {
    job: usize,
    /// Where its bytes begin in the job's, and how many they are.
    skip: usize,
    bytes: usize,
}

/// A request with pieces under way; it finds its own again by its progress (the number plus 1).
pub struct Transfer {
    wish: Wish,
    /// Bytes that pieces were made for, and that are done.
    begun: usize,
    done: usize,
    pieces: VecDeque<Piece>,
    loan: Option<usize>,
}

impl Disks {
    pub(crate) fn transfer(&mut self, cx: &mut Context, wish: Wish) -> Answer<usize> {
        let number = match cx.progress.checked_sub(1) {
            Some(number) => number as usize,
            None => {
                let loan = self.borrow(cx, &wish)?;
                self.new_transfer(wish, loan)
            }
        };
        let outcome = match self.advance(cx, number) {
            Err(Failure::Wait(key)) => {
                cx.progress = number as u64 + 1;
                return Err(Failure::Wait(key));
            }
            outcome => outcome,
        };
        cx.progress = 0;
        match (self.end_transfer(cx, number), outcome) {
            (done, Err(_)) if done > 0 => Ok(done),
            (_, outcome) => outcome,
        }
    }

    fn new_transfer(&mut self, wish: Wish, loan: Option<usize>) -> usize {
        let free = self.transfers.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.transfers.push(None);
            self.transfers.len() - 1
        });
        self.transfers[number] = Some(Transfer {
            wish,
            begun: 0,
            done: 0,
            pieces: VecDeque::new(),
            loan,
        });
        number
    }

    /// Its jobs are nobody's any more. How many bytes were done.
    pub(crate) fn end_transfer(&mut self, cx: &mut Context, number: usize) -> usize {
        let Some(transfer) = self.transfers.get_mut(number).and_then(Option::take) else {
            return 0;
        };
        for piece in transfer.pieces {
            self.leave(cx, piece.job);
        }
        if let Some(loan) = transfer.loan {
            self.loans.end(loan);
            self.loans.close_unused(cx.transport);
        }
        transfer.done
    }

    /// As far as it goes without waiting.
    fn advance(&mut self, cx: &mut Context, number: usize) -> Answer<usize> {
        loop {
            self.begin_all(cx, number)?;
            let Some(Some(transfer)) = self.transfers.get(number) else {
                return Err(Failure::Errno(EIO));
            };
            let (done, wish) = (transfer.done, transfer.wish);
            let Some(&Piece { job, skip, bytes }) = transfer.pieces.front() else {
                return match done < wish.length {
                    true => Err(Failure::Wait(ROOM)),
                    false => Ok(done),
                };
            };
            let finished = self.finish(cx, &wish, done, job, (skip, bytes))?;
            if !finished {
                return Err(Failure::Wait(TRANSFER + number as u64));
            }
            self.free(cx, job);
            if let Some(Some(transfer)) = self.transfers.get_mut(number) {
                transfer.pieces.pop_front();
                transfer.done += bytes;
            }
        }
    }

    /// Begin with as many pieces as possible.
    fn begin_all(&mut self, cx: &mut Context, number: usize) -> Answer<()> {
        let Some(Some(transfer)) = self.transfers.get(number) else {
            return Ok(());
        };
        let (drive, _) = self.drive(transfer.wish.part)?;
        let new = cx.progress == 0 && transfer.begun == 0;
        self.together(drive, true);
        let begun = loop {
            match self.begin(cx, number) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        match begun {
            Ok(()) if new => self.gather(cx, drive),
            _ if self.is_gathering() => {}
            _ => self.together(drive, false),
        }
        begun
    }

    /// Begin with the next piece; false if there is none, or not now.
    fn begin(&mut self, cx: &mut Context, number: usize) -> Answer<bool> {
        let Some(Some(transfer)) = self.transfers.get(number) else {
            return Ok(false);
        };
        let (wish, begun) = (transfer.wish, transfer.begun);
        if begun >= wish.length || transfer.pieces.len() >= AT_ONCE {
            return Ok(false);
        }
        let key = TRANSFER + number as u64;
        let made = match transfer.loan {
            Some(loan) => self.make_lent(&wish, begun, key, loan),
            None => self.make(cx, &wish, begun, key),
        };
        let Some(Some(transfer)) = self.transfers.get_mut(number) else {
            return Ok(false);
        };
        match made {
            Ok(Some(piece)) => {
                transfer.begun += piece.bytes;
                transfer.pieces.push_back(piece);
                Ok(true)
            }
            Ok(None) => Ok(false),
            // What was begun before it counts.
            Err(Failure::Errno(_)) if begun > 0 => {
                transfer.wish.length = begun;
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// The piece behind the first `begun` bytes, and its job; None: something must end before.
    fn make(
        &mut self,
        cx: &mut Context,
        wish: &Wish,
        begun: usize,
        key: u64,
    ) -> Answer<Option<Piece>> {
        let (drive, info) = self.drive(wish.part)?;
        let block = u64::from(info.block);
        let at = self.first(wish.part) * SECTOR + wish.offset + begun as u64;
        let start = at / block * block;
        let skip = (at - start) as usize;
        let most = PIECE_PAGES.min(info.most_pages as usize) * PAGE;
        let bytes = (wish.length - begun).min(most - skip);
        let end = (at + bytes as u64).next_multiple_of(block);
        let (sector, sectors) = (start / SECTOR, (end - start) / SECTOR);
        let fill = wish.write && (skip != 0 || bytes as u64 != end - start);
        let kind = match wish.write && !fill {
            true => Kind::Write,
            false => Kind::Read,
        };
        let mut job = Job::new(drive, kind, (sector, sectors), key);
        job.fill = fill;
        if self.is_disturbed(&job) {
            return Ok(None);
        }
        let Some(index) = self.place(job, (end - start).div_ceil(PAGE as u64) as usize) else {
            return Ok(None);
        };
        if wish.write && !fill {
            let buffer = &mut self.memory(index)[..bytes];
            if let Err(failure) = cx.fetch(begun, buffer) {
                self.remove(index);
                return Err(failure);
            }
        }
        self.give(Piece {
            job: index,
            skip,
            bytes,
        })
    }

    /// The same for a request whose memory is lent: whole blocks, and the device reaches it.
    fn make_lent(
        &mut self,
        wish: &Wish,
        begun: usize,
        key: u64,
        loan: usize,
    ) -> Answer<Option<Piece>> {
        let (drive, info) = self.drive(wish.part)?;
        let at = wish.inside as usize + begun;
        let (first, offset) = (at / PAGE, at % PAGE);
        let most = MOST_PAGES.min(info.most_pages as usize) * PAGE;
        let bytes = (wish.length - begun).min(most - offset);
        let start = self.first(wish.part) + (wish.offset + begun as u64) / SECTOR;
        let kind = match wish.write {
            true => Kind::Write,
            false => Kind::Read,
        };
        let pages = (offset + bytes).div_ceil(PAGE);
        let job = Job::new(drive, kind, (start, bytes as u64 / SECTOR), key);
        let lent = (loan, self.loans.number(loan));
        let job = job.lent(lent, (first, pages), offset as u32);
        if self.is_disturbed(&job) {
            return Ok(None);
        }
        let Some(index) = self.place(job, 0) else {
            return Ok(None);
        };
        self.give(Piece {
            job: index,
            skip: 0,
            bytes,
        })
    }

    /// Give a piece's job to its drive.
    fn give(&mut self, piece: Piece) -> Answer<Option<Piece>> {
        let index = piece.job;
        match self.submit(index) {
            Ok(()) => Ok(Some(piece)),
            Err(why) => {
                self.remove(index);
                match why {
                    // The drive has enough to do.
                    Refused::Full => Ok(None),
                    Refused::Invalid => Err(Failure::Errno(EIO)),
                }
            }
        }
    }

    /// Whether a piece's job is done; its bytes are the caller's then, or the disk's.
    fn finish(
        &mut self,
        cx: &mut Context,
        wish: &Wish,
        done: usize,
        index: usize,
        (skip, bytes): (usize, usize),
    ) -> Answer<bool> {
        let Some(Some(job)) = self.jobs.get_mut(index) else {
            return Err(Failure::Errno(EIO));
        };
        match job.outcome {
            None => return Ok(false),
            Some(Outcome::Failed) => return Err(Failure::Errno(EIO)),
            Some(Outcome::Done) => {}
        }
        if core::mem::take(&mut job.fill) {
            job.kind = Kind::Write;
            cx.fetch(done, &mut self.memory(index)[skip..][..bytes])?;
            let begun = self.submit(index);
            return match (begun, &mut self.jobs[index]) {
                (Ok(()), _) => Ok(false),
                (Err(Refused::Full), Some(job)) => {
                    // As it was: the drive has enough to do.
                    (job.kind, job.fill, job.outcome) = (Kind::Read, true, Some(Outcome::Done));
                    Err(Failure::Wait(ROOM))
                }
                _ => Err(Failure::Errno(EIO)),
            };
        }
        if !wish.write && job.loan.is_none() {
            cx.store(done, &self.memory(index)[skip..][..bytes])?;
        }
        Ok(true)
    }
}
