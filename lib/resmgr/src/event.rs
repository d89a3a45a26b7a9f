//! The loop: receive, dispatch, reply; the last reply of a round and the next receive are one entry into the nucleus.

use crate::context::{Context, Failure, Later, GOING_ON};
use crate::direct::{direct, open_direct, stat_direct};
use crate::files::ATTENDED;
use crate::handle::{Entry, Handle};
use crate::manager::{asks_words, Manager};
use crate::notice::what;
use crate::server::{Direct, Server};
use crate::transport::{Transport, FOLLOWED};
use crate::waiting::{Again, Parked, NOBODY};
use cairn_abi::{flag, pulse, received, Error, Token};
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o};
use cairn_rt::channel::Reply;
use cairn_rt::{Portal, Received};

/// Operations from here on are servers' own.
const OWN: u64 = fs::PIPE;

/// What requests wait for that came too early.
const HELD: u64 = u64::MAX - 1;

/// Serve for ever.
pub fn serve<S: Server, T: Transport>(
    manager: &mut Manager<S>,
    server: &mut S,
    transport: &mut T,
) -> ! {
    let mut received = Received::default();
    for event in core::mem::take(&mut manager.early) {
        manager.pulse(server, transport, &event);
    }
    let mut status = manager.ready(server, transport, &mut received);
    loop {
        status = manager.step(server, transport, status, &mut received);
    }
}

/// Portals that came with an operation which takes none go at once: kept, they would fill this server's table, and what they lead to would never be closed.
#[cold]
#[inline(never)]
fn close_unwanted<S: Server>(
    server: &mut S,
    transport: &mut dyn Transport,
    request: &mut Received,
) {
    let operation = operation(request);
    let moves = matches!(operation, fs::READ | fs::WRITE) && request.words[2] & fs::INLINE == 0;
    if moves && request.portals == 1 {
        let loan = Portal(request.words[7] as u32);
        if server.lent(transport, request.token, loan) {
            request.portals = 0;
            return;
        }
    }
    let takes = match operation {
        fs::LINK | fs::RENAME | fs::MKNOD | fs::MOUNT_POINT => 1,
        operation => server.takes(operation),
    };
    let passed = request.portals.min(request.words.len());
    request.portals = passed.min(takes);
    let first = request.words.len() - passed;
    for word in &request.words[first..][..passed - request.portals] {
        transport.close(Portal(*word as u32));
    }
}

/// Was the request made before ([`fs::AGAIN`])? The number of its first call. From here on its operation stands alone.
#[inline(always)]
fn is_repeated(request: &mut Received) -> Option<u32> {
    let first = (request.words[0] & !fs::AGAIN) >> fs::AGAIN_SHIFT;
    let repeated = request.words[0] & fs::AGAIN != 0;
    request.words[0] = operation(request);
    repeated.then_some(first as u32)
}

/// What is asked for, without the mark of what was asked before.
#[inline(always)]
fn operation(request: &Received) -> u64 {
    match request.words[0] & fs::AGAIN {
        0 => request.words[0],
        _ => request.words[0] & ((1 << fs::AGAIN_SHIFT) - 1),
    }
}

/// The portals that a reply hands over. It keeps them if it cannot be delivered.
#[cold]
fn close_moved(transport: &mut dyn Transport, (words, portals, flags): ([u64; 8], u64, u64)) {
    if flags & flag::MOVE != 0 {
        let first = words.len() - (portals as usize).min(words.len());
        for word in &words[first..] {
            transport.close(Portal(*word as u32));
        }
    }
}

/// Badges of the portals that a reply mints.
fn minted(reply: &Reply) -> ([u64; 4], usize) {
    let mut badges = [0; 4];
    let count = if reply.flags & flag::MINT != 0 {
        (reply.portals as usize).min(4)
    } else {
        0
    };
    badges[..count].copy_from_slice(&reply.words[8 - count..]);
    (badges, count)
}

pub(crate) fn context<'a>(
    transport: &'a mut dyn Transport,
    later: &'a mut Later,
    parked: &'a Parked,
) -> Context<'a> {
    Context {
        request: &parked.request,
        progress: parked.again.progress,
        progress_is_result: parked.again.progress_is_result,
        repeated: parked.again.repeated,
        transport,
        later,
    }
}

/// How many requests that waited run before messages are looked for.
const PIECE: u32 = 64;

/// May this operation change what its own handle is ready for?
#[inline]
fn uses_data(operation: u64) -> bool {
    matches!(operation, fs::READ | fs::WRITE | fs::IOCTL) || operation >= OWN
}

/// The data of an answer that is to follow.
fn send_data(transport: &mut dyn Transport, token: Token, reply: &Reply) -> Result<(), Error> {
    match reply.data.len() {
        0 => Ok(()),
        length => match transport.write(token, reply.offset, reply.data)? {
            sent if sent == length => Ok(()),
            _ => Err(Error::BadAddress),
        },
    }
}

impl<S: Server> Manager<S> {
    /// Work on what was received and on all that it makes ready; then the next receive, into the same place.
    #[inline]
    pub fn step<T: Transport>(
        &mut self,
        server: &mut S,
        transport: &mut T,
        status: Result<(), Error>,
        received: &mut Received,
    ) -> Result<(), Error> {
        if status.is_ok() && received.kind == received::kind::MESSAGE {
            if received.portals != 0 {
                close_unwanted(server, transport, received);
            }
            let outcome = match direct(&mut self.core, server, &mut self.waiting.later, received) {
                Direct::Ordinary => match received.words[0] {
                    fs::CLOSE => self.set_aside(server, transport, received),
                    fs::STAT if asks_words(received) => {
                        let later = &mut self.waiting.later;
                        stat_direct(&mut self.core, server, later, transport, received)
                    }
                    fs::ACCESS if self.core.misses(server, received) => {
                        received.words = [-ENOENT as u64, 0, 0, 0, 0, 0, 0, 0];
                        Direct::Done(0)
                    }
                    fs::OPEN => match self.open(server, transport, received) {
                        Some(outcome) => outcome,
                        None => return self.ready(server, transport, received),
                    },
                    OWN.. if received.in_len | received.out_len | received.portals == 0 => {
                        let handle = self.core.handles.get(received.badge);
                        // (What is only named may be gone.)
                        let handle = handle.filter(|handle| handle.flags & o::PATH == 0);
                        let node = handle.map(|handle| handle.node);
                        server.special_direct(node, received, &mut self.waiting.later)
                    }
                    _ => Direct::Ordinary,
                },
                outcome => outcome,
            };
            if !matches!(outcome, Direct::Ordinary) {
                self.waiting.watches.touch_handle(received.badge);
            }
            match outcome {
                Direct::Done(_) if self.waiting.busy() => {
                    if self.waiting.watches.touched() {
                        self.tell(server, transport);
                    }
                    transport.reply_words(received.token, &received.words);
                }
                Direct::Done(_) => {
                    let deadline = self.waiting.later.deadline;
                    return transport.reply_words_receive(received.token, deadline, received);
                }
                Direct::Wait(key) => {
                    self.park([key; 2], received, None, Again::default());
                }
                Direct::Ordinary => {
                    if let Some(status) = self.answer(server, transport, received, None) {
                        return status;
                    }
                }
            }
        } else {
            self.event(server, transport, status, received);
            self.tell_after_pulse(server, transport);
        }
        self.ready(server, transport, received)
    }

    /// The direct way of an OPEN that needs no new portal. None: it waits.
    #[inline(never)]
    fn open<T: Transport>(
        &mut self,
        server: &mut S,
        transport: &mut T,
        request: &mut Received,
    ) -> Option<Direct> {
        if self.core.handles.keeps(request) {
            let later = &mut self.waiting.later;
            let opened = open_direct(&mut self.core, server, later, transport, request);
            return match opened {
                Ok(outcome) => Some(outcome),
                Err((keys, again)) => {
                    self.park(keys, request, None, again);
                    None
                }
            };
        }
        if self.core.leads_nowhere(server, request) {
            request.words = [-ENOENT as u64, 0, 0, 0, 0, 0, 0, 0];
            return Some(Direct::Done(0));
        }
        Some(Direct::Ordinary)
    }

    /// A request or pulse that came before there was a server: it is worked on when [`serve`] begins.
    pub fn hold(&mut self, request: &Received) {
        if request.kind == received::kind::PULSE {
            self.early.push(*request);
            return;
        }
        let mut request = *request;
        let again = Again {
            repeated: is_repeated(&mut request),
            ..Again::default()
        };
        self.park([HELD; 2], &request, None, again);
        self.waiting.later.wake(HELD);
    }

    /// Run what is ready, then receive.
    #[inline(never)]
    fn ready<T: Transport>(
        &mut self,
        server: &mut S,
        transport: &mut T,
        received: &mut Received,
    ) -> Result<(), Error> {
        let resumes = core::mem::take(&mut self.resumes) | core::mem::take(&mut self.backlog);
        let mut left = PIECE;
        while self.waiting.busy() {
            if left == 0 {
                // Of many the others after those who have come meanwhile.
                self.backlog = true;
                return transport.receive(Some(0), received);
            }
            left -= 1;
            let Some(place) = self.next_request(server, transport) else {
                break;
            };
            let parked = self.lot.get_mut(place);
            if resumes {
                // Nobody else asks for this now: without that it would go before all programs.
                transport.work_for(parked.request.token);
            }
            let outcome = match parked.again.progress {
                0 => direct(
                    &mut self.core,
                    server,
                    &mut self.waiting.later,
                    &mut parked.request,
                ),
                _ => Direct::Ordinary,
            };
            match outcome {
                Direct::Done(_) => {
                    received.words = parked.request.words;
                    let token = parked.request.token;
                    self.waiting.watches.touch_handle(parked.request.badge);
                    self.lot.remove(place);
                    if !self.waiting.busy() {
                        let deadline = self.waiting.later.deadline;
                        return transport.reply_words_receive(token, deadline, received);
                    }
                    if self.waiting.watches.touched() {
                        self.tell(server, transport);
                    }
                    transport.reply_words(token, &received.words);
                }
                Direct::Wait(key) => self.waiting.park([key; 2], &parked.request, place),
                Direct::Ordinary => {
                    if let Some(status) = self.answer(server, transport, received, Some(place)) {
                        return status;
                    }
                }
            }
        }
        transport.receive(self.waiting.later.deadline, received)
    }

    /// Work on a request: the new one in `received`, or one that waited, in its place of the lot. If nothing else is ready the reply is sent
    /// with the next receive, whose status is the result.
    #[inline(always)]
    fn answer<T: Transport>(
        &mut self,
        server: &mut S,
        transport: &mut T,
        received: &mut Received,
        waited: Option<u32>,
    ) -> Option<Result<(), Error>> {
        let (request, mut again) = match waited {
            None => {
                let again = Again {
                    repeated: is_repeated(received),
                    ..Again::default()
                };
                (&*received, again)
            }
            Some(place) => {
                let parked = self.lot.get(place);
                (&parked.request, parked.again)
            }
        };
        let (token, badge, operation) = (request.token, request.badge, request.words[0]);
        let mut reply = Reply::default();
        let waits = self.core.dispatch(
            server,
            &mut self.waiting,
            &mut self.redirect,
            transport,
            request,
            &mut again,
            &mut reply,
        );
        match (waits, waited) {
            (None, None) => {}
            (None, Some(place)) => self.lot.remove(place),
            (Some(keys), waited) => {
                self.park(keys, received, waited, again);
                return None;
            }
        }
        if !self.waiting.watches.is_empty() && uses_data(operation) {
            self.waiting.watches.touch_handle(badge);
        }
        let more = self.waiting.busy();
        if self.waiting.watches.touched() || self.waiting.later.noticed {
            let sent = send_data(transport, token, &reply);
            let bare = Reply {
                words: reply.words,
                portals: reply.portals,
                flags: reply.flags,
                ..Reply::default()
            };
            let asked = (token, badge, operation);
            Self::tell_and_answer(self, server, transport, asked, bare, sent);
            return None;
        }
        let error = if more {
            match transport.reply(token, &reply) {
                Ok(()) => return None,
                Err(error) => error,
            }
        } else {
            let deadline = self.waiting.later.deadline;
            match transport.reply_receive(token, &reply, deadline, received) {
                Ok(()) => return Some(Ok(())),
                Err(error @ (Error::TimedOut | Error::Interrupted)) => return Some(Err(error)),
                Err(error) => error,
            }
        };
        let minted = minted(&reply);
        close_moved(transport, (reply.words, reply.portals, reply.flags));
        self.undelivered(server, transport, (token, badge, operation), error, minted);
        None
    }

    /// The answer of a request that touched watches: the event server hears of it first. The data goes ahead, as it may lie in what the server is about to look at.
    #[cold]
    #[inline(never)]
    fn tell_and_answer<T: Transport>(
        manager: &mut Manager<S>,
        server: &mut S,
        transport: &mut T,
        asked: (Token, u64, u64),
        reply: Reply<'static>,
        sent: Result<(), Error>,
    ) {
        if core::mem::take(&mut manager.waiting.later.noticed) {
            manager.tell_of_read(server, transport);
        }
        manager.tell(server, transport);
        let sent = sent.and_then(|()| transport.reply(asked.0, &reply));
        if let Err(error) = sent {
            let minted = minted(&reply);
            manager.undelivered(server, transport, asked, error, minted);
        }
    }

    /// The request has read something of which marks are to hear.
    fn tell_of_read(&mut self, server: &mut S, transport: &mut dyn Transport) {
        if let Some(node) = self.core.notices.read.take() {
            let mut cx = context(transport, &mut self.waiting.later, &NOBODY);
            self.core.happened(server, &mut cx, node, what::ACCESS);
        }
    }

    /// The request waits, for the first time or again.
    #[inline(never)]
    fn park(&mut self, keys: [u64; 2], new: &Received, waited: Option<u32>, again: Again) {
        let place = match waited {
            Some(place) => {
                self.lot.get_mut(place).again = again;
                place
            }
            None => self.lot.insert(new, again),
        };
        let request = &self.lot.get(place).request;
        self.waiting.park(keys, request, place);
    }

    /// A pulse, or the end of the wait.
    #[inline(never)]
    fn event(
        &mut self,
        server: &mut S,
        transport: &mut dyn Transport,
        status: Result<(), Error>,
        received: &Received,
    ) {
        match status {
            Ok(()) if received.kind == received::kind::PULSE => {
                self.pulse(server, transport, received);
            }
            // No time is over: the others are next.
            Err(Error::TimedOut) if self.backlog => {}
            Err(Error::TimedOut) => {
                let mut cx = context(transport, &mut self.waiting.later, &NOBODY);
                let ticks = cx.ticks();
                self.core.leases.expire(&mut cx);
                if ticks {
                    if core::mem::take(&mut cx.later.going_on) {
                        cx.wake(GOING_ON);
                        self.resumes = true;
                    }
                    let mut cx = context(transport, &mut self.waiting.later, &NOBODY);
                    server.tick(&mut cx);
                }
            }
            _ => {}
        }
    }

    /// A reply could not be delivered: handles that it would have carried go, what a READ took is taken back, and the caller (if it still exists) learns why.
    fn undelivered(
        &mut self,
        server: &mut S,
        transport: &mut dyn Transport,
        (token, badge, operation): (Token, u64, u64),
        error: Error,
        (badges, count): ([u64; 4], usize),
    ) {
        for &badge in &badges[..count] {
            match badge >> 32 {
                0 => self.portal_closed(server, transport, badge),
                _ => self.close(server, transport, badge),
            }
        }
        let number = match error {
            Error::BadToken | Error::Dead => return,
            Error::BadAddress => {
                self.core.unread(token);
                let handle = self.core.handles.get(badge);
                if let (fs::READ, Some(node)) = (operation, handle.map(|handle| handle.node)) {
                    self.with_context(transport, &NOBODY, |cx| server.take_back(cx, node));
                }
                EFAULT
            }
            Error::NoSlot => EMFILE,
            Error::NoMemory => ENFILE,
            _ => EINVAL,
        };
        // If this fails as well the caller is gone.
        let _ = transport.reply(token, &Reply::result(-number));
    }

    /// A portal of the server's own kind could not be delivered: it hears as of one that was closed.
    #[cold]
    fn portal_closed(&mut self, server: &mut S, transport: &mut dyn Transport, badge: u64) {
        let mut event = Received {
            kind: received::kind::PULSE,
            badge,
            ..Received::default()
        };
        event.words[0] = pulse::CLOSED;
        self.pulse(server, transport, &event);
    }

    /// The next waiting request to run again, after the watches that were touched.
    #[inline]
    fn next_request(&mut self, server: &mut S, transport: &mut dyn Transport) -> Option<u32> {
        loop {
            if self.waiting.watches.touched() {
                self.tell(server, transport);
            }
            match self.waiting.next_ready() {
                Some(place) => return Some(place),
                None if self.waiting.collect() => {}
                None => return None,
            }
        }
    }

    fn pulse(&mut self, server: &mut S, transport: &mut dyn Transport, event: &Received) {
        match event.words[0] {
            pulse::CLOSED if event.badge >= FOLLOWED => {
                let parked = Parked {
                    request: *event,
                    ..Parked::default()
                };
                self.with_context(transport, &parked, |cx| server.pulse(cx, &parked.request));
            }
            // Badges of handles; a portal of the server's own making is its own business.
            pulse::CLOSED if event.badge >= ATTENDED => {
                let parked = Parked {
                    request: *event,
                    ..Parked::default()
                };
                let domain = event.badge as u32;
                let mut cx = context(transport, &mut self.waiting.later, &parked);
                self.core.process_ended(&mut cx, domain);
                server.process_ended(&mut cx, domain);
            }
            pulse::CLOSED if event.badge >> 32 != 0 => {
                self.close(server, transport, event.badge);
            }
            pulse::UNBLOCK => {
                let token = event.words[1];
                let lot = &self.lot;
                let interruptible = self.waiting.place(token).is_some_and(|place| {
                    let parked = lot.get(place);
                    server.interruptible(parked.request.words[0], parked.again.progress)
                });
                if let Some(place) = interruptible.then(|| self.waiting.remove(token)).flatten() {
                    self.cancel(server, transport, place, Some(EINTR));
                }
            }
            pulse::GONE => {
                if let Some(place) = self.waiting.remove(event.words[1]) {
                    self.cancel(server, transport, place, None);
                }
            }
            _ => {
                let parked = Parked {
                    request: *event,
                    ..Parked::default()
                };
                self.with_context(transport, &parked, |cx| server.pulse(cx, &parked.request));
            }
        }
    }

    /// A waiting request ends without its result.
    #[cold]
    #[inline(never)]
    fn cancel(
        &mut self,
        server: &mut S,
        transport: &mut dyn Transport,
        place: u32,
        number: Option<i64>,
    ) {
        let parked = self.lot.take(place);
        self.core.forget_lock_wait(&parked.request);
        self.core.leases.end_wait(parked.request.token);
        self.core.forget_middle(&parked.request);
        let keeps = matches!(parked.request.words[0], fs::MKNOD | fs::MOUNT_POINT);
        if keeps && parked.request.portals == 1 {
            transport.close(Portal(parked.request.words[7] as u32));
        }
        self.with_context(transport, &parked, |cx| server.cancelled(cx));
        if let Some(number) = number {
            let result = if parked.again.progress_is_result && parked.again.progress != 0 {
                parked.again.progress as i64
            } else {
                -number
            };
            // A caller that is gone meanwhile needs no answer.
            let _ = transport.reply(parked.request.token, &Reply::result(result));
        }
    }

    /// The last holder of a handle's portal is gone.
    pub(crate) fn close(&mut self, server: &mut S, transport: &mut dyn Transport, badge: u64) {
        if badge >> 32 == 0 {
            return;
        }
        self.end_requests(server, transport, badge);
        let Some(removed) = self.core.handles.remove(badge) else {
            return;
        };
        if let Some(entry) = removed.entry {
            self.closed(server, transport, badge, entry);
        }
        if removed.payer != 0 {
            let accounts = &mut self.waiting.later.accounts;
            accounts.refund(transport, removed.payer, removed.bytes);
        }
    }

    /// CLOSE: as [`Manager::close`], but the portal stays.
    #[inline(never)]
    fn set_aside(
        &mut self,
        server: &mut S,
        transport: &mut dyn Transport,
        request: &mut Received,
    ) -> Direct {
        let badge = request.badge;
        // (Watches of a closed handle may go by and by, and are found by its badge.)
        if self.waiting.watches.may_have(badge) || !self.core.handles.is_alone(request) {
            return Direct::Ordinary;
        }
        self.end_requests(server, transport, badge);
        if let Some(entry) = self.core.handles.set_aside(badge) {
            self.closed(server, transport, badge, entry);
        }
        request.words = [0, badge, 0, 0, 0, 0, 0, 0];
        Direct::Done(0)
    }

    /// What waits at a handle that is closed.
    #[inline(always)]
    fn end_requests(&mut self, server: &mut S, transport: &mut dyn Transport, badge: u64) {
        while let Some(place) = self.waiting.remove_badge(badge) {
            self.cancel(server, transport, place, Some(EBADF));
        }
        if !self.waiting.watches.is_empty() {
            self.end_watches(server, transport, badge);
        }
    }

    /// Locks and leases of a handle that is closed.
    #[cold]
    #[inline(never)]
    fn drop_locks(
        &mut self,
        server: &mut S,
        transport: &mut dyn Transport,
        badge: u64,
        node: S::Node,
    ) {
        let Ok(meta) = server.meta(node) else {
            return;
        };
        let keep = self.core.handles.keepsake();
        if self.core.locks.close(keep, meta.ino, badge) {
            self.waiting.later.wake(crate::files::lock_key(meta.ino));
        }
        let mut cx = context(transport, &mut self.waiting.later, &NOBODY);
        self.core.locks_go(&mut cx);
        self.core.leases.remove(&mut cx, meta.ino, badge);
    }

    #[inline(always)]
    fn closed(
        &mut self,
        server: &mut S,
        transport: &mut dyn Transport,
        badge: u64,
        entry: Entry<S>,
    ) {
        if entry.locks {
            self.drop_locks(server, transport, badge, entry.handle.node);
        }
        if let Some(at) = entry.mount {
            let core = &mut self.core;
            let later = &mut self.waiting.later;
            core.leaves(server, &mut context(transport, later, &NOBODY), at);
        }
        if let Some(root) = entry.root {
            self.close_root(server, transport, badge, root);
        }
        if entry.frames {
            let node = entry.handle.node;
            let core = &mut self.core;
            let later = &mut self.waiting.later;
            core.close_frames(node, &mut context(transport, later, &NOBODY));
        }
        if self.core.notices.any() {
            self.closed_marked(server, transport, entry.handle);
        } else {
            let mut cx = context(transport, &mut self.waiting.later, &NOBODY);
            server.close(&mut cx, entry.handle);
        }
    }

    /// The directory that a handle's names began at is let go as if it had been opened itself.
    #[cold]
    #[inline(never)]
    fn close_root(
        &mut self,
        server: &mut S,
        transport: &mut dyn Transport,
        badge: u64,
        root: S::Node,
    ) {
        let root = Handle {
            badge,
            node: root,
            flags: o::PATH,
            kind: fs::kind::DIRECTORY,
            state: S::State::default(),
        };
        self.with_context(transport, &NOBODY, |cx| server.close(cx, root));
    }

    /// The end of [`Manager::closed`] where somebody is told of what happens to files.
    #[cold]
    #[inline(never)]
    fn closed_marked(&mut self, server: &mut S, transport: &mut dyn Transport, handle: Handle<S>) {
        let mut cx = context(transport, &mut self.waiting.later, &NOBODY);
        let (node, flags) = (handle.node, handle.flags);
        if flags & o::PATH == 0 {
            let event = match flags & o::ACCMODE {
                o::RDONLY => what::CLOSE_NOWRITE,
                _ => what::CLOSE_WRITE,
            };
            self.core.happened(server, &mut cx, node, event);
        }
        let marked = self.core.marked(server, node);
        server.close(&mut cx, handle);
        if let Some(inode) = marked {
            self.core.end_if_gone(server, &mut cx, (node, inode));
        }
    }

    fn with_context<R>(
        &mut self,
        transport: &mut dyn Transport,
        parked: &Parked,
        run: impl FnOnce(&mut Context) -> R,
    ) -> R {
        run(&mut context(transport, &mut self.waiting.later, parked))
    }
}

impl<S: Server> Manager<S> {
    /// Run a callback of the server's own making outside any request (at start-up, for tests).
    pub fn run<R>(
        &mut self,
        transport: &mut dyn Transport,
        run: impl FnOnce(&mut Context) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.with_context(transport, &NOBODY, run)
    }
}
