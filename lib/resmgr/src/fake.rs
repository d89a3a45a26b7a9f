//! The nucleus for tests on the host: requests are byte slices, replies are kept for looking at.
//!
//! [`Bench`] holds a server, its manager and the fake transport; [`Bench::call`] sends a request and gives the answer (`None` while it waits);
//! [`Bench::answer`] asks for the answer of a request that waited.

use crate::manager::Manager;
use crate::server::{Access, Server};
use crate::transport::{Leads, Page, Transport, BACKGROUND};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::{flag, pulse, received, Error, Token};
use cairn_idl::capability::FileCapabilities;
use cairn_idl::errno::{EFAULT, ESRCH};
use cairn_idl::fs::{at, Stat, ACCESS, INLINE, INLINE_MAX, INLINE_SHIFT, SHORT_PATHS};
use cairn_rt::channel::Reply;
use cairn_rt::{Message, Portal, Received};
use core::sync::atomic::AtomicU64;

struct Caller {
    out: Vec<u8>,
    /// Nothing can be stored in the in part yet; somebody tried to.
    cold: bool,
    touched: bool,
    input: Vec<u8>,
    reply: Option<[u64; 8]>,
    minted: Vec<u64>,
    passed: Vec<u32>,
}

/// An answer as the caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub words: [u64; 8],
    /// The whole in part.
    pub data: Vec<u8>,
    /// Badges of minted portals.
    pub minted: Vec<u64>,
    /// Slots (of the server's) of portals that were passed.
    pub passed: Vec<u32>,
}

impl Answer {
    /// The result: a count or −errno.
    pub fn result(&self) -> i64 {
        self.words[0] as i64
    }

    /// The first `result` bytes of the in part.
    pub fn bytes(&self) -> &[u8] {
        &self.data[..self.result().max(0) as usize]
    }
}

type Service = Box<dyn FnMut(Portal, [u64; 8]) -> [u64; 8]>;

/// The transport. Everything that the server did to the world is in its fields.
#[derive(Default)]
pub struct Fake {
    callers: BTreeMap<Token, Caller>,
    next_token: Token,
    pub notified: Vec<(Portal, u64)>,
    pub closed: Vec<Portal>,
    /// What the event server was told, and what it answers.
    pub told: Vec<[u64; 8]>,
    /// Notices: mark, events, name.
    pub noticed: Vec<(u64, u64, Vec<u8>)>,
    pub event_answer: i64,
    /// Clock, both kinds; tests set it.
    pub time: u64,
    /// What the real-time clock is ahead of the other one.
    pub wall: u64,
    /// Supplementary groups of every domain.
    pub groups: Vec<u32>,
    /// Badges of portals that lead back to the server, by slot.
    pub own: BTreeMap<u32, u64>,
    /// How many entries lead to a badge of the server's own, if not one.
    pub holders: BTreeMap<u64, u64>,
    /// Slots of portals that lead to no channel.
    pub no_files: Vec<u32>,
    /// Badges of portals that somebody has; None: nobody knows.
    pub held: Option<Vec<u64>>,
    /// Answers calls to other servers.
    pub service: Option<Service>,
    /// Fail the next mint as if the caller's table were full.
    pub no_slot: bool,
    /// Fail the next reply that carries data as if there were no memory for it.
    pub bad_address: bool,
    /// Pages that others read, by portal.
    pub pages: BTreeMap<u32, Arc<[AtomicU64]>>,
    /// So many of the next request's last words are portals. (None: one, if the last is not 0.)
    pub pass: Option<usize>,
    /// The next read of a caller's memory fails.
    pub unreadable: bool,
    /// Labels of domains' real ids.
    pub real: BTreeMap<u32, u64>,
    /// Domains' mount name spaces, and whether they may change them.
    pub spaces: BTreeMap<u32, (u64, bool)>,
    /// What FILES_LIMIT_OF says of everybody; no limit.
    pub files_limit: Option<u64>,
    /// Pages that are charged to users, and the most that each may have.
    pub charged: BTreeMap<u32, i64>,
    /// Which account pays for a domain.
    pub account_of: BTreeMap<u32, u32>,
    pub charge_limit: Option<i64>,
    /// What the event server says how long a lease lasts.
    pub lease_seconds: Option<i64>,
    /// Domains that are no processes.
    pub strangers: Vec<u32>,
    /// What was given to [`Transport::signal_owner`].
    pub signalled: Vec<[u64; 7]>,
    /// FIFOs that the pipe manager was asked for: inode, mode, label of who opens it.
    pub fifos: Vec<(u64, u32, u64)>,
    /// Domains whose end is waited for, with the badge that tells it.
    pub attended: Vec<(u32, u64)>,
    /// Lives that are followed, and by which badge; those that have ended.
    pub followed: Vec<(u64, u64)>,
    pub ended: Vec<u64>,
    /// Domains whose files' mode, user and group `proc` was told of.
    pub told_ids: Vec<(u32, [u32; 3])>,
    pub told_capabilities: Vec<FileCapabilities>,
    /// Whose priority the server took.
    pub worked_for: Vec<Token>,
    /// There is something to be done that nobody waits for; there can be nobody who does it.
    pub background: bool,
    pub no_background: bool,
}

impl Fake {
    /// The next request has this token: its lower half is the thread that makes it.
    pub fn next_caller(&mut self, token: Token) {
        self.next_token = token.wrapping_sub(1);
    }
}

impl Transport for Fake {
    fn read(&mut self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        if core::mem::take(&mut self.unreadable) {
            return Err(Error::BadAddress);
        }
        let caller = self.callers.get(&token).ok_or(Error::BadToken)?;
        let left = caller.out.get(offset as usize..).unwrap_or(&[]);
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        Ok(count)
    }

    fn write(&mut self, token: Token, offset: u64, from: &[u8]) -> Result<usize, Error> {
        if !from.is_empty() && core::mem::take(&mut self.bad_address) {
            return Err(Error::BadAddress);
        }
        let caller = self.callers.get_mut(&token).ok_or(Error::BadToken)?;
        caller.touched = caller.cold && !from.is_empty();
        if caller.touched {
            return Err(Error::BadAddress);
        }
        let room = caller.input.get_mut(offset as usize..).unwrap_or(&mut []);
        let count = room.len().min(from.len());
        room[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn reply(&mut self, token: Token, reply: &Reply) -> Result<(), Error> {
        let no_slot = self.no_slot && reply.portals != 0;
        let caller = self.callers.get_mut(&token).ok_or(Error::BadToken)?;
        assert!(caller.reply.is_none(), "a request was answered twice");
        if no_slot {
            self.no_slot = false;
            return Err(Error::NoSlot);
        }
        if self.bad_address && !reply.data.is_empty() {
            self.bad_address = false;
            return Err(Error::BadAddress);
        }
        if caller.cold && !reply.data.is_empty() {
            (caller.cold, caller.touched) = (false, true);
            return Err(Error::BadAddress);
        }
        let end = reply.offset as usize + reply.data.len();
        let Some(room) = caller.input.get_mut(reply.offset as usize..end) else {
            return Err(Error::BadArgument);
        };
        room.copy_from_slice(reply.data);
        caller.reply = Some(reply.words);
        if reply.flags & flag::MINT != 0 {
            caller.minted = reply.words[8 - reply.portals as usize..].to_vec();
        } else {
            let slots = &reply.words[8 - reply.portals as usize..];
            caller.passed = slots.iter().map(|&slot| slot as u32).collect();
        }
        Ok(())
    }

    fn receive(&mut self, _: Option<u64>, _: &mut Received) -> Result<(), Error> {
        Err(Error::Again)
    }

    fn reply_receive(
        &mut self,
        token: Token,
        reply: &Reply,
        _: Option<u64>,
        _: &mut Received,
    ) -> Result<(), Error> {
        self.reply(token, reply)?;
        // What a real receive would never return, so the step ends.
        Err(Error::Interrupted)
    }

    fn work_for(&mut self, token: Token) {
        self.worked_for.push(token);
    }

    fn begin_background(&mut self) -> bool {
        self.background |= !self.no_background;
        !self.no_background
    }

    fn end_background(&mut self) {
        self.background = false;
    }

    fn make_portal(&mut self, badge: u64) -> Result<Portal, Error> {
        let slot = 1000 + self.own.len() as u32;
        self.own.insert(slot, badge);
        Ok(Portal(slot))
    }

    fn next_badge(&mut self, place: u64) -> Result<Option<(u64, u64)>, Error> {
        let held = self.held.as_ref().ok_or(Error::BadOperation)?;
        Ok(held.get(place as usize).map(|&badge| (place + 1, badge)))
    }

    fn publish(&mut self) -> Option<(Page, Portal)> {
        let page: Arc<[AtomicU64]> = (0..512).map(|_| AtomicU64::new(0)).collect();
        let slot = 5000 + self.pages.len() as u32;
        self.pages.insert(slot, page.clone());
        Some((Box::new(page), Portal(slot)))
    }

    fn own_badge(&mut self, portal: Portal) -> Option<u64> {
        self.own.get(&portal.0).copied()
    }

    fn leads_to(&mut self, portal: Portal) -> Leads {
        match self.own.get(&portal.0) {
            Some(&badge) => Leads::Own {
                badge,
                holders: self.holders.get(&badge).copied().unwrap_or(1),
            },
            None if self.no_files.contains(&portal.0) => Leads::Elsewhere,
            None => Leads::Channel,
        }
    }

    fn notify(&mut self, portal: Portal, value: u64) {
        self.notified.push((portal, value));
    }

    fn close(&mut self, portal: Portal) {
        self.closed.push(portal);
    }

    fn call(&mut self, portal: Portal, message: Message) -> Result<[u64; 8], Error> {
        match &mut self.service {
            Some(service) => Ok(service(portal, message.words)),
            None => Err(Error::BadPortal),
        }
    }

    fn event(&mut self, words: &[u64; 8]) -> i64 {
        if words[0] == cairn_idl::event::LEASE_TIME {
            let seconds = cairn_idl::event::LEASE_SECONDS as i64;
            return self.lease_seconds.unwrap_or(seconds);
        }
        self.told.push(*words);
        self.event_answer
    }

    fn notice(&mut self, words: &[u64; 8], name: &[u8]) -> i64 {
        self.noticed.push((words[1], words[3], name.to_vec()));
        self.event_answer.min(0)
    }

    fn account_of(&mut self, domain: u32) -> Option<u32> {
        self.account_of.get(&domain).copied()
    }

    fn charge(&mut self, uid: u32, pages: i64) -> bool {
        let had = self.charged.get(&uid).copied().unwrap_or(0);
        let has = had + pages;
        assert!(has >= 0, "more back than was charged to user {uid}");
        let may = pages <= 0 || self.charge_limit.is_none_or(|most| has <= most);
        match has {
            _ if !may => {}
            0 => drop(self.charged.remove(&uid)),
            _ => drop(self.charged.insert(uid, has)),
        }
        may
    }

    fn monotonic(&mut self) -> u64 {
        self.time
    }

    fn realtime(&mut self) -> u64 {
        self.time + self.wall
    }

    fn groups(&mut self, _: u32, into: &mut [u32]) -> usize {
        let count = self.groups.len().min(into.len());
        into[..count].copy_from_slice(&self.groups[..count]);
        count
    }

    fn space_of(&mut self, sender: u32) -> Option<(u64, bool)> {
        self.spaces.get(&sender).copied()
    }

    fn files_limit(&mut self, _: u32) -> Option<u64> {
        self.files_limit.or(Some(u64::MAX))
    }

    fn real_label(&mut self, sender: u32) -> Option<u64> {
        self.real.get(&sender).copied()
    }

    fn fifo(&mut self, stat: &Stat, label: u64) -> Result<Portal, i64> {
        self.fifos.push((stat.ino, stat.mode, label));
        Ok(Portal(8000 + self.fifos.len() as u32))
    }

    /// Process numbers are 1000 above domains'.
    fn attend(&mut self, sender: u32, badge: u64) -> Option<u32> {
        if self.strangers.contains(&sender) {
            return None;
        }
        self.attended.push((sender, badge));
        Some(1000 + sender)
    }

    /// Lives are 5000 above processes' numbers; those in `strangers` have none.
    fn life_of(&mut self, _: u32, pid: u64) -> Result<u64, i64> {
        match self.strangers.contains(&(pid as u32)) {
            true => Err(ESRCH),
            false => Ok(5000 + pid),
        }
    }

    fn follow(&mut self, life: u64, badge: u64) -> Result<(), i64> {
        if self.ended.contains(&life) {
            return Err(ESRCH);
        }
        self.followed.push((life, badge));
        Ok(())
    }

    fn signal_owner(&mut self, words: [u64; 7]) -> Result<(), i64> {
        self.signalled.push(words);
        Ok(())
    }

    fn tell_ids(&mut self, sender: u32, owner: Access, capabilities: Option<FileCapabilities>) {
        let Access { mode, uid, gid } = owner;
        self.told_ids.push((sender, [mode, uid, gid]));
        self.told_capabilities.extend(capabilities);
    }
}

/// A server on the bench.
pub struct Bench<S: Server> {
    pub server: S,
    pub manager: Manager<S>,
    pub fake: Fake,
    /// Short paths go in words, where the operation takes them so.
    pub short_paths: bool,
    /// Label and domain of the next requests.
    pub label: u64,
    pub sender: u32,
    /// The callers' memory is not there at first ([`Bench::call`]): they come again, and nothing may have been lost.
    pub cold: bool,
    /// Many requests that run again do so only by [`Bench::go_on`].
    pub in_pieces: bool,
}

impl<S: Server> Bench<S> {
    pub fn new(server: S, prefix: &[u8]) -> Bench<S> {
        Bench {
            server,
            manager: Manager::new(prefix),
            fake: Fake::default(),
            short_paths: true,
            label: 0,
            sender: 1,
            cold: true,
            in_pieces: false,
        }
    }

    /// Send a request; its token, for [`Bench::answer`].
    pub fn send(&mut self, badge: u64, words: &[u64], out: &[u8], in_len: usize) -> Token {
        self.send_from(badge, words, out, in_len, false)
    }

    fn send_from(
        &mut self,
        badge: u64,
        words: &[u64],
        out: &[u8],
        in_len: usize,
        cold: bool,
    ) -> Token {
        self.fake.next_token += 1;
        let token = self.fake.next_token;
        let mut all = [0; 8];
        all[..words.len()].copy_from_slice(words);
        let mut out = out;
        // With a label of its own ACCESS has no room for a path.
        let labelled = words[0] == ACCESS && words.get(2).is_none_or(|it| it & at::EACCESS == 0);
        let takes = words[0] < 64 && SHORT_PATHS >> words[0] & 1 != 0 && !labelled;
        if self.short_paths && takes && (1..=INLINE_MAX).contains(&out.len()) {
            for (place, bytes) in all[3..].iter_mut().zip(out.chunks(8)) {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                *place = u64::from_le_bytes(word);
            }
            all[2] |= INLINE | (out.len() as u64) << INLINE_SHIFT;
            out = b"";
        }
        self.fake.callers.insert(
            token,
            Caller {
                out: out.to_vec(),
                cold,
                touched: false,
                input: vec![0; in_len],
                reply: None,
                minted: Vec::new(),
                passed: Vec::new(),
            },
        );
        let mut request = Received {
            kind: received::kind::MESSAGE,
            badge,
            token,
            sender: self.sender,
            label: self.label,
            out_len: out.len(),
            in_len,
            interruptible: true,
            ..Received::default()
        };
        request.words = all;
        request.portals = match self.fake.pass.take() {
            Some(portals) => portals,
            None => words.get(7).is_some_and(|&word| word != 0) as usize,
        };
        self.step(Ok(()), request);
        token
    }

    /// The answer, once.
    pub fn answer(&mut self, token: Token) -> Option<Answer> {
        self.fake.callers.get(&token)?.reply?;
        let caller = self.fake.callers.remove(&token)?;
        Some(Answer {
            words: caller.reply?,
            data: caller.input,
            minted: caller.minted,
            passed: caller.passed,
        })
    }

    /// Send a request and take its answer; `None` if it waits.
    pub fn call(&mut self, badge: u64, words: &[u64], out: &[u8], in_len: usize) -> Option<Answer> {
        let (pass, closed) = (self.fake.pass, self.fake.closed.len());
        let token = self.send_from(badge, words, out, in_len, self.cold);
        let touched = self.fake.callers.get(&token)?.touched;
        let answer = self.answer(token);
        if !touched || answer.as_ref()?.result() != -EFAULT {
            return answer;
        }
        // (What the first request brought is not here.)
        self.fake.closed.truncate(closed);
        self.fake.pass = pass;
        let token = self.send(badge, words, out, in_len);
        self.answer(token)
    }

    /// The result word of a request that must not wait.
    pub fn result(&mut self, badge: u64, words: &[u64], out: &[u8]) -> i64 {
        self.call(badge, words, out, cairn_idl::fs::PATH_MAX)
            .map_or(i64::MIN, |answer| answer.result())
    }

    /// OPEN through the mount portal: the new handle's badge, or the (negative) result.
    pub fn open(&mut self, path: &[u8], flags: u64, mode: u64) -> Result<u64, i64> {
        let words = [cairn_idl::fs::OPEN, flags, mode];
        let answer = self
            .call(0, &words, path, cairn_idl::fs::PATH_MAX)
            .ok_or(i64::MIN)?;
        match answer.minted.first() {
            Some(&badge) if answer.result() == 0 => Ok(badge),
            _ => Err(answer.result()),
        }
    }

    pub fn pulse(&mut self, code: u64, value: u64, badge: u64) {
        let mut event = Received {
            kind: received::kind::PULSE,
            badge,
            ..Received::default()
        };
        event.words[0] = code;
        event.words[1] = value;
        self.step(Ok(()), event);
    }

    /// The last holder of a handle is gone.
    pub fn close(&mut self, badge: u64) {
        self.pulse(pulse::CLOSED, 0, badge);
    }

    /// A piece of what nobody waits for, if there is something. Whether more is left.
    pub fn background(&mut self) -> bool {
        if self.fake.background {
            let answer = self.call(BACKGROUND, &[0], b"", 0);
            let more = answer.is_some_and(|answer| answer.result() != 0);
            assert_eq!(more, self.fake.background);
        }
        self.fake.background
    }

    /// A caller was interrupted.
    pub fn interrupt(&mut self, token: Token) {
        self.pulse(pulse::UNBLOCK, token, 0);
    }

    /// A caller died.
    pub fn die(&mut self, token: Token) {
        self.fake.callers.remove(&token);
        self.pulse(pulse::GONE, token, 0);
    }

    /// Until when the server waits for a message.
    pub fn deadline(&self) -> Option<u64> {
        self.manager.waiting.later.deadline
    }

    /// The deadline of the server has come.
    pub fn time_out(&mut self) {
        self.step(Err(Error::TimedOut), Received::default());
    }

    fn step(&mut self, status: Result<(), Error>, received: Received) {
        self.step_once(status, received);
        // Nobody comes meanwhile.
        while !self.in_pieces && self.go_on() {}
    }

    /// The next piece of many requests that run again. False: nothing was left.
    pub fn go_on(&mut self) -> bool {
        let left = self.manager.backlog;
        if left {
            self.step_once(Err(Error::TimedOut), Received::default());
        }
        left
    }

    fn step_once(&mut self, status: Result<(), Error>, mut received: Received) {
        let _ = self
            .manager
            .step(&mut self.server, &mut self.fake, status, &mut received);
    }
}
