//! Makes a million random portal calls (argument `count=N`, `seed=N`) with hostile words, parts and flags, on its own portals and on slots it does not have.
//! It may fail in every way; nobody else may. It ends with the number of calls as its exit value, which `init` logs: `hostile died: exit N`.
#![no_std]
#![no_main]

use cairn_abi::service::{current, domain};
use cairn_abi::{flag, layout, Error, PortalKind};
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
    let count: u64 = number("count", 1_000_000);
    let mut random = Random(number("seed", 20_261_120) | 1);
    let mut memory = [0u8; 8192];
    let mut made = 0;
    while made < count {
        // Every wait ends soon.
        let _ = Portal::CURRENT.service(current::DEADLINE, &[cairn_rt::time::monotonic() + 20_000]);
        let slot = match random.below(8) {
            0 => random.next() as u32,
            1 => random.below(600) as u32,
            _ => random.below(24) as u32,
        };
        let operation = if random.below(4) == 0 {
            random.next() as u8
        } else {
            random.below(21) as u8
        };
        let kind = kind_of(slot);
        if pointless(kind, operation) {
            made += 1;
            continue;
        }
        // Closing or replacing the portals that the test itself lives on would end the test, not the system.
        let mut words = [0; 8];
        words.iter_mut().for_each(|w| *w = random.word());
        match operation {
            current::PORTAL_CLOSE | current::PORTAL_COPY | current::PORTAL_DERIVE if slot == 0 => {
                words[0] |= 32;
                words[1] |= 32;
            }
            current::SEMAPHORE_CREATE if slot == 0 => words[2] |= 32,
            _ => {}
        }
        let flags = match random.below(3) {
            0 => 0,
            1 => flag::PARTS,
            _ => random.next() & (0x1f_ffff << 40),
        };
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
