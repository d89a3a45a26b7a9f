//! A thread that makes calls for its component, one at a time, so that the component need not wait for whoever is called. It has a buffer, which is the call's
//! out or in part, and notifies a portal when the answer is there.
//!
//! It works at the highest priority of ordinary programs, and allocates nothing. What always holds: the buffer is either the component's or the thread's, as
//! the desk's state says.

use crate::memory;
use crate::own_thread::OwnThread;
use crate::portal::{Message, Portal};
use crate::semaphore::Semaphore;
use cairn_abi::layout::PAGE;
use cairn_abi::{priority, Error};
use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// States of a desk. Under way the thread has the buffer.
const FREE: u64 = 0;
const UNDER_WAY: u64 = 1;
const DONE: u64 = 2;

/// What component and thread share: the first page of their memory.
#[repr(C)]
struct Desk {
    state: AtomicU64,
    begin: AtomicU64,
    told: AtomicU64,
    called: AtomicU64,
    words: [AtomicU64; 8],
    out: AtomicU64,
    input: AtomicU64,
    /// An [`Error`]'s number, or 0.
    error: AtomicU64,
    buffer: AtomicU64,
}

pub struct Errand {
    desk: &'static Desk,
    begin: Semaphore,
    length: usize,
}

impl Errand {
    /// With a buffer of so many bytes (whole pages). `told` is notified of each answer.
    pub fn start(length: usize, told: Portal) -> Result<Errand, Error> {
        let page = PAGE as usize;
        let memory = memory::map(page + length).ok_or(Error::NoMemory)?;
        let (first, buffer) = memory.split_at_mut(page);
        memory::populate(first)?;
        // SAFETY: a page of zeroes that is kept for ever and used for nothing else; a `Desk` is atomics, which any bytes are, and fits into it.
        let desk: &'static Desk = unsafe { &*first.as_mut_ptr().cast::<Desk>() };
        let begin = Semaphore::new(0)?;
        desk.begin.store(begin.0 .0.into(), Relaxed);
        desk.told.store(told.0.into(), Relaxed);
        desk.buffer.store(buffer.as_mut_ptr() as u64, Relaxed);
        let thread = OwnThread::start(run, core::ptr::from_ref(desk) as u64)?;
        thread.set_priority(priority::ORDINARY_MOST)?;
        thread.go()?;
        Ok(Errand {
            desk,
            begin,
            length,
        })
    }

    /// The buffer; empty while a call is under way.
    pub fn buffer(&mut self) -> &mut [u8] {
        let length = match self.desk.state.load(Acquire) {
            FREE => self.length,
            _ => 0,
        };
        // SAFETY: the memory behind the desk, which is kept for ever; the thread uses it under way only, and this value is the only way to it otherwise.
        unsafe {
            core::slice::from_raw_parts_mut(self.desk.buffer.load(Relaxed) as *mut u8, length)
        }
    }

    /// Call: the first `out` bytes of the buffer go along, or the first `input` come back. Not while a call is under way.
    pub fn call(&mut self, called: Portal, words: [u64; 8], out: usize, input: usize) {
        let desk = self.desk;
        if desk.state.load(Acquire) != FREE {
            return;
        }
        desk.called.store(called.0.into(), Relaxed);
        for (place, word) in desk.words.iter().zip(words) {
            place.store(word, Relaxed);
        }
        desk.out.store(out.min(self.length) as u64, Relaxed);
        desk.input.store(input.min(self.length) as u64, Relaxed);
        desk.state.store(UNDER_WAY, Release);
        let _ = self.begin.v();
    }

    /// The words of the answer, if there is one that was not asked for yet. Portals that came with it are closed.
    pub fn outcome(&mut self) -> Option<Result<[u64; 8], Error>> {
        let desk = self.desk;
        if desk.state.load(Acquire) != DONE {
            return None;
        }
        let words = core::array::from_fn(|i| desk.words[i].load(Relaxed));
        let error = Error::from_code(desk.error.load(Relaxed) as u8);
        desk.state.store(FREE, Release);
        Some(error.map_or(Ok(words), Err))
    }

    /// It will not be used for a while: the buffer's frames go back.
    pub fn rest(&mut self) {
        let buffer = self.buffer();
        let _ = memory::release(buffer);
    }
}

extern "C" fn run(desk: u64) -> ! {
    // SAFETY: `start` gave the address of a desk, which is kept for ever.
    let desk = unsafe { &*(desk as *const Desk) };
    let portal = |place: &AtomicU64| Portal(place.load(Relaxed) as u32);
    loop {
        let _ = Semaphore(portal(&desk.begin)).p();
        if desk.state.load(Acquire) != UNDER_WAY {
            continue;
        }
        let mut words = [0; 8];
        for (word, place) in words.iter_mut().zip(&desk.words) {
            *word = place.load(Relaxed);
        }
        let (out, input) = (
            desk.out.load(Relaxed) as usize,
            desk.input.load(Relaxed) as usize,
        );
        let buffer = desk.buffer.load(Relaxed) as *mut u8;
        // SAFETY: as long as a call is under way the buffer is this thread's, and both lengths are at most its own.
        let buffer = unsafe { core::slice::from_raw_parts_mut(buffer, out.max(input)) };
        let message = match out {
            0 => Message::new(&words).input(buffer),
            _ => Message::new(&words).out(buffer),
        };
        let error = match portal(&desk.called).call(message) {
            Ok(answer) => {
                for (place, word) in desk.words.iter().zip(answer) {
                    place.store(word, Relaxed);
                }
                0
            }
            Err(error) => error as u64,
        };
        desk.error.store(error, Relaxed);
        desk.state.store(DONE, Release);
        let _ = portal(&desk.told).notify(1);
    }
}
