//! Taking signals from `proc` and acting on them on the way back to the program.

use super::rules::{self, Disposition};
use super::{
    bit, frame, sa, si, Action, AltStack, Info, SIGCONT, SIGNALS, SIGPROF, SIGSEGV, SIGSTOP,
    SIGTSTP, SIGTTIN, SIGTTOU, SIGVTALRM, SIG_DFL, SS_AUTODISARM, SS_DISABLE,
};
use crate::calls::dump;
use crate::calls::exit::die;
use crate::event;
use crate::machine::area::{area, poked, process, Frame, ThreadArea, NO_CALL};
use crate::machine::request::Request;
use crate::machine::{fpu, user, vdso};
use crate::{trace, user_space};
use cairn_abi::layout::{linux_slot, PERSONALITY};
use cairn_idl::proc::{self, taken};
use core::sync::atomic::Ordering;

impl ThreadArea {
    pub fn mask(&self) -> u64 {
        self.peer.mask.load(Ordering::Relaxed)
    }

    /// Block exactly these signals; what becomes deliverable is looked at on the way out.
    pub fn set_mask(&self, mask: u64) {
        let mask = mask & !rules::UNBLOCKABLE;
        self.peer.mask.store(mask, Ordering::Relaxed);
        let waiting =
            self.signals.borrow().queue.bits() | self.process().pending.load(Ordering::Relaxed);
        if waiting & !mask != 0 {
            self.mark();
        }
    }
}

/// Take everything that `proc` has for this thread or process.
pub fn take_all() {
    let area = area();
    let process = process();
    area.poked.store(0, Ordering::Relaxed);
    // Whatever the poke was for, the parent may have changed.
    process.ppid.store(0, Ordering::Relaxed);
    while let Ok(w) = Request::new(&[proc::SIGNAL_TAKE]).call(linux_slot::PROC) {
        if w[4] & taken::TRACED != 0 {
            heard(area, w[4]);
        }
        if !accept(&[w[0], w[1], w[2], w[3], w[4]]) {
            return;
        }
    }
}

/// This thread is traced.
#[cold]
fn heard(area: &ThreadArea, bits: u64) {
    if !area.is_traced() {
        area.traced.set(proc::Resume::Run.word());
    }
    if bits & taken::STOP != 0 {
        area.stop_wanted.set(true);
    }
}

/// Queue what `proc` gave, in the words of SIGNAL_TAKE's answer; does it have more?
pub fn accept(words: &[u64; 5]) -> bool {
    let [signal, code, sender, value, bits] = *words;
    if signal == 0 {
        return false;
    }
    let area = area();
    let info = Info {
        signal: signal as u32,
        code: code as i32,
        pid: sender as u32,
        uid: user_space::user((sender >> 32) as u32),
        value,
        tell: bits & taken::TELL != 0,
        ..Info::default()
    };
    if bits & taken::THREAD != 0 {
        area.signals.borrow_mut().queue.add(info);
    } else {
        add_shared(area, info);
    }
    event::signals_changed();
    bits & taken::MORE != 0
}

/// Take what `proc` has if it said so since the last time. Signals for the process come to whichever thread asks.
pub fn take_if_poked() {
    let area = area();
    let bits = area.poked.swap(0, Ordering::Relaxed);
    if bits & poked::ASK != 0 || process().state().threads.len() > 1 {
        take_all();
    }
}

/// A signal for the process: this thread's if it does not block it, otherwise that of any thread that does not.
fn add_shared(area: &ThreadArea, info: Info) {
    let process = area.process();
    let mut state = process.state();
    if area.mask() & bit(info.signal) != 0 && state.threads.len() > 1 {
        let open = |mask: u64| mask & bit(info.signal) == 0;
        let peer = state
            .threads
            .iter()
            .find(|p| open(p.mask.load(Ordering::Relaxed)))
            .map(|p| p.tid.load(Ordering::Relaxed));
        if let Some(tid) = peer {
            drop(state);
            let pid = process.pid() as u64;
            let code = info.code as i64 as u64;
            let words = [
                proc::TGKILL,
                pid,
                tid as u64,
                info.signal as u64,
                code,
                info.value,
                0,
                info.pid as u64,
            ];
            if Request::new(&words).call(linux_slot::PROC).is_ok() {
                return;
            }
            state = process.state();
        }
    }
    state.queue.add(info);
    process.pending.store(state.queue.bits(), Ordering::Relaxed);
}

/// Take a signal among `wanted` out of the queues: the thread's own first.
pub fn take_queued(wanted: u64) -> Option<Info> {
    let mut info = take_here(wanted)?;
    if info.tell {
        tell_taken(&mut info);
    }
    event::signals_changed();
    Some(info)
}

/// A timer's signal was taken: the timer goes on, and says how often it expired meanwhile.
#[cold]
fn tell_taken(info: &mut Info) {
    let posix = info.code == si::TIMER;
    let timer = if posix {
        info.pid as u64
    } else {
        match info.signal {
            SIGVTALRM => proc::TIMER_REAL - 1,
            SIGPROF => proc::TIMER_REAL - 2,
            _ => proc::TIMER_REAL,
        }
    };
    let words = [proc::TIMER, proc::TimerOp::Taken.word(), timer];
    let told = Request::new(&words).call(linux_slot::PROC);
    if posix {
        info.uid = told.map_or(0, |words| words[0] as u32);
    }
}

fn take_here(wanted: u64) -> Option<Info> {
    let own = area().signals.borrow_mut().queue.take(wanted);
    if own.is_some() {
        return own;
    }
    let process = process();
    if process.pending.load(Ordering::Relaxed) & wanted == 0 {
        return None;
    }
    let mut state = process.state();
    let info = state.queue.take(wanted);
    process.pending.store(state.queue.bits(), Ordering::Relaxed);
    info
}

/// After an interrupted wait: is there a signal that does something? If so the exit path will see to it; if not the wait goes on.
pub fn pending() -> bool {
    take_all();
    acting()
}

/// The same of the signals that are here already.
pub fn acting() -> bool {
    let area = area();
    let process = process();
    if area.exception.get().is_some() || area.stop_wanted.get() {
        area.mark();
        return true;
    }
    loop {
        let waiting = (area.signals.borrow().queue.bits()
            | process.pending.load(Ordering::Relaxed))
            & !area.mask();
        if waiting == 0 {
            return false;
        }
        let signal = waiting.trailing_zeros() + 1;
        let action = process.state().actions.get(signal);
        if !ignored(signal, &action) || area.is_traced() {
            area.mark();
            return true;
        }
        take_queued(bit(signal));
    }
}

/// Will handlers run on the way out, and nothing else? (A program that ends or stops need not have anything done before.)
pub fn only_handlers() -> bool {
    let (area, process) = (area(), process());
    if area.exception.get().is_some() || area.stop_wanted.get() {
        return false;
    }
    let queued = area.signals.borrow().queue.bits() | process.pending.load(Ordering::Relaxed);
    let waiting = queued & !area.mask();
    let state = process.state();
    (1..=SIGNALS as u32)
        .filter(|&signal| waiting & bit(signal) != 0)
        .all(|signal| {
            let action = state.actions.get(signal);
            ignored(signal, &action) || rules::disposition(signal, &action) == Disposition::Handle
        })
}

fn ignored(signal: u32, action: &Action) -> bool {
    match rules::disposition(signal, action) {
        Disposition::Ignore => true,
        // The first process is only sent what it asked for.
        Disposition::Terminate | Disposition::Stop => process().pid() == 1,
        Disposition::Handle => false,
    }
}

/// The way back to the program when something may be pending.
pub fn work(regs: &mut Frame) {
    let area = area();
    if area.poked.swap(0, Ordering::Relaxed) & poked::ASK != 0 {
        take_all();
    }
    let mut handled = false;
    if area.is_traced() {
        trace::check(regs);
    }
    if let Some(exception) = area.exception.take() {
        let info = rules::of_exception(&exception);
        handled = force(area, regs, &info);
    }
    while let Some(mut info) = take_queued(!area.mask()) {
        if area.is_traced() {
            match trace::signal(regs, &info) {
                Some(wished) => info = wished,
                None => continue,
            }
        }
        let action = process().state().actions.get(info.signal);
        if ignored(info.signal, &action) {
            continue;
        }
        match rules::disposition(info.signal, &action) {
            Disposition::Ignore => {}
            Disposition::Terminate => dump::die(regs, &info),
            Disposition::Stop if area.is_traced() => trace::group(regs, info.signal),
            Disposition::Stop => {
                let words = [proc::STOP_SELF, info.signal as u64];
                let _ = Request::new(&words).call(linux_slot::PROC);
                take_all();
                if area.is_traced() {
                    trace::check(regs);
                }
            }
            Disposition::Handle => {
                handled = true;
                handle(area, regs, &info, &action);
            }
        }
    }
    if !handled {
        restart(regs, None);
        let saved = area.signals.borrow_mut().saved_mask.take();
        if let Some(mask) = saved {
            area.set_mask(mask);
        }
    }
    if area.is_traced() {
        trace::leave(regs);
    }
}

/// A signal that this thread sends itself, or its process, where any thread may take it: its handler runs next, without `proc`. False, and nothing was done, unless there is a handler for it and nothing
/// else is on its way to this thread. (What stops or continues a process is `proc`'s.)
pub fn at_once(regs: &mut Frame, signal: u32, code: i32, value: u64) -> bool {
    const STOPS: u64 = bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
    let (area, process) = (area(), process());
    if !(1..=SIGNALS as u32).contains(&signal) || bit(signal) & STOPS != 0 {
        return false;
    }
    if bit(signal) & area.mask() != 0 {
        return wait_ignored(regs, signal, code, value);
    }
    if area.poked.load(Ordering::Relaxed) != 0 || area.is_traced() {
        return false;
    }
    let action = process.state().actions.get(signal);
    if rules::disposition(signal, &action) != Disposition::Handle {
        return false;
    }
    let info = Info {
        signal,
        code,
        pid: process.pid(),
        uid: process.uid.load(Ordering::Relaxed),
        value,
        ..Info::default()
    };
    // The call has ended; what it loses is part of what the handler sees, as on the long way (`personality_exit_work`).
    regs.rax = 0;
    regs.rcx = regs.rip;
    regs.rflags = 0x202;
    regs.r11 = 0x202;
    handle(area, regs, &info, &action);
    true
}

/// A signal that is ignored, but blocked: it waits all the same, until it is not. (`proc`, which knows no masks, would forget it.)
#[cold]
fn wait_ignored(regs: &mut Frame, signal: u32, code: i32, value: u64) -> bool {
    let process = process();
    let mut state = process.state();
    let action = state.actions.get(signal);
    if rules::disposition(signal, &action) != Disposition::Ignore || state.threads.len() > 1 {
        return false;
    }
    state.queue.add(Info {
        signal,
        code,
        pid: process.pid(),
        uid: process.uid.load(Ordering::Relaxed),
        value,
        ..Info::default()
    });
    process.pending.store(state.queue.bits(), Ordering::Relaxed);
    drop(state);
    event::signals_changed();
    regs.rax = 0;
    true
}

/// Settle an interrupted call: make it again, or EINTR.
fn restart(regs: &mut Frame, handler_flags: Option<u64>) {
    if regs.number == NO_CALL {
        return;
    }
    if let Some(error) = rules::is_restart(regs.rax) {
        match handler_flags.and_then(|flags| rules::after_handler(error, flags)) {
            Some(error) => regs.rax = error.value(),
            None => {
                regs.rax = regs.number;
                regs.rip = regs.rip.wrapping_sub(2);
            }
        }
    }
    regs.number = NO_CALL;
}

/// A signal of an exception cannot be blocked or ignored. Does a handler run? (A tracer may have it forgotten.)
fn force(area: &ThreadArea, regs: &mut Frame, info: &Info) -> bool {
    let mut info = *info;
    if area.is_traced() {
        match trace::signal(regs, &info) {
            Some(wished) => info = wished,
            None => return false,
        }
    }
    let action = process().state().actions.get(info.signal);
    let blocked = area.mask() & bit(info.signal) != 0;
    if blocked || rules::disposition(info.signal, &action) != Disposition::Handle {
        dump::die(regs, &info)
    }
    handle(area, regs, &info, &action);
    true
}

/// sigreturn gave registers that cannot be loaded.
pub fn bad_frame(regs: &mut Frame) {
    regs.rip = 0;
    regs.rflags = 0x202;
    force_segv(regs);
}

/// SIGSEGV by the kernel's doing.
pub fn force_segv(regs: &mut Frame) {
    let info = Info {
        signal: SIGSEGV,
        code: si::KERNEL,
        fault: true,
        ..Info::default()
    };
    regs.number = NO_CALL;
    force(area(), regs, &info);
}

/// Make the program run a handler next.
fn handle(area: &ThreadArea, regs: &mut Frame, info: &Info, action: &Action) {
    restart(regs, Some(action.flags));
    area.again.set((0, 0));
    let saved = area.signals.borrow_mut().saved_mask.take();
    let mask = saved.unwrap_or(area.mask());
    let alternate = area.signals.borrow().alternate;
    let use_alternate = action.flags & sa::ONSTACK != 0
        && alternate.flags & SS_DISABLE == 0
        && alternate.size != 0
        && !alternate.holds(regs.rsp);
    let top = use_alternate.then(|| alternate.base.wrapping_add(alternate.size));
    let size = fpu::size() as u64;
    let place = frame::place(regs.rsp, top, size);
    // Below the alternate stack is something else, which is not to be written over.
    let overflows = (use_alternate || alternate.holds(regs.rsp)) && !alternate.spans(place.frame);
    if overflows || !write_frame(regs, info, action, mask, &alternate, &place, size) {
        // No room for the frame: that is a SIGSEGV, and if its handler has no room either the end.
        if info.signal == SIGSEGV {
            die(SIGSEGV)
        }
        return force_segv(regs);
    }
    if use_alternate && alternate.flags & SS_AUTODISARM != 0 {
        area.signals.borrow_mut().alternate = AltStack::default();
    }
    regs.rip = action.handler;
    regs.rsp = place.frame;
    regs.rdi = info.signal as u64;
    regs.rsi = place.info;
    regs.rdx = place.context;
    regs.rax = 0;
    regs.rflags = 0x202;
    regs.number = NO_CALL;
    if regs.rip >= PERSONALITY {
        regs.rip = 0;
    }
    // The handler runs under a temporary mask (sigsuspend) too; what it returns to is the old one.
    let mut blocked = area.mask() | action.mask;
    if action.flags & sa::NODEFER == 0 {
        blocked |= bit(info.signal);
    }
    area.set_mask(blocked);
    if action.flags & sa::RESETHAND != 0 {
        let mut state = process().state();
        let mut action = state.actions.get(info.signal);
        action.handler = SIG_DFL;
        state.actions.set(info.signal, action);
        drop(state);
        super::calls::tell_proc();
    }
}

fn write_frame(
    regs: &Frame,
    info: &Info,
    action: &Action,
    mask: u64,
    alternate: &AltStack,
    place: &frame::Place,
    size: u64,
) -> bool {
    let extended = fpu::system_page().xsave_mask;
    let words = frame::build(
        regs,
        info,
        action.restorer,
        mask,
        alternate,
        place,
        extended != 0,
    );
    if user::write(place.frame, &words).is_err() {
        return false;
    }
    if extended == 0 {
        return fpu::save_to_user(place.fpstate);
    }
    let software = frame::software_words(extended, size as u32);
    user::write(place.fpstate + frame::SOFTWARE, &software).is_ok()
        && fpu::save_to_user(place.fpstate)
        && user::write(place.fpstate + size, &frame::MAGIC2).is_ok()
}

/// rt_sigreturn.
pub fn sigreturn(regs: &mut Frame) {
    let area = area();
    regs.number = NO_CALL;
    // The handler's `ret` took the return address.
    let Ok(context) = user::read::<frame::Context>(regs.rsp.wrapping_sub(8)) else {
        return force_segv(regs);
    };
    let restored = frame::restore(&context, regs);
    regs.full = 1;
    // A handler may have interrupted the vDSO, which lies above the program.
    let in_program = regs.rip < PERSONALITY || vdso::contains(regs.rip);
    if restored.fpstate != 0 && !fpu::restore_from_user(restored.fpstate) || !in_program {
        return force_segv(regs);
    }
    area.signals.borrow_mut().alternate = restored.alternate;
    area.set_mask(restored.mask);
}
