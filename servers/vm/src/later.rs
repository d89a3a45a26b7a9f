//! What takes long is done in pieces of [`PIECE`] pages, between which others are served: a request on more than [`MANY`] pages, and what a program had that
//! has ended ([`Frames::drop_all`]). The caller is answered in the end.
//!
//! - What takes pages away is checked first. Then the pages go, piece by piece from the top, while what is mapped where stays as it is. In the end the request
//!   is looked at anew, and few pages are left.
//! - A change of protection and a move are checked as a whole and then done part by part, a move to where nothing else can be placed meanwhile.
//! - A fork copies chunk after chunk, from the top. Other requests of the program wait until it is over; its threads go on, and their faults are answered.
//! - An object of many pages is made when all of them have been collected.
//!
//! Each piece is done at the priority of the caller that waits for it, that of the most important one first; what has ended goes at an ordinary program's.
//!
//! [`Frames::drop_all`]: crate::frames::Frames::drop_all

use crate::forked::Manner;
use crate::frames::{MANY, PIECE};
use crate::lifecycle::Child;
use crate::nucleus::{Answer, Nucleus};
use crate::pages::{Pages, CHUNK};
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{Errno, Space, Vm};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_abi::{priority, Token};
use cairn_idl::errno::{EBUSY, EINVAL, ENOMEM, ESRCH};
use cairn_idl::vm::making;

/// Most requests of programs that are done in pieces at a time; others wait for their turn. Components have as many places more.
const MOST: usize = if cfg!(test) { 3 } else { 256 };
/// Not for callers: the request is to be done in pieces ([`Vm::pieces`]).
pub(crate) const IN_PIECES: Errno = 1 << 32;

/// What is done piece by piece.
#[derive(Clone, Copy)]
pub(crate) enum Pieces {
    /// These pages of a space go, then the request is done.
    Drop {
        space: Handle,
        start: u64,
        end: u64,
        /// Those from here on have gone.
        at: u64,
    },
    /// These pages of the caller's get another protection.
    Protect { start: u64, end: u64, prot: u64 },
    /// These pages of the caller's move.
    Move(Move),
    /// The pages that the caller names, from this one on, are collected for its new object.
    Collect { at: u64 },
    /// The pages of a program below `end` are copied for its child.
    Fork {
        child: Child,
        end: u64,
        manner: Manner,
    },
    /// Nothing: the request is done when what has ended is free.
    Ended,
}

/// Pages of a program that move to where something that holds the place is, which ends at `to_end`.
#[derive(Clone, Copy)]
pub(crate) struct Move {
    start: u64,
    end: u64,
    to: u64,
    to_end: u64,
    /// The answer.
    address: u64,
}

impl Pieces {
    /// In the end the request is looked at anew.
    fn again(&self) -> bool {
        matches!(self, Pieces::Drop { .. } | Pieces::Ended)
    }
}

struct Job {
    request: Request,
    priority: u8,
    pieces: Pieces,
    /// What was collected so far.
    collected: Pages,
    /// When its last piece was done: among equals each has its turn.
    turn: u64,
}

/// What a piece came to.
enum Outcome {
    /// This is left, with what was collected.
    Left(Pieces, Pages),
    /// The request is looked at anew.
    Again,
    /// It is done; the answer, if it has not been given.
    Over(Option<Answer>),
}

impl Outcome {
    fn left(pieces: Pieces) -> Outcome {
        Outcome::Left(pieces, Pages::default())
    }

    fn refused(errno: Errno) -> Outcome {
        Outcome::Over(Some(Answer::result(Err(errno))))
    }
}

#[derive(Default)]
pub(crate) struct Later {
    jobs: Vec<Job>,
    /// What the request at hand would have done in pieces.
    wish: Option<Pieces>,
    /// The request at hand is done as a whole, because there is no memory to note it.
    pub(crate) whole: bool,
    repeat: bool,
    /// The request at hand is looked at anew later, with the portals that came along.
    keeps: bool,
    /// Requests that wait for their turn.
    queue: VecDeque<Request>,
    /// Pieces so far.
    turns: u64,
    /// The pages that were dropped for the request at hand.
    dropped: (u64, u64),
    /// How many forks there are among the jobs, and requests of their programs, for afterwards.
    forks: usize,
    held: Vec<Request>,
    /// The job whose caller's priority is looked at next: a caller may be lifted while it waits.
    next: usize,
    /// Programs that have ended, whose page tables are taken apart before their pages can go.
    pub(crate) spaces: Vec<Space>,
    /// What nobody waits for: frames of `vm`'s own heap that it has too many of, those of the nucleus's pools.
    heap_rests: bool,
    pub(crate) pools_rest: bool,
}

impl<N: Nucleus> Vm<N> {
    /// Before pages of a range are taken away, when all is checked and nothing has changed: whether they are few.
    #[cold]
    pub(crate) fn are_few(&mut self, index: usize, start: u64, end: u64) -> Result<(), Errno> {
        let Some(space) = self.spaces.get(index) else {
            return Ok(());
        };
        if self.later.whole
            || self.later.dropped == (start, end)
            || !space.pages.has_more(start, end, MANY)
        {
            return Ok(());
        }
        let space = space.handle;
        self.in_pieces(Pieces::Drop {
            space,
            start,
            end,
            at: end,
        })
    }

    /// The same before their protection changes.
    #[cold]
    pub(crate) fn are_few_to_protect(
        &mut self,
        index: usize,
        (start, end): (u64, u64),
        prot: u64,
    ) -> Result<(), Errno> {
        let space = self.spaces.get(index);
        if self.later.whole || !space.is_some_and(|space| space.pages.has_more(start, end, MANY)) {
            return Ok(());
        }
        self.in_pieces(Pieces::Protect { start, end, prot })
    }

    /// The same before they move to where nothing is.
    pub(crate) fn are_few_to_move(
        &mut self,
        index: usize,
        (start, end): (u64, u64),
        (to, to_end): (u64, u64),
    ) -> Result<(), Errno> {
        let Some(space) = self.spaces.get(index) else {
            return Ok(());
        };
        if self.later.whole || !space.pages.has_more(start, end, MANY) {
            return Ok(());
        }
        if !self.room_for_jobs() {
            return self.in_pieces(Pieces::Ended);
        }
        // (It counts twice for a while, which may be too much.)
        if !self.holds(index, to, to_end) {
            return Ok(());
        }
        self.in_pieces(Pieces::Move(Move {
            start,
            end,
            to,
            to_end,
            address: to * PAGE,
        }))
    }

    /// Before so many pages are collected for an object.
    pub(crate) fn are_few_to_collect(&mut self, count: u64) -> Result<(), Errno> {
        if self.later.whole || count <= MANY {
            return Ok(());
        }
        self.in_pieces(Pieces::Collect { at: 0 })
    }

    /// Before a program is copied: nothing may be half done there. (Nobody waits here for what a program's own threads have begun, least of all `proc`.)
    pub(crate) fn is_at_rest(&mut self, index: usize) -> Result<(), Errno> {
        if self.later.jobs.is_empty() {
            return Ok(());
        }
        let space = self.spaces.get(index).map(|space| space.handle);
        if space.is_some_and(|space| self.is_changed(space)) {
            return Err(EBUSY);
        }
        match self.is_much(index) && !self.room_for_jobs() {
            true => Err(EBUSY),
            false => Ok(()),
        }
    }

    /// Whether a job changes this space.
    #[cold]
    fn is_changed(&self, space: Handle) -> bool {
        self.later.jobs.iter().any(|job| match job.pieces {
            Pieces::Drop { space: changed, .. } => changed == space,
            Pieces::Protect { .. } | Pieces::Move(_) => {
                let changed = self.changed_by(&job.request);
                changed.is_some_and(|(_, changed)| changed.handle == space)
            }
            _ => false,
        })
    }

    /// When all is ready for a copy of a program with many pages. `Ok`: it is to be made at once.
    pub(crate) fn fork_later(&mut self, child: Child, manner: Manner) -> Result<(), Errno> {
        if self.later.whole || !self.room_for_jobs() {
            return Ok(());
        }
        self.later.forks += 1;
        let end = u64::MAX;
        self.in_pieces(Pieces::Fork { child, end, manner })
    }

    /// Whether a request is for afterwards, because its program is being copied: until then what it has mapped where stays as it is.
    #[inline]
    pub(crate) fn holds_back(&mut self, r: &Request) -> bool {
        self.later.forks > 0 && self.hold_back(r)
    }

    #[cold]
    fn hold_back(&mut self, r: &Request) -> bool {
        let Some(space) = self.changed_by(r).map(|(_, space)| space.handle) else {
            return false;
        };
        let stays =
            |job: &Job| matches!(job.pieces, Pieces::Fork { child, .. } if child.parent == space);
        if !self.later.jobs.iter().any(stays) || self.later.held.try_reserve(1).is_err() {
            return false;
        }
        self.later.held.push(*r);
        true
    }

    /// A copy is made, or not: what was held back for it.
    fn release_held(&mut self) {
        for r in core::mem::take(&mut self.later.held) {
            if self.holds_back(&r) {
                continue;
            }
            if let Some(answer) = self.handle_again(&r) {
                let _ = self.nucleus.reply(r.token, &answer);
            }
        }
    }

    /// Before it is told what is free.
    pub(crate) fn is_settled(&mut self) -> Result<(), Errno> {
        if !self.has_ended() {
            return Ok(());
        }
        if self.later.whole || !self.room_for_jobs() {
            self.drop_ended();
            return Ok(());
        }
        self.in_pieces(Pieces::Ended)
    }

    fn in_pieces(&mut self, pieces: Pieces) -> Result<(), Errno> {
        self.later.wish = Some(pieces);
        Err(IN_PIECES)
    }

    /// A request is to be done in pieces, or as a whole after all ([`Vm::is_to_be_whole`]).
    #[cold]
    pub(crate) fn pieces(&mut self, r: &Request) -> Option<Answer> {
        let Some(pieces) = self.later.wish.take() else {
            return Some(Answer::result(Err(EINVAL)));
        };
        let places = match self.is_native(r.sender) {
            true => 2 * MOST,
            false => MOST,
        };
        if self.later.jobs.len() < places && self.later.jobs.try_reserve(1).is_ok() {
            self.later.keeps = pieces.again();
            self.later.jobs.push(Job {
                request: *r,
                priority: self.nucleus.priority_of(r.token),
                pieces,
                collected: Pages::default(),
                turn: self.later.turns,
            });
        } else if self.later.queue.try_reserve(1).is_ok() {
            self.later.keeps = true;
            self.later.queue.push_back(*r);
        } else {
            self.drop_ended();
            (self.later.whole, self.later.repeat) = (true, true);
        }
        None
    }

    /// Whether the portals that came along with the request at hand are for later.
    pub(crate) fn keeps_passed(&mut self) -> bool {
        core::mem::take(&mut self.later.keeps)
    }

    /// A job is over: those that waited for their turn.
    fn next_in_queue(&mut self) {
        for _ in 0..self.later.queue.len() {
            if self.later.jobs.len() >= MOST {
                return;
            }
            let Some(r) = self.later.queue.pop_front() else {
                return;
            };
            if let Some(answer) = self.handle_again(&r) {
                let _ = self.nucleus.reply(r.token, &answer);
            }
        }
    }

    /// Whether the request at hand is to be done once more, and as a whole.
    #[inline]
    pub(crate) fn is_to_be_whole(&mut self) -> bool {
        core::mem::take(&mut self.later.repeat)
    }

    fn room_for_jobs(&mut self) -> bool {
        self.later.jobs.len() < MOST && self.later.jobs.try_reserve(1).is_ok()
    }

    /// Whether there is something to do, and the priority at which: None: a caller's.
    #[inline]
    pub fn later(&self) -> Option<Option<u8>> {
        match self.later.jobs.is_empty() {
            true => (self.has_ended() || self.later.heap_rests || self.later.pools_rest)
                .then_some(Some(priority::NORMAL)),
            false => Some(None),
        }
    }

    /// Its heap may give some back.
    pub fn heap_may_rest(&mut self) {
        self.later.heap_rests = true;
    }

    /// Whether there is something left of what a program had that has ended.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.frames.has_ended() || !self.later.spaces.is_empty()
    }

    /// Some of that goes. False: there is nothing.
    fn ended_piece(&mut self) -> bool {
        match self.later.spaces.pop() {
            Some(space) => {
                self.dismantle_piece(space);
                true
            }
            None => self.frames.drop_piece(),
        }
    }

    /// All of it.
    #[cold]
    pub(crate) fn drop_ended(&mut self) {
        while self.ended_piece() {}
    }

    /// Some of what nobody uses goes back.
    fn rest_piece(&mut self) {
        if self.later.heap_rests {
            self.later.heap_rests = self.rest_heap();
        } else if self.later.pools_rest {
            self.later.pools_rest = self.rest_pools();
        }
    }

    /// Do a piece.
    pub fn do_piece(&mut self) {
        self.piece();
        self.settle();
    }

    fn piece(&mut self) {
        self.later.next = self
            .later
            .next
            .checked_sub(1)
            .unwrap_or(self.later.jobs.len().saturating_sub(1));
        if let Some(job) = self.later.jobs.get_mut(self.later.next) {
            job.priority = self.nucleus.priority_of(job.request.token);
        }
        let first = |(at, job): (usize, &Job)| (job.priority, u64::MAX - job.turn, usize::MAX - at);
        let most = (0..).zip(&mut self.later.jobs);
        let Some((at, job)) = most.max_by_key(|(at, job)| first((*at, job))) else {
            if !self.ended_piece() {
                self.rest_piece();
            }
            return;
        };
        self.later.turns += 1;
        job.turn = self.later.turns;
        let (r, pieces) = (job.request, job.pieces);
        self.nucleus.work_for(r.token);
        let outcome = match pieces {
            Pieces::Drop {
                space,
                start,
                end,
                at,
            } => self.drop_piece(space, (start, end), at),
            Pieces::Protect { start, end, prot } => self.protect_piece(&r, (start, end), prot),
            Pieces::Move(what) => self.move_piece(&r, what),
            Pieces::Collect { at } => {
                let collected = core::mem::take(&mut job.collected);
                self.collect_piece(&r, at, collected)
            }
            Pieces::Fork { child, end, manner } => self.fork_piece(r.token, (child, end), manner),
            Pieces::Ended => match self.ended_piece() {
                true => Outcome::Left(pieces, Pages::default()),
                false => Outcome::Again,
            },
        };
        let answer = match outcome {
            Outcome::Left(left, collected) => {
                if let Some(job) = self.later.jobs.get_mut(at) {
                    (job.pieces, job.collected) = (left, collected);
                }
                return;
            }
            Outcome::Over(answer) => {
                self.later.jobs.remove(at);
                if let Pieces::Fork { .. } = pieces {
                    self.later.forks -= 1;
                    self.release_held();
                }
                answer
            }
            Outcome::Again => {
                self.later.jobs.remove(at);
                if let Pieces::Drop { start, end, .. } = pieces {
                    self.later.dropped = (start, end);
                }
                let answer = self.handle_again(&r);
                self.later.dropped = (0, 0);
                answer
            }
        };
        if let Some(answer) = answer {
            // The caller may be gone meanwhile.
            let _ = self.nucleus.reply(r.token, &answer);
        }
        self.next_in_queue();
    }

    /// Some of a range's pages go, from the top.
    fn drop_piece(&mut self, space: Handle, (start, end): (u64, u64), at: u64) -> Outcome {
        let Some(index) = self.spaces.resolve(space) else {
            // (Its caller may be somebody else.)
            return Outcome::Again;
        };
        let pages = self.spaces.get(index).map(|space| &space.pages);
        let from = pages.map_or(start, |pages| pages.last_of(start, at, PIECE));
        self.drop_pages(index, from, at);
        if from == start {
            return Outcome::Again;
        }
        Outcome::left(Pieces::Drop {
            space,
            start,
            end,
            at: from,
        })
    }

    /// The caller's space, which its request changes.
    fn changed_by(&self, r: &Request) -> Option<(usize, &Space)> {
        let index = self.of(r.sender.into()).ok()?;
        Some((index, self.spaces.get(index)?))
    }

    /// A part of a range gets another protection: what is left, or the answer.
    fn protect_piece(&mut self, r: &Request, (start, end): (u64, u64), prot: u64) -> Outcome {
        let Some((index, space)) = self.changed_by(r) else {
            return Outcome::refused(EINVAL);
        };
        let to = space.pages.first_of(start, end, PIECE);
        self.later.whole = true;
        let done = self.protect(index, start * PAGE, (to - start) * PAGE, prot);
        self.later.whole = false;
        match done {
            Ok(_) if to < end => Outcome::left(Pieces::Protect {
                start: to,
                end,
                prot,
            }),
            done => Outcome::Over(Some(Answer::result(done))),
        }
    }

    /// A part of a range moves: what is left, or the answer.
    fn move_piece(&mut self, r: &Request, what: Move) -> Outcome {
        let Move {
            start,
            end,
            to,
            to_end,
            address,
        } = what;
        let Some((index, space)) = self.changed_by(r) else {
            return Outcome::refused(EINVAL);
        };
        // Whole chunks are moved more cheaply.
        let reach = space.pages.first_of(start, end, PIECE);
        let whole = reach & !(CHUNK - 1);
        let stop = if whole > start { whole } else { reach };
        let (first, last) = space.pages.between(start & !(CHUNK - 1), stop);
        let growth = space.pages.growth(2 * (last - first) + 2);
        if !self.heap_has(growth) || !self.room_for_regions(index) {
            // Half moved, nothing can be refused any more: it goes on when there is memory.
            return Outcome::left(Pieces::Move(what));
        }
        self.later.whole = true;
        let moved = self.move_part(index, (start, stop), to);
        self.later.whole = false;
        let to = to + (stop - start);
        if moved.is_ok() && stop < end {
            return Outcome::left(Pieces::Move(Move {
                start: stop,
                to,
                ..what
            }));
        }
        self.unmap_pages(index, to, to_end);
        let moved = moved.map(|()| {
            self.lengthen(index, to, to_end);
            address
        });
        Outcome::Over(Some(Answer::result(moved)))
    }

    /// Some pages more are collected for an object.
    fn collect_piece(&mut self, r: &Request, at: u64, mut pages: Pages) -> Outcome {
        let Ok(index) = self.of(r.sender.into()) else {
            self.frames.drop_all(pages);
            return Outcome::refused(EINVAL);
        };
        let end = (r.out_len as u64 / 8).min(at + PIECE);
        let growth = pages.growth((PIECE / CHUNK) as usize + 2);
        let writable = r.words[2] & making::SHARED != 0;
        let collected = match self.heap_has(growth) {
            true => self.collect(r, index, (at, end), writable, &mut pages),
            false => Err(ENOMEM),
        };
        let made = match collected {
            Ok(()) if end * 8 < r.out_len as u64 => {
                return Outcome::Left(Pieces::Collect { at: end }, pages);
            }
            Ok(()) => self.object_of_pages(r, index, pages),
            Err(errno) => {
                self.frames.drop_all(pages);
                Err(errno)
            }
        };
        // (The portal is an answer of its own.)
        Outcome::Over(made.err().map(|errno| Answer::result(Err(errno))))
    }

    /// Some chunks more are copied for a child.
    fn fork_piece(
        &mut self,
        token: Token,
        (child, end): (Child, u64),
        mut manner: Manner,
    ) -> Outcome {
        let copied = match self.fork_part(child, end, &mut manner) {
            Ok(end) if end > 0 => return Outcome::left(Pieces::Fork { child, end, manner }),
            copied => copied.map(|_| ()),
        };
        // (The portal is an answer of its own.)
        let made = self.finish_fork(token, child, copied);
        Outcome::Over(made.err().map(|errno| Answer::result(Err(errno))))
    }

    /// The caller behind a token is gone.
    pub(crate) fn forget_job(&mut self, token: Token) {
        let is = |r: &Request| r.token == token;
        if let Some(at) = self.later.held.iter().position(is) {
            let r = self.later.held.remove(at);
            self.close_passed(&r);
        }
        if let Some(at) = self.later.queue.iter().position(is) {
            if let Some(r) = self.later.queue.remove(at) {
                self.close_passed(&r);
            }
        }
        if let Some(at) = self.later.jobs.iter().position(|job| is(&job.request)) {
            let job = self.later.jobs.remove(at);
            if job.pieces.again() {
                self.close_passed(&job.request);
            }
            self.frames.drop_all(job.collected);
            if let Pieces::Fork { child, .. } = job.pieces {
                let _ = self.finish_fork(token, child, Err(ESRCH));
                self.later.forks -= 1;
                self.release_held();
            }
            self.next_in_queue();
        }
    }
}
