//! Makes half a million random portal calls (argument `count=N`, `seed=N`) with hostile words, parts and flags, on its own portals and on slots that it does
//! not have.
//! It may fail in every way; nobody else may. It ends with the number of calls as its exit value, which `init` logs: `hostile died: exit N`.
//! All that it leaves out is what would end it before ([`pointless`], [`spare`]), so that the number is reached.
#![no_std]
#![no_main]

use cairn_abi::layout::native_slot;
use cairn_abi::service::{current, domain, receive};
use cairn_abi::{flag, layout, op, Error, PortalKind};
use cairn_idl::vm;
use cairn_rt::gate::{selector, Gate};
use cairn_rt::Portal;

cairn_rt::entry!(main);

/// xorshift64 (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A word that hurts: small numbers, slots, addresses inside and outside, flags, noise.
    fn word(&mut self) -> u64 {
        const EDGES: [u64; 12] = [
            0,
            1,
            2,
            u64::MAX,
            4095,
            4096,
            layout::USER_TOP,
            layout::USER_TOP - 1,
            0xffff_8000_0000_0000,
            0xffff_ffff_8000_0000,
            1 << 47,
            u32::MAX as u64,
        ];
        match self.below(6) {
            0 => self.next(),
            1 => EDGES[self.below(EDGES.len() as u64) as usize],
            2 => self.below(16),
            3 => self.below(600),
            4 => layout::NATIVE_BASE + self.below(1 << 20),
            _ => layout::NATIVE_HEAP + self.below(1 << 24),
        }
    }
}

/// What would only end, park or blind this program: it wants to go on.
fn pointless(kind: u64, operation: u8) -> bool {
    match kind {
        k if k == PortalKind::Current as u64 => matches!(
            operation,
            current::EXIT | current::SLEEP | current::PARK | current::UPCALL_RETURN
        ),
        k if k == PortalKind::Domain as u64 => {
            matches!(
                operation,
                domain::DESTROY
                    | domain::STOP
                    | domain::CONTINUE
                    | domain::SET_SPACE
                    | domain::KILL_OTHERS
                    | domain::THREAD_CONTROL
                    | domain::SET_TURN
                    | domain::PORTAL_REMOVE
                    | domain::CLOSE_ON_EXEC
            )
        }
        k if k == PortalKind::Thread as u64 || k == PortalKind::Log as u64 => true,
        _ => false,
    }
}

/// A slot with this bit is none that the program began with.
const GIVEN: u64 = layout::RESERVED_SLOTS as u64;

/// Memory that this program does not live on: it has no heap. Its image lies below, its stack and the system page above.
const SPARE: core::ops::Range<u64> = layout::NATIVE_HEAP..layout::DEVICES;
/// What is taken away there at a time, at most.
const SPARE_LENGTH: u64 = 1 << 24;

/// Requests by which `vm` changes what the caller has at an address: the words with the address and the length.
const CHANGES: [(u64, usize, usize); 11] = [
    (vm::MAP, 1, 2),
    (vm::UNMAP, 1, 2),
    (vm::PROTECT, 1, 2),
    (vm::REMAP, 1, 2),
    (vm::REMAP, 5, 3),
    (vm::ADVISE, 1, 2),
    (vm::OBJECT_MAP, 1, 2),
    (vm::OBJECT_MAP_PARTS, 1, 2),
    (vm::MAP_ALIKE, 1, 2),
    (vm::OFFER, 1, 2),
    (vm::TAKE, 1, 2),
];

/// A request to `vm` that could take this program's own code, data or stack away is about other memory.
fn spare(words: &mut [u64; 8]) {
    for (operation, address, length) in CHANGES {
        let unit = match operation {
            vm::OBJECT_MAP_PARTS => layout::PAGE,
            _ => 1,
        };
        let bytes = words[length].saturating_mul(unit);
        let end = words[address].saturating_add(bytes);
        if words[0] == operation && (words[address] < SPARE.start || end > SPARE.end) {
            words[address] = SPARE.start + words[address] % SPARE_LENGTH;
            words[length] %= SPARE_LENGTH / unit;
        }
    }
    if words[0] == vm::OBJECT_ADOPT && !SPARE.contains(&words[2]) {
        words[2] = SPARE.start + words[2] % SPARE_LENGTH;
    }
}

/// What a slot of the own table leads to (0: nothing).
fn kind_of(slot: u32) -> u64 {
    Portal::CURRENT
        .service(current::PORTAL_INFO, &[slot as u64])
        .map_or(0, |w| w[0])
}

fn main() -> ! {
    let number = |key, default| {
        cairn_rt::startup::argument(key)
            .and_then(|v| v.parse().ok())
            .unwrap_or(default)
    };
    let count: u64 = number("count", 500_000);
    let mut random = Random(number("seed", 20_261_120) | 1);
    let client = cairn_rt::startup::portal("vm-client").unwrap_or(Portal::CURRENT);
    let mut memory = [0u8; 8192];
    let mut made = 0;
    while made < count {
        // Every wait ends soon, but not before a server that waits could answer.
        let _ =
            Portal::CURRENT.service(current::DEADLINE, &[cairn_rt::time::monotonic() + 100_000]);
        let slot = match random.below(8) {
            0 => random.next() as u32,
            1 => random.below(600) as u32,
            _ => random.below(24) as u32,
        };
        let kind = kind_of(slot);
        // A channel knows one operation and NOTIFY: with any other one no server would hear of the call.
        let operation = match random.below(8) {
            0 => random.next() as u8,
            1 => random.below(41) as u8,
            _ if kind == PortalKind::Channel as u64 => op::CALL,
            _ => random.below(41) as u8,
        };
        if pointless(kind, operation) {
            made += 1;
            continue;
        }
        let mut words = [0; 8];
        words.iter_mut().for_each(|w| *w = random.word());
        let flags = match random.below(3) {
            0 => 0,
            1 => flag::PARTS,
            _ => random.next() & (0x1f_ffff << 40),
        };
        // Closing, replacing or giving away the portals that the test itself lives on would end the test, not the system.
        let slots: &[usize] = match operation {
            current::PORTAL_CLOSE if slot == 0 => &[0],
            current::PORTAL_COPY | current::PORTAL_DERIVE | current::PORTAL_OPEN if slot == 0 => {
                &[0, 1]
            }
            current::SEMAPHORE_CREATE | current::WINDOW_CREATE if slot == 0 => &[2],
            receive::MAKE_PORTAL if kind == PortalKind::Receive as u64 => &[2],
            domain::THREAD_CREATE if kind == PortalKind::Domain as u64 => &[6],
            _ if flags & flag::MOVE != 0 => &[4, 5, 6, 7],
            _ => &[],
        };
        slots.iter().for_each(|&slot| words[slot] |= GIVEN);
        // `vm`, and whatever came with an answer, which can be an object of `vm`'s.
        if slot == native_slot::VM || slot == client.0 || slot >= layout::RESERVED_SLOTS {
            spare(&mut words);
        }
        let address = memory.as_mut_ptr() as u64;
        let mut gate = Gate {
            rax: selector(slot, operation, flags),
            words,
            rbx: random.word(),
            rbp: random.word(),
            r14: random.word(),
            r15: random.word(),
        };
        if random.below(2) == 0 {
            (gate.r14, gate.r15, gate.rbx, gate.rbp) = (
                address,
                random.below(4096),
                address + 4096,
                random.below(4096),
            );
        }
        // SAFETY: words and parts may name this program's own memory, which other programs and the nucleus may then change: the only state it relies on are
        // registers and the loop's variables, and if those are hit the program dies, which is what is being tried.
        let _ = unsafe { gate.traverse() };
        made += 1;
    }
    // Threads that it made would keep the domain alive.
    if let Ok([own, ..]) = Portal::CURRENT.service(current::IDENTITY, &[]) {
        let domains = (1..600).filter(|&slot| kind_of(slot) == PortalKind::Domain as u64);
        for slot in domains {
            while Portal(slot).service(domain::KILL_OTHERS, &[own]) == Err(Error::Again) {}
        }
    }
    // The log's slot may lead anywhere by now: the watcher reports the value.
    cairn_rt::start::exit(made)
}
