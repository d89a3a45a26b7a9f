//! ptrace(2): a tracer's half. `proc` decides who may trace whom and carries the requests out ([`cairn_idl::proc::TRACE`]); here Linux's structures are made of
//! what it gives, and taken
//! apart. The half of the thread that is traced is [`crate::trace`].

use crate::errno::{Result, EAGAIN, EFAULT, EINVAL, EIO};
use crate::machine::area::{area, process, Frame};
use crate::machine::request::Request;
use crate::machine::{fpu, gate, user};
use alloc::vec;
use cairn_abi::layout::{linux_slot, PERSONALITY};
use cairn_idl::proc::{
    self, changed, Resume, Stop, TRACE_FLOAT, TRACE_INFO, TRACE_INQUIRE, TRACE_MASK, TRACE_READ,
    TRACE_WRITE,
};
use core::sync::atomic::Ordering;

const TRACEME: u64 = 0;
const PEEKTEXT: u64 = 1;
const PEEKDATA: u64 = 2;
const PEEKUSER: u64 = 3;
const POKEUSER: u64 = 6;
const GETREGS: u64 = 12;
const SETREGS: u64 = 13;
const GETFPREGS: u64 = 14;
const SETFPREGS: u64 = 15;
const OLDSETOPTIONS: u64 = 21;
const SETOPTIONS: u64 = 0x4200;
const GETEVENTMSG: u64 = 0x4201;
const GETSIGINFO: u64 = 0x4202;
const SETSIGINFO: u64 = 0x4203;
const GETREGSET: u64 = 0x4204;
const SETREGSET: u64 = 0x4205;
const GETSIGMASK: u64 = 0x420a;
const SETSIGMASK: u64 = 0x420b;
const GET_SYSCALL_INFO: u64 = 0x420e;

/// Bytes of `struct user_regs_struct`, `struct user_fpregs_struct`, `siginfo_t`.
const REGISTERS: usize = 216;
const FLOAT: usize = 512;
const INFO: usize = 128;
/// `struct user`: its length, and where the debug registers lie in it.
const USER: u64 = 912;
const DEBUG: u64 = 848;
/// Where the mask of an XSAVE area's parts is told.
const XSTATE_MASK: usize = 464;

const NT_PRSTATUS: u64 = 1;
const NT_PRFPREG: u64 = 2;
const NT_X86_XSTATE: u64 = 0x202;

/// How often a thread is asked that brings a page, each 50 µs: for a second.
const PATIENCE: u32 = 20_000;

/// Ask until the thread has brought the page that is missing.
pub fn patiently<T>(mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..PATIENCE {
        match ask() {
            Err(EAGAIN) => gate::nap(50_000),
            answer => return answer,
        }
    }
    Err(EIO)
}

fn ask(request: u64, tid: u64, address: u64, data: u64) -> Result<[u64; 8]> {
    let words = [proc::TRACE, request, tid, address, data];
    patiently(|| Request::new(&words).call(linux_slot::PROC))
}

/// What the thread showed when it stopped, from a place on.
fn state(tid: u64, at: u64, into: &mut [u8]) -> Result<()> {
    let words = [proc::TRACE, TRACE_READ, tid, at];
    patiently(|| Request::new(&words).input(into).call(linux_slot::PROC)).map(|_| ())
}

fn set_state(tid: u64, at: u64, bytes: &[u8], what: u64) -> Result<u64> {
    let words = [proc::TRACE, TRACE_WRITE, tid, at, what];
    patiently(|| Request::new(&words).out(bytes).call(linux_slot::PROC)).map(|_| 0)
}

pub fn ptrace(f: &mut Frame) -> Result<u64> {
    let (request, tid, address, data) = (f.arg(0), f.arg(1) & 0xffff_ffff, f.arg(2), f.arg(3));
    match request {
        TRACEME => {
            ask(request, 0, 0, 0)?;
            area().traced.set(Resume::Run.word());
            Ok(0)
        }
        PEEKTEXT | PEEKDATA => {
            let mut word = 0u64;
            let words = [proc::TRACE, request, tid, address];
            patiently(|| {
                Request::new(&words)
                    .input_value(&mut word)
                    .call(linux_slot::PROC)
            })?;
            user::write(data, &word).map(|()| 0)
        }
        PEEKUSER => {
            let word = match place_in_user(address)? {
                Some(at) => {
                    let mut bytes = [0; 8];
                    state(tid, at, &mut bytes)?;
                    u64::from_le_bytes(bytes)
                }
                None => {
                    ask(TRACE_INQUIRE, tid, 0, 0)?;
                    0
                }
            };
            user::write(data, &word).map(|()| 0)
        }
        POKEUSER => match place_in_user(address)? {
            Some(at) => {
                let mut bytes = [0; REGISTERS];
                state(tid, 0, &mut bytes)?;
                bytes[at as usize..at as usize + 8].copy_from_slice(&data.to_le_bytes());
                set_registers(tid, &bytes)
            }
            None => {
                ask(TRACE_INQUIRE, tid, 0, 0)?;
                // There are no debug registers: that they are not used can be said.
                match (address, data) {
                    (DEBUG.., 0) => Ok(0),
                    (DEBUG.., _) => Err(EINVAL),
                    _ => Err(EIO),
                }
            }
        },
        GETREGS => {
            let mut bytes = [0; REGISTERS];
            state(tid, 0, &mut bytes)?;
            user::write_bytes(data, &bytes).map(|()| 0)
        }
        SETREGS => {
            let mut bytes = [0; REGISTERS];
            ask(TRACE_INQUIRE, tid, 0, 0)?;
            user::read_bytes(data, &mut bytes)?;
            set_registers(tid, &bytes)
        }
        GETFPREGS => {
            let mut bytes = [0; FLOAT];
            state(tid, TRACE_FLOAT, &mut bytes)?;
            user::write_bytes(data, &bytes).map(|()| 0)
        }
        SETFPREGS => {
            let mut bytes = [0; FLOAT];
            ask(TRACE_INQUIRE, tid, 0, 0)?;
            user::read_bytes(data, &mut bytes)?;
            set_float(tid, &bytes)
        }
        GETSIGINFO => {
            let (stop, status) = about_a_signal(tid)?;
            let mut bytes = [0; INFO];
            match stop == Stop::Signal.word() {
                true => state(tid, TRACE_INFO, &mut bytes)?,
                false => bytes = info_of_stop(status, tid as u32),
            }
            user::write_bytes(data, &bytes).map(|()| 0)
        }
        SETSIGINFO => {
            about_a_signal(tid)?;
            let mut bytes = [0; INFO];
            user::read_bytes(data, &mut bytes)?;
            set_state(tid, TRACE_INFO, &bytes, changed::INFO)
        }
        GETSIGMASK | SETSIGMASK if address != 8 => {
            ask(TRACE_INQUIRE, tid, 0, 0)?;
            Err(EINVAL)
        }
        GETSIGMASK => {
            let mut bytes = [0; 8];
            state(tid, TRACE_MASK, &mut bytes)?;
            user::write_bytes(data, &bytes).map(|()| 0)
        }
        SETSIGMASK => {
            ask(TRACE_INQUIRE, tid, 0, 0)?;
            let mut bytes = [0; 8];
            user::read_bytes(data, &mut bytes)?;
            set_state(tid, TRACE_MASK, &bytes, changed::MASK)
        }
        GETREGSET | SETREGSET => register_set(request == SETREGSET, tid, address, data),
        GETEVENTMSG => {
            let message = ask(request, tid, 0, 0)?[1];
            user::write(data, &message).map(|()| 0)
        }
        OLDSETOPTIONS => ask(SETOPTIONS, tid, 0, data).map(|_| 0),
        GET_SYSCALL_INFO => syscall_info(tid, address, data),
        // (Beside Linux's numbers `proc` has some of its own.)
        _ if request < TRACE_READ => ask(request, tid, address, data).map(|_| 0),
        _ => Err(EIO),
    }
}

/// Which byte of the registers this place in `struct user` is; None: another of its fields.
fn place_in_user(address: u64) -> Result<Option<u64>> {
    match address {
        _ if !address.is_multiple_of(8) || address >= USER => Err(EIO),
        _ if address < REGISTERS as u64 => Ok(Some(address)),
        _ => Ok(None),
    }
}

fn set_registers(tid: u64, bytes: &[u8; REGISTERS]) -> Result<u64> {
    const FS_BASE: usize = 21 * 8;
    let base = bytes[FS_BASE..]
        .first_chunk()
        .map_or(0, |b| u64::from_le_bytes(*b));
    if base >= PERSONALITY {
        return Err(EIO);
    }
    set_state(tid, 0, bytes, changed::REGISTERS)
}

/// The first part of the floating-point state, as FXSAVE has it: it is there from now on.
fn set_float(tid: u64, bytes: &[u8; FLOAT]) -> Result<u64> {
    let mut header = [0; 8];
    state(tid, TRACE_FLOAT + FLOAT as u64, &mut header)?;
    let parts = (u64::from_le_bytes(header) | 3).to_le_bytes();
    set_state(tid, TRACE_FLOAT + FLOAT as u64, &parts, 0)?;
    set_state(tid, TRACE_FLOAT, bytes, changed::FLOAT)
}

/// What PTRACE_GETSIGINFO tells of is there, but for the group stop of a thread that was attached to.
fn about_a_signal(tid: u64) -> Result<(u64, u64)> {
    let [_, stop, _, status, ..] = ask(TRACE_INQUIRE, tid, 0, 0)?;
    match stop == Stop::Group.word() && status >> 16 == 0 {
        true => Err(EINVAL),
        false => Ok((stop, status)),
    }
}

/// What Linux tells of a stop that is for no signal: as if the thread had sent one to itself, whose code is what wait(2) told.
fn info_of_stop(status: u64, tid: u32) -> [u8; INFO] {
    let code = (status >> 8) as u32;
    let uid = process().uid.load(Ordering::Relaxed);
    let mut bytes = [0; INFO];
    for (at, word) in [(0, code & 0x7f), (8, code), (16, tid), (20, uid)] {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn register_set(set: bool, tid: u64, kind: u64, vector: u64) -> Result<u64> {
    ask(TRACE_INQUIRE, tid, 0, 0)?;
    let [base, length] = user::read::<[u64; 2]>(vector)?;
    let (at, whole) = match kind {
        NT_PRSTATUS => (0, REGISTERS),
        NT_PRFPREG => (TRACE_FLOAT, FLOAT),
        NT_X86_XSTATE => (TRACE_FLOAT, fpu::size()),
        _ => return Err(EINVAL),
    };
    if !length.is_multiple_of(8) {
        return Err(EINVAL);
    }
    let count = whole.min(length as usize);
    let mut bytes = vec![0; whole];
    state(tid, at, &mut bytes)?;
    if set {
        if kind == NT_X86_XSTATE && count != whole {
            return Err(EFAULT);
        }
        user::read_bytes(base, &mut bytes[..count])?;
        match kind {
            NT_PRSTATUS => set_registers(tid, bytes.first_chunk().ok_or(EFAULT)?)?,
            NT_PRFPREG => set_float(tid, bytes.first_chunk().ok_or(EFAULT)?)?,
            _ => set_state(tid, at, &bytes, changed::FLOAT)?,
        };
    } else {
        if kind == NT_X86_XSTATE {
            let mask = fpu::system_page().xsave_mask.to_le_bytes();
            bytes[XSTATE_MASK..XSTATE_MASK + 8].copy_from_slice(&mask);
        }
        user::write_bytes(base, &bytes[..count])?;
    }
    user::write(vector + 8, &(count as u64)).map(|()| 0)
}

/// `struct ptrace_syscall_info`.
fn syscall_info(tid: u64, room: u64, data: u64) -> Result<u64> {
    const NONE: u64 = 0;
    const ENTRY: u64 = 1;
    const EXIT: u64 = 2;
    const ARCHITECTURE: u64 = 0xc000_003e;
    let [_, stop, ..] = ask(TRACE_INQUIRE, tid, 0, 0)?;
    let mut bytes = [0; REGISTERS];
    state(tid, 0, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    let register = |at: usize| u64::from_le_bytes(words[at]);
    let kind = match Stop::from_word(stop) {
        Some(Stop::Entry) => ENTRY,
        Some(Stop::Exit) => EXIT,
        _ => NONE,
    };
    let mut info = [0u64; 10];
    info[0] = kind | ARCHITECTURE << 32;
    info[1] = register(16);
    info[2] = register(19);
    let length = match kind {
        ENTRY => {
            info[3] = register(15);
            for (to, from) in info[4..].iter_mut().zip([14, 13, 12, 7, 9, 8]) {
                *to = register(from);
            }
            80
        }
        EXIT => {
            let value = register(10);
            info[3] = value;
            info[4] = ((-4095..0).contains(&(value as i64))).into();
            33
        }
        _ => 24,
    };
    let count = room.min(length) as usize;
    user::write_bytes(data, &user::bytes_of_many_mut(&mut info)[..count])?;
    Ok(length)
}
