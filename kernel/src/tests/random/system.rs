//! Steps of the random game that reach beyond messages: domains that hold portals to each other's domains and threads, interrupts that drivers bind, and what only `init` does: give a
//! domain another space, watch it, empty its table.

use super::*;
use cairn_abi::service::{interrupt, machine};
use cairn_abi::PortalKind as K;

#[derive(Clone, Debug)]
pub enum System {
    /// An operation on a domain that the current one has a portal to.
    Domain {
        which: u8,
        op: u8,
        who: u8,
        value: u8,
    },
    Thread {
        which: u8,
        op: u8,
        value: u8,
    },
    Driver {
        which: u8,
        op: u8,
        channel: u8,
    },
    Interrupt {
        line: u8,
    },
    /// By `init`: on the domain of this number.
    Init {
        who: u8,
        act: u8,
        value: u8,
    },
}

pub fn step() -> impl Strategy<Value = System> {
    prop_oneof![
        4 => (any::<u8>(), 1u8..18, any::<u8>(), any::<u8>())
            .prop_map(|(which, op, who, value)| System::Domain { which, op, who, value }),
        3 => (any::<u8>(), 1u8..10, any::<u8>())
            .prop_map(|(which, op, value)| System::Thread { which, op, value }),
        2 => (any::<u8>(), 1u8..4, any::<u8>())
            .prop_map(|(which, op, channel)| System::Driver { which, op, channel }),
        3 => (0u8..3).prop_map(|line| System::Interrupt { line }),
        3 => (any::<u8>(), 0u8..8, any::<u8>())
            .prop_map(|(who, act, value)| System::Init { who, act, value }),
    ]
}

/// Lines that drivers share.
const LINE: u32 = 20;

/// What the domains get for these steps. Nobody's threads may be as important as `init`.
pub fn furnish(w: &mut World, doms: &[Dom]) {
    let init = w.init;
    for (i, dom) in doms.iter().enumerate() {
        w.ok(init, dom.slot, domain::CONFIGURE, &[(i % 2) as u64, 120]);
        // Its own domain, to which it may do little, and for two of them the next one's, to which they may do all.
        let own = rights::DEFAULT as u64;
        w.ok(
            init,
            dom.slot,
            domain::PORTAL_PUT,
            &[dom.slot as u64, AUTO, own],
        );
        if i == 1 || i == 2 {
            let next = doms[(i + 1) % doms.len()].slot as u64;
            let all = rights::ALL as u64;
            w.ok(init, dom.slot, domain::PORTAL_PUT, &[next, AUTO, all]);
        }
        let words = [(LINE + i as u32 % 2) as u64, AUTO, machine::SHARED];
        let made = w.ok(init, MACHINE, machine::INTERRUPT, &words)[0];
        w.ok(init, dom.slot, domain::PORTAL_PUT, &[made, AUTO, 0xffff]);
        w.close_own(made as u32);
    }
}

impl Play {
    pub fn perform_system(&mut self, step: System) {
        let outside = matches!(step, System::Interrupt { .. } | System::Init { .. });
        if !outside && self.w.current().is_none() {
            return;
        }
        match step {
            System::Domain {
                which,
                op,
                who,
                value,
            } => self.on_domain(which, op, who, value),
            System::Thread { which, op, value } => {
                let slot = self.slot_of(K::Thread, which);
                let words = [value as u64 & 127, 1, 0, 0, 0, 0, 0, 0];
                self.raw(slot, op, 0, words, [0; 4]);
            }
            System::Driver { which, op, channel } => {
                let slot = self.slot_of(K::Interrupt, which);
                let receive = self.slot_of(K::Receive, channel) as u64;
                debug_assert!(op <= interrupt::UNBIND);
                self.raw(slot, op, 0, [receive, 77, 0, 0, 0, 0, 0, 0], [0; 4]);
            }
            System::Interrupt { line } => {
                self.w.interrupt(LINE + line as u32);
                self.w.settle();
            }
            System::Init { who, act, value } => self.init_rules(who, act, value),
        }
    }

    fn on_domain(&mut self, which: u8, op: u8, who: u8, value: u8) {
        let slot = self.slot_of(K::Domain, which);
        let (id, number) = (self.pick(who), value as u64);
        let mut words = [number, 0, 0, 0, 0, 0, 0, 0];
        match op {
            // The drastic ones seldom, or soon nobody would be left.
            domain::DESTROY | domain::KILL_OTHERS if value > 20 => return,
            domain::THREAD_CREATE => {
                let slot = if value & 1 == 0 { AUTO } else { 0 };
                words = [RUNNING, 0x9000, 0, 0, 0, number & 127, slot, 0];
            }
            domain::PORTAL_PUT => {
                let kinds = [K::Channel, K::Receive, K::Thread, K::Domain];
                words[0] = self.slot_of(kinds[value as usize % 4], who) as u64;
                words[1] = if who & 1 == 0 { AUTO } else { number };
                words[2] = 0xffff;
            }
            domain::PORTAL_TAKE => {
                words[0] = 64 + number % 32;
                words[1] = if who & 1 == 0 { AUTO } else { number };
                words[2] = 0xffff;
            }
            domain::TABLE_COPY => {
                words = [self.slot_of(K::Domain, who) as u64, 0, 0, 0, 0, 0, 0, 0]
            }
            domain::WATCH => words[0] = self.slot_of(K::Receive, who) as u64,
            domain::KILL_OTHERS => words[0] = id,
            domain::THREAD_CONTROL => words = [id, number % 10, number & 127, 1, 0, 0, 0, 0],
            domain::SET_TURN => words[2] = self.upcall_entry(number),
            domain::CONFIGURE => words = [number & 1, 120, 0, 0, 0, 0, 0, 0],
            _ => {}
        }
        let Some(t) = self.w.current() else { return };
        self.raw(slot, op, 0, words, [0; 4]);
        if op == domain::THREAD_CREATE && self.w.current() == Some(t) {
            if let Ok(words) = self.w.result(t) {
                self.threads.push(words[1] as u32);
            }
        }
    }

    /// An upcall entry, or none. A ready thread that was poked while it had no entry hears of it only when it next enters the nucleus or is preempted, which is
    /// no state that the invariants know: none is given then.
    fn upcall_entry(&mut self, wish: u64) -> u64 {
        self.w.k.settle_entry();
        let k = &self.w.k;
        let waits = |t| {
            let thread = &k.threads[t];
            thread.poked && matches!(thread.state, State::Ready | State::Stopped)
        };
        match k.threads.all().any(waits) {
            true => 0,
            false => 0x7000_0200 * (wish & 1),
        }
    }

    fn init_rules(&mut self, who: u8, act: u8, value: u8) {
        if self.w.state(self.w.init) != State::Parked {
            return;
        }
        self.w.recall();
        let init = self.w.init;
        let dom = self.doms[who as usize % DOMAINS];
        let other = self.doms[value as usize % DOMAINS];
        let own = self.own[value as usize % DOMAINS] as u64;
        let (operation, words) = match act {
            0 => (domain::SET_SPACE, [other.space as u64, 0, 0]),
            1 => (domain::PORTAL_REMOVE, [64 + value as u64 % 32, 0, 0]),
            2 if value < 60 => (domain::KILL_OTHERS, [self.pick(who), 0, 0]),
            3 => (domain::WATCH, [own, 99, 0]),
            4 => (domain::CLOSE_ON_EXEC, [0, 0, 0]),
            5 => (domain::SET_TURN, [0, 0, self.upcall_entry(value.into())]),
            6 => (domain::SET_LABEL, [value as u64, 0, 0]),
            _ => (domain::INFO, [0; 3]),
        };
        self.w.go(init, dom.slot, operation, 0, &words);
        assert_eq!(self.w.current(), Some(init));
        self.w.rest();
        self.w.settle();
    }
}
