//! prctl(2).

use super::seccomp;
use crate::errno::{Result, EINVAL, EPERM};
use crate::machine::area::{area, process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use cairn_abi::layout::linux_slot;
use cairn_idl::capability::option::*;
use cairn_idl::capability::SYS_RESOURCE;
use cairn_idl::{proc, vm};
use core::sync::atomic::{AtomicU64, Ordering};

const SET_PDEATHSIG: u64 = 1;
const GET_PDEATHSIG: u64 = 2;
const GET_DUMPABLE: u64 = 3;
const SET_DUMPABLE: u64 = 4;
const SET_NAME: u64 = 15;
const GET_NAME: u64 = 16;
const GET_TIMING: u64 = 13;
const SET_TIMING: u64 = 14;
const GET_SECCOMP: u64 = 21;
const SET_SECCOMP: u64 = 22;
const GET_TSC: u64 = 25;
const SET_TSC: u64 = 26;
const SET_TIMERSLACK: u64 = 29;
const GET_TIMERSLACK: u64 = 30;
const PERF_EVENTS_DISABLE: u64 = 31;
const PERF_EVENTS_ENABLE: u64 = 32;
const SET_CHILD_SUBREAPER: u64 = 36;
const GET_CHILD_SUBREAPER: u64 = 37;
const MCE_KILL: u64 = 33;
const MCE_KILL_GET: u64 = 34;
const SET_THP_DISABLE: u64 = 41;
const GET_THP_DISABLE: u64 = 42;
const SET_IO_FLUSHER: u64 = 57;
const GET_IO_FLUSHER: u64 = 58;
const SET_NO_NEW_PRIVS: u64 = 38;
const GET_NO_NEW_PRIVS: u64 = 39;
const GET_TID_ADDRESS: u64 = 40;
const SET_MDWE: u64 = 65;
const GET_MDWE: u64 = 66;

/// What PR_MCE_KILL said of errors of memory, of which no thread hears here; and whether large pages are wanted, of which there are none.
static MEMORY_ERRORS: AtomicU64 = AtomicU64::new(MCE_DEFAULT);
static NO_HUGE_PAGES: AtomicU64 = AtomicU64::new(0);
/// PR_SET_IO_FLUSHER.
static IO_FLUSHER: AtomicU64 = AtomicU64::new(0);
const MCE_DEFAULT: u64 = 2;

/// PR_MCE_KILL: with PR_MCE_KILL_CLEAR or PR_MCE_KILL_SET and a policy.
fn memory_errors(f: &Frame) -> Result<u64> {
    const CLEAR: u64 = 0;
    const SET: u64 = 1;
    let policy = match (f.arg(1), f.arg(2)) {
        (CLEAR, 0) => MCE_DEFAULT,
        (SET, policy @ 0..=MCE_DEFAULT) => policy,
        _ => return Err(EINVAL),
    };
    MEMORY_ERRORS.store(policy, Ordering::Relaxed);
    Ok(0)
}

/// PR_SET_IO_FLUSHER, PR_GET_IO_FLUSHER.
fn io_flusher(set: bool, value: u64) -> Result<u64> {
    if !process().is_capable(SYS_RESOURCE) {
        return Err(EPERM);
    }
    match (set, value) {
        (true, 0 | 1) => {
            IO_FLUSHER.store(value, Ordering::Relaxed);
            Ok(0)
        }
        (true, _) => Err(EINVAL),
        (false, _) => Ok(IO_FLUSHER.load(Ordering::Relaxed)),
    }
}

/// PR_TSC_ENABLE.
const TSC_ENABLE: u32 = 1;

/// → result, what prctl would store through a pointer.
fn ask(option: u64, argument: u64) -> Result<[u64; 2]> {
    Request::new(&[proc::PRCTL, option, argument])
        .call(linux_slot::PROC)
        .map(|w| [w[0], w[1]])
}

pub fn prctl(f: &mut Frame) -> Result<u64> {
    let (option, argument) = (f.arg(0) & 0xffff_ffff, f.arg(1));
    match option {
        SET_NAME => set_name(argument),
        GET_NAME => {
            let mut name = [0; 16];
            let request = Request::new(&[proc::PRCTL, GET_NAME]);
            request.input(&mut name).call(linux_slot::PROC)?;
            user::write_bytes(argument, &name).map(|()| 0)
        }
        SET_PDEATHSIG if argument > 64 => Err(EINVAL),
        SET_PDEATHSIG | SET_CHILD_SUBREAPER => ask(option, argument).map(|r| r[0]),
        GET_PDEATHSIG | GET_CHILD_SUBREAPER => {
            let value = ask(option, 0)?[1] as u32;
            user::write(argument, &value).map(|()| 0)
        }
        // A change of ids changes it.
        GET_DUMPABLE => ask(option, 0).map(|r| r[0]),
        SET_DUMPABLE if argument <= 1 => ask(option, argument).map(|r| r[0]),
        GET_SECCOMP => Ok(seccomp::mode()),
        SET_SECCOMP => match argument {
            seccomp::MODE_STRICT => seccomp::strict(),
            seccomp::MODE_FILTER => seccomp::set_filter(0, f.arg(2)),
            _ => Err(EINVAL),
        },
        CAP_AMBIENT if f.arg(3) != 0 || f.arg(4) != 0 => Err(EINVAL),
        GET_KEEPCAPS | SET_KEEPCAPS | CAPBSET_READ | CAPBSET_DROP | GET_SECUREBITS
        | SET_SECUREBITS | CAP_AMBIENT => Request::new(&[proc::PRCTL, option, argument, f.arg(2)])
            .call(linux_slot::PROC)
            .map(|w| w[0]),
        SET_TIMERSLACK | GET_TIMERSLACK => ask(option, argument).map(|r| r[0]),
        // There are none to switch.
        PERF_EVENTS_DISABLE | PERF_EVENTS_ENABLE => Ok(0),
        MCE_KILL if f.arg(3) == 0 && f.arg(4) == 0 => memory_errors(f),
        MCE_KILL_GET if (1..5).all(|i| f.arg(i) == 0) => Ok(MEMORY_ERRORS.load(Ordering::Relaxed)),
        SET_THP_DISABLE if (2..5).all(|i| f.arg(i) == 0) => {
            NO_HUGE_PAGES.store(u64::from(argument != 0), Ordering::Relaxed);
            Ok(0)
        }
        GET_THP_DISABLE if (1..5).all(|i| f.arg(i) == 0) => {
            Ok(NO_HUGE_PAGES.load(Ordering::Relaxed))
        }
        SET_IO_FLUSHER if (2..5).all(|i| f.arg(i) == 0) => io_flusher(true, argument),
        GET_IO_FLUSHER if (1..5).all(|i| f.arg(i) == 0) => io_flusher(false, 0),
        SET_NO_NEW_PRIVS if argument == 1 && (2..5).all(|i| f.arg(i) == 0) => {
            process().state().no_new_privileges = true;
            ask(option, 1).map(|r| r[0])
        }
        // As Linux, which accounts by statistics and leaves the time stamp counter to all.
        GET_TIMING => Ok(0),
        SET_TIMING if argument == 0 => Ok(0),
        GET_TSC => user::write(argument, &TSC_ENABLE).map(|()| 0),
        SET_TSC if argument == u64::from(TSC_ENABLE) => Ok(0),
        GET_TID_ADDRESS => user::write(argument, &area().clear_tid.get()).map(|()| 0),
        GET_NO_NEW_PRIVS if (1..5).any(|i| f.arg(i) != 0) => Err(EINVAL),
        GET_NO_NEW_PRIVS => Ok(process().state().no_new_privileges as u64),
        SET_MDWE if (2..5).all(|i| f.arg(i) == 0) => refuse_exec_gain(argument),
        GET_MDWE if (1..5).all(|i| f.arg(i) == 0) => exec_gain(0),
        _ => Err(EINVAL),
    }
}

/// What holds for this address space, after it was asked to be so (0: as it is).
fn exec_gain(wanted: u64) -> Result<u64> {
    Request::new(&[vm::EXEC_GAIN, wanted])
        .call(linux_slot::VM)
        .map(|w| w[0])
}

fn refuse_exec_gain(wanted: u64) -> Result<u64> {
    match wanted {
        0 if exec_gain(0)? != 0 => Err(EPERM),
        0 => Ok(0),
        _ => exec_gain(wanted).map(|_| 0),
    }
}

fn set_name(address: u64) -> Result<u64> {
    let mut name = [0; 16];
    let length = user::string_length(address, 4096, EINVAL)?.min(15) as usize;
    user::read_bytes(address, &mut name[..length])?;
    // The process is called as its first thread.
    if area().tid() == process().pid() {
        process().state().name = name;
    }
    Request::new(&[proc::PRCTL, SET_NAME])
        .out(&name)
        .call(linux_slot::PROC)
        .map(|_| 0)
}
