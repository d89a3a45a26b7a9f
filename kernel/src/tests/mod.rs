//! Tests of the nucleus on the simulated machine. Threads are played by the test: [`World::go`] performs one `syscall` of the current
//! thread, and after each entry every invariant is checked ([`invariants`]).

mod common;
mod cores;
mod cost;
mod deaths;
mod endings;
mod faults;
mod frames_and_devices;
mod hasty;
mod hasty_deferred;
mod hasty_memory;
mod hasty_rights;
mod interrupts;
mod invariants;
mod many;
mod messages;
mod one_page;
mod partition_turns;
mod partitions;
mod parts;
mod pokes;
mod portals;
mod priority;
mod quick;
mod quick_parts;
mod random;
mod replay;
mod rights_model;
mod semaphores;
mod signatures;
mod tracing;
mod windows;

use crate::arch::sim::Sim;
use crate::arch::Frame;
use crate::hasty::Handlers;
use crate::pool::{DomainRef, ThreadRef};
use crate::queue::LISTS;
use crate::thread::State;
use crate::timer::Timers;
use crate::{FrameKind, Kernel, Storage};
use cairn_abi::layout::init_slot;
use cairn_abi::service::memory::{pool, prot};
use cairn_abi::service::{current, domain, memory, receive, thread, AUTO};
use cairn_abi::{flag, rights, Error};
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

pub const MACHINE: u32 = init_slot::MACHINE;
pub const MEMORY: u32 = init_slot::MEMORY;
/// Where every test domain has pages for its buffers.
pub const BUFFER: u64 = 0x40_0000;
pub const BUFFER_PAGES: u64 = 8;
/// Instruction pointer of a program that is not inside a call, and of its syscall instruction.
pub const RUNNING: u64 = 0x5000;
pub const SYSCALL: u64 = 0x1000;
pub const FRAMES: u32 = 1024;
const FIRST_USER: Frame = 300;

pub struct World {
    pub k: Kernel<Sim>,
    pub init: ThreadRef,
    pub next_frame: Frame,
    /// Check all invariants after each entry.
    pub checked: bool,
    /// Entries get code of their own at their first use.
    pub quick: bool,
    /// What the last entry returned about the registers.
    pub full: bool,
}

/// A domain as `init` sees it.
#[derive(Clone, Copy, Debug)]
pub struct Dom {
    /// Slots in `init`'s table.
    pub slot: u32,
    pub space: u32,
    pub id: u32,
    pub d: DomainRef,
}

impl World {
    /// `init` runs at the highest priority; `pages` frames in each pool.
    pub fn with_pools(pages: u32) -> World {
        World::on_machine(Sim::new(FRAMES as usize), pages)
    }

    /// The same on a machine of [`FRAMES`] frames.
    pub fn on_machine(sim: Sim, pages: u32) -> World {
        let storage = Storage {
            frames: Box::leak(vec![0; FRAMES as usize].into_boxed_slice()),
            log: Box::leak(vec![0; 4096].into_boxed_slice()),
            trace: Box::leak(vec![[0; 5]; 100].into_boxed_slice()),
            handlers: Box::leak(Box::new(Handlers::new())),
            ready: Box::leak(Box::new(LISTS)),
            timers: Box::leak(Box::new(Timers::NONE)),
        };
        let mut k = Kernel::new(sim, storage);
        k.boot_frames(0, FIRST_USER, FrameKind::Nucleus);
        k.boot_range(FIRST_USER, FRAMES - FIRST_USER);
        k.boot_system_page(10);
        let mut frame = 20;
        for kind in pool::ALL {
            for _ in 0..pages {
                assert!(k.boot_pool(kind as usize, frame));
                frame += 1;
            }
        }
        assert!(k.boot_space());
        for _ in 0..8 {
            k.boot_tables(frame);
            frame += 1;
        }
        assert!(frame < FIRST_USER);
        let mut next_frame = FIRST_USER;
        for page in 0..BUFFER_PAGES {
            let at = BUFFER + page * 4096;
            k.boot_map(at, next_frame, prot::READ | prot::WRITE)
                .expect("mapped");
            next_frame += 1;
        }
        assert!(k.boot_domain(RUNNING, 0x8000, 1, 2, 3));
        let resume = k.resume();
        assert!(!resume.registers.is_null());
        let init = k.dispatch.current.expect("init runs");
        k.threads[init].assigned = 255;
        k.threads[init].base = 255;
        k.refresh(init);
        k.resume();
        let world = World {
            k,
            init,
            next_frame,
            checked: true,
            quick: false,
            full: false,
        };
        world.check();
        world
    }

    pub fn new() -> World {
        World::with_pools(16)
    }

    /// With so many cores; `init` runs on the first.
    pub fn with_cores(count: usize) -> World {
        let mut world = World::new();
        for core in 1..count {
            assert_eq!(world.k.add_core(Box::leak(Box::new(LISTS))), Some(core));
            world.on(core);
            assert!(world.k.resume().registers.is_null());
        }
        world.on(0);
        world.check();
        world
    }

    /// From now on this core does what is done.
    pub fn on(&mut self, core: usize) {
        self.k.come_in(core);
    }

    /// All cores that were told to come in do so.
    pub fn answer_calls(&mut self) {
        let here = self.k.cores.here;
        for _ in 0..1000 {
            let Some(core) = self.k.arch.kicked.pop_first() else {
                self.on(here);
                return;
            };
            self.on(core);
            self.k.called();
            self.check();
        }
        panic!("cores call each other for ever");
    }

    pub fn check(&self) {
        use crate::arch::Arch;
        let settled = (0..self.k.cores.count).all(|core| self.k.arch.unsettled_on(core).is_none());
        if self.checked && settled {
            invariants::check(&self.k);
        }
    }

    pub fn current(&self) -> Option<ThreadRef> {
        self.k.who_runs()
    }

    pub fn frame(&mut self) -> Frame {
        self.next_frame += 1;
        assert!(self.next_frame <= FRAMES);
        self.next_frame - 1
    }

    pub fn state(&self, t: ThreadRef) -> State {
        self.k.threads[t].state
    }

    pub fn effective(&self, t: ThreadRef) -> u8 {
        self.k.threads[t].effective
    }

    /// Enter the nucleus with the current thread's registers, as often as the nucleus wants it.
    pub fn enter(&mut self) {
        let t = self.current().expect("somebody runs");
        self.k.threads[t].registers.rip = SYSCALL;
        self.settle();
    }

    /// Whoever is current and stands before its `syscall` executes it.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            match self.current() {
                Some(t) if self.k.threads[t].registers.rip == SYSCALL => {
                    self.k.threads[t].registers.rip = SYSCALL + 2;
                    self.traverse();
                    self.follow();
                    self.check();
                }
                _ => return,
            }
        }
        panic!("a syscall that never ends");
    }

    /// The timer comes for the rests of long chains.
    pub fn follow(&mut self) {
        while self.k.unrefreshed[0] != 0 {
            self.k.timer();
        }
    }

    /// A source interrupts whoever runs.
    pub fn interrupt(&mut self, source: u32) {
        let quick = self.quick && self.k.quick_interrupt(source);
        self.full = !quick && self.k.interrupt(source).full != 0;
        self.check();
    }

    /// A function of its own, so that an instruction counter can find it.
    #[inline(never)]
    fn traverse(&mut self) {
        if self.k.arch.twins {
            self.full = self.k.traced_syscall().full != 0;
            return;
        }
        if self.quick && self.k.gate() {
            return;
        }
        if self.k.cores.count > 1 {
            self.on(self.k.cores.here);
        }
        self.full = self.k.syscall().full != 0;
    }

    /// One syscall of `t`, which must be current.
    pub fn go(&mut self, t: ThreadRef, slot: u32, op: u8, flags: u64, words: &[u64]) {
        assert_eq!(self.current(), Some(t), "not the current thread");
        let registers = &mut self.k.threads[t].registers;
        let mut w = [0; 8];
        w[..words.len()].copy_from_slice(words);
        registers.set_words(w);
        registers.rax = slot as u64 | (op as u64) << 32 | flags;
        self.enter();
    }

    pub fn result(&self, t: ThreadRef) -> Result<[u64; 8], Error> {
        let registers = &self.k.threads[t].registers;
        match Error::from_code(registers.rax as u8) {
            None => Ok(registers.words()),
            Some(error) => Err(error),
        }
    }

    /// A service that must succeed without a switch.
    pub fn ok(&mut self, t: ThreadRef, slot: u32, op: u8, words: &[u64]) -> [u64; 8] {
        self.go(t, slot, op, 0, words);
        self.result(t).expect("service succeeds")
    }

    pub fn err(&mut self, t: ThreadRef, slot: u32, op: u8, words: &[u64]) -> Error {
        self.go(t, slot, op, 0, words);
        self.result(t).expect_err("service fails")
    }

    /// By `init`, through the Memory portal.
    pub fn memory(&mut self, op: u8, words: &[u64]) -> [u64; 8] {
        self.ok(self.init, MEMORY, op, words)
    }

    pub fn map(&mut self, dom: Dom, address: u64, bits: u64) -> Frame {
        let frame = self.frame();
        self.memory(
            memory::MAP,
            &[dom.space as u64, address, frame as u64, 1, bits],
        );
        frame
    }

    /// A domain with a space of its own, [`BUFFER_PAGES`] pages at [`BUFFER`], and no pager.
    pub fn domain(&mut self) -> Dom {
        self.domain_with_pager(AUTO, 0)
    }

    pub fn domain_with_pager(&mut self, pager: u64, badge: u64) -> Dom {
        self.domain_of(&[AUTO, pager, badge])
    }

    /// A domain in the space that SPACE_CREATE makes with these words.
    pub fn domain_of(&mut self, words: &[u64]) -> Dom {
        let space = self.memory(memory::SPACE_CREATE, words)[0];
        let first = self.next_frame;
        self.next_frame += 5;
        self.memory(memory::GIVE_TABLES, &[space, first as u64, 5]);
        let w = self.memory(memory::DOMAIN_CREATE, &[space, AUTO]);
        let dom = Dom {
            slot: w[0] as u32,
            space: space as u32,
            id: w[1] as u32,
            d: self.k.domains.lookup(w[1] as u32).expect("made"),
        };
        for page in 0..BUFFER_PAGES {
            self.map(dom, BUFFER + page * 4096, prot::READ | prot::WRITE);
        }
        dom
    }

    /// A thread of `dom`, started.
    pub fn thread(&mut self, dom: Dom, priority: u8) -> ThreadRef {
        let init = self.init;
        let w = self.ok(
            init,
            dom.slot,
            domain::THREAD_CREATE,
            &[RUNNING, 0x9000, 0, 0, 0, priority as u64, 0],
        );
        let id = w[1];
        self.ok(
            init,
            dom.slot,
            domain::THREAD_CONTROL,
            &[id, thread::START as u64],
        );
        self.k.threads.lookup(id as u32).expect("made")
    }

    pub fn id(&self, t: ThreadRef) -> u64 {
        self.k.threads.id(t) as u64
    }

    /// A channel whose receive right is in `server`'s table. Returns the slot there and `init`'s own slot.
    pub fn channel(&mut self, server: Dom) -> (u32, u32) {
        let init = self.init;
        let own = self.ok(init, 0, current::CHANNEL_CREATE, &[])[0];
        let all = rights::ALL as u64;
        let there = self.ok(init, server.slot, domain::PORTAL_PUT, &[own, AUTO, all])[0];
        (there as u32, own as u32)
    }

    /// A portal with `badge` to the channel of `init`'s slot `own`, in `client`'s table only.
    pub fn portal(&mut self, own: u32, client: Dom, badge: u64) -> u32 {
        let init = self.init;
        let all = rights::DEFAULT as u64;
        let made = self.ok(init, own, receive::MAKE_PORTAL, &[badge, all, AUTO])[0];
        let there = self.ok(init, client.slot, domain::PORTAL_PUT, &[made, AUTO, all])[0];
        self.ok(init, 0, current::PORTAL_CLOSE, &[made]);
        there as u32
    }

    /// Two domains, a channel of the first, and the second's portal to it.
    pub fn pair(&mut self) -> (Dom, Dom, u32, u32) {
        let (server, client) = (self.domain(), self.domain());
        let (receive, own) = self.channel(server);
        let portal = self.portal(own, client, 7);
        (server, client, receive, portal)
    }

    /// Channels that somebody may receive from (the places of others wait for the last portal).
    pub fn living_channels(&self) -> usize {
        let channels = &self.k.channels;
        channels.all().filter(|&c| channels[c].holders != 0).count()
    }

    pub fn close_own(&mut self, slot: u32) {
        self.ok(self.init, 0, current::PORTAL_CLOSE, &[slot as u64]);
    }

    /// `init` leaves the stage.
    pub fn rest(&mut self) {
        let init = self.init;
        self.go(init, 0, current::PARK, 0, &[]);
    }

    /// `init` comes back (it preempts everybody).
    pub fn recall(&mut self) {
        let init = self.init;
        assert_eq!(self.state(init), State::Parked);
        self.k.settle_entry();
        self.on(self.k.threads[init].core as usize);
        self.k.finish(init, 0);
        self.full = self.k.resume().full != 0;
        self.check();
        assert_eq!(self.current(), Some(init));
    }

    /// Time passes, and the timer comes if it was armed for then.
    pub fn pass_time(&mut self, ns: u64) {
        self.k.arch.time += ns;
        for _ in 0..100 {
            match self.k.arch.timer {
                Some(at) if at <= self.k.arch.time => {
                    self.k.arch.timer = None;
                    self.k.timer();
                    self.check();
                }
                _ => break,
            }
        }
        self.follow();
        self.settle();
    }

    /// Bytes of a domain's memory.
    pub fn poke_memory(&mut self, dom: Dom, address: u64, bytes: &[u8]) {
        use crate::arch::Arch;
        let root = self.k.spaces[self.k.domains[dom.d].space]
            .root
            .expect("root");
        for (i, byte) in bytes.iter().enumerate() {
            let at = address + i as u64;
            let frame = self.k.arch.query(root, at).expect("mapped").frame;
            self.k.arch.frame(frame)[(at & 4095) as usize] = *byte;
        }
    }

    pub fn peek_memory(&mut self, dom: Dom, address: u64, len: usize) -> Vec<u8> {
        use crate::arch::Arch;
        let root = self.k.spaces[self.k.domains[dom.d].space]
            .root
            .expect("root");
        let mut bytes = vec![0; len];
        self.k
            .arch
            .read_user(root, address, &mut bytes)
            .expect("mapped");
        bytes
    }

    /// `t` receives on `slot`.
    pub fn receive(&mut self, t: ThreadRef, slot: u32) {
        self.go(t, slot, receive::RECEIVE, 0, &[]);
    }

    /// `t` answers the caller whose token is in its rbp.
    pub fn reply(&mut self, t: ThreadRef, slot: u32, words: &[u64]) {
        self.go(t, slot, receive::REPLY, 0, words);
    }

    pub fn reply_receive(&mut self, t: ThreadRef, slot: u32, words: &[u64]) {
        self.go(t, slot, receive::REPLY_RECEIVE, 0, words);
    }

    pub fn call(&mut self, t: ThreadRef, slot: u32, words: &[u64]) {
        self.go(t, slot, 0, 0, words);
    }

    pub fn token(&self, t: ThreadRef) -> u64 {
        self.k.threads[t].registers.rbp
    }

    /// The pulse that `t` received: code, w1, badge.
    pub fn pulse(&self, t: ThreadRef) -> (u64, u64, u64) {
        let r = &self.k.threads[t].registers;
        assert_eq!((r.rax >> 8) as u8, cairn_abi::received::kind::PULSE);
        assert_eq!(r.rax as u8, 0);
        (r.rdi, r.rsi, r.rbx)
    }

    pub fn poll(&mut self, t: ThreadRef, slot: u32) -> Option<(u64, u64, u64)> {
        self.go(t, slot, receive::RECEIVE, flag::POLL, &[]);
        match self.result(t) {
            Ok(_) => Some(self.pulse(t)),
            Err(error) => {
                assert_eq!(error, Error::TimedOut);
                None
            }
        }
    }
}
