//! The manager's state and what every part of it uses: finding the caller, holding a call, moving the records' lists.

use crate::cgroups::Cgroups;
use crate::dispatch::Outcome;
use crate::filters::Paid;
use crate::futex::Futexes;
use crate::groups::{Group, Session};
use crate::ids::Numbers;
use crate::image::Image;
use crate::kin::Kin;
use crate::prefix::Prefixes;
use crate::process::{Held, Process};
use crate::report::Load;
use crate::signal::{self, UNSTOPPABLE};
use crate::system::{Domain, Entries, Errno, System};
use crate::table::{Direct, Slab, Slot, NONE};
use crate::timers::Due;
use crate::user_spaces::Counts;
use crate::wall_clock::WallClock;
use crate::PrefixPage;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_idl::errno::{EFAULT, ENOMEM, EPERM, ESRCH};
use cairn_idl::proc::FORK;
use cairn_random::Supply;
use cairn_rt::{Portal, Received};

/// Portals that the first process gets, and where things are.
#[derive(Clone, Copy, Debug)]
pub struct Gifts {
    /// `vm` and this server as processes know them; the log.
    pub vm: Portal,
    pub proc: Portal,
    pub log: Portal,
}

pub struct Manager<S: System> {
    pub system: S,
    pub(crate) gifts: Gifts,
    /// The personality in the boot archive.
    pub(crate) image: Option<Image>,
    pub(crate) entries: Entries,
    /// A domain that nobody ever ran in, with the personality's data as it is at first: what EXEC_FRESH copies.
    pub(crate) pristine: Option<Domain>,
    pub(crate) processes: Slab<Process>,
    pub(crate) numbers: Numbers,
    pub(crate) groups: Slab<Group>,
    pub(crate) sessions: Slab<Session>,
    /// From domain ids and thread ids to processes.
    pub(crate) domains: Direct,
    pub(crate) threads: Direct,
    pub(crate) timers: BTreeSet<Due>,
    pub(crate) kin: Kin,
    /// Children that WAIT has looked at.
    #[cfg(test)]
    pub(crate) looked_at: core::cell::Cell<u64>,
    /// Who waits for words in shared memory.
    pub(crate) futexes: Futexes,
    pub(crate) prefixes: Prefixes,
    pub(crate) clock: WallClock,
    /// Sessions that were opened at a login ([`crate::login`]).
    pub(crate) logins: u32,
    /// Processes that are to end, with their wait status: first the backlog, which ends in pieces, then those of the present message ([`crate::ending`]).
    pub(crate) doomed: VecDeque<(Slot, u32)>,
    pub(crate) backlog: usize,
    /// Forks that take long.
    pub(crate) under_way: crate::forks::Forks,
    /// `vm` has asked who shall end, and waits until the backlog has ended.
    pub(crate) exhausted: bool,
    /// Processes and threads of each real user.
    pub(crate) users: BTreeMap<u32, u32>,
    pub(crate) cgroups: Cgroups,
    /// POSIX timers of each real user.
    pub(crate) timers_of: BTreeMap<u32, u32>,
    /// Numbers of key rings, by the real user that had them made.
    pub(crate) key_rings_of: BTreeMap<u32, u32>,
    pub(crate) filters_paid: Paid,
    /// Threads in all.
    pub(crate) tasks: u32,
    /// Ends of processes that servers wait for.
    pub(crate) attended: u32,
    /// The first process.
    pub(crate) first: Slot,
    /// Its exit code is the machine's.
    pub(crate) exit_with_code: bool,
    /// What programs begin with.
    pub(crate) seeds: Supply,
    /// Tell the log what is executed.
    pub(crate) log_names: bool,
    /// How many processes asked to be the parent of orphans.
    pub(crate) subreapers: u32,
    /// Name spaces beside the first ones: how many there are, how many there ever were, and those that have files.
    pub(crate) counts: Rc<Counts>,
    pub(crate) spaces_made: u64,
    pub(crate) held: crate::spaces::Held,
    pub(crate) forks: u64,
    /// Counts users of records of processes.
    pub(crate) lives: u32,
    pub(crate) load: Load,
}

/// Answer with a result word.
pub fn done(value: i64) -> Result<Outcome, Errno> {
    Ok(Outcome::result(value))
}

impl<S: System> Manager<S> {
    /// `archive` holds the personality; `page` becomes the published prefix table.
    pub fn new(system: S, gifts: Gifts, archive: &'static [u8], page: &'static PrefixPage) -> Self {
        let mut manager = Manager {
            system,
            gifts,
            image: None,
            entries: Entries::default(),
            pristine: None,
            processes: Slab::new(),
            numbers: Numbers::default(),
            groups: Slab::new(),
            sessions: Slab::new(),
            domains: Direct::default(),
            threads: Direct::default(),
            timers: BTreeSet::new(),
            kin: Kin::default(),
            #[cfg(test)]
            looked_at: Default::default(),
            futexes: Futexes::default(),
            prefixes: Prefixes::new(page),
            clock: WallClock::default(),
            logins: 0,
            doomed: VecDeque::new(),
            backlog: 0,
            under_way: Default::default(),
            exhausted: false,
            users: BTreeMap::new(),
            cgroups: Cgroups::default(),
            timers_of: BTreeMap::new(),
            key_rings_of: BTreeMap::new(),
            filters_paid: Paid::new(),
            tasks: 0,
            attended: 0,
            first: NONE,
            exit_with_code: false,
            seeds: Supply::default(),
            log_names: false,
            subreapers: 0,
            counts: Rc::default(),
            spaces_made: 0,
            held: Default::default(),
            forks: 0,
            lives: 0,
            load: Load::default(),
        };
        match Image::find(archive) {
            Ok(image) => {
                manager.entries = image.entries;
                manager.image = Some(image);
            }
            Err(why) => manager.system.log(why.text()),
        }
        manager
    }

    /// The process whose domain sent this.
    pub(crate) fn caller(&self, message: &Received) -> Result<Slot, Errno> {
        let slot = self.domains.get(message.sender);
        if slot != NONE && self.processes[slot].domain.id == message.sender {
            Ok(slot)
        } else {
            Err(EPERM)
        }
    }

    /// The process that a pid argument means, 0 being the caller.
    pub(crate) fn named(&self, caller: Slot, pid: u64) -> Result<Slot, Errno> {
        if pid == 0 {
            return Ok(caller);
        }
        self.numbers.process(pid).ok_or(ESRCH)
    }

    /// The process that has the nucleus thread `id`.
    pub(crate) fn thread_owner(&self, id: u32) -> Option<Slot> {
        let slot = self.threads.get(id);
        (slot != NONE).then_some(slot)
    }

    /// Leave the caller waiting. False if its thread is not known (then there is nobody to wait).
    pub(crate) fn hold(&mut self, slot: Slot, token: Token, held: Held) -> bool {
        match self.processes[slot].thread(token as u32) {
            Some(thread) => {
                thread.held = held;
                thread.token = token;
                true
            }
            None => false,
        }
    }

    /// Let the holder of a held call go on.
    pub(crate) fn release(&mut self, slot: Slot, index: usize, words: [u64; 8]) {
        let mut words = words;
        if let (Some(space), Held::Vfork(_)) = (
            &self.processes[slot].pids,
            self.processes[slot].threads[index].held,
        ) {
            Self::outward_words(space, FORK, &mut words);
        }
        let thread = &mut self.processes[slot].threads[index];
        thread.held = Held::Nothing;
        let token = core::mem::take(&mut thread.token);
        self.system.reply(token, words);
    }

    /// `length` bytes at `offset` of the caller's out part.
    pub(crate) fn bytes(
        &mut self,
        message: &Received,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| ENOMEM)?;
        bytes.resize(length, 0);
        if length == 0 {
            return Ok(bytes);
        }
        match self.system.read(message.token, offset, &mut bytes) {
            Ok(n) if n == length => Ok(bytes),
            _ => Err(EFAULT),
        }
    }

    /// Write to the caller's in part; a part too short for it is an error.
    pub(crate) fn answer(&mut self, message: &Received, data: &[u8]) -> Result<(), Errno> {
        if data.is_empty() {
            return Ok(());
        }
        match self.system.write(message.token, 0, data) {
            Ok(n) if n == data.len() => Ok(()),
            _ => Err(EFAULT),
        }
    }

    // Children.

    pub(crate) fn adopt(&mut self, parent: Slot, child: Slot) {
        let place = self.kin.place();
        let last = self.processes[parent].last_child;
        self.processes[child].place = place;
        self.processes[child].parent = parent;
        self.processes[child].previous = last;
        self.processes[child].next = NONE;
        if last == NONE {
            self.processes[parent].first_child = child;
        } else {
            self.processes[last].next = child;
        }
        self.processes[parent].last_child = child;
        let (zombie, report) = self.counts(child);
        self.processes[parent].zombies += zombie;
        self.processes[parent].reports += report;
        self.kin_enters(child);
        self.count_child(parent);
    }

    pub(crate) fn disown(&mut self, child: Slot) {
        let (parent, next, previous) = {
            let c = &self.processes[child];
            (c.parent, c.next, c.previous)
        };
        self.kin_leaves(child);
        if previous == NONE {
            self.processes[parent].first_child = next;
        } else {
            self.processes[previous].next = next;
        }
        if next == NONE {
            self.processes[parent].last_child = previous;
        } else {
            self.processes[next].previous = previous;
        }
        let (zombie, report) = self.counts(child);
        self.processes[parent].zombies -= zombie;
        self.processes[parent].reports -= report;
        self.processes[child].parent = NONE;
        self.uncount_child(parent);
    }

    fn counts(&self, child: Slot) -> (u32, u32) {
        let c = &self.processes[child];
        (
            c.ended.is_some() as u32,
            (c.report != crate::process::Report::Nothing) as u32,
        )
    }

    // Users.

    pub(crate) fn count_user(&mut self, uid: u32, by: i32) {
        let count = self.users.entry(uid).or_default();
        *count = count.saturating_add_signed(by);
        if *count == 0 {
            self.users.remove(&uid);
        }
    }

    pub(crate) fn user_tasks(&self, uid: u32) -> u32 {
        self.users.get(&uid).copied().unwrap_or(0)
    }

    pub(crate) fn count_timers(&mut self, uid: u32, by: i32) {
        if by == 0 {
            return;
        }
        let count = self.timers_of.entry(uid).or_default();
        *count = count.saturating_add_signed(by);
        if *count == 0 {
            self.timers_of.remove(&uid);
        }
    }

    pub(crate) fn user_timers(&self, uid: u32) -> u32 {
        self.timers_of.get(&uid).copied().unwrap_or(0)
    }

    /// The parent's choice: SIGCHLD is ignored, or its children are to leave no zombies.
    pub(crate) fn wants_no_zombies(&self, parent: Slot) -> bool {
        self.processes[parent].dispositions.no_zombies
    }

    pub(crate) fn is_first(&self, slot: Slot) -> bool {
        slot == self.first
    }

    /// Standard signals that the first process does not catch do nothing to it.
    pub(crate) fn first_is_immune(&self, slot: Slot, number: u32) -> bool {
        let process = &self.processes[slot];
        let caught = process.dispositions.caught & signal::bit(number) != 0;
        let of_space = process.pids.as_ref().is_some_and(|pids| pids.is_init(slot));
        // (SIGKILL and SIGSTOP come to that one from outside its PID name space only.)
        let immune = self.is_first(slot) || of_space && UNSTOPPABLE & signal::bit(number) == 0;
        immune && !caught
    }
}
