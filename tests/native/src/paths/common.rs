//! What all threads of the game share: chance, the fold into one number, lists that outlive a thread's turn, and the message that a caller makes up.

use crate::TARGETS;
use cairn_abi::service::{current, receive, AUTO};
use cairn_abi::{flag, layout, op, received, Part};
use cairn_idl::vm;
use cairn_rt::gate::{selector, Gate};
use cairn_rt::{Message, Portal};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Everything that anybody of this domain saw, in the order in which it was seen. No two threads are ever in here at once: a thread is stopped in the middle of its
/// work only by one that its own calls woke.
static SEEN: AtomicU64 = AtomicU64::new(0);
/// Calls of clients so far, of this domain.
pub static STEPS: AtomicU64 = AtomicU64::new(0);

pub fn fold(value: u64) {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (SEEN.load(Relaxed) ^ value).wrapping_mul(ODD);
    SEEN.store(mixed ^ mixed >> 29, Relaxed);
}

pub fn seen() -> u64 {
    SEEN.load(Relaxed)
}

pub fn fold_words(words: &[u64]) {
    words.iter().for_each(|&word| fold(word));
}

/// The index of a thread's or domain's id among those seen so far, the first of which may differ from run to run.
pub fn known(id: u32) -> u64 {
    static IDS: [AtomicU32; 32] = [const { AtomicU32::new(0) }; 32];
    for (index, place) in IDS.iter().enumerate() {
        match place.load(Relaxed) {
            0 => place.store(id, Relaxed),
            other if other != id => continue,
            _ => {}
        }
        return index as u64;
    }
    99
}

/// A token as every run sees it: who, and which of its calls since the first one seen.
pub fn fold_token(token: u64) {
    static FIRST: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
    if token == 0 {
        return fold(0);
    }
    let who = known(token as u32);
    let Some(first) = FIRST.get(who as usize) else {
        return fold(who);
    };
    let _ = first.compare_exchange(0, token, Relaxed, Relaxed);
    fold(who << 32 | token.wrapping_sub(first.load(Relaxed)) >> 32);
}

/// Callers that the servers of a channel put off: any of them may answer.
pub struct Held([AtomicU64; 6]);

impl Held {
    pub const fn new() -> Held {
        Held([const { AtomicU64::new(0) }; 6])
    }

    pub fn put(&self, token: u64) -> bool {
        let place = self.0.iter().find(|place| place.load(Relaxed) == 0);
        place.inspect(|place| place.store(token, Relaxed)).is_some()
    }

    pub fn take(&self) -> Option<u64> {
        let mut tokens = self.0.iter().map(|place| place.swap(0, Relaxed));
        tokens.find(|&token| token != 0)
    }

    pub fn forget(&self, token: u64) -> bool {
        let place = self.0.iter().find(|place| place.load(Relaxed) == token);
        place.inspect(|place| place.store(0, Relaxed)).is_some()
    }
}

/// xorshift64 (Marsaglia 2003).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 20) % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// How much data: often none, sometimes over several pages.
    pub fn length(&mut self) -> u64 {
        match self.below(24) {
            0..=9 => 0,
            10..=18 => self.below(64),
            19..=21 => self.below(600),
            22 => 4096 * self.below(3) + self.below(64),
            _ => self.below(20_001),
        }
    }
}

/// Memory of one thread: stack, what it sends, what it gets, what it reads from callers, vectors.
pub const REGION: u64 = 256 * 1024;
pub const STACK_TOP: u64 = 64 * 1024;
const OUT: u64 = 64 * 1024;
const IN: u64 = 112 * 1024;
const SCRATCH: u64 = 160 * 1024;
const VECTORS: u64 = 208 * 1024;
/// Operations that signatures have lines for, and what no word of theirs may reach.
const SIGNED: u64 = 6;
const SMALL: u64 = 200;
/// Bytes in each of them.
const ROOM: u64 = 40 * 1024;

/// Where in a page windows are looked at.
pub const BEGINNING: u64 = 512;

/// One thread of the game.
pub struct Player {
    pub random: Random,
    pub base: u64,
    /// Slots of portals that arrived.
    pub gifts: [u32; 5],
}

impl Player {
    /// `base`: a region of this thread's own.
    pub fn new(seed: u64, index: u64, base: u64) -> Player {
        let mut random = Random(seed.wrapping_add(index).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        for offset in (0..ROOM).step_by(8) {
            // SAFETY: within the region, which is this thread's alone.
            unsafe { ((base + OUT + offset) as *mut u64).write(random.next()) };
        }
        Player {
            random,
            base,
            gifts: [0; 5],
        }
    }

    /// Somewhere in what may be sent, with at least 20,000 bytes behind it.
    pub fn out(&mut self) -> u64 {
        self.base + OUT + self.random.below(16 * 1024)
    }

    pub fn scratch(&mut self) -> u64 {
        self.base + SCRATCH + self.random.below(16 * 1024)
    }

    /// Any numbers; or such as signatures speak of: an operation, small ones, a slot.
    pub fn words(&mut self) -> [u64; 8] {
        let random = &mut self.random;
        let mut words: [u64; 8] = core::array::from_fn(|_| random.next());
        if random.one_in(3) {
            return words;
        }
        words[0] = random.below(SIGNED);
        for word in &mut words[1..] {
            if !random.one_in(8) {
                *word %= SMALL;
            }
        }
        words[7] = match random.below(4) {
            0 => random.below(2 * SMALL),
            1 => self.gifts[random.below(5) as usize] as u64,
            _ => TARGETS[random.below(3) as usize] as u64,
        };
        words
    }

    /// Change the signature of the channel of this receive right.
    pub fn sign(&mut self, receive: u32) {
        let random = &mut self.random;
        let mut words: [u64; 8] = core::array::from_fn(|_| match random.below(8) {
            0 => random.below(SMALL),
            _ => u64::MAX,
        });
        words[0] = random.below(SIGNED) | (receive::BADGE * random.below(2));
        if random.one_in(6) {
            words[0] = [AUTO, receive::OPERATIONS][random.below(2) as usize];
        }
        self.service(receive, receive::SIGN, &words);
    }

    pub fn take_gift(&mut self) -> Option<u32> {
        let at = self.random.below(self.gifts.len() as u64) as usize;
        let slot = core::mem::take(&mut self.gifts[at]);
        (slot != 0).then_some(slot)
    }

    /// Keep a portal, in place of another one if need be.
    pub fn keep(&mut self, slot: u32) {
        let at = self.random.below(self.gifts.len() as u64) as usize;
        let old = core::mem::replace(&mut self.gifts[at], slot);
        self.drop_gift(old);
    }

    /// Close it. What the game itself needs lies in the reserved slots.
    pub fn drop_gift(&mut self, slot: u32) {
        if slot >= layout::RESERVED_SLOTS {
            self.own(current::PORTAL_CLOSE, &[slot as u64]);
        }
    }

    /// Portals that came with a message: `n` last words.
    pub fn arrived(&mut self, g: &Gate) {
        let n = (g.rax >> received::PORTALS_SHIFT) as usize & 15;
        for &slot in &g.words[8 - n.min(8)..] {
            self.keep(slot as u32);
        }
    }

    /// An operation of slot 0; error and first word are folded. The first word.
    pub fn own(&mut self, operation: u8, words: &[u64]) -> u64 {
        self.service(0, operation, words)
    }

    pub fn service(&mut self, slot: u32, operation: u8, words: &[u64]) -> u64 {
        let result = Portal(slot).service(operation, words);
        let (error, word) = match result {
            Ok(words) => (0, words[0]),
            Err(error) => (error as u64, 0),
        };
        fold(error << 8 | operation as u64);
        fold(word);
        word
    }

    /// Call through a slot with a message of whatever kind.
    pub fn call(&mut self, slot: u32) {
        let random = &mut self.random;
        let mut g = Gate {
            rax: selector(slot, op::CALL, 0),
            words: core::array::from_fn(|_| random.next()),
            rbx: random.next(),
            rbp: random.next(),
            r14: random.next(),
            r15: random.next(),
        };
        let mut input = (0, 0);
        if random.one_in(2) {
            input = self.parts(&mut g);
        }
        let random = &mut self.random;
        if random.one_in(6) {
            g.rax |= flag::INTERRUPTIBLE;
        }
        if random.one_in(60) {
            g.rax |= [flag::POLL, flag::MINT][random.below(2) as usize];
        }
        if random.one_in(80) {
            g.rax |= (2 + random.below(200)) << 32;
        }
        if random.one_in(40) {
            // Far away: it changes the way, not the outcome.
            self.own(current::DEADLINE, &[u64::MAX / 2]);
        }
        let mut moved = None;
        if self.random.one_in(8) {
            moved = self.pass(&mut g);
        }
        // SAFETY: the parts are inside this thread's region, or nowhere.
        let _ = unsafe { g.traverse() };
        fold_words(&[g.rax, g.rbx, g.rbp, g.r14, g.r15]);
        fold_words(&g.words);
        let ok = g.rax as u8 == 0;
        if let (Some(slot), false) = (moved, ok) {
            self.keep(slot);
        }
        if ok {
            self.arrived(&g);
            self.fold_bytes(input.0, input.1);
        }
    }

    /// A call with two parts of up to a few hundred bytes and nothing else that is unusual.
    pub fn call_with_short_parts(&mut self, slot: u32) {
        let (out, room) = (self.out(), self.base + IN + self.random.below(16 * 1024));
        let lengths = [self.random.below(600), self.random.below(600)];
        if self.call_with(slot, flag::PARTS, (out, lengths[0]), (room, lengths[1])) {
            self.fold_bytes(room, lengths[1]);
        }
    }

    /// A call with parts of a few pages that the server may have shown.
    pub fn call_with_shown_parts(&mut self, slot: u32) {
        let mut part = |from| {
            (
                from + self.random.below(4) * 4096,
                4096 * (1 + self.random.below(3)),
            )
        };
        let (out, input) = (part(self.base + OUT), part(self.base + IN));
        let flags = flag::PARTS | flag::WINDOWS | flag::KEEP;
        if self.call_with(slot, flags, out, input) {
            // Who writes there by a window does so at the beginning of a page.
            for page in (0..input.1).step_by(4096) {
                self.fold_bytes(input.0 + page, BEGINNING);
            }
        }
    }

    fn call_with(&mut self, slot: u32, flags: u64, out: (u64, u64), input: (u64, u64)) -> bool {
        let words = self.words();
        let mut g = Gate {
            rax: selector(slot, op::CALL, flags),
            words,
            rbx: input.0,
            rbp: input.1,
            r14: out.0,
            r15: out.1,
        };
        let sent = g;
        // SAFETY: the parts are inside this thread's region.
        let _ = unsafe { g.traverse() };
        let kept = [g.rbx, g.rbp, g.r14, g.r15] == [sent.rbx, sent.rbp, sent.r14, sent.r15];
        fold_words(&[g.rax, kept as u64]);
        fold_words(&g.words);
        let ok = g.rax as u8 == 0;
        if ok {
            self.arrived(&g);
        }
        ok
    }

    /// Describe parts; where the in part's bytes will be.
    fn parts(&mut self, g: &mut Gate) -> (u64, u64) {
        g.rax |= flag::PARTS;
        let (out, room) = (self.out(), self.base + IN + self.random.below(16 * 1024));
        let random = &mut self.random;
        let lengths = [random.length(), random.length()];
        [g.r14, g.r15, g.rbx, g.rbp] = [out, lengths[0], room, lengths[1]];
        match random.below(40) {
            0 => g.r14 = 16,
            1 => g.rbx = layout::USER_TOP - 100,
            2 => g.r15 = 1 << 40 | random.next(),
            3..=5 => {
                g.rax |= flag::OUT_VECTOR;
                (g.r14, g.r15) = self.vector(0, out, lengths[0]);
            }
            6..=8 => {
                g.rax |= flag::IN_VECTOR;
                (g.rbx, g.rbp) = self.vector(1, room, lengths[1]);
            }
            9 => {
                let words = [
                    vm::ADVISE,
                    self.base + IN + 8192,
                    8192,
                    vm::advice::DONT_NEED,
                ];
                let answer = Portal(layout::native_slot::VM).call(Message::new(&words));
                fold(answer.map_or(u64::MAX, |words| words[0]));
            }
            _ => {}
        }
        (room, lengths[1])
    }

    /// Up to five pieces that together are `length` bytes from `address` on.
    fn vector(&mut self, which: u64, address: u64, length: u64) -> (u64, u64) {
        let place = self.base + VECTORS + which * 4096 + self.random.below(64) * 8;
        let count = 1 + self.random.below(5);
        let (mut at, mut left) = (address, length);
        for i in 0..count {
            let len = if i + 1 == count {
                left
            } else {
                self.random.below(left + 1)
            };
            // SAFETY: within the region, aligned to eight bytes.
            unsafe { ((place + i * 16) as *mut Part).write(Part { base: at, len }) };
            (at, left) = (at + len, left - len);
        }
        (place, count)
    }

    /// Have `g` pass portals. The gift that leaves this table if all goes well.
    pub fn pass(&mut self, g: &mut Gate) -> Option<u32> {
        let n = if self.random.one_in(20) {
            5 + self.random.below(3)
        } else {
            1 + self.random.below(2)
        };
        g.rax |= flag::portals(n);
        for word in &mut g.words[8 - n as usize..] {
            *word = self.gifts[self.random.below(5) as usize] as u64;
        }
        if n > 1 || self.random.one_in(2) {
            return None;
        }
        let gift = self.take_gift()?;
        g.words[7] = gift as u64;
        g.rax |= flag::MOVE;
        Some(gift)
    }

    /// Fold memory of this thread, and what is around it.
    pub fn fold_bytes(&self, address: u64, length: u64) {
        if address == 0 {
            return;
        }
        let mut at = address - 16;
        let end = address + length + 16;
        while at < end {
            // SAFETY: within this thread's region: every part has more than 20,000 bytes and a margin behind where it can begin.
            fold(unsafe { (at as *const u64).read_unaligned() });
            at += 8;
        }
    }
}

/// A copy with fewer rights, into any slot.
pub fn weaker(player: &mut Player, slot: u32) {
    let mask = player.random.below(32);
    let copy = player.own(current::PORTAL_COPY, &[slot as u64, AUTO, mask]);
    if copy != 0 {
        player.keep(copy as u32);
    }
}
