//! A traced thread's half of ptrace(2): where Linux would stop it, it tells `proc` (TRACE_STOP) and waits until its tracer lets it go on. What `proc` says then
//! is done here: other
//! registers, another signal, a single step.
//!
//! A thread learns that it is traced from TRACEME, at its birth, or with an answer of SIGNAL_TAKE. Its system calls come by an entry of their own
//! ([`crate::machine::entry`]), which `proc` sets for processes that are traced: others pay nothing.

use crate::errno::ENOSYS;
use crate::filter;
use crate::machine::area::{self, area, process, Exception, Frame, ThreadArea, NO_CALL};
use crate::machine::request::Request;
use crate::machine::stopped::{Stopped, REGISTERS};
use crate::machine::{user, vdso};
use crate::signal::{frame, Info};
use crate::table;
use cairn_abi::layout::{linux_slot, PERSONALITY};
use cairn_idl::proc::{self, changed, Resume, Stop};
use core::sync::atomic::Ordering;

/// Selectors as Linux has them.
const CS: u64 = 0x33;
const SS: u64 = 0x2b;
/// Flags that a tracer may set, and that are always set.
const FLAGS: u64 = 0x4_0dd5;
const FLAGS_SET: u64 = 0x202;
/// The trap flag.
pub const TRAP: u64 = 0x100;

const CLONE: u64 = 56;
const FORK: u64 = 57;
const EXECVE: u64 = 59;
const EXECVEAT: u64 = 322;
const CLONE3: u64 = 435;

/// `struct user_regs_struct`.
pub fn registers(f: &Frame) -> [u64; REGISTERS] {
    let (rcx, r11, flags) = match f.full {
        0 => (f.rip, 0x246, 0x246),
        _ => (f.rcx, f.r11, f.rflags),
    };
    [
        f.r15,
        f.r14,
        f.r13,
        f.r12,
        f.rbp,
        f.rbx,
        r11,
        f.r10,
        f.r9,
        f.r8,
        f.rax,
        rcx,
        f.rdx,
        f.rsi,
        f.rdi,
        f.number,
        f.rip,
        CS,
        flags,
        f.rsp,
        SS,
        area::fs_base(),
        0,
        0,
        0,
        0,
        0,
    ]
}

/// The other way round. Selectors stay ours, and nobody continues in the personality.
fn load(f: &mut Frame, words: &[u64; REGISTERS]) {
    let rip = words[16];
    let in_program = rip < PERSONALITY || vdso::contains(rip);
    *f = Frame {
        r15: words[0],
        r14: words[1],
        r13: words[2],
        r12: words[3],
        rbp: words[4],
        rbx: words[5],
        r11: words[6],
        r10: words[7],
        r9: words[8],
        r8: words[9],
        rax: words[10],
        rcx: words[11],
        rdx: words[12],
        rsi: words[13],
        rdi: words[14],
        number: words[15],
        full: 1,
        rip: if in_program { rip } else { 0 },
        rflags: words[18] & FLAGS | FLAGS_SET,
        rsp: words[19],
        ..*f
    };
    if words[21] < PERSONALITY && words[21] != area::fs_base() {
        area::set_fs_base(words[21]);
    }
}

impl ThreadArea {
    pub fn is_traced(&self) -> bool {
        self.traced.get() != Resume::Untraced.word()
    }

    fn steps(&self) -> bool {
        self.traced.get() == Resume::Step.word()
    }
}

/// Stop, if this thread's tracer wants it; → the signal that is acted upon, with what is known of it.
#[inline(never)]
fn stop(why: Stop, detail: u64, f: &mut Frame, info: &Info) -> Option<Info> {
    let area = area();
    let mut state = Stopped::new(registers(f), area.mask(), frame::siginfo(info));
    state.save_float();
    let words = [proc::TRACE_STOP, why.word(), detail];
    let mut answer;
    loop {
        answer = Request::new(&words)
            .exchange(state.bytes())
            .call(linux_slot::PROC);
        match answer {
            Ok([_, how, page, ..]) if how == Resume::Touch.word() => {
                let _ = user::range(page, 1).map(|byte| user::touch(byte, false));
            }
            _ => break,
        }
    }
    let Ok([_, how, signal, what, tracer, ..]) = answer else {
        area.traced.set(Resume::Untraced.word());
        return Some(*info);
    };
    area.traced.set(how);
    if what & changed::REGISTERS != 0 {
        load(f, &state.registers);
    }
    if what & changed::FLOAT != 0 {
        state.load_float();
    }
    if what & changed::MASK != 0 {
        area.set_mask(state.mask);
    }
    if what & changed::AGAIN != 0 {
        area.stop_wanted.set(true);
    }
    if area.steps() || area.stop_wanted.get() {
        area.mark();
    }
    let signal = signal as u32;
    if signal == 0 {
        return None;
    }
    if signal != info.signal {
        return Some(Info {
            signal,
            pid: tracer as u32,
            uid: process().uid.load(Ordering::Relaxed),
            ..Info::default()
        });
    }
    if what & changed::INFO == 0 {
        return Some(*info);
    }
    let [_, code, from, value, ..] = state.info;
    Some(Info {
        signal,
        code: code as i32,
        pid: from as u32,
        uid: (from >> 32) as u32,
        value,
        address: from,
        ..*info
    })
}

/// A stop that is not about a signal: one that the tracer sends along comes behind it.
fn plain(why: Stop, detail: u64, f: &mut Frame) {
    let none = Info::default();
    if let Some(info) = stop(why, detail, f, &none).filter(|info| info.signal != 0) {
        if matches!(why, Stop::Entry | Stop::Exit) {
            area().signals.borrow_mut().queue.add(info);
            area().mark();
        }
    }
}

/// A signal is about to be acted upon: which one is, if any.
pub fn signal(f: &mut Frame, info: &Info) -> Option<Info> {
    stop(Stop::Signal, info.signal.into(), f, info)
}

/// Is there something to stop for?
pub fn check(f: &mut Frame) {
    while area().stop_wanted.replace(false) {
        plain(Stop::Check, 0, f);
    }
}

/// The default action of this signal is to stop.
pub fn group(f: &mut Frame, signal: u32) {
    plain(Stop::Group, signal.into(), f);
}

/// The thread is about to end.
pub fn ending(status: u64) {
    let mut frame = area().frame_now();
    plain(Stop::End, status, &mut frame);
}

/// Between the making of a child that shares memory and the wait for its exec or end.
pub fn vfork(f: &Frame, pid: u64) {
    let mut seen = *f;
    plain(Stop::Event, 0, &mut seen);
    let _ = Request::new(&[proc::TRACE_VFORK, pid]).call(linux_slot::PROC);
    plain(Stop::VforkDone, pid, &mut seen);
}

/// On the way back to the program: a single step is one of the program, not of the personality.
pub fn leave(f: &mut Frame) {
    if area().steps() {
        if f.full == 0 {
            (f.rcx, f.r11, f.rflags) = (f.rip, FLAGS_SET, FLAGS_SET);
            f.full = 1;
        }
        f.rflags |= TRAP;
    }
}

/// A system call of a process that is traced, or filtered.
pub fn dispatch(f: &mut Frame) {
    let area = area();
    if !area.is_traced() {
        if filter::admits(f) {
            table::dispatch(f);
        }
        return;
    }
    let all = |area: &ThreadArea| area.traced.get() == Resume::Calls.word();
    if all(area) {
        f.rax = ENOSYS.value();
        plain(Stop::Entry, 0, f);
    }
    let number = f.number;
    let admitted = number != NO_CALL && filter::admits(f);
    if admitted {
        table::dispatch(f);
    }
    let replaced = f.number == NO_CALL && number != NO_CALL;
    match number {
        _ if !admitted => {}
        EXECVE | EXECVEAT if replaced => {
            f.number = number;
            plain(Stop::Event, 0, f);
        }
        CLONE | FORK | CLONE3 if (f.rax as i64) > 0 => plain(Stop::Event, 0, f),
        _ => {}
    }
    if area.steps() {
        area.exception.set(Some(Exception {
            vector: 1,
            address: f.rip,
            ..Exception::default()
        }));
        area.mark();
    }
    if all(area) {
        plain(Stop::Exit, 0, f);
    }
    if replaced {
        f.number = NO_CALL;
    }
}
