//! Takes all idle memory as cache, gives it back when it is wanted, and looks whether what it still has is what it put there. The host's side of the test runs programs
//! that want the memory (lending.toml).
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::layout::{native_slot, PAGE};
use cairn_cache::{Cache, File, Memory, Put, Slot};
use cairn_rt::{log, memory, time, Portal, Receiver};

cairn_rt::entry!(main);

const ARENA: usize = 256 << 20;
const BYTES: usize = PAGE as usize;
/// Pages of the file that is cached: more than any memory here.
const PAGES: u64 = 1 << 17;
/// Between two looks whether there is idle memory.
const PERIOD: u64 = 20_000_000;
/// What its notifications come with.
const WATCHER: u64 = 1;

/// The arena as the cache needs it.
struct Lent {
    arena: &'static mut [u8],
    refused: bool,
}

impl Lent {
    fn pages(&mut self, first: Slot, count: u32) -> &mut [u8] {
        let start = first as usize * BYTES;
        &mut self.arena[start..start + count as usize * BYTES]
    }
}

impl Memory for Lent {
    fn populate(&mut self, first: Slot, count: u32) -> bool {
        let done = memory::populate_lent(self.pages(first, count));
        self.refused |= !done;
        done
    }
    fn release(&mut self, first: Slot, count: u32) {
        let _ = memory::release(self.pages(first, count));
    }
}

struct Lender {
    cache: Cache<Lent>,
    file: File,
    next: u64,
    most: u32,
    given: u64,
    told: bool,
}

fn main() -> ! {
    let channel = Receiver(Portal(native_slot::RECEIVE));
    let arena = memory::map(ARENA).expect("an arena");
    let watcher = channel.make_portal(WATCHER).expect("a portal");
    memory::lend(arena, watcher).expect("lent");
    let refused = false;
    let mut cache = Cache::new(Lent { arena, refused }, (ARENA / BYTES) as u32);
    let mut lender = Lender {
        file: cache.open(),
        cache,
        next: 0,
        most: 0,
        given: 0,
        told: false,
    };
    loop {
        lender.grow();
        let next = time::monotonic() + PERIOD;
        while let Ok(message) = channel.receive(Some(next)) {
            if message.badge == WATCHER && message.token == 0 {
                lender.give();
            }
        }
    }
}

/// What page `page` of the file says.
fn content(page: u64) -> [u8; 8] {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

impl Lender {
    /// Read on, as it were, until there is no idle memory.
    fn grow(&mut self) {
        self.cache.memory().refused = false;
        for _ in 0..PAGES {
            let page = self.next;
            self.next = (page + 1) % PAGES;
            match self.cache.put(self.file, page) {
                Ok(Put::There(slot)) => self.check(page, slot),
                Ok(Put::Fresh(slot)) => {
                    let bytes = self.cache.memory().pages(slot, 1);
                    bytes[..8].copy_from_slice(&content(page));
                    bytes[BYTES - 8..].copy_from_slice(&content(page));
                }
                Ok(Put::Loading) | Err(_) => break,
            }
            if self.cache.memory().refused {
                break;
            }
        }
        let (used, ..) = self.cache.usage();
        if used > 30_000 && self.most <= 30_000 {
            log!("all idle memory is cache");
        }
        self.most = self.most.max(used);
    }

    fn check(&mut self, page: u64, slot: Slot) {
        let bytes = self.cache.memory().pages(slot, 1);
        assert_eq!(bytes[..8], content(page), "page {page}");
        assert_eq!(bytes[BYTES - 8..], content(page), "page {page}");
    }

    fn give(&mut self) {
        let mut nothing_left = false;
        loop {
            let wanted = memory::wanted(nothing_left);
            if wanted == 0 {
                break;
            }
            let shrunk = self.cache.shrink(wanted as u32, |_, _, _, _| true);
            nothing_left = shrunk.released == 0;
            self.given += u64::from(shrunk.released);
        }
        // Some of what is left is what it was.
        for page in (0..PAGES).step_by(997) {
            if let Some(slot) = self.cache.get(self.file, page) {
                self.check(page, slot);
            }
        }
        if self.given > 40_000 && !self.told {
            self.told = true;
            log!("gave and took a thousand pages often");
        }
    }
}
