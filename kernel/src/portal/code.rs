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

/// Bytes of the longest template, of those that are put into it where the server has registers of its own (with one core only) and where the channel has a signature, and of code in a block.
/// With what is beside it and the pool's own words a block has 800 bytes.
pub const TEMPLATE_BYTES: usize = 584;
pub const OWN_BYTES: usize = 32;
pub const SIGNATURE_BYTES: usize = 160;
pub const CODE_BYTES: usize = TEMPLATE_BYTES + SIGNATURE_BYTES;
/// Most blocks of one domain.
const MOST: u32 = 64;
/// Slots that can have code of their own: those of a table's first frame.
const SLOTS: u64 = 256;

/// What the code of an entry does.
pub enum Way {
    /// What a thread asks of itself without changing anything (slot 0): its identity and the time.
    Current,
    /// A call of one domain to the thread that serves a channel. `turned`: the client's domain has a turn base, which has to be taken away and given back.
    Call { turned: bool },
    /// P and V of a plain semaphore without contention.
    Semaphore,
}

/// Everything that it has as constants, by their numbers; 0 where the way has none. Objects are known by their addresses.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Known {
    /// The whole of `rax`, of the call and of its reply.
    Selector,
    ReplySelector,
    /// What the server finds in `rax` and `rbx`.
    Received,
    Badge,
    /// The channel's `plain` while the server waits as it should.
    Plain,
    Portal,
    Channel,
    /// The id that a portal keeps until it is revoked, and the number.
    ChannelId,
    ChannelIndex,
    Server,
    ServerDomain,
    /// What shows that this is unusual.
    ServerUnusual,
    /// 1: its threads have registers of their own.
    Own,
    /// The thread's own.
    ClientDomain,
    Id,
    /// Of the channel, until its end; 0: it has none.
    Signature,
    Semaphore,
    /// The whole of `rax`; a value that never comes here, where the right is missing.
    SelectorP,
    SelectorV,
}

impl Known {
    pub const COUNT: usize = Known::SelectorV as usize + 1;
}

/// Behind them is room for the machine layer's own.
pub const CONSTANTS: usize = Known::COUNT + 7;

pub struct Constants(pub [u64; CONSTANTS]);

impl Constants {
    fn set(&mut self, which: Known, value: u64) {
        self.0[which as usize] = value;
    }

    pub fn get(&self, which: Known) -> u64 {
        self.0[which as usize]
    }
}

#[repr(C)]
pub struct Block {
    pub code: [u8; CODE_BYTES],
    /// What a settled caller's registers show, and what the settled reply asks for.
    pub selector: u64,
    pub badge: u64,
    pub reply_selector: u64,
    pub plain: u64,
}

impl Block {
    pub const EMPTY: Block = Block {
        code: [0; CODE_BYTES],
        selector: 0,
        badge: 0,
        reply_selector: 0,
        plain: 0,
    };
}

const _: () = assert!(crate::pool::Pool::<crate::pool::BlockRef, Block>::object_size() == 792);

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
        let mut constants = Constants([0; CONSTANTS]);
        let Some(way) = self.compiled_way(d, entry.target, selector, &mut constants) else {
            return;
        };
        let mut entry_code = entry.code;
        if self.several() {
            // Another core may be in the block that the entry has, or in one that was given back just now.
            self.uncompile(d, slot);
            entry_code = A::portal_code(entry.target);
            self.await_passers();
        }
        // What a block of its own was made for does not come any more: it is made anew.
        let b = match self.block_of(entry_code) {
            Some(b) => b,
            None => {
                if self.domains[d].blocks >= MOST {
                    return;
                }
                let Some(b) = self.block_for_code() else {
                    return;
                };
                self.domains[d].blocks += 1;
                b
            }
        };
        let index = self.blocks.index(b);
        let block = &mut self.blocks[b];
        block.selector = constants.get(Known::Selector);
        block.badge = constants.get(Known::Badge);
        block.reply_selector = constants.get(Known::ReplySelector);
        block.plain = constants.get(Known::Plain);
        let code = self
            .arch
            .write_code(index, &mut block.code, way, &mut constants);
        self.await_passers();
        self.domains[d].table.set_code(slot, code, MORE_USES);
    }

    /// No other core is in code that entries had before this, and each fetches anew what was written.
    #[inline]
    pub(crate) fn await_passers(&mut self) {
        if self.several() {
            self.arch.wait_for_passers();
        }
    }

    /// What an entry's code does, if it can have any, and its constants.
    fn compiled_way(
        &self,
        d: DomainRef,
        target: Target,
        selector: u64,
        constants: &mut Constants,
    ) -> Option<Way> {
        match target.kind() {
            PortalKind::Current => {
                constants.set(Known::ClientDomain, self.domains.address(d) as u64);
                constants.set(Known::Id, self.domains[d].id as u64);
                Some(Way::Current)
            }
            PortalKind::Semaphore => self.taking(target, selector % SLOTS, constants),
            PortalKind::Channel
                if target.rights() & (rights::CALL | rights::ONCE) == rights::CALL =>
            {
                self.connection(d, target, selector, constants)
            }
            _ => None,
        }
    }

    /// The constants of a call from `d` through this portal, if its channel is served by a thread that is plain when it waits, and the call is of the plain sort.
    fn connection(
        &self,
        d: DomainRef,
        target: Target,
        selector: u64,
        constants: &mut Constants,
    ) -> Option<Way> {
        // (Whether the server may have the parts shown only its OPEN asks, after the call was settled.)
        const COMPILED: u64 = flag::INTERRUPTIBLE | flag::PARTS | flag::WINDOWS | flag::KEEP;
        if selector & !COMPILED >= SLOTS {
            return None;
        }
        let portal_address = self.portals.address(self.portals.of(target));
        let portal = self.portals.at(target);
        let c = self.channels.lookup(portal.channel)?;
        let server = self.channels[c].server?;
        let plain = self.threads[server].plain;
        let slot = self.threads[server].receive_slot as u64;
        let server_domain = self.threads[server].domain;
        let serving = &self.domains[server_domain];
        // If the server has registers of its own the code asks whether they are in the processor, which they never are while a client runs that has some, too. It asks that of one core.
        let own = serving.float;
        let unusual = match own {
            true => &serving.unusual_beside,
            false => &serving.unusual,
        };
        if plain as u32 != self.plain_id(c)
            || slot >= SLOTS
            || *unusual != 0
            || own && (self.domains[d].float || self.several())
        {
            return None;
        }
        let interruptible = if selector & flag::INTERRUPTIBLE != 0 {
            received::INTERRUPTIBLE
        } else {
            0
        };
        let channel = &self.channels[c];
        let turned = self.domains[d].turn_base != 0;
        constants.set(Known::Selector, selector);
        let reply = slot | (receive::REPLY_RECEIVE as u64) << 32;
        constants.set(Known::ReplySelector, reply);
        let sender = (self.domains[d].id as u64) << received::SENDER_SHIFT;
        constants.set(Known::Received, sender | interruptible);
        constants.set(Known::Badge, portal.badge);
        constants.set(Known::Plain, plain);
        constants.set(Known::Portal, portal_address as u64);
        constants.set(Known::Channel, self.channels.address(c) as u64);
        constants.set(Known::ChannelId, portal.channel as u64);
        constants.set(Known::ChannelIndex, c.number() as u64);
        constants.set(Known::Server, self.threads.address(server) as u64);
        constants.set(Known::ClientDomain, self.domains.address(d) as u64);
        let server_domain = self.domains.address(server_domain) as u64;
        constants.set(Known::ServerDomain, server_domain);
        constants.set(Known::ServerUnusual, (&raw const *unusual) as u64);
        constants.set(Known::Own, own as u64);
        if let Some(signature) = channel.signature {
            let signature = self.signatures.address(signature) as u64;
            constants.set(Known::Signature, signature);
        }
        Some(Way::Call { turned })
    }

    /// A mutex has an owner, which is more than one instruction's work.
    fn taking(&self, target: Target, slot: u64, constants: &mut Constants) -> Option<Way> {
        let s = self.semaphores.of(target);
        if self.semaphores[s].mutex {
            return None;
        }
        let selector = |operation: u8, right: u16| {
            // A selector that names another slot comes to that one's code.
            let slot = if target.may(right) { slot } else { slot ^ 1 };
            slot | (operation as u64) << 32
        };
        constants.set(Known::SelectorP, selector(semaphore::P, rights::CALL));
        constants.set(Known::SelectorV, selector(semaphore::V, rights::NOTIFY));
        constants.set(Known::Semaphore, self.semaphores.address(s) as u64);
        Some(Way::Semaphore)
    }

    /// Empty an occupied slot; code of its own goes back.
    #[inline(never)]
    pub(crate) fn empty(&mut self, d: DomainRef, slot: u32) {
        let code = self.domains[d].table.clear(slot);
        if let Some(b) = self.block_of(code) {
            self.give_back(d, b);
        }
    }

    /// The block that this code lies in, if it lies in one.
    #[inline(never)]
    pub(crate) fn block_of(&self, code: usize) -> Option<BlockRef> {
        self.blocks.nth(A::block_of(code)?)
    }

    /// A block for code that is to be made.
    #[inline]
    pub(crate) fn block_for_code(&mut self) -> Option<BlockRef> {
        if !self.compiles {
            return None;
        }
        self.new_block()
    }

    #[inline(never)]
    pub(crate) fn new_block(&mut self) -> Option<BlockRef> {
        self.blocks.insert_any(|| Block::EMPTY)
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
