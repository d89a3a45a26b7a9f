//! How cores come into the nucleus one at a time, and what the one that is in it asks of the others. The one that asks has the nucleus lock, so there is one at a time; the one
//! that is asked answers in an interrupt, without the lock, wherever it is: in a program, idle, or while it waits for the lock itself. Then its interrupts are off, and it looks
//! here again and again; after a while it sleeps, for this one interrupt only, until it is its turn or somebody asks. (A core that waits is soon served on a machine of its own,
//! but not on one whose processors are threads of a busy host.)
//!
//! A request's bit is set by the one that asks and cleared, when all is done, by the one that was asked; who asks waits for that before anything else. What goes with it is the
//! machine half's: written before the bit is set, read after it was seen.
//!
//! Nothing but atomics and [`Wires`]: `models/cores` runs this very code and that of [`crate::lock`] in all orders.

use crate::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Release, SeqCst},
};
use crate::cores::MOST;
use crate::lock::TicketLock;

/// Requests, a bit each: forget the translations of the space in use; store the float registers and bases; use other tables; take `syscall` at another entry.
pub const FLUSH: u32 = 1;
pub const FETCH: u32 = 2;
pub const USE_ROOT: u32 = 4;
pub const ENTER_AT: u32 = 8;
/// Forget instructions that were fetched; who has answered has also left the code of entries in which it was.
pub const PASS: u32 = 16;
/// Forget all translations, also those that all spaces have.
pub const EVERYTHING: u32 = 32;

/// No ticket.
const AWAKE: u64 = u64::MAX;

/// What cores have between them, as one of them uses it.
pub trait Wires {
    /// How often a core looks before it sleeps.
    fn looks(&self) -> u32;

    /// Interrupt a core: it comes into the nucleus, soon.
    fn kick(&self, core: usize);
    /// Interrupt a core: it looks here ([`Requests::serve`]), soon, even while it sleeps before the lock.
    fn alert(&self, core: usize);
    /// No interrupt but [`Wires::alert`] comes to this core (or all come again).
    fn alerts_only(&self, only: bool);
    /// Wait for an interrupt and take it; one that came before is not lost.
    fn sleep(&self);
    /// Between two looks.
    fn pause(&self);
    /// Do what is wanted of this core.
    fn obey(&self, core: usize, wanted: u32);
}

pub(crate) struct Mailbox {
    /// The core is in the nucleus: its thread's registers are stored, and it does nothing before it has the lock.
    pub(crate) inside: AtomicBool,
    pub(crate) wanted: AtomicU32,
    /// The ticket with which it sleeps before the lock.
    pub(crate) asleep: AtomicU64,
}

/// The mailboxes of all cores.
pub struct Requests {
    pub(crate) mailboxes: [Mailbox; MOST],
    /// How many sleep before the lock.
    pub(crate) sleepers: AtomicU32,
}

impl Requests {
    pub const fn new() -> Requests {
        Requests {
            mailboxes: [const {
                Mailbox {
                    inside: AtomicBool::new(false),
                    wanted: AtomicU32::new(0),
                    asleep: AtomicU64::new(AWAKE),
                }
            }; MOST],
            sleepers: AtomicU32::new(0),
        }
    }

    /// Of a core; they are numbered below [`MOST`].
    #[inline(always)]
    fn mailbox(&self, core: usize) -> &Mailbox {
        &self.mailboxes[core % MOST]
    }

    /// This core comes into the nucleus, the registers of its thread stored, and has the lock afterwards.
    #[inline]
    pub fn come_in(&self, wires: &impl Wires, lock: &TicketLock, core: usize) {
        self.mailbox(core).inside.store(true, SeqCst);
        let mut times = 0;
        lock.acquire(|ticket| {
            self.wait_before(wires, lock, ticket, core, times);
            times += 1;
        });
    }

    /// It is done: others may come in. Whatever was changed that others have must be forgotten by them already ([`Requests::shoot_down`]).
    #[inline]
    pub fn go_out(&self, wires: &impl Wires, lock: &TicketLock, core: usize) {
        self.mailbox(core).inside.store(false, SeqCst);
        let ticket = lock.release();
        if self.sleepers.load(SeqCst) != 0 {
            self.wake_sleeper(wires, ticket);
        }
    }

    /// What a core does while it waits for the lock, the `times`-th time.
    fn wait_before(
        &self,
        wires: &impl Wires,
        lock: &TicketLock,
        ticket: u32,
        core: usize,
        times: u32,
    ) {
        self.serve(wires, core);
        if times < wires.looks() {
            wires.pause();
        } else {
            self.sleep_before(wires, lock, ticket, core);
        }
    }

    #[cold]
    fn sleep_before(&self, wires: &impl Wires, lock: &TicketLock, ticket: u32, core: usize) {
        self.sleepers.fetch_add(1, SeqCst);
        self.mailbox(core).asleep.store(ticket as u64, SeqCst);
        wires.alerts_only(true);
        while !lock.is_turn(ticket) {
            wires.sleep();
        }
        wires.alerts_only(false);
        self.mailbox(core).asleep.store(AWAKE, SeqCst);
        self.sleepers.fetch_sub(1, SeqCst);
    }

    /// It is this ticket's turn: wake who sleeps with it.
    #[cold]
    fn wake_sleeper(&self, wires: &impl Wires, ticket: u32) {
        let sleeps = |mailbox: &Mailbox| mailbox.asleep.load(SeqCst) == ticket as u64;
        if let Some(core) = self.mailboxes.iter().position(sleeps) {
            wires.alert(core);
        }
    }

    /// Do what others want of this core.
    #[inline]
    pub fn serve(&self, wires: &impl Wires, core: usize) {
        let mailbox = self.mailbox(core);
        let wanted = mailbox.wanted.load(Acquire);
        if wanted != 0 {
            wires.obey(core, wanted);
            mailbox.wanted.fetch_and(!wanted, Release);
        }
    }

    /// Wait until the core is in the nucleus: from then on it waits for the lock. The rest is for whoever has that.
    pub fn bring_in(&self, wires: &impl Wires, core: usize) {
        let inside = &self.mailbox(core).inside;
        if !inside.load(SeqCst) {
            wires.kick(core);
            while !inside.load(SeqCst) {
                wires.pause();
            }
        }
    }

    /// Have a core do something, and wait until it is done.
    #[inline(never)]
    pub fn ask(&self, wires: &impl Wires, core: usize, wanted: u32) {
        self.want(wires, core, wanted);
        self.wait_for(wires, core);
    }

    fn want(&self, wires: &impl Wires, core: usize, wanted: u32) {
        self.mailbox(core).wanted.fetch_or(wanted, AcqRel);
        wires.alert(core);
    }

    fn wait_for(&self, wires: &impl Wires, core: usize) {
        while self.mailbox(core).wanted.load(Acquire) != 0 {
            wires.pause();
        }
    }

    /// These cores (a bit each) may hold translations that are not true any more. When this is done they do not: only then may anything that was changed be handed on.
    #[cold]
    pub fn shoot_down(&self, wires: &impl Wires, stale: u32) {
        let cores = || (0..MOST).filter(|core| stale & 1 << core != 0);
        for core in cores() {
            self.want(wires, core, FLUSH);
        }
        for core in cores() {
            self.wait_for(wires, core);
        }
    }
}

impl Default for Requests {
    fn default() -> Self {
        Requests::new()
    }
}
