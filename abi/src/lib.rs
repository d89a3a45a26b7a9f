//! What the nucleus and every program agree on: the gate's registers, portal kinds and their operations,
//! errors, rights, pulses, layout of the address space and of the start-up block. No logic lives here.
//!
//! # The gate
//! `syscall` is the only way out of a domain. Registers on entry:
//!
//! | register | meaning |
//! | --- | --- |
//! | `rax` | bits 0..32 index in the domain's portal table; bits 32..40 operation ([`op`]); bits 40.. flags ([`flag`]) |
//! | `rdi rsi rdx r10 r8 r9 r12 r13` | message words w0..w7 (arguments of a nucleus service) |
//! | `r14 r15` | out part: address and length of memory that the other side may read (only with [`flag::PARTS`]) |
//! | `rbx rbp` | in part: address and length of memory that the other side may write (only with [`flag::PARTS`]) |
//!
//! On return `rax` holds an [`Error`] code (0 is success) in bits 0..8 and w0..w7 hold the answer. After a CALL it also says how many portals came with the answer
//! ([`received::portals`]): by the nucleus's count, so that a server cannot pass a number off as a portal. A completed receive sets more, see [`received`]. `rcx` and `r11` are always lost, and so are the flags (the program
//! goes on with those of a fresh thread: interrupts on, everything else 0); every register that is not part of the answer keeps its value.
#![no_std]
#![forbid(unsafe_code)]

pub mod error;
pub mod hasty;
pub mod layout;
pub mod machine;
pub mod service;
pub mod state;
pub mod trace;

pub use error::Error;

/// Operations on a portal (bits 32..40 of `rax`) whose meaning does not depend on a nucleus service.
/// A portal to a channel ([`PortalKind::Channel`]) understands `CALL` and `NOTIFY`.
pub mod op {
    /// Send the message and wait for the reply.
    pub const CALL: u8 = 0;
    /// OR w0 into the portal's pulse value and queue the pulse at the channel (once: pulses coalesce). Never blocks, never needs memory.
    pub const NOTIFY: u8 = 1;
}

/// Flags (bits of `rax`).
pub mod flag {
    /// Registers r14, r15, rbx, rbp describe the out and the in part.
    pub const PARTS: u64 = 1 << 40;
    /// (In calls; what they mean to a server is told with [`crate::service::receive`].) The out part is an array of `r15` [`crate::Part`]s (at most [`crate::MAX_VECTOR`]) at `r14`.
    pub const OUT_VECTOR: u64 = 1 << 41;
    /// The in part is an array of `rbp` [`crate::Part`]s (at most [`crate::MAX_VECTOR`]) at `rbx`.
    pub const IN_VECTOR: u64 = 1 << 42;
    /// Number of portals passed (0 to 4), in the last words: 1 → w7; 2 → w6, w7; … Each such word holds an index in the sender's table
    /// and arrives as an index in the receiver's.
    pub const PORTALS_SHIFT: u32 = 44;
    pub const PORTALS_MASK: u64 = 7 << PORTALS_SHIFT;
    /// The portals passed leave the sender's table.
    pub const MOVE: u64 = 1 << 47;
    /// A blocking operation with this flag ends with [`crate::Error::Interrupted`] when the thread is poked.
    pub const INTERRUPTIBLE: u64 = 1 << 48;
    /// In a reply: the portal words are not indices but badges; a new portal to the replying channel is minted for each, straight
    /// into the caller's table, with [`crate::rights::DEFAULT`].
    pub const MINT: u64 = 1 << 49;
    /// Poll: the blocking operation ends with [`crate::Error::TimedOut`] instead of waiting. (Receive, and P of a semaphore.)
    pub const POLL: u64 = 1 << 50;
    /// In a call: the server gets [`crate::pulse::UNBLOCK`] for it as soon as it has received it. For a caller that may not wait any more, but wants what can be done without.
    pub const PROMPT: u64 = 1 << 58;
    /// The portals passed arrive without [`crate::rights::PASS`].
    pub const NOT_FURTHER: u64 = 1 << 59;
    /// The portals passed arrive with [`crate::rights::ONCE`] (`BadArgument` unless they lead to channels).
    pub const PASS_ONCE: u64 = 1 << 60;

    /// In a call: the server may have whole pages of the out and in part (single ranges, no vectors) shown in windows of its own ([`crate::service::window`]) until it replies.
    pub const WINDOWS: u64 = 1 << 51;
    /// With WINDOWS: and keep them after the reply, until the pages are unmapped or changed, or [`crate::service::current::WINDOW_REVOKE`].
    pub const KEEP: u64 = 1 << 52;

    /// The flag bits for passing `n` portals.
    pub const fn portals(n: u64) -> u64 {
        n << PORTALS_SHIFT
    }
}

/// Most parts in one vector.
pub const MAX_VECTOR: usize = 1024;
/// Most portals in one message.
pub const MAX_PORTALS: usize = 4;

/// One piece of a multi-part message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Part {
    pub base: u64,
    pub len: u64,
}

/// Registers after a completed receive, beside the words.
///
/// | register | meaning |
/// | --- | --- |
/// | `rax` | bits 0..8 error; 8..16 [`Kind`]; 16..20 number of portals that arrived (in the last words); bit 20 caller is interruptible; 32..64 sender's domain id |
/// | `rbx` | badge of the portal that the message came through (for pulses as well) |
/// | `rbp` | token of the blocked caller, for replying (0 for pulses) |
/// | `r14` | the sender domain's label ([`service::domain::SET_LABEL`]) |
/// | `r15` | bits 0..32 bytes in the caller's out part, 32..64 bytes in its in part (each at most `u32::MAX`) |
pub mod received {
    pub const KIND_SHIFT: u32 = 8;
    pub const PORTALS_SHIFT: u32 = 16;
    pub const INTERRUPTIBLE: u64 = 1 << 20;
    pub const SENDER_SHIFT: u32 = 32;

    /// How many portals arrived, with a request or with the answer to a call: as many of the last words are slots of the receiver's table, all others are what the sender wrote.
    pub const fn portals(rax: u64) -> usize {
        (rax >> PORTALS_SHIFT) as usize & 15
    }

    /// What a receive returned.
    pub mod kind {
        /// A caller waits for a reply.
        pub const MESSAGE: u8 = 0;
        /// A pulse: w0 is one of [`super::super::pulse`], w1 its value.
        pub const PULSE: u8 = 1;
        /// The nucleus asks on behalf of a thread of the sender domain that faulted (see [`super::super::fault`]). Reply with w0 = 0 to retry.
        pub const FAULT: u8 = 2;
    }
}

/// Pulse codes (w0); w1 is the value and `rbx` the badge.
pub mod pulse {
    /// [`crate::op::NOTIFY`]: w1 is the OR of all values since the last receive.
    pub const NOTIFY: u64 = 1;
    /// The last holder of the portal object with this badge is gone.
    pub const CLOSED: u64 = 2;
    /// The caller behind token w1 was interrupted while this channel holds it: reply soon (usually with EINTR). w2 = 0.
    pub const UNBLOCK: u64 = 3;
    /// The caller behind token w1 no longer exists, or its deadline passed. No reply is due; the token is invalid.
    pub const GONE: u64 = 4;
    /// An interrupt source fired w1 times; rbx is the badge given on binding. It stays masked until acknowledged. With a hasty handler: w2 says why the driver is woken
    /// ([`hasty::reason`]), w3 is the value read last, and it is masked only if the handler handed over.
    pub const INTERRUPT: u64 = 5;
    /// The watched domain died: w1 = domain id, w2 = [`crate::death`] reason, w3 = detail. rbx is the badge given on watching.
    pub const DEATH: u64 = 6;
    /// A member of the partition whose scheduler receives here: w1 = [`crate::service::scheduler`] standing, w2 = thread id, w3 = its processor time in ns, as far as it was booked.
    /// rbx is the badge of [`crate::service::thread::SET_SCHEDULER`]. What waits is told once, as it is then.
    pub const MEMBER: u64 = 7;
}

/// Why a domain died ([`pulse::DEATH`] w2).
pub mod death {
    /// Its last thread ended by [`crate::service::current::EXIT`]; detail = exit value.
    pub const EXIT: u64 = 0;
    /// It was destroyed by a holder of its control portal.
    pub const KILLED: u64 = 1;
    /// An exception that nobody handled; detail = exception vector.
    pub const EXCEPTION: u64 = 2;
    /// A page fault that its pager refused; detail = address.
    pub const FAULT: u64 = 3;
}

/// Words of a fault message ([`received::kind::FAULT`]). The badge is the one given when the space was made.
pub mod fault {
    /// w0: faulting address. w1: bits below. w2: instruction pointer of the thread that waits. w3: its id. w4: its domain's id (with [`COPY`] perhaps not the sender's, whose memory it is).
    pub const WRITE: u64 = 1;
    pub const EXECUTE: u64 = 2;
    /// The page was present (a protection fault).
    pub const PRESENT: u64 = 4;
    /// The nucleus was copying for a thread of another domain (or for this one inside a nucleus service).
    pub const COPY: u64 = 8;
    /// Reply w0: retry the access.
    pub const RESOLVED: u64 = 0;
    /// Reply w0: the access is an error: user code gets an exception (vector 14), a copy ends with [`crate::Error::BadAddress`]. w1: detail for the personality (0 = no mapping, 1 = protection, 2 = beyond the end of the object).
    pub const REFUSED: u64 = 1;
}

/// Rights on a portal, kept in the table entry. A copy may only have fewer.
pub mod rights {
    /// May be called.
    pub const CALL: u16 = 1;
    /// May be notified.
    pub const NOTIFY: u16 = 2;
    /// May be passed in a message or put into another domain's table.
    pub const PASS: u16 = 4;
    /// Is copied by [`crate::service::domain::TABLE_COPY`].
    pub const INHERIT: u16 = 8;
    /// Control operations of nucleus objects (destroy, set state, …).
    pub const CONTROL: u16 = 16;
    /// Closed by [`crate::service::domain::CLOSE_ON_EXEC`].
    pub const CLOEXEC: u16 = 32;
    /// Of a portal to a channel: the entry is gone after its first CALL or NOTIFY. Passing or copying it moves it, and TABLE_COPY passes over it: it stays a single use.
    pub const ONCE: u16 = 64;
    /// Of a portal to a channel: its holder may open others to it, with badges of its choice ([`crate::service::current::PORTAL_OPEN`]): it decides in the exporter's place who gets one. Only for badges whose low 32 bits are 0.
    pub const OPEN: u16 = 128;
    pub const DEFAULT: u16 = CALL | NOTIFY | PASS | INHERIT;
    pub const ALL: u16 = DEFAULT | CONTROL;
}

/// What a portal leads to ([`service::current::PORTAL_INFO`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PortalKind {
    Empty = 0,
    /// The calling thread itself; always slot 0.
    Current = 1,
    /// A right to call a channel.
    Channel = 2,
    /// The right to receive from a channel.
    Receive = 3,
    Domain = 4,
    Space = 5,
    Thread = 6,
    /// Physical memory: page tables and object memory. Held by `vm`.
    Memory = 7,
    /// The machine: makes interrupt and port portals, reads counters. Held by `init`.
    Machine = 8,
    Interrupt = 9,
    Ports = 10,
    /// The nucleus log.
    Log = 11,
    Semaphore = 12,
    /// A place where a server sees pages of its callers.
    Window = 13,
    /// A derived portal that leads to something other than a channel; shown only when it was revoked, before that it looks like what it leads to.
    Derived = 15,
    /// The trace of the nucleus, and failures on request. Held by nobody in the standard system.
    Trace = 14,
}

impl PortalKind {
    /// The kind with this number; `Empty` if there is none.
    #[inline(always)]
    pub const fn of(number: u8) -> PortalKind {
        match number {
            1 => PortalKind::Current,
            2 => PortalKind::Channel,
            3 => PortalKind::Receive,
            4 => PortalKind::Domain,
            5 => PortalKind::Space,
            6 => PortalKind::Thread,
            7 => PortalKind::Memory,
            8 => PortalKind::Machine,
            9 => PortalKind::Interrupt,
            10 => PortalKind::Ports,
            11 => PortalKind::Log,
            12 => PortalKind::Semaphore,
            13 => PortalKind::Window,
            14 => PortalKind::Trace,
            15 => PortalKind::Derived,
            _ => PortalKind::Empty,
        }
    }
}

/// Domain and thread ids: bits 0..20 index, 20..32 generation. 0 is never a valid id.
pub type Id = u32;
/// A blocked caller: bits 0..32 thread id, 32..64 call sequence.
pub type Token = u64;

/// Priorities 0 (lowest) to 255 (highest).
pub mod priority {
    pub const LOWEST: u8 = 0;
    pub const NORMAL: u8 = 64;
    /// Above it are real-time programs only, and servers.
    pub const ORDINARY_MOST: u8 = 84;
    pub const SERVER: u8 = 128;
    pub const DRIVER: u8 = 192;
    pub const HIGHEST: u8 = 255;
}

/// Dispatching policies, among threads of one priority.
pub mod policy {
    /// Turns of a quantum each. The default.
    pub const ROUND_ROBIN: u64 = 0;
    /// Until it waits or yields.
    pub const FIFO: u64 = 1;
    /// Turns; and who has used up a quantum has a priority one below its own until it waits.
    pub const ADAPTIVE: u64 = 2;
}
