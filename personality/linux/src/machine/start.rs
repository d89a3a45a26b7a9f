//! The first instructions in a domain of `proc`'s own making, with rdi → block and a small stack: of the first process {pid, 0, argc, envc, path length,
//! length of all bytes, memory, its length, bytes}, of a file with set-id bits
//! ([`crate::calls::fresh`]) {pid, 1, length of the root directory's path, 1 with a root of its own, what name spaces it has, length of all bytes,
//! memory, its length, bytes}.

use super::area::{self, Frame, ThreadArea};
use super::entry::resume_clean;
use super::gate;
use super::heap::{Lists, HEAP};
use crate::calls::fresh;
use crate::first;
use crate::process::Process;
use alloc::boxed::Box;
use core::sync::atomic::Ordering;

/// Header of the block.
#[repr(C)]
struct Block {
    pid: u64,
    fresh: u64,
    /// Or the length of the root directory's path.
    argc: u64,
    /// Or 1 with a root of its own.
    envc: u64,
    /// Or the name spaces.
    path_length: u64,
    length: u64,
    /// Memory that nobody uses yet.
    own: u64,
    own_length: u64,
}

/// Entered by `proc`.
///
/// # Safety
/// `block` is what `proc` put there; this is the first thread's first instruction.
pub unsafe extern "C" fn start(block: *const u8) -> ! {
    // SAFETY: the block lies in memory that `proc` wrote before it started this thread.
    let (header, bytes) = unsafe {
        let header = &*(block as *const Block);
        let bytes = block.add(core::mem::size_of::<Block>());
        (
            header,
            core::slice::from_raw_parts(bytes, header.length as usize),
        )
    };
    if let Some(heap) = header.own_length.checked_sub(area::BLOCK as u64) {
        let end = header.own + heap;
        HEAP.begin(Lists::within(header.own as usize, end as usize));
        area::begin(end);
    }
    let process: &'static Process = Box::leak(Box::new(Process::new()));
    let Some(area) = ThreadArea::create(process) else {
        gate::log_line(b"linux: no memory for the first process");
        gate::exit_thread(127)
    };
    area::install(area);
    process.pid.store(header.pid as u32, Ordering::Relaxed);
    area.set_tid(header.pid as u32);
    process.state().threads.push(area.peer.clone());
    let (cs, ss) = area::selectors();
    let mut frame = Frame {
        cs,
        ss,
        ..Frame::default()
    };
    if header.fresh != 0 {
        let (root, told) = bytes.split_at(bytes.len().min(header.argc as usize));
        let root = (header.envc != 0).then_some(root);
        fresh::run(&mut frame, root, header.path_length, told);
    } else {
        let Some(wish) = first::parse(bytes, header.argc, header.envc) else {
            gate::log_line(b"linux: the start block makes no sense");
            gate::exit_thread(127)
        };
        first::run(&mut frame, wish);
    }
    area.set_frame(&frame);
    resume_clean()
}
