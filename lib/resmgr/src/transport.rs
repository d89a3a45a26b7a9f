//! The nucleus as the framework sees it. [`Native`] is the real thing; [`crate::fake::Fake`] lets tests play the clients.

use crate::server::Access;
use alloc::boxed::Box;
use cairn_abi::service::{current, memory::pool, receive};
use cairn_abi::{flag, layout, received, rights, Error, PortalKind, Token};
use cairn_idl::capability::FileCapabilities;
use cairn_idl::errno::{ENOMEM, ENXIO};
use cairn_idl::fs::{self, Stat};
use cairn_idl::proc::file::{CAPABLE, EFFECTIVE};
use cairn_idl::{proc, vm};
#[cfg(target_os = "none")]
use cairn_rt::alarm::Alarm;
use cairn_rt::background::Background;
use cairn_rt::channel::Reply;
use cairn_rt::{memory, time, Message, Portal, Received, Receiver};
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

/// A page of words that others may map to read them; it goes with this value.
pub type Page = Box<dyn Deref<Target = [AtomicU64]>>;

/// Where a portal leads, as the nucleus tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To this server's own channel: its badge, and how many entries of anybody's table have it.
    Own { badge: u64, holders: u64 },
    /// To somebody's channel, and it may be called and passed on, as often as one likes.
    Channel,
    /// To anything else, or it may not.
    Elsewhere,
}

/// What a server needs of the outside world.
pub trait Transport {
    /// Copy from the caller's out part; short only at its end.
    fn read(&mut self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error>;
    /// Copy into the caller's in part; short only at its end.
    fn write(&mut self, token: Token, offset: u64, from: &[u8]) -> Result<usize, Error>;
    fn reply(&mut self, token: Token, reply: &Reply) -> Result<(), Error>;
    /// Wait for a message or pulse, until monotonic `deadline` if given (0: take what there is).
    fn receive(&mut self, deadline: Option<u64>, into: &mut Received) -> Result<(), Error>;
    /// Reply, then receive. If the reply fails nothing is received.
    fn reply_receive(
        &mut self,
        token: Token,
        reply: &Reply,
        deadline: Option<u64>,
        into: &mut Received,
    ) -> Result<(), Error>;
    /// Reply with words only. A caller that is gone needs no answer.
    fn reply_words(&mut self, token: Token, words: &[u64; 8]) {
        let _ = self.reply(token, &Reply::new(words));
    }
    /// Reply with the words in `received`, then receive into it. An error may be either's; a caller that is gone needs no answer.
    fn reply_words_receive(
        &mut self,
        token: Token,
        deadline: Option<u64>,
        received: &mut Received,
    ) -> Result<(), Error> {
        let reply = Reply::new(&received.words);
        self.reply_receive(token, &reply, deadline, received)
    }
    /// A new portal to this server's channel.
    /// What is done until the next receive is for the caller behind this token, at its priority.
    fn work_for(&mut self, token: Token);
    /// See that [`Server::background`] is called from now on, at the highest priority of an ordinary program. False: that cannot be.
    ///
    /// [`Server::background`]: crate::Server::background
    fn begin_background(&mut self) -> bool;
    /// There is nothing more to be done.
    fn end_background(&mut self);
    fn make_portal(&mut self, badge: u64) -> Result<Portal, Error>;
    /// As [`Receiver::next_badge`].
    fn next_badge(&mut self, place: u64) -> Result<Option<(u64, u64)>, Error>;
    /// A page of zeroes for others to read, and the portal by which they map it. When this server ends, or the portal is closed, it is zero for them.
    fn publish(&mut self) -> Option<(Page, Portal)>;
    /// The badge of a portal that leads to this server's own channel.
    fn own_badge(&mut self, portal: Portal) -> Option<u64>;
    /// What a portal leads to that came in a message and may be kept.
    fn leads_to(&mut self, portal: Portal) -> Leads;
    fn notify(&mut self, portal: Portal, value: u64);
    fn close(&mut self, portal: Portal);
    fn call(&mut self, portal: Portal, message: Message) -> Result<[u64; 8], Error>;
    /// Ask the event server, in words: its answer's first one.
    fn event(&mut self, words: &[u64; 8]) -> i64;
    /// The same with a name beside the words.
    fn notice(&mut self, words: &[u64; 8], name: &[u8]) -> i64;
    /// So many pages more (or fewer: negative) are kept here for a user. False: they must not be taken.
    fn charge(&mut self, uid: u32, pages: i64) -> bool;
    /// The account that pays for a domain.
    fn account_of(&mut self, domain: u32) -> Option<u32>;
    /// Monotonic nanoseconds.
    fn monotonic(&mut self) -> u64;
    /// Nanoseconds since 1970.
    fn realtime(&mut self) -> u64;
    /// What that clock said at monotonic time 0: it is another once it was set.
    fn wall(&mut self) -> u64 {
        let now = self.monotonic();
        self.realtime().wrapping_sub(now)
    }
    /// Supplementary groups of a domain into `into`; how many.
    fn groups(&mut self, sender: u32, into: &mut [u32]) -> usize;
    /// The label of a domain's real ids.
    fn real_label(&mut self, sender: u32) -> Option<u64>;
    /// How many descriptors its process may have on their way.
    fn files_limit(&mut self, sender: u32) -> Option<u64>;
    /// The mount name space of a domain's process, and whether it may change what is mounted there.
    fn space_of(&mut self, sender: u32) -> Option<(u64, bool)>;
    /// The FIFO that this node of the server's is, for who asks with this label.
    fn fifo(&mut self, stat: &Stat, label: u64) -> Result<Portal, i64>;
    /// CLOSED with this badge is to come when the process of a domain ends → its number. None: it is no process, or has ended.
    fn attend(&mut self, sender: u32, badge: u64) -> Option<u32>;
    /// What names the process with a number, as a domain's process has it, and never another one; or `proc`'s errno.
    fn life_of(&mut self, domain: u32, pid: u64) -> Result<u64, i64>;
    /// CLOSED with this badge, which begins with [`FOLLOWED`], is to come to [`crate::Server::pulse`] when the process ends. ESRCH: it has ended.
    fn follow(&mut self, life: u64, badge: u64) -> Result<(), i64>;
    /// A signal of a file, as `proc` takes it ([`cairn_idl::proc::SIGNAL_OWNER`]): life, domain, signal, code, descriptor, band, owner.
    fn signal_owner(&mut self, words: [u64; 7]) -> Result<(), i64>;
    /// A domain executes a file of this mode and owner: `proc` is told ([`cairn_idl::proc::SET_ID`]).
    fn tell_ids(&mut self, sender: u32, owner: Access, capabilities: Option<FileCapabilities>);
}

/// The beginning of badges for [`Transport::follow`].
pub const FOLLOWED: u64 = 3 << 62;

/// The nucleus itself.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    pub receiver: Receiver,
    /// `proc`'s portal with system badge, for supplementary groups.
    pub proc: Option<Portal>,
    /// The event server's portal for file servers, if what is open here can be watched.
    pub event: Option<Portal>,
    /// The pipe manager's portal, if there are FIFOs here.
    pub pipe: Option<Portal>,
    clock: Clock,
    background: Background,
}

/// Badge of the alarm's notifications.
const ALARM: u64 = u32::MAX as u64;

/// Badge of the calls for what nobody waits for ([`Server::background`]): a call of a thread of the server's own.
///
/// [`Server::background`]: crate::Server::background
pub(crate) const BACKGROUND: u64 = ALARM - 1;

/// How deadlines are kept: by an alarm, so that receives and replies stay on their short ways; without one, by the nucleus.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// The deadline that the alarm knows.
    known: Option<u64>,
    /// Once it was asked for: the alarm, if there could be one.
    #[cfg(target_os = "none")]
    alarm: Option<Option<Alarm>>,
}

impl Clock {
    /// Wait no longer than until this; what the nucleus must see to itself.
    #[inline]
    fn keep(&mut self, receiver: Receiver, deadline: Option<u64>) -> Option<u64> {
        match deadline == self.known {
            true => None,
            false => self.change(receiver, deadline),
        }
    }

    #[cold]
    #[inline(never)]
    fn change(&mut self, receiver: Receiver, deadline: Option<u64>) -> Option<u64> {
        if deadline == Some(0) {
            return deadline;
        }
        #[cfg(target_os = "none")]
        {
            let start = || receiver.make_portal(ALARM).and_then(Alarm::start).ok();
            if let Some(alarm) = *self.alarm.get_or_insert_with(start) {
                alarm.set(deadline);
                self.known = deadline;
                return None;
            }
        }
        let _ = receiver;
        deadline
    }
}

impl Native {
    /// The component's main channel; `proc`'s portal is the one that the manifest calls `proc`.
    pub fn new() -> Native {
        Native {
            receiver: Receiver(Portal(layout::native_slot::RECEIVE)),
            proc: cairn_rt::startup::portal("proc"),
            event: cairn_rt::startup::portal("event"),
            pipe: cairn_rt::startup::portal("pipe"),
            clock: Clock::default(),
            background: Background::default(),
        }
    }

    /// What was received, unless it is the alarm: then the time has come, or the wait goes on.
    #[inline]
    fn delivered(
        &mut self,
        status: Result<(), Error>,
        deadline: Option<u64>,
        into: &mut Received,
    ) -> Result<(), Error> {
        match status.is_ok() && into.kind == received::kind::PULSE && into.badge == ALARM {
            false => status,
            true => self.alarmed(deadline, into),
        }
    }

    #[cold]
    #[inline(never)]
    fn alarmed(&mut self, deadline: Option<u64>, into: &mut Received) -> Result<(), Error> {
        if deadline.is_some_and(|deadline| deadline <= time::monotonic()) {
            // The alarm forgets what it has told.
            self.clock.known = None;
            return Err(Error::TimedOut);
        }
        self.receive(deadline, into)
    }
}

impl Default for Native {
    fn default() -> Self {
        Native::new()
    }
}

impl Transport for Native {
    fn read(&mut self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        self.receiver.read(token, offset, into)
    }

    fn write(&mut self, token: Token, offset: u64, from: &[u8]) -> Result<usize, Error> {
        self.receiver.write(token, offset, from)
    }

    #[inline]
    fn reply(&mut self, token: Token, reply: &Reply) -> Result<(), Error> {
        match self.receiver.reply_with(token, reply) {
            Err(Error::NoMemory) if reply.flags & flag::MINT != 0 && more_portals() => {
                self.receiver.reply_with(token, reply)
            }
            result => result,
        }
    }

    #[inline]
    fn receive(&mut self, deadline: Option<u64>, into: &mut Received) -> Result<(), Error> {
        let status = match self.clock.keep(self.receiver, deadline) {
            None => self.receiver.receive_into(None, into),
            Some(left) => receive_until(self.receiver, left, into),
        };
        self.delivered(status, deadline, into)
    }

    #[inline]
    fn reply_receive(
        &mut self,
        token: Token,
        reply: &Reply,
        deadline: Option<u64>,
        into: &mut Received,
    ) -> Result<(), Error> {
        let left = self.clock.keep(self.receiver, deadline);
        let receiver = self.receiver;
        let status = match receiver.reply_receive_into(token, reply, left, into) {
            Err(Error::NoMemory) if reply.flags & flag::MINT != 0 && more_portals() => {
                receiver.reply_receive_into(token, reply, left, into)
            }
            result => result,
        };
        self.delivered(status, deadline, into)
    }

    #[inline]
    fn reply_words(&mut self, token: Token, words: &[u64; 8]) {
        let _ = self.receiver.reply_words(token, words);
    }

    #[inline]
    fn reply_words_receive(
        &mut self,
        token: Token,
        deadline: Option<u64>,
        received: &mut Received,
    ) -> Result<(), Error> {
        let left = self.clock.keep(self.receiver, deadline);
        let status = self.receiver.reply_words_receive(token, left, received);
        self.delivered(status, deadline, received)
    }

    fn work_for(&mut self, token: Token) {
        // (A caller that is gone is told by a pulse.)
        let words = [token, receive::RESUME];
        let _ = self.receiver.0.service(receive::CALLER, &words);
    }

    #[cold]
    fn begin_background(&mut self) -> bool {
        self.background.begin(self.receiver, BACKGROUND)
    }

    fn end_background(&mut self) {
        self.background.end();
    }

    fn make_portal(&mut self, badge: u64) -> Result<Portal, Error> {
        self.receiver.make_portal(badge)
    }

    fn next_badge(&mut self, place: u64) -> Result<Option<(u64, u64)>, Error> {
        self.receiver.next_badge(place)
    }

    fn publish(&mut self) -> Option<(Page, Portal)> {
        let (page, portal) = memory::Shared::publish()?;
        Some((Box::new(page), portal))
    }

    fn own_badge(&mut self, portal: Portal) -> Option<u64> {
        let words = Portal::CURRENT
            .service(current::PORTAL_INFO, &[portal.0 as u64])
            .ok()?;
        (words[5] == 1).then_some(words[4])
    }

    fn leads_to(&mut self, portal: Portal) -> Leads {
        const OPEN_FILE: u64 = (rights::CALL | rights::PASS) as u64;
        let info = Portal::CURRENT.service(current::PORTAL_INFO, &[portal.0 as u64]);
        let Ok([kind, may, holders, _, badge, own, ..]) = info else {
            return Leads::Elsewhere;
        };
        // It is likely to be kept.
        cairn_rt::paging::kept(portal.0);
        let usable = may & (OPEN_FILE | rights::ONCE as u64) == OPEN_FILE;
        match kind == PortalKind::Channel as u64 && usable {
            true if own == 1 => Leads::Own { badge, holders },
            true => Leads::Channel,
            false => Leads::Elsewhere,
        }
    }

    fn notify(&mut self, portal: Portal, value: u64) {
        // The notified may be gone: then nobody waits for this.
        let _ = portal.notify(value);
    }

    fn close(&mut self, portal: Portal) {
        portal.close();
    }

    fn call(&mut self, portal: Portal, message: Message) -> Result<[u64; 8], Error> {
        portal.call(message)
    }

    #[inline]
    fn event(&mut self, words: &[u64; 8]) -> i64 {
        match self.event {
            None => crate::watch::NO_EVENTS,
            Some(portal) => match portal.call(Message::new(words)) {
                Ok(words) => words[0] as i64,
                Err(_) => -cairn_idl::errno::ESTALE,
            },
        }
    }

    fn notice(&mut self, words: &[u64; 8], name: &[u8]) -> i64 {
        match self.event {
            None => crate::watch::NO_EVENTS,
            Some(portal) => match portal.call(Message::new(words).out(name)) {
                Ok(words) => words[0] as i64,
                Err(_) => -cairn_idl::errno::ESTALE,
            },
        }
    }

    fn charge(&mut self, uid: u32, pages: i64) -> bool {
        let vm = Portal(layout::native_slot::VM);
        vm::Client(&vm).charge(uid, pages as u64).is_ok()
    }

    fn account_of(&mut self, domain: u32) -> Option<u32> {
        let vm = Portal(layout::native_slot::VM);
        let account = vm::Client(&vm).account_of(domain).ok()?;
        u32::try_from(account).ok()
    }

    fn monotonic(&mut self) -> u64 {
        time::monotonic()
    }

    fn realtime(&mut self) -> u64 {
        time::realtime()
    }

    fn wall(&mut self) -> u64 {
        time::wall_clock()
    }

    fn groups(&mut self, sender: u32, into: &mut [u32]) -> usize {
        let Some(proc) = self.proc else { return 0 };
        let mut bytes = [0u8; 4 * 32];
        let message = Message::new(&[cairn_idl::proc::GROUPS_OF, sender as u64]).input(&mut bytes);
        let count = match proc.call(message) {
            Ok(words) => (words[0] as i64).clamp(0, into.len().min(32) as i64) as usize,
            Err(_) => 0,
        };
        for (group, raw) in into.iter_mut().zip(bytes.chunks_exact(4)).take(count) {
            *group = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
        }
        count
    }

    fn real_label(&mut self, sender: u32) -> Option<u64> {
        let proc = self.proc?;
        proc::Client(&proc).real_label(sender).ok()
    }

    fn files_limit(&mut self, sender: u32) -> Option<u64> {
        let proc = self.proc?;
        proc::Client(&proc).files_limit_of(sender).ok()
    }

    fn space_of(&mut self, sender: u32) -> Option<(u64, bool)> {
        let proc = self.proc?;
        let answer = proc::Client(&proc).space_of(sender).ok()?;
        Some((answer.space, answer.may_change != 0))
    }

    fn fifo(&mut self, stat: &Stat, label: u64) -> Result<Portal, i64> {
        let pipe = self.pipe.ok_or(ENXIO)?;
        let owner = u64::from(stat.uid) | u64::from(stat.gid) << 32;
        let client = fs::Client(&pipe);
        let made = client.fifo(stat.ino, stat.dev, u64::from(stat.mode), owner, label);
        let made = made.map_err(|failure| failure.errno())?;
        Ok(Portal(made.slot()))
    }

    fn life_of(&mut self, domain: u32, pid: u64) -> Result<u64, i64> {
        let proc = self.proc.ok_or(ENXIO)?;
        let answer = proc::Client(&proc).life_of(domain, pid);
        answer
            .map(|answer| answer.life)
            .map_err(|failure| failure.errno())
    }

    fn follow(&mut self, life: u64, badge: u64) -> Result<(), i64> {
        let proc = self.proc.ok_or(ENXIO)?;
        let end = self.end_portal(badge).ok_or(ENOMEM)?;
        let followed = proc::Client(&proc).follow(life, end.0);
        end.close();
        followed.map_err(|failure| failure.errno())
    }

    fn signal_owner(&mut self, words: [u64; 7]) -> Result<(), i64> {
        let proc = self.proc.ok_or(ENXIO)?;
        let [life, domain, signal, code, descriptor, band, owner] = words;
        let sent = proc::Client(&proc).signal_owner(
            life,
            domain as u32,
            signal,
            code as i64,
            descriptor,
            band,
            owner,
        );
        sent.map(|_| ()).map_err(|failure| failure.errno())
    }

    fn attend(&mut self, sender: u32, badge: u64) -> Option<u32> {
        let proc = self.proc?;
        let end = self.end_portal(badge)?;
        let pid = proc::Client(&proc).attend(sender, end.0);
        // `proc` has its own slot for it now.
        end.close();
        Some(pid.ok()? as u32)
    }

    fn tell_ids(&mut self, sender: u32, owner: Access, capabilities: Option<FileCapabilities>) {
        let Some(proc) = self.proc else {
            return;
        };
        let Access { mode, uid, gid } = owner;
        let (file, permitted, inheritable) = match capabilities {
            None => (0, 0, 0),
            Some(of) if of.effective => (CAPABLE | EFFECTIVE, of.permitted, of.inheritable),
            Some(of) => (CAPABLE, of.permitted, of.inheritable),
        };
        let [mode, uid, gid] = [mode, uid, gid].map(u64::from);
        // Refused is who is not at the beginning of a program: he has his ids and keeps them.
        let _ = proc::Client(&proc).set_id(sender, mode, uid, gid, file, permitted, inheritable);
    }
}

#[cold]
#[inline(never)]
fn receive_until(receiver: Receiver, deadline: u64, into: &mut Received) -> Result<(), Error> {
    match deadline {
        0 => receiver.poll_into(into),
        deadline => receiver.receive_into(Some(deadline), into),
    }
}

impl Native {
    /// A portal whose close will say that something has ended.
    fn end_portal(&mut self, badge: u64) -> Option<Portal> {
        match self.receiver.make_portal(badge) {
            Err(Error::NoMemory) if more_portals() => self.receiver.make_portal(badge).ok(),
            made => made.ok(),
        }
    }
}

/// Ask `vm` to give the nucleus memory for portals.
fn more_portals() -> bool {
    let message = Message::new(&[vm::MORE_OBJECTS, pool::PORTAL]);
    matches!(Portal(layout::native_slot::VM).call(message), Ok(words) if words[0] == 0)
}
