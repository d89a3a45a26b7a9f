//! Filters of system calls (seccomp(2)): what a call's filters say, and what becomes of it.
//!
//! A filtered process's calls come by the entry for traced processes. `proc` keeps the programs, so that they outlive exec; a thread asks for those that it does
//! not know. The answer of the newest filter with the strictest action counts, as on Linux.

use crate::calls::{dump, exit};
use crate::errno::{Errno, Result, EINVAL, ENOSYS};
use crate::machine::area::{area, process, Exception, Frame, ThreadArea};
use crate::machine::request::Request;
use crate::machine::user;
use crate::signal::rules::CALL_REFUSED;
use crate::signal::{rules, SIGSYS};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot;
use cairn_bpf::{About, Instruction, Place};
use cairn_idl::proc::{self, FilterMode, FilterOp, FILTER_BYTES};
use core::sync::atomic::Ordering;

/// Bytes of `struct seccomp_data`: number, architecture, address, six arguments.
pub const DATA: u32 = 64;
/// AUDIT_ARCH_X86_64.
pub const ARCHITECTURE: u32 = 0xc000_003e;

/// SECCOMP_RET_*: what is done; a larger one, as a signed number, yields to a smaller one.
pub mod action {
    pub const KILL_PROCESS: u32 = 0x8000_0000;
    pub const KILL_THREAD: u32 = 0;
    pub const TRAP: u32 = 0x3_0000;
    pub const ERRNO: u32 = 0x5_0000;
    pub const TRACE: u32 = 0x7ff0_0000;
    pub const LOG: u32 = 0x7ffc_0000;
    pub const ALLOW: u32 = 0x7fff_0000;
    pub const ALL: u32 = 0xffff_0000;
}

/// The four calls of strict mode: read, write, exit, rt_sigreturn.
const STRICT: [u64; 4] = [0, 1, 60, 15];
const SIGKILL: u32 = 9;
const ERRNO_MOST: u32 = 4095;

/// A filter, and those that were there before it. An empty program is strict mode.
pub struct Filter {
    pub program: Vec<Instruction>,
    pub above: Option<Arc<Filter>>,
}

pub type Filters = Option<Arc<Filter>>;

/// What a thread knows of its filters.
#[derive(Clone, Default)]
pub enum Known {
    /// It has not asked yet.
    #[default]
    Nothing,
    All(Filters),
}

impl Filter {
    pub fn is_strict(&self) -> bool {
        self.program.is_empty()
    }

    fn chain(&self) -> impl Iterator<Item = &Filter> {
        core::iter::successors(Some(self), |filter| filter.above.as_deref())
    }

    /// What they say of a call with these data.
    fn answer(&self, data: &[u32; 16]) -> u32 {
        let load = |place: Place| data.get(place.at as usize / 4).copied();
        let strictness = |answer: u32| (answer & action::ALL) as i32;
        let mut answer = action::ALLOW;
        for filter in self.chain() {
            let one = cairn_bpf::run(&filter.program, load, DATA);
            if strictness(one) < strictness(answer) {
                answer = one;
            }
        }
        answer
    }

    /// Does one of them refuse this call whatever its arguments?
    pub fn always_refuses(&self, number: u64) -> bool {
        let load = |at: u32| match at {
            0 => Some(number as u32),
            4 => Some(ARCHITECTURE),
            _ => None,
        };
        let refuses = |answer: u32| {
            let what = answer & action::ALL;
            let is = [
                action::KILL_PROCESS,
                action::KILL_THREAD,
                action::TRAP,
                action::ERRNO,
            ];
            is.contains(&what)
        };
        match self.is_strict() {
            true => !STRICT.contains(&number),
            false => self
                .chain()
                .any(|filter| cairn_bpf::always(&filter.program, load, DATA, refuses)),
        }
    }
}

/// Where the program of a `struct sock_fprog` lies, and its bytes.
pub fn named(address: u64) -> Result<(u64, usize)> {
    let [count, place] = user::read::<[u64; 2]>(address)?;
    match count as u16 as usize {
        count @ 1..=cairn_bpf::MOST => Ok((place, count * Instruction::BYTES)),
        _ => Err(EINVAL),
    }
}

pub fn decode(bytes: &[u8]) -> Vec<Instruction> {
    let chunks = bytes.as_chunks().0.iter();
    chunks
        .map(|bytes| Instruction::from_bytes(*bytes))
        .collect()
}

fn read(number: u64, into: &mut [u8]) -> (usize, u64, u64) {
    let words = [proc::SECCOMP, FilterOp::Read.word(), number];
    match Request::new(&words).input(into).call(linux_slot::PROC) {
        Ok([length, count, mode, ..]) => (length as usize, count, mode),
        // What is not known holds all the same.
        Err(_) => exit::die(SIGSYS),
    }
}

/// What `proc` has for this thread.
fn fetch() -> Filters {
    let mut bytes = vec![0; FILTER_BYTES as usize];
    let (_, count, mode) = read(0, &mut bytes);
    let mut filters: Filters = None;
    for number in (0..count).rev() {
        let (length, ..) = read(number, &mut bytes);
        let program = decode(bytes.get(..length).unwrap_or_default());
        if mode != FilterMode::Strict.word() && !cairn_bpf::is_valid(&program, About::Call(DATA)) {
            exit::die(SIGSYS)
        }
        let above = filters.take();
        filters = Some(Arc::new(Filter { program, above }));
    }
    filters
}

/// The calling thread's filters.
pub fn own() -> Filters {
    let area = area();
    // Another thread may have given this one its own (SECCOMP_FILTER_FLAG_TSYNC).
    let given = process().filters_given.load(Ordering::Acquire);
    if area.filters_given.replace(given) != given {
        *area.filters.borrow_mut() = Known::Nothing;
    }
    if let Known::All(filters) = &*area.filters.borrow() {
        return filters.clone();
    }
    let filters = fetch();
    area.know_filters(filters.clone());
    filters
}

impl ThreadArea {
    pub fn know_filters(&self, filters: Filters) {
        *self.filters.borrow_mut() = Known::All(filters);
    }

    /// A thread that this one makes knows what this one knows.
    pub fn pass_filters(&self, to: &ThreadArea) {
        *to.filters.borrow_mut() = self.filters.borrow().clone();
        to.filters_given.set(self.filters_given.get());
    }
}

/// May the call be made? Otherwise its result is in the frame, or the thread is about to be told or to end.
pub fn admits(f: &mut Frame) -> bool {
    let Some(filters) = own() else {
        return true;
    };
    if filters.is_strict() {
        if STRICT.contains(&f.number) {
            return true;
        }
        drop(filters);
        end(SIGKILL);
    }
    let mut data = [0; 16];
    (data[0], data[1]) = (f.number as u32, ARCHITECTURE);
    let words = core::iter::once(f.rip).chain((0..6).map(|at| f.arg(at)));
    for (at, word) in words.enumerate() {
        (data[2 + 2 * at], data[3 + 2 * at]) = (word as u32, (word >> 32) as u32);
    }
    let answer = filters.answer(&data);
    drop(filters);
    let detail = answer & !action::ALL;
    match answer & action::ALL {
        action::ALLOW | action::LOG => return true,
        action::ERRNO => f.rax = Errno(detail.min(ERRNO_MOST) as i32).value(),
        // (There are no such tracers.)
        action::TRACE | 0x7fc0_0000 => f.rax = ENOSYS.value(),
        action::TRAP => {
            f.rax = f.number;
            let area = area();
            area.exception.set(Some(refused(f, detail)));
            area.mark();
        }
        action::KILL_THREAD if process().state().threads.len() > 1 => end(SIGSYS),
        _ => {
            f.rax = f.number;
            dump::die(f, &rules::of_exception(&refused(f, detail)))
        }
    }
    false
}

fn refused(f: &Frame, detail: u32) -> Exception {
    Exception {
        vector: CALL_REFUSED,
        error: detail.into(),
        address: f.rip,
        detail: f.number,
    }
}

/// The thread ends, or the process if it has no other.
fn end(signal: u32) -> ! {
    let others = process().state().threads.len() > 1;
    match others {
        false => exit::die(signal),
        true => exit::leave(signal.into()),
    }
}
