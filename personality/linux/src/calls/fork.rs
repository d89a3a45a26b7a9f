//! fork, vfork, clone: new processes and new threads.
//!
//! A forked child has a copy of all memory, the personality's with it, and starts at the entry code's `child` label on the copy of this thread's area. A child that shares memory (vfork,
//! posix_spawn) gets an area and a [`Process`] of its own first, in an [`Arena`]; after its exec it has a copy of that only and goes on with them there.

use super::futex::own_id;
use super::io::usable;
use super::{aio, pidfds, spaces};
use crate::errno::{Result, E2BIG, EBUSY, EFAULT, EINVAL, ENOMEM, ENOSYS, EPERM};
use crate::frames;
use crate::machine::area::{self, area, process, spawn_area, Birth, Frame, OwnKeys, ThreadArea};
use crate::machine::arena::{self, Arena};
use crate::machine::entry::label;
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user;
use crate::process::{Peer, Process, Slots};
use crate::signal::Queue;
use crate::spare;
use alloc::boxed::Box;
use cairn_abi::layout::{linux_slot, PAGE, PERSONALITY};
use cairn_abi::service::current;
use cairn_idl::capability::SYS_ADMIN;
use cairn_idl::proc;
use core::sync::atomic::Ordering;

const SIGCHLD: u64 = 17;
/// How long a fork waits before it is tried again (nanoseconds).
const BUSY: u64 = 500_000;

pub mod flag {
    pub const VM: u64 = 0x100;
    pub const SIGHAND: u64 = 0x800;
    pub const VFORK: u64 = 0x4000;
    pub const PARENT: u64 = 0x8000;
    pub const THREAD: u64 = 0x10000;
    pub const SETTLS: u64 = 0x80000;
    pub const PARENT_SETTID: u64 = 0x10_0000;
    pub const CHILD_CLEARTID: u64 = 0x20_0000;
    pub const CHILD_SETTID: u64 = 0x100_0000;
    pub const NEW_SPACES: u64 = super::spaces::ALL;
    pub const PIDFD: u64 = 0x1000;
    pub const DETACHED: u64 = 0x40_0000;
    /// In clone3 the signal has a word of its own.
    pub const SIGNAL: u64 = 0x7f;
    pub const CLEAR_SIGHAND: u64 = 1 << 32;
    pub const INTO_CGROUP: u64 = 1 << 33;
    /// Of clone3.
    pub const KNOWN: u64 = 0x3_ffff_ffff;
    /// All name spaces of Linux. That of time (CLONE_NEWTIME) is clone3's only: in clone its bit is one of the signal's.
    pub const SPACES: u64 = 0x7e02_0080;
    /// Those that are not there.
    pub const UNSUPPORTED: u64 = SPACES & !NEW_SPACES;
}

struct Wish {
    flags: u64,
    signal: u64,
    stack: u64,
    parent_tid: u64,
    child_tid: u64,
    tls: u64,
    /// Where the number of the child's descriptor goes (CLONE_PIDFD).
    pidfd: u64,
    /// The number that the child shall have; 0: any.
    number: u32,
}

pub fn fork(f: &mut Frame) -> Result<u64> {
    new_process(f, &plain(0))
}

pub fn vfork(f: &mut Frame) -> Result<u64> {
    new_process(f, &plain(flag::VM | flag::VFORK))
}

fn plain(flags: u64) -> Wish {
    Wish {
        flags,
        signal: SIGCHLD,
        stack: 0,
        parent_tid: 0,
        child_tid: 0,
        tls: 0,
        pidfd: 0,
        number: 0,
    }
}

pub fn clone(f: &mut Frame) -> Result<u64> {
    create(
        f,
        &Wish {
            flags: f.arg(0) & !0xff,
            signal: f.arg(0) & 0xff,
            stack: f.arg(1),
            parent_tid: f.arg(2),
            child_tid: f.arg(3),
            tls: f.arg(4),
            pidfd: f.arg(2),
            number: 0,
        },
    )
}

/// clone3, with the fields that clone has too.
pub fn clone3(f: &mut Frame) -> Result<u64> {
    let (address, size) = (f.arg(0), f.arg(1));
    /// Bytes of the structure as Linux 6.1 has it.
    const KNOWN: u64 = 88;
    if size > PAGE {
        return Err(E2BIG);
    }
    if size < 64 {
        return Err(EINVAL);
    }
    for at in (KNOWN..size).filter(|at| at.is_multiple_of(8)) {
        let mut bytes = [0; 8];
        let count = (size - at).min(8) as usize;
        user::read_bytes(address.wrapping_add(at), &mut bytes[..count])?;
        if bytes != [0; 8] {
            return Err(E2BIG);
        }
    }
    let [flags, pidfd, child_tid, parent_tid, signal, stack, stack_size, tls] =
        user::read::<[u64; 8]>(address)?;
    let [set_tid, numbers] = match size {
        80.. => user::read::<[u64; 2]>(address + 64)?,
        _ => [0; 2],
    };
    let cgroup = match size {
        88.. => user::read::<u64>(address + 80)?,
        _ => 0,
    };
    let number = checked_numbers(set_tid, numbers)?;
    let both = flag::SIGHAND | flag::CLEAR_SIGHAND;
    let lone = flags & (flag::THREAD | flag::PARENT) != 0 && signal != 0;
    if flags & !flag::KNOWN != 0
        || flags & (flag::DETACHED | flag::SIGNAL) != 0
        || flags & both == both
        || signal > 64
        || lone
        || flags & flag::INTO_CGROUP != 0 && cgroup > i32::MAX as u64
        || (stack == 0) != (stack_size == 0)
    {
        return Err(EINVAL);
    }
    if flags & flag::INTO_CGROUP != 0 {
        usable(cgroup)?;
        return Err(ENOSYS);
    }
    let stack = match stack {
        0 => 0,
        _ => stack.checked_add(stack_size).ok_or(EINVAL)?,
    };
    user::range(stack, 0)?;
    create(
        f,
        &Wish {
            flags,
            signal,
            stack,
            parent_tid,
            child_tid,
            tls,
            pidfd,
            number,
        },
    )
}

/// The number that the child shall have (0: any): the innermost of those for its PID name spaces. Who is in the first one has one.
fn checked_numbers(place: u64, count: u64) -> Result<u32> {
    /// Name spaces within one another, on Linux.
    const DEEPEST: u64 = 32;
    match (place, count) {
        (0, 0) => Ok(0),
        (0, _) | (_, 0) | (_, DEEPEST..) => Err(EINVAL),
        (_, 2..) => Err(EINVAL),
        (place, _) => {
            let number = user::read::<i32>(place)?;
            let inside = process().in_pid_space.load(Ordering::Relaxed);
            match number {
                ..1 => Err(EINVAL),
                _ if inside => Err(ENOSYS),
                number => Ok(number as u32),
            }
        }
    }
}

fn create(f: &mut Frame, wish: &Wish) -> Result<u64> {
    if wish.flags & flag::UNSUPPORTED != 0 || wish.signal > 64 {
        return Err(EINVAL);
    }
    // Handlers are addresses.
    if wish.flags & (flag::SIGHAND | flag::VM) == flag::SIGHAND {
        return Err(EINVAL);
    }
    if wish.flags & flag::SETTLS != 0 && wish.tls >= PERSONALITY {
        return Err(EINVAL);
    }
    if wish.flags & flag::PIDFD != 0 {
        let never = flag::THREAD | flag::DETACHED;
        let one_place = wish.flags & flag::PARENT_SETTID != 0 && wish.pidfd == wish.parent_tid;
        if wish.flags & never != 0 || one_place {
            return Err(EINVAL);
        }
    }
    if wish.flags & flag::NEW_SPACES != 0 {
        // CLONE_FS
        if wish.flags & (flag::THREAD | 0x200) != 0 {
            return Err(EINVAL);
        }
        spaces::prepare(wish.flags)?;
        if wish.flags & spaces::NEW_USER == 0 && !process().is_capable(SYS_ADMIN) {
            return Err(EPERM);
        }
    }
    if wish.flags & flag::THREAD != 0 {
        let needed = flag::VM | flag::SIGHAND;
        if wish.flags & needed != needed || wish.stack == 0 {
            return Err(EINVAL);
        }
        if wish.number != 0 {
            return Err(ENOSYS);
        }
        new_thread(f, wish)
    } else {
        new_process(f, wish)
    }
}

fn birth(wish: &Wish, thread: bool) -> Birth {
    Birth {
        flags: wish.flags,
        parent_tid: wish.parent_tid,
        child_tid: wish.child_tid,
        thread,
        held: false,
        passed: None,
        parent: process().pid(),
        affinity: area().affinity.get(),
        keys: area().keys.get() != OwnKeys::None,
    }
}

fn new_process(f: &mut Frame, wish: &Wish) -> Result<u64> {
    if wish.flags & flag::PIDFD != 0 {
        process().state().files.check_room()?;
        user::write(wish.pidfd, &0u32)?;
    }
    let (pid, life) = if wish.flags & flag::VM == 0 {
        copy_process(f, wish)?
    } else {
        share_process(f, wish)?
    };
    if wish.flags & flag::PIDFD != 0 {
        let fd = pidfds::of_child(pid, life)?;
        user::write(wish.pidfd, &(fd as u32))?;
    }
    if wish.flags & flag::PARENT_SETTID != 0 {
        user::write(wish.parent_tid, &(pid as u32))?;
    }
    Ok(pid)
}

fn fs_base(wish: &Wish) -> u64 {
    if wish.flags & flag::SETTLS != 0 {
        wish.tls
    } else {
        area::fs_base()
    }
}

/// The child's first registers: this frame with 0 as the result.
fn child_frame(f: &Frame, wish: &Wish) -> Frame {
    Frame {
        rax: 0,
        rsp: if wish.stack != 0 { wish.stack } else { f.rsp },
        number: area::NO_CALL,
        ..*f
    }
}

/// The child has these portals, or all → its number and life, and whether the caller is traced and has yet to wait for it.
fn request(
    wish: &Wish,
    target: &ThreadArea,
    flags: u64,
    slots: Option<&Slots>,
) -> Result<(u64, u64, bool)> {
    let parent = if wish.flags & flag::PARENT != 0 {
        proc::fork::PARENT
    } else {
        0
    };
    let words = [
        proc::FORK,
        label::child(),
        target.frame,
        fs_base(wish),
        target.me,
        flags | parent | wish.flags & flag::NEW_SPACES & !spaces::NEW_MOUNTS,
        wish.signal | u64::from(wish.number) << 32,
    ];
    let request = match slots {
        Some(slots) => Request::new(&words).out(slots.bytes()),
        None => Request::new(&words),
    };
    request
        .call(linux_slot::PROC)
        .map(|w| (w[0], w[1], w[2] != 0))
}

fn copy_process(f: &mut Frame, wish: &Wish) -> Result<(u64, u64)> {
    let area = area();
    let process = process();
    area.save_fpu();
    // The child finds its registers where this thread has its own.
    let mine = *f;
    f.publish(&child_frame(&mine, wish));
    reap_threads(process);
    frames::before_fork();
    spare::give_up();
    let slots = process.hold_for_copy();
    area.birth.set(Birth {
        held: slots.is_some(),
        ..birth(wish, false)
    });
    let result = loop {
        match request(wish, area, 0, slots.as_ref()) {
            // Another thread is having much memory changed.
            Err(EBUSY) => gate::nap(BUSY),
            result => break result.map(|(pid, life, _)| (pid, life)),
        }
    };
    if slots.is_some() {
        process.release_everything();
    }
    f.publish(&mine);
    result
}

fn share_process(f: &mut Frame, wish: &Wish) -> Result<(u64, u64)> {
    let parent = area();
    reap_threads(process());
    frames::before_fork();
    spare::give_up();
    let arena = Arena::new().ok_or(ENOMEM)?;
    let waits = wish.flags & flag::VFORK != 0;
    if !waits {
        process().state().lends_memory = true;
    }
    // All that is made here is the child's.
    let before = parent.arena.replace(Some(arena));
    let mut slots = None;
    let (copy, name) = process().separate_held(&mut slots);
    let child = area::area_in(arena, Box::leak(Box::new(copy)));
    parent.arena.set(before);
    let passed = name.map(|name| (process(), name));
    child.birth.set(Birth {
        passed,
        ..birth(wish, false)
    });
    child.set_frame(&child_frame(f, wish));
    child.save_fpu();
    child.peer.mask.store(parent.mask(), Ordering::Relaxed);
    {
        let mut signals = child.signals.borrow_mut();
        let mine = parent.signals.borrow();
        // With a stack of its own the child leaves the alternate stack to its parent.
        if wish.stack == 0 || wish.flags & flag::VFORK != 0 {
            signals.alternate = mine.alternate;
        }
        signals.saved_mask = mine.saved_mask;
    }
    let flags = if waits {
        proc::fork::VFORK
    } else {
        proc::fork::SHARE
    };
    let result = request(wish, child, flags, slots.as_ref());
    if let Some((process, name)) = passed {
        process.release_passed(name);
    }
    if let (true, Ok((pid, _, true))) = (waits, &result) {
        crate::trace::vfork(f, *pid);
    }
    let result = result.map(|(pid, life, _)| (pid, life));
    if waits || result.is_err() {
        // The child has ended or has memory of its own by now.
        // It may have been killed anywhere: with no other thread here nobody else can hold a lock.
        if area::process().state().threads.len() <= 1 {
            arena::left_alone();
        }
        arena.discard();
    }
    result
}

/// CLONE_PARENT_SETTID: by parent or child, whoever comes first, and never again: the C library lets the end of the thread clear the same word
/// (CLONE_CHILD_CLEARTID), which may be before the parent runs again.
fn announce(process: &Process, peer: &Peer, address: u64, tid: u32) -> Result<()> {
    let _state = process.state();
    if peer.announced.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    user::write(address, &tid).map_err(|_| EFAULT)
}

fn new_thread(f: &mut Frame, wish: &Wish) -> Result<u64> {
    let parent = area();
    let process = process();
    reap_threads(process);
    let child = spawn_area(process).ok_or(ENOMEM)?;
    child.birth.set(birth(wish, true));
    child.set_frame(&child_frame(f, wish));
    child.save_fpu();
    child.peer.mask.store(parent.mask(), Ordering::Relaxed);
    parent.pass_filters(child);
    // From the second thread on every thread's name in the nucleus is known to the others.
    own_id(parent);
    let words = [
        proc::THREAD_CREATE,
        label::child(),
        child.frame,
        fs_base(wish),
        child.me,
        0,
    ];
    // The child may have run, ended and been freed before the call is back.
    let peer = child.peer.clone();
    process.state().threads.push(peer.clone());
    match Request::new(&words).call(linux_slot::PROC) {
        Ok(words) => {
            let tid = words[0];
            peer.tid.store(tid as u32, Ordering::Relaxed);
            peer.nucleus.store(words[1] as u32, Ordering::Relaxed);
            if wish.flags & flag::PARENT_SETTID != 0 {
                announce(process, &peer, wish.parent_tid, tid as u32)?;
            }
            Ok(tid)
        }
        Err(error) => {
            let mut state = process.state();
            state
                .threads
                .retain(|p| !alloc::sync::Arc::ptr_eq(p, &peer));
            drop(state);
            area::drop_spawned(child);
            Err(error)
        }
    }
}

/// Free the areas of threads that are gone.
fn reap_threads(process: &Process) {
    let mut state = process.state();
    let mut at = 0;
    while at < state.dead.len() {
        let (me, nucleus) = state.dead[at];
        let alive = gate::service(
            linux_slot::CURRENT,
            current::THREAD_ALIVE,
            &[nucleus as u64],
        )
        .is_ok_and(|w| w[0] != 0);
        if alive {
            at += 1;
        } else {
            state.dead.swap_remove(at);
            area::drop_dead(me);
        }
    }
}

/// First act of a new process or thread, on its own personality stack; then the exit code enters the program.
pub fn child_main(told: u64) {
    let area = area();
    let pid = told as u32;
    let traced = told & proc::TRACED_CHILD != 0;
    area.traced.set(traced.into());
    area.stop_wanted.set(traced);
    if traced {
        area.mark_poked();
    }
    let process = process();
    let birth = area.birth.get();
    area.restore_fpu();
    if let Some((process, name)) = birth.passed {
        process.release_passed(name);
    }
    if birth.thread {
        let words = Request::new(&[proc::IDS, 0]).call(linux_slot::PROC);
        area.set_tid(words.map_or(0, |w| w[5] as u32));
        area.peer
            .nucleus
            .store(gate::thread_id(), Ordering::Relaxed);
    } else {
        let shared = birth.flags & flag::VM != 0;
        if birth.held {
            process.release_everything();
        } else if !shared && area.arena.get().is_some() {
            // A copy of what a child shared with its parent, whose threads may have held locks.
            arena::left_alone();
        }
        new_identity(pid, birth.parent, shared);
        if birth.flags & flag::CLEAR_SIGHAND != 0 {
            process.state().actions.reset_for_exec();
            crate::signal::calls::tell_proc();
        }
        // What fails for want of memory ends the child: its maker asked for a child that is alone there.
        if spaces::born_apart(birth.flags & flag::NEW_SPACES).is_err() {
            super::exit::die(crate::signal::SIGKILL);
        }
    }
    area.keys.set(match birth.thread && birth.keys {
        true => OwnKeys::Wanted,
        false => OwnKeys::None,
    });
    area.affinity.set(birth.affinity);
    if birth.affinity != 0 {
        // It worked for the maker, so it works.
        let _ = gate::affinity(0, birth.affinity);
    }
    let tid = area.tid();
    area.clear_tid.set(0);
    area.robust_list.set(0);
    if birth.flags & flag::CHILD_CLEARTID != 0 {
        area.clear_tid.set(birth.child_tid);
    }
    // A wild address is the program's own loss, as on Linux.
    if birth.flags & flag::CHILD_SETTID != 0 {
        let _ = user::write(birth.child_tid, &tid);
    }
    if birth.thread && birth.flags & flag::PARENT_SETTID != 0 {
        let _ = announce(process, &area.peer, birth.parent_tid, tid);
    }
}

fn new_identity(pid: u32, parent: u32, shared: bool) {
    let area = area();
    let process = process();
    process.pid.store(pid, Ordering::Relaxed);
    let flags = area.birth.get().flags;
    let apart =
        process.children_in_pid_space.load(Ordering::Relaxed) || flags & spaces::NEW_PIDS != 0;
    process.in_pid_space.store(apart, Ordering::Relaxed);
    process
        .children_in_pid_space
        .store(apart, Ordering::Relaxed);
    // (What its parent calls itself may not be what the child calls it.)
    process.ppid.store(
        if flags & flag::PARENT != 0 || apart {
            0
        } else {
            parent
        },
        Ordering::Relaxed,
    );
    process.pending.store(0, Ordering::Relaxed);
    area.set_tid(pid);
    area.peer.nucleus.store(0, Ordering::Relaxed);
    area.signals.borrow_mut().queue = Queue::default();
    let mut state = process.state();
    state.threads.clear();
    state.threads.push(area.peer.clone());
    state.dead.clear();
    state.assume_capacity();
    if area.birth.get().held {
        state.forget_users();
    }
    state.files.belongs_to(pid);
    state.queue = Queue::default();
    if !shared {
        let files = state.files.files();
        files.for_each(|(_, entry)| entry.file.signals.leave_notifier());
        frames::forget(state.files.files().map(|(_, entry)| &entry.file), true);
    }
    let contexts = core::mem::take(&mut state.contexts);
    drop(state);
    aio::leave(contexts, area.birth.get().held);
    if !shared {
        // Another thread of the parent may have kept one meanwhile.
        spare::give_up();
        // Mutexes of the nucleus are not inherited.
        let _ = process.futexes.lock().clear();
        // The parent's.
        area.poll_set.take().close();
    }
}

pub fn set_tid_address(f: &mut Frame) -> Result<u64> {
    let area = area();
    area.clear_tid.set(f.arg(0));
    Ok(area.tid() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_space_is_made_or_refused() {
        const CGROUP: u64 = 0x200_0000;
        const UTS_TO_NETWORK: u64 = 0x7c00_0000;
        const TIME: u64 = 0x80;
        for kind in [0x2_0000, CGROUP, UTS_TO_NETWORK, TIME] {
            assert_eq!((flag::NEW_SPACES | flag::UNSUPPORTED) & kind, kind);
        }
        assert_eq!(flag::NEW_SPACES & flag::UNSUPPORTED, 0);
        // In clone it belongs to the signal.
        assert_eq!(TIME & !0xff, 0);
    }
}
