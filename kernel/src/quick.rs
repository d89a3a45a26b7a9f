//! Quick calls: what the compiled code of a portal does, and what the nucleus does about it afterwards.
//!
//! A call to a server that waits with nothing unusual about it changes who runs and nothing else: the caller's registers are kept, the server gets the message, and
//! that is all. `dispatch.current`, states, queues, priorities and links stay as they were before the call. The reply puts back the little that was changed. Whoever comes into
//! the nucleus in any other way, with such a call under way, *settles* first: [`Kernel::settle`] goes from the thread that runs back to `dispatch.current`, over at most
//! [`LINKS`] calls, and does for each what [`Kernel::call_short`] does. So between a quick call and its quick reply nothing else has happened in the nucleus, and the reply
//! need not check what the call has seen.
//!
//! A quick call may have parts: then the caller's registers and the lengths are kept as well, and what its server reads, writes and answers of them is done without settling
//! (`arch/x86_64/parts_code.rs`; on the simulated machine `Kernel::quick_transfer`, `quick_extras`) where everything is in its place; if a page is missing, or anything is unusual, nothing was
//! done and the calls are settled first.
//!
//! What makes a receiver *plain*, so that one comparison shows that it waits and that nothing about it is unusual: it waits at the channel that it serves, alone, with no deadline,
//! not poked, not lifted by who waits for a mutex of its, not stopped. Then the channel's `plain` is the thread's `plain`: the number that the thread got as a server, which no other ever gets, and the channel's id, the last bit of which is the other one
//! if the channel has a signature ([`crate::signature`]), so that only code which heeds that meets what it wants. Whatever changes one
//! of these conditions makes it 0 ([`Kernel::not_plain`]). What is so of its domain shows `unusual` there ([`Kernel::domain_changed`]).
//! If that has registers of its own code made for this asks `unusual_beside` and whether they are in the processor (`dispatch.owner`). A quick call or reply changes nothing about that: the client has none.
//!
//! What always holds: `reply_code` of a thread is the shared code's but while the thread runs, or waits for a quick reply, inside a quick call that is not settled.
//! A thread with something unusual pending (a deadline for its next wait, a poke not told yet, a mutex for which others wait) never runs compiled code: its `entries` all lead to the general path.

use crate::arch::Arch;
use crate::pool::{BlockRef, ChannelRef, ThreadRef};
use crate::queue::List;
use crate::thread::{Sending, State};
use crate::Kernel;
use cairn_abi::flag;

/// Calls that are not settled are fewer; the code counts them. (Settling one takes some 75 instructions, all of them with interrupts off.)
pub const LINKS: u32 = 16;

/// How `plain` of a channel with a signature differs from the channel's id: in the index, so it is nothing that this channel's could be without one.
pub(crate) const SIGNED: u32 = 1;

/// What a quick call under way went through.
#[derive(Clone, Copy)]
struct CallLink {
    channel: ChannelRef,
    /// That of its code.
    block: BlockRef,
}

impl<A: Arch> Kernel<A> {
    /// `t` waits at `c`.
    #[inline(never)]
    pub(crate) fn add_receiver(&mut self, c: ChannelRef, t: ThreadRef) {
        let thread = &mut self.threads[t];
        let channel = &mut self.channels[c];
        let unusual = thread.deadline | (thread.poked | thread.lifted) as u64;
        if unusual == 0 {
            thread.entries = thread.own_entries;
        }
        channel.plain = if thread.stops == 0
            && unusual == 0
            && channel.receivers.first().is_none()
            && thread.serving == Some(c)
        {
            thread.plain
        } else {
            0
        };
        channel.receivers.push_front(&mut self.threads, t);
    }

    /// [`Kernel::add_receiver`] of a thread that serves `c` and for which nothing unusual is pending.
    #[inline(always)]
    pub(crate) fn add_plain_receiver(&mut self, c: ChannelRef, t: ThreadRef) {
        let thread = &mut self.threads[t];
        let channel = &mut self.channels[c];
        thread.behalf = u8::MAX;
        if thread.stops != 0 || !channel.receivers.is_empty() {
            return self.add_receiver(c, t);
        }
        debug_assert!(thread.deadline == 0 && !thread.poked && !thread.lifted);
        thread.entries = thread.own_entries;
        channel.plain = thread.plain;
        channel.receivers.set_only(thread, t);
    }

    /// `t` waits at `c` no longer.
    #[inline(never)]
    pub(crate) fn remove_receiver(&mut self, c: ChannelRef, t: ThreadRef) {
        let channel = &mut self.channels[c];
        channel.plain = 0;
        if self.threads[t].link.is_alone() {
            channel.receivers = List::default();
        } else {
            channel.receivers.remove(&mut self.threads, t);
        }
    }

    /// `t` was poked, or lifted by who waits for a mutex of its.
    pub(crate) fn unusual(&mut self, t: ThreadRef) {
        self.threads[t].entries = A::general_entries();
        self.not_plain(t);
    }

    /// `t` is not to be called without a look at it.
    #[inline(never)]
    pub(crate) fn not_plain(&mut self, t: ThreadRef) {
        if let (State::Receiving, Some(c)) = (self.threads[t].state, self.threads[t].channel) {
            self.channels[c].plain = 0;
        }
    }

    /// The lower half of `plain` at channel `c`.
    pub(crate) fn plain_id(&self, c: ChannelRef) -> u32 {
        let signed = self.channels[c].signature.is_some();
        self.channels.id(c) ^ if signed { SIGNED } else { 0 }
    }

    /// `t` serves `c` from now on: what shows that it waits there plainly?
    pub(crate) fn find_plain(&mut self, t: ThreadRef, c: ChannelRef) {
        let all = self.cores.all();
        let channel = self.plain_id(c);
        let thread = &mut self.threads[t];
        if thread.server_number == 0 {
            if let Some(number) = self.servers.checked_add(1) {
                self.servers = number;
                thread.server_number = number;
            }
        }
        // One that may not run everywhere is never plain: a quick call takes it to the caller's core. Nor is one that could not be counted.
        thread.plain = if thread.affinity & all == all && thread.server_number != 0 {
            u64::from(thread.server_number) << 32 | u64::from(channel)
        } else {
            0
        };
    }

    /// Start of every entry that the machine layer has not settled. (With several cores [`Kernel::come_in`] has.)
    #[inline(always)]
    pub(crate) fn settle_entry(&mut self) {
        if let Some(running) = self.arch.unsettled() {
            self.settle(running);
        }
    }

    /// Do for every quick call under way what a call does; the thread with these registers runs.
    pub fn settle(&mut self, registers: usize) {
        let running = self.threads.at_address(registers);
        let (Some(running), Some(first)) = (running, self.dispatch.current) else {
            return;
        };
        // Mostly there is one. (The thread that is current is in none, and has no link.)
        let alone = self.threads[running].quick_client == self.threads.address(first);
        let links = match self.link(running) {
            Some(link) if alone => {
                let effective = self.threads[first].effective;
                self.settle_link(running, first, link, effective);
                1
            }
            _ => self.settle_links(running, first),
        };
        self.runs_settled(running, links);
    }

    /// So many calls were settled: `running` is the current thread.
    #[inline(always)]
    fn runs_settled(&mut self, running: ThreadRef, links: u32) {
        let thread = &mut self.threads[running];
        thread.channel = None;
        thread.state = State::Running;
        self.dispatch.current = Some(running);
        self.dispatch.loaded = Some(running);
        let d = self.threads[running].domain;
        self.dispatch.loaded_domain = Some(d);
        let domain = &self.domains[d];
        self.arch.settled(
            self.cores.here,
            links,
            domain.root,
            (&raw const *domain).cast(),
        );
    }

    /// All calls from `first` to `running`: how many.
    #[cold]
    #[inline(never)]
    fn settle_links(&mut self, running: ThreadRef, first: ThreadRef) -> u32 {
        let effective = self.threads[first].effective;
        let mut server = running;
        let mut links = 0;
        while server != first && links < LINKS {
            let client = self.threads.at_address(self.threads[server].quick_client);
            let (Some(client), Some(link)) = (client, self.link(server)) else {
                self.threads[server].reply_code = A::reply_code();
                break;
            };
            self.settle_link(server, client, link, effective);
            server = client;
            links += 1;
        }
        links
    }

    /// What `server`, which runs or waits for a quick reply itself, was called through.
    #[inline(always)]
    fn link(&self, server: ThreadRef) -> Option<CallLink> {
        let thread = &self.threads[server];
        Some(CallLink {
            channel: thread.serving?,
            block: self.blocks.nth(A::block_of(thread.reply_code)?)?,
        })
    }

    /// One call. (The machine's way from an interrupt to its driver has this as code.)
    #[inline(always)]
    fn settle_link(&mut self, server: ThreadRef, client: ThreadRef, link: CallLink, effective: u8) {
        let here = self.cores.here;
        let block = &self.blocks[link.block];
        let (from, to) = self.threads.pair(client, server);
        from.badge = block.badge;
        if block.selector & flag::PARTS == 0 {
            from.parts = 0;
        }
        from.registers.rax = block.selector;
        from.registers.rflags = crate::thread::USER_FLAGS;
        from.sending = Sending::Message;
        from.state = State::Held;
        from.channel = Some(link.channel);
        from.server = Some(server);
        to.core = here as u8;
        to.reply_code = A::reply_code();
        to.client = Some(client);
        to.effective = effective;
        // Who waits plainly is alone, and nobody has come since.
        debug_assert!(to.link.is_alone());
        self.channels[link.channel].receivers = List::default();
    }

    /// Who serves channel number `channel`, and works for a quick call with parts there, and the caller, whose token this is.
    #[cfg(any(test, feature = "sim"))]
    fn quick_pair(&self, channel: u32, token: cairn_abi::Token) -> Option<(ThreadRef, ThreadRef)> {
        let server = self.channels[self.channels.handle(channel)].server?;
        let caller = self.threads.place_of(token as u32)?;
        let thread = &self.threads[caller];
        let is_it = thread.token == token
            && self.threads.address(caller) == self.threads[server].quick_client;
        is_it.then_some((server, caller))
    }

    /// READ (out) and WRITE in the middle of a quick call with parts, by its server with the receive right of channel number `channel`: token, offset, own address, length. How many bytes
    /// were copied; None: none, settle and take the general way.
    #[cfg(any(test, feature = "sim"))]
    pub fn quick_transfer(
        &mut self,
        channel: u32,
        out: bool,
        [token, offset, address, len]: [u64; 4],
    ) -> Option<u64> {
        let (server, caller) = self.quick_pair(channel, token)?;
        let copied = self.copy_part(server, caller, out, (offset, address, len), false)?;
        self.counters.entries += 1;
        Some(copied)
    }

    /// What comes with the reply to a quick call with parts beside words, as [`Kernel::reply_extras`] says. None: settle and take the general way.
    #[cfg(any(test, feature = "sim"))]
    pub fn quick_extras(&mut self, channel: u32, token: cairn_abi::Token) -> Option<u64> {
        let (server, caller) = self.quick_pair(channel, token)?;
        let c = self.channels.handle(channel);
        self.reply_extras(server, caller, c)
    }
}
