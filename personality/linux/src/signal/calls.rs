//! System calls about signals.

use super::{
    bit, deliver, frame, rules, sa, Action, AltStack, Info, SIGNALS, SS_AUTODISARM, SS_DISABLE,
    SS_ONSTACK,
};
use crate::errno::{Result, EAGAIN, EINVAL, ENOMEM, EPERM, ESRCH, RESTART_NO_HANDLER};
use crate::machine::area::{area, process, Frame};
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user;
use crate::time;
use cairn_abi::layout::linux_slot;
use cairn_abi::service::current;
use cairn_abi::Error;
use cairn_idl::proc;
use core::sync::atomic::Ordering;

const SIGSET: u64 = 8;

/// Tell `proc` what it should not poke for, if that changed.
pub fn tell_proc() {
    let mut state = process().state();
    let now = rules::told(&state.actions, state.wanted);
    if now == state.told {
        return;
    }
    state.told = now;
    drop(state);
    let words = [proc::SIGNAL_STATE, now.0, now.1, now.2];
    let _ = Request::new(&words).call(linux_slot::PROC);
}

pub fn rt_sigaction(f: &mut Frame) -> Result<u64> {
    let (signal, new, old, size) = (f.arg(0) as u32, f.arg(1), f.arg(2), f.arg(3));
    if size != SIGSET {
        return Err(EINVAL);
    }
    let wish = match new {
        0 => None,
        _ => Some(user::read::<[u64; 4]>(new)?),
    };
    if !(1..=SIGNALS as u32).contains(&signal) {
        return Err(EINVAL);
    }
    if wish.is_some() && rules::UNBLOCKABLE & bit(signal) != 0 {
        return Err(EINVAL);
    }
    let process = process();
    let mut state = process.state();
    let before = state.actions.get(signal);
    let mut news = false;
    if let Some([handler, flags, restorer, mask]) = wish {
        let action = Action {
            handler,
            flags: flags & sa::KNOWN,
            restorer,
            mask: mask & !rules::UNBLOCKABLE,
        };
        if action != before {
            state.actions.set(signal, action);
            news = rules::matters(&before, &action);
        }
        if rules::disposition(signal, &action) == rules::Disposition::Ignore {
            state.queue.forget(bit(signal));
            process.pending.store(state.queue.bits(), Ordering::Relaxed);
            area().signals.borrow_mut().queue.forget(bit(signal));
        }
    }
    drop(state);
    if news {
        tell_proc();
    }
    if old != 0 {
        let words = [before.handler, before.flags, before.restorer, before.mask];
        user::write(old, &words)?;
    }
    Ok(0)
}

pub fn rt_sigprocmask(f: &mut Frame) -> Result<u64> {
    let (how, new, old, size) = (f.arg(0), f.arg(1), f.arg(2), f.arg(3));
    if size != SIGSET {
        return Err(EINVAL);
    }
    let area = area();
    let before = area.mask();
    if new != 0 {
        let set: u64 = user::read(new)?;
        let mask = match how {
            0 => before | set,
            1 => before & !set,
            2 => set,
            _ => return Err(EINVAL),
        };
        area.set_mask(mask);
    }
    if old != 0 {
        user::write(old, &before)?;
    }
    Ok(0)
}

pub fn rt_sigpending(f: &mut Frame) -> Result<u64> {
    if f.arg(1) > SIGSET {
        return Err(EINVAL);
    }
    deliver::take_all();
    let area = area();
    let waiting = area.signals.borrow().queue.bits() | process().pending.load(Ordering::Relaxed);
    area.mark();
    let bytes = (waiting & area.mask()).to_le_bytes();
    let size = (f.arg(1) as usize).min(8);
    user::write_bytes(f.arg(0), &bytes[..size])?;
    Ok(0)
}

/// Use a mask for one call; the exit path goes back to the old one.
pub fn temporary_mask(mask: u64) {
    let area = area();
    let old = area.mask();
    area.signals.borrow_mut().saved_mask.get_or_insert(old);
    area.set_mask(mask);
}

/// A call with a temporary mask ended by itself.
pub fn end_temporary_mask() {
    let area = area();
    let saved = area.signals.borrow_mut().saved_mask.take();
    if let Some(mask) = saved {
        area.set_mask(mask);
    }
}

/// The optional mask of ppoll, pselect and epoll_pwait.
pub fn begin_mask(address: u64, size: u64) -> Result<bool> {
    if address == 0 {
        return Ok(false);
    }
    if size != SIGSET {
        return Err(EINVAL);
    }
    let mask = user::read(address)?;
    temporary_mask(mask);
    Ok(true)
}

/// The other half: keep the mask only if a handler is to run with it.
pub fn end_mask(begun: bool, result: Result<u64>) -> Result<u64> {
    let interrupted = result.is_err_and(|error| rules::is_restart(error.value()).is_some());
    if begun && !interrupted {
        end_temporary_mask();
    }
    result
}

pub fn rt_sigsuspend(f: &mut Frame) -> Result<u64> {
    if f.arg(1) != SIGSET {
        return Err(EINVAL);
    }
    let mask = user::read(f.arg(0))?;
    temporary_mask(mask);
    wait_for_signal()
}

pub fn pause(_: &mut Frame) -> Result<u64> {
    wait_for_signal()
}

fn wait_for_signal() -> Result<u64> {
    deliver::take_if_poked();
    loop {
        if deliver::acting() {
            return Err(RESTART_NO_HANDLER);
        }
        if park(None) == Err(Error::Interrupted) {
            deliver::take_all();
        }
    }
}

/// Wait for a poke, or until a deadline.
fn park(deadline: Option<u64>) -> core::result::Result<(), Error> {
    if let Some(at) = deadline {
        gate::deadline(at);
    }
    gate::service_interruptible(linux_slot::CURRENT, current::PARK, &[]).map(|_| ())
}

pub fn rt_sigtimedwait(f: &mut Frame) -> Result<u64> {
    let (set, info, timeout, size) = (f.arg(0), f.arg(1), f.arg(2), f.arg(3));
    if size != SIGSET {
        return Err(EINVAL);
    }
    let wanted = user::read::<u64>(set)? & !rules::UNBLOCKABLE;
    let deadline = match timeout {
        0 => None,
        _ => Some(time::deadline_after(time::read_timespec(timeout)?)),
    };
    want(wanted);
    deliver::take_if_poked();
    // Other threads leave these to this one meanwhile.
    let area = area();
    let mask = area.mask();
    area.peer.mask.store(mask & !wanted, Ordering::Relaxed);
    let found = wait_for(wanted, deadline);
    area.set_mask(mask);
    let found = found?;
    if info != 0 {
        user::write(info, &frame::siginfo(&found))?;
    }
    Ok(found.signal as u64)
}

fn wait_for(wanted: u64, deadline: Option<u64>) -> Result<Info> {
    loop {
        if let Some(found) = deliver::take_queued(wanted) {
            return Ok(found);
        }
        if deliver::acting() {
            return Err(RESTART_NO_HANDLER);
        }
        match park(deadline) {
            Err(Error::TimedOut) => return Err(EAGAIN),
            Err(Error::Interrupted) => deliver::take_all(),
            _ => {}
        }
    }
}

/// From now on these are wanted even if their default is to be ignored.
pub fn want(set: u64) {
    let mut state = process().state();
    if set & !state.wanted != 0 {
        state.wanted |= set;
        drop(state);
        tell_proc();
    }
}

pub fn sigaltstack(f: &mut Frame) -> Result<u64> {
    let (new, old) = (f.arg(0), f.arg(1));
    let area = area();
    let before = area.signals.borrow().alternate;
    let on_it = before.holds(f.rsp);
    if new != 0 {
        let [base, flags, size] = user::read::<[u64; 3]>(new)?;
        let flags = flags as u32;
        if on_it {
            return Err(EPERM);
        }
        let stack = match flags & !SS_AUTODISARM {
            SS_DISABLE => AltStack::default(),
            // Nothing of nothing changes nothing, which Linux notices first.
            0 if base == 0 && size == 0 && before.size == 0 => before,
            0 | SS_ONSTACK if size < 2048 => return Err(ENOMEM),
            0 | SS_ONSTACK => AltStack {
                base,
                flags: flags & SS_AUTODISARM,
                size,
            },
            _ => return Err(EINVAL),
        };
        area.signals.borrow_mut().alternate = stack;
    }
    if old != 0 {
        let flags = before.flags | if on_it { SS_ONSTACK } else { 0 };
        user::write(old, &[before.base, flags as u64, before.size])?;
    }
    Ok(0)
}

pub fn kill(f: &mut Frame) -> Result<u64> {
    let (pid, signal) = (f.arg(0) as i32 as i64 as u64, f.arg(1) & 0xffff_ffff);
    if signal > SIGNALS as u64 {
        // Somebody has to be there to whom it could not be sent.
        send(&[proc::KILL, pid, 0, 0, 0, 1])?;
        return Err(EINVAL);
    }
    if is_own(pid) && deliver::at_once(f, signal as u32, super::si::USER, 0) {
        return Ok(0);
    }
    let result = send(&[proc::KILL, pid, signal, 0, 0, 1]);
    if (pid as i64) <= 0 {
        // One of many may be this process: then its signal must be there when the call returns (POSIX).
        area().mark_poked();
    }
    result
}

/// Send a signal. One to this thread comes with the answer.
pub fn send(words: &[u64]) -> Result<u64> {
    let [_, given @ .., _, _] = Request::new(words).call(linux_slot::PROC)?;
    if given[0] != 0 {
        if deliver::accept(&given) {
            area().mark_poked();
        }
        area().mark();
    }
    Ok(0)
}

fn is_own(pid: u64) -> bool {
    pid as u32 == process().pid()
}

fn to_thread(f: &mut Frame, to: (u64, u64), signal: u64, code: i32, value: u64) -> Result<u64> {
    let (tgid, tid) = to;
    if (tid as i32) <= 0 {
        return Err(EINVAL);
    }
    let signal = signal & 0xffff_ffff;
    if signal > SIGNALS as u64 {
        // (As in kill.)
        send(&[proc::TGKILL, tgid, tid, 0, code as i64 as u64, value, 1])?;
        return Err(EINVAL);
    }
    if tid as u32 == area().tid.load(Ordering::Relaxed)
        && (tgid == u64::MAX || is_own(tgid))
        && deliver::at_once(f, signal as u32, code, value)
    {
        return Ok(0);
    }
    send(&[
        proc::TGKILL,
        tgid,
        tid,
        signal,
        code as i64 as u64,
        value,
        1,
    ])
}

pub fn tkill(f: &mut Frame) -> Result<u64> {
    let to = (u64::MAX, f.arg(0));
    to_thread(f, to, f.arg(1), super::si::TKILL, 0)
}

pub fn tgkill(f: &mut Frame) -> Result<u64> {
    if (f.arg(0) as i32) <= 0 {
        return Err(EINVAL);
    }
    let to = (f.arg(0), f.arg(1));
    to_thread(f, to, f.arg(2), super::si::TKILL, 0)
}

fn given_info(address: u64) -> Result<(i32, u64)> {
    Ok(frame::parse_siginfo(&user::read(address)?))
}

pub fn rt_sigqueueinfo(f: &mut Frame) -> Result<u64> {
    let (code, value) = given_info(f.arg(2))?;
    if (code >= 0 || code == super::si::TKILL) && f.arg(0) as u32 != process().pid() {
        return Err(EPERM);
    }
    if f.arg(1) > SIGNALS as u64 {
        return Err(EINVAL);
    }
    if (f.arg(0) as i32) <= 0 {
        return Err(ESRCH);
    }
    if is_own(f.arg(0)) && deliver::at_once(f, f.arg(1) as u32, code, value) {
        return Ok(0);
    }
    send(&[proc::KILL, f.arg(0), f.arg(1), code as i64 as u64, value, 1])
}

pub fn rt_tgsigqueueinfo(f: &mut Frame) -> Result<u64> {
    let (code, value) = given_info(f.arg(3))?;
    let to = (f.arg(0), f.arg(1));
    if to.0 as i32 <= 0 || to.1 as i32 <= 0 {
        return Err(EINVAL);
    }
    // Only to oneself: the thread says who that is.
    if (code >= 0 || code == super::si::TKILL) && to.1 as u32 != area().tid() {
        return Err(EPERM);
    }
    to_thread(f, to, f.arg(2), code, value)
}

/// A signal to this thread by its own doing.
fn to_self(signal: u32) {
    let area = area();
    area.signals.borrow_mut().queue.add(Info {
        signal,
        pid: process().pid(),
        uid: process().uid.load(Ordering::Relaxed),
        ..Info::default()
    });
    area.mark();
}

/// It wrote to a pipe that nobody reads.
pub fn broken_pipe() {
    to_self(super::SIGPIPE);
}

/// It would have exceeded RLIMIT_FSIZE.
pub fn too_large() {
    to_self(super::SIGXFSZ);
}
