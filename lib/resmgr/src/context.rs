//! What a callback may use while it works on a request: the caller's parts, who the caller is, the time, waking others.

use crate::account::Accounts;
use crate::keep::is_same;
use crate::layout;
use crate::server::Meta;
use crate::transport::Transport;
use alloc::vec::Vec;
use cairn_abi::{Error, Token};
use cairn_idl::fs::{
    redirect_kind, s, Stat, INLINE, INLINE_MAX, INLINE_SHIFT, READ, SHORT_PATHS, WRITE,
};
use cairn_idl::{errno, label};
use cairn_rt::{Portal, Received};

/// Why a callback gives no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A (positive) Linux error number.
    Errno(i64),
    /// Not now: run the request again after [`Context::wake`] with this key. Answered EINTR when the caller is interrupted
    /// (or [`Context::progress`] if [`Context::progress_is_result`] says so).
    Wait(u64),
    /// The same with two keys, either of which will do.
    WaitEither([u64; 2]),
    /// The name goes on elsewhere; the text is in [`Context::redirect`].
    Redirect,
}

impl From<Error> for Failure {
    /// A copy from or to the caller failed.
    fn from(error: Error) -> Failure {
        Failure::Errno(match error {
            Error::BadAddress => errno::EFAULT,
            Error::NoMemory | Error::NoSlot => errno::ENOMEM,
            _ => errno::EIO,
        })
    }
}

/// Shared by all requests: what callbacks asked the framework to do afterwards. A callback without a [`Context`] may [`Later::wake`].
pub struct Later {
    /// Keys woken since the last look.
    pub(crate) woken: Vec<u64>,
    /// How many wait for the keys that share a remainder: most wake-ups find nobody and end here.
    interest: [u32; INTERESTS],
    /// Pieces of the answer to a READ whose data goes in words ([`cairn_idl::fs::INLINE`]), put there by [`Context::store`].
    pub(crate) inline: [u8; INLINE_MAX],
    /// Where the name goes on after [`Failure::Redirect`], and which of two paths it was.
    pub(crate) redirect: Vec<u8>,
    pub(crate) which: u64,
    /// What that name is ([`cairn_idl::fs::redirect_kind`]).
    pub(crate) place: u64,
    /// What is to be opened in its place: it goes with the answer.
    pub(crate) right: Option<Portal>,
    /// When the wait for messages ends: with the server's tick, or when a lease's time is over.
    pub(crate) deadline: Option<u64>,
    /// When a lease's time is over; and only if there is one, when the server wants its tick.
    lease_end: Option<u64>,
    tick: Option<u64>,
    /// Requests wait that are done in pieces.
    pub(crate) going_on: bool,
    /// Something was read, of which marks are to hear before the answer.
    pub(crate) noticed: bool,
    pub(crate) accounts: Accounts,
    /// Who pays for the request with this token, by this domain.
    pub(crate) payer: Option<(cairn_abi::Token, cairn_abi::Id, u32)>,
}

/// What requests wait for that are done in pieces ([`Context::goes_on`]).
pub(crate) const GOING_ON: u64 = u64::MAX - 3;

const INTERESTS: usize = 64;

/// The place of a key among the counts.
#[inline]
fn interest(key: u64) -> usize {
    (key ^ key >> 6) as usize % INTERESTS
}

impl Default for Later {
    fn default() -> Later {
        Later {
            woken: Vec::new(),
            interest: [0; INTERESTS],
            inline: [0; INLINE_MAX],
            redirect: Vec::new(),
            which: 0,
            place: 0,
            right: None,
            deadline: None,
            lease_end: None,
            tick: None,
            going_on: false,
            noticed: false,
            accounts: Accounts::default(),
            payer: None,
        }
    }
}

impl Later {
    /// Somebody waits for either of these keys from now on.
    pub(crate) fn begin(&mut self, keys: [u64; 2]) {
        for key in keys {
            self.interest[interest(key)] += 1;
        }
    }

    /// And no longer.
    pub(crate) fn end(&mut self, keys: [u64; 2]) {
        for key in keys {
            self.interest[interest(key)] -= 1;
        }
    }

    fn tick(&self) -> Option<u64> {
        match self.lease_end {
            None => self.deadline,
            Some(_) => self.tick,
        }
    }

    /// A server's tick, beside a lease's time.
    #[cold]
    #[inline(never)]
    fn tick_beside_lease(&mut self, tick: Option<u64>) {
        self.tick = tick;
        self.deadline = match (tick, self.lease_end) {
            (Some(tick), Some(end)) => Some(tick.min(end)),
            (tick, end) => tick.or(end),
        };
    }

    /// See [`Context::wake`].
    #[inline]
    pub fn wake(&mut self, key: u64) {
        if self.interest[interest(key)] != 0 && self.woken.last() != Some(&key) {
            self.woken.push(key);
        }
    }
}

/// One request in progress.
pub struct Context<'a> {
    /// The message (or pulse) as it came.
    pub request: &'a Received,
    /// 0 when the request is new; what the callback left here when it runs again after a wait.
    pub progress: u64,
    /// An interrupted request answers `progress` (bytes done) instead of EINTR, if it is not 0.
    pub progress_is_result: bool,
    /// It was made before, and a predecessor of this server died with it: the number of its first call.
    pub repeated: Option<u32>,
    pub transport: &'a mut dyn Transport,
    pub(crate) later: &'a mut Later,
}

/// Does this READ or WRITE carry its data in words? Then how much (or how much room).
#[inline(always)]
pub(crate) fn inline_len(request: &Received) -> Option<usize> {
    let flags = request.words[2];
    (flags & INLINE != 0).then(|| ((flags >> INLINE_SHIFT) as usize & 63).min(INLINE_MAX))
}

/// Does this request carry its path in words? Then how long it says that it is (up to 63).
#[inline(always)]
pub(crate) fn inline_path(request: &Received) -> Option<usize> {
    let [operation, _, flags, ..] = request.words;
    let inline = flags & INLINE != 0 && operation < 64 && SHORT_PATHS >> operation & 1 != 0;
    inline.then_some((flags >> INLINE_SHIFT) as usize & 63)
}

/// The words in which such a path comes.
#[inline(always)]
pub(crate) fn path_words(request: &Received) -> &[u64; 5] {
    let [_, _, _, path @ ..] = &request.words;
    path
}

/// The request has no path: its handle itself is meant.
#[inline(always)]
pub(crate) fn no_path(request: &Received) -> bool {
    request.out_len == 0 && inline_path(request).is_none()
}

impl<'a> Context<'a> {
    /// Of a request that is new.
    #[inline(always)]
    pub(crate) fn new(
        request: &'a Received,
        transport: &'a mut dyn Transport,
        later: &'a mut Later,
    ) -> Context<'a> {
        later.payer = None;
        Context {
            request,
            progress: 0,
            progress_is_result: false,
            repeated: None,
            transport,
            later,
        }
    }
}

impl Context<'_> {
    /// Effective user of the caller.
    pub fn uid(&self) -> u32 {
        label::uid(self.request.label)
    }

    /// Who pays for what is kept for the caller: its user, or the group of processes that it is in (the label says that it is in one, and `vm` in which).
    #[inline]
    pub fn payer(&mut self) -> u32 {
        match self.request.label & label::GROUPED {
            0 => self.uid(),
            _ => self.group(),
        }
    }

    #[cold]
    fn group(&mut self) -> u32 {
        let (token, sender) = (self.request.token, self.request.sender);
        match self.later.payer {
            Some((known, domain, payer)) if (known, domain) == (token, sender) => payer,
            _ => {
                // One that is gone has nothing more to pay for.
                let told = self.transport.account_of(sender);
                let payer = told.unwrap_or(self.uid());
                self.later.payer = Some((token, sender, payer));
                payer
            }
        }
    }

    /// Does the caller have one of the privileges of [`label`]?
    #[inline(always)]
    pub fn has(&self, privilege: u64) -> bool {
        label::has(self.request.label, privilege)
    }

    /// Effective group of the caller.
    pub fn gid(&self) -> u32 {
        label::gid(self.request.label)
    }

    /// The server keeps so many bytes more for a user ([`crate::account`]): the caller, or who pays for what the caller uses. ENOMEM: it must not. Whoever keeps them keeps the user with them, for
    /// [`Context::refund`].
    #[inline]
    pub fn charge(&mut self, uid: u32, bytes: usize) -> Result<(), Failure> {
        let accounts = &mut self.later.accounts;
        match uid == 0 || accounts.charge(self.transport, uid, bytes as u64) {
            true => Ok(()),
            false => Err(Failure::Errno(errno::ENOMEM)),
        }
    }

    /// Could the server keep so many bytes more for the caller?
    #[inline]
    pub(crate) fn may_take(&mut self, bytes: u64) -> bool {
        let uid = self.payer();
        uid == 0 || self.later.accounts.reserve(self.transport, uid, bytes)
    }

    /// It does: after [`Context::may_take`].
    #[inline]
    pub(crate) fn take(&mut self, bytes: u64) {
        let uid = self.payer();
        if uid != 0 {
            self.later.accounts.take(self.transport, uid, bytes);
        }
    }

    /// And so many fewer, of those that were charged to this user.
    #[inline]
    pub fn refund(&mut self, uid: u32, bytes: usize) {
        if uid != 0 && bytes != 0 {
            let accounts = &mut self.later.accounts;
            accounts.refund(self.transport, uid, bytes as u64);
        }
    }

    /// Hear of the end of the caller's process ([`crate::Server::process_ended`]) → its number. To be asked once for each domain. None: it is no process, or there are too many.
    pub fn attend(&mut self) -> Option<u32> {
        let sender = self.request.sender;
        let badge = crate::files::ATTENDED | u64::from(sender);
        self.transport.attend(sender, badge)
    }

    /// Copy from the caller's out part, all of `into` or EFAULT.
    #[inline]
    pub fn fetch(&mut self, offset: usize, into: &mut [u8]) -> Result<(), Failure> {
        if self.request.words[0] == WRITE && self.request.words[2] & INLINE != 0 {
            return self.fetch_inline(offset, into);
        }
        let got = self
            .transport
            .read(self.request.token, offset as u64, into)?;
        if got == into.len() {
            Ok(())
        } else {
            Err(Failure::Errno(errno::EFAULT))
        }
    }

    #[inline]
    fn fetch_inline(&mut self, offset: usize, into: &mut [u8]) -> Result<(), Failure> {
        let end = offset.saturating_add(into.len());
        if end > inline_len(self.request).unwrap_or(0) {
            return Err(Failure::Errno(errno::EFAULT));
        }
        let words = &self.request.words[3..];
        if into.len() == 1 && offset < 8 {
            into[0] = (words[0] >> (offset * 8)) as u8;
            return Ok(());
        }
        for (index, byte) in into.iter_mut().enumerate() {
            let at = offset + index;
            *byte = (words[at / 8 % words.len()] >> (at % 8 * 8)) as u8;
        }
        Ok(())
    }

    /// Copy into the caller's in part, all of `from` or EFAULT. Data for the end of an answer goes with the reply instead.
    pub fn store(&mut self, offset: usize, from: &[u8]) -> Result<(), Failure> {
        if self.request.words[0] == READ && self.request.words[2] & INLINE != 0 {
            let end = offset.saturating_add(from.len());
            let room = self.later.inline.get_mut(offset..end);
            room.ok_or(Failure::Errno(errno::EFAULT))?
                .copy_from_slice(from);
            return Ok(());
        }
        let put = self
            .transport
            .write(self.request.token, offset as u64, from)?;
        if put == from.len() {
            Ok(())
        } else {
            Err(Failure::Errno(errno::EFAULT))
        }
    }

    /// Nanoseconds since 1970.
    pub fn now(&mut self) -> u64 {
        self.transport.realtime()
    }

    /// After this callback: run the requests that wait for `key` again and look after poll registrations for it.
    #[inline]
    pub fn wake(&mut self, key: u64) {
        self.later.wake(key);
    }

    /// Call [`crate::Server::tick`] at this monotonic time (once; `None`: not at all; 0: as soon as no message or pulse waits).
    pub fn wake_at(&mut self, deadline: Option<u64>) {
        match self.later.lease_end {
            None => self.later.deadline = deadline,
            Some(_) => self.later.tick_beside_lease(deadline),
        }
    }

    /// The same at this time at the latest.
    pub fn wake_by(&mut self, deadline: u64) {
        let earlier = self.later.tick().unwrap_or(deadline).min(deadline);
        self.wake_at(Some(earlier));
    }

    /// The request is made again as soon as others have been served, at its caller's priority: it is done in pieces.
    pub fn goes_on(&mut self) -> Failure {
        // (A time that has come is told by a pulse, which would go before all requests.)
        self.wake_by(0);
        self.later.going_on = true;
        Failure::Wait(GOING_ON)
    }

    /// The portal that came with the request, if one did, is nobody's.
    pub fn close_passed(&mut self) {
        if self.request.portals == 1 {
            self.transport.close(Portal(self.request.words[7] as u32));
        }
    }

    /// Call [`crate::Server::background`] from now on, until it says that nothing is left. That goes at the highest priority of an ordinary program, and others
    /// are served between. False: there is no thread for it, so that it is to be done now.
    pub fn begin_background(&mut self) -> bool {
        self.transport.begin_background()
    }

    /// What is `left` of something goes in the background; or, if there is no thread for it, here, piece by piece. (A piece says whether more is left.) Is
    /// anything left to the background?
    pub fn leave(&mut self, mut left: bool, mut piece: impl FnMut(&mut Context) -> bool) -> bool {
        while left && !self.begin_background() {
            left = piece(self);
        }
        left
    }

    /// When the next lease's time is over.
    pub(crate) fn lease_alarm(&mut self, end: Option<u64>) {
        let tick = self.later.tick();
        self.later.lease_end = end;
        self.later.tick_beside_lease(tick);
    }

    /// The wait is over: does the server have its tick now, or is it for a lease only?
    pub(crate) fn ticks(&mut self) -> bool {
        let (lease, tick) = (self.later.lease_end, self.later.tick());
        if lease.is_some() {
            let now = self.transport.monotonic();
            let comes = |end: Option<u64>| end.is_some_and(|end| end <= now);
            if comes(lease) && !comes(tick) {
                return false;
            }
        }
        self.wake_at(None);
        true
    }

    /// [`Failure::Redirect`] to whoever serves a device or FIFO node of this kind; for `open` of a server that only keeps such nodes.
    pub fn redirect_special(&mut self, meta: &Meta) -> Failure {
        // Number 0 is no device (as what RENAME_WHITEOUT leaves).
        if meta.rdev == 0 && meta.mode & s::IFMT != s::IFIFO {
            return Failure::Errno(errno::ENXIO);
        }
        let mut text = [0u8; 40];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            text[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        let mut digits = [0u8; 20];
        if meta.mode & s::IFMT == s::IFIFO {
            // Nobody opens it by that name.
            put(b"fifo:");
            put(decimal(meta.ino, &mut digits));
        } else {
            put(match meta.mode & s::IFMT {
                s::IFBLK => b"block:",
                _ => b"dev:",
            });
            put(decimal(layout::major(meta.rdev) as u64, &mut digits));
            put(b":");
            put(decimal(layout::minor(meta.rdev) as u64, &mut digits));
        }
        self.redirect(&text[..at])
    }

    /// Have the pipe manager give the FIFO that this node is, for the answer of a redirect that brings it.
    pub(crate) fn give_fifo(&mut self, stat: &Stat) -> Result<(), Failure> {
        self.drop_right();
        // The request will be made again with room for the name.
        if self.request.in_len == 0 {
            return Ok(());
        }
        let right = self.transport.fifo(stat, self.request.label);
        self.later.right = Some(right.map_err(Failure::Errno)?);
        Ok(())
    }

    pub(crate) fn drop_right(&mut self) {
        if let Some(right) = self.later.right.take() {
            self.transport.close(right);
        }
    }

    /// Whether this request is the one that was `who`'s, made again because a server died with it.
    #[inline]
    pub fn repeats(&self, who: Token) -> bool {
        let again = |first| is_same(who, self.request.token, first);
        self.repeated.is_some_and(again)
    }

    /// Work for another: what is made and charged meanwhile is that one's. For components that ask for their callers.
    pub fn on_behalf<R>(&mut self, label: u64, run: impl FnOnce(&mut Context) -> R) -> R {
        let request = Received {
            label,
            ..*self.request
        };
        run(&mut Context {
            request: &request,
            progress: self.progress,
            progress_is_result: self.progress_is_result,
            repeated: self.repeated,
            transport: self.transport,
            later: self.later,
        })
    }

    /// Say where a name goes on, for [`Failure::Redirect`]: an absolute path or a scheme (`dev:1:3`). The rest of the path is added by the framework.
    pub fn redirect(&mut self, name: &[u8]) -> Failure {
        self.later.redirect.clear();
        self.later.place = redirect_kind::TARGET;
        self.later.redirect.extend_from_slice(name);
        Failure::Redirect
    }
}

/// The name of a socket with this inode number ([`crate::Server::label`]), into `into`; its length.
pub fn socket_label(ino: u64, into: &mut [u8]) -> Option<usize> {
    let mut digits = [0; 20];
    let mut at = 0;
    for part in [b"socket:[", decimal(ino, &mut digits), b"]"] {
        into.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    Some(at)
}

/// A number in decimal digits.
pub fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}
