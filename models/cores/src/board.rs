//! Simulated processors: each is a thread of the model with an interrupt controller that keeps two kinds of interrupt, and does not lose one that comes between a look and a sleep. A
//! deadlock or a lost wake-up is a state in which nobody can go on: loom finds it.

use crate::atomic::Ordering::{Acquire, Relaxed};
use crate::cores::MOST;
use crate::lock::TicketLock;
use crate::requests::{Requests, Wires};
use loom::sync::{Condvar, Mutex, MutexGuard};
use std::cell::Cell;
use std::rc::Rc;

/// Interrupts that wait to be taken.
#[derive(Clone, Copy, Default)]
struct Pending {
    kick: bool,
    alert: bool,
    /// The core waits for one.
    waits: bool,
    /// All is over: whoever has nothing to do need not wait any more.
    over: bool,
}

struct Line {
    pending: Mutex<Pending>,
    came: Condvar,
}

impl Line {
    fn wait<'a>(&'a self, mut pending: MutexGuard<'a, Pending>) -> MutexGuard<'a, Pending> {
        pending.waits = true;
        let mut pending = self.came.wait(pending).expect("no thread panics with it");
        pending.waits = false;
        pending
    }
}

/// What interrupted a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Come in.
    Kicked,
    /// A request was answered.
    Served,
    Over,
}

/// Faults that can be put into the processors or into what they do. Each must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An interrupt that comes while nobody sleeps is gone.
    LosesEarlyAlert,
    /// A core that sleeps before the lock takes interrupts without answering requests.
    SleepsDeaf,
    /// A request is answered by doing nothing.
    ObeysNot,
    /// Translations are not forgotten before others come in.
    HandsOnEarly,
    /// The registers are stored after the core has said that it is inside.
    StoresLate,
    /// Code that takes the lock out of turn looks whether somebody is in, and then says that it is, in two steps.
    PassesInTwoSteps,
}

/// What is done on a core when it is asked.
pub type Obey = Box<dyn Fn(usize, u32)>;

/// The machine: the code under test, and wires between the cores.
pub struct Board {
    pub lock: TicketLock,
    pub requests: Requests,
    lines: [Line; MOST],
    obey: Obey,
    looks: u32,
    fault: Option<Fault>,
}

impl Board {
    /// `looks`: how often who waits for the lock looks before he sleeps. `obey` does what is wanted of a core, on that core.
    pub fn new(looks: u32, fault: Option<Fault>, obey: Obey) -> Rc<Board> {
        let board = Board {
            lock: TicketLock::new(),
            requests: Requests::new(),
            lines: std::array::from_fn(|_| Line {
                pending: Mutex::new(Pending::default()),
                came: Condvar::new(),
            }),
            obey,
            looks,
            fault,
        };
        board.touch();
        Rc::new(board)
    }

    /// What is there before all cores start, as a static is, must have come into being before them.
    fn touch(&self) {
        let (lock, requests) = (&self.lock, &self.requests);
        for number in [
            &lock.next,
            &lock.serving,
            &lock.busy,
            &lock.urgent,
            &requests.sleepers,
        ] {
            number.load(Relaxed);
        }
        for mailbox in &requests.mailboxes {
            mailbox.inside.load(Relaxed);
            mailbox.wanted.load(Relaxed);
            mailbox.asleep.load(Relaxed);
        }
    }

    /// As core number `core` sees it.
    pub fn core(self: &Rc<Board>, core: usize) -> Core {
        Core {
            board: self.clone(),
            own: core,
            asleep: Cell::new(false),
        }
    }

    fn raise(&self, core: usize, what: impl FnOnce(&mut Pending)) {
        let line = &self.lines[core];
        let mut pending = line.pending.lock().expect("no thread panics with it");
        what(&mut pending);
        line.came.notify_all();
    }

    /// No core waits for work any more.
    pub fn over(&self) {
        for core in 0..MOST {
            self.raise(core, |pending| pending.over = true);
        }
    }
}

/// One core, as the code that runs on it.
pub struct Core {
    board: Rc<Board>,
    own: usize,
    /// In [`Wires::sleep`] or before it.
    asleep: Cell<bool>,
}

impl Core {
    /// Into the nucleus.
    pub fn come_in(&self) {
        let board = &self.board;
        board.requests.come_in(self, &board.lock, self.own);
    }

    /// Out of it.
    pub fn go_out(&self) {
        let board = &self.board;
        board.requests.go_out(self, &board.lock, self.own);
    }

    /// Past the others, as code of a portal does: `inside` while nobody else is in, or not at all.
    pub fn pass(&self, inside: impl FnOnce()) -> bool {
        let lock = &self.board.lock;
        let had = if self.board.fault == Some(Fault::PassesInTwoSteps) {
            let free = lock.busy.load(Acquire) == 0;
            lock.busy.store(1, Relaxed);
            free
        } else {
            lock.pass()
        };
        if had {
            inside();
            lock.passed();
        }
        had
    }

    pub fn bring_in(&self, core: usize) {
        self.board.requests.bring_in(self, core);
    }

    pub fn shoot_down(&self, stale: u32) {
        self.board.requests.shoot_down(self, stale);
    }

    pub fn ask(&self, core: usize, wanted: u32) {
        self.board.requests.ask(self, core, wanted);
    }

    /// A program, or the idle loop, with interrupts on: until one comes (`wait`), or none is there.
    pub fn program(&self, wait: bool) -> Option<Event> {
        let line = &self.board.lines[self.own];
        let mut pending = line.pending.lock().expect("no thread panics with it");
        loop {
            if core::mem::take(&mut pending.alert) {
                drop(pending);
                self.board.requests.serve(self, self.own);
                return Some(Event::Served);
            }
            if core::mem::take(&mut pending.kick) {
                return Some(Event::Kicked);
            }
            if pending.over {
                return Some(Event::Over);
            }
            if !wait {
                return None;
            }
            pending = line.wait(pending);
        }
    }
}

impl Wires for Core {
    fn looks(&self) -> u32 {
        self.board.looks
    }

    fn kick(&self, core: usize) {
        self.board.raise(core, |pending| pending.kick = true);
    }

    fn alert(&self, core: usize) {
        let loses = self.board.fault == Some(Fault::LosesEarlyAlert);
        self.board
            .raise(core, |pending| pending.alert |= pending.waits || !loses);
    }

    fn alerts_only(&self, only: bool) {
        self.asleep.set(only);
    }

    fn sleep(&self) {
        assert!(self.asleep.get(), "kicks are not kept away");
        let line = &self.board.lines[self.own];
        let mut pending = line.pending.lock().expect("no thread panics with it");
        while !core::mem::take(&mut pending.alert) {
            pending = line.wait(pending);
        }
        drop(pending);
        if self.board.fault != Some(Fault::SleepsDeaf) {
            self.board.requests.serve(self, self.own);
        }
    }

    fn pause(&self) {
        loom::thread::yield_now();
    }

    fn obey(&self, core: usize, wanted: u32) {
        assert_eq!(core, self.own);
        if self.board.fault != Some(Fault::ObeysNot) {
            (self.board.obey)(core, wanted);
        }
    }
}
