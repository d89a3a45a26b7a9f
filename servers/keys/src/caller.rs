//! Who asks, and the key rings that belong to its thread, its program, its session and its user.
//!
//! A session and a program are numbers that `proc` keeps for processes. It closes their portals when nobody has them any more, and then what they hold goes.

use crate::key::{Kept, State, POSSESSOR};
use crate::key::{Kind, Who, LINK, NO_GROUP, POSSESSOR_ALL, READ, SETATTR, USER, USER_ALL, VIEW};
use crate::search::Target;
use crate::server::{Keys, Outside};
use crate::store::{errno, Quota, Wish, OWN, PERSISTENT, SESSION};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_idl::errno::{EACCES, EAGAIN, EINVAL, EKEYEXPIRED, EKEYREVOKED, ENOKEY, ENOMEM, EPERM};
use cairn_idl::label;
use cairn_idl::proc::KeyRings;
use cairn_resmgr::Context;

/// The names of a process's own key rings.
pub const THREAD: i32 = -1;
pub const PROCESS: i32 = -2;
pub const OF_SESSION: i32 = -3;
pub const OF_USER: i32 = -4;
pub const OF_USER_SESSION: i32 = -5;
const OF_REQUESTER: [i32; 2] = [-7, -8];

/// What `proc` says of a process.
#[derive(Clone, Debug)]
pub struct Process {
    pub groups: [u32; 32],
    pub count: usize,
    pub session: u64,
    pub program: u64,
    pub uid: u32,
    pub gid: u32,
    /// Its parent's session.
    pub above: u64,
}

/// Thread key rings of one program: they all go at once, with it.
const THREADS_MOST: usize = 4096;

/// What a number of a session or a program stands for.
#[derive(Debug)]
pub enum Holder {
    Session {
        ring: u32,
        kept: Kept,
    },
    Program {
        process: Option<u32>,
        threads: BTreeMap<u32, u32>,
        kept: Kept,
    },
}

const HOLDER_COST: usize = 256;

pub struct Caller {
    pub who: Who,
    pub privileged: bool,
    /// Real user and group, whose rings are meant.
    pub uid: u32,
    pub gid: u32,
    pub domain: Id,
    pub thread: u32,
    pub session: Option<u32>,
    program: u64,
    pub above: u64,
    pub payer: u32,
    pub now: u64,
}

/// What a key is looked up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// These permissions, and that it is of use still.
    All(u32),
    /// Nothing at all, for the key is only taken out of a ring.
    Unlink,
    /// What is needed is looked at later.
    Later,
}

/// The key, and whether the caller possesses it.
pub type Found = (u32, bool);

impl<O: Outside> Keys<O> {
    /// The process that lives in a domain, which asks with this label.
    pub fn caller(
        &mut self,
        cx: &mut Context,
        domain: Id,
        label: u64,
        thread: u32,
    ) -> Result<Caller, i64> {
        let process = self.outside.process(domain).ok_or(EPERM)?;
        let session = match self.holders.get(&process.session) {
            Some(Holder::Session { ring, .. }) => Some(*ring),
            _ => None,
        };
        Ok(Caller {
            who: Who {
                uid: label::uid(label),
                gid: label::gid(label),
                groups: process.groups,
                count: process.count,
            },
            privileged: label::has(label, label::SYSTEM),
            uid: process.uid,
            gid: process.gid,
            domain,
            thread,
            session,
            program: process.program,
            above: process.above,
            payer: cx.payer(),
            now: cx.transport.realtime() / 1_000_000_000,
        })
    }

    /// A number that `proc` is to keep for the process.
    fn keep(
        &mut self,
        cx: &mut Context,
        caller: &Caller,
        whose: KeyRings,
        make: impl FnOnce(Kept) -> Holder,
    ) -> Result<u64, i64> {
        let kept = Kept {
            payer: caller.payer,
            bytes: HOLDER_COST,
        };
        cx.charge(kept.payer, kept.bytes).map_err(errno)?;
        self.last_holder += 1;
        let number = self.last_holder;
        // (Before `proc` has it: it may be told at once that nobody has it any more.)
        self.holders.insert(number, make(kept));
        if let Err(error) = self.outside.keep(caller.domain, whose, number) {
            self.holders.remove(&number);
            cx.refund(kept.payer, kept.bytes);
            return Err(error);
        }
        Ok(number)
    }

    /// Nobody has this number any more.
    pub fn nobody_has(&mut self, cx: &mut Context, number: u64) {
        let Some(holder) = self.holders.remove(&number) else {
            return;
        };
        let kept = match holder {
            Holder::Session { ring, kept } => {
                self.store.release(cx, ring);
                kept
            }
            Holder::Program {
                process,
                threads,
                kept,
            } => {
                for ring in process.into_iter().chain(threads.into_values()) {
                    self.store.release(cx, ring);
                }
                kept
            }
        };
        cx.refund(kept.payer, kept.bytes);
    }

    fn make_ring(
        &mut self,
        cx: &mut Context,
        payer: u32,
        description: Vec<u8>,
        (uid, gid): (u32, u32),
        mode: u32,
        quota: Quota,
    ) -> Result<u32, i64> {
        let wish = Wish {
            kind: Kind::Keyring,
            description,
            uid,
            gid,
            mode,
            payload: Vec::new(),
            quota,
        };
        let outside = &mut self.outside;
        self.store.make(cx, payer, wish, || outside.random())
    }

    /// The caller's session has this ring from now on.
    fn install_session(
        &mut self,
        cx: &mut Context,
        caller: &mut Caller,
        ring: u32,
    ) -> Result<(), i64> {
        self.store.hold(ring);
        let make = |kept| Holder::Session { ring, kept };
        match self.keep(cx, caller, KeyRings::Session, make) {
            Ok(_) => {
                caller.session = Some(ring);
                Ok(())
            }
            Err(error) => {
                self.store.release(cx, ring);
                Err(error)
            }
        }
    }

    /// A new session without a name.
    pub fn new_session(&mut self, cx: &mut Context, caller: &mut Caller) -> Result<u32, i64> {
        let quota = match caller.session {
            None => Quota::Beyond,
            Some(_) => Quota::In,
        };
        let mode = POSSESSOR_ALL | (VIEW | READ) << USER;
        let (owner, payer) = ((caller.uid, caller.gid), caller.payer);
        let ring = self.make_ring(cx, payer, b"_ses".to_vec(), owner, mode, quota)?;
        self.store.hold(ring);
        let installed = self.install_session(cx, caller, ring);
        self.store.release(cx, ring);
        installed.map(|()| ring)
    }

    /// The session of this name, made if there is none that the caller may have.
    pub fn join_session(
        &mut self,
        cx: &mut Context,
        caller: &mut Caller,
        name: Vec<u8>,
    ) -> Result<u32, i64> {
        let name = alloc::rc::Rc::new(name);
        let number = self.store.names.find(Kind::Keyring, &name);
        if let Some(ring) = number.and_then(|number| self.named(caller, number)) {
            if caller.session != Some(ring) {
                self.install_session(cx, caller, ring)?;
            }
            return Ok(ring);
        }
        let mode = POSSESSOR_ALL | (VIEW | READ | LINK) << USER;
        let (owner, payer) = ((caller.uid, caller.gid), caller.payer);
        let name = alloc::rc::Rc::into_inner(name).ok_or(ENOMEM)?;
        let ring = self.make_ring(cx, payer, name, owner, mode, Quota::In)?;
        self.store.hold(ring);
        let installed = self.install_session(cx, caller, ring);
        self.store.release(cx, ring);
        installed.map(|()| ring)
    }

    /// A ring of this name that the caller may search: one of its own, or of the first of others'.
    fn named(&self, caller: &Caller, name: u32) -> Option<u32> {
        const LOOKED_AT: usize = 64;
        let uid = caller.who.uid;
        let own = (name, uid, 0)..=(name, uid, u32::MAX);
        let own = self.store.named.range(own).take(LOOKED_AT);
        let all = (name, 0, 0)..=(name, u32::MAX, u32::MAX);
        let all = self.store.named.range(all).take(LOOKED_AT);
        own.chain(all).map(|(.., ring)| *ring).find(|ring| {
            let ring = self.store.keys.get(*ring);
            ring.is_some_and(|ring| {
                ring.check(caller.now).is_ok()
                    && ring.allows(&caller.who, false, crate::key::SEARCH)
            })
        })
    }

    /// The parent has the caller's session from now on.
    pub fn session_to_parent(&mut self, cx: &mut Context, caller: &mut Caller) -> Result<(), i64> {
        let (ring, _) = self.lookup(cx, caller, OF_SESSION, false, Need::All(LINK))?;
        let of = |ring: u32| self.store.get(ring).map(|ring| ring.uid);
        let above = match self.holders.get(&caller.above) {
            Some(Holder::Session { ring: above, .. }) if *above == ring => return Ok(()),
            Some(Holder::Session { ring, .. }) => Some(of(*ring)?),
            _ => None,
        };
        let own = caller.who.uid;
        if of(ring)? != own || above.is_some_and(|uid| uid != own) {
            return Err(EPERM);
        }
        self.store.hold(ring);
        let make = |kept| Holder::Session { ring, kept };
        let kept = self.keep(cx, caller, KeyRings::Parent, make);
        if kept.is_err() {
            self.store.release(cx, ring);
        }
        kept.map(|_| ())
    }

    /// The ring of the caller's thread or program.
    fn of_program(&mut self, caller: &Caller, id: i32) -> Option<u32> {
        match self.holders.get(&caller.program)? {
            Holder::Program { threads, .. } if id == THREAD => threads.get(&caller.thread).copied(),
            Holder::Program { process, .. } => *process,
            Holder::Session { .. } => None,
        }
    }

    fn make_of_program(
        &mut self,
        cx: &mut Context,
        caller: &mut Caller,
        id: i32,
    ) -> Result<u32, i64> {
        if !self.holders.contains_key(&caller.program) {
            let make = |kept| Holder::Program {
                process: None,
                threads: BTreeMap::new(),
                kept,
            };
            caller.program = self.keep(cx, caller, KeyRings::Program, make)?;
        }
        // (Threads that ended and did not say so have theirs as well.)
        let full = match self.holders.get(&caller.program) {
            Some(Holder::Program { threads, .. }) => id == THREAD && threads.len() >= THREADS_MOST,
            _ => false,
        };
        if full {
            return Err(ENOMEM);
        }
        let name: &[u8] = if id == THREAD { b"_tid" } else { b"_pid" };
        let mode = POSSESSOR_ALL | VIEW << USER;
        let (owner, payer) = ((caller.uid, caller.gid), caller.payer);
        let ring = self.make_ring(cx, payer, name.to_vec(), owner, mode, Quota::Beyond)?;
        self.store.hold(ring);
        match self.holders.get_mut(&caller.program) {
            Some(Holder::Program { threads, .. }) if id == THREAD => {
                threads.insert(caller.thread, ring);
            }
            Some(Holder::Program { process, .. }) => *process = Some(ring),
            _ => {
                self.store.release(cx, ring);
                return Err(ENOMEM);
            }
        }
        Ok(ring)
    }

    /// The calling thread ends.
    pub fn thread_ends(&mut self, cx: &mut Context, caller: &Caller) {
        let ring = match self.holders.get_mut(&caller.program) {
            Some(Holder::Program { threads, .. }) => threads.remove(&caller.thread),
            _ => None,
        };
        if let Some(ring) = ring {
            self.store.release(cx, ring);
        }
    }

    /// The caller's user's own ring, and that of its sessions, which has the former in it; made if they are not there.
    fn of_user(&mut self, cx: &mut Context, caller: &Caller, place: usize) -> Result<u32, i64> {
        let uid = caller.uid;
        if let Some(ring) = self.store.ring_of_user(uid, place) {
            self.store.get(ring)?.check(caller.now)?;
            return Ok(ring);
        }
        let mode = POSSESSOR_ALL & !(SETATTR << POSSESSOR) | USER_ALL;
        let owner = (uid, NO_GROUP);
        for (each, name) in [
            (OWN, format!("_uid.{uid}")),
            (SESSION, format!("_uid_ses.{uid}")),
        ] {
            if self.store.ring_of_user(uid, each).is_some() {
                continue;
            }
            let name = name.into_bytes();
            let ring = self.make_ring(cx, caller.payer, name, owner, mode, Quota::In)?;
            if each == SESSION {
                let own = self.store.ring_of_user(uid, OWN).ok_or(ENOKEY)?;
                if let Err(error) = self.store.link(cx, caller.payer, ring, own) {
                    self.store.let_go(cx, ring);
                    return Err(error);
                }
            }
            self.store.settle(ring, uid, each);
        }
        self.store.ring_of_user(uid, place).ok_or(ENOKEY)
    }

    /// GET_PERSISTENT's ring.
    pub fn persistent(&mut self, cx: &mut Context, caller: &Caller, uid: u32) -> Result<u32, i64> {
        if let Some(ring) = self.store.ring_of_user(uid, PERSISTENT) {
            if self.store.get(ring)?.state == State::Live {
                return Ok(ring);
            }
            // It was revoked: there is another one from now on.
            self.store.leave_home(cx, ring);
        }
        let mode = POSSESSOR_ALL & !(SETATTR << POSSESSOR) | (VIEW | READ) << USER;
        let name = format!("_persistent.{uid}").into_bytes();
        let owner = (uid, NO_GROUP);
        let ring = self.make_ring(cx, caller.payer, name, owner, mode, Quota::Out)?;
        self.store.settle(ring, uid, PERSISTENT);
        Ok(ring)
    }

    /// A key by its name or number, for what is to be done with it.
    pub fn lookup(
        &mut self,
        cx: &mut Context,
        caller: &mut Caller,
        id: i32,
        create: bool,
        need: Need,
    ) -> Result<Found, i64> {
        let (at, possessed) = match id {
            THREAD | PROCESS => match self.of_program(caller, id) {
                Some(ring) => (ring, true),
                None if create => (self.make_of_program(cx, caller, id)?, true),
                None => return Err(ENOKEY),
            },
            OF_SESSION => (self.session(cx, caller, create)?, true),
            OF_USER => (self.of_user(cx, caller, OWN)?, true),
            OF_USER_SESSION => (self.of_user(cx, caller, SESSION)?, true),
            id if OF_REQUESTER.contains(&id) => return Err(ENOKEY),
            ..=0 => return Err(EINVAL),
            _ => {
                let at = self.store.with_serial(id)?;
                (at, self.possesses(caller, at))
            }
        };
        let key = self.store.get(at)?;
        let wanted = match need {
            Need::All(wanted) => wanted,
            Need::Unlink | Need::Later => return Ok((at, possessed)),
        };
        key.check(caller.now)?;
        match key.allows(&caller.who, possessed, wanted) {
            true => Ok((at, possessed)),
            false => Err(EACCES),
        }
    }

    /// The caller's session: without one, that of its user, or a new one if something is to come into it.
    fn session(&mut self, cx: &mut Context, caller: &mut Caller, create: bool) -> Result<u32, i64> {
        let Some(ring) = caller.session else {
            let of_user = self.of_user(cx, caller, SESSION)?;
            if create {
                return self.new_session(cx, caller);
            }
            self.install_session(cx, caller, of_user)?;
            return Ok(of_user);
        };
        let shared = matches!(self.store.get(ring)?.home, Some((_, SESSION)));
        match shared && create {
            true => self.new_session(cx, caller),
            false => Ok(ring),
        }
    }

    /// The rings in which the caller's keys are looked for, in order.
    fn own_rings(&mut self, caller: &Caller) -> [Option<u32>; 3] {
        let session = caller.session;
        [
            self.of_program(caller, THREAD),
            self.of_program(caller, PROCESS),
            session.or_else(|| self.store.ring_of_user(caller.uid, SESSION)),
        ]
    }

    /// All rings that the caller possesses: a mark that [`crate::store::Store::is_reached`] knows, until the next search.
    pub fn reach_own(&mut self, caller: &Caller) -> u64 {
        let own = self.own_rings(caller);
        self.store.reach(own.into_iter().flatten(), &caller.who)
    }

    /// Is the key in the caller's rings, as far as it may search them?
    pub fn possesses(&mut self, caller: &Caller, at: u32) -> bool {
        let Ok(key) = self.store.get(at) else {
            return false;
        };
        let target = Target {
            name: Some(key.name),
            exact: Some(at),
            passes_expired: false,
        };
        self.search_own(caller, target).is_ok()
    }

    /// Look for a key in the caller's rings. EAGAIN: it is in none.
    pub fn search_own(&mut self, caller: &Caller, target: Target) -> Result<u32, i64> {
        let (mut absent, mut failed) = (false, EAGAIN);
        for ring in self.own_rings(caller).into_iter().flatten() {
            match self
                .store
                .search(ring, true, target, &caller.who, caller.now)
            {
                Ok(found) => return Ok(found),
                Err(EAGAIN) => absent = true,
                Err(error) => failed = error,
            }
        }
        // (As on Linux: that one ring does not have it says more than that another one has it dead.)
        match (absent, failed) {
            (true, EKEYREVOKED | EKEYEXPIRED | EACCES) => Err(EAGAIN),
            _ => Err(failed),
        }
    }
}
