//! What the personality serves itself: the list of descriptors. And its part of signal descriptors: the event server knows their masks and who waits, but signals are taken by the process that reads.

use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{Result, EAGAIN, EINVAL};
use crate::machine::area::{area, process};
use crate::machine::lock::Lock;
use crate::machine::request::Request;
use crate::machine::user::{self, UserRange};
use crate::signal::{calls::want, deliver, si};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_idl::event;
use cairn_idl::fs::{self, o, poll};
use core::sync::atomic::Ordering;

/// The event server's name.
pub const MANAGER: &[u8] = b"event:";

pub enum Object {
    /// Position in the list of descriptors.
    Descriptors(Lock<u64>),
}

impl core::fmt::Debug for Object {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl Object {
    pub fn name(&self) -> &'static str {
        match self {
            Object::Descriptors(_) => "fd",
        }
    }

    pub fn inode(&self) -> u64 {
        self as *const Object as u64 >> 4 & 0xffff_ffff
    }

    pub fn separate(&self) -> Object {
        match self {
            Object::Descriptors(position) => Object::Descriptors(Lock::new(*position.lock())),
        }
    }
}

/// A new object of the event server gets a descriptor.
pub fn open(words: &[u64], kind: u64, flags: u64) -> Result<u64> {
    process().state().files.check_room()?;
    crate::path::make_room()?;
    let manager = crate::path::scheme(MANAGER)?;
    let words = Request::new(words).brings(1).call(manager)?;
    let file = Arc::new(OpenFile::portal(words[7] as u32, kind, 0o600));
    let cloexec = flags & o::CLOEXEC != 0;
    process()
        .state()
        .files
        .insert(file, cloexec, 0)
        .map(u64::from)
}

/// The process has signal descriptors, or had some: from now on the event server is told which signals wait.
pub fn tell_signals_from_now_on(file: &OpenFile) {
    process().signal_files.store(true, Ordering::Relaxed);
    let _ = Request::new(&[event::SIGNALS_NOW, waiting_signals()]).call(file.slot());
}

fn waiting_signals() -> u64 {
    area().signals.borrow().queue.bits() | process().pending.load(Ordering::Relaxed)
}

/// Signals came or were taken: whoever waits at a signal descriptor of this process is to know.
#[inline]
pub fn signals_changed() {
    if process().signal_files.load(Ordering::Relaxed) {
        tell_signals();
    }
}

#[cold]
#[inline(never)]
fn tell_signals() {
    let process = process();
    let files: Vec<_> = {
        let state = process.state();
        let signals = |entry: &&crate::descriptors::Entry| entry.file.is(event_kind::SIGNALS);
        let all = state.files.files().map(|(_, entry)| entry);
        all.filter(signals)
            .map(|entry| entry.file.clone())
            .collect()
    };
    let waiting = waiting_signals();
    for file in &files {
        let _ = Request::new(&[event::SIGNALS_NOW, waiting]).call(file.slot());
    }
    if files.is_empty() {
        process.signal_files.store(false, Ordering::Relaxed);
    }
}

/// `struct signalfd_siginfo`, 128 bytes.
fn signal_record(info: &crate::signal::Info) -> [u8; 128] {
    let mut b = [0; 128];
    let mut put = |at: usize, value: u32| b[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(0, info.signal);
    put(8, info.code as u32);
    if info.code == si::TIMER {
        put(24, info.pid);
        put(32, info.uid);
    } else {
        put(12, info.pid);
        put(16, info.uid);
    }
    put(40, info.value as u32);
    put(44, info.value as u32);
    b[48..56].copy_from_slice(&info.value.to_le_bytes());
    b
}

/// read(2) on a signal descriptor.
pub fn read_signals(file: &OpenFile, range: UserRange) -> Result<u64> {
    if range.len() < 128 {
        return Err(EINVAL);
    }
    let [_, mask, nonblocking, ..] = Request::new(&[event::SIGNALS_MASK, 0]).call(file.slot())?;
    want(mask);
    tell_signals_from_now_on(file);
    let mut done = 0;
    loop {
        deliver::take_all();
        area().mark();
        while done + 128 <= range.len() {
            let Some(info) = deliver::take_queued(mask) else {
                break;
            };
            user::write_bytes(range.after(done).base(), &signal_record(&info))?;
            done += 128;
        }
        if done != 0 {
            return Ok(done);
        }
        if nonblocking != 0 {
            return Err(EAGAIN);
        }
        Request::new(&[fs::POLL, poll::IN, 1]).wait(file.slot())?;
    }
}
