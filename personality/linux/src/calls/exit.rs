//! The end of threads and processes.

use crate::calls::futex;
use crate::errno::Result;
use crate::machine::area::{area, process, Frame};
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user;
use cairn_abi::layout::linux_slot;
use cairn_idl::proc;
use core::sync::atomic::Ordering;

/// End the process with a wait status.
pub fn end(status: u64) -> ! {
    if area().is_traced() {
        crate::trace::ending(status);
    }
    let _ = Request::new(&[proc::EXIT, status]).call(linux_slot::PROC);
    gate::exit_thread(status)
}

/// End the process by a signal.
pub fn die(signal: u32) -> ! {
    end(signal as u64 & 0x7f)
}

pub fn exit_group(f: &mut Frame) -> Result<u64> {
    let process = process();
    if process.pid() == 1 && !process.in_pid_space.load(Ordering::Relaxed) {
        // With the first process the machine ends.
        super::io::close_disks();
    }
    futex::release_robust_list();
    end((f.arg(0) & 0xff) << 8)
}

pub fn exit(f: &mut Frame) -> Result<u64> {
    leave(f.arg(0) & 0xff)
}

/// End this thread, and with the last one the process.
pub fn leave(code: u64) -> ! {
    let area = area();
    let process = process();
    // As long as others find the thread: who meets it in a word and does not find it any more must find another word then.
    futex::release_robust_list();
    let mut state = process.state();
    let last = state.threads.len() <= 1;
    if !last {
        state
            .threads
            .retain(|p| p.tid.load(Ordering::Relaxed) != area.tid());
        state
            .dead
            .push((area.me, area.peer.nucleus.load(Ordering::Relaxed)));
    }
    drop(state);
    if last {
        end(code << 8);
    }
    if area.is_traced() {
        crate::trace::ending(code << 8);
    }
    let clear = area.clear_tid.get();
    if clear != 0 && user::write(clear, &0u32).is_ok() {
        futex::wake(clear, 1, u32::MAX);
    }
    area.poll_set.take().close();
    super::keys::thread_ends();
    let _ = Request::new(&[proc::THREAD_EXIT, code]).call(linux_slot::PROC);
    gate::exit_thread(code)
}
