//! Operations of the nucleus services. Arguments are w0.., answers are w0.. ; every operation may also fail with `BadOperation`.
//! "slot" is an index in the caller's portal table unless said otherwise; slot argument [`AUTO`] lets the nucleus choose.

/// Let the nucleus choose a free slot.
pub const AUTO: u64 = u32::MAX as u64;

/// [`crate::PortalKind::Current`], slot 0: the calling thread.
pub mod current {
    /// → w0 thread id, w1 domain id, w2 label. (The cheapest operation.)
    pub const IDENTITY: u8 = 0;
    /// Let others of the same priority run.
    pub const YIELD: u8 = 1;
    /// w0 exit value. Ends the thread; the domain dies with its last thread.
    pub const EXIT: u8 = 2;
    /// w0 absolute monotonic deadline in ns. Blocks until then. `INTERRUPTIBLE` honoured.
    pub const SLEEP: u8 = 3;
    /// w0 absolute deadline for the next blocking operation of this thread (0 disarms). It then ends with `TimedOut`; whatever way the operation ends, the deadline is disarmed.
    pub const DEADLINE: u8 = 4;
    /// → w0 monotonic ns.
    pub const CLOCK: u8 = 5;
    /// Block until unparked (a permit is kept if the unpark came first). Deadline and `INTERRUPTIBLE` honoured.
    pub const PARK: u8 = 6;
    /// w0 thread id of the same domain: give it a park permit. `BadArgument` if there is no such thread.
    pub const UNPARK: u8 = 7;
    /// w0 slot: close it. Closing slot 0 is `BadArgument`.
    pub const PORTAL_CLOSE: u8 = 8;
    /// w0 slot, w1 target slot or AUTO (an occupied target is closed first), w2 mask of rights to keep (CLOEXEC and, for channels, ONCE may be added) → w0 slot.
    pub const PORTAL_COPY: u8 = 9;
    /// w0 slot → w0 [`crate::PortalKind`], w1 rights, w2 holders of the object, w3 object id (equal for equal objects), w4 the badge if it leads to a channel whose receive right the caller's table holds (otherwise 0), w5 1 in that case.
    pub const PORTAL_INFO: u8 = 10;
    /// w0 address of [`crate::state::Registers`] to fill with the registers saved by the upcall. `Busy` without one.
    pub const UPCALL_READ: u8 = 11;
    /// w0 address of [`crate::state::Registers`] to continue with; ends the upcall. If w0 is 0 the saved registers are used. Returns only on error. If the thread was poked meanwhile and the new rip lies below the turn base, a new upcall follows at once.
    pub const UPCALL_RETURN: u8 = 12;
    /// Drop the saved registers without using them (the personality has read them and goes on by itself).
    pub const UPCALL_DROP: u8 = 13;
    /// → w0 1 if the thread had been poked; clears the mark.
    pub const POKE_TAKE: u8 = 14;
    /// → w0 receive slot of a new channel. `NoMemory`, `NoSlot`.
    pub const CHANNEL_CREATE: u8 = 15;
    /// w0 thread id of the same domain → w0 1 if it still lives. (For futex owners and joins.)
    pub const THREAD_ALIVE: u8 = 16;
    /// w0 address of [`crate::machine::Counters`] to fill. What the whole machine did is no secret.
    pub const COUNTERS: u8 = 17;
    /// w0 count (of a mutex: 1 free, 0 taken), w1 [`super::semaphore::PLAIN`] or [`super::semaphore::MUTEX`], w2 slot or AUTO, w3 of a mutex that is taken: the owner's thread id (0: the caller), a thread of the same domain
    /// → w0 slot of a new semaphore. `NoMemory`, `NoSlot`.
    pub const SEMAPHORE_CREATE: u8 = 18;
    /// w0 slot, w1 target slot or AUTO (an occupied target is closed first), w2 mask of rights → w0 slot of a new portal that leads to the same and is derived from that in slot w0 (not from its copies elsewhere alone:
    /// copies are one portal). CLOEXEC and, for channels, ONCE may be added. `NoRight` for receive rights, slot 0 and portals for single use; `Busy`: it would be more than 16 derivations away from the first one.
    pub const PORTAL_DERIVE: u8 = 19;
    /// w0 slot: everything that was derived from that portal, and from what was derived, in whatever tables, leads nowhere from now on (`Revoked`), and calls through it that no server has received end so. In shares, by itself.
    pub const PORTAL_REVOKE: u8 = 20;
    /// w0 slot of a portal with OPEN, w1 target slot or AUTO (an occupied target is closed first), w2 mask of rights, w3 number (1 to 2^32 − 1) → w0 slot of a new portal to the same channel whose badge is that of slot w0 plus the number.
    /// It is derived from that one, and the server hears CLOSED for its badge. It never has OPEN; CLOEXEC and ONCE may be added. `NoRight` without OPEN, `BadArgument` for another number, `Busy` as for PORTAL_DERIVE.
    pub const PORTAL_OPEN: u8 = 21;
    /// w0 page-aligned own address, w1 pages (1 to [`super::window::MAX_PAGES`]), w2 slot or AUTO → w0 slot of a window there. The pages should be resident memory of the caller's. `Busy`: another window of its space is there.
    /// `NoMemory`, `NoSlot`.
    pub const WINDOW_CREATE: u8 = 30;
    /// w0 page-aligned own address, w1 pages: windows of others that show any of these pages close, kept ones too. One per entry.
    pub const WINDOW_REVOKE: u8 = 31;
    /// w0 thread id of the same domain (0: the caller), w1 a bit for each core that it may run on from now on (0: as before; those that are not there are ignored; `BadArgument` if none is left)
    /// → w0 the core that it runs on or ran on last, w1 those that it may run on, w2 those that are there.
    pub const AFFINITY: u8 = 40;
}

/// [`crate::PortalKind::Receive`]: the right to receive from a channel.
/// `RECEIVE`, `REPLY` and `REPLY_RECEIVE` take flags; see [`crate::received`] for what a receive returns.
pub mod receive {
    /// Wait for the most important caller or pulse. Pulses come before messages of the same priority. Deadline, `INTERRUPTIBLE`, `POLL` honoured.
    pub const RECEIVE: u8 = 1;
    /// rbp token, words = reply. With `PARTS`: r14/r15 data to copy to offset rbx of the caller's in part first (a fault of the caller's memory ends with `BadAddress` and the
    /// caller stays blocked; more data than room is `BadArgument`). With portals or `MINT`: they go to the caller; `NoSlot` leaves the caller blocked and nothing passed. `BadToken` if the caller is gone.
    /// With `OUT_VECTOR` the data is that of r15 (bits 0..16) [`crate::Part`]s at r14, one behind the other, without the first r15 >> 16 bytes of the first.
    /// Data longer than one share moves r14, r15 and rbx on.
    pub const REPLY: u8 = 2;
    /// Reply, then receive. If the reply fails nothing is received and the error is returned with kind MESSAGE bits zero and rbp unchanged.
    pub const REPLY_RECEIVE: u8 = 3;
    /// w0 token, w1 offset in the caller's out part, w2 own address, w3 length → w0 bytes copied (short only at the end of the part). Long copies resume by themselves; w1..w4 change meanwhile.
    /// w4 (in) is where the count starts: 0. With `IN_VECTOR` w2 and w3 are address and number of an array of [`crate::Part`]s to fill one after the other, from byte w6 of part w5 on (w1, w4, w5 and
    /// w6 change meanwhile); then the count is also short where they end.
    pub const READ: u8 = 4;
    /// w0 token, w1 offset in the caller's in part, w2 own address, w3 length → w0 bytes copied. A vector as in READ, with `OUT_VECTOR`.
    pub const WRITE: u8 = 5;
    /// w0 badge, w1 rights, w2 slot or AUTO, w3 slot of a portal to this channel that the new one is derived from or 0 → w0 slot of a new portal object on this channel. OPEN among the rights: `BadArgument` if the badge's low 32 bits are not 0.
    pub const MAKE_PORTAL: u8 = 6;
    /// w0 token → w0 caller's thread id, w1 domain id, w2 effective priority, w3 address of its out part, w4 of its in part (0 if it is a vector or missing). `BadToken`.
    /// (A pager needs the addresses: `READ` and `WRITE` by the domain that holds the receive right of the faulting space's pager make no fault message but end with
    /// `BadAddress`; it makes the pages present itself and tries again.)
    pub const CALLER: u8 = 7;
    /// In w1 of [`CALLER`]: the thread works for this caller from now on, and has its priority until it replies to it or receives.
    pub const RESUME: u64 = 1;
    /// A line of the channel's *signature*: w0 number of an operation, below [`OPERATIONS`], with [`BADGE`] or without; w1 to w7 the greatest value of each word. From now on a call whose w0 is that number
    /// comes to its server only if no word is greater (`BadArgument` for the caller). With BADGE its w7 is a slot of the caller's, of a portal to this channel with CALL, and arrives as that portal's badge (`BadPortal`,
    /// `NoRight`, `Revoked` for the caller). Operations without a line pass as they are, and so does one of which nothing is asked. w0 AUTO: there are no lines any more. `NoMemory`, `Dead`.
    pub const SIGN: u8 = 8;
    /// w0 where to go on, 0 at first → w0 where it is, 0: there are no more; w1 badge: the next portal to this channel that is held, or from which one came. (For a server that comes after one that
    /// died: what was to hear of a portal's end, or was about to be given one, may have died with it.)
    pub const NEXT_BADGE: u8 = 9;
    /// Reply to the caller behind rbp (0: to none; no PARTS), choose the member with thread id rbx (0: none) and receive; the chosen one runs meanwhile, at
    /// the priority below the caller's own, until it waits, another is chosen or this receive is over at r15 (absolute ns; 0: a deadline as for RECEIVE),
    /// which is `TimedOut`. `BadArgument`: no member of this channel's partition, or it may not run on this core; the caller is a member itself, or has
    /// priority 0.
    pub const DISPATCH: u8 = 10;

    /// How many operations a signature can have lines for: those with the lowest numbers.
    pub const OPERATIONS: u64 = 64;
    /// SIGN: w7 names a portal, in whose place its badge arrives.
    pub const BADGE: u64 = 1 << 32;
}

/// [`crate::PortalKind::Window`]: a server's view of its callers' pages.
pub mod window {
    /// Most pages of a window.
    pub const MAX_PAGES: u64 = 8;

    /// w0 receive slot, w1 token, w2 offset in the caller's part, w3 pages, w4 flags below → w0 pages, w1 their address. The pages appear in the place of the server's own until CLOSE, the reply, the end of the call for any other reason,
    /// or until the caller's mapping changes; the server's own are back then. Address and length of what is shown are whole pages of the part. A page that is not there is brought by its pager.
    /// `NoRight`: the caller has not agreed. `Busy`: open already; or two windows show this call's, or 16 this caller's pages; or they are a window's themselves. `BadAddress`: not memory that could be shown. Copying is always possible instead.
    pub const OPEN: u8 = 1;
    pub const CLOSE: u8 = 2;
    /// → w0 1 if open, w1 bits of the pages that are shown, w2 1 if it is kept.
    pub const INFO: u8 = 3;

    /// OPEN: the in part, for writing. Without it: the out part, for reading.
    pub const IN: u64 = 1;
    /// OPEN: stays open after the reply.
    pub const KEEP: u64 = 2;
    /// OPEN, out part: a page that the server writes becomes a copy in the server's own page, which stays.
    pub const COPY: u64 = 4;
}

/// [`crate::PortalKind::Domain`].
pub mod domain {
    /// w0 entry rip, w1 rsp, w2 rdi at entry, w3 fs base, w4 gs base, w5 priority (at most the caller's ceiling) and, from bit 8 on, [`crate::policy`] (AUTO: the caller's own priority, by turns), w6 slot or AUTO for the thread portal (0 = give none)
    /// → w0 slot, w1 thread id. The thread starts stopped; see [`super::thread::START`]. `NoMemory`.
    pub const THREAD_CREATE: u8 = 1;
    /// w0 own slot, w1 target slot or AUTO in that domain, w2 mask of rights → w0 slot there. Needs CONTROL. An occupied target is closed first.
    pub const PORTAL_PUT: u8 = 2;
    /// w0 slot of the source domain's portal, w1 first slot, w2 to w5 slots that are passed over (bit n of all: the n-th of the 256 slots, counted from a multiple of 256, that the first is one of) → copies the entries from the first up to the next multiple of 256 that have INHERIT into the same slots; w0 next slot to go on with, 0 when done. Needs CONTROL on both. `NoSlot` if this table has too few entries.
    pub const TABLE_COPY: u8 = 3;
    /// w0 turn base (0: native, every syscall is a traversal), w1 syscall entry, w2 upcall entry (both below USER_TOP, otherwise `BadArgument`). Needs CONTROL.
    /// At the syscall entry: `rax` = (return address << 16) | low 16 bits of the number (saturated), all other registers as the program left them.
    pub const SET_TURN: u8 = 4;
    /// w0 label, delivered to every receiver with each message. Needs CONTROL.
    pub const SET_LABEL: u8 = 5;
    /// w0 receive slot of the caller, w1 badge: pulse DEATH when the domain dies. One watcher. Needs CONTROL.
    pub const WATCH: u8 = 6;
    /// Kill all threads and close all portals, in bounded shares: `Again` until done. w0 reason detail. Needs CONTROL.
    pub const DESTROY: u8 = 7;
    /// → w0 domain id, w1 live threads, w2 portals in use, w3 CPU ns, w4 space object id, w5 table entries, w6 1 if threads have floating-point registers and bases of their own.
    pub const INFO: u8 = 8;
    /// w0 slot of a space portal: the domain's threads use this space from now on. Needs CONTROL. (exec after vfork)
    pub const SET_SPACE: u8 = 9;
    /// Stop all threads (job control); counted. Needs CONTROL.
    pub const STOP: u8 = 10;
    /// Undo one STOP. Needs CONTROL.
    pub const CONTINUE: u8 = 11;
    /// w0 thread id to keep: kill the others. (exec) `Again` until done. Needs CONTROL or own domain.
    pub const KILL_OTHERS: u8 = 12;
    /// Close every entry with CLOEXEC from slot w0 on, in bounded shares → w0 next slot, 0 when done. Needs CONTROL or own domain.
    pub const CLOSE_ON_EXEC: u8 = 13;
    /// w0 flags: 1 = threads have floating-point registers and FS and GS bases of their own (default for new domains); 0 = trusted component that leaves those of others alone. w1 = highest priority its threads may ask for. Needs CONTROL.
    pub const CONFIGURE: u8 = 14;
    /// w0 thread id in this domain, w1 [`super::thread`] operation, w2.. its arguments from w0: as if through that thread's portal. Needs CONTROL, or own domain for POKE. `BadArgument` if there is no such thread.
    pub const THREAD_CONTROL: u8 = 15;
    /// w0 slot in that domain: close it. Needs CONTROL.
    pub const PORTAL_REMOVE: u8 = 16;
    /// PORTAL_PUT the other way, for channels' portals that are not for a single use: w0 slot in that domain, w1 own slot or AUTO, w2 mask of rights
    /// → w0 own slot. Needs CONTROL.
    pub const PORTAL_TAKE: u8 = 17;
}

/// [`crate::PortalKind::Thread`] (and through [`domain::THREAD_CONTROL`]).
pub mod thread {
    /// Let a new thread run.
    pub const START: u8 = 1;
    pub const KILL: u8 = 2;
    /// Mark the thread as poked: an interruptible wait ends with `Interrupted`, a caller held by a server makes an UNBLOCK pulse there, running code below the turn base gets an upcall,
    /// running code above it gets one as well (the personality sorts that out by its saved rip). A poke is told exactly once: `Interrupted` uses it up, so does the upcall;
    /// while an upcall's registers are saved it stays marked, and a caller held by a server gets its upcall after the reply.
    pub const POKE: u8 = 3;
    /// w0 priority, w1 [`crate::policy`], w2 quantum in ns (0 = default 10 ms).
    pub const SET_PRIORITY: u8 = 4;
    /// w0 address of Registers to fill. (One that runs on another core is brought in first.)
    pub const READ_STATE: u8 = 5;
    /// w0 address of Registers; only for a stopped or not yet started thread.
    pub const WRITE_STATE: u8 = 6;
    /// → w0 CPU ns, w1 state (0 running/ready, 1 blocked, 2 stopped), w2 priority, w3 effective priority, w4 policy, w5 the core that it runs on or ran on last, w6 a bit for each core that it may run on.
    pub const INFO: u8 = 7;
    pub const STOP: u8 = 8;
    pub const CONTINUE: u8 = 9;
    /// w0 a bit for each core that the thread may run on (others are ignored; `BadArgument` if none is left).
    pub const SET_AFFINITY: u8 = 10;
    /// w0 receive slot of the caller, w1 badge, w2 bound in ns (0: as before, at first [`super::scheduler::BOUND`]): the thread is a member of that channel's
    /// partition from now on, and runs only when it is chosen there ([`super::receive::DISPATCH`]) → w0 its thread id. w0 0: it has no scheduler any more.
    /// `NoMemory`: there are as many partitions as can be. `Dead`. `BadArgument`: it has none.
    pub const SET_SCHEDULER: u8 = 11;
}

/// What a scheduler is told of its members ([`crate::pulse::MEMBER`]), and how long it may stay away.
pub mod scheduler {
    /// It waits, or is stopped, or a server waits that works for it; it is chosen no longer.
    pub const BLOCKED: u64 = 0;
    /// It could run.
    pub const READY: u64 = 1;
    /// It is dead.
    pub const GONE: u64 = 2;
    /// Bound of a partition for which none was given, in ns; and the shortest.
    pub const BOUND: u64 = 1_000_000_000;
    pub const LEAST_BOUND: u64 = 1_000_000;
}

/// [`crate::PortalKind::Memory`]. Frames are physical addresses / 4096. The nucleus refuses (`BadArgument`) frames that do not exist, and to map frames that it owns;
/// it counts mappings and takes back only frames that are mapped nowhere (`Busy`).
pub mod memory {
    /// w0 index → w0 first frame, w1 count, w2 frame kind of the index-th range of memory that was free at boot (`BadArgument` past the end). The archive's frames are not among them; `init` gets them in its registers.
    pub const RANGE: u8 = 1;
    /// w0 slot or AUTO → w0 slot of a new space; w1 receive slot of the pager's channel (AUTO = none), w2 badge for its faults, w3 0 or [`WRITABLE_CODE`]. Needs table frames before the first map (GIVE_TABLES). `NoMemory`.
    pub const SPACE_CREATE: u8 = 2;
    /// SPACE_CREATE: pages of the space may be writable and executable at once. In all others that is refused, whoever asks.
    pub const WRITABLE_CODE: u64 = 1;
    /// w0 space slot, w1 slot or AUTO → w0 slot of a new domain that uses the space, w1 domain id. Needs one frame in the space's table reserve for the portal table. `NoMemory`, `NoTable`.
    pub const DOMAIN_CREATE: u8 = 3;
    /// w0 [`pool`], w1 first frame, w2 count: the frames become the nucleus's, for objects of that kind.
    pub const GIVE: u8 = 4;
    /// w0 space slot, w1 first frame, w2 count: the frames join the space's reserve for page tables and portal tables.
    pub const GIVE_TABLES: u8 = 5;
    /// w0 space slot, w1 virtual address, w2 first frame, w3 pages, w4 [`prot`] bits and [`map`] flags, w5 source frame for `COPY`, w6 0 (where it counts) → w0 pages mapped. An existing mapping is replaced. At most 512 pages. `NoTable` (w0 = pages mapped so far).
    pub const MAP: u8 = 6;
    /// w0 space slot, w1 address, w2 array of u32 frame numbers in own memory, w3 pages (at most 512), w4 prot and flags (not `COPY`), w5 0 (where it counts). 0 in the array leaves a page as it is.
    pub const MAP_LIST: u8 = 7;
    /// w0 space slot, w1 address, w2 pages (at most 512), w3 0 (where it counts) → w0 how many were mapped.
    pub const UNMAP: u8 = 8;
    /// w0 space slot, w1 address, w2 pages (at most 512), w3 prot, w4 0 (where it counts): for those that are mapped → w0 how many.
    pub const PROTECT: u8 = 9;
    /// w0 source space slot, w1 target space slot, w2 array of [`Row`] in own memory, w3 how many (at most [`ROWS`], 512 pages together), w4 0 (where a long one goes on). Copies the mappings to the same addresses
    /// → w0 rows done (also with `NoTable`). `BadArgument`: the source may have writable code ([`WRITABLE_CODE`]) and the target may not.
    pub const SHARE: u8 = 10;
    /// w0 target frame, w1 source frame: copy a whole frame.
    pub const COPY_FRAME: u8 = 11;
    /// w0 frame: fill with zeroes.
    pub const ZERO_FRAME: u8 = 12;
    /// w0 space slot, w1 address → w0 frame, w1 prot | 1<<8 accessed | 1<<9 dirty | 1<<10 present.
    pub const QUERY: u8 = 13;
    /// w0 space slot, w1 array of u32 for frame numbers, w2 its length: unmaps and frees page tables of a space that no live domain uses, in bounded shares; the frames of tables and reserve are the caller's again → w0 frames written. `Again` until the space is empty; then it is gone, and the slot that was used is closed.
    pub const REAP: u8 = 14;
    /// w0 [`pool`] → w0 objects in use, w1 capacity, w2 bytes per object.
    pub const POOL_INFO: u8 = 15;
    /// w0 domain slot: move one frame of its space's reserve into its portal table (256 entries more). `NoTable`, `BadArgument` at MAX_SLOTS.
    pub const GROW_TABLE: u8 = 16;
    /// w0 space slot → w0 frames in its reserve, w1 page-table frames in use.
    pub const SPACE_INFO: u8 = 17;
    /// → w0 frame of the system page ([`crate::state::SystemPage`]); MAP accepts it with READ only.
    pub const SYSTEM_PAGE: u8 = 18;
    /// w0 space slot, w1 array of [`Fill`] in own memory, w2 how many (at most 512), w3 0 (where it counts): fill each frame and map it, one after the other → w0 how many were done (also with an error: that of the entry behind them).
    pub const FILL: u8 = 19;
    /// w0 space slot, w1 address, a multiple of [`TABLE_BYTES`]: the page table that the space has there becomes the common one, which nobody changes and nobody takes back; its pages count as mapped for ever. `BadArgument`: there is none, or a page of it may be written; `Busy`: there is a common one already, or windows are open over the space.
    pub const KEEP_TABLE: u8 = 20;
    /// w0 space slot: show the common table there, at its address, where the space has no table of its own. Nothing can be mapped in its range, and unmapping and protecting pass over it. `NoTable`; `BadArgument`: there is no common table, or one of the space's own.
    pub const SHOW_TABLE: u8 = 21;

    /// w0 [`pool`]: pages at its end in which no object lives go back → w0 how many, w1 to w4 their frames. None: the last page is used, or the pool is small.
    pub const TAKE: u8 = 22;

    /// What one page table covers.
    pub const TABLE_BYTES: u64 = 512 * crate::layout::PAGE;

    /// Most entries of SHARE's array.
    pub const ROWS: usize = 16;

    /// A row of pages for SHARE.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(C)]
    pub struct Row {
        pub address: u64,
        pub pages: u32,
        /// 1 = take WRITE away on both sides.
        pub read_only: u32,
    }

    /// A page for FILL.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(C)]
    pub struct Fill {
        /// With [`prot`] bits (not `DEVICE`) in its low bits.
        pub address: u64,
        pub frame: u32,
        /// The frame to copy; 0 = fill with zeroes, [`AS_IT_IS`] = neither.
        pub source: u32,
    }
    pub const AS_IT_IS: u32 = u32::MAX;

    /// Object pools of the nucleus.
    pub mod pool {
        pub const DOMAIN: u64 = 0;
        pub const SPACE: u64 = 1;
        pub const THREAD: u64 = 2;
        pub const CHANNEL: u64 = 3;
        pub const PORTAL: u64 = 4;
        /// Code of portals that are used much. No operation needs one of these: where there is none left, portals stay with the code that they share.
        pub const CODE: u64 = 5;
        pub const SEMAPHORE: u64 = 6;
        pub const WINDOW: u64 = 7;
        /// Signatures of channels.
        pub const SIGNATURE: u64 = 8;
        /// All pools; numbers below COUNT that are not among them are of none.
        pub const ALL: [u64; 9] = [
            DOMAIN, SPACE, THREAD, CHANNEL, PORTAL, CODE, SEMAPHORE, WINDOW, SIGNATURE,
        ];
        pub const COUNT: usize = 9;
    }
    /// Protection. WRITE with EXECUTE is refused but in spaces with [`WRITABLE_CODE`](super::WRITABLE_CODE).
    pub mod prot {
        pub const READ: u64 = 1;
        pub const WRITE: u64 = 2;
        pub const EXECUTE: u64 = 4;
        /// Uncached (device memory).
        pub const DEVICE: u64 = 8;
    }
    pub mod map {
        /// Fill the frames with zeroes first (at most 8 pages).
        pub const ZERO: u64 = 1 << 16;
        /// Copy frame w5 into the (single) frame first.
        pub const COPY: u64 = 1 << 17;
        /// The frame is the target of a fault that the caller will reply to: no difference today, a hint.
        pub const FAULT: u64 = 1 << 18;
        /// Frames are outside memory (device registers); needs `DEVICE`.
        pub const IO: u64 = 1 << 19;
    }
}

/// [`crate::PortalKind::Machine`].
pub mod machine {
    /// w0 line (0 to 15: legacy ISA lines; from 16 on global system interrupts), w1 slot or AUTO, w2 bits below → w0 slot of an interrupt portal.
    /// `Busy` if the line has one already, unless all were made with [`SHARED`] (at most 8). `NoMemory`: no more are possible.
    pub const INTERRUPT: u8 = 1;
    /// INTERRUPT: others may have a portal to this line as well.
    pub const SHARED: u64 = 1;
    /// INTERRUPT: LEVEL and LOW say how the line shows an interrupt. Without it: as ACPI says for legacy lines, LEVEL and LOW (PCI's way) for others.
    /// Heard when the first portal of a line is made.
    pub const TRIGGER: u64 = 2;
    pub const LEVEL: u64 = 4;
    pub const LOW: u64 = 8;
    /// w0 first port, w1 count, w2 slot or AUTO → w0 slot of a ports portal.
    pub const PORTS: u8 = 2;
    /// w0 0 = power off, 1 = reset, 2 = halt with exit code w1 (QEMU's isa-debug-exit). Does not return.
    pub const POWER: u8 = 4;
    /// w0 slot or AUTO → w0 slot of an interrupt portal of a new message-signalled vector (MSI, MSI-X); see [`super::interrupt::INFO`]. `NoMemory`: all are taken. `BadOperation`: the machine has none.
    pub const MESSAGE: u8 = 5;
    /// w0 slot or AUTO → w0 slot of the trace portal.
    pub const TRACE: u8 = 6;
    /// → w0 physical address of ACPI's root pointer, 0: there is none.
    pub const FIRMWARE: u8 = 7;
    /// w0 the wall clock's ns since 1970 at monotonic time 0, which the system page tells from now on.
    pub const WALL_CLOCK: u8 = 8;
}

/// [`crate::PortalKind::Semaphore`]. P needs CALL, V needs NOTIFY.
pub mod semaphore {
    /// Take one, or wait for it: threads are served by priority. Deadline, `INTERRUPTIBLE`, `POLL` honoured. Of a mutex: become its owner; while a thread waits the owner has at least that thread's priority.
    /// `OwnerDead`: the mutex is the caller's, and the owner before died. `Cycle`: the owner waits, directly or through others, for the caller. `Dead`: the last portal is being closed.
    pub const P: u8 = 0;
    /// Give one: to the first who waits, if somebody does. Of a mutex: only by its owner (`Busy`). `Busy`: the semaphore counts as far as it can.
    pub const V: u8 = 1;
    /// V of this one, then P of the semaphore in slot w0, in one entry: hands over to another and waits for its own turn. If V fails nothing is done; errors of P come after V was done.
    pub const V_THEN_P: u8 = 2;
    /// → w0 count (of a mutex 1 if it is free), w1 1 if a thread waits, w2 the owner's thread id or 0.
    pub const INFO: u8 = 3;

    /// Kinds.
    pub const PLAIN: u64 = 0;
    pub const MUTEX: u64 = 1;
}

/// [`crate::PortalKind::Trace`]. Needs CONTROL.
pub mod trace {
    /// Throw away what is there and record every entry from now on. `NoMemory`: no memory was set aside at boot (`nucleus.trace=KIB`).
    pub const START: u8 = 1;
    pub const STOP: u8 = 2;
    /// w0 address, w1 bytes, w2 number of the first record wanted (from 0 at START) → w0 how many [`crate::trace::Record`]s were written there (at most 64), w1 number of the first of them (the oldest, if that is newer).
    pub const READ: u8 = 3;
    /// → w0 1 while on, w1 records since START, w2 how many of them are kept at most, w3 fitting entries until the failure that was asked for (0: none is to come), w4 failures made since boot.
    pub const STATUS: u8 = 4;
    /// At the n-th entry that fits, something fails: w0 [`crate::trace::inject`], w1 n (from 1), w2 detail, w3 domain id (without generation), w4 kind of portal, w5 operation (ANY: all). In the place of the one before.
    pub const INJECT: u8 = 5;
}

/// [`crate::PortalKind::Interrupt`].
pub mod interrupt {
    /// w0 receive slot of the caller, w1 badge: pulses go there from now on; unmasks the line, unless one who shares it still owes an acknowledgement.
    pub const BIND: u8 = 1;
    /// The device has been served: unmask, as soon as everybody who shares the line has said so. `Busy` if not bound.
    pub const ACKNOWLEDGE: u8 = 2;
    pub const UNBIND: u8 = 3;
    /// → w0 1 if message-signalled, w1 number of the source, w2 address and w3 word that the device must write there (0 for lines), w4 interrupts so far, w5 pulses made of them.
    pub const INFO: u8 = 4;
    /// A hasty handler in the place of the one before: w0 address of [`crate::hasty::Step`]s, w1 how many, w2 rounds, w3 threshold in bytes, w4 address of 32 bytes, a bit for each significant byte value,
    /// w5 pause in ns (0: none), w6 slot of a ports portal that all its ports belong to (or AUTO: none), w7 0 or address of [`crate::hasty::More`]. `BadAddress`: the registers or the ring are not the driver's. `BadArgument` if the list is not right, may cost too much in one interrupt or is too long for its code, `NoMemory` if there are too many handlers or no block for code.
    pub const INSTALL: u8 = 5;
    /// w0 address, w1 length: bytes out of the handler's ring → w0 how many, w1 how many are left (bytes can come in two pieces); w2, w3 see BIND_SEMAPHORE. `Busy` without a handler, or if its ring is the driver's.
    pub const TAKE: u8 = 6;
    /// No hasty handler any more; what is in its ring is gone.
    pub const REMOVE: u8 = 7;
    /// w0 slot of a plain semaphore of the caller: each interrupt is a V on it, and no pulse; unmasks as BIND. `BadArgument`: a mutex. (With a hasty handler TAKE tells in w2 and w3 what the pulse would.)
    pub const BIND_SEMAPHORE: u8 = 8;
}

/// [`crate::PortalKind::Ports`]. Ports are absolute numbers; outside the range is `BadArgument`.
pub mod ports {
    /// w0 port → w0 value.
    pub const IN8: u8 = 1;
    /// w0 port, w1 value.
    pub const OUT8: u8 = 2;
    pub const IN16: u8 = 3;
    pub const OUT16: u8 = 4;
    pub const IN32: u8 = 5;
    pub const OUT32: u8 = 6;
    /// w0 port, w1 count (at most 32), w2..w5 the bytes: written one after the other to the port.
    pub const OUT8_SEVERAL: u8 = 7;
    /// w0 data port, w1 status port, w2 mask: reads bytes while (status & mask) != 0, at most 32 → w0 count, w1..w4 the bytes. (A UART's receive FIFO.)
    pub const IN8_WHILE: u8 = 8;
}

/// [`crate::PortalKind::Log`].
pub mod log {
    /// w0 address, w1 length (at most 1024): a line for the nucleus log (QEMU: debug console), prefixed with the domain id by the nucleus.
    pub const WRITE: u8 = 1;
    /// w0 address, w1 length, w2 offset from the start of the log ring → w0 bytes, w1 next offset. (dmesg)
    pub const READ: u8 = 2;
}
