//! Random sequences of operations by several domains: all invariants hold after each step, and nothing panics.

mod system;

use super::*;
use cairn_abi::{fault, policy};
use proptest::prelude::*;

/// One step of whoever is current, or an event from outside.
#[derive(Clone, Debug)]
enum Step {
    /// A syscall with these raw numbers.
    Raw {
        slot: u32,
        op: u8,
        flags: u64,
        words: [u64; 8],
        parts: [u64; 4],
    },
    Call {
        which: u8,
        flags: u64,
        portals: u64,
    },
    /// Whoever runs does what is most usual, several times: a server answers and receives, others call; now and then a server calls as well.
    Usual {
        which: u8,
        times: u8,
    },
    Notify {
        which: u8,
    },
    Receive {
        flags: u64,
    },
    Reply {
        old: u8,
        flags: u64,
        receive: bool,
    },
    /// A thread is chosen by whoever may receive, which replies or not and waits.
    Dispatch {
        who: u8,
        flags: u64,
        reply: bool,
        ns: u64,
    },
    Transfer {
        read: bool,
        len: u64,
        hole: bool,
    },
    Deadline {
        ns: u64,
    },
    /// Who am I, yield, what time is it.
    Own {
        op: u8,
    },
    Park {
        flags: u64,
    },
    Unpark {
        who: u8,
    },
    Copy {
        from: u8,
        to: u8,
    },
    Close {
        slot: u8,
    },
    Fault {
        refuse: bool,
    },
    Exception,
    Time {
        ns: u64,
    },
    Init {
        act: u8,
        who: u8,
        value: u8,
    },
    Wake {
        who: u8,
    },
    Derive {
        which: u8,
        to: u8,
        rights: u8,
    },
    Revoke {
        which: u8,
    },
    Semaphore {
        op: u8,
        which: u8,
        flags: u64,
    },
    /// A line of a signature by whoever may receive, `init` among them.
    Sign {
        which: u8,
        init: bool,
        first: u64,
        most: [u64; 7],
    },
    System(system::System),
}

fn flags() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0),
        2 => Just(flag::INTERRUPTIBLE),
        1 => Just(flag::PARTS),
        1 => Just(flag::PARTS | flag::INTERRUPTIBLE),
        1 => Just(flag::PARTS | flag::OUT_VECTOR | flag::IN_VECTOR),
        1 => Just(flag::POLL),
        1 => Just(flag::MOVE),
        1 => Just(flag::MINT),
        1 => Just(flag::PARTS | flag::WINDOWS | flag::KEEP),
        1 => Just(flag::NOT_FURTHER),
        1 => Just(flag::PASS_ONCE),
        1 => Just(flag::PASS_ONCE | flag::MOVE),
    ]
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0u64..80,
        1 => Just(AUTO),
        1 => Just(BUFFER),
        1 => Just(HOLE),
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

/// Operations that calls have, and the others; bounds that words reach, and others.
fn line() -> impl Strategy<Value = (u64, [u64; 7])> {
    let first = prop_oneof![
        6 => 0u64..9,
        6 => (0u64..9).prop_map(|operation| operation | receive::BADGE),
        1 => Just(AUTO),
        1 => 60u64..70,
        1 => any::<u64>(),
    ];
    let most = prop_oneof![3 => Just(u64::MAX), 1 => 0u64..9, 1 => 60u64..90];
    (first, prop::array::uniform7(most))
}

fn step() -> impl Strategy<Value = Step> {
    let raw = (
        prop_oneof![0u32..8, 60u32..80, any::<u32>()],
        prop_oneof![8 => 0u8..20, 1 => 30u8..32],
        flags(),
        prop::array::uniform8(word()),
        prop::array::uniform4(word()),
    )
        .prop_map(|(slot, op, flags, words, parts)| Step::Raw {
            slot,
            op,
            flags,
            words,
            parts,
        });
    prop_oneof![
        4 => raw,
        6 => (any::<u8>(), flags(), 0u64..3)
            .prop_map(|(which, flags, portals)| Step::Call { which, flags, portals }),
        12 => (any::<u8>(), 1u8..9).prop_map(|(which, times)| Step::Usual { which, times }),
        2 => any::<u8>().prop_map(|which| Step::Notify { which }),
        6 => flags().prop_map(|flags| Step::Receive { flags }),
        6 => (0u8..3, flags(), any::<bool>())
            .prop_map(|(old, flags, receive)| Step::Reply { old, flags, receive }),
        8 => (any::<u8>(), flags(), any::<bool>(), 0u64..3_000_000)
            .prop_map(|(who, flags, reply, ns)| Step::Dispatch { who, flags, reply, ns }),
        2 => (any::<bool>(), 0u64..20_000, any::<bool>())
            .prop_map(|(read, len, hole)| Step::Transfer { read, len, hole }),
        2 => (0u64..500).prop_map(|ns| Step::Deadline { ns }),
        4 => prop_oneof![Just(current::IDENTITY), Just(current::YIELD), Just(current::CLOCK)]
            .prop_map(|op| Step::Own { op }),
        1 => flags().prop_map(|flags| Step::Park { flags }),
        1 => any::<u8>().prop_map(|who| Step::Unpark { who }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Step::Copy { from, to }),
        2 => any::<u8>().prop_map(|slot| Step::Close { slot }),
        1 => any::<bool>().prop_map(|refuse| Step::Fault { refuse }),
        1 => Just(Step::Exception),
        2 => (0u64..2_000_000).prop_map(|ns| Step::Time { ns }),
        1 => (0u64..150_000_000).prop_map(|ns| Step::Time { ns }),
        9 => (0u8..15, any::<u8>(), any::<u8>())
            .prop_map(|(act, who, value)| Step::Init { act, who, value }),
        1 => any::<u8>().prop_map(|who| Step::Wake { who }),
        5 => (any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(which, to, rights)| Step::Derive { which, to, rights }),
        3 => any::<u8>().prop_map(|which| Step::Revoke { which }),
        8 => (0u8..4, any::<u8>(), flags())
            .prop_map(|(op, which, flags)| Step::Semaphore { op, which, flags }),
        4 => (any::<u8>(), any::<bool>(), line())
            .prop_map(|(which, init, (first, most))| Step::Sign { which, init, first, most }),
        8 => system::step().prop_map(Step::System),
    ]
}

const HOLE: u64 = 0x50_0000;
const DOMAINS: usize = 4;

struct Play {
    w: World,
    doms: Vec<Dom>,
    own: Vec<u32>,
    /// Ids of threads that were made.
    threads: Vec<u32>,
    /// Tokens that were received.
    tokens: Vec<u64>,
}

impl Play {
    fn new() -> Play {
        Play::with_cores(1)
    }

    fn with_cores(cores: usize) -> Play {
        let mut w = World::with_cores(cores);
        w.checked = false;
        let pager = w.domain();
        let (_, pager_own) = w.channel(pager);
        let mut doms = std::vec![pager];
        let mut own = std::vec![pager_own];
        for i in 1..DOMAINS {
            let dom = w.domain_with_pager(pager_own as u64, 900 + i as u64);
            let (_, channel) = w.channel(dom);
            doms.push(dom);
            own.push(channel);
        }
        for &channel in &own {
            for &client in &doms {
                w.portal(channel, client, channel as u64);
            }
        }
        // Semaphores in everybody's table, half of them mutexes.
        for (count, kind) in [(1, 0), (0, 0), (1, 1), (1, 1)] {
            let init = w.init;
            let slot = w.ok(init, 0, current::SEMAPHORE_CREATE, &[count, kind, AUTO])[0];
            for dom in &doms {
                let words = [slot, AUTO, rights::ALL as u64];
                w.ok(init, dom.slot, domain::PORTAL_PUT, &words);
            }
            w.close_own(slot as u32);
        }
        system::furnish(&mut w, &doms);
        let mut threads = Vec::new();
        for (i, &dom) in doms.iter().enumerate() {
            // Domains whose threads can be called quickly.
            let plain = i == 1 || i == 2;
            if plain {
                w.ok(w.init, dom.slot, domain::CONFIGURE, &[0, 255]);
            }
            for priority in [30, 30 + i as u8 * 10] {
                let t = w.thread(dom, priority);
                w.k.threads[t].set_policy(policy::ADAPTIVE);
                threads.push(w.id(t) as u32);
            }
        }
        let init = w.init;
        w.ok(
            init,
            doms[3].slot,
            domain::SET_TURN,
            &[0x7000_0000, 0x7000_0100, 0x7000_0200],
        );
        for (dom, first) in doms.iter().zip([3u8, 50, 91, 200]) {
            for page in 0..BUFFER_PAGES {
                let bytes: Vec<u8> = (0..150u8)
                    .map(|i| first.wrapping_add(i.wrapping_mul(7)))
                    .collect();
                w.poke_memory(*dom, BUFFER + page * 4096, &bytes);
            }
        }
        w.checked = true;
        w.rest();
        Play {
            w,
            doms,
            own,
            threads,
            tokens: Vec::new(),
        }
    }

    /// A game in which every call that can be is a quick one.
    fn quick() -> Play {
        let mut play = Play::new();
        play.w.quick = true;
        play
    }

    fn pick(&self, who: u8) -> u64 {
        self.threads[who as usize % self.threads.len()] as u64
    }

    /// A slot of this kind in the current thread's table, else something else.
    fn slot_of(&self, kind: cairn_abi::PortalKind, which: u8) -> u32 {
        let t = self.w.current().expect("somebody");
        let table = &self.w.k.domains[self.w.k.threads[t].domain].table;
        let found: Vec<u32> = (0..table.entries())
            .filter(|&s| table.target(s as u64).is_some_and(|t| t.kind() == kind))
            .collect();
        if found.is_empty() {
            which as u32
        } else {
            found[which as usize % found.len()]
        }
    }

    fn raw(&mut self, slot: u32, op: u8, flags: u64, words: [u64; 8], parts: [u64; 4]) {
        let Some(t) = self.w.current() else {
            return;
        };
        let before = self.w.k.threads[t].registers.rbp;
        let r = &mut self.w.k.threads[t].registers;
        [r.r14, r.r15, r.rbx] = [parts[0], parts[1], parts[2]];
        // A receive right keeps its token, a call gets an in part.
        r.rbp = if flags & flag::PARTS != 0 && op == 0 {
            parts[3]
        } else {
            before
        };
        self.w.go(t, slot, op, flags, &words);
        if let Some(now) = self.w.current() {
            let r = &self.w.k.threads[now].registers;
            if r.rax as u8 == 0 && r.rbp != 0 && self.tokens.len() < 1000 {
                self.tokens.push(r.rbp);
            }
        }
    }

    fn usual(&mut self, which: u8, i: u8) {
        use cairn_abi::PortalKind as K;
        let Some(t) = self.w.current() else {
            return;
        };
        let words = [i as u64; 8];
        let serves = self.w.k.threads[t].serving.is_some();
        if self.w.k.domains[self.w.k.threads[t].domain].float || serves && which & 3 == i & 3 {
            let slot = self.slot_of(K::Channel, which / 4);
            let (flags, parts) = match which & 0x70 {
                0x10 => (flag::PARTS, [BUFFER, 100, BUFFER + 4000, 300]),
                0x20 => (flag::PARTS | flag::INTERRUPTIBLE, [HOLE, 9000, BUFFER, 50]),
                0x30 => (flag::PARTS, [BUFFER + 8, 1 << 32, HOLE, 0]),
                _ => (0, [0; 4]),
            };
            let mut words = words;
            if which & 8 != 0 {
                words[7] = self.slot_of(K::Channel, which.wrapping_mul(5)) as u64;
            }
            self.raw(slot, 0, flags, words, parts);
            return;
        }
        let slot = self.slot_of(K::Receive, 0);
        let token = self.w.k.threads[t].registers.rbp;
        if !serves || token as u32 == 0 {
            self.raw(slot, receive::RECEIVE, 0, words, [0; 4]);
            return;
        }
        let copy = |offset: u64, len: u64| {
            let address = BUFFER + 0x3000 + 700 * (which as u64 % 8);
            [token, offset, address, len, 0, 0, 0, 0]
        };
        let data = [BUFFER + 0x5ff0, which as u64, 8 * (i & 1) as u64, 0];
        let portal = flag::MINT | flag::portals(1);
        match which.wrapping_mul(29).wrapping_add(i) & 15 {
            0 | 1 => self.raw(slot, receive::READ, 0, copy(0, 60), data),
            2 => self.raw(slot, receive::READ, 0, copy(90, 5000), data),
            3 => self.raw(slot, receive::WRITE, 0, copy(40, 70), data),
            4 | 5 => self.raw(slot, receive::REPLY_RECEIVE, flag::PARTS, words, data),
            6 => self.raw(slot, receive::REPLY_RECEIVE, portal, words, data),
            7 => self.raw(
                slot,
                receive::REPLY_RECEIVE,
                flag::PARTS | portal,
                words,
                data,
            ),
            _ => self.raw(slot, receive::REPLY_RECEIVE, 0, words, [0; 4]),
        }
    }

    /// All memory of programs.
    fn memory(&mut self) -> Vec<(Frame, Vec<u8>)> {
        let frames = 0..self.w.next_frame;
        let frames: Vec<Frame> = frames.filter(|&f| self.w.k.frames.is_user(f)).collect();
        let bytes = |f| (f, self.w.k.arch.frame(f).to_vec());
        frames.into_iter().map(bytes).collect()
    }

    fn init_acts(&mut self, act: u8, who: u8, value: u8) {
        if self.w.state(self.w.init) != State::Parked {
            return;
        }
        self.w.recall();
        let init = self.w.init;
        let dom = self.doms[who as usize % DOMAINS];
        let id = self.pick(who);
        let control = |op: u8, word: u64| [id, op as u64, word, value as u64 % 3, 0];
        let words = match act {
            // Into partitions, and out of them.
            12 | 13 => {
                let own = self.own[value as usize % DOMAINS] as u64;
                let bound = (value as u64 >> 2) * 1_000_000;
                [id, thread::SET_SCHEDULER as u64, own, who as u64, bound]
            }
            14 => control(thread::SET_SCHEDULER, 0),
            0 => control(thread::POKE, 0),
            1 => control(thread::STOP, 0),
            2 => control(thread::CONTINUE, 0),
            3 => control(thread::SET_PRIORITY, value as u64 & 0x70),
            4 if value < 40 => control(thread::KILL, 0),
            _ => [0; 5],
        };
        if words[0] != 0 {
            for dom in self.doms.clone() {
                self.w.go(init, dom.slot, domain::THREAD_CONTROL, 0, &words);
            }
        }
        match act {
            5 => self.w.go(init, dom.slot, domain::STOP, 0, &[]),
            6 => self.w.go(init, dom.slot, domain::CONTINUE, 0, &[]),
            7 if value < 12 => self.w.go(init, dom.slot, domain::DESTROY, 0, &[]),
            8 => {
                let policy = value as u64 % 3;
                let words = [RUNNING, 0, 0, 0, 0, value as u64 & 0x70 | policy << 8, 0];
                self.w.go(init, dom.slot, domain::THREAD_CREATE, 0, &words);
                if let Ok(words) = self.w.result(init) {
                    let id = words[1];
                    self.threads.push(id as u32);
                    let start = [id, thread::START as u64];
                    self.w.go(init, dom.slot, domain::THREAD_CONTROL, 0, &start);
                }
            }
            9 => {
                let other = self.doms[value as usize % DOMAINS];
                let omitted = if value & 64 != 0 {
                    !0 << (value & 63)
                } else {
                    0
                };
                let words = [other.slot as u64, 0, omitted];
                self.w.go(init, dom.slot, domain::TABLE_COPY, 0, &words);
            }
            10 => {
                let page = HOLE + (value as u64 & 7) * 4096;
                if value & 8 != 0 && self.w.next_frame < FRAMES {
                    let frame = self.w.frame() as u64;
                    let words = [dom.space as u64, page, frame, 1, RW];
                    self.w.go(init, MEMORY, memory::MAP, 0, &words);
                } else {
                    let words = [dom.space as u64, page, 3];
                    self.w.go(init, MEMORY, memory::UNMAP, 0, &words);
                }
            }
            11 if value < 30 => {
                let slot = self.own[who as usize % DOMAINS] as u64;
                self.w.go(init, 0, current::PORTAL_CLOSE, 0, &[slot]);
            }
            _ => {}
        }
        assert_eq!(self.w.current(), Some(init));
        self.w.rest();
        self.w.settle();
    }

    fn sign(&mut self, which: u8, init: bool, first: u64, most: [u64; 7]) {
        let mut words = [first; 8];
        words[1..].copy_from_slice(&most);
        if !init {
            let slot = self.slot_of(cairn_abi::PortalKind::Receive, which);
            return self.raw(slot, receive::SIGN, 0, words, [0; 4]);
        }
        if self.w.state(self.w.init) != State::Parked {
            return;
        }
        self.w.recall();
        let slot = self.own[which as usize % DOMAINS];
        self.w.go(self.w.init, slot, receive::SIGN, 0, &words);
        self.w.rest();
        self.w.settle();
    }

    fn perform(&mut self, step: Step) {
        use cairn_abi::PortalKind as K;
        let w = [0; 8];
        let parts = [BUFFER, 9000, HOLE, 5000];
        let outside = matches!(
            step,
            Step::Time { .. }
                | Step::Init { .. }
                | Step::Wake { .. }
                | Step::Sign { init: true, .. }
                | Step::System(_)
        );
        if !outside && self.w.current().is_none() {
            return;
        }
        match step {
            Step::Raw {
                slot,
                op,
                flags,
                words,
                parts,
            } => self.raw(slot, op, flags, words, parts),
            Step::Call {
                which,
                flags,
                portals,
            } => {
                let slot = self.slot_of(K::Channel, which);
                let passed = self.slot_of(K::Channel, which / 2) as u64;
                let own = self.slot_of(K::Receive, which) as u64;
                let words = [1, 2, 3, 4, 5, 6, own, passed];
                self.raw(slot, 0, flags | flag::portals(portals), words, parts);
            }
            Step::Usual { which, times } => {
                for i in 0..times {
                    self.usual(which, i);
                }
            }
            Step::Notify { which } => {
                let slot = self.slot_of(K::Channel, which);
                self.raw(slot, 1, 0, [which as u64; 8], parts);
            }
            Step::Receive { flags } => {
                let slot = self.slot_of(K::Receive, 0);
                self.raw(slot, receive::RECEIVE, flags, w, parts);
            }
            Step::Reply {
                old,
                flags,
                receive,
            } => {
                let slot = self.slot_of(K::Receive, 0);
                let t = self.w.current().expect("somebody");
                if old != 0 && !self.tokens.is_empty() {
                    let at = self.tokens.len().saturating_sub(old as usize);
                    self.w.k.threads[t].registers.rbp = self.tokens[at];
                }
                let op = if receive {
                    receive::REPLY_RECEIVE
                } else {
                    receive::REPLY
                };
                let portals = u64::from(flags & (flag::MINT | flag::MOVE) != 0);
                let passed = self.slot_of(K::Channel, old) as u64;
                let words = [fault::RESOLVED, 0, 0, 0, 0, 0, 0, passed];
                let parts = [BUFFER, 100, 10, 0];
                self.raw(slot, op, flags | flag::portals(portals), words, parts);
            }
            Step::Dispatch {
                who,
                flags,
                reply,
                ns,
            } => {
                let slot = self.slot_of(K::Receive, 0);
                let t = self.w.current().expect("somebody");
                let member = match who {
                    0..50 => 0,
                    _ => self.pick(who),
                };
                let until = match ns % 3 {
                    0 => self.w.k.arch.time + ns,
                    _ => 0,
                };
                if !reply {
                    self.w.k.threads[t].registers.rbp = 0;
                }
                let words = [fault::RESOLVED, 0, 0, 0, 0, 0, 0, 0];
                self.raw(slot, receive::DISPATCH, flags, words, [0, until, member, 0]);
            }
            Step::Transfer { read, len, hole } => {
                let slot = self.slot_of(K::Receive, 0);
                let t = self.w.current().expect("somebody");
                let token = self.w.k.threads[t].registers.rbp;
                let op = if read { receive::READ } else { receive::WRITE };
                let address = if hole { HOLE } else { BUFFER };
                self.raw(slot, op, 0, [token, 3, address, len, 0, 0, 0, 0], parts);
            }
            Step::Deadline { ns } => {
                let at = self.w.k.arch.time + ns;
                self.raw(0, current::DEADLINE, 0, [at, 0, 0, 0, 0, 0, 0, 0], parts);
            }
            Step::Own { op } => self.raw(0, op, 0, w, parts),
            Step::Park { flags } => self.raw(0, current::PARK, flags, w, parts),
            Step::Unpark { who } => {
                let id = self.pick(who);
                self.raw(0, current::UNPARK, 0, [id; 8], parts);
            }
            Step::Copy { from, to } => {
                let source = self.slot_of(K::Channel, from) as u64;
                let words = [source, 60 + to as u64 % 30, 0xffff, 0, 0, 0, 0, 0];
                self.raw(0, current::PORTAL_COPY, 0, words, parts);
            }
            Step::Close { slot } => {
                let words = [60 + slot as u64 % 30; 8];
                self.raw(0, current::PORTAL_CLOSE, 0, words, parts);
            }
            Step::Fault { refuse } => {
                let at = if refuse { u64::MAX } else { HOLE };
                self.w.k.page_fault(at, fault::WRITE);
                self.w.check();
                self.w.settle();
            }
            Step::Exception => {
                self.w.k.exception(6, 0, 0);
                self.w.check();
                self.w.settle();
            }
            Step::Derive { which, to, rights } => {
                let kinds = [K::Channel, K::Channel, K::Derived, K::Semaphore, K::Channel];
                let slot = self.slot_of(kinds[which as usize % 5], which / 5) as u64;
                let to = if to < 100 { AUTO } else { to as u64 % 30 + 60 };
                let mask = rights as u64 | 7;
                self.raw(
                    0,
                    current::PORTAL_DERIVE,
                    0,
                    [slot, to, mask, 0, 0, 0, 0, 0],
                    parts,
                );
            }
            Step::Revoke { which } => {
                let kinds = [K::Channel, K::Channel, K::Derived];
                let slot = self.slot_of(kinds[which as usize % 3], which / 3) as u64;
                self.raw(0, current::PORTAL_REVOKE, 0, [slot; 8], parts);
            }
            Step::Semaphore { op, which, flags } => {
                let kinds = [K::Semaphore, K::Semaphore, K::Derived];
                let slot = self.slot_of(kinds[which as usize % 3], which / 3);
                let other = self.slot_of(kinds[which as usize / 64 % 3], which / 16) as u64;
                self.raw(slot, op, flags, [other, 0, 0, 0, 0, 0, 0, 0], parts);
            }
            Step::Sign {
                which,
                init,
                first,
                most,
            } => self.sign(which, init, first, most),
            Step::System(step) => self.perform_system(step),
            Step::Time { ns } => self.w.pass_time(ns),
            Step::Init { act, who, value } => self.init_acts(act, who, value),
            Step::Wake { who } => {
                let id = self.pick(who) as u32;
                if let Some(t) = self.w.k.threads.lookup(id) {
                    if self.w.state(t) == State::Parked {
                        self.w.k.settle_entry();
                        self.w.k.finish(t, 0);
                        self.w.k.resume();
                        self.w.check();
                        self.w.settle();
                    }
                }
            }
        }
    }
}

const RW: u64 = prot::READ | prot::WRITE;

/// What a program can see of every thread.
fn visible(play: &Play) -> Vec<(u32, State, u8, cairn_abi::state::Registers)> {
    let k = &play.w.k;
    k.threads
        .all()
        .map(|t| {
            let thread = &k.threads[t];
            let registers = thread.registers;
            (k.threads.id(t), thread.state, thread.effective, registers)
        })
        .collect()
}

impl Play {
    /// The processor time of every thread and domain until now.
    fn charged(&mut self) -> (Vec<u64>, Vec<u64>) {
        let k = &mut self.w.k;
        k.charge();
        let threads = k.threads.all().map(|t| k.threads[t].ticks);
        let domains = k.domains.all().map(|d| k.domains[d].ticks);
        (threads.collect(), domains.collect())
    }

    /// In the end everything can be taken apart, and nothing is left.
    fn take_apart(&mut self) {
        if self.w.state(self.w.init) == State::Parked {
            self.w.recall();
            for dom in self.doms.clone() {
                self.w.destroy(dom);
                self.w.close_own(dom.slot);
            }
            for own in self.own.clone() {
                let init = self.w.init;
                self.w.go(init, 0, current::PORTAL_CLOSE, 0, &[own as u64]);
            }
            assert_eq!(self.w.k.threads.live_objects(), 1);
            assert_eq!(self.w.k.domains.live_objects(), 1);
            assert_eq!(self.w.living_channels(), 0);
            assert_eq!(self.w.k.portals.live_objects(), 0);
            assert_eq!(self.w.k.semaphores.live_objects(), 0);
            assert_eq!(self.w.k.signatures.live_objects(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_short_way_does_what_the_general_way_does(steps in prop::collection::vec((step(), prop::bool::weighted(0.3)), 1..120)) {
        let (mut short, mut general) = (Play::new(), Play::new());
        short.w.checked = false;
        general.w.checked = false;
        general.w.k.short_way = false;
        for (step, charge) in steps {
            short.perform(step.clone());
            general.perform(step);
            prop_assert_eq!(short.w.current(), general.w.current());
            prop_assert_eq!(visible(&short), visible(&general));
            if charge {
                prop_assert_eq!(short.charged(), general.charged());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn quick_calls_do_what_the_general_way_does(steps in prop::collection::vec((step(), prop::bool::weighted(0.3)), 1..120), several: bool) {
        let (mut quick, mut general) = (Play::quick(), Play::new());
        if several {
            quick.w.k.expect_several();
        }
        quick.w.checked = false;
        general.w.checked = false;
        general.w.k.short_way = false;
        for which in 0..12 {
            quick.perform(Step::Usual { which, times: 4 });
            general.perform(Step::Usual { which, times: 4 });
        }
        for (step, settle) in steps {
            // What was counted on the way differs, and would be in the memory that is compared.
            if matches!(step, Step::Raw { op: current::COUNTERS, .. }) {
                continue;
            }
            quick.perform(step.clone());
            general.perform(step);
            let (running, other) = (quick.w.current(), general.w.current());
            prop_assert_eq!(running, other);
            if let Some(t) = running {
                prop_assert_eq!(quick.w.k.threads[t].registers.words(), general.w.k.threads[t].registers.words());
            }
            if settle {
                quick.w.k.settle_entry();
                prop_assert_eq!(quick.charged(), general.charged());
            }
            if quick.w.k.arch.running == 0 {
                prop_assert_eq!(visible(&quick), visible(&general));
            }
        }
        quick.w.k.settle_entry();
        prop_assert_eq!(visible(&quick), visible(&general));
        prop_assert!(quick.memory() == general.memory());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn invariants_hold(steps in prop::collection::vec(step(), 1..120), short_way: bool, quick: bool) {
        let mut play = Play::new();
        play.w.quick = quick;
        play.w.k.short_way = short_way;
        for step in steps {
            play.perform(step);
        }
        play.w.k.settle_entry();
        play.take_apart();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn invariants_hold_on_several_cores(steps in prop::collection::vec((step(), 0usize..3, 0u8..4), 1..120), quick: bool) {
        let mut play = Play::with_cores(3);
        play.w.k.short_way = false;
        play.w.quick = quick;
        for (step, core, called) in steps {
            // Where compiled code may do it, quick calls of all cores stay as they are.
            if quick
                && matches!(
                    step,
                    Step::Usual { .. }
                        | Step::Call { .. }
                        | Step::Receive { .. }
                        | Step::Reply { .. }
                        | Step::Transfer { .. }
                        | Step::Own { .. }
                        | Step::Semaphore { .. }
                )
            {
                play.w.k.turn_to(core);
                play.perform(step);
                continue;
            }
            play.w.on(core);
            // One that is idle comes in for nothing else.
            if play.w.current().is_none() && play.w.k.arch.kicked.remove(&core) {
                play.w.k.called();
                play.w.check();
            }
            play.w.settle();
            play.perform(step);
            // Those who were called come sooner or later.
            if called == 0 {
                play.w.answer_calls();
            }
        }
        play.w.answer_calls();
        play.take_apart();
    }
}
