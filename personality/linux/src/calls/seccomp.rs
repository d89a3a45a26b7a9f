//! seccomp(2): a thread's system calls are filtered from now on.
//!
//! A filter is asked about each call by this library, which a program can go around. So what it lets through in no case is given away below as well: operations of
//! `proc`, and the portals by which files, sockets and IPC are found. What a process holds already, and its own memory, stay as they are.

use crate::errno::{Result, EACCES, EFAULT, EINVAL, EOPNOTSUPP, ESRCH};
use crate::filter::{self, action, own, Filter, Filters, DATA};
use crate::machine::area::{self, area, process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use crate::path;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_bpf::{About, Instruction};
use cairn_idl::proc::{self, filter as kind, FilterOp};
use core::sync::atomic::Ordering;

pub const MODE_STRICT: u64 = 1;
pub const MODE_FILTER: u64 = 2;
const SET_MODE_STRICT: u64 = 0;
const SET_MODE_FILTER: u64 = 1;
const GET_ACTION_AVAIL: u64 = 2;

mod flag {
    pub const TSYNC: u64 = 1;
    pub const LOG: u64 = 2;
    pub const SPEC_ALLOW: u64 = 4;
    pub const TSYNC_ESRCH: u64 = 16;
    pub const ALL: u64 = TSYNC | LOG | SPEC_ALLOW | TSYNC_ESRCH;
}

/// What is of use for one of these calls only.
const OPERATIONS: &[(u64, &[u64])] = &[
    (1 << proc::FORK, &[56, 57, 58, 435]),
    (1 << proc::THREAD_CREATE, &[56, 435]),
    (1 << proc::EXEC | 1 << proc::EXEC_FRESH, &[59, 322]),
    (1 << proc::KILL, &[62, 129]),
    (1 << proc::TGKILL, &[62, 129, 200, 234, 297]),
    (1 << proc::SIGNAL_LIFE, &[424]),
    (1 << proc::SETPGID, &[109]),
    (1 << proc::SETSID, &[112]),
    (
        1 << proc::SETCREDS,
        &[105, 106, 113, 114, 116, 117, 119, 122, 123, 126],
    ),
    (1 << proc::SETPRIORITY, &[141]),
    (1 << proc::SETSCHEDULER, &[142, 144, 314]),
    (1 << proc::END_PERIOD, &[24]),
    (1 << proc::MOUNT, &[165, 429, 442]),
    (1 << proc::UNMOUNT, &[166]),
    (
        1 << proc::SPACE_MOUNT
            | 1 << proc::SPACE_UNMOUNT
            | 1 << proc::SPACE_ROOT
            | 1 << proc::SPACE_TURN,
        &[
            56, 155, 165, 166, 272, 308, 428, 429, 430, 431, 432, 433, 435, 442,
        ],
    ),
    (1 << proc::UNSHARE, &[56, 272, 435]),
    (1 << proc::SET_ROOT, &[155, 161, 308]),
    (1 << proc::SETHOSTNAME, &[170, 171]),
    (1 << proc::POWER, &[169]),
    (1 << proc::SET_CLOCK, &[164, 227]),
    (1 << proc::ADJUST_CLOCK, &[159, 305]),
    (1 << proc::TRACE, &[101]),
    (1 << proc::TRACE_MEMORY, &[310, 311]),
    (1 << proc::FILE_OF, &[438]),
    (kind::SOCKETS, &[41, 53]),
    (
        kind::IPC,
        &[
            29, 30, 31, 64, 65, 66, 67, 68, 69, 70, 71, 220, 240, 241, 242, 243, 244, 245,
        ],
    ),
    (kind::KEYS, &[248, 249, 250]),
    // Everything that takes a name, or finds a file by one that the program does not give.
    (
        kind::PATHS,
        &[
            2, 4, 6, 21, 42, 44, 46, 49, 59, 76, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90,
            92, 94, 132, 133, 137, 155, 161, 163, 165, 166, 188, 189, 191, 192, 194, 195, 197, 198,
            235, 254, 257, 258, 259, 260, 261, 262, 263, 264, 265, 266, 267, 268, 269, 280, 301,
            303, 304, 307, 316, 319, 322, 332, 428, 429, 430, 431, 432, 433, 437, 439, 442,
        ],
    ),
];
const GETRANDOM: u64 = 318;

/// What of these a process with these filters can never be asked for.
fn refused(filters: &Filter) -> u64 {
    let mut answers = vec![None; crate::table::NUMBERS];
    let mut never = |number: &u64| {
        *answers[*number as usize].get_or_insert_with(|| filters.always_refuses(*number))
    };
    let mut refused = 0;
    for (operations, calls) in OPERATIONS {
        if calls.iter().all(&mut never) {
            refused |= operations;
        }
    }
    if !area::has_random() && !never(&GETRANDOM) {
        refused &= !kind::PATHS;
    }
    refused
}

/// The thread's mode, as PR_GET_SECCOMP and /proc have it.
pub fn mode() -> u64 {
    match own() {
        None => 0,
        Some(filters) if filters.is_strict() => MODE_STRICT,
        Some(_) => MODE_FILTER,
    }
}

pub fn strict() -> Result<u64> {
    match own() {
        Some(_) => Err(EINVAL),
        None => install(&[], Vec::new(), None, 0),
    }
}

/// `filter`: where the program has its `struct sock_fprog`.
pub fn set_filter(flags: u64, filter: u64) -> Result<u64> {
    if flags & !flag::ALL != 0 || flags & flag::TSYNC_ESRCH != 0 && flags & flag::TSYNC == 0 {
        return Err(EINVAL);
    }
    let (address, length) = filter::named(filter)?;
    let privileged = process().is_capable(cairn_idl::capability::SYS_ADMIN);
    if !process().state().no_new_privileges && !privileged {
        return Err(EACCES);
    }
    let mut bytes = vec![0; length];
    user::read_bytes(address, &mut bytes)?;
    let program = filter::decode(&bytes);
    if !cairn_bpf::is_valid(&program, About::Call(DATA)) {
        return Err(EINVAL);
    }
    let above = own();
    if above.as_ref().is_some_and(|above| above.is_strict()) {
        return Err(EINVAL);
    }
    install(&bytes, program, above, flags)
}

/// `program` is what `bytes` say.
fn install(bytes: &[u8], program: Vec<Instruction>, above: Filters, flags: u64) -> Result<u64> {
    let filters = Arc::new(Filter { program, above });
    let refused = refused(&filters);
    let all = flags & flag::TSYNC != 0;
    let how = if all {
        FilterOp::AddToAll
    } else {
        FilterOp::Add
    };
    let words = [proc::SECCOMP, how.word(), refused];
    match Request::new(&words).out(bytes).call(linux_slot::PROC)?[0] {
        0 => {}
        _ if flags & flag::TSYNC_ESRCH != 0 => return Err(ESRCH),
        other => return Ok(other),
    }
    area().know_filters(Some(filters));
    let process = process();
    if all {
        let given = process.filters_given.fetch_add(1, Ordering::AcqRel) + 1;
        area().filters_given.set(given);
    }
    if all || process.state().threads.len() <= 1 {
        path::forget(refused);
    }
    Ok(0)
}

pub fn seccomp(f: &mut Frame) -> Result<u64> {
    let (operation, flags, argument) = (f.arg(0) as u32, f.arg(1) as u32, f.arg(2));
    match (u64::from(operation), u64::from(flags)) {
        (SET_MODE_STRICT, 0) if argument == 0 => strict(),
        (SET_MODE_FILTER, flags) => set_filter(flags, argument),
        (GET_ACTION_AVAIL, 0) => {
            use action::*;
            let action: u32 = user::read(argument).map_err(|_| EFAULT)?;
            let known = [KILL_PROCESS, KILL_THREAD, TRAP, ERRNO, TRACE, LOG, ALLOW];
            known.contains(&action).then_some(0).ok_or(EOPNOTSUPP)
        }
        _ => Err(EINVAL),
    }
}
