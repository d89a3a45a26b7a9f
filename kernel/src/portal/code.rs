//! Compiled portals: an entry that is used much gets machine code of its own, in which everything that the connection does not change is a constant.
//!
//! The code lies in *blocks* of a pool whose frames the machine layer shows twice: writable here, executable elsewhere. A block belongs to one entry and goes back
//! when the entry is emptied or loses the right to call. Nobody waits for a block: where none is free the code that all entries of a kind share goes on, and where the
//! compiled code meets anything but the one case that it was made for, it jumps there with nothing changed.
//!
//! Code is not made when a portal is opened but after [`FIRST_USES`](super::table::FIRST_USES) uses, which the shared code counts: fork copies hundreds of entries of which most
//! are never used, and a block costs about as much as twenty calls save.

use super::table::{Target, MORE_USES};
use crate::arch::Arch;
use crate::pool::{BlockRef, DomainRef, Handle, ThreadRef};
use crate::Kernel;
use cairn_abi::service::{receive, semaphore};
use cairn_abi::{flag, received, rights, PortalKind};

/// Bytes of the longest template, of the one that is put into it where the channel has a signature, and of code in a block. With what is beside it and the pool's own words a block has 800 bytes.
pub const TEMPLATE_BYTES: usize = 584;
pub const SIGNATURE_BYTES: usize = 160;
pub const CODE_BYTES: usize = TEMPLATE_BYTES + SIGNATURE_BYTES;
/// Most blocks of one domain.
const MOST: u32 = 64;
/// Slots that can have code of their own: those of a table's first frame.
const SLOTS: u64 = 256;

/// Everything that the code of an entry has as constants.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// What a thread asks of itself without changing anything (slot 0), its identity and the time: the domain, and its id.
    Current {
        domain: usize,
        id: u32,
    },
    Call(Connection),
    Semaphore(Taking),
}

/// P and V of a plain semaphore without contention.
#[derive(Clone, Copy, Debug)]
pub struct Taking {
    /// The whole of `rax`; a value that never comes here, where the right is missing.
    pub p: u64,
    pub v: u64,
    /// Address of the object.
    pub semaphore: usize,
}

/// A call of one domain to the thread that serves a channel. Addresses are those of objects.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// The whole of `rax`, of the call and of its reply.
    pub selector: u64,
    pub reply_selector: u64,
    /// What the server finds in `rax` and `rbx`.
    pub received: u64,
    pub badge: u64,
    /// The channel's `plain` while the server waits as it should.
    pub plain: u64,
    pub portal: usize,
    pub channel: usize,
    /// The id that a portal keeps until it is revoked, and the index.
    pub channel_id: u32,
    pub channel_index: u32,
    pub server: usize,
    pub client_domain: usize,
    pub server_domain: usize,
    /// The client's domain has a turn base: it has to be taken away and given back.
    pub turned: bool,
    /// Of the channel, until its end.
    pub signature: Option<usize>,
}

#[repr(C)]
pub struct Block {
    pub code: [u8; CODE_BYTES],
    /// What a settled caller's registers show, and what the settled reply asks for.
    pub selector: u64,
    pub badge: u64,
    pub reply_selector: u64,
    pub plain: u64,
    /// How many of its calls were settled.
    pub settled: u64,
}

impl Block {
    pub const EMPTY: Block = Block {
        code: [0; CODE_BYTES],
        selector: 0,
        badge: 0,
        reply_selector: 0,
        plain: 0,
        settled: 0,
    };
}

/// After so many the entry goes back to the shared code for a while: where most calls are settled that is the shorter way.
pub(crate) const SETTLED: u64 = 64;

const _: () = assert!(crate::pool::Pool::<crate::pool::BlockRef, Block>::object_size() == 800);

impl<A: Arch> Kernel<A> {
    /// The entry that `t`, the current thread, is using was used so often that it shall have code of its own, if that is possible.
    pub fn compile(&mut self, t: ThreadRef) {
        let selector = self.threads[t].registers.rax;
        let d = self.threads[t].domain;
        let slot = (selector % SLOTS) as u32;
        let Some(&entry) = self.domains[d].table.entry(slot) else {
            return;
        };
        self.domains[d].table.set_code(slot, entry.code, MORE_USES);
        let Some(way) = self.constants(d, entry.target, selector) else {
            return;
        };
        if !self.compiles {
            return;
        }
        let mut entry_code = entry.code;
        if self.several() {
            // Another core may be in the block that the entry has, or in one that was given back just now.
            self.uncompile(d, slot);
            entry_code = A::portal_code(entry.target);
            self.arch.wait_for_passers();
        }
        // What a block of its own was made for does not come any more: it is made anew.
        let b = match self.block_of(entry_code) {
            Some(b) => b,
            None => {
                if self.domains[d].blocks >= MOST {
                    return;
                }
                let Some(b) = self.blocks.insert_any(|| Block::EMPTY) else {
                    return;
                };
                self.domains[d].blocks += 1;
                b
            }
        };
        let index = self.blocks.index(b);
        let block = &mut self.blocks[b];
        if let Way::Call(connection) = &way {
            block.selector = connection.selector;
            block.badge = connection.badge;
            block.reply_selector = connection.reply_selector;
            block.plain = connection.plain;
        }
        block.settled = 0;
        let code = self.arch.write_code(index, &mut block.code, &way);
        self.domains[d].table.set_code(slot, code, MORE_USES);
    }

    /// The constants of an entry's code, if it can have any.
    fn constants(&self, d: DomainRef, target: Target, selector: u64) -> Option<Way> {
        match target.kind() {
            PortalKind::Current => Some(Way::Current {
                domain: self.domains.address(d),
                id: self.domains[d].id,
            }),
            PortalKind::Semaphore => self.taking(target, (selector % SLOTS) as u32),
            PortalKind::Channel
                if target.rights() & (rights::CALL | rights::ONCE) == rights::CALL =>
            {
                self.connection(d, target, selector)
            }
            _ => None,
        }
    }

    /// The constants of a call from `d` through this portal, if its channel is served by a thread that is plain when it waits, and the call is of the plain sort.
    fn connection(&self, d: DomainRef, target: Target, selector: u64) -> Option<Way> {
        if selector & !(flag::INTERRUPTIBLE | flag::PARTS) >= SLOTS {
            return None;
        }
        let portal_address = self.portals.address(self.portals.of(target));
        let portal = self.portals.at(target);
        let c = self.channels.lookup(portal.channel)?;
        let server = self.channels[c].server?;
        let plain = self.threads[server].plain;
        let slot = self.threads[server].receive_slot as u64;
        let server_domain = self.threads[server].domain;
        if plain as u32 != self.plain_id(c)
            || slot >= SLOTS
            || self.domains[server_domain].unusual != 0
        {
            return None;
        }
        let interruptible = if selector & flag::INTERRUPTIBLE != 0 {
            received::INTERRUPTIBLE
        } else {
            0
        };
        Some(Way::Call(Connection {
            selector,
            reply_selector: slot | (receive::REPLY_RECEIVE as u64) << 32,
            received: (self.domains[d].id as u64) << received::SENDER_SHIFT | interruptible,
            badge: portal.badge,
            portal: portal_address,
            channel_id: portal.channel,
            plain,
            channel: self.channels.address(c),
            channel_index: c.number(),
            server: self.threads.address(server),
            client_domain: self.domains.address(d),
            server_domain: self.domains.address(server_domain),
            turned: self.domains[d].turn_base != 0,
            signature: self.channels[c]
                .signature
                .map(|signature| self.signatures.address(signature)),
        }))
    }

    /// A mutex has an owner, which is more than one instruction's work.
    fn taking(&self, target: Target, slot: u32) -> Option<Way> {
        let s = self.semaphores.of(target);
        if self.semaphores[s].mutex {
            return None;
        }
        let selector = |operation: u8, right: u16| {
            // A selector that names another slot comes to that one's code.
            let slot = if target.may(right) { slot } else { slot ^ 1 };
            slot as u64 | (operation as u64) << 32
        };
        Some(Way::Semaphore(Taking {
            p: selector(semaphore::P, rights::CALL),
            v: selector(semaphore::V, rights::NOTIFY),
            semaphore: self.semaphores.address(s),
        }))
    }

    /// Calls by the code of the entry that this thread has called were settled [`SETTLED`] times.
    #[cold]
    #[inline(never)]
    pub(crate) fn often_settled(&mut self, caller: ThreadRef) {
        // With several cores it need not have been this one's wish, and the shared code is no shorter way.
        if self.several() {
            return;
        }
        let caller = &self.threads[caller];
        let (d, slot) = (caller.domain, caller.registers.rax as u32);
        self.uncompile(d, slot);
        let table = &mut self.domains[d].table;
        if let Some(code) = table.entry(slot).map(|entry| entry.code) {
            table.set_code(slot, code, MORE_USES);
        }
    }

    /// Empty an occupied slot; code of its own goes back.
    #[inline]
    pub(crate) fn empty(&mut self, d: DomainRef, slot: u32) {
        let code = self.domains[d].table.clear(slot);
        if let Some(b) = self.block_of(code) {
            self.give_back(d, b);
        }
    }

    /// The block that this code lies in, if it lies in one.
    #[inline(always)]
    pub(crate) fn block_of(&self, code: usize) -> Option<BlockRef> {
        self.blocks.nth(A::block_of(code)?)
    }

    fn give_back(&mut self, d: DomainRef, b: BlockRef) {
        self.blocks.remove(b);
        self.domains[d].blocks -= 1;
    }

    /// An entry changes: its code goes back.
    pub(crate) fn uncompile(&mut self, d: DomainRef, slot: u32) {
        let Some(entry) = self.domains[d].table.entry(slot) else {
            return;
        };
        if let Some(b) = self.block_of(entry.code) {
            self.give_back(d, b);
            self.domains[d].table.share_code(slot);
        }
    }

    /// Something that the code of a domain's entries has as a constant changes.
    pub(crate) fn uncompile_all(&mut self, d: DomainRef) {
        for slot in 0..SLOTS as u32 {
            if self.domains[d].blocks == 0 {
                return;
            }
            self.uncompile(d, slot);
        }
    }
}
