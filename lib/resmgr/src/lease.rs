//! Leases (fcntl F_SETLEASE), by inode number: who opens or truncates a file waits until the leases in its way are given up, at most as long as
//! the event server says ([`cairn_idl::event::LEASE_TIME`]).
//!
//! A lease belongs to an open file description (its badge), which has one at most, and goes with it. A write lease is its file's only one.
//! The holder is told by an interest of the event server that it named ([`cairn_idl::event::SIGNALLER`]): once for each break.
//! Where nobody has a lease, opening pays for one comparison.

use crate::context::{Context, Failure};
use crate::files::barred;
use crate::lock::{self, Listed, Listing, Place, Taker};
use crate::manager::Core;
use crate::server::{Answer, Server};
use alloc::collections::{BTreeMap, BTreeSet};
use cairn_abi::{Id, Token};
use cairn_idl::errno::*;
use cairn_idl::event::{self, told, LEASE_SECONDS, LEASE_TIME};
use cairn_idl::fs::{
    o, poll, s, LockKind, Locked, LEASE_GOES, LEASE_SHRINKS, LOCK_WRITES, OPEN, OPEN_FILES,
};
use cairn_idl::label;
use cairn_rt::channel::Reply;

/// Set in keys of requests that wait for a lease's end.
const KEYS: u64 = 3 << 62;
const SECOND: u64 = 1_000_000_000;
const NEVER: u64 = u64::MAX;
/// What a lease is charged for: itself and its places in the maps.
const COST: usize = size_of::<Lease>() + 96;

const READ: u64 = 0;
const WRITE: u64 = 1;
const NONE: u64 = 2;

pub(crate) fn lease_key(ino: u64) -> u64 {
    KEYS | ino
}

/// When something that was asked of a holder is done without it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    No,
    /// At this monotonic time.
    By(u64),
}

struct Lease {
    write: bool,
    /// Who told which interest is to hear of a break.
    interest: u64,
    watcher: Id,
    payer: u32,
    /// To become a read lease; to go.
    downgrade: Asked,
    unlock: Asked,
}

impl Lease {
    /// What is left once the holder has done what it was asked.
    fn target(&self) -> u64 {
        match (self.unlock, self.downgrade) {
            (Asked::By(_), _) => NONE,
            (_, Asked::By(_)) => READ,
            _ => u64::from(self.write),
        }
    }
}

/// Those of a file, by the handles that have them.
#[derive(Default)]
struct Holders {
    leases: BTreeMap<u64, Lease>,
    /// How many are asked to go.
    going: usize,
}

impl Holders {
    /// Somebody has a write lease, and nobody else any.
    fn write(&self) -> bool {
        self.leases.values().next().is_some_and(|first| first.write)
    }
}

/// All leases of a manager.
#[derive(Default)]
pub(crate) struct Leases {
    /// There are some, or somebody has waited for their end. (Who has waited looks once more when there is none left.)
    any: bool,
    files: BTreeMap<u64, Holders>,
    /// Times, each with the file and the handle.
    ends: BTreeSet<(u64, u64, u64)>,
    /// Requests that wait, and are to write.
    writers: BTreeMap<Token, u64>,
}

impl Leases {
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any
    }

    fn note_any(&mut self) {
        self.any = !self.files.is_empty() || !self.writers.is_empty();
    }

    fn get(&mut self, ino: u64, badge: u64) -> Option<&mut Lease> {
        self.files.get_mut(&ino)?.leases.get_mut(&badge)
    }

    /// Is one in the way of who would read or write?
    fn in_the_way(&self, ino: u64, write: bool) -> bool {
        let file = self.files.get(&ino);
        file.is_some_and(|file| write || file.write())
    }

    /// The lease of a handle goes. Whether there was one.
    pub fn remove(&mut self, cx: &mut Context, ino: u64, badge: u64) -> bool {
        let Some(file) = self.files.get_mut(&ino) else {
            return false;
        };
        let Some(lease) = file.leases.remove(&badge) else {
            return false;
        };
        file.going -= usize::from(lease.unlock != Asked::No);
        if file.leases.is_empty() {
            self.files.remove(&ino);
            self.note_any();
            // (Who waits for a read lease waits for all.)
            cx.wake(lease_key(ino));
        }
        for asked in [lease.downgrade, lease.unlock] {
            self.forget(asked, ino, badge);
        }
        cx.refund(lease.payer, COST);
        true
    }

    fn forget(&mut self, asked: Asked, ino: u64, badge: u64) {
        if let Asked::By(end) = asked {
            self.ends.remove(&(end, ino, badge));
        }
    }

    /// From a place on; where to go on.
    pub fn list(&self, from: Place, listing: &mut Listing) -> Option<Place> {
        let (first, last) = match listing.only {
            Some((ino, _)) => (from.ino.max(ino), ino),
            None => (from.ino, u64::MAX),
        };
        let files = (first <= last).then(|| self.files.range(first..=last));
        for (&ino, file) in files.into_iter().flatten() {
            let first = if ino == from.ino { from.owner } else { 0 };
            for (&badge, lease) in file.leases.range(first..) {
                if listing.is_full() {
                    return Some(Place {
                        list: lock::LEASES,
                        ino,
                        owner: badge,
                        start: 0,
                    });
                }
                if listing.only.is_some_and(|only| only != (ino, badge)) {
                    continue;
                }
                let bits = [
                    (lease.write, LOCK_WRITES),
                    (lease.unlock != Asked::No, LEASE_GOES),
                    (lease.downgrade != Asked::No, LEASE_SHRINKS),
                ];
                let bits = bits.iter().filter(|bit| bit.0).map(|bit| bit.1);
                let locked = Locked {
                    inode: ino,
                    end: u64::MAX,
                    owner: OPEN_FILES | badge,
                    what: bits.fold(LockKind::Lease.word() as u32, |all, bit| all | bit),
                    ..Locked::default()
                };
                let taker = Taker {
                    domain: lease.watcher,
                    pid: 0,
                };
                listing.found.push(Listed { locked, taker });
            }
        }
        None
    }

    /// A lease becomes a read lease.
    fn downgrade(&mut self, cx: &mut Context, ino: u64, badge: u64) {
        let Some(lease) = self.get(ino, badge) else {
            return;
        };
        lease.write = false;
        let asked = core::mem::replace(&mut lease.downgrade, Asked::No);
        self.forget(asked, ino, badge);
        cx.wake(lease_key(ino));
    }

    /// What holders have not done in time is done. (They may have done it all: then there is no time to wait for either.)
    pub fn expire(&mut self, cx: &mut Context) {
        let now = cx.transport.monotonic();
        while let Some(&(end, ino, badge)) = self.ends.first() {
            if end > now {
                break;
            }
            self.ends.pop_first();
            let unlock = self.get(ino, badge).map(|lease| lease.unlock);
            match unlock {
                Some(Asked::By(at)) if at <= now => drop(self.remove(cx, ino, badge)),
                Some(_) => self.downgrade(cx, ino, badge),
                None => {}
            }
        }
        self.set_alarm(cx);
    }

    fn set_alarm(&self, cx: &mut Context) {
        let next = self.ends.first().map(|end| end.0);
        cx.lease_alarm(next.filter(|end| *end != NEVER));
    }

    /// A request that may have waited waits no longer.
    #[inline]
    pub fn end_wait(&mut self, token: Token) {
        if self.any {
            self.forget_writer(token);
        }
    }

    #[cold]
    #[inline(never)]
    fn forget_writer(&mut self, token: Token) {
        self.writers.remove(&token);
        self.note_any();
    }

    fn writer_waits(&self, ino: u64) -> bool {
        self.writers.values().any(|waited| *waited == ino)
    }

    /// Ask all holders in the way to give up; who was asked for the same before is not asked again.
    fn ask(&mut self, cx: &mut Context, ino: u64, write: bool) {
        let Some(file) = self.files.get_mut(&ino) else {
            return;
        };
        if write && file.going == file.leases.len() {
            return;
        }
        let end = end_of_time(cx);
        let asks = |lease: &Lease| write || lease.write;
        for (&badge, lease) in file.leases.iter_mut().filter(|(_, lease)| asks(lease)) {
            let asked = (lease.unlock != Asked::No, lease.downgrade != Asked::No);
            match (write, asked) {
                (true, (false, _)) => {
                    lease.unlock = Asked::By(end);
                    file.going += 1;
                }
                (false, (false, false)) => lease.downgrade = Asked::By(end),
                _ => continue,
            }
            self.ends.insert((end, ino, badge));
            let watcher = u64::from(lease.watcher);
            let words = [event::TELL, lease.interest, watcher, poll::MSG, told::AGAIN];
            let [a, b, c, d, e] = words;
            // (A holder that has ended, or closed its interest, is not told: its time runs all the same.)
            cx.transport.event(&[a, b, c, d, e, 0, 0, 0]);
        }
        self.set_alarm(cx);
    }
}

impl<S: Server> Core<S> {
    /// LEASE
    pub fn lease<'a>(&'a mut self, server: &mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, what, kind, interest, ..] = cx.request.words;
        let (badge, watcher) = (cx.request.badge, cx.request.sender);
        let entry = self.entry(cx.request)?;
        if entry.handle.flags & o::PATH != 0 {
            return Err(barred(entry, EBADF));
        }
        let node = entry.handle.node;
        let meta = server.meta(node)?;
        self.leases.expire(cx);
        let lease = self.leases.get(meta.ino, badge);
        match what {
            0 => {
                return Ok(Reply::result(
                    lease.map_or(NONE, |lease| lease.target()) as i64
                ))
            }
            1 if kind <= NONE => {}
            2 => {
                let lease = lease.ok_or(Failure::Errno(EAGAIN))?;
                begin(cx, interest)?;
                (lease.interest, lease.watcher) = (interest, watcher);
                return Ok(Reply::result(0));
            }
            _ => return Err(Failure::Errno(EINVAL)),
        }
        if cx.uid() != meta.uid && !cx.has(label::OWNER) {
            return Err(Failure::Errno(EACCES));
        }
        if meta.mode & s::IFMT != s::IFREG {
            return Err(Failure::Errno(EINVAL));
        }
        if kind == NONE {
            return match self.leases.remove(cx, meta.ino, badge) {
                true => Ok(Reply::result(0)),
                false => Err(Failure::Errno(EAGAIN)),
            };
        }
        self.may_lease(meta.ino, badge, node, kind)?;
        if interest != 0 {
            begin(cx, interest)?;
        }
        match self.leases.get(meta.ino, badge) {
            Some(lease) => {
                if interest != 0 {
                    (lease.interest, lease.watcher) = (interest, watcher);
                }
                match kind {
                    READ => self.leases.downgrade(cx, meta.ino, badge),
                    _ => lease.write = true,
                }
            }
            None if interest == 0 => return Err(Failure::Errno(ESTALE)),
            None => {
                let payer = cx.payer();
                cx.charge(payer, COST)?;
                let lease = Lease {
                    write: kind == WRITE,
                    interest,
                    watcher,
                    payer,
                    downgrade: Asked::No,
                    unlock: Asked::No,
                };
                let file = self.leases.files.entry(meta.ino).or_default();
                file.leases.insert(badge, lease);
                self.leases.note_any();
                if let Some(entry) = self.handles.entry(badge) {
                    entry.locks = true;
                }
            }
        }
        Ok(Reply::result(0))
    }

    /// A read lease needs that nobody has the file open for writing, a write lease that nobody else has it open at all.
    fn may_lease(&mut self, ino: u64, badge: u64, node: S::Node, kind: u64) -> Answer<()> {
        let write = kind == WRITE;
        let file = self.leases.files.get(&ino);
        let mine = file.and_then(|file| file.leases.get(&badge));
        let others = file.map_or(0, |file| file.leases.len()) - usize::from(mine.is_some());
        let going = mine.is_some_and(|lease| lease.unlock != Asked::No);
        let others_go = file.map_or(0, |file| file.going) > usize::from(going);
        let refused = others_go || write && others != 0 || self.leases.writer_waits(ino);
        // Whoever would open it to write waits for the others' read leases, so nobody has.
        let disturbed = || others == 0 && self.is_open(badge, node, write);
        match refused || disturbed() {
            true => Err(Failure::Errno(EAGAIN)),
            false => Ok(()),
        }
    }

    /// Is the file open for writing, or (`at_all`) does anybody else have it open?
    fn is_open(&self, badge: u64, node: S::Node, at_all: bool) -> bool {
        self.handles.any(|handle| {
            let counts = match at_all {
                true => handle.badge != badge,
                false => flags_write(handle.flags),
            };
            handle.node == node && handle.flags & o::PATH == 0 && counts
        })
    }

    /// A request is about to open or truncate a file.
    #[inline(always)]
    pub fn break_leases(&mut self, server: &mut S, cx: &mut Context, node: S::Node) -> Answer<()> {
        match self.leases.any() {
            true => self.end_leases(server, cx, node),
            false => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn end_leases(&mut self, server: &mut S, cx: &mut Context, node: S::Node) -> Answer<()> {
        let (token, [operation, flags, ..]) = (cx.request.token, cx.request.words);
        self.leases.end_wait(token);
        self.leases.expire(cx);
        let meta = server.meta(node)?;
        if meta.mode & s::IFMT != s::IFREG {
            return Ok(());
        }
        let flags = match operation {
            OPEN => flags,
            _ => o::WRONLY,
        };
        let (ino, write) = (meta.ino, flags_write(flags));
        if !self.leases.in_the_way(ino, write) {
            return Ok(());
        }
        let waits = flags & o::NONBLOCK == 0;
        if waits && operation == OPEN && cx.request.in_len == 0 {
            // It is made again, in the way that signals can interrupt. (Nobody is told yet: a holder that hears of it finds that somebody waits.)
            return Err(Failure::Redirect);
        }
        self.leases.ask(cx, ino, write);
        if !waits {
            return Err(Failure::Errno(EAGAIN));
        }
        if write {
            self.leases.writers.insert(token, ino);
        }
        Err(Failure::Wait(lease_key(ino)))
    }
}

/// The time at which a lease that is asked for now ends by itself.
fn end_of_time(cx: &mut Context) -> u64 {
    let seconds = match cx.transport.event(&[LEASE_TIME, 0, 0, 0, 0, 0, 0, 0]) {
        ..0 => LEASE_SECONDS,
        0 => return NEVER,
        seconds => seconds as u64,
    };
    let now = cx.transport.monotonic();
    now.saturating_add(seconds.saturating_mul(SECOND))
}

fn flags_write(flags: u64) -> bool {
    flags & o::ACCMODE != o::RDONLY
}

/// The interest exists, and belongs to who names it. (What it is told first is no event.)
fn begin(cx: &mut Context, interest: u64) -> Answer<()> {
    let watcher = u64::from(cx.request.sender);
    let words = [event::TELL, interest, watcher, 0, 0, 0, 0, 0];
    match cx.transport.event(&words) {
        number @ ..0 => Err(Failure::Errno(-number)),
        _ => Ok(()),
    }
}
